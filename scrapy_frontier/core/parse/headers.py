"""Parses headers: Location, Refresh (also of a meta element), Retry-After, validators; and dates.

Each function takes a value and returns a result, None or empty if the value cannot be read. No input from a
site raises. ``now`` and all results are POSIX seconds.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from email.utils import parsedate_tz
from typing import TYPE_CHECKING

from .urls import absolute

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST_TEXT = 100  # characters; a longer text is no date
LONGEST_VALUE = 16_384  # characters; no URL and no list of directives is longer

# --- dates of sitemaps and feeds --------------------------------------------------------------------------

_W3C = re.compile(
    r"(\d{4})(?:-(\d\d?)(?:-(\d\d?)(?:[Tt ]\s*(\d\d?):(\d\d)(?::(\d\d)(?:[.,](\d{1,9})\d*)?)?)?"
    r"\s*(?:[Zz]|UTC|GMT|([+-])(\d\d):?(\d\d)?)?)?)?",
    re.ASCII,
)
_LARGEST_OFFSET = 14 * 3_600  # seconds (XML Schema 3.2.7.3); no zone of the world is farther away


def timestamp(text: str) -> float | None:
    """Return the POSIX seconds of a date as sitemaps and feeds write it; None if it cannot be read.

    W3C date and time (a profile of ISO 8601, from the year alone to fractions of a second; the sitemap
    schema also allows a zone after a day), or RFC 822 with a year of two or four digits, with the zones and
    12-hour clocks that scripts write. A missing part is the earliest possible; a missing or unknown zone is
    UTC.
    """
    if len(text) > _LONGEST_TEXT:
        return None
    text = text.strip()
    match = _W3C.fullmatch(text)
    return _rfc822(text) if match is None else _w3c(match)


def _w3c(match: re.Match[str]) -> float | None:
    year, month, day, hour, minute, second, fraction, sign, zone_hours, zone_minutes = match.groups()
    offset = int(zone_hours or 0) * 3_600 + int(zone_minutes or 0) * 60
    clock = int(hour or 0), int(minute or 0), int(second or 0)
    ends_day = clock == (24, 0, 0)
    whole = _posix(int(year), int(month or 1), int(day or 1), *((0, 0, 0) if ends_day else clock))
    if whole is None or offset > _LARGEST_OFFSET:
        return None
    return whole + ends_day * 86_400 + float(f"0.{fraction or 0}") - (-offset if sign == "-" else offset)


_CLOCK_OF_12 = re.compile(r"(?i)\b(0?[1-9]|1[0-2])(:\d\d(?::\d\d)?) ?([ap])\.?m\b\.?")
_CLOCK_AND_ZONE = re.compile(r"(:\d\d) ?(?:GMT|UTC?|Z)? ?([+-]\d\d):?(\d\d)\b(?: ?\(.*)?")


def _rfc822(text: str) -> float | None:
    if ":" not in text:
        text += " 00:00:00"
    # `email.utils` ignores "PM", and takes "GMT+0100" and "+01:00" for names of unknown zones.
    text = _CLOCK_OF_12.sub(_clock_of_24, text)
    parsed = parsedate_tz(_CLOCK_AND_ZONE.sub(r"\1 \2\3", text))
    if parsed is None:
        return None
    whole = _posix(*parsed[:6])
    offset = parsed[9] or 0
    return None if whole is None or abs(offset) > _LARGEST_OFFSET else whole - offset


def _clock_of_24(match: re.Match[str]) -> str:
    return f"{int(match[1]) % 12 + 12 * (match[3] in 'pP'):02}{match[2]}"


def _posix(year: int, month: int, day: int, hour: int, minute: int, second: int) -> float | None:
    """Return the POSIX seconds of a moment in UTC; None if it is not in the calendar. Second 60 is a leap
    second."""
    if second > 60:
        return None
    try:
        moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=timezone.utc)
        return moment.timestamp() + (second == 60)
    except (ValueError, OverflowError):
        return None


MOST_SECONDS = 2**31  # seconds; larger numbers count as this (RFC 9111 1.2.2)
BLANK = "\t\n\f\r "  # ASCII whitespace of the HTML Standard


REDIRECTS = frozenset((301, 302, 303, 307, 308))


def location(value: str, url: str) -> str | None:
    """Return the target of a Location header in the response for *url*; None if it is no http(s) URL. It is
    relative to *url*, and inherits its fragment (RFC 9110 10.2.2)."""
    target = absolute(value, url) if len(value) <= LONGEST_VALUE else None
    _, hash_sign, fragment = url.partition("#")
    return target + hash_sign + fragment if target is not None and "#" not in target else target


def retry_after(value: str, now: float) -> float | None:
    """Return the seconds from *now* that a Retry-After header asks for, at most `MOST_SECONDS`; None if it
    cannot be read.

    RFC 9110 10.2.3: digits, or a date in any form with the name of a month and a time of day; 0 if it has
    passed. Pass the first of several header lines.
    """
    text = value.strip(" \t")
    if re.fullmatch(r"[0-9]+", text):
        return float(min(int(text.lstrip("0")[:12] or "0"), MOST_SECONDS))  # of any length
    is_date = len(text) <= _LONGEST_TEXT and re.search(r"[A-Za-z]{3}.*\d:\d\d:\d\d", text)
    date = timestamp(text) if is_date else None
    return None if date is None else min(max(date - now, 0.0), float(MOST_SECONDS))


def has_rel(rel: str | None, types: frozenset[str]) -> bool:
    """Return whether a rel attribute has one of these link *types*, which are in lower case."""
    return rel is not None and not types.isdisjoint(rel.lower().split())


TOO_BUSY = (429, 503)

# --- validators (RFC 9110 8.8 and 13.1, RFC 9111 4.3) -----------------------------------------------------
# Bytes as servers send them, which are sent back unchanged; b"" if there is none.

LONGEST_TAG = 255  # bytes
LONGEST_DATE = 64  # bytes; an HTTP-date has 29

# A tag in quotes may hold what RFC 9110 8.8.3 allows, and blanks, which some servers write. One without
# quotes breaks the grammar, but its server accepts it back. A lone star would match any content.
_TAG = re.compile(rb'(?:W/)?"[\x20\x21\x23-\x7e\x80-\xff]*"|(?!\*\Z|W/)[!#-+\--~\x80-\xff]+')
_DATE = re.compile(rb"[ -~]+")
# What servers append to the tag of a compressed body: Apache and Caddy "x-gzip", Jetty "x--gzip", others
# "x;gzip". Some of them accept it back only with the suffix, some only without.
_COMPRESSOR = re.compile(rb'(?:--?|;)(?:x-gzip|gzip|deflate|br|zstd)(?="?\Z)')


def kept(tags: Sequence[bytes], dates: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Return the tag and the date to keep of a response with these ``ETag`` and ``Last-Modified`` lines.

    b"" for a value that is too long or malformed, and for lines that contradict each other. The date need not
    be valid, since it is sent back as it came.
    """
    return _kept(tags, _TAG, LONGEST_TAG), _kept(dates, _DATE, LONGEST_DATE)


def _kept(lines: Sequence[bytes], pattern: re.Pattern[bytes], longest: int) -> bytes:
    values = {line.strip(b" \t") for line in lines}
    value = values.pop() if len(values) == 1 else b""
    return value if len(value) <= longest and pattern.fullmatch(value) else b""


def if_none_match(tag: bytes) -> bytes:
    """Return the If-None-Match line for *tag*, which is not b"": a tag with the suffix of a compressor is
    sent both with and without it."""
    plain = _COMPRESSOR.sub(b"", tag)
    return tag if plain == tag else tag + b", " + plain
