"""How long a page may work before others get a turn of the event loop."""

from __future__ import annotations

from time import perf_counter, thread_time

from . import compat

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


class PlaceInLine:
    """A page's place in *line*, those with very many links, from when it gives way first until `leave`.

    The first in the line gives way for one turn of the event loop at a time, so that it is done in bounded
    time whatever others do: a kill before that has it fetched again.
    """

    def __init__(self, line: list[PlaceInLine]) -> None:
        self._line = line

    async def give_way(self) -> None:
        if self not in self._line:
            self._line.append(self)
        await compat.give_way(1 if self._line[0] is self else compat.TURNS)

    def leave(self) -> None:
        if self in self._line:
            self._line.remove(self)
