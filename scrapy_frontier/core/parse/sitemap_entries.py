"""What an entry of a sitemap or feed says: an address, a date, a priority.

Names of elements are told apart without their namespaces; an address is resolved against its base.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .dates import timestamp
from .urls import absolute

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_LOCATION = 2_048  # characters; a location must be shorter (sitemaps.org)


class Entry(NamedTuple):
    """One URL of a sitemap or feed, absolute and as a browser would request it, and what is said of it."""

    url: str  # never empty in what `read` yields
    lastmod: float | None = None  # POSIX seconds
    priority: float | None = None  # 0 to 1, relative to the site; unstated means 0.5


class Element(Protocol):
    """What is used here of an element of lxml, which ships no types."""

    tag: object  # no text for an entity
    text: str | None
    tail: str | None

    def get(self, name: str) -> str | None: ...
    def getparent(self) -> Element | None: ...
    def getprevious(self) -> Element | None: ...
    def clear(self) -> None: ...
    def remove(self, element: Element) -> None: ...
    def __iter__(self) -> Iterator[Element]: ...
    def __delitem__(self, place: int) -> None: ...


def local_name(element: Element) -> str:
    """Return the name without namespace, and without the prefix of an undeclared one; empty for what is no
    element, a comment say."""
    try:
        tag = element.tag
    except UnicodeDecodeError:  # a namespace with half a character in it
        return ""
    return tag.rpartition("}")[2].rpartition(":")[2] if isinstance(tag, str) else ""


_MOST_PARTS = 32  # elements in a location or a date: entities that nobody expands, tags that mean nothing


def _text(element: Element) -> str:
    """Return the text directly inside *element*: not that of elements in it, and nothing for an entity; empty
    where these are very many."""
    parts = list(islice(element, _MOST_PARTS + 1))
    if len(parts) > _MOST_PARTS:
        return ""
    return "".join([element.text or "", *(part.tail or "" for part in parts)]).strip()


_FIELDS = frozenset(("loc", "lastmod", "priority"))


def sitemap_entries(elements: Iterable[Element], url: str) -> Iterator[Entry | None]:
    """Yield an entry per ``loc``: some generators forget to close one entry before they begin the next.

    *url* is where relative ones start from. None stands for one that ends no entry, so that whoever
    iterates can give way.
    """
    fields: dict[str, str] = {}
    for element in elements:
        name = local_name(element)
        if name not in _FIELDS or (name == "loc" and _OF_AN_EXTENSION(str(element.tag))):
            yield None
            continue
        yield _sitemap_entry(fields, url) if name == "loc" and name in fields else None
        if name == "loc" and name in fields:
            fields = {}
        fields.setdefault(name, _text(element))
    yield _sitemap_entry(fields, url)


# Google's; an image has a loc too, and may stand beside that of the page instead of inside image:image.
_OF_AN_EXTENSION = re.compile(r"\{[^}]*/sitemap-[a-z]+/|(?:image|video|news):").match


def _sitemap_entry(fields: dict[str, str], url: str) -> Entry | None:
    location = location_of(fields.get("loc", ""), url)
    if not location:
        return None
    return Entry(location, timestamp(fields.get("lastmod", "")), _priority(fields.get("priority", "")))


def feed_entry(elements: Iterable[Element], bases: Bases) -> Iterator[Entry | None]:
    """Read an RSS item (link, else guid; pubDate or dc:date) or an Atom entry (alternate link; updated,
    published).

    A guid that looks like a URL is taken for one even where it says that it is no permalink: the blogs that
    write such answer at it. The id of an Atom entry is a name (RFC 4287 4.2.6). None stands for each element
    that was read; the entry comes last, None without a location.
    """
    location = guid = ""
    dates: dict[str, float] = {}
    for element in elements:
        yield None
        name = local_name(element)
        if name == "link":
            location = location or _link(element, bases)
        elif name == "guid":
            guid = _text(element)
        elif name in _FEED_DATES and name not in dates and (date := timestamp(_text(element))) is not None:
            dates[name] = date
    location = location_of(location or (guid if guid.startswith(("http://", "https://")) else ""))
    date = next((dates[name] for name in _FEED_DATES if name in dates), None)
    yield Entry(location, date) if location else None


def _link(element: Element, bases: Bases) -> str:
    """Return where a link to the page itself leads, empty where it leads nowhere."""
    if element.get("rel") not in (None, "", "alternate"):
        return ""
    link = _text(element) or (element.get("href") or "").strip()
    return link if not link or _ABSOLUTE(link) else location_of(link, bases.of(element))


_ABSOLUTE = re.compile(r"(?i)https?:").match
_XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"


class Bases:
    """What relative references start from (XML Base), worked out once for each element around the entries.

    libxml2 reads 256 levels, and each entry may have all of them around it.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        # Of the elements around the last entry, from the outermost, with how many xml:base it took.
        self._known: dict[Element, tuple[str, int]] = {}

    def of(self, field: Element) -> str:
        """Return the base of a *field* of an entry: xml:base of it and around it."""
        entry = field.getparent()
        around = entry.getparent() if entry is not None else None
        found = (self.url, 0) if around is None else self._around(around)
        for element in (entry, field):
            found = found if element is None else _resolved(element, *found)
        return found[0]

    def _around(self, element: Element) -> tuple[str, int]:
        path: list[Element] = []
        at: Element | None = element
        while at is not None and at not in self._known:
            path.append(at)
            at = at.getparent()
        while self._known and next(reversed(self._known)) is not at:
            self._known.popitem()  # no longer around anything; it would keep alive what is in it
        found = (self.url, 0) if at is None else self._known[at]
        for at in reversed(path):
            found = self._known[at] = _resolved(at, *found)
        return found


_MOST_BASES = 16  # one in the other; those further in say nothing


def _resolved(element: Element, base: str, depth: int) -> tuple[str, int]:
    """Return the base inside *element*; what no location could start from changes nothing."""
    own = element.get(_XML_BASE)
    if not own or len(own) >= MAX_LOCATION or depth >= _MOST_BASES:
        return base, depth
    found = absolute(own, base)
    return base if found is None or len(found) >= MAX_LOCATION else found, depth + 1


# The first that is there tells most.
_FEED_DATES = ("updated", "modified", "pubDate", "date", "published", "issued")


def location_of(text: str, base: str = "") -> str:
    """Return the http(s) URL in *text*, as a browser would request it from *base*; empty for what is none, or
    has `MAX_LOCATION` characters or more."""
    if not text or len(text) >= MAX_LOCATION:
        return ""
    return absolute(text, base) or ""


def _priority(text: str) -> float | None:
    return float(text) if re.fullmatch(r"0?\.\d{1,9}|[01](?:\.0{0,9})?", text, re.ASCII) else None
