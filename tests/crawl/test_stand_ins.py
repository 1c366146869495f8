"""The scheduler beside an engine that is none: people test their own code with such."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import gc, sys
from unittest.mock import Mock

from scrapy import Request, Spider
from scrapy.utils.reactor import install_reactor
from scrapy.utils.test import get_crawler

from scrapy_frontier import FrontierScheduler

install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")


def opened(directory):
    crawler = get_crawler(Spider, {"FRONTIER_DIR": directory})
    crawler.spider, crawler.engine = Spider("one"), Mock()
    scheduler = FrontierScheduler.from_crawler(crawler)
    scheduler.open(crawler.spider)
    return scheduler


"""

ONE = """
scheduler = opened(sys.argv[1])
assert not scheduler.has_pending_requests()
assert scheduler.enqueue_request(Request("http://example.com/a"))
print(scheduler.next_request().url)
scheduler.close("finished")
"""

TWO = """
one, other = opened(sys.argv[1] + "/one"), opened(sys.argv[1] + "/other")
print(gc.get_freeze_count() > 0)
one.close("finished")
print(gc.get_freeze_count() > 0)
other.close("finished")
print(gc.get_freeze_count() > 0)
"""


def printed(script: str, tmp_path: Path) -> str:
    command = [sys.executable, "-c", SCRIPT + script, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_an_engine_that_answers_everything_does_not_keep_the_frontier_from_opening(tmp_path: Path) -> None:
    assert printed(ONE, tmp_path) == "http://example.com/a\n"


def test_the_end_of_one_crawl_does_not_make_collections_long_for_another(tmp_path: Path) -> None:
    """What is there for good is spared from garbage collections until the last crawl of a process ends."""
    assert printed(TWO, tmp_path) == "True\nTrue\nFalse\n"
