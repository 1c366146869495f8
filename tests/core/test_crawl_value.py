"""What a visit is worth and when: closed forms, limits, and that a budget is met."""

from math import exp, inf, isfinite, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_frontier.core.revisits.budget import Sample, for_all, of_limit, visits_wanted
from scrapy_frontier.core.revisits.policy import Bounds, best_span, crawl_value, hinted_value, share

DAY = 86400.0
FREE = Bounds(0.0, inf)

weights = st.floats(1e-6, 1e6)
rates = st.floats(1e-9, 1e-2)
recall = st.floats(0.0, 0.99)
changes = st.floats(0.0, 100.0)


def pages(count: int, seed: int = 7, hosts: int = 5, recall: float = 0.0) -> Sample:
    rng = np.random.default_rng(seed)
    return Sample(
        (rng.permutation(count) + 1.0) ** -0.6,
        np.exp(rng.standard_normal(count)) / DAY,
        np.full(count, recall),
        np.arange(count) % hosts,
    )


# -- a visit ---------------------------------------------------------------------------------------------


@given(weights, rates, st.floats(0.01, 50))
def test_the_crawl_value_is_that_of_the_book(weight: float, rate: float, changes: float) -> None:
    value = weight / rate * (1 - exp(-changes) * (1 + changes))
    assert crawl_value(weight, rate, changes / rate) == pytest.approx(value, rel=1e-6)


@given(changes, changes, recall)
def test_the_longer_ago_the_more_it_is_worth(one: float, other: float, recall: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= share(low, recall) <= share(high, recall) + 1e-12 <= 1 + 1e-12


@given(changes, recall, recall)
def test_the_more_would_have_been_told_the_less_is_silence_worth(
    changes: float, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    assert share(changes, high) <= share(changes, low) + 1e-9


@given(st.floats(1e-5, 1e-3), recall)
def test_small_numbers_are_no_noise(changes: float, recall: float) -> None:
    assert share(changes, recall) == pytest.approx((1 - recall) * changes**2 / 2, rel=2e-3)


@given(changes)
def test_a_recall_next_to_none_changes_nothing(changes: float) -> None:
    assert share(changes, 1e-5) == pytest.approx(share(changes), abs=1e-5)
    assert share(changes, 9.99e-5) == pytest.approx(share(changes, 1.01e-4), abs=1e-4)


@given(weights, rates, recall)
def test_no_visit_is_worth_more_than_one_of_a_page_that_has_changed_for_certain(
    weight: float, rate: float, recall: float
) -> None:
    assert crawl_value(weight, rate, 0.0, recall) == 0
    assert crawl_value(weight, rate, -5.0, recall) == 0
    assert crawl_value(weight, rate, 1e9 / rate, recall) == pytest.approx(hinted_value(weight, rate, 1.0))


# -- its span --------------------------------------------------------------------------------------------


@given(weights, rates, st.floats(1e-6, 0.999), recall)
def test_a_page_is_due_when_a_visit_is_worth_the_multiplier(
    weight: float, rate: float, part: float, recall: float
) -> None:
    multiplier = part * weight / rate
    span = best_span(weight, rate, multiplier, recall)
    assert crawl_value(weight, rate, span, recall) == pytest.approx(multiplier, rel=1e-4)


@given(weights, rates, recall, st.floats(1.0, 10.0))
def test_what_changes_too_fast_for_its_weight_is_never_due(
    weight: float, rate: float, recall: float, times: float
) -> None:
    assert best_span(weight, rate, times * weight / rate * (1 + 1e-9), recall) == inf
    assert best_span(0.0, rate, 1.0, recall) == inf


@given(weights, weights, rates, st.floats(1e-3, 1e9), recall)
def test_who_weighs_more_is_due_sooner(
    one: float, other: float, rate: float, multiplier: float, recall: float
) -> None:
    light, heavy = sorted((one, other))
    assert best_span(heavy, rate, multiplier, recall) <= best_span(light, rate, multiplier, recall)


@given(weights, rates, st.floats(0.0, 1e-12), recall)
def test_where_visits_cost_nothing_spans_are_short(
    weight: float, rate: float, part: float, recall: float
) -> None:
    span = best_span(weight, rate, part * weight / rate, recall)
    assert span * rate == pytest.approx(sqrt(2 * part / (1 - recall)), rel=0.01, abs=1e-7)


@given(st.lists(st.tuples(weights, rates, recall), min_size=1, max_size=5), st.floats(1e-3, 1e9))
def test_many_at_once_are_as_one_by_one(each: list[tuple[float, float, float]], multiplier: float) -> None:
    columns = [np.array(column) for column in zip(*each, strict=True)]
    sample = Sample(columns[0], columns[1], columns[2], np.zeros(len(each), np.int64))
    bounds = Bounds(60.0, 400 * DAY)
    for (weight, rate, recall), wanted in zip(each, visits_wanted(sample, multiplier, bounds), strict=True):
        span = bounds.within(best_span(weight, rate, multiplier, recall))
        is_told = weight > multiplier * rate and recall * rate * span > 1e-4
        hinted_rate = recall * rate
        visits = hinted_rate / (1 - exp(-hinted_rate * span)) if is_told else 1 / span
        assert wanted == pytest.approx(visits, rel=1e-3)


# -- the multiplier --------------------------------------------------------------------------------------


def solved(
    sample: Sample, budget: float, bounds: Bounds, limits: np.ndarray | None = None
) -> tuple[float, dict[int, float]]:
    """The multiplier everywhere, and those of hosts at their limit."""
    limits = np.full(5, inf) if limits is None else limits
    everywhere, at_limit = for_all(sample, budget, bounds, limits)
    return everywhere, {each: of_limit(sample.of_host(each), limits[each], bounds) for each in at_limit}


@pytest.mark.parametrize("recall", [0.0, 0.8])
@pytest.mark.parametrize("budget", [0.05, 0.35, 2.0])
def test_a_budget_is_met(budget: float, recall: float) -> None:
    sample, bounds = pages(500, recall=recall), Bounds(60.0, 4000 * DAY)
    everywhere, hosts = solved(sample, 500 * budget / DAY, bounds)
    asked = visits_wanted(sample, everywhere, bounds).sum()
    assert asked * DAY / 500 == pytest.approx(budget, rel=0.02)
    assert hosts == {}


def test_the_budget_is_spent_as_well_as_it_can_be() -> None:
    """No other spans of as many visits keep more fresh: not those of a page more and another less."""
    sample = pages(200)
    wanted = visits_wanted(sample, solved(sample, 0.35 * 200 / DAY, FREE)[0], FREE)

    def fresh(visits: np.ndarray) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            changes = sample.rates / visits
            kept = np.where(visits > 0, -np.expm1(-changes) / changes, 0.0)
        return float((sample.weights * kept).sum())

    best, rng = fresh(wanted), np.random.default_rng(3)
    for _ in range(200):
        more, less = rng.choice(np.flatnonzero(wanted > 0), 2, replace=False)
        other = wanted.copy()
        part = 0.1 * min(wanted[more], wanted[less])
        other[more] += part
        other[less] -= part
        assert fresh(other) < best


def test_what_a_host_may_not_use_others_get() -> None:
    sample, budget = pages(500), 500 * 0.35 / DAY
    limits = np.full(5, inf)
    limits[2] = budget / 50
    bounds = Bounds(60.0, 4000 * DAY)
    everywhere, hosts = solved(sample, budget, bounds, limits)
    assert set(hosts) == {2}
    assert everywhere < solved(sample, budget, bounds)[0] < hosts[2]
    found = [hosts.get(host, everywhere) for host in range(5)]
    by_host = [visits_wanted(sample.of_host(host), found[host], bounds).sum() for host in range(5)]
    assert by_host[2] == pytest.approx(limits[2], rel=0.02)
    assert sum(by_host) == pytest.approx(budget, rel=0.02)


def test_a_sample_stands_for_all() -> None:
    all_pages = pages(4000)
    some = Sample(*(column[::4] for column in all_pages[:4]), stands_for=4.0)
    budget, bounds = 4000 * 0.35 / DAY, Bounds(60.0, 4000 * DAY)
    assert solved(some, budget, bounds)[0] == pytest.approx(solved(all_pages, budget, bounds)[0], rel=0.1)


def test_no_budget_is_too_small_or_too_large() -> None:
    sample, bounds = pages(50), Bounds(3600.0, 45 * DAY)
    nothing, everything = (solved(sample, budget, bounds)[0] for budget in (0.0, 1e9))
    assert isfinite(nothing)
    spans = [best_span(w, r, nothing) for w, r in zip(sample.weights, sample.rates, strict=True)]
    assert all(bounds.within(span) == bounds.longest for span in spans)
    assert everything == 0


def test_hosts_without_weight_ask_for_little() -> None:
    sample = Sample(np.zeros(3), np.full(3, 1 / DAY), np.zeros(3), np.zeros(3, np.int64))
    bounds = Bounds(3600.0, 45 * DAY)
    everywhere, _ = solved(sample, 1.0, bounds)
    assert visits_wanted(sample, everywhere, bounds).sum() == pytest.approx(3 / bounds.longest)
