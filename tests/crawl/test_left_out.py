"""Nothing is left out in silence that Scrapy alone would have kept: each reason is told once, and counted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from changing import DAY
from scrapy import Request, Spider
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.http.request import NO_CALLBACK
from server import Answer, links
from test_private import OBEY, OutsideSpider, named
from test_revisits_crawl import INTERVAL, Follower

from scrapy_frontier.core import reasons
from scrapy_frontier.crawl.left_out import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from changing import ChangingWeb
    from conftest import Crawl
    from server import Web

    Run = Callable[..., Crawl]

ADDON = {"SCHEDULER": None, "ADDONS": {"scrapy_frontier.Addon": 500}}
SUMMARY = "Less than Scrapy would have fetched: "
# The reasons that the records of pages give for what is left out, by the stat that counts it.
TOLD = {
    "frontier/noindex/items": (reasons.NOINDEX,),
    "frontier/left_out/noindex_pages": (reasons.SKIPPED,),
    "frontier/nofollow/links": (reasons.NOFOLLOW, reasons.NOFOLLOW_PAGE),
    "frontier/nofollow/rel": (reasons.NOFOLLOW_LINK,),
    "frontier/pattern/links": (reasons.OUTSIDE,),
    "frontier/redirects/refused/private": (reasons.PRIVATE, reasons.NOT_FOLLOWED),
    "frontier/deferred": (reasons.BUDGET,),
    "frontier/left_out/downloads": (reasons.ROBOTS_UNREADABLE, reasons.ROBOTS_UNKNOWN, reasons.ROBOTS_HOURS),
    "frontier/left_out/given_up": (
        *(reasons.CONNECTION_REFUSED, reasons.NO_SUCH_NAME, reasons.TIMED_OUT, reasons.CONNECTION_LOST),
        *(reasons.NOT_SENT, reasons.ROBOTS_STATUS, reasons.PAUSE_TOO_LONG, reasons.DELAY),
        *(reasons.RESTS_AFTER, reasons.RESTS, reasons.COOLDOWN_UNREADABLE),
    ),
    "frontier/left_out/blocked": (reasons.BLOCKED,),
    "frontier/left_out/attempts_used_up": (reasons.ATTEMPTS_USED_UP,),
}
# Why each other reason takes nothing away that Scrapy alone would have kept.
KEPT_OR_LEFT_OUT_BY_SCRAPY_TOO = {
    "how a visit ended, and its callback or errback heard of it": (
        *(reasons.STATUS, reasons.NO_RESPONSE, reasons.CALLBACK, reasons.CANCELLED, reasons.LED),
        reasons.LED_TO_DROPPED,
    ),
    "it is tried again": (
        *(reasons.RETRIED, reasons.HANDED_BACK, reasons.TO_ITSELF, reasons.EXPIRED, reasons.ADDRESS),
    ),
    "Scrapy drops it too: its dupe filter, ROBOTSTXT_OBEY, allowed_domains or DEPTH_LIMIT": (
        *(reasons.FORBIDDEN, reasons.OUT_OF_SCOPE),
    ),
    "its items and links go on": (reasons.ALIAS,),
    "another process of the crawl fetches it": (reasons.FOREIGN,),
    "Scrapy's queue on disk does not keep it either": (reasons.LOST,),
    "an error is logged for it": (reasons.UNREADABLE, reasons.DAMAGED),
    "Scrapy reads no sitemaps": (reasons.SITEMAP, reasons.BROKEN_SITEMAP),
}


def test_every_reason_is_told_or_takes_nothing_away() -> None:
    told = [reason for given in TOLD.values() for reason in given]
    assert set(TOLD) < set(KINDS)
    others = [reason for given in KEPT_OR_LEFT_OUT_BY_SCRAPY_TOO.values() for reason in given]
    assert sorted(each.code for each in told + others) == sorted(each.code for each in reasons.REASONS)


def told(crawl: Crawl) -> dict[str, str]:
    """What is said of each kind, by its stat; each is said once."""
    found = re.findall(r"INFO: Left out (.*) \(said once, and counted in (\S+)\)", crawl.log)
    assert len(found) == len({name for _, name in found}), found
    return {name: words for words, name in found}


def summed_up(crawl: Crawl) -> dict[str, int]:
    lines = re.findall(f"{SUMMARY}(.*)", crawl.log)
    assert len(lines) <= 1
    parts = (part.split(" ", 1) for line in lines for part in line.split(", "))
    return {words: int(count.replace(",", "")) for count, words in parts}


class PageSpider(OutsideSpider):
    """Yields an item for each page, and follows its links."""

    def parse(self, response: Any) -> Any:
        yield {"url": response.url}
        for href in response.css("a::attr(href)").getall():
            yield Request(response.urljoin(href), dont_filter="insist" in href)


def leads(web: Web, path: str, *steps: str) -> None:
    """*path* redirects to the first of *steps*, this to the next, and so on."""
    for source, target in zip((path, *steps), steps, strict=False):
        web.on(source, status=302, headers={"Location": target})


def robots(content: str, *hrefs: str) -> str:
    return f'<meta name="robots" content="{content}">' + links(*hrefs)


def test_what_pages_ask_for_and_what_urls_look_like(web: Web, run: Run) -> None:
    web.on("/noindex", body=robots("noindex"))
    web.on("/nofollow", body=robots("nofollow", "/n1", "/n2"))
    web.on("/rel", body='<a href="/r1" rel="nofollow">.</a>')
    web.on("/moves", status=302, headers={"Location": "/" + "x" * 3000})
    session = "/page?sid=" + "0123456789abcdef" * 2
    deep, repeats = "/" + "/".join(map(str, range(22))), "/a/b/a/b/a/b"
    web.link("/", "/noindex", "/nofollow", "/rel", "/moves", deep, repeats, session, "/circle-insist")
    leads(web, "/circle-insist", "/circle-too", "/circle-insist")
    web.on("/inside", status=302, headers={"Location": named(web, "inside.example", "/secret")})
    over = [*(web.url("/over", host) for host in (0, 2, 3, 4, 5)), named(web, "cdn.example", "/end")]
    for host, target in zip((0, 2, 3, 4, 5), over[1:], strict=True):
        web.on("/over", status=302, headers={"Location": target}, host=host)
    seeds = [web.url("/"), named(web, "outside.example", "/inside"), web.url("/over")]
    settings = {**OBEY, "FRONTIER_SESSION_IDS": "strip"}
    crawl = run(PageSpider, settings, start_urls=seeds)
    assert crawl.reason == "finished", crawl.log
    refused = ("loop", "hosts", "private")
    assert set(told(crawl)) == {
        *("frontier/noindex/items", "frontier/nofollow/links", "frontier/nofollow/rel"),
        *(f"frontier/traps/{kind}" for kind in ("length", "depth", "repeated_segments", "session")),
        *(f"frontier/redirects/refused/{why}" for why in refused),
    }, crawl.log
    for name, words in told(crawl).items():
        assert "http://" in words, "the URL"
        assert words.endswith(f"; {KINDS[name].changes} changes that")
    assert summed_up(crawl) == {
        "noindex item": 1,
        "nofollow links": 3,
        "trap-like links": 3,
        "session id": 1,
        "refused redirects": 3,
    }


def test_a_page_with_noindex_that_is_skipped(web: Web, run: Run) -> None:
    web.on("/", body=robots("noindex"))
    crawl = run(PageSpider, {**ADDON, "FRONTIER_NOINDEX": "skip"}, start_urls=[web.url("/")])
    assert set(told(crawl)) == {"frontier/left_out/noindex_pages"}
    assert summed_up(crawl) == {"noindex page": 1}


def test_budgets(web: Web, run: Run) -> None:
    left_out = {"deferred": 20, "over_budget": 10}
    web.link("/", *(f"/{number}" for number in range(30)))
    web.link("/0", "/deep")
    crawl = run(PageSpider, {**ADDON, "FRONTIER_HOST_PAGES": 2}, start_urls=[web.url("/")])
    assert crawl.reason == "finished"
    assert set(told(crawl)) == {f"frontier/{name}" for name in left_out}
    assert sum(summed_up(crawl).values()) == sum(left_out.values())
    assert len(web.visits) == 32 - sum(left_out.values())


class DownloadSpider(PageSpider):
    """Downloads a file in its callback."""

    async def parse(self, response: Any) -> Any:  # type: ignore[override]
        yield {"url": response.url}
        request = Request(self.file, callback=NO_CALLBACK)  # type: ignore[attr-defined]
        await self.crawler.engine.download_async(request)  # type: ignore[union-attr]


class RetrySpider(PageSpider):
    """Is never content."""

    def parse(self, response: Any) -> Any:
        yield get_retry_request(response.request, spider=self, reason="bad", max_retry_times=9)


def test_what_a_host_in_trouble_takes_away(web: Web, run: Run, start: Run) -> None:
    """What is left to the next run, or ends in a temporary frontier; a download that has no next run; and a
    retry too many."""
    web.on("/robots.txt", status=503, host=1)
    nothing = {"FRONTIER_END_WAIT": 0, "RETRY_TIMES": 0, "RETRY_ENABLED": True}
    kept = run(PageSpider, {**ADDON, "ROBOTSTXT_OBEY": True, **nothing}, start_urls=[web.url("/a", 1)])
    assert summed_up(kept) == {"postponed page": 1}
    lost = start(
        PageSpider,
        {**ADDON, "FRONTIER_DIR": None, "ROBOTSTXT_OBEY": True, **nothing},
        start_urls=[web.url("/a", 1), web.url("/b", 1)],
    ).wait()
    assert summed_up(lost) == {"given-up pages": 2}
    assert "robots.txt of http" in told(lost)["frontier/left_out/given_up"]
    more = {**ADDON, "FRONTIER_DIR": None, "ROBOTSTXT_OBEY": True, "RETRY_TIMES": 0}
    side = start(DownloadSpider, more, start_urls=[web.url("/")], file=web.url("/file", 1)).wait()
    assert summed_up(side) == {"forbidden download": 1}
    tried = {**ADDON, "FRONTIER_DIR": None, "FRONTIER_MAX_ATTEMPTS": 2}
    bad = start(RetrySpider, tried, start_urls=[web.url("/bad")]).wait()
    assert summed_up(bad) == {"failed attempt": 1}


def test_what_earlier_runs_know(changing: ChangingWeb, run: Run) -> None:
    """Links, and pages that came back unchanged; nothing is said of pages that come back when due."""
    changing.on("/", Answer(body=links("/a", "/b")), Answer(body=links("/a", "/b", "/new")))
    for path in ("/a", "/b", "/new"):
        changing.on(path, Answer(body=path))
    every_run = {"url": changing.url("/"), "meta": {"frontier_every_run": True}}
    run(Follower, INTERVAL, **every_run)
    once = {**ADDON, "FRONTIER_CLOCK": "changing.clock"}
    again = run(Follower, once, **every_run)
    assert summed_up(again) == {"known pages": 2}
    assert changing.url("/a") in told(again)["frontier/left_out/known"]
    changing.clock.jump(changing.clock() + 8 * DAY)
    later = run(Follower, INTERVAL, **every_run)
    assert summed_up(later) == {"unchanged pages": 2}  # nothing was kept to compare / with


STOCK = {"SCHEDULER": None}
LIKE_STOCK = {**ADDON, "FRONTIER_PROFILE": "stock"}


class ItemSpider(Spider):
    """The same without a resolver of its own."""

    name = "items"

    def parse(self, response: Any) -> Iterator[Any]:
        yield {"url": response.url, "title": response.css("title::text").get()}
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)


def test_the_profile_stock_has_the_items_of_scrapy_alone(
    web: Web, items: Callable[..., list[list[Any]]]
) -> None:
    web.on("/", body=robots("none", "/noindex", "/rel", "/a/b/a/b/a/b"))
    web.on("/noindex", headers={"X-Robots-Tag": "noindex, nofollow"}, body=links("/behind"))
    web.on("/rel", body='<a href="/ugc" rel="nofollow ugc">.</a>')
    ways = [{**STOCK, "FRONTIER_DIR": None}, {**LIKE_STOCK, "FRONTIER_DIR": None}]
    stock, like_stock = items(ItemSpider, ways, start_urls=[web.url("/")])
    assert stock == like_stock
    assert len(stock) == 6
