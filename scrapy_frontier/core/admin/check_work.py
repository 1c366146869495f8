"""What the parts of a check share: the store and how it is mended, and what is noted of all pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..store import due_rows, keys
from ..store.states import State
from . import facts
from .check_notes import DEFERRED, DUE, KNOWN, QUEUED, Finding, HostTally, Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..pages.edits import FingerprintOf
    from ..store.leveldb import Store
    from ..store.page_rows import Page

AT_A_TIME = 1000  # rows in one batch


def write_rows(store: Store, rows: dict[bytes, bytes | None]) -> None:
    """Write *rows* in one batch, in which None deletes, and empty them."""
    batch = store.batch()
    for key, value in rows.items():
        if value is None:
            batch.delete(key)
        else:
            batch.put(key, value)
    store.write(batch)
    rows.clear()


@dataclass(eq=False)
class Work:
    """Writes only where it is to *repair*. *fingerprint_of* finds index rows that are missing."""

    store: Store
    fingerprint_of: FingerprintOf | None
    now: float
    repair: bool = False
    rows: int = 0  # read so far
    ledger: Ledger = field(default_factory=Ledger)
    tally: HostTally = field(default_factory=HostTally)
    damaged: dict[int, str] = field(default_factory=dict)  # unreadable, and the host whose queue they are in
    set_aside: int = 0  # of the unreadable pages, how many the crawl has counted as failed already
    highest: list[int] = field(default_factory=lambda: [-1, keys.FIRST_VISIT - 1])  # page, further visit
    _rows: dict[bytes, bytes | None] = field(default_factory=dict)  # to be written

    def found(self, kind: str, subject: str, detail: str = "", can_mend: bool = True) -> Finding:
        return Finding(kind, subject, detail, self.repair and can_mend)

    def removed(self, key: bytes, kind: str, subject: str, detail: str = "") -> Finding:
        """Say of a row what is wrong with it; it goes."""
        self.delete(key)
        return self.found(kind, subject, detail)

    def put(self, key: bytes, value: bytes | None) -> None:
        if self.repair:
            self._rows[key] = value
            if len(self._rows) >= AT_A_TIME:
                self.flush()

    def delete(self, key: bytes) -> None:
        self.put(key, None)

    def flush(self) -> None:
        if self._rows:
            write_rows(self.store, self._rows)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        for row in self.store.scan(prefix):
            self.rows += 1
            yield row

    def pages_having(self, flags: int, but_not: int) -> Iterator[tuple[int, Page]]:
        """The pages that have all of *flags* and none of *but_not*, with their ids."""
        for page_id in self.ledger.having(KNOWN | flags, but_not):
            page = facts.read_page(self.store, page_id)
            if page is not None:
                yield page_id, page

    def enter(self, page_id: int, page: Page) -> None:
        """Note a page that can be read."""
        host = facts.host_of_page(page)
        self.tally.counts.attempts += page.attempts
        flags = KNOWN | (QUEUED if page.state is State.QUEUED else DEFERRED if page.is_deferred else 0)
        if due := self.tally.enter(host, page):
            flags |= QUEUED if due == due_rows.QUEUED_AGAIN else DUE
        self.ledger.enter(page_id, flags, host)


def subject(page_id: int, page: Page) -> str:
    return f"page {page_id} {page.url}".rstrip()
