"""Where a request comes from, and what one that follows from another says of that other's page."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import IgnoreRequest
from scrapy.http import Headers
from w3lib.http import basic_auth_header

from ...core import reasons
from ...core.frontier import Event, Outcome, PageId
from ...core.parse.urls import ajax_form
from ..meta_keys import AUTO_SLOT, MOVED, NOT_BEFORE, POSTPONED, POSTPONED_FOR, REDIRECTED_BY, SLOT, START
from ..requests.callback_names import Unreadable
from ..requests.fingerprints import is_same_page
from ..requests.payload_edits import insists, own_of, with_own
from ..requests.request_classes import copied

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from ..requests.queued import QueuedRequests
    from ..stats import Reporter
    from .in_flight import Flight

# What Scrapy's own middlewares put into a request, and ours, besides the default headers.
_CONDITIONAL = "If-Modified-Since", "If-None-Match"
_HEADERS = "Accept-Encoding", "Cookie", "Proxy-Authorization", "User-Agent", *_CONDITIONAL
_KEYS = "proxy", "_auth_proxy", "_scheme_proxy", "download_timeout", "download_latency", SLOT, AUTO_SLOT


def is_seed(request: Request) -> bool:
    """Whether *request* comes from ``start()``, or by redirects from there.

    What a callback makes of a seed inherits its meta, but has a depth.
    """
    return START in request.meta and "depth" not in request.meta


def is_answer(follow_up: Request, flight: Flight) -> bool:
    """Whether *follow_up* fetches what a form was answered with: its page may be known, the answer is not.

    A login leads to the page one came from, as a rule, which shows another face then.
    """
    return (
        flight.request.method not in ("GET", "HEAD")
        and follow_up.method == "GET"
        and is_redirect(follow_up, flight)
    )


def is_redirect(follow_up: Request, flight: Flight) -> bool:
    """Whether *follow_up* is where the response sends to, and no request that a middleware made itself."""
    return times(follow_up, "redirect_times") > times(flight.request, "redirect_times")


def only_its_retry_insists(follow_up: Request, flight: Flight) -> bool:
    """Whether *follow_up*, to which a redirect of *flight* led, would be fetched whatever is known
    (``dont_filter``) because the page was retried or handed back, and not because it asks for that itself."""
    is_sent_so = flight.request.dont_filter and is_redirect(follow_up, flight)
    return is_sent_so and not insists(flight.lease.page.payload)


def is_once_more(follow_up: Request, flight: Flight) -> bool:
    """Whether *follow_up* is for the page of *flight* again: a retry, or one that was postponed. A retry of
    another page is none, a mirror say: it led there."""
    if POSTPONED in follow_up.meta:
        return True
    is_retried = times(follow_up, "retry_times") > times(flight.request, "retry_times")
    return is_retried and is_same_page(follow_up.url, flight.request.url)


def times(request: Request, counter: str) -> int:
    """The *counter* in the meta of a request; 0 where there is none, or no number."""
    value = request.meta.get(counter, 0)
    return value if isinstance(value, int) else 0


def postpone(request: Request, reason: str, seconds: float = 0.0, host: str = "") -> Request:
    """*request*, to go back to its place in the queue without a visit; not handed out again before so many
    *seconds*, and from the queue of *host* if that is another."""
    back = copied(request)
    back.dont_filter = True
    back.meta.update({POSTPONED: reason, POSTPONED_FOR: seconds, MOVED: host})
    return back


def postponed(flight: Flight | None, request: Request, reason: str, seconds: float = 0.0) -> Request | None:
    """*request* to `postpone`; None where it must end now: nobody waits for its page any longer, or it has no
    *flight*, and nobody would queue it again."""
    return None if flight is None or flight.lease.is_last else postpone(request, reason, seconds)


def outcome_of_postponed(flight: Flight, follow_up: Request) -> Outcome:
    """The page goes back where it was (`postpone`): nothing was fetched, so nothing counts. What `postpone`
    put into the meta of *follow_up* is taken out."""
    meta = follow_up.meta
    reason, host = str(meta.pop(POSTPONED)), str(meta.pop(MOVED, ""))
    delay = float(meta.pop(POSTPONED_FOR, 0.0))
    return Outcome(Event.POSTPONED, flight.status, reason, delay=delay, host=host)


def redirected(follow_up: Request, target: PageId | None, status: int = 0) -> Outcome:
    """The page led to *follow_up*, answered with *status*; *target* is the page of that, None while nobody
    knows it."""
    reason = reasons.LED(url=follow_up.url[: reasons.LONGEST_URL])
    return Outcome(Event.REDIRECTED, status, reason, target=target)


def not_followed(url: str, why: str) -> str:
    """Why a page leads nowhere, for its record: *url* is refused, since *why*."""
    return reasons.NOT_FOLLOWED(why=why, url=url[: reasons.LONGEST_URL])


def may_answer_otherwise(crawler: Crawler, request: Request, follow_up: Request) -> bool:
    """Whether *follow_up*, which asks for the page of *request* again, may get another answer.

    It has other cookies, the site asked to come back later, or the spider insists (``dont_filter``).
    """
    if follow_up.dont_filter or NOT_BEFORE in follow_up.meta:
        return True
    from scrapy.downloadermiddlewares.cookies import CookiesMiddleware  # 40 ms: it brings an HTTP client

    cookies = crawler.get_downloader_middleware(CookiesMiddleware)
    if cookies is None or request.meta.get("dont_merge_cookies"):
        return False
    then = request.headers.getlist("Cookie")
    now = copied(follow_up)
    now.headers.pop("Cookie", None)
    cookies.jars[follow_up.meta.get("cookiejar")].add_cookie_header(now)
    return now.headers.getlist("Cookie") != then


def use_up_retries(request: Request, retry_times: int) -> None:
    """Have Scrapy's retry middleware take *request* for the last one of its page, so that the next trouble
    reaches the errback."""
    most = request.meta.get("max_retry_times")
    made = request.meta.get("retry_times", 0)
    request.meta["retry_times"] = max(made, retry_times if most is None else most)


def without_additions(
    follow_up: Request, source: Request, sent: Request, names: frozenset[Any] | None = None
) -> Request:
    """*follow_up*, made of a request as it was *sent*, without what came into that since it was as its
    *source*: of all that was handed on it has what that said; of these *names* alone, if there are any."""
    made = copied(follow_up)
    _take_back(made.headers, sent.headers, source.headers, names)
    _take_back(made.meta, sent.meta, source.meta, names)
    return made


def _take_back(
    now: dict[Any, Any], sent: dict[Any, Any], source: dict[Any, Any], names: frozenset[Any] | None
) -> None:
    for name in list(now) if names is None else [name for name in now if name in names]:
        if name in sent and _is_same(dict.get(now, name), dict.get(sent, name)):  # not of the step to here
            if name in source:  # a proxy with its password, which Scrapy takes out
                dict.__setitem__(now, name, dict.get(source, name))
            else:
                dict.pop(now, name)


def _is_same(one: Any, other: Any) -> bool:
    """Whether *one* is *other*, or equal to it. What cannot be compared is not: two arrays, say."""
    try:
        return one is other or bool(one == other)
    except Exception:  # code of others, which may do anything
        return False


@dataclass(eq=False, repr=False)
class FollowUps:
    """Ends flights by the requests that follow from them: retries, requests postponed, redirects. *have_fail*
    ends a request with an error, *backoff* gives seconds after so many attempts."""

    _crawler: Crawler
    _have_fail: Callable[[Request, Exception], None]
    _backoff: Callable[[int], float]
    _requests: QueuedRequests
    _reporter: Reporter

    @cached_property
    def _of_scrapy(self) -> frozenset[bytes | str]:
        default = self._crawler.settings.getdict("DEFAULT_REQUEST_HEADERS")
        headers = Headers(dict.fromkeys(_HEADERS, "") | default)
        return frozenset((*headers, *_KEYS))

    def _put_in(self, request: Request) -> frozenset[bytes | str]:
        """Names of what Scrapy's own middlewares put into *request* on its way out. A service may have got
        its key by the same header as a site its password."""
        spider, meta, get = self._crawler.spider, request.meta, self._crawler.settings.get
        known = (
            (getattr(spider, "http_user", ""), getattr(spider, "http_pass", "")),
            (get("HTTPAUTH_USER"), get("HTTPAUTH_PASS")),
            (meta.get("http_user"), meta.get("http_pass")),
        )
        is_basic = request.headers.get("Authorization") in {
            basic_auth_header(user or "", password or "") for user, password in known if user or password
        }
        return self._of_scrapy | {b"Authorization"} if is_basic else self._of_scrapy

    def end_if_once_more(self, flight: Flight, follow_up: Request) -> bool:
        """End *flight* if *follow_up* is for its page again, a retry or one that was postponed; whether it
        is."""
        lease = flight.lease
        if not is_once_more(follow_up, flight):
            return False
        if POSTPONED in follow_up.meta:
            flight.outcome = outcome_of_postponed(flight, follow_up)
            if lease.page_id in self._requests.in_memory:
                self._requests.keep_in_memory(lease.page_id, follow_up)
            return True
        status, delay = flight.status, self._backoff(lease.page.attempts + 1)
        reason = reasons.STATUS(status=status) if status else reasons.RETRIED()
        payload, priority = self._replace(flight, follow_up), follow_up.priority
        outcome = Outcome(Event.RETRIED, status, reason, payload=payload, priority=priority, delay=delay)
        flight.outcome = outcome
        if lease.is_last_attempt:
            self._give_up(flight, follow_up, reason)
        else:
            self._reporter.tally["frontier/retries"] += 1
        return True

    def _give_up(self, flight: Flight, follow_up: Request, reason: str) -> None:
        """Have *follow_up* fail, for which nobody will ask: a callback knows of no `use_up_retries`."""
        reason = reasons.ATTEMPTS_USED_UP(reason=reason, attempts=flight.lease.page.attempts + 1)
        words = "Gave up %s: %s; see FRONTIER_MAX_ATTEMPTS (said once)"
        self._reporter.log_once("attempts_used_up", logging.WARNING, words, follow_up, reason)
        self._have_fail(follow_up, IgnoreRequest(reason))

    def _replace(self, flight: Flight, follow_up: Request) -> bytes | None:
        """The payload of *follow_up*, which takes the place of the request of the page until it ends; None
        where there is none."""
        payload = self._requests.replace(flight.lease.page_id, follow_up)
        return None if payload is None else with_own(payload, flight.lease.page.payload)

    def with_own(self, flight: Flight, follow_up: Request, payload: bytes) -> bytes:
        """The *payload* of *follow_up*, to which the page of *flight* led, with the one that its page has
        when it has ended, to come back or be queued again by: without the redirects that led there this time,
        and without what middlewares put into the request before it, on its way out. Where one of them made
        *follow_up*, only what Scrapy's own put in: of the rest that one may need each time a key that it gave
        its service, or a mark that it need not do so again."""
        source = self._as_yielded(flight)
        if source is None:
            return payload
        is_led = is_redirect(follow_up, flight) or is_same_page(follow_up.url, ajax_form(flight.request.url))
        names = None if is_led else self._put_in(flight.request)
        target = without_additions(follow_up, source, flight.request, names)
        for name in REDIRECTED_BY:
            target.meta.pop(name, None)
        own, is_stored = self._requests.payload_of(target)
        return with_own(payload, own) if is_stored else payload

    def as_link(self, flight: Flight, target: Request) -> Request:
        """*target*, where the page of *flight* refreshes to or its canonical page, as a link from there would
        be: with what the request for the page was yielded with, and without what middlewares put into it on
        its way out. Only a slot of theirs is taken out where no more is known of that request than that this
        process has it."""
        source = self._as_yielded(flight)
        if source is not None:
            return without_additions(target, source, flight.request)
        if AUTO_SLOT in target.meta:  # the spider chose none
            target.meta.pop(SLOT, None)
        return target

    def _as_yielded(self, flight: Flight) -> Request | None:
        """The request of the page of *flight*, before its tries; None where it cannot be read."""
        page = flight.lease.page
        try:
            return self._requests.codec.decode(page.url, page.priority, own_of(page.payload))
        except Unreadable:
            return None

    def end_for_nothing(self, flight: Flight, follow_up: Request) -> str:
        """End *flight* as failed, if *follow_up*, which asks for its page again, would get the same answer:
        the reason. Empty where it may get another one."""
        if may_answer_otherwise(self._crawler, flight.request, follow_up):
            return ""
        reason = reasons.TO_ITSELF_FOR_NOTHING()
        flight.outcome = Outcome(Event.FAILED, reason=reason)
        return reason

    def end_as_led(self, flight: Flight, follow_up: Request, known: PageId | None) -> bool:
        """End *flight* as one that led to *follow_up*, whose page may be *known*; whether that asks for the
        same page once more."""
        page_id = flight.lease.page_id
        if known is None or known != page_id:
            flight.outcome = redirected(follow_up, known, flight.status)
            return False
        payload = self._replace(flight, follow_up)
        if follow_up.dont_filter and not is_redirect(follow_up, flight):
            # As often as it likes, as with Scrapy: it knows what it waits for, and perhaps nobody was asked.
            # What it waits for may be of the same host: that must come first.
            reason = reasons.HANDED_BACK()
            flight.outcome = Outcome(Event.POSTPONED, reason=reason, payload=payload, is_behind=True)
            return True
        flight.outcome = Outcome(Event.RETRIED, reason=reasons.TO_ITSELF(), payload=payload)
        if flight.lease.is_last_attempt:
            self._give_up(flight, follow_up, reasons.TO_ITSELF())
        return True
