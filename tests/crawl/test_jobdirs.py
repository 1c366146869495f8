"""One JOBDIR for a whole project: each spider has a frontier of its own in it."""

from __future__ import annotations

import math
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pytest
from conftest import read_pages
from scrapy import Spider
from scrapy.http import HtmlResponse, Response

from scrapy_frontier.crawl.directory import home, homes_in, open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Crawl
    from server import Web

PAGES = 8


class OneSpider(Spider):
    """An item for every page that *start_urls* and what they link lead to."""

    name = "one"

    def parse(self, response: Response) -> Any:
        assert isinstance(response, HtmlResponse)
        yield {"url": response.url}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)


class TwoSpider(OneSpider):
    name = "my shop/two"


class LongSpider(OneSpider):
    name = "x" * 300


def put_up(web: Web) -> str:
    return web.link("/", *(f"/{number}" for number in range(1, PAGES)))


def job(directory: Path) -> dict[str, Any]:
    return {"JOBDIR": str(directory / "job"), "FRONTIER_DIR": None}


def items(crawl: Crawl) -> int:
    return int(crawl.stats.get("item_scraped_count", 0))


def test_spiders_that_share_a_jobdir_take_no_pages_from_each_other(
    web: Web, run: Callable[..., Crawl], tmp_path: Path
) -> None:
    """What one spider knows is no reason for another to leave it out; run again, each knows its own."""
    url, settings = put_up(web), job(tmp_path)
    crawls = [run(spider, settings, start_urls=[url]) for spider in (OneSpider, TwoSpider) * 2]
    assert [items(crawl) for crawl in crawls] == [PAGES, PAGES, 0, 0]
    assert len(web.visits) == 2 * PAGES
    for name in ("one", "my%20shop%2Ftwo"):
        assert len(read_pages(tmp_path / "job/frontier" / name)) == PAGES


@pytest.mark.parametrize("name", ["job", "job/frontier"])
def test_a_jobdir_that_is_a_frontier_itself_is_told_and_left_alone(
    web: Web, run: Callable[..., Crawl], tmp_path: Path, name: str
) -> None:
    """As ``import --dir`` makes one: a new one in it would fetch everything again."""
    url = put_up(web)
    run(OneSpider, {"FRONTIER_DIR": str(tmp_path / name), "JOBDIR": None}, start_urls=[url])
    crawl = run(OneSpider, job(tmp_path), start_urls=[url])
    assert crawl.reason == "frontier_unreadable"
    assert f"{tmp_path}/{name} is a frontier itself" in crawl.log
    assert "Traceback" not in crawl.log
    assert len(web.visits) == PAGES
    assert not (tmp_path / "job/frontier/one").exists()


def test_spiders_that_share_a_jobdir_run_at_the_same_time(
    web: Web, start: Callable[..., Crawl], tmp_path: Path
) -> None:
    """As under Scrapyd, which gives all spiders the settings of the project."""
    url, settings = put_up(web), job(tmp_path)
    (tmp_path / "job").mkdir()  # Scrapy's own `job_dir` fails where another makes it at that moment
    web.limit = 0
    crawls = [start(spider, settings, start_urls=[url]) for spider in (OneSpider, TwoSpider)]
    web.wait(2)
    assert all(crawl.process.poll() is None for crawl in crawls)
    again = start(OneSpider, settings, start_urls=[url]).wait()
    assert again.reason == "frontier_locked", "a spider that runs twice still has one frontier"
    web.limit = math.inf
    assert [items(crawl.wait()) for crawl in crawls] == [PAGES, PAGES]


def test_a_name_too_long_for_a_directory_is_refused(
    web: Web, run: Callable[..., Crawl], tmp_path: Path
) -> None:
    crawl = run(LongSpider, job(tmp_path), start_urls=[put_up(web)])
    assert crawl.reason == "frontier_unreadable"
    assert "File name too long" in crawl.log
    assert "Traceback" not in crawl.log


def test_every_spider_has_a_directory_of_its_own_within_the_jobdir(tmp_path: Path) -> None:
    """And a spider that is renamed finds its frontier when the directory is renamed."""
    names = ["one", "One", "a/b", "a%2Fb", ".", "..", "...", "frontier", "\ud800"]
    directories = [home(tmp_path, name) for name in names]
    assert len(set(directories)) == len(names)
    assert {each.parent for each in directories} == {tmp_path / "frontier"}
    assert not {".", ".."} & {each.name for each in directories}
    for each in directories[:6]:
        open_store(each).close()
    assert homes_in(tmp_path) == dict(sorted(zip(names[:6], directories, strict=False), key=itemgetter(1)))
    directories[0].rename(home(tmp_path, "uno"))
    assert "uno" in homes_in(tmp_path)
