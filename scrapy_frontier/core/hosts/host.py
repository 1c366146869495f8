"""A host: the best of its queue, its requests under way, and the clock that says when it may be visited.

Nothing here touches the disk or a clock: *now* is passed, and `HostTable` fills the heads.

A registered domain, and which of its hosts comes first.

The best head first, of equals the host with the fewest requests under way. One that was passed over for
`WITHIN` turns of the domain for each of its hosts has the next. Most domains have one host: then there is
nothing to choose.

Who may ask that a host is left alone between two leases, and who of them decides.

The largest delay holds, whoever asks for it; what the operator ordered replaces all of them.

How long a host is left alone after trouble: the rule; `host_rows` has the row that stays.

Trouble is a 429 or 503, a refused, reset or timed out connection, a name that does not resolve. What the host
asks for itself (Retry-After, RFC 9110 10.2.3) wins; otherwise the rest begins with `CooldownRule.first` and
doubles with each strike up to `CooldownRule.longest`. After an answer and `FORGIVEN` seconds without trouble
the strikes start over: a host that is asked once a day and never answers is one that never answers. The
figures are StormCrawler's, who learnt them at Common Crawl: without jitter all hosts that were lost together
come back together.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .. import reasons
from ..errors import lenient
from ..parse.headers import TOO_BUSY, retry_after
from ..parse.urls import host_of
from ..store import queue_keys
from ..store.queue_keys import SCORE_BYTES
from ..store.records import LONGEST_ASKED, Cooldown, HostRow, KeptHost, decode_cooldown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..store.keys import PageId
    from ..store.records import Page

WITHIN = 16  # turns of a domain until a host of it is due, for each host in memory

NORMAL, OVER_SOFT, OVER_HARD = range(3)  # levels: its pages come as all, last, not at all


class HostState(Enum):
    """Where a host stands, as `Hosts.put` decides; only one that is ready is asked for a page."""

    IDLE = "idle"  # nothing queued
    READY = "ready"
    DELAYED = "delayed"
    BLOCKED = "blocked"  # by the operator
    HELD = "held"  # until it is known what the site asks for, or for as long as it asks to be left alone
    BUSY = "busy"  # as many requests under way as allowed
    LINGERING = "lingering"  # nothing queued, and remembered only until its delay has passed


# By themselves: Python 3.11 takes 0.2 us to find a member in its class.
IDLE, READY, DELAYED, BLOCKED, HELD, BUSY, LINGERING = HostState


class Member(Protocol):
    """What the order asks of a host; `Host` is one."""

    name: str
    heads: list[bytes]
    state: HostState
    in_flight: int
    in_flight_before: int  # as `Turns` saw it last
    domain: Domain | None
    line_number: int  # in the line of its domain; 0 for none

    @property
    def fetched(self) -> int: ...


# Plain tuples of names, not of hosts: the garbage collector then has no reason to walk the heaps.
# Level, score, whether others come first, requests of the domain under way, head, name of the domain.
Offer = tuple[int, bytes, bool, int, bytes, str]
# Score, requests of the host under way, head, name.
_HostOffer = tuple[bytes, int, bytes, str]

# One for all domains of one host: the garbage collector walks each list.
_UNUSED: list[_HostOffer] = []
_NO_LINE: deque[tuple[int, int, str]] = deque()


@dataclass(slots=True, eq=False, repr=False)
class Domain:
    """A registered domain with hosts in memory.

    Others come first (``yields_until``) until so many hand-outs have been made in all; ``handed`` pages were
    handed out, of earlier runs too; ``due_round`` is the one in which it comes next whatever others offer.
    ``line`` are its ready hosts in the order in which they had their last turns, with what ``handed`` was
    then. What has become wrong is left in ``ready`` and ``line`` and skipped when it surfaces.
    """

    name: str
    level: int = NORMAL
    sole: str = ""  # its host, as long as it never had another; then ``ready`` and ``line`` are not used
    hosts: int = 0
    in_flight: int = 0
    yields_until: int = 0
    handed: int = 0
    due_round: float = 0.0
    is_listed: bool = False  # among those that will be due
    is_active: bool = False
    ready: list[_HostOffer] = field(default_factory=lambda: _UNUSED)
    line: deque[tuple[int, int, str]] = field(default_factory=lambda: _NO_LINE)
    lined_up: int = 0  # so many times
    offered: Offer | None = None  # in the heap of domains

    def share(self, first: Member) -> None:
        """The domain of *first*, its host so far, is about to have another: from now on ``ready`` and
        ``line`` hold."""
        self.sole = ""
        self.ready, self.line = [], deque()
        if first.state is READY and first.heads:  # else it is edited at once, and gets its place after this
            self.ready.append(_host_offer(first))
            self._line_up(first)

    def put(self, host: Member, by_name: Mapping[str, Member], had_turn: bool = False) -> None:
        """Take note of a host of a shared domain that has changed, or *had_turn* just now; *by_name* are the
        hosts in memory. O(log hosts)."""
        if host.state is not READY:
            host.line_number = 0
            return
        heapq.heappush(self.ready, _host_offer(host))
        if had_turn or not host.line_number:
            self._line_up(host)
        most = 16 + 4 * self.hosts
        if len(self.ready) > most:
            self.ready = [offer for offer in set(self.ready) if _holds(offer, by_name)]
            heapq.heapify(self.ready)
        if len(self.line) > most:
            self.line = deque(place for place in self.line if _stands(place, by_name))

    def _line_up(self, host: Member) -> None:
        self.lined_up += 1
        host.line_number = self.lined_up
        self.line.append((self.lined_up, self.handed, host.name))

    def take_back(self, host: Member, line_number: int) -> None:
        """The last turn, of *host*, was none after all: it stands where it stood in line."""
        self.handed -= 1
        host.line_number = line_number

    def first(self, by_name: Mapping[str, Member]) -> _HostOffer | None:
        """The best ready host of a shared domain: what it offers, None if none is ready. It stays."""
        ready = self.ready
        while ready and not _holds(ready[0], by_name):
            heapq.heappop(ready)
        return ready[0] if ready else None

    def chosen(self, by_name: Mapping[str, Member]) -> str:
        """The name of the host of a shared domain that has its turn, the one that was passed over for long or
        the best; one must be ready."""
        line = self.line
        while line and not _stands(line[0], by_name):
            line.popleft()
        if line and self.handed - line[0][1] >= WITHIN * self.hosts:
            return line[0][2]
        best = self.first(by_name)
        assert best is not None
        return best[3]


def _host_offer(host: Member) -> _HostOffer:
    head = host.heads[0]
    return head[:SCORE_BYTES], host.in_flight, head, host.name


def _holds(offer: _HostOffer, by_name: Mapping[str, Member]) -> bool:
    host = by_name.get(offer[3])
    return (
        host is not None
        and host.state is READY
        and bool(host.heads)  # those of another that is edited at once may be gone
        and host.heads[0] == offer[2]
        and host.in_flight == offer[1]
    )


def _stands(place: tuple[int, int, str], by_name: Mapping[str, Member]) -> bool:
    host = by_name.get(place[2])
    return host is not None and host.line_number == place[0]


FROM_SETTINGS = "settings"  # DOWNLOAD_DELAY, DOWNLOAD_SLOTS, AutoThrottle
RESPONSE_TIME = "response time"
OPERATOR = "operator"
ROBOTS_TXT = "robots.txt"  # or its origin, where a host has several: any other source is a site
UNASKED = frozenset((FROM_SETTINGS, RESPONSE_TIME, OPERATOR))

# Of each new response time as much goes into the smoothed one: three slow answers in a row move it by half,
# a single one by a fifth.
_WEIGHT = 0.2


class Delay(NamedTuple):
    """Least ``seconds`` between two leases of a host, and the ``source`` that asks for them."""

    seconds: float
    source: str


def deciding(asked: Mapping[str, float]) -> Delay:
    """Which of the delays in seconds, by source, holds: the operator's, else the largest; of equals the one
    that was named first. There must be one."""
    if OPERATOR in asked:
        return Delay(asked[OPERATOR], OPERATOR)
    source = max(asked, key=asked.__getitem__)
    return Delay(asked[source], source)


def is_new(asked: Mapping[str, float], site: str, seconds: float) -> bool:
    """Whether it is new that *site* asks for *seconds*, 0 for none, beside the delays *asked* for so far.
    Nothing that a site asks for is where the operator's holds."""
    return asked.get(site, 0.0) != seconds and OPERATOR not in asked


@lru_cache(maxsize=64)
def by_settings(seconds: float) -> Mapping[str, float]:
    """What is asked of a host that only the settings speak of: one mapping for all; do not change it."""
    return {FROM_SETTINGS: seconds}


class ResponseDelay(NamedTuple):
    """How a host's delay follows its response time: at least ``factor`` times that, at most ``longest``
    seconds. A factor of 0: not at all."""

    factor: float = 0.0
    longest: float = 60.0

    def delay(self, response_time: float) -> float:
        """Seconds between two leases of a host that answers in *response_time* seconds; 0 with a factor of
        0."""
        return min(self.factor * response_time, self.longest)


def smoothed(before: float, response_time: float) -> float:
    """The smoothed response time, in seconds, after one more answer; *before* is 0 with the first."""
    return before + _WEIGHT * (response_time - before) if before else response_time


JITTER = 0.1  # a rest is up to this much longer, never shorter
# Strikes in a row without one answer, over all runs. After these the host is given up, so that its pages end
# some day: with the default steps it has then been asked ten times in 17 hours.
PATIENCE = 10
# Who ask to be left alone: the last ones with a Retry-After alone (RFC 9110 15.5.14, 15.6; GitHub's 403). Not
# the other errors, which are of a page that is gone or forbidden, and stays so.
_MAY_ASK = frozenset((*TOO_BUSY, 403, 413, *range(500, 600)))


class CooldownRule(NamedTuple):
    """Seconds of the ``first`` rest and of the ``longest``; a Retry-After may be longer."""

    first: float = 60.0
    longest: float = 86_400.0


class Trouble(NamedTuple):
    """What went wrong, in words.

    ``asked`` is the host's Retry-After in seconds. ``sent`` is when the request was handed out, and
    ``page_id`` its page, where the frontier handed it out. ``may_be_page``: it may be the fault of
    the page alone (a timeout, a reset, a bare 503), which has had ``attempts`` before that counted.
    ``origin`` is the scheme, host and port that were asked; where nobody answered there, ``is_silent``.
    ``failure`` is what the spider is told if the pages of that origin are given up: the caller's own. It has
    happened so many ``times``, where a host is held for it.
    """

    reason: str
    asked: float | None = None
    may_be_page: bool = False
    sent: float | None = None
    page_id: PageId | None = None
    attempts: int = 0
    origin: str = ""
    is_silent: bool = False
    failure: object = None
    times: int = 0


class GivenUpOrigin(NamedTuple):
    """Pages of an origin are not asked for before ``until`` (POSIX seconds), because of ``trouble``."""

    trouble: Trouble
    until: float


def asked_pause(line: str, now: float) -> float:
    """Seconds for which this *line* ``Retry-After`` asks to be left alone, a day at most; 0 where it does not
    say."""
    return min(retry_after(line, now) or 0.0, LONGEST_ASKED)


def trouble_at(status: int, line: str, now: float) -> Trouble | None:
    """What an answer with this *status* and *line* ``Retry-After`` (empty: none) says of its host; None where
    it says nothing.

    An error with Retry-After is trouble whatever its status, but for those that say it will stay.
    """
    seconds = asked_pause(line, now) if status in _MAY_ASK else 0.0
    if not seconds and status not in TOO_BUSY:
        return None
    return Trouble(reasons.STATUS(status=status), seconds, may_be_page=status == 503 and not seconds)


def after_trouble(
    before: Cooldown | None,
    rule: CooldownRule,
    now: float,
    trouble: Trouble,
    starts_over: bool = False,
    chance: float = 0.0,
) -> Cooldown:
    """What follows from *trouble* seen at *now*.

    A Retry-After of 0 and less says nothing; *chance* in 0..1 draws the jitter. A request from before the
    last strike belongs to that incident: it adds no strike, and only a Retry-After can make the rest longer.
    *starts_over*: the strikes so far do not count.
    """
    lengthening, sent = 1 + JITTER * chance, trouble.sent
    rest = min(max(trouble.asked or 0.0, 0.0), LONGEST_ASKED)
    strikes = 1
    if before is not None and not before.is_forgiven(now):
        if now < before.until if sent is None else sent <= before.since:
            return before._replace(until=max(before.until, now + rest * lengthening if rest else 0.0))
        strikes = 1 if starts_over else before.strikes + 1
    if not rest:
        rest = min(rule.first * 2 ** min(strikes - 1, 60), rule.longest)
    return Cooldown(now + rest * lengthening, strikes, now, trouble.reason)


def at_start(stored: bytes, opened_at: float, rule: CooldownRule) -> Cooldown:
    """The cooldown in a row, for a crawl that starts at *opened_at*; a row nobody can read says at least that
    there was trouble."""
    cooldown = lenient(decode_cooldown, stored)
    if cooldown is None:
        return Cooldown(opened_at + rule.first, 1, opened_at, reasons.COOLDOWN_UNREADABLE())
    return cooldown.seen_at(opened_at)


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
    - ``visited``: the last lease or side request.
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
