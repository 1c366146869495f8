"""The open batch, and the counts that every batch carries.

Owns what is decided but not yet written. Rows of hosts and the counts go into each batch, so that the
database never tells two stories. After a failed write nothing is written any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import FrontierError, FrontierUnreadable, UnreadableRecord
from . import host_rows, keys, meta_rows
from .bloom import Seen
from .meta_rows import Counts
from .states import State

if TYPE_CHECKING:
    from ..hosts.host import Host
    from .leveldb import Store


_QUEUED = int(State.QUEUED)  # an `IntEnum` takes longer as an index


class Journal:
    """Collects rows until `commit` writes them as one atomic batch.

    ``fresh`` maps fingerprints of new pages that are in the open batch to their ids, ``~id`` for one that is
    only seen; ``off_wire`` names hosts that were forgotten while their newest row is there.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._batch = store.batch()
        self._touched: set[Host] = set()
        self.failure: FrontierError | None = None
        self.is_open = False
        self.withheld = 0  # queued pages of blocked hosts in memory
        self.fresh: dict[bytes, int] = {}
        self.left: set[str] = set()
        self.seen = Seen()
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
        self.seen.is_complete = not self.counts.next_page
        self.put = self._batch.put
        self.delete = self._batch.delete

    def check(self) -> None:
        """Raise what the last write raised, if it failed."""
        if self.failure is not None:
            raise self.failure

    def new_page(self, fingerprint: bytes, is_marked: bool = False) -> int:
        """A new page id, and the index row that leads from *fingerprint* to it; *is_marked* as
        `meta_rows.may_be_only_seen` says."""
        page_id = self.counts.next_page
        self.counts.next_page = page_id + 1
        self.fresh[fingerprint] = page_id
        self.seen.add(fingerprint)
        self.put(keys.INDEX + fingerprint, keys.index_value(page_id, is_marked))
        return page_id

    def add(self, key: bytes, value: bytes) -> None:
        """Have the next batch hold a row that no count depends on."""
        self.put(key, value)
        self.is_open = True

    def new_seen_page(self, fingerprint: bytes) -> int:
        """`new_page` for a page that is not queued; ``fresh`` has ``~id`` for it."""
        page_id = self.new_page(fingerprint, is_marked=True)
        self.fresh[fingerprint] = ~page_id
        self.counts.states[State.SEEN] += 1
        self.is_open = True
        return page_id

    def mark(self, fingerprint: bytes, page_id: int) -> None:
        """Have the index row of a page in the open batch say that it may turn out to be only seen."""
        self.put(keys.INDEX + fingerprint, keys.index_value(page_id, is_seen=True))

    def admit(self, fingerprint: bytes, page_id: int, is_marked: bool) -> None:
        """A page that was only seen is about to be queued, or to wait for room in a budget."""
        self.fresh[fingerprint] = page_id
        self.put(keys.INDEX + fingerprint, keys.index_value(page_id, is_marked))
        self.counts.states[State.SEEN] -= 1
        self.is_open = True

    @property
    def turn(self) -> int:
        """Whose turn comes now among equals: that of the page discovered last."""
        return max(self.counts.next_page - 1, 0)

    def new_visit(self) -> int:
        """An id for a request that is not a page of its own."""
        self.counts.next_visit += 1
        return keys.FIRST_VISIT + self.counts.next_visit - 1

    def queue(self, host: Host, sort_key: bytes) -> None:
        self.put(host.prefix + sort_key, b"")
        host.queued += 1
        self.counts.states[State.QUEUED] += 1
        if host.is_blocked:
            self.withheld += 1
        self._touched.add(host)
        self.is_open = True

    def queue_page(
        self, page_id: int, fingerprint: bytes, record: bytes, host: Host, sort_key: bytes
    ) -> None:
        """`new_page`, whose id is the next one, its *record*, and `queue`."""
        counts, put, name = self.counts, self.put, page_id.to_bytes(keys.ID_BYTES, "big")
        counts.next_page = page_id + 1
        counts.states[_QUEUED] += 1
        self.fresh[fingerprint] = page_id
        self.seen.add(fingerprint)
        put(keys.INDEX + fingerprint, name)
        put(keys.PAGE + name, record)
        put(host.prefix + sort_key, b"")
        host.queued += 1
        if host.is_blocked:
            self.withheld += 1
        self._touched.add(host)
        self.is_open = True

    def unqueue(self, host: Host, sort_key: bytes) -> None:
        self.delete(host.prefix + sort_key)
        host.is_unqueued(sort_key)
        host.queued -= 1
        self.counts.states[_QUEUED] -= 1
        if host.is_blocked:
            self.withheld -= 1
        self._touched.add(host)
        self.is_open = True

    def count_queued(self, host: Host, change: int) -> None:
        host.queued += change
        self.counts.states[State.QUEUED] += change
        if host.is_blocked:
            self.withheld += change
        self.touch(host)

    def count_ended(self, host: Host, state: State, change: int = 1, status: int = 0) -> None:
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

    def count_deferred(self, host: Host, change: int) -> None:
        self.counts.states[State.SEEN] += change
        host.deferred += change
        self.touch(host)

    def touch(self, host: Host) -> None:
        """Have the next batch hold the row of *host*."""
        self._touched.add(host)
        self.is_open = True

    def write_host(self, host: Host) -> None:
        """Put the row of a host that is about to be forgotten into the open batch."""
        if host in self._touched:
            self._touched.remove(host)
            self._count_host(host)
            self.left.add(host.name)
            self.put(keys.host_key(host.name), host_rows.encode_host(host.row()))

    def _count_host(self, host: Host) -> None:
        if not host.is_kept:  # it gets its first row
            host.is_kept = True
            self.counts.hosts += 1
            self.seen.add(keys.host_key(host.name))

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
            row = host_rows.pack_host(
                host.queued,
                host.done,
                host.failed,
                host.visited,
                host.deferred,
                host.excluded,
                host.response_time,
                host.answered,
            )
            put(keys.HOST + host.prefix[1:-1], row)
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
