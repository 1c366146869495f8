"""Leaves hosts in trouble alone: after a 429, a 503, or a connection that failed.

It stands before Scrapy's retry, redirect and meta refresh middlewares, reports trouble to the frontier, and
postpones the page: that keeps its attempts and comes again when its host has rested. A page that has to count
the attempt goes its usual way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core import reasons
from ..core.parse.urls import origin_of
from ..crawl import scrapy_internals
from ..crawl.assembly import Component, Crawl
from ..crawl.host_trouble import CACHED, error_of, forget_frames, record_cooldown, trouble_in, trouble_of
from ..crawl.in_flight import postpone, postponed
from ..crawl.scrapy_internals import SideRequest

if TYPE_CHECKING:
    from scrapy.http import Request, Response

    from ..core.hosts.host import Trouble


class CooldownMiddleware(Component):
    """Stands at 605, below Redirect (600) and Retry (550): responses and errors pass here first.

    Requests for robots.txt pass: their sender reports what they met.
    """

    def is_wanted(self) -> bool:
        """Returns false if ``FRONTIER_COOLDOWN`` is 0, and for Scrapy's commands that try a page out."""
        return self.settings.cooldown > 0 and not scrapy_internals.is_inspecting(self.crawler)

    def process_request(self, request: Request) -> Request | None:
        """Postpones a page that was handed out before its host began to rest. Raises the error of a page that
        is given up."""
        crawl, active = self.crawl, self.active_requests.get(request)
        if crawl is None or active is None:
            return None
        lease = active.lease
        if lease.given_up is not None and active.is_given_up:
            raise error_of(lease.given_up, request)
        if not crawl.frontier.is_cooling(lease.host, lease.leased_at):
            return None
        if not crawl.frontier.is_cooling(lease.host, crawl.clock()):
            return None
        back = postpone(active, request, reasons.RESTS(host=lease.host))
        self.crawler.stats.inc_value("frontier/cooldown/postponed")
        return back

    def process_response(self, request: Request, response: Response) -> Request | Response:
        """Lets the host of a *response* that is trouble rest, and postpones the page; returns *response* if
        the page has to count the attempt, or the spider wants the response."""
        if CACHED in response.flags:
            active = self.active_requests.get(request)
            if active is not None:
                active.is_cached = True
            return response
        crawl = self.crawl
        if response.status < 400 or crawl is None or isinstance(request, SideRequest):
            return response
        trouble = trouble_in(response, crawl.clock())
        if trouble is None:
            return response
        back = self._rest(crawl, request, trouble)
        if back is None or request.meta.get("dont_retry"):
            return response
        if scrapy_internals.http_error_of(self.crawler, response, request) is None:
            return response
        self.crawler.stats.inc_value("frontier/cooldown/postponed")
        return back

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        """The same for a connection that failed; returns None if that says nothing of the host."""
        crawl, active = self.crawl, self.active_requests.get(request)
        lease = active.lease if active is not None else None
        if crawl is None or (lease is not None and lease.given_up is not None):
            return None
        is_aside = request.meta.get("proxy") or isinstance(request, SideRequest)
        trouble = None if is_aside else trouble_of(exception)
        if trouble is None:
            return None
        back = self._rest(crawl, request, trouble._replace(is_silent=True, failure=exception))
        if back is None or request.meta.get("dont_retry"):
            return None
        forget_frames(exception)
        self.crawler.stats.inc_value("frontier/cooldown/postponed")
        return back

    def _rest(self, crawl: Crawl, request: Request, trouble: Trouble) -> Request | None:
        """Lets the host rest. Returns the request, postponed, or None if it goes its usual way, as do the
        requests of callbacks and pipelines."""
        active = self.active_requests.get(request)
        lease = active.lease if active is not None else None
        if lease is not None:
            trouble = trouble._replace(sent=lease.leased_at, page_id=lease.page_id)
        trouble = trouble._replace(origin=origin_of(request.url) or "")
        host = lease.host if lease is not None else crawl.politeness_keys.of(request.url)
        with self.left_to_scheduler():
            if record_cooldown(self.crawler, crawl.frontier, host, trouble, crawl.clock()).keeps_attempts:
                return postponed(active, request, reasons.RESTS_AFTER(host=host, trouble=trouble.reason))
        return None
