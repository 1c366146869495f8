"""The decisions on revisits, of plain values: rates, values, the multiplier, validators, 304s, results."""

from __future__ import annotations

import random
from math import exp, inf, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_frontier.core import reasons
from scrapy_frontier.core.pages.leases import Lease, Outcome
from scrapy_frontier.core.pages.revisits import judge_304, judge_same
from scrapy_frontier.core.revisits import change_rates
from scrapy_frontier.core.revisits.change_rates import HintAccuracy, History, HostChangeRates, Known
from scrapy_frontier.core.revisits.plans import RevisitPlans, RevisitRule
from scrapy_frontier.core.revisits.policy import (
    FULL_AFTER,
    Bounds,
    Fetched,
    Result,
    best_span,
    crawl_value,
    due_at,
    due_value,
    is_due_by_hint,
    may_send,
    next_multiplier,
    not_modified,
    read,
    result_by,
    share,
)
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.records import NO_VALIDATORS, NOT_BAD, BadVisits, Page, Validators, Visits
from scrapy_frontier.core.transitions import Event

HOUR, DAY = 3600.0, 86400.0
NOW = 1_700_000_000

# -- how often pages change ------------------------------------------------------------------------------


def changing(days: float, spans: list[float], rng: random.Random) -> History:
    """The history of a page that changes every so many days on average, visited at these spans."""
    history = History()
    for span in spans:
        history = change_rates.after_visit(history, span, rng.random() > exp(-span / DAY / days))
    return history


@pytest.mark.parametrize("days", [0.5, 3.0, 30.0])
@pytest.mark.parametrize("is_even", [True, False])
def test_the_estimate_finds_the_rate(days: float, is_even: bool) -> None:
    rng = random.Random(1)
    logs = []
    for _ in range(300):
        spans = [days * DAY * (1.0 if is_even else rng.uniform(0.2, 3.0)) for _ in range(60)]
        logs.append(log(change_rates.rate(changing(days, spans, rng), 1 / (days * DAY)) * days * DAY))
    assert abs(sum(logs) / len(logs)) < 0.15


@given(st.floats(0, 1e9), st.booleans(), st.floats(1e-12, 1e3))
def test_a_rate_is_positive_and_finite(span: float, has_changed: bool, expected: float) -> None:
    history = change_rates.after_visit(History(), span, has_changed)
    assert 0 < change_rates.rate(history, expected) < inf
    assert change_rates.rate(History(), 1 / DAY) == 1 / DAY


def test_what_a_page_showed_fades() -> None:
    seldom = History()
    for _ in range(50):
        seldom = change_rates.after_visit(seldom, DAY, has_changed=False)
    often = seldom
    for _ in range(12):
        often = change_rates.after_visit(often, DAY, has_changed=True)
    assert change_rates.rate(often, 1 / DAY) > 10 * change_rates.rate(seldom, 1 / DAY)


def test_a_page_without_visits_is_expected_to_change_as_its_host_does() -> None:
    host, everywhere, unknown = HostChangeRates(), HostChangeRates(), 1 / (7 * DAY)
    assert change_rates.expected_rate(host, everywhere, unknown) == pytest.approx(unknown)
    for _ in range(200):
        everywhere = change_rates.learned(everywhere, 1 / (30 * DAY), DAY)
        host = change_rates.learned(host, 1 / DAY, DAY)
    assert change_rates.expected_rate(HostChangeRates(), everywhere, unknown) < 1 / (20 * DAY)
    assert 1 / (1.5 * DAY) < change_rates.expected_rate(host, everywhere, unknown) < 1.5 / DAY


@pytest.mark.parametrize(("is_honest", "trusted"), [(True, True), (False, False)])
def test_hints_are_believed_as_far_as_they_proved_true(is_honest: bool, trusted: bool) -> None:
    """One that stamps now on everything is right as often as anything changes."""
    known, rng = Known(), random.Random(2)
    for _ in range(200):
        has_changed = rng.random() < 0.3
        is_hinted = has_changed if is_honest else True
        known = change_rates.observed(known, DAY, has_changed, True, is_hinted, 1 / DAY)
    assert known.hints.is_trusted is trusted
    assert known.hints.recall > 0.9 if trusted else known.hints.recall == 0
    assert HintAccuracy().is_trusted


# -- what a visit is worth -------------------------------------------------------------------------------


@pytest.mark.parametrize("recall", [0.0, 0.5, 0.95])
@pytest.mark.parametrize("changes", [1e-6, 1e-3, 0.1, 1.0, 10.0, 100.0])
def test_the_share_is_the_integral_of_what_a_visit_restores(changes: float, recall: float) -> None:
    """The growth of the value is the chance that the page has become stale, and nobody told."""
    steps = 20_000
    grown = sum(
        exp(-(1 - recall) * at) - exp(-at) for at in ((n + 0.5) * changes / steps for n in range(steps))
    )
    silent = changes / steps * grown * (1 - recall) / recall if recall else None
    if silent is None:
        silent = sum((n + 0.5) * changes / steps * exp(-(n + 0.5) * changes / steps) for n in range(steps))
        silent *= changes / steps
    assert share(changes, recall) == pytest.approx(silent, rel=2e-2)


@given(st.floats(1e-3, 1e3), st.floats(1e-8, 1e-2), st.floats(1e-4, 0.99), st.sampled_from([0.0, 0.3, 0.9]))
def test_the_best_span_is_when_a_visit_is_worth_the_multiplier(
    weight: float, rate: float, part: float, recall: float
) -> None:
    multiplier = part * weight / rate
    span = best_span(weight, rate, multiplier, recall)
    assert crawl_value(weight, rate, span, recall) == pytest.approx(multiplier, rel=1e-6)
    assert best_span(weight, rate, 1.01 * weight / rate, recall) == inf
    assert best_span(0.0, rate, multiplier) == inf


def test_spans_are_within_bounds_and_due_times_a_little_early() -> None:
    assert Bounds(60.0, DAY).within(best_span(1.0, 1 / DAY, 1e9)) == DAY
    assert Bounds(60.0, DAY).within(best_span(1.0, 1 / DAY, 0.0)) == 60
    assert NOW + DAY / 2 < due_at(NOW, DAY) <= NOW + DAY - 2 * HOUR
    assert due_at(NOW, DAY, waits=True) == NOW + DAY


def test_a_hint_makes_due_what_is_worth_it() -> None:
    worth = 0.6 * DAY
    assert is_due_by_hint(worth, 1.0, 1 / DAY, 0.9)
    assert not is_due_by_hint(worth, 1.0, 3 / DAY, 0.9), "changes too fast for what it weighs"
    assert not is_due_by_hint(worth, 9.0, 1 / DAY, 0.4), "a site whose hints are not to be trusted"
    assert due_value(1.0, 1 / DAY, DAY, 0.0, 0.4) == due_value(1.0, 1 / DAY, DAY)
    assert due_value(1.0, 1 / DAY, DAY, 0.0, 0.9) == pytest.approx(0.9 * DAY)


@pytest.mark.parametrize(
    ("elapsed", "planned", "span", "factor"),
    [
        (7, 7, 7, 1.0),
        (1, 1, 1, exp(2 / 100 * 6 / 7)),
        (14, 14, 14, exp(-2 / 100)),
        (7, 7, 21, exp(-2 / 100)),
        (7, 21, 7, 1.0),  # early, by a hint: its span does not count
        (14, 7, 7, exp(-2 / 100)),  # late: counts in full, however late
        (8, 7, 7, exp(-2 / 100 / 7)),
        (14, 7, 21, exp(-2 / 100 * 2)),
        (300, 7, 7, exp(-2 / 100 * 5)),  # the crawl stood still
        (45, 45, 45, exp(-2 / 100 * 5)),
    ],
)
def test_the_multiplier_follows_the_time_between_visits(
    elapsed: float, planned: float, span: float, factor: float
) -> None:
    """Of a hundred pages with a shelf life of a week."""
    times = (each * DAY for each in (elapsed, planned, span, 7))
    assert next_multiplier(1.0, *times, 100) == pytest.approx(factor)


# -- what a 304 and the same content come to -------------------------------------------------------------

TAG = Validators(b'"1"', b"Mon")
SAME = b"0000\x02"  # a digest
NOINDEX, NOFOLLOW = reasons.NOINDEX(), reasons.NOFOLLOW()


def test_after_ten_304s_a_page_is_asked_for_in_full() -> None:
    visits = read(None, Fetched(*TAG, digest=SAME), NOW)
    for number in range(1, FULL_AFTER + 3):
        assert may_send(visits) == (TAG if number <= FULL_AFTER else NO_VALIDATORS)
        visits = not_modified(visits, None, NOW + number)
    assert may_send(read(visits, Fetched(*TAG, digest=SAME), NOW + 99)) == TAG


def lease(comes_back: bool = True) -> Lease:
    state = State.DONE if comes_back else State.QUEUED
    visits = Visits(1, 1, visits=1, digest=SAME, validators=TAG)
    page = Page("http://a.example/", state, status=200, target=5, reason=NOFOLLOW, visits=visits)
    return Lease("a.example", page, 0.0, 7, 0.0, {}, None, comes_back=comes_back, node=7)


def test_a_304_confirms_the_page_if_it_was_asked_conditionally() -> None:
    same = Outcome(Event.FETCHED, 304, NOFOLLOW, 5, result=Result.UNCHANGED, fetched=Fetched(*TAG))
    assert judge_304(lease(), True, TAG) == same
    assert judge_304(lease(), False, TAG) == Outcome(Event.FAILED, 304, "HTTP 304")


@pytest.mark.parametrize(("digest", "has_changed"), [(SAME, False), (b"1111\x02", True), (b"", None)])
def test_content_is_as_it_was_or_another_or_nobody_can_tell(digest: bytes, has_changed: bool | None) -> None:
    assert lease().has_changed(digest) is has_changed
    assert lease(comes_back=False).has_changed(digest) is None, "it has not ended yet"
    fetched = Fetched(etag=b"new", digest=digest)
    same = Outcome(Event.FETCHED, 203, NOFOLLOW, 5, result=Result.UNCHANGED, fetched=fetched)
    for notes in ((NOFOLLOW,), None):  # None: a sitemap, whose record has other notes
        assert judge_same(lease(), 203, fetched, notes) == (same if has_changed is False else None)
    for notes in ((), (NOINDEX, NOFOLLOW), (NOINDEX,)):
        assert judge_same(lease(), 203, fetched, notes) is None, "its directives say something new"


def test_what_is_kept_of_a_visit() -> None:
    page = Fetched(b'"1"', b"Mon", b"diges", "text/html", 7)
    before = read(None, page, NOW)._replace(bad=BadVisits(1, 2, NOW), due=5, is_queued=True)
    after = not_modified(before, Fetched(etag=b'W/"1"'), NOW + 60)
    assert after == before._replace(
        last=NOW + 60, visits=2, bad=NOT_BAD, due=0, is_queued=False, unmodified=1,
        validators=Validators(b'W/"1"', b"Mon"),
    )  # fmt: skip
    broken = Fetched()
    assert read(before, broken, NOW + 60).digest == b"diges", "nothing says that it has changed"
    assert read(before, broken, NOW + 60).validators == NO_VALIDATORS


# -- what a visit met ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "status", "more", "result"),
    [
        (Event.FETCHED, 200, {}, Result.READ),
        (Event.FETCHED, 304, {}, Result.READ),
        (Event.FETCHED, 302, {"was": 200}, Result.ERROR),
        (Event.FETCHED, 302, {"was": 302}, Result.READ),
        (Event.FETCHED, 200, {"notes": NOINDEX}, Result.NOINDEX),
        (Event.FETCHED, 200, {"notes": f"{NOINDEX}; {NOFOLLOW}"}, Result.NOINDEX),
        (Event.GONE, 404, {}, Result.MISSING),
        (Event.GONE, 410, {}, Result.GONE),
        (Event.REDIRECTED, 301, {}, Result.MOVED),
        (Event.REDIRECTED, 308, {}, Result.MOVED),
        (Event.REDIRECTED, 302, {}, Result.ELSEWHERE),
        (Event.EXCLUDED, 0, {}, Result.FORBIDDEN),
        (Event.EXCLUDED, 0, {"by_robots": False}, Result.ERROR),
        (Event.EXCLUDED, 200, {"notes": reasons.SKIPPED()}, Result.NOINDEX),
        (Event.FAILED, 500, {}, Result.ERROR),
        (Event.FAILED, 200, {"by_spider": True}, Result.CALLBACK_FAILED),
        (Event.EXPIRED, 0, {}, Result.ERROR),
    ],
)
def test_what_a_visit_met(event: Event, status: int, more: dict[str, object], result: Result) -> None:
    assert result_by(event, status, **more) is result  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hub", "url"),
    [
        ("http://a.example", "http://a.example/"),
        ("HTTP://A.example/list?b=2&a=1#top", "http://a.example/list?a=1&b=2"),
        ("http://a.example/\xfc", "http://a.example/%C3%BC"),
        ("http://a.example/News_(paper)?action=history", "http://a.example/News_(paper)?action=history"),
        *((hub, "") for hub in ("http://[^/]+/hub", r"http://a\.example/h", "http://a.example/h.*")),
        *((hub, "") for hub in ("http://[a-z.]+/hub$", "http://.*?/hub", "/hub")),
    ],
)
def test_a_hub_is_named_by_its_url_however_that_is_spelled_or_by_a_pattern(hub: str, url: str) -> None:
    rule = RevisitRule(hubs=((hub, DAY),))
    plans = RevisitPlans(rule)
    pages = [Page(each, State.DONE) for each in (url or "http://a.example/hub", "http://a.example/x")]
    assert [plans.of(page).is_hub for page in pages] == [True, False]
    assert rule.hub_urls == ([hub] if url else [])
