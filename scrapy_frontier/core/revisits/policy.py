"""When a page comes back, in which order, and what becomes of it then: plain values in and out.

A page stays what it is until a visit ends it: no document is lost to one bad day. Times are POSIX seconds,
spans seconds. `crawl_value` has the mathematics of "adaptive", `estimate_change_rates` what visits teach.

What a visit showed, and what is kept of it: plain values in and out.

What a revisit is worth, and when it is worth asking again.

A page of weight w that changes at the rate r is fresh with chance exp(-r t) when its last visit is t seconds
ago. Visits at the span T keep it fresh for a share (1 - exp(-rT)) / rT of the time; to have the most fresh
weight for a number of visits a second, all pages that are visited at all have to meet one multiplier:

    value(T) = w / r * (1 - exp(-rT) * (1 + rT)) = multiplier

The value grows with T up to w / r, and a page for which that is less than the multiplier is not worth a
visit: it changes too fast for what it weighs. The page with the largest value now is the one to fetch now,
the best for the whole crawl with nothing solved for it (Azar and others, PNAS 2018).

Where a host tells of a share q of its changes, silence is news: the page is fresh with chance
exp(-(1 - q) r t) as long as nothing is told, and is asked when it is. The same calculation then gives

    value(T) = w / r * (1 - exp(-rT) - (exp(-(1 - q) rT) - exp(-rT)) / q)

All is pure: weights have no unit, rates are changes a second, spans are seconds, values weight times seconds.

How far a server is believed that says whether its page has changed: one byte in the record of the page.

A server may lie both ways. Its tag may change although the page does not (several machines, each with a
tag of its own; a tag made of the time): then every visit brings the body, and `Last-Modified` would do better
alone. Or it answers 304 although the page has changed (a cache in front of it): then nobody ever sees that,
so now and then the page is asked for as if for the first time.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from functools import partial
from math import exp, expm1, inf, sqrt
from typing import TYPE_CHECKING, NamedTuple

from .. import reasons
from ..parse.headers import is_same_tag
from ..store.keys import State
from ..store.records import NO_HISTORY, NO_VALIDATORS, NOT_BAD, BadVisits, Validators, Visits, new_visits
from ..transitions import Event

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.keys import PageId
    from ..store.records import Page


class Fetched(NamedTuple):
    """What the response of a visit was.

    The two validators as the server sent them; ``digest`` of its content, five bytes, or none where nobody
    wants it; ``content_type`` without parameters, in lower case; ``length`` of the body in bytes. A body that
    broke off is no observation. ``was_asked``: with validators, so that it came because it had changed.
    """

    etag: bytes = b""
    last_modified: bytes = b""
    digest: bytes = b""
    content_type: str = ""
    length: int = 0
    is_body_whole: bool = True
    was_asked: bool = False


# `Fetched` of a tuple of all fields, in half the time.
new_fetched: Callable[[tuple[bytes, bytes, bytes, str, int, bool, bool]], Fetched]
new_fetched = partial(tuple.__new__, Fetched)


class Conclusion(str, Enum):
    """What a revisit means to those who keep an index of the pages."""

    NEW = "new"  # its callback saw it, for the first time
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    GONE = "gone"
    STILL_GONE = "still gone"  # they were told before
    UNDECIDED = "undecided"  # it showed nothing


class VisitEnd(NamedTuple):
    """What a revisit came to: its ``conclusion``, and the ``result``, which is what it met.

    ``was`` is the record of the page until then, ``before`` and ``digest`` are the digests then and now,
    empty where there was none. ``added`` and ``removed`` are ids of pages that the page links now, or links
    no more. ``blamed`` is its host, where most pages of that were gone within the hour, so that none ends for
    that.
    """

    conclusion: Conclusion
    result: Result
    was: Page
    before: bytes = b""
    digest: bytes = b""
    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    blamed: str = ""


def as_given(digest: bytes) -> bytes:
    """The *digest* of what the spider says is the content of a page: its last bit is 1, that of others 0."""
    return digest[:-1] + bytes((digest[-1] | 1,)) if digest else b""


def differ(one: bytes, other: bytes) -> bool | None:
    """Whether two digests are of different content; None where nobody can tell: one is missing, or they are
    made of two kinds of content (`as_given`)."""
    return None if not one or not other or (one[-1] ^ other[-1]) & 1 else one != other


def read(before: Visits | None, fetched: Fetched, now: int) -> Visits:
    """What is kept of a page that was fetched at *now*: its record was *before*, None where it had none.

    A body that broke off adds a visit and its time, no more; validators are kept of a whole one alone.
    """
    etag, last_modified, digest, content_type, length, is_body_whole, _ = fetched
    is_bare = not (is_body_whole and (etag or last_modified))
    validators = NO_VALIDATORS if is_bare else Validators(etag, last_modified)
    if before is None or not before.visits:
        digest = digest if is_body_whole else b""
        about = now, now, 0, 0, 1, 0, NO_HISTORY, digest, content_type, length, NOT_BAD, validators, 0, False
        return new_visits(about)
    if not is_body_whole:
        return before._replace(last=now, visits=before.visits + 1)
    has_changed = bool(before.digest and digest) and before.digest != digest
    kept, new = Served(*before.validators, before.digest), Served(*validators, digest)
    return before._replace(
        last=now,
        changed=now if has_changed else before.changed,
        due=0,
        visits=before.visits + 1,
        changes=before.changes + has_changed,
        digest=digest,
        content_type=content_type,
        length=length,
        bad=NOT_BAD,
        validators=validators,
        is_hinted=False,
        trust=after_content(before.trust, kept, new, fetched.was_asked),
    )


def not_modified(before: Visits, fetched: Fetched | None, now: int) -> Visits:
    """What is kept of a page that the server says has not changed: its body stands, and what of its
    validators the answer did not name."""
    old, new = before.validators, fetched or Fetched()
    return before._replace(
        last=now,
        due=0,
        visits=before.visits + 1,
        bad=NOT_BAD,
        validators=Validators(new.etag or old.etag, new.last_modified or old.last_modified),
        trust=after_unmodified(before.trust),
        is_hinted=False,
    )


SMALL = 1e-4  # below it the series, where the difference of nearly equal numbers would be noise
CERTAINLY_STALE = 60.0  # changes after which a page that was not told of is certainly stale
_PRECISE = 1e-12
HALVINGS = 40  # halvings: twelve digits of a span, eleven of a multiplier


def share(changes: float, recall: float = 0.0) -> float:
    """How much of its largest value a page has where *changes* are to be expected since its last visit.

    0 to 1, and growing. *recall*: the share of changes, less than 1, that would have been hinted.
    """
    if changes < SMALL:
        return (1.0 - recall) * changes * changes / 2.0
    if changes * (1.0 - recall) > 700.0:
        return 1.0
    gone = exp(-changes)
    silent = changes * gone if recall < SMALL else (exp(-(1.0 - recall) * changes) - gone) / recall
    return -expm1(-changes) - silent


def crawl_value(weight: float, rate: float, elapsed: float, recall: float = 0.0) -> float:
    """What a visit is worth *elapsed* seconds after the last one: 0 right after it, at most weight / rate.

    *weight* and *rate* (changes a second) above 0; *recall*: as in `share`.
    """
    return weight / rate * share(rate * max(elapsed, 0.0), recall)


def hinted_value(weight: float, rate: float, precision: float) -> float:
    """What a visit is worth of a page whose change was hinted: it has changed with the chance *precision*.

    *rate* is changes a second, above 0.
    """
    return precision * weight / rate


def best_span(weight: float, rate: float, multiplier: float, recall: float = 0.0) -> float:
    """Seconds after which a visit is worth *multiplier*; infinite where it never is, or where *weight* is not
    positive. *rate*: changes a second, above 0; *recall*: as in `share`. Newton's steps within a bracket; 10
    us."""
    if weight <= 0.0:
        return inf
    wanted = multiplier * rate / weight
    if wanted >= 1.0:
        return inf
    if wanted < SMALL * SMALL / 2.0:
        return sqrt(2.0 * wanted / (1.0 - recall)) / rate
    low, high = 0.0, CERTAINLY_STALE / (1.0 - recall)
    changes = min(sqrt(2.0 * wanted / (1.0 - recall)), high)
    for _ in range(HALVINGS):  # six or so are enough
        beyond = share(changes, recall) - wanted
        low, high = (changes, high) if beyond < 0.0 else (low, changes)
        slope = _slope(changes, recall)
        following = changes - beyond / slope if slope > 0.0 else low
        if not low < following < high:
            following = (low + high) / 2.0
        if abs(following - changes) <= _PRECISE * changes:
            break
        changes = following
    return changes / rate


def _slope(changes: float, recall: float) -> float:
    """How fast `share` grows."""
    gone = exp(-changes)
    if recall < SMALL:
        return changes * gone
    return gone + ((1.0 - recall) * exp(-(1.0 - recall) * changes) - gone) / recall


class Bounds(NamedTuple):
    """Seconds that a page rests at least, and at most, whatever it is worth."""

    shortest: float = 3600.0
    longest: float = 45 * 86400.0

    def within(self, span: float) -> float:
        """*span* in seconds, no less than ``shortest`` and no more than ``longest``, infinite ones too."""
        return min(max(span, self.shortest), self.longest)


# The bits of the byte; 0 is the trust in a page that was visited once.
_CHANGED_TAGS = 0x03  # how often in a row the tag was another under equal content
_TAG_IS_NOISE = 0x03
_DOUBTS = 0x0C  # of its 304s
_DOUBT = 0x04
_LIED_TO = 0x08  # a 304 was false: it is asked unconditionally
_QUIET = 0xF0  # 304s in a row
_ONE_QUIET = 0x10

_FULL_AFTER = 9  # 304s in a row comes a full visit
_SPREAD = 6  # or up to so many less one later: not of all pages at once
_FULL_IN_DOUBT = 2


class Served(NamedTuple):
    """What a server told of a page with its content, and the ``digest`` of that; b"": nothing, or unknown."""

    etag: bytes = b""
    last_modified: bytes = b""
    digest: bytes = b""


def may_send(trust: int, page_id: PageId, etag: bytes, last_modified: bytes) -> tuple[bytes, bytes]:
    """With which of the kept validators a page may be asked for now; both b"": unconditionally.

    So it is after 9 to 14 304s in a row, after 2 where one is doubted, and always after one that was false. A
    tag that changes while the page does not is left out. *trust* is the byte in the record of the page.
    """
    most = _FULL_IN_DOUBT if trust & _DOUBTS else _FULL_AFTER + page_id % _SPREAD
    if had_false_304(trust) or _quiet(trust) >= most:
        return b"", b""
    return (b"" if trust & _CHANGED_TAGS == _TAG_IS_NOISE else etag), last_modified


def had_false_304(trust: int) -> bool:
    """Whether a 304 for the page was false, by the byte *trust* in its record."""
    return trust & _DOUBTS >= _LIED_TO


def after_unmodified(trust: int) -> int:
    """The trust in a page after a 304 that answered us, one more in a row; a tag that is noise was not asked
    about."""
    changed = _TAG_IS_NOISE if trust & _CHANGED_TAGS == _TAG_IS_NOISE else 0
    return trust & _DOUBTS | changed | min(_quiet(trust) + 1, 0x0F) * _ONE_QUIET


def after_content(trust: int, kept: Served, new: Served, was_asked: bool) -> int:
    """The trust in a page after its content came; *was_asked*: only if it had changed.

    Where *kept* or *new* has no digest nothing is learnt but that the 304s in a row have ended.
    """
    quiet, trust = _quiet(trust), trust & ~_QUIET
    if not kept.digest or not new.digest or had_false_304(trust):
        return trust
    if kept.digest == new.digest:
        return _tag_bits(trust, kept.etag, new.etag)
    if _would_be_unmodified(trust, kept, new):
        return trust & ~_DOUBTS | _LIED_TO
    if was_asked:  # the server tells what has changed
        return trust & ~_DOUBTS
    # It changed since the last 304, or before that: twice at the very visit that was full is no chance.
    return trust + _DOUBT if quiet >= _FULL_IN_DOUBT else trust


def _quiet(trust: int) -> int:
    return (trust & _QUIET) // _ONE_QUIET


def _tag_bits(trust: int, kept: bytes, new: bytes) -> int:
    """The trust after the same content came with the tag it had, or another: no 304 was false."""
    changed = trust & _CHANGED_TAGS
    if not kept or not new:
        return changed
    return 0 if is_same_tag(kept, new) else min(changed + 1, _TAG_IS_NOISE)


def _would_be_unmodified(trust: int, kept: Served, new: Served) -> bool:
    """Whether a server that compares what it tells now with what it told then would have answered 304."""
    if kept.etag and trust & _CHANGED_TAGS != _TAG_IS_NOISE:
        return bool(new.etag) and is_same_tag(kept.etag, new.etag)
    return bool(kept.last_modified) and kept.last_modified == new.last_modified


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
