"""URLs that look like traps: too long, too deep, or repeating themselves.

The checks look at the URL alone, before it costs a row. All are linear in its length but `repeats`, which
bounds what it reads.
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
    """The most characters, path segments and repetitions of a URL that is no trap; 0 switches a check off."""

    # characters; the longest URL Internet Explorer took, and so the longest a public page has
    length: int = 2083
    depth: int = 20  # path segments; Heritrix's default
    repeats: int = 3  # the same run of segments in a row; Heritrix and Nutch refuse the third


def trap(url: str, limits: TrapLimits) -> str | None:
    """Return why *url* looks like a trap, one of `TRAPS`; None if it does not, which takes a microsecond."""
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
    """Return how often a run of *segments* is repeated at most: ``/a/b/a/b/a/b`` gives 3.

    Quadratic in the number of segments, of which it reads 64.
    """
    head = segments[:64]  # with the depth check off a long path must stay cheap
    best = min(len(head), 1)
    for period in range(1, len(head) // 2 + 1):
        equal = 0
        for index in range(period, len(head)):
            equal = equal + 1 if head[index] == head[index - period] else 0
            best = max(best, equal // period + 1)
    return best
