"""How hot a domain is: pages handed out, each forgotten exponentially, and what follows for its hosts.

A host that spawns sub-domains without end gets a queue and a clock for each of them; together they take what
many hosts should share. Every hand-out heats the registered domain by one; the heat decays with a time
constant of `BURST` / rate, so that at exactly that rate it stays at `BURST`. Above the soft rate the
domain's pages come after those of all cooler ones, above the hard rate nothing of it is leased until it
has cooled.

Heat is counted at hand-out, in double precision, and in memory only. Of earlier runs it is known when each
host was visited last: then its domain is taken to have been as hot as it is at exactly the rate. So a crawl
that starts has no second burst for it, and no run in a row is faster than one.
"""

from __future__ import annotations

import heapq
from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

from . import keys
from .hosts import Hosts, Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from .hosts import Host

BURST = 10  # pages that may come at once before the rate holds
# Between two hand-outs at exactly the rate the heat swings half a page around BURST: what waits until it is
# half a page below comes at the rate, 0.1 % slower at most.
_LIMIT = BURST - 0.5
_STEADY = _LIMIT + 1  # right after a hand-out
_COLD = 0.5  # a domain this cool is as good as unknown
_MOMENT = 1e-3  # seconds; the clock's own grain at 1.7e9 would let a domain cool for ever

COOL, HOT, CLOSED = range(3)

# Score first; among equals the host with the fewest requests under way, then the oldest page. Names, not
# hosts: the garbage collector then has no reason to walk the heaps.
Entry = tuple[bytes, int, bytes, str]


def entry_of(host: Host) -> Entry:
    head = host.heads[0]
    return head[: keys.SCORE_BYTES], host.in_flight, head, host.name


class Rates(NamedTuple):
    """Pages a second of one registered domain, 0 for no limit, and what the domain of a host is."""

    soft: float
    hard: float
    domain_of: Callable[[str], str]


class Heat:
    """The heat of one domain by one rate, as of *since*."""

    __slots__ = ("rate", "since", "value")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.value = self.since = 0.0

    def at(self, now: float) -> float:
        return self.value * exp(-max(now - self.since, 0.0) * self.rate / BURST)

    def add(self, now: float) -> None:
        if self.rate:
            self.value, self.since = self.at(now) + 1.0, max(now, self.since)

    def take_back(self, now: float) -> None:
        """Undo an `add` at *now*."""
        if self.rate:
            self.value, self.since = max(self.at(now) - 1.0, 0.0), max(now, self.since)

    def assume(self, when: float, now: float) -> None:
        """Hand-outs until *when* are not known: the heat was then that of a steady rate if it is more."""
        if self.rate and _STEADY * exp(-max(now - when, 0.0) * self.rate / BURST) > self.at(now):
            self.value, self.since = _STEADY, when

    def wait(self, now: float) -> float:
        """Seconds until the rate is no longer exceeded; 0 where it is not."""
        heat = self.at(now)
        return log(heat / _LIMIT) * BURST / self.rate + _MOMENT if heat > _LIMIT else 0.0


class Domain:
    """A registered domain and the entries of its ready hosts."""

    __slots__ = ("entries", "hard", "level", "name", "shown", "soft")

    def __init__(self, name: str, rates: Rates) -> None:
        self.name = name
        self.soft, self.hard = Heat(rates.soft), Heat(rates.hard)
        self.entries: list[Entry] = []
        self.level = COOL
        self.shown: Entry | None = None  # which entry stands for the domain among the others

    def judge(self, now: float) -> float:
        """Set the level; seconds until it may be another, 0 for a cool domain."""
        closed = self.hard.wait(now)
        hot = 0.0 if closed else self.soft.wait(now)
        self.level = CLOSED if closed else HOT if hot else COOL
        return closed or hot

    def is_cold(self, now: float) -> bool:
        return self.soft.at(now) < _COLD and self.hard.at(now) < _COLD


class TemperedHosts(Hosts):
    """`Hosts` where cool domains come first and too hot ones not at all.

    A heap of heaps: each domain has its ready hosts, and shows the best of them among the domains. So a
    domain that changes its level moves as one, however many hosts it has: O(log hosts) a lease. Turns of
    equals are not shared by domain here: the rates see to it that none takes too many.
    """

    def __init__(self, rates: Rates) -> None:
        super().__init__()
        self._rates = rates
        self._domains: dict[str, Domain] = {}
        self._shown: list[tuple[int, Entry, str]] = []
        self._heated: list[tuple[float, str]] = []  # when a domain may be cooler
        self._entries = 0

    def leased(self, host: Host, now: float) -> None:
        domain = self._domain(host.name)
        domain.soft.add(now)
        domain.hard.add(now)
        self._judge(domain, now)

    def taken_back(self, host: Host, now: float) -> None:
        domain = self._domain(host.name)
        domain.soft.take_back(now)
        domain.hard.take_back(now)
        self._judge(domain, now)

    def was_visited(self, name: str, when: float, now: float) -> None:
        slowest = min(filter(None, (self._rates.soft, self._rates.hard)), default=0.0)
        if not when or _STEADY * exp(-max(now - when, 0.0) * slowest / BURST) < _COLD:
            return
        domain = self._domain(name)
        domain.soft.assume(when, now)
        domain.hard.assume(when, now)
        self._judge(domain, now)

    def _judge(self, domain: Domain, now: float) -> None:
        before = domain.level
        wait = domain.judge(now)
        if domain.level != before:
            if before == COOL:
                heapq.heappush(self._heated, (now + wait, domain.name))
            domain.shown = None
            self._show(domain)

    def best(self, now: float) -> Host | None:
        self._warm_up(now)
        self._cool_down(now)
        shown = self._shown
        while shown:
            level, entry, name = shown[0]
            domain = self._domains.get(name)
            if domain is not None and domain.level == level and domain.shown == entry:
                host = self._host_of(entry)
                if host is not None:
                    return host
                domain.shown = None
            heapq.heappop(shown)
            if domain is not None:
                self._show(domain)
        return None

    def next_ready(self) -> float | None:
        first = super().next_ready()
        if not self._heated:
            return first
        return self._heated[0][0] if first is None else min(first, self._heated[0][0])

    def _domain(self, host: str) -> Domain:
        name = self._rates.domain_of(host)
        domain = self._domains.get(name)
        if domain is None:
            domain = self._domains[name] = Domain(name, self._rates)
        return domain

    def _changed(self, host: Host, now: float) -> None:
        if host.place is not Place.READY:
            return
        domain = self._domain(host.name)
        heapq.heappush(domain.entries, entry_of(host))
        self._entries += 1
        self._show(domain)
        most = 64 + 4 * len(self.by_name)
        if self._entries > most or len(self._shown) > most or len(self._domains) > most:
            self._tidy(now)

    def _gone(self, host: Host) -> None:
        """Its entries are dropped when they surface."""

    def _host_of(self, entry: Entry) -> Host | None:
        """The host of an entry; None if the entry has become wrong."""
        host = self.by_name.get(entry[3])
        if (
            host is not None
            and host.place is Place.READY
            and host.heads[0] == entry[2]
            and host.in_flight == entry[1]
        ):
            return host
        return None

    def _show(self, domain: Domain) -> None:
        """Have the best ready host of a domain stand for it, unless that one does or the domain is closed."""
        entries = domain.entries
        while entries and self._host_of(entries[0]) is None:
            heapq.heappop(entries)
            self._entries -= 1
        if entries and domain.level != CLOSED and domain.shown != entries[0]:
            domain.shown = entries[0]
            heapq.heappush(self._shown, (domain.level, entries[0], domain.name))

    def _cool_down(self, now: float) -> None:
        heated = self._heated
        while heated and heated[0][0] <= now:
            domain = self._domains.get(heapq.heappop(heated)[1])
            if domain is None:
                continue
            before = domain.level
            wait = domain.judge(now)
            if wait:
                heapq.heappush(heated, (now + wait, domain.name))
            if domain.level != before:
                domain.shown = None
                self._show(domain)

    def _tidy(self, now: float) -> None:
        """Drop entries that have become wrong, and domains that are cold and have no ready host."""
        ready: dict[str, list[Entry]] = {name: [] for name in self._domains}
        for host in self.by_name.values():
            if host.is_ready:
                ready[self._domain(host.name).name].append(entry_of(host))
        self._shown = []
        self._entries = 0
        for name, domain in list(self._domains.items()):
            domain.entries, domain.shown = ready[name], None
            heapq.heapify(domain.entries)
            self._entries += len(domain.entries)
            if not domain.entries and domain.level == COOL and domain.is_cold(now):
                del self._domains[name]
            else:
                self._show(domain)
