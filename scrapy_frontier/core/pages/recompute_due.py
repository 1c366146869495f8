"""Due rows made anew where the settings ask for other times than those they were made with, or for the first
time where a crawl begins to come back to its pages: the only pass over all pages, in slices."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from ..errors import lenient
from ..hosts.host import host_of_page
from ..revisits.policy import longest_rest, may_come_back, result_at_the_end
from ..store import due_rows, keys, page_rows, score_codes
from ..store.due_rows import QUEUED_AGAIN, Due
from ..store.states import State
from ..store.visit_rows import NO_VISITS, Visits
from .forbidden_pages import ForbiddenPages, is_forbidden

if TYPE_CHECKING:
    from ..revisits.plans import Plan
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.page_rows import Page
    from .revisit_queue import RevisitQueue


class RecomputeDue:
    """Makes the due rows of the store anew, a slice a `step`, unless they are those of the rule by now: then,
    and at the end, ``is_done``. A kill goes on from the last slice."""

    def __init__(self, batch: Batch, revisit_queue: RevisitQueue, forbidden: ForbiddenPages) -> None:
        self._batch = batch
        self._revisit_queue = revisit_queue
        self._forbidden = forbidden
        self._rule = rule = revisit_queue.rule
        self._after = b""
        self.is_done = True
        if not revisit_queue.revisits_pages:
            return
        name, after = due_rows.decode_rule(batch.store.get(keys.REVISIT) or b"")
        if name != rule.name:
            self.is_done = not batch.counts.next_page
            self._note()
        elif after is not None:
            self.is_done, self._after = False, after
        forbidden.complete(self.is_done)

    def _note(self) -> None:
        after = None if self.is_done else self._after
        self._batch.rows[keys.REVISIT] = due_rows.encode_rule(self._rule.name, after)

    def step(self, limit: int) -> None:
        """Look at so many pages more, 10 us each, and 25 for one whose time is another; commits."""
        self._batch.commit()
        rows = list(self._batch.store.scan(keys.PAGE, after=self._after, limit=limit))
        for key, value in rows:
            page_id = keys.key_id(key)
            if page_id >= keys.FIRST_VISIT:
                break
            page = lenient(page_rows.decode_page, value)
            if page is not None:  # else `check` sees to it
                self.look(page_id, page)
        self.is_done = len(rows) < limit or keys.key_id(rows[-1][0]) >= keys.FIRST_VISIT
        self._after = rows[-1][0][1:] if rows else b""
        self._forbidden.complete(self.is_done)
        self._note()
        self._batch.commit()

    def look(self, page_id: PageId, page: Page) -> None:
        """Have a page come back when the rule and its request say now, in the open batch. Its record stays as
        it is where it never ended, stands in a queue as one that came back, is due because a sitemap says so,
        or its time is the same. Some lookups."""
        if not self._revisit_queue.revisits_pages:
            return
        visits = page.visits or (NO_VISITS if is_forbidden(page) else Visits(page.changed, page.changed))
        if visits.due == QUEUED_AGAIN or not page.changed or self._revisit_queue.is_due_by_hint(visits):
            return
        if is_forbidden(page):
            when, is_hub = self._time_of_forbidden(page_id, page, visits), False
        elif may_come_back(page.state, page.reason) or (page.state is State.EXCLUDED and page.visits):
            when, is_hub = self._time(page_id, page, visits)
        else:
            return
        if when == visits.due:
            return
        weight = self._weight(page_id, visits.due)
        self._revisit_queue.remove(page_id, page)
        if is_forbidden(page):
            self._forbidden.note(page_id, page)
        if when:
            self._revisit_queue.put(Due(when, page_id, is_hub, weight))
        self._batch.put_page(page_id, page._replace(visits=visits._replace(due=when)))

    def _time_of_forbidden(self, page_id: PageId, page: Page, visits: Visits) -> int:
        if not self._forbidden.note(page_id, page):
            return 0
        plan = self._revisit_queue.plan_of(page_id, page, host_of_page(page), visits, 0)
        if plan.span == inf:
            return 0
        return self._rested(self._revisit_queue.due_at(float(page.changed), plan.span), page, visits, plan)

    def _time(self, page_id: PageId, page: Page, visits: Visits) -> tuple[int, bool]:
        revisit_queue, host = self._revisit_queue, host_of_page(page)
        since = float(max(visits.last, page.changed))
        plan = revisit_queue.plan_of(page_id, page, host, visits, self._weight(page_id, visits.due))
        bad = visits.bad._replace(visits=max(visits.bad.visits - 1, 0))  # the last is counted there
        after, _ = revisit_queue.after_end(page, visits._replace(bad=bad), plan, since)
        if after == inf or not plan.brings_back(page):
            return 0, False
        return self._rested(revisit_queue.due_at(since, after), page, visits, plan), plan.is_hub

    def _rested(self, when: int, page: Page, visits: Visits, plan: Plan) -> int:
        """*when* a page comes back, which still rests for what went wrong lately: nobody knows since when, so
        no longer than it would by *plan* if that was just now."""
        if not visits.bad.visits:
            return when
        now, (span, longest) = self._revisit_queue.looked_at, self._rule.rests(plan)
        result = result_at_the_end(page.state, page.status, page.reason, plan.is_hub)
        rest = longest_rest(result, span, longest, visits.bad, now)
        return min(max(when, visits.due), self._revisit_queue.due_at(now, rest))

    def _weight(self, page_id: PageId, due: int) -> int:
        key = due_rows.due_key(due, page_id)
        weight = due_rows.decode_due(key, self._batch.get(key) or b"").weight if due else 0
        if not weight:
            score = self._revisit_queue.score_of(page_id)
            weight = 0 if score is None else score_codes.code(score)
        return weight or score_codes.code(1.0)
