"""Where an import makes its database: beside the directory that it is for, until it is whole."""

from __future__ import annotations

import shutil
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from ..errors import FrontierUnwritable
from ..store.directory_lock import DATABASE, Lock, system_words

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def refuse_held(directory: Path, user: str) -> None:
    """Raise `FrontierLocked` where a process has the frontier in *directory* open; *user* is who asks."""
    Lock(directory, user).close()


@contextmanager
def filling(directory: Path) -> Iterator[Path]:
    """A directory for a database that moves to *directory* once the block has ended well.

    Where the block raises it is removed, and *directory* is as before. What an import that was killed left
    there goes first. Raises `FrontierLocked` where another import is at work, `FrontierUnwritable` where the
    disk is full, and `OSError` where a database stands already.
    """
    beside = directory.with_name(f"{directory.name}.importing")
    new = beside / "frontier"
    try:
        with closing(Lock(beside, "scrapy frontier import")):
            try:
                if new.exists():
                    shutil.rmtree(new)
                yield new
                directory.mkdir(parents=True, exist_ok=True)
                (new / DATABASE).rename(directory / DATABASE)
            finally:
                shutil.rmtree(beside, ignore_errors=True)
    except FrontierUnwritable as error:  # it names what is there no more
        raise FrontierUnwritable(
            f"cannot import into {directory} ({system_words(error.__cause__ or error)}): nothing was left "
            "there; free some space or fix the disk, then give the same command again"
        ) from error
