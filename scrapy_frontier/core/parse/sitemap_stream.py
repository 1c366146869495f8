"""The bytes of a sitemap on their way to a parser: inflated, cut small, told apart, mended for libxml2.

Iterators over chunks; memory stays at a few of them, whatever a file inflates to.
"""

from __future__ import annotations

import codecs
import re
import zlib
from html.entities import html5
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
