"""Export and import: a frontier, or one host of it, in another place or under another fingerprinter."""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
from dataclasses import replace
from hashlib import sha1
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.utils.request import RequestFingerprinter
from stores import (
    NOW,
    Frontiers,
    change,
    check,
    crawl,
    crawl_on,
    crawl_web,
    fetch,
    fingerprint,
    link,
    order,
    pages,
    rows,
    start,
)

from scrapy_frontier.core.admin.database_files import filling
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.revisits.plans import RevisitRule
from scrapy_frontier.core.store import keys, records
from scrapy_frontier.core.store.keys import cooldown_key, robots_key, sitemaps_key
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.link_rows import Edge, encode_row
from scrapy_frontier.core.transitions import Event
from scrapy_frontier.crawl.codec import Codec, memory_payload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DERIVED = (keys.QUEUE, keys.WAITING, keys.DEFERRED, keys.COUNTS)
KEPT = {
    cooldown_key("h1.example"): records.COOLDOWN.encode(records.Cooldown(NOW + 900, 4, NOW, "HTTP 503")),
    robots_key("http://h1.example"): records.ROBOTS.encode(
        records.RobotsCopy(records.Verdict.PARSE, 200, NOW, NOW + 9.5, body=b"User-agent: *\n")
    ),
    robots_key("https://h2.example:81"): records.ROBOTS.encode(
        records.RobotsCopy(records.Verdict.POSTPONE, 503, 0.0, NOW, NOW - 5.25, 3)
    ),
    sitemaps_key("http://h1.example"): records.SITEMAPS.encode(
        records.SiteSitemaps(("http://h1.example/map.xml",), True)
    ),
    keys.content_key(7): bytes.fromhex("3e99999a"),
    keys.rates_key("h1.example"): bytes(12),
}


class FirstLetters:
    """Takes pages of a host for the same if their paths begin with the same digit."""

    def fingerprint(self, request: Request) -> bytes:
        return sha1(request.url[:19].encode()).digest()


@pytest.fixture
def exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    crawl(tmp_path / "old", pages=400, hosts=7, ended=100)
    change(tmp_path / "old", KEPT)
    frontier = Frontiers(tmp_path / "old", capsys)
    frontier("delay", "h3.example", "4")
    frontier("block", "h5.example")
    assert frontier("export", tmp_path / "x.gz").code == 0
    return tmp_path / "x.gz"


def read(file: Path) -> list[dict[str, Any]]:
    with gzip.open(file, "rt") as lines:
        return [json.loads(line) for line in lines]


def write(file: Path, lines: list[dict[str, Any]]) -> None:
    with gzip.open(file, "wt") as out:
        out.writelines(json.dumps(line) + "\n" for line in lines)


def moved(tmp_path: Path, capsys: pytest.CaptureFixture[str], **settings: Any) -> Frontiers:
    """The frontier in *old* in another place, *new*."""
    said = Frontiers(tmp_path / "old", capsys)("export", tmp_path / "x.gz")
    assert said.code == 0, said.err
    said = Frontiers(tmp_path / "new", capsys, **settings)("import", tmp_path / "x.gz")
    assert said.code == 0, said.err
    return Frontiers(tmp_path / "new", capsys, **settings)


# -- there and back ----------------------------------------------------------------------------------------


def test_an_import_has_the_same_rows_and_hands_out_the_same_urls(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = Frontiers(tmp_path / "new", capsys)("import", exported)
    assert said.code == 0, said.err
    assert "Imported 401 pages of 7 hosts" in said.out
    assert check(tmp_path / "new") == []
    old, new = ({k: v for k, v in rows(tmp_path / n).items() if k[:1] not in DERIVED} for n in ("old", "new"))
    assert new == old
    expected = order(tmp_path / "old", 1000)
    assert len(expected) > 200
    assert sorted(order(tmp_path / "new", 1000)) == sorted(expected)
    assert not any("//h5." in url for url in expected), "what is blocked stays blocked"


def test_the_file_can_be_read_by_people(exported: Path) -> None:
    lines = read(exported)
    assert lines[0]["frontier"] == 3
    assert lines[-1] == {"end": len(lines) - 1}
    assert not any("fingerprint" in line for line in lines)
    page = next(line for line in lines if line.get("state") == "gone")
    assert page["url"].startswith("http://h")
    assert (page["status"], page["reason"]) == (404, "HTTP 404")
    (orders,) = [line for line in lines if line.get("orders") == "h3.example"]
    assert (orders["delay"], orders["blocked"]) == (4.0, None)


def test_one_host_can_be_carried_alone(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frontier = Frontiers(tmp_path / "old", capsys)
    assert frontier("export", tmp_path / "part.gz", "--host", "h1.example").code == 0
    new = Frontiers(tmp_path / "new", capsys)
    assert new("import", tmp_path / "part.gz").code == 0
    assert check(tmp_path / "new") == []
    old = {i: page for i, page in pages(tmp_path / "old").items() if "//h1.example" in page.url}
    assert pages(tmp_path / "new") == old
    assert all(KEPT[key] == row for key, row in rows(tmp_path / "new").items() if key in KEPT)
    assert robots_key("https://h2.example:81") not in rows(tmp_path / "new")


def test_an_export_goes_through_links(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frontier = Frontiers(tmp_path / "old", capsys)
    expected = read(exported)[1:]
    (tmp_path / "link.gz").symlink_to(tmp_path / "there.gz")
    assert frontier("export", tmp_path / "link.gz").code == 0
    assert (tmp_path / "link.gz").is_symlink()
    assert read(tmp_path / "there.gz")[1:] == expected


def test_pages_that_come_back_come_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule = RevisitRule(shelf_life=100.0, horizon=1e6)
    old = start(tmp_path / "old", NOW, revisits=rule)
    old.discover([link(f"http://a.example/{number}") for number in range(3)], NOW)
    for _ in range(2):
        fetch(old)
    old.close()
    old = start(tmp_path / "old", NOW + 150, revisits=rule)
    assert old.lease(NOW + 150) is not None
    old.close()
    assert moved(tmp_path, capsys)("stats", "--json").json["known"] == 3
    assert check(tmp_path / "new") == []
    new = start(tmp_path / "new", NOW + 1000, revisits=rule)
    assert {fetch(new, now=NOW + 1000) for _ in range(3)} == {f"http://a.example/{n}" for n in range(3)}
    new.close()


@pytest.mark.parametrize("packed", [0, 90])
def test_the_link_graph_and_the_scores_travel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], packed: int
) -> None:
    """A crawl with a scorer goes on the same way: its scores move with the links it finds."""
    crawl_web(tmp_path / "old", pages=600, packed=packed)
    old, new = Frontiers(tmp_path / "old", capsys), moved(tmp_path, capsys)
    assert check(tmp_path / "new") == []
    for command in (("top", "--json"), ("top", "--by", "authority", "--json")):
        assert new(*command).out == old(*command).out
    old("links", "--graph", tmp_path / "old.graphml")
    new("links", "--graph", tmp_path / "new.graphml")
    assert (tmp_path / "new.graphml").read_text() == (tmp_path / "old.graphml").read_text()
    assert set(crawl_on(tmp_path / "new", 1000, "mixed")) == set(crawl_on(tmp_path / "old", 1000, "mixed"))


def test_a_killed_crawl_stays_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its hosts may have been visited later than their rows say."""
    crawl(tmp_path / "old")
    change(tmp_path / "old", delete=(keys.CLEAN,))
    moved(tmp_path, capsys)
    assert keys.CLEAN not in rows(tmp_path / "new")


# -- who pages are -----------------------------------------------------------------------------------------


def test_another_fingerprinter_may_take_pages_for_one(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Frontiers(tmp_path / "new", capsys, REQUEST_FINGERPRINTER_CLASS=FirstLetters)
    done = other("import", exported, "--json").json
    assert done["merged"] > 300
    assert done["pages"] + done["merged"] == 401
    assert other("check").code == 0
    assert other("why", "http://h1.example/1").code == 0
    wrong = Frontiers(tmp_path / "new", capsys)("why", "http://h1.example/1")
    assert (wrong.code, "REQUEST_FINGERPRINTER_CLASS" in wrong.err) == (1, True)


def test_a_request_that_cannot_be_rebuilt_is_kept_and_told(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page_id, page = 5, pages(tmp_path / "old")[5]
    bent_page = page._replace(payload=b'{"class": "nowhere.Request"}')
    change(tmp_path / "old", {keys.page_key(page_id): records.encode_page(bent_page)})
    Frontiers(tmp_path / "old", capsys)("export", exported)
    frontier = Frontiers(tmp_path / "new", capsys)
    done = frontier("import", exported, "--json").json
    assert (done["pages"], done["not_rebuilt"]) == (401, 1)
    assert "cannot be rebuilt" in " ".join(frontier("check").out.split())


def test_a_page_that_is_tried_again_by_a_changed_request_stays_the_page_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A middleware has renewed the token in its body, and the next run yields it with the old one."""
    codec, frontier = Codec(Spider("any")), start(tmp_path / "old")
    tried = [Request("http://a.example/", method="POST", body=f"token={number}") for number in (1, 2)]
    before, now = map(codec.encode, tried)
    its = RequestFingerprinter().fingerprint(tried[0])
    frontier.discover([replace(link("http://a.example/"), fingerprint=its, payload=before)], NOW)
    fetch(frontier, Outcome(Event.RETRIED, visit_payload=now))
    frontier.close()
    moved(tmp_path, capsys)
    assert rows(tmp_path / "new")[keys.INDEX + its] == keys.index_value(0)


def test_pages_whose_requests_were_in_memory_travel_as_what_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A form and the page that shows it have one URL, and only the page's can be told from that."""
    url, form = "http://a.example/", b"form".rjust(20, b".")
    frontier = start(tmp_path / "old")
    kept = replace(link(url), fingerprint=form, payload=memory_payload(form), facts=records.IN_MEMORY)
    frontier.discover([link(url), kept], NOW)
    frontier.close()
    moved(tmp_path, capsys)
    assert rows(tmp_path / "new")[keys.INDEX + form] == keys.index_value(1, is_marked=True)
    assert rows(tmp_path / "new")[keys.INDEX + fingerprint(url)] == keys.index_value(0)


# -- refused -----------------------------------------------------------------------------------------------


def bent(**values: Any) -> Callable[[Path], None]:
    """Puts *values* into the header."""

    def bend(file: Path) -> None:
        header, *lines = read(file)
        write(file, [{**header, **values}, *lines])

    return bend


def row(key: bytes | str, value: bytes | str) -> Callable[[Path], None]:
    """Puts a row in the place of that of the first page."""

    def bend(file: Path) -> None:
        lines = read(file)
        lines[1]["key"] = key.hex() if isinstance(key, bytes) else key
        lines[1]["value"] = base64.b64encode(value).decode() if isinstance(value, bytes) else value
        write(file, lines)

    return bend


def without_a_line(file: Path) -> None:
    write(file, read(file)[:7] + read(file)[8:])


def deep(file: Path) -> None:
    text = json.dumps(read(file)[0]) + '\n{"page": 0, "url": ' + "[" * 100_000 + "\n"
    file.write_bytes(gzip.compress(text.encode()))


def bomb(file: Path) -> None:
    """70 MB in one line, from 70 KB."""
    file.write_bytes(gzip.compress(b'{"frontier": 3, "scheme": "' + b" " * (70 << 20) + b'"}'))


REFUSED: dict[str, Callable[[Path], object]] = {
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:-2000]),
    "without end": lambda file: write(file, read(file)[:-1]),
    "without a line": without_a_line,
    "twice": lambda file: file.write_bytes(file.read_bytes() * 2),
    "no gzip": lambda file: file.write_text("hello"),
    "no objects": lambda file: file.write_bytes(gzip.compress(b"[1]\n")),
    "deep": deep,
    "bomb": bomb,
    "future version": bent(frontier=9),
    "fewer pages": bent(next_page=3),
    "another format": bent(format=2),
    "unknown field": bent(sort_of="page"),
    "pages": bent(next_page="seven"),
    "visits": bent(next_visit=1 << 70),
    "no key": row("", b""),
    "no hex": row("page", b""),
    "no base64": row(keys.page_key(0), "?"),
    "no page": row(keys.page_key(0), b"\0"),
    "page id": row(keys.page_key(9000), records.encode_page(records.Page("http://a.example/"))),
    "host that no key holds": row(keys.page_key(0), records.encode_page(records.Page("", host="a\0b"))),
    "index row": row(keys.INDEX + bytes(20), bytes(5)),
    "numbers": row(keys.rates_key("h1.example"), b"\x7f\xc0\0\0" * 5),
    "strikes": row(cooldown_key("h1.example"), b"\0"),
    "links to a page that never was": row(keys.link_key(0), encode_row(0, [Edge(9000)])),
    "no links": row(keys.link_key(0), b"\xff"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_export_holds_is_refused_by_name_and_leaves_nothing(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    REFUSED[name](exported)
    said = Frontiers(tmp_path / "new", capsys)("import", exported)
    assert said.code == 1
    assert said.err.startswith("scrapy frontier: cannot import")
    assert len(said.err) < 1000
    assert not (tmp_path / "new").exists()
    assert not list(tmp_path.glob("*.importing"))


@pytest.mark.parametrize("seed", range(5))
def test_a_bent_export_is_taken_and_sound_or_refused(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    dice, lines = random.Random(seed), read(exported)
    odd = [None, True, -1, 0, 2**31, 2**63, 10**30, 1e308, "", "x", "\0", "\ud800", [], [1], {}, {"a": 1}]
    for number in range(12):
        one = [dict(line) for line in lines]
        line = dice.choice(one[:-1])
        if dice.random() < 0.5 or "value" not in line:
            line[dice.choice(sorted(line))] = dice.choice(odd)
        else:
            stored = bytearray(base64.b64decode(line["value"]) or b"?")
            stored[dice.randrange(len(stored))] = dice.randrange(256)
            line["value"] = base64.b64encode(stored).decode()
        write(exported, one)
        directory = tmp_path / f"new{number}"
        if Frontiers(directory, capsys)("import", exported).code == 0:
            assert [each.detail for each in check(directory) if "rebuilt" not in each.detail] == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (keys.page_key(3), b"\0\1\2"),
        (keys.PAGE + bytes(8), b"\0\1\2"),
        (keys.HOST + b"\xa0\x91", bytes(50)),
        (keys.link_key(3), b"\xff"),
        (keys.LINK_ROW + bytes(8), b"\0"),
        (keys.LINK_ROW + b"1" * 3_000, b"\0"),
        (keys.PAGE + b"1" * 3_000, b"\0"),
        (keys.COUNTS, b"?"),
        (keys.rates_key("h1.example"), b"\x7f\xc0\0\0" * 5),
    ],
)
def test_an_export_is_whole_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: bytes, value: bytes
) -> None:
    crawl(tmp_path)
    change(tmp_path, {key: value})
    frontier = Frontiers(tmp_path, capsys)
    said = frontier("export", tmp_path / "x.gz")
    assert (said.code, "scrapy frontier check" in said.err) == (1, True)
    assert not (tmp_path / "x.gz").exists()
    frontier("check", "--repair")
    assert frontier("export", tmp_path / "x.gz").code == 0


# -- where -------------------------------------------------------------------------------------------------


def test_nothing_is_imported_over_a_frontier(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = rows(tmp_path / "old")
    said = Frontiers(tmp_path / "old", capsys)("import", exported)
    assert (said.code, "holds a frontier already" in said.err) == (1, True)
    assert rows(tmp_path / "old") == before
    assert Frontiers(tmp_path / "none", capsys)("import", tmp_path / "nofile").code == 1


def test_a_second_import_beside_the_first_is_refused(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And leaves that what it has; one that was killed leaves nothing in the way."""
    with filling(tmp_path / "new") as first:
        store = Store(first)
        said = Frontiers(tmp_path / "new", capsys)("import", exported)
        assert said.code == 1
        assert f"process {os.getpid()}" in said.err or "in this process" in said.err
        store.write({b"row": b"of the first"})
        store.close()
    store = Store(tmp_path / "new")
    assert store.get(b"row") == b"of the first"
    store.close()
    (tmp_path / "newer.importing" / "frontier" / "leveldb").mkdir(parents=True)
    assert Frontiers(tmp_path / "newer", capsys)("import", exported).code == 0
