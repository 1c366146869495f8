"""What of a page counts as changed: its body, what a reader sees of it, or where it links to."""

from __future__ import annotations

import gzip
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.http import HtmlResponse, Response, TextResponse
from test_links import ADDON, LinkSpider

from scrapy_frontier.crawl.link_extractor import DIGEST_BYTES, digest_by, of_content
from scrapy_frontier.settings import DIGESTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Crawl
    from server import Web

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="<>&\0\r"), max_size=30)
PAGE = (
    "<html><head><title>{title}</title><meta name=csrf content={token}><script>var t={token}</script></head>"
    "<body style='color: red'><!-- {token} --><h1>{text}</h1><form><input type=hidden value={token}></form>"
    "<div hidden>{token}</div><p style='display: none'>{token}</p><iframe src=/ad?{token}>ad {token}</iframe>"
    "<noscript><img src=/pixel?{token}></noscript><a href='{href}'>on</a></body></html>"
)


def page(text: str = "Hello", token: str = "1", href: str = "/next", title: str = "T") -> HtmlResponse:
    body = PAGE.format(text=text, token=token, href=href, title=title)
    return HtmlResponse("http://h/a/", body=body.encode("utf-8", "replace"), encoding="utf-8")


def html(body: str) -> HtmlResponse:
    return HtmlResponse("http://h/", body=body.encode(), encoding="utf-8")


@pytest.mark.parametrize("kind", DIGESTS)
@given(text=WORDS, token=st.from_regex("[a-z0-9]{1,20}", fullmatch=True))
def test_equal_pages_have_equal_digests_of_five_bytes(kind: str, text: str, token: str) -> None:
    digest = digest_by(kind)
    assert digest(page(text, token)) == digest(page(text, token))
    assert len(digest(page(text, token))) == DIGEST_BYTES


@given(token=st.from_regex("[a-z0-9]{2,20}", fullmatch=True))
def test_tokens_change_the_body_but_neither_text_nor_links(token: str) -> None:
    assert digest_by("body")(page(token=token)) != digest_by("body")(page())
    assert digest_by("text")(page(token=token)) == digest_by("text")(page())
    assert digest_by("links")(page(token=token)) == digest_by("links")(page())


@pytest.mark.parametrize("other", [{"text": "Hallo"}, {"title": "U"}, {"href": "/other"}])
def test_text_title_and_links_count_as_text(other: dict[str, str]) -> None:
    assert digest_by("text")(page(**other)) != digest_by("text")(page())


@given(st.lists(WORDS, min_size=1, max_size=6))
def test_every_word_a_reader_sees_counts(words: list[str]) -> None:
    text = digest_by("text")
    body = "".join(f"<p>{word}<b>{word}</b><!-- {word} -->{word}</p>" for word in words)
    assert text(html(f"<div>{body}</div>")) == text(html(f"<div>{body.replace('</p>', '</p> ')}</div>"))
    assert text(html(f"<div>{body}more</div>")) != text(html(f"<div>{body}</div>"))
    assert text(html(f"<div>{body}<script>x</script>tail</div>")) != text(
        html(f"<div>{body}<script>x</script></div>")
    )


def test_session_identifiers_in_links_are_no_change() -> None:
    for kind in ("text", "links"):
        digest = digest_by(kind)
        assert digest(page(href="/n?PHPSESSID=0123456789abcdef")) == digest(
            page(href="/n?PHPSESSID=fedcba9876543210")
        )
        assert digest(page(href="/n?id=1")) != digest(page(href="/n?id=2"))


def test_links_count_as_a_set() -> None:
    digest = digest_by("links")
    one, two = "<a href=/1>new</a>", "<a href=/2>words</a>"
    assert digest(html(one + two)) == digest(html(two + "other" + one + one))
    assert digest(html(one + two)) != digest(html(one))


@pytest.mark.parametrize("kind", DIGESTS)
@pytest.mark.parametrize("body", [b"", b"\0", b"<", b"<!-- -->", b"\xff\xfe", b"<html>", b"{}", b"<?pi x?>"])
def test_any_body_has_a_digest(kind: str, body: bytes) -> None:
    for cls in (Response, TextResponse, HtmlResponse):
        assert len(digest_by(kind)(cls("http://h/", body=body))) == DIGEST_BYTES


def test_what_is_no_html_counts_by_its_body() -> None:
    one, other = (Response("http://h/x.pdf", body=body) for body in (b"1", b"2"))
    for kind in DIGESTS:
        assert digest_by(kind)(one) != digest_by(kind)(other)


def test_a_function_of_the_response_decides() -> None:
    digest = digest_by(lambda response: response.css("h1::text").get())
    assert digest(page(token="2", href="/x")) == digest(page())
    assert digest(page("Other")) != digest(page())
    assert digest(html("<p>")) == b""


@pytest.mark.parametrize("value", [b"a", "a", 1, ("a", 2), gzip])
def test_what_a_spider_gives_is_hashed(value: Any) -> None:
    assert of_content(value) == of_content(value)
    assert len(of_content(value)) == DIGEST_BYTES
    assert of_content(value) != of_content("b")


def test_a_page_of_ten_thousand_levels_has_a_text() -> None:
    deep = html("<div>" * 10_000 + "text")
    assert digest_by("text")(deep) == digest_by("text")(html("<div>" * 10_000 + "text"))


@pytest.mark.parametrize(
    ("body", "digests"),
    [
        ("<p>a b</p>", ["74c2ee6499", "a587f0e914", "6e600a12ca"]),
        ("<p>a b</p><a href='/z'>c</a><a href='/y'>d</a>", ["d92fe31e46", "b02509e1fe", "4b58612d6e"]),
    ],
)
def test_the_digests_that_stores_hold_are_made_again(body: str, digests: list[str]) -> None:
    assert [digest_by(kind)(html(body)).hex() for kind in DIGESTS] == digests


@pytest.mark.parametrize("unit", ["<!---->", "<?x?>", "<b>x</b>"])
def test_a_text_takes_time_by_its_length(unit: str) -> None:
    """`etree.iterwalk` takes the square of the comments that stand side by side."""

    def seconds(size: int) -> float:
        response = html(unit * (size // len(unit)))
        assert response.selector is not None
        begin = time.thread_time()
        digest_by("text")(response)
        return time.thread_time() - begin

    small, large = (min(seconds(size) for _ in range(3)) for size in (60_000, 960_000))
    assert large < 64 * small  # 16 by the length, 256 by its square


ATTRIBUTES = "<a" + "".join(f" a{number}=1" for number in range(9_000)) + ">x</a>"


@pytest.mark.parametrize("body", ["<b>x</b>" * 150_000, ATTRIBUTES], ids=["large", "one huge tag"])
@pytest.mark.parametrize("kind", ["text", "links"])
def test_a_page_beyond_a_bound_is_digested_by_its_body(body: str, kind: str) -> None:
    assert digest_by(kind)(html(body)) == digest_by("body")(html(body))
    small = "<b>x</b>" * 1_000
    assert digest_by(kind)(html(small)) != digest_by("body")(html(small))


def test_a_page_beyond_a_bound_is_logged_once(web: Web, run: Callable[..., Crawl]) -> None:
    web.link("/", "/a", "/b")
    for path in ("/a", "/b"):
        web.on(path, body=ATTRIBUTES)
    settings = {**ADDON, "FRONTIER_REVISIT": "interval", "FRONTIER_DIGEST": "text"}
    crawl = run(LinkSpider, settings, start_urls=[web.url("/")])
    assert crawl.log.count("too large for FRONTIER_DIGEST") == 1
