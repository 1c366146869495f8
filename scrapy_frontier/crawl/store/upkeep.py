"""All that a crawl asks of its store itself: how it is opened, whose it is, and what its files need in a
thread, to be synced and to be deleted quickly."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from contextlib import closing
from typing import TYPE_CHECKING

from ...core.store import keys
from ...core.store.directory_lock import CRAWL, DATABASE
from ...core.store.directory_lock import has_database as has_database  # for the commands
from ...core.store.mapped_files import MappedFiles

if TYPE_CHECKING:
    from pathlib import Path

    from ...core.store.leveldb import Store

logger = logging.getLogger(__name__)

FILES_LOOK = 0.25  # seconds between two looks at the files
FILES_LOOK_IDLE = 8.0  # the most it becomes, each time twice as long, while they stay the same


def open_store(
    directory: str | Path, scheme: str = "", restored_scheme: str = "", user: str = CRAWL
) -> Store:
    """The database in *directory*; takes and raises what `Store` does. Loads plyvel when it is called
    first."""
    from ...core.store.leveldb import Store

    return Store(directory, scheme, restored_scheme, user)


def filter_directory(directory: Path) -> Path:
    """Where a dupe filter of the project's writes down what it has seen of the frontier in *directory*: with
    the database, so that it goes with that, however it goes."""
    return directory / DATABASE


def forget_filter(directory: Path) -> None:
    """Have a dupe filter of the project's begin anew: what pages were forgotten it must not have seen. Which
    of its notes are theirs only the filter knows."""
    (filter_directory(directory) / "requests.seen").unlink(missing_ok=True)


def repair_files(path: Path) -> None:
    """`leveldb.repair_files`, which is loaded only now. Raises `FrontierError`."""
    from ...core.store import leveldb

    leveldb.repair_files(path)


def spider_in(directory: Path) -> str:
    """The spider that the database in *directory* says it belongs to; empty where nobody used it so far.
    Opens and closes it; raises what `Store` does."""
    with closing(open_store(directory)) as store:
        return (store.get(keys.SPIDER) or b"").decode(errors="replace")


class Upkeep:
    """Looks after the files of *store* until `stop`, or until nobody has the store any more.

    Sees whether the directory is still there, and the same: else the store is not written to any more. Has
    the operating system write them to the disk every *sync_interval* seconds, never if that is 0. What
    fails is told once, and tried again.
    """

    def __init__(self, store: Store, sync_interval: float) -> None:
        self._stopped = threading.Event()
        self._find = weakref.ref(store)
        self._thread = threading.Thread(
            target=look_after,
            args=(self._find, sync_interval or float("inf"), self._stopped),
            name="frontier-upkeep",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """Have the thread end, and return when it has: it may be waiting for the disk. Before the store is
        closed: that its directory is the same is seen once more."""
        self._stopped.set()
        self._thread.join()
        store = self._find()
        if store is not None:
            store.look()


def look_after(find: weakref.ref[Store], sync_interval: float, stopped: threading.Event) -> None:
    """What `Upkeep` does in its thread, until *stopped*, or *find* finds no store, or its directory is lost.
    Raises nothing for the disk's sake."""
    store = find()
    if store is None:
        return
    directory = store.directory
    synced_at, has_failed, pause = time.monotonic(), False, FILES_LOOK
    with MappedFiles(directory / "leveldb") as files:
        while store is not None:
            if not store.look():  # whoever writes next is told
                return
            try:
                pause = FILES_LOOK if files.look() else min(2 * pause, FILES_LOOK_IDLE)
                if time.monotonic() - synced_at >= sync_interval:
                    synced_at = time.monotonic()
                    store.sync()
            except OSError as error:  # no descriptor is free, say: it may work the next time
                if not store.look():  # it went meanwhile
                    return
                if not has_failed:
                    words = "Cannot sync the frontier in %s (%s); tried again: see to the disk (said once)"
                    logger.error(words, directory, error)
                has_failed, pause = True, FILES_LOOK
            del store  # whoever drops it without closing it shall be rid of it
            until_sync = max(synced_at + sync_interval - time.monotonic(), 0.0)
            if stopped.wait(min(pause, until_sync)):
                return
            store = find()
