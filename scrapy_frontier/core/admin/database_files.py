"""Creates, copies, repairs and removes the database of a frontier as a whole.

Each of these is atomic: an interruption leaves the old database or the new one.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import FrontierError, FrontierUnreadable, FrontierUnwritable
from ..store.leveldb import DATABASE, REPAIRING, Lock, is_full, repair_files, system_words

if TYPE_CHECKING:
    from collections.abc import Iterator

_COPY = "copy-"  # of a running crawl's database, for a command
_LEVELDB_FILE = re.compile(r"CURRENT|LOCK|LOG|LOG\.old|MANIFEST-\d+|\d+\.(ldb|sst|log|dbtmp)|lost")


@contextmanager
def filling(directory: Path) -> Iterator[Path]:
    """Yield a directory for a new database, which is moved into *directory* when the block ends.

    If the block raises, it is removed, and *directory* is as before. Raises `FrontierLocked` while another
    import runs, `FrontierUnwritable` for a full disk, and `OSError` if *directory* has a database.
    """
    beside = directory.with_name(f"{directory.name}.importing")
    new = beside / "frontier"
    try:
        with closing(Lock(beside, "scrapy frontier import")):
            try:
                if new.exists():  # an import was killed
                    shutil.rmtree(new)
                yield new
                directory.mkdir(parents=True, exist_ok=True)
                (new / DATABASE).rename(directory / DATABASE)
            finally:
                shutil.rmtree(beside, ignore_errors=True)
    except FrontierUnwritable as error:  # it names a directory that is gone
        raise FrontierUnwritable(
            f"cannot import into {directory} ({system_words(error.__cause__ or error)}): nothing was left "
            "there; free some space or fix the disk, then give the same command again"
        ) from error


def copy(directory: Path) -> Path:
    """Copy the database in *directory*, which this process has open, into a new directory below, and return
    that. The copy is as a kill would leave the database. Call it in a thread of its own. Raises `OSError`.

    It takes space only for logs, up to 30 MB: tables, which LevelDB never changes, are linked. The manifest
    names the tables; while it stays the same no file that it names is removed. A log may be copied in the
    middle of a record, which LevelDB takes for its end.
    """
    database, target = directory / DATABASE, Path(tempfile.mkdtemp(prefix=_COPY, dir=directory))
    (target / DATABASE).mkdir()
    try:
        while True:
            manifest = max(database.glob("MANIFEST-*"))
            before = manifest.stat().st_size
            with suppress(FileNotFoundError):  # LevelDB merged a table into others
                for file in sorted(database.iterdir()):
                    _link_or_copy(file, target / DATABASE / file.name)
                if manifest.stat().st_size == before:
                    return target
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _link_or_copy(file: Path, target: Path) -> None:
    if file.suffix == ".ldb":
        with suppress(FileExistsError, PermissionError):  # some file systems have no links
            target.hardlink_to(file)
        if target.exists():
            return
    if file.suffix in (".ldb", ".log") or file.name.startswith(("MANIFEST-", "CURRENT")):
        shutil.copyfile(file, target)


def remove_copies(directory: Path) -> None:
    """Remove the copies in *directory* that no process has open."""
    for path in directory.glob(f"{_COPY}*"):
        with suppress(FrontierError):  # a command reads it
            Lock(path).close()
            shutil.rmtree(path, ignore_errors=True)


def refuse_held(directory: Path, user: str) -> None:
    """Raise `FrontierLocked` if a process has the frontier in *directory* open."""
    Lock(directory, user).close()


def repair(directory: Path, user: str, now: float) -> Path | None:
    """Replace a damaged database by a copy that LevelDB has repaired; returns the path under which the
    damaged one is kept, or None if this finished an interrupted repair.

    The copy needs as much space as the database. Raises `FrontierLocked`, `FrontierUnwritable` and
    `FrontierUnreadable`; then nothing was changed.
    """
    database, copy = directory / DATABASE, directory / REPAIRING
    with closing(Lock(directory, user)):
        if copy.exists() and not database.exists():  # interrupted between the two renames below
            copy.rename(database)
            return None
        try:
            shutil.rmtree(copy, ignore_errors=True)
            copy.mkdir()
            for kind in ("*.ldb", "*.log", "MANIFEST-*", "CURRENT"):
                for file in database.glob(kind):
                    shutil.copyfile(file, copy / file.name)
            repair_files(copy)
        except BaseException as error:
            shutil.rmtree(copy, ignore_errors=True)
            if not isinstance(error, OSError) or not is_full(error):
                raise
            raise FrontierUnwritable(
                f"{directory} cannot be repaired there ({system_words(error)}): the copy needs as much space "
                "as the database; nothing was changed; free some space, or copy the directory to a disk that "
                "has it"
            ) from error
        shutil.rmtree(copy / "lost", ignore_errors=True)
        os.sync()  # LevelDB does not wait for what its repair writes
        kept = _free_name(directory, now)
        database.rename(kept)
        copy.rename(database)
        return kept


def _free_name(directory: Path, now: float) -> Path:
    stamp = datetime.fromtimestamp(now, timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    name = f"{DATABASE}.damaged-{stamp}"
    taken = len(list(directory.glob(f"{name}*")))
    return directory / (f"{name}-{taken + 1}" if taken else name)


def remove(directory: Path, user: str) -> None:
    """Remove the database, even if it cannot be opened, and the copy of an interrupted repair. Raises
    `FrontierLocked`, `PermissionError`, and `FrontierUnreadable` for a directory with other files; then
    nothing was removed."""
    found = [path for path in (directory / DATABASE, directory / REPAIRING) if path.exists()]
    for path in (directory, *found):
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    with closing(Lock(directory, user)):
        for path in found:
            for file in path.iterdir() if path.is_dir() else [path]:
                if not _LEVELDB_FILE.fullmatch(file.name):
                    raise FrontierUnreadable(
                        f"{file} is no file of a frontier: nothing was removed; move it away, or remove "
                        f"{path} by hand"
                    )
        for path in found:  # renamed first, so that no process finds half a database
            path.rename(path.with_name(f"{path.name}.removed-{os.getpid()}"))
    for path in found:
        shutil.rmtree(path.with_name(f"{path.name}.removed-{os.getpid()}"))
