"""Which queue rows are too far from where their pages should be by the scores of now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..ranking.scorer import buckets
from ..store import keys, queue_keys
from ..store.due_rows import COMES_BACK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..ranking.scorer import Ints, Scorer

LEAST_BUCKET = 2  # of a row: what stands for none, or for another place, is below


def misplaced(scorer: Scorer, pages: Ints, kept: Ints) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of *pages*, by index, have rows too far off, and the buckets these belong in; *kept* are the ones
    they are in. None of a *scorer* that remembers nothing. 20 ns a page."""
    scores = scorer.current_scores(pages) if len(pages) else None
    if scores is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    wanted = np.maximum(buckets(scores).astype(np.int64), LEAST_BUCKET)
    far = np.flatnonzero(abs(np.maximum(kept, LEAST_BUCKET) - wanted) > scorer.worth_moving)
    return far, wanted[far]


def misplaced_keys(scorer: Scorer, sort_keys: list[bytes], pages: int) -> list[tuple[int, bytes]]:
    """Index and right sort key of those of *sort_keys* that are too far off, of pages below *pages*. 1 us
    each."""
    ids = np.array([queue_keys.sort_key_id(sort_key) for sort_key in sort_keys], np.int64)
    known = np.flatnonzero(ids < pages)
    coming_back = [index for index, each in enumerate(sort_keys) if each.startswith(COMES_BACK)]
    if coming_back:  # their places are not scores
        known = np.setdiff1d(known, coming_back)
    kept = np.array([queue_keys.sort_key_bucket(sort_key) for sort_key in sort_keys], np.int64)
    far, wanted = misplaced(scorer, ids[known], kept[known])
    return [
        (index, queue_keys.with_bucket(sort_keys[index], new))
        for index, new in zip(known[far].tolist(), wanted.tolist(), strict=True)
    ]


def arrived_later(sort_key: bytes) -> bool:
    """Whether a row of the queue is one of a page that was queued later than it was discovered."""
    is_own = len(sort_key) == queue_keys.OWN_ARRIVAL.size
    is_revisit = sort_key.startswith(COMES_BACK) or queue_keys.sort_key_id(sort_key) >= keys.FIRST_VISIT
    return not (is_own or is_revisit)
