"""Dates as the web writes them, as POSIX seconds: those of sitemaps and feeds, and those of HTTP headers.

What is no date is None; nothing here raises for what a site wrote.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from email.utils import parsedate_tz

# --- sitemaps and feeds -----------------------------------------------------------------------------------

_W3C = re.compile(
    r"(\d{4})(?:-(\d\d?)(?:-(\d\d?)(?:[Tt ]\s*(\d\d?):(\d\d)(?::(\d\d)(?:[.,](\d{1,9})\d*)?)?)?"
    r"\s*(?:[Zz]|UTC|GMT|([+-])(\d\d):?(\d\d)?)?)?)?",
    re.ASCII,
)
_LARGEST_OFFSET = 14 * 3_600  # seconds (XML Schema 3.2.7.3); no zone of the world is farther away


def timestamp(text: str) -> float | None:
    """Return the POSIX seconds of a date as sitemaps and feeds write it; None when it is none.

    W3C date and time (a profile of ISO 8601, from the year alone to fractions of a second; the sitemap
    schema allows a zone behind a day, too), or RFC 822 with a year of two or four digits, with the zones and
    12-hour clocks that scripts write. What is not said is the earliest it could be; without a zone, or with
    the name of one that RFC 822 does not know, it is UTC.
    """
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
    if len(text) >= 100:
        return None
    if ":" not in text:
        text += " 00:00:00"
    # `email.utils` reads over "PM", and takes "GMT+0100" and "+01:00" for names of zones it does not know.
    text = _CLOCK_OF_12.sub(_clock_of_24, text)
    parsed = parsedate_tz(_CLOCK_AND_ZONE.sub(r"\1 \2\3", text))
    if parsed is None:
        return None
    whole = _posix(*parsed[:6])
    offset = parsed[9] or 0
    return None if whole is None or abs(offset) > _LARGEST_OFFSET else whole - offset


def _clock_of_24(match: re.Match[str]) -> str:
    return f"{int(match[1]) % 12 + 12 * (match[3] in 'pP'):02}{match[2]}"


# --- HTTP -------------------------------------------------------------------------------------------------

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = "|".join(_MONTHS)
_SHORT_DAY = "Mon|Tue|Wed|Thu|Fri|Sat|Sun"
_LONG_DAY = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_HTTP_DATES = tuple(
    re.compile(form, re.ASCII)
    for form in (
        rf"(?:{_SHORT_DAY}), (?P<day>\d\d) (?P<month>{_MONTH}) (?P<year>\d{{4}}) {_CLOCK} GMT",
        rf"(?:{_LONG_DAY}), (?P<day>\d\d)-(?P<month>{_MONTH})-(?P<year>\d\d) {_CLOCK} GMT",
        rf"(?:{_SHORT_DAY}) (?P<month>{_MONTH}) (?P<day>[ \d]\d) {_CLOCK} (?P<year>\d{{4}})",
    )
)


def http_date(text: str, now: float) -> float | None:
    """Return the POSIX seconds of an HTTP-date in one of its three forms, and nothing else (RFC 9110
    5.6.7).

    The day of the week must be one but need not be right. A moment with a two-digit year more than 50 years
    ahead of *now* is past.
    """
    for form in _HTTP_DATES:
        match = form.fullmatch(text.strip(" \t"))
        if match is not None:
            day, *clock = (int(match[name]) for name in ("day", "hour", "minute", "second"))
            month = _MONTHS.index(match["month"]) + 1
            return _posix(_full_year(match["year"], (month, day, *clock), now), month, day, *clock)
    return None


def _full_year(digits: str, rest: tuple[int, ...], now: float) -> int:
    """Return the year that *digits* stand for in a moment whose month, day, hour, minute and second are
    *rest*."""
    if len(digits) == 4:
        return int(digits)
    this_year, *this_rest = datetime.fromtimestamp(now, timezone.utc).timetuple()[:6]
    year = this_year - this_year % 100 + int(digits)
    return year - 100 if (year, *rest) > (this_year + 50, *this_rest) else year


# --- the calendar -----------------------------------------------------------------------------------------


def _posix(year: int, month: int, day: int, hour: int, minute: int, second: int) -> float | None:
    """Return the POSIX seconds of a moment in UTC, None when the calendar has no such; second 60 is a leap
    second.
    """
    if second > 60:
        return None
    try:
        moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=timezone.utc)
        return moment.timestamp() + (second == 60)
    except (ValueError, OverflowError):
        return None
