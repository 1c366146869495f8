"""Is everything true that must always be true of a frontier? And mending what is not.

`Check.run` reads every row once, page rows first, and yields a `Finding` for each thing that is wrong; with
*repair* it mends what it finds. Mending loses no page: rows are removed only where they lead nowhere or
where the same page has another; a record nobody can read is set aside, bytes and all. It may be
interrupted and run again. Memory: five bytes a page, about 300 a host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..store import keys
from .check_due import DueCheck
from .check_index import IndexCheck
from .check_notes import Finding
from .check_pages import PageCheck
from .check_rows import RowCheck
from .check_work import Work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..pages.edits import FingerprintOf
    from ..store.leveldb import Store


class Check:
    """One check of *store*; `run` it once. *fingerprint_of* finds index rows that are missing."""

    def __init__(
        self, store: Store, fingerprint_of: FingerprintOf | None, now: float, repair: bool = False
    ) -> None:
        self._work = Work(store, now, repair)
        self._fingerprint_of = fingerprint_of

    @property
    def rows(self) -> int:
        """Rows read so far."""
        return self._work.rows

    def run(self) -> Iterator[Finding]:
        work = self._work
        if work.store.is_restored:
            yield Finding("lost format", "the frontier", "format or key scheme", is_mended=True)
        due = DueCheck(work)
        pages, index, rows = PageCheck(work), IndexCheck(work, self._fingerprint_of), RowCheck(work)
        for check in (
            pages.pages,
            pages.queue,
            pages.waiting,
            pages.deferred,
            due.due,
            due.forbidden,
            pages.damaged,
            index.index,
            index.not_indexed,
            pages.not_placed,
            due.not_due,
            rows.small_rows,
            rows.hosts,
            rows.counts,
            rows.links,
            rows.scores,
        ):
            yield from check()
            work.flush()
        for prefix in (keys.ASIDE, keys.FORMAT[:1]):  # so that no row of any kind is left unread
            for _ in work.store.scan(prefix):
                pass
