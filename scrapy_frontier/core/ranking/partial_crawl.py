"""PageRank of a crawl half done: unread pages are thought to link, not to end all walks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .matrix import Ranking, distribution, filled, link_matrix

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from .matrix import Floats, Ints, Stop, Weights

LIKE = 0.9  # of the rank of an unread page, what it is thought to pass on
OWN = 2.0  # read pages that the page which links to it counts for, among those linked beside it
_SWEEPS = 100  # 65 are enough from any start, with damping 0.9 and an error of 2 %


def foreseen_pagerank(
    indptr: Ints,
    indices: Ints,
    read: NDArray[np.bool_],
    *,
    weights: Weights = None,
    damping: float,
    tolerance: float = 0.02,
    preference: ArrayLike | None = None,
    start: ArrayLike | None = None,
    stop: Stop = None,
) -> Ranking:
    """PageRank where a page that is not *read* links like pages near it that are.

    Plain PageRank takes an unread page for one without links. What it will link to (its siblings, the menu of
    its site) then gets too little, and a part of the web that is read whole too much. So an unread page lends
    `LIKE` of its rank to the pages that link to it and those linked beside it, which pass it on like their
    own. Beside pages that turned out to have no links it is thus thought to have few. The result is the
    vector x of sum 1 with

        x = d P (x + L x) - d D x + t v

    d is the *damping*, v the *preference*, and t what makes the sum 1. P hands the rank of a page to those it
    links, in proportion to their weights w. L is what is lent of an unread u: each page p that links to it
    gets its part, by w[p, u], of ``LIKE * x[u]``, and divides that among the read pages it links, by their
    weights, and itself, which counts as `OWN`. D is what p itself would hand straight back to u: no page is
    thought to link to itself, or the only link of a page would lead to one three times too good, and on along
    any endless chain.

    A sweep brings two vectors of sum 1 closer by at least *damping* (L1). The error of y, which a sweep makes
    of x, is so at most ``damping / (1 - damping) * |y - x|`` (Banach's fixed-point theorem, a posteriori),
    but for the rounding of float32, which it leaves out. It is three float32 products; there are 100 at most.
    Arguments as for `pagerank.pagerank`, with 0 < *damping* < 1; the arrays of links are not checked.
    """
    pages = len(indptr) - 1
    if pages == 0:
        return Ranking(np.zeros(0), 0, 0.0, converged=True)
    links = link_matrix(indptr, indices, weights, pages)
    into = links.tocsc().T
    v = distribution(preference, pages, "preference").astype(np.float32)
    x = (v if start is None else distribution(filled(start, pages), pages, "start")).astype(np.float32)
    ones = np.ones(pages, np.float32)
    passes = _inverse(links @ ones)
    from_unread = np.where(read, np.float32(0), _inverse(into @ ones))
    is_read = read.astype(np.float32)
    to_each = np.float32(LIKE) / (links @ is_read + np.float32(OWN))
    squares = into if weights is None else into.power(2)
    to_itself = damping * from_unread * (squares @ (to_each * np.float32(OWN) * passes))
    sweeps, change = 0, np.inf
    goal = tolerance * (1 - damping) / damping
    while sweeps < _SWEEPS and change > goal and not (stop and stop()):
        share = (links @ (x * from_unread)) * to_each
        lent = is_read * (into @ share) + np.float32(OWN) * share
        y = into @ ((x + lent) * passes) * np.float32(damping) - to_itself * x
        y += np.float32(max(1 - float(y.sum(dtype=np.float64)), 0.0)) * v
        change = float(np.abs(y - x).sum(dtype=np.float64))
        x = y
        sweeps += 1
    error = min(2.0, damping / (1 - damping) * change)
    scores = x.astype(np.float64)
    return Ranking(scores / scores.sum(), sweeps, error, converged=error <= tolerance)


def _inverse(values: Floats) -> Floats:
    return np.divide(1, values, out=np.zeros_like(values), where=values > 0)
