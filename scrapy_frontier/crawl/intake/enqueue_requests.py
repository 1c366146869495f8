"""Requests in: each becomes one link, and the frontier says what became of it."""

from __future__ import annotations

import logging
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import Request

from ...core.frontier import NEUTRAL, Fate, Link, new_link
from ...core.parse import urls
from ...core.parse.urls import host_of, without_session
from ..flights.redirect_links_and_retries import is_seed, only_its_retry_insists, times
from ..meta_keys import AUTO_SLOT, FORCE, ONLY_SEEN, POSTPONED, SLOT, START, chosen_slot
from ..requests.class_paths import Unstorable
from ..requests.codec import meta_payload
from ..requests.fingerprints import plain_identity
from ..requests.request_classes import copied
from ..scrapy_internals import compat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...core.frontier import Discovered, Frontier, Lease, PageId
    from ...settings import FrontierSettings
    from ..flights.in_flight import Flight, Flights
    from ..flights.redirect_links_and_retries import FollowUps
    from ..hosts.politeness_key import PolitenessKeys
    from ..requests.fingerprints import Identities
    from ..requests.queued import QueuedRequests
    from ..stats import Reporter
    from .dupefilters import DupeFilter
    from .refused_links import Refusals
    from .seeds import Seeds
    from .wanted_again import WantedAgain

_NEW = Fate.NEW
_UNNOTED = None, 0, 1.0
_ORDINARY = False, "", False, "", None, NEUTRAL, False  # the rest of a `Link`
# Meta of requests that are more than a link.
_UNUSUAL = frozenset((POSTPONED, ONLY_SEEN, FORCE, START, SLOT, AUTO_SLOT, "retry_times", "verbatim_url"))


class Listed(NamedTuple):
    """A URL to fetch by a plain GET, with ``meta`` of plain data; ``bucket`` is its place (`sort_key`)."""

    url: str
    meta: dict[str, Any] = {}
    bucket: int = NEUTRAL


@dataclass(eq=False, repr=False)
class Intake:
    """Turns requests into links for *frontier*, and keeps what that does not: requests as objects, by
    *requests*.

    Each is queued, counted or refused before its call returns; what is queued is on its way to the disk no
    later than the end of any page after it.
    """

    settings: InitVar[FrontierSettings]
    _frontier: Frontier
    _clock: Callable[[], float]
    identities: Identities
    _politeness_keys: PolitenessKeys
    _dupefilter: DupeFilter
    _requests: QueuedRequests
    _flights: Flights
    _follow_ups: FollowUps
    _seeds: Seeds
    _wanted: WantedAgain
    _refusals: Refusals
    _reporter: Reporter

    def __post_init__(self, settings: FrontierSettings) -> None:
        identities, dupefilter = self.identities, self._dupefilter
        self.recognize, self._is_recent = self._frontier.recognize, self._frontier.is_recent
        self._discover_one = self._frontier.discover_one
        self._encode = self._requests.codec.encode
        self._tally = self._reporter.tally
        self.unfiltered, self.is_for_other = self._wanted.unfiltered, self._wanted.is_for_other
        self._strips = settings.strips_sessions
        self.has_depth = bool(settings.limits.depth)
        # Whether a URL alone may say who it is, and nobody is to see the request.
        self.knows_texts = dupefilter.is_on and identities.is_default and not dupefilter.hears_of_dropped
        self._is_usual = self.knows_texts and dupefilter.is_usual and self._politeness_keys.of is host_of

    def enqueue(self, request: Request) -> bool:
        """Queue *request*, or note what became of the one it follows from; False for a page that is known,
        refused, or only made known.

        Nine links in ten lead to known pages, most of them met a moment ago: there the text of the URL alone
        tells, in a microsecond.
        """
        url, method, body, again, meta = compat.essentials(request)
        flights = self._flights
        if method == "GET" and not (body or again or flights.by_follow_up):
            is_noted = flights.by_link and id(request) in flights.by_link  # then its text told nothing
            is_known = not is_noted and (self._is_recent(url) or self.recognize(url))
            if is_known and not (meta and (FORCE in meta or "verbatim_url" in meta)):
                self._tally["dupefilter/filtered"] += 1
                return False
            if self._is_usual and (not meta or _UNUSUAL.isdisjoint(meta)):
                return self._enqueue_link(request, url)  # as all but a few are
        return self._enqueue_other(request)

    def _enqueue_link(self, request: Request, url: str) -> bool:
        """`enqueue` for the usual case, an ordinary link whose text tells nothing."""
        original, clean = request, url
        if self._strips and ("=" in url or "(" in url):
            request = self._without_session(request)
            clean = request.url
        fingerprint, host = plain_identity(clean) or (self.identities.fingerprint(request), host_of(clean))
        if fingerprint in self.unfiltered:
            return self._queue_other(original, request, fingerprint, None, None) is not None
        lease, flags, weight = self._noted(original) if self._flights.by_link else _UNNOTED
        try:
            payload, is_stored = self._encode(request), True
        except Unstorable:
            payload, is_stored = self._requests.payload_of(request)
        depth = times(request, "depth") if self.has_depth else 0
        about = fingerprint, clean, host, request.priority, payload, flags, weight, depth, url
        link = new_link(about + _ORDINARY)
        answer = self._discover_one(link, self._clock(), lease)
        page_id = answer.page_id
        if answer.fate is _NEW and is_stored and page_id is not None:
            self._tally["scheduler/enqueued/disk"] += 1
            if answer.is_head:  # else others come first, and it is long gone when its turn comes
                self._requests.keep(page_id, request)
            return True
        return self._act_on(request, link, answer, is_stored) is not None

    def _enqueue_other(self, request: Request) -> bool:
        """`enqueue` for seeds, forms, and requests that follow from others."""
        if ONLY_SEEN in request.meta:
            return self._refuse(request)
        original, flight = request, self._flights.leading_to(request)
        if flight is None:
            request = self._without_session(request)
        elif self._follow_ups.end_if_once_more(flight, request):
            return True
        fingerprint = self.identities.of(request)
        if self._dupefilter.drops(request, fingerprint, self._frontier):
            self._dupefilter.filtered(request)
            return False
        is_named = flight is None and is_seed(request)
        is_looked_up = flight is not None or is_named or FORCE in request.meta
        known = self._frontier.find(fingerprint) if is_looked_up else None
        if flight is not None and self._follow_ups.end_as_led(flight, request, known):
            return True
        page_id = self._seeds.forced(known, request, is_named, flight)
        if page_id is None and request.dont_filter and is_seed(request):
            page_id = self._seeds.comes_back(known, request)
        if page_id is None and is_seed(request) and self._dupefilter.is_on:
            page_id = self._seeds.retry_failed(known, request, is_named, flight)
        if page_id is None:
            page_id = self._queue_other(original, request, fingerprint, known, flight)
        if page_id is None:
            if is_named:
                self._seeds.note(known, request)
            return False
        if flight is not None:
            flight.leads_to(page_id if known is None else known)  # of a further visit the page
        return True

    def _queue_other(
        self,
        original: Request,
        request: Request,
        fingerprint: bytes,
        known: PageId | None,
        flight: Flight | None,
    ) -> PageId | None:
        """Hand over the link that *request* is, made of the *original*; the page that it is queued for."""
        if flight is not None and request.dont_filter and only_its_retry_insists(request, flight):
            request.dont_filter = False  # nor is it handed on to where that leads
        again = self._wanted.is_wanted(request, fingerprint, known, flight)
        host, kept_host = self.host_key(request, flight)
        payload, is_stored = self._requests.payload_of(request)
        if is_stored and flight is not None:
            payload = self._follow_ups.with_own(flight, request, payload)
        link = Link(
            fingerprint,
            request.url,
            host,
            request.priority,
            payload,
            depth=times(request, "depth") if self.has_depth else 0,
            text=self._text(original, request, fingerprint),
            again=again,
            kept_host=kept_host,
            is_named=flight is None and is_seed(request),
            parent=None if flight is None else flight.lease.node,
        )
        answer = self._discover(original, link)
        self._wanted.note(request, fingerprint, answer)
        return self._act_on(request, link, answer, is_stored)

    def _refuse(self, original: Request) -> bool:
        """Make the page of a request known without queueing it; always False."""
        request = self._without_session(original)
        fingerprint, (host, kept_host) = self.identities.of(request), self.host_key(request)
        about = fingerprint, request.url, host, request.priority
        text, why = self._text(original, request, fingerprint), str(request.meta.pop(ONLY_SEEN))
        self._discover(original, Link(*about, text=text, kept_host=kept_host, only_seen=why))
        return False

    def enqueue_listed(
        self, wanted: Iterable[Listed], parent: PageId | None, known: list[tuple[PageId, Link]] | None = None
    ) -> int:
        """`enqueue_links` of plain GETs with the spider's default callback, found on *parent*.

        No `Request` is made where the URL alone says who it is, and no signal is sent. 20 us a new page.
        """
        links, new = [], 0
        for url, meta, bucket in wanted:
            identity = self.identify(url)
            if identity is None or self._dupefilter.is_own:
                request = Request(url, meta=dict(meta))
                url = request.url
                identity = self.identities.fingerprint(request), host_of(url)
                if self._dupefilter.drops(request, identity[0], self._frontier):
                    self._dupefilter.filtered(request)
                    continue
            fingerprint, host = identity
            payload = meta_payload(meta) if meta else b""
            link = Link(fingerprint, url, host, 0, payload, parent=parent, bucket=bucket, is_placed=True)
            if fingerprint in self.unfiltered:
                link = link._replace(again=self.is_for_other(fingerprint, None, None))
            key = self.politeness_key_of(url, host)
            links.append(link if key == host else link._replace(host=key, kept_host=key))
            # A filter's file has a place for what was noted of one request: each goes by itself.
            if self._dupefilter.is_own and self.enqueue_links([links.pop()], None, known):
                self._dupefilter.took(request)
                new += 1
        return new + self.enqueue_links(links, None, known)

    def enqueue_links(
        self, links: list[Link], lease: Lease | None, known: list[tuple[PageId, Link]] | None = None
    ) -> int:
        """Take *links* in by one call; how many were new. *lease* is that of the page they are on. Those to
        pages that were there are added to *known*. Raises `FrontierUnwritable`."""
        new = 0
        for link, answer in zip(links, self._frontier.discover(links, self._clock(), lease), strict=True):
            if answer.kind:
                self._refusals.report(answer, link, link.url)
            elif answer.is_taken or self._brings_back(answer, link):
                new += 1
            elif not link.only_seen:
                self._tally["dupefilter/filtered"] += 1
                if known is not None and answer.page_id is not None:
                    known.append((answer.page_id, link))
        self._tally["scheduler/enqueued/disk"] += new
        return new

    def find(self, request: Request) -> PageId | None:
        """The page of *request*, if it is known; a lookup."""
        return self._frontier.find(self.identities.of(request))

    def identify(self, url: str) -> tuple[bytes, str] | None:
        """Fingerprint and host of a plain GET for *url*, as a request would have them; None where its text
        does not tell. 2 us."""
        return plain_identity(url) if self.identities.is_default else None

    def politeness_key_of(self, url: str, host: str) -> str:
        """The politeness key of *url*: by default its *host*."""
        return host if self._politeness_keys.of is host_of else self._politeness_keys.of(url)

    # -- from a request to a link ------------------------------------------------------------------------

    def _noted(self, request: Request) -> tuple[Lease | None, int, float]:
        """What was noted of *request* where it was yielded, once: the lease of the page with the link, its
        flags and weight."""
        noted = self._flights.by_link.pop(id(request), None)
        if noted is None:
            return _UNNOTED
        lease, yielded = noted
        _, flags, weight = yielded.pop(id(request))
        return lease, flags, weight

    def _discover(self, original: Request, link: Link) -> Discovered:
        """Hand *link* over with what was noted of the *original* request."""
        lease, flags, weight = self._noted(original)
        return self._discover_one(link._replace(flags=flags, weight=weight), self._clock(), lease)

    def _brings_back(self, answer: Discovered, link: Link) -> bool:
        """Whether *link* is the request of a page now whose own went with an earlier process."""
        if answer.page_id is None or not self._requests.is_missing(answer):
            return False
        return self._frontier.renew(answer.page_id, link.payload, is_lost=True)

    def _act_on(self, request: Request, link: Link, answer: Discovered, is_stored: bool) -> PageId | None:
        """Keep what the frontier does not; the page that *request* is queued for, or will be."""
        page_id = answer.page_id
        if answer.kind:
            self._refusals.report(answer, link, request)
        if answer.fate is Fate.REFUSED or page_id is None:
            return None
        if answer.fate is Fate.DEFERRED:
            if not is_stored:
                self._requests.keep_in_memory(page_id, request)
        elif answer.is_taken or self._requests.is_missing(answer):
            is_stored = is_stored and (answer.is_taken or self._brings_back(answer, link))
            self._requests.queued(page_id, request, is_stored)
            if is_stored:
                self._dupefilter.took(request)
        else:
            self._dupefilter.filtered(request)
            words = "Filtered a known page, %s (said once; see dupefilter/filtered)"
            self._reporter.log_once("filtered", logging.DEBUG, words, request)
            return None
        return page_id

    def _text(self, original: Request, request: Request, fingerprint: bytes) -> str:
        """By what the page shall be known again: the URL as it was met, where that alone says who it is."""
        is_told = self.knows_texts and self.identities.is_plain(request)
        return original.url if is_told and not self._wanted.hides(fingerprint, request.dont_filter) else ""

    def host_key(self, request: Request, flight: Flight | None = None) -> tuple[str, str]:
        """The download slot the user chose, else the politeness key of the URL, by default its host; an
        inherited slot is dropped. And the same where it is not the host."""
        url_host, meta, key = host_of(request.url), request.meta, None
        slot = chosen_slot(meta, None if flight is None else flight.request.meta)
        if slot is not None:
            key = urls.clean_host(str(slot)) or None
        elif AUTO_SLOT in meta or meta.get(SLOT) == "":
            meta.pop(SLOT, None)
        meta.pop(AUTO_SLOT, None)
        if key is None:
            key = self.politeness_key_of(request.url, url_host)
        return key, "" if key == url_host else key

    def without_session(self, url: str) -> str:
        """*url* without session identifiers, if they are to be taken out; itself else."""
        return without_session(url) if self._strips and ("=" in url or "(" in url) else url

    def _without_session(self, request: Request) -> Request:
        """*request* without the session identifiers in its URL, if it is an ordinary link."""
        clean, method = self.without_session(request.url), request.method
        if clean == request.url or method != "GET" or request.body or request.dont_filter or is_seed(request):
            return request
        self._tally["frontier/traps/session"] += 1
        return copied(request, clean)
