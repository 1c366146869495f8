"""How much of the important pages shards reach first, of what one frontier reaches: crawls of real graphs.

    python benchmarks/shared_order.py [--folder FOLDER] [--shards 8] [--draws 2] [--late 32] [--at .2] [NAME]

Each shard is a real frontier with its default scorer; every page is hidden until it is read. "processes":
each shard in a process of its own, all at the same rate. "one process": all shards behind `Shards`, which
chooses. Letters come --late pages late. Printed is the share of all PageRank after a share of the pages, by
one frontier, and what the shards reach of it, mean over start draws as in ``order.py``. Graphs without hosts
get some: blocks of 100 pages, as their pages are sorted by URL.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

import graphs
import numpy as np
import order

from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link
from scrapy_frontier.core.hosts.host import Politeness
from scrapy_frontier.core.ranking.default_scorer import Mixed
from scrapy_frontier.core.ranking.pagerank import pagerank
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.shared.letters import Ranks, unpack
from scrapy_frontier.shared.outbox import Outbox
from scrapy_frontier.shared.scorer import ShardScorer
from scrapy_frontier.shared.shards import Open, Shards

WITH_HOSTS = ["california", "cs-stanford", "polblogs", "sites-mid"]
BLOCK = 100


class SharedCrawl:
    """A crawl of *graph* by *shards*, spread over as many processes, or in one."""

    def __init__(self, graph, shards, processes, late, dice):
        self.graph, self.late, self.now = graph, late, 1.0
        self.hosts = [f"h{number}" for number in graph.hosts.tolist()]
        self.directory = Path(
            tempfile.mkdtemp(prefix="order-", dir=order.SHM if order.SHM.is_dir() else None)
        )
        self.processes = [Shards(shards, str) for _ in range(processes)]
        self.carried = Counter()
        for n in range(shards):
            store = Store(self.directory / str(n))
            outbox = Outbox(store)
            options = FrontierOptions(
                default_politeness=Politeness(0.0, 1),
                scorer=ShardScorer(random.Random(dice + n)),
                before_commit=outbox.add_to,
                on_commit=outbox.was_written,
                part=shards,
            )
            self.of(n).add(n, Open(Frontier(store, 0.0, options), outbox))

        for shards in self.processes:
            while not shards.load(0.0):
                pass

    def of(self, n):
        return self.processes[n % len(self.processes)]

    def link(self, page, is_named=False):
        name = page.to_bytes(20, "big")
        host = self.hosts[page]
        return Link(name, str(page), host, payload=b"p", is_named=is_named)

    def run(self, starts, limit):
        read = []
        for page in starts.tolist():
            shards = self.of(self.processes[0].shard_of(self.hosts[page]))
            shards.discover_one(self.link(page, is_named=True), self.now)
        while len(read) < limit:
            before = len(read)
            for shards in self.processes:
                self.now += 1
                lease = shards.lease(self.now)
                if lease is not None:
                    read.append(int(lease.page.url))
                    self.read(shards, lease, read[-1])
                if len(read) % self.late == 0:
                    self.carry()
            if len(read) == before and not self.carry():
                break
        for shards in self.processes:
            for frontier, outbox in shards.open.values():
                frontier.abort()
                outbox.store.close()
        shutil.rmtree(self.directory)
        return np.array(read)

    def read(self, shards, lease, page):
        targets = self.graph.indices[slice(*self.graph.indptr[page : page + 2])]
        shards.discover([self.link(target) for target in targets.tolist()], self.now, lease)
        shards.release(lease, order.FETCHED._replace(has_links=True), self.now)
        run = shards.rank_due()
        if run is not None:
            for _ in shards.rank_steps(run, run.compute(bool, time.perf_counter), lambda: self.now, 2000):
                pass
            run.close()

    def carry(self):
        count = 0
        for shards in self.processes:
            shards.commit()
            for n, (_, outbox) in shards.open.items():
                for number, packed in outbox.batches(self.carried[n], 1 << 30, 1 << 30):
                    self.carried[n] = number
                    for to, letter in packed.mail:
                        content = unpack(letter)
                        if isinstance(content, Ranks):
                            self.of(to).take_ranks(to, content)
                        else:
                            link = self.link(int(content.url))
                            link.paid = content.paid
                            self.of(to).discover_one(link, self.now)
                        count += 1
                outbox.drop(self.carried[n])
        return count


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--folder", default=graphs.FOLDER)
    arguments.add_argument("--shards", type=int, default=8)
    arguments.add_argument("--draws", type=int, default=2)
    arguments.add_argument("--late", type=int, default=32)
    arguments.add_argument("--at", type=float, default=0.2)
    arguments.add_argument("names", nargs="*", default=WITH_HOSTS)
    options = arguments.parse_args()
    print(f"{'graph':16}{'one':>8}{'processes':>11}{'one process':>13}  seconds")
    ratios = []
    for name in options.names:
        graph = graphs.load(name, options.folder)
        pages = len(graph.indptr) - 1
        if graph.hosts is None:
            graph = graph._replace(hosts=np.arange(pages) // BLOCK)
        truth = pagerank(graph.indptr, graph.indices, tolerance=1e-9, max_iterations=1000).scores
        limit = int(options.at * pages) + 1
        found, began = [], time.perf_counter()
        for draw, (_, starts) in enumerate(order.draws(graph, options.draws)):
            crawls = [order.Crawl(graph, Mixed(random.Random(draw)))]
            crawls += [
                SharedCrawl(graph, options.shards, processes, options.late, draw)
                for processes in (options.shards, 1)
            ]
            found.append([truth[crawl.run(starts, limit)[:limit]].sum() for crawl in crawls])
        one, apart, together = np.mean(found, axis=0)
        ratios.append((apart / one, together / one))
        seconds = time.perf_counter() - began
        print(f"{name:16}{one:8.3f}{apart / one:11.3f}{together / one:13.3f}{seconds:9.0f}", flush=True)
    for words, values in (("mean", np.mean(ratios, axis=0)), ("least", np.min(ratios, axis=0))):
        print(f"{words:24}{values[0]:11.3f}{values[1]:13.3f}")


if __name__ == "__main__":
    main()
