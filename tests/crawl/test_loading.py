"""A large frontier comes back into memory beside the crawl: no request waits for hosts of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals

from scrapy_frontier.crawl import timers
from scrapy_frontier.crawl.assembly import crawl_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from conftest import Crawl
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from server import Web

HOSTS = 400


class ManyHostsSpider(Spider):
    """A page of each of many hosts, the first time it runs."""

    name = "many"
    base = ""

    async def start(self) -> AsyncIterator[Any]:
        if self.base:
            for number in range(HOSTS):
                yield Request(f"{self.base}{number}", meta={"download_slot": f"host{number}"})

    def parse(self, response: Response) -> None:
        pass


class WatchedSpider(ManyHostsSpider):
    """Counts the hosts that come into memory while the engine asks for a request, and at other times."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> WatchedSpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        timers.FIRST_SLICE = 0.0  # else a fast machine has loaded all before anybody watches
        crawler.signals.connect(spider.watch, signals.spider_opened)
        return spider  # type: ignore[return-value]

    def watch(self) -> None:
        crawl = crawl_of(self.crawler)
        assert crawl is not None
        assert self.crawler.stats is not None
        assert self.crawler.engine is not None
        stats, frontier, scheduler = (
            self.crawler.stats,
            crawl.frontier,
            self.crawler.engine._slot.scheduler,  # type: ignore[union-attr]
        )
        load = frontier.load
        is_asked = False

        def watched_load(now: float, limit: int = 100) -> bool:
            stats.inc_value("test/asked" if is_asked else "test/beside")
            return load(now, limit)

        next_request = scheduler.next_request

        def watched_next() -> Request | None:
            nonlocal is_asked
            is_asked = True
            try:
                return next_request()
            finally:
                is_asked = False

        frontier.load = watched_load  # type: ignore[method-assign]
        scheduler.next_request = watched_next  # type: ignore[method-assign]


def test_hosts_are_loaded_beside_the_crawl(web: Web, run: Callable[..., Crawl]) -> None:
    for number in range(HOSTS):
        web.link(f"/{number}")
    first = run(ManyHostsSpider, {"CLOSESPIDER_PAGECOUNT": 1}, base=web.url("/"))
    left = HOSTS - first.stats["frontier/pages/done"]
    assert left > HOSTS / 2
    again = run(WatchedSpider)
    assert again.reason == "finished"
    assert again.stats["frontier/pages/done"] == HOSTS, "all had their turn"
    assert again.stats["test/beside"] > 1
    assert "test/asked" not in again.stats
