"""Headers that lead elsewhere, relate or ask to wait: Location, Refresh (also of a meta), Link, Retry-After.

A line in, a value out; None where it says nothing. ``now`` is POSIX seconds.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from .dates import http_date, timestamp
from .urls import absolute

MOST_SECONDS = 2**31  # seconds; what RFC 9111 1.2.2 makes of a number too large to hold
BLANK = "\t\n\f\r "  # ASCII whitespace of the HTML Standard


class Led(Enum):
    """What the target of a refresh is to its page.

    A link that is ``FORBIDDEN`` to be followed, or one that may be; what the page ``MOVED`` to, for it is
    shown to nobody; or found ``BESIDE`` it, for it is an error.
    """

    FORBIDDEN, LINK, MOVED, BESIDE = range(4)


class Refresh(NamedTuple):
    """Go to *url* after *seconds*, whole ones up to `MOST_SECONDS`; an empty *url* is the page itself."""

    seconds: int
    url: str

    def led(self, status: int, is_nofollow: bool) -> Led:
        """What its target is to a page that was answered with *status*. One that is left within a second is
        no page for people, so whether it *is_nofollow* concerns later ones alone."""
        is_at_once = self.seconds <= 1
        if is_nofollow and not is_at_once:
            return Led.FORBIDDEN
        return Led.BESIDE if status >= 400 else Led.MOVED if is_at_once else Led.LINK


_REFRESH_TIME = re.compile(rf"[{BLANK}]*([0-9]*)([0-9.]*)")
_REFRESH_URL = re.compile(rf"[uU][rR][lL][{BLANK}]*=[{BLANK}]*")


def parse_refresh(value: str) -> Refresh | None:
    """Read a Refresh header or the content of a meta refresh: the shared declarative refresh steps of the
    HTML Standard.

    None when a browser would stay. The URL is as written: resolve it against the page's URL (against the
    base of the page for a meta). Fractions of a second are dropped.
    """
    match = _REFRESH_TIME.match(value)
    assert match is not None  # every part may be empty
    digits, fraction = match.groups()
    rest = value[match.end() :]
    if not (digits or fraction) or (rest and rest[0] not in BLANK + ";,"):
        return None
    rest = rest.lstrip(BLANK)
    if rest.startswith((";", ",")):
        rest = rest[1:].lstrip(BLANK)
    named = _REFRESH_URL.match(rest)
    url = rest[named.end() :] if named else rest
    if url.startswith(("'", '"')):
        url = url[1:].partition(url[0])[0]
    return Refresh(_whole(digits), url.strip(BLANK))


def _whole(digits: str) -> int:
    """Read a number of seconds of any length."""
    return min(int(digits.lstrip("0")[:12] or "0"), MOST_SECONDS)


REDIRECTS = frozenset((301, 302, 303, 307, 308))


def location(value: str, url: str) -> str | None:
    """Return where the Location header *value* of the answer for *url* points; None when it is no http(s)
    URL.

    RFC 9110 10.2.2: relative to *url*, whose fragment it inherits when it has none.
    """
    target = absolute(value, url)
    _, hash_sign, fragment = url.partition("#")
    return target + hash_sign + fragment if target is not None and "#" not in target else target


def retry_after(value: str, now: float) -> float | None:
    """Return for how many seconds from *now* a Retry-After header asks; None when it says nothing.

    RFC 9110 10.2.3: digits, or an HTTP-date (0 when it has passed). Signs, decimals and other words say
    nothing; dates that only miss the exact form (a zone, a one-digit day) are read. At most `MOST_SECONDS`;
    the caller's cap is its own. Of several header lines pass the first.
    """
    text = value.strip(" \t")
    if re.fullmatch(r"[0-9]+", text):
        return float(_whole(text))
    date = http_date(text, now)
    if date is None and len(text) < 60 and re.search(r"[A-Za-z]{3}.*\d:\d\d:\d\d", text):
        date = timestamp(text)
    return None if date is None else min(max(date - now, 0.0), float(MOST_SECONDS))


def rel_tokens(rel: str | None) -> frozenset[str]:
    """Return the link types of a rel attribute, in lower case: ``nofollow``, ``ugc``, ``sponsored``,
    ``canonical``...
    """
    return frozenset((rel or "").lower().split())


def has_rel(rel: str | None, types: frozenset[str]) -> bool:
    """Whether a rel attribute has one of these link *types*."""
    return bool(rel) and not types.isdisjoint(rel_tokens(rel))


class LinkValue(NamedTuple):
    """One link of a Link header. *anchored*: it is about another resource than the one fetched."""

    target: str
    rel: frozenset[str]
    anchored: bool


_LINK_TARGET = re.compile(r"[ \t,]*<([^>]*)>")
_LINK_PARAMETER = re.compile(
    r"""[ \t]*;[ \t]*([^ \t=;,"]*)(?:[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"?|([^ \t;,"]*)))?"""
)


def parse_link_header(line: str) -> list[LinkValue]:
    """Read one Link header line (RFC 8288): ``<target>; rel="canonical next"; ..., <target>; ...``.

    The first rel of a link counts (3.3). Stops at the first place that is no link; what stood before it
    counts.
    """
    links: list[LinkValue] = []
    place = 0
    while (match := _LINK_TARGET.match(line, place)) is not None:
        place = match.end()
        parameters: dict[str, str] = {}
        while (parameter := _LINK_PARAMETER.match(line, place)) is not None:
            place = parameter.end()
            name, quoted, plain = parameter.groups()
            value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain
            parameters.setdefault(name.lower(), value or "")
        links.append(LinkValue(match[1].strip(), rel_tokens(parameters.get("rel")), "anchor" in parameters))
    return links


TOO_BUSY = (429, 503)
