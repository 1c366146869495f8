"""Changes known pages: queues them again, makes them due, replaces their requests, forgets them.

Each change goes into one batch with what follows from it, so that pages, queues, index, host rows and counts
always agree. Many changes are written in several batches: memory stays flat, and an interruption leaves a
sound store.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ..errors import decode_or_none
from ..hosts.host import host_of_page, is_of_host
from ..store import keys, queue_keys, records
from ..store.keys import State
from ..transitions import TABLE, Event
from .leases import Link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..hosts.host import Host
    from ..hosts.hosts import Hosts
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.queue_keys import QueuePlace
    from ..store.records import Page, RequestFacts
    from .discovery import PageIndex
    from .leasing import Leases
    from .queue import Waiting
    from .revisits import Revisits

if TYPE_CHECKING:
    # Returns the fingerprint of the request of a page; None if the request cannot be rebuilt.
    FingerprintOf = Callable[[Page], bytes | None]

_AT_A_TIME = 50  # pages in one batch, or rows that one step reads; some ms


class _Doomed(NamedTuple):
    """A page about to be forgotten; ``place`` is its queue row, ``fingerprint`` its index row, None for a
    further visit."""

    page_id: PageId
    page: Page
    place: QueuePlace | None
    fingerprint: bytes | None


@dataclass(eq=False, repr=False)
class Edits:
    """Changes known pages for an operator, a seed or a sitemap. Owns no state but that of `forget`."""

    _batch: Batch
    _page_index: PageIndex
    _hosts: Hosts
    _leases: Leases
    _waiting: Waiting
    _revisits: Revisits
    _touched: set[str] = field(default_factory=set, init=False)  # hosts to update once the batch is written

    # -- queue again -----------------------------------------------------------------------------------

    def requeue(
        self, page_id: PageId, now: float, link: Link | None = None, facts: RequestFacts | None = None
    ) -> bool:
        """Queue a page again that is finished or only seen, with no attempts made; false if it is queued,
        leased or unknown.

        It is fetched by the request of *link*, with its priority; without a link by its own request, with
        these *facts* if they are given. Commits the open batch; the change itself goes into the next one.
        O(leases). Raises `FrontierUnwritable` and `UnreadableRow`.
        """
        page = self._page_index.page(page_id)
        if page is None or (page.state, Event.REQUEUED) not in TABLE or page_id >= keys.FIRST_VISIT:
            return False
        if self._leases.of_page(page_id) is not None:  # a finished page that is visited right now
            return False
        host = self._hosts.of_page(page)
        was_seen = page.is_only_seen
        self._uncount_page(host, page_id, page)
        self._revisits.unschedule(page_id, page, host)
        given = link or Link(payload=page.payload, priority=page.priority, facts=facts or page.facts)
        visits = None if page.visits is None else page.visits._replace(due=0, is_queued=False)
        queued = records.Page(  # how it ended is forgotten
            page.url,
            priority=given.priority,
            discovered=page.discovered,
            parent=page.parent,
            host=page.host,
            payload=given.payload,
            visits=visits,
            facts=given.facts,
            lastmod=page.lastmod,
            visit_payload=given.visit_payload,
        )
        self._batch.put_page(page_id, queued)
        self._waiting.queue(host, self._waiting.sort_key_again(page_id, given.priority), now)
        if given.facts.is_in_memory and link is not None:  # so that links check whether it was lost
            self._batch.index(link.fingerprint, page_id, is_marked=True)
        if was_seen:  # its index row stays marked: links have to find the new record in the store
            self._batch.commit()
        return True

    def replace_request(self, page_id: PageId, link: Link, is_lost: bool = False) -> bool:
        """Replace the request of a known page by that of *link*, in the open batch; returns whether its next
        visit uses it.

        False for a leased page, which gets the request when its visit ends; for an unknown page; and for one
        whose request only a process has, unless it *is_lost* with that process. O(leases). Raises
        `UnreadableRow`.
        """
        stored = self._batch.get(keys.page_key(page_id))
        page = records.decode_page(stored) if stored is not None else None
        if page is None or (page.is_in_memory and not is_lost):
            return False
        visit_payload = b"" if page.state is State.QUEUED else page.visit_payload
        return self._change(
            page_id, page._replace(payload=link.payload, facts=link.facts, visit_payload=visit_payload)
        )

    def _change(self, page_id: PageId, page: Page) -> bool:
        """Replace the record of a page, in the open batch and on its lease, whose end would else overwrite
        it; returns whether the page is not leased."""
        self._batch.put_page(page_id, page)
        if (lease := self._leases.of_page(page_id)) is not None:
            lease.page = page
            return False
        self._revisits.recompute.look(page_id, page)
        return True

    # -- make due, forget ------------------------------------------------------------------------------

    def note_lastmod(self, page_id: PageId, lastmod: int) -> None:
        """Store the ``lastmod`` that a sitemap gives for a page (POSIX seconds), in the open batch; the page
        may be leased. O(leases). Raises `UnreadableRow`."""
        stored = self._batch.get(keys.page_key(page_id))
        if stored is not None:
            self._change(page_id, records.decode_page(stored)._replace(lastmod=lastmod))

    def make_due(self, page_id: PageId, now: float) -> bool:
        """Make a page due because a sitemap says that it has changed, in the open batch; returns whether it
        is.

        It is not if no page comes back in this run, if the page is leased or was visited since the change,
        or if the sitemaps of its site proved wrong too often. Some lookups. Raises `UnreadableRow`.
        """
        return self._leases.of_page(page_id) is None and self._revisits.make_due(page_id, now)

    def forget(
        self, page_id: PageId, fingerprint_of: FingerprintOf, now: float, place: QueuePlace | None = None
    ) -> bool:
        """Remove all rows of a page; false if it is leased, unknown, or not indexed by the request in its
        record.

        *fingerprint_of* returns the fingerprint of the request in a `Page`, None if it cannot be rebuilt.
        Links to the page stay on the pages that have them. Commits. O(queue of its host), unless the page
        still has the *place* that was read before. Raises `FrontierUnwritable` and `UnreadableRow`.
        """
        doomed = self._doomed(page_id, fingerprint_of, place)
        if doomed is None:
            return False
        self._forget(doomed)
        self._write(now)
        return True

    def forget_host(self, name: str, fingerprint_of: FingerprintOf, now: float) -> Iterator[int]:
        """`forget` every page in the queue of *name*, or with that host in its URL, a batch at a time.

        Yields the number of pages forgotten so far, every few milliseconds; the crawl may go on in between.
        The host row stays, so that its delay holds if a page of it is added again. O(pages); memory for the
        queues of the host.
        """
        self._batch.commit()
        store, count = self._batch.store, 0
        names, found = {name}, array("Q")
        for number, (key, value) in enumerate(store.scan(keys.PAGE), 1):
            page = decode_or_none(records.decode_page, value)
            if page is not None and is_of_host(page, name):
                names.add(host_of_page(page))
                found.append(keys.key_id(key))
            if not number % _AT_A_TIME:
                yield count
        places: dict[PageId, QueuePlace] = {}
        queued = (queue_keys.queued_places(store, each) for each in sorted(names))
        for number, place in enumerate(chain(*queued, queue_keys.waiting_places(store)), 1):
            if place.host in names:
                places[queue_keys.sort_key_id(place.sort_key)] = place
            if not number % _AT_A_TIME:
                yield count
        for number, page_id in enumerate(found, 1):
            doomed = self._doomed(page_id, fingerprint_of, places.get(page_id))
            if doomed is not None:
                self._forget(doomed)
                count += 1
            if not number % _AT_A_TIME:
                self._write(now)
                yield count
        self._write(now)
        yield count

    def _doomed(
        self, page_id: PageId, fingerprint_of: FingerprintOf, place: QueuePlace | None
    ) -> _Doomed | None:
        """Return what `_forget` needs of a page, which may have left the *place* that was read before; None
        if it is leased, unknown, or not indexed by the request in its record."""
        page, store = self._page_index.page(page_id), self._batch.store
        if page is None or self._leases.of_page(page_id) is not None:
            return None
        if not (page.state is State.QUEUED or page.is_due):
            place = None
        elif place is None or store.get(place.key) is None:
            place = queue_keys.find_place(store, page_id, host_of_page(page))
        if page_id >= keys.FIRST_VISIT:
            return _Doomed(page_id, page, place, None)
        fingerprint = fingerprint_of(page)
        stored = None if fingerprint is None else store.get(keys.INDEX + fingerprint)
        if stored is None or keys.id_in(stored) != page_id:
            return None
        return _Doomed(page_id, page, place, fingerprint)

    def _forget(self, doomed: _Doomed) -> None:
        page_id, page, place, fingerprint = doomed
        batch, is_ended = self._batch, page.state is not State.QUEUED and page_id < keys.FIRST_VISIT
        host = self._hosts.of_page(page) if place is None else self._hosts.get(place.host)
        batch.rows[keys.page_key(page_id)] = None
        batch.rows[keys.aside_key(page_id)] = None
        if page_id < keys.FIRST_VISIT:
            self._page_index.forget_links(page_id)
        if fingerprint is not None:
            batch.rows[keys.INDEX + fingerprint] = None
        if place is not None:
            batch.rows[place.key] = None
            host.drop(place.sort_key)
            batch.count_waiting(host, place.sort_key, -1)
        if is_ended:
            self._revisits.unschedule(page_id, page)
            self._uncount_page(host, page_id, page)
        self._touched.add(host.name)

    def _write(self, now: float) -> None:
        self._batch.commit()
        for name in self._touched:
            host = self._hosts.get(name)
            self._waiting.freed(host)
            self._hosts.update_or_forget(host, now)
        self._touched.clear()
        self._page_index.forget_urls()

    # -- counting --------------------------------------------------------------------------------------

    def _uncount_page(self, host: Host, page_id: PageId, page: Page) -> None:
        """Uncount a page that is in no queue, and delete the row of a deferred one."""
        if page.is_deferred:
            self._waiting.undefer(page_id, host)
        else:
            self._batch.count_ended(host, page.state, -1, page.status)
