"""What the frontier itself costs as it grows: no Scrapy, no network.

    python benchmarks/frontier.py [--pages 1000000] [--hosts 10000] [--even] [--dir DIR]
    python benchmarks/frontier.py --pages 10000000 --hosts 100000           # half an hour
    python benchmarks/frontier.py --pages 1000000 --hosts 1000000 --even    # a page each

Discovers pages in batches of six, as a page's new links come, leases and releases a few at each size, and
at the end opens the frontier again: after a clean stop, and from the files that a kill would leave. Few hosts
have most of the pages, or, ``--even``, all have as many. Discovery is told by the processor's time, LevelDB's
own threads included; leases and releases by the clock, in the middle. "urljoin" is what the standard library
takes to put a URL together in the same minutes, and "page" all that a page costs, over that: a processor that
others use too is slower for both, so that sizes and runs can be compared.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import random
import resource
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from scrapy_frontier.core.frontier import Frontier, Link
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.transitions import Event

if TYPE_CHECKING:
    from collections.abc import Iterator

PAYLOAD = b'{"callback":"parse_page","headers":{"Referer":"https://www.example.com/"},"meta":{"depth":3}}'
SAMPLE = 500  # pages leased and released at each size
OFTEN = 100  # batches between two measures of the processor
FIRST = 330  # hand-outs after the frontier was opened again
AT_ONCE = 5  # hosts that a step of loading brings


def links(hosts: int, is_even: bool) -> Iterator[Link]:
    rng = random.Random(1)
    number = 0
    while True:
        which = number % hosts if is_even else min(int(hosts ** rng.random()), hosts - 1)
        host = f"www.host-{which}.example"
        url = f"https://{host}/some/path/to/a-page-{number}.html"
        number += 1
        fingerprint = hashlib.sha1(url.encode()).digest()
        yield Link(fingerprint, url, host, rng.randrange(10), PAYLOAD)


def start(directory: Path) -> Frontier:
    return Frontier(Store(directory), time.time())


def reference() -> float:
    """Microseconds to put a URL together that no cache knows, in the middle."""
    times = []
    for number in range(5):
        begin = time.perf_counter()
        urljoin(f"https://www.example.com/{begin}/page-{number}.html", "../other.html")
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def visit(frontier: Frontier, count: int) -> tuple[float, float, float]:
    """Lease and release *count* pages; the median of each in microseconds, and of the reference beside it."""
    leases, releases, references = [], [], []
    for _ in range(count):
        begin = time.perf_counter()
        lease = frontier.lease(time.time())
        middle = time.perf_counter()
        assert lease is not None
        frontier.release(lease, Outcome(Event.FETCHED, 200), time.time())
        leases.append((middle - begin) * 1e6)
        releases.append((time.perf_counter() - middle) * 1e6)
        references.append(reference())
    return statistics.median(leases), statistics.median(releases), statistics.median(references)


def reopened(directory: Path, what: str) -> None:
    """Tell what it takes from nothing to the first lease, and each of those that come while hosts are loaded
    beside them, as a crawl does it between two hand-outs."""
    begin = time.perf_counter()
    frontier = start(directory)
    while (lease := frontier.lease(time.time())) is None:
        frontier.load(time.time(), AT_ONCE)
    first = time.perf_counter() - begin
    leases, steps = [], []
    for _ in range(FIRST):
        frontier.release(lease, Outcome(Event.FETCHED, 200), time.time())
        middle = time.perf_counter()
        if not frontier.is_loaded:
            frontier.load(time.time(), AT_ONCE)
            steps.append(time.perf_counter() - middle)
        middle = time.perf_counter()
        found = frontier.lease(time.time())
        leases.append(time.perf_counter() - middle)
        if found is None:
            break
        lease = found
    print(
        f"first lease after {what} {first * 1e3:.0f} ms; the next {len(leases)} {told(leases)} us; "
        f"beside them {len(steps)} steps of loading {told(steps)} us"
    )
    frontier.close()


def told(seconds: list[float]) -> str:
    """Microseconds: the middle one, nine in ten, and the longest."""
    times = sorted(each * 1e6 for each in seconds) or [0.0]
    return (
        f"{statistics.median(times):.0f} (90 % within {times[len(times) * 9 // 10]:.0f}, all {times[-1]:.0f})"
    )


def size_of(directory: Path) -> int:
    """Bytes of a frontier on the disk."""
    return sum(file.stat().st_size for file in (directory / "leveldb").iterdir())


def copy(directory: Path, to: Path) -> None:
    """Copy an open frontier, when LevelDB takes no file away meanwhile."""
    for _ in range(100):
        try:
            shutil.copytree(directory, to)
        except shutil.Error:  # noqa: PERF203 - that is the point
            shutil.rmtree(to)
            time.sleep(1)
        else:
            return


def resident() -> tuple[float, ...]:
    """MB of this process that are in memory now, and how many of them are its own: the others are pages of
    LevelDB's files, which the system takes back when somebody needs the memory."""
    pages, shared = map(int, Path("/proc/self/statm").read_text(encoding="utf-8").split()[1:3])
    return tuple(each * resource.getpagesize() / 2**20 for each in (pages, pages - shared))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--even", action="store_true")
    parser.add_argument("--dir", type=Path)
    given = parser.parse_args()
    directory = given.dir or Path(tempfile.mkdtemp(prefix="frontier-bench-"))
    frontier = start(directory)
    source = links(given.hosts, given.even)
    print(
        "   pages  discover us  lease us  release us  urljoin us  page  "
        "resident MB  own MB  peak MB  disk B/page"
    )
    done, size = 0, 10_000
    while done < given.pages:
        size = min(size, given.pages)
        spent, references = 0.0, []
        for number in range((size - done) // 6 + 1):
            batch = [next(source) for _ in range(6)]
            begin = time.process_time()
            frontier.discover(batch, time.time())
            frontier.commit()
            spent += time.process_time() - begin
            if number % OFTEN == 0:
                references.append(reference())
        discover = spent / (size - done) * 1e6
        urljoin_us = statistics.fmean(references)
        lease, release, beside = visit(frontier, SAMPLE)
        page = discover / urljoin_us + (lease + release) / beside
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        disk, (in_memory, own) = size_of(directory) / size, resident()
        print(
            f"{size:8} {discover:12.1f} {lease:9.1f} {release:11.1f} {urljoin_us:6.1f} {beside:4.1f} "
            f"{page:5.1f} {in_memory:12.0f} {own:7.0f} {peak:8.0f} {disk:12.0f}",
            flush=True,
        )
        done, size = size, size * 10
    killed = Path(f"{directory}-killed")
    copy(directory, killed)
    begin = time.perf_counter()
    frontier.close()
    print(f"close {(time.perf_counter() - begin) * 1e3:.0f} ms, {size_of(directory) / done:.0f} B/page")
    del frontier
    gc.collect()  # a process of its own would not have it
    reopened(directory, "a clean stop")
    reopened(killed, "a kill")
    shutil.rmtree(killed)
    if given.dir is None:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
