"""What an answer to a request for robots.txt means, for how long it holds, and when to ask again.

An old copy serves while the file cannot be reached (RFC 9309 2.3, 2.4). Pure: answers in, values out.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from .. import reasons
from ..parse.headers import TOO_BUSY, http_date
from ..parse.robots_txt import BODY_LIMIT, Rules, parse
from ..store.records import LONGEST_VALIDATOR, RobotsCopy, Verdict
from .host import FOREVER, Trouble

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_REDIRECTS = 5  # hops to follow before the file counts as unavailable (RFC 9309 2.3.1.2)
FRESH_LIMIT = 86_400.0  # seconds a copy may be used (RFC 9309 2.4)
FRESH_FLOOR = 3_600.0  # seconds a copy is used at least: max-age=0 is common, and nobody means a fetch a page
UNREACHABLE_LIMIT = 30 * 86_400.0  # seconds of errors after which a host counts as one without (2.3.1.4)


def verdict(status: int | None) -> Verdict:
    """Say what the last answer to a robots.txt request means; *status* None: there was no answer.

    2xx is a file, 4xx is none, 5xx and network errors are "unreachable" (RFC 9309 2.3.1). 429 is taken as
    unreachable, as Google does: the RFC is silent and the host has just asked for less. So is 407, which
    only a proxy on the way says (RFC 9110 15.5.8): the host was not asked. A 3xx is left over after
    `MAX_REDIRECTS` hops or without a usable Location: no file. A 304 says nothing of a file, but that a copy
    still holds: `learnt` knows whether there is one.
    """
    if status is None or status == 304:
        return Verdict.POSTPONE
    if 200 <= status < 300:
        return Verdict.PARSE
    if 300 <= status < 500 and status not in (407, 429):
        return Verdict.ALLOW_ALL
    return Verdict.POSTPONE


def unreachable(has_copy: bool, seconds: float) -> Verdict:
    """Say what holds after *seconds* of `Verdict.POSTPONE`: the old copy, else to wait, else to give in.

    RFC 9309 2.3.1.4 and 2.4: a stale copy may be used while the file is unreachable; after a reasonably
    long time (30 days) the host may be taken as having no file.
    """
    if has_copy:
        return Verdict.PARSE
    return Verdict.ALLOW_ALL if seconds >= UNREACHABLE_LIMIT else Verdict.POSTPONE


_MAX_AGE = re.compile(r'(?i)(?:^|,)\s*max-age\s*=\s*"?(\d{1,10})')


def fresh_for(cache_control: Sequence[str] = (), age: float = 0.0) -> float:
    """Return the seconds a copy just fetched may be used: ``max-age`` less *age*, 1 hour to 24 hours.

    RFC 9309 2.4 lets the cache headers decide below 24 hours; ``no-cache`` and ``no-store`` give the floor.
    """
    line = ",".join(cache_control)
    if re.search(r"(?i)(?:^|,)\s*no-(?:cache|store)\b", line):
        return FRESH_FLOOR
    match = _MAX_AGE.search(line)
    asked = float(match[1]) - max(age, 0.0) if match else FRESH_LIMIT
    return min(max(asked, FRESH_FLOOR), FRESH_LIMIT)


FIRST_PAUSE = 60.0  # seconds before an unreachable file is asked for again; doubles with each failure
LONGEST_PAUSE = 86_400.0  # seconds
LONGEST_REST = 60.0  # seconds for the host of a redirect: nobody else's rest of a day keeps a site waiting

# -- answers -----------------------------------------------------------------------------------------------


def is_proxy_to_blame(status: int | None) -> bool:
    """Whether an answer by a proxy with this *status*, None where there was none, may be its own: for want of
    a password, of quota or of leave. Then it says nothing of the site: only 2xx, 3xx, 404 and 410 do."""
    return status is None or not (200 <= status < 400 or status in (404, 410))


class Answer(NamedTuple):
    """The last answer: *status* None where there was none, then *error* says why, and *failure* is what was
    raised if that is the fault of the site itself, or of this machine. *host* is the politeness key that it
    came from. It ``was_conditional`` if it answers a request with validators. ``cached_at`` is when it was
    given to the cache that it comes from, 0 where nobody knows; None: it is the web's. It ``is_refused`` if
    the project has nobody asked."""

    status: int | None
    body: bytes = b""
    cache_control: Sequence[str] = ()
    age: float = 0.0
    retry_after: float = 0.0
    etag: str = ""
    modified: str = ""
    error: str = ""
    host: str = ""
    failure: Exception | None = None
    was_conditional: bool = False
    cached_at: float | None = None
    is_refused: bool = False

    @property
    def words(self) -> str:
        """What is to be told of an answer that says nothing."""
        return self.error or f"HTTP {self.status}"


def asked_directly(by_proxy: Answer, answer: Answer) -> Answer:
    """*answer* of a site that was asked directly, for the one *by_proxy* may be the proxy's own. Where it
    says nothing either, both are told; where there is none, the pause asked for by proxy holds: there may be
    no other way to the site."""
    if verdict(answer.status) is not Verdict.POSTPONE:
        return answer
    words = f"{by_proxy.words} by the proxy that its page names, {answer.words} directly"
    pause = by_proxy.retry_after if answer.status is None else answer.retry_after
    return answer._replace(error=words, retry_after=pause)


def given_at(date: str, now: float) -> float:
    """When an answer with that Date header was given, POSIX seconds; 0 where it is none, or yet to come."""
    when = http_date(date, now)
    return 0.0 if when is None or when > now else when


def replayed(answer: Answer) -> Answer:
    """*answer* of a cache that stands for the web: nobody can be asked for a file that is not in it, so that
    its site counts as one without, as by Scrapy's own middleware."""
    if verdict(answer.status) is Verdict.PARSE:
        return answer
    return answer._replace(status=404, retry_after=0.0, error="", failure=None)


def learnt(before: RobotsCopy | None, answer: Answer, now: float) -> RobotsCopy:
    """What is known after an *answer*, given what was known *before*.

    A 304 says that the file is the one we have (RFC 9110 15.4.5), and its age starts anew. One that nobody
    asked for says nothing.

    An answer that says nothing leaves the old copy as it is, and the pause until the next request doubles;
    a ``retry_after`` that is longer wins, up to a day.
    """
    status, meaning = answer.status, verdict(answer.status)
    given = answer.etag, answer.modified
    etag, modified = (text if len(text) <= LONGEST_VALIDATOR else "" for text in given)
    fresh_until = now + fresh_for(answer.cache_control, answer.age)
    if status == 304 and answer.was_conditional and before is not None and before.verdict is Verdict.PARSE:
        return before._replace(
            status=304,
            fetched=now,
            ask_at=fresh_until,
            failing_since=0.0,
            failures=0,
            etag=etag or before.etag,
            modified=modified or before.modified,
        )
    if meaning is Verdict.PARSE:
        body = whole_lines(answer.body)
        return RobotsCopy(meaning, status or 0, now, fresh_until, 0.0, 0, body, etag, modified)
    if meaning is not Verdict.POSTPONE:
        return RobotsCopy(meaning, status or 0, now, fresh_until)
    before = before or RobotsCopy()
    pause = min(FIRST_PAUSE * 2 ** min(before.failures, 30), LONGEST_PAUSE)
    return before._replace(
        status=status or 0,
        ask_at=now + max(pause, min(answer.retry_after, LONGEST_PAUSE)),
        failing_since=before.failing_since or now,
        failures=before.failures + 1,
    )


def unasked(before: RobotsCopy | None, now: float) -> RobotsCopy:
    """What holds for now of a file that the project refuses to ask for, given what was known *before*: that,
    else that there is none, as by Scrapy's own middleware."""
    if before is None or before.verdict is Verdict.POSTPONE:
        before = RobotsCopy(Verdict.ALLOW_ALL, fetched=now)
    return before._replace(ask_at=now + FRESH_LIMIT, failing_since=0.0, failures=0)


def with_cached(before: RobotsCopy | None, answer: Answer) -> RobotsCopy | None:
    """What is known after an *answer* of a cache, given what was known *before*: the later of both. It holds
    as long as if it had been learnt when it was given; where that is over the web has to be asked. An error
    in a cache says nothing, nor does a 304."""
    cached = learnt(None, answer, answer.cached_at or 0.0)
    if cached.verdict is Verdict.POSTPONE:
        return before
    if before is None or before.verdict is Verdict.POSTPONE or before.fetched < cached.fetched:
        return cached
    return before


def trouble_with(answer: Answer, copy: RobotsCopy) -> Trouble | None:
    """The trouble that an *answer* to a request for robots.txt is for its host: one that asks for less. None
    for any other, and where no rules hold after it, as *copy* says: then its pages wait as it is."""
    if answer.status not in TOO_BUSY or copy.verdict is not Verdict.PARSE:
        return None
    return Trouble(reasons.ROBOTS_STATUS(status=answer.status), answer.retry_after)


def why_not_awaited(host: str, wait: float, is_cooling: bool) -> str:
    """Why a redirect to *host*, which may be asked in *wait* seconds, counts as no answer; empty where it is
    waited for. An own delay is, be it as long as it may; a rest of more than `LONGEST_REST` is not."""
    if wait == FOREVER:
        return f"it leads to {host}, which is blocked"
    return f"it leads to {host}, which rests after trouble" if is_cooling and wait > LONGEST_REST else ""


def whole_lines(body: bytes) -> bytes:
    """*body* up to the end of the line that crosses `BODY_LIMIT`; where that end is not there (nobody reads
    on for it), without that line: half a rule is another rule."""
    if len(body) <= BODY_LIMIT or body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return body[: 2 * BODY_LIMIT]
    ends = (body.find(mark, BODY_LIMIT, 2 * BODY_LIMIT) for mark in (b"\n", b"\r"))
    if end := min((end for end in ends if end >= 0), default=0):
        return body[:end]
    return body[: max(body.rfind(b"\n", 0, BODY_LIMIT), body.rfind(b"\r", 0, BODY_LIMIT), 0)]


def is_current(copy: RobotsCopy, now: float) -> bool:
    """Whether nobody has to be asked at *now*; a clock that was set back does not make a copy last longer."""
    return now < copy.ask_at <= now + FRESH_LIMIT + 1


class RobotsStatus(NamedTuple):
    """What holds for the pages of one origin, by its ``verdict``: all is allowed, or the ``rules`` of its
    file hold, or pages wait."""

    verdict: Verdict
    rules: Rules
    ask_at: float  # POSIX seconds: until then nobody has to be asked
    failures: int = 0  # answers in a row that said nothing

    @property
    def is_timed(self) -> bool:
        """Whether `held_until` and `delay` may be something else at another time."""
        rules = self.rules
        return self.verdict is Verdict.POSTPONE or bool(rules.visit_time or rules.request_rate)

    @property
    def is_open(self) -> bool:
        """Whether all pages may be fetched, at any time."""
        return not self.is_timed and not self.rules.rules

    def trouble(self, origin: str, failure: object = None) -> Trouble:
        """Why the pages of *origin* wait, for `Frontier.hold`: its file cannot be read, which ended with
        *failure*, or it asks for other hours, an old copy maybe."""
        if self.verdict is not Verdict.POSTPONE:
            return Trouble(reasons.ROBOTS_HOURS(origin=origin), origin=origin)
        reason = reasons.ROBOTS_UNREADABLE(origin=origin)
        return Trouble(reason, times=self.failures, origin=origin, failure=failure)

    def held_until(self, now: float) -> float:
        """When a page may be fetched at the earliest: 0 for now.

        Where the file cannot be reached, not before it is asked for again; outside the hours of a
        Visit-time, when the next begin.
        """
        if self.verdict is Verdict.POSTPONE:
            return self.ask_at
        wait = self.rules.opens_in(now)
        return now + wait if wait else 0.0

    def delay(self, now: float, most: float) -> float:
        """Seconds between two requests that the file asks for, at most *most*: the larger of its Crawl-delay
        and its Request-rates at *now*; 0: none."""
        return min(self.rules.delay(now), most)


ALLOW_ALL = Rules()


def robots_status(copy: RobotsCopy, now: float, agent: str, url: str = "") -> RobotsStatus:
    """Read a *copy* for one user agent; *url* is that of the file. 22 us for a usual one.

    While the file cannot be reached an old one holds (RFC 9309 2.3.1.4). That there was none is no copy: then
    the host waits, 30 days at most.
    """
    meaning = copy.verdict
    if copy.failing_since:
        has_copy = meaning is Verdict.PARSE
        meaning = unreachable(has_copy, now - copy.failing_since)
    rules = parse(copy.body, agent, url) if meaning is Verdict.PARSE else ALLOW_ALL
    return RobotsStatus(meaning, rules, copy.ask_at, copy.failures)


class AtHandOut(Enum):
    """What becomes of a page that is about to be handed out."""

    GOES = "goes"
    UNVISITED = "unvisited"  # it goes, and its host is asked for nothing: the middleware ends or postpones it
    DELAYED = "delayed"  # it is put back: its site asks for a delay that its host did not keep so far
    HELD = "held"  # it is put back, and waits with all pages of its host
    UNKNOWN = "unknown"  # it is put back: the file has to be asked for first


GOES = AtHandOut.GOES  # nearly all do


def at_hand_out(
    is_known: bool, wait: float, is_allowed: bool | None, is_own_queue: bool, is_new_delay: bool
) -> AtHandOut:
    """What becomes of a page that is about to be handed out. What its robots.txt says, if it *is_known*:
    *wait* seconds before the site may be asked, then whether the page *is_allowed* (None: that takes long to
    say), and a delay that *is_new_delay*. Where the queue is not that of its own host (*is_own_queue*) other
    sites share it, and nobody waits for this one.
    """
    if not is_known:
        return AtHandOut.UNKNOWN
    if wait > 0 and is_own_queue:
        return AtHandOut.HELD
    if is_new_delay:
        return AtHandOut.DELAYED
    return AtHandOut.UNVISITED if wait > 0 or is_allowed is False else GOES


class AtDownload(Enum):
    """What becomes of a page by what robots.txt says of it."""

    PASSES = "passes"
    FORBIDDEN = "forbidden"
    GIVEN_UP = "given up"  # its site is, and nobody is asked any more
    UNKNOWN = "unknown"  # not read yet: the page is postponed
    WAITS = "waits"  # the file cannot be read, or asks for other hours


def at_download(is_known: bool, wait: float, is_allowed: bool | None, given_up: Trouble | None) -> AtDownload:
    """What becomes of a page. What the file says, if it *is_known*: *wait* seconds before the page may be
    asked for, and then whether it *is_allowed*. The trouble that its origin is *given_up* for, if any: where
    that has a ``failure`` (nobody answers there), it is for others to end a page that may be fetched.
    """
    if is_known and wait <= 0 and not is_allowed:
        return AtDownload.FORBIDDEN
    if given_up is not None and (not is_known or wait > 0 or given_up.failure is None):
        return AtDownload.GIVEN_UP
    if not is_known:
        return AtDownload.UNKNOWN
    return AtDownload.WAITS if wait > 0 else AtDownload.PASSES
