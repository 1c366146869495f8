"""Grants and ends leases: hands out the best page of a host, and records the outcome of its visit.

A lease is a page that was handed out and whose visit has not ended. Nothing is written at hand-out. When a
lease ends, the new row of its page, the links of the page and the deletion of its queue row go into the open
batch (`store.batch`). The batch is written at once, or together with the next few ends as long as a kill
would repeat no more than ``max_uncommitted_pages``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import reasons
from ..errors import UnreadableRow
from ..hosts.trouble import why_given_up
from ..parse.urls import host_of
from ..revisits.policy import read
from ..store import keys, queue_keys, records
from ..store.keys import DONE, GONE, LEASED, QUEUED, REDIRECTED, State
from ..store.link_rows import encode_links
from ..store.records import Page
from ..transitions import AFTER_LEASE, EXPIRED, FETCHED, RETRIED, UNCOUNTED, Event, after
from .leases import Lease, Outcome, Released
from .queue import PAGES_AT_A_TIME

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..hosts.host import Host
    from ..hosts.politeness import HostPoliteness
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.link_rows import PlainEdge
    from .options import FrontierOptions
    from .queue import Waiting
    from .revisits import Revisits
    from .scores import Scores

MOST_ENDS = 16  # written together
WRITTEN_WITHIN = 0.1  # seconds that the end of a lease may wait to be written with others


class Leases:
    """Keeps the leases that are out, in memory only: grants, undoes and ends them.

    A kill repeats the pages that are leased, or whose ends are not written: at most ``max_uncommitted_pages``
    if ends wait for each other. ``finished`` counts the pages that ended in this run.
    """

    def __init__(
        self,
        batch: Batch,
        politeness: HostPoliteness,
        waiting: Waiting,
        scores: Scores,
        revisits: Revisits,
        options: FrontierOptions,
    ) -> None:
        self._batch = batch
        self._politeness = politeness
        self._hosts = politeness.hosts
        self._waiting = waiting
        self._scores = scores
        self._revisits = revisits
        self._timeout = options.lease_timeout
        self._max_attempts = options.max_attempts
        self._max_uncommitted = options.max_uncommitted_pages
        self._out: dict[int, Lease] = {}  # by id, in order of their deadlines
        self._last_id = 0
        self._first_end = 0.0  # time of the first end that is not written yet
        self.is_ending = False  # the crawl ends: no page is postponed again until one has been read
        self.is_spilling = False  # more pages have to be deferred before one can be leased
        self.finished = 0

    def __len__(self) -> int:
        return len(self._out)

    def out(self) -> Collection[Lease]:
        """Return all leases that are out, earliest deadline first."""
        return self._out.values()

    def of_page(self, page_id: PageId) -> Lease | None:
        """Return the lease of a page, None if it is not leased. O(leases)."""
        return next((lease for lease in self._out.values() if lease.page_id == page_id), None)

    def of_hosts_not_blocked(self) -> int:
        """Count the leases of hosts that are not blocked. O(leases)."""
        hosts = (self._hosts.by_name.get(lease.host) for lease in self._out.values())
        return sum(host is None or not host.is_blocked for host in hosts)

    @property
    def next_deadline(self) -> float | None:
        """When the first lease expires (POSIX seconds); None if none is out."""
        first = next(iter(self._out.values()), None)
        return None if first is None else first.deadline

    def touch_hosts(self) -> None:
        """Put the rows of the hosts of all leases into the next batch, at the end of a run."""
        for lease in self._out.values():
            self._batch.touch(self._hosts.get(lease.host))

    # -- hand-out --------------------------------------------------------------------------------------

    def lease(self, now: float) -> Lease | None:
        """Lease the best page of the best host that may be asked at *now*; commits and returns None if there
        is none.

        First ends leases that have expired, and queues pages whose backoff is over. A page that is given up
        takes no slot of its host and is no visit. O(log hosts) and a lookup; O(1) while no host is ready.
        Raises `FrontierUnwritable`.
        """
        self._catch_up(now)
        waiting, batch, share = self._waiting, self._batch, self._revisits.share
        if waiting.with_room:
            batch.commit()  # the deferred rows that are read have to be those of now
            waiting.queue_deferred(now)
            batch.commit()
        spilled = 0
        while (host := self._hosts.best(now)) is not None:
            host, is_due = (host, False) if share is None else share.turn(host)
            if not is_due and waiting.host_pages and waiting.spill(host, now):
                spilled += 1
                if spilled == PAGES_AT_A_TIME:
                    break
                continue
            lease = self._take(host, is_due, now)
            if lease is not None:
                return lease
        self.is_spilling = spilled == PAGES_AT_A_TIME
        batch.commit()
        return None

    def _catch_up(self, now: float) -> None:
        """End leases that have expired, and queue pages that waited until *now*; mostly there are none."""
        batch, waiting = self._batch, self._waiting
        if self._out and next(iter(self._out.values())).deadline <= now:
            for lease in [lease for lease in self._out.values() if lease.deadline <= now]:
                self.release(lease, Outcome(Event.EXPIRED, reason=reasons.EXPIRED()), now)
        # Rows that are about to be read have to be on the disk; and a kill may not repeat too many pages.
        is_due = waiting.next <= now
        reads_rows = is_due or bool(waiting.host_pages) or batch.failure is not None
        if reads_rows or batch.ends + len(self._out) >= self._max_uncommitted:
            batch.commit()
        if is_due:
            waiting.end_backoffs(now)
        self._revisits.queue_due(now)
        self._hosts.compact_some()

    def _take(self, host: Host, is_due: bool, now: float) -> Lease | None:
        revisits = self._revisits
        sort_key = host.take_due() if is_due else host.take()
        try:
            page_id, page = self._batch.queued_page(sort_key)
        except UnreadableRow:
            self._waiting.set_aside(host, sort_key)
            self._waiting.freed(host)
            self._hosts.update_or_forget(host, now)
            return None
        lease = self._grant(page_id, page, host, sort_key, now)
        if revisits.share is not None:
            revisits.share.handed_out(is_due)
        if is_due or (host.more and not (host.heads and host.heads[0] <= host.cursor)):
            self._hosts.fill(host)
        self._politeness.visit(host, now)
        if lease.given_up is not None:
            self.skip_visit(lease, now)
        return lease

    def _grant(self, page_id: PageId, page: Page, host: Host, sort_key: bytes, now: float) -> Lease:
        """Make a lease before the visit begins: it keeps the clock of the host as it is, for `put_back`."""
        self._last_id += 1
        lease = Lease(
            host=host.name,
            page=page,
            leased_at=now,
            page_id=page_id,
            delay=host.delay,
            asked=host.asked,
            given_up=why_given_up(host, page, now) if host.given_up else None,
            id=self._last_id,
            sort_key=sort_key,
            deadline=now + self._timeout,
            is_last=self.is_ending,
            is_last_attempt=page.attempts + 1 >= self._max_attempts,
            comes_back=page.state is not QUEUED,
            node=page_id if page_id < keys.FIRST_VISIT else None,
        )
        lease.before = host.visited, host.ready_at
        self._out[lease.id] = lease
        return lease

    def put_back(self, lease: Lease, now: float, is_replaced: bool = False) -> None:
        """Undo the lease granted last: page, clock and turn of its host are as before. Writes nothing.

        *is_replaced*: a side request is sent to the host instead, so its turn counts.
        """
        host = self._politeness.undo_visit(lease, now, is_replaced)
        if self._out.pop(lease.id, None) is None or host is None:
            return
        host.put_back(lease.sort_key)
        if self._revisits.share is not None:
            self._revisits.share.taken_back()
        self._hosts.update(host, now)

    def skip_visit(self, lease: Lease, now: float) -> None:
        """Undo what the lease granted last did to clock and turn of its host, because no request is sent for
        it. The lease stays out. Writes nothing."""
        host = self._politeness.undo_visit(lease, now)
        if host is not None:
            self._hosts.update(host, now)

    # -- ends ------------------------------------------------------------------------------------------

    def release(self, lease: Lease, outcome: Outcome, now: float) -> Released:
        """End a lease; does nothing if it has ended (`Released.is_late`).

        The end goes into the open batch, together with all that was discovered before; the batch is
        committed unless the end may wait for others (`Released.is_written`). A retry after the last attempt
        fails the page. Raises `FrontierUnwritable`, and for an impossible outcome what `after` and the rows
        raise: then nothing has changed.
        """
        batch = self._batch
        batch.check()
        if lease.comes_back:
            page = lease.page._replace(status=outcome.status, reason=outcome.reason)
        else:
            page = self.after(lease, outcome, now)
        row = records.encode_page(page)
        queue = self._hosts.get(outcome.host) if outcome.host else None  # may commit: before rows are staged
        if self._out.get(lease.id) is not lease:
            batch.commit()
            ended = batch.read_page(lease.page_id)
            return Released(None if ended is None else ended.state, is_late=True)
        host = self._hosts.get(lease.host)
        if lease.comes_back:
            self._let_go(lease, host, now)
            released = self._revisits.release(lease, outcome, host, queue or host, now)
            self.finished += released.state is not QUEUED
            return released._replace(is_written=self._commit(host, outcome, now))
        if page.state is QUEUED:
            self._let_go(lease, host, now)
            self._waiting.unqueue(host, lease.sort_key)
            self._queue_again(lease, page, queue or host, outcome, now)
            return Released(page.state, is_written=self._commit(host, outcome, now))
        is_visit = lease.page_id >= keys.FIRST_VISIT
        links = self._write_links(lease, page.state, outcome)
        self._let_go(lease, host, now)
        host.drop_leased(lease.sort_key)
        if not is_visit and self._revisits.notes_ends:
            page = self._revisits.first_ended(lease, page, now)
            row = records.encode_page(page)
        batch.end(host, lease.sort_key, lease.page_id, page, row)
        self.finished += 1
        self.is_ending = self.is_ending and page.state is not DONE
        return Released(page.state, links=links, is_written=self._commit(host, outcome, now))

    def _let_go(self, lease: Lease, host: Host, now: float) -> None:
        """Remove a lease from those that are out, and free its slot."""
        del self._out[lease.id]
        if lease.is_on_wire:
            self._politeness.release_slot(lease, host, now)

    def _commit(self, host: Host, outcome: Outcome, now: float) -> bool:
        """Commit an end, unless it may wait for others; returns whether it is written."""
        batch = self._batch
        self._waiting.freed(host)
        if not host.pages:
            self._hosts.forget_if_idle(host, now)
        batch.counts.attempts += outcome.event not in UNCOUNTED
        if not batch.ends:
            self._first_end = now
        batch.ends += 1
        may_wait = (
            batch.ends + len(self._out) < self._max_uncommitted
            and batch.ends < MOST_ENDS
            and now - self._first_end < WRITTEN_WITHIN
        )
        if not may_wait:
            batch.commit()
        if self._scores.moved:
            self._scores.place_moved(now)
        return not may_wait

    def after(self, lease: Lease, outcome: Outcome, now: float) -> Page:
        """Return the record of the page of *lease* after *outcome*. Changes nothing, reads no store.

        A retry after the last attempt fails the page. A page that ends gets its own request back. Raises
        `IllegalTransition` for an event that ends no lease.
        """
        page, event, reason = lease.page, outcome.event, outcome.reason
        attempts = page.attempts + (event not in UNCOUNTED)
        if event in (RETRIED, EXPIRED) and lease.is_last_attempt:
            event, reason = Event.FAILED, reasons.ATTEMPTS_USED_UP(reason=reason, attempts=attempts)
        # The backoff is what puts a retry behind other pages. The lower priority that Scrapy gives it would
        # put it behind every page found later, too, and would stay when the retry succeeds.
        priority = page.priority if outcome.priority is None else max(outcome.priority, page.priority)
        visits = page.visits
        if event is FETCHED and outcome.fetched is not None:
            visits = read(visits, outcome.fetched, int(now))
        state = AFTER_LEASE[event] or after(LEASED, event)
        payload, facts, visit_payload = page.payload, page.facts, b""
        if state is QUEUED:
            visit_payload = page.visit_payload if outcome.visit_payload is None else outcome.visit_payload
        elif outcome.request is not None:
            payload, facts = outcome.request
        return Page(  # `_replace` would take twice as long
            url=page.url,
            state=state,
            attempts=attempts,
            priority=priority,
            discovered=page.discovered,
            parent=page.parent,
            host=page.host,
            payload=payload,
            status=outcome.status,
            changed=int(now),
            target=outcome.target,
            reason=reason,
            visits=visits,
            facts=facts,
            lastmod=page.lastmod,
            visit_payload=visit_payload,
        )

    def _queue_again(self, lease: Lease, page: Page, host: Host, outcome: Outcome, now: float) -> None:
        """Queue the page of a lease again on *host*, at once or after its delay."""
        if outcome.host:
            page = page._replace(host="" if outcome.host == host_of(page.url) else outcome.host)
        page_id, sort_key = lease.page_id, lease.sort_key
        if min(page.priority, queue_keys.MAX_PRIORITY) > lease.page.priority:  # rows hold it clamped
            bucket = self._scores.bucket_of(page_id)
            sort_key = queue_keys.sort_key(page.priority, bucket, self._batch.arrival, page_id)
        self._batch.put_page(page_id, page)
        self._waiting.queue_again(host, sort_key, outcome, now)

    def _write_links(self, lease: Lease, state: State, outcome: Outcome) -> int:
        """Put the links of a page that ended into the open batch, and pay their targets. Returns how many
        links a page that was read has. Raises before it changes anything."""
        page_id, scores, batch = lease.node, self._scores, self._batch
        if page_id is None:
            return 0
        is_read, is_further_visit = state in (DONE, REDIRECTED), page_id != lease.page_id
        links: Sequence[PlainEdge] = ()
        if outcome.has_links and (is_read or state is GONE):
            links, row = encode_links(page_id, lease.edges if state is DONE else outcome.led_to(state))
        if outcome.content_score is not None:
            scores.content_scored(page_id, outcome.content_score)
        if not is_further_visit and state in (DONE, GONE):
            scores.rewarded(page_id, outcome.content_score, state is GONE)
        if is_read:
            scores.parsed(page_id, links, is_further_visit)
        elif not is_further_visit:
            scores.closed(page_id)
        if outcome.has_links and (is_read or state is GONE):
            batch.put_link_row(page_id, row)
        return len(links) if state is DONE else 0
