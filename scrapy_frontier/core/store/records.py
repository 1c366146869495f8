"""What is kept of a site, a row an origin (scheme, host and port): its robots.txt, and its sitemaps.

``docs/internals/format.md`` describes the values.

What is kept of the visits of a page, in its own row: at most 40 bytes, and its validators.

Page rows, and the rows of pages that wait for room in a budget, as bytes and back.

A change to the bytes of a row, here or in another file of this folder, raises `keys.FORMAT_VERSION`
and writes the change into ``docs/internals/format.md``.

What a scorer keeps of all pages, in pieces: a row holds 16 bits for each of some thousand pages.

Rows of pages that come back: when each is due; and how such a page stands in the queue of its host.

A due row takes 15 bytes: prefix, second and page id; flags, weight and rate. They are read in order of time,
so that finding what is due costs what that is, however many pages there are.

What is kept of a host, in three small rows: its counts and last visit, its orders, its rest after trouble.

The orders are kept apart from the host row: the crawl rewrites that with every page that ends, and a crawl
that starts over must not forget which hosts are blocked. ``docs/internals/format.md`` describes the
values.

The rows there is one of: the kept counters, and the last ranking.

Rows of numbers: how often pages change, those of a host and all; how long the crawl was open; and what its
callback says of a page.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from math import isfinite, log2
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np

from ..errors import UnreadableRow, decode_or_none
from . import keys, varint
from .keys import EXCLUDED, FAILED, FINISHED, GONE, ORDERS, State, cooldown_key, orders_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from .keys import PageId
    from .leveldb import Store

if TYPE_CHECKING:
    VisitFields = tuple[
        int, int, int, int, int, int, bytes, bytes, str, int, "BadVisits", "Validators", int, bool
    ]

_FULL, _ETAG, _LAST_MODIFIED, _HINTED, _QUEUED = 1, 2, 4, 8, 16
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
    to the minute. ``due`` is when it comes back, 0 where it does not; it ``is_queued`` once that time has
    come, in the due queue of its host. ``visits`` and ``changes`` count, to 65,535; ``history`` is what
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
    is_queued: bool = False

    @property
    def is_scheduled(self) -> bool:
        """Whether it has a due row: it comes back, and its time has not come."""
        return self.due > 0 and not self.is_queued


NO_VISITS = Visits(0, 0, visits=0)  # of a page that comes back and was never seen


def encode_visits(visits: Visits, discovered: int, ended: int) -> bytes:
    """The bytes of *visits* in a page row, 5 at the least and 40 at most, and its validators. *discovered*
    and *ended* are the times in that row, which are not written twice."""
    first, last, changed, due, count, changes, history, digest = visits[:8]
    content_type, length, bad, (etag, last_modified), _, is_hinted, is_queued = visits[8:]
    flags = _HINTED * is_hinted | _QUEUED * is_queued
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
        etag, offset = _validator_text(value, offset)
    if flags & _LAST_MODIFIED:
        last_modified, offset = _validator_text(value, offset)
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
    return Visits(
        *times, *seen, *about, bad, validators, trust, bool(flags & _HINTED), bool(flags & _QUEUED)
    ), offset


def _validator_text(value: bytes, offset: int) -> tuple[bytes, int]:
    end = offset + 1 + value[offset]
    if end > len(value):
        raise ValueError("a validator ends early")
    return value[offset + 1 : end], end


_STATES = tuple(State)

# State and flags, attempts, priority, discovered, parent + 1, length of the URL.
_PAGE_HEAD = struct.Struct(">BBiIQI")
URL_SIZE = 4  # bytes of its last field
_STATE_MASK = 0x07
_HAS_HOST = 0x08  # the host is not the URL's hostname (``download_slot``) and stands behind the URL
_HAS_ENDING = 0x10
_IS_DEFERRED = 0x20
_HAS_VISITS = 0x40
_HAS_FACTS = 0x80
_NUMBER = struct.Struct(">d")
_HAS_VISIT_PAYLOAD = 1 << 13  # behind eight switches and five numbers
_MAX_PRIORITY = (1 << 31) - 1


class RequestFacts(NamedTuple):
    """What the frontier knows of the request in a payload, which it does not read.

    Whether it ``is_seed``, or leads on from one by redirects; ``insists`` on its visit, whatever is known
    (``dont_filter``); asks for a page that ``is_sitemap``, or of which only some links are followed
    (``has_pattern``); ``is_unsafe`` to be made again without being told to, for it changes something (no GET
    or HEAD, or a body); ``is_in_memory`` of the process that has it, and the payload only identifies it;
    ``is_added`` by the operator; a public page of another host led to it (``from_public``). Then what it asks
    for: to come back after ``shelf_life`` seconds, or after ``refresh`` seconds as a hub; to be fetched if
    the last visit was before ``force``; and not to be sent before ``not_before`` (POSIX seconds).
    """

    is_seed: bool = False
    insists: bool = False
    is_sitemap: bool = False
    has_pattern: bool = False
    is_unsafe: bool = False
    is_in_memory: bool = False
    is_added: bool = False
    from_public: bool = False
    shelf_life: float | None = None
    refresh: float | None = None
    force: float | None = None
    not_before: float | None = None


NO_FACTS = RequestFacts()
IN_MEMORY = RequestFacts(is_in_memory=True)
_SWITCHES = 8  # fields of `RequestFacts` that are true or false


class Page(NamedTuple):
    """What is known of a page.

    ``payload`` is its request, opaque here; ``visit_payload`` is the one that its next attempt is made by
    where that is another (a retry, a redirect's target): it goes when the visit ends. ``discovered`` and
    ``changed`` are whole POSIX seconds; ``parent`` is the id of the page that linked it first. The next four
    fields tell how the page ended: HTTP status (0: none), when, where it led, and why in words. A page that
    is seen may be ``deferred``: it waits for room in a budget. ``visits`` tells what was learnt of one that
    was read, ``facts`` what its request asks for, ``lastmod`` when a sitemap says that it changed last (POSIX
    seconds; None: no sitemap says so).
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
    facts: RequestFacts = NO_FACTS
    lastmod: int | None = None
    visit_payload: bytes = b""

    @property
    def is_only_seen(self) -> bool:
        """Whether it is known and no more: neither wanted so far nor waiting for room in a budget."""
        return self.state is State.SEEN and not self.is_deferred

    @property
    def is_in_memory(self) -> bool:
        """Whether its next attempt can be made only by the process that has its request."""
        return self.facts.is_in_memory and not self.visit_payload

    @property
    def is_due(self) -> bool:
        """Whether its time to come back has come: it stands in a due queue, finished as it is."""
        return self.visits is not None and self.visits.is_queued


def encode_page(page: Page) -> bytes:
    """The row of a page: 22 bytes, the URL, what it has of host, ending, visits and facts, and its payload;
    see ``format.md``."""
    url = page.url.encode("utf-8", "surrogatepass")
    flags: int = page.state
    tail = page.payload
    if page.facts != NO_FACTS or page.lastmod is not None or page.visit_payload:
        flags |= _HAS_FACTS
        tail = _facts(page.facts, page.lastmod, page.visit_payload) + tail
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


@lru_cache(maxsize=256)
def _facts(facts: RequestFacts, lastmod: int | None, visit_payload: bytes) -> bytes:
    numbers = (*facts[_SWITCHES:], lastmod)
    switches = (
        *map(bool, facts[:_SWITCHES]),
        *(number is not None for number in numbers),
        visit_payload != b"",
    )
    flags = sum(1 << place for place, is_on in enumerate(switches) if is_on)
    tail = b"".join(_NUMBER.pack(number) for number in numbers if number is not None)
    if visit_payload:
        tail += varint.encode(len(visit_payload)) + visit_payload
    return varint.encode(flags) + tail


def _decode_facts(value: bytes, offset: int) -> tuple[RequestFacts, int | None, bytes, int]:
    """The facts, the ``lastmod`` and the payload of the next attempt at *offset*, and where they end."""
    flags, offset = varint.decode(value, offset)
    switches = (bool(flags & 1 << place) for place in range(_SWITCHES))
    numbers: list[float | None] = []
    for place in range(_SWITCHES, len(NO_FACTS) + 1):
        number = None
        if flags & 1 << place:
            (number,) = _NUMBER.unpack_from(value, offset)
            offset += _NUMBER.size
            if number != number:
                raise ValueError("a number is none")
        numbers.append(number)
    *spans, lastmod = numbers
    visit_payload = b""
    if flags & _HAS_VISIT_PAYLOAD:
        size, offset = varint.decode(value, offset)
        visit_payload, offset = value[offset : offset + size], offset + size
        if offset > len(value):
            raise ValueError("a payload ends early")
    facts = RequestFacts(*switches, *spans)
    return facts, None if lastmod is None else int(lastmod), visit_payload, offset


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
        facts, lastmod, visit_payload = NO_FACTS, None, b""
        if flags & _HAS_FACTS:
            facts, lastmod, visit_payload, offset = _decode_facts(value, offset)
        return Page(
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
            facts,
            lastmod,
            visit_payload,
        )
    except (struct.error, ValueError, IndexError, OverflowError) as error:
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


_CODE = ">u2"


def column_prefix(name: str) -> bytes:
    """Where the rows of a scorer's column *name* begin."""
    return keys.COLUMN + name.encode() + b"\0"


def column_key(name: str, first: int) -> bytes:
    """Key of the piece of a scorer's column *name* that begins with page *first*."""
    return column_prefix(name) + keys.id_bytes(first)


def split_column_key(key: bytes) -> tuple[str, int] | None:
    """Name and first page of a piece; None for a key that none has."""
    name, _, first = key[1:].partition(b"\0")
    is_one = name and len(first) == keys.ID_BYTES
    return (name.decode(errors="replace"), keys.id_in(first)) if is_one else None


def encode_codes(codes: NDArray[np.uint16]) -> bytes:
    """The value of a piece: two bytes a page."""
    return codes.astype(_CODE).tobytes()


def decode_codes(value: bytes) -> NDArray[np.uint16]:
    """The numbers of a piece, as many as are whole."""
    return np.frombuffer(value[: len(value) // 2 * 2], _CODE).astype(np.uint16)


_VALUE = struct.Struct(">BH")
_IS_HUB = 1
_UNDER_WAY = b" "


class Due(NamedTuple):
    """A page that comes back at ``when`` (POSIX seconds): whether it is a hub, and its weight, a
    `keys.bucket` (0: not known)."""

    when: int
    page_id: PageId
    is_hub: bool = False
    weight: int = 0


def due_key(when: int, page_id: PageId) -> bytes:
    """The key of the due row of a page that comes back at *when*, a whole POSIX second of 32 bits."""
    return keys.DUE + when.to_bytes(4, "big") + keys.id_bytes(page_id)


def due_time(key: bytes) -> int:
    """When the page of a due row comes back (POSIX seconds)."""
    return int.from_bytes(key[1:5], "big")


def encode_due(due: Due) -> bytes:
    """The value of a due row: 3 bytes of flags and weight; see ``format.md``."""
    return _VALUE.pack(_IS_HUB * due.is_hub, due.weight)


def decode_due(key: bytes, value: bytes) -> Due:
    """A due row; not a hub, and of no known weight, where the value cannot be read."""
    flags, weight = _VALUE.unpack(value) if len(value) == _VALUE.size else (0, 0)
    return Due(due_time(key), int.from_bytes(key[5:], "big"), bool(flags & _IS_HUB), weight)


def encode_rule(rule: bytes, after: bytes | None) -> bytes:
    """The name of the *rule* that due rows are made with; while they are made anew, with the id of the page
    looked at last, b"" for none."""
    return rule if after is None else rule + _UNDER_WAY + (after or bytes(keys.ID_BYTES))


def decode_rule(value: bytes) -> tuple[bytes, bytes | None]:
    """The rule, and the id of the page looked at last: b"" for none, or the first; None where no due rows are
    made anew."""
    rule, is_under_way, after = value.partition(_UNDER_WAY)
    return rule, after.removeprefix(bytes(keys.ID_BYTES)) if is_under_way else None


def is_due_key(key: bytes) -> bool:
    """Whether a key has the length of one of a due row."""
    return len(key) == 1 + 4 + keys.ID_BYTES


_HOST = struct.Struct(">IIIdIIII")
COUNTS = ("queued", "done", "failed", "deferred", "excluded", "answered", "queued_again")  # of its pages
_LAST_SECOND = 1e12  # what is later is no time


@dataclass(slots=True)
class HostRow:
    """What is kept of a host: pages queued, done and failed, when it was last visited (POSIX s), pages that
    wait for room in a budget, how many of those done are excluded ones, how many of those excluded were
    answered all the same, and how many finished pages stand in its due queue (``queued_again``)."""

    queued: int = 0
    done: int = 0
    failed: int = 0
    visited: float = 0.0
    deferred: int = 0
    excluded: int = 0
    answered: int = 0
    queued_again: int = 0

    def count_ended(self, state: State, change: int = 1, status: int = 0) -> None:
        """Count a page that ended in *state* with this HTTP *status*, or with -1 one that is taken back from
        there. One that was refused once it was answered costs its host as much as any other."""
        if state in (FAILED, GONE):
            self.failed += change
            return
        self.done += change
        if state is EXCLUDED:
            self.excluded += change
            self.answered += change if status else 0

    @property
    def fetched(self) -> int:
        """Pages that count against a budget of pages: those that ended, but what was excluded before it was
        answered."""
        return self.done + self.failed - self.excluded + self.answered

    @property
    def pending(self) -> int:
        """Pages that count against a budget of queued pages: those that come back do not."""
        return self.queued

    @property
    def has_pages(self) -> bool:
        """Whether any page is queued, new or due."""
        return bool(self.queued or self.queued_again)


class KeptHost(HostRow):
    """A row that goes on changing, under its ``name``: each batch that touches it holds its newest state.

    ``prefix`` is where its queue rows begin; ``is_kept`` says that it has a row, on disk or in the open
    batch.
    """

    __slots__ = ("is_kept", "name", "prefix")

    __eq__ = object.__eq__  # it is itself, whatever its numbers
    __hash__ = object.__hash__

    is_kept: bool
    name: str
    prefix: bytes


def encode_host(row: HostRow) -> bytes:
    """36 bytes, of which only the counts and times of the row; see ``format.md``."""
    begun = row.queued, row.done, row.failed, row.visited, row.deferred, row.excluded
    return _HOST.pack(*begun, row.answered, row.queued_again)


def decode_host(value: bytes) -> HostRow:
    """The host row that `encode_host` made. Raises `UnreadableRow` on other bytes."""
    try:
        row = HostRow(*_HOST.unpack(value))
    except struct.error as error:
        raise UnreadableRow(f"host row of {len(value)} bytes: {error}") from error
    if not -_LAST_SECOND < row.visited < _LAST_SECOND:  # nor NaN
        raise UnreadableRow(f"host row with a visit at second {row.visited}")
    return row


class Orders(NamedTuple):
    """What the operator ordered for a host: ``delay`` in seconds replaces what the settings and the site say
    (None: no order); ``blocked`` is since when (POSIX seconds; None: it is not)."""

    delay: float | None = None
    blocked: int | None = None


# Stands for a row that cannot be read: it may have been a block, so the host is not visited.
UNREADABLE_ORDERS = Orders(blocked=0)


def encode_orders(orders: Orders) -> bytes:
    """What was ordered, as JSON; nothing of what was not."""
    given = {name: value for name, value in orders._asdict().items() if value is not None}
    return json.dumps(given, separators=(",", ":")).encode()


def decode_orders(value: bytes) -> Orders:
    """The orders in a row. Raises `UnreadableRow` on anything but a JSON object with a sane delay and
    time."""
    try:
        found = json.loads(value)
        delay, blocked = found.get("delay"), found.get("blocked")
        if delay is not None and not 0 <= float(delay) < float("inf"):
            raise ValueError(f"a delay of {delay}")
        return Orders(None if delay is None else float(delay), None if blocked is None else int(blocked))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise UnreadableRow(f"orders row of {len(value)} bytes: {error}") from error


def read_orders(store: Store, host: str) -> Orders:
    """The orders for *host*; `UNREADABLE_ORDERS` where the row cannot be read. One lookup."""
    stored = store.get(orders_key(host))
    return Orders() if stored is None else decode_or_none(decode_orders, stored) or UNREADABLE_ORDERS


def all_orders(store: Store) -> Iterator[tuple[str, Orders]]:
    """Hosts and what was ordered for them; `UNREADABLE_ORDERS` where these cannot be read. O(these)."""
    for key, value in store.scan(ORDERS):
        yield key[1:].decode(errors="replace"), decode_or_none(decode_orders, value) or UNREADABLE_ORDERS


FORGIVEN = 1800.0  # seconds without trouble, counted from the end of the rest
LONGEST_ASKED = 86_400.0  # seconds of a Retry-After that are believed: a day

_ROW = struct.Struct(">dId")
_ANSWERING = 1 << 31  # beside the strikes


class Cooldown(NamedTuple):
    """A host's rest ``until`` (POSIX seconds) and why; ``since`` is when the last strike was counted, and
    whether the host ``is_answering`` again after that."""

    until: float
    strikes: int
    since: float
    reason: str
    is_answering: bool = False

    def is_forgiven(self, now: float) -> bool:
        """Whether the host answers again, and its rest was over `FORGIVEN` seconds before *now*: strikes
        start over."""
        return self.is_answering and now >= self.until + FORGIVEN

    def seen_at(self, now: float) -> Cooldown:
        """Returns the cooldown as of *now*: a clock that was set back must not make the host rest for longer
        than it had to."""
        return self._replace(until=now + self.until - self.since, since=now) if self.since > now else self


def read_cooldown(store: Store, host: str) -> Cooldown | None:
    """The cooldown of *host*; None where there is none, or none that can be read. One lookup."""
    return decode_or_none(decode_cooldown, store.get(cooldown_key(host)))


def encode_cooldown(cooldown: Cooldown) -> bytes:
    """20 bytes and the reason; strikes beyond 2**31 - 1 are not counted."""
    strikes = min(cooldown.strikes, _ANSWERING - 1) | (_ANSWERING if cooldown.is_answering else 0)
    head = _ROW.pack(cooldown.until, strikes, cooldown.since)
    return head + cooldown.reason.encode("utf-8", "replace")


def decode_cooldown(value: bytes) -> Cooldown:
    """The cooldown that `encode_cooldown` made a row of. Raises `UnreadableRow` on other bytes."""
    try:
        until, strikes, since = _ROW.unpack_from(value)
        strikes, is_answering = strikes & ~_ANSWERING, bool(strikes & _ANSWERING)
        if not (strikes and 0 <= since <= until < since + 2 * LONGEST_ASKED * 366):
            raise ValueError(f"strike {strikes} at {since} until {until}")
        return Cooldown(until, strikes, since, value[_ROW.size :].decode(), is_answering)
    except (struct.error, ValueError) as error:
        raise UnreadableRow(f"cooldown row of {len(value)} bytes: {error}") from error


def may_be_only_seen(page: Page) -> bool:
    """Whether the index row of *page* is to say that its own row must be asked: it is not queued, or will
    not be when the process that has its request has ended."""
    return page.is_only_seen or page.is_in_memory


_COUNTS = struct.Struct(f">QQQ{len(State)}QQQQ")


class Totals(NamedTuple):
    """What a frontier holds, of all runs together: pages by the name of their state, every page that was ever
    given an id, attempts, and hosts with a row. Finished pages that are ``due``, at whatever time, and those
    that stand in due queues: ``queued_again``."""

    states: dict[str, int]
    known: int
    attempts: int
    hosts: int
    due: int = 0
    queued_again: int = 0

    @property
    def finished(self) -> list[str]:
        """The names of the states that finished pages are in."""
        names = (state.name.lower() for state in FINISHED)
        return [name for name in names if self.states[name]]


@dataclass(slots=True, eq=False, repr=False)
class Counts:
    """Kept counters: next ids, attempts, pages in each state (``LEASED`` ones count as queued), host rows.

    Further visits of a page (``dont_filter``) count while they are queued, and no longer. Of the finished
    pages so many are ``queued_again``, in due queues, until their visits end; ``due`` counts those that come
    back later.
    """

    next_page: int
    next_visit: int
    attempts: int
    states: list[int]
    hosts: int = 0
    queued_again: int = 0
    due: int = 0

    @classmethod
    def none(cls) -> Counts:
        """Those of a frontier that holds nothing."""
        return cls(0, 0, 0, [0] * len(State))

    def totals(self) -> Totals:
        """What there is, for people."""
        states = {state.name.lower(): self.states[state] for state in State if state is not State.LEASED}
        return Totals(states, self.next_page, self.attempts, self.hosts, self.due, self.queued_again)


def encode_counts(counts: Counts) -> bytes:
    """112 bytes, 14 numbers; see ``format.md``."""
    begun = counts.next_page, counts.next_visit, counts.attempts
    return _COUNTS.pack(*begun, *counts.states, counts.hosts, counts.queued_again, counts.due)


def decode_counts(value: bytes) -> Counts:
    """The counts in a row. Raises `UnreadableRow`, also where no id is left to give."""
    try:
        next_page, next_visit, attempts, *others = _COUNTS.unpack_from(value)
    except struct.error as error:
        raise UnreadableRow(f"counts row of {len(value)} bytes: {error}") from error
    if max(next_page, next_visit) >= keys.FIRST_VISIT:
        raise UnreadableRow(f"counts row with page {next_page} and visit {next_visit} to come")
    return Counts(next_page, next_visit, attempts, others[: len(State)], *others[len(State) :])


def read_counts(store: Store) -> Counts:
    """The counts as they were committed last, zeros where there are none. Raises `UnreadableRow`."""
    stored = store.get(keys.COUNTS)
    return decode_counts(stored) if stored is not None else Counts.none()


class LastRanking(TypedDict, total=False):
    """What is kept of a ranking, of what it was told and found: ``at`` is when it ended (POSIX seconds). It
    ``moved`` so many queue rows, and so many pages had been ``read``."""

    at: float
    scorer: str
    pages: int
    links: int
    iterations: int
    error_bound: float | None
    seconds: float
    converged: bool
    moved: int
    read: int


def encode_ranking(about: Mapping[str, object]) -> bytes:
    """The row of a ranking: JSON."""
    return json.dumps(about).encode()


def last_ranking(store: Store) -> LastRanking | None:
    """What is kept of the last ranking; None if there was none, or none that can be read. One lookup."""
    try:
        found: LastRanking | None = json.loads(store.get(keys.RANKING) or b"null")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


_RATED_HOST = struct.Struct(">fffff")
RATES_SIZE = _RATED_HOST.size
_ALL = struct.Struct(">ddddd")
_STARTS = struct.Struct(">ddd")
_CONTENT = struct.Struct(">f")
_HISTORY = struct.Struct(">HHHH")
_HISTORY_COUNTS = 600.0  # what fades by a hundredth with each visit stays below 101
_HISTORY_SPANS = 1600.0  # steps a doubling: 60,000 years fit, to within 0.03 %


def encode_host_rates(rates: Iterable[float], losses: Iterable[float]) -> bytes:
    """The three numbers of *rates* and the two of *losses*."""
    return _RATED_HOST.pack(*rates, *losses)


def decode_host_rates(stored: bytes | None) -> tuple[float, ...]:
    """The five numbers of `encode_host_rates`; zeros if there is no row, or none that can be read."""
    return _RATED_HOST.unpack(_whole(_RATED_HOST, stored))


def encode_all_rates(rates: Iterable[float], multiplier: float, revisits: float) -> bytes:
    """The three numbers of *rates*, what a visit has to be worth, and how many *revisits* taught that."""
    return _ALL.pack(*rates, multiplier, revisits)


def decode_all_rates(stored: bytes | None) -> tuple[float, ...]:
    """The five numbers of `encode_all_rates`, read as `decode_host_rates` reads."""
    return _ALL.unpack(_whole(_ALL, stored))


def encode_starts(seconds: float, squares: float, last: float) -> bytes:
    """The three numbers of `revisits.learnt.Starts`."""
    return _STARTS.pack(seconds, squares, last)


def decode_starts(stored: bytes | None) -> tuple[float, ...]:
    """The three numbers of `encode_starts`, read as `decode_host_rates` reads."""
    return _STARTS.unpack(_whole(_STARTS, stored))


def encode_content(score: float) -> bytes:
    """What the callback of a page says it is worth: 4 bytes, single precision."""
    return _CONTENT.pack(score)


def decode_content(stored: bytes) -> float | None:
    """The score in a content row; None for one that cannot be read."""
    return _CONTENT.unpack(stored)[0] if len(stored) == _CONTENT.size else None


def encode_history(visits: float, changes: float, quiet: float, busy: float) -> bytes:
    """Eight bytes of the visits of a page: two counts and two spans in seconds, which fade; what is beyond
    their range is kept as the most they hold."""
    return _HISTORY.pack(
        *(min(round(count * _HISTORY_COUNTS), 0xFFFF) for count in (visits, changes)),
        *(min(round(log2(1.0 + span) * _HISTORY_SPANS), 0xFFFF) for span in (quiet, busy)),
    )


def decode_history(value: bytes) -> tuple[float, float, float, float]:
    """The visits, changes, quiet and busy seconds in the *value* of `encode_history`; of eight bytes any are
    a history."""
    visits, changes, quiet, busy = _HISTORY.unpack(value)
    counts = visits / _HISTORY_COUNTS, changes / _HISTORY_COUNTS
    return *counts, 2.0 ** (quiet / _HISTORY_SPANS) - 1.0, 2.0 ** (busy / _HISTORY_SPANS) - 1.0


def _whole(layout: struct.Struct, stored: bytes | None) -> bytes:
    """*stored* if it is finite numbers of that *layout*, else as many zeros."""
    is_whole = stored is not None and len(stored) == layout.size and all(map(isfinite, layout.unpack(stored)))
    return stored if is_whole and stored is not None else bytes(layout.size)


class Verdict(IntEnum):
    """What to do after asking for robots.txt. The numbers are written to disk: never change one."""

    ALLOW_ALL = 0  # there is no such file
    PARSE = 1  # obey the body
    POSTPONE = 2  # unknown: ask again, fetch nothing


LONGEST_VALIDATOR = 1_000  # characters of an ETag or a Last-Modified; a longer one is not sent back
_LARGEST_BODY = 2_048_000  # bytes of robots.txt, unpacked: four times what a crawl keeps
_SITE_ROW = struct.Struct(">BHdddB")


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
    head = _SITE_ROW.pack(copy.verdict, copy.status, copy.fetched, copy.ask_at, copy.failing_since, failures)
    validators = b"".join(map(_with_length, (copy.etag, copy.modified)))
    return head + validators + (zlib.compress(copy.body) if copy.body else b"")


def _with_length(text: str) -> bytes:
    raw = text.encode()
    return varint.encode(len(raw)) + raw


def decode_copy(value: bytes) -> RobotsCopy:
    """The robots.txt in a row. Raises `UnreadableRow` on other bytes; a body that grows beyond all limits
    is none of ours."""
    try:
        number, status, fetched, ask_at, failing_since, failures = _SITE_ROW.unpack_from(value)
        validators, body, offset = [], b"", _SITE_ROW.size
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
    is how true ``lastmod`` in its sitemaps proved (`sitemap_hints.HintAccuracy`); empty: unknown.
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
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableRow(f"sitemaps row of {len(value)} bytes: {error}") from error
