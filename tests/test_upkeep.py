"""The files of an open frontier are synced now and then, for as long as somebody has it."""

import errno
import logging
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.crawl.store_upkeep import LOOK, Upkeep

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


def test_a_store_is_synced_again_and_again_until_it_is_closed(tmp_path: Path) -> None:
    store = Counted(tmp_path)
    upkeep = Upkeep(store, LOOK / 2)
    until = time.monotonic() + PATIENCE
    while store.syncs < 3:
        assert time.monotonic() < until
        time.sleep(0.01)
    upkeep.stop()
    store.close()
    syncs = store.syncs
    assert not threads()
    time.sleep(2 * LOOK)
    assert store.syncs == syncs


def test_a_sync_that_fails_is_tried_again_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Counted(tmp_path)
    store.failures = 2
    with caplog.at_level(logging.ERROR):
        upkeep = Upkeep(store, LOOK / 2)
        until = time.monotonic() + PATIENCE
        while not store.syncs:
            assert time.monotonic() < until, "it is not tried again"
            time.sleep(0.01)
        upkeep.stop()
    store.close()
    assert len(caplog.records) == 1
    assert os.strerror(errno.EMFILE) in caplog.text


def test_an_interval_of_0_leaves_it_to_the_operating_system(tmp_path: Path) -> None:
    store = Counted(tmp_path)
    upkeep = Upkeep(store, 0.0)
    time.sleep(3 * LOOK)
    upkeep.stop()
    assert store.syncs == 0
    store.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # its lock is not closed
def test_a_store_dropped_without_closing_it_is_let_go_of(tmp_path: Path) -> None:
    Upkeep(Store(tmp_path), 5.0)
    wait_for_no_thread()
    Store(tmp_path).close()


def test_a_directory_that_went_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path / "frontier")
    with caplog.at_level(logging.ERROR):
        upkeep = Upkeep(store, LOOK / 2)
        shutil.rmtree(tmp_path / "frontier")
        time.sleep(4 * LOOK)
        upkeep.stop()
    store.close()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert str(tmp_path / "frontier") in caplog.text
