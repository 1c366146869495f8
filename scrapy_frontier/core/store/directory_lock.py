"""The directory of a frontier: what lies in it, and who uses it: one process at a time.

That holds ``frontier.lock`` with ``flock``, a file of three lines: its process id, what it does there, and
``new`` for as long as no database was made. That word tells a frontier that is about to begin from one whose
database somebody removed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from typing import IO, TYPE_CHECKING
from weakref import WeakSet

from ..errors import FrontierLocked, FrontierUnreadable, FrontierUnwritable

if TYPE_CHECKING:
    from pathlib import Path

DATABASE = "leveldb"
# What a repair works in beside the database (a directory like the frontier's), and the copy once it is whole.
REPAIRING, REPAIRED = f"{DATABASE}.repairing", f"{DATABASE}.repaired"

CRAWL = "a crawl"
_LOCK = "frontier.lock"
_NEW = "new"
_FULL = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


def has_database(directory: Path) -> bool:
    """Whether *directory* holds one, or a repaired copy that is to take its place, or held one that somebody
    removed: a `Store` says what is the matter."""
    if any((directory / name).exists() for name in (DATABASE, REPAIRED)):
        return True
    try:
        return _is_marked_made((directory / _LOCK).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return False


def _is_marked_made(lock: str) -> bool:
    """Whether a database was made, by the text of a lock; one of old has no more than a process id."""
    lines = lock.splitlines()
    return bool(lines) and lines[2:] != [_NEW]


class Lock:
    """*directory*, made if need be, is ours until `close`; *user* says in words what for.

    ``had_database`` says whether a database was there before. Raises `FrontierLocked` with the holder's
    process id, `FrontierUnwritable` where the disk is full, or `FrontierUnreadable`.
    """

    def __init__(self, directory: Path, user: str = CRAWL) -> None:
        self._directory = directory
        self._user = user
        self._process = os.getpid()
        self._file = _open(directory)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            with self._file:
                raise FrontierLocked(_held(directory, *self._file.read().splitlines()[:2])) from error
        self.had_database = _is_marked_made(self._file.read())
        self._write(self.had_database)
        _held_here.add(self)

    def is_of(self, directory: Path) -> bool:
        """Whether it is open, and of this *directory*, by whatever path."""
        with contextlib.suppress(OSError, ValueError):  # it was removed, or is closed
            return os.path.samestat(os.fstat(self._file.fileno()), (directory / _LOCK).stat())
        return False

    def database_made(self) -> None:
        """From now on a missing database is one that was removed: opening it raises `FrontierUnreadable`."""
        if not self.had_database:
            self._write(True)

    def database_removed(self) -> None:
        """The next one who comes may make another database, as in an empty directory."""
        self._write(False)

    def is_lost(self) -> bool:
        """Whether the database was removed or moved away since, or another directory is in its place, which
        may be somebody else's. Two stats; where they fail nobody can tell, and it is not."""
        try:
            (self._directory / DATABASE).stat()
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False
        with contextlib.suppress(OSError, ValueError):  # it alone was removed, or is closed
            found, ours = (self._directory / _LOCK).stat(), os.fstat(self._file.fileno())
            return not os.path.samestat(found, ours)  # no other file has its number while it is open
        return False

    def _write(self, has_database: bool) -> None:
        lines = [str(os.getpid()), self._user, *([] if has_database else [_NEW])]
        with contextlib.suppress(OSError):  # a full disk must not keep a stopped crawl from being looked at
            self._file.seek(0)
            self._file.write("".join(f"{line}\n" for line in lines))  # in place, which needs no space
            self._file.truncate()
            self._file.flush()

    def close(self) -> None:
        """Let others have the directory; does nothing the second time. What a full disk did not take is not
        told."""
        is_ours = self._process == os.getpid()  # and not of a parent that forked this one
        if is_ours and not self._file.closed:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self.let_go()

    def let_go(self) -> None:
        """Be without the file; other processes that were forked meanwhile may go on having it."""
        with contextlib.suppress(OSError):  # what a full disk did not take
            self._file.close()


_held_here: WeakSet[Lock] = WeakSet()


def _let_go_in_fork() -> None:
    """A worker that outlives its killed crawl would keep the directory locked."""
    for lock in list(_held_here):
        lock.let_go()


os.register_at_fork(after_in_child=_let_go_in_fork)


def _open(directory: Path) -> IO[str]:
    path = directory / _LOCK
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # Not "a", which writes at the end wherever one stands.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        if is_full(error):
            raise FrontierUnwritable(full_disk(directory, error.strerror)) from error
        raise FrontierUnreadable(no_directory(path, error, "FRONTIER_DIR")) from error
    return open(descriptor, "r+", encoding="utf-8", errors="replace")


def no_directory(path: Path, error: OSError, setting: str) -> str:
    """The message for a file, *path*, whose directory, which *setting* names, cannot be made or used."""
    remedy = f"make the directory writable for this user, or use another {setting}"
    if isinstance(error, FileExistsError | NotADirectoryError):
        stands = "a file, or a link that leads nowhere, stands where a directory should be"
        remedy = f"{stands}; remove it, or use another {setting}"
    elif error.errno == errno.ENAMETOOLONG:
        remedy = f"set a {setting} with a shorter name"
    return f"cannot open {path} ({error.strerror}): {remedy}"


def _held(directory: Path, holder: str = "", user: str = CRAWL) -> str:
    if any(lock.is_of(directory) for lock in list(_held_here)):
        return (
            f"{directory} is open in this process already, by {user}: give each crawl a JOBDIR or "
            "FRONTIER_DIR of its own"
        )
    where = f"process {holder} ({user})" if holder else "another process"
    if holder == str(os.getpid()):  # which has not: a number of another machine, or of another container
        where = f"process {holder} of another container or machine ({user})"
    remedy = "stop that crawl first" if user == CRAWL else "wait until it has ended"
    return f"{directory} is open in {where}: {remedy}, or use another FRONTIER_DIR"


def cause_of(error: BaseException) -> str:
    """What *error*, of LevelDB or the operating system, says; the name of its class where that is nothing."""
    text = error.args[0] if error.args else ""
    return text.decode(errors="replace") if isinstance(text, bytes) else str(error) or type(error).__name__


def system_words(error: BaseException) -> str:
    """What the operating system said, as far as *error* tells it: no path, which stands before it."""
    words = error.strerror if isinstance(error, OSError) else None
    return words or cause_of(error).rpartition(": ")[2]


def is_full(error: BaseException) -> bool:
    """Whether a write failed for want of space, a quota or a limit of file sizes, by the words of *error*."""
    return any(text in str(error) for text in _FULL)


def lost(directory: Path) -> str:
    """The message for a *directory* that ``is_lost``."""
    return (
        f"{directory} was removed, moved away or replaced while it was open: nothing more is written, and "
        "what is there now is left as it is; if it was moved, move it back, then start the same crawl again"
    )


def full_disk(directory: Path, cause: str | None) -> str:
    """The message for a write to *directory* that failed because of *cause*: what to do, and what is kept."""
    return (
        f"cannot write to {directory} ({cause}): free some space or fix the disk, then start the same crawl "
        "again; nothing that was stored is lost"
    )
