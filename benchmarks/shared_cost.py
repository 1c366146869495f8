"""What a shared crawl costs a page, and how long a shard takes to load: without a network.

    python benchmarks/shared_cost.py page [--pages 6000]
    python benchmarks/shared_cost.py loading [--urls 1000000]

``page``: a crawl in which each page has seven new links, 100 pages a second, once in one frontier, once in
sixteen shards with a real PostgreSQL, whose journals are compacted from 60 KB on; and one page a second. The
two crawls run at the same time, so that both meet the same machine; their costs count from when all shards
are open. Memory is compared when both have filled their buffers.
``loading``: the rows of a store that is made are put into a journal; they are loaded, then once more by a
crawl, whose loop is watched meanwhile. The exit code is 0 where all is within the bounds that are printed.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import made
import psycopg
from shared import (
    LEASE,
    SHARDS,
    Crawl,
    Postgres,
    longest_turn,
    run,
    scheme_of,
    server_seconds,
    shards_of,
    show,
)

from scrapy_frontier.core.frontier import Event, Frontier, FrontierOptions, Lease, Link, Outcome
from scrapy_frontier.core.ranking.default_scorer import Mixed
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.shared import process as shared_process
from scrapy_frontier.shared.copies import Copies
from scrapy_frontier.shared.database import Database
from scrapy_frontier.shared.letters import PostedLink, Ranks, unpack
from scrapy_frontier.shared.outbox import Outbox
from scrapy_frontier.shared.process import Process, packed_rows
from scrapy_frontier.shared.scorer import ShardScorer
from scrapy_frontier.shared.shards import Open, Shards

FULL = 16_000  # pages after which the write buffers of LevelDB are full, in one frontier as in many shards
UNDER_WAY = 16  # requests, of a crawl that has pages left: Scrapy's CONCURRENT_REQUESTS
FAST = 400.0  # pages a second, at most
RANK_LOOK = (
    5  # pages between two looks at whether a ranking is due, as a crawl of 100 pages a second has them
)

# -- what a page costs -----------------------------------------------------------------------------------


def _link_to(url: str) -> Link:
    host = url.split("/")[2]
    return Link(hashlib.sha1(url.encode()).digest(), url, host, text=url, payload=b'{"callback":"parse"}')


class Growing:
    """A crawl without Scrapy, of pages with seven new links each, a fifth of them to other sites."""

    def __init__(self, directory: Path, dsn: str | None) -> None:
        self.now, self.urls, self.pages = 1_700_000_000.0, 0, 0
        self.under_way: deque[Lease] = deque()
        self.shards = Shards(SHARDS if dsn else 1, lambda host: host)
        self.process: Process | None = None
        if dsn is None:
            store = Store(directory, "scheme")
            frontier = Frontier(
                store, self.now, FrontierOptions(scorer=Mixed(), max_uncommitted_pages=UNDER_WAY)
            )
            self.shards.add(0, Open(frontier, Outbox(store)))
        else:
            copies = Copies(directory, "scheme", SHARDS)
            self.process = Process(Database(dsn, "cost"), copies, time.monotonic, LEASE, 60.0)
            self.process.join_crawl({"shards": SHARDS, "key scheme": "scheme"})
            while len(self.shards.open) < SHARDS:
                self._gain(*self.process.gained.get())

    def _gain(self, n: int, outbox: Outbox) -> None:
        options = FrontierOptions(
            before_commit=outbox.add_to,
            on_commit=outbox.was_written,
            scorer=ShardScorer(),
            part=SHARDS,
            max_uncommitted_pages=max(UNDER_WAY // SHARDS, 1),
        )
        self.shards.add(n, Open(Frontier(outbox.store, self.now, options), outbox))
        outbox.is_open = True

    def link(self, site: int) -> Link:
        self.urls += 1
        return _link_to(f"http://site{site % 400}.example/some/path/to/a-page-{self.urls}.html")

    def run(self, pages: int, rate: float) -> None:
        """Fetch *pages*, at most so many a second."""
        rng, begin = random.Random(1), time.monotonic()
        for site in range(0 if self.urls else 400):
            self.shards.discover_one(self.link(site), self.now)
        for number in range(pages):
            time.sleep(max(begin + number / rate - time.monotonic(), 0))
            self.take_mail()
            self.now += 1 / rate
            lease = self.shards.lease(self.now)
            if lease is not None:
                self.under_way.append(lease)
            if len(self.under_way) == UNDER_WAY:
                self.end(self.under_way.popleft(), rng)
            if number % RANK_LOOK == 0 and (ranking := self.shards.rank_due()) is not None:
                clock = time.perf_counter
                for _ in self.shards.rank_steps(ranking, ranking.compute(lambda: False, clock), clock):
                    pass
                ranking.close()
        while self.under_way:
            self.end(self.under_way.popleft(), rng)
        self.shards.commit()

    def end(self, lease: Lease, rng: random.Random) -> None:
        """End a page with seven links, a fifth of them to other sites."""
        site = int(lease.page.url.split("/")[2].partition(".")[0][4:])
        found = [self.link(site if rng.random() < 0.8 else rng.randrange(400)) for _ in range(7)]
        self.shards.discover(found, self.now, lease)
        self.shards.release(lease, Outcome(Event.FETCHED, 200, has_links=True), self.now)
        self.pages += 1

    def take_mail(self) -> None:
        touched = set()
        while self.process is not None and not self.process.letters.empty():
            letter = self.process.letters.get()
            content = unpack(letter.rows)
            if isinstance(content, Ranks):
                self.shards.take_ranks(letter.to_shard, content)
            elif isinstance(content, PostedLink):
                link = _link_to(content.url)
                link.paid = content.paid
                self.shards.discover_one(link, self.now)
            self.shards.open[letter.to_shard].outbox.took(letter.id)
            touched.add(letter.to_shard)
        for n in touched:
            self.shards.open[n].frontier.commit(is_needed=True)

    def settle(self) -> None:
        """Wait until all is sent, and no letter is on its way."""
        process, quiet = self.process, 0
        while process is not None and quiet < 30:
            self.take_mail()
            waiting = [process.held[n].sent < box.last for n, (_, box) in self.shards.open.items()]
            quiet = 0 if any(waiting) else quiet + 1
            time.sleep(0.1)


def _grow(directory: Path, dsn: str | None, pages: int, rate: float, parent: Any) -> None:
    shared_process.LEAST_JOURNAL = 60_000
    growing = Growing(directory, dsn)
    parent.send(None)
    parent.recv()
    begin = time.process_time()
    growing.run(pages, rate)
    growing.settle()
    parent.send({"cpu": time.process_time() - begin, "pages": growing.pages, "urls": growing.urls})
    parent.recv()
    growing.run(FULL - pages, FAST)
    growing.settle()
    status = Path("/proc/self/status").read_text().split()
    parent.send(int(status[status.index("VmRSS:") + 1]) / 1024)
    os._exit(0)


def _begin(directory: Path, dsn: str | None, pages: int, rate: float) -> tuple[Any, Any]:
    """Start a process that grows a crawl, and wait until its shards are open."""
    here, there = multiprocessing.Pipe()
    # Not forked: libraries that this process has loaded would count only where they are touched.
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_grow, args=(directory, dsn, pages, rate, there))
    process.start()
    here.recv()
    return process, here


def _costs(crawls: list[tuple[Any, Any]], postgres: Postgres) -> tuple[list[Any], float, int, float]:
    """Let the crawls grow; returns what each tells, seconds of the server, bytes of WAL, and seconds."""
    spent, wal, begin = server_seconds(postgres), _wal(postgres), time.monotonic()
    for _, child in crawls:
        child.send(None)
    told = [child.recv() for _, child in crawls]
    return told, server_seconds(postgres) - spent, _wal(postgres) - wal, time.monotonic() - begin


def cost(options: argparse.Namespace, postgres: Postgres, work: Path) -> bool:
    dsn, pages = postgres.new_database("shared"), options.pages
    # Before the others, whose rows the server cleans up for minutes.
    slow = _begin(work / "slow", postgres.new_database("slow"), 30, 1.0)
    _, when_slow, _, seconds = _costs([slow], postgres)
    slow[0].kill()
    # A process that sleeps in between pays more for each page, so neither runs as fast as it can.
    crawls = [_begin(work / "alone", None, pages, 100.0), _begin(work / "shared", dsn, pages, 100.0)]
    (alone, shared), server, wal, _ = _costs(crawls, postgres)
    with psycopg.connect(dsn) as connection:
        query = (
            "select sum(length(rows)), count(*) filter (where part > 0), "
            "pg_total_relation_size('frontier_journal') from frontier_journal"
        )
        journal, compacted, disk = connection.execute(query).fetchone() or (0, 0, 0)
    for _, child in crawls:
        child.send(None)
    memory_alone, memory = (child.recv() for _, child in crawls)
    for process, _ in crawls:
        process.kill()
        process.join()
    urls, alone_cpu = shared["urls"], 1e6 * alone["cpu"] / alone["pages"]
    crawler, of_server = 1e6 * shared["cpu"] / shared["pages"] - alone_cpu, 1e6 * server / shared["pages"]
    per_second = 1000 * when_slow / seconds
    show(
        {
            "pages, URLs": f"{shared['pages']}, {urls}; alone {alone['pages']}, {alone['urls']}",
            "crawler alone": f"{alone_cpu:.0f} us a page",
            "crawler, for sharing": f"{crawler:.0f} us a page (at most 300)",
            "server": f"{of_server:.0f} us a page (at most 60)",
            "journal": f"{journal / urls:.0f} bytes a URL (at most 300), {disk / urls:.0f} on disk; "
            f"{compacted} pieces of compacted journals",
            "WAL": f"{wal / shared['pages']:.0f} bytes a page",
            "at one page a second": f"{per_second:.1f} ms of server a second (at most 3)",
            f"RSS after {FULL} pages": f"{memory:.0f} MB with {SHARDS} shards, {memory_alone:.0f} alone "
            "(at most 20 more)",
        }
    )
    is_small = journal / urls <= 300 and memory <= memory_alone + 20
    return crawler <= 300 and of_server <= 60 and per_second <= 3 and is_small


def _wal(postgres: Postgres) -> int:
    with psycopg.connect(postgres.dsn("postgres")) as connection:
        row = connection.execute("select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')").fetchone()
    return int(row[0]) if row else 0


def loading(options: argparse.Namespace, postgres: Postgres, work: Path) -> bool:
    """One shard of so many URLs: a crawl that fetched nothing, with another's rows put into its journal."""
    dsn, site = postgres.new_database("loading"), {"netloc": "127.0.0.1:9", "seeds": ["/"]}
    settings = {"FRONTIER_SHARDS": 1, "RETRY_ENABLED": False, "DOWNLOAD_DELAY": 30, "CONCURRENT_REQUESTS": 1}
    crawl = Crawl(work, [site], FRONTIER_SHARED=dsn, ROBOTSTXT_OBEY=False, **settings)
    crawl.start(work / "first")
    assert crawl.wait(120), crawl.troubles()
    made.build(made.Made(options.urls), work / "made", scheme_of(dsn, "sites"))
    store, database = Store(work / "made", scheme_of(dsn, "sites")), Database(dsn, "sites")
    shard, snapshot, begin = database.shard(0), store.snapshot(), time.process_time()
    assert shard.copy is not None
    assert database.compact(0, shard.copy, shard.sent, packed_rows(store, snapshot))
    compacting = time.process_time() - begin
    snapshot.close()
    store.close()
    size = sum(database.journal_size(0))
    database.close()
    begin, before = time.monotonic(), os.times()
    code = subprocess.run(
        [sys.executable, "-c", LOAD, dsn, str(work / "copy"), scheme_of(dsn, "sites")]
    ).returncode
    wall, cpu = time.monotonic() - begin, sum(os.times()[2:4]) - sum(before[2:4])
    begin = time.monotonic()
    number = crawl.start(work / "second")
    log = work / f"{number}.log"
    pid, opened = crawl.running[number].pid, 0.0
    while not opened and time.monotonic() - begin < 120:
        if any(work.glob("second/shards/0-*[!w]")):
            opened = time.monotonic() - begin
        time.sleep(0.1)
    time.sleep(8)  # the crawl opens it
    owned = shards_of(dsn, pid)
    crawl.send(number, signal.SIGINT)
    crawl.wait(60)
    longest = max(each["longest"] for each in crawl.told())
    show(
        {
            "URLs": options.urls,
            "journal": f"{size / options.urls:.0f} bytes a URL, {compacting:.1f} s of processor to compact",
            "loading": f"{wall:.1f} s, {cpu:.1f} s of processor (at most 15)",
            "in a crawl": f"{opened:.1f} s from its start, 12 of them for the last owner to come back",
            "longest turn of its loop": longest_turn(crawl.told()),
            "errors": [line for line in log.read_text().splitlines() if "ERROR" in line][:3],
        }
    )
    return not code and wall <= 15 and longest <= 0.05 and owned == [0]


LOAD = (
    "import sys; from scrapy_frontier.shared.copies import load; a = sys.argv; load(a[1], 'sites', 0, *a[2:])"
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    pages, urls = parts.add_parser("page"), parts.add_parser("loading")
    pages.add_argument("--pages", type=int, default=6_000)
    urls.add_argument("--urls", type=int, default=1_000_000)
    for part in (pages, urls):
        part.add_argument("--keep", help="work there, and leave it")
    options = parser.parse_args()
    run({"page": cost, "loading": loading}[options.part], options)


if __name__ == "__main__":
    main()
