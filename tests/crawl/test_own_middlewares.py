"""Middlewares and spiders of a project that do what few do: retries, redirects and errors of their own."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from changing import DAY, ChangingWeb
from scrapy import Request, Spider
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.exceptions import CloseSpider
from scrapy.http import HtmlResponse, Response, TextResponse
from server import Answer, Web

from scrapy_frontier.core.store.keys import State

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from conftest import Crawl

    from scrapy_frontier.core.store.records import Page

    Run = Callable[..., Crawl]

ADDON: dict[str, Any] = {"SCHEDULER": None, "ADDONS": {"scrapy_frontier.Addon": 500}, "RETRY_TIMES": 2}


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


def middleware(kind: type, place: int) -> dict[str, Any]:
    return {"DOWNLOADER_MIDDLEWARES": {f"{__name__}.{kind.__name__}": place}}


# -- retries -------------------------------------------------------------------------------------------


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


class Linking(Counting):
    """Follows all links."""

    name = "linking"

    def parse(self, response: Response) -> Any:
        assert isinstance(response, HtmlResponse)
        self.seen("page")
        return response.follow_all(css="a")


def test_a_retry_does_not_insist_on_the_page_that_redirects_lead_to(web: Web, run: Run) -> None:
    home = web.on("/home", body="home")
    there = web.on("/hop", status=302, headers={"Location": home})
    away = Answer(status=302, headers={"Location": there})
    links = [web.on(f"/{number}", Answer(status=500), away) for number in range(3)]
    run(Linking, {**ADDON, "FIRST_BACKOFF": 0.1}, url=web.link("/", home, *links))
    assert web.paths().count("/home") == 1


# -- requests that middlewares hand back ---------------------------------------------------------------


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


@pytest.mark.parametrize("kind", [Itself, Retrying, Replaced, Before])
def test_what_a_middleware_changes_before_it_asks_once_more_holds(
    web: Web, run: Run, kind: type[Gate]
) -> None:
    good = Answer(body="good")
    url = web.on("/", good) if kind is Before else web.on("/", Answer(body="banned"), good)
    crawl = run(Plain, {**ADDON, **middleware(kind, 560)}, url=url)
    assert seen(crawl) == {"page": 1}, crawl.log
    assert web.visits[-1].headers["token"] == "good"
    assert len(web.visits) == (1 if kind is Before else 2)


class UntilLogin:
    """Hands requests back unsent until the login page has been answered."""

    is_in = False

    def process_request(self, request: Request, spider: Any = None) -> Request | None:
        return None if self.is_in or request.url.endswith("/login") else request.replace(dont_filter=True)

    def process_response(self, request: Request, response: Response, spider: Any = None) -> Any:
        self.is_in |= request.url.endswith("/login")
        return response


class ThreeSeeds(Counting):
    name = "three seeds"

    async def start(self) -> AsyncIterator[Request]:
        for path in ("/a", "/b", "/login"):
            yield Request(self.url + path)


def test_what_a_request_waits_for_that_is_handed_back_comes_first(web: Web, run: Run) -> None:
    """The site is asked for one page at a time, and that must not be the same for ever."""
    url = web.on("/login", body="login").removesuffix("/login")
    for path in ("/a", "/b"):
        web.on(path, body="page")
    settings = {**ADDON, **middleware(UntilLogin, 543), "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    assert seen(run(ThreeSeeds, settings, url=url)) == {"page": 3}
    assert len(web.visits) == 3


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
    settings = {**ADDON, **middleware(Counted, 560), "RETRY_TIMES": 2, "FIRST_BACKOFF": 0.1}
    for seed in (url, failed):
        run(Plain, settings, url=seed)
    assert [visit.headers["tries"] for visit in web.visits] == ["1", "2", "3"] * 2
    assert pages()[url].payload == pages()[failed].payload == b'{"meta":{"is_start_request":true}}'


# -- callbacks that close the spider -------------------------------------------------------------------


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


@pytest.mark.parametrize("way", ["function", "generator"])
def test_a_callback_that_closes_the_spider_is_called_again_by_the_next_run(
    web: Web, run: Run, pages: Callable[[], dict[str, Page]], way: str
) -> None:
    """Or the links it had not come to would be lost."""
    url = web.on("/", body='<a href="/1">one</a><a href="/2">two</a>')
    crawl = run(Stopped, ADDON, url=url, way=way)
    assert crawl.reason == "quota"
    assert "spider_exceptions/count" not in crawl.stats
    assert pages()[url].reason == "callback raised CloseSpider: quota"
    assert run(Stopped, ADDON, url=url).reason == "finished"
    assert Counter(web.paths()) == {"/": 2, "/1": 1, "/2": 1}


# -- answers that are not a page -------------------------------------------------------------------------


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


# -- pages that come back --------------------------------------------------------------------------------


REVISITS = {**ADDON, "FRONTIER_CLOCK": "changing.clock", "FRONTIER_REVISIT": "interval"}
DAILY = {**REVISITS, "FRONTIER_SHELF_LIFE": DAY}


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
