"""What a check finds, what can be read of a damaged page, and what it notes of all others.

Of each page it notes flags and a checksum of its host, five bytes; of each host its pages. Kept in pieces of
4096 ids, so that ids that are far apart (further visits, damaged keys) cost no more than a piece
each.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from ..errors import lenient
from ..hosts.host import host_of_page
from ..reasons import DAMAGED
from ..store import due_rows, host_rows, meta_rows, page_rows
from ..store.states import FINISHED, State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..store.keys import PageId

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


def salvage(stored: bytes, host: str, now: float) -> page_rows.Page:
    """What is legible of a damaged page row, as a page that failed (or is finished, if that is legible), at
    *now* (POSIX seconds). Its request and its visits are lost.

    *host* is where its queue row was found, if it had one. Raises nothing.
    """
    # Without the flags that announce more than the URL.
    plain = bytes(flags & 0x07 for flags in stored[:1]) + stored[1:]
    legible = lenient(page_rows.decode_page, plain) or page_rows.Page("")
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
        self.counts = meta_rows.Counts.none()
        self.hosts: dict[str, host_rows.HostRow] = {}

    def enter(self, host: str, page: page_rows.Page, change: int = 1) -> int:
        """Count a page of *host*, or with a *change* of -1 no more; when it comes back (`Visits.due`), 0
        where it does not."""
        self.count(host, page.state, change, page.status)
        if page.is_deferred:
            self.of(host).deferred += change
        due = page.due if page.state in FINISHED else 0
        if due == due_rows.QUEUED_AGAIN:
            self.count(host, State.QUEUED, change)  # besides, for a finished page that was due and is queued
            self.of(host).queued_again += change
            self.counts.queued_again += change
        self.counts.due += change * (due > due_rows.QUEUED_AGAIN)
        return due

    def count(self, host: str, state: State, change: int = 1, status: int = 0) -> None:
        """Count so many pages of *host* more in *state*, as `Batch.count_ended` and `count_queued` do."""
        self.counts.states[state] += change
        if state is State.QUEUED:
            self.of(host).queued += change
        elif state is not State.SEEN:
            self.of(host).count_ended(state, change, status)

    def of(self, host: str) -> host_rows.HostRow:
        """The row of *host* that is counted; zeros at first."""
        return self.hosts.setdefault(host, host_rows.HostRow())
