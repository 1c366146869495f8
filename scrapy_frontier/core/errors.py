"""Errors of a frontier; sizes and times as text for messages.

The message of each error names the thing, its state and the remedy.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Row = TypeVar("_Row")
_Stored = TypeVar("_Stored")


class FrontierError(Exception):
    """The crawl cannot use its frontier, and closes with the ``reason``. Nothing was deleted."""

    reason = "frontier_error"


class FrontierLocked(FrontierError):
    """The database is already open, in another process or in another crawl of this one."""

    reason = "frontier_locked"


class FrontierVersion(FrontierError):
    """The database has another format version or key scheme, or is no frontier; it was not changed."""

    reason = "frontier_version"


class NoFrontierInside(FrontierVersion):
    """The directory holds a LevelDB database of another program; it was not changed."""


class FrontierUnreadable(FrontierError):
    """The database cannot be opened or read: permissions, or damaged or missing files; nothing was
    changed."""

    reason = "frontier_unreadable"


class FrontierDamaged(FrontierUnreadable):
    """Files of the database are damaged or missing: `check --repair` saves what is legible into a copy."""


class FrontierUnwritable(FrontierError):
    """A write failed (disk full, I/O error), or the directory is gone. What was written before is kept.

    Nothing more is written in this run: every method that would write raises it again.
    """

    reason = "frontier_unwritable"


class IllegalTransition(Exception):
    """An event that cannot happen in the state of the page: a defect of this package, never of a site."""


class UnreadableRow(ValueError):
    """The bytes of a row do not decode. The page of such a row is set aside, and the crawl goes on; `check`
    reports it."""


def decode_or_none(read: Callable[[_Stored], _Row], stored: _Stored | None) -> _Row | None:
    """Return what *read* makes of a row; None if *stored* is None or *read* raises `UnreadableRow`."""
    try:
        return None if stored is None else read(stored)
    except UnreadableRow:
        return None


def size(count: float) -> str:
    """Return a number of bytes as text, in three digits: ``1.25 MB`` for 1,250,000."""
    units = ["bytes", "KB", "MB", "GB", "TB"]
    while count >= 1000 and len(units) > 1:
        count /= 1000
        del units[0]
    return f"{count:.3g} {units[0]}"


def moment(when: float) -> str:
    """Return a time as text in UTC; the number of the second if it is beyond the calendar."""
    try:
        return datetime.fromtimestamp(when, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"second {when:.0f}"


def span(seconds: float) -> str:
    """Return a length of time as text in one unit: "12.5 s", "40 min", "30 h", "5 days"."""
    if seconds < 100:
        return f"{seconds:.3g} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} days"
