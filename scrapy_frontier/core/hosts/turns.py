"""Whose turn it is among the hosts that may be visited now: best score first, equals by domain, nobody never.

A registered domain that spawns hosts without end would get nearly every turn if its hosts were equals of all
others: 3,506 of 3,973 requests of a stock crawl. So among equal scores the domain with the fewest requests
under way comes first; and a domain of several hosts that had a turn waits until the others have had as many
as there are other domains. A host that is alone in its domain, as most are, comes in order of discovery.

Best first alone would let those with poor pages, or with a retry of a low priority, wait for ever beside one
that has always something better to offer. So age counts too (`rounds`): a domain that is due has the next
turn. Within a domain of several hosts, one that was passed over for `WITHIN` turns of the domain for each of
its hosts has the next.

Owns two levels of heaps: the ready hosts of each domain, and the domains. Entries that have become wrong are
left in the heaps and skipped when they surface.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from ..store import queue_rows
from .rounds import Rounds

if TYPE_CHECKING:
    from collections.abc import Callable

WITHIN = 16  # turns of a domain until a host of it is due, for each host in memory

COOL, HOT, CLOSED = range(3)  # levels of a domain: as all others, after all cool ones, not at all

# Score, requests of the host under way, head, name.
_HostEntry = tuple[bytes, int, bytes, str]
# Level, score, whether others come first, requests of the domain under way, head, name of the domain.
_Entry = tuple[int, bytes, bool, int, bytes, str]


# One for all domains of one host: the garbage collector walks each list.
_UNUSED: list[_HostEntry] = []
_NO_LINE: deque[tuple[int, int, str]] = deque()


class Domain:
    """A registered domain with hosts in memory.

    ``resting`` until so many hand-outs have been made in all; ``handed`` pages were handed out, of earlier
    runs too; ``due`` is the round in which it comes next whatever others offer. ``line`` are its ready hosts
    in the order in which they had their last turns, with what ``handed`` was then.
    """

    __slots__ = (
        *("due", "handed", "hosts", "in_flight", "is_active", "is_listed", "level", "line", "name"),
        *("offered", "ready", "resting", "sole"),
    )

    def __init__(self, name: str, level: int = COOL) -> None:
        self.name = name
        self.level = level
        self.sole = ""  # its host, as long as it never had another; then ``ready`` and ``line`` are not used
        self.hosts = 0
        self.in_flight = 0
        self.resting = 0
        self.handed = 0
        self.due = 0.0
        self.is_listed = False  # among those that will be due
        self.is_active = False
        self.ready = _UNUSED
        self.line = _NO_LINE
        self.offered: _Entry | None = None  # in the heap of domains

    @property
    def is_waiting(self) -> bool:
        """Whether it may be asked as well as any other."""
        return self.is_active and self.level == COOL


class _Turn(NamedTuple):
    """A hand-out to *domain*, and what was before it."""

    domain: Domain
    resting: int
    due: float
    round: float
    line_number: int


class Member(Protocol):
    """What is asked of a host."""

    name: str
    heads: list[bytes]
    in_flight: int
    in_flight_before: int  # as `Turns` saw it last
    domain: Domain | None
    line_number: int  # of its entry in the line of its domain; 0 for none

    @property
    def fetched(self) -> int: ...


HostT = TypeVar("HostT", bound=Member)


class Turns(Generic[HostT]):
    """*by_name* are the hosts in memory; *is_ready* says of a host whether it may be visited now.

    *domain_of* gives the registered domain of a host, which never has fewer than its last two labels. It is
    asked only for hosts that share these: most are alone with them, and reading the list of public suffixes
    takes 75 ms. *level_of* tells the level of a domain, where domains have any: then all hosts are asked for.
    """

    def __init__(
        self,
        by_name: dict[str, HostT],
        is_ready: Callable[[HostT], bool],
        domain_of: Callable[[str], str],
        level_of: Callable[[str], int] | None = None,
    ) -> None:
        self._by_name = by_name
        self._is_ready = is_ready
        self._domain_of = domain_of
        self._level_of = level_of
        self._domains: dict[str, Domain] = {}
        self._alone: dict[str, str] = {}  # hosts by their last two labels; empty where there were two
        self._heap: list[_Entry] = []
        self._resting: list[tuple[int, str]] = []
        self._handed_out = 0
        self._rounds = Rounds(self._domains)
        self._lined_up = 0
        self._last: _Turn | None = None
        self._active = 0  # domains with a ready host

    def update(self, host: HostT) -> None:
        """Take note of a host that has changed in any way; O(log hosts)."""
        domain = host.domain
        if domain is None:
            domain = self._join(host)
        change = host.in_flight - host.in_flight_before
        if change:
            host.in_flight_before = host.in_flight
            domain.in_flight += change
            if change > 0:
                self._hand_out(domain, host)
        if domain.sole:
            self._offer_sole(domain, host)
            return
        if self._is_ready(host):
            heapq.heappush(domain.ready, _host_entry(host))
            if len(domain.ready) > 16 + 4 * domain.hosts:
                domain.ready = [entry for entry in set(domain.ready) if self._holds(entry)]
                heapq.heapify(domain.ready)
            if not host.line_number:
                self._line_up(domain, host)
        else:
            host.line_number = 0
        self._offer(domain)

    def _line_up(self, domain: Domain, host: HostT) -> None:
        self._lined_up += 1
        host.line_number = self._lined_up
        domain.line.append((self._lined_up, domain.handed, host.name))
        if len(domain.line) > 16 + 4 * domain.hosts:
            domain.line = deque(entry for entry in domain.line if self._stands(entry))

    def _stands(self, entry: tuple[int, int, str]) -> bool:
        host = self._by_name.get(entry[2])
        return host is not None and host.line_number == entry[0]

    def _join(self, host: HostT) -> Domain:
        name = self._domain_name(host.name)
        domain = self._domains.get(name)
        if domain is None:
            level = COOL if self._level_of is None else self._level_of(name)
            domain = self._domains[name] = Domain(name, level)
            domain.sole = host.name
        elif domain.sole:
            first = self._by_name[domain.sole]
            domain.sole = ""
            domain.ready, domain.line = [], deque()
            if self._is_ready(first):
                domain.ready.append(_host_entry(first))
                self._line_up(domain, first)
        domain.hosts += 1
        domain.handed += host.fetched
        host.domain = domain
        return domain

    def _domain_name(self, name: str) -> str:
        """The domain of a host; its last two labels while it is alone with them."""
        if self._level_of is not None:
            return self._domain_of(name)
        end = name if name.count(".") < 2 else ".".join(name.rsplit(".", 2)[1:])
        first = self._alone.setdefault(end, name)
        if first == name:
            return end
        if first:
            self._alone[end] = ""
            host = self._by_name.get(first)
            if host is not None and host.domain is not None:
                self._rename(host.domain, self._domain_of(first))
        return self._domain_of(name)

    def _rename(self, domain: Domain, name: str) -> None:
        del self._domains[domain.name]
        self._domains[name] = domain
        domain.name = name
        if domain.offered is not None:
            self._push(domain, (*domain.offered[:5], name))
        if domain.is_listed:
            self._rounds.enlist(domain)

    def leave(self, host: HostT) -> None:
        """Forget a host that is no longer ready."""
        domain, host.domain = host.domain, None
        host.line_number = 0
        if domain is not None:
            domain.hosts -= 1
            if not domain.hosts:
                self._active -= domain.is_active
                del self._domains[domain.name]
                if self._alone.get(domain.name) == host.name:
                    del self._alone[domain.name]

    def take_back(self, host: HostT) -> None:
        """The last hand-out, to *host*, was none after all; `update` has to follow."""
        if self._last is not None and self._last.domain is host.domain:
            domain = self._last.domain
            _, domain.resting, domain.due, self._rounds.now, host.line_number = self._last
            domain.handed -= 1
            self._handed_out -= 1
            self._last = None
            if domain.is_active:
                self._rounds.enlist(domain)

    def _hand_out(self, domain: Domain, host: HostT) -> None:
        self._last = _Turn(domain, domain.resting, domain.due, self._rounds.now, host.line_number)
        host.line_number = 0
        self._handed_out += 1
        self._rounds.pass_turn(domain, self._active)
        if not domain.sole:
            domain.resting = max(domain.resting, self._handed_out) + max(self._active - 1, 0)
            heapq.heappush(self._resting, (domain.resting, domain.name))

    def set_level(self, name: str, level: int) -> None:
        """A domain, in memory or not, is as hot from now on."""
        domain = self._domains.get(name)
        if domain is None or domain.level == level:
            return
        domain.level = level
        if domain.is_active and level == COOL:
            self._rounds.start(domain)
        if domain.sole:
            domain.offered = None
            self._offer_sole(domain, self._by_name[domain.sole])
        else:
            self._offer(domain)

    def best(self) -> HostT | None:
        """The ready host whose turn it is, or None; O(log hosts), O(1) when there is none."""
        domain = self._rounds.overdue() or self._best_domain()
        if domain is None:
            return None
        if domain.sole:
            return self._by_name[domain.sole]
        entry = self._entry(domain)
        assert entry is not None  # it has a ready host, or it were not active
        line = domain.line
        while line and not self._stands(line[0]):
            line.popleft()
        if line and domain.handed - line[0][1] >= WITHIN * domain.hosts:
            return self._by_name[line[0][2]]
        return self._by_name[domain.ready[0][3]]

    def _best_domain(self) -> Domain | None:
        while self._resting and self._resting[0][0] <= self._handed_out:
            domain = self._domains.get(heapq.heappop(self._resting)[1])
            if domain is not None:
                self._offer(domain)
        heap = self._heap
        while heap:
            entry = heap[0]
            domain = self._domains.get(entry[5])
            if domain is not None and domain.sole:
                if domain.offered is entry:  # which every change of its host keeps true
                    return domain
                heapq.heappop(heap)
                continue
            if domain is not None and self._entry(domain) == entry:
                return domain
            heapq.heappop(heap)
            if domain is not None and domain.offered == entry:
                domain.offered = None
                self._offer(domain)
        return None

    def _offer_sole(self, domain: Domain, host: HostT) -> None:
        """`_offer` for a domain of one host: what it offers is what holds, or nothing."""
        if not self._is_ready(host) or domain.level == CLOSED:
            domain.offered = None
            self._set_active(domain, False)
            return
        head, offered = host.heads[0], domain.offered
        if offered is not None and offered[4] == head and offered[3] == domain.in_flight:
            return
        self._set_active(domain, True)
        self._push(
            domain,
            (domain.level, head[: queue_rows.SCORE_BYTES], False, domain.in_flight, head, domain.name),
        )

    def _offer(self, domain: Domain) -> None:
        entry = self._entry(domain)
        self._set_active(domain, entry is not None)
        if entry is not None and entry != domain.offered:
            self._push(domain, entry)

    def _set_active(self, domain: Domain, is_active: bool) -> None:
        if is_active is domain.is_active:
            return
        domain.is_active = is_active
        self._active += 1 if is_active else -1
        if is_active:
            self._rounds.start(domain)

    def _push(self, domain: Domain, entry: _Entry) -> None:
        domain.offered = entry
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 64 + 4 * len(self._domains):
            self._drop_stale()

    def _entry(self, domain: Domain) -> _Entry | None:
        ready = domain.ready
        if domain.level == CLOSED:
            return None
        while ready and not self._holds(ready[0]):
            heapq.heappop(ready)
        if not ready:
            return None
        score, _, head, _ = ready[0]
        others_first = domain.resting > self._handed_out
        return domain.level, score, others_first, domain.in_flight, head, domain.name

    def _holds(self, entry: _HostEntry) -> bool:
        host = self._by_name.get(entry[3])
        return (
            host is not None
            and self._is_ready(host)
            and host.heads[0] == entry[2]
            and host.in_flight == entry[1]
        )

    def _drop_stale(self) -> None:
        self._heap = []
        for domain in self._domains.values():
            if not domain.sole:
                domain.offered = self._entry(domain)
            if domain.offered is not None:
                self._heap.append(domain.offered)
        heapq.heapify(self._heap)


def _host_entry(host: Member) -> _HostEntry:
    # Names, not hosts: the garbage collector then has no reason to walk the heaps.
    head = host.heads[0]
    return head[: queue_rows.SCORE_BYTES], host.in_flight, head, host.name
