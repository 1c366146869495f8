"""Pages that wait for room in a budget: put aside, found again at the start, and taken back in order.

Owns the deferred rows: each page whose record says it is deferred has one, under the unit whose budget is
used up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import UnreadableRow
from ..store import keys, page_rows, queue_keys
from ..store.due_rows import COMES_BACK
from ..store.score_codes import NEUTRAL
from ..store.states import State

if TYPE_CHECKING:
    from ..hosts.budgets import Budgets, OverBudget
    from ..hosts.host import Host
    from ..hosts.load_hosts import HostTable
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.page_rows import Page
    from .queue import Queue
    from .rescoring import Rescoring

PAGES_AT_A_TIME = 64  # pages that one lease puts aside or takes back; 25 us each


@dataclass(eq=False, repr=False)
class Deferral:
    """The pages that no budget has room for, by the unit, a host or a domain, whose budget is used up.

    `load` finds the units of earlier runs; `spill` puts the head of a spent host aside before it is handed
    out; `take_back` queues up to `PAGES_AT_A_TIME` pages of a unit, in the order of their discovery.
    """

    _batch: Batch
    _table: HostTable
    _budgets: Budgets
    _queue: Queue
    _scores: Rescoring | None
    _to_load: bytes | None = field(default=b"", init=False)

    @property
    def is_loaded(self) -> bool:
        """Whether the units of all deferred rows of earlier runs have been found; see `load`."""
        return self._to_load is None

    def waiting_for_room(self, most: int) -> int:
        """How many pages wait for room in a budget, as far as that is written: *most* stands for any more.
        .4 us each. Raises `FrontierUnreadable`."""
        return len(self._batch.store.keys_of(keys.DEFERRED, b"", most))

    def load(self, limit: int) -> None:
        """Find up to *limit* more units with deferred pages of earlier runs, one seek and one lookup each.

        Those with room are noted as such in the budgets. Commits first, so that the rows of hosts are those
        of now.
        """
        self._batch.commit()
        while self._to_load is not None and limit > 0:
            row = next(self._batch.store.scan(keys.DEFERRED, after=self._to_load, limit=1), None)
            found = None if row is None else keys.split_deferred_key(row[0])
            if row is None:
                self._to_load = None
            elif found is None:  # `check` mends it
                self._to_load = row[0][1:]
            else:
                unit = found[0]
                self._budgets.found(unit, self._table.row_of(unit))
                self._to_load = keys.deferred_key(unit, keys.MAX_ID)[1:]
                limit -= 1

    def put(
        self,
        page_id: PageId,
        page: Page,
        host: Host,
        over: OverBudget,
        now: float,
        depth: int = 0,
        bucket: int = 0,
    ) -> None:
        """Have a page that is in no queue wait for room; part of the open batch."""
        page = page._replace(state=State.SEEN, changed=int(now), reason=over.reason, is_deferred=True)
        self._batch.put_page(page_id, page)
        self._put_row(page_id, over.unit, depth, bucket)
        self._batch.count_deferred(host, 1)
        self._budgets.note(host)

    def _put_row(self, page_id: PageId, unit: str, depth: int, bucket: int) -> None:
        value = page_rows.encode_deferred(depth if unit == keys.DEPTH_UNIT else 0, bucket)
        self._batch.rows[keys.deferred_key(unit, page_id)] = value
        self._budgets.deferred(unit, page_id)

    def remove(self, page_id: PageId, host: Host) -> None:
        """Remove the row of a page that waits no more, under whatever unit it is, and count it for *host* no
        more.

        In the open batch; its own record is left to the caller. Some deletions, no read.
        """
        for unit in keys.deferred_units(host.name):
            self._batch.rows[keys.deferred_key(unit, page_id)] = None
        self._batch.count_deferred(host, -1)

    def take_back(self, now: float) -> None:
        """Queue pages of a unit that has room, in order of discovery, at most `PAGES_AT_A_TIME`; 25 us each.

        Some unit must have room (``Budgets.with_room``), and what was open before must have been committed.
        The new rows are in the open batch.
        """
        unit, cursor = self._budgets.next_unit()
        prefix = keys.deferred_prefix(unit)
        rows = list(self._batch.store.scan(prefix, after=cursor, limit=PAGES_AT_A_TIME))
        for key, value in rows:
            if not self._take(unit, key, value, now):
                self._budgets.taken(unit, cursor, has_room=False)
                return
            cursor = key[len(prefix) :]
        self._budgets.taken(unit, cursor if len(rows) == PAGES_AT_A_TIME else None, has_room=True)

    def _take(self, unit: str, key: bytes, value: bytes, now: float) -> bool:
        """Queue the page of a deferred row, or have it wait for another budget; false if there is no room."""
        budgets, page_id = self._budgets, queue_keys.sort_key_id(key)
        depth, bucket = page_rows.decode_deferred(value)
        if unit == keys.DEPTH_UNIT and budgets.limits.depth and depth > budgets.limits.depth:
            return True  # it goes on waiting there
        page = self._batch.read_page(page_id)
        if page is None or not page.is_deferred:  # `check` sees to it
            return True
        host = self._table.of_page(page)
        over = budgets.over(host, is_new=False)
        if over is not None and over.unit == unit:
            self._table.forget_if_idle(host, now)
            return False
        batch = self._batch
        batch.rows[key] = None
        if over is not None:
            self._put_row(page_id, over.unit, depth, bucket)
            batch.put_page(page_id, page._replace(changed=int(now), reason=over.reason))
            batch.touch(host)
            self._table.forget_if_idle(host, now)
            return True
        page = page._replace(state=State.QUEUED, changed=0, reason="", is_deferred=False)
        batch.put_page(page_id, page)
        batch.count_deferred(host, -1)
        bucket = (bucket or NEUTRAL) if self._scores is None else self._scores.opened(page_id, bucket)
        self._queue.put(host, queue_keys.sort_key(page.priority, bucket, page_id, page_id), now)
        return True

    def spill(self, host: Host, now: float) -> bool:
        """Defer the next page of a host whose budget of pages is used up; false where it may be fetched.

        Never a further visit, nor a page that comes back. One whose record cannot be read is set aside
        instead. In the open batch; the host gets its next head and its place.
        """
        over = self._budgets.spent(host)
        sort_key = host.next_sort_key()
        page_id = queue_keys.sort_key_id(sort_key)
        if over is None or page_id >= keys.FIRST_VISIT or sort_key.startswith(COMES_BACK):
            return False
        host.forget(sort_key)
        try:
            _, page = page_rows.queued_page(self._batch.rows, self._batch.store, sort_key)
        except UnreadableRow:
            self._queue.set_aside(host, sort_key)
        else:
            self._queue.remove(host, sort_key)
            if self._scores is not None:
                self._scores.closed(page_id)
            self.put(page_id, page, host, over, now, bucket=queue_keys.sort_key_bucket(sort_key))
        self._table.put_or_forget(host, now)
        return True
