"""How hot a domain is: pages handed out, each forgotten exponentially, and what follows for its hosts.

A host that spawns sub-domains without end gets a queue and a clock for each of them; together they take what
many hosts should share. Every hand-out heats the registered domain by one; the heat decays with a time
constant of `BURST` / rate, so that at exactly that rate it stays at `BURST`. Above the soft rate the
domain's pages come after those of all cooler ones, above the hard rate nothing of it is leased until it
has cooled. `turns.Turns` has the order; here is the clock that says which domain has which level.

Heat is counted at hand-out, in double precision, and in memory only. Of earlier runs it is known when each
host was visited last: then its domain is taken to have been as hot as it is at exactly the rate. So a crawl
that starts has no second burst for it, and no run in a row is faster than one.
"""

from __future__ import annotations

import heapq
from math import exp, log
from typing import NamedTuple

from .domain import CLOSED, COOL, HOT

BURST = 10  # pages that may come at once before the rate holds
# Between two hand-outs at exactly the rate the heat swings half a page around BURST: what waits until it is
# half a page below comes at the rate, 0.1 % slower at most.
_LIMIT = BURST - 0.5
_STEADY = _LIMIT + 1  # right after a hand-out
_COLD = 0.5  # a domain this cool is as good as unknown
_MOMENT = 1e-3  # seconds; the clock's own grain at 1.7e9 would let a domain cool for ever


class DomainRates(NamedTuple):
    """Pages a second of one registered domain, 0 for no limit. Above ``soft`` its pages come after those of
    others, above ``hard`` none comes."""

    soft: float
    hard: float


class Heat:
    """The heat of one domain by one *rate* (pages a second, 0: no limit), as of ``since`` (POSIX seconds)."""

    __slots__ = ("rate", "since", "value")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.value = self.since = 0.0

    def at(self, now: float) -> float:
        """The heat at *now*, in pages: those handed out, of which a share is forgotten, 1/e left after
        `BURST` / rate seconds."""
        return self.value * exp(-max(now - self.since, 0.0) * self.rate / BURST)

    def add(self, now: float, pages: float = 1.0) -> None:
        """A page is handed out at *now*; -1: one that was is none after all."""
        if self.rate:
            self.value, self.since = max(self.at(now) + pages, 0.0), max(now, self.since)

    def assume(self, when: float, now: float) -> None:
        """Hand-outs until *when* are not known: the heat was then that of a steady rate if it is more."""
        if self.rate and _STEADY * exp(-max(now - when, 0.0) * self.rate / BURST) > self.at(now):
            self.value, self.since = _STEADY, when

    def wait(self, now: float) -> float:
        """Seconds from *now* until the rate is no longer exceeded if no page is handed out; 0 where it is
        not."""
        heat = self.at(now)
        return log(heat / _LIMIT) * BURST / self.rate + _MOMENT if heat > _LIMIT else 0.0


class _Domain:
    """A registered domain, whether it has hosts in memory or not."""

    __slots__ = ("hard", "level", "soft")

    def __init__(self, rates: DomainRates) -> None:
        self.soft, self.hard = Heat(rates.soft), Heat(rates.hard)
        self.level = COOL

    def judge(self, now: float) -> float:
        """Set the level; seconds until it may be another, 0 for a cool domain."""
        closed = self.hard.wait(now)
        hot = 0.0 if closed else self.soft.wait(now)
        self.level = CLOSED if closed else HOT if hot else COOL
        return closed or hot

    def is_cold(self, now: float) -> bool:
        return self.soft.at(now) < _COLD and self.hard.at(now) < _COLD


class Temperature:
    """The heat of registered domains by name. Those that are cold are forgotten; O(log domains) a call."""

    def __init__(self, rates: DomainRates) -> None:
        self._rates = rates
        self._domains: dict[str, _Domain] = {}
        self._heated: list[tuple[float, str]] = []  # when a domain that is not cool may be cooler
        self._most = 64  # domains, before the cold ones are dropped

    def level(self, name: str) -> int:
        """`COOL`, `HOT` or `CLOSED`, as of the last call that said when it is; a domain nobody knows is
        cool."""
        domain = self._domains.get(name)
        return COOL if domain is None else domain.level

    def hand_out(self, name: str, now: float, pages: float = 1.0) -> int:
        """A page of the domain is handed out, with -1 *pages* none after all; its level from now on."""
        domain = self._domain(name, now)
        domain.soft.add(now, pages)
        domain.hard.add(now, pages)
        return self._judge(name, domain, now)

    def assume(self, name: str, when: float, now: float) -> int:
        """An earlier run visited the domain last at *when* (0: never), as often as it might; the level at
        *now*."""
        slowest = min(filter(None, self._rates), default=0.0)
        if not when or _STEADY * exp(-max(now - when, 0.0) * slowest / BURST) < _COLD:
            return self.level(name)
        domain = self._domain(name, now)
        domain.soft.assume(when, now)
        domain.hard.assume(when, now)
        return self._judge(name, domain, now)

    def cooled(self, now: float) -> list[tuple[str, int]]:
        """Domains whose level has changed by *now*, and that level, each told once; O(1) where there is
        none."""
        found = []
        heated = self._heated
        while heated and heated[0][0] <= now:
            name = heapq.heappop(heated)[1]
            domain = self._domains.get(name)
            if domain is None:
                continue
            before = domain.level
            wait = domain.judge(now)
            if wait:
                heapq.heappush(heated, (now + wait, name))
            if domain.level != before:
                found.append((name, domain.level))
        return found

    def next_change(self) -> float | None:
        """When the first domain that is not cool may be cooler (POSIX seconds); None: all are. O(1)."""
        return self._heated[0][0] if self._heated else None

    def _judge(self, name: str, domain: _Domain, now: float) -> int:
        before = domain.level
        wait = domain.judge(now)
        if before == COOL and wait:
            heapq.heappush(self._heated, (now + wait, name))
        return domain.level

    def _domain(self, name: str, now: float) -> _Domain:
        domain = self._domains.get(name)
        if domain is None:
            if len(self._domains) >= self._most:
                self._tidy(now)
            domain = self._domains[name] = _Domain(self._rates)
        return domain

    def _tidy(self, now: float) -> None:
        cold = [name for name, each in self._domains.items() if each.level == COOL and each.is_cold(now)]
        for name in cold:
            del self._domains[name]
        self._most = 64 + 2 * len(self._domains)
