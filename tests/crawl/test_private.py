"""What public pages, robots.txt and sitemaps lead to: nothing in a private network is asked for.

The servers all are on loopback; for these crawls 127.0.0.3 is the private network and all else public.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from scrapy.resolver import CachingThreadedResolver
from test_politeness import LinkSpider
from twisted.internet.defer import Deferred, succeed

from scrapy_frontier.core.frontier import Link
from scrapy_frontier.core.parse import urls
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.records import RequestFacts
from scrapy_frontier.crawl import private_network
from scrapy_frontier.crawl.assembly import crawl_of
from scrapy_frontier.downloadermiddlewares import private_network as middleware
from scrapy_frontier.shared.letters import posted_link

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Crawl
    from server import Web

    from scrapy_frontier.core.store.records import Page

    Run = Callable[..., Crawl]
    Pages = Callable[[], dict[str, Page]]

ROBOTS = "/robots.txt"
NAMES = {
    "outside.example": "127.0.0.2",
    "inside.example": "127.0.0.3",
    "www.outside.example": "127.0.0.3",
    "cdn.example": "127.0.0.4",
    "rebinds.example": "127.0.0.3",
}
OBEY = {
    "SCHEDULER": None,
    "ADDONS": {"scrapy_frontier.Addon": 500},
    "ROBOTSTXT_OBEY": True,
    "DNS_RESOLVER": "test_private.Resolver",
    "FRONTIER_END_WAIT": 0,
}


class Resolver(CachingThreadedResolver):
    """Knows `NAMES`, and asks nobody. Who rebinds a name is public when it is checked, private when used."""

    rebinding: ClassVar = iter(("127.0.0.4", "127.0.0.3"))

    def getHostByName(self, name: str, timeout: Any = ()) -> Deferred[str]:  # noqa: N802 - Twisted's name
        if name == "rebinds.example":
            return succeed(next(self.rebinding, "127.0.0.3"))
        return succeed(NAMES.get(name, name))


class OutsideSpider(LinkSpider):
    """Sees all of loopback but one address as the internet."""

    name = "outside"

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Any:
        for module in (private_network, middleware, urls):
            module.is_private = _is_inside  # type: ignore[attr-defined]
        return super().from_crawler(crawler, *args, **kwargs)


def _is_inside(host: str) -> bool:
    return host == "127.0.0.3"


def named(web: Web, name: str, path: str) -> str:
    host = int(NAMES[name].rpartition(".")[2]) - 2
    return web.url(path, host).replace(web.name(host), name)


def test_a_redirect_asks_nothing_of_a_private_host_not_even_its_robots_txt(
    web: Web, run: Run, pages: Pages
) -> None:
    """But another public host is asked, and a private page that the spider names itself."""
    secret, seed = (named(web, "inside.example", path) for path in ("/secret", "/seed"))
    web.on("/", status=302, headers={"Location": secret})
    web.on("/2", status=302, headers={"Location": named(web, "cdn.example", "/open")})
    seeds = [named(web, "outside.example", path) for path in ("/", "/2")]
    crawl = run(OutsideSpider, OBEY, start_urls=seeds)
    assert crawl.reason == "finished", crawl.log
    assert web.paths(0) == [ROBOTS, "/", "/2"]
    assert (web.paths(1), web.paths(2)) == ([], [ROBOTS, "/open"])
    kept = pages()[secret]
    assert kept.state is State.EXCLUDED
    assert "its address is private (127.0.0.3)" in kept.reason
    run(OutsideSpider, OBEY, start_urls=[seed])
    assert web.paths(1) == [ROBOTS, "/seed"]


class PostedSpider(OutsideSpider):
    """Has a page posted by another shard of the crawl, to which a public page redirected there."""

    name = "posted"

    async def start(self) -> Any:
        crawl = crawl_of(self.crawler)
        assert crawl is not None
        link = Link(url=self.start_urls[0], facts=RequestFacts(from_public=True))
        crawl.enqueuer.enqueue_posted(posted_link(link, paid=0.0))
        yield None


def test_a_redirect_that_another_process_posts_is_judged_as_here(web: Web, run: Run, pages: Pages) -> None:
    secret = named(web, "inside.example", "/secret")
    run(PostedSpider, OBEY, start_urls=[secret])
    assert web.paths(1) == []
    assert pages()[secret].state is State.EXCLUDED


def test_private_networks_may_be_allowed(web: Web, run: Run) -> None:
    web.on("/", status=302, headers={"Location": named(web, "inside.example", "/secret")})
    web.on(ROBOTS, body=f"User-agent: *\nSitemap: {named(web, 'inside.example', '/map.txt')}\n")
    web.on("/map.txt", body=named(web, "outside.example", "/listed"), host=1)
    settings = {**OBEY, "FRONTIER_ALLOW_PRIVATE": True, "FRONTIER_SITEMAPS": True}
    run(OutsideSpider, settings, start_urls=[named(web, "outside.example", "/")])
    assert {ROBOTS, "/secret", "/map.txt"} <= set(web.paths(1))
    assert "/listed" in web.paths(0)


def test_a_refresh_asks_nothing_of_a_private_host(web: Web, run: Run) -> None:
    secret = named(web, "inside.example", "/secret")
    web.on("/meta", body=f'<html><head><meta http-equiv="refresh" content="0;url={secret}"></head></html>')
    run(OutsideSpider, OBEY, start_urls=[named(web, "outside.example", "/meta")])
    assert (len(web.paths(0)), web.paths(1)) == (2, [])


@pytest.mark.parametrize("literal", [False, True], ids=["name", "address"])
def test_a_robots_txt_that_leads_into_a_private_network_is_one_nobody_can_read(
    web: Web, run: Run, pages: Pages, literal: bool
) -> None:
    target = web.url("/rules", 1) if literal else named(web, "inside.example", "/rules")
    web.on(ROBOTS, status=301, headers={"Location": target})
    page = named(web, "outside.example", "/page")
    crawl = run(OutsideSpider, OBEY, start_urls=[page])
    assert web.paths(0) == [ROBOTS]
    assert web.paths(1) == []
    assert pages()[page].state is State.QUEUED
    assert "its address is private" in crawl.log


def test_a_sitemap_line_asks_nothing_of_a_private_host(web: Web, run: Run, pages: Pages) -> None:
    secret = named(web, "inside.example", "/secret.xml")
    shared = named(web, "cdn.example", "/map.txt")
    web.on(ROBOTS, body=f"User-agent: *\nSitemap: {secret}\nSitemap: {shared}\n")
    web.on("/map.txt", body=named(web, "outside.example", "/listed"), host=2)
    settings = {**OBEY, "FRONTIER_SITEMAPS": True}
    run(OutsideSpider, settings, start_urls=[named(web, "outside.example", "/")])
    assert web.paths(1) == []
    assert "/listed" in web.paths(0)
    assert pages()[secret].state is State.EXCLUDED


def test_a_site_at_a_private_address_may_have_its_sitemap_there_too(web: Web, run: Run) -> None:
    web.on(ROBOTS, body=f"User-agent: *\nSitemap: {named(web, 'www.outside.example', '/map.txt')}\n", host=1)
    settings = {**OBEY, "FRONTIER_SITEMAPS": True}
    run(OutsideSpider, settings, start_urls=[web.url("/", 1)])
    assert "/map.txt" in web.paths(1)


def test_a_name_that_turns_private_once_it_was_looked_up_is_not_read(
    web: Web, run: Run, pages: Pages
) -> None:
    """DNS rebinding: the name is public when it is checked and private when it is used, so one GET goes
    inside and its answer is refused. That is the robots.txt here; the page itself is asked for no more."""
    secret = named(web, "rebinds.example", "/secret.xml")
    web.on(ROBOTS, body=f"User-agent: *\nSitemap: {secret}\n")
    web.on("/secret.xml", body=named(web, "outside.example", "/listed"), host=1)
    settings = {**OBEY, "FRONTIER_SITEMAPS": True}
    run(OutsideSpider, settings, start_urls=[named(web, "outside.example", "/")])
    assert web.paths(1) == [ROBOTS]
    assert "/listed" not in web.paths(0)
    kept = pages()[secret]
    assert kept.state is State.EXCLUDED
    assert "its address is private (127.0.0.3)" in kept.reason


def test_of_a_page_whose_name_turns_private_the_answer_is_refused(web: Web, run: Run, pages: Pages) -> None:
    secret = named(web, "rebinds.example", "/secret")
    web.on("/", status=302, headers={"Location": secret})
    settings = {**OBEY, "ROBOTSTXT_OBEY": False}
    run(OutsideSpider, settings, start_urls=[named(web, "outside.example", "/")])
    assert web.paths(1) == ["/secret"]
    assert pages()[secret].state is State.EXCLUDED
