"""A store of any size, its rows written as a crawl would have left them.

A tree with ten children a page, so that ids are in order of discovery; every page of the first half was read
and has ten links: to its children while there are any left, then to old pages (the oldest most) and to pages
nearby. A tenth of the pages is on one host, the others on hosts of 500. `scrapy frontier check` finds nothing
wrong with it, and `benchmarks/commands.py` runs it.
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from scrapy_frontier.core.store import keys, queue_keys, records
from scrapy_frontier.core.store.keys import NEUTRAL, SEGMENT, State
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.link_rows import INTERNAL, Edge, encode_row, pack
from scrapy_frontier.core.store.records import Counts, HostRow, Page
from scrapy_frontier.crawl import fingerprints

FAN = 10
PAGES_OF_A_HOST = 500
BEGAN = 1_700_000_000  # POSIX seconds
_AT_A_TIME = 20_000  # rows a batch


class Made:
    """The web that is made: who is on which host, and who links whom."""

    def __init__(self, pages):
        self.pages = pages
        self.read = pages // 2
        self.hosts = pages // PAGES_OF_A_HOST // FAN * FAN + 1  # shares no factor with FAN: each has pages

    def host(self, page):
        return f"h{page % self.hosts if page % FAN else 0}.example"

    def url(self, page):
        return f"http://{self.host(page)}/section/{page % 97}/page-{page}.html"

    def targets(self, first, last):
        """The links of the pages *first* to *last*: a row a page, without doubles."""
        random = np.random.default_rng(first)
        sources = np.arange(first, last)[:, None]
        children = sources * FAN + 1 + np.arange(FAN)
        old = (random.random((last - first, FAN)) ** 4 * self.pages).astype(np.int64)
        near = np.clip(sources + random.integers(-200, 200, (last - first, FAN)), 0, self.pages - 1)
        others = np.where(random.random((last - first, FAN)) < 0.5, old, near)
        return [np.unique(row).tolist() for row in np.where(children < self.pages, children, others)]


def build(made, directory, scheme):
    """Write the store; 25 us a page."""
    store = Store(directory, scheme)
    for rows in (_pages(made), _queue(made), _index(made), _segments(made), _hosts(made), _rest(made)):
        while some := dict(islice(rows, _AT_A_TIME)):
            store.write(some)
    store._db.compact_range(start=b"", stop=b"\xff")  # without a stop it does nothing
    store.close()


def _pages(made):
    for page in range(made.pages):
        state, status, changed = (State.DONE, 200, BEGAN + page) if page < made.read else (State.QUEUED, 0, 0)
        about = Page(
            made.url(page),
            state,
            attempts=int(page < made.read),
            discovered=BEGAN + page // FAN,
            parent=(page - 1) // FAN if page else None,
            payload=b'{"callback":"parse"}',
            status=status,
            changed=changed,
        )
        yield keys.page_key(page), records.encode_page(about)


def _queue(made):
    for page in range(made.read, made.pages):
        yield (
            queue_keys.queue_prefix(made.host(page))
            + queue_keys.sort_key(0, NEUTRAL - page % 1000, page, page),
            b"",
        )


def _index(made):
    """Sorted: as they come LevelDB would merge them over and over."""
    found = np.empty(made.pages, "S20")
    for page in range(made.pages):
        found[page] = fingerprints.plain_fingerprint(made.url(page))
    for page in np.argsort(found).tolist():
        yield keys.INDEX + bytes(found[page]).ljust(20, b"\0"), keys.index_value(page)


def _segments(made):
    for first in range(0, made.read, SEGMENT):
        last = min(first + SEGMENT, made.read)
        rows = []
        for page, targets in enumerate(made.targets(first, last), first):
            host = made.host(page)
            edges = [Edge(target, INTERNAL if made.host(target) == host else 0) for target in targets]
            rows.append((page, encode_row(page, edges)))
        yield keys.segment_key(first), pack(first, b"", rows)


def _hosts(made):
    queued, done = np.zeros(made.hosts, int), np.zeros(made.hosts, int)
    for first, last, counts in ((0, made.read, done), (made.read, made.pages, queued)):
        pages = np.arange(first, last)
        counts += np.bincount(np.where(pages % FAN, pages % made.hosts, 0), minlength=made.hosts)
    for host in range(made.hosts):
        row = HostRow(int(queued[host]), int(done[host]), visited=float(BEGAN + made.read))
        yield keys.host_key(f"h{host}.example"), records.HOST.encode(row)


def _rest(made):
    states = [0] * len(State)
    states[State.DONE], states[State.QUEUED] = made.read, made.pages - made.read
    yield keys.COUNTS, records.COUNTS.encode(Counts(made.pages, 0, made.read, states, made.hosts))
    yield keys.CLEAN, b""
