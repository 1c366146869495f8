"""Scrapy's robots.txt middleware over the gate: RFC 9309, and no URL lost while a file cannot be read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy import Request, Spider, signals
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest

from ..core import reasons
from ..core.hosts.host import Trouble
from ..core.hosts.robots_policy import AtDownload
from ..core.parse.urls import origin_of
from ..crawl.assembly import Component
from ..crawl.host_trouble import error_of
from ..crawl.in_flight import REASON, postponed
from ..crawl.robots_fetch import Gate
from ..crawl.robots_sites import RobotsServices, RulesParser, origin_for

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.robotstxt import RobotParser

logger = logging.getLogger(__name__)


class FrontierRobotsTxtMiddleware(RobotsTxtMiddleware, Component):
    """Drops what robots.txt forbids, and postpones what nobody knows yet.

    In place of Scrapy's, whose settings (``ROBOTSTXT_OBEY``, ``ROBOTSTXT_USER_AGENT``,
    ``ROBOTSTXT_PARSER``), meta key ``dont_obey_robotstxt``, signal, stats and exception it keeps. A page of a
    site whose file cannot be read stays queued; another request (a media download, say) is ignored, for
    nobody would queue it again.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        Component.__init__(self, crawler)
        self._known_gate: Gate | None = None
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    @property
    def _gate(self) -> Gate:
        """That of the crawl, or with another scheduler one of its own."""
        if self._known_gate is None:
            self._known_gate = Gate(RobotsServices(self.crawler, self.settings))
        return self._known_gate

    def _find_crawl(self) -> None:
        super()._find_crawl()
        if self.crawl is not None:
            self._known_gate = self.crawl.gate

    def _spider_closed(self) -> None:
        if self._known_gate is not None:
            self._known_gate.close()

    async def process_request(  # type: ignore[override]  # it may postpone the page
        self, request: Request, spider: Spider | None = None
    ) -> Request | None:
        """None for what is allowed; the page postponed where nobody knows yet, or its site asks for other
        hours. Raises `IgnoreRequest` for what is forbidden, and what a site that was given up met."""
        flight = self.flights.get(id(request))
        decision = flight.robots if flight is not None else None
        header = dict.get(request.headers, b"User-Agent")
        if decision is not None and (decision.url != request.url or decision.header != header):
            decision = None  # it was about another request
        if decision is not None and decision.is_allowed:
            return None
        origin = origin_for(request)
        if origin is None:
            return None
        given_up = flight.lease.given_up if flight is not None else None
        answer, decision, wait = await self._gate.answer(request, decision, given_up)
        if answer is AtDownload.FORBIDDEN and decision is not None:
            self._forbid(request, await decision.why())
        if answer is AtDownload.GIVEN_UP and given_up is not None:
            raise error_of(given_up, request)  # else it is for the cooldown middleware to do
        if answer is AtDownload.WAITS and decision is not None and decision.site is not None:
            return self._later(request, decision.site.trouble, wait)
        if answer is AtDownload.PASSES:
            return None
        return self._later(request, Trouble(reasons.ROBOTS_UNKNOWN(origin=origin)), 0.0)

    def _later(self, request: Request, trouble: Trouble, seconds: float) -> Request:
        """Postpone a page, if somebody waits for it; else it ends as others of its site did."""
        flight = self.flights.get(id(request))
        back = postponed(flight, request, trouble.reason, seconds)
        if back is None:
            raise IgnoreRequest(trouble.reason) if flight is None else error_of(trouble, request)
        self.crawler.stats.inc_value("frontier/robots/postponed")
        return back

    def _forbid(self, request: Request, reason: str) -> None:
        logger.debug("Forbidden by robots.txt: %s", request, extra={"spider": self.crawler.spider})
        self.crawler.stats.inc_value("robotstxt/forbidden")
        error = IgnoreRequest("Forbidden by robots.txt")
        setattr(error, REASON, reason)
        raise error

    # -- what subclasses and listeners of Scrapy's middleware know --------------------------------------

    async def robot_parser(self, request: Request) -> RobotParser | None:
        """The parser for the site of *request*, its file fetched if need be; None for other schemes."""
        origin = origin_of(request.url)
        site = await self._gate.site_of(origin, request) if origin is not None else None
        return None if site is None else site.parser or RulesParser(lambda _: site.robots_status.rules)
