"""The scheduler beside an engine that is none: people test their own code with such."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import sys
from unittest.mock import Mock

from scrapy import Request, Spider
from scrapy.utils.reactor import install_reactor
from scrapy.utils.test import get_crawler

from scrapy_frontier import FrontierScheduler

install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
crawler = get_crawler(Spider, {"FRONTIER_DIR": sys.argv[1]})
crawler.spider, crawler.engine = Spider("one"), Mock()
scheduler = FrontierScheduler.from_crawler(crawler)
scheduler.open(crawler.spider)
assert not scheduler.has_pending_requests()
assert scheduler.enqueue_request(Request("http://example.com/a"))
print(scheduler.next_request().url)
scheduler.close("finished")
"""


def test_an_engine_that_answers_everything_does_not_keep_the_frontier_from_opening(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert run.stdout == "http://example.com/a\n", run.stderr
