"""Obeys robots.txt: decides each page when the scheduler is about to hand it out.

While a site's file is unknown its page goes back into the queue and its host is held; the file is fetched
beside the pages, by the clock of its host, and takes no place of ``CONCURRENT_REQUESTS``. `Gate` decides,
`KnownSites` keeps what files say, `RobotsFetcher` fetches them. What an answer means is decided in
`core.hosts.robots_policy`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.datatypes import LocalCache
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred, DeferredLock, DeferredSemaphore

from ..core import reasons
from ..core.errors import FrontierUnwritable, span
from ..core.hosts import robots_policy
from ..core.hosts.host import FOREVER, Trouble, is_new
from ..core.hosts.robots_policy import LONGEST_REST, MAX_REDIRECTS, Answer, RobotsStatus
from ..core.parse.headers import REDIRECTS, location
from ..core.parse.urls import host_of, origin_of
from ..core.store.records import Verdict
from . import scrapy_internals
from .host_trouble import CACHED, REASON, error_of, pause_in, record_cooldown
from .meta_keys import SLOT
from .private_network import is_from_private, is_from_public, note_led, refusal_of
from .scrapy_internals import SideRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from ..core.frontier import Frontier, Lease
    from ..core.store.records import RobotsCopy
    from ..settings import FrontierSettings
    from .log import Reporter
    from .politeness_key import PolitenessKeys

logger = logging.getLogger(__name__)

# --- what is known of sites ---------------------------------------------------------------------------------

SITES_KEPT = 2000  # sites whose rules are kept parsed; the rest is read from the store again
BYTES_KEPT = 4_000_000  # of their files at most: rules take 20 times as much, and a file may have 500 KiB
LARGE_FILE = 2_000  # bytes: a larger copy is parsed in a thread, since 1 us a byte holds up the event loop
HUGE_FILE = 20_000  # bytes: no usual file waits while such ones are parsed


class Site(NamedTuple):
    """What holds for the pages of one origin (scheme://host:port), for one user agent."""

    origin: str
    status: RobotsStatus
    size: int  # bytes of the file
    failure: object  # with which it could not be fetched in this run

    def allows(self, url: str) -> bool:
        """Return whether *url* may be fetched."""
        return self.status.rules.allowed(url)

    def why(self, url: str) -> str:
        """Return what forbids *url*, for its record: the line of the file."""
        return reasons.FORBIDDEN(origin=self.origin, rule=self.status.rules.where(url))

    @property
    def trouble(self) -> Trouble:
        """Why its pages wait, for `Frontier.hold`."""
        return self.status.trouble(self.origin, self.failure)


class Decision(NamedTuple):
    """What the robots.txt of a site says of the request for a ``url``, as of when it was asked."""

    url: str
    header: list[bytes] | None  # User-Agent of the request
    origin: str | None  # None: no robots.txt is to be obeyed for it
    site: Site | None = None  # None: not known
    until: float = 0.0  # POSIX seconds before which the page is not to be fetched; 0: now
    delay: float = 0.0  # seconds between two requests that the site asks for
    is_allowed: bool = True  # not asked of a page that has to wait

    def is_about(self, request: Request) -> bool:
        """Return whether it was made for *request* as it is now."""
        return self.url == request.url and self.header == agent_header(request)


UNDECIDED = Decision("", None, None)


def agent_header(request: Request) -> list[bytes] | None:
    """Return what *request* itself says of its agent; None if it says nothing."""
    return dict.get(request.headers, b"User-Agent") if request.headers else None


def agent_of(request: Request, settings: BaseSettings) -> str:
    """Return the name that *request* is judged by: ``ROBOTSTXT_USER_AGENT``, else what it says itself, else
    ``USER_AGENT``; empty if none is named."""
    header = agent_header(request)
    said = header[0].decode("latin-1") if header else settings["USER_AGENT"]
    return str(settings["ROBOTSTXT_USER_AGENT"] or said or "")


_origin = lru_cache(maxsize=2048)(origin_of)


def origin_for(request: Request) -> str | None:
    """Return the site (scheme://host:port) whose robots.txt holds for *request*; None if none does, or none
    is to be obeyed."""
    url = request.url
    return None if request.meta.get("dont_obey_robotstxt") else _origin(url[: url.find("/", 8) + 1] or url)


class SiteCache(OrderedDict[tuple[str, str], Site]):
    """Keeps the sites used last, by origin and agent: `SITES_KEPT` at most, of `BYTES_KEPT` in all."""

    _bytes = 0

    def keep(self, key: tuple[str, str], site: Site) -> None:
        """Keep *site* as the one used last; those used longest ago go, never the last one."""
        self.drop(key)
        self[key] = site
        self._bytes += site.size
        while len(self) > SITES_KEPT or (self._bytes > BYTES_KEPT and len(self) > 1):
            self.drop(next(iter(self)))

    def drop(self, key: tuple[str, str]) -> None:
        """Let go of *key*, if it is there."""
        if key in self:
            self._bytes -= self.pop(key).size


@dataclass(eq=False, repr=False)
class KnownSites:
    """What the files of sites say, parsed for those met lately, else as copies in the store.

    ``listed`` is called with the sitemaps that a file names, maybe none, whenever it comes into memory.
    """

    crawler: Crawler
    settings: FrontierSettings
    clock: Callable[[], float]
    frontier: Frontier
    listed: Callable[[str, tuple[str, ...]], None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._sites = SiteCache()

    def known(self, origin: str, agent: str) -> Site | None:
        """Return what holds for *origin* by what is known now; None if the site has to be asked, or a kept
        file is too large to be parsed here. A lookup if it is not in memory."""
        key, now = (origin, agent), self.clock()
        site = self._sites.get(key)
        if site is not None:
            if site.status.ask_at > now:
                self._sites.move_to_end(key)
                return site
            self._sites.drop(key)
            return None
        copy = self.frontier.robots_copy(origin)
        if copy is None or not robots_policy.is_current(copy, now) or len(copy.body) > LARGE_FILE:
            return None
        return self.learn(origin, agent, self.read(copy, origin, agent), copy)

    def decide(self, request: Request) -> Decision:
        """Return what is known of *request* now; no site is asked."""
        url, header, origin, now = request.url, agent_header(request), origin_for(request), self.clock()
        site = self.known(origin, agent_of(request, self.crawler.settings)) if origin is not None else None
        if site is None:
            return Decision(url, header, origin)
        until = site.status.held_until(now)
        delay = site.status.delay(now)
        return Decision(url, header, origin, site, until, delay, until > now or site.allows(url))

    def is_other_open(self, request: Request, origin: str) -> bool:
        """Return whether the host of *origin*, which keeps *request* waiting, may be asked for pages at
        another scheme or port. O(sites in memory), 0.2 ms at most."""
        host, agent = host_of(origin), agent_of(request, self.crawler.settings)
        both = f"http://{host}", f"https://{host}"
        others = {*both, *(kept for kept, _ in self._sites if kept.startswith(both))} - {origin}
        sites = [self.known(other, agent) for other in others if host_of(other) == host]
        return any(site is not None and not site.status.held_until(self.clock()) for site in sites)

    def read(self, copy: RobotsCopy, origin: str, agent: str) -> RobotsStatus:
        """Return what a *copy* says to *agent* now; touches nothing else, so a thread may ask."""
        return robots_policy.robots_status(copy, self.clock(), agent, f"{origin}/robots.txt")

    def learn(
        self, origin: str, agent: str, status: RobotsStatus, copy: RobotsCopy, failure: object = None
    ) -> Site:
        """Keep in memory what a *copy* says (*status*, by `read`), and tell its sitemaps. *failure* kept it
        from being fetched."""
        site = Site(origin, status, len(copy.body), failure)
        self._sites.keep((origin, agent), site)
        if self.listed is not None and not copy.failures:
            self.listed(origin, status.rules.sitemaps)
        return site


# --- fetching -----------------------------------------------------------------------------------------------

FETCHES_AT_ONCE = 64  # requests for robots.txt under way, or `CONCURRENT_REQUESTS` if that is more
BEGIN_IN = 0.001  # seconds, times the fetches under way: to begin one takes 1 ms of the event loop
LONGEST_NAP = 60.0  # seconds until a fetch that has to wait for its host looks again
NAP = 1.0  # the same while requests under way wait for it
LONGEST_WAIT = 86_400.0  # seconds that a host is held for another one at once

PRIORITY = 1000  # as Scrapy's middleware has it
LONGEST_FILE = 4 << 20  # bytes, also of what a compressed file inflates to; a longer one cannot be read
_META = {
    **dict.fromkeys(("allow_offsite", "dont_obey_robotstxt", "dont_redirect", "dont_retry"), True),
    "download_maxsize": LONGEST_FILE,
    "download_warnsize": 0,
}


_REFUSED = (
    "A downloader middleware of this project refuses %s/robots.txt (%s): pages of such sites are fetched as "
    "if it forbade nothing, unless an older copy does; to have it obeyed, let such requests pass (said once)"
)


@dataclass(eq=False, repr=False)
class RobotsFetch:
    """A robots.txt that is being fetched, or waits to be, and what waits for it.

    ``held`` are hosts that the frontier holds until it has ended, ``waiting`` what requests under way wait
    for. ``was_left``: nothing was learned, because its host rests, or a public page led into a private
    network.
    """

    origin: str
    host: str
    page: Request  # that it is fetched for first
    held: set[str] = field(default_factory=set, init=False)
    waiting: list[Deferred[None]] = field(default_factory=list, init=False)
    failure: Exception | None = field(default=None, init=False)
    was_left: bool = field(default=False, init=False)

    async def wait(self) -> None:
        """Return when it has ended."""
        done: Deferred[None] = Deferred()
        self.waiting.append(done)
        await maybe_deferred_to_future(done)


@dataclass(eq=False, repr=False)
class RobotsFetcher:
    """Fetches files for *sites* by the clocks of their hosts, `FETCHES_AT_ONCE`, past every queue.

    Each fetch is a coroutine: it waits for its host, sends the request, follows redirects, and stores the
    copy. One rule decides when to ask again (`robots_policy.after_answer`). The engine's ``download_async``
    sends the requests, so all downloader middlewares see them. Raises nothing: a failure makes a copy, too.
    """

    _sites: KnownSites
    _politeness_keys: PolitenessKeys
    _reporter: Reporter
    is_closed: bool = field(default=False, init=False)
    under_way: dict[str, RobotsFetch] = field(default_factory=dict, init=False)  # by origin

    def __post_init__(self) -> None:
        sites = self._sites
        self._crawler, self._settings = sites.crawler, sites.settings
        self._clock, self._frontier = sites.clock, sites.frontier
        # Addresses of sites in a private network, by origin, that only public pages led to: they are not
        # asked.
        self._private: LocalCache[str, str] = LocalCache(SITES_KEPT)
        most = max(FETCHES_AT_ONCE, self._crawler.settings.getint("CONCURRENT_REQUESTS"))
        self._places = DeferredSemaphore(most)
        self._reading = DeferredLock(), DeferredLock()  # files, and huge ones
        self._crawler.signals.connect(self._reached_downloader, signals.request_reached_downloader)

    def ask(self, origin: str, host: str, page: Request) -> RobotsFetch:
        """Fetch the file of *origin* for a *page* of *host*, unless that is under way; return the fetch."""
        fetch = self.under_way.get(origin)
        if fetch is None:
            fetch = self.under_way[origin] = RobotsFetch(origin, host, page)
            scrapy_internals.start(self._run(fetch))
        return fetch

    def private_address(self, origin: str, request: Request) -> str | None:
        """Return the address of a site that is not asked, because it is private and a public page led there
        by *request*; None for others."""
        address = self._private.get(origin)
        return address if address is not None and is_from_public(request) else None

    async def _run(self, fetch: RobotsFetch) -> None:
        await scrapy_internals.sleep(BEGIN_IN * min(len(self.under_way), FETCHES_AT_ONCE))
        try:
            if not self.is_closed:
                await self._learn(fetch)
        except Exception as error:
            if not isinstance(error, FrontierUnwritable):  # the scheduler meets and tells that
                self._reporter.tally["frontier/errors"] += 1
                words = "The robots.txt of %s cannot be read, as if it gave no answer; please report this"
                self._reporter.log(logging.ERROR, words, fetch.origin, exc_info=True)
            await self._keep_in_memory(fetch, robots_policy.after_answer(None, Answer(None), self._clock()))
        finally:
            del self.under_way[fetch.origin]
            self._let_go(fetch)

    async def _learn(self, fetch: RobotsFetch) -> None:
        """Fetch, keep and parse a file."""
        copy = self._frontier.robots_copy(fetch.origin)
        if copy is None or not robots_policy.is_current(copy, self._clock()):
            copy = await self._fetch(fetch, copy)
        if copy is not None:
            await self._keep_in_memory(fetch, copy)

    async def _keep_in_memory(self, fetch: RobotsFetch, copy: RobotsCopy) -> None:
        """Parse a file in a thread: dozens may come in one turn of the event loop. At most two at a time:
        beside more threads the loop is so slow that requests time out."""
        origin, agent = fetch.origin, agent_of(fetch.page, self._crawler.settings)
        reading = self._reading[len(copy.body) > HUGE_FILE]
        await maybe_deferred_to_future(reading.acquire())
        try:
            status = await scrapy_internals.in_thread(self._sites.read, copy, origin, agent)
        finally:
            reading.release()
        if not self.is_closed:
            self._sites.learn(origin, agent, status, copy, fetch.failure)

    async def _fetch(self, fetch: RobotsFetch, before: RobotsCopy | None) -> RobotsCopy | None:
        """Return what is known of the file from now on, given what was known *before*; None if nothing was
        asked."""
        answer = await self._ask(fetch, before is not None)
        if answer is None or self.is_closed:
            return None
        # Requests under way have no queue to wait in, and a temporary frontier has no next run.
        is_urgent = bool(fetch.waiting) or self._frontier.is_temporary
        soon = self._settings.retry_times if is_urgent else 0
        copy = robots_policy.after_answer(before, answer, self._clock(), soon)
        if copy.failures and answer.is_refused:
            self._reporter.log_once("refused", logging.WARNING, _REFUSED, fetch.origin, answer.error)
            return robots_policy.unasked(before, self._clock())
        self._frontier.keep_robots_copy(fetch.origin, copy)
        if copy.failures:
            self._tell_of_failure(fetch, answer, copy)
        return copy

    def _tell_of_failure(self, fetch: RobotsFetch, answer: Answer, copy: RobotsCopy) -> None:
        fetch.failure, now = answer.failure, self._clock()
        trouble = robots_policy.trouble_with(answer, copy)
        if trouble is not None and self._settings.cooldown:
            record_cooldown(self._crawler, self._frontier, answer.host, trouble, now)
        self._reporter.tally["frontier/robots/unreachable"] += 1
        meanwhile = "its pages wait" if fetch.held else "what is downloaded there meanwhile fails"
        if copy.body:
            meanwhile = "an old copy is used"
        words = "robots.txt of %s cannot be read (%s); %s, and it is asked again in %s"
        told = fetch.origin, answer.words, meanwhile, span(copy.ask_at - now)
        self._reporter.log(logging.WARNING, words, *told)

    async def _ask(self, fetch: RobotsFetch, is_again: bool) -> Answer | None:
        """Return the answer after at most five redirects, each by the clock of its own host (RFC 9309
        2.3.1.2); None if nothing was asked.

        If it *is_again*, Scrapy's HTTP cache is passed by. No redirect leads from a public host into a
        private network: `PrivateNetworkMiddleware` sees to it.
        """
        url, host = f"{fetch.origin}/robots.txt", fetch.host
        from_public = False
        if self._politeness_keys.are_addresses and host == host_of(url):
            host = await self._politeness_keys.looked_up(url)
        for hop in range(MAX_REDIRECTS + 1):
            if why := await self._in_vain(fetch, host):
                fetch.was_left = not hop
                return Answer(None, error=f"it leads to {why}") if hop else None
            request = self._request(fetch.page, url, host)
            request.page = None if hop else fetch.page
            if from_public:
                note_led(request, from_public)
            if is_again:
                request.meta["dont_cache"] = True  # Scrapy's HTTP cache would say the same again
            try:
                response = await self._download(request, host)
            except Exception as error:
                return self._no_answer(fetch, request, error, hop)
            target = _target(response, url)
            if target is None or hop == MAX_REDIRECTS:
                break
            sent = response.request or request
            if from_public := host_of(target) != host_of(url):
                from_public = not is_from_private(sent, response)
                host = await self._politeness_keys.looked_up(target)
            url = target
        by_proxy = bool((response.request or request).meta.get("proxy"))
        pause = pause_in(response, self._clock())
        return Answer(response.status, response.body, pause, host=host, by_proxy=by_proxy)

    async def _in_vain(self, fetch: RobotsFetch, host: str) -> str:
        """Wait until *host* may be asked, its place is taken, and one of `FETCHES_AT_ONCE` is; empty then.
        Return why, if it is not waited for."""
        while True:
            await maybe_deferred_to_future(self._places.acquire())
            now = self._clock()
            wait = FOREVER if self.is_closed else self._frontier.begin_side_request(host, now)
            if not wait:
                return ""
            self._places.release()
            if self.is_closed or (not fetch.held and scrapy_internals.is_closing(self._crawler)):
                return f"{host}, and the crawl ends"
            if why := robots_policy.why_not_awaited(host, wait, self._frontier.is_cooling(host, now)):
                return why
            self._tell_of_wait(fetch, host, wait)
            await scrapy_internals.sleep(min(wait, LONGEST_NAP if fetch.held else NAP))

    def _tell_of_wait(self, fetch: RobotsFetch, asked: str, wait: float) -> None:
        """Hold the hosts that wait for a fetch for no longer than it waits for the host that is *asked*,
        which may be another: then the end of the crawl knows how long that is. Their first page asks
        again."""
        now = self._clock()
        if wait > NAP and not self.is_closed:
            for host in fetch.held - {asked}:
                self._frontier.hold(host, now, now + min(wait, LONGEST_WAIT))

    def _request(self, page: Request, url: str, host: str) -> SideRequest:
        """Return a request by the proxy that *page* names, if any: there may be no other way to the site. One
        of the environment is for Scrapy to choose."""
        meta = {**_META, SLOT: host, "download_timeout": self._settings.robots_timeout}
        request = SideRequest(url, priority=PRIORITY, callback=NO_CALLBACK, dont_filter=True, meta=meta)
        if "proxy" in page.meta and "_scheme_proxy" not in page.meta:
            request.meta["proxy"] = page.meta["proxy"]
            if "Proxy-Authorization" in page.headers:  # Scrapy has taken it out of the URL
                request.headers["Proxy-Authorization"] = page.headers["Proxy-Authorization"]
        return request

    async def _download(self, request: SideRequest, host: str) -> Response:
        stats, was_asked = self._crawler.stats, True
        try:
            response: Response = await scrapy_internals.engine_of(self._crawler).download_async(request)
            was_asked = request.reached_network or CACHED not in response.flags
            stats.inc_value("robotstxt/response_count")
            stats.inc_value(f"robotstxt/response_status_count/{response.status}")
            return response
        except IgnoreRequest:
            was_asked = request.reached_network
            raise
        finally:
            self._places.release()
            stats.inc_value("robotstxt/request_count")
            if not self.is_closed:
                self._frontier.end_side_request(host, self._clock(), was_asked)

    def _no_answer(
        self, fetch: RobotsFetch, request: SideRequest, error: Exception, hop: int
    ) -> Answer | None:
        """Return what *error* means, that came instead of an answer; None if nothing is to be learnt of
        it."""
        words = f"{type(error).__name__}: {error}".rstrip(": ")
        if isinstance(error, IgnoreRequest):
            private = reasons.PRIVATE.read(str(error))
            if private is not None and not hop:
                self._private[fetch.origin] = private["address"]
                fetch.was_left = True
                return None
            settings = self._settings  # what a cache holds may be no answer, but one may stand for the web
            by_cache = settings.has_cache and not settings.replays and "dont_cache" not in request.meta
            is_refused = private is None and not (request.reached_network or by_cache)
            return Answer(None, error=words, is_refused=is_refused)
        self._crawler.stats.inc_value(f"robotstxt/exception_count/{type(error)}")
        return Answer(None, error=words, failure=None if hop else error)

    def _let_go(self, fetch: RobotsFetch) -> None:
        for done in fetch.waiting:
            done.callback(None)
        if self.is_closed:
            return
        now = self._clock()
        for host in fetch.held:
            self._frontier.hold(host, now, 0.0)
        scrapy_internals.wake(self._crawler)

    def _reached_downloader(self, request: Request) -> None:
        if isinstance(request, SideRequest):
            request.reached_network = True


def _target(response: Response, url: str) -> str | None:
    """Return where a redirect leads; None for any other answer, and for one that leads nowhere on the web."""
    value = response.headers.get("Location")
    if response.status not in REDIRECTS or value is None:
        return None
    return location(value.decode("latin-1"), url)


# --- deciding -----------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Gate:
    """Lets pages pass by what is known of their sites, and has the files of others fetched, until `close`."""

    _crawler: Crawler
    _settings: FrontierSettings
    _clock: Callable[[], float]
    _frontier: Frontier
    _politeness_keys: PolitenessKeys
    _reporter: Reporter

    def __post_init__(self) -> None:
        self.sites = KnownSites(self._crawler, self._settings, self._clock, self._frontier)
        self._fetcher = RobotsFetcher(self.sites, self._politeness_keys, self._reporter)
        scrapy_internals.spare_places(self._crawler)

    def close(self) -> None:
        """Begin nothing more, and touch the frontier no more."""
        self._fetcher.is_closed = True

    def admit(self, request: Request, lease: Lease, now: float) -> Decision | None:
        """Return the decision with which *request* may be handed out now; None: its lease was put back.

        A forbidden page is handed out without a visit of its host: the middleware refuses it, so that its
        errback is called. So is one that cannot be fetched yet but shares its queue with other sites, or
        with another port that is open: the middleware postpones it alone. And one in a private network that
        a public page led to.
        """
        frontier, host, decision = self._frontier, lease.host, self.sites.decide(request)
        origin, site, until, delay = decision.origin, decision.site, decision.until, decision.delay
        if origin is None:
            return UNDECIDED
        if site is None:
            return self._ask_first(request, lease, origin, now)
        if until > now and not (lease.page.host or self.sites.is_other_open(request, origin)):
            frontier.put_back(lease, now)
            frontier.hold(host, now, until, site.trouble)
            return None
        if is_new(lease.asked, origin, delay):
            frontier.site_delay(host, delay, now, origin)
            frontier.put_back(lease, now)
            return None
        if until > now or not decision.is_allowed:
            frontier.skip_visit(lease, now)
        return decision

    def _ask_first(self, request: Request, lease: Lease, origin: str, now: float) -> Decision | None:
        """Have the robots.txt of *origin* fetched before *request* is handed out; see `admit`."""
        frontier, host = self._frontier, lease.host
        if self._fetcher.private_address(origin, request) is not None:
            frontier.skip_visit(lease, now)
            return UNDECIDED
        # The first page has its turn: hosts without end must not have their files fetched all at once.
        frontier.put_back(lease, now, is_replaced=origin not in self._fetcher.under_way)
        frontier.hold(host, now)
        self._fetcher.ask(origin, host, request).held.add(host)
        return None

    async def check(
        self, request: Request, decision: Decision | None, given_up: Trouble | None
    ) -> tuple[Trouble, float] | None:
        """Return None if *request* may go out; else why it has to wait, and for how many seconds.

        The *decision* with which it was handed out stands; any other request has its robots.txt fetched if
        need be, unless its site is *given_up*. Raises `IgnoreRequest` for what is forbidden, and what the
        pages of a site that was given up met.
        """
        if decision is not None and not decision.is_about(request):
            decision = None
        if decision is not None and decision.is_allowed and not decision.until:
            return None
        if decision is None:
            decision = self.sites.decide(request)
            if decision.site is None and decision.origin is not None and given_up is None:
                await self._have_asked(decision.origin, request)
                decision = self.sites.decide(request)
            if decision.delay and decision.origin is not None and not self._fetcher.is_closed:
                host, now = self._slot_of(request), self._clock()
                self._frontier.site_delay(host, decision.delay, now, decision.origin)
        if decision.origin is None:
            return None
        site, wait = decision.site, decision.until - self._clock()
        if site is not None and wait <= 0 and not decision.is_allowed:
            self._forbid(request, site)
        if given_up is not None and (site is None or wait > 0 or given_up.failure is None):
            raise error_of(given_up, request)
        if site is None:
            return Trouble(reasons.ROBOTS_UNKNOWN(origin=decision.origin)), 0.0
        return (site.trouble, wait) if wait > 0 else None

    def _forbid(self, request: Request, site: Site) -> None:
        logger.debug("Forbidden by robots.txt: %s", request, extra={"spider": self._crawler.spider})
        self._crawler.stats.inc_value("robotstxt/forbidden")
        error = IgnoreRequest("Forbidden by robots.txt")
        setattr(error, REASON, site.why(request.url))
        raise error

    async def _have_asked(self, origin: str, request: Request) -> None:
        """Have the robots.txt of *origin* fetched, and again if it is asked again soon; return when it is
        known, or the crawl ends, or its host has to be left alone for longer than a request is kept waiting.

        Raises `IgnoreRequest` if a public page leads into a private network: no site is asked there.
        """
        while not self._fetcher.is_closed:
            site = self.sites.known(origin, agent_of(request, self._crawler.settings))
            if site is not None:
                if not await self._is_asked_soon(site):
                    return
                continue
            address = self._fetcher.private_address(origin, request)
            if address is not None:
                raise refusal_of(address)
            fetch = self._fetcher.ask(origin, self._slot_of(request), request)
            await fetch.wait()
            if fetch.was_left and self._fetcher.private_address(origin, request) is None:
                return

    async def _is_asked_soon(self, site: Site) -> bool:
        """Return whether a file that could not be read is asked for again soon, after a second of that."""
        status, wait = site.status, site.status.ask_at - self._clock()
        is_soon = status.failures <= self._settings.retry_times and wait <= LONGEST_REST
        if status.verdict is not Verdict.POSTPONE or not is_soon:
            return False
        await scrapy_internals.sleep(min(wait, NAP))
        return not scrapy_internals.is_closing(self._crawler)

    def _slot_of(self, request: Request) -> str:
        return str(request.meta.get(SLOT) or self._politeness_keys.of(request.url))
