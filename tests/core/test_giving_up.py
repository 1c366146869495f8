"""Pages that nobody can fetch end all the same; over virtual time."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_frontier import FETCHED, NOW, opened, page, start, take

from scrapy_frontier.core.frontier import Frontier
from scrapy_frontier.core.hosts.host import FOREVER, Politeness, Trouble
from scrapy_frontier.core.hosts.trouble import PATIENCE, GiveUpRule
from scrapy_frontier.core.pages.leases import Lease, Outcome
from scrapy_frontier.core.parse.urls import origin_of
from scrapy_frontier.core.store.records import RobotsCopy, read_cooldown
from scrapy_frontier.core.transitions import Event

WAIT = 300.0
GIVE_UP_RULE = GiveUpRule(3, lambda attempts: float(2 ** (attempts - 1)))
POSTPONED = Outcome(Event.POSTPONED)
FAILED = Outcome(Event.FAILED)
A, B = "a.example", "b.example"


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while opened:
        opened.pop().close()


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

    def run(self) -> "Crawl":
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
        trouble = Trouble(way.reason, way.asked, way.may_be_page, now, lease.page_id, lease.page.attempts)
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


def test_while_another_host_has_pages_it_rests_as_ever(tmp_path: Path) -> None:
    frontier = start(tmp_path, politeness={B: Politeness(10.0, 1)}, give_up_rule=GIVE_UP_RULE)
    frontier.discover([page("a1", A), *(page(f"b{number}", B) for number in range(5))], NOW)
    done = Crawl(frontier, {f"http://{A}": REFUSED, f"http://{B}": FINE}).run()
    assert done.times(A) == [0, 40, 42]
    assert frontier.pending == 0


def test_a_port_that_is_closed_says_nothing_about_another(tmp_path: Path) -> None:
    ways = {f"http://{A}": REFUSED, f"https://{A}": FINE, f"http://{A}:8080": TIMED_OUT}
    done = crawl(tmp_path, ways, 20)
    found = Counter(done.ended.values())
    assert found["fetched"] == 20
    assert found[f"http://{A} connection refused"] == found[f"http://{A}:8080 timed out"] == 20
    assert len(done.asked) < 30


def test_a_host_that_answers_too_many_requests_is_left_alone(tmp_path: Path) -> None:
    """Its rests are waited for, and none beyond the patience of the crawl."""
    done = crawl(tmp_path, {f"http://{A}": BUSY}, 5)
    assert done.times() == pytest.approx([0, 60, 180], rel=0.2)
    assert set(done.ended.values()) == {f"http://{A} HTTP 429"}
    assert len(done.ended) == 5


def test_what_the_host_asks_for_is_obeyed_to_the_end(tmp_path: Path) -> None:
    done = crawl(tmp_path, {f"http://{A}": Ways("HTTP 503", asked=400.0)}, 5)
    assert len(done.asked) == 1
    assert len(done.ended) == 5
    assert done.now < NOW + 1


def test_a_robots_txt_is_asked_for_as_soon_as_a_page_unless_its_site_asks_for_a_pause(tmp_path: Path) -> None:
    frontier = start(tmp_path / "removed", give_up_rule=GIVE_UP_RULE)
    copy = RobotsCopy(status=503, ask_at=NOW + 60, failing_since=NOW, failures=2)
    assert frontier.retried_sooner(copy, 0.0, NOW).ask_at == NOW + 2
    busy, often, fine = copy._replace(status=429), copy._replace(failures=3), copy._replace(failures=0)
    assert frontier.retried_sooner(copy, 1.0, NOW) is copy
    assert [frontier.retried_sooner(other, 0.0, NOW) for other in (busy, often, fine)] == [busy, often, fine]
    assert start(tmp_path / "kept").retried_sooner(copy, 0.0, NOW) is copy


def test_pages_that_were_never_asked_for_are_not_told_what_others_met(tmp_path: Path) -> None:
    ways = {f"http://{A}": Ways("HTTP 503", asked=400.0), f"http://{A}:81": FINE}
    done = crawl(tmp_path, ways, 1)
    assert done.ended[f"http://{A}/0"] == f"http://{A} HTTP 503"
    assert done.ended[f"http://{A}:81/0"] == "HTTP 503"


def test_a_host_that_stops_answering_has_the_patience_of_the_crawl(tmp_path: Path) -> None:
    frontier = start(tmp_path, default_politeness=Politeness(0.0, 1), give_up_rule=GIVE_UP_RULE)
    frontier.discover([page(f"a{number}", A) for number in range(30)], NOW)
    done = Crawl(frontier, {f"http://{A}": FINE})
    done.fetch(take(frontier, NOW))
    done.ways[f"http://{A}"] = REFUSED
    done.run()
    assert done.times() == [0, 0, 1, 3, 7, 15, 31, 63, 127, 255]
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


# -- where somebody comes back ---------------------------------------------------------------------------


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


def test_with_a_directory_a_host_that_is_asked_once_a_day_is_given_up_after_ten_days(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    frontier.discover([page(f"a{number}", A) for number in range(30)], NOW)
    asked = 0
    for day in range(PATIENCE + 1):
        done = Crawl(frontier, {f"http://{A}": REFUSED})
        done.now = NOW + day * 86_400.0
        done.run()
        asked += len(done.asked)
        assert len(done.ended) == (30 if asked > PATIENCE else 0)
        if done.ended:
            break
        frontier.close()
        opened.clear()
        frontier = start(tmp_path, now=done.now + 86_000)
        while not frontier.load(done.now + 86_000):
            pass
    assert asked == PATIENCE + 1


def test_with_a_directory_pages_stay_queued_until_then(tmp_path: Path) -> None:
    done = crawl(tmp_path, {f"http://{A}": REFUSED}, 5, rule=None)
    assert done.ended == {}
    assert done.frontier.left_over(done.now)[:3] == (5, 1, (A,))


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
