"""Edits while the crawl goes on: pages forgotten, hosts blocked, delays ordered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from answers import ids
from openings import NOW, let_go, opened, page, start  # noqa: F401 - `let_go` works by being here

from scrapy_frontier.core.admin.check import Check
from scrapy_frontier.core.frontier import Frontier, Lease, Outcome
from scrapy_frontier.core.hosts.host import HEADS
from scrapy_frontier.core.ranking import graph
from scrapy_frontier.core.transitions import Event

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from scrapy_frontier.core.store.records import Page

A, B = "a.example", "b.example"
FETCHED = Outcome(Event.FETCHED, 200, has_links=True)


def fingerprint_of(found: Page) -> bytes:
    return found.url.encode().rjust(40, b".")


def take(frontier: Frontier) -> Lease:
    lease = frontier.lease(NOW)
    assert lease is not None
    return lease


def drain(frontier: Frontier) -> list[str]:
    found = []
    while (lease := frontier.lease(NOW)) is not None:
        found.append(lease.page.url.split("/", 2)[2])
        frontier.release(lease, FETCHED, NOW)
    return found


def assert_sound(frontier: Frontier) -> None:
    frontier.commit()
    assert list(Check(opened[-1], fingerprint_of, NOW).run()) == []


def test_a_forgotten_page_is_not_handed_out_and_new_when_it_is_linked(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    frontier.discover([page(number) for number in range(3 * HEADS)], NOW)
    for number in (0, HEADS, 3 * HEADS - 1):
        assert frontier.forget(number, fingerprint_of, NOW)
    assert not frontier.recognize(page(0).url)
    assert frontier.find(page(0).fingerprint) is None
    assert_sound(frontier)
    assert ids(frontier.discover([page(0)], NOW)) == [3 * HEADS]
    found = [f"{A}/{number}" for number in range(1, 3 * HEADS - 1) if number != HEADS]
    assert drain(frontier) == [*found, f"{A}/0"]
    assert_sound(frontier)
    frontier.close()


def test_a_block_holds_at_once_and_in_the_runs_to_come(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    frontier.discover([page(0), page(1), page(0, B)], NOW)
    frontier.block(A, NOW)
    assert (frontier.pending, frontier.withheld) == (1, 2)
    newest = frontier.discover_one(page(2), NOW).page_id
    assert frontier.withheld == 3
    assert newest is not None
    assert frontier.forget(newest, fingerprint_of, NOW)
    assert (frontier.pending, frontier.withheld) == (1, 2)
    assert drain(frontier) == [f"{B}/0"]
    frontier.close()
    frontier = start(tmp_path)
    assert (frontier.pending, frontier.withheld) == (0, 2)
    assert frontier.lease(NOW) is None
    assert frontier.unblock(A, NOW)
    assert not frontier.unblock(A, NOW), "it was not blocked any more"
    assert (frontier.pending, frontier.withheld) == (2, 0)
    assert drain(frontier) == [f"{A}/0", f"{A}/1"]
    frontier.close()


def test_an_ordered_delay_holds_at_once_and_until_it_is_taken_back(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    frontier.discover([page(number) for number in range(4)], NOW)
    frontier.order_delay(A, 100.0, NOW)
    frontier.release(take(frontier), FETCHED, NOW)
    assert frontier.lease(NOW + 99) is None
    frontier.close()
    frontier = start(tmp_path)
    assert frontier.lease(NOW + 99) is None
    frontier.order_delay(A, None, NOW)
    assert drain(frontier) == [f"{A}/{number}" for number in (1, 2, 3)]
    frontier.close()


def test_links_of_a_page_that_is_forgotten_while_links_are_packed_are_forgotten_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "_LEAST_LOOSE", 1)  # rows, from which on they are packed
    frontier = start(tmp_path)
    frontier.discover([page(0), page(1)], NOW)
    lease = take(frontier)
    frontier.discover([page(1)], NOW, lease)
    frontier.release(lease, FETCHED, NOW)
    run = frontier.rank_now()
    computed = list(run.compute(bool, lambda: 0.0))
    assert frontier.forget(0, fingerprint_of, NOW)
    list(frontier.rank_steps(run, computed, lambda: NOW))
    run.close()
    assert graph.find_row(0, opened[-1].get) == []
    assert_sound(frontier)
