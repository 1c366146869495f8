"""Sitemaps and feeds: the entries in them, read as the bytes arrive.

`read` turns a body into slices of entries: XML ``urlset`` and ``sitemapindex``, RSS, Atom, RDF and plain
text, gzipped or not, told apart by their content alone. It is a generator that works on at most `CHUNK` bytes
and `ELEMENTS_AT_ONCE` elements between two slices, a few milliseconds whatever the file holds: whoever
iterates it can let an event loop breathe. Memory stays at a few chunks, whatever the file inflates to.
Nothing is fetched, no DTD is loaded and no entity expanded.

What an entry of a sitemap or feed says: an address, a date, a priority.

Names of elements are told apart without their namespaces; an address is resolved against its base.

The bytes of a sitemap on their way to a parser: inflated, cut small, told apart, mended for libxml2.

Iterators over chunks; memory stays at a few of them, whatever a file inflates to.
"""

from __future__ import annotations

import codecs
import re
import zlib
from contextlib import suppress
from enum import Enum
from html.entities import html5
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types

from .headers import timestamp
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


CHUNK = 32_768  # bytes a parser takes at a time: about 250 entries, 2 ms


# --- inflating --------------------------------------------------------------------------------------------

_GZIP = b"\x1f\x8b"


class Inflated:
    """The chunks of a body, inflated if it is gzip, up to *max_bytes* or to where the gzip data break;
    ``problem`` says then why it ends early. To be iterated once."""

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
        return _gathered(self._gunzip(source)) if first.startswith(_GZIP) else source

    def _gunzip(self, source: Iterator[bytes]) -> Iterator[bytes]:
        inflater: zlib._Decompress | None = zlib.decompressobj(wbits=31)
        surplus = 0  # packed bytes without content; nothing is yielded for them, and nobody else gets a turn
        for pending in source:
            surplus += len(pending)
            if surplus > _SURPLUS_LIMIT:
                self.problem = "gzip data of nothing"
                return
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
                    surplus = max(surplus - 2 * len(plain), 0)
                    yield plain
                pending = inflater.unconsumed_tail
                if inflater.eof:
                    pending = inflater.unused_data
                    inflater = None
        if inflater is not None:
            self.problem = "gzip data break off"


_SURPLUS_LIMIT = 2 * CHUNK  # a member of no bytes takes 20, and 2 us; no file is twice as large when packed


def _gathered(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Join small *parts*, up to `CHUNK` bytes: whoever takes them pays for each."""
    held = bytearray()
    for part in parts:
        if held and len(held) + len(part) > CHUNK:
            yield bytes(held)
            held.clear()
        held += part
    if held:
        yield bytes(held)


def _chunks(body: bytes | Iterable[bytes]) -> Iterator[bytes]:
    """Cut *body* into non-empty pieces of at most `CHUNK` bytes."""
    for part in (body,) if isinstance(body, bytes) else body:
        for start in range(0, len(part), CHUNK):
            yield part[start : start + CHUNK]


# --- what kind of file ------------------------------------------------------------------------------------

# Written by programs that count their characters in UTF-16 and send UTF-8; the bytes know better.
_DECLARED_WIDE = re.compile(rb"""(?i)<\?xml[^>]{1,64}encoding\s*=\s*["'](?:utf-?16|utf-?32|ucs-?2|ucs-?4)""")
_XML_START = re.compile(rb"(?i)<(?:\?xml|!--|!doctype|[a-z0-9]*:?(?:urlset|sitemapindex|rss|feed|rdf)\b)")
_SNIFFED = 1_024  # bytes in which XML must begin; servers print warnings before it
_BLANK_LIMIT = 65_536  # bytes of blanks before these; templates print empty lines
_WIDE = (
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)


class Sniffed(NamedTuple):
    """A file whose kind is known: *rest* follows *head*, in which an XML file begins at once."""

    head: bytes
    rest: Iterator[bytes]
    is_xml: bool
    encoding: str | None = None  # None: as the file declares


def sniffed(chunks: Iterable[bytes]) -> Sniffed:
    """Tell XML from plain text by its first bytes, and drop the blanks and the warnings before these. Takes
    some chunks at once; the rest follows."""
    head, rest = _sniff(iter(chunks))
    encoding = next((encoding for mark, encoding in _WIDE if head.startswith(mark)), None)
    if encoding is not None:
        head, rest = _sniff(_recoded(chain((head,), rest), encoding))
    head = head.lstrip()
    start = _XML_START.search(head, 0, _SNIFFED)
    if start is None:
        return Sniffed(head, rest, is_xml=False)
    head = head[start.start() :]
    return Sniffed(head, rest, True, "utf-8" if encoding or _DECLARED_WIDE.match(head) else None)


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


# --- ampersands -------------------------------------------------------------------------------------------

_CDATA_OPENS, _CDATA_CLOSES = b"<![CDATA[", b"]]>"
_LONGEST_MARK = 40  # bytes; a reference has 34 at most
_BEGUN_MARK = re.compile(rb"(?:&[\w.#-]*|<[!\[A-Z]{0,8}|\]{1,2})\Z")
_NAMED = re.compile(rb"&([A-Za-z][A-Za-z0-9]{1,31};)")
_STRAY_AMPERSAND = re.compile(rb"&(?!#\d{1,7};|#x[0-9A-Fa-f]{1,6};|[A-Za-z_][\w.-]{0,31};)")
# No decoder takes half a character from libxml2, which makes one of such a reference (U+D800 to U+DFFF).
_SURROGATE = re.compile(
    rb"&#(?:x0{0,2}[dD][89A-Fa-f][0-9A-Fa-f]{2}"
    rb"|0{0,2}5(?:529[6-9]|5[3-9]\d\d|6\d{3}|7[0-2]\d\d|73[0-3]\d|734[0-3]));"
)


def with_numbered_ampersands(source: Iterable[bytes]) -> Iterator[bytes]:
    """Write every ampersand outside CDATA so that the parser in recovery keeps it, whatever came before.

    Left alone, ``?a=1&b=2``, which generators forget to escape, comes out as ``?a=1=2``; and after the first
    error of a file libxml2 drops ``&amp;`` too, but not ``&#38;``.

    Works on pieces of about a chunk, so cut that no reference and no CDATA mark is cut in two.
    """
    rest = b""
    in_cdata = False
    for chunk in source:
        rest += chunk
        begun = _BEGUN_MARK.search(rest, max(len(rest) - _LONGEST_MARK, 0))
        end = len(rest) if begun is None else begun.start()
        if end:
            piece, in_cdata = _numbered(rest[:end], in_cdata)
            rest = rest[end:]
            yield piece
    if rest:
        yield _numbered(rest, in_cdata)[0]


def _with_numbers(text: bytes) -> bytes:
    if b"&" not in text:
        return text
    if b"&#" in text:
        text = _SURROGATE.sub(b"&#xFFFD;", text)
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
