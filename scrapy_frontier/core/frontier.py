"""The frontier: everything known but not finished, and the verbs on it.

`Frontier` alone decides what becomes of a page. Every verb takes plain data and *now* (POSIX seconds),
reads, decides, and puts its rows into one batch; `commit` writes that batch atomically. `lease` and
`release` commit by themselves, so a page's links are durable no later than its own end. Nothing is
written at hand-out: the queue row goes when the lease ends, and whatever a crash interrupts is still queued.

The verbs are safe to repeat: discovering a known page and releasing an ended lease do nothing.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple

from . import keys, records
from .budgets import NO_LIMITS, Budgets, Limits, Over
from .deferral import AT_A_TIME, Deferral
from .errors import UnreadableRecord
from .hosts import HEADS, SENDING, Host, Hosts, Place, Politeness, host_of
from .journal import Journal
from .leases import Lease, Leases, Outcome
from .lifecycle import TABLE, Event, State, after
from .orders import Orders, all_orders
from .records import Counts, HostRow, Page
from .urls import trap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .store import Store
    from .urls import TrapLimits

UNLIMITED = Politeness(0.0, 8)
NEUTRAL = 0x8000  # the score bucket of a page nothing is known about
_NO_ORDERS = Orders()
_MOST_FRESH = 100  # new pages in one batch: a seed list must not pile up in memory
_WAKE_LIMIT = 64  # waiting pages that one lease puts back into their queues, to keep it short
_MOST_REFUSALS = 100


class Link(NamedTuple):
    """A page to discover.

    ``host`` is the unit of politeness, repeated in ``kept_host`` where it is not the URL's own.
    ``again`` asks for a visit even of a known page (``dont_filter``). A link that is not ``stored`` lives
    in memory and does not survive a restart, and no budget holds for it. ``depth`` counts links from a seed.
    What the user ``named`` is no trap, whatever it looks like, and is always kept.
    """

    fingerprint: bytes
    url: str
    host: str
    priority: int = 0
    payload: bytes = b""
    parent: int | None = None
    bucket: int = NEUTRAL
    again: bool = False
    stored: bool = True
    kept_host: str = ""
    depth: int = 0
    is_named: bool = False


class Refusal(NamedTuple):
    """A link that was not queued: a trap (its ``kind``), ``deferred`` until a budget has room, or beyond
    what is kept for later (``over-budget``). Only a deferred one is known, by its id."""

    url: str
    host: str
    kind: str
    reason: str
    page_id: int | None = None


def _itself(host: str) -> str:
    return host


class Frontier:
    """The pages of *store* and their order.

    *politeness* maps hosts to limits of their own, *default_politeness* holds for all others. A page is
    given up after *max_attempts* leases; a lease is taken back after *lease_timeout* seconds. Links that
    are *traps* leave no trace; what is over one of the *limits* waits on the disk. *domain_of* gives the
    registered domain of a host.
    """

    def __init__(
        self,
        store: Store,
        now: float,
        *,
        default_politeness: Politeness = UNLIMITED,
        politeness: dict[str, Politeness] | None = None,
        max_attempts: int = 10,
        lease_timeout: float = 3600.0,
        chance: random.Random | None = None,
        traps: TrapLimits | None = None,
        limits: Limits = NO_LIMITS,
        domain_of: Callable[[str], str] = _itself,
    ) -> None:
        self._store = store
        self._journal = Journal(store)
        self._hosts = Hosts(domain_of)
        self._leases = Leases(lease_timeout)
        self._default_politeness = default_politeness
        self._politeness = politeness or {}
        self._orders = dict(all_orders(store))
        self._traps = traps if traps is not None else None
        self._budgets = Budgets(limits, domain_of)
        self._deferral = Deferral(store, self._journal, self._budgets, self._host, self._settle)
        self.refusals: deque[Refusal] = deque(maxlen=_MOST_REFUSALS)  # since somebody last looked
        self.refused: Counter[str] = Counter()  # links in this run, by kind
        self._max_attempts = max_attempts
        self._chance = chance or random.Random()  # noqa: S311 - draws pauses, guards nothing
        self._unstored: dict[int, tuple[Page, bytes | None]] = {}
        self._unstored_ids: dict[bytes, int] = {}
        self._unstored_waiting: list[tuple[float, bytes, str]] = []
        self.unreadable: list[int] = []  # ids of pages set aside since somebody last looked
        self.was_clean = self._journal.begin_run()
        self.first_page_of_run = self.counts.next_page
        self._opened_at = now
        self._to_load: bytes | None = b""
        self._is_spilling = False
        first = next(store.scan(keys.WAITING, limit=1), None)
        self._next_waiting = keys.waiting_time(first[0]) if first else None
        self._waiting_cursor = b""

    def __repr__(self) -> str:
        return f"<Frontier {self.pending} pending, {len(self._leases)} leased, {self._hosts!r}>"

    # -- what there is ---------------------------------------------------------------------------------

    @property
    def counts(self) -> Counts:
        """Kept counters, of all runs together."""
        return self._journal.counts

    @property
    def pending(self) -> int:
        """Requests that wait to be leased: ready, cooling, or in a backoff; not those of blocked hosts."""
        waiting = self.counts.states[State.QUEUED] - self._leases.stored + len(self._unstored)
        return waiting - self._journal.withheld

    @property
    def leased(self) -> int:
        """Leases that are out."""
        return len(self._leases)

    @property
    def hosts(self) -> int:
        """Hosts in memory: those with queued pages, with requests under way, or still cooling."""
        return len(self._hosts)

    @property
    def is_loaded(self) -> bool:
        """Whether every host with queued pages is in memory; see `load`."""
        return self._to_load is None and self._deferral.is_loaded

    @property
    def is_refilling(self) -> bool:
        """Whether deferred pages may be about to come back into their queues."""
        return bool(self._budgets.due) or not self.is_loaded

    def find(self, fingerprint: bytes) -> int | None:
        """The id of the page with *fingerprint*, or None; one lookup."""
        found = self._journal.fresh.get(fingerprint)
        if found is None:
            stored = self._store.get(keys.INDEX + fingerprint)
            if stored is not None:
                return int.from_bytes(stored, "big")
            found = self._unstored_ids.get(fingerprint) if self._unstored_ids else None
        return found

    def page(self, page_id: int) -> Page | None:
        """What is known of a page; None for an id nobody has. Raises `UnreadableRecord`."""
        self.commit()
        stored = self._store.get(keys.page_key(page_id))
        return records.decode_page(stored) if stored is not None else None

    # -- hosts come into memory ------------------------------------------------------------------------

    def load(self, now: float, limit: int = 100) -> bool:
        """Bring up to *limit* more hosts into memory; true once all that have queued pages are there.

        About 20 us a host with queued pages, 1 us another one. Until it is done, pages of hosts not yet
        loaded wait their turn.
        """
        if self._to_load is None:
            return self._deferral.load(limit, self._host_of_unit)
        self.commit()
        rows = list(self._store.scan(keys.HOST, after=self._to_load, limit=limit))
        for key, value in rows:
            name = key[1:].decode()
            is_there = name in self._hosts.by_name
            if not is_there or self._budgets.is_counting:
                row = self._host_row(name, value)
                self._budgets.count(name, row)
                if row.queued and not is_there:
                    self._hosts.put(self._load_host(name, row), now)
        if len(rows) == limit:
            self._to_load = rows[-1][0][1:]
            return False
        self._to_load = None
        self._budgets.counted()
        return self._deferral.load(limit, self._host_of_unit)

    def _host_of_unit(self, unit: str) -> Host | HostRow | None:
        host = self._hosts.by_name.get(unit)
        stored = self._store.get(keys.host_key(unit)) if host is None else None
        return host if stored is None else self._host_row(unit, stored)

    def _host(self, name: str) -> Host:
        """The host in memory, loaded if need be; may commit, so call it before rows are staged."""
        host = self._hosts.by_name.get(name)
        if host is None:
            if name in self._journal.left:
                self.commit()
            stored = self._store.get(keys.host_key(name))
            host = self._load_host(name, self._host_row(name, stored) if stored else HostRow())
        return host

    def _host_row(self, name: str, stored: bytes) -> HostRow:
        try:
            return records.decode_host(stored)
        except UnreadableRecord:  # its queue says what matters most
            queued = sum(1 for _ in self._store.scan(keys.queue_prefix(name)))
            return HostRow(queued=queued, visited=self._opened_at)

    def _load_host(self, name: str, row: HostRow) -> Host:
        # After a kill a host may have been visited up to the moment we started without its row saying so;
        # and a clock that was set back must not silence it for longer than its delay.
        is_visit_assumed = not self.was_clean and row != HostRow()
        if row.visited > self._opened_at or is_visit_assumed:
            row = row._replace(visited=self._opened_at)
        politeness = self._politeness.get(name, self._default_politeness)
        orders = self._orders.get(name, _NO_ORDERS)
        if orders.delay is not None:
            politeness = politeness._replace(delay=orders.delay)
        host = Host(name, row, politeness)
        self._budgets.enter(host, row)
        if orders.blocked is not None:
            host.is_blocked = True
            self._journal.withheld += row.queued
        self._hosts.by_name[name] = host
        if is_visit_assumed and host.delay:
            self._journal.touch(host)
        if row.queued:
            host.more = True
            self._fill(host)
        return host

    def _fill(self, host: Host) -> None:
        self.commit()
        while host.needs_ranks():
            host.filled(self._store.ranks(host.prefix, host.cursor, HEADS), HEADS)

    # -- pages in --------------------------------------------------------------------------------------

    def discover(self, links: Iterable[Link], now: float) -> list[int | None]:
        """Queue every link that is new or wanted again: its id, or None for what is known already.

        Durable after the next `commit`, which `lease` and `release` bring about, and a hundred new pages.
        O(log hosts) a link.
        """
        self._journal.check()
        if len(self._journal.fresh) >= _MOST_FRESH:
            self.commit()
        return [self._discover(link, now) for link in links]

    def _discover(self, link: Link, now: float) -> int | None:
        known = self.find(link.fingerprint)
        if known is not None and not link.again:
            return None
        if self._traps is not None and known is None and not link.is_named:
            kind = trap(link.url, self._traps)
            if kind is not None:
                return self._refuse(link, kind, kind)
        host = self._hosts.by_name.get(link.host) or self._host(link.host)
        if self._budgets.is_limited and known is None and link.stored:
            over = self._budgets.over(host, link.depth)
            if over is not None:
                return self._defer_new(link, host, over, now)
        journal = self._journal
        if known is None and link.stored:
            page_id = turn = journal.new_page(link.fingerprint)
        else:
            turn, page_id = journal.turn, journal.new_visit()
        rank = keys.rank(link.priority, link.bucket, turn, page_id)
        if link.stored:
            journal.put(keys.page_key(page_id), _encode(link, now))
            journal.queue(host, rank)
            self._budgets.note(host)
        else:
            fingerprint = link.fingerprint if known is None else None
            self._unstored[page_id] = _page(link, now), fingerprint
            self._journal.withheld += host.is_blocked
            if fingerprint is not None:
                self._unstored_ids[fingerprint] = page_id
        is_head = host.add(rank, link.stored)
        if host.place is Place.IDLE or (is_head and host.place is not Place.COOLING):
            self._hosts.put(host, now)
        return page_id

    def requeue(self, page_id: int, now: float, payload: bytes, priority: int) -> bool:
        """Queue a finished page again, its attempts forgotten; false for one that is not finished."""
        self._journal.check()
        page = self.page(page_id)
        if page is None or (page.state, Event.REQUEUED) not in TABLE:
            return False
        host = self._host(page.host or host_of(page.url))
        if page.is_deferred:
            self._deferral.remove(page_id, host)
        else:
            self._journal.count_ended(host, page.state, -1)
        page = Page(page.url, State.QUEUED, 0, priority, page.discovered, page.parent, page.host, payload)
        self._journal.put(keys.page_key(page_id), records.encode_page(page))
        self._queue(host, keys.rank(priority, NEUTRAL, self._journal.turn, page_id), now)
        return True

    def _settle(self, host: Host, rank: bytes | None, now: float) -> None:
        """Queue a page that waited for a budget, or go without it."""
        if rank is not None:
            self._queue(host, rank, now)
        else:
            self._forget_if_idle(host, now)

    def _queue(self, host: Host, rank: bytes, now: float) -> None:
        self._journal.queue(host, rank)
        host.add(rank)
        self._hosts.put(host, now)
        self._budgets.note(host)

    # -- budgets ---------------------------------------------------------------------------------------

    def _refuse(self, link: Link, kind: str, reason: str, page_id: int | None = None) -> int | None:
        self.refused[kind] += 1
        self.refusals.append(Refusal(link.url, link.host, kind, reason, page_id))
        return page_id

    def _defer_new(self, link: Link, host: Host, over: Over, now: float) -> int | None:
        """Keep a new page for later, or only count it where enough are kept."""
        if not over.is_kept and not link.is_named:
            self._forget_if_idle(host, now)
            return self._refuse(link, "over-budget", over.reason)
        page_id = self._journal.new_page(link.fingerprint)
        self._deferral.put(page_id, _page(link, now), host, over, now, link.depth)
        self._forget_if_idle(host, now)
        return self._refuse(link, "deferred", over.reason, page_id)

    def _spill(self, host: Host, now: float) -> bool:
        """Defer the head of a host whose budget of pages is used up; false where it may be fetched."""
        over = self._budgets.spent(host)
        rank = host.heads[0]
        page_id = keys.rank_id(rank)
        if over is None or page_id >= keys.FIRST_VISIT or rank in host.unstored:
            return False
        del host.heads[0]
        page, _ = self._read(host, rank, page_id)
        if page is not None:
            self._journal.unqueue(host, rank)
            self._deferral.put(page_id, page, host, over, now)
        if host.more and host.needs_ranks():
            self._fill(host)
        self._hosts.put(host, now)
        self._forget_if_idle(host, now)
        return True

    # -- pages out -------------------------------------------------------------------------------------

    def lease(self, now: float) -> Lease | None:
        """The best page of the best host that may be visited at *now*, or None; O(log hosts).

        Commits what was discovered before. None is O(1) while no host is ready.
        """
        self._journal.check()
        self.commit()
        if self._next_waiting is not None and self._next_waiting <= now:
            self._wake(now)
        if self._unstored_waiting:
            self._wake_unstored(now)
        for lease_id in self._leases.expired(now):
            self.release(lease_id, Outcome(Event.EXPIRED, reason="not released in time"), now)
        if self._budgets.is_counting:  # until then nobody knows what a domain has left
            return None
        if self._budgets.due:
            self._deferral.take_back(now)
            self.commit()
        spilled = 0
        while (host := self._hosts.best(now)) is not None:
            if self._budgets.is_limited and self._spill(host, now):
                spilled += 1
                if spilled == AT_A_TIME:
                    break
                continue
            lease = self._take(host, now)
            if lease is not None:
                return lease
        self._is_spilling = spilled == AT_A_TIME
        if spilled:
            self.commit()
        return None

    def _take(self, host: Host, now: float) -> Lease | None:
        rank = host.take()
        page_id = keys.rank_id(rank)
        page, fingerprint = self._read(host, rank, page_id)
        lease = None
        if page is not None:
            host.in_flight += 1
            host.visited = now
            if host.delay:
                jitter = 1 + host.jitter * self._chance.random() if host.jitter else 1
                host.ready_at = now + host.delay * jitter
            lease = self._leases.grant(page_id, page, host.name, rank, now, rank in host.leased, fingerprint)
        if host.more and host.needs_ranks():
            self._fill(host)
        self._hosts.put(host, now)
        self._budgets.note(host)
        if lease is None:
            self._forget_if_idle(host, now)
        return lease

    def _read(self, host: Host, rank: bytes, page_id: int) -> tuple[Page | None, bytes | None]:
        unstored = self._unstored.pop(page_id, None) if self._unstored else None
        if unstored is not None:
            return unstored
        stored = self._store.get(keys.page_key(page_id)) or b""
        try:
            return records.decode_page(stored), None
        except UnreadableRecord:  # keep the bytes where they block nothing
            self._journal.put(keys.aside_key(page_id), stored)
            self._journal.unqueue(host, rank)
            if page_id < keys.FIRST_VISIT:
                self._journal.count_ended(host, State.FAILED)
            self.unreadable.append(page_id)
            return None, None

    def left(self, lease_id: int, now: float) -> None:
        """The request of a lease has left the network: its host has room again. The lease goes on."""
        lease = self._leases.leave_wire(lease_id)
        if lease is None:
            return
        host = self._host(lease.host)
        host.in_flight -= 1
        if host.delay:
            sent = min(now, lease.leased_at + SENDING)
            host.ready_at = max(host.ready_at, sent + host.delay)
        self._hosts.put(host, now)

    def same_content(self, page_id: int, host: str, digest: bytes) -> Page | None:
        """The page of *host* whose content had the same *digest*; if there is none, this one has from now on.

        A page that failed does not count: nobody followed its links. One lookup, two for a duplicate.
        """
        self.commit()
        key = keys.body_key(host, digest)
        stored = self._store.get(key)
        first = page_id if stored is None else int.from_bytes(stored, "big")
        try:
            page = self.page(first) if first != page_id else None
        except UnreadableRecord:
            page = None
        if page is not None and page.state in (State.DONE, State.QUEUED):
            return page
        if stored is None or first != page_id:
            self._journal.add(key, keys.id_bytes(page_id))
        return None

    # -- leases end ------------------------------------------------------------------------------------

    def release(self, lease_id: int, outcome: Outcome, now: float) -> State | None:
        """End a lease: the page's new state, or None for a lease that has ended already.

        One batch with everything discovered since the last one; it is on its way to the disk when this
        returns. A retry beyond ``max_attempts`` fails the page.
        """
        self._journal.check()
        lease = self._leases.get(lease_id)
        if lease is None:
            return None
        page = self._after(lease.page, outcome, now)
        self.left(lease_id, now)
        self._leases.end(lease_id)
        host = self._host(lease.host)
        self._journal.touch(host)
        if lease.is_stored:
            self._journal.unqueue(host, lease.rank)
        if page.state is State.QUEUED:
            self._queue_again(lease, page, host, now + outcome.delay, now)
        elif lease.is_stored or lease.fingerprint is not None:
            self._write_ending(lease, page, host)
        self._budgets.freed(host)
        self._forget_if_idle(host, now)
        self.counts.attempts += outcome.event is not Event.RETURNED
        self.commit()
        return page.state

    def _after(self, page: Page, outcome: Outcome, now: float) -> Page:
        event, reason = outcome.event, outcome.reason
        attempts = page.attempts + (event is not Event.RETURNED)
        if event in (Event.RETRIED, Event.EXPIRED) and attempts >= self._max_attempts:
            event, reason = Event.FAILED, f"{reason} ({attempts} attempts)"
        return Page(
            page.url,
            after(State.LEASED, event),
            attempts,
            page.priority if outcome.priority is None else outcome.priority,
            page.discovered,
            page.parent,
            page.host,
            page.payload if outcome.payload is None else outcome.payload,
            outcome.status,
            int(now),
            outcome.target,
            reason,
        )

    def _queue_again(self, lease: Lease, page: Page, host: Host, due: float, now: float) -> None:
        page_id = lease.page_id
        if not lease.is_stored:
            self._unstored[page_id] = page, lease.fingerprint
            if due > now:
                heapq.heappush(self._unstored_waiting, (due, lease.rank, host.name))
            else:
                host.add(lease.rank, stored=False)
                self._hosts.put(host, now)
            return
        rank = lease.rank
        if page.priority != lease.page.priority:
            rank = keys.rank(page.priority, NEUTRAL, self._journal.turn, page_id)
        self._journal.put(keys.page_key(page_id), records.encode_page(page))
        if due <= now:
            self._queue(host, rank, now)
            return
        self._journal.put(keys.waiting_key(due, page_id), keys.pack_rank(rank, host.name))
        self._journal.count_queued(host, 1)
        if self._next_waiting is None or due < self._next_waiting:
            self._next_waiting = due

    def _write_ending(self, lease: Lease, page: Page, host: Host) -> None:
        page_id = lease.page_id
        if lease.fingerprint is not None:  # it lived in memory so far; from now on it is known
            del self._unstored_ids[lease.fingerprint]
            page_id = self._journal.new_page(lease.fingerprint)
        if page_id >= keys.FIRST_VISIT:  # a further visit of a known page leaves no trace
            self._journal.delete(keys.page_key(page_id))
        else:
            self._journal.put(keys.page_key(page_id), records.encode_page(page))
            self._journal.count_ended(host, page.state)

    def _forget_if_idle(self, host: Host, now: float) -> None:
        if host.place is Place.IDLE and not host.in_flight and not host.queued:
            self._journal.write_host(host)
            self._hosts.forget(host, now)

    # -- time ------------------------------------------------------------------------------------------

    def set_delay(self, name: str, delay: float, now: float) -> None:
        """From now on leave at least *delay* seconds between two leases of a host in memory; what the
        operator ordered stands."""
        host = self._hosts.by_name.get(name)
        is_ordered = self._orders.get(name, _NO_ORDERS).delay is not None
        if host is not None and host.delay != delay and not is_ordered:
            host.delay = delay
            host.ready_at = host.visited + delay
            if host.place is Place.COOLING:
                host.place = Place.IDLE
            self._hosts.put(host, now)

    def _wake(self, now: float) -> None:
        """Put pages whose backoff has passed back into their queues, a handful at a time."""
        self._next_waiting = None
        rows = list(self._store.scan(keys.WAITING, after=self._waiting_cursor, limit=_WAKE_LIMIT + 1))
        for index, (key, value) in enumerate(rows):
            when = keys.waiting_time(key)
            if when > now or index == _WAKE_LIMIT:
                self._next_waiting = when
                break
            rank, name = keys.unpack_rank(value)
            host = self._host(name)
            self._journal.delete(key)
            self._journal.count_queued(host, -1)
            self._queue(host, rank, now)
            self._waiting_cursor = key[1:]
        self.commit()

    def _wake_unstored(self, now: float) -> None:
        while self._unstored_waiting and self._unstored_waiting[0][0] <= now:
            _, rank, name = heapq.heappop(self._unstored_waiting)
            host = self._host(name)
            host.add(rank, stored=False)
            self._hosts.put(host, now)

    def wake_at(self) -> float | None:
        """When `lease` is next worth calling if nothing happens before; None: waiting does not help."""
        if self._budgets.due or self._is_spilling:
            return 0.0
        unstored = self._unstored_waiting[0][0] if self._unstored_waiting else None
        times = (self._hosts.next_ready(), self._next_waiting, unstored, self._leases.next_deadline())
        return min((when for when in times if when is not None), default=None)

    # -- writing ---------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Write what is open as one atomic batch. Raises `FrontierUnwritable`."""
        if self._journal.is_open:
            self._journal.commit()

    def close(self) -> None:
        """Commit, mark the end as clean, and close the store. Leases that are out stay queued."""
        try:
            for lease in self._leases:
                self._journal.touch(self._host(lease.host))
            self._journal.end_run()
        finally:
            self._store.close()


def _page(link: Link, now: float) -> Page:
    return Page(link.url, State.QUEUED, 0, link.priority, int(now), link.parent, link.kept_host, link.payload)


def _encode(link: Link, now: float) -> bytes:
    if link.kept_host:
        return records.encode_page(_page(link, now))
    return records.encode_new_page(link.url, link.priority, int(now), link.parent, link.payload)
