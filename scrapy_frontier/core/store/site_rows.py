"""What is kept of a site, a row an origin (scheme, host and port): its robots.txt, and its sitemaps.

``docs/internals/format.md`` describes the values.
"""

from __future__ import annotations

import json
import struct
import zlib
from enum import IntEnum
from typing import NamedTuple

from ..errors import UnreadableRow
from . import varint


class Verdict(IntEnum):
    """What to do after asking for robots.txt. The numbers are written to disk: never change one."""

    ALLOW_ALL = 0  # there is no such file
    PARSE = 1  # obey the body
    POSTPONE = 2  # nobody knows: ask again, fetch nothing


LONGEST_VALIDATOR = 1_000  # characters of an ETag or a Last-Modified; who sends more gets plain requests
_LARGEST_BODY = 2_048_000  # bytes of robots.txt, unpacked: four times what a crawl keeps
_ROW = struct.Struct(">BHdddB")


class RobotsCopy(NamedTuple):
    """``verdict`` is what the last answer that said something means (`Verdict.POSTPONE`: there was none),
    ``fetched`` when it came, ``body`` the file. ``status`` is that of the last answer of all, 0 for none.
    ``failing_since`` is 0 unless the last ``failures`` answers said nothing. Times are POSIX seconds.
    ``etag`` and ``modified`` are the validators of the file, as the site wrote them."""

    verdict: Verdict = Verdict.POSTPONE
    status: int = 0
    fetched: float = 0.0
    ask_at: float = 0.0
    failing_since: float = 0.0
    failures: int = 0
    body: bytes = b""
    etag: str = ""
    modified: str = ""


def encode_copy(copy: RobotsCopy) -> bytes:
    """What is kept of a robots.txt, its body compressed; `decode_copy` is the inverse, but for more than 255
    failures."""
    failures = min(copy.failures, 255)
    head = _ROW.pack(copy.verdict, copy.status, copy.fetched, copy.ask_at, copy.failing_since, failures)
    validators = b"".join(map(_with_length, (copy.etag, copy.modified)))
    return head + validators + (zlib.compress(copy.body) if copy.body else b"")


def _with_length(text: str) -> bytes:
    raw = text.encode()
    return varint.encode(len(raw)) + raw


def decode_copy(value: bytes) -> RobotsCopy:
    """The robots.txt in a row. Raises `UnreadableRow` on other bytes; a body that grows beyond all limits
    is none of ours."""
    try:
        number, status, fetched, ask_at, failing_since, failures = _ROW.unpack_from(value)
        validators, body, offset = [], b"", _ROW.size
        for _ in range(2):
            size, offset = varint.decode(value, offset)
            validators.append(value[offset : offset + size].decode())
            offset += size
        if offset > len(value):
            raise ValueError("a validator ends early")
        if len(value) > offset:
            inflating = zlib.decompressobj()
            body = inflating.decompress(value[offset:], _LARGEST_BODY)
            if not inflating.eof:
                raise ValueError("the body ends early, or never")
        asked = fetched, ask_at, failing_since, failures
        return RobotsCopy(Verdict(number), status, *asked, body, *validators)
    except (struct.error, ValueError, zlib.error) as error:
        raise UnreadableRow(f"robots row of {len(value)} bytes: {error}") from error


class SiteSitemaps(NamedTuple):
    """What is known of the sitemaps of one origin.

    ``listed`` is what its robots.txt names; ``is_contacted`` says that these, or the guesses, are in the
    frontier; ``refused`` are sitemaps of other sites that listed pages of it before it was asked. ``hints``
    is how true ``lastmod`` in its sitemaps proved (`sitemap_hints.HintAccuracy`); empty: nobody knows.
    """

    listed: tuple[str, ...] = ()
    is_contacted: bool = False
    refused: tuple[str, ...] = ()
    hints: tuple[float, ...] = ()


def encode_sitemaps(sitemaps: SiteSitemaps) -> bytes:
    """What is known of a site's sitemaps, as JSON; nothing of what is not."""
    given = {"listed": sitemaps.listed, "contacted": sitemaps.is_contacted, "refused": sitemaps.refused}
    given["signals"] = tuple(round(count, 3) for count in sitemaps.hints)  # the name on disk
    return json.dumps({name: value for name, value in given.items() if value}, separators=(",", ":")).encode()


def decode_sitemaps(value: bytes) -> SiteSitemaps:
    """The sitemaps in a row. Raises `UnreadableRow` on anything but such a JSON object."""
    try:
        found = json.loads(value)
        listed, refused = (tuple(map(str, found.get(name, ()))) for name in ("listed", "refused"))
        hints = tuple(map(float, found.get("signals", ())))
        return SiteSitemaps(listed, bool(found.get("contacted")), refused, hints if len(hints) == 4 else ())
    except (ValueError, TypeError, AttributeError) as error:
        raise UnreadableRow(f"sitemaps row of {len(value)} bytes: {error}") from error
