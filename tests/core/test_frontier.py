"""The frontier: what each verb does, told as stories over virtual time and a real LevelDB."""

import random
import struct
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from answers import ids
from hypothesis import given, settings
from hypothesis import strategies as st
from openings import let_go, opened  # noqa: F401 - `let_go` works by being here

from scrapy_frontier.core import reasons
from scrapy_frontier.core.errors import IllegalTransition
from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link
from scrapy_frontier.core.hosts.host import Politeness
from scrapy_frontier.core.pages.leases import Lease, Outcome, without_request
from scrapy_frontier.core.ranking.scorer import Scorer
from scrapy_frontier.core.store import keys, records
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.queue_keys import sort_key_id
from scrapy_frontier.core.store.records import Page
from scrapy_frontier.core.transitions import Event

NOW = 1_700_000_000.0
DAY = 86_400.0
FETCHED = Outcome(Event.FETCHED, 200)
SLOW = Politeness(10.0, 1)


def start(directory: Path, now: float = NOW, loaded: bool = True, **options: Any) -> Frontier:
    """Open the frontier in *directory*, all its hosts in memory unless told otherwise."""
    opened.append(Store(directory))
    frontier = Frontier(opened[-1], now, FrontierOptions(**options))
    while loaded and not frontier.load(now):
        pass
    return frontier


def kill(frontier: Frontier) -> None:
    """Let go of the files as a killed process does: what was not committed is gone, and no end is marked."""
    frontier._store.close()


def page(name: str, host: str = "a.example", **kept: Any) -> Link:
    return Link(fingerprint(name), f"http://{host}/{name}", host, **kept)


def fingerprint(name: str) -> bytes:
    return name.encode().rjust(20, b".")


def rows(frontier: Frontier) -> dict[bytes, bytes]:
    return dict(frontier._store.scan(b""))


def queue_rows(frontier: Frontier) -> list[int]:
    return [sort_key_id(key) for key, _ in frontier._store.scan(keys.QUEUE)]


def take(frontier: Frontier, now: float = NOW) -> Lease:
    lease = frontier.lease(now)
    assert lease is not None
    return lease


def drain(frontier: Frontier, now: float = NOW) -> list[str]:
    """The names of all pages that can be had now, in order, each fetched at once."""
    found = []
    while (lease := frontier.lease(now)) is not None:
        found.append(lease.page.url.rpartition("/")[2])
        frontier.release(lease, FETCHED, now)
    return found


def state(frontier: Frontier, page_id: int) -> State:
    known = frontier.page(page_id)
    assert known is not None
    return known.state


# -- discover --------------------------------------------------------------------------------------------


def test_pages_are_numbered_in_order_of_discovery(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    assert ids(frontier.discover([page("one"), page("two", "b.example")], NOW)) == [0, 1]
    assert ids(frontier.discover([page("three")], NOW)) == [2]
    assert [frontier.find(fingerprint(name)) for name in ("one", "two", "three", "four")] == [0, 1, 2, None]
    frontier.close()


def test_a_known_page_is_not_queued_again(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    assert ids(frontier.discover([page("one"), page("one")], NOW)) == [0, None]
    assert ids(frontier.discover([page("one")], NOW)) == [None]
    frontier.commit()
    assert ids(frontier.discover([page("one")], NOW)) == [None]
    lease = take(frontier)
    assert ids(frontier.discover([page("one")], NOW)) == [None]
    frontier.release(lease, FETCHED, NOW)
    assert ids(frontier.discover([page("one")], NOW)) == [None]
    frontier.close()

    frontier = start(tmp_path)
    assert ids(frontier.discover([page("one")], NOW)) == [None]
    assert frontier.pending == 0
    frontier.close()


def test_a_page_is_kept_as_it_was_discovered(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    frontier.discover([page("source")], NOW)
    link = Link(fingerprint("p"), "http://a.example/p", "slot", 7, b"frozen", parent=0)
    frontier.discover([link], NOW + 0.9)
    assert frontier.page(1) == Page(
        link.url, State.QUEUED, 0, 7, int(NOW), parent=0, host="slot", payload=b"frozen"
    )
    lease = take(frontier)
    assert (lease.page_id, lease.host, lease.page) == (1, "slot", frontier.page(1))
    frontier.close()


def test_nothing_is_written_before_the_commit_and_all_of_it_at_once(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    before = rows(frontier)
    frontier.discover([page("one"), page("two", "b.example")], NOW)
    assert rows(frontier) == before
    frontier.commit()
    assert {key[:1] for key in rows(frontier)} == {b"f", b"p", b"q", b"h", b"m"}
    assert queue_rows(frontier) == [0, 1]
    frontier.close()


# -- revisits --------------------------------------------------------------------------------------


def test_a_page_wanted_again_is_visited_again_and_that_leaves_no_trace(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    frontier.discover([page("one")], NOW)
    assert drain(frontier) == ["one"]
    before = {key: value for key, value in rows(frontier).items() if key != keys.COUNTS}
    states = list(frontier._batch.counts.states)

    (visit,) = ids(frontier.discover([page("one", again=True)], NOW))
    assert visit is not None
    assert visit >= keys.FIRST_VISIT
    assert frontier.find(fingerprint("one")) == 0
    assert frontier.pending == 1
    assert drain(frontier) == ["one"]

    assert {key: value for key, value in rows(frontier).items() if key != keys.COUNTS} == before
    assert frontier._batch.counts.states == states
    assert frontier._batch.counts.attempts == 2
    assert frontier.pending == 0
    frontier.close()


# -- order -----------------------------------------------------------------------------------------------


def test_best_first_over_all_hosts(tmp_path: Path) -> None:
    """Priority, then score, then age."""
    frontier = start(tmp_path)
    links = [
        page("sixth", "a.example", priority=-1),
        page("third", "b.example", bucket=9),
        page("fourth", "a.example", bucket=9),
        page("fifth", "c.example", bucket=8),
        page("second", "c.example", bucket=10),
        page("first", "a.example", priority=1, bucket=0),
    ]
    frontier.discover(links, NOW)
    assert drain(frontier) == ["first", "second", "third", "fourth", "fifth", "sixth"]
    frontier.close()


# -- lease -----------------------------------------------------------------------------------------------


def test_nothing_is_written_at_hand_out(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    frontier.discover([page(str(n), f"h{n % 3}") for n in range(30)], NOW)
    frontier.commit()
    before = rows(frontier)
    leases = [take(frontier) for _ in range(20)]
    assert rows(frontier) == before
    assert (frontier.leased, frontier.pending) == (20, 10)
    assert len({lease.id for lease in leases}) == len({lease.page_id for lease in leases}) == 20
    frontier.close()


# -- release ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "ended", "done", "failed"),
    [
        (Event.FETCHED, State.DONE, 1, 0),
        (Event.REDIRECTED, State.REDIRECTED, 1, 0),
        (Event.EXCLUDED, State.EXCLUDED, 1, 0),
        (Event.GONE, State.GONE, 0, 1),
        (Event.FAILED, State.FAILED, 0, 1),
    ],
)
@pytest.mark.parametrize("stopped", [Frontier.close, kill])
def test_an_outcome_ends_the_page_for_good(
    tmp_path: Path, event: Event, ended: State, done: int, failed: int, stopped: Any
) -> None:
    frontier = start(tmp_path)
    frontier.discover([page("one", payload=b"frozen")], NOW)
    lease = take(frontier, NOW + 1)

    assert frontier.release(lease, Outcome(event, 299, "because"), NOW + 2).state is ended

    stopped(frontier)  # it was on its way to the disk before `release` returned
    frontier = start(tmp_path)
    assert frontier.lease(NOW + DAY) is None
    assert frontier.page(0) == lease.page._replace(
        state=ended, attempts=1, status=299, changed=int(NOW + 2), reason="because"
    )
    assert frontier._batch.counts.states[ended] == sum(frontier._batch.counts.states) == 1
    assert frontier._batch.counts.attempts == 1
    row = records.HOST.decode(rows(frontier)[keys.host_key("a.example")])
    assert (row.queued, row.done, row.failed) == (0, done, failed)
    assert queue_rows(frontier) == []
    frontier.close()


def test_a_verb_that_raises_leaves_store_and_memory_as_before(tmp_path: Path) -> None:
    frontier = start(tmp_path, scorer=Failing())
    frontier.discover([page("one"), page("two")], NOW)
    frontier.commit()
    lease = take(frontier)
    before = rows(frontier), frontier.totals(), frontier.leased
    lease.edges.append((1, 0, 1.0))
    wrong: list[Outcome] = [
        Outcome(Event.DISCOVERED),
        Outcome(Event.FETCHED, status="200"),  # type: ignore[arg-type]
        Outcome(Event.FETCHED, reason=None),  # type: ignore[arg-type]
        Outcome(Event.REDIRECTED, target=1, flags=1 << 9, has_links=True),
        Outcome(Event.FETCHED, 200, has_links=True),  # the scorer fails
    ]
    for outcome in wrong:
        with pytest.raises((IllegalTransition, TypeError, ValueError, AttributeError, ArithmeticError)):
            frontier.release(lease, outcome, NOW)
        frontier.commit()
        assert (rows(frontier), frontier.totals(), frontier.leased) == before, outcome
    for link in (page("new", priority="high"), page("new", payload=None), page("new", parent=-9)):
        with pytest.raises((TypeError, ValueError, struct.error)):
            frontier.discover([link], NOW)
        frontier.commit()
        assert (rows(frontier), frontier.totals(), frontier.leased) == before, link
    assert frontier.release(lease, Outcome(Event.FAILED, 500), NOW).state is State.FAILED
    frontier.close()


class Failing(Scorer):
    """Cannot read the links of a page."""

    def parsed(self, node: int, outlinks: Any, weights: Any = None) -> Any:
        raise ArithmeticError(node)


# -- retries ---------------------------------------------------------------------------------------------


def test_a_retry_waits_for_its_backoff(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    frontier.discover([page("one", payload=b"old")], NOW)
    retried = Outcome(Event.RETRIED, 503, "503", visit_payload=b"new", delay=30.0)
    assert frontier.release(take(frontier), retried, NOW).state is State.QUEUED

    assert (frontier.pending, queue_rows(frontier), frontier.wake_at()) == (1, [], NOW + 30)
    assert frontier.lease(NOW + 29.9) is None
    lease = take(frontier, NOW + 30)
    assert lease.page == Page(
        "http://a.example/one",
        attempts=1,
        discovered=int(NOW),
        payload=b"old",
        status=503,
        changed=int(NOW),
        reason="503",
        visit_payload=b"new",
    )
    assert frontier.wake_at() == lease.deadline
    frontier.close()


def test_very_many_backoffs_that_end_at_once_are_all_served(tmp_path: Path) -> None:
    frontier = start(tmp_path, default_politeness=Politeness(0.0, 500))
    frontier.discover([page(str(n), f"h{n % 3}") for n in range(200)], NOW)
    for n, lease in enumerate([take(frontier) for _ in range(200)]):
        frontier.release(lease, Outcome(Event.RETRIED, 503, delay=30.0 + n % 2), NOW)
    served = []
    while (woken := frontier.wake_at()) is not None:
        served += drain(frontier, max(woken, NOW + 30))
    assert sorted(served, key=int) == [str(n) for n in range(200)]
    assert frontier.pending == 0
    frontier.close()


def test_a_page_fails_when_its_attempts_are_used_up(tmp_path: Path) -> None:
    """Attempts count across restarts."""
    frontier = start(tmp_path, max_attempts=3)
    frontier.discover([page("one")], NOW)
    retried = Outcome(Event.RETRIED, 503, "503 Service Unavailable")
    assert frontier.release(take(frontier), retried, NOW).state is State.QUEUED
    kill(frontier)
    frontier = start(tmp_path, max_attempts=3)
    second = take(frontier)
    assert not second.is_last_attempt
    assert frontier.release(second, retried, NOW).state is State.QUEUED
    frontier.close()
    frontier = start(tmp_path, max_attempts=3)
    third = take(frontier)
    assert third.is_last_attempt
    assert frontier.release(third, retried, NOW).state is State.FAILED

    failed = frontier.page(0)
    assert failed is not None
    assert (failed.state, failed.attempts, failed.status) == (State.FAILED, 3, 503)
    assert failed.reason == "503 Service Unavailable (3 attempts)"
    assert (frontier.pending, frontier._batch.counts.attempts) == (0, 3)
    frontier.close()


def test_a_request_may_be_granted_more_attempts_than_others(tmp_path: Path) -> None:
    frontier = start(tmp_path, max_attempts=1)
    frontier.discover([page("one")], NOW)
    retried = Outcome(Event.RETRIED, 503)
    for attempt in (1, 2, 3):
        lease = take(frontier)
        assert lease.is_last_attempt
        assert lease.is_last_of(3) is lease.is_last_attempt is (attempt == 3)
        state = frontier.release(lease, retried, NOW).state
        assert state is (State.FAILED if attempt == 3 else State.QUEUED)
    frontier.close()


# -- leases that expire -------------------------------------------------------------------------


def test_a_lease_past_its_deadline_is_taken_back(tmp_path: Path) -> None:
    frontier = start(tmp_path, lease_timeout=60.0, default_politeness=Politeness(0.0, 1))
    frontier.discover([page("one"), page("two")], NOW)
    first = take(frontier)
    assert first.deadline == NOW + 60
    assert frontier.lease(NOW + 59) is None

    second = take(frontier, NOW + 60)

    assert (second.page_id, second.page.attempts) == (first.page_id, 1)
    assert second.page.reason == "not released in time"
    before = rows(frontier)
    assert frontier.release(first, FETCHED, NOW + 61).is_late, "too late"
    frontier.on_response(first, NOW + 61)
    assert rows(frontier) == before
    assert frontier.lease(NOW + 61) is None, "its host still has one request under way"
    assert frontier.release(second, FETCHED, NOW + 62).state is State.DONE
    frontier.close()


# -- pages whose request only one process has -----------------------------------------------------------


# -- politeness ------------------------------------------------------------------------------------------


def test_a_clock_set_back_between_runs_silences_a_host_for_no_longer_than_its_delay(tmp_path: Path) -> None:
    frontier = start(tmp_path, default_politeness=SLOW)
    frontier.discover([page("one"), page("two")], NOW)
    drain(frontier)
    frontier.close()

    frontier = start(tmp_path, NOW - DAY, default_politeness=SLOW)
    assert frontier.lease(NOW - DAY + 9) is None
    take(frontier, NOW - DAY + 10)
    frontier.close()


POLITE = {
    "a": Politeness(1.0, 1),
    "b": Politeness(2.0, 3),
    "c": Politeness(0.0, 2),
    "d": Politeness(5.0, 1, 0.5),
}


@settings(deadline=None, max_examples=25)
@given(rng=st.randoms(use_true_random=False), stops=st.lists(st.sampled_from(["clean", "kill"]), max_size=3))
def test_no_host_is_ever_visited_too_soon_or_too_often(
    tmp_path_factory: pytest.TempPathFactory, rng: random.Random, stops: list[str]
) -> None:
    """Over virtual time, with answers and retries at random moments and restarts in between.

    A clean stop gives back what is out, as the scheduler does.
    """
    directory, now = tmp_path_factory.mktemp("polite"), NOW
    visits: dict[str, list[float]] = defaultdict(list)
    frontier = start(directory, now, politeness=POLITE, rng=rng)
    frontier.discover([page(f"{host}{n}", host) for host in POLITE for n in range(40)], now)

    for stop in [*stops, "clean"]:
        out: list[Lease] = []
        for _ in range(40):
            while (lease := frontier.lease(now)) is not None:
                visits[lease.host].append(now)
                out.append(lease)
                under_way = sum(other.host == lease.host for other in out)
                assert under_way <= POLITE[lease.host].concurrency
            rng.shuffle(out)
            for lease in out[: rng.randrange(4)]:
                event = rng.choice([Event.FETCHED, Event.RETRIED, Event.FAILED])
                frontier.release(lease, Outcome(event, delay=rng.choice([0.0, 3.0])), now)
            del out[: len(out) - frontier.leased]
            now += rng.choice([0.01, 0.25, 1.0])
        if stop == "kill":
            kill(frontier)
        else:
            for lease in out:
                frontier.release(lease, Outcome(Event.POSTPONED), now)
            frontier.close()
        now += rng.choice([0.0, 0.5])
        frontier = start(directory, now, politeness=POLITE, rng=rng)
    frontier.close()

    for host, times in visits.items():
        gaps = [later - sooner for sooner, later in pairwise(times)]
        assert min(gaps, default=100.0) >= POLITE[host].delay - 1e-6


# -- hosts in memory -------------------------------------------------------------------------------------


def test_hosts_are_loaded_in_slices(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    frontier.discover([page(str(n), f"h{n:02}") for n in range(25)], NOW)
    frontier.discover([page("done", "h00-done", priority=1)], NOW)
    frontier.release(take(frontier), FETCHED, NOW)
    frontier.close()

    frontier = start(tmp_path, loaded=False)
    assert (frontier.pending, frontier.hosts, frontier.is_loaded) == (25, 0, False)
    assert frontier.lease(NOW) is None
    assert not frontier.load(NOW, limit=10)
    assert frontier.hosts == 9, "one of the ten has nothing queued"
    assert drain(frontier) == [str(n) for n in range(9)]
    assert not frontier.load(NOW, limit=10)
    assert frontier.load(NOW, limit=10)
    assert frontier.is_loaded
    assert frontier.load(NOW)
    assert drain(frontier) == [str(n) for n in range(9, 25)]
    frontier.close()


# -- requeue ---------------------------------------------------------------------------------------------


# -- rows nobody can read --------------------------------------------------------------------------------


def damage(directory: Path, page_id: int, value: bytes | None) -> None:
    store = Store(directory)
    store.write({keys.page_key(page_id): value})
    store.close()


@pytest.mark.parametrize("value", [b"garbage", b"", None])
def test_an_unreadable_page_is_set_aside_and_blocks_nothing(tmp_path: Path, value: bytes | None) -> None:
    frontier = start(tmp_path)
    frontier.discover([page("one"), page("two"), page("three")], NOW)
    frontier.close()
    damage(tmp_path, 1, value)

    frontier = start(tmp_path)
    assert drain(frontier) == ["one", "three"]

    assert frontier.drain_events().set_aside == (1,)
    assert frontier.drain_events().set_aside == (), "told once"
    assert frontier.pending == 0
    assert frontier._batch.counts.states[State.FAILED] == 1
    kill(frontier)
    frontier = start(tmp_path)
    assert rows(frontier)[keys.aside_key(1)] == (value or b"")
    assert queue_rows(frontier) == []
    assert frontier.lease(NOW) is None
    assert ids(frontier.discover([page("two")], NOW)) == [None]
    frontier.close()


# -- endings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_page_without_a_request_is_only_known_or_fails_unless_it_came_back(comes_back: bool) -> None:
    page = Page("http://a.example/", State.DONE if comes_back else State.QUEUED)
    lease = Lease("a.example", page, NOW, 0, 0.0, {}, None, comes_back=comes_back)
    lost, unreadable = without_request(lease, ""), without_request(lease, "no callback")
    assert lost == Outcome(Event.LOST, reason=reasons.LOST())
    assert unreadable.event is (Event.LOST if comes_back else Event.FAILED)
    assert unreadable.reason == reasons.UNREADABLE(cause="no callback")
