"""How many pages of a host may be fetched, and which hosts have room again.

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


class OverBudget(NamedTuple):
    """A budget without room: why in words, and whether the page is kept for later."""

    reason: str
    is_kept: bool = True


class Budgets:
    """Which hosts have room for more pages, of *host_pages* each (0: no limit), by the counts of hosts: no
    store read, nothing is written.

    ``hosts`` have deferred pages: each with the id behind which they stand; ``with_room`` are those of them
    that have room, oldest first.
    """

    def __init__(self, host_pages: int) -> None:
        self.host_pages = host_pages
        self.is_limited = host_pages > 0
        self.hosts: dict[str, bytes] = {}
        self.with_room: dict[str, None] = {}

    def has_room(self, host: HostRow) -> bool:
        """Whether one more page of *host* may be queued; O(1)."""
        return not self.is_limited or host.queued + host.fetched < self.host_pages

    def over(self, host: Host) -> OverBudget | None:
        """The budget of *host* if it has no room for one more page; O(1)."""
        if self.has_room(host):
            return None
        return OverBudget(self._reason(host), host.deferred < KEPT * self.host_pages)

    def spent(self, host: Host) -> OverBudget | None:
        """The budget of pages, if it is used up by what was fetched and what is being fetched; None if one
        more page may be. O(1)."""
        is_spent = self.is_limited and host.fetched + len(host.leased) >= self.host_pages
        return OverBudget(self._reason(host)) if is_spent else None

    def _reason(self, host: Host) -> str:
        counted = "1 page" if self.host_pages == 1 else f"{self.host_pages:,} pages"
        return reasons.BUDGET(most=counted, whose=f"host {host.name}")

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
        if host is None or self.has_room(host):
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
        if host.name in self.hosts and self.has_room(host):
            self.with_room[host.name] = None
