"""The links of a crawl as arrays and matrices, and what a ranking answers.

Links come as CSR arrays: page i links to ``indices[indptr[i]:indptr[i + 1]]``. Conventions, the same as in
networkx and igraph: self-links count; parallel links count once, so no target may stand twice in a row; a
link of weight 0 is no link.

Only NumPy and SciPy, whose sparse products release the interpreter's lock; nothing in this room reads a
clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

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
