"""Pages that are known and not wanted, in the hands of the operator: checked, moved, queued, forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from stores import NOW, Frontiers, change, check, fetch, fingerprint, link, pages, rows, start

from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.keys import State

if TYPE_CHECKING:
    from pathlib import Path

BAD, GOOD = "http://a.example/bad", "http://a.example/good"
INDEX_ROW = keys.INDEX + fingerprint(BAD)


@pytest.fixture
def frontier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Frontiers:
    """One page that is refused, one that is queued."""
    found = start(tmp_path / "old")
    found.discover([link(BAD, only_seen="nofollow")], NOW)
    found.discover([link(GOOD)], NOW)
    found.close()
    return Frontiers(tmp_path / "old", capsys)


def assert_queued_by_a_link(directory: Path) -> None:
    found = start(directory)
    assert found.discover([link(BAD)], NOW)[0].page_id == 0
    assert {fetch(found), fetch(found)} == {BAD, GOOD}
    found.close()
    assert check(directory) == []


def test_it_moves_with_an_export(
    frontier: Frontiers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert frontier("export", tmp_path / "x.gz").code == 0
    assert Frontiers(tmp_path / "new", capsys)("import", tmp_path / "x.gz").code == 0
    assert check(tmp_path / "new") == []
    assert_queued_by_a_link(tmp_path / "new")


def test_requeue_wants_it(frontier: Frontiers) -> None:
    assert frontier("requeue", "--state", "seen").code == 0
    assert pages(frontier.directory)[0].state is State.QUEUED
    assert check(frontier.directory) == []
    found = start(frontier.directory)
    assert not found.discover([link(BAD)], NOW)[0].is_taken
    assert {fetch(found), fetch(found)} == {BAD, GOOD}
    found.close()


def test_forget_leaves_nothing_of_it(frontier: Frontiers) -> None:
    assert frontier("forget", BAD).code == 0
    assert INDEX_ROW not in rows(frontier.directory)
    assert check(frontier.directory) == []


def test_repair_gives_it_its_mark_again(frontier: Frontiers) -> None:
    change(frontier.directory, delete=(INDEX_ROW,))
    assert frontier("check", "--repair").code == 0
    assert rows(frontier.directory)[INDEX_ROW] == keys.index_value(0, is_marked=True)
    assert_queued_by_a_link(frontier.directory)
