"""What real spiders do: the frontier must lose nothing of it that Scrapy's own scheduler keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Field, FormRequest, Item, Request, Spider, signals
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule
from server import links

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from conftest import Crawl
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from server import Web
    from typing_extensions import Self


class RuleSpider(CrawlSpider):
    name = "rules"
    rules = (Rule(LinkExtractor(), callback="parse_page", follow=True),)

    def __init__(self, url: str) -> None:
        self.start_urls = [url]
        super().__init__()

    def parse_page(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "text": response.meta["link_text"]}


def test_requests_of_rules_are_on_disk(web: Web, run: Callable[..., Crawl]) -> None:
    """A link extractor makes text of a class of lxml's, and the rule puts it into ``meta``."""
    url = web.link("/", *(f"/{number}" for number in range(30)))
    first = run(RuleSpider, {"CLOSESPIDER_PAGECOUNT": 3, "CONCURRENT_REQUESTS": 1}, url=url)
    assert "scheduler/unserializable" not in first.stats
    second = run(RuleSpider, url=url)
    assert sorted(web.paths()) == sorted(["/", *(f"/{number}" for number in range(30))])
    assert first.stats.get("item_scraped_count", 0) + second.stats["item_scraped_count"] == 30


class Book(Item):
    title = Field()
    price = Field()


class ItemSpider(Spider):
    """Hands an item from page to page, as spiders do whose items stand on several pages."""

    name = "items"

    def parse(self, response: Response) -> Iterator[Any]:
        for number, link in enumerate(response.css("a::attr(href)").getall()):
            book = Book(title=link)
            yield response.follow(link, self.parse_price, cb_kwargs={"book": book}, priority=-number)

    def parse_price(self, response: Response, book: Book) -> Iterator[Any]:
        book["price"] = 1
        assert response.url.endswith(book["title"])
        yield book


def test_items_that_requests_carry_survive_a_restart(web: Web, run: Callable[..., Crawl]) -> None:
    url = web.link("/", *(f"/{number}" for number in range(30)))
    first = run(ItemSpider, {"CLOSESPIDER_PAGECOUNT": 3, "CONCURRENT_REQUESTS": 1}, start_urls=[url])
    second = run(ItemSpider, start_urls=[url])
    assert len(web.visits) == 31
    assert first.stats.get("item_scraped_count", 0) + second.stats["item_scraped_count"] == 30


class LoginSpider(Spider):
    """Starts at a page that shows its links to who is logged in, and logs in from there."""

    name = "login"

    def __init__(self, url: str, every_run: bool = False) -> None:
        super().__init__()
        self.url = url
        self.every_run = every_run

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.url, dont_filter=True, meta={"frontier_every_run": self.every_run})

    def parse(self, response: Response) -> Iterator[Any]:
        yield FormRequest.from_response(
            response, formdata={"user": "ann"}, callback=self.parse_account, dont_filter=self.every_run
        )

    def parse_account(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(css="a", callback=self.parse_page)

    def parse_page(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}


def put_up_login(web: Web) -> str:
    url = web.on("/", body="<form method=post action=/login><input name=user></form>" + links("/1", "/2"))
    web.on("/login", status=302, headers={"Location": "/", "Set-Cookie": "user=ann"})
    return url


def test_the_answer_of_a_form_is_fetched_though_its_page_is_known(
    web: Web, run: Callable[..., Crawl]
) -> None:
    crawl = run(LoginSpider, url=put_up_login(web))
    assert sorted(web.paths()) == ["/", "/", "/1", "/2", "/login"]
    assert [visit.cookie for visit in web.visits] == ["", "", *["user=ann"] * 3]
    assert crawl.reason == "finished"


def test_a_seed_that_is_wanted_in_every_run_logs_in_again(web: Web, run: Callable[..., Crawl]) -> None:
    """Cookies do not outlive a run, and a login page that is known would leave the next one without."""
    url, few = put_up_login(web), {"CLOSESPIDER_PAGECOUNT": 2, "CONCURRENT_REQUESTS": 1}
    run(LoginSpider, few, url=url, every_run=True)
    assert len(web.visits) == 3
    run(LoginSpider, url=url, every_run=True)
    assert sorted(web.paths()) == sorted(["/", "/login", "/"] * 2 + ["/1", "/2"])
    seeds_once = len(web.visits)
    run(LoginSpider, url=url)
    assert len(web.visits) == seeds_once


def test_the_queue_of_scrapys_own_scheduler_is_named(
    web: Web, run: Callable[..., Crawl], tmp_path: Path
) -> None:
    """Who changes the scheduler in the middle of a crawl begins anew, and is told so."""
    url = web.link("/", *(f"/{number}" for number in range(30)))
    job, few = {"JOBDIR": str(tmp_path / "job"), "FRONTIER_DIR": None}, {"CLOSESPIDER_PAGECOUNT": 3}
    run(ItemSpider, {**job, **few, "SCHEDULER": None, "CONCURRENT_REQUESTS": 1}, start_urls=[url])
    first = run(ItemSpider, {**job, **few}, start_urls=[url])
    assert first.log.count("Scrapy's own scheduler") == 1
    second = run(ItemSpider, job, start_urls=[url])
    assert "Scrapy's own scheduler" not in second.log
    assert second.reason == "finished"


# -- hosts that do not answer, among others, beside Scrapy's own scheduler -----------------------------------

TEMPORARY = {"FRONTIER_DIR": None, "FRONTIER_COOLDOWN": 90_000}  # nobody can wait for a rest
WAYS = [
    {**TEMPORARY, "SCHEDULER": None},
    TEMPORARY,
    {**TEMPORARY, "SCHEDULER": None, "ADDONS": {"scrapy_frontier.Addon": 500}},
]


class LookingSpider(Spider):
    """Looks at the dupe filter of the scheduler, and at what is left when it is closed."""

    name = "looking"

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.tell, signals.spider_closed)
        return spider

    @property
    def scheduler(self) -> Any:
        return self.crawler.engine._slot.scheduler  # type: ignore[union-attr]

    def parse(self, response: Response) -> Iterator[Any]:
        links = [Request(response.urljoin(f"/{number}")) for number in range(9)]
        yield from links[:6]
        if not self.scheduler.df.request_seen(links[8]):
            yield {"seen": self.scheduler.df.request_seen(response.request)}

    def tell(self) -> None:
        self.crawler.stats.set_value("left", len(self.scheduler))  # type: ignore[union-attr]
        self.scheduler.df.request_seen(Request("http://example.com/"))


@pytest.mark.parametrize("name", ["Scrapy's own", "of the project"])
def test_spiders_may_look_at_the_dupe_filter_and_at_what_is_left(
    web: Web, run: Callable[..., Crawl], name: str
) -> None:
    own = {} if name == "Scrapy's own" else {"DUPEFILTER_CLASS": "test_dupefilters.Plain"}
    crawl = run(
        LookingSpider,
        {"CLOSESPIDER_PAGECOUNT": 1, "CONCURRENT_REQUESTS": 1, **own},
        start_urls=[web.url("/")],
    )
    assert crawl.stats["item_scraped_count"] == 1
    assert crawl.stats["left"] >= 5
    assert "Traceback" not in crawl.log
