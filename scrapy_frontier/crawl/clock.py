"""Clocks for a crawl: POSIX seconds that never go back."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from ..core.time_format import span

if TYPE_CHECKING:
    from collections.abc import Callable

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
    """A clock in POSIX seconds, which says *last* at the least, and goes on from where *clock* is set back by
    a second or more, which is told once: else all hosts would wait until it is as late again."""
    ahead = 0.0

    def steady() -> float:
        nonlocal last, ahead
        now = clock() + ahead
        if now >= last:
            last = now
        elif last - now >= 1:  # less is a coarse clock
            if not ahead:
                words = (
                    "FRONTIER_CLOCK went back by %s: the crawl goes on as if it had not; mend it (said once)"
                )
                logger.warning(words, span(last - now))
            ahead += last - now
        return last

    return steady
