"""How the end of a lease becomes the state of its page: rows of the page, its links, its next turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..reasons import GIVEN_UP
from ..store import keys, page_rows, queue_rows
from ..store.link_rows import REDIRECT, Edge
from ..store.page_rows import Page
from ..store.states import State
from .lifecycle import UNCOUNTED, Event, after
from .links import NEUTRAL
from .visits import read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..hosts.budgets import Budgets
    from ..hosts.host import Host
    from ..store.batch import Batch
    from .leases import Lease, Outcome
    from .link_graph import LinkGraph
    from .queue import Queue
    from .rescoring import Rescoring
    from .waiting import Waiting


class Endings:
    """Writes what becomes of pages, which are given up after *max_attempts* leases."""

    def __init__(
        self,
        batch: Batch,
        budgets: Budgets,
        queue: Queue,
        waiting: Waiting,
        graph: LinkGraph,
        scores: Rescoring | None,
        max_attempts: int,
    ) -> None:
        self._batch = batch
        self._budgets = budgets
        self._queue = queue
        self._waiting = waiting
        self._graph = graph
        self._scores = scores
        self._max_attempts = max_attempts

    def after(self, page: Page, outcome: Outcome, now: float) -> Page:
        """What *outcome* makes of a leased *page*. Raises `IllegalTransition`."""
        event, reason = outcome.event, outcome.reason
        attempts = page.attempts + (event not in UNCOUNTED)
        if event in (Event.RETRIED, Event.EXPIRED) and attempts >= self._max_attempts:
            event, reason = Event.FAILED, GIVEN_UP(reason=reason, attempts=attempts)
        visits = page.visits
        if event is Event.FETCHED and outcome.fetched is not None:
            visits = read(visits, outcome.fetched, int(now))
        return Page(
            page.url,
            after(State.LEASED, event),
            attempts,
            page.priority if outcome.priority is None else outcome.priority,
            page.discovered,
            page.parent,
            page.host,
            page.payload if outcome.payload is None else outcome.payload,
            outcome.status,
            int(now),
            outcome.target,
            reason,
            visits=visits,
        )

    def queue_again(self, lease: Lease, page: Page, host: Host, due: float, now: float) -> None:
        """Queue the *page* of a lease once more, in the queue of *host*, not before *due*."""
        page_id = lease.page_id
        sort_key = lease.sort_key
        # A retry is behind others by its backoff, and comes then; a lower priority, which is Scrapy's habit,
        # would put it behind every page that is yet to be found.
        if min(page.priority, queue_rows.MAX_PRIORITY) > lease.page.priority:  # which a row holds clamped
            place = NEUTRAL if self._scores is None else self._scores.standing(page_id)
            sort_key = queue_rows.sort_key(page.priority, place, self._batch.turn, page_id)
        self._batch.put(keys.page_key(page_id), page_rows.encode_page(page))
        if due <= now:
            self._queue.put_back(host, sort_key, now)
            return
        if self._scores is not None:
            self._scores.waits(page_id)
        self._waiting.put(host, sort_key, due)
        self._budgets.note(host)

    def write(self, page_id: int, page: Page, host: Host) -> None:
        """*page* has come to an end."""
        if page_id >= keys.FIRST_VISIT:  # a further visit of a known page leaves no trace
            self._batch.delete(keys.page_key(page_id))
        else:
            self._batch.put(keys.page_key(page_id), page_rows.encode_page(page))
            self._batch.count_ended(host, page.state, status=page.status)

    def write_links(self, lease: Lease, state: State, outcome: Outcome) -> int:
        """The links of a page that ended are known, or it has none; its score goes to their targets. How many
        there were on a page that was read."""
        page_id, scores = lease.node, self._scores
        if page_id is None:
            return 0
        if scores is not None and outcome.content_score is not None:
            scores.judged(page_id, outcome.content_score)
        is_read = state in (State.DONE, State.REDIRECTED)
        links: Sequence[Edge] = ()
        if outcome.has_links and (is_read or state is State.GONE):
            links = self._graph.put(page_id, _links(lease, state, outcome))
        if scores is not None and is_read:
            scores.parsed(page_id, links)
        elif scores is not None:
            scores.closed(page_id)
        return len(lease.edges) if state is State.DONE and outcome.has_links else 0


def _links(lease: Lease, state: State, outcome: Outcome) -> Sequence[Edge]:
    if state is State.DONE:
        return lease.edges
    if state is State.GONE or outcome.target is None or outcome.target >= keys.FIRST_VISIT:
        return ()
    return (Edge(outcome.target, REDIRECT | outcome.flags),)
