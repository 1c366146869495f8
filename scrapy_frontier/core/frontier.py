"""The frontier: everything known but not finished, and the verbs on it.

Every verb takes plain data and *now* (POSIX seconds), reads, decides, and puts its rows into one batch,
which is written atomically; a page's links no later than its own end. Nothing is written at hand-out: the
queue row goes when the lease ends, and whatever a crash interrupts is still queued.

`Frontier` owns its parts, each of which keeps its state to itself and calls only parts made before it. A verb
that one part does alone is that part's, and told there. The verbs are safe to repeat: discovering a known
page and releasing an ended lease do nothing.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from .hosts import delay_sources
from .hosts.budgets import NO_LIMITS, Budgets, Limits
from .hosts.clocks import Clocks
from .hosts.cooldown import CooldownRule
from .hosts.end_of_crawl import Left, left_behind
from .hosts.host import Politeness
from .hosts.kept_robots_and_sitemaps import SiteNotes
from .hosts.load_hosts import HostTable, maker
from .hosts.ready_hosts import Hosts, itself
from .hosts.troubled_hosts import Troubles
from .pages.backoffs import Waiting
from .pages.deferred import Deferral
from .pages.discovery import Discovery, Known
from .pages.edits import Edits
from .pages.endings import Endings
from .pages.hand_out import HandOut
from .pages.leases import Lease, Leases, Outcome, Released
from .pages.lifecycle import Event
from .pages.links import NEUTRAL, Discovered, Fate, Link, PageId, new_link
from .pages.load_earlier_runs import EarlierRuns
from .pages.queue import Queue
from .pages.rankings import Computed, Rankings, RankRun
from .pages.recompute_due import DueAnew
from .pages.revisit_endings import RevisitEndings
from .pages.revisit_queue import Returning
from .pages.same_content import Contents
from .store import keys
from .store.batch import Batch
from .store.bloom import Seen
from .store.states import State
from .verb import Verb

if TYPE_CHECKING:
    from collections.abc import Callable

    from .hosts.domain_rates import Rates
    from .hosts.giving_up import Abandoned, Haste
    from .pages.revisit_wishes import RevisitRule
    from .pages.traps import TrapLimits
    from .ranking.scorer import Scorer
    from .store.batch import OnCommit
    from .store.leveldb import Store
    from .store.meta_rows import Totals

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
_PACE = delay_sources.ResponseDelay()


class News(NamedTuple):
    """Pages that were set aside because their rows cannot be read, and what was given up."""

    set_aside: tuple[PageId, ...]
    given_up: tuple[Abandoned, ...]


class Frontier:
    """The pages of *store* and their order: all verbs.

    *politeness* maps hosts to limits of their own, *default_politeness* holds for all others. A page is given
    up after *max_attempts* leases; a lease is taken back after *lease_timeout* seconds. Without a *scorer*
    equals of one priority are first in, first out. Links that are *traps* leave no trace; what is over one of
    the *limits* waits on the disk. *domain_of* gives the registered domain of a host: its hosts share a
    budget, their turns, and the *rates*. *chance* lengthens pauses; without it always alike. With *haste*
    nobody comes back to the store: see `giving_up`. *revisits* says when finished pages are visited again;
    without it none is. *on_commit* is told of each batch that was written: its rows, a key and a value each,
    None for a key that is deleted. A kill may repeat *at_risk* pages: while fewer are under way, the ends of
    others wait to be written together, until `commit` at the latest.
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
        pace: delay_sources.ResponseDelay = _PACE,
        rates: Rates | None = None,
        chance: random.Random | None = None,
        scorer: Scorer | None = None,
        traps: TrapLimits | None = None,
        limits: Limits = NO_LIMITS,
        domain_of: Callable[[str], str] = itself,
        haste: Haste | None = None,
        revisits: RevisitRule | None = None,
        on_commit: OnCommit | None = None,
        at_risk: int = 0,
    ) -> None:
        chance = chance or random.Random(0)  # noqa: S311 - draws pauses, guards nothing
        self._store = store
        self._batch = batch = Batch(store, Seen(), on_commit)
        self.was_clean = batch.begin_run()
        self._first_of_run = batch.counts.next_page
        batch.seen.is_complete = not batch.counts.next_page
        self._known = known = Known(batch)
        self._budgets = budgets = Budgets(limits, domain_of)
        make = maker(politeness or {}, default_politeness, budgets)
        self._hosts = hosts = Hosts(domain_of, rates, chance, make)
        troubles = Troubles(batch, cooldown, chance)
        self._table = table = HostTable(batch, hosts, budgets, troubles, pace, now, self.was_clean)
        self._clocks = clocks = Clocks(batch, hosts, table, troubles, pace, haste)
        self._sites = SiteNotes(batch, haste)
        self._leases = leases = Leases(lease_timeout)
        scores = None
        if scorer is not None:
            from .pages.rescoring import Rescoring  # loads NumPy and SciPy: for those who use it

            scores = Rescoring(scorer, batch, hosts)
        self._scores = scores
        self._queue = queue = Queue(batch, hosts, table, budgets, scores)
        self._waiting = waiting = Waiting(batch, table, queue)
        deferred = Deferral(batch, table, budgets, queue, scores)
        self._returning = back = Returning(batch, hosts, table, self._sites, scores, revisits, now)
        self._discovery = Discovery(batch, known, hosts, table, budgets, queue, deferred, scores, back, traps)
        due_anew = DueAnew(batch, back)
        self._earlier_runs = EarlierRuns(batch, table, deferred, queue, scores, due_anew)
        self._edits = Edits(batch, known, table, leases, queue, deferred, scores, back, due_anew)
        revisit_endings = RevisitEndings(batch, table, queue, waiting, scores, back, max_attempts)
        self._lies = revisit_endings.lies
        self._endings = endings = Endings(
            batch, known, hosts, table, budgets, clocks, leases, queue, waiting, scores, back,
            revisit_endings, max_attempts=max_attempts, at_risk=at_risk,
        )  # fmt: skip
        self._rankings = Rankings(batch, queue, scores)
        self._contents = Contents(batch)
        self._hand_out = HandOut(
            batch, known, hosts, table, budgets, clocks, leases, queue, waiting, deferred, endings, back,
            haste, at_risk,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<Frontier {self.pending} pending, {len(self._leases.by_id)} leased, {self._hosts!r}>"

    # -- what there is ---------------------------------------------------------------------------------

    def totals(self) -> Totals:
        """What there is, by kept counters: the same that `scrapy frontier stats` shows."""
        return self._batch.counts.totals()

    @property
    def pending(self) -> int:
        """Requests that wait to be leased: ready, cooling, or in a backoff; not those of blocked hosts."""
        return self._batch.counts.states[State.QUEUED] - len(self._leases.by_id) - self._batch.withheld

    @property
    def withheld(self) -> int:
        """Queued pages of hosts that the operator blocked."""
        return self._batch.withheld

    @property
    def leased(self) -> int:
        """Leases that are out."""
        return len(self._leases.by_id)

    @property
    def hosts(self) -> int:
        """Hosts in memory: those with queued pages, with requests under way, or still cooling."""
        return len(self._hosts)

    @property
    def is_refilling(self) -> bool:
        """Whether deferred pages may be about to come back into their queues."""
        return bool(self._budgets.due) or not self._earlier_runs.is_loaded or self._returning.is_filling

    @property
    def is_loaded(self) -> bool:
        """Whether all that queued pages need of earlier runs is there; see `load`."""
        return self._earlier_runs.is_loaded

    def used_by(self, spider: str) -> str | None:
        """Note the name of the spider that uses the frontier from now on; that of another that did before."""
        stored, name = self._store.get(keys.SPIDER), spider.encode(errors="replace")
        if stored == name:
            return None
        self._batch.rows[keys.SPIDER] = name
        return None if stored is None else stored.decode(errors="replace")

    def left_over(self, now: float) -> Left:
        """The pages that stay queued when the crawl ends now."""
        return left_behind(self._hosts.by_name.values(), now, self._waiting.next, self._hosts.asleep)

    def is_of_this_run(self, page_id: PageId) -> bool:
        """Whether a page was discovered since the frontier was opened."""
        return page_id >= self._first_of_run

    find = Verb("_known", Known.find)
    page = Verb("_known", Known.page)

    def next_due(self) -> float | None:
        """When the first page comes back, or did (POSIX seconds); None: none does."""
        return self._returning.next

    def validators(self, lease: Lease) -> tuple[bytes, bytes]:
        """The tag and the date to ask for a page with, as its server sent them; both b"": unconditionally."""
        return (b"", b"") if self._lies.are_many(lease.host) else lease.may_send

    awaits = Verb("_returning", Returning.awaits)
    load = Verb("_earlier_runs", EarlierRuns.load)

    commit = Verb("_batch", Batch.commit)

    # -- pages in --------------------------------------------------------------------------------------

    recognize = Verb("_known", Known.recognize)
    discover = Verb("_discovery", Discovery.discover)
    discover_one = Verb("_discovery", Discovery.discover_one)

    # -- edits -----------------------------------------------------------------------------------------

    requeue = Verb("_edits", Edits.requeue)
    renew = Verb("_edits", Edits.renew)
    hasten = Verb("_edits", Edits.hasten)
    forget = Verb("_edits", Edits.forget)
    forget_host = Verb("_edits", Edits.forget_host)
    block = Verb("_clocks", Clocks.block)
    unblock = Verb("_clocks", Clocks.unblock)
    order_delay = Verb("_clocks", Clocks.order_delay)

    def news(self) -> News:
        """What happened beside the answers since this was asked last."""
        set_aside, given_up = tuple(self._queue.unreadable), tuple(self._clocks.given_up)
        self._queue.unreadable.clear()
        self._clocks.given_up.clear()
        return News(set_aside, given_up)

    # -- pages out -------------------------------------------------------------------------------------

    lease = Verb("_hand_out", HandOut.lease)
    sending = Verb("_hand_out", HandOut.sending)
    sent = Verb("_hand_out", HandOut.sent)
    off_wire = Verb("_hand_out", HandOut.off_wire)
    put_back = Verb("_hand_out", HandOut.put_back)
    skip_visit = Verb("_hand_out", HandOut.skip_visit)

    def identify(self, lease: Lease, fingerprint: bytes) -> None:
        """Say which page a lease without a ``node`` is for, a further visit: whose links gather on it."""
        lease.node = self.find(fingerprint)

    release = Verb("_endings", Endings.release)

    # -- rankings --------------------------------------------------------------------------------------

    def rank_due(self, now: float, interval: float = 0.0) -> RankRun | None:
        """A ranking, if the crawl has grown by enough since the last one or *interval* seconds have passed
        (0: does not count), or the packing of links, if that is due; who gets one has to close it.

        Commits what was open, and takes a snapshot.
        """
        return self._rankings.due(now, interval) if self.is_loaded else None

    rank_now = Verb("_rankings", Rankings.begin)
    rank_steps = Verb("_rankings", Rankings.steps)
    same_content = Verb("_contents", Contents.same_content)

    # -- hosts -----------------------------------------------------------------------------------------

    set_delay = Verb("_clocks", Clocks.set_delay)
    site_delay = Verb("_clocks", Clocks.obey)
    cool = Verb("_clocks", Clocks.cool)
    rests = Verb("_clocks", Clocks.rests)
    hold = Verb("_clocks", Clocks.hold)
    release_hold = Verb("_clocks", Clocks.release_hold)
    held = Verb("_clocks", Clocks.held)
    begin_visit = Verb("_clocks", Clocks.begin_visit)
    end_visit = Verb("_clocks", Clocks.end_visit)

    # -- what sites said -------------------------------------------------------------------------------

    robots_copy = Verb("_sites", SiteNotes.robots_copy)
    hastened = Verb("_sites", SiteNotes.hastened)
    keep_robots_copy = Verb("_sites", SiteNotes.keep_robots_copy)
    listing = Verb("_sites", SiteNotes.listing)
    note_listing = Verb("_sites", SiteNotes.note_listing)

    # -- the end ---------------------------------------------------------------------------------------

    wake_at = Verb("_hand_out", HandOut.wake_at)

    def ends_at(self, now: float, patience: float) -> float | None:
        """When the crawl should end although pages are left; None while there is something to do.

        It waits for hosts that do not answer, or want to be asked later (`end_of_crawl`), *patience* seconds
        since a page last came to an end; and ends at once where none of them opens by then. In haste it ends
        with no page left: hosts are asked sooner, or pages given up (`giving_up`). To be asked when nothing
        is under way; afterwards `wake_at` may tell another time. O(hosts) while all are shut.
        """
        is_busy = self._leases.by_id or self.is_refilling
        return None if is_busy else self._hand_out.ends_at(now, patience)

    last_lease = Verb("_hand_out", HandOut.last_lease)

    def close(self) -> None:
        """Commit, mark the end as clean, and close the store. Leases that are out stay queued."""
        try:
            for lease in self._leases.by_id.values():
                self._batch.touch(self._table.get(lease.host))
            if self._scores is not None:
                self._scores.save()
            self._batch.end_run()
        finally:
            self._store.close()
