"""A ranking while the crawl goes on: gaps between ticks of the event loop, and how long it takes.

Makes a frontier of --pages pages, of which so many are read that there are --links links, in a process of its
own; --dir keeps it for the next time. A copy of it is opened and ranked with the extension's own code on an
asyncio loop, on which pages are leased and released all the time, as they are for a while before and behind
it: the control. The machine's share of a gap is known from the kernel: where the loop's thread waited for
nothing, "less own" is the processor time it used, since a virtual machine may have none to give; else the
gap without the time the thread could have run and had no core, and "less all" without that of LevelDB's
threads and of the ranking's as well, for which the loop may have had to wait. At the end the frontier is
closed and opened again, after a clean stop and after a kill.

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
import resource
import shutil
import tempfile
import threading
import time
from array import array
from operator import sub
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from scrapy_frontier import compat
from scrapy_frontier.core.adjacency import Edge
from scrapy_frontier.core.frontier import Frontier, Link
from scrapy_frontier.core.leases import Outcome
from scrapy_frontier.core.lifecycle import Event
from scrapy_frontier.core.mixed import make
from scrapy_frontier.core.store import Store
from scrapy_frontier.extensions import ranking
from scrapy_frontier.upkeep import Upkeep

DEGREE = 50
LOOK = 0.02  # seconds between two looks at the memory, each 0.1 ms
PAUSE = 0.008  # seconds between two pages: some 100 a second, as many as Scrapy fetches with one core
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
        self.chance = random.Random(1)

    def visit(self):
        lease = self.frontier.lease(time.time())
        known = self.frontier.counts.next_page
        found = range(known, min(known + self.new, self.pages))
        links = [link(number, lease.page_id, self.hosts) for number in found]
        self.frontier.discover(links, time.time())
        popular = [int(known * self.chance.random() ** 3) for _ in range(DEGREE - len(found))]
        edges = [Edge(target) for target in (*found, *popular)]
        self.frontier.release(lease.id, FETCHED, time.time(), edges, lease.page_id)


def build(directory, pages, links):
    frontier = Frontier(Store(directory), time.time(), scorer=make("mixed"))
    frontier.discover([link(number, None, 10_000) for number in range(100)], time.time())
    visits = links // DEGREE
    web = Web(frontier, pages, -(-pages // visits))
    begin = time.perf_counter()
    spent = []
    for number in range(visits):
        started = time.perf_counter()
        web.visit()
        spent.append(time.perf_counter() - started)
        if (
            frontier.rescoring.is_due(time.time(), 0)
            and number % 50 == 0
            and frontier.counts.next_page < pages
        ):
            frontier.rescoring.keep_ranking({"pages": frontier.counts.next_page, "at": time.time()})
        if number % 20_000 == 0:
            snapshot = frontier.graph.snapshot()
            for packed in snapshot.repack(lambda: False):
                for _ in frontier.graph.put_in_place(packed):
                    pass
            snapshot.close()
    print(
        f"{frontier.counts.next_page} pages, {visits * DEGREE} links made in "
        f"{time.perf_counter() - begin:.0f} s, a page {np.median(spent) * 1e6:.0f} us (median)"
    )
    frontier.close()


class Clock:
    """Wall clock, processor time of the thread that made it and how often that one has waited; and the
    seconds threads could have run and had no core: that one, and all."""

    def __init__(self):
        self._own = self._open(threading.get_native_id())
        self._others = {}
        self.look_around()

    def _open(self, thread):
        return os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY)

    def look_around(self):
        """Watch all threads there are by now, LevelDB's among them."""
        for thread in (int(task.name) for task in Path("/proc/self/task").iterdir()):
            if thread != threading.get_native_id():
                self._others.setdefault(thread, [self._open(thread), 0])

    def read(self):
        before = self._waited()
        while True:
            now = time.perf_counter()
            waited = self._waited()
            if waited == before:  # else one had to wait between the two
                used = resource.getrusage(resource.RUSAGE_THREAD)
                return now, time.thread_time(), used.ru_nvcsw, waited[0] * 1e-9, sum(waited) * 1e-9
            before = waited

    def _waited(self):
        for other in self._others.values():
            with contextlib.suppress(ProcessLookupError):  # it has ended
                other[1] = int(os.pread(other[0], 64, 0).split()[1])
        own = int(os.pread(self._own, 64, 0).split()[1])
        return own, *(waited for _, waited in self._others.values())


async def live(frontier, web):
    loop = asyncio.get_running_loop()
    compat.call_later = lambda delay, *call: loop.call_later(delay, *call)
    web.pages += 10**9
    runtime = SimpleNamespace(frontier=frontier, clock=time.time, settings=SimpleNamespace(rank_interval=0))
    stats = SimpleNamespace(inc_value=print, set_value=print)
    signals = SimpleNamespace(connect=lambda *_: None)
    engine = SimpleNamespace(_slot=SimpleNamespace(closing=None))
    crawler = SimpleNamespace(signals=signals, stats=stats, spider=None, engine=engine)
    extension = ranking.RankingExtension(crawler)
    clock = Clock()
    memory = [anonymous()]

    async def crawl():
        while True:
            web.visit()
            await asyncio.sleep(PAUSE)

    async def ticks(name, until):
        gaps = array("f")  # a small array for each would keep malloc busy for 50 ms once they are freed
        looked = 0.0
        last = clock.read()
        while not until():
            if last[0] - looked > LOOK:
                looked = last[0]
                memory.append(anonymous())
            await asyncio.sleep(0)
            now = clock.read()
            gaps.extend(map(sub, now, last))
            last = now
        wall, used, waits, own, every = np.array(gaps).reshape(-1, len(last)).T * 1e3
        told = [name, len(wall)]
        for ms in (
            wall,
            np.where(waits, wall - own, used),
            np.where(waits, np.maximum(wall - every, 0), used),
        ):
            told += [np.quantile(ms, 0.99), ms.max()]
        print("{:18}{:9} ticks{:9.2f}{:8.2f}{:12.2f}{:8.2f}{:12.2f}{:8.2f}".format(*told))

    async def alone(name):
        stop = time.perf_counter() + ALONE
        await ticks(name, lambda: time.perf_counter() > stop)

    print(f"{'p99 and most, ms':33}{'gap':>9}{'':8}{'less own':>12}{'':8}{'less all':>12}")
    crawling = asyncio.create_task(crawl())
    await alone("crawl alone")
    began = time.perf_counter()
    run = extension._run = ranking._Run(frontier.graph.snapshot(), frontier.rescoring.scorer)
    clock.look_around()
    extension._work = extension._steps(run, runtime)
    extension._slice()
    await ticks("thread ranks", lambda: run.is_ranked.is_set() or extension._run is None)
    in_thread = time.perf_counter() - began
    await ticks("rows and packing", lambda: extension._run is None)
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
    frontier = Frontier(Store(directory), time.time(), scorer=make("mixed"))
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
