"""How long a page may work before others get a turn of the event loop."""

from __future__ import annotations

from time import perf_counter, thread_time

FIRST_SPELL = 0.02  # seconds for the links of a page: most are through by then
SPELL = 0.003  # seconds for the rest, between two turns of others


class Spell:
    """Runs from now for `FIRST_SPELL`, from every `renew` for `SPELL`; not over before ``look_at`` by
    `perf_counter`, so that who asks at every link need not call.

    By the processor's time of this thread, which is asked only when as much has passed by the clock: on a
    busy machine a page that waits for the processor would give way again and again, and every turn costs.
    """

    look_at = _end = 0.0

    def __init__(self) -> None:
        self._begin(FIRST_SPELL)

    def renew(self) -> None:
        self._begin(SPELL)

    def is_over(self) -> bool:
        if perf_counter() < self.look_at:
            return False
        left = self._end - thread_time()
        self.look_at = perf_counter() + left
        return left <= 0

    def _begin(self, seconds: float) -> None:
        self.look_at = perf_counter() + seconds
        self._end = thread_time() + seconds
