"""A crawl of hosts that do everything wrong, beside one that does not; the whole of it is in benchmarks/."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Spider
from scrapy.http import Response, TextResponse
from scrapy.resolver import CachingThreadedResolver
from twisted.internet.defer import Deferred, succeed

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))
hostile = pytest.importorskip("hostile", reason="the benchmarks are not there")

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Crawl

GOOD = "127.9.1.9"
SETTINGS = {
    "ADDONS": {"scrapy_frontier.Addon": 500},
    "DNS_RESOLVER": "test_misbehaving.Resolver",
    "FRONTIER_SITEMAPS": True,
    "ROBOTSTXT_OBEY": True,
    "CONCURRENT_REQUESTS": 64,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
    "DOWNLOAD_TIMEOUT": 8,
    "DOWNLOAD_MAXSIZE": 2_000_000,
    "RETRY_TIMES": 1,
    "FRONTIER_HOST_PAGES": 30,
    "FRONTIER_POLITENESS_KEY": "domain",  # or sub-domains without end are hosts without end
    "FRONTIER_END_WAIT": 3,
    "LOG_LEVEL": "INFO",
}


class Resolver(CachingThreadedResolver):
    """Knows where the sub-domains without end are served, and asks nobody."""

    def getHostByName(self, name: str, timeout: Any = ()) -> Deferred[str]:  # noqa: N802 - Twisted's name
        return succeed(hostile.address_of(name))


class EagerSpider(Spider):
    """Follows every link of every page of the seeds."""

    name = "eager"

    def parse(self, response: Response) -> Any:
        if isinstance(response, TextResponse):
            for href in response.css("a::attr(href)").getall():
                with contextlib.suppress(ValueError):  # no URL
                    yield response.follow(href)


@pytest.fixture(scope="module", autouse=True)
def _narrow() -> None:
    hostile.WIDE = 3_000  # links of a page with very many, or the test takes a minute


def crawl_beside(names: list[str], run: Callable[..., Crawl], **settings: Any) -> tuple[Any, Crawl]:
    web = hostile.Web(names, [GOOD])
    urls = [f"http://{address}:{web.port}/" for address in [*web.hosts.values(), GOOD]]
    return web, run(EagerSpider, {**SETTINGS, **settings}, start_urls=urls)


def paths(web: Any, name: str) -> list[str]:
    return [path for _, visited, path in web.visits if visited == name]


@pytest.mark.slow
def test_beside_all_of_them_it_ends_obeys_and_leaves_nobody_out(run: Callable[..., Crawl]) -> None:
    budget = {"FRONTIER_HOST_PAGES": 200}
    web, crawl = crawl_beside(list(hostile.TRICKS), run, **budget)
    assert crawl.reason == "finished"
    assert set(paths(web, GOOD)) >= {f"/{number}" for number in range(1, hostile.GOOD_PAGES)}
    told_not_to = {
        name: wrong for name, found in hostile.TOLD_NOT_TO.items() if (wrong := found(paths(web, name)))
    }
    assert told_not_to == {}
    assert "frontier/errors" not in crawl.stats
    assert "they stay queued: run the crawl again" in crawl.log


@pytest.mark.parametrize(
    "names",
    [
        ["again", "busy", "shut", "sluggish", "absurd"],
        ["robots_circle", "robots_garbage", "robots_bomb", "rules"],
        ["nofollow", "long_links", "refreshes", "redirects"],
        ["spawn", "hops", "maps", "sessions"],
        ["lengths", "nohttp", "resets", "nowhere"],
    ],
    ids=" ".join,
)
def test_it_ends_by_itself_and_obeys(names: list[str], run: Callable[..., Crawl]) -> None:
    web, crawl = crawl_beside(names, run)
    assert crawl.reason == "finished"
    assert len(paths(web, GOOD)) >= 30
    for name in names:
        asked = paths(web, name)
        assert "/robots.txt" in asked
        assert not hostile.TOLD_NOT_TO.get(name, lambda _: [])(asked)
    assert "frontier/errors" not in crawl.stats
