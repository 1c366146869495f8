"""The project's own ``REQUEST_FINGERPRINTER_CLASS``, where it wants what only the spider's requests have."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.utils.request import fingerprint as scrapy_fingerprint

from scrapy_frontier.core.store.keys import State
from scrapy_frontier.crawl.fingerprints import Identities

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from conftest import Crawl
    from scrapy.http import Response
    from server import Web

    from scrapy_frontier.core.store.records import Page

URL = "http://example.com/"


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
