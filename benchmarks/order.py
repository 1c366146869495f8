"""Which order reaches the important pages first: a crawl of real graphs, every page hidden until it is read.

The crawl is the real frontier with the real scorer, in a store of its own. Printed is the share of all
PageRank (damping .85, of the whole graph) after a share of its pages, mean over start draws: from one start
page and from ten, drawn at random, and more of them (doubling) while less than half of the graph can be
reached from them, up to 3 % of its pages. A ranking is made when the known pages have grown by a fifth
(default order: by a tenth).

    python benchmarks/order.py [--folder FOLDER] [--draws 3] [--seed 7] [--dice 1] [--starts 1 10] [--rest N]
                               [--at 0.2] [--curve] [NAME ...]

--rest N: a host rests N pages between two of its own (graphs whose hosts are known). "ratio" is the default
order's share over the best of breadth first, OPIC cash and PageRank. Besides the scorers there are "random",
"oracle" (best first by the true PageRank) and "told" (the default, which is told it at each ranking).
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from contextlib import closing
from pathlib import Path

import graphs
import numpy as np
from scipy import sparse
from scrapy.utils.misc import load_object

from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link
from scrapy_frontier.core.hosts.host import Politeness
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.ranking.default_scorer import Mixed
from scrapy_frontier.core.ranking.pagerank import Ranking, pagerank
from scrapy_frontier.core.ranking.scorer import Scorer
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.link_rows import Edge
from scrapy_frontier.core.transitions import Event
from scrapy_frontier.settings import SCORERS

SHM = Path("/dev/shm")  # nobody measures the disk here
FETCHED = Outcome(Event.FETCHED, 200)
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


class Random(Scorer):
    def __init__(self):
        self._rng = np.random.default_rng(1)

    def discovered(self, node, parent=None, host="", link_score=1.0):
        return self._rng.random()


class Crawl:
    """One crawl of *graph* by the frontier in the order of *scorer*, a page a second of virtual time."""

    def __init__(self, graph, scorer, rest=0):
        self.graph, self.scorer = graph, scorer
        self.pages = []  # page of each node
        self.node = np.full(len(graph.indptr) - 1, -1)
        self.hosts = [""] * len(self.node)
        if graph.hosts is not None:
            self.hosts = [f"h{number}" for number in graph.hosts.tolist()]
        self.directory = Path(tempfile.mkdtemp(prefix="order-", dir=SHM if SHM.is_dir() else None))
        politeness = Politeness(float(rest), 1) if rest and graph.hosts is not None else Politeness(0.0, 1)
        store = Store(self.directory)
        self.frontier = Frontier(store, 0.0, FrontierOptions(default_politeness=politeness, scorer=scorer))

    def _discover(self, pages, parent=None):
        new = [page for page in pages if self.node[page] < 0]
        for page in new:
            self.node[page] = len(self.pages)
            self.pages.append(page)
        links = [Link(page.to_bytes(20, "big"), str(page), self.hosts[page], parent=parent) for page in new]
        self.frontier.discover(links, self.now)

    def run(self, starts, limit):
        order, self.now = [], 1.0
        self._discover(starts.tolist())
        while len(order) < limit:
            lease = self.frontier.lease(self.now)
            if lease is None:
                wake = self.frontier.wake_at()
                if wake is None:
                    break
                self.now = max(wake, self.now)
                continue
            self.now += 1
            order.append(self.pages[lease.page_id])
            targets = self.graph.indices[slice(*self.graph.indptr[order[-1] : order[-1] + 2])]
            self._discover(targets.tolist(), lease.page_id)
            lease.edges.extend(map(Edge, self.node[targets].tolist()))
            self.frontier.release(lease, FETCHED._replace(has_links=True), self.now)
            if self.frontier._scores.is_due():
                self._rank()
        self.frontier.close()
        shutil.rmtree(self.directory)
        return np.array(order)

    def _rank(self):
        with closing(self.frontier.rank_now()) as run:
            computed = run.compute(bool, time.perf_counter)
            for _ in self.frontier.rank_steps(run, computed, lambda: self.now, 2000):
                pass


class Oracle(Scorer):
    """True PageRank of every page, told by *crawl*."""

    def __init__(self, truth):
        self.truth, self.crawl = truth * len(truth), None

    def discovered(self, node, parent=None, host="", link_score=1.0):
        return float(self.truth[self.crawl.pages[node]])


class Told(Mixed):
    """The default order, told the true PageRank of every page it knows at each ranking by *crawl*."""

    def __init__(self, truth, rng):
        super().__init__(rng)
        self.truth, self.crawl = truth, None

    def rank(self, indptr, indices, weights=None, **_):
        scores = self.truth[self.crawl.pages[: len(indptr) - 1]]
        return Ranking(scores / scores.sum(), 0, 0.0, converged=True)


OTHERS = {  # from true PageRank and dice
    "oracle": lambda truth, _: Oracle(truth),
    "told": Told,
    "random": lambda *_: Random(),
    "mixed": lambda _, rng: Mixed(rng),
}


def reach(graph, starts):
    pages = len(graph.indptr) - 1
    ones = np.ones(len(graph.indices), np.int32)
    into = sparse.csr_array((ones, graph.indices, graph.indptr), shape=(pages, pages)).T.tocsr()
    seen = np.zeros(pages, bool)
    seen[starts] = True
    while True:
        wider = seen | (into @ seen.astype(np.int32) > 0)
        if wider.sum() == seen.sum():
            return seen.mean()
        seen = wider


def draws(graph, count, seed=7, numbers=(1, 10)):
    rng = np.random.default_rng(seed)
    pages = len(graph.indptr) - 1
    for starts in numbers:
        for _ in range(count):
            for _attempt in range(40):
                drawn = rng.permutation(pages)
                if starts > 1 or reach(graph, drawn[:1]) >= 0.5:
                    break
            size = starts
            while size < pages * 0.03 and reach(graph, drawn[:size]) < 0.5:
                size *= 2
            yield starts, drawn[:size]


def crawl(graph, name, truth, starts, limit, rest, dice=0):
    scorer = OTHERS[name](truth, random.Random(dice)) if name in OTHERS else load_object(SCORERS[name])()
    run = Crawl(graph, scorer, rest)
    scorer.crawl = run
    return run.run(starts, limit)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--folder", default=graphs.FOLDER)
    arguments.add_argument("--draws", type=int, default=3)
    arguments.add_argument("--seed", type=int, default=7, help="of the draws")
    arguments.add_argument("--starts", type=int, nargs="+", default=(1, 10))
    arguments.add_argument("--dice", type=int, default=1, help="crawls a draw that differ in their chance")
    arguments.add_argument("--rest", type=int, default=0)
    arguments.add_argument("--at", type=float, default=0.2)
    arguments.add_argument(
        "--curve", action="store_true", help="all shares of pages, for each number of starts"
    )
    arguments.add_argument("--orders", default="fifo,cash,pagerank,mixed,random,oracle")
    arguments.add_argument("names", nargs="*")
    options = arguments.parse_args()
    orders = options.orders.split(",")
    assert all(name in SCORERS or name in OTHERS for name in orders), orders
    marks = SHARES if options.curve else (options.at,)
    print(f"{'graph':16}{'at':>5}" + "".join(f"{name:>10}" for name in orders) + "     ratio  seconds")
    ratios = []
    for name in options.names or graphs.names(options.folder):
        graph = graphs.load(name, options.folder)
        pages = len(graph.indptr) - 1
        truth = pagerank(graph.indptr, graph.indices, tolerance=1e-9, max_iterations=1000).scores
        found = {}
        seconds = dict.fromkeys(orders, 0.0)
        for starts, drawn in draws(graph, options.draws, options.seed, options.starts):
            for order in orders:
                for dice in range(options.dice if order == "mixed" else 1):
                    began = time.perf_counter()
                    limit = int(max(marks) * pages) + 1
                    visited = crawl(graph, order, truth, drawn, limit, options.rest, dice)
                    seconds[order] += time.perf_counter() - began
                    total = np.cumsum(truth[visited])
                    key = starts if options.curve else 0
                    found.setdefault(key, {}).setdefault(order, []).append(
                        [total[min(len(total), max(1, round(mark * pages))) - 1] for mark in marks]
                    )
        crawls = len(options.starts) * options.draws * options.dice
        for starts, by_order in found.items():
            means = {order: np.mean(values, axis=0) for order, values in by_order.items()}
            for at, mark in enumerate(marks):
                row = {order: mean[at] for order, mean in means.items()}
                rivals = [row[order] for order in ("fifo", "cash", "pagerank") if order in row]
                ratio = row["mixed"] / max(rivals) if rivals and "mixed" in row else np.nan
                if mark == options.at:
                    ratios.append(ratio)
                label = f"{name} {starts}" if starts else name
                print(
                    f"{label:16}{mark:5.2f}"
                    + "".join(f"{row[order]:10.3f}" for order in orders)
                    + f"{ratio:10.3f}{seconds.get('mixed', 0) / crawls:9.1f}",
                    flush=True,
                )
    print(f"ratio at {options.at}: mean {np.mean(ratios):.3f}, least {np.min(ratios):.3f}")


if __name__ == "__main__":
    main()
