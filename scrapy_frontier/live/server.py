"""The HTTP server of a running crawl: what commands, dashboard and metrics ask, and what they order.

It runs in the crawl's own event loop, on 127.0.0.1, with aiohttp. A file beside the lock of the frontier,
readable by its owner alone, says at which port and with which token; it goes with the crawl.
"""

from __future__ import annotations

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

from ..core.errors import FrontierError, UnreadableRow
from ..crawl.assembly import closing
from .dashboard import Dashboard

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from scrapy.crawler import Crawler

    from ..crawl.assembly import Crawl

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

logger = logging.getLogger(__name__)

ADDRESS = "127.0.0.1"
LIVE_FILE = "frontier.live"
OPEN_TO_ALL = {"/", "/health", "/metrics"}  # without the token: no URL is told there
STOP_TIMEOUT = 1.0  # seconds that requests under way have at the end
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
        self._file = crawl.frontier.directory / LIVE_FILE
        self._hosts: set[str] = set()  # by which this server may be called
        self._application = web.Application(middlewares=[self._guard])
        self._runner = web.AppRunner(self._application, access_log=None, shutdown_timeout=STOP_TIMEOUT)
        self.add("GET", "/health", self._health)
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
