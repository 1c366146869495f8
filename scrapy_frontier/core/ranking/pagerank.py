"""Computes PageRank and HITS from links as arrays, with a bound on the error.

Links come as CSR arrays: page i links to ``indices[indptr[i]:indptr[i + 1]]``. The conventions are those of
networkx and igraph: a page may link to itself, parallel links count once (no target stands twice in a row),
and a link of weight 0 is no link. Weights, preference and content are finite and not negative; nothing here
checks them. Both are plain power iteration, about 3 ns a link and sweep. SciPy's products release the
interpreter's lock, so a thread can rank beside an event loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    Floats = NDArray[np.floating]
    Ints = NDArray[np.signedinteger]
    Vector = NDArray[np.float64]
    Weights = Floats | None  # of links; None: 1 each
    Stop = Callable[[], bool] | None  # called before each sweep; true ends with the vector reached so far

DAMPING = 0.85
Matrix: TypeAlias = Any  # a SciPy sparse array; SciPy ships no types


@dataclass(frozen=True, slots=True)
class Ranking:
    """The ``scores`` (n values, sum 1) of PageRank, or the authorities of HITS with its ``hubs``.

    ``iterations`` counts sweeps over the links. ``error_bound`` bounds the L1 distance to the exact vector.
    It is proven for PageRank. For HITS it is estimated from how fast the sweeps converged, and infinite if
    they did not.
    """

    scores: Vector
    iterations: int
    error_bound: float
    converged: bool
    hubs: Vector | None = None

    @property
    def error(self) -> str:
        """``error_bound`` as text: "at most" if it is proven, "about" if it is estimated."""
        return f"{'at most' if self.hubs is None else 'about'} {self.error_bound:.1e}"


_LIKE = 0.9  # the part of the rank of an unread page that it lends
_OWN = 2.0  # of how many read targets a page gets the share, when it shares out what is lent to it


def pagerank(
    indptr: Ints,
    indices: Ints,
    *,
    read: NDArray[np.bool_] | None = None,
    weights: Weights = None,
    damping: float = DAMPING,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    preference: ArrayLike | None = None,
    start: ArrayLike | None = None,
    stop: Stop = None,
) -> Ranking:
    """Compute PageRank (Page, Brin, Motwani, Winograd 1999) to an L1 error of at most *tolerance*.

    The result is the vector x of sum 1 with ``x = d P x + t v``: d is *damping*; P passes the rank of a page
    to its targets in proportion to the *weights* w; v is *preference* (uniform by default) scaled to sum 1,
    and t makes the sum 1, so pages without links teleport. *start* is an earlier vector; new pages get its
    mean.

    A sweep brings two vectors of sum 1 closer by at least *damping*, so the error is at most
    ``damping / (1 - damping)`` times the last change. After *max_iterations* sweeps, or once *stop* returns
    true, the vector reached so far is returned. *damping* is at least 0 and below 1.

    With *read*, in the middle of a crawl, pages that are not read yet are assumed to link like the read pages
    around them. Plain PageRank treats an unread page as one without links: pages that it will probably link
    (its siblings, the menu of its site) get too little, and sites that were read completely too much. Here an
    unread page lends `_LIKE` of its rank to the pages that link to it and to their other targets, which pass
    it on like their own:

        x = d P (x + L x) - d D x + t v

    L lends the rank of an unread page u: each page p that links to u gets its part, by w[p, u], of
    ``_LIKE * x[u]`` and divides it among the read pages it links to, by their weights, and itself, which
    counts as `_OWN`. D is what p itself would pass straight back to u; without it the only target of a page
    would be ranked three times too high, and so on along any chain. A sweep takes three products. It uses
    float32, which halves the memory; the error bound does not include its rounding.
    """
    pages = len(indptr) - 1
    if pages == 0:
        return Ranking(np.zeros(0), 0, 0.0, converged=True)
    kind = np.float64 if read is None else np.float32
    links = _link_matrix(indptr, indices, weights, pages, kind)
    into, ones = links.T.tocsr(), np.ones(pages, kind)
    passes = _inverse(links @ ones)
    if read is not None:
        is_read = read.astype(kind)
        from_unread = np.where(read, kind(0), _inverse(into @ ones))
        to_each = _LIKE / (links @ is_read + _OWN)
        squares = into if weights is None else into.power(2)
        to_itself = damping * from_unread * (squares @ (to_each * _OWN * passes))
    v: Floats = _distribution(preference, pages).astype(kind)
    x = v if start is None else _distribution(_extended(start, pages), pages).astype(kind)
    factor = damping / (1 - damping)
    sweeps, error = 0, 2.0
    while sweeps < max_iterations and error > tolerance and not (stop and stop()):
        if read is None:
            y = damping * (into @ (x * passes))
        else:
            share = (links @ (x * from_unread)) * to_each
            lent = is_read * (into @ share) + _OWN * share
            y = damping * (into @ ((x + lent) * passes)) - to_itself * x
        y += max(1 - float(y.sum(dtype=np.float64)), 0.0) * v
        error = min(2.0, factor * _distance(y, x))
        x = y
        sweeps += 1
    scores = x.astype(np.float64)
    return Ranking(scores / scores.sum(), sweeps, error, converged=error <= tolerance)


def hits(
    indptr: Ints,
    indices: Ints,
    *,
    weights: Weights = None,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    content: ArrayLike | None = None,
    stop: Stop = None,
) -> Ranking:
    """Compute HITS (Kleinberg 1999): ``a = A'(c h)``, ``h = A(c a)``, both scaled to sum 1, from uniform h.

    Ends when a sweep changes a and h by at most *tolerance* (L1), after *max_iterations*, or once *stop*
    returns true, and returns the vectors with the smallest change. *content* weighs what a page passes on.
    Without links all scores are equal. Converges slowly on many web graphs.
    """
    pages = len(indptr) - 1
    if pages == 0:
        return Ranking(np.zeros(0), 0, 0.0, converged=True, hubs=np.zeros(0))
    links = _link_matrix(indptr, indices, weights, pages)
    into = links.T.tocsr()
    passed = 1.0 if content is None else _distribution(content, pages) * pages
    uniform = hubs = authorities = np.full(pages, 1 / pages)
    best = (np.inf, uniform, uniform)
    sweeps, change, ratio = 0, np.inf, 1.0
    while sweeps < max_iterations and change > tolerance and not (stop and stop()):
        new_authorities = _scaled(into @ (passed * hubs), uniform)
        new_hubs = _scaled(links @ (passed * new_authorities), uniform)
        before, change = change, _distance(new_authorities, authorities) + _distance(new_hubs, hubs)
        authorities, hubs = new_authorities, new_hubs
        sweeps += 1
        if 0 < before < np.inf:
            ratio = max(change / before, 0.5 * ratio)
        if change <= best[0]:
            best = (change, authorities, hubs)
    change, authorities, hubs = best
    error = 0.0 if change == 0 else change * ratio / (1 - ratio) if ratio < 1 else np.inf
    return Ranking(authorities, sweeps, float(error), bool(change <= tolerance), hubs)


def _link_matrix(
    indptr: Ints, indices: Ints, weights: Weights, pages: int, kind: type[np.floating] = np.float64
) -> Matrix:
    data = np.ones(len(indices), kind) if weights is None else np.asarray(weights, kind)
    matrix: Matrix = sparse.csr_array((data, indices, indptr), shape=(pages, pages))
    return matrix


def _distribution(values: ArrayLike | None, pages: int) -> Floats:
    """Return *values* scaled to sum 1; a uniform vector if there are none, or all are 0."""
    if values is None:
        return np.full(pages, 1 / pages)
    array = np.asarray(values, np.float64)
    return _scaled(array, np.full(pages, 1 / pages))


def _extended(start: ArrayLike, pages: int) -> Vector:
    """Return the vector of an earlier, smaller graph for *pages* pages; new pages get its mean."""
    known = np.asarray(start, np.float64)[:pages]
    return np.concatenate((known, np.full(pages - len(known), known.mean() if len(known) else 1.0)))


def _scaled(values: Floats, otherwise: Floats) -> Floats:
    total = values.sum()
    return values / total if total > 0 else otherwise


def _inverse(values: Floats) -> Floats:
    """Return 1 / *values*, and 0 for 0."""
    return np.divide(1, values, out=np.zeros_like(values), where=values > 0)


def _distance(one: Floats, other: Floats) -> float:
    """Return the L1 distance of two vectors."""
    return float(np.abs(one - other).sum(dtype=np.float64))
