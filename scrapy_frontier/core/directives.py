"""What a page and its headers say to a crawler: robots directives, link relations, refreshes, redirects,
waits.

Text and numbers in, frozen values out. `scan_head` walks the head of an HTML page once, tag by tag, and
stops where the body begins, so that nobody parses a page for its directives; the grammars of the headers
follow, each line on its own, never joined. Unreadable input says nothing: no function here raises for what
a site wrote. ``now`` is POSIX seconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from html.entities import html5
from typing import TYPE_CHECKING, NamedTuple

from .dates import http_date, timestamp
from .robots import product_token
from .urls import absolute, without_fragment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

LONGEST_WAIT = 2**31  # seconds; what RFC 9111 1.2.2 makes of a number too large to hold
SCAN_LIMIT = 262_144  # characters of a page in which its head must end


# --- the head of a page -----------------------------------------------------------------------------------


class Refresh(NamedTuple):
    """Go to *url* after *seconds*; an empty *url* is the page itself."""

    seconds: int
    url: str


@dataclass(frozen=True, slots=True)
class Head:
    """What the head of an HTML page says to crawlers, as written."""

    metas: tuple[tuple[str, str], ...] = ()  # (name in lower case, content) of every named meta element
    base: str | None = None  # href of the first base element that has one
    canonicals: tuple[str, ...] = ()  # href of every link element with rel=canonical
    refresh: Refresh | None = None  # the first meta refresh that can be read

    def base_url(self, url: str) -> str:
        """Return what relative links of the page at *url* start from; a base that is no http(s) URL is
        none.
        """
        return url if self.base is None else absolute(self.base, url or None) or url


_BLANK = "\t\n\f\r "
_TAG_NAME = re.compile(rf"[A-Za-z][^{_BLANK}/>]*")
_ATTRIBUTE = re.compile(
    rf"[{_BLANK}/]*([^{_BLANK}/>][^{_BLANK}/>=]*)"
    rf"""(?:[{_BLANK}]*=[{_BLANK}]*(?:"([^"]*)(?:"|\Z)|'([^']*)(?:'|\Z)|([^{_BLANK}>"'][^{_BLANK}>]*)?))?"""
)
_TAG_END = re.compile(rf"[{_BLANK}/]*>")
_HEAD_ELEMENTS = frozenset(
    (
        *("html", "head", "title", "base", "link", "meta", "style", "script", "noscript", "template"),
        *("noframes", "bgsound", "basefont"),
    )
)
_BODY_BEGINS_AFTER = frozenset(("body", "html", "br"))  # end tags; others are ignored


def scan_head(page: str) -> Head:
    """Read the head of the HTML *page*: meta, base and link elements up to where a browser begins the body.

    HTML Standard 13.2, in the part a head can hold. Comments, scripts, styles, titles and templates hide what
    is in them; so does noscript, as in a browser that runs scripts. Ends with the first text or element that
    belongs to a body, after `SCAN_LIMIT` characters at the latest. One pass, no backtracking.
    """
    metas: list[tuple[str, str]] = []
    canonicals: list[str] = []
    base: str | None = None
    refresh: Refresh | None = None
    for name, attributes in _head_tags(page[:SCAN_LIMIT]):
        content = attributes.get("content")
        if name == "meta" and content is not None:
            if "name" in attributes:
                metas.append((attributes["name"].strip().lower(), content))
            if refresh is None and attributes.get("http-equiv", "").lower() == "refresh":
                refresh = parse_refresh(content)
        elif name == "base" and base is None:
            base = attributes.get("href")
        elif (
            name == "link" and attributes.get("href") and "canonical" in rel_tokens(attributes.get("rel", ""))
        ):
            canonicals.append(attributes["href"])
    return Head(tuple(metas), base, tuple(canonicals), refresh)


def _head_tags(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (name, attributes) of those meta, base and link start tags of the head that can say something."""
    place = 1 if text.startswith("\ufeff") else 0
    while (start := text.find("<", place)) >= 0 and not text[place:start].strip(_BLANK):
        closes = text.startswith("/", start + 1)
        match = _TAG_NAME.match(text, start + 1 + closes)
        if match is None:
            if not text.startswith(("!", "?", "/"), start + 1):
                return  # a lone "<" is text
            place = _after_comment(text, start)
            continue
        name = match[0].lower()
        if (name in _BODY_BEGINS_AFTER) if closes else (name not in _HEAD_ELEMENTS):
            return
        inside, place = _tag(text, match.end())
        if closes:
            continue
        if name in _TELLING and _TELLING[name](inside):
            yield name, _attributes(inside)
        elif name in _HIDING:
            place = _HIDING[name](text, name, place)


_TELLING: dict[str, Callable[[str], object]] = {  # cheap tests that most tags fail
    "meta": re.compile("(?i)name|refresh|&").search,
    "link": re.compile("(?i)canonical|&").search,
    "base": bool,
}


def _tag(text: str, place: int) -> tuple[str, int]:
    """Return what stands in a tag behind its name, which ends at *place*, and where the tag is over."""
    end = text.find(">", place)
    inside = text[place : max(end, place)]
    if end >= 0 and "'" not in inside and inside.count('"') == 2 * inside.count('="'):
        return inside, end + 1  # every quote opens a value or closes one, so the ">" is outside
    start = place
    while (over := _TAG_END.match(text, place)) is None and (match := _ATTRIBUTE.match(text, place)):
        if match.end() == len(text) and not match[0].endswith(('"', "'")) and match[4] is None:
            break  # the page ends inside quotes: no tag
        place = match.end()
    return text[start:place], len(text) if over is None else over.end()


def _attributes(inside: str) -> dict[str, str]:
    """Read the attributes of a tag; the first of a name counts."""
    attributes: dict[str, str] = {}
    for name, *values in _ATTRIBUTE.findall(inside):
        attributes.setdefault(name.lower(), _decoded(next(filter(None, values), "")))
    return attributes


_LONGEST_VALUE = 16_384  # characters; no URL and no directive is longer, and 100,000 references take 0.1 s
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7};?|#[xX][0-9A-Fa-f]{1,6};?|[A-Za-z][A-Za-z0-9]{0,31};?)")


def _decoded(value: str) -> str:
    """Decode character references as in an attribute: ``&copy=`` in a URL is no sign (13.2.5.73)."""
    return _REFERENCE.sub(_reference, value) if "&" in value and len(value) <= _LONGEST_VALUE else value


def _reference(match: re.Match[str]) -> str:
    text = match[0]
    if text[1] == "#":
        return unescape(text)
    is_word = not text.endswith(";") and match.string.startswith("=", match.end())
    return text if is_word else html5.get(text[1:], text)


_COMMENT_END = re.compile(r"--!?>")


def _after_comment(text: str, start: int) -> int:
    """Return where the comment, the doctype or the like that begins at *start* is over."""
    if not text.startswith("<!--", start):
        return _past(text, text.find(">", start), 1)
    if text.startswith((">", "->"), start + 4):
        return text.find(">", start) + 1
    match = _COMMENT_END.search(text, start + 4)
    return match.end() if match else len(text)


def _past(text: str, found: int, length: int) -> int:
    return len(text) if found < 0 else found + length


def _after_text(text: str, name: str, place: int) -> int:
    """Return where the element *name*, opened before *place*, is closed: nothing inside counts as a tag."""
    while (place := text.find("</", place)) >= 0:
        place += 2
        after = place + len(name)
        if text[place:after].lower() == name and text[after : after + 1] in _NAME_ENDS:
            return _tag(text, after)[1]
    return len(text)


_NAME_ENDS = frozenset(_BLANK + "/>")
_SCRIPT_MARK = re.compile(rf"<!--|-->|<(/?)script(?=[{_BLANK}/>])", re.IGNORECASE)


def _after_script(text: str, name: str, place: int) -> int:
    """Return where a script ends: not at the end tag of a script in a comment in it (13.2.5.17 ff.)."""
    after = _after_text(text, name, place)
    if text.find("<!--", place, after) < 0:
        return after
    commented = nested = False
    while (match := _SCRIPT_MARK.search(text, place)) is not None:
        mark = match[0]
        if mark == "<!--":
            commented, place = True, match.start() + 2  # "<!-->" is over at once
            continue
        place = match.end()
        if mark == "-->":
            commented = nested = False
        elif match[1] and not nested:
            return _tag(text, place)[1]
        else:
            nested = commented and not match[1]
    return len(text)


_TEMPLATE_MARK = re.compile(rf"<!--|<(/?)template(?=[{_BLANK}/>])", re.IGNORECASE)


def _after_template(text: str, _name: str, place: int) -> int:
    depth = 1
    while depth and (match := _TEMPLATE_MARK.search(text, place)) is not None:
        if match[0] == "<!--":
            place = _after_comment(text, match.start())
            continue
        depth += -1 if match[1] else 1
        place = _tag(text, match.end())[1]
    return len(text) if depth else place


_HIDING: dict[str, Callable[[str, str, int], int]] = {
    **dict.fromkeys(("title", "style", "noscript", "noframes"), _after_text),
    "script": _after_script,
    "template": _after_template,
}


# --- meta robots and X-Robots-Tag -------------------------------------------------------------------------

_VALUED = frozenset(("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"))
_PREVIEWS = ("none", "standard", "large")  # from the strictest
_WORDS = frozenset(
    (
        *("all", "none", "index", "noindex", "follow", "nofollow", "archive", "noarchive", "nocache"),
        *("snippet", "nosnippet", "noimageindex", "notranslate", "noodp", "noydir", "noai", "noimageai"),
        *("indexifembedded", "nositelinkssearchbox"),
    )
)
_EVERYBODY = ("", "*", "robots")  # "robots" is everybody in a meta, and written in headers for that


@dataclass(frozen=True, slots=True)
class RobotsDirectives:
    """What holds for one page and one crawler: the sum of all that headers and metas forbid."""

    names: frozenset[str] = (
        frozenset()
    )  # every directive without a value, in lower case; ``none`` taken apart
    unavailable_after: float | None = None  # POSIX seconds, the earliest
    max_snippet: int | None = None  # characters, the fewest; None: no limit
    max_video_preview: int | None = None  # seconds, the fewest; None: no limit
    max_image_preview: str | None = None  # the strictest of none, standard, large
    expired: bool = False  # `unavailable_after` has passed

    @property
    def noindex(self) -> bool:
        return self.expired or "noindex" in self.names

    @property
    def nofollow(self) -> bool:
        return "nofollow" in self.names

    @property
    def noai(self) -> bool:
        return not self.names.isdisjoint(("noai", "noimageai"))

    def __contains__(self, name: str) -> bool:
        return name in self.names


def robots_directives(
    headers: Iterable[str], metas: Iterable[tuple[str, str]], agent: str | None, now: float
) -> RobotsDirectives:
    """Sum up the X-Robots-Tag lines *headers* and the named *metas* of a page for *agent*, the most
    restrictive wins.

    Google's specification, with the grammar of Bing and others: ``[agent:] rule, rule, ...`` a line, the
    agent holds to the end of its line. What is addressed to nobody, to ``*`` or to ``robots`` holds for all;
    what is addressed to *agent* (a product token or a User-Agent string; None: nobody) is added. ``index``,
    ``follow`` and ``all`` undo nothing. Known words need no comma between them.
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
        head, colon, rest = item.partition(":")
        name, value = head.strip().lower(), rest.strip()
        if colon and agents and name not in _VALUED:
            scope = name.partition("/")[0].strip() or ":"  # an empty name addresses nobody
            head, colon, rest = value.partition(":")
            name, value = head.strip().lower(), rest.strip()
        if colon and name:
            yield scope, (name, value)
        elif name:
            words = re.findall(r"[^\s;|]+", name)  # lists without commas are common, and clear
            for word in words if _WORDS.issuperset(words) else (name,):
                yield scope, (word, "")


_AGENT_WITH_DIGITS = re.compile(r"\s*\d+[A-Za-z_][\w-]*\s*:", re.ASCII)


def _items(line: str) -> Iterator[str]:
    """Split at commas, except those inside a date: a piece that begins with a digit goes on with the date
    before it.
    """
    pieces: list[str] = []
    dated = False
    for piece in line.split(","):
        if dated and piece.strip()[:1].isdigit() and not _AGENT_WITH_DIGITS.match(piece):
            pieces.append(piece)
            continue
        yield ",".join(pieces)
        pieces = [piece]
        dated = "unavailable_after" in piece.lower()
    yield ",".join(pieces)


def _sum(rules: Sequence[tuple[str, str]], now: float) -> RobotsDirectives:
    names: set[str] = set()
    for name, _ in rules:
        names.update(("noindex", "nofollow") if name == "none" else (name,))
    dates = [
        date
        for name, value in rules
        if name == "unavailable_after" and (date := timestamp(value)) is not None
    ]
    previews = [
        value.lower() for name, value in rules if name == "max-image-preview" and value.lower() in _PREVIEWS
    ]
    until = min(dates, default=None)
    return RobotsDirectives(
        names=frozenset(names - _VALUED),
        unavailable_after=until,
        max_snippet=_least(rules, "max-snippet"),
        max_video_preview=_least(rules, "max-video-preview"),
        max_image_preview=min(previews, key=_PREVIEWS.index, default=None),
        expired=until is not None and until < now,
    )


def _least(rules: Iterable[tuple[str, str]], wanted: str) -> int | None:
    """Return the smallest number given for *wanted*; -1 says "no limit" and so does not count."""
    return min(
        (int(value) for name, value in rules if name == wanted and re.fullmatch(r"[0-9]{1,9}", value)),
        default=None,
    )


# --- link relations ---------------------------------------------------------------------------------------


def rel_tokens(rel: str | None) -> frozenset[str]:
    """Return the link types of a rel attribute, in lower case: ``nofollow``, ``ugc``, ``sponsored``,
    ``canonical``...
    """
    return frozenset((rel or "").lower().split())


def shared_rel(rels: Iterable[frozenset[str]]) -> frozenset[str]:
    """Return the types that *every* link of a page to one URL carries: linked once without nofollow, it is
    followed.
    """
    rels = list(rels)
    return frozenset.intersection(*rels) if rels else frozenset()


class Link(NamedTuple):
    """One link of a Link header. *anchored*: it is about another resource than the one fetched."""

    target: str
    rel: frozenset[str]
    anchored: bool


_LINK_TARGET = re.compile(r"[ \t,]*<([^>]*)>")
_LINK_PARAMETER = re.compile(
    r"""[ \t]*;[ \t]*([^ \t=;,"]*)(?:[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"?|([^ \t;,"]*)))?"""
)


def parse_link_header(line: str) -> list[Link]:
    """Read one Link header line (RFC 8288): ``<target>; rel="canonical next"; ..., <target>; ...``.

    The first rel of a link counts (3.3). Stops at the first place that is no link; what stood before it
    counts.
    """
    links: list[Link] = []
    place = 0
    while (match := _LINK_TARGET.match(line, place)) is not None:
        place = match.end()
        parameters: dict[str, str] = {}
        while (parameter := _LINK_PARAMETER.match(line, place)) is not None:
            place = parameter.end()
            name, quoted, plain = parameter.groups()
            value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain
            parameters.setdefault(name.lower(), value or "")
        links.append(Link(match[1].strip(), rel_tokens(parameters.get("rel")), "anchor" in parameters))
    return links


def canonical(head: Head, link_headers: Iterable[str], url: str) -> str | None:
    """Return the canonical URL that the page at *url* names, without fragment; None without one or when
    they disagree.

    RFC 6596. Link elements start from the base of the page, Link headers from *url* (RFC 8288 3.2). The
    page itself is an answer too.
    """
    base = head.base_url(url)
    named = [absolute(href, base) for href in head.canonicals]
    links = (link for line in link_headers for link in parse_link_header(line))
    named += [absolute(link.target, url) for link in links if "canonical" in link.rel and not link.anchored]
    targets = {without_fragment(target) for target in named if target is not None}
    return targets.pop() if len(targets) == 1 else None


# --- refresh ----------------------------------------------------------------------------------------------

_REFRESH_TIME = re.compile(rf"[{_BLANK}]*([0-9]*)([0-9.]*)")
_REFRESH_URL = re.compile(rf"[uU][rR][lL][{_BLANK}]*=[{_BLANK}]*")


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
    if not (digits or fraction) or (rest and rest[0] not in _BLANK + ";,"):
        return None
    rest = rest.lstrip(_BLANK)
    if rest.startswith((";", ",")):
        rest = rest[1:].lstrip(_BLANK)
    named = _REFRESH_URL.match(rest)
    url = rest[named.end() :] if named else rest
    if url.startswith(("'", '"')):
        url = url[1:].partition(url[0])[0]
    return Refresh(_whole(digits), url.strip(_BLANK))


def _whole(digits: str) -> int:
    """Read a number of seconds of any length."""
    return min(int(digits.lstrip("0")[:12] or "0"), LONGEST_WAIT)


# --- redirects --------------------------------------------------------------------------------------------

REDIRECTS = frozenset((301, 302, 303, 307, 308))


def location(value: str, url: str) -> str | None:
    """Return where the Location header *value* of the answer for *url* points; None when it is no http(s)
    URL.

    RFC 9110 10.2.2: relative to *url*, whose fragment it inherits when it has none.
    """
    target = absolute(value, url)
    _, hash_sign, fragment = url.partition("#")
    return target + hash_sign + fragment if target is not None and "#" not in target else target


# --- waits ------------------------------------------------------------------------------------------------


def retry_after(value: str, now: float) -> float | None:
    """Return for how many seconds from *now* a Retry-After header asks; None when it says nothing.

    RFC 9110 10.2.3: digits, or an HTTP-date (0 when it has passed). Signs, decimals and other words say
    nothing; dates that only miss the exact form (a zone, a one-digit day) are read. At most `LONGEST_WAIT`;
    the caller's cap is its own. Of several header lines pass the first.
    """
    text = value.strip(" \t")
    if re.fullmatch(r"[0-9]+", text):
        return float(_whole(text))
    date = http_date(text, now)
    if date is None and len(text) < 60 and re.search(r"[A-Za-z]{3}.*\d:\d\d:\d\d", text):
        date = timestamp(text)
    return None if date is None else min(max(date - now, 0.0), float(LONGEST_WAIT))
