"""Pages that wait: in the queue of their host, for the end of a backoff, or for room in a budget.

`Waiting` adds and removes them in the open batch, in memory and in the scores at once. It owns the queue
rows, the waiting rows of pages in a backoff, and the deferred rows: one, under its host, for each page whose
record says that it is deferred. The counts in the row of a host tell how much of its budget of pages is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import reasons
from ..errors import UnreadableRow, decode_or_none
from ..hosts.host import FOREVER, Host
from ..store import keys, queue_keys
from ..store.keys import State

if TYPE_CHECKING:
    from ..hosts.hosts import Hosts
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.records import HostRow, Page
    from .leases import Outcome
    from .scores import Scores

FIRST_BACKOFF = 1.0  # seconds
LONGEST_BACKOFF = 3600.0  # seconds; those of ten attempts sum up to nine minutes
A_TURN = 0.05  # seconds: roughly what a page of a host without a delay takes


def backoff(attempts: int) -> float:
    """Return the seconds before the next attempt after so many *attempts*, 1 or more: `FIRST_BACKOFF`,
    doubled with each attempt, up to `LONGEST_BACKOFF`."""
    return float(min(FIRST_BACKOFF * 2 ** min(attempts - 1, 60), LONGEST_BACKOFF))


PAGES_AT_A_TIME = 64  # pages that one call of `Leases.lease` defers or queues, to keep it short; 25 us each
KEPT = 10  # times its budget of pages that a host keeps for later; links beyond that are refused


class Waiting:
    """Queues pages, lets them back off, and defers those over the budget of their host.

    At most *host_pages* of a host are fetched (0: no limit). ``next`` is when the first backoff ends, or
    `FOREVER`. ``with_room`` are hosts with deferred pages that have room for some of them, oldest first.
    """

    def __init__(self, batch: Batch, hosts: Hosts, scores: Scores, host_pages: int) -> None:
        self._batch = batch
        self._hosts = hosts
        self._scores = scores
        self.host_pages = host_pages
        self.with_room: dict[str, None] = {}
        # Hosts with deferred pages, each with the id after which its deferred rows are to be read.
        self._deferred: dict[str, bytes] = {}
        self._unreadable: list[int] = []  # ids of pages set aside since `drain_unreadable`
        first = next(batch.store.scan(keys.WAITING, limit=1), None)
        self.next = queue_keys.waiting_time(first[0]) if first else FOREVER
        self._cursor = b""
        self._to_load: bytes | None = b""  # the deferred rows after it are not loaded; None: all are

    # -- queues ----------------------------------------------------------------------------------------

    def queue(self, host: Host, sort_key: bytes, now: float) -> None:
        """Queue a page of *host* with *sort_key*, in the open batch. O(log hosts)."""
        self._batch.queue(host, sort_key)
        if queue_keys.is_due_sort_key(sort_key):
            self._hosts.put_due(host, sort_key)
        else:
            self._scores.queued(host.name, sort_key)
            host.add(sort_key)
        self._hosts.update(host, now)

    def queue_retry(self, host: Host, sort_key: bytes, now: float) -> None:
        """`queue` a page that was handed out before. One in `RETRY_EVERY` turns of a host goes to such pages,
        if they are new."""
        self.queue(host, sort_key, now)
        if not queue_keys.is_due_sort_key(sort_key):
            host.add_retry(sort_key)

    def unqueue(self, host: Host, sort_key: bytes) -> None:
        """Delete the queue row of a leased page, in the open batch."""
        self._batch.unqueue(host, sort_key)
        host.drop_leased(sort_key)

    def sort_key_again(self, page_id: PageId, priority: int) -> bytes:
        """Return the sort key of a page that is queued later than it was discovered: after its equals."""
        bucket = self._scores.opened(page_id)
        return queue_keys.sort_key(priority, bucket, self._batch.arrival, page_id)

    def set_aside(self, host: Host, sort_key: bytes) -> None:
        """Set aside a page whose record cannot be read, in the open batch: its bytes are kept, and it counts
        as failed. A page that came back keeps its count until a repair. `Frontier.drain_events` returns its
        id. One lookup."""
        page_id = queue_keys.sort_key_id(sort_key)
        self._batch.rows[keys.aside_key(page_id)] = self._batch.get(keys.page_key(page_id)) or b""
        self.unqueue(host, sort_key)
        if page_id < keys.FIRST_VISIT:
            if not queue_keys.is_due_sort_key(sort_key):  # of others only the record had the state
                self._batch.count_ended(host, State.FAILED)
            self._scores.closed(page_id)
        self._unreadable.append(page_id)

    def drain_unreadable(self) -> tuple[int, ...]:
        """Return the ids of the pages that were set aside since the last call."""
        found, self._unreadable = self._unreadable, []
        return tuple(found)

    # -- backoffs --------------------------------------------------------------------------------------

    def back_off(self, host: Host, sort_key: bytes, until: float) -> None:
        """Let a page wait *until* then (POSIX seconds), in the open batch; it counts as queued.

        `end_backoffs` queues it on *host* with *sort_key*. O(1).
        """
        page_id = queue_keys.sort_key_id(sort_key)
        key = queue_keys.waiting_key(until, page_id)
        self._batch.rows[key] = queue_keys.pack_sort_key(sort_key, host.name)
        self._batch.count_waiting(host, sort_key, 1)
        self.next = min(self.next, until)

    def queue_again(self, host: Host, sort_key: bytes, outcome: Outcome, now: float) -> None:
        """Queue a leased page again, in the open batch, at once or after the delay of *outcome*. O(log
        hosts).

        A page that a middleware hands back waits until every page of its host may have had a turn, an hour at
        most: the middleware may wait for one of them.
        """
        delay = outcome.delay
        if outcome.is_handed_back:
            delay = min(max(host.delay, A_TURN) * (host.pages + 1), LONGEST_BACKOFF)
        until = now + delay
        if until <= now:
            self.queue_retry(host, sort_key, now)
        else:
            self.back_off(host, sort_key, until)
            self._scores.waits(queue_keys.sort_key_id(sort_key))

    def end_backoffs(self, now: float, is_over: bool = False) -> None:
        """Queue pages whose backoff has ended, or all if the crawl *is_over*, at most `PAGES_AT_A_TIME`;
        commits.

        Call it with an empty batch, since it reads the rows from the disk, and again at ``next``.
        """
        self.next = FOREVER
        rows = list(self._batch.store.scan(keys.WAITING, after=self._cursor, limit=PAGES_AT_A_TIME + 1))
        for index, (key, value) in enumerate(rows):
            when = queue_keys.waiting_time(key)
            if (when > now and not is_over) or index == PAGES_AT_A_TIME:
                self.next = min(self.next, when)
                break
            self._end_backoff(key, value, now)
            if when <= now:
                self._cursor = key[1:]
        self._batch.commit()

    def _end_backoff(self, key: bytes, value: bytes, now: float) -> None:
        """Queue the page of a waiting row, in the open batch; leaves a row that cannot be read to `check`."""
        found = decode_or_none(queue_keys.unpack_sort_key, value)
        if found is None:
            return
        sort_key, name = found
        host = self._hosts.get(name)
        self._batch.rows[key] = None
        self._batch.count_waiting(host, sort_key, -1)
        self.queue_retry(host, sort_key, now)

    # -- budgets ---------------------------------------------------------------------------------------

    @property
    def is_loaded(self) -> bool:
        """Whether `load` has found all hosts with deferred rows of earlier runs."""
        return self._to_load is None

    def waiting_for_room(self, most: int) -> int:
        """Count the pages that wait for room in a budget and are written, up to *most*; .4 us each. Raises
        `FrontierUnreadable`."""
        return len(self._batch.store.keys_of(keys.DEFERRED, b"", most))

    def load(self, limit: int) -> None:
        """Find up to *limit* more hosts with deferred pages of earlier runs, a seek and a lookup each.
        Commits first, so that the rows of hosts on the disk are up to date."""
        self._batch.commit()
        while self._to_load is not None and limit > 0:
            row = next(self._batch.store.scan(keys.DEFERRED, after=self._to_load, limit=1), None)
            if row is None:
                self._to_load = None
                return
            host = row[0][1:].partition(b"\0")[0]
            name, self._to_load = host.decode(errors="replace"), host + b"\1"
            self._deferred.setdefault(name, b"")
            row_of_host = self._hosts.row_of(name)
            if row_of_host is None or self.has_room(row_of_host):
                self.with_room[name] = None
            limit -= 1

    def has_room(self, host: HostRow) -> bool:
        """Return whether one more page of *host* may be queued. O(1)."""
        return not self.host_pages or host.queued + host.fetched < self.host_pages

    def keeps(self, host: Host) -> bool:
        """Return whether one more page over the budget of *host* is kept for later."""
        return host.deferred < KEPT * self.host_pages

    def over_budget(self, host: Host) -> str:
        """Return the reason for which a page waits for room in the budget of *host*."""
        counted = "1 page" if self.host_pages == 1 else f"{self.host_pages:,} pages"
        return reasons.BUDGET(most=counted, host=host.name)

    def freed(self, host: Host) -> None:
        """Note that *host* has fewer pages: deferred ones are queued if it has room now. O(1)."""
        if host.name in self._deferred and self.has_room(host):
            self.with_room[host.name] = None

    def defer(self, page_id: PageId, page: Page, host: Host, now: float) -> None:
        """Let a page wait for room in the budget of *host*, in the open batch."""
        reason = self.over_budget(host)
        page = page._replace(state=State.SEEN, changed=int(now), reason=reason, is_deferred=True)
        self._batch.put_page(page_id, page)
        self._batch.rows[keys.deferred_key(host.name, page_id)] = b""
        if keys.id_bytes(page_id) <= self._deferred.setdefault(host.name, b""):
            self._deferred[host.name] = b""
        self._batch.count_deferred(host, 1)

    def undefer(self, page_id: PageId, host: Host) -> None:
        """Delete the deferred row of a page, in the open batch; not its record."""
        self._batch.rows[keys.deferred_key(host.name, page_id)] = None
        self._batch.count_deferred(host, -1)

    def queue_deferred(self, now: float) -> None:
        """Queue deferred pages of the host that has had room for longest, in order of discovery, at most
        `PAGES_AT_A_TIME`, in the open batch. Call it if a host has room, with an empty batch."""
        name = next(iter(self.with_room))
        del self.with_room[name]
        found = self._batch.store.keys_of(keys.deferred_prefix(name), self._deferred[name], PAGES_AT_A_TIME)
        for row_id in found:
            if not self._queue_deferred_page(keys.id_in(row_id), name, now):
                return
            self._deferred[name] = row_id
        if len(found) == PAGES_AT_A_TIME:
            self.with_room[name] = None
        else:
            del self._deferred[name]

    def _queue_deferred_page(self, page_id: PageId, name: str, now: float) -> bool:
        """Queue a deferred page; false if its host has no room."""
        page = self._batch.read_page(page_id)
        if page is None or not page.is_deferred:  # `check` repairs it
            return True
        host = self._hosts.get(name)
        if not self.has_room(host):
            self._hosts.forget_if_idle(host, now)
            return False
        page = page._replace(state=State.QUEUED, changed=0, reason="", is_deferred=False)
        self._batch.put_page(page_id, page)
        self.undefer(page_id, host)
        bucket = self._scores.opened(page_id)
        self.queue(host, queue_keys.sort_key(page.priority, bucket, page_id, page_id), now)
        return True

    def spill(self, host: Host, now: float) -> bool:
        """Defer the next page of a host whose budget is used up, in the open batch; false if it may be
        fetched, as every further visit. A page whose record cannot be read is set aside instead."""
        sort_key = host.next_sort_key()
        page_id = queue_keys.sort_key_id(sort_key)
        if host.fetched + len(host.leased) < self.host_pages or page_id >= keys.FIRST_VISIT:
            return False
        host.drop(sort_key)
        try:
            _, page = self._batch.queued_page(sort_key)
        except UnreadableRow:
            self.set_aside(host, sort_key)
        else:
            self.unqueue(host, sort_key)
            self._scores.closed(page_id)
            self.defer(page_id, page, host, now)
        self._hosts.update_or_forget(host, now)
        return True
