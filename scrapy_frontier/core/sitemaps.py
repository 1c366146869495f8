"""Sitemaps and feeds: the entries in them, read as the bytes arrive.

`read` turns a body into slices of entries: XML ``urlset`` and ``sitemapindex``, RSS, Atom, RDF and plain
text, gzipped or not, told apart by their content alone. It is a generator that works on at most `CHUNK` bytes
and `AT_ONCE` elements between two slices, a few milliseconds whatever the file holds, so that whoever
iterates it can let an event loop breathe. Memory stays at a few chunks, whatever the file inflates to.
Nothing is fetched, no DTD is loaded and no entity expanded.
"""

from __future__ import annotations

import re
from contextlib import suppress
from enum import Enum
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types

from .dates import timestamp
from .sitemap_bytes import CHUNK, Inflated, Sniffed, sniffed, with_numbered_ampersands
from .urls import absolute

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_BYTES = 52_428_800  # of one file, uncompressed (sitemaps.org)
MAX_ENTRIES = 50_000  # of one file (sitemaps.org)
MAX_LOCATION = 2_048  # characters; a location must be shorter (sitemaps.org)
AT_ONCE = 300  # elements or lines; an entry has two to six
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


_IDLE_LIMIT = 1_048_576  # bytes without an entry; elements cost memory, 50 MB of "<a/>" more than a gigabyte
_PROLOGUE_LIMIT = 131_072  # bytes before the first element of a sitemap; a document type is read in one go


def _handfuls(steps: Iterator[Entry | None]) -> Iterator[list[Entry]]:
    """Yield the entries among every `AT_ONCE` steps; None stands for a step that leads to none."""
    while handful := list(islice(steps, AT_ONCE)):
        yield [entry for entry in handful if entry is not None]


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
        idle = 0
        for chunk in self._source:
            lines = (rest + chunk).splitlines(keepends=True)
            rest = b"" if not lines or lines[-1].endswith((b"\n", b"\r")) else lines.pop()
            if len(rest) > CHUNK:
                rest = rest[:MAX_LOCATION]  # too long to be a URL, whatever follows
            idle += len(chunk)
            for entries in _handfuls(map(self._entry, lines)):
                idle = 0 if entries else idle
                yield entries
            if idle > _IDLE_LIMIT:
                self.problem = "no entry in too many bytes"
                return
        yield from _handfuls(map(self._entry, [rest]))
        if self.kind is Kind.UNKNOWN:
            self.problem = "no sitemap"

    def _entry(self, line: bytes) -> Entry | None:
        text = line.decode("utf-8", "replace").strip("\ufeff").strip().split("\t")[0]
        url = _location(text, None)
        if not url:
            return None
        self.kind = Kind.TEXT
        return Entry(url)


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
    def remove(self, element: _Element) -> None: ...
    def getparent(self) -> _Element | None: ...
    def getprevious(self) -> _Element | None: ...


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


class _XmlReader:
    """The records of an XML file, whatever namespace they say they are in, as far as the parser gets.

    libxml2 in recovery mode: it goes on after an error. Entities stay references and take no part in a
    text, no DTD and no network is used, elements are thrown away once they are read.
    """

    def __init__(self, file: Sniffed, url: str) -> None:
        self._source = chain((file.head,), file.rest)
        self._bases = _Bases(url)
        self._cleared: _Element | None = None  # around the last record; nothing stands before it
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
            if idle > (_PROLOGUE_LIMIT if self.kind is Kind.UNKNOWN else _IDLE_LIMIT):
                self.problem = "no sitemap" if self.kind is Kind.UNKNOWN else "no entry in too many bytes"
                return
            self._parser.feed(piece)
            idle += len(piece)
            yield []
            for entries in _handfuls(self._entries()):
                idle = 0 if entries else idle
                yield entries
        # What is whole comes out now; what the recovery closes at the end may be half a URL, and is left.
        self._parser.feed(b"<!-- -->")
        yield from _handfuls(self._entries())
        self._close()

    def _close(self) -> None:
        with suppress(etree.XMLSyntaxError):  # the log tells
            self._parser.close()
        errors = self._parser.feed_error_log
        if self.kind is Kind.UNKNOWN:
            self.problem = "no sitemap"
        elif len(errors):
            self.problem = f"broken XML: {errors[0].message}"

    def _entries(self) -> Iterator[Entry | None]:
        """Yield what is found, None for each element that was none."""
        for event, element in self._parser.read_events():
            name = _local_name(element)
            if self.kind is Kind.UNKNOWN:
                self.kind = _KINDS.get(name, Kind.UNKNOWN)
            elif name != _RECORDS[self.kind]:
                pass
            elif event == "end":
                yield from self._read(element)
                element.clear()
                yield from self._forget_elders(element)
            elif (parent := element.getparent()) is not None and _local_name(parent) == name:
                # The record around this one was not closed before: what it holds up to here is all it says.
                yield from self._read(parent, until=element)
            yield None

    def _read(self, record: _Element, until: _Element | None = None) -> Iterator[Entry | None]:
        fields = _taken_from(record, until)
        try:
            if self.kind in (Kind.PAGES, Kind.INDEX):
                yield from _sitemap_entries(fields, self._bases.url)
            else:
                yield from _feed_entry(fields, self._bases)
        except UnicodeDecodeError:  # half a character that an entity hid from `with_numbered_ampersands`
            yield from (None for _ in fields)

    def _forget_elders(self, element: _Element) -> Iterator[None]:
        """Free what stands before *element*, and before what is around it, an element a step.

        The parser still needs *element* and its parents, and a record around it is read later.
        """
        parent = around = element.getparent()
        while parent is not None:
            while element.getprevious() is not None:
                del parent[0]
                yield None
            if parent is self._cleared or _local_name(parent) == _RECORDS[self.kind]:
                break
            element, parent = parent, parent.getparent()
            yield None
        self._cleared = around


def _local_name(element: _Element) -> str:
    """Return the name without namespace, and without the prefix of an undeclared one."""
    try:
        tag = element.tag
    except UnicodeDecodeError:  # a namespace with half a character in it
        return ""
    return tag.rpartition("}")[2].rpartition(":")[2] if isinstance(tag, str) else ""


def _taken_from(record: _Element, until: _Element | None) -> Iterator[_Element]:
    """Yield what *record* holds before *until*, and free each element when the next is asked for."""
    for element in record:
        if element is until:
            return
        yield element
        record.remove(element)


_MOST_PARTS = 32  # children of a location or a date: entities that nobody expands, tags that mean nothing


def _text(element: _Element) -> str:
    """Return the text directly inside *element*: not that of children, and nothing for an entity; empty where
    these are very many."""
    parts = list(islice(element, _MOST_PARTS + 1))
    if len(parts) > _MOST_PARTS:
        return ""
    return "".join([element.text or "", *(child.tail or "" for child in parts)]).strip()


_FIELDS = frozenset(("loc", "lastmod", "priority", "changefreq"))


def _sitemap_entries(record: Iterable[_Element], url: str) -> Iterator[Entry | None]:
    """Yield an entry per ``loc``: some generators forget to close one record before they begin the next."""
    fields: dict[str, str] = {}
    for child in record:
        name = _local_name(child)
        if name not in _FIELDS or (name == "loc" and _OF_AN_EXTENSION(str(child.tag))):
            yield None
            continue
        yield _sitemap_entry(fields, url) if name == "loc" and name in fields else None
        if name == "loc" and name in fields:
            fields = {}
        fields.setdefault(name, _text(child))
    yield _sitemap_entry(fields, url)


# Google's; an image has a loc too, and may stand beside that of the page instead of inside image:image.
_OF_AN_EXTENSION = re.compile(r"\{[^}]*/sitemap-[a-z]+/|(?:image|video|news):").match


def _sitemap_entry(fields: dict[str, str], url: str) -> Entry | None:
    location = _location(fields.get("loc", ""), url)
    if not location:
        return None
    frequency = fields.get("changefreq", "").lower()
    return Entry(
        location,
        timestamp(fields.get("lastmod", "")),
        _priority(fields.get("priority", "")),
        frequency if frequency in CHANGE_FREQUENCIES else None,
    )


def _feed_entry(record: Iterable[_Element], bases: _Bases) -> Iterator[Entry | None]:
    """Read an RSS item (link, else guid; pubDate or dc:date) or an Atom entry (alternate link; updated,
    published).

    A guid that looks like a URL is taken for one even where it says that it is no permalink: the blogs that
    write such answer at it. The id of an Atom entry is a name (RFC 4287 4.2.6).
    """
    location = guid = ""
    dates: dict[str, float] = {}
    for child in record:
        yield None
        name = _local_name(child)
        if name == "link":
            location = location or _link(child, bases)
        elif name == "guid":
            guid = _text(child)
        elif name in _FEED_DATES and name not in dates and (date := timestamp(_text(child))) is not None:
            dates[name] = date
    location = _location(location or (guid if guid.startswith(("http://", "https://")) else ""), "")
    date = next((dates[name] for name in _FEED_DATES if name in dates), None)
    yield Entry(location, date) if location else None


def _link(element: _Element, bases: _Bases) -> str:
    """Return where a link to the page itself leads, empty where it leads nowhere."""
    if element.get("rel") not in (None, "", "alternate"):
        return ""
    link = _text(element) or (element.get("href") or "").strip()
    return link if not link or _ABSOLUTE(link) else _location(link, bases.of(element))


_ABSOLUTE = re.compile(r"(?i)https?:").match
_XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"


class _Bases:
    """What relative references start from (XML Base), worked out once for each element around the records.

    libxml2 reads 256 levels, and each record may have all of them around it.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        # Of the elements around the last record, from the outermost, with how many xml:base it took.
        self._known: dict[_Element, tuple[str, int]] = {}

    def of(self, field: _Element) -> str:
        """Return the base of a *field* of a record: xml:base of it and around it."""
        record = field.getparent()
        around = record.getparent() if record is not None else None
        found = (self.url, 0) if around is None else self._around(around)
        for element in (record, field):
            found = found if element is None else _resolved(element, *found)
        return found[0]

    def _around(self, element: _Element) -> tuple[str, int]:
        path: list[_Element] = []
        at: _Element | None = element
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


def _resolved(element: _Element, base: str, depth: int) -> tuple[str, int]:
    """Return the base inside *element*; what no location could start from changes nothing."""
    own = element.get(_XML_BASE)
    if not own or len(own) >= MAX_LOCATION or depth >= _MOST_BASES:
        return base, depth
    found = absolute(own, base or None)
    return base if found is None or len(found) >= MAX_LOCATION else found, depth + 1


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
