"""Links followed in bulk: the same pages, states and link graph as by a request each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import scrapy
from conftest import read_pages, wait_until
from scrapy import Request, Spider, signals
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule
from scrapy.utils.asyncio import call_later
from scrapy.utils.request import RequestFingerprinter
from server import links
from test_links import read_links

from scrapy_frontier import FrontierSpider
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.link_rows import INTERNAL, NOFOLLOW

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from conftest import Crawl
    from scrapy.http import Response
    from server import Web

ADDON = {"SCHEDULER": None, "ADDONS": {"scrapy_frontier.Addon": 500}}
FOLLOW = {**ADDON, "FRONTIER_FOLLOW": True}
HTML = {"Content-Type": "text/html; charset=utf-8"}


class OneByOne(CrawlSpider):
    """Makes a request of each link, as every spider of Scrapy does."""

    name = "site"
    rules = (Rule(LinkExtractor(), callback="parse_page", follow=True),)

    def __init__(self, urls: Any = (), domains: Any = (), **arguments: Any) -> None:
        super().__init__(**arguments)
        self.start_urls = list(urls)
        self.allowed_domains = list(domains)

    async def start(self) -> AsyncIterator[Any]:
        for url in self.start_urls:
            yield Request(url)  # with `dont_filter` it would be fetched for the callback of the rule, too

    def parse_page(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "rule": response.meta.get("rule"), "text": response.meta.get("link_text")}


class Simple(FrontierSpider):
    name = "site"

    def __init__(self, urls: Any = (), domains: Any = (), **arguments: Any) -> None:
        super().__init__(**arguments)
        self.start_urls = list(urls)
        self.allowed_domains = list(domains)

    def parse(self, response: Response, **arguments: Any) -> Iterator[Any]:
        yield {
            "url": response.url,
            "depth": response.meta["depth"],
            "referer": (response.request.headers.get("Referer") or b"").decode(),
        }


def site(web: Web) -> str:
    """Pages that link each other in all the ways there are; the seed of it."""
    body = """<html><head><base href="/dir/x"></head><body>
      <a href="a">one</a> <a href="./a#f">again</a> <a href="../up?b=2&amp;a=1">two <b>bold</b></a>
      <a href="/up?a=1&amp;b=2">the same</a> <a href="picture.png">not a page</a> <a href="mailto:x@y">no</a>
      <a href=" b c ">space</a> <a href="ä?q=ä">umlaut</a> <a href="javascript:void(0)">script</a>
      <a href="http://[broken">broken</a> <a href="">self</a> <a href="#top">top</a> <area href="area">
      <a href="{other}">elsewhere</a> <a href="x" rel="nofollow">refused</a> <a href="y" rel=nofollow>both</a>
      <a href="y">both</a> <a href="long-{long}">trap</a> <a href="s?sid=0123456789abcdef&amp;p=1">session</a>
      </body></html>"""
    other = web.link("/other", web.url("/", 0), host=1)
    for path in ("/dir/a", "/up?b=2&a=1", "/dir/b%20c", "/dir/%C3%A4?q=%C3%A4", "/dir/area", "/dir/y"):
        web.link(path, "/dir/a", "/deep/1")
    web.link("/deep/1", "/deep/2", "/deep/1")
    web.link("/deep/2", "/", "/dir/a#part")
    web.link("/dir/s?p=1", "/dir/a")
    return web.on("/", body=body.format(other=other, long="x" * 3000), headers=HTML)


def graph_and_states(directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    links = {url: sorted(found) for url, found in read_links(directory).items()}
    return links, {
        url: (page.state, page.priority, page.reason) for url, page in read_pages(directory).items()
    }


@pytest.mark.parametrize("domains", [[], ["127.0.0.2"]], ids=["everywhere", "one host"])
def test_the_same_pages_links_and_states_as_by_a_request_each(
    web: Web, run: Callable[..., Crawl], tmp_path: Path, domains: list[str]
) -> None:
    seed = site(web)
    settings = {**ADDON, "DEPTH_LIMIT": 3, "DEPTH_PRIORITY": 1}
    found, visited, stats = [], [], []
    for way in (OneByOne, Simple):
        directory = tmp_path / way.__name__
        crawl = run(way, {**settings, "FRONTIER_DIR": str(directory)}, urls=[seed], domains=domains)
        assert crawl.reason == "finished", crawl.log
        found.append(graph_and_states(directory))
        assert "not in bulk" not in crawl.log
        visited.append(sorted(web.paths()))
        stats.append(crawl.stats)
        web.visits.clear()
    assert found[1] == found[0]
    assert visited[1] == visited[0]
    told = (
        "depth",
        "request_depth_max",
        "offsite/",
        "scheduler/",
        "frontier/nofollow",
        "frontier/traps",
        "urllength",
    )
    one, other = ({k: v for k, v in each.items() if k.startswith(told)} for each in stats)
    assert other == one
    assert len(visited[0]) > 8


def test_a_project_needs_nothing_in_its_settings(web: Web, run: Callable[..., Crawl]) -> None:
    crawl = run(Simple, {"SCHEDULER": None}, urls=[web.link("/", "/a", "/b")])
    assert sorted(web.paths()) == ["/", "/a", "/b"], crawl.log
    assert crawl.stats["item_scraped_count"] == 3


def test_a_spider_with_rules_follows_them_itself(web: Web, run: Callable[..., Crawl]) -> None:
    crawl = run(OneByOne, FOLLOW, urls=[web.link("/", "/a", "/b")])
    assert sorted(web.paths()) == ["/", "/a", "/b"], crawl.log
    assert "dupefilter/filtered" not in crawl.stats


class Watching:
    """A spider middleware of a project: it marks and drops requests."""

    def process_spider_output(self, response: Response, result: Any) -> Iterator[Any]:
        yield from (each for each in result if not self.drops(each))  # Scrapy 2.14

    async def process_spider_output_async(self, response: Response, result: Any) -> AsyncIterator[Any]:
        async for each in result:
            if not self.drops(each):
                yield each

    def drops(self, each: Any) -> bool:
        return isinstance(each, Request) and each.url.endswith("/drop")


class Listening(Simple):
    """Hears of every request."""

    heard: list[str] = []

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **arguments: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **arguments)
        crawler.signals.connect(spider.hear, signals.request_scheduled)
        return spider

    def hear(self, request: Request) -> None:
        self.heard.append(request.url)

    def closed(self, reason: str) -> None:
        self.crawler.stats.set_value("heard", len(self.heard))


def test_a_spider_middleware_of_the_project_gets_requests(web: Web, run: Callable[..., Crawl]) -> None:
    settings = {**ADDON, "SPIDER_MIDDLEWARES": {"test_follow.Watching": 543}}
    crawl = run(Simple, settings, urls=[web.link("/", "/keep", "/drop")])
    assert web.paths() == ["/", "/keep"]
    assert "not in bulk: the spider middleware Watching" in crawl.log


def test_who_listens_hears_of_every_request(web: Web, run: Callable[..., Crawl]) -> None:
    crawl = run(Listening, ADDON, urls=[web.link("/", "/a", "/b", "/a")])
    assert crawl.stats["heard"] == 3
    assert sorted(web.paths()) == ["/", "/a", "/b"]
    words = ["Links are followed by a request each, not in bulk: a listener of request_scheduled"]
    words += ["Requests are taken in one by one, which is slower: a listener of request_scheduled"]
    assert [crawl.log.count(each) for each in words] == [1, 1]
    assert "a listener" not in run(Simple, ADDON, urls=[web.url("/")]).log


class Own(RequestFingerprinter):
    """Pages that differ in a parameter alone are one page."""

    def fingerprint(self, request: Request) -> bytes:
        return super().fingerprint(request.replace(url=request.url.partition("?")[0]))


def test_a_fingerprinter_of_the_project_decides(web: Web, run: Callable[..., Crawl]) -> None:
    seed = web.link("/", "/a?1", "/a?2", "/b?1", "/?x")
    web.link("/a?1", "/a?3", "/b?2")
    crawl = run(Simple, {**ADDON, "REQUEST_FINGERPRINTER_CLASS": "test_follow.Own"}, urls=[seed])
    assert sorted(web.paths()) == ["/", "/a?1", "/b?1"]
    assert "not in bulk" not in crawl.log


class Raising(Simple):
    def parse(self, response: Response, **arguments: Any) -> Iterator[Any]:
        yield from super().parse(response)
        if response.url.endswith("/"):
            raise ValueError("half way")


@pytest.mark.parametrize("middlewares", [{}, {"test_follow.Watching": 543}], ids=["in bulk", "one by one"])
def test_the_links_of_a_page_are_followed_though_its_callback_raises(
    web: Web, run: Callable[..., Crawl], tmp_path: Path, middlewares: dict[str, int]
) -> None:
    directory = {"FRONTIER_DIR": str(tmp_path / "frontier"), "SPIDER_MIDDLEWARES": middlewares}
    seed = web.link("/", "/a", "/b")
    run(Raising, {**ADDON, **directory}, urls=[seed])
    assert web.paths() == ["/", "/a", "/b"]
    found = read_pages(tmp_path / "frontier")[seed]
    assert found.state is State.FAILED
    assert found.reason.startswith("callback raised ValueError"), found.reason


class Lister(Spider):
    """Has pages followed by the meta of single requests."""

    name = "lister"

    def __init__(self, urls: Any = ()) -> None:
        super().__init__()
        self.urls = urls

    async def start(self) -> AsyncIterator[Any]:
        for url, follow in self.urls:
            yield Request(url, meta={"frontier_follow": follow})

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"parse": response.url}

    def parse_product(self, response: Response) -> Iterator[Any]:
        yield {"product": response.url}


def test_the_meta_of_a_request_has_its_page_followed(web: Web, items: Callable[..., Any]) -> None:
    pages = web.link("/1", "/p1"), web.link("/2", "/p2"), web.link("/3", "/p3"), web.link("/4", "/p4")
    wanted = list(zip(pages, (True, "parse_product", False, "unknown"), strict=True))
    for number in "1234":
        web.link(f"/p{number}", "/further")
    (found,) = items(Lister, [ADDON], urls=wanted)
    assert {key: value[-3:] for item in found for key, value in item.items()}
    told = sorted((key, value.rpartition("/")[2]) for item in found for key, value in item.items())
    assert told == [("parse", name) for name in ("1", "2", "3", "4", "p1")] + [("product", "p2")]


def test_the_setting_has_all_pages_of_any_spider_followed_but_those_that_say_no(
    web: Web, run: Callable[..., Crawl]
) -> None:
    web.link("/a", "/b")
    web.link("/d", "/e")
    said = (web.link("/1", "/a"), True), (web.link("/2", "/c"), False), (web.link("/3", "/d"), None)
    run(Lister, FOLLOW, urls=said)
    assert sorted(web.paths()) == ["/1", "/2", "/3", "/a", "/b", "/d", "/e"]


class Careless(Simple):
    """A spider that forgot what a link extractor is."""

    link_extractor: Any = LinkExtractor


def test_what_is_no_link_extractor_follows_nothing_and_is_told_once(
    web: Web, run: Callable[..., Crawl]
) -> None:
    """It was meant to keep the crawl in."""
    seeds = [web.link(f"/{number}", "/a") for number in (1, 2)]
    crawl = run(Careless, ADDON, urls=seeds)
    assert sorted(web.paths()) == ["/1", "/2"]
    assert crawl.log.count("ERROR: No link is followed: link_extractor = ") == 1


class Choosy(Simple):
    """Asks for some pages itself, and weighs links by their text."""

    def parse(self, response: Response, **arguments: Any) -> Iterator[Any]:
        if response.url.endswith("/"):
            yield response.follow("/own?b=1&a=2", self.parse_own, priority=5)

    def parse_own(self, response: Response) -> Iterator[Any]:
        yield {"own": response.url}

    def frontier_link_score(self, response: Response, url: str, text: str) -> float:
        return 3.0 if "good" in text else 0.5


def test_what_the_callback_asks_for_itself_wins_and_links_weigh_what_the_spider_says(
    web: Web, items: Callable[..., Any], tmp_path: Path
) -> None:
    seed = web.on(
        "/", body='<a href="/own?a=2&b=1">x</a><a href="/a">a <b>good</b> one</a><a href="/c">-</a>'
    )
    (found,) = items(Choosy, [ADDON], urls=[seed])
    assert [item["own"].rpartition("/")[2] for item in found] == ["own?b=1&a=2"]
    weights = {link.url.rpartition("/")[2]: link.weight for link in read_links(tmp_path / "frontier")[seed]}
    assert weights["a"] == pytest.approx(3, rel=0.05)
    assert weights["c"] == pytest.approx(0.5, rel=0.05)


class WithErrback(Simple):
    async def start(self) -> AsyncIterator[Any]:
        for url in self.start_urls:
            yield Request(url, errback=self.failed)

    def failed(self, failure: Any) -> Iterator[Any]:
        yield {"failed": failure.value.response.status}


def test_error_pages_and_files_are_not_followed_and_directives_are_obeyed(
    web: Web, run: Callable[..., Crawl], tmp_path: Path
) -> None:
    pages = [
        web.link("/404", "/from-404", status=404),
        web.on("/text", body='<a href="/from-text">', headers={"Content-Type": "text/plain"}),
        web.on("/meta", body='<meta name=robots content=nofollow><a href="/from-meta">'),
        web.link("/header", "/from-header", headers={"X-Robots-Tag": "nofollow"}),
        web.on("/rel", body='<a href="/from-rel" rel="nofollow">'),
    ]
    crawl = run(WithErrback, ADDON, urls=pages)
    assert sorted(web.paths()) == ["/404", "/header", "/meta", "/rel", "/text"]
    assert crawl.stats["frontier/nofollow/links"] == 2
    assert crawl.stats["frontier/nofollow/rel"] == 1
    links = read_links(tmp_path / "frontier")
    assert [link.flags for link in links[pages[4]]] == [INTERNAL | NOFOLLOW]
    states = {page.url.rpartition("/")[2]: page.state for page in read_pages(tmp_path / "frontier").values()}
    assert states["from-rel"] is states["from-meta"] is State.SEEN


def test_a_kill_loses_nothing(web: Web, start: Callable[..., Crawl], run: Callable[..., Crawl]) -> None:
    paths = [f"/{number}" for number in range(60)]
    for path in paths:
        web.link(path, f"{path}/a", f"{path}/b", "/")
    seed = web.link("/", *paths)
    web.limit = 25
    crawl = start(Simple, {**ADDON, "CONCURRENT_REQUESTS": 4}, urls=[seed])
    web.wait(25)
    wait_until(lambda: len(web.visits) > 27)
    crawl.kill()
    web.limit = float("inf")
    assert run(Simple, {**ADDON, "CONCURRENT_REQUESTS": 4}, urls=[seed]).reason == "finished"
    expected = ["/", *paths, *(f"{path}/{each}" for path in paths for each in "ab")]
    assert sorted(set(web.paths())) == sorted(expected)
    assert len(web.visits) - len(expected) <= 5


def test_a_page_with_more_links_than_the_graph_takes_is_followed_whole(
    web: Web, run: Callable[..., Crawl], tmp_path: Path
) -> None:
    seed = web.link("/", *(f"/{number}" for number in range(10_500)))
    crawl = run(Simple, {**ADDON, "CLOSESPIDER_PAGECOUNT": 1, "CONCURRENT_REQUESTS": 1}, urls=[seed])
    assert crawl.stats["scheduler/enqueued"] == 10_501
    assert crawl.stats["frontier/links/ignored"] == 500
    assert len(read_links(tmp_path / "frontier")[seed]) == 10_000


class Ticking(Simple):
    """Counts the turns of the event loop until all links of its page are queued."""

    turns = 0

    def parse(self, response: Response, **arguments: Any) -> Any:
        self.tick()
        return ()

    def tick(self) -> None:
        if len(self.crawler.engine._slot.scheduler) < 9_000:
            self.turns += 1
            call_later(0, self.tick)

    def closed(self, reason: str) -> None:
        self.crawler.stats.set_value("turns", self.turns)


@pytest.mark.skipif(
    scrapy.version_info < (2, 15), reason="a callback that is no coroutine has to end in one go there"
)
@pytest.mark.parametrize("padding", [0, 600_000], ids=["", "parsed in a thread"])
def test_others_have_their_turns_while_a_very_large_page_is_followed(
    web: Web, run: Callable[..., Crawl], padding: int
) -> None:
    body = links(*(f"/{number}" for number in range(9_500))) + " " * padding
    settings = {**ADDON, "CLOSESPIDER_PAGECOUNT": 1, "CONCURRENT_REQUESTS": 1}
    crawl = run(Ticking, settings, urls=[web.on("/", body=body)])
    assert crawl.stats["scheduler/enqueued"] == 9_501
    assert crawl.stats["turns"] >= 10
