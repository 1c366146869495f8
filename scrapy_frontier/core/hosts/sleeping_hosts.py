"""Hosts that sleep: a third of a host is kept of each while thousands of others come before it.

Of a million hosts few are asked soon. A host may sleep that can be asked now, is alone in its domain, has
nothing under way, knows which of its pages comes next, and about which there is nothing else to know than its
row. It keeps the sort keys it has: one that had to read its queue again would take its turn in 90 us instead
of 30. And it keeps its place in the order: its head, and the round in which it is due. Whoever means it wakes
it (`Hosts.find`), and so does its turn.
"""

from __future__ import annotations

import heapq
import marshal
from typing import TYPE_CHECKING

from ..store.host_rows import HostRow, decode_host, encode_host
from .delay_sources import by_settings
from .domain import HostState
from .host import HEADS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .host import Host

AWAKE = 10_000  # hosts, before any sleeps: 15 MB, and 25 ms whenever the garbage collector walks all
GROWTH = 1.25  # times as many as stayed awake, before all are looked at again
LOOKED_AT_ONCE = 64  # hosts looked at by one verb, 1 us each
_SKIPPED_AT_ONCE = 1000  # places of hosts that woke, 2 us each; there are as many of them as hosts at most

# Head, domain, name, the round in which it is due, and what else there is: its row and its sort keys in one
# piece, which takes a third of a tuple of them; nothing for a host that was never asked, with one page. A
# plain tuple: the garbage collector soon walks it no more.
SleepingHost = tuple[bytes, str, str, float, bytes]

_UNASKED = HostRow(queued=1)


def may_sleep(host: Host) -> bool:
    """Whether nothing but the row and the heads of *host* has to be kept, as far as it knows itself."""
    return (
        host.state is HostState.READY
        and not (host.in_flight or host.leased or host.waited)
        and _knows_its_head(host)
        and host.asked is by_settings(host.delay)
        and host.cooldown is None
        and not (host.is_doubted or host.suspects or host.origins or host.given_up)
        and host.trouble is None
        and host.held_for is None
        and host.given_up_for is None
        and host.is_kept
    )


def _knows_its_head(host: Host) -> bool:
    """Whether all it has is in memory, or the best of it. Of those with more on disk one to which pages come
    back stays awake: their share is given to hosts in memory."""
    if host.more:
        return not (host.queued_again or host.needs_sort_keys())
    return len(host.heads) == host.queued


def _pack(row: bytes, heads: list[bytes], cursor: bytes) -> bytes:
    # A copy, since `marshal` shortens a longer buffer in place: that would lie among LevelDB's blocks for as
    # long as the host sleeps, and the memory around it could not be used again.
    return bytes(memoryview(marshal.dumps((row, heads, cursor))))


def _unpack(sleeper: SleepingHost) -> tuple[bytes, list[bytes], bytes]:
    """The row, the heads, and the cursor of a host with more pages on disk."""
    found: tuple[bytes, list[bytes], bytes] = marshal.loads(sleeper[4])  # noqa: S302 - of `_pack`
    return found


class SleepingHosts:
    """The hosts that sleep, by their domains, and how many ``pages`` they have queued. In memory only.

    What has become wrong is left in the heaps, and skipped when it surfaces.
    """

    def __init__(self) -> None:
        self.by_domain: dict[str, SleepingHost] = {}
        self.pages = 0
        self._heap: list[SleepingHost] = []  # the best head first
        self._due: list[tuple[float, str]] = []  # the domain that is due first

    def __len__(self) -> int:
        return len(self.by_domain)

    def put(self, host: Host, domain: str, due_round: float) -> None:
        """Have *host* sleep, the only one of its *domain* that does. The domain is due in *due_round*.
        O(log hosts)."""
        heads = host.heads
        is_unasked = host.queued == 1 and not (
            host.visited or host.done or host.failed or host.deferred or host.response_time
        )
        rest = b"" if is_unasked else _pack(encode_host(host), heads, host.cursor if host.more else b"")
        heapq.heappush(self._due, (due_round, domain))
        sleeper = self.by_domain[domain] = heads[0], domain, host.name, due_round, rest
        self.pages += host.queued
        self._push(sleeper)

    def _push(self, sleeper: SleepingHost) -> None:
        heapq.heappush(self._heap, sleeper)
        if max(len(self._heap), len(self._due)) > 64 + 2 * len(self.by_domain):
            self._heap = list(self.by_domain.values())
            self._due = [(each[3], each[1]) for each in self._heap]
            heapq.heapify(self._heap)
            heapq.heapify(self._due)

    def take(self, sleeper: SleepingHost) -> tuple[HostRow, list[bytes], bytes]:
        """Forget one that wakes, and tell its row, its heads, and its cursor where more of its pages are on
        disk, b"" where not. O(1), no store read."""
        del self.by_domain[sleeper[1]]
        if not sleeper[4]:
            self.pages -= 1
            return _UNASKED, [sleeper[0]], b""
        stored, heads, cursor = _unpack(sleeper)
        row = decode_host(stored)
        self.pages -= row.queued
        return row, heads, cursor

    def rekey(self, sleeper: SleepingHost, moved: Sequence[tuple[bytes, bytes]]) -> bool:
        """Rows of its pages moved, each from an old sort key to a new one; false where nothing is changed,
        and it has to wake to read which page comes first now."""
        head, domain, name, due_round, rest = sleeper
        row, heads, cursor = _unpack(sleeper) if rest else (b"", [head], b"")
        kept = {*heads}.difference(old for old, _ in moved)
        kept.update(new for _, new in moved if not cursor or new <= cursor)
        if not kept:
            return False
        heads = sorted(kept)
        if len(heads) > 2 * HEADS:
            del heads[HEADS:]
            cursor = heads[-1]
        rest = _pack(row, heads, cursor) if rest else b""
        again = self.by_domain[domain] = heads[0], domain, name, due_round, rest
        self._push(again)
        return True

    def first(self) -> SleepingHost | None:
        """The one with the best head, None if none sleeps; it goes on sleeping."""
        heap = self._heap
        while heap and self.by_domain.get(heap[0][1]) is not heap[0]:
            heapq.heappop(heap)
        return heap[0] if heap else None

    def overdue(self, now: float) -> SleepingHost | None:
        """The one that is due for the longest time in round *now* (virtual time, see `order_of_hosts.Turns`);
        None if none is, or if too much is to be skipped before it at once: the next call goes on."""
        due = self._due
        for _ in range(_SKIPPED_AT_ONCE):
            if not due or due[0][0] > now:
                break
            sleeper = self.by_domain.get(due[0][1])
            if sleeper is not None and sleeper[3] == due[0][0]:
                return sleeper
            heapq.heappop(due)
        return None

    def names(self) -> Iterable[str]:
        """Their names, in no order."""
        return (sleeper[2] for sleeper in self.by_domain.values())
