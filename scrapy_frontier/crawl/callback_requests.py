"""Hands the requests of callbacks to the scheduler, a page at a time, behind all spider middlewares.

Scrapy starts a hundred tasks for every page, which take its output one by one, and each request sends two
signals and wakes the engine: two fifths of the processor time of a crawl, nine tenths of it for links that
are known. Here the requests of a page are gathered and handed over together when its callback ends, waits or
yields an item, or has worked for 20 ms; only items get tasks. With a listener of those signals each request
goes Scrapy's own way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.spidermiddlewares.base import BaseSpiderMiddleware
from scrapy.spidermiddlewares.depth import DepthMiddleware
from scrapy.spidermiddlewares.httperror import HttpErrorMiddleware
from scrapy.spidermiddlewares.referer import RefererMiddleware
from scrapy.spidermiddlewares.start import StartSpiderMiddleware
from scrapy.spidermiddlewares.urllength import UrlLengthMiddleware
from scrapy.utils.asyncgen import as_async_generator
from twisted.python.failure import Failure

from ..core.parse.urls import origin_text
from . import scrapy_internals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector

    from .log import Reporter

FIRST_SLICE = 0.02  # seconds for the links of a page: most are through by then
CALLBACK_SLICE = 0.003  # seconds for the rest, between two turns of other pages

# --- Scrapy's own parts on the way ------------------------------------------------------------------------

# Those spider middlewares judge the requests of a page by its depth, by their origin and by their length.
_BUILT_IN = (
    StartSpiderMiddleware,
    HttpErrorMiddleware,
    DepthMiddleware,
    UrlLengthMiddleware,
    RefererMiddleware,
)


class RequestPath:
    """What stands between the spider middleware *ours* and the scheduler of *crawler*, and whether requests
    may pass it a page at a time. It is looked at once, with the first page."""

    def __init__(self, crawler: Crawler, ours: str) -> None:
        self.crawler = crawler
        self._ours = ours

    @cached_property
    def middlewares(self) -> list[Any]:
        """The spider middlewares that requests pass, in their order."""
        return scrapy_internals.spider_middlewares_behind(self.crawler, self._ours)

    @cached_property
    def receivers(self) -> list[Any] | None:
        """The receivers of requests if all are Scrapy's own offsite check; None if there are others."""
        receivers = scrapy_internals.listeners(self.crawler, signals.request_scheduled)
        for each in receivers:
            if type(getattr(each, "__self__", None)) is not OffsiteMiddleware:
                return None
            if each.__func__ is not OffsiteMiddleware.request_scheduled:
                return None
        return None if scrapy_internals.listeners(self.crawler, signals.request_dropped) else receivers

    @cached_property
    def bar(self) -> str:
        """Why every request goes Scrapy's own way: a component must see each. Empty if none must."""
        if self.receivers is None:
            return "a listener of request_scheduled or request_dropped sees each"
        if self.crawler.settings.getbool("DEPTH_STATS_VERBOSE"):
            return "DEPTH_STATS_VERBOSE counts each"
        for each in self.middlewares:
            if type(each) not in _BUILT_IN and any(hasattr(each, name) for name in _SEEING):
                return f"the spider middleware {type(each).__name__} sees each"
        return ""

    @cached_property
    def deepest(self) -> int:
        """``DEPTH_LIMIT`` if it holds, else 0: requests of pages of this depth are dropped."""
        is_there = any(type(each) is DepthMiddleware for each in self.middlewares)
        return self.crawler.settings.getint("DEPTH_LIMIT") if is_there else 0


_SEEING = "process_spider_output", "process_spider_output_async"


class PageRequests:
    """What Scrapy's spider middlewares on a *path* without a bar make of the requests of one page.

    `finish` asks them once for each scheme, within the site and beyond: depth, priority and Referer of a
    request depend on nothing else.
    """

    def __init__(self, path: RequestPath, response: Response) -> None:
        self._path, self.response = path, response
        self._origin = f"{origin_text(response.url)}/"
        self._samples: dict[tuple[Any, ...], Request] = {}
        self._longest = path.crawler.settings.getint("URLLENGTH_LIMIT")

    @property
    def is_too_deep(self) -> bool:
        """Whether ``DEPTH_LIMIT`` drops all requests of the page."""
        return bool(0 < self._path.deepest <= self.response.meta.get("depth", 0))

    def kind_of(self, url: str) -> tuple[Any, ...]:
        """Return a key of what the middlewares do to a request for *url*: the same for all that they treat
        alike."""
        depth = self.response.meta.get("depth")  # which the callback may change
        return url.partition(":")[0], url.startswith(self._origin), depth

    def finish(self, request: Request) -> Request | None:
        """Return *request* as `through` would, in 3 us; None if a middleware drops it, which that logs and
        counts."""
        url, meta = request.url, request.meta
        has_own_rule = "referrer_policy" in meta or "depth_reset" in meta
        if has_own_rule or self.is_too_deep or 0 < self._longest < len(url):
            return self.through(request)
        kind = self.kind_of(url)
        sample = self._samples.get(kind)
        if sample is None:
            sample = self.through(Request(f"{origin_text(url)}/"))
            assert sample is not None  # the page is not too deep
            self._samples[kind] = sample
        meta.update(sample.meta)
        request.priority += sample.priority
        for name, values in sample.headers.items():
            dict.setdefault(request.headers, name, values)
        return request

    def through(self, request: Request) -> Request | None:
        """Return *request* as the middlewares return it. 25 us."""
        found: Request | None = request
        for each in self._path.middlewares:
            if found is not None and isinstance(each, BaseSpiderMiddleware):
                found = each.get_processed_request(found, self.response)
        return found


# --- the output of callbacks ------------------------------------------------------------------------------


class CallbackOutput:
    """Replaces how the scraper handles the output of callbacks, from `begin` on.

    *write_soon* is called when the scheduler has requests of a page whose callback may go on for hours.
    *reporter* logs once that a listener has each request taken in alone.
    """

    def __init__(self, path: RequestPath, reporter: Reporter, write_soon: Callable[[], None]) -> None:
        self._path, self._reporter = path, reporter
        self._crawler = crawler = path.crawler
        self._write_soon = write_soon
        self._engine = scrapy_internals.engine_of(crawler)
        self._most = max(crawler.settings.getint("CONCURRENT_ITEMS"), 1)  # items of a page in pipelines
        self._pages: dict[Response, _PageOutput] = {}  # while their callbacks run

    def begin(self) -> None:
        """Take over from the scraper."""
        scrapy_internals.stand_before_scraper(self._crawler, self._handle)

    def taking(self, response: Response) -> Callable[[Request], None] | None:
        """Return a function that takes a request of the running callback of *response* past the rest of the
        spider middlewares; None if requests go Scrapy's own way."""
        page = self._pages.get(response)
        return None if page is None else page.take

    async def _handle(
        self, scrape: Callable[..., Awaitable[None]], result: Any, request: Request, response: Any
    ) -> None:
        """Do what *scrape*, the scraper's own method, does with the *result* of a callback."""
        if not isinstance(response, Response) or not scrapy_internals.is_asyncio_available():
            await scrape(result, request, response)
            return
        outputs = result if isinstance(result, AsyncIterator) else as_async_generator(result)
        page = self._pages[response] = _PageOutput(outputs, self._hand_over)
        under_way: set[asyncio.Task[None]] = set()
        try:
            async for item in page.items():
                if len(under_way) >= self._most:
                    _, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                pipelines = self._engine.scraper.start_itemproc_async(item, response=response)
                under_way.add(asyncio.create_task(pipelines))
        except Exception:
            failure = Failure()  # type: ignore[no-untyped-call]  # Twisted's
            self._engine.scraper.handle_spider_error(failure, request, response)
        finally:
            del self._pages[response]
        if under_way:
            await asyncio.wait(under_way)
        scrapy_internals.let_go_of_selector(response)

    def _hand_over(self, requests: list[Request]) -> None:
        crawler, slot = self._crawler, scrapy_internals.slot_of(self._crawler)
        if slot is None:  # the spider is closed
            return
        receivers = self._path.receivers
        if receivers is None:
            words = "Requests are taken in one by one, which is slower: a listener of request_scheduled or "
            self._reporter.log_once("listens", logging.INFO, words + "request_dropped sees each (said once)")
            for request in requests:
                self._engine.crawl(request)
            return
        offsite = Offsite(crawler.spider, receivers)
        enqueue = slot.scheduler.enqueue_request
        for request in requests:
            if offsite.is_open or request.dont_filter or offsite.lets_pass(request):
                enqueue(request)
        self._write_soon()
        if slot.closing is None:
            slot.nextcall.schedule()


class TimeSlice:
    """How long a page may work before other pages get a turn of the event loop: `FIRST_SLICE`, and
    `CALLBACK_SLICE` after every `renew`."""

    def __init__(self) -> None:
        self._end = perf_counter() + FIRST_SLICE

    def renew(self) -> None:
        """Start the next slice."""
        self._end = perf_counter() + CALLBACK_SLICE

    def is_over(self) -> bool:
        """Whether the slice is over. 0.1 us."""
        return perf_counter() >= self._end


async def run_in_slices(steps: Iterator[None]) -> None:
    """Take all *steps*, and let other pages work after every slice of time."""
    time_slice = TimeSlice()
    for _ in steps:
        if time_slice.is_over():
            await scrapy_internals.give_way()
            time_slice.renew()


class _PageOutput:
    """The output of one callback."""

    def __init__(self, outputs: AsyncIterator[Any], hand_over: Callable[[list[Request]], None]) -> None:
        self._outputs = outputs
        self._hand_over_all = hand_over
        self._requests: list[Request] = []
        self._slice = TimeSlice()

    async def items(self) -> AsyncIterator[Any]:
        """Yield every output that is no request; the requests before it are handed over by then."""
        time_slice = self._slice
        try:
            async for output in self._outputs:
                if isinstance(output, Request):
                    self.take(output)
                    if time_slice.is_over():
                        self._hand_over()
                        await scrapy_internals.sleep(0)
                        time_slice.renew()
                elif output is not None:
                    self._hand_over()
                    yield output
        finally:
            self._hand_over()

    def take(self, request: Request) -> None:
        """Hand *request* over with the others, at the latest when the callback next waits."""
        if not self._requests:
            scrapy_internals.call_later(0, self._waits)
        self._requests.append(request)

    def _waits(self) -> None:
        """Hand over: the callback waits, or has ended."""
        if self._requests:
            self._hand_over()
            self._slice.renew()

    def _hand_over(self) -> None:
        if self._requests:
            requests, self._requests = self._requests, []
            self._hand_over_all(requests)


class Offsite:
    """Scrapy's check for offsite requests by its *receivers*, asked once an origin. It ``is_open`` if every
    request passes; ``passed`` has the origins that were asked."""

    def __init__(self, spider: Spider | None, receivers: list[Any]) -> None:
        self._spider = spider
        self._receivers = receivers
        self.is_open = not (receivers and getattr(spider, "allowed_domains", None))
        self.passed: dict[str, bool] = {}
        self._refused = 0  # not counted yet

    def lets_pass(self, request: Request) -> bool:
        """Whether *request* is not offsite; its receivers count and log one that is."""
        origin = origin_text(request.url)
        if self.passed.get(origin):
            return True
        try:
            for receiver in self._receivers:
                receiver(request=request, spider=self._spider)
        except IgnoreRequest:
            self.passed[origin] = False
            return False
        if not request.meta.get("allow_offsite"):
            self.passed[origin] = True
        return True

    def passes(self, url: str) -> bool:
        """Whether a plain request for *url* is not offsite. The receivers count the first of an origin,
        `count_refused` the others."""
        if self.is_open:
            return True
        passed = self.passed.get(origin_text(url))
        if passed is None:
            return self.lets_pass(Request(url))
        self._refused += not passed
        return passed

    def count_refused(self, stats: StatsCollector) -> None:
        """Add refusals of `passes` to Scrapy's stat."""
        if self._refused:
            stats.inc_value("offsite/filtered", self._refused)
            self._refused = 0
