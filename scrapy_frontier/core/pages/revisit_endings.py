"""Ends the visits of pages that come back: what becomes of the record, of the links, and when it is due
again.

Decides too how a 304 or the same content ends a visit (RFC 9110 13).
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from .. import reasons
from ..parse.headers import answers
from ..revisits import policy
from ..revisits.policy import FULL_AFTER, Fetched, Result, VisitEnd, not_modified, read
from ..store import keys
from ..store.keys import State
from ..store.link_rows import difference
from ..store.records import NO_VALIDATORS, NOT_BAD
from ..transitions import UNCOUNTED, Event, event_at
from .leases import Lease, Outcome, Released
from .revisit_queue import visits_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..hosts.host import Host
    from ..hosts.hosts import Hosts
    from ..parse.directives import Consequences
    from ..revisits.learnt import LearntRates
    from ..revisits.plans import Plan
    from ..revisits.policy import Ending
    from ..store.batch import Batch
    from ..store.records import Page, Visits
    from .queue import Waiting
    from .revisit_queue import RevisitQueue
    from .scores import Scores

    Pair = tuple[bytes, bytes]


def judge_304(lease: Lease, sent: Pair, received: Pair, consequences: Consequences) -> Outcome:
    """Return how a 304 ends *lease*: *sent* and *received* are the tag and date it was asked with and those
    it has, *consequences* those of its directives.

    Fetched, if it answers that. A 304 to a request without validators is an error. Any other is put back, to
    be asked for in full: it names another content, or says something new of the links, which are on the page.
    """
    page = lease.page
    if not any(sent):
        return Outcome(event_at(304), 304, reasons.STATUS(status=304))
    noindex = reasons.new_notes(consequences.notes_of_items, page.reason)
    is_settled = lease.is_last or not reasons.new_notes(consequences.notes_of_links, page.reason)
    if is_settled and answers(sent[0], received[0]):
        reason = reasons.BETWEEN.join(filter(None, (*noindex, page.reason)))
        result = Result.NOINDEX if noindex else Result.UNCHANGED
        return Outcome(Event.FETCHED, 304, reason, page.target, result=result, fetched=Fetched(*received))
    if lease.is_last:
        return Outcome(event_at(304), 304, reasons.STATUS(status=304))
    return Outcome(Event.POSTPONED, 304, reasons.NOT_ASKED())


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
    plan: Plan
    result: Result | None
    lost_host: str = ""


@dataclass(eq=False, repr=False)
class RevisitEndings:
    """Ends the visits of pages that came back; a visit that has no answer is over with its last attempt."""

    _batch: Batch
    _hosts: Hosts
    _waiting: Waiting
    _scores: Scores
    _revisit_queue: RevisitQueue
    _rates: LearntRates

    def release(self, lease: Lease, outcome: Outcome, host: Host, queue: Host, now: float) -> Released:
        """Put the end of a visit of a page of *host* into the open batch. It stays what it is if the visit
        does not end it, in the *queue* of another host, if it is queued again."""
        self._waiting.remove(host, lease.sort_key)
        if lease.queues_again(outcome.event):
            self._queue_again(lease, host, queue, outcome, now)
            return Released(State.QUEUED)
        self._waiting.visited(lease.page_id)
        return self._end(lease, outcome, host, now)

    def release_beside(self, lease: Lease, outcome: Outcome, now: float) -> Released | None:
        """Put what a visit showed that was wanted before its page is due (``dont_filter``) into the open
        batch, as if the page had come back; None if nothing comes back, that page is not finished or is due
        now, or nothing of it was seen. A lookup."""
        page_id, is_seen = lease.node, outcome.event is Event.FETCHED and outcome.fetched is not None
        if not self._revisit_queue.revisits_pages or page_id is None or not is_seen:
            return None
        page = self._revisit_queue.finished(page_id)
        if page is None or page.is_due:
            return None
        host = self._hosts.of_page(page)  # this visit may have had a slot or an address of its own
        home = copy(lease)
        home.page_id, home.page = page_id, page._replace(attempts=lease.page.attempts)
        self._revisit_queue.remove(page_id, page)
        released = self._end(home, outcome._replace(request=None), host, now)
        self._hosts.forget_if_idle(host, now)
        return released

    def _queue_again(self, lease: Lease, host: Host, queue: Host, outcome: Outcome, now: float) -> None:
        page = _tried(lease.page, outcome)
        if outcome.status == 304 and page.visits is not None:  # it is asked for in full
            page = page._replace(visits=page.visits._replace(trust=max(page.visits.trust, FULL_AFTER)))
        if queue is not host:
            page = page._replace(host=queue.name)
            for its, change in ((host, -1), (queue, 1)):
                self._batch.count_ended(its, page.state, change, page.status)
        self._batch.put_page(lease.page_id, page)
        self._waiting.queue_again(queue, lease.sort_key, page.priority, outcome, now)

    def _end(self, lease: Lease, outcome: Outcome, host: Host, now: float) -> Released:
        before, batch = lease.page, self._batch
        judged = self._judge(lease, outcome, now)
        kept, added, removed = self._write_links(lease, outcome, judged)
        page = self._revisit_queue.come_back(lease, judged.page, judged.plan, judged.end.after, now)
        if (page.state, page.status) != (before.state, before.status):
            batch.count_ended(host, before.state, -1, before.status)
            batch.count_ended(host, page.state, status=page.status)
        batch.put_page(lease.page_id, page)
        visit = None
        if judged.result is not None:
            has_new_links = bool(added or removed)
            told = policy.conclusion(before, page, judged.result, judged.end, has_new_links)
            old, new = (b"" if each.visits is None else each.visits.digest for each in (before, page))
            visit = VisitEnd(told, judged.result, before, old, new, added, removed, judged.lost_host)
        return Released(page.state, links=kept, visit=visit)

    # -- what becomes of it ----------------------------------------------------------------------------

    def _judge(self, lease: Lease, outcome: Outcome, now: float) -> _Judged:
        event, revisit_queue = outcome.event, self._revisit_queue
        page = _tried(lease.page, outcome)._replace(visit_payload=b"")
        visits, weight = visits_of(page), revisit_queue.weight(lease)
        if outcome.request is not None:
            page = page._replace(payload=outcome.request[0], facts=outcome.request[1])
        plan = revisit_queue.plan_of(lease.page_id, page, lease.host, visits, weight)
        rests = revisit_queue.rule.rests(plan)
        if event is Event.LOST:  # its callback may be there again
            return _Judged(page._replace(attempts=0), policy.Ending(None, rests.span), plan, None)
        result = outcome.result if outcome.result is not None else policy.result_by(event, outcome.status)
        losses = self._rates.visited(lease.host, result, page, visits)
        shown = Result.ERROR if plan.is_hub and result in policy.NO_END_OF_A_HUB else result
        end = policy.ending(shown, page.state, rests, visits.bad, now, not losses.are_many)
        if event is Event.EXCLUDED and end.state is State.DONE is not page.state:
            end = end._replace(state=State.EXCLUDED)  # skipped: only what was read before stays done
        notes = page.reason if result is Result.UNCHANGED else outcome.reason  # as its record has them then
        if policy.is_alias(shown, notes):
            end = end._replace(after=rests.span if plan.is_hub else rests.longest)
        is_lost = losses.are_many and end.state is None and policy.state_lost(shown) is not None
        page = _after(page, visits, shown, end, outcome, int(now))
        if end.state is State.DONE:
            page, plan = self._learn(lease, page, visits, plan, shown, weight, now)
            end = end._replace(after=plan.span if end.after == rests.span else end.after)
        return _Judged(page, end, plan, result, lease.host if is_lost else "")

    def _learn(
        self, lease: Lease, page: Page, before: Visits, plan: Plan, result: Result, weight: int, now: float
    ) -> tuple[Page, Plan]:
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
        plan = self._revisit_queue.plan_of(lease.page_id, page, lease.host, after, weight)
        if self._rates.is_adaptive and not plan.is_fixed:
            weight_of_page = keys.score_of(weight) or 1.0
            self._rates.came_back(lease.host, before, after, plan.span, weight_of_page)
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
        after = self._batch.put_links(page_id, links)
        scores.parsed(page_id, after)
        return (len(after) if end.state is State.DONE else 0), *difference(before, after)


def _tried(page: Page, outcome: Outcome) -> Page:
    """The record of a page that comes back after one more attempt, with the request of the next one."""
    attempts = min(page.attempts + (outcome.event not in UNCOUNTED), 255)
    payload = page.visit_payload if outcome.visit_payload is None else outcome.visit_payload
    return page._replace(attempts=attempts, visits=visits_of(page), visit_payload=payload)


def _after(page: Page, visits: Visits, result: Result, end: Ending, outcome: Outcome, now: int) -> Page:
    """The record of a page whose revisit met that, and ends so."""
    is_unmodified = outcome.status == 304 and end.state is State.DONE
    if is_unmodified:
        visits = not_modified(visits, outcome.fetched, now)
    elif end.state is State.DONE and outcome.fetched is not None:
        visits = read(visits, outcome.fetched, now)
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
