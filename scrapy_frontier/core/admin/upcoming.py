"""What comes next, in order: the crawl's own hosts and turns over virtual time, read from the disk.

Answers are taken to come at once, so the times are the earliest possible. Memory: about a kilobyte a host
with queued pages.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from ..hosts.host import HEADS, Host, Politeness, is_of_host, queues_with
from ..hosts.ready_hosts import Hosts
from ..pages.backoffs import TOO_LONG_TO_WAIT
from ..store import host_rows, keys, queue_keys
from . import facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..store.keys import PageId
    from ..store.leveldb import Store
    from ..store.page_rows import Page
    from .facts import DelayOf


class Turn(NamedTuple):
    """A page and the earliest time (POSIX seconds) it can be handed out."""

    when: float
    page_id: PageId
    page: Page


class Preview:
    """The crawl that starts *now*; only pages of the host *only* if given, in whatever queue, which takes a
    pass over all pages. *domain_of* gives the registered domain of a host. Pages of blocked hosts do not
    come, nor such whose record cannot be read. Reads the store alone."""

    def __init__(
        self, store: Store, now: float, delay_of: DelayOf, only: str | None, domain_of: Callable[[str], str]
    ) -> None:
        self._store, self._began, self._delay_of, self._only = store, now, delay_of, only
        self._now = now
        self._names: set[str] | None = None  # of the queues that are played, if not all
        if only is not None:
            self._names = {only} | queues_with((page for _, page in facts.pages(store)), only)
        self._blocked = {host for host, orders in host_rows.all_orders(store) if orders.blocked is not None}
        self._hosts = Hosts(domain_of)
        self._waiting = (place for place in _waiting(store, now) if self._is_wanted(place.host))
        self._next_waiting = next(self._waiting, None)
        views = facts.hosts(store, delay_of, now)
        queued = (view.host for view in views if view.queued or view.queued_again)
        for name in filter(self._is_wanted, queued if self._names is None else sorted(self._names)):
            self._hosts.put(self._host(name), now)

    def _is_wanted(self, name: str) -> bool:
        return name not in self._blocked and (self._names is None or name in self._names)

    def _host(self, name: str) -> Host:
        host = self._hosts.by_name.get(name)
        if host is None:
            view = facts.find_host(self._store, name, self._delay_of, self._began)
            row = facts.host_row(self._store.get(keys.host_key(name)))
            host = self._hosts.by_name[name] = Host(name, row, Politeness(view.delay, 1))
            host.ready_at = view.ready_at
            host.more = True
            self._fill(host)
        return host

    def _fill(self, host: Host) -> None:
        while host.needs_sort_keys():
            host.filled(self._store.keys_of(host.prefix, host.cursor, HEADS), HEADS)

    def turns(self) -> Iterator[Turn]:
        """The pages in the order in which they are handed out, until none is left; O(log hosts) and a lookup
        each. To be iterated once."""
        while (taken := self._take()) is not None or self._advance():
            page = None if taken is None else facts.legible_page(self._store, taken)
            if taken is None or page is None:
                continue
            if self._only is None or is_of_host(page, self._only):
                yield Turn(self._now, taken, page)

    def _advance(self) -> bool:
        """Move to the next moment at which something can be handed out; false if there is none."""
        times = self._hosts.next_ready(), self._next_waiting and self._next_waiting.waits_until
        first = min((when for when in times if when is not None), default=None)
        self._now = max(self._now, first or 0.0)
        return first is not None

    def _take(self) -> int | None:
        """The page that is handed out now."""
        while (place := self._next_waiting) is not None and (place.waits_until or 0.0) <= self._now:
            host = self._host(place.host)
            host.add(place.sort_key)
            host.note_waited(place.sort_key)
            self._hosts.put(host, self._now)
            self._next_waiting = next(self._waiting, None)
        found = self._hosts.best(self._now)
        if found is None:
            return None
        sort_key = found.take()
        found.in_flight = 1
        self._fill(found)
        self._hosts.put(found, self._now)
        found.in_flight = 0
        found.ready_at = self._now + found.delay if found.delay else 0.0
        if not found.more or sort_key <= found.cursor:  # it is not met again on the disk
            found.drop_sort_key(sort_key)
        self._hosts.put(found, self._now)
        return queue_keys.sort_key_id(sort_key)


def _waiting(store: Store, now: float) -> Iterator[queue_keys.QueuePlace]:
    """Pages in a backoff, soonest first: those whose wait is longer than any can be are fetched now."""
    last = queue_keys.behind_waiting(now + TOO_LONG_TO_WAIT)
    yield from (place._replace(waits_until=now) for place in queue_keys.waiting_places(store, last))
    yield from takewhile(lambda place: place.key[1:] <= last, queue_keys.waiting_places(store))
