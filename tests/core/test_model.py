"""The frontier against a model in plain Python, with restarts, kills and the passing of time as moves.

The model knows nothing of rows, heads or heaps: it keeps every queued page in one dictionary and searches
all of it. A kill brings it back to what it was at the last commit.
"""

import copy
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scrapy_frontier.core import keys, records
from scrapy_frontier.core.budgets import KEPT, Limits
from scrapy_frontier.core.frontier import NEUTRAL, Frontier, Link
from scrapy_frontier.core.hosts import SENDING, Politeness
from scrapy_frontier.core.leases import Lease, Outcome
from scrapy_frontier.core.lifecycle import FINISHED, Event, State
from scrapy_frontier.core.store import Store

NOW = 1_700_000_000.0
MAX_ATTEMPTS = 3
LEASE_TIMEOUT = 50.0
HOSTS = {"a": Politeness(0.0, 2), "b": Politeness(4.0, 1), "c": Politeness(1.0, 3)}
NAMES = [f"{host}{number}" for host in HOSTS for number in range(30)]
FAILED = (State.GONE, State.FAILED)
ENDINGS = {
    Event.FETCHED: State.DONE,
    Event.REDIRECTED: State.REDIRECTED,
    Event.GONE: State.GONE,
    Event.FAILED: State.FAILED,
    Event.EXCLUDED: State.EXCLUDED,
}

LIMITS = [Limits(), Limits(host_pages=4), Limits(host_pages=12), Limits(host_pending=3), Limits(5, 2)]
names = st.sampled_from(NAMES)
priorities = st.sampled_from([0, 0, 0, 1, -1, 10**12])


def fingerprint(name: str) -> bytes:
    return name.encode().rjust(20, b".")


def clamped(priority: int) -> int:
    """As a page row holds it."""
    return min(priority, keys.MAX_PRIORITY)


@dataclass
class Entry:
    """A page or a further visit that is queued or leased."""

    id: int
    name: str
    rank: bytes
    priority: int
    stored: bool
    attempts: int = 0
    due: float | None = None  # waits for the end of a backoff

    @property
    def host(self) -> str:
        return self.name[0]

    @property
    def is_visit(self) -> bool:
        return self.id >= keys.FIRST_VISIT


@dataclass
class Clock:
    """What is known of a host's visits."""

    visited: float = 0.0
    ready_at: float = 0.0
    in_flight: int = 0


@dataclass
class Model:
    ids: dict[str, int] = field(default_factory=dict)
    ended: dict[int, State] = field(default_factory=dict)
    queue: dict[int, Entry] = field(default_factory=dict)
    leases: dict[int, tuple[Entry, Lease]] = field(default_factory=dict)
    on_wire: set[int] = field(default_factory=set)
    deferred: dict[int, Entry] = field(default_factory=dict)
    units: set[str] = field(default_factory=set)
    due: dict[str, None] = field(default_factory=dict)
    limits: Limits = LIMITS[0]
    clocks: dict[str, Clock] = field(default_factory=lambda: {host: Clock() for host in HOSTS})
    next_page: int = 0
    attempts: int = 0

    def stored(self) -> list[Entry]:
        """What has rows: queued, waiting, or leased."""
        everything = [*self.queue.values(), *(entry for entry, _ in self.leases.values())]
        return [entry for entry in everything if entry.stored]

    def states(self) -> list[int]:
        states = [0] * len(State)
        states[State.QUEUED] = len(self.stored())
        for ended in self.ended.values():
            states[ended] += 1
        states[State.SEEN] = len(self.deferred)
        return states

    # -- budgets -----------------------------------------------------------------------------------------

    def fetched(self, host: str) -> int:
        excluded = sum(
            state is State.EXCLUDED and self.name_of(page_id)[0] == host
            for page_id, state in self.ended.items()
        )
        return sum(self.host_counts(host)[1:]) - excluded

    def name_of(self, page_id: int) -> str:
        return next(name for name, known in self.ids.items() if known == page_id)

    def waiting(self, host: str) -> list[Entry]:
        return sorted((each for each in self.deferred.values() if each.host == host), key=lambda e: e.id)

    def is_over(self, host: str) -> bool:
        return self.exceeded(host) != 0

    def exceeded(self, host: str) -> int:
        """The budget that has no room for one more page; 0 if both have."""
        queued, pages, pending = self.host_counts(host)[0], self.limits.host_pages, self.limits.host_pending
        if pages and queued + self.fetched(host) >= pages:
            return pages
        return pending if pending and queued >= pending else 0

    def defers(self, host: str) -> bool | None:
        """Whether a new page has to wait; None where it is not even kept."""
        limits = self.limits
        most = self.exceeded(host)
        if not most and host in self.units:
            most = limits.host_pending or limits.host_pages
        if not most:
            return False
        return True if len(self.waiting(host)) < KEPT * most else None

    def has_room(self, host: str) -> bool:
        """Not for one page: an eighth of a queue comes back at a time."""
        queued, pages, pending = self.host_counts(host)[0], self.limits.host_pages, self.limits.host_pending
        if pages and queued + self.fetched(host) >= pages:
            return False
        return not pending or queued <= pending - max(pending // 8, 1)

    def freed(self, host: str) -> None:
        if host in self.units and self.has_room(host):
            self.due[host] = None

    def refill(self) -> None:
        """Queue what waits in the first host with room, until that is used up."""
        if not self.due:
            return
        host = next(iter(self.due))
        del self.due[host]
        for entry in self.waiting(host):
            if self.is_over(host):
                return
            entry.rank = keys.rank(entry.priority, NEUTRAL, entry.id, entry.id)
            self.queue[entry.id] = self.deferred.pop(entry.id)
        self.units.remove(host)

    def spill(self, now: float) -> None:
        """Put aside what a used-up budget of pages has no room for, as far as a lease would come to it."""
        while (best := self.best(now)) is not None:
            out = sum(entry.host == best.host and entry.stored for entry, _ in self.leases.values())
            pages = self.limits.host_pages
            is_spent = pages and self.fetched(best.host) + out >= pages
            if not is_spent or best.is_visit or not best.stored:
                return
            self.defer(self.queue.pop(best.id))

    def defer(self, entry: Entry) -> None:
        self.deferred[entry.id] = entry
        self.units.add(entry.host)

    def host_counts(self, host: str) -> tuple[int, int, int]:
        name_by_id = {page_id: name for name, page_id in self.ids.items()}
        ended = [state for page_id, state in self.ended.items() if name_by_id[page_id][0] == host]
        failed = sum(state in FAILED for state in ended)
        return sum(entry.host == host for entry in self.stored()), len(ended) - failed, failed

    def best(self, now: float) -> Entry | None:
        free = {
            host
            for host, clock in self.clocks.items()
            if clock.in_flight < HOSTS[host].concurrency and clock.ready_at <= now
        }
        ready = [entry for entry in self.queue.values() if entry.host in free and entry.due is None]
        heads = {entry.host: entry for entry in sorted(ready, key=lambda entry: entry.rank, reverse=True)}
        return min(heads.values(), key=self._turn, default=None)

    @property
    def turn(self) -> int:
        """The id of the page discovered last."""
        return max(self.next_page - 1, 0)

    def _turn(self, head: Entry) -> tuple[bytes, int, bytes]:
        """Best first; among equals the host with the fewest requests under way."""
        return head.rank[: keys.SCORE_BYTES], self.clocks[head.host].in_flight, head.rank

    def next_chance(self) -> float | None:
        """When a page can be had next if no lease ends before."""
        times = [entry.due for entry in self.queue.values() if entry.due is not None]
        times += [lease.deadline for _, lease in self.leases.values()]
        for host, clock in self.clocks.items():
            wanted = any(entry.host == host and entry.due is None for entry in self.queue.values())
            if wanted and clock.in_flight < HOSTS[host].concurrency:
                times.append(clock.ready_at)
        return min(times, default=None)

    def left(self, lease_id: int, now: float) -> None:
        if lease_id not in self.on_wire:
            return
        self.on_wire.remove(lease_id)
        entry, lease = self.leases[lease_id]
        clock, delay = self.clocks[entry.host], HOSTS[entry.host].delay
        clock.in_flight -= 1
        if delay:
            clock.ready_at = max(clock.ready_at, min(now, lease.leased_at + SENDING) + delay)

    def release(self, lease_id: int, outcome: Outcome, now: float) -> State:
        self.left(lease_id, now)
        entry, _ = self.leases.pop(lease_id)
        state = self._release(entry, outcome, now)
        self.freed(entry.host)
        return state

    def _release(self, entry: Entry, outcome: Outcome, now: float) -> State:
        counted = outcome.event is not Event.RETURNED
        entry.attempts += counted
        self.attempts += counted
        ended = ENDINGS.get(outcome.event)
        if ended is None and counted and entry.attempts >= MAX_ATTEMPTS:
            ended = State.FAILED
        if ended is None:
            if entry.stored and outcome.priority is not None and outcome.priority != entry.priority:
                entry.priority = clamped(outcome.priority)
                entry.rank = keys.rank(entry.priority, NEUTRAL, self.turn, entry.id)
            if outcome.delay > 0:
                entry.due = now + outcome.delay
            self.queue[entry.id] = entry
            return State.QUEUED
        if not entry.stored and self.ids.get(entry.name) == entry.id:  # a page from now on
            self.ids[entry.name] = self.next_page
            self.ended[self.next_page] = ended
            self.next_page += 1
        elif not entry.is_visit:
            self.ended[entry.id] = ended
        return ended

    def restart(self, now: float, clean: bool, limits: Limits) -> None:
        """Only what is stored is left; after a kill every known host counts as visited just now."""
        for lease_id in list(self.leases):
            entry, _ = self.leases.pop(lease_id)
            self.queue[entry.id] = entry
        self.on_wire.clear()
        self.ids = {name: page_id for name, page_id in self.ids.items() if page_id < keys.FIRST_VISIT}
        self.queue = {entry.id: entry for entry in self.queue.values() if entry.stored}
        self.limits = limits
        self.units = {entry.host for entry in self.deferred.values()}
        self.due = {host: None for host in sorted(self.units) if self.has_room(host)}
        for host, clock in self.clocks.items():
            if not clean:
                clock.visited = now if any(self.host_counts(host)) else 0.0
            delay = HOSTS[host].delay
            clock.in_flight = 0
            clock.ready_at = clock.visited + delay if clock.visited and delay else 0.0


class FrontierMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="frontier-model-"))
        self.now = NOW
        self.model, self.durable = Model(), Model()
        self.open(LIMITS[0])

    def open(self, limits: Limits) -> None:
        self.store = Store(self.directory)
        self.frontier = Frontier(
            self.store,
            self.now,
            politeness=HOSTS,
            max_attempts=MAX_ATTEMPTS,
            lease_timeout=LEASE_TIMEOUT,
            limits=limits,
        )
        while not self.frontier.load(self.now, limit=2):
            pass

    def committed(self) -> None:
        self.durable = copy.deepcopy(self.model)

    def teardown(self) -> None:
        try:
            self.inspect()
            self.reopen_clean(LIMITS[0])
        finally:
            self.store.close()
            shutil.rmtree(self.directory)

    # -- moves -------------------------------------------------------------------------------------------

    @rule(found=st.lists(st.tuples(names, priorities, st.booleans()), min_size=1, max_size=12))
    def discover(self, found: list[tuple[str, int, bool]]) -> None:
        self.accept([link(name, priority, again=again and name[1] == "0") for name, priority, again in found])

    @rule(host=st.sampled_from(sorted(HOSTS)), number=st.integers(0, 29))
    def discover_a_whole_host(self, host: str, number: int) -> None:
        """More pages than a host keeps in memory."""
        self.accept([link(f"{host}{(number + step) % 30}", step % 2) for step in range(20)])

    @rule(number=st.integers(0, 29), priority=priorities, again=st.booleans())
    def discover_unstored(self, number: int, priority: int, again: bool) -> None:
        """On a host without delay: a kill forgets that it was ever visited."""
        self.accept([link(f"a{number}", priority, again=again, stored=False)])

    def accept(self, links: list[Link]) -> None:
        model = self.model
        for found, page_id in zip(links, self.frontier.discover(links, self.now), strict=True):
            name = found.url.rpartition("/")[2]
            known = name in model.ids
            if known and not found.again:
                assert page_id is None
                continue
            is_new = not known and found.stored
            defers = model.defers(name[0]) if is_new else False
            if defers is None:
                assert page_id is None
                continue
            assert page_id is not None
            if known or not found.stored:
                turn = model.turn
                assert page_id >= keys.FIRST_VISIT
                assert page_id not in model.queue
            else:
                turn = model.next_page
                assert page_id == turn
                model.next_page += 1
            if not known:
                model.ids[name] = page_id
            rank = keys.rank(found.priority, NEUTRAL, turn, page_id)
            entry = Entry(page_id, name, rank, clamped(found.priority), found.stored)
            if defers:
                model.defer(entry)
            else:
                model.queue[page_id] = entry

    @rule(times=st.integers(1, 8))
    def lease(self, times: int) -> None:
        for _ in range(times):
            while True:
                found = self.frontier.lease(self.now)
                self.wake_and_expire()
                self.model.refill()
                self.model.spill(self.now)
                self.committed()
                expected = self.model.best(self.now)
                if expected is not None or not self.model.due:
                    break
                assert found is None
                assert self.frontier.wake_at() == 0.0
            if expected is None:
                assert found is None
                self.check_wake_at()
                return
            assert found is not None
            assert (found.rank, found.page_id, found.host) == (expected.rank, expected.id, expected.host)
            assert (found.page.attempts, found.page.url) == (expected.attempts, f"http://x/{expected.name}")
            clock, delay = self.model.clocks[expected.host], HOSTS[expected.host].delay
            clock.visited = self.now
            clock.in_flight += 1
            if delay:
                clock.ready_at = self.now + delay
            del self.model.queue[expected.id]
            self.model.leases[found.id] = expected, found
            self.model.on_wire.add(found.id)

    def wake_and_expire(self) -> None:
        for entry in self.model.queue.values():
            if entry.due is not None and entry.due <= self.now:
                entry.due = None
        for lease_id, (_, lease) in sorted(self.model.leases.items()):
            if lease.deadline <= self.now:
                self.model.release(lease_id, Outcome(Event.EXPIRED), self.now)

    def check_wake_at(self) -> None:
        """Nobody may sleep through the next chance."""
        chance, wake_at = self.model.next_chance(), self.frontier.wake_at()
        if chance is not None:
            assert wake_at is not None
            assert self.now < wake_at <= chance

    @precondition(lambda self: self.model.leases)
    @rule(
        data=st.data(),
        event=st.sampled_from([*ENDINGS, Event.RETRIED, Event.RETRIED, Event.RETURNED]),
        priority=st.none() | priorities,
        delay=st.sampled_from([0.0, 0.0, 1.0, 8.0]),
    )
    def release(self, data: st.DataObject, event: Event, priority: int | None, delay: float) -> None:
        lease_id = data.draw(st.sampled_from(sorted(self.model.leases)))
        outcome = Outcome(event, 299, "reason", priority=priority, delay=delay * (event is Event.RETRIED))
        assert self.frontier.release(lease_id, outcome, self.now) is self.model.release(
            lease_id, outcome, self.now
        )
        self.committed()
        assert self.frontier.release(lease_id, outcome, self.now) is None

    @precondition(lambda self: self.model.leases)
    @rule(data=st.data())
    def leave_the_network(self, data: st.DataObject) -> None:
        lease_id = data.draw(st.sampled_from(sorted(self.model.leases)))
        self.frontier.left(lease_id, self.now)
        self.model.left(lease_id, self.now)

    @precondition(lambda self: self.model.next_page)
    @rule(data=st.data(), priority=priorities)
    def requeue(self, data: st.DataObject, priority: int) -> None:
        model = self.model
        page_id = data.draw(st.integers(0, model.next_page - 1))
        requeued = self.frontier.requeue(page_id, self.now, b"", priority)
        self.committed()  # looking the page up commits what was open
        assert requeued == (model.ended.get(page_id) in FINISHED or page_id in model.deferred)
        if requeued:
            if page_id in model.deferred:
                del model.deferred[page_id]
            else:
                del model.ended[page_id]
            (name,) = (name for name, known in model.ids.items() if known == page_id)
            rank = keys.rank(priority, NEUTRAL, model.turn, page_id)
            model.queue[page_id] = Entry(page_id, name, rank, clamped(priority), stored=True)

    @rule(seconds=st.sampled_from([0.05, 0.5, 1.0, 4.0, 10.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(limits=st.sampled_from(LIMITS))
    def reopen_clean(self, limits: Limits) -> None:
        """The crawl gives back what is out, and stops.

        After a kill not at once: the visits that the kill hid would be forgotten (see test_frontier.py).
        """
        if not self.frontier.was_clean:
            self.now += max(polite.delay for polite in HOSTS.values())
        for lease_id in sorted(self.model.leases):
            outcome = Outcome(Event.RETURNED)
            self.frontier.release(lease_id, outcome, self.now)
            self.model.release(lease_id, outcome, self.now)
        self.frontier.close()
        self.model.restart(self.now, clean=True, limits=limits)
        self.committed()
        self.open(limits)
        assert self.frontier.was_clean
        self.inspect()

    @rule(limits=st.sampled_from(LIMITS))
    def reopen_after_kill(self, limits: Limits) -> None:
        """Let go of the files; LevelDB writes nothing at its end, so they are as a kill leaves them."""
        nothing_written = self.store.get(keys.COUNTS) is None
        self.store.close()
        self.model = self.durable
        self.open(limits)
        assert self.frontier.was_clean == nothing_written
        self.model.restart(self.now, clean=nothing_written, limits=limits)
        assert self.frontier.counts.attempts <= self.model.attempts
        self.model.attempts = self.frontier.counts.attempts  # those of what lived in memory may be lost
        self.committed()
        self.inspect()

    @rule()
    def inspect(self) -> None:
        """Every row on disk is what the model says, and there is no other."""
        model, frontier = self.model, self.frontier
        frontier.commit()
        self.committed()
        for name in NAMES:
            assert frontier.find(fingerprint(name)) == model.ids.get(name)

        stored = model.stored()
        ids = {entry.id for entry in stored} | set(model.ended) | set(model.deferred)
        rows = {keys.rank_id(key): records.decode_page(row) for key, row in self.store.scan(keys.PAGE)}
        assert set(rows) == ids
        for entry in stored:
            assert (rows[entry.id].state, rows[entry.id].attempts) == (State.QUEUED, entry.attempts)
        for page_id, state in model.ended.items():
            assert rows[page_id].state is state

        queued = {keys.queue_prefix(entry.host) + entry.rank for entry in stored if entry.due is None}
        assert {key for key, _ in self.store.scan(keys.QUEUE)} == queued
        waiting = {keys.waiting_key(entry.due, entry.id) for entry in stored if entry.due is not None}
        assert {key for key, _ in self.store.scan(keys.WAITING)} == waiting

        for host in HOSTS:
            row = records.decode_host(self.store.get(keys.host_key(host)) or bytes(28))
            assert row[:3] == model.host_counts(host)
            assert (row.fetched, row.deferred) == (model.fetched(host), len(model.waiting(host)))
        found = [keys.split_deferred_key(key) for key, _ in self.store.scan(keys.DEFERRED)]
        assert found == sorted((entry.host, entry.id) for entry in model.deferred.values())

    # -- what is always true -------------------------------------------------------------------------------

    @invariant()
    def every_page_is_in_one_state(self) -> None:
        model = self.model
        leased = [entry.id for entry, _ in model.leases.values()]
        places = [*model.queue, *leased, *model.ended, *model.deferred]
        assert len(places) == len(set(places))
        assert set(model.ids.values()) <= set(places)

    @invariant()
    def counts_are_right(self) -> None:
        model, frontier = self.model, self.frontier
        assert frontier.pending == len(model.queue)
        assert frontier.leased == len(model.leases)
        assert frontier.counts.states == model.states()
        assert frontier.counts.next_page == model.next_page
        assert frontier.counts.attempts == model.attempts
        assert frontier.unreadable == []


def link(name: str, priority: int, *, again: bool = False, stored: bool = True) -> Link:
    url, host = f"http://x/{name}", name[0]
    return Link(fingerprint(name), url, host, priority, again=again, stored=stored, kept_host=host)


TestFrontier = FrontierMachine.TestCase
TestFrontier.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
