"""What callbacks yield, behind all spider middlewares: requests go to the scheduler a page at a time.

Scrapy starts a hundred tasks for every page, which take what it yields one by one, and each request goes
through two signals and wakes the engine: two fifths of the processor's time of a crawl, nine tenths of it for
links that are known. Here a page's requests are gathered and given to the scheduler together when its
callback ends, waits or yields an item, or has worked for 20 ms; tasks are started for items only. What
somebody listens to a signal for goes the old way, one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

from pydispatch.dispatcher import getAllReceivers, liveReceivers
from scrapy import Request, signals
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.asyncgen import as_async_generator
from twisted.python.failure import Failure

from . import scrapy_internals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy import Spider
    from scrapy.crawler import Crawler

FIRST_SLICE = 0.02  # seconds for the links of a page: most are through by then
CALLBACK_SLICE = 0.003  # seconds for the rest, between two turns of others


class CallbackOutput:
    """Stands before the scraper of *crawler*, from `begin` on.

    *write_soon* is called when requests of a page are with the scheduler: its callback may go on for hours.
    """

    def __init__(self, crawler: Crawler, write_soon: Callable[[], None]) -> None:
        self._crawler = crawler
        self._write_soon = write_soon
        self._engine = scrapy_internals.engine_of(crawler)
        self._most = max(crawler.settings.getint("CONCURRENT_ITEMS"), 1)  # items of a page in pipelines
        self._pages: dict[int, _PageOutput] = {}  # by id of the response

    def begin(self) -> None:
        """Have what callbacks yield come here from now on. Nothing where the engine is none of Scrapy's: then
        all goes the old way."""
        if scrapy_internals.is_usual_engine(self._crawler):
            scrapy_internals.stand_before_scraper(self._crawler, self._handle)

    def taking(self, response: Response) -> Callable[[Request], None] | None:
        """Takes a request of the callback of *response*, and is asked while that runs, by a middleware in
        whose stead nobody else is to see the request; None where requests go the old way."""
        page = self._pages.get(id(response))
        return None if page is None else page.take

    async def _handle(
        self, scrape: Callable[..., Awaitable[None]], result: Any, request: Request, response: Any
    ) -> None:
        """Do what *scrape*, the scraper's own method, does with what comes of *result*."""
        if not isinstance(response, Response) or not scrapy_internals.is_asyncio_available():
            await scrape(result, request, response)
            return
        # Scrapy 2.14 leaves an iterable as it is where no middleware is asynchronous
        outputs = result if isinstance(result, AsyncIterator) else as_async_generator(result)
        page = self._pages[id(response)] = _PageOutput(outputs, self._hand_over)
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
            del self._pages[id(response)]
        if under_way:
            await asyncio.wait(under_way)
        scrapy_internals.let_go_of_selector(response)

    def _hand_over(self, requests: list[Request]) -> None:
        crawler, slot = self._crawler, scrapy_internals.slot_of(self._crawler)
        if slot is None:  # the spider is closed
            return
        receivers = usual_listeners(crawler)
        if receivers is None:
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
    """How long a page may work before others get a turn of the event loop.

    Runs from now for `FIRST_SLICE`, from every `renew` for `CALLBACK_SLICE`; not over before ``look_at`` by
    `perf_counter`, so that who asks at every link need not call.

    By the processor's time of this thread, which is asked only when as much has passed by the clock: on a
    busy machine a page that waits for the processor would give way again and again, and every turn costs.
    """

    def __init__(self) -> None:
        self.renew(FIRST_SLICE)

    def renew(self, seconds: float = CALLBACK_SLICE) -> None:
        """Others had their turn: run from now for so many *seconds* of this thread's processor time."""
        self.look_at = perf_counter() + seconds
        self._end = thread_time() + seconds

    def is_over(self) -> bool:
        """Whether others should have a turn now, to be asked from ``look_at`` on; if not, that says from when
        to ask again."""
        left = self._end - thread_time()
        self.look_at = perf_counter() + left
        return left <= 0


class _PageOutput:
    """What the callback of a page yields."""

    def __init__(self, outputs: AsyncIterator[Any], hand_over: Callable[[list[Request]], None]) -> None:
        self._outputs = outputs
        self._hand_over_all = hand_over
        self._requests: list[Request] = []
        self._slice = TimeSlice()

    async def items(self) -> AsyncIterator[Any]:
        """All that is no request; the requests before each have been handed over by then."""
        time_slice = self._slice
        try:
            async for output in self._outputs:
                if isinstance(output, Request):
                    self.take(output)
                    if perf_counter() >= time_slice.look_at and time_slice.is_over():
                        self._hand_over()
                        await scrapy_internals.sleep(0)
                        time_slice.renew()
                elif output is not None:
                    self._hand_over()
                    yield output
        finally:
            self._hand_over()

    def take(self, request: Request) -> None:
        """*request* goes to the scheduler with the others, at the latest when the callback next waits."""
        if not self._requests:
            scrapy_internals.call_later(0, self._waits)
        self._requests.append(request)

    def _waits(self) -> None:
        """Others have their turn before the callback has ended, or it has ended."""
        if self._requests:
            self._hand_over()
            self._slice.renew()

    def _hand_over(self) -> None:
        if self._requests:
            requests, self._requests = self._requests, []
            self._hand_over_all(requests)


def listeners(crawler: Crawler, signal: object) -> list[Any]:
    """Who hears *signal*: the receivers that are still there. 5 us."""
    return list(liveReceivers(getAllReceivers(crawler.signals.sender, signal)))


def usual_listeners(crawler: Crawler) -> list[Any] | None:
    """Who hears of requests where that is nobody but Scrapy's own check for offsite ones; None where others
    do. 10 us."""
    receivers = listeners(crawler, signals.request_scheduled)
    for each in receivers:
        if type(getattr(each, "__self__", None)) is not OffsiteMiddleware:
            return None
        if each.__func__ is not OffsiteMiddleware.request_scheduled:
            return None
    return None if listeners(crawler, signals.request_dropped) else receivers


class Offsite:
    """Scrapy's check for offsite requests by its *receivers*, asked once for all requests to one origin; it
    ``is_open`` where all pass. Whether an origin has ``passed``, as far as it was asked."""

    def __init__(self, spider: Spider | None, receivers: list[Any]) -> None:
        self._spider = spider
        self._receivers = receivers
        self.is_open = not (receivers and getattr(spider, "allowed_domains", None))
        self.passed: dict[str, bool] = {}

    def lets_pass(self, request: Request) -> bool:
        """Whether *request* is not offsite; one that is, its receivers count and log as they do."""
        origin = "/".join(request.url.split("/", 3)[:3])  # `origin_text` without a call, .1 us less a link
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
