"""A copy that is loaded from the journal has the rows of the original, byte for byte."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from web import NOW, Crawl, link_to, make_web

from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.shared.copies import Copies, follow, load
from scrapy_frontier.shared.database import Database, Flush
from scrapy_frontier.shared.outbox import Outbox, compress
from scrapy_frontier.shared.process import packed_rows

if TYPE_CHECKING:
    from pathlib import Path
    from uuid import UUID

OF_A_COPY = (keys.OUTBOX, keys.LAST_BATCH, keys.CLEAN)


def rows(store: Store) -> dict[bytes, bytes]:
    """All rows but those of the copy itself."""
    return {key: value for key, value in store.scan(b"") if not key.startswith(OF_A_COPY)}


def send(database: Database, n: int, copy: UUID, outbox: Outbox) -> None:
    sent = database.shard(n).sent
    batches = outbox.batches(sent, 1 << 20, 1 << 30)
    if batches:
        packed = compress(batch.rows for _, batch in batches)
        flush = Flush(n, copy, sent, batches[-1][0], idle=False, totals="{}", rows=packed)
        assert database.flush([flush]) == {n}


@pytest.mark.parametrize("shards", [1, 16])
def test_copies_divide_the_memory_of_a_process(tmp_path: Path, shards: int) -> None:
    """What one database would keep in its buffer, one of sixteen writes to tables."""
    store = Copies(tmp_path, "scheme", shards).open(0, uuid4())
    for number in range(60):
        store.write({b"p%d" % number: random.Random(number).randbytes(100_000)})
    store.close()
    assert bool(list(tmp_path.glob("*/leveldb/*.ldb"))) is (shards == 16)


@pytest.mark.parametrize("compacts", [False, True], ids=["never-compacted", "compacted-in-its-middle"])
def test_a_loaded_copy_is_the_original(dsn: str, tmp_path: Path, compacts: bool) -> None:
    """Also after rankings, which move rows, and with what came after the journal was compacted."""
    database = Database(dsn, "web")
    database.create({"shards": 2})
    process = database.join({})
    copies = [uuid4(), uuid4()]
    for n in range(2):
        assert database.take(database.shard(n), process, copies[n])
    reading = [Store(tmp_path / f"reading{n}", "scheme") for n in range(2)]
    web, carried = make_web(6, 20, 1), dict[int, int]()
    crawl = Crawl(tmp_path / "original", 2, Counter())
    crawl.shards.discover_one(link_to("http://site0.example/0", is_named=True), NOW)
    crawl.shards.commit()
    steps = 0
    while crawl.step(web) or crawl.carry_letters(carried):
        steps += 1
        if steps % 10 == 0:
            for n, (_, outbox) in crawl.shards.open.items():
                send(database, n, copies[n], outbox)
        if (run := crawl.shards.rank_due()) is not None:
            for _ in crawl.shards.rank_steps(run, run.compute(lambda: False, lambda: 0.0), lambda: 0.0):
                pass
            run.close()
        if compacts and steps == 60:
            for n, (_, outbox) in crawl.shards.open.items():
                snapshot = outbox.store.snapshot()
                upto = int.from_bytes(snapshot.get(keys.LAST_BATCH) or b"", "big")
                before = sum(database.journal_size(n))
                assert not database.compact(n, copies[n], upto + 1, packed_rows(outbox.store, snapshot))
                assert sum(database.journal_size(n)) == before
                send(database, n, copies[n], outbox)
                assert database.compact(n, copies[n], upto, packed_rows(outbox.store, snapshot))
                snapshot.close()
                if not follow(database, n, reading[n]):  # what it has may be gone
                    reading[n].close()
                    reading[n] = Store(tmp_path / f"reading{n}-anew", "scheme")
        if steps % 25 == 0:
            assert all(follow(database, n, reading[n]) for n in range(2))
    for n, (frontier, outbox) in crawl.shards.open.items():
        frontier.end_run()
        send(database, n, copies[n], outbox)
        load(dsn, "web", n, str(tmp_path / f"copy{n}"), "scheme")
        copy = Store(tmp_path / f"copy{n}", "scheme")
        assert rows(copy) == rows(outbox.store)
        assert Outbox(copy).last == database.shard(n).sent
        copy.close()
        assert follow(database, n, reading[n])
        assert rows(reading[n]) == rows(outbox.store)
        reading[n].close()
    assert bool(list(tmp_path.glob("*-anew"))) is compacts
    crawl.kill()
    database.close()
