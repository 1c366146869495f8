"""Which pages there are, and how a link makes one known.

A link is asked for in one order: the texts met lately, the open batch, the filter of what is surely new, the
store. What is new gets its id, its place in the order and all its rows in one go.

Pages by the text of their URLs, as met lately: most links are told by that alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..hosts.host import DELAYED, IDLE
from ..store import keys, queue_keys, records
from ..store.batch import MASK, PAIRS
from ..store.keys import State
from ..store.records import NO_FACTS
from .leases import Discovered, Fate, Link, page_of_link
from .traps import trap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..hosts.budgets import Budgets, OverBudget
    from ..hosts.host import Host
    from ..hosts.hosts import Hosts
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.records import Page
    from .leases import Lease
    from .queue import Deferral, Queue
    from .revisit_queue import RevisitQueue
    from .scores import Scores
    from .traps import TrapLimits

LATELY = 50_000  # texts in each of two generations; about 160 bytes each


class UrlCache:
    """Page ids by URL, without fragments: those tell no pages apart in Scrapy's default fingerprint. What is
    met again stays.

    ``latest``, always the same dictionary, answers for most at once; what it does not hold `find` may know.
    It does not have to know anything.
    """

    __slots__ = ("_before", "latest")

    def __init__(self) -> None:
        self.latest: dict[str, int] = {}
        self._before: dict[str, int] = {}

    def find(self, url: str) -> PageId | None:
        """The page of *url*, which stays for another generation; None where it was not met lately. .2 us."""
        if "#" in url:
            url = url[: url.index("#")]
        found = self.latest.get(url)
        if found is None and (found := self._before.get(url)) is not None:
            self.put(url, found)
        return found

    def put(self, url: str, page_id: PageId) -> None:
        """*url* is page *page_id*; forgets the older generation when the newer one has `LATELY` texts."""
        if "#" in url:
            url = url[: url.index("#")]
        self.latest[url] = page_id
        if len(self.latest) >= LATELY:
            self._before = self.latest.copy()  # .4 ms
            self.latest.clear()

    def clear(self) -> None:
        """Forget all texts, since some page is known no more."""
        self.latest.clear()
        self._before.clear()


_NEW, _ONLY_SEEN = Fate.NEW, (Fate.SEEN, Fate.REFUSED)
_MOST_ROWS = 300  # in one batch, three for each new page: a seed list must not pile up in memory


class PageIndex:
    """The pages of the store, by their fingerprints. Ids are ``~id`` where a page may be only seen."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._seen = batch.seen
        self._first_of_run = batch.counts.next_page
        self.url_cache = UrlCache()
        self._only_seen = UrlCache()  # of pages that were only seen
        # Whether `recognize` would surely say so; False says nothing. No call of ours: asked for each link.
        self.is_recent: Callable[[str], bool] = self.url_cache.latest.__contains__

    def recognize(
        self,
        url: str,
        source: Lease | None = None,
        flags: int = 0,
        weight: float = 1.0,
        only_seen: bool = False,
    ) -> bool:
        """Whether the text of *url* tells that its page needs no `discover`.

        So it is with nine links in ten, in .2 us; no store read. With a *source* the edge from there is
        noted. A page that was only seen so far is enough for a link that is *only_seen* itself.
        """
        page_id = self.url_cache.latest.get(url)
        if page_id is None:
            page_id = self.url_cache.find(url)
            if page_id is None:
                page_id = self._only_seen.find(url) if only_seen else None
                if page_id is None:
                    return False
        if source is not None:
            source.edges.append((page_id, flags, weight))
        return True

    def cache_url(self, url: str, page_id: PageId, is_seen: bool) -> None:
        """Know page *page_id*, which was only seen if *is_seen*, by the text of *url* from now on."""
        (self._only_seen if is_seen else self.url_cache).put(url, page_id)

    def forget_urls(self) -> None:
        """Some page is known no more: no page is known by the text of its URL until it is met again."""
        self.url_cache.clear()
        self._only_seen.clear()

    def look_up(self, fingerprint: bytes) -> int | None:
        """The id of the page with *fingerprint*, ``~id`` where that may be only seen, or None; a lookup, or 1
        us for most that are new. Pages of the open batch are found too. Raises `FrontierUnreadable`."""
        key = keys.INDEX + fingerprint
        stored = self._batch.rows.get(key)
        if stored is None:
            seen, number = self._seen, hash(fingerprint)  # `BloomFilter.is_new`, without the call
            pair = PAIRS[number >> 23 & 0xFF]
            if seen.bits[number & MASK] & pair != pair and seen.is_complete:
                return None
            stored = self._batch.get(key)  # a row that the open batch deletes is None there too
            if stored is None:
                return None
        page_id = keys.id_in(stored)
        return page_id if len(stored) == keys.ID_BYTES else ~page_id

    def find(self, fingerprint: bytes) -> PageId | None:
        """The page with *fingerprint*, or None; a lookup, or 1 us for most that are new. Pages of the open
        batch are found too. Raises `FrontierUnreadable`."""
        found = self.look_up(fingerprint)
        return ~found if found is not None and found < 0 else found

    def page(self, page_id: PageId) -> Page | None:
        """What is known of a page; None for an id nobody has. Commits what is open, then one lookup.

        Raises `UnreadableRow` where its row does not decode, and `FrontierUnwritable`.
        """
        self._batch.commit()
        stored = self._batch.store.get(keys.page_key(page_id))
        return records.decode_page(stored) if stored is not None else None

    def is_of_this_run(self, page_id: PageId) -> bool:
        """Whether a page was discovered since the frontier was opened; a further visit always was. No store
        read."""
        return page_id >= self._first_of_run

    def fate_of(self, page_id: PageId) -> Fate:
        """Whether a page of which `look_up` says that it may be only seen is so: then ``SEEN``; ``ABSENT``
        where it waits and another process has its request; else ``KNOWN``, a row that cannot be read too. A
        lookup."""
        page = self._batch.read_page(page_id)
        if page is None:
            return Fate.KNOWN
        if page.is_only_seen:
            return Fate.SEEN
        is_waiting = page.state is State.QUEUED or page.is_deferred
        return Fate.ABSENT if is_waiting and page.is_in_memory else Fate.KNOWN


@dataclass(eq=False, repr=False)
class Discovery:
    """Makes pages known, and queues what may be fetched, in the open batch; edges gather on leases. Links
    that are *traps* leave no trace."""

    _batch: Batch
    _page_index: PageIndex
    _hosts: Hosts
    _budgets: Budgets
    _queue: Queue
    _deferred: Deferral
    _scores: Scores
    _revisit_queue: RevisitQueue
    _traps: TrapLimits | None

    def discover(self, links: Iterable[Link], now: float, source: Lease | None = None) -> list[Discovered]:
        """Take in links, found on the page of *source*: one answer each, in order.

        What is new or wanted again is queued, the edges gather on the lease; one that has ended still gives
        the parent. Durable no later than the end of any lease that comes after. O(log hosts) a link, and a
        lookup for most that are known. Raises `FrontierUnwritable`.
        """
        batch = self._batch
        if len(batch.rows) >= _MOST_ROWS or batch.failure is not None:
            batch.commit()
        self._hosts.compact_some()
        return [self._take_in(link, source, now) for link in links]

    def discover_one(self, link: Link, now: float, source: Lease | None = None) -> Discovered:
        """`discover` for a single link, a few calls less; as durable, O(log hosts), and raises the same."""
        batch = self._batch
        if len(batch.rows) >= _MOST_ROWS or batch.failure is not None:
            batch.commit()
        self._hosts.compact_some()
        return self._take_in(link, source, now)

    def refusal(self, link: Link, now: float) -> Discovered | None:
        """What `discover` would answer to *link* if it refuses that, a trap say; None if it does not. Nothing
        is kept. A lookup, one more where its page may be only seen. Raises `FrontierUnreadable`."""
        known, traps = self._page_index.look_up(link.fingerprint), self._traps
        is_met = known is not None and (known >= 0 or self._page_index.fate_of(~known) is not Fate.SEEN)
        if is_met or link.is_named:
            return None
        if traps is not None and (kind := trap(link.url, traps)):
            return Discovered(Fate.REFUSED, kind=kind, reason=kind)
        if link.only_seen or not self._budgets.is_limited:
            return None
        host = self._hosts.get(link.host)
        over = self._budgets.over(host, link.depth)
        self._hosts.forget_if_idle(host, now)
        return None if over is None or over.is_kept else _not_kept(over)

    def _take_in(self, link: Link, source: Lease | None, now: float) -> Discovered:
        parent = link.parent if source is None else source.node
        known = self._page_index.look_up(link.fingerprint)
        if known is None:
            answer = self._new(link, parent, now)
            page_id = answer.page_id
        else:
            page_id = known if known >= 0 else ~known
            answer = self._again(link, known, page_id, parent, now)
        if page_id is not None:
            if source is not None:
                source.edges.append((page_id, link.flags, link.weight))
            if text := link.text:
                is_seen = answer.fate is not _NEW and answer.fate in _ONLY_SEEN
                self._page_index.cache_url(text, page_id, is_seen)
        return answer

    def _new(self, link: Link, parent: PageId | None, now: float, seen: PageId | None = None) -> Discovered:
        """A link to a page that is not known, or was only *seen* so far: if it is refused it stays so."""
        traps, url = self._traps, link.url
        if traps is not None and (url.count("/") >= traps.slashes or len(url) > traps.longest):
            kind = trap(url, traps)
            if kind is not None and not link.is_named:
                return Discovered(Fate.REFUSED, kind=kind, reason=kind)
        if link.only_seen:
            return self._see(link, parent, now)
        host = self._hosts.get(link.host)
        over = self._budgets.over(host, link.depth) if self._budgets.is_limited else None
        if over is not None:
            return self._put_off(link, host, over, parent, now, seen)
        if seen is not None:
            return self._admit(link, seen, host, parent, now)
        return self._queue_page(link, host, parent, now)

    def _again(
        self, link: Link, known: PageId, page_id: PageId, parent: PageId | None, now: float
    ) -> Discovered:
        """A link to a page that is known."""
        if link.only_seen:
            return Discovered(Fate.KNOWN if known >= 0 else Fate.SEEN, page_id)
        fate = Fate.KNOWN if known >= 0 else self._page_index.fate_of(page_id)
        if fate is Fate.SEEN:
            return self._new(link, parent, now, page_id)
        if not link.again:
            return Discovered(fate, page_id)
        if self._revisit_queue.take_over_due_visit(page_id, link, now):
            return Discovered(Fate.VISIT, page_id)
        return self._queue_visit(link, page_id, parent, now)

    def _queue_page(self, link: Link, host: Host, parent: PageId | None, now: float) -> Discovered:
        batch = self._batch
        page_id = batch.counts.next_page
        bucket = self._scores.discovered(page_id, link, parent, host.name)
        fingerprint, priority, payload = link.fingerprint, link.priority, link.payload
        sort_key = batch.queue_new(host, fingerprint, link.url, priority, now, parent, payload, bucket)
        if not link.is_plain:
            batch.put_page(page_id, page_of_link(link, parent, now))
            if link.facts.is_in_memory:
                batch.index(fingerprint, page_id, is_marked=True)
        is_head = not (host.more and sort_key > host.cursor) and host.add(sort_key)
        if (is_head and host.state is not DELAYED) or host.state is IDLE:
            self._hosts.put(host, now)
        return Discovered(_NEW, page_id, is_head)

    def _queue_visit(self, link: Link, known: PageId, parent: PageId | None, now: float) -> Discovered:
        """Queue one more visit of the *known* page."""
        batch, host = self._batch, self._hosts.get(link.host)
        arrival, page_id = batch.arrival, batch.new_visit()
        bucket = self._scores.bucket_of(known)
        sort_key = queue_keys.sort_key(link.priority, bucket, arrival, page_id)
        batch.put_page(page_id, page_of_link(link, parent, now))
        self._queue.put(host, sort_key, now)
        return Discovered(Fate.VISIT, page_id)

    def _admit(self, link: Link, known: PageId, host: Host, parent: PageId | None, now: float) -> Discovered:
        """Queue a page that was only seen so far."""
        self._count_as_seen_no_more(link, known, host)
        self._batch.put_page(known, page_of_link(link, parent, now))
        self._queue.put(host, self._queue.sort_key_again(known, link.priority), now)
        return Discovered(Fate.NEW, known)

    def _count_as_seen_no_more(self, link: Link, page_id: PageId, host: Host) -> None:
        self._batch.index(link.fingerprint, page_id, link.facts.is_in_memory)
        self._batch.count_ended(host, State.SEEN, -1)

    def _see(self, link: Link, parent: PageId | None, now: float) -> Discovered:
        """Make a page known without queueing it."""
        page = page_of_link(link, parent, now)._replace(
            state=State.SEEN,
            payload=b"",
            changed=int(now),
            reason=link.only_seen,
            facts=NO_FACTS,
            visit_payload=b"",
        )
        page_id = self._batch.add_page(link.fingerprint, page, is_marked=True, is_seen=True)
        self._scores.closed(page_id)
        return Discovered(Fate.SEEN, page_id)

    def _put_off(
        self,
        link: Link,
        host: Host,
        over: OverBudget,
        parent: PageId | None,
        now: float,
        seen_id: PageId | None = None,
    ) -> Discovered:
        """Keep the page of a link, new or only seen so far, for later, or only count it where enough are
        kept."""
        if not over.is_kept and not link.is_named:
            self._hosts.forget_if_idle(host, now)
            return _not_kept(over)
        page = page_of_link(link, parent, now)
        if seen_id is None:
            page_id = self._batch.add_page(link.fingerprint, page, link.facts.is_in_memory)
            bucket = self._scores.discovered(page_id, link, parent, link.host)
            self._scores.closed(page_id)
        else:
            page_id, bucket = seen_id, link.bucket if link.is_placed else 0
            self._count_as_seen_no_more(link, page_id, host)
        self._deferred.put(page_id, page, host, over, now, link.depth, bucket)
        self._hosts.forget_if_idle(host, now)
        return Discovered(Fate.DEFERRED, page_id, kind="deferred", reason=over.reason)


def _not_kept(over: OverBudget) -> Discovered:
    return Discovered(Fate.REFUSED, kind="over_budget", reason=over.reason)
