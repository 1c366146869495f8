"""The default scorer: by rank, with some pages that cash and chance choose."""

from __future__ import annotations

import math
import random
import zlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..store.keys import LARGEST
from .other_scorers import PageRank
from .pagerank import foreseen_pagerank
from .scorer import noticed, room

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .pagerank import Ranking, Stop, Weights
    from .scorer import Bools, Change, Codes, Floats, Ints, Kind

RANK, CASH, CHANCE = 0, 1, 2

# The column "state" has room for more than what `Cash` keeps there: who chose the page (2 bits) and the three
# above it (6), and how many rankings ago it was read (6).
_CHOSEN, _LINEAGE, _AGE = 2, 4, 10
_OLDEST = 63  # rankings; a choice that old counts for nothing


class Choices(NamedTuple):
    """What a ranking makes of the pages known when it was prepared: by id the ``rank`` and ``score`` of each
    and who ``chosen`` it, then what chance goes by until the next."""

    rank: Floats
    score: Floats
    chosen: NDArray[np.uint8]
    best: list[float]
    luck: float
    parsed_since: int
    discovered_since: int


class Mixed(PageRank):
    """The default: follow `foreseen_pagerank`, but let cash and chance choose some pages, as many as it pays.

    A ranking puts pages that cash (`CASH`) or the dice (`CHANCE`) choose among the best by rank, at the
    score of the page they are to be served with, so that one score is enough for a queue. At the next
    ranking each of the three is paid the rank of the pages it chose, most of it for the page that led
    there, and its part of the choices follows its pay. The rank of a page is seen against that of its host:
    a site that has been read whole keeps its rank to itself, and looks better than it is beside sites hardly
    begun. 24 bytes a page, and 4 more once there are content scores.
    """

    columns = ("state", "content", "score", "rank", "cash", "site")
    damping = 0.9  # collects a little more than 0.85 on most graphs
    parts = (0.88, 0.06, 0.06)  # of the choices, before anything is known of what they are worth
    lineage = 0.7  # of a page's worth, what goes to the page it was found on, and on from there
    forget = 0.7  # what a choice still counts a ranking later
    keenness = 3  # exponent with which parts follow pay
    growth = 1.1  # chosen pages get stale
    worth_moving = 256  # collects as much as with 96, and moves half as many rows
    against_host = 0.5  # exponent of the mean rank of a host by which the rank of its pages is divided
    doubt = 20  # pages of average rank that every host is thought to have besides

    def __init__(self, rng: random.Random | None = None) -> None:
        super().__init__()
        self._cash = room(np.float32)
        # Who chose the three pages above, two bits each, the parent lowest; plus one, and 0 for none.
        self._lineage = room(np.uint8)
        self._chosen = room(np.uint8)
        self._round = room(np.uint16)
        self._site = room(np.uint16)  # hosts by number; that two may share one only blurs them
        self._rounds = _OLDEST
        self._rank = room(np.float32)  # as the score, before choices were put among it
        self._parsed_since = self._discovered_since = 0
        self._best: list[float] = []  # scores that chance lifts to
        self._luck = 0.0
        self._rng = rng or random.Random(0)  # noqa: S311 - draws pages, guards nothing

    def discovered(
        self, node: int, parent: int | None = None, host: str = "", link_score: float = 1.0
    ) -> float:
        """What links have paid the page so far, or by chance the score of one of the best; 1 for a seed."""
        if node >= self.known:
            if node < len(self._score):
                self.known = node + 1
            else:
                self._grow_to(node + 1)
        self._site[node] = zlib.crc32(host.encode()) & 0xFFFF
        if parent is None:
            self._score[node] = self._queued_score[node] = self._cash[node] = self._rank[node] = 1.0
        else:
            if parent < self.known:
                above = int(self._chosen[parent]) + 1 | int(self._lineage[parent]) << 2
                self._lineage[node] = above & 0x3F
            self._discovered_since += 1
            if self._rng.random() < self._luck:
                self._score[node] = self._queued_score[node] = self._rng.choice(self._best)
                self._chosen[node] = CHANCE
        return float(self._score[node])

    def parsed(
        self, node: int, outlinks: Sequence[int], weights: Sequence[float] | None = None
    ) -> list[Change]:
        """Pay the targets cash, and those that are not read yet a part of the page's rank; once, and later
        those that nobody has paid."""
        self._round[node] = self._rounds
        self._parsed_since += 1
        targets = np.asarray(outlinks, np.int64)
        links = len(targets)
        share = self.damping / max(links, 1) if weights is None else self._share(1.0, links, weights)
        if self._parsed[node]:
            targets, share = self._unpaid(targets, share, self._cash)
        self._parsed[node] = self._shut[node] = True
        self._cash[targets] = np.minimum(self._cash[targets] + share * self._cash[node], LARGEST)
        gain: Floats | float = share * float(self._rank[node])
        if self._content is not None:
            gain *= self._content_score(node)
        is_shut = self._shut[targets]
        unread = ~(is_shut & self._parsed[targets])
        waiting = targets[unread]
        # An array in any case: added to float32, a float of Python would be rounded to that first.
        gain = np.array((gain,)) if isinstance(gain, float) else gain[unread]
        rank = self._rank[waiting] = np.minimum(self._rank[waiting] + gain, LARGEST).astype(np.float32)
        self._score[waiting] = np.maximum(self._score[waiting], rank)
        return noticed(self._score, self._queued_score, targets[~is_shut])

    def requeued(self, nodes: Ints, scores: Floats) -> None:
        """As `Cash.requeued`; cash that was lost is as much, and rank that was found since the columns were
        kept."""
        self._grow_to(int(nodes.max(initial=-1)) + 1)
        before = self._score[nodes]
        super().requeued(nodes, scores)
        lost = nodes[self._cash[nodes] == 0]
        self._cash[lost] = self._score[lost]
        found = scores > before * 1.001  # what it was paid since the columns were kept
        self._rank[nodes[found]] = scores[found]

    def _preference(self, pages: int) -> NDArray[np.float64]:
        """Half on all pages and half on those parsed, whose links are known."""
        preference = super()._preference(pages)
        read = np.flatnonzero(self._parsed[: min(pages, self.known)])
        preference[read] *= 1 + pages / max(len(read), 1)
        return preference

    def rank(self, indptr: Ints, indices: Ints, weights: Weights = None, *, stop: Stop = None) -> Ranking:
        """`foreseen_pagerank` from the rank of before; pages with links, and those parsed, are taken for
        read."""
        read = np.diff(indptr) > 0
        known = min(len(read), self.known)
        read[:known] |= self._parsed[:known]
        about = self._known(len(read), self._rank)
        return foreseen_pagerank(indptr, indices, read, weights=weights, stop=stop, **about)

    def prepare(self, ranking: Ranking) -> Choices:
        """Rank seen against hosts, and which queued pages cash and chance lift to the scores of the best by
        rank, as many as they have earned."""
        pages = len(ranking.scores)
        known = max(self.known, pages)
        rank = _filled(self._rank, known)
        rank[:pages] = self._against_hosts(ranking.scores * pages)
        parsed_since, discovered_since = self._parsed_since, self._discovered_since
        shares = self._shares(rank)
        queued = np.flatnonzero(~_filled(self._shut, known))
        score, chosen = rank.copy(), _filled(self._chosen, known)
        chosen[queued] = RANK
        served = min(len(queued), 64 + 2 * parsed_since)
        if not served:
            return Choices(rank, score, chosen, [], 0.0, parsed_since, discovered_since)
        best = -np.sort(-_largest(rank[queued], served)[1])
        luck = shares[CHANCE] * parsed_since / max(discovered_since, 1)
        cash = _filled(self._cash, known)
        by_cash = queued[_largest(cash[queued], served)[0]]
        by_cash = by_cash[np.argsort(-cash[by_cash], kind="stable")]
        drawn = self._rng.sample(range(len(queued)), math.ceil(served * shares[CHANCE]))
        for chooser, candidates in ((CASH, by_cash), (CHANCE, queued[drawn])):
            lucky = candidates[: math.ceil(served * shares[chooser])]
            # They are lifted to scores of the best by rank: one after so many of these, as the shares are.
            turns = (np.arange(len(lucky)) + self._rng.random()) * (shares[RANK] / shares[chooser])
            scores = best[np.minimum(turns.astype(np.int64), len(best) - 1)]
            lifted = scores > score[lucky]
            score[lucky[lifted]] = scores[lifted]
            chosen[lucky[lifted]] = chooser
        kept = best[: 64 + parsed_since].tolist()
        return Choices(rank, score, chosen, kept, luck, parsed_since, discovered_since)

    def _against_hosts(self, rank: Floats) -> Floats:
        """*rank*, of mean 1, divided by (a power of) the mean of the host; still of mean 1."""
        site = _filled(self._site, len(rank))
        pages = np.bincount(site) + self.doubt
        mean = (np.bincount(site, rank) + self.doubt) / pages
        seen = rank / mean[site] ** self.against_host
        return np.asarray(seen * (len(seen) / max(seen.sum(), 1e-30)), np.float64)

    def column(self, name: str, first: int, stop: int) -> Codes:
        """As `Cash.column`; "state" has besides who chose the page and those above it, and how many rankings
        ago it was read, "site" a number for its host."""
        here = slice(first, stop)
        if name == "site":
            return self._site[here]
        column = super().column(name, first, stop)
        if name == "state":
            age = np.minimum(self._rounds - self._round[here].astype(np.int64), _OLDEST)
            for values, place in (
                (self._chosen[here], _CHOSEN),
                (self._lineage[here], _LINEAGE),
                (age, _AGE),
            ):
                column |= values.astype(np.uint16) << np.uint16(place)
        return column

    def restore(self, name: str, first: int, codes: Codes) -> None:
        """As `Cash.restore`; the sites are a column more, and "state" has the choice, lineage and age too."""
        super().restore(name, first, codes)
        here = slice(first, first + len(codes))
        if name == "site":
            self._site[here] = codes
        elif name == "state":
            self._chosen[here] = np.minimum(codes >> _CHOSEN & 3, CHANCE)
            self._lineage[here] = codes >> _LINEAGE & 0x3F
            self._round[here] = self._rounds - (codes >> _AGE)

    def reopened(self, is_queued: Bools) -> None:
        """Go on as after the last ranking, whose choices came back with the columns, until the next."""
        super().reopened(is_queued)
        queued = self._rank[: self.known][~self._shut[: self.known]]
        rounds = self._round[: self.known][self._parsed[: self.known]]
        read = len(rounds)
        if not len(queued) or not read:
            return
        each = self.known / read  # pages found a page that is read, over all
        self._parsed_since += np.count_nonzero(rounds == self._rounds)
        self._discovered_since += round(self._parsed_since * each)
        served = min(len(queued), 64 + round(read * (self.growth - 1)))
        queued.partition(len(queued) - served)  # 10 ms a million, where finding their places takes 40
        self._best = np.sort(queued[-served:])[::-1].tolist()
        self._luck = self.parts[CHANCE] / each

    def adopt(self, prepared: Choices) -> None:
        """Rank, score and choice of each page that `prepare` knew are those *prepared*; pages found since
        keep theirs. A page that left the queue meanwhile keeps who had it chosen, who is paid for it at the
        next ranking. All choices so far are a ranking older from now on."""
        known = len(prepared.score)
        self._grow_to(known)
        self._rank[:known] = prepared.rank
        self._score[:known] = prepared.score
        read_since = self._shut[:known] & (self._chosen[:known] != prepared.chosen)
        prepared.chosen[read_since] = self._chosen[:known][read_since]
        self._chosen[:known] = prepared.chosen
        self._best, self._luck = prepared.best, prepared.luck
        self._rounds = min(self._rounds + 1, 0xFFFF)
        self._parsed_since -= prepared.parsed_since
        self._discovered_since -= prepared.discovered_since
        self._queued_score[: self.known] = self._score[: self.known]

    def shares(self) -> NDArray[np.float64]:
        """What part of the next choices rank, cash and chance get, by what they chose so far; their sum is 1.
        O(pages)."""
        return self._shares(self._rank[: self.known])

    def _shares(self, rank: Floats) -> NDArray[np.float64]:
        pages: Ints = np.flatnonzero(self._parsed[: len(rank)])
        age = self._rounds - self._round[pages].astype(np.float64)
        count = self.forget**age
        picks = np.bincount(self._chosen[pages], count, 3)
        worth = rank[pages] * count
        pay = np.zeros(3)
        choosers: NDArray[np.integer] = self._chosen[pages]
        lineage: NDArray[np.integer] = self._lineage[pages]
        while len(choosers):
            above = lineage & 3
            pay += np.bincount(choosers, worth * np.where(above, 1 - self.lineage, 1.0), 3)
            on = above > 0
            choosers, lineage, worth = above[on] - 1, lineage[on] >> 2, worth[on] * self.lineage
        mean = (pay.sum() + 1e-9) / (picks.sum() + 1e-9)
        paid = (pay + 20 * mean) / (picks + 20) / mean  # 20 picks of average worth as a prior
        parts = np.array(self.parts) * np.clip(paid, 0.1, 10) ** self.keenness
        return np.asarray(parts / parts.sum(), np.float64)


def _filled(array: NDArray[Kind], pages: int) -> NDArray[Kind]:
    """A copy of the first *pages*, zeros where there are fewer."""
    copy = np.zeros(pages, array.dtype)
    kept = array[:pages]
    copy[: len(kept)] = kept
    return copy


def _largest(values: Floats, count: int) -> tuple[Ints, Floats]:
    """Places and values of the *count* largest, in no order."""
    places: Ints = np.argpartition(values, len(values) - count)[len(values) - count :]
    return places, values[places]
