"""How a revisit ends: its record, its links, and when it comes back.

What a 304 comes to (RFC 9110 13), and of whom none is asked for; what the same content comes to.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from .. import reasons
from ..parse.headers import answers
from ..revisits import policy
from ..revisits.policy import Conclusion, Fetched, Losses, Result, VisitEnd, had_false_304, not_modified, read
from ..store.keys import State
from ..store.link_rows import difference
from ..store.records import NO_VALIDATORS, NOT_BAD, QUEUED_AGAIN, BadVisits, Visits
from ..transitions import UNCOUNTED, Event, event_at
from .leases import Lease, Outcome, Released
from .revisit_queue import is_forbidden

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..hosts.host import Host
    from ..hosts.hosts import Hosts
    from ..parse.directives import Consequences
    from ..revisits.budget import RevisitBudget
    from ..revisits.plans import LearntChangeRates, Plan
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.records import Page
    from .queue import Waiting
    from .revisit_queue import ForbiddenPages, RevisitQueue
    from .scores import Scores

if TYPE_CHECKING:
    Pair = tuple[bytes, bytes]

_MOST_STEPS = 20  # redirects that are followed from page to page
_FALSE_OF_A_HOST = 3  # pages with a false 304, after which the whole host is asked unconditionally


class False304s:
    """The hosts and pages that answered 304 in this run and should not have. In memory only.

    Of hosts the pages that were found to have a false 304, as far as they were visited; of pages those whose
    304 says nothing of what is kept: they are asked without validators until that visit ends.
    """

    def __init__(self) -> None:
        self._pages: dict[str, set[PageId]] = {}
        self._contradicted: set[PageId] = set()

    def note(self, host: str, page_id: PageId, trust: int) -> None:
        """A revisit of the page has ended with that *trust*: where that says that a 304 was false, it counts
        for *host*."""
        self._contradicted.discard(page_id)
        if had_false_304(trust) and not self.are_many(host):
            self._pages.setdefault(host, set()).add(page_id)

    def are_many(self, host: str) -> bool:
        """Whether nothing is asked conditionally of *host*: three of its pages were answered by a false 304.
        O(1)."""
        return len(self._pages.get(host, ())) >= _FALSE_OF_A_HOST

    def validators(self, lease: Lease) -> tuple[bytes, bytes]:
        """The tag and the date to ask for a page with, as its server sent them; both b"": unconditionally. As
        in `Lease.may_send`, but none for a host that answered "not modified" falsely on three pages, or for a
        page that did so just now."""
        is_doubted = lease.page_id in self._contradicted or self.are_many(lease.host)
        return (b"", b"") if is_doubted else lease.may_send

    def judge_304(self, lease: Lease, sent: Pair, received: Pair, consequences: Consequences) -> Outcome:
        """How a 304 ends *lease*: *sent* and *received* are tag and date it was asked with and that it has,
        *consequences* those of its directives.

        Fetched, if it answers that. Else the page is put back, once, to be asked for without validators; and
        fails where it was, or nobody waits for it any longer. What is new of its links has to be read on the
        page, too.
        """
        page, page_id = lease.page, lease.page_id
        noindex = reasons.new_notes(consequences.notes_of_items, page.reason)
        is_settled = lease.is_last or not reasons.new_notes(consequences.notes_of_links, page.reason)
        if is_settled and any(sent) and answers(sent[0], received[0]):
            reason = reasons.BETWEEN.join(filter(None, (*noindex, page.reason)))
            result = Result.NOINDEX if noindex else Result.UNCHANGED
            return Outcome(Event.FETCHED, 304, reason, page.target, result=result, fetched=Fetched(*received))
        is_second = page_id in self._contradicted if lease.comes_back else page.status == 304
        if is_second or lease.is_last:  # as it answers whoever asks
            return Outcome(event_at(304), 304, reasons.STATUS(status=304))
        if lease.comes_back:
            self._contradicted.add(page_id)
        return Outcome(Event.POSTPONED, 304, reasons.NOT_ASKED())


def judge_same(lease: Lease, status: int, fetched: Fetched, notes: Sequence[str] | None) -> Outcome | None:
    """How a page that was *fetched* with this *status* ends *lease* if it is as it was: unchanged, and as its
    record says. None where it is to be read.

    That it is where its content is another or nobody can tell (`Lease.has_changed`), and where its directives
    say something new: *notes* are theirs, None of a sitemap, whose record keeps none.
    """
    page = lease.page
    if lease.has_changed(fetched.digest) is not False:
        return None
    if notes is not None and not reasons.are_as_before(notes, page.reason):
        return None
    return Outcome(Event.FETCHED, status, page.reason, page.target, result=Result.UNCHANGED, fetched=fetched)


_MOST_LOSSES = 10_000  # hosts


class _Revisited(NamedTuple):
    """What a revisit that is over came to: the page's record from now on, its ``result``, None where it was
    none, and what becomes of the page by that; ``blamed`` is its host where most of that is gone."""

    page: Page
    result: Result | None
    ending: policy.Ending
    plan: Plan
    blamed: str = ""


@dataclass(eq=False, repr=False)
class RevisitEndings:
    """Ends the visits of pages that came back; a visit that has no answer is over with its last attempt."""

    _batch: Batch
    _hosts: Hosts
    _waiting: Waiting
    _scores: Scores
    _revisit_queue: RevisitQueue
    _rates: LearntChangeRates
    _budget: RevisitBudget
    _forbidden: ForbiddenPages
    _false_304s: False304s
    _losses: dict[str, Losses] = field(default_factory=dict, init=False)  # of this run

    def release(self, lease: Lease, outcome: Outcome, host: Host, queue: Host, now: float) -> Released:
        """Put the end of a visit of a page of *host* into the open batch, whose queue row goes. It stays
        what it is where the visit does not end it, in the *queue* of another host, if it is queued again."""
        self._waiting.remove(host, lease.sort_key)
        if lease.queues_again(outcome.event):
            self._queue_again(lease, host, queue, outcome, now)
            return Released(State.QUEUED)
        ended = self._judge(lease, outcome, now)
        self._waiting.visited(lease.page_id)
        kept, added, removed = self._write_links(lease, outcome, ended)
        page = self._write(lease, ended, host, now)
        self._batch.count_queued_again(host, -1)
        self._false_304s.note(lease.host, lease.page_id, 0 if page.visits is None else page.visits.trust)
        visit = _visit_end(lease.page, page, ended, added, removed)
        return Released(page.state, links=kept, visit=visit)

    def release_beside(self, lease: Lease, outcome: Outcome, now: float) -> Released | None:
        """Put what a visit showed that was wanted before its page is due (``dont_filter``) into the open
        batch, as if the page had come back; None where nothing comes back, where that page is not finished,
        or its own visit is near, and where nothing of it was seen. That visit's own rows are not touched. A
        lookup."""
        if not self._revisit_queue.revisits_pages:
            return None
        page_id, is_seen = lease.node, outcome.event is Event.FETCHED and outcome.fetched is not None
        page = self._revisit_queue.finished(page_id) if page_id is not None and is_seen else None
        if page_id is None or page is None or page.visits is None or page.visits.due == QUEUED_AGAIN:
            return None
        host = self._hosts.of_page(page)  # this visit may have had a slot or an address of its own
        home = copy(lease)
        home.page_id, home.page = page_id, page._replace(attempts=lease.page.attempts)
        ended = self._judge(home, outcome._replace(request=None), now)  # its own request stays
        kept, added, removed = self._write_links(home, outcome, ended)
        self._revisit_queue.remove(page_id, page)
        after = self._write(home, ended, host, now)
        self._hosts.forget_if_idle(host, now)
        return Released(after.state, links=kept, visit=_visit_end(page, after, ended, added, removed))

    # -- what becomes of it ----------------------------------------------------------------------------

    def _judge(self, lease: Lease, outcome: Outcome, now: float) -> _Revisited:
        event, revisit_queue = outcome.event, self._revisit_queue
        page, visits = _tried(lease.page, outcome)
        if outcome.request is not None:
            page = page._replace(payload=outcome.request[0], facts=outcome.request[1])
        page = page._replace(visit_payload=b"")
        is_on_its_way = event is Event.REDIRECTED and self._leads_back(lease.page_id, page, outcome)
        if event is Event.LOST or is_on_its_way:  # its callback may be there again, or its turn comes soon
            plan = revisit_queue.plan_of(lease.page_id, page, lease.host, visits, revisit_queue.weight(lease))
            end = policy.Ending(None, revisit_queue.rule.rests(plan)[0])
            return _Revisited(page._replace(attempts=0), None, end, plan)
        result = outcome.result if outcome.result is not None else policy.result_by(event, outcome.status)
        seen = result
        weight = revisit_queue.weight(lease)
        plan = revisit_queue.plan_of(lease.page_id, page, lease.host, visits, weight)
        self._budget.note(now)
        span, longest = revisit_queue.rule.rests(plan)
        losses = self._losses_with(lease.host, result, page.state, visits.bad, now)
        if plan.is_hub and result in policy.NO_END_OF_A_HUB:
            result = Result.ERROR
        end = policy.ending(result, page.state, span, longest, visits.bad, now, not losses.are_many)
        if event is Event.EXCLUDED and end.state is State.DONE is not page.state:
            end = end._replace(state=State.EXCLUDED)  # skipped: only what was read before stays done
        notes = page.reason if result is Result.UNCHANGED else outcome.reason  # as its record has them then
        if policy.is_alias(result, notes):
            shown = Result.READ if plan.is_hub else Result.ALIAS
            end = end._replace(after=policy.next_span(shown, span, longest))
        page = _after(page, visits, result, end, outcome, int(now))
        if end.state is State.DONE and page.visits is not None:
            page = page._replace(visits=self._learn(lease, visits, page.visits, result, now))
            if end.after == plan.span:  # as what was seen now has it
                plan = revisit_queue.plan_of(lease.page_id, page, lease.host, page.visits or visits, weight)
                end = end._replace(after=plan.span)
        is_kept = losses.are_many and end.state is None and policy.state_lost(result) is not None
        return _Revisited(page, seen, end, plan, lease.host if is_kept else "")

    def _leads_back(self, page_id: PageId, page: Page, outcome: Outcome) -> bool:
        """Whether a page that was there sends away, to where the way led back from: for a cookie, say. What
        comes of that, another visit shows."""
        target = outcome.target if page.state is State.DONE else None
        for _ in range(_MOST_STEPS):
            if target is None or target == page_id:
                break
            led_to = self._batch.read_page(target)
            target = led_to.target if led_to is not None and led_to.state is State.REDIRECTED else None
        return target == page_id

    def _learn(self, lease: Lease, before: Visits, after: Visits, result: Result, now: float) -> Visits:
        """The visits with what the last taught: nothing where none can tell whether the page has changed."""
        is_known = bool(before.digest and after.digest)
        was_visited = after.visits != before.visits
        if not was_visited or not (result is Result.UNCHANGED or is_known):
            return after
        has_changed = result is not Result.UNCHANGED and before.digest != after.digest
        page = lease.page._replace(visits=before)
        return self._rates.observed(lease.host, lease.delay, page, after, has_changed, now)

    def _losses_with(self, host: str, result: Result, state: State, bad: BadVisits, now: float) -> Losses:
        """What is gone of *host* within the hour, with one more visit."""
        before = self._losses.get(host)
        if before is None:
            before = policy.blamed(self._rates.blame_of(host), now)
        losses = policy.after_visit(before, result, now, state, bad)
        if len(self._losses) >= _MOST_LOSSES:
            self._losses.clear()
        self._losses[host] = losses
        self._rates.put_blame(host, losses.blame)
        return losses

    def _queue_again(self, lease: Lease, host: Host, queue: Host, outcome: Outcome, now: float) -> None:
        page, _ = _tried(lease.page, outcome)
        if queue is not host:
            page = page._replace(host=queue.name)
            for its, change in ((host, -1), (queue, 1)):
                self._batch.count_queued_again(its, change)
                self._batch.count_ended(its, page.state, change, page.status)
        self._batch.put_page(lease.page_id, page)
        self._waiting.queue_again(queue, lease.sort_key, page.priority, outcome, now)

    def _write(self, lease: Lease, ended: _Revisited, host: Host, now: float) -> Page:
        page, end, before, batch = ended.page, ended.ending, lease.page, self._batch
        if end.state is State.EXCLUDED and is_forbidden(page):
            page = self._revisit_queue.forbid(lease, page, now)
        else:
            after = end.after if end.after < inf else ended.plan.span
            page = self._revisit_queue.come_back(lease, page, ended.plan, after, now)
        if not is_forbidden(page):
            self._forbidden.allow(lease.page_id, before)
        if (page.state, page.status) != (before.state, before.status):
            batch.count_ended(host, before.state, -1, before.status)
            batch.count_ended(host, page.state, status=page.status)
        batch.put_page(lease.page_id, page)
        return page

    # -- its links -------------------------------------------------------------------------------------

    def _write_links(
        self, lease: Lease, outcome: Outcome, ended: _Revisited
    ) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """How many links were kept of a page that was read; targets that it links now, and links no more."""
        page_id, end, scores = lease.page_id, ended.ending, self._scores
        if outcome.content_score is not None and ended.result is not None:
            scores.content_scored(page_id, outcome.content_score)
        is_untold = end.state is State.DONE and not outcome.has_links
        if end.keeps_links or end.state is None or is_untold:
            return 0, (), ()
        from ..ranking.graph import find_row  # loads NumPy and SciPy: for those who use it

        try:
            before = find_row(page_id, self._batch.get)
        except ValueError:  # `check` sees to it
            before = []
        links = lease.edges if end.state is State.DONE else outcome.led_to(end.state)
        after = self._batch.put_links(page_id, links)
        scores.parsed(page_id, after)
        return (len(after) if end.state is State.DONE else 0), *difference(before, after)


def _tried(page: Page, outcome: Outcome) -> tuple[Page, Visits]:
    """The record of a page that comes back after one more attempt, which may have left it another request;
    and what of its visits is known by then."""
    visits = page.visits or Visits(page.changed, page.changed)
    attempts = min(page.attempts + (outcome.event not in UNCOUNTED), 255)
    payload = page.visit_payload if outcome.visit_payload is None else outcome.visit_payload
    return page._replace(attempts=attempts, visits=visits, visit_payload=payload), visits


def _after(
    page: Page, visits: Visits, result: Result, end: policy.Ending, outcome: Outcome, now: int
) -> Page:
    """The record of a page whose revisit met that, and ends so."""
    is_unmodified = outcome.status == 304 and end.state is State.DONE
    if is_unmodified:
        visits = not_modified(visits, outcome.fetched, now)
    elif end.state is State.DONE and outcome.fetched is not None:
        visits = read(visits, outcome.fetched, now)
    elif end.state is State.DONE:  # from Scrapy's HTTP cache, say: nobody was visited
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


def _visit_end(
    before: Page, page: Page, ended: _Revisited, added: tuple[int, ...], removed: tuple[int, ...]
) -> VisitEnd | None:
    """What those who keep an index of the pages are told; None where nobody was visited."""
    old, new, result = before.visits, page.visits, ended.result
    if result is None:
        return None
    digest, now = (b"" if visits is None else visits.digest for visits in (old, new))
    if policy.was_reported_gone(result, before.state, before.reason):
        conclusion = Conclusion.STILL_GONE
    elif ended.ending.is_gone:
        conclusion = Conclusion.GONE
    elif result is Result.UNCHANGED:
        conclusion = Conclusion.UNCHANGED
    elif result not in (Result.READ, Result.ALIAS):
        conclusion = Conclusion.UNDECIDED
    elif old is not None and not old.visits and is_forbidden(before):
        conclusion = Conclusion.NEW
    else:
        is_same = bool(digest) and digest == now and not added and not removed
        is_back = result is Result.READ and policy.has_noindex(before.reason)  # it was told as gone
        conclusion = Conclusion.UNCHANGED if is_same and not is_back else Conclusion.CHANGED
    return VisitEnd(conclusion, result, before, digest, now, added, removed, ended.blamed)
