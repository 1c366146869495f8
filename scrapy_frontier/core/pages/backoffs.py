"""Pages that wait for the end of a backoff, how long that is, and their rows, in order of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import lenient
from ..hosts.host import FOREVER, Host
from ..store import keys, queue_keys
from ..store.host_rows import LONGEST_ASKED

if TYPE_CHECKING:
    from ..hosts.load_hosts import HostTable
    from ..store.batch import Batch
    from ..store.keys import PageId
    from .leases import Outcome
    from .queue import Queue

LONGEST_BACKOFF = 3600.0  # seconds, unless the first is more; ten attempts of 1 s and on come to nine minutes
# Seconds: no page waits longer, for a crawl that starts then. A clock that was set back by less than a day
# may make more of what a server asked for (`LONGEST_ASKED`), and must not make nothing of it.
TOO_LONG_TO_WAIT = 2 * LONGEST_ASKED
_AT_A_TIME = 64  # waiting pages that one lease puts back into their queues, to keep it short


def backoff(first: float, attempts: int) -> float:
    """Seconds before a page is fetched again after *attempts* leases, 1 and more: *first*, and double with
    each that follows, up to `LONGEST_BACKOFF`; a day at the most, like all waits of pages."""
    longest = min(max(first, LONGEST_BACKOFF), LONGEST_ASKED)
    return float(min(first * 2 ** min(attempts - 1, 60), longest))


class Backoffs:
    """The waiting rows of the store. ``next`` is when the first wait is over, or `FOREVER`.

    What is due more than `TOO_LONG_TO_WAIT` after *opened_at* was put there by a clock that was ahead, and
    has been set right: it is over, or the page would wait until it is as late again.
    """

    def __init__(self, batch: Batch, table: HostTable, queue: Queue, opened_at: float) -> None:
        self._batch = batch
        self._table = table
        self._queue = queue
        first = next(batch.store.scan(keys.WAITING, limit=1), None)
        self.next = queue_keys.waiting_time(first[0]) if first else FOREVER
        self._cursor = b""
        # Where such rows go on.
        self._too_late: bytes | None = queue_keys.behind_waiting(opened_at + TOO_LONG_TO_WAIT)
        if next(batch.store.scan(keys.WAITING, self._too_late, 1), None) is None:
            self._too_late = None
        else:
            self.next = opened_at
        self.cut_short: set[PageId] = set()  # pages whose backoff was, until they are handed out

    def handed_out(self, page_id: PageId) -> None:
        """A page whose backoff was ``cut_short`` is handed out."""
        self.cut_short.remove(page_id)

    def taken_back(self, page_id: PageId) -> None:
        """The hand-out of a page whose backoff was ``cut_short`` was none after all."""
        self.cut_short.add(page_id)

    def put(self, host: Host, sort_key: bytes, until: float) -> None:
        """Have a page that is in no queue wait *until* then (POSIX seconds), in the open batch; it counts as
        queued.

        *sort_key* is its place in the queue of *host* once `wake` has put it back. O(1).
        """
        page_id = queue_keys.sort_key_id(sort_key)
        key = queue_keys.waiting_key(until, page_id)
        self._batch.rows[key] = queue_keys.pack_sort_key(sort_key, host.name)
        self._batch.count_queued(host, 1)
        self.next = min(self.next, until)

    def queue_again(self, host: Host, sort_key: bytes, priority: int, outcome: Outcome, now: float) -> bool:
        """Queue a page that was handed out once more, in the open batch, as *outcome* says: behind all of its
        *priority*, not before its delay has passed, or at once. Whether it waits. O(log hosts)."""
        until = now + outcome.delay
        if outcome.is_behind:
            self._queue.put_behind(host, sort_key, priority, now)
        elif until <= now:
            self._queue.put_back(host, sort_key, now)
        else:
            self.put(host, sort_key, until)
            return True
        return False

    def wake(self, now: float, is_over: bool) -> None:
        """Put pages whose backoff has passed, or any if all *is_over*, back into their queues, a handful at a
        time; commits. What was open must be written before: the rows are looked for on the disk.

        ``next`` says afterwards when to call it again, not later than now while more than the handful are
        due.
        """
        self.next = FOREVER
        if self._too_late is not None:
            self._wake_too_late(now)
        rows = list(self._batch.store.scan(keys.WAITING, after=self._cursor, limit=_AT_A_TIME + 1))
        for index, (key, value) in enumerate(rows):
            when = queue_keys.waiting_time(key)
            if (when > now and not is_over) or index == _AT_A_TIME:
                self.next = min(self.next, when)
                break
            page_id = self._put_back(key, value, now)
            if page_id is not None and when > now:
                self.cut_short.add(page_id)
            else:
                self._cursor = key[1:]
        self._batch.commit()

    def _wake_too_late(self, now: float) -> None:
        """The same for pages that wait as long as a clock was wrong: their waits are over. Commits."""
        assert self._too_late is not None
        # None that was put there in this run.
        after = max(self._too_late, queue_keys.behind_waiting(now + TOO_LONG_TO_WAIT))
        rows = list(self._batch.store.scan(keys.WAITING, after, _AT_A_TIME))
        for key, value in rows:
            self._put_back(key, value, now)
        self._batch.commit()
        self._too_late = rows[-1][0][1:] if len(rows) == _AT_A_TIME else None
        if self._too_late is not None:
            self.next = now

    def _put_back(self, key: bytes, value: bytes, now: float) -> PageId | None:
        """Put the page of a waiting row back into its queue, in the open batch; None for a row that nobody
        can read: `check` sees to it."""
        found = lenient(queue_keys.unpack_sort_key, value)
        if found is None:
            return None
        sort_key, name = found
        host = self._table.get(name)
        self._batch.rows[key] = None
        self._batch.count_queued(host, -1)
        self._queue.put_back(host, sort_key, now)
        return queue_keys.sort_key_id(sort_key)
