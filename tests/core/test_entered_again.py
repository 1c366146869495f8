"""Known pages that are entered again: which seeds are fetched, and what a forced visit brings back."""

from __future__ import annotations

import pytest

from scrapy_frontier.core.pages.entered_again import (
    FORCED,
    LEFT,
    after_visits_until,
    goes_round,
    is_left_to_filter,
    is_repeated,
    is_tried_again,
    takes_request,
    was_visited_before,
)
from scrapy_frontier.core.pages.traps import WORDS
from scrapy_frontier.core.parse.directives import LOOP, REFUSALS, TOO_LONG, TOO_MANY_HOSTS
from scrapy_frontier.core.reasons import BEHIND, BUDGET, NOT_FOLLOWED
from scrapy_frontier.core.store.keys import FINISHED, State
from scrapy_frontier.core.store.records import Page, Visits

URL = "http://a.example/"
STORED = [state for state in State if state is not State.LEASED]


def test_every_state_is_decided() -> None:
    assert set(STORED) - set(FORCED) == {State.SEEN, State.QUEUED}
    assert set(STORED) - set(LEFT) == {State.QUEUED}


@pytest.mark.parametrize("state", STORED)
def test_a_seed_is_tried_again_that_failed_or_was_redirected_until_that_was_enough(state: State) -> None:
    assert is_tried_again(Page(URL, state=state)) == (state is State.FAILED)
    over = LOOP, TOO_LONG, TOO_MANY_HOSTS
    for refused in REFUSALS:
        page = Page(URL, state=state, reason=NOT_FOLLOWED(why=refused.reason, url=URL))
        goes_on = state in (State.EXCLUDED, State.REDIRECTED) and refused in over
        assert is_tried_again(page) == (state is State.FAILED or goes_on)


def test_a_seed_that_led_over_a_limit_is_tried_again() -> None:
    """It may be higher by now."""
    budgets = BUDGET(most="1,000 pages", whose="host a.example"), BEHIND(whose="domain a.example")
    for why in (*WORDS.values(), *budgets):
        page = Page(URL, state=State.REDIRECTED, reason=NOT_FOLLOWED(why=why, url=f"{URL}?(a)"))
        assert is_tried_again(page)
        assert not is_tried_again(page._replace(state=State.DONE)), "a refresh is no more than a note"


def test_a_way_goes_round_that_leads_back_or_where_it_was_enough() -> None:
    """A page that was there sends away for a while only where the way leads back to itself."""
    enough = Page(URL, state=State.EXCLUDED, reason=NOT_FOLLOWED(why=TOO_LONG.reason, url=URL))
    done = Page(URL, state=State.DONE)
    back = {number: Page(URL, state=State.REDIRECTED, target=(number + 1) % 30) for number in range(30)}
    circle = {**back, 29: back[29]._replace(target=3)}
    long = {**back, 29: enough}
    for pages, is_round, is_back in ((back, True, True), (circle, True, False), (long, True, False)):
        assert goes_round(0, pages[0], pages.get) == is_round
        assert goes_round(0, pages[0], pages.get, False) == is_back
    assert not goes_round(0, back[0], {**back, 29: done}.get)
    assert not goes_round(0, back[0], {1: back[1]}.get)


def test_a_way_goes_round_by_a_page_that_waits_to_be_tried_again() -> None:
    """It no longer says where it led to."""
    led, waits = Page(URL, state=State.REDIRECTED, target=1), Page(URL, state=State.QUEUED)
    assert goes_round(0, led, {1: waits}.get, tried_again={1})
    assert goes_round(0, led, {1: led._replace(target=2), 2: waits}.get, tried_again={1}), "it led elsewhere"
    assert not goes_round(0, led, {1: waits}.get, tried_again={2})
    assert not goes_round(0, led, {1: waits}.get, False, tried_again={1})
    assert not goes_round(0, led, {1: Page(URL, state=State.DONE)}.get, tried_again={1}), "it was read by now"
    assert not goes_round(1, waits, {}.get, tried_again={2})


def test_a_filter_decides_about_pages_that_were_never_wanted() -> None:
    assert is_left_to_filter(None)
    assert [state for state in STORED if is_left_to_filter(Page(URL, state=state))] == [State.SEEN]
    assert not is_left_to_filter(Page(URL, State.SEEN, is_deferred=True)), "a shorter way may lead to it"


@pytest.mark.parametrize("when", [50.0, 100.9, 101.0, 150.0])
def test_a_page_is_forced_by_the_second_of_its_last_visit(when: float) -> None:
    """That of its record, where none is kept of visits; a requeue forgets how the page ended."""
    assert was_visited_before(Page(URL, changed=100), when) == (when >= 101)
    assert was_visited_before(Page(URL, changed=0, visits=Visits(first=90, last=100)), when) == (when >= 101)
    by_cache = Page(URL, State.DONE, changed=100, visits=Visits(first=90, last=90))
    assert was_visited_before(by_cache, when) == (when >= 101), "it ended by what a cache had"
    for state in (State.FAILED, State.EXCLUDED):
        assert was_visited_before(by_cache._replace(state=state), when) == (when >= 91), "it showed nothing"
    assert was_visited_before(Page(URL), when), "it never was"
    assert was_visited_before(Page(URL, changed=int(when)), after_visits_until(when)), "just now"
    assert not was_visited_before(Page(URL, changed=int(when + 1)), after_visits_until(when)), "by that force"


@pytest.mark.parametrize("state", STORED, ids=lambda state: state.name)
@pytest.mark.parametrize("is_of_this_run", [True, False])
@pytest.mark.parametrize("was_seed", [True, False])
@pytest.mark.parametrize("is_by_parent", [None, True, False])
def test_a_seed_is_repeated_within_its_run_alone(
    state: State, is_of_this_run: bool, was_seed: bool, is_by_parent: bool | None
) -> None:
    facts = is_of_this_run, was_seed, is_by_parent
    if state is State.SEEN:
        assert is_repeated(Page(URL, state), *facts)
        assert not is_repeated(Page(URL, state, is_deferred=True), *facts), "it waits for room in a budget"
    elif is_by_parent is None:
        assert is_repeated(Page(URL, state), *facts) == (is_of_this_run and was_seed)
    else:
        assert is_repeated(Page(URL, state), *facts) == is_by_parent
    assert is_repeated(None, *facts)


@pytest.mark.parametrize("state", STORED, ids=lambda state: state.name)
def test_a_seed_brings_its_request_where_nobody_else_does(state: State) -> None:
    page = Page(URL, state)
    assert takes_request(page, has_pattern=True) == (state is State.QUEUED)
    assert takes_request(page, comes_back=True) == (state in FINISHED)
    assert not takes_request(page)
