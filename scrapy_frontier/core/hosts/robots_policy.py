"""Decides what an answer to a request for robots.txt means, how long it is valid, and when to ask again.

While the file cannot be reached an old copy serves (RFC 9309 2.3 and 2.4). Pure functions of values.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import reasons
from ..parse.headers import TOO_BUSY
from ..parse.robots_txt import Rules, counted_part, parse
from ..store.records import RobotsCopy, Verdict
from .host import FOREVER, Trouble

MAX_REDIRECTS = 5  # hops to follow before the file counts as unavailable (RFC 9309 2.3.1.2)
LONGEST_DELAY = 86_400.0  # seconds; a longer Crawl-delay counts as this
FRESH_FOR = 86_400.0  # seconds a copy is used before the site is asked again (RFC 9309 2.4)
UNREACHABLE_LIMIT = 30 * 86_400.0  # seconds of errors after which there counts as being no file (2.3.1.4)
FIRST_PAUSE = 60.0  # seconds before an unreachable file is asked for again; doubles with each failure
FIRST_SOON = 1.0  # seconds, the same while a request waits for the file
LONGEST_PAUSE = 86_400.0  # seconds
LONGEST_REST = 60.0  # seconds for which a site waits while the host of a redirect rests after trouble


class Answer(NamedTuple):
    """The last answer to a request for robots.txt."""

    status: int | None  # None: there was none
    body: bytes = b""
    retry_after: float = 0.0  # seconds
    error: str = ""  # why there was no answer
    host: str = ""  # the politeness key that it came from
    failure: Exception | None = None  # what was raised, by the site itself or by this machine
    by_proxy: bool = False
    is_refused: bool = False  # the project's middlewares refused the request

    @property
    def words(self) -> str:
        """What came instead of a file, for the log."""
        return self.error or f"HTTP {self.status}{' by a proxy' if self.by_proxy else ''}"


def verdict(status: int | None, by_proxy: bool = False) -> Verdict:
    """Return what an answer with this *status* means; a status of None: there was no answer.

    2xx is a file, 4xx means that there is none, 5xx and network errors are "unreachable" (RFC 9309 2.3.1).
    429 counts as unreachable, as with Google, because the host asks for fewer requests; the RFC is silent. So
    does 407, which only a proxy sends, and a 401 or 403 by a proxy. A 3xx is left after `MAX_REDIRECTS` hops
    or without a usable Location: there is no file. A 304 is no answer to an unconditional request.
    """
    if status is None or status in (304, 407, 429) or (by_proxy and status in (401, 403)):
        return Verdict.POSTPONE
    if 200 <= status < 300:
        return Verdict.PARSE
    return Verdict.ALLOW_ALL if 300 <= status < 500 else Verdict.POSTPONE


def after_answer(before: RobotsCopy | None, answer: Answer, now: float, soon: int = 0) -> RobotsCopy:
    """Return the copy after an *answer*, given the copy *before*.

    An unreachable file leaves the old copy as it is; the pause until the next request doubles, and a longer
    ``retry_after`` prevails, up to a day. The first *soon* pauses are of seconds, unless an old copy serves,
    or the site answers 429 without Retry-After.
    """
    status, meaning = answer.status, verdict(answer.status, answer.by_proxy)
    if meaning is Verdict.PARSE:
        body = counted_part(answer.body)
        return RobotsCopy(meaning, status or 0, now, now + FRESH_FOR, 0.0, 0, body)
    if meaning is Verdict.ALLOW_ALL:
        return RobotsCopy(meaning, status or 0, now, now + FRESH_FOR)
    before = before or RobotsCopy()
    is_soon = not before.body and before.failures < soon and (status != 429 or answer.retry_after)
    pause = min((FIRST_SOON if is_soon else FIRST_PAUSE) * 2 ** min(before.failures, 30), LONGEST_PAUSE)
    return before._replace(
        status=status or 0,
        ask_at=now + max(pause, min(answer.retry_after, LONGEST_PAUSE)),
        failing_since=before.failing_since or now,
        failures=before.failures + 1,
    )


def unasked(before: RobotsCopy | None, now: float) -> RobotsCopy:
    """Return the copy of a file whose request the project's middlewares refuse: the copy *before*, else that
    there is no file, as with Scrapy's own middleware."""
    if before is None or before.verdict is Verdict.POSTPONE:
        before = RobotsCopy(Verdict.ALLOW_ALL, fetched=now)
    return before._replace(ask_at=now + FRESH_FOR, failing_since=0.0, failures=0)


def is_current(copy: RobotsCopy, now: float) -> bool:
    """Return whether *copy* may be used at *now* without asking again. A clock that was set back makes no
    copy last longer."""
    return now < copy.ask_at <= now + FRESH_FOR + 1


def trouble_with(answer: Answer, copy: RobotsCopy) -> Trouble | None:
    """Return the trouble of a host whose *answer* is a 429 or 503 while an old *copy* lets its pages come;
    None for any other: without a copy its pages wait anyway."""
    if answer.status not in TOO_BUSY or copy.verdict is not Verdict.PARSE:
        return None
    return Trouble(reasons.ROBOTS_STATUS(status=answer.status), answer.retry_after)


def why_not_awaited(host: str, wait: float, is_cooling: bool) -> str:
    """Return why a request for robots.txt does not wait for *host*, which may be asked in *wait* seconds: the
    host is blocked, or rests for more than `LONGEST_REST` after trouble. Empty if the request waits."""
    if wait == FOREVER:
        return f"{host} is blocked"
    return f"{host} rests after trouble" if is_cooling and wait > LONGEST_REST else ""


class RobotsStatus(NamedTuple):
    """What robots.txt means for the pages of one origin: all are allowed, ``rules`` apply, or the pages
    wait."""

    verdict: Verdict
    rules: Rules
    ask_at: float  # POSIX seconds: until then the site is not asked again
    failures: int = 0  # requests in a row that did not reach the file

    def trouble(self, origin: str, failure: object = None) -> Trouble:
        """Return why the pages of *origin* wait, for `Frontier.hold`: its file cannot be reached (*failure*
        is the error), or it asks for other hours."""
        if self.verdict is not Verdict.POSTPONE:
            return Trouble(reasons.ROBOTS_HOURS(origin=origin), origin=origin)
        reason = reasons.ROBOTS_UNREADABLE(origin=origin)
        return Trouble(reason, times=self.failures, origin=origin, failure=failure)

    def held_until(self, now: float) -> float:
        """Return when a page may be fetched at the earliest, 0 for now: when an unreachable file is requested
        again, or when the next Visit-time begins."""
        if self.verdict is Verdict.POSTPONE:
            return self.ask_at
        wait = self.rules.opens_in(now)
        return now + wait if wait else 0.0

    def delay(self, now: float) -> float:
        """Return the seconds between two requests that the file asks for, at most `LONGEST_DELAY`: the larger
        of its Crawl-delay and its Request-rates at *now*; 0: none."""
        return min(self.rules.delay(now), LONGEST_DELAY)


_NO_RULES = parse(b"", "*")


def robots_status(copy: RobotsCopy, now: float, agent: str, url: str = "") -> RobotsStatus:
    """Return what *copy*, of the file at *url*, means for one user agent. 80 us for a usual file, 1 us a byte
    at worst.

    While the file cannot be reached, an old one applies (RFC 9309 2.3.1.4). A stored 404 is no file: then the
    pages wait, at most 30 days.
    """
    meaning = copy.verdict
    if copy.failing_since and meaning is not Verdict.PARSE:
        is_long = now - copy.failing_since >= UNREACHABLE_LIMIT
        meaning = Verdict.ALLOW_ALL if is_long else Verdict.POSTPONE
    rules = parse(copy.body, agent, url) if meaning is Verdict.PARSE else _NO_RULES
    return RobotsStatus(meaning, rules, copy.ask_at, copy.failures)
