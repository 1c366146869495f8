"""Requests in: who each one is, whether it is known, and what becomes of the one it follows from."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import Request
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter

from ..core.frontier import NEUTRAL, Fate, Link
from ..core.pages.values import IN_MEMORY, State
from ..core.parse import urls
from ..core.parse.urls import host_of, without_session
from . import follow_ups
from .codec import Codec, memory_record, meta_record
from .dupefilters import DupeFilter, load_class
from .follow_ups import is_answer, is_seed, times
from .identity import plain_identity
from .meta_keys import AUTO_SLOT, EVERY_RUN, POSTPONED, REFUSED, SLOT, START
from .plain_data import Unstorable
from .stats import REFUSAL_STATS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy.crawler import Crawler

    from ..core.frontier import Discovered, Frontier, Lease, PageId
    from ..settings import FrontierSettings
    from .identity import Identities
    from .in_flight import Flight, Flights
    from .politeness_key import Units
    from .request_cache import Objects
    from .stats import Notes

_NO_EDGE: tuple[Lease | None, int, float] = (None, 0, 1.0)
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
    """Turns requests into links for *frontier*, and says what became of them."""

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
        self._recognize = frontier.recognize
        self._traps_said: set[str] = set()
        self._strips = settings.strips_sessions
        self._has_depth = bool(settings.limits.depth)
        self.known_seeds = 0  # known from an earlier run, and not fetched again
        self.known_seed = ""  # the URL of the first of these
        self._dupefilter: DupeFilter | None = None
        cls = load_class(crawler)
        self._filters = cls is not BaseDupeFilter
        self.knows_texts = self._filters and identities.is_default  # a URL alone may say who it is
        has_usual_identities = cls is RFPDupeFilter and identities.is_default
        self._is_usual = has_usual_identities and units.of is host_of
        if cls not in (BaseDupeFilter, RFPDupeFilter):
            self._dupefilter = DupeFilter(cls, crawler, notes)

    def close(self, reason: str) -> None:
        if self._dupefilter is not None:
            self._dupefilter.close(reason)

    def enqueue(self, request: Request) -> bool:
        """Queue *request*, or note what became of the one it follows from; False for a known page.

        Nine links in ten lead to known pages, most of them met a moment ago: there the text of the URL alone
        tells, in a microsecond.
        """
        if not (self._flights.by_child or request.dont_filter or request.method != "GET" or request.body):
            meta = request.meta
            if self._recognize(request.url) and not meta.get("verbatim_url"):
                self._tally["dupefilter/filtered"] += 1
                return False
            if self._is_usual and _UNUSUAL.isdisjoint(meta):
                return self._enqueue_link(request)  # as all but a few are
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
        if flight is not None:
            known = frontier.find(fingerprint)
            if self._lead(flight, request, known):
                return True
        if again and self._filters and is_seed(request):
            known = frontier.find(fingerprint)
            again = known is not None and self._is_wanted_again(known, request, flight)
        again = again or (EVERY_RUN in request.meta and is_seed(request))
        again = again or (flight is not None and is_answer(request, flight))
        is_named = flight is None and is_seed(request)
        text = url if self.knows_texts and self._identities.is_plain(request) else ""
        parent = None if flight is None else flight.lease.node
        page_id = self._discover(
            request, fingerprint, host_of(request.url), source, text, again, is_named, parent
        )
        if page_id is None:
            if is_named:
                self._note_seed(request.url, fingerprint)
            return False
        if flight is not None:
            flight.leads_to(page_id)
        return True

    def _enqueue_link(self, request: Request) -> bool:
        """`enqueue` for the usual case, an ordinary link: the same in fewer steps."""
        url, by_link = request.url, self._flights.by_link
        source = by_link.get(id(request)) if by_link else None
        clean = url
        if self._strips and ("=" in url or "(" in url):
            request = self._without_session(request, source)
            clean = request.url
        fingerprint, host = plain_identity(clean) or (self._identities.fingerprint(request), host_of(clean))
        lease, flags, weight = _NO_EDGE if source is None else self._edge(request, source)
        if self._recognize(url, lease, flags, weight, fingerprint):
            self._filtered(request)
            return False
        try:
            payload, is_stored = self._codec.encode(request), True
        except Unstorable:
            payload, is_stored = self._payload(request)
        depth = times(request, "depth") if self._has_depth else 0
        link = Link(fingerprint, clean, host, request.priority, payload, flags, weight, depth, url)
        (answer,) = self._frontier.discover((link,), self._clock(), lease)
        page_id = answer.page
        if answer.fate is Fate.NEW and is_stored and page_id is not None:
            self._tally["scheduler/enqueued/disk"] += 1
            if answer.is_head:  # else others come first, and it is long gone when its turn comes
                self._objects.keep(page_id, request)
            return True
        return self._settle(request, link, answer, is_stored) is not None

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
            link = Link(fingerprint, url, host, 0, payload, parent=parent, bucket=bucket, is_placed=True)
            unit = host if units.of is host_of else units.of(url)
            links.append(link if unit == host else link._replace(host=unit, kept_host=unit))
        new = 0
        for link, answer in zip(links, self._frontier.discover(links, self._clock()), strict=True):
            if answer.kind:
                self._say_refused(answer, link, link.url)
            elif answer.is_taken:
                new += 1
            else:
                self._tally["dupefilter/filtered"] += 1
        self._tally["scheduler/enqueued/disk"] += new
        return new

    def _refuse(self, request: Request, source: Flight | None) -> bool:
        """Make the page of *request* known without queueing it; always False."""
        lease, flags, weight = _NO_EDGE if source is None else self._edge(request, source)
        url_host, reason = host_of(request.url), str(request.meta.pop(REFUSED))
        host = self._host_key(request, url_host)
        link = Link(
            self._identities.of(request),
            request.url,
            host,
            request.priority,
            flags=flags,
            weight=weight,
            text=request.url if self.knows_texts and self._identities.is_plain(request) else "",
            kept_host="" if host == url_host else host,
            only_seen=reason,
        )
        self._frontier.discover((link,), self._clock(), lease)
        return False

    def _edge(self, request: Request, source: Flight) -> tuple[Lease | None, int, float]:
        """The edge that *request* stands for: from where, its flags, its weight; told once."""
        del self._flights.by_link[id(request)]
        if source.links is None:
            return _NO_EDGE
        _, flags, weight = source.links.pending.pop(id(request))
        return source.lease, flags, weight

    def _discover(
        self,
        request: Request,
        fingerprint: bytes,
        url_host: str,
        source: Flight | None,
        text: str,
        again: bool,
        is_named: bool,
        parent: PageId | None,
    ) -> PageId | None:
        host = self._host_key(request, url_host)
        payload, is_stored = self._payload(request)
        lease, flags, weight = _NO_EDGE if source is None else self._edge(request, source)
        link = Link(
            fingerprint,
            request.url,
            host,
            request.priority,
            payload,
            flags,
            weight,
            times(request, "depth") if self._has_depth else 0,
            text,
            again,
            "" if host == url_host else host,
            is_named,
            parent=parent,
        )
        (answer,) = self._frontier.discover((link,), self._clock(), lease)
        return self._settle(request, link, answer, is_stored)

    def _settle(self, request: Request, link: Link, answer: Discovered, is_stored: bool) -> PageId | None:
        """Keep what the frontier does not; the page that *request* is queued for, or will be."""
        page_id = answer.page
        if answer.kind:
            self._say_refused(answer, link, request)
        if answer.fate is Fate.REFUSED or page_id is None:
            return None
        if answer.fate is Fate.DEFERRED:
            if not is_stored:
                self._objects.hold(page_id, request)
        elif answer.is_taken:
            self._keep(page_id, request, is_stored)
        elif answer.fate is Fate.ABSENT and not self._objects.holds(page_id):
            self._keep(page_id, request, False)  # an earlier process had it: from now on this one has
        else:
            self._filtered(request)
            return None
        return page_id

    def _say_refused(self, answer: Discovered, link: Link, what: Request | str) -> None:
        """Say why a link is not queued: each kind once for a host, and of every seed."""
        self._tally[REFUSAL_STATS[answer.kind]] += 1
        words = _REFUSALS.get(answer.kind, "Refused %s, which looks like a trap (%s)")
        if answer.page is None and isinstance(what, Request) and is_seed(what):
            self._notes.log(logging.WARNING, f"{words}; it comes from a seed", what, answer.reason)
            return
        key = f"{answer.kind} {link.host}"
        if key not in self._traps_said and len(self._traps_said) < _MOST_SAID:
            self._traps_said.add(key)
            rest = f"said once for {link.host}; see the stats frontier/traps and frontier/deferred"
            self._notes.log(logging.INFO, f"{words}; {rest}", what, answer.reason)

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
        is_old = known is not None and not frontier.is_of_this_run(known)
        page = frontier.page(known) if known is not None and is_old else None
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
        if frontier.is_of_this_run(known):
            return START.encode() in page.payload
        if page.state is State.FAILED:
            payload, stored = self._payload(request)
            is_possible = stored or page.payload.startswith(IN_MEMORY)  # else no link would look for its loss
            if is_possible and frontier.requeue(known, self._clock(), payload, request.priority):
                self._keep(known, request, stored)
        return False

    # -- requests that follow from others --------------------------------------------------------------

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
