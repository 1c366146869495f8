"""Every use of a private part of Scrapy: what is replaced, and what is read.

``docs/internals/scrapy-replacements.md`` lists the replacements, with the public hook that each would need.
Scrapy 2.18 to 2.19.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from contextvars import ContextVar
from functools import partial
from itertools import takewhile
from pathlib import PurePath
from time import thread_time
from typing import TYPE_CHECKING, Any

from pydispatch.dispatcher import getAllReceivers, liveReceivers
from scrapy import Request, Spider, signals
from scrapy.linkextractors import LinkExtractor
from scrapy.linkextractors.lxmlhtml import LxmlParserLinkExtractor
from scrapy.spidermiddlewares.httperror import HttpError, HttpErrorMiddleware
from scrapy.spiders import CrawlSpider
from scrapy.utils.asyncio import call_later, create_looping_call, is_asyncio_available, sleep
from scrapy.utils.asyncio import run_in_thread as in_thread
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.misc import load_object
from scrapy.utils.reactor import is_reactor_installed
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from ..core.hosts.host import SENDING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from scrapy.crawler import Crawler
    from scrapy.http import Response

__all__ = ["call_later", "create_looping_call", "in_thread", "is_asyncio_available", "sleep"]

TURNS = 10  # of the event loop; a page needs about seven from its socket to its callback
IDLE_TURN = 0.0003  # seconds of processor time of a turn in which nothing happened
_UNPROCESSED = LxmlParserLinkExtractor().process_attr  # the default: no function is applied
# Commands that only try something out, and must not touch the store of a crawl.
_INSPECTING = {"shell", "fetch", "parse", "check", "view", "bench"}


# -- requests and responses ----------------------------------------------------------------------------------


def essentials(request: Request) -> tuple[Any, ...]:
    """URL, method, body, ``dont_filter`` and meta. Properties would cost a call each, and make an empty dict
    of meta that was never set."""
    return request._url, request.method, request._body, request.dont_filter, request._meta


def set_url(request: Request, url: str) -> None:
    """Gives *request* another *url*, escaped as by its constructor. Raises `ValueError` if it has no
    scheme."""
    Request._set_url(request, url)


def has_selector(response: Response) -> bool:
    """Whether *response* keeps a selector."""
    return getattr(response, "_cached_selector", None) is not None


def let_go_of_selector(response: Response) -> None:
    """Breaks the reference cycle of a response and its selector, which else keeps the parsed page until the
    next garbage collection. The response makes a new selector when it is asked."""
    if has_selector(response):
        response._cached_selector = None  # type: ignore[attr-defined]


# -- the engine ----------------------------------------------------------------------------------------------


def engine_of(crawler: Crawler) -> Any:
    """The engine of *crawler*, None before there is one."""
    return crawler._engine


def slot_of(crawler: Crawler) -> Any:
    """The engine's slot (scheduler, next call, requests in progress); None while no spider is open."""
    return None if crawler._engine is None else crawler._engine._slot


def wake(crawler: Crawler) -> None:
    """Makes the engine ask for requests soon.

    ``schedule`` gets no delay: while a delayed call is pending it ignores all others, heartbeats included.
    """
    slot = slot_of(crawler)
    if slot is not None and slot.closing is None:
        slot.nextcall.schedule()


def is_closing(crawler: Crawler) -> bool:
    """Whether the spider is closing, or closed, or not open yet."""
    slot = slot_of(crawler)
    return slot is None or slot.closing is not None


def stays_open(crawler: Crawler) -> bool:
    """Whether the engine goes on when it is idle, as in ``scrapy shell``, and so never asks whether pages are
    left."""
    slot = slot_of(crawler)
    return slot is not None and not slot.close_if_idle


class _InProgress(set["Request"]):
    """The engine's set of requests in progress; calls *on_remove* when one has left it."""

    def __init__(self, on_remove: Callable[[Request], None]) -> None:
        super().__init__()
        self._on_remove = on_remove

    def remove(self, request: Request) -> None:
        super().remove(request)
        self._on_remove(request)


def watch_in_progress(crawler: Crawler, on_remove: Callable[[Request], None]) -> set[Request]:
    """Calls *on_remove* when the engine has finished with a request, its callback and items included. Returns
    the engine's set of requests in progress."""
    slot = slot_of(crawler)
    watched = _InProgress(on_remove)
    watched |= slot.inprogress
    slot.inprogress = watched
    return watched


def close_spider(crawler: Crawler, reason: str) -> None:
    """Closes the spider soon, for *reason*; can be called from anywhere, and when it is closing already."""

    def close() -> None:
        engine = engine_of(crawler)
        if engine.spider is None or is_closing(crawler):
            return
        if engine.running:
            deferred_from_coro(engine.close_spider_async(reason=reason))
        else:  # closed while it starts, the process would end in the middle of it (scrapy issue 6916)
            call_later(0.01, close)

    call_later(0, close)


def fail(crawler: Crawler) -> None:
    """Makes ``scrapy crawl`` and ``runspider`` end with exit code 1.

    They look whether the crawler has a spider when all is over. Scripts and servers may read the spider then,
    so it is taken away only in a process that a command was started in.
    """

    def forget_spider() -> None:
        crawler.spider = None

    if command_of_process() in ("crawl", "runspider"):
        crawler.signals.connect(forget_spider, signals.engine_stopped, weak=False)


def command_of_process() -> str:
    """The name of the Scrapy command that this process was started with; empty for scripts and servers."""
    arguments = iter(sys.orig_argv)
    for argument in arguments:
        if PurePath(argument).name in ("scrapy", "scrapy.cmdline"):
            return next((each for each in arguments if not each.startswith("-")), "")
    return ""


def is_inspecting(crawler: Crawler) -> bool:
    """Whether this is a command that tries something out, and must not touch the store of a crawl."""
    return stays_open(crawler) or command_of_process() in _INSPECTING


def is_terminal(stream: Any) -> bool:
    """Whether *stream* is a terminal; with ``LOG_STDOUT`` `sys.stdout` is no stream."""
    isatty = getattr(stream, "isatty", None)
    return isatty is not None and bool(isatty())


# -- signals and middlewares ---------------------------------------------------------------------------------


def listeners(crawler: Crawler, signal: object) -> list[Any]:
    """The live receivers of *signal*. 5 us."""
    return list(liveReceivers(getAllReceivers(crawler.signals.sender, signal)))


def has_middleware(crawler: Crawler, name: str) -> bool:
    """Whether our spider or downloader middleware *name*, or a subclass of it, is enabled; False before the
    engine exists."""
    if engine_of(crawler) is None:
        return False
    cls = load_object(f"scrapy_frontier.{name}")
    return (crawler.get_spider_middleware(cls) or crawler.get_downloader_middleware(cls)) is not None


def spider_middlewares_behind(crawler: Crawler, name: str) -> list[Any]:
    """The spider middlewares between ours of this *name* and the engine, in the order that requests pass
    them."""
    ours = crawler.get_spider_middleware(load_object(f"scrapy_frontier.{name}"))
    engine_first = engine_of(crawler).scraper.spidermw.middlewares
    return list(takewhile(lambda each: each is not ours, engine_first))[::-1]


def http_error_of(crawler: Crawler, response: Response, request: Request) -> HttpError | None:
    """What `HttpErrorMiddleware`, or a project's subclass of it, raises for *response*, so that no callback
    sees it; None if it lets the response pass. Scrapy asks it once more."""
    if response.request is None:  # the engine has not set it yet
        response = response.replace(request=request)
    middleware = crawler.get_spider_middleware(HttpErrorMiddleware)
    try:
        if middleware is not None:
            middleware.process_spider_input(response)
    except HttpError as error:
        return error
    except Exception:  # it raises the same for Scrapy, which logs it
        return None
    return None


# -- the downloader ------------------------------------------------------------------------------------------


_in_page: ContextVar[bool] = ContextVar("frontier_in_page", default=False)
is_in_page = _in_page.get  # whether a downloader middleware sends this request while it handles a page


def watch_fetch(
    crawler: Crawler, active_requests: dict[Request, Any], on_result: Callable[[Request, Any], Any]
) -> None:
    """Calls *on_result* with what the downloader and its middlewares made of each request, a response, a
    request (redirect, retry) or a failure; the engine goes on with what that returns. What they do for a
    request of *active_requests* `is_in_page`."""
    downloader = engine_of(crawler).downloader
    fetch = downloader.fetch

    def watched(request: Request, *args: Any) -> Any:
        token = _in_page.set(_in_page.get() or request in active_requests)
        try:
            fetched = fetch(request, *args)
            # Scrapy names what is no result
            return fetched.addBoth(came_back, request) if isinstance(fetched, Deferred) else fetched
        finally:
            _in_page.reset(token)

    def came_back(result: Any, request: Request) -> Any:
        _in_page.set(False)  # what follows, the callback too, may run in the context of the middlewares
        return on_result(request, result)

    downloader.fetch = watched


# Called as soon as the request that is being downloaded has a connection to be written to: the first raises
# if it may not be sent any more.
_connected: ContextVar[tuple[Callable[[], None], Callable[[], None] | None] | None] = ContextVar(
    "frontier_connected", default=None
)
_SENDING_TURNS = 2  # of the event loop from there to the socket; TLS takes one more


def watch_sending(
    crawler: Crawler,
    active_requests: dict[Request, Any],
    on_sent: Callable[[Request], None],
    check: Callable[[Request], None],
) -> None:
    """Calls *on_sent* for each of *active_requests* that ``is_sending`` as soon as it has been written to its
    connection, and sets ``was_given`` when it reaches a download handler.

    A request ends with what *check* raises when it reaches its handler, or its connection. A handler without
    Scrapy's connection pool does not show that: there a request is taken for sent `SENDING` seconds later.
    """
    handlers = engine_of(crawler).downloader.handlers
    download = handlers.download_request_async
    pools: dict[str, bool] = {}  # by scheme, whether there is one

    async def watched(request: Request) -> Any:
        active = active_requests.get(request)
        # One of the frontier's own, a robots.txt say, may be for any of them.
        for each in active_requests.values() if active is None else (active,):
            each.was_given = True
        check(request)
        scheme = request.url.partition(":")[0]
        if scheme not in pools:
            pools[scheme] = _watch_pool(crawler, handlers, scheme)
        notify = None
        if active is not None and active.is_sending:
            turns = _SENDING_TURNS + (scheme == "https")
            notify = partial(_after_turns, turns, partial(on_sent, request))
            if not pools[scheme]:
                call_later(SENDING, notify)
        _connected.set((partial(check, request), notify))
        return await download(request)

    handlers.download_request_async = watched


def _watch_pool(crawler: Crawler, handlers: Any, scheme: str) -> bool:
    """Makes the pool of connections for *scheme* report each one, and send no request a second time by itself
    when a kept connection breaks, at once whatever the delay; False if there is no pool.

    It still does for a project that may stop downloads (`StopDownload`): connections that are closed for that
    go back to the pool, and a request on one of them is not sent at all.
    """
    pool: Any = getattr(handlers._get_handler(scheme), "_pool", None)
    connect = getattr(pool, "getConnection", None)
    if connect is None:
        return False
    stopping = (signals.headers_received, signals.bytes_received)
    pool.retryAutomatically = any(listeners(crawler, signal) for signal in stopping)
    if "getConnection" not in vars(pool):

        def watched(*args: Any) -> Any:
            return connect(*args).addCallback(_on_connected, _connected.get())

        pool.getConnection = watched
    return True


def _on_connected(connection: Any, calls: tuple[Callable[[], None], Callable[[], None] | None] | None) -> Any:
    if calls is not None:
        check, notify = calls
        check()
        if notify is not None:
            notify()
    return connection


def _after_turns(turns: int, call: Callable[[], None]) -> None:
    if turns:
        call_later(0, _after_turns, turns - 1, call)
    else:
        call()


class SideRequest(Request):
    """A request of the frontier's own, for a robots.txt: its sender tells the frontier how it ended."""

    page: Request | None = None  # that it is sent for, unless a redirect led to it
    reached_network = False


class _Places(set["Request"]):
    """The downloader's set of requests that take a place of ``CONCURRENT_REQUESTS``: all but side
    requests."""

    def add(self, request: Request) -> None:
        if not isinstance(request, SideRequest):
            super().add(request)

    def remove(self, request: Request) -> None:
        self.discard(request)


def spare_places(crawler: Crawler) -> None:
    """Makes side requests take no place of ``CONCURRENT_REQUESTS``: 16 slow ones would stop the crawl."""
    downloader = engine_of(crawler).downloader
    downloader.active = _Places(downloader.active)


def download_slot(crawler: Crawler, host: str) -> Any:
    """The downloader's slot of *host*; None if it has none now."""
    return engine_of(crawler).downloader.slots.get(host)


def set_slot_delay(crawler: Crawler, host: str, delay: float) -> None:
    """Makes the downloader's slot of *host*, now or once it is made, keep *delay*."""
    downloader = engine_of(crawler).downloader
    downloader.per_slot_settings.setdefault(host, {})["delay"] = delay
    slot = downloader.slots.get(host)
    if slot is not None:
        slot.delay = delay


def switch_jitter_off(crawler: Crawler) -> None:
    """Makes the downloader hand on at once what the scheduler hands out: the scheduler draws the jitter."""
    downloader = engine_of(crawler).downloader
    if hasattr(downloader, "_jitter"):
        downloader._jitter = 0.0
    else:  # Scrapy 2.18
        downloader.randomize_delay = False
    jitter = {"jitter", "randomize_delay"}
    downloader.per_slot_settings = {
        host: {name: value for name, value in settings.items() if name not in jitter}
        for host, settings in downloader.per_slot_settings.items()
    }


# -- the scraper ---------------------------------------------------------------------------------------------


def stand_before_scraper(crawler: Crawler, handle: Callable[..., Awaitable[None]]) -> None:
    """Calls *handle* with what a callback yields, behind all spider middlewares, in place of the scraper's
    own method, which is its first argument."""
    scraper = engine_of(crawler).scraper
    own = scraper.handle_spider_output_async
    if own.__qualname__ == "Scraper.handle_spider_output_async":  # and not another's
        scraper.handle_spider_output_async = partial(handle, own)


def watch_spider_errors(crawler: Crawler, raised: Callable[[BaseException, Request, Any], None]) -> None:
    """Calls *raised* with what a callback or errback raised, its request, and the response or failure it was
    called with, before the scraper handles it: Scrapy sends no signal for `CloseSpider`."""
    scraper = engine_of(crawler).scraper
    own = scraper.handle_spider_error

    def watched(failure: Any, request: Request, result: Any, *more: Any, **arguments: Any) -> Any:
        raised(failure.value, request, result)
        return own(failure, request, result, *more, **arguments)

    scraper.handle_spider_error = watched


def have_fail(crawler: Crawler, request: Request, error: Exception) -> None:
    """Makes *request* end with *error* soon, as if it had been sent: its errback is called."""

    def fail() -> None:
        ended = engine_of(crawler).scraper.enqueue_scrape(Failure(error), request)  # type: ignore[no-untyped-call]
        ended.addBoth(lambda _: wake(crawler))  # which may have nothing else to do

    call_later(0, fail)


# -- spiders and link extractors -----------------------------------------------------------------------------


def names_of_extractor(extractor: Any) -> tuple[frozenset[str], frozenset[str]] | None:
    """Tags and attributes in which a link extractor looks for links; None if a function decides, or if it is
    of another class."""
    parser = getattr(extractor, "link_extractor", None)
    if type(extractor) is not LinkExtractor or type(parser) is not LxmlParserLinkExtractor:
        return None
    if not parser.strip or parser.process_attr is not _UNPROCESSED:
        return None
    found = []
    for scan in (parser.scan_tag, parser.scan_attr):
        names, *denied = getattr(scan, "args", ((),))
        if not names or "*" in names or any(denied):
            return None
        found.append(frozenset(names))
    return found[0], found[1]


def callback_in_the_end(spider: Any, callback: Callable[..., Any] | None, rule: Any) -> Any:
    """The method of *spider* that gets the page of a request for *callback*, made by rule number *rule* of a
    `CrawlSpider`; its default one for a rule that only follows links."""
    if isinstance(spider, CrawlSpider) and callback == spider._callback:
        rules = getattr(spider, "_rules", ())
        callback = rules[rule].callback if isinstance(rule, int) and 0 <= rule < len(rules) else callback
    if callback is not None and callback != spider._parse:
        return callback
    return spider.parse if type(spider)._parse is Spider._parse else spider._parse


# -- the event loop ------------------------------------------------------------------------------------------


def start(work: Coroutine[Any, Any, None]) -> None:
    """Runs *work*, which must not raise, beside everything else, on the event loop or reactor there is."""
    deferred_from_coro(work)


async def give_way(turns: int = TURNS) -> None:
    """Lets others work until the event loop has nothing else to do, at most for so many *turns*; 50 us if
    there is nothing."""
    for _ in range(turns):
        begin = thread_time()
        await sleep(0)
        if thread_time() - begin < IDLE_TURN:
            break


class _Resolved:
    """Collects what Twisted's resolver finds for one name (``IResolutionReceiver``)."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.done: Deferred[list[str]] = Deferred()

    def resolutionBegan(self, resolution: Any) -> None:  # noqa: N802 - Twisted's names
        pass

    def addressResolved(self, address: Any) -> None:  # noqa: N802
        self.addresses.append(str(address.host))

    def resolutionComplete(self) -> None:  # noqa: N802
        self.done.callback(self.addresses)


async def addresses_of(host: str) -> list[str]:
    """The addresses that *host* resolves to; none if it does not.

    Asks the resolver that connections use, whose cache gives both the same answer; the event loop's without a
    reactor.
    """
    if is_reactor_installed():
        from twisted.internet import reactor

        resolved = _Resolved()
        reactor.nameResolver.resolveHostName(resolved, host)
        return await maybe_deferred_to_future(resolved.done)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(each[4][0]) for each in found]
