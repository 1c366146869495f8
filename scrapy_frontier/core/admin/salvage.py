"""What is legible of damaged files, saved into a copy of the database that then takes the original's place.

The original is read, and at the end moved aside, never written. Steps, for a caller that holds the `Lock` of
the directory: `copied`, `mend`, checking the copy as any frontier, `put_in_place`. Whatever interrupts them
leaves the original where it was, or the whole copy under `REPAIRED`: `finish` goes on from there.

Where an import makes its database: beside the directory that it is for, until it is whole.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

from ..errors import FrontierUnwritable
from ..store import leveldb_files
from ..store.leveldb import DATABASE, REPAIRED, REPAIRING, Lock, system_words
from ..store.leveldb_files import ListedTable, Loss, log_name, read_index, table_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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


_KINDS = ("*.ldb", "*.log", "MANIFEST-*", "CURRENT")
_SPARE = 32 << 20  # bytes: LevelDB's buffer, once more on the disk


class Damage(NamedTuple):
    """What the files lost, a range of keys each; with ``is_all_known`` false there may have been more
    files."""

    losses: list[Loss]
    is_all_known: bool

    def touches(self, prefix: bytes) -> bool:
        """Whether rows under the one byte *prefix* may be among what the files lost."""
        return any(
            loss.above[:1] <= prefix and (loss.upto is None or prefix <= loss.upto[:1])
            for loss in self.losses
        )

    def files(self) -> dict[str, tuple[int, int]]:
        """Of each file that lost something, how many bytes it lost, and how many it had."""
        found: dict[str, tuple[int, int]] = {}
        for loss in self.losses:
            before, _ = found.get(loss.file, (0, 0))
            found[loss.file] = before + loss.lost, loss.of
        return found


def copied(directory: Path) -> Iterator[Path]:
    """Copy the database into `REPAIRING`, after what an earlier repair left there is gone: each file when
    it is copied. Raises `FrontierUnwritable` where there is no space for that and for the repair."""
    discard(directory)
    shutil.rmtree(directory / REPAIRED, ignore_errors=True)
    files = [file for kind in _KINDS for file in sorted((directory / DATABASE).glob(kind))]
    needed, free = 2 * sum(file.stat().st_size for file in files) + _SPARE, shutil.disk_usage(directory).free
    if free < needed:
        raise FrontierUnwritable(
            f"{directory} cannot be repaired there: the copy and the repair need {needed >> 20:,} MB, and "
            f"{free >> 20:,} MB are free; nothing was changed; free some space, or copy the directory to a "
            "disk that has it and write --dir"
        )
    work = directory / REPAIRING / DATABASE
    work.mkdir(parents=True)
    for file in files:
        shutil.copyfile(file, work / file.name)
        yield file


def mend(directory: Path, repair: Callable[[Path], None]) -> Damage:
    """Have *repair* (LevelDB's own) make a readable database of the copy, of all that is sound in it; what
    the files lost. 10 MB/s: all checksums are looked at. Raises what *repair* raises."""
    work = directory / REPAIRING / DATABASE
    manifests = sorted(work.glob("MANIFEST-*"))
    catalogue = leveldb_files.read_catalogue(manifests[-1].read_bytes()) if manifests else None
    known = {table_name(number): table for number, table in catalogue.tables.items()} if catalogue else {}
    damage = [] if catalogue is None else list(_missing(work, catalogue.log, known))
    for log in sorted(work.glob("*.log")):
        mended, loss = leveldb_files.mended_log(log.name, log.read_bytes())
        if loss is not None:
            log.write_bytes(mended)
            damage.append(loss)
    handled = set()
    for table in sorted(work.glob("*.ldb")):
        if (found := _mend_table(table, known.get(table.name))) is not None:
            damage += found
            handled.add(table.name)
    repair(work)
    for table in sorted((work / "lost").glob("*.ldb")):
        if table.name not in handled:
            damage += _losses(table)
    shutil.rmtree(work / "lost", ignore_errors=True)
    return Damage(damage, catalogue is not None)


def _missing(work: Path, log: int, tables: dict[str, ListedTable]) -> Iterator[Loss]:
    if log and not (work / log_name(log)).exists():
        yield Loss(log_name(log), 0, 0)  # nobody knows how long it was
    for name, table in tables.items():
        if not (work / name).exists():
            yield Loss(name, table.size, table.size, table.first, table.last)


def _mend_table(table: Path, listed: ListedTable | None) -> list[Loss] | None:
    """None for a table that LevelDB can read."""
    if table.stat().st_size:
        with table.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if read_index(data) is not None:
                return None
    mended, loss = leveldb_files.mended_table(table.name, table.read_bytes(), listed)
    table.write_bytes(mended)
    return [] if loss is None else [loss]


def _losses(table: Path) -> list[Loss]:
    data, name = table.read_bytes(), table.name
    return leveldb_files.losses(name, data, read_index(data) or []) or [Loss(name, len(data), len(data))]


def discard(directory: Path) -> None:
    """Remove a copy that is not whole, if there is one; nothing is raised."""
    shutil.rmtree(directory / REPAIRING, ignore_errors=True)


def put_in_place(directory: Path, now: float) -> Path:
    """The copy, which is whole, takes the place of the database; where that is now."""
    os.sync()  # LevelDB does not wait for what its repair writes
    (directory / REPAIRING / DATABASE).rename(directory / REPAIRED)
    discard(directory)
    stamp = datetime.fromtimestamp(now, timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    name = f"{DATABASE}.damaged-{stamp}"
    taken = len(list(directory.glob(f"{name}*")))
    kept = directory / (f"{name}-{taken + 1}" if taken else name)
    (directory / DATABASE).rename(kept)
    finish(directory)
    return kept


def remove(directory: Path, user: str) -> None:
    """Remove the database, and what an interrupted repair left; nobody can have it open meanwhile, nor find
    half of it.

    Not by `Store`: what it cannot open can be removed all the same. Raises `FrontierLocked`, and
    `PermissionError` with nothing removed.
    """
    found = [directory / name for name in (DATABASE, REPAIRED, REPAIRING) if (directory / name).exists()]
    for path in (directory, *found):
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    with closing(Lock(directory, user)) as lock:
        doomed = [path.with_name(f"{path.name}.removed-{os.getpid()}") for path in found]
        for path, target in zip(found, doomed, strict=True):
            path.rename(target)
        lock.database_removed()
    for target in doomed:
        if target.is_symlink():  # on another disk
            shutil.rmtree(target.resolve())
            target.unlink()
        else:
            shutil.rmtree(target)


def finish(directory: Path) -> None:
    """Put a copy in place that is whole, where nothing stands; else nothing is done. The caller holds the
    lock."""
    if (directory / REPAIRED).exists() and not (directory / DATABASE).exists():
        (directory / REPAIRED).rename(directory / DATABASE)
