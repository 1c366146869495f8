"""How the end of a lease becomes the state of its page: its rows, its links, its place in a queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import lenient
from ..hosts.giving_up import trouble_at_the_end
from ..parse.urls import host_of
from ..reasons import ATTEMPTS_USED_UP
from ..revisits.visits import read
from ..store import keys, queue_keys
from ..store.page_rows import Page, new_page
from ..store.score_codes import NEUTRAL
from ..store.states import DONE, GONE, LEASED, QUEUED, REDIRECTED, State
from ..transitions import AFTER_LEASE, EXPIRED, FETCHED, RETRIED, UNCOUNTED, Event, after
from .leases import NO_LEASE, WRITTEN_WITHIN, Lease, Released

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..hosts.budgets import Budgets
    from ..hosts.clocks import Clocks
    from ..hosts.host import Host
    from ..hosts.load_hosts import HostTable
    from ..hosts.ready_hosts import Hosts
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.link_rows import PlainEdge
    from .backoffs import Backoffs
    from .discovery import PageIndex
    from .leases import Leases, Outcome
    from .queue import Queue
    from .rescoring import Rescoring
    from .revisit_endings import RevisitEndings
    from .revisit_queue import RevisitQueue

MOST_ENDS = 16  # written together


@dataclass(eq=False, repr=False)
class Endings:
    """Ends leases, and writes what becomes of their pages.

    An end may wait for others as long as no more than ``at_risk`` pages are under way or not written: those
    are what a kill repeats.

    ``finished`` counts the pages that came to an end in this run.
    """

    _batch: Batch
    _page_index: PageIndex
    _hosts: Hosts
    _table: HostTable
    _budgets: Budgets
    _clocks: Clocks
    _leases: Leases
    _queue: Queue
    _backoffs: Backoffs
    _scores: Rescoring | None
    _revisit_queue: RevisitQueue
    _revisit_endings: RevisitEndings
    _open_since = 0.0  # the first of the ends that are not written yet
    finished = 0

    def release(self, lease: Lease, outcome: Outcome, now: float) -> Released:
        """End a lease; nothing is done for one that has ended.

        One batch with everything discovered since the last one, the page's end and its links; on its way to
        the disk when this returns, or, if it is not written yet, with the next `commit`. A retry after the
        last attempt fails the page. Raises `FrontierUnwritable`, and what `after` raises.
        """
        batch, by_name = self._batch, self._hosts.by_name
        if batch.failure is not None:
            raise batch.failure
        page = None if lease.comes_back else self.after(lease, outcome, now)
        queue = self._table.get(outcome.host) if outcome.host else None  # may commit: before rows are staged
        if self._leases.pop(lease.id, None) is None:
            return self._late(lease)
        host = by_name.get(lease.host) or self._table.get(lease.host)
        if lease.is_on_wire:
            self._clocks.left(lease, host, now)
        if page is None:
            released = self._revisit_endings.release(lease, outcome, host, queue or host, now)
            self.finished += released.state is not QUEUED
            if queue is not None:
                self._budgets.note(queue)
            return released._replace(is_written=self._let_go_and_commit(host, outcome, now))
        host.drop_sort_key(lease.sort_key)
        links, beside = 0, None
        if page.state is QUEUED:
            batch.unqueue(host, lease.sort_key)
            self._queue_again(lease, page, queue or host, outcome, now)
        else:
            if lease.page_id >= keys.FIRST_VISIT:
                beside = self._revisit_endings.release_beside(lease, outcome, now)
            elif self._revisit_queue.notes_ends:
                page = self._revisit_queue.first_ended(lease, page, now)
            batch.end(host, lease.sort_key, lease.page_id, page)
            if self._queue.came_again:
                self._queue.visited(lease.page_id)
            if beside is None:
                links = self._write_links(lease, page.state, outcome)
            self.finished += 1
        is_written = self._let_go_and_commit(host, outcome, now)
        if beside is not None:
            return beside._replace(state=page.state, is_written=is_written)
        return Released(page.state, links=links, is_written=is_written)

    def _let_go_and_commit(self, host: Host, outcome: Outcome, now: float) -> bool:
        """Let go of what *host* needs no more, and commit, unless the end may wait for others. Whether it is
        written."""
        if host.tally is not None or self._budgets.units:
            self._budgets.freed(host)
        if not host.queued:
            self._table.forget_if_idle(host, now)
        batch = self._batch
        batch.counts.attempts += outcome.event not in UNCOUNTED
        if not batch.ends:
            self._open_since = now
        batch.ends += 1
        leases = self._leases
        may_wait = (
            batch.ends + len(leases) < leases.at_risk
            and batch.ends < MOST_ENDS
            and now - self._open_since < WRITTEN_WITHIN
        )
        if not may_wait:
            batch.commit()
        if self._scores is not None and self._scores.moved:
            self._queue.place_moved(now)
        return not may_wait

    def last_lease(self, page_id: PageId, now: float) -> Lease | None:
        """A lease at the end of the crawl for a queued page whose request no other run can make; None for any
        other page. It is no lease of the store's: the row stays, and nobody has to release it. Commits, then
        a lookup; raises `FrontierUnwritable`."""
        page = lenient(self._page_index.page, page_id)
        if page is None or page.state is not QUEUED:
            return None
        host = self._table.of_page(page)
        trouble = trouble_at_the_end(host, page, now)
        about = host.name, page, now, page_id, host.delay, host.asked, trouble
        return Lease(*about, is_on_wire=False, is_last=True, is_last_attempt=True)

    def _late(self, lease: Lease) -> Released:
        if lease.id == NO_LEASE:
            return Released(QUEUED)
        page = self._page_index.page(lease.page_id)
        return Released(None if page is None else page.state, is_late=True)

    def after(self, lease: Lease, outcome: Outcome, now: float) -> Page:
        """What *outcome* makes of the page of *lease*, as a new record; nothing is changed, no store read.

        A retry that is one too many fails it. One that has ended goes back to the request it had before its
        tries. Raises `IllegalTransition` for an event that ends no lease.
        """
        page, event, reason = lease.page, outcome.event, outcome.reason
        attempts = page.attempts + (event not in UNCOUNTED)
        if event in (RETRIED, EXPIRED) and lease.is_last_attempt:
            event, reason = Event.FAILED, ATTEMPTS_USED_UP(reason=reason, attempts=attempts)
        # A retry is behind others by its backoff, and comes then; a lower priority, which is Scrapy's habit,
        # would put it behind every page that is yet to be found, and stay when it succeeds.
        priority = page.priority if outcome.priority is None else max(outcome.priority, page.priority)
        visits = page.visits
        if event is FETCHED and outcome.fetched is not None:
            visits = read(visits, outcome.fetched, int(now))
        state = AFTER_LEASE[event] or after(LEASED, event)
        payload = page.payload if outcome.payload is None else outcome.payload
        about = (
            page.url,
            state,
            attempts,
            priority,
            page.discovered,
            page.parent,
            page.host,
            payload if state is QUEUED else self._revisit_queue.own_of(payload),
            outcome.status,
            int(now),
            outcome.target,
            reason,
            False,
            visits,
        )
        return new_page(about)

    def _queue_again(self, lease: Lease, page: Page, host: Host, outcome: Outcome, now: float) -> None:
        """Queue the *page* of a lease once more, in the queue of *host*, which *outcome* may have named: not
        before its delay has passed, or behind all of its priority."""
        if outcome.host:
            page = page._replace(host="" if outcome.host == host_of(page.url) else outcome.host)
        page_id, sort_key = lease.page_id, lease.sort_key
        if min(page.priority, queue_keys.MAX_PRIORITY) > lease.page.priority:  # which a row holds clamped
            bucket = NEUTRAL if self._scores is None else self._scores.bucket_of(page_id)
            sort_key = queue_keys.sort_key(page.priority, bucket, self._batch.arrival, page_id)
        self._batch.put_page(page_id, page)
        waits = self._backoffs.queue_again(host, sort_key, page.priority, outcome, now)
        if waits and self._scores is not None:
            self._scores.waits(page_id)
        self._budgets.note(host)

    def _write_links(self, lease: Lease, state: State, outcome: Outcome) -> int:
        """The links of a page that ended are known, or it has none; its score goes to their targets. How many
        were kept of a page that was read."""
        page_id, scores = lease.node, self._scores
        if page_id is None:
            return 0
        if scores is not None and outcome.content_score is not None:
            scores.judged(page_id, outcome.content_score)
        is_read = state in (DONE, REDIRECTED)
        links: Sequence[PlainEdge] = ()
        if outcome.has_links and (is_read or state is GONE):
            links = self._batch.put_links(page_id, lease.edges if state is DONE else outcome.led_to(state))
        is_beside = page_id != lease.page_id
        if scores is not None and is_read:
            scores.parsed(page_id, links, is_beside)
        elif scores is not None and not is_beside:
            scores.closed(page_id)
        return len(links) if state is DONE else 0
