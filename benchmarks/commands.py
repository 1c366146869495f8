"""What `scrapy frontier` costs on a crawl of a real graph: seconds and peak memory of every command.

Builds a store through the frontier (half of the pages read, best first; 500 pages a host, made-up URLs), then
runs each command in a process of its own, as a user does. Also: text fits 80 columns, `| head -1` and Ctrl-C
end without a traceback.

    python benchmarks/commands.py [--folder FOLDER] [--graph cnr-2000] [--read 0.5] [--keep DIR] [COMMAND ...]
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import graphs
import numpy as np
from scrapy import Request
from scrapy.utils.request import RequestFingerprinter

import scrapy_frontier
from scrapy_frontier import requests
from scrapy_frontier.core.adjacency import INTERNAL, Edge
from scrapy_frontier.core.frontier import Frontier, Link
from scrapy_frontier.core.leases import Outcome
from scrapy_frontier.core.lifecycle import Event
from scrapy_frontier.core.mixed import make
from scrapy_frontier.core.reranking import Reranking
from scrapy_frontier.core.store import Store

PAGES_OF_A_HOST = 500
FETCHED = Outcome(Event.FETCHED, 200)


def host(page):
    return f"h{page // PAGES_OF_A_HOST}.example"


def url(page):
    return f"http://{host(page)}/p{page}"


def scheme():
    kind = RequestFingerprinter
    return requests.key_scheme(kind().fingerprint, f"{kind.__module__}.{kind.__qualname__}")


def build(graph, directory, share):
    """Crawl *share* of the pages of *graph* into *directory*, a page a second of virtual time."""
    fingerprint = RequestFingerprinter().fingerprint
    frontier = Frontier(Store(directory, scheme()), 0.0, scorer=make("mixed"))
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
        frontier.release(lease.id, FETCHED, now, edges)
    hub = pages[int(np.argmax(np.bincount(graph.indices, minlength=len(node))[pages]))]
    frontier.close()
    store = Store(directory)
    for _ in Reranking(store, make("mixed")).run(now, time.perf_counter):
        pass
    store.compact()
    store.close()
    return hub, pages


def commands(work, hub, pages):
    """Names and arguments; {new} is a directory without a frontier."""
    yield "stats", ["stats"]
    yield "hosts", ["hosts"]
    yield "queue", ["queue"]
    yield "find", ["find", f"p{pages[-1]}$"]
    for name in ("page", "why"):
        yield f"{name} (done)", [name, url(hub)]
        yield f"{name} (queued)", [name, url(pages[-1])]
    yield "links --out", ["links", url(hub), "--out"]
    yield "links --in", ["links", url(hub), "--in", "--limit", "20"]
    for by in ("score", "cash", "pagerank", "authority", "hub"):
        yield f"top --by {by}", ["top", "--by", by]
    yield "top --host", ["top", "--by", "pagerank", "--host", host(hub)]
    for what in ("pages", "queue", "links"):
        yield f"dump --what {what}", ["dump", "--what", what]
    for ending in ("graphml", "txt", "csv", "npz"):
        yield f"graph FILE.{ending}", ["graph", str(work / f"web.{ending}")]
    yield "rank", ["rank", "--scorer", "mixed"]
    yield "rank --scorer hits", ["rank", "--scorer", "hits"]
    yield "check", ["check"]
    yield "export", ["export", str(work / "x.gz")]
    yield "import", ["import", str(work / "x.gz")]
    yield "requeue --state done --host", ["requeue", "--state", "done", "--host", host(hub)]
    yield "forget URL", ["forget", url(pages[-1])]
    yield "forget --host", ["forget", "--host", host(hub)]
    yield "compact", ["compact"]


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
WATCH = """
import os, sys, time
began = time.perf_counter()
_, status, usage = os.wait4(os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ), 0)
with open(sys.argv[1], "w") as file:
    print(time.perf_counter() - began, usage.ru_maxrss / 1e3, os.waitstatus_to_exitcode(status), file=file)
"""


def run(arguments, directory, out):
    """Seconds, peak MB, exit code and what was said on standard error; standard output goes to *out*."""
    figures = out.with_name("figures")
    command = [sys.executable, "-S", "-c", WATCH, str(figures), *line(arguments, directory)]
    with out.open("wb") as file:
        said = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, check=True).stderr
    seconds, peak, code = figures.read_text().split()
    return float(seconds), float(peak), int(code), said.decode()


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
    parser.add_argument("--keep", type=Path, help="leave the store here")
    parser.add_argument("only", nargs="*", help="run only commands whose name begins so")
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="commands-"))
    os.environ.update(environment(work))
    store = work / "frontier"
    began = time.perf_counter()
    hub, pages = build(graphs.load(options.graph, options.folder), store, options.read)
    print(f"{options.graph}: {len(pages):,} pages known, built in {time.perf_counter() - began:.0f} s")
    wrong = []
    for arguments in (
        ["dump"],
        ["dump", "--what", "links"],
        ["find", "."],
        ["queue", "--limit", "0"],
        ["links", url(hub), "--in"],
        ["top", "--limit", "0"],
    ):
        wrong += [f"{' '.join(arguments)} {each}" for each in check_ends(store, arguments)]
    print("\n| command | seconds | MB | widest line |\n| --- | --- | --- | --- |")
    for name, arguments in commands(work, hub, pages):
        if options.only and not any(name.startswith(each) for each in options.only):
            continue
        directory = work / "new" if name == "import" else store
        out = work / "out"
        seconds, peak, code, said = run(arguments, directory, out)
        width = widest(out)
        is_text = arguments[0] != "dump"
        print(f"| {name} | {seconds:.1f} | {peak:.0f} | {width if is_text else ''} |", flush=True)
        if code or "Traceback" in said or (is_text and width > 80):
            wrong.append(f"{name}: exit code {code}, {width} columns, {said[-300:]}")
    fine = "Text fits 80 columns; `| head -1` and Ctrl-C end without a traceback."
    print("\n" + "\n".join(wrong or [fine]))
    if options.keep:
        shutil.copytree(store, options.keep)
    shutil.rmtree(work)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
