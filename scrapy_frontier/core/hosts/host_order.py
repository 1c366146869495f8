"""Chooses the next host: best score first, round-robin among domains on ties, no host starved.

A host with queued pages and room for another request is either ready, or in a heap until the time when it may
be asked again. Ready hosts are grouped by registered domain: domains take turns, and each picks one of its
hosts. The domain that is longest overdue is next. If none is due, domains are compared by these, in order:

1. whether they exceed their rate: a domain above its soft rate comes after all others, one above its hard
   rate gets no turn at all;
2. priority and score of the best page of their hosts;
3. whether they yield: after its turn, a domain of several hosts yields for as many hand-outs as there are
   other domains. In one crawl without this rule, a domain that kept producing new hosts took 3,506 of 3,973
   requests;
4. the number of requests to them under way, fewest first;
5. the age of their best page, oldest first.

By these rules alone, a host with poor pages would wait for ever beside one that always has better ones. So
waiting counts too, measured in rounds instead of seconds, as in fair queueing (Demers, Keshav and Shenker,
"Analysis and simulation of a fair queueing algorithm", 1989). A *round* is as many hand-outs as there are
domains that may be asked. After its turn, or once it may be asked again, a domain is due in `FIRST_ROUNDS` x
(1 + n) rounds if n of its pages were handed out, in `MOST_ROUNDS` at most. It gets its turn within a round
from then. In a domain of n hosts in memory, a host that was passed over for `WITHIN` x n turns is next.

Example: one of two domains always has the better page. A round is two hand-outs. The other domain is due
after 2 rounds and gets the 5th hand-out, is due 4 rounds later and gets the 14th, then the 27th, the 44th,
and in the end, due after 32 rounds, one in 65.

Stale entries are left in the heaps, and skipped when they reach the top.
"""

from __future__ import annotations

import heapq
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ..store.queue_keys import SCORE_BYTES
from .host import BLOCKED, BUSY, DELAYED, FOREVER, HELD, IDLE, READY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .host import Host

FIRST_ROUNDS = 2  # rounds until a domain is due, for each of its pages handed out so far
MOST_ROUNDS = 32  # rounds until a domain is due at the latest
WITHIN = 16  # turns of a domain until a host of it is due, for each host in memory

NORMAL, OVER_SOFT, OVER_HARD = range(3)  # levels of a domain: its pages come in turn, last, not at all


# -- rates of domains --------------------------------------------------------------------------------------

BURST = 10  # pages that may come at once before the rate applies
# Half a page less, because a float of POSIX seconds is not exact enough to tell the last of them apart.
_LIMIT = BURST - 0.5


class DomainRates(NamedTuple):
    """Pages a second of one registered domain, 0 for no limit: above ``soft`` its pages come after those of
    other domains, above ``hard`` none comes."""

    soft: float = 0.0
    hard: float = 0.0


class DomainRateLimiter:
    """Counts the recent pages of registered domains, in memory only: a leaky bucket for each of *rates*.

    A bucket is kept as the time at which the pages handed out so far would end at exactly the rate; a page
    may come while at most `BURST` of them are left. Each run begins with empty buckets.
    """

    def __init__(self, rates: DomainRates) -> None:
        self._soft, self._hard = (1 / rate if rate else 0.0 for rate in rates)  # seconds a page
        self._taken_until: dict[str, tuple[float, float]] = {}  # soft, hard
        # Domains above a rate, and the earliest time at which each may have a lower level.
        self._over: dict[str, float] = {}
        self._changes: list[tuple[float, str]] = []  # the same as a heap, with stale entries
        self._most = 64  # domains, before those without recent pages are dropped

    def level(self, name: str, now: float) -> int:
        """Return the level of a domain at *now*: `NORMAL`, `OVER_SOFT` or `OVER_HARD`."""
        soft, hard = self._free_at(name)
        return OVER_HARD if hard > now else OVER_SOFT if soft > now else NORMAL

    def _free_at(self, name: str) -> tuple[float, float]:
        """Return when a domain falls below its soft and its hard rate if no page is handed out; times in the
        past if it is below."""
        soft, hard = self._taken_until.get(name, (0.0, 0.0))
        return soft - _LIMIT * self._soft, hard - _LIMIT * self._hard

    def count(self, name: str, now: float, pages: float = 1.0) -> int:
        """Count a page of the domain that is handed out, or with -1 undo that; returns its level from now on.
        O(log domains)."""
        soft, hard = self._taken_until.get(name, (0.0, 0.0))
        if len(self._taken_until) >= self._most:
            self._taken_until = {key: until for key, until in self._taken_until.items() if max(until) > now}
            self._most = 64 + 2 * len(self._taken_until)
        self._taken_until[name] = max(soft, now) + pages * self._soft, max(hard, now) + pages * self._hard
        return self._judge(name, now)

    def _judge(self, name: str, now: float) -> int:
        level, free_at = self.level(name, now), self._free_at(name)
        at = free_at[level == OVER_HARD]
        if level == NORMAL:
            self._over.pop(name, None)
        elif at < self._over.get(name, FOREVER):
            self._over[name] = at
            heapq.heappush(self._changes, (at, name))
        return level

    def eased(self, now: float) -> list[tuple[str, int]]:
        """Return the domains whose level may be lower by *now*, with their levels. O(1) if there is none."""
        found = []
        while self._changes and self._changes[0][0] <= now:
            at, name = heapq.heappop(self._changes)
            if self._over.get(name) == at:
                del self._over[name]
                found.append((name, self._judge(name, now)))
        return found

    def next_change(self) -> float | None:
        """Return when the first domain may have a lower level (POSIX seconds); None if all are normal."""
        return self._changes[0][0] if self._over else None


# -- domains -----------------------------------------------------------------------------------------------

# Plain tuples of bytes and names, not of hosts, which the garbage collector does not walk.
_Offer = tuple[bytes, bytes, str]  # rank (`_rank`), head, name of the domain
_HostOffer = tuple[bytes, int, bytes, str]  # score, requests of the host under way, head, name
_CompactHost = tuple[_Offer, str, float]  # its offer, its name, the round in which its domain is due


class Domain:
    """A registered domain in the order of hosts.

    - ``hosts``: how many of its hosts are in memory; ``ready``: a heap of what its ready hosts offer.
    - ``offered``: its offer to `FairHostQueue`; None if none of its hosts may be asked.
    - ``yields_until``: the number of hand-outs in all until which it yields to other domains.
    - ``handed``: its pages handed out, in earlier runs too. ``due_round``: the round in which it is due, if
      it ``is_listed`` in the heap of due domains.
    - ``line``: if it has several hosts, the ready ones in the order of their last turns, with the value that
      ``handed`` had then.
    """

    __slots__ = (
        *("due_round", "handed", "hosts", "in_flight", "is_listed", "level", "line", "name", "offered"),
        *("ready", "yields_until"),
    )

    def __init__(self, name: str, level: int) -> None:
        self.name = name
        self.level = level
        self.hosts = self.in_flight = self.yields_until = self.handed = 0
        self.due_round = 0.0
        self.is_listed = False
        self.ready: list[_HostOffer] = []
        self.line: dict[str, int] | None = None
        self.offered: _Offer | None = None

    def update(self, host: Host, by_name: Mapping[str, Host], had_turn: bool) -> None:
        """Note that a host has changed, or *had_turn* just now. O(log hosts)."""
        offer = _host_offer(host) if host.state is READY else None
        line = self.line = self.line or {}
        if had_turn or offer is None:
            line.pop(host.name, None)
        if offer is None:
            return
        line.setdefault(host.name, self.handed)
        heapq.heappush(self.ready, offer)
        if len(self.ready) > 16 + 4 * self.hosts:
            self.clean(by_name)

    def clean(self, by_name: Mapping[str, Host]) -> None:
        """Remove stale offers. O(offers)."""
        self.ready = [each for each in set(self.ready) if _holds(each, by_name)]
        heapq.heapify(self.ready)

    def best(self, by_name: Mapping[str, Host]) -> _HostOffer | None:
        """Return the offer of the best ready host, None if none is ready."""
        ready = self.ready
        while self.hosts > 1 and ready and not _holds(ready[0], by_name):
            heapq.heappop(ready)
        return ready[0] if ready else None

    def next_host(self) -> str:
        """Return the name of the host whose turn it is: one that was passed over for long, or the best. Its
        offer has to be up to date."""
        if self.line:
            name, handed = next(iter(self.line.items()))
            if self.handed - handed >= WITHIN * self.hosts:
                return name
        return self.ready[0][3]


def _host_offer(host: Host) -> _HostOffer:
    head = host.head
    assert head is not None  # it is ready
    return head[:SCORE_BYTES], host.in_flight, head, host.name


def _holds(offer: _HostOffer, by_name: Mapping[str, Host]) -> bool:
    host = by_name.get(offer[3])
    return host is not None and host.state is READY and offer == _host_offer(host)


@lru_cache(maxsize=4096)
def _rank(level: int, score: bytes, is_yielding: bool, in_flight: int) -> bytes:
    """Return rules 1 to 4 of this module for a domain, as bytes that sort by them."""
    return b"%c%b%c%b" % (level, score, is_yielding, min(in_flight, 0xFFFF).to_bytes(2, "big"))


# -- turns -------------------------------------------------------------------------------------------------


def itself(name: str) -> str:
    """Return the name of a host as its domain: each host is a domain of its own."""
    return name


class FairHostQueue:
    """Keeps the ``hosts`` in memory in order, and tells which one is next.

    *domain_of* returns the registered domain of a host, to which *rates* apply. Of a host that may be asked
    and is far from its turn, only its place in the order may be kept: ``compact``, by its domain. Reads
    neither disk nor clock.
    """

    def __init__(self, domain_of: Callable[[str], str] = itself, rates: DomainRates | None = None) -> None:
        self.hosts: dict[str, Host] = {}
        self.compact: dict[str, _CompactHost] = {}
        self.idle: list[Host] = []  # whose delay has passed, for `Hosts` to forget them
        self._domain_of = domain_of
        self._limiter = None if rates is None or not any(rates) else DomainRateLimiter(rates)
        self._domains: dict[str, Domain] = {}
        self._domain_by_host: dict[str, Domain] = {}
        self._waiting: list[tuple[float, str]] = []  # when hosts may be asked or forgotten, and their names
        self._offers: list[_Offer] = []
        self._most_offers = 64  # before stale ones are removed
        self._yielding: list[tuple[int, str]] = []
        # The rounds in which domains are due, and their names; an early entry is corrected at the top.
        self._due: list[tuple[float, str]] = []
        self._handed_out = 0
        self._active = 0  # domains with an offer
        self._round = 0.0  # the virtual time

    # -- a host has changed ----------------------------------------------------------------------------

    def update(self, host: Host, now: float) -> None:
        """Update the place of *host* in the order; call it after each change of the host. One more request
        under way counts as a turn of its domain. O(log hosts)."""
        until, head = 0.0, host.head
        if head is None:
            host.state, until = IDLE, host.wakes_at
        elif host.is_blocked:
            host.state = BLOCKED
        elif "" in host.given_up:  # no request is sent for its pages
            host.state = READY
        elif host.held_until > now:
            host.state, until = HELD, host.held_until
        elif not host.has_room:
            host.state = BUSY
        elif host.ready_at > now:
            host.state, until = DELAYED, host.ready_at
        else:
            host.state = READY
        if host.wakes_at != until:
            self._wait(host, until)
        domain = self._domain_by_host.get(host.name) or self._join(host, now)
        change = host.in_flight - host.in_flight_before
        if change:
            host.in_flight_before = host.in_flight
            domain.in_flight += change
            if change > 0:
                self._count_turn(domain, now)
        if domain.hosts > 1:
            domain.update(host, self.hosts, change > 0)
            self._offer(domain)
        elif head is not None and host.state is READY:  # as of most domains, whose one host is the best
            best = head[:SCORE_BYTES], host.in_flight, head, host.name
            domain.ready = [best]
            self._offer_best(domain, best)
        else:
            domain.ready = []
            self._offer_nothing(domain)

    def _wait(self, host: Host, until: float) -> None:
        """Let *host* wait *until* then (POSIX seconds), when it is updated; 0 and infinite: at no known
        time."""
        host.wakes_at = until
        if 0.0 < until < FOREVER:
            heapq.heappush(self._waiting, (until, host.name))

    def _join(self, host: Host, now: float) -> Domain:
        name = self._domain_of(host.name)
        domain = self._domains.get(name)
        if domain is None:
            level = NORMAL if self._limiter is None else self._limiter.level(name, now)
            domain = self._domains[name] = Domain(name, level)
            place = self.compact.pop(name, None)
            if place is not None:  # of this host
                domain.offered, _, domain.due_round = place
                domain.is_listed = True
        domain.hosts += 1
        domain.handed += host.fetched
        self._domain_by_host[host.name] = domain
        return domain

    def drop(self, host: Host, now: float) -> None:
        """Forget a host with nothing queued and nothing under way, as soon as its delay has passed. Its row,
        on the disk or in the open batch, has to be up to date."""
        host.state = IDLE
        if host.ready_at > now:
            self._wait(host, host.ready_at)
            return
        del self.hosts[host.name]
        domain = self._domain_by_host.pop(host.name, None)
        if domain is not None:
            domain.hosts -= 1
            if domain.hosts == 1:
                domain.clean(self.hosts)
                domain.line = None
            elif not domain.hosts:
                self._active -= domain.offered is not None
                del self._domains[domain.name]

    def _count_turn(self, domain: Domain, now: float) -> None:
        self._handed_out += 1
        self._round += 1 / (self._active or 1)
        domain.handed += 1
        domain.due_round = self._round + _patience(domain)
        if domain.hosts > 1:
            domain.yields_until = max(domain.yields_until, self._handed_out) + max(self._active - 1, 0)
            heapq.heappush(self._yielding, (domain.yields_until, domain.name))
        if self._limiter is not None:
            self._set_level(domain.name, self._limiter.count(domain.name, now))

    def undo_turn(self, host: Host, now: float) -> None:
        """Undo the turn that *host* had just now, because nothing was sent to it."""
        domain = self._domain_by_host[host.name]
        domain.handed -= 1
        if self._limiter is not None:
            self._set_level(domain.name, self._limiter.count(domain.name, now, -1.0))

    # -- levels ----------------------------------------------------------------------------------------

    def _set_level(self, name: str, level: int) -> None:
        domain = self._domains.get(name)  # a domain without hosts gets its level in `_join`
        if domain is None or domain.level == level:
            return
        domain.level = level
        if domain.offered is not None and level == NORMAL:
            self._begin_waiting(domain)
        self._offer(domain)

    def is_over_hard_rate(self, host: Host) -> bool:
        """Return whether the domain of *host* is above its hard rate, so that none of its pages comes."""
        domain = self._domain_by_host.get(host.name)
        return domain is not None and domain.level == OVER_HARD

    @property
    def is_any_ready(self) -> bool:
        """Whether a host may be asked now."""
        return self._active > 0

    # -- the next turn ---------------------------------------------------------------------------------

    def best(self, now: float) -> str | None:
        """Return the name of the host whose turn it is, which may be ``compact``; None if no host may be
        asked. O(log hosts), O(1) if there is none."""
        if self._waiting and self._waiting[0][0] <= now:
            self._wake(now)
        if self._limiter is not None:
            for name, level in self._limiter.eased(now):
                self._set_level(name, level)
        return self._overdue() or self._best()

    def _wake(self, now: float) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] <= now:
            when, name = heapq.heappop(waiting)
            if not self._waits(when, name):
                continue
            host = self.hosts[name]
            host.wakes_at = 0.0
            self.update(host, now)
            if host.state is IDLE:
                self.idle.append(host)

    def next_time(self) -> float | None:
        """Return when the first host may be asked that waits, also for the rate of its domain (POSIX
        seconds); None if no host waits for a known time."""
        waiting = self._waiting
        while waiting and not self._waits(*waiting[0]):
            heapq.heappop(waiting)
        change = None if self._limiter is None else self._limiter.next_change()
        times = (waiting[0][0] if waiting else None, change)
        return min((when for when in times if when is not None), default=None)

    def _waits(self, when: float, name: str) -> bool:
        host = self.hosts.get(name)
        return host is not None and host.wakes_at == when

    def _best(self) -> str | None:
        while self._yielding and self._yielding[0][0] <= self._handed_out:
            domain = self._domains.get(heapq.heappop(self._yielding)[1])
            if domain is not None:
                self._offer(domain)
        offers = self._offers
        while offers:
            domain = self._domains.get(offers[0][2])
            if domain is not None and domain.offered is offers[0]:
                return domain.next_host()
            if domain is None and self._stands(offers[0]):
                return self.compact[offers[0][2]][1]
            heapq.heappop(offers)
        return None

    def _offer(self, domain: Domain) -> None:
        """Update the offer of *domain*."""
        best = domain.best(self.hosts)
        if best is None:
            self._offer_nothing(domain)
        else:
            self._offer_best(domain, best)

    def _offer_nothing(self, domain: Domain) -> None:
        self._active -= domain.offered is not None
        domain.offered = None

    def _offer_best(self, domain: Domain, best: _HostOffer) -> None:
        if domain.level == OVER_HARD:
            self._offer_nothing(domain)
            return
        before = domain.offered
        is_yielding = domain.yields_until > self._handed_out
        offer = _rank(domain.level, best[0], is_yielding, domain.in_flight), best[2], domain.name
        if before is None:
            self._active += 1
            self._begin_waiting(domain)
        if offer != before:
            domain.offered = offer
            self._push(offer)

    def _push(self, offer: _Offer) -> None:
        heapq.heappush(self._offers, offer)
        if len(self._offers) > self._most_offers:
            # Only what stands is looked at: of 50,000 domains this takes 15 ms, among all offers 90.
            self._offers = [each.offered for each in self._domains.values() if each.offered is not None]
            self._offers += (place[0] for place in self.compact.values())
            heapq.heapify(self._offers)
            self._most_offers = 64 + 4 * len(self._offers)

    def _stands(self, offer: _Offer) -> bool:
        """Return whether *offer* is not stale; a former offer that is equal to the present one is."""
        domain = self._domains.get(offer[2])
        if domain is None:
            return offer[2] in self.compact and self.compact[offer[2]][0] is offer
        return domain.offered is offer

    # -- age -------------------------------------------------------------------------------------------

    def _begin_waiting(self, domain: Domain) -> None:
        """Note that a domain may be asked from now on. O(log domains)."""
        domain.due_round = self._round + _patience(domain)
        if domain.is_listed:
            return
        domain.is_listed = True
        heapq.heappush(self._due, (domain.due_round, domain.name))
        if len(self._due) > 64 + 4 * len(self._domains) + 2 * len(self.compact):
            domains = self._domains.values()
            self._due = [(each.due_round, each.name) for each in domains if each.is_listed]
            self._due += ((place[2], name) for name, place in self.compact.items())
            heapq.heapify(self._due)

    def _overdue(self) -> str | None:
        """Return the next host of the domain that is due for longest; None if none is due. O(1) then."""
        due = self._due
        while due and due[0][0] <= self._round:
            name = due[0][1]
            domain, place = self._domains.get(name), self.compact.get(name)
            if domain is not None and domain.offered is not None and domain.level == NORMAL:
                due_round = domain.due_round
            elif place is not None:
                due_round = place[2]
            else:
                heapq.heappop(due)
                if domain is not None:
                    domain.is_listed = False
                continue
            if due_round <= self._round:
                return self.compact[name][1] if domain is None else domain.next_host()
            heapq.heapreplace(due, (due_round, name))  # it had turns since
        return None

    # -- compact hosts ---------------------------------------------------------------------------------

    def make_compact(self, host: Host) -> None:
        """Keep only the place of *host* in the order, in a third of the memory, if it is ready and alone in
        its domain. `best` still returns its name; then `Hosts` loads it again."""
        domain = self._domain_by_host.get(host.name)
        if domain is None or domain.hosts > 1 or domain.offered is None or domain.level != NORMAL:
            return
        if domain.yields_until > self._handed_out:
            return
        self.compact[domain.name] = domain.offered, host.name, domain.due_round
        del self._domains[domain.name], self._domain_by_host[host.name], self.hosts[host.name]

    def compact_beside(self, name: str) -> str | None:
        """Return the compact host of the domain of *name*, perhaps *name* itself; None if there is none."""
        place = self.compact.get(self._domain_of(name)) if self.compact else None
        return None if place is None else place[1]

    def rekey_compact(self, name: str, sort_keys: Iterable[bytes]) -> None:
        """Note new *sort_keys* of a host that is not in memory: if it is compact, its turn may come sooner. A
        place that is too good is corrected when its turn comes and it is loaded."""
        domain, best = self._domain_of(name), min(sort_keys)
        place = self.compact.get(domain)
        if place is not None and place[1] == name and best < place[0][1]:
            offer = _rank(NORMAL, best[:SCORE_BYTES], False, 0), best, domain
            self.compact[domain] = offer, name, place[2]
            self._push(offer)


def _patience(domain: Domain) -> int:
    return min(FIRST_ROUNDS * (1 + domain.handed), MOST_ROUNDS)
