"""How many pages of a host may be fetched and queued, and which hosts have room again.

A *unit* is a host, or `keys.DEPTH_UNIT` for pages too many links from a seed. Owns which units have pages
that wait for room. Writes nothing; `Waiting` defers pages and queues them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import reasons
from ..store import keys

if TYPE_CHECKING:
    from ..store.keys import PageId
    from ..store.records import HostRow
    from .host import Host

KEPT = 10  # a host keeps so many times its budget of pages for later; what is linked beyond is only counted


class Limits(NamedTuple):
    """The most pages fetched and pages queued of a host, and links from a seed; 0: no limit."""

    host_pages: int = 0
    host_pending: int = 0
    depth: int = 0

    def has_room(self, host: HostRow) -> bool:
        """Whether pages of *host* that wait may be queued; not one by one, but an eighth of
        ``host_pending`` at a time."""
        if self.host_pages and host.pending + host.fetched >= self.host_pages:
            return False
        most = self.host_pending
        return not most or host.pending <= most - max(most // 8, 1)


NO_LIMITS = Limits()


class OverBudget(NamedTuple):
    """A budget without room: the *unit* whose it is, why in words, and whether the page is kept for later."""

    unit: str
    reason: str
    is_kept: bool = True


class Budgets:
    """Which budgets of *limits* have room, by the counts of hosts: no store read, nothing is written.

    ``units`` have deferred pages: each with the id behind which they stand; ``with_room`` are those of them
    that have room, oldest first.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.is_limited = any(limits)
        self.units: dict[str, bytes] = {}
        self.with_room: dict[str, None] = {}

    def over(self, host: Host, depth: int = 0, is_new: bool = True) -> OverBudget | None:
        """The budget that has no room for one more page of *host*; O(1).

        A page that *is_new* has to wait behind those that wait already, or they would wait for ever.
        """
        limits, name = self.limits, host.name
        if limits.depth and depth > limits.depth:
            over = OverBudget(keys.DEPTH_UNIT, reasons.DEPTH(links=_counted(limits.depth, "link")))
        elif limits.host_pages and host.pending + host.fetched >= limits.host_pages:
            over = _over(name, _counted(limits.host_pages, "page"))
        elif limits.host_pending and host.pending >= limits.host_pending:
            over = _over(name, _counted(limits.host_pending, "queued page"))
        elif is_new and name in self.units:
            over = OverBudget(name, reasons.BEHIND(whose=f"host {name}"))
        else:
            return None
        return over if self._keeps(host) else over._replace(is_kept=False)

    def _keeps(self, host: Host) -> bool:
        """Whether one more page of *host* may wait: any if only the queued ones are limited, since that holds
        a page back for a while only; and until the budget is used up if what waits may be too deep."""
        limits = self.limits
        if not limits.host_pages or host.deferred < KEPT * limits.host_pages:
            return True
        return bool(limits.depth) and host.pending + host.fetched < limits.host_pages

    def spent(self, host: Host) -> OverBudget | None:
        """The budget of pages, if it is used up by what was fetched and what is being fetched; None if one
        more page may be. O(1)."""
        most = self.limits.host_pages
        is_spent = most and host.fetched + len(host.leased) >= most
        return _over(host.name, _counted(most, "page")) if is_spent else None

    def deferred(self, unit: str, page_id: PageId) -> None:
        """A page of *unit* waits from now on; one that stands before those taken back last will be found
        too."""
        cursor = self.units.get(unit)
        if cursor is None or keys.id_bytes(page_id) <= cursor:
            self.units[unit] = b""

    def found(self, unit: str, host: HostRow | None) -> None:
        """Pages of *unit* wait since an earlier run; *host* is what is known of the host, if the unit is one.
        If it has room its pages are taken back."""
        self.units.setdefault(unit, b"")
        if host is None or self.limits.has_room(host):
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
        """Something of *host* ended: note whether it has room now; O(1)."""
        if host.name in self.units and self.limits.has_room(host):
            self.with_room[host.name] = None


def _over(name: str, most: str) -> OverBudget:
    return OverBudget(name, reasons.BUDGET(most=most, whose=f"host {name}"))


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
