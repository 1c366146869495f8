"""Downloads of callbacks and media pipelines keep the clock of their host; an idle spider feeds itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider, signals
from scrapy.exceptions import CloseSpider, DontCloseSpider
from scrapy.http.request import NO_CALLBACK
from server import TOLERANCE, Answer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Crawl
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from server import Web

ADDON = {"ADDONS": {"scrapy_frontier.Addon": 500}}
FILES = 4


class Shop(Spider):
    """Downloads four files for each page that links any, by a pipeline or in its callback."""

    name = "shop"
    urls: list[str]
    files: str
    inline = False

    async def start(self) -> Any:
        for url in self.urls:
            yield Request(url)

    async def parse(self, response: Response) -> Any:
        if "/page" not in response.url:
            return
        urls = [f"{self.files}/{number}" for number in range(FILES)]
        if not self.inline:
            yield {"file_urls": urls}
            return
        for url in urls:
            request = Request(url, callback=NO_CALLBACK)
            yield {"status": (await self.crawler.engine.download_async(request)).status}  # type: ignore[union-attr]


def of_pipeline(tmp_path: Path) -> dict[str, Any]:
    files = {
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
        "FILES_STORE": str(tmp_path / "f"),
    }
    return {**ADDON, **files}


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("source", ["robots.txt", "DOWNLOAD_DELAY"])
def test_downloads_keep_the_delay_of_their_host(
    web: Web, run: Callable[..., Crawl], tmp_path: Path, source: str, inline: bool
) -> None:
    if source == "robots.txt":
        web.on("/robots.txt", Answer(body="User-agent: *\nCrawl-delay: 1\n"))
    settings = {**of_pipeline(tmp_path), "ROBOTSTXT_OBEY": source == "robots.txt"}
    settings |= {"DOWNLOAD_DELAY": 1} if source != "robots.txt" else {}
    crawl = run(
        Shop, settings, urls=[web.url("/page"), web.url("/next")], files=web.url("/file"), inline=inline
    )
    assert crawl.reason == "finished"
    assert sum(path.startswith("/file/") for path in web.paths()) == FILES
    assert min(web.gaps()) >= 1 - TOLERANCE
    assert max(visit.under_way for visit in web.visits) == 1


def test_downloads_wait_while_their_host_rests(web: Web, run: Callable[..., Crawl], tmp_path: Path) -> None:
    web.on("/busy", Answer(429, headers={"Retry-After": "3"}), Answer(), host=1)
    web.on("/page", Answer(delay=0.5))
    urls = [web.url("/busy", 1), web.url("/page")]
    crawl = run(Shop, of_pipeline(tmp_path), urls=urls, files=web.url("/file", 1))
    assert crawl.reason == "finished"
    assert sorted(web.paths(1)) == sorted(["/busy", "/busy", *(f"/file/{number}" for number in range(FILES))])
    assert web.gaps(1)[0] >= 3 - TOLERANCE


def test_downloads_from_a_host_that_rests_for_long_end_with_an_error(
    web: Web, run: Callable[..., Crawl], tmp_path: Path
) -> None:
    web.on("/busy", Answer(429, headers={"Retry-After": "600"}), host=1)
    web.on("/page", Answer(delay=0.5))
    settings = {**of_pipeline(tmp_path), "FRONTIER_END_WAIT": 1}
    crawl = run(Shop, settings, urls=[web.url("/busy", 1), web.url("/page")], files=web.url("/file", 1))
    assert crawl.reason == "finished"
    assert web.paths(1) == ["/busy"]


class Token:
    """A downloader middleware that fetches a token from the host of each page while that is on its way."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Token:
        return cls(crawler)

    async def process_request(self, request: Request) -> None:
        if "/page" in request.url:
            url = request.url.replace("/page", "/token")
            await self.crawler.engine.download_async(Request(url, callback=NO_CALLBACK))  # type: ignore[union-attr]


def test_what_a_middleware_fetches_for_a_page_does_not_wait_for_the_page(
    web: Web, run: Callable[..., Crawl]
) -> None:
    settings = {**ADDON, "DOWNLOADER_MIDDLEWARES": {f"{__name__}.Token": 500}, "DOWNLOAD_DELAY": 0.5}
    crawl = run(Shop, settings, urls=[web.url("/page")], files=web.url("/file"), inline=True)
    assert crawl.reason == "finished"
    assert sorted(set(web.paths())) == sorted(["/token", "/page", *(f"/file/{n}" for n in range(FILES))])


class Feeder(Spider):
    """Takes its next pages whenever it is idle, five times."""

    name = "feeder"
    handfuls: list[list[str]]

    @classmethod
    def from_crawler(cls, crawler: Crawler, *given: Any, **named: Any) -> Any:
        spider = super().from_crawler(crawler, *given, **named)
        crawler.signals.connect(spider.is_idle, signals.spider_idle)
        return spider

    async def start(self) -> Any:
        for url in self.handfuls.pop(0):
            yield Request(url)

    def is_idle(self) -> None:
        if self.handfuls:
            for url in self.handfuls.pop(0):
                self.crawler.engine.crawl(Request(url))  # type: ignore[union-attr]
            raise DontCloseSpider

    def parse(self, response: Response) -> None:
        pass


@pytest.mark.parametrize("directory", [True, False])
@pytest.mark.parametrize("ill", ["503", "refused"])
def test_a_spider_is_asked_for_more_while_a_host_rests(
    web: Web, run: Callable[..., Crawl], ill: str, directory: bool
) -> None:
    web.on("/ill", Answer(503), host=1)
    wrong = web.url("/ill", 1) if ill == "503" else "http://127.0.0.9:1/"
    handfuls = [[web.url(f"/{number}")] for number in range(5)]
    handfuls[1].append(wrong)
    settings = {**ADDON, "FRONTIER_END_WAIT": 1, "RETRY_TIMES": 0}
    settings |= {} if directory else {"FRONTIER_DIR": None}
    crawl = run(Feeder, settings, handfuls=handfuls)
    assert crawl.reason == "finished"
    assert [path for path in web.paths() if path != "/ill"] == [f"/{number}" for number in range(5)]
    assert crawl.stats["elapsed_time_seconds"] < 15


class Sated(Feeder):
    """Closes when it is idle."""

    def is_idle(self) -> None:
        raise CloseSpider("sated")


def test_a_spider_that_closes_when_it_is_idle_waits_for_no_host(web: Web, run: Callable[..., Crawl]) -> None:
    web.on("/ill", Answer(503))
    crawl = run(Sated, {**ADDON, "FRONTIER_END_WAIT": 300}, handfuls=[[web.url("/ill")]])
    assert crawl.reason == "sated"
    assert crawl.stats["elapsed_time_seconds"] < 60
