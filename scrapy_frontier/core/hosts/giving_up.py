"""The last call: pages that nobody can fetch end all the same, so that whoever asked for them is told.

A host that does not answer rests, and so do its pages; in a frontier with a directory the next run finds
them. In one that is removed with its crawl they would be gone without a word. There, when nothing else is
left to do, a host that gives no answer is asked again as soon as a page that failed would be, and given up
after as many attempts; what still waits when nobody waits for it any longer is given up too. Everywhere a
host that gave no answer for `cooldown.PATIENCE` strikes is given up.

The pages of what is given up are handed out once more, without a visit (`Lease.given_up`): the caller fails
them with what it kept (`Trouble.failure`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import reasons
from ..parse.urls import origin_of
from ..time_format import span
from .cooldown import Trouble
from .delay_sources import UNASKED, deciding
from .host import FOREVER, Host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..store.page_rows import Page


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
