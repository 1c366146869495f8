"""The errands that find out what robots.txt says, a few at a time, each by the clock of its host."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..core.errors import FrontierUnwritable
from ..core.hosts.cooldown import Trouble
from ..core.hosts.robots_expiry import Answer, is_current, learnt
from ..core.parse.headers import TOO_BUSY
from ..core.parse.urls import host_of
from ..core.store.site_rows import RobotsCopy, Verdict
from ..core.time_format import span
from . import compat
from .private_network import is_led_to, leads_inside
from .robots_fetch import RobotsFetcher
from .robots_sites import LARGE, KnownSites, Shelf, Surroundings
from .stats import count

if TYPE_CHECKING:
    from scrapy import Request
    from twisted.internet.defer import Deferred

logger = logging.getLogger(__name__)

AT_ONCE = 64  # errands under way, or `CONCURRENT_REQUESTS` if that is more
BEGUN_AT_ONCE = 8  # errands, 1 ms each; then everybody else gets a turn of the event loop
LONGEST_NAP = 60.0  # seconds until an errand that has to wait asks again


class Asking:
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


@dataclass(eq=False, repr=False)
class Errands:
    """Fetches files for *sites*, by the clocks of their hosts if there is a frontier."""

    _around: Surroundings
    _sites: KnownSites
    asking: dict[str, Asking] = field(default_factory=dict, init=False)
    # Sites in a private network that only public pages led to, and their addresses: nobody is asked.
    _inside: Shelf[str, str] = field(default_factory=lambda: Shelf(len), init=False)
    _queue: deque[str] = field(default_factory=deque, init=False)
    _under_way = 0

    def __post_init__(self) -> None:
        self._fetcher = RobotsFetcher(self._around)
        self._most = max(AT_ONCE, self._around.crawler.settings.getint("CONCURRENT_REQUESTS"))

    def ask(self, authority: str, host: str, request: Request) -> Asking:
        """Have the file of *authority* fetched for a page of *host*, unless that is under way."""
        asking = self.asking.get(authority)
        is_new = asking is None
        if asking is None:
            asking = self.asking[authority] = Asking(host, request)
        if not asking.is_meant:
            asking.is_meant = self._around.settings.redirects.allows_private or not is_led_to(request)
        if is_new and asking.is_meant and not self._is_unresolved(asking):
            self._queue.append(authority)
            compat.call_later(0, self._begin)
        elif is_new:
            compat.start(self._look_up(authority, asking))
        return asking

    def private_address(self, authority: str, request: Request) -> str | None:
        """The address of a site in a private network that nobody asks, because a public page leads there."""
        address = self._inside.get(authority)
        return address if address is not None and is_led_to(request) else None

    def _is_unresolved(self, asking: Asking) -> bool:
        """Whether the page waits under a name that stands for an address not known yet."""
        is_by_name = asking.host == host_of(asking.request.url)
        return self._around.units.are_addresses and is_by_name and not asking.request.meta.get("proxy")

    async def _look_up(self, authority: str, asking: Asking) -> None:
        """Ask a site by the clock of its address, unless that is private and only public pages led there."""
        address = None
        try:
            if not asking.is_meant:
                address = await leads_inside(asking.request)
            if self._is_unresolved(asking):
                asking.host = await self._around.units.looked_up(asking.request.url)
        except Exception:
            extra = {"spider": self._around.crawler.spider}
            logger.error("address of %s", authority, exc_info=True, extra=extra)
        if address is not None and not asking.is_meant and not self._around.is_closed:
            self._inside.keep(authority, address)
            self._let_go(self.asking.pop(authority))
            return
        self._queue.append(authority)
        self._begin()

    def _begin(self) -> None:
        """Start what may start: as many errands as there is room for, each by the clock of its host."""
        for _ in range(BEGUN_AT_ONCE):
            if not self._queue or self._under_way >= self._most or self._around.is_closed:
                return
            authority = self._queue.popleft()
            asking = self.asking[authority]
            copy = self._sites.copy(authority)
            is_known = copy is not None and is_current(copy, self._around.clock())
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

    async def _learn(self, authority: str, asking: Asking, copy: RobotsCopy | None, is_known: bool) -> None:
        """Fetch, keep, parse; whatever happens, let go who waits for it."""
        sites, agent = self._sites, self._sites.agent_of(asking.request)
        try:
            if copy is None or not is_known:
                copy = await self._fetch(authority, asking, copy)
            if self._around.is_closed:
                return
            about, is_large = (copy, authority, agent), len(copy.body) > LARGE
            found = await compat.in_thread(sites.read, *about) if is_large else sites.read(*about)
            sites.learn(authority, agent, found, copy, asking.failure)
        except Exception as error:
            if not isinstance(error, FrontierUnwritable):  # which the scheduler meets too, and says
                count(self._around.crawler, "frontier/errors")
                extra = {"spider": self._around.crawler.spider}
                logger.error("robots.txt of %s", authority, exc_info=True, extra=extra)
            copy = learnt(copy, Answer(None), self._around.clock())
            sites.learn(authority, agent, sites.read(copy, authority, agent), copy)
        finally:
            self._under_way -= 1
            self._let_go(self.asking.pop(authority))
            self._begin()

    async def _fetch(self, authority: str, asking: Asking, before: RobotsCopy | None) -> RobotsCopy:
        answer = await self._fetcher.fetch(f"{authority}/robots.txt", asking.host, self._sleep, before)
        copy = learnt(before, answer, self._around.clock())
        if self._around.is_closed:
            return copy
        if self._around.frontier is not None and not answer.retry_after:
            copy = self._around.frontier.hastened(copy, self._around.clock())
        self._sites.keep(authority, copy)
        asking.failure = answer.failure
        if copy.failures:
            self._cool(copy, answer)
            count(self._around.crawler, "frontier/robots/unreachable")
            error, pause = answer.error or f"HTTP {answer.status}", span(copy.ask_at - self._around.clock())
            meanwhile = "an old copy is used" if copy.body else "its pages wait"
            words = "robots.txt of %s cannot be read (%s); %s, and it is asked again in %s"
            extra = {"spider": self._around.crawler.spider}
            logger.warning(words, authority, error, meanwhile, pause, extra=extra)
        else:
            await self._sites.parsers.tell(copy.body, asking.request)
        return copy

    def _cool(self, copy: RobotsCopy, answer: Answer) -> None:
        """Have a host rest that asks for less. Without an old copy its pages wait as it is."""
        around = self._around
        is_asked = answer.status in TOO_BUSY and copy.verdict is Verdict.PARSE
        if around.frontier is not None and is_asked and around.settings.cooldown.first:
            trouble = Trouble(f"HTTP {answer.status} for robots.txt", answer.retry_after or None)
            if around.frontier.cool(answer.host, trouble, around.clock()).is_new:
                count(around.crawler, "frontier/cooldown/strikes")

    def _let_go(self, asking: Asking) -> None:
        around = self._around
        for done in asking.waiting:
            done.callback(None)
        if around.frontier is not None:
            for host in asking.held:
                around.frontier.release_hold(host, around.clock())
            compat.wake(around.crawler)
