"""Domains over their rates: behind all others above the soft rate, not at all above the hard one."""

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link
from scrapy_frontier.core.hosts.host import Host, Politeness
from scrapy_frontier.core.hosts.ready_hosts import Hosts
from scrapy_frontier.core.hosts.turns import BURST, DomainRates, RecentPages
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.store import queue_keys
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import HostRow
from scrapy_frontier.core.transitions import Event

NOW = 1_700_000_000.0
FETCHED = Outcome(Event.FETCHED, 200)


def domain_of(host: str) -> str:
    return host.rpartition("/")[2]


# -- recent pages ------------------------------------------------------------------------------------------


@given(st.floats(0.001, 1000))
def test_what_waits_until_it_may_comes_at_the_rate(rate: float) -> None:
    """After the burst; in double precision, so that the real time of day does not matter."""
    pages, now = RecentPages(rate), NOW
    for _ in range(BURST):
        assert not pages.wait(now)
        pages.add(now)
    begin = now
    for _ in range(100):
        assert pages.wait(now)
        now += pages.wait(now)
        pages.add(now)
    grain = 100 * (1e-3 + 2.4e-7)  # what each wait is longer
    assert 99 / rate <= now - begin <= 102 / rate + grain


def test_recent_pages_are_forgotten_without_anything_happening() -> None:
    pages = RecentPages(1.0)
    for _ in range(100):
        pages.add(NOW)
    assert pages.at(NOW) == 100
    assert pages.at(NOW + 10) == pytest.approx(36.8, abs=0.1)
    assert pages.at(NOW + 1000) < 1e-6
    assert not pages.wait(NOW + 1000)


# -- hosts -----------------------------------------------------------------------------------------------


def host(name: str, number: int, priority: int, pages: int = 1) -> Host:
    found = Host(name, HostRow(), Politeness(0.0, 1000))
    for page in range(pages):
        found.add(queue_keys.sort_key(priority, 0, number * 1000 + page, number * 1000 + page))
    return found


def hand_out(hosts: Hosts, now: float) -> Iterator[str]:
    """Names of the hosts whose pages are handed out at *now*."""
    while (found := hosts.best(now)) is not None:
        found.take()
        found.in_flight += 1
        hosts.hand_out(found, now)
        yield found.name


def hosts_of(names: dict[str, int], rates: DomainRates) -> Hosts:
    """A page on each host, with its priority."""
    hosts = Hosts(domain_of, rates)
    for number, (name, priority) in enumerate(names.items()):
        hosts.by_name[name] = host(name, number, priority)
        hosts.put(hosts.by_name[name], NOW)
    return hosts


def test_above_the_soft_rate_all_others_come_first() -> None:
    """The best pages are all of one domain: after its burst at the latest the worst pages of others come."""
    names = {**{f"{number}/many": 100 - number for number in range(30)}, "1/one": -5, "1/two": -9}
    found = list(hand_out(hosts_of(names, DomainRates(1.0, 0.0)), NOW))
    assert [name for name in found if name.endswith("many")] == [f"{number}/many" for number in range(30)]
    assert {found.index("1/one"), found.index("1/two")} <= set(range(BURST + 2))


def test_a_domain_that_has_cooled_comes_first_again() -> None:
    names = {f"{number}/many": 100 - number for number in range(30)}
    hosts = hosts_of({**names, **{f"{number}/one": -5 for number in range(9)}}, DomainRates(1.0, 0.0))
    taken = list(islice(hand_out(hosts, NOW), BURST + 2))
    assert sum(name.endswith("many") for name in taken) == BURST
    best = hosts.best(NOW)
    assert best is not None
    assert best.name.endswith("one")
    best = hosts.best(NOW + 2)
    assert best is not None
    assert best.name.endswith("many")


def test_above_the_hard_rate_nothing_comes_until_it_has_cooled() -> None:
    names = {f"{number}/many": 100 - number for number in range(30)}
    hosts = hosts_of({**names, "1/one": -5}, DomainRates(0.0, 0.5))
    assert sorted(hand_out(hosts, NOW)) == sorted([*list(names)[:BURST], "1/one"])
    when = hosts.next_ready()
    assert when is not None
    assert 1.0 < when - NOW < 1.1  # the first one waits from half a page over the limit
    assert list(hand_out(hosts, when - 0.01)) == []
    assert list(hand_out(hosts, when)) == ["10/many"]
    following = hosts.next_ready()
    assert following is not None
    assert following - when == pytest.approx(2.0, abs=0.02)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from("abc"), st.integers(-2, 2)), max_size=60),
    st.lists(st.sampled_from([0.0, 0.05, 0.3, 1.0, 4.0, 40.0]), max_size=60),
    st.sampled_from([0.0, 0.5, 3.0]),
    st.sampled_from([0.0, 1.0, 5.0]),
)
def test_every_page_is_handed_out_once_and_no_domain_is_faster_than_allowed(
    pages: list[tuple[int, str, int]], pauses: list[float], soft: float, hard: float
) -> None:
    hosts = Hosts(domain_of, DomainRates(soft, hard))
    now, waiting = NOW, dict(enumerate(pages))
    found: list[tuple[float, int]] = []
    for step in range(10_000):
        for number in [number for number in waiting if number <= step]:
            name, priority = f"{pages[number][0]}/{pages[number][1]}", waiting.pop(number)[2]
            added = hosts.by_name.setdefault(name, Host(name, HostRow(), Politeness(0.0, 3)))
            added.add(queue_keys.sort_key(priority, 0, number, number))
            hosts.put(added, now)
        best = hosts.best(now)
        if best is not None:
            found.append((now, queue_keys.sort_key_id(best.take())))
            best.in_flight += 1
            hosts.hand_out(best, now)
            best.in_flight -= step % 2  # some are answered at once
            hosts.put(best, now)
        elif not waiting and all(not each.heads or each.in_flight >= 3 for each in hosts.by_name.values()):
            for each in hosts.by_name.values():
                each.in_flight = 0
                hosts.put(each, now)
            if not any(each.heads for each in hosts.by_name.values()):
                break
        else:
            when = hosts.next_ready()
            assert when is not None or waiting
            now = max(now, when or now)
        now += pauses[step] if step < len(pauses) else 0.0
    assert sorted(number for _, number in found) == list(range(len(pages)))
    if hard:
        for domain in "abc":
            times = [when for when, number in found if pages[number][1] == domain]
            for first in range(len(times)):
                for last in range(first, len(times)):
                    assert last - first + 1 <= BURST + hard * (times[last] - times[first]) + 1.5


def test_heaps_and_domains_do_not_pile_up() -> None:
    hosts = Hosts(domain_of, DomainRates(0.1, 0.0))
    rng = random.Random(1)
    for number in range(3000):
        now = NOW + number
        name = f"{rng.randrange(20)}/{number}"
        hosts.by_name[name] = host(name, number, rng.randrange(9))
        hosts.put(hosts.by_name[name], now)
        for found in hand_out(hosts, now):
            hosts.by_name[found].in_flight = 0
            hosts.forget(hosts.by_name[found], now)
    assert hosts._limiter is not None
    assert len(hosts._limiter._domains) <= 400
    assert len(hosts._limiter._over) <= 400


# -- the frontier ----------------------------------------------------------------------------------------


def test_a_crawl_over_virtual_time_keeps_the_rate_of_a_domain(tmp_path: Path) -> None:
    """A thousand hosts of one domain, and one of another: that one is served at once."""
    frontier = Frontier(
        Store(tmp_path), NOW, FrontierOptions(rates=DomainRates(0.0, 2.0), domain_of=domain_of)
    )
    links = [
        Link(str(n).encode().rjust(20), f"http://{n}/", f"{n}/many", kept_host=f"{n}/many") for n in range(50)
    ]
    frontier.discover([*links, Link(b"x" * 20, "http://x/", "x/one", kept_host="x/one")], NOW)
    now, found = NOW, []
    while frontier.pending:
        lease = frontier.lease(now)
        if lease is not None:
            found.append((now, lease.host))
            frontier.release(lease, FETCHED, now)
            continue
        when = frontier.wake_at()
        assert when is not None
        assert when > now
        now = when
    assert (NOW, "x/one") in found
    assert (50 - BURST) / 2.0 - 1 <= now - NOW <= (50 - BURST) / 2.0 + 1
    frontier.close()


def crawl(frontier: Frontier, begin: float, end: float, times: list[float]) -> None:
    """Hand out all that may be until *end*, over virtual time."""
    now = begin
    while not frontier.load(now):
        pass
    while now < end:
        lease = frontier.lease(now)
        if lease is not None:
            times.append(now)
            frontier.release(lease, FETCHED, now)
            continue
        now = frontier.wake_at() or end


@pytest.mark.parametrize("every", [0.4, 3.0, 11.0])
def test_no_crawl_that_is_started_again_is_faster_than_one_that_goes_on(tmp_path: Path, every: float) -> None:
    """Two pages a second: hosts with pages, hosts without, and runs that last shorter than a burst."""
    times: list[float] = []
    names = [f"{n % 40}/many" for n in range(60)]
    links = [
        Link(str(n).encode().rjust(20), f"http://{n}/", name, kept_host=name) for n, name in enumerate(names)
    ]
    for run in range(int(22 / every)):
        begin = NOW + run * every
        frontier = Frontier(
            Store(tmp_path), begin, FrontierOptions(rates=DomainRates(0.0, 2.0), domain_of=domain_of)
        )
        frontier.discover(links, begin)
        crawl(frontier, begin, begin + every, times)
        frontier.close()
    assert len(times) > 35
    for first in range(len(times)):
        for last in range(first, len(times)):
            assert last - first + 1 <= BURST + 2.0 * (times[last] - times[first]) + 1.5


def test_a_domain_visited_long_ago_may_come_at_once_again(tmp_path: Path) -> None:
    links = [Link(str(n).encode().rjust(20), f"http://{n}/", "0/one", kept_host="0/one") for n in range(40)]
    for begin in (NOW, NOW + 60):
        frontier = Frontier(
            Store(tmp_path), begin, FrontierOptions(rates=DomainRates(0.0, 2.0), domain_of=domain_of)
        )
        frontier.discover(links, begin)
        times: list[float] = []
        crawl(frontier, begin, begin + 0.1, times)
        assert len(times) == BURST
        frontier.close()
