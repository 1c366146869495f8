"""Scores, a page at a time, after rankings and across restarts."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from link_arrays import csr
from scrapy.utils.misc import load_object

from scrapy_frontier.core.ranking.default_scorer import Mixed
from scrapy_frontier.core.ranking.other_scorers import Cash, Hits, PageRank
from scrapy_frontier.core.ranking.pagerank import hits, pagerank
from scrapy_frontier.core.ranking.scorer import MIN_RAISE, buckets, scores_of
from scrapy_frontier.core.store.keys import bucket
from scrapy_frontier.settings import SCORERS

SCORING = ["cash", "pagerank", "hits", "mixed"]
LINKS = {0: [1, 2, 3], 1: [2], 2: [0, 4], 3: [2, 5]}


def made(name):
    return load_object(SCORERS[name])()


def crawl(scorer, links, order):
    """Parse the pages in *order*; all targets are discovered on the way. Returns the last changes."""
    scorer.discovered(0)
    changed, found = {}, 1
    for page in order:
        while found <= max(links[page], default=0):
            scorer.discovered(found, page)
            found += 1
        changed.update(scorer.parsed(page, links[page]))
    return changed


def rank(scorer, links, order, pages):
    graph = csr(pages, [(page, target) for page in order for target in links[page]])
    return graph, scorer.rank(*graph)


def take_over(scorer, ranking):
    scorer.adopt(scorer.prepare(ranking))
    return scorer.current_scores(np.arange(scorer.known))


# -- buckets -----------------------------------------------------------------------------------------


@given(st.floats(), st.floats())
def test_buckets_keep_the_order_of_scores(one, other):
    if one <= other:
        assert bucket(one) <= bucket(other)
    assert buckets(np.array([one, other])).tolist() == [bucket(one), bucket(other)]


def test_a_doubling_is_1024_buckets():
    scores = [math.nan, -1.0, 0.0, 1e-99, 2.0**-40, 1.0, 2.0, 2.0**23, 1e30, math.inf, 10**400]
    codes = [0, 0, 0, 1, 1, 40960, 41984, 64512, 65535, 65535, 65535]
    assert [bucket(score) for score in scores] == codes


@given(st.integers(0, 0xFFFF))
def test_a_bucket_survives_being_a_score(code):
    (score,) = scores = scores_of(np.array([code], np.uint16))
    assert buckets(scores).tolist() == [bucket(score)] == [code]


# -- a page at a time --------------------------------------------------------------------------------


def test_every_scorer_has_a_name():
    assert list(SCORERS) == ["mixed", "pagerank", "hits", "cash", "fifo"]
    for name in SCORERS:
        assert made(name).discovered(0) >= 0
        assert made(name).parsed(0, []) == []
    assert made("fifo").discovered(5, 1) == made("fifo").discovered(6, 1)


def test_cash_follows_links_weights_and_content():
    scorer = Cash()
    assert crawl(scorer, {0: [1, 2], 1: [3], 2: [3]}, [0, 1, 2]) == {
        1: pytest.approx(0.425),
        2: pytest.approx(0.425),
        3: pytest.approx(2 * 0.425 * 0.85),
    }
    scorer = Cash()
    for node in range(4):
        scorer.discovered(node, None if node == 0 else 0)
    scorer.content_scored(0, 2.0)
    assert dict(scorer.parsed(0, [1, 2, 3], [3.0, 1.0, 0.0])) == {
        1: pytest.approx(2 * 0.85 * 0.75),
        2: pytest.approx(2 * 0.85 * 0.25),
    }


@given(st.lists(st.lists(st.integers(0, 40), unique=True, max_size=6), min_size=1, max_size=30))
def test_cash_equals_a_plain_twin(rows):
    scorer, twin = Cash(), {0: 1.0}
    for node in range(41):
        scorer.discovered(node, None if node == 0 else 0)
    for page, row in enumerate(rows):
        changes = dict(scorer.parsed(page, row))
        share = 0.85 * twin.get(page, 0.0) / max(len(row), 1)
        for target in row:
            twin[target] = twin.get(target, 0.0) + share
        assert set(changes) <= {target for target in row if target > page}, "only of queued pages"
        for target, score in changes.items():
            assert score == pytest.approx(twin[target], rel=1e-4)


@pytest.mark.parametrize("name", SCORING)
@pytest.mark.parametrize("weights", [None, [1.0, 2.0]])
def test_a_page_that_is_read_again_pays_only_what_it_links_newly(name, weights):
    """Pages that link each other, and come back, would grow without bound."""
    scorer = made(name)
    for page in range(3):
        scorer.discovered(page)
    columns = []
    for turn in (1, 1000):
        for page in [*range(3)] * turn:
            scorer.parsed(page, [other for other in range(3) if other != page], weights)
        columns.append([scorer.column(column, 0, 3).tolist() for column in scorer.columns])
    assert columns[0] == columns[1]
    scorer.discovered(3, parent=0)
    changed = dict(scorer.parsed(0, [1, 2, 3], None if weights is None else [1.0, 2.0, 1.0]))
    assert list(changed) == [3]
    assert 0 < changed[3] <= 3


def test_only_changes_worth_a_write_are_returned():
    scorer = Cash()
    for node in range(41):
        scorer.discovered(node, None if node == 0 else 0)
    scorer.parsed(0, list(range(1, 41)))
    queued, true = [], 0.85 / 40
    for node in range(1, 40):
        true += 0.85 * 0.85 / 40
        queued += [score for _, score in scorer.parsed(node, [40])]
        assert bucket(true) - bucket(queued[-1]) <= MIN_RAISE
    assert len(queued) < 39


@pytest.mark.parametrize("name", SCORING)
def test_changes_of_pages_out_of_the_queue_are_not_returned(name):
    scorer = made(name)
    scorer.discovered(0)
    scorer.discovered(1, 0)
    scorer.closed(2)
    assert [node for node, _ in scorer.parsed(0, [1, 2])] == [1]
    assert scorer.opened(2) == pytest.approx(scorer.damping / 2)


# -- rankings ----------------------------------------------------------------------------------------


def test_pagerank_scores_are_pagerank_times_pages_and_cash_goes_on_from_there():
    scorer = PageRank()
    crawl(scorer, LINKS, range(4))
    graph, ranking = rank(scorer, LINKS, range(4), 6)
    scores = take_over(scorer, ranking)
    assert scores == pytest.approx(pagerank(*graph).scores * 6, rel=1e-3)
    scorer.discovered(6, 4)
    assert scorer.parsed(4, [6]) == [(6, pytest.approx(0.85 * scores[4], rel=1e-4))]
    scorer.content_scored(3, 5.0)
    expected = pagerank(*graph, preference=[1, 1, 1, 5, 1, 1]).scores
    assert np.abs(scorer.rank(*graph).scores - expected).sum() < 2e-4, "content scores are the preference"


def test_hits_scores_are_authorities():
    scorer = Hits()
    crawl(scorer, LINKS, range(4))
    graph, ranking = rank(scorer, LINKS, range(4), 6)
    assert take_over(scorer, ranking) == pytest.approx(hits(*graph, tolerance=1e-9).scores * 6, abs=0.01)


@pytest.mark.parametrize("name", SCORING)
def test_columns_bring_a_scorer_back(name):
    """To within the half of a bucket, in pieces, and in any order."""
    scorer, again = made(name), made(name)
    crawl(scorer, LINKS, [0, 1])
    scorer.closed(3)
    again.discovered(4, 2)  # found before all came back
    for column in scorer.columns:
        for first in (2, 0):
            again.restore(column, first, scorer.column(column, first, first + 2))
    scorer.discovered(4, 2)
    assert again.current_scores(np.arange(4)) == pytest.approx(scorer.current_scores(np.arange(4)), rel=4e-4)
    again.reopened(np.array([False, False, True, False]))
    for one in (scorer, again):
        one.content_scored(2, 3.0)
        one.opened(3)
    expected = dict(scorer.parsed(2, [0, 3, 4]))
    assert dict(again.parsed(2, [0, 3, 4])) == pytest.approx(expected, rel=1e-3)
    assert set(expected) == {3, 4}


@pytest.mark.parametrize("name", SCORING)
def test_after_a_kill_the_queue_knows_what_the_columns_do_not(name):
    scorer = made(name)
    scorer.requeued(np.array([1, 2]), np.array([0.5, 0.25]))
    scorer.reopened(np.array([False, True, True]))
    assert scorer.current_scores(np.arange(3)).tolist() == [0.0, 0.5, 0.25]
    assert scorer.parsed(1, [0, 2]) == [(2, pytest.approx(0.25 + 0.5 * scorer.damping / 2))]


# -- the default -------------------------------------------------------------------------------------


def big_crawl(scorer, pages=4000, parsed=1000):
    rng = np.random.default_rng(3)
    links = {page: np.unique(rng.integers(0, min(pages, 8 * page + 9), 7)).tolist() for page in range(parsed)}
    crawl(scorer, links, range(parsed))
    return rank(scorer, links, range(parsed), scorer.known)[1]


def test_cash_and_chance_lift_their_part_of_the_pages_served_next():
    scorer = Mixed()
    prepared = scorer.prepare(big_crawl(scorer))
    queued = np.arange(1000, scorer.known)
    served = queued[np.argsort(-prepared.score[queued], kind="stable")][:250]
    lifted = served[prepared.score[served] > prepared.rank[served] * 1.001]
    assert 250 * 0.06 <= len(lifted) <= 250 * 0.12 + 3
    assert np.all(prepared.score >= prepared.rank)


def test_the_same_seed_makes_the_same_choices():
    scorers = [Mixed(random.Random(seed)) for seed in (1, 1, 2)]
    one, other, third = (take_over(scorer, big_crawl(scorer)) for scorer in scorers)
    assert np.array_equal(one, other)
    assert not np.array_equal(one, third)


def test_the_rank_of_a_page_is_seen_against_its_host():
    scorer = Mixed()
    scorer.discovered(0, host="a.example")
    for node in range(1, 101):
        scorer.discovered(node, 0, "large.example" if node < 100 else "small.example")
    scorer.parsed(0, list(range(1, 101)))
    cycle = {node: [node % 99 + 1] for node in range(1, 100)} | {0: list(range(1, 101))}
    scores = scorer.prepare(rank(scorer, cycle, range(100), 101)[1]).rank
    plain = rank(scorer, cycle, range(100), 101)[1].scores
    assert scores[100] / scores[1] > plain[100] / plain[1]


def test_the_default_takes_unread_pages_for_linking_like_those_beside_them():
    """Pages 1 to 4 were read: three link to 9, and that 4 has no links is known as well."""
    links = {0: [*range(1, 9)], 1: [9, 10], 2: [9, 10], 3: [9], 4: [], 9: [], 10: [1]}
    order = [0, 1, 2, 3, 4, 9, 10]
    scorer = Mixed()
    crawl(scorer, links, order)
    graph, ranking = rank(scorer, links, order, 11)
    read = np.isin(np.arange(11), order)
    preference = 1 + read * 11 / 7
    expected = pagerank(*graph, read=read, damping=0.9, tolerance=1e-4, preference=preference)
    assert np.abs(ranking.scores - expected.scores).sum() < 0.02
    assert ranking.scores[9] > pagerank(*graph, damping=0.9, preference=preference).scores[9]


def test_a_crawl_of_one_page_can_be_ranked():
    scorer = Mixed()
    scorer.discovered(0)
    assert scorer.parsed(0, []) == []
    assert take_over(scorer, scorer.rank(np.zeros(2, int), np.zeros(0, int))).tolist() == [1.0]
    nothing = Mixed()
    assert len(take_over(nothing, nothing.rank(np.zeros(1, int), np.zeros(0, int)))) == 0
