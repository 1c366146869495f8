"""A spider whose pages are followed by the frontier: it says which links, and makes items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider
from scrapy.utils.misc import load_object

from .addon import Addon

if TYPE_CHECKING:
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

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

    if not TYPE_CHECKING:  # to type checkers it is Scrapy's: a callback that takes what it wants

        def parse(self, response: Response, **kwargs: Any) -> Any:
            """Yield the items of a page, and requests beside its links. Here nothing."""
            return ()

    def _parse(self, response: Response, **kwargs: Any) -> Any:
        return super()._parse(response, **kwargs) if self.rules else self.parse(response, **kwargs)
