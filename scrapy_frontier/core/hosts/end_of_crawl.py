"""When a crawl ends although pages are left, because nobody may ask for them for a while.

Hosts that rest after trouble, whose robots.txt cannot be read, or that ask for other hours or a long delay
would keep a crawl open for days. What the user ordered is another matter: a delay of the settings is waited
for however long it is.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ..reasons import NOT_SENT
from .delay_sources import UNASKED, deciding
from .host import FOREVER, Host

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .sleeping_hosts import SleepingHosts


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
