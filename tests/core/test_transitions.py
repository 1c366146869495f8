"""The life of a page: every pair of state and event is decided, and numbers on disk never change."""

from itertools import product

import pytest

from scrapy_frontier.core.errors import IllegalTransition
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.transitions import TABLE, Event, after, event_at

LEGAL = {
    ("SEEN", "DISCOVERED"): "QUEUED",
    ("SEEN", "REQUEUED"): "QUEUED",
    ("QUEUED", "LEASED"): "LEASED",
    ("LEASED", "FETCHED"): "DONE",
    ("LEASED", "REDIRECTED"): "REDIRECTED",
    ("LEASED", "GONE"): "GONE",
    ("LEASED", "FAILED"): "FAILED",
    ("LEASED", "EXCLUDED"): "EXCLUDED",
    ("LEASED", "RETRIED"): "QUEUED",
    ("LEASED", "EXPIRED"): "QUEUED",
    ("LEASED", "POSTPONED"): "QUEUED",
    ("LEASED", "LOST"): "SEEN",
    ("DONE", "REQUEUED"): "QUEUED",
    ("REDIRECTED", "REQUEUED"): "QUEUED",
    ("GONE", "REQUEUED"): "QUEUED",
    ("FAILED", "REQUEUED"): "QUEUED",
    ("EXCLUDED", "REQUEUED"): "QUEUED",
}


def test_numbers_on_disk_never_change() -> None:
    """A new state takes a new number; a row holds three bits of it."""
    states = "SEEN QUEUED LEASED DONE REDIRECTED GONE FAILED EXCLUDED"
    assert {state.name: state.value for state in State} == named(states)
    events = (
        "DISCOVERED LEASED FETCHED REDIRECTED GONE FAILED EXCLUDED RETRIED EXPIRED POSTPONED REQUEUED LOST"
    )
    assert {event.name: event.value for event in Event} == named(events)


def named(names: str) -> dict[str, int]:
    return {name: number for number, name in enumerate(names.split())}


def test_the_table_is_this_one_and_all_else_is_illegal() -> None:
    assert {(state.name, event.name): target.name for (state, event), target in TABLE.items()} == LEGAL
    for state, event in product(State, Event):
        if (state.name, event.name) not in LEGAL:
            with pytest.raises(IllegalTransition, match=f"{state.name} cannot be {event.name}"):
                after(state, event)


def test_a_page_is_gone_with_404_and_410_alone() -> None:
    assert [event_at(status) for status in (404, 410)] == [Event.GONE, Event.GONE]
    assert {event_at(status) for status in (400, 401, 403, 429, 451, 500, 503)} == {Event.FAILED}
