"""What the server of a crawl shows of it: the dashboard, the state that this polls, and metrics."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiohttp import web

from ..core.admin import facts, scores
from ..crawl.assembly import closing
from ..crawl.control import RunningFrontier, request_for
from .page import page
from .snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy.crawler import Crawler

    from ..core.frontier import PageId
    from ..crawl.assembly import Crawl

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_LINKS = 8  # to a page and on it that are shown
_MOST_LINKS = 2_000_000  # that are looked at for those to a page: some tenths of a second in all
NO_METRICS = "metrics need prometheus_client: pip install scrapy-frontier[metrics]"


class Dashboard:
    """Shows *crawl* until its frontier is closed: *add* has a server answer by a method and a path."""

    def __init__(self, add: Callable[[str, str, Handler], None], crawler: Crawler, crawl: Crawl) -> None:
        self._crawler, self._crawl = crawler, crawl
        self._snapshot = Snapshot(crawler, crawl)
        crawler.signals.connect(self._snapshot.stop, closing)
        add("GET", "/", self._page)
        add("GET", "/api/state", self._state)
        add("GET", "/api/page", self._one_page)
        add("GET", "/metrics", self._metrics)

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

    async def _one_page(self, request: web.Request) -> web.Response:
        """Answers with what is known of the page ``?url=``: why it is in its state, its record, and some of
        the links on it and to it."""
        url, crawl = request.query.get("url", ""), self._crawl
        document: dict[str, Any] = {"url": url, "state": None, "why": RunningFrontier(crawl).why(url)}
        page_id = crawl.frontier.find(crawl.identities.of(request_for(url, crawl.settings)))
        page = None if page_id is None else crawl.frontier.page(page_id)
        if page_id is not None and page is not None:
            document |= facts.describe(page_id, page)
            document["parent"] = self._end(page.parent)["url"]
            document["score"] = scores.kept_score(crawl.store, page_id)
            links_out = facts.links_out(crawl.store, page_id)
            document["links_out"] = len(links_out)
            document["out"] = [self._end(edge.target) for edge in links_out[:_LINKS]]
            document["in"] = [self._end(source) for source in await self._sources(page_id)]
        return web.json_response(document)

    async def _sources(self, page_id: PageId) -> list[PageId]:
        """Returns some of the pages that link to a page; looks at no more than `_MOST_LINKS`, and gives way
        to the crawl every few milliseconds."""
        found: list[PageId] = []
        walked = 0
        for links in facts.every_link(self._crawl.store):
            found += links.sources[links.targets == page_id].tolist()
            walked += len(links.targets)
            if len(found) >= _LINKS or walked > _MOST_LINKS:
                break
            await asyncio.sleep(0)
        return found[:_LINKS]

    def _end(self, page_id: PageId | None) -> dict[str, str | None]:
        page = None if page_id is None else facts.legible_page(self._crawl.store, page_id)
        return {"url": page and page.url, "state": page and page.state.name.lower()}

    async def _metrics(self, request: web.Request) -> web.Response:
        try:
            from .metrics import CONTENT_TYPE, exposition
        except ImportError:
            return web.Response(status=501, text=f"{NO_METRICS}\n")
        stats = self._crawler.stats
        assert stats is not None
        body = exposition(stats.get_stats(), self._snapshot.figures())
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})
