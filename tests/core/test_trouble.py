"""Hosts in trouble: how long they rest, when they are given up, and when a crawl ends without them."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from openings import let_go, opened  # noqa: F401 - `let_go` works by being here

from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link
from scrapy_frontier.core.hosts.host import FOREVER, FROM_SETTINGS, OPERATOR, Politeness, Trouble, deciding
from scrapy_frontier.core.hosts.trouble import (
    FIRST_REST,
    JITTER,
    PATIENCE,
    GiveUpRule,
    after_trouble,
    at_start,
    trouble_at,
)
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.parse.urls import origin_of
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import (
    COOLDOWN,
    FORGIVEN,
    LONGEST_ASKED,
    Cooldown,
    read_cooldown,
)
from scrapy_frontier.core.transitions import Event

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scrapy_frontier.core.pages.leases import Lease

NOW = 1_700_000_000.0
DAY = 86_400.0
RULE = FIRST_REST
WAIT = 300.0
A, B = "a.example", "b.example"
FETCHED = Outcome(Event.FETCHED, 200)
POSTPONED = Outcome(Event.POSTPONED)
FAILED = Outcome(Event.FAILED)
GIVE_UP_RULE = GiveUpRule(3, lambda attempts: float(2 ** (attempts - 1)))

CHANCES = st.floats(0, 1)
TIMES = st.floats(0, 2e9)
COOLDOWNS = st.builds(
    lambda since, rest, *others: Cooldown(since + rest, others[0], since, *others[1:]),
    TIMES,
    st.floats(0, DAY),
    st.integers(1, 2**31 - 1),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.booleans(),
)


# -- the rule --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "line", "trouble"),
    [
        (200, "9", None),
        (404, "9", None),  # it will stay, whatever its header says
        (410, "9", None),
        (403, "", None),
        (403, "9", Trouble("HTTP 403", 9)),
        (413, "9", Trouble("HTTP 413", 9)),
        (429, "", Trouble("HTTP 429", 0)),
        (429, "soon", Trouble("HTTP 429", 0)),
        (429, "9", Trouble("HTTP 429", 9)),
        (429, "Tue, 14 Nov 2023 22:14:00 GMT", Trouble("HTTP 429", 40)),
        (429, "Tue, 14 Nov 2023 22:00:00 GMT", Trouble("HTTP 429", 0)),
        (500, "", None),
        (500, "0", None),
        (502, "9", Trouble("HTTP 502", 9)),
        (503, "", Trouble("HTTP 503", 0, may_be_page=True)),
        (503, "0", Trouble("HTTP 503", 0, may_be_page=True)),
        (503, "9", Trouble("HTTP 503", 9)),
        (503, "999999", Trouble("HTTP 503", DAY)),
        (600, "9", None),
    ],
)
def test_an_error_is_trouble_of_the_host_if_it_is_said_to_pass(
    status: int, line: str, trouble: Trouble | None
) -> None:
    assert trouble_at(status, line, NOW) == trouble


@given(CHANCES, st.integers(1, 200))
def test_each_strike_doubles_the_rest_up_to_a_day(chance: float, strikes: int) -> None:
    found: Cooldown | None = None
    now = NOW
    for strike in range(1, strikes + 1):
        found = after_trouble(found, RULE, now, Trouble("HTTP 503", sent=now), chance=chance)
        rest = min(60 * 2 ** (strike - 1), DAY)
        assert found.strikes == strike
        assert rest - 1e-6 <= found.until - now <= rest * (1 + JITTER) + 1e-6
        now = found.until


@given(st.floats(-1e12, 1e12) | st.just(float("inf")), CHANCES, st.integers(0, 5))
@example(0.0, 0.0, 0)
@example(0.5, 1.0, 5)
def test_what_the_host_asks_for_wins_within_a_day(asked: float, chance: float, strikes: int) -> None:
    before = Cooldown(NOW - 1, strikes, NOW - 61, "HTTP 503") if strikes else None
    found = after_trouble(before, RULE, NOW, Trouble("HTTP 429", asked=asked, sent=NOW), chance=chance)
    rest = min(asked, LONGEST_ASKED) if asked > 0 else 60 * 2**strikes
    assert rest - 1e-6 <= found.until - NOW <= rest * (1 + JITTER) + 1e-6


@given(COOLDOWNS, st.floats(0, 1), st.none() | st.floats(1, DAY), CHANCES)
def test_a_request_from_before_the_strike_adds_none(
    before: Cooldown, share: float, asked: float | None, chance: float
) -> None:
    """Trouble of the same incident makes the rest no shorter, and longer only by what the host asks for."""
    now = before.since + share * (before.until - before.since)
    found = after_trouble(
        before, RULE, now, Trouble("timed out", asked=asked, sent=before.since), chance=chance
    )
    assert found[1:] == before[1:]
    assert found.until >= before.until
    assert asked is not None or found.until == before.until
    assert asked is None or found.until >= now + asked


def test_strikes_start_over_after_an_answer_and_thirty_quiet_minutes() -> None:
    """Counted from the end of the rest; without an answer they go on. One rest is one incident."""
    before = Cooldown(NOW, 9, NOW - 30_000, "refused", is_answering=True)
    late = after_trouble(before, RULE, NOW + FORGIVEN, Trouble("refused", sent=NOW))
    assert (late.strikes, late.until) == (1, NOW + FORGIVEN + 60)
    assert after_trouble(before, RULE, NOW + FORGIVEN - 1, Trouble("refused", sent=NOW)).strikes == 10
    silent = before._replace(is_answering=False)
    assert after_trouble(silent, RULE, NOW + 10 * DAY, Trouble("refused", sent=NOW)).strikes == 10
    resting = Cooldown(NOW + 60, 1, NOW, "refused")
    assert [after_trouble(resting, RULE, NOW + s, Trouble("refused")).strikes for s in (59, 61)] == [1, 2]


def test_the_largest_delay_decides_and_the_operator_over_all() -> None:
    asked = {FROM_SETTINGS: 2.0, "http://a.example": 5.0}
    assert deciding(asked) == (5.0, "http://a.example")
    assert deciding({**asked, "http://a.example": 2.0}) == (2.0, FROM_SETTINGS)
    assert deciding({**asked, OPERATOR: 1.0}) == (1.0, OPERATOR)


# -- the row ---------------------------------------------------------------------------------------------


@given(COOLDOWNS, st.integers(0, 19))
def test_a_row_that_is_torn_says_that_there_was_trouble(found: Cooldown, length: int) -> None:
    assert at_start(COOLDOWN.encode(found)[:length], NOW, RULE).until == NOW + RULE


@given(COOLDOWNS, TIMES)
def test_a_clock_set_back_makes_no_rest_longer(found: Cooldown, opened_at: float) -> None:
    kept = at_start(COOLDOWN.encode(found), opened_at, RULE)
    assert kept.until - max(kept.since, opened_at) <= found.until - found.since + 1e-3
    assert kept == found or found.since > opened_at


# -- the frontier ----------------------------------------------------------------------------------------


class NoChance:
    """No jitter."""

    def random(self) -> float:
        return 0.0


def start(directory: Path, now: float = NOW, **options: Any) -> Frontier:
    opened.append(Store(directory))
    frontier = Frontier(opened[-1], now, FrontierOptions(rng=NoChance(), **options))  # type: ignore[arg-type]
    while not frontier.load(now):
        pass
    return frontier


def kill(frontier: Frontier) -> None:
    frontier._store.close()


def page(name: str, host: str = "a.example", **kept: Any) -> Link:
    return Link(name.encode().rjust(20, b"."), f"http://{host}/{name}", host, **kept)


def take(frontier: Frontier, now: float = NOW) -> Lease:
    lease = frontier.lease(now)
    assert lease is not None
    return lease


def name_of(lease: Lease) -> str:
    return lease.page.url.rpartition("/")[2]


def fetch(frontier: Frontier, now: float) -> str:
    """The name of the next page, which its host answers at once."""
    lease = take(frontier, now)
    frontier.on_response(lease, now, True)
    frontier.release(lease, FETCHED, now)
    return name_of(lease)


def meet(
    frontier: Frontier, lease: Lease, now: float, reason: str = "HTTP 429", seconds: float | None = None
) -> bool:
    """Trouble with a page, which is postponed; whether it keeps its attempts."""
    trouble = Trouble(reason, seconds, reason == "timed out", lease.leased_at, lease.page_id)
    rest = frontier.record_cooldown(lease.host, trouble, now)
    frontier.on_response(lease, now)
    outcome = POSTPONED if rest.keeps_attempts else Outcome(Event.RETRIED, reason=reason)
    frontier.release(lease, outcome, now)
    return rest.keeps_attempts


def test_one_incident_is_one_strike(tmp_path: Path) -> None:
    frontier = start(tmp_path, default_politeness=Politeness(0.0, 3))
    frontier.discover([page(str(number)) for number in range(9)], NOW)
    leases = [take(frontier) for _ in range(3)]
    for second, lease in enumerate(leases):
        assert meet(frontier, lease, NOW + second)
    assert frontier.wake_at() == NOW + 60
    probe = take(frontier, NOW + 60)
    assert frontier.lease(NOW + 60) is None
    assert meet(frontier, probe, NOW + 61)
    assert frontier.lease(NOW + 61 + 119) is None
    assert frontier.lease(NOW + 61 + 120) is not None
    frontier.close()


@pytest.mark.parametrize("stopped", [Frontier.close, kill])
def test_a_rest_survives_a_restart(tmp_path: Path, stopped: Any) -> None:
    frontier = start(tmp_path)
    frontier.discover([page("1"), page("2")], NOW)
    frontier.record_cooldown("a.example", Trouble("HTTP 429", 600, sent=take(frontier).leased_at), NOW)
    stopped(frontier)

    frontier = start(tmp_path, NOW + 5)
    assert frontier.lease(NOW + 599) is None
    assert frontier.wake_at() == NOW + 600
    stopped(frontier)

    frontier = start(tmp_path, NOW + 601)
    take(frontier, NOW + 601)
    assert frontier.lease(NOW + 601) is None  # one at a time until it answers
    frontier.close()


def test_an_answer_opens_the_host_and_thirty_quiet_minutes_forgive_it(tmp_path: Path) -> None:
    frontier = start(tmp_path, default_politeness=Politeness(0.0, 2))
    frontier.discover([page(str(number)) for number in range(9)], NOW)
    meet(frontier, take(frontier), NOW)
    fetch(frontier, NOW + 60)
    first, second = take(frontier, NOW + 61), take(frontier, NOW + 61)
    for lease in (first, second):
        frontier.release(lease, POSTPONED, NOW + 61)
    key = keys.cooldown_key("a.example")
    assert frontier._store.get(key) is not None
    fetch(frontier, NOW + 60 + FORGIVEN)
    assert frontier._store.get(key) is None
    meet(frontier, take(frontier, NOW + 60 + FORGIVEN), NOW + 60 + FORGIVEN)
    assert frontier.wake_at() == NOW + 120 + FORGIVEN
    frontier.close()


def test_an_answer_to_a_request_from_before_the_trouble_proves_nothing(tmp_path: Path) -> None:
    frontier = start(tmp_path, default_politeness=Politeness(0.0, 2))
    frontier.discover([page(str(number)) for number in range(9)], NOW)
    early, other = take(frontier), take(frontier)
    meet(frontier, other, NOW + 1)
    frontier.on_response(early, NOW + 2, True)
    take(frontier, NOW + 61)
    assert frontier.lease(NOW + 61) is None
    frontier.close()


def test_a_page_whose_own_fault_it_is_fails_and_its_host_never_rests_long(tmp_path: Path) -> None:
    """It is the best page of its host and times out always: others ask first whether the host is back."""
    frontier = start(tmp_path, default_politeness=Politeness(0.0, 1), max_attempts=3)
    frontier.discover([page("bad", priority=9), *(page(str(number)) for number in range(9))], NOW)
    now, kept = NOW, []
    for _ in range(4):
        bad = take(frontier, now)
        assert name_of(bad) == "bad"
        kept.append(meet(frontier, bad, now, "timed out"))
        assert frontier.lease(now + 59) is None
        now += 60
        assert fetch(frontier, now) != "bad"
    assert kept == [True, False, False, False]
    found = frontier.page(bad.page_id)
    assert found is not None
    assert (found.state, found.attempts) == (State.FAILED, 3)
    frontier.close()


@pytest.mark.parametrize("is_killed", [False, True])
def test_trouble_of_a_host_that_is_not_known_is_remembered(tmp_path: Path, is_killed: bool) -> None:
    frontier = start(tmp_path)
    frontier.record_cooldown("a.example", Trouble("HTTP 429", 30), NOW)
    if is_killed:
        kill(frontier)
        frontier = start(tmp_path, NOW + 1)
    frontier.discover([page("1")], NOW + 1)
    assert frontier.lease(NOW + 29) is None
    take(frontier, NOW + 30)
    frontier.close()


def test_the_first_connection_that_breaks_costs_no_rest(tmp_path: Path) -> None:
    """It may have been kept open for too long; the next one counts, and an answer ends the doubt."""
    frontier = start(tmp_path)
    frontier.discover([page(str(number)) for number in range(9)], NOW)
    broken = Trouble("connection lost", may_be_page=True, may_be_connection=True)

    def meet_broken() -> tuple[bool, bool]:
        lease = take(frontier)
        trouble = broken._replace(sent=lease.leased_at, page_id=lease.page_id)
        rest = frontier.record_cooldown(A, trouble, NOW)
        frontier.on_response(lease, NOW)
        frontier.release(lease, POSTPONED, NOW)
        return rest.is_new, rest.keeps_attempts

    assert meet_broken() == (False, True)
    fetch(frontier, NOW)
    assert meet_broken() == (True, False), "the same page again"
    assert frontier.lease(NOW + 59) is None
    frontier.close()


# -- giving up -------------------------------------------------------------------------------------------


class Ways(NamedTuple):
    """What a host does: the ``reason`` of the trouble it makes, "" where it answers, and its Retry-After."""

    reason: str = ""
    asked: float = 0.0
    may_be_page: bool = False


REFUSED = Ways("connection refused")
TIMED_OUT = Ways("timed out", may_be_page=True)
BUSY = Ways("HTTP 429")
FINE = Ways()


class Crawl:
    """Fetches what the frontier hands out, until that says to end. *ways* are by origin."""

    def __init__(self, frontier: Frontier, ways: dict[str, Ways]) -> None:
        self.frontier, self.ways, self.now = frontier, ways, NOW
        self.asked: list[tuple[float, str]] = []
        self.ended: dict[str, str] = {}

    def times(self, host: str = "") -> list[float]:
        """Seconds at which *host* was asked."""
        return [round(when - NOW, 2) for when, url in self.asked if host in url]

    def run(self) -> Crawl:
        while True:
            while (lease := self.frontier.lease(self.now)) is not None:
                self.fetch(lease)
                self.now += 1e-6  # what is sent after a strike is not sent with it
            if not self.frontier.pending:
                return self
            end = self.frontier.ends_at(self.now, WAIT)
            if end is not None and end <= self.now:
                return self
            wake = self.frontier.wake_at()
            assert wake is not None
            assert wake < FOREVER
            self.now = max(self.now, wake)

    def fetch(self, lease: Lease) -> None:
        url, now = lease.page.url, self.now
        where = origin_of(url)
        assert where is not None
        if lease.given_up is not None:
            self.ended[url] = str(lease.given_up.failure or lease.given_up.reason)
            self.frontier.release(lease, FAILED, now)
            return
        self.asked.append((now, url))
        way = self.ways[where]
        if not way.reason:
            self.ended[url] = "fetched"
            self.frontier.on_response(lease, now, True)
            self.frontier.release(lease, FETCHED, now)
            return
        is_silent = not way.reason.startswith("HTTP")
        trouble = Trouble(way.reason, way.asked, way.may_be_page, now, lease.page_id)
        trouble = trouble._replace(origin=where, is_silent=is_silent, failure=f"{where} {way.reason}")
        outcome = POSTPONED
        if not self.frontier.record_cooldown(lease.host, trouble, now).keeps_attempts:
            outcome = Outcome(Event.RETRIED, delay=GIVE_UP_RULE.pause(lease.page.attempts + 1))
            if lease.page.attempts == GIVE_UP_RULE.attempts - 1:
                outcome, self.ended[url] = FAILED, way.reason
        self.frontier.release(lease, outcome, now)


def crawl(
    directory: Path, ways: dict[str, Ways], pages: int, rule: GiveUpRule | None = GIVE_UP_RULE
) -> Crawl:
    frontier = start(directory, default_politeness=Politeness(0.0, 1), give_up_rule=rule)
    links = []
    for where in ways:
        host = where.partition("//")[2].partition(":")[0]
        for number in range(pages):
            link = page(f"{where}{number}"[-20:], host)
            links.append(replace(link, url=f"{where}/{number}"))
    frontier.discover(links, NOW)
    return Crawl(frontier, ways).run()


def test_a_host_that_never_answers_is_asked_as_often_as_a_page(tmp_path: Path) -> None:
    done = crawl(tmp_path, {f"http://{A}": REFUSED}, 50)
    assert done.times() == [0, 1, 3]
    assert Counter(done.ended.values()) == {f"http://{A} connection refused": 50}
    assert done.now < NOW + 3.1


def test_a_port_that_is_closed_says_nothing_about_another(tmp_path: Path) -> None:
    ways = {f"http://{A}": REFUSED, f"https://{A}": FINE, f"http://{A}:8080": TIMED_OUT}
    done = crawl(tmp_path, ways, 20)
    found = Counter(done.ended.values())
    assert found["fetched"] == 20
    assert found[f"http://{A} connection refused"] == found[f"http://{A}:8080 timed out"] == 20
    assert len(done.asked) < 30


def test_a_host_that_stops_answering_has_the_patience_of_the_crawl(tmp_path: Path) -> None:
    frontier = start(tmp_path, default_politeness=Politeness(0.0, 1), give_up_rule=GIVE_UP_RULE)
    frontier.discover([page(f"a{number}", A) for number in range(30)], NOW)
    done = Crawl(frontier, {f"http://{A}": FINE})
    done.fetch(take(frontier, NOW))
    done.ways[f"http://{A}"] = REFUSED
    done.run()
    assert done.times() == [0, 0, 60, 180]
    assert len(done.ended) == 30


@settings(deadline=None, max_examples=40)
@given(
    st.dictionaries(
        st.sampled_from([f"{scheme}://{host}" for host in "abc" for scheme in ("http", "https")]),
        st.sampled_from([REFUSED, TIMED_OUT, BUSY, FINE, Ways("HTTP 503", 200.0), Ways("HTTP 429", 4000.0)]),
        min_size=1,
    ),
    st.integers(1, 12),
)
def test_whatever_hosts_do_no_page_is_left(
    tmp_path_factory: pytest.TempPathFactory, ways: dict[str, Ways], pages: int
) -> None:
    done = crawl(tmp_path_factory.mktemp("frontier"), ways, pages)
    assert done.frontier.pending == 0
    assert len(done.ended) == pages * len(ways)
    per_page = Counter(url for _, url in done.asked)
    assert max(per_page.values()) <= 2 * PATIENCE
    answering = {url for url in done.ended if not ways[origin_of(url) or ""].reason}
    alone = {url for url in answering if len({where for where in ways if where.split("/")[2] in url}) == 1}
    assert {done.ended[url] for url in alone} <= {"fetched"}
    done.frontier.close()
    opened.clear()


def test_with_a_directory_a_dead_host_is_given_up_after_ten_strikes(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    frontier.discover([page(f"a{number}", A) for number in range(30)], NOW)
    done = Crawl(frontier, {f"http://{A}": REFUSED})
    while frontier.pending:
        lease = frontier.lease(done.now)
        if lease is None:
            wake = frontier.wake_at()
            assert wake is not None
            done.now = wake
        else:
            done.fetch(lease)
            done.now += 1e-6
    assert len(done.asked) == PATIENCE + 1
    assert len(done.ended) == 30
    assert done.now - NOW > 16 * 3600
    rest = read_cooldown(frontier._store, A)
    assert rest is not None
    assert rest.until > done.now + 60, "the host itself rests on"
    frontier.discover([page("new", A)], done.now)
    assert frontier.lease(done.now) is None
    assert frontier.lease(rest.until) is not None


def test_with_a_directory_pages_stay_queued_until_then(tmp_path: Path) -> None:
    done = crawl(tmp_path, {f"http://{A}": REFUSED}, 5, rule=None)
    assert done.ended == {}
    assert done.frontier.left_over(done.now)[:3] == (5, 1, (f"{A} (resting after trouble)",))


@pytest.mark.parametrize("failure", ["no answer", None])
def test_with_a_directory_a_site_whose_robots_txt_met_no_answer_ten_times_is_given_up(
    tmp_path: Path, failure: str | None
) -> None:
    """Where there was an answer, as a 503, there is nothing to tell but that nobody knows yet."""
    frontier = start(tmp_path)
    frontier.discover([page("a0", A), page("a1", A)], NOW)
    trouble = Trouble("robots.txt cannot be read", origin=f"http://{A}", failure=failure)
    frontier.hold(A, NOW, NOW + 60, trouble._replace(times=PATIENCE))
    assert frontier.lease(NOW) is None
    frontier.hold(A, NOW + 60, NOW + 120, trouble._replace(times=PATIENCE + 1))
    lease = frontier.lease(NOW + 60)
    if failure is None:
        assert lease is None
    else:
        assert lease is not None
        assert lease.given_up is not None
        assert lease.given_up.failure == failure
        assert frontier.begin_side_request(A, NOW + 60) == 0.0, "it is no visit"


# -- the end of a crawl ----------------------------------------------------------------------------------


@pytest.fixture
def frontier(tmp_path: Path) -> Frontier:
    found = start(tmp_path, default_politeness=Politeness(0.0, 2), politeness={B: Politeness(5000.0, 1)})
    found.discover([page("a1", A), page("a2", A)], NOW)
    return found


def rest(frontier: Frontier, seconds: float) -> None:
    frontier.record_cooldown(A, Trouble("HTTP 429", asked=seconds), NOW)


def hold(frontier: Frontier, seconds: float) -> None:
    frontier.hold(A, NOW, NOW + seconds)


def crawl_delay(frontier: Frontier, seconds: float) -> None:
    frontier.site_delay(A, seconds, NOW)
    frontier.release(take(frontier, NOW), FETCHED, NOW)


def backoff(frontier: Frontier, seconds: float) -> None:
    for _ in range(2):
        frontier.release(take(frontier, NOW), Outcome(Event.RETRIED, delay=seconds), NOW)


@pytest.mark.parametrize("shut", [rest, hold, crawl_delay, backoff])
@pytest.mark.parametrize(("seconds", "patience"), [(1000, WAIT), (200, WAIT), (0.5, 0.0)])
def test_a_crawl_waits_for_a_host_that_opens_in_time_and_ends_at_once_otherwise(
    frontier: Frontier, shut: Callable[[Frontier, float], None], seconds: float, patience: float
) -> None:
    shut(frontier, seconds)
    if seconds > patience:
        assert frontier.ends_at(NOW, patience) == NOW
        left = frontier.left_over(NOW)
        assert left.first == pytest.approx(NOW + seconds, rel=0.2)
        assert left.hosts == 1
        assert left.names[0].startswith(f"{A} (")
        return
    assert frontier.ends_at(NOW, patience) == frontier.ends_at(NOW + 10, patience) == NOW + patience
    assert frontier.ends_at(NOW + 250, patience) is None  # it is open


def test_while_anything_else_is_to_be_done_it_goes_on(frontier: Frontier) -> None:
    frontier.discover([page("b1", B), page("b2", B)], NOW)
    rest(frontier, 1000)
    assert frontier.ends_at(NOW, WAIT) is None
    lease = take(frontier, NOW)
    assert frontier.ends_at(NOW, WAIT) is None
    frontier.release(lease, FETCHED, NOW)
    assert frontier.ends_at(NOW, WAIT) is None  # the settings want 5000 seconds between two pages


def test_a_side_request_under_way_is_waited_for(frontier: Frontier) -> None:
    frontier.hold(A, NOW)
    assert frontier.ends_at(NOW, WAIT) is None  # its robots.txt is on its way
    assert not frontier.begin_side_request(A, NOW)
    rest(frontier, 1000)
    assert frontier.ends_at(NOW, WAIT) is None
    frontier.end_side_request(A, NOW)
    assert frontier.ends_at(NOW, WAIT) == NOW


def test_a_blocked_host_is_not_waited_for(frontier: Frontier) -> None:
    frontier.discover([page("b1", B)], NOW)
    rest(frontier, 1000)
    frontier.hold(B, NOW)
    assert frontier.ends_at(NOW, WAIT) is None
    frontier._hosts.by_name[B].is_blocked = True
    assert frontier.ends_at(NOW, WAIT) == NOW


@pytest.mark.parametrize("pause", [1.0, 50.0, 290.0, None])
def test_a_host_that_never_answers_keeps_the_crawl_no_longer_than_that(
    frontier: Frontier, pause: float | None
) -> None:
    """However short the rests it asks for, or by its doubling ones."""
    now = NOW
    for _ in itertools.count():
        lease = take(frontier, now)
        trouble = Trouble("HTTP 429", asked=pause, sent=lease.leased_at, page_id=lease.page_id)
        frontier.record_cooldown(A, trouble, now)
        frontier.release(lease, Outcome(Event.POSTPONED), now)
        end = frontier.ends_at(now, WAIT)
        assert end is not None
        if end <= now:
            break
        wake = frontier.wake_at()
        assert wake is not None
        assert now < wake < FOREVER
        now = wake
    assert now <= NOW + WAIT
