"""Which page is worth visiting first: scores, kept a page at a time and set right by rankings.

A `Scorer` sees every page when it is `discovered` and every page's links when it is `parsed`, and gives
out scores: about 1 for an average page, larger is better. When the crawl has grown, somebody calls `rank`
and `prepare` (which may take seconds, and may run in a thread) and hands the result to `adopt`. `score_codes`
makes a score sortable in 16 bits. Nothing here touches disk or clock; what a scorer must remember beyond a
restart it gives out and takes back as columns of buckets.

The default is `Mixed`, in a file of its own. ``docs/internals/order-experiments.md`` has what they are worth.
"""

from __future__ import annotations

import mmap
from math import isfinite, log2
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from ..store.keys import LARGEST, SMALLEST, STEPS_A_DOUBLING, TOP

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from ..store.records import LastRanking
    from .pagerank import Ranking, Stop, Weights

if TYPE_CHECKING:
    Change = tuple[int, float]
    Floats = NDArray[np.floating]
    Ints = NDArray[np.signedinteger]
    Bools = NDArray[np.bool_]
    Codes = NDArray[np.uint16]
    Kind = TypeVar("Kind", bound=np.generic)
    # What a scorer's own `prepare` makes for its own `adopt`: nobody in between looks into it.
    Prepared: TypeAlias = Any

# Pages there is room for at first: 24 bytes and more each of addresses, of memory only for those there are.
# To make room for as many again takes the loop 50 ms and more at two million pages.
ROOM = 1 << 24
# Buckets, 19 %: smaller changes between rankings are not worth writing a queue row anew. 96 costs a page of
# cnr-2000 twice as many rows of pages found long ago (of wikispeedia six times), and collects no more.
NOTICED = 256


def buckets(scores: Floats) -> Codes:
    """`bucket` of many scores at once, as uint16 and in the same order; 0 for those that are not positive."""
    with np.errstate(divide="ignore"):
        places = np.rint((np.log2(np.maximum(scores, 0).astype(np.float64)) - SMALLEST) * STEPS_A_DOUBLING)
    clipped: Codes = np.clip(places, 0, TOP).astype(np.uint16)
    return clipped


def buckets_of(changes: Iterable[Change]) -> list[int]:
    """`bucket` of each new score, in order; faster than NumPy for those of one page."""
    return [
        min(max(round((log2(min(score, LARGEST)) - SMALLEST) * STEPS_A_DOUBLING), 0), TOP) if score > 0 else 0
        for _, score in changes
    ]


def scores_of(codes: Codes) -> NDArray[np.float32]:
    """The scores in the middle of buckets, to within 0.04 % those that `bucket` was given; 0 for bucket 0."""
    precise = np.exp2(codes.astype(np.float64) / STEPS_A_DOUBLING + SMALLEST)
    scores: NDArray[np.float32] = precise.astype(np.float32)
    scores[codes == 0] = 0
    return scores


def noticed(score: Floats, queued: Floats, targets: Ints) -> list[Change]:
    """The pages among *targets* whose *score* is more than `NOTICED` buckets above the one with which they
    were *queued* last; *queued* takes the new one. Both hold the scores of all pages by id; O(targets)."""
    scores = score[targets]
    is_more = scores > queued[targets] * np.float32(2 ** (NOTICED / STEPS_A_DOUBLING))
    changed, scores = targets[is_more], scores[is_more]
    queued[changed] = scores
    return list(zip(changed.tolist(), scores.tolist(), strict=True))


def room(kind: type[Kind] | np.dtype[Kind], pages: int = ROOM) -> NDArray[Kind]:
    """Zeros that take no memory before they are written to; NumPy would take 2 MB at a time."""
    size = pages * np.dtype(kind).itemsize
    return np.frombuffer(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), kind)


class Scorer:
    """Equal scores: first in, first out. Base of the others, which keep arrays of a few bytes a page.

    Node ids must be consecutive. All verbs are O(links of the page) but those of a ranking.
    """

    needs_ranking = False
    # Buckets, 6.7 %: queue rows that a ranking changes by less stay. With 256 PageRank alone collects .37
    # where it collects .43 with 0 or 96 (asu, 20 % of the pages).
    worth_moving = 96
    growth = 1.25  # a ranking is due when this many times as many pages have been read
    columns: tuple[str, ...] = ()  # what must outlive a restart, a number of 16 bits a page each

    def discovered(
        self, node: int, parent: int | None = None, host: str = "", link_score: float = 1.0
    ) -> float:
        """The score of a page found on *parent* (None: a seed) and queued for *host*; called once for each
        *node*, whose ids only grow. 0 puts it behind all others."""
        return 1.0

    def closed(self, node: int) -> None:
        """A page is not queued (any more) and its links are not known: out of scope, or failed.

        It may be one nobody has discovered yet.
        """

    def opened(self, node: int) -> float:
        """The score of a page that is queued after it was `closed` or `parsed`; from now on it is one that is
        queued."""
        return 1.0

    def parsed(
        self, node: int, outlinks: Sequence[int], weights: Sequence[float] | None = None
    ) -> list[Change]:
        """Queued pages whose score this page's links changed by more than `NOTICED` buckets.

        *outlinks* are discovered already, each once; *weights* are aligned with them.
        """
        return []

    def judged(self, node: int, content_score: float) -> None:
        """The content score of a page, at least 0; 1 where there is none. It counts from the next time
        its links are `parsed` or ranked."""

    def current_scores(self, nodes: Ints) -> Floats | None:
        """The scores that the queue rows of *nodes* should have, aligned; None for a scorer whose scores
        never change."""
        return None

    # -- rankings

    def rank(
        self, indptr: Ints, indices: Ints, weights: Weights = None, *, stop: Stop = None
    ) -> Ranking | None:
        """Rank the graph of a snapshot (CSR arrays, see `matrix`); None for scorers that need none. Changes
        nothing.

        It may run in a thread. *stop* is asked before each sweep: once it is true the best so far is
        returned.
        """
        return None

    def prepare(self, ranking: Ranking) -> Prepared:
        """All of a ranking's consequences that take time, for `adopt`. Changes nothing.

        Like `rank` it may run in a thread while the crawl goes on: what it reads may be a moment old.
        """
        raise NotImplementedError(f"{type(self).__name__} has no prepare: define it, or unset needs_ranking")

    def adopt(self, prepared: Prepared) -> None:
        """Take over what `prepare` made; about 2 ms for a million pages.

        What pages parsed since the snapshot gave to pages in it is forgotten until the next ranking.
        """

    # -- restarts

    def column(self, name: str, first: int, stop: int) -> Codes:
        """The pages from *first* to before *stop* in one of `columns`, a number each."""
        raise KeyError(f"{type(self).__name__} has no column {name!r}: define column, or take it off columns")

    def restore(self, name: str, first: int, codes: Codes) -> None:
        """Take back a piece of a column, *codes* of the pages from *first* on, before anything else is told
        of these; a *name* that is none of its columns is passed over."""

    def requeued(self, nodes: Ints, scores: Floats) -> None:
        """What the rows of a queue that outlived a kill say of pages; never less than what is known."""

    def reopened(self, is_queued: Bools) -> None:
        """Which of the pages known at the start are queued; the last of what comes back."""


def about_ranking(
    ranking: Ranking, scorer: Scorer, pages: int, links: int, seconds: float, now: float
) -> LastRanking:
    """What is kept of a ranking, for `Rescoring.keep_ranking` and the commands: made at *now* (POSIX
    seconds), in so many *seconds*, of so many *pages* and *links*. Plain values, fit for JSON."""
    return {
        "at": now,
        "scorer": type(scorer).__name__,
        "pages": pages,
        "links": links,
        "iterations": ranking.iterations,
        "error_bound": ranking.error_bound if isfinite(ranking.error_bound) else None,
        "seconds": round(seconds, 3),
        "converged": ranking.converged,
    }
