"""Keeps hosts in memory: loads them from their rows, and forgets them when they are idle.

A host is in memory while it has queued pages, requests under way, or a delay that has not passed.
`FairHostQueue` chooses the next of them.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ..errors import FrontierDamaged
from ..store import keys, records
from ..store.records import HostRow, Orders, all_orders
from .host import (
    DELAYED,
    HEADS,
    IDLE,
    NO_ROW,
    OPERATOR,
    READY,
    DueQueue,
    Host,
    QueueHeads,
    host_of_page,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..store.batch import Batch
    from ..store.records import Page
    from .host import Politeness
    from .host_order import FairHostQueue
    from .trouble import HostTroubles

AWAKE = 10_000  # hosts in memory before any is made compact: 15 MB, 25 ms for the garbage collector
_GROWTH = 1.25  # times as many as stayed whole, before all are looked at again
_MOST_LOADED = 30  # compact hosts that a hand-out loads, 70 us each
_LOOKED_AT_ONCE = 64  # hosts looked at by one call, 1 us each


class Hosts:
    """Loads hosts from their rows in the store of *batch* into *host_queue*.

    After a kill (not *was_clean*) every host counts as visited just before, since its row may be too old.
    If pages come back in this run (*serves_due*), ``with_due`` has the hosts with due pages, in the order of
    their turns. ``blocked`` has the hosts that the operator blocked, by name.
    """

    def __init__(
        self,
        batch: Batch,
        host_queue: FairHostQueue,
        troubles: HostTroubles,
        politeness_of: Callable[[str], Politeness],
        was_clean: bool,
        serves_due: bool,
    ) -> None:
        self._batch = batch
        self._host_queue = host_queue
        self._troubles = troubles
        self._politeness_of = politeness_of
        self._opened_at = opened_at = batch.opened_at
        self._was_clean = was_clean
        # Of a host without a row, which may have been visited just before a kill.
        self._no_row = NO_ROW if was_clean else HostRow(visited=opened_at)
        self._serves_due = serves_due
        self.with_due: dict[str, None] = {}
        self.by_name = host_queue.hosts
        self.blocked: dict[str, Host] = {}
        self._orders = dict(all_orders(batch.store))
        self._to_load: bytes | None = b""
        self._latest = opened_at  # when a host was forgotten last: no row of this run is newer
        self._most = AWAKE  # hosts in memory, before some are made compact
        self._to_look_at: list[str] = []  # names of hosts that may be made compact

    def __len__(self) -> int:
        return len(self.by_name) + len(self._host_queue.compact)

    def __repr__(self) -> str:
        states = [host.state for host in self.by_name.values()]
        return f"<Hosts {states.count(READY)} ready, {states.count(DELAYED)} delayed>"

    # -- from their rows -------------------------------------------------------------------------------

    @property
    def is_loaded(self) -> bool:
        """Whether all hosts with queued pages of earlier runs are in memory."""
        return self._to_load is None

    def load(self, now: float, limit: int) -> None:
        """Load the hosts of *limit* more rows: about 20 us for one with queued pages, 1 us for another."""
        assert self._to_load is not None
        self._batch.commit()
        self.compact_some()
        rows = list(self._batch.store.scan(keys.HOST, after=self._to_load, limit=limit))
        for key, value in rows:
            self._batch.seen.add(key)
            name = key[1:].decode()
            if name in self.by_name or self._is_compact(name):
                continue
            row = self._row(name, value)
            if row.queued or (self._serves_due and row.queued_again):
                self._host_queue.update(self._enter(name, row), now)
        self._to_load = rows[-1][0][1:] if len(rows) == limit else None

    def get(self, name: str) -> Host:
        """Return the host, loaded if need be: some lookups, none for a host that is surely new. May commit,
        so call it before rows are staged."""
        host = self.by_name.get(name)
        if host is not None:
            return host
        if name in self._batch.stale_hosts:
            self._batch.commit()
        key = keys.host_key(name)
        is_new = self._to_load is None and self._batch.seen.is_new(key)
        stored = None if is_new else self._batch.store.get(key)
        host = self._enter(name, self._no_row if stored is None else self._row(name, stored))
        self._batch.seen.add(key)
        return host

    def of_page(self, page: Page) -> Host:
        """`get` the host whose queue *page* belongs to."""
        return self.get(host_of_page(page))

    def find(self, name: str) -> Host | None:
        """Return the host if it is in memory, made whole if it is compact; else None."""
        host = self.by_name.get(name)
        return self._load_compact(name) if host is None and self._is_compact(name) else host

    def _is_compact(self, name: str) -> bool:
        return self._host_queue.compact_beside(name) == name

    def _load_compact(self, name: str) -> Host:
        host = self.get(name)
        self._host_queue.update(host, self._latest)
        return host

    def row_of(self, name: str) -> HostRow | None:
        """Return the row of a host without loading it; None if there is none. A lookup if it is not in
        memory."""
        host = self.by_name.get(name)
        stored = self._batch.store.get(keys.host_key(name)) if host is None else None
        return host if stored is None else self._row(name, stored)

    def _row(self, name: str, stored: bytes) -> HostRow:
        row = records.HOST.read(stored)
        if row is None:
            raise FrontierDamaged(
                f"{self._batch.store.directory}: the row of the host {name} cannot be read: let "
                "`scrapy frontier check --repair` count its pages anew, then start the same crawl again"
            )
        return row

    def _enter(self, name: str, row: HostRow) -> Host:
        beside = self._host_queue.compact_beside(name)
        if beside is not None and beside != name:  # it is alone in its domain no more
            self._load_compact(beside)
        is_known = row is not self._no_row and row != NO_ROW
        is_visit_assumed = is_known and not self._was_clean and row.visited < self._opened_at
        if is_visit_assumed or row.visited > self._latest:  # a clock that was set back silences no host
            row.visited = self._opened_at
        host = Host(name, row, self._politeness_of(name))
        if row is self._no_row:
            host.is_kept = False
        if is_known:
            self._troubles.recall(host, self._opened_at)
            host.reset_clock()
        if name in self._orders:
            self._obey(host, self._orders[name])
        self.by_name[name] = host
        if is_visit_assumed and host.delay:
            self._batch.touch(host)
        if self._serves_due and host.queued_again:
            host.due = DueQueue(name)
        if host.pages:
            self.fill(host)
        return host

    def fill(self, host: Host) -> None:
        """Read the heads of its queues from the disk, if pages there may come before those in memory; commits
        before if its rows have changed. One seek for `HEADS` pages."""
        self._fill(host, host, host.prefix)
        if host.due is not None:
            self._fill(host, host.due, host.due.prefix)
            self.with_due.setdefault(host.name)

    def _fill(self, host: Host, queue: QueueHeads, prefix: bytes) -> None:
        if queue.needs_sort_keys() and self._batch.is_touched(host):
            self._batch.commit()
        while queue.needs_sort_keys():
            queue.filled(self._batch.store.keys_of(prefix, queue.cursor, HEADS), HEADS, host.leased)

    def put_due(self, host: Host, sort_key: bytes) -> None:
        """Add the sort key of a page in the due queue of *host*, if pages come back in this run."""
        if self._serves_due:
            host.add_due(sort_key)
            self.with_due.setdefault(host.name)

    # -- orders of the operator ------------------------------------------------------------------------

    def order(self, name: str, orders: Orders, now: float) -> None:
        """Store and obey *orders* of the operator; commits. Raises `FrontierUnwritable`."""
        row = None if orders == Orders() else records.ORDERS.encode(orders)
        self._batch.rows[keys.orders_key(name)] = row
        self._batch.commit()
        self._orders[name] = orders
        host = self.find(name)
        if host is not None:
            self._obey(host, orders)
            self._host_queue.update(host, now)

    def orders(self, name: str) -> Orders:
        """Return the orders of the operator for a host, empty ones if there are none. No store read."""
        return self._orders.get(name, Orders())

    def _obey(self, host: Host, orders: Orders) -> None:
        host.is_blocked = orders.blocked is not None
        if host.is_blocked:
            self.blocked[host.name] = host
        else:
            self.blocked.pop(host.name, None)
        host.ask(OPERATOR, orders.delay)
        host.reset_clock()

    # -- the order of hosts, and idle ones -------------------------------------------------------------

    def best(self, now: float) -> Host | None:
        """Return the ready host whose turn it is, or None; O(log hosts), O(1) if there is none. After a
        ranking that made the pages of very many compact hosts worse, one of the next `_MOST_LOADED`."""
        loaded = 0
        while (name := self._host_queue.best(now)) is not None and name not in self.by_name:
            host = self.get(name)
            self._host_queue.update(host, now)  # it was compact, and may have lost its turn
            loaded += 1
            if loaded >= _MOST_LOADED and host.state is READY and not self.is_over_rate(host):
                break
        while self._host_queue.idle:
            self.forget_if_idle(self._host_queue.idle.pop(), now)
        return None if name is None else self.by_name[name]

    def is_over_rate(self, host: Host) -> bool:
        """Return whether the domain of *host* is above its hard rate, so that no page of it may come."""
        return self._host_queue.is_over_hard_rate(host)

    def update(self, host: Host, now: float) -> None:
        """Update the place of *host* in the order; call it after each change of its queue or its clock."""
        self._host_queue.update(host, now)

    def update_or_forget(self, host: Host, now: float) -> None:
        """`fill` and `update` a host, and `forget_if_idle`."""
        self.fill(host)
        self._host_queue.update(host, now)
        self.forget_if_idle(host, now)

    def forget_if_idle(self, host: Host, now: float) -> None:
        """Forget a host with nothing queued and nothing under way, once its delay has passed; its row goes
        into the open batch. Does nothing for any other host."""
        self._latest = max(self._latest, now)
        if host.state is IDLE and not host.in_flight and not host.pages:
            self._batch.write_host(host)
            self._host_queue.drop(host, now)

    # -- compact hosts ---------------------------------------------------------------------------------

    def compact_some(self) -> None:
        """Make some hosts compact that are far from their turn, if there are many. Call it while nothing else
        refers to a host.

        A compact host takes a third of the memory, and is no object that a full garbage collection walks: one
        takes .5 us an object, and a host has three.
        """
        if len(self.by_name) <= self._most:
            return
        names = self._to_look_at
        if not names:  # the first hosts stay whole: most links lead to hosts that were found early
            names.extend(islice(self.by_name, AWAKE * 3 // 4, None))
        for _ in range(min(_LOOKED_AT_ONCE, len(names))):
            host = self.by_name.get(names.pop())
            if host is not None and _may_be_compact(host) and not self._batch.is_touched(host):
                self._host_queue.make_compact(host)
        self._most = 0 if names else max(AWAKE, int(_GROWTH * len(self.by_name)))

    def to_rekey(self, name: str, moved: Sequence[tuple[bytes, bytes]]) -> Host | None:
        """Note that queue rows of a host *moved*, from one sort key to another; returns the host if it is in
        memory: call `Host.rekey` on it."""
        host = self.by_name.get(name)
        self._batch.stale_hosts.add(name)  # its queue must not be read before the moved rows are written
        if host is None:
            self._host_queue.rekey_compact(name, [new for _, new in moved])
        return host


def _may_be_compact(host: Host) -> bool:
    """Return whether row and queue tell all there is to know of a ready *host*."""
    return (
        host.state is READY
        and host.is_kept
        and not (host.in_flight or host.leased or host.retried or host.queued_again)
        and not host.needs_sort_keys()
        and host.has_first_delay
        and not (host.cooldown or host.trouble or host.held_for)
        and not (host.is_doubted or host.given_up)
    )
