"""Sitemaps that come back, and what they tell of pages: another `lastmod` makes them due."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest
from changing import BEGIN, CLOCK, DAY, ChangingWeb, JumpingClock, never
from scrapy import Request, Spider

from scrapy_frontier.core.store import records
from scrapy_frontier.core.store.keys import SITEMAPS
from scrapy_frontier.core.store.leveldb import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Crawl
    from server import Answer, Visit

    Run = Callable[..., Crawl]

MONTHLY = {
    "SCHEDULER": None,
    "ADDONS": {"scrapy_frontier.Addon": 500},
    "FRONTIER_CLOCK": "changing.clock",
    "FRONTIER_REVISIT": "interval",
    "FRONTIER_SHELF_LIFE": 30 * DAY,
    "FRONTIER_SITEMAPS": True,
}
HEAD = '<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'


class NewsWeb(ChangingWeb):
    """Lists *pages* in a sitemap: with ``stamps`` by day and page, which make the version of a page where the
    site ``is_honest``."""

    def __init__(self, clock: JumpingClock, pages: int = 12) -> None:
        self.pages = pages
        self.listed = range(pages)
        self.stamp: Callable[[float, int], int] = lambda day, number: 0
        self.is_honest = True
        super().__init__(clock)
        for number in range(pages):
            self.document(f"/page{number}", version=self._version(number))

    def _version(self, number: int) -> Callable[[float], int]:
        return lambda day: self.stamp(day, number) if self.is_honest else never(day)

    def _reply(self, visit: Visit) -> Answer:
        if visit.path != "/sitemap.xml":
            return super()._reply(visit)
        day, urls = self.clock.day, {number: self.url(f"/page{number}") for number in self.listed}
        dates = {number: _date(self.stamp(day, number)) for number in urls}
        entries = (f"<loc>{url}</loc><lastmod>{dates[number]}</lastmod>" for number, url in urls.items())
        body = f"{HEAD}{''.join(f'<url>{entry}</url>' for entry in entries)}</urlset>"
        tag = f'"{crc32(body.encode())}"'
        if visit.lines.get("if-none-match") == tag:
            self.on("/sitemap.xml", status=304, headers={"ETag": tag})
        else:
            self.on("/sitemap.xml", body=body, headers={"Content-Type": "application/xml", "ETag": tag})
        return super()._reply(visit)


def _date(day: int) -> str:
    return datetime.fromtimestamp(BEGIN + day * DAY, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Visitor(Spider):
    """Visits one page; all others come from the sitemap."""

    name = "visitor"
    url = ""
    meta: dict[str, Any] = {}

    async def start(self) -> Any:
        yield Request(self.url, meta=self.meta)

    def parse(self, response: Any) -> Any:
        self.crawler.stats.inc_value("test/parsed")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NewsWeb]:
    file = tmp_path / "clock"
    monkeypatch.setenv(CLOCK, str(file))
    web = NewsWeb(JumpingClock(file))
    yield web
    web.close()


class Asking:
    """Runs the crawl again."""

    def __init__(self, web: NewsWeb, run: Run) -> None:
        self.web, self.run = web, run
        self.last: Crawl | None = None

    def __call__(self, days: float = 0.0) -> list[str]:
        """What a run asks for after so many days, beside robots.txt; pages by their numbers."""
        self.web.clock.jump(self.web.clock() + days * DAY)
        before = len(self.web.seen)
        self.last = self.run(Visitor, MONTHLY, url=self.web.url("/page0"))
        assert self.last.reason == "finished", self.last.log
        paths = [seen.path.removeprefix("/page") for seen in self.web.seen[before:]]
        return sorted(path for path in paths if path != "/robots.txt")


@pytest.fixture
def asked(site: NewsWeb, run: Run) -> Asking:
    return Asking(site, run)


EVERYTHING = sorted([*map(str, range(12)), "/sitemap.xml"])


def test_a_sitemap_comes_back_conditionally_and_leaving_it_is_no_sign(site: NewsWeb, asked: Asking) -> None:
    assert asked() == EVERYTHING
    assert asked(1) == ["/sitemap.xml"], "daily"
    assert site.statuses("/sitemap.xml") == [200, 304]
    assert asked(0.3) == []
    site.listed = range(6)
    assert asked(1) == ["/sitemap.xml"]
    assert site.statuses("/sitemap.xml")[-1] == 200


def test_a_new_page_in_a_sitemap_is_fetched(site: NewsWeb, asked: Asking) -> None:
    site.listed = range(11)
    assert asked() == sorted([*map(str, range(11)), "/sitemap.xml"])
    site.listed = range(12)
    assert asked(1) == ["/sitemap.xml", "11"]


def test_another_lastmod_makes_a_page_due(site: NewsWeb, asked: Asking) -> None:
    asked()
    site.stamp = lambda day, number: int(day) if number in (3, 7) else 0
    assert asked(1) == ["/sitemap.xml", "3", "7"]
    assert asked.last is not None
    assert asked.last.stats["frontier/sitemaps/due"] == 2
    assert asked.last.stats["frontier/visits/changed"] == 3, "both, and the sitemap"
    site.stamp = lambda day, number: -int(day) if number == 3 else int(day) if number == 7 else 0
    assert asked(1) == ["/sitemap.xml", "3", "7"], "an older one is another one too"
    assert site.statuses("/page5") == [200]


def test_a_site_that_stamps_now_on_everything_is_believed_no_longer(
    site: NewsWeb, asked: Asking, tmp_path: Path
) -> None:
    asked()
    site.is_honest = False
    site.stamp = lambda day, number: int(day)
    assert asked(1) == EVERYTHING, "nobody knows it yet"
    for _ in range(3):
        assert asked(1) == ["/sitemap.xml"]
    store = Store(tmp_path / "frontier")
    (sitemaps,) = (records.SITEMAPS.decode(value) for _, value in store.scan(SITEMAPS))
    store.close()
    hinted, right, *_ = sitemaps.hints
    assert right < hinted / 2
    site.stamp, site.is_honest = (lambda day, number: 5), True
    assert len(asked(30)) == 13, "their own time brings them back"


def test_a_sitemap_without_validators_is_read_only_where_it_changed(site: NewsWeb, asked: Asking) -> None:
    site.on("/sitemap.xml", body=HEAD + f"<url><loc>{site.url('/page1')}</loc></url></urlset>")
    site._reply = ChangingWeb._reply.__get__(site)  # type: ignore[method-assign]
    assert asked() == ["/sitemap.xml", "0", "1"]
    assert asked(1) == ["/sitemap.xml"]
    assert asked.last is not None
    assert asked.last.stats["frontier/visits/unchanged"] == 1
    assert "frontier/sitemaps/files" not in asked.last.stats


def test_a_guess_that_was_none_is_no_hub(site: NewsWeb, asked: Asking) -> None:
    site.on("/sitemap.xml", status=404)
    site._reply = ChangingWeb._reply.__get__(site)  # type: ignore[method-assign]
    assert asked() == ["/sitemap.xml", "0"]
    assert asked(2) == []


def test_a_pattern_holds_for_what_a_sitemap_lists(site: NewsWeb, run: Run) -> None:
    meta = {"frontier_sitemap": True, "frontier_pattern": "/page[1-3]$"}
    run(Visitor, MONTHLY, url=site.url("/sitemap.xml"), meta=meta)
    asked = {seen.path for seen in site.seen if seen.path.startswith("/page")}
    assert asked == {"/page1", "/page2", "/page3"}
