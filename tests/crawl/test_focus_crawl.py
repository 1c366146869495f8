"""Focus, seen from the server: pages like those that brought items come first, however they are followed."""

from __future__ import annotations

import random
import signal
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Spider
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from scrapy_frontier.core.ranking.focus import WORDS, Focus
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.leveldb import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Crawl
    from scrapy.http import Response
    from server import Web

ADDON = {"SCHEDULER": None, "ADDONS": {"scrapy_frontier.Addon": 500}, "CONCURRENT_REQUESTS": 1}
SHELVES, BOOKS = 30, 6  # of the books on a shelf a third are about tea


def library(web: Web) -> str:
    """A front page that links shelves, which link books: only the texts of the links tell."""
    dice = random.Random(5)
    front = []
    for shelf in range(SHELVES):
        links = []
        for place in range(BOOKS):
            path, about = f"/{dice.randrange(10**9)}", "green tea" if place % 3 == 0 else "old iron"
            web.on(path, body=f"<h1>About {about}</h1>")
            links.append(f'<a href="{path}">{about}</a>')
        dice.shuffle(links)
        web.on(f"/{shelf}", body="<h1>Shelf</h1>" + " ".join(links))
        front.append(f'<a href="/{shelf}">shelf</a>')
    return web.on("/", body=" ".join(front))


def is_wanted(response: Response) -> bool:
    return "green tea" in response.css("h1").get("")


class ByCallback(Spider):
    """Follows links by itself."""

    name = "readers"

    def parse(self, response: Response) -> Any:
        if is_wanted(response):
            yield {"url": response.url}
        yield from response.follow_all(css="a")


class ByFollowing(Spider):
    """Leaves links to FRONTIER_FOLLOW."""

    name = "readers"
    custom_settings = {"FRONTIER_FOLLOW": True}

    def parse(self, response: Response) -> Any:
        if is_wanted(response):
            yield {"url": response.url}


class ByRules(CrawlSpider):
    """Has Scrapy's rules follow links."""

    name = "readers"
    rules = (Rule(LinkExtractor(), callback="parse_page", follow=True),)

    def parse_page(self, response: Response) -> Any:
        if is_wanted(response):
            yield {"url": response.url}


class ByScores(ByCallback):
    """Scores pages instead of yielding items."""

    worth, other = 1.0, 0.5

    def parse(self, response: Response) -> Any:
        response.meta["frontier_content_score"] = self.worth if is_wanted(response) else self.other
        yield from response.follow_all(css="a")


class ByRewards(ByScores):
    """Punishes the pages that are not wanted."""

    other = -1.0


def books_first(web: Web) -> float:
    """How often a book on tea came before one on iron, of all such pairs: half of them by chance."""
    tea = before = pairs = 0
    for path in web.paths():
        answer = web._answers.get((0, path))
        about = str(answer[0].body) if answer else ""
        tea += "<h1>About green tea" in about
        if "<h1>About old iron" in about:
            before, pairs = before + tea, pairs + 1
    return before / (pairs * tea)


@pytest.mark.parametrize("spider", [ByCallback, ByFollowing, ByRules, ByScores, ByRewards])
def test_pages_like_those_with_items_come_first(
    web: Web, run: Callable[..., Crawl], spider: type[Spider]
) -> None:
    reward = "score" if issubclass(spider, ByScores) else "items"
    crawl = run(spider, {**ADDON, "FRONTIER_REWARD": reward}, start_urls=[library(web)])
    assert crawl.reason == "finished"
    assert "Traceback" not in crawl.log
    assert books_first(web) > 0.52  # by chance half, a standard deviation of .05; .57 to .92 were seen
    every = 1 + SHELVES * (1 + BOOKS)
    assert len(set(web.paths())) == len(web.visits) >= every
    assert crawl.stats["frontier/focus/good"] == pytest.approx(SHELVES * BOOKS / 3 / every, abs=0.01)
    assert crawl.stats["frontier/focus/good_lately"] == crawl.stats["frontier/focus/good"]


def test_without_a_reward_items_do_not_count(web: Web, run: Callable[..., Crawl], tmp_path: Path) -> None:
    crawl = run(ByCallback, ADDON, start_urls=[library(web)])
    assert "frontier/focus/good" not in crawl.stats
    store = Store(tmp_path / "frontier")
    assert store.get(keys.FOCUS) is None
    assert not list(store.scan(keys.CONTENT))
    store.close()


class Even(ByScores):
    """Likes all pages alike."""

    worth = 0.5


def test_equal_scores_are_told_once(web: Web, run: Callable[..., Crawl]) -> None:
    crawl = run(Even, ADDON, start_urls=[library(web)])
    assert crawl.log.count("there is nothing to learn") == 1


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_learned_outlives_the_end_of_a_run(
    web: Web, start: Callable[..., Crawl], tmp_path: Path, end: signal.Signals
) -> None:
    """Also a kill, after the first ranking."""
    web.limit = 90
    settings = {**ADDON, "FRONTIER_REWARD": "items", "LOG_LEVEL": "DEBUG"}
    seed = library(web)
    crawl = start(ByCallback, settings, start_urls=[seed])
    web.wait(91)
    crawl.wait_for("rows moved")
    crawl.process.send_signal(end)
    web.limit = 10**6  # else the end waits for the page under way
    crawl.wait()
    store = Store(tmp_path / "frontier")
    focus = Focus.decode(store.get(keys.FOCUS) or b"")
    assert focus.scored > 30
    assert {len(value) for _, value in store.scan(keys.QUEUE)} == {2 * WORDS}
    store.close()
    assert start(ByCallback, settings, start_urls=[seed]).wait().reason == "finished"
    every = 1 + SHELVES * (1 + BOOKS)
    assert len(set(web.paths()) - {"/robots.txt"}) == every
