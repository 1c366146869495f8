"""What sites ask for: delays, rests after trouble, holds, and errands beside the pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import UnreadableRecord
from .hosts import delays, last_call
from .hosts.cooldown import PATIENCE
from .hosts.finish import first_to_open
from .hosts.host import FOREVER
from .pages.discovery import Discovery
from .pages.leases import NO_LEASE, Lease
from .parse.urls import host_of
from .store.keys import robots_key
from .store.site_rows import decode_copy, encode_copy
from .store.states import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .hosts.host import Host
    from .hosts.troubles import Rest, Trouble
    from .store.site_rows import RobotsCopy

_BUSY = 0.25  # seconds until an errand asks again for a place of a host that has none free


class Sites(Discovery):
    """The verbs about hosts and their clocks."""

    # -- time ------------------------------------------------------------------------------------------

    def set_delay(self, name: str, delay: float, now: float, source: str = delays.SETTINGS) -> None:
        """From now on *source* asks for at least *delay* seconds between two leases of a host in memory;
        `delays.deciding` says who of all that ask decides."""
        host = self._hosts.by_name.get(name)
        if host is not None and host.ask(source, delay):
            host.reset_clock()
            self._put_anew(host, now)

    def site_delay(self, name: str, seconds: float, now: float, source: str = delays.ROBOTS_TXT) -> bool:
        """Obey a site that asks for *seconds* between two requests, one at a time; 0 takes it back.

        The largest of all sources counts; what the operator ordered stands. Whether anything changed.
        """
        host = self._hosts.by_name.get(name)
        if host is None or delays.OPERATOR in host.asked or not host.ask(source, seconds):
            return False
        host.reset_clock()
        self._put_anew(host, now)
        return True

    def cool(self, name: str, trouble: Trouble, now: float) -> Rest:
        """Leave a host alone after *trouble*, and say what becomes of the page that met it; on its way to
        the disk when this returns."""
        self._journal.check()
        host = self._host(name)
        rest = self._troubles.meet(host, trouble, now)
        if rest.cooldown.strikes > PATIENCE and trouble.is_silent and trouble.failure is not None:
            last_call.give_up(host, trouble, rest.cooldown.until, now)
            self.given_up.append((host, trouble))
        self._put_anew(host, now)
        self._forget_if_idle(host, now)
        self.commit()
        return rest

    def rests(self, name: str, now: float) -> bool:
        """Whether a host rests after trouble; for one that is in memory, as each with a lease out is."""
        host = self._hosts.by_name.get(name)
        return host is not None and host.cooldown is not None and host.cooldown.until > now

    # -- what a site asks for --------------------------------------------------------------------------

    def hold(self, name: str, now: float, until: float = FOREVER, trouble: Trouble | None = None) -> None:
        """Give no page of a host in memory away before *until*, or before `release_hold`.

        Its pages stay queued and pending: no lease, no attempt, no row is written. A host that is dropped
        from memory is no longer held. *trouble*: what happened so many times as it has attempts.
        """
        host = self._hosts.by_name.get(name)
        if host is None:
            return
        host.held_for = trouble
        if trouble is not None and trouble.attempts > PATIENCE and trouble.failure is not None:
            last_call.give_up(host, trouble, until, now)
            self.given_up.append((host, trouble))
            until = now
        self._hosts.hold(host, until, now)
        if now < until < FOREVER:
            self._held.add(name)

    def release_hold(self, name: str, now: float) -> None:
        """End a `hold`."""
        self.hold(name, now, 0.0)

    def held(self, now: float) -> dict[str, float]:
        """Hosts held until a known time, and that time; O(hosts held)."""
        hosts = ((name, self._hosts.by_name.get(name)) for name in self._held)
        found = {name: host.held_until for name, host in hosts if host is not None}
        found = {name: until for name, until in found.items() if now < until < FOREVER}
        self._held.intersection_update(found)
        return found

    def begin_visit(self, name: str, now: float, despite_hold: bool = False) -> float:
        """Ask to fetch something beside the pages of a host (robots.txt, sitemaps): seconds to wait, then
        ask again; 0: it begins now, and `end_visit` has to follow.

        It obeys the host's clock and concurrency like a page, and the next page keeps the delay after it, in
        the next run too. Of a blocked or held host nothing is fetched; *despite_hold* is for robots.txt.
        """
        self._journal.check()
        host = self._host(name)
        wait = max(host.ready_at - now, 0.0)
        if host.is_blocked:
            wait = FOREVER
        elif host.held_until > now and not despite_hold:
            wait = max(wait, host.held_until - now)
        elif not host.has_room:
            wait = max(wait, _BUSY)
        if not wait:
            self._visit(host, now)
            self._journal.touch(host)
        self._hosts.put(host, now)
        self._forget_if_idle(host, now)
        return wait

    def end_visit(self, name: str, now: float) -> None:
        """An errand has ended. The delay counts from here: it opened the connection, which takes long."""
        host = self._hosts.by_name.get(name)
        if host is None:
            return
        host.in_flight -= 1
        host.visited = now
        host.reset_clock()
        self._journal.touch(host)
        self._hosts.put(host, now)
        self._forget_if_idle(host, now)

    def robots_copy(self, authority: str) -> RobotsCopy | None:
        """What is kept of the robots.txt of *authority* (scheme://host:port); one lookup. None for a row
        that cannot be read: the file is asked for again."""
        stored = self._store.get(robots_key(authority))
        try:
            return decode_copy(stored) if stored is not None else None
        except UnreadableRecord:
            return None

    def hastened(self, copy: RobotsCopy, now: float) -> RobotsCopy:
        """*copy*, but in haste a file that could not be read is asked for again as soon as a page would be,
        the first times; not where the site asks for less."""
        if self._haste is None or not 0 < copy.failures < self._haste.attempts or copy.status == 429:
            return copy
        return copy._replace(ask_at=min(copy.ask_at, now + self._haste.pause(copy.failures)))

    def keep_robots_copy(self, authority: str, copy: RobotsCopy) -> None:
        """Keep what was learnt of a robots.txt, for the runs to come too; written before this returns."""
        self._journal.check()
        self._journal.put(robots_key(authority), encode_copy(copy))
        self._journal.is_open = True
        self.commit()

    # -- the end ---------------------------------------------------------------------------------------

    def ends_at(self, now: float, patience: float) -> float | None:
        """When the crawl should end although pages are left; None while there is something to do.

        It waits for hosts that do not answer, or want to be asked later (`finish`), *patience* seconds in all
        since a page last came to an end; and ends at once where none of them opens by then. In haste it ends
        with no page left: hosts are asked sooner, or their pages given up (`last_call`). To be asked when
        nothing is under way; afterwards `wake_at` may tell another time. O(hosts) while all are shut.
        """
        if self._leases or self.is_refilling:
            return None
        hosts = self._hosts.by_name.values()
        first = first_to_open(hosts, now)
        if first is not None and self._haste is not None:
            self._opened(last_call.hasten(hosts, self._haste, now), now)
            first = first_to_open(hosts, now)
        if first is None or (first := min(first, self._first_waiting())) <= now or first == FOREVER:
            return None
        if self._alone_since is None:
            self._alone_since = now
        end = self._alone_since + patience
        if first <= end or self._haste is None:
            return end if first <= end else now
        self._opened(last_call.abandon(hosts, now), now)
        self._is_over = True
        return None

    def last_lease(self, page_id: int, now: float) -> Lease | None:
        """A lease at the end of the crawl for a queued page whose request no other run can make; None for any
        other page. It is no lease of the store's: the row stays, and nobody has to release it."""
        page = self.page(page_id)
        if page is None or page.state is not State.QUEUED:
            return None
        host = self._host(page.host or host_of(page.url))
        trouble = last_call.trouble_at_the_end(host, page, now)
        return Lease(NO_LEASE, page_id, page, host.name, b"", now, FOREVER, given_up=trouble, is_last=True)

    def _opened(self, hosts: Iterable[tuple[Host, Trouble | None]], now: float) -> None:
        """Give hosts their places; those with a trouble are given up because of it."""
        for host, trouble in hosts:
            self._put_anew(host, now)
            self._has_opened = self._has_opened or host.is_ready
            if trouble is not None:
                self.given_up.append((host, trouble))
