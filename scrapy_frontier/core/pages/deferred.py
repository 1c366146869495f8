"""Pages that wait for room in a budget: put aside, found again at the start, and taken back in order.

Owns the deferred rows: each page whose record says it is deferred has one, under the unit whose budget is
used up. What happens to hosts and queues meanwhile is the frontier's; it lends the two functions this needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import UnreadableRecord
from ..parse.urls import host_of
from ..store import keys, page_rows, queue_rows
from ..store.states import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..hosts.host import Host
    from ..store.batch import Journal
    from ..store.host_rows import HostRow
    from ..store.leveldb import Store
    from ..store.page_rows import Page
    from .budgets import Budgets, OverBudget

AT_A_TIME = 64  # pages that one lease puts aside or takes back; 25 us each


class Deferral:
    """*host* loads a host by its name; *settle* puts a page (id, priority, score bucket or 0) into its queue,
    or is told that there is none."""

    def __init__(
        self,
        store: Store,
        journal: Journal,
        budgets: Budgets,
        host: Callable[[str], Host],
        settle: Callable[[Host, tuple[int, int, int] | None, float], None],
    ) -> None:
        self._store = store
        self._journal = journal
        self._budgets = budgets
        self._host = host
        self._settle = settle
        self._to_load: bytes | None = b""

    @property
    def is_loaded(self) -> bool:
        return self._to_load is None

    def load(self, limit: int, host_of_unit: Callable[[str], Host | HostRow | None]) -> bool:
        """Find up to *limit* more units with deferred pages, one seek each; true once all are found."""
        while self._to_load is not None and limit > 0:
            row = next(self._store.scan(keys.DEFERRED, after=self._to_load, limit=1), None)
            found = None if row is None else keys.split_deferred_key(row[0])
            if row is None:
                self._to_load = None
            elif found is None:  # `check` mends it
                self._to_load = row[0][1:]
            else:
                unit = found[0]
                self._budgets.found(unit, host_of_unit(unit))
                self._to_load = keys.deferred_key(unit, keys.MAX_ID)[1:]
                limit -= 1
        return self._to_load is None

    def put(
        self,
        page_id: int,
        page: Page,
        host: Host,
        over: OverBudget,
        now: float,
        depth: int = 0,
        bucket: int = 0,
    ) -> None:
        """Have a page that is in no queue wait for room; part of the open batch."""
        page = page._replace(state=State.SEEN, changed=int(now), reason=over.reason, is_deferred=True)
        self._journal.put(keys.page_key(page_id), page_rows.encode_page(page))
        self._put_row(page_id, over.unit, depth, bucket)
        self._journal.count_deferred(host, 1)
        self._budgets.note(host)

    def _put_row(self, page_id: int, unit: str, depth: int, bucket: int) -> None:
        value = page_rows.encode_deferred(depth if unit == keys.DEPTH_UNIT else 0, bucket)
        self._journal.put(keys.deferred_key(unit, page_id), value)
        self._budgets.deferred(unit, page_id)

    def remove(self, page_id: int, host: Host) -> None:
        """Remove the row of a page that waits no more, under whatever unit it is."""
        for unit in keys.deferred_units(host.name):
            self._journal.delete(keys.deferred_key(unit, page_id))
        self._journal.count_deferred(host, -1)

    def take_back(self, now: float) -> None:
        """Queue pages of one unit that has room, in order of discovery, at most `AT_A_TIME`.

        What was open before must have been committed.
        """
        budgets = self._budgets
        unit = next(iter(budgets.due))
        del budgets.due[unit]
        prefix = keys.deferred_prefix(unit)
        rows = list(self._store.scan(prefix, after=budgets.units[unit], limit=AT_A_TIME))
        for key, value in rows:
            if not self._take(unit, key, value, now):
                return
            budgets.units[unit] = key[len(prefix) :]
        if len(rows) < AT_A_TIME:
            budgets.exhausted(unit)
        else:
            budgets.due[unit] = None

    def _take(self, unit: str, key: bytes, value: bytes, now: float) -> bool:
        """Queue the page of a deferred row, or have it wait for another budget; false if there is no room."""
        budgets, page_id = self._budgets, queue_rows.sort_key_id(key)
        depth, bucket = page_rows.decode_deferred(value)
        if unit == keys.DEPTH_UNIT and budgets.limits.depth and depth > budgets.limits.depth:
            return True  # it goes on waiting there
        try:
            page = page_rows.decode_page(self._store.get(keys.page_key(page_id)) or b"")
        except UnreadableRecord:  # `check` sees to it
            return True
        if not page.is_deferred:
            return True
        host = self._host(page.host or host_of(page.url))
        over = budgets.over(host, is_new=False)
        if over is not None and over.unit == unit:
            self._settle(host, None, now)
            return False
        journal = self._journal
        journal.delete(key)
        if over is not None:
            self._put_row(page_id, over.unit, depth, bucket)
            page = page._replace(changed=int(now), reason=over.reason)
            journal.put(keys.page_key(page_id), page_rows.encode_page(page))
            journal.touch(host)
            self._settle(host, None, now)
            return True
        page = page._replace(state=State.QUEUED, changed=0, reason="", is_deferred=False)
        journal.put(keys.page_key(page_id), page_rows.encode_page(page))
        journal.count_deferred(host, -1)
        self._settle(host, (page_id, page.priority, bucket), now)
        return True
