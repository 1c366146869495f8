"""Hosts: the best head among those that may be visited now, and few sort keys in memory."""

from bisect import bisect_right, insort

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_frontier.core.hosts.host import HEADS, Host, HostState, Politeness
from scrapy_frontier.core.hosts.ready_hosts import Hosts
from scrapy_frontier.core.parse.urls import host_of
from scrapy_frontier.core.store import queue_keys
from scrapy_frontier.core.store.records import HostRow

NOW = 1_700_000_000.0


def a_host(
    name: str = "a.example", delay: float = 0.0, concurrency: int = 8, row: HostRow | None = None
) -> Host:
    return Host(name, row or HostRow(), Politeness(delay, concurrency))


def sort_key(number: int, priority: int = 0) -> bytes:
    return queue_keys.sort_key(priority, 0, number, number)


def add(hosts: Hosts, name: str, priority: int, delay: float = 0.0, concurrency: int = 8) -> Host:
    """A new host with one page, in its place."""
    host = hosts.by_name[name] = a_host(name, delay, concurrency)
    host.add(sort_key(len(hosts), priority))
    hosts.put(host, NOW)
    return host


def visit(hosts: Hosts, host: Host, now: float) -> bytes:
    """What `Frontier` does at a lease."""
    taken = host.take()
    host.in_flight += 1
    host.visited, host.ready_at = now, now + host.delay
    hosts.put(host, now)
    return taken


# -- which host -----------------------------------------------------------------------------------------


def test_the_host_with_the_best_page_comes_first() -> None:
    hosts = Hosts()
    low, high, middle = add(hosts, "low", 1), add(hosts, "high", 9), add(hosts, "middle", 5)

    found = []
    while (host := hosts.best(NOW)) is not None:
        visit(hosts, host, NOW)
        found.append(host)

    assert found == [high, middle, low]


def test_asking_for_the_best_host_changes_nothing() -> None:
    hosts = Hosts()
    host = add(hosts, "a", 0)
    assert [hosts.best(NOW) for _ in range(3)] == [host] * 3


def test_without_hosts_there_is_nothing_and_nothing_to_wait_for() -> None:
    hosts = Hosts()
    assert hosts.best(NOW) is None
    assert hosts.next_ready() is None
    assert len(hosts) == 0


def test_among_equals_the_host_with_fewer_requests_under_way_comes_first() -> None:
    hosts = Hosts()
    one, other = add(hosts, "one", 5), add(hosts, "other", 5)
    one.add(sort_key(10, priority=5))
    visit(hosts, one, NOW)
    assert hosts.best(NOW) is other
    visit(hosts, other, NOW)
    assert hosts.best(NOW) is one


def test_a_better_page_brings_its_host_forward() -> None:
    hosts = Hosts()
    one, other = add(hosts, "one", 5), add(hosts, "other", 3)
    assert hosts.best(NOW) is one

    assert other.add(sort_key(10, priority=7))
    hosts.put(other, NOW)

    assert hosts.best(NOW) is other


def test_a_host_cools_for_its_delay_after_a_visit() -> None:
    hosts = Hosts()
    host = add(hosts, "a", 0, delay=10)
    host.add(sort_key(1))
    visit(hosts, host, NOW)

    assert host.state is HostState.DELAYED
    assert hosts.best(NOW + 9.99) is None
    assert hosts.next_ready() == NOW + 10
    assert hosts.best(NOW + 10) is host
    assert host.state is HostState.READY
    assert hosts.next_ready() is None


def test_the_host_that_cools_shortest_is_ready_first() -> None:
    hosts = Hosts()
    for name, delay in ("long", 30), ("short", 10), ("middle", 20):
        host = add(hosts, name, 0, delay)
        host.add(sort_key(50))
        visit(hosts, host, NOW)

    assert hosts.next_ready() == NOW + 10
    assert hosts.best(NOW + 10) is hosts.by_name["short"]


def test_a_delay_that_grew_while_its_host_cooled_is_kept() -> None:
    hosts = Hosts()
    host = add(hosts, "a", 0, delay=10)
    host.add(sort_key(1))
    visit(hosts, host, NOW)

    host.ready_at = NOW + 60
    hosts.put(host, NOW)

    assert hosts.best(NOW + 59) is None
    assert hosts.best(NOW + 60) is host


def test_a_host_with_all_its_requests_under_way_is_busy() -> None:
    hosts = Hosts()
    host = add(hosts, "a", 0, concurrency=2)
    for number in range(1, 4):
        host.add(sort_key(number))
    visit(hosts, host, NOW)
    assert hosts.best(NOW) is host

    visit(hosts, host, NOW)
    assert host.state is HostState.BUSY
    assert hosts.best(NOW + 1000) is None
    assert hosts.next_ready() is None

    host.in_flight -= 1
    hosts.put(host, NOW)
    assert hosts.best(NOW) is host


def test_a_host_without_pages_is_idle() -> None:
    hosts = Hosts()
    host = add(hosts, "a", 0)
    visit(hosts, host, NOW)
    assert host.state is HostState.IDLE
    assert hosts.best(NOW) is None


# -- which hosts are remembered --------------------------------------------------------------------------


def test_a_host_without_a_delay_is_forgotten_at_once() -> None:
    hosts = Hosts()
    host = add(hosts, "a", 0)
    visit(hosts, host, NOW)
    hosts.forget(host, NOW)
    assert len(hosts) == 0


def test_a_delayed_host_is_forgotten_when_its_delay_has_passed() -> None:
    hosts = Hosts()
    host = add(hosts, "a", 0, delay=10)
    visit(hosts, host, NOW)
    hosts.forget(host, NOW)

    assert host.state is HostState.LINGERING
    assert hosts.best(NOW + 9) is None
    assert len(hosts) == 1
    assert hosts.best(NOW + 10) is None
    assert len(hosts) == 0


def test_a_delayed_host_that_gets_a_page_keeps_to_its_delay() -> None:
    hosts = Hosts()
    host = add(hosts, "a", 0, delay=10)
    visit(hosts, host, NOW)
    host.in_flight -= 1
    hosts.forget(host, NOW)

    host.add(sort_key(1))
    hosts.put(host, NOW + 5)

    assert hosts.best(NOW + 9) is None
    assert hosts.best(NOW + 10) is host
    assert hosts.best(NOW + 100) is host


def test_a_host_known_from_before_keeps_to_its_delay() -> None:
    assert a_host(delay=10, row=HostRow(visited=NOW)).ready_at == NOW + 10
    assert a_host(delay=10).ready_at == 0.0


def test_many_changes_of_one_host_leave_no_pile_of_old_entries() -> None:
    hosts = Hosts()
    for name in "abc":
        add(hosts, name, 0)
    for number in range(10_000):
        hosts.put(hosts.by_name["abc"[number % 3]], NOW)
    assert len(hosts._turns._heap) <= 64 + 4 * 3 + 1
    assert hosts.best(NOW) is hosts.by_name["a"]


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_the_best_host_is_the_one_a_plain_search_finds(data: st.DataObject) -> None:
    hosts, now, added = Hosts(), NOW, 0
    for name in "abcd":
        hosts.by_name[name] = a_host(
            name, data.draw(st.sampled_from([0, 1, 5])), data.draw(st.integers(1, 2))
        )

    for _ in range(40):
        host = hosts.by_name[data.draw(st.sampled_from("abcd"))]
        move = data.draw(st.sampled_from(["add", "add", "lease", "end", "time"]))
        if move == "add":
            added += 1
            host.add(sort_key(added, data.draw(st.integers(0, 2))))
            hosts.put(host, now)
        elif move == "end" and host.in_flight:
            host.in_flight -= 1
            hosts.put(host, now)
        elif move == "time":
            now += data.draw(st.sampled_from([0.5, 1, 5]))
        ready = [
            h for h in hosts.by_name.values() if h.heads and h.in_flight < h.concurrency and h.ready_at <= now
        ]
        best = hosts.best(now)
        assert best is min(
            ready, key=lambda h: (h.heads[0][: queue_keys.SCORE_BYTES], h.in_flight, h.heads[0]), default=None
        )
        if move == "lease" and best is not None:
            visit(hosts, best, now)


# -- which page of a host --------------------------------------------------------------------------------


def test_a_host_with_a_thousand_pages_keeps_few_in_memory_and_serves_all_in_order() -> None:
    host, disk = a_host(), [sort_key(number, number % 7) for number in range(1000)]
    for one in disk:
        host.add(one)
        assert len(host.heads) <= 2 * HEADS
    assert host.more

    assert drain(host, sorted(disk)) == sorted(disk)


def test_a_page_behind_those_in_memory_stays_on_disk() -> None:
    host = a_host()
    for number in range(2 * HEADS + 1):
        host.add(sort_key(number))
    assert host.heads == [sort_key(number) for number in range(HEADS)]

    assert not host.add(sort_key(100))
    assert host.add(sort_key(101, priority=1))
    assert host.heads[0] == sort_key(101, priority=1)
    assert len(host.heads) == HEADS + 1


def test_sort_keys_that_are_leased_are_not_taken_in_again() -> None:
    """Their rows stay on disk until the lease ends, so a fill meets them."""
    host = a_host()
    for number in range(3):
        host.add(sort_key(number))
    taken = [host.take(), host.take()]
    host.more, host.cursor, host.heads = True, b"", []

    host.filled([sort_key(number) for number in range(3)], HEADS)

    assert taken == [sort_key(0), sort_key(1)]
    assert host.heads == [sort_key(2)]
    assert not host.more


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.sampled_from([True, False, False]), st.integers(-3, 3)), max_size=120))
def test_pages_come_in_order_whatever_comes_between(moves: list[tuple[bool, int]]) -> None:
    host, disk, model = a_host(), [], []
    for number, (takes, priority) in enumerate(moves):
        if takes:
            assert bool(model) == bool(host.heads)
            if model:
                taken = host.take()
                assert taken == model.pop(0)
                fill(host, disk)
        else:
            new = sort_key(number, priority)
            model.append(new)
            model.sort()
            insort(disk, new)
            assert host.add(new) == (model[0] == new)
        assert len(host.heads) <= 2 * HEADS

    assert drain(host, disk) == model


def fill(host: Host, disk: list[bytes]) -> None:
    """What `Frontier` does: read on behind the cursor. Rows of leased pages are still there."""
    while host.needs_sort_keys():
        start = bisect_right(disk, host.cursor)
        host.filled(disk[start : start + HEADS], HEADS)


def drain(host: Host, disk: list[bytes]) -> list[bytes]:
    found = []
    while host.heads:
        found.append(host.take())
        fill(host, disk)
    return found


# -- names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://a.example/x", "a.example"),
        ("https://A.Example:8443?q", "a.example"),
        ("http://a.example", "a.example"),
        ("http://user:secret@a.example/", "a.example"),
        ("http://[::1]:80/", "::1"),
        ("http://bücher.example/", "bücher.example"),
        ("http://a.example:port/", "a.example"),
        ("ftp://a.example/x", "a.example"),
        ("http://a.example\\@b.example/", "b.example"),
        ("data:text/plain,hello", ""),
        ("http:///path", ""),
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


def test_repr_shows_state() -> None:
    hosts = Hosts()
    add(hosts, "a", 0)
    host = add(hosts, "b", 0, delay=10)
    host.add(sort_key(9))
    visit(hosts, host, NOW)
    assert repr(hosts) == "<Hosts 1 ready, 1 delayed>"
    assert repr(host) == "<Host b delayed, 1 heads, 1 in flight>"
