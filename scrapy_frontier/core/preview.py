"""What comes next, in order: the crawl's own rules over virtual time, read from the disk.

The best head of the hosts that may be visited is next; then its host waits for its delay. Answers are taken
to come at once, so the times are the earliest possible. Memory: about 300 bytes a host with queued pages.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

from . import inspect, keys
from .errors import UnreadableRecord
from .orders import all_orders
from .places import waiting_places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .inspect import DelayOf
    from .records import Page
    from .store import Store

_AT_A_TIME = 8  # ranks read from the disk


class Turn(NamedTuple):
    """A page and the earliest time (POSIX seconds) it can be handed out."""

    when: float
    page_id: int
    page: Page
    host: str


class _Queue:
    """A host's pages, best first: those on disk, and those whose backoff has passed meanwhile."""

    __slots__ = ("_cursor", "_more", "_ranks", "_store", "delay", "name", "ready_at")

    def __init__(self, store: Store, name: str, delay: float, ready_at: float) -> None:
        self.name, self.delay, self.ready_at = name, delay, ready_at
        self._store = store
        self._ranks: list[bytes] = []
        self._cursor = b""
        self._more = True
        self._fill()

    @property
    def head(self) -> bytes | None:
        return self._ranks[0] if self._ranks else None

    def _fill(self) -> None:
        if self._more and (not self._ranks or self._ranks[0] > self._cursor):
            found = self._store.ranks(keys.queue_prefix(self.name), self._cursor, _AT_A_TIME)
            self._more = len(found) == _AT_A_TIME
            self._cursor = found[-1] if found else self._cursor
            self._ranks = list(heapq.merge(self._ranks, found))

    def add(self, rank: bytes) -> None:
        self._ranks = sorted([*self._ranks, rank])

    def take(self) -> bytes:
        rank = self._ranks.pop(0)
        self._fill()
        return rank


class _Preview:
    def __init__(self, store: Store, now: float, delay_of: DelayOf, only: str | None) -> None:
        self._store, self._delay_of, self._only = store, delay_of, only
        self.now = now
        self._blocked = {host for host, orders in all_orders(store) if orders.blocked is not None}
        self._queues: dict[str, _Queue] = {}
        self._ready: list[tuple[bytes, str]] = []
        self._cooling: list[tuple[float, str]] = []
        self._waiting = (
            (place.due or 0.0, place.rank, place.host)
            for place in waiting_places(store)
            if self._is_wanted(place.host)
        )
        self._next_waiting = next(self._waiting, None)
        if only is not None:
            names = iter([only])
        else:
            names = (view.host for view in inspect.hosts(store, delay_of) if view.queued)
        for name in filter(self._is_wanted, names):
            self._put(self._queue(name))

    def _is_wanted(self, name: str) -> bool:
        return name not in self._blocked and self._only in (None, name)

    def _queue(self, name: str) -> _Queue:
        queue = self._queues.get(name)
        if queue is None:
            view = inspect.find_host(self._store, name, self._delay_of)
            # A clock that was set back must not silence a host for longer than its delay.
            visited = view.visited + view.delay if view.visited else 0.0
            ready_at = max(min(visited, self.now + view.delay), view.rests_until)
            queue = self._queues[name] = _Queue(self._store, name, view.delay, ready_at)
        return queue

    def _put(self, queue: _Queue) -> None:
        if queue.head is None:
            return
        if queue.ready_at > self.now:
            heapq.heappush(self._cooling, (queue.ready_at, queue.name))
        else:
            heapq.heappush(self._ready, (queue.head, queue.name))

    def advance(self) -> bool:
        """Move to the next moment at which something can be handed out; false if there is none."""
        times = [self._cooling[0][0]] if self._cooling else []
        if self._next_waiting is not None:
            times.append(self._next_waiting[0])
        if not times:
            return False
        self.now = max(self.now, min(times))
        return True

    def _catch_up(self) -> None:
        while self._next_waiting is not None and self._next_waiting[0] <= self.now:
            _, rank, name = self._next_waiting
            queue = self._queue(name)
            queue.add(rank)
            self._put(queue)
            self._next_waiting = next(self._waiting, None)
        while self._cooling and self._cooling[0][0] <= self.now:
            self._put(self._queues[heapq.heappop(self._cooling)[1]])

    def take(self) -> tuple[int, str] | None:
        """The page that is handed out now, and its host."""
        self._catch_up()
        while self._ready:
            head, name = heapq.heappop(self._ready)
            queue = self._queues[name]
            if queue.head != head or queue.ready_at > self.now:  # an entry from before it changed
                continue
            rank = queue.take()
            queue.ready_at = self.now + queue.delay if queue.delay else 0.0
            self._put(queue)
            return keys.rank_id(rank), name
        return None


def upcoming(store: Store, now: float, delay_of: DelayOf, host: str | None = None) -> Iterator[Turn]:
    """The pages in the order in which a crawl that starts *now* hands them out; only those of *host* if
    given. Pages of blocked hosts do not come, nor such whose record cannot be read."""
    preview = _Preview(store, now, delay_of, host)
    while True:
        taken = preview.take()
        if taken is None:
            if not preview.advance():
                return
            continue
        page_id, name = taken
        try:
            page = inspect.read_page(store, page_id)
        except UnreadableRecord:
            page = None
        if page is not None:
            yield Turn(preview.now, page_id, page, name)
