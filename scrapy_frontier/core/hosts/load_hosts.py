"""The hosts in memory: how they come there from their rows, and how they leave.

A host is in memory while it has queued pages, requests under way, or a delay that has not passed. `Hosts`
says whose turn it is; here is what they are made of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from ..errors import lenient
from ..store import host_rows, keys, queue_keys
from ..store.due_rows import COMES_BACK
from ..store.host_rows import HostRow, Orders, all_orders
from . import delay_sources
from .domain import IDLE, LINGERING
from .host import HEADS, NO_ROW, Host, Politeness, host_of_page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..store.batch import Batch
    from ..store.page_rows import Page
    from .budgets import Budgets
    from .delay_sources import ResponseDelay
    from .host_cooldowns import Cooldowns
    from .ready_hosts import Hosts


def maker(
    politeness: Mapping[str, Politeness], otherwise: Politeness, budgets: Budgets
) -> Callable[[str, HostRow], Host]:
    """A function that makes a host of its name and its row, and has it count for its domain. *politeness*
    maps hosts to limits of their own, *otherwise* holds for all others."""

    def make(name: str, row: HostRow) -> Host:
        host = Host(name, row, politeness.get(name, otherwise))
        budgets.enter(host)
        return host

    return make


@dataclass(eq=False, repr=False)
class HostTable:
    """Loads the hosts of the store into *hosts*. The filter takes in the names that earlier runs left.

    After a kill (not *was_clean*) a host may have been visited up to *opened_at* without its row saying so.
    """

    _batch: Batch
    _hosts: Hosts
    _budgets: Budgets
    _cooldowns: Cooldowns
    _response_delay: ResponseDelay
    _opened_at: float
    _was_clean: bool
    _to_load: bytes | None = field(default=b"", init=False)
    # By name. One that was forgotten since has nothing queued.
    blocked: dict[str, Host] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._orders = dict(all_orders(self._batch.store))
        self._latest = self._opened_at  # when a host left the memory last: no row of this run is newer

    @property
    def is_loaded(self) -> bool:
        """Whether all hosts with queued pages are in memory, and the counts of domains whole."""
        return self._to_load is None

    def load(self, now: float, limit: int) -> None:
        """Look at *limit* more rows: about 20 us for a host with queued pages, 1 us for another one."""
        assert self._to_load is not None
        self._batch.commit()
        if len(self._hosts.by_name) > self._hosts.most_awake:
            self._hosts.put_some_to_sleep(self._batch)
        rows = list(self._batch.store.scan(keys.HOST, after=self._to_load, limit=limit))
        for key, value in rows:
            self._batch.seen.add(key)
            name = key[1:].decode()
            is_there = self._hosts.is_there(name)
            if not is_there or self._budgets.is_counting:
                row = self._row(name, value)
                self._budgets.count(name, row)
                if row.queued and not is_there:
                    self._hosts.put(self._enter(name, row), now)
                elif not is_there:
                    self._hosts.was_visited(name, min(row.visited, self._opened_at), now)
        self._to_load = rows[-1][0][1:] if len(rows) == limit else None
        if self._to_load is None:
            self._budgets.counted()

    def get(self, name: str) -> Host:
        """The host in memory, loaded if need be: some lookups, or none for a host that is surely new. May
        commit, so call it before rows are staged."""
        host = self._hosts.find(name)
        if host is None:
            if name in self._batch.left:
                self._batch.commit()
            key = keys.host_key(name)
            is_new = self._to_load is None and self._batch.seen.is_new(key)
            stored = None if is_new else self._batch.store.get(key)
            host = self._enter(name, NO_ROW if stored is None else self._row(name, stored))
            self._batch.seen.add(key)
        return host

    def of_page(self, page: Page) -> Host:
        """`get` the host whose queue *page* belongs to."""
        return self.get(host_of_page(page))

    def row_of(self, name: str) -> HostRow | None:
        """What is known of a host, which is not loaded for that; None: nothing. A lookup for one not
        awake."""
        host = self._hosts.by_name.get(name)
        stored = self._batch.store.get(keys.host_key(name)) if host is None else None
        return host if stored is None else self._row(name, stored)

    def _row(self, name: str, stored: bytes) -> HostRow:
        return lenient(host_rows.decode_host, stored) or self._counted(name)

    def _counted(self, name: str) -> HostRow:
        """What other rows say of a host whose own cannot be read: how many pages it has to come. O(these, and
        all that wait)."""
        store, prefix = self._batch.store, queue_keys.queue_prefix(name)
        waiting = (place.sort_key for place in queue_keys.waiting_places(store) if place.host == name)
        row = HostRow(visited=self._opened_at)
        for sort_key in chain((key[len(prefix) :] for key, _ in store.scan(prefix)), waiting):
            row.queued += 1
            row.queued_again += sort_key.startswith(COMES_BACK)
        for unit in keys.deferred_units(name):
            for key, _ in store.scan(keys.deferred_prefix(unit)):
                page = self._batch.read_page(queue_keys.sort_key_id(key))
                row.deferred += page is not None and host_of_page(page) == name
        return row

    def _enter(self, name: str, row: HostRow) -> Host:
        is_known = row is not NO_ROW and row != NO_ROW
        is_visit_assumed = is_known and not self._was_clean
        visited = row.visited
        if visited > self._latest:  # a clock that was set back must not silence it for longer than its delay
            row.visited = self._opened_at
        elif is_visit_assumed:
            row.visited = max(visited, self._opened_at)
        host = self._hosts.make(name, row)
        if visited <= self._opened_at:
            self._hosts.was_visited(name, visited, self._opened_at)
        if is_known:  # what earlier runs learnt of it
            if host.response_time and self._response_delay.factor:
                host.ask(delay_sources.RESPONSE_TIME, self._response_delay.delay(host.response_time))
            self._cooldowns.recall(host, self._opened_at)
            host.reset_clock()
        if name in self._orders:
            self._obey(host, self._orders[name])
        self._hosts.by_name[name] = host
        if is_visit_assumed and host.delay:
            self._batch.touch(host)
        if host.queued:
            self.fill(host)
        return host

    def _obey(self, host: Host, orders: Orders) -> None:
        """What the operator ordered."""
        host.is_blocked = orders.blocked is not None
        if host.is_blocked:
            self.blocked[host.name] = host
        else:
            self.blocked.pop(host.name, None)
        host.ask(delay_sources.OPERATOR, orders.delay)
        host.reset_clock()

    def order(self, name: str, orders: Orders, now: float) -> None:
        """Obey these orders of the operator from now on; written before this returns. Raises
        `FrontierUnwritable`."""
        row = None if orders == Orders() else host_rows.encode_orders(orders)
        self._batch.rows[keys.orders_key(name)] = row
        self._batch.commit()
        self._orders[name] = orders
        host = self._hosts.find(name)
        if host is not None:
            self._obey(host, orders)
            self._hosts.put_anew(host, now)

    def orders(self, name: str) -> Orders:
        """What the operator ordered for a host, nothing where there is nothing; no store read."""
        return self._orders.get(name, Orders())

    def ordered_delay(self, name: str) -> float | None:
        """The delay in seconds that the operator ordered for a host; None: none. O(1), no store read."""
        return self.orders(name).delay

    def fill(self, host: Host) -> None:
        """Read the best of its queue from the disk, where pages there could come before those in memory;
        commits first. One seek for eight pages, none where nothing is missing."""
        if host.needs_sort_keys():
            self._batch.commit()
            while host.needs_sort_keys():
                host.filled(self._batch.store.keys_of(host.prefix, host.cursor, HEADS), HEADS)

    def counts_changed(self, host: Host) -> None:
        """What *host* has queued, fetched or put aside has changed: have its domain count it, before the host
        may leave the memory. O(1)."""
        self._budgets.note(host)

    def put_or_forget(self, host: Host, now: float) -> None:
        """Have *host* stand where it belongs, after whatever changed of its queue or its clock; one with
        nothing queued and nothing under way leaves the memory once its delay has passed."""
        self.fill(host)
        self._hosts.put(host, now)
        self._budgets.freed(host)
        self.forget_if_idle(host, now)

    def forget_if_idle(self, host: Host, now: float) -> None:
        """Let go of a host with nothing queued and nothing under way, once its delay has passed; its row, in
        the open batch, says what there is to know. Nothing for any other."""
        self._latest = max(self._latest, now)
        if host.state in (IDLE, LINGERING) and not host.in_flight and not host.queued:
            self._batch.write_host(host)
            self._hosts.forget(host, now)
