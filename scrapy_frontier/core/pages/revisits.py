"""Brings finished pages back: schedules them, queues those that are due, and ends their visits.

A page that comes back keeps its state (done, redirected, gone ...) until its visit ends. It has a due row;
once its time has come, a row in the due queue of its host instead. Due rows are read in order of time, so no
other page is looked at. The end of a visit updates record and links, and schedules the next visit; a 304 or
the same content (RFC 9110 13) leaves both.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from .. import reasons
from ..errors import decode_or_none
from ..hosts.host import host_of_page
from ..revisits import policy
from ..revisits.learned import LearnedRates
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
    """Return how a 304 with the validators *received* ends *lease*: unchanged, or with an error if the
    request was not conditional."""
    if not was_conditional:
        return Outcome(event_at(304), 304, reasons.STATUS(status=304))
    page, fetched = lease.page, Fetched(*received)
    return Outcome(Event.FETCHED, 304, page.reason, page.target, result=Result.UNCHANGED, fetched=fetched)


def judge_same(lease: Lease, status: int, fetched: Fetched, notes: Sequence[str] | None) -> Outcome | None:
    """Return how a page that was *fetched* with this *status* ends *lease* if its content has not changed.
    None if it has to be read: its content has changed or may have (`Lease.has_changed`), or its directives
    differ from those in its record. *notes* are those of its directives; None for a sitemap, whose record has
    none."""
    page = lease.page
    if lease.has_changed(fetched.digest) is not False:
        return None
    if notes is not None and reasons.BETWEEN.join(notes) != page.reason:
        return None
    return Outcome(Event.FETCHED, status, page.reason, page.target, result=Result.UNCHANGED, fetched=fetched)


class _Judged(NamedTuple):
    """The new record of a page after a revisit, its ending, and its plan; ``result`` is None if no server was
    visited."""

    page: Page
    end: Ending
    plan: RevisitPlan
    result: Result | None


class Revisits:
    """Brings finished pages back by *rule*, ends their visits, and owns the due rows. Without a rule no page
    comes back, and due rows stay as they are.

    No page is due before ``next`` (None: no page at all). Unless the crawl waits for pages to fall due, those
    are due that were so at the start of the run.
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
        self._rates = LearnedRates(batch, sites, rule)
        self._plans = RevisitPlans(rule)
        self.share = RevisitShare(batch, hosts, rule.share) if self.revisits_pages else None
        self._opened_at = self.looked_at = batch.opened_at
        self._cursor = b""
        self.notes_ends = self.revisits_pages or batch.store.get(keys.REVISIT) is not None
        self.next = self.next_due()
        self.recompute = RecomputeDue(batch, self)

    # -- what is due -----------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """Return when the first finished page is due by the written rows (POSIX seconds); None if none is. A
        seek. Raises `FrontierUnreadable`."""
        first = next(self._batch.store.scan(keys.DUE, after=self._cursor, limit=1), None)
        return float(records.due_time(first[0])) if self.revisits_pages and first is not None else None

    @property
    def is_filling(self) -> bool:
        """Whether some due pages are not queued yet. No store read."""
        return self.next is not None and self.next <= self.until(self.looked_at)

    def until(self, now: float) -> float:
        """Return the time until which a page has to be due to be visited now (POSIX seconds): *now* if the
        crawl waits, else its start."""
        return now if self.rule.waits else self._opened_at

    def awaits(self, now: float) -> bool:
        """Return whether the crawl stays open because a page falls due within the ``horizon`` of the rule."""
        return self.rule.waits and self.next is not None and self.next <= now + self.rule.horizon

    @property
    def wake_at(self) -> float | None:
        """When to call `queue_due` again, 0 for now; at least once a minute, because a computer may sleep."""
        if self.is_filling:
            return 0.0 if self._scores.is_loaded else None
        if self.next is None or not self.rule.waits:
            return None
        return min(self.next, self.looked_at + _MINUTE)

    def queue_due(self, now: float) -> None:
        """Queue at most `_AT_A_TIME` due pages, once the scores that order them are loaded; commits. O(1)
        while none is due."""
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
        """Put a finished page that is due into the due queue of its host, with no attempts made."""
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
        """Schedule a page that has ended, by its first visit or after it was queued again; returns its
        record. In a run without revisits, mark the due rows as incomplete for `RecomputeDue`. Call it while
        this ``notes_ends``."""
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
        """Return when a page of *host* comes back, by settings, request, score, and its *visits*."""
        plan = self._plans.of(page)
        if not self._rates.is_adaptive or plan.is_fixed or plan.span == inf:
            return plan
        return plan._replace(span=self._rates.span(host, page, visits, self._weight_of(page_id)))

    def first_end(self, page: Page, plan: RevisitPlan, visits: Visits, now: float) -> Ending:
        """Return the ending of a page as if its first visit had led to its state."""
        result = policy.result_of(page)
        end = policy.ending(result, None, self.rule.rests(plan), visits.bad, now)
        return end if result is Result.ERROR else end._replace(bad=visits.bad)

    def come_back(self, lease: Lease, page: Page, plan: RevisitPlan, after: float, now: float) -> Page:
        """Schedule the *page* of an ended lease *after* so many seconds, if *plan* brings it back; returns
        its record. It is not due in this run, unless the crawl waits."""
        visits = page.visits
        assert visits is not None
        if after == inf or not plan.brings_back(page):
            return page._replace(visits=visits._replace(due=0, is_queued=False))
        when = max(self.due_at(now, after), 0 if self.rule.waits else int(self._opened_at) + 1)
        self.schedule(when, lease.page_id)
        return page._replace(visits=visits._replace(due=when, is_queued=False))

    def due_at(self, visited: float, span: float) -> int:
        """Return the second in which a page is due that was *visited* last then and comes back after
        *span*."""
        return _second(policy.due_at(visited, span, self.rule.waits))

    def schedule(self, when: int, page_id: PageId) -> None:
        """Put the due row of a page that comes back at *when* into the open batch; its record is the
        caller's."""
        key = records.due_key(when, page_id)
        self._batch.put_due(key)
        if self.next is None or when < self.next:
            self.next = float(when)
        if key[1:] <= self._cursor:
            self._cursor = b""

    def finished(self, page_id: PageId) -> Page | None:
        """Return the record of a finished page that was visited; None for any other. A lookup."""
        page = self._batch.read_page(page_id)
        is_it = page is not None and page.visits is not None and page.state in FINISHED
        return page if is_it else None

    def take_over_due_visit(self, page_id: PageId, link: Link, now: float) -> bool:
        """Let the visit of a page that is due in this run, and not leased, be made by the request of *link*;
        false if it is not due. A lookup if pages come back in this run."""
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
        """Delete the due row of a page that is queued again, or forgotten; if *host* is given also its row in
        the due queue there, O(queue)."""
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
        """Return whether `make_due` made a page due that is not queued yet."""
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
        """Return the score of a page; 1, that of an average page, if the scorer has none."""
        score = self._scores.score_of(page_id)
        return 1.0 if score is None else keys.clamped(score) or 1.0

    def release(self, lease: Lease, outcome: Outcome, host: Host, queue: Host, now: float) -> Released:
        """End the visit of a page of *host*, in the open batch. If the page is queued again it keeps its
        state, and goes to the queue of the host *queue*."""
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
            conclusion = policy.conclusion(before, page, judged.result, judged.end, has_new_links)
            old, new = (b"" if each.visits is None else each.visits.digest for each in (before, page))
            visit = VisitEnd(conclusion, judged.result, before, old, new, added, removed)
        return Released(page.state, links=kept, visit=visit)

    def _queue_again(self, lease: Lease, host: Host, queue: Host, outcome: Outcome, now: float) -> None:
        page = _tried(lease.page, outcome)
        if queue is not host:
            page = page._replace(host=queue.name)
            for its, change in ((host, -1), (queue, 1)):
                self._batch.count_ended(its, page.state, change, page.status)
        self._batch.put_page(lease.page_id, page)
        self._waiting.queue_again(queue, lease.sort_key, outcome, now)

    # -- the record after a visit ----------------------------------------------------------------------

    def _judge(self, lease: Lease, outcome: Outcome, now: float) -> _Judged:
        event = outcome.event
        page = _tried(lease.page, outcome)._replace(visit_payload=b"")
        visits = visits_of(page)
        if outcome.request is not None:
            page = page._replace(payload=outcome.request[0], facts=outcome.request[1])
        plan = self.plan_of(lease.page_id, page, lease.host, visits)
        rests = self.rule.rests(plan)
        if event is Event.LOST:  # its callback may exist again later
            return _Judged(page._replace(attempts=0), policy.Ending(None, rests.span), plan, None)
        result = outcome.result
        if result is None:
            result = policy.result_by(event, outcome.status, outcome.reason)
        end = policy.ending(result, page.state, rests, visits.bad, now)
        if event is Event.EXCLUDED and end.state is State.DONE is not page.state:
            end = end._replace(state=State.EXCLUDED)  # skipped: a page that was never read is not done
        page = _after(page, visits, result, end, outcome, int(now))
        if end.state is State.DONE:
            page, plan = self._learn(lease, page, visits, plan, result, now)
            end = end._replace(after=plan.span if end.after == rests.span else end.after)
        return _Judged(page, end, plan, result)

    def _learn(
        self, lease: Lease, page: Page, before: Visits, plan: RevisitPlan, result: Result, now: float
    ) -> tuple[Page, RevisitPlan]:
        """Return the page with the change rate that its last visit taught, and its plan by that; both as they
        are if no server was visited."""
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
        """Put the links of a page into the open batch; returns how many a page that was read has, and the
        targets that were added and removed."""
        page_id, end, scores = lease.page_id, judged.end, self._scores
        if outcome.content_score is not None and judged.result is not None:
            scores.content_scored(page_id, outcome.content_score)
        is_unread = end.state is State.DONE and not outcome.has_links
        if end.keeps_links or end.state is None or is_unread:
            return 0, (), ()
        from ..ranking.graph import find_row  # loads NumPy and SciPy, so only when it is needed

        try:
            before = find_row(page_id, self._batch.get)
        except ValueError:  # left to `check`
            before = []
        links = lease.edges if end.state is State.DONE else outcome.led_to(end.state)
        after, row = encode_links(page_id, links)
        self._batch.put_link_row(page_id, row)
        scores.parsed(page_id, after)
        return (len(after) if end.state is State.DONE else 0), *difference(before, after)


def visits_of(page: Page) -> Visits:
    """Return the visits of a finished page; without any in its record, it was visited when it ended, unless
    robots.txt excludes it."""
    return page.visits or (NO_VISITS if is_forbidden(page) else Visits(page.changed, page.changed))


def _second(when: float) -> int:
    """Return a time as a whole second that fits into a row."""
    return max(min(int(when), 0xFFFFFFFF), 1)


def _tried(page: Page, outcome: Outcome) -> Page:
    """Return the record of a page that comes back after one more attempt, with the request of the next
    attempt."""
    attempts = min(page.attempts + (outcome.event not in UNCOUNTED), 255)
    payload = page.visit_payload if outcome.visit_payload is None else outcome.visit_payload
    return page._replace(attempts=attempts, visits=visits_of(page), visit_payload=payload)


def _after(page: Page, visits: Visits, result: Result, end: Ending, outcome: Outcome, now: int) -> Page:
    """Return the record of a page whose revisit had this *result* and *end*."""
    is_unmodified = outcome.status == 304 and end.state is State.DONE
    if is_unmodified:
        visits = policy.not_modified(visits, outcome.fetched, now)
    elif end.state is State.DONE and outcome.fetched is not None:
        visits = policy.read(visits, outcome.fetched, now)
    elif end.state is State.DONE:  # answered by a cache, say
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
    """Schedules all pages anew, a slice a `step`, if the due rows were made by another rule or are
    incomplete; ``is_done`` if not, and at the end. An interrupted pass over all pages begins again."""

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
        """`look` at *limit* more pages, 10 us each, 25 us for one whose due time changes; commits."""
        self._batch.commit()
        rows = list(self._batch.store.scan(keys.PAGE, after=self._after, limit=limit))
        for key, value in rows:
            page_id = keys.key_id(key)
            if page_id >= keys.FIRST_VISIT:
                break
            page = decode_or_none(records.decode_page, value)
            if page is not None:  # else left to `check`
                self.look(page_id, page)
        if len(rows) < limit or keys.key_id(rows[-1][0]) >= keys.FIRST_VISIT:
            self._end()
        else:
            self._after = rows[-1][0][1:]
        self._batch.commit()

    def look(self, page_id: PageId, page: Page) -> None:
        """Schedule a page by the present rule and its request, in the open batch. Does nothing if the page is
        not finished, is queued again, rests after an error, is due because a sitemap says so, or if its due
        time stays the same. Some lookups."""
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
