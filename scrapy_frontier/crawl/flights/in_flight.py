"""Requests on their way: what is seen of each between hand-out and release, and the verdict.

What the engine makes of them is reported here by `engine_watch`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.http import Response
from scrapy.spidermiddlewares.httperror import HttpError

from ...core import reasons
from ...core.pages.leases import Outcome, new_outcome
from ...core.parse.directives import NO_CONSEQUENCES
from ...core.parse.headers import TOO_BUSY
from ...core.parse.urls import host_of, origin_text
from ...core.parse.validators import kept
from ...core.revisits.visits import Fetched, new_fetched
from ...core.store.link_rows import INTERNAL
from ...core.transitions import FETCHED, Event, event_at
from ..hosts.response_troubles import CACHED
from ..meta_keys import DUPLICATE, LATENCY
from ..requests.pattern_and_force import is_forced
from ..responses.digests import digest_of, of_content

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.frontier import PageId
    from ...core.pages.leases import Lease
    from ...core.parse.directives import Consequences
    from ..responses.follow_rules import Way
    from ..robots.sites import Decision

REASON = "frontier_reason"  # attribute of an IgnoreRequest: what to keep instead of its text
NOTHING = b"", b""
CONDITIONAL = b"If-None-Match", b"If-Modified-Since"  # headers that hold validators, in their order
_NO_KIND = (b"",)
_LONGEST_REASON = 200  # characters
# Flags of a response whose body broke off. One without a length whose connection was closed ("partial") may
# be whole, and as a rule is.
_BROKEN = frozenset(("dataloss", "download_stopped"))


class Consumed(IgnoreRequest):
    """Raised by a middleware of ours that took the response for the frontier: the page ends with *outcome*.

    No callback sees the response, and Scrapy logs no error for an `IgnoreRequest`.
    """

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


@dataclass(slots=True, eq=False, repr=False)
class Flight:
    """A request on its way, from hand-out to release, and what was seen of it so far.

    What was seen is read by `outcome_of` when it has ended. ``links`` are those of its page; ``robots`` is
    what robots.txt said when it was handed out, ``callback`` is what the request had then (the shell takes
    its own back as soon as it is called); ``is_sending``: its host waits to hear that it went out;
    ``was_given``: it, or meanwhile one beside the pages, came to a download handler; ``is_cached``: a
    response to it came from Scrapy's HTTP cache, whatever middlewares made of that.
    ``fetched`` is what the response was, ``consequences`` are those of its directives, and its links are
    followed on the ``ways``. For pages that come back: the ``digest`` of its body or text, that of the
    ``content`` by the callback, and the validators it was ``asked_with``.
    """

    request: Request
    lease: Lease
    is_sending: bool = False
    robots: Decision | None = None
    callback: Any = None
    was_given: bool = False
    is_cached: bool = False
    status: int = 0
    is_fetched: bool = False
    error: BaseException | None = None
    spider_error: BaseException | None = None
    follow_up: Request | None = None
    outcome: Outcome | None = None
    notes: tuple[str, ...] = ()
    led_to: Request | None = None
    links: PageLinks | None = None
    fetched: Fetched | None = None
    consequences: Consequences = NO_CONSEQUENCES
    ways: tuple[Way, ...] = ()
    digest: bytes = b""
    content: bytes = b""
    asked_with: tuple[bytes, bytes] = NOTHING
    errback: Any = None  # taken off the request, which may be the user's own object
    payload: bytes | None = None  # of its page from now on; None: as it was
    is_let_through: bool = False  # the spider middlewares before ours let its response pass, to the callback

    @property
    def is_given_up(self) -> bool:
        """Whether its page is not asked for, because its site was given up: a proxy may know better."""
        return self.lease.given_up is not None and not self.request.meta.get("proxy")

    @property
    def has_landed(self) -> bool:
        """Whether the downloader and its middlewares are done with it."""
        return self.is_fetched or self.error is not None or self.follow_up is not None

    @property
    def is_forced(self) -> bool:
        """Whether its page is asked for unconditionally, and its callback called: the request wants that."""
        return is_forced(self.request.meta, self.lease.page)

    def came_to(self, result: Any) -> float | None:
        """The downloader and its middlewares came to *result*: a response, a request, or a failure.

        Seconds the host took to answer; None where it did not, or only that it wants to be left alone.
        """
        if isinstance(result, Response):
            self.status = result.status
            self.is_fetched = True
            self.fetched = fetched_of(result)
        elif isinstance(result, Request):
            self.follow_up = result
        else:
            self.error = getattr(result, "value", result)
        if not self.status or self.status in TOO_BUSY:
            return None
        latency = self.request.meta.get(LATENCY)
        return latency if isinstance(latency, float) else None

    def raises(self, error: BaseException) -> None:
        """Its callback, or its errback, raised *error*."""
        self.spider_error = error

    def takes_validators_off(self, request: Request) -> None:
        """Take our validators off *request*: what follows from it has none, nor has its payload."""
        for name, value in zip(CONDITIONAL, self.asked_with, strict=True):
            if value:
                request.headers.pop(name, None)

    def gather_links(self, url: str) -> PageLinks:
        """What the links of its page, found at *url*, gather on: its callback is about to run."""
        if self.links is None:
            found = self.consequences
            self.links = PageLinks(url, found.canonical, found.is_nofollow)
        return self.links

    def takes_content(self, content: Any) -> None:
        """The callback says what the content of the page is, or a part of it: told alike, and in the same
        order, it has the same digest. None says nothing."""
        if content is not None:
            self.content = digest_of(self.content + of_content(content))

    def ends_silently(self, outcome: Outcome) -> Consumed:
        """What to raise for the page to end with *outcome*, unheard by callback and errback."""
        self.falls_silent()
        return Consumed(outcome)

    def falls_silent(self) -> None:
        """No errback hears how it ends: that is taken off the request until it has ended."""
        self.errback, self.request.errback = self.request.errback or self.errback, None

    def leads_to(self, target: PageId) -> None:
        """The request that follows from it is queued as the page *target*, which its outcome names from now
        on."""
        if self.outcome is not None:
            self.outcome = self.outcome._replace(target=target)

    def note(self, words: str, led_to: Request | None = None) -> None:
        """Have the record of the page, if it is fetched, say *words* too, and name its better self."""
        self.notes += (words,)
        self.led_to = led_to or self.led_to

    def obeys(self, consequences: Consequences) -> None:
        """The page is read, its directives come to *consequences*; its record says so."""
        self.consequences = consequences
        self.notes += consequences.notes_of_items + consequences.notes_of_links
        if consequences.alias_of is not None:
            self.led_to = Request(consequences.alias_of)


# Of a request that a callback yielded: the lease of its page, and `PageLinks.yielded`, which has the rest.
LinkFrom = tuple["Lease | None", "dict[int, tuple[Request, int, float]]"]


class Flights(dict[int, Flight]):
    """The requests under way, each by the ``id`` of its request, which the flight keeps alive.

    There is none for a request that is downloaded beside the scheduler (``engine.download``: robots.txt,
    media, inline requests), or that has ended. A link is put into ``by_link`` by whoever takes it down, and
    taken out by whoever queues it: a call would cost 0.1 us more.
    """

    def __init__(self) -> None:
        super().__init__()
        self.by_follow_up: dict[int, Flight] = {}  # by id of a request that follows and is not queued yet
        self.by_link: dict[int, LinkFrom] = {}  # by id of a request that a callback yielded

    def response_downloaded(self, response: Response, request: Request) -> None:
        """Receives Scrapy's signal: a retry hides the status from everything that comes later."""
        flight = self.get(id(request))
        if flight is not None:
            flight.status = response.status

    def await_follow_up(self, flight: Flight) -> None:
        """A request follows from that of *flight*, and is on its way to the scheduler."""
        self.by_follow_up[id(flight.follow_up)] = flight

    def await_no_more(self, flight: Flight) -> None:
        """*flight* has ended: what follows from it, and links of its page, will not come any more."""
        self.by_follow_up.pop(id(flight.follow_up), None)
        for link in () if flight.links is None else flight.links.yielded:
            self.by_link.pop(link, None)

    def leading_to(self, request: Request) -> Flight | None:
        """The flight that *request* follows from, a redirect or retry by a middleware or by a callback; None
        for any other. What a middleware made is told once."""
        if not self.by_follow_up and not request.dont_filter:
            return None
        flight = self.by_follow_up.pop(id(request), None)
        if flight is None and request.dont_filter and request.meta.get("retry_times"):
            return next((each for each in self.values() if is_retry(request, each.request)), None)
        return flight


def is_retry(request: Request, of: Request) -> bool:
    """Whether *request*, which a callback yields, is one by `get_retry_request`: the same, tried once more.
    Other requests of a page that was retried have as many ``retry_times`` as that."""
    made, before = request.meta.get("retry_times"), of.meta.get("retry_times", 0)
    is_same = request.url == of.url and request.method == of.method and request.body == of.body
    return is_same and isinstance(made, int) and isinstance(before, int) and made > before


def fetched_of(response: Response) -> Fetched | None:
    """What the record of a page keeps of *response*; None where it shows no page. About 5 us."""
    flags, headers = response.flags, response.headers
    if not 200 <= response.status < 300 or CACHED in flags:
        return None
    kind = dict.get(headers, b"Content-Type") or _NO_KIND  # as `Headers` keeps it: making it so takes 1 us
    tags, dates = dict.get(headers, b"Etag", ()), dict.get(headers, b"Last-Modified", ())
    etag, date = kept(tags, dates) if tags or dates else NOTHING
    is_whole = _BROKEN.isdisjoint(flags)
    return new_fetched((etag, date, b"", _content_type(kind[-1]), len(response.body), is_whole, False))


@lru_cache(maxsize=256)
def _content_type(value: bytes) -> str:
    return value.partition(b";")[0].strip().lower().decode("latin-1")


def outcome_of(
    flight: Flight, is_closing: bool = False, find: Callable[[Request], PageId | None] | None = None
) -> Outcome:
    """What becomes of the page.

    A request that a middleware put in its place (redirect, retry) decides first, then what the network or a
    middleware raised, then the callback, then the status. What is cancelled while the crawl *is_closing*
    counts for nothing. *find* knows the pages of requests.
    """
    outcome = flight.outcome or _seen_of(flight, is_closing)
    if flight.led_to is not None and outcome.target is None and find is not None:
        return outcome._replace(target=find(flight.led_to))
    return outcome


def _seen_of(flight: Flight, is_closing: bool) -> Outcome:
    if flight.follow_up is not None:
        return Outcome(Event.REDIRECTED, reason=reasons.LED_TO_DROPPED())
    if flight.error is not None:
        return _after_error(flight.error, flight.status, is_closing)
    if flight.spider_error is not None and not isinstance(flight.spider_error, CloseSpider):
        return Outcome(Event.FAILED, flight.status, reasons.CALLBACK(error=describe(flight.spider_error)))
    if not flight.is_fetched:
        return Outcome(Event.FAILED, flight.status, reasons.NO_RESPONSE())
    if flight.status >= 400:
        return ended_with(flight.status)
    notes, other, found = flight.notes, flight.request.meta.get(DUPLICATE), flight.links
    if other is not None:
        notes = (*notes, reasons.SAME(url=other)[:_LONGEST_REASON])
    reason = reasons.BETWEEN.join(notes)
    has_links, score = found is not None, None if found is None else found.content_score
    status, payload, fetched = flight.status, flight.payload, flight.fetched
    return new_outcome(
        (FETCHED, status, reason, None, payload, None, 0.0, "", has_links, 0, score, None, fetched, False)
    )


def _after_error(error: BaseException, status: int, is_closing: bool) -> Outcome:
    if isinstance(error, Consumed):
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
    """The page ends with this HTTP *status*, 400 or more: gone with 404 and 410, else failed."""
    return Outcome(event_at(status), status, reasons.STATUS(status=status))


def failed_with(error: BaseException) -> Outcome:
    """The page ends as failed, because of *error*."""
    return Outcome(Event.FAILED, reason=describe(error))


def describe(error: BaseException) -> str:
    """Class and message of *error* in one line, 200 characters at most."""
    words = error.reason if isinstance(error, CloseSpider) else error  # whose own text is empty
    text = " ".join(str(words).split())
    return f"{type(error).__name__}: {text}"[:_LONGEST_REASON] if text else type(error).__name__


class PageLinks:
    """The links of one page whose callback runs and whose pages are not known yet.

    ``yielded`` are requests by their id with flags and weight, ``anchors`` URLs with flags, each once. The
    links of a page that ``is_nofollow`` carry no weight. Whoever takes one down adds it and counts it here:
    a call would cost 0.1 us more.
    """

    def __init__(self, url: str, canonical: str | None = None, is_nofollow: bool = False) -> None:
        self.canonical = canonical
        self.is_nofollow = is_nofollow
        self.host = host_of(url)
        self.origin = origin_text(url) + "/"
        self.yielded: dict[int, tuple[Request, int, float]] = {}
        self.anchors: dict[tuple[str, int], None] = {}
        self.content_score: float | None = None
        self.count = 0

    def flags(self, url: str) -> int:
        """The flags of a link to *url*: `INTERNAL` where it has the host of the page, else 0."""
        return INTERNAL if url.startswith(self.origin) or host_of(url) == self.host else 0
