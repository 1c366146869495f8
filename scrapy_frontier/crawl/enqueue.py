"""Requests in: each becomes one link, and the frontier says what became of it.

Links that are not queued: counted by kind, and told.

Which requests are queued although their pages are known.

What Scrapy is asked for with ``dont_filter`` its dupe filter does not remember: the first link to such a page
is fetched once more. Here it is if that is for another callback, which would never see the page; a
`CrawlSpider` whose rule wants its start page is the common case. Another run knows nothing of it.

Requests that follow from others, redirects as a rule, and that nobody asks for.

It is told before they are on their way to the scheduler: the others can end in their errbacks then, and their
seeds are tried again by the next run.

Pages that are known and wanted again: seeds, and what a request forces; and how many seeds are not.

Which are is decided in `core.pages.entered_again`; here are their requests.
"""

from __future__ import annotations

import logging
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from scrapy import Request

from ..core.frontier import NEUTRAL, Event, Fate, Link, Outcome
from ..core.pages.entered_again import (
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
from ..core.parse import urls
from ..core.parse.urls import host_of, without_session
from ..core.store.records import NO_FACTS
from . import payloads, scrapy_internals
from .codec import copied, meta_payload
from .fingerprints import plain_identity
from .in_flight import is_answer, is_once_more, is_seed, not_followed, only_its_retry_insists, times
from .log import Reporter, refusal_stat
from .meta_keys import (
    AUTO_SLOT,
    EVERY_RUN,
    FORCE,
    ONLY_SEEN,
    PATTERN,
    POSTPONED,
    SLOT,
    START,
    UNSET,
    chosen_slot,
)
from .payloads import TOLD_BY_META, facts_of, facts_of_listed, is_forced, lastmod_of, other_payload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..core.frontier import Discovered, Frontier, Lease, PageId
    from ..core.store.records import Page, RequestFacts
    from ..settings import FrontierSettings
    from .codec import Callbacks
    from .dupefilters import DupeFilter
    from .fingerprints import Identities
    from .in_flight import Flight, Flights, FollowUps
    from .politeness_key import PolitenessKeys
    from .queued import QueuedRequests

_MOST_LOGGED = 100  # hosts whose traps are told one by one
_FROM_SEED = (
    "it comes from a seed; if it is to be fetched, set URLLENGTH_LIMIT, FRONTIER_PATH_DEPTH, "
    "FRONTIER_REPEATED_SEGMENTS or the budget higher, whichever it is over"
)
_WORDS = {
    "deferred": "Keeping %s for later: %s",
    "over_budget": "Counted but not kept: %s: %s, and enough is kept for later",
}


class Refusals:
    """Tells of each kind once for a host, of a hundred at most, and of every seed; counts all."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._logged: set[str] = set()

    def report(self, answer: Discovered, link: Link, what: Request | str) -> None:
        """*link*, made of *what*, was not queued, as *answer* says: count it, and log it where that is
        due."""
        self._reporter.tally[refusal_stat(answer.kind)] += 1
        words = _WORDS.get(answer.kind, "Refused %s, which looks like a trap (%s)")
        if answer.page_id is None and isinstance(what, Request) and is_seed(what):
            self._reporter.log(logging.WARNING, f"{words}; {_FROM_SEED}", what, answer.reason)
            return
        key = f"{answer.kind} {link.host}"
        if key not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(key)
            rest = f"said once for {link.host}; see the stats frontier/traps and frontier/deferred"
            self._reporter.log(logging.INFO, f"{words}; {rest}", what, answer.reason)


class Refusing(Protocol):
    """Says which links of one page are not followed: `find_refused` first, then the others."""

    def find_refused(self) -> Iterator[None]:
        """Look for them, once; yields whenever others should have a turn of the event loop."""

    @property
    def refuses_none(self) -> bool:
        """Whether `refusal` says nothing of any link."""

    def refusal(self, url: str) -> str:
        """Why a link to *url* is not followed, which is counted; empty where it is."""


MOST = 10_000  # pages that are remembered, 400 bytes each; of others the first link is to a known page


@dataclass(eq=False, repr=False)
class WantedAgain:
    """``unfiltered`` are the pages that in this run were asked for with ``dont_filter`` alone so far, by
    fingerprint: for which callbacks; None is for what is no method. No text of a URL tells them known."""

    _callbacks: Callbacks
    _dupefilter: DupeFilter
    _seeds: Seeds
    unfiltered: dict[bytes, set[Any]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._reached_by = self._callbacks.reached_by

    def is_wanted(
        self, request: Request, fingerprint: bytes, known: PageId | None, flight: Flight | None
    ) -> bool:
        """Whether *request*, to which *flight* led, is to be queued even if its page is *known*."""
        again = request.dont_filter or not self._dupefilter.is_on
        if fingerprint in self.unfiltered:
            if request.dont_filter:
                self.unfiltered[fingerprint].add(self._reached_by(request.callback, request.meta.get("rule")))
            else:
                again = self.is_for_other(fingerprint, request.callback, request.meta.get("rule")) or again
        if request.dont_filter and self._dupefilter.is_on and is_seed(request):
            again = self._seeds.is_wanted_again(request, known, flight)
        again = again or (request.meta.get(EVERY_RUN) not in UNSET and is_seed(request))
        return again or (flight is not None and is_answer(request, flight))

    def is_for_other(self, fingerprint: bytes, callback: Callable[..., Any] | None, rule: Any) -> bool:
        """Whether a link to an ``unfiltered`` page, the first one, is for none of the callbacks that get it
        anyway. From now on the page is known as others are."""
        reached, asked = self._reached_by(callback, rule), self.unfiltered.pop(fingerprint)
        return reached is None or reached not in asked

    def hides(self, fingerprint: bytes, is_unfiltered: bool) -> bool:
        """Whether a page must not be known by the text of its URL yet."""
        return fingerprint in self.unfiltered or (is_unfiltered and len(self.unfiltered) < MOST)

    def note(self, request: Request, fingerprint: bytes, answer: Discovered) -> None:
        """*request* was handed over, with that *answer*: remember one that is the first for its page."""
        if request.dont_filter and answer.fate is Fate.NEW and len(self.unfiltered) < MOST:
            self.unfiltered[fingerprint] = {self._reached_by(request.callback, request.meta.get("rule"))}


@dataclass(eq=False, repr=False)
class RefusedFollowUps:
    """Asked for each request that follows from another, once."""

    _frontier: Frontier
    _clock: Callable[[], float]
    _intake: Intake
    _follow_ups: FollowUps
    _refusals: Refusals

    def reason(self, flight: Flight, follow_up: Request) -> str:
        """Why *follow_up* is not asked for, so that *flight* ends with an error; empty where it is, or where
        its page is known. 20 us."""
        if is_once_more(follow_up, flight):
            return ""
        if self._intake.find(follow_up) == flight.lease.page_id:
            return self._follow_ups.end_for_nothing(flight, follow_up)
        reason = self._reason(follow_up, flight)
        if reason:  # it leads away all the same, as a page that comes back has to be told
            flight.outcome = Outcome(Event.REDIRECTED, flight.status, reason)
        return reason

    def reason_of_refresh(self, target: Request) -> str:
        """Why *target*, to which a page that is read leads by a refresh, would be refused as a link: for the
        record of that page. Empty where it would not be, or is known."""
        url = self._intake.without_session(target.url)
        return self._reason(target if url == target.url else copied(target, url), None)

    def _reason(self, target: Request, flight: Flight | None) -> str:
        """Why *target*, to which *flight* leads if there is one, would be refused; that is counted, and
        logged."""
        intake = self._intake
        host, _ = intake.host_key(copied(target), flight)  # its slot may be taken off
        depth = times(target, "depth") if intake.has_depth else 0
        link = Link(intake.identities.of(target), target.url, host, depth=depth)
        answer = self._frontier.refusal(link, self._clock())
        if answer is None:
            return ""
        self._refusals.report(answer, link, target)
        return not_followed(target.url, answer.why_refused)


# Pages that are remembered as visited, and as named, 100 bytes each; beyond that some are tried twice, or are
# charged the redirects that led there once.
VISITED = 100_000


class _Payloads(NamedTuple):
    """What a page is queued with: the payload of its request, what the frontier keeps of that, and the
    payload of its next visit, where that is another."""

    payload: bytes
    facts: RequestFacts
    visit_payload: bytes = b""


def _payloads_of_target(
    requests: QueuedRequests, follow_ups: FollowUps, flight: Flight, follow_up: Request, payload: bytes
) -> _Payloads:
    """The payloads of a page that *flight* led to by *follow_up*, which has this *payload*."""
    target = follow_ups.of_target(flight, follow_up)
    own, is_stored = requests.payload_of(target)
    if not is_stored:
        return _Payloads(payload, facts_of(follow_up))
    return _Payloads(own, facts_of(target), other_payload(payload, own))


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
                facts = facts_of(request)
                if is_stored and (payload, facts) != (page.payload, page.facts):
                    self._frontier.renew(known, payload, facts)

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
        is_forcing = request.meta.get(FORCE) not in UNSET
        is_outdone = page.facts.has_pattern and (is_forcing or not page.facts.is_added)
        has_pattern = request.meta.get(PATTERN) not in UNSET or is_outdone
        if is_named and takes_request(page, has_pattern):
            payload, is_stored = self._requests.payload_of(request)
            if is_stored and self._frontier.renew(known, payload, facts_of(request)):
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
        may_be_lost = is_named or page.facts.is_in_memory  # else it would lose its own request
        if not self._requeue(known, request, may_be_lost, before=None if is_named else page):
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
        return known if self._requeue(known, request, before=page) else None

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
        was_seed = page is not None and page.parent is None and page.facts.is_seed
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
        before: Page | None = None,
        flight: Flight | None = None,
    ) -> bool:
        """Queue a page again by *request*. After that it has the request it had *before*, or none but this;
        where a *flight* led there, without what came into it on the way."""
        payload, is_stored = self._requests.payload_of(request)
        found_by = None if is_stored else payloads.kept_fingerprint(payload)
        about = _Payloads(payload, facts_of(request, is_stored))
        if before is not None and is_stored and not before.facts.is_in_memory:
            about = _Payloads(before.payload, before.facts, other_payload(payload, before.payload))
        elif flight is not None and is_stored:
            about = _payloads_of_target(self._requests, self._follow_ups, flight, request, payload)
        is_possible, now = is_stored or may_be_lost, self._clock()
        if is_possible and self._frontier.requeue(
            known, now, about.payload, request.priority, found_by, about.facts, about.visit_payload
        ):
            self._requests.queued(known, request, is_stored)
            return True
        return False


def _way(request: Request) -> Sequence[str]:
    """The URLs whose redirects led to *request*."""
    way = request.meta.get("redirect_urls", ())
    return way if isinstance(way, list | tuple) else ()


_NEW = Fate.NEW
_UNNOTED = None, 0, 1.0
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
        url, method, body, again, meta = scrapy_internals.essentials(request)
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
        payload, is_stored = self._requests.payload_of(request)
        depth = times(request, "depth") if self.has_depth else 0
        facts, lastmod = NO_FACTS, None
        if not is_stored or not TOLD_BY_META.isdisjoint(request.meta):
            facts, lastmod = facts_of(request, is_stored), lastmod_of(request.meta)
        link = Link(
            fingerprint,
            clean,
            host,
            request.priority,
            payload,
            flags,
            weight,
            depth,
            url,
            facts=facts,
            lastmod=lastmod,
        )
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
        about = _Payloads(payload, facts_of(request, is_stored))
        if is_stored and flight is not None:
            about = _payloads_of_target(self._requests, self._follow_ups, flight, request, payload)
        link = Link(
            fingerprint,
            request.url,
            host,
            request.priority,
            about.payload,
            depth=times(request, "depth") if self.has_depth else 0,
            text=self._text(original, request, fingerprint),
            again=again,
            kept_host=kept_host,
            is_named=flight is None and is_seed(request),
            parent=None if flight is None else flight.lease.node,
            facts=about.facts,
            lastmod=lastmod_of(request.meta),
            visit_payload=about.visit_payload,
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
            link = Link(
                fingerprint,
                url,
                host,
                payload=payload,
                parent=parent,
                bucket=bucket,
                is_placed=True,
                facts=facts_of_listed(meta),
                lastmod=lastmod_of(meta),
            )
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
        return self._frontier.renew(answer.page_id, link.payload, link.facts, is_lost=True)

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
