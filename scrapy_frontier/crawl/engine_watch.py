"""Watches Scrapy's engine: reports to `in_flight` when a request is sent, is answered, and has ended.

A request has ended when it leaves the engine's set of requests in progress. No signal says so: the set itself
is watched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.http import Response
from twisted.python.failure import Failure

from ..core import reasons
from ..core.hosts.host import OPERATOR
from ..core.pages.leases import Outcome
from ..core.transitions import FETCHED, Event
from . import scrapy_internals
from .host_trouble import CACHED
from .in_flight import CONDITIONAL, ActiveRequest, describe, is_seed, outcome_of
from .meta_keys import SITEMAP, SLOT, UNSET
from .revisits import with_result

if TYPE_CHECKING:
    from collections.abc import Callable

    from .assembly import Crawl

NO_END = 5.0  # seconds without an end, after which the limit of pages under way doubles


class Watch:
    """Reports from construction until `close` what becomes of each request that was handed out: sent, back
    from the network, ended. Raises nothing into the engine: errors go to *failed*."""

    def __init__(self, crawl: Crawl, failed: Callable[[Exception], None]) -> None:
        crawler = self._crawler = crawl.crawler
        self._crawl = crawl
        self._frontier, self._clock = crawl.frontier, crawl.clock
        self._active_requests = crawl.active_requests
        self._tally = crawl.reporter.tally
        self._failed = failed
        self._follows_throttle = crawler.settings.getbool("AUTOTHROTTLE_ENABLED")
        self._ended_at = 0.0  # when the last request ended
        self._is_closed = False
        self._was_stopped = False  # by a callback that closed the spider
        self._in_progress = scrapy_internals.watch_in_progress(crawler, self._ended)
        scrapy_internals.watch_fetch(crawler, self._active_requests, self._fetched)
        scrapy_internals.watch_sending(crawler, self._active_requests, self._sent, crawl.check_sending)
        scrapy_internals.watch_spider_errors(crawler, self._raised)
        crawler.signals.connect(self._active_requests.response_downloaded, signals.response_downloaded)
        if self._follows_throttle:
            crawler.signals.connect(self._throttled, signals.response_downloaded)

    def close(self) -> None:
        """Reports nothing more; requests under way go on unwatched."""
        self._is_closed = True

    def is_under_way(self, request: Request) -> bool:
        """Whether the engine has this very object now, so that it needs a copy."""
        return request in self._active_requests or request in self._in_progress

    def is_held_up(self, now: float, places: int) -> bool:
        """Whether the pages under way wait in callbacks and pipelines, perhaps for a page that is queued, so
        that more than *places* may be handed out. The number doubles for each `NO_END` seconds in which no
        page ended. The engine is woken when this may become true. O(requests under way).
        """
        under_way = self._active_requests.values()
        since = max(self._ended_at, min((each.lease.leased_at for each in under_way), default=now))
        spans = max(int((now - since) / NO_END), 0)
        if len(under_way) < places << min(spans, 20):
            return True
        self._crawl.engine_timer.set(since + (spans + 1) * NO_END, now)
        return False

    def sweep(self) -> None:
        """Ends requests that left the engine unseen. O(requests under way)."""
        for active in list(self._active_requests.values()):
            if active.request not in self._in_progress:
                self._ended(active.request)

    # -- what the engine shows ---------------------------------------------------------------------------

    def _throttled(self, request: Request) -> None:
        """Puts the delay that the operator ordered in the place of the one that AutoThrottle has just set."""
        active = self._active_requests.get(request)
        if active is not None and OPERATOR in active.lease.asked:
            scrapy_internals.set_slot_delay(self._crawler, active.lease.host, active.lease.delay)

    def _sent(self, request: Request) -> None:
        active = self._active_requests.get(request)
        if active is None or self._is_closed:
            return
        try:
            now = self._clock()
            self._frontier.on_sent(active.lease, now)
            self._crawl.engine_timer.set(self._frontier.wake_at(), now)
        except Exception as error:
            self._failed(error)

    def _fetched(self, request: Request, result: Any) -> Any:
        """A request is back from the downloader with *result*; returns what the engine goes on with."""
        active = self._active_requests.get(request)
        if active is None:
            return result
        if not isinstance(result, Response):
            result = self._led_or_failed(active, result)
        has_answered = active.came_to(result)
        if 300 <= active.status < 400 and isinstance(result, Response):
            is_asked_for = active.status == 304 and any(name in request.headers for name in CONDITIONAL)
            if not is_asked_for:  # a redirect that names no place
                active.error = scrapy_internals.http_error_of(self._crawler, result, request)
        if active.follow_up is not None:
            self._active_requests.await_follow_up(active)
        if not active.has_own_slot:  # it is of the downloader, or of a middleware: a proxy's name, say
            slot = request.meta.pop(SLOT, None)
            if isinstance(result, Request) and result.meta.get(SLOT) == slot:
                result.meta.pop(SLOT, None)
        if not self._is_closed:
            try:
                self._on_response(active, result, has_answered)
            except Exception as error:
                self._failed(error)
        return result

    def _on_response(self, active: ActiveRequest, result: Any, has_answered: bool) -> None:
        frontier, lease, now = self._frontier, active.lease, self._clock()
        if self._follows_throttle and OPERATOR not in lease.asked:
            slot = scrapy_internals.download_slot(self._crawler, lease.host)
            if slot is not None:
                frontier.set_delay(lease.host, slot.delay, now)
        # Other middlewares that answer may have asked the host in their own way. With a cache that stands for
        # the web, a page it does not have ends as an error.
        is_cached = active.is_cached or self._crawl.settings.replays
        if isinstance(result, Response):
            is_cached = CACHED in result.flags
        frontier.on_response(lease, now, has_answered, active.was_given or not is_cached)

    def _led_or_failed(self, active: ActiveRequest, result: Any) -> Any:
        """Returns *result*, a request or a failure; a failure instead of a request that is refused."""
        if isinstance(result, Request) and (reason := self._refusal(active, result)):
            result = Failure(IgnoreRequest(reason))  # type: ignore[no-untyped-call]  # Twisted's
        if isinstance(result, Request):  # perhaps of a middleware nearer to the network than ours
            active.takes_validators_off(active.request)
            active.takes_validators_off(result)
        elif self._crawl.sitemaps is not None and active.request.meta.get(SITEMAP) not in UNSET:
            active.falls_silent()  # a sitemap ends in no errback
        return result

    def _refusal(self, active: ActiveRequest, follow_up: Request) -> str:
        """Why *active* ends with an error instead of *follow_up*; empty if it goes on with that."""
        postponed = active.postponed_outcome
        if postponed is not None and active.lease.is_last and postponed.delay:
            return postponed.reason  # the crawl does not wait for the page any longer
        if self._is_closed:
            return ""
        try:
            return self._crawl.enqueuer.refusal_of_follow_up(active, follow_up)
        except Exception as error:
            self._failed(error)
            return ""

    def _raised(self, error: BaseException, request: Request, result: Any) -> None:
        """The callback or errback of *request* raised *error* when it was called with *result*."""
        active = self._active_requests.get(request)
        if active is None:
            return
        active.spider_error = error
        if not isinstance(error, CloseSpider) or not active.is_fetched:
            return
        has_errback = request.errback is not None and isinstance(result, Response)
        if not has_errback or scrapy_internals.http_error_of(self._crawler, result, request) is None:
            # The callback did not finish: the next run calls it again, for the links it did not come to. Only
            # the page that closes the spider uses up an attempt: others may find the same quota spent.
            is_late = self._was_stopped or scrapy_internals.is_closing(self._crawler)
            self._was_stopped = True
            event = Event.POSTPONED if is_late else Event.RETRIED
            active.outcome = Outcome(event, active.status, reasons.CALLBACK(error=describe(error)))

    def _ended(self, request: Request) -> None:
        """The engine has finished with *request*: callback, errback and items."""
        active_requests = self._active_requests
        active = active_requests.pop(request, None)
        if active is None:
            return
        if active.errback is not None:
            request.errback = active.errback
        if not self._is_closed:
            try:
                self._release(active)
            except Exception as error:
                self._failed(error)
        active_requests.await_no_more(active)

    def _release(self, active: ActiveRequest) -> None:
        crawl, frontier, lease = self._crawl, self._frontier, active.lease
        is_closing = active.error is not None and scrapy_internals.is_closing(self._crawler)
        outcome, now = outcome_of(active, is_closing), self._clock()
        self._ended_at = now
        links, found = crawl.links, active.links
        is_usual = outcome.event is FETCHED and (found is None or not (found.yielded or found.anchors))
        if links is not None and not is_usual:
            outcome = links.end(active, outcome, now)
        if lease.comes_back or active.digest:
            outcome = with_result(active, outcome)
        released = frontier.release(lease, outcome, now)
        if not released.is_written:
            crawl.commit_timer.start()
        if is_seed(active.request) and not released.is_queued:
            crawl.enqueuer.seed_ended(lease.public_id)
        if released.visit is not None:
            crawl.revisits.report(outcome, released.visit)
        if outcome.reason:
            for code in reasons.codes_in(outcome.reason):
                self._tally[f"frontier/reasons/{code}"] += 1
        self._tally["frontier/links/kept"] += released.links
        if lease.public_id in crawl.requests.in_memory and not released.is_queued:
            crawl.requests.ended(lease.public_id)
