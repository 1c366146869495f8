"""Pages that something beside the host answered: its clock goes back, and it is never asked too soon."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_frontier import FETCHED, NOW, page, start, take

from scrapy_frontier.core.hosts.host import Politeness, Trouble

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy_frontier.core.frontier import Frontier
    from scrapy_frontier.core.pages.leases import Lease

A, DELAY = "a.example", 10.0


@pytest.fixture
def frontier(tmp_path: Path) -> Frontier:
    found = start(tmp_path, default_politeness=Politeness(DELAY, 4))
    found.discover([page(str(number)) for number in range(9)], NOW)
    return found


def unasked(frontier: Frontier, now: float) -> Lease:
    """A page that was handed out at *now*, and about to be sent."""
    lease = take(frontier, now)
    assert frontier.will_send(lease, now)
    return lease


def sent(frontier: Frontier, now: float) -> Lease:
    lease = unasked(frontier, now)
    frontier.on_sent(lease, now)
    return lease


def test_a_host_that_was_not_asked_may_be_asked_at_once(frontier: Frontier) -> None:
    frontier.release(sent(frontier, NOW), FETCHED, NOW + 1)
    for after in (10, 11, 12):
        frontier.on_response(unasked(frontier, NOW + after), NOW + after, was_asked=False)
    sent(frontier, NOW + 12)
    assert frontier.lease(NOW + 12 + DELAY - 0.01) is None
    take(frontier, NOW + 12 + DELAY)
    frontier.close()


def test_a_side_request_that_was_not_asked_leaves_the_clock_as_it_was(tmp_path: Path) -> None:
    frontier = start(tmp_path, default_politeness=Politeness(DELAY, 2))
    frontier.discover([page("1")], NOW)
    for turn in range(3):
        assert frontier.begin_side_request(A, NOW) == 0.0, turn
        frontier.end_side_request(A, NOW, was_asked=False)
    sent(frontier, NOW + 1)
    assert frontier.begin_side_request(A, NOW + 1) > 0
    assert frontier.begin_side_request(A, NOW + 1 + DELAY) == 0.0
    frontier.end_side_request(A, NOW + 1 + DELAY, was_asked=False)
    assert frontier.begin_side_request(A, NOW + 2 + DELAY) > 0, "a page is under way"
    frontier.close()


MOVES = (
    *("lease", "lease", "lease", "sent", "unasked", "unasked", "off", "release"),
    *("side", "end side", "end unasked side", "slower", "trouble", "untold"),
)


STEPS = st.tuples(st.sampled_from(MOVES), st.floats(0, 8))


@given(st.integers(1, 3), st.lists(STEPS, min_size=40, max_size=90))
def test_no_request_goes_out_before_the_delay_is_over(
    concurrency: int, moves: list[tuple[str, float]]
) -> None:
    """Whatever else is under way: pages that are asked for or not, side requests, slower sites."""
    with TemporaryDirectory() as directory:
        play(directory, concurrency, moves)


def play(directory: str, concurrency: int, moves: list[tuple[str, float]]) -> None:
    frontier = start(directory, default_politeness=Politeness(DELAY, concurrency, 0.5))  # type: ignore[arg-type]
    frontier.discover([page(str(number)) for number in range(90)], NOW)
    now, delay, resting = NOW, DELAY, 0.0
    asked, side_requests = [0.0], []  # when
    about: tuple[Lease, float] | None = None  # and the delay at its hand-out
    out: list[Lease] = []
    for move, seconds in moves:
        now += seconds
        if move in ("lease", "untold") and (lease := frontier.lease(now)) is not None:
            assert now >= resting
            if move == "lease":
                assert about is None
                assert frontier.will_send(lease, now)
                about = lease, delay
            else:
                assert now - max(asked) >= delay - 1e-6
                asked.append(now)
                out.append(lease)
        elif move == "sent" and about is not None:
            assert now - max(asked) >= about[1] - 1e-6
            asked.append(now)
            frontier.on_sent(about[0], now)
            out.append(about[0])
            about = None
        elif move == "unasked" and about is not None:
            frontier.on_response(about[0], now, was_asked=False)
            frontier.release(about[0], FETCHED, now)
            about = None
        elif move == "off" and out:
            frontier.on_response(out[0], now, 0.1)
        elif move == "release" and out:
            frontier.release(out.pop(0), FETCHED, now)
        elif move == "side" and not frontier.begin_side_request(A, now):
            assert now - max(asked) >= delay - 1e-6
            asked.append(now)
            side_requests.append(now)
        elif move in ("end side", "end unasked side") and side_requests:
            was_asked, begun = move == "end side", side_requests.pop()
            frontier.end_side_request(A, now, was_asked)
            asked[asked.index(begun)] *= was_asked
        elif move == "slower":
            delay = 2 * DELAY if frontier.site_delay(A, 2 * DELAY, now) else delay
        elif move == "trouble":
            resting = frontier.record_cooldown(A, Trouble("HTTP 503", 30.0), now).cooldown.until
    frontier.close()
