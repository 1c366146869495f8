"""robots.txt before pages: what is known of each site, and the errands that find out.

The scheduler asks `Gate.admits` for each page that it is about to hand out. While nobody knows what its site
asks for, the page goes back into the queue, its host is held, and an errand fetches robots.txt by the host's
own clock: no place of `CONCURRENT_REQUESTS` is taken by what waits. The middleware asks the same gate. What
an answer means is decided in `core.robots_answers` and `core.robots_copy`. Without an open frontier (another
scheduler) the gate knows no clock and keeps its copies in memory.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from ..core.errors import FrontierUnwritable
from ..core.hosts.robots_cache import Standing, is_current, learnt, standing
from ..core.hosts.troubles import Trouble
from ..core.parse.headers import TOO_BUSY
from ..core.parse.urls import host_of, origin
from ..core.store.site_rows import RobotsCopy, Verdict
from ..core.times import span
from ..settings import ADDRESS
from . import compat, downloader
from .clock import steady_clock
from .private_network import is_led_to, leads_inside, refusal_of
from .robots_fetch import Answer, RobotsFetcher
from .stats import count

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.robotstxt import RobotParser

    from ..core.pages.leases import Lease
    from ..settings import FrontierSettings
    from .runtime import Runtime

logger = logging.getLogger(__name__)

KNOWN = 2000  # sites whose rules are kept parsed; the rest is read from the store again
KNOWN_BYTES = 4_000_000  # of their files at most: rules take 20 times as much, and a file may have 500 KiB
AT_ONCE = 64  # errands under way, or `CONCURRENT_REQUESTS` if that is more
BEGUN_AT_ONCE = 8  # errands, 1 ms each; then everybody else gets a turn of the event loop
LARGE = 20_000  # bytes of a file that is parsed in a thread: some take 1 us a byte, and the event loop waits
SLOW = 0.01  # seconds; rules that may take longer to say whether a URL is allowed do so in a thread
LONGEST_NAP = 60.0  # seconds until an errand that has to wait asks again


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Site(NamedTuple):
    """What holds for the pages of one authority, for one user agent."""

    standing: Standing
    copy: RobotsCopy
    parser: RobotParser | None  # of the user's choice; it then says what is allowed
    agent: str
    size: int  # bytes of the file
    failure: Exception | None = None  # with which it could not be fetched in this run

    def allows(self, url: str) -> bool:
        if self.parser is not None:
            return self.parser.allowed(url, self.agent)
        return self.standing.rules.allowed(url)

    def is_slow(self, url: str) -> bool:
        """Whether `allows` and `why` would stop the event loop."""
        return self.parser is None and self.standing.rules.cost(url) > SLOW

    def why(self, url: str) -> str:
        """What forbids *url*, for people."""
        return "says ROBOTSTXT_PARSER" if self.parser is not None else self.standing.rules.where(url)


def trouble_with(site: Site, authority: str) -> Trouble:
    """Why the pages of a site wait."""
    what = "cannot be read" if site.copy.failures else "asks for other hours"
    reason = f"robots.txt of {authority} {what}"
    return Trouble(reason, attempts=site.copy.failures, origin=authority, failure=site.failure)


class _Shelf(OrderedDict[_Key, _Value]):
    """Keeps what was used last: at most `KNOWN` things, and `KNOWN_BYTES` of what they were made from."""

    def __init__(self, size_of: Callable[[_Value], int]) -> None:
        super().__init__()
        self._size_of = size_of
        self._bytes = 0

    def keep(self, key: _Key, value: _Value) -> None:
        self.drop(key)
        self[key] = value
        self._bytes += self._size_of(value)
        while len(self) > KNOWN or (self._bytes > KNOWN_BYTES and len(self) > 1):
            self.drop(next(iter(self)))

    def drop(self, key: _Key) -> None:
        if key in self:
            self._bytes -= self._size_of(self.pop(key))


class _Asking:
    """A robots.txt that is being fetched, or waits to be: for which hosts, and who waits for it.

    ``is_meant`` unless only public pages elsewhere led to the site: then it may turn out to be private.
    """

    def __init__(self, host: str, request: Request) -> None:
        self.host = host
        self.request = request
        self.failure: Exception | None = None
        self.is_meant = False
        self.held: set[str] = set()
        self.waiting: list[Deferred[None]] = []


class Gate:
    """*told* is called with each file just fetched and the request that asked for it first; *parser_of* makes
    a parser of the user's choice, or None."""

    def __init__(
        self,
        crawler: Crawler,
        settings: FrontierSettings,
        parser_of: Callable[[bytes], RobotParser | None],
        told: Callable[[RobotsCopy, Request], Awaitable[None]],
    ) -> None:
        self._crawler = crawler
        self._settings = settings
        self._parser_of = parser_of
        self._told = told
        self._agent = str(crawler.settings["ROBOTSTXT_USER_AGENT"] or "")
        self._default_agent = str(crawler.settings["USER_AGENT"] or "")
        self._sites: _Shelf[tuple[str, str], Site] = _Shelf(lambda site: site.size)
        # Where there is no frontier to keep them.
        self._copies: _Shelf[str, RobotsCopy] = _Shelf(lambda copy: len(copy.body))
        self._asking: dict[str, _Asking] = {}
        # Sites in a private network that only public pages led to, and their addresses: nobody is asked.
        self._inside: _Shelf[str, str] = _Shelf(len)
        self._queue: deque[str] = deque()
        self._under_way = 0
        self._most = max(AT_ONCE, crawler.settings.getint("CONCURRENT_REQUESTS"))
        self._runtime: Runtime | None = None
        self._is_closed = False
        self._fetcher = RobotsFetcher(crawler, settings.robots_timeout)
        self._fetcher.sleep = self._sleep
        self.clock = steady_clock()

    def open(self, runtime: Runtime) -> None:
        """Work by the clocks of the frontier of *runtime*, and keep copies there."""
        self._runtime = runtime
        self.clock = runtime.clock
        self._fetcher.frontier = runtime.frontier
        self._fetcher.clock = runtime.clock
        self._fetcher.unit_of = runtime.looked_up_unit_of
        downloader.spare_places(self._crawler)

    def close(self) -> None:
        """Start nothing more, and touch the frontier no more."""
        self._is_closed = True
        self._fetcher.close()
        self._runtime = None

    # -- for the scheduler -----------------------------------------------------------------------------

    def admits(self, request: Request, lease: Lease, now: float) -> bool:
        """Whether *request* may be handed out now; if not, its lease was put back and its host waits.

        A page that its site forbids is let through without a visit of the host (unless that takes long to
        say): the middleware says no, so that its errback is called. So is one that cannot be fetched yet but
        shares its queue with other sites: the middleware sends it back alone. And one in a private network
        that a public page led to.
        """
        runtime = self._runtime
        authority = None if request.meta.get("dont_obey_robotstxt") else origin(request.url)
        if runtime is None or authority is None:
            return True
        frontier, host = runtime.frontier, lease.host
        site = self.site(authority, request)
        if site is None and self._is_inside(authority, request):
            frontier.skip_visit(lease.id, now)
            return True
        if site is None:
            # The first page has its turn: hosts without end must not have their files fetched all at once.
            frontier.put_back(lease.id, now, is_replaced=authority not in self._asking)
            frontier.hold(host, now)
            self._ask(authority, host, request).held.add(host)
            return False
        until = site.standing.held_until(now)
        if until > now and not lease.page.host:
            frontier.put_back(lease.id, now)
            frontier.hold(host, now, until, trouble_with(site, authority))
            return False
        delay = site.standing.delay(now, self._settings.crawl_delay_max)
        if frontier.site_delay(host, delay, now, authority):
            frontier.put_back(lease.id, now)
            return False
        if until > now or not (site.is_slow(request.url) or site.allows(request.url)):
            frontier.skip_visit(lease.id, now)
        return True

    def report(self) -> None:
        """Bring the stats up to date that say how things are now."""
        if self._crawler.stats is not None and self._runtime is not None:
            held = len(self._runtime.frontier.held(self.clock()))
            self._crawler.stats.set_value("frontier/robots/asking", len(self._asking))
            self._crawler.stats.set_value("frontier/robots/held", held)

    # -- for the middleware, and for whoever wants to know -----------------------------------------------

    def lease_of(self, request: Request) -> Lease | None:
        """The lease of a request that the frontier handed out, and takes back."""
        return self._runtime.lease_of(request) if self._runtime is not None else None

    async def learn(self, authority: str, request: Request) -> Site | None:
        """What holds for *authority*, fetched if need be; None when the crawl ends first.

        Raises `IgnoreRequest` where a public page leads into a private network: nobody is asked there.
        """
        while not self._is_closed:
            site = self.site(authority, request)
            if site is not None:
                return site
            if self._is_inside(authority, request):
                raise refusal_of(self._inside[authority])
            done: Deferred[None] = Deferred()
            slot = request.meta.get("download_slot")
            self._ask(authority, str(slot or self._unit_of(request.url)), request).waiting.append(done)
            await maybe_deferred_to_future(done)
        return None

    def sitemaps(self, authority: str) -> tuple[str, ...]:
        """URLs of the Sitemap lines in the robots.txt of *authority*; none while it is not known."""
        copy = self._copy(authority)
        url = f"{authority}/robots.txt"
        return standing(copy, self.clock(), "*", url).rules.sitemaps if copy is not None else ()

    def site(self, authority: str, request: Request) -> Site | None:
        """What holds for *authority* by what is known now; None where somebody has to be asked."""
        agent = self._agent or self._agent_of(request)
        key = authority, agent
        site = self._sites.get(key)
        if site is not None:
            if site.standing.ask_at > self.clock():
                self._sites.move_to_end(key)
                return site
            self._sites.drop(key)
            return None
        copy = self._copy(authority)
        if copy is None or not is_current(copy, self.clock()) or len(copy.body) > LARGE:
            return None
        if self._runtime is not None:
            count(self._crawler, "frontier/robots/read")
        return self._remember(key, self._read(copy, authority, agent), copy)

    def _agent_of(self, request: Request) -> str:
        own = dict.get(request.headers, b"User-Agent") if request.headers else None
        return own[0].decode("latin-1") if own else self._default_agent

    def _read(self, copy: RobotsCopy, authority: str, agent: str) -> Standing:
        return standing(copy, self.clock(), agent, f"{authority}/robots.txt")

    def _remember(
        self, key: tuple[str, str], found: Standing, copy: RobotsCopy, failure: Exception | None = None
    ) -> Site:
        parser = self._parser_of(copy.body) if copy.body else None
        site = Site(found, copy._replace(body=b""), parser, key[1], len(copy.body), failure)
        self._sites.keep(key, site)
        if self._runtime is not None and not copy.failures:
            self._runtime.sitemaps_listed(key[0], found.rules.sitemaps)
        return site

    def _copy(self, authority: str) -> RobotsCopy | None:
        if self._runtime is not None:
            return self._runtime.frontier.robots_copy(authority)
        return self._copies.get(authority)

    def _keep(self, authority: str, copy: RobotsCopy) -> None:
        if self._runtime is not None:
            self._runtime.frontier.keep_robots_copy(authority, copy)
            return
        self._copies.keep(authority, copy)

    # -- errands ---------------------------------------------------------------------------------------

    def _ask(self, authority: str, host: str, request: Request) -> _Asking:
        asking = self._asking.get(authority)
        is_new = asking is None
        if asking is None:
            asking = self._asking[authority] = _Asking(host, request)
        if not asking.is_meant:
            asking.is_meant = self._settings.redirects.allows_private or not is_led_to(request)
        if is_new and asking.is_meant and not self._is_unresolved(asking):
            self._queue.append(authority)
            compat.call_later(0, self._begin)
        elif is_new:
            compat.start(self._look_up(authority, asking))
        return asking

    def _unit_of(self, url: str) -> str:
        return host_of(url) if self._runtime is None else self._runtime.unit_of(url)

    def _is_unresolved(self, asking: _Asking) -> bool:
        """Whether the page waits under a name that stands for an address not known yet."""
        if self._runtime is None or self._settings.politeness_key != ADDRESS:
            return False
        is_by_name = asking.host == host_of(asking.request.url)
        return is_by_name and not asking.request.meta.get("proxy")

    def _is_inside(self, authority: str, request: Request) -> bool:
        return authority in self._inside and is_led_to(request)

    async def _look_up(self, authority: str, asking: _Asking) -> None:
        """Ask a site by the clock of its address, unless that is private and only public pages led there."""
        address = None
        try:
            if not asking.is_meant:
                address = await leads_inside(asking.request)
            if self._runtime is not None and self._is_unresolved(asking):
                asking.host = await self._runtime.looked_up_unit_of(asking.request.url)
        except Exception:
            logger.error("address of %s", authority, exc_info=True, extra={"spider": self._crawler.spider})
        if address is not None and not asking.is_meant and not self._is_closed:
            self._inside.keep(authority, address)
            self._let_go(self._asking.pop(authority))
            return
        self._queue.append(authority)
        self._begin()

    def _begin(self) -> None:
        """Start what may start: as many errands as there is room for, each by the clock of its host."""
        for _ in range(BEGUN_AT_ONCE):
            if not self._queue or self._under_way >= self._most or self._is_closed:
                return
            authority = self._queue.popleft()
            asking = self._asking[authority]
            copy = self._copy(authority)
            is_known = copy is not None and is_current(copy, self.clock())
            wait = 0.0 if is_known else self._fetcher.wait(asking.host)
            if wait:
                compat.call_later(min(wait, LONGEST_NAP), self._again, authority)
            else:
                self._under_way += 1
                compat.start(self._learn(authority, asking, copy, is_known))
        compat.call_later(0, self._begin)

    def _again(self, authority: str) -> None:
        self._queue.append(authority)
        self._begin()

    async def _sleep(self, seconds: float) -> None:
        """An errand waits for the host that its file lies on: others have its place meanwhile."""
        self._under_way -= 1
        try:
            self._begin()
            await compat.sleep(seconds)
        finally:
            self._under_way += 1

    async def _learn(self, authority: str, asking: _Asking, copy: RobotsCopy | None, is_known: bool) -> None:
        """Fetch, keep, parse; whatever happens, let go who waits for it."""
        agent = self._agent or self._agent_of(asking.request)
        try:
            if copy is None or not is_known:
                copy = await self._fetch(authority, asking, copy)
            if self._is_closed:
                return
            if len(copy.body) > LARGE:
                found = await compat.in_thread(self._read, copy, authority, agent)
            else:
                found = self._read(copy, authority, agent)
            self._remember((authority, agent), found, copy, asking.failure)
        except Exception as error:
            if not isinstance(error, FrontierUnwritable):  # which the scheduler meets too, and says
                count(self._crawler, "frontier/errors")
                extra = {"spider": self._crawler.spider}
                logger.error("robots.txt of %s", authority, exc_info=True, extra=extra)
            copy = learnt(copy, None, self.clock())
            self._remember((authority, agent), self._read(copy, authority, agent), copy)
        finally:
            self._under_way -= 1
            self._let_go(self._asking.pop(authority))
            self._begin()

    async def _fetch(self, authority: str, asking: _Asking, before: RobotsCopy | None) -> RobotsCopy:
        answer = await self._fetcher.fetch(f"{authority}/robots.txt", asking.host, before)
        copy = learnt(before, answer.status, self.clock(), *answer[1:7])
        if self._is_closed:
            return copy
        if self._runtime is not None and not answer.retry_after:
            copy = self._runtime.frontier.hastened(copy, self.clock())
        self._keep(authority, copy)
        asking.failure = answer.failure
        if copy.failures:
            self._cool(copy, answer)
            count(self._crawler, "frontier/robots/unreachable")
            logger.warning(
                "robots.txt of %s cannot be read (%s); %s, and it is asked again in %s",
                authority,
                answer.error or f"HTTP {answer.status}",
                "an old copy is used" if copy.body else "its pages wait",
                span(copy.ask_at - self.clock()),
                extra={"spider": self._crawler.spider},
            )
        else:
            await self._told(copy, asking.request)
        return copy

    def _cool(self, copy: RobotsCopy, answer: Answer) -> None:
        """Have a host rest that asks for less. Without an old copy its pages wait as it is."""
        is_asked = (
            answer.status in TOO_BUSY and copy.verdict is Verdict.PARSE and self._settings.cooldown.first
        )
        if self._runtime is not None and is_asked:
            trouble = Trouble(f"HTTP {answer.status} for robots.txt", answer.retry_after or None)
            if self._runtime.frontier.cool(answer.host, trouble, self.clock()).is_new:
                count(self._crawler, "frontier/cooldown/strikes")

    def _let_go(self, asking: _Asking) -> None:
        for done in asking.waiting:
            done.callback(None)
        if self._runtime is not None:
            for host in asking.held:
                self._runtime.frontier.release_hold(host, self.clock())
            compat.wake(self._crawler)
