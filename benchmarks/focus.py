"""How soon a crawl finds the pages that its spider likes: real pages, no HTTP, topics by text.

The crawl is the real frontier in a store of its own, a page a second of virtual time; a page scores 1 if its
text is about the topic, else 0, told when it is read. Printed is the share of the relevant pages found after
2, 5 and 10 % of the pages that can be reached, as a part of what an oracle finds, which knows all pages and
links and goes to the nearest unread relevant one. Draw 0 starts from all front pages, the others from one
random page of each site.

    python benchmarks/focus.py FILE [--orders told,untold,fifo,best,mean] [--draws 3] [--rest N]
                               [--numbers] [--judge MISSED WRONG] [--scale LOW HIGH] [--most PART] [--sites N]
                               [TOPIC ...]

FILE is made by ``real_pages.py``. "told" is the default order with scores, "untold" without, "best" and
"mean" are best first by the best, or the mean, of the pages that link. --numbers: URLs say nothing. --rest:
a host rests so many pages between two of its own. --judge: parts of the good that are missed, and of the
others that are taken for good. --most: a page is about a topic if it speaks of it as often as makes that at
most this part of the pages, whatever number ``real_pages.py`` says. --sites: each draw starts from the front
pages of so many random sites.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections import deque
from contextlib import closing
from functools import cached_property
from pathlib import Path

import numpy as np
from real_pages import MISSING, PAGE, REDIRECT, TOPICS, load

from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link
from scrapy_frontier.core.hosts.host import Politeness
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.ranking.default_scorer import Mixed
from scrapy_frontier.core.ranking.other_scorers import Cash
from scrapy_frontier.core.ranking.scorer import Scorer
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.transitions import Event

SHM = Path("/dev/shm")
SHARES = (0.02, 0.05, 0.1)
CHOSEN_ON = list(TOPICS)[:10]


class BestFirst(Scorer):
    """Best first by the scores of the linking pages: the best of them, or their mean."""

    def __init__(self, by_mean):
        self.by_mean, self.sums, self.counts, self.best = by_mean, {}, {}, {}
        self.content = {}

    def discovered(self, node, parent=None, host="", link_score=1.0):
        return 1.0 if parent is None else 0.1

    def content_scored(self, node, content_score):
        self.content[node] = content_score

    def parsed(self, node, outlinks, weights=None):
        score = self.content.get(node, 0.0) + 0.01
        for target in outlinks:
            self.sums[target] = self.sums.get(target, 0.0) + score
            self.counts[target] = self.counts.get(target, 0) + 1
            self.best[target] = max(self.best.get(target, 0.0), score)
        if self.by_mean:
            return [(target, self.sums[target] / self.counts[target]) for target in outlinks]
        return [(target, self.best[target]) for target in outlinks]


ORDERS = {
    "told": lambda dice: Mixed(random.Random(dice)),
    "untold": lambda dice: Mixed(random.Random(dice)),
    "fifo": lambda _: None,
    "cash": lambda _: Cash(),
    "best": lambda _: BestFirst(by_mean=False),
    "mean": lambda _: BestFirst(by_mean=True),
}


class Web:
    """The pages, what links them, and which are relevant to a topic."""

    def __init__(self, path, numbers=False):
        self.pages = load(path)
        size = self.size = len(self.pages.urls)
        counts = np.bincount(self.pages.sources, minlength=size)
        self.indptr = np.concatenate(([0], np.cumsum(counts))).tolist()
        order = np.argsort(self.pages.sources, kind="stable")
        self.targets = self.pages.targets[order].tolist()
        self.anchors = self.pages.anchors[order].tolist()
        self.urls = self.pages.urls
        self.hosts = [url.split("/")[2] for url in self.urls]
        if numbers:
            drawn = np.random.default_rng(3).permutation(size).tolist()
            self.urls = [f"http://{host}/{number}" for host, number in zip(self.hosts, drawn, strict=True)]

    def links(self, page):
        return self.targets[self.indptr[page] : self.indptr[page + 1]]

    def starts(self, draw, sites=0):
        if sites:
            seeds = self.pages.seeds
            drawn = np.random.default_rng(draw).permutation(np.unique(self.pages.site))[:sites]
            return seeds[np.isin(self.pages.site[seeds], drawn)].tolist()
        if draw == 0:
            return self.pages.seeds.tolist()
        dice, readable = np.random.default_rng(draw), np.flatnonzero(self.pages.kind == PAGE)
        sites = self.pages.site[readable]
        return [int(dice.choice(readable[sites == site])) for site in np.unique(sites)]

    def reached(self, starts):
        seen = np.zeros(self.size, bool)
        seen[starts] = True
        todo = deque(starts)
        while todo:
            for target in self.links(todo.popleft()):
                if not seen[target]:
                    seen[target] = True
                    todo.append(target)
        return seen

    def oracle(self, relevant, starts, limit):  # noqa: C901 - one search
        """How many relevant pages are found after so many pages: [0, 0, 1, ...]."""
        far = self.size
        distance, before = [far] * self.size, [-1] * self.size
        at_distance = [[] for _ in range(64)]

        def relax(page):
            todo = deque([page])
            while todo:
                source = todo.popleft()
                steps = distance[source] + 1
                for target in self.links(source):
                    if distance[target] > steps:
                        distance[target], before[target] = steps, source
                        todo.append(target)
                        if relevant[target] and steps < len(at_distance):
                            at_distance[steps].append(target)

        for start in starts:
            distance[start] = 1
            if relevant[start]:
                at_distance[1].append(start)
        for start in starts:
            relax(start)
        found, curve = 0, [0]
        while len(curve) <= limit:
            page = -1
            for steps, those in enumerate(at_distance):
                while those and page < 0:
                    candidate = those.pop()
                    if distance[candidate] == steps:
                        page = candidate
                if page >= 0:
                    break
            if page < 0:
                break
            path = []
            while page >= 0 and distance[page] > 0:
                path.append(page)
                page = before[page]
            for page in reversed(path):
                distance[page] = 0
                found += relevant[page]
                curve.append(found)
                relax(page)
        return curve


class Crawl:
    """One crawl of *web* by the frontier with *scorer*; ``curve`` counts the relevant pages it has found."""

    def __init__(self, web, scorer, relevant, score_of, rest=0):
        self.web, self.relevant, self.score_of = web, relevant, score_of
        self.node, self.pages = [-1] * web.size, []
        self.directory = Path(tempfile.mkdtemp(prefix="focus-", dir=SHM if SHM.is_dir() else None))
        politeness = Politeness(float(rest), 1)
        self.store = Store(self.directory)
        options = FrontierOptions(default_politeness=politeness, scorer=scorer)
        self.frontier = Frontier(self.store, 0.0, options)
        self.now, self.curve = 1.0, [0]

    def discover(self, targets, anchors=None, lease=None):
        links = []
        for place, page in enumerate(targets):
            if self.node[page] >= 0 and lease is not None:
                lease.edges.append((self.node[page], 0, 1.0))
                continue
            anchor = "" if anchors is None else self.web.pages.texts[anchors[place]]
            url, host = self.web.urls[page], self.web.hosts[page]
            links.append(Link(page.to_bytes(20, "big"), url, host, anchor=anchor))
            self.node[page] = len(self.pages)
            self.pages.append(page)
        self.frontier.discover(links, self.now, lease)

    def run(self, starts, limit):
        self.discover(starts)
        while len(self.curve) <= limit:
            lease = self.frontier.lease(self.now)
            if lease is None:
                wake = self.frontier.wake_at()
                if wake is None:
                    break
                self.now = max(wake, self.now)
                continue
            self.now += 1
            page = self.pages[lease.page_id]
            self.curve.append(self.curve[-1] + bool(self.relevant[page]))
            begin, end = self.web.indptr[page : page + 2]
            self.discover(self.web.targets[begin:end], self.web.anchors[begin:end], lease)
            self.frontier.release(lease, self.outcome(page), self.now)
            if self.frontier._scores.is_due():
                self.rank()
        self.frontier.close()
        self.store.close()
        shutil.rmtree(self.directory)
        return self.curve

    def outcome(self, page):
        kind = self.web.pages.kind[page]
        if kind == MISSING:
            return Outcome(Event.GONE, 404, has_links=True)
        if kind == REDIRECT:
            target = self.node[self.web.links(page)[0]] if self.web.links(page) else None
            return Outcome(Event.REDIRECTED, 301, target=target, has_links=True)
        return Outcome(Event.FETCHED, 200, has_links=True, content_score=self.score_of(page))

    def rank(self):
        with closing(self.frontier.rank_now()) as run:
            computed = run.compute(bool, time.perf_counter)
            for _ in self.frontier.rank_steps(run, computed, lambda: self.now, 2000):
                pass


class Judge:
    """What the spider says of a page: *low* or *high*, and wrong now and then."""

    def __init__(self, relevant, low, high, missed, wrong):
        self.relevant, self.low, self.high = relevant, low, high
        self.missed, self.wrong = missed, wrong

    @cached_property
    def says(self):
        dice = np.random.default_rng(5).random(len(self.relevant))
        return np.where(self.relevant, dice >= self.missed, dice < self.wrong)

    def __call__(self, page):
        return self.high if self.says[page] else self.low


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("file", type=Path)
    arguments.add_argument("--orders", default="told,untold,fifo,best,mean")
    arguments.add_argument("--draws", type=int, default=3)
    arguments.add_argument("--rest", type=int, default=0)
    arguments.add_argument("--numbers", action="store_true")
    arguments.add_argument("--judge", type=float, nargs=2, default=(0.0, 0.0), metavar=("MISSED", "WRONG"))
    arguments.add_argument("--scale", type=float, nargs=2, default=(0.0, 1.0), metavar=("LOW", "HIGH"))
    arguments.add_argument("--most", type=float, default=0.0)
    arguments.add_argument("--sites", type=int, default=0)
    arguments.add_argument("topics", nargs="*")
    options = arguments.parse_intermixed_args()
    web = Web(options.file, options.numbers)
    found = {order: [] for order in options.orders.split(",")}
    for topic in options.topics or CHOSEN_ON:
        for draw in range(options.draws):
            starts = web.starts(draw, options.sites)
            reached = web.reached(starts)
            relevant = web.pages.relevant(topic, options.most) & reached
            marks = [int(share * reached.sum()) for share in SHARES]
            best = web.oracle(relevant.tolist(), starts, marks[-1])
            for order, rows in found.items():
                judge = Judge(relevant, *options.scale, *options.judge)
                score_of = judge if order in ("told", "cash", "best", "mean") else lambda _: None
                began = time.process_time()
                crawl = Crawl(web, ORDERS[order](draw), relevant.tolist(), score_of, options.rest)
                curve = crawl.run(starts, marks[-1])
                parts = [curve[min(m, len(curve) - 1)] / max(best[min(m, len(best) - 1)], 1) for m in marks]
                rows.append(parts)
                print(
                    f"{topic:20}{draw:2}{relevant.sum():6} {order:8}"
                    + "".join(f"{part:7.3f}" for part in parts)
                    + f"{time.process_time() - began:7.1f} s",
                    flush=True,
                )
    for order, rows in found.items():
        parts = np.array(rows).reshape(-1, options.draws, len(SHARES)).mean(axis=1)
        print(f"{order:8} mean" + "".join(f"{part:7.3f}" for part in parts.mean(axis=0)), end="")
        print(f"   worst topic at {SHARES[-1]:.0%}: {parts[:, -1].min():.3f}")


if __name__ == "__main__":
    main()
