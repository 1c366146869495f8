"""The project's own ``DUPEFILTER_CLASS``: what it drops, in this run and in the next."""

from __future__ import annotations

import logging
import re
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler as ScrapyCrawler
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.utils.request import RequestFingerprinter

from scrapy_frontier.core.frontier import PageId
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.records import Page
from scrapy_frontier.crawl.directory import filter_directory, forget_filter
from scrapy_frontier.crawl.dupefilters import DupeFilter
from scrapy_frontier.crawl.fingerprints import Identities
from scrapy_frontier.crawl.log import Reporter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from conftest import Crawl
    from scrapy.http import Response
    from server import Web

OWN = {"DUPEFILTER_CLASS": f"{__name__}.Plain", "FRONTIER_DIR": None, "JOBDIR": "job"}
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


class ByName(RFPDupeFilter):
    """Calls Scrapy's class by its name, and names what it gives."""

    def __init__(self, path: str | None = None, debug: bool = False, **kwargs: Any) -> None:
        RFPDupeFilter.__init__(self, path=path, debug=debug, **kwargs)


class OfSettings(RFPDupeFilter):
    """Looks for the JOBDIR itself, as late as it can."""

    @classmethod
    def from_crawler(cls, crawler: ScrapyCrawler) -> OfSettings:
        dupefilter = cls(fingerprinter=crawler.request_fingerprinter)
        dupefilter.settings = crawler.settings
        return dupefilter

    settings: Any

    def open(self) -> None:
        RFPDupeFilter.__init__(self, self.settings["JOBDIR"], fingerprinter=self.fingerprinter)


class Late(OfSettings):
    """Opens its file when it is asked for the first time."""

    def open(self) -> None:
        pass

    def request_seen(self, request: Request) -> bool:
        if self.file is None:
            super().open()
        return super().request_seen(request)


class ByPath(RFPDupeFilter):
    def request_seen(self, request: Request) -> bool:
        return super().request_seen(request.replace(url=request.url.partition("?")[0]))


class Rule(BaseDupeFilter):
    def request_seen(self, request: Request) -> bool:
        return "private" in request.url


class PassesAll(RFPDupeFilter):
    def request_seen(self, request: Request) -> bool:
        return False


class Known:
    """A frontier that has one page, or none."""

    def __init__(self, page: Page | None = None) -> None:
        self._page = page

    def find(self, fingerprint: bytes) -> PageId | None:
        return None if self._page is None else PageId(1)

    def page(self, page_id: PageId) -> Page | None:
        return self._page


def opened(directory: Path, kind: type) -> DupeFilter:
    settings = {"JOBDIR": str(directory), "DUPEFILTER_CLASS": f"{kind.__module__}.{kind.__name__}"}
    crawler = ScrapyCrawler(Spider, settings)
    crawler.request_fingerprinter = RequestFingerprinter()
    where = filter_directory(directory / "frontier")
    where.mkdir(parents=True, exist_ok=True)
    return DupeFilter(crawler, Reporter(logging.getLogger(__name__)), where)


def drops(dupefilter: DupeFilter, request: Request, page: Page | None = None) -> bool:
    return dupefilter.drops(request, b"", Known(page))  # type: ignore[arg-type]


def test_spiders_find_the_filter_of_the_project_or_what_stands_in_for_scrapys(tmp_path: Path) -> None:
    frontier, identities = Known(), Identities(RequestFingerprinter())
    own = opened(tmp_path, Picky)
    assert isinstance(own.for_spiders(identities, frontier, str), Picky)  # type: ignore[arg-type]
    own.close("finished")
    is_off = opened(tmp_path, BaseDupeFilter).for_spiders(identities, frontier, str)  # type: ignore[arg-type]
    assert not is_off.request_seen(PAGE)
    for known in (False, True):
        found = opened(tmp_path, RFPDupeFilter).for_spiders(identities, Known(known or None), str)  # type: ignore[arg-type]
        assert found.request_seen(PAGE) == known


@pytest.mark.parametrize("kind", [Plain, Picky, Late])
def test_what_a_filter_notes_is_kept_once_the_frontier_has_it(tmp_path: Path, kind: type) -> None:
    """A kill may come when it has noted a link, and the frontier has not."""
    for batches, is_seen in ((0, False), (1, False), (2, False), (0, True)):
        dupefilter = opened(tmp_path, kind)
        assert drops(dupefilter, PAGE) == is_seen
        dupefilter.took(PAGE)
        assert drops(dupefilter, PAGE)
        for _ in range(batches):
            dupefilter.written([])
        dupefilter._filter.file._file.close()  # the process ends here


@pytest.mark.parametrize("kind", [Plain, Late])
def test_nothing_is_kept_of_what_the_frontier_did_not_take(tmp_path: Path, kind: type) -> None:
    """One that is over a budget, or that this process alone has, must not be seen in every later run."""
    for _ in range(2):
        dupefilter = opened(tmp_path, kind)
        assert not drops(dupefilter, PAGE)
        dupefilter.took(PRIVATE)  # without being asked about it (dont_filter)
        assert not drops(dupefilter, Request("http://example.com/b"))
        dupefilter.took(PAGE)
        dupefilter.written([])
        dupefilter.close("finished")


@pytest.mark.parametrize("state", [state for state in State if state is not State.LEASED])
def test_of_a_page_that_is_more_than_seen_the_frontier_knows_when_it_is_fetched(
    tmp_path: Path, state: State
) -> None:
    dupefilter = opened(tmp_path, Plain)
    assert not drops(dupefilter, PAGE)
    assert drops(dupefilter, PAGE, Page(PAGE.url, state)) == (state is State.SEEN)
    assert not drops(dupefilter, PAGE.replace(dont_filter=True))
    dupefilter.close("finished")


@pytest.mark.parametrize("kind", [Plain, Picky, ByName, OfSettings, Late])
def test_a_filter_remembers_as_long_as_the_frontier(tmp_path: Path, kind: type) -> None:
    """What a crawl without one left in the JOBDIR is nothing that this frontier has fetched."""
    without = RFPDupeFilter(str(tmp_path))
    assert not without.request_seen(PAGE)
    without.close("finished")
    for is_seen in (False, True, False):
        dupefilter = opened(tmp_path, kind)
        assert drops(dupefilter, PAGE) == is_seen
        dupefilter.took(PAGE)
        dupefilter.written([])
        dupefilter.close("finished")
        if is_seen:
            forget_filter(tmp_path / "frontier")


@pytest.mark.parametrize("kind", [Plain, Picky, ByName, OfSettings])
def test_a_filter_leaves_nothing_in_the_jobdir(tmp_path: Path, kind: type) -> None:
    opened(tmp_path, kind).close("finished")
    assert list(tmp_path.rglob("requests.seen")) == [
        filter_directory(tmp_path / "frontier") / "requests.seen"
    ]


def test_what_the_settings_say_of_the_jobdir_is_changed_for_a_filter_alone(tmp_path: Path) -> None:
    dupefilter = opened(tmp_path, OfSettings)
    assert dupefilter._filter.settings["JOBDIR"] == str(tmp_path)
    dupefilter.close("finished")
    assert dupefilter._filter.settings["JOBDIR"] == str(tmp_path)


class Repeated(Spider):
    """A seed that the filter would drop in every run but the first."""

    name = "repeated"
    url = ""
    meta: dict[str, Any] = {}

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.url, meta=self.meta)

    def parse(self, response: Response) -> None: ...


@pytest.mark.parametrize("case", ["failed", "frontier_every_run", "frontier_force"])
def test_a_seed_is_fetched_once_more_whatever_a_filter_has_seen(
    web: Web, run: Callable[..., Crawl], case: str
) -> None:
    settings = {**OWN, "RETRY_TIMES": 0}
    url = web.on("/", status=500 if case == "failed" else 200)
    later = {"frontier_every_run": True, "frontier_force": time.time() + 3600}
    meta = {name: value for name, value in later.items() if name == case}
    run(Repeated, settings, url=url, meta=meta if case == "frontier_every_run" else {})
    web.on("/")
    run(Repeated, settings, url=url, meta=meta)
    assert web.paths() == ["/", "/"]


class Unstored(Spider):
    """Seeds with callbacks that no other process has."""

    name = "unstored"
    urls: tuple[str, ...] = ()

    async def start(self) -> AsyncIterator[Request]:
        for url in self.urls:
            yield Request(url, callback=lambda response: None)


def test_what_lives_in_memory_is_fetched_by_a_later_run_whatever_a_filter_has_seen(
    web: Web, run: Callable[..., Crawl]
) -> None:
    urls = [web.on(f"/{number}") for number in range(4)]
    cut = {**OWN, "CLOSESPIDER_PAGECOUNT": 1, "CONCURRENT_REQUESTS": 1}
    assert run(Unstored, cut, urls=urls).reason == "closespider_pagecount"
    assert len(web.paths()) < 4
    run(Unstored, OWN, urls=urls)
    assert sorted(set(web.paths())) == ["/0", "/1", "/2", "/3"]


def test_what_a_filter_has_seen_goes_with_the_frontier(
    web: Web, run: Callable[..., Crawl], tmp_path: Path
) -> None:
    url = web.link("/", "/a", "/b")
    for _ in range(2):
        run(LinkSpider, OWN, start_urls=[url])
        shutil.rmtree(tmp_path / "job" / "frontier")
    assert sorted(web.paths()) == ["/", "/", "/a", "/a", "/b", "/b"]


def test_of_what_a_sitemap_lists_a_filter_keeps_only_what_the_frontier_took(
    web: Web, run: Callable[..., Crawl]
) -> None:
    """A trap today may be none with the settings of tomorrow."""
    deep, flat = web.on("/a/b/c/d"), web.on("/flat")
    web.on("/list.txt", body=f"{deep}\n{flat}\n", headers={"Content-Type": "text/plain"})
    web.on("/robots.txt", body=f"Sitemap: {web.url('/list.txt')}\n")
    settings = {**OWN, "ADDONS": {"scrapy_frontier.Addon": 500}, "FRONTIER_SITEMAPS": True}
    settings["ROBOTSTXT_OBEY"] = True
    web.link("/2", "/a/b/c/d", "/flat")
    for number, deepest in ((1, 3), (2, 9)):
        seeds = [web.url(f"/{number}")]
        crawl = run(LinkSpider, {**settings, "FRONTIER_PATH_DEPTH": deepest}, start_urls=seeds)
        assert crawl.stats.get("frontier/sitemaps/entries") == (2 if number == 1 else None)
    assert sorted(web.paths()) == ["/1", "/2", "/a/b/c/d", "/flat", "/list.txt", "/robots.txt"]


def test_a_filter_that_tells_pages_apart_in_its_own_way_remembers_over_runs(
    web: Web, run: Callable[..., Crawl]
) -> None:
    settings = {**OWN, "DUPEFILTER_CLASS": f"{__name__}.ByPath"}
    for number in (1, 2):
        url = web.link(f"/{number}", f"/a?session={number}")
        assert run(LinkSpider, settings, start_urls=[url]).reason == "finished"
    assert web.paths() == ["/1", "/a?session=1", "/2"]


@pytest.mark.parametrize("kind", [Picky, Rule])
def test_a_filter_drops_by_its_rule_in_every_run(tmp_path: Path, kind: type) -> None:
    for _ in range(2):
        dupefilter = opened(tmp_path, kind)
        assert drops(dupefilter, PRIVATE)
        dupefilter.close("finished")


def test_what_a_filter_lets_pass_again_is_fetched_once(web: Web, run: Callable[..., Crawl]) -> None:
    web.link("/", "/a", "/b")
    web.link("/a", "/b", "/")
    settings = {"DUPEFILTER_CLASS": f"{__name__}.PassesAll"}
    for _ in range(2):
        assert run(LinkSpider, settings, start_urls=[web.url("/")]).reason == "finished"
    assert sorted(web.paths()) == ["/", "/a", "/b"]


class Told(RFPDupeFilter):
    """Counts in its log what was filtered."""

    def log(self, request: Request, spider: Spider) -> None:
        assert spider.crawler.stats is not None
        spider.crawler.stats.inc_value(f"told /{request.url.rpartition('/')[2]}")


class ToldAndCounted(Told):
    def log(self, request: Request, spider: Spider) -> None:
        super().log(request, spider)
        RFPDupeFilter.log(self, request, spider)


class Failing(Rule):
    def log(self, request: Request, spider: Spider) -> None:
        raise OSError("its database is away")


class FollowedSpider(Spider):
    name = "followed"

    def parse(self, response: Response) -> None:
        pass


STOCK: dict[str, Any] = {"SCHEDULER": "scrapy.core.scheduler.Scheduler", "FRONTIER_DIR": None}
ADDON: dict[str, Any] = {"ADDONS": {"scrapy_frontier.Addon": 500}}
WAYS = pytest.mark.parametrize(
    "way", [{}, ADDON, {**ADDON, "FRONTIER_FOLLOW": True}], ids=["scheduler", "addon", "followed"]
)


def crawl_duplicates(web: Web, run: Callable[..., Crawl], settings: dict[str, Any]) -> Crawl:
    url = web.link("/", "/a", "/b", "/private")
    web.link("/a", "/a", "/b", "/private")
    web.link("/b", "/a", "/private")
    spider = FollowedSpider if settings.get("FRONTIER_FOLLOW") else LinkSpider
    crawl = run(spider, settings, start_urls=[url])
    assert crawl.reason == "finished"
    return crawl


@WAYS
@pytest.mark.parametrize("kind", [Told, ToldAndCounted])
def test_the_log_of_a_filter_hears_of_each_request_that_is_dropped(
    web: Web, run: Callable[..., Crawl], kind: type, way: dict[str, Any]
) -> None:
    own = {"DUPEFILTER_CLASS": f"{__name__}.{kind.__name__}"}
    crawls = [crawl_duplicates(web, run, {**own, **each}) for each in (STOCK, way)]
    expected = {"told /a": 2, "told /b": 1, "told /private": 2}
    for crawl in crawls:
        assert {name: number for name, number in crawl.stats.items() if name.startswith("told")} == expected
    assert crawls[1].stats["dupefilter/filtered"] == 5


@WAYS
def test_dupefilter_debug_names_each_request_that_is_dropped(
    web: Web, run: Callable[..., Crawl], way: dict[str, Any]
) -> None:
    lines = []
    for each in (STOCK, way):
        crawl = crawl_duplicates(web, run, {"DUPEFILTER_DEBUG": True, **each})
        lines.append(sorted(re.findall("Filtered duplicate request: .*", crawl.log)))
        assert crawl.stats["dupefilter/filtered"] == 5
    assert lines[0] == lines[1]
    assert len(lines[0]) == 5


def test_a_log_that_raises_loses_nothing(web: Web, run: Callable[..., Crawl]) -> None:
    crawl = crawl_duplicates(web, run, {"DUPEFILTER_CLASS": f"{__name__}.Failing"})
    assert sorted(web.paths()) == ["/", "/a", "/b"]
    assert crawl.stats["dupefilter/filtered"] == 6
    assert crawl.log.count("mend its log") == 1
