"""When a host may be asked: its clock, who makes it wait, and what is asked of it beside the pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..parse.urls import origin
from . import delay_sources, giving_up
from .cooldown import PATIENCE, Trouble
from .domain import READY
from .host import FOREVER, SENDING, Host
from .ready_hosts import Hosts, has_room

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..store.batch import Batch
    from .delay_sources import ResponseDelay
    from .giving_up import Abandoned, Haste
    from .load_hosts import HostTable
    from .troubled_hosts import Rest, Troubles

_BUSY = 0.25  # seconds until an errand asks again for a place of a host that has none free


@dataclass(eq=False, repr=False)
class Clocks:
    """The clocks of the hosts in *table*."""

    _batch: Batch
    _hosts: Hosts
    _table: HostTable
    _troubles: Troubles
    _pace: ResponseDelay
    _haste: Haste | None
    given_up: list[Abandoned] = field(default_factory=list, init=False)  # since somebody last looked

    # -- requests --------------------------------------------------------------------------------------

    def send(self, host: Host, now: float) -> None:
        """A request is about to go out: the delay counts from then, and nothing else is asked before."""
        host.sending += 1
        self._hosts.put(host, now)

    def sent(self, host: Host, now: float) -> None:
        """It has gone out."""
        host.sending -= 1
        host.visited = max(host.visited, now)
        host.ready_at = max(host.ready_at, now + host.delay)
        self._hosts.put(host, now)

    def leave(self, host: Host, was_sent: bool | None) -> None:
        """A request takes up a place of its host no longer; *was_sent* None: nobody told."""
        host.in_flight -= 1
        host.sending -= was_sent is False

    def left(self, host: Host, begun: float, was_sent: bool | None, now: float) -> None:
        """A request that had *begun* then has left the network."""
        self.leave(host, was_sent)
        if host.delay and (host.is_asked or not was_sent):
            # What a site asks for is counted from its answer, as Nutch does. Where nobody tells when a
            # request goes out, from no later than a little after the hand-out.
            untold = was_sent is None and not host.is_asked
            sent = min(now, begun + SENDING) if untold else now
            host.ready_at = max(host.ready_at, sent + host.delay)
        self._hosts.put(host, now)

    def answered(self, host: Host, url: str, begun: float, response_time: float, now: float) -> None:
        """A request for *url* was answered; `left` has to follow."""
        if self._haste is not None and url[: url.find("/", 8)] not in host.origins:
            where = origin(url)
            if where:
                host.origins |= {where}
        if host.cooldown is not None:
            self._troubles.answered(host, begun, now)
        if self._pace.factor:
            host.response_time = delay_sources.smoothed(host.response_time, response_time)
            host.ask(delay_sources.RESPONSE_TIME, self._pace.delay(host.response_time))

    def take_back(self, host: Host, begun: float, before: tuple[float, float]) -> None:
        """The request that had *begun* then never was; *before* it, this was the clock."""
        if host.visited == begun:
            host.visited, host.ready_at = before
            if host.visited and host.delay:  # which may have grown meanwhile
                host.ready_at = max(host.ready_at, host.visited + host.delay)

    def begin_visit(self, name: str, now: float, despite_hold: bool = False) -> float:
        """Ask to fetch something beside the pages of a host (robots.txt, sitemaps): seconds to wait, then
        ask again; 0: it begins now, and `end_visit` has to follow.

        It obeys the host's clock and concurrency like a page, and the next page keeps the delay after it, in
        the next run too. Of a blocked or held host nothing is fetched; *despite_hold* is for robots.txt.
        """
        self._batch.check()
        host = self._table.get(name)
        wait = max(host.ready_at - now, 0.0)
        if host.is_blocked:
            wait = FOREVER
        elif host.held_until > now and not despite_hold:
            wait = max(wait, host.held_until - now)
        elif not has_room(host):
            wait = max(wait, _BUSY)
        if not wait:
            self._hosts.visit(host, now)
            self._batch.touch(host)
        self._table.put_or_forget(host, now)
        return wait

    def end_visit(self, name: str, now: float) -> None:
        """An errand has ended. The delay counts from here: it opened the connection, which takes long."""
        host = self._hosts.find(name)
        if host is None:
            return
        host.in_flight -= 1
        host.visited = now
        host.reset_clock()
        self._batch.touch(host)
        self._table.put_or_forget(host, now)

    # -- who makes it wait -----------------------------------------------------------------------------

    def ask(self, name: str, source: str, seconds: float, now: float) -> bool:
        """*source* asks for a delay of a host in memory; whether that changes anything."""
        host = self._hosts.find(name)
        if host is None or not host.ask(source, seconds):
            return False
        host.reset_clock()
        self._hosts.put_anew(host, now)
        return True

    def obey(self, name: str, seconds: float, now: float, source: str = delay_sources.ROBOTS_TXT) -> bool:
        """Obey a site that asks for *seconds* between two requests, one at a time; 0 takes it back.

        The largest of all sources counts; what the operator ordered stands. Whether anything changed.
        """
        host = self._hosts.by_name.get(name) or self._hosts.find(name)
        if host is None or delay_sources.OPERATOR in host.asked or host.asked.get(source, 0.0) == seconds:
            return False
        return self.ask(name, source, seconds, now)

    def cool(self, name: str, trouble: Trouble, now: float) -> Rest:
        """Leave a host alone after *trouble*, and say what becomes of the page that met it; on its way to
        the disk when this returns."""
        self._batch.check()
        host = self._table.get(name)
        rest = self._troubles.meet(host, trouble, now)
        if rest.cooldown.strikes > PATIENCE and trouble.is_silent and trouble.failure is not None:
            self._give_up(host, trouble, rest.cooldown.until, now)
        self._hosts.put_anew(host, now)
        self._table.forget_if_idle(host, now)
        self._batch.commit()
        return rest

    def set_delay(self, name: str, delay: float, now: float) -> None:
        """From now on the settings ask for at least *delay* seconds between two leases of a host in memory;
        `delay_sources.deciding` says who of all that ask decides."""
        self.ask(name, delay_sources.SETTINGS, delay, now)

    def block(self, name: str, now: float) -> None:
        """Leave a host alone, in the runs to come too: its pages stay queued, but withheld. Committed."""
        self._table.order(name, self._table.orders(name)._replace(blocked=int(now)), now)

    def order_delay(self, name: str, seconds: float | None, now: float) -> None:
        """From now on the operator's delay of a host holds, whatever others ask for; None takes it back.
        Committed."""
        self._table.order(name, self._table.orders(name)._replace(delay=seconds), now)

    def unblock(self, name: str, now: float) -> bool:
        """End a block, and the rest of a host that met trouble; whether there was one. Committed."""
        orders, host = self._table.orders(name), self._hosts.find(name)
        rested = self._troubles.end_rest(name, host, now)
        self._table.order(name, orders._replace(blocked=None), now)
        return rested or orders.blocked is not None

    def rests(self, name: str, now: float) -> bool:
        """Whether a host rests after trouble; for one of which a lease is out, or that has a queue."""
        host = self._hosts.by_name.get(name)
        return host is not None and host.cooldown is not None and host.cooldown.until > now

    def hold(self, name: str, now: float, until: float = FOREVER, trouble: Trouble | None = None) -> None:
        """Give no page of a host in memory away before *until*, or before `release_hold`.

        Its pages stay queued and pending: no lease, no attempt, no row is written. A host that is dropped
        from memory is no longer held. *trouble*: what happened so many times as it has attempts.
        """
        host = self._hosts.find(name)
        if host is None:
            return
        host.held_for = trouble
        if trouble is not None and trouble.attempts > PATIENCE and trouble.failure is not None:
            self._give_up(host, trouble, until, now)
            until = now
        self._hosts.hold(host, until, now)

    def _give_up(self, host: Host, trouble: Trouble, until: float, now: float) -> None:
        giving_up.give_up(host, trouble, until, now)
        self.given_up.append(giving_up.abandoned(host, trouble))

    def release_hold(self, name: str, now: float) -> None:
        """End a `hold`."""
        self.hold(name, now, 0.0, None)

    def held(self, now: float) -> dict[str, float]:
        """Hosts held until a known time, and that time; O(hosts in memory)."""
        hosts = self._hosts.by_name.values()
        return {host.name: host.held_until for host in hosts if now < host.held_until < FOREVER}

    def open(self, hosts: Iterable[tuple[Host, Trouble | None]], now: float) -> bool:
        """Give hosts their places; those with a trouble are given up because of it. Whether one is ready."""
        is_ready = False
        for host, trouble in hosts:
            self._hosts.put_anew(host, now)
            is_ready = is_ready or host.place is READY
            if trouble is not None:
                self.given_up.append(giving_up.abandoned(host, trouble))
        return is_ready
