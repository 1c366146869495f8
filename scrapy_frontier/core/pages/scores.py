"""Scores of pages without a scorer, and the run that ranks and packs the link graph beside a crawl.

A `RankRun` computes over a snapshot, in a thread beside the crawl. Its results are applied in small steps,
each a batch: a new ranking moves queue rows (`rescoring`), and a segment of the link graph replaces the rows
that were packed into it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ..errors import decode_or_none
from ..store import keys, records
from ..store.keys import NEUTRAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..hosts.host import Host
    from ..ranking.graph import Graph, Repacked, Row
    from ..ranking.pagerank import Ranking
    from ..ranking.scorer import Scorer
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.leveldb import Store
    from ..store.link_rows import PlainEdge
    from .leases import Link

# What `RankRun.compute` yields: None when the ranking is there, then segments of the link graph.
Computed: TypeAlias = "Repacked | None"

DELETED_AT_A_TIME = 100  # rows deleted in one batch, about 0.7 ms
PACK_AFTER = 4096  # rows of the link graph written since the last packing, in a crawl without rankings
LAG_PAUSE = 0.1  # seconds between two steps while the database compacts; a write would wait for as long


class Stopped(Exception):
    """A run was stopped while it read its snapshot."""


class RankRun:
    """One ranking by *scorer*, None for no ranking, and one packing of the links in *store*, as of now.

    ``ranking`` is None until it is computed; ``moved`` counts the queue rows that moved because of it so far;
    ``is_adopted``: all have. Close it soon: LevelDB keeps deleted rows while the snapshot is open.
    """

    def __init__(self, store: Store, pages: int, scorer: Scorer | None) -> None:
        self._store = store
        self._snapshot = store.snapshot()
        store.rankings += 1
        self._scorer = scorer
        self.ranking: Ranking | None = None
        self.prepared: object = None
        self.pages = pages
        self.links = self.moved = 0
        self.seconds = 0.0  # spent on ranking
        self.is_adopted = False
        self.without_codes: Sequence[int] = ()  # queued pages whose `focus.codes_of` have to be computed
        self.codes: dict[int, bytes] = {}
        self.shard = 0

    def compute(self, stop: Callable[[], bool], clock: Callable[[], float]) -> Iterator[Computed]:
        """Do the slow part; may be iterated in a thread.

        Yields None when ``ranking`` is there, or there is nothing to rank, then one segment at a time. Ends
        once *stop* returns true, which is called for each row and before each sweep. *clock* returns seconds.
        Raises `ValueError` for rows that cannot be read.
        """
        try:
            if self._scorer is not None:
                self._rank(self._scorer, stop, clock)
            yield None
            yield from self.repack(stop)
        except Stopped:
            return

    def read(self, stop: Callable[[], bool]) -> Graph:
        """Read all links as arrays, see `graph.read_graph`; raises `Stopped`, and what that raises."""
        from ..ranking.graph import read_graph  # loads NumPy and SciPy, only if something is ranked

        return read_graph(self._scan(keys.LINK_ROW, stop), self._scan(keys.SEGMENT_ROW, stop), self.pages)

    def repack(self, stop: Callable[[], bool]) -> Iterator[Repacked]:
        """Yield the segments worth writing anew, see `graph.repack`; raises like `read`. Writes nothing."""
        from ..ranking.graph import repack

        return repack(self._scan(keys.LINK_ROW, stop), self._snapshot.get)

    def _scan(self, prefix: bytes, stop: Callable[[], bool]) -> Iterator[Row]:
        for row in self._store.scan(prefix, snapshot=self._snapshot):
            if stop():
                raise Stopped
            yield row

    def _rank(self, scorer: Scorer, stop: Callable[[], bool], clock: Callable[[], float]) -> None:
        from ..ranking.graph import ranking_weights

        graph = self.read(stop)
        self.pages, self.links = graph.pages, len(graph.indices)
        began = clock()
        ranking = scorer.rank(graph.indptr, graph.indices, ranking_weights(graph), stop=stop)
        self.seconds = clock() - began
        if stop():
            raise Stopped
        if ranking is not None:
            self.prepared = scorer.prepare(ranking)
            self._read_codes(stop)
            self.ranking = ranking

    def _read_codes(self, stop: Callable[[], bool]) -> None:
        """Compute the codes of queued pages from their URLs alone; 20 us each."""
        from ..ranking.focus import codes_of, words_of

        for page_id in self.without_codes:
            if stop():
                raise Stopped
            page = decode_or_none(records.decode_page, self._snapshot.get(keys.page_key(page_id)))
            if page is not None:
                self.codes[page_id] = codes_of(words_of(page.url))

    def close(self) -> None:
        """Release the snapshot, after the end of `compute`."""
        self._snapshot.close()
        self._store.rankings -= 1


class Scores:
    """The scores by which pages are queued: all equal in this base class, of a crawl without a scorer.

    ``moved`` are hosts in memory whose queue rows moved so that their heads may have changed: then call
    `place_moved`.
    """

    scorer: Scorer | None = None
    codes = b""  # `focus.codes_of` the link that was `discovered` last, for its queue row
    is_loaded = True  # whether the state of the scorer in earlier runs is restored

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._rows_packed = 0
        self.moved: set[Host] = set()

    # -- pages -----------------------------------------------------------------------------------------

    def discovered(self, page_id: PageId, link: Link, parent: PageId | None, host: str) -> int:
        """Return the bucket of a new page that is about to be queued on *host*."""
        return NEUTRAL if link.bucket is None else link.bucket

    def owed(self, page_id: PageId) -> float:
        """Return what links have paid a page that belongs to another shard."""
        return 1.0

    def opened(self, page_id: PageId) -> int:
        """Return the bucket of a page that is about to be queued again."""
        return NEUTRAL

    def bucket_of(self, page_id: PageId) -> int:
        """Return the bucket that a page is queued with, that of an average page if it is not queued."""
        return NEUTRAL

    def score_of(self, page_id: PageId) -> float | None:
        """Return the present score of a page; None if there is no scorer, or it keeps no scores."""
        return None

    def queued(self, host: str, sort_key: bytes) -> None:
        """Note that the queue of *host* has a row with *sort_key*."""

    def waits(self, page_id: PageId) -> None:
        """Note that a page is in a backoff: it has no queue row until it is `queued`."""

    def closed(self, page_id: PageId) -> None:
        """Note that a page is not queued, and that its links are unknown."""

    def content_scored(self, page_id: PageId, content_score: float) -> None:
        """Keep the content score of a page, in the open batch."""

    def rewarded(self, page_id: PageId, content_score: float | None, is_gone: bool) -> None:
        """Learn from the worth of a page that was read for the first time, or that *is_gone*."""

    def parsed(self, page_id: PageId, edges: Sequence[PlainEdge], is_further_visit: bool = False) -> None:
        """Pay the targets of the links of a page, and move the queue rows of those whose score rises enough.

        *is_further_visit*: the links were found by a further visit; the page stays queued if it is.
        """

    def place_moved(self, now: float) -> None:
        """Update heads and places of the ``moved`` hosts; may commit."""

    def load(self, rows: int, now: float) -> None:
        """Restore a slice of the state of the scorer in earlier runs; commits."""

    def save(self) -> None:
        """Write the state of the scorer, at the end of a run."""

    def free(self) -> None:
        """Free the arrays of the scorer, for the reason of `BloomFilter.free`."""

    # -- rankings --------------------------------------------------------------------------------------

    def is_due(self) -> bool:
        """Return whether a ranking is due."""
        return False

    def rank_due(self) -> RankRun | None:
        """Start a ranking, or a packing of links, if one is due; see `rank_now`."""
        if self.is_due():
            return self.rank_now()
        is_due = self._batch.link_rows - self._rows_packed >= PACK_AFTER
        return self._run(None) if is_due else None

    def rank_now(self) -> RankRun:
        """Start a ranking, or without a scorer a packing, which the caller closes. Commits."""
        return self._run(self.scorer)

    def _run(self, scorer: Scorer | None) -> RankRun:
        self._batch.commit()
        self._rows_packed = self._batch.link_rows
        return RankRun(self._batch.store, self._batch.counts.next_page, scorer)

    def rank_steps(
        self, run: RankRun, computed: Iterable[Computed | float], clock: Callable[[], float], rows: int
    ) -> Iterator[float]:
        """Apply what *run* computed, a batch a step; yields the seconds to wait before the next step.

        *computed* is `RankRun.compute`, or its values as a thread passes them on, and seconds to wait between
        them. A step looks at so many *rows*, 10 us each. The store is sound after each step.
        """
        for result in computed:
            if isinstance(result, float):
                yield result
            elif result is None:
                yield from self.adopt(run, clock, rows)
            else:
                for _ in self.put_in_place(result):
                    yield self._pause()

    def adopt(self, run: RankRun, clock: Callable[[], float], rows: int) -> Iterator[float]:
        """Adopt the ranking of *run* and move queue rows; yields like `rank_steps`."""
        return iter(())

    def put_in_place(self, packed: Repacked) -> Iterator[int]:
        """Write a segment and delete its rows, `DELETED_AT_A_TIME` a step, a batch each. Rows that have
        changed since the snapshot stay: they are newer, and override the segment."""
        batch = self._batch
        batch.rows[packed.key] = packed.value or None
        for first in range(0, max(len(packed.rows), 1), DELETED_AT_A_TIME):
            for key, value in packed.rows[first : first + DELETED_AT_A_TIME]:
                if batch.get(key) == value:
                    batch.rows[key] = None
            batch.commit()
            yield first

    def _pause(self) -> float:
        return LAG_PAUSE if self._batch.store.lags() else 0.0
