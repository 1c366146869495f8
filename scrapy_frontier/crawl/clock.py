"""Clocks for a crawl: POSIX seconds that never go back.

`SuspendDetector` notices that the process stood still.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ..core.errors import span

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.frontier import Frontier

logger = logging.getLogger(__name__)


# Seconds that never go back, and go on while the machine sleeps, where it has a clock for that: Linux has.
boot_time: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)


def steady_clock() -> Callable[[], float]:
    """POSIX seconds that never jump: the wall clock of now, carried on by that of the machine."""
    offset = time.time() - boot_time()
    return map(offset.__add__, iter(boot_time, None)).__next__  # no call of ours: read all the time


def never_back(clock: Callable[[], float], last: float) -> Callable[[], float]:
    """A clock in POSIX seconds that says *last* at the least, and goes on from there when *clock* is set back
    by a second or more: else all hosts would wait until it is as late again."""
    ahead = 0.0

    def steady() -> float:
        nonlocal last, ahead
        now = clock() + ahead
        if last - now >= 1:  # less is a coarse clock
            if not ahead:
                words = (
                    "FRONTIER_CLOCK went back by %s: the crawl goes on as if it had not; mend it (said once)"
                )
                logger.warning(words, span(last - now))
            ahead += last - now
        last = max(last, now)
        return last

    return steady


STOOD_STILL = 60.0  # seconds without a sign of life, which come every five: more than a busy machine takes
MEANWHILE = "it stood still meanwhile"  # why nothing came of a request


@dataclass(eq=False, repr=False)
class SuspendDetector:
    """Notices that the process stood still: it was stopped (Ctrl-Z), its container paused, its machine
    suspended, or a callback held the event loop. Requests under way then time out through no fault of their
    hosts.

    Call `look` every few seconds, and at or after ``next`` (by the crawl's *clock*) before anything that
    depends on how long a page is under way. *boot_time* is the clock of the machine, and *timeout* how long a
    request may take, in seconds.
    """

    _frontier: Frontier
    _clock: Callable[[], float]
    _boot_time: Callable[[], float]
    _timeout: float
    _last = math.inf  # by the machine's clock: the crawl's may be told to jump
    _over = -math.inf  # when the last one was noticed
    next = math.inf

    def look(self) -> None:
        """Notices a standstill that is just over, and extends the leases that are out."""
        last, self._last = self._last, self._boot_time()
        now = self._clock()
        self.next = now + STOOD_STILL
        if self._last - last < STOOD_STILL:
            return
        self._over = now
        self._frontier.extend_leases(now)
        words = "The process stood still for %s: no host is blamed for the pages that were under way"
        logger.info(words, span(self._last - last))

    def overlapped_suspend(self, begun_at: float | None = None) -> bool:
        """Returns whether there was a standstill since *begun_at*, by the crawl's clock; None: within the
        time that a request may take."""
        if self.next < math.inf:
            self.look()
        return (self._clock() - self._timeout if begun_at is None else begun_at) <= self._over
