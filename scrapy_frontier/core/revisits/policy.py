"""When a page comes back, in which order, and what becomes of it then: plain values in and out.

A page stays what it is until a visit ends it: no document is lost to one bad day. Times are POSIX seconds,
spans seconds. `crawl_value` has the mathematics of "adaptive", `estimate_change_rates` what visits teach.
"""

from __future__ import annotations

from enum import IntEnum
from math import inf
from typing import NamedTuple

from .. import reasons
from ..store.states import State
from ..store.visit_rows import NOT_BAD, BadVisits
from ..transitions import Event
from .crawl_value import Bounds, best_span, crawl_value, hinted_value

# A page is due a little before its span is over: a crawl that is started every day at about the same hour
# visits each day what has a shelf life of a day.
_DUE_SHARE = 0.9
_ERROR_SHARE = 0.25  # of its span, after which a page comes back that had a bad day
_AGREED_AFTER = 3600.0  # seconds between two visits that have to say the same before a page is gone


def due_at(visited: float, span: float, waits: bool = False) -> float:
    """When a page is due that was *visited* last then and comes back after *span* seconds (POSIX seconds).

    *waits*: the crawl waits for what falls due. Else what is due is judged once, at the start of a run.
    """
    return visited + (span if waits else _DUE_SHARE * span)


def age_value(weight: float, visited: float, now: float) -> float:
    """What puts due pages in order by "interval": importance times age in seconds, 0 at the least."""
    return weight * max(now - visited, 0.0)


class Adaptive(NamedTuple):
    """Every page when a visit is worth what it costs: the ``multiplier`` of its host."""

    multiplier: float
    bounds: Bounds = Bounds()

    def span(self, weight: float, rate: float, recall: float = 0.0) -> float:
        """Seconds until the page comes back where nothing is told of it, within the bounds; see
        `crawl_value.best_span`."""
        return self.bounds.within(best_span(weight, rate, self.multiplier, recall))

    def is_due_by_hint(self, weight: float, rate: float, precision: float, elapsed: float) -> bool:
        """Whether a hint makes the page due now, where the host's hints are right with chance *precision*.

        Not the one that changes too fast for what it weighs, and not within its shortest span.
        """
        return (
            precision >= 0.5
            and elapsed >= self.bounds.shortest
            and hinted_value(weight, rate, precision) > self.multiplier
        )


def due_value(weight: float, rate: float, age: float, recall: float = 0.0, precision: float = 0.0) -> float:
    """What puts due pages in order by "adaptive": the crawl value, or more if a hint says it has changed.

    *precision*: how often the host's hints are right, 0 for a page without one.
    """
    value = crawl_value(weight, rate, age, recall)
    return max(value, hinted_value(weight, rate, precision)) if precision >= 0.5 else value


# -- how a visit ends ------------------------------------------------------------------------------------


class Result(IntEnum):
    """What a revisit of a page met. The numbers are on disk (`visit_rows.BadVisits`): never change one."""

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
    ALIAS = 10  # its canonical is another page


NO_END_OF_A_HUB = (Result.MISSING, Result.GONE, Result.CALLBACK_FAILED)


def result_by(
    event: Event, status: int, notes: str = "", was: int = 0, by_spider: bool = False, by_robots: bool = True
) -> Result:
    """What a visit met that ended by *event*, after the server answered with *status*.

    *notes*: what the page says of itself, or why it is excluded; *was*: the status it had. The callback is to
    blame for a failure *by_spider*, and others than robots.txt for what is excluded, but not *by_robots*.
    """
    if event is Event.FETCHED:
        if 300 <= status < 400 and status != 304 and 200 <= was < 300:
            return Result.ERROR  # a redirect that names no place came where a page was
        if reasons.has_note(notes, reasons.NOINDEX()):
            return Result.NOINDEX
        return Result.ALIAS if reasons.is_alias(notes) else Result.READ
    if event is Event.GONE:
        return Result.GONE if status == 410 else Result.MISSING
    if event is Event.REDIRECTED:
        return Result.MOVED if status in (301, 308) else Result.ELSEWHERE
    if event is Event.EXCLUDED and reasons.has_note(notes, reasons.SKIPPED()):
        return Result.NOINDEX
    if event is Event.EXCLUDED and by_robots:
        return Result.FORBIDDEN
    return Result.CALLBACK_FAILED if event is Event.FAILED and by_spider else Result.ERROR


def result_at_the_end(state: State, status: int, notes: str, is_hub: bool) -> Result:
    """What the visit met that left a page in *state*, with *notes* on it. A hub is nobody's alias."""
    result = result_by(_ENDED_BY.get(state, Event.REDIRECTED), status, notes)
    return Result.READ if is_hub and result is Result.ALIAS else result


_ENDED_BY = {
    State.DONE: Event.FETCHED,
    State.GONE: Event.GONE,
    State.FAILED: Event.FAILED,
    State.EXCLUDED: Event.EXCLUDED,
}


def is_alias(result: Result, notes: str) -> bool:
    """Whether a page with these *notes* that was read, or has not changed, names another as its canonical."""
    return result is Result.ALIAS or (result in (Result.READ, Result.UNCHANGED) and reasons.is_alias(notes))


class Ending(NamedTuple):
    """What becomes of a page by a revisit.

    ``state`` None: it stays what it is, with its record, links, weight and digest. ``after``: seconds until
    it comes back; infinite: when its host's robots.txt changes. ``is_gone``: whoever keeps an index of the
    pages is told that this one is gone. ``keeps_links`` and ``keeps_validators``: those of before stand.
    """

    state: State | None
    after: float
    bad: BadVisits = NOT_BAD
    is_gone: bool = False
    keeps_links: bool = True
    keeps_validators: bool = True


def ending(
    result: Result,
    state: State,
    span: float,
    longest: float,
    bad: BadVisits,
    now: float,
    can_end: bool = True,
) -> Ending:
    """What becomes of a page in *state* that comes back every *span* seconds, at most *longest*.

    *can_end* False: most pages of its host would be gone now: then 404, 410 and redirects count as errors,
    but for a page that was gone before.
    """
    settled = _SETTLED.get(result)
    if settled is not None:
        after = longest if result is Result.ALIAS else inf if result is Result.FORBIDDEN else span
        return settled._replace(after=after)
    bad = bad._replace(visits=bad.visits + 1)
    if result is Result.CALLBACK_FAILED:
        return Ending(State.FAILED, _later(span, bad, longest), bad, keeps_validators=False)
    becomes = state_lost(result)
    if becomes is None or (not can_end and state is not becomes):
        return Ending(None, _later(span, bad, longest), bad)
    if result is Result.GONE:
        return _lost(State.GONE, longest, BadVisits(1, result, int(now)), state)
    if state is becomes:
        return _lost(becomes, next_span(result, span, longest, bad), bad, state)
    if state_lost(bad.result) is not becomes:
        bad = BadVisits(bad.visits, result, int(now))
    if now - bad.since < _AGREED_AFTER:
        return Ending(None, max(_later(span, bad, longest), bad.since + _AGREED_AFTER - now), bad)
    bad = BadVisits(0, result, int(now))
    return _lost(becomes, next_span(result, span, longest, bad), bad, state)


_SETTLED = {
    Result.READ: Ending(State.DONE, 0.0, keeps_links=False, keeps_validators=False),
    Result.UNCHANGED: Ending(State.DONE, 0.0),
    Result.NOINDEX: Ending(State.DONE, 0.0, is_gone=True, keeps_links=False, keeps_validators=False),
    Result.ALIAS: Ending(State.DONE, 0.0, keeps_links=False, keeps_validators=False),
    Result.FORBIDDEN: Ending(State.EXCLUDED, 0.0, is_gone=True, keeps_links=False, keeps_validators=False),
}


def _lost(becomes: State, after: float, bad: BadVisits, state: State) -> Ending:
    """A page that is certainly not where it was; told once."""
    return Ending(becomes, after, bad, state is not becomes, keeps_links=False, keeps_validators=False)


def state_lost(result: int) -> State | None:
    """What a page becomes that is certainly not where it was; None where the visit met no such thing."""
    if result in (Result.MISSING, Result.GONE):
        return State.GONE
    return State.REDIRECTED if result in (Result.MOVED, Result.ELSEWHERE) else None


def was_reported_gone(result: Result, state: State, notes: str) -> bool:
    """Whether who keeps an index was told before that a page is gone, which was in *state* with these *notes*
    until a visit with this *result*."""
    is_gone = result in (Result.NOINDEX, Result.FORBIDDEN) or state_lost(result) is not None
    return is_gone and (state in (State.GONE, State.REDIRECTED, State.EXCLUDED) or has_noindex(notes))


def may_come_back(state: State, notes: str) -> bool:
    """Whether a page comes back by itself that ended in *state* with these *notes*, whatever its visits
    showed: not one that must not be fetched, but one that was, and skipped."""
    return state in _COME_BACK or (state is State.EXCLUDED and has_noindex(notes))


_COME_BACK = (State.DONE, State.REDIRECTED, State.GONE, State.FAILED)


def has_noindex(notes: str) -> bool:
    """Whether the notes on a page say that it asks to be kept nowhere: its items were dropped, or it was
    skipped."""
    return reasons.has_note(notes, reasons.NOINDEX(), reasons.SKIPPED())


def next_span(result: Result, span: float, longest: float, bad: BadVisits = NOT_BAD) -> float:
    """Seconds until a page comes back that was read, or is gone: that one is looked for rarely, for hardly
    any is gone for ever."""
    if result is Result.MISSING:
        return _doubled(span, bad.visits, longest)
    if result in (Result.GONE, Result.ALIAS):
        return longest
    return min(4.0 * span if result is Result.MOVED else span, longest)


def longest_rest(result: Result, span: float, longest: float, bad: BadVisits, now: float) -> float:
    """Seconds that a page rests, at most, whose last visit was a *bad* one just now, and that ended with that
    *result* before."""
    rest = max(_later(span, bad, longest), bad.since + _AGREED_AFTER - now)
    return rest if state_lost(result) is None else max(rest, next_span(result, span, longest, bad))


def _later(span: float, bad: BadVisits, longest: float) -> float:
    return _doubled(_ERROR_SHARE * span, bad.visits - 1, longest)


def _doubled(span: float, times: int, longest: float) -> float:
    return min(span * 2.0 ** min(times, 64), longest)


# -- most of a host is gone at once ----------------------------------------------------------------------

_HOUR = 3600.0
_FEW = 8  # visits that say nothing yet of a host


class Losses(NamedTuple):
    """Revisits of a host's pages in the hour from ``since``, and how many found the page gone."""

    since: float = 0.0
    visits: int = 0
    gone: int = 0

    @property
    def are_many(self) -> bool:
        """Whether none should end now: more than half of the pages are gone, so the host is to blame."""
        return self.visits >= _FEW and 2 * self.gone > self.visits

    @property
    def blame(self) -> int:
        """What is kept of it, 0 to 8: what stands against the host when the next hour begins; 0 where it is
        well."""
        return _FEW * self.gone // self.visits if self.are_many else 0


def blamed(blame: int, now: float) -> Losses:
    """The losses of a host at the beginning of an hour: it has to show in that that it is well."""
    return Losses(now, _FEW, blame) if blame else Losses(now)


def after_visit(losses: Losses, result: Result, now: float, state: State, bad: BadVisits = NOT_BAD) -> Losses:
    """The losses of a host after one more visit of a page, as that was before; doubts count as well as ends.

    Errors say nothing, nor do pages that were gone before, or doubted when their host was well: the second
    visits of these come together.
    """
    if result in (Result.ERROR, Result.CALLBACK_FAILED, Result.FORBIDDEN):
        return losses
    becomes = state_lost(result)
    if becomes is not None and (state in (State.GONE, State.REDIRECTED) or becomes is state_lost(bad.result)):
        return losses
    if not 0.0 <= now - losses.since < _HOUR:
        losses = blamed(losses.blame, now)
    return Losses(losses.since, losses.visits + 1, losses.gone + (becomes is not None))
