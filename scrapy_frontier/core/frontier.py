"""The frontier: everything known but not finished, and the verbs on it.

`Frontier` alone decides what becomes of a page. Every verb takes plain data and *now* (POSIX seconds),
reads, decides, and puts its rows into one batch; `commit` writes that batch atomically. `lease` and
`release` commit by themselves, so a page's links are durable no later than its own end. Nothing is
written at hand-out: the queue row goes when the lease ends, and whatever a crash interrupts is still queued.

It owns its parts, each of which keeps its state to itself and calls only parts made before it. The verbs are
safe to repeat: discovering a known page and releasing an ended lease do nothing.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from .errors import UnreadableRecord
from .hosts import delays
from .hosts.budgets import NO_LIMITS, Budgets, Limits
from .hosts.clocks import Clocks
from .hosts.cooldown import CooldownRule
from .hosts.finish import Left, left_behind
from .hosts.host import FOREVER, Politeness
from .hosts.hosts import Hosts, itself
from .hosts.site_notes import SiteNotes
from .hosts.table import HostTable, maker
from .hosts.troubles import Troubles
from .pages.deferred import Deferral
from .pages.discovery import Discovery, Known
from .pages.due_anew import DueAnew
from .pages.edits import Edits
from .pages.endings import Endings
from .pages.hand_out import HandOut
from .pages.homecoming import Homecoming
from .pages.leases import Lease, Leases, Outcome, Released
from .pages.link_graph import LinkGraph
from .pages.links import NEUTRAL, Discovered, Fate, Link, PageId
from .pages.queue import Queue
from .pages.rankings import Computed, Rankings, RankRun
from .pages.returning import Returning
from .pages.waiting import Waiting
from .parse.urls import clean_host
from .store import keys
from .store.batch import Batch
from .store.bloom import Seen
from .store.states import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .hosts.domain_rates import Rates
    from .hosts.last_call import Abandoned, Haste
    from .hosts.troubles import Rest, Trouble
    from .pages.edits import FingerprintOf
    from .pages.rescoring import Rescoring
    from .pages.revisit_rule import RevisitRule
    from .pages.traps import TrapLimits
    from .ranking.scorer import Scorer
    from .store.batch import OnCommit
    from .store.leveldb import Store
    from .store.meta_rows import Totals
    from .store.page_rows import Page
    from .store.site_rows import Listing, RobotsCopy

__all__ = [
    "NEUTRAL",
    "Computed",
    "Discovered",
    "Fate",
    "Frontier",
    "Lease",
    "Link",
    "Outcome",
    "PageId",
    "RankRun",
    "Released",
]

UNLIMITED = Politeness(0.0, 8)
_COOLDOWN = CooldownRule()
_PACE = delays.ResponseDelay()


class News(NamedTuple):
    """Pages that were set aside because their rows cannot be read, and what was given up."""

    set_aside: tuple[PageId, ...]
    given_up: tuple[Abandoned, ...]


class Frontier:
    """The pages of *store* and their order: all verbs.

    *politeness* maps hosts to limits of their own, *default_politeness* holds for all others. A page is
    given up after *max_attempts* leases; a lease is taken back after *lease_timeout* seconds. Without a
    *scorer* equals of one priority are first in, first out. Links that are *traps* leave no trace; what is
    over one of the *limits* waits on the disk. *domain_of* gives the registered domain of a host: its hosts
    share a budget, their turns, and the *rates*. With *haste* nobody comes back to the store: see
    `last_call`. *revisits* says when finished pages are visited again; without it none is. *on_commit* is
    told of each batch that was written: its rows, a key and a value each, None for a key that is deleted. A
    kill may repeat *at_risk* pages: while fewer are under way, the ends of others wait to be written
    together, until `commit` at the latest.
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
        pace: delays.ResponseDelay = _PACE,
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
        chance = chance or random.Random()  # noqa: S311 - draws pauses, guards nothing
        self._store = store
        seen = Seen()
        self._batch = batch = Batch(store, seen, on_commit)
        self.was_clean = batch.begin_run()
        self._first_of_run = batch.counts.next_page
        seen.is_complete = not batch.counts.next_page
        self._known = Known(store, batch, seen)
        self.recognize = self._known.recognize  # type: ignore[method-assign]  # asked for every link
        self._budgets = budgets = Budgets(limits, domain_of)
        make = maker(politeness or {}, default_politeness, budgets)
        self._hosts = hosts = Hosts(domain_of, rates, chance, make)
        troubles = Troubles(store, batch, cooldown, chance)
        self._table = table = HostTable(
            store,
            batch,
            seen,
            hosts,
            budgets,
            troubles,
            pace=pace,
            opened_at=now,
            was_clean=self.was_clean,
        )
        self._clocks = Clocks(batch, hosts, table, troubles, pace, haste)
        self._sites = SiteNotes(store, batch)
        self._leases = Leases(lease_timeout)
        self._graph = LinkGraph(store, batch)
        self._scores: Rescoring | None = None
        if scorer is not None:
            from .pages.rescoring import Rescoring  # loads NumPy and SciPy: for those who use it

            self._scores = Rescoring(scorer, store, batch, hosts)
        scores = self._scores
        self._queue = queue = Queue(store, batch, hosts, table, budgets, scores)
        self._waiting = Waiting(store, batch, table, queue)
        self._deferred = Deferral(store, batch, hosts, table, budgets, queue, scores)
        self._discovery = Discovery(
            batch, self._known, hosts, table, budgets, queue, self._deferred, scores, traps
        )
        self._returning = returning = Returning(store, batch, hosts, table, scores, revisits, now)
        self._due_anew = DueAnew(store, batch, returning, scores)
        self._edits = Edits(
            *(store, batch, self._known, hosts, table, self._leases, queue, self._deferred, scores),
            returning,
        )
        self.discover = self._discovery.discover  # type: ignore[method-assign]
        homecoming = Homecoming(
            batch, table, queue, self._waiting, self._graph, scores, returning, max_attempts
        )
        self._lies = homecoming.lies
        self._endings = Endings(
            batch,
            self._known,
            hosts,
            table,
            budgets,
            self._clocks,
            self._leases,
            queue,
            self._waiting,
            self._graph,
            scores,
            returning,
            homecoming,
            max_attempts,
            at_risk,
        )
        self.release = self._endings.release  # type: ignore[method-assign]
        self._rankings = Rankings(store, batch, queue, self._graph, scores)
        self._haste = haste
        self._hand_out = out = HandOut(
            *(store, batch, self._known, hosts, budgets, table, self._clocks, self._leases, queue),
            *(self._waiting, self._deferred, self._endings, returning, haste, at_risk),
        )
        self.lease = out.lease  # type: ignore[method-assign]
        self.sending = out.sending  # type: ignore[method-assign]
        self.site_delay = self._clocks.obey  # type: ignore[method-assign]
        self.is_loaded = False  # see `load`
        self.cooled_at = 0.0  # when a host began to rest last

    def __repr__(self) -> str:
        return f"<Frontier {self.pending} pending, {len(self._leases)} leased, {self._hosts!r}>"

    # -- what there is ---------------------------------------------------------------------------------

    def totals(self) -> Totals:
        """What there is, by kept counters: the same that `scrapy frontier stats` shows."""
        return self._batch.counts.totals()

    @property
    def pending(self) -> int:
        """Requests that wait to be leased: ready, cooling, or in a backoff; not those of blocked hosts."""
        return self._batch.counts.states[State.QUEUED] - len(self._leases) - self._batch.withheld

    @property
    def withheld(self) -> int:
        """Queued pages of hosts that the operator blocked."""
        return self._batch.withheld

    @property
    def leased(self) -> int:
        """Leases that are out."""
        return len(self._leases)

    @property
    def hosts(self) -> int:
        """Hosts in memory: those with queued pages, with requests under way, or still cooling."""
        return len(self._hosts)

    @property
    def is_refilling(self) -> bool:
        """Whether deferred pages may be about to come back into their queues."""
        return bool(self._budgets.due) or not self.is_loaded or self._returning.is_filling

    def used_by(self, spider: str) -> str | None:
        """Note the name of the spider that uses the frontier from now on; that of another that did before."""
        stored, name = self._store.get(keys.SPIDER), spider.encode(errors="replace")
        if stored == name:
            return None
        self._batch.rows[keys.SPIDER] = name
        return None if stored is None else stored.decode(errors="replace")

    def left_over(self, now: float) -> Left:
        """The pages that stay queued when the crawl ends now."""
        return left_behind(self._hosts.by_name.values(), now, self._waiting.first, self._hosts.asleep)

    def find(self, fingerprint: bytes) -> PageId | None:
        """The page with *fingerprint*, or None; a lookup, or 1 us for most that are new."""
        found = self._known.look_up(fingerprint)
        return ~found if found is not None and found < 0 else found

    def is_of_this_run(self, page_id: PageId) -> bool:
        """Whether a page was discovered since the frontier was opened."""
        return page_id >= self._first_of_run

    def page(self, page_id: PageId) -> Page | None:
        """What is known of a page; None for an id nobody has. Raises `UnreadableRecord`."""
        return self._known.page(page_id)

    def next_due(self) -> float | None:
        """When the first page comes back, or did (POSIX seconds); None: none does."""
        return self._returning.next

    def validators(self, lease: Lease) -> tuple[bytes, bytes]:
        """The tag and the date to ask for a page with, as its server sent them; both b"": unconditionally."""
        return (b"", b"") if self._lies.are_many(lease.host) else lease.may_send

    def awaits(self, now: float) -> bool:
        """Whether the crawl is to stay open for a page that falls due."""
        return self._returning.awaits(now)

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
            self.commit()
            self._queue.place_moved(now)
        is_scored = scores is None or scores.is_loaded
        self.is_loaded = table.is_loaded and deferred.is_loaded and is_scored
        if self.is_loaded and not self._known.is_complete:
            self._known.learn()
        if self.is_loaded and not self._due_anew.is_done:
            self._due_anew.step(4 * limit)
        return self.is_loaded and self._known.is_complete and self._due_anew.is_done

    def commit(self) -> None:
        """Write what is open as one atomic batch. Raises `FrontierUnwritable`."""
        if self._batch.is_open:
            self._batch.commit()

    # -- pages in --------------------------------------------------------------------------------------

    def recognize(
        self,
        url: str,
        source: Lease | None = None,
        flags: int = 0,
        weight: float = 1.0,
        fingerprint: bytes = b"",
        only_seen: bool = False,
    ) -> bool:
        """Whether the text of *url*, or else the *fingerprint*, tells that its page needs no `discover`.

        So it is with nine links in ten, in .2 us.

        With a *source* the edge from there is noted. A page that was only seen so far is enough for a link
        that is *only_seen* itself.
        """
        return self._known.recognize(url, source, flags, weight, fingerprint, only_seen)

    def discover(self, links: Iterable[Link], now: float, source: Lease | None = None) -> list[Discovered]:
        """Take in links, found on the page of *source*: one answer each, in order.

        What is new or wanted again is queued, the edges gather on the lease; one that has ended still gives
        the parent. Durable no later than the end of any lease that comes after. O(log hosts) a link. Raises
        `FrontierUnwritable`.
        """
        return self._discovery.discover(links, now, source)

    # -- edits -----------------------------------------------------------------------------------------

    def requeue(
        self, page_id: PageId, now: float, payload: bytes | None = None, priority: int | None = None
    ) -> bool:
        """Queue a finished page again, its attempts forgotten; false for one that is not finished.

        With its own request and priority where none are given. Commits what was open before; in the next
        batch.
        """
        return self._edits.requeue(page_id, now, payload, priority)

    def renew(self, page_id: PageId, payload: bytes) -> bool:
        """Give a known page another request; false while it is leased, and for one nobody knows, or that only
        a process has."""
        return self._edits.renew(page_id, payload)

    def hasten(self, page_id: PageId, now: float, payload: bytes | None = None) -> bool:
        """A page is said to have changed: it is due in this run if it comes back at all, and if it was not
        visited since; false otherwise. A *payload* is its request from now on."""
        if payload is not None and not self._edits.renew(page_id, payload):
            return False
        return self._returning.hasten(page_id, now)

    def forget(self, page_id: PageId, fingerprint_of: FingerprintOf, now: float) -> bool:
        """Remove all that is known of a page: as if it had never been seen. False for one that is under way,
        or that nobody knows.

        *fingerprint_of* tells the fingerprint of the request in a `Page`, None where it cannot. Links to it
        stay on the pages that have them. Committed; O(queue of its host).
        """
        return self._edits.forget(page_id, fingerprint_of, now)

    def forget_host(self, name: str, fingerprint_of: FingerprintOf, now: float) -> Iterator[int]:
        """`forget` every page of a host, a batch at a time; yields the number forgotten so far. O(pages).

        The host row stays, with the time of the last visit: whoever adds the host again must still keep its
        delay.
        """
        return self._edits.forget_host(name, fingerprint_of, now)

    def block(self, name: str, now: float) -> None:
        """Leave a host alone, in the runs to come too: its pages stay queued, but withheld. Committed."""
        self._table.order(name, self._table.orders(name)._replace(blocked=int(now)), now)

    def unblock(self, name: str, now: float) -> bool:
        """End a block, and the rest of a host that met trouble; whether there was one. Committed."""
        return self._clocks.unblock(name, now)

    def order_delay(self, name: str, seconds: float | None, now: float) -> None:
        """From now on the operator's delay of a host holds, whatever others ask for; None takes it back.
        Committed."""
        self._table.order(name, self._table.orders(name)._replace(delay=seconds), now)

    def news(self) -> News:
        """What happened beside the answers since this was asked last."""
        set_aside, given_up = tuple(self._queue.unreadable), tuple(self._clocks.given_up)
        self._queue.unreadable.clear()
        self._clocks.given_up.clear()
        return News(set_aside, given_up)

    # -- pages out -------------------------------------------------------------------------------------

    def lease(self, now: float) -> Lease | None:
        """The best page of the best host that may be visited at *now*, or None; O(log hosts).

        None commits what is open, and is O(1) while no host is ready. A page that is given up takes no place
        of its host, and is no visit.
        """
        return self._hand_out.lease(now)

    def sending(self, lease: Lease, now: float) -> bool:
        """Whether the delay after the request of a lease is to be counted from when it goes out: then `sent`
        has to say so, and until that, or `off_wire`, nothing else of its host is handed out."""
        return self._hand_out.sending(lease, now)

    def sent(self, lease: Lease, now: float) -> None:
        """The request of a lease has gone out: the delay of its host counts from *now*."""
        self._hand_out.sent(lease, now)

    def off_wire(self, lease: Lease, now: float, response_time: float | None = None) -> None:
        """The request of a lease has left the network: its host has room again. The lease goes on.

        *response_time* in seconds says that the host answered, and how fast.
        """
        self._hand_out.off_wire(lease, now, response_time)

    def put_back(self, lease: Lease, now: float, is_replaced: bool = False) -> None:
        """End the lease granted last as if it had never been: page, clock and turns are as before. Writes
        nothing.

        *is_replaced*: the turn is used up all the same, by something else that is asked of the host.
        """
        self._hand_out.put_back(lease, now, is_replaced)

    def skip_visit(self, lease: Lease, now: float) -> None:
        """Nothing will be asked of the host under the lease granted last: its clock and its turn go back, the
        lease goes on."""
        self._hand_out.skip_visit(lease, now)

    def identify(self, lease: Lease, fingerprint: bytes) -> None:
        """Say which page a lease without a ``node`` is for, a further visit: whose links gather on it."""
        lease.node = self.find(fingerprint)

    def release(self, lease: Lease, outcome: Outcome, now: float) -> Released:
        """End a lease; nothing is done for one that has ended.

        One batch with everything discovered since the last one, the page's end and its links; on its way to
        the disk when this returns, or, if it is not written yet, with the next `commit`. A retry beyond
        ``max_attempts`` fails the page.
        """
        return self._endings.release(lease, outcome, now)

    # -- rankings --------------------------------------------------------------------------------------

    def rank_due(self, now: float, interval: float = 0.0) -> RankRun | None:
        """A ranking, if the crawl has grown by enough since the last one or *interval* seconds have passed
        (0: does not count), or the packing of links, if that is due; who gets one has to close it.

        Commits what was open, and takes a snapshot.
        """
        return self._rankings.due(now, interval) if self.is_loaded else None

    def rank_now(self) -> RankRun:
        """`rank_due`, whether it is due or not; for what is loaded."""
        return self._rankings.begin()

    def rank_steps(
        self,
        run: RankRun,
        computed: Iterable[Computed | float],
        clock: Callable[[], float],
        rows: int = 1000,
    ) -> Iterator[float]:
        """Take over what *run* computed: move queue rows, keep the ranking, pack links. Yields the seconds to
        wait before the next step: a timer drives it in a live crawl, a loop in a stopped one.

        *computed* is `RankRun.compute`, or what a thread hands over of it, and meanwhile seconds to wait. A
        step looks at so many *rows*, 10 us each, and is a batch of its own: whatever interrupts it, the store
        is sound.
        """
        return self._rankings.steps(run, computed, clock, rows)

    def same_content(self, page_id: PageId, host: str, digest: bytes, kept: bytes = b"") -> Page | None:
        """The page of *host* whose content had the same *digest*; if there is none, this one has from now on.

        A page that failed does not count: nobody followed its links; nor one that has changed, as its record
        says where that of such content would have another digest *kept*. One lookup, two for a duplicate.
        """
        self.commit()
        key = keys.body_key(clean_host(host), digest)
        stored = self._store.get(key)
        first = page_id if stored is None else int.from_bytes(stored, "big")
        try:
            page = self.page(first) if first != page_id else None
        except UnreadableRecord:
            page = None
        if page is not None and page.state in (State.DONE, State.QUEUED):
            now_has = b"" if page.visits is None else page.visits.digest
            if not now_has or not kept or now_has == kept:
                return page
        if stored is None or first != page_id:
            self._batch.rows[key] = keys.id_bytes(page_id)
        return None

    # -- hosts -----------------------------------------------------------------------------------------

    def set_delay(self, name: str, delay: float, now: float, source: str = delays.SETTINGS) -> None:
        """From now on *source* asks for at least *delay* seconds between two leases of a host in memory;
        `delays.deciding` says who of all that ask decides."""
        self._clocks.ask(name, source, delay, now)

    def site_delay(self, name: str, seconds: float, now: float, source: str = delays.ROBOTS_TXT) -> bool:
        """Obey a site that asks for *seconds* between two requests, one at a time; 0 takes it back.

        The largest of all sources counts; what the operator ordered stands. Whether anything changed.
        """
        return self._clocks.obey(name, seconds, now, source)

    def cool(self, name: str, trouble: Trouble, now: float) -> Rest:
        """Leave a host alone after *trouble*, and say what becomes of the page that met it; on its way to
        the disk when this returns."""
        self.cooled_at = max(self.cooled_at, now)
        return self._clocks.cool(name, trouble, now)

    def rests(self, name: str, now: float) -> bool:
        """Whether a host rests after trouble; for one that is in memory, as each with a lease out is."""
        return self._clocks.rests(name, now)

    def hold(self, name: str, now: float, until: float = FOREVER, trouble: Trouble | None = None) -> None:
        """Give no page of a host in memory away before *until*, or before `release_hold`.

        Its pages stay queued and pending: no lease, no attempt, no row is written. A host that is dropped
        from memory is no longer held. *trouble*: what happened so many times as it has attempts.
        """
        self._clocks.hold(name, now, until, trouble)

    def release_hold(self, name: str, now: float) -> None:
        """End a `hold`."""
        self._clocks.hold(name, now, 0.0, None)

    def held(self, now: float) -> dict[str, float]:
        """Hosts held until a known time, and that time; O(hosts held)."""
        return self._clocks.held(now)

    def begin_visit(self, name: str, now: float, despite_hold: bool = False) -> float:
        """Ask to fetch something beside the pages of a host (robots.txt, sitemaps): seconds to wait, then
        ask again; 0: it begins now, and `end_visit` has to follow.

        It obeys the host's clock and concurrency like a page, and the next page keeps the delay after it, in
        the next run too. Of a blocked or held host nothing is fetched; *despite_hold* is for robots.txt.
        """
        return self._clocks.begin_visit(name, now, despite_hold)

    def end_visit(self, name: str, now: float) -> None:
        """An errand has ended. The delay counts from here: it opened the connection, which takes long."""
        self._clocks.end_visit(name, now)

    # -- what sites said -------------------------------------------------------------------------------

    def robots_copy(self, authority: str) -> RobotsCopy | None:
        """What is kept of the robots.txt of *authority* (scheme://host:port); one lookup. None for a row
        that cannot be read: the file is asked for again."""
        return self._sites.robots_copy(authority)

    def hastened(self, copy: RobotsCopy, now: float) -> RobotsCopy:
        """*copy*, but in haste a file that could not be read is asked for again as soon as a page would be,
        the first times; not where the site asks for less."""
        if self._haste is None or not 0 < copy.failures < self._haste.attempts or copy.status == 429:
            return copy
        return copy._replace(ask_at=min(copy.ask_at, now + self._haste.pause(copy.failures)))

    def keep_robots_copy(self, authority: str, copy: RobotsCopy) -> None:
        """Keep what was learnt of a robots.txt, for the runs to come too; written before this returns."""
        self._sites.keep_robots_copy(authority, copy)

    def listing(self, authority: str) -> Listing:
        """What is known of the sitemaps of *authority*; one lookup."""
        return self._sites.listing(authority)

    def note_listing(self, authority: str, listing: Listing) -> None:
        """Remember *listing*: in one batch with what was discovered before, or a later one."""
        self._sites.note_listing(authority, listing)

    # -- the end ---------------------------------------------------------------------------------------

    def wake_at(self) -> float | None:
        """When `lease` is next worth calling if nothing happens before; None: waiting does not help."""
        return self._hand_out.wake_at()

    def ends_at(self, now: float, patience: float) -> float | None:
        """When the crawl should end although pages are left; None while there is something to do.

        It waits for hosts that do not answer, or want to be asked later (`finish`), *patience* seconds in all
        since a page last came to an end; and ends at once where none of them opens by then. In haste it ends
        with no page left: hosts are asked sooner, or their pages given up (`last_call`). To be asked when
        nothing is under way; afterwards `wake_at` may tell another time. O(hosts) while all are shut.
        """
        is_busy = self._leases.by_id or self.is_refilling
        return None if is_busy else self._hand_out.ends_at(now, patience)

    def last_lease(self, page_id: PageId, now: float) -> Lease | None:
        """A lease at the end of the crawl for a queued page whose request no other run can make; None for any
        other page. It is no lease of the store's: the row stays, and nobody has to release it."""
        return self._hand_out.last_lease(page_id, now)

    def close(self) -> None:
        """Commit, mark the end as clean, and close the store. Leases that are out stay queued."""
        try:
            for lease in self._leases:
                self._batch.touch(self._table.get(lease.host))
            if self._scores is not None:
                self._scores.save()
            self._batch.end_run()
        finally:
            self._store.close()
