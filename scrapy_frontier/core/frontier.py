"""The frontier of a crawl: all known pages and their order, and every operation on them.

Each method takes plain data and *now* (POSIX seconds), reads, decides, and puts its rows into the open batch,
which is written atomically. The links of a page are written no later than its end. Nothing is written at
hand-out: the queue row is deleted when the lease ends, so a page that a crash interrupts is still queued.

`Frontier` makes its parts. Each part owns its state and calls only parts made before it. To discover a known
page, or to release a lease that has ended, does nothing.

`Frontier.load` restores the state of earlier runs in slices, beside the crawl: hosts, scores, fingerprints,
due times.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from .hosts.host import FOREVER, ROBOTS_TXT
from .hosts.host_order import FairHostQueue
from .hosts.hosts import Hosts
from .hosts.politeness import HostPoliteness
from .hosts.sites import Sites
from .hosts.trouble import EndOfCrawl, HostTroubles, Left
from .pages.discovery import PageIndex
from .pages.edits import Edits
from .pages.leases import Discovered, Lease, Link, LinkVerdict, Outcome, Released
from .pages.leasing import Leases
from .pages.options import FrontierOptions
from .pages.queue import Waiting
from .pages.revisits import Revisits
from .pages.scores import Computed, RankRun, Scores
from .store import queue_keys
from .store.batch import Batch, BloomFilter
from .store.keys import NEUTRAL, PageId, State
from .store.queue_keys import SCORE_BYTES
from .transitions import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from .hosts.host import Host, HostClock, Trouble
    from .hosts.trouble import Cooled, GivenUpPages
    from .pages.edits import FingerprintOf
    from .ranking.focus import Focus
    from .ranking.scorer import Scorer
    from .store.leveldb import Store
    from .store.queue_keys import QueuePlace
    from .store.records import Page, RequestFacts, RobotsCopy, SiteSitemaps, Totals


__all__ = [
    "NEUTRAL",
    "Computed",
    "Discovered",
    "Event",
    "Frontier",
    "FrontierOptions",
    "Lease",
    "Link",
    "LinkVerdict",
    "Outcome",
    "PageId",
    "RankRun",
    "Released",
]

DEFAULTS = FrontierOptions()


class FrontierEvents(NamedTuple):
    """Ids of pages that were set aside because their rows cannot be read, and the hosts given up."""

    set_aside: tuple[PageId, ...]
    given_up: tuple[GivenUpPages, ...]


class Frontier:
    """A frontier over the pages in *store*, opened at *now* (POSIX seconds).

    ``was_clean``: the run before ended by `close`, or there was none.
    """

    def __init__(
        self,
        store: Store,
        now: float,
        options: FrontierOptions = DEFAULTS,
    ) -> None:
        rng = options.rng or random.Random(0)  # noqa: S311 - draws pauses, guards nothing
        self._store = store
        self._batch = batch = Batch(
            store, BloomFilter(options.part), options.on_commit, options.before_commit
        )
        self.was_clean = batch.begin_run(now) and not options.was_of_another
        host_queue = FairHostQueue(options.domain_of, options.rates)
        self._troubles = troubles = HostTroubles(batch, options.cooldown, options.give_up_rule, rng)
        self._hosts = hosts = Hosts(
            batch, host_queue, troubles, options.politeness_of, self.was_clean, options.revisits is not None
        )
        self._politeness = HostPoliteness(batch, hosts, host_queue, troubles, rng)
        self._host_queue, self._end = host_queue, EndOfCrawl(host_queue, troubles)
        self._sites = Sites(batch)
        self._scores = scores = _scores_of(options.scorer, batch, hosts)
        self._waiting = waiting = Waiting(batch, hosts, scores, options.host_pages)
        self._revisits = revisits = Revisits(batch, hosts, waiting, scores, self._sites, options.revisits)
        self._page_index = index = PageIndex(batch, hosts, waiting, scores, revisits, options)
        self._leases = leases = Leases(batch, self._politeness, waiting, scores, revisits, options)
        self._edits = Edits(batch, index, hosts, leases, waiting, revisits)

    def __repr__(self) -> str:
        return f"<Frontier {self.pending} pending, {len(self._leases)} leased, {self._hosts!r}>"

    # -- what there is ---------------------------------------------------------------------------------

    def totals(self) -> Totals:
        """Return the counts of pages, attempts and hosts over all runs, the open batch included. O(1)."""
        return self._batch.counts.totals()

    @property
    def is_temporary(self) -> bool:
        """Whether the store is removed after the crawl, so that there is no next run."""
        return self._troubles.give_up_rule is not None

    @property
    def pending(self) -> int:
        """How many requests wait to be leased: ready, delayed, or in a backoff; those of blocked hosts do not
        count."""
        counts = self._batch.counts
        due = counts.queued_again if self._revisits.revisits_pages else 0
        waiting = counts.states[State.QUEUED] + due - self.withheld
        return waiting - self._leases.of_hosts_not_blocked()

    @property
    def withheld(self) -> int:
        """How many queued pages belong to hosts in memory that the operator blocked."""
        return sum(host.pages for host in self._hosts.blocked.values())

    @property
    def leased(self) -> int:
        """How many leases are out: granted, and neither released nor put back."""
        return len(self._leases)

    @property
    def hosts(self) -> int:
        """How many hosts are in memory: with queued pages, requests under way, or a delay to keep."""
        return len(self._hosts)

    def awake_hosts(self) -> Collection[Host]:
        """Return all hosts in memory but compact ones, which have pages and no trouble. Do not change
        them."""
        return self._hosts.by_name.values()

    def leases(self) -> Collection[Lease]:
        """Return the leases that are out, earliest deadline first. Do not change them."""
        return self._leases.out()

    def next_page(self, host: Host) -> Page | None:
        """Return the first page in the queue of *host*; None if its queue, as far as it is in memory, is
        empty. One lookup."""
        head = host.head
        return None if head is None else self._batch.read_page(queue_keys.sort_key_id(head))

    @property
    def is_refilling(self) -> bool:
        """Whether more pages may be queued without a new link: deferred, due, or of hosts not loaded yet."""
        revisits = self._revisits
        is_due = revisits.is_filling or not revisits.recompute.is_done
        return is_due or not self.is_loaded or bool(self._waiting.with_room)

    @property
    def is_loaded(self) -> bool:
        """Whether `load` has restored hosts, deferred pages and scores; rankings wait for it."""
        return self._hosts.is_loaded and self._waiting.is_loaded and self._scores.is_loaded

    def left_over(self, now: float) -> Left:
        """Return the pages that stay queued if the crawl ends at *now*, without those of blocked hosts.
        O(hosts), no store read."""
        return self._end.left_over(
            now, self._waiting.next, self._batch.counts.states[State.QUEUED] - self.withheld
        )

    def clock(self, name: str, now: float) -> HostClock | None:
        """Return the clock of a host in memory that waits at *now*, or whose delay has changed in this run;
        None for any other host, whose rows tell its clock."""
        host = self._hosts.by_name.get(name)
        if host is None or (max(host.ready_at, host.held_until) <= now and host.has_first_delay):
            return None
        return host.clock(now)

    def best_head(self, now: float) -> bytes | None:
        """Return priority and score of the page that `lease` would hand out, as bytes that sort best first;
        None if there is none. O(log hosts)."""
        host = self._hosts.best(now)
        return None if host is None or host.head is None else host.head[:SCORE_BYTES]

    def owed(self, page_id: PageId) -> float:
        """Return what links have paid a page that belongs to another shard."""
        return self._scores.owed(page_id)

    def is_of_this_run(self, page_id: PageId) -> bool:
        """Return whether a page was discovered since the frontier was opened; true for a further visit."""
        return self._page_index.is_of_this_run(page_id)

    def find(self, fingerprint: bytes) -> PageId | None:
        """Return the id of the page with *fingerprint*, None if there is none."""
        return self._page_index.find(fingerprint)

    def page(self, page_id: PageId) -> Page | None:
        """Return all that is known of a page; commits. Raises `UnreadableRow` and `FrontierUnwritable`."""
        return self._page_index.page(page_id)

    @property
    def scorer(self) -> Scorer | None:
        """The scorer that orders the pages; None: first in, first out."""
        return self._scores.scorer

    @property
    def focus(self) -> Focus | None:
        """The model that learns from content scores; None before the first score, and if the scorer uses
        none."""
        return None if self.scorer is None else self.scorer.focus

    def begin_focus(self) -> None:
        """Keep the words of links from now on, because a page is about to get a content score."""
        if self.scorer is not None:
            self.scorer.begin_focus()

    def next_due(self) -> float | None:
        """Return when the first finished page comes back (POSIX seconds), None if none does. One seek."""
        return self._revisits.next_due()

    def waiting_for_room(self, most: int) -> int:
        """Count the pages that wait for room in a budget, up to *most*; .4 us each."""
        return self._waiting.waiting_for_room(most)

    def load(self, now: float, limit: int = 100) -> bool:
        """Restore a slice of the state of earlier runs; returns true when all is restored.

        First *limit* more hosts, 20 to 80 us each with queued pages, which cannot be leased before. Then the
        state of the scorer, 1 us a queued page; after that the frontier ``is_loaded``. Last the fingerprints
        of all pages, .3 ms a slice, and if the revisit rule has changed, when each page is due.
        """
        if not self._hosts.is_loaded:
            self._hosts.load(now, limit)
        if self._hosts.is_loaded and not self._waiting.is_loaded:
            self._waiting.load(limit)
        elif self._hosts.is_loaded and not self._scores.is_loaded:
            self._scores.load(20 * limit, now)
        if self.is_loaded and not self._page_index.is_loaded:
            self._page_index.load()
        if self.is_loaded and not self._revisits.recompute.is_done:
            self._revisits.recompute.step(4 * limit)
        return self.is_loaded and self._page_index.is_loaded and self._revisits.recompute.is_done

    def used_by(self, spider: str) -> str | None:
        """Note that *spider* uses the frontier; returns the spider that used it before."""
        return self._batch.used_by(spider)

    def commit(self, is_needed: bool = False) -> None:
        """Write the open batch atomically, an empty one if that *is_needed*. Raises `FrontierUnwritable`."""
        self._batch.commit(is_needed)

    # -- pages in --------------------------------------------------------------------------------------

    def recognize(
        self,
        url: str,
        source: Lease | None = None,
        flags: int = 0,
        weight: float = 1.0,
        only_seen: bool = False,
    ) -> bool:
        """Return whether *url* alone identifies a known page that needs no `discover`; notes the edge."""
        return self._page_index.recognize(url, source, flags, weight, only_seen)

    def discover(self, links: Iterable[Link], now: float, source: Lease | None = None) -> list[Discovered]:
        """Make the pages of *links* known, which were found on the page of *source*; see
        `PageIndex.discover`."""
        return self._page_index.discover(links, now, source)

    def discover_one(self, link: Link, now: float, source: Lease | None = None) -> Discovered:
        """`discover` for a single link."""
        return self._page_index.discover((link,), now, source)[0]

    # -- edits -----------------------------------------------------------------------------------------

    def requeue(
        self, page_id: PageId, now: float, link: Link | None = None, facts: RequestFacts | None = None
    ) -> bool:
        """Queue a finished page again; false if it is queued or leased. See `Edits.requeue`."""
        return self._edits.requeue(page_id, now, link, facts)

    def replace_request(self, page_id: PageId, link: Link, is_lost: bool = False) -> bool:
        """Give a known page the request of *link*; false while it is leased. See `Edits.replace_request`."""
        return self._edits.replace_request(page_id, link, is_lost)

    def note_lastmod(self, page_id: PageId, lastmod: int) -> None:
        """Store the ``lastmod`` that a sitemap gives for a page; see `Edits.note_lastmod`."""
        self._edits.note_lastmod(page_id, lastmod)

    def make_due(self, page_id: PageId, now: float) -> bool:
        """Make a page due because a sitemap says that it has changed; see `Edits.make_due`."""
        return self._edits.make_due(page_id, now)

    def forget(
        self, page_id: PageId, fingerprint_of: FingerprintOf, now: float, place: QueuePlace | None = None
    ) -> bool:
        """Remove all that is known of a page that is not leased; see `Edits.forget`."""
        return self._edits.forget(page_id, fingerprint_of, now, place)

    def forget_host(self, name: str, fingerprint_of: FingerprintOf, now: float) -> Iterator[int]:
        """Forget every page of a host, yielding the number forgotten so far; see `Edits.forget_host`."""
        return self._edits.forget_host(name, fingerprint_of, now)

    def block(self, name: str, now: float) -> None:
        """Hand out no page of a host, in this and later runs; its pages stay queued. Commits."""
        self._politeness.block(name, now)

    def unblock(self, name: str, now: float) -> bool:
        """End a block or a cooldown of a host; false if there was none. Commits."""
        return self._politeness.unblock(name, now)

    def order_delay(self, name: str, seconds: float | None, now: float) -> None:
        """Set the operator's delay of a host, which replaces all others; None removes it. Commits."""
        self._politeness.order_delay(name, seconds, now)

    def drain_events(self) -> FrontierEvents:
        """Return the events since the last call that no method has returned: pages set aside, hosts given
        up."""
        return FrontierEvents(self._waiting.drain_unreadable(), self._troubles.drain_given_up())

    # -- pages out -------------------------------------------------------------------------------------

    def lease(self, now: float) -> Lease | None:
        """Lease the best page of the best host that may be asked; see `Leases.lease`."""
        return self._leases.lease(now)

    def will_send(self, lease: Lease, now: float) -> bool:
        """Return whether the delay counts from when the request goes out: then call `on_sent` at that
        time."""
        return self._politeness.will_send(lease, now)

    def on_sent(self, lease: Lease, now: float) -> None:
        """Count the delay of the host from *now*, when the request has gone out."""
        self._politeness.on_sent(lease, now)

    def on_response(
        self, lease: Lease, now: float, has_answered: bool = False, was_asked: bool = True
    ) -> None:
        """Free the slot of a request that has been answered; see `HostPoliteness.on_response`."""
        self._politeness.on_response(lease, now, has_answered, was_asked)

    def put_back(self, lease: Lease, now: float, is_replaced: bool = False) -> None:
        """Undo the lease granted last; see `Leases.put_back`."""
        self._leases.put_back(lease, now, is_replaced)

    def skip_visit(self, lease: Lease, now: float) -> None:
        """Undo what the lease granted last did to clock and turn of its host; see `Leases.skip_visit`."""
        self._leases.skip_visit(lease, now)

    def wake_at(self) -> float | None:
        """Return when `lease` is next worth calling (POSIX seconds, 0: now); None: waiting does not help."""
        waiting, revisits = self._waiting, self._revisits
        if waiting.with_room or self._leases.is_spilling or self._host_queue.is_any_ready:
            return 0.0
        times = (
            self._host_queue.next_time(),
            waiting.next if waiting.next < FOREVER else None,
            self._leases.next_deadline,
            revisits.wake_at if revisits.revisits_pages else None,
        )
        return min((when for when in times if when is not None), default=None)

    def bind_lease(self, lease: Lease, fingerprint: bytes) -> int:
        """Bind the lease of a further visit to the known page with *fingerprint*, which gets the links that
        are found; of an unknown page links are not kept.

        Returns when that page was visited last (POSIX seconds); 0 if its first visit has not ended, or no
        page comes back in this run. One lookup, two if pages come back.
        """
        lease.node = node = self.find(fingerprint)
        if node is None or not self._revisits.revisits_pages:
            return 0
        page = self._revisits.finished(node)
        return 0 if page is None or page.visits is None else page.visits.last

    def release(self, lease: Lease, outcome: Outcome, now: float) -> Released:
        """End a lease: the end and the links of its page in one batch. See `Leases.release`."""
        return self._leases.release(lease, outcome, now)

    # -- rankings --------------------------------------------------------------------------------------

    def rank_due(self) -> RankRun | None:
        """Start a ranking or a packing of links if one is due and all is loaded; see `rank_now`."""
        return self._scores.rank_due() if self.is_loaded else None

    def rank_now(self) -> RankRun:
        """Start a ranking (or a packing, without a scorer), which the caller closes; commits."""
        return self._scores.rank_now()

    def rank_steps(
        self, run: RankRun, computed: Iterable[Computed | float], clock: Callable[[], float], rows: int = 1000
    ) -> Iterator[float]:
        """Apply what *run* computed, in steps that yield the seconds to wait; see `Scores.rank_steps`."""
        return self._scores.rank_steps(run, computed, clock, rows)

    # -- hosts -----------------------------------------------------------------------------------------

    def set_delay(self, name: str, delay: float, now: float) -> None:
        """Set the delay that the settings ask for; the largest of all delays holds."""
        self._politeness.set_delay(name, delay, now)

    def site_delay(self, name: str, seconds: float, now: float, source: str = ROBOTS_TXT) -> bool:
        """Set the delay that a site asks for; returns whether that changes anything. See
        `HostPoliteness.site_delay`."""
        return self._politeness.site_delay(name, seconds, now, source)

    def record_cooldown(self, name: str, trouble: Trouble, now: float) -> Cooled:
        """Give a host a cooldown after trouble; commits. See `HostPoliteness.record_cooldown`."""
        return self._politeness.record_cooldown(name, trouble, now)

    def is_cooling(self, name: str, now: float) -> bool:
        """Return whether a host in memory is cooling down. O(1)."""
        return self._politeness.is_cooling(name, now)

    def hold(self, name: str, now: float, until: float = FOREVER, trouble: Trouble | None = None) -> None:
        """Hand out no page of a host before *until*; see `HostPoliteness.hold`."""
        self._politeness.hold(name, now, until, trouble)

    def begin_side_request(self, name: str, now: float) -> float:
        """Begin a request that is no page of the queue, for robots.txt say; see
        `HostPoliteness.begin_side_request`."""
        return self._politeness.begin_side_request(name, now)

    def end_side_request(self, name: str, now: float, was_asked: bool = True) -> None:
        """End a request that `begin_side_request` began; see `HostPoliteness.end_side_request`."""
        self._politeness.end_side_request(name, now, was_asked)

    # -- robots.txt and sitemaps -----------------------------------------------------------------------

    def robots_copy(self, origin: str) -> RobotsCopy | None:
        """Return the stored robots.txt of *origin*, None if there is none. One lookup."""
        return self._sites.robots_copy(origin)

    def keep_robots_copy(self, origin: str, copy: RobotsCopy) -> None:
        """Store the robots.txt of *origin*; commits."""
        self._sites.keep_robots_copy(origin, copy)

    def sitemaps_of(self, origin: str) -> SiteSitemaps:
        """Return what is known of the sitemaps of *origin*. One lookup."""
        return self._sites.sitemaps_of(origin)

    def keep_sitemaps(self, origin: str, sitemaps: SiteSitemaps) -> None:
        """Store what is known of the sitemaps of *origin*, in the open batch."""
        self._sites.keep_sitemaps(origin, sitemaps)

    # -- the end ---------------------------------------------------------------------------------------

    def ends_at(self, now: float, patience: float) -> float | None:
        """Return when the crawl ends: *now* if it is over, None while there are pages to fetch.

        The crawl waits for hosts that rest or are held until *patience* seconds after the last page ended; it
        is over at once if none of them opens by then. A temporary frontier has no next run: instead of
        leaving pages it gives hosts up (`trouble`). Call it when nothing is under way; afterwards `wake_at`
        may return another time. O(hosts) while all are shut.
        """
        if self.is_refilling or self._revisits.awaits(now):
            return None
        if not self.pending:
            return now
        if self._leases:
            return None
        end = self._end.ends_at(now, patience, self._leases.finished, self._waiting.next)
        if end is None or end > now or not self.is_temporary:
            return end
        self._end.give_up_all(now)
        self._batch.commit()
        self._waiting.end_backoffs(now, is_over=True)
        self._leases.is_ending = True
        return None

    def end_run(self) -> None:
        """Commit, and mark the run as ended cleanly; call nothing but `close` after it. Leased pages stay
        queued. Raises `FrontierUnwritable`."""
        self._leases.touch_hosts()
        self._scores.save()
        self._batch.end_run()

    def close(self) -> None:
        """`end_run`, and close the store, even if that raises `FrontierUnwritable`."""
        try:
            self.end_run()
        finally:
            self.abort()

    def abort(self) -> None:
        """Close the store without a commit: the open batch is lost."""
        self._store.close()
        self._batch.seen.free()
        self._scores.free()


def _scores_of(scorer: Scorer | None, batch: Batch, hosts: Hosts) -> Scores:
    if scorer is None:
        return Scores(batch)
    from .pages.rescoring import Rescoring  # loads NumPy and SciPy, only with a scorer

    return Rescoring(scorer, batch, hosts)
