"""The open batch, and the counts that every batch carries.

The only writer of a frontier. Owns what is decided but not yet written. Rows of hosts and the counts go into
each batch, so that the database never tells two stories. After a failed write nothing is written any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import FrontierError, FrontierUnreadable, UnreadableRecord
from . import host_rows, keys, meta_rows
from .meta_rows import Counts
from .states import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from .host_rows import KeptHost
    from .leveldb import Store

    Row = tuple[bytes, bytes | None]  # key and value; None: the key is deleted
    OnCommit = Callable[[list[Row]], None]


_QUEUED = int(State.QUEUED)  # an `IntEnum` takes longer as an index


class Batch:
    """Collects rows until `commit` writes them as one atomic batch.

    ``fresh`` maps fingerprints of new pages that are in the open batch to their ids, ``~id`` for one that is
    only seen; ``left`` names hosts that were forgotten while their newest row is there. *on_commit* is told
    of each batch that was written: its rows, in order.
    """

    def __init__(self, store: Store, on_commit: OnCommit | None = None) -> None:
        self._store = store
        self._batch = store.batch()
        self._on_commit = on_commit
        self._rows: list[Row] = []
        self.put: Callable[[bytes, bytes], None] = self._batch.put
        self.delete: Callable[[bytes], None] = self._batch.delete
        if on_commit is not None:
            self.put, self.delete = self._put, self._delete
        self._touched: set[KeptHost] = set()
        self.failure: FrontierError | None = None
        self.is_open = False
        self.withheld = 0  # queued pages of blocked hosts in memory
        self.fresh: dict[bytes, int] = {}
        self.left: set[str] = set()
        if store.get(keys.FORMAT) != str(keys.FORMAT_VERSION).encode():  # from the first batch on it is ours
            self.add(keys.FORMAT, str(keys.FORMAT_VERSION).encode())
        stored = store.get(keys.COUNTS)
        self.is_first_run = stored is None
        if stored is None and store.keys_of(keys.PAGE, b"", 1):  # counting from 0 would write over them
            raise FrontierUnreadable(
                f"{store.directory}: there are pages, but the counts are lost: nothing was changed; let "
                "`scrapy frontier check --repair` count them anew"
            )
        try:
            self.counts = meta_rows.decode_counts(stored) if stored else Counts.none()
        except UnreadableRecord as error:
            raise FrontierUnreadable(
                f"{store.directory}: the counts cannot be read ({error}): nothing was changed; let `scrapy "
                "frontier check --repair` count anew"
            ) from error

    def check(self) -> None:
        """Raise what the last write raised, if it failed."""
        if self.failure is not None:
            raise self.failure

    def _put(self, key: bytes, value: bytes) -> None:
        self._batch.put(key, value)
        self._rows.append((key, value))

    def _delete(self, key: bytes) -> None:
        self._batch.delete(key)
        self._rows.append((key, None))

    def add(self, key: bytes, value: bytes) -> None:
        """Have the next batch hold a row that no count depends on."""
        self.put(key, value)
        self.is_open = True

    @property
    def turn(self) -> int:
        """Whose turn comes now among equals: that of the page discovered last."""
        return max(self.counts.next_page - 1, 0)

    def new_visit(self) -> int:
        """An id for a request that is not a page of its own."""
        self.counts.next_visit += 1
        return keys.FIRST_VISIT + self.counts.next_visit - 1

    def queue(self, host: KeptHost, sort_key: bytes) -> None:
        self.put(host.prefix + sort_key, b"")
        host.queued += 1
        self.counts.states[_QUEUED] += 1
        if host.is_blocked:
            self.withheld += 1
        self._touched.add(host)
        self.is_open = True

    def unqueue(self, host: KeptHost, sort_key: bytes) -> None:
        self.delete(host.prefix + sort_key)
        host.queued -= 1
        self.counts.states[_QUEUED] -= 1
        if host.is_blocked:
            self.withheld -= 1
        self._touched.add(host)
        self.is_open = True

    def count_queued(self, host: KeptHost, change: int) -> None:
        host.queued += change
        self.counts.states[State.QUEUED] += change
        if host.is_blocked:
            self.withheld += change
        self.touch(host)

    def count_returning(self, host: KeptHost, change: int) -> None:
        """Of the pages queued on *host* so many more are finished ones that come back."""
        host.returning += change
        self.counts.returning += change
        self.touch(host)

    def count_ended(self, host: KeptHost, state: State, change: int = 1, status: int = 0) -> None:
        """Count a page that ended in *state* with this HTTP *status*, or with -1 one that is taken back from
        there. One that was refused once it was answered costs its host as much as any other.

        Pages only seen do not count for their host: most belong to hosts nobody visits. For one that waits
        for a budget there is `count_deferred`.
        """
        self.counts.states[state] += change
        if state is State.SEEN:
            self.is_open = True
            return
        if state in (State.FAILED, State.GONE):
            host.failed += change
        else:
            host.done += change
            if state is State.EXCLUDED:
                host.excluded += change
                if status:
                    host.answered += change
        self._touched.add(host)
        self.is_open = True

    def count_deferred(self, host: KeptHost, change: int) -> None:
        self.counts.states[State.SEEN] += change
        host.deferred += change
        self.touch(host)

    def is_touched(self, host: KeptHost) -> bool:
        """Whether the next batch will hold the row of *host*."""
        return host in self._touched

    def touch(self, host: KeptHost) -> None:
        """Have the next batch hold the row of *host*."""
        self._touched.add(host)
        self.is_open = True

    def write_host(self, host: KeptHost) -> None:
        """Put the row of a host that is about to be forgotten into the open batch."""
        if host in self._touched:
            self._touched.remove(host)
            self._count_host(host)
            self.left.add(host.name)
            self.put(keys.host_key(host.name), host_rows.encode_host(host))

    def _count_host(self, host: KeptHost) -> None:
        if not host.is_kept:  # it gets its first row
            host.is_kept = True
            self.counts.hosts += 1

    def commit(self) -> None:
        """Write the open batch atomically; does nothing when nothing is open.

        Raises `FrontierUnwritable`, from then on always, so that nothing is written behind a broken log.
        """
        if self.failure is not None:
            raise self.failure
        if not self.is_open:
            return
        put = self.put
        for host in self._touched:
            if not host.is_kept:
                self._count_host(host)
            put(keys.HOST + host.prefix[1:-1], host_rows.encode_host(host))
        put(keys.COUNTS, meta_rows.encode_counts(self.counts))
        try:
            self._store.write(self._batch)
        except FrontierError as error:
            self.failure = error
            raise
        self._batch.clear()
        self._touched.clear()
        self.fresh.clear()
        self.left.clear()
        self.is_open = False
        if self._on_commit is not None:
            rows, self._rows = self._rows, []
            self._on_commit(rows)

    def begin_run(self) -> bool:
        """Take the clean mark off; whether it was there, or the frontier is new."""
        if self.is_first_run:
            return True
        was_clean = self._store.get(keys.CLEAN) is not None
        if was_clean:
            self.delete(keys.CLEAN)
            self.is_open = True
            self.commit()
        return was_clean

    def end_run(self) -> None:
        """Commit, mark the end as clean, and leave LevelDB no log to replay."""
        if self.failure is None:
            self.put(keys.CLEAN, b"")
            self.is_open = True
            self.commit()
            self._store.flush()
