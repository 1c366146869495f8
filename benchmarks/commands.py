"""What `scrapy frontier` costs on a large crawl: seconds and peak memory of every command.

Builds a store (half of the pages read, best first; 500 pages a host, made-up URLs) from a real graph, through
the frontier, or with `--pages` from a made one of any size (`made.py`). Then runs each command in a process
of its own, as a user does. Also: text fits 80 columns, `| head -1` and Ctrl-C end without a traceback.

    python benchmarks/commands.py [--folder FOLDER] [--graph cnr-2000] [--read 0.5] [--keep DIR] [COMMAND ...]
    python benchmarks/commands.py --pages 10000000 [--store DIR] [--keep DIR] [COMMAND ...]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import graphs
import made
import numpy as np
from scrapy import Request
from scrapy.utils.misc import load_object
from scrapy.utils.request import RequestFingerprinter

import scrapy_frontier
from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.link_rows import INTERNAL, Edge
from scrapy_frontier.core.transitions import Event
from scrapy_frontier.crawl import fingerprints
from scrapy_frontier.settings import SCORERS

PAGES_OF_A_HOST = 500
FETCHED = Outcome(Event.FETCHED, 200)


def host(page):
    return f"h{page // PAGES_OF_A_HOST}.example"


def url(page):
    return f"http://{host(page)}/p{page}"


def scheme():
    kind = RequestFingerprinter
    return fingerprints.key_scheme(kind().fingerprint, f"{kind.__module__}.{kind.__qualname__}")


def build(graph, directory, share):
    """Crawl *share* of the pages of *graph* into *directory*, a page a second of virtual time."""
    fingerprint = RequestFingerprinter().fingerprint
    frontier = Frontier(
        Store(directory, scheme()), 0.0, FrontierOptions(scorer=load_object(SCORERS["mixed"])())
    )
    pages, node = [], np.full(len(graph.indptr) - 1, -1)

    def discover(found, parent, now):
        new = [page for page in found if node[page] < 0]
        node[new] = range(len(pages), len(pages) + len(new))
        pages.extend(new)
        for first in range(0, len(new), 100):
            some = new[first : first + 100]
            frontier.discover(
                [
                    Link(fingerprint(Request(url(page))), url(page), host(page), parent=parent)
                    for page in some
                ],
                now,
            )

    discover(graphs.discovery_order(graph)[:10].tolist(), None, 1.0)
    now = 1.0
    while now < share * len(node) and (lease := frontier.lease(now)) is not None:
        now += 1
        page = pages[lease.page_id]
        targets = graph.indices[slice(*graph.indptr[page : page + 2])]
        discover(targets.tolist(), lease.page_id, now)
        edges = [
            Edge(target, INTERNAL if host(pages[target]) == host(page) else 0)
            for target in node[targets].tolist()
        ]
        lease.edges.extend(edges)
        frontier.release(lease, FETCHED._replace(has_links=True), now)
    hub = pages[int(np.argmax(np.bincount(graph.indices, minlength=len(node))[pages]))]
    frontier.close()
    store = Store(directory)
    frontier = Frontier(store, now, FrontierOptions(scorer=load_object(SCORERS["mixed"])()))
    while not frontier.load(now):
        pass
    run = frontier.rank_now()
    for _ in frontier.rank_steps(run, run.compute(bool, time.perf_counter), lambda: now):
        pass
    run.close()
    store._db.compact_range(start=b"", stop=b"\xff")  # without a stop it does nothing
    store.close()
    return url(hub), url(pages[-1]), len(pages)


def commands(work, hub, last):
    """Names and arguments; *hub* and *last* are the URLs of a page that many link to and of a queued one."""
    host = urlsplit(hub).hostname
    yield "stats", ["stats"]
    yield "hosts", ["hosts"]
    yield "queue", ["queue"]
    yield "find", ["find", f"{re.escape(urlsplit(last).path)}$"]
    yield "why (done)", ["why", hub]
    yield "why (queued)", ["why", last]
    yield "links --out", ["links", hub, "--out"]
    yield "links --in", ["links", hub, "--in", "--limit", "20"]
    for by in ("score", "cash", "pagerank", "authority", "hub"):
        yield f"top --by {by}", ["top", "--by", by]
    yield "top --host", ["top", "--by", "pagerank", "--host", host]
    yield "links --graph FILE", ["links", "--graph", str(work / "web.graphml")]
    yield "check", ["check"]
    yield "export", ["export", str(work / "x.gz")]
    yield "import", ["import", str(work / "x.gz")]
    yield "requeue --state done --host", ["requeue", "--state", "done", "--host", host]
    yield "forget URL", ["forget", last]
    yield "forget --host", ["forget", "--host", host]


ENTRY = "[scrapy.commands]\nfrontier = scrapy_frontier.commands:Command\n"


def environment(work):
    """Where a child finds the command, installed or not."""
    about = work / "entry" / "frontier_entry-0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: frontier-entry\nVersion: 0\n")
    (about / "entry_points.txt").write_text(
        "[scrapy.commands]\nfrontier = scrapy_frontier.commands:Command\n"
    )
    paths = [about.parent, Path(scrapy_frontier.__file__).parents[1]]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}


def line(arguments, directory):
    return [sys.executable, "-m", "scrapy", "frontier", *arguments, "--dir", str(directory)]


# A process of its own in between: what a child reports as its peak begins with that of the process it left.
# The system keeps no peak of anonymous memory (that is, without the files that are mapped), so we look often.
WATCH = """
import os, sys, time
began = time.perf_counter()
child = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
anonymous = ended = 0
while not ended:
    try:
        with open(f"/proc/{child}/status") as file:
            now = [int(line.split()[1]) for line in file if line.startswith("RssAnon")]
            anonymous = max([anonymous, *now])
    except OSError:  # no Linux, or the child is gone
        pass
    time.sleep(0.01)
    ended, status, usage = os.wait4(child, os.WNOHANG)
seconds = time.perf_counter() - began
with open(sys.argv[1], "w") as file:
    print(seconds, usage.ru_maxrss / 1e3, anonymous / 1e3, os.waitstatus_to_exitcode(status), file=file)
"""


def run(arguments, directory, out):
    """Seconds, peak MB, peak MB of anonymous memory, exit code and what was said on standard error; standard
    output goes to *out*."""
    figures = out.with_name("figures")
    command = [sys.executable, "-S", "-c", WATCH, str(figures), *line(arguments, directory)]
    with out.open("wb") as file:
        said = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, check=True).stderr
    seconds, peak, anonymous, code = figures.read_text().split()
    return float(seconds), float(peak), float(anonymous), int(code), said.decode()


def widest(file):
    with file.open(encoding="utf-8") as lines:
        return max((len(each.rstrip("\n")) for each in lines), default=0)


def check_ends(directory, arguments):
    """What is wrong with how a command ends at `| head -1` and Ctrl-C."""
    wrong = []
    for name, stop in (("head", None), ("Ctrl-C", signal.SIGINT)):
        with subprocess.Popen(
            line(arguments, directory), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            process.stdout.readline()
            if stop is not None:
                process.send_signal(stop)
            process.stdout.close()
            said = process.stderr.read().decode()
        if "Traceback" in said or process.returncode not in ((0,) if stop is None else (0, 130)):
            wrong.append(f"{name}: exit code {process.returncode}, {said[-200:]}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", default=graphs.FOLDER)
    parser.add_argument("--graph", default="cnr-2000")
    parser.add_argument("--read", type=float, default=0.5)
    parser.add_argument("--pages", type=int, help="make a graph of so many pages")
    parser.add_argument(
        "--store", type=Path, help="with --pages: where the store is built; left as it is if there"
    )
    parser.add_argument("--keep", type=Path, help="leave the store here")
    parser.add_argument("only", nargs="*", help="run only commands whose name begins so")
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="commands-", dir=options.store and options.store.parent))
    os.environ.update(environment(work))
    store = options.store or work / "frontier"
    began = time.perf_counter()
    if options.pages:
        web = made.Made(options.pages)
        name, count, hub, last = "made", web.pages, web.url(0), web.url(web.pages - 1)
        if not store.exists():
            made.build(web, store, scheme())
    else:
        name = options.graph
        hub, last, count = build(graphs.load(name, options.folder), store, options.read)
    print(f"{name}: {count:,} pages known, built in {time.perf_counter() - began:.0f} s")
    wrong = []
    for arguments in (
        ["find", ".", "--json"],
        ["find", "."],
        ["queue", "--limit", "0"],
        ["links", hub, "--in"],
        ["top", "--limit", "0"],
    ):
        if not options.only:
            wrong += [f"{' '.join(arguments)} {each}" for each in check_ends(store, arguments)]
    print("\n| command | seconds | MB | of it anonymous | widest line |\n| --- | --- | --- | --- | --- |")
    for name, arguments in commands(work, hub, last):
        if options.only and not any(name.startswith(each) for each in options.only):
            continue
        directory = work / "new" if name == "import" else store
        out = work / "out"
        seconds, peak, anonymous, code, said = run(arguments, directory, out)
        width = widest(out)
        print(f"| {name} | {seconds:.1f} | {peak:.0f} | {anonymous:.0f} | {width} |", flush=True)
        if code or "Traceback" in said or width > 80:
            wrong.append(f"{name}: exit code {code}, {width} columns, {said[-300:]}")
    ends = "" if options.only else "; `| head -1` and Ctrl-C end without a traceback"
    fine = f"Text fits 80 columns{ends}."
    print("\n" + "\n".join(wrong or [fine]))
    if options.keep:
        shutil.copytree(store, options.keep)
    shutil.rmtree(work)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
