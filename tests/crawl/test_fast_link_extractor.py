"""Links read in bulk are those of Scrapy's link extractor, whatever a page has in its references."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import Request
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor

from scrapy_frontier.crawl.link_extractor import PageReader, text_of

PAGE = "http://www.example.com:8080/some/where/page.html?a=1"


def response(body: str, url: str = PAGE, encoding: str = "utf-8") -> HtmlResponse:
    return HtmlResponse(url, body=body.encode(encoding, "xmlcharrefreplace"), encoding=encoding)


def anchors(*hrefs: str) -> str:
    quoted = (href.replace("&", "&amp;").replace('"', "&quot;") for href in hrefs)
    return "".join(f'<a href="{href}">{number}</a>' for number, href in enumerate(quoted))


def by_scrapy(extractor: Any, page: HtmlResponse) -> list[str]:
    """The pages that the requests of a spider lead to: the first of those with one address counts."""
    urls = []
    for link in extractor.extract_links(page):
        try:
            url = Request(link.url).url
        except ValueError:
            continue
        if url.startswith(("http://", "https://")):
            urls.append(url)
    return first_of_each(urls)


def by_us(extractor: Any, page: HtmlResponse) -> list[str]:
    return first_of_each([link[0] for link in PageReader(extractor).read(page) if link])


def first_of_each(urls: list[str]) -> list[str]:
    pages: dict[str, str] = {}
    for url in urls:
        pages.setdefault(url.partition("#")[0], url)
    return list(pages.values())


def assert_same(page: HtmlResponse, **told: Any) -> list[str]:
    extractor = LinkExtractor(**told)
    found = by_us(extractor, page)
    assert found == by_scrapy(extractor, page)
    return found


_PIECES = (
    "a`b.html`..`.``x y`%41`%zz`~u`a:b`a;p`a,b`(c)`'`*`@`ü`日`a\tb`a\nb`[`]`{`^`\\`a=b`&`q.pdf`"
    "Q.PDF`tar.gz`.x`a."
)
PIECES = st.sampled_from([*_PIECES.split("`"), "|"])
PATHS = st.lists(PIECES, max_size=5).map("/".join)
_TAILS = "`#`#f`#f(x)`?`?q`?q=1&r=2`?q=ü`?a b`?q#f`#ü`?a=;b`?'`#?#"
TAILS = st.sampled_from(_TAILS.split("`"))
_BEGINS = (
    "`/`//`///`./`../`../../`../../../../` `\t/`http:`http:/`http://`"
    "http://www.example.com:8080/`HTTP://WWW.Example.COM/`http://other.example/`"
    "https://ä.example/`http://127.0.0.2:99999/`http://127.0.0.2:080/`http://[::1]/`"
    "http://[bad/`http://a..b/`http://user:pw@h.example/`mailto:`javascript:`data:`"
    "ftp://h.example/`file:///`x:`http://xn--4ca.example/`http://a_b.example/`"
    "http://llllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllll.example/`"
    "https://h.example"
)
BEGINS = st.sampled_from(_BEGINS.split("`"))
HREFS = st.builds(lambda begin, path, tail: begin + path + tail, BEGINS, PATHS, TAILS) | st.text(max_size=12)
_BASES = "`/`/base/dir/`../x/`http://base.example/a/b/?q`http://base.example`mailto:x`#`a b/`//h/x//y/"
BASES = st.sampled_from(_BASES.split("`"))
URLS = st.sampled_from(
    [
        PAGE,
        "http://h.example/",
        "http://h.example",
        "http://h.example/a//b/../c;d/e",
        "https://h.example/ä/?q#f",
    ]
)


@settings(max_examples=400, deadline=None)
@given(
    hrefs=st.lists(HREFS, max_size=8),
    url=URLS,
    base=st.none() | BASES,
    encoding=st.sampled_from(["utf-8", "latin-1"]),
)
def test_every_reference_leads_where_a_link_extractor_and_a_request_say(
    hrefs: list[str], url: str, base: str | None, encoding: str
) -> None:
    head = "" if base is None else f'<base href="{base}">'
    body = f"<html><head>{head}</head><body>{anchors(*hrefs)}</body></html>"
    assert_same(response(re.sub("[\ud800-\udfff]", "?", body), url, encoding))


def test_a_base_that_is_no_url_costs_no_link() -> None:
    """A link extractor raises there, and the page fails."""
    page = response('<base href="http://[bad">' + anchors("/a"), PAGE)
    with pytest.raises(ValueError, match="Invalid IPv6 URL"):
        by_scrapy(LinkExtractor(), page)
    assert by_us(LinkExtractor(), page) == by_us(LinkExtractor(), response(anchors("/a"), PAGE))


@pytest.mark.parametrize("base", ["", "../above/", "http://elsewhere.example/x/y"])
def test_plain_references_are_read_without_parsing(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hrefs = [
        "a",
        "./a/b",
        "../c.html#d(e)",
        "../../../../../f",
        "/g/?h=1&i",
        "#j",
        "https://k.example/l",
        "m/",
    ]
    page = response(
        f'<base href="{base}">{anchors(*hrefs)}' if base else anchors(*hrefs), PAGE.partition("?")[0]
    )
    expected = by_scrapy(LinkExtractor(), page)
    asked: list[str] = []

    def join(base: str, url: str) -> str:
        asked.append(url)
        return url

    monkeypatch.setattr("scrapy_frontier.crawl.link_extractor.urljoin", join)
    assert by_us(LinkExtractor(), page) == expected
    assert len(expected) == len(hrefs)
    assert asked == []


@pytest.mark.parametrize(
    "told",
    [
        {"allow": "/keep"},
        {"deny": [r"\?", "drop"]},
        {"allow_domains": "keep.example", "deny_domains": ["no.keep.example"]},
        {"deny_domains": "www.example.com"},
        {"tags": ("a", "link", "frame"), "attrs": ("href", "src")},
        {"tags": ("img", "a"), "attrs": ("src", "href"), "deny_extensions": ()},
        {"deny_extensions": ["html", "tar.gz"]},
        {"restrict_css": "#main"},
        {"restrict_xpaths": ["//p", "//div[1]"]},
        {"restrict_text": "more"},
        {"canonicalize": True},
        {"unique": False},
        {"strip": False},
        {"process_value": lambda value: value.replace("keep", "kept") if "drop" not in value else None},
        {"tags": "*", "attrs": "*"},
    ],
    ids=lambda told: "-".join(told),
)
def test_what_an_extractor_is_told_holds(told: dict[str, Any]) -> None:
    body = """<link href="/style.css"><link href="/next"><div><a href="/keep?b=2&a=1">less</a></div>
        <div id=main><p><a href=" /keep/drop.html ">more</a><a href="x.tar.gz">more</a><a>none</a>
        <a href="/keep?b=2&a=1">more</a><a href="x;p=1/y.pdf">x</a><a href="y.HTML?x.pdf#z.gz">more</a></p>
        <a href="http://keep.example/q">more</a><a href="http://no.keep.example/">x</a><img src="i.png">
        <area href="/area"><iframe src="/frame"></iframe><frame src="/f2"></div>"""
    assert_same(response(body), **told)


@pytest.mark.parametrize("denied", [["html"], ["tar.gz"], ["com", "zip", "a.b"], []], ids=str)
def test_an_extension_is_judged_by_the_path_whatever_came_before(denied: list[str]) -> None:
    hrefs = ["/a;p=1.html", "/b.html", "/c.gz", "/d.tar.gz", "http://h.zip", "/e.zip", "/f.ZIP", "/g?x.html"]
    hrefs += ["/h.html#i", "http://j.com", "/k.b", "/l.a.b", "/m", "/n.html/", "http://o.html/p", "/q.html"]
    hrefs += [
        "/r.zip#s.gz",
        "/t.zip?u=v.gz",
        "/w.zip;x.gz",
        "/y#z",
        "/y.a?b=/c",
        "/d.gz/e#f",
        "/g.gz?h=/i.zip",
    ]
    extractor = LinkExtractor(deny_extensions=denied)
    reader = PageReader(extractor)
    for order in (hrefs, hrefs[::-1]):
        page = response(anchors(*order))
        assert first_of_each([link[0] for link in reader.read(page) if link]) == by_scrapy(extractor, page)


class OwnExtractor(LinkExtractor):
    def extract_links(self, response: Any) -> Any:
        return super().extract_links(response)[:1]


def test_an_extractor_of_another_class_is_asked_itself() -> None:
    page = response(anchors("/a", "/b"))
    assert by_us(OwnExtractor(), page) == by_scrapy(OwnExtractor(), page) == ["http://www.example.com:8080/a"]


def test_the_text_of_an_anchor_is_at_hand() -> None:
    page = response('<a href="/a">one <b>two</b></a><a href="/b"></a>')
    expected = [link.text for link in LinkExtractor().extract_links(page)]
    for extractor in (LinkExtractor(), OwnExtractor()):
        found = [text_of(link[1]) for link in PageReader(extractor).read(page) if link]
        assert found == expected[: len(found)]


def test_a_page_without_end_of_hostile_references_is_read() -> None:
    hrefs = [
        "a" * 100_000,
        "../" * 50_000,
        "/" * 50_000,
        "%" * 50_000,
        "http://" + "a." * 30_000,
        "?" + "&" * 50_000,
    ]
    assert_same(response(anchors(*hrefs)))
