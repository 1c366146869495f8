"""Known pages that are requested again: which seeds are fetched, and what a forced visit brings back."""

from __future__ import annotations

import pytest

from scrapy_frontier.core.pages.seed_policy import (
    after_visits_until,
    has_failed,
    is_left_to_filter,
    was_visited_before,
)
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.records import Page, Visits

URL = "http://a.example/"
STORED = [state for state in State if state is not State.LEASED]


def test_a_seed_is_tried_again_that_failed_or_led_to_a_page_that_did() -> None:
    for state in STORED:
        page = Page(URL, state=state)
        led = {
            0: Page(URL, state=State.REDIRECTED, target=1),
            1: Page(URL, State.REDIRECTED, target=2),
            2: page,
        }
        assert has_failed(page, led.get) == has_failed(led[0], led.get) == (state is State.FAILED)
    around = {number: Page(URL, State.REDIRECTED, target=1 - number) for number in range(2)}
    assert not has_failed(around[0], around.get)
    assert not has_failed(around[0], {}.get), "it led to a page that was forgotten"


def test_a_filter_decides_about_pages_that_were_never_wanted() -> None:
    assert is_left_to_filter(None)
    assert [state for state in STORED if is_left_to_filter(Page(URL, state=state))] == [State.SEEN]
    assert not is_left_to_filter(Page(URL, State.SEEN, is_deferred=True)), "a shorter way may lead to it"


@pytest.mark.parametrize("when", [50.0, 100.9, 101.0, 150.0])
def test_a_page_is_forced_by_the_second_of_its_last_visit(when: float) -> None:
    """That of its record if none is kept of visits; a requeue forgets how the page ended."""
    assert was_visited_before(Page(URL, changed=100), when) == (when >= 101)
    assert was_visited_before(Page(URL, changed=0, visits=Visits(first=90, last=100)), when) == (when >= 101)
    by_cache = Page(URL, State.DONE, changed=100, visits=Visits(first=90, last=90))
    assert was_visited_before(by_cache, when) == (when >= 101), "it ended by what a cache had"
    for state in (State.FAILED, State.EXCLUDED):
        assert was_visited_before(by_cache._replace(state=state), when) == (when >= 91), "it showed nothing"
    assert was_visited_before(Page(URL), when), "it never was"
    assert was_visited_before(Page(URL, changed=int(when)), after_visits_until(when)), "just now"
    assert not was_visited_before(Page(URL, changed=int(when + 1)), after_visits_until(when)), "by that force"
