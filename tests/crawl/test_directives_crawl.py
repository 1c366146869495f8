"""What pages say to crawlers, obeyed: which items reach a pipeline, and what the server is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import FormRequest, Request, Spider
from scrapy.linkextractors import LinkExtractor

from scrapy_frontier.core.store.keys import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Crawl
    from server import Web

ADDONS = {"scrapy_frontier.Addon": 500}
NOINDEX = '<meta name="robots" content="noindex">'
NOFOLLOW = '<meta name="robots" content="nofollow">'


class KeepingPipeline:
    """Notes in the stats which items arrived."""

    def __init__(self, crawler: Any) -> None:
        self.stats = crawler.stats

    @classmethod
    def from_crawler(cls, crawler: Any) -> KeepingPipeline:
        return cls(crawler)

    def process_item(self, item: Any) -> Any:
        self.stats.inc_value(f"test/item{item['path']}")
        return item


class LinkSpider(Spider):
    """Yields an item for each page and follows its links in the way that *how* says."""

    name = "links"
    how = "follow"
    custom_settings = {"ADDONS": ADDONS, "ITEM_PIPELINES": {KeepingPipeline: 100}}

    def parse(self, response: Any) -> Iterator[Any]:
        yield {"path": "/" + response.url.split("/", 3)[3]}
        if self.how == "follow":
            for anchor in response.css("a"):
                yield response.follow(anchor)
        elif self.how == "extract":
            for link in LinkExtractor().extract_links(response):
                yield Request(link.url)
        elif self.how == "join":
            for href in response.css("a::attr(href)").getall():
                yield Request(response.urljoin(href), meta=response.meta)


class AsyncLinkSpider(LinkSpider):
    """The same by an asynchronous generator."""

    async def parse(self, response: Any) -> Any:  # type: ignore[override]
        for output in super().parse(response):
            yield output


def page(head: str = "", body: str = "") -> str:
    return f"<html><head><title>t</title>{head}</head><body>{body}</body></html>"


def anchors(*links: str) -> str:
    """``/a`` is a plain link, ``/a nofollow`` one with a rel."""
    parts = (link.partition(" ") for link in links)
    return "".join(f'<a href="{href}" rel="{rel}">.</a>' for href, _, rel in parts)


def arrived(crawl: Crawl) -> set[str]:
    return {name.removeprefix("test/item") for name in crawl.stats if name.startswith("test/item/")}


def test_noindex_keeps_items_from_the_pipelines_and_links_count(
    web: Web, run: Callable[..., Crawl], pages: Any
) -> None:
    web.on("/", body=page(NOINDEX, anchors("/a", "/b.pdf")))
    web.on("/b.pdf", headers={"X-Robots-Tag": "otherbot: nofollow\r\nX-Robots-Tag: noindex"})
    crawl = run(LinkSpider, start_urls=[web.url("/")])
    assert crawl.reason == "finished", crawl.log
    assert sorted(web.paths()) == ["/", "/a", "/b.pdf"]
    assert arrived(crawl) == {"/a"}
    assert crawl.stats["frontier/noindex/pages"] == 2
    assert crawl.stats["frontier/noindex/items"] == 2
    assert pages()[web.url("/")].reason == "noindex: its items were dropped"


def test_noindex_may_keep_a_page_from_the_spider(web: Web, run: Callable[..., Crawl], pages: Any) -> None:
    web.on("/", body=page(NOINDEX, anchors("/a")))
    settings = {"FRONTIER_NOINDEX": "skip"}
    crawl = run(LinkSpider, settings, start_urls=[web.url("/")])
    assert web.paths() == ["/"]
    assert arrived(crawl) == set()
    kept = pages()[web.url("/")]
    assert (kept.state, kept.reason) == (State.EXCLUDED, "noindex: the page asks to be kept nowhere")


def test_directives_are_for_those_they_name(web: Web, run: Callable[..., Crawl]) -> None:
    """By the product token of the user agent; an expired page is not to be indexed either."""
    past = {"X-Robots-Tag": "unavailable_after: 25 Jun 2010 15:00:00 PST"}
    future = {"X-Robots-Tag": "unavailable_after: 25 Jun 2110 15:00:00 PST"}
    urls = [
        web.on(
            "/mine", headers={"X-Robots-Tag": "otherbot: noindex, nofollow\r\nX-Robots-Tag: ourbot: none"}
        ),
        web.on("/others", headers={"X-Robots-Tag": "otherbot: noindex, nofollow"}),
        web.on("/meta", body=page('<meta name="OurBot" content="noindex">')),
        web.on("/others-meta", body=page('<meta name="otherbot" content="noindex">')),
        web.on("/body", body=page("", "<p>text</p>" + NOINDEX)),
        web.on("/past", headers=past),
        web.on("/future", headers=future),
    ]
    crawl = run(LinkSpider, {"USER_AGENT": "OurBot/2.0 (+http://our.example)"}, start_urls=urls)
    assert arrived(crawl) == {"/others", "/others-meta", "/body", "/future"}


# -- nofollow --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spider", [LinkSpider, AsyncLinkSpider])
def test_links_of_a_nofollow_page_are_known_and_not_followed(
    web: Web, run: Callable[..., Crawl], pages: Any, spider: type[Spider]
) -> None:
    web.on("/", body=page(NOFOLLOW, anchors("/a", "/b")))
    crawl = run(spider, start_urls=[web.url("/")])
    assert crawl.reason == "finished", crawl.log
    assert web.paths() == ["/"]
    assert arrived(crawl) == {"/"}
    assert crawl.stats["frontier/nofollow/links"] == 2
    assert crawl.stats["frontier/pages/seen"] == 2
    kept = pages()[web.url("/a")]
    assert (kept.state, kept.reason) == (State.SEEN, f"linked by {web.url('/')}, which says nofollow")
    assert pages()[web.url("/")].reason == "nofollow: its links were not followed"


@pytest.mark.parametrize("how", ["follow", "extract", "join"])
def test_a_link_is_followed_if_it_stands_once_without_nofollow(
    web: Web, run: Callable[..., Crawl], pages: Any, how: str
) -> None:
    web.on(
        "/",
        body=page(
            '<base href="/dir/">',
            anchors(
                "never NOFOLLOW",
                "both nofollow",
                "both#part",
                "/ugc external ugc",
                "/q?b=2&a=1 noopener nofollow",
                "/q?a=1&b=2 nofollow",
                "\u00e4 nofollow",
            ),
        ),
    )
    crawl = run(LinkSpider, start_urls=[web.url("/")], how=how)
    assert crawl.reason == "finished", crawl.log
    assert sorted(web.paths()) == ["/", "/dir/both", "/ugc"]
    assert crawl.stats["frontier/nofollow/rel"] >= 3
    kept = pages()[web.url("/dir/never")]
    assert (kept.state, kept.reason) == (State.SEEN, f"linked with rel=nofollow by {web.url('/')}")


def test_a_page_refused_here_is_fetched_when_it_is_linked_in_earnest(
    web: Web, run: Callable[..., Crawl], pages: Any
) -> None:
    """In the same run, and in the next one as a seed."""
    web.on("/", body=page("", anchors("/a nofollow", "/b nofollow", "/c")))
    web.on("/c", body=page("", anchors("/a", "/b nofollow")))
    run(LinkSpider, start_urls=[web.url("/")])
    assert web.paths() == ["/", "/c", "/a"]
    assert pages()[web.url("/b")].state is State.SEEN
    crawl = run(LinkSpider, start_urls=[web.url("/"), web.url("/b")])
    assert web.paths() == ["/", "/c", "/a", "/b"]
    assert crawl.stats.get("frontier/pages/seen", 0) == 0
    assert {kept.state for kept in pages().values()} == {State.DONE}


def test_link_types_are_as_set(web: Web, run: Callable[..., Crawl]) -> None:
    links = anchors("/a nofollow", "/b ugc", "/c sponsored")
    web.on("/", body=page("", links))
    run(LinkSpider, {"FRONTIER_NOFOLLOW": ["ugc", "sponsored"]}, start_urls=[web.url("/")])
    assert web.paths() == ["/", "/a"]


class FormSpider(Spider):
    """Asks for more than links on a page with nofollow, and insists on one of them."""

    name = "forms"
    custom_settings = {"ADDONS": ADDONS}

    def parse(self, response: Any) -> Iterator[Any]:
        if response.url.endswith("/"):
            yield FormRequest(response.urljoin("/form"), formdata={"q": "1"}, method="GET")
            yield Request(response.urljoin("/post"), method="POST", body=b"x")
            yield Request(response.urljoin("/insist"), meta={"frontier_nofollow": False})
            yield Request(response.urljoin("/link"))
            yield response.request.replace(dont_filter=True, callback=self.done)

    def done(self, response: Any) -> None:
        pass


def test_nofollow_is_about_links_alone(web: Web, run: Callable[..., Crawl]) -> None:
    web.on("/", body=page(NOFOLLOW))
    run(FormSpider, start_urls=[web.url("/")])
    assert sorted(web.paths()) == ["/", "/", "/form?q=1", "/insist", "/post"]


# -- canonical -------------------------------------------------------------------------------------------


def test_a_canonical_page_is_fetched_once_and_its_aliases_say_so(
    web: Web, run: Callable[..., Crawl], pages: Any
) -> None:
    for path in ("/x?from=1", "/x?from=2", "/x"):
        web.on(path, body=page('<base href="/"><link rel="canonical" href="x#top">'))
    crawl = run(LinkSpider, start_urls=[web.url("/x?from=1"), web.url("/x?from=2")])
    assert sorted(web.paths()) == ["/x", "/x?from=1", "/x?from=2"]
    assert arrived(crawl) == {"/x", "/x?from=1", "/x?from=2"}
    kept = pages()
    assert kept[web.url("/x?from=1")].reason == f"alias of {web.url('/x')}"
    assert kept[web.url("/x")].reason == ""


def test_a_canonical_page_may_not_be_believed(web: Web, run: Callable[..., Crawl]) -> None:
    elsewhere, one, other = web.url("/", host=1), "/one", "/other"
    web.on("/", body=page(f'<link rel="canonical" href="{elsewhere}">'))
    web.on("/two", body=page("".join(f'<link rel="canonical" href="{href}">' for href in (one, other))))
    web.on("/bad", body=page('<link rel="canonical" href="http://[">'))
    web.on("/gone", status=404, body=page('<link rel="canonical" href="/one">'))
    web.on("/nofollow", body=page(NOFOLLOW + '<link rel="canonical" href="/one">'))
    paths = ["/", "/bad", "/gone", "/nofollow", "/two"]
    run(LinkSpider, start_urls=[web.url(path) for path in paths])
    assert (sorted(web.paths()), web.paths(1)) == (paths, [])


# -- AJAX crawling -----------------------------------------------------------------------------------------


def test_ajax_pages_are_fetched_where_the_server_sees_their_state(
    web: Web, run: Callable[..., Crawl]
) -> None:
    web.on("/", body=page("", anchors("/app#!a=1", "/app#!b", "/meta")))
    web.on("/meta", body=page('<meta name="fragment" content="!">'))
    web.on("/meta?_escaped_fragment_=", body=page('<meta name="fragment" content="!">'))
    crawl = run(LinkSpider, {"FRONTIER_AJAX": True}, start_urls=[web.url("/"), web.url("/seed#!s")])
    assert crawl.stats["frontier/ajax"] == 1
    assert sorted(web.paths()) == [
        "/",
        "/app?_escaped_fragment_=a=1",
        "/app?_escaped_fragment_=b",
        "/meta",
        "/meta?_escaped_fragment_=",
        "/seed?_escaped_fragment_=s",
    ]


def test_ajax_crawling_is_off(web: Web, run: Callable[..., Crawl]) -> None:
    web.on("/", body=page('<meta name="fragment" content="!">', anchors("/app#!a=1")))
    run(LinkSpider, start_urls=[web.url("/")])
    assert web.paths() == ["/", "/app"]
