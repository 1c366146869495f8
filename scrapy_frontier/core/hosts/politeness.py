"""The clock of each host: when it may be asked, and how many requests are under way.

A request takes a slot of its host from its hand-out until it has been answered or has failed. Times are POSIX
seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .host import FOREVER, FROM_SETTINGS, ROBOTS_TXT, SENDING, Host, Trouble, is_new
from .trouble import PATIENCE

if TYPE_CHECKING:
    import random

    from ..store.batch import Batch
    from ..store.records import Page
    from .host_order import FairHostQueue
    from .hosts import Hosts
    from .trouble import Cooled, HostTroubles

_BUSY = 0.25  # seconds until a side request asks again for a slot of a busy host


@dataclass(eq=False, slots=True)
class HostSlot:
    """The slot of its host that a request takes; it began at ``leased_at``. Only `HostPoliteness` changes it.

    ``is_on_wire``: it takes the slot. ``was_sent``: whether it has been sent, None if no hook reports that.
    ``is_alone``: no other request of its host was under way when it began. ``before``: last request and
    ``ready_at`` of its host before it.
    """

    host: str
    page: Page
    leased_at: float
    is_on_wire: bool = field(default=True, init=False)
    was_sent: bool | None = field(default=None, init=False)
    is_alone: bool = field(default=False, init=False)
    before: tuple[float, float] = field(default=(0.0, 0.0), init=False)


class HostPoliteness:
    """Applies delays, rests, holds and blocks to *hosts*, and updates *host_queue* after each change."""

    def __init__(
        self,
        batch: Batch,
        hosts: Hosts,
        host_queue: FairHostQueue,
        troubles: HostTroubles,
        rng: random.Random,
    ) -> None:
        self._batch = batch
        self.hosts = hosts
        self._host_queue = host_queue
        self._troubles = troubles
        self._rng = rng  # draws the pauses of hosts that have a jitter
        # By host: when its newest side request began, and its clock before; see `end_side_request`.
        self._side_requests: dict[str, tuple[float, float]] = {}

    # -- requests for pages ----------------------------------------------------------------------------

    def visit(self, host: Host, now: float) -> None:
        """Begin a request of *host*: its delay starts at *now*, and is longer by its random jitter."""
        host.in_flight += 1
        host.visited = now
        if host.delay:
            lengthening = 1 + host.jitter * self._rng.random() if host.jitter else 1
            host.ready_at = now + host.delay * lengthening
        self._host_queue.update(host, now)

    def will_send(self, slot: HostSlot, now: float) -> bool:
        """Return whether the delay of the host counts from when the request is sent: then call `on_sent`.
        Until that, or `on_response`, no other request of the host is handed out."""
        host = self.hosts.by_name[slot.host]  # in memory, because a page of it is queued
        if not host.delay or not slot.is_on_wire or slot.was_sent is not None:
            return False
        slot.was_sent = False
        slot.is_alone = host.in_flight == 1
        host.sending += 1
        self._host_queue.update(host, now)
        return True

    def on_sent(self, slot: HostSlot, now: float) -> None:
        """Note that a request has been sent: the delay of its host counts from *now*. Does nothing unless
        `will_send` was true, or the second time."""
        if not slot.is_on_wire or slot.was_sent is not False:
            return
        slot.was_sent = True
        host = self.hosts.get(slot.host)
        host.sending -= 1
        host.visited = max(host.visited, now)
        host.ready_at = max(host.ready_at, now + host.delay)
        self._host_queue.update(host, now)

    def on_response(
        self, slot: HostSlot, now: float, has_answered: bool = False, was_asked: bool = True
    ) -> None:
        """Free the slot of a request that has been answered or has failed; its lease stays out. Does nothing
        the second time.

        With *was_asked* false nothing was sent to the host: its clock is as before the request, if no other
        request can have begun since.
        """
        if not slot.is_on_wire:
            return
        host = self.hosts.get(slot.host)
        if has_answered:
            self._troubles.answered(host, slot.leased_at, now)
        if was_asked or slot.was_sent is not False:
            self.release_slot(slot, host, now)
            return
        self._leave(slot, host)
        if slot.is_alone and host.visited == slot.leased_at:  # no other began while it was about to be sent
            host.visited, ready_at = slot.before
            host.reset_clock()  # the delay may be another now
            host.ready_at = max(host.ready_at, ready_at)
        self._host_queue.update(host, now)

    def release_slot(self, slot: HostSlot, host: Host, now: float) -> None:
        """Free the slot of a request of *host* that was on the wire."""
        self._leave(slot, host)
        if host.delay and (host.is_slowed_by_site or not slot.was_sent):
            # The delay that a site asks for counts from its answer, as in Nutch. If no hook reports when a
            # request is sent, the delay counts from a little after the hand-out at the latest.
            is_unknown = slot.was_sent is None and not host.is_slowed_by_site
            sent = min(now, slot.leased_at + SENDING) if is_unknown else now
            host.ready_at = max(host.ready_at, sent + host.delay)
        self._host_queue.update(host, now)

    def undo_visit(self, slot: HostSlot, now: float, is_replaced: bool = False) -> Host | None:
        """Undo `visit` for the request begun last, which was never sent; returns its host, with its clock as
        before, or None if the request was not on the wire. Call `FairHostQueue.update` after it.
        *is_replaced*: a side request is sent to the host instead."""
        if not slot.is_on_wire:
            return None
        host = self.hosts.get(slot.host)
        self._leave(slot, host)
        if not is_replaced:
            self._host_queue.undo_turn(host, now)
        if host.visited == slot.leased_at:
            host.visited, host.ready_at = slot.before
            if host.visited and host.delay:  # the delay may have grown meanwhile
                host.ready_at = max(host.ready_at, host.visited + host.delay)
        return host

    def _leave(self, slot: HostSlot, host: Host) -> None:
        slot.is_on_wire = False
        host.in_flight -= 1
        host.sending -= slot.was_sent is False

    # -- side requests ---------------------------------------------------------------------------------

    def begin_side_request(self, name: str, now: float) -> float:
        """Begin a request that is for no page of the queue (robots.txt, a file of a pipeline), if it may
        begin now: returns 0, and `end_side_request` has to follow. Else returns the seconds to wait before
        the next call, infinity for a blocked host.

        It obeys delay and concurrency of the host like a page, but no hold. While it is under way, nothing
        else is requested from a host that has a delay. The delay after it outlives the run. Raises
        `FrontierUnwritable`.
        """
        self._batch.check()
        host = self.hosts.get(name)
        wait = max(host.ready_at - now, 0.0)
        if host.is_blocked:
            wait = FOREVER
        elif not host.has_room:
            wait = max(wait, _BUSY)
        if not wait:
            self._side_requests[name] = FOREVER if host.in_flight else now, host.visited
            host.side_requests += 1
            self.visit(host, now)
            self._batch.touch(host)
        self.hosts.update_or_forget(host, now)
        return wait

    def end_side_request(self, name: str, now: float, was_asked: bool = True) -> None:
        """End a side request: its slot is free, and the delay of the host counts from *now*. With *was_asked*
        false nothing was sent: if no other request was under way, the clock is as before. Does nothing for a
        host that is not in memory, or has none under way: its shard may have been lost and taken again."""
        begun_at, before = self._side_requests.pop(name, (FOREVER, 0.0))
        host = self.hosts.find(name)
        if host is None or not host.side_requests:
            return
        host.in_flight -= 1
        host.side_requests -= 1
        is_undone = not was_asked and not host.in_flight and host.visited == begun_at
        host.visited = before if is_undone else now
        host.reset_clock()
        self._batch.touch(host)
        self.hosts.update_or_forget(host, now)

    # -- delays ----------------------------------------------------------------------------------------

    def set_delay(self, name: str, delay: float, now: float) -> None:
        """Set the *delay* in seconds that the settings ask of a host in memory; `host.deciding` chooses among
        the delays of all sources."""
        self._ask(name, FROM_SETTINGS, delay, now)

    def site_delay(self, name: str, seconds: float, now: float, source: str = ROBOTS_TXT) -> bool:
        """Set the delay in *seconds* that a site asks for, with one request at a time; 0 removes it. Returns
        whether that changes delay or concurrency: an order of the operator, or a larger delay from another
        source, prevails. May commit, so call it before rows are staged."""
        host = self.hosts.get(name) if seconds else self.hosts.find(name)
        if host is None or not is_new(host.asked, source, seconds):
            return False
        return self._ask(name, source, seconds, now)

    def order_delay(self, name: str, seconds: float | None, now: float) -> None:
        """Set the operator's delay of a host in *seconds*, which prevails over all others; None removes it.
        Commits. Raises `FrontierUnwritable`."""
        self.hosts.order(name, self.hosts.orders(name)._replace(delay=seconds), now)

    def _ask(self, name: str, source: str, seconds: float, now: float) -> bool:
        host = self.hosts.find(name)
        if host is None or not host.ask(source, seconds):
            return False
        host.reset_clock()
        self._host_queue.update(host, now)
        return True

    # -- rests, holds, blocks --------------------------------------------------------------------------

    def record_cooldown(self, name: str, trouble: Trouble, now: float) -> Cooled:
        """Let a host rest after *trouble*; returns its rest, and whether the page that met the trouble keeps
        its attempts. Commits. Raises `FrontierUnwritable`."""
        self._batch.check()
        host = self.hosts.get(name)
        rest = self._troubles.record(host, trouble, now)
        host.visited = host.visited or now  # a side request may have met it; a row of zeros counts as none
        self._host_queue.update(host, now)
        self.hosts.forget_if_idle(host, now)
        self._batch.commit()
        return rest

    def is_cooling(self, name: str, now: float) -> bool:
        """Return whether a host in memory rests after trouble. No store read."""
        host = self.hosts.by_name.get(name)
        return host is not None and host.cooldown is not None and host.cooldown.until > now

    def hold(self, name: str, now: float, until: float = FOREVER, trouble: Trouble | None = None) -> None:
        """Hand out no page of a host in memory before *until* (POSIX seconds; 0 ends a hold).

        Its pages stay queued and pending: no lease, no attempt, no row. A host that is forgotten is no longer
        held. *trouble* is the reason. After it happened `PATIENCE` ``times`` without an answer the pages of
        the host are given up; in a temporary frontier, after as many times as a page has attempts.
        """
        host = self.hosts.find(name)
        if host is None:
            return
        host.held_for, host.held_until = trouble, until
        rule = self._troubles.give_up_rule
        patience = PATIENCE if rule is None else rule.attempts - 1
        is_silent = trouble is not None and trouble.failure is not None
        if trouble is not None and trouble.times > patience and (is_silent or rule is not None):
            self._troubles.give_up(host, trouble, until, now)
        self._host_queue.update(host, now)

    def block(self, name: str, now: float) -> None:
        """Hand out no page of a host, in this and later runs; its pages stay queued. Commits. Raises
        `FrontierUnwritable`."""
        self.hosts.order(name, self.hosts.orders(name)._replace(blocked=int(now)), now)

    def unblock(self, name: str, now: float) -> bool:
        """End a block of a host, and its rest after trouble; returns whether there was either. Commits.
        Raises `FrontierUnwritable`."""
        orders, host = self.hosts.orders(name), self.hosts.find(name)
        rested = self._troubles.end_rest(name, host, now)
        self.hosts.order(name, orders._replace(blocked=None), now)
        return rested or orders.blocked is not None
