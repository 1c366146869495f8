"""A registered domain, and which of its hosts comes first.

The best head first, of equals the host with the fewest requests under way. One that was passed over for
`WITHIN` turns of the domain for each of its hosts has the next. Most domains have one host: then there is
nothing to choose.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from ..store.queue_keys import SCORE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

WITHIN = 16  # turns of a domain until a host of it is due, for each host in memory

NORMAL, OVER_SOFT, OVER_HARD = range(3)  # levels: its pages come as all, last, not at all


class HostState(Enum):
    """Where a host stands, as `Hosts.put` decides; only one that is ready is asked for a page."""

    IDLE = "idle"  # nothing queued
    READY = "ready"
    DELAYED = "delayed"
    BLOCKED = "blocked"  # by the operator
    HELD = "held"  # until it is known what the site asks for, or for as long as it asks to be left alone
    BUSY = "busy"  # as many requests under way as allowed
    LINGERING = "lingering"  # nothing queued, and remembered only until its delay has passed


# By themselves: Python 3.11 takes 0.2 us to find a member in its class.
IDLE, READY, DELAYED, BLOCKED, HELD, BUSY, LINGERING = HostState


class Member(Protocol):
    """What the order asks of a host; `Host` is one."""

    name: str
    heads: list[bytes]
    state: HostState
    in_flight: int
    in_flight_before: int  # as `Turns` saw it last
    domain: Domain | None
    line_number: int  # in the line of its domain; 0 for none

    @property
    def fetched(self) -> int: ...


# Plain tuples of names, not of hosts: the garbage collector then has no reason to walk the heaps.
# Level, score, whether others come first, requests of the domain under way, head, name of the domain.
Offer = tuple[int, bytes, bool, int, bytes, str]
# Score, requests of the host under way, head, name.
_HostOffer = tuple[bytes, int, bytes, str]

# One for all domains of one host: the garbage collector walks each list.
_UNUSED: list[_HostOffer] = []
_NO_LINE: deque[tuple[int, int, str]] = deque()


@dataclass(slots=True, eq=False, repr=False)
class Domain:
    """A registered domain with hosts in memory.

    Others come first (``yields_until``) until so many hand-outs have been made in all; ``handed`` pages were
    handed out, of earlier runs too; ``due_round`` is the one in which it comes next whatever others offer.
    ``line`` are its ready hosts in the order in which they had their last turns, with what ``handed`` was
    then. What has become wrong is left in ``ready`` and ``line`` and skipped when it surfaces.
    """

    name: str
    level: int = NORMAL
    sole: str = ""  # its host, as long as it never had another; then ``ready`` and ``line`` are not used
    hosts: int = 0
    in_flight: int = 0
    yields_until: int = 0
    handed: int = 0
    due_round: float = 0.0
    is_listed: bool = False  # among those that will be due
    is_active: bool = False
    ready: list[_HostOffer] = field(default_factory=lambda: _UNUSED)
    line: deque[tuple[int, int, str]] = field(default_factory=lambda: _NO_LINE)
    lined_up: int = 0  # so many times
    offered: Offer | None = None  # in the heap of domains

    def share(self, first: Member) -> None:
        """The domain of *first*, its host so far, is about to have another: from now on ``ready`` and
        ``line`` hold."""
        self.sole = ""
        self.ready, self.line = [], deque()
        if first.state is READY and first.heads:  # else it is edited at once, and gets its place after this
            self.ready.append(_host_offer(first))
            self._line_up(first)

    def put(self, host: Member, by_name: Mapping[str, Member], had_turn: bool = False) -> None:
        """Take note of a host of a shared domain that has changed, or *had_turn* just now; *by_name* are the
        hosts in memory. O(log hosts)."""
        if host.state is not READY:
            host.line_number = 0
            return
        heapq.heappush(self.ready, _host_offer(host))
        if had_turn or not host.line_number:
            self._line_up(host)
        most = 16 + 4 * self.hosts
        if len(self.ready) > most:
            self.ready = [offer for offer in set(self.ready) if _holds(offer, by_name)]
            heapq.heapify(self.ready)
        if len(self.line) > most:
            self.line = deque(place for place in self.line if _stands(place, by_name))

    def _line_up(self, host: Member) -> None:
        self.lined_up += 1
        host.line_number = self.lined_up
        self.line.append((self.lined_up, self.handed, host.name))

    def take_back(self, host: Member, line_number: int) -> None:
        """The last turn, of *host*, was none after all: it stands where it stood in line."""
        self.handed -= 1
        host.line_number = line_number

    def first(self, by_name: Mapping[str, Member]) -> _HostOffer | None:
        """The best ready host of a shared domain: what it offers, None if none is ready. It stays."""
        ready = self.ready
        while ready and not _holds(ready[0], by_name):
            heapq.heappop(ready)
        return ready[0] if ready else None

    def chosen(self, by_name: Mapping[str, Member]) -> str:
        """The name of the host of a shared domain that has its turn, the one that was passed over for long or
        the best; one must be ready."""
        line = self.line
        while line and not _stands(line[0], by_name):
            line.popleft()
        if line and self.handed - line[0][1] >= WITHIN * self.hosts:
            return line[0][2]
        best = self.first(by_name)
        assert best is not None
        return best[3]


def _host_offer(host: Member) -> _HostOffer:
    head = host.heads[0]
    return head[:SCORE_BYTES], host.in_flight, head, host.name


def _holds(offer: _HostOffer, by_name: Mapping[str, Member]) -> bool:
    host = by_name.get(offer[3])
    return (
        host is not None
        and host.state is READY
        and bool(host.heads)  # those of another that is edited at once may be gone
        and host.heads[0] == offer[2]
        and host.in_flight == offer[1]
    )


def _stands(place: tuple[int, int, str], by_name: Mapping[str, Member]) -> bool:
    host = by_name.get(place[2])
    return host is not None and host.line_number == place[0]
