"""Follows redirects and refreshes by Scrapy's own middlewares, within limits.

Scrapy's settings (`REDIRECT_*`, `METAREFRESH_*`) and meta keys hold. The target waits in the frontier for the
turn of its own host, under its own robots.txt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares import redirect
from scrapy.downloadermiddlewares.redirect import BaseRedirectMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Request, Response

from ..core import reasons
from ..core.frontier import Event, Outcome
from ..core.parse.directives import NO_HTTP, TOO_LONG, ChainRefusal, refusal, without_foreign_userinfo
from ..core.parse.headers import REDIRECTS, RefreshRole
from ..core.parse.urls import absolute, escaped_fragment, host_of
from ..core.reasons import LONGEST_URL
from ..crawl import scrapy_internals
from ..crawl.assembly import Component
from ..crawl.codec import copied
from ..crawl.fingerprints import is_same_page
from ..crawl.host_trouble import pause_in
from ..crawl.in_flight import not_followed, redirected
from ..crawl.left_out import left_out_of, refuse_redirect
from ..crawl.link_extractor import is_text, refresh_of
from ..crawl.meta_keys import LASTMOD, START
from ..crawl.private_network import Led, is_from_private, led_to, note_led
from ..settings import FrontierSettings
from .directives import DirectivesMiddleware

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

    from ..core.parse.headers import Refresh
    from ..crawl.assembly import Crawl
    from ..crawl.in_flight import ActiveRequest


class Limited(BaseRedirectMiddleware, Component):
    """Shared by both middlewares: the limits of a chain, and the report of a refusal."""

    def __init__(self, settings: BaseSettings) -> None:
        super().__init__(settings)
        self.settings = FrontierSettings.of_component(settings)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware. Raises `NotConfigured` for an invalid setting."""
        middleware = super().from_crawler(crawler)
        middleware.await_crawl(crawler)
        return middleware

    def limited(self, target: Request, request: Request, response: Response) -> Request | ChainRefusal:
        """Return *target*, to which *request* leads, ready to be followed (without a foreign password, with
        its depth), or why it is not followed. Counts nothing."""
        url = self.as_asked(target.url, request)
        if url != target.url:
            target = copied(target, url)
        chain = [*request.meta.get("redirect_urls", ()), request.url]
        from_private = is_from_private(request, response)
        refusing = refusal(chain, target.url, from_private or self.settings.allows_private)
        if refusing is not None:
            return refusing
        url = without_foreign_userinfo(target.url, request.url)
        if url != target.url:
            target = copied(target, url)
        if not is_same_page(target.url, request.url):  # the sitemap listed the source
            target.meta.pop(LASTMOD, None)
        from_public = not from_private and host_of(url) != host_of(request.url)
        # RFC 9110 10.2.3
        pause = 0.0
        if self.crawl is not None and "Retry-After" in response.headers:
            pause = pause_in(response, self.crawl.clock())
        note_led(target, Led(from_public, pause))
        return target

    def as_asked(self, url: str, request: Request) -> str:
        """Return *url*, to which *request* leads, with ``FRONTIER_AJAX`` in its crawlable form; unless
        *request* asked for that form, and its site redirects to the one for people."""
        form = escaped_fragment(url) if self.settings.ajax else None
        return url if form is None or is_same_page(form, request.url) else form

    def to_follow(self, target: Request, request: Request, response: Response) -> Request:
        """Return *target* as `limited` does. Raises `IgnoreRequest` with the reason for the record of the
        page if it is refused, which is counted."""
        found = self.limited(target, request, response)
        if isinstance(found, ChainRefusal):
            raise IgnoreRequest(self.refuse(found, target.url))
        return found

    def refreshed(self, found: Refresh, request: Request, response: Response) -> Request | ChainRefusal:
        """Return the request that a refresh leads to, or why it is not followed."""
        if absolute(found.url) is None:
            return NO_HTTP
        target = self._redirect_request_using_get(request, response, found.url)
        try:
            target = self._redirect(target, request, "meta refresh")
        except IgnoreRequest:
            return TOO_LONG
        followed = self.limited(target, request, response)
        if isinstance(followed, Request) and not leads_back(followed):
            followed.dont_filter = False  # a page that reloads for ever must not be fetched for ever
            followed.meta.pop(START, None)
        return followed

    def refuse(self, refusing: ChainRefusal, target: str) -> str:
        """Count a refusal; returns the reason for the record of the page."""
        refuse_redirect(self.crawler, refusing, target)
        return not_followed(target, refusing.reason)


def leads_back(target: Request) -> bool:
    """Whether *target* is the start of its redirects, for the first time: a site that redirects for a cookie
    may lead back by a refresh."""
    chain = target.meta.get("redirect_urls", ())
    return len(chain) > 1 and target.url == chain[0] and target.url not in chain[1:]


def was_to_be_followed(request: Request, response: Response, spider: Spider | None) -> bool:
    """Whether a redirect that was not followed can only have failed for the scheme of its target."""
    meta, status = request.meta, response.status
    return (
        "Location" in response.headers
        and not meta.get("dont_redirect")
        and not meta.get("handle_httpstatus_all")
        and status not in meta.get("handle_httpstatus_list", ())
        and status not in getattr(spider, "handle_httpstatus_list", ())
    )


class RedirectMiddleware(Limited, redirect.RedirectMiddleware):
    """Scrapy's middleware; the page of a redirect that is refused ends as excluded, with the reason.

    Refused are chains of more than `REDIRECT_MAX_TIMES` redirects or through more than five hosts, loops,
    URLs that grow with every step, schemes other than http and https, and, from a public page, private
    networks (``FRONTIER_ALLOW_PRIVATE``).
    """

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Request | Response:
        """Return the request that a redirect leads to, to be sent after its Retry-After, or *response*.
        Raises `IgnoreRequest` with the reason for the record of the page for one that is refused."""
        if response.status not in REDIRECTS:
            return response
        try:
            result = super().process_response(request, response)
        except IgnoreRequest:
            raise IgnoreRequest(self.refuse(TOO_LONG, _location(response))) from None
        except ValueError:  # `javascript:`, broken addresses: Scrapy cannot make a request of them
            raise IgnoreRequest(self.refuse(NO_HTTP, _location(response))) from None
        if isinstance(result, Request):
            return self.to_follow(result, request, response)
        if was_to_be_followed(request, response, self.crawler.spider):
            reason = self.refuse(NO_HTTP, _location(response))
            active = self.active_requests.get(request)
            if active is not None:
                active.outcome = Outcome(Event.EXCLUDED, response.status, reason)
        return result


class MetaRefreshMiddleware(Limited, redirect.MetaRefreshMiddleware):
    """Treats a meta refresh, or a Refresh header, as a link: the page goes to its callback all the same.

    Scrapy's own gives the callback the target instead, and loses the links of the page. The target is queued
    with the callback of the page, as after a redirect, and dropped if it is known. If the refresh comes
    within a second, the links of the page count, its items do not, and it ends as redirected. Refreshes after
    `METAREFRESH_MAXDELAY` seconds or later are ignored, as by Scrapy.

    Requests that do not come from the scheduler (inline ones), or whose callback is no method of the spider
    and may be good for one call only, are treated as by Scrapy.
    """

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Request | Response:
        """Return *response*, and queue the target of its refresh; Scrapy's own result if the callback may be
        good for one call only."""
        crawl, active = self.crawl, self.active_requests.get(request)
        if active is None or crawl is None:
            return self._followed(request, response)
        if active.callback is not None and not crawl.may_be_called_again(active.callback):
            return self._followed(request, response)
        if not request.meta.get("dont_redirect") and request.method != "HEAD":
            found = refresh_of(response, self._ignore_tags)
            if found is not None and found.seconds < self._maxdelay:
                self._discover(crawl, active, found, response)
        return response

    def _followed(self, request: Request, response: Response) -> Request | Response:
        if isinstance(response, HtmlResponse) and not is_text(response):
            return response
        result = super().process_response(request, response)
        return self.to_follow(result, request, response) if isinstance(result, Request) else result

    def _discover(self, crawl: Crawl, active: ActiveRequest, found: Refresh, response: Response) -> None:
        request = active.request
        url = self.as_asked(found.url, request)
        if absolute(url) is not None and is_same_page(url, request.url):
            return
        followed = self.refreshed(found, request, response)
        if isinstance(followed, ChainRefusal):
            active.note(self.refuse(followed, found.url))
            return
        target = crawl.follow_ups.as_link(active, followed)
        note_led(target, led_to(followed) or Led())
        role = found.role(response.status, self._forbids_links(request, response))
        if role is RefreshRole.FORBIDDEN:
            reason = reasons.NOFOLLOW_PAGE(url=response.url[:LONGEST_URL])
            left_out_of(self.crawler).add("frontier/nofollow/links", target, reason)
            crawl.enqueuer.see(target, reason)
            return
        if reason := crawl.enqueuer.refusal_of_refresh(target):
            active.note(reason)
            return
        self.crawler.stats.inc_value("frontier/redirects/refresh")
        scrapy_internals.engine_of(self.crawler).crawl(target)
        if role is RefreshRole.MOVED:
            known = crawl.enqueuer.find(target)
            active.outcome = redirected(target, known, response.status)
        elif role is RefreshRole.LINK:
            active.note(reasons.REFRESH(url=target.url[:LONGEST_URL]), led_to=target)

    def _forbids_links(self, request: Request, response: Response) -> bool:
        directives = self.crawler.get_downloader_middleware(DirectivesMiddleware)
        return directives is not None and directives.consequences_of(request, response).is_nofollow


def _location(response: Response) -> str:
    return (response.headers.get("Location") or b"").decode("latin-1")
