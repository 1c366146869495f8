"""Obeys directives, keeps and follows links, and gives the event loop turns between seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.exceptions import IgnoreRequest

from ..core.parse.urls import origin_text
from ..crawl import scrapy_internals
from ..crawl.assembly import Component
from ..crawl.bulk_follow import PageFollowing, chained
from ..crawl.callback_requests import PageRequests, TimeSlice, run_in_slices
from ..crawl.directive_rules import DirectiveRules
from ..crawl.link_extractor import parse_beside
from ..crawl.meta_keys import FOLLOW
from ..crawl.outlinks import LinkCollector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from ..crawl.callback_requests import RequestPath

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

    def process_spider_input(self, response: Response) -> None:
        """Note by which rule the links of *response* are followed."""
        active = self.active_requests.of(response)
        follow = None if self.crawl is None else self.crawl.follow
        if active is None or follow is None:
            return
        wanted = active.request.meta.get(FOLLOW)
        if wanted is None:
            wanted = follow.is_on
        if wanted:
            follow.begin(active, response, wanted)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Yield what goes on of the *result* of a callback; its links are noted, or followed, on the way."""
        rules = self._directive_rules.of(response)
        collector: LinkCollector | None = None
        following: PageFollowing | None = None
        hand_on: Callable[[Request], None] | None = None
        crawl, active = self.crawl, self.active_requests.of(response)
        if crawl is not None:
            requests = PageRequests(crawl.path, response)
            hand_on = None if crawl.path.bar else crawl.output.taking(response)
            follow_rule = None if active is None else active.take_follow_rule()
            if crawl.links is not None and active is not None:
                ending = None if follow_rule is not None else self._known_ending(crawl.path, requests)
                collector = LinkCollector(crawl.links, response, active, ending)
            if crawl.follow is not None and active is not None and follow_rule is not None:
                if crawl.follow.follows_in_bulk(active.request):
                    following = PageFollowing(crawl.follow, active, follow_rule, requests, rules, collector)
                else:
                    found = active.gather_links(response.url)
                    result = chained(result, crawl.follow.requests(follow_rule, response, found))
        if rules is not None:
            result = rules.filter(result)
        taker, time_slice = following or collector, TimeSlice()
        try:
            async for each in result:
                if taker is None or taker.take(each):
                    if hand_on is None or not isinstance(each, Request):
                        yield each
                    elif (request := requests.finish(each)) is not None:
                        hand_on(request)
                if time_slice.is_over():
                    await scrapy_internals.give_way()
                    time_slice.renew()
        except Exception:  # of the callback: the links of its page count all the same
            await _end(taker, response)
            raise
        await _end(taker, response)

    def _known_ending(self, path: RequestPath, requests: PageRequests) -> str | None:
        """Return the beginning of those URLs whose requests may be dropped right behind the callback if their
        pages are known; None if there are none.

        Nine links in ten lead to known pages, and the scheduler drops their requests. The checks on the way
        there cost ten times as much and leave nothing behind.
        """
        if path.bar or requests.is_too_deep:
            return None
        spider, url = self.crawler.spider, requests.response.url
        if not path.receivers or not getattr(spider, "allowed_domains", None):
            return ""
        if any(not each.__self__.should_follow(Request(url), spider) for each in path.receivers):
            return None
        return f"{origin_text(url)}/"

    def process_spider_exception(self, response: Response, exception: Exception) -> AsyncIterator[Any] | None:
        """Follow the links of a page whose callback, no generator, raised at once; then raise that again.
        None if its links are not followed, or it was refused before its callback."""
        active = self.active_requests.of(response)
        if active is None or active.follow_rule is None or isinstance(exception, IgnoreRequest):
            return None
        return self.process_spider_output(response, _raising(exception))

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield all of *start* in its order; the event loop gets a turn after every 25, so that the crawl
        begins before the last seed is read. With ``FRONTIER_AJAX`` ``#!`` URLs have their crawlable form."""
        count = 0
        shared = None if self.crawl is None else self.crawl.shared
        async for seed in start:
            if shared is not None and not await shared.passes_seeds():
                continue
            yield self._directive_rules.with_ajax_form(seed)
            count += 1
            if count % SEEDS_AT_A_TIME == 0:
                await scrapy_internals.sleep(0)
        if shared is not None:
            shared.seeds_ended()


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
