"""What the user writes into a ``meta``: numbers, also as text, are read; else it is told what to set.

None and False say nothing. What is told is told once a value, for many requests may have it.
"""

from __future__ import annotations

import logging
import reprlib
from functools import lru_cache
from math import isfinite, nan
from typing import Any

logger = logging.getLogger(__name__)


def seconds(key: str, value: Any) -> float | None:
    """The *value* of *key* as seconds above 0, infinite ones too; None where it says nothing, or is told."""
    number = _number(value)
    if number is None or number > 0:
        return number
    not_obeyed(key, value, "seconds above 0, or inf")
    return None


def posix_time(key: str, value: Any) -> float | None:
    """The *value* of *key* as a time in POSIX seconds; None where it says nothing, or is told."""
    number = _number(value)
    if number is None or isfinite(number):
        return number
    not_obeyed(key, value, "a time in POSIX seconds, as of time.time()")
    return None


def not_obeyed(key: str, value: Any, wanted: str) -> None:
    """Say that the *value* of *key* is none that it may have, and what is *wanted*."""
    _say(key, reprlib.repr(value), wanted)


@lru_cache(maxsize=100)
def _say(key: str, value: str, wanted: str) -> None:
    words = "%s = %s in the meta of a request is not obeyed: set %s"
    logger.warning(words, key, value, wanted)


def _number(value: Any) -> float | None:
    """*value* as a number; NaN where it is none."""
    if value is None or value is False:
        return None
    if value is True or not isinstance(value, int | float | str):
        return nan
    try:
        return float(value)
    except (ValueError, OverflowError):  # a whole number may be any
        return nan
