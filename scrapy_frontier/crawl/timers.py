"""Timers of a crawl: to wake the engine, to write what waits, and to load what earlier runs left."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core.pages.leasing import WRITTEN_WITHIN
from . import scrapy_internals

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from ..core.frontier import Frontier

_NEVER = float("inf")
HOSTS_AT_ONCE = 5  # 0.1 to 0.4 ms
FIRST_SLICE = 0.005  # seconds that the first requests may wait for what earlier runs left
SLICE = 0.001  # seconds of the event loop at a time; a slice may take one step longer
PAUSE = 0.002  # seconds between two slices while requests are under way
PAUSE_AFTER_FAILURE = 1.0  # seconds


class EngineTimer:
    """Wakes the engine when a host may be visited again: by itself it would sleep up to 5 s. ``at`` is the
    earliest time it was set to (POSIX seconds)."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._timer: Any = None
        self.at = _NEVER

    def set(self, when: float | None, now: float) -> None:
        """Has the engine woken at *when* (POSIX seconds, as *now*) if that is sooner than ``at``; None does
        nothing."""
        if when is None or when >= self.at:
            return
        self.cancel()
        self.at = when
        self._timer = scrapy_internals.call_later(max(0.0, when - now), self._ring)

    def cancel(self) -> None:
        """Wakes the engine no more, until it is `set` again."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self.at = None, _NEVER

    def _ring(self) -> None:
        self._timer, self.at = None, _NEVER
        scrapy_internals.wake(self._crawler)


@dataclass(eq=False, repr=False)
class CommitTimer:
    """Commits *frontier* within `WRITTEN_WITHIN` seconds of `start`, so that ends of pages are written
    together. Errors go to *failed*."""

    _frontier: Frontier
    _failed: Callable[[Exception], None]
    _timer: Any = None

    def start(self) -> None:
        """Starts the timer if it does not run."""
        if self._timer is None:
            self._timer = scrapy_internals.call_later(WRITTEN_WITHIN, self._commit)

    def cancel(self) -> None:
        """Stops the timer: the frontier is about to be closed, which commits it."""
        if self._timer is not None:
            self._timer.cancel()

    def _commit(self) -> None:
        self._timer = None
        try:
            self._frontier.commit()
        except Exception as error:
            self._failed(error)


@dataclass(eq=False, repr=False)
class Recovery:
    """Loads what earlier runs left into *frontier*, beside the crawl, in slices of the event loop's time.
    *is_idle* tells whether no request is under way, so that nothing else needs the loop. Errors go to
    *failed*."""

    _crawler: Crawler
    _frontier: Frontier
    _clock: Callable[[], float]
    _is_idle: Callable[[], bool]
    _failed: Callable[[Exception], None]
    _timer: Any = None

    def start(self) -> None:
        """Loads for `FIRST_SLICE` seconds, and goes on beside the crawl if that was not all. Raises
        `FrontierError`."""
        self.cancel()
        if not self._load(FIRST_SLICE):
            self._timer = scrapy_internals.call_later(0, self._slice)

    def cancel(self) -> None:
        """Loads no more: the frontier is about to be closed."""
        if self._timer is not None:
            self._timer.cancel()

    def _load(self, seconds: float) -> bool:
        """Whether all is loaded, after so many *seconds* at most."""
        begin = time.perf_counter()
        while not self._frontier.load(self._clock(), HOSTS_AT_ONCE):
            if time.perf_counter() - begin >= seconds:
                return False
        return True

    def _slice(self) -> None:
        try:
            if not self._load(SLICE):
                self._timer = scrapy_internals.call_later(0 if self._is_idle() else PAUSE, self._slice)
        except Exception as error:
            self._timer = scrapy_internals.call_later(PAUSE_AFTER_FAILURE, self._slice)
            self._failed(error)
        scrapy_internals.wake(self._crawler)
