"""Which links to known pages end where they are taken down, because nobody would see the difference.

Nine links of ten lead to known pages, and the scheduler drops their requests. What Scrapy does with each on
the way there (depth, referrer, length, offsite) costs ten times as much, and leaves nothing behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware

from .callback_requests import usual_listeners

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from .stock_middlewares import Stock


class KnownLinks:
    """The rule of one crawl, where *stock* is what requests pass on the way to the engine."""

    def __init__(self, crawler: Crawler, stock: Stock) -> None:
        self._crawler = crawler
        settings = crawler.settings
        self._is_on = stock.are_all and not settings.getbool("DEPTH_STATS_VERBOSE")
        self._deepest = settings.getint("DEPTH_LIMIT")  # deeper links are counted
        self._offsite = crawler.get_downloader_middleware(OffsiteMiddleware)

    def ending_on(self, response: Response) -> str | None:
        """How URLs begin that need go no further from the page of *response*, but for its first; None where
        all must: somebody is to see them, or what is refused of them is counted."""
        crawler, request = self._crawler, response.request
        if not self._is_on or request is None or 0 < self._deepest <= response.meta.get("depth", 0):
            return None
        if usual_listeners(crawler) is None:
            return None
        spider, offsite = crawler.spider, self._offsite
        if offsite is None or spider is None or not getattr(spider, "allowed_domains", None):
            return ""
        if not offsite.should_follow(request, spider):
            return None
        return "/".join(response.url.split("/", 3)[:3]) + "/"  # no more offsite than the page itself
