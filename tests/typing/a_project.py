"""What a project makes of the public names, as a type checker sees it: `mypy` reads this, nobody runs it.

Where a name is not there, or a value is of another type than the docs say, the check fails. What must not
pass is marked with the error it gives: `mypy` complains too where there is none.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.linkextractors import LinkExtractor
from scrapy.settings import Settings
from scrapy.spiders import Rule
from typing_extensions import assert_type

import scrapy_frontier
from scrapy_frontier import (
    Addon,
    FrontierDamaged,
    FrontierError,
    FrontierScheduler,
    FrontierSetting,
    FrontierSpider,
    Mixed,
    PageRank,
    Scorer,
    signals,
)
from scrapy_frontier.core.frontier import (
    Discovered,
    Frontier,
    FrontierOptions,
    Lease,
    Link,
    LinkVerdict,
    Outcome,
    PageId,
    Released,
)
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import Page
from scrapy_frontier.core.transitions import Event
from scrapy_frontier.settings import FrontierSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy.crawler import Crawler
    from scrapy.http import HtmlResponse, Response

# -- settings ----------------------------------------------------------------------------------------------

settings = Settings(
    {
        "ADDONS": {Addon: 500},
        "SCHEDULER": FrontierScheduler,
        "FRONTIER_SCORER": "a_project.SeedsFirst",
        "FRONTIER_SHELF_LIFE": {"/news/": 3600},
    }
)
Addon().update_settings(settings)
found = FrontierSettings(settings)
assert_type(found.end_wait, float)
assert_type(found.max_attempts, int)
assert_type(found.sitemaps, bool)
found.max_attempts = 3  # type: ignore[misc]  # settings are read once


# -- spiders -----------------------------------------------------------------------------------------------


class Docs(FrontierSpider):
    name = "docs"
    start_urls = ["https://docs.example/"]
    link_extractor = LinkExtractor(allow="/en/latest/", deny=r"\?")

    def parse(self, response: Response) -> Iterator[dict[str, str] | Request]:
        yield {"url": response.url}
        response.meta["frontier_content_score"] = 2.0
        yield response.follow("/next", meta={"frontier_link_score": 0.5, "frontier_follow": "parse_product"})

    def parse_product(self, response: Response, number: int = 0) -> dict[str, Any]:
        return {"number": number, "directives": response.meta.get("frontier_directives")}

    def frontier_link_score(self, response: Response, url: str, text: str) -> float:
        return 2.0 if "guide" in text else 1.0


class Shop(FrontierSpider):
    name = "shop"
    rules = (Rule(LinkExtractor(allow="/p/"), callback="parse_product", follow=True),)


class Listeners(Spider):
    name = "listeners"

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Listeners:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.changed, signals.page_changed)
        return spider

    def changed(self, url: str, links_added: list[str], links_removed: list[str]) -> None:
        self.logger.info("%s: %d links more", url, len(links_added) - len(links_removed))


class ImageLinks:
    """A page extractor of one's own."""

    def extract_links(self, response: HtmlResponse) -> list[Any]:
        return LinkExtractor(tags="img", attrs="src").extract_links(response)


class Images(FrontierSpider):
    name = "images"
    link_extractor = ImageLinks()


# -- scorers -----------------------------------------------------------------------------------------------


class SeedsFirst(Scorer):
    def discovered(
        self, node: int, parent: int | None = None, host: str = "", link_score: float = 1.0
    ) -> float:
        return 2.0 if parent is None or host == "docs.example.com" else 1.0


class Patient(Mixed):
    growth = 1.5


class Judging(PageRank):
    def parsed(
        self, node: int, outlinks: Sequence[int], weights: Sequence[float] | None = None
    ) -> list[tuple[int, float]]:
        return super().parsed(node, outlinks, weights)


# -- the verbs ---------------------------------------------------------------------------------------------


def visit(directory: str, url: str, fingerprint: bytes) -> int:
    now = time.time()
    try:
        store = Store(directory)
    except FrontierDamaged as error:
        assert_type(error.reason, str)
        return 0
    frontier = Frontier(
        store, now, FrontierOptions(scorer=SeedsFirst(), on_commit=lambda rows: print(len(rows)))
    )
    while not frontier.load(now):
        pass
    (answer,) = assert_type(
        frontier.discover([Link(fingerprint, url, "docs.example")], now), list[Discovered]
    )
    assert_type(answer.verdict, LinkVerdict)
    assert_type(answer.page_id, PageId | None)
    lease = frontier.lease(now)
    assert_type(lease, Lease | None)
    if lease is None:
        wake_at: float | None = frontier.wake_at()
        return int(wake_at or 0)
    assert_type(lease.page, Page)
    assert_type(lease.may_send, tuple[bytes, bytes])
    assert_type(frontier.recognize(url, lease, weight=0.5), bool)
    released = frontier.release(lease, Outcome(Event.FETCHED, 200, has_links=True), now)
    assert_type(released, Released)
    frontier.release(lease, 200, now)  # type: ignore[arg-type]  # an outcome is more than a status
    frontier.block("docs.example")  # type: ignore[call-arg]  # no verb reads a clock
    if (run := frontier.rank_due()) is not None:
        for seconds in frontier.rank_steps(run, run.compute(bool, time.time), time.time):
            assert_type(seconds, float)
        run.close()
    assert_type(frontier.totals().states, dict[str, int])
    frontier.close()
    return released.links


def why(error: FrontierSetting | FrontierError) -> str:
    return str(error)


scrapy_frontier.FrontierSpidr  # type: ignore[attr-defined]  # noqa: B018 - a name that is not there
