"""How often pages change, learnt from their visits, and what a visit may cost: the multiplier.

Owns the rows of what is known of hosts, and the one of all pages and the multiplier. What a crawl may spend
is what it would spend if every page came back after its shelf life; the multiplier is where the best use of
that is. It is solved from a sample of all pages, drawn in slices.
"""

from __future__ import annotations

import random
import struct
from math import inf
from typing import TYPE_CHECKING

from ..errors import UnreadableRecord
from ..hosts.change_rates import (
    HostRates,
    expected_rate,
    learned,
    pack_history,
    rate,
    unpack_history,
    visited,
)
from ..parse.urls import host_of
from ..store import due_rows, keys, page_rows
from ..store.due_rows import QUEUED_AGAIN
from .revisit_policy import Adaptive, age_value, due_value
from .revisit_wishes import ADAPTIVE

if TYPE_CHECKING:
    from ..store.batch import Batch
    from ..store.leveldb import Store
    from ..store.visit_rows import Visits
    from .revisit_wishes import Plan, Plans, RevisitRule

SAMPLE = 1024  # pages: to solve for them takes 20 ms
DRAWS = 4 * SAMPLE  # at most, where few pages come back
_AT_A_TIME = 10  # pages a step, 20 us each
_EVERY = 3600.0  # seconds between two solutions
HOST_RATES = struct.Struct(">fff")
_ALL = struct.Struct(">dddd")
_MOST_HOSTS = 10_000  # in memory
_DAY = 86400.0


class PageRates:
    """What visits have taught, by *rule*; *plans* say which pages are free to come back when they are worth
    it."""

    def __init__(self, store: Store, batch: Batch, rule: RevisitRule, plans: Plans) -> None:
        self._store = store
        self._batch = batch
        self._rule = rule
        self._plans = plans
        self._chance = random.Random(0)  # noqa: S311 - draws a sample, guards nothing
        self._unknown = 1.0 / rule.shelf_life if rule.shelf_life < inf else 1.0 / (7 * _DAY)
        self._hosts: dict[str, HostRates] = {}
        stored = store.get(keys.RATES_OF_ALL) or b""
        *everywhere, multiplier = _ALL.unpack(stored) if len(stored) == _ALL.size else (0.0,) * 4
        self._everywhere = HostRates(*everywhere)
        self.multiplier = multiplier  # 0: none was solved for
        self._sample: list[tuple[float, float]] | None = None  # weights and rates, while it is drawn
        self._drawn = 0
        self._solved_at = -inf

    @property
    def is_adaptive(self) -> bool:
        return self._rule.policy == ADAPTIVE

    # -- what visits teach -----------------------------------------------------------------------------

    def expected(self, host: str) -> float:
        """Changes a second to expect of a page of *host* of which nothing is known."""
        return expected_rate(self._of(host), self._everywhere, self._unknown)

    def _of(self, host: str) -> HostRates:
        found = self._hosts.get(host)
        if found is None:
            stored = self._batch.get(keys.rates_key(host)) or b""
            found = HostRates(*HOST_RATES.unpack(stored)) if len(stored) == HOST_RATES.size else HostRates()
            if len(self._hosts) >= _MOST_HOSTS:
                self._hosts.clear()
            self._hosts[host] = found
        return found

    def observed(self, host: str, before: Visits, after: Visits, has_changed: bool, now: float) -> Visits:
        """The record *after* a further visit that showed whether the page of *host* has changed since the one
        *before*, with what that teaches; in the open batch."""
        span, expected = max(now - before.last, 1.0), self.expected(host)
        history = visited(unpack_history(before.history), span, has_changed, expected)
        found = rate(history, expected)
        of_host = self._hosts[host] = learned(self._of(host), found, span)
        self._everywhere = learned(self._everywhere, found, span)
        self._batch.rows[keys.rates_key(host)] = HOST_RATES.pack(*of_host)
        self._keep()
        return after._replace(history=pack_history(history))

    def _keep(self) -> None:
        self._batch.rows[keys.RATES_OF_ALL] = _ALL.pack(*self._everywhere, self.multiplier)

    def rate_of(self, host: str, visits: Visits) -> float:
        """Changes a second of a page."""
        return rate(unpack_history(visits.history), self.expected(host))

    # -- what they are worth ---------------------------------------------------------------------------

    def plan(self, plan: Plan, host: str, visits: Visits, weight: float) -> Plan:
        """When a page comes back: when a visit is worth what it costs, unless somebody named a span."""
        if not self.is_adaptive or plan.is_fixed or not self.multiplier or plan.span == inf:
            return plan
        policy = Adaptive(self.multiplier, self._rule.bounds)
        return plan._replace(span=policy.span(weight, self.rate_of(host, visits)))

    def value(self, host: str, visits: Visits, weight: float, now: float) -> float:
        """What puts due pages in order, in days of an average page."""
        if not self.is_adaptive:
            return age_value(weight, visits.last, now) / _DAY
        return due_value(weight, self.rate_of(host, visits), now - visits.last) / _DAY

    # -- the multiplier --------------------------------------------------------------------------------

    def is_due(self, now: float) -> bool:
        """Whether there is a step to take: a sample is being drawn, or it is time to."""
        if not self.is_adaptive:
            return False
        return self._sample is not None or now - self._solved_at >= _EVERY

    def step(self, now: float) -> None:
        """Draw some pages more, or solve, 20 ms, once there are enough."""
        pages = self._batch.counts.next_page
        if self._sample is None:
            self._sample, self._drawn = [], 0
        for _ in range(min(_AT_A_TIME, pages)):
            self._draw(self._chance.randrange(pages))
        if len(self._sample) >= SAMPLE or self._drawn >= min(DRAWS, 4 * pages):
            self._solve(now)

    def _draw(self, page_id: int) -> None:
        self._drawn += 1
        try:
            page = page_rows.decode_page(self._store.get(keys.page_key(page_id)) or b"")
        except UnreadableRecord:
            return
        visits = page.visits
        if visits is None or not visits.due or self._sample is None:
            return
        plan = self._plans.of(page_id, page)
        if plan.is_fixed or plan.span == inf:
            return
        key = due_rows.due_key(visits.due, page_id)
        stored = self._store.get(key) if visits.due > QUEUED_AGAIN else None
        weight = 0.0 if stored is None else due_rows.number_of(due_rows.decode_due(key, stored).weight)
        self._sample.append((weight or 1.0, self.rate_of(page.host or host_of(page.url), visits)))

    def _solve(self, now: float) -> None:
        from .multipliers import solved  # loads NumPy: for those who use it

        sample, self._sample, self._solved_at = self._sample, None, now
        if not sample or self._rule.shelf_life == inf:
            return
        self.multiplier = solved(sample, len(sample) / self._rule.shelf_life, self._rule.bounds)
        self._keep()
