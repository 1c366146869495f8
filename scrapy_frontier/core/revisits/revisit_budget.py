"""What a revisit has to be worth, so that all together are as many as can be made: the multiplier.

By "adaptive" a crawl makes as many visits as if every page came back after its shelf life. A host that may
not be asked as often as its pages would like, by its delay and the time that the crawl runs, has a larger
multiplier of its own; others get what it cannot use. Solved from a sample of all pages, drawn in slices.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from math import exp, inf
from typing import TYPE_CHECKING, NamedTuple

from ..hosts.host import host_of_page
from ..store import due_rows, keys, rate_rows, score_codes
from .policy import Adaptive

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.page_rows import Page
    from ..store.visit_rows import Visits
    from .learnt_change_rates import LearntChangeRates
    from .multipliers import Sample
    from .plans import Plan, Plans, RevisitRule

SAMPLE = 1024  # pages: to solve for them takes 20 ms
DRAWS = 4 * SAMPLE  # at most, where few pages come back
_AT_A_TIME = 10  # pages a step, 20 us each
_EVERY = 3600.0  # seconds between two solutions
_FEW = 4  # pages in the sample that say nothing yet of their host
_BEHIND = 0.05  # share of what comes back that is due and was not visited
_FADING = 30 * 86400.0  # seconds


class Opened(NamedTuple):
    """Seconds the crawl was ``running``, of those that passed on the ``wall``, the older the fainter; and
    when this was noted (POSIX seconds, 0: never)."""

    running: float = 0.0
    wall: float = 0.0
    noted: float = 0.0

    @property
    def share(self) -> float:
        """The share of the time in which a host could be asked, 0 to 1."""
        return self.running / self.wall if self.wall > 0.0 else 1.0


def went_on(opened: Opened, now: float, is_running: bool = True) -> Opened:
    """*opened* at *now* (POSIX seconds), the crawl running since or not. A clock that was set back costs
    nothing."""
    passed = max(now - opened.noted, 0.0) if opened.noted else 0.0
    kept = exp(-passed / _FADING)
    return Opened(kept * opened.running + passed * is_running, kept * opened.wall + passed, now)


_Drawn = tuple[float, float, float, str]  # a page of the sample: its weight, rate, recall and host


@dataclass(eq=False, repr=False)
class RevisitBudget:
    """When pages come back by *rule*, which *plans* leave free to; *rates* say what is known of them.

    Owns the row of when the crawl was running. ``hosts`` are the multipliers of those at their limit.
    """

    _batch: Batch
    _score_of: Callable[[PageId], float | None]
    _rule: RevisitRule
    _plans: Plans
    _rates: LearntChangeRates
    _opened_at: float
    hosts: dict[str, float] = field(default_factory=dict, init=False)
    _sample: list[_Drawn] | None = field(default=None, init=False)  # while it is drawn
    # Hosts whose own multiplier is not solved yet.
    _left: list[tuple[str, Sample, float]] = field(default_factory=list, init=False)
    _drawn = 0
    _solved_at = -inf

    def __post_init__(self) -> None:
        # One of its own: by the frontier's the pauses drawn would depend on the pages of the sample.
        self._rng = random.Random(0)  # noqa: S311 - draws a sample, guards nothing
        rule, opened_at, stored = self._rule, self._opened_at, self._batch.store.get(keys.OPENED)
        opened = Opened(*rate_rows.decode_opened(stored))
        counts, before = self._batch.counts, opened.noted
        # A pause counts where it left something undone: who had visited all that was due had time enough.
        if counts.queued_again > _BEHIND * (counts.queued_again + counts.due):
            opened = went_on(opened, opened_at, is_running=False)
        self._bounds = rule.bounds
        if not rule.waits:  # a page is visited once a run: what is planned for between two of them is lost
            since = opened_at - before if before else inf
            shortest = max(rule.bounds.shortest, min(since, rule.shelf_life, rule.bounds.longest))
            self._bounds = rule.bounds._replace(shortest=shortest)
        self._opened = opened._replace(noted=opened_at)

    def note(self, now: float) -> None:
        """The crawl is running at *now*: have the open batch say so; by "adaptive" only."""
        if self._rates.is_adaptive:
            self._opened = went_on(self._opened, now)
            self._batch.rows[keys.OPENED] = rate_rows.encode_opened(*self._opened)

    # -- when ------------------------------------------------------------------------------------------

    def plan(self, page_id: PageId, page: Page, host: str, visits: Visits, weight: float) -> Plan:
        """When a page of *host* comes back: as its plan says, or after the span with which a visit is worth
        what it costs, unless somebody named one. *weight* is 1 for an average page."""
        plan, policy = self._plans.of(page_id, page), self._policy(host)
        if policy is None or plan.is_fixed or plan.span == inf:
            return plan
        recall = self._rates.hints_of(page).recall
        return plan._replace(span=policy.span(weight, self._rates.rate_of(host, visits), recall))

    def is_due_by_hint(self, host: str, page: Page, visits: Visits, weight: float, now: float) -> bool:
        """Whether a sitemap that tells of a change makes the page due: one to be trusted, if a visit is
        worth it."""
        hints, policy = self._rates.hints_of(page), self._policy(host)
        if policy is None or not hints.is_trusted or self._plans.of(0, page).is_fixed:
            return hints.is_trusted
        rate = self._rates.rate_of(host, visits)
        return policy.is_due_by_hint(weight, rate, hints.precision, now - visits.last)

    def _policy(self, host: str) -> Adaptive | None:
        rates = self._rates
        if not rates.is_adaptive or not rates.multiplier:
            return None
        return Adaptive(self.hosts.get(host, rates.multiplier), self._bounds)

    # -- what it costs ---------------------------------------------------------------------------------

    def is_due(self, now: float) -> bool:
        """Whether there is a step to take at *now*: a sample is being drawn, a host is to be solved, or an
        hour has passed. O(1)."""
        if not self._rates.is_adaptive:
            return False
        return self._sample is not None or bool(self._left) or now - self._solved_at >= _EVERY

    def step(self, now: float) -> None:
        """Draw some pages more, or solve once there are enough, 20 ms, and then for one host more."""
        if self._left:
            self._solve_one()
            return
        pages = self._batch.counts.next_page
        if self._sample is None:
            self._sample, self._drawn = [], 0
            self.note(now)
        for _ in range(min(_AT_A_TIME, pages)):
            self._draw(self._rng.randrange(pages))
        if len(self._sample) >= SAMPLE or self._drawn >= min(DRAWS, 4 * pages):
            self._solve(now)

    def _draw(self, page_id: PageId) -> None:
        self._drawn += 1
        page, rates = self._plans.page_of(page_id), self._rates
        visits = None if page is None else page.visits
        if page is None or visits is None or not visits.due or self._sample is None:
            return
        plan = self._plans.of(page_id, page)
        if plan.is_fixed or plan.span == inf:
            return
        host = host_of_page(page)
        rate, recall = rates.rate_of(host, visits), rates.hints_of(page).recall
        self._sample.append((self._weight(page_id, visits), rate, recall, host))

    def _weight(self, page_id: PageId, visits: Visits) -> float:
        """0 where nobody knows: of a page in a queue, in a crawl that scores none."""
        score = self._score_of(page_id)
        if score is not None:
            return score
        key = due_rows.due_key(visits.due, page_id)  # there is none of a page in a queue
        return score_codes.number_of(due_rows.decode_due(key, self._batch.store.get(key) or b"").weight)

    def _solve(self, now: float) -> None:
        from statistics import median

        from . import multipliers  # loads NumPy: for those who use it

        drawn, self._sample, self._solved_at = self._sample, None, now
        if not drawn or self._rule.shelf_life == inf:
            return
        # Draws may meet a page twice: of a small crawl more than all of it.
        stands_for = self._batch.counts.next_page / self._drawn
        budget = len(drawn) * stands_for / self._rule.shelf_life
        usual = median([weight for weight, *_ in drawn if weight] or [1.0])
        drawn = [(weight or usual, rate, recall, host) for weight, rate, recall, host in drawn]
        sample, names = multipliers.sample_of(drawn, stands_for)
        limits = multipliers.limits_of(sample, [self._limit(name) for name in names], _FEW)
        found, at_limit = multipliers.for_all(sample, budget, self._bounds, limits)
        limited = {names[each] for each in at_limit}
        self.hosts = {name: was for name, was in self.hosts.items() if name in limited}
        self._left = [(names[each], sample.of_host(each), float(limits[each])) for each in at_limit]
        self._rates.put_multiplier(found)
        self._rates.keep()

    def _limit(self, host: str) -> float:
        """Visits a second that *host* allows."""
        delay = self._rates.delay_of(host)
        return self._opened.share / delay if delay > 0.0 else inf

    def _solve_one(self) -> None:
        from . import multipliers

        host, sample, limit = self._left.pop()
        found = self.hosts[host] = multipliers.of_limit(sample, limit, self._bounds)
        # Where all are at their limit no budget is large enough; a host nobody drew is asked like these.
        self._rates.put_multiplier(self._rates.multiplier or found)
