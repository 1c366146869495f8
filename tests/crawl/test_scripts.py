"""Crawls of scripts and servers, which go on in their process when a crawl has ended."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from conftest import SETTINGS, environment
from scrapy.settings import default_settings

from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.leveldb import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from server import Web

    from scrapy_frontier.core.store.records import Page

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

LEFT = """
import asyncio
import json
import sys

from scrapy import signals
from scrapy.crawler import AsyncCrawlerRunner

from test_errors import LinkSpider

def begin():
    runner = AsyncCrawlerRunner(json.loads(sys.argv[1]))
    crawler = runner.create_crawler(LinkSpider)
    return crawler, lambda: runner.crawl(crawler, start_urls=json.loads(sys.argv[2]))

async def leave():
    crawler, crawl = begin()
    sent = asyncio.Semaphore(0)

    def count(request):
        sent.release()

    crawler.signals.connect(count, signals.request_reached_downloader)
    crawl()
    await sent.acquire()
    await sent.acquire()

async def cancel():
    crawler, crawl = begin()
    is_opened = asyncio.Event()

    async def wait(spider):
        is_opened.set()
        await asyncio.Event().wait()

    crawler.signals.connect(wait, signals.spider_opened)
    task = crawl()
    await is_opened.wait()
    task.cancel()
    await asyncio.wait([task])

async def go_on():
    crawler, crawl = begin()
    await crawl()
    print(crawler.stats.get_value("finish_reason"))
"""
ENDED_LOOP = "asyncio.run(leave()); asyncio.run(go_on())"
CANCELLED = """
async def both():
    await cancel()
    await go_on()

asyncio.run(both())
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


@pytest.mark.skipif("TWISTED_REACTOR_ENABLED" not in dir(default_settings), reason="needs a newer Scrapy")
@pytest.mark.parametrize("way", [ENDED_LOOP, CANCELLED], ids=["loop", "cancelled"])
def test_a_crawl_that_was_left_in_its_middle_does_not_lock_its_frontier(
    web: Web, tmp_path: Path, pages: Callable[[], dict[str, Page]], way: str
) -> None:
    """As by Ctrl-C in a notebook; the next goes on, with the page that was under way."""
    web.link("/", "/a")
    web.on("/a", delay=0.5)
    settings = {"FRONTIER_DIR": "frontier", "TWISTED_REACTOR_ENABLED": False, "LOG_LEVEL": "ERROR"}
    assert printed(LEFT + way, settings, [web.url("/")], tmp_path) == "finished\n"
    assert web.paths().count("/") == 1
    assert [page.state for page in pages().values()] == [State.DONE] * 2
