"""Parses the directives of a page (robots rules in headers and metas), decides what follows from them, and
which redirects are followed.

Header lines are parsed one by one, never joined. Text that cannot be parsed is ignored; no input from a site
raises. ``now`` is POSIX seconds.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TypedDict
from urllib.parse import urlsplit, urlunsplit

from .. import reasons
from .headers import timestamp
from .robots_txt import product_token
from .urls import (
    SCHEMES,
    host_of,
    is_private_url,
    origin_of,
    without_fragment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_VALUED = frozenset(("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"))
_WORDS = frozenset(
    (
        *("all", "none", "index", "noindex", "follow", "nofollow", "archive", "noarchive", "nocache"),
        *("snippet", "nosnippet", "noimageindex", "notranslate", "noodp", "noydir", "noai", "noimageai"),
        *("indexifembedded", "nositelinkssearchbox"),
    )
)
_DENIED = frozenset(("false", "no", "off", "0"))  # ``noindex: false`` is no noindex
_ALL_AGENTS = ("", "*", "robots")  # "robots" is the name of a meta for all agents, and used so in headers


class Directives(TypedDict):
    """The directives of a page for one crawler, as plain data for the meta of its request.

    ``names`` has all directives without a value, in lower case and sorted, with ``none`` as its two parts.
    ``noindex`` is also true once the earliest ``unavailable_after`` has passed. ``canonical`` is the URL that
    the page names as its canonical one (RFC 6596), None for the page itself.
    """

    noindex: bool
    nofollow: bool
    names: list[str]
    canonical: str | None


def robots_directives(
    headers: Iterable[str], metas: Iterable[tuple[str, str]], agent: str | None, now: float
) -> Directives:
    """Return the directives in the X-Robots-Tag lines *headers* and the named *metas* of a page for *agent*.

    Google's specification, with the grammar of Bing and others: a line is ``[agent:] rule, rule, ...``, and
    the agent applies to its end. Rules without an agent, for ``*`` or for ``robots`` apply to all crawlers;
    those for *agent* (a product token or a User-Agent string) are added. ``index``, ``follow`` and ``all``
    cancel nothing. Known words need no comma between them, and may have a value (``noindex: true``).
    """
    token = product_token(agent) if agent else ""
    lines = _first(headers)
    rules = [rule for line in lines for scope, rule in _scoped(line) if scope in (*_ALL_AGENTS, token)]
    for content in _first(content for name, content in metas if name and name in ("robots", token)):
        rules += (rule for _, rule in _scoped(content, agents=False))
    names: set[str] = set()
    for name, value in rules:
        if value.lower() not in _DENIED:
            names.update(("noindex", "nofollow") if name == "none" else (name,))
    dates = (timestamp(value) for name, value in rules if name == "unavailable_after")
    is_expired = any(date is not None and date < now for date in dates)
    return {
        "noindex": is_expired or "noindex" in names,
        "nofollow": "nofollow" in names,
        "names": sorted(name for name in names if name in _WORDS or not _is_rule(name)),
        "canonical": None,
    }


MOST_SAID = 16_384  # characters of all lines of a header, or of all metas of a page: 10 ms


def _first(lines: Iterable[str]) -> Iterator[str]:
    """Yield the first of *lines* that have no more than `MOST_SAID` characters together."""
    left = MOST_SAID
    for line in lines:
        left -= len(line)
        if left < 0:
            return
        yield line


# An item of a line. A date may have commas: a part that begins with a digit, or a month and a day, belongs to
# the date before it.
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_ITEM = re.compile(rf"(?i)[^,]*?unavailable_after[^,]*(?:,\s*(?:\d|{_MONTH} +\d)[^,]*)*|[^,]+")
# The first colon of an item is in a time of day: the item is a date without its directive.
_CLOCK = re.compile(r"[^:]*(?<!\w)\d{1,2}:\d\d(?!\w)", re.ASCII).match


def _scoped(line: str, agents: bool = True) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield (agent in lower case or empty, (name in lower case, value)) of each item of a line."""
    scope = ""
    for item in _ITEM.findall(line):
        if _CLOCK(item):
            continue
        name, colon, value = _parted(item)
        if colon and agents and not _is_rule(name):
            scope = name.partition("/")[0].strip() or ":"  # an empty name matches no agent
            name, colon, value = _parted(value)
        if colon and name:
            yield scope, (name, value)
        elif name:
            words = re.findall(r"[^\s;|]+", name)  # lists without commas are common
            for word in words if _WORDS.issuperset(words) else (name,):
                yield scope, (word, "")


def _parted(item: str) -> tuple[str, str, str]:
    name, colon, value = item.partition(":")
    return name.strip().lower(), colon, value.strip()


def _is_rule(name: str) -> bool:
    """Return whether *name* before a colon is a rule, as in ``noindex: true``, and no agent."""
    return name in _WORDS or name in _VALUED or name.startswith("max-")


class Obeyed(NamedTuple):
    """Which directives are obeyed; ``noindex`` is "skip", "drop-items" or "ignore"."""

    noindex: str
    nofollow: bool
    canonical: bool


class Consequences(NamedTuple):
    """What follows from the directives of a page that are obeyed.

    ``skips``: no callback is called. ``drops_items``: the items of the callback are dropped. ``is_nofollow``:
    its links are not followed. ``alias_of``: its canonical URL, None for the page itself.
    """

    skips: bool = False
    drops_items: bool = False
    is_nofollow: bool = False
    alias_of: str | None = None

    @property
    def notes_of_items(self) -> tuple[str, ...]:
        """Note for the record of the page about its items."""
        if self.skips:
            return (reasons.SKIPPED(),)
        return (reasons.NOINDEX(),) if self.drops_items else ()

    @property
    def notes_of_links(self) -> tuple[str, ...]:
        """Note for the record of the page about its links."""
        alias = () if self.alias_of is None else (reasons.ALIAS(url=self.alias_of[: reasons.LONGEST_URL]),)
        return (reasons.NOFOLLOW(), *alias) if self.is_nofollow else alias


NO_CONSEQUENCES = Consequences()


def consequences(directives: Directives | None, obeyed: Obeyed) -> Consequences:
    """Return what follows from the *directives* of a page, None if it has none."""
    if directives is None:
        return NO_CONSEQUENCES
    noindex = directives["noindex"]
    return Consequences(
        skips=noindex and obeyed.noindex == "skip",
        drops_items=noindex and obeyed.noindex == "drop-items",
        is_nofollow=obeyed.nofollow and directives["nofollow"],
        alias_of=directives["canonical"] if obeyed.canonical else None,
    )


class ChainRefusal(NamedTuple):
    """Why a redirect is not followed: a name for the stats, and a reason in words."""

    name: str
    reason: str


TOO_LONG = ChainRefusal("chain", "its chain of redirects is too long")
NO_HTTP = ChainRefusal("scheme", "that is no address of http or https")
LOOP = ChainRefusal("loop", "it goes round in a circle")
TOO_MANY_HOSTS = ChainRefusal("hosts", "its chain leads through too many hosts")
PRIVATE = ChainRefusal("private", "a public page may not lead into a private network")
_MOST_HOSTS = 5  # different hosts in a chain, the first included
REFUSALS = (TOO_LONG, NO_HTTP, LOOP, TOO_MANY_HOSTS, PRIVATE)


def refusal(chain: Sequence[str], target: str, allows_private: bool) -> ChainRefusal | None:
    """Return why a redirect to *target* is not followed; None if it is.

    *chain* has the URLs from the first page to the one that redirects. A URL may come a second time, since
    many sites set a cookie and redirect back; the third time is a loop. With *allows_private* the target may
    be in a private network. The number of redirects is not checked here.
    """
    if target.partition(":")[0].lower() not in SCHEMES:
        return NO_HTTP
    bare = without_fragment(target)
    if sum(without_fragment(url) == bare for url in chain) > 2:
        return LOOP
    if len({host_of(url) for url in (*chain, target)}) > _MOST_HOSTS:
        return TOO_MANY_HOSTS
    if not allows_private and is_private_url(target):
        return PRIVATE
    return None


def without_foreign_userinfo(target: str, source: str) -> str:
    """Return *target* without its user and password, unless it has the origin of *source*."""
    if "@" not in target or origin_of(target) == origin_of(source):
        return target
    parts = urlsplit(target)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
