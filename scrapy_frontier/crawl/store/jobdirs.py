"""The frontiers in a JOBDIR: ``frontier`` of the spider that came first, ``frontier-NAME`` of any other.

A project may name one JOBDIR for all its spiders (under Scrapyd it can do no other), and what one spider
knows is no reason for another to leave it out. The file ``spider`` in ``frontier`` says whose that is: it can
be read while a crawl has the database open.
"""

from __future__ import annotations

import fcntl
import logging
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from ...core.errors import FrontierUnreadable, FrontierUnwritable
from ...core.store.directory_lock import full_disk, has_database, is_full, no_directory
from .upkeep import spider_in

if TYPE_CHECKING:
    from pathlib import Path

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
    with open(first / _OWNER, "a+", encoding="utf-8", errors="replace") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        owner = _read(first)
        if not owner:
            owner = _owner_in_store(first) or spider
            file.write(f"{owner}\n")
    return owner


def _owner_in_store(first: Path) -> str:
    """The spider that a database says it belongs to; empty where there is none."""
    return spider_in(first) if has_database(first) else ""
