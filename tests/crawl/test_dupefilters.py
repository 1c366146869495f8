"""The project's own ``DUPEFILTER_CLASS``: asked beside the frontier, told of what is dropped."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from conftest import Crawl
    from scrapy.http import Response
    from server import Web

STOCK: dict[str, Any] = {"SCHEDULER": "scrapy.core.scheduler.Scheduler", "FRONTIER_DIR": None}
ADDON: dict[str, Any] = {"ADDONS": {"scrapy_frontier.Addon": 500}}
WAYS = pytest.mark.parametrize(
    "way", [{}, ADDON, {**ADDON, "FRONTIER_FOLLOW": True}], ids=["scheduler", "addon", "followed"]
)


def own(kind: type) -> dict[str, Any]:
    return {"DUPEFILTER_CLASS": f"{__name__}.{kind.__name__}", "FRONTIER_DIR": None, "JOBDIR": "job"}


class LinkSpider(Spider):
    name = "links"

    def parse(self, response: Response) -> Iterator[Request]:
        yield from response.follow_all(css="a")


class FollowedSpider(Spider):
    name = "followed"

    def parse(self, response: Response) -> None:
        pass


class Plain(RFPDupeFilter):
    pass


class ByPath(RFPDupeFilter):
    def request_seen(self, request: Request) -> bool:
        return super().request_seen(request.replace(url=request.url.partition("?")[0]))


class Rule(BaseDupeFilter):
    def request_seen(self, request: Request) -> bool:
        return "private" in request.url


class PassesAll(RFPDupeFilter):
    def request_seen(self, request: Request) -> bool:
        return False


class Failing(Rule):
    def request_seen(self, request: Request) -> bool:
        raise OSError("its database is away")

    def close(self, reason: str) -> None:
        raise OSError("its database is away")


class Broken(RFPDupeFilter):
    def open(self) -> None:
        raise OSError("its database is away")


def test_a_filter_drops_by_its_own_rule_in_every_run(web: Web, run: Callable[..., Crawl]) -> None:
    for number in (1, 2):
        url = web.link(f"/{number}", f"/a?session={number}", f"/private/{number}")
        for kind, settings in ((ByPath, {}), (Rule, {"FRONTIER_DIR": "other"})):
            crawl = run(LinkSpider, {**own(kind), **settings}, start_urls=[url])
            assert crawl.reason == "finished"
    assert sum(path.startswith("/private") for path in web.paths()) == 2, "by the first filter"
    assert sum(path.startswith("/a") for path in web.paths()) == 1 + 2


@WAYS
def test_what_a_filter_lets_pass_again_is_fetched_once(
    web: Web, run: Callable[..., Crawl], way: dict[str, Any]
) -> None:
    web.link("/", "/a", "/b")
    web.link("/a", "/b", "/")
    for _ in range(2):
        crawl = run(
            FollowedSpider if len(way) > 1 else LinkSpider,
            {**own(PassesAll), **way},
            start_urls=[web.url("/")],
        )
        assert crawl.reason == "finished"
    assert sorted(web.paths()) == ["/", "/a", "/b"]


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
    settings = {**own(Plain), "RETRY_TIMES": 0}
    url = web.on("/", status=500 if case == "failed" else 200)
    later = {"frontier_every_run": True, "frontier_force": time.time() + 3600}
    meta = {name: value for name, value in later.items() if name == case}
    run(Repeated, settings, url=url, meta=meta if case == "frontier_every_run" else {})
    web.on("/")
    run(Repeated, settings, url=url, meta=meta)
    assert web.paths() == ["/", "/"]


def crawl_duplicates(web: Web, run: Callable[..., Crawl], settings: dict[str, Any]) -> Crawl:
    url = web.link("/", "/a", "/b", "/private")
    web.link("/a", "/a", "/b", "/private")
    web.link("/b", "/a", "/private")
    spider = FollowedSpider if settings.get("FRONTIER_FOLLOW") else LinkSpider
    crawl = run(spider, settings, start_urls=[url])
    assert crawl.reason == "finished"
    return crawl


def test_a_filter_that_raises_loses_nothing(web: Web, run: Callable[..., Crawl]) -> None:
    crawl = crawl_duplicates(web, run, own(Failing))
    assert sorted(web.paths()) == ["/", "/a", "/b", "/private"]
    for part in ("request_seen", "close"):
        assert crawl.log.count(f"mend its {part}") == 1


@pytest.mark.parametrize(
    ("path", "words"),
    [("nowhere.Filter", "No module named"), (f"{__name__}.Broken", "its database is away")],
)
def test_a_filter_that_cannot_be_used_ends_the_crawl_with_the_remedy(
    web: Web, run: Callable[..., Crawl], path: str, words: str
) -> None:
    crawl = run(LinkSpider, {"DUPEFILTER_CLASS": path}, start_urls=[web.url("/")])
    assert crawl.reason == "frontier_setting"
    assert web.paths() == []
    for each in (path, words, "leave DUPEFILTER_CLASS unset"):
        assert each in crawl.log
