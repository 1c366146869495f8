"""Decides how long to wait for a host that fails: it rests, is asked again, is given up, or the crawl ends.

*Trouble* is a 429 or 503, a refused, reset or timed out connection, a name that does not resolve.

- After trouble the host rests (`Cooldown`): as long as it asks for (Retry-After, RFC 9110 10.2.3), else
  `FRONTIER_COOLDOWN` seconds, doubled with each strike up to `LONGEST_REST`. Then it is doubted until it
  answers. After an answer and `FORGIVEN` seconds without trouble the strikes start over. The figures are
  StormCrawler's, from the experience of Common Crawl: without jitter all hosts that were lost together come
  back together.
- A page that meets trouble keeps its attempts, for the host may be the cause; but a page that was handed out
  before and meets it again while its host answers others is the cause itself.
- A host that gave no answer for `PATIENCE` strikes is given up: its pages are handed out once more without a
  request (`Lease.given_up`), and fail with what the others met (`Trouble.failure`).
- A crawl ends while pages are left, if all their hosts are shut (resting, or held), and none opens within its
  patience (``FRONTIER_END_WAIT``). The next run finds the pages queued. A temporary frontier has no next run
  (`GiveUpRule`): there a host that never answered is asked again as soon, and as often, as a page that
  failed would be, and what is left at the end is given up.
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
# Strikes in a row without one answer, over all runs, before a host is given up: by default it has then been
# asked ten times in 17 hours.
PATIENCE = 10
# Statuses whose Retry-After counts: the last ones by RFC 9110 15.5.14 and 15.6; 403 as GitHub uses it. The
# other errors are of a page that is gone or forbidden, and stays so.
_MAY_ASK = frozenset((*TOO_BUSY, 403, 413, *range(500, 600)))


class GiveUpRule(NamedTuple):
    """So many ``attempts`` are enough for a host that gives no answer; ``pause`` gives the seconds to wait
    after so many."""

    attempts: int
    pause: Callable[[int], float]


class GivenUpPages(NamedTuple):
    """What was given up: a host, or its one ``origin``; why; and how many pages the host has queued."""

    host: str
    origin: str
    reason: str
    queued: int


class Cooled(NamedTuple):
    """The rest of a host after trouble; None if that costs no rest. ``is_new`` if it counted as a strike. A
    page that does not keep its attempts must count this one."""

    cooldown: Cooldown | None
    is_new: bool
    keeps_attempts: bool


# -- the rule ----------------------------------------------------------------------------------------------


def asked_pause(line: str, now: float) -> float:
    """Return the seconds for which this *line* ``Retry-After`` asks to be left alone, a day at most; 0 if it
    does not say."""
    return min(retry_after(line, now) or 0.0, LONGEST_ASKED)


def trouble_at(status: int, line: str, now: float) -> Trouble | None:
    """Return what an answer with this *status* and *line* ``Retry-After`` (empty: none) says of its host;
    None if it says nothing. An error with Retry-After is trouble, unless its status says that it will
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
    """Return the rest that follows from *trouble* seen at *now*; *first* is the first one in seconds.

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
        rest = min(first * 2 ** min(strikes - 1, 60), LONGEST_REST)
    return Cooldown(now + rest * lengthening, strikes, now, trouble.reason)


def at_start(stored: bytes, opened_at: float, first: float) -> Cooldown:
    """Return the cooldown in a row, for a crawl that starts at *opened_at*; a row that cannot be read says at
    least that there was trouble."""
    cooldown = COOLDOWN.read(stored)
    if cooldown is None:
        return Cooldown(opened_at + first, 1, opened_at, reasons.COOLDOWN_UNREADABLE())
    return cooldown.seen_at(opened_at)


# -- hosts in trouble --------------------------------------------------------------------------------------


class HostTroubles:
    """Records what hosts met, in memory and in the open batch: *first_rest* is the first rest in seconds,
    *rng* draws how much longer one is. With a ``give_up_rule`` there is no next run."""

    def __init__(
        self, batch: Batch, first_rest: float, give_up_rule: GiveUpRule | None, rng: random.Random
    ) -> None:
        self._batch = batch
        self._first_rest = first_rest
        self.give_up_rule = give_up_rule
        self._rng = rng
        self._latest = 0.0  # strike of this run
        self._given_up: list[GivenUpPages] = []  # since it was asked last
        # Most stores hold no cooldown at all: then no host that is loaded costs a lookup.
        self._are_any = next(batch.store.scan(keys.COOLDOWN, limit=1), None) is not None

    def recall(self, host: Host, opened_at: float) -> None:
        """Give a host that is loaded the cooldown in its row; one that was forgiven goes. A lookup, none if
        no host of the store has any."""
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
        """Let *host* rest; `FairHostQueue.update` has to follow.

        An attempt of the page counts if it was handed out before and its host answers others, and if the host
        did not answer at all for `PATIENCE` strikes. Trouble that may be the page's own does not double the
        rest of a host that answers. A first connection that breaks costs no rest, only the doubt.
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
        """Note that *host* answered a request that was handed out at *sent*: it is doubted no more, and
        forgiven half an hour after its rest. Nothing for what was sent before its last strike."""
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
        """Have the pages of the trouble's origin, or all if it names none, fail until *until*; others may be
        asked for now. In memory only; `FairHostQueue.update` has to follow."""
        host.given_up = {**host.given_up, trouble.origin: GivenUpOrigin(trouble, until)}
        host.held_until = 0.0
        if host.cooldown is not None and host.cooldown.until > now:
            host.cooldown = host.cooldown._replace(until=now)
            host.reset_clock()
        self._given_up.append(GivenUpPages(host.name, trouble.origin, trouble.reason, host.pages))

    def drain_given_up(self) -> tuple[GivenUpPages, ...]:
        """Return what was given up since this was asked last."""
        found, self._given_up = self._given_up, []
        return tuple(found)


def why_given_up(host: Host, page: Page, now: float) -> Trouble | None:
    """Return why *page* of *host* is given up; None if it is to be fetched. No store read."""
    found = host.given_up.get(origin_of(page.url) or "")
    if found is None or now >= found.until:
        found = host.given_up.get("")
    return None if found is None else found.trouble


# -- the end of a crawl ------------------------------------------------------------------------------------


class Left(NamedTuple):
    """What a crawl leaves queued when it ends: so many pages of so many hosts, some ``names`` of those, each
    with what keeps it from being asked, and when the ``first`` may be asked."""

    pages: int
    hosts: int
    names: tuple[str, ...]
    first: float  # POSIX seconds


def _shut_until(host: Host, now: float) -> float:
    """Return until when *host* wants not to be asked, or cannot be (POSIX seconds); 0 if it may be asked as
    the settings say. A delay that the user ordered is waited for however long it is."""
    until = host.cooldown.until if host.cooldown is not None else 0.0
    if host.held_until < FOREVER:  # else its robots.txt is on its way
        until = max(until, host.held_until)
    if host.ready_at > now and deciding(host.asked).source not in NO_SITES:
        until = max(until, host.ready_at)
    return until if until > now else 0.0


def _what_shuts(host: Host, now: float) -> tuple[str, Trouble]:
    """Return what keeps *host* from being asked: what it is doing, in words, and as trouble of its pages."""
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
        # Only hosts that are shut are left, since so many pages had ended, and since then.
        self._alone: tuple[int, float] | None = None

    def ends_at(self, now: float, patience: float, finished: int, next_backoff: float) -> float | None:
        """Return when the crawl ends (POSIX seconds), *now* if it is over; None: it stays open, for pages can
        be had.

        To be called while nothing is under way. *patience* seconds after a page came to an end, of which
        there are *finished*, it waits for a host that is shut, or for the *next_backoff*; it is over at once
        if none opens by then. O(hosts).
        """
        if self._host_queue.compact:  # these hosts may be asked
            return None
        first = self._first_to_open(now)
        if first is None or (first := min(first, next_backoff)) <= now or first == FOREVER:
            return None
        if self._alone is None or self._alone[0] != finished:
            self._alone = finished, now
        end = self._alone[1] + patience
        return end if first <= end else now

    def give_up_all(self, now: float) -> None:
        """Give up all pages that are left, because there is no next run. O(hosts)."""
        for host in self._askable():
            if "" not in host.given_up:
                trouble = _what_shuts(host, now)[1]._replace(origin="")
                self._troubles.give_up(host, trouble, FOREVER, now)
                self._host_queue.update(host, now)

    def left_over(self, now: float, otherwise: float, queued: int) -> Left:
        """Return the pages that stay *queued* if the crawl ends at *now*; those of a host that is not shut
        wait until *otherwise*. Blocked hosts do not count. O(hosts)."""
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
        """Return when the first host with pages opens, `FOREVER` if there is none; None if one may be asked
        already, or is."""
        if any(host.in_flight for host in self._host_queue.hosts.values()):
            return None
        times = [_shut_until(host, now) for host in self._askable()]
        return min(times, default=FOREVER) or None
