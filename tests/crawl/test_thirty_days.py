"""Thirty days of pages that come back, on a web that changes, in a minute."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from changing import BEGIN, DAY, ChangingWeb, Document, daily, every, once
from scrapy import Request, Spider
from server import Answer

from scrapy_frontier import signals
from scrapy_frontier.crawl.link_extractor import digest_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Crawl

    from scrapy_frontier.core.store.records import Page

SETTINGS = {
    "SCHEDULER": None,
    "ADDONS": {"scrapy_frontier.Addon": 500},
    "FRONTIER_REVISIT": "interval",
    "FRONTIER_SHELF_LIFE": DAY,
    "FRONTIER_REVISIT_HORIZON": "inf",
    "FRONTIER_CLOCK": "changing.clock",
    "EXTENSIONS": {"changing.Jumps": 0},
    "LOG_LEVEL": "DEBUG",
}


class Keeper(Spider):
    """Follows all links, and writes down what its callback and the signals tell."""

    name = "keeper"

    def __init__(self, urls: list[str], file: str) -> None:
        self.start_urls = urls
        self._file = open(file, "a", buffering=1)  # noqa: SIM115

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Keeper:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.changed, signals.page_changed)
        crawler.signals.connect(spider.unchanged, signals.page_unchanged)
        crawler.signals.connect(spider.gone, signals.page_gone)
        return spider

    def note(self, what: str, url: str, **more: Any) -> None:
        self._file.write(json.dumps({"what": what, "path": "/" + url.split("/", 3)[3], **more}) + "\n")

    def changed(
        self, url: str, digest_before: bytes, digest: bytes, links_added: list[str], links_removed: list[str]
    ) -> None:
        digests = [digest_before.hex(), digest.hex()]
        self.note("changed", url, digests=digests, added=links_added, removed=links_removed)

    def unchanged(self, url: str) -> None:
        self.note("unchanged", url)

    def gone(self, url: str, reason: str) -> None:
        self.note("gone", url, reason=reason)

    def parse(self, response: Any) -> Any:
        meta = response.meta
        version = int(response.xpath("//body/text()").re_first(r"version (\d+)") or 0)
        self.note(
            "parsed",
            response.url,
            version=version,
            digest=digest_of(response.body).hex(),
            last=meta.get("frontier_last_visit"),
            changed=meta.get("frontier_changed"),
        )
        yield from (
            response.follow(href, errback=self.failed) for href in response.css("a::attr(href)").getall()
        )

    def failed(self, failure: Any) -> None:
        self.note("errback", failure.request.url, error=failure.getErrorMessage())


def told(file: Path) -> dict[str, list[dict[str, Any]]]:
    """What the spider wrote down, by path; not what was unchanged."""
    found = defaultdict(list)
    for line in map(json.loads, file.read_text().splitlines()):
        if line["what"] != "unchanged":
            found[line.pop("path")].append(line)
    return found


def versions(lines: list[dict[str, Any]]) -> list[int]:
    """Those that the callback has seen."""
    return [line["version"] for line in lines if line["what"] == "parsed"]


KINDS = {
    "/never": Document(),
    "/weak": Document(every(3.0), tag="weak"),
    "/daily": Document(daily),
    "/second": Document(visits=2),
    "/date": Document(every(4.0), tag="none"),
    "/tag": Document(every(4.0), has_date=False),
    "/gzip": Document(every(5.0), suffix="-gzip", has_date=False),
    "/noise": Document(tag="noise"),
    "/nothing": Document(every(3.0), tag="none", has_date=False),
}


def test_bodies_come_only_where_pages_have_changed(
    changing: ChangingWeb, start: Callable[..., Crawl], pages: Callable[[], dict[str, Page]], tmp_path: Path
) -> None:
    """Thirty days, with two kills in the middle."""
    web, file = changing, tmp_path / "told"
    for path, document in KINDS.items():
        web.document(path, replace(document))
    seed = web.document("/", links=lambda version: list(KINDS))
    settings = {**SETTINGS, "LAST_DAY": 30.5}
    for day in (9.0, 19.0):
        crawl = start(Keeper, settings, urls=[seed], file=str(file))
        while web.clock.day < day and crawl.process.poll() is None:
            time.sleep(0.01)
        crawl.kill()
    crawl = start(Keeper, settings, urls=[seed], file=str(file)).wait()
    assert crawl.reason == "finished", crawl.log
    assert "Traceback" not in crawl.log
    heard, kept = told(file), pages()
    for path in KINDS:
        days = [seen.day for seen in web.of(path)]
        gaps = [after - before for before, after in pairwise(days)]
        repeated = sum(gap < 0.5 for gap in gaps)  # under way when the crawl was killed
        assert repeated <= 2, (path, [(round(seen.day, 3), seen.status) for seen in web.of(path)])
        assert max(gaps) < 1.5
        visits = kept[web.url(path)].visits
        assert visits is not None
        assert visits.visits == len(days) - repeated
        for seen in web.of(path)[1:]:
            assert seen.since.endswith("GMT") or not seen.since
        seen_versions = versions(heard[path])
        assert seen_versions[:-1] <= seen_versions[1:]

    # What has changed is fetched, nothing else, but for a full visit now and then.
    for path, most in {"/never": 3, "/weak": 0, "/date": 0, "/tag": 0, "/gzip": 0}.items():
        document = KINDS[path]
        changed = len({document.version(seen.day) for seen in web.of(path)}) - 1
        bodies = web.statuses(path).count(200) - 1
        assert changed <= bodies <= changed + most + 2, path
        assert len(set(versions(heard[path]))) == changed + 1, path
    assert set(web.statuses("/daily")) == {200}
    assert {seen.asked for seen in web.of("/gzip")[1:]} >= {'"V0-gzip", "V0"', '"V1-gzip", "V1"'}
    assert versions(heard["/noise"]) == [0]
    assert len(set(versions(heard["/nothing"]))) == 11
    assert len(versions(heard["/nothing"])) <= 11 + 2, "an equal body is not shown twice"


def test_validators_stay_with_their_page_and_cookies_of_a_304_count(
    changing: ChangingWeb, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]], tmp_path: Path
) -> None:
    web = changing
    web.document("/moved", Document().from_day(0.5, status=302, headers={"Location": "/other"}))
    web.document("/other", Document())
    web.document("/error", Document().from_day(0.5, status=500).until_day(1.001))
    seed = web.document(
        "/",
        Document(headers=lambda day: {"Set-Cookie": f"day={day:.0f}"}, links=lambda _: ["/moved", "/error"]),
    )
    crawl = run(Keeper, {**SETTINGS, "LAST_DAY": 2.5}, urls=[seed], file=str(tmp_path / "told"))
    first = web.of("/other")[0]
    assert (first.asked, first.since) == ("", "")
    assert all(seen.asked for seen in web.of("/error")[1:]), "retries of its own visit are conditional too"
    assert {b"If-None-Match" in page.payload for page in pages().values()} == {False}
    cookies = [visit.cookie for visit in web.visits if visit.path == "/"]
    assert cookies == ["", "day=0", "day=1", "day=2"]
    assert crawl.stats["downloader/response_status_count/304"] == sum(seen.status == 304 for seen in web.seen)


class Raises(Keeper):
    def parse(self, response: Any) -> Any:
        if response.url.endswith("/raises") and b"version 1" in response.body:
            raise ValueError("cannot be read")
        return super().parse(response)


def test_every_way_a_visit_can_end(
    changing: ChangingWeb, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]], tmp_path: Path
) -> None:
    web, plain, file = changing, Document(), tmp_path / "told"
    to_target = {"headers": {"Location": "/target"}}
    documents = {
        "/error": plain.from_day(4.5, status=500).until_day(9.5),
        "/missing": plain.from_day(4.5, status=404),
        "/flaky": plain.from_day(4.5, status=404).until_day(5.05),
        "/gone": plain.from_day(4.5, status=410),
        "/moved": plain.from_day(4.5, status=301, **to_target),
        "/elsewhere": plain.from_day(4.5, status=302, **to_target),
        "/raises": Document(once(4.5)),
        "/noindex": Document(every(3.0), head=lambda day: "<meta name=robots content=noindex>" * (day >= 6)),
        "/links": Document(once(4.5), links=lambda version: [("/new" if version else "/error"), "/target"]),
        "/target": plain,
        "/new": plain,
        "/private/page": plain,
        **{f"/plain{number}": plain for number in range(6)},
    }
    for path, document in documents.items():
        web.document(path, document)
    allowed = Document(answers=[(0, Answer(body="User-agent: *\nDisallow:"))])
    web.document("/robots.txt", allowed.from_day(4.5, body="User-agent: *\nDisallow: /private"))
    seed = web.document("/", links=lambda version: [path for path in documents if path != "/new"])
    settings = {**SETTINGS, "LAST_DAY": 12.8, "ROBOTSTXT_OBEY": True}
    crawl = run(Raises, settings, urls=[seed], file=str(file))
    assert crawl.reason == "finished", crawl.log
    heard, found = told(file), {url.split("/", 3)[3]: page for url, page in pages().items()}

    def days(path: str) -> list[float]:
        """When it was asked for, each once."""
        return sorted({round(seen.day, 2) for seen in web.of(path) if seen.day > 4.5})

    def gone(path: str) -> list[str]:
        return [line["reason"] for line in heard[path] if line["what"] == "gone"]

    def state(path: str) -> tuple[str, int]:
        return found[path[1:]].state.name, found[path[1:]].status

    assert (state("/error"), days("/error"), gone("/error")) == (
        ("DONE", 200),
        [5.0, 5.25, 5.75, 6.75, 8.75, 12.75],
        [],
    )
    assert web.of("/error")[-1].status == 304, "its validators were kept"
    assert (state("/missing"), days("/missing")[:3], gone("/missing")) == (
        ("GONE", 404),
        [5.0, 5.25, 6.25],
        ["404"],
    )
    assert (state("/flaky"), days("/flaky")[:4], gone("/flaky")) == (
        ("DONE", 200),
        [5.0, 5.25, 6.25, 7.25],
        [],
    )
    assert (state("/gone"), days("/gone"), gone("/gone")) == (("GONE", 410), [5.0], ["410"])
    assert (state("/moved"), days("/moved"), gone("/moved")) == (
        ("REDIRECTED", 301),
        [5.0, 5.25, 9.25],
        ["redirected"],
    )
    assert (state("/elsewhere"), days("/elsewhere")[:4], gone("/elsewhere")) == (
        ("REDIRECTED", 302),
        [5.0, 5.25, 6.25, 7.25],
        ["redirected"],
    )
    assert (state("/raises"), days("/raises")[:4], gone("/raises")) == (
        ("FAILED", 200),
        [5.0, 5.25, 5.75, 6.75],
        [],
    )
    assert not any(seen.asked for seen in web.of("/raises") if seen.day > 5.1), "its validators were dropped"
    assert (state("/noindex"), gone("/noindex")) == (("DONE", 200), ["noindex"])
    assert (state("/private/page"), gone("/private/page")) == (("EXCLUDED", 0), ["robots"])
    assert days("/private/page") in ([], [5.0]), "until robots.txt was read again"
    (change,) = (line for line in heard["/links"] if line["what"] == "changed")
    assert (change["added"], change["removed"]) == ([web.url("/new")], [web.url("/error")])
    assert min(seen.day for seen in web.of("/new")) > 4.5, "what is linked newly is fetched"
    parsed = [line for line in heard["/links"] if line["what"] == "parsed"]
    assert [line["changed"] for line in parsed] == [None, True]
    assert change["digests"] == [line["digest"] for line in parsed]
    assert [line["last"] and round((line["last"] - BEGIN) / DAY) for line in parsed] == [None, 4]
    for path in documents:
        errors = [line for line in heard[path] if line["what"] == "errback"]
        assert len(errors) == 0 or path in ("/error", "/missing", "/flaky", "/gone", "/private/page"), path
    assert "not modified" in crawl.log.split(" came back: ")[1]
    doubts = 5 + 1 + 1 + 1 + 1 + 6  # /error, the first of three, /flaky, and /raises
    assert crawl.stats["frontier/visits/undecided"] == doubts
    assert crawl.stats["frontier/visits/gone"] == 6


def test_validators_that_a_304_names_are_sent_next(
    changing: ChangingWeb, run: Callable[..., Crawl], pages: Callable[[], dict[str, Page]], tmp_path: Path
) -> None:
    """A tag that was weak became strong; what a 304 does not name stands, and a date goes back as it came."""
    since = "Sat, 29-Oct-94 19:43:31 gmt"
    seed = changing.on(
        "/",
        Answer(body="hello", headers={"ETag": 'W/"1"', "Last-Modified": since}),
        Answer(304, headers={"ETag": '"1"', "Cache-Control": "max-age=5"}),
        Answer(304),
    )
    run(Keeper, {**SETTINGS, "LAST_DAY": 2.5}, urls=[seed], file=str(tmp_path / "told"))
    asked = [(seen.asked, seen.since) for seen in changing.of("/")]
    assert asked == [("", ""), ('W/"1"', since), ('"1"', since), ('"1"', since)]
    visits = pages()[seed].visits
    assert visits is not None
    assert visits.validators == (b'"1"', since.encode())


@pytest.mark.parametrize("way", ["setting", "meta"])
def test_callbacks_of_unchanged_pages_are_called_where_that_is_wanted(
    changing: ChangingWeb,
    run: Callable[..., Crawl],
    pages: Callable[[], dict[str, Page]],
    tmp_path: Path,
    way: str,
) -> None:
    web, file = changing, tmp_path / "told"
    seed = web.document("/", Document(daily, tag="none", has_date=False))
    web.document("/", Document())
    settings = {**SETTINGS, "LAST_DAY": 3.5, **({"FRONTIER_UNCHANGED": "call"} if way == "setting" else {})}
    run(Says, settings, urls=[seed], file=str(file), way=way)
    assert web.statuses("/") == [200] * 5, "asked for unconditionally"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["what"] for line in lines] == ["parsed"] + ["parsed", "unchanged"] * 4
    visits = pages()[seed].visits
    assert visits is not None
    assert (visits.visits, visits.changes) == (5, 0)


class Says(Keeper):
    def __init__(self, urls: list[str], file: str, way: str) -> None:
        super().__init__(urls, file)
        self.way = way

    async def start(self) -> Any:
        meta = {"frontier_every_run": True} if self.way == "meta" else {}
        yield Request(self.start_urls[0], meta=meta)
