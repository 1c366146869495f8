"""Computes plain data for charts of a crawl: growth, order, hosts, statuses, depth, changes, links.

Reads only rows that a crawl stores anyway: two passes over the hosts and pages, one over the links. Memory:
about 40 bytes a page.
"""

from __future__ import annotations

import heapq
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from .. import reasons
from ..errors import UnreadableRow
from ..hosts.host import host_of_page
from ..store.keys import FINISHED, State
from . import facts, scores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from ..store.keys import PageId
    from ..store.leveldb import Store
    from ..store.records import Page

    Passing = Callable[[Iterable[tuple[PageId, Page]]], Iterator[tuple[PageId, Page]]]

HOSTS = 20  # with most pages
POINTS = 120  # of a curve
_BEST = 15  # pages
_DEPTHS = 10  # links from a seed; deeper pages count with the last
_SHARES = 4  # groups of pages by how many of their visits found a change


class _Pages:
    """Gathers facts in a pass over all pages: by page id, when a page was found and first ended (POSIX
    seconds, 0: not yet), its depth, whether it was read, and its place among *hosts*; and counts."""

    def __init__(self, known: int, hosts: list[str]) -> None:
        self.found = np.zeros(known, np.int64)
        self.ended = np.zeros(known, np.int64)
        self.depth = np.zeros(known, np.int32)
        self.was_read = np.zeros(known, bool)
        self.host = np.full(known, -1, np.int32)
        self.statuses: Counter[int] = Counter()
        self.reasons: Counter[str] = Counter()
        self.changes: Counter[int] = Counter()
        self._places = {name: place for place, name in enumerate(hosts)}

    def add(self, page_id: PageId, page: Page) -> None:
        """Add a page; call it in the order of the ids."""
        if page_id >= len(self.found):
            return
        self.found[page_id] = page.discovered
        if page.parent is not None and page.parent < page_id:
            self.depth[page_id] = self.depth[page.parent] + 1
        self.host[page_id] = self._places.get(host_of_page(page), -1)
        visits = page.visits
        if page.state in FINISHED:
            self.ended[page_id] = visits.first if visits and visits.first else page.changed
            self.was_read[page_id] = page.state is State.DONE
        if page.status:
            self.statuses[page.status] += 1
        if page.reason and page.state is not State.QUEUED:
            self.reasons.update(reasons.codes_in(page.reason))
        if visits and visits.visits > 1:
            share = visits.changes / (visits.visits - 1)
            self.changes[min(int(-(-share * _SHARES // 1)), _SHARES)] += 1


def report(
    store: Store, pause_of: facts.PauseOf, now: float, clock: Callable[[], float], passing: Passing
) -> dict[str, object]:
    """Return a JSON document of the crawl until *now*; *passing* gets every page that is read, and yields it
    again.

    A ranking takes seconds for millions of links, timed by *clock*. Without links there is no order and no
    graph. Raises `UnreadableRow`.
    """
    summary = facts.summary([store])
    views = heapq.nlargest(
        HOSTS, facts.hosts(store, pause_of, now), key=lambda view: (view.ok, view.queued, view.host)
    )
    pages = _Pages(summary.known, [view.host for view in views])
    for page_id, page in passing(facts.pages(store, with_visits=False)):
        pages.add(page_id, page)
    document: dict[str, object] = {
        "now": now,
        "summary": summary._asdict(),
        "growth": _growth(pages),
        "statuses": sorted(pages.statuses.items()),
        "reasons": pages.reasons.most_common(),
        "depths": _depths(pages),
        "changes": [pages.changes[share] for share in range(_SHARES + 1)],
        "hosts": [view._asdict() for view in views],
        "links": _links_between(store, pages, len(views)),
    }
    try:
        ranked = scores.scores(store, "pagerank", clock)
    except UnreadableRow:  # the rest can be shown without a ranking
        return document
    best = islice(scores.leaders(store, ranked.values), _BEST)
    document["best"] = [
        {"score": leader.score, "url": leader.page.url, "state": leader.page.state.name.lower()}
        for leader in best
    ]
    if ranked.links:
        document["order"] = _order(pages, ranked.values)
    return document


def _growth(pages: _Pages) -> dict[str, list[float]]:
    """Return the numbers of known and of ended pages at times from the first to the last."""
    found, ended = pages.found[pages.found > 0], pages.ended[pages.ended > 0]
    if not len(found):
        return {"times": [], "known": [], "ended": []}
    first, last = int(found.min()), int(max(found.max(), ended.max(initial=0)))
    times = np.linspace(first, max(last, first + 1), min(POINTS, max(last - first, 1) + 1))
    return {
        "times": times.tolist(),
        "known": np.searchsorted(np.sort(found), times, "right").tolist(),
        "ended": np.searchsorted(np.sort(ended), times, "right").tolist(),
    }


def _depths(pages: _Pages) -> list[dict[str, int]]:
    is_page = pages.found > 0
    depth = np.minimum(pages.depth, _DEPTHS)
    known = np.bincount(depth[is_page], minlength=1).tolist()
    read = np.bincount(depth[is_page & pages.was_read], minlength=len(known)).tolist()
    return [{"known": of_all, "read": of_read} for of_all, of_read in zip(known, read, strict=True)]


def _order(pages: _Pages, values: NDArray[np.floating]) -> dict[str, list[float]]:
    """Return the shares of the PageRank of all read pages that shares of these pages collect: in the order of
    the crawl, in the order of discovery, and in the best order. Times are whole seconds; between two of them
    the curve of the crawl is straight."""
    read = np.flatnonzero(pages.was_read)
    shares = np.linspace(0, 1, POINTS + 1)
    if not len(read):
        return {"shares": [], "crawl": [], "found": [], "best": []}
    seconds, worth = pages.ended[read], values[read].astype(np.float64)
    places = np.arange(1, len(read) + 1) / len(read)
    total = worth.sum() or 1.0

    def curve(order: NDArray[np.signedinteger], ends: slice | NDArray[np.bool_] = slice(None)) -> list[float]:
        gathered = np.cumsum(worth[order])[ends] / total
        at = np.append(0, places[ends])
        found: list[float] = np.interp(shares, at, np.append(0, gathered)).round(4).tolist()
        return found

    in_time = np.argsort(seconds, kind="stable")
    is_last_of_second = np.append(np.diff(seconds[in_time]) > 0, True)
    return {
        "shares": shares.tolist(),
        "crawl": curve(in_time, is_last_of_second),
        "found": curve(np.arange(len(read))),
        "best": curve(np.argsort(-worth, kind="stable")),
    }


def _links_between(store: Store, pages: _Pages, hosts: int) -> list[tuple[int, int, int]]:
    """Return the number of links from one host to another, for each pair of hosts that has any."""
    counts = np.zeros((hosts, hosts), np.int64)
    for links in facts.every_link(store):
        sources, targets = pages.host[links.sources], pages.host[links.targets]
        is_between = (sources >= 0) & (targets >= 0) & (sources != targets)
        np.add.at(counts, (sources[is_between], targets[is_between]), 1)
    return [(int(a), int(b), int(counts[a, b])) for a, b in np.argwhere(counts)]
