"""The one layer between spider and engine: directives obeyed, links kept, seeds that give way."""

from __future__ import annotations

from functools import cached_property
from itertools import takewhile
from time import perf_counter
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import IgnoreRequest

from ..crawl import scrapy_internals
from ..crawl.assembly import Component
from ..crawl.bulk_follow import (
    BuiltIns,
    PlaceInLine,
    bypass,
    end,
    known_ending,
    raising,
    taken,
    with_more,
    with_more_async,
)
from ..crawl.callback_requests import TimeSlice
from ..crawl.directive_rules import DirectiveRules
from ..crawl.meta_keys import FOLLOW

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from ..crawl.bulk_follow import Follow, PageFollowing
    from ..crawl.directive_rules import PageRules
    from ..crawl.outlinks import LinkCollector

SEEDS_AT_A_TIME = 25


class FrontierSpiderMiddleware(Component):
    """Does to a page's items and links what the page asks for, keeps its links for the link graph, and
    gives way after every 25 seeds and in a page with very many links.

    Links are what callbacks yield, taken down before any filter of Scrapy's sees them, or with
    ``FRONTIER_LINKS = "all"`` all anchors of the page as well.

    With the downloader full the engine takes seeds without ever going back to the event loop: 100,000 of
    them froze it for 3.7 s, and every connection with it; giving way brings that to 0.07 s. Of a page's links
    it takes 200 at a time, so beside a page with 100,000 links everybody waited 80 ms for every turn of the
    event loop, and other hosts' pages came 6.5 times as late as alone. Here such a page works only while
    nobody else has anything to do, or after ten turns; the oldest of them after one, so that it comes to its
    end. A page of 50 links takes 5 ms and does not give way at all: in each turn of the event loop Scrapy's
    workers would take what there is so far, which costs more than the links.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._line: list[PlaceInLine] = []
        self._directive_rules = DirectiveRules(crawler)

    @cached_property
    def _built_ins(self) -> BuiltIns:
        """What requests pass from here on to the engine."""
        return BuiltIns(
            takewhile(lambda each: each is not self, scrapy_internals.spider_middlewares(self.crawler))
        )

    @property
    def _follow(self) -> Follow | None:
        return None if self.crawl is None else self.crawl.follow

    def process_spider_input(self, response: Response) -> None:
        """Note that *response* came as far as here, and by which ways its links are followed, if they are."""
        flight = self.flights.get(id(response.request))
        if flight is not None:
            flight.is_let_through = True
        follow = self._follow
        if follow is None or response.request is None:
            return
        wanted = response.request.meta.get(FOLLOW)
        if wanted is None:
            wanted = follow.is_on
        if wanted:
            follow.begin(response, wanted)

    def _taker(self, response: Response, rules: PageRules | None) -> PageFollowing | LinkCollector | None:
        """Who takes down what the callback of *response* yields, or follows what its page links."""
        crawl = self.crawl
        if crawl is None:
            return None
        collector, is_followed = None, crawl.follow is not None and crawl.follow.is_followed(response)
        if crawl.links is not None:  # callbacks of followed pages ask for little themselves
            ending = None if is_followed else known_ending(self.crawler, self._built_ins, response)
            collector = crawl.links.collector(response, ending)
        if crawl.follow is None or not is_followed:
            return collector
        return crawl.follow.taker(response, collector, rules)

    def process_spider_output(self, response: Response, result: Iterable[Any]) -> Iterable[Any]:
        """What goes on of the *result* of a callback; its links are taken down, or followed, on the way."""
        rules = self._directive_rules.of(response)
        more = None if self._follow is None else self._follow.requests(response)
        if more is not None:
            result = with_more(result, more)
        if rules is not None:
            result = rules.filter(result)
        taker = self._taker(response, rules)
        return result if taker is None else taken(response, result, taker)

    async def process_spider_output_async(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """As `process_spider_output`, and a page with very many links gives way to others."""
        rules, place = self._directive_rules.of(response), PlaceInLine(self._line)
        more = None if self._follow is None else self._follow.requests(response)
        if more is not None:
            result = with_more_async(result, more)
        if rules is not None:
            result = rules.filter_async(result, place.give_way)
        taker, time_slice = self._taker(response, rules), TimeSlice()
        takes: Callable[[Any], bool] | None = None  # few callbacks of followed pages yield anything
        try:
            try:
                async for each in result:
                    if takes is None:
                        takes = bypass(self._built_ins, response, self.crawl.output if self.crawl else None)
                    if (taker is None or taker.take(each)) and not takes(each):
                        yield each
                    if perf_counter() >= time_slice.look_at and time_slice.is_over():
                        await place.give_way()
                        time_slice.renew()
            except Exception:  # of the callback; what its page links is there all the same
                await end(taker, response, place)
                raise
            await end(taker, response, place)
        finally:
            place.leave()

    def process_spider_exception(self, response: Response, exception: Exception) -> Iterable[Any] | None:
        """The links of a page whose callback, no generator, raised *exception* at once; then that once more.
        None where nobody is to follow them, or the page was refused before its callback."""
        follow = self._follow
        if follow is None or not follow.is_followed(response) or isinstance(exception, IgnoreRequest):
            return None
        return self.process_spider_output(response, raising(exception))

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """All of *start* in its order, ``#!`` URLs as servers see them where that is wanted; the event loop
        gets a turn after every 25, so that the crawl begins before the last seed is read."""
        count = 0
        async for seed in start:
            yield self._directive_rules.with_ajax_form(seed)
            count += 1
            if count % SEEDS_AT_A_TIME == 0:
                await scrapy_internals.sleep(0)
