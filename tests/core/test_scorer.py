"""Scores, a page at a time and after rankings."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from link_arrays import csr
from scrapy.utils.misc import load_object

from scrapy_frontier.core.ranking.default_scorer import CASH, CHANCE, RANK, Mixed
from scrapy_frontier.core.ranking.other_scorers import Cash, Hits, PageRank
from scrapy_frontier.core.ranking.pagerank import foreseen_pagerank, hits, pagerank
from scrapy_frontier.core.ranking.scorer import NOTICED, buckets, buckets_of, scores_of
from scrapy_frontier.core.store.keys import bucket
from scrapy_frontier.settings import SCORERS


def crawl(scorer, links, order):
    """Parse the pages in *order*; everything linked is discovered on the way. Returns what was told last."""
    told = {}
    for page in order:
        for target in links[page]:
            while target >= len(told):
                told[len(told)] = scorer.discovered(len(told), page)
        told.update(scorer.parsed(page, links[page]))
    return told


def rank(scorer, links, order, pages):
    pairs = [(page, target) for page in order for target in links[page]]
    graph = csr(pages, pairs)
    return graph, scorer.rank(*graph)


def take_over(scorer, ranking):
    """The scores of all pages after a ranking."""
    scorer.adopt(scorer.prepare(ranking))
    return scorer.current_scores(np.arange(scorer.known))


# -- buckets -----------------------------------------------------------------------------------------


@given(st.floats(0, math.inf), st.floats(0, math.inf))
def test_buckets_keep_the_order_of_scores(one, other):
    if one <= other:
        assert bucket(one) <= bucket(other)
    assert buckets(np.array([one, other])).tolist() == [bucket(one), bucket(other)]
    assert buckets_of([(0, one), (1, other)]) == [bucket(one), bucket(other)]


def test_a_doubling_is_1024_buckets():
    assert [bucket(score) for score in (0.0, 2.0**-40, 1.0, 2.0, 2.0**23, 1e30)] == [
        0,
        0,
        40960,
        41984,
        64512,
        65535,
    ]
    assert bucket(float("nan")) == bucket(-1.0) == 0


# -- by name -----------------------------------------------------------------------------------------


def test_every_scorer_has_a_name():
    assert list(SCORERS) == ["mixed", "pagerank", "hits", "cash", "link", "fifo", "lifo"]
    for name in SCORERS:
        scorer = load_object(SCORERS[name])()
        assert scorer.discovered(0) >= 0
        assert scorer.parsed(0, []) == []


def test_plain_orders():
    fifo, lifo, link = (load_object(SCORERS[name])() for name in ("fifo", "lifo", "link"))
    assert bucket(fifo.discovered(5, 1)) == bucket(fifo.discovered(6, 1))
    assert bucket(lifo.discovered(1000, 1)) < bucket(lifo.discovered(1010, 1))
    assert link.discovered(1, 0, link_score=0.3) == 0.3


# -- cash --------------------------------------------------------------------------------------------


def test_cash_is_handed_on():
    """
    ::

        0 -> 1 -> 3      0.85 / 2 each for 1 and 2, then 0.85 of that to 3
        0 -> 2 -> 3
    """
    scorer = Cash()
    scorer.discovered(0)
    told = crawl(scorer, {0: [1, 2], 1: [3], 2: [3]}, [0, 1, 2])
    assert told == {
        0: 0.0,
        1: pytest.approx(0.425),
        2: pytest.approx(0.425),
        3: pytest.approx(2 * 0.425 * 0.85),
    } | {0: told[0]}


def test_cash_follows_weights_and_content():
    scorer = Cash()
    for node, parent in ((0, None), (1, 0), (2, 0), (3, 0)):
        scorer.discovered(node, parent)
    scorer.judged(0, 2.0)
    assert dict(scorer.parsed(0, [1, 2, 3], [3.0, 1.0, 0.0])) == {
        1: pytest.approx(2 * 0.85 * 0.75),
        2: pytest.approx(2 * 0.85 * 0.25),
    }
    assert scorer.parsed(1, [2, 3], [0.0, 0.0]) == []


@pytest.mark.parametrize("kind", [Cash, PageRank, Mixed])
def test_links_that_weigh_nothing_are_paid_nothing(kind):
    """The default raised `TypeError`."""
    scorer = kind()
    for node, parent in ((0, None), (1, 0), (2, 0)):
        scorer.discovered(node, parent)
    assert scorer.parsed(0, [1, 2], [0.0, 0.0]) == []


@pytest.mark.parametrize("kind", [Cash, PageRank, Hits, Mixed])
@pytest.mark.parametrize("weights", [None, [1.0, 2.0]])
def test_a_page_that_is_read_again_pays_only_what_it_links_newly(kind, weights):
    """Pages that link each other, and come back, would grow without bound."""
    scorer = kind()
    for page in range(3):
        scorer.discovered(page)
    for page in range(3):
        scorer.parsed(page, [other for other in range(3) if other != page], weights)
    before = scorer.column("score", 0, 3).tolist(), scorer.column(scorer.columns[-1], 0, 3).tolist()
    for page in [*range(3)] * 1000:
        scorer.parsed(page, [other for other in range(3) if other != page], weights)
    assert (scorer.column("score", 0, 3).tolist(), scorer.column(scorer.columns[-1], 0, 3).tolist()) == before
    scorer.discovered(3, parent=0)
    told = dict(scorer.parsed(0, [1, 2, 3], None if weights is None else [1.0, 2.0, 1.0]))
    assert list(told) == [3]
    assert 0 < told[3] <= 3


@pytest.mark.parametrize("kind", [Cash, PageRank, Mixed])
def test_scores_that_content_makes_large_stay_numbers(kind):
    scorer = kind()
    for page in range(20):
        scorer.discovered(page, parent=page - 1 if page else None)
        scorer.judged(page, 1e9)
    for page in range(19):
        scorer.parsed(page, [page + 1])
    assert np.isfinite(scorer.opened(19))


def test_only_changes_worth_a_write_are_told():
    scorer = Cash()
    scorer.discovered(0)
    for node in range(1, 41):
        scorer.discovered(node, 0)
    scorer.parsed(0, list(range(1, 41)))
    told = [scorer.parsed(node, [40]) for node in range(1, 40)]
    queued, true = [], 0.85 / 40
    for changes in told:
        true += 0.85 * 0.85 / 40
        queued += [score for _, score in changes]
        assert bucket(true) - bucket(queued[-1]) <= NOTICED
    assert len(queued) < 39


@given(st.lists(st.lists(st.integers(0, 40), unique=True, max_size=6), min_size=1, max_size=30))
def test_cash_equals_a_plain_twin(rows):
    scorer, twin = Cash(), {0: 1.0}
    scorer.discovered(0)
    for node in range(1, 41):
        scorer.discovered(node, 0)
    for page, row in enumerate(rows):
        open_before = [target for target in row if target > page]
        changes = dict(scorer.parsed(page, row))
        share = 0.85 * twin.get(page, 0.0) / max(len(row), 1)
        for target in row:
            twin[target] = twin.get(target, 0.0) + share
        assert set(changes) <= set(open_before)
        for target, score in changes.items():
            assert score == pytest.approx(twin[target], rel=1e-4)


def test_arrays_grow_with_the_crawl():
    scorer = Mixed()
    scorer.discovered(0)
    links = {page: [page + 1, page + 2] for page in range(5000)}
    told = crawl(scorer, links, range(5000))
    assert scorer.known == 5002
    assert all(np.isfinite(score) for score in told.values())


# -- rankings ----------------------------------------------------------------------------------------

LINKS = {0: [1, 2, 3], 1: [2], 2: [0, 4], 3: [2, 5]}


def test_pagerank_scores_are_pagerank_times_pages_and_cash_goes_on_from_there():
    scorer = PageRank()
    scorer.discovered(0)
    crawl(scorer, LINKS, [0, 1, 2, 3])
    graph, ranking = rank(scorer, LINKS, [0, 1, 2, 3], 6)
    scores = take_over(scorer, ranking)
    assert scores == pytest.approx(pagerank(*graph).scores * 6, rel=1e-3)
    scorer.discovered(6, 4)
    assert scorer.parsed(4, [6]) == [(6, pytest.approx(0.85 * scores[4], rel=1e-4))]


def test_content_scores_are_the_preference():
    scorer = PageRank()
    scorer.discovered(0)
    crawl(scorer, LINKS, [0, 1, 2, 3])
    scorer.judged(3, 5.0)
    graph, ranking = rank(scorer, LINKS, [0, 1, 2, 3], 6)
    expected = pagerank(*graph, preference=[1, 1, 1, 5, 1, 1]).scores
    assert np.abs(ranking.scores - expected).sum() < 2e-4


def test_hits_scores_are_authorities():
    scorer = Hits()
    scorer.discovered(0)
    crawl(scorer, LINKS, [0, 1, 2, 3])
    graph, ranking = rank(scorer, LINKS, [0, 1, 2, 3], 6)
    assert take_over(scorer, ranking) == pytest.approx(hits(*graph, tolerance=1e-9).scores * 6, abs=0.01)


def test_a_ranking_of_an_older_snapshot_leaves_newer_pages_their_cash():
    scorer = PageRank()
    scorer.discovered(0)
    told = crawl(scorer, LINKS, [0, 1, 2, 3])
    _, ranking = rank(scorer, LINKS, [0, 1], 4)
    scores = take_over(scorer, ranking)
    assert len(scores) == 6
    assert scores[4:] == pytest.approx([told[4], told[5]])


SCORING = ["cash", "pagerank", "hits", "mixed"]


@pytest.mark.parametrize("name", SCORING)
def test_columns_bring_a_scorer_back(name):
    """To within the half of a bucket, in pieces, and in any order."""
    scorer, again = load_object(SCORERS[name])(), load_object(SCORERS[name])()
    scorer.discovered(0)
    crawl(scorer, LINKS, [0, 1])
    scorer.judged(2, 3.0)
    scorer.closed(3)
    again.discovered(4, 2)  # found before all came back
    for column in scorer.columns:
        for first in (2, 0):
            again.restore(column, first, scorer.column(column, first, first + 2))
    scorer.discovered(4, 2)
    assert again.current_scores(np.arange(4)) == pytest.approx(scorer.current_scores(np.arange(4)), rel=4e-4)
    for one in (scorer, again):
        one.opened(3)
    expected = dict(scorer.parsed(2, [0, 3, 4]))
    assert dict(again.parsed(2, [0, 3, 4])) == pytest.approx(expected, rel=1e-3)
    assert set(expected) == {3, 4}


@pytest.mark.parametrize("name", SCORING)
def test_after_a_kill_the_queue_knows_what_the_columns_do_not(name):
    scorer = load_object(SCORERS[name])()
    scorer.requeued(np.array([1, 2]), np.array([0.5, 0.25]))
    scorer.reopened(np.array([False, True, True]))
    assert scorer.current_scores(np.arange(3)).tolist() == [0.0, 0.5, 0.25]
    (changed,) = scorer.parsed(1, [0, 2])
    assert changed == (2, pytest.approx(0.25 + 0.5 * scorer.damping / 2))


@pytest.mark.parametrize("name", SCORING)
def test_pages_out_of_the_queue_are_not_told_of(name):
    scorer = load_object(SCORERS[name])()
    scorer.discovered(0)
    scorer.discovered(1, 0)
    scorer.closed(2)
    assert [node for node, _ in scorer.parsed(0, [1, 2])] == [1]
    assert scorer.opened(2) == pytest.approx(scorer.damping / 2)


@given(st.integers(0, 0xFFFF))
def test_a_bucket_survives_being_a_score(code):
    assert buckets(scores_of(np.array([code], np.uint16))).tolist() == [code]


# -- the default -------------------------------------------------------------------------------------


def big_crawl(scorer, pages=4000, parsed=1000, seed=3):
    rng = np.random.default_rng(seed)
    links = {page: np.unique(rng.integers(0, min(pages, 8 * page + 9), 7)).tolist() for page in range(parsed)}
    scorer.discovered(0)
    crawl(scorer, links, range(parsed))
    return rank(scorer, links, range(parsed), scorer.known)[1]


def test_cash_and_chance_choose_their_part_among_the_best():
    """Of the pages served next, about 6 in 100 each are chosen by cash and by the dice."""
    scorer = Mixed()
    scores = take_over(scorer, big_crawl(scorer))
    queued = np.arange(1000, scorer.known)
    best = queued[np.argsort(-scores[queued], kind="stable")][:500]
    by_chance = np.count_nonzero(scorer._chosen[best] == CHANCE)
    by_cash = np.count_nonzero(scorer._chosen[best] == CASH)
    shares = scorer.shares()
    assert shares.sum() == pytest.approx(1)
    assert by_chance == pytest.approx(500 * shares[CHANCE], abs=12)
    assert 0 < by_cash <= 500 * shares[CASH] + 12  # some of its choices are the rank's own
    assert np.all(scores[queued] >= scorer._rank[queued])


def test_who_chooses_better_pages_chooses_more():
    scorer = Mixed()
    ranking = big_crawl(scorer)
    take_over(scorer, ranking)
    before = scorer.shares()
    pages = np.argsort(-ranking.scores[:1000])
    scorer._chosen[pages[:100]] = CHANCE
    scorer._chosen[pages[-100:]] = CASH
    scorer._lineage[:] = 0
    after = scorer.shares()
    assert after[CHANCE] > 2 * before[CHANCE]
    assert after[CASH] < before[CASH]
    assert after[RANK] > 0


def test_a_page_shares_its_worth_with_the_pages_that_led_there():
    scorer = Mixed()
    take_over(scorer, big_crawl(scorer))
    scorer._chosen[:1000] = RANK
    scorer._lineage[:1000] = 0
    scorer._chosen[0] = CHANCE
    alone = scorer.shares()[CHANCE]
    scorer._lineage[1:1000] = CHANCE + 1
    assert scorer.shares()[CHANCE] > alone


def test_who_chose_a_page_and_those_above_it_outlives_the_crawl():
    """A crawl with rankings in between, one that stops and goes on: the three are worth what they were."""
    rng = np.random.default_rng(5)
    links = {page: np.unique(rng.integers(0, min(6000, 8 * page + 9), 7)).tolist() for page in range(3000)}
    one = Mixed()
    one.discovered(0)
    for first, stop in pairwise((0, 300, 900, 1600, 2000)):
        crawl(one, links, range(first, stop))
        take_over(one, rank(one, links, range(stop), one.known)[1])
    crawl(one, links, range(2000, 2100))
    other = Mixed()
    for column in one.columns:
        for first in range(0, one.known, 1024):
            other.restore(column, first, one.column(column, first, min(first + 1024, one.known)))
    other.reopened(~one._shut[: one.known])
    assert one.shares().tolist() != pytest.approx(Mixed.parts, abs=0.02)
    assert other.shares() == pytest.approx(one.shares(), rel=1e-3)
    assert other._luck > 0
    assert other._best[:50] == pytest.approx(one._best[:50], rel=0.2)
    for scorer in (one, other):
        crawl(scorer, links, range(2100, 2500))
        take_over(scorer, rank(scorer, links, range(2500), scorer.known)[1])
    assert other.shares() == pytest.approx(one.shares(), abs=0.03), "the dice fall in another way"


def test_the_state_of_pages_has_golden_numbers():
    scorer = Mixed()
    scorer.discovered(0)
    scorer._chosen[0] = CASH
    scorer.discovered(1, 0)
    scorer._chosen[1] = CHANCE
    scorer.discovered(2, 1)
    scorer.parsed(0, [1])
    scorer._rounds += 2
    scorer.closed(3)
    state = [
        2 << 10 | CASH << 2 | 3,
        63 << 10 | 2 << 4 | CHANCE << 2,
        63 << 10 | (3 | 2 << 2) << 4,
        63 << 10 | 2,
    ]
    assert scorer.column("state", 0, 4).tolist() == state


def test_the_same_seed_makes_the_same_choices():
    one, other, third = (Mixed(random.Random(seed)) for seed in (1, 1, 2))
    scores = [take_over(scorer, big_crawl(scorer)) for scorer in (one, other, third)]
    assert np.array_equal(scores[0], scores[1])
    assert not np.array_equal(scores[0], scores[2])


def test_chance_lifts_some_pages_found_after_a_ranking():
    scorer = Mixed()
    take_over(scorer, big_crawl(scorer))
    lifted = sum(scorer.discovered(scorer.known, 5) > 0 for _ in range(5000))
    assert lifted == pytest.approx(5000 * scorer._luck, rel=0.35)
    assert scorer._luck > 0


def test_the_default_thinks_of_unread_pages_as_linking_like_those_beside_them():
    """Pages 1 to 4 were read: three link to 9, and that 4 has no links is known as well."""
    links = {0: [*range(1, 9)], 1: [9, 10], 2: [9, 10], 3: [9], 4: [], 9: [], 10: [1]}
    order = [0, 1, 2, 3, 4, 9, 10]
    scorer = Mixed()
    scorer.discovered(0)
    crawl(scorer, links, order)
    (indptr, indices), ranking = rank(scorer, links, order, 11)
    read = np.isin(np.arange(11), order)
    preference = 1 + read * 11 / 7
    expected = foreseen_pagerank(indptr, indices, read, damping=0.9, tolerance=1e-4, preference=preference)
    assert np.abs(ranking.scores - expected.scores).sum() < 0.02
    plain = pagerank(indptr, indices, damping=0.9, preference=preference).scores
    assert np.abs(expected.scores - plain).sum() > 0.04  # so it cannot be plain PageRank
    assert ranking.scores[9] > plain[9]


def test_a_crawl_of_one_page_can_be_ranked():
    scorer = Mixed()
    scorer.discovered(0)
    assert scorer.parsed(0, []) == []
    assert take_over(scorer, scorer.rank(np.zeros(2, int), np.zeros(0, int))).tolist() == [1.0]
    nothing = Mixed()
    assert len(take_over(nothing, nothing.rank(np.zeros(1, int), np.zeros(0, int)))) == 0
