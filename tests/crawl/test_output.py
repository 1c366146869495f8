"""What callbacks yield: a page's requests are handed over together, and nobody can tell but by the clock."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import FormRequest, Request, Spider
from scrapy.selector import Selector
from scrapy.utils.trackref import live_refs

from scrapy_frontier import FrontierScheduler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from conftest import Crawl
    from scrapy.http import Response
    from server import Web

ADDON = {"ADDONS": {"scrapy_frontier.Addon": 500}}
WAYS = pytest.mark.parametrize("way", [{}, ADDON], ids=["scheduler", "addon"])
STOCK = {"SCHEDULER": "scrapy.core.scheduler.Scheduler", "ADDONS": {}}


class FollowSpider(Spider):
    name = "follow"

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.url)

    def parse(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(css="a")


class OffsiteSpider(FollowSpider):
    allowed_domains = ("127.0.0.2",)

    def parse(self, response: Response) -> Iterator[Any]:
        for number in range(3):
            yield Request(f"http://elsewhere.example/{number}")
            yield Request(response.urljoin("/on"))
        yield Request("http://127.0.0.9:1/allowed", meta={"allow_offsite": True, "dont_retry": True})
        yield Request("http://127.0.0.9:1/not")


@WAYS
def test_offsite_requests_end_as_with_scrapys_own_scheduler(
    web: Web, run: Callable[..., Crawl], way: dict[str, Any]
) -> None:
    crawls = [run(OffsiteSpider, settings, url=web.link("/")) for settings in (STOCK, way)]
    assert [crawl.stats["offsite/filtered"] for crawl in crawls] == [8, 8]
    assert [crawl.stats["offsite/domains"] for crawl in crawls] == [2, 2]
    assert web.paths().count("/on") == 2


class SeeingMiddleware:
    """Of another project, between the add-on's and the engine: it counts what it sees."""

    def __init__(self, crawler: Any) -> None:
        self.stats = crawler.stats

    @classmethod
    def from_crawler(cls, crawler: Any) -> SeeingMiddleware:
        return cls(crawler)

    async def process_spider_output(self, response: Response, result: Any) -> AsyncIterator[Any]:
        async for output in result:
            self.stats.inc_value("seen")
            yield output


class CountingScheduler(FrontierScheduler):
    """Counts what comes to it."""

    def enqueue_request(self, request: Request) -> bool:
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value("came")
        return super().enqueue_request(request)


class DeepSpider(FollowSpider):
    """Every page links all, so that most links lead to known pages."""

    allowed_domains = ("127.0.0.2",)

    def parse(self, response: Response) -> Iterator[Any]:
        for number in range(3):
            yield Request(f"http://elsewhere.example/{number}")
        for path in ("/", "/on", "/1", "/1", "/2", "/on#fragment", "/" + "long" * 10):
            yield Request(response.urljoin(path))
        yield Request(response.urljoin("/on"), meta={"depth_reset": True})
        if response.meta["depth"] < 2:
            yield Request(response.urljoin("/again"), dont_filter=True)


@pytest.mark.parametrize(
    "settings",
    [{}, {"DEPTH_LIMIT": 1}, {"DEPTH_STATS_VERBOSE": True}, {"URLLENGTH_LIMIT": 40}],
    ids=str,
)
def test_links_to_known_pages_end_early_and_the_stats_are_the_same(
    web: Web, run: Callable[..., Crawl], settings: dict[str, Any]
) -> None:
    """With a middleware that might see each, all go the whole way."""
    url = web.link("/")
    common = {
        **ADDON,
        "SCHEDULER": "test_output.CountingScheduler",
        "FRONTIER_DIR": None,
        "CONCURRENT_REQUESTS": 1,  # which of two pages is first to link "/again" decides its depth
        **settings,
    }
    seeing = {"SPIDER_MIDDLEWARES": {"test_output.SeeingMiddleware": 500}}
    short, long = (run(DeepSpider, {**common, **more}, url=url).stats for more in ({}, seeing))
    others = ("time", "elapsed", "memusage", "rank", "seen", "came", "_bytes", "log_count", "per_minute")
    names = {name for name in short | long if not any(word in name for word in others)}
    assert {name: short.get(name) for name in names} == {name: long.get(name) for name in names}
    assert names >= {"request_depth_max", "offsite/filtered", "dupefilter/filtered"}
    assert long["seen"] >= long["came"]
    assert (short["came"] < long["came"]) is ("DEPTH_STATS_VERBOSE" not in settings)


class TellingSpider(FollowSpider):
    """Tells of each request as it comes to the downloader."""

    def parse(self, response: Response) -> Iterator[Any]:
        request, stats = response.request, self.crawler.stats
        assert request is not None
        assert stats is not None
        referer = (request.headers.get("Referer") or b"").decode()
        made = f"{request.meta.get('depth')} {request.priority} {referer.partition(':')[0]} {referer[-5:]}"
        stats.set_value(f"made {request.url.split(chr(47), 3)[3]}", made)
        if request.url.endswith("/first#x"):
            yield Request(response.urljoin("/plain#part"))
            yield Request(response.urljoin("/prior"), priority=7, meta={"depth": 9})
            yield Request(response.urljoin("/given"), headers={"Referer": "http://given"})
            yield Request(response.urljoin("/quiet"), meta={"referrer_policy": "no-referrer"})
            yield Request(response.urljoin("/reset"), meta={"depth_reset": True})
            yield Request(response.urljoin("/" + "long" * 20))
            yield FormRequest(response.urljoin("/posts"), formdata={"a": "b"})
        elif not response.meta["depth"] > 2:
            yield Request(f"{response.url}/{response.meta['depth']}")


@pytest.mark.parametrize("settings", [{}, {"DEPTH_PRIORITY": 2}, {"REFERER_ENABLED": False}], ids=str)
def test_requests_past_scrapys_middlewares_are_what_these_make_of_them(
    web: Web, run: Callable[..., Crawl], settings: dict[str, Any]
) -> None:
    common = {"URLLENGTH_LIMIT": 60, **settings}
    url = web.link("/first") + "#x"
    old, new = (run(TellingSpider, {**way, **common}, url=url).stats for way in (STOCK, ADDON))
    made = [
        {name: stats[name] for name in stats if name.startswith(("made", "request_depth", "urllength"))}
        for stats in (old, new)
    ]
    assert made[0] == made[1]
    assert len(made[0]) > 9


class RaisingSpider(FollowSpider):
    def parse(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(css="a")
        if len(response.css("a")):
            raise RuntimeError("behind its links")


@WAYS
def test_requests_before_an_error_count(web: Web, run: Callable[..., Crawl], way: dict[str, Any]) -> None:
    crawl = run(RaisingSpider, way, url=web.link("/", "/1", "/2"))
    assert sorted(web.paths()) == ["/", "/1", "/2"]
    assert crawl.stats["spider_exceptions/RuntimeError"] == 1
    assert crawl.log.count("RuntimeError: behind its links") == 1
    assert crawl.reason == "finished"


class WaitingSpider(FollowSpider):
    """A page that waits for what it asked for, in the midst of its callback."""

    async def parse(self, response: Response, **kwargs: Any) -> AsyncIterator[Any]:
        if not response.url.endswith("/"):
            self.answers.put_nowait(response.url)
            return
        self.answers: asyncio.Queue[str] = asyncio.Queue()
        for number in (1, 2):
            yield Request(response.urljoin(f"/{number}"))
            yield {"answer": await self.answers.get()}


class EndlessSpider(FollowSpider):
    """A page that goes on until one that it links is there."""

    is_there = False

    def parse(self, response: Response) -> Iterator[Any]:
        if response.url.endswith("/wanted"):
            self.is_there = True
        number = 0
        while response.url.endswith("/") and not self.is_there:
            yield Request(response.urljoin("/wanted"), dont_filter=not number)
            number += 1


@WAYS
@pytest.mark.parametrize("spider", [WaitingSpider, EndlessSpider])
def test_requests_go_out_before_a_callback_ends_that_waits_for_them(
    web: Web, run: Callable[..., Crawl], way: dict[str, Any], spider: type[Spider]
) -> None:
    crawl = run(spider, way, url=web.link("/"))
    assert crawl.reason == "finished"
    assert sorted(web.paths()) == (["/", "/1", "/2"] if spider is WaitingSpider else ["/", "/wanted"])


class ManyItemsSpider(FollowSpider):
    """Yields items without end, until one of them is through."""

    def parse(self, response: Response) -> Iterator[Any]:
        number = 0
        while not self.is_through:
            yield {"number": number}
            number += 1

    is_through = False


class StoppingPipeline:
    """Takes a while for each item, and stops the spider after one."""

    under_way = 0

    def __init__(self, crawler: Any) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Any) -> StoppingPipeline:
        return cls(crawler)

    async def process_item(self, item: Any) -> Any:
        self.under_way += 1
        self.crawler.stats.max_value("under_way", self.under_way)
        for _ in range(20):
            await asyncio.sleep(0)
        self.under_way -= 1
        self.crawler.spider.is_through = True
        return item


@WAYS
def test_no_more_items_are_under_way_than_may_be(
    web: Web, run: Callable[..., Crawl], way: dict[str, Any]
) -> None:
    pipelines = {"ITEM_PIPELINES": {"test_output.StoppingPipeline": 1}, "CONCURRENT_ITEMS": 4}
    crawl = run(ManyItemsSpider, {**way, **pipelines}, url=web.link("/"))
    assert crawl.stats["under_way"] == 4
    assert 4 <= crawl.stats["item_scraped_count"] <= 20
    assert crawl.reason == "finished"


class TreesSpider(FollowSpider):
    """Counts the pages whose trees are in memory, without a garbage collector; and keeps one response."""

    kept: Any = None

    def parse(self, response: Response) -> Iterator[Any]:
        gc.disable()
        yield from super().parse(response)
        self.kept = self.kept or response
        assert self.kept.css("a::attr(href)").get() is not None
        assert self.crawler.stats is not None
        self.crawler.stats.max_value("test/trees", len(live_refs[Selector]))


def test_the_tree_of_a_page_goes_with_the_page(web: Web, run: Callable[..., Crawl]) -> None:
    for number in range(60):
        web.link(f"/{number}", *(web.url(f"/{each}") for each in range(60)))
    crawl = run(TreesSpider, {"CONCURRENT_REQUESTS": 4}, url=web.url("/0"))
    assert crawl.stats["frontier/pages/done"] == 60
    assert crawl.stats["test/trees"] < 20
