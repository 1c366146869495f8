"""What content scores cost: processor time of a new link and of a page without links.

Two frontiers stand beside each other in one process, one with scores and one without, and take turns, so that
what else the machine does meets both. Each knows 61,000 pages of 200 hosts at the end. Links have random
weights: both read pages in an order other than that of discovery, as a crawl does that ranks.

    python benchmarks/focus_cost.py [--rounds 3]
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link
from scrapy_frontier.core.hosts.host import Politeness
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.ranking.default_scorer import Mixed
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.transitions import Event

SHM = Path("/dev/shm")
PAGES = 61_000
TURNS = 60
WORDS = ("red", "blue", "tea", "iron", "book", "list", "page", "user", "data", "time", "zone", "file")


class Crawl:
    """One crawl; `grow` and `shrink` return microseconds of processor a new link, and a page."""

    def __init__(self, with_scores):
        self.with_scores = with_scores
        self.directory = Path(tempfile.mkdtemp(prefix="cost-", dir=SHM if SHM.is_dir() else None))
        self.store = Store(self.directory)
        options = FrontierOptions(default_politeness=Politeness(0.0, 1), scorer=Mixed(random.Random(1)))
        self.frontier = Frontier(self.store, 0.0, options)
        if with_scores:
            self.frontier.begin_focus()
        dice = random.Random(3)
        self.links = [self.link(number, dice) for number in range(PAGES)]
        self.now = 1.0
        self.known = 1000
        self.frontier.discover(self.links[: self.known], self.now)

    def link(self, number, dice):
        host, one, two = f"h{number % 200}.example", dice.choice(WORDS), dice.choice(WORDS)
        url = f"http://{host}/{one}/{two}-{number}.html"
        weight = dice.random() * 4 + 0.1
        return Link(number.to_bytes(20, "big"), url, host, anchor=f"{one} {two}", weight=weight)

    def read(self, links):
        lease = self.frontier.lease(self.now)
        self.now += 1
        self.frontier.discover(links, self.now, lease)
        score = float("tea" in lease.page.url) if self.with_scores else None
        outcome = Outcome(Event.FETCHED, 200, has_links=True, content_score=score)
        self.frontier.release(lease, outcome, self.now)

    def grow(self):
        began = time.process_time()
        for _ in range(20):
            self.read(self.links[self.known : self.known + 50])
            self.known += 50
        return (time.process_time() - began) / 1000 * 1e6

    def shrink(self):
        began = time.process_time()
        for _ in range(200):
            self.read([])
        return (time.process_time() - began) / 200 * 1e6

    def close(self):
        self.frontier.close()
        self.store.close()
        shutil.rmtree(self.directory)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=3)
    rounds = arguments.parse_args().rounds
    pairs = {"new link": [], "page": []}
    for _ in range(rounds):
        told, untold = Crawl(with_scores=True), Crawl(with_scores=False)
        for name, verb in (("new link", Crawl.grow), ("page", Crawl.shrink)):
            for turn in range(TURNS):
                first, second = (told, untold) if turn % 2 else (untold, told)
                spent = {first: verb(first), second: verb(second)}
                pairs[name].append((spent[told], spent[untold]))
        told.close()
        untold.close()
    for name, spent in pairs.items():
        with_scores, without = (statistics.median(side) for side in zip(*spent, strict=True))
        more = statistics.median(one - other for one, other in spent)
        print(f"a {name}: {with_scores:.1f} us with scores, {without:.1f} without; by pairs {more:.1f} more")


if __name__ == "__main__":
    main()
