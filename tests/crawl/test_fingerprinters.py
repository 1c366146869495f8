"""Fingerprints of plain URLs beside Scrapy's, and a ``REQUEST_FINGERPRINTER_CLASS`` of the project's."""

from __future__ import annotations

import inspect
import string
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.spidermiddlewares.referer import RefererMiddleware
from scrapy.utils.request import RequestFingerprinter
from scrapy.utils.request import fingerprint as scrapy_fingerprint

from scrapy_frontier.core.parse.urls import origin_of, origin_text
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.crawl.callback_requests import PageRequests, RequestPath
from scrapy_frontier.crawl.fingerprints import Identities, is_same_page, page_fingerprint, plain_fingerprint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from conftest import Crawl
    from server import Web

    from scrapy_frontier.core.store.records import Page

URL = "http://example.com/"
EXAMPLES = settings().max_examples


class ByNumber:
    """Pages are told apart by a number that the spider's requests have."""

    def fingerprint(self, request: Request) -> bytes:
        return f"{request.url} {request.meta['number']}".encode()


class ByPath:
    def fingerprint(self, request: Request) -> bytes:
        return request.url.partition("//")[2].encode()


def test_the_scheme_is_as_ever_where_nothing_is_raised() -> None:
    """It stands in the frontiers that there are."""
    assert Identities(ByPath()).scheme == f"{__name__}.ByPath 34894043abc3"


class ByCallback:
    """What the callback asks for is part of the page; without one the spider's ``parse`` is meant."""

    def __init__(self, parse: Callable[..., Any]) -> None:
        self.parse = parse

    def fingerprint(self, request: Request) -> bytes:
        asked = inspect.get_annotations(request.callback or self.parse).keys() - {"args", "kwargs", "return"}
        return f"{request.url} {sorted(asked)}".encode()


def test_the_scheme_does_not_depend_on_what_a_callback_asks_for() -> None:
    """Else a crawl could not go on once the spider was changed."""

    def parse(response: Response) -> None:
        """Of today."""

    def another(response: Response, page: Page) -> None:
        """Of tomorrow."""

    today, tomorrow = Identities(ByCallback(parse)), Identities(ByCallback(another))
    assert today.scheme == tomorrow.scheme
    assert today.of(Request(URL)) != tomorrow.of(Request(URL))


def test_where_a_fingerprinter_raises_scrapys_stands_in(caplog: pytest.LogCaptureFixture) -> None:
    identities = Identities(ByNumber())
    assert identities.scheme == Identities(ByNumber()).scheme
    assert caplog.records == [], "nobody's request so far"
    assert identities.of(Request(URL, meta={"number": 7})) == f"{URL} 7".encode()
    for path in ("a", "b"):
        assert identities.of(Request(URL + path)) == scrapy_fingerprint(Request(URL + path))
    (record,) = caplog.records
    assert record.getMessage().startswith(
        f"REQUEST_FINGERPRINTER_CLASS ({__name__}.ByNumber) raised KeyError: 'number' for <GET {URL}a>"
    )


class NumberSpider(Spider):
    """Numbers its requests, but forgets to once."""

    name = "number"
    url = ""

    async def start(self) -> AsyncIterator[Request]:
        for number in range(2):
            yield Request(self.url, meta={"number": number})

    def parse(self, response: Response) -> Iterator[Request]:
        if not response.meta.get("number"):
            yield response.follow("/a", meta={"number": 2})
            yield response.follow("/forgotten")


@pytest.mark.parametrize("addons", [{}, {"ADDONS": {"scrapy_frontier.Addon": 500}, "FRONTIER_LINKS": "all"}])
def test_no_page_is_lost_where_a_fingerprinter_raises(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]], addons: dict[str, Any]
) -> None:
    url = web.link("/", "/a", "/anchor")
    settings = {**addons, "REQUEST_FINGERPRINTER_CLASS": f"{__name__}.ByNumber"}
    crawl = run(NumberSpider, settings, url=url)
    assert crawl.reason == "finished"
    assert "frontier/errors" not in crawl.stats
    assert sorted(web.paths()) == ["/", "/", "/a", "/forgotten"]
    assert {page.state for page in pages().values()} <= {State.DONE, State.SEEN}
    assert crawl.log.count("REQUEST_FINGERPRINTER_CLASS (") == 1


# -- fingerprints ---------------------------------------------------------------------------------------

FINGERPRINTER = RequestFingerprinter()

LABELS = st.one_of(
    st.sampled_from(["example", "a", "a-b", "-a", "a-", "xn--mnchen-3ya", "xn--", "UPPER", "1", "a_b", ""]),
    st.sampled_from(["a" * 63, "a" * 64, "m\u00fcnchen", "\u4e2d", "stra\u00dfe", "\u0130", "%41"]),
    st.text(string.ascii_lowercase + string.digits + "-", max_size=4),
)
PORTS = st.sampled_from(["", "", ":", ":80", ":443", ":0080", ":8080", ":0", ":99999", ":x"])
SEGMENTS = st.sampled_from(
    ["", "a", "B", "..", ".", "...", "~", "%7E", "%2F", "%zz", "a b", "+", "a;p=1", ";", "\u00e4", "i.html"]
)
WORDS = st.sampled_from(
    ["", "a", "b", "B", "1", "10", "a.b", "~", "%20", "+", "\u00e4", ";", "=", "%26", "a;b"]
)
PAIRS = st.one_of(
    st.tuples(WORDS, WORDS).map("=".join), WORDS, st.text(string.ascii_letters + "=.&;", max_size=5)
)
COMMON = st.from_regex(r"https?://[a-z0-9.-]{1,8}(:[0-9]+)?(/[a-z./~;]*)?(\?[ab=&.;]*)?(#a)?", fullmatch=True)


@st.composite
def urls(draw: st.DrawFn) -> str:
    scheme = draw(st.sampled_from(["http", "https", "HTTP", "ftp"]))
    user = draw(st.sampled_from(["", "", "", "user@", "user:pass@"]))
    host = ".".join(draw(st.lists(LABELS, min_size=1, max_size=3)))
    path = draw(st.sampled_from(["", "/"])) + "/".join(draw(st.lists(SEGMENTS, max_size=4)))
    query = draw(st.sampled_from(["", "?"])) and "?" + "&".join(draw(st.lists(PAIRS, max_size=4)))
    fragment = draw(st.sampled_from(["", "#", "#a", "#!a", "#a?b#c", "#\u00e4"]))
    return f"{scheme}://{user}{host}{draw(PORTS)}{path}{query}{fragment}"


@given(urls() | COMMON, urls() | COMMON)
@example("http://h:80/a", "http://h/b")
@example("https://h:443/a", "https://h/b")
@example("https://h/a", "http://h/b")
@example("http://h/a", "ftp://h/b")
def test_a_request_gets_the_referer_that_its_origin_does(page: str, link: str) -> None:
    for policy in ("scrapy-default", "no-referrer-when-downgrade", "strict-origin-when-cross-origin"):
        told = Settings({"REFERRER_POLICY": policy})
        asked = RefererMiddleware(told)
        path = RequestPath(Crawler(Spider, told), "")
        path.middlewares = [asked]
        try:
            request = Request(link)
            response = Response(page, request=Request(page))
            wanted = asked.policy(response, request).referrer(page, request.url)
        except ValueError:  # a port that is none
            continue
        assume(origin_text(page) == origin_text(request.url) or origin_of(page) != origin_of(request.url))
        found = PageRequests(path, response).finish(request)
        assert found is request
        assert found.headers.get("Referer") == (None if wanted is None else wanted.encode())


@given(urls() | COMMON)
@settings(max_examples=10 * EXAMPLES)
def test_plain_fingerprint_is_that_of_scrapy(url: str) -> None:
    """Wherever it answers; and it has to be asked for requests only, whose URLs are clean."""
    try:
        request = Request(url)
    except ValueError:
        assume(False)
    fast = plain_fingerprint(request.url)
    assert fast is None or fast == FINGERPRINTER.fingerprint(request)
    assert page_fingerprint(url) == FINGERPRINTER.fingerprint(request)
    assert is_same_page(url, request.url)
