"""The directory of a frontier: which spider has which in a JOBDIR, how the store is opened, and its upkeep.

A JOBDIR holds ``frontier``, of the spider that came first, and ``frontier-NAME`` of any other: a project may
name one JOBDIR for all its spiders, as under Scrapyd, and what one spider fetched another may want. The file
``spider`` in ``frontier`` names its spider, and can be read while a crawl has the database open.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from ..core.errors import FrontierUnreadable, FrontierUnwritable
from ..core.store.leveldb import CRAWL, MappedFiles, full_disk, is_full, no_directory
from ..core.store.leveldb import has_database as has_database

if TYPE_CHECKING:
    from pathlib import Path

    from ..core.store.leveldb import Store


logger = logging.getLogger(__name__)

_FIRST = "frontier"
_OWNER = "spider"
_LONGEST_NAME = 240  # bytes; file systems take 255


class Home(NamedTuple):
    """A frontier in a JOBDIR, and the name of its spider, if that is known."""

    directory: Path
    spider: str


def claim(jobdir: Path, spider: str) -> Path:
    """Returns the directory of the frontier of *spider* in *jobdir*, which need not exist, and claims it.

    Raises `FrontierUnreadable` if *jobdir* cannot be read or written or is a frontier itself, or the name is
    too long, and `FrontierUnwritable` if the disk is full.
    """
    first = jobdir / _FIRST
    try:
        _refuse_frontier(jobdir, first)
        owner = _read(first) or _claim(first, spider)
    except OSError as error:
        if is_full(error):
            raise FrontierUnwritable(full_disk(first, error.strerror)) from error
        raise FrontierUnreadable(no_directory(first / _OWNER, error, "JOBDIR")) from error
    if owner == spider:
        return first
    own = _own(jobdir, spider)
    words = "The frontier of spider %r is %s, for %s is that of %r; FRONTIER_DIR = %r would have both use one"
    logger.info(words, spider, own, first, owner, str(first))
    return own


def _refuse_frontier(jobdir: Path, first: Path) -> None:
    if has_database(jobdir) and not has_database(first):
        raise FrontierUnreadable(
            f"{jobdir} is a frontier itself, which a JOBDIR holds in {first}: nothing was changed; set "
            f"FRONTIER_DIR = {str(jobdir)!r}, or use another JOBDIR"
        )


def find(jobdir: Path, spider: str) -> Path:
    """Returns what `claim` would, and writes nothing. Raises `OSError`, and `FrontierUnreadable` for a name
    that is too long."""
    first = jobdir / _FIRST
    return first if _read(first) in ("", spider) else _own(jobdir, spider)


def homes(jobdir: Path) -> list[Home]:
    """Returns the frontiers in *jobdir*, that of the first spider before all others. Opens none."""
    first = jobdir / _FIRST
    found = [Home(first, _read(first))] if has_database(first) else []
    for path in filter(has_database, sorted(jobdir.glob(f"{_FIRST}-*"))):
        found.append(Home(path, unquote(path.name.removeprefix(f"{_FIRST}-"))))
    return found


def _own(jobdir: Path, spider: str) -> Path:
    name = quote(spider, safe="", errors="replace")
    if len(name) > _LONGEST_NAME:
        raise FrontierUnreadable(
            f"the name of spider {spider!r} is too long for a directory of its own in {jobdir}, where "
            "another spider was first: nothing was made; set FRONTIER_DIR, or use another JOBDIR"
        )
    return jobdir / f"{_FIRST}-{name}"


def _read(first: Path) -> str:
    """Returns the spider that claimed *first*; "" if none did."""
    try:
        return (first / _OWNER).read_text(encoding="utf-8", errors="replace").rstrip("\n")
    except FileNotFoundError:
        return ""


def _claim(first: Path, spider: str) -> str:
    """Claims *first* for *spider*, unless another did, and returns its owner."""
    first.mkdir(parents=True, exist_ok=True)
    with open(first / _OWNER, "a+", encoding="utf-8", errors="replace", opener=_without_links) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        owner = _read(first)
        if not owner:
            file.write(f"{spider}\n")
    return owner or spider


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


SYNC_INTERVAL = 5.0  # seconds between two syncs to the disk: what a power cut may cost
FILES_LOOK = 0.25  # seconds between two looks at the files
FILES_LOOK_IDLE = 8.0  # the most it becomes, each time twice as long, while they stay the same


def open_store(
    directory: str | Path, scheme: str = "", restored_scheme: str = "", user: str = CRAWL
) -> Store:
    """Opens the database in *directory*; takes and raises what `Store` does. Loads plyvel."""
    from ..core.store.leveldb import Store

    return Store(directory, scheme, restored_scheme, user)


class Upkeep:
    """A thread that looks after the files of *store* until `stop`, or until the store is garbage.

    It checks that the directory is still there, and the same: else the store is written no more. It syncs the
    files to the disk every *sync_interval* seconds, never if that is 0; a sync that fails is tried again, and
    logged once.
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
        """Ends the thread, and waits for it: it may be waiting for the disk. To be called before the store is
        closed: its directory is checked once more."""
        self._stopped.set()
        self._thread.join()
        store = self._find()
        if store is not None:
            store.look()


def look_after(find: weakref.ref[Store], sync_interval: float, stopped: threading.Event) -> None:
    """Runs the thread of `Upkeep` until *stopped*, or *find* finds no store, or its directory is lost. Raises
    no `OSError`."""
    store = find()
    if store is None:
        return
    directory = store.directory
    synced_at, has_failed, pause = time.monotonic(), False, FILES_LOOK
    with MappedFiles(directory / "leveldb") as files:
        while store is not None:
            if not store.look():  # the next write raises
                return
            try:
                pause = FILES_LOOK if files.look() else min(2 * pause, FILES_LOOK_IDLE)
                if time.monotonic() - synced_at >= sync_interval:
                    synced_at = time.monotonic()
                    store.sync()
            except OSError as error:  # no descriptor is free, say: it may work the next time
                if not store.look():  # removed meanwhile
                    return
                if not has_failed:
                    words = "Cannot sync the frontier in %s (%s); tried again: see to the disk (said once)"
                    logger.error(words, directory, error)
                has_failed, pause = True, FILES_LOOK
            del store  # the thread keeps no store alive
            until_sync = max(synced_at + sync_interval - time.monotonic(), 0.0)
            if stopped.wait(min(pause, until_sync)):
                return
            store = find()
