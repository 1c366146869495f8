"""Requests that callbacks, pipelines and media pipelines download: they keep the clock of their host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest

from ..core.hosts.robots_policy import why_not_awaited
from ..crawl import scrapy_internals
from ..crawl.assembly import Component
from ..crawl.scrapy_internals import SideRequest

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response

LONGEST_SLEEP = 0.5  # seconds until a request asks again for the place it waits for


class SideRequestsMiddleware(Component):
    """Makes requests of `engine.download` wait for the delay, the rest and the concurrency of their host.

    It stands next to the downloader: what comes here is sent. Pages have waited in the scheduler, and the
    sender of a robots.txt for its host. What a downloader middleware fetches while a page is on its way does
    not wait, for the page would wait for it.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._hosts: dict[Request, str] = {}  # of the requests under way

    async def process_request(self, request: Request) -> None:
        """Waits for the host of *request*. Raises `IgnoreRequest` if it is blocked, or rests for more than a
        minute: no queue has the request."""
        if (
            request in self.active_requests
            or isinstance(request, SideRequest)
            or scrapy_internals.is_in_page()
        ):
            return
        crawl = self.crawl
        if crawl is None:
            return
        keys = crawl.politeness_keys
        host = keys.of(request.url) if request.meta.get("proxy") else await keys.looked_up(request.url)
        with self.left_to_scheduler():
            while (wait := crawl.frontier.begin_side_request(host, now := crawl.clock())) and self.crawl:
                if reason := why_not_awaited(host, wait, crawl.frontier.is_cooling(host, now)):
                    raise IgnoreRequest(reason)
                await scrapy_internals.sleep(min(wait, LONGEST_SLEEP))
            self._hosts[request] = host

    def process_response(self, request: Request, response: Response) -> Response:
        """Frees the place of *request*."""
        self._end(request)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Frees the place of *request*."""
        self._end(request)

    def _end(self, request: Request) -> None:
        host, crawl = self._hosts.pop(request, None), self.crawl
        if host is not None and crawl is not None:
            with self.left_to_scheduler():
                crawl.frontier.end_side_request(host, crawl.clock())
