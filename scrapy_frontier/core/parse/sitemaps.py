"""Reads sitemaps and feeds: XML ``urlset`` and ``sitemapindex``, RSS, Atom, RDF and plain text, gzipped or
not.

The content alone decides the kind of a file. `read` is a generator that parses at most `CHUNK` bytes between
two slices (a few milliseconds), so that its caller can let an event loop run. lxml's incremental parser feeds
a parser target: no tree is built, and memory stays at a few chunks, however large a file inflates. Nothing is
fetched, no DTD is loaded, no entity is expanded, and no input from a site raises.
"""

from __future__ import annotations

import re
import zlib
from contextlib import suppress
from enum import Enum
from html import unescape
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types

from .headers import timestamp
from .urls import absolute

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_BYTES = 52_428_800  # of one file, uncompressed (sitemaps.org)
MAX_ENTRIES = 50_000  # of one file (sitemaps.org)
MAX_LOCATION = 2_048  # characters; a location must be shorter (sitemaps.org)
CHUNK = 16_384  # bytes parsed at a time: about 120 entries, 1 ms
_IDLE_LIMIT = 1_048_576  # bytes without an entry after which reading stops
_PROLOGUE_LIMIT = 131_072  # bytes before the first element of an XML file


class Kind(str, Enum):
    """The kind of a file. An ``INDEX`` lists sitemaps, every other kind lists pages."""

    PAGES = "urlset"
    INDEX = "sitemapindex"
    RSS = "rss"
    ATOM = "atom"
    TEXT = "text"
    UNKNOWN = "unknown"


class Entry(NamedTuple):
    """One URL of a sitemap or feed, absolute, as a browser would request it."""

    url: str
    lastmod: float | None = None  # POSIX seconds


class Slice(NamedTuple):
    """The entries of one chunk, which may be none. On the last slice, ``problem`` tells why the file ends
    early."""

    kind: Kind
    entries: tuple[Entry, ...]
    problem: str = ""


def read(
    body: bytes, url: str, *, max_bytes: int = MAX_BYTES, max_entries: int = MAX_ENTRIES
) -> Iterator[Slice]:
    """Yield the entries of the sitemap *body*, fetched from *url*, in slices.

    A file that breaks off, is not well-formed or exceeds a limit gives the entries before that place, and a
    ``problem`` on the last slice. Entries without a usable http(s) URL are left out, duplicates are kept.
    """
    inflated = _Inflated(body, max_bytes)
    rest = iter(inflated)
    head, encoding = _sniffed(rest)
    reader = _TextReader() if encoding is None else _XmlReader(url, encoding)
    left, idle, problem = max_entries, 0, ""
    for piece in chain((head,), rest, (b"\n",)):  # the last line may have no line end
        entries = reader.feed(piece)
        yield Slice(reader.kind, tuple(entries[:left]))
        left -= len(entries)
        idle = 0 if entries else idle + len(piece)
        limit = _PROLOGUE_LIMIT if encoding is not None and reader.kind is Kind.UNKNOWN else _IDLE_LIMIT
        if left < 0:
            problem = f"more than {max_entries} entries"
        elif idle > limit:
            problem = "no entry in too many bytes"
        if problem or reader.is_over:
            break
    if reader.kind is Kind.UNKNOWN:
        problem = "no sitemap"
    yield Slice(reader.kind, (), problem or inflated.problem or reader.problem())


# --- bytes ------------------------------------------------------------------------------------------------

_GZIP = b"\x1f\x8b"


class _Inflated:
    """Iterates over the chunks of a body, inflated if it is gzip, up to *max_bytes*; after that ``problem``
    tells why they end early."""

    def __init__(self, body: bytes, max_bytes: int) -> None:
        self._body = body
        self._left = max_bytes
        self.problem = ""

    def __iter__(self) -> Iterator[bytes]:
        source = (self._body[start : start + CHUNK] for start in range(0, len(self._body), CHUNK))
        for chunk in self._gunzip(source) if self._body.startswith(_GZIP) else source:
            yield chunk[: self._left]
            self._left -= len(chunk)
            if self._left < 0:
                self.problem = "too many bytes"
                return

    def _gunzip(self, source: Iterator[bytes]) -> Iterator[bytes]:
        inflater = zlib.decompressobj(wbits=31)
        for pending in source:
            while pending:
                try:
                    plain = inflater.decompress(pending, CHUNK)
                except zlib.error as error:
                    self.problem = f"broken gzip: {error}"
                    return
                yield plain
                pending = inflater.unconsumed_tail
                if inflater.eof:
                    if inflater.unused_data.startswith(_GZIP):  # other data are padding
                        self.problem = "more than one gzip file"
                    return
        self.problem = "gzip data break off"


_XML_START = re.compile(rb"(?i)<(?:\?xml|!--|!doctype|[a-z0-9]*:?(?:urlset|sitemapindex|rss|feed|rdf)\b)")
# Some programs declare the UTF-16 of their strings, and send UTF-8.
_DECLARED_WIDE = re.compile(rb"""(?i)<\?xml[^>]{1,64}encoding\s*=\s*["'](?:utf-?16|utf-?32|ucs-?2|ucs-?4)""")
_SNIFFED = 1_024  # bytes in which XML has to begin; some servers print warnings before it
_BLANK_LIMIT = 65_536  # bytes of blanks before these; some templates print empty lines


def _sniffed(chunks: Iterator[bytes]) -> tuple[bytes, str | None]:
    """Return the first bytes of a file from where XML begins, and its encoding (empty: as declared); None for
    plain text."""
    head = _first_bytes(chunks)
    start = _XML_START.search(head, 0, _SNIFFED)
    if start is None:
        return head, None
    head = head[start.start() :]
    return head, "utf-8" if _DECLARED_WIDE.match(head) else ""


def _first_bytes(chunks: Iterator[bytes]) -> bytes:
    """Return some bytes from *chunks*, without leading blanks."""
    head, blank = b"", 0
    while len(head) < _SNIFFED and (chunk := next(chunks, b"")):
        head += chunk
        if head.isspace() and blank < _BLANK_LIMIT:
            blank += len(head)
            head = b""
    return head.lstrip()


# --- plain text -------------------------------------------------------------------------------------------


class _TextReader:
    """Reads one URL a line, up to a tab; a line that is no http(s) URL is no entry."""

    is_over = False

    def __init__(self) -> None:
        self.kind = Kind.UNKNOWN
        self._rest = b""

    def feed(self, piece: bytes) -> list[Entry]:
        """Return the entries of the lines that end in *piece*."""
        lines = (self._rest + piece).splitlines(keepends=True)
        is_whole = not lines or lines[-1].endswith((b"\n", b"\r"))
        self._rest = b"" if is_whole else lines.pop()[:CHUNK]  # a longer line is no URL
        urls = (
            _location(line.decode("utf-8", "replace").strip("\ufeff\t\r\n ").split("\t")[0]) for line in lines
        )
        entries = [Entry(url) for url in urls if url]
        if entries:
            self.kind = Kind.TEXT
        return entries

    def problem(self) -> str:
        """Return an empty text: lines without a URL are left out."""
        return ""


def _location(text: str, base: str = "") -> str:
    """Return the http(s) URL of *text*, relative to *base*; empty if it is not valid, or too long."""
    if not text or len(text) >= MAX_LOCATION:
        return ""
    return absolute(text, base) or ""


# --- XML --------------------------------------------------------------------------------------------------

_KINDS = {
    "urlset": Kind.PAGES,
    "sitemapindex": Kind.INDEX,
    "rss": Kind.RSS,
    "RDF": Kind.RSS,
    "feed": Kind.ATOM,
}
_ENTRIES = {Kind.PAGES: "url", Kind.INDEX: "sitemap", Kind.RSS: "item", Kind.ATOM: "entry"}
_FEED_DATES = ("updated", "modified", "pubDate", "date", "published", "issued")  # the first one there counts
_MOST_PARTS = 1_000  # pieces of a text, which tags and references divide
_BEGUN_REFERENCE = re.compile(rb"&[\w.#-]{0,32}\Z")
_REFERENCE = re.compile(rb"&(?:(#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z_][\w.-]{0,31});)?")


class _XmlReader:
    """Reads the entries of an XML file, in any namespace; the target of an lxml parser.

    libxml2 in recovery mode goes on after an error. The fields of an entry are the elements directly in it. A
    second ``loc`` begins another entry, since some generators forget to close one.
    """

    def __init__(self, url: str, encoding: str) -> None:
        self.kind = Kind.UNKNOWN
        self.is_over = False
        self._rest = b""  # a reference that the end of a chunk divides
        self._found: list[Entry] = []
        self._url = url  # the base of relative locations
        self._depth = 0
        self._entry_depth = 0  # of the element that is the entry; 0 outside of one
        self._fields: dict[str, str] = {}
        self._attributes: Mapping[str, str] = {}  # of the field that is being read
        self._text: list[str] = []  # of that field
        self._parser = etree.XMLParser(
            target=self,
            recover=True,
            resolve_entities=False,
            load_dtd=False,
            no_network=True,
            huge_tree=False,
            encoding=encoding or None,
        )

    def feed(self, piece: bytes) -> list[Entry]:
        """Return the entries that end in *piece*."""
        piece = self._rest + piece
        begun = _BEGUN_REFERENCE.search(piece, max(len(piece) - 33, 0))
        end = len(piece) if begun is None else begun.start()
        self._rest = piece[end:]
        try:
            self._parser.feed(_REFERENCE.sub(_numbered, piece[:end]))
        except (etree.XMLSyntaxError, UnicodeDecodeError):
            self.is_over = True
        found, self._found = self._found, []
        return found

    def problem(self) -> str:
        """Return why the file was not read to its end, empty if it was. Call it once, at the end."""
        with suppress(etree.XMLSyntaxError, UnicodeDecodeError):  # it is in the error log
            self._parser.close()
        errors = self._parser.feed_error_log
        return f"broken XML: {errors[0].message}" if len(errors) else ""

    # -- called by the parser --------------------------------------------------------------------------

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of an element."""
        self._depth += 1
        name = tag.rpartition("}")[2]
        if self.kind is Kind.UNKNOWN:
            self.kind = _KINDS.get(name, Kind.UNKNOWN)
        elif name == _ENTRIES[self.kind]:
            self._end_entry()
            self._entry_depth = self._depth
        elif self._depth == self._entry_depth + 1:
            self._attributes, self._text = attributes, []

    def data(self, text: str) -> None:
        """Add a piece of text to the present field."""
        if self._depth == self._entry_depth + 1 and len(self._text) < _MOST_PARTS:
            self._text.append(text)

    def end(self, tag: str) -> None:
        """Handle the end of an element."""
        if self._depth == self._entry_depth:
            self._end_entry()
            self._entry_depth = 0
        elif self._depth == self._entry_depth + 1:
            self._end_field(tag)
        self._depth -= 1

    def close(self) -> None:
        """Do nothing; lxml requires the method."""

    def _end_field(self, tag: str) -> None:
        name = tag.rpartition("}")[2]
        text = "".join(self._text).strip().replace("&#38;", "&")  # CDATA has no references
        if name == "loc":
            if "/sitemap-" in tag:  # Google's namespaces: the location of an image, a video, news
                return
            if "loc" in self._fields:
                self._end_entry()
        elif name == "link":
            if self._attributes.get("rel", "alternate") not in ("", "alternate"):
                return
            text = _location(text or self._attributes.get("href", "").strip(), self._url)
        if text:
            self._fields.setdefault(name, text)

    def _end_entry(self) -> None:
        """Add the entry of the fields, if they have a location."""
        fields, self._fields = self._fields, {}
        if self.kind in (Kind.PAGES, Kind.INDEX):
            url = _location(fields.get("loc", ""), self._url)
            if url:
                self._found.append(Entry(url, timestamp(fields.get("lastmod", ""))))
            return
        # A guid that looks like a URL is used even with isPermaLink="false"; the id of an Atom entry is a
        # name (RFC 4287 4.2.6).
        guid = fields.get("guid", "")
        url = fields.get("link") or (_location(guid) if guid.startswith(("http://", "https://")) else "")
        if url:
            dates = (timestamp(fields[name]) for name in _FEED_DATES if name in fields)
            self._found.append(Entry(url, next((date for date in dates if date is not None), None)))


def _numbered(match: re.Match[bytes]) -> bytes:
    """Return a reference, or a bare ampersand, as numbers of characters, which a parser in recovery always
    keeps.

    Without that ``?a=1&b=2``, which generators forget to escape, becomes ``?a=1=2``, and after the first
    error in a file libxml2 drops ``&amp;``, too. A reference to no character, an entity say, is removed.
    """
    if match[1] is None:
        return b"&#38;"
    text = unescape(match[0].decode())  # U+FFFD for half a character
    return b"" if text.startswith("&") and len(text) > 1 else b"".join(b"&#%d;" % ord(each) for each in text)
