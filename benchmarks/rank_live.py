"""A ranking while the crawl goes on: gaps between ticks of the event loop, and how long it takes.

Makes a frontier of --pages pages, of which so many are read that there are --links links, in a process of its
own; --dir keeps it for the next time. A copy of it is opened and ranked with the extension's own code on an
asyncio loop, on which pages are leased and released all the time, as they are for a while before and behind
it: the control. A virtual machine may stand still as a whole, and takes that for processor time: on each core
a watcher with real-time priority (root may have that) wakes every millisecond, and for as long as all of them
get no processor, nobody in this machine does. "less pauses" is without that time, and without what the loop's
thread could have run and other processes did. At the end the frontier is closed and opened again, after a
clean stop and after a kill.

    python benchmarks/rank_live.py [--pages 1000000] [--links 10000000] [--dir DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import hashlib
import multiprocessing
import os
import random
import re
import shutil
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from scrapy.settings import Settings
from scrapy.utils.misc import load_object

from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.link_rows import Edge
from scrapy_frontier.core.transitions import Event
from scrapy_frontier.crawl import scrapy_internals
from scrapy_frontier.crawl.directory import Upkeep
from scrapy_frontier.extensions import ranking
from scrapy_frontier.settings import SCORERS

DEGREE = 50
LOOK = 0.02  # seconds between two looks at the memory, each 0.1 ms
PAUSE = 0.008  # seconds between two pages: some 100 a second, as many as Scrapy fetches with one core
BIN = 1e-5  # seconds
LONG = 0.02  # seconds; a longer gap is told of
LATE = 0.003  # seconds after which a watcher that slept a third of it tells
ALONE = 5.0  # seconds of the control, before and behind
FETCHED = Outcome(Event.FETCHED, 200)


def link(number, parent, hosts):
    host = f"www.host-{number * 7919 % hosts}.example"
    url = f"https://{host}/some/path/to/a-page-{number}.html"
    return Link(hashlib.sha1(url.encode()).digest(), url, host, parent=parent)


class Web:
    """New pages and popular old ones, as long as there is something to find."""

    def __init__(self, frontier, pages, new, hosts=10_000):
        self.frontier, self.pages, self.new, self.hosts = frontier, pages, new, hosts
        self.rng = random.Random(1)

    def visit(self):
        lease = self.frontier.lease(time.time())
        known = self.frontier._batch.counts.next_page
        found = range(known, min(known + self.new, self.pages))
        links = [link(number, lease.page_id, self.hosts) for number in found]
        self.frontier.discover(links, time.time())
        popular = [int(known * self.rng.random() ** 3) for _ in range(DEGREE - len(found))]
        edges = [Edge(target) for target in (*found, *popular)]
        lease.edges.extend(edges)
        self.frontier.release(lease, FETCHED._replace(has_links=True), time.time())


def build(directory, pages, links):
    frontier = Frontier(
        Store(directory), time.time(), FrontierOptions(scorer=load_object(SCORERS["mixed"])())
    )
    frontier.discover([link(number, None, 10_000) for number in range(100)], time.time())
    visits = links // DEGREE
    web = Web(frontier, pages, -(-pages // visits))
    begin = time.perf_counter()
    spent = []
    for number in range(visits):
        started = time.perf_counter()
        web.visit()
        spent.append(time.perf_counter() - started)
        if frontier._scores.is_due() and number % 50 == 0 and frontier._batch.counts.next_page < pages:
            frontier._scores.keep_ranking({"pages": frontier._batch.counts.next_page, "at": time.time()})
        if number % 20_000 == 0:
            run = frontier.rank_now()
            for packed in run.repack(lambda: False):
                for _ in frontier._scores.put_in_place(packed):
                    pass
            run.close()
    print(
        f"{frontier._batch.counts.next_page} pages, {visits * DEGREE} links made in "
        f"{time.perf_counter() - begin:.0f} s, a page {np.median(spent) * 1e6:.0f} us (median)"
    )
    frontier.close()


class Clock:
    """Wall clock, and the seconds for which the thread that made it could have run and had no core."""

    def __init__(self):
        self._own = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)

    def read(self):
        before = self._waited()
        while True:
            now = time.perf_counter()
            waited = self._waited()
            if waited == before:  # else it had to wait between the two
                return now, waited * 1e-9
            before = waited

    def _waited(self):
        return int(os.pread(self._own, 64, 0).split()[1])


def watch(core, stalls):
    """Tell *stalls* of the times when *core* had no processor time even for what comes before all else."""
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    last = time.perf_counter()
    while True:
        time.sleep(LATE / 3)
        now = time.perf_counter()
        if now - last > LATE:
            with contextlib.suppress(BrokenPipeError):  # nobody listens any more
                stalls.send((last, now))
        last = now


class Pauses:
    """When the machine stood still: each core had a stall at the same time."""

    def __init__(self):
        context = multiprocessing.get_context("spawn")
        self._ends, self._processes = [], []
        for core in sorted(os.sched_getaffinity(0)):
            end, other = context.Pipe(duplex=False)
            process = context.Process(target=watch, args=(core, other), daemon=True)
            process.start()
            other.close()
            self._ends.append(end)
            self._processes.append(process)
        self._stalls = [[] for _ in self._ends]

    def is_watched(self):
        time.sleep(1.0)  # until they have started, or were refused
        return all(process.is_alive() for process in self._processes)

    def within(self, begin, until):
        """Seconds of a pause between two times of `time.perf_counter`."""
        pauses = [(begin, until)]
        for end, stalls in zip(self._ends, self._stalls, strict=True):
            with contextlib.suppress(EOFError):
                while end.poll():
                    stalls.append(end.recv())
            pauses = [
                (max(one, other), min(stop, last))
                for one, stop in pauses
                for other, last in stalls
                if max(one, other) < min(stop, last)
            ]
        return sum(stop - one for one, stop in pauses)


async def live(frontier, web):
    loop = asyncio.get_running_loop()
    scrapy_internals.call_later = lambda delay, *call: loop.call_later(delay, *call)
    web.pages += 10**9
    stats = SimpleNamespace(inc_value=print, set_value=print)
    signals = SimpleNamespace(connect=lambda *_: None)
    engine = SimpleNamespace(_slot=SimpleNamespace(closing=None))
    settings = Settings()
    crawler = SimpleNamespace(
        signals=signals, stats=stats, spider=None, _engine=engine, engine=engine, settings=settings
    )
    extension = ranking.RankingExtension(crawler)
    clock, pauses = Clock(), Pauses()
    memory = [anonymous()]

    async def crawl():
        while True:
            web.visit()
            await asyncio.sleep(PAUSE)

    async def ticks(name, until):
        counts = [0] * 100_000  # of gaps, by `BIN`: millions of times of their own would keep malloc busy
        large = []
        looked = 0.0
        last = clock.read()
        while not until():
            if last[0] - looked > LOOK:
                looked = last[0]
                memory.append(anonymous())
            await asyncio.sleep(0)
            now = clock.read()
            counts[min(int((now[0] - last[0]) / BIN), len(counts) - 1)] += 1
            if now[0] - last[0] > LATE:
                large.append((last, now))
            last = now
        await asyncio.sleep(3 * LATE)  # until the watchers have told
        late = [(now[0] - last[0], now[1] - last[1], pauses.within(last[0], now[0])) for last, now in large]
        most = max((gap for gap, _, _ in late), default=LATE)
        least = max((gap - waited - paused for gap, waited, paused in late), default=LATE)
        ticks, rare = sum(counts), np.searchsorted(np.cumsum(counts), 0.99 * sum(counts)) * BIN
        print(f"{name:18}{ticks:9} ticks{rare * 1e3:9.2f}{most * 1e3:9.1f}{least * 1e3:13.1f}")
        for gap, waited, paused in late:
            if gap > LONG:
                told = gap * 1e3, waited * 1e3, paused * 1e3
                print(
                    "  {:.1f} ms, of which it waited {:.1f} for a core, and {:.1f} were a pause".format(*told)
                )

    async def alone(name):
        stop = time.perf_counter() + ALONE
        await ticks(name, lambda: time.perf_counter() > stop)

    print(f"{'gaps, ms':33}{'p99':>9}{'largest':>9}{'less pauses':>13}")
    if not pauses.is_watched():
        print("no pauses known: no real-time priority for this user")
    crawling = asyncio.create_task(crawl())
    await alone("crawl alone")
    began = time.perf_counter()
    run = extension._thread = ranking.RankingThread(frontier.rank_now())
    run.start()
    extension._work = frontier.rank_steps(run.rank, run.computed(), time.time, ranking.ROWS)
    extension._spent = 0.0
    extension._slice()
    await ticks("thread ranks", lambda: run.rank.ranking is not None or extension._thread is None)
    in_thread = time.perf_counter() - began
    await ticks("rows and packing", lambda: extension._thread is None)
    print(f"ranked in the thread {in_thread:.2f} s, all {time.perf_counter() - began:.2f} s")
    await alone("crawl alone")
    crawling.cancel()
    return memory[0], max(memory), memory[-1]


def anonymous():
    """Resident anonymous memory now, in MB: without the tables that LevelDB maps."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.search(r"RssAnon:\s+(\d+)", status)[1]) / 1024


def reopened(directory):
    begin = time.perf_counter()
    frontier = Frontier(
        Store(directory), time.time(), FrontierOptions(scorer=load_object(SCORERS["mixed"])())
    )
    while frontier.lease(time.time()) is None:
        frontier.load(time.time(), 30)
    first = time.perf_counter() - begin
    steps = []
    is_loaded = False
    while not is_loaded:
        started = time.perf_counter()
        is_loaded = frontier.load(time.time(), 30)
        steps.append(time.perf_counter() - started)
    print(
        f"  first lease {first * 1e3:.0f} ms, all back after {(time.perf_counter() - begin):.2f} s, "
        f"longest step {max(steps) * 1e3:.1f} ms"
    )
    return frontier


def reopen(directory):
    reopened(directory).close()


def in_a_process_of_its_own(work, *arguments):
    """Nothing of it stays in this one's memory, and nothing here is walked by its garbage collector."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=arguments)
    process.start()
    process.join()


def copy(source, target):
    """As a kill would leave it, once LevelDB has merged its tables."""
    while True:
        try:
            shutil.copytree(source, target)
        except shutil.Error:  # noqa: PERF203 - a table went while it was copied
            shutil.rmtree(target)
            time.sleep(2)
        else:
            return


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--links", type=int, default=10_000_000)
    parser.add_argument("--dir", type=Path)
    given = parser.parse_args()
    directory = given.dir or Path(tempfile.mkdtemp(prefix="frontier-bench-"))
    made = directory / f"made-{given.pages}-{given.links}"
    if not made.exists():
        in_a_process_of_its_own(build, made, given.pages, given.links)
    place = Path(tempfile.mkdtemp(prefix="ranked-", dir=directory))
    shutil.copytree(made, place / "live")
    frontier = reopened(place / "live")
    web = Web(frontier, given.pages, -(-given.pages // (given.links // DEGREE)))
    upkeep = Upkeep(frontier._store, 5.0)  # as the runtime has it
    gc.collect()
    gc.freeze()  # as the runtime does
    memory = asyncio.run(live(frontier, web))
    print("anonymous memory: {:.0f} MB before, {:.0f} MB at most, {:.0f} MB behind".format(*memory))
    copy(place / "live", place / "killed")
    begin = time.perf_counter()
    upkeep.stop()
    frontier.close()
    print(f"close {(time.perf_counter() - begin) * 1e3:.0f} ms\nafter a clean stop:", flush=True)
    in_a_process_of_its_own(reopen, place / "live")
    print("after a kill:", flush=True)
    in_a_process_of_its_own(reopen, place / "killed")
    shutil.rmtree(place if given.dir else directory)


if __name__ == "__main__":
    main()
