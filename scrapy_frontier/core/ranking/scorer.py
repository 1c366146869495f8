"""The interface of all scorers, which tell how much pages are worth.

A `Scorer` gets every page that is `discovered` and the links of every page that is `parsed`, and returns
scores: about 1 for an average page, larger is better. When the crawl has grown, `rank` and `prepare` are
called, in a thread since they may take seconds, and then `adopt` with the result. A scorer uses neither disk
nor clock: it passes what has to survive a restart out and in again as columns.

The default is `default_scorer.Mixed`; ``docs/internals/order-experiments.md`` compares the scorers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from ..store.keys import SMALLEST, STEPS_A_DOUBLING, TOP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .focus import Focus
    from .pagerank import Ranking, Stop, Weights

if TYPE_CHECKING:
    Change = tuple[int, float]
    Floats = NDArray[np.floating]
    Ints = NDArray[np.signedinteger]
    Bools = NDArray[np.bool_]
    Codes = NDArray[np.uint16]
    Scalar = TypeVar("Scalar", bound=np.generic)
    # What `prepare` of a scorer returns for its `adopt`; opaque to all others.
    Prepared: TypeAlias = Any

# Buckets, 19 %: smaller changes by the links of a page move no queue row. With 96 twice as many rows a page
# move on cnr-2000 (six times as many on wikispeedia), and the order is no better.
MIN_RAISE = 256


def buckets(scores: Floats) -> Codes:
    """Return the `keys.bucket` of many scores at once."""
    positive = scores > 0
    places = np.zeros(len(scores))
    places[positive] = (np.log2(scores[positive].astype(np.float64)) - SMALLEST) * STEPS_A_DOUBLING
    codes: Codes = np.where(positive, np.clip(np.rint(places), 1, TOP), 0).astype(np.uint16)
    return codes


def scores_of(codes: Codes) -> NDArray[np.float32]:
    """Return the scores of many buckets; inverts `buckets` to within .04 %. Bucket 0 gives 0."""
    precise = np.exp2(codes.astype(np.float64) / STEPS_A_DOUBLING + SMALLEST)
    return np.where(codes > 0, precise, 0).astype(np.float32)


class Scorer:
    """Gives equal scores: first in, first out. The base class of all scorers.

    Node ids are consecutive numbers in order of discovery. Each call is O(links of the page), apart from
    those of a ranking.
    """

    @property
    def name(self) -> str:
        """The name that is stored with a ranking."""
        return type(self).__name__

    needs_ranking = False
    # Buckets, 6.7 %: a ranking does not move rows that it changes by less. PageRank alone collects .43 with 0
    # or 96, and .37 with 256 (asu, 20 % of the pages).
    min_bucket_move = 96
    growth = 1.25  # a ranking is due when so many times as many pages are known, or read
    focus: Focus | None = None  # the model that learns from content scores; None until there are some
    columns: tuple[str, ...] = ()  # names of the arrays that survive a restart: 16 bits a page each

    def discovered(
        self, node: int, parent: int | None = None, host: str = "", link_score: float = 1.0
    ) -> float:
        """Return the score of a page found on *parent* (None: a seed) that is about to be queued for *host*.

        Called once for each *node*, whose ids only grow. 0 puts the page behind all others.
        """
        return 1.0

    def free(self) -> None:
        """Free the memory for pages; called last, when the frontier is closed."""

    def posted(self, node: int, host: str, paid: float) -> float:
        """As `discovered`, for a page that a page of another shard links and *paid*, which is its `owed`
        there."""
        return self.discovered(node, None, host)

    def owed(self, node: int) -> float:
        """Return what links have paid a page that belongs to another shard."""
        return 1.0

    def owed_more(self, ranking: Ranking) -> Sequence[Change]:
        """Return the changes by an adopted *ranking* of what pages of other shards are owed, as far as their
        shards should know them. They count as sent."""
        return ()

    def paid_more(self, node: int, change: float) -> None:
        """Add a *change* that `owed_more` of another shard returned for the page."""

    def closed(self, node: int) -> None:
        """Note that a page is not queued and its links are unknown: it is out of scope, or failed."""

    def opened(self, node: int) -> float:
        """Return the score of a page that is queued after it was `closed` or `parsed`."""
        return 1.0

    def parsed(
        self, node: int, outlinks: Sequence[int], weights: Sequence[float] | None = None
    ) -> list[Change]:
        """Return the queued pages whose scores the links of this page raise by more than `MIN_RAISE` buckets,
        with their new scores. *outlinks* are known nodes, each once; *weights* are aligned with them."""
        return []

    def content_scored(self, node: int, content_score: float) -> None:
        """Note the content score of a page, 0 or more; pages without one have 1. It counts from the next
        ranking, and the next time that the page is `parsed`."""

    def begin_focus(self, focus: Focus | None = None) -> None:
        """Learn from content scores from now on, with the *focus* of an earlier run if there is one. Does
        nothing if it has begun, and in scorers that use no focus."""

    def linked(self, node: int, codes: bytes) -> None:
        """Keep the `focus.codes_of` the link by which a page was found; called only if there is a
        ``focus``."""

    def codes(self, node: int) -> bytes:
        """Return the codes that `linked` got for a queued page; empty if they are not kept."""
        return b""

    def without_codes(self, nodes: Ints) -> Ints:
        """Return those of the queued *nodes* for which `linked` should be called."""
        return nodes[:0]

    def rewarded(self, node: int, content_score: float) -> None:
        """Learn from the worth of a page that was read for the first time, or is gone."""

    def current_scores(self, nodes: Ints) -> Floats | None:
        """Return the scores that the queue rows of *nodes* should have; None if scores never change."""
        return None

    # -- rankings

    def rank(
        self, indptr: Ints, indices: Ints, weights: Weights = None, *, stop: Stop = None
    ) -> Ranking | None:
        """Rank a snapshot of the link graph (CSR arrays, see `pagerank`); None for scorers without rankings.

        May run in a thread, and must change nothing. *stop* is called before each sweep; once it returns
        true, return the best result so far.
        """
        return None

    def prepare(self, ranking: Ranking) -> Prepared:
        """Compute what `adopt` needs of a ranking. May run in a thread, and must change nothing."""
        raise NotImplementedError(f"{type(self).__name__} has no prepare: define it, or unset needs_ranking")

    def adopt(self, prepared: Prepared) -> None:
        """Apply what `prepare` computed; about 2 ms for a million pages. What pages parsed since the snapshot
        paid to pages in it is lost until the next ranking."""

    # -- restarts

    def column(self, name: str, first: int, stop: int) -> Codes:
        """Return the values of one of `columns` for the pages from *first* to before *stop*."""
        raise KeyError(f"{type(self).__name__} has no column {name!r}: define column, or take it off columns")

    def restore(self, name: str, first: int, codes: Codes) -> None:
        """Restore *codes*, a piece of a column, for the pages from *first* on; ignores unknown names. Called
        before any other call for these pages."""

    def requeued(self, nodes: Ints, scores: Floats) -> None:
        """Restore the scores of queued pages from their queue rows, which may be newer than the columns."""

    def reopened(self, is_queued: Bools) -> None:
        """Note which of the pages known at the start are queued; the last call of a restart."""
