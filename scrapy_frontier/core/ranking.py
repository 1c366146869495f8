"""PageRank and HITS: arrays in, scores and what is known of their error out.

Links come as CSR arrays: page i links to ``indices[indptr[i]:indptr[i + 1]]``. Conventions, the same as in
networkx and igraph: self-links count; parallel links count once, so no target may stand twice in a row
(`from_pairs` makes such rows); a link of weight 0 is no link; a page without links is *dangling*, and its
rank goes to all pages as teleports do ("strongly preferential" in Boldi, Posenato, Santini, Vigna 2008).

Only NumPy and SciPy, whose sparse products release the interpreter's lock; nothing here reads a clock of
its own accord: whoever wants ``seconds`` passes one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.floating]
    Ints = NDArray[np.signedinteger]

DAMPING = 0.85
_FEW_LINKING = 0.5  # above this share of linking pages, picking them out costs more than it saves
_CYCLE = 6  # sweeps between extrapolations: 4 need a sixth more sweeps, 8 and 12 no fewer
_FLOAT32_GAIN = 1e-4  # what one round of float32 sweeps may gain before float64 looks at the rest


@dataclass(frozen=True, slots=True)
class Ranking:
    """``scores`` (float64, n, sum 1) of PageRank, or the authorities of HITS with its ``hubs``.

    ``iterations`` counts sweeps over the links, ``residual`` is the L1 change another sweep would make,
    ``error_bound`` bounds the L1 distance to the exact vector. PageRank's is proven; that of HITS is
    estimated from how fast its sweeps contracted, infinite while they did not.
    """

    scores: NDArray[np.float64]
    iterations: int
    residual: float
    error_bound: float
    seconds: float
    converged: bool
    hubs: NDArray[np.float64] | None = None


def from_pairs(sources: ArrayLike, targets: ArrayLike, pages: int) -> tuple[Ints, Ints]:
    """``indptr`` and ``indices`` of the links *sources[k]* -> *targets[k]*, parallel links once."""
    ones = np.ones(len(np.asarray(sources)), np.bool_)
    matrix = sparse.coo_array((ones, (sources, targets)), shape=(pages, pages)).tocsr()
    matrix.sum_duplicates()
    return matrix.indptr, matrix.indices


def discount_internal(
    indptr: Ints, indices: Ints, hosts: Ints, factor: float, weights: Floats | None = None
) -> Floats:
    """Link weights in which a link inside a host counts *factor* times as much; 0 leaves it out.

    *hosts* numbers the host of each page.
    """
    internal = np.repeat(hosts, np.diff(indptr)) == hosts[indices]
    counted = np.ones(len(indices), np.float32) if weights is None else weights
    return np.where(internal, counted * np.float32(factor), counted)


def pagerank(
    indptr: Ints,
    indices: Ints,
    *,
    weights: Floats | None = None,
    damping: float = DAMPING,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    preference: ArrayLike | None = None,
    start: ArrayLike | None = None,
    exact: bool = False,
    stop: Callable[[], bool] | None = None,
    clock: Callable[[], float] | None = None,
) -> Ranking:
    """PageRank with an L1 error of at most *tolerance*, or the best vector within *max_iterations* sweeps.

    Teleports and the rank of dangling pages go to pages in proportion to *preference* (content scores, say;
    uniform by default). Dangling pages feed nothing back but their mass, and are left out of all sweeps but
    the last of a round (Del Corso, Gulli, Romani, "Fast PageRank computation via a sparse linear system",
    2005). Sweeps are float32 products; the error of a round of them is found by one float64 product and
    given to the next round (iterative refinement). *exact* computes all in float64 and reaches 1e-12.
    *start* is a previous vector, filled with its mean if shorter. *stop* is asked before each sweep; if it
    says yes, the result is the best so far, not converged.

    Time: about 1.5 ns a link and sweep; memory: 24 bytes a link while it runs. Raises `ValueError` for
    shapes that do not fit, damping outside [0, 1), and negative or infinite preference or weights.
    """
    began = clock() if clock else 0.0
    pages = _check(indptr, indices, weights)
    if not 0 <= damping < 1:
        raise ValueError(f"damping must be at least 0 and below 1, not {damping}")
    if pages == 0:
        return Ranking(np.zeros(0), 0, 0.0, 0.0, 0.0, converged=True)
    v = distribution(preference, pages, "preference")
    guess = v if start is None else distribution(filled(start, pages), pages, "start")
    out = _out_weights(indptr, weights)
    matrix = link_matrix(indptr, indices, weights, pages)
    linking: Ints | slice = slice(None)
    if np.count_nonzero(out) <= pages * _FEW_LINKING:
        linking = np.flatnonzero(out)
        matrix, out = matrix[linking], out[linking]
    turned = matrix.tocsc().T
    del matrix  # 8 bytes a link
    system = _System(turned, linking, out, damping, v, exact)
    budget = _Budget(max_iterations, stop)
    factor = damping / (1 - damping)
    scores, change = system.solve(
        guess[linking], tolerance / factor if factor else 2.0, budget, start is not None
    )
    scores = np.maximum(scores, 0)
    error = min(2.0, factor * change) if np.isfinite(change) else 2.0
    seconds = clock() - began if clock else 0.0
    return Ranking(scores / scores.sum(), budget.used, change, error, seconds, converged=error <= tolerance)


class _Budget:
    """Sweeps that may still be made."""

    def __init__(self, limit: int, stop: Callable[[], bool] | None) -> None:
        self._limit = limit
        self._stop = stop
        self.used = 0

    def is_spent(self) -> bool:
        return self.used >= self._limit or (self._stop is not None and self._stop())

    def take(self) -> bool:
        if self.is_spent():
            return False
        self.used += 1
        return True


class _System:
    """One sweep of PageRank, ``G(x) = into @ (scale * x) + (1 - damping * sum(x)) v``, x on linking pages.

    G maps all vectors of sum 1 with the part x on linking pages to the same vector of sum 1, and brings two
    such vectors closer by the damping. Hence the error of G(x) is at most damping / (1 - damping) times the
    distance of G(x) to the nearest of them: ``|r| + |sum(r)|`` with ``r = G(x) - x`` on linking pages.
    """

    def __init__(
        self, into: Any, linking: Ints | slice, out: Floats, damping: float, v: Floats, exact: bool
    ) -> None:
        fine = into.data.astype(np.float64)
        self._fine = sparse.csr_array((fine, into.indices, into.indptr), shape=into.shape)
        self._coarse = self._fine if exact else into
        if not isinstance(linking, slice):
            self._coarse = self._coarse[linking]
        kind = self._coarse.dtype
        self._linking = linking
        self._passed = np.where(out > 0, damping, 0.0)  # the share of its rank a page passes on
        self._scale = self._passed / np.where(out > 0, out, 1)
        self._v = v
        self._coarse_passed, self._coarse_scale = self._passed.astype(kind), self._scale.astype(kind)
        self._coarse_v = v[linking].astype(kind)
        self._gain = 1e-12 if exact else _FLOAT32_GAIN

    def solve(self, x: Floats, goal: float, budget: _Budget, warm: bool) -> tuple[Floats, float]:
        """The best G(x) met from x on, and its distance: at most *goal* unless budget or digits end."""
        best: Floats = self._v
        least = np.inf
        if not warm and budget.take():  # a warm start may be better than float32 can see
            rest = self._coarse_sweep(x.astype(self._coarse_scale.dtype), 1.0) - x
            x = x + self._correction(rest, _size(rest), 0.7 * goal, budget)
        while True:
            budget.used += 1  # the result needs it, whatever the limit
            # Not ``self._passed @ x``: BLAS wakes threads for that, which costs 3 ms where all else takes 1.
            y = self._fine @ (self._scale * x) + (1 - (self._passed * x).sum()) * self._v
            rest = y[self._linking] - x
            change = _size(rest)
            gained = change < 0.5 * least
            if change < least:
                best, least = y, change
            if least <= goal or not gained or budget.is_spent():
                return best, least
            x = x + self._correction(rest, change, 0.7 * goal, budget)

    def _coarse_sweep(self, x: Floats, mass: float) -> Floats:
        y: Floats = self._coarse @ (self._coarse_scale * x)
        y += (mass - self._coarse_passed @ x) * self._coarse_v
        return y

    def _correction(self, rest: Floats, size: float, goal: float, budget: _Budget) -> NDArray[np.float64]:
        """What x lacks if G(x) - x = *rest*, to within *goal* or `_FLOAT32_GAIN` of *size*.

        With L the linear part of G this is rest + L rest + L L rest ..; every `_CYCLE` terms the combination
        of them that leaves least is taken instead of their sum (reduced rank extrapolation; Sidi, "Vector
        Extrapolation Methods", 2017), which halves the sweeps: 25 to 49 where the plain sum takes 55 to 72.
        Computed with *rest* scaled to 1, so that float32 has its digits where they are needed.
        """
        terms: Floats = np.empty((_CYCLE + 1, len(rest)), self._coarse_scale.dtype)
        total = np.zeros_like(terms[0])
        enough = max(goal / max(size, 1e-300), self._gain)
        terms[0] = rest / max(size, 1e-300)
        while (left := _size(terms[0])) > enough:
            made = 0
            while made < _CYCLE and left > enough and budget.take():
                terms[made + 1] = self._coarse_sweep(terms[made], 0.0)
                made += 1
                left = _size(terms[made])
            if not made:
                break
            shares: NDArray[np.float64] = np.ones(made)  # plain sum: leaves terms[made]
            if made == _CYCLE:
                shares = _best_combination(terms)
            # x + sum(shares[k] terms[k]) leaves terms[0] - sum(shares[k] (terms[k] - terms[k + 1]))
            remains = _combine(np.diff(shares, prepend=1, append=0) * -1, terms[: made + 1])
            if _size(remains) > left:
                shares, remains = np.ones(made), terms[made].copy()
            total += _combine(shares, terms[:made])
            terms[0] = remains
        correction: NDArray[np.float64] = total.astype(np.float64) * size
        return correction


def _best_combination(terms: Floats) -> NDArray[np.float64]:
    """The c for which ``x + sum(c[k] terms[k])`` leaves least (L2), if terms[k + 1] = L terms[k]."""
    # One product of two vectors at a time: as a product of flat matrices, threads of BLAS get in the way.
    products = np.zeros((len(terms), len(terms)))
    for row, column in combinations_with_replacement(range(len(terms)), 2):
        products[row, column] = products[column, row] = np.dot(terms[row], terms[column])
    against = products[:-1] - products[1:]  # of terms[k] - terms[k + 1] with terms[l]
    gram = against[:, :-1] - against[:, 1:]
    best: NDArray[np.float64] = np.linalg.lstsq(gram, against[:, 0], rcond=1e-7)[0].astype(np.float64)
    return best


def _combine(shares: NDArray[np.float64], terms: Floats) -> Floats:
    """``sum(shares[k] terms[k])`` in the terms' precision."""
    combined: Floats = np.einsum("k,kn->n", shares.astype(terms.dtype), terms)
    return combined


def _size(rest: Floats) -> float:
    return float(np.abs(rest).sum()) + abs(float(rest.sum()))


def hits(
    indptr: Ints,
    indices: Ints,
    *,
    weights: Floats | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    content: ArrayLike | None = None,
    start: ArrayLike | None = None,
    exact: bool = True,
    stop: Callable[[], bool] | None = None,
    clock: Callable[[], float] | None = None,
) -> Ranking:
    """HITS (Kleinberg 1999): ``a = A'(c h)``, ``h = A(c a)``, both scaled to sum 1, from uniform h.

    Ends when a sweep changes a and h by at most *tolerance* (L1), or after *max_iterations* with the
    vectors of the least change. *content* weighs what a page passes on. *start* are previous **hubs**.
    Where the largest singular value is not simple, the start decides; without links the scores are uniform.
    Converges slowly on page graphs: bound it. Raises as `pagerank` does.
    """
    began = clock() if clock else 0.0
    pages = _check(indptr, indices, weights)
    if pages == 0:
        return Ranking(np.zeros(0), 0, 0.0, 0.0, 0.0, converged=True, hubs=np.zeros(0))
    kind = np.dtype(np.float64 if exact else np.float32)
    matrix = link_matrix(indptr, indices, weights, pages).astype(kind)
    turned = matrix.tocsc().T
    passed = 1 if content is None else (distribution(content, pages, "content") * pages).astype(kind)
    uniform: Floats = np.full(pages, 1 / pages, kind)
    hubs: Floats = (
        uniform if start is None else distribution(filled(start, pages), pages, "start").astype(kind)
    )
    authorities = uniform
    best = (np.inf, uniform, hubs)
    sweeps, change, ratio = 0, np.inf, 1.0
    while sweeps < max_iterations and not (stop and stop()):
        new_authorities = _scaled(turned @ (passed * hubs), uniform)
        new_hubs = _scaled(matrix @ (passed * new_authorities), uniform)
        before, change = change, _distance(new_authorities, authorities) + _distance(new_hubs, hubs)
        authorities, hubs = new_authorities, new_hubs
        sweeps += 1
        ratio = max(change / before, 0.5 * ratio) if 0 < before < np.inf else ratio
        if change <= best[0]:
            best = (change, authorities, hubs)
        if change <= tolerance:
            break
    change, authorities, hubs = best
    error = 0.0 if change == 0 else change * ratio / (1 - ratio) if ratio < 1 else np.inf
    return Ranking(
        authorities.astype(np.float64),
        sweeps,
        float(change),
        float(error),
        clock() - began if clock else 0.0,
        converged=bool(change <= tolerance),
        hubs=hubs.astype(np.float64),
    )


def _check(indptr: Ints, indices: Ints, weights: Floats | None) -> int:
    pages = len(indptr) - 1
    if pages < 0 or indptr[-1] != len(indices) or (weights is not None and len(weights) != len(indices)):
        raise ValueError(f"no CSR arrays: indptr of {len(indptr)}, {len(indices)} indices")
    if len(indices) and not (indices.min() >= 0 and indices.max() < pages):
        raise ValueError(f"links lead outside the {pages} pages")
    if weights is not None and len(weights) and not (weights.min() >= 0 and np.isfinite(weights.max())):
        raise ValueError("link weights must be finite and not negative")
    return pages


def link_matrix(indptr: Ints, indices: Ints, weights: Floats | None, pages: int) -> Any:
    data = np.ones(len(indices), np.float32) if weights is None else np.asarray(weights, np.float32)
    return sparse.csr_array((data, indices, indptr), shape=(pages, pages))


def _out_weights(indptr: Ints, weights: Floats | None) -> NDArray[np.float64]:
    if weights is None:
        return np.diff(indptr).astype(np.float64)
    out = np.zeros(len(indptr) - 1)
    rows = np.flatnonzero(np.diff(indptr))
    if len(rows):
        # as they stand in the float32 matrix: or a page would hand out a little more than it has
        out[rows] = np.add.reduceat(np.asarray(weights, np.float32).astype(np.float64), indptr[rows])
    return out


def distribution(values: ArrayLike | None, pages: int, name: str) -> NDArray[np.float64]:
    """*values* scaled to sum 1; uniform if there are none or all are 0."""
    if values is None:
        return np.full(pages, 1 / pages)
    array = np.asarray(values, np.float64)
    if array.shape != (pages,) or not np.isfinite(array).all() or array.min() < 0:
        raise ValueError(f"{name} must be {pages} finite numbers of at least 0")
    total = array.sum()
    return array / total if total > 0 else np.full(pages, 1 / pages)


def filled(start: ArrayLike, pages: int) -> NDArray[np.float64]:
    """A vector of an earlier, smaller graph for *pages* pages."""
    known = np.asarray(start, np.float64)[:pages]
    return np.concatenate((known, np.full(pages - len(known), known.mean() if len(known) else 1.0)))


def _scaled(values: Floats, otherwise: Floats) -> Floats:
    total = values.sum()
    return values / total if total > 0 else otherwise


def _distance(one: Floats, other: Floats) -> float:
    return float(np.abs(one - other).sum())
