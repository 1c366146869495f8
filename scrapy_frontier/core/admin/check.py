"""Is everything true that must always be true of a frontier? And mending what is not.

`Check.run` reads every row, page rows first, and yields a `Finding` for each thing that is wrong; with
*repair* it mends what it finds. Mending loses no page: rows are removed only where they lead nowhere or where
the same page has another; a row nobody can read is set aside, bytes and all. It may be interrupted and run
again. Memory: five bytes a page, about 300 a host.

What a check finds, what can be read of a damaged page, and what it notes of all others.

Of each page it notes flags and a checksum of its host, five bytes; of each host its pages. Kept in pieces of
4096 ids, so that ids that are far apart (further visits, damaged keys) cost no more than a piece
each.

What the parts of a check share: the store and how it is mended, and what is noted of all pages.

The last part of a check: hosts, counts, links, scores, and rows that stand for themselves.

The second part of a check: that every page is found by its request, and by one row.

One page that is there twice: one of the two goes, with every row that leads to it, and links to it,
redirects and parents lead to the other.

The first part of a check: every page, and the row by which it waits: in a queue, for a budget or a day.

Mending a store and saying what came of it: a check that is counted, and damaged files saved into a copy.

Nothing here opens the store. Steps, within `salvaging`: `salvage.copied`, `salvage.mend`, `mended_copy`,
`salvage.put_in_place`.
"""

from __future__ import annotations

from array import array
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from ..errors import FrontierUnreadable, lenient
from ..hosts.host import CooldownRule, at_start, host_of_page
from ..pages.revisit_queue import is_forbidden
from ..parse.urls import origin_of
from ..ranking import graph
from ..reasons import DAMAGED
from ..store import keys, queue_keys, records
from ..store.keys import FINISHED, NEUTRAL, State
from ..store.leveldb import REPAIRED, REPAIRING, Lock
from ..store.link_rows import encode_row
from ..store.records import QUEUED_AGAIN
from . import facts
from .facts import every_link
from .salvage import discard, finish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from ..pages.edits import FingerprintOf
    from ..store.keys import PageId
    from ..store.leveldb import Store
    from ..store.records import Counts, Page
    from .salvage import Damage

# What can be wrong, and what repairing does about it; docs/repair.md shows this table.
KINDS = {
    "unreadable page": "its bytes are set aside; what is legible stays as a page that failed",
    "page kept as leased": "it is queued again",
    "page put aside that is not only seen": "it is what its state says",
    "queued page without a row": "it gets a queue row",
    "queue row that leads nowhere": "the row is removed",
    "queue row of a page that is not queued": "the row is removed",
    "second queue row of a page": "the row is removed",
    "queue row in another host's queue": "the page moves to the queue of its own host",
    "due row that leads nowhere": "the row is removed",
    "page without its due row": "it gets one",
    "forbidden row that leads nowhere": "the row is removed",
    "deferred row that leads nowhere": "the row is removed",
    "deferred page without a row": "it gets one, and waits for its host's budget",
    "unreadable queue row": "the row is removed; its page gets another",
    "index row that leads nowhere": "the row is removed, so that the page can be discovered again",
    "second index row of a page": "the one that does not fit the page is removed",
    "index row that hides a lost request": "it says that the page may be only seen: a link brings it back",
    "page without an index row": "it gets one; of one that is there twice one goes, and links lead on",
    "wrong host row": "it is counted anew",
    "missing host row": "it is counted anew",
    "unreadable host row": "it is counted anew",
    "wrong counts": "they are counted anew",
    "lost format": "the rows that say what the database is are written anew",
    "unreadable orders": "the host counts as blocked",
    "unreadable links": "the bytes are set aside; the pages have no links until they are read again",
    "unreadable scores": "the row is removed; the next ranking has them anew",
    "unreadable robots row": "the row is removed, so that robots.txt is asked for again",
    "unreadable list of sitemaps": "the row is removed; the next crawl makes contact again",
    "unreadable cooldown": "the host rests for a minute from now",
    "unreadable rates": "the row is removed; they are learnt anew",
    "unreadable body row": "the row is removed; the next page with that body is the first",
}


class Finding(NamedTuple):
    """One thing that is wrong: what, of which page or host, in detail, and whether it is mended now."""

    kind: str
    subject: str
    detail: str
    is_mended: bool


def salvage(stored: bytes, host: str, now: float) -> records.Page:
    """What is legible of a damaged page row, as a page that failed (or is finished, if that is legible), at
    *now* (POSIX seconds). Its request and its visits are lost.

    *host* is where its queue row was found, if it had one. Raises nothing.
    """
    # Without the flags that announce more than the URL.
    plain = bytes(flags & 0x07 for flags in stored[:1]) + stored[1:]
    legible = lenient(records.decode_page, plain) or records.Page("")
    state = legible.state if legible.state in FINISHED else State.FAILED
    own = host_of_page(legible._replace(host=""))
    return legible._replace(
        state=state, payload=b"", host="" if host == own else host, changed=max(int(now), 1), reason=DAMAGED()
    )


IS_KNOWN = 1  # has a page row
IS_QUEUED = 2  # its row says so, or that it was due and stands in a queue
IS_PLACED = 4  # a queue row or waiting row leads to it
IS_INDEXED = 8  # an index row leads to it
IS_UNREADABLE = 16  # its row does not decode
IS_MISPLACED = 32  # a queue row of another host leads to it
IS_DEFERRED = 64  # its row says it waits for room in a budget
IS_DUE = 128  # its row says when it comes back

_PIECE = 4096


class Ledger:
    """What a check notes of each page: a sum of the flags of this file, and a checksum of its host.

    Five bytes a page, in pieces of 4096 ids that are made when the first of them is entered.
    """

    def __init__(self) -> None:
        self._flags: dict[int, bytearray] = {}
        self._hosts: dict[int, array[int]] = {}

    def __getitem__(self, page_id: PageId) -> int:
        """The flags of a page, 0 for one nothing is known about."""
        piece = self._flags.get(page_id // _PIECE)
        return piece[page_id % _PIECE] if piece is not None else 0

    def enter(self, page_id: PageId, flags: int, host: str) -> None:
        """Note a page of *host*, with *flags*; what was noted of it before goes. O(1)."""
        number, offset = divmod(page_id, _PIECE)
        if number not in self._flags:
            self._flags[number] = bytearray(_PIECE)
            self._hosts[number] = array("I", bytes(4 * _PIECE))
        self._flags[number][offset] = flags
        self._hosts[number][offset] = crc32(host.encode())

    def add(self, page_id: PageId, flag: int) -> None:
        """Add a flag to a page that was entered. Raises `KeyError` where none of its piece was."""
        self._flags[page_id // _PIECE][page_id % _PIECE] |= flag

    def strike(self, page_id: PageId) -> None:
        """Take a page out that was entered: it counts as one nothing is known about."""
        self._flags[page_id // _PIECE][page_id % _PIECE] = 0

    def is_of(self, page_id: PageId, host: str) -> bool:
        """Whether a page that was entered belongs to *host*, as far as a checksum can tell. Raises `KeyError`
        where none of its piece was."""
        return self._hosts[page_id // _PIECE][page_id % _PIECE] == crc32(host.encode())

    def having(self, flags: int, but_not: int = 0) -> Iterator[int]:
        """Ids of the pages that have all of *flags* and none of *but_not*, in order."""
        for number in sorted(self._flags):
            for offset, found in enumerate(self._flags[number]):
                if found & flags == flags and not found & but_not:
                    yield number * _PIECE + offset


class HostTally:
    """Pages counted anew, in ``counts`` per state, in ``hosts`` per host, and those that come back in
    both."""

    def __init__(self) -> None:
        self.counts = records.Counts.none()
        self.hosts: dict[str, records.HostRow] = {}

    def enter(self, host: str, page: records.Page, change: int = 1) -> int:
        """Count a page of *host*, or with a *change* of -1 no more; when it comes back (`Visits.due`), 0
        where it does not."""
        self.count(host, page.state, change, page.status)
        if page.is_deferred:
            self.of(host).deferred += change
        due = page.due if page.state in FINISHED else 0
        if due == records.QUEUED_AGAIN:
            self.count(host, State.QUEUED, change)  # besides, for a finished page that was due and is queued
            self.of(host).queued_again += change
            self.counts.queued_again += change
        self.counts.due += change * (due > records.QUEUED_AGAIN)
        return due

    def count(self, host: str, state: State, change: int = 1, status: int = 0) -> None:
        """Count so many pages of *host* more in *state*, as `Batch.count_ended` and `count_queued` do."""
        self.counts.states[state] += change
        if state is State.QUEUED:
            self.of(host).queued += change
        elif state is not State.SEEN:
            self.of(host).count_ended(state, change, status)

    def of(self, host: str) -> records.HostRow:
        """The row of *host* that is counted; zeros at first."""
        return self.hosts.setdefault(host, records.HostRow())


ROWS_AT_A_TIME = 1000  # rows in one batch


@dataclass(eq=False)
class Work:
    """What the parts of a check do with the store at *now* (POSIX seconds). Writes only where it is to
    *repair*.

    *fingerprint_of* finds index rows that are missing; with None no such row can be made.
    """

    store: Store
    fingerprint_of: FingerprintOf | None
    now: float
    repair: bool = False
    rows: int = 0  # read so far
    ledger: Ledger = field(default_factory=Ledger)
    tally: HostTally = field(default_factory=HostTally)
    damaged: dict[int, str] = field(default_factory=dict)  # unreadable, and the host whose queue they are in
    twins: dict[int, int] = field(default_factory=dict)  # pages that went, and which stayed of each
    set_aside: int = 0  # of the unreadable pages, how many the crawl has counted as failed already
    highest: list[int] = field(default_factory=lambda: [-1, keys.FIRST_VISIT - 1])  # page, further visit
    _rows: dict[bytes, bytes | None] = field(default_factory=dict)  # to be written

    def found(self, kind: str, subject: str, detail: str = "", can_mend: bool = True) -> Finding:
        """What is wrong, of which page or host; mended when the rows are written, if it is to *repair* and
        *can_mend*."""
        return Finding(kind, subject, detail, self.repair and can_mend)

    def removed(self, key: bytes, kind: str, subject: str, detail: str = "") -> Finding:
        """Say of the row of *key* what is wrong with it, and have it go."""
        self.delete(key)
        return self.found(kind, subject, detail)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Have a row be written, None: deleted, to *repair*; else nothing. Every `ROWS_AT_A_TIME` rows one
        batch."""
        if self.repair:
            self._rows[key] = value
            if len(self._rows) >= ROWS_AT_A_TIME:
                self.flush()

    def delete(self, key: bytes) -> None:
        """Have a row go; as `put`."""
        self.put(key, None)

    def flush(self) -> None:
        """Write what waits, in one batch. Raises `FrontierUnwritable`."""
        if self._rows:
            self.store.write(self._rows)
            self._rows.clear()

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The rows under *prefix* as they are on the disk, without what waits to be written; counts them."""
        for row in self.store.scan(prefix):
            self.rows += 1
            yield row

    def pages_having(self, flags: int, but_not: int) -> Iterator[tuple[PageId, Page]]:
        """The pages that have all of *flags* and none of *but_not*, with their ids, in order; a lookup
        each."""
        for page_id in self.ledger.having(IS_KNOWN | flags, but_not):
            if page := facts.legible_page(self.store, page_id):
                yield page_id, page

    def enter(self, page_id: PageId, page: Page) -> None:
        """Note a page that can be read, and count it for its host."""
        host = host_of_page(page)
        self.tally.counts.attempts += page.attempts
        waits = IS_QUEUED if page.state is State.QUEUED else IS_DEFERRED if page.is_deferred else 0
        flags = IS_KNOWN | waits
        if due := self.tally.enter(host, page):
            flags |= IS_QUEUED if due == records.QUEUED_AGAIN else IS_DUE
        self.ledger.enter(page_id, flags, host)


def subject(page_id: PageId, page: Page) -> str:
    """A page as a finding names it: its id, and its URL if that is legible."""
    return f"page {page_id} {page.url}".rstrip()


def small_rows(work: Work) -> Iterator[Finding]:
    """Rows of hosts and sites that stand for themselves: one that cannot be read goes, or the careful
    value takes its place."""
    left_alone = records.encode_orders(records.UNREADABLE_ORDERS)
    cooldown = records.encode_cooldown(at_start(b"", work.now, CooldownRule()))
    for prefix, decode, kind, instead in (
        (keys.ORDERS, records.decode_orders, "unreadable orders", left_alone),
        (keys.ROBOTS, records.decode_copy, "unreadable robots row", None),
        (keys.SITEMAPS, records.decode_sitemaps, "unreadable list of sitemaps", None),
        (keys.COOLDOWN, records.decode_cooldown, "unreadable cooldown", cooldown),
        (keys.BODY, _of_size(keys.ID_BYTES), "unreadable body row", None),
        (keys.RATES, _of_size(*records.HOST_SIZES), "unreadable rates", None),
    ):
        for key, value in work.scan(prefix):
            if lenient(decode, value) is None:
                work.put(key, instead)
                yield work.found(kind, key[1:].decode(errors="replace"))


def links(work: Work) -> Iterator[Finding]:
    """Rows and segments of links, which are set aside where they cannot be read.

    Links of forgotten pages, and to them, are nothing unusual; to ids never given out, damage. Those to a
    page that went, because it was there twice, lead to the one that stayed.
    """
    counts = lenient(records.read_counts, work.store) or records.Counts.none()
    known = max(work.highest[0], counts.next_page - 1)
    for key, value in chain(work.scan(keys.LINK_ROW), work.scan(keys.SEGMENT_ROW)):
        name = ("page" if key[:1] == keys.LINK_ROW else "pages from") + f" {keys.key_id(key)}"
        try:
            highest = graph.highest_id(key, value)
            if highest > known:
                raise ValueError(f"a link to page {highest}, which was never found")
        except (ValueError, IndexError) as error:
            work.put(keys.ASIDE + key, value)
            yield work.removed(key, "unreadable links", name, str(error))
    work.flush()
    lead_on(work)


def scores(work: Work) -> Iterator[Finding]:
    """What the scorer keeps, against its format: rows of columns and content scores that cannot be read go,
    and what they said is lost. One pass over these rows."""
    for key, value in work.scan(keys.COLUMN):
        if records.split_column_key(key) is None or not value or len(value) % 2:
            yield work.removed(key, "unreadable scores", key.hex(), f"{len(value)} bytes")
    for key, value in work.scan(keys.CONTENT):
        if len(key) != 1 + keys.ID_BYTES or records.decode_content(value) is None:
            yield work.removed(key, "unreadable scores", key.hex(), f"{len(value)} bytes")


def hosts(work: Work) -> Iterator[Finding]:
    """Host rows against the pages that were counted, after these; each is counted anew where it is wrong.
    What only the row knows, its last visit and response time, stays; one that cannot be read was visited
    now."""
    for key, value in work.scan(keys.HOST):
        work.tally.counts.hosts += 1
        name = key[1:].decode(errors="replace")
        expected = work.tally.hosts.pop(name, records.HostRow())
        row = lenient(records.decode_host, value)
        if row is None:
            yield work.found("unreadable host row", name)
            expected.visited = work.now  # for all we know
            work.put(key, records.encode_host(expected))
            continue
        expected.visited, expected.response_time = row.visited, row.response_time
        if wrong := _differences(row, expected):
            if not _is_explained(work, row, expected):
                yield work.found("wrong host row", name, wrong)
            work.put(key, records.encode_host(expected))
    for name, expected in work.tally.hosts.items():
        if wrong := _differences(records.HostRow(), expected):
            work.tally.counts.hosts += 1
            yield work.found("missing host row", name, wrong)
            expected.visited = work.now if expected.done or expected.failed else 0.0
            work.put(keys.host_key(name), records.encode_host(expected))


def _differences(row: records.HostRow, expected: records.HostRow) -> str:
    """What a host row says of its pages where that is not so."""
    counts = ((name, getattr(row, name), getattr(expected, name)) for name in records.COUNTS)
    return "; ".join(_wrong(counts))


def _wrong(numbers: Iterable[tuple[str, int, int]]) -> list[str]:
    """Those of *numbers* that are not what they should be: each with its name, as it is and in truth."""
    return [f"{name} {was}, in truth {is_now}" for name, was, is_now in numbers if was != is_now]


def _is_explained(work: Work, row: records.HostRow, expected: records.HostRow) -> bool:
    """Whether a host has more failed pages because the crawl has set some aside: theirs is not known."""
    more = row.failed - expected.failed
    if replace(expected, failed=row.failed) == row and 0 < more <= work.set_aside:
        work.set_aside -= more
        return True
    return False


def counts(work: Work) -> Iterator[Finding]:
    """The kept counters against what was counted, after `hosts`. The next ids never become less."""
    read, expected = lenient(records.read_counts, work.store), work.tally.counts
    counts = read or records.Counts.none()
    last_page, last_visit = work.highest[0], work.highest[1] - keys.FIRST_VISIT
    expected.next_page = max(counts.next_page, last_page + 1)
    expected.next_visit = max(counts.next_visit, last_visit + 1)
    expected.attempts = counts.attempts or expected.attempts
    wrong = [] if read is not None else ["they cannot be read"]
    wrong += _wrong((state.name.lower(), counts.states[state], expected.states[state]) for state in State)
    if counts.next_page <= last_page:
        wrong.append(f"next page {counts.next_page}, but page {last_page} is there")
    if counts.next_visit <= last_visit:
        wrong.append(f"next visit {counts.next_visit}, but visit {last_visit} is there")
    names = ("due", "queued_again", "hosts")
    wrong += _wrong((name, getattr(counts, name), getattr(expected, name)) for name in names)
    if wrong:
        work.put(keys.COUNTS, records.encode_counts(expected))
        yield work.found("wrong counts", "the counts", "; ".join(wrong))


def _of_size(*sizes: int) -> Callable[[bytes], bytes | None]:
    """What takes any row of these *sizes* for one that can be read: the page in it may be forgotten."""
    return lambda value: value if len(value) in sizes else None


def index(work: Work) -> Iterator[Finding]:
    """Index rows against the pages that were noted; each page has one from here on. Removes those that lead
    nowhere, and of several of a page all but the one its request has."""
    doubled: set[int] = set()
    for key, value in work.scan(keys.INDEX):
        page_id = keys.id_in(value)
        values = keys.index_value(page_id), keys.index_value(page_id, is_seen=True)
        flags = work.ledger[page_id] if value in values else 0
        if not flags & IS_KNOWN or page_id >= keys.FIRST_VISIT:
            yield work.removed(key, "index row that leads nowhere", key[1:].hex(), f"to page {page_id}")
        elif flags & IS_INDEXED:
            doubled.add(page_id)
        else:
            work.ledger.add(page_id, IS_INDEXED)
    if doubled:
        yield from _doubled(work, doubled)


def _doubled(work: Work, doubled: set[int]) -> Iterator[Finding]:
    """Of the index rows of a page keep the one its request has; touch nothing if none fits."""
    rows: dict[int, list[bytes]] = {page_id: [] for page_id in doubled}
    for key, value in work.store.scan(keys.INDEX):
        page_id = keys.id_in(value)
        if page_id in rows:
            rows[page_id].append(key)
    for page_id, found in rows.items():
        page = facts.legible_page(work.store, page_id)
        fingerprint = None if page is None else _fingerprint(work, page)
        own = keys.INDEX + fingerprint if fingerprint is not None else b""
        for key in found:
            if key != own and own in found:
                work.delete(key)
        detail = "" if own in found else "none of them fits"
        yield work.found("second index row of a page", f"page {page_id}", detail, own in found)


def not_indexed(work: Work) -> Iterator[Finding]:
    """Pages that no index row leads to, after `index`: each gets one, by the request in its row, or goes
    where that leads to another page. Further visits need none."""
    kind = "page without an index row"
    for page_id, page in work.pages_having(IS_KNOWN, IS_INDEXED | IS_UNREADABLE):
        if page_id >= keys.FIRST_VISIT:
            return
        fingerprint = _fingerprint(work, page)
        if fingerprint is None:
            detail = "its request cannot be rebuilt, or this project identifies pages in another way"
            yield work.found(kind, subject(page_id, page), detail, can_mend=False)
            continue
        work.flush()  # so that a page mended a moment ago is found
        twin = facts.find_page(work.store, fingerprint)
        detail = "" if twin is None else f"the same page as {twin}"
        if twin is None or (work.repair and merge(work, page_id, page, twin)):
            value = keys.index_value(page_id, records.may_be_only_seen(page))
            work.put(keys.INDEX + fingerprint, value)
        yield work.found(kind, subject(page_id, page), detail)


def _fingerprint(work: Work, page: Page) -> bytes | None:
    return None if work.fingerprint_of is None else work.fingerprint_of(page)


def gives_way(page_id: PageId, page: Page, other_id: PageId, other: Page) -> bool:
    """Whether *page* is to go, which is the same as *other*: it led there, or it was only seen, or
    redirected, and the other is more than that. Where it led may be the other by way of further pages: what
    leads to itself would never be fetched."""
    if _led(page, other_id) or _led(other, page_id):
        return _led(page, other_id)
    return _worth(page) < _worth(other)


def _led(page: Page, other_id: PageId) -> bool:
    return page.state is State.REDIRECTED and page.target == other_id


def _worth(page: Page) -> int:
    return 0 if page.is_only_seen else 1 if page.state is State.REDIRECTED else 2


def in_place_of(older: Page, page: Page) -> Page:
    """The record of a *page* that stays, for an *older* one that goes, which leaves it its parent if it was
    more than seen: what *page* was linked first by may have been found by way of the older one, and the path
    would go round."""
    return page if older.is_only_seen else page._replace(parent=older.parent)


def merge(work: Work, page_id: PageId, page: Page, twin: PageId) -> bool:
    """Have one of two pages go that are the same; whether *page* stays. To be called only to repair; a pass
    over the queue of the host of one that was queued."""
    other = facts.legible_page(work.store, twin)
    if other is not None and gives_way(twin, other, page_id, page):
        _remove(work, twin, other, page_id)
        return True
    _remove(work, page_id, page, twin)
    return False


def _remove(work: Work, page_id: PageId, page: Page, kept: PageId) -> None:
    """Have a page go that is the same as *kept*, and its place in a queue, among deferred pages or those that
    come back; *kept* is `in_place_of` an older one."""
    host = host_of_page(page)
    due = work.tally.enter(host, page, -1)
    if page.state is State.QUEUED or due == QUEUED_AGAIN:
        if place := queue_keys.find_place(work.store, page_id, host):
            work.delete(place.key)
    elif due:
        work.delete(records.due_key(due, page_id))
    if page.is_deferred:
        for unit in keys.deferred_units(host):
            work.delete(keys.deferred_key(unit, page_id))
    if is_forbidden(page):
        work.delete(keys.forbidden_prefix(origin_of(page.url) or "") + keys.id_bytes(page_id))
    for key in (keys.page_key(page_id), keys.content_key(page_id)):
        work.delete(key)
    stays = facts.legible_page(work.store, kept)
    if stays is not None and page_id < kept:
        work.put(keys.page_key(kept), records.encode_page(in_place_of(page, stays)))
    work.ledger.strike(page_id)
    work.twins[page_id] = kept


def lead_on(work: Work) -> None:
    """Have links, redirects and parents that were pages that went lead to those that stayed; their own links
    go. Nothing where none went; else one pass over all links, none of which is damaged any more, and one over
    all pages. An interruption leaves links to a page that is known no more."""
    if not work.twins:
        return
    twins = work.twins
    settle(twins)
    gone = np.fromiter(twins, np.int64)
    for links in every_link(work.store):
        for source in np.unique(links.sources[np.isin(links.targets, gone)]).tolist():
            edges = graph.find_row(source, work.store.get)
            led = (edge._replace(target=twins.get(edge.target, edge.target)) for edge in edges)
            work.put(keys.link_key(source), encode_row(source, led))
    for page_id in twins:
        is_packed = work.store.get(keys.segment_key(page_id)) is not None
        work.put(keys.link_key(page_id), b"" if is_packed else None)  # it counts before a segment
    for key, value in pages_led_on(work.store, twins):
        work.put(key, value)


def settle(twins: dict[PageId, PageId]) -> None:
    """Of pages that went, in the order in which they did, and the one that stayed of each, make it the one
    that did in the end: of three the one that stayed first may have gone. O(n)."""
    for page_id, kept in reversed(twins.items()):
        twins[page_id] = twins.get(kept, kept)


def pages_led_on(store: Store, twins: Mapping[PageId, PageId]) -> Iterator[tuple[bytes, bytes]]:
    """The rows of pages that led to one of *twins*, which went, or were first linked by it, as they are to
    be: with the page that stayed in its place, or with none where that is the page itself. Nothing where none
    went; else one pass over all pages."""
    if not twins:
        return
    for page_id, page in facts.pages(store):
        if page.target in twins or page.parent in twins:
            target, parent = (_other(page_id, old, twins) for old in (page.target, page.parent))
            row = records.encode_page(page._replace(target=target, parent=parent))
            yield keys.page_key(page_id), row


def _other(page_id: PageId, old: PageId | None, twins: Mapping[PageId, PageId]) -> PageId | None:
    """What is *old* to a page by now; None where it is the page itself."""
    if old is None or old not in twins:
        return old
    return None if twins[old] == page_id else twins[old]


def pages(work: Work) -> Iterator[Finding]:
    """Every page row: notes what it says, and which cannot be read. One kept as leased, which is never
    stored, is queued again; one put aside in a state that never is stays what it is; one whose request is in
    memory is looked up. The other parts build on these notes."""
    for key, value in work.scan(keys.PAGE):
        page_id = keys.key_id(key)
        is_visit = page_id >= keys.FIRST_VISIT
        work.highest[is_visit] = max(work.highest[is_visit], page_id)
        page = lenient(records.decode_page, value)
        if page is None:
            work.ledger.enter(page_id, IS_KNOWN | IS_UNREADABLE, "")
            work.damaged[page_id] = ""
            continue
        if page.state is State.LEASED:
            page = page._replace(state=State.QUEUED)
            work.put(key, records.encode_page(page))
            yield work.found("page kept as leased", subject(page_id, page))
        if page.is_deferred and page.state is not State.SEEN:
            page = page._replace(is_deferred=False)
            work.put(key, records.encode_page(page))
            yield work.found("page put aside that is not only seen", subject(page_id, page))
        work.enter(page_id, page)
        if page.is_in_memory and not is_visit:
            yield from _in_memory(work, page_id, page)


def _in_memory(work: Work, page_id: PageId, page: Page) -> Iterator[Finding]:
    """The index row of a page whose request only a process has, or had: it says so, or no link would look
    whether that was lost. A lookup."""
    fingerprint = None if work.fingerprint_of is None else work.fingerprint_of(page)
    if fingerprint is None:
        return
    key = keys.INDEX + fingerprint
    if work.store.get(key) == keys.index_value(page_id):
        work.put(key, keys.index_value(page_id, is_seen=True))
        yield work.found("index row that hides a lost request", subject(page_id, page))


def queue(work: Work) -> Iterator[Finding]:
    """The rows of pages that wait for their turn, and of those that wait for the end of a backoff: one for
    each page that is queued, in the queue of its own host. Other rows of these kinds are
    deleted."""
    rows = (keys.QUEUE, queue_keys.split_queue_row), (keys.WAITING, queue_keys.split_waiting_row)
    for prefix, split in rows:
        for key, value in work.scan(prefix):
            place = split(key, value)
            if place is None:
                yield work.removed(key, "unreadable queue row", key.hex())
            else:
                yield from _place(work, place)


def _place(work: Work, place: queue_keys.QueuePlace) -> Iterator[Finding]:
    """Note that a page has its place; or what is wrong with it."""
    key, host, page_id = place.key, place.host, queue_keys.sort_key_id(place.sort_key)
    flags = work.ledger[page_id]
    where = f"page {page_id} of {host}"
    if flags & IS_UNREADABLE:
        work.damaged[page_id] = host
        work.ledger.add(page_id, IS_PLACED)
        work.delete(key)
        return
    if flags & IS_QUEUED and not flags & IS_PLACED and work.ledger.is_of(page_id, host):
        work.ledger.add(page_id, IS_PLACED)
        return
    if not flags & IS_KNOWN:
        kind = "queue row that leads nowhere"
    elif not flags & IS_QUEUED:
        kind = "queue row of a page that is not queued"
    elif flags & IS_PLACED and work.ledger.is_of(page_id, host):
        kind = "second queue row of a page"
    else:
        work.ledger.add(page_id, IS_MISPLACED)
        kind = "queue row in another host's queue"
    yield work.removed(key, kind, where)


def deferred(work: Work) -> Iterator[Finding]:
    """Deferred rows: one for each page that waits for a budget, under a unit of its host. All others go."""
    for key, _ in work.scan(keys.DEFERRED):
        unit, page_id = keys.split_deferred_key(key) or ("", -1)
        flags = work.ledger[page_id]
        if flags & IS_DEFERRED and not flags & IS_PLACED and _is_unit_of(work, unit, page_id):
            work.ledger.add(page_id, IS_PLACED)
        else:
            yield work.removed(key, "deferred row that leads nowhere", key[1:].hex())


def _is_unit_of(work: Work, unit: str, page_id: PageId) -> bool:
    if work.ledger.is_of(page_id, unit):
        return True
    page = facts.legible_page(work.store, page_id)
    return page is not None and unit in keys.deferred_units(host_of_page(page))


def due(work: Work) -> Iterator[Finding]:
    """Due rows: one for each page that comes back, at the second its record names. Others are deleted."""
    for key, value in work.scan(keys.DUE):
        due = records.decode_due(key, value)
        flags = work.ledger[due.page_id] if records.is_due_key(key) else 0
        page = facts.legible_page(work.store, due.page_id) if flags & IS_DUE else None
        if page is not None and page.due == due.when and not flags & IS_PLACED:
            work.ledger.add(due.page_id, IS_PLACED)
        else:
            yield work.removed(key, "due row that leads nowhere", key[1:].hex())


def forbidden(work: Work) -> Iterator[Finding]:
    """Forbidden rows: those of pages that no robots.txt excludes go; that one is missing is not found."""
    for key, _ in work.scan(keys.FORBIDDEN):
        if key.startswith(keys.ROBOTS_CHANGED):
            continue
        page_id = keys.id_in(key[-keys.ID_BYTES :])
        page = facts.legible_page(work.store, page_id) if work.ledger[page_id] & IS_KNOWN else None
        if page is None or not is_forbidden(page):
            yield work.removed(key, "forbidden row that leads nowhere", key[1:].hex())


def damaged(work: Work) -> Iterator[Finding]:
    """The page rows that cannot be read: their bytes are set aside, and what is legible takes their place."""
    for page_id, host in work.damaged.items():
        key = keys.page_key(page_id)
        stored = work.store.get(key) or b""
        page = salvage(stored, host, work.now)
        yield work.found("unreadable page", subject(page_id, page), f"{len(stored)} bytes")
        if not work.repair:
            # As the crawl counts it: as queued until it is set aside, and as failed of a host from then on.
            if work.store.get(keys.aside_key(page_id)) is not None:
                work.set_aside += 1
                work.tally.counts.states[State.FAILED] += 1
            elif work.ledger[page_id] & IS_PLACED:
                work.tally.count(host, State.QUEUED)
            continue
        work.put(keys.aside_key(page_id), stored)
        if page_id >= keys.FIRST_VISIT:  # the page it would have visited again is known all the same
            work.delete(key)
            work.ledger.strike(page_id)
        else:
            work.put(key, records.encode_page(page))
            work.enter(page_id, page)


def not_placed(work: Work) -> Iterator[Finding]:
    """Pages that nothing leads to, after `queue`, `deferred` and `due`: each gets the row it is missing."""
    for page_id, page in work.pages_having(IS_QUEUED, IS_PLACED):
        host = host_of_page(page)
        sort_key = queue_keys.sort_key(page.priority, NEUTRAL, min(page_id, keys.MAX_ID), page_id)
        if page.state is not State.QUEUED and page.visits is not None:
            sort_key = records.sort_key_of_due(NEUTRAL, NEUTRAL, page.visits.last, page_id)
        work.put(queue_keys.queue_prefix(host) + sort_key, b"")
        if not work.ledger[page_id] & IS_MISPLACED:
            yield work.found("queued page without a row", subject(page_id, page))
    for page_id, page in work.pages_having(IS_DEFERRED, IS_PLACED):
        work.put(keys.deferred_key(host_of_page(page), page_id), b"")
        yield work.found("deferred page without a row", subject(page_id, page))
    for page_id, page in work.pages_having(IS_DUE, IS_PLACED):
        due = records.Due(page.due, page_id)
        work.put(records.due_key(due.when, page_id), records.encode_due(due))
        yield work.found("page without its due row", subject(page_id, page))


_PARTS = (
    pages,
    queue,
    deferred,
    due,
    forbidden,
    damaged,
    index,
    not_indexed,
    not_placed,
    small_rows,
    hosts,
    counts,
    links,
    scores,
)


class Check(Work):
    """One check of a stopped store; `run` it once, then ``rows`` are those it has read. See `Work`."""

    def run(self) -> Iterator[Finding]:
        """A `Finding` for each thing that is wrong, as it is found: pages first, then what leads to them,
        then counts.

        Every row is read. Where it is to ``repair``, a finding is mended with the next batch, all of a part
        before the next one begins. It may be stopped at any finding. Raises `FrontierUnreadable` where files
        are damaged, and `FrontierUnwritable`.
        """
        if self.store.is_restored:
            yield Finding("lost format", "the frontier", "format or key scheme", is_mended=True)
        for part in _PARTS:
            yield from part(self)
            self.flush()
        for prefix in (keys.ASIDE, keys.FORMAT[:1]):  # so that no row of any kind is left unread
            for _ in self.store.scan(prefix):
                pass


if TYPE_CHECKING:
    # How the findings of a check are read, to tell how far it is.
    Reading = Callable[[Iterable[Finding]], Iterable[Finding]]

SHOWN = 10  # findings of a kind that are told one by one

# The rows of a frontier by the first byte of their keys, in the words of docs/internals/format.md.
ROW_NAMES = {
    b"p": "page",
    b"f": "index",
    b"q": "queue",
    b"w": "waiting",
    b"n": "due",
    b"u": "rates",
    b"d": "deferred",
    b"h": "host",
    b"g": "links",
    b"s": "segment",
    b"o": "orders",
    b"t": "cooldown",
    b"r": "robots",
    b"e": "forbidden",
    b"l": "sitemaps",
    b"b": "body",
    b"v": "column",
    b"c": "content",
    b"x": "aside",
}
# Rows that follow from others, and the finding by which a check makes each anew.
MADE_ANEW = {
    b"f": "page without an index row",
    b"q": "queued page without a row",
    b"n": "page without its due row",
    b"d": "deferred page without a row",
}


class Examined(NamedTuple):
    """What a check found, by kind, how much of it is mended, and the first of each kind."""

    rows: int
    found: Counter[str]
    mended: int
    shown: list[Finding]

    @property
    def left(self) -> int:
        """How many things are wrong and not mended."""
        return self.found.total() - self.mended


class Salvaged(NamedTuple):
    """What came of damaged files: what they lost, how many rows there are now by the first byte of their
    keys, how many are lost (None: nobody knows; at least so many unless *is_exact*), the check of the copy,
    and where the originals are kept."""

    damage: Damage
    rows: Counter[bytes]
    lost: dict[bytes, int | None]
    is_exact: bool
    examined: Examined
    kept: Path | None = None


def examine(
    store: Store, scheme: str, fingerprint_of: FingerprintOf, now: float, repair: bool, reading: Reading
) -> Examined:
    """Check *store* at *now* (POSIX seconds), and with *repair* mend it; reads every row.

    *fingerprint_of* is asked where the *scheme* fits what is stored: else index rows that are missing cannot
    be made. *reading* iterates over the findings, and may tell how far the check is. Raises as `Check.run`.
    """
    stored = (store.get(keys.SCHEME) or b"").decode(errors="replace")
    checking = Check(store, fingerprint_of if stored in ("", scheme) else None, now, repair)
    found: Counter[str] = Counter()
    mended = 0
    shown: list[Finding] = []
    for finding in reading(checking.run()):
        found[finding.kind] += 1
        mended += finding.is_mended
        if found[finding.kind] <= SHOWN:
            shown.append(finding)
    return Examined(checking.rows, found, mended, shown)


# -- damaged files -----------------------------------------------------------------------------------------


def finish_interrupted(directory: Path, user: str) -> None:
    """Put the copy in place that an interrupted repair has left, if it was whole. Raises `FrontierLocked`
    where there is one, and somebody has the directory."""
    if (directory / REPAIRED).exists():
        with closing(Lock(directory, user)):
            finish(directory)


@contextmanager
def salvaging(directory: Path, user: str) -> Iterator[Path]:
    """*directory* is ours until the block ends; its copy, which goes where the block raises: then nothing is
    changed. Raises `FrontierLocked`."""
    with closing(Lock(directory, user)):
        try:
            yield directory / REPAIRING
        except BaseException:
            discard(directory)
            raise


def mended_copy(store: Store, directory: Path, damage: Damage, examine: Callable[[], Examined]) -> Salvaged:
    """What came of the copy in *store* once *examine* has mended it, which is not in its place yet.

    Counts all rows, which reads every file. Raises `FrontierUnreadable` where not one page is legible.
    """
    if not store.keys_of(keys.PAGE, b"", 1):
        raise FrontierUnreadable(
            f"{directory}: not one page is legible: nothing was changed; restore it from a copy, or "
            f"remove {directory} to begin anew"
        )
    before = lenient(records.read_counts, store)
    examined = examine()
    # The last visits of hosts may be lost: the next crawl must take every host for visited just now.
    store.write({keys.CLEAN: None}, sync=True)
    # Exact where the counts are the newest there were: else they may be those of a time with fewer pages.
    is_known = damage.is_all_known or not examined.found
    is_exact = is_known and not any(loss.has(keys.COUNTS) for loss in damage.losses)
    lost = {prefix: 0 if is_known and not damage.touches(prefix) else None for prefix in ROW_NAMES}
    lost |= _lost(before, records.read_counts(store), examined.found, is_exact)
    return Salvaged(damage, store.count_rows(), lost, is_exact, examined)


def _lost(before: Counts | None, now: Counts, found: Counter[str], is_exact: bool) -> dict[bytes, int | None]:
    """Rows lost by the first byte of their keys. Pages and hosts are known by the counts, or by rows that
    lead to them, and some by the rows they follow from; of others nobody knows how many there were."""
    counted = before or now
    pages = max(sum(counted.states) - sum(now.states), found["index row that leads nowhere"])
    hosts = max(counted.hosts - now.hosts, 0) + found["missing host row"]
    counts = (keys.PAGE, pages), (keys.HOST, hosts)
    lost = {prefix: count if is_exact or count else None for prefix, count in counts}
    return lost | {prefix: found[kind] for prefix, kind in MADE_ANEW.items()}
