"""How often pages change: closed forms, limits, what grows with what, and eight bytes that hold it."""

from math import exp, expm1, isfinite, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_frontier.core.revisits.change_rates import (
    HintAccuracy,
    History,
    HostChangeRates,
    Observation,
    RateDrift,
    RateEstimates,
    expected_rate,
    judged,
    learned,
    likeliest_rate,
    observed,
    rate,
)
from scrapy_frontier.core.store.records import decode_history, encode_history

DAY = 86400.0
WEEKLY = 1 / (7 * DAY)

spans = st.floats(1.0, 3e8)
rates = st.floats(1e-9, 1e-2)
visits = st.lists(st.tuples(spans, st.booleans()), max_size=30)


def visited(history: History, span: float, has_changed: bool, expected: float) -> History:
    return observed(Observation(span, has_changed), RateEstimates(history), expected).history


def seen(*visits: tuple[float, bool], expected: float = WEEKLY) -> History:
    history = History()
    for span, has_changed in visits:
        history = visited(history, span, has_changed, expected)
    return history


# -- closed forms ----------------------------------------------------------------------------------------


@given(st.integers(1, 50), st.data(), spans)
def test_at_one_interval_it_is_the_improved_estimator(count: int, data: st.DataObject, span: float) -> None:
    """Cho and Garcia-Molina, without a prior."""
    changes = data.draw(st.integers(0, count))
    history = History(count, changes, (count - changes) * span, changes * span)
    improved = log((count + 0.5) / (count - changes + 0.5)) / span
    assert likeliest_rate(history) == pytest.approx(improved, rel=1e-9)


@given(st.lists(spans, min_size=1, max_size=8), spans)
def test_where_spans_with_a_change_are_alike_it_is_the_likeliest_rate(
    quiet: list[float], busy: float
) -> None:
    """However unlike the others are: the root of the derivative of the likelihood, half a visit included."""
    history = History(len(quiet) + 1, 1, sum(quiet), busy)
    found = likeliest_rate(history)
    half = 0.5 * (sum(quiet) + busy) / (len(quiet) + 1)
    assert busy / expm1(found * busy) == pytest.approx(sum(quiet) + half, rel=1e-6)


def test_a_change_whose_moment_is_known_counts_as_one_at_that_moment() -> None:
    """Ten changes in ten days, each noticed when it came: one a day, where spans alone could not tell ten."""
    history = History(10, 10, 10 * DAY, 0.0)
    assert likeliest_rate(history) * DAY == pytest.approx(10 / 10.5)
    assert likeliest_rate(History(10, 10, 0.0, 10 * DAY)) * DAY == pytest.approx(log(21))


@given(rates)
def test_without_a_visit_it_is_what_is_expected(expected: float) -> None:
    assert rate(History(), expected) == pytest.approx(expected)


@given(rates, st.floats(1e-3, 3.0))
def test_what_was_expected_changes_little(expected: float, changes: float) -> None:
    """A page that behaves as expected on average has about the rate that was expected."""
    span = changes / expected
    share = -expm1(-changes)
    found = rate(History(10, 10 * share, 10 * (1 - share) * span, 10 * share * span), expected)
    assert 0.8 * expected < found <= expected


def test_what_visits_showed_fades() -> None:
    """The less there is to wonder at the less, but never not at all."""
    history = History()
    for _ in range(500):
        history = visited(history, DAY, False, WEEKLY)
    assert 15 < history.visits <= 100
    surprised = visited(history, DAY, True, WEEKLY)
    assert surprised.visits < 0.8 * history.visits


# -- limits ----------------------------------------------------------------------------------------------


@given(visits, rates)
def test_a_rate_is_a_positive_number(visits: list[tuple[float, bool]], expected: float) -> None:
    found = rate(seen(*visits, expected=expected), expected)
    assert isfinite(found)
    assert found > 0


def test_the_more_visits_found_nothing_the_slower() -> None:
    history, before = History(), WEEKLY
    for _ in range(100):
        history = visited(history, 7 * DAY, False, WEEKLY)
        found = rate(history, WEEKLY)
        assert found <= before + 1e-15
        before = found
    assert before < WEEKLY / 5


def test_a_page_that_always_changed_is_fast_but_not_without_bounds() -> None:
    history = seen(*[(DAY, True)] * 100)
    assert 1 < rate(history, WEEKLY) * DAY < 10


def test_one_visit_says_something() -> None:
    assert rate(seen((7 * DAY, True)), WEEKLY) > WEEKLY > rate(seen((7 * DAY, False)), WEEKLY)


@given(visits, spans, rates)
def test_a_change_makes_faster_than_none(
    visits: list[tuple[float, bool]], span: float, expected: float
) -> None:
    """Of the same counts."""
    before = seen(*visits, expected=expected)
    changed = History(before.visits + 1, before.changes + 1, before.quiet, before.busy + span)
    same = History(before.visits + 1, before.changes, before.quiet + span, before.busy)
    assert rate(changed, expected) > rate(same, expected) * (1 - 1e-9)


@given(rates, rates, spans, visits)
def test_the_faster_a_host_the_faster_its_pages(
    one: float, other: float, span: float, visits: list[tuple[float, bool]]
) -> None:
    history = seen(*visits)
    low, high = sorted((one, other))
    assert rate(history, low) <= rate(history, high) * (1 + 1e-9)


def test_a_page_that_becomes_another_is_soon_known_as_such() -> None:
    """Quiet for a hundred days, then it changes all the time: five visits, not fifty."""
    history = seen(*[(DAY, False)] * 100)
    for _ in range(5):
        history = visited(history, DAY, True, WEEKLY)
    assert rate(history, WEEKLY) > 1 / (6 * DAY)


# -- hosts -----------------------------------------------------------------------------------------------


def upset(days: list[bool], drift: RateDrift = RateDrift()) -> RateDrift:  # noqa: B008 - a frozen value
    """What 300 quiet pages teach, visited on so many days that found them changed or not."""
    history = seen(*[(DAY, False)] * 60)
    for has_changed in days:
        for _ in range(300):
            known = RateEstimates(history, drift=drift)
            drift = observed(Observation(DAY, has_changed), known, WEEKLY).drift
    return drift


def test_where_many_pages_become_others_at_once_all_are_doubted_for_a_while() -> None:
    assert upset([False] * 4).likelier == 1.0
    turned = upset([False] * 4 + [True])
    assert turned.likelier > 3.0
    assert upset([False] * 40, turned).likelier < turned.likelier / 2
    assert upset([True] * 99).likelier <= 30.0


def test_a_host_that_was_never_visited_is_like_all_others() -> None:
    everywhere = HostChangeRates()
    for _ in range(2000):
        everywhere = learned(everywhere, 1 / DAY, DAY)
    assert expected_rate(HostChangeRates(), HostChangeRates(), WEEKLY) == pytest.approx(WEEKLY)
    assert expected_rate(HostChangeRates(), everywhere, WEEKLY) == pytest.approx(1 / DAY, rel=0.02)


def test_a_host_that_was_visited_often_is_like_itself() -> None:
    host, everywhere = HostChangeRates(), HostChangeRates()
    for _ in range(2000):
        host = learned(host, 1 / DAY, DAY)
        everywhere = learned(everywhere, WEEKLY / 10, DAY)
    assert expected_rate(host, everywhere, WEEKLY) == pytest.approx(1 / DAY, rel=0.3)


def test_a_page_that_is_visited_often_counts_as_much_as_one_that_is_not() -> None:
    """Half of the pages change hourly and are asked hourly, half daily and are asked daily."""
    host = HostChangeRates()
    for hour in range(24 * 50):
        host = learned(host, 1 / 3600, 3600)
        if hour % 24 == 0:
            host = learned(host, 1 / DAY, DAY)
    middle = (1 / 3600 / DAY) ** 0.5
    assert expected_rate(host, HostChangeRates(), middle) == pytest.approx(middle, rel=0.3)


# -- hints ---------------------------------------------------------------------------------------------


def test_honest_hints_are_trusted() -> None:
    hints = HintAccuracy()
    assert hints.is_trusted
    for _ in range(30):
        hints = judged(hints, True, True, 0.4)
    assert hints.precision > 0.85
    assert 0.8 < hints.recall < 1.0


@pytest.mark.parametrize("changes", [0.05, 0.3, 0.7, 2.0])
def test_hints_that_come_whatever_happens_are_not(changes: float) -> None:
    """Also where most of the hinted pages have changed: they had in any case."""
    hints, anyway = HintAccuracy(), -expm1(-changes)
    owed = 0.0
    for _ in range(200):
        owed += anyway
        has_changed = owed >= 1
        owed -= has_changed
        hints = judged(hints, True, has_changed, anyway)
    assert hints.precision < 0.3


def after(seen: Observation, hints: HintAccuracy, times: int = 1) -> HintAccuracy:
    for _ in range(times):
        hints = observed(seen, RateEstimates(hints=hints), WEEKLY).hints
    return hints


def test_a_site_is_trusted_until_half_of_what_it_tells_is_wrong() -> None:
    right, wrong = Observation(DAY, True, True, True), Observation(DAY, False, True, True)
    assert HintAccuracy().is_trusted
    assert after(right, HintAccuracy(), 20).is_trusted
    liar = after(wrong, HintAccuracy(), 20)
    assert not liar.is_trusted
    assert after(right, liar, 80).is_trusted, "it has mended its ways"
    assert after(Observation(DAY, False, True), liar) == liar, "silence and no change say nothing"


def test_a_page_that_is_not_listed_says_nothing_of_hints() -> None:
    assert after(Observation(DAY, True), HintAccuracy()) == HintAccuracy()


def test_what_a_trusted_site_tells_has_changed_since_its_sitemap_was_read_before() -> None:
    def quiet(hints: HintAccuracy, **told: bool) -> float:
        seen = Observation(9 * DAY, True, True, **told)
        return observed(seen, RateEstimates(hints=hints), WEEKLY).history.quiet

    assert quiet(HintAccuracy(), is_hinted=True) == 8 * DAY
    assert quiet(HintAccuracy(), is_hinted=False) == 0.0
    assert quiet(after(Observation(DAY, False, True, True), HintAccuracy(), 20), is_hinted=True) == 0.0


def test_what_hints_do_not_tell_is_known() -> None:
    hints = HintAccuracy()
    for visit in range(200):
        hints = judged(hints, visit % 2 == 0, True, 0.3)
    assert hints.recall == pytest.approx(0.5, abs=0.05)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(0, 1)), max_size=50))
def test_shares_are_shares(visits: list[tuple[bool, bool, float]]) -> None:
    hints = HintAccuracy()
    for visit in visits:
        hints = judged(hints, *visit)
    assert 0 <= hints.precision <= 1
    assert 0 <= hints.recall < 1


# -- bytes -----------------------------------------------------------------------------------------------


@given(visits)
def test_eight_bytes_hold_a_history(visits: list[tuple[float, bool]]) -> None:
    history = seen(*visits)
    data = encode_history(*history)
    assert len(data) == 8
    again = decode_history(data)
    assert again == pytest.approx(history, rel=1e-3, abs=1e-3)
    assert encode_history(*again) == data


@given(st.binary(min_size=8, max_size=8), rates)
def test_any_eight_bytes_give_a_rate(data: bytes, expected: float) -> None:
    found = rate(History(*decode_history(data)), expected)
    assert isfinite(found)
    assert found > 0


def test_a_long_life_in_eight_bytes_at_a_time_is_that_of_floats() -> None:
    kept = exact = History()
    for visit in range(400):
        span, has_changed = DAY * (1 + visit % 3), visit % 4 == 0
        exact = visited(exact, span, has_changed, WEEKLY)
        kept = History(*decode_history(encode_history(*visited(kept, span, has_changed, WEEKLY))))
    assert rate(kept, WEEKLY) == pytest.approx(rate(exact, WEEKLY), rel=0.01)


def test_nothing_is_owed_to_clocks_that_go_back() -> None:
    assert isfinite(rate(seen((-5.0, True), (0.0, False), (DAY, True)), WEEKLY))
    assert exp(-rate(seen((0.0, True)), WEEKLY)) <= 1
