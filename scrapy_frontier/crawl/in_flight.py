"""Follows each request from hand-out to release, and tells the frontier the outcome of its page.

`engine_watch` reports here what Scrapy's engine does with a request. `FollowUps` decides what becomes of the
requests that come in its place: retries, targets of redirects, postponed requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.http import Response
from scrapy.spidermiddlewares.httperror import HttpError

from ..core import reasons
from ..core.pages.leases import Outcome
from ..core.pages.queue import backoff
from ..core.parse.directives import NO_CONSEQUENCES
from ..core.parse.headers import TOO_BUSY, kept
from ..core.parse.urls import ajax_form, host_of, origin_text
from ..core.revisits.policy import Fetched
from ..core.store.link_rows import INTERNAL
from ..core.transitions import FETCHED, Event, event_at
from . import scrapy_internals
from .codec import copied, has_headers, visit_payload
from .fingerprints import is_same_page
from .host_trouble import CACHED, REASON
from .left_out import left_out_of
from .meta_keys import LATENCY, REDIRECTED_BY, START
from .meta_values import is_forced

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from ..core.frontier import PageId
    from ..core.pages.leases import Lease, Link
    from ..core.parse.directives import Consequences
    from ..core.store.records import RequestFacts
    from .link_extractor import FollowRule
    from .queued import QueuedRequests
    from .robots import Decision

NOTHING = b"", b""
CONDITIONAL = b"If-None-Match", b"If-Modified-Since"  # headers that hold validators, in their order
_NO_KIND = (b"",)
_LONGEST_REASON = 200  # characters
# Flags of a response whose body broke off. One without a length whose connection was closed ("partial") may
# be whole, and as a rule is.
_BROKEN = frozenset(("dataloss", "download_stopped"))


class HandledResponse(IgnoreRequest):
    """Raised by a middleware of ours that took the response for the frontier: the page ends with *outcome*.

    No callback sees the response, and Scrapy logs no error for an `IgnoreRequest`.
    """

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


@dataclass(slots=True, eq=False, repr=False)
class ActiveRequest:
    """A request under way, from hand-out to release, and what was seen of it so far, for `outcome_of`.

    - ``robots``: what robots.txt said at hand-out; ``callback``: that of the request then (the shell takes it
      back as soon as it is called).
    - ``has_own_slot``: its ``download_slot`` is the choice of the user.
    - ``is_sending``: its host waits to hear that it went out. ``was_given``: it, or meanwhile a side request,
      reached a download handler. ``is_cached``: Scrapy's HTTP cache answered.
    - ``fetched``, ``consequences``, ``links``: of its response, of the directives in it, and of its page;
      ``follow_rule``: that by which the links are followed.
    - ``digest``, ``asked_with``: of the body, and the validators that were sent, if pages come back.
    - ``errback``: removed from the request, which may be the user's own object.
    - ``page_request``: payload and facts of its page from now on.
    """

    request: Request
    lease: Lease
    is_sending: bool = False
    robots: Decision | None = None
    callback: Any = None
    has_own_slot: bool = False
    postponed: Request | None = None
    postponed_outcome: Outcome | None = None
    was_given: bool = False
    is_cached: bool = False
    status: int = 0
    is_fetched: bool = False
    error: BaseException | None = None
    spider_error: BaseException | None = None
    follow_up: Request | None = None
    outcome: Outcome | None = None
    notes: tuple[str, ...] = ()
    links: PageLinks | None = None
    fetched: Fetched | None = None
    consequences: Consequences = NO_CONSEQUENCES
    follow_rule: FollowRule | None = None
    digest: bytes = b""
    asked_with: tuple[bytes, bytes] = NOTHING
    errback: Any = None
    page_request: tuple[bytes, RequestFacts] | None = None

    @property
    def is_given_up(self) -> bool:
        """Whether its page is not requested because its site was given up; by a proxy it is."""
        return self.lease.given_up is not None and not self.request.meta.get("proxy")

    @property
    def is_forced(self) -> bool:
        """Whether the request wants its page unconditionally, and its callback called."""
        return is_forced(self.request.meta, self.lease.page)

    def came_to(self, result: Any) -> bool:
        """Notes the *result* of the downloader and its middlewares: a response, a request, or a failure.

        Returns whether the host has answered, and did not ask to be left alone.
        """
        if isinstance(result, Response):
            self.status = result.status
            self.is_fetched = True
            self.fetched = fetched_of(result)
        elif isinstance(result, Request):
            self.follow_up = result
        else:
            self.error = getattr(result, "value", result)
        return bool(self.status) and self.status not in TOO_BUSY and LATENCY in self.request.meta

    def takes_validators_off(self, request: Request) -> None:
        """Removes our validators from *request*, so that no follow-up and no payload has them."""
        for name, value in zip(CONDITIONAL, self.asked_with, strict=True):
            if value:
                request.headers.pop(name, None)

    def gather_links(self, url: str) -> PageLinks:
        """Returns the collector of the links of its page, found at *url*."""
        if self.links is None:
            self.links = PageLinks(url, self.consequences.is_nofollow, self.lease)
        return self.links

    def take_follow_rule(self) -> FollowRule | None:
        """Returns the rule by which the links of its page are followed, once."""
        rule, self.follow_rule = self.follow_rule, None
        return rule

    def ends_silently(self, outcome: Outcome) -> HandledResponse:
        """Returns what to raise for the page to end with *outcome*, without callback and errback."""
        self.falls_silent()
        return HandledResponse(outcome)

    def falls_silent(self) -> None:
        """Removes the errback from the request until it has ended."""
        self.errback, self.request.errback = self.request.errback or self.errback, None

    def leads_to(self, target: PageId) -> None:
        """Sets the page *target*, as which its follow-up is queued, in its outcome."""
        if self.outcome is not None:
            self.outcome = self.outcome._replace(target=target)

    def obeys(self, consequences: Consequences) -> None:
        """Notes the *consequences* of the directives of the page, also for its record."""
        self.consequences = consequences
        self.notes += consequences.notes_of_items + consequences.notes_of_links


class ActiveRequests(dict[Request, ActiveRequest]):
    """The requests under way, by the request.

    There is none for a request that is downloaded beside the scheduler (``engine.download``: robots.txt,
    media, inline requests), or that has ended.
    """

    def __init__(self) -> None:
        super().__init__()
        # By a request that follows and is not queued yet.
        self.by_follow_up: dict[Request, ActiveRequest] = {}
        self.links_with: dict[Request, PageLinks] = {}  # by a request that a callback yielded

    def of(self, response: Response) -> ActiveRequest | None:
        """Returns the active request that *response* answers."""
        return None if response.request is None else self.get(response.request)

    def response_downloaded(self, response: Response, request: Request) -> None:
        """Notes the status, at Scrapy's signal: a retry hides it from everything that comes later."""
        active = self.get(request)
        if active is not None:
            active.status = response.status

    def await_follow_up(self, active: ActiveRequest) -> None:
        """Notes that a follow-up of *active* is on its way to the scheduler."""
        assert active.follow_up is not None
        self.by_follow_up[active.follow_up] = active

    def await_no_more(self, active: ActiveRequest) -> None:
        """Forgets the follow-up and the links of *active*, which has ended."""
        if active.follow_up is not None:
            self.by_follow_up.pop(active.follow_up, None)
        for request in () if active.links is None else active.links.yielded:
            self.links_with.pop(request, None)

    def note_link(self, request: Request, link: Link, found: PageLinks) -> None:
        """Notes that a callback yielded *request* as the *link*, one of those *found* on its page."""
        found.yielded[request] = link
        self.links_with[request] = found

    def take_link(self, request: Request) -> tuple[Lease | None, Link] | None:
        """Removes and returns what was noted of *request*: the lease of its page, and the link."""
        found = self.links_with.pop(request, None) if self.links_with else None
        return None if found is None else (found.lease, found.yielded.pop(request))

    def leading_to(self, request: Request) -> ActiveRequest | None:
        """Returns the active request that *request* follows from, as a redirect or retry by a middleware or
        callback; None for others. What a middleware made is found once."""
        if not self.by_follow_up and not request.dont_filter:
            return None
        active = self.by_follow_up.pop(request, None)
        if active is None and request.dont_filter and request.meta.get("retry_times"):
            return next((each for each in self.values() if is_retry(request, each.request)), None)
        return active


def is_retry(request: Request, of: Request) -> bool:
    """Whether *request*, from a callback, is a retry of *of* by `get_retry_request`. Other requests of a page
    that was retried have as many ``retry_times`` as that."""
    is_same = request.url == of.url and request.method == of.method and request.body == of.body
    return is_same and times(request, "retry_times") > times(of, "retry_times")


def fetched_of(response: Response) -> Fetched | None:
    """Returns what the record of a page keeps of *response*; None if it shows no page. About 5 us."""
    flags, headers = response.flags, response.headers
    if not 200 <= response.status < 300 or CACHED in flags:
        return None
    kind = dict.get(headers, b"Content-Type") or _NO_KIND  # as `Headers` keeps it: making it so takes 1 us
    tags, dates = dict.get(headers, b"Etag", ()), dict.get(headers, b"Last-Modified", ())
    etag, date = kept(tags, dates) if (tags or dates) and is_whole(response) else NOTHING
    return Fetched(etag, date, b"", _content_type(kind[-1]), len(response.body))


def is_whole(response: Response) -> bool:
    """Whether the body of *response* did not break off."""
    return _BROKEN.isdisjoint(response.flags)


@lru_cache(maxsize=256)
def _content_type(value: bytes) -> str:
    return value.partition(b";")[0].strip().lower()[:255].decode("latin-1")


def outcome_of(active: ActiveRequest, is_closing: bool = False) -> Outcome:
    """Returns what becomes of the page.

    A request that a middleware put in its place (redirect, retry) decides first, then what the network or a
    middleware raised, then the callback, then the status. What is cancelled while the crawl *is_closing*
    counts for nothing.
    """
    if active.outcome is not None:
        return active.outcome
    if active.follow_up is not None:
        return Outcome(Event.REDIRECTED, reason=reasons.LED_TO_DROPPED())
    if active.error is not None:
        return _after_error(active.error, active.status, is_closing)
    if active.spider_error is not None and not isinstance(active.spider_error, CloseSpider):
        return Outcome(Event.FAILED, active.status, reasons.CALLBACK(error=describe(active.spider_error)))
    if not active.is_fetched:
        return Outcome(Event.FAILED, active.status, reasons.NO_RESPONSE())
    if active.status >= 400:
        return ended_with(active.status)
    found = active.links
    return Outcome(
        FETCHED,
        active.status,
        reasons.BETWEEN.join(active.notes),
        has_links=found is not None,
        content_score=None if found is None else found.content_score,
        fetched=active.fetched,
        request=active.page_request,
    )


def _after_error(error: BaseException, status: int, is_closing: bool) -> Outcome:
    if isinstance(error, HandledResponse):
        return error.outcome
    if isinstance(error, HttpError):  # of a host that was given up
        status = error.response.status
        return Outcome(Event.FAILED, status, reasons.STATUS(status=status))
    if isinstance(error, IgnoreRequest):
        reason = getattr(error, REASON, "") or str(error) or type(error).__name__
        longest = _LONGEST_REASON + reasons.LONGEST_URL  # one that is cut is not read back
        return Outcome(Event.EXCLUDED, status, reason[:longest])
    if type(error).__name__ == "CancelledError" and is_closing:
        return Outcome(Event.POSTPONED, reason=reasons.CANCELLED())
    return failed_with(error)


def ended_with(status: int) -> Outcome:
    """Returns the end of a page with an HTTP *status* of 400 or more: gone by 404 and 410, else failed."""
    return Outcome(event_at(status), status, reasons.STATUS(status=status))


def failed_with(error: BaseException) -> Outcome:
    """Returns the end of a page that failed with *error*."""
    return Outcome(Event.FAILED, reason=describe(error))


def describe(error: BaseException) -> str:
    """Returns class and message of *error* in one line of at most 200 characters."""
    words = error.reason if isinstance(error, CloseSpider) else error  # whose own text is empty
    text = " ".join(str(words).split())
    return f"{type(error).__name__}: {text}"[:_LONGEST_REASON] if text else type(error).__name__


class PageLinks:
    """The links of one page whose callback runs and whose pages are not known yet.

    ``yielded`` are links by their requests, ``anchors`` URLs with flags, each once. The links of a page that
    ``is_nofollow`` carry no weight.
    """

    def __init__(self, url: str, is_nofollow: bool = False, lease: Lease | None = None) -> None:
        self.lease = lease
        self.is_nofollow = is_nofollow
        self.host = host_of(url)
        self.origin = origin_text(url) + "/"
        self.yielded: dict[Request, Link] = {}
        self.anchors: dict[tuple[str, int], None] = {}
        self.kinds: dict[str, int] = {}  # of links that are followed by a request each, by URL
        self.content_score: float | None = None
        self.texts: dict[str, str] | None = None  # of anchors, by URL; None: not read
        self.count = 0

    def flags(self, url: str) -> int:
        """Returns the flags of a link to *url*: `INTERNAL` if it has the host of the page, else 0."""
        return INTERNAL if url.startswith(self.origin) or host_of(url) == self.host else 0


def is_seed(request: Request) -> bool:
    """Whether *request* comes from ``start()``, or by redirects from there. What a callback makes of a seed
    inherits its meta, but has a depth."""
    return START in request.meta and "depth" not in request.meta


def is_redirect(follow_up: Request, active: ActiveRequest) -> bool:
    """Whether *follow_up* is the target of a redirect, and not a request that a middleware made itself."""
    return times(follow_up, "redirect_times") > times(active.request, "redirect_times")


def only_its_retry_insists(follow_up: Request, active: ActiveRequest) -> bool:
    """Whether *follow_up*, to which a redirect of *active* led, has ``dont_filter`` only because the page was
    retried or handed back."""
    is_sent_so = active.request.dont_filter and is_redirect(follow_up, active)
    return is_sent_so and not active.lease.page.facts.insists


def is_once_more(follow_up: Request, active: ActiveRequest) -> bool:
    """Whether *follow_up* is for the page of *active* again: retried or postponed. A retry of another page, a
    mirror say, is a page that it led to."""
    if active.postponed is follow_up:
        return True
    is_retried = times(follow_up, "retry_times") > times(active.request, "retry_times")
    return is_retried and is_same_page(follow_up.url, active.request.url)


def times(request: Request, counter: str) -> int:
    """Returns the *counter* in the meta of a request; 0 if it has none, or no number."""
    value = request.meta.get(counter, 0)
    return value if isinstance(value, int) else 0


def forget_redirects(request: Request) -> None:
    """Removes from the meta of *request* what Scrapy notes of the redirects that led to it."""
    if "redirect_urls" in request.meta:
        for name in REDIRECTED_BY:
            request.meta.pop(name, None)


def postpone(
    active: ActiveRequest, request: Request, reason: str, seconds: float = 0.0, host: str = ""
) -> Request:
    """Returns a copy of *request*, that of *active*, which a middleware hands to the engine so that the page
    goes back to its place in the queue without a visit: not handed out again before so many *seconds*, and in
    the queue of *host* if that is another."""
    back = copied(request)
    back.dont_filter = True
    active.postponed = back
    active.postponed_outcome = Outcome(Event.POSTPONED, active.status, reason, delay=seconds, host=host)
    return back


def postponed(
    active: ActiveRequest | None, request: Request, reason: str, seconds: float = 0.0
) -> Request | None:
    """Returns *request*, postponed; None if it must end now: the crawl no longer waits for its page, or it
    is not *active*, as what a pipeline downloads."""
    return None if active is None or active.lease.is_last else postpone(active, request, reason, seconds)


def redirected(follow_up: Request, target: PageId | None, status: int = 0) -> Outcome:
    """Returns the end of a page that led to *follow_up* with *status*; *target* is the page of that, if
    known."""
    reason = reasons.LED(url=follow_up.url[: reasons.LONGEST_URL])
    return Outcome(Event.REDIRECTED, status, reason, target=target)


def not_followed(url: str, why: str) -> str:
    """Returns why a page leads nowhere, for its record: *url* is refused, because of *why*."""
    return reasons.NOT_FOLLOWED(why=why, url=url[: reasons.LONGEST_URL])


def use_up_retries(request: Request, retry_times: int) -> None:
    """Makes Scrapy's retry middleware take *request* for the last try of its page, so that the next error
    reaches the errback."""
    most = request.meta.get("max_retry_times")
    made = request.meta.get("retry_times", 0)
    request.meta["retry_times"] = max(made, retry_times if most is None else most)


@dataclass(eq=False, repr=False)
class FollowUps:
    """Ends *active_requests* by those that follow from them: retries, requests postponed, redirects."""

    _crawler: Crawler
    active_requests: ActiveRequests
    _requests: QueuedRequests

    def end_if_once_more(self, active: ActiveRequest, follow_up: Request) -> bool:
        """Ends *active* if *follow_up* is for its page again, and returns whether it is."""
        lease = active.lease
        if not is_once_more(follow_up, active):
            return False
        if active.postponed is follow_up:
            active.outcome = active.postponed_outcome
            if lease.public_id in self._requests.in_memory:
                self._requests.keep_in_memory(lease.public_id, follow_up)
            return True
        status, delay = active.status, backoff(lease.page.attempts + 1)
        reason = reasons.STATUS(status=status) if status else reasons.RETRIED()
        payload, priority = self._replace(active, follow_up), follow_up.priority
        outcome = Outcome(
            Event.RETRIED, status, reason, visit_payload=payload, priority=priority, delay=delay
        )
        active.outcome = outcome
        if lease.is_last_attempt:
            self._give_up(active, follow_up, reason)
        else:
            self._requests.reporter.tally["frontier/retries"] += 1
        return True

    def _give_up(self, active: ActiveRequest, follow_up: Request, reason: str) -> None:
        """Makes *follow_up* fail: its page has used up its attempts."""
        reason = reasons.ATTEMPTS_USED_UP(reason=reason, attempts=active.lease.page.attempts + 1)
        left_out_of(self._crawler).add("frontier/left_out/attempts_used_up", follow_up, reason)
        scrapy_internals.have_fail(self._crawler, follow_up, IgnoreRequest(reason))

    def _replace(self, active: ActiveRequest, follow_up: Request) -> bytes | None:
        """Returns the payload of *follow_up*, by which the page is requested until its visit ends."""
        payload = self._requests.replace(active.lease.public_id, follow_up)
        return None if payload is None else visit_payload(payload, active.lease.page.payload)

    def payload_of_target(self, active: ActiveRequest, follow_up: Request, payload: bytes) -> bytes:
        """Returns the payload by which the page of *follow_up* comes back, to which that of *active* led.

        After a redirect that is the one of the page that redirected, without what middlewares put into the
        request on its way out. It is *payload*, that of *follow_up*, if a redirect changed the method, or
        took off headers that may not go there, and for what a middleware made otherwise: it may need what
        that put in each time, a key for its service, say.
        """
        own, sent = active.lease.page.payload, active.request
        is_led = is_redirect(follow_up, active) or is_same_page(follow_up.url, ajax_form(sent.url))
        keeps_headers = sent.headers.keys() <= follow_up.headers.keys() or not has_headers(own)
        is_alike = follow_up.method == sent.method and not active.lease.page.is_in_memory
        return own if is_led and keeps_headers and is_alike else payload

    def end_as_led(self, active: ActiveRequest, follow_up: Request, known: PageId | None) -> bool:
        """Ends *active* as one that led to *follow_up*, whose page may be *known*; returns whether that is
        its own page."""
        page_id = active.lease.public_id
        if known is None or known != page_id:
            active.outcome = redirected(follow_up, known, active.status)
            return False
        payload = self._replace(active, follow_up)
        if follow_up.dont_filter and not is_redirect(follow_up, active):
            # As often as a middleware likes, as with Scrapy. What it waits for may be of the same host, and
            # must come first.
            reason = reasons.HANDED_BACK()
            active.outcome = Outcome(
                Event.POSTPONED, reason=reason, visit_payload=payload, is_handed_back=True
            )
            return True
        active.outcome = Outcome(Event.RETRIED, reason=reasons.TO_ITSELF(), visit_payload=payload)
        if active.lease.is_last_attempt:
            self._give_up(active, follow_up, reasons.TO_ITSELF())
        return True
