"""Collects changes in the open batch, and writes them atomically: the only writer of a frontier.

Each batch has the rows of the hosts that it changes and the counts of pages by state, so that pages, hosts
and counts always agree. After a failed write all further writes are refused.

`BloomFilter` proves most new fingerprints and hosts to be new; a lookup in LevelDB takes 8 us, or 15 if the
database is not in memory.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ..errors import FrontierError, FrontierUnreadable, FrontierUnwritable, UnreadableRow, decode_or_none
from . import keys, records
from .keys import QUEUED, SEEN, State
from .queue_keys import due_prefix, is_due_sort_key, sort_key_head, sort_key_id
from .records import HOST, URL_SIZE, queued_head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .keys import PageId
    from .leveldb import Store
    from .records import KeptHost, Page

_BYTES = 1 << 23  # used as it fills; misses 0.4 % of new keys after 1,000,000, 4 % after 5,000,000
# Two bits of one byte. Probes in several bytes would miss fewer, and take Python three times as long.
PAIRS = bytes([1 << one | 1 << two for one in range(8) for two in range(one)] * 10)[:256]


class BloomFilter:
    """A Bloom filter (Bloom 1970) with two probes in one byte, in memory only: 8 MB, divided by *part*.

    It calls no key new until it ``is_complete``: all known keys have been added.
    """

    __slots__ = ("bits", "is_complete", "mask")

    def __init__(self, part: int = 1) -> None:
        size = 1 << (_BYTES // part).bit_length() - 1
        self.bits = bytearray(size)
        self.mask = size - 1
        self.is_complete = False

    def add(self, key: bytes) -> None:
        """Add *key*: `is_new` is false for it from now on. `update` is faster for many."""
        number = hash(key)
        self.bits[number & self.mask] |= PAIRS[number >> 23 & 0xFF]

    def update(self, keys: Iterable[bytes]) -> None:
        """Add *keys*: `is_new` is false for each of them from now on. No key can be removed."""
        bits, mask = self.bits, self.mask
        for number in map(hash, keys):
            bits[number & mask] |= PAIRS[number >> 23 & 0xFF]

    def complete(self) -> None:
        """Let `is_new` be true for new keys from now on, because all known ones have been added."""
        self.is_complete = True

    def free(self) -> None:
        """Free the memory of the filter, which must not be used any more. Reference cycles may keep a closed
        frontier alive until the next full garbage collection."""
        self.bits, self.is_complete = bytearray(), False

    def is_new(self, key: bytes) -> bool:
        """Return true if *key* was certainly never added; false if it may have been, or the filter is not
        complete yet. No store read."""
        number = hash(key)
        pair = PAIRS[number >> 23 & 0xFF]
        return self.is_complete and self.bits[number & self.mask] & pair != pair


if TYPE_CHECKING:
    Row = tuple[bytes, bytes | None]  # key and value; None: the key is deleted
    OnCommit = Callable[[list[Row]], None]
    BeforeCommit = Callable[[dict[bytes, bytes | None]], None]


_QUEUED = int(QUEUED)  # an `IntEnum` takes longer as an index


class Batch:
    """Collects rows until `commit` writes them to *store* as one atomic batch.

    All parts of a frontier read the ``store`` and the filter ``seen`` here. ``rows`` are those of the open
    batch: a value by key, None for a key to delete. The part that decides on a row puts it there. The filter
    ``seen`` has the fingerprints of known pages, and known hosts. ``stale_hosts`` names hosts whose row or
    queue on the disk is older than the open batch, apart from touched ones. ``ends`` counts the ends of
    leases in the batch. *on_commit* is called with the rows of each batch that was written, in order;
    *before_commit* with those of a batch that is about to be written, to which it may add some.
    """

    def __init__(
        self,
        store: Store,
        seen: BloomFilter,
        on_commit: OnCommit | None = None,
        before_commit: BeforeCommit | None = None,
    ) -> None:
        self.store = store
        self.seen = seen
        self._on_commit = on_commit
        self._before_commit = before_commit
        self.rows: dict[bytes, bytes | None] = {}
        self._touched: set[KeptHost] = set()
        self.failure: FrontierError | None = None
        self.opened_at = 0.0
        self.ends = 0
        self.link_rows = 0  # put in this run
        self.stale_hosts: set[str] = set()
        try:
            self.counts = records.read_counts(store)
        except UnreadableRow as error:
            raise FrontierUnreadable(
                f"{store.directory}: the counts cannot be read ({error}): nothing was changed; let `scrapy "
                "frontier check --repair` count anew"
            ) from error
        if not self.counts.next_page:  # no page is known yet
            seen.complete()

    def check(self) -> None:
        """Raise the error of the last write again, if it failed. O(1)."""
        if self.failure is not None:
            raise self.failure

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a row, that in the open batch if it has one; None if there is none."""
        return self.rows[key] if key in self.rows else self.store.get(key)

    def read_page(self, page_id: PageId) -> Page | None:
        """Return the record of a page, that in the open batch if it has one; None if there is none, or it
        cannot be read. A lookup."""
        return decode_or_none(records.decode_page, self.get(keys.page_key(page_id)))

    def queued_page(self, sort_key: bytes) -> tuple[PageId, Page]:
        """Return the id and the record of the page with *sort_key*. A lookup. Raises `UnreadableRow`."""
        page_id = sort_key_id(sort_key)
        return page_id, records.decode_page(self.get(keys.page_key(page_id)) or b"")

    def put_page(self, page_id: PageId, page: Page) -> None:
        """Put the record of a page, or of a further visit, into the open batch; counts nothing."""
        self.rows[keys.page_key(page_id)] = records.encode_page(page)

    @property
    def arrival(self) -> int:
        """The arrival in the sort key of a page that is queued now: after the page discovered last."""
        return max(self.counts.next_page - 1, 0)

    def new_visit(self) -> int:
        """Return a new id for a further visit, from `FIRST_VISIT` on."""
        self.counts.next_visit += 1
        return keys.FIRST_VISIT + self.counts.next_visit - 1

    def queue_new(
        self,
        host: KeptHost,
        fingerprint: bytes,
        url: str,
        priority: int,
        now: float,
        parent: PageId | None,
        payload: bytes,
        bucket: int,
    ) -> bytes:
        """Queue a new page under the next id; returns its sort key.

        Puts page row, index row and queue row into the open batch, as `records.encode_page` and
        `queue_keys.sort_key` make them. Raises for a value that does not fit before anything is changed.
        """
        rows, counts = self.rows, self.counts
        page_id = counts.next_page
        name = page_id.to_bytes(keys.ID_BYTES, "big")
        raw = url.encode() if url.isascii() else url.encode("utf-8", "surrogatepass")
        head = queued_head(priority, int(now), parent) + len(raw).to_bytes(URL_SIZE, "big")
        page = head + raw + payload
        sort_key = sort_key_head(priority, bucket) + name
        # From here on nothing may raise, or half of the page would be written.
        counts.next_page = page_id + 1
        rows[keys.PAGE + name] = page
        rows[keys.INDEX + fingerprint] = name
        self.seen.add(fingerprint)
        rows[host.prefix + sort_key] = b""
        host.queued += 1
        counts.states[_QUEUED] += 1
        self._touched.add(host)
        return sort_key

    def add_page(self, fingerprint: bytes, page: Page, is_marked: bool = False, is_seen: bool = False) -> int:
        """Put the rows of a new page that is in no queue into the open batch; returns its id.

        *is_marked* is as for `index`; *is_seen* counts it as only seen.
        """
        page_id = self.counts.next_page
        self.put_page(page_id, page)  # first, since it raises for bad values
        self.counts.next_page = page_id + 1
        self.index(fingerprint, page_id, is_marked)
        if is_seen:
            self.counts.states[SEEN] += 1
        return page_id

    def index(self, fingerprint: bytes, page_id: PageId, is_marked: bool) -> None:
        """Put the index row of a page into the open batch. *is_marked*: a link has to look at the page row,
        too."""
        self.seen.add(fingerprint)
        self.rows[keys.INDEX + fingerprint] = keys.index_value(page_id, is_marked)

    def queue(self, host: KeptHost, sort_key: bytes) -> None:
        """Put the row of a page into the queue or the due queue of *host*, by its sort key, and count it; the
        page row is the caller's."""
        self.rows[_queue_of(host, sort_key) + sort_key] = b""
        self.count_waiting(host, sort_key, 1)

    def unqueue(self, host: KeptHost, sort_key: bytes) -> None:
        """Delete the row of a page in the queue or the due queue of *host*, by its sort key, and uncount it;
        the page row is the caller's."""
        self.rows[_queue_of(host, sort_key) + sort_key] = None
        self.count_waiting(host, sort_key, -1)

    def put_due(self, key: bytes) -> None:
        """Put the due row of a finished page into the open batch, and count it; the page row is the
        caller's."""
        self.rows[key] = b""
        self.counts.due += 1

    def remove_due(self, key: bytes) -> None:
        """Delete the due row of a page in the open batch, and uncount it; the page row is the caller's."""
        self.rows[key] = None
        self.counts.due -= 1

    def end(self, host: KeptHost, sort_key: bytes, page_id: PageId, page: Page, row: bytes) -> None:
        """Delete the queue row of a page that ended, and put its new *row*; a further visit leaves none."""
        self.unqueue(host, sort_key)
        is_visit = page_id >= keys.FIRST_VISIT
        self.rows[keys.page_key(page_id)] = None if is_visit else row
        if not is_visit:
            self.count_ended(host, page.state, status=page.status)

    def put_link_row(self, page_id: PageId, row: bytes) -> None:
        """Put the link row of a page, as `encode_links` makes it, into the open batch; an empty one means no
        links."""
        self.rows[keys.link_key(page_id)] = row
        self.link_rows += 1

    def count_waiting(self, host: KeptHost, sort_key: bytes, change: int) -> None:
        """Count a page that is queued on *host* or in a backoff, or with -1 uncount it: by its sort key as
        queued, or as a finished page that is queued again."""
        if is_due_sort_key(sort_key):
            host.queued_again += change
            self.counts.queued_again += change
        else:
            host.queued += change
            self.counts.states[QUEUED] += change
        self.touch(host)

    def count_ended(self, host: KeptHost, state: State, change: int = 1, status: int = 0) -> None:
        """Count a page that ended, see `HostRow.count_ended`, or with -1 uncount it.

        Pages that are only seen do not count for their host: most belong to hosts that are never visited. Use
        `count_deferred` for one that waits for a budget.
        """
        self.counts.states[state] += change
        if state is not SEEN:
            host.count_ended(state, change, status)
            self._touched.add(host)

    def count_deferred(self, host: KeptHost, change: int) -> None:
        """Add *change* to the pages of *host* that wait for room in a budget; they count as seen, too."""
        self.counts.states[SEEN] += change
        host.deferred += change
        self.touch(host)

    def is_touched(self, host: KeptHost) -> bool:
        """Return whether the next batch will hold rows of *host*: they must not be read from the disk until
        then."""
        return host in self._touched or host.name in self.stale_hosts

    def touch(self, host: KeptHost) -> None:
        """Put the row of *host* into the open batch when that is written, as it is then."""
        self._touched.add(host)

    def write_host(self, host: KeptHost) -> None:
        """Put the row of a host that is about to be forgotten into the open batch, if it has changed."""
        if host in self._touched:
            self._put_host(host)
            self._touched.remove(host)
            self.stale_hosts.add(host.name)

    def _put_host(self, host: KeptHost) -> None:
        if not host.is_kept:  # this is its first row
            host.is_kept = True
            self.counts.hosts += 1
        self.rows[keys.HOST + host.prefix[1:-1]] = HOST.encode(host)

    def commit(self, is_needed: bool = False) -> None:
        """Write the open batch atomically; does nothing if it is empty, unless *is_needed*.

        Raises `FrontierUnwritable`, and again at each later call, so that nothing is written after a broken
        log.
        """
        self.check()
        rows = self.rows
        if not (rows or self._touched or is_needed):
            self.store.check()
            return
        try:
            for host in self._touched:
                self._put_host(host)
            rows[keys.COUNTS] = records.COUNTS.encode(self.counts)
        except struct.error as error:  # a count below zero, which every later batch would have, too
            self.failure = FrontierUnwritable(
                f"{self.store.directory}: the counts are wrong ({error}), so nothing more is written, and "
                "what was not written is fetched again: let `scrapy frontier check --repair` count anew, "
                "then start the same crawl again, and please report this"
            )
            raise self.failure from error
        if self._before_commit is not None:
            self._before_commit(rows)
        try:
            self.store.write(rows)
        except FrontierError as error:
            self.failure = error
            raise
        if self._on_commit is not None:
            self._on_commit(list(rows.items()))
        rows.clear()
        self._touched.clear()
        self.stale_hosts.clear()
        self.ends = 0

    def used_by(self, spider: str) -> str | None:
        """Store in the open batch that *spider* uses the frontier; returns the name of another spider that
        used it before, or None. One lookup."""
        stored, name = self.store.get(keys.SPIDER), spider.encode(errors="replace")
        if stored == name:
            return None
        self.rows[keys.SPIDER] = name
        return None if stored is None else stored.decode(errors="replace")

    def begin_run(self, now: float) -> bool:
        """Begin a run at *now* (POSIX seconds), its ``opened_at``: delete the clean mark, and commit.

        Returns whether the mark was there, or the frontier is new. If not, the last run was killed, or could
        not write to its end.
        """
        self.opened_at = now
        if self.store.get(keys.COUNTS) is None:
            return True
        was_clean = self.store.get(keys.CLEAN) is not None
        if was_clean:
            self.rows[keys.CLEAN] = None
            self.commit()
        return was_clean

    def end_run(self) -> None:
        """Commit, put the clean mark, and leave LevelDB no log to replay. Does nothing if a write failed
        before. Raises `FrontierUnwritable`."""
        if self.failure is None:
            self.rows[keys.CLEAN] = b""
            self.commit()
            self.store.flush()


def _queue_of(host: KeptHost, sort_key: bytes) -> bytes:
    return due_prefix(host.name) if is_due_sort_key(sort_key) else host.prefix
