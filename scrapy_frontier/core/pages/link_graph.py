"""The link graph in the store: written a page at a time, packed behind a snapshot.

A page's links go into the same batch as its end. What is packed from a snapshot is put in place on the
crawl's side, a few hundred rows at a time: a row and the segment that holds the same say the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ranking import graph
from ..ranking.snapshot import Snapshot
from ..store import keys
from ..store.link_rows import collapse, encode_collapsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..ranking.graph import Repacked
    from ..store.batch import Journal
    from ..store.leveldb import Store
    from ..store.link_rows import Edge

AT_A_TIME = 100  # rows deleted in one batch, about 0.2 ms


class LinkGraph:
    """The links of pages in *store*."""

    def __init__(self, store: Store, journal: Journal) -> None:
        self._store = store
        self._journal = journal
        self._written: set[int] | None = None  # pages since the snapshot that is being packed
        self.rows = 0  # written in this run

    def put(self, page_id: int, links: Iterable[Edge]) -> list[Edge]:
        """Put the links of a page into the open batch, in place of those it had; each target once."""
        edges = collapse(links)
        self._journal.put(keys.link_key(page_id), encode_collapsed(page_id, edges))
        self.rows += 1
        if self._written is not None:
            self._written.add(page_id)
        return edges

    def links_of(self, page_id: int) -> list[Edge]:
        """The stored links of a page. Raises `ValueError` where they cannot be read."""
        return graph.find_row(page_id, self._store.get)

    def snapshot(self) -> Snapshot:
        """What is committed by now."""
        self._journal.commit()
        self._written = set()
        return Snapshot(self._store, self._journal.counts.next_page)

    def put_in_place(self, packed: Repacked) -> Iterator[int]:
        """Write a segment and delete the rows in it, a batch for each step of the iterator.

        Rows written since the snapshot stay: they are newer. It must be the latest snapshot.
        """
        journal = self._journal
        if packed.value:
            journal.put(packed.key, packed.value)
        else:
            journal.delete(packed.key)
        for first in range(0, max(len(packed.rows), 1), AT_A_TIME):
            for key, _ in packed.rows[first : first + AT_A_TIME]:
                if keys.key_id(key) not in (self._written or ()):
                    journal.delete(key)
            journal.is_open = True
            journal.commit()
            yield first
