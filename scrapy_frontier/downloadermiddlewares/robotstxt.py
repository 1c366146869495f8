"""Scrapy's robots.txt middleware over the gate: RFC 9309, and no URL lost while a file cannot be read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy import signals
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.robotstxt import RobotParser
from scrapy.settings import SETTINGS_PRIORITIES

from ..core.hosts.troubles import Trouble
from ..core.parse.robots_txt import parse
from ..core.parse.urls import origin
from ..crawl import compat
from ..crawl.in_flight import REASON
from ..crawl.meta_keys import POSTPONED, POSTPONED_FOR
from ..crawl.robots_gate import Gate, trouble_with
from ..crawl.runtime import runtime_of
from ..settings import FrontierSettings
from .cooldown import error_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from ..core.parse.robots_rules import Rules
    from ..core.store.site_rows import RobotsCopy
    from ..crawl.robots_gate import Site

logger = logging.getLogger(__name__)
_T = TypeVar("_T")


class FrontierRobotsTxtMiddleware(RobotsTxtMiddleware):
    """Drops what robots.txt forbids, and sends back what nobody knows yet.

    In place of Scrapy's, whose settings (``ROBOTSTXT_OBEY``, ``ROBOTSTXT_USER_AGENT``,
    ``ROBOTSTXT_PARSER``), meta key ``dont_obey_robotstxt``, signal, stats and exception it keeps. A page of a
    site whose file cannot be read stays queued; another request (a media download, say) is ignored, for
    nobody would queue it again.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        chosen = crawler.settings.getpriority("ROBOTSTXT_PARSER") or 0
        self._has_own_parser = chosen > SETTINGS_PRIORITIES["default"]
        settings = FrontierSettings.of_component(crawler.settings)
        self.gate = Gate(crawler, settings, self._parser_of, self._told)
        crawler.signals.connect(self._spider_opened, signals.spider_opened)
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    def _spider_opened(self) -> None:
        runtime = runtime_of(self.crawler)
        if runtime is not None:
            runtime.gate = self.gate
            self.gate.open(runtime)

    def _spider_closed(self) -> None:
        self.gate.close()

    async def process_request(  # type: ignore[override]
        self, request: Request, spider: Spider | None = None
    ) -> Request | None:
        authority = None if request.meta.get("dont_obey_robotstxt") else origin(request.url)
        if authority is None:
            return None
        lease = self.gate.lease_of(request)
        given_up = lease.given_up if lease is not None else None
        site = self.gate.site(authority, request)
        if site is None and given_up is None:
            site = await self.gate.learn(authority, request)
        now = self.gate.clock()
        until = site.standing.held_until(now) if site is not None else 0.0
        if site is not None and until <= now and not await _asked(site, site.allows, request.url):
            self._forbid(request, f"robots.txt of {authority}: {await _asked(site, site.why, request.url)}")
        if given_up is not None and (site is None or until > now or given_up.failure is None):
            raise error_of(given_up, request)  # else it is for the cooldown middleware to do
        if site is None:
            return self._later(request, Trouble(f"robots.txt of {authority} is not known yet"), 0.0)
        return self._later(request, trouble_with(site, authority), until - now) if until > now else None

    def _later(self, request: Request, trouble: Trouble, seconds: float) -> Request:
        """Send a page back, unless nobody waits for it; any other request is nobody's and cannot wait."""
        lease = self.gate.lease_of(request)
        if lease is None:
            raise IgnoreRequest(trouble.reason)
        if lease.is_last:
            raise error_of(trouble, request)
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value("frontier/robots/postponed")
        again = request.replace(dont_filter=True)
        again.meta[POSTPONED], again.meta[POSTPONED_FOR] = trouble.reason, seconds
        return again

    def _forbid(self, request: Request, reason: str) -> None:
        logger.debug("Forbidden by robots.txt: %s", request, extra={"spider": self.crawler.spider})
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value("robotstxt/forbidden")
        error = IgnoreRequest("Forbidden by robots.txt")
        setattr(error, REASON, reason)
        raise error

    # -- what subclasses and listeners of Scrapy's middleware know --------------------------------------

    async def robot_parser(self, request: Request) -> RobotParser | None:
        """The parser for the site of *request*, its file fetched if need be; None for other schemes."""
        authority = origin(request.url)
        site = await self.gate.learn(authority, request) if authority is not None else None
        return None if site is None else site.parser or RulesParser(site.standing.rules)

    def _parser_of(self, body: bytes) -> RobotParser | None:
        return self._parserimpl.from_crawler(self.crawler, body) if self._has_own_parser else None

    async def _told(self, copy: RobotsCopy, request: Request) -> None:
        robots_parsed = getattr(signals, "robots_parsed", None)  # 2.18+
        if robots_parsed is not None:
            parser = self._parser_of(copy.body) or RulesParser.from_crawler(self.crawler, copy.body)
            await self.crawler.signals.send_catch_log_async(
                signal=robots_parsed, robotparser=parser, request=request
            )


async def _asked(site: Site, question: Callable[[str], _T], url: str) -> _T:
    """The answer of *site* about *url*; in a thread where it would stop the event loop."""
    return await compat.in_thread(question, url) if site.is_slow(url) else question(url)


class RulesParser(RobotParser):
    """Our rules behind the interface of Scrapy's parsers; those of another agent are read when asked for."""

    def __init__(self, rules: Rules | None = None, body: bytes = b"") -> None:
        self._rules = rules
        self._body = body
        self._by_agent: dict[str, Rules] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler, robotstxt_body: bytes) -> Self:
        return cls(body=robotstxt_body)

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        return self._rules_for(user_agent).allowed(_text(url))

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        return self._rules_for(user_agent).crawl_delay

    def _rules_for(self, user_agent: str | bytes) -> Rules:
        if self._rules is not None:
            return self._rules
        agent = _text(user_agent)
        if agent not in self._by_agent:
            self._by_agent[agent] = parse(self._body, agent)
        return self._by_agent[agent]


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
