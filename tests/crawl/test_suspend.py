"""A process that is stopped and goes on: nobody is asked twice for it, and nobody is blamed."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from conftest import wait_until
from scrapy import Spider
from server import PATIENCE, Answer

from scrapy_frontier.crawl import clock, scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Crawl
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from server import Web
    from typing_extensions import Self

STOPPED = 4.0  # seconds
ADDONS = {"scrapy_frontier.Addon": 500}


class ImpatientSpider(Spider):
    """Fetches *start_urls*; takes seconds for minutes."""

    name = "impatient"

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        clock.STOOD_STILL, scheduler.SWEEP_INTERVAL = 2.0, 0.2
        return super().from_crawler(crawler, *args, **kwargs)

    def parse(self, response: Response) -> None:
        pass


def stop_and_continue(crawl: Crawl, web: Web, path: str = "/") -> None:
    """Stop the process of *crawl* when *path* is under way, and let it go on in a while."""
    wait_until(lambda: path in web.paths())
    crawl.process.send_signal(signal.SIGSTOP)
    time.sleep(STOPPED)
    crawl.process.send_signal(signal.SIGCONT)


def test_a_page_under_way_is_not_asked_for_again(start: Callable[..., Crawl], web: Web) -> None:
    is_awake = threading.Event()
    web.on("/", Answer(until=is_awake.is_set), Answer())
    settings = {"ADDONS": ADDONS}
    crawl = start(ImpatientSpider, settings, start_urls=[web.url("/")])
    stop_and_continue(crawl, web)
    crawl.go_on()
    is_awake.set()

    assert crawl.wait().reason == "finished", crawl.log
    assert web.paths().count("/") == 1
    assert "The process stood still for " in crawl.log


def test_a_host_does_not_rest_for_a_connection_that_timed_out_meanwhile(
    start: Callable[..., Crawl], web: Web
) -> None:
    """Nor is the page, which may have no tries left."""
    web.on("/", Answer(delay=PATIENCE), Answer())
    settings = {"ADDONS": ADDONS, "DOWNLOAD_TIMEOUT": STOPPED - 1, "RETRY_ENABLED": False}
    crawl = start(ImpatientSpider, settings, start_urls=[web.url("/")])
    stop_and_continue(crawl, web)

    assert crawl.wait().reason == "finished", crawl.log
    assert web.paths().count("/") == 2
    assert crawl.stats["frontier/pages/done"] == 1
    assert "frontier/cooldown/strikes" not in crawl.stats


def test_the_clock_of_a_crawl_goes_on_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "boot_time", iter([1000.0, 1001.0, 30_000.0]).__next__)
    steady = clock.steady_clock()
    before = steady()
    assert abs(before - time.time() - 1) < 600
    assert abs(steady() - before - 28_999.0) < 1e-3


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="a clock of Linux")
def test_the_machine_is_asked_for_a_clock_that_counts_its_sleep() -> None:
    assert clock.boot_time() == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=600)
