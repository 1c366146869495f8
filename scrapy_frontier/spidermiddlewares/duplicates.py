"""Pages with the same body as another page of their host: the spider gets them, their links are not followed.

On only where ``FRONTIER_DUPLICATES`` says so. A site that answers every address with the same page makes new
addresses on each of them; its branch ends here, with the first copy.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from scrapy.spidermiddlewares.base import BaseSpiderMiddleware

from ..core.parse.urls import host_of
from ..crawl.assembly import Component
from ..crawl.meta_keys import DUPLICATE, chosen_slot

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

_DIGEST_BYTES = 16


class DuplicatesMiddleware(Component, BaseSpiderMiddleware):
    """Behind `FrontierSpiderMiddleware`, so that the link graph has the links that are dropped.

    Items go on as ever, and so does what is asked for with ``dont_filter``. About 20 us a page.
    """

    def is_wanted(self) -> bool:
        """With ``FRONTIER_DUPLICATES = "stop"``."""
        return self.settings.stops_duplicates

    def process_spider_input(self, response: Response) -> None:
        """Note in the meta of the request the URL of another page of its host with the same body, if there is
        one."""
        crawl, request = self.crawl, response.request
        if crawl is None or request is None:
            return
        request.meta.pop(DUPLICATE, None)
        if not response.body or not 200 <= response.status < 300:
            return
        page_id = crawl.enqueuer.find(request)
        if page_id is None:
            return
        digest = blake2b(response.body, digest_size=_DIGEST_BYTES).digest()
        flight, other = crawl.flights.get(id(request)), None
        kept = flight.digest if flight is not None else b""
        with self.left_to_scheduler():
            other = crawl.frontier.same_content(page_id, _host_of(request), digest, kept)
        if other is not None:
            request.meta[DUPLICATE] = other.url
            self.crawler.stats.inc_value("frontier/duplicates")

    def get_processed_request(self, request: Request, response: Response | None) -> Request | None:
        """*request*, or None for a link on a page that has the same body as another."""
        parent = response.request if response is not None else None
        if parent is None or request.dont_filter or DUPLICATE not in parent.meta:
            return request
        return None


def _host_of(request: Request) -> str:
    """The slot the user chose, else the URL's host, also where the politeness key is a wider one."""
    slot = chosen_slot(request.meta)
    return host_of(request.url) if slot is None else str(slot)
