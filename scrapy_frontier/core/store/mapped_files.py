"""LevelDB's files held, so that it can delete them in no time."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

_NO_ACCESS = 0
_FAILED = ctypes.c_void_p(-1).value
_libc = ctypes.CDLL(None)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


class MappedFiles:
    """A hold on each table and log of the LevelDB database in *directory*.

    LevelDB 1.22, which comes with plyvel, deletes files while it holds the lock that all reads and writes
    take, and the file system may need 0.4 ms a megabyte to free one (ext4): after tables were merged the
    crawl would stand still for 30 ms. A file still in use is freed when it is let go of; so `look` is to be
    called a few times a second while files come and go, in a thread of its own. A context manager: it lets go
    of all at the end.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: dict[str, int] = {}  # addresses

    def __len__(self) -> int:
        return len(self._held)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._hold(set())

    def look(self) -> bool:
        """Let go of what was deleted, and hold what is new, whether there was anything; 0.1 ms for a hundred
        files, and 20 us a new one.

        Raises `OSError` where the directory cannot be read.
        """
        names = os.listdir(self._directory)  # noqa: PTH208 - hundreds, several times a second
        wanted = {name for name in names if name.endswith((".ldb", ".log"))}
        has_changed = wanted != self._held.keys()
        self._hold(wanted)
        return has_changed

    def _hold(self, names: set[str]) -> None:
        for name in self._held.keys() - names:
            _libc.munmap(self._held.pop(name), mmap.PAGESIZE)
        for name in names - self._held.keys():
            with contextlib.suppress(OSError):  # it is gone already
                address = _map(self._directory / name)
                if address != _FAILED:
                    self._held[name] = address


def _map(path: Path) -> int:
    """The address of a page that *path* is mapped to: that keeps it in use without a descriptor, which
    `mmap.mmap` would keep."""
    with path.open("rb", buffering=0) as file:
        address: int = _libc.mmap(None, mmap.PAGESIZE, _NO_ACCESS, mmap.MAP_PRIVATE, file.fileno(), 0)
    return address
