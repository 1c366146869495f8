"""robots.txt before pages: each page is decided when the scheduler is about to hand it out.

While nobody knows what its site asks for, the page goes back into the queue, its host is held, and an errand
fetches robots.txt by the host's own clock: no place of `CONCURRENT_REQUESTS` is taken by what waits. The
middleware obeys the decision that the flight carries, and asks the same gate for whatever else it meets.
Without an open frontier (another scheduler) the gate knows no clock.

The errands that find out what robots.txt says, a few at a time, each by the clock of its host.

Fetching robots.txt: by the host's clock, redirects followed hop by hop, and no more of it than counts.

The engine's own ``download_async`` is used, so every downloader middleware sees the request, as it does with
Scrapy's middleware. A `SideRequest` takes no place of ``CONCURRENT_REQUESTS``.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from ..core import reasons
from ..core.errors import FrontierUnwritable, span
from ..core.hosts.host import Trouble, is_new
from ..core.hosts.robots_policy import (
    GOES,
    LONGEST_REST,
    MAX_REDIRECTS,
    Answer,
    AtDownload,
    AtHandOut,
    asked_directly,
    at_download,
    at_hand_out,
    given_at,
    is_current,
    is_proxy_to_blame,
    learnt,
    replayed,
    trouble_with,
    why_not_awaited,
    with_cached,
)
from ..core.parse.headers import REDIRECTS, location
from ..core.parse.robots_txt import BODY_LIMIT
from ..core.parse.urls import host_of
from ..core.store.records import RobotsCopy, Verdict
from . import scrapy_internals
from .host_trouble import CACHED, OWN_PAUSE, cool, first_line, forget_frames, lines_of, own_fault, pause_in
from .meta_keys import FROM_PUBLIC, SLOT
from .private_network import comes_from_inside, is_led_to, leads_inside, refusal_of
from .robots_sites import LARGE_FILE, Decision, KnownSites, LruCache, RobotsServices, Site

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy.http import Response

    from ..core.frontier import Lease

logger = logging.getLogger(__name__)

FETCHES_AT_ONCE = 64  # errands under way, or `CONCURRENT_REQUESTS` if that is more
BEGUN_AT_ONCE = 8  # errands, 1 ms each; then everybody else gets a turn of the event loop
LONGEST_NAP = 60.0  # seconds until an errand that has to wait asks again
LONGEST_WAIT = 86_400.0  # seconds that a host is held for one that is blocked, or rests for longer
NAP = 1.0  # the same where requests under way wait for it: the crawl may be about to end


class RobotsFetch:
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
    errands: dict[str, RobotsFetch] = field(default_factory=dict, init=False)
    # Sites in a private network that only public pages led to, and their addresses: nobody is asked.
    _inside: LruCache[str, str] = field(default_factory=lambda: LruCache(len), init=False)
    _queue: deque[str] = field(default_factory=deque, init=False)
    _under_way = 0

    def __post_init__(self) -> None:
        self._fetcher = RobotsFetcher(self._services)
        self._most = max(FETCHES_AT_ONCE, self._services.crawler.settings.getint("CONCURRENT_REQUESTS"))

    def ask(self, origin: str, host: str, request: Request) -> RobotsFetch:
        """Have the file of *origin* fetched for a page of *host*, unless that is under way. Who waits for it
        says so to the errand that is returned. Where a public page leads to a private site nobody
        is asked."""
        errand = self.errands.get(origin)
        is_new = errand is None
        if errand is None:
            errand = self.errands[origin] = RobotsFetch(host, request, self._services.settings.has_cache)
        if not errand.is_meant:
            errand.is_meant = self._services.settings.redirects.allows_private or not is_led_to(request)
        if is_new and errand.is_meant and not self._is_unresolved(errand):
            self._queue.append(origin)
            scrapy_internals.call_later(0, self._begin)
        elif is_new:
            scrapy_internals.start(self._look_up(origin, errand))
        return errand

    def private_address(self, origin: str, request: Request) -> str | None:
        """The address of a site in a private network that nobody asks, because a public page leads there."""
        address = self._inside.get(origin)
        return address if address is not None and is_led_to(request) else None

    def _is_unresolved(self, errand: RobotsFetch) -> bool:
        """Whether the page waits under a name that stands for an address not known yet."""
        is_by_name = errand.host == host_of(errand.request.url)
        keys = self._services.politeness_keys
        return keys.are_addresses and is_by_name and not errand.request.meta.get("proxy")

    async def _look_up(self, origin: str, errand: RobotsFetch) -> None:
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
                scrapy_internals.call_later(
                    min(wait, LONGEST_NAP if errand.held else NAP), self._again, origin
                )
            else:
                self._under_way += 1
                scrapy_internals.start(self._learn(origin, errand, copy, is_known))
        scrapy_internals.call_later(0, self._begin)

    def _is_in_vain(self, host: str, wait: float) -> bool:
        """Whether who is under way must not be kept for a host: it is blocked, rests for long, or the crawl
        ends."""
        return bool(self._fetcher.why_not_awaited(host, wait)) or scrapy_internals.is_closing(
            self._services.crawler
        )

    def _again(self, origin: str) -> None:
        self._queue.append(origin)
        self._begin()

    def _tell_of_wait(self, errand: RobotsFetch, asked: str, wait: float) -> None:
        """Have the hosts that are held for an errand be so for no longer than it waits for the host that is
        *asked*, which may be another: who waits for them, and for the end of the crawl, must know how long.
        Their first page then has the file asked for again."""
        frontier, now = self._services.frontier, self._services.clock()
        if frontier is not None and wait > NAP:
            for host in errand.held - {asked}:
                frontier.hold(host, now, now + min(wait, LONGEST_WAIT))

    async def _sleep(self, errand: RobotsFetch, host: str, seconds: float) -> None:
        """An errand waits for the *host* that its file lies on: others have its place meanwhile."""
        self._tell_of_wait(errand, host, seconds)
        self._under_way -= 1
        try:
            self._begin()
            await scrapy_internals.sleep(min(seconds, LONGEST_REST))
        finally:
            self._under_way += 1

    async def _learn(self, origin: str, errand: RobotsFetch, copy: RobotsCopy | None, is_known: bool) -> None:
        """Fetch, keep, parse; whatever happens, let go who waits for it, unless the web is asked next."""
        sites, agent = self._sites, self._sites.agent_of(errand.request)
        stage = errand.asks_cache, errand.by_proxy, errand.retries
        try:
            if copy is None or not is_known:
                copy = await self._fetch(origin, errand, copy)
            if copy is None or self._services.is_closed:
                return
            about, is_large = (copy, origin, agent), len(copy.body) > LARGE_FILE
            found = await scrapy_internals.in_thread(sites.read, *about) if is_large else sites.read(*about)
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

    async def _fetch(self, origin: str, errand: RobotsFetch, before: RobotsCopy | None) -> RobotsCopy | None:
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

    async def _is_retried(self, errand: RobotsFetch, answer: Answer) -> bool:
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
            if services.is_closed or scrapy_internals.is_closing(services.crawler):
                return False
        errand.retries += 1
        return True

    def _turns_from_proxy(self, errand: RobotsFetch, answer: Answer) -> bool:
        """Whether an *answer* came by a proxy and may be its own, be it behind a redirect of the cache: then
        that is passed by, or the site is asked directly next, or nobody any more where the crawl ends."""
        if not errand.by_proxy or not is_proxy_to_blame(answer.status):
            return False
        if answer.cached_at is not None:
            errand.asks_cache = False
        elif scrapy_internals.is_closing(self._services.crawler):
            errand.was_left = True
        else:
            errand.by_proxy, errand.not_believed = False, answer
        return True

    def _has_to_await_machine(self, errand: RobotsFetch, failure: Exception | None) -> bool:
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

    def _let_go(self, errand: RobotsFetch) -> None:
        services, not_sent = self._services, errand.not_sent
        held = errand.end()
        if services.frontier is not None:
            now = services.clock()
            for host in held:
                if not_sent is None:
                    services.frontier.release_hold(host, now)
                else:  # its first page then has the file asked for again
                    services.frontier.hold(host, now, now + OWN_PAUSE, not_sent)
            scrapy_internals.wake(services.crawler)


PRIORITY = 1000  # as Scrapy's middleware has it
READ = BODY_LIMIT + 32_768  # bytes on the wire: what counts, and the end of the last line
INFLATED = 4 << 20  # bytes that a compressed file may grow to
PROXY_HEADER = "Proxy-Authorization"  # the password

_META = {
    **dict.fromkeys(("allow_offsite", "dont_obey_robotstxt", "dont_redirect", "dont_retry"), True),
    **dict.fromkeys(("download_maxsize", "download_warnsize"), 0),
}


@dataclass(eq=False, repr=False)
class FileOnItsWay:
    """A file on its way, over redirects, by the proxy that the ``page`` that waits names; for None, and where
    that says nothing of one, as Scrapy chooses.

    It ``asks_cache`` if Scrapy's HTTP cache may answer, or keep what the web answers: then nothing is asked
    conditionally, for the cache would keep the 304. Else that is passed by. It keeps no answer that may be
    the proxy's own. By ``sleep`` one waits for a host. ``cached_at`` is that of its `Answer`, by the oldest
    part that the cache had. Of the request under way: whether it ``was_given`` to the network, and the bytes
    ``read`` of its answer.
    """

    page: Request | None
    asks_cache: bool
    sleep: Callable[[str, float], Awaitable[None]]
    cached_at: float | None = None
    was_given: bool = False
    read: int = 0

    @property
    def is_by_proxy(self) -> bool:
        """Whether it goes by a proxy that the page names."""
        return self.page is not None and names_proxy(self.page)

    def come_from_cache(self, when: float) -> None:
        """The cache had the answer of *when*, or a redirect to it; 0: nobody knows when that was."""
        self.cached_at = when if self.cached_at is None else min(self.cached_at, when)


@dataclass(eq=False, repr=False)
class RobotsFetcher:
    """Fetches files, by the clocks of their hosts if there is a frontier. Raises nothing for what a site
    does."""

    _services: RobotsServices
    # By id of a request that the fetch keeps alive.
    _ways: dict[int, FileOnItsWay] = field(default_factory=dict, init=False)
    _has_refusal = False  # and the log tells of it

    def wait(self, host: str) -> float:
        """Seconds until *host* may be asked; 0: now, its place is taken, and then `fetch` has to be called.
        Infinite: it is blocked."""
        if self._services.frontier is None:
            return 0.0
        return self._services.frontier.begin_side_request(host, self._services.clock())

    async def fetch(self, url: str, host: str, before: RobotsCopy | None, way: FileOnItsWay) -> Answer:
        """The answer to *url*, after at most five redirects to wherever they lead (RFC 9309 2.3.1.2).

        The file kept *before* need not be sent again (RFC 9110 13.1): then the answer is a 304. Only that of
        *url* itself has validators, for those of a redirect's target say nothing about *url*.

        The place of the first request is taken already (`wait`); each further one waits for its own
        host. From a public host none leads into a private network: `PrivateNetworkMiddleware` sees to it.
        """
        answer = await self._follow(url, host, {} if way.asks_cache else _conditions(before), way)
        if self._services.settings.replays:
            return answer  # nobody else can be asked
        return answer._replace(cached_at=way.cached_at)

    async def _follow(self, url: str, host: str, headers: dict[str, str], way: FileOnItsWay) -> Answer:
        from_public = False
        try:
            for hop in range(MAX_REDIRECTS + 1):
                response = await self._download(url, host, from_public, headers, way)
                target = _target(response, url)
                if target is None or hop == MAX_REDIRECTS:
                    return self._answer(response, not hop, bool(headers))._replace(host=host)
                headers = {}
                is_elsewhere = host_of(target) != host_of(url)
                request = response.request or Request(url)
                from_public = is_elsewhere and not await comes_from_inside(request, response)
                if is_elsewhere:
                    host = await self._services.politeness_keys.looked_up(target)
                url = target
                while (wait := self.wait(host)) and not self._services.is_closed:
                    if error := self.why_not_awaited(host, wait):
                        return Answer(None, error=error)
                    await way.sleep(host, wait)
                if self._services.is_closed:
                    break
        except Exception as raised:
            if way.asks_cache and not way.was_given:
                way.come_from_cache(0.0)
            is_unseen = not way.asks_cache and not way.was_given
            return self._no_answer(raised, url, is_direct=not hop, is_unseen=is_unseen)
        return Answer(None)

    def _no_answer(self, raised: Exception, url: str, is_direct: bool, is_unseen: bool) -> Answer:
        error = f"{type(raised).__name__}: {raised}".rstrip(": ")
        if isinstance(raised, IgnoreRequest):
            ignored = Answer(None, error=error)
            if self._services.settings.replays:
                return replayed(ignored)
            if not is_unseen or reasons.PRIVATE.read(str(raised)) is not None:
                return ignored
            self._tell_of_refusal(url, error)
            return ignored._replace(is_refused=True)
        self._services.crawler.stats.inc_value(f"robotstxt/exception_count/{type(raised)}")
        is_of_another = not is_direct and own_fault(raised) is None
        return Answer(None, error=error, failure=None if is_of_another else raised)

    def _tell_of_refusal(self, url: str, error: str) -> None:
        if self._has_refusal:
            return
        self._has_refusal = True
        words = (
            "A downloader middleware of this project refuses %s (%s): pages of such sites are fetched as if "
            "it forbade nothing, unless an older copy does; to have robots.txt obeyed, let such requests "
            "pass (said once)"
        )
        logger.warning(words, url, error, extra={"spider": self._services.crawler.spider})

    def why_not_awaited(self, host: str, wait: float) -> str:
        """`robots_expiry.why_not_awaited` of *host* as it is now, which may be asked in *wait* seconds."""
        services = self._services
        is_cooling = services.frontier is not None and services.frontier.is_cooling(host, services.clock())
        return why_not_awaited(host, wait, is_cooling)

    async def _download(
        self, url: str, host: str, from_public: bool, headers: dict[str, str], way: FileOnItsWay
    ) -> Response:
        settings = self._services.settings
        meta = {**_META, SLOT: host, "download_timeout": settings.robots_timeout}
        meta["dont_cache"] = not way.asks_cache
        if way.asks_cache:  # what it has may be compressed; on the wire there is no limit but `READ`
            meta["download_maxsize"] = INFLATED
        request = scrapy_internals.SideRequest(
            url, priority=PRIORITY, callback=NO_CALLBACK, dont_filter=True, headers=headers, meta=meta
        )
        if way.page is not None:
            _go_by_proxy_of(way.page, request)
        if from_public:
            request.meta[FROM_PUBLIC] = host_of(url)
        if not self._ways:  # else nobody need hear of every piece of every page
            self._listen(self._services.crawler.signals.connect)
        self._ways[id(request)], way.was_given, way.read = way, False, 0
        is_cached = settings.replays
        try:
            response: Response = await scrapy_internals.engine_of(self._services.crawler).download_async(
                request
            )
            is_cached = way.asks_cache and CACHED in response.flags
            if is_cached:
                way.come_from_cache(given_at(first_line(response, "Date"), self._services.clock()))
            self._services.crawler.stats.inc_value("robotstxt/response_count")
            self._services.crawler.stats.inc_value(f"robotstxt/response_status_count/{response.status}")
            return response
        finally:
            del self._ways[id(request)]
            if not self._ways:
                self._listen(self._services.crawler.signals.disconnect)
            self._services.crawler.stats.inc_value("robotstxt/request_count")
            if self._services.frontier is not None:
                was_asked = not is_cached or way.was_given
                self._services.frontier.end_side_request(host, self._services.clock(), was_asked)

    def _listen(self, connect: Callable[[Any, object], None]) -> None:
        connect(self._bytes_received, signals.bytes_received)
        connect(self._reached_downloader, signals.request_reached_downloader)
        if self._services.settings.has_cache:
            connect(self._downloaded, signals.response_downloaded)
            connect(self._left_downloader, signals.request_left_downloader)

    def _reached_downloader(self, request: Request) -> None:
        way = self._ways.get(id(request))
        if way is not None:
            way.was_given = True
            request.meta["download_maxsize"] = 0

    def _downloaded(self, response: Response, request: Request) -> None:
        way = self._ways.get(id(request))
        if way is not None and way.is_by_proxy and is_proxy_to_blame(response.status):
            request.meta["dont_cache"] = True  # what the cache has is taken for the site's word

    def _left_downloader(self, request: Request) -> None:
        if id(request) in self._ways:  # the cache may put its own in the place of what came
            request.meta["download_maxsize"] = INFLATED

    def _bytes_received(self, data: bytes, request: Request) -> None:
        way = self._ways.get(id(request))
        if way is None:
            return
        # What is on the wire is cut here, without an error; what it inflates to has a limit from now on.
        request.meta["download_maxsize"] = INFLATED
        way.read += len(data)
        if way.read >= READ:
            raise StopDownload(fail=False)

    def _answer(self, response: Response, is_direct: bool, was_conditional: bool) -> Answer:
        age = first_line(response, "Age").strip()
        answer = Answer(
            response.status,
            response.body,
            lines_of(response, "Cache-Control"),
            float(age) if age.isascii() and age.isdigit() and len(age) < 10 else 0.0,
            pause_in(response, self._services.clock()),
            first_line(response, "ETag") if is_direct else "",
            first_line(response, "Last-Modified") if is_direct else "",
            was_conditional=was_conditional,
        )
        return replayed(answer) if self._services.settings.replays and CACHED in response.flags else answer


def names_proxy(page: Request) -> bool:
    """Whether the *page* names a proxy. One of the environment is for Scrapy to choose, for each request."""
    return bool(page.meta.get("proxy")) and "_scheme_proxy" not in page.meta


def _go_by_proxy_of(page: Request, request: Request) -> None:
    """Have *request* go by the proxy that the *page* names, with the password for it: there may be no other
    way to the site. Or by none, not even one of the environment, where the page says so (None)."""
    if "proxy" not in page.meta or "_scheme_proxy" in page.meta:
        return
    request.meta["proxy"] = page.meta["proxy"]
    if PROXY_HEADER in page.headers:  # Scrapy has taken it out of the URL
        request.headers[PROXY_HEADER] = page.headers[PROXY_HEADER]


def _conditions(before: RobotsCopy | None) -> dict[str, str]:
    """Headers with which only a file that differs from the one in the copy is sent."""
    if before is None or before.verdict is not Verdict.PARSE:
        return {}
    given = {"If-None-Match": before.etag, "If-Modified-Since": before.modified}
    return {name: value for name, value in given.items() if value}


def _target(response: Any, url: str) -> str | None:
    """Where a redirect leads; None for any other answer, and for one that leads nowhere on the web."""
    value = response.headers.get("Location")
    if response.status not in REDIRECTS or value is None:
        return None
    return location(value.decode("latin-1"), url)


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
            scrapy_internals.spare_places(self._services.crawler)

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
