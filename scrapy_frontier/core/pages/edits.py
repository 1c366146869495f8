"""Edits of known pages: queued again, made due, given another request, or forgotten.

Each step keeps pages, queues, index, host rows and counts in agreement, in one batch. Many are written a
thousand at a time, so that memory stays flat and an interruption leaves a sound store.
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
    # The fingerprint of the request that a page stands for; None where it cannot be rebuilt.
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
    """Changes known pages for an operator, a seed or a sitemap. Owns no state but that of a `forget`."""

    _batch: Batch
    _page_index: PageIndex
    _hosts: Hosts
    _leases: Leases
    _waiting: Waiting
    _revisits: Revisits
    _touched: set[str] = field(default_factory=set, init=False)  # hosts, which may leave the memory meanwhile

    # -- queue again -----------------------------------------------------------------------------------

    def requeue(
        self, page_id: PageId, now: float, link: Link | None = None, facts: RequestFacts | None = None
    ) -> bool:
        """Queue a page again that is finished or only seen, its attempts forgotten; false if it is queued,
        leased, or unknown.

        By the request of *link*, with its priority; without one by its own request, as it was before its
        attempts, with these *facts* if they are given. Commits what was open before; its own rows go in the
        next batch. O(leases). Raises `FrontierUnwritable`, and `UnreadableRow` where its row does not decode.
        """
        page = self._page_index.page(page_id)
        if page is None or (page.state, Event.REQUEUED) not in TABLE or page_id >= keys.FIRST_VISIT:
            return False
        if self._leases.of_page(page_id) is not None:  # it comes back right now, finished as it is
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
        if given.facts.is_in_memory and link is not None:  # so that links look whether it was lost
            self._batch.index(link.fingerprint, page_id, is_marked=True)
        if was_seen:  # its index row says so for ever, and only the page's own row that it is no more
            self._batch.commit()
        return True

    def replace_request(self, page_id: PageId, link: Link, is_lost: bool = False) -> bool:
        """Give a known page the request of *link*, in the open batch: whether its next visit is made by that.

        False for a page under way, which has it when its visit ends; for one that is not known, or whose
        request only a process has, unless it *is_lost* with that. O(leases). Raises `UnreadableRow` where
        its row does not decode.
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
        """Replace the record of a page, in the open batch, and that of the lease that it may be under, so
        that what is learnt of a page under way stands when its visit ends. Whether no lease has it."""
        self._batch.put_page(page_id, page)
        if (lease := self._leases.of_page(page_id)) is not None:
            lease.page = page
            return False
        self._revisits.recompute.look(page_id, page)
        return True

    # -- make due, forget ------------------------------------------------------------------------------

    def note_lastmod(self, page_id: PageId, lastmod: int) -> None:
        """Keep when a sitemap says that a page changed last (POSIX seconds), in the open batch; also of one
        under way. O(leases). Raises `UnreadableRow` where its row does not decode."""
        stored = self._batch.get(keys.page_key(page_id))
        if stored is not None:
            self._change(page_id, records.decode_page(stored)._replace(lastmod=lastmod))

    def make_due(self, page_id: PageId, now: float) -> bool:
        """Have a page be due, of which a sitemap tells that it has changed. Whether it is: only in a run in
        which pages come back, if it was not visited since, and if the site is to be trusted. One under way is
        not. In the open batch; some lookups. Raises `UnreadableRow` where its row does not decode."""
        return self._leases.of_page(page_id) is None and self._revisits.make_due(page_id, now)

    def forget(
        self, page_id: PageId, fingerprint_of: FingerprintOf, now: float, place: QueuePlace | None = None
    ) -> bool:
        """Remove all that is known of a page; false if it is leased, unknown, or not found by the request in
        its record.

        *fingerprint_of* returns the fingerprint of the request in a `Page`, None if it cannot be rebuilt.
        Links to the page stay on the pages that have them. Committed; O(queue of its host), but for a page
        that still has the *place* that was read before.
        Raises `FrontierUnwritable`, and `UnreadableRow` if its row does not decode.
        """
        doomed = self._doomed(page_id, fingerprint_of, place)
        if doomed is None:
            return False
        self._forget(doomed)
        self._write(now)
        return True

    def forget_host(self, name: str, fingerprint_of: FingerprintOf, now: float) -> Iterator[int]:
        """`forget` every page in the queue of *name*, or with that host in its URL, a batch at a time.

        Yields the number forgotten so far, after some milliseconds each: the crawl may go on in between. They
        are done even if it raises later. The host row stays, so that its delay holds if it is added again.
        O(pages); memory for the queues of the host.
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
        """Return what to forget of a page, which may have left the *place* that was read before; None if it
        is leased, unknown, or not found by the request in its record."""
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
        """Uncount a page that is in no queue; a deferred page loses its row."""
        if page.is_deferred:
            self._waiting.undefer(page_id, host)
        else:
            self._batch.count_ended(host, page.state, -1, page.status)
