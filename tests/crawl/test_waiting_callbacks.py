"""Callbacks and pipelines that wait, perhaps for a page that is queued: the crawl goes on beside them."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from server import Answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from conftest import Crawl
    from scrapy.http import Response
    from server import Web

WAYS = {
    "add-on": {"ADDONS": {"scrapy_frontier.Addon": 500}},
    "alone": {"SCHEDULER": "scrapy_frontier.FrontierScheduler"},
}
ways = pytest.mark.parametrize("way", WAYS)


class TokenSpider(Spider):
    """Its first callback asks for a token, and all wait for that; with room for one page."""

    name = "token"
    token: asyncio.Future[str] | None = None

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        if self.token is None:
            self.token = asyncio.get_running_loop().create_future()
            yield response.follow("/token", self.parse_token, priority=100)
        yield {"url": response.url, "token": await asyncio.shield(self.token)}

    def parse_token(self, response: Response) -> None:
        assert self.token is not None
        self.token.set_result("T")


class LookUpSpider(Spider):
    """Pages of films wait for a page of prices, which comes after all of them."""

    name = "look_up"

    async def start(self) -> AsyncIterator[Any]:
        self.prices = asyncio.Event()
        for url in self.start_urls:
            yield Request(url)
        yield Request(self.start_urls[0] + "/prices", self.parse_prices)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        await self.prices.wait()
        yield {"url": response.url}

    def parse_prices(self, response: Response) -> None:
        self.prices.set()


class OneAtATime:
    """As a pipeline with a lock, or the rate of an API."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def process_item(self, item: Any) -> Any:
        async with self._lock:
            await asyncio.sleep(0.2)
        return item


class SlowSpider(Spider):
    name = "slow_items"

    def parse(self, response: Response) -> Any:
        yield {"url": response.url}


def urls_of(web: Web, number: int) -> list[str]:
    for each in range(number):
        web.on(f"/{each}", Answer())
    return [web.url(f"/{each}") for each in range(number)]


@ways
def test_a_callback_may_wait_for_another_page(way: str, run: Callable[..., Crawl], web: Web) -> None:
    urls = urls_of(web, 3)
    web.on("/token", Answer())
    crawl = run(TokenSpider, WAYS[way] | {"CONCURRENT_REQUESTS": 1}, start_urls=urls)
    assert crawl.stats["item_scraped_count"] == 3


@ways
def test_more_callbacks_than_places_may_wait_for_another_page(
    way: str, run: Callable[..., Crawl], web: Web
) -> None:
    urls = urls_of(web, 9)
    web.on("/0/prices", Answer())
    crawl = run(LookUpSpider, WAYS[way] | {"CONCURRENT_REQUESTS": 4}, start_urls=urls)
    assert crawl.stats["item_scraped_count"] == 9


@ways
def test_no_slow_page_holds_them_up(way: str, run: Callable[..., Crawl], web: Web) -> None:
    urls = [*urls_of(web, 3), web.on("/slow", Answer(until=lambda: "/token" in web.paths()))]
    web.on("/token", Answer())
    crawl = run(TokenSpider, WAYS[way] | {"CONCURRENT_REQUESTS": 4}, start_urls=urls)
    assert crawl.stats["item_scraped_count"] == 4
    assert "downloader/exception_count" not in crawl.stats


def test_pages_wait_for_a_pipeline_that_gets_on_twice_as_many_at_most(
    start: Callable[..., Crawl], run: Callable[..., Crawl], web: Web
) -> None:
    settings = WAYS["add-on"] | {"CONCURRENT_REQUESTS": 3}
    slow = settings | {"ITEM_PIPELINES": {"test_waiting_callbacks.OneAtATime": 1}}
    urls = urls_of(web, 60)
    crawl = start(SlowSpider, slow, start_urls=urls)
    web.wait(40)
    crawl.kill(signal.SIGKILL)
    crawl = run(SlowSpider, settings, start_urls=urls)
    asked = Counter(visit.path for visit in web.visits)
    assert max(asked.values()) <= 2
    assert sum(asked[f"/{number}"] == 2 for number in range(60)) <= 2 * 3
    assert crawl.stats["frontier/pages/done"] == 60
