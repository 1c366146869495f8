"""The link graph in the store: written a page at a time, packed behind a snapshot.

A page's links go into the same batch as its end. What is packed from a snapshot is put in place on the
crawl's side, a few hundred rows at a time: a row and the segment that holds the same say the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..store import keys
from ..store.link_rows import encode_links

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..ranking.graph import Repacked
    from ..ranking.snapshot import Snapshot
    from ..store.batch import Batch
    from ..store.leveldb import Store
    from ..store.link_rows import PlainEdge

AT_A_TIME = 100  # rows deleted in one batch, about 0.2 ms


class LinkGraph:
    """The links of pages in *store*."""

    def __init__(self, store: Store, batch: Batch) -> None:
        self._store = store
        self._batch = batch
        self._written: set[int] | None = None  # pages since the snapshot that is being packed
        self.rows = 0  # written in this run

    def put(self, page_id: int, links: Iterable[PlainEdge]) -> list[PlainEdge]:
        """Put the links of a page into the open batch, in place of those it had; each target once."""
        edges, row = encode_links(page_id, links)
        self._batch.rows[keys.LINK_ROW + page_id.to_bytes(keys.ID_BYTES, "big")] = row
        self.rows += 1
        if self._written is not None:
            self._written.add(page_id)
        return edges

    def links_of(self, page_id: int) -> Sequence[PlainEdge]:
        """The stored links of a page. Raises `ValueError` where they cannot be read."""
        from ..ranking import graph  # loads NumPy and SciPy: for those who use it

        return graph.find_row(page_id, self._batch.get)

    def snapshot(self) -> Snapshot:
        """What is committed by now."""
        from ..ranking.snapshot import Snapshot

        self._batch.commit()
        self._written = set()
        return Snapshot(self._store, self._batch.counts.next_page)

    def put_in_place(self, packed: Repacked) -> Iterator[int]:
        """Write a segment and delete the rows in it, a batch for each step of the iterator.

        Rows written since the snapshot stay: they are newer. It must be the latest snapshot.
        """
        batch = self._batch
        if packed.value:
            batch.rows[packed.key] = packed.value
        else:
            batch.rows[packed.key] = None
        for first in range(0, max(len(packed.rows), 1), AT_A_TIME):
            for key, _ in packed.rows[first : first + AT_A_TIME]:
                if keys.key_id(key) not in (self._written or ()):
                    batch.rows[key] = None
            batch.commit()
            yield first
