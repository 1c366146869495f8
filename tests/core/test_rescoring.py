"""A frontier with a scorer: the link graph in the store, and queue rows that follow the scores."""

from __future__ import annotations

import math
import random
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from answers import ids, release, see
from openings import let_go, opened  # noqa: F401 - `let_go` works by being here
from scrapy.utils.misc import load_object

from scrapy_frontier.core.admin import facts
from scrapy_frontier.core.admin.check import Check
from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link
from scrapy_frontier.core.hosts import hosts as hosts_module
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.pages.scores import RankRun
from scrapy_frontier.core.ranking.graph import find_row
from scrapy_frontier.core.ranking.pagerank import Ranking
from scrapy_frontier.core.store import keys, queue_keys, records
from scrapy_frontier.core.store.keys import LINK_ROW, SEGMENT_ROW
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.link_rows import NOFOLLOW, REDIRECT, Edge
from scrapy_frontier.core.transitions import Event
from scrapy_frontier.settings import SCORERS

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy_frontier.core.pages.leases import Lease

NOW = 1_700_000_000.0
FETCHED = Outcome(Event.FETCHED, 200)


def start(directory: Path, scorer: str | None = "cash", now: float = NOW, **options: Any) -> Frontier:
    opened.append(Store(directory))
    found = None if scorer is None else load_object(SCORERS[scorer])()
    frontier = Frontier(opened[-1], now, FrontierOptions(scorer=found, **options))
    while not frontier.load(now):
        pass
    return frontier


def kill(frontier: Frontier) -> None:
    frontier._store.close()


def link(name: str, parent: int | None = 0, host: str = "a.example", **kept: object) -> Link:
    fingerprint = name.encode().rjust(20, b".")
    return Link(fingerprint, f"http://{host}/{name}", host, parent=parent, **kept)  # type: ignore[arg-type]


def find(frontier: Frontier, *names: str) -> list[int]:
    found = [frontier.find(link(name).fingerprint) for name in names]
    assert None not in found
    return [page_id for page_id in found if page_id is not None]


def take(frontier: Frontier) -> Lease:
    lease = frontier.lease(NOW)
    assert lease is not None
    return lease


def read(frontier: Frontier, *names: str, flags: int = 0) -> str:
    """Fetch the best page, which links *names*; its own."""
    lease = take(frontier)
    frontier.discover([link(name, lease.page_id) for name in names], NOW)
    edges = [Edge(page_id, flags) for page_id in find(frontier, *names)]
    release(frontier, lease, FETCHED, NOW, edges)
    return lease.page.url.rpartition("/")[2]


def drain(frontier: Frontier) -> list[str]:
    found = []
    while (lease := frontier.lease(NOW)) is not None:
        found.append(lease.page.url.rpartition("/")[2])
        frontier.release(lease, FETCHED, NOW)
    return found


def rank(frontier: Frontier, rows: int = 7) -> RankRun:
    run = frontier.rank_now()
    for _ in frontier.rank_steps(run, run.compute(bool, lambda: 0.0), lambda: NOW, rows):
        pass
    run.close()
    return run


def adopt(frontier: Frontier, scores: list[float], rows: int) -> None:
    """Have the rows follow these scores of all pages."""
    run = RankRun(opened[-1], len(scores), None)
    run.ranking = Ranking(np.array(scores), 1, 0.0, converged=True)
    run.prepared = np.array(scores, np.float32)
    for _ in frontier.rank_steps(run, [None], lambda: NOW, rows):
        pass
    run.close()


# -- links -------------------------------------------------------------------------------------------------


def test_another_visit_replaces_the_links_and_none_are_a_row_too(tmp_path: Path) -> None:
    frontier = start(tmp_path, None)
    frontier.discover([link("seed", None)], NOW)
    read(frontier, "one")
    frontier.discover([link("seed", None, again=True, priority=1)], NOW)
    lease = take(frontier)
    assert lease.page_id >= keys.FIRST_VISIT
    frontier.bind_lease(lease, link("seed").fingerprint)
    release(frontier, lease, FETCHED, NOW, [])
    assert find_row(0, frontier._batch.get) == []
    assert dict(frontier._store.scan(LINK_ROW)) == {LINK_ROW + keys.id_bytes(0): b""}


def test_a_redirect_hands_all_it_has_to_its_target(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    frontier.discover([link("seed", None)], NOW)
    lease = take(frontier)
    frontier.discover([link("target", 0)], NOW)
    outcome = Outcome(Event.REDIRECTED, 301, "led to target", target=1)
    release(frontier, lease, outcome, NOW, [Edge(1, REDIRECT)])
    assert find_row(0, frontier._batch.get) == [Edge(1, REDIRECT)]
    assert queue(frontier) == {1: pytest.approx(0.85, rel=1e-3)}


def queue(frontier: Frontier) -> dict[int, float]:
    """The score of each page in a queue, by its row."""
    sort_keys = [key.rpartition(b".example\0")[2] for key, _ in frontier._store.scan(keys.QUEUE)]
    buckets = {
        queue_keys.sort_key_id(sort_key): 0xFFFF - int.from_bytes(sort_key[4:6], "big")
        for sort_key in sort_keys
    }
    return {page_id: 2 ** (bucket / 1024 - 40) for page_id, bucket in buckets.items()}


# -- pages that are only seen ------------------------------------------------------------------------------


def test_what_it_was_paid_while_it_was_only_seen_counts_when_it_is_queued(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    frontier.discover([link("seed", None)], NOW)
    lease = take(frontier)
    see(frontier, [link("out")], NOW)
    frontier.discover([link("in")], NOW)
    release(frontier, lease, FETCHED, NOW, [Edge(1), Edge(1), Edge(2, NOFOLLOW)])
    frontier.discover([link("out")], NOW)
    frontier.commit()
    assert queue(frontier) == {1: pytest.approx(0.85, rel=1e-3), 2: pytest.approx(0, abs=1e-9)}


# -- rows follow the scores --------------------------------------------------------------------------------


def test_pages_come_in_the_order_of_their_scores(tmp_path: Path) -> None:
    """
    ::

        seed -> a, b, c, d      all equal, so a comes first;
        a -> d;  b -> c, d      then d has more than c, c more than nothing
    """
    frontier = start(tmp_path)
    frontier.discover([link("seed", None)], NOW)
    assert read(frontier, "a", "b", "c", "d") == "seed"
    assert read(frontier, "d") == "a"
    assert drain(frontier) == ["d", "b", "c"]


@pytest.mark.parametrize("scorer", ["cash", "mixed"])
def test_the_links_of_a_page_with_very_many_move_with_the_ends_of_others(tmp_path: Path, scorer: str) -> None:
    """One batch of all 4,000 would hold up the event loop for 50 ms."""
    sizes: list[int] = []
    seeds = [link(f"seed{number}", None, f"seed{number}.example") for number in range(20)]
    hosts = [f"h{number}.example" for number in range(4_000)]
    frontier = start(tmp_path, scorer, on_commit=lambda rows: sizes.append(len(rows)))
    frontier.discover(seeds, NOW)
    lease = take(frontier)
    for first in range(0, len(hosts), 100):
        frontier.discover([link(host, None, host) for host in hosts[first : first + 100]], NOW, lease)
    others = [take(frontier) for _ in seeds[1:]]
    frontier.release(lease, FETCHED._replace(has_links=True), NOW)
    assert max(sizes) < 1_000
    for lease in others:
        frontier.release(lease, FETCHED, NOW)
    assert max(sizes) < 1_000
    found = queue(frontier)
    assert len(found) == 4_000
    assert min(found.values()) == max(found.values()) > 1e-4
    assert list(Check(opened[-1], None, NOW).run()) == []


def test_a_page_that_several_others_pay_at_once_moves_once(tmp_path: Path) -> None:
    """More links than move at once: those of two pages wait together."""
    frontier = start(tmp_path)
    frontier.discover([link(f"seed{number}", None, f"seed{number}.example") for number in range(3)], NOW)
    leases = [take(frontier) for _ in range(3)]
    links = [link(f"page{number}") for number in range(400)]
    for lease, its in zip(leases, (links, links[300:], links), strict=True):
        frontier.discover(its, NOW, lease)
    for lease in leases:
        frontier.release(lease, FETCHED._replace(has_links=True), NOW)
    frontier.commit()
    assert list(Check(opened[-1], None, NOW).run()) == []


def test_rows_move_across_the_end_of_what_is_in_memory(tmp_path: Path) -> None:
    """Sixty pages of a host, of which it keeps some sixteen; the last nine become the best."""
    frontier = start(tmp_path)
    names = [f"p{number}" for number in range(60)]
    frontier.discover([link("seed", None), *(link(f"reader{number}", None) for number in range(10))], NOW)
    read(frontier, *names)
    for number in range(9):
        assert read(frontier, names[-1 - number]) == f"reader{number}"
    assert drain(frontier) == ["reader9", *names[-9:], *names[:-9]]


@pytest.mark.parametrize("scorer", ["cash", "pagerank", "hits", "mixed"])
@pytest.mark.parametrize("is_killed", [True, False])
def test_a_restart_changes_nothing_about_the_order(tmp_path: Path, scorer: str, is_killed: bool) -> None:
    def crawl(directory: Path, restarts: bool) -> list[str]:
        frontier = start(directory, scorer)
        frontier.discover([link("seed", None)], NOW)
        read(frontier, *(f"p{number}" for number in range(30)))
        if scorer != "cash":
            rank(frontier)
        for number in range(6):
            read(frontier, f"p{29 - number}", f"p{20 - number}", f"new{number}")
        if restarts:
            kill(frontier) if is_killed else frontier.close()
            frontier = start(directory, scorer)
        found = [read(frontier, "p25", "p28") for _ in range(3)]
        return found + drain(frontier)

    assert crawl(tmp_path / "one", restarts=True) == crawl(tmp_path / "two", restarts=False)


def test_links_that_are_read_while_scores_come_back_count(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    frontier.discover([link("seed", None)], NOW)
    read(frontier, *(f"p{number}" for number in range(30)))
    frontier.close()
    opened.append(Store(tmp_path))
    frontier = Frontier(opened[-1], NOW, FrontierOptions(scorer=load_object(SCORERS["cash"])()))
    frontier.load(NOW, 1)
    assert not frontier.is_loaded
    read(frontier, "p20")
    while not frontier.load(NOW, 1):
        pass
    assert drain(frontier)[0] == "p20"


def test_a_ranking_moves_what_is_queued_a_step_at_a_time(tmp_path: Path) -> None:
    frontier = start(tmp_path, "pagerank")
    names = [f"p{number}" for number in range(40)]
    frontier.discover([link("seed", None)], NOW)
    read(frontier, *names, "hub", "late")
    assert read(frontier, "hub", "late") == "p0"
    lease = take(frontier)
    frontier.release(lease, Outcome(Event.RETRIED, 503, delay=9.0), NOW)
    run = rank(frontier, rows=3)
    assert run.is_adopted
    about = facts.summary(opened[-1:]).ranking
    assert about is not None
    assert (about["moved"], about["pages"]) == (run.moved, 43)
    assert run.moved > 0
    assert list(Check(opened[-1], None, NOW).run()) == []
    first, second, *rest = drain(frontier)
    assert {first, second} | {lease.page.url[-3:]} >= {"hub"}
    assert len(rest) == 38


def test_a_ranking_moves_the_rows_of_many_hosts_in_one_step(tmp_path: Path) -> None:
    """Each host knows its best pages only, and these become the worst of all."""
    frontier = start(tmp_path, "pagerank")
    hosts = [f"h{number}.example" for number in range(30)]
    frontier.discover([link("seed", None)], NOW)
    lease = take(frontier)
    links = [link(f"{host}-p{number}", 0, host) for number in range(40) for host in hosts]
    known = [page_id for page_id in ids(frontier.discover(links, NOW)) if page_id is not None]
    release(frontier, lease, FETCHED, NOW, [Edge(page_id, 0, 1.0 + page_id % 7) for page_id in known])
    for turn in range(20):
        scores = [2.0 ** (page_id % 11 * (-1) ** turn) for page_id in range(len(known) + 1)]
        adopt(frontier, scores, 5000)
        assert list(Check(opened[-1], None, NOW).run()) == []
        best = max(scores[page_id] for page_id in queue(frontier))
        assert scores[take(frontier).page_id] == best
    assert len(drain(frontier)) == len(known) - 20


def test_a_lease_loads_few_of_the_compact_hosts_whose_pages_became_worse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To load all 1,000 takes 100 ms."""
    monkeypatch.setattr(hosts_module, "AWAKE", 100)
    frontier = start(tmp_path, "pagerank")
    frontier._hosts._most = 100
    for number in range(1_000):
        frontier.discover([link(str(number), None, f"h{number}.example")], NOW)
        frontier.commit()
    adopt(frontier, [8.0] * 1_000, 5_000)
    adopt(frontier, [2.0 ** (-number % 7) / 100 for number in range(1_000)], 5_000)
    in_memory = [len(frontier._hosts.by_name)]
    assert in_memory[0] < 300
    for _ in range(1_000):
        frontier.release(take(frontier), FETCHED, NOW)
        in_memory.append(len(frontier._hosts.by_name))
    assert max(after - before for before, after in pairwise(in_memory)) <= 40
    assert frontier.lease(NOW) is None


@pytest.mark.parametrize("is_killed", [True, False])
def test_content_scores_survive_a_restart(tmp_path: Path, is_killed: bool) -> None:
    frontier = start(tmp_path, "mixed")
    frontier.discover([link("seed", None), link("good", None)], NOW)
    frontier.discover([link("good", again=True, priority=9)], NOW)
    lease = take(frontier)
    frontier.bind_lease(lease, link("good").fingerprint)
    frontier.release(lease, FETCHED._replace(content_score=4.0), NOW)
    kill(frontier) if is_killed else frontier.close()
    frontier = start(tmp_path, "mixed")
    assert [frontier._scores.scorer._content_score(page) for page in (0, 1)] == [1.0, 4.0]  # type: ignore[union-attr]


@pytest.mark.parametrize("scorer", ["cash", "pagerank", "hits", "mixed", "fifo"])
@pytest.mark.parametrize("score", [1e39, 10**400, math.inf, math.nan, -1.0], ids=lambda score: f"{score}"[:6])
def test_scores_beyond_what_a_float_holds_raise_nothing(tmp_path: Path, scorer: str, score: float) -> None:
    """The content score of a page, and the score of a link."""
    frontier = start(tmp_path, scorer)
    frontier.discover([link("seed", None)], NOW)
    lease = take(frontier)
    weighty = link("x", lease.page_id, weight=score)
    frontier.discover([weighty, link("y", lease.page_id)], NOW, lease)
    released = frontier.release(lease, FETCHED._replace(content_score=score, has_links=True), NOW)
    assert released.links == 2
    rank(frontier)
    frontier.close()
    frontier = start(tmp_path, scorer)
    assert set(drain(frontier)) == {"x", "y"}
    assert list(Check(opened[-1], None, NOW).run()) == []


def test_golden_bytes(tmp_path: Path) -> None:
    """What the scorer keeps of the pages: one that was read, one that is queued, and one only seen."""
    frontier = start(tmp_path)
    frontier.discover([link("seed", None), link("good", None)], NOW)
    frontier._scores.content_scored(1, 4.0)
    lease = take(frontier)
    see(frontier, [link("out")], NOW)
    release(frontier, lease, FETCHED, NOW, [Edge(2)])
    assert frontier._store.get(LINK_ROW + keys.id_bytes(0)) == bytes.fromhex("000104")
    frontier.close()
    store = Store(tmp_path)
    assert store.get(keys.content_key(1)) == bytes.fromhex("40800000")
    assert dict(store.scan(keys.COLUMN)) == {
        records.column_key("parsed", 0): bytes.fromhex("0001 0000 0000"),
        records.column_key("score", 0): bytes.fromhex("a000 a000 9f10"),
    }
    store.close()


# -- packing, and when to rank -----------------------------------------------------------------------------


def test_rows_are_packed_behind_the_crawl_and_newer_ones_stay(tmp_path: Path) -> None:
    frontier = start(tmp_path, None)
    frontier.discover([link("seed", None)], NOW)
    names = count()
    for _ in range(200):
        read(frontier, *(f"p{next(names)}" for _ in range(2)))
    before = [find_row(page_id, frontier._batch.get) for page_id in range(200)]
    run = frontier.rank_now()
    for packed in run.repack(lambda: False):
        frontier.discover([link("seed", None, again=True, priority=1)], NOW)
        lease = take(frontier)
        frontier.bind_lease(lease, link("seed").fingerprint)
        release(frontier, lease, FETCHED, NOW, [Edge(7)])
        for _ in frontier._scores.put_in_place(packed):
            pass
    run.close()
    assert [key for key, _ in frontier._store.scan(LINK_ROW)] == [LINK_ROW + keys.id_bytes(0)]
    assert len(list(frontier._store.scan(SEGMENT_ROW))) == 1
    assert [find_row(page_id, frontier._batch.get) for page_id in range(200)] == [[Edge(7)], *before[1:]]
    assert list(Check(opened[-1], None, NOW).run()) == []


def test_a_ranking_is_due_when_the_crawl_has_grown(tmp_path: Path) -> None:
    frontier = start(tmp_path, "pagerank")
    is_due = frontier._scores.is_due
    for number in range(30):
        assert not is_due()
        frontier.discover([link(f"p{number}", None)], NOW)
    assert is_due()
    rank(frontier)
    for number in range(8):
        assert not is_due()
        frontier.discover([link(f"q{number}", None)], NOW)
    assert is_due(), "a quarter more are known"
    rank(frontier)
    for _ in range(30):
        assert not is_due()
        read(frontier)
    assert is_due(), "30 are read"
    rank(frontier)
    frontier.discover([link(f"r{number}", None) for number in range(20)], NOW)
    frontier.close()
    assert start(tmp_path, "pagerank")._scores.is_due()
    assert not start(tmp_path / "other", "cash")._scores.is_due()


@pytest.mark.parametrize("scorer", ["mixed", "cash"])
def test_no_page_comes_twice_while_ends_and_moved_rows_wait_to_be_written(
    tmp_path: Path, scorer: str
) -> None:
    """Hosts run out of heads in memory, and read them from the disk while rows that moved are not there."""
    rng, now, hosts, seeds, pages = random.Random(1), NOW, 20, 400, 900
    opened.append(Store(tmp_path))
    options = FrontierOptions(scorer=load_object(SCORERS[scorer])(), max_uncommitted_pages=16)
    frontier = Frontier(opened[-1], now, options)
    while not frontier.load(now):
        pass

    def random_links(most: int) -> list[Link]:
        numbers = (
            rng.randrange(pages) if rng.random() < 0.8 else int(rng.paretovariate(0.4)) % pages
            for _ in range(rng.randrange(most))
        )
        return [link(str(number), None, f"h{number % hosts}.example") for number in numbers]

    frontier.discover([link(str(number), None, f"h{number % hosts}.example") for number in range(seeds)], now)
    under_way: list[Lease] = []
    seen: set[int] = set()
    while True:
        while len(under_way) < 5 and (lease := frontier.lease(now)) is not None:
            assert lease.page_id not in seen
            seen.add(lease.page_id)
            under_way.append(lease)
        if not under_way:
            break
        lease = under_way.pop(rng.randrange(len(under_way)))
        frontier.discover(random_links(10), now, lease)
        frontier.release(lease, Outcome(Event.FETCHED, 200, has_links=True), now)
        now += 0.01
    assert len(seen) == frontier.totals().known
    frontier.commit()
    assert not list(Check(opened[-1], None, NOW).run())
