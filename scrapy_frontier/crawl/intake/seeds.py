"""Pages that are known and wanted again: seeds, and what a request forces; and how many seeds are not.

Which are is decided in `core.pages.entered_again`; here are their requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...core.pages.entered_again import (
    FORCED,
    LEFT,
    goes_round,
    is_back,
    is_on_the_way,
    is_repeated,
    is_tried_again,
    steps_to,
    takes_request,
)
from ...core.store.meta_rows import IN_MEMORY
from ..flights.redirect_links_and_retries import times
from ..meta_keys import FORCE, PATTERN, UNSET
from ..requests import payload_facts
from ..requests.pattern_and_force import is_forced
from ..requests.payload_edits import own_of, renewed, with_own

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy import Request

    from ...core.frontier import Frontier, PageId
    from ...core.store.page_rows import Page
    from ..flights.in_flight import Flight
    from ..flights.redirect_links_and_retries import FollowUps
    from ..requests.queued import QueuedRequests

# Pages that are remembered as visited, and as named, 100 bytes each; beyond that some are tried twice, or are
# charged the redirects that led there once.
VISITED = 100_000


@dataclass(eq=False, repr=False)
class Seeds:
    """Pages of seeds, and of requests that force a visit. ``left`` counts seeds of an earlier run that are
    not fetched again, ``first`` is the URL of one."""

    _frontier: Frontier
    _clock: Callable[[], float]
    _requests: QueuedRequests
    _follow_ups: FollowUps
    _revisits_pages: bool
    _is_inspecting: bool  # each is fetched that asks for it (``dont_filter``), as with Scrapy
    _tried_again: set[PageId] = field(default_factory=set, init=False)  # in this run, once each
    _named: set[PageId] = field(default_factory=set, init=False)  # seeds to which another page led
    # Pages of earlier runs whose visits ended in this one and showed nothing: their times are whole seconds,
    # and may be those of the run before.
    _visited: set[PageId] = field(default_factory=set, init=False)
    left = 0
    first = ""

    def visited(self, page_id: PageId) -> None:
        """A page of a seed failed, or was redirected: in this run it is not tried again for that."""
        if self._frontier.is_of_this_run(page_id):
            return
        if len(self._visited) >= VISITED:
            self._visited.clear()
        self._visited.add(page_id)

    def note(self, known: PageId | None, request: Request) -> None:
        """A seed was not queued: count it if it is *known* from an earlier run, and nothing brings it back.
        Where pages come back, its page does by this request from now on: callback, arguments, span."""
        page = self._of_earlier_run(known)
        if known is not None and page is not None and page.state in LEFT:
            if not (self._revisits_pages and page.visits and 0 < page.visits.due <= self._clock()):
                self.left += 1
                self.first = self.first or request.url
            if takes_request(page, comes_back=self._revisits_pages):
                payload, is_stored = self._requests.payload_of(request)
                payload = renewed(page.payload, payload)
                if is_stored and payload != page.payload:
                    self._frontier.renew(known, payload)

    def forced(
        self, known: PageId | None, request: Request, is_named: bool, flight: Flight | None
    ) -> PageId | None:
        """The *known* page of *request*, to which *flight* led, if it is queued again, because it was visited
        last before the time that the request names. A seed, which *is_named*, replaces the request of a page
        that waits, but not what an operator added with a pattern, if it names none itself: it comes at every
        start."""
        if known is None or not (is_named or request.meta.get(FORCE) not in UNSET):
            return None
        page = self._frontier.page(known)
        if page is None:
            return None
        if page.state in FORCED and is_forced(request.meta, page):
            return known if self._requeue(known, request, flight=flight) else None
        own = own_of(page.payload)  # what a try of it is made with says nothing of where it comes from
        is_added = payload_facts.is_bare(own) and not payload_facts.is_seed(own)
        is_outdone = payload_facts.has_pattern(own) and (request.meta.get(FORCE) not in UNSET or not is_added)
        has_pattern = request.meta.get(PATTERN) not in UNSET or is_outdone
        if is_named and takes_request(page, has_pattern):
            payload, is_stored = self._requests.payload_of(request)
            if is_stored and self._frontier.renew(known, payload):
                self._requests.queued(known, request, is_stored)
        return None

    def retry_failed(
        self, known: PageId | None, request: Request, is_named: bool, flight: Flight | None
    ) -> PageId | None:
        """The *known* page of a seed if it is queued again, because it failed in an earlier run, or was sent
        away and did not come back, and was not visited in this run yet, being due. So is one on that way,
        which is not named but led to: it is the place that was mended, perhaps, and has its own request again
        after that. Where *flight* is of a page in the middle that came back by itself, the redirects that led
        there once count."""
        page = self._of_earlier_run(known)
        if known is None or page is None:
            return None
        if is_named and page.parent is not None and len(self._named) < VISITED:
            self._named.add(known)
        if known in self._tried_again or known in self._visited:
            return None
        tried_again = () if is_named else self._tried_again
        is_wanted = goes_round(known, page, self._frontier.page, tried_again=tried_again)
        if not is_wanted and not (is_named and is_tried_again(page)):
            return None
        lease = None if flight is None else flight.lease
        if lease is not None and lease.comes_back and lease.page_id not in self._named:
            steps = steps_to(lease.page_id, lease.page, self._frontier.page, self._tried_again)
            request.meta["redirect_times"] = times(request, "redirect_times") + steps
        may_be_lost = is_named or page.payload.startswith(IN_MEMORY)  # else it would lose its own request
        if not self._requeue(known, request, may_be_lost, before=None if is_named else page.payload):
            return None
        self._tried_again.add(known)
        return known

    def comes_back(self, known: PageId | None, request: Request) -> PageId | None:
        """The *known* page of a seed if it is queued again, because its redirects led back to it: it went
        away for a cookie, say. After that it has its own request again."""
        way = _way(request)
        page = self._frontier.page(known) if way and known is not None else None
        if known is None or page is None or not is_back(page, page.url in way):
            return None
        return known if self._requeue(known, request, before=page.payload) else None

    def is_wanted_again(self, request: Request, known: PageId | None, flight: Flight | None) -> bool:
        """Whether *request*, for a seed, must be fetched again, if its page is *known*; *flight* led to
        it."""
        frontier = self._frontier
        if known is None:
            return False
        if self._is_inspecting:
            return True
        page, is_by_parent = frontier.page(known), None
        if flight is not None and page is not None:
            if self._is_on_the_way(page, request):
                return True
            if flight.lease.comes_back and page.visits and page.visits.due:  # so does this one, in its time
                return False
            parent = frontier.page(page.parent) if page.parent is not None else None
            is_by_parent = parent is not None and parent.url == flight.lease.page.url
        # what a seed's redirect led to inherits its meta, but has a parent
        was_seed = page is not None and page.parent is None and payload_facts.is_seed(page.payload)
        return is_repeated(page, frontier.is_of_this_run(known), was_seed, is_by_parent)

    def _is_on_the_way(self, page: Page, request: Request) -> bool:
        way = _way(request)
        leads_to = None if page.target is None else self._frontier.page(page.target)
        return is_on_the_way(page, page.url in way, leads_to is not None and leads_to.url in way)

    def _of_earlier_run(self, known: PageId | None) -> Page | None:
        is_old = known is not None and not self._frontier.is_of_this_run(known)
        return self._frontier.page(known) if known is not None and is_old else None

    def _requeue(
        self,
        known: PageId,
        request: Request,
        may_be_lost: bool = True,
        before: bytes | None = None,
        flight: Flight | None = None,
    ) -> bool:
        """Queue a page again by *request*. After that it has the request it had *before*, or none but this;
        where a *flight* led there, without what came into it on the way."""
        payload, is_stored = self._requests.payload_of(request)
        if flight is not None and is_stored:
            payload = self._follow_ups.with_own(flight, request, payload)
        if before is not None and is_stored:
            payload = with_own(payload, before)
        found_by = None if is_stored else payload_facts.kept_fingerprint(payload)
        is_possible, now = is_stored or may_be_lost, self._clock()
        if is_possible and self._frontier.requeue(known, now, payload, request.priority, found_by):
            self._requests.queued(known, request, is_stored)
            return True
        return False


def _way(request: Request) -> Sequence[str]:
    """The URLs whose redirects led to *request*."""
    way = request.meta.get("redirect_urls", ())
    return way if isinstance(way, list | tuple) else ()
