"""Hosts in trouble are left alone: 429, 503, and connections that fail.

Sees responses and errors before Scrapy's retry, redirect and meta refresh middlewares do, tells the frontier,
and postpones the page: it keeps its attempts and comes again when its host has rested. Where the frontier
says that the page must count an attempt, everything goes on as without this middleware.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..core import reasons
from ..core.hosts.host import Trouble
from ..core.parse.urls import origin_of
from ..core.store.records import LONGEST_ASKED
from ..crawl import scrapy_internals
from ..crawl.assembly import Component, Crawl
from ..crawl.clock import MEANWHILE
from ..crawl.host_trouble import (
    CACHED,
    OWN_PAUSE,
    OwnFault,
    error_of,
    forget_frames,
    own_fault,
    record_cooldown,
    trouble_in,
    trouble_of,
)
from ..crawl.in_flight import postpone, postponed
from ..crawl.meta_keys import NOT_BEFORE
from ..crawl.scrapy_internals import SideRequest

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response


class CooldownMiddleware(Component):
    """Below Redirect (600) and Retry (550): what comes from the network passes here first.

    Requests for robots.txt are left alone: whoever sent them tells the frontier what they met.
    """

    def is_wanted(self) -> bool:
        """Unless ``FRONTIER_COOLDOWN`` is 0, or one of Scrapy's commands tries a page out: somebody waits."""
        return self.settings.cooldown > 0 and not scrapy_internals.is_inspecting(self.crawler)

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._wants_all = crawler.settings.getbool("HTTPERROR_ALLOW_ALL")
        self._wanted = {int(code) for code in crawler.settings.getlist("HTTPERROR_ALLOWED_CODES")}

    def process_request(self, request: Request) -> Request | None:
        """Postpone what was handed out before its host began to rest: it may have waited for robots.txt. And
        what a redirect led to, until the redirect's Retry-After has passed.

        A page that the frontier gave up ends here, as if it had met the trouble itself.
        """
        crawl, flight = self.crawl, self.flights.get(id(request))
        if crawl is None or flight is None:
            return None
        lease = flight.lease
        if lease.given_up is not None and flight.is_given_up:
            raise error_of(lease.given_up, request)
        when = request.meta.get(NOT_BEFORE)
        if when is None and not crawl.frontier.is_cooling(lease.host, lease.leased_at):
            return None
        now = crawl.clock()
        if isinstance(when, (int, float)) and when > now:
            back = postpone(flight, request, reasons.TO_WAIT(), min(when - now, LONGEST_ASKED))
        elif crawl.frontier.is_cooling(lease.host, now):
            back = postpone(flight, request, reasons.RESTS(host=lease.host))
        else:
            return None
        self.crawler.stats.inc_value("frontier/cooldown/postponed")
        return back

    def process_response(self, request: Request, response: Response) -> Request | Response:
        """Have the host of a *response* that is trouble rest, and postpone the page; *response* itself where
        the page must count an attempt, or the spider wants it."""
        if CACHED in response.flags:
            flight = self.flights.get(id(request))
            if flight is not None:
                flight.is_cached = True
            return response
        crawl = self.crawl
        if response.status < 400 or crawl is None or isinstance(request, SideRequest):
            return response
        trouble = trouble_in(response, crawl.clock())
        if trouble is None:
            return response
        back = self._cool(crawl, request, trouble)
        if back is None or request.meta.get("dont_retry") or self._wants(request, response.status):
            return response
        self.crawler.stats.inc_value("frontier/cooldown/postponed")
        return back

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        """As `process_response`, for a connection that failed; None where that says nothing of the host."""
        crawl, flight = self.crawl, self.flights.get(id(request))
        lease = flight.lease if flight is not None else None
        if crawl is None or (lease is not None and lease.given_up is not None):
            return None
        is_aside = request.meta.get("proxy") or isinstance(request, SideRequest)
        trouble = None if is_aside else trouble_of(exception)
        if (fault := own_fault(exception)) is not None:
            back = self._await(crawl, request, fault, exception)
        elif trouble is None:
            return None
        elif crawl.suspend_detector.overlapped_suspend(None if lease is None else lease.leased_at):
            back = postponed(flight, request, reasons.NOT_SENT(cause=MEANWHILE))
        else:
            back = self._cool(crawl, request, trouble._replace(is_silent=True, failure=exception))
        if back is None or request.meta.get("dont_retry"):
            return None
        forget_frames(exception)
        self.crawler.stats.inc_value("frontier/cooldown/postponed")
        return back

    def _await(self, crawl: Crawl, request: Request, fault: OwnFault, error: Exception) -> Request | None:
        """Have no host rest for what is this machine's *fault*: it is asked again in a while, in the next run
        at once. The request postponed, or None where it must take its usual way."""
        words = "This machine cannot send requests (%s): %s; the pages wait meanwhile (said once)"
        crawl.reporter.log_once("machine", logging.ERROR, words, fault.cause, fault.remedy)
        flight, meta = self.flights.get(id(request)), request.meta
        # One with an address of its own would meet that for ever.
        if flight is None or "bindaddress" in meta or meta.get("dont_retry"):
            return None
        trouble = Trouble(reasons.NOT_SENT(cause=fault.cause), failure=error)
        back = postponed(flight, request, trouble.reason)
        if back is not None:
            now = crawl.clock()
            crawl.frontier.hold(flight.lease.host, now, now + OWN_PAUSE, trouble)
        return back

    def _wants(self, request: Request, status: int) -> bool:
        """Whether the spider asked to see such responses, in any of the ways Scrapy has for it."""
        if self._wants_all or request.meta.get("handle_httpstatus_all"):
            return True
        by_spider = getattr(self.crawler.spider, "handle_httpstatus_list", self._wanted)
        return status in request.meta.get("handle_httpstatus_list", by_spider)

    def _cool(self, crawl: Crawl, request: Request, trouble: Trouble) -> Request | None:
        """Have the host rest; the request postponed, or None where it must take its usual way.

        A request that the frontier did not hand out (a pipeline's, say) cannot be postponed.
        """
        flight = self.flights.get(id(request))
        lease = flight.lease if flight is not None else None
        if lease is not None:
            trouble = trouble._replace(sent=lease.leased_at, page_id=lease.page_id)
        trouble = trouble._replace(origin=origin_of(request.url) or "")
        host = lease.host if lease is not None else crawl.politeness_keys.of(request.url)
        with self.left_to_scheduler():
            if record_cooldown(self.crawler, crawl.frontier, host, trouble, crawl.clock()).keeps_attempts:
                return postponed(flight, request, reasons.RESTS_AFTER(host=host, trouble=trouble.reason))
        return None
