"""What earlier runs left comes into memory beside the crawl, in slices of the event loop's time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .scrapy_internals import compat

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from ..core.frontier import Frontier
    from .flights.in_flight import Flights

LOADING_AT_ONCE = 5  # hosts, 0.1 to 0.4 ms
LOADING_FIRST = 0.005  # seconds the first requests may wait
LOADING_SLICE = 0.001  # seconds the loop is held up at a time; a slice may take one step longer
LOADING_BREATH = 0.002  # seconds between two slices, for all else the loop has to do
LOADING_AFTER_FAILURE = 1.0  # seconds


@dataclass(eq=False, repr=False)
class Loading:
    """Loads *frontier*; *failed* is called with what goes wrong. While nothing is under way nobody else needs
    the loop. It ``is_by_hand`` while something is left and the engine is a stand-in, which need not have a
    loop: then whoever asks for a request calls `step`."""

    _crawler: Crawler
    _frontier: Frontier
    _clock: Callable[[], float]
    _flights: Flights
    _failed: Callable[[Exception], None]
    _timer: Any = field(default=None, init=False)
    is_by_hand = False

    def begin(self) -> None:
        """Load for `LOADING_FIRST` seconds, and go on beside the crawl if that was not all. Raises
        `FrontierError`."""
        if self._load(LOADING_FIRST):
            return
        if compat.in_progress(self._crawler) is None:
            self.is_by_hand = True
        else:
            self._timer = compat.call_later(0, self._slice)

    def step(self) -> None:
        """Load for `LOADING_SLICE` seconds more, where it ``is_by_hand``, which is false once all is loaded.
        Raises `FrontierError`."""
        self.is_by_hand = not self._load(LOADING_SLICE)

    def stop(self) -> None:
        """Load no more; to be called before the frontier is closed."""
        if self._timer is not None:
            self._timer.cancel()

    def _load(self, seconds: float) -> bool:
        begin = time.perf_counter()
        while not self._frontier.load(self._clock(), LOADING_AT_ONCE):
            if time.perf_counter() - begin >= seconds:
                return False
        return True

    def _slice(self) -> None:
        try:
            if not self._load(LOADING_SLICE):
                self._timer = compat.call_later(LOADING_BREATH if len(self._flights) else 0, self._slice)
        except Exception as error:
            self._timer = compat.call_later(LOADING_AFTER_FAILURE, self._slice)
            self._failed(error)
        compat.wake(self._crawler)
