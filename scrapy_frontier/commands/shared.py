"""The command that looks at a crawl of several processes: shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy.exceptions import UsageError

from .output import Column

if TYPE_CHECKING:
    from uuid import UUID

    from ..shared.database import Database, Shard
    from .call import Call

_COLUMNS = [
    Column("shard", 5, is_number=True),
    Column("batches", 9, is_number=True),
    Column("bytes", 13, is_number=True),
    Column("mail", 7, is_number=True),
    Column("idle", 4),
    Column("owner", 40),
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
        }

    def cells(self) -> tuple[object, ...]:
        shard, owner = self.shard, self.owner or ("none" if self.shard.copy is None else "none now")
        return shard.n, shard.sent, self.size, self.letters, "yes" if shard.idle else "", owner


def shards(call: Call) -> None:
    """Prints which process has which shard, and how far the database has it."""
    settings = call.project.frontier_settings
    if settings.shared is None:
        raise UsageError("shards is for a crawl of several processes: set FRONTIER_SHARED")
    import psycopg

    from ..shared.database import Database, SharedCrawlError

    try:
        database = Database(settings.shared, settings.crawl or "")
        database.crawl = _crawl_of(call, database)
        rows = _rows(database)
        run, seeded, ended = database.run_of()
    except psycopg.Error as error:
        words = f"cannot read the database of the shared crawl ({str(error).strip()}): check FRONTIER_SHARED"
        raise SharedCrawlError(words) from error
    finally:
        database.close()
    state = "has ended" if ended else "goes on" if seeded else "has not all its seeds yet"
    call.output.line(f"{database.crawl}: run {run} {state}")
    call.output.listing(rows, _Row.document, _COLUMNS, _Row.cells)


def _crawl_of(call: Call, database: Database) -> str:
    """Returns the name of the crawl: that of the settings, of the spider, or of the only one there is."""
    name = database.crawl or (call.project.spider.name if call.options.spider else "")
    crawls = database.crawls()
    if not name and len(crawls) == 1:
        return crawls[0]
    if name not in crawls:
        there = ", ".join(crawls) or "none"
        raise UsageError(
            f"which shared crawl? Write --spider NAME, or set FRONTIER_CRAWL; there are: {there}"
        )
    return name


def _rows(database: Database) -> list[_Row]:
    processes, letters = database.processes(), database.letters_waiting()
    owners: dict[UUID | None, str] = {
        process: f"{about.get('pid')} on {about.get('machine')}" for process, about in processes.items()
    }
    return [
        _Row(shard, sum(database.journal_size(shard.n)), letters.get(shard.n, 0), owners.get(shard.owner, ""))
        for shard in database.all_shards()
    ]
