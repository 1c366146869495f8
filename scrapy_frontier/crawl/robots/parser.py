"""The parsers of robots.txt that users choose, and ours behind the same interface."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from scrapy import Request, signals
from scrapy.robotstxt import RobotParser
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.misc import load_object
from scrapy.utils.python import to_unicode

from ...core.parse.robots_txt import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from ...core.parse.robots_rules import Rules


class Parsers:
    """The parsers that ``ROBOTSTXT_PARSER`` names, where somebody has set it; then they, not our rules, say
    what is allowed."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        chosen = crawler.settings.getpriority("ROBOTSTXT_PARSER") or 0
        is_own = chosen > SETTINGS_PRIORITIES["default"]
        self._cls = load_object(crawler.settings["ROBOTSTXT_PARSER"]) if is_own else None

    def of(self, body: bytes) -> RobotParser | None:
        """The user's parser of a file; None where there is none, or nothing to parse."""
        if not body or self._cls is None:
            return None
        parser: RobotParser = self._cls.from_crawler(self._crawler, body)
        return parser

    async def send_parsed(self, body: bytes, request: Request) -> None:
        """Send Scrapy's signal for a file just fetched, and the request that asked for it first."""
        robots_parsed = getattr(signals, "robots_parsed", None)  # 2.18+
        if robots_parsed is not None:
            cls = self._cls or RulesParser
            parser = cls.from_crawler(self._crawler, body)
            await self._crawler.signals.send_catch_log_async(
                signal=robots_parsed, robotparser=parser, request=request
            )


_text = partial(to_unicode, errors="replace")


class RulesParser(RobotParser):
    """Our rules behind the interface of Scrapy's parsers; *rules_of* says those of an agent, parsed when it
    is asked for first."""

    def __init__(self, rules_of: Callable[[str], Rules]) -> None:
        self._rules_of = rules_of

    @classmethod
    def from_crawler(cls, crawler: Crawler, robotstxt_body: bytes) -> Self:
        """The parser of a file, as Scrapy makes its own; parsed when an agent is asked for first."""
        return cls(cache(partial(parse, robotstxt_body)))

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        """Whether *user_agent* may fetch *url*, by RFC 9309 section 2.2: the longest rule that matches
        decides, and where none does it may."""
        return self._rules_of(_text(user_agent)).allowed(_text(url))

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        """Seconds that the file asks *user_agent* to leave between two requests; None where it asks none."""
        return self._rules_of(_text(user_agent)).crawl_delay
