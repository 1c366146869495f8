"""Which page is worth visiting first: scores, kept a page at a time and set right by rankings.

A `Scorer` sees every page when it is `discovered` and every page's links when it is `parsed`, and gives
out scores: about 1 for an average page, larger is better. When the crawl has grown, somebody calls `rank`
(which may take seconds, and may run in a thread) and hands its result to `ranked`, which gives new
scores for all pages. `bucket` makes a score sortable in 16 bits. Nothing here touches disk or clock.

The default is `Mixed`, in a file of its own, with all scorers by name. ``docs/order.md`` has what they are
worth.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .ranking import DAMPING, Ranking, hits, pagerank

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    Change = tuple[int, float]
    Floats = NDArray[np.floating]
    Ints = NDArray[np.signedinteger]

_STEPS = 1024  # score buckets from a score to its double: 0.07 % a step, 64 doublings in 16 bits
_SMALLEST = -40  # binary logarithm of the least score that has a bucket of its own
NOTICED = 96  # buckets, 6.7 %: smaller changes between rankings are not worth writing a queue row anew


def bucket(score: float) -> int:
    """The place of a score in a queue key, 0 to 65535; a doubling is 1024 steps, from 2**-40 to 2**24."""
    if not score > 0:
        return 0
    return min(max(round((math.log2(score) - _SMALLEST) * _STEPS), 0), 0xFFFF)


def buckets(scores: Floats) -> NDArray[np.uint16]:
    """`bucket` of many scores."""
    with np.errstate(divide="ignore"):
        places = np.rint((np.log2(np.maximum(scores, 0).astype(np.float64)) - _SMALLEST) * _STEPS)
    clipped: NDArray[np.uint16] = np.clip(places, 0, 0xFFFF).astype(np.uint16)
    return clipped


class Scorer:
    """Equal scores: first in, first out. Base of the others, which keep arrays of a few bytes a page.

    Node ids must be consecutive. All verbs are O(links of the page) but `rank` and `ranked`.
    """

    needs_ranking = False
    growth = 1.2  # a ranking is due when this many times as many pages are known

    def discovered(
        self, node: int, parent: int | None = None, host: int = 0, link_score: float = 1.0
    ) -> float:
        """The score of a page found on *parent* (None: a seed) of the host with number *host*."""
        return 1.0

    def parsed(
        self, node: int, outlinks: Sequence[int], weights: Sequence[float] | None = None
    ) -> list[Change]:
        """Pages not yet parsed whose score this page's links changed by more than `NOTICED` buckets.

        *outlinks* are discovered already, each once; *weights* are aligned with them.
        """
        return []

    def judged(self, node: int, content_score: float) -> None:
        """The callback's opinion of a page, at least 0; 1 if it has none."""

    def rank(
        self,
        indptr: Ints,
        indices: Ints,
        weights: Floats | None = None,
        *,
        stop: Callable[[], bool] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> Ranking | None:
        """Rank the graph of a snapshot; None for scorers that need none. Changes nothing."""
        return None

    def ranked(self, ranking: Ranking) -> Floats:
        """Take a ranking over: the new scores of all pages known by now.

        What pages parsed since the snapshot gave to pages in it is forgotten until the next ranking.
        """
        raise NotImplementedError(f"{type(self).__name__} needs no ranking")

    def restore(self, scores: ArrayLike, parsed: Ints) -> None:
        """Start again with kept *scores* of all known pages, of which those in *parsed* are."""


class Fifo(Scorer):
    """First in, first out: breadth first."""


class Lifo(Scorer):
    """Last in, first out: depth first, in classes of 0.07 % of the pages."""

    def discovered(
        self, node: int, parent: int | None = None, host: int = 0, link_score: float = 1.0
    ) -> float:
        return float(node + 1)


class LinkScore(Scorer):
    """The link score a page was first found with."""

    def discovered(
        self, node: int, parent: int | None = None, host: int = 0, link_score: float = 1.0
    ) -> float:
        return link_score


class Cash(Scorer):
    """A page hands *damping* of its score to its outlinks, in equal shares or by their weights.

    OPIC (Abiteboul, Preda, Cobena 2003) in its greedy order, each page once; with damping it is RankMass
    (Cho, Schonfeld 2007). 9 bytes a page.
    """

    damping = DAMPING

    def __init__(self) -> None:
        self.known = 0
        self._score = np.zeros(1024, np.float32)
        self._told = np.zeros(1024, np.float32)  # the score whose bucket the queue has
        self._parsed = np.zeros(1024, np.bool_)
        self._content: dict[int, float] = {}

    def _grow(self) -> None:
        for name, array in vars(self).items():
            if isinstance(array, np.ndarray):
                setattr(self, name, np.concatenate((array, np.zeros(len(array), array.dtype))))

    def discovered(
        self, node: int, parent: int | None = None, host: int = 0, link_score: float = 1.0
    ) -> float:
        while node >= len(self._score):
            self._grow()
        self.known = max(self.known, node + 1)
        if parent is None:
            self._score[node] = self._told[node] = 1.0
        return float(self._score[node])

    def parsed(
        self, node: int, outlinks: Sequence[int], weights: Sequence[float] | None = None
    ) -> list[Change]:
        self._parsed[node] = True
        targets = np.asarray(outlinks, np.int64)
        share = self._share(float(self._score[node]) * self._content.get(node, 1.0), len(targets), weights)
        self._pay(targets, share)
        open_targets = targets[~self._parsed[targets]]
        return self._changes(open_targets)

    def _share(self, score: float, links: int, weights: Sequence[float] | None) -> Floats | float:
        if weights is None:
            return self.damping * score / max(links, 1)
        shares = np.asarray(weights, np.float32)
        total = float(shares.sum())
        return shares * (self.damping * score / total) if total > 0 else 0.0

    def _pay(self, targets: Ints, share: Floats | float) -> None:
        self._score[targets] += share

    def _changes(self, targets: Ints) -> list[Change]:
        scores, told = self._score[targets], self._told[targets]
        noticed = scores > told * np.float32(2 ** (NOTICED / _STEPS))
        changed = targets[noticed]
        self._told[changed] = scores[noticed]
        return list(zip(changed.tolist(), scores[noticed].tolist(), strict=True))

    def judged(self, node: int, content_score: float) -> None:
        self._content[node] = content_score

    def restore(self, scores: ArrayLike, parsed: Ints) -> None:
        known = np.asarray(scores, np.float32)
        if len(known):
            Cash.discovered(self, len(known) - 1, 0)
        self._score[: len(known)] = self._told[: len(known)] = known
        self._parsed[parsed] = True


class PageRank(Cash):
    """PageRank of the pages known at the last ranking, and cash for what came since.

    Content scores are the preference. A score is PageRank times the number of pages.
    """

    needs_ranking = True

    def _preference(self, pages: int) -> NDArray[np.float64]:
        preference = np.ones(pages)
        for node, content in self._content.copy().items():  # the crawl goes on while a thread ranks
            if node < pages:
                preference[node] = content
        return preference

    def _start(self, pages: int) -> Floats | None:
        return self._score[: min(pages, self.known)] if self.known else None

    def rank(
        self,
        indptr: Ints,
        indices: Ints,
        weights: Floats | None = None,
        *,
        stop: Callable[[], bool] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> Ranking | None:
        pages = len(indptr) - 1
        return pagerank(
            indptr,
            indices,
            weights=weights,
            damping=self.damping,
            tolerance=1e-4,  # L1: an average page is right to 0.01 %, a seventh of a bucket
            preference=self._preference(pages),
            start=self._start(pages),
            stop=stop,
            clock=clock,
        )

    def ranked(self, ranking: Ranking) -> Floats:
        pages = len(ranking.scores)
        self._score[:pages] = ranking.scores * pages
        self._told[: self.known] = self._score[: self.known]
        scores: Floats = self._score[: self.known].copy()
        return scores


class Hits(PageRank):
    """Authorities of HITS, and cash for what came since. Content scores weigh what a page passes on."""

    def rank(
        self,
        indptr: Ints,
        indices: Ints,
        weights: Floats | None = None,
        *,
        stop: Callable[[], bool] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> Ranking | None:
        content = self._preference(len(indptr) - 1) if self._content else None
        return hits(
            indptr,
            indices,
            weights=weights,
            tolerance=1e-3,
            max_iterations=100,
            content=content,
            stop=stop,
            clock=clock,
            exact=False,
        )
