"""PageRank of a crawl half done, against a plain twin and where it must equal PageRank itself."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from link_arrays import csr

from scrapy_frontier.core.ranking.pagerank import _LIKE, _OWN, pagerank


@st.composite
def crawls(draw, most=10):
    """Links of the pages that were read (some of which have none), and which those are."""
    pages = draw(st.integers(1, most))
    read = np.array(draw(st.lists(st.booleans(), min_size=pages, max_size=pages)))
    page = st.integers(0, pages - 1)
    links = draw(st.lists(st.tuples(page, page), max_size=4 * most))
    return read, csr(pages, [link for link in links if read[link[0]]])


def plain_twin(indptr, indices, weights, read, preference, damping):
    """Where a reader goes next, page by page: `rows[u]` is what page u passes on."""
    pages = len(read)
    links = np.zeros((pages, pages))
    for page in range(pages):
        here = slice(indptr[page], indptr[page + 1])
        links[page, indices[here]] = weights[here]
    rows = np.zeros((pages, pages))
    for page in range(pages):
        if links[page].sum():
            rows[page] = links[page] / links[page].sum()
    for page in np.flatnonzero(~read):
        guess = np.zeros(pages)
        for parent in np.flatnonzero(links[:, page]):
            beside = links[parent] * read
            itself = np.arange(pages) == page
            lent = beside @ rows + _OWN * np.where(itself, 0, rows[parent])
            guess += links[parent, page] / links[:, page].sum() * lent / (beside.sum() + _OWN)
        rows[page] = _LIKE * guess
    x = preference = preference / preference.sum()
    for _ in range(300):
        x = damping * x @ rows
        x = x + (1 - x.sum()) * preference
    return x


@given(crawls(), st.randoms(use_true_random=False))
def test_pagerank_of_pages_half_read_equals_a_plain_twin_to_within_its_bound(crawl, rng):
    read, (indptr, indices) = crawl
    weights = np.array([rng.choice([0.0, 0.5, 1.0, 1.0]) for _ in indices])
    preference = np.array([rng.choice([0.1, 1.0, 2.0]) for _ in read])
    expected = plain_twin(indptr, indices, weights, read, preference, 0.9)
    found = pagerank(
        indptr, indices, read=read, weights=weights, damping=0.9, tolerance=1e-2, preference=preference
    )
    assert found.converged
    assert np.abs(found.scores - expected).sum() <= found.error_bound + 1e-5 <= 1e-2 + 1e-5


@given(crawls())
def test_where_all_is_read_nothing_is_guessed(crawl):
    _, graph = crawl
    read = np.ones(len(graph[0]) - 1, bool)
    found = pagerank(*graph, read=read, damping=0.85, tolerance=0.05)
    assert np.abs(found.scores - pagerank(*graph).scores).sum() < 0.05


def half_read(pages_of_menu):
    """A list links to 20 pages; half were read, and *pages_of_menu* of these link to page 21, the menu."""
    links = [(0, page) for page in range(1, 21)] + [(page, 21) for page in range(1, 1 + pages_of_menu)]
    read = (np.arange(22) <= 10) | (np.arange(22) == 21)
    return csr(22, links), read


def test_unread_pages_are_thought_to_link_where_the_pages_beside_them_do():
    graph, read = half_read(10)
    found = pagerank(*graph, read=read, damping=0.9, tolerance=0.02).scores
    plain = pagerank(*graph, damping=0.9).scores
    assert found[21] / plain[21] > 1.25  # all of 20 pages link there, as it seems, instead of ten


def test_beside_pages_without_links_nobody_is_thought_to_have_many():
    menu = [
        pagerank(*graph, read=read, damping=0.9, tolerance=0.02).scores[21]
        for graph, read in map(half_read, (1, 10))
    ]
    assert menu[0] < menu[1] / 3


def test_the_bound_is_the_error_where_no_rank_goes_from_one_part_to_another():
    """From a start in one of two pairs, damping alone brings the rank nearer to what it should be."""
    pairs = csr(4, [(0, 1), (1, 0), (2, 3), (3, 2)])
    found = pagerank(*pairs, read=np.ones(4, bool), damping=0.9, tolerance=0.1, start=[1, 1, 0, 0])
    error = np.abs(found.scores - 0.25).sum()
    assert 0.99 * error < found.error_bound < 1.01 * error
