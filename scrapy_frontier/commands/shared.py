"""The command that shows which process of a shared crawl has what: shards."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from .output import Column

if TYPE_CHECKING:
    from ..shared.database import Database
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


def shards(call: Call) -> None:
    """Prints which process has which shard, what it held lately, and how far the database has it."""
    shared = call.project.shared
    if shared is None:
        raise UsageError("shards is for a crawl of several processes: set FRONTIER_SHARED")
    with shared.database.asking() as database:
        documents = _documents(database)
    call.output.line(f"{database.crawl}: {shared.state()}")
    call.output.listing(documents, dict, _COLUMNS, _cells)


def _documents(database: Database) -> list[dict[str, Any]]:
    owners, letters = database.processes(), database.letters_waiting()
    words = {process: f"{about.get('pid')} on {about.get('machine')}" for process, about in owners.items()}
    return [
        {
            "shard": shard.n,
            "batches": shard.sent,
            "bytes": sum(database.journal_size(shard.n)),
            "mail": letters.get(shard.n, 0),
            "idle": shard.idle,
            "owner": None if shard.owner is None else words.get(shard.owner),
            "copy": None if shard.copy is None else str(shard.copy),
            "totals": json.loads(shard.totals),
        }
        for shard in database.all_shards()
    ]


def _cells(shard: dict[str, Any]) -> tuple[object, ...]:
    states = shard["totals"].get("states", {})
    counts = states.get("queued", 0), states.get("done", 0), shard["batches"], shard["bytes"], shard["mail"]
    owner = shard["owner"] or ("none" if shard["copy"] is None else "none now")
    return shard["shard"], *counts, "yes" if shard["idle"] else "", owner
