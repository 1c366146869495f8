"""What matters in a stopped frontier, and what comes next in it.

`scores` reads or computes the scores of all pages: about 1 for an average page, an array over page ids.
`Preview` plays the crawl's own hosts and turns over virtual time; responses count as immediate, so its times
are the earliest possible. It takes about a kilobyte a host with queued pages.
"""

from __future__ import annotations

from functools import partial
from itertools import chain, takewhile
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..errors import UnreadableRow
from ..hosts.host import HEADS, DueQueue, Host, Politeness, QueueHeads, is_of_host, queues_with
from ..hosts.turns import Turns
from ..pages.queue import TOO_LONG_TO_WAIT
from ..pages.rescoring import BLOCK
from ..ranking import graph
from ..ranking.pagerank import hits, pagerank
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


class Scores(NamedTuple):
    """``values`` by page id; and if they were computed, from how many ``links``, by which ``ranking``, in how
    many ``seconds``."""

    values: Floats
    links: int = 0
    ranking: Ranking | None = None
    seconds: float = 0.0


class Leader(NamedTuple):
    """A page with its id and its score, about 1 for an average one."""

    score: float
    page_id: PageId
    page: Page


def scores(store: Store, by: str, clock: Callable[[], float]) -> Scores:
    """Returns the scores of all pages: ``cash`` or ``score`` as they are kept; ``pagerank``, ``authority`` or
    ``hub`` computed now, in seconds for millions of links, timed by *clock*. Zeros if no cash is kept. Raises
    `UnreadableRow`."""
    if by not in ("cash", "score"):
        return _ranked(store, by, clock)
    pages = facts.known(store)
    if by == "score":
        return Scores(kept_scores(store, pages))
    codes = column(store, "cash", pages)
    return Scores(np.zeros(pages, np.float32) if codes is None else scores_of(codes))


def leaders(store: Store, values: Floats, host: str | None = None) -> Iterator[Leader]:
    """Yields the pages of *host*, or all, that have a score, best first; a lookup each."""
    for page_id in map(int, np.argsort(-values, kind="stable")):
        score = float(values[page_id])
        if not score > 0:
            return
        page = facts.legible_page(store, page_id)
        if page is not None and (host is None or is_of_host(page, host)):
            yield Leader(score, page_id, page)


# -- what is kept ------------------------------------------------------------------------------------------


def column(store: Store, name: str, pages: int) -> Codes | None:
    """Returns the column *name* of the scorer as buckets, 0 for pages found since; None if there is none."""
    found: Codes | None = None
    for key, value in store.scan(records.column_prefix(name)):
        _, first = records.split_column_key(key) or ("", pages)
        codes = records.decode_codes(value)[: max(pages - first, 0)]
        if found is None:
            found = np.zeros(pages, np.uint16)
        found[first : first + len(codes)] = codes
    return found


def kept_score(store: Store, page_id: PageId) -> float | None:
    """Returns the score of a page that the scorer kept last, or None; one lookup."""
    first = page_id // BLOCK * BLOCK
    row = store.get(records.column_key("score", first)) or b""
    code = records.decode_codes(row)[page_id - first : page_id - first + 1]
    return float(scores_of(code)[0]) if len(code) else None


def kept_scores(store: Store, pages: int) -> Floats:
    """Returns the scores of the first *pages* that the scorer keeps; after a kill, and without a scorer,
    those in the keys of the queue. Reads the columns, or the queue too."""
    codes = column(store, "score", pages)
    if codes is None or store.get(keys.CLEAN) is None:
        codes = np.zeros(pages, np.uint16) if codes is None else codes
        queued = (key.partition(b"\0")[2] for key, _ in store.scan(keys.QUEUE))
        for sort_key in chain(queued, (place.sort_key for place in queue_keys.waiting_places(store))):
            page_id = queue_keys.sort_key_id(sort_key)
            if page_id < pages:
                codes[page_id] = queue_keys.sort_key_bucket(sort_key)
    return scores_of(codes)


def content_scores(store: Store, pages: int) -> Floats | None:
    """Returns the content scores of the first *pages*, 1 by default; None if all are 1."""
    found = np.ones(pages, np.float32)
    for key, value in store.scan(keys.CONTENT):
        page_id, score = keys.key_id(key), records.decode_content(value)
        if page_id < pages and score is not None:
            found[page_id] = score
    return found if (found != 1).any() else None


# -- what is computed --------------------------------------------------------------------------------------


def _ranked(store: Store, by: str, clock: Callable[[], float]) -> Scores:
    found = facts.whole_graph(store)
    content, weights = content_scores(store, found.pages), graph.ranking_weights(found)
    how = partial(pagerank, preference=content)
    if by != "pagerank":
        how = partial(hits, content=content, tolerance=_HITS_TOLERANCE)
    began = clock()
    try:
        ranking = how(found.indptr, found.indices, weights=weights)
    except ValueError as error:
        raise UnreadableRow(f"the links cannot be ranked: {error}") from error
    seconds = clock() - began
    vector = ranking.scores if by != "hub" or ranking.hubs is None else ranking.hubs
    return Scores((vector * len(vector)).astype(np.float32), len(found.indices), ranking, seconds)


# -- what comes next ---------------------------------------------------------------------------------------


class Turn(NamedTuple):
    """A page, and the earliest time (POSIX seconds) at which it can be handed out."""

    when: float
    page_id: PageId
    page: Page


class Preview:
    """The turns of a crawl that starts *now*, read from *store* alone; iterate over `turns` once.

    With *only* just pages of that host, in whatever queue, which takes a pass over all pages. *pause_of*
    gives the pause of a host, *domain_of* its registered domain. Pages of blocked hosts do not come, nor
    unreadable ones.
    """

    def __init__(
        self, store: Store, now: float, pause_of: PauseOf, only: str | None, domain_of: Callable[[str], str]
    ) -> None:
        self._store, self._began, self._pause_of, self._only = store, now, pause_of, only
        self._now = now
        self._names: set[str] | None = None  # of the queues that are played, if not all
        if only is not None:
            self._names = {only} | queues_with((page for _, page in facts.pages(store)), only)
        self._blocked = {host for host, orders in records.all_orders(store) if orders.blocked is not None}
        self._turns = Turns(domain_of)
        self._waiting = (place for place in _waiting(store, now) if self._is_wanted(place.host))
        self._next_waiting = next(self._waiting, None)
        views = facts.hosts(store, pause_of, now)
        queued = (view.host for view in views if view.queued or view.queued_again)
        for name in filter(self._is_wanted, queued if self._names is None else sorted(self._names)):
            self._turns.put(self._host(name), now)

    def _is_wanted(self, name: str) -> bool:
        return name not in self._blocked and (self._names is None or name in self._names)

    def _host(self, name: str) -> Host:
        host = self._turns.hosts.get(name)
        if host is None:
            view = facts.find_host(self._store, name, self._pause_of, self._began)
            row = facts.host_row(self._store, name)
            host = self._turns.hosts[name] = Host(name, row, Politeness(view.delay, 1))
            host.ready_at = view.ready_at
            host.more = True
            host.due = DueQueue(name) if row.queued_again else None
            self._fill(host)
        return host

    def _fill(self, host: Host) -> None:
        queues: list[tuple[QueueHeads, bytes]] = [(host, host.prefix)]
        if host.due is not None:
            queues.append((host.due, host.due.prefix))
        for queue, prefix in queues:
            while queue.needs_sort_keys():
                queue.filled(self._store.keys_of(prefix, queue.cursor, HEADS), HEADS, host.leased)

    def turns(self) -> Iterator[Turn]:
        """Yields the pages in the order in which they are handed out; O(log hosts) and a lookup each."""
        while (taken := self._take()) is not None or self._advance():
            page = None if taken is None else facts.legible_page(self._store, taken)
            if taken is None or page is None:
                continue
            if self._only is None or is_of_host(page, self._only):
                yield Turn(self._now, taken, page)

    def _advance(self) -> bool:
        """Moves to the next moment at which a page can be handed out; false if there is none."""
        times = self._turns.next_time(), self._next_waiting and self._next_waiting.waits_until
        first = min((when for when in times if when is not None), default=None)
        self._now = max(self._now, first or 0.0)
        return first is not None

    def _take(self) -> int | None:
        """Returns the page that is handed out now, if there is one."""
        while (place := self._next_waiting) is not None and (place.waits_until or 0.0) <= self._now:
            host = self._host(place.host)
            if queue_keys.is_due_key(place.sort_key):
                host.add_due(place.sort_key)
            else:
                host.add(place.sort_key)
                host.add_retry(place.sort_key)
            self._turns.put(host, self._now)
            self._next_waiting = next(self._waiting, None)
        best = self._turns.best(self._now)
        if best is None:
            return None
        found = self._turns.hosts[best]
        sort_key = found.take() if found.heads else found.take_due()
        found.in_flight = 1
        self._fill(found)
        self._turns.put(found, self._now)
        found.in_flight = 0
        found.ready_at = self._now + found.delay if found.delay else 0.0
        queue = found.due if queue_keys.is_due_key(sort_key) else found
        if queue is None or not queue.more or sort_key <= queue.cursor:  # it is not met again on the disk
            found.drop_leased(sort_key)
        self._turns.put(found, self._now)
        return queue_keys.sort_key_id(sort_key)


def _waiting(store: Store, now: float) -> Iterator[queue_keys.QueuePlace]:
    """Yields pages in a backoff, soonest first; a wait that is longer than any can be ends now."""
    last = queue_keys.behind_waiting(now + TOO_LONG_TO_WAIT)
    yield from (place._replace(waits_until=now) for place in queue_keys.waiting_places(store, last))
    yield from takewhile(lambda place: place.key[1:] <= last, queue_keys.waiting_places(store))
