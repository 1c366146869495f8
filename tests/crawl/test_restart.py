"""A crawl that is stopped, in whatever way, and started again: nothing lost, nothing twice."""

from __future__ import annotations

import math
import random
import re
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from conftest import environment
from nursery import nursery
from scrapy import Request, Spider, signals
from scrapy.http import HtmlResponse, Response
from server import TOLERANCE, Answer, links

from scrapy_frontier.core.store.keys import State

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from conftest import Crawl
    from scrapy.crawler import Crawler
    from server import Web
    from typing_extensions import Self

    from scrapy_frontier.core.store.records import Page

PAGES = 240
HOSTS = 3
AT_ONCE = 8  # CONCURRENT_REQUESTS


class TreeSpider(Spider):
    """Fetches *start_urls* and whatever they link; a callback and meta of its own for each link."""

    name = "tree"

    async def start(self) -> AsyncIterator[Any]:
        for url in self.start_urls:  # for another callback than links have it would be fetched for both
            yield Request(url, self.parse_linked, dont_filter=True, meta={"from": url})

    def parse(self, response: Response) -> Any:
        assert isinstance(response, HtmlResponse)
        for link in response.css("a::attr(href)").getall():
            yield Request(response.urljoin(link), self.parse_linked, meta={"from": response.url})

    def parse_linked(self, response: Response) -> Any:
        assert response.meta["from"].startswith("http")
        yield from self.parse(response)


def tree(web: Web) -> list[str]:
    """A web of `PAGES` pages, each linked by another and linking two more and some known ones."""
    urls = [web.url(f"/{number}", number % HOSTS) for number in range(PAGES)]
    for number in range(PAGES):
        linked = [*urls[2 * number + 1 : 2 * number + 3], urls[number // 2], urls[(7 * number) % PAGES]]
        web.link(f"/{number}", *linked, host=number % HOSTS, delay=0.02)
    return urls


SETTINGS = {"CONCURRENT_REQUESTS": AT_ONCE, "CONCURRENT_REQUESTS_PER_DOMAIN": 4}


class DroppedSpider(TreeSpider):
    """Logs which requests are dropped."""

    name = "dropped"

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.dropped, signals.request_dropped)
        return spider

    def dropped(self, request: Request) -> None:
        self.logger.info("dropped %s;", request.url)


def test_a_second_ctrl_c_leaves_no_temporary_frontier(
    web: Web, start: Callable[..., Crawl], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    url = web.on("/", delay=1000)
    crawl = start(TreeSpider, {"FRONTIER_DIR": None}, start_urls=[url], wrap=list)
    web.wait(1)
    assert list((tmp_path / "temporary").iterdir())
    crawl.kill(signal.SIGINT, signal.SIGINT)
    assert "forcing unclean shutdown" in crawl.log
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_sigkill_at_random_moments(
    web: Web, start: Callable[..., Crawl], pages: Callable[[], dict[str, Page]], seed: int
) -> None:
    """After four kills every page was fetched; twice only what was under way at a kill. Processes that import
    all anew have a seed of `hash` each."""
    rng = random.Random(seed)
    urls = tree(web)
    for kills in range(4):
        crawl = start(TreeSpider, SETTINGS, start_urls=urls[:1], wrap=list)
        count = len(web.visits) + rng.randrange(1, 50)
        web.limit = count + 2 * AT_ONCE  # however late the kill comes, pages are left
        web.wait(count)
        crawl.kill()
        assert len(web.visits) - len(set(web.paths())) <= kills * AT_ONCE
    web.limit = math.inf
    last = start(TreeSpider, SETTINGS, start_urls=urls[:1], wrap=list).wait()

    assert last.reason == "finished"
    assert "Resuming crawl" in last.log
    counts = Counter(web.paths())
    assert len(counts) == PAGES
    assert counts.total() - PAGES <= 4 * AT_ONCE
    found = pages()
    assert set(found) == set(urls)
    assert {page.state for page in found.values()} == {State.DONE}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_clean_stop_repeats_nothing(web: Web, start: Callable[..., Crawl], number: signal.Signals) -> None:
    urls = tree(web)
    web.limit = PAGES // 3
    crawl = start(TreeSpider, SETTINGS, start_urls=urls[:1])
    web.wait(PAGES // 3)
    crawl.process.send_signal(number)
    crawl.wait_for("Received SIG")
    web.limit = math.inf
    crawl.wait()
    assert crawl.reason == "shutdown"
    pending = crawl.stats["frontier/pending"]
    assert pending
    second = start(TreeSpider, SETTINGS, start_urls=urls[:1]).wait()
    assert f"Resuming crawl ({pending} requests scheduled)" in second.log
    assert second.reason == "finished"
    assert sorted(web.paths()) == sorted(f"/{number}" for number in range(PAGES))


def test_second_ctrl_c_repeats_only_what_was_under_way(web: Web, start: Callable[..., Crawl]) -> None:
    urls = tree(web)
    web.on("/3", Answer(delay=3000), Answer(body=links(urls[7], urls[8])), host=0)  # holds up the clean stop
    web.limit = 2 * PAGES // 3
    crawl = start(TreeSpider, {**SETTINGS, "DOWNLOAD_TIMEOUT": 3000}, start_urls=urls[:1])
    web.wait(PAGES // 3)
    crawl.kill(signal.SIGINT, signal.SIGINT)
    assert "Spider closed" not in crawl.log
    web.limit = math.inf
    second = start(TreeSpider, SETTINGS, start_urls=urls[:1]).wait()
    assert second.reason == "finished"
    counts = Counter(web.paths())
    assert set(counts) == {f"/{number}" for number in range(PAGES)}
    assert counts["/3"] == 2
    assert counts.total() - PAGES <= AT_ONCE


def test_second_run_fetches_failed_seeds_only(
    web: Web, start: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    """Seeds come with dont_filter at every start: known ones are not fetched again, unless they failed."""
    web.link("/good", "/linked")
    web.on("/bad", Answer(403), Answer())
    web.on("/moved", status=301, headers={"Location": "/new"})
    web.on("/gone", status=410)
    urls = [web.url(path) for path in ("/good", "/bad", "/moved", "/gone")]
    first = start(DroppedSpider, start_urls=urls).wait()
    assert sorted(web.paths()) == ["/bad", "/gone", "/good", "/linked", "/moved", "/new"]
    second = start(DroppedSpider, start_urls=urls).wait()
    assert first.reason == second.reason == "finished"
    assert web.paths()[6:] == ["/bad"]
    assert re.findall("dropped (.*);", second.log) == [web.url(path) for path in ("/good", "/moved", "/gone")]
    assert second.stats["dupefilter/filtered"] == 3
    assert pages()[web.url("/bad")].state is State.DONE
    third = start(DroppedSpider, start_urls=urls).wait()
    assert third.reason == "finished"
    assert len(web.visits) == 7


def told(crawl: Crawl, words: str) -> list[str]:
    """What the log says at INFO or above of *words*."""
    messages = re.findall(r"\[scrapy_frontier.*\] (?:INFO|WARNING): (.*)", crawl.log)
    return [message for message in messages if words in message]


def test_a_run_that_fetches_nothing_says_why(web: Web, start: Callable[..., Crawl], tmp_path: Path) -> None:
    """The same command twice: the feed stays empty, and the log says what is there and how to go on."""
    web.link("/", "/a", "/b", "/bad")
    web.on("/bad", status=403)
    seeds = [web.url("/"), web.url("/a")]
    first = start(TreeSpider, start_urls=seeds).wait()
    assert told(first, "known") == []
    second = start(TreeSpider, start_urls=seeds).wait()
    nothing = (
        f"Nothing was fetched: 2 seeds are known from an earlier run ({seeds[0]} ...), and pages are fetched "
        "once. To fetch them again: scrapy frontier requeue --state done,failed; or another FRONTIER_DIR; or "
        "frontier_every_run in the meta of a seed"
    )
    left_out = (
        f"Left out {seeds[0]}: an earlier run knows its page, and pages are fetched once; frontier_every_run "
        "in the meta of a seed, FRONTIER_REVISIT or `scrapy frontier requeue` changes that (said once, and "
        "counted in frontier/left_out/known)"
    )
    summary = "Less than Scrapy would have fetched: 2 known pages"
    there = "4 pages known, 0 queued: 3 done, 1 failed"
    assert told(second, "known") == [there, left_out, nothing, summary]
    third = start(TreeSpider, start_urls=[*seeds, web.url("/new")]).wait()
    assert told(third, "known") == [there, left_out, summary]
    command = ["-m", "scrapy", "frontier", "requeue", "--state", "done,failed", "--dir", "frontier"]
    nursery.run(command, environment(), tmp_path).check_returncode()
    fourth = start(TreeSpider, start_urls=seeds).wait()
    assert told(fourth, "known") == ["Resuming crawl (5 requests scheduled): 5 pages known, 5 queued"]
    assert len(web.visits) == 10


def test_backoff_and_attempts_outlive_the_crawl(
    web: Web, start: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    """A page that fails is left alone for 2.5 s, then for 5, and given up at the third attempt; two kills."""
    url = web.on("/", status=503)
    settings = {
        "RETRY_TIMES": 9,
        "FRONTIER_MAX_ATTEMPTS": 3,
        "FIRST_BACKOFF": 2.5,
    }
    for visit in (1, 2):
        crawl = start(TreeSpider, settings, start_urls=[url])
        web.wait(visit)
        crawl.wait_for("Retrying").go_on().kill()  # said just before it is written
    last = start(TreeSpider, settings, start_urls=[url]).wait()
    assert "Resuming crawl (1 requests scheduled)" in last.log
    assert last.reason == "finished"
    first, second = web.gaps()
    assert first >= 2.5 - TOLERANCE
    assert second >= 5 - TOLERANCE
    page = pages()[url]
    assert (page.state, page.attempts) == (State.FAILED, 3)


def test_priority_order_outlives_the_crawl(web: Web, start: Callable[..., Crawl]) -> None:
    """What was queued by priority in one run comes by priority in the next."""
    settings = {"CONCURRENT_REQUESTS": 1}
    web.limit = 2
    priorities = [3, -1, 7, 0, 5, -4, 2, 6]
    crawl = start(PrioritySpider, settings, url=web.url("/"), priorities=priorities)
    web.wait(3)
    crawl.process.send_signal(signal.SIGINT)
    crawl.wait_for("Received SIGINT")
    web.limit = math.inf
    crawl.wait()
    assert len(web.visits) == 3
    start(PrioritySpider, settings, url=web.url("/"), priorities=priorities).wait()
    assert web.paths() == ["/", *(f"/{priority}" for priority in sorted(priorities, reverse=True))]


class PrioritySpider(Spider):
    """One page with a link for each of *priorities*."""

    name = "priority"
    url: str
    priorities: list[int]

    async def start(self) -> Any:
        yield Request(self.url, self.parse_first, dont_filter=True)

    def parse_first(self, response: Response) -> Any:
        for priority in self.priorities:
            yield response.follow(f"/{priority}", self.parse_linked, priority=priority)

    def parse_linked(self, response: Response) -> None:
        pass
