"""Leases: who may fetch what, until when, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from ..store.keys import FIRST_VISIT
from ..store.link_rows import REDIRECT, Edge
from ..store.states import QUEUED, State
from .signal_trust import may_send

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


@dataclass(eq=False, slots=True)
class Lease:
    """Permission to fetch one page once, until ``deadline`` (POSIX seconds).

    ``page_id`` is opaque to callers; ``node`` is the page whose links gather on it as ``edges``: the same,
    but for a further visit, of which `Frontier.identify` has to say what page it is for. While its request
    takes up a place of its host the lease ``is_on_wire``; ``was_sent`` says whether that went out, None:
    nobody tells.
    """

    id: int
    page_id: PageId
    page: Page
    host: str
    sort_key: bytes
    leased_at: float
    deadline: float
    delay: float
    asked: Mapping[str, float]
    given_up: Trouble | None  # the page is not to be asked for: it ends with this
    is_last: bool = False  # nobody waits for the page any longer: it cannot be put off again
    is_return: bool = False  # it ended before, and stays so until this visit ends
    is_forced: bool = False  # it is asked for unconditionally, and its callback called
    is_on_wire: bool = False
    was_sent: bool | None = None
    before: tuple[float, float] = (0.0, 0.0)  # the clock of its host
    node: PageId | None = None
    edges: list[PlainEdge] = field(default_factory=list)

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

    def led_to(self, state: State) -> Sequence[PlainEdge]:
        """The link of a page that was not read, and is in *state* now: to where it led."""
        if state is not State.REDIRECTED or self.target is None or self.target >= FIRST_VISIT:
            return ()
        return (Edge(self.target, REDIRECT | self.flags),)


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

    def grant(
        self, page_id: int, page: Page, host: Host, sort_key: bytes, now: float, given_up: Trouble | None
    ) -> Lease:
        """A lease of a page of *host*, whose clock is still as before."""
        number = self._last_id = self._last_id + 1
        until = now + self.timeout
        lease = Lease(
            number, page_id, page, host.name, sort_key, now, until, host.delay, host.asked, given_up
        )
        lease.before = host.visited, host.ready_at
        lease.is_return = page.state is not QUEUED
        if page_id < FIRST_VISIT:
            lease.node = page_id
        lease.is_on_wire = True
        self.by_id[number] = lease
        return lease

    def expired(self, now: float) -> list[Lease]:
        """Leases whose deadline has passed."""
        return list(takewhile(lambda lease: lease.deadline <= now, self.by_id.values()))
