"""What is kept of sites: their robots.txt, and where their sitemaps are.

What an answer to a request for robots.txt means, for how long it holds, and when to ask again.

One row an origin (scheme, host and port), so that a run that starts within a day asks nobody again, and an
old copy serves while the file cannot be reached (RFC 9309 2.3, 2.4). Pure: answers in, values out;
`site_rows` has the row.

Whose sitemaps there are, where they are looked for, and whose pages one may list.

A site speaks through its robots.txt (``Sitemap:`` lines) or through the paths everybody tries. A sitemap may
list pages of the site it speaks for, pages under its own directory, and pages of any other site whose
robots.txt names it (sitemaps.org, "Sitemap file location" and "cross submit"). What is known of a site is
one small row, an origin each (``scheme://host:port``, as `urls.origin_of` writes it), its `SiteSitemaps`.
Nothing here fetches or queues.
"""

from __future__ import annotations

import math
import re
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from .. import reasons
from ..errors import lenient
from ..parse.headers import TOO_BUSY, http_date
from ..parse.robots_txt import BODY_LIMIT, Rules, parse
from ..parse.urls import origin_of
from ..store import keys, records
from ..store.keys import NEUTRAL, STEPS_A_DOUBLING, TOP
from ..store.records import LONGEST_VALIDATOR, RobotsCopy, SiteSitemaps, Verdict
from .host import FOREVER, Trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..store.batch import Batch
    from .giving_up import GiveUpRule

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


# The first that is a sitemap wins. /sitemap.xml is also what redirects to the index in WordPress; its most
# common plug-ins write the second. Every further guess is a request to each host that has no sitemap.
GUESSES = ("/sitemap.xml", "/sitemap_index.xml")
MAX_LEVELS = 3  # an index, an index in it (the protocol has none; sites do), and a sitemap
MAX_SITEMAPS = 1_000  # sitemaps taken from one index, or from one robots.txt
MAX_REFUSED = 20  # other sites noted for one sitemap, and sitemaps noted for one site

FILE_BUCKET = TOP  # a sitemap comes before the pages of its host with the same priority
_LEAST = 1 / 64  # of the highest priority; the protocol's 0.0 is no reason never to come


class SitemapsToRead(NamedTuple):
    """What to do now: URLs of sitemaps to ``queue``, known ones to ``read_again``, the row to remember, and
    whether what is queued is a guess."""

    queue: tuple[str, ...]
    read_again: tuple[str, ...]
    sitemaps: SiteSitemaps
    is_guess: bool = False


def contact(sitemaps: SiteSitemaps, origin: str) -> SitemapsToRead:
    """What to do when the first page of *origin* is about to be fetched: queue its sitemaps, or the first
    guess."""
    queue = sitemaps.listed or (origin + GUESSES[0],)
    return SitemapsToRead(queue, (), sitemaps._replace(is_contacted=True), not sitemaps.listed)


def named_by_robots(sitemaps: SiteSitemaps, urls: tuple[str, ...]) -> SitemapsToRead:
    """The robots.txt was read and names *urls*: those that are new, if the site was contacted before.

    A sitemap of another site that was refused for want of this word is read again.
    """
    listed = tuple(dict.fromkeys(urls))[:MAX_SITEMAPS]
    queue = tuple(url for url in listed if url not in sitemaps.listed) if sitemaps.is_contacted else ()
    again = tuple(url for url in sitemaps.refused if url in listed)
    left = tuple(url for url in sitemaps.refused if url not in listed)
    return SitemapsToRead(queue, again, sitemaps._replace(listed=listed, refused=left))


def refuse(sitemaps: SiteSitemaps, sitemap: str) -> SiteSitemaps:
    """The *sitemaps* of a site after *sitemap*, of another, listed pages of it that it has said nothing of:
    that is read again once it does. As before where it was contacted."""
    if sitemaps.is_contacted or sitemap in sitemaps.refused or len(sitemaps.refused) >= MAX_REFUSED:
        return sitemaps
    return sitemaps._replace(refused=(*sitemaps.refused, sitemap))


# -- a sitemap on its way ------------------------------------------------------------------------------


class SitemapTask(NamedTuple):
    """What the request for a sitemap carries along: the site it speaks for, how deep it lies, and which of
    `GUESSES` it is, if it is one."""

    speaks_for: str
    depth: int = 0
    guess: int | None = None

    def to_meta(self) -> dict[str, str | int]:
        """The task as plain data for the meta of its request; `from_meta` reads it."""
        plain: dict[str, str | int] = {"for": self.speaks_for, "depth": self.depth}
        return plain if self.guess is None else {**plain, "guess": self.guess}

    @classmethod
    def from_meta(cls, value: object, url: str) -> SitemapTask:
        """The task in a meta value; anything else stands for a sitemap somebody asked for by hand."""
        given = value if isinstance(value, dict) else {}
        speaks_for, depth, guess = given.get("for"), given.get("depth"), given.get("guess")
        return cls(
            speaks_for if isinstance(speaks_for, str) else origin_of(url) or "",
            depth if isinstance(depth, int) else 0,
            guess if isinstance(guess, int) else None,
        )

    def next_guess(self) -> tuple[str, SitemapTask] | None:
        """The URL to try when this guess was none, and its task; None where this is no guess, or the last."""
        if self.guess is None or self.guess + 1 >= len(GUESSES):
            return None
        return self.speaks_for + GUESSES[self.guess + 1], self._replace(guess=self.guess + 1)

    def limit_reached(self, sitemaps: int) -> str:
        """What stops the reading of an index that has named so many *sitemaps*, in words; empty: nothing."""
        if self.for_listed() is None:
            return f"nested more than {MAX_LEVELS} levels deep"
        return f"more than {MAX_SITEMAPS} sitemaps" if sitemaps >= MAX_SITEMAPS else ""

    def for_listed(self) -> SitemapTask | None:
        """The task of a sitemap that this index lists; None when it would lie too deep."""
        return SitemapTask(self.speaks_for, self.depth + 1) if self.depth + 1 < MAX_LEVELS else None


class SitemapScope:
    """Which entries of one sitemap count. *names* are its URL and those that redirected to it.

    *listed_by* says what the robots.txt of an origin lists; it is asked once an origin. ``foreign`` is
    how many entries were refused, ``refused`` the first of the sites whose they were.
    """

    def __init__(
        self, names: tuple[str, ...], speaks_for: str, listed_by: Callable[[str], tuple[str, ...]]
    ) -> None:
        self._names = names
        self._site = speaks_for.partition("://")[2]  # which speaks for itself over http and https alike
        self._listed_by = listed_by
        self._verdicts: dict[str, bool] = {}
        self.foreign = 0
        self.refused: list[str] = []

    def accepts(self, url: str) -> bool:
        """May the sitemap list *url*, as `urls.absolute` writes it? 1 us for the site it speaks for."""
        found = _ORIGIN(url)
        scheme, site = found.groups() if found is not None else ("", "")
        if site == self._site or is_under(url, self._names[0]) or self._is_listed(f"{scheme}://{site}"):
            return True
        self.foreign += 1
        return False

    def _is_listed(self, origin: str) -> bool:
        verdict = self._verdicts.get(origin)
        if verdict is None:
            listed = self._listed_by(origin)
            verdict = any(name in listed for name in self._names)
            if len(self._verdicts) < MAX_SITEMAPS:
                self._verdicts[origin] = verdict
            if not verdict and len(self.refused) < MAX_REFUSED:
                self.refused.append(origin)
        return verdict


_ORIGIN = re.compile(r"(https?)://([^/?#]*)").match


# -- order ---------------------------------------------------------------------------------------------


def is_hint_of_change(kept: int | None, lastmod: int, last_visit: int | None) -> bool:
    """Whether it is a hint that a page has changed that the *lastmod* given for it is not the one *kept*:
    the first word on it only where that is younger than its last visit, and none before a visit."""
    return last_visit is not None and (kept is not None or lastmod > last_visit)


def bucket_of(priority: float | None, highest: float) -> int:
    """The score bucket of an entry: `NEUTRAL` for the *highest* priority of its file and for none
    stated, so that a site can put its own pages in order and none above those of other sites."""
    if priority is None or priority >= highest:
        return NEUTRAL
    return NEUTRAL + round(STEPS_A_DOUBLING * math.log2(max(priority / highest, _LEAST)))


def is_under(url: str, sitemap: str) -> bool:
    """May the sitemap at *sitemap* list *url* on its own word: same origin, same directory or below?

    Both as `absolute` makes them. sitemaps.org, "Sitemap file location"; a robots.txt of the other host that
    names the sitemap lifts this.
    """
    page, file = urlsplit(url), urlsplit(sitemap)
    directory = file.path[: file.path.rfind("/") + 1] or "/"
    same_origin = (page.scheme, page.netloc) == (file.scheme, file.netloc)
    return same_origin and (page.path or "/").startswith(directory)


class RobotsAndSitemaps:
    """The rows of sites in the store, by origin (scheme://host:port); no copy of them in memory."""

    def __init__(self, batch: Batch, rule: GiveUpRule | None) -> None:
        self._batch = batch
        self._rule = rule
        self.has_changed = bool(batch.store.keys_of(keys.ROBOTS_CHANGED, b"", 1))
        self._judged_to: dict[str, bytes] = {}  # by site, the last page that was taken since it changed

    def robots_copy(self, origin: str) -> RobotsCopy | None:
        """What is kept of the robots.txt of *origin* (scheme://host:port); one lookup. None for a row
        that cannot be read: the file is asked for again."""
        return lenient(records.decode_copy, self._batch.store.get(keys.robots_key(origin)))

    def retried_sooner(self, copy: RobotsCopy, retry_after: float, now: float) -> RobotsCopy:
        """*copy*; where failed pages are asked for again soon (a `GiveUpRule`), a file that could not be read
        is asked for again as soon as a page would be, its first times. Not where the site answered 429, or
        asked for a pause itself (*retry_after* seconds; 0: it did not). No store read."""
        if self._rule is None or not 0 < copy.failures < self._rule.attempts:
            return copy
        if retry_after or copy.status == 429:
            return copy
        return copy._replace(ask_at=min(copy.ask_at, now + self._rule.pause(copy.failures)))

    def keep_robots_copy(self, origin: str, copy: RobotsCopy) -> None:
        """Keep what was learnt of a robots.txt, for the runs to come too; written before this returns.

        Where it is another file than before, or none any more, the pages it forbade are to be judged again.
        Raises `FrontierUnwritable`.
        """
        self._batch.check()
        before = self.robots_copy(origin)
        is_known = before is not None and before.verdict is not Verdict.POSTPONE
        if before is not None and is_known and (before.verdict, before.body) != (copy.verdict, copy.body):
            self.judge_again(origin)
        self._batch.rows[keys.robots_key(origin)] = records.encode_copy(copy)
        self._batch.commit()

    def judge_again(self, origin: str) -> None:
        """Have the pages that the robots.txt of *origin* forbade judged again, in the open batch."""
        self._batch.rows[keys.changed_key(origin)] = b""
        self._judged_to.pop(origin, None)
        self.has_changed = True

    def changed(self) -> tuple[str, bytes] | None:
        """A site whose robots.txt has become another one, until it is `judged`, and the last of its pages
        that was taken for that; b"" for none. To be called with nothing open."""
        found = self._batch.store.keys_of(keys.ROBOTS_CHANGED, b"", 1) if self.has_changed else []
        self.has_changed = bool(found)
        origin = found[0].decode() if found else ""
        return (origin, self._judged_to.get(origin, b"")) if found else None

    def judged(self, origin: str, to: bytes | None) -> None:
        """The pages that the robots.txt of *origin* forbade are taken to be judged again *to* that one; None:
        all, and its mark goes, in the open batch."""
        if to is not None:
            self._judged_to[origin] = to
            return
        self._judged_to.pop(origin, None)
        self._batch.rows[keys.changed_key(origin)] = None

    def sitemaps_of(self, origin: str) -> SiteSitemaps:
        """What is known of the sitemaps of *origin*; one lookup. Where its row cannot be read it is
        contacted again, and finds its sitemaps known."""
        stored = self._batch.get(keys.sitemaps_key(origin))
        return lenient(records.decode_sitemaps, stored) or SiteSitemaps()

    def keep_sitemaps(self, origin: str, sitemaps: SiteSitemaps) -> None:
        """Remember *sitemaps*: in one batch with what was discovered before, or a later one. Raises
        `FrontierUnwritable` where a write failed before."""
        self._batch.check()
        self._batch.rows[keys.sitemaps_key(origin)] = records.encode_sitemaps(sitemaps)
