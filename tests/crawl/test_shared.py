"""What requests hand on to each other: every spider beside Scrapy's own scheduler, item by item."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from conftest import SETTINGS
from scrapy import Field, Item, Request, Spider
from scrapy.loader import ItemLoader
from server import Answer, links

from scrapy_frontier.core.store.keys import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Crawl
    from scrapy.http import Response
    from server import Web

    from scrapy_frontier.core.store.records import Page

OURS = [SETTINGS, {**SETTINGS, "SCHEDULER": None, "ADDONS": {"scrapy_frontier.Addon": 500}}]
STOCK = {"SCHEDULER": None, "LOG_LEVEL": "INFO"}


class Shared(Spider):
    """All requests of a page share what the last of them yields."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.start_urls = [url]


class DictSpider(Shared):
    """The usual one: of three sub-requests the last yields the item."""

    name = "dict"

    def parse(self, response: Response) -> Iterator[Any]:
        shop: dict[str, Any] = {"left": 3, "url": response.url}
        for name in ("price", "stock", "reviews"):
            yield response.follow(f"/{name}", self.parse_part, cb_kwargs={"shop": shop, "part": name})

    def parse_part(self, response: Response, shop: dict[str, Any], part: str) -> Iterator[Any]:
        shop[part] = response.url
        shop["left"] -= 1
        if not shop["left"]:
            yield shop


class Tally:
    """An object of the project's own, which no payload could hold."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.told: list[str] = []


class TallySpider(Shared):
    """A counter, counted down by callbacks and errbacks, on methods and closures."""

    name = "tally"

    def parse(self, response: Response) -> Iterator[Any]:
        tally = Tally(4)
        for path in ("/here", "/gone", "/moved", "/broken"):
            yield response.follow(path, self.found, errback=self.failed, meta={"tally": tally})

    def found(self, response: Response) -> Any:
        return self.count(response.meta["tally"], f"found {response.url}")

    def failed(self, failure: Any) -> Any:
        return self.count(failure.request.meta["tally"], f"failed {failure.request.url}")

    def count(self, tally: Tally, told: str) -> Iterator[Any]:
        tally.left -= 1
        tally.told.append(told)
        if not tally.left:
            yield {"told": sorted(tally.told)}


class Book(Item):
    title = Field()
    price = Field()
    pages = Field()


class ItemSpider(Shared):
    """One item, two pages that know a part of it, and a loader that goes from page to page."""

    name = "item"

    def parse(self, response: Response) -> Iterator[Any]:
        for title in ("one", "two"):
            book = Book(title=title)
            for part in ("price", "pages"):
                yield response.follow(
                    f"/{title}/{part}", self.parse_part, cb_kwargs={"book": book, "part": part}
                )
        loader = ItemLoader(Book(), response=response)
        loader.add_value("title", "loaded")
        yield response.follow("/loader/price", self.load, meta={"loader": loader, "next": "/loader/pages"})

    def parse_part(self, response: Response, book: Book, part: str) -> Iterator[Any]:
        book[part] = response.url
        if len(book) == 3:
            yield book

    def load(self, response: Response) -> Iterator[Any]:
        loader = response.meta["loader"]
        loader.add_value("pages", response.url)
        if response.meta["next"] is None:
            yield loader.load_item()
        else:
            meta = {"loader": loader, "next": None}
            yield response.follow(response.meta["next"], self.load, meta=meta)


@dataclass
class Poll:
    answers: list[str] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)


class PollSpider(Shared):
    """Asks for one page again and again, with what it has learnt so far in a data class in a tuple."""

    name = "poll"

    def parse(self, response: Response) -> Iterator[Any]:
        poll = Poll()
        for number in range(2):
            yield Request(
                response.urljoin("/poll"),
                self.parse_poll,
                dont_filter=True,
                cb_kwargs={"state": (number, poll)},
            )

    def parse_poll(self, response: Response, state: tuple[int, Poll]) -> Iterator[Any]:
        number, poll = state
        poll.seen.add(number)
        poll.answers.append(response.text)
        if len(poll.answers) < 6:
            yield response.request.replace()
        elif len(poll.answers) == 6:
            yield {"answers": sorted(poll.answers), "seen": sorted(poll.seen)}


def put_up(web: Web) -> str:
    """The same web for every crawl: some pages fail at first, or lead to another."""
    web.on("/stock", Answer(500), Answer())
    web.on("/1", status=302, headers={"Location": "/1/moved"})
    web.on("/2", Answer(500), Answer(500), Answer())
    web.on("/gone", status=404)
    web.on("/moved", status=301, headers={"Location": "/at-last"})
    web.on("/broken", status=500)
    web.on("/two/price", Answer(500), Answer())
    web.on("/two/pages", status=301, headers={"Location": "/two/pages/"})
    web.on("/poll", *(Answer(body=f"answer {number}") for number in range(10)))
    return web.on("/", body=links("/unused"))


def items(
    run: Callable[..., Crawl], feed: Path, settings: dict[str, Any], spider: type[Spider], url: str
) -> list[str]:
    """What a crawl without a directory yields."""
    feeds = {str(feed): {"format": "jsonlines", "overwrite": True}}
    crawl = run(spider, {**settings, "FRONTIER_DIR": None, "FEEDS": feeds}, url=url)
    assert crawl.reason == "finished", crawl.log
    assert "Traceback" not in crawl.log
    assert "serialize" not in crawl.log
    return sorted(json.dumps(json.loads(line), sort_keys=True) for line in feed.read_text().splitlines())


@pytest.mark.parametrize(
    ("spider", "count"),
    [(DictSpider, 1), (TallySpider, 1), (ItemSpider, 3), (PollSpider, 1)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_requests_share_is_one_object_as_with_scrapys_own_scheduler(
    web: Web, run: Callable[..., Crawl], tmp_path: Path, spider: type[Spider], count: int
) -> None:
    stock = items(run, tmp_path / "stock.jl", STOCK, spider, put_up(web))
    assert len(stock) == count
    for number, settings in enumerate(OURS):
        assert items(run, tmp_path / f"ours{number}.jl", settings, spider, put_up(web)) == stock


# -- with a directory -----------------------------------------------------------------------------------


class ClosureSpider(Shared):
    """Callbacks that no payload can name, on links and on a seed. Its first page may never be done."""

    name = "closures"

    def __init__(self, url: str, is_slow: bool = False, every_run: bool = False) -> None:
        super().__init__(url)
        self.is_slow = is_slow
        self.every_run = every_run

    async def start(self) -> Any:
        meta = {"frontier_every_run": True} if self.every_run else {}
        yield Request(self.start_urls[0], meta=meta)
        yield Request(self.start_urls[0] + "seed", lambda response: {"page": response.url})

    async def parse(self, response: Response) -> Any:
        for number in range(6):
            yield response.follow(f"/{number}", lambda response: {"page": response.url})
        while self.is_slow:
            await asyncio.sleep(0.1)


CLOSURES = [*(f"/{number}" for number in range(6)), "/seed"]
FEW = {"CONCURRENT_REQUESTS": 3}


def kill_with_closures(web: Web, start: Callable[..., Crawl], **arguments: Any) -> None:
    """Its first page was answered, and no other."""
    killed = threading.Event()
    web.default = Answer(until=killed.is_set)
    web.on("/")
    crawl = start(ClosureSpider, FEW, url=web.url("/"), **arguments)
    web.wait(3)
    crawl.go_on().kill()
    killed.set()
    web.visits.clear()


def test_requests_in_memory_come_again_with_the_page_that_was_under_way(
    web: Web, start: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    """Whether they come before the turn of those that were lost, or behind."""
    kill_with_closures(web, start, is_slow=True)
    assert sorted(page.state for page in pages().values()) == [State.QUEUED] * 8
    crawl = start(ClosureSpider, FEW, url=web.url("/")).wait()
    assert crawl.reason == "finished"
    assert crawl.stats["item_scraped_count"] == 7
    assert sorted(web.paths()) == sorted(["/", *CLOSURES])
    assert {page.state for page in pages().values()} == {State.DONE}
    assert "Traceback" not in crawl.log


def test_a_page_whose_request_is_lost_is_only_known_until_a_link_or_a_seed_brings_it_back(
    web: Web, start: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    kill_with_closures(web, start)
    crawl = start(ClosureSpider, FEW, url=web.url("/")).wait()
    assert crawl.reason == "finished"
    assert web.paths() == ["/seed"]
    lost = [page for page in pages().values() if page.state is State.SEEN]
    assert len(lost) == 6
    assert {page.reason for page in lost} == {
        "its request was only in the memory of a crawl that has ended; a link or a seed brings it back"
    }
    assert crawl.log.count("is known, but not fetched: its request was only in the memory") == 1

    web.visits.clear()
    crawl = start(ClosureSpider, FEW, url=web.url("/"), every_run=True).wait()
    assert sorted(web.paths()) == sorted(["/", *CLOSURES[:-1]])
    assert crawl.stats["item_scraped_count"] == 6
    assert {page.state for page in pages().values()} == {State.DONE}
