"""While a page with very many links is worked on, everybody else gets turns of the event loop."""

from __future__ import annotations

import asyncio
import time
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.settings import Settings

from scrapy_frontier import FrontierSpiderMiddleware
from scrapy_frontier.crawl import callback_requests, scrapy_internals
from scrapy_frontier.crawl.directive_rules import DirectiveRules
from scrapy_frontier.crawl.link_extractor import PageReader, has_huge_tag, tree_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

URL = "http://a.example/"
LINKS = 6_000


def a_crawler() -> Crawler:
    return Crawler(Spider, Settings())


def page(more: str = "") -> HtmlResponse:
    anchors = "".join(f'<a href="/{number}">.</a>' for number in range(LINKS))
    return HtmlResponse(URL, request=Request(URL), body=f"{anchors}{more}".encode())


async def follow(response: HtmlResponse) -> AsyncIterator[Request]:
    for number in range(LINKS):
        yield Request(response.urljoin(f"/{number}"))


def turns_while(work: Any, seconds: float = 0.0) -> int:
    """Turns of the event loop, of so many *seconds* each, that somebody else had while *work* was done."""

    async def run() -> int:
        turns = 0

        async def somebody_else() -> None:
            nonlocal turns
            while True:
                turns += 1
                end = time.thread_time() + seconds
                while time.thread_time() < end:
                    pass
                await asyncio.sleep(0)

        other = asyncio.ensure_future(somebody_else())
        await work()
        other.cancel()
        return turns

    return asyncio.run(run())


def test_a_page_with_many_links_gives_way() -> None:
    middleware = FrontierSpiderMiddleware.from_crawler(a_crawler())

    async def work() -> None:
        response = page()
        links = [each async for each in middleware.process_spider_output(response, follow(response))]
        assert len(links) == LINKS

    assert turns_while(work) >= 10


def test_a_usual_page_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty links of 0.1 ms: every turn costs."""
    ticks = count()
    monkeypatch.setattr(callback_requests, "perf_counter", lambda: next(ticks) * 0.0001)
    middleware = FrontierSpiderMiddleware.from_crawler(a_crawler())

    async def fifty(response: HtmlResponse) -> AsyncIterator[Request]:
        for number in range(50):
            yield Request(response.urljoin(f"/{number}"))

    async def work() -> None:
        response = HtmlResponse(URL, request=Request(URL), body=b"<a href='/1'>.</a>")
        found = middleware.process_spider_output(response, fifty(response))
        assert len([each async for each in found]) == 50

    assert turns_while(work) == 0


def refused_by(response: HtmlResponse) -> tuple[int, frozenset[bytes]]:
    """How often looking for links with nofollow gave way, and what it found."""
    found: list[frozenset[bytes]] = []

    def to_the_end() -> Iterator[None]:
        found.append((yield from DirectiveRules(a_crawler()).nofollow_only(response)))

    return sum(1 for _ in to_the_end()), found[0]


def test_looking_for_nofollow_gives_way() -> None:
    """Every link is looked at before the first is known to be followed without."""
    times, refused = refused_by(page('<a rel="nofollow" href="/7">.</a><a rel="nofollow" href="/lone">.</a>'))
    assert times >= 2 * LINKS
    assert len(refused) == 1  # /7 is linked without, too


def test_a_link_of_a_megabyte_is_nobody() -> None:
    """It is a trap by its length: nobody needs to know whose page it would be."""
    long = f'<a rel="nofollow" href="/{"x" * 1_000_000}">.</a>'
    assert len(refused_by(page(f'{long}<a rel="nofollow" href="/lone">.</a>'))[1]) == 1


NEVER = LinkExtractor(allow="/never/")


@pytest.mark.parametrize(
    ("extractor", "link"),
    [
        (LinkExtractor(), '<a href="javascript:{}">x</a>'),
        (LinkExtractor(), '<a href="mailto:\u00e9 {}@x">x</a>'),
        (LinkExtractor(), '<a href="/p/{}.pdf">x</a>'),
        (LinkExtractor(), "<a>{}"),
        (NEVER, '<a href="/p/{}">x</a>'),
        (NEVER, '<a href="/p \u00e9/{}?a=b c">x</a>'),
        (NEVER, '<a href="http://b\u00fccher{}.example/\u00fc">x</a>'),
        (NEVER, '<a href="/{}' + "\u00e9" * 9_000 + '">x</a>'),
        (NEVER, '<a href="http://{}' + "1." * 100_000 + '">x</a>'),
    ],
)
def test_links_that_lead_nowhere_or_are_refused_give_way(extractor: LinkExtractor, link: str) -> None:
    links = (link.format(number) for number in range(1_000_000 // len(link)))
    response = HtmlResponse(URL, body="<html>" + "".join(links), encoding="utf-8")
    tree_of(response)
    steps = PageReader(extractor).read(response, 2083)
    gaps = [0.0]
    begin = time.thread_time()
    for found in steps:
        assert found is None
        now = time.thread_time()
        gaps.append(now - begin)
        begin = now
    assert sorted(gaps)[-2] < 0.02  # Python's garbage collector may take its time once


@pytest.mark.parametrize(
    ("body", "is_huge"),
    [
        (b"<a" + b"".join(b" a%d=1" % number for number in range(8_000)) + b">", True),
        (b"<a" + b"".join(b" a%d" % number for number in range(17_000)) + b">", True),
        (b"<p>" + b"<b>word</b> " * 100_000, False),
        (b'<img src="data:' + b"QUJD" * 60_000 + b'">', False),
        (b"<script>" + b'{"key":"a value"},' * 1_500 + b"</script>", False),
    ],
)
def test_a_tag_with_very_many_attributes_is_parsed_beside_the_loop(body: bytes, is_huge: bool) -> None:
    assert has_huge_tag(body) == is_huge
    assert has_huge_tag(body, 500) == (is_huge or body.startswith(b"<script>"))


def test_giving_way_lasts_while_others_have_something_to_do_up_to_a_limit() -> None:
    assert (
        turns_while(scrapy_internals.give_way, seconds=2 * scrapy_internals.IDLE_TURN)
        == scrapy_internals.TURNS
    )
