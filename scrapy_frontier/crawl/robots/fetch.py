"""Fetching robots.txt: by the host's clock, redirects followed hop by hop, and no more of it than counts.

The engine's own ``download_async`` is used, so every downloader middleware sees the request, as it does with
Scrapy's middleware. A request that carries the meta key `ERRAND` takes no place of ``CONCURRENT_REQUESTS``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http.request import NO_CALLBACK

from ...core.hosts.robots_expiry import MAX_REDIRECTS, Answer, replayed, why_not_awaited
from ...core.parse.headers import REDIRECTS, location
from ...core.parse.robots_txt import BODY_LIMIT
from ...core.parse.urls import host_of
from ...core.store.site_rows import RobotsCopy, Verdict
from ..hosts.private_network import comes_from_inside
from ..hosts.response_troubles import CACHED, own_fault, pause_in
from ..meta_keys import ERRAND, FROM_PUBLIC, SLOT
from ..scrapy_internals import compat
from ..stats import count

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy.http import Response

    from .sites import RobotsServices

PRIORITY = 1000  # as Scrapy's middleware has it
READ = BODY_LIMIT + 32_768  # bytes on the wire: what counts, and the end of the last line
INFLATED = 4 << 20  # bytes that a compressed file may grow to

_META = {
    **dict.fromkeys((ERRAND, "allow_offsite", "dont_obey_robotstxt", "dont_redirect", "dont_retry"), True),
    **dict.fromkeys(("download_maxsize", "download_warnsize"), 0),
}


@dataclass(eq=False, repr=False)
class RobotsFetcher:
    """Fetches files, by the clocks of their hosts if there is a frontier. Raises nothing for what a site
    does."""

    _services: RobotsServices
    # By id of a request that the fetch keeps alive: its bytes so far, and those that the network was given.
    _read: dict[int, int] = field(default_factory=dict, init=False)
    _given: set[int] = field(default_factory=set, init=False)

    def wait(self, host: str) -> float:
        """Seconds until *host* may be asked; 0: now, its place is taken, and then `fetch` has to be called.
        Infinite: it is blocked."""
        if self._services.frontier is None:
            return 0.0
        return self._services.frontier.begin_errand(host, self._services.clock(), despite_hold=True)

    async def fetch(
        self, url: str, host: str, sleep: Callable[[str, float], Awaitable[None]], before: RobotsCopy | None
    ) -> Answer:
        """The answer to *url*, after at most five redirects to wherever they lead (RFC 9309 2.3.1.2).

        The file kept *before* need not be sent again (RFC 9110 13.1): then the answer is a 304. Only that of
        *url* itself has validators, for those of a redirect's target say nothing about *url*.

        The place of the first request is taken already (`wait`); each further one waits for its own
        host, by *sleep*. From a public host none leads into a private network: `PrivateNetworkMiddleware`
        sees to it.
        """
        error, from_public = "", False
        headers = {} if self._services.settings.replays else _conditions(before)  # else the cache's own count
        try:
            for hop in range(MAX_REDIRECTS + 1):
                response = await self._download(url, host, from_public, headers)
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
                    await sleep(host, wait)
                if self._services.is_closed:
                    break
        except Exception as raised:
            return self._no_answer(raised, is_direct=not hop)
        return Answer(None, error=error)

    def _no_answer(self, raised: Exception, is_direct: bool) -> Answer:
        error = f"{type(raised).__name__}: {raised}".rstrip(": ")
        if isinstance(raised, IgnoreRequest):
            ignored = Answer(None, error=error)
            return replayed(ignored) if self._services.settings.replays else ignored
        count(self._services.crawler, f"robotstxt/exception_count/{type(raised)}")
        is_of_another = not is_direct and own_fault(raised) is None
        return Answer(None, error=error, failure=None if is_of_another else raised)

    def why_not_awaited(self, host: str, wait: float) -> str:
        """`robots_expiry.why_not_awaited` of *host* as it is now, which may be asked in *wait* seconds."""
        services = self._services
        is_cooling = services.frontier is not None and services.frontier.is_cooling(host, services.clock())
        return why_not_awaited(host, wait, is_cooling)

    async def _download(self, url: str, host: str, from_public: bool, headers: dict[str, str]) -> Response:
        settings = self._services.settings
        meta = {**_META, SLOT: host, "download_timeout": settings.robots_timeout}
        # The frontier keeps the file itself: a cache would have an error, or an old file, last for ever.
        meta["dont_cache"] = not settings.replays
        request = Request(
            url, priority=PRIORITY, callback=NO_CALLBACK, dont_filter=True, headers=headers, meta=meta
        )
        if from_public:
            request.meta[FROM_PUBLIC] = host_of(url)
        if not self._read:  # else nobody need hear of every piece of every page
            self._listen(self._services.crawler.signals.connect)
        self._read[id(request)] = 0
        is_replayed = settings.replays
        try:
            response: Response = await compat.engine_of(self._services.crawler).download_async(request)
            is_replayed = is_replayed and CACHED in response.flags
            count(self._services.crawler, "robotstxt/response_count")
            count(self._services.crawler, f"robotstxt/response_status_count/{response.status}")
            return response
        finally:
            del self._read[id(request)]
            if not self._read:
                self._listen(self._services.crawler.signals.disconnect)
            count(self._services.crawler, "robotstxt/request_count")
            was_asked = not is_replayed or id(request) in self._given
            self._given.discard(id(request))
            if self._services.frontier is not None:
                self._services.frontier.end_errand(host, self._services.clock(), was_asked)

    def _listen(self, connect: Callable[[Any, object], None]) -> None:
        connect(self._bytes_received, signals.bytes_received)
        if self._services.settings.replays:  # else all are
            connect(self._reached_downloader, signals.request_reached_downloader)

    def _reached_downloader(self, request: Request) -> None:
        if id(request) in self._read:
            self._given.add(id(request))

    def _bytes_received(self, data: bytes, request: Request) -> None:
        read = self._read.get(id(request))
        if read is None:
            return
        # What is on the wire is cut here, without an error; what it inflates to has a limit from now on.
        request.meta["download_maxsize"] = INFLATED
        self._read[id(request)] = read + len(data)
        if read + len(data) >= READ:
            raise StopDownload(fail=False)

    def _answer(self, response: Response, is_direct: bool, was_conditional: bool) -> Answer:
        def lines(name: str) -> list[str]:
            return [line.decode("latin-1") for line in response.headers.getlist(name)]

        age = next(iter(lines("Age")), "").strip()
        answer = Answer(
            response.status,
            response.body,
            lines("Cache-Control"),
            float(age) if age.isascii() and age.isdigit() and len(age) < 10 else 0.0,
            pause_in(response, self._services.clock()),
            next(iter(lines("ETag")), "") if is_direct else "",
            next(iter(lines("Last-Modified")), "") if is_direct else "",
            was_conditional=was_conditional,
        )
        return replayed(answer) if self._services.settings.replays and CACHED in response.flags else answer


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
