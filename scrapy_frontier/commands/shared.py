"""The command that shows which process of a shared crawl has what: shards."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from scrapy.exceptions import UsageError

from .output import Column

if TYPE_CHECKING:
    from uuid import UUID

    from ..shared.database import Database, Shard
    from .call import Call

_COLUMNS = [
    Column("shard", 5, is_number=True),
    Column("queued", 9, is_number=True),
    Column("done", 9, is_number=True),
    Column("batches", 9, is_number=True),
    Column("bytes", 12, is_number=True),
    Column("mail", 6, is_number=True),
    Column("idle", 4),
    Column("owner", 0),
]


class _Row(NamedTuple):
    """A shard, with the bytes of its journal, the letters that wait for it, and its owner in words."""

    shard: Shard
    size: int
    letters: int
    owner: str

    def document(self) -> dict[str, object]:
        shard = self.shard
        return {
            "shard": shard.n,
            "batches": shard.sent,
            "bytes": self.size,
            "mail": self.letters,
            "idle": shard.idle,
            "owner": self.owner or None,
            "copy": None if shard.copy is None else str(shard.copy),
            "totals": json.loads(shard.totals),
        }

    def cells(self) -> tuple[object, ...]:
        shard, owner = self.shard, self.owner or ("none" if self.shard.copy is None else "none now")
        states = json.loads(shard.totals).get("states", {})
        counts = states.get("queued", 0), states.get("done", 0), shard.sent, self.size, self.letters
        return shard.n, *counts, "yes" if shard.idle else "", owner


def shards(call: Call) -> None:
    """Prints which process has which shard, what it held lately, and how far the database has it."""
    shared = call.project.shared
    if shared is None:
        raise UsageError("shards is for a crawl of several processes: set FRONTIER_SHARED")
    with shared.asking() as database:
        rows = _rows(database)
    call.output.line(f"{database.crawl}: {shared.state()}")
    call.output.listing(rows, _Row.document, _COLUMNS, _Row.cells)


def _rows(database: Database) -> list[_Row]:
    processes, letters = database.processes(), database.letters_waiting()
    owners: dict[UUID | None, str] = {
        process: f"{about.get('pid')} on {about.get('machine')}" for process, about in processes.items()
    }
    return [
        _Row(shard, sum(database.journal_size(shard.n)), letters.get(shard.n, 0), owners.get(shard.owner, ""))
        for shard in database.all_shards()
    ]
