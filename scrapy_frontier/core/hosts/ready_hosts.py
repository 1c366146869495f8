"""Which host may be visited now, and which of its pages comes first.

A host with queued pages and room for another request is either ready, and then `Turns` knows when it comes,
or in the heap of ``delayed`` ones, soonest first. What has become wrong is left in the heap and skipped
when it surfaces. Nothing here touches the disk or a clock: *now* is passed, `Clocks` sets the clock of a
host, and `HostTable` fills the heads.
"""

from __future__ import annotations

import heapq
from itertools import islice
from typing import TYPE_CHECKING

from . import turns
from .host import BLOCKED, BUSY, DELAYED, FOREVER, HELD, IDLE, LINGERING, READY, Host, Politeness
from .turns import DomainRateLimiter, SleepingHosts, Turns, may_sleep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..store.batch import Batch
    from ..store.records import HostRow
    from .turns import DomainRates, SleepingHost


def has_room(host: Host) -> bool:
    """Whether another request of *host* may be under way: no more than its concurrency are, one where that is
    doubted, and none that is about to go out."""
    return not host.sending and host.in_flight < (1 if host.is_doubted else host.concurrency)


def itself(name: str) -> str:
    """The registered domain of a host where nobody knows more: its name."""
    return name


def _plain(name: str, row: HostRow) -> Host:
    return Host(name, row, Politeness(0.0, 8))


class Hosts:
    """The hosts in memory, by name, and the heaps over them; and those ``asleep``, of which less is kept.

    *domain_of* gives a host's registered domain, for which the *rates* hold; *make* makes a host of its name
    and its row, with no heads.
    """

    def __init__(
        self,
        domain_of: Callable[[str], str] = itself,
        rates: DomainRates | None = None,
        make: Callable[[str, HostRow], Host] = _plain,
    ) -> None:
        self.by_name: dict[str, Host] = {}
        self.asleep = SleepingHosts()
        self.make = make
        self.most_awake = turns.AWAKE  # hosts, before some of them are looked at
        self._to_look_at: list[str] = []
        self._domain_of = domain_of
        self._limiter = None if rates is None else DomainRateLimiter(rates)
        level_of = None if self._limiter is None else self._limiter.level
        self._turns = Turns(self.by_name, domain_of, level_of)
        self._delayed: list[tuple[float, str]] = []

    def __repr__(self) -> str:
        places = [host.state for host in self.by_name.values()]
        return f"<Hosts {places.count(READY)} ready, {places.count(DELAYED)} delayed>"

    def __len__(self) -> int:
        return len(self.by_name) + len(self.asleep)

    def put(self, host: Host, now: float) -> None:
        """Give *host* the place it deserves at *now*; to be called after every change of it."""
        if not host.heads:
            if host.state is not LINGERING or host.in_flight:
                host.state = IDLE
        elif host.is_blocked:
            host.state = BLOCKED
        elif host.given_up_for is not None:  # nothing is asked of it
            host.state = READY
        elif host.held_until > now:
            if host.state is not HELD:
                host.state = HELD
                if host.held_until < FOREVER:
                    heapq.heappush(self._delayed, (host.held_until, host.name))
        elif not has_room(host):
            host.state = BUSY
        elif host.ready_at > now:
            if host.state is not DELAYED:
                host.state = DELAYED
                heapq.heappush(self._delayed, (host.ready_at, host.name))
        else:
            host.state = READY
        if host.domain is None and self.asleep.by_domain:
            self._wake_domain(self._turns.domain_name(host.name))
        self._turns.update(host)

    def put_anew(self, host: Host, now: float) -> None:
        """`put` a host whose clock was set at once: one in the delayed heap may come back sooner. O(log
        hosts)."""
        if host.state is DELAYED:
            host.state = IDLE
        self.put(host, now)

    def hand_out(self, host: Host, now: float) -> None:
        """A page of *host*, taken from its heads, is handed out, and its clock set by `Clocks.visit`: place,
        turn and rate of its domain follow."""
        self.put(host, now)
        if self._limiter is not None:
            domain = self._domain_of(host.name)
            self._set_level(domain, self._limiter.hand_out(domain, now))

    def taken_back(self, host: Host, now: float) -> None:
        """The page just handed out is none after all: turn and rate go back; the clock is
        `Clocks.take_back`'s, and `put` has to follow."""
        if self._limiter is not None:
            domain = self._domain_of(host.name)
            self._set_level(domain, self._limiter.hand_out(domain, now, -1.0))
        self._turns.take_back(host)  # last: a domain under its rate again would wait anew

    def was_visited(self, name: str, when: float, now: float) -> None:
        """A host, in memory or not, was visited last by an earlier run, at *when* (POSIX seconds, 0: never):
        its domain came as fast as that allows."""
        if self._limiter is not None:
            domain = self._domain_of(name)
            self._set_level(domain, self._limiter.assume(domain, when, now))

    def _set_level(self, domain: str, level: int) -> None:
        self._wake_domain(domain)
        self._turns.set_level(domain, level)

    def best(self, now: float) -> Host | None:
        """The ready host whose turn it is, or None; O(log hosts), O(1) when there is none."""
        if self._delayed and self._delayed[0][0] <= now:
            self._warm_up(now)
        if self._limiter is not None:
            for domain, level in self._limiter.changed_levels(now):
                self._set_level(domain, level)
        if self.asleep.by_domain and (sleeper := self._turns.sleeper(self.asleep)) is not None:
            self._wake(sleeper)
        name = self._turns.best()
        return None if name is None else self.by_name[name]

    def _warm_up(self, now: float) -> None:
        delayed = self._delayed
        while delayed and delayed[0][0] <= now:
            _, name = heapq.heappop(delayed)
            host = self.by_name.get(name)
            if host is None:
                continue
            if host.state is DELAYED or (host.state is HELD and host.held_until <= now):
                host.state = IDLE
                self.put(host, now)
            elif host.state is LINGERING and not host.queued:
                self.forget(host, now)

    # -- sleep -----------------------------------------------------------------------------------------

    def find(self, name: str) -> Host | None:
        """The host in memory, woken if it sleeps; None where it is not there. No store read."""
        host = self.by_name.get(name)
        if host is None and self.asleep.by_domain:
            sleeper = self._asleep(name)
            return None if sleeper is None else self._wake(sleeper)
        return host

    def is_there(self, name: str) -> bool:
        """Whether a host is in memory, asleep or awake; one that sleeps goes on sleeping."""
        return name in self.by_name or self._asleep(name) is not None

    def _asleep(self, name: str) -> SleepingHost | None:
        sleeper = self.asleep.by_domain.get(self._turns.domain_name(name)) if self.asleep.by_domain else None
        return sleeper if sleeper is not None and sleeper[2] == name else None

    def to_rekey(self, name: str, moved: Sequence[tuple[bytes, bytes]]) -> Host | None:
        """The host that is awake and has to know that rows of queued pages *moved*, from one sort key to
        another; None for one not in memory, and for one that sleeps, which is told here."""
        host = self.by_name.get(name)
        if host is None and (sleeper := self._asleep(name)) is not None:
            return None if self.asleep.rekey(sleeper, moved) else self._wake(sleeper)
        return host

    def _wake_domain(self, domain: str) -> None:
        sleeper = self.asleep.by_domain.get(domain)
        if sleeper is not None:
            self._wake(sleeper)

    def _wake(self, sleeper: SleepingHost) -> Host:
        row, heads, cursor = self.asleep.take(sleeper)
        host = self.by_name[sleeper[2]] = self.make(sleeper[2], row)
        host.heads, host.cursor, host.more, host.state = heads, cursor, bool(cursor), READY
        self._turns.wake(host, sleeper)
        return host

    def put_some_to_sleep(self, batch: Batch) -> None:
        """Put some hosts to sleep, 64 looked at; to be called where more than ``most_awake`` are awake, and
        nobody holds one."""
        names = self._to_look_at
        if not names:  # the first to come stay: most links are to hosts that were met early
            names.extend(islice(self.by_name, turns.AWAKE * 3 // 4, None))
        for _ in range(min(turns.LOOKED_AT_ONCE, len(names))):
            host = self.by_name.get(names.pop())
            if host is not None and may_sleep(host) and not batch.is_touched(host):
                domain = self._turns.put_to_sleep(host)
                if domain is not None:
                    self.asleep.put(host, domain.name, domain.due_round)
                    del self.by_name[host.name]
        most = max(turns.AWAKE, int(turns.GROWTH * len(self.by_name)))
        self.most_awake = 0 if names else most

    # -- time ------------------------------------------------------------------------------------------

    def next_ready(self) -> float | None:
        """When the first delayed or held host, or one of a domain over its rate, may be visited again
        (POSIX seconds); None: none waits for a time."""
        delayed = self._delayed
        while delayed and not self._waits(delayed[0][1]):
            heapq.heappop(delayed)
        first = delayed[0][0] if delayed else None
        change = None if self._limiter is None else self._limiter.next_change()
        return first if change is None else change if first is None else min(first, change)

    def _waits(self, name: str) -> bool:
        host = self.by_name.get(name)
        return host is not None and host.state in (DELAYED, LINGERING, HELD)

    def hold(self, host: Host, until: float, now: float) -> None:
        """Give no page of *host* away before *until* (POSIX seconds, infinite: until somebody says so); a
        time that has passed lets go."""
        host.held_until = until
        if host.state in (HELD, READY, DELAYED, BUSY):
            host.state = IDLE
            self.put(host, now)

    def forget(self, host: Host, now: float) -> None:
        """Drop a host that has nothing queued and nothing under way, as soon as its delay has passed.

        Its row on disk then says all there is to know; call it when that is written.
        """
        if host.ready_at > now:
            host.state = LINGERING
            heapq.heappush(self._delayed, (host.ready_at, host.name))
        else:
            host.state = IDLE
            self._turns.leave(host)
            del self.by_name[host.name]
