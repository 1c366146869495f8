"""Hosts that nothing is queued for, and whose delay has not passed: they stay in memory until then, and
whatever happens to them meanwhile is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from openings import NOW, let_go, opened, page

from scrapy_frontier.core.admin.check import Check
from scrapy_frontier.core.frontier import Event, Frontier, FrontierOptions, Outcome
from scrapy_frontier.core.hosts.host import Politeness
from scrapy_frontier.core.revisits.plans import RevisitRule
from scrapy_frontier.core.revisits.policy import Fetched
from scrapy_frontier.core.store.leveldb import Store

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy_frontier.core.frontier import Lease

__all__ = ["let_go"]

DELAY = 10.0
FETCHED = Outcome(Event.FETCHED, 200, fetched=Fetched(digest=b"12345"))
SLOT = {"host": "slot", "kept_host": "slot", "again": True}


def frontier_in(directory: Path, delay: float = DELAY, **options: Any) -> Frontier:
    opened.append(Store(directory))
    frontier = Frontier(
        opened[-1],
        NOW,
        FrontierOptions(default_politeness=Politeness(delay, 1), max_uncommitted_pages=16, **options),
    )
    while not frontier.load(NOW, 100):
        pass
    return frontier


def leased(frontier: Frontier, now: float, number: int) -> dict[str, Lease]:
    leases = [frontier.lease(now) for _ in range(number)]
    return {lease.host: lease for lease in leases if lease is not None}


def findings(frontier: Frontier) -> list[Any]:
    frontier.commit()
    return list(Check(frontier._store, lambda each: each.url.encode().rjust(40, b"."), NOW + 40).run())


def visited_beside(directory: Path) -> Frontier:
    """Page 1 of a.example is gone, and answers once more by another slot just before the delay of its host
    has passed; what was seen is not written yet, and the host gets a page."""
    frontier = frontier_in(directory, revisits=RevisitRule())
    first = page(1)
    frontier.discover([first], NOW)
    frontier.release(leased(frontier, NOW, 1)["a.example"], Outcome(Event.GONE, 404), NOW)
    frontier.discover([replace(first, **SLOT), page(1, "b.example"), page(2, "b.example")], NOW + 5)
    lease = leased(frontier, NOW + 9.8, 2)["slot"]
    frontier.identify(lease, first.fingerprint)
    frontier.commit()
    frontier.release(lease, FETCHED, NOW + 9.9)
    frontier.discover([page(1, "c.example")], NOW + 10.1)
    assert frontier.lease(NOW + 10.1) is not None
    frontier.discover([page(2)], NOW + 10.1)
    return frontier


def test_what_another_slot_shows_of_a_page_is_counted_with_what_its_host_gets(tmp_path: Path) -> None:
    assert findings(visited_beside(tmp_path)) == []


@pytest.mark.parametrize("number", range(8))  # which of two rows of a host came last went by their addresses
def test_after_a_kill_its_page_is_fetched(tmp_path: Path, number: int) -> None:
    frontier = visited_beside(tmp_path)
    frontier.commit()
    opened.pop().close()
    again, urls = frontier_in(tmp_path), []
    for second in range(100, 200):
        if (lease := again.lease(NOW + second)) is not None:
            urls.append(lease.page.url)
            again.release(lease, FETCHED, NOW + second)
    assert page(2).url in urls
    assert again.ends_at(NOW + 200, 5.0) == NOW + 200


def test_hosts_of_pages_that_another_slot_visits_leave_the_memory(tmp_path: Path) -> None:
    frontier = frontier_in(tmp_path, delay=0.0, revisits=RevisitRule())
    links = [page(1, f"{name}.example") for name in "abcdefgh"]
    frontier.discover(links, NOW)
    for lease in leased(frontier, NOW, len(links)).values():
        frontier.release(lease, FETCHED, NOW)
    for number, link in enumerate(links):
        now = NOW + 1 + number
        frontier.discover([replace(link, **SLOT)], now)
        lease = leased(frontier, now, 1)["slot"]
        frontier.identify(lease, link.fingerprint)
        frontier.release(lease, FETCHED, now)
    assert frontier.lease(NOW + 100) is None
    assert frontier.hosts == 0
