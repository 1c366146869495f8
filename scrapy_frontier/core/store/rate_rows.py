"""Rows of numbers: how often pages change, those of a host and all; how long the crawl was open; and what its
callback says of a page.
"""

from __future__ import annotations

import struct
from math import log2
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_HOST = struct.Struct(">ffff")
_BLAMED_HOST = struct.Struct(">ffffB")
HOST_SIZES = (12, _HOST.size, _BLAMED_HOST.size)  # bytes; the shortest has no delay
_ALL = struct.Struct(">dddddd")
_ALL_SIZES = (32, _ALL.size)
_OPENED = struct.Struct(">ddd")
_CONTENT = struct.Struct(">f")
_HISTORY = struct.Struct(">HHHH")
_HISTORY_COUNTS = 600.0  # what fades by a hundredth with each visit stays below 101
_HISTORY_SPANS = 1600.0  # steps a doubling: 60,000 years fit, to within 0.03 %


def encode_host_rates(rates: Iterable[float], delay: float, blame: int) -> bytes:
    """The three numbers of *rates*; the *delay* in seconds at the last visit; *blame*, 0 to 8."""
    return _BLAMED_HOST.pack(*rates, delay, blame) if blame else _HOST.pack(*rates, delay)


def decode_host_rates(stored: bytes | None) -> tuple[float, float, float, float, int]:
    """Three numbers, delay, blame; what an older row lacks is 0, all of one that cannot be read."""
    return _BLAMED_HOST.unpack(_whole(_BLAMED_HOST, stored, HOST_SIZES))


def encode_all_rates(rates: Iterable[float], multiplier: float, drift: Iterable[float]) -> bytes:
    """The three numbers of *rates*, what a visit has to be worth, the two of *drift*."""
    return _ALL.pack(*rates, multiplier, *drift)


def decode_all_rates(stored: bytes | None) -> tuple[float, float, float, float, float, float]:
    """The six numbers of `encode_all_rates`, read as `decode_host_rates` reads."""
    return _ALL.unpack(_whole(_ALL, stored, _ALL_SIZES))


def encode_opened(running: float, wall: float, noted: float) -> bytes:
    """Seconds the crawl ran, seconds that passed, and when that was noted (POSIX seconds)."""
    return _OPENED.pack(running, wall, noted)


def decode_opened(stored: bytes | None) -> tuple[float, float, float]:
    """The three numbers of `encode_opened`, read as `decode_host_rates` reads."""
    return _OPENED.unpack(_whole(_OPENED, stored, (_OPENED.size,)))


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


def _whole(layout: struct.Struct, stored: bytes | None, sizes: tuple[int, ...]) -> bytes:
    known = stored if stored is not None and len(stored) in sizes else b""
    return known.ljust(layout.size, b"\0")
