"""Ends of pages that are written together: how many wait, and that nothing waits where nobody would look."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Lease, Link, Outcome, Released
from scrapy_frontier.core.pages.leasing import WRITTEN_WITHIN
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.transitions import Event

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy_frontier.core.store.batch import Row

NOW = 1_700_000_000.0
AT_RISK = 8


class Told:
    """A frontier, and how many rows each of its batches had."""

    def __init__(self, directory: Path, host_pages: int = 0) -> None:
        self.store = Store(directory)
        self.batches: list[int] = []
        self.frontier = Frontier(
            self.store,
            NOW,
            FrontierOptions(on_commit=self.note, max_uncommitted_pages=AT_RISK, host_pages=host_pages),
        )
        while not self.frontier.load(NOW):
            pass
        self.discover(*range(50))
        self.frontier.commit()
        self.batches.clear()

    def note(self, rows: list[Row]) -> None:
        self.batches.append(len(rows))

    def discover(self, *numbers: int, source: Lease | None = None) -> None:
        links = [Link(b"%020d" % each, f"http://a.example/{each}", "a.example") for each in numbers]
        self.frontier.discover(links, NOW, source)

    def lease(self) -> Lease:
        lease = self.frontier.lease(NOW)
        assert lease is not None
        return lease

    def end(self, lease: Lease, event: Event = Event.FETCHED, now: float = NOW) -> Released:
        return self.frontier.release(lease, Outcome(event, 200, delay=1.0), now)


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    found = Told(tmp_path)
    yield found
    found.store.close()


def test_no_more_than_may_be_repeated_is_under_way_or_not_written(told: Told) -> None:
    out: list[Lease] = []
    most = 0
    for step in range(30):
        for _ in range(min(step % 4, AT_RISK - len(out))):
            out.append(told.lease())
            assert told.frontier._batch.ends + len(out) <= AT_RISK
        for _ in range(min(step % 3, len(out))):
            told.end(out.pop(0), Event.POSTPONED)
            assert told.frontier._batch.ends + len(out) <= AT_RISK
            most = max(most, told.frontier._batch.ends)
    assert most > 1


def test_an_end_waits_for_so_long_and_no_longer(told: Told) -> None:
    assert not told.end(told.lease()).is_written
    assert not told.end(told.lease(), now=NOW + WRITTEN_WITHIN / 2).is_written
    assert told.end(told.lease(), now=NOW + WRITTEN_WITHIN * 1.01).is_written
    assert len(told.batches) == 1


def test_a_page_found_in_the_open_batch_is_handed_out_and_may_end_there(told: Told) -> None:
    for _ in range(50):
        told.end(told.lease())
    told.frontier.commit()
    told.batches.clear()
    told.discover(100)
    lease = told.lease()
    assert lease.page.url == "http://a.example/100"
    assert not told.end(lease, Event.RETRIED).is_written
    assert told.batches == []
    again = told.frontier.lease(NOW + 2.0)
    assert again is not None
    assert (again.page_id, again.page.attempts) == (lease.page_id, 1)


def test_a_budget_is_kept_for_pages_of_the_open_batch(tmp_path: Path) -> None:
    told = Told(tmp_path, host_pages=5)
    ended = 0
    while (lease := told.frontier.lease(NOW)) is not None:
        told.end(lease)
        ended += 1
    assert ended == 5
    told.store.close()
