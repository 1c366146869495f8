"""Pages that come back: when each is due, which of them stand in due queues, and how their visits end.

A page that comes back stays what it is, done, redirected or gone, until its visit ends: a due row stands
beside it, and once its time has come a row in the due queue of its host. Due rows are read in order of time,
and no page without one is looked at. An end decides what becomes of the record and of the links, and when the
page is due again; also how a 304 or the same content ends a visit (RFC 9110 13).
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from .. import reasons
from ..errors import decode_or_none
from ..hosts.host import host_of_page
from ..revisits import policy
from ..revisits.learnt import LearntRates
from ..revisits.plans import RevisitPlans, RevisitRule
from ..revisits.policy import Fetched, Result, VisitEnd, is_forbidden, may_come_back
from ..revisits.share import RevisitShare
from ..store import keys, queue_keys, records
from ..store.keys import FINISHED, State
from ..store.link_rows import difference, encode_links
from ..store.records import NO_VALIDATORS, NO_VISITS, NOT_BAD, Visits
from ..transitions import UNCOUNTED, Event, event_at
from .leases import Outcome, Released

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..hosts.host import Host
    from ..hosts.hosts import Hosts
    from ..hosts.sites import Sites
    from ..revisits.plans import RevisitPlan
    from ..revisits.policy import Ending
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.records import Page, Validators
    from .leases import Lease, Link
    from .queue import Waiting
    from .scores import Scores

_AT_A_TIME = 64  # due pages that one lease queues, 30 us each
_MINUTE = 60.0


def judge_304(lease: Lease, was_conditional: bool, received: Validators) -> Outcome:
    """Return how a 304 ends *lease*: unchanged, with the validators *received*; an error if the request was
    not conditional."""
    if not was_conditional:
        return Outcome(event_at(304), 304, reasons.STATUS(status=304))
    page, fetched = lease.page, Fetched(*received)
    return Outcome(Event.FETCHED, 304, page.reason, page.target, result=Result.UNCHANGED, fetched=fetched)


def judge_same(lease: Lease, status: int, fetched: Fetched, notes: Sequence[str] | None) -> Outcome | None:
    """Return how a page that was *fetched* with this *status* ends *lease* if it is as it was: unchanged, and
    as its record says. None if it is to be read: its content is another, or that is unknown
    (`Lease.has_changed`), or its directives say something new: *notes* are theirs, None of a sitemap, whose
    record keeps none."""
    page = lease.page
    if lease.has_changed(fetched.digest) is not False:
        return None
    if notes is not None and not reasons.are_as_before(notes, page.reason):
        return None
    return Outcome(Event.FETCHED, status, page.reason, page.target, result=Result.UNCHANGED, fetched=fetched)


class _Judged(NamedTuple):
    """What a revisit came to: the record from now on, what becomes of the page, and by which plan; the
    ``result`` is None if no server was visited."""

    page: Page
    end: Ending
    plan: RevisitPlan
    result: Result | None


class Revisits:
    """Brings finished pages back by *rule* (None: none comes back, and what was due stays so), ends their
    visits, and owns the due rows.

    No page is due before ``next`` (None: none at all). Unless the crawl waits, what is due is judged as of
    the start of the run.
    """

    def __init__(
        self,
        batch: Batch,
        hosts: Hosts,
        waiting: Waiting,
        scores: Scores,
        sites: Sites,
        rule: RevisitRule | None,
    ) -> None:
        self._batch = batch
        self._hosts = hosts
        self._waiting = waiting
        self._scores = scores
        self.revisits_pages = rule is not None
        self.rule = rule = rule or RevisitRule()
        self._rates = LearntRates(batch, sites, rule)
        self._plans = RevisitPlans(rule)
        self.share = RevisitShare(batch, hosts, rule.share) if self.revisits_pages else None
        self._opened_at = self.looked_at = batch.opened_at
        self._cursor = b""
        self.notes_ends = self.revisits_pages or batch.store.get(keys.REVISIT) is not None
        self.next = self.next_due()
        self.recompute = RecomputeDue(batch, self)

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
            return 0.0 if self._scores.is_loaded else None
        if self.next is None or not self.rule.waits:
            return None
        return min(self.next, self.looked_at + _MINUTE)

    def queue_due(self, now: float) -> None:
        """Queue pages that are due, a handful at a time, once scores are there for their order; commits. O(1)
        while none is."""
        if self.next is None or not self._scores.is_loaded:
            return
        self.looked_at = now
        until = self.until(now)
        if self.next > until:
            return
        self.next = None
        self._batch.commit()
        rows = list(self._batch.store.scan(keys.DUE, after=self._cursor, limit=_AT_A_TIME + 1))
        for index, (key, _) in enumerate(rows):
            when = records.due_time(key)
            if when > until or index == _AT_A_TIME:
                self.next = float(when)
                break
            self._cursor = key[1:]
            self._queue_due_page(key, now)
        self._batch.commit()

    def _queue_due_page(self, key: bytes, now: float) -> None:
        """Put a finished page that is due into the due queue of its host, its attempts forgotten."""
        batch, page_id = self._batch, records.due_page(key)
        page = self.finished(page_id)
        visits = None if page is None else page.visits
        if page is None or visits is None or not visits.is_scheduled or visits.due != records.due_time(key):
            batch.remove_due(key)
            return
        host = self._hosts.of_page(page)  # may commit: before rows are staged
        batch.remove_due(key)
        page = page._replace(attempts=0, visits=visits._replace(is_queued=True))
        batch.put_page(page_id, page)
        place = keys.TOP
        if not self._plans.of(page).is_hub:
            value = self._rates.value(host.name, page, visits, self._weight_of(page_id), now)
            place = min(keys.bucket(value), keys.TOP - 1)
        self._waiting.queue(host, queue_keys.due_sort_key(place, visits.last, page_id), now)

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
        plan = self.plan_of(lease.page_id, page, lease.host, visits)
        end = self.first_end(page, plan, visits, now)
        return self.come_back(lease, page._replace(visits=visits._replace(bad=end.bad)), plan, end.after, now)

    def plan_of(self, page_id: PageId, page: Page, host: str, visits: Visits) -> RevisitPlan:
        """Return when a page of *host* is to come back, by settings, request, its score, and what its
        *visits* showed."""
        plan = self._plans.of(page)
        if not self._rates.is_adaptive or plan.is_fixed or plan.span == inf:
            return plan
        return plan._replace(span=self._rates.span(host, page, visits, self._weight_of(page_id)))

    def first_end(self, page: Page, plan: RevisitPlan, visits: Visits, now: float) -> Ending:
        """Return when a page comes back that ended as it is, as if by its first visit."""
        result = policy.result_of(page)
        end = policy.ending(result, None, self.rule.rests(plan), visits.bad, now)
        return end if result is Result.ERROR else end._replace(bad=visits.bad)

    def come_back(self, lease: Lease, page: Page, plan: RevisitPlan, after: float, now: float) -> Page:
        """Return the *page* of an ended lease, which comes back *after* so many seconds, if *plan* brings it
        back: its due row is in the open batch. Not in this run, unless that waits."""
        visits = page.visits
        assert visits is not None
        if after == inf or not plan.brings_back(page):
            return page._replace(visits=visits._replace(due=0, is_queued=False))
        when = max(self.due_at(now, after), 0 if self.rule.waits else int(self._opened_at) + 1)
        self.schedule(when, lease.page_id)
        return page._replace(visits=visits._replace(due=when, is_queued=False))

    def due_at(self, visited: float, span: float) -> int:
        """Return when a page is due that was *visited* last then and comes back after *span*: a second as
        rows hold it."""
        return _second(policy.due_at(visited, span, self.rule.waits))

    def schedule(self, when: int, page_id: PageId) -> None:
        """Have a page come back at *when*, in the open batch; its record has to say so too."""
        key = records.due_key(when, page_id)
        self._batch.put_due(key)
        if self.next is None or when < self.next:
            self.next = float(when)
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

    def unschedule(self, page_id: PageId, page: Page, host: Host | None = None) -> None:
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
                batch.count_waiting(host, place.sort_key, -1)

    def was_made_due(self, visits: Visits) -> bool:
        """Return whether a page was made due, and is not queued yet."""
        return visits.is_hinted and visits.is_scheduled and visits.due <= self.until(self.looked_at)

    def make_due(self, page_id: PageId, now: float) -> bool:
        """See `Edits.make_due`."""
        page = self.finished(page_id) if self.revisits_pages else None
        visits = page.visits if page is not None else None
        if page is None or visits is None or not visits.due:
            return False
        when, visits = _second(self.until(now)), visits._replace(is_hinted=True)
        is_due = visits.is_scheduled and visits.due > when > visits.last
        if is_due:
            plan, weight = self._plans.of(page), self._weight_of(page_id)
            is_due = self._rates.is_due_by_hint(host_of_page(page), page, visits, plan, weight, now)
        if is_due:
            self._batch.remove_due(records.due_key(visits.due, page_id))
            self.schedule(when, page_id)
            visits = visits._replace(due=when)
        self._batch.put_page(page_id, page._replace(visits=visits))
        return is_due

    def _weight_of(self, page_id: PageId) -> float:
        """Return the score of a page; 1, that of an average one, if the scorer has none."""
        score = self._scores.score_of(page_id)
        return 1.0 if score is None else keys.clamped(score) or 1.0

    def release(self, lease: Lease, outcome: Outcome, host: Host, queue: Host, now: float) -> Released:
        """Put the end of a visit of a page of *host* into the open batch. It stays what it is if the visit
        does not end it, in the *queue* of another host, if it is queued again."""
        self._waiting.unqueue(host, lease.sort_key)
        if lease.queues_again(outcome.event):
            self._queue_again(lease, host, queue, outcome, now)
            return Released(State.QUEUED)
        before, batch = lease.page, self._batch
        judged = self._judge(lease, outcome, now)
        kept, added, removed = self._write_links(lease, outcome, judged)
        page = self.come_back(lease, judged.page, judged.plan, judged.end.after, now)
        if (page.state, page.status) != (before.state, before.status):
            batch.count_ended(host, before.state, -1, before.status)
            batch.count_ended(host, page.state, status=page.status)
        batch.put_page(lease.page_id, page)
        visit = None
        if judged.result is not None:
            has_new_links = bool(added or removed)
            told = policy.conclusion(before, page, judged.result, judged.end, has_new_links)
            old, new = (b"" if each.visits is None else each.visits.digest for each in (before, page))
            visit = VisitEnd(told, judged.result, before, old, new, added, removed)
        return Released(page.state, links=kept, visit=visit)

    def _queue_again(self, lease: Lease, host: Host, queue: Host, outcome: Outcome, now: float) -> None:
        page = _tried(lease.page, outcome)
        if queue is not host:
            page = page._replace(host=queue.name)
            for its, change in ((host, -1), (queue, 1)):
                self._batch.count_ended(its, page.state, change, page.status)
        self._batch.put_page(lease.page_id, page)
        self._waiting.queue_again(queue, lease.sort_key, outcome, now)

    # -- what becomes of it ----------------------------------------------------------------------------

    def _judge(self, lease: Lease, outcome: Outcome, now: float) -> _Judged:
        event = outcome.event
        page = _tried(lease.page, outcome)._replace(visit_payload=b"")
        visits = visits_of(page)
        if outcome.request is not None:
            page = page._replace(payload=outcome.request[0], facts=outcome.request[1])
        plan = self.plan_of(lease.page_id, page, lease.host, visits)
        rests = self.rule.rests(plan)
        if event is Event.LOST:  # its callback may be there again
            return _Judged(page._replace(attempts=0), policy.Ending(None, rests.span), plan, None)
        result = outcome.result
        if result is None:
            result = policy.result_by(event, outcome.status, outcome.reason)
        end = policy.ending(result, page.state, rests, visits.bad, now)
        if event is Event.EXCLUDED and end.state is State.DONE is not page.state:
            end = end._replace(state=State.EXCLUDED)  # skipped: only what was read before stays done
        page = _after(page, visits, result, end, outcome, int(now))
        if end.state is State.DONE:
            page, plan = self._learn(lease, page, visits, plan, result, now)
            end = end._replace(after=plan.span if end.after == rests.span else end.after)
        return _Judged(page, end, plan, result)

    def _learn(
        self, lease: Lease, page: Page, before: Visits, plan: RevisitPlan, result: Result, now: float
    ) -> tuple[Page, RevisitPlan]:
        """Return the page with what its last visit taught, and the plan by that; nothing if no server was
        visited, or it does not show whether the page has changed."""
        after = page.visits
        if after is None or after.visits == before.visits:
            return page, plan
        if result is Result.UNCHANGED or (before.digest and after.digest):
            has_changed = result is not Result.UNCHANGED and before.digest != after.digest
            was = lease.page._replace(visits=before)
            after = self._rates.observed(lease.host, was, after, has_changed, now)
            page = page._replace(visits=after)
        plan = self.plan_of(lease.page_id, page, lease.host, after)
        if self._rates.is_adaptive and not plan.is_fixed:
            self._rates.came_back(lease.host, before, after, plan.span, self._weight_of(lease.page_id))
        return page, plan

    # -- its links -------------------------------------------------------------------------------------

    def _write_links(
        self, lease: Lease, outcome: Outcome, judged: _Judged
    ) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Return how many links were kept of a page that was read; targets that it links now, and links no
        more."""
        page_id, end, scores = lease.page_id, judged.end, self._scores
        if outcome.content_score is not None and judged.result is not None:
            scores.content_scored(page_id, outcome.content_score)
        is_untold = end.state is State.DONE and not outcome.has_links
        if end.keeps_links or end.state is None or is_untold:
            return 0, (), ()
        from ..ranking.graph import find_row  # loads NumPy and SciPy, so only when it is needed

        try:
            before = find_row(page_id, self._batch.get)
        except ValueError:  # `check` sees to it
            before = []
        links = lease.edges if end.state is State.DONE else outcome.led_to(end.state)
        after, row = encode_links(page_id, links)
        self._batch.put_link_row(page_id, row)
        scores.parsed(page_id, after)
        return (len(after) if end.state is State.DONE else 0), *difference(before, after)


def visits_of(page: Page) -> Visits:
    """Return what the visits of a page that ended showed; if nothing is kept, it was visited when it ended,
    unless robots.txt excludes it."""
    return page.visits or (NO_VISITS if is_forbidden(page) else Visits(page.changed, page.changed))


def _second(when: float) -> int:
    """Return a time as a due row and a record hold it."""
    return max(min(int(when), 0xFFFFFFFF), 1)


def _tried(page: Page, outcome: Outcome) -> Page:
    """Return the record of a page that comes back after one more attempt, with the request of the next
    one."""
    attempts = min(page.attempts + (outcome.event not in UNCOUNTED), 255)
    payload = page.visit_payload if outcome.visit_payload is None else outcome.visit_payload
    return page._replace(attempts=attempts, visits=visits_of(page), visit_payload=payload)


def _after(page: Page, visits: Visits, result: Result, end: Ending, outcome: Outcome, now: int) -> Page:
    """Return the record of a page whose revisit met that, and ends so."""
    is_unmodified = outcome.status == 304 and end.state is State.DONE
    if is_unmodified:
        visits = policy.not_modified(visits, outcome.fetched, now)
    elif end.state is State.DONE and outcome.fetched is not None:
        visits = policy.read(visits, outcome.fetched, now)
    elif end.state is State.DONE:  # answered by Scrapy's HTTP cache, say
        visits = visits._replace(bad=NOT_BAD)
    else:
        visits = visits._replace(bad=end.bad)
        if not end.keeps_validators:
            visits = visits._replace(validators=NO_VALIDATORS, digest=b"")
    page = page._replace(visits=visits)
    if end.state is None or (result is Result.UNCHANGED and page.state is State.DONE):
        return page
    status = 200 if result is Result.UNCHANGED or is_unmodified else outcome.status
    return page._replace(
        state=end.state, status=status, changed=now, target=outcome.target, reason=outcome.reason
    )


class RecomputeDue:
    """Makes the due rows anew, a slice a `step`, if they were made by another rule, or none were: the only
    pass over all pages. Then, and at the end, ``is_done``. After an interruption it begins again."""

    def __init__(self, batch: Batch, revisits: Revisits) -> None:
        self._batch = batch
        self._revisits = revisits
        self._rule = revisits.rule.name
        self._after = b""
        self.is_done = not revisits.revisits_pages or batch.store.get(keys.REVISIT) == self._rule
        if not batch.counts.next_page and not self.is_done:
            self._end()

    def _end(self) -> None:
        self.is_done = True
        self._batch.rows[keys.REVISIT] = self._rule

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
        if len(rows) < limit or keys.key_id(rows[-1][0]) >= keys.FIRST_VISIT:
            self._end()
        else:
            self._after = rows[-1][0][1:]
        self._batch.commit()

    def look(self, page_id: PageId, page: Page) -> None:
        """Have a page come back when the rule and its request say now, in the open batch. Its record stays as
        it is if it never ended, stands in a due queue, rests for what went wrong, is due because a sitemap
        says so, or its time is the same. Some lookups."""
        revisits = self._revisits
        if not revisits.revisits_pages or page.state not in FINISHED or not may_come_back(page):
            return
        visits = visits_of(page)
        is_resting = visits.bad.visits and visits.due
        if visits.is_queued or not page.changed or is_resting or revisits.was_made_due(visits):
            return
        since = float(max(visits.last, page.changed))
        plan = revisits.plan_of(page_id, page, host_of_page(page), visits)
        after = revisits.first_end(page, plan, visits, since).after
        when = revisits.due_at(since, after) if after < inf and plan.brings_back(page) else 0
        if when == visits.due:
            return
        revisits.unschedule(page_id, page)
        if when:
            revisits.schedule(when, page_id)
        self._batch.put_page(page_id, page._replace(visits=visits._replace(due=when)))
