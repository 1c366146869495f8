"""What is kept of the visits of a page, in its own row: at most 40 bytes, and its validators."""

from __future__ import annotations

import struct
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    VisitFields = tuple[
        int, int, int, int, int, int, bytes, bytes, str, int, "BadVisits", "Validators", int, bool
    ]

_FULL, _ETAG, _LAST_MODIFIED, _HINTED = 1, 2, 4, 8
_DOCUMENT = struct.Struct(">BHB")  # content type, length (its upper 16 bits, its lower 8)
# Last visit, first visit, last change, due, visits, changes, history, digest, trust; met and bad visits,
# since when.
_VISITS = struct.Struct(">I3s3sIHH8s5sBBH")
_MOST = 0xFFFF
_MOST_24 = 0xFFFFFF
_MOST_BAD = 15
_LONGEST = 255  # bytes of a validator
NO_HISTORY = bytes(8)
DIGEST = 5  # bytes

# By its place, which is what a row holds: new ones are added at the end. What is not here is not kept.
_TYPES = (
    *("", "text/html", "application/xhtml+xml", "text/plain", "application/xml", "text/xml"),
    *("application/rss+xml", "application/atom+xml", "application/json", "application/ld+json"),
    *("application/pdf", "text/css", "text/csv", "text/markdown", "text/javascript"),
    *("application/javascript", "image/jpeg", "image/png", "image/gif", "image/webp", "image/svg+xml"),
    *("audio/mpeg", "video/mp4", "application/zip", "application/gzip", "application/octet-stream"),
    *("application/msword", "application/epub+zip"),
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    *("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "application/vnd.ms-excel"),
    "application/feed+json",
)
_NUMBERS = {name: number for number, name in enumerate(_TYPES)}


class Validators(NamedTuple):
    """What the server gave to ask conditionally with, byte for byte; empty where it gave none, or more than
    255 bytes."""

    etag: bytes = b""
    last_modified: bytes = b""


NO_VALIDATORS = Validators()


class BadVisits(NamedTuple):
    """Bad visits in a row: how many, what the first of them met (the number of
    a `revisits.policy.Result`), which a second one must confirm, and since when (POSIX seconds, to the
    minute)."""

    visits: int = 0
    result: int = 0
    since: int = 0


NOT_BAD = BadVisits()


class Visits(NamedTuple):
    """What the visits of a page showed.

    Whole POSIX seconds: ``first`` and ``last`` are visits that were answered with the page or with "not
    modified", ``changed`` is the last that found it changed (0: none); the first and the last change are kept
    to the minute. ``due`` is when it comes back, 0 where it does not, `due_rows.QUEUED_AGAIN` while it stands
    in a queue for that. ``visits`` and ``changes`` count, to 65,535; ``history`` is what
    `rate_rows.encode_history` makes. ``digest`` has five bytes, or none. ``length`` of the body is in bytes,
    at most 16 MiB. ``trust`` is a byte of `revisits.validator_trust`. ``is_hinted``: a sitemap has told of a
    change since.
    """

    first: int
    last: int
    changed: int = 0
    due: int = 0
    visits: int = 1
    changes: int = 0
    history: bytes = NO_HISTORY
    digest: bytes = b""
    content_type: str = ""
    length: int = 0
    bad: BadVisits = NOT_BAD
    validators: Validators = NO_VALIDATORS
    trust: int = 0
    is_hinted: bool = False


# `Visits` of a tuple of all fields, in half the time.
new_visits: Callable[[VisitFields], Visits] = partial(tuple.__new__, Visits)
NO_VISITS = Visits(0, 0, visits=0)  # of a page that comes back and was never seen


def encode_visits(visits: Visits, discovered: int, ended: int) -> bytes:
    """The bytes of *visits* in a page row, 5 at the least and 40 at most, and its validators. *discovered*
    and *ended* are the times in that row, which are not written twice."""
    first, last, changed, due, count, changes, history, digest = visits[:8]
    content_type, length, bad, (etag, last_modified), _, is_hinted = visits[8:]
    flags = _HINTED if is_hinted else 0
    flags |= _ETAG if 0 < len(etag) <= _LONGEST else 0
    flags |= _LAST_MODIFIED if 0 < len(last_modified) <= _LONGEST else 0
    if length > _MOST_24:
        length = _MOST_24
    is_first = count == 1 and not due and first == last == ended and ended and bad == NOT_BAD
    if is_first and not (changed or changes or digest) and history == NO_HISTORY:
        head = _short(flags, content_type, length)
    else:
        head = _full(flags, visits, discovered) + _short(0, content_type, length)[1:]
    if flags & _ETAG:
        head += bytes((len(etag),)) + etag
    if flags & _LAST_MODIFIED:
        head += bytes((len(last_modified),)) + last_modified
    return head


@lru_cache(maxsize=256)
def _short(flags: int, content_type: str, length: int) -> bytes:
    return bytes((flags,)) + _DOCUMENT.pack(_NUMBERS.get(content_type, 0), length >> 8, length & 0xFF)


def _full(flags: int, visits: Visits, discovered: int) -> bytes:
    bad = visits.bad
    return bytes((flags | _FULL,)) + _VISITS.pack(
        visits.last,
        _minutes(visits.first - discovered),
        _minutes(visits.last - visits.changed, 1) if visits.changed else bytes(3),
        visits.due,
        min(visits.visits, _MOST),
        min(visits.changes, _MOST),
        visits.history,
        visits.digest.ljust(DIGEST, b"\0")[:DIGEST],
        visits.trust,
        bad.result << 4 | min(bad.visits, _MOST_BAD),
        min(max(bad.since - visits.last, 0) // 60, _MOST),
    )


def _minutes(seconds: int, least: int = 0) -> bytes:
    """*least* is added, and keeps 0 for what never was."""
    return min(max(seconds, 0) // 60 + least, _MOST_24).to_bytes(3, "big")


def decode_visits(value: bytes, offset: int, discovered: int, ended: int) -> tuple[Visits, int]:
    """The visits at *offset* and where they end; *discovered* and *ended* are the times in the row of the
    page. Raises `ValueError`, `IndexError` or `struct.error`."""
    flags = value[offset]
    offset += 1
    full = None
    if flags & _FULL:
        full = _VISITS.unpack_from(value, offset)
        offset += _VISITS.size
    number, upper, lower = _DOCUMENT.unpack_from(value, offset)
    offset += _DOCUMENT.size
    etag = last_modified = b""
    if flags & _ETAG:
        etag, offset = _text(value, offset)
    if flags & _LAST_MODIFIED:
        last_modified, offset = _text(value, offset)
    content_type = _TYPES[number] if number < len(_TYPES) else ""
    about = content_type, upper << 8 | lower
    validators = Validators(etag, last_modified)
    if full is None:
        visits = Visits(ended, ended, 0, 0, 1, 0, NO_HISTORY, b"", *about, NOT_BAD, validators)
        return (visits._replace(is_hinted=True) if flags & _HINTED else visits), offset
    last, first, changed, due, count, changes, history, digest, trust, kind, since = full
    ago = int.from_bytes(changed, "big")
    bad = BadVisits(kind & _MOST_BAD, kind >> 4, last + 60 * since) if kind or since else NOT_BAD
    times = discovered + 60 * int.from_bytes(first, "big"), last, last - 60 * (ago - 1) if ago else 0, due
    seen = count, changes, history, digest if digest != bytes(DIGEST) else b""
    return Visits(*times, *seen, *about, bad, validators, trust, bool(flags & _HINTED)), offset


def _text(value: bytes, offset: int) -> tuple[bytes, int]:
    end = offset + 1 + value[offset]
    if end > len(value):
        raise ValueError("a validator ends early")
    return value[offset + 1 : end], end
