"""robots.txt: what a host asks of a crawler (RFC 9309), as plain values.

`parse` reads a body for one product token and keeps what concerns it; `Rules` answers for URLs. The other
functions say what an answer without a body means, how long a copy stays good, and when the hours of the
host are. Nothing here fetches, and nothing reads a clock.

No line of another library takes part in a decision. Protego, Scrapy's parser, departs from the RFC in what
it is built on (group ends, token comparison, one normal form for ``?`` and ``%3F``) and tells no rule:
``docs/conformance.md`` lists it; the tests use it as a second opinion where the two must agree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from .urls import absolute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

BODY_LIMIT = 512_000  # bytes: a parser must read 500 KiB (RFC 9309 2.5), and nobody asks for more
MAX_REDIRECTS = 5  # hops to follow before the file counts as unavailable (RFC 9309 2.3.1.2)
FRESH_LIMIT = 86_400.0  # seconds a copy may be used (RFC 9309 2.4)
FRESH_FLOOR = 3_600.0  # seconds a copy is used at least: max-age=0 is common, and nobody means a fetch a page
UNREACHABLE_LIMIT = 30 * 86_400.0  # seconds of errors after which a host counts as one without (2.3.1.4)


# --- what an answer means ---------------------------------------------------------------------------------


class Verdict(IntEnum):
    """What to do after asking for robots.txt. The numbers are written to disk: never change one."""

    ALLOW_ALL = 0  # there is no such file
    PARSE = 1  # obey the body
    POSTPONE = 2  # nobody knows: ask again, fetch nothing


def verdict(status: int | None) -> Verdict:
    """Say what the last answer to a robots.txt request means; *status* None: there was no answer.

    2xx is a file, 4xx is none, 5xx and network errors are "unreachable" (RFC 9309 2.3.1). 429 is taken as
    unreachable, as Google does: the RFC is silent and the host has just asked for less. A 3xx is left over
    after `MAX_REDIRECTS` hops or without a usable Location: no file. A 304 renews the copy instead.
    """
    if status is None:
        return Verdict.POSTPONE
    if 200 <= status < 300:
        return Verdict.PARSE
    if 300 <= status < 500 and status != 429:
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


# --- hours and rates --------------------------------------------------------------------------------------

_DAY = 86_400


class Hours(NamedTuple):
    """A part of every day, UTC, in seconds after midnight; may span midnight. Equal ends: the whole day."""

    start: int
    end: int

    def holds(self, now: float) -> bool:
        moment = now % _DAY
        if self.start < self.end:
            return self.start <= moment < self.end
        return moment >= self.start or moment < self.end


class Rate(NamedTuple):
    """At most *requests* in *seconds*, always or during *hours*."""

    requests: int
    seconds: int
    hours: Hours | None = None


# --- the rules --------------------------------------------------------------------------------------------


class Rule(NamedTuple):
    """One Allow or Disallow line, ready to match."""

    length: int  # octets of the normal form
    allow: bool
    pieces: tuple[str, ...]  # the normal form between its wildcards
    anchored: bool
    query_pieces: tuple[
        str, ...
    ]  # as pieces, "/" and "?" of the query decoded; empty where that is no change
    line: str  # as the site wrote it

    @property
    def precedence(self) -> tuple[int, bool]:
        """Return a key that sorts the rule that wins first: the longest, Allow before Disallow (2.2.2)."""
        return -self.length, not self.allow


@dataclass(frozen=True, slots=True)
class Rules:
    """What one robots.txt asks of one product token, made by `parse`; equal when they ask the same."""

    rules: tuple[Rule, ...] = ()  # best first
    crawl_delay: float | None = None  # seconds; the largest the group names
    request_rate: tuple[Rate, ...] = ()
    visit_time: tuple[Hours, ...] = ()  # none: any time
    sitemaps: tuple[str, ...] = ()  # absolute where the file's own URL was known
    others: tuple[tuple[str, str], ...] = ()  # Host, Clean-param, Content-Signal, -Usage: shown, not obeyed
    numbers: dict[str, int] = field(default_factory=dict, repr=False, compare=False)  # lines of the rules
    _literal: dict[str, Rule] = field(init=False, repr=False, compare=False)
    _lengths: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _special: tuple[Rule, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        literal: dict[str, Rule] = {}
        special: list[Rule] = []
        for rule in self.rules:
            if len(rule.pieces) > 1 or rule.anchored or rule.query_pieces:
                special.append(rule)
            else:
                literal.setdefault(rule.pieces[0], rule)
        object.__setattr__(self, "_literal", literal)
        object.__setattr__(self, "_lengths", tuple(sorted({len(text) for text in literal}, reverse=True)))
        object.__setattr__(self, "_special", tuple(special))

    def __repr__(self) -> str:
        delay = "" if self.crawl_delay is None else f", crawl delay {self.crawl_delay:g} s"
        return f"<Rules {len(self.rules)} lines{delay}, {len(self.sitemaps)} sitemaps>"

    def allowed(self, url: str) -> bool:
        """May *url* be fetched? The longest matching rule decides; no rule, no objection (2.2.2)."""
        rule = self._decisive(url)
        return rule is None or rule.allow

    def rule(self, url: str) -> str:
        """Return the line that decides about *url* as the site wrote it; empty when none does."""
        rule = self._decisive(url)
        return "" if rule is None else rule.line

    def where(self, url: str) -> str:
        """Return the line that decides about *url* and its number: ``Disallow: /private (line 4)``."""
        line = self.rule(url)
        return f"{line} (line {self.numbers[line]})" if line in self.numbers else line

    def delay(self, now: float) -> float:
        """Return the least seconds between two requests that the file asks for at *now*; 0: it asks none."""
        rates = (
            rate.seconds / rate.requests
            for rate in self.request_rate
            if not rate.hours or rate.hours.holds(now)
        )
        return max(self.crawl_delay or 0.0, *rates, 0.0)

    def opens_in(self, now: float) -> float:
        """Return the seconds from *now* until a `visit_time` begins: 0 during one, and when none is set."""
        if not self.visit_time or any(hours.holds(now) for hours in self.visit_time):
            return 0.0
        return min((hours.start - now) % _DAY for hours in self.visit_time)

    def _decisive(self, url: str) -> Rule | None:
        if not self.rules:
            return None
        target = _target(url)
        if target == "/robots.txt" or target.startswith("/robots.txt?"):
            return None  # implicitly allowed (2.2.2)
        path = _normal(target)
        best = self._longest_literal(path)
        query_path = _with_open_query(path) if self._special else path
        for rule in self._special:
            if best is not None and rule.precedence > best.precedence:
                break
            if _matches(rule.pieces, rule.anchored, path) or (
                rule.query_pieces and _matches(rule.query_pieces, rule.anchored, query_path)
            ):
                return rule
        return best

    def _longest_literal(self, path: str) -> Rule | None:
        for length in self._lengths:
            rule = self._literal.get(path[:length])
            if rule is not None:
                return rule
        return None


def _matches(pieces: Sequence[str], anchored: bool, path: str) -> bool:
    """Does *path* begin with the *pieces*, in order, anything between them, and end there if *anchored*?

    Each piece is taken at its leftmost place, which never costs a match, so the path is walked once: no
    backtracking.
    """
    first, last = pieces[0], pieces[-1]
    if not path.startswith(first):
        return False
    if len(pieces) == 1:
        return not anchored or path == first
    place = len(first)
    for piece in pieces[1:-1]:
        place = path.find(piece, place)
        if place < 0:
            return False
        place += len(piece)
    if anchored:
        return path.endswith(last) and len(path) - len(last) >= place
    return path.find(last, place) >= 0


# --- normal form ------------------------------------------------------------------------------------------

# Every octet has one spelling on both sides (2.2.2). Unreserved characters and those reserved ones that
# never delimit anything here stand for themselves; "/" and "?" delimit, "*" and "$" mean something in a
# rule, "#" and "%" everywhere, so their escapes stay escapes; all else is escaped, in upper case.
_ITSELF = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:@!'(),;+=&[]")
_SPELLING = tuple(chr(octet) if octet in _ITSELF else f"%{octet:02X}" for octet in range(256))
_ODD = re.compile(r"%[0-9A-Fa-f]{2}|[^A-Za-z0-9\-._~:@!'(),;+=&\[\]/?%]")
_DELIMITER = re.compile(r"%(?:2F|3F)")


def _spell(match: re.Match[str]) -> str:
    text = match[0]
    if len(text) == 3:
        return _SPELLING[int(text[1:], 16)]
    return "".join(_SPELLING[octet] for octet in text.encode("utf-8", "surrogateescape"))


def _normal(path: str) -> str:
    return _ODD.sub(_spell, path)


def _with_open_query(path: str) -> str:
    """Decode ``/`` and ``?`` behind the first ``?``, where the RFC's table writes them either way."""
    before, mark, query = path.partition("?")
    if "%" not in query:
        return path
    return before + mark + _DELIMITER.sub(lambda match: "/" if match[0] == "%2F" else "?", query)


def _target(url: str) -> str:
    """Return path and query of *url* as it goes on the wire: at least ``/``, without fragment."""
    start = url.find("://")
    if not url[: max(start, 0)].isalnum():
        start = -1  # no scheme: it stands in a path or a query
    rest = url[start + 3 :] if start >= 0 else url
    end = rest.find("#")
    if end >= 0:
        rest = rest[:end]
    slash, mark = rest.find("/"), rest.find("?")
    if mark >= 0 and (slash < 0 or mark < slash):
        return "/" + rest[mark:] if start >= 0 else "/" + rest
    if start >= 0 or rest.startswith("/"):
        return rest[slash:] if slash >= 0 else "/"
    return "/" + rest


_INDEX_PAGES = ("/index.html", "/index.htm")


def _rules_of(allow: bool, value: str, line: str) -> list[Rule]:
    """Make the rules of one line: none when no path can match it, two when it allows an index page.

    Whoever allows ``/shop/index.html`` allows ``/shop/``: not in the RFC, but Google, crawler-commons and
    Protego agree.
    """
    anchored = value.endswith("$")
    pieces = tuple(map(_normal, (value[:-1] if anchored else value).split("*")))
    whole = "*".join(pieces)
    if whole[:1] not in ("/", "*"):
        return []  # every path begins with a slash
    rules = [Rule(len(whole) + anchored, allow, _squeezed(pieces), anchored, _open_pieces(whole), line)]
    if allow and not anchored and whole.endswith(_INDEX_PAGES):
        directory = whole[: whole.rfind("/") + 1]
        rules.append(Rule(len(directory) + 1, True, _squeezed(tuple(directory.split("*"))), True, (), line))
    return rules


def _open_pieces(whole: str) -> tuple[str, ...]:
    query = whole.partition("?")[2]
    opened = _with_open_query(whole)
    if "/" not in query and "?" not in query and opened == whole:
        return ()
    return _squeezed(tuple(opened.split("*")))


def _squeezed(pieces: tuple[str, ...]) -> tuple[str, ...]:
    """Drop the empty pieces of ``**``; the first and the last say where the pattern may begin and end."""
    if len(pieces) < 3:
        return pieces
    return (pieces[0], *filter(None, pieces[1:-1]), pieces[-1])


# --- lines ------------------------------------------------------------------------------------------------

# Spellings that other parsers accept too (Google's frequent typos, Protego's blanks). Being read is what a
# site wants.
_NAMES = {
    "user-agent": "user-agent", "useragent": "user-agent", "user agent": "user-agent",
    "allow": "allow",
    "disallow": "disallow", "dissallow": "disallow", "dissalow": "disallow", "disalow": "disallow",
    "diasllow": "disallow", "disallaw": "disallow",
    "crawl-delay": "crawl-delay", "crawl delay": "crawl-delay", "crawldelay": "crawl-delay",
    "request-rate": "request-rate", "request rate": "request-rate",
    "visit-time": "visit-time", "visit time": "visit-time",
    "sitemap": "sitemap", "sitemaps": "sitemap", "site-map": "sitemap",
    "host": "host", "clean-param": "clean-param",
    "content-signal": "content-signal", "content-usage": "content-usage",
}  # fmt: skip
_OF_A_GROUP = frozenset(("crawl-delay", "request-rate", "visit-time", "content-signal", "content-usage"))
_WITHOUT_COLON = re.compile(
    "(?i)(" + "|".join(sorted(map(re.escape, _NAMES), key=len, reverse=True)) + r")[ \t]+([^ \t].*)"
)
_EDGE = " \t\x00\x0b\x0c\xa0\ufeff"
_LINE_END = re.compile(r"\r\n|\r|\n")


def decode(body: bytes) -> str:
    """Return the part of *body* that counts: whole lines up to `BODY_LIMIT`, without byte order mark.

    A line that begins within the limit is read to its end, since half a rule is another rule. UTF-16 is
    accepted with its mark. Octets that are no UTF-8 survive as surrogates, so that a rule still matches its
    own escapes.
    """
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        body = body[: 2 * BODY_LIMIT].decode("utf-16", "replace").encode()
    if len(body) > BODY_LIMIT:
        ends = [end for end in (body.find(b"\n", BODY_LIMIT), body.find(b"\r", BODY_LIMIT)) if end >= 0]
        body = body[: min(ends, default=len(body))]
    return body.decode("utf-8", "surrogateescape").removeprefix("\ufeff")


def _records(text: str) -> Iterator[tuple[str, str, str, int]]:
    """Yield (name, value, line, its number) of every line that can be read; unknown names are left out."""
    for number, raw in enumerate(_LINE_END.split(text), 1):
        line = raw.partition("#")[0].strip(_EDGE)
        if not line:
            continue
        key, colon, value = line.partition(":")
        name = _NAMES.get(" ".join(key.lower().split())) if colon else None
        if name is None:
            match = _WITHOUT_COLON.fullmatch(line)
            if match is None:
                continue
            name, value = _NAMES[match[1].lower()], match[2].lstrip(":")
        yield name, value.strip(_EDGE), line, number


_TOKEN = re.compile(r"[\w-]+")
_COMPATIBLE = re.compile(r"(?i)Mozilla/[^;]*(?:;[^;]*)?\bcompatible; *([\w-]+)")


def product_token(agent: str) -> str:
    """Return the name under which robots.txt addresses *agent*, in lower case; empty when it has none.

    The leading token of a User-Agent string ("MyBot/1.0 (+https://...)" is ``mybot``), or the bot's own in
    the browsers' disguise "Mozilla/5.0 (compatible; MyBot/1.0)". RFC 9309 2.2.1 knows only ASCII letters,
    ``-`` and ``_``; digits and other letters are kept, or agent1 would obey the group of agent2.
    """
    match = _COMPATIBLE.match(agent)
    if match:
        return match[1].lower()
    match = _TOKEN.match(agent.strip(_EDGE))
    return match[0].lower() if match else ""


def _named(value: str) -> str:
    """Return the token a user-agent line names: ``*`` for everybody."""
    return "*" if value == "*" or value[:2] in ("* ", "*\t") else product_token(value)


class _Group:
    """Who the lines being read are for.

    Only Allow and Disallow end a run of user-agent lines for *rules*: other records must not interfere (RFC
    9309 2.2.4). Crawl-delay and its kind are older than the RFC and belong to the user-agent lines right
    before them, as their authors mean them: a file of one Crawl-delay per bot, with the rules at its end,
    is both.
    """

    def __init__(self) -> None:
        self.rule_agents: list[str] = []
        self.delay_agents: list[str] = []
        self._rules_seen = self._others_seen = False

    def add(self, agent: str) -> None:
        if self._rules_seen:
            self.rule_agents = []
        if self._rules_seen or self._others_seen:
            self.delay_agents = []
        self._rules_seen = self._others_seen = False
        self.rule_agents.append(agent)
        self.delay_agents.append(agent)

    def saw(self, name: str) -> None:
        self._rules_seen = self._rules_seen or name in ("allow", "disallow")
        self._others_seen = self._others_seen or name in _OF_A_GROUP


def parse(body: bytes, agent: str | Sequence[str], url: str = "") -> Rules:
    """Read what robots.txt *body*, fetched from *url*, asks of *agent*.

    An agent is a product token or a whole User-Agent string; with several, what any of them is asked holds.
    RFC 9309 2.2: every line that can be read counts, whatever surrounds it; all groups that name the token
    are one; groups of ``*`` hold for those that are not named. Linear in the length of *body*; never raises.
    """
    tokens = {_named(name) for name in ([agent] if isinstance(agent, str) else agent)} - {""}
    records = list(_records(decode(body)))
    mine = tokens.intersection(_named(value) for name, value, *_ in records if name == "user-agent") or {"*"}
    group = _Group()
    rules: list[Rule] = []
    numbers: dict[str, int] = {}
    asked: list[tuple[str, str]] = []
    for name, value, line, number in records:
        if name == "user-agent":
            group.add(_named(value))
            continue
        group.saw(name)
        if not value:
            continue
        if name in ("allow", "disallow"):
            if not mine.isdisjoint(group.rule_agents):
                rules += _rules_of(name == "allow", value, line)
                numbers.setdefault(line, number)
        elif name not in _OF_A_GROUP or not mine.isdisjoint(group.delay_agents):
            asked.append((name, value))
    return Rules(
        rules=tuple(sorted(dict.fromkeys(rules), key=lambda rule: rule.precedence)),
        crawl_delay=max(_values(asked, "crawl-delay", _seconds), default=None),
        request_rate=tuple(_values(asked, "request-rate", _rate)),
        visit_time=tuple(_values(asked, "visit-time", _hours)),
        sitemaps=tuple(dict.fromkeys(_located(value, url) for name, value in asked if name == "sitemap")),
        others=tuple(
            pair for pair in asked if pair[0] in ("host", "clean-param", "content-signal", "content-usage")
        ),
        numbers=numbers,
    )


# --- values -----------------------------------------------------------------------------------------------

_T = TypeVar("_T")
_DECIMAL = re.compile(r"\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}", re.ASCII)
_RATE = re.compile(r"(\d{1,9})\s*/\s*(\d{1,9})\s*([smhd]?)(?:\s+(\S.*))?", re.ASCII | re.IGNORECASE)
_HOURS = re.compile(
    r"(\d{1,2})[:.]?(\d\d)\s*[- ]\s*(\d{1,2})[:.]?(\d\d)(?:\s*(?:UTC|GMT|Z))?", re.ASCII | re.IGNORECASE
)
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": _DAY}


def _values(asked: Iterable[tuple[str, str]], wanted: str, read: Callable[[str], _T | None]) -> Iterator[_T]:
    """Yield what *read* makes of the values of *wanted*; what it cannot read does not exist."""
    return (value for name, text in asked if name == wanted and (value := read(text)) is not None)


def _seconds(text: str) -> float | None:
    return float(text) if _DECIMAL.fullmatch(text) else None


def _rate(text: str) -> Rate | None:
    match = _RATE.fullmatch(text)
    if match is None:
        return None
    requests, seconds = int(match[1]), int(match[2]) * _UNITS[match[3].lower()]
    hours = _hours(match[4]) if match[4] else None
    if not requests or not seconds or (match[4] and hours is None):
        return None
    return Rate(requests, seconds, hours)


def _hours(text: str) -> Hours | None:
    match = _HOURS.fullmatch(text)
    if match is None:
        return None
    start, end = _moment(match[1], match[2]), _moment(match[3], match[4])
    return None if start is None or end is None else Hours(start, end)


def _moment(hours: str, minutes: str) -> int | None:
    seconds = int(hours) * 3_600 + int(minutes) * 60
    if int(minutes) >= 60 or seconds > _DAY:
        return None
    return _DAY if seconds == _DAY - 60 else seconds  # whoever writes 2359 means midnight


def _located(sitemap: str, url: str) -> str:
    """Make a Sitemap value absolute; the protocol asks for that already, not all do so, and some quote it."""
    if sitemap[:1] + sitemap[-1:] in ('""', "''", "<>"):
        sitemap = sitemap[1:-1]
    return absolute(sitemap, url or None) or sitemap
