"""HITS: hubs and authorities; arrays in, scores and what is known of their error out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .matrix import Ranking, checked, distance, distribution, link_matrix, scaled

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .matrix import Floats, Ints, Stop, Weights


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
