"""robots.txt before pages: each page is decided when the scheduler is about to hand it out.

While nobody knows what its site asks for, the page goes back into the queue, its host is held, and an errand
fetches robots.txt by the host's own clock: no place of `CONCURRENT_REQUESTS` is taken by what waits. The
middleware obeys the decision that the flight carries, and asks the same gate for whatever else it meets.
Without an open frontier (another scheduler) the gate knows no clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from ..core import reasons
from . import compat, downloader
from .clock import steady_clock
from .politeness_key import Units
from .private_network import refusal_of
from .robots_errands import Errands
from .robots_fetch import RobotsFetcher
from .robots_parser import Parsers
from .robots_sites import KnownSites, authority_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from ..core.frontier import Frontier
    from ..core.pages.leases import Lease
    from ..settings import FrontierSettings
    from .robots_sites import Site


class Decision(NamedTuple):
    """What the robots.txt of a site says of the request for a ``url`` by an ``agent``."""

    url: str
    agent: str
    site: Site | None  # None: nobody asked
    until: float  # POSIX seconds before which the page is not to be fetched
    is_allowed: bool | None  # None: not asked yet, because it waits or the answer takes long

    @property
    def is_forbidden(self) -> bool:
        return self.is_allowed is False

    async def allows(self) -> bool:
        """Whether the page may be fetched; worked out in a thread where that would stop the event loop."""
        assert self.site is not None
        if self.is_allowed is not None:
            return self.is_allowed
        if self.site.is_slow(self.url):
            return await compat.in_thread(self.site.allows, self.url)
        return self.site.allows(self.url)

    async def why(self) -> str:
        """What forbids the page, for people."""
        assert self.site is not None
        slow = self.site.is_slow(self.url)
        rule = await compat.in_thread(self.site.why, self.url) if slow else self.site.why(self.url)
        return reasons.FORBIDDEN(authority=self.site.authority, rule=rule)


UNDECIDED = Decision("", "", None, 0.0, None)  # of what no robots.txt speaks, or nobody is asked


class Gate:
    """Lets pages pass by what *sites* say and *errands* find out; with a *frontier* by its hosts."""

    def __init__(
        self,
        crawler: Crawler,
        crawl_delay_max: float,
        clock: Callable[[], float],
        frontier: Frontier | None,
        units: Units,
        sites: KnownSites,
        errands: Errands,
    ) -> None:
        self._crawler = crawler
        self._crawl_delay_max = crawl_delay_max
        self.clock = clock
        self._frontier = frontier
        self._units = units
        self._sites = sites
        self._errands = errands

    def close(self) -> None:
        """Start nothing more, and touch the frontier no more."""
        self._errands.close()
        self._sites.close()
        self._frontier = None

    # -- for the scheduler -----------------------------------------------------------------------------

    def admit(self, request: Request, lease: Lease, now: float) -> Decision | None:
        """The decision with which *request* may be handed out now; if None, its lease was put back and its
        host waits.

        A page that its site forbids is let through without a visit of the host (unless that takes long to
        say): the middleware says no, so that its errback is called. So is one that cannot be fetched yet but
        shares its queue with other sites: the middleware sends it back alone. And one in a private network
        that a public page led to.
        """
        authority = authority_of(request)
        frontier, host = self._frontier, lease.host
        if frontier is None or authority is None:
            return UNDECIDED
        agent = self._sites.agent_of(request)
        site = self._sites.known(authority, agent)
        if site is None:
            if self._errands.private_address(authority, request) is not None:
                frontier.skip_visit(lease, now)
                return UNDECIDED
            # The first page has its turn: hosts without end must not have their files fetched all at once.
            frontier.put_back(lease, now, is_replaced=authority not in self._errands.asking)
            frontier.hold(host, now)
            self._errands.ask(authority, host, request).held.add(host)
            return None
        until = site.standing.held_until(now)
        if until > now and not lease.page.host:
            frontier.put_back(lease, now)
            frontier.hold(host, now, until, site.trouble)
            return None
        delay = site.standing.delay(now, self._crawl_delay_max)
        if frontier.site_delay(host, delay, now, authority):
            frontier.put_back(lease, now)
            return None
        decision = _decide(site, request.url, agent, until, now)
        if until > now or decision.is_forbidden:
            frontier.skip_visit(lease, now)
        return decision

    def report(self) -> None:
        """Bring the stats up to date that say how things are now."""
        if self._crawler.stats is not None and self._frontier is not None:
            held = len(self._frontier.held(self.clock()))
            self._crawler.stats.set_value("frontier/robots/asking", len(self._errands.asking))
            self._crawler.stats.set_value("frontier/robots/held", held)

    # -- for the middleware, and for whoever wants to know -----------------------------------------------

    def holds_for(self, decision: Decision, request: Request) -> bool:
        """Whether *decision* is about *request* as it is now."""
        return decision.url == request.url and decision.agent == self._sites.agent_of(request)

    async def decide(self, authority: str, request: Request, is_to_ask: bool = True) -> Decision | None:
        """What the robots.txt of *authority* says of *request*; None where that is not known, and when the
        crawl ends first. It is fetched if need be, unless nobody *is_to_ask*."""
        agent = self._sites.agent_of(request)
        site = self._sites.known(authority, agent)
        if site is None and is_to_ask:
            site = await self.learn(authority, request)
        now = self.clock()
        return None if site is None else _decide(site, request.url, agent, site.standing.held_until(now), now)

    async def learn(self, authority: str, request: Request) -> Site | None:
        """What holds for *authority*, fetched if need be; None when the crawl ends first.

        Raises `IgnoreRequest` where a public page leads into a private network: nobody is asked there.
        """
        while not self._errands.is_closed:
            site = self._sites.known(authority, self._sites.agent_of(request))
            if site is not None:
                return site
            address = self._errands.private_address(authority, request)
            if address is not None:
                raise refusal_of(address)
            done: Deferred[None] = Deferred()
            host = str(request.meta.get("download_slot") or self._units.of(request.url))
            self._errands.ask(authority, host, request).waiting.append(done)
            await maybe_deferred_to_future(done)
        return None


def _decide(site: Site, url: str, agent: str, until: float, now: float) -> Decision:
    is_asked = until <= now and not site.is_slow(url)
    return Decision(url, agent, site, until, site.allows(url) if is_asked else None)


def make_gate(
    crawler: Crawler,
    settings: FrontierSettings,
    clock: Callable[[], float] | None = None,
    frontier: Frontier | None = None,
    units: Units | None = None,
    listed: Callable[[str, tuple[str, ...]], None] | None = None,
) -> Gate:
    """A gate and its parts; without a *frontier* for a crawl with another scheduler."""
    clock, units = clock or steady_clock(), units or Units()
    parsers = Parsers(crawler)
    sites = KnownSites(crawler, clock, frontier, parsers, listed)
    fetcher = RobotsFetcher(crawler, settings.robots_timeout, clock, frontier, units)
    errands = Errands(crawler, settings, clock, frontier, units, sites, parsers, fetcher)
    if frontier is not None:
        downloader.spare_places(crawler)
    return Gate(crawler, settings.crawl_delay_max, clock, frontier, units, sites, errands)
