"""The add-on names our components, and the user's settings stay the stronger ones."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.addons import AddonManager
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares import redirect as scrapy_redirect
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import BaseSettings, Settings
from scrapy.utils.conf import build_component_list
from scrapy.utils.misc import load_object

from scrapy_frontier import Addon, FrontierRobotsTxtMiddleware, FrontierSpiderMiddleware

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Crawl
    from server import Web

ADDON = {"scrapy_frontier.Addon": 500}
OURS = "scrapy_frontier.FrontierScheduler"
MIDDLEWARE = "scrapy_frontier.FrontierSpiderMiddleware"


NAMESAKE = type("FrontierScheduler", (Scheduler,), {})  # of somebody else's, by the same name


def settings_with(**project: Any) -> BaseSettings:
    """The settings of a project with *project*, after the add-on has seen them."""
    settings = Settings(project, "project")
    Addon().update_settings(settings)
    return settings


def test_names_the_scheduler_and_the_spider_middleware() -> None:
    settings = settings_with()
    assert settings["SCHEDULER"] == OURS
    assert settings.getpriority("SCHEDULER") == 15
    assert all(900 < order < 1000 for order in settings.getdict("SPIDER_MIDDLEWARES").values())
    assert FrontierSpiderMiddleware in settings.getdict("SPIDER_MIDDLEWARES")


@pytest.mark.parametrize("scheduler", ["scrapy.core.scheduler.Scheduler", Scheduler, NAMESAKE])
def test_other_scheduler_in_the_project_is_kept_with_a_warning(
    scheduler: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        crawler = Crawler(Spider, Settings({"ADDONS": ADDON, "SCHEDULER": scheduler}, "project"))
        AddonManager(crawler).load_settings(crawler.settings)
    assert crawler.settings["SCHEDULER"] == scheduler
    assert "SCHEDULER" in caplog.text
    assert OURS in caplog.text
    assert MIDDLEWARE not in crawler.settings.getdict("SPIDER_MIDDLEWARES")
    assert FrontierSpiderMiddleware not in crawler.settings.getdict("SPIDER_MIDDLEWARES")


@pytest.mark.parametrize(
    ("given", "order"),
    [
        ({MIDDLEWARE: 123}, 123),
        ({FrontierSpiderMiddleware: 123}, 123),
        ({MIDDLEWARE: None}, None),
        (f'{{"{MIDDLEWARE}": 77}}', 77),
        ('{"scrapy_frontier.spidermiddlewares.directives_and_links.FrontierSpiderMiddleware": 78}', 78),
    ],
)
def test_order_the_user_chose_is_kept(given: Any, order: int | None) -> None:
    settings = settings_with(SPIDER_MIDDLEWARES=given)
    found = {getattr(key, "__name__", str(key)): value for key, value in components(settings).items()}
    assert list(found.values()) == [order]


STOCK = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
ROBOTS = "scrapy_frontier.FrontierRobotsTxtMiddleware"


class OwnRobots(RobotsTxtMiddleware):
    """A middleware for robots.txt of somebody's own."""


@pytest.mark.parametrize(
    ("given", "robots"),
    [
        ({}, [FrontierRobotsTxtMiddleware]),
        ({STOCK: 100}, [FrontierRobotsTxtMiddleware]),
        ({RobotsTxtMiddleware: 70}, [FrontierRobotsTxtMiddleware]),
        ({STOCK: None}, []),
        ({STOCK: None, OwnRobots: 100}, [OwnRobots]),
        ({STOCK: None, ROBOTS: 90}, [FrontierRobotsTxtMiddleware]),
        ({ROBOTS: 90}, [FrontierRobotsTxtMiddleware]),
        ({ROBOTS: None}, [RobotsTxtMiddleware]),
    ],
)
def test_robots_in_the_place_of_scrapys_unless_the_user_said_otherwise(
    given: Any, robots: list[type]
) -> None:
    settings = settings_with(DOWNLOADER_MIDDLEWARES=given)
    found = build_component_list(settings.get_component_priority_dict_with_base("DOWNLOADER_MIDDLEWARES"))
    classes = [load_object(cls) for cls in found]
    assert [cls for cls in classes if issubclass(cls, RobotsTxtMiddleware)] == robots
    assert classes[:4].count(robots[0]) == 1 if robots else True


REFRESH, REDIRECT = "MetaRefreshMiddleware", "RedirectMiddleware"


def downloader_middlewares(**project: Any) -> dict[type, int]:
    """What runs, and where, after the add-on has seen a project's settings."""
    found = settings_with(**project).get_component_priority_dict_with_base("DOWNLOADER_MIDDLEWARES")
    return {load_object(path): order for path, order in found.items()}


def places(found: dict[type, int], name: str) -> dict[str, int]:
    """Of all that are or come from Scrapy's middleware *name*: module and place."""
    scrapys = getattr(scrapy_redirect, name)
    return {cls.__module__: order for cls, order in found.items() if issubclass(cls, scrapys)}


OUR_REDIRECT = "scrapy_frontier.downloadermiddlewares.redirect"
SCRAPYS = "scrapy.downloadermiddlewares.redirect"


def test_takes_the_places_of_scrapys_redirect_middlewares() -> None:
    found = downloader_middlewares()
    assert places(found, REFRESH) == {OUR_REDIRECT: 580}
    assert places(found, REDIRECT) == {OUR_REDIRECT: 600}
    orders = {cls.__name__: order for cls, order in found.items()}
    assert orders["PrivateNetworkMiddleware"] > orders["HttpProxyMiddleware"]
    assert orders["DirectivesMiddleware"] < orders["RetryMiddleware"]


class OwnRedirectMiddleware(scrapy_redirect.RedirectMiddleware):
    """A middleware of somebody's own."""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({f"{SCRAPYS}.{REDIRECT}": None}, {}),
        ({f"{SCRAPYS}.{REDIRECT}": None, OwnRedirectMiddleware: 601}, {__name__: 601}),
        ({f"{SCRAPYS}.{REDIRECT}": 605}, {OUR_REDIRECT: 605}),
        ({scrapy_redirect.RedirectMiddleware: 605}, {OUR_REDIRECT: 605}),
        ({f"{OUR_REDIRECT}.{REDIRECT}": 610}, {OUR_REDIRECT: 610}),
        ({f"{OUR_REDIRECT}.{REDIRECT}": None}, {SCRAPYS: 600}),
    ],
)
def test_what_a_project_says_of_redirect_middlewares_is_kept(given: Any, expected: Any) -> None:
    found = downloader_middlewares(DOWNLOADER_MIDDLEWARES=given)
    assert places(found, REDIRECT) == expected
    assert places(found, REFRESH) == {OUR_REDIRECT: 580}


def components(settings: BaseSettings) -> dict[Any, Any]:
    found: dict[Any, Any] = dict(settings.getdict("SPIDER_MIDDLEWARES"))
    return found


# -- in a crawl -----------------------------------------------------------------------------------------


class AddonSpider(Spider):
    """Switches the add-on on for itself alone."""

    name = "addon"
    custom_settings = {"ADDONS": ADDON}

    def parse(self, response: Any) -> Any:
        yield {"url": response.url}


def test_addon_of_one_spider_is_enough(web: Web, run: Callable[..., Crawl]) -> None:
    crawl = run(AddonSpider, {"SCHEDULER": None}, start_urls=[web.url("/")])
    assert crawl.reason == "finished"
    assert crawl.stats["frontier/pages/done"] == 1
    assert "FrontierSpiderMiddleware" in crawl.log


class SeedSpider(Spider):
    """Yields *count* seeds while the downloader is full; notes for how long the loop stood still at most, in
    seconds of its own work."""

    name = "seeds"
    url: str
    count: int
    result: str

    async def start(self) -> Any:
        watching = asyncio.create_task(self.watch())
        yield Request(self.url)
        while not self.crawler.engine or not self.crawler.engine.needs_backout():
            await asyncio.sleep(0.01)
        for number in range(self.count):
            yield Request(f"{self.url}{number}")
        self.tick()
        watching.cancel()
        Path(self.result).write_text(f"{self.longest}")
        os._exit(0)  # the pages are not what is tested

    async def watch(self) -> None:
        self.ticked, self.longest = time.thread_time(), 0.0
        while True:
            self.tick()
            await asyncio.sleep(0.001)

    def tick(self) -> None:
        now = time.thread_time()
        self.longest = max(self.longest, now - self.ticked)
        self.ticked = now


@pytest.mark.parametrize("count", [5_000, pytest.param(50_000, marks=pytest.mark.slow)])
def test_seeds_let_the_loop_breathe(web: Web, run: Callable[..., Crawl], tmp_path: Path, count: int) -> None:
    """While nothing can be fetched the loop stands still for a tenth of the time at most."""
    web.on("/", delay=3000)
    longest = {}
    for name, addons in {"ours": ADDON, "stock": {}}.items():
        settings = {"SCHEDULER": None, "ADDONS": addons, "CONCURRENT_REQUESTS": 1, "LOG_LEVEL": "INFO"}
        run(SeedSpider, settings, url=web.url("/"), count=count, result=str(tmp_path / name))
        longest[name] = float((tmp_path / name).read_text())
    assert longest["ours"] < longest["stock"] / 10
