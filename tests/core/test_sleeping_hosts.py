"""Hosts that sleep: nobody can tell from outside."""

from __future__ import annotations

import gc
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link
from scrapy_frontier.core.hosts import host, politeness, turns
from scrapy_frontier.core.hosts.host import Politeness, Trouble
from scrapy_frontier.core.hosts.turns import DomainRates
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.ranking.default_scorer import Mixed
from scrapy_frontier.core.revisits.plans import RevisitRule
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import HostRow
from scrapy_frontier.core.transitions import Event

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy_frontier.core.pages.leases import Lease

NOW = 1_700_000_000.0
FETCHED = Outcome(Event.FETCHED, 200)
HOSTS = ["a.one.org", "b.one.org", "one.org", "www.two.org", "three", "x.co.uk", "y.co.uk", "z.y.co.uk"]


def domain_of(host: str) -> str:
    return ".".join(host.split(".")[-3 if host.endswith(".co.uk") else -2 :])


@pytest.fixture
def sleepy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may sleep does."""
    monkeypatch.setattr(turns, "AWAKE", 0)
    monkeypatch.setattr(turns, "GROWTH", 0)


def a_frontier(directory: Path, **options: Any) -> Frontier:
    return Frontier(Store(directory), NOW, FrontierOptions(domain_of=domain_of, **options))


def links(*hosts: str, numbers: Iterator[int], priority: int = 0) -> list[Link]:
    found = []
    for name in hosts:
        number = next(numbers)
        found.append(Link(number.to_bytes(20, "big"), f"http://{name}/{number}", name, priority))
    return found


class Run:
    """A crawl by moves that are drawn once, with hosts that sleep or with all awake."""

    def __init__(self, directory: Path, awake: int, options: dict[str, Any]) -> None:
        self.directory, self.awake, self.options = directory, awake, options
        self.now, self.numbers, self.out = NOW, count(), []
        self.most_asleep = 0
        self.told: list[Any] = []
        self.open()

    def open(self) -> None:
        scorer = Mixed() if self.options.get("is_scored") else None
        options = {name: value for name, value in self.options.items() if name != "is_scored"}
        self.frontier = Frontier(
            *(Store(self.directory), self.now),
            domain_of=domain_of,
            scorer=scorer,
            rng=Random(1),
            **options,
        )
        while not self.frontier.load(self.now, 3):
            pass
        self.out: list[Lease] = []

    def move(self, kind: str, name: str, number: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(turns, "AWAKE", self.awake)
            patch.setattr(turns, "GROWTH", 0)
            if not self.awake:
                self.frontier._hosts.most_awake = 0
            for which in "FIRST_ROUNDS", "MOST_ROUNDS":
                patch.setattr(turns, which, 10**9)
            getattr(self, kind)(name, number)
        self.most_asleep = max(self.most_asleep, len(self.frontier._hosts.asleep))
        self.told.append((self.frontier.pending, self.frontier.hosts, self.frontier.wake_at()))

    def add(self, name: str, number: int) -> None:
        self.frontier.discover(links(name, numbers=self.numbers, priority=number), self.now)

    def commit(self, name: str, number: int) -> None:
        self.frontier.commit()

    def lease(self, name: str, number: int) -> None:
        lease = self.frontier.lease(self.now)
        self.told.append(lease and lease.page.url)
        if lease is not None:
            self.out.append(lease)

    def put_back(self, name: str, number: int) -> None:
        lease = self.frontier.lease(self.now)
        if lease is not None:
            self.frontier.put_back(lease, self.now)

    def fetched(self, name: str, number: int) -> None:
        if self.out:
            self.frontier.release(self.out.pop(number % len(self.out)), FETCHED, self.now)

    def retried(self, name: str, number: int) -> None:
        if self.out:
            outcome = Outcome(Event.RETRIED, 500, delay=float(number))
            self.frontier.release(self.out.pop(), outcome, self.now)

    def wait(self, name: str, number: int) -> None:
        self.now += 1 + number

    def cool(self, name: str, number: int) -> None:
        self.frontier.cool(name, Trouble("503", asked=number + 1.0), self.now)

    def hold(self, name: str, number: int) -> None:
        self.frontier.hold(name, self.now, self.now + number)

    def delay(self, name: str, number: int) -> None:
        self.frontier.site_delay(name, float(number), self.now)

    def block(self, name: str, number: int) -> None:
        if number:
            self.frontier.block(name, self.now)
        else:
            self.frontier.unblock(name, self.now)

    def visit(self, name: str, number: int) -> None:
        if not self.frontier.begin_side_request(name, self.now):
            self.frontier.end_side_request(name, self.now)

    def left(self, name: str, number: int) -> None:
        left = self.frontier.left_over(self.now)
        self.told.append((left.pages, left.hosts, left.first, left.doing))

    def rank(self, name: str, number: int) -> None:
        if self.frontier._scores is not None and self.frontier._batch.counts.next_page:
            run = self.frontier.rank_now()
            computed = run.compute(lambda: False, lambda: 0.0)
            for _ in self.frontier.rank_steps(run, computed, lambda: self.now, 2):
                pass
            run.close()

    def reopen(self, name: str, number: int) -> None:
        self.frontier.close()
        self.open()

    def finish(self) -> None:
        for _ in range(300):
            for lease in self.out:
                self.frontier.release(lease, FETCHED, self.now)
            self.out.clear()
            if not self.frontier.pending:
                break
            self.move("lease", "", 0)
            if not self.out:
                self.now += 5


kinds = ["add"] * 8 + ["lease"] * 4 + ["fetched"] * 4 + ["commit", "wait"] * 2
kinds += ["put_back", "retried", "cool", "hold", "delay", "block", "visit", "left", "reopen"]
kinds += ["rank"] * 2
moves = st.lists(
    st.tuples(st.sampled_from(kinds), st.sampled_from(HOSTS), st.integers(0, 3)), min_size=10, max_size=80
)


@given(
    moves,
    st.sampled_from(
        [
            {},
            {"default_politeness": Politeness(2.0, 1)},
            {"rates": DomainRates(1.0, 3.0)},
            {"is_scored": True},
            {"revisits": RevisitRule(shelf_life=5.0, horizon=60.0)},
        ]
    ),
    st.sampled_from([1, host.HEADS]),
)
@settings(max_examples=80, deadline=None)
def test_a_crawl_is_the_same_whoever_sleeps(
    tmp_path_factory: pytest.TempPathFactory,
    moves: list[tuple[str, str, int]],
    options: dict[str, Any],
    heads: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (host, politeness, turns):  # with one, most hosts have more pages on disk
            patch.setattr(module, "HEADS", heads)
        compare(tmp_path_factory.mktemp("runs"), moves, options)


def compare(directory: Path, moves: list[tuple[str, str, int]], options: dict[str, Any]) -> None:
    """The same moves with hosts that sleep, and with none."""
    sleepy, awake = (Run(directory / name, most, options) for name, most in (("sleepy", 0), ("awake", 10**9)))
    for move in moves:
        sleepy.move(*move)
        awake.move(*move)
        assert sleepy.told == awake.told
    sleepy.finish()
    awake.finish()
    assert sleepy.told == awake.told
    assert not awake.most_asleep
    sleepy.frontier.close()
    awake.frontier.close()
    rows = []
    for name in "sleepy", "awake":
        store = Store(directory / name)
        rows.append(list(store.scan(b"")))
        store.close()
    assert rows[0] == rows[1], "on the disk it is the same too"


@pytest.mark.usefixtures("sleepy")
def test_a_host_that_sleeps_is_due_like_any_other(tmp_path: Path) -> None:
    """Beside one that always has something better to offer."""
    frontier, numbers = a_frontier(tmp_path), count()
    poor = [f"www.poor{each}.org" for each in range(20)]
    frontier.discover(links(*poor, numbers=numbers), NOW)
    frontier.discover(links("rich.org", "rich.org", numbers=numbers, priority=9), NOW)
    order = []
    for _ in range(len(poor) * turns.FIRST_ROUNDS * 4):
        frontier.discover(links("rich.org", numbers=numbers, priority=9), NOW)
        lease = frontier.lease(NOW)
        assert lease is not None
        order.append(lease.host)
        frontier.release(lease, FETCHED, NOW)
        if len(order) == 3:
            assert len(frontier._hosts.asleep) == len(poor)
    assert set(poor) < set(order)
    assert max(map(order.index, poor)) <= (len(poor) + 1) * (turns.FIRST_ROUNDS + 1)
    frontier.close()


def test_of_hosts_that_are_due_together_nobody_can_tell_who_sleeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside one that always has something better to offer; some are awake."""
    orders = []
    for awake in (1000, 20, 0):
        monkeypatch.setattr(turns, "AWAKE", awake)
        monkeypatch.setattr(turns, "GROWTH", 1.0)
        frontier, numbers, order = a_frontier(tmp_path / str(awake)), count(), []
        frontier.discover(links(*(f"{each:03}.org" for each in range(99, -1, -1)), numbers=numbers), NOW)
        frontier.discover(links("rich.org", numbers=numbers, priority=9), NOW)
        for step in range(4 * 100):
            lease = frontier.lease(NOW + step / 1000)
            assert lease is not None
            order.append(lease.host)
            frontier.release(lease, FETCHED, NOW + step / 1000)
            if lease.host == "rich.org":
                frontier.discover(links("rich.org", numbers=numbers, priority=9), NOW + step / 1000)
        orders.append(order)
        frontier.close()
    assert len(set(orders[0])) == 101
    assert orders[1:] == [orders[0]] * 2


@pytest.mark.usefixtures("sleepy")
def test_memory_holds_few_of_many_hosts(tmp_path: Path) -> None:
    frontier, numbers = a_frontier(tmp_path), count()
    for each in range(1000):
        frontier.discover(links(f"www.host{each}.org", numbers=numbers), NOW)
        frontier.commit()
    assert frontier.hosts == 1000
    assert len(frontier._hosts.by_name) < 100
    assert frontier.left_over(NOW)[:2] == (1000, 1000)
    assert frontier.ends_at(NOW, 5.0) is None, "they can be asked"
    asked = set()
    while (lease := frontier.lease(NOW)) is not None:
        asked.add(lease.host)
        frontier.release(lease, FETCHED, NOW)
    assert len(asked) == 1000
    assert frontier.hosts == 0
    frontier.close()


def test_the_garbage_collector_walks_few_objects_however_many_hosts_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full collection stops the event loop: 50,000 objects of hosts take it 30 ms, which is not in its
    cache."""
    most_awake = turns.AWAKE
    monkeypatch.setattr(turns, "AWAKE", 500)
    frontier, numbers = a_frontier(tmp_path), count()
    gc.collect()
    before = len(gc.get_objects())

    def objects_of_hosts(first: int, stop: int) -> int:
        for each in range(first, stop):
            frontier.discover(links(f"www.host{each}.org", numbers=numbers), NOW)
            frontier.commit()
        gc.collect()  # after which it leaves plain tuples alone
        return len(gc.get_objects()) - before

    of_each = objects_of_hosts(0, 500) / 500
    assert not frontier._hosts.asleep
    assert objects_of_hosts(500, 2500) < 1.5 * of_each * 500
    assert of_each * most_awake < 50_000
    frontier.close()


@pytest.mark.usefixtures("sleepy")
def test_a_host_that_wakes_and_sleeps_again_keeps_its_turn(tmp_path: Path) -> None:
    """Others have the better pages all the time; each link to it wakes it."""
    others = 8
    frontier, numbers = a_frontier(tmp_path, default_politeness=Politeness(0.0, 8)), count()
    names = [f"www.other{each}.org" for each in range(others)]
    for _ in range(60):
        frontier.discover(links(*names, numbers=numbers), NOW)
    for _ in range(5):
        frontier.discover(links("www.waits.org", numbers=numbers), NOW)
    within = (turns.MOST_ROUNDS + 1) * (others + 2)
    last = longest = 0
    for step in range(1, 4 * within):
        frontier.discover(links("www.best.org", numbers=numbers, priority=1), NOW)
        if step % 50 == 0:
            frontier.discover(links("www.waits.org", numbers=numbers), NOW)
        lease = frontier.lease(NOW)
        assert lease is not None
        last = step if lease.host == "www.waits.org" else last
        longest = max(longest, step - last)
        frontier.release(lease, FETCHED, NOW)
    assert longest <= within
    frontier.close()


@pytest.mark.usefixtures("sleepy")
def test_little_is_left_of_a_host_however_often_it_woke(tmp_path: Path) -> None:
    frontier, numbers = a_frontier(tmp_path), count()
    for _ in range(500):
        frontier.discover(links("www.one.org", "www.two.org", numbers=numbers), NOW)
        frontier.commit()
    asleep = frontier._hosts.asleep
    assert max(len(asleep._heap), len(asleep._due)) <= 64 + 2 * 2
    frontier.close()


def test_places_of_hosts_that_woke_are_skipped_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_SKIPPED_AT_ONCE", 2)
    asleep = turns.SleepingHosts()
    for number in range(4):
        one = host.Host(f"{number}.org", HostRow(queued=1), Politeness(0.0, 1))
        one.heads = [bytes([number]) * 16]
        asleep.put(one, one.name, float(number))
    assert asleep.overdue(-1.0) is None
    for _ in range(3):
        best = asleep.first()
        assert best is not None
        asleep.take(best)
    assert asleep.overdue(9.0) is None
    found = asleep.overdue(9.0)
    assert found is not None
    assert found[1] == "3.org"


@pytest.mark.usefixtures("sleepy")
def test_a_host_of_many_pages_sleeps_and_has_its_turn_without_reading_its_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frontier, numbers = a_frontier(tmp_path), count()
    names = [f"www.host{each}.org" for each in range(20)]
    for _ in range(3 * host.HEADS):
        frontier.discover(links(*names, numbers=numbers), NOW)
    frontier.commit()
    assert frontier.lease(NOW) is not None, "with which they are looked at"
    assert len(frontier._hosts.asleep) > len(names) // 2
    assert frontier.left_over(NOW)[:2] == (3 * host.HEADS * len(names), len(names))
    read = []
    keys_of = Store.keys_of
    monkeypatch.setattr(Store, "keys_of", lambda *args: read.append(args) or keys_of(*args))
    turns_of_each = [frontier.lease(NOW) for _ in range(2 * len(names))]
    assert {lease.host for lease in turns_of_each if lease is not None} == set(names)
    assert not read
    frontier.close()


@pytest.mark.usefixtures("sleepy")
def test_pages_that_come_back_have_their_share_where_their_host_sleeps(tmp_path: Path) -> None:
    frontier, numbers = a_frontier(tmp_path, revisits=RevisitRule(shelf_life=5.0, horizon=60.0)), count()
    frontier.discover(links("old.org", numbers=numbers), NOW)
    lease = frontier.lease(NOW)
    assert lease is not None
    frontier.release(lease, FETCHED, NOW)
    later = NOW + 86_400
    for _ in range(10):
        frontier.discover(links("new.org", "another.org", numbers=numbers), later)
    asked = []
    for _ in range(10):
        lease = frontier.lease(later)
        assert lease is not None
        asked.append(lease.host)
        frontier.release(lease, FETCHED, later)
    assert "old.org" in asked
    frontier.close()
