"""The order of hosts: which host comes next, which of its pages, and how fast a domain may come."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link
from scrapy_frontier.core.hosts import host_order
from scrapy_frontier.core.hosts import hosts as hosts_module
from scrapy_frontier.core.hosts.host import HEADS, RETRY_EVERY, Host, HostState, Politeness
from scrapy_frontier.core.hosts.host_order import (
    BURST,
    FIRST_ROUNDS,
    MOST_ROUNDS,
    NORMAL,
    OVER_HARD,
    WITHIN,
    DomainRateLimiter,
    DomainRates,
    FairHostQueue,
)
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.parse.urls import host_of
from scrapy_frontier.core.ranking.default_scorer import Mixed
from scrapy_frontier.core.store import queue_keys
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import HostRow
from scrapy_frontier.core.transitions import Event
from scrapy_frontier.crawl.politeness_key import registered_domain

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

NOW = 1_700_000_000.0
FETCHED = Outcome(Event.FETCHED, 200)


def domain_of(host: str) -> str:
    return ".".join(host.split(".")[-2:])


def sort_key(number: int, priority: int = 0) -> bytes:
    return queue_keys.sort_key(priority, 0, number, number)


class Played(FairHostQueue):
    """A queue of hosts that is played without a store."""

    def __init__(self, rates: DomainRates | None = None) -> None:
        super().__init__(domain_of, rates)
        self.now = NOW
        self.numbers = count()

    def add(self, name: str, pages: int = 1, priority: int = 0, delay: float = 0.0, places: int = 8) -> Host:
        host = self.hosts.setdefault(name, Host(name, HostRow(), Politeness(delay, places)))
        for _ in range(pages):
            host.add(sort_key(next(self.numbers), priority))
        self.update(host, self.now)
        return host

    def visit(self, is_over: bool = True) -> str:
        """The name of the host that is asked next."""
        name = self.best(self.now)
        assert name is not None
        host = self.hosts[name]
        host.take()
        host.in_flight += 1
        if host.delay:
            host.ready_at = self.now + host.delay
        self.update(host, self.now)
        if is_over:
            self.end(host)
        return name

    def end(self, host: Host) -> None:
        host.in_flight -= 1
        self.update(host, self.now)

    def visits(self) -> Iterator[str]:
        while self.best(self.now) is not None:
            yield self.visit()


# -- which host ------------------------------------------------------------------------------------------


def test_a_host_waits_for_its_delay_and_for_room() -> None:
    queue = Played()
    slow, busy = queue.add("a.slow", 2, delay=10), queue.add("a.busy", 3, places=2)
    assert sorted(queue.visit(is_over=False) for _ in range(3)) == ["a.busy", "a.busy", "a.slow"]
    assert (slow.state, busy.state) == (HostState.DELAYED, HostState.BUSY)
    assert queue.best(NOW + 9.9) is None
    assert queue.next_time() == NOW + 10
    queue.end(busy)
    assert queue.best(NOW) == "a.busy"
    slow.ready_at = NOW + 20  # it grew meanwhile
    queue.update(slow, NOW)
    busy.held_until = NOW + 30
    queue.update(busy, NOW)
    assert queue.best(NOW + 19) is None
    assert queue.best(NOW + 20) == "a.slow"


def test_a_host_is_kept_until_its_delay_has_passed() -> None:
    queue = Played()
    host = queue.add("a.b", delay=10)
    queue.visit()
    queue.drop(host, NOW)
    assert queue.best(NOW + 9) is None
    assert queue.hosts
    assert queue.best(NOW + 10) is None
    assert queue.idle == [host]
    queue.drop(host, NOW + 10)
    assert not queue.hosts


def test_many_changes_leave_no_pile_of_old_entries() -> None:
    queue = Played()
    hosts = [queue.add(f"a.{each}") for each in "xyz"]
    for number in range(10_000):
        host = hosts[number % 3]
        host.ready_at = NOW + number % 7
        queue.update(host, NOW)
    assert max(map(len, (queue._offers, queue._due))) <= 64 + 4 * 3 + 1


domains = ("d1.x", "d2.x", "e1.y", "e2.y")
names = st.sampled_from([f"{host}.{domain}" for domain in domains for host in "abc"])
moves = st.lists(
    st.tuples(st.just("add"), names, st.integers(0, 1))
    | st.tuples(st.sampled_from(["visit", "leave", "forget"]), names, st.just(0)),
    max_size=80,
)


def searched(queue: FairHostQueue, yields_until: Counter[str], handed_out: int) -> str | None:
    """The rule by itself: all ready hosts, the best of each domain, the first of these."""
    best: dict[str, tuple[bytes, int, bytes, str]] = {}
    for host in queue.hosts.values():
        if host.heads and host.in_flight < 8:
            entry = host.heads[0][: queue_keys.SCORE_BYTES], host.in_flight, host.heads[0], host.name
            domain = domain_of(host.name)
            best[domain] = min(best.get(domain, entry), entry)
    found = []
    for domain, (score, _, head, name) in best.items():
        under_way = sum(host.in_flight for host in queue.hosts.values() if domain_of(host.name) == domain)
        found.append((score, yields_until[domain] > handed_out, under_way, head, name))
    return min(found)[-1] if found else None


@given(moves)
@settings(max_examples=150, deadline=None)
def test_turns_are_those_of_a_search_through_all_hosts(moves: list[tuple[str, str, int]]) -> None:
    queue, yields_until, handed_out = Played(), Counter[str](), 0
    for move, name, priority in moves:
        host = queue.hosts.get(name)
        if move == "add":
            queue.add(name, priority=priority)
        elif move == "leave" and host is not None and host.in_flight:
            queue.end(host)
        elif move == "forget" and host is not None and not host.heads and not host.in_flight:
            queue.drop(host, NOW)
            if not any(domain_of(other) == domain_of(name) for other in queue.hosts):
                del yields_until[domain_of(name)]
        elif move == "visit" and searched(queue, yields_until, handed_out) is not None:
            others = {domain_of(each.name) for each in queue.hosts.values() if each.heads}
            domain = domain_of(queue.visit(is_over=False))
            handed_out += 1
            if sum(domain_of(each) == domain for each in queue.hosts) > 1:
                yields_until[domain] = max(yields_until[domain], handed_out) + len(others) - 1
        assert queue.best(NOW) == searched(queue, yields_until, handed_out)


def test_a_domain_of_many_hosts_lets_each_other_domain_have_a_turn() -> None:
    for is_over in (True, False):  # nor do slow hosts of one domain fill all places
        queue = Played()
        for number in range(100):
            queue.add(f"h{number}.trap.example", 2)
        for number in range(3):
            queue.add(f"www.site{number}.org", 8)
        shares = Counter(domain_of(queue.visit(is_over)) for _ in range(16))
        assert shares["trap.example"] <= 5
        assert is_over or set(shares.values()) == {4}


# -- age -------------------------------------------------------------------------------------------------


class Supply(Played):
    """Hosts, each with an endless supply of pages of one priority."""

    def __init__(self, priorities: dict[str, int]) -> None:
        super().__init__()
        self.priorities = priorities
        for name, priority in priorities.items():
            self.add(name, priority=priority)

    def hand_out(self) -> str:
        name = self.visit()
        self.add(name, priority=self.priorities[name])
        return name


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=12), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_no_domain_that_may_be_asked_waits_longer_than_the_bound(
    priorities: list[int], rng: random.Random
) -> None:
    """In virtual time: a round is a hand-out for each domain that may be asked. Hosts come and go."""
    supply = Supply({f"www.site{each}.org": priority for each, priority in enumerate(priorities)})
    waited = dict.fromkeys(supply.priorities, 0.0)
    for _ in range(MOST_ROUNDS * len(priorities) * 3):
        ready = [name for name, host in supply.hosts.items() if host.state is HostState.READY]
        chosen = supply.hand_out()
        for name in ready:
            waited[name] += 1 / len(ready)
            assert waited[name] <= MOST_ROUNDS + 1, name
        waited[chosen] = 0.0
        if not rng.randrange(20):  # a host is left alone for a while, or comes back
            host = supply.hosts[rng.choice(list(supply.priorities))]
            host.is_blocked = host.state is HostState.READY and len(ready) > 2
            supply.update(host, NOW)
            waited[host.name] = 0.0


def test_an_endless_host_keeps_no_other_from_its_first_pages_not_even_of_its_domain() -> None:
    supply = Supply({"a.site.org": 9, "b.site.org": 9, "poor.site.org": -9, "www.other.org": 0})
    order = [supply.hand_out() for _ in range(1000)]
    assert order.index("www.other.org") <= 2 * (FIRST_ROUNDS + 1)
    places = [at for at, name in enumerate(filter(lambda each: "site" in each, order)) if "poor" in name]
    assert all(after - before <= WITHIN * 3 + 3 for before, after in pairwise([0, *places]))


def test_what_an_earlier_run_fetched_counts() -> None:
    """Else every restart would begin with pages of all hosts."""
    supply = Supply({"endless.org": 9})
    for name, done in ("www.new.org", 0), ("www.old.org", 50):
        supply.hosts[name] = Host(name, HostRow(done=done), Politeness(0.0, 8))
        supply.priorities[name] = 0
        supply.add(name)
    order = [supply.hand_out() for _ in range(3 * MOST_ROUNDS)]
    assert order.index("www.new.org") <= 3 * (FIRST_ROUNDS + 1)
    assert "www.old.org" not in order


# -- which page of a host --------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.sampled_from([True, False, False]), st.integers(-3, 3)), max_size=120))
def test_pages_come_in_order_and_few_are_in_memory(moves: list[tuple[bool, int]]) -> None:
    host, disk, model = Host("a", HostRow(), Politeness(0.0, 8)), [], []

    def take() -> bytes:
        taken = host.take()
        while host.needs_sort_keys():  # as `Hosts.fill`; rows of leased pages are still there
            start = bisect_right(disk, host.cursor)
            host.filled(disk[start : start + HEADS], HEADS)
        return taken

    for number, (takes, priority) in enumerate(moves):
        if takes:
            assert bool(model) == bool(host.heads)
            if model:
                assert take() == model.pop(0)
        else:
            new = sort_key(number, priority)
            insort(model, new)
            insort(disk, new)
            assert host.add(new) == (model[0] == new)
        assert len(host.heads) <= 2 * HEADS
    assert [take() for _ in model] == model


def test_one_turn_in_four_is_for_a_page_that_was_handed_out_before() -> None:
    host = Host("a", HostRow(), Politeness(0.0, 8))
    for number in range(12):
        host.add(sort_key(number, priority=1 if number < 10 else 0))
    for number in (10, 11):
        host.add_retry(sort_key(number))
    found = [queue_keys.sort_key_id(host.take()) for _ in range(2 * RETRY_EVERY)]
    assert found == [0, 1, 2, 10, 3, 4, 5, 11]


# -- rates of domains ------------------------------------------------------------------------------------


@given(st.floats(0.001, 1000))
def test_what_waits_until_it_may_comes_at_the_rate(rate: float) -> None:
    """After the burst, whatever the real time of day is."""
    limiter, now = DomainRateLimiter(DomainRates(hard=rate)), NOW
    assert [limiter.count("a", now) for _ in range(BURST)] == [NORMAL] * (BURST - 1) + [OVER_HARD]
    for _ in range(100):
        now = limiter.next_change() or now
        assert limiter.eased(now) == [("a", NORMAL)]
        assert limiter.count("a", now) == OVER_HARD
    assert now - NOW == pytest.approx(99.5 / rate, abs=100 * 2.4e-7)


def test_above_the_soft_rate_all_others_come_first_until_it_has_cooled() -> None:
    queue = Played(DomainRates(soft=1.0))
    for number in range(30):
        queue.add(f"{number}.many.org", priority=9)
    for number in range(9):
        queue.add(f"www.{number}.net", priority=-number)
    order = [domain_of(queue.visit()) for _ in range(BURST + 2)]
    assert order.count("many.org") == BURST
    assert domain_of(queue.best(NOW) or "") != "many.org"
    assert domain_of(queue.best(NOW + 2) or "") == "many.org"


def crawl(frontier: Frontier, begin: float, end: float) -> list[float]:
    """When pages are handed out until *end*, over virtual time."""
    now, times = begin, []
    while not frontier.load(now):
        pass
    while now < end:
        lease = frontier.lease(now)
        if lease is not None:
            times.append(now)
            frontier.release(lease, FETCHED, now)
            continue
        now = frontier.wake_at() or end
    return times


# -- names, and domains ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://a.example/x", "a.example"),
        ("https://A.Example:8443?q", "a.example"),
        ("http://user:secret@a.example/", "a.example"),
        ("http://[::1]:80/", "::1"),
        ("http://bücher.example/", "bücher.example"),
        ("http://a.example:port/", "a.example"),
        ("http://a.example\\@b.example/", "b.example"),
        ("data:text/plain,hello", ""),
        ("http://[::1", ""),
        ("", ""),
    ],
)
def test_host_of(url: str, host: str) -> None:
    assert host_of(url) == host


@given(st.text())
def test_any_text_has_a_host_or_none(url: str) -> None:
    assert isinstance(host_of(url), str)
    assert isinstance(host_of("http://" + url), str)


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.example.co.uk", "example.co.uk"),
        ("example.org", "example.org"),
        ("a.b.c.example.org", "example.org"),
        ("user.github.io", "github.io"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "[::1]"),
        ("localhost", "localhost"),
        ("a slot of a spider", "a slot of a spider"),
        ("www.example.org.", "www.example.org."),
        ("www.shop.lan", "shop.lan"),
        ("127.0.0.1.", "127.0.0.1."),
        ("", ""),
    ],
)
def test_registered_domains(host: str, domain: str) -> None:
    assert registered_domain(host) == domain


# -- compact hosts ---------------------------------------------------------------------------------------


def link(number: int, host: str, priority: int = 0) -> Link:
    return Link(number.to_bytes(20, "big"), f"http://{host}/{number}", host, priority)


class Run:
    """A crawl by moves that are drawn once, with as many hosts compact as may be, or with none."""

    def __init__(self, directory: Path, awake: int, options: dict[str, Any]) -> None:
        self.awake, self.now, self.numbers = awake, NOW, count()
        self.out: list[Any] = []
        self.seen: list[Any] = []
        self.frontier = Frontier(Store(directory), NOW, FrontierOptions(domain_of=domain_of, **options))
        while not self.frontier.load(NOW):
            pass

    def move(self, kind: str, name: str, number: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(hosts_module, "AWAKE", self.awake)
            for name_of_rounds in ("FIRST_ROUNDS", "MOST_ROUNDS"):  # age is forgotten in part
                patch.setattr(host_order, name_of_rounds, 10**9)
            if not self.awake:
                self.frontier._hosts._most = 0
            getattr(self, kind)(name, number)
        self.seen.append((self.frontier.pending, self.frontier.hosts))

    def add(self, name: str, number: int) -> None:
        self.frontier.discover([link(next(self.numbers), name, number)], self.now)

    def commit(self, name: str, number: int) -> None:
        self.frontier.commit()

    def lease(self, name: str, number: int) -> None:
        lease = self.frontier.lease(self.now)
        self.seen.append(lease and lease.page.url)
        self.out += [lease] if lease is not None else []

    def fetched(self, name: str, number: int) -> None:
        if self.out:
            self.frontier.release(self.out.pop(number % len(self.out)), FETCHED, self.now)

    def retried(self, name: str, number: int) -> None:
        if self.out:
            outcome = Outcome(Event.RETRIED, 500, delay=float(number))
            self.frontier.release(self.out.pop(), outcome, self.now)

    def wait(self, name: str, number: int) -> None:
        self.now += 1 + number

    def hold(self, name: str, number: int) -> None:
        self.frontier.hold(name, self.now, self.now + number)

    def block(self, name: str, number: int) -> None:
        (self.frontier.block if number else self.frontier.unblock)(name, self.now)

    def visit(self, name: str, number: int) -> None:
        if not self.frontier.begin_side_request(name, self.now):
            self.frontier.end_side_request(name, self.now)

    def rank(self, name: str, number: int) -> None:
        if self.frontier._scores is not None and self.frontier._batch.counts.next_page:
            run = self.frontier.rank_now()
            computed = run.compute(lambda: False, lambda: 0.0)
            for _ in self.frontier.rank_steps(run, computed, lambda: self.now, 2):
                pass
            run.close()


kinds = ["add"] * 8 + ["lease"] * 4 + ["fetched"] * 4 + ["commit", "wait"] * 2
kinds += ["retried", "hold", "block", "visit", "rank", "rank"]
PLACES = ["a.one.org", "b.one.org", "one.org", "www.two.org", "three", "x.four.org", "y.four.org"]


@given(
    st.lists(
        st.tuples(st.sampled_from(kinds), st.sampled_from(PLACES), st.integers(0, 3)),
        min_size=10,
        max_size=80,
    ),
    st.sampled_from([{}, {"default_politeness": Politeness(2.0, 1)}, {"is_scored": True}]),
)
@settings(max_examples=60, deadline=None)
def test_a_crawl_is_the_same_with_compact_hosts(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[str, str, int]], options: dict[str, Any]
) -> None:
    runs = []
    for awake in (0, 10**9):
        scorer = {"scorer": Mixed()} if options.get("is_scored") else {}
        given_options = {name: value for name, value in options.items() if name != "is_scored"}
        runs.append(Run(tmp_path_factory.mktemp("run"), awake, {**given_options, **scorer}))
    for move in moves:
        for run in runs:
            run.move(*move)
    for run in runs:
        run.frontier.close()
    assert runs[0].seen == runs[1].seen


def test_memory_holds_few_of_many_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts_module, "AWAKE", 100)
    frontier = Frontier(Store(tmp_path), NOW, FrontierOptions(domain_of=domain_of))
    frontier._hosts._most = 100
    for number in range(2000):
        frontier.discover([link(number, f"www.host{number}.org")], NOW)
        frontier.commit()
    assert frontier.hosts == frontier.left_over(NOW).pages == 2000
    assert len(frontier._hosts.by_name) < 300
    assert frontier.ends_at(NOW, 5.0) is None, "they can be asked"
    assert len(crawl(frontier, NOW, NOW + 1)) == 2000
    assert frontier.hosts == 0
    frontier.close()
