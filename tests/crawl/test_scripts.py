"""Crawls of scripts and servers, which go on in their process when a crawl has ended."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from conftest import SETTINGS, environment

from scrapy_frontier.core.store.leveldb import Store

if TYPE_CHECKING:
    from pathlib import Path

    from server import Web


LOCKED = """
import json
import sys

from scrapy.crawler import AsyncCrawlerProcess

from test_errors import LinkSpider

process = AsyncCrawlerProcess(json.loads(sys.argv[1]))
crawler = process.create_crawler(LinkSpider)
process.crawl(crawler, start_urls=json.loads(sys.argv[2]))
process.start()
print(crawler.stats.get_value("finish_reason"), type(crawler.spider).__name__)
"""

MANY = """
import asyncio
import gc
import json
import resource
import sys
from pathlib import Path

from scrapy.crawler import AsyncCrawlerRunner

from test_errors import LinkSpider

def megabytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6

async def main():
    sizes = []
    for _ in range(12):
        runner = AsyncCrawlerRunner(json.loads(sys.argv[1]))
        await runner.crawl(LinkSpider, start_urls=json.loads(sys.argv[2]))
        sizes.append(megabytes())
    print(sizes[-1] - sizes[1])

def left(name):
    return sum(type(each).__name__ == name for each in gc.get_objects())

gc.disable()
gc.freeze()
asyncio.run(main())
print(gc.get_freeze_count(), left("mmap"))
gc.collect()
print(left("Crawl"), left("Frontier"), left("Store"))
"""


def printed(script: str, settings: dict[str, Any], urls: list[str], tmp_path: Path) -> str:
    """What *script* prints, which is given *settings* and *urls*."""
    arguments = [json.dumps({**SETTINGS, **settings}), json.dumps(urls)]
    command = [sys.executable, "-c", script, *arguments]
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment(), cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_a_server_may_read_the_spider_of_a_crawl_that_could_not_use_its_frontier(
    web: Web, tmp_path: Path
) -> None:
    """As ScrapyRT does, which gives the class back what it took from it for one request."""
    store = Store(tmp_path / "frontier")
    try:
        told = printed(LOCKED, {"FRONTIER_DIR": "frontier"}, [web.url("/")], tmp_path)
    finally:
        store.close()
    assert told == "frontier_locked LinkSpider\n"
    assert not web.visits


@pytest.mark.parametrize("more", [{}, {"ADDONS": {"scrapy_frontier.Addon": 500}}])
def test_an_ended_crawl_leaves_little_in_memory(web: Web, tmp_path: Path, more: dict[str, Any]) -> None:
    """The filter of known pages alone has 8 MB, and a scorer a column for each of its figures; and what an
    application froze stays frozen."""
    settings = {"TWISTED_REACTOR_ENABLED": False, "LOG_LEVEL": "ERROR", **more}
    told = printed(MANY, settings, [web.url("/")], tmp_path).split()
    assert float(told[0]) < 10 * 5
    assert int(told[1]) > 10_000
    assert told[2:] == ["0"] * 4
