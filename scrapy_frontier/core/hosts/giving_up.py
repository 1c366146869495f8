"""The last call: pages that nobody can fetch end all the same, so that whoever asked for them is told.

A host that does not answer rests, and so do its pages; in a frontier with a directory the next run finds
them. In one that is removed with its crawl they would be gone without a word. There, when nothing else is
left to do, a host that gives no answer is asked again as soon as a page that failed would be, and given up
after as many attempts; what still waits when nobody waits for it any longer is given up too. Everywhere a
host that gave no answer for `cooldown.PATIENCE` strikes is given up.

The pages of what is given up are handed out once more, without a visit (`Lease.given_up`): the caller fails
them with what it kept (`Trouble.failure`).

What trouble means for a host and for the page that met it.

`cooldown` has the rule and the row; here it meets hosts in memory and the open batch.

When a crawl ends although pages are left, because nobody may ask for them for a while.

Hosts that rest after trouble, whose robots.txt cannot be read, or that ask for other hours or a long delay
would keep a crawl open for days. What the user ordered is another matter: a delay of the settings is waited
for however long it is.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from .. import reasons
from ..errors import span
from ..parse.urls import origin_of
from ..reasons import NOT_SENT
from ..store import keys, records
from .host import FOREVER, PATIENCE, UNASKED, CooldownRule, Host, Trouble, after_trouble, at_start, deciding

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

    from ..store.batch import Batch
    from ..store.records import Cooldown, Page
    from .turns import SleepingHosts


class Cooled(NamedTuple):
    """A host's rest; ``is_new`` where the trouble counted as a strike. A page that does not keep its
    attempts must count this one."""

    cooldown: Cooldown
    is_new: bool
    keeps_attempts: bool


class Cooldowns:
    """Gives hosts their cooldown by *rule* and takes it back; rows go into the open batch. *rng* draws how
    much longer a rest is."""

    def __init__(self, batch: Batch, rule: CooldownRule, rng: random.Random) -> None:
        self._batch = batch
        self._rule = rule
        self._rng = rng
        # Most stores hold no cooldown at all: then no host that is loaded costs a lookup.
        self._latest = 0.0  # strike of this run
        self._are_any = next(batch.store.scan(keys.COOLDOWN, limit=1), None) is not None

    def recall(self, host: Host, opened_at: float) -> None:
        """Give a host that is loaded the cooldown in its row; one that was forgiven goes. A lookup, none
        where no host of the store has any."""
        stored = self._batch.store.get(keys.cooldown_key(host.name)) if self._are_any else None
        if stored is None:
            return
        latest = max(opened_at, self._latest)
        found = at_start(stored, latest, self._rule)
        if found.is_forgiven(latest):
            self._keep(host, None)
        else:
            host.cooldown, host.is_doubted = found, not found.is_answering

    def meet(self, host: Host, trouble: Trouble, now: float) -> Cooled:
        """Let *host* rest; its clock is the caller's.

        Trouble that may be the page's own does not double the rest of a host that answers otherwise. An
        attempt counts where the host answered other pages and this one met trouble again, from then on with
        each further trouble, and where the host did not answer at all for `cooldown.PATIENCE` strikes.
        """
        before, was_doubted = host.cooldown, host.is_doubted
        is_known = trouble.page_id in host.suspects
        if was_doubted and trouble.may_be_page and is_known:
            # Nobody else was asked in between; but it failed on its own before, or others got answers.
            was_doubted = not trouble.attempts and trouble.origin not in host.origins
        starts_over = trouble.may_be_page and not was_doubted
        found = after_trouble(before, self._rule, now, trouble, starts_over, self._rng.random())
        if found != before:
            self._are_any = True
            self._latest = max(self._latest, found.since)
            self._keep(host, found)
        is_new = before is None or found.since != before.since
        keeps = not is_new or (found.strikes <= PATIENCE if was_doubted else not is_known)
        if trouble.page_id is not None:
            host.suspect(trouble.page_id)
        host.cooldown, host.is_doubted = found, host.is_doubted or is_new
        host.trouble = trouble
        return Cooled(found, is_new, keeps)

    def answered(self, host: Host, sent: float, now: float) -> None:
        """A host with a cooldown answered a request that was handed out at *sent*: it is doubted no more, and
        forgiven half an hour after its rest. Nothing for what was sent before its last strike."""
        if host.cooldown is not None and sent >= host.cooldown.since:
            host.is_doubted, host.trouble = False, None
            if not host.cooldown.is_answering:
                host.cooldown = host.cooldown._replace(is_answering=True)
                self._keep(host, host.cooldown)
            if host.cooldown.is_forgiven(now):
                host.cooldown = None
                self._keep(host, None)

    def end_cooldown(self, name: str, host: Host | None, now: float) -> bool:
        """A host, in memory or not, need not rest any longer; whether it did at *now*. In the next batch; one
        lookup."""
        rest = records.read_cooldown(self._batch.store, name)
        if rest is None or rest.until <= now:
            return False
        self._batch.rows[keys.cooldown_key(name)] = None
        if host is not None:
            host.cooldown, host.is_doubted, host.trouble = None, False, None
            host.reset_clock()
        return True

    def _keep(self, host: Host, found: Cooldown | None) -> None:
        row = None if found is None else records.encode_cooldown(found)
        self._batch.rows[keys.cooldown_key(host.name)] = row
        self._batch.touch(host)


class GiveUpRule(NamedTuple):
    """So many ``attempts`` are enough for a host that gives no answer; ``pause`` tells the seconds to wait
    after so many."""

    attempts: int
    pause: Callable[[int], float]


class GivenUpPages(NamedTuple):
    """What was given up: a host, or the one ``origin`` of it; why; and how many pages the host has queued."""

    host: str
    origin: str
    reason: str
    queued: int


def gave_up(host: Host, trouble: Trouble) -> GivenUpPages:
    """What is told of *host*, or its origin, that was given up because of *trouble*."""
    return GivenUpPages(host.name, trouble.origin, trouble.reason, host.queued)


def why_given_up(host: Host, page: Page, now: float) -> Trouble | None:
    """Why *page* of *host* is given up; None where it is to be fetched. No store read."""
    where = origin_of(page.url) or ""
    given_up = host.given_up.get(where)
    if given_up is not None and now < given_up.until:
        return given_up.trouble
    return None if host.given_up_for is None else _given_up_for(host.given_up_for, where)


def _given_up_for(trouble: Trouble, where: str) -> Trouble:
    """*trouble*, for a page of the origin *where*: what one of another met says nothing about it."""
    return trouble if trouble.origin in ("", where) else trouble._replace(failure=None)


def trouble_at_the_end(host: Host, page: Page, now: float) -> Trouble:
    """Why *page* of *host* cannot be had before the crawl ends: blocked, given up, or what keeps the host
    shut."""
    if host.is_blocked:
        return Trouble(reasons.BLOCKED(host=host.name))
    where = origin_of(page.url) or ""
    return why_given_up(host, page, now) or _given_up_for(_why(host, now), where)


def shorten_waits(hosts: Iterable[Host], rule: GiveUpRule, now: float) -> list[tuple[Host, Trouble | None]]:
    """The hosts of which something can be had sooner than it seemed, and the trouble for which one is given
    up; `Hosts.put` has to follow. O(hosts)."""
    found: list[tuple[Host, Trouble | None]] = []
    for host in hosts:
        held_for, trouble, rest = host.held_for, host.trouble, host.cooldown
        if not host.heads or host.is_blocked:
            continue
        if held_for is not None and now < host.held_until < FOREVER and held_for.times >= rule.attempts:
            host.give_up(held_for, host.held_until, now)
            found.append((host, held_for))
        elif trouble is None or rest is None or not trouble.is_silent or rest.until <= now:
            continue
        elif rest.strikes >= rule.attempts and trouble.origin not in host.origins:
            host.give_up(trouble, rest.until, now)
            found.append((host, trouble))
        elif (soon := rest.since + rule.pause(rest.strikes)) < rest.until:
            host.end_rest(soon)
            found.append((host, None))
    return found


def give_up_all(hosts: Iterable[Host], now: float) -> list[tuple[Host, Trouble]]:
    """Give up all that is left of *hosts*, whoever is to be asked: nobody waits for them. `Hosts.put` has to
    follow. O(hosts)."""
    found = []
    for host in hosts:
        if host.heads and not host.is_blocked and host.given_up_for is None:
            host.given_up_for = _why(host, now)
            found.append((host, host.given_up_for))
    return found


def _why(host: Host, now: float) -> Trouble:
    if host.held_for is not None and host.held_until > now:
        return host.held_for
    if host.cooldown is not None and host.cooldown.until > now:
        return host.trouble or Trouble(reasons.RESTS_AFTER(host=host.name, trouble=host.cooldown.reason))
    asked = deciding(host.asked)
    if host.ready_at > now and asked.source not in UNASKED:
        return Trouble(reasons.DELAY(source=asked.source, span=span(asked.seconds)))
    return Trouble(reasons.PAUSE_TOO_LONG())


_PAUSE = "asking for a pause between two requests"


class Left(NamedTuple):
    """What a crawl leaves queued when it ends: so many pages of so many hosts, some ``names`` of those, when
    the ``first`` may be asked, and what they are all doing, in words: nothing where they could be asked."""

    pages: int
    hosts: int
    names: tuple[str, ...]
    first: float  # POSIX seconds
    doing: tuple[str, ...] = ()


def shut_until(host: Host, now: float) -> float:
    """Until when *host* wants not to be asked, or cannot be (POSIX seconds); 0 where it may be asked as the
    settings say."""
    until = host.cooldown.until if host.cooldown is not None else 0.0
    if host.held_until < FOREVER:  # else somebody is about to find out
        until = max(until, host.held_until)
    if host.ready_at > now and host.is_asked and deciding(host.asked).source not in UNASKED:
        until = max(until, host.ready_at)
    return until if until > now else 0.0


def _doing(host: Host, now: float) -> str:
    """Why nobody asks *host* for a page; empty where somebody may."""
    until = shut_until(host, now)
    if not until:
        return "" if host.heads else "between two attempts"
    if host.cooldown is not None and host.cooldown.until == until:
        return "resting after trouble"
    if host.held_until == until:
        if host.held_for is not None and NOT_SENT.read(host.held_for.reason) is not None:
            return "waiting until this machine can send requests again"
        return "waiting for robots.txt or the hours it names"
    return _PAUSE


def first_to_open(hosts: Iterable[Host], now: float) -> float | None:
    """When the first host with pages may be asked, `FOREVER` if there is none; None where one may be asked
    already, or is. O(hosts) where all are shut."""
    first = FOREVER
    for host in hosts:
        if host.in_flight:
            return None
        if host.heads and not host.is_blocked:
            until = shut_until(host, now)
            if not until:
                return None
            first = min(first, until)
    return first


def first_pause_over(hosts: Iterable[Host], now: float) -> float:
    """When the first of *hosts* with pages may be asked that wants no more than a pause between two requests;
    `FOREVER` if there is none. O(hosts)."""
    wanted = (host for host in hosts if host.heads and not host.is_blocked and _doing(host, now) == _PAUSE)
    return min((host.ready_at for host in wanted), default=FOREVER)


def left_behind(hosts: Iterable[Host], now: float, otherwise: float, asleep: SleepingHosts) -> Left:
    """The queued pages of *hosts*; those of a host that is not shut wait until *otherwise*, like those of
    hosts *asleep*."""
    found = [
        (shut_until(host, now) or otherwise, host) for host in hosts if host.queued and not host.is_blocked
    ]
    names = tuple(sorted([*(host.name for _, host in found), *islice(asleep.names(), 5)])[:5])
    first = min([until for until, _ in found] + [otherwise] * bool(asleep), default=now)
    doing = tuple(sorted({_doing(host, now) for _, host in found} - {""}))
    pages = asleep.pages + sum(host.queued for _, host in found)
    return Left(pages, len(asleep) + len(found), names, first, doing)
