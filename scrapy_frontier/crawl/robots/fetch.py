"""Fetching robots.txt: by the host's clock, redirects followed hop by hop, and no more of it than counts.

The engine's own ``download_async`` is used, so every downloader middleware sees the request, as it does with
Scrapy's middleware. A request that carries the meta key `ERRAND` takes no place of ``CONCURRENT_REQUESTS``.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http.request import NO_CALLBACK

from ...core import reasons
from ...core.hosts.robots_expiry import (
    MAX_REDIRECTS,
    Answer,
    given_at,
    is_proxy_to_blame,
    replayed,
    why_not_awaited,
)
from ...core.parse.headers import REDIRECTS, location
from ...core.parse.robots_txt import BODY_LIMIT
from ...core.parse.urls import host_of
from ...core.store.site_rows import RobotsCopy, Verdict
from ..hosts.private_network import comes_from_inside
from ..hosts.response_troubles import CACHED, first_line, lines_of, own_fault, pause_in
from ..meta_keys import ERRAND, FROM_PUBLIC, SLOT
from ..scrapy_internals import compat

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy.http import Response

    from .sites import RobotsServices

logger = logging.getLogger(__name__)

PRIORITY = 1000  # as Scrapy's middleware has it
READ = BODY_LIMIT + 32_768  # bytes on the wire: what counts, and the end of the last line
INFLATED = 4 << 20  # bytes that a compressed file may grow to
PROXY_HEADER = "Proxy-Authorization"  # the password

_META = {
    **dict.fromkeys((ERRAND, "allow_offsite", "dont_obey_robotstxt", "dont_redirect", "dont_retry"), True),
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
        return self._services.frontier.begin_errand(host, self._services.clock())

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
        request = Request(
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
            response: Response = await compat.engine_of(self._services.crawler).download_async(request)
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
                self._services.frontier.end_errand(host, self._services.clock(), was_asked)

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
