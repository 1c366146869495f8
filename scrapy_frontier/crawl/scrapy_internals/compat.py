"""Every touch of a private name of Scrapy, each with its fallback; and what differs between 2.14 and 2.19.

Where an attribute is missing (another engine, a test's stand-in) the functions return False or do
nothing, and the caller falls back to signals and timeouts.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress
from time import thread_time
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy import Request, Spider, signals
from scrapy.core.engine import ExecutionEngine
from scrapy.extensions.spiderstate import SpiderState
from scrapy.linkextractors import LinkExtractor
from scrapy.linkextractors.lxmlhtml import LxmlParserLinkExtractor
from scrapy.spiders import CrawlSpider
from scrapy.utils.asyncio import call_later, create_looping_call, is_asyncio_available
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.reactor import is_reactor_installed
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
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
