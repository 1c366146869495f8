"""Pages that are known and wanted again: seeds, and what an entry forces; and how many seeds are not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.store.meta_rows import IN_MEMORY
from ..core.store.states import State
from .meta_keys import FORCE, PATTERN, START
from .pattern_and_force import is_forced

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from ..core.frontier import Frontier, PageId
    from .in_flight import Flight
    from .queued_requests import QueuedRequests


@dataclass(eq=False, repr=False)
class Seeds:
    """Pages of seeds, and of entries that force a visit. ``known`` counts seeds of an earlier run that are
    not fetched again, ``first`` is the URL of one."""

    _frontier: Frontier
    _clock: Callable[[], float]
    _requests: QueuedRequests
    _revisits_pages: bool
    known = 0
    first = ""

    def note(self, request: Request, fingerprint: bytes) -> None:
        """A seed was not queued: count it if it is known from an earlier run, and nothing brings it back.
        Where pages come back, its page does by this request from now on: callback, arguments, span."""
        frontier = self._frontier
        known = frontier.find(fingerprint)
        is_old = known is not None and not frontier.is_of_this_run(known)
        page = frontier.page(known) if known is not None and is_old else None
        if page is not None and page.state is not State.QUEUED:
            self.known += 1
            self.first = self.first or request.url
            if self._revisits_pages and known is not None and page.state is not State.SEEN:
                payload, is_stored = self._requests.payload_of(request)
                if is_stored and payload != page.payload:
                    frontier.renew(known, payload)

    def forced(self, known: PageId | None, request: Request, is_named: bool) -> PageId | None:
        """The *known* page of *request* if it is queued again, because it was visited last before the time
        that the request names. A seed, which *is_named*, replaces the entry of a page that waits."""
        if not is_named and FORCE not in request.meta:
            return None
        frontier = self._frontier
        page = frontier.page(known) if known is not None else None
        if known is None or page is None or page.state is State.SEEN:
            return None
        if page.state is not State.QUEUED:
            return known if is_forced(request.meta, page) and self._requeue(known, request) else None
        if is_named and (PATTERN in request.meta or PATTERN.encode() in page.payload):
            payload, is_stored = self._requests.payload_of(request)
            if is_stored and frontier.renew(known, payload):
                self._requests.queued(known, request, is_stored)
        return None

    def _requeue(self, known: PageId, request: Request) -> bool:
        payload, is_stored = self._requests.payload_of(request)
        is_queued = self._frontier.requeue(known, self._clock(), payload, request.priority)
        if is_queued:
            self._requests.queued(known, request, is_stored)
        return is_queued

    def retry_failed(self, known: PageId | None, request: Request) -> None:
        """Queue the page of a seed again if it is *known*, and failed in an earlier run."""
        frontier = self._frontier
        page = frontier.page(known) if known is not None and not frontier.is_of_this_run(known) else None
        if known is not None and page is not None and page.state is State.FAILED:
            payload, is_stored = self._requests.payload_of(request)
            is_possible = is_stored or page.payload.startswith(IN_MEMORY)  # else none would look for its loss
            if is_possible and frontier.requeue(known, self._clock(), payload, request.priority):
                self._requests.queued(known, request, is_stored)

    def is_wanted_again(self, known: PageId | None, flight: Flight | None) -> bool:
        """Whether a seed must be fetched again, if it is *known*; *flight* led to it.

        Seeds come with ``dont_filter`` at every start. Repeated within one run they are meant; of those known
        from an earlier run only what failed is tried again (`retry_failed`).
        """
        frontier = self._frontier
        if known is None:
            return False
        page = frontier.page(known)
        if page is None or page.state is State.SEEN:  # not wanted so far, unless it waits for a budget
            return page is None or not page.is_deferred
        if flight is not None:  # the target of a seed that is repeated, not of one that leads to another
            parent = frontier.page(page.parent) if page.parent is not None else None
            return parent is not None and parent.url == flight.lease.page.url
        return frontier.is_of_this_run(known) and START.encode() in page.payload
