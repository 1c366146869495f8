"""robots.txt: what a body asks of a crawler (RFC 9309), as plain values.

`parse` reads a body for one product token and keeps what concerns it, as the `Rules` that answer for URLs.
Nothing here fetches, and nothing reads a clock.

No line of another library takes part in a decision. Protego, Scrapy's parser, departs from the RFC in what
it is built on (group ends, token comparison, one normal form for ``?`` and ``%3F``) and tells no rule:
``docs/internals/conformance.md`` lists it; the tests use it as a second opinion where the two must agree.

The rules of a robots.txt: whether they allow a URL, which line decides, and when a host wants requests.

Made from lines by `robots_txt.parse`. Rules and URLs are compared octet by octet in one normal form, without
backtracking (RFC 9309 2.2.2 and 2.2.3; section numbers below are the RFC's).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from .urls import absolute, wire_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

# --- hours and rates --------------------------------------------------------------------------------------

SECONDS_A_DAY = 86_400  # seconds


class Hours(NamedTuple):
    """A part of every day, UTC, in seconds after midnight; may span midnight. Equal ends: the whole day."""

    start: int
    end: int

    def holds(self, now: float) -> bool:
        """Whether *now* (POSIX seconds) lies in this part of the day; its start does, its end does not."""
        moment = now % SECONDS_A_DAY
        if self.start < self.end:
            return self.start <= moment < self.end
        return moment >= self.start or moment < self.end


class RequestRate(NamedTuple):
    """At most *requests* in *seconds*, neither of them 0; always, or during *hours*."""

    requests: int
    seconds: int
    hours: Hours | None = None


# --- the rules --------------------------------------------------------------------------------------------


class Rule(NamedTuple):
    """One Allow or Disallow line, ready to match: equal when the lines ask the same in the same words."""

    length: int  # octets of the normal form
    allow: bool
    pieces: tuple[str, ...]  # the normal form between its wildcards
    anchored: bool
    query_pieces: tuple[str, ...]  # with "/" and "?" of the query decoded; empty where that is no change
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
    request_rate: tuple[RequestRate, ...] = ()
    visit_time: tuple[Hours, ...] = ()  # none: any time
    sitemaps: tuple[str, ...] = ()  # http(s) URLs and no others, where the file's own URL was known
    numbers: dict[str, int] = field(default_factory=dict, repr=False, compare=False)  # lines of the rules
    _literal: dict[str, Rule] = field(init=False, default_factory=dict, repr=False, compare=False)
    _special: list[Rule] = field(init=False, default_factory=list, repr=False, compare=False)
    _lengths: list[int] = field(init=False, default_factory=list, repr=False, compare=False)
    _pieces: int = field(init=False, repr=False, compare=False)  # of the special ones

    def __post_init__(self) -> None:
        for rule in self.rules:
            if len(rule.pieces) > 1 or rule.anchored or rule.query_pieces:
                self._special.append(rule)
            else:
                self._literal.setdefault(rule.pieces[0], rule)
        self._lengths.extend(sorted(set(map(len, self._literal)), reverse=True))
        pieces = sum(len(rule.pieces) + len(rule.query_pieces) for rule in self._special)
        object.__setattr__(self, "_pieces", pieces)

    def allowed(self, url: str) -> bool:
        """May *url* be fetched? The longest matching rule decides; no rule, no objection (2.2.2). Takes
        `cost`."""
        rule = self._decisive(url)
        return rule is None or rule.allow

    def where(self, url: str) -> str:
        """Return the line that decides about *url* as the site wrote it, and its number: ``Disallow: /private
        (line 4)``; empty when none does."""
        rule = self._decisive(url)
        return "" if rule is None else f"{rule.line} (line {self.numbers[rule.line]})"

    def cost(self, url: str) -> float:
        """Return about how many seconds it takes to say whether *url* is allowed.

        2e-6 for usual files, a second for 30,000 rules with wildcards and a URL of 8,000 characters.
        """
        return 2e-6 + self._pieces * 0.25e-6 + len(self._special) * len(url) * 6e-9

    def delay(self, now: float) -> float:
        """Return the least seconds between two requests that the file asks for at *now*; 0: it asks none."""
        rates = (rate for rate in self.request_rate if not rate.hours or rate.hours.holds(now))
        return max(self.crawl_delay or 0.0, *(rate.seconds / rate.requests for rate in rates), 0.0)

    def opens_in(self, now: float) -> float:
        """Return the seconds from *now* (POSIX seconds) until a `visit_time` begins: 0 during one, and when
        none is set."""
        if not self.visit_time or any(hours.holds(now) for hours in self.visit_time):
            return 0.0
        return min((hours.start - now) % SECONDS_A_DAY for hours in self.visit_time)

    def _decisive(self, url: str) -> Rule | None:
        if not self.rules:
            return None
        target = wire_target(url)
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
_HEX = "0123456789ABCDEFabcdef"
_SPELLING = tuple(chr(octet) if octet in _ITSELF else f"%{octet:02X}" for octet in range(256))
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_SPELLED = {f"%{one}{two}": _SPELLING[int(one + two, 16)] for one in _HEX for two in _HEX}
# What stands for itself, and of the rest "/", "?" and "%", is the same in the normal form.
_OCTETS = {octet: text for octet, text in enumerate(_SPELLING) if text != chr(octet) and octet not in b"/?%"}
_ODD = re.compile(r"[^A-Za-z0-9\-._~:@!'(),;+=&\[\]/?%]")
# The others are octets, see `robots_txt.decode`.
_HALF_A_CHARACTER = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def _normal(path: str) -> str:
    if "%" in path:
        path = _ESCAPE.sub(lambda match: _SPELLED[match[0]], path)
    if _ODD.search(path) is None:
        return path
    octets = _HALF_A_CHARACTER.sub("\ufffd", path).encode("utf-8", "surrogateescape")
    return octets.decode("latin-1").translate(_OCTETS)


def _with_open_query(path: str) -> str:
    """Decode ``/`` and ``?`` behind the first ``?``, where the RFC's table writes them either way."""
    before, mark, query = path.partition("?")
    return before + mark + query.replace("%2F", "/").replace("%3F", "?")


_INDEX_PAGES = ("/index.html", "/index.htm")


def rules_of(allow: bool, value: str, line: str) -> list[Rule]:
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


BODY_LIMIT = 512_000  # bytes: a parser must read 500 KiB (RFC 9309 2.5), and nobody asks for more


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
    "content-signal": "content-signal", "content-usage": "content-usage",
}  # fmt: skip
_OF_A_GROUP = frozenset(("crawl-delay", "request-rate", "visit-time", "content-signal", "content-usage"))
_WITHOUT_COLON = re.compile(
    "(?i)(" + "|".join(sorted(map(re.escape, _NAMES), key=len, reverse=True)) + r")[ \t]+([^ \t].*)"
)
# Prose may begin with the name of a field, too ("Sitemap of our site"): what stands there has to look like a
# value.
_LIKELY = {
    "user-agent": re.compile(r"[^ \t]+(?:[ \t]+[^ \t]+)?"),
    **dict.fromkeys(("allow", "disallow"), re.compile(r"[/*][^ \t]*")),
    **dict.fromkeys(("crawl-delay", "request-rate", "visit-time"), re.compile(r"[.0-9].*")),
    "sitemap": re.compile(r"(?i)(?:https?:/)?/[^ \t]*"),
}
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


def _fields(text: str) -> Iterator[tuple[str, str, str, int]]:
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
            name, value = _NAMES[match[1].lower()], match[2]
            if name not in _LIKELY or _LIKELY[name].fullmatch(value) is None:
                continue
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
    return match[1].lower() if match else _leading_token(agent)


def _leading_token(value: str) -> str:
    match = _TOKEN.match(value.strip(_EDGE))
    return match[0].lower() if match else ""


def _named(value: str) -> str:
    """Return the token a user-agent line names: ``*`` for everybody."""
    return "*" if value == "*" or value[:2] in ("* ", "*\t") else _leading_token(value)


class _Group:
    """Who the lines being read are for.

    Only Allow and Disallow end a run of user-agent lines for rules: other lines must not interfere (RFC
    9309 2.2.4). Crawl-delay and its kind are older than the RFC and belong to the user-agent lines right
    before them, as their authors mean them: a file of one Crawl-delay per bot, with the rules at its end,
    is both.
    """

    def __init__(self) -> None:
        self.rule_agents: list[str] = []
        self.delay_agents: list[str] = []
        self._rules_seen = self._others_seen = False

    def add(self, agent: str) -> None:
        """A user-agent line names *agent*: one more of the run, or the first of the next."""
        if self._rules_seen:
            self.rule_agents = []
        if self._rules_seen or self._others_seen:
            self.delay_agents = []
        self._rules_seen = self._others_seen = False
        self.rule_agents.append(agent)
        self.delay_agents.append(agent)

    def add_field(self, name: str) -> None:
        """Take in a line of another kind, its *name* in lower case. A user-agent line behind it begins
        another group."""
        self._rules_seen = self._rules_seen or name in ("allow", "disallow")
        self._others_seen = self._others_seen or name in _OF_A_GROUP


def parse(body: bytes, agent: str | Sequence[str], url: str = "") -> Rules:
    """Read what robots.txt *body*, fetched from *url*, asks of *agent*.

    An agent is a product token or a whole User-Agent string; with several, what any of them is asked holds.
    RFC 9309 2.2: every line that can be read counts, whatever surrounds it; all groups that name the token
    are one; groups of ``*`` hold for those that are not named. Linear in the length of *body*; never raises.
    """
    agents = [agent] if isinstance(agent, str) else agent
    tokens = {name if name == "*" else product_token(name) for name in agents} - {""}
    fields = list(_fields(decode(body)))
    mine = tokens.intersection(_named(value) for name, value, *_ in fields if name == "user-agent") or {"*"}
    group = _Group()
    rules: list[Rule] = []
    numbers: dict[str, int] = {}
    asked: list[tuple[str, str]] = []
    for name, value, line, number in fields:
        if name == "user-agent":
            group.add(_named(value))
            continue
        group.add_field(name)
        if not value:
            continue
        if name in ("allow", "disallow"):
            if not mine.isdisjoint(group.rule_agents):
                rules += rules_of(name == "allow", value, line)
                numbers.setdefault(line, number)
        elif name not in _OF_A_GROUP or not mine.isdisjoint(group.delay_agents):
            asked.append((name, value))
    return Rules(
        rules=tuple(sorted(dict.fromkeys(rules), key=lambda rule: rule.precedence)),
        crawl_delay=max(_values(asked, "crawl-delay", _seconds), default=None),
        request_rate=tuple(_values(asked, "request-rate", _rate)),
        visit_time=tuple(_values(asked, "visit-time", _hours)),
        sitemaps=tuple(dict.fromkeys(_values(asked, "sitemap", lambda value: _located(value, url)))),
        numbers=numbers,
    )


# --- values -----------------------------------------------------------------------------------------------

_T = TypeVar("_T")
_DECIMAL = re.compile(r"(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})(?![\w.])", re.ASCII)
_RATE = re.compile(r"(\d{1,9})\s*/\s*(\d{1,9})\s*([smhd]?)(?:\s+(\S.*))?", re.ASCII | re.IGNORECASE)
_HOURS = re.compile(
    r"(\d{1,2})[:.]?(\d\d)\s*[- ]\s*(\d{1,2})[:.]?(\d\d)(?:\s*(?:UTC|GMT|Z))?", re.ASCII | re.IGNORECASE
)
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": SECONDS_A_DAY}


def _values(asked: Iterable[tuple[str, str]], wanted: str, read: Callable[[str], _T | None]) -> Iterator[_T]:
    """Yield what *read* makes of the values of *wanted*; what it cannot read does not exist."""
    return (value for name, text in asked if name == wanted and (value := read(text)) is not None)


def _seconds(text: str) -> float | None:
    """Read the number that *text* begins with: ``30<BR>`` and ``10 seconds`` are common."""
    match = _DECIMAL.match(text)
    return float(match[1]) if match else None


def _rate(text: str) -> RequestRate | None:
    match = _RATE.fullmatch(text)
    if match is None:
        return None
    requests, seconds = int(match[1]), int(match[2]) * _UNITS[match[3].lower()]
    hours = _hours(match[4]) if match[4] else None
    if not requests or not seconds or (match[4] and hours is None):
        return None
    return RequestRate(requests, seconds, hours)


def _hours(text: str) -> Hours | None:
    match = _HOURS.fullmatch(text)
    if match is None:
        return None
    start, end = _moment(match[1], match[2]), _moment(match[3], match[4])
    return None if start is None or end is None else Hours(start, end)


def _moment(hours: str, minutes: str) -> int | None:
    seconds = int(hours) * 3_600 + int(minutes) * 60
    if int(minutes) >= 60 or seconds > SECONDS_A_DAY:
        return None
    return SECONDS_A_DAY if seconds == SECONDS_A_DAY - 60 else seconds  # whoever writes 2359 means midnight


_OCTET = re.compile("[\udc80-\udcff]")


def _located(sitemap: str, url: str) -> str | None:
    """Make a Sitemap value absolute; the protocol asks for that already, not all do so, and some quote it.

    Octets that are no UTF-8 are sent as they are. None for what is no http(s) URL; where *url* is none
    either, the value itself, since nobody knows what it starts from.
    """
    if sitemap[:1] + sitemap[-1:] in ('""', "''", "<>"):
        sitemap = sitemap[1:-1]
    found = absolute(_OCTET.sub(lambda match: f"%{ord(match[0]) & 0xFF:02X}", sitemap), url)
    return sitemap if found is None and absolute(url) is None else found
