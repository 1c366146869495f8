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
    by_settings,
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
_LOOKED_AT_ONCE = 64  # hosts looked at by one call, 1 us each


class Hosts:
    """Loads hosts from their rows in the store of *batch* into *host_queue*.

    After a kill (not *was_clean*) a host may have been visited until then without its row saying so.
    If pages come back in this run (*serves_due*), their hosts are ``with_due``, in the order of their turns.
    ``blocked``: by the operator, by name; one that left the memory since has nothing queued.
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
        # Of a host without a row: after a kill it may have been visited all the same, just before.
        self._no_row = NO_ROW if was_clean else HostRow(visited=opened_at)
        self._serves_due = serves_due
        self.with_due: dict[str, None] = {}
        self.by_name = host_queue.hosts
        self.blocked: dict[str, Host] = {}
        self._orders = dict(all_orders(batch.store))
        self._to_load: bytes | None = b""
        self._latest = opened_at  # when a host left the memory last: no row of this run is newer
        self._most = AWAKE  # hosts, before some are looked at to be made compact
        self._to_look_at: list[str] = []

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
        """Look at *limit* more rows: about 20 us for a host with queued pages, 1 us for another one."""
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
        """Return the host, loaded if need be: some lookups, or none for a host that is surely new. May
        commit, so call it before rows are staged."""
        host = self.by_name.get(name)
        if host is not None:
            return host
        if name in self._batch.left:
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
        """Return the host if it is in memory, loaded if it is compact; else None."""
        host = self.by_name.get(name)
        return self._load_compact(name) if host is None and self._is_compact(name) else host

    def _is_compact(self, name: str) -> bool:
        return self._host_queue.compact_beside(name) == name

    def _load_compact(self, name: str) -> Host:
        host = self.get(name)
        self._host_queue.update(host, self._latest)
        return host

    def row_of(self, name: str) -> HostRow | None:
        """Return what is known of a host, which is not loaded for that; None: nothing. A lookup for one that
        is not in memory."""
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
        if host.has_pages:
            self.fill(host)
        return host

    def fill(self, host: Host) -> None:
        """Read the best of its queues from the disk, if pages there could come before those in memory;
        commits first what it changed. One seek for eight pages, none if nothing is missing."""
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
        """Take in the sort key of a page that is in the due queue of *host*, if due pages are served."""
        if self._serves_due:
            host.add_due(sort_key)
            self.with_due.setdefault(host.name)

    # -- what the operator ordered ---------------------------------------------------------------------

    def order(self, name: str, orders: Orders, now: float) -> None:
        """Obey these orders of the operator from now on; written before this returns. Raises
        `FrontierUnwritable`."""
        row = None if orders == Orders() else records.ORDERS.encode(orders)
        self._batch.rows[keys.orders_key(name)] = row
        self._batch.commit()
        self._orders[name] = orders
        host = self.find(name)
        if host is not None:
            self._obey(host, orders)
            self._host_queue.update(host, now)

    def orders(self, name: str) -> Orders:
        """Return what the operator ordered for a host, nothing if there is nothing; no store read."""
        return self._orders.get(name, Orders())

    def _obey(self, host: Host, orders: Orders) -> None:
        host.is_blocked = orders.blocked is not None
        if host.is_blocked:
            self.blocked[host.name] = host
        else:
            self.blocked.pop(host.name, None)
        host.ask(OPERATOR, orders.delay)
        host.reset_clock()

    # -- their place in the order, and the end of their stay -------------------------------------------

    def best(self, now: float) -> Host | None:
        """Return the ready host whose turn it is, or None; O(log hosts), O(1) if there is none."""
        while (name := self._host_queue.best(now)) is not None and name not in self.by_name:
            self._host_queue.update(self.get(name), now)  # it was compact, and may come later than that said
        while self._host_queue.idle:
            self.forget_if_idle(self._host_queue.idle.pop(), now)
        return None if name is None else self.by_name[name]

    def is_over_rate(self, host: Host) -> bool:
        """Return whether no page of *host* may come, for its domain is above its hard rate."""
        return self._host_queue.is_over_hard_rate(host)

    def update(self, host: Host, now: float) -> None:
        """Give *host* the place it deserves, after every change of its queue or its clock."""
        self._host_queue.update(host, now)

    def update_or_forget(self, host: Host, now: float) -> None:
        """`fill` and `put` a host, and `forget_if_idle`."""
        self.fill(host)
        self._host_queue.update(host, now)
        self.forget_if_idle(host, now)

    def forget_if_idle(self, host: Host, now: float) -> None:
        """Let go of a host with nothing queued and nothing under way, once its delay has passed; its row, in
        the open batch, says what there is to know. Nothing for any other."""
        self._latest = max(self._latest, now)
        if host.state is IDLE and not host.in_flight and not host.pages:
            self._batch.write_host(host)
            self._host_queue.drop(host, now)

    # -- compact hosts ---------------------------------------------------------------------------------

    def compact_some(self) -> None:
        """Look at some hosts, if there are many, and keep those compact that are far from their turn; to be
        called while nothing else refers to a host.

        A full pass of the garbage collector stops the loop for .5 us an object, and a host has three: what is
        compact it does not walk, and it takes a third of the memory.
        """
        if len(self.by_name) <= self._most:
            return
        names = self._to_look_at
        if not names:  # the first to come stay: most links are to hosts that were met early
            names.extend(islice(self.by_name, AWAKE * 3 // 4, None))
        for _ in range(min(_LOOKED_AT_ONCE, len(names))):
            host = self.by_name.get(names.pop())
            if host is not None and _may_be_compact(host) and not self._batch.is_touched(host):
                self._host_queue.make_compact(host)
        self._most = 0 if names else max(AWAKE, int(_GROWTH * len(self.by_name)))

    def to_rekey(self, name: str, moved: Sequence[tuple[bytes, bytes]]) -> Host | None:
        """Return the host in memory that has to know that queue rows *moved*, from one sort key to another;
        None for any other."""
        host = self.by_name.get(name)
        self._batch.left.add(name)  # what is read of its queue has to show the moved rows
        if host is None:
            self._host_queue.rekey_compact(name, [new for _, new in moved])
        return host


def _may_be_compact(host: Host) -> bool:
    """Return whether there is no more to know of a ready *host* than its row and its queue."""
    return (
        host.state is READY
        and host.is_kept
        and not (host.in_flight or host.leased or host.retried or host.queued_again)
        and not host.needs_sort_keys()
        and host.asked is by_settings(host.delay)
        and not (host.cooldown or host.trouble or host.held_for)
        and not (host.is_doubted or host.given_up)
    )
