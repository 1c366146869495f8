"""Where two parts of the frontier meet that seldom do. Each of these stories once ended otherwise."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from openings import NOW, domain_of, let_go, opened, page  # noqa: F401 - `let_go` works by being here

from scrapy_frontier.core import reasons
from scrapy_frontier.core.admin.check import Check
from scrapy_frontier.core.admin.export import export_lines, import_lines
from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Lease, Outcome
from scrapy_frontier.core.hosts.budgets import Limits
from scrapy_frontier.core.hosts.host import Politeness
from scrapy_frontier.core.ranking import graph
from scrapy_frontier.core.ranking.default_scorer import Mixed
from scrapy_frontier.core.revisits.plans import RevisitRule
from scrapy_frontier.core.revisits.policy import Fetched, Result
from scrapy_frontier.core.store import keys, queue_keys
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import RobotsCopy, Verdict
from scrapy_frontier.core.transitions import Event

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy_frontier.core.store.records import Page

A, B, C = "a.example.org", "b.example.org", "c.example.org"
READ = Outcome(Event.FETCHED, 200)
SOON = RevisitRule(shelf_life=10.0, horizon=10.0)
LATER = NOW + 1000


def fingerprint_of(found: Page) -> bytes:
    return found.url.encode().rjust(40, b".")


def a_frontier(directory: Path, now: float = NOW, is_loaded: bool = True, **options: Any) -> Frontier:
    opened.append(Store(directory))
    frontier = Frontier(opened[-1], now, FrontierOptions(domain_of=domain_of, **options))
    while is_loaded and not frontier.load(now):
        pass
    return frontier


def take(frontier: Frontier, now: float = NOW) -> Lease:
    lease = frontier.lease(now)
    assert lease is not None
    return lease


def drain(frontier: Frontier, now: float = NOW) -> set[int]:
    found = set()
    while (lease := frontier.lease(now)) is not None or frontier.is_refilling:
        if lease is not None:
            found.add(lease.page_id)
            frontier.release(lease, READ, now)
    return found


def assert_sound(frontier: Frontier, now: float = NOW) -> None:
    frontier.commit()
    assert list(Check(opened[-1], fingerprint_of, now).run()) == []


# -- edits, and pages that wait for a budget or are under way ---------------------------------------------


def one_put_aside(directory: Path) -> Frontier:
    """Pages 0 and 1, of which the second waits for a budget of an earlier run; there is none now."""
    frontier = a_frontier(directory, limits=Limits(host_pages=1))
    frontier.discover([page(0, A), page(1, A)], NOW)
    frontier.close()
    return a_frontier(directory, max_uncommitted_pages=16)


def test_a_page_that_waits_for_a_budget_is_queued_by_hand_in_a_run_without_budgets(tmp_path: Path) -> None:
    frontier = one_put_aside(tmp_path)
    assert frontier.requeue(1, NOW)
    assert drain(frontier) == {0, 1}
    assert_sound(frontier)


def test_of_a_host_that_is_forgotten_a_page_on_its_further_visit_stays(tmp_path: Path) -> None:
    frontier = a_frontier(tmp_path, revisits=SOON)
    frontier.discover([page(0, A)], NOW)
    frontier.release(take(frontier), READ, NOW)
    frontier.close()
    frontier = a_frontier(tmp_path, LATER, revisits=SOON)
    assert take(frontier, LATER).comes_back
    assert list(frontier.forget_host(A, fingerprint_of, LATER)) == [0]
    assert frontier.page(0) is not None
    assert_sound(frontier, LATER)


# -- budgets ---------------------------------------------------------------------------------------------


def test_a_page_that_was_retried_is_over_a_spent_budget_behind_further_visits_too(tmp_path: Path) -> None:
    frontier = a_frontier(tmp_path)
    frontier.discover([page(0, A, priority=5), page(1, A, priority=4)], NOW)
    frontier.release(take(frontier), READ, NOW)
    frontier.release(take(frontier), Outcome(Event.RETRIED, 500, delay=10.0), NOW)
    frontier.discover([page(0, A, priority=9, again=True) for _ in range(8)], NOW)
    frontier.close()
    frontier = a_frontier(tmp_path, NOW + 20, limits=Limits(host_pages=1))  # one was fetched
    visits = drain(frontier, NOW + 20)
    assert len(visits) == 8
    assert min(visits) >= keys.FIRST_VISIT
    assert_sound(frontier, NOW + 20)


# -- the clocks of hosts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_killed", [False, True])
def test_the_next_run_knows_the_last_visit_of_a_host_that_left_the_memory_between(
    tmp_path: Path, is_killed: bool
) -> None:
    frontier = a_frontier(tmp_path)
    if is_killed:
        opened.pop().close()
        frontier = a_frontier(tmp_path)
    frontier.discover([page(0, A)], NOW)
    frontier.release(take(frontier, NOW + 500), READ, NOW + 500)
    assert not frontier.hosts
    frontier.discover([page(1, A)], NOW + 501)
    frontier.close()
    frontier = a_frontier(tmp_path, NOW + 502, default_politeness=Politeness(60.0, 1))
    assert frontier.lease(NOW + 502) is None
    assert frontier.lease(NOW + 560) is not None


# -- scores, and visits beside a queued page ---------------------------------------------------------------


@pytest.mark.parametrize("event", [Event.FETCHED, Event.FAILED])
def test_a_visit_beside_a_queued_page_leaves_its_place_to_the_rankings(tmp_path: Path, event: Event) -> None:
    frontier = a_frontier(tmp_path, scorer=Mixed())
    frontier.discover([page(0, A)], NOW)
    frontier.discover([replace(page(0, A), again=True, priority=9)], NOW)
    visit = take(frontier)
    assert visit.page_id >= keys.FIRST_VISIT
    frontier.identify(visit, page(0, A).fingerprint)
    frontier.release(visit, Outcome(event, 200, has_links=True), NOW)
    before = bucket_of_first(frontier)
    frontier.discover([page(number, f"hub{number}.org", priority=9) for number in range(1, 31)], NOW)
    hubs = [take(frontier) for _ in range(30)]
    for hub in hubs:
        frontier.discover([page(0, A)], NOW, hub)
        frontier.release(hub, READ._replace(has_links=True), NOW)
    assert bucket_of_first(frontier) > before, "thirty pages link to it"
    assert take(frontier).page_id == 0
    assert_sound(frontier)


def bucket_of_first(frontier: Frontier) -> int:
    frontier.commit()
    rows = opened[-1].keys_of(keys.QUEUE, b"", 1000)
    sort_keys = [row.partition(b"\0")[2] for row in rows]
    (its,) = (sort_key for sort_key in sort_keys if queue_keys.sort_key_id(sort_key) == 0)
    return queue_keys.sort_key_bucket(its)


def test_links_of_a_page_that_is_forgotten_while_links_are_packed_are_forgotten_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "_LEAST_LOOSE", 1)  # rows, from which on they are packed
    frontier = a_frontier(tmp_path)
    frontier.discover([page(0, A), page(1, A)], NOW)
    lease = take(frontier)
    frontier.discover([page(1, A)], NOW, lease)
    frontier.release(lease, READ._replace(has_links=True), NOW)
    run = frontier.rank_now()
    computed = list(run.compute(lambda: False, lambda: 0.0))
    assert frontier.forget(0, fingerprint_of, NOW)
    list(frontier.rank_steps(run, computed, lambda: NOW))
    run.close()
    assert graph.find_row(0, opened[-1].get) == []
    assert_sound(frontier)


# -- pages that come back ----------------------------------------------------------------------------------


def a_copy(verdict: Verdict) -> RobotsCopy:
    return RobotsCopy(verdict, 200, NOW, NOW + 9e9, body=b"User-agent: *\nDisallow: /\n")


def forbid(frontier: Frontier, lease: Lease, now: float) -> None:
    reason = reasons.FORBIDDEN(origin=f"http://{lease.host}", rule="Disallow: /")
    result = Result.FORBIDDEN if lease.comes_back else None
    frontier.release(lease, Outcome(Event.EXCLUDED, reason=reason, result=result), now)


def test_a_page_that_came_back_and_whose_row_cannot_be_read_waits_no_more(tmp_path: Path) -> None:
    frontier = a_frontier(tmp_path, revisits=SOON)
    frontier.discover([page(0, A), page(1, A)], NOW)
    for _ in range(2):
        frontier.release(take(frontier), READ, NOW)
    frontier.close()
    frontier = a_frontier(tmp_path, LATER, revisits=SOON)
    frontier._revisits.queue.wake(LATER)  # both stand in the queue
    opened[-1].write({keys.page_key(0): b"\xff"})
    assert drain(frontier, LATER) == {1}
    assert frontier.news().set_aside == (0,)
    frontier.commit()
    assert frontier._batch.counts.queued_again == frontier.pending == 0
    assert "unreadable row" in [finding.kind for finding in Check(opened[-1], fingerprint_of, LATER).run()]


# -- rows that cannot be read, and what an export carries --------------------------------------------------


@pytest.mark.parametrize("where", ["in a backoff", "put aside", "come back"])
def test_a_host_whose_row_cannot_be_read_knows_of_all_its_pages(tmp_path: Path, where: str) -> None:
    budget = Limits(host_pending=1) if where == "put aside" else Limits()
    frontier = a_frontier(tmp_path, limits=budget, revisits=SOON)
    frontier.discover([page(number, A) for number in range(3)], NOW)
    event = Event.RETRIED if where == "in a backoff" else Event.FETCHED
    for _ in range(1 if where == "put aside" else 3):
        frontier.release(take(frontier), Outcome(event, 200, delay=10.0), NOW)
    frontier.close()
    frontier = a_frontier(tmp_path, LATER, limits=budget, revisits=SOON)
    frontier._revisits.queue.wake(LATER)
    frontier.close()
    store = Store(tmp_path)
    store.write({keys.host_key(A): b"?"})
    store.close()
    frontier = a_frontier(tmp_path, LATER, limits=budget, revisits=SOON)
    while (lease := frontier.lease(LATER)) is not None or frontier.is_refilling:
        if lease is not None:
            frontier.release(lease, Outcome(Event.GONE, 404), LATER)
    assert frontier.totals().states["queued"] == 0
    frontier.commit()


def test_an_export_carries_what_was_learnt(tmp_path: Path) -> None:
    rule = RevisitRule(policy="adaptive", shelf_life=100.0, horizon=1e9)
    frontier = a_frontier(tmp_path / "old", revisits=rule)
    frontier.keep_robots_copy(f"http://{A}", a_copy(Verdict.PARSE))
    frontier.discover([page(0, A), page(1, B)], NOW)
    for lease in (take(frontier), take(frontier)):
        if lease.host == A:
            forbid(frontier, lease, NOW)
        else:
            frontier.release(lease, READ._replace(fetched=Fetched(digest=b"first")), NOW)
    frontier.keep_robots_copy(f"http://{A}", a_copy(Verdict.ALLOW_ALL))
    frontier.close()
    old = Store(tmp_path / "old")
    learnt = {keys.rates_key(B): b"\1" * 16, keys.RATES_OF_ALL: b"\2" * 48, keys.OPENED: b"\3" * 24}
    old.write(learnt)
    lines = [json.loads(json.dumps(line)) for line in export_lines(old, NOW)]
    old.close()
    new = Store(tmp_path / "new")
    import_lines(new, lines, fingerprint_of, NOW)
    assert {key: new.get(key) for key in learnt} == learnt
    new.close()
