"""A host whose pages are in the queue of another politeness key: its domain, its address, a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from stores import NOW, Frontiers, check, fetch, link, order, pages, start

from scrapy_frontier.core.frontier import Event, Outcome
from scrapy_frontier.core.store.keys import State

if TYPE_CHECKING:
    from pathlib import Path

A, B, GROUP = "a.shop.example", "b.shop.example", "shop.example"


@pytest.fixture
def frontier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Frontiers:
    """Six pages of A and of B in one queue, of each host two done and one that waits for its retry."""
    crawling = start(tmp_path)
    urls = [f"http://{host}/{number}" for number in range(6) for host in (A, B)]
    crawling.discover([link(url, host=GROUP) for url in urls], NOW)
    for _ in range(4):
        fetch(crawling)
    for _ in range(2):
        fetch(crawling, Outcome(Event.RETRIED, 503, "HTTP 503", delay=60.0))
    crawling.discover([link(urls[0], host=GROUP, again=True)], NOW)  # a revisit
    crawling.close()
    return Frontiers(tmp_path, capsys, FRONTIER_POLITENESS_KEY="domain", DOWNLOAD_DELAY=1)


def of_host(frontier: Frontiers, host: str, state: State | None = None) -> list[str]:
    found = [page for page in pages(frontier.directory).values() if page.url.startswith(f"http://{host}/")]
    return [page.url for page in found if state in (None, page.state)]


def test_commands_take_the_pages_of_a_host_in_whatever_queue(frontier: Frontiers) -> None:
    all_turns = frontier("queue", "--limit", "0", "--json").lines
    turns = frontier("queue", "--host", A, "--limit", "0", "--json").lines
    assert turns == [turn for turn in all_turns if turn["url"].startswith(f"http://{A}/")]
    assert len(turns) == 5, "four that never came, one of them again; their turns are those of the queue"
    assert frontier("queue", "--host", GROUP, "--limit", "0", "--json").lines == all_turns
    tops = frontier("top", "--host", A, "--by", "cash", "--json").lines
    assert {each["url"] for each in tops} <= set(of_host(frontier, A))
    assert frontier("requeue", "--state", "done", "--host", A, "--json").json == {"requeued": 2}
    assert (len(of_host(frontier, A, State.DONE)), len(of_host(frontier, B, State.DONE))) == (0, 2)
    assert check(frontier.directory) == []


def test_a_host_is_forgotten_in_whatever_queue(frontier: Frontiers) -> None:
    kept = of_host(frontier, B)
    assert frontier("forget", "--host", A, "--json").json == {"forgotten": 6 + 1}, "and the revisit"
    assert check(frontier.directory) == []
    assert [page.url for page in pages(frontier.directory).values()] == kept
    frontier("forget", "--host", GROUP)
    assert check(frontier.directory) == []
    assert not pages(frontier.directory)


@pytest.mark.parametrize("slot", ["SLOW", "Slow Lane", "x/1", "a.shop.example:8080", "ünï", "http://x/"])
def test_a_queue_that_is_named_as_no_host_is_can_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], slot: str
) -> None:
    """As a ``download_slot`` or a function names it, for an order and as ``--host``."""
    crawling = start(tmp_path)
    crawling.discover([link(f"http://{A}/", host=slot), link("http://slow/")], NOW)
    crawling.close()
    frontier = Frontiers(tmp_path, capsys, FRONTIER_POLITENESS_KEY="domain")
    assert len(frontier("queue", "--host", slot, "--json").lines) == 1
    said = frontier("block", slot, "--json")
    assert (said.code, said.json["host"], said.json["queued"]) == (0, slot, 1)
    assert order(tmp_path, 5) == ["http://slow/"]
    assert frontier("block", "HTTP://Slow/x", "--json").json["host"] == "slow", "no queue is named like that"
    assert frontier("forget", "--host", slot, "--json").json == {"forgotten": 1}
    assert frontier("unblock", slot, "--json").json["host"] == slot, "its order is still there"
