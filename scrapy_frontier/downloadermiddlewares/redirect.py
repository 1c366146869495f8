"""Follows redirects and meta refreshes by Scrapy's own middlewares, within limits.

Scrapy's settings (`REDIRECT_*`, `METAREFRESH_*`) and meta keys hold. The target waits in the frontier for the
turn of its own host, under its own robots.txt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares import redirect
from scrapy.downloadermiddlewares.redirect import BaseRedirectMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Request, Response

from ..core.parse.directives import NO_HTTP, TOO_LONG, ChainRefusal, refusal, without_foreign_userinfo
from ..core.parse.headers import LONGEST_VALUE, REDIRECTS
from ..core.parse.urls import escaped_fragment, host_of
from ..crawl.assembly import Component
from ..crawl.codec import copied
from ..crawl.fingerprints import is_same_page
from ..crawl.in_flight import not_followed
from ..crawl.left_out import refuse_redirect
from ..crawl.link_extractor import head_of
from ..crawl.private_network import is_from_private, note_led

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from typing_extensions import Self


class Limited(BaseRedirectMiddleware, Component):
    """Shared by both middlewares: the limits of a chain, and the report of a refusal."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware. Raises `NotConfigured` for an invalid setting."""
        middleware = super().from_crawler(crawler)
        Component.__init__(middleware, crawler)
        return middleware

    def to_follow(self, target: Request, request: Request, response: Response) -> Request:
        """Return *target*, to which *request* leads, ready to be followed (without a foreign password).
        Raises `IgnoreRequest` with the reason for the record of the page if it is refused, which is
        counted."""
        url = self.as_asked(target.url, request)
        if url != target.url:
            target = copied(target, url)
        chain = [*request.meta.get("redirect_urls", ()), request.url]
        from_private = is_from_private(request, response)
        refusing = refusal(chain, target.url, from_private or self.settings.allows_private)
        if refusing is not None:
            raise IgnoreRequest(self.refuse(refusing, target.url))
        url = without_foreign_userinfo(target.url, request.url)
        if url != target.url:
            target = copied(target, url)
        from_public = not from_private and host_of(url) != host_of(request.url)
        note_led(target, from_public)
        return target

    def as_asked(self, url: str, request: Request) -> str:
        """Return *url*, to which *request* leads, with ``FRONTIER_AJAX`` in its crawlable form; unless
        *request* asked for that form, and its site redirects to the one for people."""
        form = escaped_fragment(url) if self.settings.ajax else None
        return url if form is None or is_same_page(form, request.url) else form

    def refuse(self, refusing: ChainRefusal, target: str) -> str:
        """Count a refusal; returns the reason for the record of the page."""
        refuse_redirect(self.crawler, refusing, target)
        return not_followed(target, refusing.reason)


class RedirectMiddleware(Limited, redirect.RedirectMiddleware):
    """Scrapy's middleware; the page of a redirect that is refused ends as excluded, with the reason.

    Refused are chains of more than `REDIRECT_MAX_TIMES` redirects or through more than five hosts, loops,
    URLs that grow with every step, schemes other than http and https, and, from a public page, private
    networks (``FRONTIER_ALLOW_PRIVATE``).
    """

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Request | Response:
        """Return the request that a redirect leads to, or *response*. Raises `IgnoreRequest` with the
        reason for the record of the page for one that is refused."""
        if response.status not in REDIRECTS:
            return response
        location = (response.headers.get("Location") or b"").decode("latin-1")
        if len(location) > LONGEST_VALUE:  # to make a request of a megabyte takes a second
            raise IgnoreRequest(self.refuse(NO_HTTP, location))
        try:
            result = super().process_response(request, response)
        except IgnoreRequest:
            raise IgnoreRequest(self.refuse(TOO_LONG, location)) from None
        except ValueError:  # `javascript:`, broken addresses: Scrapy cannot make a request of them
            raise IgnoreRequest(self.refuse(NO_HTTP, location)) from None
        if isinstance(result, Request):
            return self.to_follow(result, request, response)
        return result


class MetaRefreshMiddleware(Limited, redirect.MetaRefreshMiddleware):
    """Scrapy's middleware, within the limits of redirects; a page that refreshes to itself is no redirect."""

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Request | Response:
        """Return the request that a meta refresh leads to, or *response*. Raises `IgnoreRequest` with the
        reason for the record of the page for one that is refused."""
        if not isinstance(response, HtmlResponse) or not head_of(response).has_refresh:
            return response
        try:
            result = super().process_response(request, response)
        except IgnoreRequest:
            raise IgnoreRequest(self.refuse(TOO_LONG, request.url)) from None
        except ValueError:  # no request can be made of the URL
            return response
        if not isinstance(result, Request) or is_same_page(result.url, request.url):
            return response
        return self.to_follow(result, request, response)
