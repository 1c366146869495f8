"""Where redirects and refreshes may lead, and how it is told that one may not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.redirect import BaseRedirectMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Request

from ..core.parse.redirect_chains import NO_HTTP, TOO_LONG, ChainRefusal, refusal, without_foreign_userinfo
from ..core.parse.urls import absolute, escaped_fragment, host_of
from ..settings import FrontierSettings
from .assembly import Component
from .flights.redirect_links_and_retries import not_followed, times
from .hosts.private_network import is_from_private
from .meta_keys import CHAIN, FROM_PUBLIC, LASTMOD, NOT_BEFORE, REDIRECTED_BY, START
from .requests.fingerprints import is_same_page
from .requests.request_classes import copied

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

    from ..core.parse.headers import Refresh


class Limited(BaseRedirectMiddleware, Component):
    """What both middlewares share: the limits of a chain, and how a refusal is told."""

    def __init__(self, settings: BaseSettings) -> None:
        super().__init__(settings)
        self.settings = FrontierSettings.of_component(settings)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """As Scrapy makes it. Raises `NotConfigured` for a setting that makes no sense."""
        middleware = super().from_crawler(crawler)
        middleware.await_crawl(crawler)
        return middleware

    def limited(self, target: Request, request: Request, response: Response) -> Request | ChainRefusal:
        """*target*, to which *request* leads, fit to be followed, without a foreign password and with its
        depth; or why it is not. Counts nothing."""
        url = self.as_asked(target.url, request)
        if url != target.url:
            target = copied(target, url)
        chain = [*request.meta.get("redirect_urls", ()), request.url]
        from_private = is_from_private(request, response)
        refusing = refusal(chain, target.url, self.settings.redirects, from_private)
        if refusing is not None:
            return refusing
        url = without_foreign_userinfo(target.url, request.url)
        if url != target.url:
            target = copied(target, url)
        target.meta[CHAIN] = times(request, "depth")
        target.meta.pop(FROM_PUBLIC, None)
        target.meta.pop(NOT_BEFORE, None)
        if not is_same_page(target.url, request.url):  # which a sitemap listed, and not where that leads
            target.meta.pop(LASTMOD, None)
        if not from_private and host_of(url) != host_of(request.url):
            target.meta[FROM_PUBLIC] = host_of(url)
        return target

    def as_asked(self, url: str, request: Request) -> str:
        """*url*, to which *request* leads, with its AJAX state where the server sees it, if that is wanted.
        Not where *request* asked for just that: its site sends such a page on to that for people."""
        form = escaped_fragment(url) if self.settings.ajax else None
        return url if form is None or is_same_page(form, request.url) else form

    def to_follow(self, target: Request, request: Request, response: Response) -> Request:
        """*target* as `limited` makes it fit to be followed. Raises `IgnoreRequest` where it may not be,
        which is counted and whose text is the reason for the record of the page."""
        found = self.limited(target, request, response)
        if isinstance(found, ChainRefusal):
            raise IgnoreRequest(self.refuse(found, target.url))
        return found

    def refreshed(self, found: Refresh, request: Request, response: Response) -> Request | ChainRefusal:
        """The request that a refresh leads to; or why it is not followed."""
        if absolute(found.url) is None:
            return NO_HTTP
        forget_copied_chain(request)
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
        """Count a refusal in the stats; returns the reason for the record of the page, with the URL of
        *target* cut."""
        self.crawler.stats.inc_value("frontier/redirects/refused")
        self.crawler.stats.inc_value(f"frontier/redirects/refused/{refusing.name}")
        return not_followed(target, refusing.reason)


def leads_back(target: Request) -> bool:
    """Whether *target* is where its redirects began, for the first time: a site that redirects for a cookie
    may lead back by a refresh."""
    way = target.meta.get("redirect_urls", ())
    return len(way) > 1 and target.url == way[0] and target.url not in way[1:]


def was_to_be_followed(request: Request, response: Response, spider: Spider | None) -> bool:
    """Whether only the scheme of its target can be why a redirect was not followed."""
    meta, status = request.meta, response.status
    return (
        "Location" in response.headers
        and not meta.get("dont_redirect")
        and not meta.get("handle_httpstatus_all")
        and status not in meta.get("handle_httpstatus_list", ())
        and status not in getattr(spider, "handle_httpstatus_list", ())
    )


def forget_copied_chain(request: Request) -> None:
    """Take from *request* the chain of another page, which a spider copied with the page's meta.

    A redirect keeps the depth of its source, a link is one deeper.
    """
    meta = request.meta
    if meta.get(CHAIN, times(request, "depth")) != times(request, "depth"):
        for key in REDIRECTED_BY:
            meta.pop(key, None)
