"""Steering a stopped frontier: queue pages again, forget pages and hosts.

Each step keeps pages, queues, index, host rows and counts in agreement, in one batch; `commit` writes it.
Many steps are written a thousand at a time, so that memory stays flat and an interruption leaves a sound
store. The clean mark is left as it is: nothing here visits a host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..hosts.host import Host, Politeness
from ..pages.lifecycle import TABLE, Event
from ..pages.links import NEUTRAL
from ..store import keys, page_rows, queue_rows
from ..store.batch import Batch
from ..store.host_rows import HostRow
from ..store.page_rows import Page
from ..store.queue_rows import find_place, queued_places, waiting_places
from ..store.states import State
from . import facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..store.leveldb import Store
    from ..store.queue_rows import QueuePlace

    # The fingerprint of the request that a page stands for; None where it cannot be rebuilt.
    FingerprintOf = Callable[[Page], bytes | None]

_AT_A_TIME = 1000  # pages in one batch
_NO_DELAY = Politeness(0.0, 1)


class _Doomed(NamedTuple):
    """A page about to be forgotten; ``place`` is its queue row, ``fingerprint`` its index row."""

    page_id: int
    page: Page
    place: QueuePlace | None
    fingerprint: bytes | None


class Steering:
    def __init__(self, store: Store, fingerprint_of: FingerprintOf) -> None:
        self._store = store
        self._fingerprint_of = fingerprint_of
        self._batch = Batch(store)
        self._hosts: dict[str, Host] = {}
        self._packed: dict[bytes, bool] = {}  # segments of the link graph: is there one?
        self._steps = 0

    def commit(self) -> None:
        """Write what is open. Raises `FrontierUnwritable`."""
        self._batch.commit()
        self._hosts.clear()
        self._steps = 0

    def _step(self) -> None:
        self._steps += 1
        if self._steps >= _AT_A_TIME:
            self.commit()

    def _host(self, name: str) -> Host:
        host = self._hosts.get(name)
        if host is None:
            stored = self._store.get(keys.host_key(name))
            host = self._hosts[name] = Host(name, facts.host_row(stored), _NO_DELAY)
            host.is_kept = stored is not None
        return host

    # -- queue again -----------------------------------------------------------------------------------

    def requeue(self, page_id: int, page: Page) -> bool:
        """Queue a finished page again, its attempts forgotten; false for one that is not finished."""
        if (page.state, Event.REQUEUED) not in TABLE or page_id >= keys.FIRST_VISIT:
            return False
        batch, host = self._batch, self._host(facts.host_of_page(page))
        self._uncount_page(host, page_id, page)
        again = Page(
            page.url,
            State.QUEUED,
            priority=page.priority,
            discovered=page.discovered,
            parent=page.parent,
            host=page.host,
            payload=page.payload,
        )
        batch.put(keys.page_key(page_id), page_rows.encode_page(again))
        batch.queue(host, queue_rows.sort_key(page.priority, NEUTRAL, batch.turn, page_id))
        self._step()
        return True

    # -- forget ----------------------------------------------------------------------------------------

    def forget(self, page_id: int, page: Page) -> None:
        """Remove all that is known of one page: as if it had never been seen. O(queue of its host)."""
        place = find_place(self._store, page_id, facts.host_of_page(page))
        doomed = _Doomed(page_id, page, place, self._index_of(page_id, page))
        if doomed.fingerprint is None:
            self._forget_by_index([doomed])
        else:
            self._forget(doomed)
        self.commit()

    def forget_host(self, name: str) -> Iterator[int]:
        """Remove every page of a host, a batch at a time; yields the number forgotten so far.

        The host row stays, with the time of the last visit: whoever adds the host again must still keep
        its delay.
        """
        count = 0
        without_index: list[_Doomed] = []
        for doomed in self._pages_of(name):
            if doomed.fingerprint is None and doomed.page_id < keys.FIRST_VISIT:
                without_index.append(doomed)
                continue
            self._forget(doomed)
            count += 1
            if count % _AT_A_TIME == 0:
                yield count
        self._forget_by_index(without_index)
        self.commit()
        stored = self._store.get(keys.host_key(name))
        if stored is not None and facts.host_row(stored) == HostRow():  # never visited: not worth keeping
            self._batch.delete(keys.host_key(name))
            self._batch.counts.hosts -= 1
            self._batch.is_open = True
            self.commit()
        yield count + len(without_index)

    def _pages_of(self, name: str) -> Iterator[_Doomed]:
        """First the queued pages by their rows, then, once these are gone, the finished ones."""
        waiting = (place for place in waiting_places(self._store) if place.host == name)
        for places in (queued_places(self._store, name), waiting):
            for place in places:
                page_id = queue_rows.sort_key_id(place.sort_key)
                page = facts.read_page(self._store, page_id)
                if page is not None:
                    yield _Doomed(page_id, page, place, self._index_of(page_id, page))
        self.commit()
        for page_id, page in facts.matching(self._store, host=name):
            if page.state is not State.QUEUED:
                yield _Doomed(page_id, page, None, self._index_of(page_id, page))

    def _index_of(self, page_id: int, page: Page) -> bytes | None:
        """The fingerprint by which the index knows the page; None where its record tells another."""
        fingerprint = self._fingerprint_of(page)
        known = fingerprint is not None and facts.find_page(self._store, fingerprint) == page_id
        return fingerprint if known else None

    def _forget_by_index(self, doomed: list[_Doomed]) -> None:
        """Forget pages whose record no longer makes the request they were discovered by: one index scan."""
        by_id = {each.page_id: each for each in doomed}
        if not by_id:
            return
        for key, value in self._store.scan(keys.INDEX):
            found = by_id.pop(keys.index_id(value), None)
            if found is not None:
                self._forget(found._replace(fingerprint=key[1:]))
        for rest in by_id.values():
            self._forget(rest)

    def _forget(self, doomed: _Doomed) -> None:
        page_id, page, place, fingerprint = doomed
        batch = self._batch
        host = self._host(facts.host_of_page(page) if place is None else place.host)
        batch.delete(keys.page_key(page_id))
        batch.delete(keys.aside_key(page_id))
        if page_id < keys.FIRST_VISIT:
            self._forget_links(page_id)
        if fingerprint is not None:
            batch.delete(keys.INDEX + fingerprint)
        if place is not None:
            batch.delete(place.key)
            self._uncount(host, State.QUEUED)
        elif page.state is not State.QUEUED and page_id < keys.FIRST_VISIT:
            self._uncount_page(host, page_id, page)
        self._step()

    def _forget_links(self, page_id: int) -> None:
        """Remove the links on a page, and its content score; links to it stay on the pages that have them."""
        from ..store import keys  # loads NumPy and SciPy

        segment = keys.segment_key(page_id)
        if segment not in self._packed:
            self._packed[segment] = self._store.get(segment) is not None
        if self._packed[segment]:  # an empty row counts before it, and goes when it is packed anew
            self._batch.put(keys.link_key(page_id), b"")
        else:
            self._batch.delete(keys.link_key(page_id))
        self._batch.delete(keys.content_key(page_id))

    def _uncount_page(self, host: Host, page_id: int, page: Page) -> None:
        """Count a page in no queue no more; one that waited for a budget loses its row, whatever its unit."""
        if not page.is_deferred:
            self._uncount(host, page.state, page.status)
            return
        self._batch.count_deferred(host, -1)
        for unit in keys.deferred_units(host.name):
            self._batch.delete(keys.deferred_key(unit, page_id))

    def _uncount(self, host: Host, state: State, status: int = 0) -> None:
        """Count one page less in *state*; counters that were wrong before do not fall below zero."""
        states = self._batch.counts.states
        if state is State.QUEUED:
            self._batch.count_queued(host, -1)
        else:
            self._batch.count_ended(host, state, -1, status)
        states[state] = max(states[state], 0)
        for name in ("queued", "done", "failed", "deferred", "excluded", "answered"):
            setattr(host, name, max(getattr(host, name), 0))
