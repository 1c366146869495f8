"""Commands, where a plugin says how pages are identified: by an add-on, or by what only a crawl has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import stores
from scrapy.exceptions import UsageError
from scrapy.utils.request import RequestFingerprinter, fingerprint
from stores import NOW, Frontiers, link

from scrapy_frontier.core.errors import FrontierVersion
from scrapy_frontier.core.frontier import Frontier
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.crawl.fingerprints import key_scheme

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

URL = "http://h.example/1"


class Counting:
    """Counts what it does in the stats of its crawler."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Counting:
        return cls(crawler)

    def fingerprint(self, request: Request) -> bytes:
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value("fingerprints")
        return fingerprint(request)


class AskingTheEngine(Counting):
    """Looks into the downloader, which only a crawl has."""

    def fingerprint(self, request: Request) -> bytes:
        assert self.crawler.engine is not None
        return type(self.crawler.engine.downloader).__name__.encode() + fingerprint(request)


class Naming:
    """An add-on that names the fingerprinter."""

    def update_settings(self, settings: BaseSettings) -> None:
        settings.set("REQUEST_FINGERPRINTER_CLASS", Counting, "addon")


class Raising:
    """An add-on that asks for what only a crawl has."""

    def update_settings(self, settings: BaseSettings) -> None:
        raise RuntimeError("there is no spider yet")


def named(kind: type) -> dict[str, Any]:
    return {"REQUEST_FINGERPRINTER_CLASS": kind}


def crawled(directory: Path, kind: type) -> None:
    """A frontier with `URL`, as a crawl leaves it that identifies pages by *kind* as Scrapy does."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    frontier = Frontier(Store(directory, key_scheme(RequestFingerprinter().fingerprint, name)), NOW)
    frontier.discover([link(URL)], NOW)
    frontier.close()


@pytest.mark.parametrize(
    ("kind", "settings", "noted"),
    [
        (Counting, named(Counting), ""),
        (Counting, {"ADDONS": {Naming: 300, "scrapy_frontier.Addon": 500}}, ""),
        (
            Counting,
            {"ADDONS": {Raising: 1}, **named(Counting)},
            "an add-on raises RuntimeError: there is no spider",
        ),
        (
            AskingTheEngine,
            named(AskingTheEngine),
            "look for a page that is not found with `scrapy frontier find`",
        ),
    ],
)
def test_commands_know_the_pages_of_the_crawl(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    kind: type,
    settings: dict[str, Any],
    noted: str,
) -> None:
    crawled(tmp_path / "frontier", kind)
    frontiers = Frontiers(tmp_path / "frontier", capsys, JOBDIR=str(tmp_path / "job"), **settings)
    for command in ("why", "links"):
        said = frontiers(command, URL)
        assert said.code == 0, said
        assert noted in said.err
        assert said.err.count("Note:") == bool(noted)
    if kind is Counting:
        for command, url in (("add", f"{URL}/new"), ("why", f"{URL}/new"), ("forget", URL)):
            assert frontiers(command, url).code == 0
        assert frontiers("why", URL).code == 1, "it is forgotten"
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize("is_there", [True, False])
def test_no_page_is_written_by_a_fingerprint_that_stands_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_there: bool
) -> None:
    """The crawl would fetch it a second time."""
    stores.crawl(tmp_path / "other", pages=2, ended=0)
    assert Frontiers(tmp_path / "other", capsys)("export", str(tmp_path / "pages")).code == 0
    directory = tmp_path / "frontier"
    if is_there:
        crawled(directory, AskingTheEngine)
    frontiers = Frontiers(directory, capsys, **named(AskingTheEngine))
    for command, instead in (
        (("add", URL), "have the spider yield the URL"),
        (("forget", URL), "frontier_force"),
        *(() if is_there else ((("import", str(tmp_path / "pages")), "copy the directory"),)),
    ):
        with pytest.raises(UsageError, match=f"identifies no plain URL outside a crawl.*; .*{instead}"):
            frontiers(*command)
    assert directory.exists() == is_there


def test_the_next_crawl_notes_how_pages_are_identified_where_a_repair_could_not(tmp_path: Path) -> None:
    Store(tmp_path, "some.Fingerprinter").close()
    Store(tmp_path, "some.Fingerprinter 123456789abc").close()
    Store(tmp_path, "some.Fingerprinter").close()
    with pytest.raises(FrontierVersion):
        Store(tmp_path, "some.Fingerprinter 0123456789ab")


def test_an_index_is_not_made_by_a_fingerprint_that_stands_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawled(tmp_path / "frontier", AskingTheEngine)
    index = b"f" + stores.fingerprint(URL)
    stores.change(tmp_path / "frontier", delete=(index,))
    said = Frontiers(tmp_path / "frontier", capsys, **named(AskingTheEngine))("check", "--repair")
    assert said.code == 1
    assert index not in stores.rows(tmp_path / "frontier")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("x", "cannot be imported (Error loading object 'x': not a full path): set the path of a class"),
        ("no_such.Module", "cannot be imported (No module named 'no_such'): set the path of a class"),
        ("stores.NOW", "= 'stores.NOW': set the path of a class"),
    ],
)
@pytest.mark.parametrize("command", [("why", URL), ("check",), ("add", URL)])
def test_a_fingerprinter_that_cannot_be_imported_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...], value: str, words: str
) -> None:
    stores.crawl(tmp_path)
    said = Frontiers(tmp_path, capsys, REQUEST_FINGERPRINTER_CLASS=value)(*command)
    assert said.code == 1
    assert said.err.startswith(f"scrapy frontier: REQUEST_FINGERPRINTER_CLASS = {value!r}")
    assert words in said.err
