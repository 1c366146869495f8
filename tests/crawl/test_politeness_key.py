"""Hosts that share a politeness key, as the servers saw them."""

from __future__ import annotations

import signal
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from conftest import wait_until
from scrapy import Request, Spider
from scrapy.http import HtmlResponse, Response
from scrapy.resolver import CachingThreadedResolver
from server import TOLERANCE
from twisted.internet.defer import Deferred, succeed

from scrapy_frontier.core.frontier import Frontier
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.leveldb import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Crawl
    from server import Web

    from scrapy_frontier.core.store.records import Page

ADDONS = {"scrapy_frontier.Addon": 500}
NAMES = {
    "www.example.com": "127.0.0.2",
    "shop.example.com": "127.0.0.3",
    "www.example.org": "127.0.0.4",
    "alias.example.net": "127.0.0.2",
    **{f"h{number}.trap.example": "127.0.0.5" for number in range(80)},
}


class Resolver(CachingThreadedResolver):
    """Knows `NAMES`, and asks nobody."""

    def getHostByName(self, name: str, timeout: Any = ()) -> Deferred[str]:  # noqa: N802 - Twisted's name
        return succeed(NAMES.get(name, name))


SETTINGS = {
    "ADDONS": ADDONS,
    "DNS_RESOLVER": "test_politeness_key.Resolver",
    "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
}


class LinkSpider(Spider):
    """Fetches *start_urls* and whatever they link."""

    name = "links"

    def parse(self, response: Response) -> Any:
        if isinstance(response, HtmlResponse):
            for link in response.css("a::attr(href)").getall():
                yield Request(response.urljoin(link), meta=response.meta)


def one_of_two(url: str) -> str:
    """The unit of a URL: the hosts 127.0.0.2 and .3 are one, of all others nothing is known."""
    return "pair" if (urlsplit(url).hostname or "")[-2:] in (".2", ".3") else ""


def named(web: Web, name: str, path: str) -> str:
    """The URL of *path* on the server at the address of *name*."""
    host = int(NAMES[name].rpartition(".")[2]) - 2
    return web.url(path, host).replace(web.name(host), name)


def times(web: Web, *hosts: int) -> list[float]:
    return sorted(visit.begin for visit in web.visits if visit.host in hosts)


def gaps(web: Web, *hosts: int) -> list[float]:
    return [after - before for before, after in pairwise(times(web, *hosts))]


def test_a_function_of_the_users_own(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    """Two hosts are one unit: they share delay and concurrency, links and redirects included."""
    web.link("/", "/a", web.url("/b", 1), web.url("/c", 2))
    web.on("/a", status=302, headers={"Location": web.url("/to", 1)})
    settings = {
        **SETTINGS,
        "DOWNLOAD_SLOTS": {"pair": {"delay": 1, "concurrency": 1}},
        "FRONTIER_POLITENESS_KEY": "test_politeness_key.one_of_two",
    }
    crawl = run(LinkSpider, settings, start_urls=[web.url("/", host) for host in range(3)])
    assert crawl.reason == "finished"
    assert len(times(web, 0, 1)) == 5
    assert min(gaps(web, 0, 1)) >= 1 - TOLERANCE
    assert times(web, 2)[0] < times(web, 0, 1)[1], "the third host has a clock of its own"
    found = pages()
    assert {page.host for url, page in found.items() if "127.0.0.4" not in url} == {"pair"}
    assert {page.host for url, page in found.items() if "127.0.0.4" in url} == {""}


SLOW = {"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 4, "DOWNLOAD_DELAY": 4}


@pytest.mark.parametrize(
    ("unit", "settings"),
    [
        ("127.0.0.2", {"DOWNLOAD_DELAY": 4}),
        ("127.0.0.2", {**SLOW, "ROBOTSTXT_OBEY": True}),
        ("pair", {"DOWNLOAD_SLOTS": {"pair": {"delay": 4}}}),
        ("pair", SLOW),
    ],
)
def test_a_shorter_delay_that_the_operator_ordered_replaces_that_of_the_settings(
    web: Web, run: Callable[..., Crawl], tmp_path: Path, unit: str, settings: dict[str, Any]
) -> None:
    frontier = Frontier(Store(tmp_path / "frontier"), time.time())
    frontier.order_delay(unit, 0.5, time.time())
    frontier.close()
    if unit == "pair":
        settings = {**settings, "FRONTIER_POLITENESS_KEY": "test_politeness_key.one_of_two"}
    urls = [web.url(f"/{number}", number % 2 * (unit == "pair")) for number in range(4)]
    assert run(LinkSpider, {**SETTINGS, **settings}, start_urls=urls).reason == "finished"
    assert len(gaps(web, 0, 1)) == 3 + bool(settings.get("ROBOTSTXT_OBEY"))
    assert min(gaps(web, 0, 1)) >= 0.5 - TOLERANCE
    # Behind robots.txt AutoThrottle's own delay holds once, which the downloader has by then.
    assert max(gaps(web, 0, 1)[-3:]) < 4 - TOLERANCE


def test_hosts_of_a_registered_domain(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    urls = [named(web, name, f"/{number}") for number in range(3) for name in list(NAMES)[:3]]
    settings = {**SETTINGS, "DOWNLOAD_DELAY": 1, "FRONTIER_POLITENESS_KEY": "domain"}
    crawl = run(LinkSpider, settings, start_urls=urls)
    assert crawl.reason == "finished"
    assert len(web.visits) == 9
    assert min(gaps(web, 0, 1)) >= 1 - TOLERANCE
    assert min(gaps(web, 0, 1, 2)) < 1 - TOLERANCE, "another domain has a clock of its own"
    assert {page.host for page in pages().values()} == {"example.com", "example.org"}


@pytest.mark.parametrize("number", [None, signal.SIGKILL], ids=["", "SIGKILL"])
def test_hosts_of_one_address_share_its_clock(
    web: Web, start: Callable[..., Crawl], pages: Callable[[], dict[str, Page]], number: signal.Signals | None
) -> None:
    """Two names and the address itself: never closer than the delay, also across a kill; links, too."""
    names = ["www.example.com", "alias.example.net"]
    web.link("/0", *(named(web, name, "/linked") for name in names))
    urls = [named(web, name, f"/{number}") for number in range(3) for name in names]
    urls += [web.url("/literal"), named(web, "www.example.org", "/other")]
    settings = {**SETTINGS, "DOWNLOAD_DELAY": 0.5, "FRONTIER_POLITENESS_KEY": "ip"}
    crawl = start(LinkSpider, settings, start_urls=urls)
    if number is not None:
        web.wait(4)
        crawl.kill(number)
        crawl = start(LinkSpider, settings, start_urls=urls)
    assert crawl.wait().reason == "finished"
    assert len(set(times(web, 0))) >= 9
    assert {f"/{n}" for n in range(3)} | {"/linked", "/literal"} == set(web.paths(0))
    assert min(gaps(web, 0)) >= 0.5 - TOLERANCE
    found = pages()
    assert {(page.state, page.attempts) for page in found.values()} == {(State.DONE, 1)}
    assert {page.host for url, page in found.items() if "//127." not in url} == {"127.0.0.2", "127.0.0.4"}


@pytest.mark.parametrize("key", ["ip", "domain"])
def test_robots_txt_is_asked_by_the_clock_of_the_unit(web: Web, run: Callable[..., Crawl], key: str) -> None:
    """By two names of an address; by two names of a domain, one robots.txt leading to the other."""
    names = ["www.example.com", "alias.example.net" if key == "ip" else "shop.example.com"]
    if key == "domain":
        rules = named(web, "shop.example.com", "/rules")
        web.on("/robots.txt", status=301, headers={"Location": rules})
    settings = {
        **SETTINGS,
        "ROBOTSTXT_OBEY": True,
        "DOWNLOAD_DELAY": 0.5,
        "FRONTIER_POLITENESS_KEY": key,
    }
    crawl = run(LinkSpider, settings, start_urls=[named(web, name, f"/{name}") for name in names])
    assert crawl.reason == "finished"
    assert web.paths().count("/robots.txt") == 2
    assert {f"/{name}" for name in names} <= set(web.paths())
    assert min(gaps(web, 0, 1)) >= 0.5 - TOLERANCE


def test_a_name_that_does_not_resolve_rests_and_disturbs_nobody(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    settings = {
        "ADDONS": ADDONS,
        "FRONTIER_POLITENESS_KEY": "ip",
        "FRONTIER_COOLDOWN": 0.3,
        "FRONTIER_END_WAIT": 1,
    }
    lost = "http://nobody.invalid/"
    crawl = run(LinkSpider, settings, start_urls=[lost, web.url("/")])
    assert crawl.reason == "finished"
    assert web.paths() == ["/"]
    assert pages()[lost].state is State.QUEUED
    assert "its name does not resolve" in crawl.log


def test_a_domain_is_no_faster_than_its_rate(web: Web, run: Callable[..., Crawl]) -> None:
    """Two hosts without a delay, 24 pages in all: ten at once, then five a second; others do not wait."""
    names = ["www.example.com", "shop.example.com"]
    urls = [named(web, name, f"/{number}") for number in range(12) for name in names]
    urls += [named(web, "www.example.org", f"/{number}") for number in range(8)]
    settings = {**SETTINGS, "CONCURRENT_REQUESTS_PER_DOMAIN": 8, "FRONTIER_DOMAIN_RATE": "0,5"}
    crawl = run(LinkSpider, settings, start_urls=urls)
    assert crawl.reason == "finished"
    domain = times(web, 0, 1)
    assert len(domain) == 24
    for first in range(24):
        for last in range(first, 24):
            assert last - first + 1 <= 10 + 1.5 + 5 * (domain[last] - domain[first] + TOLERANCE)
    assert max(times(web, 2)) < domain[-1]


def test_files_that_lie_on_one_slow_host_hold_nobody_else_up(web: Web, start: Callable[..., Crawl]) -> None:
    """More of them than are fetched at once: each waits for that host without a place of its own."""
    web.on("/robots.txt", status=301, headers={"Location": named(web, "www.example.org", "/rules")}, host=3)
    urls = [named(web, f"h{number}.trap.example", "/") for number in range(80)]
    urls.append(named(web, "www.example.com", "/plain"))
    slow = {"www.example.org": {"delay": 3600}}
    crawl = start(LinkSpider, {**SETTINGS, "ROBOTSTXT_OBEY": True, "DOWNLOAD_SLOTS": slow}, start_urls=urls)
    wait_until(lambda: "/plain" in web.paths())
    crawl.kill()
    assert web.paths().count("/rules") <= 1
