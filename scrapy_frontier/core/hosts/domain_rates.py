"""How fast pages of a domain come: those handed out, each forgotten exponentially, and what follows.

A host that spawns sub-domains without end gets a queue and a clock for each of them; together they take what
many hosts should share. Every hand-out adds one to the recent pages of the registered domain; their number
decays with a time constant of `BURST` / rate, so that at exactly that rate it stays at `BURST`. Above the
soft rate the domain's pages come after those of all others, above the hard rate nothing of it is leased until
enough are forgotten. `order_of_hosts.Turns` has the order; here is the clock that says which domain is at
which level.

Pages are counted at hand-out, in double precision, and in memory only. Of earlier runs it is known when each
host was visited last: then its domain is taken to have had as many as it has at exactly the rate. So a crawl
that starts has no second burst for it, and no run in a row is faster than one.
"""

from __future__ import annotations

import heapq
from math import exp, log
from typing import NamedTuple

from .domain import NORMAL, OVER_HARD, OVER_SOFT

BURST = 10  # pages that may come at once before the rate holds
# Between two hand-outs at exactly the rate the number swings half a page around BURST: what waits until it is
# half a page below comes at the rate, 0.1 % slower at most.
_LIMIT = BURST - 0.5
_STEADY = _LIMIT + 1  # right after a hand-out
_FORGOTTEN = 0.5  # pages; a domain with fewer is as good as unknown
_MOMENT = 1e-3  # seconds; the clock's own grain at 1.7e9 would let a domain wait for ever


class DomainRates(NamedTuple):
    """Pages a second of one registered domain, 0 for no limit. Above ``soft`` its pages come after those of
    others, above ``hard`` none comes."""

    soft: float
    hard: float


class RecentPages:
    """The recent pages of a domain by one *rate* (a second, 0: no limit), as of ``since`` (POSIX seconds)."""

    __slots__ = ("rate", "since", "value")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.value = self.since = 0.0

    def at(self, now: float) -> float:
        """How many there are at *now*: those handed out, of which a share is forgotten, 1/e left after
        `BURST` / rate seconds."""
        return self.value * exp(-max(now - self.since, 0.0) * self.rate / BURST)

    def add(self, now: float, pages: float = 1.0) -> None:
        """A page is handed out at *now*; -1: one that was is none after all."""
        if self.rate:
            self.value, self.since = max(self.at(now) + pages, 0.0), max(now, self.since)

    def assume(self, when: float, now: float) -> None:
        """Hand-outs until *when* are not known: there were then as many as at a steady rate, if more."""
        if self.rate and _STEADY * exp(-max(now - when, 0.0) * self.rate / BURST) > self.at(now):
            self.value, self.since = _STEADY, when

    def wait(self, now: float) -> float:
        """Seconds from *now* until the rate is no longer exceeded if no page is handed out; 0 where it is
        not."""
        pages = self.at(now)
        return log(pages / _LIMIT) * BURST / self.rate + _MOMENT if pages > _LIMIT else 0.0


class _Domain:
    """A registered domain, whether it has hosts in memory or not."""

    __slots__ = ("hard", "level", "soft")

    def __init__(self, rates: DomainRates) -> None:
        self.soft, self.hard = RecentPages(rates.soft), RecentPages(rates.hard)
        self.level = NORMAL

    def judge(self, now: float) -> float:
        """Set the level; seconds until it may be another, 0 for `NORMAL`."""
        hard = self.hard.wait(now)
        soft = 0.0 if hard else self.soft.wait(now)
        self.level = OVER_HARD if hard else OVER_SOFT if soft else NORMAL
        return hard or soft

    def is_forgotten(self, now: float) -> bool:
        return self.soft.at(now) < _FORGOTTEN and self.hard.at(now) < _FORGOTTEN


class DomainRateLimiter:
    """The rates of registered domains by name. Those with no recent page are dropped; O(log domains) each."""

    def __init__(self, rates: DomainRates) -> None:
        self._rates = rates
        self._domains: dict[str, _Domain] = {}
        self._over: list[tuple[float, str]] = []  # when a domain may be of a lower level
        self._most = 64  # domains, before those with no recent page are dropped

    def level(self, name: str) -> int:
        """`NORMAL`, `OVER_SOFT` or `OVER_HARD`, as of the last call that said when it is; a domain nobody
        knows is normal."""
        domain = self._domains.get(name)
        return NORMAL if domain is None else domain.level

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
        if not when or _STEADY * exp(-max(now - when, 0.0) * slowest / BURST) < _FORGOTTEN:
            return self.level(name)
        domain = self._domain(name, now)
        domain.soft.assume(when, now)
        domain.hard.assume(when, now)
        return self._judge(name, domain, now)

    def changed_levels(self, now: float) -> list[tuple[str, int]]:
        """Domains whose level has changed by *now*, and that level, each told once; O(1) where there is
        none."""
        found = []
        over = self._over
        while over and over[0][0] <= now:
            name = heapq.heappop(over)[1]
            domain = self._domains.get(name)
            if domain is None:
                continue
            before = domain.level
            wait = domain.judge(now)
            if wait:
                heapq.heappush(over, (now + wait, name))
            if domain.level != before:
                found.append((name, domain.level))
        return found

    def next_change(self) -> float | None:
        """When the first domain may be of a lower level (POSIX seconds); None: all are normal. O(1)."""
        return self._over[0][0] if self._over else None

    def _judge(self, name: str, domain: _Domain, now: float) -> int:
        before = domain.level
        wait = domain.judge(now)
        if before == NORMAL and wait:
            heapq.heappush(self._over, (now + wait, name))
        return domain.level

    def _domain(self, name: str, now: float) -> _Domain:
        domain = self._domains.get(name)
        if domain is None:
            if len(self._domains) >= self._most:
                self._tidy(now)
            domain = self._domains[name] = _Domain(self._rates)
        return domain

    def _tidy(self, now: float) -> None:
        for name, domain in list(self._domains.items()):
            if domain.level == NORMAL and domain.is_forgotten(now):
                del self._domains[name]
        self._most = 64 + 2 * len(self._domains)
