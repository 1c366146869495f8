"""robots.txt, told by the server's log: first and alone, obeyed, kept, and no URL lost."""

from __future__ import annotations

import json
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Response
from scrapy.resolver import CachingThreadedResolver
from server import TOLERANCE, Answer, Web
from test_politeness import LinkSpider
from twisted.internet.defer import Deferred, succeed

from scrapy_frontier.core.parse.robots_txt import BODY_LIMIT
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.crawl import robots as robots_module
from scrapy_frontier.crawl.robots import LruCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Crawl

    from scrapy_frontier.core.store.records import Page

    Run = Callable[..., Crawl]
    Pages = Callable[[], dict[str, Page]]

OBEY = {
    "SCHEDULER": None,
    "ADDONS": {"scrapy_frontier.Addon": 500},
    "ROBOTSTXT_OBEY": True,
    "USER_AGENT": "mybot/1.0",
}
ROBOTS = "/robots.txt"


def robots(*lines: str) -> Answer:
    return Answer(body="\n".join(("User-agent: *", *lines, "")), headers={"Content-Type": "text/plain"})


def many(web: Web, count: int, host: int = 0) -> list[str]:
    return [web.url(f"/{number}", host) for number in range(count)]


@pytest.mark.parametrize("order", ["one seed", "all at once"])
def test_robots_comes_first_and_alone_and_once(web: Web, run: Run, order: str) -> None:
    """However many pages of a host nobody knows are wanted at once, none slips through."""
    web.on(ROBOTS, body="User-agent: *\nDisallow: /1\n", delay=0.3)
    urls = many(web, 20)
    if order == "one seed":
        web.link("/", *urls)
        urls = [web.url("/")]
    run(LinkSpider, OBEY, start_urls=urls)
    first, second = web.visits[:2]
    assert first.path == ROBOTS
    assert first.end is not None
    assert second.begin >= first.end
    assert web.paths().count(ROBOTS) == 1
    assert not [path for path in web.paths() if path.startswith("/1")]
    assert {f"/{number}" for number in range(2, 10)} <= set(web.paths())


def test_a_forbidden_page_is_excluded_by_a_named_rule(web: Web, run: Run, pages: Pages) -> None:
    web.on(ROBOTS, body="# hello\nUser-agent: mybot\nDisallow: /private\n\nUser-agent: *\nDisallow: /\n")
    web.link("/", web.url("/private/1"), web.url("/open"))
    crawl = run(LinkSpider, OBEY, start_urls=[web.url("/")])
    assert crawl.reason == "finished"
    assert web.paths() == [ROBOTS, "/", "/open"]
    page = pages()[web.url("/private/1")]
    assert page.state is State.EXCLUDED
    assert page.reason == f"robots.txt of {web.url('')}: Disallow: /private"
    assert crawl.stats["robotstxt/forbidden"] == 1
    assert crawl.stats["robotstxt/request_count"] == 1
    assert crawl.stats["robotstxt/response_status_count/200"] == 1


class ErrbackSpider(Spider):
    """Notes what its errback sees, and the parser that the signal brings."""

    name = "errback"
    url: str
    found: str

    async def start(self) -> Any:
        yield Request(self.url, errback=self.refused)
        yield Request(self.url + "?obey=not", meta={"dont_obey_robotstxt": True})

    def parse(self, response: Response) -> Any:
        yield {"url": response.url}

    def refused(self, failure: Any) -> None:
        assert failure.check(IgnoreRequest)
        Path(self.found).write_text(str(failure.value))


def test_the_errback_sees_what_it_sees_with_scrapy(web: Web, run: Run, tmp_path: Path) -> None:
    web.on(ROBOTS, body="User-agent: *\nDisallow: /private\n")
    found = tmp_path / "found"
    crawl = run(ErrbackSpider, OBEY, url=web.url("/private"), found=str(found))
    assert found.read_text() == "Forbidden by robots.txt"
    assert web.paths() == ["/private?obey=not", ROBOTS] or web.paths() == [ROBOTS, "/private?obey=not"]
    assert crawl.stats["item_scraped_count"] == 1


def test_forbidden_pages_do_not_slow_a_host_down(web: Web, run: Run) -> None:
    web.on(ROBOTS, body="User-agent: *\nDisallow: /no\nCrawl-delay: 2\n")
    web.link("/", *[web.url(f"/no{number}") for number in range(200)], web.url("/yes"))
    run(LinkSpider, OBEY, start_urls=[web.url("/")])
    assert web.paths() == [ROBOTS, "/", "/yes"]
    assert web.times()[-1] - web.times()[0] < 200  # a turn for each would take 400


# -- delays --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["Crawl-delay: 0.6", "Request-rate: 5/3s", "Request-rate: 5/3 0000-2400"])
def test_no_gap_is_shorter_than_the_delay_asked_for(web: Web, run: Run, line: str) -> None:
    """The one after robots.txt itself too, with retries and redirects, and one request at a time."""
    web.on(ROBOTS, robots(line))
    web.on("/bad", Answer(500), Answer())
    web.on("/from", status=302, headers={"Location": "/to"})
    web.link("/", "/bad", "/from", "/slow")
    web.on("/slow", delay=1)
    crawl = run(LinkSpider, {**OBEY, "CONCURRENT_REQUESTS_PER_DOMAIN": 8}, start_urls=[web.url("/")])
    assert crawl.reason == "finished"
    assert sorted(web.paths()) == sorted([ROBOTS, "/", "/bad", "/bad", "/from", "/to", "/slow"])
    assert min(web.gaps()) >= 0.6 - TOLERANCE
    assert max(visit.under_way for visit in web.visits) == 1


def test_other_hosts_go_on_at_their_own_pace(web: Web, start: Callable[..., Crawl]) -> None:
    web.on(ROBOTS, robots("Crawl-delay: 600"), host=0)
    urls = many(web, 4, 0) + many(web, 40, 1)
    crawl = start(LinkSpider, OBEY, start_urls=urls)
    web.wait(41, host=1)
    crawl.kill()
    assert set(web.paths(0)) <= {ROBOTS}


def test_a_longer_download_delay_stands(web: Web, run: Run) -> None:
    web.on(ROBOTS, robots("Crawl-delay: 0.1"))
    run(LinkSpider, {**OBEY, "DOWNLOAD_DELAY": 0.8}, start_urls=many(web, 3))
    assert min(web.gaps()) >= 0.8 - TOLERANCE


@pytest.mark.parametrize("signals", [(signal.SIGKILL,), (signal.SIGINT,)], ids=["SIGKILL", "SIGINT"])
def test_the_delay_outlives_the_crawl(
    web: Web, start: Callable[..., Crawl], signals: tuple[signal.Signals, ...]
) -> None:
    web.on(ROBOTS, robots("Crawl-delay: 3"))
    crawl = start(LinkSpider, OBEY, start_urls=many(web, 3))
    web.wait(2)
    crawl.kill(*signals)
    seen = len(web.visits)
    start(LinkSpider, OBEY, start_urls=many(web, 3))
    web.wait(seen + 1)
    assert web.paths().count(ROBOTS) == 1
    assert min(web.gaps()) >= 3 - TOLERANCE


def test_outside_the_visit_time_nothing_is_fetched(web: Web, run: Run, pages: Pages) -> None:
    now = time.gmtime()
    hours = f"{(now.tm_hour + 2) % 24:02}00-{(now.tm_hour + 4) % 24:02}00"
    web.on(ROBOTS, robots(f"Visit-time: {hours}"))
    settings = {**OBEY, "FRONTIER_END_WAIT": 1}
    crawl = run(LinkSpider, settings, start_urls=[*many(web, 3), web.url("/", 1)])
    assert web.paths(0) == [ROBOTS]
    assert web.paths(1) == [ROBOTS, "/"]
    assert [pages()[url].state for url in many(web, 3)] == [State.QUEUED] * 3
    assert "FRONTIER_END_WAIT" in crawl.log


# -- what cannot be read -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        Answer(503),
        Answer(drop=True),
        Answer(delay=3000),
        Answer(raw=b"garbage\r\n\r\n"),
    ],
    ids=["503", "reset", "timeout", "garbage"],
)
def test_a_host_whose_file_cannot_be_read_sees_nothing_else(
    web: Web, run: Run, pages: Pages, answer: Answer
) -> None:
    web.on(ROBOTS, answer, host=0)
    urls = many(web, 20, 0)
    settings = {**OBEY, "DOWNLOAD_TIMEOUT": 8 if answer.delay else 120, "FRONTIER_END_WAIT": 2}
    crawl = run(LinkSpider, settings, start_urls=[*urls, *many(web, 20, 1)])
    assert set(web.paths(0)) == {ROBOTS}
    assert len(web.paths(1)) == 21
    assert crawl.reason == "finished"
    assert {page.state for url, page in pages().items() if url in urls} == {State.QUEUED}
    assert {page.attempts for url, page in pages().items() if url in urls} == {0}
    assert crawl.stats["frontier/robots/unreachable"] == 1
    assert "they stay queued: run the crawl again" in crawl.log
    assert "Traceback" not in crawl.log


class HurriedSpider(LinkSpider):
    """Its clock runs a hundred times as fast: pauses of a minute pass in no time."""

    name = "hurried"
    custom_settings = {"FRONTIER_CLOCK": "test_robots_crawl.hurried"}


_BEGAN = time.time()


def hurried() -> float:
    return _BEGAN + (time.time() - _BEGAN) * 100


def test_it_is_asked_again_and_then_the_pages_come(web: Web, run: Run) -> None:
    web.on(ROBOTS, Answer(503), Answer(503), robots("Disallow: /3"))
    crawl = run(HurriedSpider, {**OBEY, "FRONTIER_END_WAIT": 9000}, start_urls=many(web, 5))
    assert web.paths()[:3] == [ROBOTS] * 3
    first, second, third = web.times()[:3]
    assert second - first >= 0.6 - TOLERANCE
    assert third - second >= 1.2 - TOLERANCE
    assert sorted(web.paths()[3:]) == ["/0", "/1", "/2", "/4"]
    assert crawl.reason == "finished"
    assert crawl.stats["frontier/robots/unreachable"] == 2


def test_what_failed_is_known_to_the_next_run(web: Web, run: Run, start: Callable[..., Crawl]) -> None:
    web.on(ROBOTS, status=503)
    crawl = start(LinkSpider, OBEY, start_urls=many(web, 3))
    crawl.wait_for("cannot be read").go_on().kill()
    run(LinkSpider, {**OBEY, "FRONTIER_END_WAIT": 0}, start_urls=many(web, 3))
    assert web.paths() == [ROBOTS]


# -- what the project refuses to ask for ---------------------------------------------------------------


class PickyMiddleware:
    """A filter of URLs before all else, as many projects have one; or one of responses."""

    def __init__(self, refused: str) -> None:
        self._refused = refused

    @classmethod
    def from_crawler(cls, crawler: Any) -> PickyMiddleware:
        return cls(crawler.settings.get("REFUSED", ROBOTS))

    def process_request(self, request: Request) -> None:
        if request.url.endswith(self._refused):
            raise IgnoreRequest("not on the list")

    def process_response(self, request: Request, response: Response) -> Response:
        if response.status == 410:
            raise IgnoreRequest("gone")
        return response


PICKY = {**OBEY, "DOWNLOADER_MIDDLEWARES": {"test_robots_crawl.PickyMiddleware": 50}, "FRONTIER_END_WAIT": 0}


@pytest.mark.parametrize("has_cache", [False, True])
def test_where_the_project_refuses_robots_txt_pages_come_as_with_scrapy(
    web: Web, run: Run, tmp_path: Path, has_cache: bool
) -> None:
    """In this run; the next one, without the filter, asks."""
    for host in range(2):
        web.on(ROBOTS, robots("Disallow: /2"), host=host)
    cache = {"HTTPCACHE_ENABLED": has_cache, "HTTPCACHE_DIR": str(tmp_path / "cache")}
    crawl = run(LinkSpider, {**PICKY, **cache}, start_urls=[*many(web, 2), *many(web, 2, 1)])
    assert [sorted(web.paths(host)) for host in range(2)] == [["/0", "/1"]] * 2
    assert crawl.log.count("A downloader middleware of this project refuses ") == 1
    assert "(IgnoreRequest: not on the list)" in crawl.log
    assert "frontier/robots/unreachable" not in crawl.stats
    run(LinkSpider, OBEY, start_urls=[web.url("/2"), web.url("/3")])
    assert web.paths(0)[2:] == [ROBOTS, "/3"]


def test_an_old_copy_of_one_that_is_refused_serves(web: Web, run: Run) -> None:
    web.on(ROBOTS, robots("Disallow: /1"))
    run(LinkSpider, OBEY, start_urls=many(web, 1))
    run(TomorrowSpider, PICKY, start_urls=many(web, 3))
    assert web.paths() == [ROBOTS, "/0", "/2"]


def test_where_a_redirect_of_robots_txt_is_refused_pages_come_too(web: Web, run: Run) -> None:
    web.on(ROBOTS, status=302, headers={"Location": web.url("/elsewhere", 1)})
    run(LinkSpider, {**PICKY, "REFUSED": "/elsewhere"}, start_urls=many(web, 2))
    assert sorted(web.paths()) == ["/0", "/1", ROBOTS]
    assert web.paths(1) == []


def test_an_answer_that_the_project_ignores_is_none(web: Web, run: Run) -> None:
    web.on(ROBOTS, status=410)
    crawl = run(LinkSpider, {**PICKY, "REFUSED": "/none"}, start_urls=many(web, 2))
    assert web.paths() == [ROBOTS]
    assert "cannot be read (IgnoreRequest: gone); its pages wait" in crawl.log


# -- kept ----------------------------------------------------------------------------------------------


def test_the_next_run_asks_nobody_again(web: Web, run: Run) -> None:
    web.on(ROBOTS, robots("Disallow: /1", "Crawl-delay: 0.6"))
    run(LinkSpider, OBEY, start_urls=[web.url("/0")])
    crawl = run(LinkSpider, OBEY, start_urls=many(web, 4))
    assert web.paths() == [ROBOTS, "/0", "/2", "/3"]
    assert min(web.gaps()) >= 0.6 - TOLERANCE
    assert "robotstxt/request_count" not in crawl.stats


_TOMORROW = _BEGAN + 90_000


def tomorrow() -> float:
    return _TOMORROW + (time.time() - _BEGAN)


class TomorrowSpider(LinkSpider):
    """Comes a day and an hour later."""

    name = "tomorrow"
    custom_settings = {"FRONTIER_CLOCK": "test_robots_crawl.tomorrow"}


def test_the_file_of_yesterday_is_only_sent_again_if_it_changed(web: Web, run: Run, pages: Pages) -> None:
    first = robots("Disallow: /1")
    validators = {"ETag": '"one"', "Last-Modified": "Sat, 21 Nov 2026 00:00:00 GMT"}
    first.headers.update(validators)
    web.on(ROBOTS, first, Answer(304))
    run(LinkSpider, OBEY, start_urls=[web.url("/0")])
    run(TomorrowSpider, OBEY, start_urls=many(web, 3))
    assert web.paths() == [ROBOTS, "/0", ROBOTS, "/2"]
    asked = [visit.headers for visit in web.visits if visit.path == ROBOTS]
    assert "if-none-match" not in asked[0]
    assert asked[1]["if-none-match"] == '"one"'
    assert asked[1]["if-modified-since"] == validators["Last-Modified"].lower()
    assert pages()[web.url("/1")].reason == f"robots.txt of {web.url('')}: Disallow: /1"


def test_a_host_that_asks_for_less_gets_less_although_an_old_file_is_there(web: Web, run: Run) -> None:
    busy = Answer(429, headers={"Retry-After": "3"})
    web.on(ROBOTS, robots("Disallow: /1"), busy)
    run(LinkSpider, OBEY, start_urls=[web.url("/0")])
    crawl = run(TomorrowSpider, OBEY, start_urls=many(web, 3))
    assert crawl.reason == "finished"
    assert web.paths() == [ROBOTS, "/0", ROBOTS, "/2"]
    assert web.gaps()[-1] >= 3 - TOLERANCE
    assert " after strike 1: HTTP 429 for robots.txt" in crawl.log


def test_redirects_are_followed_across_hosts_each_by_its_own_clock(web: Web, run: Run) -> None:
    """Five hops; the file is for the first host, and the hosts on the way keep their own rules and delay."""
    for hop in range(5):
        target = web.url(f"/hop{hop + 1}", hop + 1)
        web.on(ROBOTS if hop == 0 else f"/hop{hop}", host=hop, status=301, headers={"Location": target})
    web.on("/hop5", robots("Disallow: /private"), host=5)
    urls = [web.url("/private"), web.url("/open"), web.url("/private", 5)]
    run(LinkSpider, {**OBEY, "DOWNLOAD_DELAY": 0.8}, start_urls=urls)
    assert web.paths(0) == [ROBOTS, "/open"]
    assert sorted(web.paths(5)) == sorted(["/hop5", ROBOTS, "/private"])
    assert min(gap for host in range(6) for gap in web.gaps(host)) >= 0.8 - TOLERANCE


def test_a_redirect_without_end_is_no_file(web: Web, run: Run) -> None:
    web.on(ROBOTS, status=302, headers={"Location": ROBOTS})
    run(LinkSpider, OBEY, start_urls=[web.url("/")])
    assert web.paths() == [*[ROBOTS] * 6, "/"]


def test_a_file_without_end_is_read_as_far_as_it_counts(web: Web, run: Run) -> None:
    body = "User-agent: *\nDisallow: /first\n" + "# line\n" * (BODY_LIMIT // 7 + 20_000)
    endless = f"HTTP/1.1 200 OK\r\nContent-Length: 3000000000\r\n\r\n{body}Disallow: /\n" + "#" * 2_000_000
    web.on(ROBOTS, raw=endless.encode())
    run(LinkSpider, OBEY, start_urls=[web.url("/first"), web.url("/second")])
    assert web.paths() == [ROBOTS, "/second"]


def test_sixteen_slow_files_hold_nobody_up(run: Run) -> None:
    """They come when all pages of the other host have come."""
    web = Web(17)
    try:
        for host in range(16):
            web.on(ROBOTS, Answer(404, until=lambda: len(web.paths(16)) == 4), host=host)
        urls = [url for host in range(17) for url in many(web, 3, host)]
        settings = {
            **OBEY,
            "CONCURRENT_REQUESTS": 16,
        }
        crawl = run(LinkSpider, settings, start_urls=urls)
        assert crawl.reason == "finished"
        assert len(web.visits) == 17 * 4
    finally:
        web.close()


# -- others --------------------------------------------------------------------------------------------


class InlineSpider(Spider):
    """Fetches pages of hosts nobody knows yet from a callback, past the scheduler."""

    name = "inline"
    urls: list[str]

    async def parse(self, response: Response) -> Any:
        found = {}
        for url in self.urls:
            found[url] = await self.result_of(url)
        return found

    async def result_of(self, url: str) -> str:
        try:
            got = await self.crawler.engine.download_async(Request(url))  # type: ignore[union-attr]
        except IgnoreRequest as reason:
            return str(reason)
        return str(got.status)


def test_requests_past_the_scheduler_ask_the_same_gate(web: Web, run: Run, tmp_path: Path) -> None:
    web.on(ROBOTS, robots("Disallow: /private"), host=1)
    web.on(ROBOTS, status=503, host=2)
    urls = [web.url("/open", 1), web.url("/private", 1), web.url("/", 2)]
    items = tmp_path / "items.json"
    crawl = run(
        InlineSpider,
        {**OBEY, "FEEDS": {str(items): {"format": "json"}}},
        start_urls=[web.url("/")],
        urls=urls,
    )
    (found,) = json.loads(items.read_text())
    assert list(found.values()) == [
        "200",
        "Forbidden by robots.txt",
        f"robots.txt of {web.url('', 2)} cannot be read",
    ]
    assert web.paths(1) == [ROBOTS, "/open"]
    assert web.paths(2) == [ROBOTS] * 3, "as often as RETRY_TIMES says: nobody would queue it again"
    assert "; what is downloaded there meanwhile fails, and it is asked again in" in crawl.log


class LinkingInlineSpider(InlineSpider):
    """Has a page of the site queued as well."""

    async def parse(self, response: Response) -> Any:
        yield Request(self.urls[0] + "page", self.nothing)
        yield await super().parse(response)

    def nothing(self, response: Response) -> None:
        pass


@pytest.mark.parametrize("spider", [InlineSpider, LinkingInlineSpider])
@pytest.mark.parametrize(("retry_times", "headers"), [(0, {}), (1, {}), (1, {"Retry-After": "3"})])
def test_what_callbacks_download_is_not_lost_to_a_site_that_was_busy_once(
    web: Web, run: Run, tmp_path: Path, retry_times: int, headers: dict[str, str], spider: type[Spider]
) -> None:
    web.on(ROBOTS, Answer(503, headers=headers), Answer(404), host=1)
    items, url = tmp_path / "items.json", web.url("/", 1)
    settings = {**OBEY, "DOWNLOAD_DELAY": 2, "RETRY_TIMES": retry_times, "FRONTIER_END_WAIT": 0}
    settings["FEEDS"] = {str(items): {"format": "json"}}
    run(spider, settings, start_urls=[web.url("/")], urls=[url])
    (found,) = json.loads(items.read_text())
    assert (found == {url: "200"}) == bool(retry_times)
    assert web.paths(1)[:3] == ([ROBOTS, ROBOTS, "/"] if retry_times else [ROBOTS])
    least = 3 if headers else 2
    assert all(gap > least - TOLERANCE for gap in web.gaps(1)[:1]), "as any other request there"


STOCK = {
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "ROBOTSTXT_OBEY": True,
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
        "scrapy_frontier.FrontierRobotsTxtMiddleware": 100,
    },
}


def test_with_another_scheduler_it_is_scrapys_own(web: Web, run: Run) -> None:
    web.on(ROBOTS, body="User-agent: *\nDisallow: /1\n")
    web.on(ROBOTS, status=503, host=1)
    crawl = run(LinkSpider, STOCK, start_urls=[*many(web, 3), *many(web, 3, 1)])
    assert sorted(web.paths(0)) == ["/0", "/2", ROBOTS]
    assert {"/0", "/1", "/2"} <= set(web.paths(1))
    assert crawl.stats["robotstxt/forbidden"] == 1


def test_in_one_slot_a_file_that_cannot_be_read_stops_its_own_site_only(
    web: Web, run: Run, pages: Pages
) -> None:
    web.on(ROBOTS, status=503, host=1)
    settings = {**OBEY, "FRONTIER_END_WAIT": 1, "FRONTIER_MAX_ATTEMPTS": 3}
    crawl = run(
        SlotSpider, {**settings, "CLOSESPIDER_TIMEOUT": 300}, urls=[*many(web, 3, 1), *many(web, 3, 0)]
    )
    assert sorted(web.paths(0)) == ["/0", "/1", "/2", ROBOTS]
    assert web.paths(1) == [ROBOTS]
    page = pages()[web.url("/0", 1)]
    assert (page.state, page.attempts) == (State.QUEUED, 0)
    assert page.reason == f"robots.txt of {web.url('', 1)} cannot be read"
    assert crawl.stats["frontier/robots/postponed"] >= 3


class SlotSpider(Spider):
    """All hosts in one slot."""

    name = "slot"
    urls: list[str]

    async def start(self) -> Any:
        for url in self.urls:
            yield Request(url, meta={"download_slot": "all"})

    def parse(self, response: Response) -> Any:
        assert isinstance(response, HtmlResponse)


def test_switched_off_nobody_asks(web: Web, run: Run) -> None:
    crawl = run(LinkSpider, {**OBEY, "ROBOTSTXT_OBEY": False}, start_urls=[web.url("/")])
    assert web.paths() == ["/"]
    assert not any(name.startswith("frontier/robots") for name in crawl.stats)


def test_own_parser_of_the_user_is_asked(web: Web, run: Run) -> None:
    web.on(ROBOTS, robots("Disallow: /0"))
    settings = {**OBEY, "ROBOTSTXT_PARSER": "test_robots_crawl.BackwardsParser"}
    run(LinkSpider, settings, start_urls=many(web, 2))
    assert web.paths() == [ROBOTS, "/0"]


class BackwardsParser:
    """Allows what is forbidden."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    @classmethod
    def from_crawler(cls, crawler: Any, robotstxt_body: bytes) -> BackwardsParser:
        return cls(robotstxt_body)

    def allowed(self, url: str, user_agent: str) -> bool:
        assert user_agent == "mybot/1.0"
        return url[-2:].encode() in self.body


class CountingParser(BackwardsParser):
    """Allows everything, and counts how often it is asked, and for whom."""

    crawler: Any

    @classmethod
    def from_crawler(cls, crawler: Any, robotstxt_body: bytes) -> CountingParser:
        parser = cls(robotstxt_body)
        parser.crawler = crawler
        return parser

    def allowed(self, url: str, user_agent: str) -> bool:
        self.crawler.stats.inc_value(f"asked/{user_agent}")
        return True


class OtherAgentMiddleware:
    """Fetches some pages in another name."""

    def process_request(self, request: Request) -> None:
        if request.url.endswith(("/0", "/1")):
            request.headers["User-Agent"] = "other/1.0"


def test_each_request_is_decided_once(web: Web, run: Run) -> None:
    web.on(ROBOTS, robots("Disallow: /no"))
    web.on("/5", status=302, headers={"Location": "/target"})
    settings = {**OBEY, "ROBOTSTXT_PARSER": "test_robots_crawl.CountingParser"}
    crawl = run(LinkSpider, settings, start_urls=many(web, 6))
    assert sorted(web.paths()) == [*(f"/{number}" for number in range(6)), ROBOTS, "/target"]
    assert crawl.stats["asked/mybot/1.0"] == 7, "six pages, and where one of them led to"


def test_one_that_changed_on_its_way_is_decided_anew(web: Web, run: Run) -> None:
    web.on(ROBOTS, robots("Disallow: /no"))
    settings = {
        **OBEY,
        "ROBOTSTXT_PARSER": "test_robots_crawl.CountingParser",
        "DOWNLOADER_MIDDLEWARES": {"test_robots_crawl.OtherAgentMiddleware": 50},
    }
    crawl = run(LinkSpider, settings, start_urls=many(web, 5))
    assert (crawl.stats["asked/mybot/1.0"], crawl.stats["asked/other/1.0"]) == (5, 2)


def test_gaps_are_counted_from_the_answer_of_robots(web: Web, run: Run) -> None:
    web.on(ROBOTS, Answer(200, "User-agent: *\nCrawl-delay: 0.8\n", delay=0.8))
    run(LinkSpider, OBEY, start_urls=many(web, 2))
    (robots_visit, first, second) = web.visits
    assert robots_visit.end is not None
    assert first.begin - robots_visit.end >= 0.8 - TOLERANCE
    assert all(after - before >= 0.8 - TOLERANCE for before, after in pairwise([first.begin, second.begin]))


class ProxySpider(LinkSpider):
    """Has its seeds asked for by a proxy, and with headers of their own."""

    proxy = ""

    async def start(self) -> Any:
        for url in self.start_urls:
            yield Request(url, headers={"X-Key": "secret"}, meta={"proxy": self.proxy})


def test_robots_goes_by_the_proxy_of_the_page_that_waits(web: Web, run: Run, pages: Pages) -> None:
    """The names resolve nowhere: the proxy alone, which wants a password, leads to the sites."""
    site, moved = "http://site.invalid", "http://other.invalid/robots.txt"
    web.on(f"{site}{ROBOTS}", status=301, headers={"Location": moved})
    web.on(moved, body="User-agent: *\nDisallow: /no\n")
    proxy = web.url("").replace("//", "//user:word@")
    run(ProxySpider, OBEY, start_urls=[f"{site}/yes", f"{site}/no"], proxy=proxy)
    assert web.paths() == [f"{site}{ROBOTS}", moved, f"{site}/yes"]
    assert {visit.lines["proxy-authorization"] for visit in web.visits} == {"Basic dXNlcjp3b3Jk"}
    assert ["x-key" in visit.headers for visit in web.visits] == [False, False, True]
    assert pages()[f"{site}/no"].state is State.EXCLUDED


@pytest.mark.parametrize("status", [401, 403, 407, 429])
def test_what_a_proxy_refuses_neither_opens_nor_shuts_a_site(
    web: Web, run: Run, pages: Pages, status: int
) -> None:
    """The pages wait; the log names the proxy, and the pause that it asks for holds."""
    site = "http://site.invalid"
    web.on(f"{site}{ROBOTS}", status=status, headers={"Retry-After": "600"})
    settings = {**OBEY, "FRONTIER_END_WAIT": 1}
    crawl = run(ProxySpider, settings, start_urls=[f"{site}/a"], proxy=web.url(""))
    assert web.paths() == [f"{site}{ROBOTS}"]
    assert f"cannot be read (HTTP {status} by a proxy); its pages wait, " in crawl.log
    assert "it is asked again in 10 min" in crawl.log
    assert pages()[f"{site}/a"].state is State.QUEUED


class SilentResolver(CachingThreadedResolver):
    """Never answers, as behind a firewall; looking a name up ends the test late, and in errors."""

    def getHostByName(self, name: str, timeout: Any = ()) -> Deferred[str]:  # noqa: N802 - Twisted's name
        return succeed(name) if name.replace(".", "").isdigit() else Deferred()


class ProxyMiddleware:
    """Chooses the proxy, as many projects do."""

    def __init__(self, proxy: str) -> None:
        self._proxy = proxy

    @classmethod
    def from_crawler(cls, crawler: Any) -> ProxyMiddleware:
        return cls(crawler.settings["THE_PROXY"])

    def process_request(self, request: Request) -> None:
        request.meta.setdefault("proxy", self._proxy)


@pytest.mark.parametrize("chosen_by", ["environment", "middleware"])
def test_behind_a_proxy_nothing_is_looked_up(
    web: Web, run: Run, monkeypatch: pytest.MonkeyPatch, chosen_by: str
) -> None:
    """The redirect of robots.txt to ``www.`` shuts no site, and a refresh leads to another host."""
    site, www, other = "http://site.example", "http://www.site.example", "http://other.example"
    web.on(f"{site}{ROBOTS}", status=301, headers={"Location": f"{www}{ROBOTS}"})
    web.on(f"{www}{ROBOTS}", body="User-agent: *\nDisallow: /no\n")
    web.on(f"{site}/", headers={"Refresh": f"0; url={other}/refreshed"})
    settings: dict[str, Any] = {**OBEY, "TWISTED_DNS_RESOLVER": "test_robots_crawl.SilentResolver"}
    if chosen_by == "environment":
        monkeypatch.setenv("http_proxy", web.url(""))
    else:
        settings["THE_PROXY"] = web.url("")
        settings["DOWNLOADER_MIDDLEWARES"] = {"test_robots_crawl.ProxyMiddleware": 610}
    run(LinkSpider, settings, start_urls=[f"{site}/", f"{site}/no", f"{site}/yes"])
    assert {f"{site}/", f"{site}/yes", f"{other}/refreshed"} <= set(web.paths())
    assert f"{site}/no" not in web.paths()


def test_a_page_that_wants_no_proxy_has_robots_asked_for_by_none(
    web: Web, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, and not by that of the environment."""
    monkeypatch.setenv("http_proxy", web.url("", 1))
    web.on(ROBOTS, status=503)
    run(DeadProxySpider, {**OBEY, "FRONTIER_END_WAIT": 1}, proxied=web.url("/a"), proxy=None)
    assert (web.paths(host=0), web.paths(host=1)) == ([ROBOTS], [])


def test_after_a_signal_nobody_waits_for_a_site_that_wants_to_be_asked_later(
    web: Web, start: Callable[..., Crawl]
) -> None:
    web.on(ROBOTS, Answer(503, headers={"Retry-After": "55"}), host=1)
    crawl = start(InlineSpider, OBEY, start_urls=[web.url("/")], urls=[web.url("/", 1)])
    web.wait(1, host=1)
    begun = time.monotonic()
    crawl.go_on().kill(signal.SIGINT)
    assert time.monotonic() - begun < 50
    assert web.paths(1) == [ROBOTS]


class DeadProxySpider(LinkSpider):
    """Has one of its seeds asked for by a proxy, before all others."""

    proxied = ""
    proxy: str | None = ""

    async def start(self) -> Any:
        yield Request(self.proxied, meta={"proxy": self.proxy}, priority=1)
        for url in self.start_urls:
            yield Request(url)


def test_what_was_used_last_is_kept_and_the_largest_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_module, "SITES_KEPT", 3)
    monkeypatch.setattr(robots_module, "BYTES_KEPT", 10)
    found: LruCache[str, bytes] = LruCache(len)
    for name, size in (("a", 1), ("b", 1), ("c", 1), ("d", 1), ("b", 2)):
        found.keep(name, bytes(size))
    assert list(found) == ["c", "d", "b"]
    found.keep("e", bytes(8))
    assert list(found) == ["b", "e"]
    found.keep("f", bytes(99))
    assert list(found) == ["f"]
