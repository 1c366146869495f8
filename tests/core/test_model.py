"""The frontier against a model in plain Python, with restarts, kills and the passing of time as moves.

The model knows nothing of rows, heads or heaps: it keeps every queued page in one dictionary and searches
all of it. A kill brings it back to what it was at the last commit. Requests that only one process has are
lost with it: their pages are only seen when their turn comes, and links bring them back. A second machine
does the same with a scorer that changes its mind all the time. Turns for age (`test_host_order.py`) are
put off here for ever: what is left is best first.
"""

import copy
import random
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from answers import ids, release, see
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scrapy_frontier.core.frontier import NEUTRAL, Frontier, FrontierOptions, Link
from scrapy_frontier.core.hosts import host as host_module
from scrapy_frontier.core.hosts import host_order
from scrapy_frontier.core.hosts.host import SENDING, Politeness, Trouble
from scrapy_frontier.core.hosts.trouble import FIRST_REST, after_trouble
from scrapy_frontier.core.pages.leases import Lease, Outcome
from scrapy_frontier.core.pages.queue import KEPT
from scrapy_frontier.core.ranking.pagerank import Ranking
from scrapy_frontier.core.ranking.scorer import Scorer
from scrapy_frontier.core.store import keys, queue_keys, records
from scrapy_frontier.core.store.keys import FINISHED, LINK_ROW, State, bucket, key_id
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.link_rows import NOFOLLOW, Edge, decode_row
from scrapy_frontier.core.store.records import IN_MEMORY, NO_FACTS, Cooldown, RequestFacts
from scrapy_frontier.core.transitions import Event

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

LIMITS = [0, 4, 12, 5]  # pages of a host
names = st.sampled_from(NAMES)
priorities = st.sampled_from([0, 0, 0, 1, -1, 10**12])


@pytest.fixture(autouse=True, scope="module")
def nobody_is_due() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (host_order, "FIRST_ROUNDS"),
            (host_order, "MOST_ROUNDS"),
            (host_module, "RETRY_EVERY"),
        ):
            patch.setattr(module, name, 10**9)
        yield


def fingerprint(name: str) -> bytes:
    return name.encode().rjust(20, b".")


def clamped(priority: int) -> int:
    """As a page row holds it."""
    return min(priority, queue_keys.MAX_PRIORITY)


class Doubling(Scorer):
    """A link doubles the score of the page it leads to. Remembers nothing that the queue does not say."""

    def __init__(self) -> None:
        self.scores: defaultdict[int, float] = defaultdict(lambda: 1.0)

    def opened(self, node):
        return self.scores[node]

    def parsed(self, node, outlinks, weights=None):
        for target in outlinks:
            self.scores[target] = min(self.scores[target] * 2, 2.0**20)
        return [(target, self.scores[target]) for target in outlinks]

    def current_scores(self, nodes):
        return np.array([self.scores[node] for node in nodes.tolist()])

    def requeued(self, nodes, scores):
        self.scores.update(zip(nodes.tolist(), scores.tolist(), strict=True))


@dataclass
class Entry:
    """A page or a revisit that is queued or leased."""

    id: int
    name: str
    sort_key: bytes
    priority: int
    in_memory: bool = False  # only this process has its request
    is_lost: bool = False  # only an earlier process had it
    attempts: int = 0
    waits_until: float | None = None  # waits for the end of a backoff
    is_retried: bool = False  # handed out before in this run

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
    sending: int = 0
    rest: Cooldown | None = None
    is_doubted: bool = False

    def has_room(self, host: str) -> bool:
        return not self.sending and self.in_flight < (1 if self.is_doubted else HOSTS[host].concurrency)


@dataclass
class Model:
    ids: dict[str, int] = field(default_factory=dict)
    ended: dict[int, State] = field(default_factory=dict)
    queue: dict[int, Entry] = field(default_factory=dict)
    leases: dict[int, tuple[Entry, Lease]] = field(default_factory=dict)
    on_wire: set[int] = field(default_factory=set)
    sent: dict[int, bool] = field(default_factory=dict)  # leases of which that is told
    deferred: dict[int, Entry] = field(default_factory=dict)
    units: set[str] = field(default_factory=set)
    with_room: dict[str, None] = field(default_factory=dict)
    host_pages: int = 0
    clocks: dict[str, Clock] = field(default_factory=lambda: {host: Clock() for host in HOSTS})
    next_page: int = 0
    attempts: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    links: dict[int, list[int]] = field(default_factory=dict)
    scores: dict[int, float] | None = None  # with a scorer

    def place(self, page_id: int | None = None) -> int:
        """The score bucket of a page that is queued (again)."""
        return NEUTRAL if self.scores is None else bucket(self.scores.get(page_id, 1.0))

    def standing(self, page_id: int) -> int:
        """The score bucket for a revisit: that of the row that the page has as a new one."""
        entry = self.entry(page_id)
        if self.scores is None or entry is None or entry.waits_until is not None or len(entry.sort_key) > 11:
            return NEUTRAL if self.scores is None else bucket(1.0)
        return bucket_of(entry.sort_key)

    def entry(self, page_id: int) -> Entry | None:
        leased = {entry.id: entry for entry, _ in self.leases.values()}
        return self.queue.get(page_id) or leased.get(page_id)

    def pay(self, targets: list[int]) -> None:
        """The rows of the pages that were linked move, those of new ones, not leased."""
        assert self.scores is not None
        for target in targets:
            self.scores[target] = min(self.scores.get(target, 1.0) * 2, 2.0**20)
        for target in targets:
            entry = self.queue.get(target)
            if entry is not None and entry.waits_until is None and len(entry.sort_key) == 11:
                entry.sort_key = moved(entry.sort_key, bucket(self.scores[target]))

    def pending(self) -> list[Entry]:
        """What is queued, waiting, or leased."""
        return [*self.queue.values(), *(entry for entry, _ in self.leases.values())]

    def states(self) -> list[int]:
        states = [0] * len(State)
        states[State.QUEUED] = len(self.pending())
        for ended in self.ended.values():
            states[ended] += 1
        states[State.SEEN] = len(self.seen) + len(self.deferred)
        return states

    # -- budgets -----------------------------------------------------------------------------------------

    def fetched(self, host: str) -> int:
        """Excluded pages too: all were answered here."""
        return sum(self.host_counts(host)[1:])

    def name_of(self, page_id: int) -> str:
        return next(name for name, known in self.ids.items() if known == page_id)

    def waiting(self, host: str) -> list[Entry]:
        return sorted((each for each in self.deferred.values() if each.host == host), key=lambda e: e.id)

    def is_over(self, host: str) -> bool:
        return bool(self.host_pages) and self.host_counts(host)[0] + self.fetched(host) >= self.host_pages

    def defers(self, host: str) -> bool | None:
        """Whether a new page has to wait; None where it is not even kept."""
        if not self.is_over(host):
            return False
        return True if len(self.waiting(host)) < KEPT * self.host_pages else None

    def freed(self, host: str) -> None:
        if host in self.units and not self.is_over(host):
            self.with_room[host] = None

    def refill(self) -> None:
        """Queue what waits in the first host with room, until that is used up."""
        if not self.with_room:
            return
        host = next(iter(self.with_room))
        del self.with_room[host]
        for entry in self.waiting(host):
            if self.is_over(host):
                return
            entry.sort_key = queue_keys.sort_key(entry.priority, self.place(entry.id), entry.id, entry.id)
            self.queue[entry.id] = self.deferred.pop(entry.id)
        self.units.remove(host)

    def spill(self, now: float) -> None:
        """Put aside what a used-up budget of pages has no room for, as far as a lease would come to it."""
        while (best := self.best(now)) is not None:
            out = sum(entry.host == best.host for entry, _ in self.leases.values())
            pages = self.host_pages
            is_spent = pages and self.fetched(best.host) + out >= pages
            if not is_spent or best.is_visit:
                return
            self.defer(self.queue.pop(best.id))

    def defer(self, entry: Entry) -> None:
        self.deferred[entry.id] = entry
        entry.is_retried = False
        self.units.add(entry.host)

    def host_counts(self, host: str) -> tuple[int, int, int]:
        name_by_id = {page_id: name for name, page_id in self.ids.items()}
        ended = [state for page_id, state in self.ended.items() if name_by_id[page_id][0] == host]
        failed = sum(state in FAILED for state in ended)
        return sum(entry.host == host for entry in self.pending()), len(ended) - failed, failed

    def best(self, now: float) -> Entry | None:
        free = {host for host, clock in self.clocks.items() if clock.has_room(host) and clock.ready_at <= now}
        ready = [entry for entry in self.queue.values() if entry.host in free and entry.waits_until is None]
        heads = {entry.host: entry for entry in sorted(ready, key=lambda entry: entry.sort_key, reverse=True)}
        best = min(heads.values(), key=self._turn, default=None)
        if best is None or not self.clocks[best.host].is_doubted:
            return best
        fresh = [entry for entry in ready if entry.host == best.host and not entry.is_retried]
        return min(fresh, key=lambda entry: entry.sort_key, default=best)

    @property
    def arrival(self) -> int:
        """The id of the page discovered last."""
        return max(self.next_page - 1, 0)

    def _turn(self, head: Entry) -> tuple[bytes, int, bytes]:
        """Best first; among equals the host with the fewest requests under way."""
        return head.sort_key[: queue_keys.SCORE_BYTES], self.clocks[head.host].in_flight, head.sort_key

    def next_chance(self) -> float | None:
        """When a page can be had next if no lease ends before."""
        times = [entry.waits_until for entry in self.queue.values() if entry.waits_until is not None]
        times += [lease.deadline for _, lease in self.leases.values()]
        for host, clock in self.clocks.items():
            wanted = any(entry.host == host and entry.waits_until is None for entry in self.queue.values())
            if wanted and clock.has_room(host):
                times.append(clock.ready_at)
        return min(times, default=None)

    def off_wire(self, lease_id: int, now: float, is_answered: bool = False) -> None:
        if lease_id not in self.on_wire:
            return
        self.on_wire.remove(lease_id)
        entry, lease = self.leases[lease_id]
        clock, delay = self.clocks[entry.host], HOSTS[entry.host].delay
        clock.in_flight -= 1
        if is_answered and clock.rest is None:
            clock.is_doubted = False
        elif is_answered and clock.rest is not None and lease.leased_at >= clock.rest.since:
            clock.is_doubted = False
            clock.rest = clock.rest._replace(is_answering=True)
            if clock.rest.is_forgiven(now):
                clock.rest = None
        sent = self.sent.pop(lease_id, None)
        clock.sending -= sent is False
        if delay and not sent:
            left = now if sent is False else min(now, lease.leased_at + SENDING)
            clock.ready_at = max(clock.ready_at, left + delay)

    def release(self, lease_id: int, outcome: Outcome, now: float, links: list[int] | None = None) -> State:
        self.off_wire(lease_id, now)
        standing = self.standing(self.leases[lease_id][0].id)
        entry, _ = self.leases.pop(lease_id)
        state = self._release(entry, outcome, now, standing, links)
        self.freed(entry.host)
        return state

    def _release(
        self, entry: Entry, outcome: Outcome, now: float, standing: int, links: list[int] | None
    ) -> State:
        counted = outcome.event is not Event.POSTPONED
        entry.attempts += counted
        self.attempts += counted
        ended = ENDINGS.get(outcome.event)
        if ended is None and counted and entry.attempts >= MAX_ATTEMPTS:
            ended = State.FAILED
        if ended is None:
            if outcome.priority is not None and outcome.priority != entry.priority:
                is_better = clamped(outcome.priority) > entry.priority
                entry.priority = clamped(outcome.priority)
                if is_better:  # else it keeps its place
                    entry.sort_key = queue_keys.sort_key(entry.priority, standing, self.arrival, entry.id)
            if outcome.delay > 0:
                entry.waits_until = now + outcome.delay
            entry.is_retried = True
            self.queue[entry.id] = entry
            return State.QUEUED
        if not entry.is_visit:
            self.ended[entry.id] = ended
        if not entry.is_visit and links is not None:  # nobody says which page a revisit is for
            self.read(entry.id, ended, links)
        return ended

    def lose(self, entry: Entry) -> None:
        """The turn of a page has come whose request is gone with the process that had it."""
        del self.queue[entry.id]
        if not entry.is_visit:
            self.seen[entry.name] = self.ids.pop(entry.name)
        self.freed(entry.host)

    def read(self, page_id: int, ended: State, links: list[int]) -> None:
        if ended in (State.DONE, State.REDIRECTED, State.GONE):
            self.links[page_id] = sorted(set(links)) if ended is not State.GONE else []
        if ended in (State.DONE, State.REDIRECTED) and self.scores is not None:
            self.pay(sorted(set(links)))

    def cool(self, host: str, trouble: Trouble, now: float) -> Cooldown:
        clock = self.clocks[host]
        starts_over = trouble.may_be_page and not clock.is_doubted
        found = after_trouble(clock.rest, FIRST_REST, now, trouble, starts_over)
        clock.is_doubted |= clock.rest is None or found.since != clock.rest.since
        clock.rest = found
        clock.visited = clock.visited or now
        clock.ready_at = max(clock.ready_at, found.until)
        return found

    def restart(self, now: float, clean: bool, host_pages: int) -> None:
        """What is queued is left; after a kill every known host counts as visited just now."""
        for lease_id in list(self.leases):
            entry, _ = self.leases.pop(lease_id)
            self.queue[entry.id] = entry
        self.on_wire.clear()
        for entry in [*self.queue.values(), *self.deferred.values()]:
            entry.is_lost = entry.in_memory
            entry.is_retried = False
        self.host_pages = host_pages
        self.units = {entry.host for entry in self.deferred.values()}
        self.with_room = {host: None for host in sorted(self.units) if not self.is_over(host)}
        if self.scores is not None:
            queued = [entry for entry in self.queue.values() if not entry.is_visit]
            self.scores = {entry.id: 2 ** (bucket_of(entry.sort_key) / 1024 - 40) for entry in queued}
        for host, clock in self.clocks.items():
            if not clean:
                is_known = any(self.host_counts(host)) or clock.visited or clock.rest is not None
                clock.visited = now if is_known else 0.0  # a row of zeros is none
            delay = HOSTS[host].delay
            clock.in_flight = clock.sending = 0
            clock.ready_at = clock.visited + delay if clock.visited and delay else 0.0
            if not clean and not clock.visited and delay:
                clock.ready_at = now + delay  # it may have been visited although no row says so
            if clock.rest is not None and clock.rest.is_forgiven(now):
                clock.rest = None
            clock.is_doubted = clock.rest is not None and not clock.rest.is_answering
            if clock.rest is not None:
                clock.ready_at = max(clock.ready_at, clock.rest.until)


class NoChance(random.Random):
    def random(self) -> float:
        return 0.0


def bucket_of(sort_key: bytes) -> int:
    return 0xFFFF - int.from_bytes(sort_key[4:6], "big")


def moved(sort_key: bytes, place: int) -> bytes:
    return sort_key[:4] + (0xFFFF - place).to_bytes(2, "big") + sort_key[6:]


class FrontierMachine(RuleBasedStateMachine):
    scorer: type[Scorer] | None = None

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="frontier-model-"))
        self.now = NOW
        self.model = Model(scores=None if self.scorer is None else {})
        self.durable = copy.deepcopy(self.model)
        self.open(LIMITS[0])

    def open(self, host_pages: int) -> None:
        self.store = Store(self.directory)
        self.frontier = Frontier(
            self.store,
            self.now,
            FrontierOptions(
                politeness=HOSTS,
                max_attempts=MAX_ATTEMPTS,
                lease_timeout=LEASE_TIMEOUT,
                host_pages=host_pages,
                scorer=None if self.scorer is None else self.scorer(),
                rng=NoChance(),
            ),
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

    @rule(found=st.lists(st.tuples(names, priorities, st.booleans()), min_size=1, max_size=6))
    def discover_in_memory(self, found: list[tuple[str, int, bool]]) -> None:
        self.accept([link(name, priority, again=again, facts=IN_MEMORY) for name, priority, again in found])

    @rule(found=st.lists(names, min_size=1, max_size=6))
    def note_seen(self, found: list[str]) -> None:
        model = self.model
        found_ids = see(self.frontier, [link(name, 0) for name in found], self.now)
        for name, page_id in zip(found, found_ids, strict=True):
            if name not in model.ids and name not in model.seen:
                model.seen[name] = model.next_page
                model.next_page += 1
            assert page_id == model.seen.get(name, model.ids.get(name))

    def accept(self, links: list[Link]) -> None:
        model, frontier, now = self.model, self.frontier, self.now
        answers = [frontier.discover_one(links[0], now)] if len(links) == 1 else frontier.discover(links, now)
        for found, page_id in zip(links, ids(answers), strict=True):
            name = found.url.rpartition("/")[2]
            if name in model.seen:
                defers = model.defers(name[0])
                if defers is None:
                    assert page_id is None
                    continue
                assert page_id == model.seen[name]
                model.ids[name] = model.seen.pop(name)
                sort_key = queue_keys.sort_key(found.priority, model.place(page_id), model.arrival, page_id)
                entry = Entry(page_id, name, sort_key, clamped(found.priority), found.facts.is_in_memory)
                if defers:
                    model.defer(entry)
                else:
                    model.queue[page_id] = entry
                continue
            known = name in model.ids
            if known and not found.again:
                assert page_id is None
                continue
            defers = False if known else model.defers(name[0])
            if defers is None:
                assert page_id is None
                continue
            assert page_id is not None
            if known:
                arrival, place = model.arrival, model.standing(model.ids[name])
                assert page_id >= keys.FIRST_VISIT
                assert page_id not in model.queue
            else:
                arrival, place = model.next_page, model.place()
                assert page_id == arrival
                model.next_page += 1
            if not known:
                model.ids[name] = page_id
            sort_key = queue_keys.sort_key(found.priority, place, arrival, page_id)
            entry = Entry(page_id, name, sort_key, clamped(found.priority), found.facts.is_in_memory)
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
                if expected is not None or not self.model.with_room:
                    break
                assert found is None
                assert self.frontier.wake_at() == 0.0
            if expected is None:
                assert found is None
                self.check_wake_at()
                return
            assert found is not None
            assert (found.sort_key, found.page_id, found.host) == (
                expected.sort_key,
                expected.id,
                expected.host,
            )
            assert (found.page.attempts, found.page.url) == (expected.attempts, f"http://x/{expected.name}")
            assert found.page.facts.is_in_memory == expected.in_memory
            if expected.is_lost:
                self.lose(expected, found)
                continue
            clock, delay = self.model.clocks[expected.host], HOSTS[expected.host].delay
            clock.visited = self.now
            clock.in_flight += 1
            if delay:
                clock.ready_at = self.now + delay
            del self.model.queue[expected.id]
            self.model.leases[found.id] = expected, found
            self.model.on_wire.add(found.id)

    def lose(self, expected: Entry, found: Lease) -> None:
        """As the adapter does that finds no request: nothing is asked of the host."""
        self.frontier.skip_visit(found, self.now)
        assert self.frontier.release(found, Outcome(Event.LOST, reason="lost"), self.now).state is State.SEEN
        self.model.lose(expected)
        self.committed()

    def wake_and_expire(self) -> None:
        for entry in self.model.queue.values():
            if entry.waits_until is not None and entry.waits_until <= self.now:
                entry.waits_until = None
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
        event=st.sampled_from([*ENDINGS, Event.RETRIED, Event.RETRIED, Event.POSTPONED]),
        priority=st.none() | priorities,
        delay=st.sampled_from([0.0, 0.0, 1.0, 8.0]),
        linked=st.none() | st.lists(st.integers(0, 1000), max_size=8),
    )
    def release(
        self,
        data: st.DataObject,
        event: Event,
        priority: int | None,
        delay: float,
        linked: list[int] | None,
    ) -> None:
        lease_id = data.draw(st.sampled_from(sorted(self.model.leases)))
        outcome = Outcome(event, 299, "reason", priority=priority, delay=delay * (event is Event.RETRIED))
        model = self.model
        targets = [number % model.next_page for number in linked or () if model.next_page]
        edges = None
        if linked is not None:
            edges = [Edge(target) for target in targets] + [Edge(0, NOFOLLOW, 0)] * (0 in targets)
        if event is Event.REDIRECTED:  # its one link leads to its target
            targets = targets[:1]
            outcome = outcome._replace(target=targets[0] if targets else None)
        lease = model.leases[lease_id][1]
        assert release(self.frontier, lease, outcome, self.now, edges) is model.release(
            lease_id, outcome, self.now, None if linked is None else targets
        )
        self.committed()
        assert self.frontier.release(lease, outcome, self.now).is_late

    @precondition(lambda self: self.model.leases)
    @rule(data=st.data())
    def begin_sending(self, data: st.DataObject) -> None:
        model, lease_id = self.model, data.draw(st.sampled_from(sorted(self.model.leases)))
        host = model.leases[lease_id][0].host
        is_wanted = HOSTS[host].delay > 0 and lease_id in model.on_wire and lease_id not in model.sent
        assert self.frontier.will_send(model.leases[lease_id][1], self.now) == is_wanted
        if is_wanted:
            model.sent[lease_id] = False
            model.clocks[host].sending += 1

    @precondition(lambda self: self.model.leases)
    @rule(data=st.data())
    def be_sent(self, data: st.DataObject) -> None:
        model, lease_id = self.model, data.draw(st.sampled_from(sorted(self.model.leases)))
        self.frontier.on_sent(model.leases[lease_id][1], self.now)
        if model.sent.get(lease_id) is False:
            host = model.leases[lease_id][0].host
            clock, model.sent[lease_id] = model.clocks[host], True
            clock.sending -= 1
            clock.ready_at = max(clock.ready_at, self.now + HOSTS[host].delay)

    @precondition(lambda self: self.model.leases)
    @rule(data=st.data(), is_answered=st.booleans())
    def leave_the_network(self, data: st.DataObject, is_answered: bool) -> None:
        lease_id = data.draw(st.sampled_from(sorted(self.model.leases)))
        self.frontier.on_response(self.model.leases[lease_id][1], self.now, is_answered)
        self.model.off_wire(lease_id, self.now, is_answered)

    @precondition(lambda self: self.model.next_page)
    @rule(
        data=st.data(),
        asked=st.sampled_from([None, None, 0.0, 5.0, 300.0]),
        may_be_page=st.booleans(),
    )
    def meet_trouble(self, data: st.DataObject, asked: float | None, may_be_page: bool) -> None:
        """With a request under way, or with one that the frontier knows nothing of."""
        lease_id = data.draw(st.none() | st.sampled_from(sorted(self.model.leases) or [0]))
        host, sent = data.draw(st.sampled_from(sorted(HOSTS))), None
        if lease_id in self.model.leases:
            entry, lease = self.model.leases[lease_id]
            host, sent = entry.host, lease.leased_at
        trouble = Trouble("HTTP 503", asked, may_be_page, sent)
        found = self.frontier.record_cooldown(host, trouble, self.now)
        assert found.cooldown == self.model.cool(host, trouble, self.now)
        self.committed()

    @precondition(lambda self: self.model.next_page)
    @rule(data=st.data(), priority=priorities)
    def requeue(self, data: st.DataObject, priority: int) -> None:
        model = self.model
        page_id = data.draw(st.integers(0, model.next_page - 1))
        requeued = self.frontier.requeue(page_id, self.now, Link(priority=priority))
        self.committed()  # looking the page up commits what was open
        known = {**model.seen, **model.ids}
        (name,) = [name for name in known if known[name] == page_id] or ("",)
        is_deferred = page_id in model.deferred
        assert requeued == (model.ended.get(page_id) in FINISHED or name in model.seen or is_deferred)
        if requeued:
            was_seen = name in model.seen
            model.ended.pop(page_id, None)
            model.deferred.pop(page_id, None)
            model.ids[name] = model.seen.pop(name, page_id)
            sort_key = queue_keys.sort_key(priority, model.place(page_id), model.arrival, page_id)
            model.queue[page_id] = Entry(page_id, name, sort_key, clamped(priority))
            if was_seen:
                self.committed()

    @rule(seconds=st.sampled_from([0.05, 0.5, 1.0, 4.0, 10.0, 60.0, 2000.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(host_pages=st.sampled_from(LIMITS))
    def reopen_clean(self, host_pages: int) -> None:
        """The crawl gives back what is out, and stops.

        After a kill not at once: the visits that the kill hid would be forgotten (see test_frontier.py).
        """
        if not self.frontier.was_clean:
            self.now += max(polite.delay for polite in HOSTS.values())
        for lease_id in sorted(self.model.leases):
            outcome = Outcome(Event.POSTPONED)
            self.frontier.release(self.model.leases[lease_id][1], outcome, self.now)
            self.model.release(lease_id, outcome, self.now)
        self.frontier.close()
        self.model.restart(self.now, clean=True, host_pages=host_pages)
        self.committed()
        self.open(host_pages)
        assert self.frontier.was_clean
        self.inspect()

    @rule(host_pages=st.sampled_from(LIMITS))
    def reopen_after_kill(self, host_pages: int) -> None:
        """Let go of the files; LevelDB writes nothing at its end, so they are as a kill leaves them."""
        nothing_written = self.store.get(keys.COUNTS) is None
        self.store.close()
        self.model = self.durable
        self.open(host_pages)
        assert self.frontier.was_clean == nothing_written
        self.model.restart(self.now, clean=nothing_written, host_pages=host_pages)
        self.committed()
        self.inspect()

    @rule()
    def inspect(self) -> None:
        """Every row on disk is what the model says, and there is no other."""
        model, frontier = self.model, self.frontier
        frontier.commit()
        self.committed()
        for name in NAMES:
            assert frontier.find(fingerprint(name)) == model.ids.get(name, model.seen.get(name))

        pending = model.pending()
        ids = {entry.id for entry in pending} | set(model.ended) | set(model.seen.values())
        ids |= set(model.deferred)
        rows = {
            queue_keys.sort_key_id(key): records.decode_page(row) for key, row in self.store.scan(keys.PAGE)
        }
        assert set(rows) == ids
        for entry in pending:
            assert (rows[entry.id].state, rows[entry.id].attempts) == (State.QUEUED, entry.attempts)
        for entry in [*pending, *model.deferred.values()]:
            if entry.in_memory and not entry.is_visit:  # or no link would look whether it was lost
                value = self.store.get(keys.INDEX + fingerprint(entry.name))
                assert value == keys.index_value(entry.id, is_marked=True)
        for page_id, state in model.ended.items():
            assert rows[page_id].state is state
        for page_id in model.seen.values():
            assert rows[page_id].state is State.SEEN
        links = {key_id(key): row for key, row in self.store.scan(LINK_ROW)}
        assert set(links) == set(model.links)
        for page_id, row in links.items():
            assert [edge.target for edge in decode_row(page_id, row)] == model.links[page_id]

        queued = {
            queue_keys.queue_prefix(entry.host) + entry.sort_key
            for entry in pending
            if entry.waits_until is None
        }
        assert {key for key, _ in self.store.scan(keys.QUEUE)} == queued
        waiting = {
            queue_keys.waiting_key(entry.waits_until, entry.id)
            for entry in pending
            if entry.waits_until is not None
        }
        assert {key for key, _ in self.store.scan(keys.WAITING)} == waiting

        for host in HOSTS:
            row = records.HOST.decode(self.store.get(keys.host_key(host)) or bytes(32))
            assert (row.queued, row.done, row.failed) == model.host_counts(host)
            assert (row.fetched, row.deferred) == (model.fetched(host), len(model.waiting(host)))
        found = [keys.split_deferred_key(key) for key, _ in self.store.scan(keys.DEFERRED)]
        assert found == sorted((entry.host, entry.id) for entry in model.deferred.values())
        kept = records.COUNTS.decode(
            self.store.get(keys.COUNTS) or records.COUNTS.encode(records.Counts.none())
        )
        assert kept.hosts == sum(1 for _ in self.store.scan(keys.HOST))

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
        assert frontier._batch.counts.states == model.states()
        assert frontier._batch.counts.next_page == model.next_page
        assert frontier._batch.counts.attempts == model.attempts
        assert frontier.drain_events().set_aside == ()


def link(name: str, priority: int, *, again: bool = False, facts: RequestFacts = NO_FACTS) -> Link:
    url, host = f"http://x/{name}", name[0]
    return Link(fingerprint(name), url, host, priority, again=again, facts=facts)


class ScoringMachine(FrontierMachine):
    """Rows move whenever a page is parsed, and all of them after a ranking."""

    scorer = Doubling

    @rule(data=st.data(), limit=st.integers(1, 40))
    def rank(self, data: st.DataObject, limit: int) -> None:
        model, scorer = self.model, self.frontier._scores.scorer
        for page_id in range(model.next_page):
            new = data.draw(st.sampled_from([None, 0.5, 1.05, 4.0]))
            if new is not None:
                scorer.scores[page_id] = model.scores[page_id] = new
        run = self.frontier.rank_now()
        run.ranking = Ranking(np.zeros(0), 0, 0.0, converged=True)
        for _ in self.frontier.rank_steps(run, [None], lambda: self.now, limit):
            pass
        run.close()
        for entry in model.queue.values():
            place = model.place(entry.id)
            is_placed = entry.waits_until is None and len(entry.sort_key) == 11
            if is_placed and abs(place - bucket_of(entry.sort_key)) > self.scorer.min_bucket_move:
                entry.sort_key = moved(entry.sort_key, place)
        self.committed()


FEW = settings(max_examples=25, stateful_step_count=40, deadline=None)
MANY = settings(FEW, max_examples=120)

TestFrontier = FrontierMachine.TestCase
TestScoring = ScoringMachine.TestCase
TestFrontier.settings = TestScoring.settings = FEW


@pytest.mark.slow
class TestFrontierLonger(TestFrontier):
    settings = MANY


@pytest.mark.slow
class TestScoringLonger(TestScoring):
    settings = MANY
