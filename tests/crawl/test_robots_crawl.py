"""robots.txt, told by the server's log: first and alone, obeyed, kept, and no URL lost."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.exceptions import IgnoreRequest
from scrapy.resolver import CachingThreadedResolver
from server import TOLERANCE, Answer, Web
from test_politeness import LinkSpider
from twisted.internet.defer import Deferred, succeed

from scrapy_frontier.core.hosts.robots_policy import RobotsStatus
from scrapy_frontier.core.parse.robots_txt import BODY_LIMIT, parse
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.records import Verdict
from scrapy_frontier.crawl import robots as robots_module
from scrapy_frontier.crawl.robots import KnownSites, Site, SiteCache

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Crawl
    from scrapy.http import Response

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


def test_robots_comes_first_and_alone_and_once(web: Web, run: Run) -> None:
    """However many pages of a host are wanted before its file is known, none slips through."""
    web.on(ROBOTS, body="User-agent: *\nDisallow: /1\n", delay=0.3)
    run(LinkSpider, OBEY, start_urls=many(web, 20))
    first, second = web.visits[:2]
    assert first.path == ROBOTS
    assert first.end is not None
    assert second.begin >= first.end
    assert web.paths().count(ROBOTS) == 1
    assert not [path for path in web.paths() if path.startswith("/1")]
    assert {f"/{number}" for number in range(2, 10)} <= set(web.paths())


class ErrbackSpider(Spider):
    """Notes what its errback sees."""

    name = "errback"
    url: str

    async def start(self) -> Any:
        yield Request(self.url, errback=self.refused)
        yield Request(self.url + "?obey=not", meta={"dont_obey_robotstxt": True})

    def parse(self, response: Response) -> Any:
        yield {"url": response.url}

    def refused(self, failure: Any) -> None:
        assert failure.check(IgnoreRequest)
        self.logger.info("The errback met: %s", failure.value)


def test_a_forbidden_page_is_excluded_by_a_named_rule_and_its_errback_called(
    web: Web, run: Run, pages: Pages
) -> None:
    web.on(ROBOTS, body="# hello\nUser-agent: mybot\nDisallow: /private\n\nUser-agent: *\nDisallow: /\n")
    crawl = run(ErrbackSpider, OBEY, url=web.url("/private/1"))
    assert sorted(web.paths()) == ["/private/1?obey=not", ROBOTS]
    page = pages()[web.url("/private/1")]
    assert (page.state, page.reason) == (
        State.EXCLUDED,
        f"robots.txt of {web.url('')}: Disallow: /private",
    )
    assert "The errback met: Forbidden by robots.txt" in crawl.log
    wanted = {"forbidden": 1, "request_count": 1, "response_status_count/200": 1}
    assert {name: crawl.stats[f"robotstxt/{name}"] for name in wanted} == wanted


def test_forbidden_pages_do_not_slow_a_host_down(web: Web, run: Run) -> None:
    web.on(ROBOTS, body="User-agent: *\nDisallow: /no\nCrawl-delay: 2\n")
    web.link("/", *[web.url(f"/no{number}") for number in range(200)], web.url("/yes"))
    run(LinkSpider, OBEY, start_urls=[web.url("/")])
    assert web.paths() == [ROBOTS, "/", "/yes"]
    assert web.times()[-1] - web.times()[0] < 200  # a turn for each would take 400


def test_a_closed_port_keeps_no_page_of_another_port_from_being_fetched(
    web: Web, run: Run, pages: Pages
) -> None:
    with socket.create_server((web.name(0), 0)) as closed:
        dead = f"http://{web.name(0)}:{closed.getsockname()[1]}/dead"
    web.link("/", dead, *many(web, 10))
    for _ in range(2):  # a second run finds the page of the closed port at the head of the queue
        run(LinkSpider, {**OBEY, "FRONTIER_END_WAIT": 0}, start_urls=[web.url("/")])
        assert len(web.paths()) == 12
    assert (pages()[dead].state, pages()[dead].attempts) == (State.QUEUED, 0)


# -- delays --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["Crawl-delay: 0.6", "Request-rate: 5/3s"])
def test_no_gap_is_shorter_than_the_delay_asked_for(web: Web, run: Run, line: str) -> None:
    """From the answer of robots.txt itself on, with retries and redirects, and one request at a time."""
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


def test_a_delay_counts_from_the_answer_and_a_longer_one_of_the_settings_stands(web: Web, run: Run) -> None:
    web.on(ROBOTS, Answer(200, "User-agent: *\nCrawl-delay: 0.1\n", delay=0.8))
    run(LinkSpider, {**OBEY, "DOWNLOAD_DELAY": 0.8}, start_urls=many(web, 3))
    assert web.visits[0].end is not None
    assert web.visits[1].begin - web.visits[0].end >= 0.8 - TOLERANCE
    assert min(web.gaps()) >= 0.8 - TOLERANCE


def test_file_and_delay_outlive_a_kill(web: Web, start: Callable[..., Crawl]) -> None:
    web.on(ROBOTS, robots("Crawl-delay: 3"))
    crawl = start(LinkSpider, OBEY, start_urls=many(web, 3))
    web.wait(2)
    crawl.kill()
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
    [Answer(503), Answer(drop=True), Answer(delay=3000), Answer(raw=b"garbage\r\n\r\n")],
    ids=["503", "reset", "timeout", "garbage"],
)
def test_a_host_whose_file_cannot_be_read_sees_nothing_else(
    web: Web, run: Run, pages: Pages, answer: Answer
) -> None:
    """Not in the next run either, before its time."""
    web.on(ROBOTS, answer, host=0)
    urls = many(web, 20, 0)
    settings = {**OBEY, "DOWNLOAD_TIMEOUT": 8 if answer.delay else 120, "FRONTIER_END_WAIT": 2}
    crawl = run(LinkSpider, settings, start_urls=[*urls, *many(web, 20, 1)])
    assert crawl.reason == "finished"
    assert len(web.paths(1)) == 21
    assert {(pages()[url].state, pages()[url].attempts) for url in urls} == {(State.QUEUED, 0)}
    assert crawl.stats["frontier/robots/unreachable"] == 1
    assert "they stay queued: run the crawl again" in crawl.log
    assert "Traceback" not in crawl.log
    run(LinkSpider, {**settings, "FRONTIER_END_WAIT": 0}, start_urls=urls)
    assert web.paths(0) == [ROBOTS]


_BEGAN = time.time()


def hurried() -> float:
    """A clock that runs a hundred times as fast: pauses of a minute pass in no time."""
    return _BEGAN + (time.time() - _BEGAN) * 100


def tomorrow() -> float:
    """A day and an hour later."""
    return time.time() + 90_000


HURRIED = {**OBEY, "FRONTIER_CLOCK": "test_robots_crawl.hurried", "FRONTIER_END_WAIT": 9000}
TOMORROW = {**OBEY, "FRONTIER_CLOCK": "test_robots_crawl.tomorrow"}


def test_it_is_asked_again_and_then_the_pages_come(web: Web, run: Run) -> None:
    web.on(ROBOTS, Answer(503), Answer(503), robots("Disallow: /3"))
    crawl = run(LinkSpider, HURRIED, start_urls=many(web, 5))
    assert web.paths()[:3] == [ROBOTS] * 3
    first, second, third = web.times()[:3]
    assert second - first >= 0.6 - TOLERANCE
    assert third - second >= 1.2 - TOLERANCE
    assert sorted(web.paths()[3:]) == ["/0", "/1", "/2", "/4"]
    assert crawl.reason == "finished"
    assert crawl.stats["frontier/robots/unreachable"] == 2


class SlotSpider(LinkSpider):
    """All hosts in one slot."""

    name = "slot"

    async def start(self) -> Any:
        for url in self.start_urls:
            yield Request(url, meta={"download_slot": "all"})


def test_in_one_slot_a_file_that_cannot_be_read_stops_its_own_site_only(
    web: Web, run: Run, pages: Pages
) -> None:
    web.on(ROBOTS, status=503, host=1)
    settings = {**OBEY, "FRONTIER_END_WAIT": 1, "FRONTIER_MAX_ATTEMPTS": 3, "CLOSESPIDER_TIMEOUT": 300}
    crawl = run(SlotSpider, settings, start_urls=[*many(web, 3, 1), *many(web, 3, 0)])
    assert sorted(web.paths(0)) == ["/0", "/1", "/2", ROBOTS]
    assert web.paths(1) == [ROBOTS]
    page = pages()[web.url("/0", 1)]
    assert (page.state, page.attempts) == (State.QUEUED, 0)
    assert "cannot be read" in page.reason
    assert crawl.stats["frontier/robots/postponed"] >= 3


# -- what the project refuses to ask for ---------------------------------------------------------------


class PickyMiddleware:
    """A filter of URLs before all else, as many projects have one."""

    def process_request(self, request: Request) -> None:
        if request.url.endswith(ROBOTS):
            raise IgnoreRequest("not on the list")


PICKY = {"DOWNLOADER_MIDDLEWARES": {"test_robots_crawl.PickyMiddleware": 50}, "FRONTIER_END_WAIT": 0}


def test_where_the_project_refuses_robots_txt_pages_come_as_with_scrapy(web: Web, run: Run) -> None:
    """In this run; the next one, without the filter, asks, and of the one after that the copy holds."""
    for host in range(2):
        web.on(ROBOTS, robots("Disallow: /2"), host=host)
    crawl = run(LinkSpider, {**OBEY, **PICKY}, start_urls=[*many(web, 2), *many(web, 2, 1)])
    assert [sorted(web.paths(host)) for host in range(2)] == [["/0", "/1"]] * 2
    assert crawl.log.count("A downloader middleware of this project refuses ") == 1
    assert "frontier/robots/unreachable" not in crawl.stats
    run(LinkSpider, OBEY, start_urls=[web.url("/2"), web.url("/3")])
    run(LinkSpider, {**TOMORROW, **PICKY}, start_urls=[web.url("/2?"), web.url("/4")])
    assert web.paths(0)[2:] == [ROBOTS, "/3", "/4"]


# -- kept ----------------------------------------------------------------------------------------------


def test_a_copy_serves_for_a_day_and_then_until_another_file_is_there(
    web: Web, run: Run, pages: Pages
) -> None:
    """A host that asks for less a day later gets less."""
    web.on(ROBOTS, robots("Disallow: /1"), Answer(429, headers={"Retry-After": "3"}))
    run(LinkSpider, OBEY, start_urls=[web.url("/0")])
    crawl = run(LinkSpider, OBEY, start_urls=many(web, 3))
    assert web.paths() == [ROBOTS, "/0", "/2"]
    assert "robotstxt/request_count" not in crawl.stats
    crawl = run(LinkSpider, TOMORROW, start_urls=[web.url("/1?"), web.url("/3")])
    assert web.paths()[3:] == [ROBOTS, "/3"]
    assert pages()[web.url("/1")].reason.endswith("Disallow: /1")
    assert web.gaps()[-1] >= 3 - TOLERANCE
    assert "HTTP 429 for robots.txt" in crawl.log


# -- on its way ----------------------------------------------------------------------------------------


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


def test_without_end_a_redirect_is_no_file_and_a_file_is_read_as_far_as_it_counts(
    web: Web, run: Run, pages: Pages
) -> None:
    """One of more than four megabytes cannot be read."""
    web.on(ROBOTS, status=302, headers={"Location": ROBOTS})
    long = "User-agent: *\nDisallow: /first\n" + "# line\n" * (BODY_LIMIT // 7 + 20_000) + "Disallow: /\n"
    web.on(ROBOTS, body=long, host=1)
    web.on(ROBOTS, raw=b"HTTP/1.1 200 OK\r\nContent-Length: 3000000000\r\n\r\n#" + b"#" * 9_000, host=2)
    seeds = [web.url("/"), *(web.url(path, host) for host in (1, 2) for path in ("/first", "/second"))]
    run(LinkSpider, {**OBEY, "FRONTIER_END_WAIT": 0}, start_urls=seeds)
    assert web.paths(0) == [*[ROBOTS] * 6, "/"]
    assert web.paths(1) == [ROBOTS, "/second"]
    assert web.paths(2) == [ROBOTS]
    assert pages()[web.url("/first", 2)].state is State.QUEUED


def test_sixteen_slow_files_hold_up_no_other_host(run: Run) -> None:
    """They come when all pages of the other host have come."""
    web = Web(17)
    try:
        for host in range(16):
            web.on(ROBOTS, Answer(404, until=lambda: len(web.paths(16)) == 4), host=host)
        urls = [url for host in range(17) for url in many(web, 3, host)]
        crawl = run(LinkSpider, {**OBEY, "CONCURRENT_REQUESTS": 16}, start_urls=urls)
        assert crawl.reason == "finished"
        assert len(web.visits) == 17 * 4
    finally:
        web.close()


# -- requests past the scheduler -----------------------------------------------------------------------


class InlineSpider(Spider):
    """Fetches pages of hosts nobody knows yet from a callback, past the scheduler."""

    name = "inline"
    urls: list[str]

    async def parse(self, response: Response) -> Any:
        for url in self.urls:
            yield {url: await self.result_of(url)}

    async def result_of(self, url: str) -> str:
        try:
            got = await self.crawler.engine.download_async(Request(url))  # type: ignore[union-attr]
        except IgnoreRequest as reason:
            return str(reason)
        return str(got.status)


def fetched_inline(run: Run, directory: Path, settings: dict[str, Any], seed: str, *urls: str) -> list[str]:
    items = directory / "items.json"
    settings = {**OBEY, **settings, "FEEDS": {str(items): {"format": "json"}}}
    crawl = run(InlineSpider, settings, start_urls=[seed], urls=list(urls))
    assert crawl.reason == "finished"
    return [text for item in json.loads(items.read_text()) for text in item.values()]


def test_requests_past_the_scheduler_ask_the_same_gate(web: Web, run: Run, tmp_path: Path) -> None:
    web.on(ROBOTS, robots("Disallow: /private"), host=1)
    web.on(ROBOTS, status=503, host=2)
    urls = web.url("/open", 1), web.url("/private", 1), web.url("/", 2)
    allowed, forbidden, unknown = fetched_inline(run, tmp_path, {}, web.url("/"), *urls)
    assert (allowed, forbidden) == ("200", "Forbidden by robots.txt")
    assert "cannot be read" in unknown
    assert web.paths(1) == [ROBOTS, "/open"]
    assert web.paths(2) == [ROBOTS] * 3, "as often as RETRY_TIMES says: these have no queue to wait in"


def test_what_callbacks_download_is_not_lost_to_a_site_that_was_busy_once(
    web: Web, run: Run, tmp_path: Path
) -> None:
    web.on(ROBOTS, Answer(503, headers={"Retry-After": "3"}), Answer(404), host=1)
    settings = {"DOWNLOAD_DELAY": 2, "RETRY_TIMES": 1, "FRONTIER_END_WAIT": 0}
    assert fetched_inline(run, tmp_path, settings, web.url("/"), web.url("/", 1)) == ["200"]
    assert web.paths(1) == [ROBOTS, ROBOTS, "/"]
    assert web.gaps(1)[0] > 3 - TOLERANCE, "as any other request there"


class GatheringSpider(InlineSpider):
    """The same, all at once."""

    async def parse(self, response: Response) -> Any:
        for result in await asyncio.gather(*map(self.result_of, self.urls)):
            yield {"result": result}


def test_downloads_keep_the_delay_of_a_host_that_no_page_of_the_crawl_is_of(web: Web, run: Run) -> None:
    web.on(ROBOTS, robots("Crawl-delay: 0.6"), host=1)
    crawl = run(GatheringSpider, OBEY, start_urls=[web.url("/")], urls=many(web, 4, 1))
    assert crawl.stats["item_scraped_count"] == 4
    assert len(web.paths(1)) == 5
    assert min(web.gaps(1)) >= 0.6 - TOLERANCE


def test_after_a_signal_nothing_waits_for_a_site_that_wants_to_be_asked_later(
    web: Web, start: Callable[..., Crawl]
) -> None:
    web.on(ROBOTS, Answer(503, headers={"Retry-After": "55"}), host=1)
    crawl = start(InlineSpider, OBEY, start_urls=[web.url("/")], urls=[web.url("/", 1)])
    web.wait(1, host=1)
    begun = time.monotonic()
    crawl.go_on().kill(signal.SIGINT)
    assert time.monotonic() - begun < 50
    assert web.paths(1) == [ROBOTS]


# -- other parsers and schedulers ----------------------------------------------------------------------


def test_with_another_scheduler_it_is_scrapys_own(web: Web, run: Run) -> None:
    web.on(ROBOTS, body="User-agent: *\nDisallow: /1\n")
    web.on(ROBOTS, status=503, host=1)
    ours = {"scrapy_frontier.FrontierRobotsTxtMiddleware": 100}
    theirs = {"scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None}
    settings = {"SCHEDULER": "scrapy.core.scheduler.Scheduler", "DOWNLOADER_MIDDLEWARES": {**ours, **theirs}}
    seeds = [*many(web, 3), *many(web, 3, 1)]
    crawl = run(LinkSpider, {**settings, "ROBOTSTXT_OBEY": True}, start_urls=seeds)
    assert sorted(web.paths(0)) == ["/0", "/2", ROBOTS]
    assert {"/0", "/1", "/2"} <= set(web.paths(1))
    assert crawl.stats["robotstxt/forbidden"] == 1


# -- proxies -------------------------------------------------------------------------------------------


class ProxySpider(LinkSpider):
    """Has its seeds asked for by a proxy, and with headers of their own."""

    proxy: str | None = ""

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


def test_what_a_proxy_refuses_neither_opens_nor_shuts_a_site(web: Web, run: Run, pages: Pages) -> None:
    """The pages wait; the log names the proxy, and the pause that it asks for holds."""
    site = "http://site.invalid"
    web.on(f"{site}{ROBOTS}", status=403, headers={"Retry-After": "600"})
    settings = {**OBEY, "FRONTIER_END_WAIT": 1}
    crawl = run(ProxySpider, settings, start_urls=[f"{site}/a"], proxy=web.url(""))
    assert web.paths() == [f"{site}{ROBOTS}"]
    assert "cannot be read (HTTP 403 by a proxy); its pages wait, " in crawl.log
    assert "it is asked again in 10 min" in crawl.log
    assert pages()[f"{site}/a"].state is State.QUEUED


class SilentResolver(CachingThreadedResolver):
    """Never answers, as behind a firewall; logs what it is asked for."""

    def getHostByName(self, name: str, timeout: Any = ()) -> Deferred[str]:  # noqa: N802 - Twisted's name
        if name.replace(".", "").isdigit():
            return succeed(name)
        logging.getLogger("resolver").error("Asked for %s", name)
        return Deferred()


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
    web.on(f"{site}/", body=f'<meta http-equiv="refresh" content="0; url={other}/refreshed">')
    settings: dict[str, Any] = {**OBEY, "TWISTED_DNS_RESOLVER": "test_robots_crawl.SilentResolver"}
    if chosen_by == "environment":
        monkeypatch.setenv("http_proxy", web.url(""))
    else:
        settings["THE_PROXY"] = web.url("")
        settings["DOWNLOADER_MIDDLEWARES"] = {"test_robots_crawl.ProxyMiddleware": 610}
    crawl = run(LinkSpider, settings, start_urls=[f"{site}/", f"{site}/no", f"{site}/yes"])
    assert "Asked for" not in crawl.log
    assert {f"{site}/", f"{site}/yes", f"{other}/refreshed"} <= set(web.paths())
    assert f"{site}/no" not in web.paths()


class ThreadSpider(LinkSpider):
    """Counts the files that are parsed in the thread of the event loop, and how many at once beside it."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        read, begun = KnownSites.read, []

        def counting(*about: Any) -> RobotsStatus:
            is_loop = threading.current_thread() is threading.main_thread()
            self.crawler.stats.inc_value("test/in_loop" if is_loop else "test/beside")
            begun.append(about)
            self.crawler.stats.max_value("test/at_once", len(begun))
            try:
                return read(*about)
            finally:
                begun.pop()

        KnownSites.read = counting  # type: ignore[method-assign]


def test_files_are_parsed_beside_the_event_loop_but_for_small_copies(web: Web, run: Run) -> None:
    """Twenty of 20 KB that come in one turn would hold it up for .4 s."""
    web.on(ROBOTS, robots("Disallow: /no"))
    web.on(ROBOTS, robots(*(f"Disallow: /{number}*x" for number in range(200))), host=1)
    seeds = [web.url("/", 0), web.url("/", 1)]
    crawl = run(ThreadSpider, OBEY, start_urls=seeds)
    assert (crawl.stats["test/beside"], crawl.stats.get("test/in_loop")) == (2, None)
    crawl = run(ThreadSpider, OBEY, start_urls=[web.url("/2", 0), web.url("/2", 1)])
    assert (crawl.stats["test/beside"], crawl.stats["test/in_loop"]) == (1, 1)
    assert [web.paths(host).count(ROBOTS) for host in range(2)] == [1, 1]


def test_of_huge_files_one_is_parsed_at_a_time(run: Run) -> None:
    """Parsed in six threads, 42 of 250 made the event loop so slow that 83 requests timed out."""
    web = Web(12)
    try:
        for host in range(12):
            web.on(ROBOTS, robots(*(f"Disallow: /{number}*x" for number in range(8_000))), host=host)
        crawl = run(ThreadSpider, OBEY, start_urls=[web.url("/", host) for host in range(12)])
        assert (crawl.stats["test/beside"], crawl.stats["test/at_once"]) == (12, 1)
    finally:
        web.close()


# -- memory --------------------------------------------------------------------------------------------


def test_what_was_used_last_is_kept_and_the_largest_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_module, "SITES_KEPT", 3)
    monkeypatch.setattr(robots_module, "BYTES_KEPT", 10)
    status = RobotsStatus(Verdict.ALLOW_ALL, parse(b"", "*"), 0.0)
    found = SiteCache()
    sizes = {"a": 1, "b": 1, "c": 1, "d": 1, "e": 9, "f": 99}
    kept = []
    for name in "abcdbef":
        found.keep((name, ""), Site(name, status, sizes[name], None))
        kept.append("".join(name for name, _ in found))
    assert kept == ["a", "ab", "abc", "bcd", "cdb", "be", "f"]
