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
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from . import delays, keys, listings, records
from .budgets import NO_LIMITS, Budgets, Limits, Over
from .cooldown import Rule
from .deferral import AT_A_TIME, Deferral
from .errors import UnreadableRecord
from .hosts import FOREVER, HEADS, SENDING, Host, Hosts, Place, Politeness, host_of
from .journal import Journal
from .leases import Lease, Leases, Outcome
from .lifecycle import TABLE, Event, State, after
from .listings import Listing
from .orders import Orders, all_orders
from .records import Counts, HostRow, Page
from .robots_copy import copy_key, decode_copy, encode_copy
from .temperature import Rates, TemperedHosts
from .troubles import Troubles
from .urls import trap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .adjacency import Edge
    from .linkgraph import LinkGraph
    from .rescoring import Rescoring
    from .robots_copy import Copy
    from .scorer import Scorer
    from .store import Store
    from .troubles import Rest, Trouble
    from .urls import TrapLimits

UNLIMITED = Politeness(0.0, 8)
NEUTRAL = 0x8000  # the score bucket of a page nothing is known about
_NO_ORDERS = Orders()
_COOLDOWN = Rule()
_PACE = delays.Pace()
_MOST_FRESH = 100  # new pages in one batch: a seed list must not pile up in memory
_LEARN_LIMIT = 400  # fingerprints of earlier runs that one lease looks up, 0.3 ms
_BUSY = 0.25  # seconds until an errand asks again for a place of a host that has none free
_WAKE_LIMIT = 64  # waiting pages that one lease puts back into their queues, to keep it short
_MOST_REFUSALS = 100


class Link(NamedTuple):
    """A page to discover.

    ``host`` is the unit of politeness, repeated in ``kept_host`` where it is not the URL's own.
    ``again`` asks for a visit even of a known page (``dont_filter``). A link that is not ``stored`` lives
    in memory and does not survive a restart, and no budget holds for it. ``bucket`` is its place among equals
    where no scorer gives one. ``depth`` counts links from a seed. What the user ``named`` is no trap,
    whatever it looks like, and is always kept.
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
    link_score: float = 1.0
    depth: int = 0
    is_named: bool = False
    is_placed: bool = False  # ``bucket`` holds until the scorer has learnt more than who the parent is


class Refusal(NamedTuple):
    """A link that was not queued: a trap (its ``kind``), ``deferred`` until a budget has room, or beyond
    what is kept for later (``over-budget``). Only of a deferred one is the id told."""

    url: str
    host: str
    kind: str
    reason: str
    page_id: int | None = None


class Resting(NamedTuple):
    hosts: int
    pages: int
    first: float  # POSIX seconds


def _itself(host: str) -> str:
    return host


class Frontier:
    """The pages of *store* and their order.

    *politeness* maps hosts to limits of their own, *default_politeness* holds for all others. A page is
    given up after *max_attempts* leases; a lease is taken back after *lease_timeout* seconds. Without a
    *scorer* equals of one priority are first in, first out. Links that are *traps* leave no trace; what is
    over one of the *limits* waits on the disk. *domain_of* gives the registered domain of a host: its hosts
    share a budget, and their turns, unless there are *rates*.
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
        cooldown: Rule = _COOLDOWN,
        pace: delays.Pace = _PACE,
        rates: Rates | None = None,
        chance: random.Random | None = None,
        scorer: Scorer | None = None,
        traps: TrapLimits | None = None,
        limits: Limits = NO_LIMITS,
        domain_of: Callable[[str], str] = _itself,
    ) -> None:
        self._store = store
        self._journal = Journal(store)
        self._hosts = Hosts(domain_of) if rates is None else TemperedHosts(rates)
        self._leases = Leases(lease_timeout)
        self._default_politeness = default_politeness
        self._politeness = politeness or {}
        self._orders = dict(all_orders(store))
        self._pace = pace
        self._traps = traps
        self._budgets = Budgets(limits, domain_of)
        self._deferral = Deferral(store, self._journal, self._budgets, self._host, self._settle)
        self.refusals: deque[Refusal] = deque(maxlen=_MOST_REFUSALS)  # since somebody last looked
        self.refused: Counter[str] = Counter()  # links in this run, by kind
        self._max_attempts = max_attempts
        self._chance = chance or random.Random()  # noqa: S311 - draws pauses, guards nothing
        self._learned = b""
        self._troubles = Troubles(store, self._journal, cooldown, self._chance)
        self._unstored: dict[int, tuple[Page, bytes | None]] = {}
        self._unstored_ids: dict[bytes, int] = {}
        self._held: set[str] = set()  # hosts held until a known time, and some that were
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
        self.rescoring: Rescoring | None = None
        if scorer is not None:
            from .rescoring import Rescoring

            self.rescoring = Rescoring(scorer, store, self._journal, self._hosts)

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
        """Whether every host with queued pages is in memory, and the scorer's memory back; see `load`."""
        is_there = self._to_load is None and self._deferral.is_loaded
        return is_there and (self.rescoring is None or self.rescoring.is_loaded)

    @property
    def is_refilling(self) -> bool:
        """Whether deferred pages may be about to come back into their queues."""
        return bool(self._budgets.due) or not self.is_loaded

    @cached_property
    def graph(self) -> LinkGraph:
        """The links of the pages."""
        from .linkgraph import LinkGraph  # loads NumPy and SciPy: for those who use it

        return LinkGraph(self._store, self._journal)

    def waits_in_vain(self, now: float, patience: float) -> bool:
        """Whether nothing can be had for *patience* seconds because all hosts with queued pages rest after
        trouble for longer. O(1) while a host does not, else O(hosts)."""
        is_quiet = not self._leases and not self.is_refilling and self._next_waiting is None
        return is_quiet and not self._unstored_waiting and self._hosts.only_rest(now + patience)

    def resting(self, now: float) -> Resting:
        """How many hosts rest after trouble, with how many queued pages, and when the first is ready."""
        hosts = [host for host in self._hosts.by_name.values() if host.rests(now) and host.queued]
        first = min((host.ready_at for host in hosts), default=now)
        return Resting(len(hosts), sum(host.queued for host in hosts), first)

    def find(self, fingerprint: bytes) -> int | None:
        """The id of the page with *fingerprint*, or None; a lookup, or 1 us for most that are new."""
        found = self._find(fingerprint)
        return ~found if found is not None and found < 0 else found

    def _find(self, fingerprint: bytes) -> int | None:
        """The same, but ``~id`` for a page that may be only seen."""
        found = self._journal.fresh.get(fingerprint)
        if found is None and self._unstored_ids:
            found = self._unstored_ids.get(fingerprint)
        if found is None and not self._journal.seen.is_new(fingerprint):
            stored = self._store.get(keys.INDEX + fingerprint)
            if stored is not None:
                page_id = int.from_bytes(stored[: keys.ID_BYTES], "big")
                return page_id if len(stored) == keys.ID_BYTES else ~page_id
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
        loaded wait their turn. Then what the scorer knew comes back, in as many calls again, 1 us a queued
        page; links of pages that end meanwhile count when it is there.
        """
        if self._to_load is None:
            if not self._deferral.is_loaded:
                self._deferral.load(limit, self._host_of_unit)
                return self.is_loaded
            return self._load_scores(now, 10 * limit)
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
        self._deferral.load(limit, self._host_of_unit)
        return self.is_loaded

    def _host_of_unit(self, unit: str) -> Host | HostRow | None:
        host = self._hosts.by_name.get(unit)
        stored = self._store.get(keys.host_key(unit)) if host is None else None
        return host if stored is None else self._host_row(unit, stored)

    def _load_scores(self, now: float, limit: int) -> bool:
        if self.rescoring is None or self.rescoring.is_loaded:
            return True
        is_loaded = self.rescoring.load(limit)
        self.commit()
        self._place_moved(now)
        return is_loaded

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
        host = Host(name, row, politeness)
        self._budgets.enter(host, row)
        if orders.delay is not None:
            host.ask(delays.OPERATOR, orders.delay)
        if row != HostRow():
            self._troubles.recall(host, self._opened_at)
        host.reset_clock()
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

    def _learn(self) -> None:
        """Look up some more of the fingerprints that earlier runs left."""
        known = self._store.ranks(keys.INDEX, self._learned, _LEARN_LIMIT)
        for fingerprint in known:
            self._journal.seen.add(fingerprint)
        self._learned = known[-1] if known else b""
        self._journal.seen.is_complete = len(known) < _LEARN_LIMIT

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
        known = self._find(link.fingerprint)
        again = link.again
        if known is not None and known < 0:
            if link.fingerprint in self._journal.fresh or self._is_only_seen(~known):
                if link.stored:
                    return self._admit(~known, link, now)
                again = True  # in memory alone it is a further visit
            known = ~known
        if known is not None and not again:
            return None
        if known is None and (kind := self._trap(link)) is not None:
            return self._refuse(link, kind, kind)
        host = self._hosts.by_name.get(link.host) or self._host(link.host)
        if self._budgets.is_limited and known is None and link.stored:
            over = self._budgets.over(host, link.depth)
            if over is not None:
                return self._defer_link(link, host, over, now)
        return self._queue_new(link, host, known, now)

    def _queue_new(self, link: Link, host: Host, known: int | None, now: float) -> int:
        """Queue a new page, or one more visit of the *known* one."""
        journal, rescoring, place = self._journal, self.rescoring, link.bucket
        if known is None and link.stored:
            page_id = turn = journal.new_page(link.fingerprint)
            if rescoring is not None:
                place = rescoring.discovered(page_id, link.parent, link.host, link.priority, link.link_score)
                if link.is_placed:
                    place = link.bucket
                    rescoring.queued(keys.rank(link.priority, place, turn, page_id))
        else:
            turn, page_id = journal.turn, journal.new_visit()
            if rescoring is not None:
                place = rescoring.standing(known)
        rank = keys.rank(link.priority, place, turn, page_id)
        if link.stored:
            journal.put(keys.page_key(page_id), _encode(link, now))
            journal.queue(host, rank)
            if host.tally is not None:
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

    def _is_only_seen(self, page_id: int) -> bool:
        try:
            page = records.decode_page(self._store.get(keys.page_key(page_id)) or b"")
        except UnreadableRecord:
            return False
        return page.state is State.SEEN and not page.is_deferred

    def _trap(self, link: Link) -> str | None:
        """Which kind of trap a link looks like."""
        return None if self._traps is None or link.is_named else trap(link.url, self._traps)

    def _admit(self, page_id: int, link: Link, now: float) -> int | None:
        """Queue a page that was only seen so far, unless it is refused like a new one: then it stays seen,
        or waits for a budget."""
        kind = self._trap(link)
        if kind is not None:
            return self._refuse(link, kind, kind)
        host = self._host(link.host)
        over = self._budgets.over(host, link.depth) if self._budgets.is_limited else None
        if over is not None:
            return self._defer_link(link, host, over, now, page_id)
        self._journal.admit(link.fingerprint, page_id)
        self._journal.put(keys.page_key(page_id), _encode(link, now))
        self._queue(host, self._again(page_id, link.priority), now)
        return page_id

    def _again(self, page_id: int, priority: int) -> bytes:
        """The rank of a page that is queued later than it was discovered."""
        place = NEUTRAL if self.rescoring is None else self.rescoring.opened(page_id)
        return keys.rank(priority, place, self._journal.turn, page_id)

    def see(self, links: Iterable[Link], now: float, reason: str) -> list[int]:
        """Make pages known without queueing them, for *reason*: their ids, also of those known before.

        A link that is discovered later queues them. Durable with the next batch.
        """
        self._journal.check()
        return [self._see(link, now, reason) for link in links]

    def _see(self, link: Link, now: float, reason: str) -> int:
        known = self.find(link.fingerprint)
        if known is not None:
            return known
        page_id = self._journal.new_seen_page(link.fingerprint)
        page = _page(link, now)._replace(state=State.SEEN, payload=b"", changed=int(now), reason=reason)
        self._journal.put(keys.page_key(page_id), records.encode_page(page))
        if self.rescoring is not None:
            self.rescoring.closed(page_id)
        return page_id

    def requeue(self, page_id: int, now: float, payload: bytes, priority: int) -> bool:
        """Queue a finished page again, its attempts forgotten; false for one that is not finished."""
        self._journal.check()
        page = self.page(page_id)
        if page is None or (page.state, Event.REQUEUED) not in TABLE:
            return False
        host = self._host(page.host or host_of(page.url))
        was_seen = page.state is State.SEEN and not page.is_deferred
        if page.is_deferred:
            self._deferral.remove(page_id, host)
        else:
            self._journal.count_ended(host, page.state, -1)
        page = Page(page.url, State.QUEUED, 0, priority, page.discovered, page.parent, page.host, payload)
        self._journal.put(keys.page_key(page_id), records.encode_page(page))
        self._queue(host, self._again(page_id, priority), now)
        if was_seen:  # its index row says so for ever, and only the page's own row that it is no more
            self.commit()
        return True

    def listing(self, authority: str) -> Listing:
        """What is known of the sitemaps of *authority*; one lookup."""
        self.commit()
        stored = self._store.get(listings.listing_key(authority))
        try:
            return listings.decode_listing(stored) if stored is not None else Listing()
        except UnreadableRecord:  # then it is contacted again, and finds its sitemaps known
            return Listing()

    def note_listing(self, authority: str, listing: Listing) -> None:
        """Remember *listing*: in one batch with what was discovered before, or a later one."""
        self._journal.check()
        self._journal.put(listings.listing_key(authority), listings.encode_listing(listing))
        self._journal.is_open = True

    def _settle(self, host: Host, returning: tuple[int, int] | None, now: float) -> None:
        """Queue a page that waited for a budget, id and priority, in its own turn; or go without it."""
        if returning is None:
            self._forget_if_idle(host, now)
            return
        page_id, priority = returning
        place = NEUTRAL if self.rescoring is None else self.rescoring.opened(page_id)
        self._queue(host, keys.rank(priority, place, page_id, page_id), now)

    def _queue(self, host: Host, rank: bytes, now: float) -> None:
        self._journal.queue(host, rank)
        if self.rescoring is not None:
            self.rescoring.queued(rank)
        host.add(rank)
        self._hosts.put(host, now)
        self._budgets.note(host)

    # -- budgets ---------------------------------------------------------------------------------------

    def _refuse(self, link: Link, kind: str, reason: str, page_id: int | None = None) -> int | None:
        self.refused[kind] += 1
        self.refusals.append(Refusal(link.url, link.host, kind, reason, page_id))
        return page_id

    def _defer_link(
        self, link: Link, host: Host, over: Over, now: float, seen_id: int | None = None
    ) -> int | None:
        """Keep the page of a link, new or only seen so far, for later, or only count it where enough are
        kept."""
        if not over.is_kept and not link.is_named:
            self._forget_if_idle(host, now)
            return self._refuse(link, "over-budget", over.reason)
        if seen_id is None:
            page_id = self._journal.new_page(link.fingerprint)
            if self.rescoring is not None:
                self.rescoring.discovered(page_id, link.parent, link.host, link.priority, link.link_score)
                self.rescoring.closed(page_id)
        else:
            page_id = seen_id
            self._journal.admit(link.fingerprint, page_id)
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
            if self.rescoring is not None:
                self.rescoring.closed(page_id)
            self._deferral.put(page_id, page, host, over, now)
        else:
            self._budgets.freed(host)
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
        if not self._journal.seen.is_complete:
            self._learn()
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
            before = host.visited, host.ready_at
            self._visit(host, now)
            is_stored = rank in host.leased
            lease = self._leases.grant(page_id, page, host.name, rank, now, is_stored, fingerprint, before)
        if host.more and host.needs_ranks():
            self._fill(host)
        self._hosts.put(host, now)
        if lease is None:
            self._budgets.freed(host)
            self._forget_if_idle(host, now)
        else:
            self._budgets.note(host)
            self._hosts.leased(host, now)
        return lease

    def _visit(self, host: Host, now: float) -> None:
        """A request of *host* begins: its clock starts anew."""
        host.in_flight += 1
        host.visited = now
        if host.delay:
            jitter = 1 + host.jitter * self._chance.random() if host.jitter else 1
            host.ready_at = now + host.delay * jitter

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
                if self.rescoring is not None:
                    self.rescoring.closed(page_id)
            self.unreadable.append(page_id)
            return None, None

    def left(self, lease_id: int, now: float, response_time: float | None = None) -> None:
        """The request of a lease has left the network: its host has room again. The lease goes on.

        *response_time* in seconds says that the host answered, and how fast.
        """
        lease = self._leases.leave_wire(lease_id)
        if lease is None:
            return
        host = self._host(lease.host)
        host.in_flight -= 1
        if response_time is not None:
            if host.cooldown is not None:
                self._troubles.answered(host, lease.leased_at, now)
            if self._pace.factor:
                host.response_time = delays.smoothed(host.response_time, response_time)
                host.ask(delays.RESPONSE_TIME, self._pace.delay(host.response_time))
        if host.delay:
            # A busy event loop sends late: of 1,591 gaps of a crawl of large pages, 19 were too short when
            # counted from the hand-out. What a site asks for is counted from its answer, as Nutch does.
            sent = now if host.is_asked else min(now, lease.leased_at + SENDING)
            host.ready_at = max(host.ready_at, sent + host.delay)
        self._hosts.put(host, now)

    def put_back(self, lease_id: int, now: float) -> None:
        """End a lease just granted as if it had never been: page and clock are as before. Writes nothing."""
        host = self._unvisit(lease_id, now)
        lease = self._leases.end(lease_id)
        if host is None or lease is None:
            return
        if not lease.is_stored:
            self._unstored[lease.page_id] = lease.page, lease.fingerprint
        host.put_back(lease.rank, lease.is_stored)
        self._hosts.put(host, now)
        self._budgets.note(host)

    def waive(self, lease_id: int, now: float) -> None:
        """Nothing will be asked of the host under a lease just granted: its clock goes back, the lease goes
        on."""
        host = self._unvisit(lease_id, now)
        if host is not None:
            self._hosts.put(host, now)

    def _unvisit(self, lease_id: int, now: float) -> Host | None:
        lease = self._leases.leave_wire(lease_id)
        if lease is None:
            return None
        host = self._host(lease.host)
        host.in_flight -= 1
        if host.visited == lease.leased_at:
            host.visited, host.ready_at = lease.before
            if host.visited and host.delay:  # which may have grown meanwhile
                host.ready_at = max(host.ready_at, host.visited + host.delay)
        return host

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

    def release(
        self,
        lease_id: int,
        outcome: Outcome,
        now: float,
        links: Iterable[Edge] | None = None,
        page_id: int | None = None,
    ) -> State | None:
        """End a lease: the page's new state, or None for a lease that has ended already.

        One batch with everything discovered since the last one; it is on its way to the disk when this
        returns. A retry beyond ``max_attempts`` fails the page. *links* are the links of a page that was
        read or led to another, in place of those it had (None: not known); *page_id* says whose they are
        where the lease was for a further visit.
        """
        self._journal.check()
        lease = self._leases.get(lease_id)
        if lease is None:
            return None
        page = self._after(lease.page, outcome, now)
        queue = self._host(outcome.host or lease.host)
        self.left(lease_id, now)
        self._leases.end(lease_id)
        host = self._host(lease.host)
        self._journal.touch(host)
        if lease.is_stored:
            self._journal.unqueue(host, lease.rank)
        if page.state is State.QUEUED:
            if outcome.host:
                page = page._replace(host="" if outcome.host == host_of(page.url) else outcome.host)
            self._queue_again(lease, page, queue, now + outcome.delay, now)
        elif lease.is_stored or lease.fingerprint is not None:
            node = self._write_ending(lease, page, host)
            self._write_links(node if node < keys.FIRST_VISIT else page_id, page.state, links)
        self._budgets.freed(host)
        self._forget_if_idle(host, now)
        self.counts.attempts += outcome.event is not Event.RETURNED
        self.commit()
        self._place_moved(now)
        return page.state

    def _write_links(self, page_id: int | None, state: State, links: Iterable[Edge] | None) -> None:
        """The links of a page that ended are known, or it has none; its score goes to their targets."""
        if page_id is None or page_id >= keys.FIRST_VISIT:
            return
        is_read = state in (State.DONE, State.REDIRECTED)
        if links is not None and (is_read or state is State.GONE):
            links = self.graph.put(page_id, links if is_read else ())
        if self.rescoring is None:
            return
        if is_read:
            self.rescoring.parsed(page_id, links or ())
        else:
            self.rescoring.closed(page_id)

    def judge(self, page_id: int, content_score: float) -> None:
        """Keep what the callback thinks of a page (0: nothing, 1: as of any other); durable with the next
        batch. Does nothing without a scorer."""
        if self.rescoring is not None and page_id < self.counts.next_page:
            self.rescoring.judged(page_id, content_score)

    def rescore(self, now: float, limit: int) -> bool:
        """Bring *limit* more queue rows to the scores of now; see `Rescoring.begin_walk`. True when done."""
        if self.rescoring is None:
            return True
        self.commit()
        is_done = self.rescoring.step(limit)
        self.commit()
        self._place_moved(now)
        return is_done

    def _place_moved(self, now: float) -> None:
        """Give hosts whose queue rows were moved, and written, the heads and the place they deserve."""
        if self.rescoring is None or not self.rescoring.moved:
            return
        moved = list(self.rescoring.moved)
        self.rescoring.moved.clear()
        for host in moved:
            if host.more and host.needs_ranks():
                self._fill(host)
        for host in moved:  # only now: giving one a place may look at the heads of all
            self._hosts.put(host, now)

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
            place = NEUTRAL if self.rescoring is None else self.rescoring.standing(page_id)
            rank = keys.rank(page.priority, place, self._journal.turn, page_id)
        self._journal.put(keys.page_key(page_id), records.encode_page(page))
        if due <= now:
            self._queue(host, rank, now)
            return
        if self.rescoring is not None:
            self.rescoring.waits(page_id)
        self._journal.put(keys.waiting_key(due, page_id), keys.pack_rank(rank, host.name))
        self._journal.count_queued(host, 1)
        self._budgets.note(host)
        if self._next_waiting is None or due < self._next_waiting:
            self._next_waiting = due

    def _write_ending(self, lease: Lease, page: Page, host: Host) -> int:
        """The page's id, which is a new one for a page that lived in memory so far."""
        page_id = lease.page_id
        if lease.fingerprint is not None:  # it lived in memory so far; from now on it is known
            del self._unstored_ids[lease.fingerprint]
            page_id = self._journal.new_page(lease.fingerprint)
            if self.rescoring is not None:
                self.rescoring.discovered(page_id, page.parent, host.name, page.priority, 1.0)
        if page_id >= keys.FIRST_VISIT:  # a further visit of a known page leaves no trace
            self._journal.delete(keys.page_key(page_id))
        else:
            self._journal.put(keys.page_key(page_id), records.encode_page(page))
            self._journal.count_ended(host, page.state)
        return page_id

    def _forget_if_idle(self, host: Host, now: float) -> None:
        if host.place is Place.IDLE and not host.in_flight and not host.queued:
            self._journal.write_host(host)
            self._hosts.forget(host, now)

    # -- time ------------------------------------------------------------------------------------------

    def set_delay(self, name: str, delay: float, now: float, source: str = delays.SETTINGS) -> None:
        """From now on *source* asks for at least *delay* seconds between two leases of a host in memory;
        `delays.deciding` says who of all that ask decides."""
        host = self._hosts.by_name.get(name)
        if host is not None and host.ask(source, delay):
            host.reset_clock()
            self._put_anew(host, now)

    def _put_anew(self, host: Host, now: float) -> None:
        """Give a host whose clock was set its place; one in the cooling heap may come back sooner."""
        if host.place is Place.COOLING:
            host.place = Place.IDLE
        self._hosts.put(host, now)

    def site_delay(self, name: str, seconds: float, now: float, source: str = delays.ROBOTS_TXT) -> bool:
        """Obey a site that asks for *seconds* between two requests, one at a time; 0 takes it back.

        The largest of all sources counts; what the operator ordered stands. Whether anything changed.
        """
        host = self._hosts.by_name.get(name)
        if host is None or delays.OPERATOR in host.asked or not host.ask(source, seconds):
            return False
        host.reset_clock()
        self._put_anew(host, now)
        return True

    def cool(self, name: str, trouble: Trouble, now: float) -> Rest:
        """Leave a host alone after *trouble*, and say what becomes of the page that met it; on its way to
        the disk when this returns."""
        self._journal.check()
        host = self._host(name)
        rest = self._troubles.meet(host, trouble, now)
        self._put_anew(host, now)
        self._forget_if_idle(host, now)
        self.commit()
        return rest

    def rests(self, name: str, now: float) -> bool:
        """Whether a host rests after trouble; for one that is in memory, as each with a lease out is."""
        host = self._hosts.by_name.get(name)
        return host is not None and host.cooldown is not None and host.cooldown.until > now

    # -- what a site asks for --------------------------------------------------------------------------

    def hold(self, name: str, now: float, until: float = FOREVER) -> None:
        """Give no page of a host in memory away before *until*, or before `let_go`.

        Its pages stay queued and pending: no lease, no attempt, no row is written. A host that is dropped
        from memory is no longer held.
        """
        host = self._hosts.by_name.get(name)
        if host is not None:
            self._hosts.hold(host, until, now)
            if now < until < FOREVER:
                self._held.add(name)

    def let_go(self, name: str, now: float) -> None:
        """End a `hold`."""
        self.hold(name, now, 0.0)

    def held(self, now: float) -> dict[str, float]:
        """Hosts held until a known time, and that time; O(hosts held)."""
        hosts = ((name, self._hosts.by_name.get(name)) for name in self._held)
        found = {name: host.held_until for name, host in hosts if host is not None}
        found = {name: until for name, until in found.items() if now < until < FOREVER}
        self._held.intersection_update(found)
        return found

    def pending_of(self, names: Iterable[str]) -> int:
        """Requests of hosts in memory that wait to be leased or are leased."""
        hosts = filter(None, map(self._hosts.by_name.get, names))
        return sum(host.queued + len(host.unstored) for host in hosts)

    def errand(self, name: str, now: float, despite_hold: bool = False) -> float:
        """Ask to fetch something beside the pages of a host (robots.txt, sitemaps): seconds to wait, then
        ask again; 0: it begins now, and `errand_done` has to follow.

        It obeys the host's clock and concurrency like a page, and the next page keeps the delay after it, in
        the next run too. Of a blocked or held host nothing is fetched; *despite_hold* is for robots.txt.
        """
        self._journal.check()
        host = self._host(name)
        wait = max(host.ready_at - now, 0.0)
        if host.is_blocked:
            wait = FOREVER
        elif host.held_until > now and not despite_hold:
            wait = max(wait, host.held_until - now)
        elif not host.has_room:
            wait = max(wait, _BUSY)
        if not wait:
            self._visit(host, now)
            self._journal.touch(host)
        self._hosts.put(host, now)
        self._forget_if_idle(host, now)
        return wait

    def errand_done(self, name: str, now: float) -> None:
        """An errand has ended. The delay counts from here: it opened the connection, which takes long."""
        host = self._hosts.by_name.get(name)
        if host is None:
            return
        host.in_flight -= 1
        host.visited = now
        host.reset_clock()
        self._journal.touch(host)
        self._hosts.put(host, now)
        self._forget_if_idle(host, now)

    def robots_copy(self, authority: str) -> Copy | None:
        """What is kept of the robots.txt of *authority* (scheme://host:port); one lookup. None for a row
        that cannot be read: the file is asked for again."""
        stored = self._store.get(copy_key(authority))
        try:
            return decode_copy(stored) if stored is not None else None
        except UnreadableRecord:
            return None

    def keep_robots_copy(self, authority: str, copy: Copy) -> None:
        """Keep what was learnt of a robots.txt, for the runs to come too; written before this returns."""
        self._journal.check()
        self._journal.put(copy_key(authority), encode_copy(copy))
        self._journal.is_open = True
        self.commit()

    # -- waking up -------------------------------------------------------------------------------------

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
            if self.rescoring is not None:
                self.rescoring.save()
            self._journal.end_run()
        finally:
            self._store.close()


def _page(link: Link, now: float) -> Page:
    return Page(link.url, State.QUEUED, 0, link.priority, int(now), link.parent, link.kept_host, link.payload)


def _encode(link: Link, now: float) -> bytes:
    if link.kept_host:
        return records.encode_page(_page(link, now))
    return records.encode_new_page(link.url, link.priority, int(now), link.parent, link.payload)
