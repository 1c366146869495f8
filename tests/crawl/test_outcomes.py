"""Every way a request can end leaves its page in the right state: one crawl, the scheduler alone."""

from __future__ import annotations

import socket
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from conftest import SETTINGS, Crawl, read_pages
from scrapy import Request, Spider
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Response
from server import Answer, Web

from scrapy_frontier.core import reasons
from scrapy_frontier.core.reasons import codes_in
from scrapy_frontier.core.store.keys import State

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy_frontier.core.store.records import Page


class MeddlingMiddleware:
    """Does what a page's ``meddle`` says."""

    def process_request(self, request: Request) -> Request | Response | None:
        meddle = request.meta.get("meddle")
        if meddle == "ignore":
            raise IgnoreRequest("not today")
        if meddle == "respond":
            return HtmlResponse(request.url, body=b"cached", request=request)
        if meddle == "replace":
            return request.replace(url=request.meta["instead"], meta={"name": "instead"})
        if meddle == "raise before":
            raise ZeroDivisionError("before")
        return None

    def process_response(self, request: Request, response: Response) -> Response:
        meddle = request.meta.get("meddle")
        if meddle == "ignore response":
            raise IgnoreRequest("bad taste")
        if meddle == "raise after":
            raise ZeroDivisionError("after")
        return response


class OutcomeSpider(Spider):
    """Asks for *pages*: name -> URL and meta; says in the stats which callbacks and errbacks ran."""

    name = "outcomes"
    allowed_domains = [f"127.0.0.{number}" for number in range(2, 8)] + ["no-such-host.invalid"]
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {MeddlingMiddleware: 545}}
    pages: dict[str, dict[str, Any]]

    async def start(self) -> AsyncIterator[Request]:
        for name, page in self.pages.items():
            meta = {"name": name, **page.get("meta", {})}
            yield Request(page["url"], self.parse, meta=meta, errback=self.failed, dont_filter=False)

    def count(self, what: str, request: Request) -> None:
        assert self.crawler.stats
        self.crawler.stats.inc_value(f"test/{what}/{request.meta['name']}")

    def parse(self, response: Response) -> Any:
        request = response.request
        assert request
        self.count("callback", request)
        todo = request.meta.get("todo")
        if todo == "raise":
            raise ValueError("what is this?")
        if todo == "raise later":
            return self.links_then_error(response)
        if todo == "retry" and response.text == "come back":
            return get_retry_request(request, spider=self, reason="asked to come back")
        if todo == "offsite":
            return Request("http://127.0.0.99/")
        return None

    def links_then_error(self, response: Response) -> Iterator[Request]:
        yield Request(response.urljoin("/before-error"), meta={"name": "before error"})
        raise ValueError("half way")

    def failed(self, failure: Any) -> None:
        self.count("errback", failure.request)


def all_pages(web: Web, refused: str) -> dict[str, dict[str, Any]]:
    def page(url: str, **meta: Any) -> dict[str, Any]:
        return {"url": url, "meta": meta}

    bad, good = Answer(status=500), Answer(body="good")
    to_cookie = {"Location": "/cookie", "Set-Cookie": "seen=yes"}
    for path, target in {"/loop1": "/loop2", "/loop2": "/loop1", "/self": "/self"}.items():
        web.on(path, status=302, headers={"Location": target})
    for step in range(9):
        web.on(f"/chain{step}", status=301, headers={"Location": f"/chain{step + 1}"})
    refresh = '<html><head><meta http-equiv="refresh" content="0; url=/refreshed"></head></html>'
    other_host = web.url("/other-host-target", host=1)
    return {
        "ok": page(web.url("/ok")),
        "allowed 404": page(web.on("/allowed", status=404), handle_httpstatus_list=[404]),
        "404": page(web.on("/404", status=404)),
        "410": page(web.on("/410", status=410)),
        "403": page(web.on("/403", status=403)),
        "500": page(web.on("/500", bad)),
        "500 once": page(web.on("/500-once", bad, good)),
        "redirect": page(web.on("/from", status=302, headers={"Location": "/to"})),
        "redirect to other host": page(web.on("/far", status=302, headers={"Location": other_host})),
        "redirect to known": page(web.on("/to-ok", status=302, headers={"Location": "/ok"})),
        "redirect to itself": page(web.on("/cookie", Answer(302, headers=to_cookie), good)),
        "redirect to itself for ever": page(web.url("/self")),
        "redirect loop": page(web.url("/loop1")),
        "redirect chain": page(web.url("/chain0")),
        "redirect offsite": page(web.on("/off", status=302, headers={"Location": "http://127.0.0.98/"})),
        "meta refresh": page(web.on("/refresh", body=refresh)),
        "timeout": page(web.on("/slow", delay=300), download_timeout=2, dont_retry=True),
        "refused": page(refused),
        "refused, no retry": page(refused + "once", dont_retry=True),
        "dropped": page(web.on("/dropped", drop=True)),
        "garbage": page(web.on("/garbage", raw=b"\0\1\2 what?\r\n\r\n"), dont_retry=True),
        "cut short": page(
            web.on("/short", raw=b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nonly this"), dont_retry=True
        ),
        "no such host": page("http://no-such-host.invalid/", dont_retry=True),
        "ignored": page(web.url("/ignored"), meddle="ignore"),
        "cached": page(web.url("/cached"), meddle="respond"),
        "replaced": page(web.url("/replaced"), meddle="replace", instead=web.url("/instead")),
        "raise before": page(web.url("/raise-before"), meddle="raise before"),
        "raise after": page(web.url("/raise-after"), meddle="raise after"),
        "ignored response": page(web.url("/ignored-response"), meddle="ignore response"),
        "callback raises": page(web.url("/raises"), todo="raise"),
        "callback raises later": page(web.url("/raises-later"), todo="raise later"),
        "callback retries": page(web.on("/retry", Answer(body="come back"), good), todo="retry"),
        "links offsite": page(web.url("/links-offsite"), todo="offsite"),
    }


class Story:
    """What one crawl of all pages left behind."""

    def __init__(self, web: Web, directory: Any) -> None:
        self.web = web
        with socket.socket() as taken:  # and nobody listens
            taken.bind(("127.0.0.7", 0))
            self.asked = all_pages(web, f"http://127.0.0.7:{taken.getsockname()[1]}/")
            self.crawl = Crawl(OutcomeSpider, directory, self.settings(directory), pages=self.asked).wait()
        self.pages = read_pages(directory / "frontier")

    def settings(self, directory: Any) -> dict[str, Any]:
        return {
            **SETTINGS,
            "FRONTIER_DIR": str(directory / "frontier"),
            "RETRY_TIMES": 2,
            "REDIRECT_MAX_TIMES": 5,
        }

    def page(self, name: str) -> Page:
        return self.pages[self.asked[name]["url"]]

    def at(self, path: str, host: int = 0) -> Page:
        return self.pages[self.web.url(path, host)]

    def visits(self, path: str, host: int = 0) -> int:
        return self.web.paths(host).count(path)

    def called(self, what: str, name: str) -> int:
        return int(self.crawl.stats.get(f"test/{what}/{name}", 0))


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    web = Web(hosts=2)
    yield Story(web, tmp_path_factory.mktemp("outcomes"))
    web.close()


class Expected(NamedTuple):
    """How a page ends: state, status, part of its reason, attempts, requests at the server, and which of
    callback and errback ran. None: any."""

    state: State
    status: int | None = None
    reason: str = ""
    attempts: int | None = 1
    visits: int | None = None
    called: str | None = None


DONE, GONE, FAILED = State.DONE, State.GONE, State.FAILED
REDIRECTED, EXCLUDED = State.REDIRECTED, State.EXCLUDED
EXPECTED = {
    "ok": Expected(DONE, 200, visits=1, called="callback"),
    "allowed 404": Expected(GONE, 404, "404", called="callback"),
    "404": Expected(GONE, 404, "404", visits=1, called="errback"),
    "410": Expected(GONE, 410, "410", called="errback"),
    "403": Expected(FAILED, 403, "403", called="errback"),
    "500": Expected(FAILED, 500, "500", attempts=3, visits=3, called="errback"),
    "500 once": Expected(DONE, 200, attempts=2, visits=2, called="callback"),
    "redirect": Expected(REDIRECTED, None, "/to", called="callback"),
    "redirect to other host": Expected(REDIRECTED, None, "/other-host-target"),
    "redirect to known": Expected(REDIRECTED, None, "/ok"),
    "redirect to itself": Expected(DONE, 200, attempts=2, visits=2),
    "redirect to itself for ever": Expected(EXCLUDED, None, "redirect refused", attempts=None),
    "redirect loop": Expected(REDIRECTED, None, "/loop2", visits=1),
    "redirect chain": Expected(REDIRECTED, None, "/chain1"),
    "redirect offsite": Expected(REDIRECTED),
    "meta refresh": Expected(REDIRECTED, None, "/refreshed"),
    "timeout": Expected(FAILED, 0, "Timeout", visits=1, called="errback"),
    "refused": Expected(FAILED, 0, "Refused", attempts=3, called="errback"),
    "refused, no retry": Expected(FAILED, 0, "Refused"),
    "dropped": Expected(FAILED, 0, attempts=3, called="errback"),
    "garbage": Expected(FAILED, 0, called="errback"),
    "cut short": Expected(FAILED, 0),
    "no such host": Expected(FAILED, 0),
    "ignored": Expected(EXCLUDED, 0, "not today", visits=0, called="errback"),
    "cached": Expected(DONE, 200, visits=0, called="callback"),
    "replaced": Expected(REDIRECTED, None, "/instead", visits=0),
    "raise before": Expected(FAILED, 0, "ZeroDivisionError: before", visits=0),
    "raise after": Expected(FAILED, None, "ZeroDivisionError: after", called="errback"),
    "ignored response": Expected(EXCLUDED, None, "bad taste"),
    "callback raises": Expected(FAILED, 200, "ValueError: what is this?"),
    "callback raises later": Expected(FAILED, 200, "ValueError: half way"),
    "callback retries": Expected(DONE, 200, attempts=2, visits=2),
    "links offsite": Expected(DONE, 200),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_page_ends_as_it_must(story: Story, name: str) -> None:
    expected, page = EXPECTED[name], story.page(name)
    assert page.state is expected.state
    assert expected.reason in page.reason
    assert expected.status in (None, page.status)
    assert expected.attempts in (None, page.attempts)
    assert expected.visits in (None, story.visits(urlsplit(page.url).path))
    if expected.called is not None:
        calls = {what: story.called(what, name) for what in ("callback", "errback")}
        assert calls == {"callback": 0, "errback": 0, expected.called: 1}


def test_the_crawl_ends_by_itself_and_counts_all(story: Story) -> None:
    stats = story.crawl.stats
    assert story.crawl.process.returncode == 0
    assert (story.crawl.reason, stats["frontier/pending"]) == ("finished", 0)
    assert "frontier/errors" not in stats
    states = [page.state for page in story.pages.values()]
    assert State.QUEUED not in states
    for state in set(State) - {State.LEASED}:
        assert stats[f"frontier/pages/{state.name.lower()}"] == states.count(state)
    begin = "frontier/reasons/"
    counted = {name.removeprefix(begin): n for name, n in stats.items() if name.startswith(begin)}
    last = Counter(code for page in story.pages.values() if page.reason for code in codes_in(page.reason))
    del last[reasons.ATTEMPTS_USED_UP.code]  # of a page that was to be retried
    assert {code: min(counted[code], times) for code, times in last.items()} == last
    assert counted[reasons.RETRIED.code] > 1


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("redirect", "/to"),
        ("redirect to known", "/ok"),
        ("redirect chain", "/chain1"),
        ("meta refresh", "/refreshed"),
        ("replaced", "/instead"),
    ],
)
def test_redirect_knows_its_target(story: Story, source: str, target: str) -> None:
    names = list(story.pages)  # in order of page ids
    page = story.page(source)
    assert page.target is not None
    assert names[page.target] == story.web.url(target)
    assert story.at(target).state is (State.REDIRECTED if "chain" in target else State.DONE)
    assert story.visits(target) == 1


def test_chains_and_loops_end_and_cookies_come_back(story: Story) -> None:
    assert story.at("/other-host-target", host=1).state is State.DONE
    assert [visit.cookie for visit in story.web.visits if visit.path == "/cookie"] == ["", "seen=yes"]
    assert story.at("/loop2").state is State.REDIRECTED
    assert story.visits("/self") <= 3
    last = story.at("/chain5")
    assert last.state in (State.FAILED, State.EXCLUDED)
    assert "redirect" in last.reason
    assert (story.visits("/chain5"), story.visits("/chain6")) == (1, 0)
    assert not [url for url in story.pages if "127.0.0.9" in url]
    assert story.crawl.stats["offsite/filtered"] >= 1
    assert story.visits("/before-error") == 1, "a link before the error of its callback"
