"""Known pages that are fetched once more: for another callback, by seeds of a later run."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from changing import DAY, ChangingWeb
from scrapy import Request, Spider
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule
from server import Answer, Visit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from changing import JumpingClock
    from conftest import Crawl
    from scrapy.http import Response
    from server import Web

    Run = Callable[..., Crawl]

ADDON: dict[str, Any] = {"SCHEDULER": None, "ADDONS": {"scrapy_frontier.Addon": 500}}
REVISITS = {**ADDON, "FRONTIER_CLOCK": "changing.clock", "FRONTIER_REVISIT": "interval"}
DAILY = {**REVISITS, "FRONTIER_SHELF_LIFE": DAY}
WAYS = [{}, ADDON, {**ADDON, "FRONTIER_FOLLOW": True}]
STOCK = {"SCHEDULER": None, "FRONTIER_DIR": None}


class Listing(CrawlSpider):
    """Starts at a page that its rule wants, too."""

    name = "listing"
    rules = (Rule(LinkExtractor("/page/"), callback="parse_page", follow=True), Rule(LinkExtractor("/to/")))

    def parse_page(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}


def put_up_listing(web: Web) -> list[str]:
    web.on("/old", status=301, headers={"Location": "/page/1"})
    web.link("/page/1", "/page/2", "/to/all")
    for path in ("/page/2", "/page/3", "/to/all"):
        web.link(path, "/page/1", "/page/2", "/page/3", "/to/all")
    return [web.url(path) for path in ("/page/1", "/page/2", "/page/3")]


@pytest.mark.parametrize("first", ["/page/1", "/old"])
def test_a_start_page_that_a_rule_wants_gets_its_callback(
    first: str, web: Web, items: Callable[..., list[list[Any]]], tmp_path: Any
) -> None:
    urls = put_up_listing(web)
    ways = [{**way, "FRONTIER_DIR": str(tmp_path / f"{number}")} for number, way in enumerate(WAYS)]
    found = items(Listing, [STOCK, *ways], start_urls=[web.url(first)])
    assert found == [[{"url": url} for url in urls]] * 4
    paths = web.paths()
    assert [paths.count(path) for path in ("/page/1", "/page/2", "/page/3", "/to/all")] == [8, 4, 4, 4]


class OnlyFollowing(Listing):
    rules = (Rule(LinkExtractor("/page/")),)


@pytest.mark.parametrize("way", WAYS)
def test_a_start_page_is_not_fetched_twice_for_a_rule_that_has_no_callback(
    way: dict[str, Any], web: Web, run: Callable[..., Crawl]
) -> None:
    put_up_listing(web)
    assert run(OnlyFollowing, way, start_urls=[web.url("/page/1")]).reason == "finished"
    assert sorted(web.paths()) == ["/page/1", "/page/2", "/page/3"]


class Token(Spider):
    """Asks for a page for what it needs of it, and comes upon a link to it later."""

    name = "token"

    def __init__(self, url: str, name_of_link: str = "parse_page") -> None:
        super().__init__()
        self.url = url
        self.parse_link = getattr(self, name_of_link)

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.url)

    def parse(self, response: Response) -> Iterator[Any]:
        yield response.follow("/login", self.parse_token, dont_filter=True)

    def parse_token(self, response: Response) -> Iterator[Any]:
        yield {"token": response.url}
        yield response.follow("/1", self.parse_page)

    def parse_page(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, self.parse_link)


def put_up_token(web: Web) -> str:
    web.link("/login", "/1")
    web.link("/1", "/login", "/2")
    web.link("/2", "/login", "/1")
    return web.link("/", "/1", "/login")


@pytest.mark.parametrize("way", [*WAYS[:2], {**ADDON, "FRONTIER_LINKS": "all"}])
def test_a_page_that_a_callback_insisted_on_is_fetched_for_a_link_of_another(
    way: dict[str, Any], web: Web, items: Callable[..., list[list[Any]]]
) -> None:
    url = put_up_token(web)
    [found] = items(Token, [way], url=url)
    paths = ("/1", "/2", "/login")
    wanted = [{"token": web.url("/login")}, *({"url": web.url(path)} for path in paths)]
    assert sorted(map(str, found)) == sorted(map(str, wanted))
    assert sorted(web.paths()) == ["/", "/1", "/2", "/login", "/login"]


@pytest.mark.parametrize("way", WAYS[:2])
def test_for_the_callback_that_it_insisted_on_it_is_not(
    way: dict[str, Any], web: Web, run: Callable[..., Crawl]
) -> None:
    assert run(Token, way, url=put_up_token(web), name_of_link="parse_token").reason == "finished"
    assert sorted(web.paths()) == ["/", "/1", "/2", "/login"]


class Plain(Spider):
    name = "plain"

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        yield from response.follow_all(css="a", callback=self.parse)


@pytest.mark.parametrize("more", [{}, {"FRONTIER_REVISIT": "interval"}])
@pytest.mark.parametrize("way", WAYS[:2])
def test_a_seed_and_a_link_for_one_callback_are_one_visit(
    way: dict[str, Any], more: dict[str, Any], web: Web, run: Callable[..., Crawl]
) -> None:
    put_up_listing(web)
    assert run(Plain, {**way, **more}, start_urls=[web.url("/page/1")]).reason == "finished"
    assert sorted(web.paths()) == ["/page/1", "/page/2", "/page/3", "/to/all"]


def test_a_later_run_fetches_nothing_more(web: Web, run: Callable[..., Crawl]) -> None:
    put_up_listing(web)
    run(Listing, ADDON, start_urls=[web.url("/page/1")])
    assert len(web.visits) == 5
    run(Listing, ADDON, start_urls=[web.url("/page/1")])
    assert len(web.visits) == 5


# -- seeds ---------------------------------------------------------------------------------------------


class Counting(Spider):
    """Counts by name what its callbacks see."""

    url = ""

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.url)

    def seen(self, what: str) -> None:
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value(f"seen/{what}")

    def parse(self, response: Response) -> Iterator[Request] | None:
        self.seen("page")
        return None


def seen(crawl: Crawl) -> dict[str, int]:
    counts = crawl.stats.items()
    return {name.removeprefix("seen/"): count for name, count in counts if name.startswith("seen/")}


class Seeded(Counting):
    """Its seed is as Scrapy makes one of ``start_urls``."""

    name = "seeded"

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.url, dont_filter=True)


class Seeds(Counting):
    """Yields several seeds."""

    name = "seeds"
    urls: list[str] = []

    async def start(self) -> AsyncIterator[Request]:
        for url in self.urls:
            yield Request(url, dont_filter=True)


class Repeating(Seeds):
    """Yields its seeds slowly, and without ``dont_filter``."""

    name = "repeating"
    by_function = False

    async def start(self) -> AsyncIterator[Request]:
        for url in self.urls:
            yield Request(url, (lambda response: self.parse(response)) if self.by_function else None)
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("by_function", [False, True], ids=["", "by a function"])
def test_a_seed_that_failed_is_tried_once_by_the_next_run_however_often_it_is_repeated(
    web: Web, run: Run, by_function: bool
) -> None:
    urls = [web.on("/", status=404)] * 3
    url = web.on("/failing", status=501)
    for count in (1, 2):
        by = {"by_function": by_function and count == 2}
        run(Repeating, {**ADDON, "CONCURRENT_REQUESTS": 1}, urls=[url, *urls, url, *urls, url], **by)
        assert web.paths().count("/failing") == count


@pytest.mark.parametrize("place", [0, 10])
@pytest.mark.parametrize("at_once", [1, 8])
def test_where_many_seeds_lead_to_is_asked_once(web: Web, run: Run, place: int, at_once: int) -> None:
    home = web.on("/home", body="home", delay=0.05)
    hop = web.on("/hop", status=302, headers={"Location": home}, delay=0.05)
    urls = [web.on(f"/{number}", status=302, headers={"Location": hop}) for number in range(10)]
    urls.insert(place, home)
    run(Seeds, {**ADDON, "CONCURRENT_REQUESTS_PER_DOMAIN": at_once}, urls=urls)
    counts = Counter(web.paths())
    assert (counts["/hop"], counts["/home"]) == (1, 1)
    assert counts.total() == 12


@pytest.mark.parametrize("host", [0, 1])
def test_a_seed_that_is_sent_away_for_a_cookie_and_back_is_fetched(web: Web, run: Run, host: int) -> None:
    back = {"Location": web.url("/"), "Set-Cookie": "human=yes"}
    gate = web.on("/gate", status=302, headers=back, host=host)
    url = web.on("/", Answer(status=302, headers={"Location": gate}), Answer(body="welcome"))
    crawl = run(Seeded, ADDON, url=url)
    assert seen(crawl) == {"page": 1}
    assert web.paths() == ["/", "/gate", "/"]


class GatedWeb(ChangingWeb):
    """Shows its front page to those that have the cookie of its gate."""

    def _reply(self, visit: Visit) -> Answer:
        if visit.path == "/gate":
            return Answer(status=302, headers={"Location": self.url("/"), "Set-Cookie": "human=yes"})
        if "human" not in visit.cookie:
            return Answer(status=302, headers={"Location": self.url("/gate")})
        return Answer(body="welcome")


@pytest.fixture
def gated(clock: JumpingClock) -> Iterator[GatedWeb]:
    web = GatedWeb(clock)
    yield web
    web.close()


def test_a_seed_behind_a_gate_comes_back_every_day(gated: GatedWeb, run: Run) -> None:
    for _ in range(3):
        crawl = run(Seeded, DAILY, url=gated.url("/"))
        assert seen(crawl)["page"] >= 1
        assert "frontier/visits/gone" not in crawl.stats
        gated.clock.jump(gated.clock() + DAY)


@pytest.mark.parametrize("leg", [0, 1, 2])
def test_a_kill_on_the_way_through_a_gate_loses_no_seed_and_has_none_fetched_twice(
    gated: GatedWeb, start: Run, run: Run, leg: int
) -> None:
    gated.limit = leg
    crawl = start(Seeded, REVISITS, url=gated.url("/"))
    gated.wait(leg + 1)
    crawl.kill()
    gated.limit = math.inf
    assert [seen(run(Seeded, REVISITS, url=gated.url("/"))) for _ in range(2)] == [{"page": 1}, {}]


def test_a_seed_that_is_sent_to_and_fro_is_left(web: Web, run: Run) -> None:
    gate = web.on("/gate", status=302, headers={"Location": web.url("/")})
    crawl = run(Seeded, ADDON, url=web.on("/", status=302, headers={"Location": gate}))
    assert crawl.reason == "finished"
    assert web.paths().count("/") <= 3


class Twice(Counting):
    """Yields its seed twice in each run."""

    name = "twice"

    async def start(self) -> AsyncIterator[Request]:
        for _ in range(2):
            yield Request(self.url, dont_filter=True)


@pytest.mark.parametrize("is_redirected", [False, True])
def test_a_seed_that_comes_twice_in_its_first_run_is_fetched_twice_and_then_no_more(
    web: Web, run: Run, is_redirected: bool
) -> None:
    """As with Scrapy: the spider means it. In a later run it comes since `start` runs again."""
    url = web.on("/home")
    if is_redirected:
        url = web.on("/", status=302, headers={"Location": url})
    for _ in range(2):
        run(Twice, ADDON, url=url)
    assert sorted(web.paths()) == ["/", "/"] * is_redirected + ["/home", "/home"]


class Daily(Counting):
    name = "daily"

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.url, meta={"frontier_every_run": True}, dont_filter=True)


def test_a_seed_of_every_run_is_fetched_in_each_and_so_is_the_page_that_it_leads_to(
    web: Web, run: Run
) -> None:
    url = web.on("/", status=302, headers={"Location": web.on("/home")})
    for _ in range(3):
        assert seen(run(Daily, ADDON, url=url)) == {"page": 1}
    assert web.paths() == ["/", "/home"] * 3


def test_a_seed_that_led_to_a_page_that_failed_is_tried_again_by_the_next_run(web: Web, run: Run) -> None:
    url = web.on("/", status=302, headers={"Location": web.on("/home", status=501)})
    assert seen(run(Seeded, ADDON, url=url)) == {}
    web.on("/home")
    assert [seen(run(Seeded, ADDON, url=url)) for _ in range(2)] == [{"page": 1}, {}]
    assert web.paths() == ["/", "/home"] * 2


class Timed(Counting):
    """Gives pages priorities by times in seconds, and in milliseconds."""

    name = "timed"
    unit = 1

    async def start(self) -> AsyncIterator[Request]:
        for number in (1, 3, 2, 5, 4):
            now = (1_700_000_000 + number) * int(self.unit)
            yield Request(f"{self.url}/{number}", priority=now)


@pytest.mark.parametrize("unit", [1, 1000])
def test_priorities_beyond_32_bits_are_told(web: Web, run: Run, unit: int) -> None:
    crawl = run(Timed, {**ADDON, "CONCURRENT_REQUESTS": 1}, url=web.url("/").rstrip("/"), unit=unit)
    assert len(web.visits) == 5
    assert crawl.log.count("are served as equals") == (unit == 1000)
    if unit == 1:
        assert web.paths()[1:] == sorted(web.paths()[1:], reverse=True)
