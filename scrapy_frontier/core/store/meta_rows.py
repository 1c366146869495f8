"""The rows there is one of: the kept counters, and the last ranking."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from ..errors import UnreadableRow
from . import keys
from .states import FINISHED, State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .leveldb import Store
    from .page_rows import Page

IN_MEMORY = b'{"!":"memory"'  # so begins the payload of a page whose request only one process has


def may_be_only_seen(page: Page) -> bool:
    """Whether the index row of *page* is to say that its own row must be asked: it is not queued, or will
    not be when the process that has its request has ended."""
    return page.is_only_seen or page.payload.startswith(IN_MEMORY)


_COUNTS = struct.Struct(f">QQQ{len(State)}QQQQ")
_COUNTS_BEFORE = struct.Struct(f">QQQ{len(State)}QQ")  # the numbers it lacks are 0


class Totals(NamedTuple):
    """What a frontier holds, of all runs together: pages by the name of their state, every page that was ever
    given an id, attempts, and hosts with a row. Finished pages that are ``due``, at whatever time, and those
    that were and are queued: ``queued_again``."""

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

    Further visits of a page (``dont_filter``) count while they are queued, and no longer. Of the queued ones
    so many are ``queued_again``: finished pages, which count as that too, until their visit ends. ``due``
    counts those that come back later.
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
        """What there is, for people: of the queued pages those that came back are counted apart."""
        states = {state.name.lower(): self.states[state] for state in State if state is not State.LEASED}
        states["queued"] -= self.queued_again
        return Totals(states, self.next_page, self.attempts, self.hosts, self.due, self.queued_again)


def encode_counts(counts: Counts) -> bytes:
    """112 bytes, 14 numbers; see ``format.md``."""
    begun = counts.next_page, counts.next_visit, counts.attempts
    return _COUNTS.pack(*begun, *counts.states, counts.hosts, counts.queued_again, counts.due)


def decode_counts(value: bytes) -> Counts:
    """The counts of this format or the one before. Raises `UnreadableRow`, also where no id is left to
    give."""
    try:
        layout = _COUNTS if len(value) >= _COUNTS.size else _COUNTS_BEFORE
        next_page, next_visit, attempts, *others = layout.unpack_from(value)
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
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
