"""Sitemaps, from first contact to the last page they list, over real HTTP."""

from __future__ import annotations

import gzip
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conftest import read_pages
from scrapy import Request, Spider, signals
from server import Answer

from scrapy_frontier.core.store.keys import State
from scrapy_frontier.crawl import scrapy_internals

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Crawl
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from server import Web
    from typing_extensions import Self

    from scrapy_frontier.core.store.records import Page

ON = {"ADDONS": {"scrapy_frontier.Addon": 500}, "SCHEDULER": None, "FRONTIER_SITEMAPS": True}
MIDDLEWARE = "scrapy_frontier.SitemapsMiddleware"
SITEMAPS = "http://www.sitemaps.org/schemas/sitemap/0.9"


def urlset(*urls: str, **fields: str) -> str:
    extra = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
    entries = "".join(f"<url><loc>{url}</loc>{extra}</url>" for url in urls)
    return f'<?xml version="1.0"?><urlset xmlns="{SITEMAPS}">{entries}</urlset>'


def index(*urls: str) -> str:
    entries = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls)
    return f'<?xml version="1.0"?><sitemapindex xmlns="{SITEMAPS}">{entries}</sitemapindex>'


WITH_ROBOTS = {**ON, "ROBOTSTXT_OBEY": True}


class SiteSpider(Spider):
    """Notes each page it is shown; follows no link."""

    name = "site"

    def parse(self, response: Response) -> None:
        assert self.crawler.stats
        self.crawler.stats.inc_value(f"test/parsed{response.url.partition('//')[2].partition('/')[2]}")
        self.crawler.stats.set_value(f"test/meta/{response.url}", response.meta.get("frontier_lastmod"))

    def closed(self, reason: str) -> None:
        """Notes its peak of memory; `ru_maxrss`, which Scrapy reads, begins with that of its parent."""
        assert self.crawler.stats
        status = Path("/proc/self/status")
        lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
        peak = next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
        self.crawler.stats.set_value("test/peak", peak * 1024)


def parsed(crawl: Crawl) -> set[str]:
    return {f"/{name[11:]}" for name in crawl.stats if name.startswith("test/parsed")}


def sitemap_stats(crawl: Crawl) -> dict[str, int]:
    prefix = "frontier/sitemaps/"
    return {name.removeprefix(prefix): n for name, n in crawl.stats.items() if name.startswith(prefix) if n}


def crawl_site(run: Callable[..., Crawl], web: Web, settings: dict[str, Any] = ON, **more: Any) -> Crawl:
    """A crawl with the front page of host 0 as its only seed."""
    crawl = run(SiteSpider, {**settings, **more}, start_urls=[web.url("/")])
    assert crawl.reason == "finished"
    assert "Traceback" not in crawl.log
    assert " ERROR: " not in crawl.log
    return crawl


# -- first contact -------------------------------------------------------------------------------------


def test_sitemaps_of_robots_txt_are_asked_for_and_their_pages_fetched(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    listed = web.on("/deep/list.xml", body=urlset(web.url("/a"), web.url("/b?x=1&amp;y=2")))
    web.on("/robots.txt", body=f"User-agent: *\nDisallow:\nSitemap: {listed}\n")
    crawl = crawl_site(run, web, WITH_ROBOTS)
    assert sorted(web.paths()) == ["/", "/a", "/b?x=1&y=2", "/deep/list.xml", "/robots.txt"]
    assert parsed(crawl) == {"/", "/a", "/b?x=1&y=2"}  # not the sitemap
    assert sitemap_stats(crawl) == {"files": 1, "entries": 2, "new": 2}
    found = pages()
    assert (found[listed].state, found[listed].reason) == (State.DONE, "sitemap of 2 entries")
    number = list(found).index(listed)
    assert found[web.url("/a")].parent == number
    assert crawl.stats["scheduler/enqueued"] == crawl.stats["scheduler/dequeued"] == 4


def test_the_well_known_path_is_tried_where_robots_txt_lists_none(
    web: Web, run: Callable[..., Crawl]
) -> None:
    web.on("/robots.txt", status=404)
    web.on("/sitemap.xml", body=urlset(web.url("/a")))
    crawl = crawl_site(run, web, WITH_ROBOTS)
    assert sorted(web.paths()) == ["/", "/a", "/robots.txt", "/sitemap.xml"]
    assert parsed(crawl) == {"/", "/a"}


class TickingSpider(SiteSpider):
    """Counts the turns of the event loop in which some of 1,000 sitemaps were queued, and not all."""

    turns = 0

    async def start(self) -> Any:
        self.tick()
        yield Request(self.start_urls[0])

    def tick(self) -> None:
        slot = scrapy_internals.slot_of(self.crawler)
        if slot is not None:
            self.turns += 1 < len(slot.scheduler) < 1_000
            scrapy_internals.call_later(0, self.tick)

    def closed(self, reason: str) -> None:
        assert self.crawler.stats
        self.crawler.stats.set_value("test/turns", self.turns)


def test_the_first_page_of_a_site_with_very_many_sitemaps_gives_way(
    web: Web, run: Callable[..., Crawl]
) -> None:
    web.on("/robots.txt", body="".join(f"Sitemap: {web.url(f'/{number}.xml')}\n" for number in range(1_001)))
    crawl = run(TickingSpider, {**WITH_ROBOTS, "CLOSESPIDER_PAGECOUNT": 2}, start_urls=[web.url("/")])
    assert crawl.stats["scheduler/enqueued"] == 1_001
    assert crawl.stats["test/turns"] >= 30


def test_a_site_without_sitemaps_is_asked_once_and_quietly(web: Web, run: Callable[..., Crawl]) -> None:
    """An empty page with status 200, as many sites answer to everything."""
    crawl = crawl_site(run, web, CONCURRENT_REQUESTS=1)
    assert web.paths() == ["/", "/sitemap.xml"]
    assert parsed(crawl) == {"/"}
    assert sitemap_stats(crawl) == {}


def test_contact_is_made_once_over_all_runs(web: Web, run: Callable[..., Crawl]) -> None:
    web.on("/sitemap.xml", body=urlset(web.url("/a")))
    crawl_site(run, web)
    run(SiteSpider, ON, start_urls=[web.url("/new"), web.url("/other", 1)])
    counts = Counter(web.paths(0))
    assert counts == {"/": 1, "/sitemap.xml": 1, "/a": 1, "/new": 1}
    assert {"/other", "/sitemap.xml"} <= set(web.paths(1))


class MarkingSpider(SiteSpider):
    name = "marking"
    mark: bool | str = True

    async def start(self) -> Any:
        for url in self.start_urls:
            yield Request(url, meta={"frontier_sitemap": self.mark}, errback=self.failed)

    def failed(self, failure: Any) -> None:
        assert self.crawler.stats
        self.crawler.stats.inc_value("test/failed")


def test_somebody_may_mark_a_request_as_a_sitemap(web: Web, run: Callable[..., Crawl]) -> None:
    """True, or the site whose pages it lists."""
    body = f"{web.url('/a')}\n{web.url('/b')}\n{web.url('/c', 1)}\n"
    first, second = (web.on(path, body=body) for path in ("/mine.txt", "/yours/mine.txt"))
    assert parsed(run(MarkingSpider, ON, start_urls=[first])) == {"/a", "/b"}
    assert parsed(run(MarkingSpider, ON, start_urls=[second], mark=web.url("/", 1))) == {"/c"}


def tomorrow() -> float:
    return time.time() + 100_000


def test_a_sitemap_that_robots_txt_names_later_is_added(web: Web, run: Callable[..., Crawl]) -> None:
    before, after = (web.on(f"/{name}.xml", body=urlset(web.url(f"/{name}"))) for name in ("old", "new"))
    web.on(
        "/robots.txt", Answer(body=f"Sitemap: {before}"), Answer(body=f"Sitemap: {before}\nSitemap: {after}")
    )
    crawl_site(run, web, WITH_ROBOTS)
    clock = {"FRONTIER_CLOCK": f"{__name__}.tomorrow"}  # a robots.txt is good for a day
    run(SiteSpider, {**WITH_ROBOTS, **clock}, start_urls=[web.url("/tomorrow")])
    counts = Counter(web.paths())
    assert counts["/robots.txt"] == 2
    assert [counts[path] for path in ("/old.xml", "/old", "/new.xml", "/new")] == [1, 1, 1, 1]


class ProxySpider(SiteSpider):
    """Has its seeds asked for by a proxy."""

    proxy = ""

    async def start(self) -> Any:
        for url in self.start_urls:
            yield Request(url, meta={"proxy": self.proxy})


def test_sitemaps_and_what_they_list_go_by_the_proxy_of_the_page_that_led_to_them(
    web: Web, run: Callable[..., Crawl]
) -> None:
    """The name resolves nowhere: the proxy alone, which wants a password, leads to the site."""
    site = "http://site.invalid"
    web.on(f"{site}/sitemap.xml", body=index(f"{site}/1.xml"))
    web.on(f"{site}/1.xml", body=urlset(f"{site}/a"))
    proxy = web.url("").replace("//", "//user:word@")
    crawl = run(ProxySpider, {**ON, "FRONTIER_COOLDOWN": 0}, start_urls=[f"{site}/"], proxy=proxy)
    assert parsed(crawl) == {"/", "/a"}
    paths = ["/", "/sitemap.xml", "/1.xml", "/a"]
    assert sorted(web.paths()) == sorted(f"{site}{path}" for path in paths)  # the first two at once
    assert {visit.lines["proxy-authorization"] for visit in web.visits} == {"Basic dXNlcjp3b3Jk"}


# -- what is in them -----------------------------------------------------------------------------------


def test_an_index_of_every_kind_of_file(web: Web, run: Callable[..., Crawl]) -> None:
    names = "pages.xml.gz", "text.txt", "rss.xml", "atom.xml", "encoded.xml"
    web.on("/sitemap.xml", body=index(*(web.url(f"/{name}") for name in names)))
    octets = {"Content-Type": "application/octet-stream"}
    web.on("/pages.xml.gz", body=gzip.compress(urlset(web.url("/a")).encode()), headers=octets)
    web.on("/text.txt", body=f"\ufeff{web.url('/b')}\r\n{web.url('/c')}\r\n")
    web.on(
        "/rss.xml",
        body=f'<rss version="2.0"><channel><item><link>{web.url("/d")}</link></item></channel></rss>',
    )
    feed = f'<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="{web.url("/e")}"/></entry></feed>'
    web.on("/atom.xml", body=feed)
    body = gzip.compress(urlset(web.url("/f")).encode())
    web.on("/encoded.xml", body=body, headers={"Content-Encoding": "gzip"})
    crawl = crawl_site(run, web)
    assert parsed(crawl) == {"/", "/a", "/b", "/c", "/d", "/e", "/f"}
    assert sitemap_stats(crawl) == {"files": 6, "entries": 11, "new": 11}
    assert max(Counter(web.paths()).values()) == 1


def test_a_page_carries_what_the_sitemap_said_of_it(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    web.on("/sitemap.xml", body=urlset(web.url("/a"), lastmod="2001-09-09T01:46:40Z"))
    crawl = crawl_site(run, web)
    assert crawl.stats[f"test/meta/{web.url('/a')}"] == 1_000_000_000
    assert pages()[web.url("/a")].payload == b""


class FollowingSpider(SiteSpider):
    name = "following"

    def parse(self, response: Response) -> Any:
        super().parse(response)
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)


def test_an_entry_and_a_link_to_it_are_one_page(web: Web, run: Callable[..., Crawl]) -> None:
    """Also where the URL has to be worked out in full to say who it is."""
    paths = "/b?z=1&a=2", "/%C3%A4 b", "/c;d?q=%20"
    web.on("/sitemap.xml", body=urlset(*(web.url(path).replace("&", "&amp;") for path in paths)))
    web.link("/", *(path.replace("%C3%A4", "ä") for path in paths), "/c", delay=0.5)
    run(FollowingSpider, ON, start_urls=[web.url("/start"), web.url("/")])
    assert max(Counter(web.paths()).values()) == 1
    assert len(web.paths()) == 7


def test_with_another_scheduler_it_does_nothing(web: Web, run: Callable[..., Crawl]) -> None:
    settings = {"SCHEDULER": None, "FRONTIER_SITEMAPS": True, "DOWNLOADER_MIDDLEWARES": {MIDDLEWARE: 545}}
    crawl_site(run, web, settings)
    assert web.paths() == ["/"]


# -- what they may not do ------------------------------------------------------------------------------


def test_loops_and_depths_end(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    """An index that names itself, one that names its parent, and a chain without end."""
    web.on("/sitemap.xml", body=index(web.url("/sitemap.xml"), web.url("/1.xml"), web.url("/good.xml")))
    web.on("/1.xml", body=index(web.url("/sitemap.xml"), web.url("/2.xml")))
    deepest = web.on("/2.xml", body=index(web.url("/3.xml")))
    web.on("/good.xml", body=urlset(web.url("/a")))
    crawl_site(run, web)
    assert Counter(web.paths()) == dict.fromkeys(
        ["/", "/sitemap.xml", "/1.xml", "/2.xml", "/good.xml", "/a"], 1
    )
    assert pages()[deepest].reason == "sitemap broken after 1 entry: nested more than 3 levels deep"


def test_a_bomb_and_an_entity(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    head, tail = urlset(web.url("/a")).encode().split(b"</urlset>")
    bomb = gzip.compress(head + b" " * 200_000_000 + tail, 1)
    entity = f"""<?xml version="1.0"?><!DOCTYPE urlset [<!ENTITY x SYSTEM "file:///etc/hostname">
        <!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>
        <urlset xmlns="{SITEMAPS}"><url><loc>{web.url("/x")}&x;&b;</loc></url></urlset>"""
    web.on("/sitemap.xml", body=index(web.url("/bomb.xml.gz"), web.url("/entity.xml")))
    web.on("/bomb.xml.gz", body=bomb)
    web.on("/entity.xml", body=entity)
    crawl = crawl_site(run, web)
    assert parsed(crawl) == {"/", "/a", "/x"}
    assert pages()[web.url("/bomb.xml.gz")].reason.startswith("sitemap broken after 1 entry: ")
    assert crawl.stats["test/peak"] < 200_000_000


def test_pages_of_another_site_count_only_with_its_word(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    """Host 1 names the file in its robots.txt and was asked before, host 2 says nothing."""

    def was_asked() -> bool:
        return "/" in web.paths(1)

    url = web.url("/all.xml")
    web.on(
        "/all.xml", Answer(body=urlset(web.url("/a"), web.url("/b", 1), web.url("/c", 2)), until=was_asked)
    )
    web.on("/robots.txt", body=f"Sitemap: {url}")
    web.on("/robots.txt", body=f"Sitemap: {url}", host=1)
    crawl = run(SiteSpider, WITH_ROBOTS, start_urls=[web.url("/"), web.url("/", 1)])
    assert parsed(crawl) == {"/", "/a", "/b"}
    assert web.paths(2) == []
    assert sitemap_stats(crawl) == {"files": 1, "entries": 3, "new": 2, "foreign": 1}
    assert web.paths(0).count("/all.xml") == 1
    assert web.url("/c", 2) not in pages()


def test_the_spiders_allowed_domains_hold_before_anything_is_queued(
    web: Web, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    web.on("/all.xml", body=urlset(web.url("/a"), web.url("/s/b", 1)))
    web.on("/robots.txt", body=f"Sitemap: {web.url('/all.xml')}\nSitemap: {web.url('/s/x.xml', 1)}\n")
    web.on("/robots.txt", body=f"Sitemap: {web.url('/all.xml')}\n", host=1)
    crawl = run(SiteSpider, WITH_ROBOTS, start_urls=[web.url("/")], allowed_domains=[web.name(0)])
    assert parsed(crawl) == {"/", "/a"}
    assert web.paths(1) == []
    assert set(pages()) == {web.url("/"), web.url("/a"), web.url("/all.xml")}
    assert crawl.stats["offsite/filtered"]


# -- many entries --------------------------------------------------------------------------------------


ENTRIES = 600


class DeadlySpider(SiteSpider):
    """Its process ends in the middle of a sitemap, if the event loop has a turn there."""

    name = "deadly"

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.opened, signals.spider_opened)
        return spider

    def opened(self) -> None:
        self.ticker = scrapy_internals.create_looping_call(self.tick)
        self.ticker.start(0.001)

    def tick(self) -> None:
        assert self.crawler.stats
        if 100 <= self.crawler.stats.get_value("frontier/sitemaps/new", 0) < ENTRIES:
            os.kill(os.getpid(), signal.SIGKILL)


def test_sigkill_in_the_middle_of_a_sitemap_loses_no_page(
    web: Web, start: Callable[..., Crawl], tmp_path: Path
) -> None:
    at_once = 8
    urls = [web.url(f"/{number}") for number in range(ENTRIES)]
    sitemap = web.on("/sitemap.xml", body=urlset(*urls, note="x" * 2_000))
    settings = {**ON, "CONCURRENT_REQUESTS": at_once}
    crawl = start(DeadlySpider, settings, start_urls=[web.url("/")]).wait()
    assert crawl.process.returncode == -signal.SIGKILL
    halfway = read_pages(tmp_path / "frontier")
    assert halfway[sitemap].state is State.QUEUED
    assert len(halfway) < ENTRIES  # how many of them were written is a matter of milliseconds
    seen = len(web.visits)
    last = start(SiteSpider, settings, start_urls=[web.url("/")]).wait()

    assert last.reason == "finished"
    found = read_pages(tmp_path / "frontier")
    assert {url for url, page in found.items() if page.state is State.DONE} == {web.url("/"), sitemap, *urls}
    counts = Counter(web.paths())
    assert counts["/sitemap.xml"] == 2
    repeated = {path for path, number in counts.items() if number > 1}
    assert repeated <= {visit.path for visit in web.visits[:seen][-at_once:]} | {"/sitemap.xml", "/"}
