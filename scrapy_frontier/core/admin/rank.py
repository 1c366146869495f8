"""Ranking a stopped frontier, with the functions a crawl ranks with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..hosts.hosts import Hosts
from ..pages.link_graph import LinkGraph
from ..pages.rescoring import Rescoring
from ..ranking.graph import ranking_weights
from ..ranking.scorer import about_ranking
from ..ranking.snapshot import readable
from ..store.batch import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..ranking.scorer import Floats, Scorer
    from ..ranking.snapshot import Snapshot
    from ..store.leveldb import Store

ROWS = 1000  # queue rows a step


class Reranking:
    """One ranking of the pages in *store* by *scorer*, which needs rankings.

    `run` it once: it steps through what takes long. Each step is a batch of its own, so that an interruption
    leaves a sound store: some queue rows are then moved and others not yet. The clean mark is left as it is.
    Afterwards ``about`` is what is kept of the ranking, and ``scores`` are those of all pages, 1 on average.
    """

    def __init__(self, store: Store, scorer: Scorer) -> None:
        self._scorer = scorer
        self._batch = Batch(store)
        self._rescoring = Rescoring(scorer, store, self._batch, Hosts())
        self._links = LinkGraph(store, self._batch)
        self.about: dict[str, Any] = {}
        self.scores: Floats | None = None

    def run(self, now: float, clock: Callable[[], float]) -> Iterator[None]:
        """Rank, move the queue rows, keep the ranking, pack the links. Raises `UnreadableRecord`."""
        while not self._rescoring.load(ROWS):
            yield
        self._batch.commit()
        snapshot = self._links.snapshot()
        try:
            self._rank(snapshot, now, clock)
            while not self._rescoring.step(ROWS):
                self._batch.commit()
                yield
            self._batch.commit()
            self.about = self._rescoring.last_ranking
            for packed in snapshot.repack(bool):
                for _ in self._links.put_in_place(packed):
                    yield
        finally:
            snapshot.close()

    def _rank(self, snapshot: Snapshot, now: float, clock: Callable[[], float]) -> None:
        with readable():
            graph = snapshot.read(bool)
        weights = ranking_weights(graph)
        ranking = self._scorer.rank(graph.indptr, graph.indices, weights, clock=clock)
        assert ranking is not None
        self.scores = ranking.scores * max(graph.pages, 1)
        self._scorer.adopt(self._scorer.prepare(ranking))
        self._rescoring.begin_walk(about_ranking(ranking, self._scorer, graph.pages, len(graph.indices), now))
