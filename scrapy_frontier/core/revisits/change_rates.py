"""Estimates how often a page changes, from what its visits and those of its host's other pages showed.

Changes are taken to come at random at a steady rate (Poisson). Of ``n`` visits at an interval I of which
``X`` found a change, the improved estimator of Cho and Garcia-Molina (Estimating Frequency of Change, TOIT
2003) says ``log((n + .5) / (n - X + .5)) / I``: the likeliest rate if half a visit more had found nothing.
Here the intervals may differ: of visits that found nothing the likelihood needs only their summed spans, of
the others their number and their summed spans. Each visit fades what the earlier ones showed.

Beside that: how far the ``lastmod`` of a site's sitemaps is to be trusted (`HintAccuracy`).

All values are frozen. Spans are in seconds, rates in changes a second.
"""

from __future__ import annotations

from math import exp, expm1, log, log1p
from typing import NamedTuple

from ..store.records import History

DAY = 86400.0
# Seconds. A page that never changes has a rate too, and one that always does is not asked for all day long.
_SLOWEST, _FASTEST = 1 / (36500 * DAY), 1.0
_HALF = 0.5  # a visit without a change: else one that changed every time would change without end
_EXPECTED = 1.5  # visits that the rate expected of the host's pages is worth; 1 to 3 do as well
_KEPT = 0.9  # of what the visits of a page showed, with each further visit: a page may change its ways
# What a host or all hosts remember, in visits; and the visits of others that its own have to outweigh.
_MEMORY = 1 - 1 / 256
_OTHERS = 10.0
_HINT_MEMORY = 1 - 1 / 64  # of what hints proved so far, a visit


def after_visit(history: History, span: float, has_changed: bool) -> History:
    """Return the history after one more visit, *span* seconds after the one before."""
    span = max(span, 0.0)
    quiet = 0.0 if has_changed else span
    return History(
        _KEPT * history.visits + 1.0,
        _KEPT * history.changes + has_changed,
        _KEPT * history.quiet + quiet,
        _KEPT * history.busy + span - quiet,
    )


def rate(history: History, expected: float) -> float:
    """Return how often the page changes, by its visits and a few more that found what is *expected*. Positive
    and finite; *expected* without a visit."""
    visits, changes, quiet, busy = history
    expected = min(max(expected, _SLOWEST), _FASTEST)
    interval = (quiet + busy) / visits if visits else 0.0
    if interval <= 0.0:
        return expected
    share = -_EXPECTED * expm1(-expected * interval)
    quiet, busy = quiet + (_EXPECTED - share) * interval, busy + share * interval
    found = likeliest_rate(History(visits + _EXPECTED, changes + share, quiet, busy))
    return min(max(found, _SLOWEST), _FASTEST)


def likeliest_rate(history: History) -> float:
    """Return the improved estimator of visits alone: at least one, and some time between them.

    It is the root of ``changes * span / (exp(rate * span) - 1) = quiet + half a visit``, span the mean one
    that found a change.
    """
    visits, changes, quiet, busy = history
    quiet += _HALF * (quiet + busy) / visits
    if busy <= 1e-9 * quiet:
        return changes / quiet
    return changes / busy * log1p(busy / quiet)


class HostChangeRates(NamedTuple):
    """What the rates of the pages of a host, or of all pages, are like: the mean of their logarithms over
    time, not over visits, because pages that are visited often would count most."""

    visits: float = 0.0
    seconds: float = 0.0
    logs: float = 0.0


def learned(rates: HostChangeRates, page_rate: float, span: float) -> HostChangeRates:
    """Return what is known of a host, or of all pages, after one more visit of a page that changes at
    *page_rate*, *span* seconds after the one before."""
    visits, seconds, logs = (_MEMORY * each for each in rates)
    return HostChangeRates(
        visits + 1.0, seconds + span, logs + span * log(min(max(page_rate, _SLOWEST), _FASTEST))
    )


def expected_rate(host: HostChangeRates, everywhere: HostChangeRates, unknown: float) -> float:
    """Return the rate to expect of a page without visits: that of the host's other pages as far as it was
    visited, else that *everywhere*, else *unknown*."""
    return exp(_mean(host, _mean(everywhere, log(unknown), 1.0), _OTHERS))


def _mean(rates: HostChangeRates, others: float, weight: float) -> float:
    if rates.seconds <= 0.0:
        return others
    return (rates.visits * rates.logs / rates.seconds + weight * others) / (rates.visits + weight)


# -- hints of sitemaps ---------------------------------------------------------------------------------------


class HintAccuracy(NamedTuple):
    """How true the hints of a site have proved, the ``lastmod`` in its sitemaps; all four numbers fade.

    ``hinted`` pages, each counted by the chance that it had not changed anyway; how many more of them were
    ``right`` than had to be expected; of the ``changes`` that were found how many were ``hinted_changes``.
    """

    hinted: float = 0.0
    right: float = 0.0
    changes: float = 0.0
    hinted_changes: float = 0.0

    @property
    def precision(self) -> float:
        """The chance that a hint tells of a change, 0 to 1; 1/2 if nothing is known."""
        return min(max((self.right + 1.0) / (self.hinted + 2.0), 0.0), 1.0)

    @property
    def is_trusted(self) -> bool:
        """Whether a hint makes a page due: at least every second one is right, or nothing is known."""
        return self.precision >= 0.5

    @property
    def recall(self) -> float:
        """The share of changes that is hinted, 0 to less than 1; 0 if hints are not to be trusted. Two
        changes without a hint are added: a site that tells all is visited without a hint too."""
        return self.hinted_changes / (self.changes + 2.0) if self.is_trusted else 0.0


def judged(hints: HintAccuracy, is_hinted: bool, has_changed: bool, expected: float) -> HintAccuracy:
    """Return what is known of a site's hints after a visit of a page that was hinted since the last, or not.

    *expected* is the chance that it had changed anyway, by its rate: generators that stamp now on everything
    are right as often as anything changes, which is not worth a hint.
    """
    if not is_hinted and not has_changed:
        return hints
    hinted, right, changes, hinted_changes = hints
    if is_hinted:
        expected = min(max(expected, 0.0), 1.0)
        hinted = _HINT_MEMORY * hinted + 1.0 - expected
        right = _HINT_MEMORY * right + has_changed - expected
    if has_changed:
        changes = _HINT_MEMORY * changes + 1.0
        hinted_changes = _HINT_MEMORY * hinted_changes + is_hinted
    return HintAccuracy(hinted, right, changes, hinted_changes)


# -- all of it -------------------------------------------------------------------------------------------


class Known(NamedTuple):
    """What is known of a page, of its host, of all pages, and of the hints of its site."""

    history: History = History()
    host: HostChangeRates = HostChangeRates()
    everywhere: HostChangeRates = HostChangeRates()
    hints: HintAccuracy = HintAccuracy()


def observed(
    known: Known, span: float, has_changed: bool, is_listed: bool, is_hinted: bool, unknown: float
) -> Known:
    """Return what is *known* after a visit that answered, *span* seconds after the one before.

    *is_listed*: a sitemap tells when the page changed last; *is_hinted*: it has told of a change since the
    visit before; *unknown*: the rate to expect while nothing is known.
    """
    history, host, everywhere, hints = known
    expected = expected_rate(host, everywhere, unknown)
    if is_listed:
        anyway = -expm1(-rate(history, expected) * max(span, 0.0))
        hints = judged(hints, is_hinted, has_changed, anyway)
    history = after_visit(history, span, has_changed)
    found = rate(history, expected)
    return Known(history, learned(host, found, span), learned(everywhere, found, span), hints)
