"""The rules of a robots.txt: whether they allow a URL, which line decides, and when a host wants requests.

Made from lines by `robots_txt.parse`. Rules and URLs are compared octet by octet in one normal form, without
backtracking (RFC 9309 2.2.2 and 2.2.3; section numbers below are the RFC's).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .urls import wire_target

if TYPE_CHECKING:
    from collections.abc import Sequence

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
