"""One crawl in a process of its own: ``python run_crawl.py module.Spider STATS_FILE SETTINGS ARGUMENTS``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from scrapy.crawler import AsyncCrawlerProcess
from scrapy.downloadermiddlewares import cookies
from scrapy.utils.misc import load_object

from scrapy_frontier.core.pages import queue


def main(spider: str, stats_file: str, settings: str, arguments: str) -> None:
    if extract := getattr(cookies, "_split_domain", None):
        extract.suffix_list_urls = ()  # else the first cookie makes it ask the internet for a list
    values = json.loads(settings)
    queue.FIRST_BACKOFF = values.pop("FIRST_BACKOFF", queue.FIRST_BACKOFF)  # seconds
    process = AsyncCrawlerProcess(values)
    crawler = process.create_crawler(load_object(spider))
    process.crawl(crawler, **json.loads(arguments))
    process.start()
    stats = crawler.stats.get_stats() if crawler.stats else {}
    Path(stats_file).write_text(json.dumps(stats, default=str), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
