"""PageRank and HITS against expected vectors, other libraries, closed forms and a slow plain twin."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from link_arrays import csr, from_pairs

from scrapy_frontier.core.ranking.pagerank import hits, pagerank

GRAPHS = Path(__file__).resolve().parents[3] / "shared/data/graphs"  # beside the checkout
EXPECTED = sorted((GRAPHS / "expected").glob("*.npz"))
CASES = GRAPHS / "expected/cases.json"
EXACT = {"tolerance": 1e-10, "max_iterations": 1000}


@st.composite
def link_graphs(draw, most=12):
    """A number of pages and some links, parallel ones and self-links among them."""
    pages = draw(st.integers(1, most))
    page = st.integers(0, pages - 1)
    return pages, draw(st.lists(st.tuples(page, page), max_size=4 * most))


def l1(one, other):
    return np.abs(np.asarray(one) - np.asarray(other)).sum()


def plain_pagerank(indptr, indices, weights, preference, damping=0.85):
    """As in the textbook: a dense matrix whose every row is where a reader goes next."""
    pages = len(indptr) - 1
    matrix = np.zeros((pages, pages))
    for page in range(pages):
        for at in range(indptr[page], indptr[page + 1]):
            matrix[page, indices[at]] = weights[at]
    preference = preference / preference.sum()
    for row in matrix:
        row[:] = row / row.sum() if row.sum() else preference
    x = preference
    for _ in range(400):
        x = damping * x @ matrix + (1 - damping) * preference
    return x


# -- expected vectors --------------------------------------------------------------------------------


@pytest.mark.skipif(not EXPECTED, reason="the graphs are not here")
@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: path.name.split(".")[0])
def test_real_graphs_have_their_expected_vectors(path):
    expected = np.load(path)
    file = np.load(GRAPHS / path.name.replace(".expected", ""))
    indptr = np.concatenate(([0], np.cumsum(file["outdegree"], dtype=np.int64)))
    links = file["links"].astype(np.int64)
    if json.loads(bytes(file["header"]))["links"] == "gap":
        total = np.cumsum(links)
        links = total - np.repeat(np.concatenate(([0], total))[indptr[:-1]], np.diff(indptr))
    preference = 1 + np.arange(len(indptr) - 1) % 7
    exact = pagerank(indptr, links, **EXACT)
    assert exact.converged
    assert l1(exact.scores, expected["pagerank"]) < 1e-8
    assert (
        l1(
            pagerank(indptr, links, preference=preference, **EXACT).scores,
            expected["pagerank_weighted_teleport"],
        )
        < 1e-8
    )
    fast = pagerank(indptr, links)
    assert fast.converged
    assert l1(fast.scores, expected["pagerank"]) <= fast.error_bound + 1e-9 <= 1.001e-6
    scored = hits(indptr, links, tolerance=1e-10, max_iterations=1000)
    assert scored.converged
    assert l1(scored.scores, expected["authorities"]) < 1e-6
    assert l1(scored.hubs, expected["hubs"]) < 1e-6


@pytest.mark.skipif(not CASES.exists(), reason="the graphs are not here")
def test_small_cases():
    cases = json.loads(CASES.read_text())
    assert len(cases) >= 15
    for case in cases:
        graph = csr(case["n"], case["edges"])
        assert l1(pagerank(*graph, **EXACT).scores, case["pagerank"]) < 1e-8, case["name"]
        scored = hits(*graph, tolerance=1e-12, max_iterations=5000)
        assert np.isfinite(scored.scores).all()
        assert np.isfinite(scored.hubs).all()
        if "hubs" in case:
            assert l1(scored.hubs, case["hubs"]) < 1e-6, case["name"]
            assert l1(scored.scores, case["authorities"]) < 1e-6, case["name"]


# -- other libraries ---------------------------------------------------------------------------------


@settings(deadline=None)
@given(link_graphs(), st.data())
def test_pagerank_equals_networkx_igraph_and_the_plain_twin(graph, data):
    networkx = pytest.importorskip("networkx")
    igraph = pytest.importorskip("igraph")
    pages, links = graph
    indptr, indices = csr(pages, links)
    weights = np.array([data.draw(st.sampled_from([0.25, 1.0, 3.0])) for _ in indices], np.float32)
    preference = np.array([data.draw(st.sampled_from([0.5, 1.0, 4.0])) for _ in range(pages)])
    damping = data.draw(st.sampled_from([0.0, 0.5, 0.85, 0.95]))
    pairs = list(zip(np.repeat(np.arange(pages), np.diff(indptr)).tolist(), indices.tolist(), strict=True))
    ours = pagerank(indptr, indices, weights=weights, preference=preference, damping=damping, **EXACT)
    assert ours.converged
    assert l1(ours.scores, plain_pagerank(indptr, indices, weights, preference, damping)) < 1e-8

    drawn = networkx.DiGraph()
    drawn.add_nodes_from(range(pages))
    drawn.add_weighted_edges_from((s, t, float(w)) for (s, t), w in zip(pairs, weights, strict=True))
    theirs = networkx.pagerank(drawn, damping, dict(enumerate(preference)), max_iter=2000, tol=1e-13)
    assert l1(ours.scores, [theirs[page] for page in range(pages)]) < 1e-8
    drawn = igraph.Graph(pages, pairs, directed=True)
    theirs = drawn.pagerank(damping=damping, weights=weights.tolist() or None)
    uniform = pagerank(indptr, indices, weights=weights, damping=damping, **EXACT)
    assert l1(uniform.scores, theirs) < 1e-8


@settings(deadline=None)
@given(link_graphs())
def test_hits_equals_the_singular_vectors_if_they_are_unique(graph):
    pages, links = graph
    indptr, indices = csr(pages, links)
    matrix = np.zeros((pages, pages))
    for page in range(pages):
        matrix[page, indices[indptr[page] : indptr[page + 1]]] = 1
    left, values, right = np.linalg.svd(matrix)
    assume(values[0] > 0 and (pages == 1 or values[1] < 0.95 * values[0]))
    ours = hits(indptr, indices, tolerance=1e-12, max_iterations=5000)
    assert l1(ours.scores, np.abs(right[0]) / np.abs(right[0]).sum()) < 1e-6
    assert l1(ours.hubs, np.abs(left[:, 0]) / np.abs(left[:, 0]).sum()) < 1e-6


# -- closed forms ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3, 50, 1000])
def test_a_star_and_a_ring(size):
    r"""
    ::

        1  2  3         0 -> 1
         \ | /          ^    |
           0            3 <- 2
    """
    star = pagerank(*csr(size, [(page, 0) for page in range(1, size)]))
    leaf = 1 / (size + 0.85 * (size - 1))  # x = (1 - a + a centre) / n and centre = x + a (n - 1) x
    assert l1(star.scores, [leaf * (1 + 0.85 * (size - 1)), *[leaf] * (size - 1)]) <= star.error_bound + 1e-12
    ring = pagerank(*csr(size, [(page, (page + 1) % size) for page in range(size)]))
    assert l1(ring.scores, np.full(size, 1 / size)) <= 1e-6


# -- promises ----------------------------------------------------------------------------------------


def test_a_bound_is_told_as_what_it_is() -> None:
    indptr, indices = np.array([0, 2, 3, 4]), np.array([1, 2, 2, 0])
    assert pagerank(indptr, indices).error.startswith("at most ")
    assert hits(indptr, indices).error.startswith("about ")


@settings(deadline=None)
@given(link_graphs(40), st.sampled_from([1e-2, 1e-4, 1e-6]), st.integers(1, 60))
def test_the_true_error_never_exceeds_the_bound(graph, tolerance, limit):
    indptr, indices = csr(*graph)
    truth = pagerank(indptr, indices, tolerance=1e-12, max_iterations=2000).scores
    result = pagerank(indptr, indices, tolerance=tolerance, max_iterations=limit)
    assert l1(result.scores, truth) <= result.error_bound + 1e-11
    assert result.converged == (result.error_bound <= tolerance)
    assert result.iterations <= limit + 1
    assert result.scores.sum() == pytest.approx(1)


def big_graph(pages=3000, seed=1):
    rng = np.random.default_rng(seed)
    sources = np.repeat(np.arange(pages), rng.integers(0, 9, pages))
    targets = (rng.pareto(0.7, len(sources)) * 5).astype(np.int64) % pages
    return from_pairs(sources, targets, pages)


def test_it_stops_when_told_and_keeps_what_it_has():
    calls = []
    result = pagerank(*big_graph(), stop=lambda: calls.append(1) or len(calls) > 5)
    assert not result.converged
    assert result.iterations <= 7
    assert result.error_bound < 2
    halted = hits(*big_graph(), stop=lambda: True)
    assert not halted.converged
    assert halted.scores.sum() == pytest.approx(1)


def test_hits_that_does_not_converge_keeps_the_vectors_of_the_least_change():
    result = hits(*big_graph(), max_iterations=3, tolerance=0)
    assert not result.converged
    assert result.iterations == 3
    assert 0 < hits(*big_graph(), max_iterations=400).error_bound < result.error_bound


def test_content_weighs_what_a_page_passes_on():
    """Two hubs of equal reach: the authority of the better hub's page grows with its content score."""
    graph = csr(5, [(0, 2), (0, 3), (1, 3), (1, 4)])
    scores = hits(*graph, content=[4, 1, 1, 1, 1], tolerance=1e-12).scores
    assert scores[2] > scores[4]
    assert hits(*graph, content=[2, 2, 2, 2, 2]).scores == pytest.approx(hits(*graph).scores)


@pytest.mark.parametrize("rank", [pagerank, hits])
def test_degenerate_graphs_give_finite_scores(rank):
    empty = rank(np.zeros(1, int), np.zeros(0, int))
    assert len(empty.scores) == 0
    assert empty.converged
    for pages in (1, 2, 1000):
        result = rank(np.zeros(pages + 1, int), np.zeros(0, int))
        assert result.converged
        assert l1(result.scores, np.full(pages, 1 / pages)) < 1e-9
