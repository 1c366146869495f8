"""Where redirects and refreshes lead, and where they do not: what the servers were asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy
import pytest
from scrapy import Request, Spider
from scrapy.linkextractors import LinkExtractor
from server import TOLERANCE, Answer

from scrapy_frontier.core.store.keys import State
from scrapy_frontier.crawl.in_flight import as_yielded

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


def test_a_target_waits_as_long_as_its_redirect_asks(web: Web, run: Callable[..., Crawl], pages: Any) -> None:
    """RFC 9110 10.2.3; other pages of its host do not wait."""
    target = web.url("/to", 1)
    web.on("/from", status=302, headers={"Location": target, "Retry-After": "6"})
    web.link("/to", web.url("/from-there", 1), host=1)
    urls = [web.url("/from"), *(web.url(f"/{n}", 1) for n in range(5))]
    crawl = run(CopyingSpider, start_urls=urls)
    assert crawl.reason == "finished", crawl.log
    begin = {visit.path: visit.begin for visit in web.visits}
    assert len(begin) == len(web.visits) == 8
    assert begin["/to"] - begin["/from"] >= 6 - TOLERANCE
    assert max(begin[f"/{n}"] for n in range(5)) < begin["/to"]
    assert begin["/from-there"] - begin["/to"] < 5, "links do not inherit it"
    assert (pages()[target].state, pages()[target].attempts) == (State.DONE, 1)


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


def test_a_chain_leads_through_five_hosts(web: Web, run: Callable[..., Crawl], pages: Any) -> None:
    for host in range(5):
        leads(web, "/", web.url("/", host=host + 1), host=host)
    crawl = run(RedirectSpider, start_urls=[web.url("/")])
    assert [visit.host for visit in web.visits] == [0, 1, 2, 3, 4]
    assert refused(crawl) == {"hosts"}
    assert pages()[web.url("/", host=4)].state is State.EXCLUDED


def test_a_chain_is_not_inherited_by_links(web: Web, run: Callable[..., Crawl]) -> None:
    """Spiders that pass on the meta of a page pass on its redirects too."""
    for step in range(6):
        leads(web, f"/{step}", f"/page{step}")
        web.link(f"/page{step}", web.url(f"/{step + 1}"))
    crawl = run(CopyingSpider, {"REDIRECT_MAX_TIMES": 2}, start_urls=[web.url("/0")])
    assert "/page5" in web.paths()
    assert refused(crawl) == set()


class CopyingSpider(RedirectSpider):
    """Passes on all meta."""

    def parse(self, response: Any) -> Iterator[Any]:
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, meta=response.meta)


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
    assert web.paths().count("/self") <= 2  # the cookie of the other page may have come between


STOCK = {"SCHEDULER": "scrapy.core.scheduler.Scheduler"}


class CircleSpider(RedirectSpider):
    custom_settings = None


@pytest.mark.parametrize(
    ("settings", "with_cookie", "most"),
    [(STOCK, 1, 1), ({}, 2, 10), ({"SCHEDULER": None, "ADDONS": ADDONS}, 2, 3)],
    ids=["stock", "scheduler", "add-on"],
)
def test_a_page_that_leads_to_itself_is_asked_again_where_something_changed(
    web: Web, run: Callable[..., Crawl], settings: dict[str, Any], with_cookie: int, most: int
) -> None:
    """Scrapy's own asks none of them again, but for those that the spider insists on."""
    leads(web, "/self", "/self", status=302)
    to_same, to_cookie = ({"Location": path, "Set-Cookie": "seen=yes"} for path in ("/same", "/cookie"))
    web.on("/same", status=302, headers=to_same)
    web.on("/cookie", Answer(302, headers=to_cookie), Answer())
    new = (Answer(302, headers={"Location": "/new", "Set-Cookie": f"n={n}"}) for n in range(99))
    web.on("/new", *new, host=1)
    web.link("/", *(web.url(path) for path in ("/self", "/same", "/cookie")), web.url("/new", 1))
    crawl = run(CircleSpider, settings, start_urls=[web.url("/")])
    assert crawl.reason == "finished"
    asked = {path: web.paths().count(path) for path in ("/same", "/cookie")}
    assert asked == {"/same": with_cookie, "/cookie": with_cookie}
    assert 1 <= web.paths().count("/self") <= with_cookie  # a cookie may have come between
    assert with_cookie <= web.paths().count("/new") <= most
    assert ("/cookie" in called(crawl)) is (with_cookie == 2)


def test_a_page_that_leads_to_itself_later_is_asked_again_then(web: Web, run: Callable[..., Crawl]) -> None:
    web.on("/", Answer(302, headers={"Location": "/", "Retry-After": "1"}), Answer())
    crawl = run(RedirectSpider, start_urls=[web.url("/")])
    assert web.paths() == ["/", "/"]
    assert called(crawl) == {"/"}


def test_addresses_that_grow_end(web: Web, run: Callable[..., Crawl]) -> None:
    for step in range(1, 20):
        leads(web, "/next" * step, "/next" * (step + 1))
    settings = {"FRONTIER_TRAPS": False}
    crawl = run(RedirectSpider, settings, start_urls=[web.url("/next")])
    assert len(web.paths()) < 6
    assert refused(crawl) == {"growing"}


def test_other_schemes_are_not_followed(web: Web, run: Callable[..., Crawl], pages: Any) -> None:
    targets = [
        "file:///etc/passwd",
        "ftp://127.0.0.3/",
        "data:text/html,x",
        "javascript:alert(1)",
        "http://[bad/",
    ]
    urls = [leads(web, f"/{number}", target) for number, target in enumerate(targets)]
    crawl = run(RedirectSpider, start_urls=urls)
    assert sorted(web.paths()) == ["/0", "/1", "/2", "/3", "/4"]
    assert crawl.stats["frontier/redirects/refused/scheme"] == 5
    assert called(crawl) == set()
    kept = [pages()[url] for url in urls]
    assert {each.state for each in kept} == {State.EXCLUDED}
    assert kept[0].reason == "redirect refused: that is no address of http or https (file:///etc/passwd)"


class ErrbackSpider(RedirectSpider):
    """Yields an item for each error."""

    async def start(self) -> AsyncIterator[Request]:
        for url in self.start_urls:
            yield Request(url, errback=self.failed)

    def failed(self, failure: Any) -> Iterator[Any]:
        yield {"path": failure.request.url, "error": type(failure.value).__name__}


def test_what_an_errback_yields_of_a_refused_redirect_is_kept(
    web: Web, items: Callable[..., list[list[Any]]]
) -> None:
    urls = [leads(web, "/elsewhere", "ftp://127.0.0.3/"), leads(web, "/nowhere", "javascript:alert(1)")]
    (found,) = items(ErrbackSpider, [{}], start_urls=urls)
    errors = [{"path": urls[0], "error": "HttpError"}, {"path": urls[1], "error": "IgnoreRequest"}]
    assert sorted(found, key=lambda item: item["error"]) == errors


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


def test_a_name_is_looked_up_before_a_public_page_leads_to_it(
    web: Web, run: Callable[..., Crawl], pages: Any
) -> None:
    """The mark is what a public page leaves."""
    url = web.url("/").replace(web.name(), "localhost")
    crawl = run(RedirectSpider, start_urls=[url], meta={"frontier_from_public": "localhost"})
    assert crawl.stats.get("downloader/request_count", 0) == 0
    assert refused(crawl) == {"private"}
    kept = pages()[url]
    assert kept.state is State.EXCLUDED
    assert kept.reason.startswith("a public page led to it, and its address is private (")


# -- refreshes -------------------------------------------------------------------------------------------


def refresh(content: str, body: str = "") -> str:
    return f'<html><head><meta http-equiv="refresh" content="{content}"></head><body>{body}</body></html>'


LINK = '<a href="/link">.</a>'


def test_a_page_that_refreshes_at_once_leads_on_and_its_links_count(
    web: Web, run: Callable[..., Crawl], pages: Any
) -> None:
    url = web.on("/stub", body=refresh("0; url=/target", LINK))
    for _ in range(2):
        crawl = run(RedirectSpider, start_urls=[url])
        assert crawl.reason == "finished", crawl.log
        assert sorted(web.paths()) == ["/link", "/stub", "/target"]
    kept = pages()
    assert kept[url].state is State.REDIRECTED
    assert kept[url].reason == f"led to {web.url('/target')}"
    assert kept[url].target is not None
    assert kept[web.url("/target")].state is State.DONE


def test_items_of_a_page_that_refreshes_at_once_are_not_kept(web: Web, run: Callable[..., Crawl]) -> None:
    url = web.on("/stub", body=refresh("1; url=/target"))
    crawl = run(RedirectSpider, start_urls=[url])
    assert called(crawl) == {"/stub", "/target"}
    assert crawl.stats["item_scraped_count"] == 1
    assert crawl.stats["frontier/redirects/items"] == 1


def test_a_later_refresh_is_a_link(web: Web, run: Callable[..., Crawl], pages: Any) -> None:
    header = {"Refresh": "7;url=/from-header"}
    urls = [
        web.on("/meta", body=refresh("5;URL='/from-meta'", LINK)),
        web.on("/header", headers=header, body=LINK),
        web.on("/text", headers={**header, "Content-Type": "text/plain"}),
        web.on("/reload", body=refresh("60")),
        web.on("/self", body=refresh("60;url=/self")),
        web.on("/never", body=refresh("3600;url=/late")),
    ]
    crawl = run(RedirectSpider, start_urls=urls)
    targets = ["/from-header", "/from-meta", "/link"]
    assert sorted(web.paths()) == sorted(
        ["/meta", "/header", "/text", "/reload", "/self", "/never", *targets]
    )
    assert crawl.stats["item_scraped_count"] == 9
    assert crawl.stats["frontier/redirects/refresh"] == 3
    kept = pages()
    assert kept[urls[0]].state is State.DONE
    assert kept[urls[0]].reason == f"refreshes to {web.url('/from-meta')}"
    assert kept[urls[0]].target is not None


@pytest.mark.parametrize(
    "target",
    ["mailto:a@b.example", "javascript:history.back()", "http://[bad", "http://127.0.0.1:port/", "//"],
)
def test_a_page_that_refreshes_to_no_page_goes_to_its_callback(
    web: Web, run: Callable[..., Crawl], pages: Any, target: str
) -> None:
    url = web.on("/stub", body=refresh(f"0; url={target}", LINK))
    crawl = run(RedirectSpider, start_urls=[url])
    assert crawl.reason == "finished", crawl.log
    assert "Traceback" not in crawl.log
    assert called(crawl) == {"/stub", "/link"}
    assert pages()[url].state is State.DONE
    assert "no address of http or https" in pages()[url].reason


def test_the_target_of_a_refresh_survives_a_callback_that_raises(web: Web, run: Callable[..., Crawl]) -> None:
    url = web.on("/stub", body=refresh("0; url=/target"))
    crawl = run(RaisingSpider, start_urls=[url])
    assert web.paths() == ["/stub", "/target"]
    assert crawl.stats["finish_reason"] == "finished"


class RaisingSpider(RedirectSpider):
    """Does not know what to make of a stub."""

    def parse(self, response: Any) -> Any:
        if response.url.endswith("/stub"):
            raise ValueError("no title")


class AnchorSpider(Spider):
    """Follows what LinkExtractor finds."""

    name = "anchors"
    custom_settings = {"ADDONS": ADDONS}

    def parse(self, response: Any) -> Iterator[Request]:
        for link in LinkExtractor().extract_links(response):
            yield Request(link.url)


@pytest.mark.parametrize(
    ("encoding", "target"),
    [
        ("iso-8859-1", "/caf\u00e9?q=caf\u00e9&r=%E9"),
        ("windows-1251", "/?\u0436=\u0436"),
        ("shift_jis", "/?q=\u65e5\u6708"),
        ("utf-8", "/\u65e5?q=\u65e5"),
    ],
)
def test_a_refresh_and_a_canonical_lead_where_the_link_leads(
    web: Web, run: Callable[..., Crawl], pages: Any, encoding: str, target: str
) -> None:
    """The query in the encoding of the page: with UTF-8 another page is asked for, or the same one twice."""
    shown = target.replace("&", "&amp;")
    heads = refresh(f"0;url={shown}"), f'<link rel="canonical" href="{shown}">'
    for number, head in enumerate(heads):
        text = f'<meta charset="{encoding}">{head}<a href="{shown}">.</a>'
        web.on(f"/{number}", body=text.encode(encoding))
    run(AnchorSpider, {"FRONTIER_LINKS": "all"}, start_urls=[web.url("/0"), web.url("/1")])
    assert len(web.paths()) == len(set(web.paths())) == len(pages()) == 3
    (asked,) = set(web.paths()) - {"/0", "/1"}
    reasons = {page.reason for page in pages().values()}
    assert reasons >= {f"led to {web.url(asked)}", f"alias of {web.url(asked)}"}


def test_refreshes_are_limited_like_redirects(web: Web, run: Callable[..., Crawl]) -> None:
    for step in range(12):
        web.on(f"/{step}", body=refresh(f"0;url=/{step + 1}"))
    web.on("/file", body=refresh("0;url=file:///etc/passwd"))
    settings = {"REDIRECT_MAX_TIMES": 5}
    crawl = run(RedirectSpider, settings, start_urls=[web.url("/0"), web.url("/file")])
    assert sorted(web.paths()) == sorted([*(f"/{step}" for step in range(6)), "/file"])
    assert refused(crawl) == {"chain", "scheme"}
    assert "/5" in called(crawl)


def test_a_page_that_refreshes_into_a_trap_is_no_less_a_page(
    web: Web, run: Callable[..., Crawl], pages: Any
) -> None:
    urls = [web.on(f"/{after}", body=refresh(f"{after}; url=/a/a/a", LINK)) for after in (0, 5)]
    crawl = run(RedirectSpider, start_urls=urls)
    assert sorted(web.paths()) == ["/0", "/5", "/link"]
    assert crawl.stats["item_scraped_count"] == 3
    assert crawl.stats["frontier/traps/repeated_segments"] == 2
    for url in urls:
        kept = pages()[url]
        refused = f"redirect refused: its path repeats itself ({web.url('/a/a/a')})"
        assert (kept.state, kept.reason) == (State.DONE, refused)


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


def test_credentials_stay_with_their_origin(web: Web, run: Callable[..., Crawl]) -> None:
    leads(web, "/same", "/end")
    leads(web, "/other", web.url("/end", host=1))
    with_user = web.url("/user", host=1).replace("http://", "http://me:secret@")
    leads(web, "/user", with_user)
    headers = {"Authorization": "Basic bWU6c2VjcmV0", "Cookie": "session=1"}
    urls = [web.url("/same"), web.url("/other"), web.url("/user")]
    run(RedirectSpider, {"COOKIES_ENABLED": False}, start_urls=urls, headers=headers)
    seen = {(visit.host, visit.path): visit for visit in web.visits}
    assert len(seen) == 6
    assert seen[0, "/end"].headers["authorization"] == headers["Authorization"].lower()
    for path in ("/end", "/user"):
        assert "authorization" not in seen[1, path].headers
        assert "cookie" not in seen[1, path].headers


# -- requests beside the scheduler ---------------------------------------------------------------------------


class InlineSpider(RedirectSpider):
    """Downloads a page itself, in a callback."""

    async def parse(self, response: Any) -> Any:  # type: ignore[override]
        found = await self.crawler.engine.download_async(Request(self.url))  # type: ignore[union-attr]
        yield {"path": found.url}
        self.crawler.stats.inc_value(f"test/inline/{found.url.rpartition('/')[2]}")  # type: ignore[union-attr]

    url: str


@pytest.mark.parametrize("path", ["/stub", "/from"])
def test_inline_requests_are_led_on_as_ever(web: Web, run: Callable[..., Crawl], path: str) -> None:
    web.on("/stub", body=refresh("0; url=/target"))
    leads(web, "/from", "/target")
    crawl = run(InlineSpider, start_urls=[web.url("/")], url=web.url(path))
    assert web.paths() == ["/", path, "/target"]
    assert crawl.stats["test/inline/target"] == 1
    assert crawl.stats["item_scraped_count"] == 1


class TokenMiddleware:
    """Puts into requests what is for one visit."""

    def process_request(self, request: Request) -> None:
        request.headers["X-Token"] = request.meta["token"] = request.url


class OwnMetaSpider(RedirectSpider):
    """Has a header and a meta key of its own."""

    async def start(self) -> Any:
        for url in self.start_urls:
            yield Request(url, headers={"X-Own": "1"}, meta={"own": 2})


@pytest.mark.parametrize("leads", [refresh("5;url=/to"), '<link rel="canonical" href="/to">'])
def test_a_refresh_and_a_canonical_take_along_what_the_spider_said_and_not_what_middlewares_did(
    web: Web, run: Callable[..., Crawl], pages: Any, leads: str
) -> None:
    target = web.url("/to")
    web.on("/", body=leads)
    settings = {"DOWNLOADER_MIDDLEWARES": {"test_redirects.TokenMiddleware": 610}}
    run(OwnMetaSpider, settings, start_urls=[web.url("/")])
    assert (web.visits[1].lines["x-own"], web.visits[1].lines["x-token"]) == ("1", target)
    fields = json.loads(pages()[target].payload)
    assert sorted(fields["headers"]) == ["Referer", "X-Own"]
    assert fields["meta"]["own"] == 2
    assert fields["meta"].keys().isdisjoint(("token", "download_latency", "download_slot"))


class SignedRequest(Request):
    """Signs its URL whenever it is made."""

    def __init__(self, url: str, *given: Any, **named: Any) -> None:
        super().__init__(f"{url}?key=1", *given, **named)


def test_what_middlewares_put_into_a_request_is_not_handed_on_and_what_led_on_is() -> None:
    vector, other = numpy.array([1, 2]), numpy.array([1, 2])
    source = Request("http://a.example/", headers={"Own": "1", "Token": "2"}, meta={"own": 2, "gone": 1})
    sent = source.replace(
        headers={"Own": "3", "Agent": "4"}, meta={"own": 2, "vector": vector, "made": [other]}
    )
    target = sent.replace(url="http://a.example/b", meta={**sent.meta, "made": [vector], "step": 1})
    found = as_yielded(target, sent, source)
    assert found.meta == {"own": 2, "made": [vector], "step": 1}
    assert found.headers == {b"Own": [b"1"]}
    assert found.url == target.url
    assert target.meta["vector"] is vector


class PeculiarRequest(Request):
    """Shows what is in its meta, and is neither made nor pickled as others are."""

    def __new__(cls, url: str, *given: Any, **named: Any) -> PeculiarRequest:
        return super().__new__(cls)

    def __getattr__(self, name: str) -> Any:
        if name in self.meta:
            return self.meta[name]
        raise AttributeError(name)

    def __getstate__(self) -> dict[str, Any]:
        return {}


class PeculiarSpider(RedirectSpider):
    async def start(self) -> Any:
        for url in self.start_urls:
            yield PeculiarRequest(url, meta={"own": 2})


@pytest.mark.parametrize("delay", [None, 5], ids=["redirect", "refresh"])
def test_a_request_of_any_class_is_led_on(web: Web, run: Callable[..., Crawl], delay: int | None) -> None:
    if delay is None:
        leads(web, "/", "/to")
    else:
        web.on("/", body=refresh(f"{delay};url=/to"))
    crawl = run(PeculiarSpider, start_urls=[web.url("/")])
    assert web.paths() == ["/", "/to"]
    assert called(crawl) == ({"/to"} if delay is None else {"/", "/to"})


class SignedSpider(RedirectSpider):
    """Has its seeds go by a proxy with a password where there is one."""

    proxy = ""

    async def start(self) -> Any:
        for url in self.start_urls:
            yield SignedRequest(url, meta={"proxy": self.proxy} if self.proxy else {})


def test_no_constructor_has_its_way_twice_with_the_target_of_a_refresh(
    web: Web, run: Callable[..., Crawl]
) -> None:
    web.on("/?key=1", body=refresh("5;url=/to"))
    run(SignedSpider, start_urls=[web.url("/")])
    assert web.paths() == ["/?key=1", "/to?key=1"]


def test_where_a_page_refreshes_to_goes_by_its_proxy_with_the_password(
    web: Web, run: Callable[..., Crawl]
) -> None:
    site = "http://site.invalid"
    web.on(f"{site}/?key=1", body=refresh("5;url=/to"))
    proxy = web.url("").replace("//", "//user:word@")
    run(SignedSpider, start_urls=[f"{site}/"], proxy=proxy)
    assert web.paths() == [f"{site}/?key=1", f"{site}/to?key=1"]
    assert {visit.lines.get("proxy-authorization") for visit in web.visits} == {"Basic dXNlcjp3b3Jk"}
