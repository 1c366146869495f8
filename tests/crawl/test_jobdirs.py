"""One JOBDIR for a whole project: each spider has a frontier of its own in it."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from conftest import environment, read_pages
from scrapy import Spider
from scrapy.http import HtmlResponse, Response

from scrapy_frontier.core.errors import FrontierUnreadable
from scrapy_frontier.crawl.directory import Home, claim, homes, open_store

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


TWO = "frontier-my%20shop%2Ftwo"


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
    own = f"The frontier of spider {TwoSpider.name!r} is {tmp_path}/job/{TWO}, for "
    assert [own in crawl.log for crawl in crawls] == [False, True, False, True]
    for name in ("frontier", TWO):
        assert len(read_pages(tmp_path / "job" / name)) == PAGES


def test_a_jobdir_that_is_a_frontier_itself_is_told_and_left_alone(
    web: Web, run: Callable[..., Crawl], tmp_path: Path
) -> None:
    """As ``import --dir`` makes one: a new one in it would fetch everything again."""
    url = put_up(web)
    run(OneSpider, {"FRONTIER_DIR": str(tmp_path / "job"), "JOBDIR": None}, start_urls=[url])
    crawl = run(OneSpider, job(tmp_path), start_urls=[url])
    assert crawl.reason == "frontier_unreadable"
    assert f"{tmp_path}/job is a frontier itself" in crawl.log
    assert "Traceback" not in crawl.log
    assert len(web.visits) == PAGES
    assert not (tmp_path / "job" / "frontier").exists()


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


def test_a_name_too_long_for_a_directory_is_refused(tmp_path: Path) -> None:
    assert claim(tmp_path, "one") == tmp_path / "frontier"
    with pytest.raises(FrontierUnreadable, match=r"too long for a directory of its .*set FRONTIER_DIR"):
        claim(tmp_path, "x" * 250)


def test_a_spider_that_is_renamed_finds_its_frontier_as_the_docs_say(tmp_path: Path) -> None:
    """Of the first one the file `spider` is written anew, of another its directory is renamed."""
    first, second = (claim(tmp_path, name) for name in ("one", "two"))
    for home in (first, second):
        open_store(home).close()
    (first / "spider").write_text("uno\n")
    second.rename(tmp_path / "frontier-due")
    assert homes(tmp_path) == [Home(first, "uno"), Home(tmp_path / "frontier-due", "due")]
    assert [claim(tmp_path, name) for name in ("uno", "due")] == [first, tmp_path / "frontier-due"]


CLAIM = """
import sys
from pathlib import Path
from scrapy_frontier.crawl.directory import claim
print("ready", flush=True)
sys.stdin.readline()
print(claim(Path(sys.argv[1]), sys.argv[2]).name)
"""


def test_of_spiders_that_start_at_once_one_is_the_first(tmp_path: Path) -> None:
    found: list[str] = []
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CLAIM, str(tmp_path), f"spider{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for number in range(6)
    ]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        found.append(process.communicate(timeout=600)[0].strip())
    assert found.count("frontier") == 1
    assert len(set(found)) == 6
