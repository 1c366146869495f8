"""Reads what a robots.txt asks of one crawler (RFC 9309; section numbers below are the RFC's).

Protego parses and matches, but does not get the file itself: it gets only the lines that concern the crawler,
as one group, in a spelling that it cannot misread. ``docs/internals/conformance.md`` lists what that
corrects. Nothing here fetches or reads a clock.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from protego import Protego

from .urls import absolute, wire_target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import time

    from protego import RequestRate, VisitTime

BODY_LIMIT = 512_000  # bytes; a crawler has to read 500 KiB (2.5)
MOST_WILDCARDS = 2_000  # in the rules for a crawler
MOST_OF_WILDCARDS = 400_000  # characters of rules with wildcards, as Protego gets them
MOST_STEPS = 2_000_000  # wildcards times octets of a URL that are compared with them: 20 ms
LONGEST_VALUE = 60  # characters of a Request-rate or Visit-time
LONGEST_URL = 2_048  # characters of the URL of a sitemap; to make a request of a URL of 500 KB takes 300 ms
MOST_VALUES = 100  # Crawl-delays, Request-rates and Visit-times, of each


class Rules(NamedTuple):
    """What one robots.txt asks of one crawler, made by `parse`."""

    protego: Protego
    disallowed: tuple[tuple[str, str], ...] = ()  # pattern for Protego, line of the file; longest first
    crawl_delay: float | None = None  # seconds; the largest that is named
    request_rates: tuple[RequestRate, ...] = ()
    visit_times: tuple[VisitTime, ...] = ()  # none: any time
    sitemaps: tuple[str, ...] = ()  # http(s) URLs and no others, if the file's own URL was known
    compared: int = MOST_STEPS  # characters of a URL

    def allowed(self, url: str) -> bool:
        """Return whether *url* may be fetched: the longest rule that matches decides (2.2.2). 6 us."""
        target = wire_target(url)
        if not self.disallowed or target == "/robots.txt" or target.startswith("/robots.txt?"):
            return True  # the file itself is always allowed (2.2.2)
        return self.protego.can_fetch(_coded_target(target[: self.compared]), "*")

    def where(self, url: str) -> str:
        """Return the line that forbids *url*, which is not `allowed`, as the site wrote it: ``Disallow: /a``.

        Protego does not name it, so this bisects the rules. 5 us a rule.
        """
        target = _coded_target(wire_target(url)[: self.compared])
        found = [each for each in self.disallowed if target.startswith(each[0].partition("*")[0])]
        while len(found) > 1:
            half = found[: len(found) // 2]
            protego = _alone("\n".join(f"Disallow: {pattern}" for pattern, _ in half))
            found = found[len(half) :] if protego.can_fetch(target, "*") else half
        return found[0][1] if found else ""

    def delay(self, now: float) -> float:
        """Return the least seconds between two requests that the file asks for at *now*; 0: none."""
        rates = (each for each in self.request_rates if not _opens_in(each.start_time, each.end_time, now))
        return max(self.crawl_delay or 0.0, *(rate.seconds / rate.requests for rate in rates), 0.0)

    def opens_in(self, now: float) -> float:
        """Return the seconds from *now* (POSIX seconds) until a Visit-time begins: 0 during one, and if none
        is named."""
        return min((_opens_in(*hours, now) for hours in self.visit_times), default=0.0)


def _opens_in(start: time | None, end: time | None, now: float) -> float:
    """Return the seconds from *now* until *start*, UTC, or 0 between *start* and *end*; if these are equal
    they span the whole day."""
    if start is None or end is None:
        return 0.0
    begin, stop = (each.hour * 3_600 + each.minute * 60 for each in (start, end))
    since = (now - begin) % 86_400
    return 0.0 if since < ((stop - begin) % 86_400 or 86_400) else 86_400 - since


def _alone(line: str) -> Protego:
    return Protego.parse(f"User-agent: *\n{line}")


def parse(body: bytes, agent: str | Sequence[str], url: str = "") -> Rules:
    """Read what robots.txt *body*, fetched from *url*, asks of *agent*.

    An agent is a product token or a whole User-Agent string; the rules for any of several apply. Every line
    that can be read counts. All groups that name the token are one group; groups of ``*`` apply to a crawler
    that no group names (2.2.1). Linear in the length of *body*; never raises.
    """
    agents = [agent] if isinstance(agent, str) else agent
    tokens = {name if name == "*" else product_token(name) for name in agents} - {""}
    fields = list(_fields(counted_part(body).decode("utf-8", "surrogateescape")))
    mine = tokens.intersection(_named(value) for name, value, _ in fields if name == USER_AGENT) or {"*"}
    asked = list(_of_groups(fields, mine))
    delays = map(_NUMBER.match, _values(asked, CRAWL_DELAY))
    rates = (_alone(f"Request-rate: {_hours(value)}") for value in _values(asked, REQUEST_RATE))
    hours = (_alone(f"Visit-time: {_hours(value)}") for value in _values(asked, VISIT_TIME))
    sitemaps = (_sitemap_url(value, url) for name, value, _ in fields if name == SITEMAP)
    patterns = _patterns(asked)
    disallowed = [(pattern, line) for (name, pattern), line in patterns.items() if name == DISALLOW]
    return Rules(
        _alone("\n".join(f"{name}: {pattern}" for name, pattern in patterns)),
        tuple(sorted(disallowed, key=lambda each: len(each[0]), reverse=True)),
        max((float(found[1]) for found in delays if found), default=None),
        tuple(rate for each in rates if (rate := each.request_rate("*"))),
        tuple(period for each in hours if (period := each.visit_time("*"))),
        tuple(dict.fromkeys(filter(None, sitemaps))),
        MOST_STEPS // max(sum(pattern.count("***") for _, pattern in patterns), 1),
    )


# --- lines ------------------------------------------------------------------------------------------------


def counted_part(body: bytes) -> bytes:
    """Return the part of *body* that counts, as UTF-8 without its mark: whole lines up to `BODY_LIMIT`.

    The line that crosses the limit is read to its end, or left out if it has none, since half a rule is a
    different rule. UTF-16 is accepted with its mark, up to its first error. 2 ms at most.
    """
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        body = body[: 2 * BODY_LIMIT]
        try:
            body = body.decode("utf-16").encode()
        except UnicodeDecodeError as error:  # to replace each takes .2 us
            body = body[: error.start].decode("utf-16").encode()
    body = body.removeprefix(b"\xef\xbb\xbf")
    if len(body) <= BODY_LIMIT:
        return body
    ends = [body.find(mark, BODY_LIMIT, 2 * BODY_LIMIT) for mark in (b"\n", b"\r")]
    if max(ends) >= 0:
        return body[: min(end for end in ends if end >= 0) + 1]
    return body[: max(body.rfind(mark, 0, BODY_LIMIT) for mark in (b"\n", b"\r")) + 1]


USER_AGENT, ALLOW, DISALLOW, SITEMAP = "useragent", "allow", "disallow", "sitemap"
CRAWL_DELAY, REQUEST_RATE, VISIT_TIME = "crawldelay", "requestrate", "visittime"
# By the name of a field without blanks and hyphens; includes misspellings that Google and Protego accept.
_NAMES = {
    **{name: name for name in (USER_AGENT, ALLOW, DISALLOW, CRAWL_DELAY, REQUEST_RATE, VISIT_TIME)},
    **dict.fromkeys((SITEMAP, "sitemaps"), SITEMAP),
    **dict.fromkeys(("dissallow", "dissalow", "disalow", "diasllow", "disallaw"), DISALLOW),
}
# Without a colon the value has to look like one, since prose may begin with the name of a field, too.
_WITHOUT_COLON = re.compile(
    r"""(?ix) ( user[ -]?agent (?=\s+\S+(?:\s+\S+)?$)
    | (?:dis)?allow (?=\s+[/*]\S*$)
    | (?:crawl[ -]?delay | request[ -]?rate | visit[ -]?time) (?=\s+[.\d])
    | sitemap (?=\s+(?:https?:/)?/\S*$) ) \s+ (.+)"""
)


def _fields(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (name, value, line) of each line that can be read; unknown names are left out."""
    for raw in re.split(r"[\r\n]+", text.translate({0: None, 0xFEFF: None})):
        line = raw.partition("#")[0].strip()
        key, colon, value = line.partition(":")
        name = _name(key) if colon else None
        if name is None and (match := _WITHOUT_COLON.match(line)) is not None:
            name, value = _name(match[1]), match[2]
        if name is not None:
            yield name, value.strip(), line


def _name(key: str) -> str | None:
    return _NAMES.get(re.sub(r"[\s-]+", "", key.lower()))


def _of_groups(fields: Iterable[tuple[str, str, str]], mine: set[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the *fields* of the groups that name one of *mine*; empty ones are left out.

    For rules only Allow and Disallow end a run of user-agent lines: other lines must not interfere (2.2.4).
    Crawl-delay, Request-rate and Visit-time are older than the RFC, and belong to the user-agent lines right
    before them: a file may have one Crawl-delay for each bot, and the rules for all of them at its end.
    """
    for_rules: set[str] = set()
    for_delays: set[str] = set()
    after_rule = after_delay = False
    for name, value, line in fields:
        if name == USER_AGENT:
            for_rules = set() if after_rule else for_rules
            for_delays = set() if after_rule or after_delay else for_delays
            after_rule = after_delay = False
            for_rules.add(_named(value))
            for_delays.add(_named(value))
        elif name != SITEMAP:
            is_rule = name in (ALLOW, DISALLOW)
            after_rule, after_delay = after_rule or is_rule, after_delay or not is_rule
            if value and not mine.isdisjoint(for_rules if is_rule else for_delays):
                yield name, value, line


_TOKEN = re.compile(r"[\w-]+")
_COMPATIBLE = re.compile(r"(?i)Mozilla/[^;]*(?:;[^;]*)?\bcompatible; *([\w-]+)")


def product_token(agent: str) -> str:
    """Return the name under which robots.txt addresses *agent*, in lower case; empty if it has none.

    It is the leading token of a User-Agent string ("MyBot/1.0 (+https://...)" is ``mybot``), or that of the
    bot in "Mozilla/5.0 (compatible; MyBot/1.0)". RFC 9309 2.2.1 has only ASCII letters, ``-`` and ``_``;
    digits and other letters are kept, or agent1 would obey the group of agent2.
    """
    match = _COMPATIBLE.match(agent)
    return match[1].lower() if match else _leading_token(agent)


def _leading_token(value: str) -> str:
    match = _TOKEN.match(value.strip())
    return match[0].lower() if match else ""


def _named(value: str) -> str:
    """Return the token that a user-agent line names; ``*`` for all."""
    return "*" if value.split()[:1] == ["*"] else _leading_token(value)


# --- patterns and URLs ------------------------------------------------------------------------------------

# Both are compared octet by octet in one spelling (2.2.2). Protego uses one spelling for "?" and "%3F",
# counts an escaped octet and a reserved one as three, and reads a "$" in two ways. So it gets each octet as a
# fixed code of letters that it does not change: three characters for an octet that needs no escape, nine for
# any other, so that its longest pattern is the longest rule. Escaped "/", "?", "*", "$", "#" and "%" are
# other octets than the plain ones: "/" and "?" delimit, "*" and "$" have a meaning in a rule, "#" and "%"
# everywhere.
_ITSELF = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:@!'(),;+=&[]")
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
_CODES = {
    octet + escaped: f"{octet:02x}-"
    if octet in _ITSELF or (octet in b"/?" and not escaped)
    else f"={octet:02x}======"
    for octet in range(256)
    for escaped in (0, 256)
}
_END = "end"  # of a URL
_HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")


def _coded(text: str) -> str:
    octets = text.encode("utf-8", "surrogateescape").decode("latin-1")
    return _ESCAPE.sub(lambda found: chr(256 + int(found[1], 16)), octets).translate(_CODES)


def _coded_target(target: str) -> str:
    """Return the path and query of a URL in the code for Protego."""
    return f"/{_coded(_HALF_A_CHARACTER.sub(chr(0xFFFD), target))}{_END}"


def _spellings(name: str, value: str) -> Iterator[str]:
    """Yield the patterns for Protego of one rule: none if no path can match it.

    Two if it allows an index page: ``/shop/index.html`` also allows ``/shop/``, which is not in the RFC, but
    as Google, crawler-commons and Protego do it. Three if it has "/" or "?" after its first "?", where the
    table of the RFC has them both plain and escaped.
    """
    if value[0] not in "/*":
        return  # every path begins with a slash
    spellings = [value]
    path, mark, query = value.partition("?")
    if name == ALLOW and path.endswith(("/index.html", "/index.htm")) and not mark:
        spellings.append(path[: path.rfind("/") + 1] + "$")
    decoded = re.sub("(?i)%2F", "/", re.sub("(?i)%3F", "?", query))
    if "/" in decoded or "?" in decoded:
        escaped = decoded.replace("/", "%2F").replace("?", "%3F")
        spellings += [f"{path}?{decoded}", f"{path}?{escaped}"]
    for spelling in dict.fromkeys(spellings):
        end = _END if spelling.endswith("$") else ""
        yield "/" + "***".join(map(_coded, spelling.removesuffix("$").split("*"))) + end


def _patterns(fields: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str], str]:
    """Return the lines of all rules in *fields*, by (name, pattern).

    Beyond `MOST_WILDCARDS` a Disallow is cut at its first wildcard and an Allow with one is left out, so that
    more is forbidden.
    """
    found: dict[tuple[str, str], str] = {}
    wildcards = size = 0
    for name, value, line in fields:
        for pattern in _spellings(name, value) if name in (ALLOW, DISALLOW) else ():
            kept = pattern
            if "*" in pattern:
                wildcards, size = wildcards + pattern.count("***"), size + len(pattern)
                if wildcards > MOST_WILDCARDS or size > MOST_OF_WILDCARDS:
                    kept = "" if name == ALLOW else pattern.partition("*")[0]
            if kept:
                found.setdefault((name, kept), line)
    return found


# --- values -----------------------------------------------------------------------------------------------


def _values(fields: Iterable[tuple[str, str, str]], wanted: str) -> list[str]:
    """Return the values of the first `MOST_VALUES` fields named *wanted*, which are read for each page."""
    return [value for name, value, _ in fields if name == wanted][:MOST_VALUES]


_NUMBER = re.compile(r"(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})(?![\w.])", re.ASCII)  # "30<BR>", "10 seconds"


def _hours(value: str) -> str:
    """Return a Request-rate or Visit-time as Protego reads it: ``1/5 0600-0845``; empty if it is too long."""
    if len(value) > LONGEST_VALUE:
        return ""
    value = re.sub(r"\s*([/-])\s*", r"\1", " ".join(value.split()))
    return re.sub(r"(?<=[- ])2400", "0000", re.sub(r"(?i):| ?(?:utc|gmt|z)$", "", value))


def _sitemap_url(value: str, url: str) -> str | None:
    """Return a Sitemap value, which may be relative or quoted, as an absolute URL; the value itself if *url*
    is no http(s) URL. None if it is no http(s) URL, too long, or has markup or blanks."""
    if value[:1] + value[-1:] in ('""', "''", "<>"):
        value = value[1:-1]
    if len(value) > LONGEST_URL or re.search(r"""[\s<>"]""", value):
        return None
    escaped = re.sub("[\udc80-\udcff]", lambda found: f"%{ord(found[0]) & 0xFF:02X}", value)
    found = absolute(escaped, url)
    return value if found is None and absolute(url) is None else found
