"""Page rows, and the rows of pages that wait for room in a budget, as bytes and back.

Whoever changes the bytes of a row, here or in another file of this room, raises `keys.FORMAT_VERSION`
and writes the change into ``docs/internals/format.md``.
"""

from __future__ import annotations

import struct
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from ..errors import UnreadableRow
from . import keys, varint
from .states import State
from .visit_rows import Visits, decode_visits, encode_visits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .keys import PageId
    from .leveldb import Store

    PageFields = tuple[
        str, State, int, int, int, int | None, str, bytes, int, int, int | None, str, bool, Visits | None
    ]

_STATES = tuple(State)

# State and flags, attempts, priority, discovered, parent + 1, length of the URL.
_PAGE_HEAD = struct.Struct(">BBiIQI")
URL_SIZE = 4  # bytes of its last field
_STATE_MASK = 0x07
_HAS_HOST = 0x08  # the host is not the URL's hostname (``download_slot``) and stands behind the URL
_HAS_ENDING = 0x10
_IS_DEFERRED = 0x20
_HAS_VISITS = 0x40
_MAX_PRIORITY = (1 << 31) - 1


class Page(NamedTuple):
    """What is known of a page.

    ``payload`` is the frozen request, opaque here. ``discovered`` and ``changed`` are whole POSIX
    seconds; ``parent`` is the id of the page that linked it first. The next four fields tell how the
    page ended: HTTP status (0: none), why in words, and where it led. A page that is seen may be
    ``deferred``: it waits for room in a budget. ``visits`` tells what was learnt of one that was read.
    """

    url: str
    state: State = State.QUEUED
    attempts: int = 0
    priority: int = 0
    discovered: int = 0
    parent: PageId | None = None
    host: str = ""  # only where it is not the URL's hostname
    payload: bytes = b""
    status: int = 0
    changed: int = 0
    target: PageId | None = None
    reason: str = ""
    is_deferred: bool = False
    visits: Visits | None = None

    @property
    def is_only_seen(self) -> bool:
        """Whether it is known and no more: neither wanted so far nor waiting for room in a budget."""
        return self.state is State.SEEN and not self.is_deferred

    @property
    def due(self) -> int:
        """When it comes back, as `Visits.due` says; 0 where it was never visited."""
        return 0 if self.visits is None else self.visits.due


# `Page` of a tuple of all fields, in half the time.
new_page: Callable[[PageFields], Page] = partial(tuple.__new__, Page)


def encode_page(page: Page) -> bytes:
    """The row of a page: 22 bytes, the URL, what it has of host, ending and visits, and its payload; see
    ``format.md``."""
    url = page.url.encode("utf-8", "surrogatepass")
    flags: int = page.state
    tail = page.payload
    if page.visits is not None:
        flags |= _HAS_VISITS
        tail = encode_visits(page.visits, page.discovered, page.changed) + tail
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
    head = _page_head(flags, min(page.attempts, 255), page.priority, page.discovered, page.parent, len(url))
    return head + url + tail


def _page_head(
    flags: int, attempts: int, priority: int, discovered: int, parent: int | None, length: int
) -> bytes:
    clamped = min(max(priority, -_MAX_PRIORITY), _MAX_PRIORITY)
    return _PAGE_HEAD.pack(flags, attempts, clamped, discovered, 0 if parent is None else parent + 1, length)


@lru_cache(maxsize=256)  # links of a page have most of it in common: packing takes three times as long
def queued_head(priority: int, discovered: int, parent: int | None) -> bytes:
    """How `encode_page` begins the row of a new page that is queued; the length of its URL follows."""
    return _page_head(State.QUEUED, 0, priority, discovered, parent, 0)[:-URL_SIZE]


@lru_cache(maxsize=256)  # most pages of a second end in the same way
def _ending(status: int, changed: int, target: int, reason: str) -> bytes:
    raw = reason.encode("utf-8", "replace")
    return b"".join(map(varint.encode, (status, changed, target, len(raw)))) + raw


def decode_page(value: bytes) -> Page:
    """The page in a row that `encode_page` made. Raises `UnreadableRow` on other bytes."""
    try:
        flags, attempts, priority, discovered, parent, length = _PAGE_HEAD.unpack_from(value)
        offset = _PAGE_HEAD.size + length
        if offset > len(value):
            raise ValueError("the URL ends early")
        url = value[_PAGE_HEAD.size : offset].decode("utf-8", "surrogatepass")
        host, reason, status, changed, target = "", "", 0, 0, 0
        if flags & _HAS_HOST:
            size, offset = varint.decode(value, offset)
            host, offset = _text(value, offset, size)
        if flags & _HAS_ENDING:
            status, offset = varint.decode(value, offset)
            changed, offset = varint.decode(value, offset)
            target, offset = varint.decode(value, offset)
            size, offset = varint.decode(value, offset)
            reason, offset = _text(value, offset, size)
        visits = None
        if flags & _HAS_VISITS:
            visits, offset = decode_visits(value, offset, discovered, changed)
        about = (
            url,
            _STATES[flags & _STATE_MASK],
            attempts,
            priority,
            discovered,
            parent - 1 if 0 < parent <= keys.MAX_ID + 1 else None,  # beyond that are no ids
            host,
            value[offset:],
            status,
            changed,
            target - 1 if 0 < target <= keys.MAX_ID + 1 else None,
            reason,
            bool(flags & _IS_DEFERRED),
            visits,
        )
        return new_page(about)
    except (struct.error, ValueError, IndexError) as error:
        raise UnreadableRow(f"page row of {len(value)} bytes: {error}") from error


def queued_page(rows: Mapping[bytes, bytes | None], store: Store, sort_key: bytes) -> tuple[PageId, Page]:
    """The id and the row of the page with that sort key, in the *rows* of the open batch or in *store*.
    Raises `UnreadableRow`."""
    name = sort_key[-keys.ID_BYTES :]
    key = keys.PAGE + name
    return int.from_bytes(name, "big"), decode_page(rows.get(key) or store.get(key) or b"")


def _text(value: bytes, offset: int, size: int) -> tuple[str, int]:
    end = offset + size
    if end > len(value):
        raise ValueError("a text ends early")
    return value[offset:end].decode(), end


def encode_deferred(depth: int = 0, bucket: int = 0) -> bytes:
    """The value of a deferred row: links from a seed, where that is why it waits, and the score bucket that
    the page had, or would have had, in its queue (0: none of its own)."""
    if not depth and not bucket:
        return b""
    return varint.encode(depth) + (bucket.to_bytes(2, "big") if bucket else b"")


def decode_deferred(value: bytes) -> tuple[int, int]:
    """The depth and the score bucket in the value of a deferred row; zeros for what cannot be read, which
    matters little."""
    try:
        depth, offset = varint.decode(value) if value else (0, 0)
        return depth, int.from_bytes(value[offset : offset + 2], "big")
    except ValueError:
        return 0, 0
