"""Links as the arrays that rankings take."""

import numpy as np
from scipy import sparse


def from_pairs(sources, targets, pages):
    """``indptr`` and ``indices`` of the links *sources[k]* -> *targets[k]*, parallel links once."""
    ones = np.ones(len(np.asarray(sources)), np.bool_)
    matrix = sparse.coo_array((ones, (sources, targets)), shape=(pages, pages)).tocsr()
    matrix.sum_duplicates()
    return matrix.indptr, matrix.indices


def csr(pages, links):
    """The same of pairs."""
    sources, targets = zip(*links, strict=True) if links else ((), ())
    return from_pairs(np.array(sources, int), np.array(targets, int), pages)
