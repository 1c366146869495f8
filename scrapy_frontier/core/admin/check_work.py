"""What the parts of a check share: the store and how it is mended, and what is noted of all pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..hosts.host import host_of_page
from ..store import due_rows, keys
from ..store.states import State
from . import facts
from .check_notes import IS_DEFERRED, IS_DUE, IS_KNOWN, IS_QUEUED, Finding, HostTally, Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..pages.edits import FingerprintOf
    from ..store.keys import PageId
    from ..store.leveldb import Store
    from ..store.page_rows import Page

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
            flags |= IS_QUEUED if due == due_rows.QUEUED_AGAIN else IS_DUE
        self.ledger.enter(page_id, flags, host)


def subject(page_id: PageId, page: Page) -> str:
    """A page as a finding names it: its id, and its URL if that is legible."""
    return f"page {page_id} {page.url}".rstrip()
