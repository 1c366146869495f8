"""Turns each request that comes in into a link, offers it to the frontier, and acts on the answer.

Decides too which known pages are fetched once more: seeds that failed in an earlier run, pages that a request
forces (``frontier_force``), and pages first requested with ``dont_filter`` to which a link leads that has
another callback.
"""

from __future__ import annotations

import logging
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import Request

from ..core.frontier import NEUTRAL, Link, LinkVerdict
from ..core.pages import seed_policy
from ..core.parse.directives import LOOP
from ..core.parse.urls import clean_host, host_of, without_session
from ..core.store.keys import FINISHED, QUEUED
from ..core.store.queue_keys import MAX_PRIORITY
from ..core.store.records import NO_FACTS, RequestFacts
from . import scrapy_internals
from .codec import copied, meta_payload, visit_payload
from .fingerprints import plain_identity
from .in_flight import forget_redirects, is_once_more, is_seed, not_followed, only_its_retry_insists
from .log import refusal_stat
from .meta_keys import EVERY_RUN, FORCE, PATTERN, SLOT, START, UNSET, VERBATIM
from .meta_values import facts_of, is_forced
from .politeness_key import PolitenessKeys
from .private_network import is_from_public, note_led, was_led_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..core.frontier import Discovered, Frontier, Lease, PageId
    from ..core.store.records import Page
    from ..settings import FrontierSettings
    from ..shared.letters import PostedLink
    from .dupefilters import DupeFilter
    from .in_flight import ActiveRequest, FollowUps
    from .queued import QueuedRequests

ELSEWHERE = -1  # the page of another shard, which has no id here yet
MOST_UNFILTERED = 10_000  # pages, 400 bytes each
_REFUSED = {
    "deferred": "%s, so it waits for room",
    "foreign": "%s",
    "over_budget": "%s, and enough is kept for later",
}
_KNOWN = "an earlier run knows its page, and pages are fetched once"
_FROM_SEED = (
    "it comes from a seed; if it is to be fetched, set URLLENGTH_LIMIT or the budget higher, "
    "or FRONTIER_TRAPS to False"
)


class Listed(NamedTuple):
    """A URL to fetch by a plain GET, with ``meta`` of plain data and its ``facts``; ``bucket`` is its place
    in the queue (see `sort_key`), ``lastmod`` when it changed last, by a sitemap (POSIX seconds)."""

    url: str
    meta: dict[str, Any] = {}
    facts: RequestFacts = NO_FACTS
    bucket: int = NEUTRAL
    lastmod: float | None = None


@dataclass(eq=False, repr=False)
class RequestEnqueuer:
    """Turns requests into links for *frontier*; keeps those requests that the frontier does not, by
    *requests*.

    Each is queued, counted or refused before its call returns. What is queued is on its way to the disk no
    later than the end of any page after it. ``seeds_left`` counts seeds that are known from an earlier run
    and not fetched again; ``first_left`` is the URL of one. ``unfiltered`` are the pages that were requested
    with ``dont_filter`` alone in this run, by fingerprint, each with the callbacks it was requested for
    (None: no method of the spider): the first link for another callback has the page fetched once more.
    """

    settings: InitVar[FrontierSettings]
    _frontier: Frontier
    _clock: Callable[[], float]
    _requests: QueuedRequests
    _dupefilter: DupeFilter
    _follow_ups: FollowUps
    seeds_left: int = field(default=0, init=False)
    first_left: str = field(default="", init=False)
    unfiltered: dict[bytes, set[Any]] = field(default_factory=dict, init=False)
    _tried: set[PageId] = field(default_factory=set, init=False)  # seeds of earlier runs, tried in this run

    def __post_init__(self, settings: FrontierSettings) -> None:
        self.identities, self._reporter = self._requests.identities, self._requests.reporter
        self._callbacks = self._requests.codec.callbacks
        self._active_requests = self._follow_ups.active_requests
        self.politeness_keys = PolitenessKeys(settings.politeness_key)
        self.recognize = self._frontier.recognize
        self._tally = self._reporter.tally
        self._strips_sessions, self._revisits = settings.strips_sessions, settings.comes_back
        # A limit of queued pages alone holds a page back for a while only.
        self._comes_in_this_run = not settings.host_pages
        # A crawl that goes on knows pages as Scrapy's own queue on disk would, and due pages come back.
        self._tells_known = not (self._frontier.pending or settings.comes_back)
        # Whether a known page may be recognized by the text of a URL, and its request need not be looked at.
        self.knows_texts = self.identities.is_default and not self._dupefilter.sees_each

    def enqueue(self, request: Request) -> bool:
        """Queues *request*, or ends the page that it follows from; False if its page is known or
        refused.

        Nine links in ten lead to known pages; most are recognized by the text of the URL, in a microsecond.
        """
        url, method, body, dont_filter, meta = scrapy_internals.essentials(request)
        active = self._active_requests.leading_to(request)
        noted = self._active_requests.take_link(request)  # if there is one, the text of its URL was not known
        is_by_text = noted is None and active is None and method == "GET" and not (body or dont_filter)
        if is_by_text and not (meta and (FORCE in meta or VERBATIM in meta)) and self.recognize(url):
            self._tally["dupefilter/filtered"] += 1
            return False
        source, link = noted or (None, Link(url=url))
        return self._enqueue(request, link, source, active)

    def see(self, request: Request, reason: str) -> None:
        """Makes the page of *request* known without queueing it, for this *reason*."""
        source, link = self._active_requests.take_link(request) or (None, Link(url=request.url))
        request = self.strip_session_of(request)
        self._identify(request, link)
        link.priority, link.only_seen = request.priority, reason
        self._frontier.discover_one(link, self._clock(), source)

    def enqueue_posted(self, posted: PostedLink) -> None:
        """Takes in a link that another shard of the crawl *posted*, as if the spider had yielded its request
        here. Raises `Unreadable`."""
        payload = posted.payload.encode("utf-8", "surrogatepass")
        request = self._requests.codec.decode(posted.url, posted.priority, payload)
        if posted.is_named:
            request.meta[START] = True
        if posted.from_public:
            note_led(request, from_public=True)
        link = Link(url=posted.url, lastmod=posted.lastmod, paid=posted.paid, anchor=posted.anchor)
        self._enqueue(request, link, None, None)

    def _enqueue(
        self, request: Request, link: Link, source: Lease | None, active: ActiveRequest | None
    ) -> bool:
        if active is None:
            if not was_led_to(request):  # a spider may have copied the chain with the meta of a page
                forget_redirects(request)
            request = self.strip_session_of(request)
        elif self._follow_ups.end_if_once_more(active, request):
            return True
        self._identify(request, link)
        link.is_named = active is None and is_seed(request)
        if self._is_dropped_by_filter(request, link.fingerprint):
            return False
        known = None
        if active is not None or link.is_named or FORCE in request.meta:
            known = self._frontier.find(link.fingerprint)
        if active is not None and self._follow_ups.end_as_led(active, request, known):
            return True
        page_id = known if self._requeues(known, request, link, active) else None
        if page_id is None:
            page_id = self._discover(request, link, source, known, active)
        if active is not None and page_id is not None:
            active.leads_to(page_id if known is None else known)
        return page_id is not None

    def _identify(self, request: Request, link: Link) -> None:
        """Fills in *link* which page and which host *request* is for."""
        link.fingerprint, url_host = self.identities.with_host(request)
        slot = request.meta.get(SLOT)  # if the user chose one
        chosen = clean_host(str(slot)) if slot else ""
        link.host = chosen or self.politeness_key_of(request.url, url_host)
        is_told = self.knows_texts and self.identities.is_plain(request)
        hides_text = request.dont_filter and len(self.unfiltered) < MOST_UNFILTERED
        link.text = link.url if is_told and not hides_text and link.fingerprint not in self.unfiltered else ""
        link.url = request.url

    def _is_dropped_by_filter(self, request: Request, fingerprint: bytes) -> bool:
        """Whether the filter of the project has seen *request*, of a page that the frontier would take."""
        if not self._dupefilter.seen(request):
            return False
        known = self._frontier.find(fingerprint)
        if known is not None and not seed_policy.is_left_to_filter(self._frontier.page(known)):
            return False
        self._tally["dupefilter/filtered"] += 1
        return True

    def _discover(
        self,
        request: Request,
        link: Link,
        source: Lease | None,
        known: PageId | None,
        active: ActiveRequest | None,
    ) -> PageId | None:
        """Completes *link* and hands it over; returns the page that *request* is queued for."""
        if active is not None:
            link.parent = active.lease.public_node
            if request.dont_filter and only_its_retry_insists(request, active):
                request.dont_filter = False
        link.again = self._is_wanted_again(request, link.fingerprint, known, active)
        is_stored = self._fill_in(link, request, active)
        answer = self._frontier.discover_one(link, self._clock(), source)
        if (
            request.dont_filter
            and answer.verdict is LinkVerdict.NEW
            and len(self.unfiltered) < MOST_UNFILTERED
        ):
            self.unfiltered[link.fingerprint] = {self._reached_by(request)}
        return self._act_on(request, link, answer, is_stored)

    def _fill_in(self, link: Link, request: Request, active: ActiveRequest | None) -> bool:
        """Fills in *link* what its row keeps of *request*; returns whether that survives a restart. The page
        that *active* led to comes back by the request as it would have been yielded."""
        payload, is_stored = self._requests.payload_of(request)
        link.priority, link.payload = request.priority, payload
        if abs(request.priority) > MAX_PRIORITY:
            words = "%s has priority %d; all beyond %d are served as equals: use smaller numbers (said once)"
            about = request, request.priority, MAX_PRIORITY
            self._reporter.log_once("priority", logging.WARNING, words, *about)
        link.facts = facts_of(request, is_stored)
        if active is not None and is_stored:
            link.payload = self._follow_ups.payload_of_target(active, request, payload)
            link.visit_payload = visit_payload(payload, link.payload)
        if is_from_public(request):
            link.facts = link.facts._replace(from_public=True)
        return is_stored

    def _act_on(self, request: Request, link: Link, answer: Discovered, is_stored: bool) -> PageId | None:
        """Keeps what the frontier does not; returns the page that *request* is queued for, or will be."""
        page_id = answer.page_id
        if answer.kind:
            self._report_refusal(answer, request)
        if answer.verdict is LinkVerdict.POSTED:
            self._tally["frontier/posted"] += 1
            return ELSEWHERE if page_id is None else page_id
        if answer.verdict is LinkVerdict.REFUSED or page_id is None:
            return None
        if answer.verdict is LinkVerdict.DEFERRED:
            if not is_stored:
                self._requests.keep_in_memory(page_id, request)
            return page_id
        if answer.is_taken or self._requests.is_missing(answer):
            is_stored = is_stored and (answer.is_taken or self._brings_back(answer, link))
            self._requests.queued(page_id, request, is_stored)
            return page_id
        if link.is_named:
            self._note_known_seed(page_id, request)
        else:
            self._note_known(page_id, request.url)
        self._tally["dupefilter/filtered"] += 1
        words = "Filtered a known page, %s (said once; see dupefilter/filtered)"
        self._reporter.log_once("filtered", logging.DEBUG, words, request)
        return None

    def _brings_back(self, answer: Discovered, link: Link) -> bool:
        """Whether *link* is the request of a page now whose own was in the memory of an earlier process."""
        if answer.page_id is None or not self._requests.is_missing(answer):
            return False
        return self._frontier.replace_request(answer.page_id, link, is_lost=True)

    # -- known pages that are fetched once more ----------------------------------------------------------

    def _requeues(
        self, known: PageId | None, request: Request, link: Link, active: ActiveRequest | None
    ) -> bool:
        """Whether the *known* page is queued again by *request*: its last visit was before the time that the
        request names, or it is a seed that failed in an earlier run."""
        page = None if known is None else self._frontier.page(known)
        if known is None or page is None:
            return False
        is_wanted = page.state in FINISHED and is_forced(request.meta, page)
        if not is_wanted and self._dupefilter.is_on and is_seed(request) and known not in self._tried:
            is_earlier = not self._frontier.is_of_this_run(known)
            if is_earlier and seed_policy.has_failed(page, self._frontier.page):
                self._tried.add(known)
                is_wanted = True
        if not is_wanted:
            return False
        is_stored = self._fill_in(link, request, active)
        if not self._frontier.requeue(known, self._clock(), link):
            return False
        self._requests.queued(known, request, is_stored)
        return True

    def seed_ended(self, page_id: PageId) -> None:
        """Notes that the page of a seed has ended, so that it is not tried again in this run."""
        if not self._frontier.is_of_this_run(page_id):
            self._tried.add(page_id)

    def _is_wanted_again(
        self, request: Request, fingerprint: bytes, known: PageId | None, active: ActiveRequest | None
    ) -> bool:
        """Whether a further visit is to be queued if the page is known."""
        asked_before = self.unfiltered.get(fingerprint)
        if asked_before is not None:
            if request.dont_filter:
                asked_before.add(self._reached_by(request))
            elif self.is_for_other(fingerprint, request.callback, request.meta.get("rule")):
                return True
        if not self._dupefilter.is_on:
            return True
        if not is_seed(request) or self._requests.is_inspecting:
            return request.dont_filter
        if request.meta.get(EVERY_RUN) not in UNSET:
            return True
        if not request.dont_filter or known is None:
            return False
        page = self._frontier.page(known)
        if page is None:
            return False
        # Seeds come at every start; one that comes twice in a run is meant, and so is what it redirects to.
        is_of_this_run = self._frontier.is_of_this_run(known)
        if active is None:
            return page.facts.is_seed and page.parent is None and is_of_this_run
        leads_again = page.parent == active.lease.node and not active.lease.comes_back
        return (leads_again and is_of_this_run) or self._leads_back(request, page)

    def _leads_back(self, request: Request, page: Page) -> bool:
        """Whether redirects led back to a page of their own way, or to one that leads there: a seed is sent
        away for a cookie, say. The limits of redirects end what would go on for ever."""
        way = request.meta.get("redirect_urls", ())
        if page.url in way:
            return True
        target = None if page.target is None else self._frontier.page(page.target)
        return target is not None and target.url in way

    def is_for_other(self, fingerprint: bytes, callback: Callable[..., Any] | None, rule: Any) -> bool:
        """Whether a link to an ``unfiltered`` page, the first one, is for a callback that the page was not
        requested for. From now on the page is known as others are."""
        reached, asked = self._callbacks.reached_by(callback, rule), self.unfiltered.pop(fingerprint)
        return reached is None or reached not in asked

    def _reached_by(self, request: Request) -> Any:
        return self._callbacks.reached_by(request.callback, request.meta.get("rule"))

    def _note_known_seed(self, known: PageId, request: Request) -> None:
        """A seed was not queued: counts it if its page ended in an earlier run and does not come back by
        itself. A page that comes back does so by this request from now on, and one that waits if it names a
        pattern."""
        page = self._frontier.page(known)
        if page is None or self._frontier.is_of_this_run(known):
            return
        if page.state is not QUEUED and not self._revisits:
            self._reporter.left_out.add("frontier/left_out/known", request.url, _KNOWN)
            self.seeds_left += 1
            self.first_left = self.first_left or request.url
        is_replaced = self._revisits
        if page.state is QUEUED:
            names_pattern = any(request.meta.get(key) not in UNSET for key in (PATTERN, FORCE))
            is_replaced = names_pattern or (page.facts.has_pattern and not page.facts.is_added)
        if is_replaced:
            payload, is_stored = self._requests.payload_of(request)
            facts = facts_of(request)
            if is_stored and (payload, facts) != (page.payload, page.facts):
                self._frontier.replace_request(known, Link(payload=payload, facts=facts))

    def _note_known(self, known: PageId, url: str) -> None:
        """A link to *url* was not queued: tells if an earlier run fetched its page. Other links to it in this
        run are recognized by their text, so a page counts about once."""
        if self._tells_known and not self._frontier.is_of_this_run(known):
            self._reporter.left_out.add("frontier/left_out/known", url, _KNOWN)

    # -- links in bulk -------------------------------------------------------------------------------------

    def enqueue_listed(
        self, wanted: Iterable[Listed], parent: PageId | None, known: list[tuple[PageId, Link]] | None = None
    ) -> int:
        """`enqueue_links` of plain GETs for the spider's default callback, found on the page *parent*.

        Makes no `Request` if the URL alone identifies the page, and sends no signal. 20 us a new page.
        """
        links = []
        for url, meta, facts, bucket, lastmod in wanted:
            identity = self.identify(url)
            if identity is None or self._dupefilter.is_own:
                request = Request(url, meta=dict(meta))
                url = request.url
                identity = self.identities.with_host(request)
                if self._is_dropped_by_filter(request, identity[0]):
                    continue
            fingerprint, host = identity
            is_again = fingerprint in self.unfiltered and self.is_for_other(fingerprint, None, None)
            links.append(
                Link(
                    fingerprint=fingerprint,
                    url=url,
                    host=self.politeness_key_of(url, host),
                    payload=meta_payload(meta),
                    facts=facts,
                    lastmod=None if lastmod is None else int(lastmod),
                    again=is_again,
                    parent=parent,
                    bucket=bucket,
                )
            )
        return self.enqueue_links(links, None, known)

    def enqueue_links(
        self, links: list[Link], lease: Lease | None, known: list[tuple[PageId, Link]] | None = None
    ) -> int:
        """Takes *links* in by one call and returns how many were new. *lease* is that of the page they are
        on. Adds those to pages that were there to *known*. Raises `FrontierUnwritable`."""
        new = 0
        for link, answer in zip(links, self._frontier.discover(links, self._clock(), lease), strict=True):
            if answer.kind:
                self._report_refusal(answer, link.url)
            elif answer.is_taken or self._brings_back(answer, link):
                new += 1
            elif not link.only_seen:
                self._tally["dupefilter/filtered"] += 1
                if answer.page_id is None:
                    continue
                if known is None:
                    self._note_known(answer.page_id, link.url)
                else:
                    known.append((answer.page_id, link))
        self._tally["scheduler/enqueued/disk"] += new
        return new

    # -- identity ------------------------------------------------------------------------------------------

    def find(self, request: Request) -> PageId | None:
        """Returns the page of *request* if it is known. A lookup."""
        return self._frontier.find(self.identities.of(request))

    def identify(self, url: str) -> tuple[bytes, str] | None:
        """Returns fingerprint and host of a plain GET for *url*; None if the text does not tell. 2 us."""
        return plain_identity(url) if self.identities.is_default else None

    def politeness_key_of(self, url: str, host: str) -> str:
        """Returns the politeness key of *url*: by default its *host*."""
        return host if self.politeness_keys.of is host_of else self.politeness_keys.of(url)

    def without_session(self, url: str) -> str:
        """Returns *url* without session identifiers, if they are to be taken out."""
        return without_session(url) if self._strips_sessions and ("=" in url or "(" in url) else url

    def strip_session(self, url: str) -> str:
        """Returns `without_session` of *url*; what is taken out is counted, and logged once."""
        clean = self.without_session(url)
        if clean != url:
            why = "its session identifier is taken out"
            self._reporter.left_out.add("frontier/traps/session", url, why)
        return clean

    def strip_session_of(self, request: Request) -> Request:
        """Returns *request* without session identifiers in its URL if it is an ordinary link."""
        if request.method != "GET" or request.body or request.dont_filter or is_seed(request):
            return request
        clean = self.strip_session(request.url)
        return request if clean == request.url else copied(request, clean)

    # -- refusals ------------------------------------------------------------------------------------------

    def refusal_of_follow_up(self, active: ActiveRequest, follow_up: Request) -> str:
        """Returns why *active* ends with an error instead of *follow_up*: it leads to the same page a third
        time; "" if it does not. 20 us."""
        if is_once_more(follow_up, active) or self.find(follow_up) != active.lease.public_id:
            return ""
        times_asked = follow_up.meta.get("redirect_urls", ()).count(follow_up.url)
        return not_followed(follow_up.url, LOOP.reason) if times_asked > 2 else ""

    def _report_refusal(self, answer: Discovered, what: Request | str) -> None:
        """Counts that the link made of *what* was not queued; tells the first of each kind, and every
        seed."""
        stat = refusal_stat(answer.kind)
        why = _REFUSED.get(answer.kind, "it looks like a trap (%s)") % answer.reason
        if answer.page_id is None and isinstance(what, Request) and is_seed(what):
            self._reporter.log(logging.WARNING, "Refused %s: %s; %s", what, why, _FROM_SEED)
            self._reporter.left_out.count(stat, 1)
        elif answer.kind == "deferred" and self._comes_in_this_run:
            self._tally[stat] += 1
        else:
            self._reporter.left_out.add(stat, what, why)
