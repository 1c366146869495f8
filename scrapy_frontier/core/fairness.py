"""Whose turn it is among the hosts that may be visited now: best score first, and equals share by domain.

A registered domain that spawns hosts without end would get nearly every turn if its hosts were equals of all
others: 3,506 of 3,973 requests of a stock crawl. So among equal scores the domain with the fewest requests
under way comes first; and a domain of several hosts that had a turn waits until the others have had as many
as there are other domains. A host that is alone in its domain, as most are, comes in order of discovery.

Owns two levels of heaps: the ready hosts of each domain, and the domains. Entries that have become wrong are
left in the heaps and skipped when they surface.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from . import keys

if TYPE_CHECKING:
    from collections.abc import Callable

# Score, requests of the host under way, head, name.
_HostEntry = tuple[bytes, int, bytes, str]
# Score, whether others come first, requests of the domain under way, head, name of the domain.
_Entry = tuple[bytes, bool, int, bytes, str]


_UNUSED: list[_HostEntry] = []  # one for all domains of one host: the garbage collector walks each list


class Domain:
    """A registered domain with hosts in memory; ``resting`` until so many hand-outs have been made in all."""

    __slots__ = ("hosts", "in_flight", "is_active", "name", "offered", "ready", "resting", "sole")

    def __init__(self, name: str) -> None:
        self.name = name
        self.sole = ""  # its host, as long as it never had another; then ``ready`` is not used
        self.hosts = 0
        self.in_flight = 0
        self.resting = 0
        self.is_active = False
        self.ready = _UNUSED
        self.offered: _Entry | None = None  # in the heap of domains


class Member(Protocol):
    """What is asked of a host."""

    name: str
    heads: list[bytes]
    in_flight: int
    in_flight_before: int  # as `Turns` saw it last
    domain: Domain | None


HostT = TypeVar("HostT", bound=Member)


class Turns(Generic[HostT]):
    """*by_name* are the hosts in memory; *is_ready* says of a host whether it may be visited now.

    *domain_of* gives the registered domain of a host, which never has fewer than its last two labels. It is
    asked only for hosts that share these: most are alone with them, and reading the list of public suffixes
    takes 75 ms.
    """

    def __init__(
        self, by_name: dict[str, HostT], is_ready: Callable[[HostT], bool], domain_of: Callable[[str], str]
    ) -> None:
        self._by_name = by_name
        self._is_ready = is_ready
        self._domain_of = domain_of
        self._domains: dict[str, Domain] = {}
        self._alone: dict[str, str] = {}  # hosts by their last two labels; empty where there were two
        self._heap: list[_Entry] = []
        self._resting: list[tuple[int, str]] = []
        self._handed_out = 0
        self._last: tuple[Domain, int] | None = None  # handed out to, and until when it rested before
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
                self._hand_out(domain, change)
        if domain.sole:
            self._offer_sole(domain, host)
            return
        if self._is_ready(host):
            heapq.heappush(domain.ready, _host_entry(host))
            if len(domain.ready) > 16 + 4 * domain.hosts:
                domain.ready = [entry for entry in set(domain.ready) if self._holds(entry)]
                heapq.heapify(domain.ready)
        self._offer(domain)

    def _join(self, host: HostT) -> Domain:
        name = self._domain_name(host.name)
        domain = self._domains.get(name)
        if domain is None:
            domain = self._domains[name] = Domain(name)
            domain.sole = host.name
        elif domain.sole:
            first = self._by_name[domain.sole]
            domain.sole = ""
            domain.ready = []
            if self._is_ready(first):
                domain.ready.append(_host_entry(first))
        domain.hosts += 1
        host.domain = domain
        return domain

    def _domain_name(self, name: str) -> str:
        """The domain of a host; its last two labels while it is alone with them."""
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
            self._push(domain, (*domain.offered[:4], name))

    def leave(self, host: HostT) -> None:
        """Forget a host that is no longer ready."""
        domain, host.domain = host.domain, None
        if domain is not None:
            domain.hosts -= 1
            if not domain.hosts:
                self._active -= domain.is_active
                del self._domains[domain.name]
                if self._alone.get(domain.name) == host.name:
                    del self._alone[domain.name]

    def take_back(self, host: HostT) -> None:
        """The last hand-out, to *host*, was none after all; `update` has to follow."""
        if self._last is not None and self._last[0] is host.domain:
            self._handed_out -= 1
            self._last[0].resting = self._last[1]
            self._last = None

    def _hand_out(self, domain: Domain, count: int) -> None:
        self._last = domain, domain.resting
        self._handed_out += count
        if not domain.sole:
            domain.resting = max(domain.resting, self._handed_out) + max(self._active - 1, 0) * count
            heapq.heappush(self._resting, (domain.resting, domain.name))

    def best(self) -> HostT | None:
        """The ready host whose turn it is, or None; O(log hosts), O(1) when there is none."""
        while self._resting and self._resting[0][0] <= self._handed_out:
            domain = self._domains.get(heapq.heappop(self._resting)[1])
            if domain is not None:
                self._offer(domain)
        heap = self._heap
        while heap:
            entry = heap[0]
            domain = self._domains.get(entry[4])
            if domain is not None and domain.sole:
                if domain.offered is entry:  # which every change of its host keeps true
                    return self._by_name[domain.sole]
                heapq.heappop(heap)
                continue
            if domain is not None and self._entry(domain) == entry:
                return self._by_name[domain.ready[0][3]]
            heapq.heappop(heap)
            if domain is not None and domain.offered == entry:
                domain.offered = None
                self._offer(domain)
        return None

    def _offer_sole(self, domain: Domain, host: HostT) -> None:
        """`_offer` for a domain of one host: what it offers is what holds, or nothing."""
        if not self._is_ready(host):
            domain.offered = None
            if domain.is_active:
                domain.is_active = False
                self._active -= 1
            return
        head, offered = host.heads[0], domain.offered
        if offered is not None and offered[3] == head and offered[2] == domain.in_flight:
            return
        if not domain.is_active:
            domain.is_active = True
            self._active += 1
        self._push(domain, (head[: keys.SCORE_BYTES], False, domain.in_flight, head, domain.name))

    def _offer(self, domain: Domain) -> None:
        entry = self._entry(domain)
        is_active = entry is not None
        if is_active is not domain.is_active:
            domain.is_active = is_active
            self._active += 1 if is_active else -1
        if entry is not None and entry != domain.offered:
            self._push(domain, entry)

    def _push(self, domain: Domain, entry: _Entry) -> None:
        domain.offered = entry
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 64 + 4 * len(self._domains):
            self._drop_stale()

    def _entry(self, domain: Domain) -> _Entry | None:
        ready = domain.ready
        while ready and not self._holds(ready[0]):
            heapq.heappop(ready)
        if not ready:
            return None
        score, _, head, _ = ready[0]
        others_first = domain.resting > self._handed_out
        return score, others_first, domain.in_flight, head, domain.name

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
    return head[: keys.SCORE_BYTES], host.in_flight, head, host.name
