"""What can go wrong with a frontier, told to the person who must act.

Each message names the thing, its state and the remedy. ``reason`` is the word a crawl closes with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Row = TypeVar("_Row")
_Stored = TypeVar("_Stored")


class FrontierError(Exception):
    """Something is wrong with the frontier as a whole; the crawl cannot use it."""

    reason = "frontier_error"


class FrontierLocked(FrontierError):
    """The database is open in another process."""

    reason = "frontier_locked"


class FrontierVersion(FrontierError):
    """The database was written by another format version or with another key scheme."""

    reason = "frontier_version"


class FrontierUnreadable(FrontierError):
    """The database cannot be opened or read: permissions, or damaged files."""

    reason = "frontier_unreadable"


class FrontierDamaged(FrontierUnreadable):
    """Files of the database are damaged or missing: what is legible can be saved."""


class FrontierUnwritable(FrontierError):
    """A write failed (disk full, I/O error); everything written before it is kept."""

    reason = "frontier_unwritable"


class IllegalTransition(Exception):
    """An event that makes no sense in a page's state: a defect of ours, never of a site."""


class UnreadableRecord(ValueError):
    """A row whose bytes do not decode."""


def lenient(read: Callable[[_Stored], _Row], stored: _Stored | None) -> _Row | None:
    """What *read* makes of a row, or of where it is; None where there is none, or none that can be read."""
    try:
        return None if stored is None else read(stored)
    except UnreadableRecord:
        return None
