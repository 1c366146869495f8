"""The thread of a ranking: it computes, and hands over what the event loop takes over."""

from __future__ import annotations

import sys
import time
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...core.frontier import Computed, RankRun

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
