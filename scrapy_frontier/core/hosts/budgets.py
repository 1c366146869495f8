"""How many pages of a host, or of a registered domain, may be fetched and queued; and who comes back when.

Owns the limits, the counts of domains, and which *units* (hosts, domains, depth) have pages that wait for
room. Counts of domains are those of their hosts, added up while the hosts are loaded: nothing of them is on
disk that could disagree. Writes nothing; `Deferral` puts pages off and queues them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import reasons
from ..store import keys
from .host import Host, Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.keys import PageId
    from ..store.records import HostRow

KEPT = 10  # a unit keeps so many times its budget of pages for later; what is linked beyond is only counted


class Limits(NamedTuple):
    """The most pages fetched and pages queued, of a host and of a registered domain, and links from a seed;
    0: no limit."""

    host_pages: int = 0
    host_pending: int = 0
    domain_pages: int = 0
    domain_pending: int = 0
    depth: int = 0


NO_LIMITS = Limits()


class OverBudget(NamedTuple):
    """A budget without room: the *unit* whose it is, why in words, and whether the page is kept for later."""

    unit: str
    reason: str
    is_kept: bool = True


class Budgets:
    """Which budgets of *limits* have room, by kept counts: no store read, nothing is written.

    *domain_of* gives the registered domain of a host; it is asked once for each time a host is loaded.
    """

    def __init__(self, limits: Limits, domain_of: Callable[[str], str]) -> None:
        self.limits = limits
        self.is_limited = any(limits)
        self.is_counting = bool(limits.domain_pages or limits.domain_pending)
        self._domain_of = domain_of
        self._tallies: dict[str, Tally] = {}
        self._counts_domains = self.is_counting
        self._counted_to = b""
        self._counted_early: set[str] = set()
        self.units: dict[str, bytes] = {}  # with deferred pages, and the id behind which they stand
        self.with_room: dict[str, None] = {}  # of these, the ones with room, oldest first

    # -- counting domains --------------------------------------------------------------------------------

    def count(self, name: str, row: HostRow) -> None:
        """Count the host of a row that is read in order; does nothing for one that was loaded before."""
        if not self.is_counting:
            return
        self._counted_to = name.encode()
        if name in self._counted_early:
            self._counted_early.remove(name)
        else:
            self._add(name, row)

    def counted(self) -> None:
        """All rows of hosts have been read: from now on the counts of domains are whole, and ``is_counting``
        is false."""
        self.is_counting = False
        self._counted_early.clear()

    def enter(self, host: Host) -> None:
        """Have *host*, just loaded, count for its domain from now on, once only; does nothing where no budget
        holds for domains."""
        if not self._counts_domains:
            return
        is_counted = host.name in self._counted_early or host.name.encode() <= self._counted_to
        if self.is_counting and not is_counted:
            self._counted_early.add(host.name)
            self._add(host.name, host)
        host.tally = self._tally(host.name)
        host.tallied = host.pending, host.fetched, host.deferred, 0

    def _add(self, name: str, row: HostRow) -> None:
        tally = self._tally(name)
        tally.pending += row.pending
        tally.fetched += row.fetched
        tally.deferred += row.deferred

    def _tally(self, name: str) -> Tally:
        domain = self._domain_of(name)
        return self._tallies.setdefault(domain, Tally(domain))

    def note(self, host: Host) -> None:
        """Bring the count of its domain up to date with *host*; to be called after each change of its queue.
        O(1)."""
        tally = host.tally
        if tally is None:
            return
        pending, fetched, deferred, leased = host.tallied
        host.tallied = now = host.pending, host.fetched, host.deferred, len(host.leased)
        tally.pending += now[0] - pending
        tally.fetched += now[1] - fetched
        tally.deferred += now[2] - deferred
        tally.leased += now[3] - leased

    # -- is there room? ----------------------------------------------------------------------------------

    def over(self, host: Host, depth: int = 0, is_new: bool = True) -> OverBudget | None:
        """The budget that has no room for one more page of *host*; O(1).

        A page that *is_new* has to wait behind those that wait already, or they would wait for ever.
        """
        limits, tally = self.limits, host.tally
        if limits.depth and depth > limits.depth:
            return OverBudget(keys.DEPTH_UNIT, reasons.DEPTH(links=_links(limits.depth)))
        over = _over(host.name, "host", host, limits.host_pages, limits.host_pending)
        if over is None and tally is not None:
            unit = keys.domain_unit(tally.domain)
            over = _over(unit, "domain", tally, limits.domain_pages, limits.domain_pending)
            if over is None and is_new and unit in self.units:
                over = _behind(unit, f"domain {tally.domain}")
        has_limit = limits.host_pages or limits.host_pending
        if over is None and is_new and has_limit and host.name in self.units:
            over = _behind(host.name, f"host {host.name}")
        keeps = self._keeps
        if over is not None and not (keeps(host, limits.host_pages) and keeps(tally, limits.domain_pages)):
            return over._replace(is_kept=False)
        return over

    def _keeps(self, counts: HostRow | Tally | None, pages: int) -> bool:
        """Whether one more page may wait by a budget of *pages*: any where there is none, since one of queued
        pages holds it back for a while only; and until it is used up where what waits may be too deep."""
        if not pages or counts is None or counts.deferred < KEPT * pages:
            return True
        return bool(self.limits.depth) and counts.pending + counts.fetched < pages

    def spent(self, host: Host) -> OverBudget | None:
        """The budget of pages that is used up by what was fetched and what is being fetched; None where one
        more page may be. O(1)."""
        limits, tally = self.limits, host.tally
        if limits.host_pages and host.fetched + len(host.leased) >= limits.host_pages:
            return _over(host.name, "host", host, limits.host_pages, 0)
        if tally is not None and limits.domain_pages and tally.fetched + tally.leased >= limits.domain_pages:
            return _over(keys.domain_unit(tally.domain), "domain", tally, limits.domain_pages, 0)
        return None

    # -- who waits, and who may come back ----------------------------------------------------------------

    def deferred(self, unit: str, page_id: PageId) -> None:
        """A page of *unit* waits from now on; one that stands before those taken back last will be found
        too."""
        cursor = self.units.get(unit)
        if cursor is None or keys.id_bytes(page_id) <= cursor:
            self.units[unit] = b""

    def found(self, unit: str, host: HostRow | None) -> None:
        """Pages of *unit* wait since an earlier run; *host* is what is known of the host, if the unit is one.
        Where it has room its pages are taken back."""
        self.units.setdefault(unit, b"")
        limits = self.limits
        if host is not None:
            has_room = _has_room(host, limits.host_pages, limits.host_pending)
        elif unit.startswith("*.") and self._counts_domains:
            tally = self._tallies.get(unit[2:])
            has_room = tally is None or _has_room(tally, limits.domain_pages, limits.domain_pending)
        else:
            has_room = True
        if has_room:
            self.with_room[unit] = None

    def next_unit(self) -> tuple[str, bytes]:
        """The unit that has had room for longest, and the id behind which its pages stand; `taken` has to
        follow. Some unit must have room."""
        unit = next(iter(self.with_room))
        del self.with_room[unit]
        return unit, self.units[unit]

    def taken(self, unit: str, cursor: bytes | None, has_room: bool) -> None:
        """Of *unit* the pages up to the id *cursor* are taken back, all if that is None; it is asked for the
        next ones if it still *has_room*."""
        if cursor is None:
            del self.units[unit]
            return
        self.units[unit] = cursor
        if has_room:
            self.with_room[unit] = None

    def freed(self, host: Host) -> None:
        """Something of *host* ended: note which units have room now; O(1)."""
        self.note(host)
        limits, tally = self.limits, host.tally
        if host.name in self.units and _has_room(host, limits.host_pages, limits.host_pending):
            self.with_room[host.name] = None
        if tally is not None:
            unit = keys.domain_unit(tally.domain)
            if unit in self.units and _has_room(tally, limits.domain_pages, limits.domain_pending):
                self.with_room[unit] = None


def _over(unit: str, kind: str, counts: HostRow | Tally, pages: int, pending: int) -> OverBudget | None:
    if pages and counts.pending + counts.fetched >= pages:
        most, noun = pages, "page" if pages == 1 else "pages"
    elif pending and counts.pending >= pending:
        most, noun = pending, "queued page" if pending == 1 else "queued pages"
    else:
        return None
    name = unit.removeprefix("*.") if kind == "domain" else unit
    reason = reasons.BUDGET(most=f"{most:,} {noun}", whose=f"{kind} {name}")
    return OverBudget(unit, reason)


def _behind(unit: str, name: str) -> OverBudget:
    return OverBudget(unit, reasons.BEHIND(whose=name))


def _has_room(counts: HostRow | Tally, pages: int, pending: int) -> bool:
    """Whether waiting pages may come back; to the queue not one by one, but an eighth of it at a time."""
    if pages and counts.pending + counts.fetched >= pages:
        return False
    return not pending or counts.pending <= pending - max(pending // 8, 1)


def _links(count: int) -> str:
    return f"{count:,} link" if count == 1 else f"{count:,} links"
