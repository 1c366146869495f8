"""Decides how long to wait for a host that fails: it rests, is asked again, is given up, or the crawl ends.

*Trouble* is a 429 or 503, a refused, reset or timed out connection, or a name that does not resolve.

- After trouble the host rests (`Cooldown`): as long as it asks for (Retry-After, RFC 9110 10.2.3), else
  `FRONTIER_COOLDOWN` seconds, doubled with each strike up to `LONGEST_REST`. Then it is *doubted*, and asked
  for one page at a time, until it answers. After an answer and `FORGIVEN` seconds without trouble the strikes
  start over. The figures are those of StormCrawler, from the experience of Common Crawl. Without jitter all
  hosts that failed together would come back together.
- A page that meets trouble keeps its attempts, because the host may be the cause. But if a page that was
  handed out before meets trouble again while its host answers for other pages, the page is the cause.
- A host without an answer for `PATIENCE` strikes is given up: its pages are handed out once more without a
  request (`Lease.given_up`), and fail with the error of the others (`Trouble.failure`).
- A crawl ends with pages left if all their hosts are shut (resting or held) and none opens within its
  patience (``FRONTIER_END_WAIT``). The next run finds the pages queued. A temporary frontier has no next run
  (`GiveUpRule`): a host that never answered is asked again after the backoffs of a page, for as many times,
  and the pages left at the end are given up.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from .. import reasons
from ..errors import span
from ..parse.headers import TOO_BUSY, retry_after
from ..parse.urls import origin_of
from ..store import keys, records
from ..store.records import COOLDOWN, LONGEST_ASKED, Cooldown
from .host import FOREVER, NO_SITES, GivenUpOrigin, Host, Trouble, deciding

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from ..store.batch import Batch
    from ..store.records import Page
    from .host_order import FairHostQueue

JITTER = 0.1  # a rest is up to this much longer, never shorter
FIRST_REST = 60.0  # seconds, by default
LONGEST_REST = 86_400.0  # seconds, of a rest that the host did not ask for
# Strikes in a row without an answer, over all runs, before a host is given up: by default ten in 17 hours.
PATIENCE = 10
# Statuses whose Retry-After counts: 413 and 5xx by RFC 9110 15.5.14 and 15.6, 403 because GitHub sends it.
# Other errors mean a page that is gone or forbidden, and stays so.
_MAY_ASK = frozenset((*TOO_BUSY, 403, 413, *range(500, 600)))


class GiveUpRule(NamedTuple):
    """When to give up hosts that do not answer: after ``attempts``; ``pause`` returns the seconds to wait
    after so many."""

    attempts: int
    pause: Callable[[int], float]


class GivenUpPages(NamedTuple):
    """A ``host`` that was given up, or one ``origin`` of it; why; and how many pages the host has queued."""

    host: str
    origin: str
    reason: str
    queued: int


class Cooled(NamedTuple):
    """The rest of a host after trouble, None if it needs none; whether the trouble counted as a strike
    (``is_new``); and whether the page that met it keeps its attempts, so that this one does not count."""

    cooldown: Cooldown | None
    is_new: bool
    keeps_attempts: bool


# -- the rule ----------------------------------------------------------------------------------------------


def asked_pause(line: str, now: float) -> float:
    """Return the seconds that a ``Retry-After`` header *line* asks for, a day at most; 0 if it cannot be
    read."""
    return min(retry_after(line, now) or 0.0, LONGEST_ASKED)


def trouble_at(status: int, line: str, now: float) -> Trouble | None:
    """Return the trouble of a host that answered with this *status* and ``Retry-After`` header *line* (empty:
    none); None if it has none. Any error with Retry-After is trouble, unless its status means that it will
    stay."""
    seconds = asked_pause(line, now) if status in _MAY_ASK else 0.0
    if not seconds and status not in TOO_BUSY:
        return None
    return Trouble(reasons.STATUS(status=status), seconds, may_be_page=status == 503 and not seconds)


def after_trouble(
    before: Cooldown | None,
    first: float,
    now: float,
    trouble: Trouble,
    starts_over: bool = False,
    chance: float = 0.0,
) -> Cooldown:
    """Return the rest after *trouble* at *now*, given the rest *before*; *first* is the first rest in
    seconds.

    A Retry-After of 0 or less does not count. A request from before the last strike belongs to the same
    incident: it adds no strike, and only a Retry-After can make the rest longer. *starts_over*: earlier
    strikes do not count. *chance* in 0..1 is the draw of the jitter.
    """
    lengthening, sent = 1 + JITTER * chance, trouble.sent
    rest = min(max(trouble.asked or 0.0, 0.0), LONGEST_ASKED)
    strikes = 1
    if before is not None and not before.is_forgiven(now):
        if now < before.until if sent is None else sent <= before.since:
            return before._replace(until=max(before.until, now + rest * lengthening if rest else 0.0))
        strikes = 1 if starts_over else before.strikes + 1
    if not rest:
        rest = min(first * 2 ** min(strikes - 1, 60), LONGEST_REST)
    return Cooldown(now + rest * lengthening, strikes, now, trouble.reason)


def at_start(stored: bytes, opened_at: float, first: float) -> Cooldown:
    """Return the cooldown in a row, for a crawl that starts at *opened_at*. A row that cannot be read means
    at least that there was trouble: a first rest."""
    cooldown = COOLDOWN.read(stored)
    if cooldown is None:
        return Cooldown(opened_at + first, 1, opened_at, reasons.COOLDOWN_UNREADABLE())
    return cooldown.seen_at(opened_at)


# -- hosts in trouble --------------------------------------------------------------------------------------


class HostTroubles:
    """Records the trouble of hosts, in memory and in the open batch. *first_rest* is the first rest in
    seconds; *rng* draws the jitter. With a ``give_up_rule`` there is no next run."""

    def __init__(
        self, batch: Batch, first_rest: float, give_up_rule: GiveUpRule | None, rng: random.Random
    ) -> None:
        self._batch = batch
        self._first_rest = first_rest
        self.give_up_rule = give_up_rule
        self._rng = rng
        self._latest = 0.0  # time of the last strike in this run
        self._given_up: list[GivenUpPages] = []  # since `drain_given_up`
        # Most stores hold no cooldown: then loading a host costs no lookup.
        self._are_any = next(batch.store.scan(keys.COOLDOWN, limit=1), None) is not None

    def recall(self, host: Host, opened_at: float) -> None:
        """Restore the cooldown of a host that is loaded, or delete one that is forgiven. A lookup, none if no
        host of the store has a cooldown."""
        stored = self._batch.store.get(keys.cooldown_key(host.name)) if self._are_any else None
        if stored is None:
            return
        latest = max(opened_at, self._latest)
        found = at_start(stored, latest, self._first_rest)
        if found.is_forgiven(latest):
            self._keep(host, None)
        else:
            host.cooldown, host.is_doubted = found, not found.is_answering

    def record(self, host: Host, trouble: Trouble, now: float) -> Cooled:
        """Let *host* rest after *trouble*; call `FairHostQueue.update` after it.

        The attempt of the page counts if the page was handed out before while its host answers others, or if
        the host has not answered for `PATIENCE` strikes. Trouble that may be the fault of the page does not
        double the rest of a host that answers. A first broken connection costs no rest: the host is doubted.
        """
        before, was_doubted = host.cooldown, host.is_doubted
        is_retry = trouble.page_id in host.retried
        if trouble.may_be_connection and not was_doubted and not is_retry:
            host.is_doubted = True
            return Cooled(None, is_new=False, keeps_attempts=True)
        starts_over = trouble.may_be_page and not was_doubted
        found = after_trouble(before, self._first_rest, now, trouble, starts_over, self._rng.random())
        rule = self.give_up_rule
        patience = PATIENCE if rule is None or host.done else rule.attempts - 1  # strikes of a silent host
        if rule is not None and trouble.is_silent and found.strikes <= patience < PATIENCE:
            found = found._replace(until=min(found.until, now + rule.pause(found.strikes)))
        if found != before:
            self._are_any = True
            self._latest = max(self._latest, found.since)
            self._keep(host, found)
        is_new = before is None or found.since != before.since
        keeps_attempts = not is_new or (found.strikes <= PATIENCE if was_doubted else not is_retry)
        host.cooldown, host.trouble = found, trouble
        host.is_doubted = was_doubted or is_new
        host.ready_at = max(host.ready_at, found.until)
        if found.strikes > patience and trouble.is_silent and trouble.failure is not None:
            self.give_up(host, trouble, found.until, now)
        return Cooled(found, is_new, keeps_attempts)

    def answered(self, host: Host, sent: float, now: float) -> None:
        """Note that *host* answered a request that was handed out at *sent*: it is no longer doubted, and is
        forgiven half an hour after its rest. Does nothing if the last strike came after *sent*."""
        if host.cooldown is None:
            host.is_doubted = False
        elif sent >= host.cooldown.since:
            host.is_doubted, host.trouble = False, None
            if not host.cooldown.is_answering:
                host.cooldown = host.cooldown._replace(is_answering=True)
                self._keep(host, host.cooldown)
            if host.cooldown.is_forgiven(now):
                host.cooldown = None
                self._keep(host, None)

    def end_rest(self, name: str, host: Host | None, now: float) -> bool:
        """End the rest of a host, in memory or not, in the next batch; returns whether it rested at *now*.
        One lookup."""
        rest = records.read_cooldown(self._batch.store, name)
        if rest is None or rest.until <= now:
            return False
        self._batch.rows[keys.cooldown_key(name)] = None
        if host is not None:
            host.cooldown, host.is_doubted, host.trouble = None, False, None
            host.reset_clock()
        return True

    def _keep(self, host: Host, found: Cooldown | None) -> None:
        row = None if found is None else records.COOLDOWN.encode(found)
        self._batch.rows[keys.cooldown_key(host.name)] = row
        self._batch.touch(host)

    # -- giving up -------------------------------------------------------------------------------------

    def give_up(self, host: Host, trouble: Trouble, until: float, now: float) -> None:
        """Let the pages of the trouble's origin, or all if it names none, fail until *until*; other pages of
        the host may be requested now. In memory only. Call `FairHostQueue.update` after it."""
        host.given_up = {**host.given_up, trouble.origin: GivenUpOrigin(trouble, until)}
        host.held_until = 0.0
        if host.cooldown is not None and host.cooldown.until > now:
            host.cooldown = host.cooldown._replace(until=now)
            host.reset_clock()
        self._given_up.append(GivenUpPages(host.name, trouble.origin, trouble.reason, host.pages))

    def drain_given_up(self) -> tuple[GivenUpPages, ...]:
        """Return what was given up since the last call."""
        found, self._given_up = self._given_up, []
        return tuple(found)


def why_given_up(host: Host, page: Page, now: float) -> Trouble | None:
    """Return the trouble for which *page* of *host* is given up; None if it is to be fetched. No store
    read."""
    found = host.given_up.get(origin_of(page.url) or "")
    if found is None or now >= found.until:
        found = host.given_up.get("")
    return None if found is None else found.trouble


# -- the end of a crawl ------------------------------------------------------------------------------------


class Left(NamedTuple):
    """What a crawl leaves queued when it ends: how many pages of how many hosts, the ``names`` of some hosts,
    each with what it waits for, and when the ``first`` may be asked."""

    pages: int
    hosts: int
    names: tuple[str, ...]
    first: float  # POSIX seconds


def _shut_until(host: Host, now: float) -> float:
    """Return until when *host* is shut: it rests, is held, or its site asks for a delay (POSIX seconds); 0 if
    it is not. A delay that the user sets does not shut a host, however long it is."""
    until = host.cooldown.until if host.cooldown is not None else 0.0
    if host.held_until < FOREVER:  # else its robots.txt is being fetched
        until = max(until, host.held_until)
    if host.ready_at > now and deciding(host.asked).source not in NO_SITES:
        until = max(until, host.ready_at)
    return until if until > now else 0.0


def _what_shuts(host: Host, now: float) -> tuple[str, Trouble]:
    """Return what shuts *host*: in words, and as the trouble with which its pages are given up."""
    until, rest, asked = _shut_until(host, now), host.cooldown, deciding(host.asked)
    if until and rest is not None and rest.until == until:
        return "resting after trouble", host.trouble or Trouble(
            reasons.RESTS_AFTER(host=host.name, trouble=rest.reason)
        )
    if until and host.held_until == until:
        trouble = host.held_for or Trouble(reasons.PAUSE_TOO_LONG())
        return "waiting for robots.txt or the hours it names", trouble
    if until:
        trouble = Trouble(reasons.DELAY(source=asked.source, span=span(asked.seconds)))
        return "asking for a pause between two requests", trouble
    return "" if host.head is not None else "between two attempts", Trouble(reasons.PAUSE_TOO_LONG())


class EndOfCrawl:
    """Decides when a crawl ends although pages of the hosts in *host_queue* are left."""

    def __init__(self, host_queue: FairHostQueue, troubles: HostTroubles) -> None:
        self._host_queue = host_queue
        self._troubles = troubles
        # How many pages had ended when only shut hosts were left, and when that was.
        self._shut_since: tuple[int, float] | None = None

    def ends_at(self, now: float, patience: float, finished: int, next_backoff: float) -> float | None:
        """Return when the crawl ends (POSIX seconds), *now* if it is over, None if there are pages to fetch.

        Call it while nothing is under way. The crawl waits for shut hosts, or for the *next_backoff*, until
        *patience* seconds after the last page ended; it is over at once if none opens by then. *finished*
        counts the pages that have ended. O(hosts).
        """
        if self._host_queue.compact:  # these hosts may be asked
            return None
        first = self._first_to_open(now)
        if first is None or (first := min(first, next_backoff)) <= now or first == FOREVER:
            return None
        if self._shut_since is None or self._shut_since[0] != finished:
            self._shut_since = finished, now
        end = self._shut_since[1] + patience
        return end if first <= end else now

    def give_up_all(self, now: float) -> None:
        """Give up all pages that are left, because there is no next run. O(hosts)."""
        for host in self._askable():
            if "" not in host.given_up:
                trouble = _what_shuts(host, now)[1]._replace(origin="")
                self._troubles.give_up(host, trouble, FOREVER, now)
                self._host_queue.update(host, now)

    def left_over(self, now: float, otherwise: float, queued: int) -> Left:
        """Return what stays *queued* if the crawl ends at *now*; pages of a host that is not shut wait until
        *otherwise*. Blocked hosts do not count. O(hosts)."""
        found = [host for host in self._host_queue.hosts.values() if host.pages and not host.is_blocked]
        compact = len(self._host_queue.compact)
        first = min((_shut_until(host, now) or otherwise for host in found), default=now)
        named = sorted(found, key=attrgetter("name"))[:5]
        doing = ((host.name, _what_shuts(host, now)[0]) for host in named)
        names = tuple(f"{name} ({why})" if why else name for name, why in doing)
        return Left(queued, compact + len(found), names, min(first, otherwise) if compact else first)

    def _askable(self) -> list[Host]:
        hosts = self._host_queue.hosts.values()
        return [host for host in hosts if host.head is not None and not host.is_blocked]

    def _first_to_open(self, now: float) -> float | None:
        """Return when the first host with pages opens, `FOREVER` if there is none; None if a host is not
        shut, or has a request under way."""
        if any(host.in_flight for host in self._host_queue.hosts.values()):
            return None
        times = [_shut_until(host, now) for host in self._askable()]
        return min(times, default=FOREVER) or None
