"""Where redirects and refreshes lead, and where they do not: what the servers were asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from server import TOLERANCE, Answer

from scrapy_frontier.core.store.keys import State

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from conftest import Crawl
    from server import Web

ADDONS = {"scrapy_frontier.Addon": 500}


class RedirectSpider(Spider):
    """Follows links; notes in the stats which callbacks ran, and items in the log."""

    name = "redirects"
    custom_settings = {"ADDONS": ADDONS}
    headers: dict[str, str] = {}
    meta: dict[str, Any] = {}

    async def start(self) -> AsyncIterator[Request]:
        for url in self.start_urls:
            yield Request(url, headers=self.headers, meta=self.meta)

    def parse(self, response: Any) -> Iterator[Any]:
        path = "/" + response.url.split("/", 3)[3]
        self.crawler.stats.inc_value(f"test/callback{path}")  # type: ignore[union-attr]
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)
        yield {"path": path}


def leads(web: Web, path: str, to: str, host: int = 0, status: int = 301) -> str:
    return web.on(path, status=status, headers={"Location": to}, host=host)


def called(crawl: Crawl) -> set[str]:
    name = "test/callback"
    return {stat.removeprefix(name) for stat in crawl.stats if stat.startswith(name)}


def test_source_and_target_end_each_in_its_own_state_and_stay_there(
    web: Web, run: Callable[..., Crawl], pages: Any
) -> None:
    urls = [leads(web, "/from", "/to"), leads(web, "/late", "/from"), leads(web, "/far", web.url("/x", 1))]
    crawl = run(RedirectSpider, start_urls=urls)
    assert crawl.reason == "finished", crawl.log
    assert sorted(web.paths()) == ["/far", "/from", "/late", "/to", "/x"]
    kept = pages()
    assert [kept[url].state for url in urls] == [State.REDIRECTED] * 3
    assert kept[urls[0]].target is not None
    assert kept[web.url("/to")].state is State.DONE
    run(RedirectSpider, start_urls=[*urls, web.url("/to")])
    assert len(web.paths()) == 5


def test_every_hop_waits_for_its_own_host(web: Web, run: Callable[..., Crawl]) -> None:
    urls = [leads(web, f"/{n}", web.url(f"/{n}", host=1), status=302) for n in range(4)]
    slots = {web.name(1): {"delay": 0.8}}
    run(RedirectSpider, {"DOWNLOAD_SLOTS": slots}, start_urls=urls)
    assert len(web.paths(1)) == 4
    assert min(web.gaps(1)) >= 0.8 - TOLERANCE


def test_every_hop_asks_its_own_robots_txt(web: Web, run: Callable[..., Crawl], pages: Any) -> None:
    web.on("/robots.txt", body="User-agent: *\nDisallow: /private", host=1)
    urls = [leads(web, "/a", web.url("/private", host=1)), leads(web, "/b", web.url("/open", host=1))]
    run(RedirectSpider, {"ROBOTSTXT_OBEY": True}, start_urls=urls)
    assert sorted(web.paths(1)) == ["/open", "/robots.txt"]
    assert pages()[web.url("/private", host=1)].state is State.EXCLUDED


# -- limits ----------------------------------------------------------------------------------------------


def refused(crawl: Crawl) -> set[str]:
    name = "frontier/redirects/refused/"
    return {stat.removeprefix(name) for stat in crawl.stats if stat.startswith(name)}


def test_a_chain_ends(web: Web, run: Callable[..., Crawl], pages: Any) -> None:
    for step in range(12):
        leads(web, f"/{step}", f"/{step + 1}")
    crawl = run(RedirectSpider, {"REDIRECT_MAX_TIMES": 5}, start_urls=[web.url("/0")])
    assert web.paths() == [f"/{step}" for step in range(6)]
    assert refused(crawl) == {"chain"}
    kept = pages()
    assert [kept[web.url(f"/{step}")].state for step in range(5)] == [State.REDIRECTED] * 5
    last = kept[web.url("/5")]
    assert last.state is State.EXCLUDED
    assert last.reason == "redirect refused: its chain of redirects is too long (/6)"


def test_an_address_of_very_many_characters_is_none(web: Web, run: Callable[..., Crawl], pages: Any) -> None:
    url = leads(web, "/long", "\r\n ".join(["/" + "a" * 9_000] * 2))
    crawl = run(RedirectSpider, start_urls=[url])
    assert web.paths() == ["/long"]
    assert refused(crawl) == {"scheme"}
    assert pages()[url].state is State.EXCLUDED


@pytest.mark.parametrize("again", [False, True])
def test_a_loop_ends(web: Web, run: Callable[..., Crawl], again: bool) -> None:
    leads(web, "/a", "/b")
    leads(web, "/b", "/a")
    web.link("/", web.url("/a"))
    crawl = run(AgainSpider if again else RedirectSpider, start_urls=[web.url("/")])
    assert crawl.reason == "finished", crawl.log
    assert web.paths() == (["/", *["/a", "/b"] * 3] if again else ["/", "/a", "/b"])
    assert refused(crawl) == ({"loop"} if again else set())


class AgainSpider(RedirectSpider):
    """Insists on every page."""

    def parse(self, response: Any) -> Iterator[Any]:
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, dont_filter=True)


def test_a_page_that_leads_to_itself_for_a_cookie_is_fetched_again_and_not_for_ever(
    web: Web, run: Callable[..., Crawl]
) -> None:
    cookie = {"Location": "/cookie", "Set-Cookie": "seen=yes"}
    web.on("/cookie", Answer(302, headers=cookie), Answer())
    leads(web, "/self", "/self", status=302)
    crawl = run(RedirectSpider, start_urls=[web.url("/cookie"), web.url("/self")])
    assert called(crawl) == {"/cookie"}
    assert web.paths().count("/cookie") == 2
    assert web.paths().count("/self") == 3
    assert refused(crawl) == {"loop"}


STOCK = {"SCHEDULER": "scrapy.core.scheduler.Scheduler"}


# -- private networks --------------------------------------------------------------------------------------


def through_proxy(web: Web) -> dict[str, Any]:
    """Meta that has host 0 serve as a proxy: pages of public hosts, without the internet."""
    return {"proxy": web.url("")}


@pytest.mark.parametrize("allowed", [False, True])
def test_no_public_page_leads_into_a_private_network(
    web: Web, run: Callable[..., Crawl], pages: Any, allowed: bool
) -> None:
    secret = web.url("/secret", host=1)
    web.on("http://public.example/", status=302, headers={"Location": secret})
    web.on(secret, body="secret")
    crawl = run(
        RedirectSpider,
        {"FRONTIER_ALLOW_PRIVATE": allowed},
        start_urls=["http://public.example/"],
        meta=through_proxy(web),
    )
    assert (secret in web.paths(0)) == allowed
    assert refused(crawl) == (set() if allowed else {"private"})
    if not allowed:
        kept = pages()["http://public.example/"]
        reason = f"redirect refused: a public page may not lead into a private network ({secret})"
        assert (kept.state, kept.reason) == (State.EXCLUDED, reason)


# -- refreshes -------------------------------------------------------------------------------------------


def refresh(content: str, body: str = "") -> str:
    return f'<html><head><meta http-equiv="refresh" content="{content}"></head><body>{body}</body></html>'


def test_a_refresh_is_a_redirect_within_the_same_limits(
    web: Web, run: Callable[..., Crawl], pages: Any
) -> None:
    for step in range(12):
        web.on(f"/{step}", body=refresh(f"0;url=/{step + 1}"))
    stub = web.on("/stub", body=refresh("5; url=/target"))
    stay = [web.on("/self", body=refresh("60;url=/self")), web.on("/never", body=refresh("3600;url=/late"))]
    stay.append(web.on("/file", body=refresh("0;url=file:///etc/passwd")))
    urls = [web.url("/0"), stub, *stay]
    crawl = run(RedirectSpider, {"REDIRECT_MAX_TIMES": 5}, start_urls=urls)
    paths = [*(f"/{step}" for step in range(6)), "/stub", "/target", "/self", "/never", "/file"]
    assert sorted(web.paths()) == sorted(paths)
    assert called(crawl) == {"/target", "/self", "/never", "/file"}
    assert refused(crawl) == {"chain"}
    kept = pages()
    assert (kept[stub].state, kept[stub].reason) == (State.REDIRECTED, f"led to {web.url('/target')}")


def test_pages_that_refresh_to_each_other_are_fetched_once(web: Web, run: Callable[..., Crawl]) -> None:
    web.on("/a", body=refresh("0;url=/b"))
    web.on("/b", body=refresh("0;url=/a"))
    run(RedirectSpider, start_urls=[web.url("/a")])
    assert web.paths() == ["/a", "/b"]


def test_scrapys_switches_hold(web: Web, run: Callable[..., Crawl]) -> None:
    urls = [leads(web, "/from", "/to"), web.on("/stub", body=refresh("0;url=/target"))]
    settings = {"REDIRECT_ENABLED": False, "METAREFRESH_ENABLED": False}
    run(RedirectSpider, settings, start_urls=urls)
    assert sorted(web.paths()) == ["/from", "/stub"]


# -- credentials -------------------------------------------------------------------------------------------


# -- how targets come back -----------------------------------------------------------------------------


def test_a_target_comes_back_with_the_headers_that_were_yielded_and_may_go_there(
    web: Web, run: Callable[..., Crawl], pages: Any
) -> None:
    near, far = web.url("/near"), web.url("/far", 1)
    urls = [leads(web, "/1", near), leads(web, "/2", far)]
    run(RedirectSpider, start_urls=urls, headers={"Authorization": "secret", "Own": "1"})
    kept = pages()
    assert kept[near].payload == kept[urls[0]].payload != b""
    assert b"Own" in kept[far].payload
    assert b"Authorization" not in kept[far].payload
