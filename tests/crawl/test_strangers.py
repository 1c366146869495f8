"""What somebody else's export can make a crawl do: fetch, and call the spider's own callbacks."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from conftest import environment
from nursery import nursery
from scrapy import FormRequest, Request, Spider

from scrapy_frontier.core.admin.export import EXPORT_VERSION
from scrapy_frontier.core.store import keys, records
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.records import Page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Crawl
    from scrapy.http import Response
    from server import Web


GOOD = {"callback": "parse_linked"}
ITEM = {"!": "item", "v": {}}


@dataclass
class Trap:
    """An item that does something when it is called."""

    text: str = ""

    def __call__(self, *given: Any) -> None:
        raise SystemError("the trap was called")


class Labelled(Request):
    pass


class Helper:
    def steal(self, response: Response) -> None:
        raise SystemError("the helper was called")


class TrustingSpider(Spider):
    """Keeps much that a payload must not reach."""

    name = "trusting"

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.helper = Helper()
        self.parse_delegated = Deputy(self).parse

    @property
    def tempting(self) -> Any:
        raise SystemError("the property was looked at")

    def parse(self, response: Response) -> Any:
        self.logger.info("parse was called for %s", response.url)

    def parse_linked(self, response: Response, **kept: Any) -> Any:
        self.logger.info("parse_linked was called for %s with %r", response.url, sorted(kept.items()))

    @classmethod
    def parse_of_class(cls, response: Response) -> None:
        pass


class Deputy:
    def __init__(self, spider: Spider) -> None:
        self.spider = spider

    def parse(self, response: Response) -> None:
        self.spider.logger.info("the deputy was called for %s", response.url)


def imported(directory: Path, urls: dict[str, dict[str, Any]]) -> str:
    """Make a frontier of an export that somebody wrote by hand, pages by URL with their requests; what was
    said."""
    head = {"frontier": EXPORT_VERSION, "format": keys.FORMAT_VERSION, "scheme": "", "exported": 1.0}
    counts = {"host": "", "is_clean": True, "next_page": len(urls), "next_visit": 0, "attempts": 0}
    lines: list[dict[str, Any]] = [{**head, **counts}]
    for number, (url, request) in enumerate(urls.items()):
        row = records.encode_page(Page(url, discovered=1, payload=json.dumps(request).encode()))
        key, value = keys.page_key(number).hex(), base64.b64encode(row).decode()
        lines.append({"page": number, "key": key, "value": value})
    lines.append({"end": len(lines)})
    with gzip.open(directory / "hostile.gz", "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    command = ["-m", "scrapy", "frontier", "import", "hostile.gz", "--dir", "frontier"]
    done = nursery.run(command, environment(), directory)
    assert done.returncode == 0, done.stderr
    return done.stdout


NOT_ALLOWED = {
    "class-not-imported": {"class": "burglar.Loot"},
    "class-no-request": {"class": "subprocess.Popen", "kept": {"args": "touch burgled"}},
    "class-no-class": {"class": "os.system"},
    "callback-engine": {"callback": "crawler.engine.stop"},
    "callback-crawler": {"callback": "crawler.stop"},
    "callback-of-another": {"callback": "helper.steal"},
    "callback-logger": {"callback": "logger.critical"},
    "callback-dunder": {"callback": "__init__"},
    "callback-of-scrapy": {"callback": "_set_crawler"},
    "callback-class-method": {"callback": "update_settings"},
    "callback-property": {"callback": "tempting"},
    "callback-attribute": {"callback": "helper"},
    "errback": {"callback": "parse", "errback": "crawler.stop"},
    "callback-by-what-a-class-keeps": {"class": "test_strangers.Labelled", "kept": {"callback": "x"}},
    "item-not-imported": {"meta": {"x": {**ITEM, "class": "burglar.Loot"}}},
    "item-that-acts": {"meta": {"x": {**ITEM, "class": "test_strangers.Trap"}}},
    "unknown-field": {"class": "scrapy.http.request.form.FormRequest", "formdata": {"a": "b"}},
}


def test_a_hostile_export_fetches_and_calls_the_spiders_own_callbacks_and_no_more(
    web: Web, tmp_path: Path, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]]
) -> None:
    """Whatever else its rows name is set aside, each with a line; what they may say works."""
    assert FormRequest.__module__ == "scrapy.http.request.form"
    (tmp_path / "secret").write_text("secret")
    urls: dict[str, dict[str, Any]] = {web.url(f"/{name}"): row for name, row in NOT_ALLOWED.items()}
    file = f"file://{tmp_path}/secret"
    urls[file] = {"callback": "parse"}
    refused = set(urls)
    urls |= {
        web.url("/plain"): {},
        web.url("/linked"): {**GOOD, "cb_kwargs": {"a": 1}},
        web.url("/class-method"): {"callback": "parse_of_class"},
        web.url("/delegated"): {"callback": "parse_delegated"},
        web.url("/form"): {"class": FormRequest.__module__ + ".FormRequest", "method": "POST"},
    }
    imported(tmp_path, urls)
    crawl = run(TrustingSpider)
    assert crawl.reason == "finished"
    assert not (tmp_path / "burgled").exists()
    assert sorted(web.paths()) == ["/class-method", "/delegated", "/form", "/linked", "/plain"]
    assert f"parse was called for {web.url('/plain')}" in crawl.log
    assert f"parse_linked was called for {web.url('/linked')} with [('a', 1)]" in crawl.log
    assert f"the deputy was called for {web.url('/delegated')}" in crawl.log
    assert f"parse was called for {file}" not in crawl.log
    found = pages()
    for url in refused:
        assert found[url].state is State.FAILED, url
        assert found[url].reason.startswith("unreadable record: "), url
        assert crawl.log.count(f"Set aside {url}: ") == 1
    errors = [line for line in crawl.log.splitlines() if "] ERROR: " in line]
    assert len(errors) == len(refused), crawl.log
    assert "Traceback" not in crawl.log


class FileSpider(Spider):
    """Reads a file that it names itself, and one that a row names."""

    name = "files"
    url = ""

    async def start(self) -> Any:
        yield Request(self.url)

    def parse(self, response: Response) -> Any:
        self.logger.info("parse was called for %s", response.url)


def test_files_are_read_only_if_the_spider_asks_for_them_in_this_run(
    tmp_path: Path, run: Callable[..., Crawl]
) -> None:
    """Whatever a row says: it may be a stranger's."""
    mine, other = (f"file://{tmp_path}/{name}" for name in ("mine", "other"))
    (tmp_path / "mine").touch()
    imported(tmp_path, {other: {}})
    crawl = run(FileSpider, url=mine)
    assert f"parse was called for {mine}" in crawl.log
    assert f"Set aside {other}: a file: URL" in crawl.log


OURS = {
    "frontier_directives": {"noindex": True, "nofollow": True},
    "frontier_duplicate": "http://a.example/",
}
ODD: list[Any] = [None, "x", -1, float("inf"), float("nan"), [], [[]], {}, {"!": "tuple", "v": []}, 10**400]
SCRAPYS = (
    *("download_slot", "download_timeout", "download_maxsize", "download_delay", "cookiejar", "proxy"),
    *("redirect_urls", "redirect_times", "retry_times", "max_retry_times", "depth", "handle_httpstatus_list"),
    *("bindaddress", "dont_retry", "is_start_request", "download_latency", "verbatim_url", "rule"),
)
FRONTIERS = (
    *(
        "frontier_sitemap",
        "frontier_lastmod",
    ),
    *("frontier_nofollow", "frontier_link_score", "frontier_content_score", "frontier_every_run"),
)


ADDON = {"SCHEDULER": None, "ADDONS": {"scrapy_frontier.Addon": 500}, "FRONTIER_END_WAIT": 0}


@pytest.mark.parametrize("more", [{}, ADDON], ids=["scheduler", "add-on"])
def test_odd_meta_ends_no_more_than_its_page(
    web: Web,
    tmp_path: Path,
    run: Callable[..., Crawl],
    pages: Callable[[], dict[str, Page]],
    more: dict[str, Any],
) -> None:
    """What is only ever ours is not taken from a row, and odd values of all else hurt nobody but the page.

    No host rests here: a row can set a timeout that no host could meet, as a spider can.
    """
    urls: dict[str, dict[str, Any]] = {web.url("/ours"): {"meta": OURS}}
    for name in (*SCRAPYS, *FRONTIERS):
        for number, value in enumerate(ODD):
            urls[web.url(f"/{name}/{number}")] = {"meta": {name: value}}
    imported(tmp_path, urls)
    crawl = run(TrustingSpider, {"FRONTIER_COOLDOWN": 0, "RETRY_ENABLED": False, **more})
    assert crawl.reason == "finished"
    assert "nobody foresaw" not in crawl.log
    found = pages()
    assert found[web.url("/ours")].state is State.DONE
    assert found[web.url("/ours")].reason == ""
    assert [url for url, page in found.items() if page.state is State.QUEUED] == []
