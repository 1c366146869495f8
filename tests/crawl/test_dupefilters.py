"""The project's own ``DUPEFILTER_CLASS``: what it drops, in this run and in the next."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler as ScrapyCrawler
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.utils.request import RequestFingerprinter

from scrapy_frontier.crawl.intake.dupefilters import DupeFilter
from scrapy_frontier.crawl.stats import Reporter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Crawl
    from scrapy.http import Response
    from server import Web

PAGE, PRIVATE = Request("http://example.com/a"), Request("http://example.com/private")


class LinkSpider(Spider):
    name = "links"

    def parse(self, response: Response) -> Iterator[Request]:
        yield from response.follow_all(css="a")


class Plain(RFPDupeFilter):
    pass


class Picky(RFPDupeFilter):
    """Has a rule beside its memory, and is made in its own way."""

    def __init__(self, path: str | None = None, debug: bool = False, **kwargs: Any) -> None:
        super().__init__(path, debug, **kwargs)
        self.words = ("private",)

    def request_seen(self, request: Request) -> bool:
        return any(word in request.url for word in self.words) or super().request_seen(request)


class ByPath(RFPDupeFilter):
    def request_seen(self, request: Request) -> bool:
        return super().request_seen(request.replace(url=request.url.partition("?")[0]))


class Rule(BaseDupeFilter):
    def request_seen(self, request: Request) -> bool:
        return "private" in request.url


class PassesAll(RFPDupeFilter):
    def request_seen(self, request: Request) -> bool:
        return False


def opened(directory: Path, kind: type) -> DupeFilter:
    settings = {"JOBDIR": str(directory), "DUPEFILTER_CLASS": f"{__name__}.{kind.__name__}"}
    crawler = ScrapyCrawler(Spider, settings)
    crawler.request_fingerprinter = RequestFingerprinter()
    return DupeFilter(crawler, Reporter(logging.getLogger(__name__)))


@pytest.mark.parametrize("kind", [Plain, Picky])
def test_what_a_filter_notes_is_kept_once_the_frontier_has_it(tmp_path: Path, kind: type) -> None:
    """A kill may come when it has noted a link, and the frontier has not."""
    for batches, is_seen in ((0, False), (1, False), (2, False), (0, True)):
        dupefilter = opened(tmp_path, kind)
        assert [dupefilter.seen(PAGE), dupefilter.seen(PAGE)] == [is_seen, True]
        for _ in range(batches):
            dupefilter.written([])
        dupefilter._filter.file._file.close()  # the process ends here


def test_a_filter_that_tells_pages_apart_in_its_own_way_remembers_over_runs(
    web: Web, run: Callable[..., Crawl]
) -> None:
    settings = {"DUPEFILTER_CLASS": f"{__name__}.ByPath", "FRONTIER_DIR": None, "JOBDIR": "job"}
    for number in (1, 2):
        url = web.link(f"/{number}", f"/a?session={number}")
        assert run(LinkSpider, settings, start_urls=[url]).reason == "finished"
    assert web.paths() == ["/1", "/a?session=1", "/2"]


@pytest.mark.parametrize("kind", [Picky, Rule])
def test_a_filter_drops_by_its_rule_in_every_run(tmp_path: Path, kind: type) -> None:
    for _ in range(2):
        dupefilter = opened(tmp_path, kind)
        assert dupefilter.seen(PRIVATE)
        dupefilter.close("finished")


def test_what_a_filter_lets_pass_again_is_fetched_once(web: Web, run: Callable[..., Crawl]) -> None:
    web.link("/", "/a", "/b")
    web.link("/a", "/b", "/")
    settings = {"DUPEFILTER_CLASS": f"{__name__}.PassesAll"}
    for _ in range(2):
        assert run(LinkSpider, settings, start_urls=[web.url("/")]).reason == "finished"
    assert sorted(web.paths()) == ["/", "/a", "/b"]
