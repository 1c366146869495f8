"""What goes wrong is said in one line, without a traceback, and costs no page."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
import resource
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import Crawl, assert_closed
from humble import humbly
from scrapy import Request, Spider
from scrapy.http import HtmlResponse, Response

from scrapy_frontier.core.errors import FrontierUnreadable, FrontierVersion
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.leveldb import Store, plyvel

if TYPE_CHECKING:
    from collections.abc import Callable

    from server import Web

    from scrapy_frontier.core.store.records import Page

    Run = Callable[..., Crawl]


class LinkSpider(Spider):
    """Fetches *start_urls* and whatever they link."""

    name = "links"

    def parse(self, response: Response) -> Any:
        if isinstance(response, HtmlResponse):
            for link in response.css("a::attr(href)").getall():
                yield Request(response.urljoin(link))


# -- the store cannot be used ----------------------------------------------------------------------------


def test_locked_by_a_running_crawl(web: Web, start: Run) -> None:
    """The second crawl says which process has the frontier, and the first one goes on."""
    web.on("/", delay=3000)
    first = start(LinkSpider, start_urls=[web.url("/")])
    web.wait(1)
    second = start(LinkSpider, start_urls=[web.url("/other")]).wait()
    assert_closed(second, "frontier_locked", str(first.process.pid))
    assert first.process.poll() is None
    first.kill()
    assert web.paths() == ["/"]


def test_newer_format(web: Web, run: Run, tmp_path: Path) -> None:
    run(LinkSpider, start_urls=[web.url("/")])
    with plyvel.DB(str(tmp_path / "frontier/leveldb")) as database:
        database.put(keys.FORMAT, b"99")
    assert_closed(run(LinkSpider, start_urls=[web.url("/2")]), "frontier_version", "99")
    assert web.paths() == ["/"]


def test_damage_is_never_silent(tmp_path: Path) -> None:
    """One changed byte anywhere in a table: its rows are read as they were, or not at all."""
    rows = {keys.page_key(number): hashlib.sha512(b"%d" % number).digest() for number in range(400)}
    store = Store(tmp_path / "whole")
    store.write(rows)
    store.flush()
    store.close()
    (table,) = (tmp_path / "whole/leveldb").glob("*.ldb")
    for position in range(0, table.stat().st_size, 997):
        copy = tmp_path / f"{position}"
        shutil.copytree(tmp_path / "whole", copy)
        with open(copy / "leveldb" / table.name, "r+b") as file:
            file.seek(position)
            byte = file.read(1)[0]
            file.seek(position)
            file.write(bytes([byte ^ 0x40]))
        with contextlib.suppress(FrontierUnreadable, FrontierVersion):
            store = Store(copy)
            try:
                assert dict(store.scan(keys.PAGE)) == rows
                assert all(store.get(key) == value for key, value in rows.items())
            finally:
                store.close()


@pytest.mark.parametrize("directory", ["a-file/frontier", "read-only/frontier", "/proc/frontier"])
def test_directory_that_cannot_be_written(web: Web, run: Run, tmp_path: Path, directory: str) -> None:
    (tmp_path / "a-file").touch()
    (tmp_path / "read-only").mkdir(mode=0o500)
    settings = {"FRONTIER_DIR": str(tmp_path / directory)}
    crawl = run(LinkSpider, settings, start_urls=[web.url("/")], wrap=lambda command: humbly(*command))
    assert_closed(crawl, "frontier_unreadable", "FRONTIER_DIR")
    assert web.paths() == []


@pytest.mark.parametrize("directory", ["a-file", "closed"])
def test_a_job_directory_that_cannot_be_used(web: Web, run: Run, tmp_path: Path, directory: str) -> None:
    """Scrapy's own SpiderState fails on the same directory, and logs that."""
    (tmp_path / "a-file").touch()
    (tmp_path / "closed").mkdir(mode=0)
    settings: dict[str, Any] = {"JOBDIR": str(tmp_path / directory), "FRONTIER_DIR": None}
    crawl = run(LinkSpider, settings, start_urls=[web.url("/")], wrap=lambda command: humbly(*command))
    assert crawl.reason == "frontier_unreadable"
    assert f"cannot open {tmp_path / directory}" in crawl.log
    assert "another JOBDIR" in crawl.log
    assert web.paths() == []


def test_a_directory_that_is_removed_under_a_crawl(web: Web, start: Run, tmp_path: Path) -> None:
    """The crawl says so in one line, and ends at once, though only a rest of its host is waited for."""
    web.on("/", status=429, headers={"Retry-After": "100"})
    crawl = start(LinkSpider, EVERYTHING, start_urls=[web.url("/")])
    crawl.wait_for("Waiting: ")
    shutil.rmtree(tmp_path / "frontier")
    assert_closed(crawl.wait(), "frontier_unwritable", "was removed", "start the same crawl again")


EVERYTHING = {
    "ADDONS": {"scrapy_frontier.Addon": 500},
    "SCHEDULER": None,
    "FRONTIER_SITEMAPS": True,
}


class TinyDiskSpider(LinkSpider):
    """A process that may not write files larger than *most* bytes, as on a full disk."""

    most: int

    async def start(self) -> Any:
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.most, self.most))
        async for request in super().start():
            yield request


@pytest.mark.parametrize("settings", [{}, EVERYTHING], ids=["scheduler", "everything"])
def test_full_disk(web: Web, start: Run, settings: dict[str, Any]) -> None:
    """The crawl stops with one clear line, whatever meets the full disk first and whatever comes in after. It
    goes on where it stopped once there is space."""
    urls = []
    for number in range(300):
        path, host = f"/{number}/{'x' * 1000}", number % 6
        urls.append(web.on(path, host=host, body=f"page {number}", delay=0.02))
    for host in range(1, 6):
        web.on("/robots.txt", host=host, status=404, delay=0.2 * host)
    for page in range(6):
        web.link(f"/{page}", *urls[page::6], web.url(f"/{page + 1}"))
    settings = {**settings, "LOG_LEVEL": "INFO"}
    first = start(TinyDiskSpider, settings, start_urls=[web.url("/0")], most=150_000).wait()
    assert_closed(first, "frontier_unwritable", "space", "start the same crawl again")
    seen = len(web.visits)
    assert seen < 250
    second = start(LinkSpider, settings, start_urls=[web.url("/0")]).wait()
    assert second.reason == "finished"
    counts = Counter(path for path in web.paths() if path.lstrip("/")[0].isdigit())
    assert len(counts) == 307
    assert counts.total() - 307 <= 16


# -- settings -------------------------------------------------------------------------------------------


def test_crawl_with_a_bad_setting_says_so(web: Web, run: Run) -> None:
    crawl = run(LinkSpider, {"FRONTIER_END_WAIT": "soon"}, start_urls=[web.url("/")])
    assert_closed(crawl, "frontier_setting", "FRONTIER_END_WAIT = 'soon'", "a number of at least 0")
    assert web.paths() == []


@pytest.mark.parametrize("name", ["CONCURRENT_REQUESTS_PER_DOMAIN", "DOWNLOAD_SLOTS"])
def test_a_host_that_may_never_be_asked_closes_the_crawl(web: Web, run: Run, name: str) -> None:
    """With Scrapy's own scheduler it hangs, and two Ctrl-C do not end it."""
    slots = {web.name(): {"concurrency": 0}}
    crawl = run(LinkSpider, {name: 0 if name[0] == "C" else slots}, start_urls=[web.url("/")])
    assert_closed(crawl, "frontier_setting", name, "at least 1")


def no_number() -> float:
    return math.nan


def noon() -> str:
    return "noon"


@pytest.mark.parametrize("clock", [no_number, noon])
def test_a_clock_that_tells_no_time_closes_the_crawl(web: Web, run: Run, clock: Callable[[], object]) -> None:
    settings = {"FRONTIER_CLOCK": f"{__name__}.{clock.__name__}"}
    crawl = run(LinkSpider, settings, start_urls=[web.url("/")])
    assert_closed(crawl, "frontier_setting", f"FRONTIER_CLOCK says that it is {clock()!r}", "POSIX seconds")
    assert web.paths() == []


def test_a_setting_that_there_is_not_is_named_with_the_likely_one(web: Web, run: Run) -> None:
    settings = {"FRONTIER_SCORRER": "mixed", "FRONTIER_HOSTPAGES": 5}
    crawl = run(LinkSpider, settings, start_urls=[web.url("/")])
    assert crawl.reason == "finished"
    assert re.findall("WARNING: (There is no setting.*)", crawl.log) == [
        "There is no setting FRONTIER_HOSTPAGES: is FRONTIER_HOST_PAGES meant?",
        "There is no setting FRONTIER_SCORRER: is FRONTIER_SCORER meant?",
    ]


# -- odd pages ------------------------------------------------------------------------------------------


class OddSpider(Spider):
    """Fetches *urls* and nothing else; counts callbacks and errbacks."""

    name = "odd"
    file: str
    custom_settings = {"URLLENGTH_LIMIT": 0, "DNS_TIMEOUT": 5, "RETRY_ENABLED": False}

    async def start(self) -> Any:
        for url in json.loads(Path(self.file).read_text()):
            try:
                request = Request(url, self.parse, errback=self.failed)
            except ValueError:  # noqa: PERF203 - each URL for itself
                self.count("no request")
            else:
                yield request

    def count(self, what: str) -> None:
        assert self.crawler.stats
        self.crawler.stats.inc_value(f"test/{what}")

    def parse(self, response: Response) -> None:
        self.count("callback")

    def failed(self, failure: Any) -> None:
        self.count("errback")


def test_odd_urls(web: Web, run: Run, tmp_path: Path, pages: Callable[[], dict[str, Page]]) -> None:
    """Each ends in a callback or an errback and a finished page; none stops the crawl."""
    root, name = web.url(""), web.name()
    urls = [
        web.url("/" + "a" * (1 << 20)),
        web.url("/?q=" + "%E4" * 5000),
        web.url("/" + "".join(map(chr, range(32, 127)))),
        web.url("/" + "".join(map(chr, range(1, 32)))),
        web.url("/\u00e4\u4e2d\U0001f600?\u00e4=\u4e2d#\U0001f600"),
        web.url("/%zz%%%00%ff"),
        web.url("/{}[]|\\^`<>"),
        root.replace("http://", "http://user:pass@") + "/userinfo",
        root.replace("http://", "HTTP://") + "/scheme",
        f"http://{name}:1/refused",
        f"http://{name}:99999/port-too-high",
        f"http://{name}:-1/port-is-negative",
        f"http://{name}.:1/root-dot",
        "http://m\u00fcnchen.invalid/idn",
        "http://xn--mnchen-3ya.invalid/idn",
        "http://\U0001f600.invalid/",
        "http://" + "a" * 70 + ".invalid/long-label",
        "http://" + "a." * 130 + "invalid/long-name",
        "http://a..b.invalid/",
        "http:///no-host",
        "http://",
        "http://exa mple.invalid/",
        "http://a\u0000b.invalid/",
        "http://[::1]:1/ipv6",
        "http://[::1",
        "http://0x7f.1:1/",
        "data:,hello",
        "data:",
        "file:///no/such/file",
        "mailto:someone@example.com",
        "ftp://127.0.0.1:1/file",
        "s3://bucket/key",
        ":",
        "",
        "no-scheme",
    ]
    (tmp_path / "urls").write_text(json.dumps(urls))
    crawl = run(OddSpider, {"LOG_LEVEL": "INFO"}, file=str(tmp_path / "urls"))
    stats = crawl.stats
    assert crawl.reason == "finished"
    assert "frontier/errors" not in stats
    ended = [stats.get(f"test/{what}", 0) for what in ("callback", "errback", "no request")]
    filtered = stats.get("dupefilter/filtered", 0)
    assert sum(ended) + filtered == len(urls)
    assert filtered <= 4  # munchen twice, and some that are the same once they are clean
    found = pages()
    assert len(found) == ended[0] + ended[1]
    assert not [page for page in found.values() if page.state is State.QUEUED]


def test_unreadable_record_is_set_aside(web: Web, start: Run) -> None:
    """A spider that lost a callback: its pages are named and set aside, the others fetched."""
    web.link("/", "/1", "/2")
    crawl = start(TwoCallbackSpider, {"DOWNLOAD_DELAY": 600}, url=web.url("/"))
    crawl.wait_for("Crawled (200)").go_on().kill()  # the line is written before the callback runs
    second = start(OneCallbackSpider, url=web.url("/")).wait()
    assert second.reason == "finished"
    assert "Traceback" not in second.log
    assert second.stats["frontier/unreadable"] == second.stats["frontier/reasons/unreadable"] == 1
    assert "parse_odd" in second.log
    assert web.paths().count("/1") == 0
    assert web.paths().count("/2") == 1


class OneCallbackSpider(Spider):
    name = "callbacks"
    url: str

    async def start(self) -> Any:
        yield Request(self.url, dont_filter=True)

    def parse(self, response: Response) -> Any:
        for number in (1, 2):
            name = "parse_odd" if number % 2 else "parse_even"
            if hasattr(self, name):  # the kill may come before the end of this page is stored
                yield response.follow(f"/{number}", getattr(self, name))

    def parse_even(self, response: Response) -> None:
        pass


class TwoCallbackSpider(OneCallbackSpider):
    def parse_odd(self, response: Response) -> None:
        pass
