"""The rows there is one of: the kept counters, and the last ranking."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import UnreadableRecord
from . import keys
from .states import State

if TYPE_CHECKING:
    from .leveldb import Store
    from .page_rows import Page

IN_MEMORY = b'{"!":"memory"'  # so begins the payload of a page whose request only one process has


def may_be_only_seen(page: Page) -> bool:
    """Whether the index row of *page* is to say that its own row must be asked: it is not queued, or will
    not be when the process that has its request has ended."""
    is_only_seen = page.state is State.SEEN and not page.is_deferred
    return is_only_seen or page.payload.startswith(IN_MEMORY)


_COUNTS = struct.Struct(f">QQQ{len(State)}QQQQ")
_COUNTS_BEFORE = struct.Struct(f">QQQ{len(State)}QQ")  # the numbers it lacks are 0


class Totals(NamedTuple):
    """What a frontier holds, of all runs together: pages by the name of their state, every page that was ever
    given an id, attempts, and hosts with a row. Finished pages that are ``due``, at whatever time, and those
    that were and are queued: ``returning``."""

    states: dict[str, int]
    known: int
    attempts: int
    hosts: int
    due: int = 0
    returning: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Counts:
    """Kept counters: next ids, attempts, pages in each state (``LEASED`` ones count as queued), host rows.

    Further visits of a page (``dont_filter``) count while they are queued, and no longer. Of the queued ones
    so many are ``returning``: finished pages, which count as that too, until their visit ends. ``due`` counts
    those that come back later.
    """

    next_page: int
    next_visit: int
    attempts: int
    states: list[int]
    hosts: int = 0
    returning: int = 0
    due: int = 0

    @classmethod
    def none(cls) -> Counts:
        return cls(0, 0, 0, [0] * len(State))

    def totals(self) -> Totals:
        states = {state.name.lower(): self.states[state] for state in State if state is not State.LEASED}
        states["queued"] -= self.returning
        return Totals(states, self.next_page, self.attempts, self.hosts, self.due, self.returning)


def encode_counts(counts: Counts) -> bytes:
    """112 bytes; see ``format.md``."""
    begun = counts.next_page, counts.next_visit, counts.attempts
    return _COUNTS.pack(*begun, *counts.states, counts.hosts, counts.returning, counts.due)


def decode_counts(data: bytes) -> Counts:
    """The counts of this format or the one before. Raises `UnreadableRecord`."""
    try:
        layout = _COUNTS if len(data) >= _COUNTS.size else _COUNTS_BEFORE
        next_page, next_visit, attempts, *others = layout.unpack_from(data)
    except struct.error as error:
        raise UnreadableRecord(f"counts row of {len(data)} bytes: {error}") from error
    if max(next_page, next_visit) >= keys.FIRST_VISIT:
        raise UnreadableRecord(f"counts row with page {next_page} and visit {next_visit} to come")
    return Counts(next_page, next_visit, attempts, others[: len(State)], *others[len(State) :])


def read_counts(store: Store) -> Counts:
    """Raises `UnreadableRecord`."""
    stored = store.get(keys.COUNTS)
    return decode_counts(stored) if stored is not None else Counts.none()


def last_ranking(store: Store) -> dict[str, Any] | None:
    """What is kept of the last ranking; None if there was none, or none that can be read."""
    try:
        found = json.loads(store.get(keys.RANKING) or b"null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
