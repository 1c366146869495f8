"""Decides what a visit showed, how it ends, what the next one is worth, and which validators it sends.

Pure functions. Times are POSIX seconds, spans seconds, rates changes a second; an average page has weight 1.

A page of weight w that changes at the rate r is fresh with probability exp(-r t) at t seconds after its last
visit. Visits at the span T keep it fresh for a share (1 - exp(-rT)) / rT of the time. For the most fresh
weight with a given number of visits a second, the marginal value of a visit is the same for all pages that
are visited at all (a Lagrange multiplier):

    value(T) = w / r * (1 - exp(-rT) * (1 + rT)) = multiplier

The value grows with T up to w / r. A page for which that is less than the multiplier is not worth a visit: it
changes too fast for its weight. To visit the page with the largest value now is best for the whole crawl
(Azar and others, PNAS 2018).

If a site reports a share q of its changes, the absence of a report is information: the page is fresh with
probability exp(-(1 - q) r t) while the site reports no change, and is visited when it does. The same
calculation then gives

    value(T) = w / r * (1 - exp(-rT) - (exp(-(1 - q) rT) - exp(-rT)) / q)
"""

from __future__ import annotations

from enum import Enum, IntEnum
from math import exp, expm1, inf, sqrt
from typing import TYPE_CHECKING, NamedTuple

from .. import reasons
from ..store.keys import FINISHED, State
from ..store.records import NO_VALIDATORS, NO_VISITS, NOT_BAD, BadVisits, Validators, Visits
from ..transitions import Event

if TYPE_CHECKING:
    from ..store.records import Page

# -- what a visit showed -------------------------------------------------------------------------------------


class Fetched(NamedTuple):
    """The response of a visit: the two validators as the server sent them; the ``digest`` of its content,
    five bytes or none; its ``content_type`` without parameters, in lower case; the ``length`` of the body in
    bytes.

    A body that broke off has neither validators nor a digest.
    """

    etag: bytes = b""
    last_modified: bytes = b""
    digest: bytes = b""
    content_type: str = ""
    length: int = 0


class Conclusion(str, Enum):
    """What a revisit means for an index of the pages."""

    NEW = "new"  # its callback saw it, for the first time
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    GONE = "gone"
    STILL_GONE = "still gone"  # as concluded before
    UNDECIDED = "undecided"  # it did not show


class VisitEnd(NamedTuple):
    """The end of a revisit: its ``conclusion`` and its ``result``.

    ``was`` is the record of the page before; ``before`` and ``digest`` are the digests before and now, empty
    if there is none. ``added`` and ``removed`` are the ids of pages that the page has begun or ceased to
    link.
    """

    conclusion: Conclusion
    result: Result
    was: Page
    before: bytes = b""
    digest: bytes = b""
    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()


def read(before: Visits | None, fetched: Fetched, now: int) -> Visits:
    """Return the visits of a page that was fetched at *now*, given those *before*, None if there were
    none."""
    before = before or NO_VISITS
    has_changed = bool(before.digest and fetched.digest) and before.digest != fetched.digest
    return before._replace(
        first=before.first or now,
        last=now,
        changed=now if has_changed else before.changed,
        due=0,
        visits=before.visits + 1,
        changes=before.changes + has_changed,
        digest=fetched.digest or before.digest,
        content_type=fetched.content_type,
        length=fetched.length,
        bad=NOT_BAD,
        validators=Validators(fetched.etag, fetched.last_modified),
        unmodified=0,
        is_hinted=False,
        is_queued=False,
    )


def not_modified(before: Visits, fetched: Fetched | None, now: int) -> Visits:
    """Return the visits of a page after a 304: digest and length stay, and the validators that the answer
    does not have."""
    old, new = before.validators, fetched or Fetched()
    return before._replace(
        last=now,
        due=0,
        visits=before.visits + 1,
        bad=NOT_BAD,
        validators=Validators(new.etag or old.etag, new.last_modified or old.last_modified),
        unmodified=min(before.unmodified + 1, FULL_AFTER),
        is_hinted=False,
        is_queued=False,
    )


FULL_AFTER = 10  # 304s in a row before an unconditional visit, since servers are not always right


def may_send(visits: Visits | None) -> Validators:
    """Return the validators for a conditional request; none after `FULL_AFTER` 304s in a row."""
    return NO_VALIDATORS if visits is None or visits.unmodified >= FULL_AFTER else visits.validators


# -- what a visit is worth -----------------------------------------------------------------------------------

_SMALL = 1e-4  # below it a series is used, since the difference of nearly equal numbers would be noise
_CERTAINLY_STALE = 60.0  # expected changes after which a page is certainly stale
_HALVINGS = 40


def share(changes: float, recall: float = 0.0) -> float:
    """Return the share, 0 to 1, of its largest value that a page has when *changes* are expected since its
    last visit. *recall*: the share of changes, less than 1, that a sitemap would have reported."""
    if changes < _SMALL:
        return (1.0 - recall) * changes * changes / 2.0
    if changes * (1.0 - recall) > 700.0:
        return 1.0
    gone = exp(-changes)
    silent = changes * gone if recall < _SMALL else (exp(-(1.0 - recall) * changes) - gone) / recall
    return -expm1(-changes) - silent


def crawl_value(weight: float, rate: float, elapsed: float, recall: float = 0.0) -> float:
    """Return the value of a visit *elapsed* seconds after the last one: 0 right after it, at most weight /
    rate. *weight* and *rate* are above 0; *recall* is as in `share`."""
    return weight / rate * share(rate * max(elapsed, 0.0), recall)


def best_span(weight: float, rate: float, multiplier: float, recall: float = 0.0) -> float:
    """Return the seconds after which a visit is worth *multiplier*; infinite if it never is, or *weight* is
    not positive. *rate* is above 0; *recall* is as in `share`. 20 us."""
    if weight <= 0.0:
        return inf
    wanted = multiplier * rate / weight
    if wanted >= 1.0:
        return inf
    if wanted < _SMALL * _SMALL / 2.0:
        return sqrt(2.0 * wanted / (1.0 - recall)) / rate
    low, high = 0.0, _CERTAINLY_STALE / (1.0 - recall)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if share(middle, recall) < wanted else (low, middle)
    return high / rate


class Bounds(NamedTuple):
    """The shortest and the longest span between two visits of a page, in seconds, whatever its value."""

    shortest: float = 3600.0
    longest: float = 45 * 86400.0

    def within(self, span: float) -> float:
        """Return *span*, which may be infinite, clamped to the bounds."""
        return min(max(span, self.shortest), self.longest)


def is_due_by_hint(multiplier: float, weight: float, rate: float, precision: float) -> bool:
    """Return whether a hint of change makes a page due now, if the hints of its site are right with
    probability *precision*. False for a page that changes too fast for its weight."""
    return precision >= 0.5 and precision * weight / rate > multiplier


def due_value(weight: float, rate: float, age: float, recall: float = 0.0, precision: float = 0.0) -> float:
    """Return the value by which "adaptive" orders due pages: the crawl value, or more if a hint says that the
    page has changed. *precision*: how often the hints of its site are right, 0 for a page without a hint."""
    value = crawl_value(weight, rate, age, recall)
    return max(value, precision * weight / rate) if precision >= 0.5 else value


FIRST_REVISITS = 10  # of a crawl; `FIRST_SHARE` of their mean value is the first multiplier
FIRST_SHARE = (
    1 / 40
)  # rather too many visits at first than too few: the multiplier rises faster than it falls
_LEAST_PAGES = 30  # with fewer the multiplier would jump
_LONGEST = 5.0  # shelf lives beyond the first that count of a longer time, since the crawl may have paused


def next_multiplier(
    multiplier: float, elapsed: float, planned: float, span: float, shelf_life: float, pages: int
) -> float:
    """Return the multiplier after a revisit that came *elapsed* seconds after the visit before, instead of
    *planned*, and is followed by the next one *span* seconds later. *pages* is the number of pages that come
    back, or of revisits so far if that is less.

    The mean time between two visits of a page, over all visits, should be the shelf life. If visits are
    closer, each has to be worth more from now on, if they are farther apart, less: by a share of 2 / *pages*
    at a time. Since visits are counted as they are made, this includes hosts that allow fewer visits, hints
    of sitemaps, and the times at which the crawl runs. Half of the change from one span to the next counts in
    advance, so that the multiplier does not oscillate; the delay of a late visit counts in full.
    """
    between = elapsed + (span - min(elapsed, planned)) / 2.0
    step = 2.0 * max(1.0 - between / shelf_life, -_LONGEST) / max(pages, _LEAST_PAGES)
    return multiplier * exp(step)


# -- how a visit ends ----------------------------------------------------------------------------------------

# A page is due a little before its span is over, so that a crawl that starts every day at about the same hour
# visits each day the pages with a shelf life of a day.
_DUE_SHARE = 0.9
_ERROR_SHARE = 0.25  # of its span, after which a page comes back whose visit failed
_AGREED_AFTER = 3600.0  # seconds between two visits that have to agree before a page is gone


def due_at(visited: float, span: float, waits: bool = False) -> float:
    """Return when a page is due that was *visited* last then and comes back after *span* seconds. *waits*:
    the crawl waits for pages to fall due; else it visits only those that are due at its start."""
    return visited + (span if waits else _DUE_SHARE * span)


class Result(IntEnum):
    """The result of a revisit. The numbers are on disk (`records.BadVisits`): never change one."""

    READ = 0  # fetched and parsed
    UNCHANGED = 1  # not modified, or the same content
    ERROR = 2  # no answer, 5xx, a time-out, attempts used up
    MISSING = 3  # 404
    GONE = 4  # 410
    MOVED = 5  # 301, 308
    ELSEWHERE = 6  # 302, 303, 307
    CALLBACK_FAILED = 7
    FORBIDDEN = 8  # by robots.txt
    NOINDEX = 9


def result_by(
    event: Event, status: int, notes: str = "", was: int = 0, by_spider: bool = False, by_robots: bool = True
) -> Result:
    """Return the result of a visit that ended by *event*, after the server answered with *status*.

    *notes*: the notes on the page, or why it is excluded; *was*: its status before. *by_spider*: its callback
    failed; not *by_robots*: something else than robots.txt excluded it.
    """
    if event is Event.FETCHED:
        if 300 <= status < 400 and status != 304 and 200 <= was < 300:
            return Result.ERROR  # a redirect without a target, in place of a page
        return Result.NOINDEX if reasons.has_note(notes, reasons.NOINDEX()) else Result.READ
    if event is Event.GONE:
        return Result.GONE if status == 410 else Result.MISSING
    if event is Event.REDIRECTED:
        return Result.MOVED if status in (301, 308) else Result.ELSEWHERE
    if event is Event.EXCLUDED and reasons.has_note(notes, reasons.SKIPPED()):
        return Result.NOINDEX
    if event is Event.EXCLUDED and by_robots:
        return Result.FORBIDDEN
    return Result.CALLBACK_FAILED if event is Event.FAILED and by_spider else Result.ERROR


_ENDED_BY = {
    State.DONE: Event.FETCHED,
    State.GONE: Event.GONE,
    State.FAILED: Event.FAILED,
    State.EXCLUDED: Event.EXCLUDED,
}


def result_of(page: Page) -> Result:
    """Return the result of the visit that gave *page* its present state."""
    return result_by(_ENDED_BY.get(page.state, Event.REDIRECTED), page.status, page.reason)


class Ending(NamedTuple):
    """What a visit makes of a page.

    ``state``: its new state; None if it keeps state, record, links, weight and digest. ``after``: seconds
    until it comes back. ``is_gone``: `signals.page_gone` is sent. ``keeps_links``, ``keeps_validators``: they
    stay.
    """

    state: State | None
    after: float
    bad: BadVisits = NOT_BAD
    is_gone: bool = False
    keeps_links: bool = False
    keeps_validators: bool = False


class Rests(NamedTuple):
    """The seconds until a page comes back by its plan, and the most that they are after failed visits."""

    span: float
    longest: float

    def doubled(self, times: int, share: float = 1.0) -> float:
        """Return a *share* of the span, doubled so many *times*, up to the longest."""
        return min(share * self.span * 2.0 ** min(times, 64), self.longest)

    def after_errors(self, bad_visits: int) -> float:
        """Return the seconds until a page comes back after so many failed visits in a row."""
        return self.doubled(bad_visits - 1, _ERROR_SHARE)


def ending(result: Result, state: State | None, rests: Rests, bad: BadVisits, now: float) -> Ending:
    """Return what a visit with this *result* makes of a page in *state*, None if it is the first visit. A 404
    or a redirect in place of a page has to be confirmed an hour or more later."""
    span, longest = rests
    settled = {
        Result.READ: Ending(State.DONE, span),
        Result.UNCHANGED: Ending(State.DONE, span, keeps_links=True, keeps_validators=True),
        Result.NOINDEX: Ending(State.DONE, span, is_gone=True),
        Result.FORBIDDEN: Ending(State.EXCLUDED, span, is_gone=True),
        Result.CALLBACK_FAILED: Ending(
            State.FAILED,
            rests.after_errors(bad.visits + 1),
            bad._replace(visits=bad.visits + 1),
            keeps_links=True,
        ),
    }.get(result)
    if settled is not None:
        return settled
    becomes, gone_before = state_lost(result), bad.visits if state in _LOST else 0
    bad = bad._replace(visits=bad.visits + 1)
    undecided = Ending(None, rests.after_errors(bad.visits), bad, keeps_links=True, keeps_validators=True)
    if becomes is None:
        return undecided
    after = {
        Result.MISSING: rests.doubled(gone_before + 1 if state is becomes else 0),
        Result.GONE: longest,
        Result.MOVED: min(4.0 * span, longest),
        Result.ELSEWHERE: min(span, longest),
    }[result]
    if state is becomes:
        return Ending(becomes, after, bad)
    if state is not None and result is not Result.GONE:
        if state_lost(bad.result) is not becomes:
            bad = BadVisits(bad.visits, result, int(now))
        rest = bad.since + _AGREED_AFTER - now
        if rest > 0:
            return undecided._replace(after=max(undecided.after, rest), bad=bad)
    return Ending(becomes, after, BadVisits(0, result, int(now)), is_gone=True)


_LOST = (State.GONE, State.REDIRECTED)


def state_lost(result: int) -> State | None:
    """Return the state of a page that a visit did not find any more; None for any other *result*."""
    if result in (Result.MISSING, Result.GONE):
        return State.GONE
    return State.REDIRECTED if result in (Result.MOVED, Result.ELSEWHERE) else None


def is_forbidden(page: Page) -> bool:
    """Return whether robots.txt excludes the page, as its reason says."""
    return page.state is State.EXCLUDED and reasons.FORBIDDEN.read(page.reason) is not None


def has_noindex(notes: str) -> bool:
    """Return whether a page was found to be ``noindex``, so that its items were dropped or it was skipped."""
    return reasons.has_note(notes, reasons.NOINDEX(), reasons.SKIPPED())


def may_come_back(page: Page) -> bool:
    """Return whether a finished page may come back by itself: not one that something else than robots.txt
    excluded, unless it was skipped for its ``noindex``."""
    if page.state is State.EXCLUDED:
        return is_forbidden(page) or has_noindex(page.reason)
    return page.state in FINISHED


def conclusion(was: Page, is_now: Page, result: Result, end: Ending, has_new_links: bool) -> Conclusion:
    """Return what a revisit means for an index of the pages. *has_new_links*: links were added or removed."""
    old, new = was.visits, is_now.visits
    is_gone = result in (Result.NOINDEX, Result.FORBIDDEN) or state_lost(result) is not None
    if is_gone and (was.state in (*_LOST, State.EXCLUDED) or has_noindex(was.reason)):
        return Conclusion.STILL_GONE
    if end.is_gone:
        return Conclusion.GONE
    if result is Result.UNCHANGED:
        return Conclusion.UNCHANGED
    if result is not Result.READ:
        return Conclusion.UNDECIDED
    if old is not None and not old.visits and is_forbidden(was):
        return Conclusion.NEW
    digest = b"" if old is None else old.digest
    is_same = bool(digest) and new is not None and digest == new.digest and not has_new_links
    was_gone = has_noindex(was.reason)  # it was concluded to be gone
    return Conclusion.UNCHANGED if is_same and not was_gone else Conclusion.CHANGED
