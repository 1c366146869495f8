"""Leases: who may fetch what, until when, and how it ended."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..store.keys import FIRST_VISIT
from ..store.states import QUEUED, State
from .signal_trust import may_send

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..hosts.cooldown import Trouble
    from ..hosts.host import Host
    from ..store.link_rows import PlainEdge
    from ..store.page_rows import Page
    from .lifecycle import Event
    from .links import PageId
    from .revisit_policy import Met
    from .visits import Fetched, VisitEnd

WRITTEN_WITHIN = 0.1  # seconds that the end of a lease may wait for others
NO_LEASE = 0  # the id of a lease that none was granted for


class Lease:
    """Permission to fetch one page once, until ``deadline`` (POSIX seconds).

    ``page_id`` is opaque to callers; ``node`` is the page whose links gather on it as ``edges``: the same,
    but for a further visit, of which `Frontier.identify` has to say what page it is for. While its request
    takes up a place of its host the lease ``is_on_wire``; ``was_sent`` says whether that went out, None:
    nobody tells. Both are for `Leases`.
    """

    __slots__ = (
        "asked",
        "before",
        "deadline",
        "delay",
        "edges",
        "given_up",
        "host",
        "id",
        "is_forced",
        "is_last",
        "is_on_wire",
        "is_return",
        "leased_at",
        "node",
        "page",
        "page_id",
        "sort_key",
        "was_sent",
    )

    def __init__(
        self,
        number: int,
        page_id: PageId,
        page: Page,
        host: Host,
        sort_key: bytes,
        leased_at: float,
        deadline: float,
        given_up: Trouble | None = None,
        is_last: bool = False,
    ) -> None:
        self.id = number
        self.page_id = page_id
        self.page = page
        self.host = host.name
        self.sort_key = sort_key
        self.leased_at = leased_at
        self.deadline = deadline
        self.before = host.visited, host.ready_at  # its clock
        self.delay, self.asked = host.delay, host.asked
        self.given_up = given_up  # the page is not to be asked for: it ends with this
        self.is_last = is_last  # nobody waits for the page any longer: it cannot be put off again
        self.is_return = page.state is not QUEUED  # it ended before, and stays so until this visit ends
        self.is_forced = False  # it is asked for unconditionally, and its callback called
        self.is_on_wire = False
        self.was_sent: bool | None = None
        self.node: PageId | None = page_id if page_id < FIRST_VISIT else None
        self.edges: list[PlainEdge] = []

    def __repr__(self) -> str:
        return f"<Lease {self.id} of {self.page.url}>"

    @property
    def may_send(self) -> tuple[bytes, bytes]:
        """The tag and the date to ask for the page with; both b"": unconditionally, for there are none, or
        somebody wants it, or they are not believed, or only now and then."""
        visits = self.page.visits
        if self.is_forced or visits is None or self.node is None:
            return b"", b""
        return may_send(visits.trust, self.node, *visits.validators)


class Outcome(NamedTuple):
    """How a lease ended.

    ``payload`` and ``priority`` replace the page's own where a retry changed them; ``delay`` is the
    backoff in seconds. ``target`` is the page a redirect led to. ``host`` is the one whose queue a page that
    is queued again belongs to, where that is another. If the page was read and the callback told all its
    links, or it led to another or is gone, it ``has_links`` that are known: those that gathered on the lease,
    the one to the ``target`` (with these ``flags``), or none. ``content_score`` is what the callback thinks
    of it (0: nothing, 1: as of any other).

    ``met`` says what a further visit of a page met, where the event and the status do not; ``fetched`` is
    what the response was, if there was one: it is kept.
    """

    event: Event
    status: int = 0
    reason: str = ""
    target: PageId | None = None
    payload: bytes | None = None
    priority: int | None = None
    delay: float = 0.0
    host: str = ""
    has_links: bool = False
    flags: int = 0
    content_score: float | None = None
    met: Met | None = None
    fetched: Fetched | None = None


# `Outcome` of a tuple of all fields, in half the time.
new_outcome: Callable[[tuple[Any, ...]], Outcome] = partial(tuple.__new__, Outcome)


class Released(NamedTuple):
    """The answer to an outcome: the state of the page now (None: nobody knows it), whether the lease had
    ended before, so that nothing was done, how many links gathered on a page that was read, what a
    further visit of a page came to, and whether the end is written, or waits for others."""

    state: State | None
    is_late: bool = False
    links: int = 0
    visit: VisitEnd | None = None
    is_written: bool = True


class Leases:
    """The leases that are out, in order of their deadlines: all last equally long."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.by_id: dict[int, Lease] = {}
        self._last_id = 0

    def __len__(self) -> int:
        return len(self.by_id)

    def grant(
        self, page_id: int, page: Page, host: Host, sort_key: bytes, now: float, given_up: Trouble | None
    ) -> Lease:
        """A lease of a page of *host*, whose clock is still as before."""
        number = self._last_id = self._last_id + 1
        lease = Lease(number, page_id, page, host, sort_key, now, now + self.timeout, given_up)
        self.by_id[number] = lease
        lease.is_on_wire = True
        return lease

    def sending(self, lease: Lease) -> bool:
        """Its request is about to go out, which `sent` or `leave_wire` will follow; false if it takes no
        place of its host, or that was said before."""
        if not lease.is_on_wire or lease.was_sent is not None:
            return False
        lease.was_sent = False
        return True

    def sent(self, lease: Lease) -> bool:
        """Its request went out just now; false for one that was not `sending`."""
        if not lease.is_on_wire or lease.was_sent is not False:
            return False
        lease.was_sent = True
        return True

    def leave_wire(self, lease: Lease) -> bool:
        """Its request takes up a place of its host no longer; false if it did not before."""
        was_on_wire, lease.is_on_wire = lease.is_on_wire, False
        return was_on_wire

    def end(self, lease: Lease) -> bool:
        """The lease is no more; false if it was not before."""
        return self.by_id.pop(lease.id, None) is not None

    def next_deadline(self) -> float | None:
        return next((lease.deadline for lease in self.by_id.values()), None)

    def expired(self, now: float) -> list[Lease]:
        """Leases whose deadline has passed."""
        found = []
        for lease in self.by_id.values():
            if lease.deadline > now:
                break
            found.append(lease)
        return found

    def get(self, lease_id: int) -> Lease | None:
        return self.by_id.get(lease_id)

    def __iter__(self) -> Iterator[Lease]:
        return iter(self.by_id.values())
