"""When a host may be asked: its clock, who makes it wait, and what is asked of it beside the pages.

The hosts in memory: how they come there from their rows, and how they leave.

A host is in memory while it has queued pages, requests under way, or a delay that has not passed. `Hosts`
says whose turn it is; here is what they are made of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from ..errors import lenient
from ..parse.urls import origin_of
from ..store import keys, queue_keys, records
from ..store.records import COMES_BACK, HostRow, Orders, all_orders
from . import giving_up
from . import host as delay_sources
from .host import (
    FOREVER,
    HEADS,
    IDLE,
    LINGERING,
    NO_ROW,
    PATIENCE,
    READY,
    SENDING,
    Host,
    Politeness,
    Trouble,
    host_of_page,
)
from .ready_hosts import Hosts, has_room

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Mapping

    from ..store.batch import Batch
    from ..store.records import Page
    from .budgets import Budgets
    from .giving_up import Cooldowns, Cooled, GivenUpPages, GiveUpRule
    from .host import ResponseDelay


def maker(
    politeness: Mapping[str, Politeness], otherwise: Politeness, budgets: Budgets
) -> Callable[[str, HostRow], Host]:
    """A function that makes a host of its name and its row, and has it count for its domain. *politeness*
    maps hosts to limits of their own, *otherwise* holds for all others."""

    def make(name: str, row: HostRow) -> Host:
        host = Host(name, row, politeness.get(name, otherwise))
        budgets.enter(host)
        return host

    return make


@dataclass(eq=False, repr=False)
class HostTable:
    """Loads the hosts of the store into *hosts*. The filter takes in the names that earlier runs left.

    After a kill (not *was_clean*) a host may have been visited up to *opened_at* without its row saying so.
    """

    _batch: Batch
    _hosts: Hosts
    _budgets: Budgets
    _cooldowns: Cooldowns
    _response_delay: ResponseDelay
    _opened_at: float
    _was_clean: bool
    _to_load: bytes | None = field(default=b"", init=False)
    # By name. One that was forgotten since has nothing queued.
    blocked: dict[str, Host] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._orders = dict(all_orders(self._batch.store))
        self._latest = self._opened_at  # when a host left the memory last: no row of this run is newer

    @property
    def is_loaded(self) -> bool:
        """Whether all hosts with queued pages are in memory, and the counts of domains whole."""
        return self._to_load is None

    def load(self, now: float, limit: int) -> None:
        """Look at *limit* more rows: about 20 us for a host with queued pages, 1 us for another one."""
        assert self._to_load is not None
        self._batch.commit()
        if len(self._hosts.by_name) > self._hosts.most_awake:
            self._hosts.put_some_to_sleep(self._batch)
        rows = list(self._batch.store.scan(keys.HOST, after=self._to_load, limit=limit))
        for key, value in rows:
            self._batch.seen.add(key)
            name = key[1:].decode()
            is_there = self._hosts.is_there(name)
            if not is_there or self._budgets.is_counting:
                row = self._row(name, value)
                self._budgets.count(name, row)
                if row.queued and not is_there:
                    self._hosts.put(self._enter(name, row), now)
                elif not is_there:
                    self._hosts.was_visited(name, min(row.visited, self._opened_at), now)
        self._to_load = rows[-1][0][1:] if len(rows) == limit else None
        if self._to_load is None:
            self._budgets.counted()

    def get(self, name: str) -> Host:
        """The host in memory, loaded if need be: some lookups, or none for a host that is surely new. May
        commit, so call it before rows are staged."""
        host = self._hosts.find(name)
        if host is None:
            if name in self._batch.left:
                self._batch.commit()
            key = keys.host_key(name)
            is_new = self._to_load is None and self._batch.seen.is_new(key)
            stored = None if is_new else self._batch.store.get(key)
            host = self._enter(name, NO_ROW if stored is None else self._row(name, stored))
            self._batch.seen.add(key)
        return host

    def of_page(self, page: Page) -> Host:
        """`get` the host whose queue *page* belongs to."""
        return self.get(host_of_page(page))

    def row_of(self, name: str) -> HostRow | None:
        """What is known of a host, which is not loaded for that; None: nothing. A lookup for one not
        awake."""
        host = self._hosts.by_name.get(name)
        stored = self._batch.store.get(keys.host_key(name)) if host is None else None
        return host if stored is None else self._row(name, stored)

    def _row(self, name: str, stored: bytes) -> HostRow:
        return lenient(records.decode_host, stored) or self._counted(name)

    def _counted(self, name: str) -> HostRow:
        """What other rows say of a host whose own cannot be read: how many pages it has to come. O(these, and
        all that wait)."""
        store, prefix = self._batch.store, queue_keys.queue_prefix(name)
        waiting = (place.sort_key for place in queue_keys.waiting_places(store) if place.host == name)
        row = HostRow(visited=self._opened_at)
        for sort_key in chain((key[len(prefix) :] for key, _ in store.scan(prefix)), waiting):
            row.queued += 1
            row.queued_again += sort_key.startswith(COMES_BACK)
        for unit in keys.deferred_units(name):
            for key, _ in store.scan(keys.deferred_prefix(unit)):
                page = self._batch.read_page(queue_keys.sort_key_id(key))
                row.deferred += page is not None and host_of_page(page) == name
        return row

    def _enter(self, name: str, row: HostRow) -> Host:
        is_known = row is not NO_ROW and row != NO_ROW
        is_visit_assumed = is_known and not self._was_clean
        visited = row.visited
        if visited > self._latest:  # a clock that was set back must not silence it for longer than its delay
            row.visited = self._opened_at
        elif is_visit_assumed:
            row.visited = max(visited, self._opened_at)
        host = self._hosts.make(name, row)
        if visited <= self._opened_at:
            self._hosts.was_visited(name, visited, self._opened_at)
        if is_known:  # what earlier runs learnt of it
            if host.response_time and self._response_delay.factor:
                host.ask(delay_sources.RESPONSE_TIME, self._response_delay.delay(host.response_time))
            self._cooldowns.recall(host, self._opened_at)
            host.reset_clock()
        if name in self._orders:
            self._obey(host, self._orders[name])
        self._hosts.by_name[name] = host
        if is_visit_assumed and host.delay:
            self._batch.touch(host)
        if host.queued:
            self.fill(host)
        return host

    def _obey(self, host: Host, orders: Orders) -> None:
        """What the operator ordered."""
        host.is_blocked = orders.blocked is not None
        if host.is_blocked:
            self.blocked[host.name] = host
        else:
            self.blocked.pop(host.name, None)
        host.ask(delay_sources.OPERATOR, orders.delay)
        host.reset_clock()

    def order(self, name: str, orders: Orders, now: float) -> None:
        """Obey these orders of the operator from now on; written before this returns. Raises
        `FrontierUnwritable`."""
        row = None if orders == Orders() else records.encode_orders(orders)
        self._batch.rows[keys.orders_key(name)] = row
        self._batch.commit()
        self._orders[name] = orders
        host = self._hosts.find(name)
        if host is not None:
            self._obey(host, orders)
            self._hosts.put_anew(host, now)

    def orders(self, name: str) -> Orders:
        """What the operator ordered for a host, nothing where there is nothing; no store read."""
        return self._orders.get(name, Orders())

    def ordered_delay(self, name: str) -> float | None:
        """The delay in seconds that the operator ordered for a host; None: none. O(1), no store read."""
        return self.orders(name).delay

    def fill(self, host: Host) -> None:
        """Read the best of its queue from the disk, where pages there could come before those in memory;
        commits first. One seek for eight pages, none where nothing is missing."""
        if host.needs_sort_keys():
            self._batch.commit()
            while host.needs_sort_keys():
                host.filled(self._batch.store.keys_of(host.prefix, host.cursor, HEADS), HEADS)

    def counts_changed(self, host: Host) -> None:
        """What *host* has queued, fetched or put aside has changed: have its domain count it, before the host
        may leave the memory. O(1)."""
        self._budgets.note(host)

    def put_or_forget(self, host: Host, now: float) -> None:
        """Have *host* stand where it belongs, after whatever changed of its queue or its clock; one with
        nothing queued and nothing under way leaves the memory once its delay has passed."""
        self.fill(host)
        self._hosts.put(host, now)
        self._budgets.freed(host)
        self.forget_if_idle(host, now)

    def forget_if_idle(self, host: Host, now: float) -> None:
        """Let go of a host with nothing queued and nothing under way, once its delay has passed; its row, in
        the open batch, says what there is to know. Nothing for any other."""
        self._latest = max(self._latest, now)
        if host.state in (IDLE, LINGERING) and not host.in_flight and not host.queued:
            self._batch.write_host(host)
            self._hosts.forget(host, now)


_BUSY = 0.25  # seconds until a side request asks again for a place of a host that has none free


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
    _side_requests: dict[str, tuple[float, float]] = field(
        default_factory=dict, init=False
    )  # see `end_side_request`
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

    def begin_side_request(self, name: str, now: float) -> float:
        """Ask to fetch something beside the pages of a host (its robots.txt): seconds to wait, then ask
        again; 0: it begins now, and `end_side_request` has to follow.

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
            self._side_requests[name] = FOREVER if host.in_flight else now, host.visited
            self.visit(host, now)
            self._batch.touch(host)
        self._table.put_or_forget(host, now)
        return wait

    def end_side_request(self, name: str, now: float, was_asked: bool = True) -> None:
        """End a side request: its host has room again, and the delay counts from *now* (to connect takes
        long).

        With *was_asked* false nothing went out: if no other request was under way, the clock is as before.
        Does nothing for a host not in memory.
        """
        begun_at, before = self._side_requests.pop(name, (FOREVER, 0.0))
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
