"""Obeys directives, keeps and follows links, and lets seeds give way: the one layer between spider and
engine."""

from __future__ import annotations

from functools import cached_property
from itertools import takewhile
from time import perf_counter
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import IgnoreRequest

from ..crawl import scrapy_internals
from ..crawl.assembly import Component
from ..crawl.bulk_follow import BuiltIns, bypass, chained, known_ending
from ..crawl.callback_requests import TimeSlice, run_in_slices
from ..crawl.directive_rules import DirectiveRules
from ..crawl.link_extractor import parse_beside
from ..crawl.meta_keys import FOLLOW

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from ..crawl.bulk_follow import Follow, PageFollowing
    from ..crawl.directive_rules import PageRules
    from ..crawl.outlinks import LinkCollector

SEEDS_AT_A_TIME = 25


class FrontierSpiderMiddleware(Component):
    """Applies the directives of a page to its items and links, keeps its links for the link graph, and gives
    way after every 25 seeds and in a page with very many links.

    Links are what callbacks yield, noted before any filter of Scrapy's sees them, or with ``FRONTIER_LINKS =
    "all"`` all anchors of the page as well.

    With the downloader full the engine takes seeds without returning to the event loop: 100,000 of them froze
    it for 3.7 s; giving way brings that to 0.07 s. Of a page's links it takes 200 at a time, so beside a page
    with 100,000 links each turn of the event loop took 80 ms. Here such a page works only while the loop is
    idle, or after ten turns. A page of 50 links takes 5 ms and does not give
    way.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._directive_rules = DirectiveRules(crawler)

    @cached_property
    def _built_ins(self) -> BuiltIns:
        """The middlewares between this one and the engine."""
        return BuiltIns(
            takewhile(lambda each: each is not self, scrapy_internals.spider_middlewares(self.crawler))
        )

    @property
    def _follow(self) -> Follow | None:
        return None if self.crawl is None else self.crawl.follow

    def process_spider_input(self, response: Response) -> None:
        """Note that *response* came this far, and by which rules its links are followed."""
        active = self.active_requests.of(response)
        if active is not None:
            active.is_let_through = True
        follow = self._follow
        if follow is None or response.request is None:
            return
        wanted = response.request.meta.get(FOLLOW)
        if wanted is None:
            wanted = follow.is_on
        if wanted:
            follow.begin(response, wanted)

    def _taker(self, response: Response, rules: PageRules | None) -> PageFollowing | LinkCollector | None:
        """Return what notes the output of the callback of *response*, and follows the links of its page."""
        crawl = self.crawl
        if crawl is None:
            return None
        collector, is_followed = None, crawl.follow is not None and crawl.follow.is_followed(response)
        if crawl.links is not None:  # callbacks of followed pages yield few requests
            ending = None if is_followed else known_ending(self.crawler, self._built_ins, response)
            collector = crawl.links.collector(response, ending)
        if crawl.follow is None or not is_followed:
            return collector
        return crawl.follow.taker(response, collector, rules)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Yield what goes on of the *result* of a callback; its links are noted, or followed, on the way."""
        rules = self._directive_rules.of(response)
        more = None if self._follow is None else self._follow.requests(response)
        if more is not None:
            result = chained(result, more)
        if rules is not None:
            result = rules.filter(result)
        taker, time_slice = self._taker(response, rules), TimeSlice()
        takes: Callable[[Any], bool] | None = None  # few callbacks of followed pages yield anything
        try:
            async for each in result:
                if takes is None:
                    takes = bypass(self._built_ins, response, self.crawl.output if self.crawl else None)
                if (taker is None or taker.take(each)) and not takes(each):
                    yield each
                if perf_counter() >= time_slice.look_at and time_slice.is_over():
                    await scrapy_internals.give_way()
                    time_slice.renew()
        except Exception:  # of the callback: the links of its page count all the same
            await _end(taker, response)
            raise
        await _end(taker, response)

    def process_spider_exception(self, response: Response, exception: Exception) -> AsyncIterator[Any] | None:
        """Follow the links of a page whose callback, no generator, raised at once; then raise that again.
        None if its links are not followed, or it was refused before its callback."""
        follow = self._follow
        if follow is None or not follow.is_followed(response) or isinstance(exception, IgnoreRequest):
            return None
        return self.process_spider_output(response, _raising(exception))

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield all of *start* in its order; the event loop gets a turn after every 25, so that the crawl
        begins before the last seed is read. With ``FRONTIER_AJAX`` ``#!`` URLs have their crawlable form."""
        count = 0
        async for seed in start:
            yield self._directive_rules.with_ajax_form(seed)
            count += 1
            if count % SEEDS_AT_A_TIME == 0:
                await scrapy_internals.sleep(0)


async def _end(taker: PageFollowing | LinkCollector | None, response: Any) -> None:
    """Note or follow the links of *response*, whose callback has ended."""
    if taker is not None:
        if taker.reads_page:
            await parse_beside(response)
        await run_in_slices(taker.end())


async def _raising(error: Exception) -> AsyncIterator[Any]:
    """The output of a callback that raises *error* at once."""
    raise error
    yield
