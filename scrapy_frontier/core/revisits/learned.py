"""Learns from visits how often the pages of a host change, and what a visit has to be worth.

Owns the rows of rates (``u`` host, and one of all pages).
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from ..parse.urls import origin_of
from ..store import keys, records
from . import change_rates, policy
from .change_rates import DAY, HintAccuracy, HostChangeRates, Known
from .plans import ADAPTIVE
from .policy import FIRST_REVISITS, FIRST_SHARE, best_span, crawl_value, due_value, next_multiplier

if TYPE_CHECKING:
    from ..hosts.sites import Sites
    from ..store.batch import Batch
    from ..store.records import Page, Visits
    from .plans import RevisitPlan, RevisitRule

_NO_HINTS = HintAccuracy()


class LearnedRates:
    """The change rates and the multiplier learned from visits, for *rule*; *sites* store how true the hints
    of sitemaps proved.

    The rates of a host cost a lookup. All that is learned goes into the open batch.
    """

    def __init__(self, batch: Batch, sites: Sites, rule: RevisitRule) -> None:
        self._batch = batch
        self._sites = sites
        self._rule = rule
        self.is_adaptive = rule.policy == ADAPTIVE
        self._shelf_life = rule.shelf_life if rule.shelf_life < inf else 7 * DAY
        numbers = records.RATES_OF_ALL.read(batch.get(keys.RATES_OF_ALL)) or (0.0,) * 5
        self._everywhere = HostChangeRates(*numbers[:3])
        self._multiplier, self._revisits = numbers[3:]

    def _of(self, host: str) -> HostChangeRates:
        return HostChangeRates(*(records.RATES.read(self._batch.get(keys.rates_key(host))) or ()))

    # -- learning --------------------------------------------------------------------------------------

    def observed(self, host: str, page: Page, after: Visits, has_changed: bool, now: float) -> Visits:
        """Learn from a revisit that showed whether *page*, its record before, has changed; returns the visits
        *after* it with their new history."""
        before = page.visits
        assert before is not None
        hints, span = self.hints_of(page), max(now - before.last, 1.0)
        known = Known(before.history, self._of(host), self._everywhere, hints)
        is_listed, unknown = page.lastmod is not None, 1.0 / self._shelf_life
        found = change_rates.observed(known, span, has_changed, is_listed, before.is_hinted, unknown)
        self._batch.rows[keys.rates_key(host)] = records.RATES.encode(found.host)
        self._everywhere = found.everywhere
        if found.hints != hints:
            origin = origin_of(page.url) or ""
            sitemaps = self._sites.sitemaps_of(origin)
            self._sites.keep_sitemaps(origin, sitemaps._replace(hints=tuple(found.hints)))
        self._keep()
        return after._replace(history=found.history)

    def came_back(self, host: str, before: Visits, after: Visits, span: float, weight: float) -> None:
        """Adjust the multiplier to a revisit of a page without a fixed span; the next one is *span* seconds
        later."""
        if not before.visits or self._rule.shelf_life == inf:
            return
        self._revisits += 1.0
        if self._revisits <= FIRST_REVISITS:
            value = FIRST_SHARE * crawl_value(weight, self.rate_of(host, after), self._shelf_life)
            share = 1.0 / self._revisits
            self._multiplier = value**share * (self._multiplier ** (1.0 - share) if share < 1.0 else 1.0)
        else:
            pages = min(self._batch.counts.due + self._batch.counts.queued_again, int(self._revisits))
            elapsed, planned = (max(when - before.last, 0.0) for when in (after.last, before.due))
            about = elapsed, planned, span, self._shelf_life, pages
            self._multiplier = next_multiplier(self._multiplier, *about)
        self._keep()

    def _keep(self) -> None:
        about = *self._everywhere, self._multiplier, self._revisits
        self._batch.rows[keys.RATES_OF_ALL] = records.RATES_OF_ALL.encode(about)

    # -- what was learned ------------------------------------------------------------------------------

    def rate_of(self, host: str, visits: Visits) -> float:
        """Return the change rate of a page of *host* by its *visits*; above 0."""
        expected = change_rates.expected_rate(self._of(host), self._everywhere, 1.0 / self._shelf_life)
        return change_rates.rate(visits.history, expected)

    def hints_of(self, page: Page) -> HintAccuracy:
        """Return how true the hints of the site of *page* proved; the initial value if no sitemap lists
        *page*. A lookup for a page that is listed."""
        if page.lastmod is None:
            return _NO_HINTS
        return HintAccuracy(*self._sites.sitemaps_of(origin_of(page.url) or "").hints)

    def span(self, host: str, page: Page, visits: Visits, weight: float) -> float:
        """Return the seconds until a page of *host* comes back by "adaptive"."""
        if visits.visits < 2 or not self._multiplier:  # its rate is not known
            return self._shelf_life
        rate, recall = self.rate_of(host, visits), self.hints_of(page).recall
        return self._rule.bounds.within(best_span(weight, rate, self._multiplier, recall))

    def is_due_by_hint(
        self, host: str, page: Page, visits: Visits, plan: RevisitPlan, weight: float, now: float
    ) -> bool:
        """Return whether a hint of change makes the page due: its site is trusted, and a visit is worth
        it."""
        hints = self.hints_of(page)
        if not self.is_adaptive or not hints.is_trusted or plan.is_fixed:
            return hints.is_trusted
        is_rested = now - visits.last >= self._rule.bounds.shortest
        rate = self.rate_of(host, visits)
        return is_rested and policy.is_due_by_hint(self._multiplier, weight, rate, hints.precision)

    def value(self, host: str, page: Page, visits: Visits, weight: float, now: float) -> float:
        """Return the value by which due pages are ordered, largest first, in days of a page of weight 1; by
        "interval" that is weight times age. A page that a sitemap lists costs a lookup."""
        age = now - visits.last
        if not self.is_adaptive:
            return weight * max(age, 0.0) / DAY
        hints = self.hints_of(page)
        precision = hints.precision if visits.is_hinted else 0.0
        return due_value(weight, self.rate_of(host, visits), age, hints.recall, precision) / DAY
