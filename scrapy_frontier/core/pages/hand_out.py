"""Pages out: which page is handed out next, what becomes of its turn, and when nothing more is to be had."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .. import reasons
from ..errors import UnreadableRow
from ..hosts.end_of_crawl import first_pause_over, first_to_open
from ..hosts.giving_up import why_given_up
from ..hosts.host import FOREVER
from ..store.page_rows import queued_page
from ..store.states import QUEUED
from ..transitions import Event
from .deferred import PAGES_AT_A_TIME
from .leases import Outcome

if TYPE_CHECKING:
    from ..hosts.budgets import Budgets
    from ..hosts.clocks import Clocks
    from ..hosts.host import Host
    from ..hosts.load_hosts import HostTable
    from ..hosts.ready_hosts import Hosts
    from ..revisits.share import RevisitShare
    from ..store.batch import Batch
    from .backoffs import Backoffs
    from .deferred import Deferral
    from .endings import Endings
    from .leases import Lease, Leases
    from .queue import Queue
    from .revisit_queue import RevisitQueue


@dataclass(eq=False, repr=False)
class HandOut:
    """Hands out the best page of the host whose turn it is. Writes nothing but what was open before, and
    what is put aside on the way."""

    _batch: Batch
    _hosts: Hosts
    _table: HostTable
    _budgets: Budgets
    _clocks: Clocks
    _leases: Leases
    _queue: Queue
    _backoffs: Backoffs
    _deferred: Deferral
    _endings: Endings
    _revisit_queue: RevisitQueue
    _share: RevisitShare | None
    # Only hosts that are shut are left, since then and so many finished pages; see `ends_at`.
    _alone: tuple[int, float] | None = field(default=None, init=False)
    _is_spilling = False
    _has_opened = False  # since the last lease pages can be had that could not before
    _is_over = False  # nobody waits for backoffs

    # -- the next page ---------------------------------------------------------------------------------

    def lease(self, now: float) -> Lease | None:
        """The best page of the best host that may be visited at *now*, or None; O(log hosts) and a lookup.

        None commits what is open, and is O(1) while no host is ready. A page that is given up takes no place
        of its host, and is no visit. Leases whose deadline has passed are ended first, and backoffs that are
        over. Raises `FrontierUnwritable`.
        """
        self._catch_up(now)
        budgets, batch = self._budgets, self._batch
        if budgets.is_counting:  # until then nobody knows what a domain has left
            return None
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
        is_due = self._is_over or waiting.next <= now
        must_be_there = is_due or self._budgets.is_limited or batch.failure is not None
        if must_be_there or batch.ends + len(leases) >= leases.at_risk:
            batch.commit()
        if is_due:
            waiting.wake(now, self._is_over)
        if self._revisit_queue.revisits_pages:
            self._revisit_queue.wake(now)
        self._is_over = self._has_opened = False
        if len(self._hosts.by_name) > self._hosts.most_awake:
            self._hosts.put_some_to_sleep(batch)

    def _take(self, host: Host, sort_key: bytes | None, now: float) -> Lease | None:
        sort_key = host.take(sort_key)
        try:
            page_id, page = queued_page(self._batch.rows, self._batch.store, sort_key)
        except UnreadableRow:
            self._queue.set_aside(host, sort_key)
            self._table.put_or_forget(host, now)
            return None
        if page.state is not QUEUED and not self._revisit_queue.revisits_pages:
            self._revisit_queue.put_off(host, sort_key, page, now)
            self._table.put_or_forget(host, now)
            return None
        is_given_up = host.given_up or host.given_up_for is not None
        given_up = why_given_up(host, page, now) if is_given_up else None
        lease = self._leases.grant(page_id, page, host, sort_key, now, given_up)
        if page_id in self._backoffs.cut_short:
            self._backoffs.handed_out(page_id)
            lease.is_last = True
        if self._share is not None:
            self._share.handed_out(host, sort_key)
        if host.more and not (host.heads and host.heads[0] <= host.cursor):
            self._table.fill(host)
        self._clocks.visit(host, now)
        self._hosts.hand_out(host, now)
        if host.tally is not None:
            self._budgets.note(host)
        if given_up is not None:
            self.skip_visit(lease, now)
        return lease

    # -- its turn --------------------------------------------------------------------------------------

    def put_back(self, lease: Lease, now: float, is_replaced: bool = False) -> None:
        """End the lease granted last as if it had never been: page, clock and turns are as before. Writes
        nothing.

        *is_replaced*: the turn is used up all the same, by something else that is asked of the host.
        """
        host = self._clocks.take_back(lease, now, is_replaced)
        if self._leases.pop(lease.id, None) is None or host is None:
            return
        host.put_back(lease.sort_key)
        if lease.is_last:
            self._backoffs.taken_back(lease.page_id)
        if self._share is not None:
            self._share.taken_back()
        self._hosts.put(host, now)
        self._budgets.note(host)

    def skip_visit(self, lease: Lease, now: float) -> None:
        """Nothing will be asked of the host under the lease granted last: its clock and its turn go back, the
        lease goes on. Nothing is done where it is off the wire. Writes nothing."""
        host = self._clocks.take_back(lease, now)
        if host is not None:
            self._hosts.put(host, now)

    # -- the end ---------------------------------------------------------------------------------------

    def wake_at(self) -> float | None:
        """When `lease` is next worth calling if nothing happens before (POSIX seconds, 0: now); None: waiting
        does not help. O(1) but for what has become wrong in the heap; no store read."""
        if self._budgets.with_room or self._is_spilling or self._has_opened or self._is_over:
            return 0.0
        revisits, out = self._revisit_queue, self._leases
        times = (
            self._hosts.next_ready(),
            self._backoffs.next if self._backoffs.next < FOREVER else None,
            next(iter(out.values())).deadline if out else None,
            revisits.wake_at if revisits.revisits_pages else None,
        )
        return min((when for when in times if when is not None), default=None)

    def ends_at(self, now: float, patience: float) -> float | None:
        """When a crawl with pages left ends; see `Frontier.ends_at`."""
        if self._leases or self._hosts.asleep:
            return None
        hosts = self._hosts.by_name.values()
        first = first_to_open(hosts, now)
        if first is not None and self._clocks.give_up_rule is not None:
            self._has_opened |= self._clocks.shorten_waits(now)
            first = first_to_open(hosts, now)
        if first is None or (first := min(first, self._backoffs.next)) <= now or first == FOREVER:
            return None
        if self._revisit_queue.is_alone:
            first = min(first_pause_over(hosts, now), self._backoffs.next)
        if self._alone is None or self._alone[0] != self._endings.finished:
            self._alone = self._endings.finished, now
        end = self._alone[1] + patience
        if first <= end or self._clocks.give_up_rule is None or self._revisit_queue.is_alone:
            return end if first <= end else now
        self._has_opened |= self._clocks.give_up_all(now)
        self._is_over = True
        return None
