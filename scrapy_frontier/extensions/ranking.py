"""Rankings beside a crawl: when one starts, the thread that computes it, and what the event loop does.

A thread reads the link graph from a snapshot, ranks it and packs its rows; the event loop takes over the
result in slices of a millisecond (`Scores.rank_steps`). One run at a time. The frontier decides whether one
is due; how much time it may take, by real time and not the crawl's clock, is decided here.
"""

from __future__ import annotations

import logging
import time
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from scrapy import signals

from ..core.errors import FrontierError, FrontierUnwritable
from ..crawl import scrapy_internals
from ..crawl.assembly import Component

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler

    from ..core.frontier import Computed, RankRun

logger = logging.getLogger(__name__)

LOOK = 0.05  # seconds between two looks at whether a ranking is due, while requests are active
LONGEST_LOOK = 60.0  # while none is, the pause doubles up to this
SLICE = 0.001  # seconds of the event loop at a time, and one step more
BREATH = 0.001  # seconds between two slices
ROWS = 20  # queue rows a step, 0.2 ms
REST = 10  # a pause of so many times what a run took follows it, so that rankings take a tenth at most
REST_AFTER_FAILURE = 600.0  # seconds
WAIT = 0.01  # seconds between two looks of the loop at what the thread has computed
TURN = 0.0005  # seconds of the interpreter that the thread takes before it lets the loop have it
GIVE_WAY = 0.00005  # seconds


class RankingThread(Thread):
    """Computes a `RankRun` and hands over the results; `stop` it in any case."""

    def __init__(self, rank: RankRun) -> None:
        super().__init__(name="frontier-ranking", daemon=True)
        self.rank = rank
        self._stopped = Event()
        self._results: Queue[Computed] = Queue(maxsize=2)
        self._error: Exception | None = None
        self._turn_began = self.began = time.perf_counter()
        self.spent = 0.0  # seconds of processor time; known at the end

    def stop(self) -> None:
        """Wait for the thread to end at the next row or sweep, and close the run."""
        self._stopped.set()
        self.join()
        self.rank.close()

    def computed(self) -> Iterator[Computed | float]:
        """Yield what the thread computed, and seconds to wait meanwhile; at the end raises its error."""
        while True:
            is_over = not self.is_alive()  # before the look: it hands over before it ends
            try:
                yield self._results.get_nowait()
            except Empty:
                if is_over:
                    break
                yield WAIT
        if self._error is not None:
            raise self._error

    def run(self) -> None:
        """Compute, in the thread."""
        try:
            for computed in self.rank.compute(self._must_stop, time.perf_counter):
                self._hand_over(computed)
        except Exception as error:
            self._error = error
        self.spent = time.thread_time()

    def _must_stop(self) -> bool:
        """Return whether to stop. Also gives way: the loop would wait 5 ms for a thread that runs Python."""
        if time.perf_counter() - self._turn_began > TURN:
            time.sleep(GIVE_WAY)
            self._turn_began = time.perf_counter()
        return self._stopped.is_set()

    def _hand_over(self, computed: Computed) -> None:
        while not self._stopped.is_set():
            try:
                self._results.put(computed, timeout=LOOK)
            except Full:
                continue
            return


class RankingExtension(Component):
    """Ranks the pages whenever the crawl has grown by the scorer's share, and packs the link graph."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._timer: Any = None
        self._pause = LOOK
        self._thread: RankingThread | None = None
        self._not_before = 0.0
        crawler.signals.connect(self._begin, signals.engine_started)
        crawler.signals.connect(self._end, signals.engine_stopped)

    def _begin(self) -> None:
        self._timer = scrapy_internals.call_later(LOOK, self._look)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._stop()

    def _let_go_of_crawl(self) -> None:
        self._stop()
        super()._let_go_of_crawl()

    def _stop(self) -> None:
        if self._thread is not None:
            self._thread.stop()
            self._thread = None

    def _look(self) -> None:
        self._pause = LOOK if self.active_requests else min(2 * self._pause, LONGEST_LOOK)
        self._timer = scrapy_internals.call_later(self._pause, self._look)
        try:
            self._start_if_due()
        except Exception as error:
            self._failed(error)

    def _start_if_due(self) -> None:
        crawl = self.crawl
        if self._thread is not None or crawl is None or crawl.links is None:
            return
        if time.monotonic() < self._not_before or (run := crawl.frontier.rank_due()) is None:
            return
        self._thread = RankingThread(run)
        self._thread.start()
        self._work = crawl.frontier.rank_steps(run, self._thread.computed(), crawl.clock, ROWS)
        self._spent = 0.0  # seconds of the event loop
        self._slice()

    def _slice(self) -> None:
        """Go on with the run for a slice, then come back; not while the crawl ends."""
        thread = self._thread
        if thread is None or scrapy_internals.is_closing(self.crawler):
            return
        began = time.perf_counter()
        try:
            for pause in self._work:
                now = time.perf_counter()
                if pause or now >= began + SLICE:
                    self._spent += now - began
                    scrapy_internals.call_later(max(pause, BREATH), self._slice)
                    return
            self._not_before = time.monotonic() + REST * (self._spent + thread.spent)
            if thread.rank.is_adopted:
                self._report(thread.rank, began - thread.began)
        except Exception as error:
            self._failed(error)
        self._stop()

    def _failed(self, error: Exception) -> None:
        self._not_before = time.monotonic() + REST_AFTER_FAILURE
        if isinstance(error, FrontierUnwritable):  # see `Component.left_to_scheduler`
            scrapy_internals.wake(self.crawler)
            return
        is_clear = isinstance(error, FrontierError | OSError)
        logger.error(
            "The ranking failed: %s; the next try is in %d minutes",
            error if is_clear else "run `scrapy frontier check`",
            REST_AFTER_FAILURE / 60,
            exc_info=None if is_clear else error,
            extra={"spider": self.crawler.spider},
        )
        self.crawler.stats.inc_value("frontier/errors")

    def _report(self, run: RankRun, seconds: float) -> None:
        assert run.ranking is not None
        logger.debug(  # the stats have the last one, and a small crawl is ranked often
            "Ranked %d pages with %d links in %.2f s: %d iterations, error %s, %d rows moved",
            *(run.pages, run.links, seconds, run.ranking.iterations, run.ranking.error, run.moved),
            extra={"spider": self.crawler.spider},
        )
        self.crawler.stats.inc_value("frontier/rank/runs")
        self.crawler.stats.set_value("frontier/rank/pages", run.pages)
        self.crawler.stats.set_value("frontier/rank/seconds", round(seconds, 3))
