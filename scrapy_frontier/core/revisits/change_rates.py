"""How often a page changes, estimated: what its visits and those of its host showed goes in, rates come out.

Changes are taken to come at random at a steady rate (Poisson). Of ``n`` visits at an interval I of which
``X`` found a change, the improved estimator of Cho and Garcia-Molina (Estimating Frequency of Change, TOIT
2003) says ``log((n + .5) / (n - X + .5)) / I``: the likeliest rate where half a visit more found nothing.
Here the intervals may differ. Of visits that found nothing the likelihood asks no more than their summed
spans, of the others their number and their summed spans are kept.

A page may become another: what its visits showed fades, by some hundredths a visit and a day, and by far more
where what is seen now is unlike it.

Spans are in seconds, rates in changes a second. All values are frozen; change is a new value.

How honest the hints of a host are: sitemaps' word that a page has changed, believed as far as it was true.

All values are frozen; change is a new value.
"""

from __future__ import annotations

from math import exp, expm1, log, log1p
from typing import NamedTuple

_HINT_MEMORY = 1 - 1 / 64  # of what proved so far, a visit


class HintAccuracy(NamedTuple):
    """How true the hints of a host have proved, as ``lastmod`` in its sitemaps; the older, the fainter.

    ``hinted`` pages, each counted by the chance that it had not changed anyway; how many more of them were
    ``right`` than had to be expected; of the ``changes`` that were found how many were ``hinted_changes``.
    """

    hinted: float = 0.0
    right: float = 0.0
    changes: float = 0.0
    hinted_changes: float = 0.0

    @property
    def precision(self) -> float:
        """The chance that a hint tells of a change, 0 to 1; 1/2 where nothing is known."""
        return min(max((self.right + 1.0) / (self.hinted + 2.0), 0.0), 1.0)

    @property
    def is_trusted(self) -> bool:
        """Whether a hint makes a page due: at least every second one is right, which holds where nothing is
        known."""
        return self.precision >= 0.5

    @property
    def recall(self) -> float:
        """The share of changes that is hinted, 0 to less than 1; 0 where hints are not to be trusted.

        Two changes that nobody told of are added: a host that tells all is visited without a hint too.
        """
        return self.hinted_changes / (self.changes + 2.0) if self.is_trusted else 0.0


def judged(hints: HintAccuracy, is_hinted: bool, has_changed: bool, expected: float) -> HintAccuracy:
    """What is known of a host's hints after a visit of a page that was hinted since the last, or not.

    *expected* is the chance that it had changed anyway, by its rate. Generators stamp now on everything: what
    is hinted then has changed as often as anything has, which is not worth a hint.
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


DAY = 86400.0
# Seconds. A page that never changes has a rate too, and one that always does is not asked for all day long.
_SLOWEST, _FASTEST = 1 / (36500 * DAY), 1.0
_HALF = 0.5  # visit without a change: else one that changed every time would change without end
_EXPECTED = 1.5  # visits that what is expected of the host's pages is worth; 1 to 3 do as well
# The chance that a page has become another, a visit and a day, before one knows what the visit showed. To
# forget a tenth a visit, whatever it shows, keeps less fresh: docs/internals/revisit.md.
_ANEW_VISIT, _ANEW_DAY = 0.02, 0.005
_LEAST_FADING = 0.01
_MOST_ANEW = 0.9
_SPREAD = 0.7  # shape of the gamma distribution of rates on a host: they differ by powers of ten
# What a host or all hosts remember, in visits; and the visits of others that its own have to outweigh.
_MEMORY = 1 - 1 / 256
_OTHERS = 10.0


class History(NamedTuple):
    """What the visits of a page showed, the older the fainter; eight bytes as `rate_rows` keeps it.

    ``visits`` and how many of them were ``changes``; in seconds the ``quiet`` time, in which nothing changed,
    and the ``busy`` time, the spans in which something did.
    """

    visits: float = 0.0
    changes: float = 0.0
    quiet: float = 0.0
    busy: float = 0.0


def _with(history: History, span: float, has_changed: bool, quiet: float, anew: float) -> History:
    """The history after one more visit, *span* seconds after the one before.

    *quiet*: for so many of these seconds it is known that nothing changed although something did later, as an
    honest hint tells that came when it did. *anew*: the chance that the page has become another.
    """
    span = max(span, 0.0)
    quiet = min(max(quiet, 0.0), span) if has_changed else span
    kept = 1.0 - max(anew, _LEAST_FADING)
    return History(
        kept * history.visits + 1.0,
        kept * history.changes + has_changed,
        kept * history.quiet + quiet,
        kept * history.busy + span - quiet,
    )


def _anew(history: History, span: float, has_changed: bool, expected: float, likelier: float) -> float:
    """The chance that the page has become another, by how much better that explains what is seen; pages do so
    *likelier* than usual."""
    as_before = _unchanged(history.changes + 1.0, rate(history, expected), span)
    as_any = _unchanged(_SPREAD, min(max(expected, _SLOWEST), _FASTEST), span)
    if has_changed:
        as_before, as_any = 1.0 - as_before, 1.0 - as_any
    anew = min(likelier * _usually_anew(span), _MOST_ANEW)
    either = anew * as_any + (1.0 - anew) * as_before
    return anew * as_any / either if either > 0.0 else anew


def _usually_anew(span: float) -> float:
    return 1.0 - (1.0 - _ANEW_VISIT) * exp(-_ANEW_DAY * max(span, 0.0) / DAY)


def _unchanged(shape: float, mean_rate: float, span: float) -> float:
    """The chance of no change in *span*, at a rate of which no more than its mean and *shape* is known."""
    return exp(-shape * log1p(mean_rate * span / shape))


def rate(history: History, expected: float) -> float:
    """How often the page changes: its visits, and a few more that found what is *expected*.

    Positive and finite. Without a visit it is *expected*.
    """
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
    """The improved estimator, of visits alone; at least one, and some time between them.

    The root of ``changes * span / (exp(rate * span) - 1) = quiet + half a visit``, span the mean one that
    found a change.
    """
    visits, changes, quiet, busy = history
    quiet += _HALF * (quiet + busy) / visits
    if busy <= 1e-9 * quiet:
        return changes / quiet
    return changes / busy * log1p(busy / quiet)


def by_counts(visits: int, changes: int, seconds: float) -> History:
    """What *visits*, two at least, showed in so many *seconds*, of which *changes* found the page changed,
    where only how many there were is known."""
    seen, seconds = visits - 1, max(seconds, 1.0)
    busy = seconds * min(changes / seen, 1.0)
    return History(seen, changes, seconds - busy, busy)


class HostChangeRates(NamedTuple):
    """What the rates of a host's pages, or of all pages, are like: 12 bytes a host are enough.

    The mean of their logarithms over time, not over visits: pages that are visited often would count most.
    """

    visits: float = 0.0
    seconds: float = 0.0
    logs: float = 0.0


def learned(rates: HostChangeRates, page_rate: float, span: float) -> HostChangeRates:
    """What is known of a host, or of all pages, after one more visit of a page that changes at *page_rate*
    (changes a second), *span* seconds after the one before."""
    visits, seconds, logs = (_MEMORY * each for each in rates)
    return HostChangeRates(
        visits + 1.0, seconds + span, logs + span * log(min(max(page_rate, _SLOWEST), _FASTEST))
    )


def expected_rate(host: HostChangeRates, everywhere: HostChangeRates, unknown: float) -> float:
    """The rate to expect of a page of *host* of which nothing is known.

    That of the host's other pages as far as it was visited, else that *everywhere*; *unknown* at first.
    """
    return exp(_mean(host, _mean(everywhere, log(unknown), 1.0), _OTHERS))


def _mean(rates: HostChangeRates, others: float, weight: float) -> float:
    if rates.seconds <= 0.0:
        return others
    return (rates.visits * rates.logs / rates.seconds + weight * others) / (rates.visits + weight)


# -- all of it ------------------------------------------------------------------------------------------


class Observation(NamedTuple):
    """A revisit that answered, ``span`` seconds after the one before: whether the page ``has_changed``.

    ``is_listed``: a sitemap tells of each change of the page, for all it says. ``is_hinted``: it has told
    of one since the visit before.
    """

    span: float
    has_changed: bool
    is_listed: bool = False
    is_hinted: bool = False


class RateDrift(NamedTuple):
    """How many pages have become others of late, by what their visits showed, and how many usually do.

    Where many do at once, as when sites are made over, what was known of the others is doubted too.
    """

    found: float = 0.0
    usual: float = 0.0

    @property
    def likelier(self) -> float:
        """How much likelier than usual a page has become another: 1 to 30."""
        return min(max((self.found + _CALM) / (self.usual + _CALM), 1.0), _UPSET)


_CALM = 2.0  # pages that have to become others before that means anything
_UPSET = 30.0
_DRIFT_MEMORY = 1 - 1 / 1024


class RateEstimates(NamedTuple):
    """What is known of a page, of its host, of all pages, of the site's hints, and how many pages have
    become others."""

    history: History = History()
    host: HostChangeRates = HostChangeRates()
    everywhere: HostChangeRates = HostChangeRates()
    hints: HintAccuracy = HintAccuracy()
    drift: RateDrift = RateDrift()


_READ_EVERY = DAY  # a sitemap: what it tells has changed since it was read before


def observed(observation: Observation, known: RateEstimates, unknown: float) -> RateEstimates:
    """What is *known* after what was *observation*; *unknown* is a rate for who knows nothing.

    A failed fetch is no observation: do not call this.
    """
    span, has_changed, is_listed, is_hinted = observation
    history, host, everywhere, hints, drift = known
    expected = expected_rate(host, everywhere, unknown)
    anew = _anew(history, span, has_changed, expected, drift.likelier)
    quiet = span - _READ_EVERY if is_listed and is_hinted and hints.is_trusted else 0.0
    after = _with(history, span, has_changed, quiet, anew)
    if is_listed:
        anyway = -expm1(-rate(history, expected) * max(span, 0.0))
        hints = judged(hints, is_hinted, has_changed, anyway)
    found = rate(after, expected)
    drift = RateDrift(_DRIFT_MEMORY * drift.found + anew, _DRIFT_MEMORY * drift.usual + _usually_anew(span))
    return RateEstimates(after, learned(host, found, span), learned(everywhere, found, span), hints, drift)
