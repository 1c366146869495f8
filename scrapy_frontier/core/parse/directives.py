"""What a page asks of crawlers: the robots directives of its headers and metas, and its canonical URL;
and what follows from that.

Header lines are read each on its own, never joined. What cannot be read says nothing; nothing here raises
for what a site wrote. ``now`` is POSIX seconds.

Which redirects are followed: how a chain may go on, and where it may lead.

Plain data in and out. A chain is the URLs of a redirect from its first page to the one that answers now;
the target is where that answer points.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypedDict
from urllib.parse import unquote, urlsplit, urlunsplit

from .. import reasons
from .headers import parse_link_header, timestamp
from .robots_txt import product_token
from .urls import (
    SCHEMES,
    absolute,
    escaped_fragment,
    host_of,
    is_private_url,
    origin_of,
    wire_target,
    without_fragment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .html import Head

_VALUED = frozenset(("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"))
_WORDS = frozenset(
    (
        *("all", "none", "index", "noindex", "follow", "nofollow", "archive", "noarchive", "nocache"),
        *("snippet", "nosnippet", "noimageindex", "notranslate", "noodp", "noydir", "noai", "noimageai"),
        *("indexifembedded", "nositelinkssearchbox"),
    )
)
_DENIED = frozenset(("false", "no", "off", "0"))  # what ``noindex: false`` says is that there is none
_EVERYBODY = ("", "*", "robots")  # "robots" is everybody in a meta, and written in headers for that


@dataclass(frozen=True, slots=True)
class RobotsDirectives:
    """What holds for one page and one crawler: the sum of all that headers and metas forbid."""

    # every directive without a value, in lower case; ``none`` taken apart
    names: frozenset[str] = frozenset()
    expired: bool = False  # the earliest ``unavailable_after`` has passed

    @property
    def noindex(self) -> bool:
        """Whether the page is not to be kept: it says so, or the time until which it was available has
        passed."""
        return self.expired or "noindex" in self.names

    @property
    def nofollow(self) -> bool:
        """Whether no link of the page is to be followed."""
        return "nofollow" in self.names


def robots_directives(
    headers: Iterable[str], metas: Iterable[tuple[str, str]], agent: str | None, now: float
) -> RobotsDirectives:
    """Sum up the X-Robots-Tag lines *headers* and the named *metas* of a page for *agent*, the most
    restrictive wins.

    Google's specification, with the grammar of Bing and others: ``[agent:] rule, rule, ...`` a line, the
    agent holds to the end of its line. What is addressed to nobody, to ``*`` or to ``robots`` holds for all;
    what is addressed to *agent* (a product token or a User-Agent string; None: nobody) is added. ``index``,
    ``follow`` and ``all`` undo nothing. Known words need no comma between them, and may have a value
    (``noindex: true``).
    """
    token = product_token(agent) if agent else ""
    rules = [rule for line in headers for scope, rule in _scoped(line) if scope in (*_EVERYBODY, token)]
    for name, content in metas:
        if name and name in ("robots", token):
            rules += (rule for _, rule in _scoped(content, agents=False))
    return _sum(rules, now)


def _scoped(line: str, agents: bool = True) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield (agent in lower case or empty, (name in lower case, value)) of each item of a line."""
    scope = ""
    for item in _items(line):
        if _CLOCK(item):
            continue
        name, colon, value = _parted(item)
        if colon and agents and not _is_rule(name):
            scope = name.partition("/")[0].strip() or ":"  # an empty name addresses nobody
            name, colon, value = _parted(value)
        if colon and name:
            yield scope, (name, value)
        elif name:
            words = re.findall(r"[^\s;|]+", name)  # lists without commas are common, and clear
            for word in words if _WORDS.issuperset(words) else (name,):
                yield scope, (word, "")


def _parted(item: str) -> tuple[str, str, str]:
    name, colon, value = item.partition(":")
    return name.strip().lower(), colon, value.strip()


def _is_rule(name: str) -> bool:
    """Whether *name* is no agent, whatever stands behind its colon: ``noindex: true`` is a rule."""
    return name in _WORDS or name in _VALUED or name.startswith("max-")


# The first colon of an item is that of a time of day: what is left of a date that a comma cut in two.
_CLOCK = re.compile(r"[^:]*(?<!\w)\d{1,2}:\d\d(?!\w)", re.ASCII).match
_AGENT_WITH_DIGITS = re.compile(r"\s*\d+[A-Za-z_][\w-]*\s*:", re.ASCII)
_MONTH = re.compile(r"(?i)\s*(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? +\d")


def _items(line: str) -> Iterator[str]:
    """Split at commas, except those inside a date: a piece that begins with a digit or a month and its day
    goes on with the date before it.
    """
    pieces: list[str] = []
    dated = False
    for piece in line.split(","):
        goes_on = piece.strip()[:1].isdigit() or _MONTH.match(piece)
        if dated and goes_on and not _AGENT_WITH_DIGITS.match(piece):
            pieces.append(piece)
            continue
        yield ",".join(pieces)
        pieces = [piece]
        dated = "unavailable_after" in piece.lower()
    yield ",".join(pieces)


def _sum(rules: Sequence[tuple[str, str]], now: float) -> RobotsDirectives:
    names: set[str] = set()
    for name, value in rules:
        if value.lower() not in _DENIED:
            names.update(("noindex", "nofollow") if name == "none" else (name,))
    dates = (timestamp(value) for name, value in rules if name == "unavailable_after")
    return RobotsDirectives(
        names=frozenset(name for name in names if name in _WORDS or not _is_rule(name)),
        expired=any(date is not None and date < now for date in dates),
    )


def canonical(head: Head, link_headers: Iterable[str], url: str, has_ajax: bool = False) -> str | None:
    """Return the canonical URL that the page at *url* names, without fragment; None without one or when
    they disagree. Where it *has_ajax*, a ``#!`` state stands in the query, where servers see it.

    RFC 6596. Link elements start from the base of the page, Link headers from *url* (RFC 8288 3.2). The
    page itself is an answer too.
    """
    named = [head.absolute(href, url) for href in head.canonicals]
    links = (link for line in link_headers for link in parse_link_header(line))
    named += [absolute(link.target, url) for link in links if "canonical" in link.rel and not link.anchored]
    targets = set()
    for target in named:
        if target is not None:
            targets.add((escaped_fragment(target) if has_ajax else None) or without_fragment(target))
    return targets.pop() if len(targets) == 1 else None


class Directives(TypedDict):
    """What a page says to crawlers, as the meta of its request has it: ``names`` of all directives without a
    value, in order; ``canonical`` as a URL, None: itself."""

    noindex: bool
    nofollow: bool
    names: list[str]
    canonical: str | None


class Obeyed(NamedTuple):
    """Which directives are obeyed; ``noindex`` by "skip" or "drop-items", or not by "ignore"."""

    noindex: str
    nofollow: bool
    canonical: bool


class Consequences(NamedTuple):
    """What follows from the directives of a page, as far as they are obeyed.

    ``skips``: no callback sees it; ``drops_items``: the callback's items go nowhere; ``is_nofollow``: its
    links are not followed. ``alias_of`` is its better self; ``canonical`` the URL that it names as canonical,
    believed or not. None: itself.
    """

    skips: bool = False
    drops_items: bool = False
    is_nofollow: bool = False
    alias_of: str | None = None
    canonical: str | None = None

    @property
    def notes_of_items(self) -> tuple[str, ...]:
        """Notes for its record with which nothing of the page need be read."""
        if self.skips:
            return (reasons.SKIPPED(),)
        return (reasons.NOINDEX(),) if self.drops_items else ()

    @property
    def notes_of_links(self) -> tuple[str, ...]:
        """Notes for its record on where it leads."""
        notes = (reasons.NOFOLLOW(),) if self.is_nofollow else ()
        alias = self.alias_of
        return notes if alias is None else (*notes, reasons.ALIAS(url=alias[: reasons.LONGEST_URL]))


NO_CONSEQUENCES = Consequences()


def consequences(directives: Directives | None, url: str, obeyed: Obeyed) -> Consequences:
    """What follows from *directives* for the page at *url*; None: it has none."""
    if directives is None:
        return NO_CONSEQUENCES
    noindex, named = directives["noindex"], directives["canonical"]
    is_alias = named is not None and obeyed.canonical and is_same_site(named, url)
    return Consequences(
        skips=noindex and obeyed.noindex == "skip",
        drops_items=noindex and obeyed.noindex == "drop-items",
        is_nofollow=obeyed.nofollow and directives["nofollow"],
        alias_of=named if is_alias else None,
        canonical=named,
    )


@dataclass(frozen=True, slots=True)
class ChainLimits:
    """``most_hosts`` different hosts in a chain, its first included (0: no limit); ``allows_private``: public
    pages may lead into private networks."""

    most_hosts: int = 5
    allows_private: bool = False


class ChainRefusal(NamedTuple):
    """Why a redirect is not followed: a word for the stats, and a reason for people."""

    name: str
    reason: str


TOO_LONG = ChainRefusal("chain", "its chain of redirects is too long")
NO_HTTP = ChainRefusal("scheme", "that is no address of http or https")
LOOP = ChainRefusal("loop", "it goes round in a circle")
GROWING = ChainRefusal("growing", "each address of the chain holds the one before, and more")
TOO_MANY_HOSTS = ChainRefusal("hosts", "its chain leads through too many hosts")
PRIVATE = ChainRefusal("private", "a public page may not lead into a private network")
_STEPS = 5  # of a chain that grows without end
REFUSALS = (TOO_LONG, NO_HTTP, LOOP, GROWING, TOO_MANY_HOSTS, PRIVATE)


def refusal(
    chain: Sequence[str], target: str, limits: ChainLimits, from_private: bool
) -> ChainRefusal | None:
    """Why the last page of *chain* may not lead to *target*, or None.

    A page that was met may be led to again, for many set a cookie on the way round; the third time it is a
    loop. *from_private* says that the last page came from a private network. How many redirects there
    were is not counted here.
    """
    if target.partition(":")[0].lower() not in SCHEMES:
        return NO_HTTP
    bare = without_fragment(target)
    if sum(without_fragment(url) == bare for url in chain) > 2:
        return LOOP
    if grows([*chain, target]):
        return GROWING
    if limits.most_hosts and len({host_of(url) for url in (*chain, target)}) > limits.most_hosts:
        return TOO_MANY_HOSTS
    if not (limits.allows_private or from_private) and is_private_url(target):
        return PRIVATE
    return None


def without_foreign_userinfo(target: str, source: str) -> str:
    """*target* without the user and password in it, unless it has the origin of *source*."""
    if "@" not in target or origin_of(target) == origin_of(source):
        return target
    parts = urlsplit(target)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def is_same_site(one: str, other: str) -> bool:
    """Whether two URLs have the same host, a ``www.`` in front left aside; scheme and port do not count."""
    return host_of(one).removeprefix("www.") == host_of(other).removeprefix("www.")


def grows(chain: Sequence[str]) -> bool:
    """Do the last five URLs of a redirect *chain* each carry the one before in themselves, and more?

    A login page that wraps its own address, a ``/next/next/next`` without end: same origin, and path and
    query of each URL stand, as they are or percent-encoded, inside the longer one of the next.
    """
    tail = chain[-_STEPS:]
    return len(tail) == _STEPS and all(_contains(after, before) for before, after in pairwise(tail))


def _contains(after: str, before: str) -> bool:
    if origin_of(after) != origin_of(before):
        return False
    shorter, longer = wire_target(before), wire_target(after)
    inner = shorter.strip("/")
    return len(longer) > len(shorter) and (inner in longer or inner in unquote(longer))
