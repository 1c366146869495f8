"""Budgets and traps: what is over a budget waits on the disk, in order, and comes back when there is room."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from answers import ids, see
from openings import NOW, let_go, opened, page, start  # noqa: F401 - `let_go` works by being here

from scrapy_frontier.core.admin.check import Check
from scrapy_frontier.core.frontier import Discovered, Frontier, Link, LinkVerdict
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.pages.queue import PAGES_AT_A_TIME
from scrapy_frontier.core.pages.traps import TrapLimits
from scrapy_frontier.core.store import keys, records
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.transitions import Event

if TYPE_CHECKING:
    from pathlib import Path

FETCHED = Outcome(Event.FETCHED, 200)
EXCLUDED = Outcome(Event.EXCLUDED, 0, "Forbidden by robots.txt")


def pages(count: int, host: str = "a.example", first: int = 0) -> list[Link]:
    return [page(number, host) for number in range(first, first + count)]


def drain(frontier: Frontier, outcome: Outcome = FETCHED) -> list[int]:
    """The numbers of all pages that can be had, each fetched at once, in order."""
    found = []
    while True:
        lease = frontier.lease(NOW)
        if lease is None:
            if frontier.wake_at() != 0.0:
                return found
            continue
        found.append(int(lease.page.url.rpartition("/")[2]))
        frontier.release(lease, outcome, NOW)


def seen(frontier: Frontier) -> int:
    return frontier._batch.counts.states[State.SEEN]


def deferred(frontier: Frontier) -> list[tuple[str, int]]:
    frontier.commit()
    rows = [keys.split_deferred_key(key) for key, _ in frontier._store.scan(keys.DEFERRED)]
    assert None not in rows
    return [row for row in rows if row is not None]


def reason(frontier: Frontier, page_id: int) -> str:
    found = frontier.page(page_id)
    assert found is not None
    assert found.state is State.SEEN
    return found.reason


def kinds(found: list[Discovered]) -> Counter[str]:
    """How many links were deferred or refused, by kind."""
    return Counter(each.kind for each in found if each.kind)


# -- pages of a host -----------------------------------------------------------------------------------


def test_what_is_over_the_budget_of_a_host_is_kept_and_not_queued(tmp_path: Path) -> None:
    frontier = start(tmp_path, host_pages=3)
    found = frontier.discover(pages(5), NOW)
    assert ids(found) == [0, 1, 2, 3, 4]
    assert frontier.pending == 3
    assert deferred(frontier) == [("a.example", 3), ("a.example", 4)]
    assert reason(frontier, 3) == "over the budget of 3 pages for host a.example"
    assert kinds(found) == {"deferred": 2}
    assert {each.reason for each in found[3:]} == {reason(frontier, 3)}
    assert drain(frontier) == [0, 1, 2]
    assert frontier.pending == 0
    assert not frontier.is_refilling
    assert ids(frontier.discover(pages(5), NOW)) == [None] * 5, "what is kept is known"
    frontier.close()


def test_a_larger_budget_brings_back_exactly_what_was_deferred_in_order(tmp_path: Path) -> None:
    frontier = start(tmp_path, host_pages=3)
    frontier.discover(pages(9), NOW)
    drain(frontier)
    frontier.close()

    frontier = start(tmp_path, host_pages=7)
    assert frontier.is_refilling
    assert drain(frontier) == [3, 4, 5, 6]
    assert (seen(frontier), len(deferred(frontier))) == (2, 2)
    frontier.close()

    frontier = start(tmp_path)
    assert drain(frontier) == [7, 8], "no limit brings back the rest"
    assert (seen(frontier), deferred(frontier)) == (0, [])
    frontier.close()


def test_a_smaller_budget_puts_aside_what_was_queued(tmp_path: Path) -> None:
    count = 3 * PAGES_AT_A_TIME
    frontier = start(tmp_path)
    frontier.discover(pages(count), NOW)
    frontier.close()

    frontier = start(tmp_path, host_pages=5)
    assert drain(frontier) == [0, 1, 2, 3, 4]
    assert (frontier.pending, seen(frontier)) == (0, count - 5)
    frontier.close()

    frontier = start(tmp_path)
    assert drain(frontier) == list(range(5, count))
    frontier.close()


def test_a_page_under_way_counts_and_a_retry_keeps_its_place(tmp_path: Path) -> None:
    frontier = start(tmp_path, host_pages=1)
    frontier.discover(pages(3), NOW)
    lease = frontier.lease(NOW)
    assert lease is not None
    assert frontier.lease(NOW) is None
    frontier.release(lease, Outcome(Event.RETRIED, 503), NOW)
    assert drain(frontier) == [0]
    assert seen(frontier) == 2
    frontier.close()


def test_beyond_ten_times_the_budget_links_are_counted_and_not_known(tmp_path: Path) -> None:
    frontier = start(tmp_path, host_pages=2)
    found = frontier.discover(pages(30), NOW)
    assert ids(found) == [*range(22), *[None] * 8]
    assert kinds(found) == {"deferred": 20, "over_budget": 8}
    assert frontier._batch.counts.next_page == 22
    assert ids(frontier.discover([page(40, is_named=True)], NOW)) == [22], "a seed is always kept"
    assert ids(frontier.discover(pages(30), NOW))[22:] == [None] * 8
    assert len(drain(frontier)) == 2
    frontier.close()
    frontier = start(tmp_path, host_pages=5)
    assert len(drain(frontier)) == 3
    assert ids(frontier.discover(pages(30), NOW))[22:] == [*range(23, 31)], "linked again, there is room"
    frontier.close()


# -- pages that were only seen -------------------------------------------------------------------------


def fingerprint_of(found: records.Page) -> bytes:
    return found.url.encode().rjust(40, b".")


def test_a_page_that_was_only_seen_meets_budgets_like_a_new_one(tmp_path: Path) -> None:
    frontier = start(tmp_path, host_pages=1)
    before = see(frontier, pages(14), NOW)
    found = frontier.discover(pages(14), NOW)
    assert ids(found) == [*before[:11], *[None] * 3]
    assert kinds(found) == {"deferred": 10, "over_budget": 3}
    assert (frontier.pending, seen(frontier), len(deferred(frontier))) == (1, 13, 10)
    assert reason(frontier, 1) == "over the budget of 1 page for host a.example"
    assert reason(frontier, 11) == "out of scope"
    assert list(Check(frontier._store, fingerprint_of, NOW).run()) == []
    frontier.close()

    frontier = start(tmp_path)
    assert ids(frontier.discover(pages(11), NOW)) == [None] * 11, "what is kept is known"
    assert sorted(drain(frontier)) == [*range(11)]
    assert ids(frontier.discover(pages(14)[11:], NOW)) == before[11:], "linked again, there is room"
    assert sorted(drain(frontier)) == [11, 12, 13]
    assert (seen(frontier), deferred(frontier)) == (0, [])
    frontier.close()


def test_a_page_that_moves_to_another_queue_counts_there(tmp_path: Path) -> None:
    frontier = start(tmp_path, host_pages=1)
    frontier.discover([page(0, "a.one.example")], NOW)
    lease = frontier.lease(NOW)
    assert lease is not None
    moved = Outcome(Event.POSTPONED, reason="moved", delay=10.0, host="a.two.example")
    frontier.release(lease, moved, NOW)
    frontier.discover([page(1, "a.one.example"), page(2, "a.two.example")], NOW)
    assert deferred(frontier) == [("a.two.example", 2)]
    frontier.close()


# -- kills, and pages queued by hand -------------------------------------------------------------------


def test_a_kill_loses_no_deferred_page_and_counts_none_twice(tmp_path: Path) -> None:
    frontier = start(tmp_path, host_pages=4)
    frontier.discover(pages(12), NOW)
    lease = frontier.lease(NOW)
    assert lease is not None
    frontier.release(lease, FETCHED, NOW)
    assert frontier.lease(NOW) is not None
    frontier._store.close()

    frontier = start(tmp_path, host_pages=4)
    assert len(drain(frontier)) == 3
    assert seen(frontier) == len(deferred(frontier)) == 8
    frontier._store.close()

    frontier = start(tmp_path)
    assert len(drain(frontier)) == 8
    frontier.close()


def test_a_deferred_page_that_cannot_be_read_holds_nobody_up(tmp_path: Path) -> None:
    frontier = start(tmp_path, host_pages=1)
    frontier.discover(pages(4), NOW)
    frontier.commit()
    frontier._store.write({keys.page_key(1): b"?", keys.DEFERRED + b"?": b""})
    frontier.close()
    frontier = start(tmp_path)
    assert drain(frontier) == [0, 2, 3]
    frontier.close()


# -- traps ---------------------------------------------------------------------------------------------


def test_a_trap_leaves_no_trace(tmp_path: Path) -> None:
    frontier = start(tmp_path, TrapLimits(length=50, depth=4, repeats=3))
    before = dict(frontier._store.scan(b""))
    urls = [f"http://a.example/{path}" for path in ("x" * 50, "1/2/3/4/5", "a/a/a")]
    found = frontier.discover([Link(url.encode(), url, "a.example") for url in urls], NOW)
    assert found == [
        Discovered(LinkVerdict.REFUSED, kind=kind, reason=kind)
        for kind in ("length", "depth", "repeated_segments")
    ]
    frontier.commit()
    assert dict(frontier._store.scan(b"")) == before
    named = Link(urls[0].encode(), urls[0], "a.example", is_named=True)
    assert ids(frontier.discover([named], NOW)) == [0], "what the user names is fetched"
    known = frontier.discover([replace(named, is_named=False)], NOW)
    assert known == [Discovered(LinkVerdict.KNOWN, 0)], "a known page is looked at no more"
    frontier.close()
