"""The frontier: everything known but not finished, and the verbs on it.

`Frontier` alone decides what becomes of a page. Every verb takes plain data and *now* (POSIX seconds),
reads, decides, and puts its rows into one batch; `commit` writes that batch atomically. `lease` and
`release` commit by themselves, so a page's links are durable no later than its own end. Nothing is
written at hand-out: the queue row goes when the lease ends, and whatever a crash interrupts is still queued.

The verbs are safe to repeat: discovering a known page and releasing an ended lease do nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import UnreadableRecord
from .hosts import delays
from .hosts.host import SENDING, Host
from .hosts.last_call import trouble_of
from .pages.deferred import AT_A_TIME
from .pages.leases import Lease, Outcome
from .pages.lifecycle import UNCOUNTED, Event, after
from .pages.links import NEUTRAL, Link, Refusal
from .parse.urls import host_of, origin
from .sites import Sites
from .store import keys, page_rows, queue_rows
from .store.page_rows import Page
from .store.states import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .store.link_rows import Edge

__all__ = ["Frontier", "Link", "NEUTRAL", "Refusal"]

_WAKE_LIMIT = 64  # waiting pages that one lease puts back into their queues, to keep it short


class Frontier(Sites):
    """The pages of a store and their order: all verbs. For what it takes see `known.Known`."""

    def __repr__(self) -> str:
        return f"<Frontier {self.pending} pending, {len(self._leases)} leased, {self._hosts!r}>"

    # -- pages out -------------------------------------------------------------------------------------

    def lease(self, now: float) -> Lease | None:
        """The best page of the best host that may be visited at *now*, or None; O(log hosts).

        Commits what was discovered before. None is O(1) while no host is ready. A page that is given up takes
        no place of its host, and is no visit.
        """
        journal = self._journal
        journal.commit()
        if not journal.seen.is_complete:
            self._learn()
        self._end_waits(now)
        for lease_id in self._leases.expired(now):
            self.release(lease_id, Outcome(Event.EXPIRED, reason="not released in time"), now)
        if self._budgets.is_counting:  # until then nobody knows what a domain has left
            return None
        if self._budgets.due:
            self._deferral.take_back(now)
            self.commit()
        spilled = 0
        while (host := self._hosts.best(now)) is not None:
            if self._budgets.is_limited and self._spill(host, now):
                spilled += 1
                if spilled == AT_A_TIME:
                    break
                continue
            lease = self._take(host, now)
            if lease is not None:
                return lease
        self._is_spilling = spilled == AT_A_TIME
        if spilled:
            self.commit()
        return None

    def _take(self, host: Host, now: float) -> Lease | None:
        sort_key = host.take()
        page_id = queue_rows.sort_key_id(sort_key)
        page = self._read(host, sort_key, page_id)
        lease = None
        if page is not None:
            before = host.visited, host.ready_at
            self._visit(host, now)
            given_up, is_last = trouble_of(host, page, now), page_id in self._last_tries
            self._last_tries.discard(page_id)
            lease = self._leases.grant(page_id, page, host.name, sort_key, now, before, given_up, is_last)
        if host.more and host.needs_sort_keys():
            self._fill(host)
        self._hosts.put(host, now)
        if lease is None:
            self._budgets.freed(host)
            self._forget_if_idle(host, now)
        else:
            if host.tally is not None:
                self._budgets.note(host)
            self._hosts.leased(host, now)
            if lease.given_up is not None:
                self.skip_visit(lease.id, now)
        return lease

    def sending(self, lease_id: int, now: float) -> bool:
        """Whether the delay after the request of a lease is to be counted from when it goes out: then `sent`
        has to say so, and until that, or `off_wire`, nothing else of its host is handed out."""
        lease = self._leases.get(lease_id)
        host = self._host(lease.host) if lease is not None else None
        if host is None or not host.delay or self._leases.sending(lease_id) is None:
            return False
        host.sending += 1
        self._hosts.put(host, now)
        return True

    def sent(self, lease_id: int, now: float) -> None:
        """The request of a lease has gone out: the delay of its host counts from *now*."""
        lease = self._leases.sent(lease_id)
        if lease is None:
            return
        host = self._host(lease.host)
        host.sending -= 1
        host.visited = max(host.visited, now)
        host.ready_at = max(host.ready_at, now + host.delay)
        self._hosts.put(host, now)

    def off_wire(self, lease_id: int, now: float, response_time: float | None = None) -> None:
        """The request of a lease has left the network: its host has room again. The lease goes on.

        *response_time* in seconds says that the host answered, and how fast.
        """
        found = self._off_wire(lease_id)
        if found is None:
            return
        lease, host, was_sent = found
        if response_time is not None:
            if self._haste is not None and (where := origin(lease.page.url)) not in host.origins and where:
                host.origins |= {where}
            if host.cooldown is not None:
                self._troubles.answered(host, lease.leased_at, now)
            if self._pace.factor:
                host.response_time = delays.smoothed(host.response_time, response_time)
                host.ask(delays.RESPONSE_TIME, self._pace.delay(host.response_time))
        if host.delay and (host.is_asked or not was_sent):
            # What a site asks for is counted from its answer, as Nutch does. Where nobody tells when a
            # request goes out, from no later than a little after the hand-out.
            untold = was_sent is None and not host.is_asked
            sent = min(now, lease.leased_at + SENDING) if untold else now
            host.ready_at = max(host.ready_at, sent + host.delay)
        self._hosts.put(host, now)

    def _off_wire(self, lease_id: int) -> tuple[Lease, Host, bool | None] | None:
        """A lease whose request takes up a place of its host no longer, that host, and whether it was sent
        (None: nobody told)."""
        found = self._leases.leave_wire(lease_id)
        if found is None:
            return None
        lease, was_sent = found
        host = self._host(lease.host)
        host.in_flight -= 1
        host.sending -= was_sent is False
        return lease, host, was_sent

    def put_back(self, lease_id: int, now: float, is_replaced: bool = False) -> None:
        """End the lease granted last as if it had never been: page, clock and turns are as before. Writes
        nothing.

        *is_replaced*: the turn is used up all the same, by something else that is asked of the host.
        """
        host = self._unvisit(lease_id, now, is_replaced)
        lease = self._leases.end(lease_id)
        if host is None or lease is None:
            return
        host.put_back(lease.sort_key)
        self._hosts.put(host, now)
        self._budgets.note(host)

    def skip_visit(self, lease_id: int, now: float) -> None:
        """Nothing will be asked of the host under the lease granted last: its clock and its turn go back, the
        lease goes on."""
        host = self._unvisit(lease_id, now)
        if host is not None:
            self._hosts.put(host, now)

    def _unvisit(self, lease_id: int, now: float, is_replaced: bool = False) -> Host | None:
        found = self._off_wire(lease_id)
        if found is None:
            return None
        lease, host, _ = found
        if not is_replaced:
            self._hosts.taken_back(host, now)
        if host.visited == lease.leased_at:
            host.visited, host.ready_at = lease.before
            if host.visited and host.delay:  # which may have grown meanwhile
                host.ready_at = max(host.ready_at, host.visited + host.delay)
        return host

    def same_content(self, page_id: int, host: str, digest: bytes) -> Page | None:
        """The page of *host* whose content had the same *digest*; if there is none, this one has from now on.

        A page that failed does not count: nobody followed its links. One lookup, two for a duplicate.
        """
        self.commit()
        key = keys.body_key(host, digest)
        stored = self._store.get(key)
        first = page_id if stored is None else int.from_bytes(stored, "big")
        try:
            page = self.page(first) if first != page_id else None
        except UnreadableRecord:
            page = None
        if page is not None and page.state in (State.DONE, State.QUEUED):
            return page
        if stored is None or first != page_id:
            self._journal.add(key, keys.id_bytes(page_id))
        return None

    # -- leases end ------------------------------------------------------------------------------------

    def release(
        self,
        lease_id: int,
        outcome: Outcome,
        now: float,
        links: Iterable[Edge] | None = None,
        page_id: int | None = None,
    ) -> State | None:
        """End a lease: the page's new state, or None for a lease that has ended already.

        One batch with everything discovered since the last one; it is on its way to the disk when this
        returns. A retry beyond ``max_attempts`` fails the page. *links* are the links of a page that was
        read or led to another, in place of those it had (None: not known); *page_id* says whose they are
        where the lease was for a further visit.
        """
        self._journal.check()
        lease = self._leases.get(lease_id)
        if lease is None:
            return None
        page = self._after(lease.page, outcome, now)
        journal, state = self._journal, page.state
        queue = self._host(outcome.host) if outcome.host else None  # may commit, so before rows are staged
        self.off_wire(lease_id, now)
        self._leases.end(lease_id)
        host = self._host(lease.host)
        journal.unqueue(host, lease.sort_key)
        if state is State.QUEUED:
            if outcome.host:
                page = page._replace(host="" if outcome.host == host_of(page.url) else outcome.host)
            self._queue_again(lease, page, queue or host, now + outcome.delay, now)
        else:
            self._write_ending(lease.page_id, page, host)
            self._write_links(lease.page_id if lease.page_id < keys.FIRST_VISIT else page_id, state, links)
        if host.tally is not None or self._budgets.units:
            self._budgets.freed(host)
        if not host.queued:
            self._forget_if_idle(host, now)
        journal.counts.attempts += outcome.event not in UNCOUNTED
        if state is not State.QUEUED:
            self._alone_since = None
        journal.commit()
        if self.rescoring is not None:
            self._place_moved(now)
        return state

    def _write_links(self, page_id: int | None, state: State, links: Iterable[Edge] | None) -> None:
        """The links of a page that ended are known, or it has none; its score goes to their targets."""
        if page_id is None or page_id >= keys.FIRST_VISIT:
            return
        is_read = state in (State.DONE, State.REDIRECTED)
        if links is not None and (is_read or state is State.GONE):
            links = self.graph.put(page_id, links if is_read else ())
        if self.rescoring is None:
            return
        if is_read:
            self.rescoring.parsed(page_id, links or ())
        else:
            self.rescoring.closed(page_id)

    def set_content_score(self, page_id: int, content_score: float) -> None:
        """Keep what the callback thinks of a page (0: nothing, 1: as of any other); durable with the next
        batch. Does nothing without a scorer."""
        if self.rescoring is not None and page_id < self.counts.next_page:
            self.rescoring.judged(page_id, content_score)

    def rescore(self, now: float, limit: int) -> bool:
        """Bring *limit* more queue rows to the scores of now; see `Rescoring.begin_walk`. True when done."""
        if self.rescoring is None:
            return True
        self.commit()
        is_done = self.rescoring.step(limit)
        self.commit()
        self._place_moved(now)
        return is_done

    def lags(self) -> bool:
        """Whether the database is behind with its own work: what can wait should wait a little; 2 us."""
        return self._store.lags()

    def _after(self, page: Page, outcome: Outcome, now: float) -> Page:
        event, reason = outcome.event, outcome.reason
        attempts = page.attempts + (event not in UNCOUNTED)
        if event in (Event.RETRIED, Event.EXPIRED) and attempts >= self._max_attempts:
            event, reason = Event.FAILED, f"{reason} ({attempts} attempts)"
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
        )

    def _queue_again(self, lease: Lease, page: Page, host: Host, due: float, now: float) -> None:
        page_id = lease.page_id
        sort_key = lease.sort_key
        # A retry is behind others by its backoff, and comes then; a lower priority, which is Scrapy's habit,
        # would put it behind every page that is yet to be found.
        if page.priority > lease.page.priority:
            place = NEUTRAL if self.rescoring is None else self.rescoring.standing(page_id)
            sort_key = queue_rows.sort_key(page.priority, place, self._journal.turn, page_id)
        self._journal.put(keys.page_key(page_id), page_rows.encode_page(page))
        if due <= now:
            self._queue(host, sort_key, now)
            host.has_waited(sort_key)
            return
        if self.rescoring is not None:
            self.rescoring.waits(page_id)
        self._journal.put(queue_rows.waiting_key(due, page_id), queue_rows.pack_sort_key(sort_key, host.name))
        self._journal.count_queued(host, 1)
        self._budgets.note(host)
        if self._next_waiting is None or due < self._next_waiting:
            self._next_waiting = due

    def _write_ending(self, page_id: int, page: Page, host: Host) -> None:
        if page_id >= keys.FIRST_VISIT:  # a further visit of a known page leaves no trace
            self._journal.delete(keys.page_key(page_id))
        else:
            self._journal.put(keys.page_key(page_id), page_rows.encode_page(page))
            self._journal.count_ended(host, page.state, status=page.status)

    # -- waking up -------------------------------------------------------------------------------------

    def _end_waits(self, now: float) -> None:
        """Put pages that need not wait any longer back into their queues."""
        is_over, self._is_over, self._has_opened = self._is_over, False, False
        if is_over or (self._next_waiting is not None and self._next_waiting <= now):
            self._wake(now, is_over)

    def _wake(self, now: float, is_over: bool) -> None:
        """Put pages whose backoff has passed, or any if all *is_over*, back into their queues, a handful at a
        time."""
        self._next_waiting = None
        rows = list(self._store.scan(keys.WAITING, after=self._waiting_cursor, limit=_WAKE_LIMIT + 1))
        for index, (key, value) in enumerate(rows):
            when = queue_rows.waiting_time(key)
            if (when > now and not is_over) or index == _WAKE_LIMIT:
                self._next_waiting = when
                break
            sort_key, name = queue_rows.unpack_sort_key(value)
            if when > now:
                self._last_tries.add(queue_rows.sort_key_id(sort_key))
            else:
                self._waiting_cursor = key[1:]
            host = self._host(name)
            self._journal.delete(key)
            self._journal.count_queued(host, -1)
            self._queue(host, sort_key, now)
            host.has_waited(sort_key)
        self.commit()

    def wake_at(self) -> float | None:
        """When `lease` is next worth calling if nothing happens before; None: waiting does not help."""
        if self._budgets.due or self._is_spilling or self._has_opened or self._is_over:
            return 0.0
        times = (self._hosts.next_ready(), self._next_waiting, self._leases.next_deadline())
        return min((when for when in times if when is not None), default=None)

    # -- the end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Commit, mark the end as clean, and close the store. Leases that are out stay queued."""
        try:
            for lease in self._leases:
                self._journal.touch(self._host(lease.host))
            if self.rescoring is not None:
                self.rescoring.save()
            self._journal.end_run()
        finally:
            self._store.close()
