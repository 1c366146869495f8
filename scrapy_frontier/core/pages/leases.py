"""The arguments and answers of a frontier: links and their answers, leases, outcomes and their answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from .. import reasons
from ..hosts.host import FOREVER
from ..hosts.politeness import HostSlot
from ..parse.urls import host_of
from ..revisits.policy import may_send
from ..store.keys import FIRST_VISIT, ID_BITS, QUEUED, State
from ..store.link_rows import REDIRECT, Edge
from ..store.records import NO_FACTS, Page
from ..transitions import EXPIRED, RETRIED, Event

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..hosts.host import Trouble
    from ..revisits.policy import Fetched, Result, VisitEnd
    from ..store.keys import PageId
    from ..store.link_rows import PlainEdge

if TYPE_CHECKING:
    from ..store.records import RequestFacts


@dataclass(slots=True)
class Link:
    """One link, from the callback that yields it to its row.

    A crawl makes it with the URL and, for the edge from its page, ``flags`` and ``weight``; it fills in the
    rest when the request reaches the scheduler.

    - ``host``: the politeness key. ``payload``: the request, opaque here; ``facts``: what the frontier has to
      know of it. ``visit_payload``: the request of the first visit if it differs. ``lastmod``: as in `Page`.
    - ``text``: the URL as written, if it alone identifies the page (`PageIndex.recognize`).
    - ``again`` queues a further visit of a known page. ``is_named``: the user named the URL, which is never
      refused. ``only_seen``: why the page is made known but not queued; empty to queue it.
    - ``parent``: the page that has the link, if no lease gathers its edges. ``anchor``: the text of the link.
    - ``bucket``: the score bucket that the page is queued with; None to ask the scorer. ``paid``: the score
      that a page of another shard pays, which then is the parent of none here; None for any other link.
    """

    fingerprint: bytes = b""
    url: str = ""
    host: str = ""
    priority: int = 0
    payload: bytes = b""
    flags: int = 0
    weight: float = 1.0
    text: str = ""
    again: bool = False
    is_named: bool = False
    only_seen: str = ""
    parent: PageId | None = None
    anchor: str = ""
    bucket: int | None = None
    facts: RequestFacts = NO_FACTS
    lastmod: int | None = None
    visit_payload: bytes = b""
    paid: float | None = None

    @property
    def kept_host(self) -> str:
        """The politeness key for its row; empty if it is the host of the URL."""
        return "" if self.host == host_of(self.url) else self.host

    @property
    def is_plain(self) -> bool:
        """Whether its row holds no more than `Batch.queue_new` writes."""
        is_stored_alone = self.facts is NO_FACTS and self.lastmod is None
        return is_stored_alone and not (self.visit_payload or self.kept_host)


class LinkVerdict(Enum):
    """What became of a link; only ``NEW`` and ``VISIT`` queue a page."""

    NEW = "new"  # its page is queued, for the first time or after it was only seen
    VISIT = "visit"  # the page is known and queued once more
    KNOWN = "known"  # nothing had to be done
    ABSENT = "absent"  # known and not fetched yet, but its request is in the memory of another process
    SEEN = "seen"  # its page is known, and not queued
    DEFERRED = "deferred"  # kept for later, until a budget has room
    POSTED = "posted"  # its page belongs to another shard, which gets a letter
    REFUSED = "refused"  # a trap, or beyond the pages that are kept for later


class Discovered(NamedTuple):
    """The answer to a link.

    ``page_id`` is that of the page, or of a further visit; None if there is none. A deferred or
    refused link has a ``reason`` and its ``kind``: ``deferred``, ``over_budget``, or the kind of a trap.
    """

    verdict: LinkVerdict
    page_id: PageId | None = None
    kind: str = ""
    reason: str = ""

    @property
    def is_taken(self) -> bool:
        """Whether the link is queued, deferred or posted."""
        return self.verdict in _TAKEN


_TAKEN = (LinkVerdict.NEW, LinkVerdict.VISIT, LinkVerdict.DEFERRED, LinkVerdict.POSTED)


def page_of_link(link: Link, parent: PageId | None, now: float) -> Page:
    """Make the record of the new page that *link* on page *parent* leads to, queued at *now*."""
    return Page(
        link.url,
        priority=link.priority,
        discovered=int(now),
        parent=parent,
        host=link.kept_host,
        payload=link.payload,
        facts=link.facts,
        lastmod=link.lastmod,
        visit_payload=link.visit_payload,
    )


@dataclass(eq=False, slots=True)
class Lease(HostSlot):
    """Permission to fetch one page once, until ``deadline`` (POSIX seconds).

    ``page_id`` and ``node`` are ids within the ``shard``. ``node`` is the page whose links gather on it as
    ``edges``: the same, or for a further visit the page that `Frontier.bind_lease` finds.
    """

    page_id: PageId
    delay: float
    asked: Mapping[str, float]
    given_up: Trouble | None = None  # the page is not requested, and fails with this
    id: int = 0
    sort_key: bytes = b""
    deadline: float = FOREVER
    is_last: bool = False  # the crawl ends: the page cannot be postponed again
    is_last_attempt: bool = False  # a retry would fail the page
    comes_back: bool = False  # the page ended before, and keeps its state until this visit ends
    node: PageId | None = None
    edges: list[PlainEdge] = field(default_factory=list)
    shard: int = 0

    @property
    def public_id(self) -> PageId:
        """The id of the page, with its shard."""
        return self.shard << ID_BITS | self.page_id

    @property
    def public_node(self) -> PageId | None:
        """The id of the page whose links gather on it, with its shard."""
        return None if self.node is None else self.shard << ID_BITS | self.node

    @property
    def may_send(self) -> tuple[bytes, bytes]:
        """The validators of a conditional request for the page, see `policy.may_send`; both empty for an
        unconditional one."""
        return may_send(self.page.visits)

    def is_last_of(self, attempts: int) -> bool:
        """Return whether this is the last attempt of a request that may be tried *attempts* times, more than
        the frontier grants; sets ``is_last_attempt`` to it."""
        if not self.is_last and self.page.attempts + 1 < attempts:
            self.is_last_attempt = False
        return self.is_last_attempt

    def queues_again(self, event: Event) -> bool:
        """Return whether the page is queued again if the lease ends with *event*."""
        return event is Event.POSTPONED or (event in (RETRIED, EXPIRED) and not self.is_last_attempt)

    def has_changed(self, digest: bytes) -> bool | None:
        """Return whether content with this *digest* differs from that of the page; None if that is unknown,
        or if it is a first visit."""
        visits = self.page.visits if self.comes_back else None
        return None if visits is None or not visits.digest or not digest else visits.digest != digest


class Outcome(NamedTuple):
    """How a lease ended.

    - Of a retry: ``visit_payload`` is its request if that changed, ``priority`` its priority, ``delay`` its
      backoff in seconds, ``host`` its queue if that changed. If it ``is_handed_back`` by a middleware, other
      pages of its host come first.
    - ``request`` replaces the payload and the facts of a page that has ended. ``target`` is the page that a
      redirect led to.
    - ``has_links``: all links of the page are known: those on the lease if it was read, the one to
      ``target`` (with these ``flags``) if it redirected, none if it is gone.
    - ``content_score`` is the worth of the page by its callback: 1 average, 0 none.
    - ``result`` is what a revisit found, if event and status do not tell it; ``fetched`` describes the
      response.
    """

    event: Event
    status: int = 0
    reason: str = ""
    target: PageId | None = None
    visit_payload: bytes | None = None
    priority: int | None = None
    delay: float = 0.0
    host: str = ""
    has_links: bool = False
    flags: int = 0
    content_score: float | None = None
    result: Result | None = None
    fetched: Fetched | None = None
    is_handed_back: bool = False
    request: tuple[bytes, RequestFacts] | None = None

    def led_to(self, state: State) -> Sequence[PlainEdge]:
        """Return the links of a page in *state* that was not read: the one to the ``target`` of its redirect,
        or none, also if the target is a further visit."""
        if state is not State.REDIRECTED or self.target is None or self.target >= FIRST_VISIT:
            return ()
        return (Edge(self.target, REDIRECT | self.flags),)


def without_request(lease: Lease, cause: str) -> Outcome:
    """Return how *lease* ends if no request can be made for its page, because of *cause*.

    Without a cause the request was in the memory of another process: the page is lost until a link or a seed
    leads to it again. Else the page fails; one that was finished before keeps its state.
    """
    event = Event.LOST if lease.comes_back or not cause else Event.FAILED
    return Outcome(event, reason=reasons.UNREADABLE(cause=cause) if cause else reasons.LOST())


class Released(NamedTuple):
    """The answer to an outcome.

    ``state`` is the state of the page now, None if the page is unknown. ``is_late``: the lease had ended
    before, and nothing was done. ``links`` counts the links of a page that was read. ``visit`` tells what a
    revisit found. ``is_written``: the end is written, and does not wait for others.
    """

    state: State | None
    is_late: bool = False
    links: int = 0
    visit: VisitEnd | None = None
    is_written: bool = True

    @property
    def is_queued(self) -> bool:
        """Whether the page is queued again."""
        return self.state is QUEUED
