"""The timer that wakes the engine when a host may be visited again; it would sleep up to 5 s."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .scrapy_internals import compat

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_NEVER = float("inf")


class Alarm:
    """Wakes the engine at the earliest time that it was set to, ``at`` (POSIX seconds); not one that cannot
    be watched."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._is_on = compat.in_progress(crawler) is not None
        self._timer: Any = None
        self.at = _NEVER

    def set(self, when: float | None, now: float) -> None:
        """Have the engine woken at *when* (POSIX seconds, as *now*), if that is sooner than ``at``; None:
        nothing is to be done."""
        if not self._is_on or when is None or when >= self.at:
            return
        self.cancel()
        self.at = when
        self._timer = compat.call_later(max(0.0, when - now), self._ring)

    def cancel(self) -> None:
        """Wake nobody, until it is `set` again."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self.at = None, _NEVER

    def _ring(self) -> None:
        self._timer, self.at = None, _NEVER
        compat.wake(self._crawler)
