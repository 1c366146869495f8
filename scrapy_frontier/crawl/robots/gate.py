"""robots.txt before pages: each page is decided when the scheduler is about to hand it out.

While nobody knows what its site asks for, the page goes back into the queue, its host is held, and an errand
fetches robots.txt by the host's own clock: no place of `CONCURRENT_REQUESTS` is taken by what waits. The
middleware obeys the decision that the flight carries, and asks the same gate for whatever else it meets.
Without an open frontier (another scheduler) the gate knows no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...core.hosts.delay_sources import is_new
from ...core.hosts.robots_expiry import GOES, AtDownload, AtHandOut, at_download, at_hand_out
from ..hosts.private_network import refusal_of
from ..meta_keys import SLOT
from ..scrapy_internals import compat_downloader
from .errands import RobotsQueue
from .sites import Decision, KnownSites, RobotsServices, Site

if TYPE_CHECKING:
    from scrapy import Request

    from ...core.frontier import Lease
    from ...core.hosts.cooldown import Trouble


# Of what no robots.txt speaks, or nobody is asked.
UNDECIDED = Decision("", None, None, None, 0.0, 0.0, None)


@dataclass(eq=False, repr=False)
class Gate:
    """Lets pages pass by what is known of their sites, and what errands find out, until `close`."""

    _services: RobotsServices

    def __post_init__(self) -> None:
        self.clock = self._services.clock
        self._sites = KnownSites(self._services)
        self._robots_queue = RobotsQueue(self._services, self._sites)
        if self._services.frontier is not None:
            compat_downloader.spare_places(self._services.crawler)

    def close(self) -> None:
        """Have nothing more begun, and the frontier touched no more."""
        self._services.close()

    # -- for the scheduler -----------------------------------------------------------------------------

    def admit(self, request: Request, lease: Lease, now: float) -> Decision | None:
        """The decision with which *request* may be handed out now; if None, its lease was put back and its
        host waits.

        A page that its site forbids is let through without a visit of the host (unless that takes long to
        say): the middleware says no, so that its errback is called. So is one that cannot be fetched yet but
        shares its queue with other sites: the middleware postpones it alone. And one in a private network
        that a public page led to.
        """
        frontier, host, decision = self._services.frontier, lease.host, self._sites.decide(request, now)
        _, _, origin, site, until, delay, is_allowed = decision
        if frontier is None or origin is None:
            return UNDECIDED
        is_own_queue, is_new_delay = not lease.page.host, is_new(lease.asked, origin, delay)
        becomes = at_hand_out(site is not None, until - now, is_allowed, is_own_queue, is_new_delay)
        if becomes is GOES:
            return decision
        if becomes is AtHandOut.UNVISITED:
            frontier.skip_visit(lease, now)
            return decision
        if site is None:  # unknown
            return self._ask_first(request, lease, origin, now)
        if becomes is AtHandOut.DELAYED:
            frontier.site_delay(host, delay, now, origin)
        frontier.put_back(lease, now)
        if becomes is AtHandOut.HELD:
            frontier.hold(host, now, until, site.trouble)
        return None

    def _ask_first(self, request: Request, lease: Lease, origin: str, now: float) -> Decision | None:
        """Have *origin* asked for its robots.txt before *request* is handed out; see `admit`."""
        frontier, host = self._services.frontier, lease.host
        assert frontier is not None
        if self._robots_queue.private_address(origin, request) is not None:
            frontier.skip_visit(lease, now)
            return UNDECIDED
        # The first page has its turn: hosts without end must not have their files fetched all at once.
        frontier.put_back(lease, now, is_replaced=origin not in self._robots_queue.errands)
        frontier.hold(host, now)
        self._robots_queue.ask(origin, host, request).held.add(host)
        return None

    def report(self) -> None:
        """Bring two stats up to date that say how things are now: files being asked for, hosts held for
        theirs."""
        services, stats = self._services, self._services.crawler.stats
        if services.frontier is not None:
            stats.set_value("frontier/robots/asking", len(self._robots_queue.errands))
            stats.set_value("frontier/robots/held", len(services.frontier.held(self.clock())))

    # -- for the middleware, and for whoever wants to know -----------------------------------------------

    async def answer(
        self, request: Request, decision: Decision | None, given_up: Trouble | None
    ) -> tuple[AtDownload, Decision | None, float]:
        """What becomes of *request*, the decision by which, and the seconds it has to wait. A *decision* that
        was made for it stands; else its robots.txt is fetched if need be, but nobody is asked where its
        origin is *given_up*. No decision where nothing is known, and where the crawl ends first."""
        if decision is None:
            decision = self._sites.decide(request, self.clock())
            if decision.site is None and decision.origin is not None and given_up is None:
                await self.site_of(decision.origin, request)
                decision = self._sites.decide(request, self.clock())
        is_known = decision.site is not None
        wait = decision.until - self.clock() if is_known else 0.0
        is_allowed = await decision.allows() if is_known and wait <= 0 else None
        answer = at_download(is_known, wait, is_allowed, given_up)
        return answer, decision if is_known else None, wait

    async def site_of(self, origin: str, request: Request) -> Site | None:
        """What holds for *origin*, fetched if need be; None when the crawl ends first, or its host has to be
        left alone for longer than a request is kept waiting.

        Raises `IgnoreRequest` where a public page leads into a private network: nobody is asked there.
        """
        while not self._services.is_closed:
            site = self._sites.known(origin, self._sites.agent_of(request))
            if site is not None:
                return site
            address = self._robots_queue.private_address(origin, request)
            if address is not None:
                raise refusal_of(address)
            host = str(request.meta.get(SLOT) or self._services.politeness_keys.of(request.url))
            errand = self._robots_queue.ask(origin, host, request)
            await errand.wait()
            if errand.was_left:
                break
        return None
