"""Rankings while the crawl goes on: when, in which thread, and the moving of rows in slices on the loop.

One run at a time: a thread reads the link graph from a snapshot, ranks it and prepares what follows, which
the loop takes over; that moves queue rows, 1.5 ms at a time at most, while the thread packs rows of the graph
for it to put in place. Whether a ranking is due is decided by the frontier, and what it makes of the queue by
the scorer; how long the loop is left to the rest of the crawl, by real time and not the crawl's clock, here.

The thread of a ranking: it computes, and hands over what the event loop takes over.
"""

from __future__ import annotations

import logging
import sys
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
    from ..crawl.assembly import Crawl

WAIT = 0.01  # seconds between two looks of the loop at what was handed over
STOP_LOOK = 0.05  # seconds until the thread looks whether it is to stop, while the loop takes nothing
# While the thread runs Python's bytecode the loop waits for its turn, 5 ms by default.
SWITCH_INTERVAL = 0.0005


class _Brisk:
    """What holds for the whole process while any crawl in it ranks: turns of the interpreter are short, from
    the first `begin` to the last `end`. Of one thread alone."""

    runs = 0
    interval = 0.0

    @classmethod
    def begin(cls) -> None:
        cls.runs += 1
        if cls.runs == 1:
            cls.interval = sys.getswitchinterval()
            sys.setswitchinterval(min(SWITCH_INTERVAL, cls.interval))

    @classmethod
    def end(cls) -> None:
        cls.runs -= 1
        if not cls.runs:
            sys.setswitchinterval(cls.interval)


class RankingThread:
    """What *rank* has to compute, in a thread of its own that begins at once; `stop` it in any case.

    The thread reads the snapshot alone; all else is for the event loop's thread.
    """

    def __init__(self, rank: RankRun) -> None:
        self.rank = rank
        self._stopped = Event()
        self._computed: Queue[Computed] = Queue(maxsize=2)
        self._error: Exception | None = None
        self.began = time.perf_counter()
        self.spent = 0.0  # seconds of the processor; known at the end
        _Brisk.begin()
        self._thread = Thread(target=self._go, name="frontier-ranking", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Have the thread end where it asks next, and return when it has and the snapshot is closed; the
        caller waits."""
        self._stopped.set()
        self._thread.join()
        self.rank.close()
        _Brisk.end()

    def computed(self) -> Iterator[Computed | float]:
        """What the thread hands over; meanwhile seconds to wait for it. Raises what the thread met, at the
        end."""
        while True:
            is_over = not self._thread.is_alive()  # asked first: it hands over before it ends
            try:
                yield self._computed.get_nowait()
            except Empty:
                if is_over:
                    break
                yield WAIT
        if self._error is not None:
            raise self._error

    # -- in the thread

    def _go(self) -> None:
        try:
            for computed in self.rank.compute(self._stopped.is_set, time.perf_counter):
                self._hand_over(computed)
        except Exception as error:
            self._error = error
        self.spent = time.thread_time()

    def _hand_over(self, computed: Computed) -> None:
        while not self._stopped.is_set():
            try:
                self._computed.put(computed, timeout=STOP_LOOK)
            except Full:
                continue
            return


logger = logging.getLogger(__name__)

RANKING_LOOK = 0.05  # seconds between two looks at whether a ranking is due, while pages are under way
RANKING_LOOK_IDLE = 60.0  # the most it becomes, each time twice as long, while none is: for days, maybe
RANKING_SLICE = 0.0003  # seconds the loop is held up at a time if idle; a slice may take one step longer
RANKING_BREATH = 0.001  # seconds between two slices, for all else the loop has to do
SHARE = 0.1  # of the loop's time, where its turns are long
LONGEST_SLICE = 0.0015  # seconds
RANKING_ROWS = 20  # queue rows a step, 0.2 ms
REST = 10  # times what a run took is the pause behind it, so that rankings take a tenth at most
RANKING_AFTER_FAILURE = 600.0  # seconds


class RankingExtension(Component):
    """Ranks the pages whenever the crawl has grown by the scorer's share, and packs the link graph."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._timer: Any = None
        self._pause = RANKING_LOOK
        self._run: RankingThread | None = None
        self._not_before = 0.0
        self._next_logged = 1000  # pages from which on the next ranking is told
        crawler.signals.connect(self._begin, signals.engine_started)
        crawler.signals.connect(self._end, signals.engine_stopped)

    def _begin(self) -> None:
        self._timer = scrapy_internals.call_later(RANKING_LOOK, self._look)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._stop()

    def _let_go_of_crawl(self) -> None:
        self._stop()
        super()._let_go_of_crawl()

    def _stop(self) -> None:
        if self._run is not None:
            self._run.stop()
            self._run = None

    def _look(self) -> None:
        self._pause = RANKING_LOOK if self.flights else min(2 * self._pause, RANKING_LOOK_IDLE)
        self._timer = scrapy_internals.call_later(self._pause, self._look)
        try:
            self._start_if_due()
        except Exception as error:
            self._failed(error)
            self._not_before = time.monotonic() + RANKING_AFTER_FAILURE

    def _start_if_due(self) -> None:
        crawl = self.crawl
        if self._run is not None or crawl is None or crawl.links is None:
            return
        frontier = crawl.frontier
        if time.monotonic() < self._not_before or not frontier.is_loaded:
            return
        if (run := frontier.rank_due(crawl.clock(), crawl.settings.rank_interval)) is None:
            return
        self._run = RankingThread(run)
        self._work = self._steps(self._run, crawl)
        self._left_at, self._spent = self._run.began, 0.0  # when the loop was left, and what it gave (s)
        self._slice()

    def _slice(self) -> None:
        """Go on with the run for a third of a millisecond, and come back; not while the crawl ends."""
        run = self._run
        if run is None or scrapy_internals.is_closing(self.crawler):
            return
        try:
            began = time.perf_counter()
            until = began + min(max(RANKING_SLICE, SHARE * (began - self._left_at)), LONGEST_SLICE)
            for pause in self._work:
                now = time.perf_counter()
                if pause or now >= until:
                    pause = max(pause, RANKING_BREATH)
                    self._spent += now - began
                    self._left_at = now + pause
                    scrapy_internals.call_later(pause, self._slice)
                    return
            pause = REST * (self._spent + run.spent)
        except Exception as error:
            self._failed(error)
            pause = RANKING_AFTER_FAILURE
        self._not_before = time.monotonic() + pause
        run.stop()
        self._run = None

    def _failed(self, error: Exception) -> None:
        if isinstance(error, FrontierUnwritable):  # see `Component.left_to_scheduler`
            scrapy_internals.wake(self.crawler)
            return
        spider, is_clear = {"spider": self.crawler.spider}, isinstance(error, FrontierError | OSError)
        words = error if is_clear else "run `scrapy frontier check`"
        told = f"The ranking failed: %s; it is tried again in {RANKING_AFTER_FAILURE / 60:.0f} minutes"
        logger.error(told, words, exc_info=None if is_clear else error, extra=spider)
        self.crawler.stats.inc_value("frontier/errors")

    def _steps(self, run: RankingThread, crawl: Crawl) -> Iterator[float]:
        """The loop's part of a run, a step at a time; yields the seconds to wait before the next."""
        rank, is_logged = run.rank, False
        for pause in crawl.frontier.rank_steps(rank, run.computed(), crawl.clock, RANKING_ROWS):
            if rank.is_adopted and not is_logged:
                is_logged = True
                self._report(rank, time.perf_counter() - run.began)
            yield pause
        if rank.is_adopted and not is_logged:
            self._report(rank, time.perf_counter() - run.began)

    def _report(self, run: RankRun, seconds: float) -> None:
        ranking, moved, stats = run.ranking, run.moved, self.crawler.stats
        assert ranking is not None
        is_larger = run.pages >= self._next_logged  # else the stats say it, and a small crawl is ranked often
        if is_larger:
            self._next_logged = 10 ** len(str(run.pages))
        level = logging.INFO if is_larger else logging.DEBUG
        words = "Ranked %d pages with %d links in %.2f s: %d iterations, error %s, %d rows moved"
        about = run.pages, run.links, seconds, ranking.iterations, ranking.error, moved
        logger.log(level, words, *about, extra={"spider": self.crawler.spider})
        stats.inc_value("frontier/rank/runs")
        stats.inc_value("frontier/rank/moved", moved)
        stats.set_value("frontier/rank/pages", run.pages)
        stats.set_value("frontier/rank/links", run.links)
        stats.set_value("frontier/rank/iterations", ranking.iterations)
        stats.set_value("frontier/rank/error_bound", ranking.error_bound)
        stats.set_value("frontier/rank/seconds", round(seconds, 3))
