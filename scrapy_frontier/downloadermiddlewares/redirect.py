"""Redirects and refreshes: Scrapy's own middlewares, with limits to where they may lead.

What Scrapy's settings (`REDIRECT_*`, `METAREFRESH_*`) and its meta keys say holds as ever. The target of a
redirect waits in the frontier for the turn of its own host, under its own robots.txt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares import redirect
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Request, Response

from ..core import reasons
from ..core.frontier import Event, Outcome
from ..core.parse.headers import REDIRECTS, Led
from ..core.parse.redirect_chains import NO_HTTP, TOO_LONG, ChainRefusal
from ..core.parse.urls import absolute
from ..core.reasons import LONGEST_URL
from ..crawl.flights.redirect_links_and_retries import redirected
from ..crawl.hosts.response_troubles import pause_in
from ..crawl.meta_keys import NOT_BEFORE, ONLY_SEEN
from ..crawl.redirect_limits import Limited, forget_copied_chain, was_to_be_followed
from ..crawl.requests.fingerprints import is_same_page
from ..crawl.responses.head import is_text, refresh_of
from ..crawl.scrapy_internals import compat
from .directives import DirectivesMiddleware

if TYPE_CHECKING:
    from scrapy import Spider

    from ..core.parse.headers import Refresh
    from ..crawl.assembly import Crawl
    from ..crawl.flights.in_flight import Flight


class RedirectMiddleware(Limited, redirect.RedirectMiddleware):
    """Scrapy's middleware; what it may not follow ends as excluded, with the reason.

    Refused are chains of more than `REDIRECT_MAX_TIMES` redirects or through more than
    ``FRONTIER_REDIRECT_MAX_HOSTS`` hosts, loops, addresses that grow with every step, schemes other than
    http and https, and, from a public page, private networks (``FRONTIER_ALLOW_PRIVATE``).
    """

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Request | Response:
        """The request that a redirect leads to, after what a Retry-After asks for, or *response*. Raises
        `IgnoreRequest`, with the reason for the record of the page, for one that is refused."""
        if response.status not in REDIRECTS:
            return response
        forget_copied_chain(request)
        try:
            result = super().process_response(request, response)
        except IgnoreRequest:
            raise IgnoreRequest(self.refuse(TOO_LONG, _location(response))) from None
        except ValueError:  # `javascript:`, broken addresses: Scrapy cannot make a request of them
            raise IgnoreRequest(self.refuse(NO_HTTP, _location(response))) from None
        if isinstance(result, Request):
            target = self.to_follow(result, request, response)
            if self.crawl is not None and "Retry-After" in response.headers:  # RFC 9110 10.2.3
                now = self.crawl.clock()
                target.meta[NOT_BEFORE] = now + pause_in(response, now)
            return target
        if was_to_be_followed(request, response, self.crawler.spider):
            reason = self.refuse(NO_HTTP, _location(response))
            flight = self.flights.get(id(request))
            if flight is not None:
                flight.outcome = Outcome(Event.EXCLUDED, response.status, reason)
        return result


class MetaRefreshMiddleware(Limited, redirect.MetaRefreshMiddleware):
    """Takes a meta refresh, or a Refresh header, for a link: the page goes on to its callback all the same.

    Scrapy's own gives the callback the target instead, so that the links of the page are lost. The target is
    queued with the callback of the page, as after a redirect, and dropped if it is known. A page that is left
    within a second is no page for people: its links count, its items do not, and it ends as redirected.
    Refreshes after `METAREFRESH_MAXDELAY` seconds or later say nothing, as with Scrapy.

    Requests that do not come from the scheduler (inline ones), or whose callback is no method of the spider
    and so may be good for one call only, are treated as Scrapy's own does.
    """

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Request | Response:
        """*response*, and where it refreshes to is queued; Scrapy's own answer where the callback is good for
        one call."""
        crawl, flight = self.crawl, self.flights.get(id(request))
        if flight is None or crawl is None:
            return self._followed(request, response)
        if flight.callback is not None and not crawl.may_be_called_again(flight.callback):
            return self._followed(request, response)
        if not request.meta.get("dont_redirect") and request.method != "HEAD":
            found = refresh_of(response, self._ignore_tags)
            if found is not None and found.seconds < self._maxdelay:
                self._discover(crawl, flight, found, response)
        return response

    def _followed(self, request: Request, response: Response) -> Request | Response:
        if isinstance(response, HtmlResponse) and not is_text(response):
            return response
        result = super().process_response(request, response)
        return self.to_follow(result, request, response) if isinstance(result, Request) else result

    def _discover(self, crawl: Crawl, flight: Flight, found: Refresh, response: Response) -> None:
        request = flight.request
        url = self.as_asked(found.url, request)
        if absolute(url) is not None and is_same_page(url, request.url):
            return
        target = self.refreshed(found, request, response)
        if isinstance(target, ChainRefusal):
            flight.note(self.refuse(target, found.url))
            return
        target = crawl.follow_ups.as_link(flight, target)
        led = found.led(response.status, self._forbids_links(request, response))
        if led is Led.FORBIDDEN:
            self.crawler.stats.inc_value("frontier/nofollow/links")
            target.meta[ONLY_SEEN] = reasons.NOFOLLOW_PAGE(url=response.url[:LONGEST_URL])
        elif reason := crawl.refused.reason_of_refresh(target):
            flight.note(reason)
            return
        else:
            self.crawler.stats.inc_value("frontier/redirects/refresh")
        compat.engine_of(self.crawler).crawl(target)
        if led is Led.MOVED:
            known = crawl.intake.find(target)
            flight.outcome = redirected(target, known, response.status)
        elif led is Led.LINK:
            flight.note(reasons.REFRESH(url=target.url[:LONGEST_URL]), led_to=target)

    def _forbids_links(self, request: Request, response: Response) -> bool:
        directives = self.crawler.get_downloader_middleware(DirectivesMiddleware)
        return directives is not None and directives.consequences_of(request, response).is_nofollow


def _location(response: Response) -> str:
    return (response.headers.get("Location") or b"").decode("latin-1")
