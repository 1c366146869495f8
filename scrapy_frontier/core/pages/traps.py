"""URLs that look like traps: too long, too deep, or repeating themselves.

The checks look at URLs alone, so that they can be asked before a URL costs a row. All are linear in the
length of the URL but `repeats`, which bounds what it reads. Redirects that grow are `redirect_chains`', one
more URL for each session `urls.without_session`'s.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..parse.urls import wire_target

if TYPE_CHECKING:
    from collections.abc import Sequence

TRAPS = LONG_URL, DEEP_PATH, REPEATED_RUN = "length", "depth", "repeated_segments"  # kinds of refusals
WORDS = {  # by kind: what a page that led to one says of that
    LONG_URL: "its address is too long",
    DEEP_PATH: "its path has too many segments",
    REPEATED_RUN: "its path repeats itself",
}
_FEW = (5, 6, 7)  # slashes of a URL with three to five segments


@dataclass(frozen=True)
class TrapLimits:
    """Where a URL stops looking like a page: characters, path segments, runs. Zero switches a check off."""

    # characters; the longest URL Internet Explorer took, and so the longest a public page has
    length: int = 2083
    depth: int = 20  # path segments; Heritrix's default
    repeats: int = 3  # the same run of segments in a row; Heritrix and Nutch refuse the third

    @cached_property
    def slashes(self) -> int:
        """With fewer no URL is a trap for what its path looks like."""
        return 2 + min(self.repeats, self.depth + 1 if self.depth else self.repeats)

    @cached_property
    def longest(self) -> int:
        """Characters of a URL that is no trap for its length; with that check off as many as there are."""
        return self.length or sys.maxsize

    @cached_property
    def is_generous(self) -> bool:
        """Whether only runs of three make a trap of a URL with few slashes."""
        return not 0 < self.repeats < 3 and not 0 < self.depth < max(_FEW)


def trap(url: str, limits: TrapLimits) -> str | None:
    """Return why *url* looks like a trap, one of `TRAPS`; None when it does not, which takes a
    microsecond."""
    if len(url) > limits.longest:
        return LONG_URL
    slashes = url.count("/")
    if slashes in _FEW and limits.is_generous and url.find("//", 8) < 0:
        pieces = url.split("/")
        # Of so few segments none stands three times in a row unless two of the first four that follow each
        # other are the same; the query hides at most the last of the three.
        one, two, three = pieces[3:6]
        if one != two != three and (slashes == 5 or three != pieces[6]):
            return None
    pieces = url.rstrip("/").split("/")
    # An absolute URL has three pieces more than its path has segments. Of three that are the same two are
    # seen, whatever the query hides of the last.
    is_deep = limits.depth and len(pieces) - 3 > limits.depth
    if not is_deep and len(set(pieces)) == len(pieces) and not 0 < limits.repeats < 3:
        return None
    pieces = url.partition("?")[0].partition("#")[0].split("/")
    is_deep = limits.depth and len(pieces) - 3 > limits.depth
    if not is_deep and (not limits.repeats or len(pieces) - len(set(pieces)) < limits.repeats - 1):
        return None
    segments = [segment for segment in wire_target(url).partition("?")[0].split("/") if segment]
    if limits.depth and len(segments) > limits.depth:
        return DEEP_PATH
    if limits.repeats and repeats(segments) >= limits.repeats:
        return REPEATED_RUN
    return None


def repeats(segments: Sequence[str]) -> int:
    """Return how often the most repeated run of *segments* stands in a row: ``/a/b/a/b/a/b`` gives 3.

    Quadratic in the number of segments at worst; callers bound that by the depth limit. Reads at most 64
    segments.
    """
    head = segments[:64]  # with the depth check switched off, a long path must stay cheap
    best = min(len(head), 1)
    for period in range(1, len(head) // 2 + 1):
        equal = 0
        for index in range(period, len(head)):
            equal = equal + 1 if head[index] == head[index - period] else 0
            best = max(best, equal // period + 1)
    return best
