"""Checks a stopped store, and repairs it if asked: derives rows from the page rows, and compares.

The other rows of a page follow from its page row: an index row, which finds it by its request, and at most
one row for its place: in a queue, in a backoff, in a budget, or due. The counts of hosts and of the whole
frontier follow from the pages, too. `Check.run` reads the pages once, notes which rows have to exist, and
then reads those that do. Rows that follow from no page (orders, robots.txt, links ...) have to decode.

A repair loses no page: it removes derived rows without a page, makes missing ones, and keeps the bytes of
pages and links that cannot be read. It may be interrupted and run again. Takes four bytes of memory a page,
and about 300 a host.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from .. import reasons
from ..errors import UnreadableRow, decode_or_none
from ..hosts.host import host_of_page
from ..hosts.trouble import FIRST_REST, at_start
from ..ranking import graph
from ..store import keys, queue_keys, records
from ..store.keys import FINISHED, NEUTRAL, State
from .scores import kept_score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..pages.edits import FingerprintOf
    from ..store.keys import PageId
    from ..store.leveldb import Store
    from ..store.records import Page

# What may be wrong, and what a repair does; docs/repair.md shows this table.
KINDS = {
    "unreadable row": "its bytes are set aside or removed, and what is safe takes its place",
    "impossible page": "it gets the state that its row comes nearest to",
    "missing row": "it is made from the page",
    "stray row": "it is removed: no page has it, or its page has another one",
    "wrong row": "it is made anew from the pages",
    "page twice": "the one in the index is removed if it is only seen or a redirect, else the other",
}


class Finding(NamedTuple):
    """One fault: its kind (see `KINDS`), the row or page, details, and whether it was repaired."""

    kind: str
    subject: str
    detail: str
    is_mended: bool


# -- rows that follow from a page --------------------------------------------------------------------------


class Place(NamedTuple):
    """Where a page waits: the prefix of the row for it, and its host or its due second."""

    prefix: bytes
    where: str


NOWHERE = Place(b"", "")


def place_of(page: Page) -> Place:
    """Return the place that a page has by its own row; `NOWHERE` for most finished pages."""
    if page.state is State.QUEUED:
        return Place(keys.QUEUE, host_of_page(page))
    if page.is_deferred:
        return Place(keys.DEFERRED, host_of_page(page))
    if page.state not in FINISHED or page.visits is None or not page.visits.due:
        return NOWHERE
    if page.is_due:
        return Place(keys.DUE_QUEUE, host_of_page(page))
    return Place(keys.DUE, str(page.visits.due))


def row_of_place(page_id: PageId, page: Page, bucket: int) -> tuple[bytes, bytes]:
    """Return key and value of the row for the place of a page that has lost it; *bucket* is that of its
    score. A page that was in a backoff is queued."""
    prefix, where = place_of(page)
    if prefix == keys.DUE:
        return records.due_key(int(where), page_id), b""
    if prefix == keys.DEFERRED:
        return keys.deferred_key(where, page_id), b""
    if prefix == keys.DUE_QUEUE and page.visits is not None:
        sort_key = queue_keys.due_sort_key(NEUTRAL, page.visits.last, page_id)
        return queue_keys.due_prefix(where) + sort_key, b""
    sort_key = queue_keys.sort_key(page.priority, bucket, min(page_id, keys.MAX_ID), page_id)
    return queue_keys.queue_prefix(where) + sort_key, b""


def salvage(stored: bytes) -> Page:
    """Return what can be read of a damaged page row: its URL, and its state if that is finished, else
    ``FAILED``. Request and visits are lost. Never raises."""
    plain = bytes(flags & 0x07 for flags in stored[:1]) + stored[1:]  # without the flags of optional parts
    page = decode_or_none(read_page, plain) or records.Page("")
    state = page.state if page.state in FINISHED else State.FAILED
    return page._replace(state=state, payload=b"", changed=page.discovered or 1, reason=reasons.DAMAGED())


# -- reading rows ------------------------------------------------------------------------------------------


def read_page(stored: bytes) -> Page:
    """Decode a page row. Raises `UnreadableRow`, also for a host that no key can hold."""
    page = records.decode_page(stored)
    host = host_of_page(page)
    if "\0" in host or host.encode(errors="replace").decode() != host:
        raise UnreadableRow(f"page row of the host {host!r}")
    return page


def _read_codes(stored: bytes) -> bytes:
    if not stored or len(stored) % 2:
        raise UnreadableRow(f"scores of {len(stored)} bytes")
    return stored


if TYPE_CHECKING:
    Readers = dict[bytes, tuple[str, Callable[[bytes], object]]]

# Rows that follow from no others, by prefix: their name, and a function that decodes a value or raises
# `UnreadableRow`. An import uses them, too.
READERS: Readers = {
    keys.ORDERS: ("orders", records.ORDERS.decode),
    keys.COOLDOWN: ("cooldown", records.COOLDOWN.decode),
    keys.ROBOTS: ("robots.txt", records.ROBOTS.decode),
    keys.SITEMAPS: ("sitemaps", records.SITEMAPS.decode),
    keys.RATES: ("rates", records.RATES.decode),
    keys.RATES_OF_ALL: ("rates of all", records.RATES_OF_ALL.decode),
    keys.COLUMN: ("scores", _read_codes),
    keys.CONTENT: ("content score", records.CONTENT.decode),
}


def is_key(key: bytes) -> bool:
    """Return whether a key is well-formed: an id, the name of a column, or text."""
    if key[:1] in (keys.PAGE, keys.CONTENT):
        return len(key) == 1 + keys.ID_BYTES
    if key[:1] == keys.COLUMN:
        return records.split_column_key(key) is not None
    return b"\0" not in key and key.decode(errors="replace").encode() == key


def unreadable(key: bytes, value: bytes, readers: Readers = READERS) -> str:
    """Return why a row cannot be decoded by *readers*; empty if it can."""
    name, read = readers.get(key if key in readers else key[:1], ("", None))
    if read is None or not is_key(key):
        return f"the key is not that of {name or 'any row'}"
    try:
        read(value)
    except UnreadableRow as error:
        return str(error)
    return ""


# -- the check ---------------------------------------------------------------------------------------------

_ROWS_AT_A_TIME = 1000  # rows in one batch of a repair
_PIECE = 4096  # pages
KNOWN, PLACED, INDEXED, TO_PLACE = 1, 2, 4, 8
_FLAGS = 15


class PageNotes:
    """Notes of four bytes a page: flags, and in the upper bits a checksum of its `Place`; 0 for unknown
    pages.

    Kept in pieces of 4096 ids that are made on demand, since further visits and damaged keys have distant
    ids.
    """

    def __init__(self) -> None:
        self._pieces: defaultdict[int, array[int]] = defaultdict(lambda: array("I", bytes(4 * _PIECE)))

    def __getitem__(self, page_id: PageId) -> int:
        piece = self._pieces.get(page_id // _PIECE)
        return 0 if piece is None else piece[page_id % _PIECE]

    def __setitem__(self, page_id: PageId, note: int) -> None:
        self._pieces[page_id // _PIECE][page_id % _PIECE] = note

    def items(self) -> Iterator[tuple[PageId, int]]:
        """Yield the known pages with their notes, ascending."""
        for number in sorted(self._pieces):
            for offset, note in enumerate(self._pieces[number]):
                if note:
                    yield number * _PIECE + offset, note


def _checksum(place: Place) -> int:
    return crc32(place.where.encode(), crc32(place.prefix)) & ~_FLAGS


class Check:
    """One check of a stopped *store* at *now* (POSIX seconds): call `run` once; ``rows`` counts the rows it
    has read.

    It writes only if it is to *repair*. *fingerprint_of* is needed for missing index rows; without it they
    are not repaired.
    """

    def __init__(
        self, store: Store, fingerprint_of: FingerprintOf | None, now: float, repair: bool = False
    ) -> None:
        self._store = store
        self._fingerprint_of = fingerprint_of
        self._now = now
        self._repair = repair
        self.rows = 0
        self._notes = PageNotes()
        self._counts = records.Counts.none()
        self._hosts: dict[str, records.HostRow] = {}
        self._written: dict[bytes, bytes | None] = {}  # not on disk yet

    def run(self) -> Iterator[Finding]:
        """Yield a `Finding` for each fault, as it is found; reads every row.

        A repair writes a thousand rows at a time, and the counts last. Raises `FrontierUnreadable` for
        damaged files, and `FrontierUnwritable`.
        """
        parts = (
            self._read_pages,
            self._read_index,
            self._make_index_rows,
            self._read_places,
            self._make_places,
            self._read_others,
            self._read_links,
            self._compare_hosts,
            self._compare_counts,
        )
        for part in parts:
            yield from part()
            self._flush()
        for prefix in (keys.ASIDE, keys.FORMAT[:1]):  # so that every block of every file is read
            for _ in self._scan(prefix):
                pass

    # -- writing ---------------------------------------------------------------------------------------

    def _put(self, key: bytes, value: bytes | None) -> None:
        if self._repair:
            self._written[key] = value
            if len(self._written) >= _ROWS_AT_A_TIME:
                self._flush()

    def _flush(self) -> None:
        if self._written:
            self._store.write(self._written)
            self._written.clear()

    def _get(self, key: bytes) -> bytes | None:
        return self._written[key] if key in self._written else self._store.get(key)

    def _page(self, page_id: PageId) -> Page | None:
        """Return a page as it is once the repair is written."""
        stored = self._get(keys.page_key(page_id))
        return None if stored is None else decode_or_none(read_page, stored) or salvage(stored)

    def _scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        for row in self._store.scan(prefix):
            self.rows += 1
            yield row

    def _found(self, kind: str, subject: str, detail: str = "", can_mend: bool = True) -> Finding:
        return Finding(kind, subject, detail, self._repair and can_mend)

    def _remove(self, key: bytes, kind: str, subject: str, detail: str = "") -> Finding:
        self._put(key, None)
        return self._found(kind, subject, detail)

    # -- pages -----------------------------------------------------------------------------------------

    def _read_pages(self) -> Iterator[Finding]:
        counts = self._counts
        for key, value in self._scan(keys.PAGE):
            page_id = keys.key_id(key)
            page = decode_or_none(read_page, value) if is_key(key) else None
            if page is None:
                yield self._set_aside(key, value, f"page {page_id}")
                page = salvage(value)
                if not is_key(key) or page_id >= keys.FIRST_VISIT:
                    self._put(key, None)  # a further visit: its page has a row of its own
                    continue
                self._put(key, records.encode_page(page))
            sound = page
            if page.state is State.LEASED:
                sound = page._replace(state=State.QUEUED)
            elif page.is_deferred and page.state is not State.SEEN:
                sound = page._replace(is_deferred=False)
            if sound is not page:
                self._put(key, records.encode_page(sound))
                yield self._found("impossible page", subject_of(page_id, page), page.state.name.lower())
            self._note(page_id, sound)
            if page_id < keys.FIRST_VISIT:
                counts.next_page = page_id + 1  # of the last one, in the end
            else:
                counts.next_visit = page_id - keys.FIRST_VISIT + 1

    def _set_aside(self, key: bytes, value: bytes, subject: str, detail: str = "") -> Finding:
        # Pages as the crawl does it; other rows under their whole key.
        is_page = key[:1] == keys.PAGE and is_key(key)
        self._put(keys.ASIDE + (key[1:] if is_page else key), value)
        return self._found("unreadable row", subject, detail or f"{len(value)} bytes")

    def _note(self, page_id: PageId, page: Page) -> None:
        place = place_of(page)
        note = KNOWN | _checksum(place)
        if place is not NOWHERE:
            note |= TO_PLACE
        if page_id >= keys.FIRST_VISIT:
            note |= INDEXED  # it needs no index row
        self._notes[page_id] = note
        self._count(page, 1)

    def _count(self, page: Page, change: int) -> None:
        """Add a page to the counts of its host and of all, or with -1 remove it."""
        counts, name = self._counts, host_of_page(page)
        counts.attempts += change * page.attempts
        counts.states[page.state] += change
        if page.state is State.SEEN and not page.is_deferred:
            return
        host = self._hosts.setdefault(name, records.HostRow())
        if page.is_deferred:
            host.deferred += change
        elif page.state is State.QUEUED:
            host.queued += change
        else:
            host.count_ended(page.state, change, page.status)
            prefix = place_of(page).prefix
            if prefix == keys.DUE_QUEUE:
                counts.queued_again += change
                host.queued_again += change
            counts.due += change * (prefix == keys.DUE)

    # -- index rows ------------------------------------------------------------------------------------

    def _read_index(self) -> Iterator[Finding]:
        for key, value in self._scan(keys.INDEX):
            page_id = keys.id_in(value)
            is_one = value in (keys.index_value(page_id), keys.index_value(page_id, is_marked=True))
            note = self._notes[page_id] if is_one else 0
            if not note or note & INDEXED:
                yield self._remove(key, "stray row", f"index row of page {page_id}", key[1:].hex())
            else:
                self._notes[page_id] = note | INDEXED

    def _make_index_rows(self) -> Iterator[Finding]:
        for page_id, note in self._notes.items():
            page = None if note & INDEXED else self._page(page_id)
            if page is None:
                continue
            subject = subject_of(page_id, page)
            fingerprint = None if self._fingerprint_of is None else self._fingerprint_of(page)
            if fingerprint is None:
                detail = "index row: its request cannot be rebuilt, or another project made this frontier"
                yield self._found("missing row", subject, detail, can_mend=False)
                continue
            twin_id = keys.id_in(self._get(keys.INDEX + fingerprint) or b"\xff" * keys.ID_BYTES)
            twin = self._page(twin_id) if self._notes[twin_id] else None
            if twin is None:
                yield self._found("missing row", subject, "index row")
            elif twin.is_only_seen or twin.state is State.REDIRECTED:
                yield self._found("page twice", subject_of(twin_id, twin), f"it is also page {page_id}")
                self._remove_page(twin_id, twin)
            else:
                yield self._found("page twice", subject, f"it is also page {twin_id}")
                self._remove_page(page_id, page)
                continue
            is_marked = page.is_only_seen or page.is_in_memory  # a link has to look at its own row
            self._put(keys.INDEX + fingerprint, keys.index_value(page_id, is_marked))

    def _remove_page(self, page_id: PageId, page: Page) -> None:
        """Remove a page and its links; the row of its place is removed later, as a stray row."""
        if self._repair:
            self._count(page, -1)
            self._notes[page_id] = 0
            is_packed = self._store.get(keys.segment_key(page_id)) is not None
            self._put(keys.link_key(page_id), b"" if is_packed else None)  # it overrides the segment
            self._put(keys.content_key(page_id), None)
            self._put(keys.page_key(page_id), None)

    # -- places ----------------------------------------------------------------------------------------

    def _read_places(self) -> Iterator[Finding]:
        for prefix in (keys.QUEUE, keys.DUE_QUEUE, keys.WAITING, keys.DUE, keys.DEFERRED):
            for key, value in self._scan(prefix):
                page_id, place = _place_in(key, value)
                note = self._notes[page_id]
                if note & ~_FLAGS == _checksum(place) and note & TO_PLACE and not note & PLACED:
                    self._notes[page_id] = note | PLACED
                else:
                    subject = f"{_PLACE_NAMES[prefix]} row of page {page_id}"
                    yield self._remove(key, "stray row", subject, place.where)

    def _make_places(self) -> Iterator[Finding]:
        for page_id, note in self._notes.items():
            if note & TO_PLACE and not note & PLACED and (page := self._page(page_id)) is not None:
                bucket = keys.bucket(kept_score(self._store, page_id) or 0.0) or NEUTRAL
                key, value = row_of_place(page_id, page, bucket)
                self._put(key, value)
                name = _PLACE_NAMES[place_of(page).prefix]
                yield self._found("missing row", subject_of(page_id, page), f"{name} row")

    # -- all others ------------------------------------------------------------------------------------

    def _read_others(self) -> Iterator[Finding]:
        # An unreadable order may have been a block; an unreadable cooldown means trouble.
        careful = {
            keys.ORDERS: records.ORDERS.encode(records.UNREADABLE_ORDERS),
            keys.COOLDOWN: records.COOLDOWN.encode(at_start(b"", self._now, FIRST_REST)),
        }
        for prefix, (name, _) in READERS.items():
            for key, value in self._scan(prefix):
                if why := unreadable(key, value):
                    self._put(key, careful.get(prefix) if is_key(key) else None)
                    subject = f"{name} of {key[1:].decode(errors='backslashreplace')}"
                    yield self._found("unreadable row", subject, why)

    def _read_links(self) -> Iterator[Finding]:
        """Check links: their target may have been forgotten, but its id has to have been in use."""
        counts = decode_or_none(records.read_counts, self._store) or records.Counts.none()
        next_page = max(self._counts.next_page, counts.next_page)
        for key, value in chain(self._scan(keys.LINK_ROW), self._scan(keys.SEGMENT_ROW)):
            if why := unreadable_links(key, value, next_page):
                yield self._set_aside(key, value, f"links of page {keys.key_id(key)}", why)
                self._put(key, None)

    def _compare_hosts(self) -> Iterator[Finding]:
        """Compare host rows. Their last visit follows from no page: without one the host counts as visited
        now."""
        known = set()
        for key, value in self._scan(keys.HOST):
            subject = f"host row of {key[1:].decode(errors='backslashreplace')}"
            row = records.HOST.read(value)
            if not is_key(key):
                yield self._remove(key, "unreadable row", subject)
                continue
            expected = self._hosts.setdefault(key[1:].decode(), records.HostRow())
            wrong = "" if row is None else _differences(row, expected, records.HOST_COUNTS)
            expected.visited = self._now if row is None else row.visited
            known.add(key[1:].decode())
            if row is None or wrong:
                self._put(key, records.HOST.encode(expected))
                yield self._found("wrong row" if wrong else "unreadable row", subject, wrong)
        for name in sorted(self._hosts.keys() - known):
            expected = self._hosts[name]
            if wrong := _differences(records.HostRow(), expected, records.HOST_COUNTS):
                expected.visited = self._now if expected.done or expected.failed else 0.0
                known.add(name)
                self._put(keys.host_key(name), records.HOST.encode(expected))
                yield self._found("missing row", f"host row of {name}", wrong)
        self._counts.hosts = len(known)

    def _compare_counts(self) -> Iterator[Finding]:
        """Compare the counts. The next ids never decrease, or a new page would get the id of a forgotten
        one."""
        stored, expected = decode_or_none(records.read_counts, self._store), self._counts
        counts = stored or records.Counts.none()
        expected.next_page = max(expected.next_page, counts.next_page)
        expected.next_visit = max(expected.next_visit, counts.next_visit)
        expected.attempts = counts.attempts or expected.attempts
        wrong = _differences(counts, expected, ("next_page", "next_visit", "due", "queued_again", "hosts"))
        pairs = zip(State, counts.states, expected.states, strict=True)
        states = [f"{state.name.lower()} {was}, in truth {now}" for state, was, now in pairs if was != now]
        if wrong or states or stored is None:
            self._put(keys.COUNTS, records.COUNTS.encode(expected))
            yield self._found("wrong row", "counts", "; ".join(filter(None, [*states, wrong])))


def unreadable_links(key: bytes, value: bytes, next_page: int) -> str:
    """Return why a row of links cannot be read, or leads to a page from *next_page* on; empty if it can."""
    try:
        highest = graph.highest_id(key, value)
    except (ValueError, IndexError, OverflowError) as error:
        return str(error)
    return "" if highest < next_page else f"a link to page {highest}, which was never found"


def _differences(row: object, expected: object, names: Iterable[str]) -> str:
    """Return a text of those numbers *names* that are not as expected."""
    pairs = ((name, getattr(row, name), getattr(expected, name)) for name in names)
    return "; ".join(f"{name} {was}, in truth {now}" for name, was, now in pairs if was != now)


def subject_of(page_id: PageId, page: Page) -> str:
    """Return id and URL of a page, the URL if it can be read."""
    return f"page {page_id} {page.url}".rstrip()


_PLACE_NAMES = {
    keys.QUEUE: "queue",
    keys.DUE_QUEUE: "due queue",
    keys.WAITING: "waiting",
    keys.DUE: "due",
    keys.DEFERRED: "deferred",
}


def _place_in(key: bytes, value: bytes) -> tuple[PageId, Place]:
    """Return the page of a queue, waiting, due or deferred row, and its place; page -1 for an invalid row."""
    prefix = key[:1]
    if prefix == keys.DUE and records.is_due_key(key):
        return records.due_page(key), Place(keys.DUE, str(records.due_time(key)))
    if prefix == keys.DEFERRED and (deferred := keys.split_deferred_key(key)) is not None:
        return deferred[1], Place(keys.DEFERRED, deferred[0])
    if prefix in (keys.QUEUE, keys.DUE_QUEUE, keys.WAITING):
        split = queue_keys.split_waiting_row if prefix == keys.WAITING else queue_keys.split_queue_row
        if (place := split(key, value)) is not None:
            kind = keys.DUE_QUEUE if queue_keys.is_due_sort_key(place.sort_key) else keys.QUEUE
            return queue_keys.sort_key_id(place.sort_key), Place(kind, place.host)
    return -1, NOWHERE
