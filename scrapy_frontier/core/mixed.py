"""The default scorer, and all scorers by name."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import numpy as np

from .scorer import Cash, Fifo, Hits, Lifo, LinkScore, PageRank, Scorer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from .ranking import Ranking
    from .scorer import Change, Floats, Ints

RANK, CASH, CHANCE = 0, 1, 2


class Mixed(PageRank):
    """The default: follow PageRank, but let cash and chance choose some pages, as many as it pays.

    A ranking puts pages that cash (`CASH`) or the dice (`CHANCE`) choose among the best by rank, at the
    score of the page they are to be served with, so that one score is enough for a queue. At the next
    ranking each of the three is paid the rank of the pages it chose, most of it for the page that led
    there, and its part of the choices follows its pay. 30 bytes a page, twice
    that at most while arrays grow.
    """

    damping = 0.9  # collects a little more than 0.85 on most graphs
    parts = (0.88, 0.06, 0.06)  # of the choices, before anything is known of what they are worth
    lineage = 0.7  # of a page's worth, what goes to the page it was found on, and on from there
    forget = 0.7  # what a choice still counts a ranking later
    keenness = 3  # exponent with which parts follow pay
    generations = 4
    growth = 1.1  # chosen pages get stale; 1.25 collects 1 to 3 % less

    def __init__(self, chance: random.Random | None = None) -> None:
        super().__init__()
        self._cash = np.zeros(1024, np.float32)
        self._parent = np.zeros(1024, np.int64)  # plus one; 0: none
        self._chosen = np.zeros(1024, np.uint8)
        self._round = np.zeros(1024, np.uint32)
        self._rounds = 0
        self._rank = np.zeros(1024, np.float32)  # as the score, before choices were put among it
        self._parsed_since = self._discovered_since = 0
        self._best: list[float] = []  # scores that chance lifts to
        self._luck = 0.0
        self._chance = chance or random.Random(0)  # noqa: S311 - draws pages, guards nothing

    def discovered(
        self, node: int, parent: int | None = None, host: int = 0, link_score: float = 1.0
    ) -> float:
        super().discovered(node, parent, host, link_score)
        if parent is None:
            self._cash[node] = self._rank[node] = 1.0
        else:
            self._parent[node] = parent + 1
            self._discovered_since += 1
            if self._chance.random() < self._luck:
                self._score[node] = self._told[node] = self._chance.choice(self._best)
                self._chosen[node] = CHANCE
        return float(self._score[node])

    def parsed(
        self, node: int, outlinks: Sequence[int], weights: Sequence[float] | None = None
    ) -> list[Change]:
        self._parsed[node] = True
        self._round[node] = self._rounds
        self._parsed_since += 1
        targets = np.asarray(outlinks, np.int64)
        share = self._share(1.0, len(targets), weights)
        self._cash[targets] += share * self._cash[node]
        gain = np.broadcast_to(share * (self._rank[node] * self._content.get(node, 1.0)), targets.shape)
        is_open = ~self._parsed[targets]
        open_targets = targets[is_open]
        self._rank[open_targets] += gain[is_open]
        self._score[open_targets] = np.maximum(self._score[open_targets], self._rank[open_targets])
        return self._changes(open_targets)

    def restore(self, scores: ArrayLike, parsed: Ints) -> None:
        """Take the scores for rank and cash too; who chose which page is not kept."""
        super().restore(scores, parsed)
        self._rank[: self.known] = self._cash[: self.known] = self._score[: self.known]

    def _preference(self, pages: int) -> NDArray[np.float64]:
        """Half on all pages and half on those parsed, whose links are known."""
        preference = super()._preference(pages)
        read = self._parsed[:pages]
        preference[read] *= 1 + pages / max(int(np.count_nonzero(read)), 1)
        return preference

    def _start(self, pages: int) -> Floats | None:
        return self._rank[: min(pages, self.known)] if self.known else None

    def ranked(self, ranking: Ranking) -> Floats:
        pages = len(ranking.scores)
        self._rank[:pages] = ranking.scores * pages
        self._score[: self.known] = self._rank[: self.known]
        self._put_choices(self.shares())
        self._rounds += 1
        self._parsed_since = self._discovered_since = 0
        self._told[: self.known] = self._score[: self.known]
        scores: Floats = self._score[: self.known].copy()
        return scores

    def shares(self) -> NDArray[np.float64]:
        """What part of the next choices rank, cash and chance get."""
        pages: Ints = np.flatnonzero(self._parsed[: self.known])
        age = self._rounds - self._round[pages].astype(np.float64)
        count = self.forget**age
        picks = np.bincount(self._chosen[pages], count, 3)
        worth = self._rank[pages] * count
        pay = np.zeros(3)
        for generation in range(self.generations):
            above = self._parent[pages].astype(np.int64) - 1
            keeps = np.where((above < 0) | (generation == self.generations - 1), 1.0, 1 - self.lineage)
            pay += np.bincount(self._chosen[pages], worth * keeps, 3)
            on = above >= 0
            pages, worth = above[on], worth[on] * self.lineage
        mean = (pay.sum() + 1e-9) / (picks.sum() + 1e-9)
        paid = (pay + 20 * mean) / (picks + 20) / mean  # 20 picks of average worth as a prior
        parts = np.array(self.parts) * np.clip(paid, 0.1, 10) ** self.keenness
        return np.asarray(parts / parts.sum(), np.float64)

    def _put_choices(self, shares: NDArray[np.float64]) -> None:
        """Lift what cash and chance choose to the scores of the best pages by rank."""
        queued = np.flatnonzero(~self._parsed[: self.known])
        self._chosen[queued] = RANK
        served = min(len(queued), 64 + 2 * self._parsed_since)
        if served == 0:
            return
        rank = self._rank[queued]
        best = -np.sort(-_largest(rank, served)[1])
        self._best = best[: 64 + self._parsed_since].tolist()
        self._luck = shares[CHANCE] * self._parsed_since / max(self._discovered_since, 1)
        by_cash = queued[_largest(self._cash[queued], served)[0]]
        by_cash = by_cash[np.argsort(-self._cash[by_cash], kind="stable")]
        drawn = self._chance.sample(range(len(queued)), math.ceil(served * shares[CHANCE]))
        by_chance = queued[drawn]
        for chooser, pages in ((CASH, by_cash), (CHANCE, by_chance)):
            pages = pages[: math.ceil(served * shares[chooser])]
            turns = (np.arange(len(pages)) + self._chance.random()) * (shares[RANK] / shares[chooser])
            scores = best[np.minimum(turns.astype(np.int64), len(best) - 1)]
            lifted = scores > self._score[pages]
            self._score[pages[lifted]] = scores[lifted]
            self._chosen[pages[lifted]] = chooser


def _largest(values: Floats, count: int) -> tuple[Ints, Floats]:
    """Places and values of the *count* largest, in no order."""
    places: Ints = np.argpartition(values, len(values) - count)[len(values) - count :]
    return places, values[places]


SCORERS: dict[str, type[Scorer]] = {
    "mixed": Mixed,
    "pagerank": PageRank,
    "hits": Hits,
    "cash": Cash,
    "link": LinkScore,
    "fifo": Fifo,
    "lifo": Lifo,
}


def make(name: str) -> Scorer:
    """A new scorer; raises `ValueError` for a name that is none."""
    try:
        return SCORERS[name]()
    except KeyError:
        raise ValueError(
            f"no scorer {name!r}: use one of {', '.join(SCORERS)}, or the path of a class"
        ) from None
