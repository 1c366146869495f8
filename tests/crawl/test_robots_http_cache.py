"""robots.txt and Scrapy's HTTP cache: a file in it counts as read now, an error does not count."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest
from conftest import read_pages
from scrapy import Spider
from server import TOLERANCE, Answer

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
STOCK = {"SCHEDULER": "scrapy.core.scheduler.Scheduler", "FRONTIER_DIR": None, "ADDONS": None}


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


@pytest.fixture
def anew(cached: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """The same with a frontier that knows nothing yet."""
    return {**cached, "FRONTIER_DIR": str(tmp_path / "other")}


def states(directory: Path) -> dict[str, State]:
    return {url[url.rindex("/") :]: page.state for url, page in read_pages(directory / "other").items()}


@pytest.mark.parametrize(
    ("robots", "forbidden"), [(Answer(200, FILE), 1), (Answer(404), 0)], ids=["file", "none"]
)
def test_a_crawl_is_run_again_from_the_cache(
    web: Web, run: Run, cached: dict[str, Any], anew: dict[str, Any], robots: Answer, forbidden: int
) -> None:
    """As to develop a spider, without a network maybe; that costs no delay. Old files count, too."""
    web.on(
        ROBOTS,
        Answer(301, "", {"Location": "/r", "Date": "Sat, 21 Nov 2020 00:00:00 GMT"}),
        Answer(drop=True),
    )
    web.on("/r", robots, Answer(drop=True))
    urls = [web.url(path) for path in ("/1", "/2", "/private")]
    run(PagesSpider, cached, start_urls=urls)
    before = len(web.visits)
    assert before == 5 - forbidden
    crawl = run(PagesSpider, {**anew, "DOWNLOAD_DELAY": 5}, start_urls=urls)
    assert crawl.reason == "finished"
    assert crawl.stats["httpcache/hit"] == before
    assert crawl.stats.get("robotstxt/forbidden", 0) == forbidden
    assert crawl.stats["elapsed_time_seconds"] < 5
    assert len(web.visits) == before


def test_a_copy_that_is_a_day_old_is_asked_for_anew_past_the_cache(
    web: Web, run: Run, clock: JumpingClock, cached: dict[str, Any]
) -> None:
    """Though the cache goes on having the old file."""
    web.on(ROBOTS, Answer(200, FILE, TAG), Answer(200, "User-agent: *\nDisallow: /open"))
    run(PagesSpider, cached, start_urls=[web.url("/")])
    clock.jump(clock() + 2 * DAY)
    for _ in range(2):
        run(PagesSpider, cached, start_urls=[web.url("/open")])
        assert web.paths() == [ROBOTS, "/", ROBOTS]


HURRIED = {"FRONTIER_CLOCK": "test_robots_crawl.hurried", "FRONTIER_END_WAIT": 9000}
BOMB = Answer(200, gzip.compress(bytes(16 << 20)), {"Content-Encoding": "gzip"})


@pytest.mark.parametrize("answer", [Answer(503), Answer(429), Answer(304), BOMB])
def test_what_is_no_answer_in_the_cache_is_asked_for_anew(
    web: Web, run: Run, cached: dict[str, Any], anew: dict[str, Any], tmp_path: Path, answer: Answer
) -> None:
    web.on(ROBOTS, answer, Answer(200, FILE))
    run(PagesSpider, cached, start_urls=[web.url("/private")])
    crawl = run(PagesSpider, {**anew, **HURRIED}, start_urls=[web.url("/private")])
    assert crawl.stats["httpcache/hit"] == 1
    assert web.paths() == [ROBOTS, ROBOTS]
    assert states(tmp_path) == {"/private": State.EXCLUDED}


def test_where_the_cache_itself_asks_the_web_its_answer_costs_a_delay(
    web: Web, run: Run, clock: JumpingClock, cached: dict[str, Any], anew: dict[str, Any]
) -> None:
    web.on(ROBOTS, Answer(200, FILE, TAG), Answer(304))
    settings = {"HTTPCACHE_POLICY": "scrapy.extensions.httpcache.RFC2616Policy", "DOWNLOAD_DELAY": 0.5}
    urls = [web.url("/1"), web.url("/private")]
    run(PagesSpider, {**cached, **settings}, start_urls=urls)
    clock.jump(clock() + 2 * DAY)
    crawl = run(PagesSpider, {**anew, **settings}, start_urls=urls)
    assert crawl.stats["httpcache/revalidate"] == 1
    assert crawl.stats["robotstxt/forbidden"] == 1
    assert web.paths().count(ROBOTS) == 2
    assert min(web.gaps()[2:]) >= 0.5 - TOLERANCE
