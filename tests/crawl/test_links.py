"""The link graph of a real crawl: every link is an edge, whatever became of it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from scrapy import Item, Spider
from scrapy.http import HtmlResponse, Response
from scrapy.item import Field
from scrapy.linkextractors import LinkExtractor
from scrapy.spidermiddlewares.base import BaseSpiderMiddleware

from scrapy_frontier import FrontierSpider
from scrapy_frontier.core.admin import facts
from scrapy_frontier.core.ranking import graph
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.link_rows import INTERNAL, KIND, NOFOLLOW, REDIRECT
from scrapy_frontier.core.store.records import decode_page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Crawl
    from server import Web

    from scrapy_frontier.core.store.records import Page

ADDON = {"SCHEDULER": None, "ADDONS": {"scrapy_frontier.Addon": 500}}


class Linked(NamedTuple):
    url: str
    flags: int = 0
    weight: float = 1.0


def read_links(directory: Path) -> dict[str, list[Linked]]:
    """Links by the URL of their page; pages without a row are left out."""
    store = Store(directory)
    try:
        urls = {keys.key_id(key): decode_page(value).url for key, value in store.scan(keys.PAGE)}
        rows = [keys.key_id(key) for key, _ in store.scan(keys.LINK_ROW)]
        return {
            urls[page_id]: [
                Linked(urls[edge.target], edge.flags & ~KIND, edge.weight)
                for edge in graph.find_row(page_id, store.get)
            ]
            for page_id in rows
        }
    finally:
        store.close()


@pytest.fixture
def links(tmp_path: Path) -> Callable[[], dict[str, list[Linked]]]:
    return lambda: read_links(tmp_path / "frontier")


class LinkSpider(Spider):
    """Follows every link."""

    name = "links"

    def parse(self, response: Response) -> Any:
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)


class KeptInSpider(LinkSpider):
    """Follows every link on its own host."""

    allowed_domains = ["127.0.0.2"]


def test_links_that_filters_drop_are_edges_too(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]], links: Callable[..., Any]
) -> None:
    """One is offsite, one too deep; one is a duplicate, one leads to the page itself. One is too long, which
    makes it a trap: those leave no trace."""
    start = web.url("/")
    offsite, long, deep, near = (
        web.url("/off", 1),
        web.url("/" + "x" * 300),
        web.url("/deep"),
        web.url("/near"),
    )
    web.link("/", "/near", offsite, long, start)
    web.link("/near", "/deep", "/", offsite)
    crawl = run(KeptInSpider, {**ADDON, "DEPTH_LIMIT": 1, "URLLENGTH_LIMIT": 200}, start_urls=[start])
    assert crawl.reason == "finished"
    assert web.paths() == ["/", "/near"]
    found = links()
    assert set(found[start]) == {
        Linked(near, INTERNAL),
        Linked(offsite),
        Linked(start, INTERNAL),
    }
    assert set(found[near]) == {Linked(deep, INTERNAL), Linked(start, INTERNAL), Linked(offsite)}
    for url in (offsite, deep):
        page = pages()[url]
        assert (page.state, page.reason) == (State.SEEN, "out of scope")
        assert page.parent is not None
    assert crawl.stats["frontier/pages/seen"] == 2
    assert crawl.stats["frontier/links/kept"] == 6
    assert crawl.stats["frontier/pending"] == 0


def test_of_very_many_links_that_filters_drop_some_are_edges(web: Web, run: Callable[..., Crawl]) -> None:
    """They are seen in one go at the end of the page: ten thousand would hold up the event loop for .3 s."""
    web.link("/", "/near", *(web.url(f"/{number}", 1) for number in range(1_200)))
    crawl = run(KeptInSpider, ADDON, start_urls=[web.url("/")])
    assert sorted(web.paths()) == ["/", "/near"]
    assert (crawl.stats["frontier/links/kept"], crawl.stats["frontier/links/ignored"]) == (1_001, 200)


class ScoringSpider(Spider):
    """Yields links and items with scores; its callback is a coroutine."""

    name = "scoring"

    async def parse(self, response: Response) -> Any:
        if not response.url.endswith("/"):
            yield {"frontier_content_score": 2.5}
            return
        response.meta["frontier_content_score"] = 4
        yield response.follow("/strong", meta={"frontier_link_score": 4, "depth_of": "strong"})
        yield response.follow("/weak", meta={"frontier_nofollow": True, "frontier_link_score": None})
        yield response.follow("/odd", meta={"frontier_link_score": "much"})
        yield response.follow("/posted", method="POST")
        yield Opinion(frontier_content_score=8)


class Opinion(Item):
    frontier_content_score = Field()


def test_scores_of_links_and_content_are_kept(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]], links: Callable[..., Any]
) -> None:
    crawl = run(ScoringSpider, ADDON, start_urls=[web.url("/")])
    assert crawl.reason == "finished"
    assert links()[web.url("/")] == [
        Linked(web.url("/strong"), INTERNAL, 4.0),
        Linked(web.url("/weak"), INTERNAL | NOFOLLOW),
        Linked(web.url("/odd"), INTERNAL),
    ]
    assert crawl.stats["frontier/scores/ignored"] == 1
    assert b"frontier_link_score" not in pages()[web.url("/strong")].payload
    assert "frontier_link_score = 'much' counts as 1: set a number" in crawl.log
    assert crawl.stats["frontier/pages/done"] == 5


class StillSpider(Spider):
    """Follows nothing."""

    name = "still"

    def parse(self, response: Response) -> Any:
        assert isinstance(response, HtmlResponse)
        yield {"url": response.url}


def test_all_anchors_are_links_if_that_is_wanted(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]], links: Callable[..., Any]
) -> None:
    other = web.url("/other", 1)
    body = f"""
    <html><head><base href="{web.url("/base/")}"><link rel="stylesheet" href="/style.css"></head><body>
    <a href="one">.</a> <a href="one#part">.</a> <a href=" /two ">.</a> <a href="{other}" rel="ugc">.</a>
    <a href="mailto:a@b.example">.</a> <a href="http://[bad">.</a> <a name="x">.</a>
    <map><area href="/area"></map> <a href="/mixed" rel="nofollow">.</a> <a href="/mixed">.</a></body></html>
    """
    start = web.on("/", body=body)
    crawl = run(StillSpider, {**ADDON, "FRONTIER_LINKS": "all"}, start_urls=[start])
    assert crawl.reason == "finished"
    assert web.paths() == ["/"]
    assert set(links()[start]) == {
        Linked(web.url("/base/one"), INTERNAL),
        Linked(web.url("/two"), INTERNAL),
        Linked(other),
        Linked(web.url("/area"), INTERNAL),
        Linked(web.url("/mixed"), INTERNAL),
    }
    assert {page.state for page in pages().values()} == {State.DONE, State.SEEN}


class LastSpider(Spider):
    """Follows the last link."""

    name = "last"

    def parse(self, response: Response) -> Any:
        for href in response.css("a::attr(href)").getall()[-1:]:
            yield response.follow(href)


def test_very_many_anchors_are_links_before_their_page_ends(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]], links: Callable[..., Any]
) -> None:
    start = web.link("/", *(f"/{number}.pdf" for number in range(700)), "/next")
    crawl = run(LastSpider, {**ADDON, "FRONTIER_LINKS": "all"}, start_urls=[start])
    assert crawl.reason == "finished"
    assert web.paths() == ["/", "/next"]
    assert len(links()[start]) == 701
    assert len(pages()) == 702
    assert pages()[web.url("/next")].state is State.DONE


RELS = """<html><head>{}</head><body><a href="/no" rel="nofollow">.</a> <a href="/ugc" rel="ugc">.</a>
<a href="/plain">.</a></body></html>"""


@pytest.mark.parametrize(
    ("spider", "settings", "meta", "without_weight"),
    [
        (StillSpider, {"FRONTIER_NOFOLLOW": ["ugc", "sponsored"]}, "", {"/ugc"}),
        (StillSpider, {}, '<meta name="robots" content="nofollow">', {"/no", "/ugc", "/plain"}),
        (LinkSpider, {"FRONTIER_NOFOLLOW": "ugc"}, '<meta name="robots" content="nofollow">', {"/ugc"}),
    ],
)
def test_nofollow_takes_the_weight_of_links_as_the_settings_say(
    web: Web,
    run: Callable[..., Crawl],
    links: Callable[..., Any],
    spider: type[Spider],
    settings: dict[str, Any],
    meta: str,
    without_weight: set[str],
) -> None:
    start = web.on("/", body=RELS.format(meta))
    run(spider, {**ADDON, "FRONTIER_LINKS": "all", **settings}, start_urls=[start])
    found = {link.url.removeprefix(web.url("")) for link in links()[start] if link.flags & NOFOLLOW}
    assert found == without_weight
    followed = {"/no", "/ugc", "/plain"} - without_weight if spider is LinkSpider else set()
    assert set(web.paths()) == {"/", *followed}


def test_a_trap_is_no_edge_and_a_session_no_page(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]], links: Callable[..., Any]
) -> None:
    start, one, other = web.url("/"), web.url("/item?id=1"), web.url("/item?id=2")
    session = "&sid=0123456789abcdef0123456789abcdef"
    web.link("/", one + session, web.url("/x/x/x"), one)
    web.link("/item?id=1", other + session, web.url("/off", 1) + "?" + session[1:])
    crawl = run(KeptInSpider, {**ADDON, "FRONTIER_SESSION_IDS": "strip"}, start_urls=[start])
    assert crawl.reason == "finished"
    assert crawl.log.count("FRONTIER_SESSION_IDS") == 1
    assert crawl.stats["frontier/traps/session"] >= 2
    assert sorted(web.paths()) == ["/", "/item?id=1", "/item?id=2"]
    assert set(links()[start]) == {Linked(one, INTERNAL)}
    assert {link.url.partition("?sid")[0] for link in links()[one]} == {other, web.url("/off", 1)}
    assert set(pages()) == {start, one, other, web.url("/off", 1)}


def test_a_session_stays_in_its_url_by_default(web: Web, run: Callable[..., Crawl]) -> None:
    web.link("/", "/item?id=1&sid=0123456789abcdef0123456789abcdef")
    run(KeptInSpider, ADDON, start_urls=[web.url("/")])
    assert web.paths() == ["/", "/item?id=1&sid=0123456789abcdef0123456789abcdef"]


def test_a_redirect_is_an_edge(web: Web, run: Callable[..., Crawl], links: Callable[..., Any]) -> None:
    web.on("/moved", status=301, headers={"Location": "/new"})
    web.on("/away", status=302, headers={"Location": web.url("/there", 1)})
    web.on("/gone", status=404)
    run(LinkSpider, ADDON, start_urls=[web.url("/moved"), web.url("/away"), web.url("/gone")])
    found = links()
    assert found[web.url("/moved")] == [Linked(web.url("/new"), REDIRECT | INTERNAL)]
    assert found[web.url("/away")] == [Linked(web.url("/there", 1), REDIRECT)]
    assert found[web.url("/gone")] == []


class AgainSpider(Spider):
    """Asks for its page once more, from its callback; the second visit links something else."""

    name = "again"

    def parse(self, response: Response) -> Any:
        yield response.follow("/again", dont_filter=True, callback=self.parse_again)

    def parse_again(self, response: Response) -> Any:
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, callback=self.parse_rest)
        if len(response.css("a")) > 1:
            assert response.request
            yield response.request.replace(dont_filter=True)

    def parse_rest(self, response: Response) -> None:
        pass


def test_another_visit_replaces_the_links(
    web: Web, run: Callable[..., Crawl], links: Callable[..., Any]
) -> None:
    from server import Answer
    from server import links as page

    web.on("/again", Answer(body=page("/one", "/two")), Answer(body=page("/three")))
    crawl = run(AgainSpider, ADDON, start_urls=[web.url("/")])
    assert crawl.reason == "finished"
    assert links()[web.url("/again")] == [Linked(web.url("/three"), INTERNAL)]


@pytest.mark.parametrize("settings", [{}, {**ADDON, "FRONTIER_LINKS": "none"}])
def test_without_the_graph_nothing_is_kept(
    web: Web,
    run: Callable[..., Crawl],
    pages: Callable[[], dict[str, Page]],
    links: Callable[..., Any],
    settings: dict[str, Any],
) -> None:
    """With the scheduler alone, or if it is not wanted."""
    web.link("/", "/a", web.url("/off", 1))
    crawl = run(KeptInSpider, settings, start_urls=[web.url("/")])
    assert crawl.reason == "finished"
    assert links() == {}
    assert len(pages()) == 2


TAGS = """<html><head><link rel=stylesheet href="/css"><link rel=icon href="/icon"><script src="/script">
</script></head><body><a href="/a"><img src="/img"></a><video src="/video"><source src="/video2"></video>
<audio src="/audio"></audio><object data="/object"></object><embed src="/embed"></body></html>"""


class EverythingSpider(FrontierSpider):
    """Follows whatever a page embeds."""

    name = "everything"
    custom_settings = {"ROBOTSTXT_OBEY": False}
    link_extractor = LinkExtractor(
        tags=("a", "link", "script", "img", "video", "source", "audio", "object", "embed"),
        attrs=("href", "src", "data"),
    )


class Passing(BaseSpiderMiddleware):
    """Sees each request, so that links are not followed in bulk."""


@pytest.mark.parametrize("middlewares", [{}, {"test_links.Passing": 50}])
def test_a_link_has_the_kind_of_its_tag(
    web: Web, run: Callable[..., Crawl], tmp_path: Path, middlewares: dict[str, int]
) -> None:
    start = web.on("/", body=TAGS)
    crawl = run(EverythingSpider, {"SPIDER_MIDDLEWARES": middlewares}, start_urls=[start])
    assert ("not in bulk" in crawl.log) == bool(middlewares)
    with closing(Store(tmp_path / "frontier")) as store:
        urls = {keys.key_id(key): decode_page(value).url for key, value in store.scan(keys.PAGE)}
        edges = facts.links_out(store, next(page for page, url in urls.items() if url == start))
        assert facts.count_kinds(edges)["object"] == 2
        found = {urls[edge.target].rpartition("/")[2]: facts.flag_names(edge.flags)[:-1] for edge in edges}
    kinds = {name: [name] for name in ("a", "css", "img", "video", "audio", "object", "script")}
    assert found == {**kinds, "video2": ["video"], "embed": ["object"], "icon": []}


def test_a_request_of_a_callback_has_no_kind(web: Web, run: Callable[..., Crawl], tmp_path: Path) -> None:
    web.link("/", "/a")
    run(LinkSpider, ADDON, start_urls=[web.url("/")])
    with closing(Store(tmp_path / "frontier")) as store:
        assert [facts.flag_names(edge.flags) for edge in facts.links_out(store, 0)] == [["internal"]]
