"""Who may ask that a host is left alone between two leases, and who of them decides.

The largest delay holds, whoever asks for it; what the operator ordered replaces all of them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

FROM_SETTINGS = "settings"  # DOWNLOAD_DELAY, DOWNLOAD_SLOTS, AutoThrottle
RESPONSE_TIME = "response time"
OPERATOR = "operator"
ROBOTS_TXT = "robots.txt"  # or its origin, where a host has several: any other source is a site
UNASKED = frozenset((FROM_SETTINGS, RESPONSE_TIME, OPERATOR))

# Of each new response time as much goes into the smoothed one: three slow answers in a row move it by half,
# a single one by a fifth.
_WEIGHT = 0.2


class Delay(NamedTuple):
    """Least ``seconds`` between two leases of a host, and the ``source`` that asks for them."""

    seconds: float
    source: str


def deciding(asked: Mapping[str, float]) -> Delay:
    """Which of the delays in seconds, by source, holds: the operator's, else the largest; of equals the one
    that was named first. There must be one."""
    if OPERATOR in asked:
        return Delay(asked[OPERATOR], OPERATOR)
    source = max(asked, key=asked.__getitem__)
    return Delay(asked[source], source)


def is_new(asked: Mapping[str, float], site: str, seconds: float) -> bool:
    """Whether it is new that *site* asks for *seconds*, 0 for none, beside the delays *asked* for so far.
    Nothing that a site asks for is where the operator's holds."""
    return asked.get(site, 0.0) != seconds and OPERATOR not in asked


@lru_cache(maxsize=64)
def by_settings(seconds: float) -> Mapping[str, float]:
    """What is asked of a host that only the settings speak of: one mapping for all; do not change it."""
    return {FROM_SETTINGS: seconds}


class ResponseDelay(NamedTuple):
    """How a host's delay follows its response time: at least ``factor`` times that, at most ``longest``
    seconds. A factor of 0: not at all."""

    factor: float = 0.0
    longest: float = 60.0

    def delay(self, response_time: float) -> float:
        """Seconds between two leases of a host that answers in *response_time* seconds; 0 with a factor of
        0."""
        return min(self.factor * response_time, self.longest)


def smoothed(before: float, response_time: float) -> float:
    """The smoothed response time, in seconds, after one more answer; *before* is 0 with the first."""
    return before + _WEIGHT * (response_time - before) if before else response_time
