"""Hosts that are held, side requests, and delays that a site asks for; over virtual time."""

from pathlib import Path

import pytest
from test_frontier import FETCHED, NOW, SLOW, drain, kill, let_go, page, rows, start, take  # noqa: F401 - a fixture

from scrapy_frontier.core.frontier import Frontier
from scrapy_frontier.core.hosts.host import FOREVER, Politeness
from scrapy_frontier.core.hosts.robots_policy import Answer, after_answer
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.transitions import Event

A, B = "a.example", "b.example"


@pytest.fixture
def frontier(tmp_path: Path) -> Frontier:
    found = start(tmp_path)
    found.discover([page("a1"), page("a2"), page("b1", B)], NOW)
    return found


# -- holding -----------------------------------------------------------------------------------------------


def test_a_held_host_gives_no_page_and_keeps_nobody_else(frontier: Frontier) -> None:
    frontier.hold(A, NOW)
    assert drain(frontier) == ["b1"]
    assert frontier.pending == 2
    assert frontier.wake_at() is None  # nobody knows when
    frontier.hold(A, NOW + 5, 0.0)
    assert drain(frontier, NOW + 5) == ["a1", "a2"]


def test_a_host_held_until_a_time_is_let_go_then(frontier: Frontier) -> None:
    frontier.hold(A, NOW, NOW + 60)
    drain(frontier)
    assert frontier.wake_at() == NOW + 60
    assert frontier.lease(NOW + 59) is None
    assert drain(frontier, NOW + 60) == ["a1", "a2"]


def test_holding_writes_nothing_and_counts_for_nothing(frontier: Frontier, tmp_path: Path) -> None:
    frontier.commit()
    before = rows(frontier)
    frontier.hold(A, NOW)
    drain(frontier)
    frontier.hold(A, NOW, NOW + 60)
    frontier.hold(A, NOW, 0.0)
    frontier.commit()
    after = rows(frontier)
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    assert not any(b"a.example" in key for key in changed)
    assert frontier.page(0).attempts == 0  # type: ignore[union-attr]


# -- leases that were none ----------------------------------------------------------------------------------


def test_a_lease_put_back_leaves_no_trace(tmp_path: Path) -> None:
    frontier = start(tmp_path, default_politeness=Politeness(10.0, 2))
    frontier.discover([page(f"{number}") for number in range(30)], NOW)
    frontier.commit()
    before = rows(frontier)
    for _ in range(3):
        lease = take(frontier)
        assert frontier.lease(NOW) is None  # its host cools
        frontier.put_back(lease, NOW)
        assert (frontier.leased, frontier.pending) == (0, 30)
    assert rows(frontier) == before
    found = []
    for turn in range(30):
        lease = take(frontier, NOW + turn * 10)
        frontier.release(lease, FETCHED, NOW + turn * 10)
        found.append(lease.page.url.rpartition("/")[2])
    assert found == [f"{number}" for number in range(30)]
    assert frontier.pending == 0


def test_a_delay_learnt_under_a_lease_counts_from_the_visit_before_it(frontier: Frontier) -> None:
    frontier.release(take(frontier), FETCHED, NOW)
    lease = take(frontier, NOW + 1)
    assert lease.host == A
    frontier.site_delay(A, 5.0, NOW + 1)
    frontier.put_back(lease, NOW + 1)
    drain(frontier, NOW + 1)
    assert frontier.wake_at() == NOW + 5


def test_a_waived_lease_costs_its_host_nothing(tmp_path: Path) -> None:
    frontier = start(tmp_path, default_politeness=SLOW)
    frontier.discover([page(f"{number}") for number in range(3)], NOW)
    for _ in range(2):
        lease = take(frontier)
        frontier.skip_visit(lease, NOW)
        frontier.release(lease, Outcome(Event.EXCLUDED, reason="robots.txt"), NOW)
    assert take(frontier).page.url.endswith("/2")
    assert frontier.lease(NOW) is None


# -- side requests ----------------------------------------------------------------------------------------


def test_a_side_request_waits_for_the_host_and_the_host_for_the_side_request(tmp_path: Path) -> None:
    frontier = start(tmp_path, default_politeness=SLOW)
    frontier.discover([page("1"), page("2")], NOW)
    frontier.release(take(frontier), FETCHED, NOW + 1)
    assert frontier.begin_side_request(A, NOW + 4) == pytest.approx(6.0, abs=0.1)
    assert frontier.begin_side_request(A, NOW + 11) == 0.0
    assert frontier.lease(NOW + 30) is None  # one request at a time
    frontier.end_side_request(A, NOW + 31)
    assert frontier.lease(NOW + 40) is None
    assert take(frontier, NOW + 41)


def test_a_host_without_pages_keeps_its_delay_between_side_requests(tmp_path: Path) -> None:
    frontier = start(tmp_path, default_politeness=SLOW)
    assert frontier.begin_side_request(A, NOW) == 0.0
    frontier.end_side_request(A, NOW + 2)
    assert frontier.begin_side_request(A, NOW + 5) == 7.0
    frontier.lease(NOW + 12)
    assert frontier.hosts == 0  # forgotten when its delay has passed
    assert frontier.begin_side_request(A, NOW + 12) == 0.0


def test_the_delay_after_a_side_request_outlives_a_kill(tmp_path: Path) -> None:
    frontier = start(tmp_path, default_politeness=SLOW)
    frontier.discover([page("1")], NOW)
    frontier.commit()
    frontier.begin_side_request(A, NOW)
    kill(frontier)
    assert start(tmp_path, NOW + 2, default_politeness=SLOW).begin_side_request(A, NOW + 3) == 9.0


def test_a_side_request_goes_to_a_host_that_is_held_and_none_to_one_that_is_blocked(
    frontier: Frontier,
) -> None:
    frontier.hold(A, NOW, NOW + 60)
    assert frontier.begin_side_request(A, NOW) == 0.0
    frontier.block(B, NOW)
    assert frontier.begin_side_request(B, NOW) == FOREVER


def test_a_side_request_waits_for_a_free_place(tmp_path: Path) -> None:
    frontier = start(tmp_path, default_politeness=Politeness(0.0, 1))
    frontier.discover([page("1"), page("2")], NOW)
    lease = take(frontier)
    assert 0 < frontier.begin_side_request(A, NOW) < 1
    frontier.on_response(lease, NOW)
    assert frontier.begin_side_request(A, NOW) == 0.0
    assert frontier.lease(NOW) is None


# -- delays a site asks for ---------------------------------------------------------------------------------


def test_the_largest_delay_counts_and_one_request_at_a_time(tmp_path: Path) -> None:
    frontier = start(tmp_path, default_politeness=Politeness(1.0, 8))
    frontier.discover([page(f"{number}") for number in range(9)], NOW)
    assert frontier.site_delay(A, 5.0, NOW, "http")
    assert frontier.site_delay(A, 3.0, NOW, "https") is False
    lease = take(frontier)
    assert frontier.wake_at() == lease.deadline  # busy with one
    frontier.on_response(lease, NOW)
    assert frontier.wake_at() == NOW + 5
    assert frontier.site_delay(A, 0.0, NOW, "http")
    assert frontier.wake_at() == NOW + 3
    frontier.site_delay(A, 0.0, NOW, "https")
    assert frontier.wake_at() == NOW + 1
    take(frontier, NOW + 1)
    assert take(frontier, NOW + 2)  # several at once again


def test_a_delay_the_site_asks_for_counts_from_its_answer(frontier: Frontier) -> None:
    """However late a busy event loop has sent the request, and however slow the answer was."""
    frontier.site_delay(A, 5.0, NOW)
    lease = take(frontier)
    frontier.on_response(lease, NOW + 3)
    drain(frontier, NOW + 3)
    assert frontier.wake_at() == NOW + 8


def test_a_longer_usual_delay_stands_and_throttling_goes_on_beneath(tmp_path: Path) -> None:
    frontier = start(tmp_path, default_politeness=SLOW)
    frontier.discover([page("1"), page("2")], NOW)
    frontier.release(take(frontier), FETCHED, NOW)
    frontier.site_delay(A, 4.0, NOW)
    assert frontier.wake_at() == pytest.approx(NOW + 10, abs=0.1)
    frontier.set_delay(A, 1.0, NOW)
    assert frontier.wake_at() == NOW + 4


def test_the_delay_counts_from_a_side_request_that_told_of_it(frontier: Frontier) -> None:
    frontier.hold(A, NOW)
    drain(frontier)
    frontier.begin_side_request(A, NOW)
    frontier.end_side_request(A, NOW + 1)
    frontier.site_delay(A, 5.0, NOW + 1)
    frontier.hold(A, NOW + 1, 0.0)
    assert frontier.lease(NOW + 5.9) is None
    assert take(frontier, NOW + 6)


# -- copies of robots.txt -----------------------------------------------------------------------------------


def test_a_copy_outlives_a_kill_at_once(frontier: Frontier, tmp_path: Path) -> None:
    copy = after_answer(None, Answer(200, b"User-agent: *\nDisallow: /x\n"), NOW)
    assert frontier.robots_copy("http://a.example") is None
    frontier.keep_robots_copy("http://a.example", copy)
    kill(frontier)
    again = start(tmp_path)
    assert again.robots_copy("http://a.example") == copy
    assert again.robots_copy("https://a.example") is None
