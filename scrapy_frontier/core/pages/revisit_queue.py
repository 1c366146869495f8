"""Pages that come back: when each is due, and which of them stand in due queues.

Owns the due rows. A page that comes back stays what it is, done, redirected or gone, until its visit ends: a
due row stands beside it, and once its time has come a row in the due queue of its host. Due rows are read in
order of time, and no page without one is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from ..errors import decode_or_none
from ..hosts.host import host_of_page
from ..revisits import policy
from ..revisits.policy import Result, is_forbidden, may_come_back
from ..revisits.share import HubShare
from ..store import keys, queue_keys, records
from ..store.keys import FINISHED, State
from ..store.records import NO_VISITS, Due, Visits

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..hosts.host import Host
    from ..hosts.hosts import Hosts
    from ..revisits.learnt import LearntRates
    from ..revisits.plans import Plan, Plans
    from ..revisits.policy import Ending
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.records import Page
    from .leases import Lease, Link
    from .queue import Waiting

_AT_A_TIME = 64  # due pages that one lease queues, 30 us each
_MINUTE = 60.0


@dataclass(eq=False, repr=False)
class RevisitQueue:
    """The due rows of the store. Unless it ``revisits_pages`` none comes back, and what was due stays so.

    None is due before ``next`` (None: none at all). Unless the crawl waits, what is due is judged as of
    *opened_at*. ``score_of`` returns what the scorer thinks of a page now, about 1 for an average one; None
    if it does not know.
    """

    _batch: Batch
    _hosts: Hosts
    _waiting: Waiting
    _rates: LearntRates
    _plans: Plans
    score_of: Callable[[PageId], float | None]
    revisits_pages: bool
    _opened_at: float
    next: float | None = field(default=None, init=False)
    _cursor = b""

    def __post_init__(self) -> None:
        self.rule = self._plans.rule
        self.looked_at = self._opened_at
        self._hubs = HubShare(self.rule.hub_share)
        self.notes_ends = self.revisits_pages or self._batch.store.get(keys.REVISIT) is not None
        self.next = self.next_due()

    # -- what is due -----------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """Return when the first finished page comes back, or should have (POSIX seconds), as far as that is
        written; None if none does. A seek; raises `FrontierUnreadable`."""
        first = next(self._batch.store.scan(keys.DUE, after=self._cursor, limit=1), None)
        return float(records.due_time(first[0])) if self.revisits_pages and first is not None else None

    @property
    def is_filling(self) -> bool:
        """Whether there are due pages that are not queued yet; no store read."""
        return self.next is not None and self.next <= self.until(self.looked_at)

    @property
    def is_alone(self) -> bool:
        """Whether nothing but due pages is queued: no crawl is kept open for these."""
        return not self._batch.counts.states[State.QUEUED]

    def until(self, now: float) -> float:
        """Return by when a page has to be due to be visited now (POSIX seconds): *now* if the crawl waits,
        else its start."""
        return now if self.rule.waits else self._opened_at

    def awaits(self, now: float) -> bool:
        """Return whether the crawl stays open for a page that falls due within the ``horizon`` of the
        rule."""
        return self.rule.waits and self.next is not None and self.next <= now + self.rule.horizon

    @property
    def wake_at(self) -> float | None:
        """When to look again for what is due, 0: now. The clock once a minute: a computer may have slept."""
        if self.is_filling:
            return 0.0
        if self.next is None or not self.rule.waits:
            return None
        return min(self.next, self.looked_at + _MINUTE)

    def wake(self, now: float) -> None:
        """Queue pages that are due, a handful at a time; commits. O(1) while none is."""
        if self.next is None:
            return
        self.looked_at = now
        until = self.until(now)
        if self.next > until:
            return
        self.next = None
        self._batch.commit()
        rows = list(self._batch.store.scan(keys.DUE, after=self._cursor, limit=_AT_A_TIME + 1))
        for index, (key, value) in enumerate(rows):
            due = records.decode_due(key, value)
            if due.when > until or index == _AT_A_TIME:
                self.next = float(due.when)
                break
            self._cursor = key[1:]
            self._queue_page(due, key, now)
        self._batch.commit()

    def _queue_page(self, due: Due, key: bytes, now: float) -> None:
        """Put a finished page that is due into the due queue of its host, its attempts forgotten."""
        batch, page_id = self._batch, due.page_id
        page = self.finished(page_id)
        visits = None if page is None else page.visits
        if page is None or visits is None or not visits.is_scheduled or visits.due != due.when:
            batch.remove_due(key)
            return
        host = self._hosts.of_page(page)  # may commit: before rows are staged
        batch.remove_due(key)
        page = page._replace(attempts=0, visits=visits._replace(is_queued=True))
        batch.put_page(page_id, page)
        place = keys.TOP
        if not self._hubs.let_in(due.is_hub):
            value = self._rates.value(host.name, page, visits, keys.score_of(due.weight) or 1.0, now)
            place = min(keys.bucket(value), keys.TOP - 1)
        weight = due.weight or keys.bucket(1.0)
        self._waiting.put(host, queue_keys.due_key(place, weight, visits.last, page_id), now)

    # -- a visit ends ----------------------------------------------------------------------------------

    def first_ended(self, lease: Lease, page: Page, now: float) -> Page:
        """Return the record of a page that ended for the first time, or again after it was queued anew, with
        the time when it is due, in the open batch. If none comes back, the next run that revisits pages works
        out when each is due. To be called if this ``notes_ends``."""
        if not self.revisits_pages:
            self._batch.rows[keys.REVISIT] = None
            self.notes_ends = False
            return page
        if not may_come_back(page):
            return page
        visits = visits_of(page)
        plan = self.plan_of(lease.page_id, page, lease.host, visits, self.weight(lease))
        end = self.first_end(page, plan, visits, now)
        return self.come_back(lease, page._replace(visits=visits._replace(bad=end.bad)), plan, end.after, now)

    def plan_of(self, page_id: PageId, page: Page, host: str, visits: Visits, weight: int) -> Plan:
        """Return when a page of *host* is to come back, by settings, request, what its *visits* showed and
        its *weight* (as a due row holds it)."""
        plan = self._plans.of(page_id, page)
        if not self._rates.is_adaptive or plan.is_fixed or plan.span == inf:
            return plan
        weight_of_page = keys.score_of(weight) or 1.0
        return plan._replace(span=self._rates.span(host, page, visits, weight_of_page))

    def first_end(self, page: Page, plan: Plan, visits: Visits, now: float) -> Ending:
        """Return when a page comes back that ended as it is, as if by its first visit."""
        result = policy.result_of(page)
        if plan.is_hub and result is Result.ALIAS:
            result = Result.READ
        if plan.is_hub and result in policy.NO_END_OF_A_HUB:
            result = Result.ERROR
        end = policy.ending(result, None, self.rule.rests(plan), visits.bad, now)
        return end if result is Result.ERROR else end._replace(bad=visits.bad)

    def come_back(self, lease: Lease, page: Page, plan: Plan, after: float, now: float) -> Page:
        """Return the *page* of an ended lease, which comes back *after* so many seconds, if *plan* brings it
        back: its due row is in the open batch. Not in this run, unless that waits."""
        visits = page.visits
        assert visits is not None
        if after == inf or not plan.brings_back(page):
            return page._replace(visits=visits._replace(due=0, is_queued=False))
        when = max(self.due_at(now, after), 0 if self.rule.waits else int(self._opened_at) + 1)
        self.put(Due(when, lease.page_id, plan.is_hub, self.weight(lease)))
        return page._replace(visits=visits._replace(due=when, is_queued=False))

    def due_at(self, visited: float, span: float) -> int:
        """Return when a page is due that was *visited* last then and comes back after *span*: a second as
        rows hold it."""
        return _second(policy.due_at(visited, span, self.rule.waits))

    def put(self, due: Due) -> None:
        """Have a page come back, in the open batch; its record has to say so too."""
        key = records.due_key(due.when, due.page_id)
        self._batch.put_due(key, records.encode_due(due))
        if self.next is None or due.when < self.next:
            self.next = float(due.when)
        if key[1:] <= self._cursor:
            self._cursor = b""

    def finished(self, page_id: PageId) -> Page | None:
        """Return the record of a page that was visited, and came to an end; None for any other. A lookup."""
        page = self._batch.read_page(page_id)
        is_it = page is not None and page.visits is not None and page.state in FINISHED
        return page if is_it else None

    def take_over_due_visit(self, page_id: PageId, link: Link, now: float) -> bool:
        """Have the visit of a page that is due in this run, and not under way, be made by the request of
        *link*; false if there is none. A lookup if anything comes back."""
        if not self.revisits_pages or link.facts.is_in_memory:
            return False
        page = self.finished(page_id)
        if page is None or page.visits is None or not 0 < page.visits.due <= self.until(now):
            return False
        if page.is_due:
            host = self._hosts.by_name.get(host_of_page(page))
            under_way = () if host is None else host.leased
            if any(queue_keys.sort_key_id(sort_key) == page_id for sort_key in under_way):
                return False
        if (page.payload, page.facts) != (link.payload, link.facts):
            self._batch.put_page(page_id, page._replace(payload=link.payload, facts=link.facts))
        return True

    def remove(self, page_id: PageId, page: Page, host: Host | None = None) -> None:
        """Have a page that is queued anew, or forgotten, come back no more; nor does it stand in the due
        queue of *host* any more, if that is given: O(its queues)."""
        visits, batch = page.visits, self._batch
        if visits is not None and visits.is_scheduled:
            batch.remove_due(records.due_key(visits.due, page_id))
        elif page.is_due and host is not None:
            place = queue_keys.find_place(batch.store, page_id, host.name)
            if place is not None:
                batch.rows[place.key] = None
                host.drop(place.sort_key)
                batch.count_queued_again(host, -1)

    def is_due_by_hint(self, visits: Visits) -> bool:
        """Return whether a page was made due, and is not queued yet."""
        return visits.is_hinted and visits.is_scheduled and visits.due <= self.until(self.looked_at)

    def make_due(self, page_id: PageId, now: float) -> bool:
        """See `Edits.make_due`."""
        page = self.finished(page_id) if self.revisits_pages else None
        visits = page.visits if page is not None else None
        if page is None or visits is None or not visits.due:
            return False
        when, visits = _second(self.until(now)), visits._replace(is_hinted=True)
        key, host = records.due_key(visits.due, page_id), host_of_page(page)
        due = records.decode_due(key, self._batch.get(key) or b"")
        weight = keys.score_of(due.weight) or 1.0
        is_due = visits.is_scheduled and visits.due > when > visits.last
        if is_due:
            plan = self._plans.of(page_id, page)
            is_due = self._rates.is_due_by_hint(host, page, visits, plan, weight, now)
        if is_due:
            self._batch.remove_due(key)
            self.put(due._replace(when=when))
            visits = visits._replace(due=when)
        self._batch.put_page(page_id, page._replace(visits=visits))
        return is_due

    def weight(self, lease: Lease) -> int:
        """Return what the page of a lease weighs, as a due row holds it (`keys.bucket`): by the scorer, or as
        queued."""
        score = self.score_of(lease.page_id)
        return queue_keys.weight_in(lease.sort_key) if score is None else keys.bucket(score)


def visits_of(page: Page) -> Visits:
    """Return what the visits of a page that ended showed; if nothing is kept, it was visited when it ended,
    unless robots.txt excludes it."""
    return page.visits or (NO_VISITS if is_forbidden(page) else Visits(page.changed, page.changed))


def _second(when: float) -> int:
    """A time as a due row and a record hold it."""
    return max(min(int(when), 0xFFFFFFFF), 1)


class RecomputeDue:
    """Makes the due rows anew, a slice a `step`, if they were made by another rule, or none were: the only
    pass over all pages. Then, and at the end, ``is_done``. After a kill it goes on from the last slice."""

    def __init__(self, batch: Batch, revisit_queue: RevisitQueue) -> None:
        self._batch = batch
        self._revisit_queue = revisit_queue
        self._rule = rule = revisit_queue.rule
        self._after = b""
        self.is_done = True
        if not revisit_queue.revisits_pages:
            return
        name, after = records.decode_rule(batch.store.get(keys.REVISIT) or b"")
        if name != rule.name:
            self.is_done = not batch.counts.next_page
            self._note()
        elif after is not None:
            self.is_done, self._after = False, after

    def _note(self) -> None:
        after = None if self.is_done else self._after
        self._batch.rows[keys.REVISIT] = records.encode_rule(self._rule.name, after)

    def step(self, limit: int) -> None:
        """Look at so many pages more, 10 us each, and 25 for one whose time is another; commits."""
        self._batch.commit()
        rows = list(self._batch.store.scan(keys.PAGE, after=self._after, limit=limit))
        for key, value in rows:
            page_id = keys.key_id(key)
            if page_id >= keys.FIRST_VISIT:
                break
            page = decode_or_none(records.decode_page, value)
            if page is not None:  # else `check` sees to it
                self.look(page_id, page)
        self.is_done = len(rows) < limit or keys.key_id(rows[-1][0]) >= keys.FIRST_VISIT
        self._after = rows[-1][0][1:] if rows else b""
        self._note()
        self._batch.commit()

    def look(self, page_id: PageId, page: Page) -> None:
        """Have a page come back when the rule and its request say now, in the open batch. Its record stays as
        it is if it never ended, stands in a due queue, is due because a sitemap says so, or its time is the
        same. Some lookups."""
        revisit_queue = self._revisit_queue
        if not revisit_queue.revisits_pages or page.state not in FINISHED or not may_come_back(page):
            return
        visits = visits_of(page)
        if visits.is_queued or not page.changed or revisit_queue.is_due_by_hint(visits):
            return
        weight = self._weight(page_id, visits.due)
        when, is_hub = self._time(page_id, page, visits, weight)
        if when == visits.due:
            return
        revisit_queue.remove(page_id, page)
        if when:
            revisit_queue.put(Due(when, page_id, is_hub, weight))
        self._batch.put_page(page_id, page._replace(visits=visits._replace(due=when)))

    def _time(self, page_id: PageId, page: Page, visits: Visits, weight: int) -> tuple[int, bool]:
        """When the page comes back, 0 if it does not, and whether as a hub. One that rests for what went
        wrong lately goes on resting, at most as long as the settings of now let it."""
        revisit_queue, since = self._revisit_queue, float(max(visits.last, page.changed))
        plan = revisit_queue.plan_of(page_id, page, host_of_page(page), visits, weight)
        bad = visits.bad._replace(visits=max(visits.bad.visits - 1, 0))  # the last is counted there
        end = revisit_queue.first_end(page, plan, visits._replace(bad=bad), since)
        if end.after == inf or not plan.brings_back(page):
            return 0, False
        when = revisit_queue.due_at(since, end.after)
        if visits.bad.visits:
            rest = self._rule.rests(plan).after_errors(visits.bad.visits)
            if page.state in (State.GONE, State.REDIRECTED):
                rest = max(rest, end.after)
            when = min(max(when, visits.due), revisit_queue.due_at(revisit_queue.looked_at, rest))
        return when, plan.is_hub

    def _weight(self, page_id: PageId, due: int) -> int:
        key = records.due_key(due, page_id)
        weight = records.decode_due(key, self._batch.get(key) or b"").weight if due else 0
        if not weight:
            score = self._revisit_queue.score_of(page_id)
            weight = 0 if score is None else keys.bucket(score)
        return weight or keys.bucket(1.0)
