"""How the end of a lease becomes the state of its page: its rows, its links, its place in a queue.

Pages out: which page is handed out next, what becomes of its turn, and when nothing more is to be had.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import reasons
from ..errors import UnreadableRow, lenient
from ..hosts.host import FOREVER
from ..hosts.trouble import trouble_at_the_end, why_given_up
from ..parse.urls import host_of
from ..reasons import ATTEMPTS_USED_UP
from ..revisits.policy import read
from ..store import keys, queue_keys
from ..store.keys import DONE, GONE, LEASED, QUEUED, REDIRECTED, State
from ..store.records import Page, queued_page
from ..transitions import AFTER_LEASE, EXPIRED, FETCHED, RETRIED, UNCOUNTED, Event, after
from .leases import NO_LEASE, WRITTEN_WITHIN, Lease, Outcome, Released
from .queue import PAGES_AT_A_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..hosts.budgets import Budgets
    from ..hosts.host import Host
    from ..hosts.hosts import Hosts
    from ..hosts.politeness import HostPoliteness
    from ..hosts.trouble import EndOfCrawl
    from ..hosts.turns import Turns
    from ..revisits.budget import RevisitShare
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.link_rows import PlainEdge
    from .discovery import PageIndex
    from .leases import Leases
    from .queue import Backoffs, Deferral, Queue
    from .revisit_endings import RevisitEndings
    from .revisit_queue import RevisitQueue
    from .scores import Scores

MOST_ENDS = 16  # written together


@dataclass(eq=False, repr=False)
class Endings:
    """Ends leases, and writes what becomes of their pages.

    An end may wait for others while no more than ``max_uncommitted_pages`` pages are leased or not written:
    these are what a kill repeats.

    ``finished`` counts the pages that came to an end in this run.
    """

    _batch: Batch
    _page_index: PageIndex
    _hosts: Hosts
    _budgets: Budgets
    _politeness: HostPoliteness
    _leases: Leases
    _queue: Queue
    _backoffs: Backoffs
    _scores: Scores
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
        batch = self._batch
        if batch.failure is not None:
            raise batch.failure
        page = None if lease.comes_back else self.after(lease, outcome, now)
        queue = self._hosts.get(outcome.host) if outcome.host else None  # may commit: before rows are staged
        if self._leases.pop(lease.id, None) is None:
            return self._late(lease)
        host = self._hosts.get(lease.host)
        if lease.is_on_wire:
            self._politeness.release_slot(lease, host, now)
        if page is None:
            released = self._revisit_endings.release(lease, outcome, host, queue or host, now)
            self.finished += released.state is not QUEUED
            return released._replace(is_written=self._let_go_and_commit(host, outcome, now))
        host.drop_leased(lease.sort_key)
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
        if self._budgets.units:
            self._budgets.freed(host)
        if not host.queued:
            self._hosts.forget_if_idle(host, now)
        batch = self._batch
        batch.counts.attempts += outcome.event not in UNCOUNTED
        if not batch.ends:
            self._open_since = now
        batch.ends += 1
        leases = self._leases
        may_wait = (
            batch.ends + len(leases) < leases.max_uncommitted_pages
            and batch.ends < MOST_ENDS
            and now - self._open_since < WRITTEN_WITHIN
        )
        if not may_wait:
            batch.commit()
        if self._scores.moved:
            self._scores.place_moved(now)
        return not may_wait

    def last_lease(self, page_id: PageId, now: float) -> Lease | None:
        """A lease at the end of the crawl for a queued page whose request no other run can make; None for any
        other page. It is no lease of the store's: the row stays, and nobody has to release it. Commits, then
        a lookup; raises `FrontierUnwritable`."""
        page = lenient(self._page_index.page, page_id)
        if page is None or page.state is not QUEUED:
            return None
        host = self._hosts.of_page(page)
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
        payload, facts = (page.payload, page.facts)
        visit_payload = b""
        if state is QUEUED:
            visit_payload = page.visit_payload if outcome.visit_payload is None else outcome.visit_payload
        elif outcome.request is not None:
            payload, facts = outcome.request
        return page._replace(
            state=state,
            attempts=attempts,
            priority=priority,
            payload=payload,
            status=outcome.status,
            changed=int(now),
            target=outcome.target,
            reason=reason,
            is_deferred=False,
            visits=visits,
            facts=facts,
            visit_payload=visit_payload,
        )

    def _queue_again(self, lease: Lease, page: Page, host: Host, outcome: Outcome, now: float) -> None:
        """Queue the *page* of a lease once more, in the queue of *host*, which *outcome* may have named: not
        before its delay has passed, or behind all of its priority."""
        if outcome.host:
            page = page._replace(host="" if outcome.host == host_of(page.url) else outcome.host)
        page_id, sort_key = lease.page_id, lease.sort_key
        if min(page.priority, queue_keys.MAX_PRIORITY) > lease.page.priority:  # which a row holds clamped
            bucket = self._scores.bucket_of(page_id)
            sort_key = queue_keys.sort_key(page.priority, bucket, self._batch.arrival, page_id)
        self._batch.put_page(page_id, page)
        waits = self._backoffs.queue_again(host, sort_key, page.priority, outcome, now)
        if waits:
            self._scores.waits(page_id)

    def _write_links(self, lease: Lease, state: State, outcome: Outcome) -> int:
        """The links of a page that ended are known, or it has none; its score goes to their targets. How many
        were kept of a page that was read."""
        page_id, scores = lease.node, self._scores
        if page_id is None:
            return 0
        if outcome.content_score is not None:
            scores.content_scored(page_id, outcome.content_score)
        is_read = state in (DONE, REDIRECTED)
        links: Sequence[PlainEdge] = ()
        if outcome.has_links and (is_read or state is GONE):
            links = self._batch.put_links(page_id, lease.edges if state is DONE else outcome.led_to(state))
        is_beside = page_id != lease.page_id
        if is_read:
            scores.parsed(page_id, links, is_beside)
        elif not is_beside:
            scores.closed(page_id)
        return len(links) if state is DONE else 0


@dataclass(eq=False, repr=False)
class HandOut:
    """Hands out the best page of the host whose turn it is. Writes nothing but what was open before, and
    what is put aside on the way."""

    _batch: Batch
    _hosts: Hosts
    _budgets: Budgets
    _politeness: HostPoliteness
    _leases: Leases
    _queue: Queue
    _backoffs: Backoffs
    _deferred: Deferral
    _endings: Endings
    _revisit_queue: RevisitQueue
    _share: RevisitShare | None
    _end: EndOfCrawl
    _turns: Turns
    _is_spilling = False

    # -- the next page ---------------------------------------------------------------------------------

    def lease(self, now: float) -> Lease | None:
        """The best page of the best host that may be visited at *now*, or None; O(log hosts) and a lookup.

        None commits what is open, and is O(1) while no host is ready. A page that is given up takes no place
        of its host, and is no visit. Leases whose deadline has passed are ended first, and backoffs that are
        over. Raises `FrontierUnwritable`.
        """
        self._catch_up(now)
        budgets, batch = self._budgets, self._batch
        if budgets.with_room:
            batch.commit()  # else one that is queued again in the open batch would be found to wait still
            self._deferred.take_back(now)
            batch.commit()
        spilled, share = 0, self._share
        while (host := self._hosts.best(now)) is not None:
            host, sort_key = (host, None) if share is None else share.turn(host)
            if sort_key is None and budgets.is_limited and self._deferred.spill(host, now):
                spilled += 1
                if spilled == PAGES_AT_A_TIME:
                    break
                continue
            lease = self._take(host, sort_key, now)
            if lease is not None:
                return lease
        self._is_spilling = spilled == PAGES_AT_A_TIME
        batch.commit()
        return None

    def _catch_up(self, now: float) -> None:
        """Do what is due by *now*: each is asked for here, since it is nearly always nothing."""
        batch, waiting, leases = self._batch, self._backoffs, self._leases
        if leases and next(iter(leases.values())).deadline <= now:
            for lease in leases.expired(now):
                self._endings.release(lease, Outcome(Event.EXPIRED, reason=reasons.EXPIRED()), now)
        # Rows that are looked for on the disk must be there; and a kill may repeat no more than it may.
        is_due = self._end.is_over or waiting.next <= now
        must_be_there = is_due or self._budgets.is_limited or batch.failure is not None
        if must_be_there or batch.ends + len(leases) >= leases.max_uncommitted_pages:
            batch.commit()
        if is_due:
            waiting.wake(now, self._end.is_over)
        if self._revisit_queue.revisits_pages:
            self._revisit_queue.wake(now)
        self._end.is_over = self._end.has_opened = False
        self._hosts.compact_some()

    def _take(self, host: Host, sort_key: bytes | None, now: float) -> Lease | None:
        sort_key = host.take(sort_key)
        try:
            page_id, page = queued_page(self._batch.rows, self._batch.store, sort_key)
        except UnreadableRow:
            self._queue.set_aside(host, sort_key)
            self._budgets.freed(host)
            self._hosts.put_or_forget(host, now)
            return None
        if page.state is not QUEUED and not self._revisit_queue.revisits_pages:
            self._revisit_queue.put_off(host, sort_key, page, now)
            self._hosts.put_or_forget(host, now)
            return None
        given_up = why_given_up(host, page, now) if host.given_up else None
        lease = self._leases.grant(page_id, page, host, sort_key, now, given_up)
        if page_id in self._backoffs.cut_short:
            self._backoffs.handed_out(page_id)
            lease.is_last = True
        if self._share is not None:
            self._share.handed_out(host, sort_key)
        if host.more and not (host.heads and host.heads[0] <= host.cursor):
            self._hosts.fill(host)
        self._politeness.visit(host, now)
        if given_up is not None:
            self.skip_visit(lease, now)
        return lease

    # -- its turn --------------------------------------------------------------------------------------

    def put_back(self, lease: Lease, now: float, is_replaced: bool = False) -> None:
        """End the lease granted last as if it had never been: page, clock and turns are as before. Writes
        nothing.

        *is_replaced*: the turn is used up all the same, by something else that is asked of the host.
        """
        host = self._politeness.take_back(lease, now, is_replaced)
        if self._leases.pop(lease.id, None) is None or host is None:
            return
        host.put_back(lease.sort_key)
        if lease.is_last:
            self._backoffs.taken_back(lease.page_id)
        if self._share is not None:
            self._share.taken_back()
        self._hosts.put(host, now)

    def skip_visit(self, lease: Lease, now: float) -> None:
        """Nothing will be asked of the host under the lease granted last: its clock and its turn go back, the
        lease goes on. Nothing is done where it is off the wire. Writes nothing."""
        host = self._politeness.take_back(lease, now)
        if host is not None:
            self._hosts.put(host, now)

    # -- the end ---------------------------------------------------------------------------------------

    def wake_at(self) -> float | None:
        """When `lease` is next worth calling if nothing happens before (POSIX seconds, 0: now); None: waiting
        does not help. O(1) but for what has become wrong in the heap; no store read."""
        if self._budgets.with_room or self._is_spilling or self._end.has_opened or self._end.is_over:
            return 0.0
        revisits, out = self._revisit_queue, self._leases
        times = (
            self._turns.next_time(),
            self._backoffs.next if self._backoffs.next < FOREVER else None,
            next(iter(out.values())).deadline if out else None,
            revisits.wake_at if revisits.revisits_pages else None,
        )
        return min((when for when in times if when is not None), default=None)

    def ends_at(self, now: float, patience: float) -> float | None:
        """When a crawl with pages left ends; see `Frontier.ends_at`."""
        if self._leases:
            return None
        finished, is_for_revisits = self._endings.finished, self._revisit_queue.is_alone
        return self._end.ends_at(now, patience, finished, self._backoffs.next, is_for_revisits)
