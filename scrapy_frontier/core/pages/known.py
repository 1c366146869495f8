"""What the frontier knows: pages by fingerprint and id, and the hosts in memory.

Base of the verbs, which `discovery`, `sites` and `frontier` add one after the other.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from functools import cached_property
from typing import TYPE_CHECKING

from ..errors import UnreadableRecord
from ..hosts import delays
from ..hosts.cooldown import CooldownRule, Trouble
from ..hosts.finish import Left, left_behind
from ..hosts.host import FOREVER, HEADS, Host, Place, Politeness
from ..hosts.hosts import Hosts, itself
from ..hosts.troubles import Troubles
from ..store import host_rows, keys, page_rows, queue_rows
from ..store.batch import Journal
from ..store.host_rows import HostRow, all_orders
from ..store.states import State
from .budgets import NO_LIMITS, Budgets, Limits
from .deferred import Deferral
from .leases import Leases
from .links import NEUTRAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..hosts.domain_rates import Rates
    from ..hosts.last_call import Haste
    from ..ranking.scorer import Scorer
    from ..store.leveldb import Store
    from ..store.meta_rows import Counts
    from ..store.page_rows import Page
    from .link_graph import LinkGraph
    from .links import Refusal
    from .rescoring import Rescoring
    from .traps import TrapLimits

UNLIMITED = Politeness(0.0, 8)
_NOTHING = HostRow()  # is known of a host
_COOLDOWN = CooldownRule()
_PACE = delays.ResponseDelay()
_LEARN_LIMIT = 400  # fingerprints of earlier runs that one lease looks up, 0.3 ms
_MOST_REFUSALS = 100


class Known:
    """The pages of *store*, and the hosts that may be visited.

    *politeness* maps hosts to limits of their own, *default_politeness* holds for all others. A page is
    given up after *max_attempts* leases; a lease is taken back after *lease_timeout* seconds. Without a
    *scorer* equals of one priority are first in, first out. Links that are *traps* leave no trace; what is
    over one of the *limits* waits on the disk. *domain_of* gives the registered domain of a host: its hosts
    share a budget, their turns, and the *rates*. With *haste* nobody comes back to the store: see
    `last_call`.
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
        cooldown: CooldownRule = _COOLDOWN,
        pace: delays.ResponseDelay = _PACE,
        rates: Rates | None = None,
        chance: random.Random | None = None,
        scorer: Scorer | None = None,
        traps: TrapLimits | None = None,
        limits: Limits = NO_LIMITS,
        domain_of: Callable[[str], str] = itself,
        haste: Haste | None = None,
    ) -> None:
        self._store = store
        self._journal = Journal(store)
        self._hosts = Hosts(domain_of, rates)
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
        self._held: set[str] = set()  # hosts held until a known time, and some that were
        self.unreadable: list[int] = []  # ids of pages set aside since somebody last looked
        self.was_clean = self._journal.begin_run()
        self.first_page_of_run = self.counts.next_page
        self._opened_at = now
        self._to_load: bytes | None = b""
        self._is_spilling = False
        self.is_loaded = False  # see `load`
        self.is_head = False  # the page that was discovered last is the first of its host
        self._alone_since: float | None = None  # only hosts that are shut are left; see `ends_at`
        self._haste = haste
        self._has_opened = False  # since the last lease pages can be had that could not before
        self._is_over = False  # nobody waits for backoffs
        self._last_tries: set[int] = set()  # ids of pages whose backoff was cut short for that
        self.given_up: list[tuple[Host, Trouble]] = []  # since somebody last looked
        first = next(store.scan(keys.WAITING, limit=1), None)
        self._next_waiting = queue_rows.waiting_time(first[0]) if first else None
        self._waiting_cursor = b""
        self.rescoring: Rescoring | None = None
        if scorer is not None:
            from .rescoring import Rescoring

            self.rescoring = Rescoring(scorer, store, self._journal, self._hosts)

    # -- what there is ---------------------------------------------------------------------------------

    @property
    def counts(self) -> Counts:
        """Kept counters, of all runs together."""
        return self._journal.counts

    @property
    def pending(self) -> int:
        """Requests that wait to be leased: ready, cooling, or in a backoff; not those of blocked hosts."""
        return self.counts.states[State.QUEUED] - len(self._leases) - self._journal.withheld

    @property
    def withheld(self) -> int:
        """Queued pages of hosts that the operator blocked."""
        return self._journal.withheld

    @property
    def leased(self) -> int:
        """Leases that are out."""
        return len(self._leases)

    @property
    def hosts(self) -> int:
        """Hosts in memory: those with queued pages, with requests under way, or still cooling."""
        return len(self._hosts)

    @property
    def is_refilling(self) -> bool:
        """Whether deferred pages may be about to come back into their queues."""
        return bool(self._budgets.due) or not self.is_loaded

    def used_by(self, spider: str) -> str | None:
        """Note the name of the spider that uses the frontier from now on; that of another that did before."""
        stored, name = self._store.get(keys.SPIDER), spider.encode(errors="replace")
        if stored == name:
            return None
        self._journal.add(keys.SPIDER, name)
        return None if stored is None else stored.decode(errors="replace")

    @cached_property
    def graph(self) -> LinkGraph:
        """The links of the pages."""
        from .link_graph import LinkGraph  # loads NumPy and SciPy: for those who use it

        return LinkGraph(self._store, self._journal)

    def left_over(self, now: float) -> Left:
        """The pages that stay queued when the crawl ends now."""
        return left_behind(self._hosts.by_name.values(), now, self._first_waiting())

    def _first_waiting(self) -> float:
        """When the first backoff is over."""
        return FOREVER if self._next_waiting is None else self._next_waiting

    def find(self, fingerprint: bytes) -> int | None:
        """The id of the page with *fingerprint*, or None; a lookup, or 1 us for most that are new."""
        found = self.look_up(fingerprint)
        return ~found if found is not None and found < 0 else found

    def look_up(self, fingerprint: bytes) -> int | None:
        """`find`, but ``~id`` for a page that may be only seen."""
        found = self._journal.fresh.get(fingerprint)
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
        return page_rows.decode_page(stored) if stored is not None else None

    # -- hosts come into memory ------------------------------------------------------------------------

    def load(self, now: float, limit: int = 100) -> bool:
        """Bring up to *limit* more hosts into memory; true once all that have queued pages are there.

        About 20 us a host with queued pages, 1 us another one. Until it is done, pages of hosts not yet
        loaded wait their turn. Then what the scorer knew comes back, in as many calls again, 1 us a queued
        page; links of pages that end meanwhile count when it is there.
        """
        if self._to_load is not None:
            self._load_hosts(now, limit)
        elif not self._deferral.is_loaded:
            self._deferral.load(limit, self._host_of_unit)
        elif self.rescoring is not None and not self.rescoring.is_loaded:
            self.rescoring.load(10 * limit)
            self.commit()
            self._place_moved(now)
        self.is_loaded = (
            self._to_load is None
            and self._deferral.is_loaded
            and (self.rescoring is None or self.rescoring.is_loaded)
        )
        return self.is_loaded

    def _load_hosts(self, now: float, limit: int) -> None:
        assert self._to_load is not None
        self.commit()
        rows = list(self._store.scan(keys.HOST, after=self._to_load, limit=limit))
        for key, value in rows:
            self._journal.seen.add(key)
            name = key[1:].decode()
            is_there = name in self._hosts.by_name
            if not is_there or self._budgets.is_counting:
                row = self._host_row(name, value)
                self._budgets.count(name, row)
                if row.queued and not is_there:
                    self._hosts.put(self._load_host(name, row), now)
                elif not is_there:
                    self._hosts.was_visited(name, min(row.visited, self._opened_at), now)
        if len(rows) == limit:
            self._to_load = rows[-1][0][1:]
        else:
            self._to_load = None
            self._budgets.counted()
            self._deferral.load(limit, self._host_of_unit)

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
            key = keys.host_key(name)
            is_new = self._to_load is None and self._journal.seen.is_new(key)
            stored = None if is_new else self._store.get(key)
            host = self._load_host(name, self._host_row(name, stored) if stored else _NOTHING)
            host.is_kept = stored is not None
        return host

    def _host_row(self, name: str, stored: bytes) -> HostRow:
        try:
            return host_rows.decode_host(stored)
        except UnreadableRecord:  # its queue says what matters most
            queued = sum(1 for _ in self._store.scan(queue_rows.queue_prefix(name)))
            return HostRow(queued=queued, visited=self._opened_at)

    def _load_host(self, name: str, row: HostRow) -> Host:
        # After a kill a host may have been visited up to the moment we started without its row saying so;
        # and a clock that was set back must not silence it for longer than its delay.
        is_known = row != _NOTHING
        is_visit_assumed = is_known and not self.was_clean
        if row.visited <= self._opened_at:
            self._hosts.was_visited(name, row.visited, self._opened_at)
        if row.visited > self._opened_at or is_visit_assumed:
            row = row._replace(visited=self._opened_at)
        host = Host(name, row, self._politeness.get(name, self._default_politeness))
        self._budgets.enter(host, row)
        orders = self._orders.get(name)
        if orders is not None and orders.delay is not None:
            host.ask(delays.OPERATOR, orders.delay)
        if row.response_time and self._pace.factor:
            host.ask(delays.RESPONSE_TIME, self._pace.delay(row.response_time))
        if is_known:
            self._troubles.recall(host, self._opened_at)
            host.reset_clock()
        if orders is not None and orders.blocked is not None:
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
        while host.needs_sort_keys():
            host.filled(self._store.keys_of(host.prefix, host.cursor, HEADS), HEADS)

    def _learn(self) -> None:
        """Look up some more of the fingerprints that earlier runs left."""
        known = self._store.keys_of(keys.INDEX, self._learned, _LEARN_LIMIT)
        for fingerprint in known:
            self._journal.seen.add(fingerprint)
        self._learned = known[-1] if known else b""
        self._journal.seen.is_complete = len(known) < _LEARN_LIMIT

    # -- hosts, and the open batch ---------------------------------------------------------------------

    def _settle(self, host: Host, returning: tuple[int, int, int] | None, now: float) -> None:
        """Queue a page that waited for a budget in its own turn; or go without it.

        Told are its id, its priority, and the score bucket it had, 0 for none.
        """
        if returning is None:
            self._forget_if_idle(host, now)
            return
        page_id, priority, bucket = returning
        place = bucket or NEUTRAL
        if self.rescoring is not None:
            place = self.rescoring.opened(page_id, bucket)
        self._queue(host, queue_rows.sort_key(priority, place, page_id, page_id), now)

    def _queue(self, host: Host, sort_key: bytes, now: float) -> None:
        self._journal.queue(host, sort_key)
        if self.rescoring is not None:
            self.rescoring.queued(host.name, sort_key)
        host.add(sort_key)
        self._hosts.put(host, now)
        self._budgets.note(host)

    def _put_anew(self, host: Host, now: float) -> None:
        """Give a host whose clock was set its place; one in the cooling heap may come back sooner."""
        if host.place is Place.COOLING:
            host.place = Place.IDLE
        self._hosts.put(host, now)

    def _forget_if_idle(self, host: Host, now: float) -> None:
        if host.place is Place.IDLE and not host.in_flight and not host.queued:
            self._journal.write_host(host)
            self._hosts.forget(host, now)

    def commit(self) -> None:
        """Write what is open as one atomic batch. Raises `FrontierUnwritable`."""
        if self._journal.is_open:
            self._journal.commit()

    def _place_moved(self, now: float) -> None:
        """Give hosts whose queue rows were moved, and written, the heads and the place they deserve."""
        if self.rescoring is None or not self.rescoring.moved:
            return
        moved = list(self.rescoring.moved)
        self.rescoring.moved.clear()
        for host in moved:
            if host.more and host.needs_sort_keys():
                self._fill(host)
        for host in moved:  # only now: giving one a place may look at the heads of all
            self._hosts.put(host, now)

    def _visit(self, host: Host, now: float) -> None:
        """A request of *host* begins: its clock starts anew."""
        host.in_flight += 1
        host.visited = now
        if host.delay:
            jitter = 1 + host.jitter * self._chance.random() if host.jitter else 1
            host.ready_at = now + host.delay * jitter
