"""Pages that were asked for with ``dont_filter`` and are linked for another callback: both get them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from conftest import Crawl
    from scrapy.http import Response
    from server import Web

ADDON = {"SCHEDULER": None, "ADDONS": {"scrapy_frontier.Addon": 500}}
WAYS = [{}, ADDON, {**ADDON, "FRONTIER_FOLLOW": True}]
STOCK = {"SCHEDULER": None, "FRONTIER_DIR": None}


class Listing(CrawlSpider):
    """Starts at a page that its rule wants, too."""

    name = "listing"
    rules = (Rule(LinkExtractor("/page/"), callback="parse_page", follow=True), Rule(LinkExtractor("/to/")))

    def parse_page(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}


def put_up_listing(web: Web) -> list[str]:
    web.on("/old", status=301, headers={"Location": "/page/1"})
    web.link("/page/1", "/page/2", "/to/all")
    for path in ("/page/2", "/page/3", "/to/all"):
        web.link(path, "/page/1", "/page/2", "/page/3", "/to/all")
    return [web.url(path) for path in ("/page/1", "/page/2", "/page/3")]


@pytest.mark.parametrize("first", ["/page/1", "/old"])
def test_a_start_page_that_a_rule_wants_gets_its_callback(
    first: str, web: Web, items: Callable[..., list[list[Any]]], tmp_path: Any
) -> None:
    urls = put_up_listing(web)
    ways = [{**way, "FRONTIER_DIR": str(tmp_path / f"{number}")} for number, way in enumerate(WAYS)]
    found = items(Listing, [STOCK, *ways], start_urls=[web.url(first)])
    assert found == [[{"url": url} for url in urls]] * 4
    paths = web.paths()
    assert [paths.count(path) for path in ("/page/1", "/page/2", "/page/3", "/to/all")] == [8, 4, 4, 4]


class OnlyFollowing(Listing):
    rules = (Rule(LinkExtractor("/page/")),)


@pytest.mark.parametrize("way", WAYS)
def test_a_start_page_is_not_fetched_twice_for_a_rule_that_has_no_callback(
    way: dict[str, Any], web: Web, run: Callable[..., Crawl]
) -> None:
    put_up_listing(web)
    assert run(OnlyFollowing, way, start_urls=[web.url("/page/1")]).reason == "finished"
    assert sorted(web.paths()) == ["/page/1", "/page/2", "/page/3"]


class Token(Spider):
    """Asks for a page for what it needs of it, and comes upon a link to it later."""

    name = "token"

    def __init__(self, url: str, name_of_link: str = "parse_page") -> None:
        super().__init__()
        self.url = url
        self.parse_link = getattr(self, name_of_link)

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.url)

    def parse(self, response: Response) -> Iterator[Any]:
        yield response.follow("/login", self.parse_token, dont_filter=True)

    def parse_token(self, response: Response) -> Iterator[Any]:
        yield {"token": response.url}
        yield response.follow("/1", self.parse_page)

    def parse_page(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, self.parse_link)


def put_up_token(web: Web) -> str:
    web.link("/login", "/1")
    web.link("/1", "/login", "/2")
    web.link("/2", "/login", "/1")
    return web.link("/", "/1", "/login")


@pytest.mark.parametrize("way", [*WAYS[:2], {**ADDON, "FRONTIER_LINKS": "all"}])
def test_a_page_that_a_callback_insisted_on_is_fetched_for_a_link_of_another(
    way: dict[str, Any], web: Web, items: Callable[..., list[list[Any]]]
) -> None:
    url = put_up_token(web)
    [found] = items(Token, [way], url=url)
    paths = ("/1", "/2", "/login")
    wanted = [{"token": web.url("/login")}, *({"url": web.url(path)} for path in paths)]
    assert sorted(map(str, found)) == sorted(map(str, wanted))
    assert sorted(web.paths()) == ["/", "/1", "/2", "/login", "/login"]


@pytest.mark.parametrize("way", WAYS[:2])
def test_for_the_callback_that_it_insisted_on_it_is_not(
    way: dict[str, Any], web: Web, run: Callable[..., Crawl]
) -> None:
    assert run(Token, way, url=put_up_token(web), name_of_link="parse_token").reason == "finished"
    assert sorted(web.paths()) == ["/", "/1", "/2", "/login"]


class Plain(Spider):
    name = "plain"

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        yield from response.follow_all(css="a", callback=self.parse)


@pytest.mark.parametrize("more", [{}, {"FRONTIER_REVISIT": "interval"}])
@pytest.mark.parametrize("way", WAYS[:2])
def test_a_seed_and_a_link_for_one_callback_are_one_visit(
    way: dict[str, Any], more: dict[str, Any], web: Web, run: Callable[..., Crawl]
) -> None:
    put_up_listing(web)
    assert run(Plain, {**way, **more}, start_urls=[web.url("/page/1")]).reason == "finished"
    assert sorted(web.paths()) == ["/page/1", "/page/2", "/page/3", "/to/all"]


def test_a_later_run_fetches_nothing_more(web: Web, run: Callable[..., Crawl]) -> None:
    put_up_listing(web)
    run(Listing, ADDON, start_urls=[web.url("/page/1")])
    assert len(web.visits) == 5
    run(Listing, ADDON, start_urls=[web.url("/page/1")])
    assert len(web.visits) == 5
