"""The state machine of a page: the events, and the table of states that they lead to."""

from __future__ import annotations

from enum import IntEnum

from .errors import IllegalTransition
from .store.keys import FINISHED, State


class Event(IntEnum):
    """An event in the life of a page; `TABLE` has the states in which it may happen. Not on disk."""

    DISCOVERED = 0  # a link to it was accepted
    LEASED = 1
    FETCHED = 2
    REDIRECTED = 3
    GONE = 4
    FAILED = 5
    EXCLUDED = 6
    RETRIED = 7  # to be fetched again after a backoff; counts as an attempt
    EXPIRED = 8  # the lease was not released in time; counts as an attempt
    POSTPONED = 9  # not sent after all (its host rests, the crawl stops); counts as no attempt
    REQUEUED = 10  # a finished page is queued again
    LOST = 11  # its request was in the memory of another process; counts as no attempt


# As names of the module: Python 3.11 takes 0.2 us to find a member in its class.
FETCHED, RETRIED, EXPIRED = Event.FETCHED, Event.RETRIED, Event.EXPIRED
UNCOUNTED = (Event.POSTPONED, Event.LOST)  # count as no attempt

TABLE: dict[tuple[State, Event], State] = {
    (State.SEEN, Event.DISCOVERED): State.QUEUED,
    (State.QUEUED, Event.LEASED): State.LEASED,
    (State.LEASED, Event.FETCHED): State.DONE,
    (State.LEASED, Event.REDIRECTED): State.REDIRECTED,
    (State.LEASED, Event.GONE): State.GONE,
    (State.LEASED, Event.FAILED): State.FAILED,
    (State.LEASED, Event.EXCLUDED): State.EXCLUDED,
    (State.LEASED, Event.RETRIED): State.QUEUED,
    (State.LEASED, Event.EXPIRED): State.QUEUED,
    (State.LEASED, Event.POSTPONED): State.QUEUED,
    (State.LEASED, Event.LOST): State.SEEN,
    **{(state, Event.REQUEUED): State.QUEUED for state in (State.SEEN, *FINISHED)},
}


# By event: to hash two members takes a microsecond.
AFTER_LEASE = tuple(TABLE.get((State.LEASED, event)) for event in Event)


def after(state: State, event: Event) -> State:
    """Return the state after *event* by `TABLE`; raises `IllegalTransition` if it has no entry."""
    try:
        return TABLE[state, event]
    except KeyError:
        raise IllegalTransition(f"a page that is {state.name} cannot be {event.name}") from None


def event_at(status: int) -> Event:
    """Return the event that ends a visit answered with an error *status*."""
    return Event.GONE if status in (404, 410) else Event.FAILED
