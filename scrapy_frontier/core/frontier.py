"""The frontier: everything known but not finished, and the verbs on it.

Every verb takes plain data and *now* (POSIX seconds), reads, decides, and puts its rows into one batch,
which is written atomically; a page's links no later than its own end. Nothing is written at hand-out: the
queue row goes when the lease ends, and whatever a crash interrupts is still queued.

`Frontier` owns its parts, each of which keeps its state to itself and calls only parts made before it; a verb
that one part does alone is told there. To discover a known page, or to release an ended lease, does nothing.

A verb of the frontier that one of its parts does alone: no call in between.

What earlier runs left, brought back in slices beside the crawl: hosts, scores, fingerprints, due times.

Pages of one host that have the same content: the first of them stands for all.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from types import MethodType
from typing import TYPE_CHECKING, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar

from .hosts import host as delay_sources
from .hosts.budgets import NO_LIMITS, Budgets, Limits
from .hosts.giving_up import Cooldowns, Left, left_behind
from .hosts.host import CooldownRule, Politeness
from .hosts.politeness import Clocks, HostTable, maker
from .hosts.ready_hosts import Hosts, itself
from .hosts.sites import RobotsAndSitemaps
from .pages.discovery import Discovery, PageIndex
from .pages.edits import Edits
from .pages.endings import Endings, HandOut
from .pages.leases import Discovered, Fate, Lease, Leases, Link, Outcome, Released, new_link
from .pages.queue import Backoffs, Deferral, Queue
from .pages.rankings import Computed, Rankings, RankRun
from .pages.revisit_endings import False304s, RevisitEndings
from .pages.revisit_queue import ForbiddenPages, RecomputeDue, RevisitQueue
from .parse.urls import clean_host
from .revisits.budget import RevisitBudget, RevisitShare
from .revisits.plans import LearntChangeRates, Plans, RevisitRule, no_facts
from .revisits.policy import differ
from .store import keys
from .store.batch import Batch, BloomFilter
from .store.keys import NEUTRAL, PageId, State
from .transitions import Event

if TYPE_CHECKING:
    from collections.abc import Callable

    from .hosts.giving_up import GivenUpPages, GiveUpRule
    from .hosts.turns import DomainRates
    from .pages.rescoring import Rescoring
    from .pages.traps import TrapLimits
    from .ranking.scorer import Scorer
    from .revisits.plans import PayloadReader
    from .store.batch import OnCommit
    from .store.leveldb import Store
    from .store.records import Page, Totals

P = ParamSpec("P")
R = TypeVar("R")
Part = TypeVar("Part")


class Verb(Generic[P, R]):
    """What *does* it, of the part that the frontier keeps by the name *part*: its promise stands there.

    It is bound when it is asked for first; from then on it is an attribute of the frontier like any other.
    """

    def __init__(self, part: str, does: Callable[Concatenate[Part, P], R]) -> None:
        self._part = part
        self._does = does

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, frontier: object | None, owner: type) -> Callable[P, R]:
        found: Callable[..., R] = self._does
        if frontier is not None:
            found = vars(frontier)[self._name] = MethodType(self._does, getattr(frontier, self._part))
        return found


_LEARN_LIMIT = 400  # fingerprints at a time, 0.3 ms


@dataclass(eq=False, repr=False)
class EarlierRuns:
    """Loads what earlier runs left, part by part; ``is_loaded`` once all is there that queued pages need."""

    _batch: Batch
    _table: HostTable
    _deferred: Deferral
    _queue: Queue
    _scores: Rescoring | None
    _recompute_due: RecomputeDue
    _learned = b""
    is_loaded = False

    @property
    def is_filling(self) -> bool:
        """Whether queues may be about to fill by what is not there yet, due rows by another rule too. No
        store read."""
        return not (self.is_loaded and self._recompute_due.is_done)

    def load(self, now: float, limit: int = 100) -> bool:
        """Bring up to *limit* more hosts of earlier runs into memory; true once all that they left is there.

        20 to 80 us a host with queued pages, 1 us another one. Pages of hosts not yet loaded wait their turn.
        Then what the scorer knew comes back, in as many calls again, 1 us a queued page; links of pages that
        end meanwhile count when it is there. With that the frontier ``is_loaded``. At last the fingerprints
        of all pages, a lookup less for each new link, 0.3 ms a call; and where pages come back by another
        rule than before, when, 10 to 30 us a page.
        """
        table, deferred, scores = self._table, self._deferred, self._scores
        if not table.is_loaded:
            table.load(now, limit)
        if table.is_loaded and not deferred.is_loaded:
            deferred.load(limit)
        elif table.is_loaded and scores is not None and not scores.is_loaded:
            scores.load(20 * limit)
            self._batch.commit()
            self._queue.place_moved(now)
        is_scored = scores is None or scores.is_loaded
        self.is_loaded = table.is_loaded and deferred.is_loaded and is_scored
        if self.is_loaded and not self._batch.seen.is_complete:
            self._learn()
        if self.is_loaded and not self._recompute_due.is_done:
            self._recompute_due.step(4 * limit)
        return self.is_loaded and self._batch.seen.is_complete and self._recompute_due.is_done

    def _learn(self) -> None:
        """Look up some more of the fingerprints."""
        found = self._batch.store.keys_of(keys.INDEX, self._learned, _LEARN_LIMIT)
        self._batch.seen.update(found)
        self._learned = found[-1] if found else b""
        if len(found) < _LEARN_LIMIT:
            self._batch.seen.complete()


@dataclass(eq=False, repr=False)
class Contents:
    """Tells pages of a host with the same content; owns the rows that lead from a digest to the first page
    with it."""

    _batch: Batch

    def same_content(self, page_id: PageId, host: str, digest: bytes, kept: bytes = b"") -> Page | None:
        """The page of *host* whose content had the same *digest*; if there is none, this one has from now on.

        A page that failed does not count: nobody followed its links; nor one that has changed, as its record
        says where such content would have another digest *kept*, if both are of a kind. Commits what is open;
        one lookup, two for a duplicate.
        """
        self._batch.commit()
        key = keys.body_key(clean_host(host), digest)
        stored = self._batch.get(key)
        first = page_id if stored is None else keys.id_in(stored)
        page = self._batch.read_page(first) if first != page_id else None
        if page is not None and page.state in (State.DONE, State.QUEUED):
            now_has = b"" if page.visits is None else page.visits.digest
            if not differ(kept, now_has):
                return page
        if stored is None or first != page_id:
            self._batch.rows[key] = keys.id_bytes(page_id)
        return None


__all__ = [
    "NEUTRAL",
    "Computed",
    "Discovered",
    "Event",
    "Fate",
    "Frontier",
    "Lease",
    "Link",
    "Outcome",
    "PageId",
    "RankRun",
    "Released",
    "new_link",
]

UNLIMITED = Politeness(0.0, 8)
_COOLDOWN = CooldownRule()
_RESPONSE_DELAY = delay_sources.ResponseDelay()


class News(NamedTuple):
    """Ids of pages that were set aside because their rows cannot be read, and what was given up."""

    set_aside: tuple[PageId, ...]
    given_up: tuple[GivenUpPages, ...]


class Frontier:
    """The pages of *store* and their order at *now* (POSIX seconds): all verbs.

    - *default_politeness*: seconds between two leases of a host, and how many at once; *politeness*: by host.
    - *max_attempts*: leases after which a page has failed; *lease_timeout*: seconds until one is taken back.
    - *cooldown*: how long a host rests after trouble; *give_up_rule*: where nobody comes back (`giving_up`).
    - *response_delay*: by the response time of a host; *rates*: pages a second of a registered domain. None.
    - *rng*: by how much pauses are lengthened by chance; by default the same in every run.
    - *scorer*: what a page is worth; without one equals of one priority are first in, first out.
    - *traps*: URLs that look endless, and leave no trace; *limits*: the budgets, over which pages wait. None.
    - *domain_of*: the registered domain of a host, for budgets, turns and rates; the host itself by default.
    - *revisits*: when finished pages come back, else none does; *read_payload* reads requests for that.
    - *own_of* a payload is the one that its page has when it has ended; by default the same.
    - *on_commit*: is called with the rows of each batch that was written; None for a key that is deleted.
    - *at_risk*: pages that a kill may repeat. While fewer are under way, the ends of others are written
      together, by `commit` at the latest; 0: each by itself.
    - ``was_clean``: the run before ended by `close`, or there was none.
    - ``is_recent``: by the text of a URL, whether `recognize` would surely say so; False says nothing.
    """

    def __init__(
        self,
        store: Store,
        now: float,
        *,
        default_politeness: Politeness = UNLIMITED,
        politeness: dict[str, Politeness] | None = None,
        max_attempts: int = 10,
        lease_timeout: float = 3600.0,
        cooldown: CooldownRule = _COOLDOWN,
        response_delay: delay_sources.ResponseDelay = _RESPONSE_DELAY,
        rates: DomainRates | None = None,
        rng: random.Random | None = None,
        scorer: Scorer | None = None,
        traps: TrapLimits | None = None,
        limits: Limits = NO_LIMITS,
        domain_of: Callable[[str], str] = itself,
        give_up_rule: GiveUpRule | None = None,
        revisits: RevisitRule | None = None,
        read_payload: PayloadReader = no_facts,
        own_of: Callable[[bytes], bytes] = bytes,
        on_commit: OnCommit | None = None,
        at_risk: int = 0,
    ) -> None:
        rng = rng or random.Random(0)  # noqa: S311 - draws pauses, guards nothing
        self._store = store
        self._batch = batch = Batch(store, BloomFilter(), on_commit)
        self.was_clean = batch.begin_run()
        self._page_index = index = PageIndex(batch)
        self.is_recent = index.is_recent
        self._budgets = budgets = Budgets(limits, domain_of)
        self._hosts = hosts = Hosts(domain_of, rates, maker(politeness or {}, default_politeness, budgets))
        cooldowns = Cooldowns(batch, cooldown, rng)
        self._table = table = HostTable(batch, hosts, budgets, cooldowns, response_delay, now, self.was_clean)
        of_hosts = hosts, table, budgets
        self._clocks = clocks = Clocks(batch, hosts, table, cooldowns, response_delay, give_up_rule, rng)
        self._sites = sites = RobotsAndSitemaps(batch, give_up_rule)
        self._leases = leases = Leases(lease_timeout, max_attempts, at_risk)
        self._scores = scores = None if scorer is None else _rescoring(scorer, batch, hosts)
        score_of = (lambda page_id: None) if scores is None else scores.score_of
        self._queue = queue = Queue(batch, hosts, table, budgets, scores)
        self._backoffs = backoffs = Backoffs(batch, table, queue, now)
        self._deferral = deferred = Deferral(batch, table, budgets, queue, scores)
        rule, revisits_pages = revisits or RevisitRule(), revisits is not None
        forbidden = ForbiddenPages(batch, sites)
        plans = Plans(rule, batch.read_page, read_payload)
        learnt = LearntChangeRates(batch, sites, rule, read_payload)
        budget = RevisitBudget(batch, score_of, rule, plans, learnt, now)
        share = RevisitShare(batch, hosts, rule.share) if revisits_pages else None
        self._revisit_queue = revisit_queue = RevisitQueue(
            batch, hosts, table, forbidden, learnt, budget, share, score_of, rule, revisits_pages, own_of, now
        )
        self._discovery = Discovery(batch, index, *of_hosts, queue, deferred, scores, revisit_queue, traps)
        recompute = RecomputeDue(batch, revisit_queue, forbidden)
        self._earlier_runs = EarlierRuns(batch, table, deferred, queue, scores, recompute)
        self._edits = Edits(batch, index, table, leases, queue, deferred, scores, revisit_queue, recompute)
        self._false_304s = false_304s = False304s()
        revisit_endings = RevisitEndings(
            batch, table, queue, backoffs, scores, revisit_queue, learnt, budget, forbidden, false_304s
        )
        self._endings = endings = Endings(
            batch, index, *of_hosts, clocks, leases, queue, backoffs, scores, revisit_queue, revisit_endings
        )
        self._rankings = Rankings(batch, queue, scores)
        self._contents = Contents(batch)
        self._hand_out = HandOut(
            batch, *of_hosts, clocks, leases, queue, backoffs, deferred, endings, revisit_queue, share
        )

    def __repr__(self) -> str:
        return f"<Frontier {self.pending} pending, {len(self._leases)} leased, {self._hosts!r}>"

    # -- what there is ---------------------------------------------------------------------------------

    def totals(self) -> Totals:
        """What all runs together hold, open ends too, by kept counters: as `scrapy frontier stats`."""
        return self._batch.counts.totals()

    @property
    def pending(self) -> int:
        """Requests that wait to be leased: ready, cooling, or in a backoff; not those of blocked hosts."""
        waiting = self._batch.counts.states[State.QUEUED] - self.withheld
        return waiting - self._leases.of_hosts_not_blocked(self._hosts.by_name)

    @property
    def withheld(self) -> int:
        """Queued pages of hosts in memory that the operator blocked: `lease` brings none of them."""
        return sum(host.queued for host in self._table.blocked.values())

    @property
    def leased(self) -> int:
        """How many leases are out: granted, and neither released nor put back."""
        return len(self._leases)

    @property
    def hosts(self) -> int:
        """Hosts in memory, asleep or awake: with queued pages, requests under way, or a delay to keep."""
        return len(self._hosts)

    @property
    def is_refilling(self) -> bool:
        """Whether queues may fill by themselves: with pages deferred, of hosts not loaded, or due."""
        is_filling = self._earlier_runs.is_filling or self._revisit_queue.is_filling
        return is_filling or bool(self._budgets.with_room)

    @property
    def is_loaded(self) -> bool:
        """Whether what `load` reads of earlier runs is there: hosts, deferred units, scores."""
        return self._earlier_runs.is_loaded

    def left_over(self, now: float) -> Left:
        """What stays queued if the crawl ends at *now*, blocked hosts left out. O(hosts), no store read."""
        return left_behind(self._hosts.by_name.values(), now, self._backoffs.next, self._hosts.asleep)

    is_of_this_run = Verb("_page_index", PageIndex.is_of_this_run)
    find = Verb("_page_index", PageIndex.find)
    page = Verb("_page_index", PageIndex.page)
    next_due = Verb("_revisit_queue", RevisitQueue.next_due)
    validators = Verb("_false_304s", False304s.validators)
    judge_304 = Verb("_false_304s", False304s.judge_304)
    waiting_for_room = Verb("_deferral", Deferral.waiting_for_room)
    load = Verb("_earlier_runs", EarlierRuns.load)
    used_by = Verb("_batch", Batch.used_by)
    commit = Verb("_batch", Batch.commit)

    # -- pages in --------------------------------------------------------------------------------------

    recognize = Verb("_page_index", PageIndex.recognize)
    discover = Verb("_discovery", Discovery.discover)
    discover_one = Verb("_discovery", Discovery.discover_one)
    refusal = Verb("_discovery", Discovery.refusal)

    # -- edits -----------------------------------------------------------------------------------------

    requeue = Verb("_edits", Edits.requeue)
    renew = Verb("_edits", Edits.renew)
    make_due = Verb("_edits", Edits.make_due)
    forget = Verb("_edits", Edits.forget)
    forget_host = Verb("_edits", Edits.forget_host)
    block = Verb("_clocks", Clocks.block)
    unblock = Verb("_clocks", Clocks.unblock)
    order_delay = Verb("_clocks", Clocks.order_delay)

    def news(self) -> News:
        """What happened beside the answers since this was asked last; each is told once."""
        return News(self._queue.take_unreadable(), self._clocks.take_given_up())

    # -- pages out -------------------------------------------------------------------------------------

    lease = Verb("_hand_out", HandOut.lease)
    sending = Verb("_clocks", Clocks.sending)
    sent = Verb("_clocks", Clocks.sent)
    off_wire = Verb("_clocks", Clocks.off_wire)
    put_back = Verb("_hand_out", HandOut.put_back)
    skip_visit = Verb("_hand_out", HandOut.skip_visit)
    wake_at = Verb("_hand_out", HandOut.wake_at)

    def identify(self, lease: Lease, fingerprint: bytes) -> int:
        """Say which page a lease without a ``node`` is for, a further visit: its links gather on that page,
        or are not kept where nobody knows the *fingerprint*. When that was visited last (POSIX seconds), as
        far as it came to an end; 0: never, or nothing comes back. One lookup, two where pages come back."""
        node, pages = self.find(fingerprint), self._revisit_queue
        lease.node, page = node, pages.finished(node) if node is not None and pages.revisits_pages else None
        return 0 if page is None or page.visits is None else page.visits.last

    extend_leases = Verb("_leases", Leases.extend)
    release = Verb("_endings", Endings.release)

    # -- rankings --------------------------------------------------------------------------------------

    def rank_due(self, now: float, interval: float = 0.0) -> RankRun | None:
        """A ranking, if the crawl has grown by enough since the last one or *interval* seconds have passed
        (0: does not count), or the packing of links, if due; who gets one has to close it. None: neither is,
        or `load` is not through. Commits what was open and takes a snapshot where one is due."""
        return self._rankings.rank_due(now, interval) if self.is_loaded else None

    rank_now = Verb("_rankings", Rankings.rank_now)
    rank_steps = Verb("_rankings", Rankings.rank_steps)
    same_content = Verb("_contents", Contents.same_content)

    # -- hosts -----------------------------------------------------------------------------------------

    set_delay = Verb("_clocks", Clocks.set_delay)
    ordered_delay = Verb("_table", HostTable.ordered_delay)
    site_delay = Verb("_clocks", Clocks.site_delay)
    cool = Verb("_clocks", Clocks.cool)
    is_cooling = Verb("_clocks", Clocks.is_cooling)
    hold = Verb("_clocks", Clocks.hold)
    release_hold = Verb("_clocks", Clocks.release_hold)
    held = Verb("_clocks", Clocks.held)
    begin_side_request = Verb("_clocks", Clocks.begin_side_request)
    end_side_request = Verb("_clocks", Clocks.end_side_request)

    # -- what sites said -------------------------------------------------------------------------------

    robots_copy = Verb("_sites", RobotsAndSitemaps.robots_copy)
    retried_sooner = Verb("_sites", RobotsAndSitemaps.retried_sooner)
    keep_robots_copy = Verb("_sites", RobotsAndSitemaps.keep_robots_copy)
    sitemaps_of = Verb("_sites", RobotsAndSitemaps.sitemaps_of)
    keep_sitemaps = Verb("_sites", RobotsAndSitemaps.keep_sitemaps)

    # -- the end ---------------------------------------------------------------------------------------

    def ends_at(self, now: float, patience: float) -> float | None:
        """When the crawl ends: *now* if it is over; None: it stays open, for what can be had or falls due.

        It waits for hosts that do not answer, or want to be asked later (`end_of_crawl`), *patience* seconds
        since a page last came to an end; and is over at once where none of them opens by then. With a rule
        for giving up no page is left: hosts are asked sooner, or given up (`giving_up`). To be asked when
        nothing is under way; afterwards `wake_at` may tell another time. O(hosts) while all are shut.
        """
        if self.is_refilling or self._revisit_queue.awaits(now):
            return None
        return self._hand_out.ends_at(now, patience) if self.pending else now

    last_lease = Verb("_endings", Endings.last_lease)

    def close(self) -> None:
        """Commit, mark the end as clean, and close the store, also where that raises `FrontierUnwritable`.
        Leases that are out stay queued."""
        try:
            for lease in self._leases.values():
                self._batch.touch(self._table.get(lease.host))
            if self._scores is not None:
                self._scores.save()
            self._batch.end_run()
        finally:
            self._store.close()


def _rescoring(scorer: Scorer, batch: Batch, hosts: Hosts) -> Rescoring:
    from .pages.rescoring import Rescoring  # loads NumPy and SciPy: for those who use it

    return Rescoring(scorer, batch, hosts)
