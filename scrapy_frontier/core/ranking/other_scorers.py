"""The scorers besides the default: fifo, OPIC cash, PageRank and HITS."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from ..store.keys import LARGEST, STEPS_A_DOUBLING
from .pagerank import DAMPING, hits, pagerank
from .scorer import MIN_RAISE, Scorer, buckets, scores_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .pagerank import Ranking, Stop, Weights
    from .scorer import Bools, Change, Codes, Floats, Ints, Prepared, Scalar

if TYPE_CHECKING:

    class Known(TypedDict):
        """The arguments of `pagerank` besides the graph."""

        damping: float
        preference: NDArray[np.float64]
        start: Floats | None


# Pages that the arrays have room for at first; memory is used only for pages that exist. To double the arrays
# takes 50 ms and more for two million pages.
_ROOM = 1 << 24


class Fifo(Scorer):
    """First in, first out, which is breadth first. Keeps no state."""


class Cash(Scorer):
    """OPIC: a page pays ``damping`` of its score to its outlinks, in equal shares or by their weights.

    Abiteboul, Preda, Cobena 2003, in greedy order and each page once; with damping it is RankMass (Cho,
    Schonfeld 2007). 10 bytes a page, and 4 more for pages with content scores.
    """

    damping = DAMPING
    columns: tuple[str, ...] = ("parsed", "score")

    def __init__(self) -> None:
        self.known = 0
        self._score = room(np.float32)
        self._queued_score = room(np.float32)  # the score whose bucket is in the queue row
        self._content = room(np.float32)  # content scores plus one; 0: there is none
        self._parsed = room(np.bool_)
        self._shut = room(np.bool_)  # not queued: parsed or closed

    def _grow_to(self, pages: int) -> None:
        if pages <= self.known:
            return
        while pages > len(self._score):
            for name, array in vars(self).items():
                if isinstance(array, np.ndarray):
                    longer = room(array.dtype, 2 * len(array))
                    longer[: len(array)] = array
                    setattr(self, name, longer)
        self.known = pages

    def discovered(
        self, node: int, parent: int | None = None, host: str = "", link_score: float = 1.0
    ) -> float:
        """Return what links have paid the page so far; 1 for a seed."""
        self._grow_to(node + 1)
        if parent is None:
            self._score[node] = self._queued_score[node] = 1.0
        return float(self._score[node])

    def free(self) -> None:
        """Free all columns."""
        vars(self).clear()

    def posted(self, node: int, host: str, paid: float) -> float:
        """Set the score of the page to what the other shard paid."""
        self.discovered(node, None, host)
        self._score[node] = self._queued_score[node] = paid
        return paid

    def owed(self, node: int) -> float:
        """Return the score of the page."""
        self._grow_to(node + 1)
        return float(self._score[node])

    def closed(self, node: int) -> None:
        """Note that the page is not queued: links still pay it, but `parsed` returns no change of its
        score."""
        self._grow_to(node + 1)
        self._shut[node] = True

    def opened(self, node: int) -> float:
        """Return what links have paid the page so far."""
        self._grow_to(node + 1)
        self._shut[node] = False
        self._queued_score[node] = self._score[node]
        return float(self._score[node])

    def parsed(
        self, node: int, outlinks: Sequence[int], weights: Sequence[float] | None = None
    ) -> list[Change]:
        """Pay each target its share of the score of the page. A page that is parsed again pays only targets
        with no score yet, or pages that link each other would grow with every visit."""
        targets = np.asarray(outlinks, np.int64)
        share = self._share(float(self._score[node]) * self._content_score(node), len(targets), weights)
        if self._parsed[node]:
            targets, share = unpaid(targets, share, self._score)
        self._parsed[node] = self._shut[node] = True
        self._score[targets] = np.minimum(self._score[targets] + share, LARGEST)
        return self._raised_scores(targets)

    def _share(self, score: float, links: int, weights: Sequence[float] | None) -> Floats:
        """Return what each of so many *links* is paid of *score*."""
        if weights is None:
            return np.full(links, self.damping * score / max(links, 1))
        shares = np.asarray(weights, np.float64)
        total = float(shares.sum())
        return shares * (self.damping * score / total if total > 0 else 0.0)

    def _raised_scores(self, targets: Ints) -> list[Change]:
        """Return the queued pages among *targets* whose score is `MIN_RAISE` buckets above that of their
        queue row."""
        targets = targets[~self._shut[targets]]
        scores = self._score[targets]
        is_more = scores > self._queued_score[targets] * np.float32(2 ** (MIN_RAISE / STEPS_A_DOUBLING))
        targets, scores = targets[is_more], scores[is_more]
        self._queued_score[targets] = scores
        return list(zip(targets.tolist(), scores.tolist(), strict=True))

    def content_scored(self, node: int, content_score: float) -> None:
        """Multiply what the page pays from now on by the content score."""
        self._content[node] = content_score + 1

    def _content_score(self, node: int) -> float:
        return float(self._content[node]) - 1 if self._content[node] else 1.0

    def current_scores(self, nodes: Ints) -> Floats | None:
        """Return the scores in the queue rows: small changes since then move no row."""
        return self._queued_score[nodes]

    # -- restarts

    def column(self, name: str, first: int, stop: int) -> Codes:
        """Return the array of that name, float arrays as buckets."""
        array = getattr(self, f"_{name}")[first:stop]
        codes: Codes = buckets(array) if array.dtype == np.float32 else array.astype(np.uint16)
        return codes

    def restore(self, name: str, first: int, codes: Codes) -> None:
        """Fill the array of that name with what `column` returned."""
        stop = first + len(codes)
        self._grow_to(stop)
        if name in self.columns:
            array = getattr(self, f"_{name}")
            array[first:stop] = scores_of(codes) if array.dtype == np.float32 else codes
        if name == "score":
            self._queued_score[first:stop] = self._score[first:stop]

    def requeued(self, nodes: Ints, scores: Floats) -> None:
        """Raise the scores of pages to those of their queue rows."""
        self._grow_to(int(nodes.max(initial=-1)) + 1)
        self._score[nodes] = np.maximum(self._score[nodes], scores)
        self._queued_score[nodes] = scores

    def reopened(self, is_queued: Bools) -> None:
        """Treat pages that are not queued as `closed`."""
        self._grow_to(len(is_queued))
        self._shut[: len(is_queued)] = ~is_queued


class PageRank(Cash):
    """PageRank for the pages known at the last ranking, cash for pages found since. Content scores are the
    preference. A score is PageRank times the number of pages."""

    needs_ranking = True

    def _preference(self, pages: int) -> NDArray[np.float64]:
        """Return the content scores of so many *pages*."""
        preference = np.ones(pages)
        stored = self._content[: min(pages, self.known)]
        preference[: len(stored)] = np.where(stored > 0, stored - 1, 1)
        return preference

    def _arguments(self, pages: int, before: Floats) -> Known:
        """Return the arguments of a ranking of so many *pages* that starts from the scores *before*."""
        start = before[: min(pages, self.known)] if self.known else None
        return {"damping": self.damping, "preference": self._preference(pages), "start": start}

    def rank(
        self, indptr: Ints, indices: Ints, weights: Weights = None, *, stop: Stop = None
    ) -> Ranking | None:
        """Compute PageRank to an L1 error of 1e-4: .01 % of an average page, a seventh of a bucket."""
        known = self._arguments(len(indptr) - 1, self._score)
        return pagerank(indptr, indices, weights=weights, tolerance=1e-4, stop=stop, **known)

    def prepare(self, ranking: Ranking) -> Prepared:
        """Return the scores of all pages in the graph."""
        return (ranking.scores * len(ranking.scores)).astype(np.float32)

    def adopt(self, prepared: Prepared) -> None:
        """Set the scores of the pages in the graph; pages found since keep theirs."""
        self._grow_to(len(prepared))
        self._score[: len(prepared)] = prepared
        self._queued_score[: self.known] = self._score[: self.known]


class Hits(PageRank):
    """Authorities of HITS, cash for pages found since. Content scores weigh what a page passes on."""

    def rank(
        self, indptr: Ints, indices: Ints, weights: Weights = None, *, stop: Stop = None
    ) -> Ranking | None:
        """Compute HITS until a sweep changes 1e-3, in 100 sweeps at most."""
        content = self._preference(len(indptr) - 1)
        return hits(
            indptr, indices, weights=weights, tolerance=1e-3, max_iterations=100, content=content, stop=stop
        )


def unpaid(targets: Ints, share: Floats, paid: Floats) -> tuple[Ints, Floats]:
    """Return the *targets* that were *paid* nothing yet, and their *share*."""
    is_new = paid[targets] == 0
    return targets[is_new], share[is_new]


def room(kind: type[Scalar] | np.dtype[Scalar], pages: int = _ROOM) -> NDArray[Scalar]:
    """Return an array of zeros that takes memory only where it is written to; NumPy would take 2 MB at a
    time."""
    size = pages * np.dtype(kind).itemsize
    return np.frombuffer(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), kind)
