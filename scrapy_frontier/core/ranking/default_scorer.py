"""The default scorer: orders pages by PageRank, and lets OPIC cash and chance choose six visits in 100 each.

With content scores, a page's rank is weighed with the content that `Focus` expects of it.
"""

from __future__ import annotations

import math
import random
import zlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..store.keys import LARGEST
from .focus import Focus
from .other_scorers import PageRank, room, unpaid
from .pagerank import pagerank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .pagerank import Ranking, Stop, Weights
    from .scorer import Change, Floats, Ints, Scalar


class RanksAndScores(NamedTuple):
    """What a ranking makes of all pages known when it was prepared: their ``rank``, and their ``score``,
    which is higher for the pages that cash and chance chose; with content scores also the ``expected``
    content of queued pages (0: unknown), and the ``average`` by which their scores are divided."""

    rank: Floats
    score: Floats
    expected: Floats | None = None
    average: float = 1.0


class Mixed(PageRank):
    """The default: order by `pagerank` with ``read``, but of 100 visits let cash and chance choose six each.

    A ranking lifts the pages that cash or chance choose to the score of the page by rank they are to be
    visited with, so that one score is enough for a queue. Cash is spent when a page is read, and so leaves a
    site that is read whole; rank does not, so it is also divided by (a power of) the mean rank of the host.
    24 bytes a page, and 4 more for pages with content scores.

    From the first content score on a `Focus` learns what content to expect of a page, and pages are ordered
    by rank, ``damped``, times that. 8 bytes a page, and 36 a queued page.
    """

    columns: tuple[str, ...] = ("parsed", "score", "rank", "cash", "site")
    damping = 0.9  # collects a little more than 0.85 on most graphs
    by_cash = by_chance = 0.06  # parts of the visits
    growth = 1.1  # chosen pages get stale
    min_bucket_move = 256  # collects as much as with 96, and moves half as many rows
    against_host = 0.5  # exponent of the mean rank of the host that divides the rank of its pages
    damped = 0.2  # exponent of the rank where expected content counts
    doubt = 20  # pages of average rank that every host is taken to have in addition

    def __init__(self, rng: random.Random | None = None) -> None:
        super().__init__()
        self.focus: Focus | None = None  # from the first content score on
        self._rank = room(np.float32)  # the score before choices
        self._cash = room(np.float32)
        self._expected = room(np.float32)  # content that a queued page probably has; 0: unknown
        self._place = room(np.uint32)  # of the codes of its link, 0: none
        self._average = 1.0
        self._site = room(np.uint16)  # a number of the host; two that share one blur each other, no more
        self._rng = rng or random.Random(0)  # noqa: S311 - draws pages, guards nothing

    def discovered(
        self, node: int, parent: int | None = None, host: str = "", link_score: float = 1.0
    ) -> float:
        """Return what links have paid the page so far; 1 for a seed."""
        self._grow_to(node + 1)
        self._site[node] = zlib.crc32(host.encode()) & 0xFFFF
        if parent is None:
            self._cash[node] = self._rank[node] = 1.0
        return super().discovered(node, parent, host, link_score)

    def posted(self, node: int, host: str, paid: float) -> float:
        """Take rank and cash to be what the other shard paid."""
        self._cash[node] = self._rank[node] = super().posted(node, host, paid)
        return paid

    def parsed(
        self, node: int, outlinks: Sequence[int], weights: Sequence[float] | None = None
    ) -> list[Change]:
        """Pay the targets the cash and a part of the rank of the page; see `Cash.parsed`."""
        targets = np.asarray(outlinks, np.int64)
        share = self._share(1.0, len(targets), weights)
        if self._parsed[node]:
            targets, share = unpaid(targets, share, self._cash)
        self._parsed[node] = self._shut[node] = True
        self._forget_link(node)
        if not len(targets):
            return []
        self._cash[targets] = np.minimum(self._cash[targets] + share * float(self._cash[node]), LARGEST)
        gain = share * (float(self._rank[node]) * self._content_score(node))
        rank = self._rank[targets] = np.minimum(self._rank[targets] + gain, LARGEST)
        focus = self.focus
        if focus is not None and focus.has_learned:
            self._expect(focus, targets, focus.is_good(self._content_score(node)))
            rank = self._focused(focus, rank, self._expected[targets]) / self._average
        self._score[targets] = np.maximum(self._score[targets], rank)
        return self._raised_scores(targets)

    # -- expected content

    def begin_focus(self, focus: Focus | None = None) -> None:
        """Learn; from the second of two different scores on, expected content counts."""
        if self.focus is None:
            self.focus = focus or Focus()
            self.columns = (*self.columns, "expected")

    def rewarded(self, node: int, content_score: float) -> None:
        """Learn what the words of the link that found the page are worth."""
        if self.focus is not None:
            self.focus.learn(int(self._place[node]), content_score)
            self._place[node] = 0

    def linked(self, node: int, codes: bytes) -> None:
        """Keep the codes of the link that found a page, while it is queued."""
        self._grow_to(node + 1)
        if self.focus is not None and not self._place[node]:
            self._place[node] = self.focus.keep(codes)

    def codes(self, node: int) -> bytes:
        """Return the codes, and with them whether the page that has the link was good."""
        is_kept = self.focus is not None and node < self.known and self._place[node]
        return self.focus.codes(int(self._place[node])) if self.focus is not None and is_kept else b""

    def without_codes(self, nodes: Ints) -> Ints:
        """Return those found before there was a focus, or queued again."""
        return nodes[self._place[nodes] == 0] if self.focus is not None else nodes[:0]

    def closed(self, node: int) -> None:
        """As `Cash.closed`."""
        super().closed(node)
        self._forget_link(node)

    def _forget_link(self, node: int) -> None:
        if self.focus is not None and self._place[node]:
            self.focus.release(int(self._place[node]))
            self._place[node] = 0

    def _expect(self, focus: Focus, targets: Ints, is_good: bool) -> None:
        """Work out the expected content of those *targets* that are new, found on a page that was good, or
        was not."""
        new = targets[(self._expected[targets] == 0) & (self._place[targets] > 0)]
        if len(new):
            places = self._place[new]
            focus.set_source(places, is_good)
            self._expected[new] = focus.expected(places)

    def _focused(self, focus: Focus, rank: Floats, expected: Floats) -> Floats:
        """Return rank, damped, times the content that is expected; pages without words count as others."""
        found: Floats = rank**self.damped * np.where(expected > 0, expected, focus.unknown)
        return found

    # -- rankings

    def _preference(self, pages: int) -> NDArray[np.float64]:
        """Return the content scores, so weighted that half of the teleports go to pages that are read."""
        preference = super()._preference(pages)
        read = np.flatnonzero(self._parsed[: min(pages, self.known)])
        preference[read] *= 1 + pages / max(len(read), 1)
        return preference

    def rank(self, indptr: Ints, indices: Ints, weights: Weights = None, *, stop: Stop = None) -> Ranking:
        """Compute `pagerank` from the last rank, to 2 %; pages with links, or parsed, count as read."""
        read = np.diff(indptr) > 0
        known = min(len(read), self.known)
        read[:known] |= self._parsed[:known]
        about = self._arguments(len(read), self._rank)
        return pagerank(indptr, indices, read=read, weights=weights, tolerance=0.02, stop=stop, **about)

    def prepare(self, ranking: Ranking) -> RanksAndScores:
        """Divide rank by that of hosts, and choose which queued pages cash and chance lift."""
        pages = len(ranking.scores)
        known = max(self.known, pages)
        rank = _first(self._rank, known)
        rank[:pages] = self._against_hosts(ranking.scores * pages)
        score, expected, average = rank.copy(), None, 1.0
        queued = np.flatnonzero(~_first(self._shut, known))
        focus = self.focus
        if focus is not None and focus.has_learned and len(queued):
            expected = _first(self._expected, known)
            places = _first(self._place, known)[queued]
            expected[queued[places > 0]] = focus.expected(places[places > 0])
            found = self._focused(focus, rank[queued], expected[queued])
            average = max(float(found.mean()), 1e-30)
            score[queued] = found / average
        read = int(np.count_nonzero(self._parsed[:known]))
        served = min(len(queued), 64 + math.ceil(2 * (self.growth - 1) * read))  # until the next ranking
        if served:
            best = -np.sort(-_largest(score[queued], served)[1])
            cash = _first(self._cash, known)[queued]
            richest = _largest(cash, math.ceil(served * self.by_cash))[0]
            richest = richest[np.argsort(-cash[richest], kind="stable")]
            drawn = self._rng.sample(range(len(queued)), math.ceil(served * self.by_chance))
            choices = [(queued[drawn], self.by_chance)]
            if expected is None:  # cash tells nothing of content
                choices.insert(0, (queued[richest], self.by_cash))
            for chosen, part in choices:
                # one after so many of the best by rank
                gap = (1 - self.by_cash - self.by_chance) / part
                turns = ((np.arange(len(chosen)) + self._rng.random()) * gap).astype(np.int64)
                score[chosen] = np.maximum(score[chosen], best[np.minimum(turns, len(best) - 1)])
        return RanksAndScores(rank, score, expected, average)

    def _against_hosts(self, rank: Floats) -> Floats:
        """Divide *rank*, of mean 1, by a power of the mean of the host; the result has mean 1, too."""
        site = _first(self._site, len(rank))
        mean = (np.bincount(site, rank) + self.doubt) / (np.bincount(site) + self.doubt)
        seen: NDArray[np.float64] = rank / mean[site] ** self.against_host
        return seen * (len(seen) / max(float(seen.sum()), 1e-30))

    def adopt(self, prepared: RanksAndScores) -> None:
        """Set rank and score of the pages that `prepare` knew; pages found since keep theirs."""
        super().adopt(prepared.score)
        self._rank[: len(prepared.rank)] = prepared.rank
        if prepared.expected is not None:
            found = prepared.expected
            self._expected[: len(found)] = np.where(found > 0, found, self._expected[: len(found)])
            self._average = prepared.average

    def requeued(self, nodes: Ints, scores: Floats) -> None:
        """As `Cash.requeued`. What pages were paid since the columns were written is taken for rank, and cash
        that was lost for as much as the score."""
        self._grow_to(int(nodes.max(initial=-1)) + 1)
        is_paid = scores > self._score[nodes] * 1.001  # a bucket is right to .04 %
        super().requeued(nodes, scores)
        if self.focus is None:  # else a score is not what links pay alone
            self._rank[nodes[is_paid]] = scores[is_paid]
        lost = nodes[self._cash[nodes] == 0]
        self._cash[lost] = self._score[lost]


def _first(array: NDArray[Scalar], pages: int) -> NDArray[Scalar]:
    """Return a copy of the first *pages*, zeros where there are fewer."""
    copy = np.zeros(pages, array.dtype)
    kept = array[:pages]
    copy[: len(kept)] = kept
    return copy


def _largest(values: Floats, count: int) -> tuple[Ints, Floats]:
    """Return places and values of the *count* largest, in no order."""
    places: Ints = np.argpartition(values, len(values) - count)[len(values) - count :]
    return places, values[places]
