"""Every request ends in its callback or its errback, as with Scrapy's own scheduler, or is told to be queued.

The rests in these tests outlast every test: nobody can have waited for one.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider, exceptions
from scrapy.http import HtmlResponse, Response
from scrapy.spidermiddlewares.httperror import HttpError
from server import Answer
from test_cooldown import closed_port

from scrapy_frontier.core.store.keys import orders_key
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import ORDERS, Orders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Crawl
    from server import Web


# Scrapy 2.14 hands on the exceptions of Twisted.
IS_NAMED = hasattr(exceptions, "DownloadFailedError")
FAILED = "DownloadFailedError" if IS_NAMED else "ResponseNeverReceived"
REFUSED = "DownloadConnectionRefusedError" if IS_NAMED else "ConnectionRefusedError"

NEVER = 90_000.0  # seconds: nobody waits so long
TEMPORARY = {"FRONTIER_DIR": None, "FRONTIER_COOLDOWN": NEVER, "FRONTIER_END_WAIT": NEVER}
STOCK = {**TEMPORARY, "SCHEDULER": None}
ADDON = {**STOCK, "ADDONS": {"scrapy_frontier.Addon": 500}}
WAYS = {"alone": TEMPORARY, "addon": ADDON}
NOWHERE = "http://nosuch.invalid/"

Told = list[tuple[str, str]]


class TellSpider(Spider):
    """Tells of each page what came of it."""

    name = "tell"

    async def start(self) -> Any:
        for url in self.start_urls:
            yield Request(url, errback=self.failed)

    def parse(self, response: Response) -> Any:
        yield {"url": response.url, "told": str(response.status)}
        if isinstance(response, HtmlResponse):
            for link in response.css("a::attr(href)").getall():
                yield response.follow(link, self.parse, errback=self.failed)

    def failed(self, failure: Any) -> Any:
        error = failure.value
        told = f"HTTP {error.response.status}" if isinstance(error, HttpError) else type(error).__name__
        yield {"url": failure.request.url, "told": told}


@pytest.fixture
def tell(items: Callable[..., list[Any]]) -> Callable[..., list[Told]]:
    """What the same crawl tells with each of some settings."""

    def tell(urls: list[str], *ways: dict[str, Any], spider: type[Spider] = TellSpider) -> list[Told]:
        told = items(spider, ways, start_urls=urls)
        return [[(item["url"], item["told"]) for item in each] for each in told]

    return tell


@contextlib.contextmanager
def dead_hosts(web: Web) -> Iterator[list[str]]:
    """URLs that nobody answers: connections refused, reset, never answered, and a name that does not resolve;
    a second page of each host, and one page of a host that answers."""
    web.on("/reset", Answer(drop=True), host=1)
    web.on("/reset2", Answer(drop=True), host=1)
    web.on("/slow", Answer(delay=NEVER), host=2)
    web.on("/slow2", Answer(delay=NEVER), host=2)
    with closed_port(web.name(3)) as port:
        refused = [f"http://{web.name(3)}:{port}/{number}" for number in range(10)]
        asked = [web.url(path, 1) for path in ("/reset", "/reset2")]
        asked += [web.url(path, 2) for path in ("/slow", "/slow2")]
        yield [*refused, *asked, NOWHERE, f"{NOWHERE}2", web.url("/")]


@pytest.mark.parametrize("way", WAYS)
def test_the_errback_is_called_for_every_page_of_every_dead_host(
    web: Web, tell: Callable[..., list[Told]], way: str
) -> None:
    with dead_hosts(web) as urls:
        ours, stock = tell(urls, {**WAYS[way], "DOWNLOAD_TIMEOUT": 2}, {**STOCK, "DOWNLOAD_TIMEOUT": 2})
    assert ours == stock
    assert len(ours) == len(urls)
    assert Counter(told for _, told in ours).keys() >= {"200", REFUSED}


def test_a_dead_host_is_asked_no_more_often_than_by_scrapy(web: Web, tell: Callable[..., list[Told]]) -> None:
    """Ten pages, one of which had its three attempts."""
    web.default = Answer(drop=True)
    urls = [web.url(f"/{number}") for number in range(10)]
    (stock,) = tell(urls, STOCK)
    by_stock = len(web.visits)
    (ours,) = tell(urls, ADDON)
    assert ours == stock
    assert len(web.visits) - by_stock <= 10 < by_stock


def test_a_host_that_answers_the_third_attempt_is_crawled(web: Web, tell: Callable[..., list[Told]]) -> None:
    web.on("/", Answer(drop=True), Answer(drop=True), Answer())
    (ours,) = tell([web.url("/")], ADDON)
    assert ours == [(web.url("/"), "200")]


@pytest.mark.parametrize("tries", [0, 1])
def test_it_is_given_up_after_as_many_attempts_as_the_settings_say(
    web: Web, tell: Callable[..., list[Told]], tries: int
) -> None:
    """Once more if the first connection breaks: it may have been kept open for too long."""
    web.default = Answer(drop=True)
    settings = {"RETRY_TIMES": tries} if tries else {"RETRY_ENABLED": False}
    (ours,) = tell([web.url("/")], {**ADDON, **settings})
    assert [told for _, told in ours] == [FAILED]
    assert len(web.visits) == 1 + 1 + tries


# -- robots.txt ----------------------------------------------------------------------------------------


def test_a_dead_host_is_no_other_for_its_robots_txt(web: Web, tell: Callable[..., list[Told]]) -> None:
    """What stopped its robots.txt is what stops its pages."""
    robots = {"ROBOTSTXT_OBEY": True, "DOWNLOAD_TIMEOUT": 2}
    web.on("/robots.txt", Answer(drop=True), host=1)
    web.on("/robots.txt", Answer(delay=NEVER), host=2)
    with dead_hosts(web) as urls:
        ours, stock = tell(urls, {**ADDON, **robots}, {**STOCK, **robots})
    assert ours == stock


def test_a_site_without_a_robots_txt_to_read_forbids_all(web: Web, tell: Callable[..., list[Told]]) -> None:
    """RFC 9309 2.3.1.4: 5xx means complete disallow. Asked as often as Scrapy does."""
    web.on("/robots.txt", status=503)
    urls = [web.url(f"/{number}") for number in range(5)]
    (ours,) = tell([*urls, web.url("/", 1)], {**ADDON, "ROBOTSTXT_OBEY": True})
    assert ours == [*((url, "IgnoreRequest") for url in urls), (web.url("/", 1), "200")]
    assert web.paths(0) == ["/robots.txt"] * 3


# -- what nobody waits for -----------------------------------------------------------------------------


def test_pages_of_a_host_that_asks_for_too_long_a_rest_end_with_its_answer(
    web: Web, tell: Callable[..., list[Told]]
) -> None:
    """Nobody asks it again before: the pages that were never asked for get the same answer."""
    web.default = Answer(429, headers={"Retry-After": "7000"})
    urls = [web.url(f"/{number}") for number in range(20)]
    (ours,) = tell(urls, {**ADDON, "FRONTIER_END_WAIT": 60, "CONCURRENT_REQUESTS_PER_DOMAIN": 1})
    assert sorted(ours) == sorted((url, "HTTP 429") for url in urls)
    assert len(web.visits) == 1


@pytest.mark.parametrize(
    ("settings", "attempts"),
    [
        ({"FIRST_BACKOFF": 7000, "FRONTIER_END_WAIT": 60}, 3),
        ({"RETRY_TIMES": 9, "FRONTIER_MAX_ATTEMPTS": 2}, 2),
    ],
    ids=["no wait", "no more"],
)
@pytest.mark.parametrize("way", WAYS)
def test_retries_that_cannot_wait_are_made_at_once_and_the_last_ends_in_the_errback(
    web: Web, tell: Callable[..., list[Told]], way: str, settings: dict[str, Any], attempts: int
) -> None:
    web.on("/", Answer(500))
    (ours,) = tell([web.url("/")], {**WAYS[way], **settings})
    assert ours == [(web.url("/"), "HTTP 500")]
    assert len(web.visits) == attempts


def test_a_redirect_into_a_trap_ends_its_page(web: Web, tell: Callable[..., list[Told]]) -> None:
    """Also one to a URL that is too long. Nothing is called for it."""
    targets = {"/trap": "/a/a/a", "/long": f"/{'x' * 3000}"}
    for path, target in targets.items():
        web.on(path, status=302, headers={"Location": target})
    root = web.link("/", *targets)
    (told,) = tell([root], ADDON)
    assert told == [(root, "200")]
    assert sorted(web.paths()) == sorted(["/", *targets])


def test_a_page_with_a_proxy_is_asked_for_there_though_its_host_is_dead(
    web: Web, items: Callable[..., list[Any]]
) -> None:
    with closed_port(web.name(1)) as port:
        dead = [f"http://{web.name(1)}:{port}/{number}" for number in range(3)]
        (found,) = items(ProxySpider, [ADDON], start_urls=dead, proxy=web.url(""))
    assert [item["told"] for item in found] == [REFUSED] * 2 + ["200"]
    assert web.paths() == [dead[2]]


class ProxySpider(TellSpider):
    """Tells, and asks for the last page through a proxy when the first was given up."""

    name = "proxy"
    proxy = ""

    async def start(self) -> Any:
        for url in self.start_urls[:2]:
            yield Request(url, errback=self.failed)

    def failed(self, failure: Any) -> Any:
        yield from super().failed(failure)
        yield Request(self.start_urls[2], errback=self.failed, meta={"proxy": self.proxy})


# -- with a directory ----------------------------------------------------------------------------------


def test_with_a_directory_each_kind_of_page_that_is_left_is_told(
    web: Web, start: Callable[..., Crawl], tmp_path: Path
) -> None:
    """Rests, robots.txt, hours, backoffs, and hosts that are blocked."""
    hour = (time.gmtime().tm_hour + 3) % 24
    web.on("/robots.txt", Answer(503), host=1)
    web.on("/robots.txt", body=f"User-agent: *\nVisit-time: {hour:02}00-{hour:02}30\n", host=2)
    web.on("/0", Answer(429, headers={"Retry-After": "7000"}), host=3)
    web.default = Answer(500)
    urls = [web.url(f"/{number}", host) for host in (0, 1, 2, 3) for number in range(2)]
    settings = {
        "ADDONS": ADDON["ADDONS"],
        "SCHEDULER": None,
        "ROBOTSTXT_OBEY": True,
        "FIRST_BACKOFF": 3000,
        "FRONTIER_END_WAIT": 5,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    }
    first = start(TellSpider, settings, start_urls=urls).wait()
    assert "8 pages are left, of 4 hosts" in first.log
    with contextlib.closing(Store(tmp_path / "frontier")) as store:
        store.write({orders_key(web.name(1)): ORDERS.encode(Orders(blocked=1))})
    second = start(TellSpider, settings, start_urls=urls).wait()
    assert "2 pages stay queued, of hosts that are blocked" in second.log
    assert "6 pages are left, of 3 hosts" in second.log
