"""The errands that find out what robots.txt says, a few at a time, each by the clock of its host."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from ...core import reasons
from ...core.errors import FrontierUnwritable
from ...core.hosts.cooldown import Trouble
from ...core.hosts.robots_expiry import (
    LONGEST_REST,
    Answer,
    asked_directly,
    is_current,
    is_proxy_to_blame,
    learnt,
    trouble_with,
    with_cached,
)
from ...core.parse.urls import host_of
from ...core.time_format import span
from ..hosts.private_network import is_led_to, leads_inside
from ..hosts.response_troubles import OWN_PAUSE, forget_frames, own_fault
from ..hosts.strikes import cool
from ..scrapy_internals import compat
from .fetch import FileOnItsWay, RobotsFetcher, names_proxy
from .sites import LARGE_FILE, KnownSites, LruCache, RobotsServices

if TYPE_CHECKING:
    from scrapy import Request

    from ...core.store.site_rows import RobotsCopy

logger = logging.getLogger(__name__)

ERRANDS_AT_ONCE = 64  # errands under way, or `CONCURRENT_REQUESTS` if that is more
BEGUN_AT_ONCE = 8  # errands, 1 ms each; then everybody else gets a turn of the event loop
LONGEST_NAP = 60.0  # seconds until an errand that has to wait asks again
LONGEST_WAIT = 86_400.0  # seconds that a host is held for one that is blocked, or rests for longer
NAP = 1.0  # the same where requests under way wait for it: the crawl may be about to end


class RobotsErrand:
    """A robots.txt that is being fetched, or waits to be: for which hosts, and who waits for it.

    ``held`` are hosts that the frontier holds until it has ended; where there are none, only requests under
    way wait.
    ``asks_cache`` until Scrapy's HTTP cache, if there is one, had nothing that counts. Then the web is asked,
    and ``before`` is the copy, of the frontier or the cache, that serves where that is silent.
    ``by_proxy`` as the page names one, until its answer may be the proxy's own, and is ``not_believed``: then
    directly.
    ``is_meant`` unless only public pages elsewhere led to the site: then it may turn out to be private.
    ``was_left``: nothing was asked, for its host has to be left alone for longer than anybody waits, or this
    machine could not send the request: then ``not_sent`` says why.
    """

    def __init__(self, host: str, request: Request, asks_cache: bool) -> None:
        self.host = host
        self.request = request
        self.asks_cache = asks_cache
        self.by_proxy = names_proxy(request)
        self.not_believed: Answer | None = None
        self.before: RobotsCopy | None = None
        self.failure: Exception | None = None
        self.retries = 0
        self.is_meant = False
        self.was_left = False
        self.not_sent: Trouble | None = None
        self.held: set[str] = set()
        self._waiting: list[Deferred[None]] = []

    @property
    def is_awaited(self) -> bool:
        """Whether requests under way wait for it."""
        return bool(self._waiting)

    async def wait(self) -> None:
        """Return when the file is learnt, or nobody will be asked for it."""
        done: Deferred[None] = Deferred()
        self._waiting.append(done)
        await maybe_deferred_to_future(done)

    def end(self) -> set[str]:
        """Let go who waits; the hosts that are held."""
        for done in self._waiting:
            done.callback(None)
        return self.held


@dataclass(eq=False, repr=False)
class RobotsQueue:
    """Fetches files for *sites*, by the clocks of their hosts if there is a frontier; 64 under way at once,
    or `CONCURRENT_REQUESTS` if that is more. Nothing is raised: a file that cannot be had is learnt as
    such."""

    _services: RobotsServices
    _sites: KnownSites
    errands: dict[str, RobotsErrand] = field(default_factory=dict, init=False)
    # Sites in a private network that only public pages led to, and their addresses: nobody is asked.
    _inside: LruCache[str, str] = field(default_factory=lambda: LruCache(len), init=False)
    _queue: deque[str] = field(default_factory=deque, init=False)
    _under_way = 0

    def __post_init__(self) -> None:
        self._fetcher = RobotsFetcher(self._services)
        self._most = max(ERRANDS_AT_ONCE, self._services.crawler.settings.getint("CONCURRENT_REQUESTS"))

    def ask(self, origin: str, host: str, request: Request) -> RobotsErrand:
        """Have the file of *origin* fetched for a page of *host*, unless that is under way. Who waits for it
        says so to the errand that is returned. Where a public page leads to a private site nobody
        is asked."""
        errand = self.errands.get(origin)
        is_new = errand is None
        if errand is None:
            errand = self.errands[origin] = RobotsErrand(host, request, self._services.settings.has_cache)
        if not errand.is_meant:
            errand.is_meant = self._services.settings.redirects.allows_private or not is_led_to(request)
        if is_new and errand.is_meant and not self._is_unresolved(errand):
            self._queue.append(origin)
            compat.call_later(0, self._begin)
        elif is_new:
            compat.start(self._look_up(origin, errand))
        return errand

    def private_address(self, origin: str, request: Request) -> str | None:
        """The address of a site in a private network that nobody asks, because a public page leads there."""
        address = self._inside.get(origin)
        return address if address is not None and is_led_to(request) else None

    def _is_unresolved(self, errand: RobotsErrand) -> bool:
        """Whether the page waits under a name that stands for an address not known yet."""
        is_by_name = errand.host == host_of(errand.request.url)
        keys = self._services.politeness_keys
        return keys.are_addresses and is_by_name and not errand.request.meta.get("proxy")

    async def _look_up(self, origin: str, errand: RobotsErrand) -> None:
        """Ask a site by the clock of its address, unless that is private and only public pages led there."""
        address = None
        try:
            if not errand.is_meant:
                address = await leads_inside(errand.request)
            if self._is_unresolved(errand):
                errand.host = await self._services.politeness_keys.looked_up(errand.request.url)
        except Exception:
            extra = {"spider": self._services.crawler.spider}
            words = "The address of %s cannot be told, and it is asked by its name; please report this"
            logger.error(words, origin, exc_info=True, extra=extra)
        if address is not None and not errand.is_meant and not self._services.is_closed:
            self._inside.keep(origin, address)
            self._let_go(self.errands.pop(origin))
            return
        self._again(origin)

    def _begin(self) -> None:
        """Start what may start: as many errands as there is room for, each by the clock of its host."""
        for _ in range(BEGUN_AT_ONCE):
            if not self._queue or self._under_way >= self._most or self._services.is_closed:
                return
            origin = self._queue.popleft()
            errand = self.errands[origin]
            copy = errand.before or self._sites.copy(origin)
            is_known = copy is not None and is_current(copy, self._services.clock())
            wait = 0.0 if is_known else self._fetcher.wait(errand.host)
            if wait and not errand.held and self._is_in_vain(errand.host, wait):
                errand.was_left = True
                self._let_go(self.errands.pop(origin))
            elif wait:
                self._tell_of_wait(errand, errand.host, wait)
                compat.call_later(min(wait, LONGEST_NAP if errand.held else NAP), self._again, origin)
            else:
                self._under_way += 1
                compat.start(self._learn(origin, errand, copy, is_known))
        compat.call_later(0, self._begin)

    def _is_in_vain(self, host: str, wait: float) -> bool:
        """Whether who is under way must not be kept for a host: it is blocked, rests for long, or the crawl
        ends."""
        return bool(self._fetcher.why_not_awaited(host, wait)) or compat.is_closing(self._services.crawler)

    def _again(self, origin: str) -> None:
        self._queue.append(origin)
        self._begin()

    def _tell_of_wait(self, errand: RobotsErrand, asked: str, wait: float) -> None:
        """Have the hosts that are held for an errand be so for no longer than it waits for the host that is
        *asked*, which may be another: who waits for them, and for the end of the crawl, must know how long.
        Their first page then has the file asked for again."""
        frontier, now = self._services.frontier, self._services.clock()
        if frontier is not None and wait > NAP:
            for host in errand.held - {asked}:
                frontier.hold(host, now, now + min(wait, LONGEST_WAIT))

    async def _sleep(self, errand: RobotsErrand, host: str, seconds: float) -> None:
        """An errand waits for the *host* that its file lies on: others have its place meanwhile."""
        self._tell_of_wait(errand, host, seconds)
        self._under_way -= 1
        try:
            self._begin()
            await compat.sleep(min(seconds, LONGEST_REST))
        finally:
            self._under_way += 1

    async def _learn(
        self, origin: str, errand: RobotsErrand, copy: RobotsCopy | None, is_known: bool
    ) -> None:
        """Fetch, keep, parse; whatever happens, let go who waits for it, unless the web is asked next."""
        sites, agent = self._sites, self._sites.agent_of(errand.request)
        stage = errand.asks_cache, errand.by_proxy, errand.retries
        try:
            if copy is None or not is_known:
                copy = await self._fetch(origin, errand, copy)
            if copy is None or self._services.is_closed:
                return
            about, is_large = (copy, origin, agent), len(copy.body) > LARGE_FILE
            found = await compat.in_thread(sites.read, *about) if is_large else sites.read(*about)
            sites.learn(origin, agent, found, copy, errand.failure)
        except Exception as error:
            if not isinstance(error, FrontierUnwritable):  # see `Component.left_to_scheduler`
                self._services.crawler.stats.inc_value("frontier/errors")
                extra = {"spider": self._services.crawler.spider}
                words = "The robots.txt of %s cannot be read, as if it gave no answer; please report this"
                logger.error(words, origin, exc_info=True, extra=extra)
            copy = learnt(copy, Answer(None), self._services.clock())
            sites.learn(origin, agent, sites.read(copy, origin, agent), copy)
        finally:
            self._under_way -= 1
            if (errand.asks_cache, errand.by_proxy, errand.retries) == stage:
                self._let_go(self.errands.pop(origin))
            else:  # by the clock of its host, as if it had not been asked
                self._queue.appendleft(origin)
            self._begin()

    async def _fetch(self, origin: str, errand: RobotsErrand, before: RobotsCopy | None) -> RobotsCopy | None:
        """What is known of the file from now on, kept; None where this machine could not ask for it, nobody
        waits any more, or somebody has to be asked next: the web, past the cache, or the same once more."""
        page = errand.request if errand.not_believed is None else None
        way = FileOnItsWay(page, errand.asks_cache, partial(self._sleep, errand))
        answer = await self._fetcher.fetch(f"{origin}/robots.txt", errand.host, before, way)
        if answer.is_refused and not self._services.is_closed:
            return self._sites.leave_unasked(origin, before)
        if self._services.is_closed or self._turns_from_proxy(errand, answer):
            return None
        if errand.not_believed is not None:
            answer = asked_directly(errand.not_believed, answer)
        if answer.cached_at is None:
            copy = learnt(before, answer, self._services.clock())
        else:
            cached = with_cached(before, answer)
            if cached is None or not is_current(cached, self._services.clock()):
                errand.before, errand.asks_cache = cached, False
                return None
            copy = cached
        if self._has_to_await_machine(errand, answer.failure):
            return None
        if copy.failures and not copy.body and await self._is_retried(errand, answer):
            return None
        if self._services.frontier is not None:
            copy = self._services.frontier.retried_sooner(copy, answer.retry_after, self._services.clock())
        self._sites.keep(origin, copy)
        errand.failure = answer.failure
        if copy.failures:
            self._cool(copy, answer)
            self._services.crawler.stats.inc_value("frontier/robots/unreachable")
            pause = span(copy.ask_at - self._services.clock())
            if copy.body:
                meanwhile = "an old copy is used"
            else:
                meanwhile = "its pages wait" if errand.held else "what is downloaded there meanwhile fails"
            words = "robots.txt of %s cannot be read (%s); %s, and it is asked again in %s"
            extra = {"spider": self._services.crawler.spider}
            logger.warning(words, origin, answer.words, meanwhile, pause, extra=extra)
        else:
            await self._sites.parsers.send_parsed(copy.body, errand.request)
        return copy

    async def _is_retried(self, errand: RobotsErrand, answer: Answer) -> bool:
        """Whether to ask once more after an *answer* that says nothing, as Scrapy does, where requests under
        way wait: what pipelines and callbacks download would be refused, and no queue has it."""
        services, pause = self._services, max(answer.retry_after or 0.0, NAP)
        is_awaited = errand.is_awaited and pause <= LONGEST_NAP
        if not is_awaited or errand.retries >= services.settings.retry_times:
            return False
        self._tell_of_wait(errand, errand.host, pause)
        while pause > 0.0:
            await self._sleep(errand, errand.host, min(pause, NAP))
            pause -= NAP
            if services.is_closed or compat.is_closing(services.crawler):
                return False
        errand.retries += 1
        return True

    def _turns_from_proxy(self, errand: RobotsErrand, answer: Answer) -> bool:
        """Whether an *answer* came by a proxy and may be its own, be it behind a redirect of the cache: then
        that is passed by, or the site is asked directly next, or nobody any more where the crawl ends."""
        if not errand.by_proxy or not is_proxy_to_blame(answer.status):
            return False
        if answer.cached_at is not None:
            errand.asks_cache = False
        elif compat.is_closing(self._services.crawler):
            errand.was_left = True
        else:
            errand.by_proxy, errand.not_believed = False, answer
        return True

    def _has_to_await_machine(self, errand: RobotsErrand, failure: Exception | None) -> bool:
        """Whether a *failure* is this machine's own fault, which says nothing of the site: nothing is learnt
        of it, and nobody who is under way is kept. `CooldownMiddleware` logs it; where there is none, a file
        that cannot be had is learnt as such."""
        services = self._services
        if failure is None or services.frontier is None or not services.settings.cooldown.first:
            return False
        fault = own_fault(failure)
        if fault is not None:
            errand.not_sent = Trouble(reasons.NOT_SENT(cause=fault.cause), failure=failure)
        elif services.standstill is None or not services.standstill.was_during():
            return False
        forget_frames(failure)
        errand.was_left = True
        return True

    def _cool(self, copy: RobotsCopy, answer: Answer) -> None:
        """Have a host rest that asks for less."""
        services, trouble = self._services, trouble_with(answer, copy)
        if services.frontier is None or trouble is None or not services.settings.cooldown.first:
            return
        cool(services.crawler, services.frontier, answer.host, trouble, services.clock())

    def _let_go(self, errand: RobotsErrand) -> None:
        services, not_sent = self._services, errand.not_sent
        held = errand.end()
        if services.frontier is not None:
            now = services.clock()
            for host in held:
                if not_sent is None:
                    services.frontier.release_hold(host, now)
                else:  # its first page then has the file asked for again
                    services.frontier.hold(host, now, now + OWN_PAUSE, not_sent)
            compat.wake(services.crawler)
