"""Is everything true that must always be true of a frontier? And mending what is not.

`Check.run` reads every row, page rows first, and yields a `Finding` for each thing that is wrong; with
*repair* it mends what it finds. Mending loses no page: rows are removed only where they lead nowhere or where
the same page has another; a row nobody can read is set aside, bytes and all. It may be interrupted and run
again. Memory: five bytes a page, about 300 a host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..store import keys
from . import check_index, check_pages, check_rows
from .check_notes import Finding
from .check_work import Work

if TYPE_CHECKING:
    from collections.abc import Iterator

_PARTS = (
    check_pages.pages,
    check_pages.queue,
    check_pages.deferred,
    check_pages.due,
    check_pages.forbidden,
    check_pages.damaged,
    check_index.index,
    check_index.not_indexed,
    check_pages.not_placed,
    check_rows.small_rows,
    check_rows.hosts,
    check_rows.counts,
    check_rows.links,
    check_rows.scores,
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
