"""The LevelDB database of a frontier: opened by one process at a time, read, scanned and written in batches.

`Store` owns the only handle of a database; `Lock` reserves its directory for one process. LevelDB's own lock
is released as soon as any code in the process opens and closes its ``LOCK`` file, so ``frontier.lock`` is
held in addition, with ``flock``. That file has two lines: the process id, and what the process does there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

try:
    import plyvel
except ImportError:  # Python 3.12 and newer
    import plyvel_next as plyvel

from ..errors import (
    FrontierDamaged,
    FrontierError,
    FrontierLocked,
    FrontierUnreadable,
    FrontierUnwritable,
    FrontierVersion,
    NoFrontierInside,
)
from . import keys
from .keys import FORMAT_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Readable(Protocol):
    """A database, or a snapshot of one, for which LevelDB keeps deleted rows until `close`."""

    def get(self, key: bytes, *, verify_checksums: bool = False) -> bytes | None: ...
    def raw_iterator(self, *, verify_checksums: bool = False, fill_cache: bool = True) -> Any: ...
    def close(self) -> None: ...


DATABASE = "leveldb"
REPAIRING = f"{DATABASE}.repairing"  # the copy that a repair works on

CRAWL = "a crawl"
LOCK = "frontier.lock"
_FULL = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


def has_database(directory: Path) -> bool:
    """Return whether *directory* holds a database, or what an interrupted repair made of it."""
    return (directory / DATABASE).exists() or (directory / REPAIRING).exists()


class Lock:
    """Reserves *directory* for this process until `close`, and makes it if need be; *user* names the purpose.

    Raises `FrontierLocked` with the process id of the holder, `FrontierUnwritable` if the disk is full, or
    `FrontierUnreadable`.
    """

    def __init__(self, directory: Path, user: str = CRAWL) -> None:
        self._directory = directory
        self._file = _open_lock(directory)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            with self._file:
                raise FrontierLocked(_held(directory, *self._file.read().splitlines()[:2])) from error
        with contextlib.suppress(OSError):  # commands have to read a stopped crawl on a full disk, too
            self._file.write(f"{os.getpid()}\n{user}\n")  # in place, which needs no space
            self._file.truncate()
            self._file.flush()

    def is_lost(self) -> bool:
        """Return whether the database was removed or moved away, or another is in its place. Two stats; false
        if they fail."""
        try:
            (self._directory / DATABASE).stat()
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False
        with contextlib.suppress(OSError, ValueError):  # only the lock was removed, or it is closed
            found, ours = (self._directory / LOCK).stat(), os.fstat(self._file.fileno())
            return not os.path.samestat(found, ours)  # no other file has its number while it is open
        return False

    def close(self) -> None:
        """Release the directory; does nothing the second time."""
        if not self._file.closed:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        with contextlib.suppress(OSError):  # a full disk
            self._file.close()


def _open_lock(directory: Path) -> IO[str]:
    path = directory / LOCK
    try:
        refuse_links(directory)
        directory.mkdir(parents=True, exist_ok=True)
        # Not "a", which always writes at the end.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if is_full(error):
            raise FrontierUnwritable(full_disk(directory, error.strerror)) from error
        raise FrontierUnreadable(no_directory(path, error)) from error
    return open(descriptor, "r+", encoding="utf-8", errors="replace")


def refuse_links(directory: Path) -> None:
    """Raise `FrontierUnreadable` for a symbolic link in place of a file of the frontier: a directory from a
    stranger may have one, and a write or a removal would reach the file that it points to."""
    database = directory / DATABASE
    suspects = [directory, directory / LOCK, database, directory / REPAIRING]
    with (
        contextlib.suppress(OSError),  # to open it raises the right error
        os.scandir(database) as files,
    ):
        suspects += [Path(file.path) for file in files if file.is_symlink()]
    for path in suspects:
        if path.is_symlink():
            raise FrontierUnreadable(
                f"{path} is a symbolic link, and nothing is opened, written or removed through one: put what "
                "it points to in its place, or use another FRONTIER_DIR"
            )


def no_directory(path: Path, error: OSError) -> str:
    """Return the message for a file *path* whose directory cannot be made or used."""
    return (
        f"cannot open {path} ({error.strerror}): make the directory writable for this user, remove what "
        "stands in its place, or use another JOBDIR or FRONTIER_DIR"
    )


def _held(directory: Path, holder: str = "", user: str = CRAWL) -> str:
    where, remedy = f"process {holder}" if holder else "another process", "wait until it has ended"
    if holder == str(os.getpid()):
        where, remedy = "this process already", "close it first"
    elif user == CRAWL:
        remedy = "stop that crawl first"
    return f"{directory} is open in {where} ({user}): {remedy}, or use another FRONTIER_DIR"


def cause_of(error: BaseException) -> str:
    """Return the text of an *error* of LevelDB or the operating system, or the name of its class."""
    text = error.args[0] if error.args else ""
    return text.decode(errors="replace") if isinstance(text, bytes) else str(error) or type(error).__name__


def system_words(error: BaseException) -> str:
    """Return the message of the operating system in *error*, without the path."""
    words = error.strerror if isinstance(error, OSError) else None
    return words or cause_of(error).rpartition(": ")[2]


def is_full(error: BaseException) -> bool:
    """Return whether a write failed because the disk is full, or by a quota or a file size limit; by the text
    of *error*."""
    return any(text in str(error) for text in _FULL)


def lost(directory: Path) -> str:
    """Return the message for a *directory* that ``is_lost``."""
    return (
        f"{directory} was removed, moved away or replaced while it was open: nothing more is written, and "
        "what is there now is left as it is; if it was moved, move it back, then start the same crawl again"
    )


def full_disk(directory: Path, cause: str | None) -> str:
    """Return the message for a write to *directory* that failed because of *cause*."""
    return (
        f"cannot write to {directory} ({cause}): free some space or fix the disk, then start the same crawl "
        "again; nothing that was stored is lost"
    )


# LevelDB with its defaults is four to five times slower. A start after a kill has to replay the buffer (0.4 s
# for 28 MB); docs/internals/benchmarks.md has the figures.
WRITE_BUFFER = 28 << 20
CACHE = 24 << 20
BLOOM_BITS = 10
_MANY_TABLES = 6  # to be merged; from 8 on LevelDB delays each write by a millisecond, from 12 on it waits
_END = b"\xff\xff"  # after all keys
# Tables of 2 MB, which are mapped and hold no descriptor. Eight million pages have 373 tables: with all open,
# 375 MB were in memory after a start, with 200 open 150 MB; with 100 open a page took half as long again.
MAX_OPEN_FILES = 200
_TABLES = {"paranoid_checks": True, "bloom_filter_bits": BLOOM_BITS, "max_open_files": MAX_OPEN_FILES}


class Store:
    """A LevelDB database in *directory*, for this process alone until `close`; *user* names the purpose.

    *scheme* names how fingerprints are made: a database holds those of one scheme only. *part* divides the
    memory for buffer and cache, if the process has so many databases open. Raises `FrontierLocked`,
    `FrontierVersion`, `FrontierUnwritable` (full disk) or `FrontierUnreadable`; never deletes a database that
    it cannot open.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        scheme: str = "",
        user: str = CRAWL,
        part: int = 1,
    ) -> None:
        self._memory = CACHE // part, WRITE_BUFFER // part
        self.directory = Path(directory).absolute()  # a spider may go to another directory
        self._lost: FrontierUnwritable | None = None
        self.rankings = 0  # that read the store in threads of their own, which closing it could crash
        self._lock = Lock(self.directory, user)
        try:
            self._db = _open(self.directory / DATABASE, *self._memory)
        except BaseException:
            self._lock.close()
            raise
        try:
            self._check_format(scheme)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<Store {self.directory}{' closed' if self._db.closed else ''}>"

    def _check_format(self, scheme: str) -> None:
        """Compare format and key scheme with the stored ones. Stores them in a new database, and in one with
        pages that lost them in a repair."""
        found, ours = self.get(keys.FORMAT), str(FORMAT_VERSION).encode()
        if found is None:
            first = next(iter(self.keys_of(keys.PAGE, b"", 1)), b"")
            if len(first) != keys.ID_BYTES and next(self.scan(b"", limit=1), None) is not None:
                raise NoFrontierInside(
                    f"{self.directory} holds a LevelDB database that is not a frontier: use another "
                    "FRONTIER_DIR"
                )
            self.write({keys.FORMAT: ours, keys.SCHEME: scheme.encode()}, sync=True)
            return
        if found != ours:
            raise FrontierVersion(
                f"{self.directory} was written in frontier format {found.decode(errors='replace')}, this "
                f"version of scrapy-frontier reads format {FORMAT_VERSION}: install the version that wrote "
                "it, or use another FRONTIER_DIR"
            )
        stored = (self.get(keys.SCHEME) or b"").decode(errors="replace")
        if scheme and stored and not _agree(stored, scheme):
            raise FrontierVersion(
                f"{self.directory} identifies pages by {stored!r}, this crawl by {scheme!r}: use the same "
                "REQUEST_FINGERPRINTER_CLASS and version of w3lib as before, or another FRONTIER_DIR"
            )
        if scheme not in ("", stored) and " " not in stored:  # a command stored the name alone, or nothing
            self.write({keys.SCHEME: scheme.encode()})

    def get(self, key: bytes) -> bytes | None:
        """Return the value of *key*, or None. Like all reads it raises `FrontierUnreadable` for damaged
        files."""
        try:
            value: bytes | None = self._db.get(key, verify_checksums=True)
            return value
        except plyvel.Error as error:
            raise _why_not(self.directory / DATABASE, error) from error

    def scan(
        self, prefix: bytes, after: bytes = b"", limit: int | None = None, snapshot: Readable | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield at most *limit* rows of the store, or of *snapshot*, whose keys begin with *prefix* and go on
        with more than *after*, in byte order. Rows that are written meanwhile are left out. Raises
        `FrontierUnreadable`."""
        source = self._db if snapshot is None else snapshot
        for key, row in islice(self._seek(source, prefix, after), limit):
            yield key, row.value()

    def _seek(self, source: Readable, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, Any]]:
        """Yield the keys of `scan`, each with the raw iterator of *source* at its row. The other iterators of
        plyvel take a damaged block for the end of the rows; raw ones raise."""
        first = prefix + after
        try:
            # What reads a snapshot reads each row once, and would fill the cache with them.
            iterator = source.raw_iterator(verify_checksums=True, fill_cache=source is self._db)
            with contextlib.closing(iterator) as rows:
                rows.seek(first)
                if after and rows.valid() and rows.key() == first:
                    rows.next()
                while rows.valid() and (key := rows.key()).startswith(prefix):
                    yield key, rows
                    rows.next()
        except plyvel.Error as error:
            raise _why_not(self.directory / DATABASE, error) from error

    def keys_of(self, prefix: bytes, after: bytes, limit: int) -> list[bytes]:
        """Return at most *limit* keys that begin with *prefix* and go on with more than *after*, without the
        prefix.

        Pass the last key of the call before: to seek from the beginning would walk all deleted rows (608 us
        instead of 2.5 after 20,000 pages).
        """
        cut = len(prefix)
        return [key[cut:] for key, _ in islice(self._seek(self._db, prefix, after), limit)]

    def look(self) -> bool:
        """Return whether the directory is still the one that was opened. Two stats; may be called in any
        thread.

        If it was removed, moved away or replaced, `check` and all writes raise from then on: LevelDB finds
        its files by name, and would change those of a new database in its place.
        """
        if self._lost is None and self._lock.is_lost():
            self._lost = FrontierUnwritable(lost(self.directory))
        return self._lost is None

    def check(self) -> None:
        """Raise `FrontierUnwritable` if the last `look` found another directory, or none; O(1)."""
        if self._lost is not None:
            raise self._lost

    def write(self, rows: Mapping[bytes, bytes | None], sync: bool = False) -> None:
        """Write *rows* atomically, a value by key, None to delete the key; with an fsync if *sync*.

        May be called in several threads. Raises `FrontierUnwritable`. Do not write after that: LevelDB's log
        may end in half a log record, and a write after it could be lost.
        """
        self.check()
        batch = self._db.write_batch(sync=sync)
        put, delete = batch.put, batch.delete
        for key, value in rows.items():
            if value is None:
                delete(key)
            else:
                put(key, value)
        try:
            batch.write()
        except plyvel.CorruptionError as error:  # met when tables were merged
            raise FrontierUnwritable(str(_damaged(self.directory / DATABASE, error))) from error
        except (plyvel.Error, OSError) as error:
            raise FrontierUnwritable(full_disk(self.directory, cause_of(error))) from error

    def lags(self) -> bool:
        """Return whether LevelDB is behind with its own work, so that many more writes would have to wait: a
        full buffer is not on the disk yet while the next one fills, or many tables have to be merged. 2
        us."""
        tables = self._db.get_property(b"leveldb.num-files-at-level0")
        used = self._db.get_property(b"leveldb.approximate-memory-usage")  # by cache and buffers
        return int(tables or 0) >= _MANY_TABLES or int(used or 0) > sum(self._memory)

    def snapshot(self) -> Readable:
        """Return a consistent view of now, which may be read in any thread. Close it soon, and before the
        store: while it is open LevelDB keeps overwritten rows."""
        snapshot: Readable = self._db.snapshot()
        return snapshot

    def sync(self) -> None:
        """Flush LevelDB's log files to the disk with ``fsync``; call it in a thread of its own. A synced
        LevelDB write would delay every other write until the disk answers; this does not."""
        for log in (self.directory / DATABASE).glob("*.log"):
            with contextlib.suppress(FileNotFoundError), log.open("rb") as file:
                os.fsync(file.fileno())

    def size(self) -> int:
        """Return the bytes on disk of all files of the database; a stat for each."""
        total = 0
        for file in (self.directory / DATABASE).iterdir():
            with contextlib.suppress(FileNotFoundError):
                total += file.stat().st_size
        return total

    def flush(self) -> None:
        """Write LevelDB's buffer to a table and wait for that, so that the next open has no log to replay.
        Raises `FrontierUnwritable` if the directory was removed or replaced."""
        self.look()
        self.check()
        self._db.compact_range(start=_END, stop=_END)

    def close(self) -> None:
        """Close the database and releases the lock; does nothing the second time. Reads after it raise
        `RuntimeError`."""
        self._db.close()
        self._lock.close()


def _agree(one: str, other: str) -> bool:
    """Return whether two key schemes are compatible: some commands know only the name, not the digits after
    it."""
    (name, _, digits), (other_name, _, other_digits) = one.partition(" "), other.partition(" ")
    return name == other_name and (digits == other_digits or not (digits and other_digits))


def _why_not(path: Path, error: BaseException) -> FrontierError:
    """Return the error to raise for an *error* that LevelDB raised for *path*. It opens its tables late, and
    reports a file that is too short, or missing, with an error of the operating system."""
    if is_full(error):
        return FrontierUnwritable(full_disk(path.parent, cause_of(error)))
    torn = any(os.strerror(number) in str(error) for number in (errno.EINVAL, errno.ENOENT))
    is_torn = torn and isinstance(error, plyvel.IOError) and path.is_dir()
    if is_torn or isinstance(error, plyvel.CorruptionError):
        return _damaged(path, error)
    return FrontierUnreadable(
        f"cannot open {path} ({cause_of(error)}): check that the files are readable and writable for this "
        "user, and that the disk is sound; nothing was changed"
    )


def _damaged(path: Path, error: BaseException) -> FrontierDamaged:
    return FrontierDamaged(
        f"{path} is damaged ({cause_of(error)}): nothing was deleted; restore it from a copy, or let `scrapy "
        f"frontier check --repair --dir {path.parent}` save what is legible into a copy"
    )


def repair_files(path: Path) -> None:
    """Let LevelDB repair the damaged database in *path*, in place, with paranoid checks: by default it would
    keep damaged blocks. Raises `FrontierUnreadable` if no page is left, and what opening raises."""
    try:
        plyvel.repair_db(os.fsencode(path), **_TABLES)
        with (
            contextlib.closing(plyvel.DB(os.fsencode(path), **_TABLES)) as database,  # which begins a log
            contextlib.closing(database.raw_iterator(verify_checksums=True)) as rows,
        ):
            rows.seek(keys.PAGE)
            has_pages = rows.valid() and rows.key().startswith(keys.PAGE)
    except (plyvel.Error, OSError) as error:
        raise _why_not(path, error) from error
    if not has_pages:
        raise FrontierUnreadable(
            f"{path.with_name(DATABASE)} is damaged, and LevelDB's repair finds not one page, if this is a "
            f"frontier at all: nothing was changed; restore it from a copy, or remove {path.parent} to begin "
            "anew"
        )


def _open(path: Path, cache: int = CACHE, write_buffer: int = WRITE_BUFFER) -> Any:
    if not (path / "CURRENT").exists() and not path.is_file():
        if path.with_name(REPAIRING).exists():
            raise _damaged(path, FileNotFoundError("a repair was interrupted"))
        # Without CURRENT LevelDB begins a new database, and removes the tables in the directory.
        if any(path.glob("*.ldb")) | any(path.glob("*.log")):
            raise _damaged(path, FileNotFoundError("its file CURRENT is missing"))
    # LevelDB always has a log, but does not notice that one was removed with the rows in it.
    if any(path.glob("*.ldb")) and (path / "CURRENT").exists() and not any(path.glob("*.log")):
        raise _damaged(path, FileNotFoundError("its log is missing, with the newest rows"))
    try:
        buffers = {"write_buffer_size": write_buffer, "lru_cache_size": cache}
        return plyvel.DB(os.fsencode(path), create_if_missing=True, **buffers, **_TABLES)
    except (plyvel.Error, OSError) as error:
        raise _why_not(path, error) from error
