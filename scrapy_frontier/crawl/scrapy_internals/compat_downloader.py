"""Every touch of a private part of Scrapy's downloader, each with its fallback (see `compat`)."""

from __future__ import annotations

from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from ...core.hosts.host import SENDING
from ..meta_keys import ERRAND, SLOT
from .compat import call_later, engine_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

_LONG_AGO = -1e9  # seconds, by any clock


def watch_fetch(crawler: Crawler, on_result: Callable[[Request, Any], Any]) -> bool:
    """Call *on_result* with what the downloader and its middlewares made of each request; the engine goes on
    with what that returns. False where the engine does not let itself be watched.

    A response, a request (redirect, retry) or a failure: the only place that sees all three.
    """
    downloader: Any = getattr(engine_of(crawler), "downloader", None)
    fetch = getattr(downloader, "fetch", None)
    if fetch is None:
        return False

    def watched(request: Request, *args: Any) -> Any:
        deferred = fetch(request, *args)
        return deferred.addBoth(partial(on_result, request)) if hasattr(deferred, "addBoth") else deferred

    try:
        downloader.fetch = watched
    except AttributeError:
        return False
    return True


# Called as soon as the request that is being downloaded has a connection to be written to.
_connected: ContextVar[Callable[[], None] | None] = ContextVar("frontier_connected", default=None)
_SENDING_TURNS = 2  # of the event loop from there to the socket; TLS takes one more


def watch_sending(crawler: Crawler, flights: dict[int, Any], on_sent: Callable[[Request], None]) -> bool:
    """Call *on_sent* for each request of *flights* that ``is_sending``, as soon as it has gone out, however
    late that is; such a flight ``was_given``. False where there is no downloader to watch: then nothing is
    ever told.

    Of a handler that does not keep its connections as Scrapy's own for HTTP/1.1 does nobody can tell; there
    it is said `SENDING` seconds after the request was given to it.
    """
    handlers: Any = getattr(getattr(engine_of(crawler), "downloader", None), "handlers", None)
    download = getattr(handlers, "download_request_async", None)
    if download is None:
        return False

    async def watched(request: Request) -> Any:
        flight = flights.get(id(request))
        for each in flights.values() if flight is None else (flight,):  # it may be any of theirs: robots.txt
            each.was_given = True
        if flight is not None and flight.is_sending:
            turns = _SENDING_TURNS + request.url.startswith("https:")
            notify = partial(_after_turns, turns, partial(on_sent, request))
            if _watch_pool(handlers, request):
                _connected.set(notify)
            else:
                call_later(SENDING, notify)
        return await download(request)

    handlers.download_request_async = watched
    return True


def _watch_pool(handlers: Any, request: Request) -> bool:
    """Have the connections that *request* may be given tell of it; False where there is no pool of them."""
    handler = handlers._get_handler(request.url.partition(":")[0])
    pool: Any = getattr(handler, "_pool", None)
    connect = getattr(pool, "getConnection", None)
    if connect is None:
        return False
    if "getConnection" not in vars(pool):

        def watched(*args: Any) -> Any:
            notify, deferred = _connected.get(), connect(*args)
            return deferred if notify is None else deferred.addCallback(_on_connected, notify)

        pool.getConnection = watched
    return True


def _on_connected(connection: Any, notify: Callable[[], None]) -> Any:
    notify()
    return connection


def _after_turns(turns: int, call: Callable[[], None]) -> None:
    if turns:
        call_later(0, _after_turns, turns - 1, call)
    else:
        call()


class _Places(set["Request"]):
    """The downloader's set of requests that take a place of ``CONCURRENT_REQUESTS``: not those that run an
    errand."""

    def add(self, request: Request) -> None:
        if ERRAND not in request.meta:
            super().add(request)

    def remove(self, request: Request) -> None:
        self.discard(request)


def spare_places(crawler: Crawler) -> None:
    """Have errands take no place of ``CONCURRENT_REQUESTS``: 16 slow files would stop the crawl. Nothing
    where the downloader keeps no set of its places."""
    downloader: Any = getattr(engine_of(crawler), "downloader", None)
    if isinstance(getattr(downloader, "active", None), set):
        downloader.active = _Places(downloader.active)


def download_slot(crawler: Crawler, host: str) -> Any:
    """The downloader's slot of *host*; None where it has none now, or keeps none."""
    slots = getattr(getattr(engine_of(crawler), "downloader", None), "slots", None)
    return slots.get(host) if isinstance(slots, dict) else None


class _Slots(dict[str, Any]):
    """The downloader's slots: a new one draws no delay of its own, and has none before its first request;
    where the operator ordered one, *ordered_delay* tells it in seconds, it has that.

    The scheduler keeps the delays, and robots.txt needs them whole. Scrapy 2.19 takes the start of the
    machine for the last visit of a host, and parks the first request of one with a longer delay.
    """

    def __init__(self, ordered_delay: Callable[[str], float | None]) -> None:
        super().__init__()
        self._ordered_delay = ordered_delay

    def __setitem__(self, key: str, slot: Any) -> None:
        if hasattr(slot, "jitter"):
            slot.jitter = 0.0
        elif getattr(slot, "randomize_delay", False):
            slot.randomize_delay = False
        if getattr(slot, "lastseen", None) == 0:
            slot.lastseen = _LONG_AGO
        ordered = self._ordered_delay(key)
        if ordered is not None:
            slot.delay = ordered
        super().__setitem__(key, slot)


def steady_slot(crawler: Crawler, request: Request) -> None:
    """Have the slot of a *request* under way keep the delay that the operator ordered, if any: AutoThrottle
    sets another after each response."""
    slots: Any = getattr(getattr(engine_of(crawler), "downloader", None), "slots", None)
    key: Any = request.meta.get(SLOT)
    if isinstance(slots, _Slots) and key in slots:
        slots[key] = slots[key]


def steady_downloader(crawler: Crawler, ordered_delay: Callable[[str], float | None]) -> None:
    """Have the downloader hand on at once what the scheduler hands out: it keeps the delays. For slots there
    are and those to come, without jitter, and with the delay that *ordered_delay* tells of a host, if any."""
    downloader: Any = getattr(engine_of(crawler), "downloader", None)
    if type(getattr(downloader, "slots", None)) is dict:
        slots = _Slots(ordered_delay)
        for key, slot in downloader.slots.items():
            slots[key] = slot
        downloader.slots = slots
