"""Rows of pages that come back: when each is due; and how such a page stands in the queue of its host.

A due row takes 15 bytes: prefix, second and page id; flags, weight and rate. They are read in order of time,
so that finding what is due costs what that is, however many pages there are.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from . import keys
from .score_codes import TOP

if TYPE_CHECKING:
    from .keys import PageId

# What comes back stands behind all that is new, whatever the priority of that: no priority has this code.
_LAST = b"\xff\xff"  # no place at all
COMES_BACK = b"\xff\xff\xff\xff"
QUEUED_AGAIN = 1  # `Visits.due` of a page that was due, and stands in a queue
_VALUE = struct.Struct(">BHH")
_IS_HUB = 1
_HOUR = 3600
_UNDER_WAY = b" "


class Due(NamedTuple):
    """A page that comes back at ``when`` (POSIX seconds): whether it is a hub; its weight and how often it
    changes, as `score_codes.code` makes them (0: not known)."""

    when: int
    page_id: PageId
    is_hub: bool = False
    weight: int = 0
    rate: int = 0


def due_key(when: int, page_id: PageId) -> bytes:
    """The key of the due row of a page that comes back at *when*, a whole POSIX second of 32 bits."""
    return keys.DUE + when.to_bytes(4, "big") + keys.id_bytes(page_id)


def due_time(key: bytes) -> int:
    """When the page of a due row comes back (POSIX seconds)."""
    return int.from_bytes(key[1:5], "big")


def encode_due(due: Due) -> bytes:
    """The value of a due row: 5 bytes of flags, weight and rate; see ``format.md``."""
    return _VALUE.pack(_IS_HUB * due.is_hub, due.weight, due.rate)


def decode_due(key: bytes, value: bytes) -> Due:
    """A due row; not a hub, and weight and rate 0, where the value cannot be read."""
    flags, weight, rate = _VALUE.unpack(value) if len(value) == _VALUE.size else (0, 0, 0)
    return Due(due_time(key), int.from_bytes(key[5:], "big"), bool(flags & _IS_HUB), weight, rate)


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


def sort_key_of_due(place: int, weight: int, visited: int, page_id: PageId) -> bytes:
    """The sort key of a page that was due: those with the largest *place* first, then those *visited*
    longest ago. The *weight* is carried along."""
    behind = min(visited // _HOUR, 0xFFFFFF).to_bytes(3, "big") + weight.to_bytes(2, "big")
    return COMES_BACK + (TOP - place).to_bytes(2, "big") + behind + keys.id_bytes(page_id)


def last_sort_key_of_due(sort_key: bytes, turn: int) -> bytes:
    """The sort key behind all pages that were due but those with a higher *turn*, which is above
    `turn_in`."""
    turns = min(turn, 0xFFFFFF).to_bytes(3, "big")
    return COMES_BACK + _LAST + turns + sort_key[9:]


def turn_in(sort_key: bytes) -> int:
    """The turn in a sort key that is behind all others, or the hour of its visit in one that is not: behind
    all that are due for nothing, too."""
    return int.from_bytes(sort_key[6:9], "big")


def is_sort_key_of_due(sort_key: bytes) -> bool:
    """Whether the page with that sort key stands in its queue as one that came back."""
    return sort_key.startswith(COMES_BACK)


def weight_in(sort_key: bytes) -> int:
    """The weight of a page that was handed out: carried along, or the score bucket of a page that was new."""
    if is_sort_key_of_due(sort_key):
        return int.from_bytes(sort_key[9:11], "big")
    return TOP - int.from_bytes(sort_key[4:6], "big")
