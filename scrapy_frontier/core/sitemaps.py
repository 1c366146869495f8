"""Sitemaps and feeds, read as they arrive.

`read` turns a body into slices of entries: XML ``urlset`` and ``sitemapindex``, RSS, Atom, RDF and plain
text, gzipped or not, told apart by their content alone. It is a generator that works on `CHUNK` bytes
between two slices, a few milliseconds, so that whoever iterates it can let an event loop breathe. Memory
stays at a few chunks, whatever the file inflates to. Nothing is fetched, no DTD is loaded and no entity
expanded.
"""

from __future__ import annotations

import codecs
import re
import zlib
from contextlib import suppress
from enum import Enum
from html.entities import html5
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import urlsplit

from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types

from .dates import timestamp
from .urls import absolute

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHUNK = 32_768  # bytes parsed between two slices: about 250 entries, 2 ms
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
    inflated = _Inflated(body, max_bytes)
    reader = _reader(inflated, url)
    for entries in reader.slices():
        yield Slice(reader.kind, tuple(entries[:left]))
        left -= len(entries)
        if left < 0:
            yield Slice(reader.kind, (), f"more than {max_entries} entries")
            return
    yield Slice(reader.kind, (), inflated.problem or reader.problem)


def is_under(url: str, sitemap: str) -> bool:
    """May the sitemap at *sitemap* list *url* on its own word: same origin, same directory or below?

    Both as `absolute` makes them. sitemaps.org, "Sitemap file location"; a robots.txt of the other host that
    names the sitemap lifts this.
    """
    page, file = urlsplit(url), urlsplit(sitemap)
    directory = file.path[: file.path.rfind("/") + 1] or "/"
    same_origin = (page.scheme, page.netloc) == (file.scheme, file.netloc)
    return same_origin and (page.path or "/").startswith(directory)


# --- bytes ------------------------------------------------------------------------------------------------

_GZIP = b"\x1f\x8b"


class _Inflated:
    """The chunks of a body, inflated if it is gzip, up to *max_bytes* or to where the gzip data break."""

    def __init__(self, body: bytes | Iterable[bytes], max_bytes: int) -> None:
        self._chunks = _chunks(body)
        self._left = max_bytes
        self.problem = ""

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._plain():
            yield chunk[: self._left]
            self._left -= len(chunk)
            if self._left < 0:
                self.problem = "too many bytes"
                return

    def _plain(self) -> Iterator[bytes]:
        first = next(self._chunks, b"")
        if len(first) < len(_GZIP):
            first += next(self._chunks, b"")
        source = chain((first,), self._chunks)
        return self._gunzip(source) if first.startswith(_GZIP) else source

    def _gunzip(self, source: Iterator[bytes]) -> Iterator[bytes]:
        inflater: zlib._Decompress | None = zlib.decompressobj(wbits=31)
        for pending in source:
            while pending:
                if inflater is None:  # behind a member: another one, or padding
                    if not pending.startswith(_GZIP[:1]):
                        return
                    inflater = zlib.decompressobj(wbits=31)
                try:
                    plain = inflater.decompress(pending, CHUNK)
                except zlib.error as error:
                    self.problem = f"broken gzip: {error}"
                    return
                if plain:
                    yield plain
                pending = inflater.unconsumed_tail
                if inflater.eof:
                    pending = inflater.unused_data
                    inflater = None
        if inflater is not None:
            self.problem = "gzip data break off"


def _chunks(body: bytes | Iterable[bytes]) -> Iterator[bytes]:
    """Cut *body* into non-empty pieces of at most `CHUNK` bytes."""
    for part in (body,) if isinstance(body, bytes) else body:
        for start in range(0, len(part), CHUNK):
            yield part[start : start + CHUNK]


# --- what kind of file ------------------------------------------------------------------------------------

# Written by programs that count their characters in UTF-16 and send UTF-8; the bytes know better.
_SAYS_WIDE = re.compile(rb"""(?i)<\?xml[^>]{1,64}encoding\s*=\s*["'](?:utf-?16|utf-?32|ucs-?2|ucs-?4)""")
_XML_START = re.compile(rb"(?i)<(?:\?xml|!--|!doctype|[a-z0-9]*:?(?:urlset|sitemapindex|rss|feed|rdf)\b)")
_SNIFFED = 1_024  # bytes in which XML must begin; servers print warnings before it
_BLANK_LIMIT = 65_536  # bytes of blanks before these; templates print empty lines
_WIDE = (
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)


def _reader(inflated: Iterable[bytes], url: str) -> _XmlReader | _TextReader:
    head, rest = _sniff(iter(inflated))
    encoding = next((encoding for mark, encoding in _WIDE if head.startswith(mark)), None)
    if encoding is not None:
        head, rest = _sniff(_recoded(chain((head,), rest), encoding))
    head = head.lstrip()
    start = _XML_START.search(head, 0, _SNIFFED)
    if start is None:
        return _TextReader(chain((head,), rest), url)
    head = head[start.start() :]
    return _XmlReader(head, rest, url, "utf-8" if encoding or _SAYS_WIDE.match(head) else None)


def _sniff(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    head = b""
    blank = 0
    while len(head) < _SNIFFED and (chunk := next(chunks, b"")):
        head += chunk
        if head.isspace() and blank < _BLANK_LIMIT:
            blank += len(head)
            head = b""
    return head, chunks


def _recoded(source: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    return (text.encode("utf-8", "replace") for chunk in source if (text := decoder.decode(chunk)))


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

    def __init__(self, head: bytes, rest: Iterable[bytes], url: str, encoding: str | None) -> None:
        self._source = chain((head,), rest)
        self._url = url
        prefix = _PREFIX.search(head)  # a prefix nobody declared becomes part of the name
        spaces = ["{*}", f"{prefix[1].decode()}:"] if prefix else ["{*}"]
        tags = [space + name for space in spaces for name in _NAMES]
        self._parser = etree.XMLPullParser(
            events=("start", "end"), tag=tags, recover=True, resolve_entities=False, load_dtd=False,
            no_network=True, remove_comments=True, remove_pis=True, encoding=encoding,
        )  # fmt: skip
        self.kind = Kind.UNKNOWN
        self.problem = ""

    def slices(self) -> Iterator[list[Entry]]:
        idle = 0
        for piece in _with_numbered_ampersands(self._source):
            if len(piece) > _PIECE_LIMIT or idle > _IDLE_LIMIT:
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


_PIECE_LIMIT = 262_144  # bytes without a ">": no sitemap has such a text or tag
_CDATA_OPENS, _CDATA_CLOSES = b"<![CDATA[", b"]]>"
_NAMED = re.compile(rb"&([A-Za-z][A-Za-z0-9]{1,31};)")
_STRAY_AMPERSAND = re.compile(rb"&(?!#\d{1,7};|#x[0-9A-Fa-f]{1,6};|[A-Za-z_][\w.-]{0,31};)")


def _with_numbered_ampersands(source: Iterable[bytes]) -> Iterator[bytes]:
    """Write every ampersand outside CDATA so that the parser in recovery keeps it, whatever came before.

    Left alone, ``?a=1&b=2``, which generators forget to escape, comes out as ``?a=1=2``; and after the first
    error of a file libxml2 drops ``&amp;`` too, but not ``&#38;``.

    Works on pieces that end with ``>``, so that no reference and no CDATA mark is cut in two.
    """
    rest = b""
    in_cdata = False
    for chunk in source:
        rest += chunk
        end = rest.rfind(b">") + 1
        if not end and len(rest) <= _PIECE_LIMIT:
            continue
        end = end or len(rest)
        piece, in_cdata = _numbered(rest[:end], in_cdata)
        rest = rest[end:]
        yield piece
    if rest:
        yield _numbered(rest, in_cdata)[0]


def _with_numbers(text: bytes) -> bytes:
    if b"&" not in text:
        return text
    return _NAMED.sub(_number, _STRAY_AMPERSAND.sub(b"&#38;", text.replace(b"&amp;", b"&#38;")))


def _number(match: re.Match[bytes]) -> bytes:
    characters = html5.get(match[1].decode(), "")
    return b"".join(b"&#%d;" % ord(character) for character in characters) or match[0]


def _numbered(piece: bytes, in_cdata: bool) -> tuple[bytes, bool]:
    if b"&" not in piece and _CDATA_OPENS not in piece and not in_cdata:
        return piece, False
    parts: list[bytes] = []
    place = 0
    while place < len(piece):
        mark = _CDATA_CLOSES if in_cdata else _CDATA_OPENS
        found = piece.find(mark, place)
        end = len(piece) if found < 0 else found + len(mark)
        text = piece[place:end]
        parts.append(text if in_cdata else _with_numbers(text))
        in_cdata = in_cdata if found < 0 else not in_cdata
        place = end
    return b"".join(parts), in_cdata
