"""What is kept of a host, in three small rows: its counts and last visit, its orders, its rest after trouble.

The orders are kept apart from the host row: the crawl rewrites that with every page that ends, and a crawl
that starts over must not forget who asked to be left alone. ``docs/internals/format.md`` describes the
values.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ..errors import UnreadableRow, lenient
from .keys import ORDERS, cooldown_key, orders_key
from .states import EXCLUDED, FAILED, GONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .leveldb import Store
    from .states import State

_HOST = struct.Struct(">IIIdIIfII")
_HOSTS_BEFORE = struct.Struct(">IIIdIIfI"), struct.Struct(">IIIdIIf")  # the numbers they lack are 0
COUNTS = ("queued", "done", "failed", "deferred", "excluded", "answered", "queued_again")  # of its pages
_LAST_SECOND = 1e12  # what is later is no time


@dataclass(slots=True)
class HostRow:
    """What is kept of a host: pages queued, done and failed, when it was last visited (POSIX s), pages that
    wait for room in a budget, how many of those done are excluded ones, its smoothed response time (s, single
    precision; 0: not measured), how many of those excluded were answered all the same: refused then; and how
    many of those queued are to be visited again, and finished otherwise."""

    queued: int = 0
    done: int = 0
    failed: int = 0
    visited: float = 0.0
    deferred: int = 0
    excluded: int = 0
    response_time: float = 0.0
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
        """Pages that count against a budget of queued pages: not those that came back."""
        return self.queued - self.queued_again


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
    """40 bytes, of which only the counts and times of the row; see ``format.md``."""
    begun = row.queued, row.done, row.failed, row.visited, row.deferred, row.excluded
    return _HOST.pack(*begun, row.response_time, row.answered, row.queued_again)


def decode_host(value: bytes) -> HostRow:
    """The host row of this format or one before, where what it lacks is 0. Raises `UnreadableRow` on bytes
    that are none, or whose times are no times."""
    try:
        layout = next((each for each in (_HOST, *_HOSTS_BEFORE) if len(value) >= each.size), _HOST)
        row = HostRow(*layout.unpack_from(value))
    except struct.error as error:
        raise UnreadableRow(f"host row of {len(value)} bytes: {error}") from error
    if not -_LAST_SECOND < row.visited < _LAST_SECOND:  # nor NaN
        raise UnreadableRow(f"host row with a visit at second {row.visited}")
    if not 0.0 <= row.response_time < _LAST_SECOND:
        raise UnreadableRow(f"host row with a response time of {row.response_time} s")
    return row


class Orders(NamedTuple):
    """What the operator ordered for a host: ``delay`` in seconds replaces what the settings and the site say
    (None: no order); ``blocked`` is since when (POSIX seconds; None: it is not)."""

    delay: float | None = None
    blocked: int | None = None


# What stands for a row nobody can read: it may have been a block, so the host is left alone.
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
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise UnreadableRow(f"orders row of {len(value)} bytes: {error}") from error


def read_orders(store: Store, host: str) -> Orders:
    """The orders for *host*; `UNREADABLE_ORDERS` where the row cannot be read. One lookup."""
    stored = store.get(orders_key(host))
    return Orders() if stored is None else lenient(decode_orders, stored) or UNREADABLE_ORDERS


def all_orders(store: Store) -> Iterator[tuple[str, Orders]]:
    """Hosts and what was ordered for them; `UNREADABLE_ORDERS` where these cannot be read. O(these)."""
    for key, value in store.scan(ORDERS):
        yield key[1:].decode(errors="replace"), lenient(decode_orders, value) or UNREADABLE_ORDERS


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
        """The same for one who comes at *now*: a clock that was set back must not silence the host for longer
        than it had to rest."""
        return self._replace(until=now + self.until - self.since, since=now) if self.since > now else self


def read_cooldown(store: Store, host: str) -> Cooldown | None:
    """The cooldown of *host*; None where there is none, or none that can be read. One lookup."""
    return lenient(decode_cooldown, store.get(cooldown_key(host)))


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
