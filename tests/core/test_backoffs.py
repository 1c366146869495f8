"""How long a page waits after an attempt that failed."""

from pathlib import Path

import pytest
from openings import NOW, page

from scrapy_frontier.core.frontier import Event, Frontier, FrontierOptions, Outcome
from scrapy_frontier.core.hosts.host import Politeness
from scrapy_frontier.core.pages.queue import LONGEST_BACKOFF, backoff
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.leveldb import Store

DAY = 86_400.0


def test_a_backoff_doubles_with_each_attempt_up_to_an_hour() -> None:
    assert [backoff(attempts) for attempts in (1, 2, 3, 10)] == [1.0, 2.0, 4.0, 512.0]
    assert backoff(13) == backoff(10_000) == LONGEST_BACKOFF


def in_backoff(directory: Path, pages: int, now: float, delay: float) -> None:
    """A frontier in which so many pages were tried at *now*, and wait for *delay* seconds."""
    frontier = Frontier(Store(directory), now, FrontierOptions(default_politeness=Politeness(0.0, 500)))
    frontier.discover([page(number) for number in range(pages)], now)
    leases = [frontier.lease(now) for _ in range(pages)]
    for lease in leases:
        assert lease is not None
        frontier.release(lease, Outcome(Event.RETRIED, 503, delay=delay), now)
    frontier.close()


def had(frontier: Frontier, now: float) -> int:
    """How many pages are handed out at *now*, asked for as often as `wake_at` says."""
    count = 0
    while (wake_at := frontier.wake_at()) is not None and wake_at <= now:
        while frontier.lease(now) is not None:
            count += 1
    return count


def test_pages_do_not_wait_until_it_is_as_late_as_a_clock_said_that_was_ahead(tmp_path: Path) -> None:
    in_backoff(tmp_path, 200, NOW + 3 * DAY, 30.0)
    frontier = Frontier(Store(tmp_path), NOW, FrontierOptions(default_politeness=Politeness(0.0, 500)))
    assert had(frontier, NOW) == 200
    assert frontier.pending == 0
    frontier.close()


def test_pages_that_wait_rightly_wait_to_the_end_beside_those(tmp_path: Path) -> None:
    in_backoff(tmp_path, 1, NOW + 3 * DAY, 30.0)
    frontier = Frontier(Store(tmp_path), NOW)
    frontier.discover([page(1), page(2)], NOW)
    for _ in range(3):
        lease = frontier.lease(NOW)
        assert lease is not None
        frontier.release(lease, Outcome(Event.RETRIED, 503, delay=DAY), NOW)
    assert had(frontier, NOW) == 0
    frontier.close()

    frontier = Frontier(Store(tmp_path), NOW)
    assert had(frontier, NOW + DAY - 1) == 0
    assert frontier.wake_at() == pytest.approx(NOW + DAY)
    assert had(frontier, NOW + DAY) == 3
    frontier.close()


def test_a_row_nobody_can_read_is_passed_over_with_those_that_wait_too_long(tmp_path: Path) -> None:
    in_backoff(tmp_path, 70, NOW + 3 * DAY, 30.0)
    store = Store(tmp_path)
    first, _ = next(store.scan(keys.WAITING))
    store.write({first: b""})
    frontier = Frontier(store, NOW, FrontierOptions(default_politeness=Politeness(0.0, 500)))
    assert had(frontier, NOW) == 69
    frontier.close()
