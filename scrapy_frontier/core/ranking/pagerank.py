"""PageRank: arrays in, scores and what is known of their error out.

`matrix` says how links come. A page without links is *dangling*, and its rank goes to all pages as teleports
do ("strongly preferential" in Boldi, Posenato, Santini, Vigna 2008).

The links of a crawl as arrays and matrices, and what a ranking answers.

Links come as CSR arrays: page i links to ``indices[indptr[i]:indptr[i + 1]]``. Conventions, the same as in
networkx and igraph: self-links count; parallel links count once, so no target may stand twice in a row; a
link of weight 0 is no link.

Only NumPy and SciPy, whose sparse products release the interpreter's lock; nothing in this room reads a
clock.

HITS: hubs and authorities; arrays in, scores and what is known of their error out.

PageRank of a crawl half done: unread pages are thought to link, not to end all walks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    Floats = NDArray[np.floating]
    Ints = NDArray[np.signedinteger]
    Weights = Floats | None  # of links; None: 1 each
    Stop = Callable[[], bool] | None  # asked before each sweep: whether to end with the best so far


@dataclass(frozen=True, slots=True)
class Ranking:
    """``scores`` (float64, n, sum 1) of PageRank, or the authorities of HITS with its ``hubs``.

    ``iterations`` counts sweeps over the links, ``error_bound`` bounds the L1 distance to the exact vector.
    PageRank's is proven; that of HITS is estimated from how fast its sweeps contracted, infinite while they
    did not.
    """

    scores: NDArray[np.float64]
    iterations: int
    error_bound: float
    converged: bool
    hubs: NDArray[np.float64] | None = None

    @property
    def error(self) -> str:
        """``error_bound`` in words: "at most" where it is proven, "about" where it is estimated."""
        return f"{'at most' if self.hubs is None else 'about'} {self.error_bound:.1e}"


class Matrix(Protocol):
    """What is used here of a sparse array of SciPy, which ships no types. `T` shares its arrays,
    `power` is of each value by itself."""

    @property
    def T(self) -> Matrix: ...  # noqa: N802 - SciPy's name
    def tocsc(self) -> Matrix: ...
    def astype(self, kind: np.dtype[np.floating]) -> Matrix: ...
    def power(self, exponent: int) -> Matrix: ...
    def __matmul__(self, vector: Floats) -> Floats: ...


def checked(indptr: Ints, indices: Ints, weights: Weights) -> int:
    """How many pages these CSR arrays have. Raises `ValueError` where they are none. O(links)."""
    pages = len(indptr) - 1
    if pages < 0 or indptr[-1] != len(indices) or (weights is not None and len(weights) != len(indices)):
        raise ValueError(f"no CSR arrays: indptr of {len(indptr)}, {len(indices)} indices")
    if len(indices) and not (indices.min() >= 0 and indices.max() < pages):
        raise ValueError(f"links lead outside the {pages} pages")
    if weights is not None and len(weights) and not (weights.min() >= 0 and np.isfinite(weights.max())):
        raise ValueError("link weights must be finite and not negative")
    return pages


def link_matrix(indptr: Ints, indices: Ints, weights: Weights, pages: int) -> Matrix:
    """The links as a SciPy CSR array, *pages* by *pages*, float32: the weight of each link, or 1."""
    data = np.ones(len(indices), np.float32) if weights is None else np.asarray(weights, np.float32)
    matrix: Matrix = sparse.csr_array((data, indices, indptr), shape=(pages, pages))
    return matrix


def distribution(values: ArrayLike | None, pages: int, name: str) -> NDArray[np.float64]:
    """*values* scaled to sum 1; uniform if there are none or all are 0.

    Raises `ValueError`, with *name* for what they are, unless they are *pages* finite numbers of at least 0.
    """
    if values is None:
        return np.full(pages, 1 / pages)
    array = np.asarray(values, np.float64)
    if array.shape != (pages,) or not np.isfinite(array).all() or array.min() < 0:
        raise ValueError(f"{name} must be {pages} finite numbers of at least 0")
    total = array.sum()
    return array / total if total > 0 else np.full(pages, 1 / pages)


def filled(start: ArrayLike, pages: int) -> NDArray[np.float64]:
    """A vector of an earlier, smaller graph for *pages* pages: those it lacks get its mean, 1 where it is
    empty."""
    known = np.asarray(start, np.float64)[:pages]
    return np.concatenate((known, np.full(pages - len(known), known.mean() if len(known) else 1.0)))


def scaled(values: Floats, otherwise: Floats) -> Floats:
    """*values* to a sum of 1; *otherwise*, unchanged, where their sum is 0."""
    total = values.sum()
    return values / total if total > 0 else otherwise


def distance(one: Floats, other: Floats) -> float:
    """How far two vectors of one length are apart in the L1 norm: the sum of the differences."""
    return float(np.abs(one - other).sum())


DAMPING = 0.85
_FEW_LINKING = 0.6  # above this share of linking pages, picking them out costs more than it saves
_CYCLE = 9  # sweeps between extrapolations: 10 and 12 need no fewer sweeps
_SMOOTHING = 3  # of them only smooth: as few sweeps as with 6 that all count, and fewer extrapolations
_BLOCK = 10_000  # pages at a time: OpenBLAS then multiplies in its caller's thread, and the cache holds them
_GAIN = 1e-4  # what a round of float32 sweeps may gain before float64 looks at the rest


def pagerank(
    indptr: Ints,
    indices: Ints,
    *,
    weights: Weights = None,
    damping: float = DAMPING,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    preference: ArrayLike | None = None,
    start: ArrayLike | None = None,
    stop: Stop = None,
) -> Ranking:
    """PageRank with an L1 error of at most *tolerance*, or the best vector within *max_iterations* sweeps.

    It is the vector x of sum 1 with ``x = d P x + (d m + 1 - d) v``: d is the *damping*; P hands the rank of
    a page to those it links, in proportion to *weights*; m is the rank of pages without links, which goes
    where the teleports go, by v, the *preference* (content scores, say; uniform by default) scaled to sum 1
    (Page, Brin, Motwani, Winograd, "The PageRank Citation Ranking", 1999).

    *start* is a previous vector, filled with its mean if shorter. *stop* is asked before each sweep; if it
    says yes, the result is the best so far, not converged. Sweeps are float32 products; what a round of them
    leaves is found by one float64 product and given to the next round (iterative refinement), which reaches
    1e-12 if asked to.

    Time: about 1 ns a link and sweep; memory: 12 bytes a link and 100 a page while it runs. Raises
    `ValueError` for shapes that do not fit, damping outside [0, 1), and negative or infinite preference or
    weights.
    """
    pages = checked(indptr, indices, weights)
    if not 0 <= damping < 1:
        raise ValueError(f"damping must be at least 0 and below 1, not {damping}")
    if pages == 0:
        return Ranking(np.zeros(0), 0, 0.0, converged=True)
    v = distribution(preference, pages, "preference")
    guess = v if start is None else distribution(filled(start, pages), pages, "start")
    system = _System(indptr, indices, weights, damping, v)
    budget = _Budget(max_iterations, stop)
    factor = damping / (1 - damping)
    scores, change = system.solve(guess, tolerance / factor if factor else np.inf, budget)
    scores = np.maximum(scores, 0)
    error = min(2.0, factor * change) if np.isfinite(change) else 2.0
    return Ranking(scores / scores.sum(), budget.used, error, converged=error <= tolerance)


class _Budget:
    """Sweeps that may still be made."""

    def __init__(self, limit: int, stop: Stop) -> None:
        self._limit = limit
        self._stop = stop
        self.used = 0

    def is_spent(self) -> bool:
        """Whether none is left, or *stop* says so, which is asked each time."""
        return self.used >= self._limit or (self._stop is not None and self._stop())

    def take(self) -> bool:
        """Whether one more may be made; it counts."""
        if self.is_spent():
            return False
        self.used += 1
        return True


class _System:
    """PageRank as a linear system, ``y = A y + c v``: A has the links, weighted and damped, y is on the
    linking pages and scaled as it comes.

    Dangling pages feed nothing back but their mass, which is a part of c (Del Corso, Gulli, Romani, "Fast
    PageRank computation via a sparse linear system", 2005); if many, they are left out of all sweeps but the
    first and last of a round.

    How near y is shows one such sweep, ``full = A y + c v``. It changes y by r on linking pages. Put y
    in place of the linking part of full: that is x, scaled to its sum, s. PageRank's own sweep makes of x
    ``(full - sum(r) v) / s``, which differs from x by at most ``(|r| + |sum(r)|) / s``; and as it brings two
    vectors of sum 1 closer by the damping, its error is at most damping / (1 - damping) times that.
    """

    def __init__(
        self, indptr: Ints, indices: Ints, weights: Weights, damping: float, v: NDArray[np.float64]
    ) -> None:
        pages, degrees = len(v), np.diff(indptr)
        out = _out_weights(indptr, weights)
        passed = _spread(damping / np.where(out > 0, out, 1), degrees)
        if weights is not None:
            passed *= np.asarray(weights, np.float32)
        # By column, as the links come: as fast as by row, and nothing has to be turned first.
        if np.count_nonzero(degrees) > pages * _FEW_LINKING:
            self._linking: Ints | slice = slice(None)
            self._whole = sparse.csc_array((passed, indices, indptr), shape=(pages, pages))
            ends = self._whole.indptr  # shared, as are the indices
            coarse = passed.astype(np.float32)
            self._core = sparse.csc_array((coarse, self._whole.indices, ends), shape=(pages, pages))
        else:
            linking = self._linking = np.flatnonzero(degrees)
            ends = np.append(indptr[linking], indptr[-1:])
            self._whole = sparse.csc_array((passed, indices, ends), shape=(pages, len(linking)))
            self._core = self._whole[linking]
            self._core.data = self._core.data.astype(np.float32)
        self._rate = -math.log(max(damping, 1e-9))  # the least a sweep gains
        self._v = v
        self._inside = v[self._linking]
        self._weight = float(self._inside.sum())
        self._free: Floats = (self._inside / max(self._weight, 1e-9)).astype(np.float32)
        self._terms: Floats = np.empty((_CYCLE + 1, len(self._inside)), np.float32)

    def solve(
        self, guess: NDArray[np.float64], goal: float, budget: _Budget
    ) -> tuple[NDArray[np.float64], float]:
        """The best vector met from *guess* on, and its change: at most *goal* unless budget or digits end."""
        y = guess[self._linking]
        if not y.any():  # what only pages without links have leads nowhere
            y = self._inside
        best, least = self._v, np.inf
        while True:
            budget.used += 1  # the result needs it, whatever the limit
            full = self._whole @ y
            lost = y - full[self._linking]
            c = float(lost.sum()) / self._weight if self._weight > 1e-9 else 1.0  # the former: r sums to 0
            rest = c * self._inside - lost
            full += (c - rest.sum()) * self._v
            total = full.sum()  # s
            change = _size(rest) / total if total > 0 else np.inf
            gained = change < 0.5 * least
            if change < least:
                best, least = full / total, change
            if least <= goal or not gained or budget.is_spent():
                return best, float(least)
            y = y + self._correction(rest, 0.7 * goal * total, budget)

    def _correction(self, rest: NDArray[np.float64], goal: float, budget: _Budget) -> NDArray[np.float64]:
        """What y lacks if a sweep changes it by *rest*, to within *goal* or `_GAIN` of *rest*.

        That is rest + M rest + M M rest .., with M the matrix; every `_CYCLE` terms the combination of them
        that leaves least is taken instead of their sum (reduced rank extrapolation; Sidi, "Vector
        Extrapolation Methods", 2017), which halves the sweeps: 20 to 42 where the plain sum takes 29 to 72.
        Computed with *rest* scaled to 1, so that float32 has its digits where they are needed.
        """
        size = _size(rest)
        goal = max(goal / max(size, 1e-300), _GAIN)
        terms = self._terms  # one for all rounds: fresh memory is a tenth of the time at 10,000 pages
        correction: Floats = np.zeros(len(rest), np.float32)
        terms[0] = rest / max(size, 1e-300)
        left, rate = 1.0 if size else 0.0, self._rate
        while left > goal:
            wanted = min(max(math.ceil(math.log(left / goal) / rate), 2), _CYCLE)
            made = 0
            while made < wanted and budget.take():
                terms[made + 1] = self._core @ terms[made]
                made += 1
            if not made:
                break
            # y + sum(shares[k] terms[k]) leaves terms[0] - sum(shares[k] (terms[k] - terms[k + 1]))
            shares = np.zeros((2, made + 1), np.float32)
            shares[0, :made] = _best_shares(terms[: made + 1])
            shares[1, 0] = 1
            shares[1] -= shares[0]
            shares[1, 1:] += shares[0, :made]
            step, remains = _combine(shares, terms[: made + 1])
            remains -= remains.sum() * self._free  # c is free
            size_left = _size(remains)
            if not size_left < left:
                step, remains = terms[:made].sum(axis=0), terms[made] - terms[made].sum() * self._free
                size_left = _size(remains)
            correction += step
            terms[0] = remains
            before, left = left, size_left
            rate = max(math.log(before / max(left, 1e-300)) / made, self._rate)
        return correction.astype(np.float64) * size


def _best_shares(terms: Floats) -> NDArray[np.float64]:
    """The c for which ``y + sum(c[k] terms[k])`` leaves least (L2), if terms[k + 1] = M terms[k].

    The first `_SMOOTHING` of them are 1.
    """
    made = len(terms) - 1
    first = min(_SMOOTHING, made - 1)
    pairs, at, to = _pairs(made + 1 - first)
    values = np.zeros(len(pairs))
    for block in _blocks(terms[first:]):
        rows = list(block)  # a product of matrices takes twice as long for so few
        values += [rows[one].dot(rows[other]) for one, other in pairs]
    products = np.empty((made + 1 - first, made + 1 - first))
    products[at, to] = products[to, at] = values
    against = products[:-1] - products[1:]  # of terms[k] - terms[k + 1] with terms[l]
    gram = against[:, :-1] - against[:, 1:]
    gram.flat[:: len(gram) + 1] += 1e-7 * gram.trace() + 1e-300  # as precise as float32, and never singular
    shares = np.ones(made)
    shares[first:] = np.linalg.solve(gram, against[:, 0])
    return shares


@cache
def _pairs(rows: int) -> tuple[list[tuple[int, int]], Ints, Ints]:
    pairs = list(combinations_with_replacement(range(rows), 2))
    at, to = np.array(pairs).T
    return pairs, at, to


def _combine(shares: Floats, terms: Floats) -> Floats:
    """``sum(shares[., k] terms[k])`` for each row of *shares*."""
    combined = np.empty((len(shares), terms.shape[1]), terms.dtype)
    for into, block in zip(_blocks(combined), _blocks(terms), strict=True):
        np.matmul(shares, block, out=into)
    return combined


def _spread(values: Floats, degrees: Ints) -> Floats:
    """The value of its page for each link: ``np.repeat``, some pages at a time.

    It holds the interpreter's lock, for 23 ms and more where there are 10,000,000 links.
    """
    parts = range(0, len(values), _BLOCK)
    if len(parts) == 1:
        return np.repeat(values, degrees)
    spread = np.empty(int(degrees.sum()), values.dtype)
    begin = 0
    for first in parts:
        part = np.repeat(values[first : first + _BLOCK], degrees[first : first + _BLOCK])
        spread[begin : begin + len(part)] = part
        begin += len(part)
    return spread


def _blocks(terms: Floats) -> Iterator[Floats]:
    """Some columns at a time: for more, BLAS wakes threads, which costs 3 ms where all else takes 1."""
    for first in range(0, terms.shape[1], _BLOCK):
        yield terms[:, first : first + _BLOCK]


def _size(rest: Floats) -> float:
    return float(np.abs(rest).sum()) + abs(float(rest.sum()))


def _out_weights(indptr: Ints, weights: Weights) -> NDArray[np.float64]:
    if weights is None:
        return np.diff(indptr).astype(np.float64)
    out = np.zeros(len(indptr) - 1)
    rows = np.flatnonzero(np.diff(indptr))
    if len(rows):
        # as they stand in the float32 matrix: or a page would hand out a little more than it has
        out[rows] = np.add.reduceat(np.asarray(weights, np.float32).astype(np.float64), indptr[rows])
    return out


def hits(
    indptr: Ints,
    indices: Ints,
    *,
    weights: Weights = None,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    content: ArrayLike | None = None,
    exact: bool = True,
    stop: Stop = None,
) -> Ranking:
    """HITS (Kleinberg 1999): ``a = A'(c h)``, ``h = A(c a)``, both scaled to sum 1, from uniform h.

    Ends when a sweep changes a and h by at most *tolerance* (L1), or after *max_iterations* with the vectors
    of the least change, as it does once *stop*, asked before each sweep, says so. *content* weighs what a
    page passes on; *exact* computes in float64, else float32. Where the largest singular value is not simple,
    uniform h decides; without links the scores are uniform. Converges slowly on page graphs: bound it. Raises
    as `pagerank` does.
    """
    pages = checked(indptr, indices, weights)
    if pages == 0:
        return Ranking(np.zeros(0), 0, 0.0, converged=True, hubs=np.zeros(0))
    kind = np.dtype(np.float64 if exact else np.float32)
    matrix = link_matrix(indptr, indices, weights, pages).astype(kind)
    turned = matrix.tocsc().T
    passed = 1 if content is None else (distribution(content, pages, "content") * pages).astype(kind)
    uniform: Floats = np.full(pages, 1 / pages, kind)
    hubs = authorities = uniform
    best = (np.inf, uniform, hubs)
    sweeps, change, ratio = 0, np.inf, 1.0
    while sweeps < max_iterations and not (stop and stop()):
        new_authorities = scaled(turned @ (passed * hubs), uniform)
        new_hubs = scaled(matrix @ (passed * new_authorities), uniform)
        before, change = change, distance(new_authorities, authorities) + distance(new_hubs, hubs)
        authorities, hubs = new_authorities, new_hubs
        sweeps += 1
        ratio = max(change / before, 0.5 * ratio) if 0 < before < np.inf else ratio
        if change <= best[0]:
            best = (change, authorities, hubs)
        if change <= tolerance:
            break
    change, authorities, hubs = best
    error = 0.0 if change == 0 else change * ratio / (1 - ratio) if ratio < 1 else np.inf
    scores = authorities.astype(np.float64)
    return Ranking(scores, sweeps, float(error), bool(change <= tolerance), hubs.astype(np.float64))


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
