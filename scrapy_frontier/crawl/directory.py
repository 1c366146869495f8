"""The directory of a frontier: which spider has which in a JOBDIR, how the store is opened, and its upkeep.

A JOBDIR holds one frontier a spider, in ``frontier/NAME``: a project may name one JOBDIR for all its spiders,
as under Scrapyd, and each of them fetches its pages for itself.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from ..core.errors import FrontierUnreadable
from ..core.store.leveldb import CRAWL, no_directory
from ..core.store.leveldb import has_database as has_database

if TYPE_CHECKING:
    from pathlib import Path

    from ..core.store.leveldb import Store


logger = logging.getLogger(__name__)


def home(jobdir: Path, spider: str) -> Path:
    """Returns the directory of the frontier of *spider* in *jobdir*, which need not exist. Raises
    `FrontierUnreadable` if *jobdir* is a frontier itself, or its ``frontier`` is, or neither can be read."""
    homes = jobdir / "frontier"
    for each in (jobdir, homes):
        try:
            is_frontier = has_database(each)
        except OSError as error:
            raise FrontierUnreadable(no_directory(each, error)) from error
        if is_frontier:
            raise FrontierUnreadable(
                f"{each} is a frontier itself, and a JOBDIR holds one for each spider in {homes}: nothing "
                f"was changed; set FRONTIER_DIR = {str(each)!r}, or use another JOBDIR"
            )
    name = quote(spider, safe="", errors="replace")
    return homes / (name if name.strip(".") else name.replace(".", "%2E"))


def homes_in(jobdir: Path) -> dict[str, Path]:
    """Returns the frontiers in *jobdir* by their spiders. Opens none."""
    found = filter(has_database, sorted((jobdir / "frontier").glob("*")))
    return {unquote(path.name): path for path in found}


SYNC_INTERVAL = 5.0  # seconds between two syncs to the disk: what a power cut may cost
LOOK_INTERVAL = 1.0  # seconds between two looks at the directory


def open_store(directory: str | Path, scheme: str = "", user: str = CRAWL) -> Store:
    """Opens the database in *directory*; takes and raises what `Store` does. Loads plyvel."""
    from ..core.store.leveldb import Store

    return Store(directory, scheme, user)


class Upkeep:
    """A thread that looks after the files of *store* until `stop`, which is to be called before the store is
    closed.

    It checks that the directory is still there, and the same: else the store is written no more, and the
    thread ends. It syncs the files to the disk every *sync_interval* seconds, never if that is 0; a sync that
    fails is tried again, and logged once.
    """

    def __init__(self, store: Store, sync_interval: float) -> None:
        self._store, self._sync_interval = store, sync_interval or float("inf")
        self._has_failed = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look_after, name="frontier-upkeep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, and waits for it: it may be waiting for the disk. The directory is checked once
        more."""
        self._stopped.set()
        self._thread.join()
        self._store.look()

    def _look_after(self) -> None:
        synced_at = time.monotonic()
        while self._store.look():
            if time.monotonic() - synced_at >= self._sync_interval:
                synced_at = time.monotonic()
                self._sync()
            if self._stopped.wait(min(LOOK_INTERVAL, self._sync_interval)):
                return

    def _sync(self) -> None:
        try:
            self._store.sync()
        except OSError as error:  # no descriptor is free, say: it may work the next time
            if self._store.look() and not self._has_failed:
                words = "Cannot sync the frontier in %s (%s); tried again: see to the disk (said once)"
                logger.error(words, self._store.directory, error)
                self._has_failed = True
