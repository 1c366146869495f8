"""Sitemaps and feeds: the entries in them, read as the bytes arrive.

`read` turns a body into slices of entries: XML ``urlset`` and ``sitemapindex``, RSS, Atom, RDF and plain
text, gzipped or not, told apart by their content alone. It is a generator that works on at most `CHUNK` bytes
and `ELEMENTS_AT_ONCE` elements between two slices, a few milliseconds whatever the file holds: whoever
iterates it can let an event loop breathe. Memory stays at a few chunks, whatever the file inflates to.
Nothing is fetched, no DTD is loaded and no entity expanded.
"""

from __future__ import annotations

import re
from contextlib import suppress
from enum import Enum
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types

from .sitemap_entries import MAX_LOCATION, Bases, Entry, feed_entry, local_name, location_of, sitemap_entries
from .sitemap_stream import CHUNK, Inflated, sniffed, with_numbered_ampersands

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .sitemap_entries import Element
    from .sitemap_stream import Sniffed

MAX_BYTES = 52_428_800  # of one file, uncompressed (sitemaps.org)
MAX_ENTRIES = 50_000  # of one file (sitemaps.org)
ELEMENTS_AT_ONCE = 300  # elements or lines; an entry has two to six


class Kind(str, Enum):
    """What a file turned out to be. An ``INDEX`` names sitemaps, every other kind names pages."""

    PAGES = "urlset"
    INDEX = "sitemapindex"
    RSS = "rss"
    ATOM = "atom"
    TEXT = "text"
    UNKNOWN = "unknown"


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
    ``problem`` on the last slice. Entries without a usable http(s) URL are left out, duplicates are not.
    """
    left = max_entries
    inflated = Inflated(body, max_bytes)
    file = sniffed(inflated)
    reader = _XmlReader(file, url) if file.is_xml else _TextReader(chain((file.head,), file.rest))
    for entries in reader.slices():
        yield Slice(reader.kind, tuple(entries[:left]))
        left -= len(entries)
        if left < 0:
            yield Slice(reader.kind, (), f"more than {max_entries} entries")
            return
    nothing = "no sitemap" if reader.kind is Kind.UNKNOWN else ""
    yield Slice(reader.kind, (), inflated.problem or reader.problem or nothing)


_IDLE_LIMIT = 1_048_576  # bytes without an entry; elements cost memory, 50 MB of "<a/>" more than a gigabyte
_PROLOGUE_LIMIT = 131_072  # bytes before the first element of a sitemap; a document type is read in one go


def _handfuls(steps: Iterator[Entry | None]) -> Iterator[list[Entry]]:
    """Yield the entries among every `ELEMENTS_AT_ONCE` steps; None stands for a step that leads to none."""
    while handful := list(islice(steps, ELEMENTS_AT_ONCE)):
        yield [entry for entry in handful if entry is not None]


class _TextReader:
    """One URL a line, what follows a tab is none of it; what is no http(s) URL is no entry."""

    def __init__(self, source: Iterable[bytes]) -> None:
        self._source = source
        self.kind = Kind.UNKNOWN
        self.problem = ""

    def slices(self) -> Iterator[list[Entry]]:
        """Yields the entries a handful at a time, an empty one where bytes brought none; ``kind`` and
        ``problem`` are final at the end."""
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

    def _entry(self, line: bytes) -> Entry | None:
        text = line.decode("utf-8", "replace").strip("\ufeff").strip().split("\t")[0]
        url = location_of(text)
        if not url:
            return None
        self.kind = Kind.TEXT
        return Entry(url)


def _taken_from(entry: Element, until: Element | None) -> Iterator[Element]:
    """Yield what *entry* holds before *until*, and free each element when the next is asked for."""
    for element in entry:
        if element is until:
            return
        yield element
        entry.remove(element)


_KINDS = {
    "urlset": Kind.PAGES,
    "sitemapindex": Kind.INDEX,
    "rss": Kind.RSS,
    "RDF": Kind.RSS,
    "feed": Kind.ATOM,
}
_ENTRIES = {Kind.PAGES: "url", Kind.INDEX: "sitemap", Kind.RSS: "item", Kind.ATOM: "entry"}
_NAMES = (*_KINDS, *_ENTRIES.values())
_PREFIX = re.compile(rb"<([A-Za-z_][\w.-]*):(?:urlset|sitemapindex|rss|feed)\b")


class _XmlReader:
    """The entries of an XML file, whatever namespace they say they are in, as far as the parser gets.

    libxml2 in recovery mode: it goes on after an error. Entities stay references and take no part in a
    text, no DTD and no network is used, elements are thrown away once they are read.
    """

    def __init__(self, file: Sniffed, url: str) -> None:
        self._source = chain((file.head,), file.rest)
        self._bases = Bases(url)
        self._cleared: Element | None = None  # around the last entry; nothing stands before it
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
        """Yields the entries a handful at a time, an empty one where bytes brought none; ``kind`` and
        ``problem`` are final at the end."""
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
        if self.kind is not Kind.UNKNOWN and len(errors):
            self.problem = f"broken XML: {errors[0].message}"

    def _entries(self) -> Iterator[Entry | None]:
        """Yield what is found, None for each element that was none."""
        for event, element in self._parser.read_events():
            name = local_name(element)
            if self.kind is Kind.UNKNOWN:
                self.kind = _KINDS.get(name, Kind.UNKNOWN)
            elif name != _ENTRIES[self.kind]:
                pass
            elif event == "end":
                yield from self._read(element)
                element.clear()
                yield from self._forget_elders(element)
            elif (parent := element.getparent()) is not None and local_name(parent) == name:
                # The entry around this one was not closed before: what it holds up to here is all it says.
                yield from self._read(parent, until=element)
            yield None

    def _read(self, entry: Element, until: Element | None = None) -> Iterator[Entry | None]:
        fields = _taken_from(entry, until)
        try:
            if self.kind in (Kind.PAGES, Kind.INDEX):
                yield from sitemap_entries(fields, self._bases.url)
            else:
                yield from feed_entry(fields, self._bases)
        except UnicodeDecodeError:  # half a character that an entity hid from `with_numbered_ampersands`
            yield from (None for _ in fields)

    def _forget_elders(self, element: Element) -> Iterator[None]:
        """Free what stands before *element*, and before what is around it, an element a step.

        The parser still needs *element* and its parents, and an entry around it is read later.
        """
        parent = around = element.getparent()
        while parent is not None:
            while element.getprevious() is not None:
                del parent[0]
                yield None
            if parent is self._cleared or local_name(parent) == _ENTRIES[self.kind]:
                break
            element, parent = parent, parent.getparent()
            yield None
        self._cleared = around
