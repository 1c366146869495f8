"""What pages say to crawlers, obeyed: which items reach a pipeline, and what the server is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import FormRequest, Request, Spider
from scrapy.linkextractors import LinkExtractor
from server import Web

from scrapy_frontier.core.lifecycle import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Crawl

ADDONS = {"scrapy_frontier.Addon": 500}
NOINDEX = '<meta name="robots" content="noindex">'
NOFOLLOW = '<meta name="robots" content="nofollow">'


class KeepingPipeline:
    """Notes in the stats which items arrived, and those that carry the mark."""

    def __init__(self, crawler: Any) -> None:
        self.stats = crawler.stats

    @classmethod
    def from_crawler(cls, crawler: Any) -> KeepingPipeline:
        return cls(crawler)

    def process_item(self, item: Any) -> Any:
        mark = "marked" if item.get("frontier_noindex") else "item"
        self.stats.inc_value(f"test/{mark}{item['path']}")
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


def page(head: str = "", body: str = "", **links: str) -> str:
    return f"<html><head><title>t</title>{head}</head><body>{body}</body></html>"


def anchors(*links: str) -> str:
    """``/a`` is a plain link, ``/a nofollow`` one with a rel."""
    parts = (link.partition(" ") for link in links)
    return "".join(f'<a href="{href}" rel="{rel}">.</a>' for href, _, rel in parts)


def arrived(crawl: Crawl, mark: str = "item") -> set[str]:
    return {name.removeprefix(f"test/{mark}") for name in crawl.stats if name.startswith(f"test/{mark}/")}


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


def test_noindex_may_only_mark_items(web: Web, run: Callable[..., Crawl]) -> None:
    web.on("/", body=page(NOINDEX, anchors("/a")))
    settings = {"FRONTIER_NOINDEX": "flag"}
    crawl = run(LinkSpider, settings, start_urls=[web.url("/")])
    assert arrived(crawl) == {"/a"}
    assert arrived(crawl, "marked") == {"/"}


def test_noindex_may_keep_a_page_from_the_spider(web: Web, run: Callable[..., Crawl], pages: Any) -> None:
    web.on("/", body=page(NOINDEX, anchors("/a")))
    settings = {"FRONTIER_NOINDEX": "skip"}
    crawl = run(LinkSpider, settings, start_urls=[web.url("/")])
    assert web.paths() == ["/"]
    assert arrived(crawl) == set()
    kept = pages()[web.url("/")]
    assert (kept.state, kept.reason) == (State.EXCLUDED, "noindex: the page asks to be kept nowhere")
