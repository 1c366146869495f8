"""Pages that are handed back, since a middleware waits for something: none of them is the next for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scrapy_frontier.core.frontier import Event, Frontier, FrontierOptions, Link, Outcome
from scrapy_frontier.core.hosts.host import Politeness
from scrapy_frontier.core.revisits.plans import RevisitRule
from scrapy_frontier.core.revisits.policy import Fetched
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import COUNTS, Counts, Page, encode_page

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1.7e9
HANDED_BACK = Outcome(Event.POSTPONED, reason="handed back by a middleware", is_behind=True)
READ = Outcome(Event.FETCHED, 200, fetched=Fetched(b'"1"', b"", b"digest", "text/html", 100, True))


def opened(directory: Path) -> Frontier:
    frontier = Frontier(Store(directory), NOW, FrontierOptions(default_politeness=Politeness(0.0, 1)))
    while not frontier.load(NOW):
        pass
    return frontier


def turns(frontier: Frontier, count: int) -> list[int]:
    """Which pages come, each of which is handed back."""
    found = []
    for _ in range(count):
        lease = frontier.lease(NOW)
        assert lease is not None
        found.append(int(lease.page.url[-1]))
        frontier.release(lease, HANDED_BACK, NOW)
    return found


@pytest.mark.parametrize("priority", [0, 5, -(2**40), 2**40])
def test_a_page_that_is_handed_back_comes_again_at_once_and_then_after_the_others(
    tmp_path: Path, priority: int
) -> None:
    """A run that begins anew knows of those before."""
    frontier = opened(tmp_path)
    urls = [f"http://a.example/{number}" for number in range(3)]
    frontier.discover(
        [Link(url.encode().rjust(20), url, "a.example", priority, payload=b"{}") for url in urls], NOW
    )
    assert turns(frontier, 12) == [0, 0, 1, 1, 2, 2, 0, 1, 2, 0, 1, 2]
    turns(frontier, 300)
    frontier.close()
    frontier = opened(tmp_path)
    assert set(turns(frontier, 12)) == {0, 1, 2}
    late = Link(b"late".rjust(20), "http://a.example/9", "a.example", priority)
    frontier.discover([late], NOW)
    assert 9 in turns(frontier, 2)
    frontier.close()


def test_each_visit_of_a_page_begins_anew(tmp_path: Path) -> None:
    """And nothing is kept of one that is over."""
    frontier = opened(tmp_path)
    urls = [f"http://a.example/{number}" for number in range(2)]
    frontier.discover([Link(url.encode().rjust(20), url, "a.example") for url in urls], NOW)
    for first in (0, 1):
        assert turns(frontier, 1) == [first]
        lease = frontier.lease(NOW)
        assert lease is not None
        assert lease.page.url == urls[first], "at once"
        frontier.release(lease, Outcome(Event.FETCHED, 200), NOW)
        assert not frontier._waiting.came_again
        frontier.requeue(lease.page_id, NOW)
    assert len(set(turns(frontier, 2))) == 1
    frontier.close()


def test_pages_that_come_back_take_turns_in_a_large_frontier(tmp_path: Path) -> None:
    """A new page that was handed back has a turn behind more pages than the turns of those have room for."""
    store, rule = Store(tmp_path), RevisitRule(shelf_life=100.0, horizon=1e6)
    counts = Counts.none()
    counts.next_page = 1 << 25
    last = encode_page(Page("http://a.example/last", State.SEEN))
    store.write({keys.COUNTS: COUNTS.encode(counts), keys.page_key(counts.next_page - 1): last})
    frontier = Frontier(store, NOW, FrontierOptions(revisits=rule, default_politeness=Politeness(0.0, 1)))
    urls = [f"http://a.example/{number}" for number in range(3)]
    frontier.discover([Link(url.encode().rjust(20), url, "a.example") for url in urls[:2]], NOW)
    while (lease := frontier.lease(NOW)) is not None:
        frontier.release(lease, READ, NOW)
    later = NOW + 1e5
    frontier.discover([Link(urls[2].encode().rjust(20), urls[2], "a.example")], later)
    found = []
    for now in range(int(later), int(later) + 3600, 60):
        frontier.load(now)
        if (lease := frontier.lease(now)) is not None:
            found.append(int(lease.page.url[-1]))
            frontier.release(lease, HANDED_BACK, now)
    frontier.close()
    assert set(found[-6:]) == {0, 1, 2}
