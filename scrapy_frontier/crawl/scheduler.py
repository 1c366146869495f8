"""Scrapy's scheduler contract over the frontier.

Thin: every decision about a page is the frontier's. Here live what only Scrapy needs: which request
requests come in (`enqueue`), what was seen of each on its way (`in_flight`), the timer that wakes the engine
when a host may be visited again (it would sleep up to 5 s), and the promise that no method ever raises.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.core.scheduler import BaseScheduler

from ..core.errors import FrontierError, FrontierUnwritable
from ..core.hosts.host import FOREVER
from ..core.pages.leases import NO_LEASE, Lease, Outcome
from ..core.pages.lifecycle import Event
from ..core.store.meta_rows import IN_MEMORY
from ..core.store.states import FINISHED, State
from ..core.times import moment
from ..settings import unknown_names
from . import compat, downloader
from .callbacks import Unreadable
from .codec import Codec, use_up_retries
from .enqueue import Intake
from .in_flight import LATENCY, Flight, Flights, describe, outcome_of
from .jobdirs import JobdirUnusable
from .meta_keys import AUTO_SLOT, SLOT
from .runtime import Runtime
from .stats import Notes, inventory

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from ..core.frontier import Frontier
    from ..core.hosts.finish import Left

logger = logging.getLogger(__name__)

LOST = "its request was only in the memory of a crawl that has ended; a link or a seed brings it back"
UNLIMITED = 1000  # requests under way at once where CONCURRENT_REQUESTS is 0
SWEEP_INTERVAL = 5.0  # seconds
LOADING = 0.005  # seconds the first requests may wait for hosts to be loaded
LOAD_AT_ONCE = 30  # hosts, about 1 ms
_MOST_PASSED_OVER = 50  # pages in one go that wait for robots.txt, or have no request, about 2 ms


class FrontierScheduler(BaseScheduler):
    """A scheduler whose queue and seen set are one durable frontier: best first, polite, crash-proof.

    Set ``SCHEDULER = "scrapy_frontier.FrontierScheduler"``. The frontier lies in ``FRONTIER_DIR``, or in
    ``<JOBDIR>/frontier``, or else in a temporary directory.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.runtime: Runtime | None = None
        self._error: FrontierError | None = None
        self._notes = Notes(logger)
        self._tally = self._notes.tally
        self._flights = Flights(crawler, self._sent, self._left, self._ended)
        self._intake: Intake | None = None
        self._enqueue: Callable[[Request], bool] = _refuse  # until the frontier is open, and once it is not
        self._last: list[Lease] = []  # of pages that no other run can fetch; the crawl is about to end
        self._timer: Any = None
        self._timer_at = float("inf")
        self._is_told_until = 0.0  # for whom the crawl waits
        self._sweeper: Any = None
        self._most = crawler.settings.getint("CONCURRENT_REQUESTS") or UNLIMITED
        self._follows_throttle = crawler.settings.getbool("AUTOTHROTTLE_ENABLED")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def __len__(self) -> int:
        return self.runtime.frontier.pending if self.runtime is not None else 0

    # -- Scrapy's contract ---------------------------------------------------------------------------

    def open(self, spider: Spider) -> None:
        """Open the frontier; if that fails, say why and close the spider."""
        self.spider = self._notes.spider = spider
        try:
            self._open(spider)
        except FrontierError as error:
            if isinstance(error, JobdirUnusable | FrontierUnwritable):
                compat.forget_spider_state(self.crawler)
            self._give_up(error)
        except Exception as error:
            logger.error("Cannot open the frontier", exc_info=True, extra={"spider": spider})
            self._give_up(FrontierError(f"cannot open the frontier: {describe(error)}"))

    def enqueue_request(self, request: Request) -> bool:
        """Take *request* in; False for what is known already or cannot be stored."""
        try:
            return self._enqueue(request)
        except Exception as error:
            self._failed(error)
            return False

    def next_request(self) -> Request | None:
        """The best request whose host can take it now, or None; then a timer wakes the engine in time."""
        try:
            return self._next()
        except Exception as error:
            self._failed(error)
            return None

    def has_pending_requests(self) -> bool:
        if self.runtime is None:
            return self._error is not None  # until the spider is closed for it
        frontier, now = self.runtime.frontier, self.runtime.clock()
        if frontier.is_refilling:
            return True
        if not frontier.pending:
            return self._ends_in_memory(frontier, now)
        end = frontier.ends_at(now, self.runtime.settings.end_wait)
        self._say_who_is_given_up(frontier)
        self._wake_in_time(frontier.wake_at(), now)
        if end is not None and end > now >= self._is_told_until:
            self._is_told_until = now + self.runtime.settings.end_wait
            left = frontier.left_over(now)
            self._notes.log(
                logging.INFO,
                "Waiting: %s; the crawl goes on at %s, or ends at %s if no page comes until then",
                _left(left),
                moment(left.first),
                moment(end),
            )
        return end is None or end > now or self._ends_in_memory(frontier, now)

    def close(self, reason: str) -> None:
        """Write what is open and close the frontier; requests under way are fetched by the next run."""
        self._cancel_timer()
        if self._sweeper is not None and self._sweeper.running:
            self._sweeper.stop()
        runtime = self.runtime
        if runtime is None:
            return
        self._report()
        self._say_what_is_left(runtime, reason)
        self._say_which_seeds_are_known(runtime)
        self.runtime, self._enqueue = None, _refuse
        try:
            runtime.close()
        except FrontierError as error:
            self._give_up(error)
        except Exception:
            logger.error("Cannot close the frontier", exc_info=True, extra={"spider": self.spider})
        if self._intake is not None:
            self._intake.close(reason)

    # -- opening and failing ---------------------------------------------------------------------------

    def _open(self, spider: Spider) -> None:
        crawler = self.crawler
        runtime = self.runtime = Runtime(crawler, spider)
        runtime.flights = self._flights
        self._codec = Codec(spider)
        self._intake = runtime.intake = Intake(crawler, runtime, self._codec, self._flights, self._notes)
        if runtime.records_links:
            from .outlinks import Outlinks

            everything = runtime.settings.links == "all"
            runtime.links = Outlinks(runtime, self._intake, self._flights, self._notes, everything)
        frontier = runtime.frontier
        begin = time.perf_counter()
        while not frontier.load(runtime.clock(), LOAD_AT_ONCE) and time.perf_counter() - begin < LOADING:
            pass
        self._say_how_it_begins(runtime)
        self._enqueue = self._intake.enqueue
        downloader.steady_downloader(crawler)
        if self._flights.watch():
            self._sweeper = compat.create_looping_call(self._sweep)
            self._sweeper.start(SWEEP_INTERVAL, now=False)

    def _failed(self, error: Exception) -> None:
        """Nothing may be raised into the engine: it would lose the request, or hang."""
        if isinstance(error, FrontierError):
            self._give_up(error)
            return
        self._tally["frontier/errors"] += 1
        self._notes.say_once(
            f"error {type(error).__name__}",
            logging.ERROR,
            "The frontier met an error nobody foresaw; counted as frontier/errors, please report it",
            exc_info=True,
        )

    def _give_up(self, error: FrontierError) -> None:
        """Close the spider because the frontier cannot be used, with exit code 1; said once."""
        if self._error is not None:
            return
        self._error, self._enqueue = error, _refuse
        logger.error("%s", error, extra={"spider": self.spider})
        compat.fail(self.crawler)
        engine = compat.engine_of(self.crawler)
        if engine is not None and getattr(engine, "running", False):
            compat.close_spider(self.crawler, error.reason)
        else:
            self.crawler.signals.connect(self._close_for_error, signals.engine_started)

    def _close_for_error(self) -> None:
        if self._error is not None:
            compat.close_spider(self.crawler, self._error.reason)

    # -- requests out -----------------------------------------------------------------------------------

    def _next(self) -> Request | None:
        runtime = self.runtime
        if runtime is None or self._error is not None or len(self._flights) >= self._most:
            return None
        frontier, now = runtime.frontier, runtime.clock()
        if self._last:
            return self._hand_out_last(self._last.pop(), runtime)
        if not frontier.is_loaded and not frontier.load(now, LOAD_AT_ONCE):
            compat.wake(self.crawler)
        passed_over = 0
        while (lease := frontier.lease(now)) is not None:
            request = self._request(lease, runtime)
            if request is not None:
                gate = runtime.gate if lease.given_up is None else None  # else nobody is asked for anything
                if gate is None or gate.admits(request, lease, now):
                    return self._hand_out(request, lease, runtime)
                if self._intake is not None and not self._intake.objects.holds(lease.page_id):
                    self._intake.objects.keep(lease.page_id, request)
            passed_over += 1
            if passed_over == _MOST_PASSED_OVER:  # many new hosts: let the event loop breathe
                compat.wake(self.crawler)
                return None
        if frontier.unreadable:
            self._report_unreadable(frontier.unreadable)
        self._wake_in_time(frontier.wake_at(), now)
        return None

    def _request(self, lease: Lease, runtime: Runtime) -> Request | None:
        page = lease.page
        request = self._intake.objects.recall(lease.page_id) if self._intake is not None else None
        if request is None:
            try:
                if not page.payload.startswith(IN_MEMORY):
                    return self._codec.decode(page.url, page.priority, page.payload)
                self._say_lost(page.url)
                outcome = Outcome(Event.LOST, reason=LOST)
            except Unreadable as reason:
                self._tally["frontier/unreadable"] += 1
                logger.error("Set aside %s: %s", page.url, reason, extra={"spider": self.spider})
                outcome = Outcome(Event.FAILED, reason=f"unreadable record: {reason}")
            now = runtime.clock()
            runtime.frontier.skip_visit(lease.id, now)
            runtime.frontier.release(lease.id, outcome, now)
            return None
        in_progress = compat.in_progress(self.crawler)
        if request in self._flights or (in_progress is not None and request in in_progress):
            return request.replace()  # the engine cannot tell one object from itself
        return request

    def _hand_out(self, request: Request, lease: Lease, runtime: Runtime) -> Request:
        is_sending = self._flights.tells_sent and runtime.frontier.sending(lease.id, lease.leased_at)
        self._flights.start(request, lease, is_sending)
        held = self._intake is not None and self._intake.objects.holds(lease.page_id)
        self._tally["scheduler/dequeued/memory" if held else "scheduler/dequeued/disk"] += 1
        meta = request.meta
        meta.pop(LATENCY, None)  # of the page before, where a spider handed its meta on
        is_given_up = lease.given_up is not None and not meta.get("proxy")
        if is_given_up or lease.page.attempts + 1 >= runtime.settings.max_attempts:
            use_up_retries(request, runtime.settings.retry_times)
        if not lease.page.host:
            meta[AUTO_SLOT] = lease.host
        elif meta.get(SLOT) is None:  # a unit of politeness that is no host
            meta[SLOT] = meta[AUTO_SLOT] = lease.host
        return request

    def _ends_in_memory(self, frontier: Frontier, now: float) -> bool:
        """Whether there are pages that no other run can fetch: they end in this one, with an error."""
        if self._intake is None or self._last:
            return bool(self._last)
        leases = (frontier.last_lease(page_id, now) for page_id in self._intake.objects.held())
        self._last = [lease for lease in leases if lease is not None]
        if self._last:
            self._notes.log(logging.INFO, "%d requests are in memory only: they end now", len(self._last))
            compat.wake(self.crawler)
        return bool(self._last)

    def _hand_out_last(self, lease: Lease, runtime: Runtime) -> Request | None:
        request = self._request(lease, runtime)
        if self._intake is not None:
            self._intake.objects.drop(lease.page_id)
        return None if request is None else self._hand_out(request, lease, runtime)

    def _say_lost(self, url: str) -> None:
        self._notes.say_once(
            "lost",
            logging.INFO,
            "%s is known, but not fetched: %s (said once)",
            url,
            LOST,
        )

    def _report_unreadable(self, page_ids: list[int]) -> None:
        self._tally["frontier/unreadable"] += len(page_ids)
        logger.error(
            "Set aside %d rows of the frontier that cannot be read: pages %s",
            len(page_ids),
            ", ".join(map(str, page_ids[:20])),
            extra={"spider": self.spider},
        )
        page_ids.clear()

    # -- releases ---------------------------------------------------------------------------------------

    def _sent(self, flight: Flight) -> None:
        runtime = self.runtime
        if runtime is None:
            return
        try:
            now = runtime.clock()
            runtime.frontier.sent(flight.lease.id, now)
            self._wake_in_time(runtime.frontier.wake_at(), now)
        except Exception as error:
            self._failed(error)

    def _left(self, flight: Flight) -> None:
        runtime = self.runtime
        if runtime is None:
            return
        frontier, lease, now = runtime.frontier, flight.lease, runtime.clock()
        try:
            if self._follows_throttle:
                slot = downloader.download_slot(self.crawler, lease.host)
                if slot is not None:
                    frontier.set_delay(lease.host, slot.delay, now)
            frontier.off_wire(lease.id, now, flight.response_time)
        except Exception as error:
            self._failed(error)

    def _ended(self, flight: Flight) -> None:
        runtime = self.runtime
        if runtime is None:
            return
        try:
            is_closing = flight.error is not None and compat.is_closing(self.crawler)
            outcome, now = outcome_of(flight, is_closing), runtime.clock()
            if flight.led_to is not None and outcome.target is None:
                target = runtime.frontier.find(runtime.fingerprint(flight.led_to))
                outcome = outcome._replace(target=target)
            links, page_id = None, None
            if runtime.links is not None and self._intake is not None:
                page_id = self._intake.page_of(flight)
                links = runtime.links.of(flight, outcome, page_id, now)
            state = runtime.frontier.release(flight.lease.id, outcome, now, links, page_id)
            if state is None and flight.lease.id != NO_LEASE:
                self._tally["frontier/late"] += 1
                page = runtime.frontier.page(flight.lease.page_id)
                state = None if page is None else page.state
            if state is not State.QUEUED and self._intake is not None:
                self._intake.objects.drop(flight.lease.page_id)
        except Exception as error:
            self._failed(error)

    def _sweep(self) -> None:
        """Release what left the engine unseen, write, report. Runs every `SWEEP_INTERVAL` seconds."""
        try:
            if swept := self._flights.sweep():
                self._tally["frontier/swept"] += swept
            self._report()
            if self.runtime is not None and self._error is None:
                self.runtime.frontier.commit()
        except Exception as error:  # a looping call that raises is never called again
            self._failed(error)

    # -- waking up and telling --------------------------------------------------------------------------

    def _wake_in_time(self, when: float | None, now: float) -> None:
        if self._sweeper is None or when is None or when >= self._timer_at:
            return
        self._cancel_timer()
        self._timer_at = when
        self._timer = compat.call_later(max(0.0, when - now), self._wake)

    def _wake(self) -> None:
        self._timer, self._timer_at = None, float("inf")
        compat.wake(self.crawler)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, float("inf")

    def _say_what_is_left(self, runtime: Runtime, reason: str) -> None:
        """Where a crawl ended although pages are left, say of whom, and when to come back."""
        if reason == "finished" and runtime.frontier.withheld:
            blocked = runtime.frontier.withheld
            pages = "1 page stays" if blocked == 1 else f"{blocked} pages stay"
            unblock = "`scrapy frontier unblock HOST` and run the crawl again to fetch them"
            self._notes.log(logging.WARNING, "%s queued, of hosts that are blocked; %s", pages, unblock)
        if reason != "finished" or not runtime.frontier.pending:
            return
        left = runtime.frontier.left_over(runtime.clock())
        remedy = "they are lost: set JOBDIR or FRONTIER_DIR to keep them"
        if not runtime.is_temporary:
            remedy = "they stay queued: run the crawl again"
            if left.first < FOREVER:
                remedy += f", the first may be visited at {moment(left.first)}, or raise FRONTIER_END_WAIT"
        self._notes.log(logging.WARNING, "%s; %s", _left(left), remedy)

    def _say_which_seeds_are_known(self, runtime: Runtime) -> None:
        """Who runs a crawl a second time must see why the feed has nothing in it."""
        if self._intake is None or not (count := self._intake.known_seeds):
            return
        seeds = "1 seed is" if count == 1 else f"{count} seeds are"
        known = f"{seeds} known from an earlier run ({self._intake.known_seed}{' ...' if count > 1 else ''})"
        if self._tally["scheduler/dequeued/disk"] or self._tally["scheduler/dequeued/memory"]:
            self._notes.log(logging.INFO, "%s, and not fetched again", known)
            return
        states = runtime.frontier.counts.states
        self._notes.log(
            logging.WARNING,
            "Nothing was fetched: %s, and pages are fetched once. To fetch them again: scrapy frontier "
            "requeue --state %s; or another JOBDIR; or frontier_every_run in the meta of a seed",
            known,
            ",".join(state.name.lower() for state in FINISHED if states[state]),
        )

    def _say_how_it_begins(self, runtime: Runtime) -> None:
        frontier, left = runtime.frontier, self._left_by_scrapy()
        other = frontier.used_by(self.spider.name)
        what = inventory(frontier.counts.states)
        if frontier.pending:
            self._notes.log(
                logging.INFO, "Resuming crawl (%d requests scheduled): %s", frontier.pending, what
            )
            if other is not None:
                self._notes.log(
                    logging.WARNING,
                    "These are requests of spider %r. Unless it was renamed to %r, stop and give each spider "
                    "a directory of its own: pages whose callback is missing here end as failed",
                    other,
                    self.spider.name,
                )
        elif sum(frontier.counts.states):
            self._notes.log(logging.INFO, "%s", what)
        elif left:
            self._notes.log(
                logging.WARNING,
                "%s holds the queue of Scrapy's own scheduler, which is not read: this crawl begins anew. To "
                "go on with that one, unset SCHEDULER and the add-on; else remove the directory",
                left,
            )
        for name, likely in unknown_names(self.crawler.settings):
            meant = f": is {likely} meant?" if likely else ""
            self._notes.log(logging.WARNING, "There is no setting %s%s", name, meant)
        if runtime.is_temporary:
            self._notes.log(logging.INFO, "The frontier is temporary: set JOBDIR or FRONTIER_DIR to keep it")

    def _left_by_scrapy(self) -> str | None:
        """The directory of requests that Scrapy's own scheduler has left in the job directory."""
        directory = Path(self.crawler.settings["JOBDIR"] or "", "requests.queue")
        is_there = self.crawler.settings["JOBDIR"] and directory.is_dir() and any(directory.iterdir())
        return str(directory) if is_there else None

    def _say_who_is_given_up(self, frontier: Frontier) -> None:
        for host, trouble in frontier.given_up:
            self._notes.log(
                logging.INFO,
                "Gave up %s: %s; its pages end with that (%d are queued for this host)",
                trouble.origin or host.name,
                trouble.reason,
                host.queued,
            )
        frontier.given_up.clear()

    def _report(self) -> None:
        if self.runtime is not None:
            self._say_who_is_given_up(self.runtime.frontier)
        if self.runtime is not None and self.runtime.gate is not None:
            self.runtime.gate.report()
        if self.crawler.stats is not None and self.runtime is not None:
            self._notes.report(self.crawler.stats, self.runtime.frontier)


def _refuse(request: Request) -> bool:
    return False


def _left(left: Left) -> str:
    names = ", ".join(left.names) + (" ..." if left.hosts > len(left.names) else "")
    pages = "1 page is" if left.pages == 1 else f"{left.pages} pages are"
    hosts = "1 host" if left.hosts == 1 else f"{left.hosts} hosts"
    doing = f": {' or '.join(left.doing)}" if left.doing else ""
    return f"{pages} left, of {hosts} ({names}){doing}"
