"""Estimates how often a page changes, from its visits and those of other pages of its host.

The model is that changes come at random at a steady rate (Poisson). For ``n`` visits at an interval I of
which ``X`` found a change, the improved estimator of Cho and Garcia-Molina (Estimating Frequency of Change,
TOIT 2003) is ``log((n + .5) / (n - X + .5)) / I``: the likeliest rate if half a visit more had found no
change. Here the intervals may differ: the likelihood needs only the summed spans of the visits that found no
change, and the number and the summed spans of the others. Each visit fades the earlier ones.

Also estimates how far the ``lastmod`` of a site's sitemaps can be trusted (`HintAccuracy`).

All values are frozen. Spans are in seconds, rates in changes a second.
"""

from __future__ import annotations

from math import exp, expm1, log, log1p
from typing import NamedTuple

from ..store.records import History

DAY = 86400.0
# Changes a second: a page that was never found changed has a rate, too, and one that always was a finite one.
_SLOWEST, _FASTEST = 1 / (36500 * DAY), 1.0
_HALF = 0.5  # visits without a change that are added, or a page that changed every time had an infinite rate
_EXPECTED = 1.5  # visits that the expected rate of a page of the host counts for; 1 to 3 do as well
_KEPT = 0.9  # part of the history of a page that stays at each visit, since a page may change its behaviour
_MEMORY = 1 - 1 / 256  # part of the rates of a host, or of all pages, that stays at each visit
_OTHERS = 10.0  # visits of a host that the rates of all other hosts count for
_HINT_MEMORY = 1 - 1 / 64  # part of the accuracy of hints that stays at each visit


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
    """Return the change rate of a page by its visits and a few more at the rate *expected*; positive and
    finite."""
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
    """Return the improved estimator of a history of at least one visit and some time.

    It is the root of ``changes * span / (exp(rate * span) - 1) = quiet + half a visit``, where span is the
    mean span that found a change.
    """
    visits, changes, quiet, busy = history
    quiet += _HALF * (quiet + busy) / visits
    if busy <= 1e-9 * quiet:
        return changes / quiet
    return changes / busy * log1p(busy / quiet)


class HostChangeRates(NamedTuple):
    """The change rates of the pages of a host, or of all pages: the sums for the mean of their logarithms
    over time. A mean over visits would count pages most that are visited often."""

    visits: float = 0.0
    seconds: float = 0.0
    logs: float = 0.0


def learned(rates: HostChangeRates, page_rate: float, span: float) -> HostChangeRates:
    """Return the *rates* after one more visit of a page that changes at *page_rate*, *span* seconds after the
    visit before."""
    visits, seconds, logs = (_MEMORY * each for each in rates)
    return HostChangeRates(
        visits + 1.0, seconds + span, logs + span * log(min(max(page_rate, _SLOWEST), _FASTEST))
    )


def expected_rate(host: HostChangeRates, everywhere: HostChangeRates, unknown: float) -> float:
    """Return the rate to expect of a page without visits: that of its host, as far as that was visited, else
    that *everywhere*, else *unknown*."""
    return exp(_mean(host, _mean(everywhere, log(unknown), 1.0), _OTHERS))


def _mean(rates: HostChangeRates, others: float, weight: float) -> float:
    if rates.seconds <= 0.0:
        return others
    return (rates.visits * rates.logs / rates.seconds + weight * others) / (rates.visits + weight)


# -- hints of sitemaps ---------------------------------------------------------------------------------------


class HintAccuracy(NamedTuple):
    """How true the hints of a site proved, the ``lastmod`` in its sitemaps. All four numbers fade.

    ``hinted`` counts hints, each by the probability that its page had not changed anyway; ``right`` those
    that were right, beyond what was to be expected; ``changes`` the changes that were found, and
    ``hinted_changes`` those of them that had been hinted.
    """

    hinted: float = 0.0
    right: float = 0.0
    changes: float = 0.0
    hinted_changes: float = 0.0

    @property
    def precision(self) -> float:
        """The probability that a hint is right, 0 to 1; 1/2 without data."""
        return min(max((self.right + 1.0) / (self.hinted + 2.0), 0.0), 1.0)

    @property
    def is_trusted(self) -> bool:
        """Whether a hint makes a page due: at least every second one is right, or there is no data."""
        return self.precision >= 0.5

    @property
    def recall(self) -> float:
        """The share of changes that are hinted, 0 to less than 1; 0 if hints are not trusted. Two changes
        without a hint are added, so that a site that hints at all changes is visited without a hint, too."""
        return self.hinted_changes / (self.changes + 2.0) if self.is_trusted else 0.0


def updated_hints(hints: HintAccuracy, is_hinted: bool, has_changed: bool, expected: float) -> HintAccuracy:
    """Return the accuracy of a site's hints after a visit of a page that was hinted at since the visit
    before, or not.

    *expected* is the probability by its rate that the page had changed anyway: a generator that stamps the
    present time on every page is right as often as pages change, and its hints are worth nothing.
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
    """The history of a page, the rates of its host and of all pages, and the accuracy of its site's hints."""

    history: History = History()
    host: HostChangeRates = HostChangeRates()
    everywhere: HostChangeRates = HostChangeRates()
    hints: HintAccuracy = HintAccuracy()


def observed(
    known: Known, span: float, has_changed: bool, is_listed: bool, is_hinted: bool, unknown: float
) -> Known:
    """Return what is *known* after a visit that was answered, *span* seconds after the visit before.

    *is_listed*: a sitemap has a ``lastmod`` for the page; *is_hinted*: it has hinted at a change since the
    visit before; *unknown*: the rate to expect without data.
    """
    history, host, everywhere, hints = known
    expected = expected_rate(host, everywhere, unknown)
    if is_listed:
        anyway = -expm1(-rate(history, expected) * max(span, 0.0))
        hints = updated_hints(hints, is_hinted, has_changed, anyway)
    history = after_visit(history, span, has_changed)
    found = rate(history, expected)
    return Known(history, learned(host, found, span), learned(everywhere, found, span), hints)
