"""The link graph as it was at one moment, read as a whole while the crawl goes on.

What the rows mean is `graph`'s; here is what needs a store. A `Snapshot` may be read in a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..store import keys
from . import graph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..store.leveldb import Store
    from .graph import Graph, Repacked, Row


class Stopped(Exception):
    """Somebody asked for an end while a snapshot was read: what was read is to be thrown away."""


class Snapshot:
    """The graph as it was; `close` it, and soon: LevelDB keeps what is deleted since. Any thread may read
    it."""

    def __init__(self, store: Store, pages: int) -> None:
        self._store = store
        self._snapshot = store.snapshot()
        self.pages = pages

    def read(self, stop: Callable[[], bool]) -> Graph:
        """All links as arrays, see `graph.read_graph`; raises `Stopped` once *stop* says so.

        Raises `ValueError` on rows that cannot be read.
        """
        loose, packed = self._scan(keys.LINK_ROW, stop), self._scan(keys.SEGMENT_ROW, stop)
        return graph.read_graph(loose, packed, self.pages)

    def repack(self, stop: Callable[[], bool]) -> Iterator[Repacked]:
        """Segments worth writing anew, see `graph.repack`; for `Rankings.put_in_place`. Writes nothing. Its
        iterator raises `Stopped` once *stop* says so, and `ValueError` on rows that cannot be read."""
        return graph.repack(self._scan(keys.LINK_ROW, stop), self._snapshot.get)

    def _scan(self, prefix: bytes, stop: Callable[[], bool]) -> Iterator[Row]:
        for row in self._store.scan(prefix, snapshot=self._snapshot):
            if stop():
                raise Stopped
            yield row

    def close(self) -> None:
        """Let go of it: LevelDB keeps what is deleted since. Nobody may be reading it any more."""
        self._snapshot.close()
