"""A crawl that is run again and again: what is due comes back, and what that newly links is fetched."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from changing import CLOCK, DAY, ChangingWeb, JumpingClock, daily, once
from scrapy import Request, Spider

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Crawl
    from server import Web

    from scrapy_frontier.core.store.records import Page

    Run = Callable[..., Crawl]

EVERYTHING = {"SCHEDULER": None, "ADDONS": {"scrapy_frontier.Addon": 500}, "FRONTIER_CLOCK": "changing.clock"}
INTERVAL = {**EVERYTHING, "FRONTIER_REVISIT": "interval"}


class Follower(Spider):
    """Follows all links."""

    name = "follower"

    def __init__(self, url: str, meta: dict[str, Any] | None = None) -> None:
        self.url = url
        self.meta = meta or {}

    async def start(self) -> Any:
        yield Request(self.url, dont_filter=True, meta=self.meta)

    def parse(self, response: Any) -> Any:
        yield {"url": response.url}
        yield from response.follow_all(css="a")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangingWeb]:
    """A home page that links a new article every day, and a page that changes on the fourth day."""
    file = tmp_path / "clock"
    monkeypatch.setenv(CLOCK, str(file))
    web = ChangingWeb(JumpingClock(file))
    for number in range(40):
        web.document(f"/article{number}")
    web.document("/page", version=once(4))
    web.document(
        "/", version=daily, links=lambda day: ["/page", *(f"/article{each}" for each in range(day + 1))]
    )
    yield web
    web.close()


def asked(web: ChangingWeb, run: Run, settings: dict[str, Any], **arguments: Any) -> list[str]:
    """What a run asks for, beside robots.txt, in any order."""
    before = len(web.seen)
    crawl = run(Follower, settings, url=web.url("/"), **arguments)
    assert crawl.reason == "finished", crawl.log
    return sorted(seen.path for seen in web.seen[before:] if seen.path != "/robots.txt")


def test_never_nothing_is_fetched_twice(site: ChangingWeb, run: Run) -> None:
    settings = {**EVERYTHING, "FRONTIER_REVISIT": "never"}
    assert asked(site, run, settings) == ["/", "/article0", "/page"]
    site.clock.jump(site.clock() + 100 * DAY)
    assert asked(site, run, settings) == []


def test_what_comes_from_the_http_cache_was_not_visited_and_nothing_is_told_of_it(
    site: ChangingWeb, run: Run, tmp_path: Path
) -> None:
    settings = {**INTERVAL, "HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path / "cache")}
    assert asked(site, run, settings) == ["/", "/article0", "/page"]
    site.clock.jump(site.clock() + 7 * DAY)
    crawl = run(Follower, settings, url=site.url("/"))
    assert crawl.stats["httpcache/hit"] >= 3
    assert not [name for name in crawl.stats if name.startswith("frontier/visits/")], crawl.stats
    assert "came back" not in crawl.log


def test_with_an_interval_what_is_due_is_fetched_and_what_that_newly_links(
    site: ChangingWeb, run: Run
) -> None:
    """A week by default; nine tenths of it are enough."""
    assert asked(site, run, INTERVAL) == ["/", "/article0", "/page"]
    site.clock.jump(site.clock() + 6 * DAY)
    assert asked(site, run, INTERVAL) == []
    site.clock.jump(site.clock() + 0.5 * DAY)
    new = [f"/article{number}" for number in range(1, 7)]
    assert asked(site, run, INTERVAL) == sorted(["/", "/article0", "/page", *new])
    assert site.statuses("/article0") == [200, 304]
    assert site.statuses("/page") == [200, 200], "it has changed"
    assert asked(site, run, INTERVAL) == [], "it was visited just now"


def test_what_robots_txt_forbids_comes_back_with_that_file(site: ChangingWeb, run: Run) -> None:
    settings = {**INTERVAL, "ROBOTSTXT_OBEY": True}
    assert asked(site, run, settings) == ["/", "/article0", "/page"]
    site.on("/robots.txt", body=b"User-agent: *\nDisallow: /page\nDisallow: /article")
    for _ in range(2):
        site.clock.jump(site.clock() + 7 * DAY)
        assert asked(site, run, settings) == ["/"]
    site.on("/robots.txt", body=b"User-agent: *\nDisallow: /article3\n")
    site.clock.jump(site.clock() + 7 * DAY)
    numbers = [number for number in range(22) if number != 3]
    assert asked(site, run, settings) == sorted(["/", "/page", *(f"/article{number}" for number in numbers)])


def test_daily_only_what_is_new(site: ChangingWeb, run: Run) -> None:
    """Articles never come back; the home page does every day."""
    settings = {**INTERVAL, "FRONTIER_HUBS": "seeds", "FRONTIER_SHELF_LIFE": "inf"}
    assert asked(site, run, settings) == ["/", "/article0", "/page"]
    for day in (1, 2, 3):
        site.clock.jump(site.clock() + DAY)
        assert asked(site, run, settings) == ["/", f"/article{day}"]


def test_a_hub_that_is_named_by_its_url_is_fetched_though_nobody_yields_it(
    site: ChangingWeb, run: Run
) -> None:
    settings = {**INTERVAL, "FRONTIER_HUBS": {site.url("/article30"): 86400}}
    assert asked(site, run, settings) == ["/", "/article0", "/article30", "/page"]
    site.clock.jump(site.clock() + DAY)
    assert asked(site, run, settings) == ["/article30"]


class Renamed(Follower):
    """The same after its callback was given another name."""

    async def start(self) -> Any:
        yield Request(self.url, self.parse_home, dont_filter=True, meta={"frontier_shelf_life": 86400})

    def parse_home(self, response: Any) -> Any:
        self.logger.info("renamed: %s", response.url)
        yield from response.follow_all(css="a")


def test_a_seed_that_is_yielded_again_renews_its_request(site: ChangingWeb, run: Run) -> None:
    asked(site, run, INTERVAL)
    site.clock.jump(site.clock() + DAY)
    crawl = run(Renamed, INTERVAL, url=site.url("/"))
    assert f"renamed: {site.url('/')}" in crawl.log, "it asks for a day, which has passed"
    assert site.statuses("/page") == [200]


class LateSeed(Follower):
    """Reads its seed from somewhere slow: so many responses come first."""

    responses = 0

    def __init__(self, url: str, responses: int) -> None:
        super().__init__(url)
        self.responses = responses

    async def start(self) -> Any:
        assert self.crawler.stats
        while self.crawler.stats.get_value("downloader/response_count", 0) < self.responses:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)  # their pages end
        yield Request(self.url)


@pytest.mark.parametrize(
    "answers", [{"/s": 500}, {"/s": "/b", "/b": "/c", "/c": "/b"}], ids=["fails", "ring"]
)
def test_a_seed_that_came_back_before_it_is_yielded_is_not_tried_again(
    web: Web, clock: JumpingClock, run: Run, answers: dict[str, int | str]
) -> None:
    """It failed, or went round, in this run too."""
    for path, answer in answers.items():
        if isinstance(answer, int):
            web.on(path, status=answer)
        else:
            web.on(path, status=302, headers={"Location": answer})
    settings = {**INTERVAL, "RETRY_TIMES": 0}
    run(LateSeed, settings, url=web.url("/s"), responses=0)
    for _ in range(2):
        before = len(web.visits)
        clock.jump(clock() + 8 * DAY)
        assert run(LateSeed, settings, url=web.url("/s"), responses=len(answers)).reason == "finished"
        assert sorted(web.paths()[before:]) == sorted(answers)


class Insistent(Follower):
    """Fetches the home page of its site, though it is known."""

    def parse(self, response: Any) -> Any:
        yield response.follow("/", self.parse_home, dont_filter=True)

    def parse_home(self, response: Any) -> Any:
        self.logger.info("fetched: %s, before: %s", response.url, response.meta.get("frontier_last_visit"))
        yield from response.follow_all(css="a", callback=self.parse_home)


def test_a_page_that_is_fetched_with_dont_filter_before_it_is_due_comes_back_all_the_same(
    site: ChangingWeb, run: Run, pages: Callable[[], dict[str, Page]]
) -> None:
    """Its callback is called, and its record stays as it is."""
    asked(site, run, INTERVAL)
    first = pages()[site.url("/")].visits
    assert first is not None
    site.clock.jump(site.clock() + 3 * DAY)
    crawl = run(Insistent, INTERVAL, url=site.url("/start"))
    assert crawl.reason == "finished", crawl.log
    assert f"fetched: {site.url('/')}, before: {first.last}\n" in crawl.log
    assert pages()[site.url("/")].visits == first
    site.clock.jump(site.clock() + 3.5 * DAY)
    assert "/" in asked(site, run, INTERVAL)


def test_with_a_horizon_the_crawl_stays_open_for_what_falls_due(site: ChangingWeb, start: Run) -> None:
    """It looks at the clock again and again: this one jumps while the crawl waits."""
    settings = {
        **INTERVAL,
        "FRONTIER_REVISIT_HORIZON": 8 * DAY,
        "FRONTIER_REVISIT_SHARE": 1,
    }
    crawl = start(Follower, settings, url=site.url("/"))
    for times in (1, 2, 3):
        crawl.wait_for(f"'{site.url('/article0')}'", times=1)
        for _ in range(40):
            if len(site.of("/article0")) >= times and len(site.of("/page")) >= times:
                break
            crawl.go_on()
            site.clock.jump(site.clock() + DAY / 4)  # what ended after a jump is due that much later
        else:
            pytest.fail(crawl.log)
        crawl.go_on()  # until nothing is under way, as a rule
        site.clock.jump(site.clock() + 7.1 * DAY)
    crawl.kill()
    assert json.dumps(site.statuses("/article0")[:3]) == "[200, 304, 304]"
