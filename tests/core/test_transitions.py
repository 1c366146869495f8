"""The life of a page: every pair of state and event is decided, and numbers on disk never change."""

from itertools import product

import pytest

from scrapy_frontier.core.errors import IllegalTransition
from scrapy_frontier.core.store.keys import FINISHED, State
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
    assert {state.name: state.value for state in State} == {
        "SEEN": 0,
        "QUEUED": 1,
        "LEASED": 2,
        "DONE": 3,
        "REDIRECTED": 4,
        "GONE": 5,
        "FAILED": 6,
        "EXCLUDED": 7,
    }
    assert {event.name: event.value for event in Event} == {
        "DISCOVERED": 0,
        "LEASED": 1,
        "FETCHED": 2,
        "REDIRECTED": 3,
        "GONE": 4,
        "FAILED": 5,
        "EXCLUDED": 6,
        "RETRIED": 7,
        "EXPIRED": 8,
        "POSTPONED": 9,
        "REQUEUED": 10,
        "LOST": 11,
    }


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)), ids=lambda member: member.name)
def test_each_event_in_each_state_is_decided(state: State, event: Event) -> None:
    target = LEGAL.get((state.name, event.name))
    if target is not None:
        assert after(state, event) is State[target]
    else:
        with pytest.raises(IllegalTransition, match=f"{state.name} cannot be {event.name}"):
            after(state, event)


def test_the_table_holds_nothing_else() -> None:
    assert {(state.name, event.name): target.name for (state, event), target in TABLE.items()} == LEGAL


def test_every_lease_can_end_in_every_finished_state() -> None:
    reached = {target for (state, _), target in TABLE.items() if state is State.LEASED}
    assert reached == {*FINISHED, State.QUEUED, State.SEEN}


def test_a_finished_page_comes_back_only_when_somebody_wants_it() -> None:
    assert {event for state, event in TABLE if state in FINISHED} == {Event.REQUEUED}


def test_a_page_is_gone_where_the_server_says_that_there_is_none() -> None:
    assert [event_at(status) for status in (404, 410)] == [Event.GONE, Event.GONE]
    assert {event_at(status) for status in (400, 401, 403, 429, 451, 500, 503)} == {Event.FAILED}
