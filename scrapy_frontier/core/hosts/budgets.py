"""How many pages of a host may be fetched and queued, and which hosts have room again.

Owns which hosts have pages that wait for room. Writes nothing; `Waiting` defers pages and queues them again.
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
    """The most pages fetched and pages queued of a host; 0: no limit."""

    host_pages: int = 0
    host_pending: int = 0

    def has_room(self, host: HostRow) -> bool:
        """Whether pages of *host* that wait may be queued; not one by one, but an eighth of
        ``host_pending`` at a time."""
        if self.host_pages and host.queued + host.fetched >= self.host_pages:
            return False
        most = self.host_pending
        return not most or host.queued <= most - max(most // 8, 1)


NO_LIMITS = Limits()


class OverBudget(NamedTuple):
    """A budget without room: why in words, and whether the page is kept for later."""

    reason: str
    is_kept: bool = True


class Budgets:
    """Which budgets of *limits* have room, by the counts of hosts: no store read, nothing is written.

    ``hosts`` have deferred pages: each with the id behind which they stand; ``with_room`` are those of them
    that have room, oldest first.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.is_limited = any(limits)
        self.hosts: dict[str, bytes] = {}
        self.with_room: dict[str, None] = {}

    def over(self, host: Host, is_new: bool = True) -> OverBudget | None:
        """The budget that has no room for one more page of *host*; O(1).

        A page that *is_new* has to wait behind those that wait already, or they would wait for ever.
        """
        limits = self.limits
        if limits.host_pages and host.queued + host.fetched >= limits.host_pages:
            reason = _over(host, limits.host_pages, "page")
        elif limits.host_pending and host.queued >= limits.host_pending:
            reason = _over(host, limits.host_pending, "queued page")
        elif is_new and host.name in self.hosts:
            reason = reasons.BEHIND(whose=f"host {host.name}")
        else:
            return None
        # If only the queued ones are limited any may wait: that holds a page back for a while only.
        return OverBudget(reason, not limits.host_pages or host.deferred < KEPT * limits.host_pages)

    def spent(self, host: Host) -> OverBudget | None:
        """The budget of pages, if it is used up by what was fetched and what is being fetched; None if one
        more page may be. O(1)."""
        most = self.limits.host_pages
        is_spent = most and host.fetched + len(host.leased) >= most
        return OverBudget(_over(host, most, "page")) if is_spent else None

    def deferred(self, name: str, page_id: PageId) -> None:
        """A page of a host waits from now on; one that stands before those taken back last will be found
        too."""
        cursor = self.hosts.get(name)
        if cursor is None or keys.id_bytes(page_id) <= cursor:
            self.hosts[name] = b""

    def found(self, name: str, host: HostRow | None) -> None:
        """Pages of a host wait since an earlier run; *host* is what is known of it. If it has room they are
        taken back."""
        self.hosts.setdefault(name, b"")
        if host is None or self.limits.has_room(host):
            self.with_room[name] = None

    def next_host(self) -> tuple[str, bytes]:
        """The host that has had room for longest, and the id behind which its pages stand; `taken` has to
        follow. Some host must have room."""
        name = next(iter(self.with_room))
        del self.with_room[name]
        return name, self.hosts[name]

    def taken(self, name: str, cursor: bytes | None, has_room: bool) -> None:
        """Of a host the pages up to the id *cursor* are taken back, all if that is None; it is asked for the
        next ones if it still *has_room*."""
        if cursor is None:
            del self.hosts[name]
            return
        self.hosts[name] = cursor
        if has_room:
            self.with_room[name] = None

    def freed(self, host: Host) -> None:
        """Something of *host* ended: note whether it has room now; O(1)."""
        if host.name in self.hosts and self.limits.has_room(host):
            self.with_room[host.name] = None


def _over(host: Host, most: int, noun: str) -> str:
    counted = f"{most:,} {noun}" if most == 1 else f"{most:,} {noun}s"
    return reasons.BUDGET(most=counted, whose=f"host {host.name}")
