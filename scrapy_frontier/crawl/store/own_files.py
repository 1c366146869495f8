"""Schemes of what only this machine, or its keys, may read: which of them the spider asked for in a frontier.

A row may come from a stranger (``docs/internals/format.md``), so it cannot say that itself.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ...core.store.directory_lock import DATABASE

if TYPE_CHECKING:
    from pathlib import Path


class OwnFiles:
    """The ``schemes`` that the spider of the frontier in *directory* has asked for, in this run or another.

    Kept in a file that names the database's directory by its inode, which a copy, or an archive from
    elsewhere, cannot have: there the spider has to ask anew.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory / DATABASE
        self._file = self._directory / "own-files"
        self.schemes: frozenset[str] = frozenset()
        with suppress(OSError, ValueError):
            number, *schemes = self._file.read_text("ascii").split()
            if number == self._number():
                self.schemes = frozenset(schemes)

    def note(self, scheme: str) -> None:
        """The spider asks for a URL of that *scheme*: it is written down. Raises nothing."""
        self.schemes |= {scheme}
        with suppress(OSError):  # a full disk closes the crawl by itself
            self._file.write_text(" ".join([self._number(), *sorted(self.schemes)]), "ascii")

    def _number(self) -> str:
        return str(self._directory.stat().st_ino)
