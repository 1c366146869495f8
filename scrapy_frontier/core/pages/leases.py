"""Leases: who may fetch what, until when, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..hosts.cooldown import Trouble
    from ..store.page_rows import Page
    from .lifecycle import Event

NO_LEASE = 0  # the id of a lease that none was granted for


class Lease(NamedTuple):
    """Permission to fetch one page once, until ``deadline`` (POSIX seconds)."""

    id: int
    page_id: int
    page: Page
    host: str
    sort_key: bytes
    leased_at: float
    deadline: float
    before: tuple[float, float] = (0.0, 0.0)  # the host's clock: last visit, ready at
    given_up: Trouble | None = None  # the page is not to be asked for: it ends with this
    is_last: bool = False  # nobody waits for the page any longer: it cannot be put off again


class Outcome(NamedTuple):
    """How a lease ended.

    ``payload`` and ``priority`` replace the page's own where a retry changed them; ``delay`` is the
    backoff in seconds. ``target`` is the page a redirect led to. ``host`` is the one whose queue a page that
    is queued again belongs to, where that is another.
    """

    event: Event
    status: int = 0
    reason: str = ""
    target: int | None = None
    payload: bytes | None = None
    priority: int | None = None
    delay: float = 0.0
    host: str = ""


class Leases:
    """The leases that are out, in order of their deadlines: all last equally long."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._by_id: dict[int, Lease] = {}
        self._on_wire: dict[int, bool | None] = {}  # whether the request went out; None: nobody tells
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def grant(
        self,
        page_id: int,
        page: Page,
        host: str,
        sort_key: bytes,
        now: float,
        before: tuple[float, float],
        given_up: Trouble | None = None,
        is_last: bool = False,
    ) -> Lease:
        self._last_id += 1
        lease = Lease(
            self._last_id,
            page_id,
            page,
            host,
            sort_key,
            now,
            now + self.timeout,
            before,
            given_up,
            is_last,
        )
        self._by_id[lease.id] = lease
        self._on_wire[lease.id] = None
        return lease

    def sending(self, lease_id: int) -> Lease | None:
        """The lease whose request is about to go out, which `sent` or `leave_wire` will follow; None if it
        takes no place of its host, or that was said before."""
        if self._on_wire.get(lease_id, True) is not None:
            return None
        self._on_wire[lease_id] = False
        return self._by_id[lease_id]

    def sent(self, lease_id: int) -> Lease | None:
        """The lease whose request went out just now; None for one that was not `sending`."""
        if self._on_wire.get(lease_id) is not False:
            return None
        self._on_wire[lease_id] = True
        return self._by_id[lease_id]

    def leave_wire(self, lease_id: int) -> tuple[Lease, bool | None] | None:
        """The lease whose request takes up a place of its host no longer, and whether it was sent (None:
        nobody told); None if it did not before."""
        if lease_id not in self._on_wire:
            return None
        return self._by_id[lease_id], self._on_wire.pop(lease_id)

    def end(self, lease_id: int) -> Lease | None:
        return self._by_id.pop(lease_id, None)

    def next_deadline(self) -> float | None:
        return next((lease.deadline for lease in self._by_id.values()), None)

    def expired(self, now: float) -> list[int]:
        """Leases whose deadline has passed."""
        found = []
        for lease in self._by_id.values():
            if lease.deadline > now:
                break
            found.append(lease.id)
        return found

    def get(self, lease_id: int) -> Lease | None:
        return self._by_id.get(lease_id)

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._by_id.values())
