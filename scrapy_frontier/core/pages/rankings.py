"""A ranking, in steps: what computes, which may be a thread, and what then moves queue rows and links, a
little at a time, so that a crawl goes on beside it.

A page's links go into the same batch as its end (`Batch.put_links`). What is packed from a snapshot is put in
place on the crawl's side, a hundred rows at a time: a row and the segment that holds the same say the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ..store import keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..ranking.graph import Graph, Repacked, Row
    from ..ranking.pagerank import Ranking
    from ..ranking.scorer import Floats, Scorer
    from ..store.batch import Batch
    from ..store.leveldb import Store
    from .queue import Queue
    from .rescoring import Rescoring

# What computing yields: None when the ranking is there, then segments of the link graph to put in place.
Computed: TypeAlias = "Repacked | None"

DELETED_AT_A_TIME = 100  # rows deleted in one batch, about 0.7 ms
PACK_AFTER = 4096  # rows of the graph written since they were packed last, where nothing is ranked
LAG_PAUSE = 0.1  # seconds between two steps while the database lags; a write would wait for as long


class Stopped(Exception):
    """Somebody asked for an end while a snapshot was read: what was read is to be thrown away."""


class RankRun:
    """One ranking and one packing over the link graph of *pages* as it was in *store* when this was made:
    `close` it, and soon. *scorer* is None where only packing is due.

    ``ranking`` is None until it is there; ``moved`` counts the queue rows that were moved because of it, all
    that are to be when it ``is_adopted``.
    """

    def __init__(self, store: Store, pages: int, scorer: Scorer | None) -> None:
        self._store = store
        self._snapshot = store.snapshot()
        self._scorer = scorer
        self.ranking: Ranking | None = None
        self.prepared: object = None
        self.pages = pages
        self.links = self.moved = 0
        self.seconds = 0.0  # that it took to rank
        self.is_adopted = False

    def compute(self, stop: Callable[[], bool], clock: Callable[[], float]) -> Iterator[Computed]:
        """What takes long. Reads the snapshot alone: a thread may iterate it, and hand over what it yields.

        None once, when ``ranking`` is there or there is nothing to rank; then a segment at a time. *stop* and
        *clock* (seconds) are asked in that thread. Ends once *stop* says so. Raises `ValueError` on rows that
        cannot be read.
        """
        try:
            if self._scorer is not None:
                self._rank(self._scorer, stop, clock)
            yield None
            yield from self.repack(stop)
        except Stopped:
            return

    def read(self, stop: Callable[[], bool]) -> Graph:
        """All links as arrays, see `graph.read_graph`; raises `Stopped` once *stop* says so.

        Raises `ValueError` on rows that cannot be read.
        """
        from ..ranking.graph import read_graph  # loads NumPy and SciPy: for those who use it

        loose, packed = self._scan(keys.LINK_ROW, stop), self._scan(keys.SEGMENT_ROW, stop)
        return read_graph(loose, packed, self.pages)

    def repack(self, stop: Callable[[], bool]) -> Iterator[Repacked]:
        """Segments worth writing anew, see `graph.repack`; for `Rankings.put_in_place`. Writes nothing. Its
        iterator raises `Stopped` once *stop* says so, and `ValueError` on rows that cannot be read."""
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
        weights = ranking_weights(graph)
        began = clock()
        ranking = scorer.rank(graph.indptr, graph.indices, weights, stop=stop)
        self.seconds = clock() - began
        if stop():
            raise Stopped
        if ranking is not None:
            self.prepared = scorer.prepare(ranking)
            self.ranking = ranking

    @property
    def scores(self) -> Floats:
        """The rank of all pages by their ids, 1 on average; the ``ranking`` must be there."""
        assert self.ranking is not None
        return self.ranking.scores * max(self.pages, 1)

    def close(self) -> None:
        """Let go of the snapshot, for which LevelDB keeps what is deleted since. Nothing must be computing
        any more."""
        self._snapshot.close()


@dataclass(eq=False, repr=False)
class Rankings:
    """Says when to rank, and takes over what was computed; without a scorer it packs links alone."""

    _batch: Batch
    _queue: Queue
    _scores: Rescoring | None
    _rows_packed = 0

    def rank_due(self, now: float, interval: float) -> RankRun | None:
        """See `Frontier.rank_due`: this one does not ask whether all is loaded."""
        if self._scores is not None and self._scores.is_due(now, interval):
            return self.rank_now()
        if self._batch.link_rows - self._rows_packed < PACK_AFTER:
            return None
        return self._run(None)

    def rank_now(self) -> RankRun:
        """A ranking, whether it is due or not, or a packing where there is no scorer; who gets one has to
        close it. All must be loaded. Commits what was open, and takes a snapshot."""
        return self._run(None if self._scores is None else self._scores.scorer)

    def _run(self, scorer: Scorer | None) -> RankRun:
        self._batch.commit()
        self._rows_packed = self._batch.link_rows
        return RankRun(self._batch.store, self._batch.counts.next_page, scorer)

    def rank_steps(
        self, run: RankRun, computed: Iterable[Computed | float], clock: Callable[[], float], rows: int = 1000
    ) -> Iterator[float]:
        """Take over what *run* computed: move queue rows, keep the ranking, pack links. Yields the seconds to
        wait before the next step: a timer drives it in a live crawl, a loop in a stopped one.

        *computed* is `RankRun.compute`, or what a thread hands over of it, and meanwhile seconds to wait. A
        step looks at so many *rows*, 10 us each, and is a batch of its own: whatever interrupts it, the store
        is sound.
        """
        for result in computed:
            if isinstance(result, float):
                yield result
            elif result is None:
                yield from self._adopt(run, clock, rows)
            else:
                for _ in self.put_in_place(result):
                    yield self._pause()

    def put_in_place(self, packed: Repacked) -> Iterator[int]:
        """Write a segment and delete its rows, `DELETED_AT_A_TIME` a step of the iterator, a batch each.

        Rows that say something else by now stay: they are newer. Between two steps anything else may be
        written.
        """
        batch = self._batch
        batch.rows[packed.key] = packed.value or None
        for first in range(0, max(len(packed.rows), 1), DELETED_AT_A_TIME):
            for key, value in packed.rows[first : first + DELETED_AT_A_TIME]:
                if batch.get(key) == value:
                    batch.rows[key] = None
            batch.commit()
            yield first

    def _adopt(self, run: RankRun, clock: Callable[[], float], rows: int) -> Iterator[float]:
        if run.ranking is None or self._scores is None:
            return
        from ..ranking.scorer import about_ranking

        scorer = self._scores.scorer
        scorer.adopt(run.prepared)
        about = about_ranking(run.ranking, scorer, run.pages, run.links, run.seconds, clock())
        self._scores.begin_walk(about)
        yield 0.0
        while not self.rescore(clock(), rows):
            run.moved = self._scores.rows_moved
            yield self._pause()
        run.moved, run.is_adopted = self._scores.rows_moved, True

    def rescore(self, now: float, rows: int) -> bool:
        """Bring *rows* more queue rows to the scores of now, in one batch; see `Rescoring.begin_walk`. True
        when all are done, and where there is no scorer."""
        if self._scores is None:
            return True
        self._batch.commit()
        is_done = self._scores.step(rows)
        self._batch.commit()
        self._queue.place_moved(now)
        return is_done

    def _pause(self) -> float:
        return LAG_PAUSE if self._batch.store.lags() else 0.0
