"""Pages that come back: asked conditionally, judged before their callback, told by signals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider

from scrapy_frontier import signals
from scrapy_frontier.core.store.records import Validators

if TYPE_CHECKING:
    from collections.abc import Callable

    from changing import JumpingClock
    from conftest import Crawl
    from server import Web

    from scrapy_frontier.core.store.records import Page

    Run = Callable[..., Crawl]
    Pages = Callable[[], dict[str, Page]]

ADDON = {"SCHEDULER": None, "ADDONS": {"scrapy_frontier.Addon": 500}}


class One(Spider):
    """Fetches one page and follows nothing."""

    name = "one"

    def __init__(self, url: str) -> None:
        self.start_urls = [url]

    def parse(self, response: Any) -> Any:
        yield {"url": response.url}


@pytest.mark.parametrize("settings", [{}, ADDON, {**ADDON, "FRONTIER_REVISIT": "never"}])
def test_validators_and_times_are_kept_of_every_page_and_no_digest(
    web: Web, run: Run, pages: Pages, settings: dict[str, Any]
) -> None:
    headers = {
        "ETag": 'W/"A-gzip"',
        "Last-Modified": "Sat, 29-Oct-94 19:43:31 GMT",
        "Content-Type": "Text/HTML; x=y",
    }
    url = web.on("/a", body="<html>hello", headers=headers)
    assert run(One, settings, url=url).reason == "finished"
    visits = pages()[url].visits
    assert visits is not None
    assert visits.validators == Validators(b'W/"A-gzip"', b"Sat, 29-Oct-94 19:43:31 GMT")
    assert (visits.content_type, visits.length, visits.visits) == ("text/html", 11, 1)
    assert visits.digest == b""


def test_a_seed_that_comes_back_and_redirects_leaves_its_target_to_come_back_itself(
    web: Web, clock: JumpingClock, run: Run
) -> None:
    """Scrapy's seeds say `dont_filter`, which a redirect keeps: the target would be visited twice in each
    run, and its callback called though nothing has changed."""
    url = web.on("/old", status=302, headers={"Location": "/new"})
    settings = {**ADDON, "FRONTIER_REVISIT": "interval", "FRONTIER_CLOCK": "changing.clock"}
    run(One, settings, url=url)
    for _ in range(2):
        before = len(web.visits)
        clock.jump(clock() + 8 * 86400)
        crawl = run(One, settings, url=url)
        assert sorted(web.paths()[before:]) == ["/new", "/old"]
        assert "item_scraped_count" not in crawl.stats


class Told(One):
    """Logs which pages are told to have changed."""

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.changed, signals.page_changed)
        return spider

    def changed(self, url: str) -> None:
        self.logger.info("told: %s", url)


@pytest.mark.parametrize("is_forbidden", [True, False])
def test_a_page_that_was_forbidden_from_the_first_is_not_told_as_changed(
    web: Web, clock: JumpingClock, run: Run, is_forbidden: bool
) -> None:
    """Its callback sees it, as that of any new page: nobody was told of it before."""
    from server import Answer

    url = web.on("/a", *([] if is_forbidden else [Answer(body="old")]), Answer(body="new"))
    rules = Answer(body="User-agent: *\nDisallow: /a", headers={"Content-Type": "text/plain"})
    web.on("/robots.txt", *([rules] if is_forbidden else []), Answer(404))
    settings = {**ADDON, "FRONTIER_REVISIT": "interval", "FRONTIER_CLOCK": "changing.clock"}
    settings["ROBOTSTXT_OBEY"] = True
    first = run(Told, settings, url=url)
    assert ("item_scraped_count" in first.stats) is not is_forbidden
    clock.jump(clock() + 60 * 86400)
    crawl = run(Told, settings, url=url)
    assert crawl.stats["item_scraped_count"] == 1
    assert (f"told: {url}" in crawl.log) is not is_forbidden


class Own(One):
    """Asks conditionally itself."""

    async def start(self) -> Any:
        headers = {"If-None-Match": '"mine"'}
        yield Request(self.start_urls[0], headers=headers, meta={"handle_httpstatus_list": [304]})


def test_a_304_that_the_user_asked_for_is_the_spiders(web: Web, items: Callable[..., Any]) -> None:
    url = web.on("/a", status=304)
    (found,) = items(Own, [{**ADDON, "FRONTIER_REVISIT": "interval"}], url=url)
    assert found == [{"url": url}]
    assert [visit.lines["if-none-match"] for visit in web.visits if visit.path == "/a"] == ['"mine"']


def test_a_304_that_nobody_asked_for_is_an_error(web: Web, run: Run, pages: Pages) -> None:
    url = web.on("/a", status=304)
    assert run(One, {**ADDON, "FRONTIER_REVISIT": "interval"}, url=url).reason == "finished"
    assert (pages()[url].status, pages()[url].state.name) == (304, "FAILED")
    assert ["if-none-match" in visit.lines for visit in web.visits] == [False]


def test_a_body_that_broke_off_leaves_neither_validators_nor_a_digest(
    web: Web, run: Run, pages: Pages
) -> None:
    head = b'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: "1"\r\nContent-Length: %d\r\n\r\n'
    settings = {**ADDON, "FRONTIER_REVISIT": "interval", "DOWNLOAD_FAIL_ON_DATALOSS": False}
    kept = []
    for length in (5, 50):
        url = web.on(f"/{length}", raw=head % length + b"hello")
        assert run(One, settings, url=url).reason == "finished"
        visits = pages()[url].visits
        assert visits is not None
        kept.append((visits.validators.etag, bool(visits.digest)))
    assert kept == [(b'"1"', True), (b"", False)]


def test_digests_are_kept_where_pages_come_back(web: Web, run: Run, pages: Pages) -> None:
    kept = {}
    for digest in ("body", "text", "links", "test_visits_crawl.title"):
        url = web.on(f"/{digest}", body="<title>T</title><a href=/x>")
        settings = {**ADDON, "FRONTIER_REVISIT": "interval", "FRONTIER_DIGEST": digest}
        assert run(One, settings, url=url).reason == "finished"
        visits = pages()[url].visits
        assert visits is not None
        kept[digest] = visits.digest
    assert len(set(kept.values())) == 4
    assert {len(digest) for digest in kept.values()} == {5}


def fails(response: Any) -> Any:
    raise LookupError("no such thing")


class Head(One):
    async def start(self) -> Any:
        yield Request(self.start_urls[0], method="HEAD")


@pytest.mark.parametrize(("spider", "digest"), [(One, "test_visits_crawl.fails"), (Head, "body")])
def test_a_page_without_a_digest_is_a_page(
    web: Web, items: Callable[..., Any], pages: Pages, spider: type[Spider], digest: str
) -> None:
    url = web.on("/a", body="" if spider is Head else "hello")
    (found,) = items(spider, [{**ADDON, "FRONTIER_REVISIT": "interval", "FRONTIER_DIGEST": digest}], url=url)
    assert found == [{"url": url}]
    visits = pages()[url].visits
    assert visits is not None
    assert visits.digest == b""


def title(response: Any) -> Any:
    return response.css("title::text").get()


def test_a_cached_response_is_no_visit_and_the_cache_is_warned_of(
    web: Web, run: Run, pages: Pages, tmp_path: Any
) -> None:
    url = web.on("/a", body="hello", headers={"ETag": '"1"'})
    settings = {
        **ADDON,
        "FRONTIER_REVISIT": "interval",
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path / "cache"),
    }
    first = run(One, {**settings, "FRONTIER_DIR": str(tmp_path / "other")}, url=url)
    assert "HTTPCACHE_ENABLED: pages that come back are asked for unconditionally" in first.log
    assert run(One, settings, url=url).stats["httpcache/hit"]
    assert pages()[url].state.name == "DONE"
    visits = pages()[url].visits
    assert visits is not None
    assert visits.due, "it comes back"
    assert (visits.digest, visits.validators, visits.length) == (b"", Validators(), 0)
