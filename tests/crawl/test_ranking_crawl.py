"""Best first, seen from the server: scores order the crawl, survive kill -9, and are ranked on the way."""

from __future__ import annotations

import json
import logging
import random
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Spider
from server import Answer

from scrapy_frontier.core.admin.check import Check
from scrapy_frontier.core.ranking.other_scorers import PageRank
from scrapy_frontier.core.ranking.scorer import Scorer
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.leveldb import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Crawl
    from scrapy.http import Response
    from server import Web

ADDON = {"SCHEDULER": None, "ADDONS": {"scrapy_frontier.Addon": 500}, "CONCURRENT_REQUESTS": 1}
MANY = 60


class FollowSpider(Spider):
    """Follows every link."""

    name = "follow"

    def parse(self, response: Response) -> Any:
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)


def hub_web(web: Web) -> str:
    """A seed that links 60 pages, each of which links one hub and a leaf of its own."""
    for number in range(MANY):
        web.link(f"/page{number}", f"/leaf{number}", "/hub")
    return web.link("/", *(f"/page{number}" for number in range(MANY)))


@pytest.mark.parametrize("scorer", ["mixed", "pagerank", "cash"])
def test_what_many_pages_link_comes_early(web: Web, run: Callable[..., Crawl], scorer: str) -> None:
    """First in, first out fetches the hub after all pages; by links it comes after a handful."""
    seed = hub_web(web)
    crawl = run(FollowSpider, {**ADDON, "FRONTIER_SCORER": scorer}, start_urls=[seed])
    assert crawl.reason == "finished"
    assert "Traceback" not in crawl.log
    paths = web.paths()
    every = [f"/{kind}{number}" for kind in ("page", "leaf") for number in range(MANY)]
    assert sorted(paths) == sorted(["/", "/hub", *every])
    assert paths.index("/hub") < 12


class WeightSpider(Spider):
    """A page with links of different weights."""

    name = "weights"
    weights: list[float]

    def parse(self, response: Response) -> Any:
        for weight in self.weights:
            yield response.follow(
                f"/{weight}", self.parse_linked, meta={"frontier_link_score": float(weight)}
            )

    def parse_linked(self, response: Response) -> None:
        pass


@pytest.mark.parametrize("scorer", ["cash", "mixed"])
def test_the_order_outlives_kill_9(web: Web, start: Callable[..., Crawl], scorer: str) -> None:
    weights = [round(1.5**step, 2) for step in range(14)]
    random.Random(5).shuffle(weights)
    web.default = Answer(delay=0.03)
    settings = {**ADDON, "FRONTIER_SCORER": scorer}
    for visits in (5, 9):
        crawl = start(WeightSpider, settings, start_urls=[web.url("/")], weights=weights)
        web.wait(visits)
        crawl.kill(signal.SIGKILL)
    last = start(WeightSpider, settings, start_urls=[web.url("/")], weights=weights).wait()
    assert last.reason == "finished"
    once = list(dict.fromkeys(web.paths()))
    assert once == ["/", *(f"/{weight}" for weight in sorted(weights, reverse=True))]
    # After each kill the page that was under way, and those that ended in 0.1 seconds.
    assert len(web.visits) <= len(once) + 2 * 5


def wide_web(web: Web, pages: int = 400) -> str:
    """Pages in a tree of ten links each, all of which link ten pages drawn from the first tenth."""
    rng = random.Random(2)
    for number in range(pages):
        linked = [f"/{10 * number + step}" for step in range(1, 11) if 10 * number + step < pages]
        popular = [f"/{rng.randrange(pages // 10)}" for _ in range(10)]
        web.link(f"/{number}", *linked, *popular)
    return web.url("/0")


@pytest.mark.parametrize("scorer", ["mixed", "pagerank", "hits"])
def test_pages_are_ranked_while_the_crawl_goes_on(
    web: Web, start: Callable[..., Crawl], tmp_path: Path, scorer: str
) -> None:
    settings = {**ADDON, "FRONTIER_SCORER": scorer, "CONCURRENT_REQUESTS": 4, "DOWNLOAD_DELAY": 0.005}
    web.limit = 200
    crawl = start(FollowSpider, settings, start_urls=[wide_web(web)]).wait_for("Ranked ")
    web.limit = 400
    crawl.wait()
    assert crawl.reason == "finished"
    assert "Traceback" not in crawl.log
    assert len(set(web.paths())) == len(web.visits) == 400
    stats = crawl.stats
    assert stats["frontier/rank/runs"] >= 1
    assert 30 <= stats["frontier/rank/pages"] <= 400
    assert crawl.log.count("DEBUG: Ranked ") == stats["frontier/rank/runs"], "a small crawl has many"
    store = Store(tmp_path / "frontier")
    kept = json.loads(store.get(keys.RANKING) or b"null")
    store.close()
    assert kept["pages"] == stats["frontier/rank/pages"]
    assert kept["error_bound"] < 2
    assert kept["scorer"].lower() == scorer


class OddFirst(Scorer):
    """A scorer of the user's own: pages found at odd places first."""

    def discovered(
        self, node: int, parent: int | None = None, host: str = "", link_score: float = 1.0
    ) -> float:
        return 2.0 if node % 2 else 1.0


def test_a_scorer_of_the_users_own(web: Web, run: Callable[..., Crawl]) -> None:
    web.link("/", *(f"/{number}" for number in range(1, 7)))
    run(FollowSpider, {**ADDON, "FRONTIER_SCORER": "test_ranking_crawl.OddFirst"}, start_urls=[web.url("/")])
    assert web.paths() == ["/", "/1", "/3", "/5", "/2", "/4", "/6"]


class Slips(Scorer):
    """A scorer of the user's own that fails for some pages, and returns NaN for others."""

    def discovered(
        self, node: int, parent: int | None = None, host: str = "", link_score: float = 1.0
    ) -> float:
        return float("nan")

    def parsed(self, node: int, *links: Any) -> Any:
        return [None]

    def closed(self, node: int) -> None:
        raise KeyError(node)


def test_a_scorer_that_fails_loses_no_link(web: Web, run: Callable[..., Crawl]) -> None:
    web.link("/", *(f"/{number}" for number in range(1, 7)))
    web.on("/4", Answer(404))
    settings = {**ADDON, "FRONTIER_SCORER": "test_ranking_crawl.Slips"}
    crawl = run(FollowSpider, settings, start_urls=[web.url("/")])
    assert web.paths() == ["/", *(f"/{number}" for number in range(1, 7))]
    assert crawl.log.count("FRONTIER_SCORER = 'test_ranking_crawl.Slips' fails") == 1
    assert "frontier/errors" not in crawl.stats
    assert crawl.stats["frontier/links/kept"] == 6


class HugeScores(FollowSpider):
    """Sets scores that no float32 holds."""

    name = "huge"
    huge: Any

    def parse(self, response: Response) -> Any:
        response.meta["frontier_content_score"] = self.huge
        for request in super().parse(response):
            yield request.replace(meta={"frontier_link_score": self.huge})


@pytest.mark.parametrize(
    "huge", [1e39, 10**400, float("inf"), float("nan"), -1, "much"], ids=lambda x: f"{x}"[:6]
)
def test_scores_of_any_size_change_nothing_else(web: Web, run: Callable[..., Crawl], huge: Any) -> None:
    every = [f"/{number}" for number in range(40)]
    for path in every:
        web.link(path, f"{path}/next")
    crawl = run(
        HugeScores, {**ADDON, "CONCURRENT_REQUESTS": 8}, start_urls=[web.link("/", *every)], huge=huge
    )
    assert crawl.reason == "finished"
    assert "Traceback" not in crawl.log
    assert len(set(web.paths())) == len(web.visits) == 81
    assert crawl.log.count("frontier_content_score = ") == crawl.log.count("frontier_link_score = ") == 1
    assert "frontier/errors" not in crawl.stats


class Stubborn(PageRank):
    """Ranks for ever, unless somebody stops it."""

    def rank(self, *graph: Any, stop: Any = None) -> Any:
        logging.getLogger(__name__).info("ranks for ever")
        while not stop():
            time.sleep(0.01)
        return super().rank(*graph, stop=stop)


def test_a_crawl_that_ends_does_not_wait_for_a_ranking(web: Web, start: Callable[..., Crawl]) -> None:
    web.limit = 1
    seed = web.link("/", *(f"/{number}" for number in range(40)))
    settings = {
        **ADDON,
        "FRONTIER_SCORER": "test_ranking_crawl.Stubborn",
    }
    crawl = start(FollowSpider, settings, start_urls=[seed]).wait_for("ranks for ever")
    web.limit = 41
    assert crawl.wait().reason == "finished"
    assert "Traceback" not in crawl.log
    assert "frontier/rank/runs" not in crawl.stats


class Broken(PageRank):
    """Cannot rank."""

    def rank(self, *graph: Any, stop: Any = None) -> Any:
        raise ArithmeticError("no rank today")


def test_a_ranking_that_fails_is_told_once_and_the_crawl_goes_on(
    web: Web, start: Callable[..., Crawl]
) -> None:
    web.limit = 1
    seed = web.link("/", *(f"/{number}" for number in range(40)))
    settings = {**ADDON, "FRONTIER_SCORER": "test_ranking_crawl.Broken"}
    crawl = start(FollowSpider, settings, start_urls=[seed]).wait_for("The ranking failed").go_on()
    web.limit = 41
    assert crawl.wait().reason == "finished"
    assert crawl.log.count("The ranking failed") == 1
    assert "no rank today" in crawl.log
    assert crawl.stats["frontier/errors"] == 1
    assert len(set(web.paths())) == len(web.visits) == 41


def tangled_web(web: Web) -> tuple[str, list[str]]:
    """A seed that links many pages, which link some of each other; and their paths."""
    rng = random.Random(3)
    every = [f"/{number}" for number in range(MANY * 4)]
    for path in every:
        web.link(path, *rng.choices(every, k=5))
    return web.link("/", *every), every


class Lazy(PageRank):
    """Ranks as soon as it knows many pages, takes a while with every step of rows that move, and says so."""

    @property
    def needs_ranking(self) -> bool:  # type: ignore[override]
        return self.known > MANY * 3

    def current_scores(self, nodes: Any) -> Any:
        logging.getLogger(__name__).info("rows move")
        time.sleep(1)
        return super().current_scores(nodes)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_an_end_while_rows_move_leaves_nothing_half_done(
    web: Web, start: Callable[..., Crawl], tmp_path: Path, end: signal.Signals
) -> None:
    """Some rows stand where the ranking wants them and others do not; each stands in one place."""
    seed, every = tangled_web(web)
    settings = {**ADDON, "FRONTIER_SCORER": "test_ranking_crawl.Lazy", "CONCURRENT_REQUESTS": 4}
    crawl = start(FollowSpider, settings, start_urls=[seed])
    crawl.wait_for("rows move", times=2).kill(end)
    assert "Ranked " not in crawl.log
    assert len(web.visits) < len(every)
    store = Store(tmp_path / "frontier")
    assert list(Check(store, None, time.time()).run()) == []
    assert store.get(keys.RANKING) is None  # it is not done
    store.close()

    again = start(FollowSpider, {**settings, "FRONTIER_SCORER": "pagerank"}, start_urls=[seed])
    assert again.wait().reason == "finished"
    assert "Traceback" not in again.log
    assert again.stats["frontier/rank/runs"] >= 1
    assert set(web.paths()) == {"/", *every}
    assert len(web.visits) <= 1 + len(every) + 4  # those in flight
    store = Store(tmp_path / "frontier")
    assert list(Check(store, None, time.time()).run()) == []
    store.close()
