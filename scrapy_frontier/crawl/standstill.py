"""A process that stood still, and what was under way meanwhile."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.time_format import span

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.frontier import Frontier

logger = logging.getLogger(__name__)

STOOD_STILL = 60.0  # seconds without a sign of life, which come every five: more than a busy machine takes
MEANWHILE = "it stood still meanwhile"  # why nothing came of a request


@dataclass(eq=False, repr=False)
class Standstill:
    """Notices that the process stood still: it was stopped (Ctrl-Z), its container paused, its machine
    suspended, or a callback held the event loop. What was under way then is late by that, and nobody is to
    blame for it.

    `look` is to be called every few seconds, and before anything at or after ``next`` (by the crawl's
    *clock*) that depends on how long a page is under way. *boot_time* is that of the machine, and *timeout*
    how long a request may take, both in seconds.
    """

    _frontier: Frontier
    _clock: Callable[[], float]
    _boot_time: Callable[[], float]
    _timeout: float
    _last = math.inf  # by the machine's clock: the crawl's may be told to jump
    _over = -math.inf  # when the last one was noticed
    next = math.inf

    def look(self) -> None:
        """Notice one that is just over: the leases that are out last as if they had been granted now."""
        last, self._last = self._last, self._boot_time()
        now = self._clock()
        self.next = now + STOOD_STILL
        if self._last - last < STOOD_STILL:
            return
        self._over = now
        self._frontier.extend_leases(now)
        words = "The process stood still for %s: no host is blamed for the pages that were under way"
        logger.info(words, span(self._last - last))

    def was_during(self, begun_at: float | None = None) -> bool:
        """Whether there was one since *begun_at*, by the crawl's clock; None: while anything may have been
        under way that ends now."""
        if self.next < math.inf:
            self.look()
        return (self._clock() - self._timeout if begun_at is None else begun_at) <= self._over
