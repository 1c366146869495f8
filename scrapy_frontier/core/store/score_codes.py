"""Scores, weights and rates in 16 bits: `bucket` in keys of queues, `code` in due rows.

Both count steps of the binary logarithm, from 2**-40 to 2**24. They differ in what is smaller than that:
its bucket is 0, but its code is not, which would say that nothing is known. For many at once
`core.ranking.scorer` does the same.
"""

from __future__ import annotations

from math import log2

STEPS_A_DOUBLING = 1024  # from a number to its double: 0.07 % a step, 64 doublings in 16 bits
SMALLEST = -40  # binary logarithm of the least number that has a step of its own
TOP = 0xFFFF
LARGEST = 2.0**24  # what is more is as good
# The bucket of a page nothing is known about; to a scorer that follows links, one of 256 links of an average
# page.
NEUTRAL = 0x8000


def bucket(score: float) -> int:
    """The place of a score in a queue key, 0 to 65535; a doubling is 1024 steps, from 2**-40 to 2**24; 0 for
    what is not positive."""
    if not score > 0:
        return 0
    return min(max(round((log2(min(score, LARGEST)) - SMALLEST) * STEPS_A_DOUBLING), 0), TOP)


def code(number: float) -> int:
    """A number in 16 bits, to within .04 %; 0 for what is not positive."""
    return max(bucket(number), 1) if number > 0 else 0


def number_of(coded: int) -> float:
    """The number that `code` made *coded* of, to within .04 %; 0 for 0."""
    return 2.0 ** (coded / STEPS_A_DOUBLING + SMALLEST) if coded else 0.0
