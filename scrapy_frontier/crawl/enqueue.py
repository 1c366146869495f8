"""Requests in: who each one is, whether it is known, and what becomes of the one it follows from."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import Request
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter

from ..core.frontier import NEUTRAL, Link
from ..core.pages.values import FIRST_VISIT, IN_MEMORY, Edge, State
from ..core.parse import urls
from ..core.parse.urls import host_of, without_session
from . import follow_ups
from .codec import Codec, memory_record, meta_record
from .dupefilters import DupeFilter, load_class
from .follow_ups import is_answer, is_seed, times
from .identity import plain_identity
from .meta_keys import AUTO_SLOT, EVERY_RUN, POSTPONED, REFUSED, SLOT, START
from .plain_data import Unstorable
from .request_cache import Recent

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable

    from scrapy.crawler import Crawler

    from ..core.frontier import Frontier, Refusal
    from ..settings import FrontierSettings
    from .identity import Identities
    from .in_flight import Flight, Flights
    from .politeness_key import Units
    from .request_cache import Objects
    from .stats import Notes

_MOST_SAID = 100  # hosts whose traps are told one by one
_REFUSALS = {
    "deferred": "Keeping %s for later: %s",
    "over-budget": "Counted but not kept: %s: %s, and enough is kept for later",
}
_UNUSUAL = frozenset((POSTPONED, REFUSED, START, SLOT, AUTO_SLOT, "retry_times", "verbatim_url"))  # meta


class Listed(NamedTuple):
    """A URL to fetch by a plain GET, with ``meta`` of plain data; ``bucket`` is its place (`sort_key`)."""

    url: str
    meta: dict[str, Any] = {}
    bucket: int = NEUTRAL


class Intake:
    """Turns requests into links for *frontier*, and remembers what it met lately."""

    def __init__(
        self,
        crawler: Crawler,
        settings: FrontierSettings,
        frontier: Frontier,
        clock: Callable[[], float],
        identities: Identities,
        units: Units,
        codec: Codec,
        objects: Objects,
        flights: Flights,
        notes: Notes,
        records_links: bool,
        is_temporary: bool,
    ) -> None:
        self._crawler = crawler
        self._frontier = frontier
        self._clock = clock
        self._identities = identities
        self._units = units
        self._codec = codec
        self._objects = objects
        self._flights = flights
        self._notes = notes
        self._tally = notes.tally
        self._records_links = records_links
        self._is_temporary = is_temporary
        self._backoff = settings.backoff
        self._recent = Recent()
        self._traps_said: set[str] = set()
        self._strips = settings.strips_sessions
        self._has_depth = bool(settings.limits.depth)
        self.known_seeds = 0  # known from an earlier run, and not fetched again
        self.known_seed = ""  # the URL of the first of these
        self._dupefilter: DupeFilter | None = None
        cls = load_class(crawler)
        self._filters = cls is not BaseDupeFilter
        has_usual_identities = cls is RFPDupeFilter and identities.is_default
        self._is_usual = has_usual_identities and units.of is host_of
        if cls not in (BaseDupeFilter, RFPDupeFilter):
            self._dupefilter = DupeFilter(cls, crawler, notes)

    def close(self, reason: str) -> None:
        if self._dupefilter is not None:
            self._dupefilter.close(reason)

    def known(self, request: Request) -> int | None:
        """The id of the page of a plain GET, if the text of its URL alone tells; else None."""
        if request.body or request.meta.get("verbatim_url"):
            return None
        return self.known_url(request.url)

    def known_url(self, url: str) -> int | None:
        known = self._recent.find(url)
        return ~known if known is not None and known < 0 else known

    def remember_seen(self, url: str, page_id: int) -> None:
        """A link to a page that is not queued was found; a later request for it must still come through."""
        if self._identities.is_default and self._filters and self._recent.find(url) is None:
            self._recent.put(url, ~page_id)

    def _remember_as(self, url: str, clean: str) -> None:
        """*url* leads where *clean* does, which was just met."""
        known = self._recent.find(clean)
        if known is not None:
            self._recent.put(url, known)

    def enqueue(self, request: Request) -> bool:
        """Queue *request*, or note what became of the one it follows from; False for a known page.

        Nine links in ten lead to known pages, most of them met a moment ago: there the text of the URL alone
        tells, in a microsecond.
        """
        url = request.url
        known = self._recent.latest.get(url)
        if known is None:
            known = self._recent.find(url)
        if not (self._flights.by_child or request.dont_filter or request.method != "GET" or request.body):
            meta = request.meta
            if known is not None and known >= 0 and not meta.get("verbatim_url"):
                self._tally["dupefilter/filtered"] += 1
                return False
            if self._is_usual and _UNUSUAL.isdisjoint(meta):
                return self._enqueue_link(request, url)  # as all but a few are
        return self._enqueue_other(request)

    def _enqueue_other(self, request: Request) -> bool:
        """`enqueue` for seeds, forms, and requests that follow from others."""
        frontier = self._frontier
        source = self._flights.by_link.get(id(request)) if self._flights.by_link else None
        url = request.url
        if REFUSED in request.meta:
            return self._refuse(self._without_session(request, source), source)
        flight = self._flights.leading_to(request)
        if flight is None:
            request = self._without_session(request, source)
        elif self._follow(flight, request):
            return True
        if self._dupefilter is not None and not request.dont_filter and self._dupefilter.seen(request):
            self._tally["dupefilter/filtered"] += 1
            return False
        fingerprint = self._identities.of(request)
        again = request.dont_filter or not self._filters
        parent = None if source is None else self.page_of(source)
        if flight is not None:
            known = frontier.find(fingerprint)
            if self._lead(flight, request, known):
                return True
            parent = self.page_of(flight)
        if again and self._filters and is_seed(request):
            known = frontier.find(fingerprint)
            again = known is not None and self._is_wanted_again(known, request, flight)
        again = again or (EVERY_RUN in request.meta and is_seed(request))
        again = again or (flight is not None and is_answer(request, flight))
        host, is_named = host_of(request.url), flight is None and is_seed(request)
        is_plain = self._filters and self._identities.is_plain(request)
        page_id = self._discover(request, fingerprint, host, again, parent, source, is_named, is_plain)
        if url != request.url:
            self._remember_as(url, request.url)
        if page_id is None:
            if is_named:
                self._note_seed(request.url, fingerprint)
            return False
        if flight is not None:
            flight.leads_to(page_id)
        return True

    def _enqueue_link(self, request: Request, url: str) -> bool:
        """`enqueue` for the usual case, an ordinary link: the same in fewer steps."""
        by_link, clean = self._flights.by_link, url
        source = by_link.get(id(request)) if by_link else None
        if self._strips and ("=" in url or "(" in url):
            request = self._without_session(request, source)
            clean = request.url
        fingerprint, host = plain_identity(clean) or (self._identities.fingerprint(request), host_of(clean))
        known = self._frontier.look_up(fingerprint)
        if known is None:
            is_new = self._enqueue_new(request, clean, fingerprint, host, source)
        elif known < 0:  # maybe only seen so far
            parent = None if source is None else self.page_of(source)
            page_id = self._discover(request, fingerprint, host, False, parent, source, False, True)
            is_new = page_id is not None
        else:
            is_new = False
            self._filtered(request)
            self._met(request, fingerprint, known, source, True)
        if clean is not url:
            self._remember_as(url, clean)
        return is_new

    def _enqueue_new(
        self, request: Request, url: str, fingerprint: bytes, host: str, source: Flight | None
    ) -> bool:
        """`_discover` for an ordinary link to a page that is not known."""
        parent, weight = None, 1.0
        if source is not None:
            parent = self.page_of(source)
            if source.links is not None:
                weight = source.links.pending[id(request)][2]
        try:
            payload = self._codec.encode(request)
        except Unstorable:
            return self._discover(request, fingerprint, host, False, parent, source, False, True) is not None
        frontier, depth = self._frontier, times(request, "depth") if self._has_depth else 0
        page_id = frontier.discover_new(
            fingerprint, url, host, request.priority, payload, parent, weight, depth, self._clock()
        )
        if frontier.refusals:
            self._refused(frontier.refusals, request)
            if page_id is None:
                self._not_kept(request, fingerprint, source)
        elif page_id is not None:
            self._tally["scheduler/enqueued/disk"] += 1
            if frontier.is_head:  # else others come first, and it is long gone when its turn comes
                self._objects.keep(page_id, request)
        if page_id is None:
            return False
        if source is not None:
            self._join(request, page_id, source)
        self._recent.put(url, page_id)
        return True

    def enqueue_listed(self, wanted: Iterable[Listed], parent: int | None) -> int:
        """Queue plain GETs with the spider's default callback, found on *parent*; how many were new.

        No `Request` is made where the URL alone says who it is, and no signal is sent. 20 us a new page.
        """
        identities, units = self._identities, self._units
        links = []
        for url, meta, bucket in wanted:
            identity = plain_identity(url) if identities.is_default else None
            if identity is None or self._dupefilter is not None:
                request = Request(url, meta=dict(meta))
                if self._dupefilter is not None and self._dupefilter.seen(request):
                    self._tally["dupefilter/filtered"] += 1
                    continue
                url = request.url
                identity = identities.fingerprint(request), host_of(url)
            fingerprint, host = identity
            payload = meta_record(meta) if meta else b""
            link = Link(fingerprint, url, host, 0, payload, parent, bucket, is_placed=True)
            unit = host if units.of is host_of else units.of(url)
            links.append(link if unit == host else link._replace(host=unit, kept_host=unit))
        frontier = self._frontier
        refused, deferred = frontier.refused.total(), frontier.refused["deferred"]
        unknown = len(links) - frontier.discover(links, self._clock()).count(None)
        refused, deferred = frontier.refused.total() - refused, frontier.refused["deferred"] - deferred
        self._refused(frontier.refusals)
        self._tally["dupefilter/filtered"] += len(links) - unknown - (refused - deferred)
        self._tally["scheduler/enqueued/disk"] += unknown - deferred
        return unknown - deferred

    def _refuse(self, request: Request, source: Flight | None) -> bool:
        """Make the page of *request* known without queueing it; always False."""
        url_host = host_of(request.url)
        host = self._host_key(request, url_host)
        parent = None if source is None else self.page_of(source)
        link = Link(self._identities.of(request), request.url, host, request.priority, parent=parent)
        kept = link._replace(kept_host="" if host == url_host else host)
        reason = str(request.meta.pop(REFUSED))
        (page_id,) = self._frontier.note_seen((kept,), self._clock(), reason)
        if page_id is None or page_id < FIRST_VISIT:
            self._join(request, page_id, source)
            if page_id is not None and self._identities.is_plain(request):
                self.remember_seen(request.url, page_id)
        return False

    def _met(
        self,
        request: Request,
        fingerprint: bytes,
        page_id: int | None,
        source: Flight | None,
        is_plain: bool,
    ) -> None:
        """Remember the page of a URL, and the edge that leads there from the page of *source*."""
        if not is_plain and source is None:
            return
        if page_id is None or page_id >= FIRST_VISIT:
            page_id = self._frontier.find(fingerprint)
        if page_id is None:
            return
        self._join(request, page_id, source)
        if is_plain:
            self._recent.put(request.url, page_id)

    def _join(self, request: Request, page_id: int | None, source: Flight | None) -> None:
        """Note the edge that *request* stands for, from the page of *source*, or that there is none."""
        if source is not None and source.links is not None:
            _, flags, weight = source.links.pending.pop(id(request))
            del self._flights.by_link[id(request)]
            if page_id is not None:
                source.links.edges.append(Edge(page_id, flags, weight))

    def _discover(
        self,
        request: Request,
        fingerprint: bytes,
        url_host: str,
        again: bool,
        parent: int | None,
        source: Flight | None,
        is_seed: bool,
        is_plain: bool,
    ) -> int | None:
        host = self._host_key(request, url_host)
        payload, stored = self._payload(request)
        link = Link(
            fingerprint,
            request.url,
            host,
            request.priority,
            payload,
            parent,
            NEUTRAL,
            again,
            "" if host == url_host else host,
            1.0 if source is None or source.links is None else source.links.pending[id(request)][2],
            times(request, "depth") if self._has_depth else 0,
            is_seed,
        )
        frontier = self._frontier
        page_id = frontier.discover_one(link, self._clock())
        if frontier.refusals:
            self._refused(frontier.refusals, request)
            if page_id is None:
                self._not_kept(request, fingerprint, source)
                return None
            if not stored:
                self._objects.hold(page_id, request)
        elif page_id is not None:
            self._keep(page_id, request, stored)
        elif (page_id := self._takes_over(request, fingerprint)) is None:
            self._filtered(request)
        if self._records_links:
            self._met(request, fingerprint, page_id, source, is_plain)
        elif is_plain:
            self._recent.put(request.url, page_id or 0)
        return page_id

    def _not_kept(self, request: Request, fingerprint: bytes, source: Flight | None) -> None:
        """A trap, or beyond what is kept for later: no page of the graph, unless it was seen before."""
        known = self._frontier.find(fingerprint)
        self._join(request, known, source)
        if known is not None and self._identities.is_plain(request):
            self.remember_seen(request.url, known)

    def _refused(self, refusals: deque[Refusal], request: Request | None = None) -> None:
        """Say why a link is not queued: each kind once for a host, and of every seed."""
        is_named = request is not None and is_seed(request)
        while refusals:
            refusal = refusals.popleft()
            what = request or refusal.url
            words = _REFUSALS.get(refusal.kind, "Refused %s, which looks like a trap (%s)")
            if refusal.page_id is None and is_named:
                self._notes.log(logging.WARNING, f"{words}; it comes from a seed", what, refusal.reason)
                continue
            key = f"{refusal.kind} {refusal.host}"
            if key not in self._traps_said and len(self._traps_said) < _MOST_SAID:
                self._traps_said.add(key)
                rest = f"said once for {refusal.host}; see the stats frontier/traps and frontier/deferred"
                self._notes.log(logging.INFO, f"{words}; {rest}", what, refusal.reason)

    def without_session(self, url: str) -> str:
        """*url* without session identifiers, if they are to be taken out."""
        return without_session(url) if self._strips and ("=" in url or "(" in url) else url

    def _without_session(self, request: Request, source: Flight | None) -> Request:
        """*request* without the session identifiers in its URL, if it is an ordinary link."""
        clean = self.without_session(request.url)
        if clean == request.url:
            return request
        if request.method != "GET" or request.body or request.dont_filter or is_seed(request):
            return request
        self._tally["frontier/traps/session"] += 1
        instead = request.replace(url=clean)
        if source is not None and source.links is not None:
            _, flags, weight = source.links.pending.pop(id(request))
            source.links.pending[id(instead)] = instead, flags, weight
            self._flights.by_link[id(instead)] = self._flights.by_link.pop(id(request))
        return instead

    def _payload(self, request: Request) -> tuple[bytes, bool]:
        """The record of *request*, and whether it is more than a note that this process has it."""
        try:
            return self._codec.encode(request), True
        except Unstorable as reason:
            record = memory_record(request, self._identities.of(request))
            if self._is_temporary:  # nothing survives a restart
                return record, False
            self._tally["scheduler/unserializable"] += 1
            self._notes.say_once(
                "unstorable",
                logging.WARNING,
                "Unable to serialize request: %s - reason: %s; it would not survive a restart (said once)",
                request,
                reason,
            )
            return record, False

    def _host_key(self, request: Request, url_host: str) -> str:
        """The download slot the user chose, else the unit of politeness of the URL, by default its host; an
        inherited slot is dropped."""
        slot = request.meta.get(SLOT)
        if slot is not None:
            meta = request.meta
            if slot != meta.pop(AUTO_SLOT, None):
                return urls.clean_host(str(slot))
            del meta[SLOT]
        unit_of = self._units.of
        return url_host if unit_of is host_of else unit_of(request.url)

    def _keep(self, page_id: int, request: Request, stored: bool) -> None:
        self._tally["scheduler/enqueued/disk" if stored else "scheduler/enqueued/memory"] += 1
        if stored:
            self._objects.keep(page_id, request)
        else:
            self._objects.hold(page_id, request)

    def _takes_over(self, request: Request, fingerprint: bytes) -> int | None:
        """The known page of *request*, if it is yet to be fetched and an earlier process alone had its
        request: from now on it has this one."""
        frontier = self._frontier
        known = frontier.look_up(fingerprint)
        if known is None or known >= 0 or self._objects.holds(~known):
            return None
        page = frontier.page(~known)
        if page is None or not page.payload.startswith(IN_MEMORY):
            return None
        if page.state is not State.QUEUED and not page.is_deferred:
            return None
        self._keep(~known, request, False)
        return ~known

    def _filtered(self, request: Request) -> None:
        self._tally["dupefilter/filtered"] += 1
        self._notes.say_once(
            "filtered",
            logging.DEBUG,
            "Filtered a known page, %s (said once; see dupefilter/filtered)",
            request,
        )

    def _note_seed(self, url: str, fingerprint: bytes) -> None:
        """A seed was not queued: count it if it is known from an earlier run, and nothing brings it back."""
        frontier = self._frontier
        known = frontier.find(fingerprint)
        page = frontier.page(known) if known is not None and known < frontier.first_page_of_run else None
        if page is not None and page.state is not State.QUEUED:
            self.known_seeds += 1
            self.known_seed = self.known_seed or url

    def _is_wanted_again(self, known: int, request: Request, flight: Flight | None) -> bool:
        """Whether a seed that is known must be fetched again.

        Seeds come with ``dont_filter`` at every start. Repeated within one run they are meant; known from an
        earlier run only one that failed is tried again.
        """
        frontier = self._frontier
        page = frontier.page(known)
        if page is None or page.state is State.SEEN:  # not wanted so far, unless it waits for a budget
            return page is None or not page.is_deferred
        if flight is not None:  # the target of a seed that is repeated, not of one that leads to another
            parent = frontier.page(page.parent) if page.parent is not None else None
            return parent is not None and parent.url == flight.lease.page.url
        if known >= frontier.first_page_of_run:
            return START.encode() in page.payload
        if page.state is State.FAILED:
            payload, stored = self._payload(request)
            is_possible = stored or page.payload.startswith(IN_MEMORY)  # else no link would look for its loss
            if is_possible and frontier.requeue(known, self._clock(), payload, request.priority):
                self._keep(known, request, stored)
        return False

    # -- requests that follow from others --------------------------------------------------------------

    def page_of(self, flight: Flight) -> int | None:
        """The page a flight is for; a further visit has an id of its own that is gone when it ends."""
        page_id = flight.lease.page_id
        if page_id < FIRST_VISIT:
            return page_id
        return self._frontier.find(self._identities.of(flight.request))

    def _follow(self, flight: Flight, child: Request) -> bool:
        """Note what *child* makes of the page it follows from; true where it is for that page again."""
        lease = flight.lease
        if POSTPONED in child.meta:
            flight.ends_as(follow_ups.postponed(flight, child))
            if self._objects.holds(lease.page_id):
                self._objects.hold(lease.page_id, child)
            return True
        if not follow_ups.is_retry(child, flight):
            return False
        delay = self._backoff(lease.page.attempts + 1)
        flight.ends_as(follow_ups.retried(flight, child, self._instead(flight, child), delay))
        self._tally["frontier/retries"] += 1
        return True

    def _instead(self, flight: Flight, child: Request) -> bytes | None:
        """The record of *child*, which takes the place of the request of its page; None where there is none:
        then the old one stands for the page after a restart."""
        page_id = flight.lease.page_id
        payload, stored = self._payload(child)
        if stored:
            self._objects.drop(page_id)
            return payload
        self._objects.hold(page_id, child)
        return None

    def _lead(self, flight: Flight, child: Request, known: int | None) -> bool:
        """Note that a flight led to *child*; true when that is the same page once more."""
        if known is None or known != flight.lease.page_id:
            flight.ends_as(follow_ups.redirected(child, known))
            return False
        is_changed = follow_ups.may_answer_otherwise(self._crawler, flight.request, child)
        flight.ends_as(follow_ups.redirected_to_itself(self._instead(flight, child), is_changed))
        return True
