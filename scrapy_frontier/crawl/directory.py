"""All that a crawl asks of its store itself: how it is opened, whose it is, and what its files need in a
thread, to be synced and to be deleted quickly.

Schemes of what only this machine, or its keys, may read: which of them the spider asked for in a frontier.

A row may come from a stranger (``docs/internals/format.md``), so it cannot say that itself.

The frontiers in a JOBDIR: ``frontier`` of the spider that came first, ``frontier-NAME`` of any other.

A project may name one JOBDIR for all its spiders (under Scrapyd it can do no other), and what one spider
knows is no reason for another to leave it out. The file ``spider`` in ``frontier`` says whose that is: it can
be read while a crawl has the database open.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
import weakref
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from ..core.errors import FrontierUnreadable, FrontierUnwritable
from ..core.store import keys
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
    """A frontier in a JOBDIR, and the name of its spider, empty where nobody says it."""

    directory: Path
    spider: str


def claim(jobdir: Path, spider: str) -> Path:
    """The directory of the frontier of *spider* in *jobdir*, from now on; it need not be there.

    Raises `FrontierUnreadable` where nothing can be read or written in *jobdir*, or that is a frontier
    itself, or the name is too long for a directory in it, `FrontierUnwritable` where the disk is full; and
    what `Store` raises where only a database of an older version says whose it is.
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
    """Where `claim` would put the frontier of *spider*, with nothing claimed, written or logged. Raises
    `OSError`, `FrontierUnreadable` for a name too long, and what `Store` raises."""
    first = jobdir / _FIRST
    owner = _read(first) or _owner_in_store(first)
    return first if owner in ("", spider) else _own(jobdir, spider)


def homes(jobdir: Path) -> list[Home]:
    """The frontiers that *jobdir* holds, that of the spider that came first before all others. Opens none."""
    first = jobdir / _FIRST
    found = [Home(first, _read(first))] if has_database(first) else []
    for path in filter(has_database, sorted(jobdir.glob(f"{_FIRST}-*"))):
        found.append(Home(path, unquote(path.name.removeprefix(f"{_FIRST}-"))))
    return found


def _own(jobdir: Path, spider: str) -> Path:
    name = quote(spider, safe="", errors="replace")
    if len(name) > _LONGEST_NAME:  # a letter that is not ASCII takes three times its bytes: a third fits
        name = "".join(quote(letter, safe="") if letter.isascii() else letter for letter in unquote(name))
    if len(name.encode()) > _LONGEST_NAME:
        raise FrontierUnreadable(
            f"the name of spider {spider!r} is too long for a directory of its own in {jobdir}, where "
            "another spider was first: nothing was made; set FRONTIER_DIR, or use another JOBDIR"
        )
    return jobdir / f"{_FIRST}-{name}"


def _read(first: Path) -> str:
    """The spider that claimed *first*; empty where nobody did."""
    try:
        return (first / _OWNER).read_text(encoding="utf-8", errors="replace").rstrip("\n")
    except FileNotFoundError:
        return ""


def _claim(first: Path, spider: str) -> str:
    """Whose *first* is from now on: of spiders that start at the same time, one's alone."""
    first.mkdir(parents=True, exist_ok=True)
    with open(first / _OWNER, "a+", encoding="utf-8", errors="replace", opener=_without_links) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        owner = _read(first)
        if not owner:
            owner = _owner_in_store(first) or spider
            file.write(f"{owner}\n")
    return owner


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _owner_in_store(first: Path) -> str:
    """The spider that a database says it belongs to; empty where there is none."""
    return spider_in(first) if has_database(first) else ""


SYNC_INTERVAL = 5.0  # seconds between two syncs to the disk: what a power cut may cost
FILES_LOOK = 0.25  # seconds between two looks at the files
FILES_LOOK_IDLE = 8.0  # the most it becomes, each time twice as long, while they stay the same


def open_store(
    directory: str | Path, scheme: str = "", restored_scheme: str = "", user: str = CRAWL
) -> Store:
    """The database in *directory*; takes and raises what `Store` does. Loads plyvel when it is called
    first."""
    from ..core.store.leveldb import Store

    return Store(directory, scheme, restored_scheme, user)


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
