"""Where a crawl, parts of Scrapy and those of a project meet in ways that few do. Each of these stories once
ended otherwise."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import re
import signal
import time
from collections import Counter
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from changing import DAY, ChangingWeb, Document
from scrapy import Request, Spider
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.dupefilters import RFPDupeFilter
from scrapy.exceptions import CloseSpider
from scrapy.http import HtmlResponse, Response, TextResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.spidermiddlewares.httperror import HttpError, HttpErrorMiddleware
from scrapy.spiders import CrawlSpider, Rule
from server import Answer, Visit, Web

from scrapy_frontier import RedirectMiddleware
from scrapy_frontier.core.frontier import Frontier, PageId
from scrapy_frontier.core.ranking.graph import find_row
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.leveldb import Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from changing import JumpingClock
    from conftest import Crawl

    from scrapy_frontier.core.store.records import Page

    Run = Callable[..., Crawl]

ADDON: dict[str, Any] = {"SCHEDULER": None, "ADDONS": {"scrapy_frontier.Addon": 500}, "RETRY_TIMES": 2}
FOLLOWED = {**ADDON, "FRONTIER_FOLLOW": True}


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


class Plain(Counting):
    name = "plain"


def seen(crawl: Crawl) -> dict[str, int]:
    counts = crawl.stats.items()
    return {name.removeprefix("seen/"): count for name, count in counts if name.startswith("seen/")}


# -- retries ---------------------------------------------------------------------------------------------


class Pages(Counting):
    """Two pages of one address, which only their bodies tell apart; a callback may want one once more."""

    name = "pages"

    async def start(self) -> AsyncIterator[Request]:
        for number in (1, 2):
            yield Request(self.url, method="POST", body=f"page={number}")

    def parse(self, response: Response) -> Iterator[Request]:
        assert isinstance(response, TextResponse)
        assert response.request is not None
        self.seen(f"{response.request.body.decode()} {response.text}")
        if response.text == "again":
            once_more = get_retry_request(response.request, spider=self, reason="again")
            assert once_more is not None
            yield once_more


def test_a_retry_by_a_callback_is_of_its_own_page(web: Web, run: Run) -> None:
    """And not of another with the same address, which is under way."""
    good = Answer(body="good")
    url = web.on("/api", Answer(status=500, delay=1.0), Answer(body="again"), good, good)
    crawl = run(Pages, {**ADDON, "CONCURRENT_REQUESTS_PER_DOMAIN": 8}, url=url)
    assert [seen(crawl)[f"page={number} good"] for number in (1, 2)] == [1, 1]
    assert crawl.stats["frontier/pages/done"] == 2


class Polling(Counting):
    """Asks for its page fifteen times."""

    name = "polling"

    def parse(self, response: Response) -> Iterator[Request]:
        self.seen("page")
        assert self.crawler.stats is not None
        assert response.request is not None
        if self.crawler.stats.get_value("seen/page") < 15:
            yield response.request.replace(dont_filter=True)


def test_a_page_is_polled_on_after_it_was_retried(web: Web, run: Run) -> None:
    crawl = run(Polling, ADDON, url=web.on("/", Answer(status=500), Answer(body="news")))
    assert seen(crawl) == {"page": 15}


class Elsewhere:
    """Retries at a mirror."""

    def process_response(self, request: Request, response: Response, spider: Any = None) -> Any:
        if response.status != 500:
            return response
        meta = {**request.meta, "retry_times": 1}
        return request.replace(url=request.url.replace("/here", "/there"), meta=meta, dont_filter=True)


def test_a_retry_at_another_address_goes_there(web: Web, run: Run) -> None:
    web.on("/there", body="good")
    url = web.on("/here", status=500)
    crawl = run(Plain, {**ADDON, **middleware(Elsewhere, 560)}, url=url)
    assert web.paths() == ["/here", "/there"]
    assert seen(crawl) == {"page": 1}


def middleware(kind: type, place: int) -> dict[str, Any]:
    return {"DOWNLOADER_MIDDLEWARES": {f"{__name__}.{kind.__name__}": place}}


def test_what_ends_is_not_counted_as_postponed(web: Web, run: Run) -> None:
    url = web.on("/", status=429, headers={"Retry-After": "1"})
    crawl = run(NotRetried, ADDON, url=url)
    assert seen(crawl) == {"error": 1}
    assert web.paths() == ["/"]
    assert "frontier/cooldown/postponed" not in crawl.stats


class NotRetried(Counting):
    name = "not retried"

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.url, meta={"dont_retry": True}, errback=self.failed)

    def failed(self, failure: Any) -> None:
        self.seen("error")


# -- what is followed --------------------------------------------------------------------------------------


class Two(Counting):
    name = "two"

    async def start(self) -> AsyncIterator[Request]:
        for path in ("/a/x", "/b/x"):
            yield Request(self.url + path)


def test_links_of_a_page_with_the_content_of_another_are_not_followed(web: Web, run: Run) -> None:
    for path in ("/a/x", "/b/x"):
        web.on(path, body='<html>the same <a href="next">.</a></html>')
    settings = {**FOLLOWED, "FRONTIER_DUPLICATES": "stop", "CONCURRENT_REQUESTS": 1}
    crawl = run(Two, settings, url=web.url(""))
    assert crawl.stats["frontier/duplicates"] == 1
    assert sum(path.endswith("/next") for path in web.paths()) == 1


class Shop(Counting):
    name = "shop"

    def parse(self, response: Response) -> Iterator[Request]:
        assert isinstance(response, HtmlResponse)
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, self.item)

    def item(self, response: Response) -> None:
        self.seen("item")


def test_what_a_callback_asks_for_is_its_own_with_a_session_in_the_link(web: Web, run: Run) -> None:
    web.on("/p", body="<html></html>")
    crawl = run(Shop, FOLLOWED, url=web.link("/", "/p?phpsessid=0123456789abcdef"))
    assert web.paths() == ["/", "/p"]
    assert seen(crawl) == {"item": 1}


class Scored(Counting):
    name = "scored"

    def frontier_link_score(self, response: Response, url: str, text: str) -> float:
        self.seen("link")
        return 1.0


class OwnDupeFilter(RFPDupeFilter):
    pass


@pytest.mark.parametrize("settings", [{}, {"DUPEFILTER_CLASS": f"{__name__}.OwnDupeFilter"}])
def test_links_that_are_followed_are_scored_by_the_spider(
    web: Web, run: Run, settings: dict[str, Any]
) -> None:
    crawl = run(Scored, {**FOLLOWED, **settings}, url=web.link("/", "/a", "/b"))
    assert sorted(web.paths()) == ["/", "/a", "/b"]
    assert seen(crawl)["link"] == 2


class MoreInPlaces(CrawlSpider):
    name = "places"
    rules = (Rule(LinkExtractor(restrict_css=(".a", ".b"), restrict_text="More")),)


class MoreOfAll(CrawlSpider):
    name = "all"
    rules = (Rule(LinkExtractor(restrict_text="More", unique=False)),)


@pytest.mark.parametrize("spider", [MoreInPlaces, MoreOfAll])
@pytest.mark.parametrize("settings", [ADDON, FOLLOWED])
def test_links_are_told_by_their_texts_as_scrapy_tells_them(
    web: Web, run: Run, spider: type[Spider], settings: dict[str, Any]
) -> None:
    body = '<html><p class="a"><a href="/p">Title</a></p><p class="b"><a href="/p">More</a></p></html>'
    run(spider, settings, start_urls=[web.on("/", body=body)])
    assert web.paths() == ["/", "/p"]


class Gate:
    """A middleware that lets nobody in without today's token; each kind has its own way to be asked once
    more with it."""

    def __init__(self, crawler: Any = None) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Any) -> Gate:
        return cls(crawler)

    def admit(self, request: Request) -> Request:
        request.headers["Token"] = "good"
        request.meta["account"] = request.meta.get("account", 0) + 1
        request.dont_filter = True
        return request

    def process_response(self, request: Request, response: Response, spider: Any = None) -> Any:
        return self.once_more(request) if response.body == b"banned" else response

    def once_more(self, request: Request) -> Any:
        raise NotImplementedError


class Itself(Gate):
    def once_more(self, request: Request) -> Any:
        return self.admit(request)


class Retrying(Gate):
    def once_more(self, request: Request) -> Any:
        return get_retry_request(self.admit(request), spider=self.crawler.spider, reason="banned")


class Replaced(Gate):
    def once_more(self, request: Request) -> Any:
        return self.admit(request.copy())


class Before(Gate):
    def process_request(self, request: Request, spider: Any = None) -> Request | None:
        return None if "account" in request.meta else self.admit(request)


@pytest.mark.parametrize(
    "more", [{}, ADDON, {**ADDON, "FRONTIER_DIR": None}], ids=["alone", "add-on", "memory"]
)
@pytest.mark.parametrize("kind", [Itself, Retrying, Replaced, Before])
def test_what_a_middleware_changes_before_it_asks_once_more_holds(
    web: Web, run: Run, kind: type[Gate], more: dict[str, Any]
) -> None:
    good = Answer(body="good")
    url = web.on("/", good) if kind is Before else web.on("/", Answer(body="banned"), good)
    crawl = run(Plain, {**more, **middleware(kind, 560), "RETRY_TIMES": 2}, url=url)
    assert seen(crawl) == {"page": 1}, crawl.log
    assert web.visits[-1].headers["token"] == "good"
    assert len(web.visits) == (1 if kind is Before else 2)


class Renewed(Gate):
    def once_more(self, request: Request) -> Any:
        token = request.replace(body="token=good", dont_filter=True)
        return get_retry_request(token, spider=self.crawler.spider, reason="banned")


class Resubmitting(Counting):
    """Asks for its page by a form, and once more."""

    name = "resubmitting"

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.url, method="POST", body="token=old")

    def parse(self, response: Response) -> Iterator[Request]:
        assert isinstance(response, HtmlResponse)
        yield from response.follow_all(css="a", callback=self.end)
        if self.crawler.stats and not self.crawler.stats.get_value("seen/page"):
            yield Request(self.url, method="POST", body="token=old", dont_filter=True)
        self.seen("page")

    def end(self, response: Response) -> None:
        self.seen("link")


def test_links_that_a_further_visit_finds_in_its_second_try_are_those_of_its_page(
    web: Web, run: Run, tmp_path: Path
) -> None:
    """Though a middleware has renewed the form that stands for the page."""
    answers = (Answer(body=f'<a href="/{number}">one</a>') for number in (1, 2))
    url = web.on("/", next(answers), Answer(body="banned"), next(answers))
    settings = {**ADDON, **middleware(Renewed, 560), "FRONTIER_RETRY_DELAY": 0.1}
    crawl = run(Resubmitting, settings, url=url)
    assert seen(crawl) == {"page": 2, "link": 2}
    store = Store(tmp_path / "frontier")
    assert [edge.target for edge in find_row(0, store.get)] == [2]
    store.close()


class Counted:
    """Counts on the way out how often a page was tried."""

    def process_request(self, request: Request, spider: Any = None) -> None:
        request.meta["tries"] = request.meta.get("tries", 0) + 1
        request.headers["Tries"] = str(request.meta["tries"])


def test_what_is_put_into_a_request_is_there_when_it_is_retried_and_gone_when_its_page_has_ended(
    web: Web, run: Run, pages: Callable[[], dict[str, Page]]
) -> None:
    url = web.on("/", Answer(status=500), Answer(status=500), Answer(body="good"))
    failed = web.on("/failed", status=500)
    settings = {**ADDON, **middleware(Counted, 560), "RETRY_TIMES": 2, "FRONTIER_RETRY_DELAY": 0.1}
    for seed in (url, failed):
        run(Plain, settings, url=seed)
    assert [visit.headers["tries"] for visit in web.visits] == ["1", "2", "3"] * 2
    assert pages()[url].payload == pages()[failed].payload == b'{"meta":{"is_start_request":true}}'


class Seeded(Counting):
    """Its seed is as Scrapy makes one of ``start_urls``."""

    name = "seeded"

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.url, dont_filter=True)


@pytest.mark.parametrize("host", [0, 1])
def test_a_seed_that_is_sent_away_for_a_cookie_and_back_is_fetched(web: Web, run: Run, host: int) -> None:
    back = {"Location": web.url("/"), "Set-Cookie": "human=yes"}
    gate = web.on("/gate", status=302, headers=back, host=host)
    url = web.on("/", Answer(status=302, headers={"Location": gate}), Answer(body="welcome"))
    crawl = run(Seeded, ADDON, url=url)
    assert seen(crawl) == {"page": 1}
    assert web.paths() == ["/", "/gate", "/"]


class GatedWeb(ChangingWeb):
    """Shows its front page to who has the cookie of its gate; ``is_broken``: nobody."""

    is_broken = False

    def _reply(self, visit: Visit) -> Answer:
        if visit.path == "/gate":
            return Answer(status=302, headers={"Location": self.url("/"), "Set-Cookie": "human=yes"})
        if "human" not in visit.cookie:
            return Answer(status=302, headers={"Location": self.url("/gate")})
        return Answer(status=500) if self.is_broken else Answer(body="welcome")


@pytest.fixture
def gated(clock: JumpingClock) -> Iterator[GatedWeb]:
    web = GatedWeb(clock)
    yield web
    web.close()


def test_a_seed_behind_a_gate_comes_back_every_day(
    gated: GatedWeb, run: Run, pages: Callable[[], dict[str, Page]]
) -> None:
    for _ in range(3):
        crawl = run(Seeded, DAILY, url=gated.url("/"))
        assert seen(crawl)["page"] >= 1
        assert "frontier/visits/gone" not in crawl.stats
        assert pages()[gated.url("/")].state is State.DONE
        gated.clock.jump(gated.clock() + DAY)


def test_a_seed_behind_a_gate_that_was_not_read_is_tried_by_the_next_run_and_then_no_more(
    gated: GatedWeb, run: Run, pages: Callable[[], dict[str, Page]]
) -> None:
    gated.is_broken = True
    assert seen(run(Seeded, {**ADDON, "RETRY_TIMES": 0}, url=gated.url("/"))) == {}
    gated.is_broken = False
    assert [seen(run(Seeded, ADDON, url=gated.url("/"))) for _ in range(2)] == [{"page": 1}, {}]
    assert pages()[gated.url("/")].state is State.DONE


@pytest.mark.parametrize("daily", [False, True])
@pytest.mark.parametrize("leg", [0, 1, 2])
def test_a_kill_on_the_way_through_a_gate_loses_no_seed_and_has_none_fetched_twice(
    gated: GatedWeb, start: Run, run: Run, pages: Callable[[], dict[str, Page]], leg: int, daily: bool
) -> None:
    settings = DAILY if daily else ADDON
    gated.limit = leg
    crawl = start(Seeded, settings, url=gated.url("/"))
    gated.wait(leg + 1)
    crawl.kill()
    if leg == 2:  # the next run knows how far it went: nothing goes round for ever
        assert b'"redirect_times":2' in pages()[gated.url("/")].payload
    gated.limit = math.inf
    assert [seen(run(Seeded, settings, url=gated.url("/"))) for _ in range(2)] == [{"page": 1}, {}]


def test_a_seed_is_not_gone_since_what_is_behind_its_gate_had_a_bad_day(gated: GatedWeb, run: Run) -> None:
    for is_broken in (False, True, False):
        gated.is_broken = is_broken
        crawl = run(Seeded, {**DAILY, "RETRY_TIMES": 0}, url=gated.url("/"))
        assert "frontier/visits/gone" not in crawl.stats
        gated.clock.jump(gated.clock() + DAY)


@pytest.mark.parametrize("way", ["meta", "header"])
def test_a_gate_may_send_back_by_a_refresh(web: Web, run: Run, way: str) -> None:
    back = f"0;url={web.url('/')}"
    meta, header = f'<meta http-equiv="refresh" content="{back}">', {"Refresh": back}
    gate = web.on("/gate", body=meta if way == "meta" else "wait", headers=header if way == "header" else {})
    url = web.on("/", Answer(status=302, headers={"Location": gate}), Answer(body="welcome"))
    for _ in range(2):
        run(Seeded, ADDON, url=url)
        assert web.paths() == ["/", "/gate", "/"]


def test_pages_that_refresh_to_each_other_are_left(web: Web, run: Run) -> None:
    one, two = web.url("/one"), web.url("/two")
    for path, there in (("/one", two), ("/two", one)):
        web.on(path, body=f'<meta http-equiv="refresh" content="0;url={there}">')
    run(Seeded, ADDON, url=one)
    assert len(web.visits) <= 4


class SeededOnce(Counting):
    name = "seeded once"

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.url)


CIRCLE, ELSEWHERE, LONG = (0, 1, 0), (0, 1, 2, 1), tuple(range(9))
MENDED = [(way, place) for way, last in ((CIRCLE, 1), (ELSEWHERE, 2), (LONG, 3)) for place in range(last + 1)]


@pytest.mark.parametrize(("way", "mended"), MENDED)
@pytest.mark.parametrize("spider", [Seeded, SeededOnce])
def test_a_seed_that_goes_round_for_a_day_is_read_by_the_next_run_wherever_its_site_is_mended(
    web: Web,
    run: Run,
    pages: Callable[[], dict[str, Page]],
    spider: type[Spider],
    way: list[int],
    mended: int,
) -> None:
    """And by no other: the page that was mended is known to have been read."""
    for number, target in pairwise(way):
        web.on(f"/{number}", status=302, headers={"Location": web.url(f"/{target}")})
    url, settings = web.url("/0"), {**ADDON, "REDIRECT_MAX_TIMES": 3}
    assert seen(run(spider, settings, url=url)) == {}
    read = web.on(f"/{mended}", body="page")
    assert [seen(run(spider, settings, url=url)) for _ in range(2)] == [{"page": 1}, {}]
    assert pages()[read].state is State.DONE
    assert web.paths()[-1] == f"/{mended}", "nothing was asked for by the last run"


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


class Seeds(Counting):
    """Ten seeds lead through one page to one that is a seed, too."""

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


def test_a_seed_that_is_sent_to_and_fro_is_left(web: Web, run: Run) -> None:
    gate = web.on("/gate", status=302, headers={"Location": web.url("/")})
    crawl = run(Seeded, ADDON, url=web.on("/", status=302, headers={"Location": gate}))
    assert crawl.reason == "finished"
    assert web.paths().count("/") <= 3


# -- what a callback breaks off ----------------------------------------------------------------------------


class Stopped(Counting):
    """Its callback wants no more, in one of two *ways*, before it has come to the links."""

    name = "stopped"
    way = ""

    def parse(self, response: Response) -> Any:
        assert isinstance(response, HtmlResponse)
        self.seen("page")
        if self.way == "function" and response.url == self.url:
            raise CloseSpider("quota")
        return self.links(response)

    def links(self, response: HtmlResponse) -> Iterator[Request]:
        for number, href in enumerate(response.css("a::attr(href)").getall()):
            if number and self.way == "generator":
                raise CloseSpider("quota")
            yield response.follow(href)


@pytest.mark.parametrize("settings", [ADDON, {}], ids=["add-on", "scheduler"])
@pytest.mark.parametrize("way", ["function", "generator"])
def test_a_callback_that_closes_the_spider_is_called_again_by_the_next_run(
    web: Web, run: Run, pages: Callable[[], dict[str, Page]], way: str, settings: dict[str, Any]
) -> None:
    """Or the links it had not come to would be lost."""
    url = web.on("/", body='<a href="/1">one</a><a href="/2">two</a>')
    crawl = run(Stopped, settings, url=url, way=way)
    assert crawl.reason == "quota"
    assert "spider_exceptions/count" not in crawl.stats
    assert pages()[url].reason == "callback raised CloseSpider: quota"
    assert run(Stopped, settings, url=url).reason == "finished"
    assert Counter(web.paths()) == {"/": 2, "/1": 1, "/2": 1}


class StoppedByLink(Stopped):
    """Wants no more where a link leads."""

    name = "stopped by link"

    def parse(self, response: Response) -> Any:
        if response.url != self.url:
            raise CloseSpider("quota")
        return super().parse(response)


def test_a_page_that_always_closes_the_spider_does_not_stop_all_runs(
    web: Web, run: Run, pages: Callable[[], dict[str, Page]]
) -> None:
    url = web.link("/", web.url("/1"))
    settings = {**ADDON, "FRONTIER_MAX_ATTEMPTS": 2}
    reasons = [run(StoppedByLink, settings, url=url).reason for _ in range(3)]
    assert reasons == ["quota", "quota", "finished"]
    assert pages()[web.url("/1")].state is State.FAILED


class Quota(Stopped):
    """Wants one page a run, and counts in its callback."""

    name = "quota"
    read = 0

    def parse(self, response: Response) -> Any:
        if response.url != self.url:
            self.read += 1
            if self.read > 1:
                raise CloseSpider("quota")
        return super().parse(response)


def test_pages_under_way_when_a_quota_is_spent_use_up_no_attempt(
    web: Web, run: Run, pages: Callable[[], dict[str, Page]]
) -> None:
    links = [web.on(f"/{number}", body="page", delay=0.2, host=number % 2) for number in range(8)]
    url = web.link("/", *links)
    # On a busy machine one page may be the one that closes the spider three times.
    settings = {**ADDON, "CONCURRENT_REQUESTS_PER_DOMAIN": 8, "FRONTIER_MAX_ATTEMPTS": 5}
    reasons = [run(Quota, settings, url=url).reason for _ in links]
    assert reasons == ["quota"] * 7 + ["finished"]
    assert Counter(page.state for page in pages().values()) == {State.DONE: 9}


class SeesMissing(Counting):
    """Looks at pages that are gone itself, and has enough."""

    name = "sees missing"
    handle_httpstatus_list = (404,)
    is_patient = False

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.url, errback=self.failed)

    def failed(self, failure: Any) -> None:
        self.seen("error")

    def parse(self, response: Response) -> Any:
        if not self.is_patient:
            raise CloseSpider("gone")
        return super().parse(response)


def test_a_callback_that_closes_the_spider_at_a_page_that_is_gone_is_called_again(web: Web, run: Run) -> None:
    """Though the request has an errback, which is not asked."""
    url = web.on("/", status=404)
    assert run(SeesMissing, ADDON, url=url).reason == "gone"
    assert seen(run(SeesMissing, ADDON, url=url, is_patient=True)) == {"page": 1}


class ClosingErrback(Counting):
    """Has enough of errors."""

    name = "closing"

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.url, errback=self.failed)

    def failed(self, failure: Any) -> None:
        raise CloseSpider("error")


def test_a_page_that_is_gone_is_gone_though_its_errback_closes_the_spider(
    web: Web, run: Run, pages: Callable[[], dict[str, Page]]
) -> None:
    url = web.on("/", status=404)
    assert [run(ClosingErrback, ADDON, url=url).reason for _ in range(2)] == ["error", "finished"]
    assert pages()[url].state is State.GONE


# -- requests beside the scheduler -------------------------------------------------------------------------


class Inline(Counting):
    """Downloads something of another host in its callback."""

    name = "inline"
    other = ""

    async def parse(self, response: Response) -> None:  # type: ignore[override]
        assert self.crawler.engine is not None
        try:
            await self.crawler.engine.download_async(Request(self.other))
        except Exception as error:
            self.logger.info("refused: %r", error)
            self.seen("refusal")


def test_a_request_of_a_callback_does_not_wait_for_a_host_that_is_blocked(
    web: Web, run: Run, tmp_path: Path
) -> None:
    settings = {**ADDON, "ROBOTSTXT_OBEY": True}
    run(Plain, settings, url=web.url("/first"))
    now = time.time()
    frontier = Frontier(Store(tmp_path / "frontier"), now)
    frontier.block(web.name(1), now)
    frontier.close()
    crawl = run(Inline, settings, url=web.url("/second"), other=web.url("/picture", host=1))
    assert seen(crawl) == {"refusal": 1}, crawl.log
    assert crawl.reason == "finished"
    assert re.search(r"refused: IgnoreRequest", crawl.log)
    assert "/picture" not in web.paths()


# -- pages that come back ----------------------------------------------------------------------------------


class Tokens:
    """Near the network: sends a request anew with the token of the day."""

    def __init__(self, token: str) -> None:
        self.token = token.encode()

    @classmethod
    def from_crawler(cls, crawler: Any) -> Tokens:
        return cls(crawler.settings["TOKEN"])

    def process_request(self, request: Request, spider: Any = None) -> Request | None:
        if request.headers.get("Token") == self.token:
            return None
        headers = {**request.headers, "Token": self.token}
        return request.replace(headers=headers, dont_filter=True)


def test_validators_are_of_one_visit_though_a_middleware_sends_the_request_anew(
    changing: ChangingWeb, run: Run, pages: Callable[[], dict[str, Page]]
) -> None:
    url = changing.document("/")
    revisits = {"FRONTIER_CLOCK": "changing.clock", "FRONTIER_REVISIT": "interval"}
    settings = {**ADDON, **revisits, "FRONTIER_SHELF_LIFE": 6 * DAY, **middleware(Tokens, 750)}
    for token in ("one", "one", "two", "two"):
        crawl = run(Plain, {**settings, "TOKEN": token}, url=url)
        assert "httperror/response_ignored_count" not in crawl.stats
        changing.clock.jump(changing.clock() + 7 * DAY)
    assert b"None-Match" not in pages()[url].payload
    assert changing.statuses("/") == [200, 304, 304, 304]


def test_a_page_that_was_retried_is_asked_for_as_all_others_the_next_time(
    changing: ChangingWeb, run: Run, pages: Callable[[], dict[str, Page]]
) -> None:
    """What middlewares put into a request on its way out is none of its own."""
    url = changing.on("/", Answer(status=500), Answer(body="news"))
    revisits = {"FRONTIER_CLOCK": "changing.clock", "FRONTIER_REVISIT": "interval"}
    settings = {**ADDON, **revisits, "FRONTIER_SHELF_LIFE": 6 * DAY}
    for agent in ("one", "two"):
        run(Plain, {**settings, "USER_AGENT": agent}, url=url)
        changing.clock.jump(changing.clock() + 7 * DAY)
    assert [visit.headers["user-agent"] for visit in changing.visits] == ["one", "one", "two"]
    assert b"User-Agent" not in pages()[url].payload


REVISITS = {**ADDON, "FRONTIER_CLOCK": "changing.clock", "FRONTIER_REVISIT": "interval"}
DAILY = {**REVISITS, "FRONTIER_SHELF_LIFE": DAY}


class Linking(Counting):
    """Follows all links."""

    name = "linking"

    def parse(self, response: Response) -> Any:
        assert isinstance(response, HtmlResponse)
        self.seen("page")
        return response.follow_all(css="a")


def test_pages_come_back_though_their_site_asks_for_a_pause_between_them(
    changing: ChangingWeb, run: Run
) -> None:
    changing.on("/robots.txt", body="User-agent: *\nCrawl-delay: 0.2\nDisallow:\n")
    changing.document("/1")
    changing.document("/2")
    url = changing.document("/", links=lambda version: ["/1", "/2"])
    for _ in range(3):
        crawl = run(Linking, {**DAILY, "ROBOTSTXT_OBEY": True}, url=url)
        assert crawl.reason == "finished"
        changing.clock.jump(changing.clock() + DAY)
    asked = Counter(each.path for each in changing.seen)
    assert {path: asked[path] for path in ("/", "/1", "/2")} == {"/": 3, "/1": 3, "/2": 3}


def test_a_page_that_comes_back_is_retried_in_the_run_that_asked_for_it(
    changing: ChangingWeb, run: Run
) -> None:
    news = Answer(body="news")
    url = changing.on("/", news, Answer(status=500), news)
    for _ in range(2):
        run(Plain, {**DAILY, "FRONTIER_RETRY_DELAY": 0.2}, url=url)
        changing.clock.jump(changing.clock() + DAY)
    assert changing.paths() == ["/", "/", "/"]


class Old(Linking):
    """Has a callback of its own for linked pages."""

    def parse(self, response: Response) -> Any:
        assert isinstance(response, HtmlResponse)
        return response.follow_all(css="a", callback=self.parse_old)

    def parse_old(self, response: Response) -> None:
        self.seen("linked")


class New(Linking):
    """By another name."""

    parse_new = Old.parse_old

    def parse(self, response: Response) -> Any:
        assert isinstance(response, HtmlResponse)
        return response.follow_all(css="a", callback=self.parse_new)


class Both(New):
    parse_old = New.parse_new


def test_a_page_whose_callback_was_renamed_comes_back_when_there_is_one_of_that_name(
    changing: ChangingWeb, run: Run
) -> None:
    changing.document("/1", version=lambda day: int(day))
    url = changing.document("/", version=lambda day: int(day), links=lambda version: ["/1"])
    crawls = []
    for spider in (Old, New, Both):
        crawls.append(run(spider, DAILY, url=url))
        changing.clock.jump(changing.clock() + DAY)
    assert [seen(crawl).get("linked") for crawl in crawls] == [1, None, 1]
    assert "is known, but not fetched: " in crawls[1].log
    assert "it comes back when that is there again" in crawls[1].log


class Dated(Plain):
    """The request for its seed is another one every day."""

    name = "dated"
    day = ""

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.url, meta={"day": self.day})


def test_a_seed_that_errs_is_left_alone_for_a_while_whatever_its_request_says(
    changing: ChangingWeb, run: Run
) -> None:
    url = changing.document("/", Document(answers=[(0.5, Answer(status=500))]))
    for day in range(4):
        crawl = run(
            Dated, {**DAILY, "FRONTIER_SHELF_LIFE": 8 * DAY, "RETRY_ENABLED": False}, url=url, day=day
        )
        assert crawl.reason == "finished"
        changing.clock.jump(changing.clock() + (8 if not day else 0.5) * DAY)
    assert [each.status for each in changing.seen] == [200, 500]


def test_pages_come_back_to_an_agent_that_may_fetch_them(changing: ChangingWeb, run: Run) -> None:
    """One of them comes by itself, to be judged; by that one the others are known to be due, too."""
    changing.on("/robots.txt", body="User-agent: one\nDisallow: /private\n")
    paths = [f"/private/{number}" for number in range(3)]
    for path in paths:
        changing.document(path)
    url = changing.document("/", links=lambda version: paths)
    for agent in ("one", "two", "two"):
        run(Linking, {**DAILY, "ROBOTSTXT_OBEY": True, "USER_AGENT": agent}, url=url)
        changing.clock.jump(changing.clock() + DAY)
    asked = Counter(each.path for each in changing.seen)
    assert all(asked[path] for path in paths), asked


def test_a_seed_that_is_due_is_not_told_as_left(changing: ChangingWeb, run: Run) -> None:
    url = changing.document("/")
    for is_first in (True, False):
        crawl = run(Plain, DAILY, url=url)
        assert is_first or "not fetched again" not in crawl.log
        changing.clock.jump(changing.clock() + DAY)
    assert changing.paths() == ["/", "/"]


class Today:
    """Puts the token of the day into requests that have none."""

    def process_request(self, request: Request, spider: Any = None) -> None:
        request.headers.setdefault("Token", os.environ["TOKEN"])


class Silent(Plain):
    """Yields nothing."""

    async def start(self) -> AsyncIterator[Request]:
        for request in ():
            yield request


@pytest.mark.parametrize("between", [{"FRONTIER_REVISIT": None}, {}])
def test_what_was_put_into_a_request_is_gone_though_its_visit_did_not_end(
    changing: ChangingWeb, run: Run, start: Run, monkeypatch: pytest.MonkeyPatch, between: dict[str, Any]
) -> None:
    """A run that was stopped between two tries, and one that comes back to nothing, or a visit anew."""
    url = changing.on("/", Answer(body="a"), Answer(status=500), Answer(body="b"))
    settings = {**DAILY, **middleware(Today, 400), "FRONTIER_RETRY_DELAY": 60}
    for token, spider, more in (
        ("1", Plain, {}),
        ("2", Silent, {}),
        ("3", Silent, between),
        ("4", Silent, {}),
    ):
        monkeypatch.setenv("TOKEN", token)
        crawl = start(spider, {**settings, **more}, url=url)
        if token == "2":
            changing.wait(2)
            crawl.wait_for("Retrying")
            time.sleep(0.3)  # its end is written within .1 s
            crawl.kill(signal.SIGINT)
        crawl.wait()
        changing.clock.jump(changing.clock() + DAY)
    assert [visit.headers["token"] for visit in changing.visits][-1] == "4"


class Late(Counting):
    """Yields its second seed when the crawl has been at work for a while."""

    name = "late"
    first = ""

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.first, dont_filter=True)
        await asyncio.sleep(0.6)
        yield Request(self.url, dont_filter=True)


def test_a_seed_that_is_yielded_between_two_tries_is_tried_as_it_was_left(
    changing: ChangingWeb, run: Run
) -> None:
    first = changing.on("/first", body="first")
    url = changing.on("/", Answer(body="news"), Answer(status=500))
    settings = {**DAILY, **middleware(Counted, 400), "RETRY_TIMES": 2, "FRONTIER_RETRY_DELAY": 1.0}
    for _ in range(2):
        run(Late, settings, first=first, url=url)
        changing.clock.jump(changing.clock() + DAY)
    tries = [visit.headers["tries"] for visit in changing.visits if visit.path == "/"]
    assert tries == ["1", "1", "2", "3"]


def test_a_robots_txt_behind_a_long_pause_keeps_no_crawl_open(web: Web, run: Run) -> None:
    """It lies on a host that another crawl has visited, and that asks for an hour between two requests."""
    slow = web.on("/robots.txt", body="User-agent: *\nCrawl-delay: 3600\n", host=1)
    web.on("/robots.txt", status=302, headers={"Location": slow})
    settings = {**ADDON, "ROBOTSTXT_OBEY": True, "FRONTIER_END_WAIT": 1}
    run(Plain, settings, url=web.url("/", host=1))
    crawl = run(Plain, settings, url=web.url("/"))
    assert crawl.reason == "finished"
    assert "waiting for robots.txt or the hours it names" in crawl.log


def test_a_page_that_a_redirect_led_to_is_asked_for_as_all_others_the_next_time(
    changing: ChangingWeb, run: Run, pages: Callable[[], dict[str, Page]]
) -> None:
    there = changing.on("/there", body="news")
    url = changing.on("/", status=302, headers={"Location": there})
    for agent in ("one", "two"):
        run(Plain, {**DAILY, "USER_AGENT": agent}, url=url)
        changing.clock.jump(changing.clock() + DAY)
    asked = [(visit.path, visit.headers["user-agent"]) for visit in changing.visits]
    assert sorted(asked) == [("/", "one"), ("/", "two"), ("/there", "one"), ("/there", "two")]
    assert b"User-Agent" not in pages()[there].payload
    assert b"redirect_" not in pages()[there].payload


def test_a_page_that_redirects_led_to_has_all_of_them_again_when_it_is_queued_again(
    web: Web, run: Run, pages: Callable[[], dict[str, Page]], tmp_path: Path
) -> None:
    """By an operator, in a crawl whose pages do not come back: nothing has led there this time."""

    def lead(*paths: str) -> None:
        for path, target in pairwise(paths):
            web.on(path, status=302, headers={"Location": web.url(target)})
        web.on(paths[-1], body="page")

    lead("/", "/a", "/b")
    settings, there = {**ADDON, "REDIRECT_MAX_TIMES": 3}, web.url("/b")
    assert seen(run(Seeded, settings, url=web.url("/"))) == {"page": 1}
    assert b"redirect_" not in pages()[there].payload
    with closing(Store(tmp_path / "frontier")) as store:
        frontier = Frontier(store, time.time())
        assert frontier.requeue(PageId(2), time.time())
        frontier.close()
    lead("/b", "/c", "/d")
    assert seen(run(Seeded, settings, url=web.url("/"))) == {"page": 1}


class InsistingOnce(RedirectMiddleware):
    """Has one page fetched in any case where a redirect leads to it."""

    def process_response(self, request: Request, response: Response, spider: Any = None) -> Any:
        answer = super().process_response(request, response)
        if isinstance(answer, Request) and answer.url.endswith("/known"):
            return answer.replace(dont_filter=True)
        return answer


def test_a_middleware_may_insist_on_where_the_second_redirect_leads(web: Web, run: Run) -> None:
    web.on("/a", status=302, headers={"Location": web.url("/b")})
    web.on("/b", status=302, headers={"Location": web.url("/known")})
    web.on("/known", body="page")
    root = web.link("/", "/known", "/a")
    run(Linking, {**ADDON, **middleware(InsistingOnce, 650), "CONCURRENT_REQUESTS": 1}, url=root)
    assert web.paths() == ["/", "/known", "/a", "/b", "/known"]


def test_the_ajax_form_of_a_page_is_asked_for_as_all_others_the_next_time(
    changing: ChangingWeb, run: Run, pages: Callable[[], dict[str, Page]]
) -> None:
    url = changing.on("/", body='<meta name="fragment" content="!">')
    form = changing.on("/?_escaped_fragment_=", body="news")
    for agent in ("one", "two"):
        run(Plain, {**DAILY, "FRONTIER_AJAX": True, "USER_AGENT": agent}, url=url)
        changing.clock.jump(changing.clock() + DAY)
    asked = [visit.headers["user-agent"] for visit in changing.visits if visit.path != "/"]
    assert asked == ["one", "two"]
    assert b"User-Agent" not in pages()[form].payload


class Service:
    """As those of scraping services: asks one for each page, and notes that it has."""

    def process_request(self, request: Request, spider: Any = None) -> Request | None:
        if "is_asked" in request.meta:
            return None
        request.meta["is_asked"] = True
        request.headers["X-Key"] = request.headers["Authorization"] = "secret"
        site, _, path = request.url.rpartition("/")
        return request.replace(url=f"{site}/service?page={path}")


def test_a_page_that_a_service_is_asked_for_comes_back_by_that_alone(changing: ChangingWeb, run: Run) -> None:
    for _ in range(3):
        run(Plain, {**DAILY, **middleware(Service, 50)}, url=changing.url("/one"))
        changing.clock.jump(changing.clock() + DAY)
    assert changing.paths() == ["/service?page=one"] * 3
    for name in ("x-key", "authorization"):
        assert [visit.headers[name] for visit in changing.visits] == ["secret"] * 3


class SecondHome:
    """Asks another place for what is not there: the site has answered, and no service is asked."""

    def process_response(self, request: Request, response: Response, spider: Any = None) -> Any:
        return request.replace(url=response.urljoin("/mirror")) if response.status == 404 else response


def test_a_page_that_a_middleware_sends_elsewhere_is_asked_for_as_all_others_the_next_time(
    changing: ChangingWeb, run: Run, pages: Callable[[], dict[str, Page]]
) -> None:
    url, mirror = changing.on("/", status=404), changing.on("/mirror", body="news")
    for each in ("one", "two"):
        about = {"USER_AGENT": each, "DEFAULT_REQUEST_HEADERS": {"X-Version": each}}
        settings = {**DAILY, **middleware(SecondHome, 50), **about}
        run(Plain, settings, url=url, http_user=each, http_pass="x", http_auth_domain=None)
        changing.clock.jump(changing.clock() + DAY)
    asked = [visit.headers for visit in changing.visits if visit.path == "/mirror"]
    for name in ("user-agent", "x-version"):
        assert [headers[name] for headers in asked] == ["one", "two"]
    assert asked[0]["authorization"] != asked[1]["authorization"]
    payload = pages()[mirror].payload
    for name in (b"User-Agent", b"X-Version", b"Authorization", b"download_timeout"):
        assert name not in payload


@pytest.mark.parametrize("revisit", ["never", "interval"])
def test_a_chain_of_redirects_grows_with_the_limit_and_not_with_the_days(
    changing: ChangingWeb, run: Run, revisit: str
) -> None:
    """Pages on its way come back by themselves too, and none of them is where it began."""
    for step in range(9):
        changing.on(f"/r{step}", status=302, headers={"Location": f"/r{step + 1}"})
    reached = []
    for limit in (2, 2, 2, 2, 4, 4):
        settings = {**DAILY, "FRONTIER_REVISIT": revisit, "REDIRECT_MAX_TIMES": limit}
        run(Plain, settings, url=changing.url("/r0"))
        reached.append(max(visit.path for visit in changing.visits))
        changing.clock.jump(changing.clock() + DAY)
    assert reached == ["/r2"] * 4 + ["/r4"] * 2


@pytest.mark.parametrize("seed", ["short", "a"])
def test_a_shorter_way_into_a_chain_is_not_charged_the_longer_one(
    changing: ChangingWeb, run: Run, seed: str
) -> None:
    for one, other in (("long", "a"), ("a", "b"), ("b", "c"), ("short", "b")):
        changing.on(f"/{one}", status=302, headers={"Location": f"/{other}"})
    changing.on("/c", body="read")
    settings = {**DAILY, "REDIRECT_MAX_TIMES": 2}
    for each in ("long", seed, seed):
        run(Plain, settings, url=changing.url(f"/{each}"))
        changing.clock.jump(changing.clock() + DAY)
    assert "/c" in [visit.path for visit in changing.visits]


# -- answers that are no page ------------------------------------------------------------------------------


class Refused(Counting):
    """Notes what its errback hears; may ask to see what comes."""

    name = "refused"
    sees = False

    async def start(self) -> AsyncIterator[Request]:
        meta = {"handle_httpstatus_list": [302, 304]} if self.sees else {}
        yield Request(self.url, errback=self.failed, meta=meta)

    def failed(self, failure: Any) -> None:
        self.seen("error")


@pytest.mark.parametrize("status", [302, 304])
@pytest.mark.parametrize("sees", [False, True])
def test_a_redirect_that_names_no_place_failed_unless_the_spider_asks_to_see_it(
    web: Web, run: Run, pages: Callable[[], dict[str, Page]], status: int, sees: bool
) -> None:
    """And a seed that failed is fetched by the next run, however it is yielded."""
    url = web.on("/", status=status)
    for _ in range(2):
        crawl = run(Refused, ADDON, url=url, sees=sees)
    page = pages()[url]
    if sees:
        assert (page.state, seen(crawl), len(web.visits)) == (State.DONE, {}, 1)
    else:
        assert (page.state, page.status, page.reason) == (State.FAILED, status, f"HTTP {status}")
        assert (seen(crawl), len(web.visits)) == ({"error": 1}, 2)


class OldStyle(HttpErrorMiddleware):
    """As projects wrote it for years: it is called with the spider, and looks at the page."""

    def process_spider_input(self, response: Response, spider: Spider) -> None:  # type: ignore[override]
        assert isinstance(response, TextResponse)
        if "welcome" not in response.text:
            raise HttpError(response, "no page")


@pytest.mark.filterwarnings("ignore")
def test_a_middleware_for_http_errors_of_a_project_decides_alone(
    web: Web, run: Run, pages: Callable[[], dict[str, Page]]
) -> None:
    url = web.on("/", status=302, body="<p>welcome</p>")
    own = {"scrapy.spidermiddlewares.httperror.HttpErrorMiddleware": None, f"{__name__}.OldStyle": 50}
    crawl = run(Plain, {**ADDON, "SPIDER_MIDDLEWARES": own}, url=url)
    assert seen(crawl) == {"page": 1}
    assert pages()[url].state is State.DONE


class Telling(HttpErrorMiddleware):
    """Says what it is asked, as projects extend Scrapy's."""

    def process_spider_input(self, response: Response, spider: Any = None) -> None:
        logging.getLogger(__name__).info("asked for %s", response.url)
        super().process_spider_input(response)


def test_what_a_middleware_for_http_errors_of_a_project_refuses_is_no_page(
    web: Web, run: Run, pages: Callable[[], dict[str, Page]]
) -> None:
    """Nor is it the callback that has enough, where the errback has."""
    own = {"scrapy.spidermiddlewares.httperror.HttpErrorMiddleware": None, f"{__name__}.Telling": 50}
    away, gone = web.on("/away", status=302), web.on("/gone", status=404)
    crawl = run(Refused, {**ADDON, "SPIDER_MIDDLEWARES": own}, url=away)
    assert seen(crawl) == {"error": 1}
    assert run(ClosingErrback, {**ADDON, "SPIDER_MIDDLEWARES": own}, url=gone).reason == "error"
    assert [pages()[url].state for url in (away, gone)] == [State.FAILED, State.GONE]


class Conditional(Refused):
    """Asks whether the page has changed by a header of its own."""

    name = "conditional"

    async def start(self) -> AsyncIterator[Request]:
        headers = {"If-None-Match": '"mine"'}
        yield Request(self.url, errback=self.failed, headers=headers)


def test_a_304_to_a_header_of_the_spider_is_no_error(
    web: Web, run: Run, pages: Callable[[], dict[str, Page]]
) -> None:
    url = web.on("/", status=304)
    for _ in range(2):
        run(Conditional, ADDON, url=url)
    assert (pages()[url].state, len(web.visits)) == (State.DONE, 1)


class LinkingObjects(Linking):
    """What it hands on is only in the memory of the crawl."""

    name = "linking objects"

    def parse(self, response: Response) -> Any:
        return [request.replace(meta={"lock": object()}) for request in super().parse(response)]


@pytest.mark.parametrize("spider", [Linking, LinkingObjects])
@pytest.mark.parametrize("hops", [1, 2])
def test_a_retry_does_not_insist_on_the_page_that_a_redirect_leads_to(
    web: Web, run: Run, hops: int, spider: type[Spider]
) -> None:
    home = web.on("/home", body="home")
    there = home if hops == 1 else web.on("/hop", status=302, headers={"Location": home})
    away = Answer(status=302, headers={"Location": there})
    links = [web.on(f"/{number}", Answer(status=500), away) for number in range(3)]
    run(spider, {**ADDON, "FRONTIER_RETRY_DELAY": 0.1}, url=web.link("/", home, *links))
    assert web.paths().count("/home") == 1


class Mirror:
    """Has another page fetched where one cannot be had, each time."""

    def process_response(self, request: Request, response: Response, spider: Any = None) -> Any:
        if response.status != 500:
            return response
        about = {"for": request.url}
        return Request(request.url[:-1] + "mirror", callback=request.callback, dont_filter=True, meta=about)


def test_a_middleware_that_insists_on_another_page_gets_it_though_the_first_was_retried(
    web: Web, run: Run
) -> None:
    web.on("/mirror", body="mirror")
    url = web.link("/", *(web.on(f"/{number}", status=500) for number in range(3)))
    settings = {**ADDON, **middleware(Mirror, 543), "RETRY_TIMES": 1, "FRONTIER_RETRY_DELAY": 0.1}
    crawl = run(Linking, settings, url=url)
    assert web.paths().count("/mirror") == 3
    assert seen(crawl) == {"page": 4}


class Waiting:
    """Hands requests back, unsent or with their response, until it has what it waits for."""

    left = 12

    def handed_back(self, request: Request) -> Request | None:
        self.left -= 1
        return request.replace(dont_filter=True) if self.left >= 0 else None


class WaitingBefore(Waiting):
    def process_request(self, request: Request, spider: Any = None) -> Request | None:
        return self.handed_back(request)


class WaitingBehind(Waiting):
    def process_response(self, request: Request, response: Response, spider: Any = None) -> Any:
        return self.handed_back(request) or response


@pytest.mark.parametrize("kind", [WaitingBefore, WaitingBehind])
def test_a_middleware_may_hand_a_request_back_as_often_as_it_likes(
    web: Web, run: Run, kind: type[Waiting]
) -> None:
    crawl = run(Plain, {**ADDON, **middleware(kind, 543)}, url=web.on("/", body="page"))
    assert seen(crawl) == {"page": 1}
    assert len(web.visits) == (1 if kind is WaitingBefore else 13)


class UntilLogin:
    """Hands requests back, unsent or with their response, until the login page has been answered."""

    is_in = False

    def process_request(self, request: Request, spider: Any = None) -> Request | None:
        return self.wanted_again(request) if self.is_before else None

    def process_response(self, request: Request, response: Response, spider: Any = None) -> Any:
        self.is_in |= request.url.endswith("/login")
        return (not self.is_before and self.wanted_again(request)) or response

    def wanted_again(self, request: Request) -> Request | None:
        return None if self.is_in or request.url.endswith("/login") else request.replace(dont_filter=True)

    is_before = True


class UntilLoginBehind(UntilLogin):
    is_before = False


class ThreeSeeds(Counting):
    name = "three seeds"

    async def start(self) -> AsyncIterator[Request]:
        for path in ("/a", "/b", "/login"):
            yield Request(self.url + path)


@pytest.mark.parametrize("kind", [UntilLogin, UntilLoginBehind])
def test_what_a_request_waits_for_that_is_handed_back_comes_first(
    web: Web, run: Run, kind: type[UntilLogin]
) -> None:
    """The site is asked for one page at a time, and that must not be the same for ever."""
    url = web.on("/login", body="login").removesuffix("/login")
    for path in ("/a", "/b"):
        web.on(path, body="page")
    crawl = run(ThreeSeeds, {**ADDON, **middleware(kind, 543), "CONCURRENT_REQUESTS_PER_DOMAIN": 1}, url=url)
    assert seen(crawl) == {"page": 3}
    assert len(web.visits) <= (3 if kind is UntilLogin else 7)


class RetryingEver(Plain):
    """Its callback wants the page once more, each time; its errback hears when that is enough."""

    name = "retrying ever"

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.url, errback=self.failed)

    def parse(self, response: Response) -> Any:
        assert response.request is not None
        return get_retry_request(response.request, spider=self, reason="empty", max_retry_times=20)

    def failed(self, failure: Any) -> None:
        self.seen(type(failure.value).__name__)


def test_a_retry_that_is_one_too_many_ends_in_its_errback(
    web: Web, run: Run, pages: Callable[[], dict[str, Page]]
) -> None:
    url = web.on("/", body="page")
    crawl = run(RetryingEver, {**ADDON, "FRONTIER_MAX_ATTEMPTS": 3, "FRONTIER_RETRY_DELAY": 0.01}, url=url)
    assert seen(crawl) == {"IgnoreRequest": 1}
    assert pages()[url].reason.endswith("(3 attempts)")
    assert "see FRONTIER_MAX_ATTEMPTS" in crawl.log
