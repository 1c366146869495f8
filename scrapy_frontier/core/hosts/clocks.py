"""When a host may be asked: its clock, who makes it wait, and what is asked of it beside the pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..parse.urls import origin_of
from . import delay_sources, giving_up
from .cooldown import PATIENCE, Trouble
from .domain import READY
from .host import FOREVER, SENDING, Host
from .ready_hosts import Hosts, has_room

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    from ..store.batch import Batch
    from ..store.page_rows import Page
    from .delay_sources import ResponseDelay
    from .giving_up import GivenUpPages, GiveUpRule
    from .host_cooldowns import Cooldowns, Cooled
    from .load_hosts import HostTable

_BUSY = 0.25  # seconds until an errand asks again for a place of a host that has none free


@dataclass(eq=False, slots=True)
class UnderWay:
    """What a lease knows of its request, which was begun at ``leased_at``; once it is out, `Clocks` alone
    changes it.

    While that takes up a place of its host it ``is_on_wire``; ``was_sent`` says whether it went out, None
    where nobody tells the frontier. One that ``is_alone`` found no other of its host under way.
    """

    host: str
    page: Page
    leased_at: float
    is_on_wire: bool = field(default=True, kw_only=True)
    was_sent: bool | None = field(default=None, init=False)
    is_alone: bool = field(default=False, init=False)
    before: tuple[float, float] = field(default=(0.0, 0.0), init=False)  # the clock of its host


@dataclass(eq=False, repr=False)
class Clocks:
    """The clocks of the hosts in *table*, and what takes up their places.

    It keeps their delays, rests, holds and blocks too; a host gets its place with each change. With a
    ``give_up_rule`` nobody comes back to the store, so that the crawl ends with no page left. Times are POSIX
    seconds.
    """

    _batch: Batch
    _hosts: Hosts
    _table: HostTable
    _cooldowns: Cooldowns
    _response_delay: ResponseDelay
    give_up_rule: GiveUpRule | None
    _rng: random.Random  # draws the pauses of hosts that have a jitter
    _holds: dict[str, float] = field(default_factory=dict, init=False)  # until a known time, or over since
    _errands: dict[str, tuple[float, float]] = field(default_factory=dict, init=False)  # see `end_errand`
    _given_up: list[GivenUpPages] = field(default_factory=list, init=False)  # since somebody last looked

    # -- requests --------------------------------------------------------------------------------------

    def visit(self, host: Host, now: float) -> None:
        """A request of *host* begins at *now*: its clock starts anew, with a pause that may be drawn longer
        (its jitter); `Hosts.put` has to follow."""
        host.in_flight += 1
        host.visited = now
        if host.delay:
            lengthening = 1 + host.jitter * self._rng.random() if host.jitter else 1
            host.ready_at = now + host.delay * lengthening

    def sending(self, lease: UnderWay, now: float) -> bool:
        """Whether the delay after a request is to be counted from when it goes out: then `sent` has to say
        so, and until that, or `off_wire`, nothing else of its host is handed out."""
        host = self._hosts.by_name[lease.host]  # where it is as long as one of its pages is queued
        if not host.delay or not lease.is_on_wire or lease.was_sent is not None:
            return False
        lease.was_sent = False
        lease.is_alone = host.in_flight == 1
        host.sending += 1
        self._hosts.put(host, now)
        return True

    def sent(self, lease: UnderWay, now: float) -> None:
        """A request has gone out: the delay of its host counts from *now*. Only after `sending` was true, and
        once; else nothing is done."""
        if not lease.is_on_wire or lease.was_sent is not False:
            return
        lease.was_sent = True
        host = self._table.get(lease.host)
        host.sending -= 1
        host.visited = max(host.visited, now)
        host.ready_at = max(host.ready_at, now + host.delay)
        self._hosts.put(host, now)

    def off_wire(
        self, lease: UnderWay, now: float, response_time: float | None = None, was_asked: bool = True
    ) -> None:
        """A request has left the network: its host has room again. The lease goes on.

        *response_time* in seconds says that the host answered, and how fast; None: it did not. With
        *was_asked* false nothing went to it: if it is sure that nothing else did either since the hand-out,
        its clock is again as before. Nothing is done the second time.
        """
        if not lease.is_on_wire:
            return
        host = self._hosts.by_name.get(lease.host) or self._table.get(lease.host)
        if response_time is not None:
            self._answered(host, lease, response_time, now)
        if was_asked or lease.was_sent is not False:
            self.left(lease, host, now)
            return
        self._leave(lease, host)
        if lease.is_alone and host.visited == lease.leased_at:  # while it was about to go out no other began
            host.visited, ready_at = lease.before
            host.reset_clock()  # who makes it wait may have changed meanwhile
            host.ready_at = max(host.ready_at, ready_at)
        self._hosts.put_anew(host, now)

    def left(self, lease: UnderWay, host: Host, now: float) -> None:
        """A request of *host* that was on the wire has left it: the host has room again, and its clock counts
        from here as far as nobody told when it went out, or a site asks for the delay."""
        self._leave(lease, host)
        if host.delay and (host.is_asked or not lease.was_sent):
            # What a site asks for is counted from its answer, as Nutch does. Where nobody tells when a
            # request goes out, from no later than a little after the hand-out.
            untold = lease.was_sent is None and not host.is_asked
            sent = min(now, lease.leased_at + SENDING) if untold else now
            host.ready_at = max(host.ready_at, sent + host.delay)
        self._hosts.put(host, now)

    def take_back(self, lease: UnderWay, now: float, is_replaced: bool = False) -> Host | None:
        """The request begun last never was: its host, whose clock, and whose turn unless that *is_replaced*,
        are as before; `Hosts.put` has to follow. None where it was not on the wire."""
        if not lease.is_on_wire:
            return None
        host = self._table.get(lease.host)
        self._leave(lease, host)
        if not is_replaced:
            self._hosts.taken_back(host, now)
        if host.visited == lease.leased_at:
            host.visited, host.ready_at = lease.before
            if host.visited and host.delay:  # which may have grown meanwhile
                host.ready_at = max(host.ready_at, host.visited + host.delay)
        return host

    def _leave(self, lease: UnderWay, host: Host) -> None:
        lease.is_on_wire = False
        host.in_flight -= 1
        host.sending -= lease.was_sent is False

    def _answered(self, host: Host, lease: UnderWay, response_time: float, now: float) -> None:
        url = lease.page.url
        if self.give_up_rule is not None and url[: url.find("/", 8)] not in host.origins:
            where = origin_of(url)
            if where:
                host.origins |= {where}
        if host.cooldown is not None:
            self._cooldowns.answered(host, lease.leased_at, now)
        if self._response_delay.factor:
            host.response_time = delay_sources.smoothed(host.response_time, response_time)
            host.ask(delay_sources.RESPONSE_TIME, self._response_delay.delay(host.response_time))

    def begin_errand(self, name: str, now: float) -> float:
        """Ask to fetch something beside the pages of a host (its robots.txt): seconds to wait, then ask
        again; 0: it begins now, and `end_errand` has to follow.

        It obeys the host's clock and concurrency like a page; the delay after it outlives the run. Nothing is
        fetched of a host blocked (infinite); a hold does not count. Raises `FrontierUnwritable`.
        """
        self._batch.check()
        host = self._table.get(name)
        wait = max(host.ready_at - now, 0.0)
        if host.is_blocked:
            wait = FOREVER
        elif not has_room(host):
            wait = max(wait, _BUSY)
        if not wait:
            self._errands[name] = FOREVER if host.in_flight else now, host.visited
            self.visit(host, now)
            self._batch.touch(host)
        self._table.put_or_forget(host, now)
        return wait

    def end_errand(self, name: str, now: float, was_asked: bool = True) -> None:
        """An errand has ended; its host has room again. The delay counts from here: to connect takes long.
        With *was_asked* false nothing went out: where no other request was under way, the clock is as before.
        Nothing for a host not in memory."""
        begun_at, before = self._errands.pop(name, (FOREVER, 0.0))
        host = self._hosts.find(name)
        if host is None:
            return
        host.in_flight -= 1
        is_undone = not was_asked and not host.in_flight and host.visited == begun_at
        host.visited = before if is_undone else now
        host.reset_clock()
        self._batch.touch(host)
        self._table.put_or_forget(host, now)

    # -- who makes it wait -----------------------------------------------------------------------------

    def ask(self, name: str, source: str, seconds: float, now: float) -> bool:
        """*source* asks for *seconds* between two leases of a host in memory; whether that changes anything.

        False for a host that is not. 0 takes back what a site asked for. The largest counts, but for the
        operator's.
        """
        host = self._hosts.find(name)
        if host is None or not host.ask(source, seconds):
            return False
        host.reset_clock()
        self._hosts.put_anew(host, now)
        return True

    def site_delay(
        self, name: str, seconds: float, now: float, source: str = delay_sources.ROBOTS_TXT
    ) -> bool:
        """Obey a site that asks for *seconds* between two requests, one at a time; 0 takes it back.

        The largest of all sources counts; what the operator ordered stands. Whether anything changed.
        """
        host = self._hosts.by_name.get(name) or self._hosts.find(name)
        if host is None or not delay_sources.is_new(host.asked, source, seconds):
            return False
        return self.ask(name, source, seconds, now)

    def cool(self, name: str, trouble: Trouble, now: float) -> Cooled:
        """Leave a host alone after *trouble*, and say what becomes of the page that met it; on its way to the
        disk when this returns. Raises `FrontierUnwritable`."""
        self._batch.check()
        host = self._table.get(name)
        rest = self._cooldowns.meet(host, trouble, now)
        host.visited = host.visited or now  # by a request of somebody else's; a row of zeros is none
        host.ready_at = max(host.ready_at, rest.cooldown.until)
        if rest.cooldown.strikes > PATIENCE and trouble.is_silent and trouble.failure is not None:
            self._give_up(host, trouble, rest.cooldown.until, now)
        self._hosts.put_anew(host, now)
        self._table.forget_if_idle(host, now)
        self._batch.commit()
        return rest

    def set_delay(self, name: str, delay: float, now: float) -> None:
        """From now on the settings ask for at least *delay* seconds between two leases of a host in memory;
        `delay_sources.deciding` says who of all that ask decides."""
        self.ask(name, delay_sources.FROM_SETTINGS, delay, now)

    def block(self, name: str, now: float) -> None:
        """Leave a host alone, in the runs to come too: its pages stay queued, but withheld. Committed; raises
        `FrontierUnwritable`."""
        self._table.order(name, self._table.orders(name)._replace(blocked=int(now)), now)

    def order_delay(self, name: str, seconds: float | None, now: float) -> None:
        """From now on the operator's delay of a host in *seconds* holds, whatever others ask for; None takes
        it back. Committed; raises `FrontierUnwritable`."""
        self._table.order(name, self._table.orders(name)._replace(delay=seconds), now)

    def unblock(self, name: str, now: float) -> bool:
        """End a block, and the rest of a host that met trouble; whether there was one. Committed; raises
        `FrontierUnwritable`."""
        orders, host = self._table.orders(name), self._hosts.find(name)
        rested = self._cooldowns.end_cooldown(name, host, now)
        self._table.order(name, orders._replace(blocked=None), now)
        return rested or orders.blocked is not None

    def is_cooling(self, name: str, now: float) -> bool:
        """Whether a host rests after trouble; for one of which a lease is out, or that has a queue. No store
        read."""
        host = self._hosts.by_name.get(name)
        return host is not None and host.cooldown is not None and host.cooldown.until > now

    def hold(self, name: str, now: float, until: float = FOREVER, trouble: Trouble | None = None) -> None:
        """Give no page of a host in memory away before *until* (POSIX seconds), or before `release_hold`.

        Its pages stay queued and pending: no lease, no attempt, no row is written. A host that is dropped
        from memory is no longer held. *trouble*: what happened, and how many ``times``; after
        `PATIENCE` of them its pages are given up.
        """
        host = self._hosts.find(name)
        if host is None:
            return
        host.held_for = trouble
        if trouble is not None and trouble.times > PATIENCE and trouble.failure is not None:
            self._give_up(host, trouble, until, now)
            until = now
        self._hosts.hold(host, until, now)
        if now < until < FOREVER:
            self._holds[name] = until

    def _give_up(self, host: Host, trouble: Trouble, until: float, now: float) -> None:
        host.give_up(trouble, until, now)
        self._given_up.append(giving_up.gave_up(host, trouble))

    def take_given_up(self) -> tuple[GivenUpPages, ...]:
        """What was given up since this was asked last."""
        found = tuple(self._given_up)
        self._given_up.clear()
        return found

    def release_hold(self, name: str, now: float) -> None:
        """End a `hold`: its pages may be had when its clock allows. Nothing for a host not in memory."""
        self.hold(name, now, 0.0, None)

    def held(self, now: float) -> dict[str, float]:
        """Hosts held until a known time, and that time (POSIX seconds); O(hosts held since the last call)."""
        holds, by_name = self._holds.items(), self._hosts.by_name
        self._holds = {
            name: until
            for name, until in holds
            if until > now and (host := by_name.get(name)) is not None and host.held_until == until
        }
        return dict(self._holds)

    def shorten_waits(self, now: float) -> bool:
        """Ask hosts sooner than they are due, and give up those that are silent; whether one is ready.
        To be called where there is a ``give_up_rule``. O(hosts)."""
        assert self.give_up_rule is not None
        hosts = self._hosts.by_name.values()
        return self._open(giving_up.shorten_waits(hosts, self.give_up_rule, now), now)

    def give_up_all(self, now: float) -> bool:
        """Give up all that is left, whoever is to be asked; whether something is. O(hosts)."""
        return self._open(giving_up.give_up_all(self._hosts.by_name.values(), now), now)

    def _open(self, hosts: Iterable[tuple[Host, Trouble | None]], now: float) -> bool:
        """Give hosts their places; those with a trouble are given up because of it. Whether one is ready."""
        is_ready = False
        for host, trouble in hosts:
            self._hosts.put_anew(host, now)
            is_ready = is_ready or host.state is READY
            if trouble is not None:
                self._given_up.append(giving_up.gave_up(host, trouble))
        return is_ready
