"""The clock of a crawl: POSIX seconds that never jump."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Seconds that never go back; on Linux they also go on while the machine sleeps.
boot_time: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)


def steady_clock() -> Callable[[], float]:
    """POSIX seconds that never jump: the wall clock of now, carried on by that of the machine."""
    offset = time.time() - boot_time()

    def now() -> float:
        return offset + boot_time()

    return now
