"""Values of the database: pages, hosts and counts as bytes and back.

Whoever changes bytes touches only this file, `keys` and `varint`, raises `FORMAT_VERSION`, and writes
the change into ``docs/format.md``.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from . import keys, varint
from .errors import UnreadableRecord
from .lifecycle import State

FORMAT_VERSION = 1
IN_MEMORY = b'{"!":"memory"'  # so begins the payload of a page whose request only one process has

_PAGE = struct.Struct(">BBiIQI")  # state and flags, attempts, priority, discovered, parent + 1, URL length
_STATE_MASK = 0x07
_HAS_HOST = 0x08  # the host is not the URL's hostname (``download_slot``) and stands behind the URL
_HAS_ENDING = 0x10
_IS_DEFERRED = 0x20
_MAX_PRIORITY = (1 << 31) - 1

_STATES = tuple(State)


class Page(NamedTuple):
    """What is known of a page.

    ``payload`` is the frozen request, opaque here. ``discovered`` and ``changed`` are whole POSIX
    seconds; ``parent`` is the id of the page that linked it first. The next four fields tell how the
    page ended: HTTP status (0: none), why in words, and where it led. A page that is seen may be
    ``deferred``: it waits for room in a budget.
    """

    url: str
    state: State = State.QUEUED
    attempts: int = 0
    priority: int = 0
    discovered: int = 0
    parent: int | None = None
    host: str = ""  # only where it is not the URL's hostname
    payload: bytes = b""
    status: int = 0
    changed: int = 0
    target: int | None = None
    reason: str = ""
    is_deferred: bool = False


def encode_page(page: Page) -> bytes:
    url = page.url.encode("utf-8", "surrogatepass")
    flags: int = page.state
    tail = page.payload
    if page.changed:
        flags |= _HAS_ENDING
        target = 0 if page.target is None else page.target + 1
        tail = _ending(page.status, page.changed, target, page.reason) + tail
    if page.is_deferred:
        flags |= _IS_DEFERRED
    if page.host:
        flags |= _HAS_HOST
        host = page.host.encode()
        tail = varint.encode(len(host)) + host + tail
    priority = min(max(page.priority, -_MAX_PRIORITY), _MAX_PRIORITY)
    parent = 0 if page.parent is None else page.parent + 1
    head = _PAGE.pack(flags, min(page.attempts, 255), priority, page.discovered, parent, len(url))
    return head + url + tail


@lru_cache(maxsize=256)  # most pages of a second end in the same way
def _ending(status: int, changed: int, target: int, reason: str) -> bytes:
    raw = reason.encode("utf-8", "replace")
    return b"".join(map(varint.encode, (status, changed, target, len(raw)))) + raw


def may_be_only_seen(page: Page) -> bool:
    """Whether the index row of *page* is to say that its own row must be asked: it is not queued, or will
    not be when the process that has its request has ended."""
    is_only_seen = page.state is State.SEEN and not page.is_deferred
    return is_only_seen or page.payload.startswith(IN_MEMORY)


def encode_new_page(url: str, priority: int, discovered: int, parent: int | None, payload: bytes) -> bytes:
    """`encode_page` for a page just queued on its URL's own host; the usual case, in half the time."""
    raw = url.encode("utf-8", "surrogatepass")
    if not -_MAX_PRIORITY <= priority <= _MAX_PRIORITY:
        priority = min(max(priority, -_MAX_PRIORITY), _MAX_PRIORITY)
    head = _PAGE.pack(State.QUEUED, 0, priority, discovered, 0 if parent is None else parent + 1, len(raw))
    return head + raw + payload


def decode_page(data: bytes) -> Page:
    """Raises `UnreadableRecord` on bytes that are no page row."""
    try:
        flags, attempts, priority, discovered, parent, length = _PAGE.unpack_from(data)
        offset = _PAGE.size + length
        if offset > len(data):
            raise ValueError("the URL ends early")
        url = data[_PAGE.size : offset].decode("utf-8", "surrogatepass")
        host, reason, status, changed, target = "", "", 0, 0, 0
        if flags & _HAS_HOST:
            size, offset = varint.decode(data, offset)
            host, offset = _text(data, offset, size)
        if flags & _HAS_ENDING:
            status, offset = varint.decode(data, offset)
            changed, offset = varint.decode(data, offset)
            target, offset = varint.decode(data, offset)
            size, offset = varint.decode(data, offset)
            reason, offset = _text(data, offset, size)
        return Page(
            url,
            _STATES[flags & _STATE_MASK],
            attempts,
            priority,
            discovered,
            parent - 1 if parent else None,
            host,
            data[offset:],
            status,
            changed,
            target - 1 if target else None,
            reason,
            bool(flags & _IS_DEFERRED),
        )
    except (struct.error, ValueError, IndexError) as error:
        raise UnreadableRecord(f"page row of {len(data)} bytes: {error}") from error


def _text(data: bytes, offset: int, size: int) -> tuple[str, int]:
    end = offset + size
    if end > len(data):
        raise ValueError("a text ends early")
    return data[offset:end].decode(), end


_HOST = struct.Struct(">IIIdIIfI")
_HOST_BEFORE = struct.Struct(">IIIdIIf")  # without the last number, which is 0
_LAST_SECOND = 1e12  # what is later is no time
pack_host = _HOST.pack  # `encode_host` for the fields of a `HostRow`, which every batch needs several times


class HostRow(NamedTuple):
    """What is kept of a host: pages queued, done and failed, when it was last visited (POSIX s), pages that
    wait for room in a budget, how many of those done are excluded ones, its smoothed response time (s, single
    precision; 0: not measured), and how many of those excluded were answered all the same: refused then."""

    queued: int = 0
    done: int = 0
    failed: int = 0
    visited: float = 0.0
    deferred: int = 0
    excluded: int = 0
    response_time: float = 0.0
    answered: int = 0

    @property
    def fetched(self) -> int:
        """Pages that count against a budget of pages."""
        return self.done + self.failed - self.excluded + self.answered


def encode_host(row: HostRow) -> bytes:
    return _HOST.pack(*row)


def decode_host(data: bytes) -> HostRow:
    """Raises `UnreadableRecord` on bytes that are no host row."""
    try:
        layout = _HOST if len(data) >= _HOST.size else _HOST_BEFORE
        row = HostRow(*layout.unpack_from(data))
    except struct.error as error:
        raise UnreadableRecord(f"host row of {len(data)} bytes: {error}") from error
    if not -_LAST_SECOND < row.visited < _LAST_SECOND:  # nor NaN
        raise UnreadableRecord(f"host row with a visit at second {row.visited}")
    if not 0.0 <= row.response_time < _LAST_SECOND:
        raise UnreadableRecord(f"host row with a response time of {row.response_time} s")
    return row


def encode_deferred(depth: int = 0, bucket: int = 0) -> bytes:
    """The value of a deferred row: links from a seed, where that is why it waits, and the score bucket that
    the page had, or would have had, in its queue (0: none of its own)."""
    if not depth and not bucket:
        return b""
    return varint.encode(depth) + (bucket.to_bytes(2, "big") if bucket else b"")


def decode_deferred(value: bytes) -> tuple[int, int]:
    """Depth and bucket; zeros for what cannot be read, which matters little."""
    try:
        depth, offset = varint.decode(value) if value else (0, 0)
        return depth, int.from_bytes(value[offset : offset + 2], "big")
    except ValueError:
        return 0, 0


_COUNTS = struct.Struct(f">QQQ{len(_STATES)}QQ")


class Counts:
    """Kept counters: next ids, attempts, pages in each state (``LEASED`` ones count as queued), host rows.

    Further visits of a page (``dont_filter``) count while they are queued, and no longer.
    """

    __slots__ = ("attempts", "hosts", "next_page", "next_visit", "states")

    def __init__(
        self, next_page: int, next_visit: int, attempts: int, states: list[int], hosts: int = 0
    ) -> None:
        self.next_page = next_page
        self.next_visit = next_visit
        self.attempts = attempts
        self.states = states
        self.hosts = hosts

    @classmethod
    def none(cls) -> Counts:
        return cls(0, 0, 0, [0] * len(_STATES))

    @property
    def queued(self) -> int:
        return self.states[State.QUEUED]


def encode_counts(counts: Counts) -> bytes:
    return _COUNTS.pack(counts.next_page, counts.next_visit, counts.attempts, *counts.states, counts.hosts)


def decode_counts(data: bytes) -> Counts:
    try:
        next_page, next_visit, attempts, *states, hosts = _COUNTS.unpack_from(data)
    except struct.error as error:
        raise UnreadableRecord(f"counts row of {len(data)} bytes: {error}") from error
    if max(next_page, next_visit) >= keys.FIRST_VISIT:
        raise UnreadableRecord(f"counts row with page {next_page} and visit {next_visit} to come")
    return Counts(next_page, next_visit, attempts, states, hosts)
