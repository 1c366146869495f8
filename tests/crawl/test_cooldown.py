"""Hosts in trouble, as their servers saw it: left alone for as long as it takes, and no page lost."""

from __future__ import annotations

import contextlib
import errno
import socket
import time
from collections import Counter
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.http import HtmlResponse, Response
from scrapy.settings import default_settings
from server import TOLERANCE, Answer
from twisted.internet.error import ConnectBindError, ConnectError

from scrapy_frontier.core.store.keys import State
from scrapy_frontier.crawl.host_trouble import trouble_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Crawl
    from server import Web

    from scrapy_frontier.core.store.records import Page

ADDONS = {"scrapy_frontier.Addon": 500}
SOON = {"ADDONS": ADDONS, "FRONTIER_COOLDOWN": 0.5}


class LinkSpider(Spider):
    """Fetches *start_urls* and whatever they link."""

    name = "links"

    def parse(self, response: Response) -> Any:
        if isinstance(response, HtmlResponse):
            for link in response.css("a::attr(href)").getall():
                yield Request(response.urljoin(link), errback=self.failed)

    def failed(self, failure: Any) -> None:
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value("errbacks")


class WantsAllSpider(LinkSpider):
    """Wants to see responses with status 429."""

    handle_httpstatus_list = (429,)

    def parse(self, response: Response) -> Any:
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value(f"seen/{response.status}")
        yield from super().parse(response)


def ends(visits: list[Any], path: str) -> list[float]:
    return [visit.end for visit in visits if visit.path == path]


def all_done(pages: dict[str, Page]) -> bool:
    return {page.state for page in pages.values()} == {State.DONE}


@contextlib.contextmanager
def closed_port(host: str) -> Iterator[int]:
    """A port of *host* that refuses connections, and that nobody else is given meanwhile."""
    with socket.socket() as taken:
        taken.bind((host, 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_no_request_before_retry_after_has_passed(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]], form: str
) -> None:
    web.link("/", *(f"/{number}" for number in range(6)))
    until = time.time() + 3
    asked = "2" if form == "seconds" else formatdate(until, usegmt=True)
    web.on("/2", Answer(429, headers={"Retry-After": asked}), Answer())
    crawl = run(LinkSpider, {**SOON, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}, start_urls=[web.url("/")])

    assert crawl.reason == "finished"
    refused = next(index for index, visit in enumerate(web.visits) if visit.path == "/2")
    after = web.visits[refused + 1 :]
    assert after
    if form == "seconds":
        assert after[0].begin - web.visits[refused].begin >= 2 - TOLERANCE
    else:
        assert after[0].begin - time.monotonic() + time.time() >= int(until) - TOLERANCE
    assert Counter(web.paths()) == {"/": 1, "/2": 2, **{f"/{n}": 1 for n in (0, 1, 3, 4, 5)}}
    found = pages()
    assert all_done(found)
    assert {page.attempts for page in found.values()} == {1}
    assert "errbacks" not in crawl.stats
    assert "retry/count" not in crawl.stats
    assert crawl.stats["frontier/cooldown/strikes"] == crawl.stats["frontier/cooldown/postponed"] == 1


def test_bare_503_rests_and_doubles(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    """Three times 503: then everything comes, and nothing was charged to any page."""
    answers = [Answer(503), Answer(503), Answer(503), Answer()]
    web.on("/", *answers)
    crawl = run(LinkSpider, SOON, start_urls=[web.url("/")])
    assert crawl.reason == "finished"
    assert [gap >= least - TOLERANCE for gap, least in zip(web.gaps(), (0.5, 1, 2), strict=True)] == [
        True
    ] * 3
    (page,) = pages().values()
    assert (page.state, page.attempts) == (State.DONE, 1)


def test_a_host_that_is_down_disturbs_nobody(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    """Its pages keep their attempts and stay queued; the crawl ends by itself and says when to come back."""
    urls = [web.url(f"/{number}") for number in range(20)]
    settings = {"ADDONS": ADDONS, "FRONTIER_COOLDOWN": 6, "FRONTIER_END_WAIT": 9}  # it rests once
    with closed_port(web.name(1)) as port:
        down = [f"http://{web.name(1)}:{port}/{number}" for number in range(5)]
        crawl = run(LinkSpider, settings, start_urls=[*down, *urls])

    assert crawl.reason == "finished"
    assert len(web.visits) == 20
    assert web.times()[-1] - web.times()[0] < 6
    found = pages()
    assert {found[url].state for url in urls} == {State.DONE}
    assert {(found[url].state, found[url].attempts) for url in down} == {(State.QUEUED, 0)}
    left = f"5 pages are left, of 1 host: {web.name(1)} (resting after trouble)"
    assert f"{left}; they stay queued: run the crawl again" in crawl.log
    assert f": Waiting: {left}" in crawl.log
    assert crawl.stats["frontier/pages/queued"] == 5


OK = b"HTTP/1.1 200 OK\r\n"
BROKEN = {
    "/no-http": b"\0\1\2 what?\r\n\r\n",
    "/version": b"HTTP/x.y 200 OK\r\n\r\n",
    "/status": b"HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n",
    "/length": OK + b"Content-Length: many\r\n\r\nx",
    "/two-lengths": OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    "/encoding": OK + b"Transfer-Encoding: banana\r\n\r\nx",
    "/name": OK + b"X\0: a\r\nContent-Length: 1\r\n\r\nx",
    "/long": OK + b"X: " + b"a" * 100_000 + b"\r\nContent-Length: 1\r\n\r\nx",
    "/cut-off": OK + b"Content-Le",
}


def test_broken_headers_are_the_fault_of_the_page_alone(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    """The host answered: it does not rest, and the page takes Scrapy's usual way to its errback."""
    for path, answer in BROKEN.items():
        web.on(path, raw=answer)
    web.link("/", *BROKEN, "/good")
    crawl = run(LinkSpider, {**SOON, "RETRY_TIMES": 1}, start_urls=[web.url("/")])
    assert crawl.reason == "finished"
    assert "frontier/cooldown/strikes" not in crawl.stats, crawl.log
    answered = [path for path in BROKEN if pages()[web.url(path)].state is State.DONE]
    assert len(answered) <= 1  # Twisted 24.7 and older take one of them for an answer
    refused = BROKEN.keys() - answered
    assert crawl.stats["errbacks"] == len(refused)
    assert sorted(web.paths()) == sorted(["/", "/good", *BROKEN, *refused])
    assert {page.state for url, page in pages().items() if web.url("/") != url} == {State.FAILED, State.DONE}


def test_a_page_that_never_works_does_not_silence_its_host(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    """Its connection is always reset: it fails in the end, and its host never rests longer than once."""
    web.link("/", "/bad", *(f"/{number}" for number in range(30)))
    web.on("/bad", Answer(drop=True))
    settings = {
        "ADDONS": ADDONS,
        "FRONTIER_COOLDOWN": 4,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "DOWNLOAD_DELAY": 0.1,
        "FIRST_BACKOFF": 0.1,
        "RETRY_TIMES": 1,
    }
    crawl = run(LinkSpider, settings, start_urls=[web.url("/")])
    assert crawl.reason == "finished"
    found = pages()
    assert found[web.url("/bad")].state is State.FAILED
    assert found[web.url("/bad")].attempts == 2
    assert {page.state for url, page in found.items() if not url.endswith("bad")} == {State.DONE}
    assert crawl.stats["errbacks"] == 1
    assert max(web.gaps()) < 7, "a second strike would be eight seconds"


def test_a_response_the_spider_wants_is_passed_on_and_the_host_rests(
    web: Web, run: Callable[..., Crawl]
) -> None:
    web.link("/", "/1", status=429, headers={"Retry-After": "1"})
    settings = {**SOON, "RETRY_HTTP_CODES": [503]}
    crawl = run(WantsAllSpider, settings, start_urls=[web.url("/")])
    assert crawl.stats["seen/429"] == 1
    assert web.paths() == ["/", "/1"]
    assert web.gaps()[0] >= 1 - TOLERANCE


@pytest.mark.skipif("DOWNLOAD_BIND_ADDRESS" not in dir(default_settings), reason="needs a newer Scrapy")
def test_what_this_machine_lacks_costs_no_attempt(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    settings = {"ADDONS": ADDONS, "FRONTIER_END_WAIT": 0, "DOWNLOAD_BIND_ADDRESS": "192.0.2.1"}
    crawl = run(LinkSpider, settings, start_urls=[web.url("/", 0), web.url("/", 1)])
    assert "this machine could not send the request: Couldn't bind: 99: Cannot assign" in crawl.log
    assert {(page.state, page.attempts) for page in pages().values()} == {(State.QUEUED, 0)}


def test_what_this_machine_lacks_is_told_from_what_a_host_does() -> None:
    """Also if it is wrapped; an address that has no route bears the same number."""
    wrapped = Exception("download failed")
    wrapped.__cause__ = bind = ConnectBindError(errno.EMFILE, "Too many open files")
    for error in (bind, wrapped):
        trouble = trouble_of(error)
        assert trouble is not None
        assert "open files" in trouble.reason
    no_route = trouble_of(ConnectError(errno.EADDRNOTAVAIL, "Cannot assign requested address"))
    assert no_route is not None
    assert "this machine" not in no_route.reason


class RotatingMiddleware:
    """Takes another proxy where one is banned, and names a slot of its own, as rotating-proxies does."""

    def process_request(self, request: Request) -> None:
        request.meta["download_slot"] = "a-proxy"

    def process_response(self, request: Request, response: Response) -> Request | Response:
        return request.replace(dont_filter=True) if response.status == 503 else response


ROTATING = {"DOWNLOADER_MIDDLEWARES": {"test_cooldown.RotatingMiddleware": 610}}


def test_a_ban_is_for_the_middleware_that_rotates_proxies(web: Web, run: Callable[..., Crawl]) -> None:
    web.on("/", Answer(503), Answer())
    crawl = run(LinkSpider, {"ADDONS": ADDONS, **ROTATING}, start_urls=[web.url("/")])
    assert web.paths() == ["/", "/"]
    assert "frontier/cooldown/strikes" not in crawl.stats
    assert crawl.stats["downloader/response_status_count/200"] == 1


def test_off_means_scrapys_retries(web: Web, run: Callable[..., Crawl]) -> None:
    web.on("/", Answer(429, headers={"Retry-After": "100"}), Answer())
    crawl = run(LinkSpider, {"ADDONS": ADDONS, "FRONTIER_COOLDOWN": 0}, start_urls=[web.url("/")])
    assert crawl.stats["retry/count"] == 1
    assert web.gaps()[0] < 60
