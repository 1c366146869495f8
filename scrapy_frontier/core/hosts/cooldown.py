"""How long a host is left alone after trouble: the rule; `host_rows` has the row that stays.

Trouble is a 429 or 503, a refused, reset or timed out connection, a name that does not resolve. What the host
asks for itself (Retry-After, RFC 9110 10.2.3) wins; otherwise the rest begins with `CooldownRule.first` and
doubles with each strike up to `CooldownRule.longest`. After an answer and `FORGIVEN` seconds without trouble
the strikes start over: a host that is asked once a day and never answers is one that never answers. The
figures are StormCrawler's, who learnt them at Common Crawl: without jitter all hosts that were lost together
come back together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import reasons
from ..errors import lenient
from ..parse.headers import TOO_BUSY, retry_after
from ..store.host_rows import LONGEST_ASKED, Cooldown, decode_cooldown

if TYPE_CHECKING:
    from ..store.keys import PageId

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
