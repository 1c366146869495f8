"""How often pages change, learnt from their visits: the rows of what is known of hosts, and of all pages.

Learnt with it is how far sites are to be trusted that tell of changes. `estimate_change_rates` calculates.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from ..hosts.sitemap_hints import HintAccuracy
from ..parse.urls import origin_of
from ..store import keys, rate_rows
from . import estimate_change_rates
from .estimate_change_rates import DAY, History, HostChangeRates, RateDrift, RateEstimates
from .plans import ADAPTIVE, RevisitRule
from .policy import age_value, due_value

if TYPE_CHECKING:
    from ..hosts.robots_and_sitemaps import RobotsAndSitemaps
    from ..store.batch import Batch
    from ..store.page_rows import Page
    from ..store.visit_rows import Visits
    from .plans import PayloadReader

_MOST_HOSTS = 10_000  # in memory
_NO_HINTS = HintAccuracy()


class LearntChangeRates:
    """What visits have taught, by *rule*; *sites* keep how honest sitemaps were. Whether one lists a page
    says *read_payload*.

    Rates of up to 10,000 hosts stay in memory, others cost a lookup each. What is learnt goes into the open
    batch.
    """

    def __init__(
        self, batch: Batch, sites: RobotsAndSitemaps, rule: RevisitRule, read_payload: PayloadReader
    ) -> None:
        self._batch = batch
        self._sites = sites
        self._read_payload = read_payload
        self.is_adaptive = rule.policy == ADAPTIVE
        self._unknown = 1.0 / rule.shelf_life if rule.shelf_life < inf else 1.0 / (7 * DAY)
        self._hosts: dict[str, tuple[HostChangeRates, float, int]] = {}
        *everywhere, multiplier, unlike, usual = rate_rows.decode_all_rates(batch.get(keys.RATES_OF_ALL))
        self._everywhere, self._drift = HostChangeRates(*everywhere), RateDrift(unlike, usual)
        self.multiplier = multiplier  # what a visit has to be worth everywhere; 0: nobody knows

    # -- what visits teach -----------------------------------------------------------------------------

    def expected(self, host: str) -> float:
        """Changes a second to expect of a page of *host* of which nothing is known; above 0. See
        `estimate_change_rates.expected_rate`."""
        return estimate_change_rates.expected_rate(self._of(host)[0], self._everywhere, self._unknown)

    def delay_of(self, host: str) -> float:
        """Seconds that *host* wanted between two visits when it was visited last; 0: none, or not known."""
        return self._of(host)[1]

    def blame_of(self, host: str) -> int:
        """What stands against *host*, most of whose pages were gone at once, 0 to 8; see
        `policy.Losses`."""
        return self._of(host)[2]

    def put_blame(self, host: str, blame: int) -> None:
        """Have that *blame*, 0 to 8, stand against *host* from now on, in the open batch; nothing where it
        does already."""
        rates, delay, before = self._of(host)
        if blame != before:
            self._put(host, rates, delay, blame)

    def _put(self, host: str, rates: HostChangeRates, delay: float, blame: int) -> None:
        self._hosts[host] = rates, delay, blame
        self._batch.rows[keys.rates_key(host)] = rate_rows.encode_host_rates(rates, delay, blame)

    def _of(self, host: str) -> tuple[HostChangeRates, float, int]:
        found = self._hosts.get(host)
        if found is None:
            stored = self._batch.get(keys.rates_key(host))
            *rates, delay, blame = rate_rows.decode_host_rates(stored)
            if len(self._hosts) >= _MOST_HOSTS:
                self._hosts.clear()
            found = self._hosts[host] = HostChangeRates(*rates), delay, blame
        return found

    def observed(
        self, host: str, delay: float, page: Page, visits: Visits, has_changed: bool, now: float
    ) -> Visits:
        """The *visits* after a revisit that showed whether the *page* of *host* has changed, with what that
        teaches; in the open batch. *page* is as it was before."""
        before = page.visits
        assert before is not None
        is_listed = self._read_payload(page.payload).is_listed
        span = max(now - before.last, 1.0)
        seen = estimate_change_rates.Observation(span, has_changed, is_listed, before.is_hinted)
        hints = self.hints_of(page)
        history = History(*rate_rows.decode_history(before.history))
        known = RateEstimates(history, self._of(host)[0], self._everywhere, hints, self._drift)
        found = estimate_change_rates.observed(seen, known, self._unknown)
        self._put(host, found.host, delay, self.blame_of(host))
        self._everywhere, self._drift = found.everywhere, found.drift
        if found.hints != hints:
            origin = origin_of(page.url) or ""
            sitemaps = self._sites.sitemaps_of(origin)
            self._sites.keep_sitemaps(origin, sitemaps._replace(hints=tuple(found.hints)))
        self.keep()
        return visits._replace(history=rate_rows.encode_history(*found.history))

    def put_multiplier(self, multiplier: float) -> None:
        """A visit has to be worth that everywhere from now on; `keep` puts it into the open batch."""
        self.multiplier = multiplier

    def keep(self) -> None:
        """Put what is known of all pages, and the ``multiplier``, into the open batch: one row."""
        about = self._everywhere, self.multiplier, self._drift
        self._batch.rows[keys.RATES_OF_ALL] = rate_rows.encode_all_rates(*about)

    # -- what is known ---------------------------------------------------------------------------------

    def rate_of(self, host: str, visits: Visits) -> float:
        """Changes a second of a page of *host* by what its *visits* showed; above 0. See
        `estimate_change_rates.rate`."""
        history = History(*rate_rows.decode_history(visits.history))
        return estimate_change_rates.rate(history, self.expected(host))

    def hints_of(self, page: Page) -> HintAccuracy:
        """How far the sitemaps of its site are to be trusted that tell of changes of *page*; where none
        does, nothing follows from silence. A lookup for a page that is listed."""
        if not self._read_payload(page.payload).is_listed:
            return _NO_HINTS
        return HintAccuracy(*self._sites.sitemaps_of(origin_of(page.url) or "").hints)

    def value(self, host: str, page: Page, visits: Visits, weight: float, now: float) -> float:
        """What puts due pages in order: the larger, the sooner. In days of a page of weight 1, by either
        policy.

        *weight* is the importance, 1 on average; a page that is listed costs a lookup.
        """
        if not self.is_adaptive:
            return age_value(weight, visits.last, now) / DAY
        hints = self.hints_of(page)
        precision = hints.precision if visits.is_hinted else 0.0
        rate_of_page = self.rate_of(host, visits)
        return due_value(weight, rate_of_page, now - visits.last, hints.recall, precision) / DAY
