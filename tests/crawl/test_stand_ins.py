"""The scheduler beside an engine that is none: people test their own code with such."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import gc, os, sys, time
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

COUNTED = """
scheduler = opened(sys.argv[1])
for path in "abc":
    assert scheduler.enqueue_request(Request(f"http://{path}.example/"))
stats = scheduler.crawler.stats
for _ in "abc":
    scheduler.next_request()
    time.sleep(0.2)
    print(stats.get_value("scheduler/enqueued"), stats.get_value("scheduler/dequeued"))
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

MANY = """
import weakref

class Marked:
    pass

marks, last = weakref.WeakSet(), None
for number in range(4):
    one = opened(f"{sys.argv[1]}/{number}")
    one.mark = Marked()
    one.itself = one  # as crawlers are: freed by the garbage collector alone
    marks.add(one.mark)
    if last is not None:
        last.close("finished")
    last = one
del one
gc.collect()
print(len(marks))
last.close("finished")
"""

WITHOUT_A_LOOP = """
import sys

from scrapy import Request, Spider, version_info
from scrapy.utils.reactor import install_reactor
from scrapy.utils.test import get_crawler

from scrapy_frontier import FrontierScheduler

if version_info < (2, 15):  # makes no crawler without one, though it never runs
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
crawler = get_crawler(Spider, {"FRONTIER_DIR": sys.argv[1], "CONCURRENT_REQUESTS": 4_000})
crawler.spider = Spider("one")
scheduler = FrontierScheduler.from_crawler(crawler)
scheduler.open(crawler.spider)
"""

FILLED = """
for number in range(2_000):
    assert scheduler.enqueue_request(Request(f"http://host{number}.example/"))
scheduler.close("finished")
"""

EMPTIED = """
left = 100_000
found = set()
while len(found) < 2_000 and left:
    request = scheduler.next_request()
    if request is not None:
        found.add(request.url)
    left -= 1
print(len(found))
"""

ENDED = """
from scrapy import signals
from scrapy.http import Response

for path in "ab":
    assert scheduler.enqueue_request(Request(f"http://host.example/{path}"))
    request = scheduler.next_request()
    response = Response(request.url, request=request)
    received = {"response": response, "request": request, "spider": crawler.spider}
    crawler.signals.send_catch_log(signals.response_received, **received)
scheduler.close("finished")
print(crawler.stats.get_value("frontier/errors"))
"""


DAMAGED = """
from scrapy_frontier.core.store import keys

for path in "ab":
    request = Request(f"http://host.example/{path}", callback=lambda response: None)
    assert scheduler.enqueue_request(request)
frontier = scheduler._crawl.frontier
frontier.block("host.example", 0.0)
frontier.commit()
page = keys.page_key(0)
frontier._store.write({page: b"damaged"})
print(scheduler.has_pending_requests())
print(scheduler.next_request().url)
print(scheduler.has_pending_requests(), crawler.stats.get_value("frontier/errors"))
print(frontier._store.get(page))
scheduler.close("finished")
"""

UNWRITABLE = """
from scrapy_frontier.core.errors import FrontierUnwritable

assert scheduler.enqueue_request(Request("http://host.example/", callback=lambda response: None))
frontier = scheduler._crawl.frontier
frontier.block("host.example", 0.0)


def write(batch, sync=False):
    raise FrontierUnwritable("the disk is full")


frontier._store.write = write
assert scheduler.enqueue_request(Request("http://host.example/a"))
print(scheduler.has_pending_requests(), scheduler._error)
scheduler.close("finished")
"""


def printed(script: str, tmp_path: Path) -> str:
    command = [sys.executable, "-c", script, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_an_engine_that_answers_everything_does_not_keep_the_frontier_from_opening(tmp_path: Path) -> None:
    assert printed(SCRIPT + ONE, tmp_path) == "http://example.com/a\n"


def test_how_many_requests_there_were_is_told_without_an_engine(tmp_path: Path) -> None:
    assert printed(SCRIPT + COUNTED, tmp_path) == "3 1\n3 2\n3 3\n"


def test_the_end_of_one_crawl_does_not_make_collections_long_for_another(tmp_path: Path) -> None:
    """What is there for good is spared from garbage collections until the last crawl of a process ends."""
    assert printed(SCRIPT + TWO, tmp_path) == "True\nTrue\nFalse\n"


def test_crawls_that_have_ended_are_freed_while_others_go_on(tmp_path: Path) -> None:
    """But for the first of them: a process may run one after the other, with no moment without any."""
    assert printed(SCRIPT + MANY, tmp_path) == "2\n"


def test_a_damaged_row_raises_nothing_into_the_engine_when_the_crawl_ends(tmp_path: Path) -> None:
    """The pages of a blocked host, whose requests no other run can make; the row stays as it is."""
    found = printed(WITHOUT_A_LOOP + DAMAGED, tmp_path)
    assert found == "True\nhttp://host.example/b\nFalse None\nb'damaged'\n"


def test_a_disk_that_fails_when_the_crawl_ends_is_told_and_raises_nothing(tmp_path: Path) -> None:
    assert printed(WITHOUT_A_LOOP + UNWRITABLE, tmp_path) == "True the disk is full\n"


def test_a_scheduler_without_an_event_loop_brings_back_what_an_earlier_run_left(tmp_path: Path) -> None:
    assert not printed(WITHOUT_A_LOOP + FILLED, tmp_path)
    assert printed(WITHOUT_A_LOOP + EMPTIED, tmp_path) == "2000\n"


def test_the_end_of_a_page_is_written_without_an_event_loop(tmp_path: Path) -> None:
    """Elsewhere it waits for others, and a timer, where a kill would repeat few pages."""
    assert printed(WITHOUT_A_LOOP + ENDED, tmp_path) == "None\n"
