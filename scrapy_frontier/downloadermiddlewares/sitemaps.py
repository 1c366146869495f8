"""Queues sitemaps on first contact with a site, and reads them for the frontier: the spider never gets one.

A sitemap is an ordinary page of the frontier whose request carries a `SitemapTask` in its meta. So it waits
for its host, is retried, and is still there after a kill.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest
from scrapy.http.request import NO_CALLBACK

from ..core.parse.sitemaps import MAX_BYTES
from ..crawl import scrapy_internals
from ..crawl.assembly import Component
from ..crawl.in_flight import HandledResponse, failed_with
from ..crawl.meta_keys import SITEMAP, UNSET

if TYPE_CHECKING:
    from scrapy.http import Request, Response

_UNUSABLE = "the frontier cannot be used"


class SitemapsMiddleware(Component):
    """Finds sitemaps and has them read. Enabled by ``FRONTIER_SITEMAPS``; does nothing with another
    scheduler."""

    def is_wanted(self) -> bool:
        """With ``FRONTIER_SITEMAPS``."""
        return self.settings.sitemaps

    async def process_request(self, request: Request) -> None:
        """Queue the sitemaps of a site before its first page; limit a sitemap to the size that the protocol
        allows."""
        if request.meta.get(SITEMAP) not in UNSET:
            least = min(self.crawler.settings.getint("DOWNLOAD_MAXSIZE") or MAX_BYTES, MAX_BYTES)
            request.meta.setdefault("download_maxsize", least)
        elif request.callback is not NO_CALLBACK:  # robots.txt, media
            crawl = self.crawl
            if crawl is not None and crawl.sitemaps is not None:
                with self.left_to_scheduler():
                    await crawl.sitemaps.contact(request, self.active_requests.get(request))
                    return
                raise IgnoreRequest(_UNUSABLE)

    async def process_response(self, request: Request, response: Response) -> Response:
        """Read a sitemap, and raise `HandledResponse`: no callback sees it. Any other *response* goes on, and
        a sitemap that `PrivateNetworkMiddleware` refuses."""
        crawl = self.crawl
        if request.meta.get(SITEMAP) in UNSET or crawl is None or crawl.sitemaps is None:
            return response
        with self.left_to_scheduler():
            return await crawl.sitemaps.read(request, response, self.active_requests.get(request))
        raise IgnoreRequest(_UNUSABLE)

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Raise `HandledResponse` for a sitemap that could not be fetched: it ends as failed. Not if it was
        refused, or the crawl is closing."""
        if request.meta.get(SITEMAP) not in UNSET and not isinstance(exception, IgnoreRequest):
            if scrapy_internals.is_closing(self.crawler) or self.crawl is None:
                return
            raise HandledResponse(failed_with(exception)) from exception
