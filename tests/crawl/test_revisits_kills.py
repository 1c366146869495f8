"""SIGKILL at random moments of a crawl that comes back: it ends as if it had never been killed."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from changing import DAY, ChangingWeb, Document, JumpingClock, never, once
from scrapy import Request
from test_revisits_crawl import INTERVAL
from test_sitemap_revisits import MONTHLY, NewsWeb, Visitor
from test_thirty_days import Keeper

from scrapy_frontier.core.ranking import graph
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import decode_page
from scrapy_frontier.crawl import scrapy_internals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Crawl

    from scrapy_frontier.core.store.records import Page

    Start = Callable[..., Crawl]

PAGES = 150
HOSTS = 3
KILLS = 4
AT_ONCE = 8  # CONCURRENT_REQUESTS
SETTINGS = {"CONCURRENT_REQUESTS": AT_ONCE, "CONCURRENT_REQUESTS_PER_DOMAIN": 4}
CHANGED = range(0, PAGES, 10)
LINKING = range(3, PAGES, 20)  # to a page each that was not there before
MISSING = range(7, PAGES, 30)


def tree(web: ChangingWeb) -> str:
    """A web of `PAGES` pages, each linked by another and linking two more; on the third day some of them
    change. The URL of its root."""
    urls = [web.url(f"/{number}", number % HOSTS) for number in range(PAGES)]
    for number in range(PAGES):
        children = urls[2 * number + 1 : 2 * number + 3] + urls[number // 2 : number // 2 + 1]
        new = [web.url(f"/new{number}")] if number in LINKING else []
        document = Document(
            once(3.0) if number in CHANGED or number in LINKING else never,
            links=lambda version, old=children, new=new: old + new * version,
        )
        if number in MISSING:
            document = document.from_day(3.0, status=404)
        web.document(f"/{number}", document, host=number % HOSTS)
    return urls[0]


def asked(web: ChangingWeb, before: int) -> Counter[str]:
    """How often each page was asked for since."""
    return Counter(seen.path for seen in web.seen[before:] if seen.path != "/robots.txt")


def what_is_known(directory: Path) -> dict[str, Any]:
    """All but times; links too that a ranking has packed by then, or not."""
    store = Store(directory)
    try:
        found = {keys.key_id(key): decode_page(value) for key, value in store.scan(keys.PAGE)}
        links = {page_id: graph.find_row(page_id, store.get) for page_id in found}
    finally:
        store.close()
    return {
        page.url: (
            _essence(page),
            sorted((found[edge.target].url, edge.flags, edge.weight) for edge in links[page_id]),
        )
        for page_id, page in found.items()
    }


def _essence(page: Page) -> tuple[Any, ...]:
    visits = page.visits
    assert visits is not None, page.url
    kept = visits.visits, visits.changes, visits.digest, visits.validators, visits.unmodified
    return page.state, page.status, page.reason, page.attempts, *kept, visits.bad.visits


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_second_crawl_that_is_killed_finds_what_one_finds_that_is_not(
    clock: JumpingClock, start: Start, tmp_path: Path, seed: int
) -> None:
    """Every change is found, and no more is repeated than a kill may repeat."""
    rng, web = random.Random(seed), ChangingWeb(clock, hosts=HOSTS)
    try:
        url, directory, other = tree(web), tmp_path / "frontier", tmp_path / "unharmed"
        settings, file = {**INTERVAL, **SETTINGS}, tmp_path / "told"
        assert start(Keeper, settings, urls=[url], file=str(tmp_path / "first")).wait().reason == "finished"
        assert len(asked(web, 0)) == PAGES
        shutil.copytree(directory, other)
        clock.jump(clock() + 8 * DAY)
        before = len(web.seen)
        for kills in range(KILLS):
            crawl = start(Keeper, settings, urls=[url], file=str(file))
            count = len(web.visits) + rng.randrange(1, PAGES // KILLS - 2 * AT_ONCE)
            web.limit = count + AT_ONCE  # however late the kill comes, pages are left
            web.wait(count)
            crawl.kill()
            found = asked(web, before)
            assert found.total() - len(found) <= kills * AT_ONCE
        web.limit = math.inf
        last = start(Keeper, settings, urls=[url], file=str(file)).wait()
        assert last.reason == "finished", last.log
        found, middle = asked(web, before), len(web.seen)
        assert found.total() - len(found) <= KILLS * AT_ONCE
        unharmed = start(
            Keeper, {**settings, "FRONTIER_DIR": str(other)}, urls=[url], file=str(tmp_path / "x")
        )
        assert unharmed.wait().reason == "finished", unharmed.log
    finally:
        web.close()
    assert set(found) == set(asked(web, middle)), "what is asked for"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    parsed = {line["path"] for line in lines if line["what"] == "parsed"}
    expected = {f"/{number}" for number in {*CHANGED, *LINKING} - {*MISSING}}
    assert parsed == expected | {f"/new{number}" for number in LINKING if number not in MISSING}
    assert what_is_known(directory) == what_is_known(other)


class Deadly(Visitor):
    """Its process ends when the event loop has a turn between two slices of a sitemap that came back."""

    async def start(self) -> Any:
        self._look = scrapy_internals.create_looping_call(self._tick)
        self._look.start(0.001)
        yield Request(self.url)

    def _tick(self) -> None:
        assert self.crawler.stats
        if 0 < self.crawler.stats.get_value("frontier/sitemaps/due", 0) < 300:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def news(clock: JumpingClock) -> Iterator[NewsWeb]:
    web = NewsWeb(clock, pages=600)
    yield web
    web.close()


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_what_a_sitemap_tells_is_heard_though_the_crawl_is_killed_while_it_is_read(
    news: NewsWeb, start: Start, seed: int
) -> None:
    """The sitemap is read again, and every page that it told of is fetched, no other: 300 of 600."""
    web, rng = news, random.Random(seed)
    settings = {**MONTHLY, **SETTINGS, "FRONTIER_SITEMAPS": True}
    assert start(Visitor, settings, url=web.url("/page0")).wait().reason == "finished"
    told_of = {number for number in range(web.pages) if number % 2}
    web.stamp = lambda day, number: int(day >= 1) if number in told_of else 0
    web.clock.jump(web.clock() + 2 * DAY)
    before = len(web.seen)
    deadly = start(Deadly, settings, url=web.url("/page0")).wait()
    assert deadly.process.returncode == -signal.SIGKILL, "the event loop had no turn in between"
    for _ in range(1, KILLS):
        crawl = start(Visitor, settings, url=web.url("/page0"))
        count = len(web.visits) + rng.randrange(1, 40)
        web.limit = count + AT_ONCE
        web.wait(count)
        crawl.kill()
    web.limit = math.inf
    last = start(Visitor, settings, url=web.url("/page0")).wait()
    assert last.reason == "finished", last.log
    found = asked(web, before)
    assert set(found) == {"/sitemap.xml", *(f"/page{number}" for number in told_of)}
    assert found.total() - len(found) <= KILLS * AT_ONCE
    assert web.statuses("/page1")[-1] == 200, "it had changed"
