"""A host: the best of its queue, its requests under way, and the clock that says when it may be visited.

Nothing here touches the disk or a clock: *now* is passed, and `HostTable` fills the heads.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, NamedTuple

from ..parse.urls import host_of
from ..store import queue_keys
from ..store.host_rows import HostRow, KeptHost
from .cooldown import GivenUpOrigin
from .delay_sources import UNASKED, by_settings, deciding
from .domain import IDLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..store.host_rows import Cooldown
    from ..store.keys import PageId
    from ..store.page_rows import Page
    from .cooldown import Trouble
    from .domain import Domain

HEADS = 8  # sort keys read from the disk at a time; two such runs are kept a host at most
# A request is on the wire some time after it was handed out: the first has to connect, the next finds a
# connection. Where nobody tells when it went out, the delay is counted from its answer, but from no later
# than this after the hand-out.
SENDING = 0.03  # seconds
FOREVER = float("inf")

_NONE: frozenset[bytes] = frozenset()  # one for all hosts: an empty set of its own takes 216 bytes
_NO_PAGES: frozenset[int] = frozenset()
_NOTHING_WAITED: dict[int, bytes] = {}  # never changed
_MOST_WAITED = 1000  # pages of one host
WAITED_TURN = 4  # every such turn of a host goes to a page that was handed out before
_NO_ORIGINS: frozenset[str] = frozenset()
_NOBODY: Mapping[str, GivenUpOrigin] = {}
_MOST_SUSPECTS = 100  # pages of one host
NO_ROW = HostRow()  # of a host that nobody has met


class Politeness(NamedTuple):
    """Least seconds between two leases of a host, requests under way at once, and how much longer than
    ``delay`` a pause may be drawn (0.5: up to half as long again; never shorter)."""

    delay: float
    concurrency: int
    jitter: float = 0.0


class Tally:
    """What all hosts of a registered domain count together: pages ``pending``, ``fetched`` and ``deferred``,
    and leases that are out."""

    __slots__ = ("deferred", "domain", "fetched", "leased", "pending")

    def __init__(self, domain: str) -> None:
        self.domain = domain
        self.pending = self.fetched = self.deferred = self.leased = 0


class Host(KeptHost):
    """A host with queued pages or requests under way: its row, and its clock. Times in POSIX seconds.

    Its queue, a sort key a page:

    - ``heads``: of the best queued pages, sorted. Where ``more`` is true, those behind ``cursor`` are on disk
      only.
    - ``leased``: of pages under way, whose rows stay on disk until their lease ends.
    - ``waited``: by page id, of pages that were handed out before and are queued again, their backoff over,
      the oldest first. Every `WAITED_TURN` of its ``turns`` goes to one of these, however good the others
      are.

    When it may be asked:

    - ``state``: as `Hosts.put` decides; ``ready_at``: when delay and cooldown have passed, 0 for now.
    - ``visited``: the last lease or errand.
    - ``delay`` (seconds), ``concurrency``: what holds; ``usual``: the concurrency of the settings; ``asked``:
      delays by who asks for them; ``jitter``: see `Politeness`.
    - ``in_flight``: requests under way, of which ``sending`` have not gone out yet, which is what the delay
      counts from; ``in_flight_before``: as `Turns` saw it last.
    - ``held_until``, ``held_for``: how long it is held, and what for. ``is_blocked``: by the operator; its
      pages are queued, but withheld.
    - ``domain``, ``line_number``: its domain among the turns, and its place in the line of that.

    Its trouble:

    - ``trouble``: the last that it met since it answered; ``cooldown``: its rest after that.
    - ``is_doubted``: until it answers again; so long it is asked for one page at a time, and not first for
      one of the ``suspects``, the pages that met the trouble and may be its cause.
    - ``origins``: those that answered; ``given_up``: those whose pages are not asked for any more;
      ``given_up_for``: why none of its pages is (`giving_up`).

    Its budgets, beside the counts of the row (`HostRow`):

    - ``tally``: what its registered domain counts, where a budget holds for that; ``tallied``: what this host
      has added to it: pages pending, fetched and deferred, and leases.
    """

    __slots__ = (
        "asked",
        "concurrency",
        "cooldown",
        "cursor",
        "delay",
        "domain",
        "given_up",
        "given_up_for",
        "heads",
        "held_for",
        "held_until",
        "in_flight",
        "in_flight_before",
        "is_blocked",
        "is_doubted",
        "jitter",
        "leased",
        "line_number",
        "more",
        "origins",
        "ready_at",
        "sending",
        "state",
        "suspects",
        "tallied",
        "tally",
        "trouble",
        "turns",
        "usual",
        "waited",
    )

    def __init__(self, name: str, row: HostRow, politeness: Politeness) -> None:
        self.name = name
        self.prefix = queue_keys.queue_prefix(name)
        self.queued, self.done, self.failed, self.visited = row.queued, row.done, row.failed, row.visited
        self.deferred, self.excluded, self.answered = row.deferred, row.excluded, row.answered
        self.queued_again = row.queued_again
        self.response_time = row.response_time
        self.delay, self.concurrency, self.jitter = politeness
        self.usual = self.concurrency
        self.asked: Mapping[str, float] = by_settings(self.delay)
        self.held_until = 0.0
        self.cooldown: Cooldown | None = None
        self.is_doubted = False
        self.suspects: set[int] | frozenset[int] = _NO_PAGES
        self.trouble: Trouble | None = None
        self.held_for: Trouble | None = None
        self.given_up_for: Trouble | None = None
        self.origins = _NO_ORIGINS
        self.given_up = _NOBODY
        self.reset_clock()
        self.heads: list[bytes] = []
        self.leased: set[bytes] | frozenset[bytes] = _NONE
        self.waited = _NOTHING_WAITED
        self.turns = 0
        self.more = row.queued > 0
        self.cursor = b""
        self.in_flight = 0
        self.sending = 0
        self.in_flight_before = 0
        self.domain: Domain | None = None
        self.line_number = 0  # its place among the hosts of its domain
        self.is_blocked = False
        self.is_kept = row is not NO_ROW
        self.state = IDLE
        self.tally: Tally | None = None
        self.tallied = (0, 0, 0, 0)

    def __repr__(self) -> str:
        heads = f"{len(self.heads)}{'+' if self.more else ''} heads"
        return f"<Host {self.name} {self.state.value}, {heads}, {self.in_flight} in flight>"

    @property
    def is_asked(self) -> bool:
        """Whether a site asks for a delay: then one request is under way at once."""
        return len(self.asked) > 1 and not UNASKED.issuperset(self.asked)

    def reset_clock(self) -> None:
        """Work out anew, from the last lease, delay and cooldown, when the host may be visited: ``ready_at``,
        0 for now. `Hosts.put_anew` has to follow."""
        self.ready_at = self.visited + self.delay if self.visited and self.delay else 0.0
        if self.cooldown is not None and self.cooldown.until > self.ready_at:
            self.ready_at = self.cooldown.until

    def ask(self, source: str, seconds: float | None) -> bool:
        """*source* asks for a delay from now on, with None, or a site with 0, for none any more; whether that
        changes anything. While a site asks, one request is under way at once."""
        asked = dict(self.asked)
        if seconds is None or not (seconds or source in UNASKED):
            asked.pop(source, None)
        else:
            asked[source] = seconds
        if asked == self.asked:
            return False
        self.asked = asked
        before = self.delay, self.concurrency
        self.delay = deciding(asked).seconds
        self.concurrency = self.usual if UNASKED.issuperset(asked) else 1
        return (self.delay, self.concurrency) != before

    def give_up(self, trouble: Trouble, until: float, now: float) -> None:
        """Have the pages of the trouble's origin fail until *until*; others may be asked for now. In
        memory only; `Hosts.put` has to follow."""
        self.given_up = {**self.given_up, trouble.origin: GivenUpOrigin(trouble, until)}
        self.held_until = 0.0
        self.end_rest(now)

    def end_rest(self, when: float) -> None:
        """Have a rest that lasts longer end at *when*. In memory only; `Hosts.put_anew` has to follow."""
        if self.cooldown is not None and self.cooldown.until > when:
            self.cooldown = self.cooldown._replace(until=when)
            self.reset_clock()

    def suspect(self, page_id: PageId) -> None:
        """Remember a page whose trouble may be its own, of the last hundred such pages."""
        if len(self.suspects) >= _MOST_SUSPECTS:
            self.suspects = _NO_PAGES
        self.suspects |= {page_id}

    def add(self, sort_key: bytes) -> bool:
        """Take in the sort key of a queued page; true when it is the new head."""
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

    def take(self, sort_key: bytes | None = None) -> bytes:
        """Remove the head for a lease, or the page whose turn it is after a backoff, or the one with
        *sort_key* out of turn, and return its sort key, which is ``leased`` from now on. Without one there
        must be a head."""
        sort_key = sort_key or self.next_sort_key()
        self.turns = (self.turns + 1) % WAITED_TURN
        if self.heads and self.heads[0] is sort_key:
            del self.heads[0]
        elif sort_key in self.heads:
            self.heads.remove(sort_key)
        self.leased |= {sort_key}
        return sort_key

    def next_sort_key(self) -> bytes:
        """What `take` removes next; there must be a head."""
        waited = self._oldest_waited() if self.waited and (self.turns + 1) % WAITED_TURN == 0 else None
        return waited or (self._probe() if self.is_doubted and self.suspects else self.heads[0])

    def put_back(self, sort_key: bytes) -> None:
        """Undo `take` of *sort_key*, the last one: its page is queued as before, and the turn is not
        counted."""
        self.turns -= 1
        self.leased -= {sort_key}
        self.add(sort_key)

    def forget(self, sort_key: bytes) -> None:
        """The page with that sort key is queued no more: neither leased, nor waiting, nor a head."""
        self.drop_sort_key(sort_key)
        if sort_key in self.heads:
            self.heads.remove(sort_key)

    def note_waited(self, sort_key: bytes) -> None:
        """A page that was handed out before, and whose backoff is over, was queued with *sort_key*: one in
        `WAITED_TURN` turns is for these."""
        if not self.waited:
            self.waited = {}
        if len(self.waited) < _MOST_WAITED:
            self.waited[queue_keys.sort_key_id(sort_key)] = sort_key

    def drop_sort_key(self, sort_key: bytes) -> None:
        """Forget that a page is leased, or has waited, with *sort_key*: its queue row goes."""
        self.leased -= {sort_key}
        if self.waited:
            self.waited.pop(queue_keys.sort_key_id(sort_key), None)

    def _oldest_waited(self) -> bytes | None:
        suspects = self.suspects if self.is_doubted else _NO_PAGES
        for page_id, sort_key in self.waited.items():
            if sort_key not in self.leased and page_id not in suspects:
                return sort_key
        return None

    def _probe(self) -> bytes:
        """Which head asks a host that met trouble whether it answers again: one that is no suspect."""
        others = (head for head in self.heads if queue_keys.sort_key_id(head) not in self.suspects)
        return next(others, self.heads[0])

    def rekey(self, moved: Iterable[tuple[bytes, bytes]]) -> bool:
        """Rows of queued pages moved, each from an old sort key to a new one; whether the head is another
        now, or not known any more."""
        heads = self.heads
        head = heads[0] if heads else None
        for old, new in moved:
            if self.waited and queue_keys.sort_key_id(old) in self.waited:
                self.waited[queue_keys.sort_key_id(old)] = new
            if not self.more or old <= self.cursor:
                index = bisect_left(heads, old)
                if index < len(heads) and heads[index] == old:
                    del heads[index]
            if not self.more or new <= self.cursor:
                self.add(new)
        return not heads or heads[0] is not head or self.needs_sort_keys()

    def needs_sort_keys(self) -> bool:
        """Whether pages on disk could come before the first head we know, so that `HostTable.fill` has to
        read."""
        return self.more and (not self.heads or self.heads[0] > self.cursor)

    def filled(self, sort_keys: list[bytes], limit: int) -> None:
        """Take in what was read behind the cursor when *limit* sort keys were asked for."""
        self.more = len(sort_keys) == limit
        if sort_keys:
            self.cursor = sort_keys[-1]
            self.heads.extend(sort_key for sort_key in sort_keys if sort_key not in self.leased)
            self.heads.sort()


def host_of_page(page: Page) -> str:
    """The name of the host whose queue *page* belongs to: the one it was given, else that of its URL."""
    return page.host or host_of(page.url)


def is_of_host(page: Page, name: str) -> bool:
    """Whether *page* belongs to the queue of *name*, or its URL has that host, whatever its queue."""
    return name in (host_of_page(page), host_of(page.url))


def queues_with(pages: Iterable[Page], name: str) -> set[str]:
    """The names of the queues that those *pages* belong to whose URL has the host *name*."""
    return {host_of_page(page) for page in pages if host_of(page.url) == name}
