"""Revisits: what is due is visited, nothing else, and a page stays what it is until its visit ends."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from zlib import crc32

import plyvel
import pytest

from scrapy_frontier.core import reasons
from scrapy_frontier.core.admin.check import Check
from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Lease, Link, Outcome, PageId, Released
from scrapy_frontier.core.hosts.budgets import Limits
from scrapy_frontier.core.hosts.host import Politeness
from scrapy_frontier.core.pages.revisit_queue import RecomputeDue
from scrapy_frontier.core.ranking.graph import find_row
from scrapy_frontier.core.revisits.plans import SEEDS, RevisitRule
from scrapy_frontier.core.revisits.policy import Bounds, Conclusion, Fetched, Result
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.link_rows import INTERNAL, Edge
from scrapy_frontier.core.store.records import (
    NO_FACTS,
    NO_HISTORY,
    QUEUED_AGAIN,
    Page,
    RequestFacts,
    RobotsCopy,
    Verdict,
    Visits,
    decode_counts,
    due_key,
    encode_counts,
)
from scrapy_frontier.core.transitions import Event

NOW = 1_700_000_000.0
HOUR, DAY = 3600.0, 86400.0
WEEKLY = RevisitRule(shelf_life=7 * DAY)
READ = Outcome(Event.FETCHED, 200, fetched=Fetched(b'"1"', digest=b"dig-1", content_type="text/html"))
UNMODIFIED = Outcome(Event.FETCHED, 304, result=Result.UNCHANGED, fetched=Fetched())
MISSING = Outcome(Event.GONE, 404)


def changed(digest: bytes) -> Outcome:
    return READ._replace(fetched=Fetched(digest=digest))


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


def visit(
    frontier: Frontier, now: float, outcome: Outcome = READ, links: Iterable[Edge] | None = None
) -> tuple[str, Released] | None:
    """Hand out a page and end it so: its name and the answer."""
    lease = next_lease(frontier, now)
    if lease is None:
        return None
    if links is not None:
        lease.edges.extend(links)
        outcome = outcome._replace(has_links=True)
    return name_of(lease), frontier.release(lease, outcome, now)


def next_lease(frontier: Frontier, now: float) -> Lease | None:
    lease = frontier.lease(now)
    while lease is None and frontier.is_refilling:
        lease = frontier.lease(now)
    return lease


def visit_all(frontier: Frontier, now: float, outcome: Outcome = READ) -> list[str]:
    names = []
    while (found := visit(frontier, now, outcome)) is not None:
        names.append(found[0])
    return names


def record(frontier: Frontier, page_id: PageId) -> tuple[Page, Visits]:
    page = frontier.page(page_id)
    assert page is not None
    assert page.visits is not None
    return page, page.visits


# -- when ------------------------------------------------------------------------------------------------


def test_never_nothing_comes_back(tmp_path: Path) -> None:
    with opened(tmp_path, rule=None) as frontier:
        (page_id,) = find(frontier, "page")
        assert visit_all(frontier, NOW) == ["page"]
        assert record(frontier, page_id)[1].due == 0
        assert frontier.totals().due == 0
    with opened(tmp_path, NOW + 999 * DAY, rule=None) as frontier:
        assert visit_all(frontier, NOW + 999 * DAY) == []


def test_exactly_what_is_due_comes_back_and_nine_tenths_of_its_span_are_enough(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        find(frontier, "early")
        assert visit_all(frontier, NOW) == ["early"]
        find(frontier, "late")
        assert visit_all(frontier, NOW + DAY) == ["late"]
        assert frontier.totals().due == 2
    for at, names in ((6.2, []), (6.4, ["early"]), (6.5, []), (7.4, ["late"]), (12.7, ["early"])):
        with opened(tmp_path, NOW + at * DAY) as frontier:
            assert visit_all(frontier, NOW + at * DAY, UNMODIFIED) == names, at
            assert frontier.totals().due == 2


def test_a_page_is_visited_once_a_run_however_long_that_lasts(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        find(frontier, "page")
        visit_all(frontier, NOW)
        assert visit_all(frontier, NOW + 30 * DAY) == []
        assert not frontier.pending
        assert frontier.ends_at(NOW + 30 * DAY, 0.0) == NOW + 30 * DAY


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


def test_a_crawl_is_not_kept_open_by_what_comes_back(tmp_path: Path) -> None:
    """Where nothing but due pages of hosts that rest are left, they stay due: it is no loss to come later."""
    with opened(tmp_path) as frontier:
        find(frontier, "page")
        visit_all(frontier, NOW)
    later = NOW + 8 * DAY
    with opened(tmp_path, later) as frontier:
        lease = next_lease(frontier, later)
        assert lease is not None
        frontier.hold("a.example", later, later + HOUR)
        frontier.release(lease, Outcome(Event.POSTPONED), later)
        assert frontier.pending == 1
        assert frontier.ends_at(later, 300.0) == later
    with opened(tmp_path, later + 2 * HOUR) as frontier:
        assert visit_all(frontier, later + 2 * HOUR) == ["page"]


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
    ("facts", "comes_back"),
    [
        (RequestFacts(), True),
        (RequestFacts(is_unsafe=True), False),
        (RequestFacts(is_unsafe=True, shelf_life=7 * DAY), True),
        (RequestFacts(is_in_memory=True), False),
    ],
)
def test_only_what_asks_and_changes_nothing_comes_back_by_itself(
    tmp_path: Path, facts: RequestFacts, comes_back: bool
) -> None:
    with opened(tmp_path) as frontier:
        find(frontier, "page", facts=facts)
        visit_all(frontier, NOW)
    with opened(tmp_path, NOW + 8 * DAY) as frontier:
        assert bool(visit_all(frontier, NOW + 8 * DAY)) is comes_back


# -- what a page is meanwhile ----------------------------------------------------------------------------


def test_a_link_that_was_noted_twice_is_kept_once(tmp_path: Path) -> None:
    """As a link that is followed and as an anchor, say: of a page that is new, that comes back, and that is
    visited beside that."""
    noted = [Edge(0), Edge(0, INTERNAL)]
    for now, again in ((NOW, False), (NOW + 8 * DAY, False), (NOW + 9 * DAY, True)):
        with opened(tmp_path, now) as frontier:
            find(frontier, "page", now=now, again=again)
            lease = next_lease(frontier, now)
            assert lease is not None
            assert (lease.node is None) is again
            frontier.identify(lease, link("page").fingerprint)
            lease.edges.extend(noted)
            assert frontier.release(lease, changed(b"%d" % now)._replace(has_links=True), now).links == 1


def test_a_page_stays_what_it_is_until_its_visit_ends(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        (page_id,) = find(frontier, "page")
        visit(frontier, NOW)
    later = NOW + 8 * DAY
    with opened(tmp_path, later) as frontier:
        lease = next_lease(frontier, later)
        assert lease is not None
        assert lease.comes_back
        assert (lease.page_id, lease.node, lease.page.attempts) == (page_id, page_id, 0)
        assert record(frontier, page_id)[0].state is State.DONE
        assert frontier.totals().states["done"] == 1
        assert frontier.totals().states["queued"] == 0
        assert (frontier.totals().due, frontier.totals().queued_again) == (0, 1)
        released = frontier.release(lease, Outcome(Event.RETRIED, 503, delay=10), later)
        assert released.state is State.QUEUED
        page, _ = record(frontier, page_id)
        assert (page.state, page.status, page.attempts) == (State.DONE, 200, 1)
    with opened(tmp_path, later + 11) as frontier:
        lease = next_lease(frontier, later + 11)
        assert lease is not None
        assert lease.comes_back
        assert lease.page.attempts == 1
        frontier.release(lease, READ, later + 11)
        page, visits = record(frontier, page_id)
        assert (page.state, visits.visits, visits.last) == (State.DONE, 2, int(later + 11))
        assert frontier.totals().states["done"] == 1
        assert (frontier.totals().due, frontier.totals().queued_again) == (1, 0)


def test_what_comes_back_counts_against_no_budget_and_is_never_deferred(tmp_path: Path) -> None:
    limits = Limits(host_pages=2, host_pending=1)
    with opened(tmp_path, limits=limits) as frontier:
        find(frontier, "one")
        visit_all(frontier, NOW)
        find(frontier, "two")
        visit_all(frontier, NOW)
    later = NOW + 8 * DAY
    with opened(tmp_path, later, limits=limits) as frontier:
        assert sorted(visit_all(frontier, later)) == ["one", "two"], "the budget is used up"
        assert frontier.totals().states["done"] == 2
    with opened(tmp_path, later + 8 * DAY, limits=Limits(host_pending=1)) as frontier:
        lease = next_lease(frontier, later + 8 * DAY)
        assert lease is not None
        assert len(find(frontier, "three", now=later)) == 1
        assert frontier.totals().states["queued"] == 1, "there was room, whatever comes back"
        frontier.release(lease, READ, later + 8 * DAY)
        visit_all(frontier, later + 8 * DAY)


def test_new_pages_come_first_where_nothing_is_shared(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        find(frontier, "old", priority=100)
        visit_all(frontier, NOW)
    later = NOW + 8 * DAY
    with opened(tmp_path, later, WEEKLY._replace(share=0.0)) as frontier:
        find(frontier, "new", priority=-100, now=later)
        assert visit_all(frontier, later) == ["new", "old"]


def shares(
    directory: Path, share: float, news: dict[str, int], olds: dict[str, int], visits: int
) -> Counter[str]:
    """How often each host was visited, for new pages (its name) and for others (its name in capitals)."""
    with opened(directory) as frontier:
        for host, count in olds.items():
            find(frontier, *[f"old{number}" for number in range(count)], host=host)
        visit_all(frontier, NOW)
    later = NOW + 8 * DAY
    found: Counter[str] = Counter()
    with opened(directory, later, WEEKLY._replace(share=share)) as frontier:
        for host, count in news.items():
            find(frontier, *[f"new{number}" for number in range(count)], host=host, now=later, priority=100)
        while found.total() < visits and (lease := next_lease(frontier, later)) is not None:
            found[lease.host.upper() if lease.comes_back else lease.host] += 1
            frontier.release(lease, READ, later)
    return found


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_while_new_pages_wait_others_have_their_share_whatever_the_priority(
    tmp_path: Path, share: float
) -> None:
    found = shares(tmp_path, share, {"a": 150}, {"a": 150}, 100)
    assert found["A"] == pytest.approx(100 * share, abs=5)


def test_the_share_holds_over_all_and_on_each_host_with_both(tmp_path: Path) -> None:
    found = shares(tmp_path, 0.25, {"a": 150, "b": 150}, {"b": 150, "c": 150}, 200)
    assert found["B"] + found["C"] == pytest.approx(50, abs=6)
    assert found["C"] > 10
    assert found["B"] <= (found["B"] + found["b"]) * 0.25 + 4, "b has new pages of its own"


def test_what_is_not_used_of_a_share_is_there_for_the_others(tmp_path: Path) -> None:
    found = shares(tmp_path, 0.9, {"a": 60}, {"a": 5}, 65)
    assert found == {"a": 60, "A": 5}


def test_no_page_comes_back_again_while_its_end_waits_to_be_written(tmp_path: Path) -> None:
    """Taken out of turn, pages are looked for on the disk, where those that ended just now still stand."""
    with opened(tmp_path) as frontier:
        find(frontier, *[f"old{number}" for number in range(6)])
        visit_all(frontier, NOW)
    later = NOW + 8 * DAY
    with opened(tmp_path, later, WEEKLY._replace(share=0.9), max_uncommitted_pages=100) as frontier:
        find(frontier, *[f"new{number}" for number in range(6)], now=later)
        assert sorted(visit_all(frontier, later)) == [
            f"{kind}{number}" for kind in ("new", "old") for number in range(6)
        ]
        assert (frontier.pending, frontier.totals().queued_again) == (0, 0)


def test_the_share_holds_after_a_restart(tmp_path: Path) -> None:
    shares(tmp_path, 0.5, {"a": 100}, {"a": 100}, 10)
    later = NOW + 8 * DAY + HOUR
    with opened(tmp_path, later) as frontier:
        seen = []
        while len(seen) < 40 and (lease := next_lease(frontier, later)) is not None:
            seen.append(lease.comes_back)
            frontier.release(lease, READ, later)
    assert seen.count(True) == pytest.approx(20, abs=4)


def test_the_oldest_come_first_and_the_important_before(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        for hours, name in enumerate(("first", "second", "third")):
            find(frontier, name)
            visit_all(frontier, NOW + hours * HOUR)
        find(frontier, "important", bucket=0x8000 + 8 * 1024)
        visit_all(frontier, NOW + 4 * HOUR)
    later = NOW + 8 * DAY
    with opened(tmp_path, later) as frontier:
        assert visit_all(frontier, later) == ["important", "first", "second", "third"]


def test_switched_off_nothing_comes_back_and_switched_on_again_all_of_it(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        find(frontier, "one", "two")
        visit_all(frontier, NOW)
    later = NOW + 8 * DAY
    with opened(tmp_path, later) as frontier:
        lease = next_lease(frontier, later)
        assert lease is not None
        assert frontier.totals().queued_again == 2
        frontier.release(lease, Outcome(Event.POSTPONED), later)
    with opened(tmp_path, later, rule=None) as frontier:
        assert visit_all(frontier, later) == []
        assert not frontier.pending
    with opened(tmp_path, later) as frontier:
        assert sorted(visit_all(frontier, later)) == ["one", "two"]


# -- how a visit ends ------------------------------------------------------------------------------------


def came_back(
    directory: Path, *outcomes: Outcome, every: float = 8 * DAY, rule: RevisitRule = WEEKLY
) -> Page:
    """The record of a page that was read, with a link, and met these at its revisits."""
    with opened(directory, rule=rule) as frontier:
        page_id, target = find(frontier, "page", "target")
        assert visit(frontier, NOW, READ, [Edge(target)]) is not None
        visit(frontier, NOW, Outcome(Event.EXCLUDED))
    now = NOW
    for outcome in outcomes:
        now += every
        with opened(directory, now, rule=rule) as frontier:
            assert visit_all(frontier, now, outcome) == ["page"]
            page = frontier.page(page_id)
            assert page is not None
    return page


def links_of(directory: Path) -> list[int]:
    with opened(directory, NOW) as frontier:
        return [edge.target for edge in find_row(0, frontier._batch.get)]


def test_not_modified_renews_times_and_keeps_the_rest(tmp_path: Path) -> None:
    page = came_back(tmp_path, UNMODIFIED)
    assert (page.state, page.status, page.changed) == (State.DONE, 200, int(NOW))
    assert page.visits is not None
    assert (page.visits.first, page.visits.last, page.visits.visits) == (int(NOW), int(NOW + 8 * DAY), 2)
    assert (page.visits.validators.etag, page.visits.digest) == (b'"1"', b"dig-1")
    assert page.visits.due == int(NOW + (8 + 6.3) * DAY)
    assert links_of(tmp_path) == [1]


def test_not_modified_is_one_small_batch_that_leaves_links_alone(tmp_path: Path) -> None:
    """The rows of the page, its queue, its next time, its host and the rates there, and the counters."""
    with opened(tmp_path) as frontier:
        page_id, target = find(frontier, "page", "target")
        assert visit(frontier, NOW, links=[Edge(target)]) is not None
        visit_all(frontier, NOW, Outcome(Event.EXCLUDED))
    later, batches = NOW + 8 * DAY, list[list[bytes]]()

    def note(rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        batches.append([key[:1] for key, _ in rows])

    with opened(tmp_path, later, on_commit=note) as frontier:
        lease = next_lease(frontier, later)
        assert lease is not None
        assert lease.page_id == page_id
        batches.clear()
        frontier.release(lease, UNMODIFIED, later)
        (batch,) = batches
        assert set(batch) == {keys.PAGE, keys.QUEUE, keys.DUE, keys.HOST, keys.RATES, keys.COUNTS[:1]}
        assert len(batch) <= 8


@pytest.mark.parametrize(
    "outcome",
    [Outcome(Event.FAILED, 500), Outcome(Event.FAILED), Outcome(Event.RETRIED), Outcome(Event.EXPIRED)],
)
def test_an_error_changes_nothing_but_when_it_comes_back(tmp_path: Path, outcome: Outcome) -> None:
    first = came_back(tmp_path / "1", READ)
    with pytest.MonkeyPatch.context():
        page = came_back_failing(tmp_path / "2", outcome)
    assert page.visits is not None
    assert first.visits is not None
    kept = page.visits._replace(due=0, bad=first.visits.bad)
    assert kept == first.visits._replace(due=0, last=int(NOW), visits=1, history=NO_HISTORY)
    assert (page.state, page.status) == (State.DONE, 200)
    assert page.visits.due == int(NOW + (8 + 0.9 * 7 / 4) * DAY)
    assert page.visits.bad.visits == 1
    assert links_of(tmp_path / "2") == [1]


def came_back_failing(directory: Path, outcome: Outcome) -> Page:
    """`came_back` where one attempt is all there is."""
    with opened(directory, max_attempts=1) as frontier:
        page_id, target = find(frontier, "page", "target")
        assert visit(frontier, NOW, READ, [Edge(target)]) is not None
        visit(frontier, NOW, Outcome(Event.EXCLUDED))
    with opened(directory, NOW + 8 * DAY, max_attempts=1) as frontier:
        assert visit_all(frontier, NOW + 8 * DAY, outcome) == ["page"]
        return record(frontier, page_id)[0]


def test_errors_double_the_wait(tmp_path: Path) -> None:
    page = came_back(tmp_path, Outcome(Event.FAILED, 500), Outcome(Event.FAILED, 500))
    assert page.visits is not None
    assert page.visits.bad.visits == 2
    assert page.visits.due == int(NOW + (16 + 0.9 * 7 / 2) * DAY)


@pytest.mark.parametrize(
    ("outcome", "state", "spans"),
    [
        (MISSING, State.GONE, 1),
        (Outcome(Event.REDIRECTED, 301), State.REDIRECTED, 4),
        (Outcome(Event.REDIRECTED, 302), State.REDIRECTED, 1),
    ],
)
def test_a_page_is_gone_once_a_second_visit_agrees(
    tmp_path: Path, outcome: Outcome, state: State, spans: int
) -> None:
    once = came_back(tmp_path / "1", outcome)
    assert once.state is State.DONE
    assert once.visits is not None
    assert once.visits.digest == b"dig-1"
    assert links_of(tmp_path / "1") == [1]
    twice = came_back(tmp_path / "2", outcome, outcome)
    assert (twice.state, twice.status) == (state, outcome.status)
    assert twice.visits is not None
    assert (twice.visits.digest, twice.visits.validators.etag) == (b"", b"")
    assert twice.visits.due == int(NOW + (16 + 0.9 * 7 * spans) * DAY)
    assert links_of(tmp_path / "2") == []


def test_what_is_said_to_be_gone_is_gone_at_once_and_comes_back_in_the_end(tmp_path: Path) -> None:
    page = came_back(tmp_path, Outcome(Event.GONE, 410))
    assert page.state is State.GONE
    assert page.visits is not None
    assert page.visits.due == int(NOW + 8 * DAY + 0.9 * Bounds().longest)
    again = NOW + 60 * DAY
    with opened(tmp_path, again) as frontier:
        assert visit(frontier, again) is not None
        assert record(frontier, 0)[0].state is State.DONE
        assert frontier.totals().states["gone"] == 0


def test_a_callback_that_raised_fails_the_page_and_keeps_its_links(tmp_path: Path) -> None:
    page = came_back(tmp_path, Outcome(Event.FAILED, 200, "ValueError", result=Result.CALLBACK_FAILED))
    assert page.state is State.FAILED
    assert page.visits is not None
    assert (page.visits.digest, page.visits.validators.etag) == (b"", b"")
    assert page.visits.due == int(NOW + (8 + 0.9 * 7 / 4) * DAY)
    assert links_of(tmp_path) == [1]


def test_a_page_that_robots_txt_forbids_loses_its_links_and_is_judged_again_after_its_span(
    tmp_path: Path,
) -> None:
    page = came_back(tmp_path, Outcome(Event.EXCLUDED, reason="robots.txt"))
    assert page.state is State.EXCLUDED
    assert page.visits is not None
    assert page.visits.due == int(NOW + (8 + 6.3) * DAY)
    assert links_of(tmp_path) == []
    assert came_back(tmp_path / "2", Outcome(Event.EXCLUDED), READ).state is State.DONE


def test_a_request_that_is_lost_leaves_the_page_as_it_is_until_its_next_time(tmp_path: Path) -> None:
    """Its callback may have another name for a while."""
    page = came_back(tmp_path, Outcome(Event.LOST))
    assert page.state is State.DONE
    assert page.visits is not None
    assert (page.visits.due, page.visits.visits) == (int(NOW + (8 + 6.3) * DAY), 1)


def test_where_most_of_a_host_is_gone_at_once_none_of_it_is(tmp_path: Path) -> None:
    names = [f"page{number}" for number in range(30)]
    with opened(tmp_path) as frontier:
        find(frontier, *names)
        find(frontier, *names, host="b.example")
        visit_all(frontier, NOW)
    for days in (8, 16, 24):
        now = NOW + days * DAY
        with opened(tmp_path, now) as frontier:
            while (lease := next_lease(frontier, now)) is not None:
                frontier.release(lease, MISSING if lease.host == "a.example" else UNMODIFIED, now)
            assert frontier.totals().states["done"] == 60


def test_a_host_that_loses_most_is_named_and_remembered(tmp_path: Path) -> None:
    """What says 410 is gone at once: that is those before the host was known to be to blame."""
    with opened(tmp_path) as frontier:
        find(frontier, *[f"page{number}" for number in range(30)])
        visit_all(frontier, NOW)
    for days in (8, 16, 24, 32):
        now, named = NOW + days * DAY, set()
        with opened(tmp_path, now) as frontier:
            while (found := visit(frontier, now, Outcome(Event.GONE, 410))) is not None:
                assert found[1].visit is not None
                named.add(found[1].visit.blamed)
            assert frontier.totals().states["gone"] == 7
        assert named - {""} == {"a.example"}


def test_pages_that_went_together_are_gone_when_they_are_all_that_comes_back(tmp_path: Path) -> None:
    """The second visits of twenty in a hundred pages come together, a quarter of a span after the first."""
    with opened(tmp_path) as frontier:
        find(frontier, *[f"page{number}" for number in range(100)])
        visit_all(frontier, NOW)
    for now in (NOW + 7 * DAY, NOW + 9 * DAY):
        with opened(tmp_path, now) as frontier:
            while (lease := next_lease(frontier, now)) is not None:
                is_gone = name_of(lease).endswith(("4", "9"))
                frontier.release(lease, MISSING if is_gone else UNMODIFIED, now)
            states = frontier.totals().states
    assert (states["done"], states["gone"]) == (80, 20)


def test_a_host_whose_pages_redirect_as_ever_is_not_to_blame(tmp_path: Path) -> None:
    """They rest as long as they should, and one that is gone may go."""
    moved = Outcome(Event.REDIRECTED, 301)
    with opened(tmp_path) as frontier:
        find(frontier, *[f"page{number}" for number in range(20)])
        while (lease := next_lease(frontier, NOW)) is not None:
            frontier.release(lease, READ if name_of(lease) in ("page0", "page1") else moved, NOW)
    now = NOW + 30 * DAY
    ends = {"page0": UNMODIFIED, "page1": Outcome(Event.GONE, 410)}
    with opened(tmp_path, now) as frontier:
        while (lease := next_lease(frontier, now)) is not None:
            frontier.release(lease, ends.get(name_of(lease), moved), now)
        states = frontier.totals().states
        assert (states["redirected"], states["gone"], states["done"]) == (18, 1, 1)
        assert record(frontier, 5)[1].due == int(now + 0.9 * 28 * DAY)


@pytest.mark.parametrize("outcome", [UNMODIFIED, READ._replace(result=Result.UNCHANGED)])
def test_an_alias_that_has_not_changed_is_one_still(tmp_path: Path, outcome: Outcome) -> None:
    alias = READ._replace(reason="alias of http://a.example/else", result=Result.ALIAS)
    page = came_back(tmp_path, alias, outcome._replace(reason=alias.reason), every=45 * DAY)
    assert page.visits is not None
    assert page.visits.visits == 3
    assert page.visits.due == int(NOW + 90 * DAY + 0.9 * Bounds().longest)


def test_a_page_that_is_an_alias_from_the_first_comes_back_as_one(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        find(frontier, "page")
        visit_all(frontier, NOW, READ._replace(reason="alias of http://a.example/else"))
        assert record(frontier, 0)[1].due == int(NOW + 0.9 * Bounds().longest)


def test_a_page_that_is_no_alias_any_more_comes_back_after_its_span(tmp_path: Path) -> None:
    alias = READ._replace(reason="alias of http://a.example/else", result=Result.ALIAS)
    page = came_back(tmp_path, alias, READ._replace(result=Result.READ), every=45 * DAY)
    assert page.visits is not None
    assert page.visits.due == int(NOW + 90 * DAY + 0.9 * 7 * DAY)


def test_a_hub_keeps_its_span_whatever_its_canonical(tmp_path: Path) -> None:
    rule = WEEKLY._replace(hubs=((SEEDS, DAY),))
    alias = READ._replace(reason="alias of http://a.example/else")
    with opened(tmp_path, rule=rule) as frontier:
        find(frontier, "page")
        visit_all(frontier, NOW, alias)
        assert record(frontier, 0)[1].due == int(NOW + 0.9 * DAY)
    with opened(tmp_path, NOW + DAY, rule) as frontier:
        visit_all(frontier, NOW + DAY, alias._replace(result=Result.ALIAS))
        assert record(frontier, 0)[1].due == int(NOW + 1.9 * DAY)


def test_links_that_came_and_went_are_told(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        _, one, two = find(frontier, "page", "one", "two")
        assert visit(frontier, NOW, READ, [Edge(one), Edge(two)]) is not None
        visit_all(frontier, NOW, Outcome(Event.EXCLUDED))
    later = NOW + 8 * DAY
    with opened(tmp_path, later) as frontier:
        (three,) = find(frontier, "three", only_seen="because")
        found = visit(frontier, later, changed(b"dig-2"), [Edge(two), Edge(three)])
        assert found is not None
        end = found[1].visit
        assert end is not None
        assert end.was.visits is not None
        assert (end.conclusion, end.was.visits.last) == (Conclusion.CHANGED, int(NOW))
        assert (end.before, end.digest) == (b"dig-1", b"dig-2")
        assert (end.added, end.removed) == ((three,), (one,))
        assert [edge.target for edge in find_row(0, frontier._batch.get)] == [two, three]


@pytest.mark.parametrize(
    ("outcome", "conclusion"),
    [
        (UNMODIFIED, Conclusion.UNCHANGED),
        (READ, Conclusion.UNCHANGED),
        (changed(b"dig-2"), Conclusion.CHANGED),
        (Outcome(Event.GONE, 410), Conclusion.GONE),
        (Outcome(Event.EXCLUDED), Conclusion.GONE),
        (READ._replace(result=Result.NOINDEX), Conclusion.GONE),
        (MISSING, Conclusion.UNDECIDED),
        (Outcome(Event.FAILED, 500), Conclusion.UNDECIDED),
    ],
)
def test_what_a_visit_came_to_is_told(tmp_path: Path, outcome: Outcome, conclusion: Conclusion) -> None:
    with opened(tmp_path) as frontier:
        find(frontier, "page")
        found = visit(frontier, NOW)
        assert found is not None
        assert found[1].visit is None, "the first visit"
    with opened(tmp_path, NOW + 8 * DAY) as frontier:
        found = visit(frontier, NOW + 8 * DAY, outcome)
        assert found is not None
        assert found[1].visit is not None
        assert found[1].visit.conclusion is conclusion


def test_a_page_that_is_not_to_be_indexed_is_told_as_gone_once_and_then_that_it_is_back(
    tmp_path: Path,
) -> None:
    noindex, told = READ._replace(result=Result.NOINDEX, reason=reasons.NOINDEX()), []
    with opened(tmp_path) as frontier:
        find(frontier, "page")
        assert visit(frontier, NOW) is not None
    for day, outcome in ((8, noindex), (16, noindex), (24, READ), (32, READ)):
        with opened(tmp_path, NOW + day * DAY) as frontier:
            found = visit(frontier, NOW + day * DAY, outcome)
            assert found is not None
            assert found[1].visit is not None
            told.append(found[1].visit.conclusion)
    assert told == [Conclusion.GONE, Conclusion.STILL_GONE, Conclusion.CHANGED, Conclusion.UNCHANGED]


def test_a_page_that_is_gone_first_one_way_and_then_another_is_told_once(tmp_path: Path) -> None:
    noindex, told = READ._replace(result=Result.NOINDEX, reason=reasons.NOINDEX()), []
    with opened(tmp_path) as frontier:
        find(frontier, "page")
        assert visit(frontier, NOW) is not None
    for day, outcome in ((8, noindex), (16, MISSING), (24, MISSING), (40, noindex), (48, READ)):
        with opened(tmp_path, NOW + day * DAY) as frontier:
            found = visit(frontier, NOW + day * DAY, outcome)
            assert found is not None
            assert found[1].visit is not None
            told.append(found[1].visit.conclusion)
    assert told == [Conclusion.GONE, *[Conclusion.STILL_GONE] * 3, Conclusion.CHANGED]


# -- first visits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "days"),
    [
        (READ, 7),
        (Outcome(Event.FAILED, 500), 7 / 4),
        (MISSING, 7),
        (Outcome(Event.GONE, 410), 45),
        (Outcome(Event.REDIRECTED, 301), 28),
        (Outcome(Event.REDIRECTED, 302), 7),
    ],
)
def test_what_a_first_visit_ended_with_comes_back_too(tmp_path: Path, outcome: Outcome, days: float) -> None:
    with opened(tmp_path) as frontier:
        (page_id,) = find(frontier, "page")
        visit(frontier, NOW, outcome)
        assert record(frontier, page_id)[1].due == int(NOW + 0.9 * days * DAY)


SKIPPED = Outcome(Event.EXCLUDED, 200, reasons.SKIPPED(), result=Result.NOINDEX)


@pytest.mark.parametrize("first", [WEEKLY, None])
def test_a_page_that_was_skipped_comes_back_and_is_read_once_it_may_be(
    tmp_path: Path, first: RevisitRule | None
) -> None:
    """Nobody was told of it, so nobody is told that it is gone."""
    with opened(tmp_path, rule=first) as frontier:
        find(frontier, "page")
        visit(frontier, NOW, SKIPPED)
    found = []
    for day, outcome in ((8, SKIPPED), (16, READ), (24, SKIPPED)):
        with opened(tmp_path, NOW + day * DAY) as frontier:
            end = visit(frontier, NOW + day * DAY, outcome)
            assert end is not None
            assert end[1].visit is not None
            page, visits = record(frontier, 0)
            assert visits.due == int(NOW + (day + 0.9 * 7) * DAY)
            found.append((page.state, end[1].visit.conclusion))
    assert found == [
        (State.EXCLUDED, Conclusion.STILL_GONE),
        (State.DONE, Conclusion.CHANGED),
        (State.DONE, Conclusion.GONE),
    ]


@pytest.mark.parametrize(
    ("outcome", "facts", "days"),
    [
        (READ, NO_FACTS, 0),
        (Outcome(Event.FAILED, 500), NO_FACTS, 45 / 4),
        (Outcome(Event.FAILED, 500), RequestFacts(is_unsafe=True), 0),
        (MISSING, NO_FACTS, 0),
        (Outcome(Event.REDIRECTED, 302), NO_FACTS, 0),
        (Outcome(Event.EXCLUDED, reason=reasons.FORBIDDEN(origin="http://a.example", rule="x")), NO_FACTS, 0),
    ],
)
def test_where_pages_do_not_come_back_one_that_failed_does_all_the_same(
    tmp_path: Path, outcome: Outcome, facts: RequestFacts, days: float
) -> None:
    """As if its span were the ceiling, also where that is a matter of changed settings."""
    once, due = WEEKLY._replace(shelf_life=inf), int(NOW + 0.9 * days * DAY) if days else 0
    for first in (once, WEEKLY):
        directory = tmp_path / str(first.shelf_life)
        with opened(directory, rule=first) as frontier:
            find(frontier, "page", facts=facts)
            visit(frontier, NOW, outcome)
        with opened(directory, rule=once) as frontier:
            page = frontier.page(0)
            assert page is not None
            assert (page.visits.due if page.visits else 0) == due


def test_what_failed_is_asked_for_more_seldom_until_it_is_read_and_then_no_more(tmp_path: Path) -> None:
    once, now, spans = WEEKLY._replace(shelf_life=inf), NOW, []
    failed = Outcome(Event.FAILED, 500)
    with opened(tmp_path, rule=once) as frontier:
        find(frontier, "page")
        visit(frontier, now, failed)
    for outcome in (failed, failed, failed, READ):
        now += 46 * DAY
        with opened(tmp_path, now, once) as frontier:
            assert visit_all(frontier, now, outcome) == ["page"]
            due = record(frontier, 0)[1].due
        spans.append((due - now) / DAY / 0.9 if due else None)
    assert spans == [pytest.approx(45 / 2), pytest.approx(45), pytest.approx(45), None]


def test_a_page_in_doubt_comes_back_until_that_is_settled(tmp_path: Path) -> None:
    """Although others come back no more, by the settings of now."""
    once, now = WEEKLY._replace(shelf_life=inf), NOW + 8 * DAY
    with opened(tmp_path) as frontier:
        find(frontier, "page", "other")
        visit_all(frontier, NOW)
    with opened(tmp_path, now) as frontier:
        assert visit(frontier, now, MISSING) is not None
        visit_all(frontier, now)
    with opened(tmp_path, now, once) as frontier:
        assert [record(frontier, page_id)[1].due for page_id in (0, 1)] == [int(now + 0.9 * 45 / 4 * DAY), 0]
    with opened(tmp_path, now + 45 * DAY, once) as frontier:
        assert visit_all(frontier, now + 45 * DAY, MISSING) == ["page"]
        page, visits = record(frontier, 0)
        assert (page.state, visits.due) == (State.GONE, 0)


# -- hubs ------------------------------------------------------------------------------------------------


def test_hubs_have_a_span_of_their_own_and_come_first(tmp_path: Path) -> None:
    rule = WEEKLY._replace(hubs=((r"/hub", DAY),))
    with opened(tmp_path, rule=rule) as frontier:
        find(frontier, "page", "hub")
        find(frontier, "wish", facts=RequestFacts(refresh=DAY))
        visit_all(frontier, NOW)
    with opened(tmp_path, NOW + DAY, rule=rule) as frontier:
        assert visit_all(frontier, NOW + DAY) == ["hub", "wish"]
    with opened(tmp_path, NOW + 8 * DAY, rule=rule) as frontier:
        assert visit_all(frontier, NOW + 8 * DAY) == ["hub", "wish", "page"]


@pytest.mark.parametrize(("share", "first"), [(0.0, 0), (0.2, 8), (0.5, 8)])
def test_hubs_beyond_their_share_have_the_place_of_their_worth(
    tmp_path: Path, share: float, first: int
) -> None:
    """That of the others is more here."""
    hubs = WEEKLY._replace(hubs=((r"/hub", DAY),), hub_share=share)
    with opened(tmp_path, rule=hubs) as frontier:
        find(frontier, *[f"page{number}" for number in range(20)])
        visit_all(frontier, NOW)
        find(frontier, *[f"hub{number}" for number in range(20)])
        visit_all(frontier, NOW + 4 * DAY)
    with opened(tmp_path, NOW + 8 * DAY, rule=hubs) as frontier:
        names = visit_all(frontier, NOW + 8 * DAY)
    assert [name.startswith("hub") for name in names] == [
        *[True] * first,
        *[False] * 20,
        *[True] * (20 - first),
    ]


def test_a_page_comes_back_in_a_later_run_however_short_its_span(tmp_path: Path) -> None:
    """Rows hold whole seconds: in the second in which the run began it would come back at once, and again."""
    rule = WEEKLY._replace(shelf_life=0.1)
    with opened(tmp_path, rule=rule) as frontier:
        find(frontier, "page")
        assert visit_all(frontier, NOW) == ["page"]
    with opened(tmp_path, NOW + 1, rule=rule) as frontier:
        assert visit_all(frontier, NOW + 1) == ["page"]


@pytest.mark.parametrize(
    ("hub", "url"),
    [
        ("http://a.example", "http://a.example/"),
        ("http://a.example/", "http://a.example"),
        ("HTTP://A.example/list?b=2&a=1#top", "http://a.example/list?a=1&b=2"),
        ("http://a.example/\xfc", "http://a.example/%C3%BC"),
        ("http://a.example/list?tags=news|b", "http://a.example/list?tags=news%7Cb"),
        ("http://a.example/list?a[]=1", "http://a.example/list?a[]=1"),
        ("http://a.example/News_(paper)?action=history", "http://a.example/News_(paper)?action=history"),
        ("http://a.example/list?q=St.+Louis", "http://a.example/list?q=St.+Louis"),
        ('http://a.example/list?q={"a":1}', "http://a.example/list?q=%7B%22a%22:1%7D"),
    ],
)
def test_a_hub_is_named_by_its_url_however_that_is_spelled(tmp_path: Path, hub: str, url: str) -> None:
    rule = WEEKLY._replace(hubs=((hub, DAY),))
    with opened(tmp_path, rule=rule) as frontier:
        frontier.discover([Link(b"hub", url, "a.example"), Link(b"page", url + "?x", "a.example")], NOW)
        visit_all(frontier, NOW)
    with opened(tmp_path, NOW + DAY, rule=rule) as frontier:
        assert len(visit_all(frontier, NOW + DAY)) == 1
    assert rule.hub_urls == [hub]


@pytest.mark.parametrize(
    "pattern",
    [
        *("http://[^/]+/hub", r"http://a\.example/h", "http://a.example/h.*", "http://[a-z.]+/hub$"),
        *("http://(www.)?a.example/hub", "http://a.example/(?:hub)", "http://a.example/[a-h][a-z]+"),
        *("http://a.example/(news|hub)", "http://a.example/[a-h]ub", "http://.*?/hub"),
    ],
)
def test_a_pattern_may_begin_with_a_scheme(tmp_path: Path, pattern: str) -> None:
    rule = WEEKLY._replace(hubs=((pattern, DAY),))
    with opened(tmp_path, rule=rule) as frontier:
        find(frontier, "page", "hub")
        visit_all(frontier, NOW)
    with opened(tmp_path, NOW + DAY, rule=rule) as frontier:
        assert visit_all(frontier, NOW + DAY) == ["hub"]
    assert rule.hub_urls == []


def test_a_hub_never_ends_gone_or_failed(tmp_path: Path) -> None:
    rule = WEEKLY._replace(hubs=((r"/page", DAY),))
    page = came_back(tmp_path, *[MISSING] * 4, rule=rule)
    assert page.state is State.DONE


def test_seeds_are_hubs_and_so_is_where_they_lead(tmp_path: Path) -> None:
    rule = WEEKLY._replace(shelf_life=inf, hubs=((SEEDS, DAY),))
    with opened(tmp_path, rule=rule) as frontier:
        (seed,) = find(frontier, "seed")
        lease = next_lease(frontier, NOW)
        assert lease is not None
        (answer,) = frontier.discover([link("home", parent=seed)], NOW)
        frontier.release(lease, Outcome(Event.REDIRECTED, 301, target=answer.page_id), NOW)
        lease = next_lease(frontier, NOW)
        assert lease is not None
        frontier.discover([link("article")], NOW, lease)
        frontier.release(lease, READ, NOW)
        assert visit_all(frontier, NOW) == ["article"]
    with opened(tmp_path, NOW + DAY, rule=rule) as frontier:
        assert visit_all(frontier, NOW + DAY) == ["home"], "the article never, the seed after four spans"


# -- adaptive ---------------------------------------------------------------------------------------------

ADAPTIVE = RevisitRule("adaptive", shelf_life=6 * DAY, horizon=inf)
KINDS = {"never": 0.0, "seldom": 20.0, "often": 3.0}  # days between two changes


def kept_for(directory: Path, days: float, runs: int = 1) -> Counter[str]:
    """How often each kind of page was visited in the second half of so many days."""
    found: Counter[str] = Counter()
    now, end = NOW, NOW + days * DAY
    for run in range(runs):
        with opened(directory, now, ADAPTIVE) as frontier:
            find(frontier, *[f"{kind}{number}" for kind in KINDS for number in range(20)])
            stop = NOW + days * DAY * (run + 1) / runs
            while now < stop:
                while (lease := next_lease(frontier, now)) is not None:
                    name = name_of(lease)
                    kind = name.rstrip("0123456789")
                    offset = crc32(name.encode()) % 97 / 97
                    version = int((now - NOW) / DAY / KINDS[kind] + offset) if KINDS[kind] else 0
                    digest = version.to_bytes(4, "big") + b"."
                    frontier.release(lease, changed(digest), now)
                    found[kind] += now > NOW + days * DAY / 2
                due = frontier.next_due()
                assert due is not None
                now = max(due, now + 60)
    assert now > end
    return found


def test_pages_are_visited_when_it_is_worth_most(tmp_path: Path) -> None:
    """As many visits as if each came back after its shelf life, and where they help most."""
    found = kept_for(tmp_path, 240)
    assert found["often"] > found["seldom"] > found["never"] > 0
    assert found["often"] > 1.5 * found["never"]
    assert 0.6 < found.total() / (60 * 120 / 6) < 1.3


def test_what_was_learnt_outlasts_restarts(tmp_path: Path) -> None:
    found = kept_for(tmp_path, 240, runs=8)
    assert found["often"] > found["seldom"] > found["never"] > 0
    with opened(tmp_path, NOW + 240 * DAY, ADAPTIVE) as frontier:
        rates = frontier._revisits.queue._rates
        assert rates is not None
        assert rates.multiplier > 0
        assert rates.expected("a.example") > rates.expected("unknown.example") / 100


def test_a_crawl_that_is_started_daily_plans_no_page_more_often_than_it_is_started(tmp_path: Path) -> None:
    """One page is worth far more than others: none of its visits are planned between the runs."""
    rule, found = ADAPTIVE._replace(horizon=0.0, shelf_life=4 * DAY), Counter[str]()
    for day in range(41):
        now = NOW + day * DAY
        with opened(tmp_path, now, rule) as frontier:
            find(frontier, "best", bucket=0x8000 + 8 * 1024)
            find(frontier, *map(str, range(12)))
            if day:
                found.update(visit_all(frontier, now, changed(b"%05d" % day)))
            else:
                visit_all(frontier, now)
    assert found["best"] >= 30
    assert 0.8 * 13 * 40 / 4 < found.total() < 1.3 * 13 * 40 / 4


def test_who_names_a_span_gets_it_whatever_it_is_worth(tmp_path: Path) -> None:
    rule = ADAPTIVE._replace(shelf_lives=(("/daily", DAY),), horizon=0.0)
    for days in range(10):
        with opened(tmp_path, NOW + days * DAY, rule) as frontier:
            find(frontier, "daily", *map(str, range(5)))
            assert "daily" in visit_all(frontier, NOW + days * DAY)


# -- edits -----------------------------------------------------------------------------------------------


def queue_what_is_due(frontier: Frontier, now: float) -> None:
    """The one page that is due waits in its queue."""
    lease = next_lease(frontier, now)
    assert lease is not None
    frontier.release(lease, Outcome(Event.POSTPONED), now)


@pytest.mark.parametrize("is_queued", [False, True])
def test_a_page_that_is_queued_anew_comes_back_once(tmp_path: Path, is_queued: bool) -> None:
    with opened(tmp_path) as frontier:
        (page_id,) = find(frontier, "page")
        visit_all(frontier, NOW)
    later = NOW + 8 * DAY
    with opened(tmp_path, later) as frontier:
        if is_queued:
            queue_what_is_due(frontier, later)
        assert frontier.requeue(page_id, later)
        assert visit_all(frontier, later) == ["page"]
        assert record(frontier, page_id)[1].visits == 2
        assert (frontier.totals().due, frontier.totals().queued_again) == (1, 0)


def test_a_page_that_is_visited_again_right_now_is_not_queued_anew(tmp_path: Path) -> None:
    """As a seed of a failed page is: it would be fetched twice at once, and counted away twice."""
    with opened(tmp_path) as frontier:
        (page_id,) = find(frontier, "page")
        visit_all(frontier, NOW, Outcome(Event.FAILED, 500))
    later = NOW + 8 * DAY
    with opened(tmp_path, later) as frontier:
        lease = next_lease(frontier, later)
        assert lease is not None
        assert not frontier.requeue(page_id, later)
        assert next_lease(frontier, later) is None
        frontier.release(lease, Outcome(Event.FAILED, 500), later)
        frontier.commit()
        assert frontier.totals().queued_again == 0


def test_a_revisit_that_goes_to_the_queue_of_another_host_takes_its_counts_along(tmp_path: Path) -> None:
    """As where hosts are told apart by address, and the address of a name has changed."""
    with opened(tmp_path) as frontier:
        frontier.discover([replace(link("page"), host="10.0.0.1", kept_host="10.0.0.1")], NOW)
        visit_all(frontier, NOW)
    later = NOW + 8 * DAY
    with opened(tmp_path, later) as frontier:
        lease = next_lease(frontier, later)
        assert lease is not None
        frontier.release(lease, Outcome(Event.POSTPONED, host="10.0.0.2"), later)
        lease = next_lease(frontier, later)
        assert lease is not None
        assert lease.host == "10.0.0.2"
        frontier.release(lease, Outcome(Event.GONE, 410), later)
        frontier.commit()
        assert frontier.totals().states["gone"] == 1


def test_a_visit_beside_its_page_in_a_slot_of_its_own_counts_for_the_host_of_the_page(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        (page_id,) = find(frontier, "page")
        visit_all(frontier, NOW)
        assert frontier.requeue(page_id, NOW)
        visit_all(frontier, NOW, MISSING)
        frontier.discover([replace(link("page", again=True), host="slot", kept_host="slot")], NOW)
        lease = next_lease(frontier, NOW)
        assert lease is not None
        assert lease.host == "slot"
        frontier.identify(lease, link("page").fingerprint)
        frontier.release(lease, changed(b"dig-2"), NOW)
        frontier.commit()
        assert frontier.totals().states["done"] == 1


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


# -- what it costs ---------------------------------------------------------------------------------------


def test_what_is_not_due_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are counted: a thousand pages that are not due cost nothing, the due ones a page row each."""
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


# -- yielded again ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_queued", [False, True])
def test_due_and_wanted_again_is_one_visit_by_the_request_that_is_wanted_now(
    tmp_path: Path, is_queued: bool
) -> None:
    rule = WEEKLY._replace(hubs=(("/page", DAY),))
    with opened(tmp_path, rule=rule) as frontier:
        (page_id,) = find(frontier, "page")
        visit_all(frontier, NOW)
    later = NOW + 2 * DAY
    with opened(tmp_path, later, rule) as frontier:
        if is_queued:
            queue_what_is_due(frontier, later)
        assert find(frontier, "page", again=True, payload=b'{"priority":1}', now=later) == [page_id]
        lease = next_lease(frontier, later)
        assert lease is not None
        assert (lease.page_id, lease.page.payload) == (page_id, b'{"priority":1}')
        more = find(frontier, "page", again=True, now=later)
        assert more != [page_id], "the visit under way is another one"
        frontier.release(lease, READ, later)
        assert record(frontier, page_id)[1].visits == 2
        assert visit_all(frontier, later) == ["page"]
        assert find(frontier, "page", again=True, now=later) != [page_id], "it was visited in this run"
        visit_all(frontier, later)


def test_a_visit_that_is_wanted_before_its_page_is_due_is_one_as_any_other(tmp_path: Path) -> None:
    """It renews the record, and the page comes back a span later; links that came and went are told."""
    with opened(tmp_path) as frontier:
        page_id, one, two = find(frontier, "page", "one", "two")
        assert visit(frontier, NOW, links=[Edge(one)]) is not None
        visit_all(frontier, NOW)
        later = NOW + 2 * DAY
        for number, digest in enumerate((b"dig-1", b"dig-2"), 2):
            assert find(frontier, "page", again=True, now=later) != [page_id]
            lease = next_lease(frontier, later)
            assert lease is not None
            frontier.identify(lease, link("page").fingerprint)
            lease.edges.append(Edge(one if number == 2 else two))
            end = frontier.release(lease, changed(digest)._replace(has_links=True), later).visit
            page, visits = record(frontier, page_id)
            assert (page.state, visits.visits, visits.last, visits.due) == (
                State.DONE,
                number,
                int(later),
                int(later + 0.9 * 7 * DAY),
            )
            assert end is not None
            assert (end.conclusion, end.added, end.removed) == [
                (Conclusion.UNCHANGED, (), ()),
                (Conclusion.CHANGED, (two,), (one,)),
            ][number - 2]
        assert (visits.changes, visits.changed // 60) == (1, int(later) // 60)
        assert frontier.totals().due == 3
    with opened(tmp_path, NOW + 7 * DAY) as frontier:
        assert visit_all(frontier, NOW + 7 * DAY) == ["one", "two"]


@pytest.mark.parametrize("rule", [WEEKLY, None])
def test_a_visit_beside_its_page_is_told_when_that_was_visited_before(
    tmp_path: Path, rule: RevisitRule | None
) -> None:
    """Where pages come back: else their record says nothing of such visits."""
    told = []
    with opened(tmp_path, rule=rule) as frontier:
        find(frontier, "page")
        visit_all(frontier, NOW)
        for number, name in enumerate(("page", "page", "unknown"), 1):
            find(frontier, "page", again=True, now=NOW + number)
            lease = next_lease(frontier, NOW + number)
            assert lease is not None
            told.append(frontier.identify(lease, link(name).fingerprint))
            frontier.release(lease, READ, NOW + number)
    assert told == ([int(NOW), int(NOW) + 1, 0] if rule else [0, 0, 0])


@pytest.mark.parametrize("outcome", [MISSING, Outcome(Event.FAILED), Outcome(Event.EXCLUDED, reason="so")])
def test_a_visit_beside_its_page_that_does_not_show_it_says_nothing_of_it(
    tmp_path: Path, outcome: Outcome
) -> None:
    with opened(tmp_path) as frontier:
        (page_id,) = find(frontier, "page")
        visit_all(frontier, NOW)
        before = frontier.page(page_id)
        find(frontier, "page", again=True)
        lease = next_lease(frontier, NOW + DAY)
        assert lease is not None
        frontier.identify(lease, link("page").fingerprint)
        assert frontier.release(lease, outcome, NOW + DAY).visit is None
        assert frontier.page(page_id) == before


def test_a_visit_beside_one_that_is_under_way_leaves_the_record_to_that(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        (page_id,) = find(frontier, "page")
        visit_all(frontier, NOW)
    later = NOW + 7 * DAY
    with opened(tmp_path, later) as frontier:
        lease = next_lease(frontier, later)
        assert lease is not None
        find(frontier, "page", again=True, now=later)
        beside = next_lease(frontier, later)
        assert beside is not None
        frontier.identify(beside, link("page").fingerprint)
        assert frontier.release(beside, READ, later).visit is None
        frontier.release(lease, READ, later)
        assert record(frontier, page_id)[1].visits == 2
        assert frontier.totals().due == 1


def test_another_request_brings_its_page_back_at_another_time(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        (page_id,) = find(frontier, "page")
        visit_all(frontier, NOW)
        assert frontier.renew(page_id, b"", RequestFacts(shelf_life=DAY))
        assert record(frontier, page_id)[1].due == int(NOW + 0.9 * DAY)
        assert frontier.totals().due == 1
    with opened(tmp_path, NOW + DAY) as frontier:
        assert visit_all(frontier, NOW + DAY) == ["page"]


# -- what a page goes back to -----------------------------------------------------------------------------

TRIED = Outcome(Event.RETRIED, visit_payload=b"tried")


ENDS = (
    *(Event.FETCHED, Event.REDIRECTED, Event.GONE, Event.FAILED, Event.EXCLUDED),
    *(Event.RETRIED, Event.EXPIRED, Event.LOST),
)


def tried(directory: Path, days: int) -> tuple[float, PageId]:
    """A page that is tried once more, at its first visit or when it comes back after so many *days*."""
    now = NOW + days * DAY
    with opened(directory) as frontier:
        (page_id,) = find(frontier, "page", payload=b"own")
        if days:
            visit_all(frontier, NOW)
    with opened(directory, now) as frontier:
        assert visit(frontier, now, TRIED) is not None
    return now, page_id


@pytest.mark.parametrize("days", [0, 8], ids=["first visit", "revisit"])
@pytest.mark.parametrize("event", [Event.POSTPONED, *ENDS])
def test_a_page_that_has_ended_has_nothing_of_its_tries(tmp_path: Path, event: Event, days: int) -> None:
    """Whatever ends it, a lease too that nobody released after its last attempt."""
    now, page_id = tried(tmp_path, days)
    with opened(tmp_path, now, max_attempts=2) as frontier:
        assert visit(frontier, now, Outcome(event)) is not None
        page = frontier.page(page_id)
        assert page is not None
        assert (page.payload, page.visit_payload) == (b"own", b"tried" if event is Event.POSTPONED else b"")


def test_a_page_that_is_queued_anew_between_two_tries_has_nothing_of_the_first(tmp_path: Path) -> None:
    now, page_id = tried(tmp_path, 8)
    with opened(tmp_path, now) as frontier:
        assert frontier.requeue(page_id, now)
        assert record(frontier, page_id)[0].visit_payload == b""


def test_a_revisit_that_is_put_off_leaves_nothing_of_its_tries(tmp_path: Path) -> None:
    now, page_id = tried(tmp_path, 8)
    with opened(tmp_path, now, None) as frontier:
        assert visit(frontier, now) is None
        assert record(frontier, page_id)[0].visit_payload == b""


def test_a_page_that_another_led_to_has_nothing_of_that_visit_when_it_has_ended(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        (page_id,) = find(frontier, "page", payload=b"own", visit_payload=b"led to")
        assert visit_all(frontier, NOW) == ["page"]
        assert record(frontier, page_id)[0].visit_payload == b""


# -- other settings ---------------------------------------------------------------------------------------


def dues(directory: Path) -> dict[str, float]:
    """When each page is due, in days from now on."""
    with opened(directory, NOW) as frontier:
        pages = (frontier.page(page_id) for page_id in range(frontier.totals().known))
        return {
            page.url.rpartition("/")[2]: round((page.visits.due - NOW) / DAY, 2)
            for page in pages
            if page is not None and page.visits is not None
        }


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pages in a slice."""
    step = RecomputeDue.step
    monkeypatch.setattr(RecomputeDue, "step", lambda anew, limit: step(anew, 2))


@pytest.mark.usefixtures("slowly")
def test_switched_on_all_that_was_read_comes_back(tmp_path: Path) -> None:
    ends = {
        "done": READ,
        "gone": MISSING,
        "moved": Outcome(Event.REDIRECTED, 301),
        "no": Outcome(Event.EXCLUDED),
    }
    with opened(tmp_path, rule=None) as frontier:
        find(frontier, *ends, "queued")
        for _ in ends:
            lease = next_lease(frontier, NOW)
            assert lease is not None
            frontier.release(lease, ends[name_of(lease)], NOW)
    with opened(tmp_path, NOW) as frontier:
        assert frontier.totals().due == 3
    assert dues(tmp_path) == {"done": 6.3, "gone": 6.3, "moved": 25.2}
    with opened(tmp_path, NOW + 7 * DAY) as frontier:
        assert sorted(visit_all(frontier, NOW + 7 * DAY)) == ["done", "gone", "queued"]


@pytest.mark.usefixtures("slowly")
def test_changed_settings_count(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        find(frontier, "page", "news", "hub", "other")
        visit_all(frontier, NOW)
    other = RevisitRule(shelf_life=inf, shelf_lives=(("news", DAY),), hubs=(("/hub", HOUR),))
    with opened(tmp_path, NOW + 2 * DAY, other) as frontier:
        assert frontier.totals().due + frontier.totals().queued_again == 2
        assert visit_all(frontier, NOW + 2 * DAY) == ["hub", "news"]
    with opened(tmp_path, NOW + 2 * DAY) as frontier:
        assert frontier.totals().due == 4
    assert dues(tmp_path) == {"page": 6.3, "news": 8.3, "hub": 8.3, "other": 6.3}


def test_when_the_first_page_is_due_is_as_the_settings_of_now_have_it(tmp_path: Path) -> None:
    """And as its request has, which a seed may renew."""
    with opened(tmp_path) as frontier:
        find(frontier, "page")
        visit_all(frontier, NOW)
        assert frontier.next_due() == int(NOW + 0.9 * 7 * DAY)
    for days in (30.0, inf, 7.0):
        with opened(tmp_path, NOW + DAY, WEEKLY._replace(shelf_life=days * DAY)) as frontier:
            assert frontier.next_due() == (None if days == inf else int(NOW + 0.9 * days * DAY))
            assert visit_all(frontier, NOW + DAY) == []
    with opened(tmp_path, NOW + DAY) as frontier:
        frontier.renew(0, b"", RequestFacts(shelf_life=10 * DAY))
        frontier.commit()
        assert frontier.next_due() == int(NOW + 9 * DAY)


@pytest.mark.usefixtures("slowly")
@pytest.mark.parametrize(
    ("outcome", "visits", "rest"),
    [
        (Outcome(Event.FAILED, 500), 1, DAY / 4),
        (Outcome(Event.FAILED, 500), 3, DAY),
        (Outcome(Event.FAILED, result=Result.CALLBACK_FAILED), 1, DAY / 4),
        (MISSING, 1, DAY / 4),
        (MISSING, 3, 2 * DAY),
    ],
)
def test_with_other_settings_a_page_rests_as_they_say_for_what_went_wrong_lately(
    tmp_path: Path, outcome: Outcome, visits: int, rest: float
) -> None:
    """And no visit is wanted at once, though it was read last so long ago."""
    years, days, now = WEEKLY._replace(shelf_life=360 * DAY), WEEKLY._replace(shelf_life=DAY), NOW
    with opened(tmp_path, rule=years) as frontier:
        (page_id,) = find(frontier, "page")
        visit_all(frontier, NOW)
    for _ in range(visits):
        now += 400 * DAY
        with opened(tmp_path, now, years) as frontier:
            assert visit_all(frontier, now, outcome) == ["page"]
    with opened(tmp_path, now, days) as frontier:
        assert record(frontier, page_id)[1].due == int(now + 0.9 * rest)


def test_the_rest_of_a_page_that_failed_at_once_is_by_other_settings_what_it_would_have_been(
    tmp_path: Path,
) -> None:
    failed, rule = Outcome(Event.FAILED, 500), WEEKLY._replace(shelf_life=DAY)
    with opened(tmp_path) as frontier:
        (page_id,) = find(frontier, "page")
        visit_all(frontier, NOW, failed)
        rest = record(frontier, page_id)[1].due
    for now, its in ((NOW, rule), (NOW + HOUR, WEEKLY)):
        with opened(tmp_path, now, its) as frontier:
            due = record(frontier, page_id)[1].due
    assert due == rest


@pytest.mark.usefixtures("slowly")
def test_the_pass_over_all_pages_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    with opened(tmp_path, rule=None) as frontier:
        find(frontier, *map(str, range(9)))
        visit_all(frontier, NOW)
    for number in range(1, 5):
        frontier = Frontier(Store(tmp_path), NOW, FrontierOptions(revisits=WEEKLY))
        assert not frontier.load(NOW)
        assert frontier.is_refilling, "the crawl does not end meanwhile"
        assert frontier.totals().due == 2 * number
        frontier.close()
    with opened(tmp_path) as frontier:
        assert frontier.totals().due == 9


@pytest.mark.usefixtures("slowly")
def test_nothing_is_looked_at_where_the_settings_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as frontier:
        find(frontier, "page")
        visit_all(frontier, NOW)
    monkeypatch.delattr(RecomputeDue, "step")
    with opened(tmp_path, NOW + DAY):
        pass


# -- damage -----------------------------------------------------------------------------------------------


def damage(directory: Path, name: str) -> None:
    """Two pages come back at some time; do this to their rows."""
    with opened(directory) as frontier:
        find(frontier, "one", "two")
        visit_all(frontier, NOW)
    with plyvel.DB(str(directory / "leveldb")) as db:
        key, value = next(iter(db.iterator(prefix=keys.DUE)))
        if name == "lost":
            db.delete(key)
        elif name == "doubled":
            db.put(due_key(int(NOW), 0), value)
        elif name == "nowhere":
            db.put(due_key(int(NOW), 99), value)
        elif name == "torn":
            db.put(key[:-1], value)
        elif name == "value":
            db.put(key, b"?")
        elif name == "rates":
            db.put(keys.rates_key("a.example"), b"?")
        elif name == "counts":
            counts = decode_counts(db.get(keys.COUNTS))
            counts.due, counts.queued_again = 7, 9
            db.put(keys.COUNTS, encode_counts(counts))


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
    ],
)
def test_a_check_finds_and_mends_damaged_due_rows(tmp_path: Path, name: str, found: list[str]) -> None:
    damage(tmp_path, name)
    for is_mended in (False, True):
        store = Store(tmp_path)
        findings = list(Check(store, None, NOW, repair=is_mended).run())
        assert [(each.kind, each.is_mended) for each in findings] == [(kind, is_mended) for kind in found]
        store.close()
    with opened(tmp_path, NOW + 8 * DAY) as frontier:
        assert sorted(visit_all(frontier, NOW + 8 * DAY)) == ["one", "two"]


def test_a_check_mends_the_lost_queue_row_of_a_page_that_came_back(tmp_path: Path) -> None:
    later = NOW + 8 * DAY
    with opened(tmp_path) as frontier:
        find(frontier, "page")
        visit_all(frontier, NOW)
    with opened(tmp_path, later) as frontier:
        lease = next_lease(frontier, later)
        assert lease is not None
    with plyvel.DB(str(tmp_path / "leveldb")) as db:
        for key in list(db.iterator(prefix=keys.QUEUE, include_value=False)):
            db.delete(key)
    store = Store(tmp_path)
    assert [each.kind for each in Check(store, None, later, repair=True).run()] == ["missing row"]
    store.close()
    with opened(tmp_path, later) as frontier:
        assert visit_all(frontier, later) == ["page"]


# -- hints -----------------------------------------------------------------------------------------------


def test_a_page_that_is_said_to_have_changed_is_due_in_this_run(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        told, other = find(frontier, "told", "other")
        visit_all(frontier, NOW)
        assert not frontier.make_due(told, NOW + 60), "it was visited in this run"
    with opened(tmp_path, NOW + DAY) as frontier:
        assert frontier.make_due(told, NOW + DAY)
        assert not frontier.make_due(told, NOW + DAY), "it is due already"
        assert frontier.totals().due == 2
        assert visit_all(frontier, NOW + DAY + 60, UNMODIFIED) == ["told"]
        assert record(frontier, told)[1].visits == 2
        assert record(frontier, other)[1].visits == 1
    with opened(tmp_path, NOW + 6.5 * DAY) as frontier:
        assert visit_all(frontier, NOW + 6.5 * DAY) == ["other"]


def test_what_is_learnt_of_a_page_under_way_stands_when_its_visit_ends(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        (page_id,) = find(frontier, "page", lastmod=LISTED)
        lease = next_lease(frontier, NOW)
        assert lease is not None
        frontier.note_lastmod(page_id, TOLD)
        assert not frontier.make_due(page_id, NOW), "its visit is under way"
        assert not frontier.renew(page_id, b"new", RequestFacts(is_seed=True)), "this visit is not made by it"
        frontier.release(lease, READ, NOW)
        page = record(frontier, page_id)[0]
        assert (page.lastmod, page.payload, page.facts.is_seed) == (TOLD, b"new", True)
    with opened(tmp_path, NOW + 8 * DAY) as frontier:
        lease = next_lease(frontier, NOW + 8 * DAY)
        assert lease is not None
        frontier.note_lastmod(page_id, LISTED)
        frontier.release(lease, UNMODIFIED, NOW + 8 * DAY)
        assert frontier.renew(page_id, b"newer")
        page = record(frontier, page_id)[0]
        assert (page.lastmod, page.payload) == (LISTED, b"newer"), "a seed's request knows no lastmod"


def test_while_the_crawl_waits_what_changed_is_due_now(tmp_path: Path) -> None:
    with opened(tmp_path, rule=WEEKLY._replace(horizon=inf)) as frontier:
        (told,) = find(frontier, "told")
        visit_all(frontier, NOW)
        assert visit_all(frontier, NOW + DAY) == []
        assert frontier.make_due(told, NOW + DAY)
        assert visit_all(frontier, NOW + DAY) == ["told"]


def test_what_does_not_come_back_is_not_hastened(tmp_path: Path) -> None:
    with opened(tmp_path, rule=None) as frontier:
        done, _ = find(frontier, "done", "queued")
        visit(frontier, NOW)
        assert not frontier.make_due(done, NOW + DAY)
    with opened(tmp_path, NOW + DAY) as frontier:
        (queued,) = find(frontier, "new", now=NOW + DAY)
        assert not frontier.make_due(queued, NOW + DAY)
        assert not frontier.make_due(999, NOW + DAY)


def test_a_sitemap_is_a_hub_with_a_span_of_its_own_once_it_was_read(tmp_path: Path) -> None:
    of_sitemap = RequestFacts(is_sitemap=True)
    with opened(tmp_path) as frontier:
        find(frontier, "sitemap", "guess", facts=of_sitemap)
        find(frontier, "asked", facts=of_sitemap._replace(shelf_life=HOUR))
        assert visit(frontier, NOW) is not None
        assert visit(frontier, NOW, MISSING) is not None
        visit_all(frontier, NOW)
    with opened(tmp_path, NOW + 3600) as frontier:
        assert visit_all(frontier, NOW + 3600, UNMODIFIED) == ["asked"]
    with opened(tmp_path, NOW + DAY) as frontier:
        assert visit(frontier, NOW + DAY, UNMODIFIED)[0] == "sitemap"  # type: ignore[index]
        assert "guess" not in visit_all(frontier, NOW + DAY, UNMODIFIED)


LISTED, TOLD = 1, 2


def test_what_was_told_of_a_page_counts_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as frontier:
        (told,) = find(frontier, "told", lastmod=LISTED)
        visit_all(frontier, NOW)
    with opened(tmp_path, NOW + DAY) as frontier:
        assert frontier.make_due(told, NOW + DAY)
        assert frontier.sitemaps_of("http://a.example").hints == ()
    with opened(tmp_path, NOW + 2 * DAY) as frontier:
        assert record(frontier, told)[1].is_hinted
        assert visit_all(frontier, NOW + 2 * DAY, changed(b"dig-2")) == ["told"]
        assert not record(frontier, told)[1].is_hinted
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
        assert visit_all(frontier, NOW + 2 * DAY) == []
        (elsewhere,) = find(frontier, "page", host="b.example", lastmod=LISTED, now=NOW + 2 * DAY)
        visit_all(frontier, NOW + 2 * DAY)
    with opened(tmp_path, NOW + 3 * DAY) as frontier:
        assert frontier.make_due(elsewhere, NOW + 3 * DAY), "another site"


def test_where_a_trusted_site_tells_nothing_its_pages_are_left_alone_for_longer(tmp_path: Path) -> None:
    """By "adaptive" silence is news, and what is told is asked for at once."""
    now, rule = NOW, ADAPTIVE
    spans: dict[str, list[int]] = {"told": [], "untold": []}
    with opened(tmp_path, now, rule) as frontier:
        ids = find(frontier, *[f"told{number}" for number in range(20)], host="told.example", lastmod=LISTED)
        find(frontier, *[f"untold{number}" for number in range(20)], host="untold.example")
        versions: Counter[str] = Counter()
        while now < NOW + 150 * DAY:
            while (lease := next_lease(frontier, now)) is not None:
                page_id, host = lease.page_id, lease.host.partition(".")[0]
                digest = versions[f"{host}{page_id % 20}"].to_bytes(4, "big") + b"."
                frontier.release(lease, changed(digest), now)
                _, visits = record(frontier, page_id)
                if now > NOW + 100 * DAY:
                    spans[host].append(visits.due - visits.last)
            now += DAY / 2
            number = int((now - NOW) / DAY * 2)
            if number % 2:  # each of both hosts has a page that changes, every tenth day or so
                each = number // 2 % 20
                versions[f"told{ids[each] % 20}"] += 1
                versions[f"untold{ids[each] % 20}"] += 1
                frontier.make_due(ids[each], now)
    assert (
        sorted(spans["told"])[len(spans["told"]) // 2]
        > 1.5 * sorted(spans["untold"])[len(spans["untold"]) // 2]
    )


# -- what can be afforded -----------------------------------------------------------------------------------


def wanted(directory: Path, delay: float, step: float, days: int, run: float = 1.0) -> dict[str, float]:
    """Visits a day that 40 pages of a slow host ask for together, and 40 of another one, after so many days,
    of each of which the crawl ran a share."""
    politeness = {"slow.example": Politeness(delay, 1)}
    rule = ADAPTIVE if run == 1.0 else ADAPTIVE._replace(horizon=0.0)
    found: Counter[str] = Counter()
    for day in range(days) if run < 1.0 else [0]:
        now = NOW + day * DAY
        end = now + (days if run == 1.0 else run) * DAY
        found.clear()
        with opened(directory, now, rule, politeness=politeness) as frontier:
            for host in ("slow.example", "other.example"):
                find(frontier, *map(str, range(40)), host=host, now=now)
            while now < end:
                while (lease := next_lease(frontier, now)) is not None:
                    offset = crc32(lease.page.url.encode()) % 97 / 97
                    version = int((now - NOW) / DAY / 8 + offset)
                    frontier.release(lease, changed(version.to_bytes(4, "big") + b"."), now)
                now += step
            for page_id in range(2 * 40):
                page = frontier.page(page_id)
                if page is not None and page.visits is not None and page.visits.due > QUEUED_AGAIN:
                    found[page.url.split("/")[2]] += DAY / (page.visits.due - page.visits.last)
    return found


def test_a_host_that_may_not_be_asked_that_often_is_planned_for_what_it_allows(tmp_path: Path) -> None:
    found = wanted(tmp_path, DAY / 2, DAY / 4, 120)
    assert found["slow.example"] == pytest.approx(2, rel=0.5), "two visits a day"
    assert found["other.example"] > 4


def test_while_the_crawl_stands_still_nobody_is_asked_and_that_counts(tmp_path: Path) -> None:
    found = wanted(tmp_path, HOUR, HOUR / 2, 90, run=1 / 12)
    assert found["slow.example"] == pytest.approx(2, rel=0.5), "two hours a day"
    assert found["other.example"] > 4


# -- robots.txt ----------------------------------------------------------------------------------------------

SITE = "http://a.example"
FORBIDDEN = Outcome(Event.EXCLUDED, reason=f"robots.txt of {SITE}: disallow: /")


def robots(body: bytes) -> RobotsCopy:
    return RobotsCopy(Verdict.PARSE, 200, NOW, NOW + DAY, body=body)


def forbid(directory: Path, count: int) -> list[str]:
    """Pages that were read, and as many that nobody saw: robots.txt forbids all of them."""
    names = [f"read{number}" for number in range(count)]
    with opened(directory, NOW - 8 * DAY) as frontier:
        find(frontier, *names, now=NOW - 8 * DAY)
        visit_all(frontier, NOW - 8 * DAY)
    with opened(directory) as frontier:
        frontier.keep_robots_copy(SITE, robots(b"old"))
        find(frontier, *[name.replace("read", "new") for name in names])
        while (lease := next_lease(frontier, NOW)) is not None:
            frontier.release(lease, FORBIDDEN, NOW)
    return sorted([*names, *[name.replace("read", "new") for name in names]])


def test_forbidden_pages_come_back_when_their_robots_txt_changes(tmp_path: Path) -> None:
    names = forbid(tmp_path, 3)
    with opened(tmp_path, NOW + 20 * DAY) as frontier:
        assert visit_all(frontier, NOW + 20 * DAY, FORBIDDEN) == ["new0", "read0"], "each was the first once"
    with opened(tmp_path, NOW + 30 * DAY) as frontier:
        assert visit_all(frontier, NOW + 30 * DAY, FORBIDDEN) == ["read0"], "somebody has to ask for the file"
        frontier.keep_robots_copy(SITE, robots(b"old")._replace(fetched=NOW + 30 * DAY, status=304))
        assert not frontier.is_refilling
        assert visit_all(frontier, NOW + 30 * DAY, FORBIDDEN) == []
    with opened(tmp_path, NOW + 31 * DAY) as frontier:
        frontier.keep_robots_copy("http://b.example", robots(b"new"))
        frontier.keep_robots_copy(SITE, robots(b"new"))
        assert frontier.is_refilling
        assert sorted(visit_all(frontier, NOW + 31 * DAY)) == names
        assert frontier.totals().states["done"] == len(names)
        assert frontier.totals().states["excluded"] == 0
        new = record(frontier, 3)[1]
        assert (new.visits, new.first) == (1, int(NOW + 31 * DAY)), "it was never seen before"
        frontier.keep_robots_copy(SITE, robots(b"old"))
        assert visit_all(frontier, NOW + 31 * DAY) == []


def test_a_changed_robots_txt_counts_after_a_restart_and_costs_a_handful_at_a_time(tmp_path: Path) -> None:
    names = forbid(tmp_path, 100)
    with opened(tmp_path, NOW + DAY) as frontier:
        frontier.keep_robots_copy(SITE, robots(b"new"))
    with opened(tmp_path, NOW + 2 * DAY) as frontier:
        seen, most, before = [], 0, frontier.totals().due + frontier.totals().queued_again
        while (lease := frontier.lease(NOW + 2 * DAY)) is not None or frontier.is_refilling:
            waiting = frontier.totals().due + frontier.totals().queued_again
            most, before = max(most, waiting - before), waiting
            if lease is not None:
                seen.append(name_of(lease))
                frontier.release(lease, FORBIDDEN, NOW + 2 * DAY)
        assert sorted(seen) == names
        assert 0 < most <= 64


def test_a_forbidden_page_that_is_forgotten_or_queued_anew_does_not_come_back(tmp_path: Path) -> None:
    forbid(tmp_path, 2)
    with opened(tmp_path, NOW + DAY) as frontier:
        assert frontier.forget(0, lambda page: link(page.url.rpartition("/")[2]).fingerprint, NOW + DAY)
        assert frontier.requeue(2, NOW + DAY)
        assert visit_all(frontier, NOW + DAY) == ["new0"]
        frontier.keep_robots_copy(SITE, robots(b"new"))
        assert sorted(visit_all(frontier, NOW + DAY)) == ["new1", "read1"]


def test_a_forbidden_page_that_waits_for_its_visit_can_be_forgotten(tmp_path: Path) -> None:
    forbid(tmp_path, 1)
    later = NOW + 20 * DAY
    with opened(tmp_path, later) as frontier:
        lease = next_lease(frontier, later)
        assert lease is not None
        frontier.release(lease, Outcome(Event.POSTPONED), later)
        page_id = lease.page_id
        assert frontier.forget(page_id, lambda page: link(page.url.rpartition("/")[2]).fingerprint, later)


def test_forbidden_pages_are_found_when_coming_back_is_switched_on(tmp_path: Path) -> None:
    with opened(tmp_path, rule=None) as frontier:
        find(frontier, "one", "two")
        while (lease := next_lease(frontier, NOW)) is not None:
            frontier.release(lease, FORBIDDEN, NOW)
        frontier.keep_robots_copy(SITE, robots(b"old"))
    with opened(tmp_path, NOW + DAY) as frontier:
        assert visit_all(frontier, NOW + DAY) == []
        frontier.keep_robots_copy(SITE, robots(b"new"))
        assert visit_all(frontier, NOW + DAY) == ["one", "two"]


def test_a_page_that_is_allowed_again_and_gives_an_error_is_tried_again(tmp_path: Path) -> None:
    forbid(tmp_path, 1)
    with opened(tmp_path, NOW + DAY) as frontier:
        frontier.keep_robots_copy(SITE, robots(b"new"))
        assert len(visit_all(frontier, NOW + DAY, Outcome(Event.FAILED, 500, result=Result.ERROR))) == 2
    with opened(tmp_path, NOW + 4 * DAY) as frontier:
        assert len(visit_all(frontier, NOW + 4 * DAY)) == 2


def test_a_check_drops_rows_of_pages_that_are_not_forbidden(tmp_path: Path) -> None:
    forbid(tmp_path, 1)
    with plyvel.DB(str(tmp_path / "leveldb")) as db:
        db.put(keys.forbidden_prefix(SITE) + keys.id_bytes(99), b"")
    store = Store(tmp_path)
    assert [each.kind for each in Check(store, None, NOW, repair=True).run()] == ["stray row"]
    assert list(Check(store, None, NOW).run()) == []
    store.close()


# -- due rows made anew, and what asks for a page meanwhile ------------------------------------------------

FORBIDDEN_50 = Outcome(
    Event.EXCLUDED, reason=reasons.FORBIDDEN(origin="http://a.example", rule="Disallow: /private/")
)
FORBIDS = RobotsCopy(Verdict.PARSE, 200, NOW, NOW + DAY, body=b"User-agent: *\nDisallow: /private/\n")
ALLOWS = RobotsCopy(Verdict.PARSE, 200, NOW + DAY, NOW + 2 * DAY, body=b"User-agent: *\nDisallow:\n")
SHORTER = WEEKLY._replace(shelf_life=6 * DAY)


@pytest.mark.parametrize("before", [None, WEEKLY])
def test_a_robots_txt_that_changes_while_due_rows_are_made_has_all_its_pages_judged(
    tmp_path: Path, before: RevisitRule | None
) -> None:
    """Those that have no row yet, and those whose row is about to be made anew."""
    with opened(tmp_path, NOW, rule=before) as frontier:
        frontier.keep_robots_copy("http://a.example", FORBIDS)
        find(frontier, *(f"private/{number}" for number in range(50)))
        visit_all(frontier, NOW, FORBIDDEN_50)
        find(frontier, *(f"page/{number}" for number in range(50, 100)))
        visit_all(frontier, NOW)
    now = NOW + DAY
    frontier = Frontier(Store(tmp_path), now, FrontierOptions(revisits=SHORTER))
    frontier.load(now, 1)
    frontier.keep_robots_copy("http://a.example", ALLOWS)
    while not frontier.load(now, 5):
        assert frontier.lease(now) is None
    assert sorted(map(int, visit_all(frontier, now))) == list(range(50))
    frontier.close()


def test_what_a_sitemap_said_while_due_rows_are_made_anew_holds(tmp_path: Path) -> None:
    with opened(tmp_path, NOW) as frontier:
        find(frontier, *(f"page/{number}" for number in range(100)))
        visit_all(frontier, NOW)
    now = NOW + DAY
    frontier = Frontier(Store(tmp_path), now, FrontierOptions(revisits=SHORTER))
    frontier.load(now, 1)
    assert all(frontier.make_due(number, now) for number in range(100))
    while not frontier.load(now, 1):
        pass
    assert sorted(map(int, visit_all(frontier, now))) == list(range(100))
    frontier.close()


def test_a_pass_that_is_interrupted_before_it_began_looks_at_all_pages(tmp_path: Path) -> None:
    with opened(tmp_path, NOW, rule=None) as frontier:
        find(frontier, "0", "1", "2")
        visit_all(frontier, NOW)
    now = NOW + 8 * DAY
    Frontier(Store(tmp_path), now, FrontierOptions(revisits=WEEKLY)).close()
    with opened(tmp_path, now) as frontier:
        assert sorted(visit_all(frontier, now)) == ["0", "1", "2"]
