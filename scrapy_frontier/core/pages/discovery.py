"""The index of known pages: finds the page of a link, or makes a new one.

A link is looked up by the text of its URL among recent ones, then by its fingerprint in the open batch, in a
Bloom filter that proves most fingerprints new, and in the store. A new page gets its id, its queue place and
its rows at once.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from .. import reasons
from ..hosts.host import DELAYED, IDLE
from ..store import keys, queue_keys, records
from ..store.keys import State
from ..store.records import NO_FACTS
from .leases import Discovered, Link, LinkVerdict, page_of_link
from .traps import trap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..hosts.host import Host
    from ..hosts.hosts import Hosts
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.records import Page
    from .leases import Lease
    from .options import FrontierOptions
    from .queue import Waiting
    from .revisits import Revisits
    from .scores import Scores

LATELY = 100_000  # URLs in memory, of all frontiers of the process; about 160 bytes each
_LEARN_LIMIT = 400  # fingerprints at a time, 0.3 ms
_MOST_ROWS = 300  # of the open batch, three for each new page: a seed list must not pile up in memory


class PageIndex:
    """Finds pages by fingerprint, makes pages known, and queues those that may be fetched.

    Everything goes into the open batch. The edges of links gather on the lease of their page. Links that look
    like a trap, by the limits in *options*, leave no row.
    """

    def __init__(
        self,
        batch: Batch,
        hosts: Hosts,
        waiting: Waiting,
        scores: Scores,
        revisits: Revisits,
        options: FrontierOptions,
    ) -> None:
        self._batch = batch
        self._hosts = hosts
        self._waiting = waiting
        self._scores = scores
        self._revisits = revisits
        self._traps = options.traps
        self._most_urls = LATELY // options.part
        self._first_of_run = batch.counts.next_page
        self._learned = b""  # the last fingerprint of earlier runs that was added to the filter
        # Recent pages by URL without the fragment, which is no part of Scrapy's default fingerprint; the
        # complement of the id if the page was only seen.
        self._by_url: dict[str, int] = {}

    # -- known pages -----------------------------------------------------------------------------------

    def recognize(
        self,
        url: str,
        source: Lease | None = None,
        flags: int = 0,
        weight: float = 1.0,
        only_seen: bool = False,
    ) -> bool:
        """Return whether *url* leads to a recent page, so that the link needs no `discover`: nine links in
        ten.

        Adds the edge to the lease *source*. A page that was only seen counts only if the link is *only_seen*,
        too. .2 us, no store read.
        """
        page_id = self._by_url.get(url.partition("#")[0] if "#" in url else url)
        if page_id is None or (page_id < 0 and not only_seen):
            return False
        if source is not None:
            source.edges.append((page_id if page_id >= 0 else ~page_id, flags, weight))
        return True

    def _remember(self, url: str, page_id: PageId, is_seen: bool) -> None:
        self._by_url[url.partition("#")[0]] = ~page_id if is_seen else page_id
        if len(self._by_url) > self._most_urls:
            for first in list(islice(self._by_url, self._most_urls // 2)):  # 5 ms
                del self._by_url[first]

    def find(self, fingerprint: bytes) -> PageId | None:
        """Return the id of the page with *fingerprint*, also from the open batch; None if there is none. A
        lookup, or 1 us for most new fingerprints. Raises `FrontierUnreadable`."""
        stored = self._index_row(fingerprint)
        return None if stored is None else keys.id_in(stored)

    def _index_row(self, fingerprint: bytes) -> bytes | None:
        """Return the value of an index row, see `keys.index_value`; None if the page is not known."""
        key = keys.INDEX + fingerprint
        if key not in self._batch.rows and self._batch.seen.is_new(fingerprint):
            return None
        return self._batch.get(key)

    def page(self, page_id: PageId) -> Page | None:
        """Return the record of a page; None for an unknown id. Commits; one lookup. Raises `UnreadableRow`,
        and `FrontierUnwritable`."""
        self._batch.commit()
        stored = self._batch.store.get(keys.page_key(page_id))
        return records.decode_page(stored) if stored is not None else None

    def is_of_this_run(self, page_id: PageId) -> bool:
        """Return whether a page was discovered since the frontier was opened; true for a further visit."""
        return page_id >= self._first_of_run

    def forget_urls(self) -> None:
        """Forget recent URLs, because some page is not known any more."""
        self._by_url.clear()

    def forget_links(self, page_id: PageId) -> None:
        """Remove the links of a page and its content score; links to it stay on the pages that have them."""
        batch = self._batch
        is_packed = batch.store.get(keys.segment_key(page_id)) is not None
        has_row = batch.get(keys.link_key(page_id)) is not None  # a packing may have read it
        # An empty row overrides the segment, and is deleted when that is packed again.
        batch.rows[keys.link_key(page_id)] = b"" if is_packed or has_row else None
        batch.rows[keys.content_key(page_id)] = None
        self._scores.closed(page_id)

    @property
    def is_loaded(self) -> bool:
        """Whether the filter has all fingerprints, and so saves a lookup for most new links."""
        return self._batch.seen.is_complete

    def load(self) -> None:
        """Add a slice of the fingerprints of earlier runs to the filter, in .3 ms."""
        found = self._batch.store.keys_of(keys.INDEX, self._learned, _LEARN_LIMIT)
        self._batch.seen.update(found)
        self._learned = found[-1] if found else b""
        if len(found) < _LEARN_LIMIT:
            self._batch.seen.complete()

    # -- links -----------------------------------------------------------------------------------------

    def discover(self, links: Iterable[Link], now: float, source: Lease | None = None) -> list[Discovered]:
        """Make the pages of *links* known, which were found on the page of *source*; returns an answer for
        each.

        Queues new pages, and further visits that links ask for (`Link.again`). Their edges gather on the
        lease; of a lease that has ended only the parent counts. Durable no later than the end of any later
        lease. O(log hosts) a link, and a lookup for most known pages. Raises `FrontierUnwritable`.
        """
        batch = self._batch
        if len(batch.rows) >= _MOST_ROWS or batch.failure is not None:
            batch.commit()
        self._hosts.compact_some()
        return [self._take_in(link, source, now) for link in links]

    def _verdict_of(self, stored: bytes) -> LinkVerdict:
        """Return ``SEEN`` for a page that was only seen, ``ABSENT`` for one that waits with its request in
        the memory of another process, else ``KNOWN``. A lookup for pages whose index row is marked."""
        if len(stored) == keys.ID_BYTES:
            return LinkVerdict.KNOWN
        page = self._batch.read_page(keys.id_in(stored))
        if page is None:
            return LinkVerdict.KNOWN
        if page.is_only_seen:
            return LinkVerdict.SEEN
        is_waiting = page.state is State.QUEUED or page.is_deferred
        return LinkVerdict.ABSENT if is_waiting and page.is_in_memory else LinkVerdict.KNOWN

    def _take_in(self, link: Link, source: Lease | None, now: float) -> Discovered:
        parent = link.parent if source is None else source.node
        stored = self._index_row(link.fingerprint)
        if stored is None:
            answer = self._new(link, parent, now)
            page_id = answer.page_id
        else:
            page_id = keys.id_in(stored)
            answer = self._known(link, stored, page_id, parent, now)
        if page_id is not None:
            if source is not None:
                source.edges.append((page_id, link.flags, link.weight))
            if link.text:
                is_seen = answer.verdict is LinkVerdict.SEEN or answer.verdict is LinkVerdict.REFUSED
                self._remember(link.text, page_id, is_seen)
        return answer

    def _new(self, link: Link, parent: PageId | None, now: float, seen: PageId | None = None) -> Discovered:
        """Answer a link to a page that is unknown, or was only *seen*: the page stays so if it is refused."""
        kind = None if self._traps is None or link.is_named else trap(link.url, self._traps)
        if kind is not None:
            return Discovered(LinkVerdict.REFUSED, kind=kind, reason=kind)
        if link.only_seen:
            return self._see(link, parent, now)
        host = self._hosts.get(link.host)
        if not self._waiting.has_room(host):
            return self._defer(link, host, parent, now, seen)
        if seen is not None:
            return self._admit(link, seen, host, parent, now)
        return self._queue_new(link, host, parent, now)

    def _known(
        self, link: Link, stored: bytes, page_id: PageId, parent: PageId | None, now: float
    ) -> Discovered:
        """Answer a link to a page that has an index row."""
        if link.only_seen:
            if link.only_seen == reasons.FOREIGN():
                return self._see_foreign(link, page_id)
            is_marked = len(stored) > keys.ID_BYTES
            return Discovered(LinkVerdict.SEEN if is_marked else LinkVerdict.KNOWN, page_id)
        verdict = self._verdict_of(stored)
        if verdict is LinkVerdict.SEEN:
            return self._new(link, parent, now, seen=page_id)
        if not link.again:
            return Discovered(verdict, page_id)
        if self._revisits.take_over_due_visit(page_id, link, now):
            return Discovered(LinkVerdict.VISIT, page_id)
        return self._queue_visit(link, page_id, parent, now)

    def _queue_new(self, link: Link, host: Host, parent: PageId | None, now: float) -> Discovered:
        batch = self._batch
        page_id = batch.counts.next_page
        sort_key = batch.queue_new(
            host,
            link.fingerprint,
            link.url,
            priority=link.priority,
            now=now,
            parent=parent,
            payload=link.payload,
            bucket=self._scores.discovered(page_id, link, parent, host.name),
        )
        if self._scores.codes:
            batch.rows[host.prefix + sort_key] = self._scores.codes
        if not link.is_plain:
            batch.put_page(page_id, page_of_link(link, parent, now))
            if link.facts.is_in_memory:
                batch.index(link.fingerprint, page_id, is_marked=True)
        is_head = not (host.more and sort_key > host.cursor) and host.add(sort_key)
        if (is_head and host.state is not DELAYED) or host.state is IDLE:
            self._hosts.update(host, now)
        return Discovered(LinkVerdict.NEW, page_id)

    def _queue_visit(self, link: Link, known: PageId, parent: PageId | None, now: float) -> Discovered:
        """Queue a further visit of a known page."""
        batch, host = self._batch, self._hosts.get(link.host)
        arrival, page_id = batch.arrival, batch.new_visit()
        sort_key = queue_keys.sort_key(link.priority, self._scores.bucket_of(known), arrival, page_id)
        batch.put_page(page_id, page_of_link(link, parent, now))
        self._waiting.queue(host, sort_key, now)
        return Discovered(LinkVerdict.VISIT, page_id)

    def _admit(self, link: Link, known: PageId, host: Host, parent: PageId | None, now: float) -> Discovered:
        """Queue a page that was only seen."""
        self._uncount_seen(link, known, host)
        self._batch.put_page(known, page_of_link(link, parent, now))
        self._waiting.queue(host, self._waiting.sort_key_again(known, link.priority), now)
        return Discovered(LinkVerdict.NEW, known)

    def _uncount_seen(self, link: Link, page_id: PageId, host: Host) -> None:
        self._batch.index(link.fingerprint, page_id, link.facts.is_in_memory)
        self._batch.count_ended(host, State.SEEN, -1)

    def _see(self, link: Link, parent: PageId | None, now: float) -> Discovered:
        """Make a page known without queueing it: it is only seen."""
        page = page_of_link(link, parent, now)._replace(
            state=State.SEEN,
            payload=b"",
            changed=int(now),
            reason=link.only_seen,
            facts=NO_FACTS,
        )
        page_id = self._batch.add_page(link.fingerprint, page, is_marked=True, is_seen=True)
        self._scores.closed(page_id)
        is_foreign = link.only_seen == reasons.FOREIGN()
        return Discovered(LinkVerdict.POSTED if is_foreign else LinkVerdict.SEEN, page_id)

    def _see_foreign(self, link: Link, page_id: PageId) -> Discovered:
        """Answer a link to a known page of another shard: it is posted if it was only seen before."""
        page = self._batch.read_page(page_id)
        if page is None or not page.is_only_seen or page.reason == link.only_seen:
            return Discovered(LinkVerdict.KNOWN, page_id)
        page = page._replace(reason=link.only_seen, visit_payload=link.visit_payload)
        self._batch.put_page(page_id, page)
        return Discovered(LinkVerdict.POSTED, page_id)

    def _defer(
        self, link: Link, host: Host, parent: PageId | None, now: float, seen: PageId | None
    ) -> Discovered:
        """Defer a page that is new, or was only *seen*, until its host has room; refuse it if enough wait."""
        reason = self._waiting.over_budget(host)
        if not self._waiting.keeps(host) and not link.is_named:
            self._hosts.forget_if_idle(host, now)
            return Discovered(LinkVerdict.REFUSED, kind="over_budget", reason=reason)
        page = page_of_link(link, parent, now)
        if seen is None:
            page_id = self._batch.add_page(link.fingerprint, page, link.facts.is_in_memory)
            self._scores.discovered(page_id, link, parent, link.host)
            self._scores.closed(page_id)
        else:
            page_id = seen
            self._uncount_seen(link, page_id, host)
        self._waiting.defer(page_id, page, host, now)
        self._hosts.forget_if_idle(host, now)
        return Discovered(LinkVerdict.DEFERRED, page_id, kind="deferred", reason=reason)
