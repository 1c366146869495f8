"""When a page comes back, in which order, and the table of what becomes of it then."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_frontier.core.pages.crawl_value import Bounds
from scrapy_frontier.core.pages.revisit_policy import (
    Adaptive,
    Ending,
    Losses,
    Met,
    after_visit,
    age_value,
    due_at,
    due_value,
    ending,
)
from scrapy_frontier.core.store.states import State
from scrapy_frontier.core.store.visit_rows import NOT_BAD, Bad

HOUR, DAY = 3600.0, 86400.0
SPAN, LONGEST = 4 * DAY, 45 * DAY
NOW = 1_700_000_000.0


def end(
    met: Met, doubt: Bad = NOT_BAD, now: float = NOW, state: State = State.DONE, can_end: bool = True
) -> Ending:
    return ending(met, state, SPAN, LONGEST, doubt, now, can_end)


def run(*visits: tuple[float, Met], state: State = State.DONE) -> tuple[State, Ending]:
    """The end of several visits of a page, each so many seconds after *NOW*."""
    found = Ending(None, 0.0)
    for after, met in visits:
        found = end(met, found.doubt, NOW + after, state)
        state = state if found.state is None else found.state
    return state, found


# -- when ------------------------------------------------------------------------------------------------


def test_a_daily_crawl_visits_daily_what_has_a_shelf_life_of_a_day() -> None:
    assert due_at(NOW, DAY) <= NOW + DAY - 2 * HOUR
    assert due_at(NOW, DAY) > NOW + DAY / 2
    assert due_at(NOW, DAY, waits=True) == NOW + DAY


def test_shelf_lives_are_within_their_bounds() -> None:
    assert Adaptive(1e9, Bounds(60.0, DAY)).span(1.0, 1 / DAY) == DAY
    assert Adaptive(0.0, Bounds(60.0, DAY)).span(1.0, 1 / DAY) == 60


def test_by_interval_importance_counts_as_much_as_age() -> None:
    assert age_value(2.0, NOW - DAY, NOW) == age_value(1.0, NOW - 2 * DAY, NOW)
    assert age_value(1.0, NOW + DAY, NOW) == 0


@given(st.floats(0.01, 100), st.floats(1e-7, 1e-3), st.floats(0, 1))
def test_a_signal_never_makes_a_visit_worth_less(weight: float, rate: float, trust: float) -> None:
    assert due_value(weight, rate, DAY, 0.5, trust) >= due_value(weight, rate, DAY, 0.5)


def test_a_signal_makes_due_what_is_worth_it_and_rested() -> None:
    policy = Adaptive(0.6 * DAY, Bounds(HOUR, LONGEST))
    assert policy.is_due_by_signal(1.0, 1 / DAY, 0.9, 2 * HOUR)
    assert not policy.is_due_by_signal(1.0, 1 / DAY, 0.9, HOUR / 2), "visited just now"
    assert not policy.is_due_by_signal(1.0, 3 / DAY, 0.9, 2 * HOUR), "changes too fast for what it weighs"
    assert not policy.is_due_by_signal(9.0, 1 / DAY, 0.4, 2 * HOUR), (
        "a host whose signals are not to be trusted"
    )


def test_an_untrusted_signal_is_no_signal() -> None:
    assert due_value(1.0, 1 / DAY, DAY, 0.0, 0.4) == due_value(1.0, 1 / DAY, DAY)


# -- how visits end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("met", list(Met))
def test_every_end_is_in_the_table_and_has_a_next_time(met: Met) -> None:
    found = end(met)
    assert found.after > 0
    assert found.after <= LONGEST or met is Met.FORBIDDEN


@pytest.mark.parametrize("met", [Met.READ, Met.UNCHANGED, Met.NOINDEX, Met.ALIAS])
def test_what_answers_well_is_done_and_in_no_doubt(met: Met) -> None:
    found = end(met, Bad(3, Met.MISSING, NOW - DAY), state=State.GONE)
    assert found.state is State.DONE
    assert found.doubt == NOT_BAD
    assert found.after == (LONGEST if met is Met.ALIAS else SPAN)
    assert found.is_lost == (met is Met.NOINDEX)


def test_only_what_is_not_modified_keeps_its_links() -> None:
    assert end(Met.UNCHANGED).keeps_links
    assert not end(Met.READ).keeps_links


def test_one_bad_day_changes_nothing_but_when_it_comes_back() -> None:
    doubt, spans = NOT_BAD, []
    for visit in range(9):
        found = end(Met.ERROR, doubt, NOW + visit * DAY)
        assert (found.state, found.is_lost, found.keeps_links, found.keeps_validators) == (
            None,
            False,
            True,
            True,
        )
        doubt = found.doubt
        spans.append(found.after / SPAN)
    assert spans[:5] == [0.25, 0.5, 1, 2, 4]
    assert spans[-1] == LONGEST / SPAN
    assert end(Met.UNCHANGED, doubt).doubt == NOT_BAD


@pytest.mark.parametrize(
    ("met", "state"),
    [(Met.MISSING, State.GONE), (Met.MOVED, State.REDIRECTED), (Met.ELSEWHERE, State.REDIRECTED)],
)
def test_a_page_is_lost_when_a_second_visit_an_hour_later_agrees(met: Met, state: State) -> None:
    assert run((0, met))[1].state is None
    assert run((0, met), (HOUR - 1, met))[1].state is None
    assert run((0, met), (HOUR, met))[1].state is state
    assert run((0, met), (HOUR - 1, met), (HOUR + 1, met))[1].state is state
    assert run((0, met), (DAY, Met.ERROR), (2 * DAY, met))[1].state is state, "an error is no other opinion"
    assert run((0, met), (DAY, Met.READ), (2 * DAY, met))[1].state is None
    lost = run((0, met), (HOUR, met))[1]
    assert (lost.is_lost, lost.keeps_links, lost.keeps_validators) == (True, False, False)


def test_kinds_of_redirects_agree_and_a_missing_page_is_none() -> None:
    assert run((0, Met.MOVED), (DAY, Met.ELSEWHERE))[0] is State.REDIRECTED
    assert run((0, Met.MISSING), (DAY, Met.MOVED))[0] is State.DONE
    assert run((0, Met.MISSING), (DAY, Met.MOVED), (2 * DAY, Met.MOVED))[0] is State.REDIRECTED


def test_a_doubtful_page_comes_back_soon_but_not_within_the_hour() -> None:
    assert end(Met.MISSING).after == SPAN / 4
    assert ending(Met.MISSING, State.DONE, HOUR, LONGEST, NOT_BAD, NOW).after == HOUR


def test_how_long_what_is_lost_rests() -> None:
    assert run((0, Met.MISSING), (DAY, Met.MISSING))[1].after == SPAN
    assert run((0, Met.MOVED), (DAY, Met.MOVED))[1].after == 4 * SPAN
    assert run((0, Met.ELSEWHERE), (DAY, Met.ELSEWHERE))[1].after == SPAN
    assert end(Met.GONE).after == LONGEST
    spans = [run(*[(visit * DAY, Met.MISSING) for visit in range(count)])[1].after for count in range(2, 8)]
    assert spans == [SPAN, 2 * SPAN, 4 * SPAN, 8 * SPAN, LONGEST, LONGEST]


def test_410_ends_a_page_at_once() -> None:
    found = end(Met.GONE)
    assert found.state is State.GONE
    assert found.is_lost


@pytest.mark.parametrize("met", [Met.MISSING, Met.GONE])
def test_what_is_gone_is_told_once(met: Met) -> None:
    assert not end(met, state=State.GONE).is_lost


def test_a_gone_page_that_is_back_is_done() -> None:
    assert run((0, Met.GONE), (DAY, Met.READ))[0] is State.DONE


def test_where_the_callback_raised_the_body_is_asked_for_again() -> None:
    found = end(Met.CALLBACK_FAILED)
    assert found.state is State.FAILED
    assert found.keeps_links
    assert not found.keeps_validators
    assert found.after == SPAN / 4


def test_what_robots_txt_forbids_waits_for_another_robots_txt() -> None:
    found = end(Met.FORBIDDEN)
    assert found.state is State.EXCLUDED
    assert found.after == inf
    assert found.is_lost


@pytest.mark.parametrize("met", [Met.MISSING, Met.GONE, Met.MOVED, Met.ELSEWHERE])
def test_hubs_and_hosts_that_lose_most_lose_nothing(met: Met) -> None:
    doubt = NOT_BAD
    for visit in range(20):
        found = end(met, doubt, NOW + visit * DAY, can_end=False)
        assert (found.state, found.is_lost) == (None, False)
        assert found.after <= LONGEST
        doubt = found.doubt


@given(st.lists(st.tuples(st.floats(1, 1e7), st.sampled_from(Met)), max_size=300), st.floats(1, 1e8))
def test_no_story_leaves_the_bounds(visits: list[tuple[float, Met]], span: float) -> None:
    state, doubt, now, longest = State.DONE, NOT_BAD, NOW, max(span, LONGEST)
    for wait, met in visits:
        now += wait
        found = ending(met, state, span, longest, doubt, now)
        assert 0 < found.after <= longest or met is Met.FORBIDDEN
        state, doubt = state if found.state is None else found.state, found.doubt


# -- most of a host at once ------------------------------------------------------------------------------


NONE = Losses()


def losses(
    *met: Met, since: Losses = NONE, now: float = NOW, state: State = State.DONE, doubt: Bad = NOT_BAD
) -> Losses:
    for each in met:
        since = after_visit(since, each, now, state, doubt)
    return since


def test_a_host_that_loses_most_of_its_pages_is_to_blame() -> None:
    assert losses(*[Met.MISSING] * 20).are_many
    assert losses(*[Met.UNCHANGED, Met.MOVED, Met.MOVED] * 10).are_many
    assert not losses(*[Met.UNCHANGED, Met.MISSING] * 10).are_many
    assert not losses(*[Met.MISSING] * 3).are_many, "too few to tell"
    assert not losses(*[Met.ERROR] * 50).are_many, "errors end nothing"
    assert not losses(*[Met.MOVED] * 20, state=State.REDIRECTED).are_many, "they were lost before"
    doubted = Bad(1, Met.MOVED, NOW)
    assert not losses(*[Met.ELSEWHERE] * 20, doubt=doubted).are_many, "their host was well then"
    assert losses(*[Met.MISSING] * 20, doubt=doubted).are_many


def test_a_host_stays_to_blame_until_it_is_well_again() -> None:
    bad = losses(*[Met.MISSING] * 20)
    tomorrow = losses(Met.MISSING, since=bad, now=NOW + DAY)
    assert tomorrow.are_many
    assert not losses(*[Met.UNCHANGED] * 10, since=tomorrow, now=NOW + DAY).are_many
    assert losses(Met.MISSING, since=losses(Met.READ, Met.MISSING), now=NOW + DAY).visits == 1


def test_a_host_of_which_little_comes_back_is_well_again_in_the_end() -> None:
    found, hours = losses(*[Met.MISSING] * 20), 0
    while found.are_many:
        hours += 1
        found = losses(Met.UNCHANGED, since=found, now=NOW + hours * HOUR)
    assert hours == 5
