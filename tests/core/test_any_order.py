"""All verbs in any order, with any options, over several runs of one store, some of them killed.

The counts agree with the rows all the time, a copy made of the batches is the same, no host is asked more
than it may be, and in the end nothing waits.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_frontier.core import reasons
from scrapy_frontier.core.admin.check import Check
from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Lease, Link, Outcome
from scrapy_frontier.core.hosts import hosts
from scrapy_frontier.core.hosts.host import Politeness
from scrapy_frontier.core.pages import edits
from scrapy_frontier.core.ranking.default_scorer import Mixed
from scrapy_frontier.core.revisits.plans import RevisitRule
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import RobotsCopy, Verdict
from scrapy_frontier.core.transitions import Event

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy_frontier.core.store.batch import Row
    from scrapy_frontier.core.store.records import Page

NOW = 1_700_000_000.0
HOSTS = ["a.one.org", "b.one.org", "one.org", "www.two.org", "three"]
LIMITS = [0, 0, 4, 5, 4]  # pages of a host
RULES = [None, RevisitRule(shelf_life=50.0, horizon=500.0), RevisitRule(policy="adaptive", shelf_life=200.0)]
EVENTS = [Event.FETCHED] * 5 + [Event.RETRIED] * 3
EVENTS += [Event.POSTPONED, Event.GONE, Event.FAILED, Event.EXCLUDED, Event.REDIRECTED, Event.EXPIRED]
OF_A_STORE = (keys.FORMAT, keys.SCHEME)
FORBIDDEN = reasons.FORBIDDEN(origin="http://one.org", rule="Disallow: /")


def domain_of(host: str) -> str:
    return ".".join(host.split(".")[-2:])


def fingerprint_of(found: Page) -> bytes:
    return found.url.encode().rjust(40, b".")


class Runs:
    """Runs of one store in *directory*; all that is drawn follows from the *seed*."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.draw = random.Random(seed)
        self.directory = directory
        self.now = NOW
        self.is_scored = self.draw.random() < 0.5
        self.content_scores = self.draw.choice([[None], [None, 0.0, 1.0, 5.0]])
        self.urls = self.draw.choice([12, 30])  # of a host: all in memory, or more than it keeps there
        self.copy: dict[bytes, bytes] = {}  # made of the batches that were written
        self.open()

    def open(self, host_pages: int | None = None) -> None:
        draw = self.draw
        self.store = Store(self.directory)
        delay = draw.choice([Politeness(0.0, 8), Politeness(1.0, 1), Politeness(0.0, 1)])
        options = FrontierOptions(
            domain_of=domain_of,
            default_politeness=delay,
            host_pages=draw.choice(LIMITS) if host_pages is None else host_pages,
            revisits=draw.choice(RULES),
            scorer=Mixed(random.Random(1)) if self.is_scored else None,
            max_uncommitted_pages=draw.choice([0, 8]),
            max_attempts=draw.choice([1, 3]),
            rng=random.Random(1),
            on_commit=self.hear,
        )
        self.frontier = Frontier(self.store, self.now, options)
        self.out: list[Lease] = []
        self.side_requests: Counter[str] = Counter()

    def hear(self, rows: list[Row]) -> None:
        for key, value in rows:
            if value is None:
                self.copy.pop(key, None)
            else:
                self.copy[key] = value

    def close(self) -> None:
        self.store.close()

    # -- what may happen -------------------------------------------------------------------------------

    def link(self) -> Link:
        draw, host = self.draw, self.draw.choice(HOSTS)
        url = f"http://{host}/{draw.randrange(self.urls)}"
        more: dict[str, Any] = draw.choice(
            [
                {},
                {},
                {},
                {"only_seen": "nofollow"},
                {"again": True},
                {"is_named": True},
                {"host": "three"},
            ]
        )
        about = {"text": url, "host": host, **more}
        return Link(url.encode().rjust(40, b"."), url, priority=draw.choice([0, 0, 1, -1]), **about)

    def discover(self) -> None:
        source = self.draw.choice([None, *self.out])
        self.frontier.discover(
            [self.link() for _ in range(self.draw.randrange(1, self.urls // 3))], self.now, source
        )

    def lease(self) -> None:
        lease = self.frontier.lease(self.now)
        if lease is None:
            return
        assert lease.page_id not in [other.page_id for other in self.out], "one lease of a page at a time"
        if lease.page_id >= keys.FIRST_VISIT:
            self.frontier.bind_lease(lease, fingerprint_of(lease.page))
        if self.draw.random() < 0.1:
            self.frontier.put_back(lease, self.now)
        else:
            self.out.append(lease)

    def release(self) -> None:
        if not self.out:
            return
        draw, lease = self.draw, self.out.pop(self.draw.randrange(len(self.out)))
        event = draw.choice(EVENTS)
        outcome = Outcome(
            event,
            draw.choice([0, 200, 404]),
            draw.choice(["", FORBIDDEN]),
            has_links=True,
            content_score=draw.choice(self.content_scores),
        )
        if event is Event.RETRIED:
            outcome = outcome._replace(delay=draw.choice([0.0, 20.0]), priority=draw.choice([None, 0, 2]))
        if event in (Event.RETRIED, Event.POSTPONED) and draw.random() < 0.3:
            outcome = outcome._replace(host=draw.choice(HOSTS))
        self.frontier.release(lease, outcome, self.now)

    def load(self) -> None:
        self.frontier.load(self.now, self.draw.choice([1, 3, 50]))

    def wait(self) -> None:
        self.now += self.draw.choice([0.5, 5.0, 100.0])

    def side_request(self) -> None:
        host = self.draw.choice(HOSTS)
        if self.side_requests[host] and self.draw.random() < 0.7:
            self.frontier.end_side_request(host, self.now)
            self.side_requests[host] -= 1
        elif not self.frontier.begin_side_request(host, self.now):
            self.side_requests[host] += 1

    def robots(self) -> None:
        verdict = self.draw.choice([Verdict.PARSE, Verdict.ALLOW_ALL])
        copy = RobotsCopy(verdict, 200, self.now, self.now + 9e9, body=b"User-agent: *\nDisallow: /\n")
        self.frontier.keep_robots_copy(f"http://{self.draw.choice(HOSTS)}", copy)

    def edit(self) -> None:
        known = self.frontier._batch.counts.next_page
        if not known:
            return
        page_id, host = self.draw.randrange(known), self.draw.choice(HOSTS)
        kind = self.draw.randrange(7)
        if kind == 0:
            self.frontier.requeue(page_id, self.now)
        elif kind == 1:
            self.frontier.replace_request(page_id, Link(payload=b"new"))
        elif kind == 2:
            self.frontier.make_due(page_id, self.now)
        elif kind == 3:
            self.frontier.forget(page_id, fingerprint_of, self.now)
        elif kind == 4:
            self.frontier.block(host, self.now)
        elif kind == 5:
            self.frontier.unblock(host, self.now)
        else:
            for _ in self.frontier.forget_host(host, fingerprint_of, self.now):
                self.draw.choice([self.discover, self.lease, self.release])()

    def rank(self) -> None:
        if not self.frontier.is_loaded:
            return
        run = self.frontier.rank_now()
        computed = list(run.compute(lambda: False, lambda: self.now))
        for _ in self.frontier.rank_steps(run, computed, lambda: self.now, self.draw.choice([1, 5, 100])):
            self.draw.choice([self.discover, self.lease, self.release, self.edit])()
        run.close()

    def stop(self) -> None:
        """The run ends, and the next has other options."""
        self.frontier.close()
        self.open()

    def kill(self) -> None:
        """The run ends without a word: what is not on its way to the disk is lost."""
        self.store.close()
        self.open()

    # -- what must hold --------------------------------------------------------------------------------

    def check(self) -> None:
        frontier = self.frontier
        assert frontier.pending >= 0
        frontier.commit()
        findings = list(Check(self.store, fingerprint_of, self.now).run())
        assert findings == []
        assert {key: value for key, value in self.store.scan(b"") if key not in OF_A_STORE} == self.copy
        under_way = Counter(lease.host for lease in self.out if lease.is_on_wire) + self.side_requests
        hosts = frontier._hosts.by_name
        assert {name: host.in_flight for name, host in hosts.items() if host.in_flight} == under_way
        assert all(host.in_flight <= host.concurrency for host in hosts.values())

    def drain(self) -> None:
        """All budgets are large now, nobody is blocked, and time goes by."""
        self.frontier.close()
        self.open(0)
        for host in HOSTS:
            self.frontier.unblock(host, self.now)
        for _ in range(3000):
            self.load()
            lease = self.frontier.lease(self.now)
            if lease is not None:
                event = Event.EXCLUDED if lease.comes_back else Event.FETCHED
                self.frontier.release(lease, Outcome(event, 404), self.now)
            elif not (self.frontier.pending or self.frontier.is_refilling):
                break
            else:
                self.now += 1.0
        states = self.frontier._batch.counts.states
        assert (states[State.QUEUED], self.frontier.pending) == (0, 0)
        assert not any(found.is_deferred for found in self.pages())
        self.check()

    def pages(self) -> list[Page]:
        self.frontier.commit()
        known = range(self.frontier._batch.counts.next_page)
        return [found for page_id in known if (found := self.frontier.page(page_id)) is not None]


STEPS = {"discover": 5, "lease": 8, "release": 6, "load": 3, "wait": 3, "side_request": 2, "robots": 1}
STEPS |= {"edit": 3, "rank": 1, "stop": 1, "kill": 1}


def run(directory: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    if draw.random() < 0.5:  # hosts that may be compact are
        monkeypatch.setattr(hosts, "AWAKE", 0)
        monkeypatch.setattr(hosts, "_GROWTH", 0)
    monkeypatch.setattr(edits, "_AT_A_TIME", draw.choice([1, 3, 1000]))
    runs = Runs(directory, seed)
    try:
        for name in draw.choices(list(STEPS), list(STEPS.values()), k=150):
            getattr(runs, name)()
            if draw.random() < 0.1:
                runs.check()
        runs.drain()
    finally:
        runs.close()


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_in_whatever_order(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path / "frontier", seed, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 400, 20))
def test_whatever_happens_in_many_more_orders(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in range(seed, seed + 20):
        run(tmp_path / str(each), each, monkeypatch)
