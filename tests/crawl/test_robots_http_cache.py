"""robots.txt beside Scrapy's HTTP cache: asked past it, but where it stands for the web."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from conftest import read_pages
from scrapy import Spider
from server import Answer

from scrapy_frontier.core.frontier import State

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from changing import JumpingClock
    from conftest import Crawl
    from server import Web

    Run = Callable[..., Crawl]

ROBOTS, DAY = "/robots.txt", 86_400.0
FILE, TAG = "User-agent: *\nDisallow: /private", {"ETag": '"1"'}
STOCK = {"SCHEDULER": "scrapy.core.scheduler.Scheduler", "FRONTIER_DIR": None}


class PagesSpider(Spider):
    name = "pages"

    def parse(self, response: Any) -> None:
        pass


@pytest.fixture
def cached(clock: JumpingClock, tmp_path: Path) -> dict[str, Any]:
    return {
        "ADDONS": {"scrapy_frontier.Addon": 500},
        "SCHEDULER": None,
        "ROBOTSTXT_OBEY": True,
        "FRONTIER_CLOCK": "changing.clock",
        "FRONTIER_END_WAIT": 0,
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path / "cache"),
    }


def stock(settings: dict[str, Any]) -> dict[str, Any]:
    """The same crawl by Scrapy alone."""
    return {**settings, **STOCK, "ADDONS": None, "FRONTIER_CLOCK": None}


def replaying(settings: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The same with a frontier of its own, from the cache alone."""
    return {**settings, "HTTPCACHE_IGNORE_MISSING": True, "FRONTIER_DIR": str(directory)}


def test_an_error_does_not_last_as_long_as_the_cache(
    web: Web, run: Run, clock: JumpingClock, cached: dict[str, Any]
) -> None:
    web.on(ROBOTS, Answer(503), Answer(200, FILE))
    run(PagesSpider, cached, start_urls=[web.url("/")])
    assert web.paths() == [ROBOTS]
    clock.jump(clock() + 3600)
    run(PagesSpider, cached, start_urls=[web.url("/")])
    assert web.paths() == [ROBOTS, ROBOTS, "/"]


def test_a_304_that_answers_the_frontier_is_nobody_elses(
    web: Web, run: Run, clock: JumpingClock, cached: dict[str, Any], tmp_path: Path
) -> None:
    web.on(ROBOTS, Answer(200, FILE, TAG), Answer(304, "", TAG), Answer(200, FILE, TAG))
    run(PagesSpider, cached, start_urls=[web.url("/")])
    clock.jump(clock() + 2 * DAY)
    run(PagesSpider, cached, start_urls=[web.url("/a")])
    assert web.paths() == [ROBOTS, "/", ROBOTS, "/a"]
    run(PagesSpider, {**cached, "FRONTIER_DIR": str(tmp_path / "other")}, start_urls=[web.url("/private")])
    assert web.paths()[4:] == [ROBOTS], "the 304 was not kept by the cache"


def test_a_file_of_scrapys_own_middleware_is_replayed_with_its_pages(
    web: Web, run: Run, cached: dict[str, Any], tmp_path: Path
) -> None:
    """Its redirect, too; and none of it costs a delay, for nobody is asked."""
    web.on(ROBOTS, status=301, headers={"Location": "/r"})
    web.on("/r", Answer(200, FILE))
    urls = [web.url(path) for path in ("/1", "/2", "/private")]
    run(PagesSpider, stock(cached), start_urls=urls)
    run(PagesSpider, stock({**cached, "ROBOTSTXT_OBEY": False}), start_urls=urls)
    before = len(web.visits)
    settings = {**replaying(cached, tmp_path / "replay"), "DOWNLOAD_DELAY": 5}
    crawl = run(PagesSpider, settings, start_urls=urls)
    assert len(web.visits) == before
    assert crawl.stats["elapsed_time_seconds"] < 5
    found = {url: page.state for url, page in read_pages(tmp_path / "replay").items()}
    assert found == dict(zip(urls, (State.DONE, State.DONE, State.EXCLUDED), strict=True))


@pytest.mark.parametrize("answer", [None, Answer(503), Answer(304)], ids=["none", "503", "304"])
def test_where_the_cache_stands_for_the_web_what_it_does_not_have_is_no_file(
    web: Web, run: Run, cached: dict[str, Any], tmp_path: Path, answer: Answer | None
) -> None:
    """As by Scrapy's own; but a run that asks the web learns the file, and does not take that over."""
    web.on(ROBOTS, *filter(None, (answer, Answer(200, FILE))))
    robots_too = {**stock(cached), "ROBOTSTXT_OBEY": answer is not None, "RETRY_ENABLED": False}
    run(PagesSpider, robots_too, start_urls=[web.url("/a")])
    before = len(web.visits)
    settings = replaying(cached, tmp_path / "replay")
    crawl = run(PagesSpider, settings, start_urls=[web.url("/a")])
    assert crawl.stats["httpcache/hit"] == 1 + (answer is not None)
    assert read_pages(tmp_path / "replay")[web.url("/a")].state is State.DONE
    assert len(web.visits) == before
    run(PagesSpider, {**settings, "HTTPCACHE_IGNORE_MISSING": False}, start_urls=[web.url("/private")])
    assert web.paths()[before:] == [ROBOTS]
