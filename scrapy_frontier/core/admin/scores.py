"""Reads or computes the scores of all pages of a stopped frontier, and previews the order of its queue.

`scores` returns an array over page ids: about 1 for an average page. `upcoming` simulates a crawl whose
responses are immediate, so its times are the earliest possible. It takes about a kilobyte a host, and half a
kilobyte for each page in a backoff.
"""

from __future__ import annotations

from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..hosts.host import is_of_host
from ..pages.rescoring import BLOCK
from ..ranking import graph
from ..ranking.scorer import scores_of
from ..store import keys, queue_keys, records
from . import facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..ranking.pagerank import Ranking
    from ..ranking.scorer import Codes, Floats
    from ..store.keys import PageId
    from ..store.leveldb import Store
    from ..store.records import Page
    from .facts import PauseOf

_HITS_TOLERANCE = 1e-4
KEPT = "cash", "score", "focus"
_ROWS_AT_A_TIME = 16  # of a host's queue


class ScoresOfPages(NamedTuple):
    """Scores by page id (``values``); if they were computed, also the number of ``links``, the ``ranking``,
    and the ``seconds`` that it took."""

    values: Floats
    links: int = 0
    ranking: Ranking | None = None
    seconds: float = 0.0


class Leader(NamedTuple):
    """A page with its id and its score, about 1 for an average one."""

    score: float
    page_id: PageId
    page: Page


def scores(store: Store, by: str, clock: Callable[[], float]) -> ScoresOfPages:
    """Return the scores of all pages: ``cash``, ``score`` or ``focus`` (expected content) as they were stored
    at the last ranking or clean stop, zeros if they were not; ``pagerank``, ``authority`` or ``hub`` computed
    now, in seconds for millions of links, timed by *clock*. Raises `UnreadableRow`."""
    if by not in KEPT:
        return _ranked(store, by, clock)
    pages = facts.known(store)
    codes = column(store, "expected" if by == "focus" else by, pages)
    return ScoresOfPages(np.zeros(pages, np.float32) if codes is None else scores_of(codes))


def leaders(store: Store, values: Floats, host: str | None = None) -> Iterator[Leader]:
    """Yield the pages with a score, of *host* or of all hosts, best first; a lookup each."""
    for page_id in map(int, np.argsort(-values, kind="stable")):
        score = float(values[page_id])
        if not score > 0:
            return
        page = facts.legible_page(store, page_id)
        if page is None or facts.is_elsewhere(page):
            continue
        if host is None or is_of_host(page, host):
            yield Leader(score, page_id, page)


# -- stored scores -----------------------------------------------------------------------------------------


def column(store: Store, name: str, pages: int) -> Codes | None:
    """Return the column *name* of the scorer as buckets, 0 for pages found since; None if there is none."""
    found: Codes | None = None
    for key, value in store.scan(records.column_prefix(name)):
        _, first = records.split_column_key(key) or ("", pages)
        codes = records.decode_codes(value)[: max(pages - first, 0)]
        if found is None:
            found = np.zeros(pages, np.uint16)
        found[first : first + len(codes)] = codes
    return found


def kept_score(store: Store, page_id: PageId) -> float | None:
    """Return the score of a page as it was stored last, or None. One lookup."""
    first = page_id // BLOCK * BLOCK
    row = store.get(records.column_key("score", first)) or b""
    code = records.decode_codes(row)[page_id - first : page_id - first + 1]
    return float(scores_of(code)[0]) if len(code) else None


def content_scores(store: Store, pages: int) -> Floats | None:
    """Return the content scores of the first *pages*, 1 by default; None if all are 1."""
    found = np.ones(pages, np.float32)
    for key, value in store.scan(keys.CONTENT):
        page_id, score = keys.key_id(key), records.CONTENT.read(value)
        if page_id < pages and score is not None:
            found[page_id] = score
    return found if (found != 1).any() else None


# -- computed scores ---------------------------------------------------------------------------------------


def _ranked(store: Store, by: str, clock: Callable[[], float]) -> ScoresOfPages:
    from ..ranking.pagerank import hits, pagerank  # loads SciPy, which no other command needs

    found = facts.whole_graph(store)
    content, weights = content_scores(store, found.pages), graph.ranking_weights(found)
    how = partial(pagerank, preference=content)
    if by != "pagerank":
        how = partial(hits, content=content, tolerance=_HITS_TOLERANCE)
    began = clock()
    ranking = how(found.indptr, found.indices, weights=weights)
    seconds = clock() - began
    vector = ranking.scores if by != "hub" or ranking.hubs is None else ranking.hubs
    return ScoresOfPages((vector * len(vector)).astype(np.float32), len(found.indices), ranking, seconds)


# -- the preview of the queue ------------------------------------------------------------------------------


class Turn(NamedTuple):
    """A page, and the earliest time (POSIX seconds) at which it can be handed out."""

    when: float
    page_id: PageId
    page: Page


def _sort_keys(store: Store, host: str) -> Iterator[bytes]:
    """Yield the sort keys of the queue of a host, best first, then those of its due queue."""
    for prefix in (queue_keys.queue_prefix(host), queue_keys.due_prefix(host)):
        cursor = b""
        while some := store.keys_of(prefix, cursor, _ROWS_AT_A_TIME):
            yield from some
            cursor = some[-1]


def upcoming(store: Store, now: float, pause_of: PauseOf) -> Iterator[Turn]:
    """Yield the pages in the order in which a crawl that starts *now* hands them out, without those of
    blocked hosts; a lookup each. The best page of the hosts that may be visited comes first; then its host
    waits for its delay."""
    views: dict[str, facts.HostView] = {}
    ready_at: dict[str, float] = {}
    # Time, whether it comes back, priority and score, a number to order equals; host, sort key, and the rest
    # of its queue.
    heads: list[tuple[float, bool, bytes, int, str, bytes, Iterator[bytes]]] = []
    numbers = count()

    def put_next(name: str, when: float, rest: Iterator[bytes]) -> None:
        if (sort_key := next(rest, None)) is not None:
            rank = queue_keys.is_due_sort_key(sort_key), sort_key[: queue_keys.SCORE_BYTES]
            heappush(heads, (when, *rank, next(numbers), name, sort_key, rest))

    for view in facts.hosts(store, pause_of, now):
        if (view.queued or view.queued_again) and view.blocked is None:
            views[view.host], ready_at[view.host] = view, max(view.ready_at, now)
            put_next(view.host, ready_at[view.host], _sort_keys(store, view.host))
    for place in queue_keys.waiting_places(store):
        if place.host in views:
            put_next(place.host, max(place.waits_until or 0.0, now), iter([place.sort_key]))
    while heads:
        when, is_due, score, number, name, sort_key, rest = heappop(heads)
        if when < ready_at[name]:  # another page of its host came before
            heappush(heads, (ready_at[name], is_due, score, number, name, sort_key, rest))
            continue
        ready_at[name] = when + views[name].delay
        put_next(name, ready_at[name], rest)
        page_id = queue_keys.sort_key_id(sort_key)
        page = facts.legible_page(store, page_id)
        if page is not None:
            yield Turn(when, page_id, page)
