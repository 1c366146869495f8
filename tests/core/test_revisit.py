"""When a page comes back, in which order, and the table of what becomes of it then."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_frontier.core import reasons
from scrapy_frontier.core.revisits.policy import (
    Adaptive,
    Bounds,
    Ending,
    Losses,
    Result,
    after_visit,
    age_value,
    due_at,
    due_value,
    ending,
    result_at_the_end,
    result_by,
    was_reported_gone,
)
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.records import NOT_BAD, BadVisits
from scrapy_frontier.core.transitions import Event

HOUR, DAY = 3600.0, 86400.0
SPAN, LONGEST = 4 * DAY, 45 * DAY
NOW = 1_700_000_000.0


def end(
    result: Result,
    bad: BadVisits = NOT_BAD,
    now: float = NOW,
    state: State = State.DONE,
    can_end: bool = True,
) -> Ending:
    return ending(result, state, SPAN, LONGEST, bad, now, can_end)


def run(*visits: tuple[float, Result], state: State = State.DONE) -> tuple[State, Ending]:
    """The end of several visits of a page, each so many seconds after *NOW*."""
    found = Ending(None, 0.0)
    for after, result in visits:
        found = end(result, found.bad, NOW + after, state)
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
def test_a_hint_never_makes_a_visit_worth_less(weight: float, rate: float, precision: float) -> None:
    assert due_value(weight, rate, DAY, 0.5, precision) >= due_value(weight, rate, DAY, 0.5)


def test_a_hint_makes_due_what_is_worth_it_and_rested() -> None:
    policy = Adaptive(0.6 * DAY, Bounds(HOUR, LONGEST))
    assert policy.is_due_by_hint(1.0, 1 / DAY, 0.9, 2 * HOUR)
    assert not policy.is_due_by_hint(1.0, 1 / DAY, 0.9, HOUR / 2), "visited just now"
    assert not policy.is_due_by_hint(1.0, 3 / DAY, 0.9, 2 * HOUR), "changes too fast for what it weighs"
    assert not policy.is_due_by_hint(9.0, 1 / DAY, 0.4, 2 * HOUR), "a host whose hints are not to be trusted"


def test_an_untrusted_hint_is_no_hint() -> None:
    assert due_value(1.0, 1 / DAY, DAY, 0.0, 0.4) == due_value(1.0, 1 / DAY, DAY)


# -- how visits end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", list(Result))
def test_every_end_is_in_the_table_and_has_a_next_time(result: Result) -> None:
    found = end(result)
    assert found.after > 0
    assert found.after <= LONGEST or result is Result.FORBIDDEN


@pytest.mark.parametrize("result", [Result.READ, Result.UNCHANGED, Result.NOINDEX, Result.ALIAS])
def test_what_answers_well_is_done_and_in_no_doubt(result: Result) -> None:
    found = end(result, BadVisits(3, Result.MISSING, NOW - DAY), state=State.GONE)
    assert found.state is State.DONE
    assert found.bad == NOT_BAD
    assert found.after == (LONGEST if result is Result.ALIAS else SPAN)
    assert found.is_gone == (result is Result.NOINDEX)


def test_only_what_is_not_modified_keeps_its_links() -> None:
    assert end(Result.UNCHANGED).keeps_links
    assert not end(Result.READ).keeps_links


def test_one_bad_day_changes_nothing_but_when_it_comes_back() -> None:
    bad, spans = NOT_BAD, []
    for visit in range(9):
        found = end(Result.ERROR, bad, NOW + visit * DAY)
        assert (found.state, found.is_gone, found.keeps_links, found.keeps_validators) == (
            None,
            False,
            True,
            True,
        )
        bad = found.bad
        spans.append(found.after / SPAN)
    assert spans[:5] == [0.25, 0.5, 1, 2, 4]
    assert spans[-1] == LONGEST / SPAN
    assert end(Result.UNCHANGED, bad).bad == NOT_BAD


@pytest.mark.parametrize(
    ("result", "state"),
    [(Result.MISSING, State.GONE), (Result.MOVED, State.REDIRECTED), (Result.ELSEWHERE, State.REDIRECTED)],
)
def test_a_page_is_lost_when_a_second_visit_an_hour_later_agrees(result: Result, state: State) -> None:
    assert run((0, result))[1].state is None
    assert run((0, result), (HOUR - 1, result))[1].state is None
    assert run((0, result), (HOUR, result))[1].state is state
    assert run((0, result), (HOUR - 1, result), (HOUR + 1, result))[1].state is state
    assert run((0, result), (DAY, Result.ERROR), (2 * DAY, result))[1].state is state, (
        "an error is no other opinion"
    )
    assert run((0, result), (DAY, Result.READ), (2 * DAY, result))[1].state is None
    lost = run((0, result), (HOUR, result))[1]
    assert (lost.is_gone, lost.keeps_links, lost.keeps_validators) == (True, False, False)


def test_kinds_of_redirects_agree_and_a_missing_page_is_none() -> None:
    assert run((0, Result.MOVED), (DAY, Result.ELSEWHERE))[0] is State.REDIRECTED
    assert run((0, Result.MISSING), (DAY, Result.MOVED))[0] is State.DONE
    assert run((0, Result.MISSING), (DAY, Result.MOVED), (2 * DAY, Result.MOVED))[0] is State.REDIRECTED


def test_a_doubtful_page_comes_back_soon_but_not_within_the_hour() -> None:
    assert end(Result.MISSING).after == SPAN / 4
    assert ending(Result.MISSING, State.DONE, HOUR, LONGEST, NOT_BAD, NOW).after == HOUR


def test_how_long_what_is_lost_rests() -> None:
    assert run((0, Result.MISSING), (DAY, Result.MISSING))[1].after == SPAN
    assert run((0, Result.MOVED), (DAY, Result.MOVED))[1].after == 4 * SPAN
    assert run((0, Result.ELSEWHERE), (DAY, Result.ELSEWHERE))[1].after == SPAN
    assert end(Result.GONE).after == LONGEST
    spans = [
        run(*[(visit * DAY, Result.MISSING) for visit in range(count)])[1].after for count in range(2, 8)
    ]
    assert spans == [SPAN, 2 * SPAN, 4 * SPAN, 8 * SPAN, LONGEST, LONGEST]


def test_410_ends_a_page_at_once() -> None:
    found = end(Result.GONE)
    assert found.state is State.GONE
    assert found.is_gone


@pytest.mark.parametrize("result", [Result.MISSING, Result.GONE])
def test_what_is_gone_is_told_once(result: Result) -> None:
    assert not end(result, state=State.GONE).is_gone


def test_a_gone_page_that_is_back_is_done() -> None:
    assert run((0, Result.GONE), (DAY, Result.READ))[0] is State.DONE


def test_where_the_callback_raised_the_body_is_asked_for_again() -> None:
    found = end(Result.CALLBACK_FAILED)
    assert found.state is State.FAILED
    assert found.keeps_links
    assert not found.keeps_validators
    assert found.after == SPAN / 4


def test_what_robots_txt_forbids_waits_for_another_robots_txt() -> None:
    found = end(Result.FORBIDDEN)
    assert found.state is State.EXCLUDED
    assert found.after == inf
    assert found.is_gone


@pytest.mark.parametrize("result", [Result.MISSING, Result.GONE, Result.MOVED, Result.ELSEWHERE])
def test_hubs_and_hosts_that_lose_most_lose_nothing(result: Result) -> None:
    bad = NOT_BAD
    for visit in range(20):
        found = end(result, bad, NOW + visit * DAY, can_end=False)
        assert (found.state, found.is_gone) == (None, False)
        assert found.after <= LONGEST
        bad = found.bad


@given(st.lists(st.tuples(st.floats(1, 1e7), st.sampled_from(Result)), max_size=300), st.floats(1, 1e8))
def test_no_story_leaves_the_bounds(visits: list[tuple[float, Result]], span: float) -> None:
    state, bad, now, longest = State.DONE, NOT_BAD, NOW, max(span, LONGEST)
    for wait, result in visits:
        now += wait
        found = ending(result, state, span, longest, bad, now)
        assert 0 < found.after <= longest or result is Result.FORBIDDEN
        state, bad = state if found.state is None else found.state, found.bad


# -- most of a host at once ------------------------------------------------------------------------------


NONE = Losses()


def losses(
    *result: Result,
    since: Losses = NONE,
    now: float = NOW,
    state: State = State.DONE,
    bad: BadVisits = NOT_BAD,
) -> Losses:
    for each in result:
        since = after_visit(since, each, now, state, bad)
    return since


def test_a_host_that_loses_most_of_its_pages_is_to_blame() -> None:
    assert losses(*[Result.MISSING] * 20).are_many
    assert losses(*[Result.UNCHANGED, Result.MOVED, Result.MOVED] * 10).are_many
    assert not losses(*[Result.UNCHANGED, Result.MISSING] * 10).are_many
    assert not losses(*[Result.MISSING] * 3).are_many, "too few to tell"
    assert not losses(*[Result.ERROR] * 50).are_many, "errors end nothing"
    assert not losses(*[Result.MOVED] * 20, state=State.REDIRECTED).are_many, "they were lost before"
    doubted = BadVisits(1, Result.MOVED, NOW)
    assert not losses(*[Result.ELSEWHERE] * 20, bad=doubted).are_many, "their host was well then"
    assert losses(*[Result.MISSING] * 20, bad=doubted).are_many


def test_a_host_stays_to_blame_until_it_is_well_again() -> None:
    bad = losses(*[Result.MISSING] * 20)
    tomorrow = losses(Result.MISSING, since=bad, now=NOW + DAY)
    assert tomorrow.are_many
    assert not losses(*[Result.UNCHANGED] * 10, since=tomorrow, now=NOW + DAY).are_many
    assert losses(Result.MISSING, since=losses(Result.READ, Result.MISSING), now=NOW + DAY).visits == 1


def test_a_host_of_which_little_comes_back_is_well_again_in_the_end() -> None:
    found, hours = losses(*[Result.MISSING] * 20), 0
    while found.are_many:
        hours += 1
        found = losses(Result.UNCHANGED, since=found, now=NOW + hours * HOUR)
    assert hours == 5


# -- what a visit met ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "status", "result"),
    [
        (Event.FETCHED, 200, Result.READ),
        (Event.FETCHED, 304, Result.READ),
        (Event.GONE, 404, Result.MISSING),
        (Event.GONE, 410, Result.GONE),
        (Event.REDIRECTED, 301, Result.MOVED),
        (Event.REDIRECTED, 308, Result.MOVED),
        (Event.REDIRECTED, 302, Result.ELSEWHERE),
        (Event.REDIRECTED, 0, Result.ELSEWHERE),
        (Event.EXCLUDED, 0, Result.FORBIDDEN),
        (Event.FAILED, 500, Result.ERROR),
        (Event.RETRIED, 503, Result.ERROR),
        (Event.EXPIRED, 0, Result.ERROR),
    ],
)
def test_how_a_visit_ended_says_what_it_met(event: Event, status: int, result: Result) -> None:
    assert result_by(event, status) is result


def test_a_redirect_that_names_no_place_is_an_error_where_a_page_was() -> None:
    assert result_by(Event.FETCHED, 302, was=200) is Result.ERROR
    assert result_by(Event.FETCHED, 302, was=302) is Result.READ
    assert result_by(Event.FETCHED, 304, was=200) is Result.READ


def test_what_a_page_says_of_itself_counts_where_it_was_read() -> None:
    noindex, alias = reasons.NOINDEX(), reasons.ALIAS(url="http://a.example/")
    assert result_by(Event.FETCHED, 200, f"{alias}{reasons.BETWEEN}{noindex}") is Result.NOINDEX
    assert result_by(Event.FETCHED, 200, alias) is Result.ALIAS
    assert result_by(Event.FETCHED, 200, f"{alias}{noindex}") is Result.ALIAS, "whatever its address is"
    assert result_by(Event.GONE, 404, noindex) is Result.MISSING
    assert result_by(Event.EXCLUDED, 200, reasons.SKIPPED()) is Result.NOINDEX


def test_what_others_than_robots_txt_exclude_is_an_error() -> None:
    assert result_by(Event.EXCLUDED, 200, by_robots=False) is Result.ERROR
    assert result_by(Event.EXCLUDED, 200, reasons.SKIPPED(), by_robots=False) is Result.NOINDEX


def test_a_callback_is_to_blame_for_what_it_fails_alone() -> None:
    assert result_by(Event.FAILED, 200, by_spider=True) is Result.CALLBACK_FAILED
    assert result_by(Event.RETRIED, 200, by_spider=True) is Result.ERROR


def test_the_record_of_a_page_says_what_its_visit_met() -> None:
    alias = reasons.ALIAS(url="http://a.example/")
    assert result_at_the_end(State.DONE, 200, alias, is_hub=False) is Result.ALIAS
    assert result_at_the_end(State.DONE, 200, alias, is_hub=True) is Result.READ
    assert result_at_the_end(State.GONE, 410, "", is_hub=False) is Result.GONE
    assert result_at_the_end(State.REDIRECTED, 308, "", is_hub=False) is Result.MOVED
    assert result_at_the_end(State.FAILED, 500, "", is_hub=False) is Result.ERROR
    assert result_at_the_end(State.EXCLUDED, 200, reasons.SKIPPED(), is_hub=False) is Result.NOINDEX


@pytest.mark.parametrize("result", Result)
@pytest.mark.parametrize("state", [State.DONE, State.FAILED, State.GONE, State.REDIRECTED, State.EXCLUDED])
def test_that_a_page_is_gone_is_told_once(result: Result, state: State) -> None:
    """Whichever way it is gone now, and was."""
    ends = {Result.MISSING, Result.GONE, Result.MOVED, Result.ELSEWHERE, Result.FORBIDDEN, Result.NOINDEX}
    was_lost = state not in (State.DONE, State.FAILED)
    assert was_reported_gone(result, state, "") == (result in ends and was_lost)
    assert was_reported_gone(result, state, reasons.SKIPPED()) == (result in ends)
