"""Revisits: what is due is visited, nothing else, and a page stays what it is until its visit ends."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from numpy.typing import NDArray

from scrapy_frontier.core import reasons
from scrapy_frontier.core.admin.check import Check
from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Lease, Link, Outcome, PageId, Released
from scrapy_frontier.core.pages.revisits import RecomputeDue
from scrapy_frontier.core.ranking.graph import find_row
from scrapy_frontier.core.ranking.scorer import Scorer
from scrapy_frontier.core.revisits.plans import SEEDS, RevisitRule
from scrapy_frontier.core.revisits.policy import Conclusion, Fetched, Result
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.leveldb import Store, plyvel
from scrapy_frontier.core.store.link_rows import INTERNAL, Edge
from scrapy_frontier.core.store.records import (
    COUNTS,
    Page,
    RequestFacts,
    Visits,
    due_key,
)
from scrapy_frontier.core.transitions import Event

NOW = 1_700_000_000.0
HOUR, DAY = 3600.0, 86400.0
WEEKLY = RevisitRule(shelf_life=7 * DAY)
ONCE = WEEKLY._replace(shelf_life=inf)
HUBS = WEEKLY._replace(hubs=((r"/hub", DAY),))
DONE, GONE, FAILED, REDIRECTED, EXCLUDED = (
    *(State.DONE, State.GONE, State.FAILED, State.REDIRECTED),
    State.EXCLUDED,
)
READ = Outcome(Event.FETCHED, 200, fetched=Fetched(b'"1"', digest=b"dig-1", content_type="text/html"))
OTHER = READ._replace(fetched=Fetched(digest=b"dig-2"))
UNMODIFIED = Outcome(Event.FETCHED, 304, result=Result.UNCHANGED, fetched=Fetched())
SAME = READ._replace(result=Result.UNCHANGED)
MISSING, DELETED = Outcome(Event.GONE, 404), Outcome(Event.GONE, 410)
MOVED, ELSEWHERE = Outcome(Event.REDIRECTED, 301), Outcome(Event.REDIRECTED, 302)
ERROR = Outcome(Event.FAILED, 500)
RAISED = Outcome(Event.FAILED, 200, "ValueError", result=Result.CALLBACK_FAILED)
FORBIDDEN = Outcome(
    Event.EXCLUDED, reason=reasons.FORBIDDEN(origin="http://a.example", rule="/"), result=Result.FORBIDDEN
)
NOINDEX = READ._replace(result=Result.NOINDEX, reason=reasons.NOINDEX())
SKIPPED = Outcome(Event.EXCLUDED, 200, reasons.SKIPPED(), result=Result.NOINDEX)
LOST = Outcome(Event.LOST)


@contextmanager
def opened(
    directory: Path, now: float = NOW, rule: RevisitRule | None = WEEKLY, **options: object
) -> Iterator[Frontier]:
    frontier = Frontier(Store(directory), now, FrontierOptions(revisits=rule, **options))
    try:
        while not frontier.load(now):
            pass
        yield frontier
    finally:
        frontier.close()
    store = Store(directory)
    assert list(Check(store, None, now).run()) == []
    store.close()


def link(name: str, host: str = "a.example", **more: object) -> Link:
    url = f"http://{host}/{name}"
    return Link(url.encode().rjust(20), url, host, **more)


def find(frontier: Frontier, *names: str, now: float = NOW, **more: object) -> list[PageId]:
    answers = frontier.discover([link(name, **more) for name in names], now)
    return [answer.page_id for answer in answers if answer.page_id is not None]


def name_of(lease: Lease) -> str:
    return lease.page.url.rpartition("/")[2]


def next_lease(frontier: Frontier, now: float) -> Lease | None:
    lease = frontier.lease(now)
    while lease is None and frontier.is_refilling:
        lease = frontier.lease(now)
    return lease


def leased(frontier: Frontier, now: float) -> Lease:
    lease = next_lease(frontier, now)
    assert lease is not None
    return lease


def visit(frontier: Frontier, now: float, outcome: Outcome = READ, links: Iterable[Edge] = ()) -> Released:
    """Hand out a page and end it so."""
    lease = leased(frontier, now)
    lease.edges.extend(links)
    has_links = outcome.has_links or bool(lease.edges)
    return frontier.release(lease, outcome._replace(has_links=has_links), now)


def visit_all(frontier: Frontier, now: float, outcome: Outcome = READ) -> list[str]:
    names = []
    while (lease := next_lease(frontier, now)) is not None:
        frontier.release(lease, outcome, now)
        names.append(name_of(lease))
    return names


def record(frontier: Frontier, page_id: PageId = 0) -> tuple[Page, Visits]:
    page = frontier.page(page_id)
    assert page is not None
    assert page.visits is not None
    return page, page.visits


def days_until_due(page: Page | None, since: float) -> float:
    """The span of a page in days, 0 if it does not come back: nine tenths of it are enough."""
    due = page.visits.due if page is not None and page.visits is not None else 0
    return round((due - since) / DAY / 0.9, 2) if due else 0


# -- how a visit ends ------------------------------------------------------------------------------------

NEW, CHANGED, UNCHANGED = Conclusion.NEW, Conclusion.CHANGED, Conclusion.UNCHANGED
GONE_NOW, STILL, UNDECIDED = Conclusion.GONE, Conclusion.STILL_GONE, Conclusion.UNDECIDED
SEED_HUBS = WEEKLY._replace(hubs=((SEEDS, DAY),))

# A rule; the visits of a page, the first of it too; what it is then, in how many days it comes back, what is
# told of the last visit, and whether links and validators of before still stand.
ENDS = [
    # the first visit
    (WEEKLY, [READ], DONE, 7, None, "lv"),
    (WEEKLY, [ERROR], FAILED, 7 / 4, None, ""),
    (WEEKLY, [MISSING], GONE, 7, None, ""),
    (WEEKLY, [DELETED], GONE, 45, None, ""),
    (WEEKLY, [MOVED], REDIRECTED, 28, None, ""),
    (WEEKLY, [ELSEWHERE], REDIRECTED, 7, None, ""),
    (WEEKLY, [FORBIDDEN], EXCLUDED, 7, None, ""),
    (WEEKLY, [SKIPPED], EXCLUDED, 7, None, ""),
    (WEEKLY, [Outcome(Event.EXCLUDED, reason="offsite")], EXCLUDED, 0, None, ""),
    # one that was read
    (WEEKLY, [READ, UNMODIFIED], DONE, 7, UNCHANGED, "lv"),
    (WEEKLY, [READ, SAME], DONE, 7, UNCHANGED, "lv"),
    (WEEKLY, [READ, READ], DONE, 7, UNCHANGED, "lv"),
    (WEEKLY, [READ, OTHER], DONE, 7, CHANGED, "l"),
    (WEEKLY, [READ, ERROR], DONE, 7 / 4, UNDECIDED, "lv"),
    (WEEKLY, [READ, Outcome(Event.FAILED)], DONE, 7 / 4, UNDECIDED, "lv"),
    (WEEKLY, [READ, ERROR, ERROR], DONE, 7 / 2, UNDECIDED, "lv"),
    (WEEKLY, [READ, *[ERROR] * 9], DONE, 45, UNDECIDED, "lv"),
    (WEEKLY, [READ, ERROR, UNMODIFIED], DONE, 7, UNCHANGED, "lv"),
    (WEEKLY, [READ, MISSING], DONE, 7 / 4, UNDECIDED, "lv"),
    (WEEKLY, [READ, MOVED], DONE, 7 / 4, UNDECIDED, "lv"),
    (WEEKLY, [READ, MISSING, MISSING], GONE, 7, GONE_NOW, ""),
    (WEEKLY, [READ, MISSING, ERROR, MISSING], GONE, 7, GONE_NOW, ""),
    (WEEKLY, [READ, MISSING, MOVED], DONE, 7 / 2, UNDECIDED, "lv"),
    (WEEKLY, [READ, MOVED, MOVED], REDIRECTED, 28, GONE_NOW, ""),
    (WEEKLY, [READ, ELSEWHERE, ELSEWHERE], REDIRECTED, 7, GONE_NOW, ""),
    (WEEKLY, [READ, DELETED], GONE, 45, GONE_NOW, ""),
    (WEEKLY, [READ, RAISED], FAILED, 7 / 4, UNDECIDED, "l"),
    (WEEKLY, [READ, RAISED, OTHER], DONE, 7, CHANGED, "l"),
    (WEEKLY, [READ, FORBIDDEN], EXCLUDED, 7, GONE_NOW, ""),
    (WEEKLY, [READ, Outcome(Event.EXCLUDED, result=Result.ERROR)], DONE, 7 / 4, UNDECIDED, "lv"),
    (WEEKLY, [READ, NOINDEX], DONE, 7, GONE_NOW, "lv"),
    (WEEKLY, [READ, SKIPPED], DONE, 7, GONE_NOW, "lv"),
    (WEEKLY, [READ, LOST], DONE, 7, None, "lv"),
    # one that was something else
    (WEEKLY, [MISSING, MISSING], GONE, 14, STILL, ""),
    (WEEKLY, [MISSING, MISSING, MISSING], GONE, 28, STILL, ""),
    (WEEKLY, [MISSING, READ], DONE, 7, CHANGED, "lv"),
    (WEEKLY, [DELETED, READ], DONE, 7, CHANGED, "lv"),
    (WEEKLY, [READ, NOINDEX, NOINDEX], DONE, 7, STILL, "lv"),
    (WEEKLY, [READ, NOINDEX, READ], DONE, 7, CHANGED, "lv"),
    (WEEKLY, [READ, NOINDEX, MISSING, MISSING], GONE, 7, STILL, ""),
    (WEEKLY, [SKIPPED, SKIPPED], EXCLUDED, 7, STILL, ""),
    (WEEKLY, [SKIPPED, READ], DONE, 7, CHANGED, "lv"),
    (WEEKLY, [FORBIDDEN, FORBIDDEN], EXCLUDED, 7, STILL, ""),
    (WEEKLY, [FORBIDDEN, READ], DONE, 7, NEW, "lv"),
    (WEEKLY, [READ, FORBIDDEN, READ], DONE, 7, CHANGED, "lv"),
    # without a span only what went wrong comes back, as if its span were the ceiling
    (ONCE, [READ], DONE, 0, None, "lv"),
    (ONCE, [MISSING], GONE, 0, None, ""),
    (ONCE, [ELSEWHERE], REDIRECTED, 0, None, ""),
    (ONCE, [FORBIDDEN], EXCLUDED, 0, None, ""),
    (ONCE, [ERROR], FAILED, 45 / 4, None, ""),
    (ONCE, [ERROR, ERROR], FAILED, 45 / 2, UNDECIDED, ""),
    (ONCE, [ERROR, READ], DONE, 0, CHANGED, "lv"),
]


@pytest.mark.parametrize(("rule", "visits", "state", "days", "told", "kept"), ENDS)
def test_how_a_visit_ends(
    tmp_path: Path,
    rule: RevisitRule,
    visits: list[Outcome],
    state: State,
    days: float,
    told: Conclusion | None,
    kept: str,
) -> None:
    now = NOW
    for number, outcome in enumerate(visits):
        now = NOW + number * 100 * DAY
        with opened(tmp_path, now, rule, max_attempts=1) as frontier:
            if not number:
                find(frontier, "page")
                find(frontier, "target", only_seen="because")
            with_links = outcome._replace(has_links=True) if outcome.event is Event.FETCHED else outcome
            edges = [Edge(1)] if outcome.event is Event.FETCHED else []
            released = visit(frontier, now, with_links, edges)
            page = frontier.page(0)
            links = [edge.target for edge in find_row(0, frontier._batch.get)]
    assert page is not None
    assert (page.state, days_until_due(page, now)) == (state, round(days, 2))
    assert (None if released.visit is None else released.visit.conclusion) == told
    validators = b"" if page.visits is None else page.visits.validators.etag
    assert "l" * (links == [1]) + "v" * bool(validators) == kept


def test_a_page_stays_what_it_is_until_its_visit_ends(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        (page_id,) = find(frontier, "page", payload=b"own")
        visit(frontier, NOW)
    later = NOW + 8 * DAY
    with opened(tmp_path, later) as frontier:
        lease = leased(frontier, later)
        assert (lease.comes_back, lease.page_id, lease.node) == (True, page_id, page_id)
        totals = frontier.totals()
        assert (totals.states["done"], totals.states["queued"], totals.due, totals.queued_again) == (
            1,
            0,
            0,
            1,
        )
        retried = Outcome(Event.RETRIED, 503, delay=10, visit_payload=b"tried")
        assert frontier.release(lease, retried, later).state is State.QUEUED
        page, _ = record(frontier)
        assert (page.state, page.status, page.attempts) == (DONE, 200, 1)
        assert (page.payload, page.visit_payload) == (b"own", b"tried")
    with opened(tmp_path, later + 11) as frontier:
        lease = leased(frontier, later + 11)
        assert (lease.comes_back, lease.page.attempts) == (True, 1)
        frontier.release(lease, READ, later + 11)
        page, visits = record(frontier)
        assert (page.state, visits.visits, visits.last) == (DONE, 2, int(later + 11))
        assert (page.payload, page.visit_payload) == (b"own", b""), "what is for one visit goes with it"
        assert (frontier.totals().due, frontier.totals().queued_again) == (1, 0)


def test_links_that_came_and_went_are_told_and_each_is_kept_once(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        _, one, two = find(frontier, "page", "one", "two")
        visit(frontier, NOW, READ, [Edge(one), Edge(two), Edge(two, INTERNAL)])
        visit_all(frontier, NOW, Outcome(Event.EXCLUDED, reason="offsite"))
    later = NOW + 8 * DAY
    with opened(tmp_path, later) as frontier:
        (three,) = find(frontier, "three", only_seen="because")
        released = visit(frontier, later, OTHER, [Edge(two), Edge(two, INTERNAL), Edge(three)])
        end = released.visit
        assert end is not None
        assert (released.links, end.conclusion, end.before, end.digest) == (2, CHANGED, b"dig-1", b"dig-2")
        assert (end.added, end.removed) == ((three,), (one,))
        assert [edge.target for edge in find_row(0, frontier._batch.get)] == [two, three]


def test_not_modified_is_one_small_batch(tmp_path: Path) -> None:
    """The rows of the page, its queue, its next time, its host and the rates there, and the counters."""
    with opened(tmp_path) as frontier:
        find(frontier, "page")
        visit_all(frontier, NOW)
    later, batches = NOW + 8 * DAY, list[list[bytes]]()

    def note(rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        batches.append([key[:1] for key, _ in rows])

    with opened(tmp_path, later, on_commit=note) as frontier:
        lease = leased(frontier, later)
        batches.clear()
        frontier.release(lease, UNMODIFIED, later)
        (batch,) = batches
    assert set(batch) == {keys.PAGE, keys.DUE_QUEUE, keys.DUE, keys.HOST, keys.RATES, keys.COUNTS[:1]}
    assert len(batch) <= 8


# -- when ------------------------------------------------------------------------------------------------


def test_exactly_what_is_due_comes_back_and_nine_tenths_of_its_span_are_enough(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        find(frontier, "early")
        assert visit_all(frontier, NOW) == ["early"]
        find(frontier, "late")
        assert visit_all(frontier, NOW + DAY) == ["late"]
        assert visit_all(frontier, NOW + 30 * DAY) == [], "once a run, however long that lasts"
        assert frontier.ends_at(NOW + 30 * DAY, 0.0) == NOW + 30 * DAY
    for at, names in ((6.2, []), (6.4, ["early"]), (6.5, []), (7.4, ["late"]), (12.7, ["early"])):
        with opened(tmp_path, NOW + at * DAY) as frontier:
            assert visit_all(frontier, NOW + at * DAY, UNMODIFIED) == names, at
            assert frontier.totals().due == 2


def test_with_a_horizon_the_crawl_waits_so_long_for_what_falls_due(tmp_path: Path) -> None:
    with opened(tmp_path, rule=WEEKLY._replace(horizon=2 * DAY)) as frontier:
        find(frontier, "page")
        visit_all(frontier, NOW)
        assert frontier.ends_at(NOW, 0.0) == NOW, "a week is too long"
        assert frontier.ends_at(NOW + 5.1 * DAY, 0.0) is None
        assert frontier.lease(NOW + 6.9 * DAY) is None, "the whole span has to pass"
        assert frontier.wake_at() == NOW + 6.9 * DAY + 60, "the clock is looked at once a minute"
        assert visit_all(frontier, NOW + 7 * DAY) == ["page"]
        assert frontier.ends_at(NOW + 12.1 * DAY, 0.0) is None
        assert visit_all(frontier, NOW + 14 * DAY) == ["page"]


def test_due_pages_of_a_host_that_rests_for_too_long_are_left_to_the_next_run(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        find(frontier, "page")
        visit_all(frontier, NOW)
    later = NOW + 8 * DAY
    with opened(tmp_path, later) as frontier:
        lease = leased(frontier, later)
        frontier.hold("a.example", later, later + HOUR)
        frontier.release(lease, Outcome(Event.POSTPONED), later)
        assert frontier.pending == 1
        assert frontier.ends_at(later, HOUR) == later + HOUR
        assert frontier.ends_at(later, 300.0) == later
    with opened(tmp_path, later + 2 * HOUR) as frontier:
        assert visit_all(frontier, later + 2 * HOUR) == ["page"]


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_never_nothing_comes_back_and_switched_on_again_all_of_it(tmp_path: Path, share: float) -> None:
    rule = WEEKLY._replace(share=share)
    with opened(tmp_path, rule=rule) as frontier:
        find(frontier, "one", "two")
        visit_all(frontier, NOW)
    later = NOW + 8 * DAY
    with opened(tmp_path, later, rule) as frontier:
        lease = leased(frontier, later)
        assert frontier.totals().queued_again == 2
        frontier.release(lease, Outcome(Event.RETRIED, delay=5.0, visit_payload=b"tried"), later)
    with opened(tmp_path, later + 10, None) as frontier:
        assert visit_all(frontier, later + 10) == []
        assert not frontier.pending
        assert frontier.ends_at(later + 10, 0.0) == later + 10
        find(frontier, "new", now=later + 10)
        assert visit_all(frontier, later + 10) == ["new"]
    with opened(tmp_path, later + 20, rule) as frontier:
        assert sorted(visit_all(frontier, later + 20)) == ["one", "two"]


def test_shelf_lives_go_by_pattern_and_by_request(tmp_path: Path) -> None:
    rule = WEEKLY._replace(shelf_lives=((r"/news", DAY), ("http://a.example/never", inf)))
    with opened(tmp_path, rule=rule) as frontier:
        find(frontier, "news", "never", "page")
        find(frontier, "own", facts=RequestFacts(shelf_life=HOUR))
        assert len(visit_all(frontier, NOW)) == 4
    for hours, names in ((0.8, []), (0.95, ["own"]), (22, ["news", "own"]), (160, ["news", "own", "page"])):
        with opened(tmp_path, NOW + hours * HOUR, rule=rule) as frontier:
            assert sorted(visit_all(frontier, NOW + hours * HOUR)) == names, hours


@pytest.mark.parametrize(
    ("facts", "outcome", "days"),
    [
        (RequestFacts(is_unsafe=True), READ, 0),
        (RequestFacts(is_unsafe=True), ERROR, 0),
        (RequestFacts(is_unsafe=True, shelf_life=7 * DAY), READ, 7),
        (RequestFacts(is_unsafe=True, refresh=2 * DAY), READ, 2),
        (RequestFacts(is_in_memory=True, shelf_life=DAY), READ, 0),
        (RequestFacts(is_sitemap=True), READ, 1),
        (RequestFacts(is_sitemap=True), MISSING, 7),
        (RequestFacts(is_sitemap=True, shelf_life=HOUR), READ, round(1 / 24, 2)),
    ],
)
def test_a_request_has_its_say(tmp_path: Path, facts: RequestFacts, outcome: Outcome, days: float) -> None:
    with opened(tmp_path) as frontier:
        find(frontier, "page", facts=facts)
        visit(frontier, NOW, outcome)
        assert days_until_due(frontier.page(0), NOW) == days


# -- order and shares ------------------------------------------------------------------------------------


class FourthIsBest(Scorer):
    def current_scores(self, nodes: NDArray[np.signedinteger]) -> NDArray[np.floating]:
        return np.where(nodes == 3, 256.0, 1.0)


def test_the_oldest_come_first_and_the_important_before(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        for hours, name in enumerate(("first", "second", "third")):
            find(frontier, name)
            visit_all(frontier, NOW + hours * HOUR)
        find(frontier, "important")
        visit_all(frontier, NOW + 4 * HOUR)
    later = NOW + 8 * DAY
    with opened(tmp_path, later, scorer=FourthIsBest()) as frontier:
        assert visit_all(frontier, later) == ["important", "first", "second", "third"]


def test_due_pages_count_against_no_budget_and_are_never_deferred(tmp_path: Path) -> None:
    with opened(tmp_path, host_pages=2) as frontier:
        for name in ("one", "two"):
            find(frontier, name)
            visit_all(frontier, NOW)
    later = NOW + 8 * DAY
    with opened(tmp_path, later, host_pages=2) as frontier:
        assert sorted(visit_all(frontier, later)) == ["one", "two"], "the budget is used up"
    with opened(tmp_path, later + 8 * DAY, host_pages=3) as frontier:
        lease = leased(frontier, later + 8 * DAY)
        assert len(find(frontier, "three", now=later)) == 1
        assert frontier.totals().states["queued"] == 1, "there was room, whatever comes back"
        frontier.release(lease, READ, later + 8 * DAY)


def shares(
    directory: Path, share: float, news: dict[str, int], olds: dict[str, int], visits: int
) -> Counter[str]:
    """How often each host was visited, for new pages (its name) and for due ones (its name in capitals)."""
    with opened(directory) as frontier:
        for host, count in olds.items():
            find(frontier, *[f"old{number}" for number in range(count)], host=host)
        visit_all(frontier, NOW)
    later = NOW + 8 * DAY
    found: Counter[str] = Counter()
    with opened(directory, later, WEEKLY._replace(share=share), max_uncommitted_pages=50) as frontier:
        for host, count in news.items():
            find(frontier, *[f"new{number}" for number in range(count)], host=host, now=later, priority=100)
        while found.total() < visits and (lease := next_lease(frontier, later)) is not None:
            found[lease.host.upper() if lease.comes_back else lease.host] += 1
            frontier.release(lease, READ, later)
    return found


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_while_new_pages_wait_due_ones_have_their_share_whatever_the_priority(
    tmp_path: Path, share: float
) -> None:
    found = shares(tmp_path, share, {"a": 150}, {"a": 150}, 100)
    assert found["A"] == pytest.approx(100 * share, abs=5)


def test_the_share_holds_over_all_hosts(tmp_path: Path) -> None:
    found = shares(tmp_path, 0.25, {"a": 150, "b": 150}, {"b": 150, "c": 150}, 200)
    assert found["B"] + found["C"] == pytest.approx(50, abs=6)
    assert found["C"] > 10
    assert found["B"] > 10


# -- hubs ------------------------------------------------------------------------------------------------


def test_hubs_have_a_span_of_their_own_and_come_first(tmp_path: Path) -> None:
    with opened(tmp_path, rule=HUBS) as frontier:
        find(frontier, "page", "hub")
        find(frontier, "wish", facts=RequestFacts(refresh=DAY))
        visit_all(frontier, NOW)
    for days, names in ((1, ["hub", "wish"]), (8, ["hub", "wish", "page"])):
        with opened(tmp_path, NOW + days * DAY, rule=HUBS) as frontier:
            assert visit_all(frontier, NOW + days * DAY) == names


def test_seeds_are_hubs_and_so_is_where_they_lead(tmp_path: Path) -> None:
    rule = ONCE._replace(hubs=((SEEDS, DAY),))
    with opened(tmp_path, rule=rule) as frontier:
        (seed,) = find(frontier, "seed")
        lease = leased(frontier, NOW)
        (answer,) = frontier.discover([link("home", parent=seed, facts=RequestFacts(is_seed=True))], NOW)
        frontier.release(lease, MOVED._replace(target=answer.page_id), NOW)
        lease = leased(frontier, NOW)
        frontier.discover([link("article")], NOW, lease)
        frontier.release(lease, READ, NOW)
        assert visit_all(frontier, NOW) == ["article"]
    with opened(tmp_path, NOW + DAY, rule=rule) as frontier:
        assert visit_all(frontier, NOW + DAY) == ["home"], "the article never, the seed after four spans"


# -- adaptive ---------------------------------------------------------------------------------------------

ADAPTIVE = RevisitRule("adaptive", shelf_life=6 * DAY, horizon=inf)
KINDS = {"never": 0.0, "seldom": 20.0, "often": 3.0}  # days between two changes


def version_of(name: str, now: float) -> bytes:
    """The digest of a page, which changes as often as its kind does."""
    days, offset = KINDS[name.rstrip("0123456789")], crc32(name.encode()) % 97 / 97
    return (int((now - NOW) / DAY / days + offset) if days else 0).to_bytes(4, "big") + b"."


def visit_versions(frontier: Frontier, now: float) -> list[str]:
    names = []
    while (lease := next_lease(frontier, now)) is not None:
        fetched = Fetched(digest=version_of(name_of(lease), now))
        frontier.release(lease, READ._replace(fetched=fetched), now)
        names.append(name_of(lease).rstrip("0123456789"))
    return names


@pytest.mark.parametrize("runs", [1, 8])
def test_as_many_visits_as_after_each_shelf_life_where_they_help_most(tmp_path: Path, runs: int) -> None:
    found: Counter[str] = Counter()
    now, days = NOW, 240
    for run in range(runs):
        with opened(tmp_path, now, ADAPTIVE) as frontier:
            find(frontier, *[f"{kind}{number}" for kind in KINDS for number in range(20)])
            while now < NOW + days * DAY * (run + 1) / runs:
                names = visit_versions(frontier, now)
                found.update(names if now > NOW + days * DAY / 2 else ())
                due = frontier.next_due()
                assert due is not None
                now = max(due, now + 60)
    assert found["often"] > found["seldom"] > found["never"] > 0
    assert found["often"] > 1.5 * found["never"]
    assert 0.6 < found.total() / (60 * 120 / 6) < 1.3


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_restart_is_no_day_for_a_crawl_that_runs_daily(tmp_path: Path, is_killed: bool) -> None:
    """600 pages, a shelf life of a day: as many visits on the second day whatever ran on the first."""
    rule = ADAPTIVE._replace(shelf_life=DAY, horizon=0.0)

    def daily(directory: Path, restarts: bool) -> list[int]:
        made = []
        for day in range(8):
            now, count = NOW + day * DAY, 0
            for start in range(2 if restarts and day in (1, 2) else 1):
                frontier = Frontier(Store(directory), now + 10 * start, FrontierOptions(revisits=rule))
                while not frontier.load(now):
                    pass
                if not day:
                    names = [f"{kind}{number}" for kind in KINDS for number in range(200)]
                    for host in ("a.example", "b.example"):
                        find(frontier, *names[::2] if host[0] == "a" else names[1::2], host=host)
                stop_early = restarts and day in (1, 2) and not start
                while (lease := next_lease(frontier, now + 10 * start)) is not None:
                    fetched = Fetched(digest=version_of(name_of(lease), now))
                    frontier.release(lease, READ._replace(fetched=fetched), now + 10 * start)
                    count += 1
                    if stop_early and count == 90:
                        break
                if stop_early and is_killed:
                    frontier.commit()
                    frontier._store.close()
                else:
                    frontier.close()
            made.append(count)
        return made

    steady, restarted = daily(tmp_path / "steady", False), daily(tmp_path / "restarted", True)
    assert steady[1] == restarted[1] == 600
    for without, with_restarts in zip(steady[2:], restarted[2:], strict=True):
        assert with_restarts == pytest.approx(without, rel=0.1)
        assert with_restarts > 300


# -- hints -----------------------------------------------------------------------------------------------

LISTED, TOLD = 1, 2


def test_a_page_that_is_said_to_have_changed_is_due_in_this_run(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        told, _ = find(frontier, "told", "other")
        visit_all(frontier, NOW)
        (queued,) = find(frontier, "queued")
        for page_id in (told, queued, 999):
            assert not frontier.make_due(page_id, NOW + 60), "visited in this run, queued, not known"
        visit_all(frontier, NOW)
    with opened(tmp_path, NOW + DAY) as frontier:
        assert frontier.make_due(told, NOW + DAY)
        assert not frontier.make_due(told, NOW + DAY), "it is due already"
        assert visit_all(frontier, NOW + DAY + 60, UNMODIFIED) == ["told"]
    with opened(tmp_path, NOW + 2 * DAY, None) as frontier:
        assert not frontier.make_due(told, NOW + 2 * DAY)
    with opened(tmp_path, NOW + 2 * DAY, WEEKLY._replace(horizon=inf)) as frontier:
        assert frontier.make_due(told, NOW + 3 * DAY)
        assert visit_all(frontier, NOW + 3 * DAY) == ["told"]


def test_what_is_learnt_of_a_page_under_way_stands_when_its_visit_ends(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        (page_id,) = find(frontier, "page", lastmod=LISTED)
        lease = leased(frontier, NOW)
        frontier.note_lastmod(page_id, TOLD)
        assert not frontier.make_due(page_id, NOW), "its visit is under way"
        assert not frontier.replace_request(
            page_id, Link(payload=b"new", facts=RequestFacts(is_seed=True))
        ), "this visit is not made by it"
        frontier.release(lease, READ, NOW)
        page = record(frontier)[0]
        assert (page.lastmod, page.payload, page.facts.is_seed) == (TOLD, b"new", True)
    with opened(tmp_path, NOW + 8 * DAY) as frontier:
        lease = leased(frontier, NOW + 8 * DAY)
        frontier.note_lastmod(page_id, LISTED)
        frontier.release(lease, UNMODIFIED, NOW + 8 * DAY)
        assert frontier.replace_request(page_id, Link(payload=b"newer"))
        page = record(frontier)[0]
        assert (page.lastmod, page.payload) == (LISTED, b"newer"), "a seed's request knows no lastmod"


def test_what_was_told_of_a_page_counts_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        (told,) = find(frontier, "told", lastmod=LISTED)
        visit_all(frontier, NOW)
    with opened(tmp_path, NOW + DAY) as frontier:
        assert frontier.make_due(told, NOW + DAY)
        assert frontier.sitemaps_of("http://a.example").hints == (0.0,) * 4
    with opened(tmp_path, NOW + 2 * DAY) as frontier:
        assert record(frontier)[1].is_hinted
        assert visit_all(frontier, NOW + 2 * DAY, OTHER) == ["told"]
        assert not record(frontier)[1].is_hinted
        _, right, found, was_told = frontier.sitemaps_of("http://a.example").hints
        assert right > 0
        assert (found, was_told) == (1.0, 1.0)


def test_a_site_that_tells_what_is_not_so_makes_nothing_due(tmp_path: Path) -> None:
    names = [f"page{number}" for number in range(12)]
    with opened(tmp_path) as frontier:
        pages = find(frontier, *names, lastmod=LISTED)
        visit_all(frontier, NOW)
    with opened(tmp_path, NOW + DAY) as frontier:
        assert all(frontier.make_due(page_id, NOW + DAY) for page_id in pages)
        assert sorted(visit_all(frontier, NOW + DAY, UNMODIFIED)) == sorted(names)
    with opened(tmp_path, NOW + 2 * DAY) as frontier:
        assert not frontier.make_due(pages[0], NOW + 2 * DAY)
        assert record(frontier, pages[0])[1].is_hinted, "it may yet prove honest"
        (elsewhere,) = find(frontier, "page", host="b.example", lastmod=LISTED, now=NOW + 2 * DAY)
        assert visit_all(frontier, NOW + 2 * DAY) == ["page"]
    with opened(tmp_path, NOW + 3 * DAY) as frontier:
        assert frontier.make_due(elsewhere, NOW + 3 * DAY), "another site"


# -- edits -----------------------------------------------------------------------------------------------


def queue_what_is_due(frontier: Frontier, now: float) -> None:
    frontier.release(leased(frontier, now), Outcome(Event.POSTPONED), now)


@pytest.mark.parametrize("is_queued", [False, True])
def test_a_page_that_is_queued_anew_or_wanted_again_comes_back_once(tmp_path: Path, is_queued: bool) -> None:
    with opened(tmp_path) as frontier:
        (page_id,) = find(frontier, "page")
        visit_all(frontier, NOW)
    for visits, later in ((2, NOW + 8 * DAY), (3, NOW + 16 * DAY)):
        with opened(tmp_path, later) as frontier:
            if is_queued:
                queue_what_is_due(frontier, later)
            if visits == 2:
                assert frontier.requeue(page_id, later)
            else:
                assert find(frontier, "page", again=True, payload=b"{}", now=later) == [page_id]
            lease = leased(frontier, later)
            assert lease.page.payload == (b"" if visits == 2 else b"{}")
            assert not frontier.requeue(page_id, later), "it is visited right now"
            frontier.release(lease, READ, later)
            assert record(frontier)[1].visits == visits
            assert (frontier.totals().due, frontier.totals().queued_again) == (1, 0)
            assert visit_all(frontier, later) == []


@pytest.mark.parametrize("is_queued", [False, True])
@pytest.mark.parametrize("whole_host", [False, True])
def test_a_page_that_is_forgotten_does_not_come_back(
    tmp_path: Path, is_queued: bool, whole_host: bool
) -> None:
    def fingerprint_of(page: Page) -> bytes:
        return page.url.encode().rjust(20)

    with opened(tmp_path) as frontier:
        (page_id,) = find(frontier, "page")
        visit_all(frontier, NOW)
    later = NOW + 8 * DAY
    with opened(tmp_path, later) as frontier:
        if is_queued:
            queue_what_is_due(frontier, later)
        if whole_host:
            assert list(frontier.forget_host("a.example", fingerprint_of, later))[-1] == 1
        else:
            assert frontier.forget(page_id, fingerprint_of, later)
        assert visit_all(frontier, later) == []
        assert (frontier.totals().due, frontier.totals().queued_again) == (0, 0)


def test_a_revisit_that_goes_to_the_queue_of_another_host_takes_its_counts_along(tmp_path: Path) -> None:
    """As where hosts are told apart by address, and the address of a name has changed."""
    with opened(tmp_path) as frontier:
        frontier.discover([replace_host(link("page"), "10.0.0.1")], NOW)
        visit_all(frontier, NOW)
    later = NOW + 8 * DAY
    with opened(tmp_path, later) as frontier:
        visit(frontier, later, Outcome(Event.POSTPONED, host="10.0.0.2"))
        lease = leased(frontier, later)
        assert lease.host == "10.0.0.2"
        frontier.release(lease, DELETED, later)
        frontier.commit()
        assert frontier.totals().states["gone"] == 1


def replace_host(link: Link, host: str) -> Link:
    return replace(link, host=host)


@pytest.mark.parametrize("outcome", [OTHER, MISSING, ERROR])
def test_a_further_visit_of_a_page_leaves_its_record_as_it_is(tmp_path: Path, outcome: Outcome) -> None:
    with opened(tmp_path) as frontier:
        find(frontier, "page")
        visit_all(frontier, NOW)
        before = frontier.page(0)
        find(frontier, "page", again=True)
        lease = leased(frontier, NOW + DAY)
        frontier.bind_lease(lease, link("page").fingerprint)
        assert frontier.release(lease, outcome, NOW + DAY).visit is None
        assert frontier.page(0) == before


# -- other settings ---------------------------------------------------------------------------------------


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pages in a slice."""
    step = RecomputeDue.step
    monkeypatch.setattr(RecomputeDue, "step", lambda anew, limit: step(anew, 2))


def spans(frontier: Frontier) -> dict[str, float]:
    pages = (frontier.page(page_id) for page_id in range(frontier.totals().known))
    found = {page.url.rpartition("/")[2]: days_until_due(page, NOW) for page in pages if page is not None}
    return {name: days for name, days in found.items() if days}


@pytest.mark.usefixtures("slowly")
def test_switched_on_or_by_other_settings_due_times_are_made_anew(tmp_path: Path) -> None:
    ends = {"done": READ, "gone": MISSING, "moved": MOVED, "no": FORBIDDEN, "not": Outcome(Event.EXCLUDED)}
    with opened(tmp_path, rule=None) as frontier:
        find(frontier, *ends)
        while (lease := next_lease(frontier, NOW)) is not None:
            frontier.release(lease, ends[name_of(lease)], NOW)
    anew = {"done": 7, "gone": 7, "moved": 28, "no": 7}
    patterns = RevisitRule(shelf_life=inf, shelf_lives=(("done", DAY),), hubs=(("/moved", HOUR),))
    for rule, found in ((WEEKLY, anew), (patterns, {"done": 1, "moved": 0.17}), (ONCE, {}), (WEEKLY, anew)):
        with opened(tmp_path, NOW, rule) as frontier:
            assert spans(frontier) == found
    with opened(tmp_path) as frontier:
        assert frontier.replace_request(0, Link(facts=RequestFacts(shelf_life=DAY))), "a seed may say so, too"
        assert spans(frontier)["done"] == 1
        assert frontier.next_due() == int(NOW + 0.9 * DAY)


@pytest.mark.usefixtures("slowly")
def test_the_pass_over_all_pages_begins_again_after_an_interruption_and_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, rule=None) as frontier:
        find(frontier, *map(str, range(9)))
        visit_all(frontier, NOW)
    frontier = Frontier(Store(tmp_path), NOW, FrontierOptions(revisits=WEEKLY))
    assert not frontier.load(NOW)
    assert frontier.is_refilling, "the crawl does not end meanwhile"
    assert frontier.totals().due == 2
    frontier.close()
    with opened(tmp_path) as frontier:
        assert frontier.totals().due == 9
    monkeypatch.delattr(RecomputeDue, "step")
    with opened(tmp_path, NOW + DAY):
        pass


def test_what_is_not_due_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are counted: hundreds of pages that are not due cost nothing, the due ones a page row each."""
    with opened(tmp_path, NOW - 8 * DAY) as frontier:
        find(frontier, *map(str, range(20)), now=NOW - 8 * DAY)
        visit_all(frontier, NOW - 8 * DAY)
        find(frontier, *map(str, range(20, 500)))
        visit_all(frontier, NOW)
    read: list[bytes] = []
    with opened(tmp_path, NOW) as frontier:
        get = Store.get
        monkeypatch.setattr(Store, "get", lambda store, key: read.append(key) or get(store, key))
        assert next_lease(frontier, NOW) is not None
        monkeypatch.undo()
        assert len([key for key in read if key[:1] == keys.PAGE]) == 20 + 1


# -- damage -----------------------------------------------------------------------------------------------


def damage(db: plyvel.DB, name: str) -> None:
    """Page 0 is in the due queue, page 1 comes back later."""
    key, value = next(iter(db.iterator(prefix=keys.DUE)))
    if name == "lost":
        db.delete(key)
    elif name == "doubled":
        db.put(due_key(int(NOW), 1), value)
    elif name == "nowhere":
        db.put(due_key(int(NOW), 99), value)
    elif name == "torn":
        db.put(key[:-1], value)
    elif name == "value":
        db.put(key, b"?")
    elif name == "rates":
        db.put(keys.rates_key("a.example"), b"?")
    elif name == "counts":
        counts = COUNTS.decode(db.get(keys.COUNTS))
        counts.due, counts.queued_again = 7, 9
        db.put(keys.COUNTS, COUNTS.encode(counts))
    elif name == "queue":
        for row in list(db.iterator(prefix=keys.DUE_QUEUE, include_value=False)):
            db.delete(row)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("lost", ["missing row"]),
        ("doubled", ["stray row"]),
        ("nowhere", ["stray row"]),
        ("torn", ["stray row"]),
        ("value", []),
        ("counts", ["wrong row"]),
        ("rates", ["unreadable row"]),
        ("queue", ["missing row"]),
    ],
)
def test_a_check_finds_and_mends_damaged_rows(tmp_path: Path, name: str, found: list[str]) -> None:
    with opened(tmp_path) as frontier:
        find(frontier, "one")
        visit_all(frontier, NOW)
        find(frontier, "two")
        visit_all(frontier, NOW + 5 * DAY)
    with opened(tmp_path, NOW + 8 * DAY) as frontier:
        leased(frontier, NOW + 8 * DAY)
    with plyvel.DB(str(tmp_path / "leveldb")) as db:
        damage(db, name)
    for is_mended in (False, True):
        store = Store(tmp_path)
        findings = list(Check(store, None, NOW, repair=is_mended).run())
        assert [(each.kind, each.is_mended) for each in findings] == [(kind, is_mended) for kind in found]
        store.close()
    with opened(tmp_path, NOW + 20 * DAY) as frontier:
        assert sorted(visit_all(frontier, NOW + 20 * DAY)) == ["one", "two"]
