"""A spider that fetches a loopback web, for crawls of several processes.

Settings of its own: ``CONSTANTS`` of `shared.process`, and ``META`` of its seeds.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.dupefilters import RFPDupeFilter

from scrapy_frontier.shared import process as shared_process

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.http import Response


class WebSpider(Spider):
    name = "web"

    async def start(self) -> AsyncIterator[Any]:
        for url in self.seeds:
            yield Request(url, meta=dict(self.settings.get("META") or {}))

    def parse(self, response: Response) -> Any:
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)


async def stand_still(request: Request) -> None:
    """The process is stopped before it asks for ``/stop``; awake, it goes on after three seconds."""
    if request.url.endswith("/stop"):
        os.kill(os.getpid(), signal.SIGSTOP)
        await asyncio.sleep(3)


class StopsBeforeHandler:
    async def process_request(self, request: Request) -> None:
        await stand_still(request)


class StopsInHandler(HTTP11DownloadHandler):
    async def download_request(self, request: Request) -> Response:
        await stand_still(request)
        return await super().download_request(request)


class OwnFilter(RFPDupeFilter):
    pass


def main(settings: str, seeds: str, stats_file: str) -> None:
    for name, value in (json.loads(settings).get("CONSTANTS") or {}).items():
        setattr(shared_process, name, value)
    process = AsyncCrawlerProcess(json.loads(settings))
    crawler = process.create_crawler(WebSpider)
    process.crawl(crawler, seeds=json.loads(seeds))
    process.start()
    assert crawler.stats is not None
    Path(stats_file).write_text(json.dumps(crawler.stats.get_stats(), default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
