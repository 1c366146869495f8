"""What `benchmarks/told.py` does for a harness without an engine, which finds it by its name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
DRIVERS = """
from scrapy import Request

class ApiDriver:
    def __init__(self, crawler, scheduler, clock):
        self.crawler, self.spider, self.scheduler, self.clock = crawler, crawler.spider, scheduler, clock

    def open(self):
        self.scheduler.open(self.spider)

    def make(self, url, priority, text, depth, parent):
        meta = {"depth": depth, "link_text": text}
        return Request(url, self.spider.parse, meta=meta, priority=priority, headers={"Referer": parent})
"""
SCRIPT = """
import sys
from types import SimpleNamespace

from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.utils.reactor import install_reactor
from scrapy.utils.test import get_crawler

import told
from scrapy_frontier import FrontierScheduler

install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")

class OneSpider(Spider):
    def parse(self, response): ...

crawler = get_crawler(OneSpider, {"FRONTIER_DIR": sys.argv[1], "CONCURRENT_REQUESTS": 1})
crawler.spider = OneSpider("one")
crawler.engine = SimpleNamespace(running=True, scraper=SimpleNamespace())
scheduler = FrontierScheduler.from_crawler(crawler)
bulk = told.Bulk(crawler, scheduler, SimpleNamespace(enqueue=0))
bulk.open()
assert scheduler.enqueue_request(Request("http://example.com/"))
page = scheduler.next_request()
links = [("http://example.com/b", 1, 'words "b"'), ("http://example.org/?b=1&a=2", 2, "words a")]
print(*(bulk.page_done(page, page.url, links) for _ in range(2)), bulk.clock.enqueue > 0)
for link in links:
    told.done(scheduler, crawler, page, Response(page.url, request=page))
    page = scheduler.next_request()
    print(page.url, page.priority, page.meta["link_text"], page.headers["Referer"].decode())
scheduler.close("finished")
"""
PRINTED = """\
2 0 True
http://example.org/?b=1&a=2 2 words a http://example.com/
http://example.com/b 1 words "b" http://example.com/
"""


@pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="the benchmarks are not there")
def test_a_harness_hands_links_over_in_bulk_and_tells_of_the_end(tmp_path: Path) -> None:
    (tmp_path / "drivers.py").write_text(DRIVERS, encoding="utf-8")
    path = f"import sys; sys.path[:0] = [{str(BENCHMARKS)!r}, {str(tmp_path)!r}]\n"
    command = [sys.executable, "-c", path + SCRIPT, str(tmp_path / "frontier")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, PRINTED), run.stderr
