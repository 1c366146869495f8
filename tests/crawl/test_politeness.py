"""What the server saw: how many requests at once, and how far apart."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from itertools import pairwise
from operator import sub
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
from arrivals import Arrivals
from scrapy import Request, Spider, signals
from scrapy.exceptions import StopDownload
from scrapy.http import HtmlResponse, Response
from server import TOLERANCE, Answer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Crawl
    from scrapy.crawler import Crawler
    from server import Web

DELAY = 60  # seconds: longer than the crawl takes


class LinkSpider(Spider):
    """Fetches *start_urls* and whatever they link."""

    name = "links"

    def parse(self, response: Response) -> Any:
        if isinstance(response, HtmlResponse):
            for link in response.css("a::attr(href)").getall():
                yield Request(response.urljoin(link))


def test_never_two_requests_of_a_host_at_once(web: Web, run: Callable[..., Crawl]) -> None:
    web.default = Answer(delay=0.03)
    urls = [web.url(f"/{number}", host) for number in range(20) for host in range(3)]
    crawl = run(LinkSpider, {"CONCURRENT_REQUESTS_PER_DOMAIN": 1}, start_urls=urls)
    assert crawl.reason == "finished"
    assert sorted(web.paths()) == sorted(f"/{number}" for number in range(20) for _ in range(3))
    assert max(visit.under_way for visit in web.visits) == 1


def test_as_many_requests_of_a_host_at_once_as_allowed(web: Web, run: Callable[..., Crawl]) -> None:
    web.default = Answer(until=lambda: len(web.visits) >= 3)
    run(LinkSpider, {"CONCURRENT_REQUESTS_PER_DOMAIN": 3}, start_urls=[web.url(f"/{n}") for n in range(12)])
    assert len(web.visits) == 12
    assert max(visit.under_way for visit in web.visits) == 3


def test_retries_and_links_keep_the_delay(web: Web, run: Callable[..., Crawl]) -> None:
    """Two hosts, pages that fail once, redirects and links: no gap is shorter than DOWNLOAD_DELAY."""
    for host in range(2):
        web.link("/", "/a", "/bad", "/from", host=host)
        web.on("/bad", Answer(503), Answer(), host=host)
        web.on("/from", host=host, status=302, headers={"Location": "/to"})
    settings = {"DOWNLOAD_DELAY": 0.8, "CONCURRENT_REQUESTS_PER_DOMAIN": 4}
    crawl = run(LinkSpider, settings, start_urls=[web.url("/", host) for host in range(2)])
    assert crawl.reason == "finished"
    for host in range(2):
        assert sorted(web.paths(host)) == ["/", "/a", "/bad", "/bad", "/from", "/to"]
        assert min(web.gaps(host)) >= 0.8 - TOLERANCE


def test_a_request_on_a_broken_connection_is_sent_again_by_the_clock_of_its_host(
    web: Web, run: Callable[..., Crawl]
) -> None:
    """Twisted's pool would send it again within milliseconds. The host need not rest for it."""
    web.on("/1", Answer(drop=True), Answer())
    settings = {"ADDONS": {"scrapy_frontier.Addon": 500}, "DOWNLOAD_DELAY": 0.8}
    crawl = run(LinkSpider, settings, start_urls=[web.url(f"/{number}") for number in range(4)])
    assert sorted(web.paths()) == ["/0", "/1", "/1", "/2", "/3"]
    assert min(web.gaps()) >= 0.8 - TOLERANCE
    assert "frontier/cooldown/strikes" not in crawl.stats


def test_pages_of_the_cache_cost_no_delay_and_the_others_keep_theirs(
    web: Web, run: Callable[..., Crawl], tmp_path: Path
) -> None:
    cached, new = [f"/{number}" for number in range(8)], ["/a", "/b", "/c"]
    urls = [web.link("/", *cached), web.link("/new", *cached, *new)]
    cache = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path / "cache"), "FRONTIER_DIR": None}
    run(LinkSpider, cache, start_urls=urls[:1])
    before = len(web.visits)
    crawl = run(LinkSpider, {**cache, "DOWNLOAD_DELAY": 0.8}, start_urls=urls)
    assert crawl.stats["httpcache/hit"] == 9
    assert sorted(web.paths()[before:]) == ["/a", "/b", "/c", "/new"]
    assert min(web.gaps()[before:]) >= 0.8 - TOLERANCE
    assert crawl.stats["elapsed_time_seconds"] < 6  # and not twelve delays


def test_what_a_middleware_makes_of_a_page_of_the_cache_costs_no_delay(
    web: Web, run: Callable[..., Crawl], tmp_path: Path
) -> None:
    """Redirects, and pages that are dropped: neither ends as a response that says where it is from."""
    tags, numbers = {"X-Robots-Tag": "noindex"}, range(4)
    moved = [web.on(f"/from/{n}", status=301, headers={"Location": f"/to/{n}"}) for n in numbers]
    dropped = [web.on(f"/drop/{n}", headers=tags) for n in numbers]
    settings = {
        "ADDONS": {"scrapy_frontier.Addon": 500},
        "FRONTIER_NOINDEX": "skip",
        "FRONTIER_DIR": None,
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path / "cache"),
    }
    run(LinkSpider, settings, start_urls=moved + dropped)
    assert len(web.visits) == 12
    crawl = run(LinkSpider, {**settings, "DOWNLOAD_DELAY": 0.8}, start_urls=moved + dropped)
    assert crawl.stats["httpcache/hit"] == 12
    assert len(web.visits) == 12
    assert crawl.stats["elapsed_time_seconds"] < 4  # and not twelve delays


def test_where_the_cache_stands_for_the_web_what_it_does_not_have_costs_no_delay(
    web: Web, run: Callable[..., Crawl], tmp_path: Path
) -> None:
    settings = {
        "FRONTIER_DIR": None,
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_IGNORE_MISSING": True,
        "HTTPCACHE_DIR": str(tmp_path / "cache"),
        "DOWNLOAD_DELAY": 3,
    }
    crawl = run(LinkSpider, settings, start_urls=[web.url(f"/{n}") for n in range(4)])
    assert crawl.stats["httpcache/ignore"] == 4
    assert crawl.stats["elapsed_time_seconds"] < 6  # and not three delays
    assert not web.visits


@pytest.mark.parametrize("signals", [(signal.SIGKILL,), (signal.SIGINT,)], ids=["SIGKILL", "SIGINT"])
def test_delay_outlives_the_crawl(
    web: Web, start: Callable[..., Crawl], signals: tuple[signal.Signals, ...]
) -> None:
    """A crawl that starts again at once leaves a host alone for the rest of its delay."""
    settings = {"DOWNLOAD_DELAY": 3}
    urls = [web.url("/1"), web.url("/2")]
    crawl = start(LinkSpider, settings, start_urls=urls)
    web.wait(1)
    crawl.kill(*signals)
    start(LinkSpider, settings, start_urls=urls)
    web.wait(2)
    assert web.gaps()[0] >= 3 - TOLERANCE


def test_slow_hosts_leave_the_places_to_fast_ones(web: Web, start: Callable[..., Crawl]) -> None:
    """Five hosts with a long delay and one without: all its pages come before their second ones."""
    slow = {web.name(host): {"delay": DELAY, "concurrency": 1} for host in range(5)}
    urls = [web.url(f"/{number}", host) for host in range(5) for number in range(2)]
    urls += [web.url(f"/{number}", 5) for number in range(60)]
    crawl = start(LinkSpider, {"DOWNLOAD_SLOTS": slow, "CONCURRENT_REQUESTS": 4}, start_urls=urls)
    web.wait(5 + 60)
    crawl.kill()
    assert [len(web.paths(host)) for host in range(6)] == [1, 1, 1, 1, 1, 60]


def test_redirect_waits_for_the_host_it_leads_to(web: Web, run: Callable[..., Crawl]) -> None:
    """Four redirects at once from a host without delay to one with: its delay is kept."""
    for number in range(4):
        web.on(f"/{number}", status=302, headers={"Location": web.url(f"/to{number}", 1)})
    urls = [web.url(f"/{number}") for number in range(4)]
    crawl = run(LinkSpider, {"DOWNLOAD_SLOTS": {web.name(1): {"delay": 0.8}}}, start_urls=urls)
    assert crawl.reason == "finished"
    assert sorted(web.paths(1)) == ["/to0", "/to1", "/to2", "/to3"]
    assert min(web.gaps(1)) >= 0.8 - TOLERANCE


def test_redirect_does_not_use_the_slot_of_the_host_it_comes_from(
    web: Web, run: Callable[..., Crawl]
) -> None:
    """From a host with a delay: where its pages lead is fetched at once, and costs it no turn."""
    delay = 5  # seconds, so long that a slow machine is not taken for a turn lost
    for number in range(3):
        web.on(f"/{number}", status=302, headers={"Location": web.url(f"/to{number}", 1)})
    urls = [web.url(f"/{number}") for number in range(3)]
    crawl = run(LinkSpider, {"DOWNLOAD_SLOTS": {web.name(0): {"delay": delay}}}, start_urls=urls)
    assert crawl.reason == "finished"
    assert [visit.host for visit in web.visits] == [0, 1, 0, 1, 0, 1]
    assert delay - TOLERANCE <= min(web.gaps(0)) <= max(web.gaps(0)) < 2 * delay - TOLERANCE


def test_slots_the_spider_chose_are_kept(web: Web, run: Callable[..., Crawl]) -> None:
    """Two hosts in one slot of the user's own share its delay."""
    slots = {"both": {"delay": 0.8}}
    crawl = run(SlotSpider, {"DOWNLOAD_SLOTS": slots}, urls=[web.url("/"), web.url("/", 1)])
    assert crawl.reason == "finished"
    times = sorted(web.times(0) + web.times(1))
    assert len(times) == 4
    assert min(after - before for before, after in pairwise(times)) >= 0.8 - TOLERANCE


class BusySpider(LinkSpider):
    """Blocks the event loop for a while after every second request was handed to the downloader."""

    name = "busy"

    @classmethod
    def from_crawler(cls, crawler: Crawler, *given: Any, **named: Any) -> Any:
        spider = super().from_crawler(crawler, *given, **named)
        crawler.signals.connect(spider.reached_downloader, signals.request_reached_downloader)
        return spider

    def reached_downloader(self, request: Request) -> None:
        if request.url.endswith(("0", "2", "4")):
            asyncio.get_running_loop().call_soon(time.sleep, 1)


def test_the_delay_counts_from_the_socket(web: Web, run: Callable[..., Crawl]) -> None:
    """A request that an event loop sends a second late does not come closer to the next one for it."""
    crawl = run(BusySpider, {"DOWNLOAD_DELAY": 1.5}, start_urls=[web.url(f"/{n}") for n in range(6)])
    assert crawl.reason == "finished"
    assert len(web.visits) == 6
    assert min(web.gaps()) >= 1.5 - TOLERANCE


class BurningSpider(LinkSpider):
    """A spider whose callbacks need the processor, beside others that do."""

    name = "burning"

    def parse(self, response: Response) -> Any:
        until = time.perf_counter() + random.choice((0.0, 0.03, 0.1, 0.2))
        while time.perf_counter() < until:
            pass


@pytest.mark.parametrize(
    ("burning", "pages"), [(0, 5), pytest.param(2 * (os.cpu_count() or 1), 20, marks=pytest.mark.slow)]
)
def test_the_delay_is_kept_on_a_starved_processor(
    start: Callable[..., Crawl], burning: int, pages: int
) -> None:
    """By the clock of the kernel, which marks bytes when they arrive; also beside others that burn time."""
    hosts, delay = 4, 0.25
    burn = "import time\nuntil = time.time() + 60\nwhile time.time() < until: pass"
    others = [subprocess.Popen([sys.executable, "-c", burn]) for _ in range(burning)]
    try:
        with Arrivals(hosts) as arrivals:
            urls = [arrivals.url(f"/{page}", host) for page in range(pages) for host in range(hosts)]
            crawl = start(BurningSpider, {"DOWNLOAD_DELAY": delay}, start_urls=urls).wait()
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert crawl.reason == "finished"
    gaps = [gap for times in arrivals.times for gap in map(sub, times[1:], times)]
    assert len(gaps) == hosts * (pages - 1)
    assert [gap for gap in gaps if gap < delay - 0.01] == []


class SlotSpider(Spider):
    """Fetches *urls*, then a page below each, all in one slot."""

    name = "slots"
    urls: list[str]

    async def start(self) -> Any:
        for url in self.urls:
            yield Request(url, meta={"download_slot": "both"})

    def parse(self, response: Response) -> Any:
        if "below" not in response.url:
            yield response.follow("/below", meta=response.meta)


def test_six_pages_at_a_delay_need_no_heartbeat(web: Web, run: Callable[..., Crawl]) -> None:
    """The timer of our own wakes the engine: most gaps are nowhere near Scrapy's 5 s."""
    run(LinkSpider, {"DOWNLOAD_DELAY": 0.6}, start_urls=[web.url(f"/{number}") for number in range(6)])
    assert len(web.visits) == 6
    assert min(web.gaps()) >= 0.6 - TOLERANCE
    assert median(web.gaps()) < 3


RAW = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1\r\n\r\nx"  # in one packet


class StoppingSpider(LinkSpider):
    """Wants no body."""

    name = "stopping"

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **arguments: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **arguments)
        crawler.signals.connect(spider.stop, signals.headers_received)
        return spider

    def stop(self) -> None:
        raise StopDownload(fail=False)


def test_connections_that_a_spider_has_closed_break_no_other_request(
    web: Web, run: Callable[..., Crawl]
) -> None:
    """They go back to Twisted's pool; a host that is fine would rest for what they break."""
    settings = {"ADDONS": {"scrapy_frontier.Addon": 500}, "DOWNLOAD_DELAY": 0}
    pages = [web.on(f"/{number}", raw=RAW) for number in range(150)]
    crawl = run(StoppingSpider, settings, start_urls=pages)
    assert crawl.stats["frontier/pages/done"] == len(web.visits) == 150
    assert "downloader/exception_count" not in crawl.stats
