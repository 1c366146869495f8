"""What the engine makes of the requests under way, and what the frontier is told of it.

A request is finished exactly when it leaves the engine's set of requests in progress; no signal says so.
`Watch` sees to that set and to what the downloader makes of each request, and sweeps up behind.

The timer that wakes the engine when a host may be visited again; it would sleep up to 5 s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import thread_time
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.http import Response
from twisted.python.failure import Failure

from ..core import reasons
from ..core.hosts.host import OPERATOR
from ..core.pages.leases import WRITTEN_WITHIN, Outcome
from ..core.transitions import FETCHED, Event
from . import scrapy_internals
from .host_trouble import CACHED
from .in_flight import CONDITIONAL, Flight, Flights, describe, outcome_of
from .meta_keys import POSTPONED, POSTPONED_FOR, SITEMAP, START, UNSET
from .revisits import with_result

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from ..core.frontier import Frontier
    from .enqueue import Intake, RefusedFollowUps, Seeds
    from .log import Reporter
    from .outlinks import Outlinks
    from .queued import QueuedRequests
    from .revisits import Revisits

_NEVER = float("inf")


class Alarm:
    """Wakes the engine at the earliest time that it was set to, ``at`` (POSIX seconds); not one that cannot
    be watched."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._is_on = scrapy_internals.in_progress(crawler) is not None
        self._timer: Any = None
        self.at = _NEVER

    def set(self, when: float | None, now: float) -> None:
        """Have the engine woken at *when* (POSIX seconds, as *now*), if that is sooner than ``at``; None:
        nothing is to be done."""
        if not self._is_on or when is None or when >= self.at:
            return
        self.cancel()
        self.at = when
        self._timer = scrapy_internals.call_later(max(0.0, when - now), self._ring)

    def cancel(self) -> None:
        """Wake nobody, until it is `set` again."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self.at = None, _NEVER

    def _ring(self) -> None:
        self._timer, self.at = None, _NEVER
        scrapy_internals.wake(self._crawler)


# Seconds: without a page from the network; on it, after which a page is awaited no longer; without an end,
# after which callbacks may wait though the thread computes (perhaps for another crawl), or twice as many do.
HELD_UP, SLOW_PAGE, NO_END = 0.1 + scrapy_internals.SLEEP_BEFORE_CALLBACK, 1.0, 5.0
COUNT_INTERVAL = 0.1  # seconds, of `Reporter.report_requests`


class _Watched(set["Request"]):
    """The engine's set of requests in progress; says when one is removed, which no signal does."""

    def __init__(self, on_remove: Callable[[Request], None]) -> None:
        super().__init__()
        self._on_remove = on_remove

    def remove(self, request: Request) -> None:
        super().remove(request)
        self._on_remove(request)


@dataclass(eq=False, repr=False)
class Watch:
    """Sees from `begin` until `close` what becomes of each request that was handed out, and tells the
    frontier: gone out, off the wire, ended. Nothing is raised into the engine: *failed* is called with it."""

    _crawler: Crawler
    _frontier: Frontier
    _clock: Callable[[], float]
    _flights: Flights
    _intake: Intake
    _requests: QueuedRequests
    _seeds: Seeds
    _refused: RefusedFollowUps
    _links: Outlinks | None
    _revisits: Revisits
    _alarm: Alarm
    _reporter: Reporter
    _failed: Callable[[Exception], None]
    _replays: bool  # Scrapy's HTTP cache stands for the web
    _reads_sitemaps: bool
    _timer: Any = field(default=None, init=False)
    _ended_at = 0.0  # when the last request ended
    _looked = 0.0  # when the last one came from the network, or callbacks were seen to compute since
    _computed = 0.0  # seconds of the processor until then
    _counted = 0.0  # when callbacks were told last how many requests there were
    _is_closed = False
    _was_stopped = False  # by a callback that closed the spider
    _is_watching = False  # an engine, and no stand-in for one
    sees_sent = False  # of flights that are ``is_sending``

    def __post_init__(self) -> None:
        self._tally = self._reporter.tally
        self._follows_throttle = self._crawler.settings.getbool("AUTOTHROTTLE_ENABLED")
        self._in_progress = _Watched(self._ended)  # empty where the engine does not let itself be watched

    def begin(self) -> bool:
        """Watch the engine; false where it does not let itself be watched.

        Then a response ends a flight, and the timeout of its lease one that has none.
        """
        crawler, connect = self._crawler, self._crawler.signals.connect
        if self._follows_throttle:
            connect(self._throttled, signals.response_downloaded)
        self._is_watching = scrapy_internals.watch_inprogress(crawler, self._in_progress)
        if self._is_watching and scrapy_internals.watch_fetch(crawler, self._fetched):
            scrapy_internals.watch_spider_errors(crawler, self._raised)
            connect(self._flights.response_downloaded, signals.response_downloaded)
            self.sees_sent = scrapy_internals.watch_sending(crawler, self._flights, self._sent)
            return True
        connect(self._response_received, signals.response_received)
        return False

    def close(self) -> None:
        """Tell the frontier nothing more; requests under way go on unwatched."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def is_under_way(self, request: Request) -> bool:
        """Whether the engine has this very object, which it could not tell from another."""
        return id(request) in self._flights or request in self._in_progress

    def report_requests(self, now: float) -> None:
        """Tell callbacks how many requests there were, if that was not done within `COUNT_INTERVAL`."""
        if now >= self._counted + COUNT_INTERVAL:
            self._counted = now
            self._reporter.report_requests(self._crawler.stats)

    def is_held_up(self, now: float, places: int) -> bool:
        """Whether what is under way waits in callbacks and pipelines, perhaps for a page that is queued: no
        page came from the network for `HELD_UP` seconds, and none is awaited but slow ones. Not while
        callbacks compute: these wait for nothing, and end. Nor with twice as many under way as there are
        *places*: more than that a kill repeats, and a lease may run out, only where nothing has ended for
        `NO_END` seconds (then it may be twice as many again, and so on). The engine asks again when it may
        be so. O(requests under way)."""
        until = self._looked + HELD_UP
        if until <= now:
            under_way = self._flights.values()
            since = max(self._ended_at, min((each.lease.leased_at for each in under_way), default=now))
            spans = max(int((now - since) / NO_END), 0)
            if len(under_way) >= places << min(spans + 1, 20):
                until = since + (spans + 1) * NO_END
            elif not spans and self._computes(now):
                until = now + HELD_UP
            else:
                away = (each.lease.leased_at for each in under_way if not each.has_landed)
                until = max(away, default=0.0) + SLOW_PAGE
        if until > now:
            self._alarm.set(until, now)
        return until <= now

    def _computes(self, now: float) -> bool:
        """Whether callbacks compute since it was asked last, or a page came. For an eighth of the time: on a
        machine with other work a thread that never waits may get no more."""
        since, computed = now - self._looked, thread_time() - self._computed
        if 8 * computed <= since:
            return False
        self._looked, self._computed = now, thread_time()
        return True

    def sweep(self) -> None:
        """End what has left the engine unseen, which is counted. O(requests under way)."""
        in_progress = self._in_progress
        lost = [flight.request for flight in self._flights.values() if flight.request not in in_progress]
        for request in lost:
            self._ended(request)
        if lost:
            self._tally["frontier/swept"] += len(lost)

    # -- what is seen ------------------------------------------------------------------------------------

    def _sent(self, request: Request) -> None:
        flight = self._flights.get(id(request))
        if flight is None or self._is_closed:
            return
        try:
            now = self._clock()
            self._frontier.sent(flight.lease, now)
            self._alarm.set(self._frontier.wake_at(), now)
        except Exception as error:
            self._failed(error)

    def _throttled(self, request: Request) -> None:
        scrapy_internals.steady_slot(self._crawler, request)

    def _fetched(self, request: Request, result: Any) -> Any:
        """A request has left the network, with *result*."""
        flight = self._flights.get(id(request))
        if flight is None:
            return result
        lease = flight.lease
        if not isinstance(result, Response):
            result = self._led_or_failed(flight, result)
        response_time = flight.came_to(result)
        if 300 <= flight.status < 400 and isinstance(result, Response):
            is_asked_for = flight.status == 304 and any(name in request.headers for name in CONDITIONAL)
            if not is_asked_for:  # a redirect that names no place
                flight.error = scrapy_internals.http_error_of(self._crawler, result, request)
        if flight.follow_up is not None:
            self._flights.await_follow_up(flight)
        if self._is_closed:
            return result
        frontier, now = self._frontier, self._clock()
        self._looked, self._computed = now, thread_time()
        self.report_requests(now)
        try:
            if self._follows_throttle and OPERATOR not in lease.asked:
                slot = scrapy_internals.download_slot(self._crawler, lease.host)
                if slot is not None:
                    frontier.set_delay(lease.host, slot.delay, now)
            # Any other middleware that answers may have asked the host in a way of its own. Where the cache
            # stands for the web, what it does not have ends as an error.
            is_cached = flight.is_cached or self._replays
            if isinstance(result, Response):
                is_cached = CACHED in result.flags
            frontier.off_wire(lease, now, response_time, flight.was_given or not is_cached)
        except Exception as error:
            self._failed(error)
        return result

    def _led_or_failed(self, flight: Flight, result: Any) -> Any:
        """*result*, a request or an error; an error instead of a request for which nobody would ask."""
        if isinstance(result, Request) and (reason := self._refusal(flight, result)):
            result = Failure(IgnoreRequest(reason))  # type: ignore[no-untyped-call]  # Twisted's
        if isinstance(result, Request):  # perhaps of a middleware nearer to the network than ours
            flight.takes_validators_off(flight.request)
            flight.takes_validators_off(result)
        elif self._reads_sitemaps and flight.request.meta.get(SITEMAP) not in UNSET:
            flight.falls_silent()  # whatever it was: no errback is the end of a sitemap
        return result

    def _refusal(self, flight: Flight, follow_up: Request) -> str:
        """Why *flight* ends with an error instead of *follow_up*, for which nobody would ask; empty: one
        does."""
        meta = follow_up.meta
        if flight.lease.is_last and meta.get(POSTPONED_FOR):  # whoever asked: nobody waits for it
            return str(meta.get(POSTPONED))
        if self._is_closed:
            return ""
        try:
            return self._refused.reason(flight, follow_up)
        except Exception as error:
            self._failed(error)
            return ""

    def _raised(self, error: BaseException, request: Request, result: Any) -> None:
        """The callback of *request*, or its errback, raised *error*, where *result* was to be dealt with."""
        flight = self._flights.get(id(request))
        if flight is None:
            return
        flight.raises(error)
        if not isinstance(error, CloseSpider) or not flight.is_fetched:
            return
        has_errback = request.errback is not None and isinstance(result, Response)
        if not has_errback or scrapy_internals.http_error_of(self._crawler, result, request) is None:
            # The callback did not come to its end: what it would have yielded is the next run's. Only who
            # closes the spider uses up an attempt: others under way may find their quota spent every time.
            is_late = self._was_stopped or scrapy_internals.is_closing(self._crawler)
            self._was_stopped = True
            event = Event.POSTPONED if is_late else Event.RETRIED
            flight.outcome = Outcome(event, flight.status, reasons.CALLBACK(error=describe(error)))

    def _ended(self, request: Request) -> None:
        """The engine is done with *request*: callback, errback, items and all."""
        flights = self._flights
        flight = flights.pop(id(request), None)
        if flight is None:
            return
        if flight.errback is not None:
            request.errback = flight.errback
        if not self._is_closed:
            try:
                self._release(flight)
            except Exception as error:
                self._failed(error)
        if flight.follow_up is not None or (flight.links is not None and flight.links.yielded):
            flights.await_no_more(flight)

    def _release(self, flight: Flight) -> None:
        frontier, lease = self._frontier, flight.lease
        is_closing = flight.error is not None and scrapy_internals.is_closing(self._crawler)
        outcome, now = outcome_of(flight, is_closing, self._intake.find), self._clock()
        self._ended_at = now
        links, found = self._links, flight.links
        is_usual = outcome.event is FETCHED and (found is None or not (found.yielded or found.anchors))
        if links is not None and not is_usual:
            outcome = links.end(flight, outcome, now)
        if lease.comes_back or flight.digest or flight.content:
            outcome = with_result(flight, outcome)
        released = frontier.release(lease, outcome, now)
        if not released.is_written:
            self.write_soon()
        if START in flight.request.meta and outcome.event is not FETCHED and not released.is_queued:
            self._seeds.visited(lease.page_id)
        if released.visit is not None:
            self._revisits.report(outcome, released.visit)
        if outcome.reason:
            for code in reasons.codes_in(outcome.reason):
                self._tally[f"frontier/reasons/{code}"] += 1
        self._tally["frontier/late"] += released.is_late
        self._tally["frontier/links/kept"] += released.links
        if lease.page_id in self._requests.in_memory and not released.is_queued:
            self._requests.ended(lease.page_id)

    def write_soon(self) -> None:
        """Have what waits for others written within `WRITTEN_WITHIN` seconds, if no other comes meanwhile.

        Where the engine is a stand-in, which need not have a loop, it is written at once.
        """
        if self._timer is None and not self._is_closed:
            if not self._is_watching:
                self._commit()
                return
            self._timer = scrapy_internals.call_later(WRITTEN_WITHIN, self._commit)

    def _commit(self) -> None:
        self._timer = None
        if not self._is_closed:
            try:
                self._frontier.commit()
            except Exception as error:
                self._failed(error)

    def _response_received(self, response: Any, request: Request) -> None:
        flight = self._flights.get(id(request))
        if flight is not None:
            flight.came_to(response)
            self._ended(request)
