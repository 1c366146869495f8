"""Entries with a pattern stay inside it, and entries that force a visit come to an end."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider

from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.records import Page
from scrapy_frontier.crawl.meta_values import PatternAndForce, is_forced

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from conftest import Crawl
    from server import Web

PATTERN, FORCE = "frontier_pattern", "frontier_force"
HOUR = 3600


class EntrySpider(Spider):
    """Yields *entries*, each a URL and its meta, and follows all links; with *copies* each gets the meta of
    its page, as many spiders have it."""

    name = "entries"
    custom_settings = {"ADDONS": {"scrapy_frontier.Addon": 500}}
    entries: list[tuple[str, dict[str, Any]]] = []
    copies = False

    async def start(self) -> AsyncIterator[Any]:
        for url, meta in self.entries:
            yield Request(url, meta=meta, dont_filter=True)

    def parse(self, response: Any) -> Iterator[Any]:
        for href in response.css("a::attr(href)").getall():
            yield Request(response.urljoin(href), meta=response.meta if self.copies else None)


@pytest.fixture
def site(web: Web) -> Web:
    """Documents and news that link each other."""
    web.link("/docs/", "/docs/a", "/news/1")
    web.link("/docs/a", "/docs/b", "/news/2")
    web.link("/docs/b", "/docs/")
    web.link("/news/1", "/docs/a", "/news/2")
    web.link("/news/2", "/docs/c")
    return web


def fetched(web: Web) -> list[str]:
    """The paths asked for since the last call, sorted."""
    paths = sorted(web.paths())
    web.visits.clear()
    return paths


def test_a_pattern_keeps_a_crawl_inside_and_what_is_outside_is_known(
    site: Web, run: Callable[..., Crawl], pages: Any
) -> None:
    crawl = run(EntrySpider, entries=[(site.url("/docs/"), {PATTERN: "/docs/"})])
    assert fetched(site) == ["/docs/", "/docs/a", "/docs/b"]
    assert crawl.stats["frontier/pattern/links"] == 2
    found = pages()
    for path, source in (("/news/1", "/docs/"), ("/news/2", "/docs/a")):
        outside = found[site.url(path)]
        assert outside.state is State.SEEN
        assert outside.reason == f"outside the pattern /docs/ of {site.url(source)}"
    run(EntrySpider, entries=[(site.url("/news/1"), {})])  # another entry may lead there
    assert fetched(site) == ["/docs/c", "/news/1", "/news/2"]


@pytest.mark.parametrize(
    "pattern", [["/a"], ("/a", []), 5, b"/a", re.compile(b"/a"), "a{99999999999999}"], ids=repr
)
def test_what_can_be_no_pattern_lets_nothing_pass_and_is_told_once(
    pattern: Any, caplog: pytest.LogCaptureFixture
) -> None:
    said = PatternAndForce(Request("http://h/", meta={PATTERN: pattern}))
    assert not any(said.admits(url) for url in ("http://h/a", "http://h/b"))
    (line,) = caplog.messages
    assert line.startswith(f"{PATTERN} = {pattern!r}")
    assert "a regular expression" in line.replace("no regular", "a regular")


@pytest.mark.parametrize("nothing", [None, False, 0], ids=repr)
def test_without_a_pattern_all_links_are_followed_and_inherit_none(
    nothing: Any, caplog: pytest.LogCaptureFixture
) -> None:
    said, link = (
        PatternAndForce(Request("http://h/", meta={PATTERN: nothing, FORCE: 5})),
        Request("http://h/a"),
    )
    assert said.admits(link.url)
    assert (said.hand_on(link), link.meta, said.inherited) == ("", {}, {})
    assert caplog.messages == []


@pytest.mark.parametrize("own", [{}, {PATTERN: None, FORCE: None}, {PATTERN: False, FORCE: 0}], ids=repr)
def test_a_link_inherits_what_it_does_not_say_itself(own: dict[str, Any]) -> None:
    link, said = Request("http://h/a", meta={"depth": 1, **own}), {PATTERN: "/a", FORCE: 5}
    assert PatternAndForce(Request("http://h/", meta=dict(said))).hand_on(link) == ""
    assert link.meta == {"depth": 1, **said}


@pytest.mark.parametrize("copies", [False, True])
def test_force_fetches_all_inside_its_pattern_once(
    site: Web, run: Callable[..., Crawl], pages: Any, copies: bool
) -> None:
    run(EntrySpider, entries=[(site.url("/docs/"), {})])
    assert fetched(site) == ["/docs/", "/docs/a", "/docs/b", "/docs/c", "/news/1", "/news/2"]
    before = pages()
    entry = site.url("/docs/"), {PATTERN: "/docs/", FORCE: time.time() + 2}
    time.sleep(2.0)  # so that the visits to come are later than the time to force by
    run(EntrySpider, entries=[entry], copies=copies)
    assert fetched(site) == ["/docs/", "/docs/a", "/docs/b"]
    run(EntrySpider, entries=[entry], copies=copies)
    assert fetched(site) == []
    assert {page.state for page in pages().values()} == {State.DONE}
    assert pages().keys() == before.keys()
    page, old = (found[site.url("/docs/a")] for found in (pages(), before))
    assert page.discovered == old.discovered
    assert page.visits is None or old.visits is None or page.visits.visits == old.visits.visits + 1


@pytest.mark.parametrize("copies", [False, True])
def test_force_without_a_pattern_is_for_one_page_and_what_is_new(
    site: Web, run: Callable[..., Crawl], copies: bool
) -> None:
    run(EntrySpider, entries=[(site.url("/docs/"), {})])
    fetched(site)
    site.link("/docs/", "/docs/a", "/docs/new")
    site.link("/docs/new", "/docs/b")
    run(EntrySpider, entries=[(site.url("/docs/"), {FORCE: time.time() + 1})], copies=copies)
    assert fetched(site) == ["/docs/", "/docs/new"]


def test_a_redirect_of_a_forced_page_leads_to_a_known_one_again(web: Web, run: Callable[..., Crawl]) -> None:
    web.on("/", status=302, headers={"Location": "/home"})
    run(EntrySpider, entries=[(web.url("/"), {})])
    assert fetched(web) == ["/", "/home"]
    entry = web.url("/"), {PATTERN: "/", FORCE: time.time() + 1}
    run(EntrySpider, entries=[entry])
    assert fetched(web) == ["/", "/home"]


def test_a_time_that_is_none_forces_nothing_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    page = Page("http://h/", State.DONE, changed=1000)
    assert [is_forced({FORCE: when}, page) for when in (1001, "1001", 1000, None, False)] == [
        *(True, True, False, False, False)
    ]
    assert caplog.messages == []
    assert not any(is_forced({FORCE: when}, page) for when in (True, "now", float("inf"), True))
    wanted = "in the meta of a request is not obeyed: set a time in POSIX seconds, as of time.time()"
    assert caplog.messages == [f"{FORCE} = {value} {wanted}" for value in ("True", "'now'", "inf")]
