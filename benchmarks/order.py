"""Which order reaches the important pages first: a crawl of real graphs, every page hidden until it is read.

Share of all PageRank (damping .85, of the whole graph) after a share of its pages, mean over start draws:
from one start page and from ten, drawn at random, and more of them (doubling) while less than half of the
graph can be reached from them, up to 3 % of its pages. A ranking is made when the known pages have grown by
a fifth (default order: by a tenth).

    python benchmarks/order.py [--folder FOLDER] [--draws 3] [--seed 7] [--dice 1] [--starts 1 10] [--rest N]
                               [--at 0.2] [--curve] [NAME ...]

--rest N: a host rests N pages between two of its own (graphs whose hosts are known). "ratio" is the default
order's share over the best of breadth first, OPIC cash and PageRank.
"""

from __future__ import annotations

import argparse
import heapq
import random
import time
from collections import deque

import graphs
import numpy as np
from scipy import sparse

from scrapy_frontier.core.mixed import SCORERS, Mixed, make
from scrapy_frontier.core.ranking import pagerank
from scrapy_frontier.core.scorer import Scorer, bucket, buckets

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


class Random(Scorer):
    def __init__(self):
        self._chance = np.random.default_rng(1)

    def discovered(self, node, parent=None, host=0, link_score=1.0):
        return self._chance.random()


class Queue:
    """The verbs of a frontier, in memory: best bucket first, then oldest; a host rests *rest* pages.

    An entry (-bucket, node) waits in the heap of all, or, once it was met there while its host rested, in
    the heap of its host, of which the best comes back when the host has rested.
    """

    def __init__(self, hosts, rest):
        self._hosts, self._rest, self._now = hosts, rest, 0
        self._heap, self._buckets, self._free_at, self._held, self._resting = [], {}, {}, {}, deque()

    def discover(self, node, score):
        self._buckets[node] = bucket(score)
        heapq.heappush(self._heap, (-self._buckets[node], node))

    rescore = discover

    def rescore_all(self, places):
        self._buckets = {node: places[node] for node in self._buckets}
        self._heap = [(-place, node) for node, place in self._buckets.items()]
        self._held.clear()
        heapq.heapify(self._heap)

    def lease(self):
        while self._heap or self._resting:
            if not self._heap:
                self._now = max(self._now, self._resting[0][0])
            self._wake()
            if not self._heap:
                continue
            entry = heapq.heappop(self._heap)
            if self._buckets.get(entry[1]) != -entry[0]:
                continue
            host = self._hosts[entry[1]]
            if self._rest and self._free_at.get(host, 0) > self._now:
                heapq.heappush(self._held.setdefault(host, []), entry)
                continue
            self._now += 1
            if self._rest:
                self._free_at[host] = self._now + self._rest
                self._resting.append((self._now + self._rest, host))
            return entry[1]
        return None

    def _wake(self):
        while self._resting and self._resting[0][0] <= self._now:
            held = self._held.get(self._resting.popleft()[1], [])
            while held:
                entry = heapq.heappop(held)
                if self._buckets.get(entry[1]) == -entry[0]:
                    heapq.heappush(self._heap, entry)
                    break

    def release(self, node):
        del self._buckets[node]


class Crawl:
    """One crawl of *graph* in the order of *scorer*; ids of the crawl are in order of discovery."""

    def __init__(self, graph, scorer, rest=0):
        self.graph, self.scorer = graph, scorer
        self.pages = []  # page of each node
        self.node = np.full(len(graph.indptr) - 1, -1)
        self.rows = {}
        self.hosts = []
        self.queue = Queue(self.hosts, rest if graph.hosts is not None else 0)
        self._next_ranking = 100

    def discover(self, page, parent=None):
        node = len(self.pages)
        self.node[page] = node
        self.pages.append(page)
        self.hosts.append(0 if self.graph.hosts is None else int(self.graph.hosts[page]))
        return node, self.scorer.discovered(node, parent, self.hosts[node])

    def run(self, starts, limit):
        for page in starts.tolist():
            self.queue.discover(*self.discover(page))
        order = []
        while len(order) < limit and (node := self.queue.lease()) is not None:
            order.append(self.pages[node])
            self._release(node)
            if self.scorer.needs_ranking and len(self.pages) >= self._next_ranking:
                self._next_ranking = len(self.pages) * self.scorer.growth
                self._rank()
        return np.array(order)

    def _release(self, node):
        page = self.pages[node]
        targets = self.graph.indices[self.graph.indptr[page] : self.graph.indptr[page + 1]]
        new = dict(self.discover(int(target), node) for target in targets[self.node[targets] < 0])
        row = self.node[targets]
        self.queue.release(node)
        if len(row):
            self.rows[node] = row
        new.update(self.scorer.parsed(node, row))
        for target, score in new.items():
            self.queue.rescore(target, score)

    def _rank(self):
        degrees = np.zeros(len(self.pages), np.int64)
        nodes = sorted(self.rows)
        degrees[nodes] = [len(self.rows[node]) for node in nodes]
        indptr = np.concatenate(([0], np.cumsum(degrees)))
        links = np.concatenate([np.zeros(0, np.int64), *(self.rows[node] for node in nodes)]).astype(np.int32)
        ranking = self.scorer.rank(indptr, links)
        self.scorer.adopt(self.scorer.prepare(ranking))
        self.queue.rescore_all(buckets(self.scorer.told(np.arange(len(self.pages)))).tolist())


class Oracle(Scorer):
    """True PageRank of every page, told by *crawl*."""

    def __init__(self, truth):
        self.truth, self.crawl = truth * len(truth), None

    def discovered(self, node, parent=None, host=0, link_score=1.0):
        return float(self.truth[self.crawl.pages[node]])


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
    chance = np.random.default_rng(seed)
    pages = len(graph.indptr) - 1
    for starts in numbers:
        for _ in range(count):
            for _attempt in range(40):
                drawn = chance.permutation(pages)
                if starts > 1 or reach(graph, drawn[:1]) >= 0.5:
                    break
            size = starts
            while size < pages * 0.03 and reach(graph, drawn[:size]) < 0.5:
                size *= 2
            yield starts, drawn[:size]


def crawl(graph, name, truth, starts, limit, rest, dice=0):
    scorer = Oracle(truth) if name == "oracle" else Random() if name == "random" else make(name)
    if name == "mixed":
        scorer = Mixed(random.Random(dice))
    run = Crawl(graph, scorer, rest)
    if name == "oracle":
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
    arguments.add_argument("--orders", default="fifo,cash,pagerank,mixed,lifo,random,oracle")
    arguments.add_argument("names", nargs="*")
    options = arguments.parse_args()
    orders = options.orders.split(",")
    assert all(name in SCORERS or name in ("random", "oracle") for name in orders), orders
    marks = SHARES if options.curve else (options.at,)
    print(f"{'graph':16}{'at':>5}" + "".join(f"{name:>10}" for name in orders) + "     ratio  seconds")
    ratios = []
    for name in options.names or graphs.names(options.folder):
        graph = graphs.load(name, options.folder)
        pages = len(graph.indptr) - 1
        truth = pagerank(graph.indptr, graph.indices, exact=True, tolerance=1e-9, max_iterations=1000).scores
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
