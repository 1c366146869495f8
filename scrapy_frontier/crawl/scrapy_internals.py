"""What we have to do with Scrapy's scraper, which runs callbacks and errbacks: see to what comes of them, and
hand it an error.

Every touch of a private name of Scrapy, each with its fallback; and what differs between 2.14 and 2.19.

Where an attribute is missing (another engine, a test's stand-in) the functions return False or do
nothing, and the caller falls back to signals and timeouts.

Every touch of a private part of Scrapy's downloader, each with its fallback (see `compat`).
"""

from __future__ import annotations

import asyncio
import inspect
import socket
import sys
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from time import thread_time
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy import Request, Spider, signals
from scrapy.core import scraper as scraper_module
from scrapy.core.engine import ExecutionEngine
from scrapy.extensions.spiderstate import SpiderState
from scrapy.linkextractors import LinkExtractor
from scrapy.linkextractors.lxmlhtml import LxmlParserLinkExtractor
from scrapy.spidermiddlewares.httperror import HttpError, HttpErrorMiddleware
from scrapy.spiders import CrawlSpider
from scrapy.utils.asyncio import call_later, create_looping_call, is_asyncio_available
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.reactor import is_reactor_installed
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.python.failure import Failure

from ..core.hosts.host import SENDING
from .meta_keys import SLOT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from types import FrameType

    from scrapy.crawler import Crawler
    from scrapy.http import Response

__all__ = ["call_later", "create_looping_call", "is_asyncio_available"]

TURNS = 10  # of the event loop; a page of another host needs seven or so from its socket to its callback
IDLE_TURN = 0.0003  # seconds of the processor, of a turn in which nothing happened
_UNPROCESSED = LxmlParserLinkExtractor().process_attr  # by no function
_T = TypeVar("_T")


def _reader(names: str) -> Callable[[Request], tuple[Any, ...]]:
    """What an ``attrgetter`` does, in half the time: Python remembers where the code of a function found what
    it reads.

    It looks where a request keeps what its properties show. A property costs a call, and looking at one that
    was never set makes an empty container, which the request then keeps (2.15+).
    """
    request = Request("http://h/")
    kept = [f"_{name}" if hasattr(request, f"_{name}") else name for name in names.split()]
    found = ", ".join(f"request.{name}" for name in kept)
    read: Callable[[Request], tuple[Any, ...]] = eval(f"lambda request: ({found})")  # noqa: S307 - of our names
    return read


essentials = _reader("url method body dont_filter meta")
attributes = _reader(  # all but priority
    "url callback errback method body dont_filter encoding headers meta cookies cb_kwargs flags"
)


def set_url(request: Request, url: str) -> None:
    """Give *request* another *url*, made safe as by its constructor, whatever its class does with one. Raises
    `ValueError` where that has no scheme."""
    Request._set_url(request, url)


_INSPECTING = {f"scrapy.commands.{name}" for name in ("shell", "fetch", "parse", "check", "view", "bench")}
# What has an exit code; ``python -m scrapy.cmdline`` does not go by its name.
_COMMANDS = {"scrapy.cmdline", "scrapy.commands.crawl", "scrapy.commands.runspider"}


def engine_of(crawler: Crawler) -> Any:
    """The engine of *crawler*, None before there is one."""
    try:
        return crawler.engine
    except RuntimeError:  # 2.18+ before the engine exists; None in older versions
        return None


def slot_of(crawler: Crawler) -> Any:
    """The engine's slot: its scheduler, its next call, what is in progress; None while no spider is open."""
    return getattr(engine_of(crawler), "_slot", None)


def has_selector(response: Response) -> bool:
    """Whether *response* keeps a selector that somebody asked it for."""
    return getattr(response, "_cached_selector", None) is not None


def let_go_of_selector(response: Response) -> None:
    """A response and the selector it keeps hold each other, and the tree of the page: without this a hundred
    pages wait for the garbage collector. Whoever asks the response again gets a new one."""
    if has_selector(response):
        response._cached_selector = None  # type: ignore[attr-defined]  # it is there


def wake(crawler: Crawler) -> None:
    """Have the engine ask for requests soon.

    ``schedule`` gets no delay: while a delayed call is pending it ignores every other one, heartbeats
    included.
    """
    slot = slot_of(crawler)
    if slot is not None and slot.closing is None:
        slot.nextcall.schedule()


def is_closing(crawler: Crawler) -> bool:
    """Whether the spider is being closed, or the engine has none; also without an engine."""
    slot = slot_of(crawler)
    return slot is None or slot.closing is not None


def watch_inprogress(crawler: Crawler, watched: set[Request]) -> bool:
    """Have the engine keep the requests in progress in *watched*; it removes each when it has finished with
    it, after its callback and items. False where it keeps no such set."""
    slot = slot_of(crawler)
    if not isinstance(getattr(slot, "inprogress", None), set):
        return False
    watched |= slot.inprogress
    slot.inprogress = watched
    return True


def in_progress(crawler: Crawler) -> set[Request] | None:
    """The engine's own set of requests in progress, not to be changed; None where it has none."""
    found = getattr(slot_of(crawler), "inprogress", None)
    return found if isinstance(found, set) else None


def start(work: Coroutine[Any, Any, None]) -> None:
    """Run *work*, which must not raise, beside everything else, on whichever event loop there is."""
    deferred_from_coro(work)


async def sleep(seconds: float) -> None:
    """Come back after *seconds*, on whichever event loop there is; 0 lets it do what else there is."""
    if is_asyncio_available():
        await asyncio.sleep(seconds)
        return
    awake: Deferred[None] = Deferred()
    call_later(seconds, awake.callback, None)
    await maybe_deferred_to_future(awake)


async def give_way(turns: int = TURNS) -> None:
    """Let others work until the event loop has nothing else to do, so many *turns* at most; 50 us where there
    is nothing."""
    for _ in range(turns):
        begin = thread_time()
        await sleep(0)
        if thread_time() - begin < IDLE_TURN:
            break


async def in_thread(function: Callable[..., _T], *args: Any) -> _T:
    """The result of *function*, worked out in a thread of the loop's pool; raises what that raises."""
    if is_asyncio_available():
        return await asyncio.to_thread(function, *args)
    found: _T = await maybe_deferred_to_future(deferToThread(function, *args))
    return found


class _Resolved:
    """What Twisted's resolver tells of one name (``IResolutionReceiver``)."""

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
    """The addresses that *host* resolves to, none where it does not.

    Asks the resolver that connections use, so its cache gives both the same answer. Without a reactor that is
    the event loop's.
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


def has_middleware(crawler: Crawler, name: str) -> bool:
    """Whether a spider or downloader middleware whose class, or a base of it, is called *name* is at work;
    false before the engine is made."""
    at_work = spider_middlewares(crawler) + _middlewares(crawler, "downloader", "middleware")
    return any(cls.__name__ == name for each in at_work for cls in type(each).__mro__)


def spider_middlewares(crawler: Crawler) -> list[Any]:
    """The spider middlewares at work, the one next to the engine first; none before the engine is made."""
    return _middlewares(crawler, "scraper", "spidermw")


def _middlewares(crawler: Crawler, part: str, name: str) -> list[Any]:
    found = getattr(getattr(getattr(engine_of(crawler), part, None), name, None), "middlewares", None)
    # None of an engine made up for a test, as Scrapy's own suite has them.
    return list(found) if isinstance(found, list | tuple) else []


def names_of_extractor(extractor: Any) -> tuple[frozenset[str], frozenset[str]] | None:
    """Tags and attributes in which a link extractor looks for links.

    None for one that is told by a function, by which names it does not look, or is of a class of its own.
    """
    parser = getattr(extractor, "link_extractor", None)
    if type(extractor) is not LinkExtractor or type(parser) is not LxmlParserLinkExtractor:
        return None
    if not parser.strip or parser.process_attr is not _UNPROCESSED:
        return None
    found = []
    for scan in (parser.scan_tag, parser.scan_attr):
        names, *denied = getattr(scan, "args", ((),))  # 2.17+ has names that are denied
        if not names or "*" in names or any(denied):
            return None
        found.append(frozenset(names))
    return found[0], found[1]


def is_usual_engine(crawler: Crawler) -> bool:
    """Whether requests reach the scheduler as Scrapy's own engine has them do it: else nothing may be cut
    short."""
    engine = engine_of(crawler)
    names = ("crawl", "_schedule_request")
    return isinstance(engine, ExecutionEngine) and all(
        name not in vars(engine) and getattr(type(engine), name, 0) is getattr(ExecutionEngine, name, 1)
        for name in names
    )


def close_spider(crawler: Crawler, reason: str) -> None:
    """Close the spider soon, for *reason*, from wherever this is called; nothing where it is being closed."""

    def close() -> None:
        engine = engine_of(crawler)
        if engine is None or engine.spider is None or is_closing(crawler):
            return
        if engine.running:
            deferred_from_coro(engine.close_spider_async(reason=reason))
        else:  # starting: closed now, the process would end in the middle of it (scrapy issue 6916)
            call_later(0.01, close)

    call_later(0, close)


def fail(crawler: Crawler) -> None:
    """Have ``scrapy crawl`` and ``runspider`` end with exit code 1, whatever this crawl still does.

    They ask the runner whether a spider was missing (``bootstrap_failed``), and nothing leads there from a
    crawler; but the runner looks for the crawler's spider when all is over. A script or a server, which does
    not end with its crawl, keeps the spider: it may be read, as ScrapyRT does.
    """
    if not _is_run_by(_COMMANDS):
        return

    def forget_spider() -> None:
        crawler.spider = None

    crawler.signals.connect(forget_spider, signals.engine_stopped, weak=False)


def forget_spider_state(crawler: Crawler) -> None:
    """Have Scrapy's SpiderState read and write nothing: the JOBDIR it would do so in cannot be used, or the
    disk is full, where it would empty its file."""
    for extension in getattr(getattr(crawler, "extensions", None), "middlewares", ()):
        if isinstance(extension, SpiderState):
            extension.jobdir = None


class Loop:
    """The event loop, and the task on it, that the crawl of *crawler* is opened in; none with another reactor
    than asyncio's."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        with suppress(RuntimeError):
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()

    def has_ended(self) -> bool:
        """Whether nothing goes on with the crawl any more, nor closes it: the loop was closed, or the task
        cancelled before the engine ran."""
        if self._loop is None or self._loop.is_closed():
            return self._loop is not None
        is_cancelled = self._task is not None and self._task.cancelled()
        return is_cancelled and not getattr(engine_of(self._crawler), "running", False)


def stays_open(crawler: Crawler) -> bool:
    """Whether the engine goes on when it is idle, as that of ``scrapy shell`` does, and never asks whether
    there are pages left."""
    return getattr(slot_of(crawler), "close_if_idle", True) is False


def is_inspecting(crawler: Crawler) -> bool:
    """Whether this is one of Scrapy's commands that try things out, and must not touch a crawl's store.

    No setting tells. Only the shell keeps its engine open when it is idle; the others are on the stack.
    """
    return stays_open(crawler) or _is_run_by(_INSPECTING)


def _is_run_by(modules: set[str]) -> bool:
    """Whether a function of one of these *modules* is under way, and called what asks for this."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") in modules:
            return True
        frame = frame.f_back
    return False


def callback_in_the_end(spider: Any, callback: Callable[..., Any] | None, rule: Any) -> Any:
    """Who gets the page of a request of *spider* for *callback*, made by rule number *rule* of a
    `CrawlSpider`: by a rule that only has links followed its default one, which does so too."""
    if isinstance(spider, CrawlSpider) and callback == spider._callback:
        rules = getattr(spider, "_rules", ())
        callback = rules[rule].callback if isinstance(rule, int) and 0 <= rule < len(rules) else callback
    if callback is not None and callback != spider._parse:
        return callback
    return spider.parse if type(spider)._parse is Spider._parse else spider._parse


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


class SideRequest(Request):
    """A request of the frontier's own, for a robots.txt: its sender tells the frontier how it ended."""


class _Places(set["Request"]):
    """The downloader's set of requests that take a place of ``CONCURRENT_REQUESTS``: all but side
    requests."""

    def add(self, request: Request) -> None:
        if not isinstance(request, SideRequest):
            super().add(request)

    def remove(self, request: Request) -> None:
        self.discard(request)


def spare_places(crawler: Crawler) -> None:
    """Keep side requests out of ``CONCURRENT_REQUESTS``, which 16 slow files would use up.

    Does nothing if the downloader keeps no set of its places.
    """
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


# Seconds that Scrapy up to 2.17 sleeps before each callback.
SLEEP_BEFORE_CALLBACK = 0.1 if hasattr(scraper_module, "_defer_sleep_async") else 0.0


def stand_before_scraper(crawler: Crawler, handle: Callable[..., Awaitable[None]]) -> None:
    """Have *handle* called with what a callback yields, behind all spider middlewares, in the place of the
    scraper's own method, which is its first argument."""
    scraper = engine_of(crawler).scraper
    own = getattr(scraper, "handle_spider_output_async", None)
    if getattr(own, "__qualname__", "") == "Scraper.handle_spider_output_async":  # not somebody else's
        scraper.handle_spider_output_async = partial(handle, own)


def watch_spider_errors(crawler: Crawler, raised: Callable[[BaseException, Request, Any], None]) -> None:
    """Have *raised* called with what a callback or errback raised, its request, and the response or failure
    that was to be dealt with, before the scraper deals with that: Scrapy sends no signal for `CloseSpider`.
    """
    scraper = engine_of(crawler).scraper
    own = scraper.handle_spider_error

    def watched(failure: Any, request: Request, result: Any, *more: Any, **arguments: Any) -> Any:
        raised(failure.value, request, result)
        return own(failure, request, result, *more, **arguments)

    scraper.handle_spider_error = watched


def have_fail(crawler: Crawler, request: Request, error: Exception) -> None:
    """Have *request* end with *error* soon, as if it had been sent, so that its errback is called."""

    def fail() -> None:
        ended = engine_of(crawler).scraper.enqueue_scrape(Failure(error), request)  # type: ignore[no-untyped-call]
        ended.addBoth(lambda _: wake(crawler))  # which may have nothing else to do

    call_later(0, fail)


def http_error_of(crawler: Crawler, response: Response, request: Request) -> HttpError | None:
    """What `HttpErrorMiddleware`, or what a project made of that, raises for *response*, so that no callback
    sees it; None where it lets it pass. It is asked once more than Scrapy asks it."""
    if response.request is None:  # the engine has not come to that
        response = response.replace(request=request)
    for each in spider_middlewares(crawler):
        if isinstance(each, HttpErrorMiddleware):
            ask: Callable[..., None] = each.process_spider_input
            try:
                ask(response) if _takes_one(ask) else ask(response, crawler.spider)
            except HttpError as error:
                return error
            except Exception:  # it will raise the same for Scrapy, and be told
                return None
    return None


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:  # as projects wrote it for years: with the spider
        return False
    return True
