"""The scorers but for the default: first in or last in first, link scores, OPIC cash, PageRank and HITS."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import numpy as np

from ..store.keys import LARGEST, bucket
from .pagerank import DAMPING, hits, pagerank
from .scorer import Scorer, buckets, noticed, room, scores_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .pagerank import Ranking, Stop, Weights
    from .scorer import Bools, Change, Codes, Floats, Ints, Prepared

if TYPE_CHECKING:

    class Known(TypedDict):
        """What a ranking is told besides the graph, as `pagerank` takes it."""

        damping: float
        preference: NDArray[np.float64]
        start: Floats | None


class Fifo(Scorer):
    """First in, first out: breadth first. Remembers nothing."""


class Lifo(Scorer):
    """Last in, first out: depth first, in classes of 0.07 % of the pages, for a queue key holds no more.
    Remembers nothing."""

    def discovered(
        self, node: int, parent: int | None = None, host: str = "", link_score: float = 1.0
    ) -> float:
        """The later a page was found, the more."""
        return float(node + 1)

    def opened(self, node: int) -> float:
        """The same score as when it was found."""
        return float(node + 1)


class LinkScore(Scorer):
    """The link score a page was first found with, and 1 for one that is queued later. Remembers nothing."""

    def discovered(
        self, node: int, parent: int | None = None, host: str = "", link_score: float = 1.0
    ) -> float:
        """The *link_score* of the link that found it, as it is; nothing is kept."""
        return link_score


class Cash(Scorer):
    """A page hands ``damping`` of its score to its outlinks, in equal shares or by their weights.

    OPIC (Abiteboul, Preda, Cobena 2003) in its greedy order, each page once; with damping it is RankMass
    (Cho, Schonfeld 2007). 10 bytes a page, and 4 more once there are content scores.
    """

    damping = DAMPING
    columns: tuple[str, ...] = ("state", "content", "score")

    def __init__(self) -> None:
        self.known = 0
        self._score = room(np.float32)
        self._queued_score = room(np.float32)  # the score whose bucket the queue has
        self._content: NDArray[np.float32] | None = None  # content scores plus one; 0: there is none
        self._parsed = room(np.bool_)
        self._shut = room(np.bool_)  # not queued: parsed or closed

    def _grow_to(self, pages: int) -> None:
        while pages > len(self._score):
            for name, array in vars(self).items():
                if isinstance(array, np.ndarray):
                    longer = room(array.dtype, 2 * len(array))
                    longer[: len(array)] = array
                    setattr(self, name, longer)
        self.known = max(self.known, pages)

    def _judge(self, here: int | slice, content: float | Floats) -> None:
        if self._content is None:
            self._content = room(np.float32, len(self._score))
        self._content[here] = content + 1

    def _content_scores(self, here: slice) -> Floats:
        """The content scores of some pages."""
        if self._content is None:
            return np.ones(max(here.stop - here.start, 0), np.float32)
        stored = self._content[here]
        return np.where(stored > 0, stored - 1, np.float32(1))

    def _content_score(self, node: int) -> float:
        if self._content is None:
            return 1.0
        stored = float(self._content[node])
        return stored - 1 if stored else 1.0

    def discovered(
        self, node: int, parent: int | None = None, host: str = "", link_score: float = 1.0
    ) -> float:
        """What links have paid the page so far; 1 for a seed."""
        if node >= self.known:
            self._grow_to(node + 1)
        if parent is None:
            self._score[node] = self._queued_score[node] = 1.0
        return float(self._score[node])

    def closed(self, node: int) -> None:
        """Links go on paying it, but no change of its score is reported."""
        if node >= self.known:
            self._grow_to(node + 1)
        self._shut[node] = True

    def opened(self, node: int) -> float:
        """What links have paid the page so far."""
        if node >= self.known:
            self._grow_to(node + 1)
        self._shut[node] = False
        self._queued_score[node] = self._score[node]
        return float(self._score[node])

    def parsed(
        self, node: int, outlinks: Sequence[int], weights: Sequence[float] | None = None
    ) -> list[Change]:
        """Pay each target its part of ``damping`` times the score, and the content score, of the page: all of
        them once, and later those that nobody has paid."""
        targets = np.asarray(outlinks, np.int64)
        share = self._share(float(self._score[node]) * self._content_score(node), len(targets), weights)
        if self._parsed[node]:
            targets, share = self._unpaid(targets, share, self._score)
        self._parsed[node] = self._shut[node] = True
        self._score[targets] = np.minimum(self._score[targets] + share, LARGEST)
        return noticed(self._score, self._queued_score, targets[~self._shut[targets]])

    def _unpaid(self, targets: Ints, share: Floats | float, paid: Floats) -> tuple[Ints, Floats | float]:
        """Which of its *targets* a page pays that is parsed again, and their part of the *share*. It has paid
        the others: pages that link each other would grow with every visit."""
        is_new = paid[targets] == 0
        return targets[is_new], share if isinstance(share, float) else share[is_new]

    def _share(self, score: float, links: int, weights: Sequence[float] | None) -> Floats | float:
        if weights is None:
            return self.damping * score / max(links, 1)
        shares = np.asarray(weights, np.float32)
        total = float(shares.sum())
        return shares * (self.damping * score / total) if total > 0 else 0.0

    def judged(self, node: int, content_score: float) -> None:
        """It counts from the next time the links of the page are parsed."""
        if node >= self.known:
            self._grow_to(node + 1)
        self._judge(node, content_score)

    def current_scores(self, nodes: Ints) -> Floats | None:
        """The scores by which the pages stand in the queues: small changes since then move no row."""
        return self._queued_score[nodes]

    def column(self, name: str, first: int, stop: int) -> Codes:
        """In "state" the sum of 1 for a page that was parsed and 2 for one that is not queued; in the others
        the bucket of its content score or score."""
        here = slice(first, stop)
        if name == "state":
            state: Codes = (self._parsed[here] + np.uint16(2) * self._shut[here]).astype(np.uint16)
            return state
        if name == "content":
            return buckets(self._content_scores(here))
        values: NDArray[np.float32] = getattr(self, f"_{name}")[here]
        return buckets(values)

    def restore(self, name: str, first: int, codes: Codes) -> None:
        """Set this column of the pages from *first* on to *codes*, as `column` gave them; pages that it did
        not know it knows from now on. With "score" the queue is taken to have that score."""
        stop = first + len(codes)
        self._grow_to(stop)
        if name == "state":
            self._parsed[first:stop] = codes & 1 > 0
            self._shut[first:stop] = codes & 2 > 0
        elif name == "content":
            if (codes != bucket(1.0)).any():
                self._judge(slice(first, stop), scores_of(codes))
        elif name in self.columns:
            getattr(self, f"_{name}")[first:stop] = scores_of(codes)
        if name == "score":
            self._queued_score[first:stop] = self._score[first:stop]

    def requeued(self, nodes: Ints, scores: Floats) -> None:
        """A page is worth no less than its queue row says, which may be newer than the columns kept last."""
        if len(nodes):
            self._grow_to(int(nodes.max()) + 1)
            self._score[nodes] = np.maximum(self._score[nodes], scores)
            self._queued_score[nodes] = scores

    def reopened(self, is_queued: Bools) -> None:
        """What is not queued counts as `closed`."""
        self._grow_to(len(is_queued))
        self._shut[: len(is_queued)] = ~is_queued


class PageRank(Cash):
    """PageRank of the pages known at the last ranking, and cash for what came since.

    Content scores are the preference. A score is PageRank times the number of pages.
    """

    needs_ranking = True

    def _preference(self, pages: int) -> NDArray[np.float64]:
        preference = np.ones(pages)
        known = min(pages, self.known)
        preference[:known] = self._content_scores(slice(0, known))
        return preference

    def _known(self, pages: int, before: Floats) -> Known:
        """What a ranking of so many *pages* is told of them, and of what was *before*."""
        return {
            "damping": self.damping,
            "preference": self._preference(pages),
            "start": before[: min(pages, self.known)] if self.known else None,
        }

    def rank(
        self, indptr: Ints, indices: Ints, weights: Weights = None, *, stop: Stop = None
    ) -> Ranking | None:
        """PageRank from the vector of before, to an L1 error of 1e-4; see `pagerank.pagerank`."""
        known = self._known(len(indptr) - 1, self._score)
        # L1: an average page is right to 0.01 %, a seventh of a bucket.
        return pagerank(indptr, indices, weights=weights, tolerance=1e-4, stop=stop, **known)

    def prepare(self, ranking: Ranking) -> Prepared:
        """The scores of all pages in the graph: PageRank times their number."""
        return (ranking.scores * len(ranking.scores)).astype(np.float32)

    def adopt(self, prepared: Prepared) -> None:
        """The scores of these pages are those of the ranking; pages found since keep theirs."""
        self._grow_to(len(prepared))
        self._score[: len(prepared)] = prepared
        self._queued_score[: self.known] = self._score[: self.known]


class Hits(PageRank):
    """Authorities of HITS, and cash for what came since. Content scores weigh what a page passes on."""

    def rank(
        self, indptr: Ints, indices: Ints, weights: Weights = None, *, stop: Stop = None
    ) -> Ranking | None:
        """HITS to a change of 1e-3, 100 sweeps at most, in float32; see `hits.hits`."""
        content = self._preference(len(indptr) - 1) if self._content is not None else None
        return hits(
            indptr,
            indices,
            weights=weights,
            tolerance=1e-3,
            max_iterations=100,
            content=content,
            exact=False,
            stop=stop,
        )
