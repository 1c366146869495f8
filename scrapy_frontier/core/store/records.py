"""Encodes and decodes the rows of the database, by one table of fields for each kind of row.

A `Layout` has the types of the fields of a value, a letter each; it encodes values, and decodes and validates
bytes. A `Row` is one layout. The row of a page has several, of which those without information are left out.
All of them raise `UnreadableRow` for any other bytes, because a stranger may have written the database.

A change to the bytes of a row, here or in another file of this folder, has to raise `keys.FORMAT_VERSION` and
to update ``docs/internals/format.md``.
"""

from __future__ import annotations

import json
import math
import struct
import sys
import zlib
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypedDict, TypeVar

import numpy as np

from ..errors import UnreadableRow, decode_or_none
from . import keys
from .keys import EXCLUDED, FAILED, FINISHED, GONE, State, cooldown_key, orders_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from .keys import PageId
    from .leveldb import Store

_Value = TypeVar("_Value")

# -- the codec ---------------------------------------------------------------------------------------------

# Texts: the `struct` letter of their length, which stands in their place; their bytes follow all numbers.
_LENGTHS = {"t": "I", "b": "I"}
_UNREADABLE = (struct.error, ValueError, IndexError, OverflowError, TypeError, RecursionError, zlib.error)


class Layout:
    """Encodes values whose *fields* have these types, a letter each, and decodes them; 1 us.

    The letters are those of `struct`, big-endian, and ``t`` for text in UTF-8, ``b`` for bytes. Numbers have
    to be finite, unless it *allows_infinity*.
    """

    def __init__(self, fields: str, allows_infinity: bool = False) -> None:
        self._struct = struct.Struct(">" + "".join(_LENGTHS.get(field, field) for field in fields))
        self.size = self._struct.size  # bytes, without texts
        self.fields = fields
        self._texts = [(place, letter == "t") for place, letter in enumerate(fields) if letter in _LENGTHS]
        self._allows_infinity = allows_infinity
        self._floats = [place for place, letter in enumerate(fields) if letter in "fd"]

    def encode(self, values: Iterable[Any]) -> bytes:
        """Return the bytes of *values*. Raises `struct.error` for a number that does not fit."""
        if not self._texts:
            return self._struct.pack(*values)
        numbers, texts = [*values], []
        for place, is_text in self._texts:
            text = numbers[place].encode("utf-8", "replace") if is_text else numbers[place]
            numbers[place] = len(text)
            texts.append(text)
        return self._struct.pack(*numbers) + b"".join(texts)

    def decode(self, row: bytes, offset: int = 0) -> tuple[list[Any], int]:
        """Return the values at *offset*, and the offset after them. Raises `ValueError` or `struct.error` if
        *row* ends early, a text is not UTF-8, or a number is NaN or infinite."""
        values = [*self._struct.unpack_from(row, offset)]
        offset += self.size
        for place, is_text in self._texts:
            end = offset + values[place]
            text = row[offset:end]
            values[place], offset = text.decode() if is_text else text, end
        if offset > len(row):
            raise ValueError("it ends early")
        for place in self._floats:
            is_infinite = math.isinf(values[place]) and not self._allows_infinity
            if is_infinite or math.isnan(values[place]):
                raise ValueError(f"a number is {values[place]}")
        return values, offset


class Row(Generic[_Value]):
    """A kind of row that is one `Layout`: *make* makes a value from its fields, and may raise `ValueError`;
    *fields_of* returns the fields of a value, by default its items."""

    def __init__(
        self,
        name: str,
        fields: str,
        make: Callable[..., _Value],
        fields_of: Callable[[Any], Iterable[Any]] = tuple,
    ) -> None:
        self.name = name
        self.layout = Layout(fields)
        self._make = make
        self._fields_of = fields_of

    def encode(self, value: _Value) -> bytes:
        """Return the row of *value*."""
        return self.layout.encode(self._fields_of(value))

    def decode(self, row: bytes) -> _Value:
        """Return the value in *row*. Raises `UnreadableRow` for any other bytes."""
        try:
            values, end = self.layout.decode(row)
            if end < len(row):
                raise ValueError("it goes on behind its end")
            return self._make(*values)
        except _UNREADABLE as error:
            raise _unreadable(self.name, row, error) from error

    def read(self, row: bytes | None) -> _Value | None:
        """Return the value in *row*; None if there is none, or it cannot be read."""
        return decode_or_none(self.decode, row)


def _unreadable(name: str, row: bytes, error: Exception) -> UnreadableRow:
    return UnreadableRow(f"{name} row of {len(row)} bytes: {error}")


def _between(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}")


# -- pages -------------------------------------------------------------------------------------------------


class Validators(NamedTuple):
    """The validators of a response, byte for byte; empty if the server sent none, or more than 255 bytes."""

    etag: bytes = b""
    last_modified: bytes = b""


NO_VALIDATORS = Validators()


class BadVisits(NamedTuple):
    """Failed visits in a row: how many, the ``result`` of the first (the number of a
    `revisits.policy.Result`), which a second one has to confirm, and since when (POSIX seconds)."""

    visits: int = 0
    result: int = 0
    since: int = 0


NOT_BAD = BadVisits()


class History(NamedTuple):
    """The data of a change rate: the number of ``visits``, and of those that found ``changes``; the summed
    spans in seconds after which nothing had changed (``quiet``) or something had (``busy``). All four fade
    with each visit, and are stored in single precision."""

    visits: float = 0.0
    changes: float = 0.0
    quiet: float = 0.0
    busy: float = 0.0


NO_HISTORY = History()


class Visits(NamedTuple):
    """The visits of a page. Times are whole POSIX seconds.

    - ``first``, ``last``: the first and the last visit that was answered with the page or with "not
      modified"; ``changed``: the last that found it changed (0: none). ``visits`` and ``changes`` count them.
    - ``due``: when it comes back, 0 if it does not. ``is_queued``: that time has come, and it is in the due
      queue of its host.
    - ``history``: the data of its change rate. ``bad``: failed visits since.
    - ``digest`` of the content, five bytes or none; ``content_type``; ``length`` of the body in bytes;
      ``validators``.
    - ``unmodified``: how many 304s in a row the last visits got, ten at most.
    - ``is_hinted``: a sitemap has told of a change since the last visit.
    """

    first: int
    last: int
    changed: int = 0
    due: int = 0
    visits: int = 1
    changes: int = 0
    history: History = NO_HISTORY
    digest: bytes = b""
    content_type: str = ""
    length: int = 0
    bad: BadVisits = NOT_BAD
    validators: Validators = NO_VALIDATORS
    unmodified: int = 0
    is_hinted: bool = False
    is_queued: bool = False

    @property
    def is_scheduled(self) -> bool:
        """Whether it has a due row: it comes back, and is not queued for that yet."""
        return self.due > 0 and not self.is_queued


NO_VISITS = Visits(0, 0, visits=0)  # of a page that comes back and was never seen


class RequestFacts(NamedTuple):
    """What the frontier knows of the request in a payload, which it does not read.

    - ``is_seed``: it is a seed, or the target of redirects from one.
    - ``insists``: it is to be fetched even if its page is known (``dont_filter``).
    - ``is_sitemap``: its page is a sitemap. ``has_pattern``: only links by a pattern are followed.
    - ``is_unsafe``: it may change something (not GET or HEAD, or with a body), and is not repeated unasked.
    - ``is_in_memory``: only the process that made it has it; the payload only identifies it.
    - ``is_added``: the operator added it. ``from_public``: a public page of another host led to it.
    - ``shelf_life``: its page comes back after so many seconds; ``refresh``: the same, as a hub.
    - ``force``: its page is fetched if the last visit was before then (POSIX seconds).
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


NO_FACTS = RequestFacts()
IN_MEMORY = RequestFacts(is_in_memory=True)
_SWITCHES = 8  # fields of `RequestFacts` that are true or false


class Page(NamedTuple):
    """The record of a page.

    - ``payload``: its request, opaque here. ``visit_payload``: the request of its next attempt if that
      differs (a retry, the target of a redirect); removed when the visit ends. ``facts``: what the frontier
      knows of the request.
    - ``discovered``: when it was found (whole POSIX seconds); ``parent``: the id of the page that linked it
      first.
    - How it ended: HTTP ``status`` (0: none); when (``changed``, whole POSIX seconds); the ``target`` of its
      redirect; and why (``reason``).
    - ``is_deferred``: it is seen, and waits for room in a budget.
    - ``visits``: its visits, if it was read. ``lastmod``: the last change by its sitemap (POSIX seconds).
    """

    url: str
    state: State = State.QUEUED
    attempts: int = 0
    priority: int = 0
    discovered: int = 0
    parent: PageId | None = None
    host: str = ""  # the politeness key if it is not the host of the URL
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
        """Whether it is only known: neither queued so far nor waiting for room in a budget."""
        return self.state is State.SEEN and not self.is_deferred

    @property
    def is_in_memory(self) -> bool:
        """Whether only the process that has its request can make its next attempt."""
        return self.facts.is_in_memory and not self.visit_payload

    @property
    def is_due(self) -> bool:
        """Whether it is finished, and in a due queue."""
        return self.visits is not None and self.visits.is_queued


# A page row: the head, its URL, the parts that its flags name, in this order, and its payload.
# State and flags, attempts, priority, discovered, parent + 1, length of the URL
_HEAD = struct.Struct(">BBiIQI")
URL_SIZE = 4  # bytes of its last field
_HAS_HOST, _HAS_ENDING, _IS_DEFERRED, _HAS_VISITS, _HAS_FACTS = 0x08, 0x10, 0x20, 0x40, 0x80
_STATE_MASK = 0x07
_HOST_PART = Layout("t")
_ENDING = Layout("HIQt")  # status, changed, target + 1, reason
_ONCE, _OFTEN = b"\1", b"\0"  # the first byte of visits
_VISITED_ONCE = Layout("IIbtIbb")  # visited, due, digest, content type, length, the two validators
_VISITS = Layout("IIIIIIffffbtIHBIbbB??")  # the fields of `Visits`, in order
# Flags, numbers (0 unless their flag is set; a shelf life may be infinite), visit payload
_FACTS = Layout("Hddddb", allows_infinity=True)

_STATES = tuple(State)
_MAX_PRIORITY = (1 << 31) - 1


def encode_page(page: Page) -> bytes:
    """Return the row of a page: a head of 22 bytes, the URL, those of host, ending, visits and facts that it
    has, and its payload; see ``format.md``."""
    url = page.url.encode("utf-8", "surrogatepass")
    flags: int = page.state
    tail = page.payload
    if page.facts != NO_FACTS or page.lastmod is not None or page.visit_payload:
        flags |= _HAS_FACTS
        tail = _facts(page.facts, page.lastmod, page.visit_payload) + tail
    if page.visits is not None:
        flags |= _HAS_VISITS
        tail = _encode_visits(page.visits) + tail
    if page.changed:
        flags |= _HAS_ENDING
        target = 0 if page.target is None else page.target + 1
        tail = _ending(page.status, page.changed, target, page.reason) + tail
    if page.is_deferred:
        flags |= _IS_DEFERRED
    if page.host:
        flags |= _HAS_HOST
        tail = _HOST_PART.encode((page.host,)) + tail
    head = _page_head(flags, min(page.attempts, 255), page.priority, page.discovered, page.parent, len(url))
    return head + url + tail


def _page_head(
    flags: int, attempts: int, priority: int, discovered: int, parent: int | None, length: int
) -> bytes:
    clamped = min(max(priority, -_MAX_PRIORITY), _MAX_PRIORITY)
    return _HEAD.pack(flags, attempts, clamped, discovered, 0 if parent is None else parent + 1, length)


@lru_cache(maxsize=256)  # the links of a page have it in common; packing takes three times as long
def queued_head(priority: int, discovered: int, parent: int | None) -> bytes:
    """Return the head of the row of a new, queued page, without the length of its URL, which follows."""
    return _page_head(State.QUEUED, 0, priority, discovered, parent, 0)[:-URL_SIZE]


@lru_cache(maxsize=256)  # most pages of a second end in the same way
def _ending(status: int, changed: int, target: int, reason: str) -> bytes:
    return _ENDING.encode((min(status, 0xFFFF), changed, target, reason))


def _visited_once(
    visited: int, due: int, digest: bytes, content_type: str, length: int, *validators: bytes
) -> Visits:
    read = digest, content_type, length, NOT_BAD, Validators(*validators)
    return Visits(visited, visited, 0, due, 1, 0, NO_HISTORY, *read)


def _encode_visits(visits: Visits) -> bytes:
    once = visits.first, visits.due, visits.digest, visits.content_type, visits.length, *visits.validators
    if visits == _visited_once(*once):  # as most are
        return _ONCE + _VISITED_ONCE.encode(once)
    read = visits.digest, visits.content_type, visits.length
    kept = *visits.bad, *visits.validators, *visits[12:]
    return _OFTEN + _VISITS.encode((*visits[:6], *visits.history, *read, *kept))


def _decode_visits(row: bytes, offset: int) -> tuple[Visits, int]:
    form, offset = row[offset : offset + 1], offset + 1
    if form == _ONCE:
        once, offset = _VISITED_ONCE.decode(row, offset)
        return _visited_once(*once), offset
    if form != _OFTEN:
        raise ValueError(f"the visits are of the form {form!r}")
    seen, offset = _VISITS.decode(row, offset)
    bad, validators = BadVisits(*seen[13:16]), Validators(*seen[16:18])
    fields = *seen[:6], History(*seen[6:10]), *seen[10:13], bad, validators, *seen[18:]
    return Visits._make(fields), offset


@lru_cache(maxsize=256)
def _facts(facts: RequestFacts, lastmod: int | None, visit_payload: bytes) -> bytes:
    fields = (*facts, lastmod)
    flags = sum(1 << place for place, value in enumerate(fields) if value is not None and value is not False)
    return _FACTS.encode((flags, *(value or 0.0 for value in fields[_SWITCHES:]), visit_payload))


def _decode_facts(row: bytes, offset: int) -> tuple[RequestFacts, int | None, bytes, int]:
    """Return facts, ``lastmod`` and ``visit_payload`` at *offset*, and the offset after them."""
    (flags, *numbers, visit_payload), offset = _FACTS.decode(row, offset)
    is_there = [bool(flags >> place & 1) for place in range(_SWITCHES + len(numbers))]
    given = zip(numbers, is_there[_SWITCHES:], strict=True)
    *spans, lastmod = [number if each else None for number, each in given]
    facts = RequestFacts(*is_there[:_SWITCHES], *spans)
    return facts, None if lastmod is None else int(lastmod), visit_payload, offset


def decode_page(row: bytes) -> Page:
    """Return the page in a row that `encode_page` made. Raises `UnreadableRow` for any other bytes."""
    try:
        flags, attempts, priority, discovered, parent, length = _HEAD.unpack_from(row)
        offset = _HEAD.size + length
        if offset > len(row):
            raise ValueError("the URL ends early")
        url = row[_HEAD.size : offset].decode("utf-8", "surrogatepass")
        host, reason, status, changed, target = "", "", 0, 0, 0
        if flags & _HAS_HOST:
            (host,), offset = _HOST_PART.decode(row, offset)
        if flags & _HAS_ENDING:
            (status, changed, target, reason), offset = _ENDING.decode(row, offset)
        visits = None
        if flags & _HAS_VISITS:
            visits, offset = _decode_visits(row, offset)
        facts, lastmod, visit_payload = NO_FACTS, None, b""
        if flags & _HAS_FACTS:
            facts, lastmod, visit_payload, offset = _decode_facts(row, offset)
        return Page(
            url,
            _STATES[flags & _STATE_MASK],
            attempts,
            priority,
            discovered,
            parent - 1 if 0 < parent <= keys.MAX_ID + 1 else None,  # beyond that are no ids
            host,
            row[offset:],
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
    except _UNREADABLE as error:
        raise _unreadable("page", row, error) from error


# -- revisits ----------------------------------------------------------------------------------------------


def due_key(when: int, page_id: PageId) -> bytes:
    """Return the key of the due row of a page that comes back at *when*, a POSIX second of 32 bits; the row
    has no value."""
    return keys.DUE + when.to_bytes(4, "big") + keys.id_bytes(page_id)


def due_time(key: bytes) -> int:
    """Return when the page of a due row comes back (POSIX seconds)."""
    return int.from_bytes(key[1:5], "big")


def due_page(key: bytes) -> PageId:
    """Return the page of a due row."""
    return int.from_bytes(key[5:], "big")


def is_due_key(key: bytes) -> bool:
    """Return whether *key* has the length of the key of a due row."""
    return len(key) == 1 + 4 + keys.ID_BYTES


def _numbers(*values: float) -> tuple[float, ...]:
    return values


# Change rates of a host (`change_rates.HostChangeRates`); the same of all pages, with the multiplier and the
# number of revisits that it was learned from (`LearnedRates`).
RATES = Row("rates", "fff", _numbers)
RATES_OF_ALL = Row("rates of all", "ddddd", _numbers)

# -- hosts -------------------------------------------------------------------------------------------------

HOST_COUNTS = ("queued", "done", "failed", "deferred", "excluded", "queued_again")  # of its pages
_LAST_SECOND = 1e12  # later times are refused


@dataclass(slots=True)
class HostRow:
    """The row of a host: its pages ``queued``, ``done``, ``failed`` and ``deferred``; those among the
    ``done`` that were ``excluded`` without an answer; finished pages in its due queue (``queued_again``); and
    when it was ``visited`` last (POSIX seconds)."""

    queued: int = 0
    done: int = 0
    failed: int = 0
    visited: float = 0.0
    deferred: int = 0
    excluded: int = 0
    queued_again: int = 0

    def count_ended(self, state: State, change: int = 1, status: int = 0) -> None:
        """Add *change* to the pages that ended in *state* with this HTTP *status*. Only pages that were
        excluded without an answer (*status* 0) count as ``excluded``: the others cost their host a
        request."""
        if state in (FAILED, GONE):
            self.failed += change
            return
        self.done += change
        if state is EXCLUDED and not status:
            self.excluded += change

    @property
    def fetched(self) -> int:
        """Pages that count against a budget: those that ended, but for those excluded without an answer."""
        return self.done + self.failed - self.excluded


class KeptHost(HostRow):
    """A host row in memory, with the ``name`` of its host; a batch that touches it writes it as it is then.

    ``prefix`` is that of its queue rows; ``is_kept``: it has a row, on the disk or in the open batch.
    """

    __slots__ = ("is_kept", "name", "prefix")

    __eq__ = object.__eq__  # by identity
    __hash__ = object.__hash__

    is_kept: bool
    name: str
    prefix: bytes


def _host(*numbers: Any) -> HostRow:
    row = HostRow(*numbers)
    _between("its last visit", row.visited, -_LAST_SECOND, _LAST_SECOND)
    return row


HOST = Row("host", "IIIdIII", _host, attrgetter(*HostRow.__slots__))


class Orders(NamedTuple):
    """Orders of the operator for a host: its ``delay`` in seconds, in place of all others (None: no order),
    and since when it is ``blocked`` (POSIX seconds; None: it is not).

    They have a row of their own, because the row of the host is written anew with every page that ends.
    """

    delay: float | None = None
    blocked: int | None = None


# In place of a row that cannot be read: it may have been a block, so the host is not visited.
UNREADABLE_ORDERS = Orders(blocked=0)


def _orders(is_delay: bool, delay: float, is_blocked: bool, blocked: int) -> Orders:
    _between("the delay", delay, 0.0, sys.float_info.max)
    return Orders(delay if is_delay else None, blocked if is_blocked else None)


def _fields_of_orders(orders: Orders) -> tuple[bool, float, bool, int]:
    delay, blocked = orders
    return delay is not None, delay or 0.0, blocked is not None, blocked or 0


ORDERS = Row("orders", "?d?I", _orders, _fields_of_orders)


def read_orders(store: Store, host: str) -> Orders:
    """Return the orders for *host*; `UNREADABLE_ORDERS` if the row cannot be read. One lookup."""
    stored = store.get(orders_key(host))
    return Orders() if stored is None else ORDERS.read(stored) or UNREADABLE_ORDERS


def all_orders(store: Store) -> Iterator[tuple[str, Orders]]:
    """Yield each host with orders, and these; `UNREADABLE_ORDERS` if the row cannot be read."""
    for key, value in store.scan(keys.ORDERS):
        yield key[1:].decode(errors="replace"), ORDERS.read(value) or UNREADABLE_ORDERS


FORGIVEN = 1800.0  # seconds without trouble, counted from the end of the rest
LONGEST_ASKED = 86_400.0  # seconds of a Retry-After that are believed: a day


class Cooldown(NamedTuple):
    """The rest of a host after trouble: ``until`` when (POSIX seconds), after how many ``strikes``, the time
    of the last one (``since``), its ``reason``, and whether the host ``is_answering`` again."""

    until: float
    strikes: int
    since: float
    reason: str
    is_answering: bool = False

    def is_forgiven(self, now: float) -> bool:
        """Return whether the strikes start over: the host answers again, and its rest ended `FORGIVEN`
        seconds before *now*."""
        return self.is_answering and now >= self.until + FORGIVEN

    def seen_at(self, now: float) -> Cooldown:
        """Return the cooldown as of *now*: a clock that was set back must not make the rest longer."""
        return self._replace(until=now + self.until - self.since, since=now) if self.since > now else self


def _cooldown(*fields: Any) -> Cooldown:
    cooldown = Cooldown(*fields)
    _between("the number of strikes", cooldown.strikes, 1, sys.maxsize)
    _between("the time of the last", cooldown.since, 0.0, cooldown.until)
    _between("the end of the rest", cooldown.until, 0.0, cooldown.since + 2 * LONGEST_ASKED * 366)
    return cooldown


COOLDOWN = Row("cooldown", "dIdt?", _cooldown)


def read_cooldown(store: Store, host: str) -> Cooldown | None:
    """Return the cooldown of *host*; None if there is none, or it cannot be read. One lookup."""
    return COOLDOWN.read(store.get(cooldown_key(host)))


# -- sites -------------------------------------------------------------------------------------------------


class Verdict(IntEnum):
    """What an answer to a request for robots.txt means. The numbers are on disk: never change one."""

    ALLOW_ALL = 0  # there is no such file
    PARSE = 1  # obey the body
    POSTPONE = 2  # unknown: ask again, fetch nothing


_LARGEST_BODY = 2_048_000  # bytes of robots.txt, unpacked: four times what a crawl keeps


class RobotsCopy(NamedTuple):
    """The stored robots.txt of an origin. Times are POSIX seconds.

    ``verdict``, ``fetched`` and ``body`` are of the last answer with a meaning (`Verdict.POSTPONE`: there was
    none); ``status`` is that of the last answer of all, 0 for none. The site is asked again at ``ask_at``.
    The last ``failures`` requests, ``failing_since`` then, did not reach the file; both 0 if the last one
    did.
    """

    verdict: Verdict = Verdict.POSTPONE
    status: int = 0
    fetched: float = 0.0
    ask_at: float = 0.0
    failing_since: float = 0.0
    failures: int = 0
    body: bytes = b""


def _robots_copy(number: int, *fields: Any) -> RobotsCopy:
    copy = RobotsCopy(Verdict(number), *fields)
    if not copy.body:
        return copy
    inflating = zlib.decompressobj()
    body = inflating.decompress(copy.body, _LARGEST_BODY)
    if not inflating.eof:
        raise ValueError("the file ends early, or never")
    return copy._replace(body=body)


def _fields_of_copy(copy: RobotsCopy) -> RobotsCopy:
    return copy._replace(body=zlib.compress(copy.body) if copy.body else b"")


ROBOTS = Row("robots", "BHdddIb", _robots_copy, _fields_of_copy)


class SiteSitemaps(NamedTuple):
    """What is known of the sitemaps of one origin: those ``listed`` in its robots.txt; whether these, or the
    usual one, were queued (``is_contacted``); and how true their ``lastmod`` proved (``hints``, a
    `change_rates.HintAccuracy`)."""

    listed: tuple[str, ...] = ()
    is_contacted: bool = False
    hints: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)


def _sitemaps(listed: str, is_contacted: bool, *hints: float) -> SiteSitemaps:
    return SiteSitemaps(tuple(listed.split()), is_contacted, hints)


def _fields_of_sitemaps(sitemaps: SiteSitemaps) -> tuple[Any, ...]:
    return "\n".join(sitemaps.listed), sitemaps.is_contacted, *sitemaps.hints


SITEMAPS = Row("sitemaps", "t?dddd", _sitemaps, _fields_of_sitemaps)

# -- the whole frontier ------------------------------------------------------------------------------------

MOST_FORGOTTEN = 1 << 24  # pages that were forgotten, and so take no space


class Totals(NamedTuple):
    """The counts of a frontier over all runs: pages by the name of their state, all pages that ever got an id
    (``known``), attempts, hosts with a row, pages that come back (``due``), and pages in due queues
    (``queued_again``)."""

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


def sum_of(several: Iterable[Totals]) -> Totals:
    """Return the sum of several totals."""
    every = [Counts.none().totals(), *several]
    states = {name: sum(totals.states[name] for totals in every) for name in every[0].states}
    return Totals(states, *map(sum, zip(*(totals[1:] for totals in every), strict=True)))


@dataclass(slots=True, eq=False, repr=False)
class Counts:
    """The stored counters: next ids, attempts, pages in each state (leased ones count as queued), host rows.

    Further visits of a page (``dont_filter``) count only while they are queued. ``queued_again`` counts
    finished pages in due queues, until their visits end; ``due`` those that come back later.
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
        """Make the counts of a frontier that holds nothing."""
        return cls(0, 0, 0, [0] * len(State))

    def totals(self) -> Totals:
        """Return the counters as `Totals`."""
        states = {state.name.lower(): self.states[state] for state in State if state is not State.LEASED}
        return Totals(states, self.next_page, self.attempts, self.hosts, self.due, self.queued_again)


def _counts(next_page: int, next_visit: int, attempts: int, *others: int) -> Counts:
    _between("the next page", next_page, 0, keys.FIRST_VISIT - 1)
    _between("the next visit", next_visit, 0, keys.FIRST_VISIT - 1)
    return Counts(next_page, next_visit, attempts, [*others[: len(State)]], *others[len(State) :])


def _fields_of_counts(counts: Counts) -> tuple[int, ...]:
    begun = counts.next_page, counts.next_visit, counts.attempts
    return (*begun, *counts.states, counts.hosts, counts.queued_again, counts.due)


COUNTS = Row("counts", "Q" * (6 + len(State)), _counts, _fields_of_counts)


def read_counts(store: Store) -> Counts:
    """Return the counts as they were committed last, zeros for a new store. Raises `UnreadableRow`, also if
    there are pages but no counts, since counting from 0 would overwrite them, and for more pages than the
    files have room for, since arrays over all pages would take all memory."""
    stored = store.get(keys.COUNTS)
    if stored is None and not store.keys_of(keys.PAGE, b"", 1):
        return Counts.none()
    stored = stored or b""
    counts = COUNTS.decode(stored)
    if counts.next_page > MOST_FORGOTTEN and counts.next_page - MOST_FORGOTTEN > store.size():
        raise _unreadable("counts", stored, ValueError(f"no room for {counts.next_page} pages"))
    return counts


class LastRanking(TypedDict, total=False):
    """What is stored of the last ranking: when it ended (``at``, POSIX seconds), its size and result, how
    many queue rows ``moved``, and how many pages had been ``read``."""

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
    """Return the row of a ranking: JSON."""
    return json.dumps(about).encode()


def last_ranking(store: Store) -> LastRanking | None:
    """Return what is stored of the last ranking; None if there was none, or it cannot be read. One lookup."""
    try:
        found: LastRanking | None = json.loads(store.get(keys.RANKING) or b"null")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


# -- columns of scorers ------------------------------------------------------------------------------------

_CODE = ">u2"


def column_prefix(name: str) -> bytes:
    """Return the prefix of the rows of a scorer's column *name*."""
    return keys.COLUMN + name.encode() + b"\0"


def column_key(name: str, first: int) -> bytes:
    """Return the key of the piece of a scorer's column *name* that begins with page *first*."""
    return column_prefix(name) + keys.id_bytes(first)


def split_column_key(key: bytes) -> tuple[str, int] | None:
    """Return column name and first page of a piece; None if *key* is not valid."""
    name, _, first = key[1:].partition(b"\0")
    is_one = name and len(first) == keys.ID_BYTES
    return (name.decode(errors="replace"), keys.id_in(first)) if is_one else None


def encode_codes(codes: NDArray[np.uint16]) -> bytes:
    """Return the value of a piece: two bytes a page."""
    return codes.astype(_CODE).tobytes()


def decode_codes(value: bytes) -> NDArray[np.uint16]:
    """Return the numbers of a piece; ignores half a number at the end."""
    return np.frombuffer(value[: len(value) // 2 * 2], _CODE).astype(np.uint16)


def _content(score: float) -> float:
    _between("the score", score, 0.0, math.inf)
    return score


def _one(score: float) -> tuple[float]:
    return (score,)


CONTENT = Row("content score", "f", _content, _one)
