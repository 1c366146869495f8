"""How long a host is left alone after trouble: the rule, and the row that outlives the crawl.

Trouble is a 429 or 503, a refused, reset or timed out connection, a name that does not resolve. What the host
asks for itself (Retry-After, RFC 9110 10.2.3) wins; otherwise the rest begins with `Rule.first` and doubles
with each strike up to `Rule.longest`. After an answer and `FORGIVEN` seconds without trouble the strikes
start over: a host that is asked once a day and never answers is one that never answers. The figures are
StormCrawler's, who learnt them at Common Crawl: without jitter all hosts that were lost together come back
together.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from .errors import UnreadableRecord

if TYPE_CHECKING:
    from .store import Store

COOLDOWN = b"t"

JITTER = 0.1  # a rest is up to this much longer, never shorter
FORGIVEN = 1800.0  # seconds without trouble, counted from the end of the rest
LONGEST_ASKED = 86_400.0  # seconds of a Retry-After that are believed: a day
# Strikes in a row without one answer, over all runs. After these the host is given up, so that its pages end
# some day: with the default steps it has then been asked ten times in 17 hours.
PATIENCE = 10

_ROW = struct.Struct(">dId")
_ANSWERING = 1 << 31  # beside the strikes


class Rule(NamedTuple):
    """Seconds of the first rest and of the longest."""

    first: float = 60.0
    longest: float = 86_400.0


class Trouble(NamedTuple):
    """What went wrong, in words.

    ``asked`` is the host's Retry-After in seconds. ``sent`` is when the request was handed out, and
    ``page_id`` its page, where the frontier handed it out. ``may_be_page``: it may be the fault of
    the page alone (a timeout, a reset, a bare 503), which has had *attempts* that counted before.
    ``origin`` is the scheme, host and port that were asked; where nobody answered there, ``is_silent``.
    ``failure`` is what the spider is told if the pages of that origin are given up: the caller's own.
    """

    reason: str
    asked: float | None = None
    may_be_page: bool = False
    sent: float | None = None
    page_id: int | None = None
    attempts: int = 0
    origin: str = ""
    is_silent: bool = False
    failure: object = None


class GivenUp(NamedTuple):
    """Pages of an origin are not asked for before ``until`` (POSIX seconds), because of ``trouble``."""

    trouble: Trouble
    until: float


class Cooldown(NamedTuple):
    """A host's rest ``until`` (POSIX seconds) and why; ``since`` is when the last strike was counted, and
    whether the host ``is_answering`` again after that."""

    until: float
    strikes: int
    since: float
    reason: str
    is_answering: bool = False

    def is_forgiven(self, now: float) -> bool:
        return self.is_answering and now >= self.until + FORGIVEN


def after_trouble(
    before: Cooldown | None,
    rule: Rule,
    now: float,
    reason: str,
    *,
    asked: float | None = None,
    sent: float | None = None,
    starts_over: bool = False,
    chance: float = 0.0,
) -> Cooldown:
    """What follows from trouble seen at *now* with a request that was *sent* then.

    *asked* is the host's own Retry-After in seconds (0 and less say nothing), *chance* in 0..1 draws the
    jitter. A request from before the last strike belongs to that incident: it adds no strike, and only
    a Retry-After can make the rest longer. *starts_over*: the strikes so far do not count.
    """
    lengthening = 1 + JITTER * chance
    has_asked = asked is not None and asked > 0
    rest = min(asked, LONGEST_ASKED) if asked is not None and has_asked else 0.0
    if before is not None and not before.is_forgiven(now):
        is_same = now < before.until if sent is None else sent <= before.since
        if is_same:
            until = max(before.until, now + rest * lengthening) if has_asked else before.until
            return before._replace(until=until)
        strikes = 1 if starts_over else before.strikes + 1
    else:
        strikes = 1
    if not has_asked:
        rest = min(rule.first * 2 ** min(strikes - 1, 60), rule.longest)
    return Cooldown(now + rest * lengthening, strikes, now, reason)


def at_start(stored: bytes, opened_at: float, rule: Rule) -> Cooldown:
    """The cooldown in a row, for a crawl that starts at *opened_at*.

    A clock that was set back must not silence the host for longer than it had to rest, and a row nobody can
    read says at least that there was trouble.
    """
    try:
        cooldown = decode_cooldown(stored)
    except UnreadableRecord:
        return Cooldown(opened_at + rule.first, 1, opened_at, "its row could not be read")
    if cooldown.since > opened_at:
        return cooldown._replace(until=opened_at + cooldown.until - cooldown.since, since=opened_at)
    return cooldown


def read_cooldown(store: Store, host: str) -> Cooldown | None:
    """The cooldown of *host*; None where there is none, or none that can be read."""
    stored = store.get(cooldown_key(host))
    try:
        return None if stored is None else decode_cooldown(stored)
    except UnreadableRecord:
        return None


def cooldown_key(host: str) -> bytes:
    return COOLDOWN + host.encode()


def encode_cooldown(cooldown: Cooldown) -> bytes:
    strikes = min(cooldown.strikes, _ANSWERING - 1) | (_ANSWERING if cooldown.is_answering else 0)
    head = _ROW.pack(cooldown.until, strikes, cooldown.since)
    return head + cooldown.reason.encode("utf-8", "replace")


def decode_cooldown(data: bytes) -> Cooldown:
    """Raises `UnreadableRecord` on bytes that are no cooldown row."""
    try:
        until, strikes, since = _ROW.unpack_from(data)
        strikes, is_answering = strikes & ~_ANSWERING, bool(strikes & _ANSWERING)
        if not (strikes and 0 <= since <= until < since + 2 * LONGEST_ASKED * 366):
            raise ValueError(f"strike {strikes} at {since} until {until}")
        return Cooldown(until, strikes, since, data[_ROW.size :].decode(), is_answering)
    except (struct.error, ValueError) as error:
        raise UnreadableRecord(f"cooldown row of {len(data)} bytes: {error}") from error
