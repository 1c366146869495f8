"""A ranking while the crawl goes on: gaps between ticks of the event loop, and how long it takes.

Makes a frontier of --pages pages, of which so many are read that there are --links links, then ranks it with
the extension's own code on an asyncio loop, on which pages are leased and released all the time. At the end
the frontier is closed and opened again, after a clean stop and after a kill.

    python benchmarks/rank_live.py [--pages 1000000] [--links 10000000] [--dir DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import hashlib
import random
import resource
import shutil
import tempfile
import time
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

DEGREE = 50
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
    return frontier, web


async def live(frontier, web):
    loop = asyncio.get_running_loop()
    compat.call_later = lambda delay, *call: loop.call_later(delay, *call)
    web.pages += 10**9
    runtime = SimpleNamespace(frontier=frontier, clock=time.time, settings=SimpleNamespace(rank_interval=0))
    stats = SimpleNamespace(inc_value=print, set_value=print)
    signals = SimpleNamespace(connect=lambda *_: None)
    extension = ranking.RankingExtension(SimpleNamespace(signals=signals, stats=stats, spider=None))
    gaps = {"idle": [], "ranking": []}

    async def crawl():
        while True:
            web.visit()
            await asyncio.sleep(0.002)

    async def tick(phase, until):
        last = time.perf_counter()
        while not until():
            await asyncio.sleep(0)
            now = time.perf_counter()
            gaps[phase].append(now - last)
            last = now

    crawling = asyncio.create_task(crawl())
    stop_idle = time.perf_counter() + 3
    await tick("idle", lambda: time.perf_counter() > stop_idle)
    began = time.perf_counter()
    run = extension._run = ranking._Run(frontier.graph.snapshot(), frontier.rescoring.scorer)
    extension._work = extension._steps(run, runtime)
    extension._slice()
    while extension._run is not None and not run.is_ranked.is_set():
        await tick("ranking", lambda: run.is_ranked.is_set() or extension._run is None)
    in_thread = time.perf_counter() - began
    in_thread_gaps = len(gaps["ranking"])
    await tick("ranking", lambda: extension._run is None)
    crawling.cancel()
    for name, found in (
        ("crawl alone", gaps["idle"]),
        ("thread", gaps["ranking"][:in_thread_gaps]),
        ("rows and packing", gaps["ranking"][in_thread_gaps:]),
    ):
        ms = np.sort(np.array(found)) * 1e3
        p99 = ms[int(len(ms) * 0.99)]
        print(f"{name:18} gaps ms: p50 {ms[len(ms) // 2]:.3f} p99 {p99:.2f} largest {ms[-1]:.2f}")
    print(f"ranked in the thread {in_thread:.2f} s, all {time.perf_counter() - began:.2f} s")


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
    frontier, web = build(directory / "live", given.pages, given.links)
    gc.collect()
    gc.freeze()
    asyncio.run(live(frontier, web))
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    copy(directory / "live", directory / "killed")
    begin = time.perf_counter()
    frontier.close()
    print(f"close {(time.perf_counter() - begin) * 1e3:.0f} ms\nafter a clean stop:")
    reopened(directory / "live").close()
    print("after a kill:")
    reopened(directory / "killed").close()
    if given.dir is None:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
