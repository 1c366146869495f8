"""The link graph in the store: read a page at a time, packed behind a snapshot.

A page's links go into the same batch as its end (`Batch.put_links`). What is packed from a snapshot is put in
place on the crawl's side, a few hundred rows at a time: a row and the segment that holds the same say the
same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..ranking.graph import Repacked
    from ..ranking.snapshot import Snapshot
    from ..store.batch import Batch
    from ..store.leveldb import Store
    from ..store.link_rows import PlainEdge

AT_A_TIME = 100  # rows deleted in one batch, about 0.7 ms


class LinkGraph:
    """The links of pages in *store*."""

    def __init__(self, store: Store, batch: Batch) -> None:
        self._store = store
        self._batch = batch

    def links_of(self, page_id: int) -> Sequence[PlainEdge]:
        """The stored links of a page. Raises `ValueError` where they cannot be read."""
        from ..ranking import graph  # loads NumPy and SciPy: for those who use it

        return graph.find_row(page_id, self._batch.get)

    def snapshot(self) -> Snapshot:
        """What is committed by now."""
        from ..ranking.snapshot import Snapshot

        self._batch.commit()
        return Snapshot(self._store, self._batch.counts.next_page)

    def put_in_place(self, packed: Repacked) -> Iterator[int]:
        """Write a segment and delete the rows in it, a batch for each step of the iterator.

        Rows that say something else by now stay: they are newer.
        """
        batch = self._batch
        batch.rows[packed.key] = packed.value or None
        for first in range(0, max(len(packed.rows), 1), AT_A_TIME):
            for key, value in packed.rows[first : first + AT_A_TIME]:
                if batch.get(key) == value:
                    batch.rows[key] = None
            batch.commit()
            yield first
