"""What a revisit is worth, and when it is worth asking again.

A page of weight w that changes at the rate r is fresh with chance exp(-r t) when its last visit is t seconds
ago. Visits at the span T keep it fresh for a share (1 - exp(-rT)) / rT of the time; to have the most fresh
weight for a number of visits a second, all pages that are visited at all have to meet one multiplier:

    value(T) = w / r * (1 - exp(-rT) * (1 + rT)) = multiplier

The value grows with T up to w / r, and a page for which that is less than the multiplier is not worth a
visit: it changes too fast for what it weighs. The page with the largest value now is the one to fetch now,
the best for the whole crawl with nothing solved for it (Azar and others, PNAS 2018).

Where a host tells of a share q of its changes, silence is news: the page is fresh with chance
exp(-(1 - q) r t) as long as nothing is told, and is asked when it is. The same calculation then gives

    value(T) = w / r * (1 - exp(-rT) - (exp(-(1 - q) rT) - exp(-rT)) / q)

All is pure: weights have no unit, rates are changes a second, spans are seconds, values weight times seconds.
"""

from __future__ import annotations

from math import exp, expm1, inf, sqrt
from typing import NamedTuple

SMALL = 1e-4  # below it the series, where the difference of nearly equal numbers would be noise
CERTAINLY_STALE = 60.0  # changes after which a page that was not told of is certainly stale
_PRECISE = 1e-12
HALVINGS = 40  # halvings: twelve digits of a span, eleven of a multiplier


def share(changes: float, recall: float = 0.0) -> float:
    """How much of its largest value a page has where *changes* are to be expected since its last visit.

    0 to 1, and growing. *recall*: the share of changes, less than 1, that would have been hinted.
    """
    if changes < SMALL:
        return (1.0 - recall) * changes * changes / 2.0
    if changes * (1.0 - recall) > 700.0:
        return 1.0
    gone = exp(-changes)
    silent = changes * gone if recall < SMALL else (exp(-(1.0 - recall) * changes) - gone) / recall
    return -expm1(-changes) - silent


def crawl_value(weight: float, rate: float, elapsed: float, recall: float = 0.0) -> float:
    """What a visit is worth *elapsed* seconds after the last one: 0 right after it, at most weight / rate.

    *weight* and *rate* (changes a second) above 0; *recall*: as in `share`.
    """
    return weight / rate * share(rate * max(elapsed, 0.0), recall)


def hinted_value(weight: float, rate: float, precision: float) -> float:
    """What a visit is worth of a page whose change was hinted: it has changed with the chance *precision*.

    *rate* is changes a second, above 0.
    """
    return precision * weight / rate


def best_span(weight: float, rate: float, multiplier: float, recall: float = 0.0) -> float:
    """Seconds after which a visit is worth *multiplier*; infinite where it never is, or where *weight* is not
    positive. *rate*: changes a second, above 0; *recall*: as in `share`. Newton's steps within a bracket; 10
    us."""
    if weight <= 0.0:
        return inf
    wanted = multiplier * rate / weight
    if wanted >= 1.0:
        return inf
    if wanted < SMALL * SMALL / 2.0:
        return sqrt(2.0 * wanted / (1.0 - recall)) / rate
    low, high = 0.0, CERTAINLY_STALE / (1.0 - recall)
    changes = min(sqrt(2.0 * wanted / (1.0 - recall)), high)
    for _ in range(HALVINGS):  # six or so are enough
        beyond = share(changes, recall) - wanted
        low, high = (changes, high) if beyond < 0.0 else (low, changes)
        slope = _slope(changes, recall)
        following = changes - beyond / slope if slope > 0.0 else low
        if not low < following < high:
            following = (low + high) / 2.0
        if abs(following - changes) <= _PRECISE * changes:
            break
        changes = following
    return changes / rate


def _slope(changes: float, recall: float) -> float:
    """How fast `share` grows."""
    gone = exp(-changes)
    if recall < SMALL:
        return changes * gone
    return gone + ((1.0 - recall) * exp(-(1.0 - recall) * changes) - gone) / recall


class Bounds(NamedTuple):
    """Seconds that a page rests at least, and at most, whatever it is worth."""

    shortest: float = 3600.0
    longest: float = 45 * 86400.0

    def within(self, span: float) -> float:
        """*span* in seconds, no less than ``shortest`` and no more than ``longest``, infinite ones too."""
        return min(max(span, self.shortest), self.longest)
