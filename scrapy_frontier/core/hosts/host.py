"""The state of one host: its queue, its requests under way, its clock and its trouble.

Nothing here reads the disk or a clock: *now* is an argument, and `Hosts` fills the queue from the disk.
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

HEADS = 8  # sort keys that are read from the disk at a time; a host keeps at most twice as many
# A request is sent some time after its hand-out: it may have to connect first. If no hook reports when it was
# sent, the delay counts from its answer, but from no later than this after the hand-out.
SENDING = 0.03  # seconds
FOREVER = float("inf")
_BEHIND_NEW = b"\xff\xff\xff\xff"  # no priority has this code
RETRY_EVERY = 4  # one in so many turns of a host goes to a page that was handed out before
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
    HELD = "held"  # until its robots.txt is known, or until the hours that it allows
    BUSY = "busy"  # with as many requests under way as allowed


# As names of the module: Python 3.11 takes 0.2 us to find a member in its class.
IDLE, READY, DELAYED, BLOCKED, HELD, BUSY = HostState


class Politeness(NamedTuple):
    """The limits of a host: least seconds between two requests, requests under way at once, and ``jitter``,
    the part of ``delay`` by which a pause may be longer (0.5: up to half as long again; never shorter)."""

    delay: float
    concurrency: int
    jitter: float = 0.0


class Delay(NamedTuple):
    """The least ``seconds`` between two requests to a host, and the ``source`` that asks for them."""

    seconds: float
    source: str


class HostClock(NamedTuple):
    """The ``delay`` of a host in seconds and its ``source``, apart from an order of the operator; and
    ``until`` when the host waits (POSIX seconds; 0: it does not)."""

    delay: float
    source: str
    until: float


def deciding(asked: Mapping[str, float]) -> Delay:
    """Return which of the delays *asked* for, in seconds by source, is used: the operator's, else the
    largest; the first of equals. At least one has to be given."""
    source = OPERATOR if OPERATOR in asked else max(asked, key=asked.__getitem__)
    return Delay(asked[source], source)


def is_new(asked: Mapping[str, float], site: str, seconds: float) -> bool:
    """Return whether *site* asks for other *seconds* (0: none) than before, and the operator ordered no
    delay."""
    return asked.get(site, 0.0) != seconds and OPERATOR not in asked


@lru_cache(maxsize=64)
def by_settings(seconds: float) -> Mapping[str, float]:
    """Return the delays of a host for which only the settings ask, one mapping for all hosts. Do not change
    it."""
    return {FROM_SETTINGS: seconds}


class Trouble(NamedTuple):
    """A failed request that may be the fault of its host: the ``reason`` in words, and what is known of it.

    - ``asked``: the Retry-After of the host in seconds.
    - ``sent``: when the request was handed out, and ``page_id``: its page, if it was for a page of the queue.
    - ``may_be_page``: the page alone may be the cause (a timeout, a reset, a 503 without Retry-After).
      ``may_be_connection``: a connection that was kept open for too long may be the cause.
    - ``origin``: scheme, host and port that were asked. ``is_silent``: they did not answer.
    - ``failure``: the error that other pages of the origin get if they are given up.
    - ``times``: how often it happened in a row, for trouble that a host is held for.
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
    """An origin whose pages are not requested before ``until`` (POSIX seconds), because of ``trouble``."""

    trouble: Trouble
    until: float


_NO_SLOTS: tuple[str, ...] = ()  # the subclasses have the slots; mypy would take an empty literal at its word


class QueueHeads:
    """The head of a queue, in memory: the sort keys of its best pages.

    ``heads`` are sorted. If ``more`` is true, the sort keys after ``cursor`` are on the disk only.
    """

    __slots__ = _NO_SLOTS

    heads: list[bytes]
    more: bool
    cursor: bytes

    def add(self, sort_key: bytes) -> bool:
        """Add the sort key of a queued page; returns whether it is the new head."""
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
        """Return whether pages on the disk may come before the first head in memory, so that `Hosts.fill` has
        to read."""
        return self.more and (not self.heads or self.heads[0] > self.cursor)

    def filled(self, sort_keys: list[bytes], limit: int, leased: Collection[bytes]) -> None:
        """Add the *sort_keys* that were read after the cursor, of at most *limit*, but those that are
        *leased*."""
        self.more = len(sort_keys) == limit
        if sort_keys:
            self.cursor = sort_keys[-1]
            self.heads.extend(sort_key for sort_key in sort_keys if sort_key not in leased)
            self.heads.sort()


class DueQueue(QueueHeads):
    """The head of the due queue of a host: of its finished pages that are due."""

    __slots__ = ("cursor", "heads", "more", "prefix")

    def __init__(self, host: str) -> None:
        self.prefix = queue_keys.due_prefix(host)
        self.heads: list[bytes] = []
        self.more = True
        self.cursor = b""


class Host(KeptHost, QueueHeads):
    """A host in memory: its row, its queue, its clock and its trouble. Times in POSIX seconds.

    Its queue, a sort key a page:

    - ``heads``, ``more``, ``cursor``: see `QueueHeads`. ``due``: the same of its due queue, if it has one.
    - ``leased``: of leased pages, whose queue rows stay on the disk until their lease ends.
    - ``retried``: by page id, of queued pages that were handed out before, oldest first; one in
      `RETRY_EVERY` of its ``turns`` goes to these.

    When it may be asked:

    - ``state``: set by `FairHostQueue.update`; ``ready_at``: when delay and cooldown have passed, 0 for now;
      ``wakes_at``: the time of its newest entry in the heap of hosts that wait.
    - ``visited``: its last request.
    - ``delay`` (seconds), ``concurrency``: those that are used; ``usual``: the concurrency of the settings;
      ``asked``: delays by source; ``jitter``: see `Politeness`.
    - ``in_flight``: requests under way, of which ``sending`` are not sent yet: the delay counts from when
      they are. ``side_requests`` of them fetch no page of its queue. ``in_flight_before``: as `FairHostQueue`
      last saw it.
    - ``held_until``, ``held_for``: how long it is held, and why. ``is_blocked``: by the operator; its pages
      stay queued.

    Its trouble (`trouble`):

    - ``cooldown``: its rest; ``trouble``: the last one since it answered.
    - ``is_doubted``: it had trouble and has not answered since: one page at a time is requested.
    - ``given_up``: origins whose pages are not requested any more, "" for all of them.
    """

    __slots__ = (
        "asked",
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
        "side_requests",
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
        self.in_flight = self.in_flight_before = self.sending = self.side_requests = 0
        self.is_blocked = False
        self.is_kept = row is not NO_ROW
        self.state = IDLE
        self.wakes_at = 0.0

    def __repr__(self) -> str:
        heads = f"{len(self.heads)}{'+' if self.more else ''} heads"
        return f"<Host {self.name} {self.state.value}, {heads}, {self.in_flight} in flight>"

    # -- its clock -------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether another request may begin: fewer than its concurrency (1 if it is doubted) are under way,
        none is about to be sent, and if it has a delay, no side request is under way."""
        if self.sending or (self.side_requests and self.delay):
            return False
        return self.in_flight < (1 if self.is_doubted else self.concurrency)

    @property
    def is_slowed_by_site(self) -> bool:
        """Whether a site asks for a delay; then only one request is under way at once."""
        return len(self.asked) > 1 and not NO_SITES.issuperset(self.asked)

    @property
    def has_first_delay(self) -> bool:
        """Whether its delay is still the one that it was loaded with: `ask` has changed none."""
        return self.asked is by_settings(self.delay)

    def clock(self, now: float) -> HostClock:
        """Return its clock at *now*. A hold without an end, while its robots.txt is fetched, does not
        count."""
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
        """Set the delay in seconds that *source* asks for; None, or 0 from a site, removes it. Returns
        whether the delay or the concurrency changes. While a site asks for a delay, the concurrency is 1."""
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
        """How many of its pages are queued or leased, apart from due ones if none comes back in this run."""
        return self.queued if self.due is None else self.queued + self.queued_again

    @property
    def head(self) -> bytes | None:
        """The sort key of its best page, None if it has none. That of a page that comes back sorts after all
        new pages, also of other hosts."""
        if self.heads:
            return self.heads[0]
        due = self.due
        return _BEHIND_NEW + due.heads[0] if due is not None and due.heads else None

    def take_due(self) -> bytes:
        """Remove the head of its due queue for a lease, and return it: it is ``leased`` from now on. The
        queue must not be empty."""
        assert self.due is not None
        sort_key = self.due.heads.pop(0)
        self.leased |= {sort_key}
        return sort_key

    def add_due(self, sort_key: bytes) -> None:
        """Add the sort key of a page in its due queue, which its row counts already."""
        if self.due is None:
            self.due = DueQueue(self.name)
            self.due.more = self.queued_again > 1  # others are on the disk
        self.due.add(sort_key)

    def next_sort_key(self) -> bytes:
        """Return the sort key that `take` removes next; there has to be a head.

        It is the best page; in one of `RETRY_EVERY` turns the oldest that was handed out before, however good
        the others are. Of a doubted host it is a page that was not handed out before, if one is in memory.
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
        """Remove `next_sort_key` for a lease, and return it: it is ``leased`` from now on. There has to be a
        head."""
        sort_key = self.next_sort_key()
        self.turns = (self.turns + 1) % RETRY_EVERY
        if sort_key in self.heads:
            self.heads.remove(sort_key)
        self.leased |= {sort_key}
        return sort_key

    def put_back(self, sort_key: bytes) -> None:
        """Undo the last `take` or `take_due`, of *sort_key*: its page is queued as before, and the turn does
        not count."""
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
        """Forget a page that is no longer queued: it is neither leased, nor a retry, nor a head."""
        self.drop_leased(sort_key)
        heads = self.heads
        if queue_keys.is_due_sort_key(sort_key):
            heads = [] if self.due is None else self.due.heads
        if sort_key in heads:
            heads.remove(sort_key)

    def drop_leased(self, sort_key: bytes) -> None:
        """Forget that a page is leased or a retry, because its queue row is deleted."""
        self.leased -= {sort_key}
        if self.retried:
            self.retried.pop(queue_keys.sort_key_id(sort_key), None)

    def rekey(self, moved: Iterable[tuple[bytes, bytes]]) -> bool:
        """Note that queue rows *moved*, each from an old sort key to a new one; returns whether the head has
        changed, or has to be read from the disk."""
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
    """Return the name of the host whose queue *page* belongs to: the host in its record, else that of its
    URL."""
    return page.host or host_of(page.url)


def is_of_host(page: Page, name: str) -> bool:
    """Return whether *page* belongs to the queue of *name*, or its URL has that host, whatever its queue."""
    return name in (host_of_page(page), host_of(page.url))
