"""The HTTP server of a running crawl: what commands, dashboard and metrics ask, and what they order.

It runs in the crawl's own event loop, on 127.0.0.1, with aiohttp. A file beside the lock of the frontier,
readable by its owner alone, says at which port and with which token; it goes with the crawl.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import os
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any

from aiohttp import web
from scrapy import signals
from scrapy.exceptions import UsageError

from ..core.admin import database_files
from ..core.errors import FrontierError, UnreadableRow
from ..crawl import scrapy_internals
from ..crawl.assembly import closing
from ..crawl.control import RunningFrontier
from ..crawl.orders import ORDERS
from .client import ADDRESS, LIVE_FILE
from .dashboard import Dashboard

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from scrapy.crawler import Crawler

    from ..crawl.assembly import Crawl

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

logger = logging.getLogger(__name__)

OPEN_TO_ALL = {"/", "/health", "/metrics"}  # without the token: no URL is told there
STOP_TIMEOUT = 1.0  # seconds that requests under way have at the end
_MOST_HOSTS = 200  # in one answer: 10 ms
_HOSTS_AT_ONCE = 1000
_encode = partial(json.dumps, allow_nan=False)


class LiveServer:
    """Serves *crawl* from the start of the engine until its frontier is closed.

    ``token`` is what a request has to show, as ``Authorization: Bearer TOKEN``. `add` a route before the
    engine starts.
    """

    def __init__(self, crawler: Crawler, crawl: Crawl, port: int) -> None:
        self.crawler = crawler
        self.crawl: Crawl | None = crawl
        self.token = secrets.token_urlsafe(24)
        self._port = port
        self._file = crawl.store.directory / LIVE_FILE
        self._hosts: set[str] = set()  # by which this server may be called
        self._application = web.Application(middlewares=[self._guard])
        self._runner = web.AppRunner(self._application, access_log=None, shutdown_timeout=STOP_TIMEOUT)
        self.add("GET", "/health", self._health)
        self.add("GET", "/api/{name}", self._api)
        self.add("POST", "/api/{name}", self._api)
        Dashboard(self.add, crawler, crawl)
        crawler.signals.connect(self.start, signals.engine_started)
        crawler.signals.connect(self._close, closing)
        crawler.signals.connect(self.stop, signals.engine_stopped)

    def add(self, method: str, path: str, handler: Handler) -> None:
        """Has *handler* answer requests for *path*."""
        self._application.router.add_route(method, path, handler)

    @property
    def address(self) -> str:
        """Where it listens, as ``http://127.0.0.1:8100``."""
        return f"http://{ADDRESS}:{self._port}"

    async def start(self) -> None:
        """Listens at the port, or at a free one if that is taken, and tells where. Raises nothing."""
        try:
            await self._runner.setup()
            try:
                await web.TCPSite(self._runner, ADDRESS, self._port).start()
            except OSError as error:
                if not self._port:
                    raise
                words = "FRONTIER_DASHBOARD = %d: that port is taken (%s), a free one is used"
                self._log(logging.WARNING, words, self._port, error.strerror)
                await web.TCPSite(self._runner, ADDRESS, 0).start()
            self._port = self._runner.addresses[0][1]
            self._hosts = {f"{name}:{self._port}" for name in (ADDRESS, "localhost")}
            database_files.remove_copies(self._file.parent)  # that commands left which were killed
            write_private(self._file, {"port": self._port, "token": self.token, "pid": os.getpid()})
        except OSError as error:
            words = "No dashboard, and no commands while the crawl runs: cannot listen on %s (%s)"
            self._log(logging.WARNING, words, ADDRESS, error)
            await self._runner.cleanup()
            return
        self._log(logging.INFO, "Dashboard: %s/#token=%s", self.address, self.token)

    def _close(self) -> None:
        """Answers nothing more: the frontier is about to be closed."""
        self.crawl = None
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)

    async def stop(self) -> None:
        """Ends all connections."""
        await self._runner.cleanup()

    def _log(self, level: int, message: str, *values: object) -> None:
        logger.log(level, message, *values, extra={"spider": self.crawler.spider})

    # -- requests --------------------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Lets a request pass that calls this server by its own name, comes from no other site's page, and
        shows the token, and answers it with the error that its handler raised."""
        origin = request.headers.get("Origin")
        is_foreign = origin is not None and origin.removeprefix("http://") not in self._hosts
        if request.headers.get("Host") not in self._hosts or is_foreign:
            return refusal(403, "forbidden", "requests of other sites are refused")
        if request.path not in OPEN_TO_ALL and not self._shows_token(request):
            return refusal(401, "unauthorized", f"show the token that is in {LIVE_FILE}, as a bearer token")
        if self.crawl is None:
            return refusal(503, "ended", "the crawl has ended")
        try:
            response = await handler(request)
        except (FrontierError, UnreadableRow) as error:
            return refusal(500, getattr(error, "reason", "frontier_error"), str(error))
        except (UsageError, ValueError, TypeError) as error:
            return refusal(400, "usage", str(error))
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    def _shows_token(self, request: web.Request) -> bool:
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(shown.encode(errors="replace"), self.token.encode())

    async def _health(self, request: web.Request) -> web.Response:
        spider = self.crawler.spider
        return answer({"status": "ok", "spider": spider.name if spider else None, "pid": os.getpid()})

    async def _api(self, request: web.Request) -> web.Response:
        """Answers ``/api/`` and the name of one of `_READS` or `_ORDERS`; arguments are those of a query, or
        an object in JSON."""
        name, is_order = request.match_info["name"], request.method == "POST"
        call = _READS.get(name) or (_ORDERS.get(name) if is_order else None)
        if call is None:
            return refusal(404, "unknown", f"there is no {request.method} /api/{name}")
        arguments = await request.json() if is_order and request.can_read_body else dict(request.query)
        assert self.crawl is not None
        found = await call(RunningFrontier(self.crawl), **arguments)
        if is_order:
            scrapy_internals.wake(self.crawler)
        return answer(found)


# -- what can be asked and ordered: each gives the event loop back within some milliseconds ------------------


async def _counts(frontier: RunningFrontier) -> dict[str, object]:
    return frontier.counts()._asdict()


async def _hosts(frontier: RunningFrontier, most: str | int = 20) -> list[dict[str, object]]:
    return [view._asdict() for view in frontier.hosts(min(int(most), _MOST_HOSTS))]


async def _why(frontier: RunningFrontier, url: str) -> dict[str, str]:
    return {"url": url, "why": frontier.why(url)}


async def _copy(frontier: RunningFrontier) -> dict[str, object]:
    """Copies the database for a command, and tells what only this process knows."""
    target = await frontier.copy()
    clocks = {}
    for number, (host, clock) in enumerate(frontier.clocks()):
        if clock is not None:
            clocks[host] = clock
        if not number % _HOSTS_AT_ONCE:
            await asyncio.sleep(0)
    return {"copy": target.name, "clocks": clocks, "under_way": frontier.under_way()}


def _in_steps(order: Callable[..., Iterator[object]]) -> Callable[..., Awaitable[object]]:
    """Returns a coroutine function that gives the event loop back after each step of *order*."""

    async def carry_out(frontier: RunningFrontier, **arguments: Any) -> object:
        found: object = None
        for found in order(frontier, **arguments):  # noqa: B007
            await asyncio.sleep(0)
        return found

    return carry_out


async def _pause(frontier: RunningFrontier) -> int:
    frontier.pause()
    return len(frontier.under_way())


async def _resume(frontier: RunningFrontier) -> bool:
    was_paused = frontier.is_paused
    frontier.resume()
    return was_paused


async def _stop(frontier: RunningFrontier) -> int:
    frontier.stop()
    return len(frontier.under_way())


_READS: dict[str, Callable[..., Awaitable[object]]] = {"counts": _counts, "hosts": _hosts, "why": _why}
_ORDERS: dict[str, Callable[..., Awaitable[object]]] = {
    "copy": _copy,
    **{name: _in_steps(order) for name, order in ORDERS.items()},
    "pause": _pause,
    "resume": _resume,
    "stop": _stop,
}


# -- answers -------------------------------------------------------------------------------------------------


def answer(document: Any, status: int = 200) -> web.Response:
    """Returns *document* as a response in JSON."""
    return web.json_response(document, status=status, dumps=_encode)


def refusal(status: int, reason: str, message: str) -> web.Response:
    """Returns an error as a response in JSON."""
    return answer({"error": reason, "message": message}, status)


def write_private(path: Path, document: dict[str, object]) -> None:
    """Writes *document* into a new file for its owner alone, which takes the place of *path*, also of a
    symbolic link there. Raises `OSError`."""
    beside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(document, file)
    beside.replace(path)
