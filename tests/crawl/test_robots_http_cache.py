"""robots.txt and Scrapy's HTTP cache: what it has counts as read now, unless a copy is kept or it says
nothing."""

from __future__ import annotations

import gzip
from dataclasses import replace
from email.utils import formatdate
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
OTHER = "User-agent: *\nDisallow: /open"
NOBODY = Answer(drop=True)  # that is how it looks without a network
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
    return {**another(settings, directory), "HTTPCACHE_IGNORE_MISSING": True}


def dated(clock: JumpingClock, answer: Answer, **headers: str) -> Answer:
    """*answer* as of now."""
    date = {"Date": formatdate(clock(), usegmt=True)}
    return replace(answer, headers={**answer.headers, **date, **headers})


def another(settings: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The same with a frontier that knows nothing yet, in another *directory*."""
    return {**settings, "FRONTIER_DIR": str(directory)}


@pytest.mark.parametrize(
    ("robots", "forbidden"), [(Answer(200, FILE), 1), (Answer(404), 0)], ids=["file", "none"]
)
def test_a_crawl_of_today_is_run_again_from_the_cache(
    web: Web, run: Run, clock: JumpingClock, cached: dict[str, Any], robots: Answer, forbidden: int
) -> None:
    """As somebody does who develops a spider, without a network maybe; nor does that cost a delay."""
    web.on(ROBOTS, dated(clock, Answer(301, "", {"Location": "/r"})), NOBODY)
    web.on("/r", dated(clock, robots), NOBODY)
    settings, urls = {**cached, "FRONTIER_DIR": None}, [web.url(path) for path in ("/1", "/2", "/private")]
    run(PagesSpider, settings, start_urls=urls)
    before = len(web.visits)
    assert before == 5 - forbidden
    crawl = run(PagesSpider, {**settings, "DOWNLOAD_DELAY": 5}, start_urls=urls)
    assert crawl.reason == "finished"
    assert crawl.stats["httpcache/hit"] == before
    assert crawl.stats.get("robotstxt/forbidden", 0) == forbidden
    assert crawl.stats["elapsed_time_seconds"] < 5
    assert len(web.visits) == before


def test_a_copy_that_is_a_day_old_is_asked_for_anew_past_the_cache(
    web: Web, run: Run, clock: JumpingClock, cached: dict[str, Any]
) -> None:
    """With its validators, though the cache goes on having the old file."""
    web.on(ROBOTS, Answer(200, FILE, TAG), Answer(200, OTHER))
    run(PagesSpider, cached, start_urls=[web.url("/")])
    clock.jump(clock() + 2 * DAY)
    for _ in range(2):
        run(PagesSpider, cached, start_urls=[web.url("/open")])
        assert web.paths() == [ROBOTS, "/", ROBOTS]
    assert [visit.lines.get("if-none-match") for visit in web.visits if visit.path == ROBOTS] == [None, '"1"']


@pytest.mark.parametrize(
    "answer",
    [
        Answer(503),
        Answer(429),
        Answer(304),
        Answer(200, gzip.compress(bytes(16 << 20)), {"Content-Encoding": "gzip"}),
    ],
    ids=["503", "429", "304", "bomb"],
)
def test_what_is_no_answer_in_the_cache_is_asked_for_anew(
    web: Web, run: Run, clock: JumpingClock, cached: dict[str, Any], tmp_path: Path, answer: Answer
) -> None:
    web.on(ROBOTS, dated(clock, answer), Answer(200, FILE))
    run(PagesSpider, cached, start_urls=[web.url("/private")])
    crawl = run(PagesSpider, another(cached, tmp_path / "other"), start_urls=[web.url("/private")])
    assert crawl.stats["httpcache/hit"] == 1
    assert web.paths() == [ROBOTS, ROBOTS]
    assert read_pages(tmp_path / "other")[web.url("/private")].state is State.EXCLUDED


def test_where_the_cache_itself_asks_the_web_its_answer_costs_a_delay(
    web: Web, run: Run, clock: JumpingClock, cached: dict[str, Any], tmp_path: Path
) -> None:
    web.on(ROBOTS, dated(clock, Answer(200, FILE, TAG)), Answer(304))
    policy = {"HTTPCACHE_POLICY": "scrapy.extensions.httpcache.RFC2616Policy"}
    settings, urls = {**cached, **policy, "DOWNLOAD_DELAY": 0.5}, [web.url("/1"), web.url("/private")]
    run(PagesSpider, settings, start_urls=urls)
    clock.jump(clock() + 2 * DAY)
    crawl = run(PagesSpider, another(settings, tmp_path / "other"), start_urls=urls)
    assert crawl.stats["httpcache/revalidate"] == 1
    assert crawl.stats["robotstxt/forbidden"] == 1
    assert web.paths().count(ROBOTS) == 2
    assert min(web.gaps()[2:]) >= 0.5 - TOLERANCE


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
