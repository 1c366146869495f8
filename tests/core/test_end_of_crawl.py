"""When a crawl ends although pages are left; over virtual time."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_frontier import FETCHED, NOW, opened, page, start, take

from scrapy_frontier.core.frontier import Frontier
from scrapy_frontier.core.hosts.host import FOREVER, Politeness, Trouble
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.transitions import Event

A, B = "a.example", "b.example"
WAIT = 300.0


@pytest.fixture
def frontier(tmp_path: Path) -> Iterator[Frontier]:
    found = start(tmp_path, default_politeness=Politeness(0.0, 2), politeness={B: Politeness(5000.0, 1)})
    found.discover([page("a1", A), page("a2", A)], NOW)
    yield found
    while opened:
        opened.pop().close()


def rest(frontier: Frontier, seconds: float) -> None:
    frontier.record_cooldown(A, Trouble("HTTP 429", asked=seconds), NOW)


def hold(frontier: Frontier, seconds: float) -> None:
    frontier.hold(A, NOW, NOW + seconds)


def crawl_delay(frontier: Frontier, seconds: float) -> None:
    frontier.site_delay(A, seconds, NOW)
    frontier.release(take(frontier, NOW), FETCHED, NOW)


def backoff(frontier: Frontier, seconds: float) -> None:
    for _ in range(2):
        frontier.release(take(frontier, NOW), Outcome(Event.RETRIED, delay=seconds), NOW)


SHUT = [rest, hold, crawl_delay, backoff]


@pytest.mark.parametrize("shut", SHUT)
def test_it_ends_at_once_where_nothing_opens_in_time(
    frontier: Frontier, shut: Callable[[Frontier, float], None]
) -> None:
    shut(frontier, 1000)
    assert frontier.ends_at(NOW, WAIT) == NOW
    assert frontier.left_over(NOW).first == pytest.approx(NOW + 1000, rel=0.2)
    assert frontier.left_over(NOW)[1:3] == (1, (A,))


@pytest.mark.parametrize("shut", SHUT)
def test_it_waits_for_what_opens_in_time(frontier: Frontier, shut: Callable[[Frontier, float], None]) -> None:
    shut(frontier, 200)
    assert frontier.ends_at(NOW, WAIT) == NOW + WAIT
    assert frontier.ends_at(NOW + 10, WAIT) == NOW + WAIT
    assert frontier.ends_at(NOW + 250, WAIT) is None  # it is open


@pytest.mark.parametrize("shut", SHUT)
def test_it_never_waits_where_nobody_wants_to(
    frontier: Frontier, shut: Callable[[Frontier, float], None]
) -> None:
    shut(frontier, 0.5)
    assert frontier.ends_at(NOW, 0.0) == NOW


def test_while_anything_else_is_to_be_done_it_goes_on(frontier: Frontier) -> None:
    frontier.discover([page("b1", B), page("b2", B)], NOW)
    rest(frontier, 1000)
    assert frontier.ends_at(NOW, WAIT) is None
    lease = take(frontier, NOW)
    assert frontier.ends_at(NOW, WAIT) is None
    frontier.release(lease, FETCHED, NOW)
    assert frontier.ends_at(NOW, WAIT) is None  # the settings want 5000 seconds between two pages


def test_with_no_page_left_it_is_over(frontier: Frontier) -> None:
    for _ in range(2):
        assert frontier.ends_at(NOW, WAIT) is None
        frontier.release(take(frontier, NOW), FETCHED, NOW)
    assert frontier.ends_at(NOW, WAIT) == NOW


def test_a_side_request_under_way_is_waited_for(frontier: Frontier) -> None:
    frontier.hold(A, NOW)
    assert frontier.ends_at(NOW, WAIT) is None  # somebody is about to find out
    assert not frontier.begin_side_request(A, NOW)
    rest(frontier, 1000)
    assert frontier.ends_at(NOW, WAIT) is None
    frontier.end_side_request(A, NOW)
    assert frontier.ends_at(NOW, WAIT) == NOW


def test_nobody_is_waited_for_who_is_blocked(frontier: Frontier) -> None:
    frontier.discover([page("b1", B)], NOW)
    rest(frontier, 1000)
    frontier.hold(B, NOW)
    assert frontier.ends_at(NOW, WAIT) is None
    frontier._hosts.by_name[B].is_blocked = True
    assert frontier.ends_at(NOW, WAIT) == NOW


@pytest.mark.parametrize("pause", [1.0, 50.0, 290.0, None])
def test_a_host_that_never_answers_keeps_nobody_longer_than_that(
    frontier: Frontier, pause: float | None
) -> None:
    """However short the rests it asks for, or by its doubling ones."""
    now = NOW
    for _ in itertools.count():
        lease = take(frontier, now)
        trouble = Trouble("HTTP 429", asked=pause, sent=lease.leased_at, page_id=lease.page_id)
        frontier.record_cooldown(A, trouble, now)
        frontier.release(lease, Outcome(Event.POSTPONED), now)
        end = frontier.ends_at(now, WAIT)
        assert end is not None
        if end <= now:
            break
        wake = frontier.wake_at()
        assert wake is not None
        assert now < wake < FOREVER
        now = wake
    assert now <= NOW + WAIT


def test_each_page_that_ends_is_worth_waiting_anew(frontier: Frontier) -> None:
    now = NOW
    for _ in range(2):
        frontier.record_cooldown(A, Trouble("HTTP 429", asked=200), now)
        assert frontier.ends_at(now, WAIT) == now + WAIT
        now += 250
        assert frontier.ends_at(now, WAIT) is None
        frontier.release(take(frontier, now), FETCHED, now)
    assert frontier.pending == 0


def test_what_ended_the_crawl_is_still_so_in_the_next_run(frontier: Frontier, tmp_path: Path) -> None:
    rest(frontier, 200)
    frontier.close()
    again = start(tmp_path)
    again.load(NOW + 1)
    assert again.ends_at(NOW + 1, WAIT) == NOW + 1 + WAIT
    assert again.ends_at(NOW + 1, 100) == NOW + 1
    again.close()
