"""The link graph in the store: written a page at a time, read as a whole from a snapshot, packed behind it.

What the rows mean is `graph`'s; here is what needs a store. A page's links go into the same batch as its
end. A `Snapshot` may be read in a thread while the crawl goes on; what it packs is put in place on the
crawl's side, a few hundred rows at a time: a row and the segment that holds the same say the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import graph
from .store import keys
from .store.link_rows import collapse, encode_collapsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .graph import Graph, Repacked, Row
    from .store.batch import Journal
    from .store.leveldb import Store
    from .store.link_rows import Edge

AT_A_TIME = 100  # rows deleted in one batch, about 0.2 ms


class Stopped(Exception):
    """Somebody asked for an end while a snapshot was read."""


class Snapshot:
    """The graph as it was; `close` it, and soon: LevelDB keeps what is deleted since."""

    def __init__(self, store: Store, pages: int) -> None:
        self._store = store
        self._snapshot: Any = store.snapshot()
        self.pages = pages

    def read(self, stop: Callable[[], bool]) -> Graph:
        """All links as arrays, see `graph.read_graph`; raises `Stopped` once *stop* says so.

        Raises `ValueError` on rows that cannot be read.
        """
        loose, packed = self._scan(keys.LINK_ROW, stop), self._scan(keys.SEGMENT_ROW, stop)
        return graph.read_graph(loose, packed, self.pages)

    def repack(self, stop: Callable[[], bool]) -> Iterator[Repacked]:
        """Segments worth writing anew, see `graph.repack`; for `LinkGraph.put_in_place`."""
        return graph.repack(self._scan(keys.LINK_ROW, stop), self._snapshot.get)

    def _scan(self, prefix: bytes, stop: Callable[[], bool]) -> Iterator[Row]:
        for row in self._store.scan(prefix, snapshot=self._snapshot):
            if stop():
                raise Stopped
            yield row

    def close(self) -> None:
        self._snapshot.close()


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
