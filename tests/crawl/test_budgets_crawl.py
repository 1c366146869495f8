"""Sites without end: the crawl ends by itself, and a larger budget fetches exactly what had to wait."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.http import HtmlResponse, Response
from server import Answer, Web, links

from scrapy_frontier.core.store.keys import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    assert crawl.log.count("looks like a trap") == 2


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
    assert crawl.stats["frontier/pages/failed"] > 1
    assert len(web.visits) > 50
    assert len(web.asked) == 50


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


# -- the same content ------------------------------------------------------------------------------------
