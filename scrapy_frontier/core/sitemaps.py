"""Sitemaps and feeds: the entries in them, read as the bytes arrive.

`read` turns a body into slices of entries: XML ``urlset`` and ``sitemapindex``, RSS, Atom, RDF and plain
text, gzipped or not, told apart by their content alone. It is a generator that works on `CHUNK` bytes
between two slices, a few milliseconds, so that whoever iterates it can let an event loop breathe. Memory
stays at a few chunks, whatever the file inflates to. Nothing is fetched, no DTD is loaded and no entity
expanded.
"""

from __future__ import annotations

import re
from contextlib import suppress
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types

from .dates import timestamp
from .sitemap_bytes import CHUNK, PIECE_LIMIT, Inflated, Sniffed, sniffed, with_numbered_ampersands
from .urls import absolute

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_BYTES = 52_428_800  # of one file, uncompressed (sitemaps.org)
MAX_ENTRIES = 50_000  # of one file (sitemaps.org)
MAX_LOCATION = 2_048  # characters; a location must be shorter (sitemaps.org)
CHANGE_FREQUENCIES = frozenset(("always", "hourly", "daily", "weekly", "monthly", "yearly", "never"))


class Kind(str, Enum):
    """What a file turned out to be. An ``INDEX`` names sitemaps, every other kind names pages."""

    PAGES = "urlset"
    INDEX = "sitemapindex"
    RSS = "rss"
    ATOM = "atom"
    TEXT = "text"
    UNKNOWN = "unknown"


class Entry(NamedTuple):
    """One URL of a sitemap, absolute and as a browser would request it."""

    url: str  # never empty in what `read` yields
    lastmod: float | None = None  # POSIX seconds
    priority: float | None = None  # 0 to 1, relative to the site; unstated means 0.5
    changefreq: str | None = None


class Slice(NamedTuple):
    """What one step of `read` found, maybe nothing; a *problem*, on the last one, says why it ends early."""

    kind: Kind
    entries: tuple[Entry, ...]
    problem: str = ""


def read(
    body: bytes | Iterable[bytes], url: str, *, max_bytes: int = MAX_BYTES, max_entries: int = MAX_ENTRIES
) -> Iterator[Slice]:
    """Yield the entries of the sitemap *body*, fetched from *url*, in slices; never raises for its content.

    A file that breaks off, is no XML in the middle, or goes over a limit gives what stood before, and a
    *problem* on the last slice. Entries without a usable http(s) URL are left out, duplicates are not.
    """
    left = max_entries
    inflated = Inflated(body, max_bytes)
    reader = _reader(inflated, url)
    for entries in reader.slices():
        yield Slice(reader.kind, tuple(entries[:left]))
        left -= len(entries)
        if left < 0:
            yield Slice(reader.kind, (), f"more than {max_entries} entries")
            return
    yield Slice(reader.kind, (), inflated.problem or reader.problem)


def _reader(inflated: Iterable[bytes], url: str) -> _XmlReader | _TextReader:
    file = sniffed(inflated)
    return _XmlReader(file, url) if file.is_xml else _TextReader(chain((file.head,), file.rest), url)


# --- text -------------------------------------------------------------------------------------------------


class _TextReader:
    """One URL a line, what follows a tab is none of it; what is no http(s) URL is no entry."""

    def __init__(self, source: Iterable[bytes], url: str) -> None:
        self._source = source
        self._url = url
        self.kind = Kind.UNKNOWN
        self.problem = ""

    def slices(self) -> Iterator[list[Entry]]:
        rest = b""
        for chunk in self._source:
            lines = (rest + chunk).splitlines(keepends=True)
            rest = b"" if not lines or lines[-1].endswith((b"\n", b"\r")) else lines.pop()
            if len(rest) > CHUNK:
                rest = rest[:MAX_LOCATION]  # too long to be a URL, whatever follows
            yield self._entries(lines)
        yield self._entries([rest])
        if self.kind is Kind.UNKNOWN:
            self.problem = "no sitemap"

    def _entries(self, lines: Iterable[bytes]) -> list[Entry]:
        texts = (line.decode("utf-8", "replace").strip("\ufeff").strip().split("\t")[0] for line in lines)
        entries = [Entry(url) for text in texts if (url := _location(text, None))]
        if entries:
            self.kind = Kind.TEXT
        return entries


# --- XML --------------------------------------------------------------------------------------------------


class _Element(Protocol):
    """What we use of lxml's elements."""

    tag: object  # a string, unless it is an entity
    text: str | None
    tail: str | None

    def __iter__(self) -> Iterator[_Element]: ...
    def __delitem__(self, index: int) -> None: ...
    def get(self, name: str) -> str | None: ...
    def clear(self) -> None: ...
    def getparent(self) -> _Element | None: ...
    def getprevious(self) -> _Element | None: ...
    def itersiblings(self, *, preceding: bool) -> Iterator[_Element]: ...


_KINDS = {
    "urlset": Kind.PAGES,
    "sitemapindex": Kind.INDEX,
    "rss": Kind.RSS,
    "RDF": Kind.RSS,
    "feed": Kind.ATOM,
}
_RECORDS = {Kind.PAGES: "url", Kind.INDEX: "sitemap", Kind.RSS: "item", Kind.ATOM: "entry"}
_NAMES = (*_KINDS, *_RECORDS.values())
_PREFIX = re.compile(rb"<([A-Za-z_][\w.-]*):(?:urlset|sitemapindex|rss|feed)\b")
_IDLE_LIMIT = 1_048_576  # bytes without an entry; elements cost memory, 50 MB of "<a/>" more than a gigabyte


class _XmlReader:
    """The records of an XML file, whatever namespace they say they are in, as far as the parser gets.

    libxml2 in recovery mode: it goes on after an error. Entities stay references and take no part in a
    text, no DTD and no network is used, elements are thrown away once they are read.
    """

    def __init__(self, file: Sniffed, url: str) -> None:
        self._source = chain((file.head,), file.rest)
        self._url = url
        prefix = _PREFIX.search(file.head)  # a prefix nobody declared becomes part of the name
        spaces = ["{*}", f"{prefix[1].decode()}:"] if prefix else ["{*}"]
        tags = [space + name for space in spaces for name in _NAMES]
        self._parser = etree.XMLPullParser(
            events=("start", "end"), tag=tags, recover=True, resolve_entities=False, load_dtd=False,
            no_network=True, remove_comments=True, remove_pis=True, encoding=file.encoding,
        )  # fmt: skip
        self.kind = Kind.UNKNOWN
        self.problem = ""

    def slices(self) -> Iterator[list[Entry]]:
        idle = 0
        for piece in with_numbered_ampersands(self._source):
            if len(piece) > PIECE_LIMIT or idle > _IDLE_LIMIT:
                self.problem = "no entry in too many bytes"
                return
            self._parser.feed(piece)
            entries = self._entries()
            idle = 0 if entries else idle + len(piece)
            yield entries
        # What is whole comes out now; what the recovery closes at the end may be half a URL, and is left.
        self._parser.feed(b"<!-- -->")
        yield self._entries()
        self._close()

    def _close(self) -> None:
        with suppress(etree.XMLSyntaxError):  # the log tells
            self._parser.close()
        errors = self._parser.feed_error_log
        if self.kind is Kind.UNKNOWN:
            self.problem = "no sitemap"
        elif len(errors):
            self.problem = f"broken XML: {errors[0].message}"

    def _entries(self) -> list[Entry]:
        entries: list[Entry] = []
        for event, element in self._parser.read_events():
            name = _local_name(element)
            if self.kind is Kind.UNKNOWN:
                self.kind = _KINDS.get(name, Kind.UNKNOWN)
            elif name != _RECORDS[self.kind]:
                continue
            elif event == "end":
                entries += self._read(list(element))
                element.clear()
                _forget_elders(element)
            elif (parent := element.getparent()) is not None and _local_name(parent) == name:
                # The record around this one was not closed before: what it holds up to here is all it says.
                entries += self._read(list(element.itersiblings(preceding=True))[::-1])
                _forget_elders(element)
        return entries

    def _read(self, fields: list[_Element]) -> list[Entry]:
        if self.kind in (Kind.PAGES, Kind.INDEX):
            return [entry for entry in _sitemap_entries(fields, self._url) if entry.url]
        entry = _feed_entry(fields, self._url)
        return [entry] if entry.url else []


def _local_name(element: _Element) -> str:
    """Return the name without namespace, and without the prefix of an undeclared one."""
    tag = element.tag
    return tag.rpartition("}")[2].rpartition(":")[2] if isinstance(tag, str) else ""


def _forget_elders(element: _Element) -> None:
    """Free what stands before *element*; the parser still needs it and the chain of its parents."""
    parent = element.getparent()
    while parent is not None and element.getprevious() is not None:
        del parent[0]


def _text(element: _Element) -> str:
    """Return the text directly inside *element*: not that of children, and nothing for an entity."""
    return "".join([element.text or "", *(child.tail or "" for child in element)]).strip()


def _sitemap_entries(record: Iterable[_Element], url: str) -> Iterator[Entry]:
    """Yield an entry per ``loc``: some generators forget to close one record before they begin the next."""
    fields: dict[str, str] = {}
    for child in record:
        name = _local_name(child)
        if name == "loc" and _OF_AN_EXTENSION(str(child.tag)):
            continue
        if name == "loc" and name in fields:
            yield _sitemap_entry(fields, url)
            fields = {}
        fields.setdefault(name, _text(child))
    yield _sitemap_entry(fields, url)


# Google's; an image has a loc too, and may stand beside that of the page instead of inside image:image.
_OF_AN_EXTENSION = re.compile(r"\{[^}]*/sitemap-[a-z]+/|(?:image|video|news):").match


def _sitemap_entry(fields: dict[str, str], url: str) -> Entry:
    frequency = fields.get("changefreq", "").lower()
    return Entry(
        _location(fields.get("loc", ""), url),
        timestamp(fields.get("lastmod", "")),
        _priority(fields.get("priority", "")),
        frequency if frequency in CHANGE_FREQUENCIES else None,
    )


def _feed_entry(record: Iterable[_Element], url: str) -> Entry:
    """Read an RSS item (link, else guid; pubDate or dc:date) or an Atom entry (alternate link; updated,
    published).

    A guid that looks like a URL is taken for one even where it says that it is no permalink: the blogs that
    write such answer at it. The id of an Atom entry is a name (RFC 4287 4.2.6).
    """
    links: list[str] = []
    dates: dict[str, float] = {}
    guid = ""
    for child in record:
        name = _local_name(child)
        if name == "link" and child.get("rel") in (None, "", "alternate"):
            link = _text(child) or (child.get("href") or "").strip()
            links.append(link if not link or _ABSOLUTE(link) else absolute(link, _base(child, url)) or "")
        elif name == "guid":
            guid = _text(child)
        elif name in _FEED_DATES and (date := timestamp(_text(child))) is not None:
            dates.setdefault(name, date)
    location = next(filter(None, links), guid if guid.startswith(("http://", "https://")) else "")
    return Entry(_location(location, url), next((dates[name] for name in _FEED_DATES if name in dates), None))


_ABSOLUTE = re.compile(r"(?i)https?:").match
_XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"


def _base(element: _Element, url: str) -> str:
    """Return what a relative reference in *element* starts from: xml:base of it and around it (XML Base)."""
    bases = []
    at: _Element | None = element
    while at is not None:
        bases.append(at.get(_XML_BASE))
        at = at.getparent()
    for base in filter(None, reversed(bases)):
        url = absolute(base, url or None) or url
    return url


_FEED_DATES = (
    "updated",
    "modified",
    "pubDate",
    "date",
    "published",
    "issued",
)  # the first that is there tells most


def _location(text: str, base: str | None) -> str:
    if not text or len(text) >= MAX_LOCATION:
        return ""
    return absolute(text, base or None) or ""


def _priority(text: str) -> float | None:
    return float(text) if re.fullmatch(r"0?\.\d{1,9}|[01](?:\.0{0,9})?|0\.\d{1,9}", text, re.ASCII) else None
