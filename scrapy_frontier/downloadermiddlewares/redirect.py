"""Redirects and refreshes: Scrapy's own middlewares, with limits to where they may lead.

What Scrapy's settings (`REDIRECT_*`, `METAREFRESH_*`) and its meta keys say holds as ever. The target of a
redirect waits in the frontier for the turn of its own host, under its own robots.txt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares import redirect
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Request, Response
from scrapy.utils.response import get_meta_refresh

from ..core import reasons
from ..core.frontier import Event, Outcome
from ..core.parse.headers import REDIRECTS, Refresh, parse_refresh
from ..core.parse.html_head import Head
from ..core.parse.redirect_chains import NO_HTTP, TOO_LONG, ChainRefusal, refusal, without_foreign_userinfo
from ..core.parse.urls import absolute, host_of
from ..core.reasons import LONGEST_URL
from ..crawl import compat
from ..crawl.assembly import Component, Crawl
from ..crawl.fingerprints import is_same_page
from ..crawl.meta_keys import CHAIN, FROM_PUBLIC, NOT_BEFORE, REFUSED, START
from ..crawl.private_network import is_from_private
from ..crawl.redirect_links_and_retries import redirected, times
from ..crawl.response_head import head_of, is_text
from ..crawl.response_troubles import asked_pause
from ..crawl.stats import count
from ..settings import FrontierSettings
from .directives import DirectivesMiddleware

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

    from ..crawl.in_flight import Flight

AT_ONCE = 1  # seconds; a page that is left as soon as that is shown to nobody


class _Limited(redirect.BaseRedirectMiddleware, Component):
    """What both middlewares share: the limits of a chain, and how a refusal is told."""

    def __init__(self, settings: BaseSettings) -> None:
        super().__init__(settings)
        self.limits = FrontierSettings.of_component(settings).redirects

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        middleware = super().from_crawler(crawler)
        middleware.await_crawl(crawler)
        return middleware

    def limited(self, child: Request, request: Request, response: Response) -> Request | ChainRefusal:
        """*child*, to which *request* leads, fit to be followed; or why it is not."""
        chain = [*request.meta.get("redirect_urls", ()), request.url]
        from_private = is_from_private(request, response)
        refusing = refusal(chain, child.url, self.limits, from_private)
        if refusing is not None:
            return refusing
        url = without_foreign_userinfo(child.url, request.url)
        if url != child.url:
            child = child.replace(url=url)
        child.meta[CHAIN] = times(request, "depth")
        child.meta.pop(FROM_PUBLIC, None)
        child.meta.pop(NOT_BEFORE, None)
        if not from_private and host_of(url) != host_of(request.url):
            child.meta[FROM_PUBLIC] = host_of(url)
        return child

    def to_follow(self, child: Request, request: Request, response: Response) -> Request:
        """`limited`; raises `IgnoreRequest` where it may not be followed."""
        found = self.limited(child, request, response)
        if isinstance(found, ChainRefusal):
            raise IgnoreRequest(self.told(found, child.url))
        return found

    def told(self, refusing: ChainRefusal, target: str) -> str:
        """Count a refusal; the reason for the record of the page."""
        count(self.crawler, "frontier/redirects/refused")
        count(self.crawler, f"frontier/redirects/refused/{refusing.name}")
        return reasons.NOT_FOLLOWED(why=refusing.reason, url=target[:LONGEST_URL])


class RedirectMiddleware(_Limited, redirect.RedirectMiddleware):
    """Scrapy's middleware; what it may not follow ends as excluded, with the reason.

    Refused are chains of more than `REDIRECT_MAX_TIMES` redirects or through more than
    ``FRONTIER_REDIRECT_MAX_HOSTS`` hosts, loops, addresses that grow with every step, schemes other than
    http and https, and, from a public page, private networks (``FRONTIER_ALLOW_PRIVATE``).
    """

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Request | Response:
        if response.status not in REDIRECTS:
            return response
        forget_copied_chain(request)
        try:
            result = super().process_response(request, response)
        except IgnoreRequest:
            raise IgnoreRequest(self.told(TOO_LONG, _location(response))) from None
        except ValueError:  # `javascript:`, broken addresses: Scrapy cannot make a request of them
            raise IgnoreRequest(self.told(NO_HTTP, _location(response))) from None
        if isinstance(result, Request):
            child = self.to_follow(result, request, response)
            self._delay(child, response)
            return child
        if self._was_to_be_followed(request, response):
            reason = self.told(NO_HTTP, _location(response))
            flight = self.flights.get(id(request))
            if flight is not None:
                flight.ends_as(Outcome(Event.EXCLUDED, response.status, reason))
        return result

    def _delay(self, child: Request, response: Response) -> None:
        """A redirect may say how long its target is to be left alone (RFC 9110 10.2.3)."""
        crawl = self.crawl
        if crawl is not None and "Retry-After" in response.headers:
            child.meta[NOT_BEFORE] = crawl.clock() + (asked_pause(response, crawl.clock()) or 0.0)

    def _was_to_be_followed(self, request: Request, response: Response) -> bool:
        """Whether only the scheme of its target can be why a redirect was not followed."""
        meta, status = request.meta, response.status
        return (
            "Location" in response.headers
            and not meta.get("dont_redirect")
            and not meta.get("handle_httpstatus_all")
            and status not in meta.get("handle_httpstatus_list", ())
            and status not in getattr(self.crawler.spider, "handle_httpstatus_list", ())
        )


class MetaRefreshMiddleware(_Limited, redirect.MetaRefreshMiddleware):
    """Takes a meta refresh, or a Refresh header, for a link: the page goes on to its callback all the same.

    Scrapy's own gives the callback the target instead, so that the links of the page are lost. The target is
    queued with the callback of the page, as after a redirect, and dropped if it is known. A page that is left
    within a second is no page for people: its links count, its items do not, and it ends as redirected.
    Refreshes later than `METAREFRESH_MAXDELAY` say nothing.

    Requests that do not come from the scheduler (inline ones), or whose callback is no method of the spider
    and so may be good for one call only, are treated as Scrapy's own does.
    """

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Request | Response:
        crawl, flight = self.crawl, self.flights.get(id(request))
        if flight is None or crawl is None:
            return self._followed(request, response)
        if flight.callback is not None and not crawl.may_be_called_again(flight.callback):
            return self._followed(request, response)
        if not request.meta.get("dont_redirect") and request.method != "HEAD":
            found = self._refresh(response)
            if found is not None and found.seconds < self._maxdelay:
                self._discover(crawl, flight, found, request, response)
        return response

    def _followed(self, request: Request, response: Response) -> Request | Response:
        if isinstance(response, HtmlResponse) and not is_text(response):
            return response
        result = super().process_response(request, response)
        return self.to_follow(result, request, response) if isinstance(result, Request) else result

    def _refresh(self, response: Response) -> Refresh | None:
        """Where *response* goes on to, as an absolute URL; the header counts before the page."""
        header = response.headers.get("Refresh")
        found = parse_refresh(header.decode("latin-1")) if header else None
        head = Head()
        if found is None and isinstance(response, HtmlResponse):
            if self._ignore_tags != ["noscript"] and is_text(response):  # what our own scan cannot do
                seconds, url = get_meta_refresh(response, ignore_tags=self._ignore_tags)
                return Refresh(int(seconds or 0), url) if url else None
            head = head_of(response)
            found = head.refresh
        if found is None or not found.url:
            return None
        return found._replace(url=head.absolute(found.url, response.url) or found.url)

    def _discover(
        self, crawl: Crawl, flight: Flight, found: Refresh, request: Request, response: Response
    ) -> None:
        if is_same_page(found.url, request.url):
            return
        target = self._target(found, request, response)
        if isinstance(target, ChainRefusal):
            flight.note(self.told(target, found.url))
            return
        if found.seconds > AT_ONCE and self._forbids_links(request, response):
            count(self.crawler, "frontier/nofollow/links")
            target.meta[REFUSED] = reasons.NOFOLLOW_PAGE(url=response.url[:LONGEST_URL])
            compat.engine_of(self.crawler).crawl(target)
            return
        count(self.crawler, "frontier/redirects/refresh")
        compat.engine_of(self.crawler).crawl(target)
        if response.status >= 400:
            return
        if found.seconds <= AT_ONCE:
            known = crawl.frontier.find(crawl.identities.of(target))
            flight.ends_as(redirected(target, known, response.status))
        else:
            flight.note(reasons.REFRESH(url=target.url[:LONGEST_URL]), led_to=target)

    def _forbids_links(self, request: Request, response: Response) -> bool:
        directives = self.crawler.get_downloader_middleware(DirectivesMiddleware)
        return directives is not None and directives.forbids_links(request, response)

    def _target(self, found: Refresh, request: Request, response: Response) -> Request | ChainRefusal:
        if absolute(found.url) is None:
            return NO_HTTP
        forget_copied_chain(request)
        child = self._redirect_request_using_get(request, response, found.url)
        try:
            child = self._redirect(child, request, "meta refresh")
        except IgnoreRequest:
            return TOO_LONG
        followed = self.limited(child, request, response)
        if isinstance(followed, Request):
            followed.dont_filter = False  # a page that reloads for ever must not be fetched for ever
            followed.meta.pop(START, None)
        return followed


def forget_copied_chain(request: Request) -> None:
    """Take from *request* the chain of another page, which a spider copied with the page's meta.

    A redirect keeps the depth of its source, a link is one deeper.
    """
    meta = request.meta
    if meta.get(CHAIN, times(request, "depth")) != times(request, "depth"):
        for key in ("redirect_times", "redirect_ttl", "redirect_urls", "redirect_reasons"):
            meta.pop(key, None)


def _location(response: Response) -> str:
    return (response.headers.get("Location") or b"").decode("latin-1")
