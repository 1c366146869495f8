"""What the robots.txt of each site says, as far as it is known: parsed for those met lately, else as a copy.

What a file means is decided in `core.hosts.robots_expiry`. Without an open frontier (another scheduler) the
copies are kept in memory.

The parsers of robots.txt that users choose, and ours behind the same interface.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from scrapy import Request, signals
from scrapy.robotstxt import RobotParser
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.misc import load_object
from scrapy.utils.python import to_unicode

from ..core import reasons
from ..core.hosts.robots_policy import RobotsStatus, is_current, robots_status, unasked
from ..core.parse.robots_txt import parse
from ..core.parse.urls import origin_of
from . import scrapy_internals
from .clock import steady_clock
from .politeness_key import PolitenessKeys

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

    from ..core.frontier import Frontier
    from ..core.hosts.host import Trouble
    from ..core.parse.robots_txt import Rules
    from ..core.store.records import RobotsCopy
    from ..settings import FrontierSettings
    from .clock import Standstill


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


SITES_KEPT = 2000  # sites whose rules are kept parsed; the rest is read from the store again
BYTES_KEPT = 4_000_000  # of their files at most: rules take 20 times as much, and a file may have 500 KiB
LARGE_FILE = 20_000  # bytes of a file that is parsed in a thread: some take 1 us a byte, and the loop waits
USUAL_LENGTH = 2000  # characters of a URL
SLOW = 0.01  # seconds; rules that may take longer to say whether a URL is allowed do so in a thread


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Site(NamedTuple):
    """What holds for the pages of one origin (scheme://host:port), for one user agent."""

    origin: str
    robots_status: RobotsStatus
    parser: RobotParser | None  # of the user's choice; it then says what is allowed
    agent: str
    size: int  # bytes of the file
    failure: Exception | None = None  # with which it could not be fetched in this run
    delay: float = 0.0  # seconds between two requests, where it is the same at any time
    is_timed: bool = False  # as `RobotsStatus`, asked once
    is_open: bool = False  # the same; False of the user's parser
    is_quick: bool = False  # it takes no time to say whether a URL of a usual length is allowed

    def allows(self, url: str) -> bool:
        """Whether *url* may be fetched, by the user's parser or our rules; see `is_slow`."""
        if self.parser is not None:
            return self.parser.allowed(url, self.agent)
        return self.robots_status.rules.allowed(url)

    def is_slow(self, url: str) -> bool:
        """Whether `allows` and `why` would stop the event loop for more than `SLOW` seconds: then ask in a
        thread. False of the user's parser, which nobody knows."""
        is_quick = self.is_quick and len(url) <= USUAL_LENGTH
        return not is_quick and self.parser is None and self.robots_status.rules.cost(url) > SLOW

    def why(self, url: str) -> str:
        """What forbids *url*, for people: the line of the file and its number."""
        return "says ROBOTSTXT_PARSER" if self.parser is not None else self.robots_status.rules.where(url)

    @property
    def trouble(self) -> Trouble:
        """Why its pages wait, for `Frontier.hold`."""
        return self.robots_status.trouble(self.origin, self.failure)


def agent_header(request: Request) -> list[bytes] | None:
    """What *request* itself says of its agent; None where it says nothing."""
    return dict.get(request.headers, b"User-Agent") if request.headers else None


class Agents:
    """The names by which requests are judged: ``ROBOTSTXT_USER_AGENT``, else what they say themselves, else
    ``USER_AGENT``."""

    def __init__(self, settings: BaseSettings) -> None:
        self._own, self._default = (settings[name] or "" for name in ("ROBOTSTXT_USER_AGENT", "USER_AGENT"))

    def of(self, request: Request) -> str:
        """The name that *request* is judged by; empty where no setting names any."""
        header = agent_header(request)
        return str(self._own or (header[0].decode("latin-1") if header else self._default))


class Decision(NamedTuple):
    """What the robots.txt of a site says of the request for a ``url``, as of when it was asked."""

    url: str
    header: list[bytes] | None  # of the request, by which its agent is known
    origin: str | None  # None: no robots.txt speaks of it
    site: Site | None  # None: not known
    until: float  # POSIX seconds before which the page is not to be fetched
    delay: float  # seconds that the site wants between two requests
    is_allowed: bool | None  # None: not asked yet, because it waits or the answer takes long

    async def allows(self) -> bool:
        """Whether the page may be fetched; worked out in a thread where that would stop the event loop."""
        assert self.site is not None
        if self.is_allowed is not None:
            return self.is_allowed
        if self.site.is_slow(self.url):
            return await scrapy_internals.in_thread(self.site.allows, self.url)
        return self.site.allows(self.url)

    async def why(self) -> str:
        """What forbids the page, for people, as its record keeps it; worked out in a thread where it takes
        long."""
        assert self.site is not None
        slow = self.site.is_slow(self.url)
        rule = await scrapy_internals.in_thread(self.site.why, self.url) if slow else self.site.why(self.url)
        return reasons.FORBIDDEN(origin=self.site.origin, rule=rule)


_origin = lru_cache(maxsize=2048)(origin_of)


def origin_for(request: Request) -> str | None:
    """The site (scheme://host:port) whose robots.txt speaks of *request*; None where none does, or nobody is
    to obey it. 1 us for a host met lately."""
    url = request.url
    return None if request.meta.get("dont_obey_robotstxt") else _origin(url[: url.find("/", 8) + 1] or url)


class LruCache(OrderedDict[_Key, _Value]):
    """Keeps what was used last: `SITES_KEPT` at most, made from no more than `BYTES_KEPT`."""

    def __init__(self, size_of: Callable[[_Value], int]) -> None:
        super().__init__()
        self._size_of = size_of
        self._bytes = 0

    def keep(self, key: _Key, value: _Value) -> None:
        """Have *value* be the one used last; those used longest ago go, never the last one."""
        self.drop(key)
        self[key] = value
        self._bytes += self._size_of(value)
        while len(self) > SITES_KEPT or (self._bytes > BYTES_KEPT and len(self) > 1):
            self.drop(next(iter(self)))

    def drop(self, key: _Key) -> None:
        """Let go of *key*, if it is there."""
        if key in self:
            self._bytes -= self._size_of(self.pop(key))


@dataclass(eq=False, repr=False)
class RobotsServices:
    """What the parts of a gate find around them until `close`: with a *frontier* the clocks of its hosts, and
    a place for copies. *listed* is called with the sitemaps that a file names, maybe none, whenever it comes
    into memory."""

    crawler: Crawler
    settings: FrontierSettings
    clock: Callable[[], float] = field(default_factory=steady_clock)
    frontier: Frontier | None = None
    politeness_keys: PolitenessKeys = field(default_factory=PolitenessKeys)
    standstill: Standstill | None = None
    listed: Callable[[str, tuple[str, ...]], None] | None = None
    is_closed = False

    def close(self) -> None:
        """Have nothing more begun, and the frontier touched no more, nor a sitemap named: what is under way
        ends without."""
        self.is_closed, self.frontier, self.listed = True, None, None


@dataclass(eq=False, repr=False)
class KnownSites:
    """What is known of the sites of a crawl."""

    _services: RobotsServices

    def __post_init__(self) -> None:
        self.agent_of = Agents(self._services.crawler.settings).of
        self.parsers = Parsers(self._services.crawler)
        self._sites: LruCache[tuple[str, str], Site] = LruCache(lambda site: site.size)
        # Where there is no frontier to keep them, and for this run alone: of a cache that stands for the web,
        # as no other run knows how old these are, and of what the project refuses to ask for.
        self._copies: LruCache[str, RobotsCopy] = LruCache(lambda copy: len(copy.body))

    def known(self, origin: str, agent: str) -> Site | None:
        """What holds for *origin* by what is known now; None where somebody has to be asked, or a kept
        file is too large to be parsed here. A lookup where it is not in memory."""
        key = origin, agent
        site = self._sites.get(key)
        if site is not None:
            if site.robots_status.ask_at > self._services.clock():
                self._sites.move_to_end(key)
                return site
            self._sites.drop(key)
            return None
        copy = self.copy(origin)
        if copy is None or not is_current(copy, self._services.clock()) or len(copy.body) > LARGE_FILE:
            return None
        if self._services.frontier is not None:
            self._services.crawler.stats.inc_value("frontier/robots/read")
        return self.learn(origin, agent, self.read(copy, origin, agent), copy)

    def decide(self, request: Request, now: float) -> Decision:
        """What is known of *request* at *now* (POSIX seconds); nobody is asked."""
        url, header, origin = request.url, agent_header(request), origin_for(request)
        site = self.known(origin, self.agent_of(request)) if origin is not None else None
        if site is None:
            return Decision(url, header, origin, None, 0.0, 0.0, None)
        until, delay = 0.0, site.delay
        if site.is_timed:
            until = site.robots_status.held_until(now)
            delay = site.robots_status.delay(now, self._services.settings.crawl_delay_max)
        is_allowed = True if site.is_open else None
        if is_allowed is None and until <= now and not site.is_slow(url):
            is_allowed = site.allows(url)
        return Decision(url, header, origin, site, until, delay, is_allowed)

    def read(self, copy: RobotsCopy, origin: str, agent: str) -> RobotsStatus:
        """What a *copy* says to *agent* now; touches nothing else, so a thread may ask. 1 us a byte at
        worst."""
        return robots_status(copy, self._services.clock(), agent, f"{origin}/robots.txt")

    def learn(
        self,
        origin: str,
        agent: str,
        found: RobotsStatus,
        copy: RobotsCopy,
        failure: Exception | None = None,
    ) -> Site:
        """Keep in memory what a *copy* says (*found* by `read`), and name its sitemaps to who listens.
        *failure* is what kept it from being fetched."""
        parser = self.parsers.of(copy.body)
        site = Site(
            origin,
            found,
            parser,
            agent,
            len(copy.body),
            failure,
            found.delay(self._services.clock(), self._services.settings.crawl_delay_max),
            found.is_timed,
            is_open=parser is None and found.is_open,
            is_quick=found.rules.cost("x" * USUAL_LENGTH) <= SLOW,
        )
        self._sites.keep((origin, agent), site)
        listed = self._services.listed
        if listed is not None and not copy.failures:
            listed(origin, tuple(found.rules.sitemaps))
        return site

    def copy(self, origin: str) -> RobotsCopy | None:
        """What is kept of the robots.txt of *origin*, None where nothing is; a lookup where there is a
        frontier."""
        copy = self._copies.get(origin)
        if copy is None and self._services.frontier is not None:
            return self._services.frontier.robots_copy(origin)
        return copy

    def keep(self, origin: str, copy: RobotsCopy) -> None:
        """Keep a *copy*, in the store where there is a frontier, committed, and no cache stands for the web.
        Raises `FrontierUnwritable`."""
        if self._services.frontier is not None and not self._services.settings.replays:
            self._services.frontier.keep_robots_copy(origin, copy)
            self._copies.drop(origin)
        else:
            self._copies.keep(origin, copy)

    def leave_unasked(self, origin: str, before: RobotsCopy | None) -> RobotsCopy:
        """What holds in this run of a file that the project refuses to ask for (`unasked`)."""
        self._services.crawler.stats.inc_value("frontier/robots/refused")
        copy = unasked(before, self._services.clock())
        self._copies.keep(origin, copy)
        return copy
