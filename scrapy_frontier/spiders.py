"""A spider whose pages are followed by the frontier: it says which links, and makes items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider
from scrapy.utils.misc import load_object

from .addon import Addon
from .crawl import scrapy_internals
from .crawl.assembly import SPIDER_MIDDLEWARE

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

    from .crawl.bulk_follow import Extractor


class FrontierSpider(CrawlSpider):
    """Follows all links that ``link_extractor`` finds to `parse`; with ``rules`` it is a `CrawlSpider`.

    ``allowed_domains`` hold. It enables ``FRONTIER_FOLLOW`` and the add-on, unless the project sets them. A
    method ``frontier_link_score(response, url, text)`` returns the weight of a link (1: an ordinary one). See
    ``docs/follow.md``.
    """

    link_extractor: Extractor = LinkExtractor()

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Enable ``FRONTIER_FOLLOW`` and the add-on, unless the project sets them."""
        super().update_settings(settings)
        if settings.getpriority("FRONTIER_FOLLOW") is None:
            settings.set("FRONTIER_FOLLOW", True, "spider")
        chosen = settings.getdict("ADDONS")
        if Addon not in map(load_object, chosen):
            settings.set("ADDONS", {**chosen, Addon: 500}, "spider")

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Make the spider; it logs an error at its start if the middleware that follows links is missing."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider._warn_if_not_followed, signals.spider_opened)
        return spider

    if not TYPE_CHECKING:  # to type checkers it is Scrapy's: a callback that takes what it wants

        def parse(self, response: Response, **kwargs: Any) -> Any:
            """Yield the items of a page, and requests beside its links. Here nothing."""
            return ()

    def _parse(self, response: Response, **kwargs: Any) -> Any:
        return super()._parse(response, **kwargs) if self.rules else self.parse(response, **kwargs)

    def _warn_if_not_followed(self) -> None:
        if not self.rules and not scrapy_internals.has_middleware(self.crawler, SPIDER_MIDDLEWARE):
            words = "No link is followed, for %s is not at work: put scrapy_frontier.Addon into ADDONS"
            self.logger.error(words, SPIDER_MIDDLEWARE)
