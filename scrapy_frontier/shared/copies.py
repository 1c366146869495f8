"""The LevelDB copies of shards on this machine: ``<FRONTIER_DIR>/shards/<shard>-<copy>``.

The lock of a copy proves that no process writes it. A copy is loaded from the journal by a process of its
own, into a directory that gets its name when it is whole.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import FrontierUnreadable, FrontierUnwritable
from ..core.store import keys
from ..core.store.leveldb import LOCK, Store
from .database import AWAY, Database
from .outbox import decompress

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from .database import Shard

LOADING = ".new"  # behind the name of a copy that is not whole
AGAIN = 75  # exit code of a process that could not load a copy because the database was away
ROWS_AT_A_TIME = 5000


class Copies:
    """The copies in *directory* of a crawl that has so many *shards*; *scheme* is its key scheme."""

    def __init__(self, directory: Path, scheme: str, shards: int) -> None:
        self.directory, self.scheme, self._shards = directory, scheme, shards

    def path(self, n: int, copy: UUID) -> Path:
        """Return the directory of a copy of shard *n*."""
        return self.directory / f"{n}-{copy}"

    def is_free(self, n: int, copy: UUID) -> bool:
        """Return whether a copy is here, whole, and no process has it open. Opens a file."""
        path = self.path(n, copy)
        return path.is_dir() and _is_free(path)

    def open(self, n: int, copy: UUID) -> Store:
        """Open a copy, or begin an empty one. Raises what `Store` does."""
        return Store(self.path(n, copy), self.scheme, part=self._shards)

    def remove(self, n: int, copy: UUID) -> None:
        """Remove a copy that may not write any more."""
        shutil.rmtree(self.path(n, copy), ignore_errors=True)

    def remove_others(self, shards: Iterable[Shard]) -> None:
        """Remove free copies that none of *shards* names, and what was left of a load that was killed."""
        named = {self.directory / f"{shard.n}-{shard.copy}" for shard in shards}
        for path in self.directory.glob("[0-9]*-*-*-*-*-*"):
            if path not in named and _is_free(path):
                shutil.rmtree(path, ignore_errors=True)

    def load(self, database: Database, n: int, copy: UUID) -> subprocess.Popen[bytes]:
        """Start a process that loads shard *n* of a crawl, whose fence has turned to *copy*.

        Its exit code is 0 once the copy has its name, `AGAIN` if the database was away.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        what = database.dsn, database.crawl, n, str(self.path(n, copy)), self.scheme
        process = subprocess.Popen(
            [sys.executable, "-m", "scrapy_frontier.shared.copies"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(what).encode())  # no password on a command line
        process.stdin.close()
        return process


def _is_free(path: Path) -> bool:
    """Return whether no process has the copy in *path* open."""
    try:
        with open(path / LOCK, "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def load(dsn: str, crawl: str, n: int, path: str, scheme: str) -> None:
    """Read the journal of shard *n* into a new database, which gets the name *path* when it is whole."""
    database, target = Database(dsn, crawl), Path(path)
    loading = target.with_name(target.name + LOADING)
    shutil.rmtree(loading, ignore_errors=True)
    store = Store(loading, scheme)
    follow(database, n, store)
    store.write({keys.CLEAN: None}, sync=True)  # hosts may have been asked since the last batch
    store.close()
    database.close()
    loading.rename(target)


def follow(database: Database, n: int, store: Store) -> bool:
    """Write into *store*, which is empty or followed shard *n* before, what the journal has since.

    False if it cannot go on from there: the journal was compacted or set back since, or the first time was
    cut short. Begin with an empty one then.
    """
    stored, sent = store.get(keys.LAST_BATCH), database.shard(n).sent
    since = upto = int.from_bytes(stored or b"", "big")
    if stored is None:
        store.write({keys.LAST_BATCH: b""})  # begun, and not yet whole
    elif not stored or since > sent:
        return False
    rows: dict[bytes, bytes | None] = {}
    for upto, part, logged in database.journal(n, since or -1):  # noqa: B007
        if part and since:
            return False
        for key, value in decompress(logged):
            rows[key] = value
            if len(rows) >= ROWS_AT_A_TIME:
                store.write(rows)
                rows.clear()
    if upto < sent:
        raise FrontierUnreadable(
            f"the journal of shard {n} of {database.crawl!r} ends at batch {upto}, not {sent}: "
            "restore the database from a backup"
        )
    rows[keys.LAST_BATCH] = upto.to_bytes(8, "big")
    store.write(rows)
    return True


if __name__ == "__main__":
    try:
        load(*json.load(sys.stdin))
    except (FrontierUnreadable, FrontierUnwritable) as error:
        sys.exit(str(error))
    except AWAY:
        sys.exit(AGAIN)
