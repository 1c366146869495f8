"""Sites without end: the crawl ends by itself, and a larger budget fetches exactly what had to wait."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from changing import DAY
from scrapy import Request, Spider
from scrapy.http import HtmlResponse, Response
from scrapy.resolver import CachingThreadedResolver
from server import Answer, Web, links
from twisted.internet.defer import succeed

from scrapy_frontier.core.store.keys import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from changing import ChangingWeb, JumpingClock
    from conftest import Crawl

    from scrapy_frontier.core.store.records import Page

ADDON = {"ADDONS": {"scrapy_frontier.Addon": 500}, "SCHEDULER": None, "LOG_LEVEL": "INFO"}


class LinkSpider(Spider):
    """Fetches *start_urls* and whatever they link."""

    name = "links"

    def parse(self, response: Response) -> Any:
        if isinstance(response, HtmlResponse):
            for link in response.css("a::attr(href)").getall():
                yield Request(response.urljoin(link))


class Endless(Web):
    """Sites without end: a calendar, a path that repeats itself, one that grows, and session identifiers."""

    def _next(self, host: int, path: str) -> Answer:
        kind, _, rest = path.strip("/").partition("/")
        if kind == "calendar":
            day = int(rest or 0)
            return Answer(body=links(f"/calendar/{day + 1}", f"/calendar/{day + 2}"))
        if kind == "loop":
            return Answer(body=links(f"{path.rstrip('/')}/again", "/loop"))
        if kind == "deep":
            return Answer(body=links(f"{path.rstrip('/')}/{len(path)}"))
        if kind.partition("?")[0] == "session":
            number = len(self.visits)
            return Answer(body=links(f"/session?page={number % 5}&sid=abcdef{number:026x}"))
        return super()._next(host, path)


@pytest.fixture
def endless() -> Iterator[Endless]:
    web = Endless(hosts=2)
    yield web
    web.close()


def test_paths_that_grow_or_repeat_and_sessions_end_by_themselves(
    endless: Endless, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    seeds = [endless.url(path) for path in ("/loop", "/deep", "/session?page=0")]
    crawl = run(LinkSpider, {**ADDON, "FRONTIER_SESSION_IDS": "strip"}, start_urls=seeds)
    assert crawl.reason == "finished"
    assert crawl.stats["frontier/traps/repeated_segments"] == 1
    assert crawl.stats["frontier/traps/depth"] == 1
    assert crawl.stats["frontier/traps/session"] >= 1
    assert [path for path in endless.paths() if path.startswith("/loop")] == [
        "/loop",
        "/loop/again",
        "/loop/again/again",
    ]
    assert max(path.count("/") for path in endless.paths()) == 20
    sessions = sorted(path for path in endless.paths() if path.startswith("/session"))
    assert sessions == sorted({f"/session?page={number}" for number in range(5)} & set(sessions))
    assert all("again/again/again" not in url for url in pages()), "a trap leaves no row"
    assert all("sid=" not in url for url in pages())
    assert crawl.log.count("said once for") == 2


def test_without_the_addon_no_url_is_changed(endless: Endless, run: Callable[..., Crawl]) -> None:
    crawl = run(LinkSpider, {"FRONTIER_HOST_PAGES": 10}, start_urls=[endless.url("/session?page=0")])
    assert crawl.reason == "finished"
    assert len(endless.visits) == 10
    assert all("&sid=" in path for path in endless.paths()[1:])


def test_a_larger_budget_fetches_exactly_what_had_to_wait(
    endless: Endless, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    endless.link("/shop", *(f"/item/{number}" for number in range(70)))
    seeds = [endless.url("/shop"), endless.url("/calendar/0", host=1)]
    crawl = run(LinkSpider, {"FRONTIER_HOST_PAGES": 30}, start_urls=seeds)
    assert crawl.reason == "finished"
    assert len(endless.paths(0)) == len(endless.paths(1)) == 30
    known = pages()
    waiting = [url for url, page in known.items() if page.state is State.SEEN]
    assert crawl.stats["frontier/pages/seen"] == crawl.stats["frontier/deferred"] == len(waiting)
    assert len(waiting) >= 41
    assert f"over the budget of 30 pages for host {endless.name(0)}" in {known[url].reason for url in waiting}

    before = len(endless.visits)
    crawl = run(LinkSpider, {"FRONTIER_HOST_PAGES": 50}, start_urls=seeds)
    assert crawl.reason == "finished"
    assert len(endless.paths(0)) == len(endless.paths(1)) == 50
    later = [endless.url(visit.path, visit.host) for visit in endless.visits[before:]]
    assert len(set(later)) == len(later) == 40
    of_shop = [url for url in waiting if "/item/" in url]
    assert [url for url in later if "/item/" in url] != []
    assert sorted(url for url in later if "/item/" in url) == sorted(of_shop[:20]), "oldest first"


def test_a_run_that_fetches_nothing_names_the_budget_that_is_used_up(
    web: Web, run: Callable[..., Crawl]
) -> None:
    seed, settings = web.link("/", "/a", "/b", "/c"), {"FRONTIER_HOST_PAGES": 2, "FRONTIER_HOST_PENDING": 50}
    told = "2 pages wait for room in a budget (FRONTIER_HOST_PAGES = 2, FRONTIER_HOST_PENDING = 50): `scrapy"
    assert "room in a budget" not in run(LinkSpider, settings, start_urls=[seed]).log
    assert told in run(LinkSpider, settings, start_urls=[seed]).log
    assert len(web.visits) == 2


class Trouble(Web):
    """An endless site whose pages fail, fail once, are closed, move, and lead nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    def _next(self, host: int, path: str) -> Answer:
        number = int(path.strip("/") or 0)
        self.asked[path] += 1
        answers = {
            2: Answer(503) if self.asked[path] == 1 else Answer(),
            4: Answer(500),
            6: Answer(drop=True) if self.asked[path] == 1 else Answer(),
            8: Answer(302, headers={"Location": "ftp://127.0.0.2/"}),
            10: Answer(302, headers={"Location": f"/{number + 10_000}"}),
            12: Answer(404),
            14: Answer(200, headers={"X-Robots-Tag": "noindex"}),
        }
        page = Answer(body=links(*(f"/{number + step}" for step in (1, 2, 3, 16))))
        return answers.get(number % 16, page)


def test_no_more_pages_are_asked_for_than_the_budget_has(run: Callable[..., Crawl]) -> None:
    """Whatever becomes of them, and however often one is asked for."""
    web = Trouble()
    settings = {
        **ADDON,
        "FRONTIER_HOST_PAGES": 50,
        "FRONTIER_COOLDOWN": 0,
        "RETRY_TIMES": 1,
        "FRONTIER_NOINDEX": "skip",
    }
    crawl = run(LinkSpider, settings, start_urls=[web.url("/0")])
    web.close()
    assert crawl.reason == "finished"
    assert crawl.stats["frontier/pages/excluded"] > 1
    assert len(web.visits) > 50
    assert len(web.asked) == 50


def test_the_same_budget_again_fetches_nothing(endless: Endless, run: Callable[..., Crawl]) -> None:
    for _ in range(2):
        crawl = run(LinkSpider, {"FRONTIER_HOST_PAGES": 8}, start_urls=[endless.url("/calendar/0")])
        assert crawl.reason == "finished"
        assert len(endless.visits) == 8


def test_a_short_queue_is_filled_up_until_all_is_fetched(endless: Endless, run: Callable[..., Crawl]) -> None:
    endless.link("/shop", *(f"/item/{number}" for number in range(60)))
    crawl = run(LinkSpider, {"FRONTIER_HOST_PENDING": 10}, start_urls=[endless.url("/shop")])
    assert crawl.reason == "finished"
    assert len(set(endless.paths())) == len(endless.paths()) == 61
    assert crawl.stats["frontier/deferred"] >= 50
    assert crawl.stats["frontier/pages/seen"] == 0


def test_seeds_are_kept_beyond_the_budget_and_fetched_whatever_they_look_like(
    endless: Endless, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    seeds = [endless.url(f"/seed/{number}") for number in range(40)]
    odd = endless.url("/x/x/x/x", host=1)
    crawl = run(LinkSpider, {"FRONTIER_HOST_PAGES": 2}, start_urls=[*seeds, odd])
    assert len(endless.paths(0)) == 2
    assert endless.paths(1) == ["/x/x/x/x"]
    assert set(pages()) == {*seeds, odd}
    assert crawl.stats["frontier/pages/seen"] == 38


@pytest.mark.parametrize("way", ["/seed", "/before"])
def test_a_seed_that_leads_into_a_trap_is_named_in_the_log_and_tried_again(
    endless: Endless, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]], way: str
) -> None:
    seed = endless.on("/seed", status=301, headers={"Location": "/y/y/y"})
    endless.on("/before", status=301, headers={"Location": "/seed"})
    crawl = run(LinkSpider, start_urls=[endless.url(way)])
    assert endless.paths()[-1] == "/seed"
    assert crawl.reason == "finished"
    assert "WARNING: Refused <GET" in crawl.log
    assert "comes from a seed" in crawl.log
    assert crawl.stats["frontier/traps/repeated_segments"] == 1
    found = pages()[seed]
    assert (found.state, found.reason) == (
        State.REDIRECTED,
        "redirect refused: its path repeats itself (" + endless.url("/y/y/y") + ")",
    )
    for _ in range(2):
        run(LinkSpider, {"FRONTIER_TRAPS": False}, start_urls=[endless.url(way)])
        assert endless.paths().count("/y/y/y") == 1
        assert pages()[seed].state is State.REDIRECTED


def test_a_seed_that_leads_where_enough_is_kept_is_fetched_when_there_is_room(
    endless: Endless, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    full = [endless.url(f"/page/{number}", host=1) for number in range(12)]
    there = endless.url("/there", host=1)
    seed = endless.on("/seed", status=302, headers={"Location": there})
    crawl = run(LinkSpider, {"FRONTIER_HOST_PAGES": 1}, start_urls=[*full, seed])
    assert crawl.reason == "finished"
    assert "WARNING: Counted but not kept" in crawl.log
    assert pages()[seed].state is State.REDIRECTED
    run(LinkSpider, start_urls=[*full, seed])
    assert pages()[there].state is State.DONE


def test_a_depth_that_grows_brings_back_what_lay_deeper(endless: Endless, run: Callable[..., Crawl]) -> None:
    seed = endless.url("/deep")
    run(LinkSpider, {"FRONTIER_DEPTH": 2}, start_urls=[seed])
    assert len(endless.visits) == 3
    run(LinkSpider, {"FRONTIER_DEPTH": 5}, start_urls=[seed])
    assert len(endless.visits) == len(set(endless.paths())) == 6


def test_what_a_sitemap_lists_meets_budgets_and_traps(
    endless: Endless, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    listed = [endless.url(f"/page/{number}") for number in range(12)]
    trap = endless.url("/z/z/z")
    entries = "".join(f"<url><loc>{url}</loc></url>" for url in (*listed, trap))
    schema = "http://www.sitemaps.org/schemas/sitemap/0.9"
    endless.on("/sitemap.xml", body=f'<urlset xmlns="{schema}">{entries}</urlset>')
    settings = {**ADDON, "FRONTIER_SITEMAPS": True, "FRONTIER_HOST_PAGES": 6}
    crawl = run(LinkSpider, settings, start_urls=[endless.url("/home")])
    assert crawl.reason == "finished"
    assert len(endless.paths()) == 6
    assert crawl.stats["frontier/deferred"] == crawl.stats["frontier/pages/seen"] == 8
    assert crawl.stats["frontier/sitemaps/new"] == 4
    assert crawl.stats["frontier/traps/repeated_segments"] == 1
    assert trap not in pages()
    run(LinkSpider, {**settings, "FRONTIER_HOST_PAGES": 0}, start_urls=[endless.url("/home")])
    assert sorted(endless.paths()) == sorted(["/home", "/sitemap.xml", *(f"/page/{n}" for n in range(12))])


def test_a_killed_crawl_keeps_to_its_budget(endless: Endless, start: Callable[..., Crawl]) -> None:
    endless.default = Answer(delay=0.03)
    endless.on("/shop", Answer(body=links(*(f"/item/{number}" for number in range(90)))))
    settings = {"FRONTIER_HOST_PAGES": 40, "CONCURRENT_REQUESTS": 4}
    for count in (10, 25):
        crawl = start(LinkSpider, settings, start_urls=[endless.url("/shop")])
        endless.wait(count)
        crawl.kill()
    crawl = start(LinkSpider, settings, start_urls=[endless.url("/shop")]).wait()
    assert crawl.reason == "finished"
    assert len(set(endless.paths())) == 40
    assert len(endless.visits) <= 40 + 2 * 4, "only what was under way came again"
    assert crawl.stats["frontier/pages/seen"] == 51


# -- sub-domains without end -----------------------------------------------------------------------------


class Loopback(CachingThreadedResolver):
    """Every name is the server's first address."""

    def getHostByName(self, name: str, timeout: Any = ()) -> Any:  # noqa: N802 - Twisted's name
        return succeed("127.0.0.2")


class WidePages(Web):
    """Every page of trap.test links five hosts that are new; the sites link a few pages of their own."""

    def _next(self, host: int, path: str) -> Answer:
        port = self.url("").rpartition(":")[2]
        kind, _, number = path.strip("/").partition("/")
        if kind == "trap":
            new = (int(number) * 5 + step for step in range(1, 6))
            return Answer(body=links(*(f"http://h{each}.trap.test:{port}/trap/{each}" for each in new)))
        return Answer(body=links(*(f"/{kind}/{int(number) * 3 + step}" for step in range(1, 4))))


def test_sub_domains_without_end_crowd_nobody_out(run: Callable[..., Crawl]) -> None:
    web = WidePages()
    port = web.url("").rpartition(":")[2]
    sites = [f"http://www.site{number}.test:{port}/site{number}/0" for number in range(9)]
    settings = {
        "DNS_RESOLVER": "test_budgets_crawl.Loopback",
        "CLOSESPIDER_PAGECOUNT": 300,
    }
    crawl = run(LinkSpider, settings, start_urls=[f"http://h0.trap.test:{port}/trap/0", *sites])
    web.close()
    share = sum(path.startswith("/trap/") for path in web.paths()) / len(web.visits)
    assert crawl.reason == "closespider_pagecount"
    assert share < 0.2, "one domain of ten, with some room for chance"
    assert crawl.stats["frontier/pages/failed"] == 0


# -- the same content ------------------------------------------------------------------------------------


class ItemSpider(LinkSpider):
    """An item for every page, beside its links."""

    name = "items"

    def parse(self, response: Response) -> Any:
        yield {"url": response.url, "same": response.meta.get("frontier_duplicate")}
        yield from super().parse(response)


@pytest.mark.parametrize("status", [301, 302])
def test_a_page_that_led_over_a_budget_comes_back_as_one_that_was_redirected(
    changing: ChangingWeb, clock: JumpingClock, run: Callable[..., Crawl], status: int
) -> None:
    settings = {**ADDON, "FRONTIER_CLOCK": "changing.clock", "FRONTIER_REVISIT": "interval"}
    changing.on("/lead", Answer(status, headers={"Location": "/a/a/a"}))
    seed = changing.link("/", "/lead")
    run(LinkSpider, settings, start_urls=[seed])
    assert changing.paths().count("/lead") == 1
    clock.jump(clock() + 30 * DAY)
    run(LinkSpider, {**settings, "FRONTIER_TRAPS": False}, start_urls=[seed])
    assert changing.paths().count("/lead") == 2
    assert changing.paths().count("/a/a/a") == 1


def test_a_refresh_is_judged_by_its_url_without_the_session(
    endless: Endless, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    there = f"/there?PHPSESSID={'0123456789abcdef' * 2}"
    seed = endless.on("/", body=f'<meta http-equiv="refresh" content="0;url={there}">')
    longest = len(endless.url("/there")) + 10
    run(LinkSpider, {**ADDON, "URLLENGTH_LIMIT": longest, "FRONTIER_SESSION_IDS": "strip"}, start_urls=[seed])
    assert pages()[endless.url("/there")].state is State.DONE
