"""Scrapy's robots.txt middleware over the gate: RFC 9309, and no URL lost while a file cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest

from ..crawl.assembly import Component
from ..crawl.host_trouble import error_of
from ..crawl.in_flight import postponed
from ..crawl.left_out import left_out_of

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler

    from ..crawl.robots import Gate


class FrontierRobotsTxtMiddleware(RobotsTxtMiddleware, Component):
    """Drops what robots.txt forbids, and postpones pages of sites whose file is not known.

    In place of Scrapy's, whose settings (``ROBOTSTXT_OBEY``, ``ROBOTSTXT_USER_AGENT``), meta key
    ``dont_obey_robotstxt``, stats and exception it keeps; ``ROBOTSTXT_PARSER`` is not asked. Beside
    another scheduler it is Scrapy's. A page of a site whose file cannot be read stays queued; a request that
    has no queue (a media download, say) is ignored.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        Component.__init__(self, crawler)

    @property
    def _gate(self) -> Gate | None:
        return None if self.crawl is None else self.crawl.gate

    async def process_request(  # type: ignore[override]  # it may postpone the page
        self, request: Request, spider: Spider | None = None
    ) -> Request | None:
        """Return None for what is allowed, and the page postponed if it has to wait. Raises `IgnoreRequest`
        for what is forbidden, and what a site that was given up met."""
        if self._gate is None:
            await super().process_request(request)
            return None
        active = self.active_requests.get(request)
        about = (None, None) if active is None else (active.robots, active.lease.given_up)
        found = await self._gate.check(request, *about)
        if found is None:
            return None
        trouble, seconds = found
        back = postponed(active, request, trouble.reason, seconds)
        if back is None and active is None:
            left_out_of(self.crawler).add("frontier/left_out/downloads", request, trouble.reason)
            raise IgnoreRequest(trouble.reason)
        if back is None:
            raise error_of(trouble, request)
        self.crawler.stats.inc_value("frontier/robots/postponed")
        return back
