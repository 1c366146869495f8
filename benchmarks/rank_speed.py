"""PageRank to an L1 error of 1e-6 against the bare float32 product loop of SciPy, on all graphs of a folder.

The bare loop has its matrix ready, never looks how near it is, and is given the number of sweeps after
which the proven bound damping / (1 - damping) * change first meets 1e-6, found beforehand in float64. Ours
includes checks, building the matrix, and a proven error bound; "ratio" counts all that against it. "alike" is
ours over the same loop from the same arrays, building its matrix and taking the change of each sweep. The
least processor seconds of alternating runs, which a busy machine changes least: by the clock, what takes
longer than a time slice also waits for its next one. "true" is the L1 distance to an exact run.

    python benchmarks/rank_speed.py [--folder FOLDER] [NAME ...]
"""

from __future__ import annotations

import time

import graphs
import numpy as np
from scipy import sparse

from scrapy_frontier.core.ranking.pagerank import DAMPING, hits, pagerank

RUNS = 7  # at the least; as many as two seconds hold where one takes milliseconds


def product_matrix(indptr, indices, dtype):
    degrees = np.diff(indptr)
    share = np.where(degrees > 0, DAMPING / np.maximum(degrees, 1), 0)
    pages = len(degrees)
    links = sparse.csr_array((np.repeat(share, degrees).astype(dtype), indices, indptr), shape=(pages, pages))
    return links.T.tocsr()


def sweep(matrix, x):
    y = matrix @ x
    y += (1 - y.sum()) / x.dtype.type(len(x))
    return y


def sweeps_needed(matrix):
    x = np.full(matrix.shape[0], 1 / matrix.shape[0])
    for count in range(1, 1000):
        y = sweep(matrix, x)
        if np.abs(y - x).sum() * DAMPING / (1 - DAMPING) <= 1e-6:
            return count
        x = y
    raise AssertionError("no convergence")


def bare(matrix, sweeps):
    x = np.full(matrix.shape[0], 1 / matrix.shape[0], np.float32)
    for _ in range(sweeps):
        x = sweep(matrix, x)
    return x


def from_arrays(indptr, indices, sweeps):
    """The bare loop with what it takes to know when to stop."""
    matrix = product_matrix(indptr, indices, np.float32)
    x = np.full(matrix.shape[0], 1 / matrix.shape[0], np.float32)
    for _ in range(sweeps):
        y = sweep(matrix, x)
        np.abs(y - x).sum()
        x = y
    return x


def timed(call):
    started = time.process_time()
    result = call()
    return time.process_time() - started, result


def main():
    folder, names = graphs.chosen(__doc__)
    print(
        f"{'graph':14}{'bare s':>9}{'sweeps':>7}{'true':>9}{'ours s':>9}{'sweeps':>7}{'true':>9}"
        f"{'bound':>9}{'ratio':>7}{'alike':>7}{'HITS s':>9}{'sweeps':>7}"
    )
    for name in names:
        graph = graphs.load(name, folder)
        indptr, indices = graph.indptr.astype(np.int32), graph.indices.astype(np.int32)
        sweeps = sweeps_needed(product_matrix(indptr, indices, np.float64))
        matrix = product_matrix(indptr, indices, np.float32)
        truth = pagerank(indptr, indices, tolerance=1e-11, max_iterations=500).scores
        runs = [
            (
                timed(lambda m=matrix, s=sweeps: bare(m, s)),
                timed(lambda g=(indptr, indices): pagerank(*g)),
            )
            for _ in range(min(max(RUNS, 10_000_000 // len(indices)), 300))
        ]
        bare_s, ours_s = (min(run[k][0] for run in runs) for k in (0, 1))
        alike_s = min(timed(lambda g=(indptr, indices), s=sweeps: from_arrays(*g, s))[0] for _ in runs)
        plain, ours = runs[0][0][1], runs[0][1][1]
        hits_s, scored = timed(lambda g=(indptr, indices): hits(*g, max_iterations=1000))
        print(
            f"{name:14}{bare_s:9.4f}{sweeps:7}{np.abs(plain - truth).sum():9.1e}{ours_s:9.4f}"
            f"{ours.iterations:7}{np.abs(ours.scores - truth).sum():9.1e}{ours.error_bound:9.1e}"
            f"{ours_s / bare_s:7.2f}{ours_s / alike_s:7.2f}{hits_s:9.3f}{scored.iterations:7}"
        )


if __name__ == "__main__":
    main()
