"""Bits a link on disk, and links a second from the store into CSR arrays, over all graphs of a folder.

A row a page is written in a batch of its own, in the order of discovery, as a crawl does; every 8192 pages
the packer moves what is worth it into segments. Then the rest is packed, LevelDB compacts, and the
directory is weighed: keys, LevelDB's overhead and its log included. "rows" is the same before any packing.
Reading is timed by the processor, which a busy machine changes least: the best of several, more of them
where one takes a millisecond. Each opens the store anew.

    python benchmarks/graph_size.py [--folder FOLDER] [NAME ...]
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import graphs
import numpy as np

from scrapy_frontier.core.ranking.graph import read_graph, repack
from scrapy_frontier.core.store.keys import LINK_ROW, SEGMENT_ROW, link_key
from scrapy_frontier.core.store.leveldb import plyvel
from scrapy_frontier.core.store.link_rows import INTERNAL, Edge, encode_row

EVERY = 8192


def rows_of(graph):
    flags = np.zeros(len(graph.indices), int)
    if graph.hosts is not None:
        sources = np.repeat(np.arange(len(graph.indptr) - 1), np.diff(graph.indptr))
        flags[graph.hosts[sources] == graph.hosts[graph.indices]] = INTERNAL
    indptr, targets, flags = graph.indptr.tolist(), graph.indices.tolist(), flags.tolist()
    for page in range(len(indptr) - 1):
        here = slice(indptr[page], indptr[page + 1])
        yield page, encode_row(page, map(Edge, targets[here], flags[here]))


def pack(db, everything=False):
    with db.snapshot() as snapshot:
        for done in repack(snapshot.iterator(prefix=LINK_ROW), snapshot.get, everything):
            with db.write_batch(transaction=True) as batch:
                batch.put(done.key, done.value)
                for key, _ in done.rows:
                    batch.delete(key)


def compact(db):
    """Have LevelDB drop deleted and replaced rows, in its own thread and without the interpreter's lock.

    It never rewrites the lowest level that holds files, where a quiet database has everything; a row and its
    deletion at both ends of the range make a table above it that has to be merged down.
    """
    db.compact_range(start=LINK_ROW, stop=b"t")
    for end in (LINK_ROW, SEGMENT_ROW + b"\xff" * 6):
        db.put(end, b"")
        db.delete(end)
    db.compact_range(start=LINK_ROW, stop=b"t")


def write(path, graph, packing):
    packed = 0.0
    with plyvel.DB(str(path), create_if_missing=True, write_buffer_size=16 << 20) as db:
        started = time.perf_counter()
        for page, row in rows_of(graph):
            with db.write_batch(transaction=True) as batch:
                if row:
                    batch.put(link_key(page), row)
            if packing and page % EVERY == EVERY - 1:
                begun = time.perf_counter()
                pack(db)
                packed += time.perf_counter() - begun
        if packing:
            begun = time.perf_counter()
            pack(db, everything=True)
            packed += time.perf_counter() - begun
        written = time.perf_counter() - started - packed
        compact(db)
    plyvel.DB(str(path)).close()  # drops the files that the compaction has replaced
    return written, packed, sum(file.stat().st_size for file in path.iterdir())


def read(path, repeats):
    best = float("inf")
    for _ in range(repeats):
        with plyvel.DB(str(path)) as db, db.snapshot() as snapshot:
            started = time.process_time()
            csr = read_graph(snapshot.iterator(prefix=LINK_ROW), snapshot.iterator(prefix=SEGMENT_ROW))
            best = min(best, time.process_time() - started)
    return csr, best


def main():
    folder, names = graphs.chosen(__doc__)
    print(
        f"{'graph':14}{'pages':>9}{'links':>10}{'rows':>8}{'packed':>8}  bits a link"
        f"{'write':>8}{'pack':>7}{'read':>7}  million links/s"
    )
    bits = []
    for name in names:
        graph = graphs.load(name, folder)
        graph = graphs.renumbered(graph, graphs.discovery_order(graph))
        links = len(graph.indices)
        with tempfile.TemporaryDirectory() as place:
            _, _, loose = write(Path(place) / "rows", graph, packing=False)
            written, packed, size = write(Path(place) / "packed", graph, packing=True)
            csr, seconds = read(Path(place) / "packed", repeats=min(max(5, 2_000_000 // links), 50))
        assert np.array_equal(np.sort(csr.indices), np.sort(graph.indices)), "links were lost"
        bits.append(size * 8 / links)
        print(
            f"{name:14}{len(graph.indptr) - 1:9}{links:10}{loose * 8 / links:8.2f}{bits[-1]:8.2f}{'':13}"
            f"{links / written / 1e6:8.2f}{links / packed / 1e6:7.2f}{links / seconds / 1e6:7.1f}"
        )
    print(f"mean: {np.mean(bits):.2f} bits a link")


if __name__ == "__main__":
    main()
