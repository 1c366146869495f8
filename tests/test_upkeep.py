"""The files of an open frontier are synced now and then, for as long as somebody has it."""

import errno
import logging
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from scrapy_frontier.core.admin.check import Check
from scrapy_frontier.core.errors import FrontierUnwritable
from scrapy_frontier.core.frontier import Frontier, Link
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.leveldb import DATABASE, Store
from scrapy_frontier.crawl.directory import LOOK_INTERVAL, Upkeep

NOW = 1_700_000_000.0
PATIENCE = 30.0  # seconds; far more than it takes


class Counted(Store):
    """Tells how often it was synced, and fails the first *failures* times."""

    syncs = failures = 0

    def sync(self) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        super().sync()
        self.syncs += 1


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "frontier-upkeep"]


def wait_for_no_thread() -> None:
    until = time.monotonic() + PATIENCE
    while threads():
        assert time.monotonic() < until, "the thread goes on"
        time.sleep(0.01)


def test_a_sync_that_fails_is_tried_again_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Counted(tmp_path)
    store.failures = 2
    with caplog.at_level(logging.ERROR):
        upkeep = Upkeep(store, LOOK_INTERVAL / 2)
        until = time.monotonic() + PATIENCE
        while not store.syncs:
            assert time.monotonic() < until, "it is not tried again"
            time.sleep(0.01)
        upkeep.stop()
    store.close()
    assert len(caplog.records) == 1
    assert os.strerror(errno.EMFILE) in caplog.text


def test_what_was_synced_outlasts_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nothing had reached the disk but what it was told to keep."""
    synced: dict[str, int] = {}

    def fsync(descriptor: int) -> None:
        synced[Path(f"/proc/self/fd/{descriptor}").readlink().name] = os.fstat(descriptor).st_size

    monkeypatch.setattr(os, "fsync", fsync)
    links = [Link(bytes([number]) * 20, f"http://a.example/{number}", "a.example") for number in range(100)]
    store = Store(tmp_path / "before")
    frontier = Frontier(store, NOW)
    frontier.discover(links[:50], NOW)
    frontier.commit()
    store.sync()
    frontier.discover(links[50:], NOW)
    frontier.commit()
    shutil.copytree(tmp_path / "before", tmp_path / "after")
    frontier.close()
    for log in (tmp_path / "after" / DATABASE).glob("*.log"):
        os.truncate(log, synced.get(log.name, 0))
    store = Store(tmp_path / "after")
    assert list(Check(store, None, NOW).run()) == []
    frontier = Frontier(store, NOW)
    assert [frontier.find(link.fingerprint) for link in links] == [*range(50), *[None] * 50]
    frontier.close()


def test_a_directory_that_went_is_told_to_who_writes_and_to_nobody_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(tmp_path / "frontier")
    frontier = Frontier(store, NOW)
    with caplog.at_level(logging.ERROR):
        upkeep = Upkeep(store, LOOK_INTERVAL / 2)
        shutil.rmtree(tmp_path / "frontier")
        wait_for_no_thread()
        upkeep.stop()
    for call in (frontier.commit, frontier.close):
        with pytest.raises(FrontierUnwritable, match=r"/frontier was removed.*start the same crawl again"):
            call()
    assert caplog.records == []
    assert not (tmp_path / "frontier").exists()


@pytest.mark.parametrize("has_upkeep", [True, False])
def test_a_frontier_begun_anew_is_not_damaged_by_the_end_of_the_one_before(
    tmp_path: Path, has_upkeep: bool
) -> None:
    """Whose upkeep had not looked again yet; or which has none, as in a command."""
    links = [Link(bytes([n]) * 20, f"http://a.example/{n}", "a.example") for n in range(200)]
    store = Store(tmp_path / "frontier")
    upkeep = Upkeep(store, 0.0) if has_upkeep else None
    frontier = Frontier(store, NOW)
    frontier.discover(links, NOW)
    frontier.commit()
    anew = Frontier(Store(tmp_path / "anew"), NOW)
    anew.discover(links[:50], NOW)
    anew.close()
    shutil.rmtree(tmp_path / "frontier")
    shutil.copytree(tmp_path / "anew", tmp_path / "frontier")
    if upkeep is not None:
        upkeep.stop()
    with pytest.raises(FrontierUnwritable):
        frontier.close()
    for file in (tmp_path / "anew" / DATABASE).iterdir():
        assert (tmp_path / "frontier" / DATABASE / file.name).read_bytes() == file.read_bytes()
    store = Store(tmp_path / "frontier")
    assert list(Check(store, None, NOW).run()) == []
    assert len(store.keys_of(keys.PAGE, b"", 1000)) == 50
    store.close()


def test_a_directory_that_was_moved_away_is_whole_where_it_is(tmp_path: Path) -> None:
    store = Store(tmp_path / "old")
    frontier = Frontier(store, NOW)
    frontier.discover([Link(b"1" * 20, "http://a.example/1", "a.example")], NOW)
    frontier.commit()
    (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(FrontierUnwritable):
        frontier.close()
    found = Frontier(Store(tmp_path / "new"), NOW)
    assert found.find(b"1" * 20) == 0
    found.close()
