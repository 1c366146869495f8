"""What the server of a crawl shows of it: the dashboard, the state that this polls, and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from ..crawl.assembly import closing
from .page import page
from .snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy.crawler import Crawler

    from ..crawl.assembly import Crawl

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

NO_METRICS = "metrics need prometheus_client: pip install scrapy-frontier[metrics]"


class Dashboard:
    """Shows *crawl* until its frontier is closed: *add* has a server answer by a method and a path."""

    def __init__(self, add: Callable[[str, str, Handler], None], crawler: Crawler, crawl: Crawl) -> None:
        self._crawler = crawler
        self._snapshot = Snapshot(crawler, crawl)
        crawler.signals.connect(self._stop, closing)
        add("GET", "/", self._page)
        add("GET", "/api/state", self._state)
        add("GET", "/metrics", self._metrics)

    def _stop(self) -> None:
        self._snapshot.stop()

    async def _page(self, request: web.Request) -> web.Response:
        shown = page("dashboard")
        headers = {
            "Content-Security-Policy": f"{shown.policy}; frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }
        return web.Response(text=shown.html, content_type="text/html", headers=headers)

    async def _state(self, request: web.Request) -> web.Response:
        """Answers with the state; ``?since=SECONDS`` leaves out the samples that the page has already."""
        return web.json_response(self._snapshot.state(float(request.query.get("since", 0))))

    async def _metrics(self, request: web.Request) -> web.Response:
        try:
            from .metrics import CONTENT_TYPE, exposition
        except ImportError:
            return web.Response(status=501, text=f"{NO_METRICS}\n")
        stats = self._crawler.stats
        assert stats is not None
        body = exposition(stats.get_stats(), self._snapshot.figures())
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})
