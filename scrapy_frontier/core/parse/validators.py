"""Conditional requests: what is kept of a response to ask for it again, what to send, what a 304 answers.

RFC 9110 8.8 and 13.1, RFC 9111 4.3. Values are bytes as servers send them, and go back byte for byte: never
is a tag or a time our own. b"" says that there is none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_TAG = 255  # bytes
LONGEST_DATE = 64  # bytes; an HTTP-date has 29

# A tag in quotes may hold what RFC 9110 8.8.3 allows, and blanks, which some servers write; one without is
# against the grammar, and many servers know theirs again. A star alone would ask for anything there is.
_TAG = re.compile(rb'(?:W/)?"[\x20\x21\x23-\x7e\x80-\xff]*"|(?!\*\Z|W/)[!#-+\--~\x80-\xff]+')
_DATE = re.compile(rb"[ -~]+")
# What servers put to the tag of a body that they compressed: Apache and Caddy "x-gzip", Jetty "x--gzip",
# others "x;gzip". Some of them do not know it again without, some with it.
_COMPRESSOR = re.compile(rb'(?:--?|;)(?:x-gzip|gzip|deflate|br|zstd)(?="?\Z)')


def kept(tags: Sequence[bytes], dates: Sequence[bytes]) -> tuple[bytes, bytes]:
    """The tag and the date to keep of a response with these lines ``ETag`` and ``Last-Modified``.

    b"" for a tag that is too long or is none. The date need not be one: the server knows it again. Lines that
    contradict each other say nothing.
    """
    return _kept(tags, _TAG, LONGEST_TAG), _kept(dates, _DATE, LONGEST_DATE)


def _kept(lines: Sequence[bytes], pattern: re.Pattern[bytes], longest: int) -> bytes:
    values = {line.strip(b" \t") for line in lines}
    value = values.pop() if len(values) == 1 else b""
    return value if len(value) <= longest and pattern.fullmatch(value) else b""


def if_none_match(tag: bytes) -> bytes:
    """The header line that asks for anything but *tag*, which is not b"".

    With the suffix of a compressor it is sent with and without: whichever the server compares matches.
    """
    plain = _COMPRESSOR.sub(b"", tag)
    return tag if plain == tag else tag + b", " + plain


def is_same_tag(one: bytes, other: bytes) -> bool:
    """Whether two tags name the same content: the weak comparison of RFC 9110 8.8.3.2, and whatever
    compressed it."""
    return opaque(one) == opaque(other)


def answers(sent: bytes, received: bytes) -> bool:
    """Whether a 304 that has the tag *received* is about the content that was asked for with the tag *sent*;
    b"" for none. RFC 9111 4.3.4: one that names another content is of no use."""
    return not received or not sent or is_same_tag(sent, received)


def opaque(tag: bytes) -> bytes:
    """What is compared of a *tag*: without the mark of a weak one, and without what compressed the body."""
    return _COMPRESSOR.sub(b"", tag.removeprefix(b"W/"))
