"""All of LevelDB: open, lock, version, get, scan, batch, sync.

Owns the one handle of a database directory. LevelDB's own lock is given up as soon as anybody in the
process opens and closes its ``LOCK`` file, so a `Lock` of our own is held besides.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import plyvel

from ..errors import FrontierDamaged, FrontierError, FrontierUnreadable, FrontierUnwritable, FrontierVersion
from . import keys
from .directory_lock import CRAWL, DATABASE, REPAIRED, Lock, cause_of, full_disk, is_full, lost
from .keys import FORMAT_VERSION, READABLE_FORMATS
from .leveldb_files import log_name, read_catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .leveldb_types import Database, RawRows, Readable

# LevelDB with its own defaults is four to five times slower. The buffer is what a start after a kill
# has to replay (0.4 s for 28 MB); docs/internals/benchmarks.md has the figures.
WRITE_BUFFER = 28 << 20
CACHE = 24 << 20
BLOOM_BITS = 10
_MANY_TABLES = 6  # to be merged; from 8 on LevelDB holds each write up for a millisecond, from 12 on for good
_END = b"\xff\xff"  # behind all keys
# Tables of 2 MB; they are mapped, and hold no descriptor. With all 373 of eight million pages open, 375 MB of
# them were in memory after a start, and 150 with these; with 100 a page took half as long again.
MAX_OPEN_FILES = 200
_TABLES = {"paranoid_checks": True, "bloom_filter_bits": BLOOM_BITS, "max_open_files": MAX_OPEN_FILES}


class Store:
    """A LevelDB database in *directory*, ours alone until `close`.

    Raises `FrontierLocked`, `FrontierVersion`, `FrontierUnwritable` (full disk) or `FrontierUnreadable`;
    nothing is ever deleted or recreated to get going. *scheme* names how fingerprints are made: a database
    holds those of one scheme only. Where the rows that say so are lost, as a repair of damaged files may lose
    them, a *restored_scheme* has them written anew, once all files have been read: nothing is ever written
    into a database that must be salvaged. *user* says what the store is open for.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        scheme: str = "",
        restored_scheme: str = "",
        user: str = CRAWL,
    ) -> None:
        self.directory = Path(directory).absolute()  # a spider may go to another directory
        self.is_restored = False
        self._lost: FrontierUnwritable | None = None
        self._lock = Lock(self.directory, user)
        try:
            self._db = _open(self.directory / DATABASE, self._lock.had_database)
        except BaseException:
            self._lock.close()
            raise
        self._batch = self._db.write_batch()  # a new one for each write would take a microsecond more
        try:
            if restored_scheme:
                self.count_rows()
                self._restore_format(restored_scheme)
            self._check_format(scheme)
            self._lock.database_made()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<Store {self.directory}{' closed' if self._db.closed else ''}>"

    def _restore_format(self, scheme: str) -> None:
        """Say anew what the database is where that is lost, if pages show that it is a frontier."""
        lost = [key for key in (keys.FORMAT, keys.SCHEME) if self.get(key) is None]
        first = next(iter(self.keys_of(keys.PAGE, b"", 1)), b"")
        if lost and len(first) == keys.ID_BYTES:
            rows = _format_rows(scheme)
            self.write({key: rows[key] for key in lost}, sync=True)
            self.is_restored = True

    def _check_format(self, scheme: str) -> None:
        """Compare format and key scheme with what is stored; store them in a new database."""
        found = self.get(keys.FORMAT)
        if found is None:
            if next(self.scan(b"", limit=1), None) is not None:
                raise FrontierVersion(
                    f"{self.directory} holds a LevelDB database that is not a frontier: use another "
                    "FRONTIER_DIR; or if it was one before LevelDB repaired it, let `scrapy frontier check "
                    "--repair` write anew what is lost"
                )
            if self._lock.had_database:
                raise _missing(self.directory / DATABASE, "holds no rows")
            self.write(_format_rows(scheme), sync=True)
            return
        if found not in READABLE_FORMATS:
            readable = b" and ".join(READABLE_FORMATS).decode()
            raise FrontierVersion(
                f"{self.directory} was written in frontier format {found.decode(errors='replace')}, this "
                f"version of scrapy-frontier reads format {readable}: install the version that wrote it, or "
                "use another FRONTIER_DIR"
            )
        stored = (self.get(keys.SCHEME) or b"").decode(errors="replace")
        if scheme and stored and not _agree(stored, scheme):
            raise FrontierVersion(
                f"{self.directory} identifies pages by {stored!r}, this crawl by {scheme!r}: use the same "
                "REQUEST_FINGERPRINTER_CLASS and version of w3lib as before, or another FRONTIER_DIR"
            )
        if " " in scheme and stored and " " not in stored:  # a repair knew the name alone
            self.write({keys.SCHEME: scheme.encode()})

    def get(self, key: bytes) -> bytes | None:
        """The value of *key*, or None. Like all reads it raises `FrontierUnreadable` on damaged files."""
        try:
            return self._db.get(key, verify_checksums=True)
        except plyvel.Error as error:
            raise _why_not(self.directory / DATABASE, error) from error

    def scan(
        self, prefix: bytes, after: bytes = b"", limit: int | None = None, snapshot: Readable | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows under *prefix* whose rest is greater than *after*, in byte order, *limit* at most (None: all).

        Of the store, or of *snapshot*; what is written meanwhile is not seen. Raises `FrontierUnreadable`.
        """
        source = self._db if snapshot is None else snapshot
        for key, row in islice(self._seek(source, prefix, after), limit):
            yield key, row.value()

    def _seek(self, source: Readable, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, RawRows]]:
        """One key under *prefix* after the other, each with the raw iterator of *source* that stands on it.

        The convenient iterators of plyvel take damaged blocks for the end of the rows; raw ones raise.
        """
        first = prefix + after
        try:
            with contextlib.closing(source.raw_iterator(verify_checksums=True)) as rows:
                rows.seek(first)
                if after and rows.valid() and rows.key() == first:
                    rows.next()
                while rows.valid() and (key := rows.key()).startswith(prefix):
                    yield key, rows
                    rows.next()
        except plyvel.Error as error:
            raise _why_not(self.directory / DATABASE, error) from error

    def keys_of(self, prefix: bytes, after: bytes, limit: int) -> list[bytes]:
        """At most *limit* keys under *prefix* whose rest is greater than *after*, without the prefix.

        Seeking from where the last call ended avoids the dead rows of all that was taken before
        (2.5 us against 608 us after 20,000 pages).
        """
        cut = len(prefix)
        return [key[cut:] for key, _ in islice(self._seek(self._db, prefix, after), limit)]

    def count_rows(self) -> Counter[bytes]:
        """How many rows there are by the first byte of their keys; reads every block of every file.

        Raises `FrontierUnreadable`, or `FrontierDamaged` of that kind where a block is.
        """
        return Counter(key[:1] for key, _ in self._seek(self._db, b"", b""))

    def look(self) -> bool:
        """Whether the directory is still the one that was opened; two stats, from any thread. Once it was
        removed, moved away or replaced, nothing is written any more, and `check` raises: LevelDB finds its
        files by name, and would write and delete those of a database that was begun in its place."""
        if self._lost is None and self._lock.is_lost():
            self._lost = FrontierUnwritable(lost(self.directory))
        return self._lost is None

    def check(self) -> None:
        """Raise `FrontierUnwritable` where the last `look` found another directory, or none; O(1)."""
        if self._lost is not None:
            raise self._lost

    def write(self, rows: Mapping[bytes, bytes | None], sync: bool = False) -> None:
        """Write *rows* atomically, a value by key, None for a key that is deleted; with an fsync if *sync*.

        Raises `FrontierUnwritable`. After that no further write must be tried: LevelDB's log may end in
        half a log record, and what is written behind it could be lost.
        """
        self.check()
        batch = self._db.write_batch(sync=True) if sync else self._batch
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
        finally:
            batch.clear()

    def lags(self) -> bool:
        """Whether LevelDB is behind with its own work, so that many more writes now would have to wait; 2 us.

        Either a full buffer is not on disk yet while the next one fills, or many tables wait for merging.
        """
        tables = self._db.get_property(b"leveldb.num-files-at-level0")
        used = self._db.get_property(b"leveldb.approximate-memory-usage")  # by cache and buffers
        return int(tables or 0) >= _MANY_TABLES or int(used or 0) > CACHE + WRITE_BUFFER

    def snapshot(self) -> Readable:
        """A consistent view of now, readable from any thread. Close it soon, and before the store: while it
        is open LevelDB keeps what was overwritten since."""
        return self._db.snapshot()

    def sync(self) -> None:
        """Have the operating system write LevelDB's logs to the disk; for a thread of its own.

        A synced LevelDB write would hold up every other write until the disk answers; an ``fsync`` of the
        log files from outside does not.
        """
        for log in (self.directory / DATABASE).glob("*.log"):
            with contextlib.suppress(FileNotFoundError), log.open("rb") as file:
                os.fsync(file.fileno())

    def size(self) -> int:
        """Bytes on disk, of all files of the database; a stat for each."""
        total = 0
        for file in (self.directory / DATABASE).iterdir():
            with contextlib.suppress(FileNotFoundError):
                total += file.stat().st_size
        return total

    def flush(self) -> None:
        """Write LevelDB's buffer out as a table, so that the next open has no log to replay; waits until it
        is there. Raises `FrontierUnwritable` where the directory is another, or gone."""
        self.look()
        self.check()
        self._db.compact_range(start=_END, stop=_END)

    def compact(self) -> None:
        """Rewrite all tables without what was overwritten or deleted; about 1 s for 30 MB.

        Raises `FrontierUnwritable`.
        """
        self.look()
        self.check()
        self._db.compact_range(start=b"", stop=_END)  # without a stop plyvel asks for no row at all
        self.write({})  # LevelDB tells only who writes that merging failed

    def close(self) -> None:
        """Close the database and release the lock; does nothing the second time. Whoever reads after it gets
        a `RuntimeError` from plyvel."""
        self._db.close()
        self._lock.close()


def _agree(one: str, other: str) -> bool:
    """Whether two key schemes may be one: not every command can tell the digits behind the name."""
    (name, _, digits), (other_name, _, other_digits) = one.partition(" "), other.partition(" ")
    return name == other_name and (digits == other_digits or not (digits and other_digits))


def _format_rows(scheme: str) -> dict[bytes, bytes]:
    """The rows that say what the database is."""
    return {keys.FORMAT: str(FORMAT_VERSION).encode(), keys.SCHEME: scheme.encode()}


def _why_not(path: Path, error: BaseException) -> FrontierError:
    """What keeps LevelDB from opening or reading *path*: it opens its tables late, and tells a file that is
    too short, or gone, by the words of the operating system."""
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


def _missing(path: Path, state: str) -> FrontierUnreadable:
    return FrontierUnreadable(
        f"{path} {state}, but there was a frontier: restore it from a copy, or remove {path.parent} to begin "
        "anew"
    )


def _missing_log(path: Path) -> str | None:
    """The log with the newest rows, where it is gone: LevelDB does not miss it."""
    try:
        manifest = path / (path / "CURRENT").read_text(encoding="ascii").strip()
        catalogue = read_catalogue(manifest.read_bytes(), is_checked=False)
    except (OSError, ValueError):
        return None  # LevelDB says what is the matter
    name = log_name(catalogue.log) if catalogue is not None and catalogue.log else None
    return name if name is not None and not (path / name).exists() else None


def repair_files(path: Path) -> None:
    """Have LevelDB save what it can of the database in *path*, in place; what it cannot use moves into a
    directory ``lost`` in it. Raises `FrontierError`.

    By default it leaves a damaged block where it is, and the database as unreadable as it was.
    """
    try:
        plyvel.repair_db(os.fsencode(path), **_TABLES)
    except (plyvel.Error, OSError) as error:
        raise _why_not(path, error) from error


def _open(path: Path, had_database: bool) -> Database:
    if not (path / "CURRENT").exists() and not path.is_file():
        if path.with_name(REPAIRED).exists():
            raise _damaged(path, FileNotFoundError(f"a repair was interrupted, and left {REPAIRED}"))
        # Without CURRENT LevelDB takes a directory for a new database, and removes the tables in it.
        if any(path.glob("*.ldb")) | any(path.glob("*.log")):
            raise _damaged(path, FileNotFoundError("its file CURRENT is missing"))
        if had_database:
            raise _missing(path, "is empty" if path.exists() else "is missing")
    if (log := _missing_log(path)) is not None:
        raise _damaged(path, FileNotFoundError(f"its file {log} is missing"))
    try:
        buffers = {"write_buffer_size": WRITE_BUFFER, "lru_cache_size": CACHE}
        database: Database = plyvel.DB(os.fsencode(path), create_if_missing=True, **buffers, **_TABLES)
        return database
    except (plyvel.Error, OSError) as error:
        raise _why_not(path, error) from error
