"""URLs that look like traps: too long, too deep, or repeating themselves.

The checks need the URL alone, and run before it costs a row. They are linear in its length, but `repeats`,
which reads a bounded part of it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..parse.urls import wire_target

if TYPE_CHECKING:
    from collections.abc import Sequence

TRAPS = LONG_URL, DEEP_PATH, REPEATED_RUN = "length", "depth", "repeated_segments"  # kinds of refusals


@dataclass(frozen=True)
class TrapLimits:
    """Limits of a URL that is no trap: characters, path segments, repetitions; 0 switches a check off."""

    # characters; the longest URL Internet Explorer took, and so the longest a public page has
    length: int = 2083
    depth: int = 20  # path segments; Heritrix's default
    repeats: int = 3  # the same run of segments in a row; Heritrix and Nutch refuse the third


def trap(url: str, limits: TrapLimits) -> str | None:
    """Return why *url* looks like a trap, one of `TRAPS`; None if it does not. 1 us for most URLs."""
    if 0 < limits.length < len(url):
        return LONG_URL
    # An absolute URL has three pieces more than its path has segments, four where it ends with a slash.
    pieces = url.partition("?")[0].partition("#")[0].split("/")
    is_deep = 0 < limits.depth < len(pieces) - 3
    if not is_deep and len(pieces) - len(set(pieces)) < (limits.repeats or sys.maxsize) - 1:
        return None
    segments = [segment for segment in wire_target(url).partition("?")[0].split("/") if segment]
    if limits.depth and len(segments) > limits.depth:
        return DEEP_PATH
    if limits.repeats and repeats(segments) >= limits.repeats:
        return REPEATED_RUN
    return None


def repeats(segments: Sequence[str]) -> int:
    """Return how often some run of *segments* is repeated in a row: 3 for ``/a/b/a/b/a/b``. Quadratic in the
    number of segments, of which it reads the first 64."""
    head = segments[:64]  # with the depth check off a long path must stay cheap
    best = min(len(head), 1)
    for period in range(1, len(head) // 2 + 1):
        equal = 0
        for index in range(period, len(head)):
            equal = equal + 1 if head[index] == head[index - period] else 0
            best = max(best, equal // period + 1)
    return best
