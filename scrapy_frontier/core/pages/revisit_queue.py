"""Pages that come back: when each is due, who of them is queued, and what their visits change.

Owns the due rows. A page that comes back stays what it is, done, redirected or gone, until its visit ends: a
due row stands beside it, and once it is due a queue row, behind all that is new. Due rows are read in order
of time and no page without one is looked at.

Pages that a robots.txt forbids: they come back when that changes, and no page else is looked at for it.

Owns a row for each, under the site whose file it is. Somebody has to ask for the file: the first of a site's
pages comes back by itself too, to be judged, after its span.

Due rows made anew where the settings ask for other times than those they were made with, or for the first
time where a crawl begins to come back to its pages: the only pass over all pages, in slices.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from .. import reasons
from ..errors import decode_or_none
from ..hosts.host import host_of_page
from ..parse.urls import origin_of
from ..revisits import policy
from ..revisits.budget import HubShare
from ..revisits.policy import longest_rest, may_come_back, result_at_the_end
from ..store import keys, queue_keys, records
from ..store.keys import FINISHED, State
from ..store.records import NO_VISITS, QUEUED_AGAIN, Due, Visits

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..hosts.host import Host
    from ..hosts.hosts import Hosts
    from ..hosts.sites import RobotsAndSitemaps
    from ..revisits.budget import RevisitBudget, RevisitShare
    from ..revisits.plans import LearntChangeRates, Plan, RevisitRule
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.records import Page
    from .leases import Lease, Link


def is_forbidden(page: Page) -> bool:
    """Whether the page is excluded, and by a robots.txt, as its reason says (`reasons.FORBIDDEN`)."""
    return page.state is State.EXCLUDED and reasons.FORBIDDEN.read(page.reason) is not None


class ForbiddenPages:
    """The rows of forbidden pages in the store, by site (scheme://host:port); *sites* say whose robots.txt
    has changed. A page has such a row as long as `is_forbidden` says so, unless they are not ``complete``:
    being made, for the first time or anew."""

    def __init__(self, batch: Batch, sites: RobotsAndSitemaps) -> None:
        self._batch = batch
        self._sites = sites
        self._are_complete = True

    def complete(self, are_complete: bool) -> None:
        """Say whether all forbidden pages have their row. Until then none is judged again: its site is not
        looked at twice."""
        self._are_complete = are_complete

    def note(self, page_id: PageId, page: Page) -> bool:
        """Have a forbidden page come back with its robots.txt, in the open batch. Whether it has to come by
        itself too, as the first of its site. One seek."""
        prefix = keys.forbidden_prefix(origin_of(page.url) or "")
        self._batch.rows[prefix + keys.id_bytes(page_id)] = b""
        found = self._batch.store.keys_of(prefix, b"", 1)
        return not found or keys.id_bytes(page_id) <= found[0]

    def remove(self, page_id: PageId, page: Page) -> None:
        """Have a page come back with its robots.txt no more, in the open batch. *page* is as it was: where
        that was not forbidden nothing is done."""
        if is_forbidden(page):
            prefix = keys.forbidden_prefix(origin_of(page.url) or "")
            self._batch.rows[prefix + keys.id_bytes(page_id)] = None

    def allow(self, page_id: PageId, page: Page) -> None:
        """`remove` a page that its robots.txt forbids no longer. If that is the same as before, it is another
        agent that asks: all others of its site are judged again, too. A lookup for one that was forbidden."""
        if is_forbidden(page):
            origin = origin_of(page.url) or ""
            if self._batch.get(keys.forbidden_prefix(origin) + keys.id_bytes(page_id)) is not None:
                self._sites.judge_again(origin)  # it came by itself: with the others its row went
        self.remove(page_id, page)

    def next_of_site(self, page_id: PageId, page: Page) -> PageId | None:
        """The page behind that one which the same robots.txt forbids; None where there is none. One seek for
        most."""
        prefix, after = keys.forbidden_prefix(origin_of(page.url) or ""), keys.id_bytes(page_id)
        while found := self._batch.store.keys_of(prefix, after, 1):
            after = found[0]
            if self._batch.rows.get(prefix + after, b"") is not None:
                return keys.id_in(after)
        return None

    @property
    def are_to_judge(self) -> bool:
        """Whether a robots.txt has changed whose pages were not all taken yet; no store read."""
        return self._are_complete and self._sites.has_changed

    def take(self, limit: int) -> list[int]:
        """Up to so many pages of a site whose robots.txt has changed; their rows go, in the next batch. To be
        called with nothing open."""
        site = self._sites.changed()
        if site is None:
            return []
        origin, after = site
        prefix = keys.forbidden_prefix(origin)
        found = self._batch.store.keys_of(prefix, after, limit)
        self._batch.rows.update(dict.fromkeys((prefix + name for name in found), None))
        self._sites.judged(origin, found[-1] if len(found) == limit else None)
        return [keys.id_in(name) for name in found]


_AT_A_TIME = 64  # due pages that one lease queues, 30 us each
_MINUTE = 60.0


@dataclass(eq=False, repr=False)
class RevisitQueue:
    """The due rows of the store, by *rule*. Unless it ``revisits_pages`` none comes back, and what was due
    stays so.

    None is due before ``next`` (None: none at all); `next_due` says when one is. What is due is judged as of
    *opened_at*, unless the crawl waits; it was looked for last at ``looked_at``. ``score_of`` says what the
    scorer thinks of a page now, about 1 for an average one; None where nobody knows.
    """

    _batch: Batch
    _hosts: Hosts
    _forbidden: ForbiddenPages
    _rates: LearntChangeRates
    _budget: RevisitBudget
    _share: RevisitShare | None
    score_of: Callable[[int], float | None]
    rule: RevisitRule
    revisits_pages: bool
    _opened_at: float
    next: float | None = field(default=None, init=False)
    _cursor = b""

    def __post_init__(self) -> None:
        self.looked_at = self._opened_at
        self._hubs = HubShare(self.rule.hub_share)
        self.notes_ends = self.revisits_pages or self._batch.store.get(keys.REVISIT) is not None
        self.next = self.next_due()

    # -- what is due -----------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """When the first finished page comes back, or should have (POSIX seconds), as far as that is written;
        None: none does. A seek; raises `FrontierUnreadable`."""
        first = next(self._batch.store.scan(keys.DUE, after=self._cursor, limit=1), None)
        return float(records.due_time(first[0])) if self.revisits_pages and first is not None else None

    @property
    def is_filling(self) -> bool:
        """Whether there are due pages that are not queued yet; no store read."""
        is_due = self.next is not None and self.next <= self.until(self.looked_at)
        return self.revisits_pages and (is_due or self._forbidden.are_to_judge)

    @property
    def is_alone(self) -> bool:
        """Whether all that is queued comes back: no crawl is kept open for that. No store read."""
        return self._batch.counts.states[State.QUEUED] == self._batch.counts.queued_again

    def until(self, now: float) -> float:
        """What is due by then is visited now (POSIX seconds): *now* where the crawl waits, else its start."""
        return now if self.rule.waits else self._opened_at

    def awaits(self, now: float) -> bool:
        """Whether the crawl is to stay open for a page that falls due within the ``horizon`` of the rule, in
        seconds from *now*. No store read."""
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
        """Queue pages that are due, a handful at a time, and go on with the budget; commits. O(1) while none
        is. To be called where pages come back."""
        if self.next is not None or self._forbidden.are_to_judge:
            self._queue_due(now)
            if self._budget.is_due(now):
                self._budget.step(now)

    def _queue_due(self, now: float) -> None:
        self.looked_at = now
        if self._forbidden.are_to_judge:
            self._judge_again(now)
        if self.next is None or self.next > self.until(now):
            return
        until, self.next = self.until(now), None
        self._batch.commit()
        rows = list(self._batch.store.scan(keys.DUE, after=self._cursor, limit=_AT_A_TIME + 1))
        for index, (key, value) in enumerate(rows):
            due = records.decode_due(key, value)
            if due.when > until or index == _AT_A_TIME:
                self.next = float(due.when)
                break
            self._cursor = key[1:]
            self._queue(due, key, now)
        self._batch.commit()

    def _judge_again(self, now: float) -> None:
        """Have some pages be due that robots.txt forbids, or did."""
        self._batch.commit()
        when = max(int(self.until(now)), QUEUED_AGAIN + 1)
        for page_id in self._forbidden.take(_AT_A_TIME):
            page = self._batch.read_page(page_id)
            visits = NO_VISITS if page is None else page.visits or NO_VISITS
            if page is None or not is_forbidden(page) or visits.due == QUEUED_AGAIN:
                continue
            self.remove(page_id, page)
            self.put(Due(when, page_id))
            self._batch.put_page(page_id, page._replace(visits=visits._replace(due=when)))
        self._batch.commit()

    def _queue(self, due: Due, key: bytes, now: float) -> None:
        """Have a finished page that is due stand in the queue of its host, its attempts forgotten."""
        batch, page_id = self._batch, due.page_id
        page = self.finished(page_id)
        visits = None if page is None else page.visits
        if page is None or visits is None or visits.due != due.when:
            batch.remove_due(key)
            return
        host = self._hosts.of_page(page)  # may commit: before rows are staged
        batch.remove_due(key)
        page = page._replace(attempts=0, visits=visits._replace(due=QUEUED_AGAIN))
        batch.put_page(page_id, page)
        weight = due.weight or keys.bucket(1.0)
        place = keys.TOP
        if not self._hubs.let_in(due.is_hub):
            value = self._rates.value(host.name, page, visits, keys.score_of(due.weight) or 1.0, now)
            place = min(keys.bucket(value), keys.TOP - 1)
        sort_key = records.sort_key_of_due(place, weight, visits.last, page_id)
        batch.queue(host, sort_key)
        batch.count_queued_again(host, 1)
        host.add(sort_key)
        self._hosts.put(host, now)
        if self._share is not None:
            self._share.joins(host)

    # -- a visit ends ----------------------------------------------------------------------------------

    def first_ended(self, lease: Lease, page: Page, now: float) -> Page:
        """The record of a page that came to an end for the first time, or again after it was queued anew:
        with the time when it is due, in the open batch. Where none comes back, the next run that
        revisits pages works out anew when each is due. To be called where this ``notes_ends``."""
        if not self.revisits_pages:
            self._batch.rows[keys.REVISIT] = None
            self.notes_ends = False
            return page
        if is_forbidden(page):
            return self.forbid(lease, page, now)
        if not policy.may_come_back(page.state, page.reason):
            return page
        visits = page.visits or Visits(int(now), int(now))
        plan = self.plan_of(lease.page_id, page, lease.host, visits, self.weight(lease))
        after, visits = self.after_end(page, visits, plan, now)
        return self.come_back(lease, page._replace(visits=visits), plan, after, now)

    def plan_of(self, page_id: PageId, page: Page, host: str, visits: Visits, weight: int) -> Plan:
        """When a page of *host* is to come back, by settings, request, what its *visits* showed and its
        *weight* (as a due row holds it)."""
        return self._budget.plan(page_id, page, host, visits, keys.score_of(weight) or 1.0)

    def after_end(self, page: Page, visits: Visits, plan: Plan, now: float) -> tuple[float, Visits]:
        """Seconds until a page comes back that ended like this, if it does; and its record with that."""
        result = policy.result_at_the_end(page.state, page.status, page.reason, plan.is_hub)
        span, longest = self.rule.rests(plan)
        if result is policy.Result.ERROR or (plan.is_hub and result in policy.NO_END_OF_A_HUB):
            end = policy.ending(policy.Result.ERROR, page.state, span, longest, visits.bad, now)
            return end.after, visits._replace(bad=end.bad)
        return policy.next_span(result, span, longest), visits

    def forbid(self, lease: Lease, page: Page, now: float) -> Page:
        """The record of a page that robots.txt forbids: it comes back with that, the first of its site by
        itself too."""
        visits = page.visits or NO_VISITS
        plan = self.plan_of(lease.page_id, page, lease.host, visits, self.weight(lease))
        after = plan.span if self._forbidden.note(lease.page_id, page) else inf
        if after == inf:
            return page if page.visits is None else page._replace(visits=visits._replace(due=0))
        return self.come_back(lease, page._replace(visits=visits), plan, after, now)

    def come_back(self, lease: Lease, page: Page, plan: Plan, after: float, now: float) -> Page:
        """The *page* of an ended lease, which comes back *after* so many seconds, if *plan* has it so: its
        due row is in the open batch, its record says when: not in this run, unless it waits for that."""
        visits = page.visits
        assert visits is not None
        if after == inf or not plan.brings_back(page):
            return page._replace(visits=visits._replace(due=0))
        when = max(self.due_at(now, after), 0 if self.rule.waits else int(self._opened_at) + 1)
        rate = keys.bucket(self._rates.rate_of(lease.host, visits)) if self._rates.is_adaptive else 0
        self.put(Due(when, lease.page_id, plan.is_hub, self.weight(lease), rate))
        return page._replace(visits=visits._replace(due=when))

    def due_at(self, visited: float, span: float) -> int:
        """When a page is due that was *visited* last then and comes back after *span*: a second as rows hold
        it."""
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
        """The record of a page that was visited, and came to an end; None for any other. A lookup."""
        page = self._batch.read_page(page_id)
        is_it = page is not None and page.visits is not None and page.state in FINISHED
        return page if is_it else None

    def take_over_due_visit(self, page_id: PageId, link: Link, now: float) -> bool:
        """Have the visit of a page that comes back in this run, and has not yet, be made by the request that
        is wanted now; false where there is none. A lookup where anything comes back."""
        if not self.revisits_pages or link.facts.is_in_memory:
            return False
        page = self.finished(page_id)
        if page is None or page.visits is None:
            return False
        due = page.visits.due
        if not due or due > self.until(now):
            return False
        if due == QUEUED_AGAIN:
            host = self._hosts.by_name.get(host_of_page(page))
            under_way = () if host is None else host.leased
            if any(queue_keys.sort_key_id(sort_key) == page_id for sort_key in under_way):
                return False
        if (page.payload, page.facts) != (link.payload, link.facts):
            self._batch.put_page(page_id, page._replace(payload=link.payload, facts=link.facts))
        return True

    def remove(self, page_id: PageId, page: Page, host: Host | None = None) -> None:
        """A page that is queued anew, or forgotten, does not come back by itself; nor does it stand in the
        queue of *host* any more, where that is given: O(its queue) if it does."""
        due, batch = 0 if page.visits is None else page.visits.due, self._batch
        self._forbidden.remove(page_id, page)
        if due > QUEUED_AGAIN:
            batch.remove_due(records.due_key(due, page_id))
        elif due and host is not None:
            place = queue_keys.find_place(self._batch.store, page_id, host.name)
            if place is not None:
                batch.rows[place.key] = None
                host.drop(place.sort_key)
                batch.count_queued(host, -1)
                batch.count_queued_again(host, -1)

    def forget(self, page_id: PageId, page: Page, now: float) -> None:
        """`remove` a page that will be known no more. If it was the one of its site to come by itself, so
        that somebody asks for the robots.txt that forbade it, the next is: a seek and a lookup."""
        self.remove(page_id, page)
        due = 0 if page.visits is None else page.visits.due
        heir = self._forbidden.next_of_site(page_id, page) if due and is_forbidden(page) else None
        its = None if heir is None else self._batch.read_page(heir)
        if heir is None or its is None or not is_forbidden(its) or (its.visits and its.visits.due):
            return
        when = due if due > QUEUED_AGAIN else _second(now)
        self.put(Due(when, heir))
        self._batch.put_page(heir, its._replace(visits=(its.visits or NO_VISITS)._replace(due=when)))

    def is_due_by_hint(self, visits: Visits) -> bool:
        """Whether a page was made due, and is not queued yet."""
        return visits.is_hinted and QUEUED_AGAIN < visits.due <= self.until(self.looked_at)

    def make_due(self, page_id: PageId, now: float) -> bool:
        """See `Edits.make_due`."""
        page = self.finished(page_id) if self.revisits_pages else None
        visits = page.visits if page is not None else None
        if page is None or visits is None or not visits.due:
            return False
        when = max(int(self.until(now)), QUEUED_AGAIN + 1)
        visits, key = visits._replace(is_hinted=True), records.due_key(visits.due, page_id)
        due = records.decode_due(key, self._batch.get(key) or b"")
        weight, host = keys.score_of(due.weight) or 1.0, host_of_page(page)
        is_due = visits.due > when > visits.last
        if is_due and (is_due := self._budget.is_due_by_hint(host, page, visits, weight, now)):
            self._batch.remove_due(key)
            self.put(due._replace(when=when))
            visits = visits._replace(due=when)
        self._batch.put_page(page_id, page._replace(visits=visits))
        return is_due

    def put_off(self, host: Host, sort_key: bytes, page: Page, now: float) -> None:
        """Take a page that comes back out of the queue of *host*, in a crawl that comes back to none. The
        next crawl that does finds it due."""
        batch, page_id = self._batch, queue_keys.sort_key_id(sort_key)
        visits = page.visits or Visits(page.changed, page.changed)
        when = _second(now)
        batch.unqueue(host, sort_key)
        host.drop_leased(sort_key)
        batch.count_queued_again(host, -1)
        self.put(Due(when, page_id, weight=records.weight_in(sort_key)))
        page = page._replace(visit_payload=b"", visits=visits._replace(due=when))
        batch.put_page(page_id, page)

    def weight(self, lease: Lease) -> int:
        """What the page of a lease weighs, as a due row holds it (`score_codes.code`): by the scorer, or as
        queued."""
        score = self.score_of(lease.page_id)
        return records.weight_in(lease.sort_key) if score is None else keys.bucket(score)


def _second(when: float) -> int:
    """A time as a due row and a record hold it."""
    return max(min(int(when), 0xFFFFFFFF), QUEUED_AGAIN + 1)


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
        name, after = records.decode_rule(batch.store.get(keys.REVISIT) or b"")
        if name != rule.name:
            self.is_done = not batch.counts.next_page
            self._note()
        elif after is not None:
            self.is_done, self._after = False, after
        forbidden.complete(self.is_done)

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
        key = records.due_key(due, page_id)
        weight = records.decode_due(key, self._batch.get(key) or b"").weight if due else 0
        if not weight:
            score = self._revisit_queue.score_of(page_id)
            weight = 0 if score is None else keys.bucket(score)
        return weight or keys.bucket(1.0)
