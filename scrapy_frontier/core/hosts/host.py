"""The state of one host: its queue, its requests under way, its clock and its trouble.

Nothing here reads the disk or a clock: *now* is passed, and `Hosts` fills the queue from the disk.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ..parse.urls import host_of
from ..store import queue_keys
from ..store.records import HostRow, KeptHost

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ..store.keys import PageId
    from ..store.records import Cooldown, Page

HEADS = 8  # sort keys read from the disk at a time; two such runs are kept a host at most
# A request leaves some time after its hand-out: it may have to connect first. If no hook reports when it
# left, the delay counts from its answer, but from no later than this after the hand-out.
SENDING = 0.03  # seconds
FOREVER = float("inf")
_BEHIND_NEW = b"\xff\xff\xff\xff"  # no priority has this code
RETRY_EVERY = 4  # every such turn of a host goes to a page that was handed out before
_MOST_RETRIED = 1000  # pages of one host
NO_ROW = HostRow()  # of a host that is new

# One object for all hosts: an empty set of its own takes 216 bytes.
_NO_KEYS: frozenset[bytes] = frozenset()
_NO_RETRIES: dict[int, bytes] = {}  # never changed
_NONE_GIVEN_UP: Mapping[str, GivenUpOrigin] = {}

# Sources of a delay; any other source is the origin of a robots.txt.
FROM_SETTINGS = "settings"  # DOWNLOAD_DELAY, DOWNLOAD_SLOTS, AutoThrottle
OPERATOR = "operator"
ROBOTS_TXT = "robots.txt"
NO_SITES = frozenset((FROM_SETTINGS, OPERATOR))


class HostState(Enum):
    """Whether a host may be asked for a page, as `FairHostQueue.update` decides: only if it is ready."""

    IDLE = "idle"  # nothing queued
    READY = "ready"
    DELAYED = "delayed"  # by its delay, or a rest after trouble
    BLOCKED = "blocked"  # by the operator
    HELD = "held"  # until its robots.txt is known, or as long as that asks for
    BUSY = "busy"  # as many requests under way as allowed


# Names of the module: Python 3.11 takes 0.2 us to find a member in its class.
IDLE, READY, DELAYED, BLOCKED, HELD, BUSY = HostState


class Politeness(NamedTuple):
    """Least seconds between two requests to a host, requests under way at once, and how much longer than
    ``delay`` a pause may be drawn (0.5: up to half as long again; never shorter)."""

    delay: float
    concurrency: int
    jitter: float = 0.0


class Delay(NamedTuple):
    """Least ``seconds`` between two requests to a host, and the ``source`` that asks for them."""

    seconds: float
    source: str


class HostClock(NamedTuple):
    """The ``delay`` between two requests to a host in seconds and its ``source``, the operator's left out,
    and ``until`` when the host waits (POSIX seconds; 0: it does not)."""

    delay: float
    source: str
    until: float


def deciding(asked: Mapping[str, float]) -> Delay:
    """Return the delay that holds, of those *asked* for in seconds by source: the operator's, else the
    largest; of equals the one that was named first. There must be one."""
    source = OPERATOR if OPERATOR in asked else max(asked, key=asked.__getitem__)
    return Delay(asked[source], source)


def is_new(asked: Mapping[str, float], site: str, seconds: float) -> bool:
    """Return whether *site* asks for other *seconds* (0: none) than it did, and no order of the operator
    holds."""
    return asked.get(site, 0.0) != seconds and OPERATOR not in asked


@lru_cache(maxsize=64)
def by_settings(seconds: float) -> Mapping[str, float]:
    """Return the delays of a host for which only the settings ask: one mapping for all hosts; do not change
    it."""
    return {FROM_SETTINGS: seconds}


class Trouble(NamedTuple):
    """What went wrong, in words.

    ``asked`` is the host's Retry-After in seconds. ``sent`` is when the request was handed out, and
    ``page_id`` its page, for a request of the frontier. ``may_be_page``: the page alone may be the cause (a
    timeout, a reset, a bare 503). ``may_be_connection``: so may a connection that was kept open for too long.
    ``origin`` is the scheme, host and port that were asked; if there was no answer, it ``is_silent``.
    ``failure`` is the error for other pages of that origin, if they are given up. It has happened so many
    ``times``, if a host is held for it.
    """

    reason: str
    asked: float | None = None
    may_be_page: bool = False
    sent: float | None = None
    page_id: PageId | None = None
    origin: str = ""
    is_silent: bool = False
    failure: object = None
    times: int = 0
    may_be_connection: bool = False


class GivenUpOrigin(NamedTuple):
    """Pages of an origin are not asked for before ``until`` (POSIX seconds), because of ``trouble``."""

    trouble: Trouble
    until: float


_OF_OTHERS: tuple[str, ...] = ()  # its subclasses have slots of their own


class QueueHeads:
    """The best of a queue on disk, as far as it is in memory.

    ``heads`` are the sort keys of the best pages, sorted. If ``more`` is true, those behind ``cursor`` are on
    disk only.
    """

    __slots__ = _OF_OTHERS

    heads: list[bytes]
    more: bool
    cursor: bytes

    def add(self, sort_key: bytes) -> bool:
        """Take in the sort key of a queued page; true if it is the new head."""
        if self.more and sort_key > self.cursor:
            return False
        heads = self.heads
        if not heads or sort_key > heads[-1]:
            heads.append(sort_key)
        else:
            insort(heads, sort_key)
        if len(heads) > 2 * HEADS:  # leave the rest to the disk
            self.more = True
            self.cursor = heads[HEADS - 1]
            del heads[HEADS:]
        return heads[0] is sort_key

    def needs_sort_keys(self) -> bool:
        """Return whether pages on disk could come before the first head in memory: `Hosts.fill` has to
        read."""
        return self.more and (not self.heads or self.heads[0] > self.cursor)

    def filled(self, sort_keys: list[bytes], limit: int, leased: Collection[bytes]) -> None:
        """Take in what was read behind the cursor when *limit* sort keys were asked for; not those that are
        *leased*."""
        self.more = len(sort_keys) == limit
        if sort_keys:
            self.cursor = sort_keys[-1]
            self.heads.extend(sort_key for sort_key in sort_keys if sort_key not in leased)
            self.heads.sort()


class DueQueue(QueueHeads):
    """The finished pages of a host whose time to come back has come."""

    __slots__ = ("cursor", "heads", "more", "prefix")

    def __init__(self, host: str) -> None:
        self.prefix = queue_keys.due_prefix(host)
        self.heads: list[bytes] = []
        self.more = True
        self.cursor = b""


class Host(KeptHost, QueueHeads):
    """A host with queued pages or requests under way: its row, and its clock. Times in POSIX seconds.

    Its queue, a sort key a page:

    - ``heads``: of the best queued pages, sorted. If ``more`` is true, those behind ``cursor`` are on disk
      only.
    - ``leased``: of pages under way, whose rows stay on disk until their lease ends.
    - ``retried``: by page id, of queued pages that were handed out before, oldest first. One in
      `RETRY_EVERY` of its ``turns`` goes to one of these.

    When it may be asked:

    - ``state``: set by `FairHostQueue.update`; ``ready_at``: when delay and cooldown have passed, 0 for now;
      ``wakes_at``: the time of its newest entry in the heap of hosts that wait.
    - ``visited``: its last request.
    - ``delay`` (seconds), ``concurrency``: what holds; ``usual``: the concurrency of the settings; ``asked``:
      delays by source; ``jitter``: see `Politeness`.
    - ``in_flight``: requests under way, of which ``sending`` have not left yet: the delay counts from when
      they do. ``beside`` of them fetch no page of its queue. ``in_flight_before``: as `FairHostQueue` last
      saw it.
    - ``held_until``, ``held_for``: how long it is held, and why. ``is_blocked``: by the operator; its pages
      stay queued, but withheld.

    Its trouble (`trouble`):

    - ``cooldown``: its rest; ``trouble``: the last it met since it answered.
    - ``is_doubted``: it met trouble and has not answered since; then one page at a time is asked for.
    - ``given_up``: origins whose pages are not asked for any more, "" for all of them.
    """

    __slots__ = (
        "asked",
        "beside",
        "concurrency",
        "cooldown",
        "cursor",
        "delay",
        "due",
        "given_up",
        "heads",
        "held_for",
        "held_until",
        "in_flight",
        "in_flight_before",
        "is_blocked",
        "is_doubted",
        "jitter",
        "leased",
        "more",
        "ready_at",
        "retried",
        "sending",
        "state",
        "trouble",
        "turns",
        "usual",
        "wakes_at",
    )

    def __init__(self, name: str, row: HostRow, politeness: Politeness) -> None:
        self.name = name
        self.prefix = queue_keys.queue_prefix(name)
        self.queued, self.done, self.failed, self.visited = row.queued, row.done, row.failed, row.visited
        self.deferred, self.excluded, self.queued_again = row.deferred, row.excluded, row.queued_again
        self.delay, self.concurrency, self.jitter = politeness
        self.usual = self.concurrency
        self.asked = by_settings(self.delay)
        self.held_until = 0.0
        self.held_for: Trouble | None = None
        self.cooldown: Cooldown | None = None
        self.is_doubted = False
        self.trouble: Trouble | None = None
        self.given_up = _NONE_GIVEN_UP
        self.reset_clock()
        self.heads: list[bytes] = []
        self.due: DueQueue | None = None
        self.leased: set[bytes] | frozenset[bytes] = _NO_KEYS
        self.retried = _NO_RETRIES
        self.turns = 0
        self.more = row.queued > 0
        self.cursor = b""
        self.in_flight = self.in_flight_before = self.sending = self.beside = 0
        self.is_blocked = False
        self.is_kept = row is not NO_ROW
        self.state = IDLE
        self.wakes_at = 0.0

    def __repr__(self) -> str:
        heads = f"{len(self.heads)}{'+' if self.more else ''} heads"
        return f"<Host {self.name} {self.state.value}, {heads}, {self.in_flight} in active>"

    # -- its clock -------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether another request may begin: fewer than its concurrency are under way, one if it is doubted,
        none is about to leave, and none is beside its pages if it has a delay."""
        if self.sending or (self.beside and self.delay):
            return False
        return self.in_flight < (1 if self.is_doubted else self.concurrency)

    @property
    def is_slowed_by_site(self) -> bool:
        """Whether a site asks for a delay: then one request is under way at once."""
        return len(self.asked) > 1 and not NO_SITES.issuperset(self.asked)

    @property
    def is_slowed_by_settings_only(self) -> bool:
        """Whether nothing but the settings asks for its delay."""
        return self.asked is by_settings(self.delay)

    def clock(self, now: float) -> HostClock:
        """Return its clock at *now*. While its robots.txt is on its way it does not count as held: that takes
        seconds, and nothing says how many."""
        asked = {source: seconds for source, seconds in self.asked.items() if source != OPERATOR}
        held_until = self.held_until if now < self.held_until < FOREVER else 0.0
        return HostClock(*deciding(asked or by_settings(0.0)), max(self.ready_at, held_until))

    def reset_clock(self) -> None:
        """Compute ``ready_at`` anew from the last request, the delay and the cooldown. Call
        `FairHostQueue.update` after it."""
        self.ready_at = self.visited + self.delay if self.visited and self.delay else 0.0
        if self.cooldown is not None and self.cooldown.until > self.ready_at:
            self.ready_at = self.cooldown.until

    def ask(self, source: str, seconds: float | None) -> bool:
        """Set the delay in seconds that *source* asks for from now on (None, or of a site 0: none any more);
        returns whether that changes anything. While a site asks, one request is under way at once."""
        asked = dict(self.asked)
        if seconds is None or not (seconds or source in NO_SITES):
            asked.pop(source, None)
        else:
            asked[source] = seconds
        if asked == self.asked:
            return False
        self.asked = asked
        before = self.delay, self.concurrency
        self.delay = deciding(asked).seconds
        self.concurrency = self.usual if NO_SITES.issuperset(asked) else 1
        return (self.delay, self.concurrency) != before

    # -- its queue -------------------------------------------------------------------------------------

    @property
    def pages(self) -> int:
        """How many of its pages this run can hand out, or has handed out."""
        return self.queued if self.due is None else self.queued + self.queued_again

    @property
    def head(self) -> bytes | None:
        """The sort key of its best page, None if it has none. One that comes back is behind all new ones, of
        other hosts too."""
        if self.heads:
            return self.heads[0]
        due = self.due
        return _BEHIND_NEW + due.heads[0] if due is not None and due.heads else None

    def take_due(self) -> bytes:
        """Remove the head of its due queue for a lease, and return it: it is ``leased`` from now on. There
        must be one."""
        assert self.due is not None
        sort_key = self.due.heads.pop(0)
        self.leased |= {sort_key}
        return sort_key

    def add_due(self, sort_key: bytes) -> None:
        """Take in the sort key of a page in its due queue, which counts it already."""
        if self.due is None:
            self.due = DueQueue(self.name)
            self.due.more = self.queued_again > 1  # others are on the disk
        self.due.add(sort_key)

    def next_sort_key(self) -> bytes:
        """Return the sort key that `take` removes next; there must be a head.

        The best page, but in one of `RETRY_EVERY` turns the oldest of those that were handed out before,
        however good the others are. A doubted host is asked for a page that did not meet its trouble, if one
        is in memory.
        """
        if not self.retried:
            return self.heads[0]
        if self.is_doubted:
            candidates = (key for key in self.heads if queue_keys.sort_key_id(key) not in self.retried)
        elif (self.turns + 1) % RETRY_EVERY == 0:
            candidates = (key for key in self.retried.values() if key not in self.leased)
        else:
            return self.heads[0]
        return next(candidates, self.heads[0])

    def take(self) -> bytes:
        """Remove `next_sort_key` for a lease, and return it: it is ``leased`` from now on. There must be a
        head."""
        sort_key = self.next_sort_key()
        self.turns = (self.turns + 1) % RETRY_EVERY
        if sort_key in self.heads:
            self.heads.remove(sort_key)
        self.leased |= {sort_key}
        return sort_key

    def put_back(self, sort_key: bytes) -> None:
        """Undo the last `take` or `take_due`, of *sort_key*: its page is queued as before, and the turn is
        not counted."""
        self.leased -= {sort_key}
        if queue_keys.is_due_sort_key(sort_key):
            self.add_due(sort_key)
            return
        self.turns -= 1
        self.add(sort_key)

    def add_retry(self, sort_key: bytes) -> None:
        """Note that a page that was handed out before is queued again with *sort_key*."""
        if not self.retried:
            self.retried = {}
        if len(self.retried) < _MOST_RETRIED:
            self.retried[queue_keys.sort_key_id(sort_key)] = sort_key

    def drop(self, sort_key: bytes) -> None:
        """Forget a page that is queued no more: it is neither leased, nor a retry, nor a head."""
        self.drop_leased(sort_key)
        heads = self.heads
        if queue_keys.is_due_sort_key(sort_key):
            heads = [] if self.due is None else self.due.heads
        if sort_key in heads:
            heads.remove(sort_key)

    def drop_leased(self, sort_key: bytes) -> None:
        """Forget that a page is leased or a retry: its queue row goes."""
        self.leased -= {sort_key}
        if self.retried:
            self.retried.pop(queue_keys.sort_key_id(sort_key), None)

    def rekey(self, moved: Iterable[tuple[bytes, bytes]]) -> bool:
        """Note that rows of queued pages moved, each from an old sort key to a new one; returns whether the
        head is another now, or not known any more."""
        heads = self.heads
        head = heads[0] if heads else None
        for old, new in moved:
            if self.retried and (page_id := queue_keys.sort_key_id(old)) in self.retried:
                self.retried[page_id] = new
            if not self.more or old <= self.cursor:
                index = bisect_left(heads, old)
                if index < len(heads) and heads[index] == old:
                    del heads[index]
            if not self.more or new <= self.cursor:
                self.add(new)
        return not heads or heads[0] is not head or self.needs_sort_keys()


def host_of_page(page: Page) -> str:
    """Return the name of the host whose queue *page* belongs to: the one it was given, else that of its
    URL."""
    return page.host or host_of(page.url)


def is_of_host(page: Page, name: str) -> bool:
    """Return whether *page* belongs to the queue of *name*, or its URL has that host, whatever its queue."""
    return name in (host_of_page(page), host_of(page.url))
