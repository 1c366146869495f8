"""Scrapy's scheduler contract over the frontier.

The frontier decides what becomes of a page. This file does only what Scrapy needs: it passes requests in,
prepares the requests that are handed out, and tells the engine whether to go on. It raises nothing into the
engine.
"""

from __future__ import annotations

import logging
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import CloseSpider, DontCloseSpider
from scrapy.utils.misc import load_object
from twisted.python.failure import Failure

from ..core import reasons
from ..core.errors import FrontierError
from ..core.hosts.host import OPERATOR
from ..core.pages.leases import without_request
from ..core.transitions import Event
from . import scrapy_internals
from .assembly import Crawl
from .codec import Unreadable, copied
from .control import RunningFrontier
from .engine_watch import Watch
from .enqueue import Listed
from .in_flight import ActiveRequest, describe, use_up_retries
from .left_out import left_out_of
from .log import Reporter
from .meta_keys import FORCE, LAST_VISIT, LASTMOD, OF_ONE_VISIT, SLOT
from .orders import take_in
from .private_network import note_led

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.dupefilters import BaseDupeFilter
    from typing_extensions import Self

    from ..core.pages.leases import Lease
    from .robots import Decision

logger = logging.getLogger(__name__)

MOST_UNDER_WAY = 1000  # requests under way at once if CONCURRENT_REQUESTS is 0
SWEEP_INTERVAL = 5.0  # seconds
_MOST_PASSED_OVER = 50  # pages in one call that wait for robots.txt, or have no request; about 2 ms


class FrontierScheduler(BaseScheduler):
    """A scheduler whose queue and seen set are one durable frontier: best first, polite, crash-proof.

    Set ``SCHEDULER = "scrapy_frontier.FrontierScheduler"``. The frontier is in ``FRONTIER_DIR``, or in
    ``<JOBDIR>/frontier/NAME``, or else in a temporary directory.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self._crawl: Crawl | None = None  # while the frontier is open
        self._watch: Watch  # once the frontier was opened
        self._error: FrontierError | None = None
        self._reporter = Reporter(logger, left_out_of(crawler))
        self._tally = self._reporter.tally
        self._enqueue: Callable[[Request], bool] = _refuse  # while the frontier is not open
        self._left = 0  # requests that were queued when it was closed
        self.df: BaseDupeFilter | None = None  # for spiders that look at it, once the frontier was opened
        self._is_sending_idle = False
        self._sweeper: Any = None
        self._server: Any = None  # answers commands and shows the crawl while it runs
        self._progress: Any = None  # on a terminal
        self._most = crawler.settings.getint("CONCURRENT_REQUESTS") or MOST_UNDER_WAY

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Makes the scheduler; `open` opens the frontier."""
        return cls(crawler)

    def __len__(self) -> int:
        return self._crawl.frontier.pending if self._crawl is not None else self._left

    @property
    def dqs(self) -> range:
        """As long as the queue on disk: ``est()`` of Scrapy's telnet console asks."""
        return range(len(self) - len(self.mqs))

    @property
    def mqs(self) -> range:
        """As long as the requests that are in memory only."""
        return range(0 if self._crawl is None else len(self._crawl.requests.in_memory))

    @property
    def frontier(self) -> RunningFrontier:
        """The frontier while it is open, to look into and to steer. Raises `FrontierError` when it is not."""
        if self._crawl is None:
            raise FrontierError("the frontier is not open: use it from spider_opened to spider_closed")
        return RunningFrontier(self._crawl)

    # -- Scrapy's contract ---------------------------------------------------------------------------

    def open(self, spider: Spider) -> None:
        """Opens the frontier; if that fails, logs why and closes the spider, with exit code 1. Raises
        nothing."""
        self.spider = self._reporter.spider = spider
        try:
            self._open(spider)
        except FrontierError as error:
            self._fail(error)
        except Exception as error:
            self._reporter.log(logging.ERROR, "Cannot open the frontier: see below", exc_info=True)
            words = f"cannot open the frontier ({describe(error)}): fix what raised it, or report it"
            self._fail(FrontierError(words))

    def enqueue_request(self, request: Request) -> bool:
        """Takes *request* in; False if it is known, refused, or only made known. Raises nothing."""
        try:
            return self._enqueue(request)
        except Exception as error:
            self._failed(error)
            return False

    def next_request(self) -> Request | None:
        """Returns the best request whose host can take it now, or None: then a timer wakes the engine in
        time. Raises nothing."""
        try:
            return self._next()
        except Exception as error:
            self._failed(error)
            return None

    def has_pending_requests(self) -> bool:
        """Whether a page can be had, or may be about to, or hosts that rest are waited for. A timer wakes
        the engine when a page can be had, or when the crawl ends without it. Raises nothing."""
        try:
            return self._has_pending()
        except Exception as error:
            self._failed(error)
            return self._error is not None  # until the spider is closed for it

    def _has_pending(self) -> bool:
        crawl = self._crawl
        if crawl is None:
            return self._error is not None  # until the spider is closed for it
        if crawl.is_paused:
            return True
        now, end_wait = crawl.clock(), crawl.settings.end_wait
        end = crawl.frontier.ends_at(now, end_wait)
        crawl.log.log_events()
        crawl.engine_timer.set(crawl.frontier.wake_at(), now)
        if end is None:
            return True
        if end > now:
            crawl.log.log_waited_for(now, end, end_wait)
            self._send_idle()
            return True
        return False

    def _send_idle(self) -> None:
        """Sends `spider_idle` while the crawl waits for hosts, as the engine does when nothing is pending: a
        spider may feed itself, or close."""
        if self._is_sending_idle:  # a receiver asks whether the spider is idle
            return
        self._is_sending_idle = True
        expected = (DontCloseSpider, CloseSpider)
        answers = self.crawler.signals.send_catch_log(
            signals.spider_idle, spider=self.spider, dont_log=expected
        )
        self._is_sending_idle = False
        errors = [answer.value for _, answer in answers if isinstance(answer, Failure)]
        closing = [error for error in errors if isinstance(error, CloseSpider)]
        if closing and not any(isinstance(error, DontCloseSpider) for error in errors):
            scrapy_internals.close_spider(self.crawler, closing[-1].reason)

    def close(self, reason: str) -> None:
        """Writes what is open and closes the frontier; the next run fetches what is still under way. Raises
        nothing: errors are logged."""
        if self._sweeper is not None and self._sweeper.running:
            self._sweeper.stop()
        crawl = self._crawl
        if crawl is None:
            return
        self._report(crawl)
        crawl.revisits.log_summary()
        if reason == "finished":
            left_out_of(self.crawler).count("frontier/left_out/next_run", crawl.frontier.pending)
            left_out_of(self.crawler).count("frontier/left_out/blocked", crawl.frontier.withheld)
            crawl.log.log_left_over()
        crawl.log.log_known_seeds(crawl.enqueuer.seeds_left, crawl.enqueuer.first_left)
        self._left = crawl.frontier.pending
        self._crawl, self._enqueue = None, _refuse
        self._watch.close()
        try:
            crawl.close(reason)
        except FrontierError as error:
            self._fail(error)
        except Exception:
            words = (
                "Cannot close the frontier: what was not written yet is fetched again by the next run; see "
                "`scrapy frontier check`, and please report this"
            )
            self._reporter.log(logging.ERROR, words, exc_info=True)

    # -- opening and failing ---------------------------------------------------------------------------

    def _open(self, spider: Spider) -> None:
        crawl = Crawl(self.crawler, spider, self._reporter, self._failed)
        self._crawl, self._watch = crawl, Watch(crawl, self._failed)
        self.df = crawl.df
        crawl.recovery.start()
        crawl.log.log_start(spider, self.crawler.settings)
        self._enqueue = crawl.enqueuer.enqueue
        if crawl.settings.revisits is not None:
            crawl.enqueuer.enqueue_listed(map(Listed, crawl.settings.revisits.hub_urls), None)
        scrapy_internals.switch_jitter_off(self.crawler)
        crawl.output.begin()
        if crawl.shared is None:
            self._serve(crawl)
        else:
            crawl.shared.begin(partial(take_in, crawl), crawl.recovery.start, self._failed)
        self._show_progress(crawl)
        self._sweeper = scrapy_internals.create_looping_call(self._sweep)
        self._sweeper.start(SWEEP_INTERVAL, now=False)

    def _serve(self, crawl: Crawl) -> None:
        """Has a server answer commands and show the crawl, if it is wanted and there is an asyncio loop."""
        port = crawl.settings.dashboard
        if port is None or scrapy_internals.is_inspecting(self.crawler):
            return
        if not scrapy_internals.is_asyncio_available():
            words = "No dashboard, and no commands while the crawl runs: these need Scrapy's asyncio reactor"
            self._reporter.log(logging.INFO, words)
            return
        server = load_object("scrapy_frontier.live.server.LiveServer")  # above this layer; loads aiohttp
        self._server = server(self.crawler, crawl, port)

    def _show_progress(self, crawl: Crawl) -> None:
        """Shows on a terminal how the crawl goes on; it goes on without that, too."""
        if not scrapy_internals.is_terminal(sys.stderr):
            return
        progress = load_object("scrapy_frontier.live.progress.Progress")
        try:
            self._progress = progress.on_terminal(self.crawler, crawl)
        except Exception as error:  # of what stands for a stream
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Counts and logs *error*: raised into the engine it would lose the request, or hang the crawl."""
        if isinstance(error, FrontierError):
            self._fail(error)
            return
        self._tally["frontier/errors"] += 1
        words = "Unexpected error in the frontier; counted as frontier/errors, please report it"
        self._reporter.log_once(f"error {type(error).__name__}", logging.ERROR, words, exc_info=True)

    def _fail(self, error: FrontierError) -> None:
        """Closes the spider, with exit code 1, because the frontier cannot be used; logged once."""
        if self._error is not None:
            return
        self._error, self._enqueue = error, _refuse
        self._reporter.log(logging.ERROR, "%s", error)
        scrapy_internals.fail(self.crawler)
        scrapy_internals.close_spider(self.crawler, error.reason)

    # -- requests out -----------------------------------------------------------------------------------

    def _next(self) -> Request | None:
        crawl = self._crawl
        if crawl is None or self._error is not None or crawl.is_paused:
            return None
        frontier, now = crawl.frontier, crawl.clock()
        if len(crawl.active_requests) >= self._most and not self._watch.is_held_up(now, self._most):
            return None
        for _ in range(_MOST_PASSED_OVER):
            lease = frontier.lease(now)
            if lease is None:
                self._come_back(crawl, now)
                return None
            request = self._request(lease, crawl)
            if request is not None:
                if lease.page.facts.from_public:
                    note_led(request, from_public=True)
                if crawl.gate is None or lease.given_up is not None:  # then nothing is sent
                    return self._hand_out(request, lease, crawl)
                decision = crawl.gate.admit(request, lease, now)
                if decision is not None:
                    return self._hand_out(request, lease, crawl, decision)
        scrapy_internals.wake(self.crawler)  # many new hosts: let the event loop breathe
        return None

    def _come_back(self, crawl: Crawl, now: float) -> None:
        """Has the engine ask again when there may be a request."""
        crawl.engine_timer.set(crawl.frontier.wake_at(), now)
        if crawl.is_temporary and not crawl.active_requests and scrapy_internals.stays_open(self.crawler):
            self._has_pending()  # the user of the shell waits for the page, which may be given up

    def _request(self, lease: Lease, crawl: Crawl) -> Request | None:
        """The request for the page of *lease*; None if there is none any more: then the lease is released."""
        page, requests = lease.page, crawl.requests
        request = requests.in_memory.get(lease.public_id)
        if request is not None:
            # The engine cannot tell an object that it has already from itself.
            return copied(request) if self._watch.is_under_way(request) else request
        cause = ""
        if not page.is_in_memory:
            payload = page.visit_payload or page.payload
            try:
                return requests.codec.decode(page.url, page.priority, payload)
            except Unreadable as error:
                self._tally["frontier/unreadable"] += 1
                cause = str(error)
        self._end_without_request(lease, cause, crawl)
        return None

    def _end_without_request(self, lease: Lease, cause: str, crawl: Crawl) -> None:
        outcome = without_request(lease, cause)
        url, log = lease.page.url, self._reporter
        if outcome.event is Event.LOST:
            remedy = "; it comes back when that is there again" if cause else ""
            level = logging.WARNING if cause else logging.INFO
            words = "%s is known, but not fetched: %s%s (said once)"
            log.log_once("lost", level, words, url, cause or reasons.LOST(), remedy)
        else:
            log.log(logging.ERROR, "Set aside %s: %s; fix that and `scrapy frontier requeue` it", url, cause)
        now = crawl.clock()
        crawl.frontier.skip_visit(lease, now)
        crawl.frontier.release(lease, outcome, now)
        for code in reasons.codes_in(outcome.reason):
            self._tally[f"frontier/reasons/{code}"] += 1

    def _hand_out(
        self, request: Request, lease: Lease, crawl: Crawl, robots: Decision | None = None
    ) -> Request:
        is_sending = bool(lease.delay) and crawl.frontier.will_send(lease, lease.leased_at)
        if OPERATOR in lease.asked:
            scrapy_internals.set_slot_delay(self.crawler, lease.host, lease.delay)
        last_visit = 0
        if lease.node is None:
            fingerprint = crawl.requests.fingerprint_of(lease.page, request)
            last_visit = crawl.frontier.bind_lease(lease, fingerprint)
        active = crawl.active_requests[request] = ActiveRequest(
            request, lease, is_sending, robots, request.callback
        )
        is_in_memory = lease.public_id in crawl.requests.in_memory
        self._tally["scheduler/dequeued/memory" if is_in_memory else "scheduler/dequeued/disk"] += 1
        meta = request.meta
        for name in OF_ONE_VISIT:  # of the page before, if a spider handed its meta on
            meta.pop(name, None)
        if lease.comes_back:
            if not lease.page.attempts:  # those of another visit
                meta.pop("retry_times", None)
            if lease.page.visits is not None and lease.page.visits.visits:
                last_visit = lease.page.visits.last
        known = (LAST_VISIT, last_visit or None), (LASTMOD, lease.page.lastmod)
        for name, value in (*known, (FORCE, lease.page.facts.force)):
            if value is not None:
                meta[name] = value
        is_last = lease.is_last_attempt and lease.is_last_of(crawl.settings.attempts_for(meta))
        if is_last or (lease.given_up is not None and active.is_given_up):
            use_up_retries(request, crawl.settings.retry_times)
        if lease.given_up is not None and active.is_given_up:
            left_out_of(self.crawler).add("frontier/left_out/given_up", request, lease.given_up.reason)
        active.has_own_slot = bool(meta.get(SLOT))
        if not active.has_own_slot and lease.page.host:  # a politeness key that is no host
            meta[SLOT] = lease.host
        return request

    # -- every few seconds --------------------------------------------------------------------------------

    def _sweep(self) -> None:
        """Releases what left the engine unseen, commits, reports. Runs every `SWEEP_INTERVAL` seconds."""
        crawl = self._crawl
        if crawl is None:
            return
        try:
            self._watch.sweep()
            self._report(crawl)
            crawl.log.log_progress(crawl.clock())
            if self._error is None:
                crawl.frontier.commit()
        except Exception as error:  # a looping call that raises is never called again
            self._failed(error)

    def _report(self, crawl: Crawl) -> None:
        crawl.log.log_events()
        self._reporter.report(self.crawler.stats, crawl.frontier)


def _refuse(request: Request) -> bool:
    return False
