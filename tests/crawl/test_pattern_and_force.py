"""Entries with a pattern stay inside it, and entries that force a visit come to an end."""

from __future__ import annotations

import re
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.utils.request import fingerprint

from scrapy_frontier.core.frontier import Frontier, Link
from scrapy_frontier.core.parse.urls import host_of
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import Page
from scrapy_frontier.crawl.codec import meta_in, meta_payload
from scrapy_frontier.crawl.meta_values import PatternAndForce, is_forced

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from changing import JumpingClock
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


def test_what_was_added_with_a_pattern_stands_although_a_link_led_to_it_before(
    site: Web, run: Callable[..., Crawl], tmp_path: Path
) -> None:
    root = site.link("/", "/docs/")
    run(EntrySpider, {"CLOSESPIDER_PAGECOUNT": 1, "CONCURRENT_REQUESTS": 1}, entries=[(root, {})])
    assert fetched(site) == ["/"]
    add(tmp_path, site.url("/docs/"), **{PATTERN: "/docs/"})
    run(EntrySpider, entries=[(site.url("/docs/"), {})])
    assert fetched(site) == ["/docs/", "/docs/a", "/docs/b"]


def test_a_pattern_goes_with_a_redirect_and_stands_against_one_of_a_link(
    web: Web, run: Callable[..., Crawl]
) -> None:
    web.on("/docs/", status=302, headers={"Location": "/handbook"})
    web.link("/handbook", "/docs/a", "/news/1")
    web.link("/docs/a", "/docs/b", "/news/2")
    run(EntrySpider, entries=[(web.url("/docs/"), {PATTERN: "/docs/"})], copies=True)
    assert fetched(web) == ["/docs/", "/docs/a", "/docs/b", "/handbook"]


def test_a_pattern_that_is_none_lets_nothing_pass(site: Web, run: Callable[..., Crawl]) -> None:
    crawl = run(EntrySpider, entries=[(site.url("/docs/"), {PATTERN: "("})])
    assert fetched(site) == ["/docs/"]
    assert crawl.log.count("is no regular expression") == 1


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


def test_the_first_entry_of_a_page_stands_but_before_a_seed(site: Web, run: Callable[..., Crawl]) -> None:
    docs, both = (site.url("/docs/"), {PATTERN: "/docs/"}), (site.url("/docs/"), {PATTERN: "/docs/|/news/2"})
    run(EntrySpider, {"CLOSESPIDER_PAGECOUNT": 1, "CONCURRENT_REQUESTS": 1}, entries=[docs])
    assert fetched(site) == ["/docs/"]  # and /docs/a waits, entered with the first pattern
    run(EntrySpider, {"CLOSESPIDER_PAGECOUNT": 1, "CONCURRENT_REQUESTS": 1}, entries=[both])
    assert fetched(site) == ["/docs/a"]
    run(EntrySpider, entries=[(site.url("/docs/b"), {PATTERN: "/news/"})])
    assert fetched(site) == ["/docs/b"]


def test_a_seed_takes_the_place_of_the_entry_of_a_page_that_waits(
    site: Web, run: Callable[..., Crawl]
) -> None:
    limits = {"CLOSESPIDER_PAGECOUNT": 1, "CONCURRENT_REQUESTS": 1}
    run(EntrySpider, limits, entries=[(site.url("/docs/"), {PATTERN: "/docs/"})])
    assert fetched(site) == ["/docs/"]
    run(EntrySpider, entries=[(site.url("/docs/a"), {})])
    assert fetched(site) == ["/docs/a", "/docs/b", "/docs/c", "/news/2"]


def add(directory: Path, url: str, **meta: Any) -> None:
    """As `scrapy frontier add` does."""
    with closing(Store(directory / "frontier")) as store:
        frontier, now = Frontier(store, time.time()), time.time()
        link = Link(fingerprint(Request(url)), url, host_of(url), payload=meta_payload(meta))
        (answer,) = frontier.discover([link], now)
        if not answer.is_taken and answer.page_id is not None:
            is_waiting = frontier.renew(answer.page_id, link.payload)
            assert frontier.requeue(answer.page_id, now, link.payload) or is_waiting
        frontier.close()


@pytest.mark.parametrize("nothing", [{}, {PATTERN: None}, {FORCE: None}], ids=repr)
@pytest.mark.parametrize("is_known", [False, True])
def test_what_was_added_with_a_pattern_stands_against_a_seed_without_one(
    site: Web, run: Callable[..., Crawl], tmp_path: Path, is_known: bool, nothing: dict[str, None]
) -> None:
    """The seed comes at every start, and was there before; one with a pattern is heard, and None is none."""
    docs, other = site.url("/docs/"), (site.url("/docs/"), {PATTERN: "/news/"})
    if is_known:
        run(EntrySpider, entries=[(docs, {})])
        assert len(fetched(site)) == 6
    force = {FORCE: int(time.time()) + 1}
    time.sleep(1.0 if is_known else 0.0)  # the visits to come are later
    add(tmp_path, docs, **{PATTERN: "/docs/"}, **(force if is_known else {}))
    run(EntrySpider, entries=[(docs, nothing)])
    assert fetched(site) == ["/docs/", "/docs/a", "/docs/b"]
    if not is_known:
        add(tmp_path, docs, **{PATTERN: "/docs/"})
        run(EntrySpider, entries=[other])
        assert fetched(site) == ["/docs/", "/news/1", "/news/2"]


def test_what_was_added_with_a_pattern_stands_while_it_is_tried_again(
    site: Web, run: Callable[..., Crawl], tmp_path: Path
) -> None:
    docs = site.on("/docs/", status=500)
    add(tmp_path, docs, **{PATTERN: "/docs/"})
    run(EntrySpider, {"FIRST_BACKOFF": 1.0, "FRONTIER_END_WAIT": 0}, entries=[(docs, {})])
    site.link("/docs/", "/docs/a", "/news/1")
    run(EntrySpider, entries=[(docs, {})])
    assert fetched(site) == ["/docs/", "/docs/", "/docs/a", "/docs/b"]


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


def test_force_ends_where_scrapys_http_cache_answers(
    web: Web, run: Callable[..., Crawl], clock: JumpingClock, tmp_path: Path
) -> None:
    """Nobody is visited then, and pages that lead to each other would force each other for ever."""
    web.link("/docs/", "/docs/a")
    web.link("/docs/a", "/docs/")
    settings = {
        "FRONTIER_CLOCK": "changing.clock",
        "FRONTIER_REVISIT": "interval",
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path / "cache"),
        "CLOSESPIDER_PAGECOUNT": 20,
    }
    run(EntrySpider, settings, entries=[(web.url("/docs/"), {})])
    clock.jump(clock() + 60)
    entry = web.url("/docs/"), {PATTERN: "/docs/", FORCE: clock()}
    crawl = run(EntrySpider, settings, entries=[entry])
    assert crawl.reason == "finished"
    assert crawl.stats["httpcache/hit"] == 2


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


def tomorrow() -> float:
    return time.time() + 24 * HOUR


class Counting(EntrySpider):
    """Counts its callbacks in the stats."""

    def parse(self, response: Any) -> Iterator[Any]:
        self.crawler.stats.inc_value("called")
        return super().parse(response)


@pytest.mark.parametrize("headers", [{"ETag": '"1"'}, {}], ids=["validators", "digest"])
def test_a_page_that_comes_back_as_it_was_reaches_its_callback_where_that_is_forced(
    web: Web, run: Callable[..., Crawl], headers: dict[str, str]
) -> None:
    settings = {"FRONTIER_REVISIT": "interval", "FRONTIER_SHELF_LIFE": HOUR}
    web.on("/", body="as ever", headers=headers)
    run(Counting, settings, entries=[(web.url("/"), {FORCE: time.time() + 48 * HOUR})])
    web.visits.clear()
    crawl = run(Counting, {**settings, "FRONTIER_CLOCK": f"{__name__}.tomorrow"}, entries=[])  # it is due
    assert [visit.lines.get("if-none-match") for visit in web.visits if visit.path == "/"] == [None]
    assert crawl.stats["called"] == 1


def test_a_redirect_of_a_forced_page_leads_to_a_known_one_again(web: Web, run: Callable[..., Crawl]) -> None:
    web.on("/", status=302, headers={"Location": "/home"})
    run(EntrySpider, entries=[(web.url("/"), {})])
    assert fetched(web) == ["/", "/home"]
    entry = web.url("/"), {PATTERN: "/", FORCE: time.time() + 1}
    run(EntrySpider, entries=[entry])
    assert fetched(web) == ["/", "/home"]


def test_of_a_forced_visit_a_page_keeps_no_redirects_and_no_headers_of_middlewares(
    web: Web, run: Callable[..., Crawl], pages: Any
) -> None:
    """Else it would have fewer redirects when it is queued again, and be asked for as another agent."""
    web.on("/", status=302, headers={"Location": "/moved"})
    web.on("/moved", status=302, headers={"Location": "/home"})
    home = web.on("/home")
    run(EntrySpider, entries=[(web.url("/"), {})])
    meta = {PATTERN: "/", FORCE: time.time() + 60}
    run(EntrySpider, {"USER_AGENT": "of one run"}, entries=[(web.url("/"), meta)])
    assert web.paths() == ["/", "/moved", "/home"] * 2
    payload = pages()[home].payload
    assert meta_in(payload).items() >= meta.items(), "it was entered so, by way of these"
    assert b"redirect_" not in payload
    assert b"agent" not in payload.lower()


def test_a_time_that_is_none_forces_nothing_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    page = Page("http://h/", State.DONE, changed=1000)
    assert [is_forced({FORCE: when}, page) for when in (1001, "1001", 1000, None, False)] == [
        *(True, True, False, False, False)
    ]
    assert caplog.messages == []
    assert not any(is_forced({FORCE: when}, page) for when in (True, "now", float("inf"), True))
    wanted = "in the meta of a request is not obeyed: set a time in POSIX seconds, as of time.time()"
    assert caplog.messages == [f"{FORCE} = {value} {wanted}" for value in ("True", "'now'", "inf")]
