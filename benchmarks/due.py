"""What it costs to find what is due: many pages that are not, and the same few that are.

    python benchmarks/due.py [PAGES ...]

For each number of pages a store is made of them, all done, 10,000 due and the others not; a crawl then opens
it, and hands out all that is due. Told are its processor time and how much its memory has grown, of a process
of its own, from the open store on. 10,000 pages: 139 us each, 6 MB; a million: 159 us each, 3 MB.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time

from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.revisits.plans import RevisitRule
from scrapy_frontier.core.revisits.policy import Fetched
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.transitions import Event

NOW, DAY = 1_700_000_000.0, 86400.0
DUE, HOSTS = 10_000, 1000
RULE = RevisitRule()


def make(directory: str, pages: int) -> None:
    frontier = Frontier(Store(directory), NOW - 8 * DAY, FrontierOptions(revisits=RULE))
    done = Outcome(Event.FETCHED, 200, fetched=Fetched(b'"1234567890"', b"", b"diges", "text/html", 10_000))
    step = max(pages // DUE, 1)
    for first in range(0, pages, 1000):
        links = []
        for number in range(first, min(first + 1000, pages)):
            host = f"h{number % HOSTS}.example"
            links.append(Link(number.to_bytes(20, "big"), f"http://{host}/{number}", host))
        frontier.discover(links, NOW)
        while (lease := frontier.lease(NOW)) is not None:
            is_due = int(lease.page.url.rpartition("/")[2]) % step == 0
            frontier.release(lease, done, NOW - 8 * DAY if is_due else NOW)
    frontier.close()


def find(directory: str) -> None:
    frontier = Frontier(Store(directory), NOW, FrontierOptions(revisits=RULE))
    while not frontier.load(NOW):
        pass
    memory, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    done, found = Outcome(Event.FETCHED, 304), 0
    while (lease := frontier.lease(NOW)) is not None or frontier.is_refilling:
        if lease is not None:
            found += 1
            frontier.release(lease, done, NOW)
    seconds = time.process_time() - begin
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    print(f"{found:,} due, {seconds:.2f} s, {seconds / max(found, 1) * 1e6:.0f} us each, {grown:.1f} MB more")
    frontier.close()


def main() -> None:
    if sys.argv[1:2] == ["find"]:
        find(sys.argv[2])
        return
    for pages in map(int, sys.argv[1:] or ["10000", "1000000"]):
        with tempfile.TemporaryDirectory() as directory:
            make(directory, pages)
            print(f"{pages:,} pages: ", end="", flush=True)
            subprocess.run([sys.executable, __file__, "find", directory], check=True)


if __name__ == "__main__":
    main()
