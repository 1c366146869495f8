"""Scrapy's scheduler contract over the frontier.

Thin: every decision about a page is the frontier's. Here live what only Scrapy needs: which request
objects are alive, what was seen of each request on its way (`outcomes`), the timer that wakes the engine
when a host may be visited again (it would sleep up to 5 s), and the promise that no method ever raises.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.utils.misc import build_from_crawler, load_object

from . import compat, requests
from .core import keys
from .core.errors import FrontierError
from .core.frontier import NEUTRAL, Link
from .core.hosts import host_of
from .core.leases import Lease, Outcome
from .core.lifecycle import Event, State
from .flights import Flight, Flights, describe, verdict
from .requests import AUTO_SLOT, START, Codec, Unreadable, Unstorable
from .runtime import Runtime

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from typing_extensions import Self

logger = logging.getLogger(__name__)

RECENT = 50_000  # URL texts in each of two generations; about 160 bytes each
LIVE = 250  # requests kept as the objects they were in each of two generations, about 3 KB each
UNLIMITED = 1000  # requests under way at once where CONCURRENT_REQUESTS is 0
SWEEP_INTERVAL = 5.0  # seconds
LOADING = 0.02  # seconds the first requests may wait for hosts to be loaded
_SLOT = "download_slot"


class FrontierScheduler(BaseScheduler):
    """A scheduler whose queue and seen set are one durable frontier: best first, polite, crash-proof.

    Set ``SCHEDULER = "scrapy_frontier.FrontierScheduler"``. The frontier lies in ``FRONTIER_DIR``, or in
    ``<JOBDIR>/frontier``, or else in a temporary directory.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.runtime: Runtime | None = None
        self._error: FrontierError | None = None
        self._flights = Flights(crawler, self._left, self._ended)
        self._live: dict[int, Request] = {}
        self._unstored: dict[int, Request] = {}
        self._recent: set[str] = set()
        self._recent_before: set[str] = set()
        self._live_before: dict[int, Request] = {}
        self._tally: Counter[str] = Counter()
        self._timer: Any = None
        self._timer_at = float("inf")
        self._sweeper: Any = None
        self._dupefilter: BaseDupeFilter | None = None
        self._filters = True
        self._said: set[str] = set()
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
        self.spider = spider
        try:
            self._open(spider)
        except FrontierError as error:
            self._give_up(error)
        except Exception as error:
            logger.error("Cannot open the frontier", exc_info=True, extra={"spider": spider})
            self._give_up(FrontierError(f"cannot open the frontier: {describe(error)}"))

    def enqueue_request(self, request: Request) -> bool:
        """Take *request* in; False for what is known already or cannot be stored."""
        # Nine links in ten are known, most of them met a moment ago: for these the text of the URL says so.
        url = request.url
        if (
            (url in self._recent or url in self._recent_before)
            and not self._flights.have_children
            and not request.dont_filter
            and request.method == "GET"
            and not request.body
            and not request.meta.get("verbatim_url")
        ):
            self._tally["dupefilter/filtered"] += 1
            return False
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
        return self.runtime.frontier.pending > 0

    def close(self, reason: str) -> None:
        """Write what is open and close the frontier; requests under way are fetched by the next run."""
        self._cancel_timer()
        if self._sweeper is not None and self._sweeper.running:
            self._sweeper.stop()
        runtime = self.runtime
        if runtime is None:
            return
        self._report()
        self.runtime = None
        try:
            runtime.close()
        except FrontierError as error:
            self._give_up(error)
        except Exception:
            logger.error("Cannot close the frontier", exc_info=True, extra={"spider": self.spider})
        if self._dupefilter is not None:
            self._dupefilter.close(reason)

    # -- opening and failing ---------------------------------------------------------------------------

    def _open(self, spider: Spider) -> None:
        crawler = self.crawler
        runtime = self.runtime = Runtime(crawler, spider)
        self._codec = Codec(spider)
        self._open_dupefilter()
        frontier = runtime.frontier
        begin = time.perf_counter()
        while not frontier.load(runtime.clock()) and time.perf_counter() - begin < LOADING:
            pass
        if frontier.pending:
            logger.info("Resuming crawl (%d requests scheduled)", frontier.pending, extra={"spider": spider})
        if runtime.is_temporary:
            logger.info(
                "The frontier is temporary: set JOBDIR or FRONTIER_DIR to keep it", extra={"spider": spider}
            )
        if self._flights.watch():
            self._sweeper = compat.create_looping_call(self._sweep)
            self._sweeper.start(SWEEP_INTERVAL, now=False)

    def _open_dupefilter(self) -> None:
        cls = load_object(self.crawler.settings["DUPEFILTER_CLASS"])
        self._filters = cls is not BaseDupeFilter
        if cls not in (BaseDupeFilter, RFPDupeFilter):
            self._dupefilter = build_from_crawler(cls, self.crawler)
            self._dupefilter.open()

    def _failed(self, error: Exception) -> None:
        """Nothing may be raised into the engine: it would lose the request, or hang."""
        if isinstance(error, FrontierError):
            self._give_up(error)
            return
        self._tally["frontier/errors"] += 1
        self._say_once(
            f"error {type(error).__name__}",
            logging.ERROR,
            "The frontier met an error nobody foresaw; counted as frontier/errors, please report it",
            exc_info=True,
        )

    def _give_up(self, error: FrontierError) -> None:
        """Close the spider because the frontier cannot be used; said once."""
        if self._error is not None:
            return
        self._error = error
        logger.error("%s", error, extra={"spider": self.spider})
        engine = compat.engine_of(self.crawler)
        if engine is not None and getattr(engine, "running", False):
            compat.close_spider(self.crawler, error.reason)
        else:
            self.crawler.signals.connect(self._close_for_error, signals.engine_started)

    def _close_for_error(self) -> None:
        if self._error is not None:
            compat.close_spider(self.crawler, self._error.reason)

    def _say_once(self, key: str, level: int, message: str, *values: Any, exc_info: bool = False) -> None:
        if key not in self._said:
            self._said.add(key)
            logger.log(level, message, *values, exc_info=exc_info, extra={"spider": self.spider})

    # -- requests in ------------------------------------------------------------------------------------

    def _enqueue(self, request: Request) -> bool:
        runtime = self.runtime
        if runtime is None or self._error is not None:
            return False
        flight = self._flights.leading_to(request)
        if flight is not None and _times(request, "retry_times") > _times(flight.request, "retry_times"):
            return self._retry(flight, request, runtime)
        if (
            self._dupefilter is not None
            and not request.dont_filter
            and self._dupefilter.request_seen(request)
        ):
            self._tally["dupefilter/filtered"] += 1
            return False
        fingerprint = self._fingerprint(request, runtime)
        again = request.dont_filter or not self._filters
        parent = None
        if flight is not None:
            known = runtime.frontier.find(fingerprint)
            if self._redirected(flight, request, known):
                return True
            parent = flight.lease.page_id
        if again and self._filters and _is_seed(request):
            known = runtime.frontier.find(fingerprint)
            again = known is not None and self._is_wanted_again(known, request, runtime)
        page_id = self._discover(request, fingerprint, again, parent, runtime)
        if page_id is None:
            self._filtered(request)
            return False
        if flight is not None and flight.child_outcome is not None:
            flight.child_outcome = flight.child_outcome._replace(target=page_id)
        return True

    def _fingerprint(self, request: Request, runtime: Runtime) -> bytes:
        """Who *request* is; a URL that alone says so is remembered."""
        if not (
            runtime.is_default_fingerprinter
            and request.method == "GET"
            and not request.body
            and not request.meta.get("verbatim_url")
        ):
            return runtime.fingerprint(request)
        url = request.url
        if self._filters:
            self._recent.add(url)
            if len(self._recent) >= RECENT:
                self._recent, self._recent_before = set(), self._recent
        return requests.plain_fingerprint(url) or runtime.fingerprint(request)

    def _discover(
        self, request: Request, fingerprint: bytes, again: bool, parent: int | None, runtime: Runtime
    ) -> int | None:
        url_host = host_of(request.url)
        host = self._host_key(request, url_host)
        payload, stored = self._payload(request)
        link = Link(
            fingerprint,
            request.url,
            host,
            request.priority,
            payload,
            parent,
            NEUTRAL,
            again,
            stored,
            "" if host == url_host else host,
        )
        page_id = runtime.frontier.discover((link,), runtime.clock())[0]
        if page_id is not None:
            self._keep(page_id, request, stored)
        return page_id

    def _payload(self, request: Request) -> tuple[bytes, bool]:
        try:
            return self._codec.encode(request), True
        except Unstorable as reason:
            self._tally["scheduler/unserializable"] += 1
            self._say_once(
                "unstorable",
                logging.WARNING,
                "Unable to serialize request: %s - reason: %s; it would not survive a restart (said once)",
                request,
                reason,
            )
            return b"", False

    def _host_key(self, request: Request, url_host: str) -> str:
        """The download slot the user chose, else the URL's host; an inherited slot is dropped."""
        meta = request.meta
        slot = meta.get(_SLOT)
        if slot is None:
            return url_host
        if slot == meta.pop(AUTO_SLOT, None):
            del meta[_SLOT]
            return url_host
        return keys.clean_host(str(slot))

    def _keep(self, page_id: int, request: Request, stored: bool) -> None:
        """Keep the object itself for a while: ``scrapy shell`` goes on changing it after it was queued."""
        tally = self._tally
        tally["scheduler/enqueued"] += 1
        if stored:
            tally["scheduler/enqueued/disk"] += 1
            self._live[page_id] = request
            if len(self._live) >= LIVE:
                self._live, self._live_before = {}, self._live
        else:
            tally["scheduler/enqueued/memory"] += 1
            self._unstored[page_id] = request

    def _filtered(self, request: Request) -> None:
        self._tally["dupefilter/filtered"] += 1
        self._say_once(
            "filtered",
            logging.DEBUG,
            "Filtered a known page, %s (said once; see dupefilter/filtered)",
            request,
        )

    def _is_wanted_again(self, known: int, request: Request, runtime: Runtime) -> bool:
        """Whether a seed that is known must be fetched again.

        Seeds come with ``dont_filter`` at every start. Repeated within one run they are meant; known from an
        earlier run only one that failed is tried again.
        """
        frontier = runtime.frontier
        page = frontier.page(known)
        if page is None:  # it lives in memory, so in this run
            return True
        if known >= frontier.first_page_of_run:
            return START.encode() in page.payload
        if page.state is State.FAILED:
            payload, stored = self._payload(request)
            if stored and frontier.requeue(known, runtime.clock(), payload, request.priority):
                self._keep(known, request, True)
        return False

    # -- requests that follow from others ---------------------------------------------------------------

    def _retry(self, flight: Flight, child: Request, runtime: Runtime) -> bool:
        payload, stored = self._payload(child)
        lease = flight.lease
        flight.child_outcome = Outcome(
            Event.RETRIED,
            flight.status,
            f"HTTP {flight.status}" if flight.status else "to be retried",
            payload=payload if stored else None,
            priority=child.priority,
            delay=runtime.settings.backoff(lease.page.attempts + 1),
        )
        if lease.page_id in self._unstored or not stored:
            self._unstored[lease.page_id] = child
        self._tally["frontier/retries"] += 1
        return True

    def _redirected(self, flight: Flight, child: Request, known: int | None) -> bool:
        """Note that a flight led to *child*; true when that is the same page once more (a cookie, say)."""
        lease = flight.lease
        if known is not None and known == lease.page_id:
            payload, stored = self._payload(child)
            flight.child_outcome = Outcome(
                Event.RETRIED, reason="redirected to itself", payload=payload if stored else None
            )
            return True
        flight.child_outcome = Outcome(Event.REDIRECTED, reason=f"led to {child.url[:200]}", target=known)
        return False

    # -- requests out -----------------------------------------------------------------------------------

    def _next(self) -> Request | None:
        runtime = self.runtime
        if runtime is None or self._error is not None or len(self._flights) >= self._most:
            return None
        frontier, now = runtime.frontier, runtime.clock()
        if not frontier.is_loaded and not frontier.load(now):
            compat.wake(self.crawler)
        while (lease := frontier.lease(now)) is not None:
            request = self._request(lease, runtime)
            if request is not None:
                return self._hand_out(request, lease)
        if frontier.unreadable:
            self._report_unreadable(frontier.unreadable)
        self._wake_in_time(frontier.wake_at(), now)
        return None

    def _request(self, lease: Lease, runtime: Runtime) -> Request | None:
        page = lease.page
        page_id = lease.page_id
        request = self._live.pop(page_id, None) or self._live_before.pop(page_id, None)
        if request is None and self._unstored:
            request = self._unstored.pop(page_id, None)
        if request is None:
            try:
                return self._codec.decode(page.url, page.priority, page.payload)
            except Unreadable as reason:
                self._tally["frontier/unreadable"] += 1
                logger.error("Set aside %s: %s", page.url, reason, extra={"spider": self.spider})
                outcome = Outcome(Event.FAILED, reason=f"unreadable record: {reason}")
                runtime.frontier.release(lease.id, outcome, runtime.clock())
                return None
        in_progress = compat.in_progress(self.crawler)
        if request in self._flights or (in_progress is not None and request in in_progress):
            return request.replace()  # the engine cannot tell one object from itself
        return request

    def _hand_out(self, request: Request, lease: Lease) -> Request:
        self._flights.start(request, lease)
        stored = lease.is_stored
        self._tally["scheduler/dequeued"] += 1
        self._tally["scheduler/dequeued/disk" if stored else "scheduler/dequeued/memory"] += 1
        if not lease.page.host:
            request.meta[AUTO_SLOT] = lease.host
        slot = compat.download_slot(self.crawler, lease.host)
        if slot is not None:
            compat.steady_slot(slot)
        return request

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

    def _left(self, flight: Flight) -> None:
        runtime = self.runtime
        if runtime is None:
            return
        frontier, lease, now = runtime.frontier, flight.lease, runtime.clock()
        try:
            if self._follows_throttle:
                slot = compat.download_slot(self.crawler, lease.host)
                if slot is not None:
                    frontier.set_delay(lease.host, slot.delay, now)
            frontier.left(lease.id, now)
        except Exception as error:
            self._failed(error)

    def _ended(self, flight: Flight) -> None:
        runtime = self.runtime
        if runtime is None:
            return
        try:
            outcome = verdict(flight, compat.is_closing(self.crawler))
            state = runtime.frontier.release(flight.lease.id, outcome, runtime.clock())
            self._tally["frontier/late"] += state is None
            runtime.sync_if_due()
        except Exception as error:
            self._failed(error)

    def _sweep(self) -> None:
        """Release what left the engine unseen, write, report, sync. Runs every `SWEEP_INTERVAL` seconds."""
        try:
            self._tally["frontier/swept"] += self._flights.sweep()
            self._report()
            if self.runtime is not None and self._error is None:
                self.runtime.frontier.commit()
                self.runtime.sync_if_due()
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

    def _report(self) -> None:
        """Bring the stats up to date; a call for every link would cost more than the link does."""
        stats, runtime = self.crawler.stats, self.runtime
        if stats is None or runtime is None:
            return
        for name, value in self._tally.items():
            stats.set_value(name, value)
        frontier = runtime.frontier
        stats.set_value("frontier/pending", frontier.pending)
        stats.set_value("frontier/hosts", frontier.hosts)
        stats.set_value("frontier/attempts", frontier.counts.attempts)
        for state in State:
            if state is not State.LEASED:
                stats.set_value(f"frontier/pages/{state.name.lower()}", frontier.counts.states[state])


def _is_seed(request: Request) -> bool:
    """Whether *request* comes from ``start()``, or by redirects from there.

    What a callback makes of a seed inherits its meta, but has a depth.
    """
    return START in request.meta and "depth" not in request.meta


def _times(request: Request, counter: str) -> int:
    value = request.meta.get(counter, 0)
    return value if isinstance(value, int) else 0
