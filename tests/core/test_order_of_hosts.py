"""Turns: best score first, and among equals no registered domain crowds the others out."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import count, pairwise
from time import perf_counter
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link
from scrapy_frontier.core.hosts.host import FOREVER, WAITED_TURN, WITHIN, Host, HostState, Politeness
from scrapy_frontier.core.hosts.ready_hosts import Hosts
from scrapy_frontier.core.hosts.turns import FIRST_ROUNDS, MOST_ROUNDS, DomainRates
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.store import queue_keys
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import HostRow
from scrapy_frontier.core.transitions import Event
from scrapy_frontier.crawl import politeness_key
from scrapy_frontier.crawl.politeness_key import registered_domain

if TYPE_CHECKING:
    import random
    from pathlib import Path

NOW = 1_700_000_000.0
FETCHED = Outcome(Event.FETCHED, 200)


def domain_of(host: str) -> str:
    return ".".join(host.split(".")[-3 if host.endswith(".co.uk") else -2 :])


def add(hosts: Hosts, name: str, *numbers: int, priority: int = 0) -> Host:
    host = hosts.by_name.get(name)
    if host is None:
        host = hosts.by_name[name] = Host(name, HostRow(), Politeness(0.0, 8))
    for number in numbers:
        host.add(queue_keys.sort_key(priority, 0, number, number))
    hosts.put(host, NOW)
    return host


def visit(hosts: Hosts, is_over: bool = True) -> str:
    host = hosts.best(NOW)
    assert host is not None
    host.take()
    host.in_flight += 1
    hosts.put(host, NOW)
    if is_over:
        host.in_flight -= 1
        hosts.put(host, NOW)
    return host.name


def test_hosts_alone_in_their_domains_come_in_order_of_discovery() -> None:
    hosts = Hosts(domain_of)
    add(hosts, "a.one", 1, 2, 3)
    add(hosts, "b.two", 4, 5)
    assert [visit(hosts) for _ in range(5)] == ["a.one"] * 3 + ["b.two"] * 2


def test_the_domain_is_asked_only_of_hosts_that_share_two_labels() -> None:
    asked: list[str] = []

    def listed(host: str) -> str:
        asked.append(host)
        return domain_of(host)

    hosts = Hosts(listed)
    add(hosts, "www.one.example", 1)
    add(hosts, "www.two.example", 2)
    add(hosts, "www.one.co.uk", 3)
    assert asked == []
    add(hosts, "www.two.co.uk", 4, 5)
    assert asked == ["www.one.co.uk", "www.two.co.uk"]
    assert [visit(hosts) for _ in range(5)] == [
        *("www.one.example", "www.two.example", "www.one.co.uk", "www.two.co.uk", "www.two.co.uk")
    ]


def test_a_domain_of_many_hosts_lets_each_other_domain_have_a_turn() -> None:
    hosts = Hosts(domain_of)
    for number in range(100):
        add(hosts, f"h{number}.trap.example", number)
    for number in range(4):
        add(hosts, f"www.site{number}.org", *range(1000 + 100 * number, 1008 + 100 * number))
    assert Counter(domain_of(visit(hosts)) for _ in range(20))["trap.example"] <= 5


def test_a_better_page_comes_first_whoever_had_many_turns() -> None:
    hosts = Hosts(domain_of)
    for number in range(9):
        add(hosts, f"h{number}.trap", number, priority=5)
    add(hosts, "www.site", 100)
    assert [visit(hosts).endswith("trap") for _ in range(10)] == [True] * 9 + [False]


def test_with_nobody_else_there_a_domain_has_every_turn() -> None:
    hosts = Hosts(domain_of)
    for number in range(20):
        add(hosts, f"h{number}.trap.example", number)
    assert len({visit(hosts) for _ in range(20)}) == 20
    assert hosts.best(NOW) is None


def test_requests_under_way_count_for_the_whole_domain() -> None:
    """A domain of slow hosts does not fill all places with requests that take for ever."""
    hosts = Hosts(domain_of)
    for number in range(20):
        add(hosts, f"h{number}.trap.example", number)
    for number in range(3):
        add(hosts, f"www.site{number}.org", *range(1000 + 100 * number, 1008 + 100 * number))
    under_way = Counter(domain_of(visit(hosts, is_over=False)) for _ in range(16))
    assert under_way == dict.fromkeys(under_way, 4)


@pytest.mark.parametrize("is_tempered", [False, True])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_what_is_taken_back_leaves_everybody_his_turn(is_tempered: bool, data: st.DataObject) -> None:
    """Two crawls of the same hosts; in one of them some pages are handed out and taken back first."""
    chosen = st.sampled_from(["a.x.x", "b.x.x", "c.x.x", "a.y.x", "b.y.x", "a.z.x"])
    pages = data.draw(st.lists(st.tuples(chosen, st.integers(0, 1)), max_size=30))
    seen = []
    for is_disturbed in (False, True):
        hosts = Hosts(domain_of, DomainRates(1.0, 3.0) if is_tempered else None)
        for number, (name, priority) in enumerate(pages):
            add(hosts, name, number, priority=priority)
        order = []
        while (found := hosts.best(NOW)) is not None:
            if is_disturbed and data.draw(st.booleans()):
                sort_key = found.take()
                start_visit(hosts, found)
                found.in_flight -= 1
                hosts.taken_back(found, NOW)
                found.put_back(sort_key)
                hosts.put(found, NOW)
                continue
            found.take()
            start_visit(hosts, found)
            order.append(found.name)
            if len(order) % 3:
                found.in_flight -= 1
                hosts.put(found, NOW)
        seen.append(order)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("rates", [None, DomainRates(1.0, 3.0)])
def test_a_domain_whose_only_page_is_taken_back_is_due_when_it_was(rates: DomainRates | None) -> None:
    hosts = Hosts(domain_of, rates)
    for number, name in enumerate(("x", "x", "x", "x", "y", "z", "x")):
        add(hosts, f"a.{name}.x", number, priority=int(number > 1 and name != "y"))
    for name in ("a.x.x", "a.x.x", "a.z.x", "a.x.x", "a.x.x", "a.y.x"):
        found = hosts.best(NOW)
        assert found is not None
        assert found.name == name
        sort_key = found.take()
        start_visit(hosts, found)
        found.in_flight -= 1
        if name != "a.y.x":
            hosts.put(found, NOW)
    hosts.taken_back(found, NOW)
    found.put_back(sort_key)
    hosts.put(found, NOW)
    assert hosts.best(NOW) is found


def start_visit(hosts: Hosts, host: Host) -> None:
    host.in_flight += 1
    hosts.hand_out(host, NOW)


domains = ("d1.x", "d2.x", "e1.co.uk", "e2.co.uk")
names = st.sampled_from([f"{host}.{domain}" for domain in domains for host in "abc"])
moves = st.lists(
    st.tuples(st.just("add"), names, st.integers(0, 1))
    | st.tuples(st.sampled_from(["visit", "leave", "forget"]), names, st.just(0)),
    max_size=80,
)


def searched(hosts: Hosts, yields_until: Counter[str], handed_out: int) -> str | None:
    """The rule by itself: all ready hosts, the best of each domain, the first of these."""
    best: dict[str, tuple[bytes, int, bytes, str]] = {}
    for host in hosts.by_name.values():
        if host.heads and host.in_flight < 8:
            entry = host.heads[0][: queue_keys.SCORE_BYTES], host.in_flight, host.heads[0], host.name
            domain = domain_of(host.name)
            best[domain] = min(best.get(domain, entry), entry)
    turns = []
    for domain, (score, _, head, name) in best.items():
        of_domain = [host for host in hosts.by_name.values() if domain_of(host.name) == domain]
        is_yielding = yields_until[domain] > handed_out
        turns.append((score, is_yielding, sum(host.in_flight for host in of_domain), head, name))
    return min(turns)[-1] if turns else None


@given(moves)
@settings(max_examples=200, deadline=None)
def test_turns_are_those_of_a_search_through_all_hosts(moves: list[tuple[str, str, int]]) -> None:
    hosts = Hosts(domain_of)
    yields_until: Counter[str] = Counter()
    shared: set[str] = set()  # domains that have had several hosts since they came
    handed_out = number = 0

    for move, name, priority in moves:
        host = hosts.by_name.get(name)
        if move == "add":
            number += 1
            add(hosts, name, number, priority=priority)
            if sum(domain_of(other) == domain_of(name) for other in hosts.by_name) > 1:
                shared.add(domain_of(name))
        elif move == "leave" and host is not None and host.in_flight:
            host.in_flight -= 1
            hosts.put(host, NOW)
        elif move == "forget" and host is not None and not host.heads and not host.in_flight:
            hosts.forget(host, NOW)
            if not any(domain_of(other) == domain_of(name) for other in hosts.by_name):
                del yields_until[domain_of(name)]
                shared.discard(domain_of(name))
        elif move == "visit" and searched(hosts, yields_until, handed_out) is not None:
            others = {domain_of(each.name) for each in hosts.by_name.values() if each.heads}
            chosen = visit(hosts, is_over=False)
            assert chosen
            domain = domain_of(chosen)
            handed_out += 1
            if domain in shared:
                yields_until[domain] = max(yields_until[domain], handed_out) + len(others) - 1
        found = hosts.best(NOW)
        assert (found.name if found is not None else None) == searched(hosts, yields_until, handed_out)


def crawl(directory: Path, pages: int, is_fair: bool) -> tuple[Counter[str], float]:
    """Twenty sites of linked pages, and a domain each page of which links ten new hosts of its own; how often
    each domain was asked, and microseconds a page."""
    store = Store(directory)
    frontier = Frontier(
        store, NOW, FrontierOptions(domain_of=registered_domain if is_fair else lambda host: host)
    )
    asked: Counter[str] = Counter()
    number = 0

    def links(host: str, count: int) -> list[Link]:
        nonlocal number
        found = []
        for _ in range(count):
            number += 1
            name = f"h{number}.trap.example" if host == "trap" else host
            found.append(Link(number.to_bytes(20, "big"), f"http://{name}/{number}", name))
        return found

    sites = [f"www.site{each}.example" for each in range(20)]
    frontier.discover([link for host in ("trap", *sites) for link in links(host, 1)], NOW)
    begin = perf_counter()
    for _ in range(pages):
        lease = frontier.lease(NOW)
        assert lease is not None
        domain = registered_domain(lease.host)
        asked[domain] += 1
        frontier.discover(links("trap", 10) if domain == "trap.example" else links(lease.host, 3), NOW)
        frontier.release(lease, FETCHED, NOW)
    cost = (perf_counter() - begin) / pages
    store.close()
    return asked, cost * 1e6


def test_a_domain_that_spawns_hosts_without_end_takes_a_share_like_all_others(tmp_path: Path) -> None:
    fair, _ = crawl(tmp_path / "fair", 2000, is_fair=True)
    stock, _ = crawl(tmp_path / "stock", 2000, is_fair=False)
    assert stock["trap.example"] > 1000, "without the rule it has most turns"
    assert fair["trap.example"] <= 2000 / 21 + 30
    assert sum(fair[f"site{each}.example"] for each in range(20)) >= 1850


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.example.co.uk", "example.co.uk"),
        ("example.org", "example.org"),
        ("a.b.c.example.org", "example.org"),
        ("user.github.io", "github.io"),
        ("h1.trap.example", "trap.example"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "[::1]"),
        ("localhost", "localhost"),
        ("a slot of somebody's", "a slot of somebody's"),
        ("www.example.org.", "www.example.org."),
        ("www.shop.lan", "shop.lan"),
        ("www.shop.lan.", "www.shop.lan."),
        ("127.0.0.1.", "127.0.0.1."),
        ("", ""),
    ],
)
def test_registered_domains(host: str, domain: str) -> None:
    assert registered_domain(host) == domain


def test_no_host_is_lost_where_the_list_of_suffixes_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An old tldextract has no ``cache_dir``; the frontier asks for domains amid a change."""
    old = SimpleNamespace(TLDExtract=lambda cache_file: None)
    monkeypatch.setitem(sys.modules, "tldextract", old)
    monkeypatch.setattr(politeness_key, "_suffixes", politeness_key._suffixes.__wrapped__)
    for function in (registered_domain, politeness_key._say_unusable):
        function.cache_clear()
    frontier = Frontier(Store(tmp_path), NOW, FrontierOptions(domain_of=registered_domain))
    names = [f"{name}.shop.example" for name in "abc"]
    frontier.discover([Link(name.encode() * 2, f"http://{name}/", name) for name in names], NOW)
    leases = [frontier.lease(NOW) for _ in names]
    frontier.close()
    registered_domain.cache_clear()
    assert sorted(lease.host for lease in leases if lease is not None) == names
    (record,) = caplog.records
    assert "install tldextract>=3.4" in record.getMessage()


# -- age ------------------------------------------------------------------------------------------------


class Supply:
    """Hosts, each with an endless supply of pages of one priority."""

    def __init__(self, priorities: dict[str, int]) -> None:
        self.hosts = Hosts(domain_of)
        self.priorities = priorities
        self.numbers = count()
        for name in priorities:
            self.refill(name)

    def refill(self, name: str) -> None:
        add(self.hosts, name, next(self.numbers), priority=self.priorities[name])

    def hand_out(self) -> str:
        name = visit(self.hosts)
        self.refill(name)
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
        ready = [name for name, host in supply.hosts.by_name.items() if host.state is HostState.READY]
        chosen = supply.hand_out()
        for name in ready:
            waited[name] += 1 / len(ready)
            assert waited[name] <= MOST_ROUNDS + 1, name
        waited[chosen] = 0.0
        if not rng.randrange(20):  # somebody is left alone for a while, or comes back
            host = supply.hosts.by_name[rng.choice(list(supply.priorities))]
            others = sum(each.state is HostState.READY for each in supply.hosts.by_name.values())
            supply.hosts.hold(host, FOREVER if host.state is HostState.READY and others > 1 else 0.0, NOW)
            waited[host.name] = 0.0


def test_an_endless_host_does_not_keep_others_from_their_first_pages() -> None:
    """All its pages are better than theirs; the first come soon, the more they had the later the next."""
    supply = Supply({"endless.org": 9, **{f"www.site{each}.org": 0 for each in range(7)}})
    order = [supply.hand_out() for _ in range(8 * 100)]
    firsts = [order.index(f"www.site{each}.org") for each in range(7)]
    assert max(firsts) <= 8 * (FIRST_ROUNDS + 1)
    shares = Counter(order)
    assert min(shares.values()) >= 8
    assert shares["endless.org"] >= len(order) * 0.8, "best first otherwise"


def test_the_example_of_the_docstring() -> None:
    supply = Supply({"good.org": 1, "poor.org": 0})
    order = [supply.hand_out() for _ in range(1000)]
    turns = [place for place, name in enumerate(order, 1) if name == "poor.org"]
    assert turns[:4] == [5, 14, 27, 44]
    assert turns[-1] - turns[-2] == 65


def test_what_an_earlier_run_fetched_counts() -> None:
    """Or every restart would begin with pages of everybody."""
    supply = Supply({"endless.org": 9})
    for name, done in ("www.new.org", 0), ("www.old.org", 50):
        supply.hosts.by_name[name] = Host(name, HostRow(done=done), Politeness(0.0, 8))
        supply.priorities[name] = 0
        supply.refill(name)
    order = [supply.hand_out() for _ in range(3 * MOST_ROUNDS)]
    assert order.index("www.new.org") <= 3 * (FIRST_ROUNDS + 1)
    assert "www.old.org" not in order


def test_a_host_that_its_domain_passes_over_has_its_turn() -> None:
    supply = Supply({"a.site.org": 9, "b.site.org": 9, "poor.site.org": -9, "www.other.org": 0})
    order = [supply.hand_out() for _ in range(1000)]
    of_domain = [name for name in order if name.endswith("site.org")]
    turns = [at for at, name in enumerate(of_domain) if name == "poor.site.org"]
    assert turns[0] <= WITHIN * 3 + 3
    assert all(after - before <= WITHIN * 3 + 3 for before, after in pairwise(turns))


def test_a_page_comes_again_after_its_backoff_however_much_its_host_has_to_offer(tmp_path: Path) -> None:
    """One that met a 503 and lost priority by it, as Scrapy's retries do, on a host without end."""
    frontier = Frontier(Store(tmp_path), NOW)
    numbers = count()

    def links(priority: int) -> list[Link]:
        number = next(numbers)
        return [Link(number.to_bytes(20, "big"), f"http://endless.org/{number}", "endless.org", priority)]

    frontier.discover(links(0), NOW)
    first = frontier.lease(NOW)
    assert first is not None
    frontier.discover([link for _ in range(30) for link in links(5)], NOW)
    frontier.release(first, Outcome(Event.RETRIED, 503, priority=-1, delay=1.0), NOW)
    others = 0
    for _ in range(WAITED_TURN + 1):
        lease = frontier.lease(NOW + 2)
        assert lease is not None
        if lease.page_id == first.page_id:
            break
        others += 1
        frontier.discover([*links(5), *links(5)], NOW + 2)
        frontier.release(lease, FETCHED, NOW + 2)
    else:
        pytest.fail("it has not come again")
    assert others, "the best page comes first otherwise"
    frontier.put_back(lease, NOW + 2)
    again = frontier.lease(NOW + 2)
    assert again is not None
    assert again.page_id == first.page_id, "what is put back has its turn still"
    frontier.release(again, FETCHED, NOW + 2)
    frontier.close()


def test_two_hosts_of_a_domain_may_be_edited_at_once() -> None:
    """One shares its domain while the other's next pages are being read, and has not got its own place
    yet."""
    hosts = Hosts(domain_of)
    first = add(hosts, "a.shop.example", 1, 2)
    pages = [first.heads.pop() for _ in range(2)]
    add(hosts, "b.shop.example", 3)
    first.heads += pages[::-1]
    hosts.put(first, NOW)
    assert [visit(hosts) for _ in range(3)] == ["a.shop.example"] * 2 + ["b.shop.example"]
