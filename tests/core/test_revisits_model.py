"""Pages that come back, in any order of visits, days, restarts and kills, against a few lines of Python."""

import random
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from killed import copy_as_killed

from scrapy_frontier.core.admin.check import Check
from scrapy_frontier.core.frontier import Frontier, FrontierOptions, Link, Outcome
from scrapy_frontier.core.revisits.plans import RevisitRule
from scrapy_frontier.core.revisits.policy import Fetched, Result
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.transitions import Event

NOW = 1_700_000_000.0
DAY = 86400.0
SPAN = 4 * DAY
RULE = RevisitRule(shelf_life=SPAN)
NAMES = [f"{host}{number}" for host in "abc" for number in range(6)]
READ = Outcome(Event.FETCHED, 200, fetched=Fetched(digest=b"12345"))
OUTCOMES = [
    READ,
    READ,
    Outcome(Event.FETCHED, 304, result=Result.UNCHANGED),
    Outcome(Event.FAILED, 500),
    Outcome(Event.RETRIED, 503),
    Outcome(Event.POSTPONED),
    Outcome(Event.POSTPONED, host="another"),
    Outcome(Event.GONE, 404),
    Outcome(Event.GONE, 410),
]


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.now = NOW
        self.known: dict[str, int] = {}
        self.due: dict[str, float] = {}  # pages that ended: when they are due
        self.queued: set[str] = set()  # new pages, and those that came back and were not visited yet
        self.frontier = self.opened()

    def opened(self) -> Frontier:
        self.opened_at = self.now
        frontier = Frontier(
            Store(self.directory),
            self.now,
            FrontierOptions(revisits=RULE, max_attempts=2, host_pages=99, rng=random.Random(0)),
        )
        while not frontier.load(self.now):
            pass
        return frontier

    def expected(self) -> set[str]:
        return self.queued | {name for name, when in self.due.items() if when <= self.opened_at}

    @rule(names=st.lists(st.sampled_from(NAMES), max_size=4))
    def discover(self, names: list[str]) -> None:
        links = [Link(name.encode().rjust(20), f"http://{name[0]}/{name}", name[0]) for name in names]
        for name, answer in zip(names, self.frontier.discover(links, self.now), strict=True):
            assert answer.is_taken is (name not in self.known)
            assert answer.page_id is not None
            if name not in self.known:
                self.known[name] = answer.page_id
                self.queued.add(name)
        self.frontier.commit()

    @rule(outcome=st.sampled_from(OUTCOMES))
    def visit(self, outcome: Outcome) -> None:
        lease = self.frontier.lease(self.now)
        while lease is None and self.frontier.is_refilling:
            lease = self.frontier.lease(self.now)
        if lease is None:
            assert self.expected() == set()
            return
        name = lease.page.url.rpartition("/")[2]
        assert name in self.expected()
        assert lease.comes_back is (name in self.due)
        before = self.frontier.page(lease.page_id)
        assert before is not None
        assert not self.frontier.requeue(lease.page_id, self.now), "it is under way"
        released = self.frontier.release(lease, outcome, self.now)
        after = self.frontier.page(lease.page_id)
        assert after is not None
        if released.state is State.QUEUED:
            assert after.state is before.state, "it is what it was"
            self.queued.add(name)
            return
        assert after.visits is not None
        if outcome.event is not Event.FETCHED and lease.comes_back and outcome.status != 410:
            assert before.visits is not None
            assert after.visits.last == before.visits.last, "no observation"
        self.queued.discard(name)
        self.due[name] = float(after.visits.due)
        assert after.visits.due > self.now, "no page is visited twice a run"

    @rule(days=st.sampled_from([0.5, 1, 4, 9]))
    def pass_days(self, days: float) -> None:
        self.now += days * DAY

    @rule(name=st.sampled_from(NAMES))
    def requeue(self, name: str) -> None:
        is_done = name in self.due
        if name in self.known:
            assert self.frontier.requeue(self.known[name], self.now) is is_done
        if is_done:
            del self.due[name]
            self.queued.add(name)

    @rule()
    def restart(self) -> None:
        self.frontier.close()
        self.check()
        self.frontier = self.opened()

    @rule()
    def kill(self) -> None:
        self.frontier.commit()
        copy = copy_as_killed(self.directory, Path(tempfile.mkdtemp()) / "copy")
        self.frontier.close()
        shutil.rmtree(self.directory)
        self.directory = copy
        self.check()
        self.frontier = self.opened()

    def check(self) -> None:
        store = Store(self.directory)
        assert list(Check(store, None, self.now).run()) == []
        store.close()

    def teardown(self) -> None:
        self.frontier.close()
        self.check()
        shutil.rmtree(self.directory)


Machine.TestCase.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)
TestReturning = Machine.TestCase
