"""A second store that is fed from the batches of the first: row for row the same, whatever happens."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from scrapy.utils.misc import load_object

from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Lease, Link, Outcome
from scrapy_frontier.core.hosts.budgets import Limits
from scrapy_frontier.core.hosts.host import Politeness, Trouble
from scrapy_frontier.core.hosts.robots_policy import Answer, learnt
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import SiteSitemaps
from scrapy_frontier.core.transitions import Event
from scrapy_frontier.settings import SCORERS

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from scrapy_frontier.core.store.batch import Row
    from scrapy_frontier.core.store.records import Page

NOW = 1_700_000_000.0
HOSTS = 9
LIMITS = (Limits(), Limits(host_pending=20), Limits(), Limits(host_pages=60), Limits())  # of each run
EVENTS = [Event.FETCHED] * 8 + [Event.RETRIED, Event.GONE, Event.FAILED, Event.EXCLUDED, Event.REDIRECTED]


def rows(store: Store) -> dict[bytes, bytes]:
    return dict(store.scan(b""))


def follow(copy: Store, told: list[Row]) -> None:
    copy.write(dict(told))


def fingerprint_of(page: Page) -> bytes:
    return page.url.encode().rjust(40, b".")


class Busy:
    """A crawl that does all there is to do, by chance."""

    def __init__(self, directory: Path, copy: Store, rng: random.Random, now: float, limits: Limits) -> None:
        self.store, self.rng, self.now = Store(directory), rng, now
        self.frontier = Frontier(
            self.store,
            now,
            FrontierOptions(
                default_politeness=Politeness(0.5, 2),
                scorer=load_object(SCORERS["mixed"])(),
                limits=limits,
                on_commit=lambda told: follow(copy, told),
            ),
        )
        while not self.frontier.load(now):
            pass
        self.did: Counter[str] = Counter()

    def link(self, **kept: str) -> Link:
        number = self.rng.randrange(2000)
        host = f"h{number % HOSTS}.example"
        url = f"http://{host}/{number}"
        return Link(
            url.encode().rjust(40, b"."), url, host, number % 3, b"x" * (number % 9), text=url, **kept
        )

    def run(self, steps: int) -> None:
        self.frontier.used_by("busy")
        self.frontier.discover([self.link() for _ in range(30)], self.now)
        for _ in range(steps):
            self.now += self.rng.choice([0.01, 0.1, 2.0, 70.0])
            lease = self.frontier.lease(self.now)
            if lease is not None:
                self.visit(lease)
            self.rng.choice([self.say, self.trouble, self.side_request, self.edit])()

    def visit(self, lease: Lease) -> None:
        frontier, outcome = self.frontier, Outcome(self.rng.choice(EVENTS), 200, "why", has_links=True)
        found = [self.link() for _ in range(self.rng.randrange(12))]
        if lease.node is None:
            frontier.identify(lease, lease.page.url.encode().rjust(40, b"."))
        unknown = [link for link in found if not frontier.recognize(link.url, lease, 2, 0.5)]
        frontier.discover(unknown, self.now, lease)
        frontier.discover([self.link(only_seen="out of scope")], self.now, lease)
        frontier.on_response(lease, self.now, True)
        if outcome.event is Event.FETCHED:
            outcome = outcome._replace(content_score=self.rng.random())
            other = frontier.same_content(lease.page_id, lease.host, b"%d" % self.rng.randrange(20))
            self.did["duplicate"] += other is not None
        if outcome.event is Event.REDIRECTED:
            outcome = outcome._replace(target=0)
        delay = self.rng.choice([0.0, 5.0]) if outcome.event is Event.RETRIED else 0.0
        frontier.release(lease, outcome._replace(delay=delay), self.now)
        self.did[outcome.event.name] += 1

    def say(self) -> None:
        origin = f"http://h{self.rng.randrange(HOSTS)}.example:80"
        self.frontier.keep_robots_copy(
            origin, learnt(None, Answer(200, b"User-agent: *\nDisallow: /x"), self.now)
        )
        self.frontier.keep_sitemaps(origin, SiteSitemaps())

    def trouble(self) -> None:
        host = f"h{self.rng.randrange(HOSTS)}.example"
        if self.rng.random() < 0.05:
            self.frontier.record_cooldown(host, Trouble("HTTP 503"), self.now)
            self.did["trouble"] += 1

    def side_request(self) -> None:
        host = f"h{self.rng.randrange(HOSTS)}.example"
        if not self.frontier.begin_side_request(host, self.now):
            self.frontier.end_side_request(host, self.now)

    def edit(self) -> None:
        page_id = self.frontier.find(self.link().fingerprint)
        if page_id is not None:
            self.did["requeued"] += self.frontier.requeue(page_id, self.now, b"again", 1)
        self.frontier.discover([replace(self.link(), again=True)], self.now)
        host, what = f"h{self.rng.randrange(HOSTS)}.example", self.rng.random()
        if page_id is not None and what < 0.2:
            self.did["forgotten"] += self.frontier.forget(page_id, fingerprint_of, self.now)
        elif what < 0.3:
            self.frontier.block(host, self.now)
            self.frontier.order_delay(host, 3.0, self.now)
        elif what < 0.5:
            self.frontier.order_delay(host, None, self.now)
            self.did["unblocked"] += self.frontier.unblock(host, self.now)

    def rank(self) -> None:
        frontier = self.frontier
        run = frontier.rank_now()
        for _ in frontier.rank_steps(run, run.compute(bool, lambda: 0.0), lambda: self.now, 50):
            pass
        self.did["moved"] += run.moved
        run.close()


def test_a_second_store_that_hears_of_every_batch_is_the_same(tmp_path: Path) -> None:
    rng, copy, did, now = random.Random(4), Store(tmp_path / "copy"), Counter[str](), NOW
    for run, limits in enumerate(LIMITS):
        busy = Busy(tmp_path / "first", copy, rng, now, limits)
        busy.run(150)
        busy.rank()
        busy.run(50)
        now, did = busy.now, did + busy.did
        busy.frontier.commit()
        assert rows(busy.store) == rows(copy)
        if run % 2:
            busy.store.close()  # as a kill leaves it
        else:
            busy.frontier.close()
    kinds = {
        "FETCHED",
        "forgotten",
        "unblocked",
        "RETRIED",
        "GONE",
        "REDIRECTED",
        "duplicate",
        "trouble",
        "requeued",
        "moved",
    }
    assert kinds <= {kind for kind, count in did.items() if count}
    first = Store(tmp_path / "first")
    assert len(rows(first)) > 1000
    assert rows(first) == rows(copy)
    first.close()
    copy.close()


def test_nothing_is_told_of_a_batch_that_was_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Row] = []
    store = Store(tmp_path)
    frontier = Frontier(store, NOW, FrontierOptions(on_commit=told.extend))
    frontier.discover([Link(b"one", "http://a.example/", "a.example")], NOW)
    assert told == []
    monkeypatch.setattr(Store, "write", lambda *_: (_ for _ in ()).throw(OSError("disk")))
    with suppress(OSError):
        frontier.commit()
    assert told == []
    monkeypatch.undo()
    frontier.commit()
    assert told == [(key, value) for key, value in told if rows(store).get(key) == value]
    assert len(told) > 3
    frontier.close()
