"""A spider that fetches a loopback web, for crawls of several processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.http import Response


class WebSpider(Spider):
    name = "web"

    async def start(self) -> AsyncIterator[Any]:
        for url in self.seeds:
            yield Request(url)

    def parse(self, response: Response) -> Any:
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)


def main(settings: str, seeds: str, stats_file: str) -> None:
    process = AsyncCrawlerProcess(json.loads(settings))
    crawler = process.create_crawler(WebSpider)
    process.crawl(crawler, seeds=json.loads(seeds))
    process.start()
    assert crawler.stats is not None
    Path(stats_file).write_text(json.dumps(crawler.stats.get_stats(), default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
