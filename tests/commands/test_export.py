"""Export and import: the same frontier in another place, another version, under another fingerprinter."""

from __future__ import annotations

import gzip
import json
import os
from concurrent.futures import ThreadPoolExecutor
from errno import ENOSPC
from hashlib import sha1
from typing import TYPE_CHECKING, Any

import plyvel
import pytest
from scrapy import Request, Spider
from scrapy.utils.request import RequestFingerprinter
from stores import (
    FETCHED,
    NOW,
    Frontiers,
    change,
    check,
    crawl,
    crawl_on,
    crawl_web,
    fetch,
    first,
    link,
    order,
    pages,
    rows,
    start,
    web_url,
)

from scrapy_frontier.core.admin.salvage import filling
from scrapy_frontier.core.pages.leases import Outcome
from scrapy_frontier.core.revisits.plans import RevisitRule
from scrapy_frontier.core.store import keys, leveldb
from scrapy_frontier.core.store.keys import ROBOTS, State, cooldown_key, robots_key, sitemaps_key
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import (
    Cooldown,
    RobotsCopy,
    SiteSitemaps,
    Verdict,
    decode_copy,
    decode_sitemaps,
    encode_cooldown,
    encode_copy,
    encode_sitemaps,
)
from scrapy_frontier.core.transitions import Event
from scrapy_frontier.crawl.codec import Codec
from scrapy_frontier.crawl.payloads import with_own
from scrapy_frontier.crawl.queued import memory_payload

if TYPE_CHECKING:
    from pathlib import Path


class FirstLetters:
    """Takes pages of a host for the same if their paths begin with the same digit."""

    def fingerprint(self, request: Request) -> bytes:
        return sha1(request.url[:19].encode()).digest()


@pytest.fixture
def exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    crawl(tmp_path / "old", pages=2000, hosts=7, ended=300)
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


def test_an_import_is_sound_and_hands_out_the_same_urls(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = Frontiers(tmp_path / "new", capsys)("import", exported)
    assert said.code == 0, said.err
    assert "Imported 2,001 pages of 7 hosts" in said.out
    assert check(tmp_path / "new") == []
    expected = order(tmp_path / "old", 1000)
    assert len(expected) == 1000
    assert order(tmp_path / "new", 1000) == expected
    assert not any("//h5." in url for url in expected), "what is blocked stays blocked"


def test_an_export_goes_through_links_and_into_pipes(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frontier = Frontiers(tmp_path / "old", capsys)
    expected = read(exported)[1:]
    (tmp_path / "link.gz").symlink_to(tmp_path / "there.gz")
    assert frontier("export", tmp_path / "link.gz").code == 0
    assert (tmp_path / "link.gz").is_symlink()
    assert read(tmp_path / "there.gz")[1:] == expected
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        received = pool.submit(pipe.read_bytes)
        assert frontier("export", pipe).code == 0
    assert pipe.is_fifo()
    (tmp_path / "received.gz").write_bytes(received.result())
    assert read(tmp_path / "received.gz")[1:] == expected


def test_an_import_has_the_same_rows(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Frontiers(tmp_path / "new", capsys)("import", exported)
    assert rows(tmp_path / "new") == rows(tmp_path / "old")


def test_a_page_that_came_back_is_one_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for now in (NOW, NOW + 1000):
        old = start(tmp_path / "old", now, revisits=RevisitRule(shelf_life=100.0, horizon=1e6))
        if now == NOW:
            old.discover([link(f"http://a.example/{number}") for number in range(3)], now)
            for _ in range(2):
                fetch(old)
        else:
            assert old.lease(now) is not None
        assert old.totals().queued_again == (0 if now == NOW else 2)
        old.close()
    assert Frontiers(tmp_path / "old", capsys)("export", tmp_path / "x.gz", "--json").json["pages"] == 3
    assert read(tmp_path / "x.gz")[0]["pages"] == 3
    assert Frontiers(tmp_path / "new", capsys)("import", tmp_path / "x.gz", "--json").json["pages"] == 3


def test_the_file_carries_requests_and_no_fingerprints(exported: Path) -> None:
    lines = read(exported)
    assert lines[0]["frontier"] == 1
    assert lines[-1] == {"end": len(lines) - 1}
    assert not any("fingerprint" in line for line in lines)


def test_another_fingerprinter_may_take_pages_for_one(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Frontiers(tmp_path / "new", capsys, REQUEST_FINGERPRINTER_CLASS=FirstLetters)
    done = other("import", exported, "--json").json
    assert done["merged"] > 1900
    assert done["pages"] + done["merged"] == 2001
    assert other("check").code == 0
    assert other("page", "http://h1.example/1").code == 0
    wrong = Frontiers(tmp_path / "new", capsys)("page", "http://h1.example/1")
    assert wrong.code == 1
    assert "REQUEST_FINGERPRINTER_CLASS" in wrong.err


def test_damaged_pages_travel_with_their_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crawl(tmp_path / "old")
    page_id = first(tmp_path / "old", State.GONE)
    hurt = rows(tmp_path / "old")[keys.page_key(page_id)][:-2]
    change(tmp_path / "old", {keys.page_key(page_id): hurt})
    Frontiers(tmp_path / "old", capsys)("export", tmp_path / "x.gz")
    Frontiers(tmp_path / "new", capsys)("import", tmp_path / "x.gz")
    assert check(tmp_path / "new") == []
    assert rows(tmp_path / "new")[keys.aside_key(page_id)] == hurt
    assert pages(tmp_path / "new")[page_id].state is State.GONE


# -- the link graph, and what the scorer keeps ---------------------------------------------------------------


@pytest.fixture(params=[0, 90], ids=["loose", "packed"])
def web(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Frontiers:
    crawl_web(tmp_path / "old", pages=600, packed=request.param)
    frontier = Frontiers(tmp_path / "old", capsys)
    frontier("rank", "--scorer", "mixed")
    return frontier


def moved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Frontiers:
    """The frontier in *old*, in another place."""
    assert Frontiers(tmp_path / "old", capsys)("export", tmp_path / "x.gz").code == 0
    said = Frontiers(tmp_path / "new", capsys)("import", tmp_path / "x.gz")
    assert said.code == 0, said.err
    return Frontiers(tmp_path / "new", capsys)


def test_the_link_graph_travels(tmp_path: Path, web: Frontiers, capsys: pytest.CaptureFixture[str]) -> None:
    new = moved(tmp_path, capsys)
    assert check(tmp_path / "new") == []
    for command in (("dump", "--what", "links"), ("top", "--json"), ("top", "--by", "authority", "--json")):
        assert new(*command).out == web(*command).out
    assert new("stats", "--json").json["ranking"] == web("stats", "--json").json["ranking"]


def test_a_crawl_with_a_scorer_goes_on_the_same_way(
    tmp_path: Path, web: Frontiers, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its scores move with the links it finds, so what the scorer knew has to be there too."""
    moved(tmp_path, capsys)
    expected = crawl_on(tmp_path / "old", 1000, "mixed", pages=1500)
    assert len(expected) == 1000
    assert crawl_on(tmp_path / "new", 1000, "mixed", pages=1500) == expected


def test_content_scores_that_are_in_no_column_yet_travel(
    tmp_path: Path, web: Frontiers, capsys: pytest.CaptureFixture[str]
) -> None:
    change(tmp_path / "old", {keys.content_key(7): bytes.fromhex("3e99999a")})
    moved(tmp_path, capsys)
    assert rows(tmp_path / "new")[keys.content_key(7)] == bytes.fromhex("3e99999a")


def test_damaged_links_travel_with_their_bytes(
    tmp_path: Path, web: Frontiers, capsys: pytest.CaptureFixture[str]
) -> None:
    torn = {keys.link_key(5): b"\xff", keys.link_key(6): b""}
    if (segment := keys.segment_key(0)) in rows(tmp_path / "old"):
        torn[segment] = rows(tmp_path / "old")[segment][:-2]
    change(tmp_path / "old", torn)
    new = moved(tmp_path, capsys)
    assert check(tmp_path / "new") == []
    for key in set(torn) - {keys.link_key(6)}:
        assert rows(tmp_path / "new")[keys.ASIDE + key] == torn[key]
    web("check", "--repair")
    assert new("dump", "--what", "links").out == web("dump", "--what", "links").out


def test_links_lead_to_the_page_that_is_kept_of_two(
    tmp_path: Path, web: Frontiers, capsys: pytest.CaptureFixture[str]
) -> None:
    web("export", tmp_path / "x.gz")
    other = Frontiers(tmp_path / "new", capsys, REQUEST_FINGERPRINTER_CLASS=FirstLetters)
    assert other("import", tmp_path / "x.gz", "--json").json["merged"] > 100
    assert other("check").code == 0
    told = other("links", web_url(0), "--out", "--json").lines
    assert told
    assert all(each["url"] is not None for each in told)


def test_a_kept_robots_txt_is_not_asked_for_again(
    tmp_path: Path, web: Frontiers, capsys: pytest.CaptureFixture[str]
) -> None:
    copies = {
        robots_key("http://h1.example"): RobotsCopy(
            Verdict.PARSE, 200, NOW, NOW + 9.5, body=b"User-agent: *\n"
        ),
        robots_key("https://h2.example:81"): RobotsCopy(Verdict.POSTPONE, 503, 0.0, NOW, NOW - 5.25, 3),
    }
    change(tmp_path / "old", {key: encode_copy(copy) for key, copy in copies.items()})
    moved(tmp_path, capsys)
    found = {key: row for key, row in rows(tmp_path / "new").items() if key[:1] == ROBOTS}
    assert {key: decode_copy(row) for key, row in found.items()} == copies


def test_what_is_known_of_sitemaps_travels(
    tmp_path: Path, web: Frontiers, capsys: pytest.CaptureFixture[str]
) -> None:
    sitemaps = SiteSitemaps(("http://h1.example/map.xml",), True, ("http://h2.example/all.xml",))
    change(tmp_path / "old", {sitemaps_key("http://h1.example"): encode_sitemaps(sitemaps)})
    moved(tmp_path, capsys)
    assert decode_sitemaps(rows(tmp_path / "new")[sitemaps_key("http://h1.example")]) == sitemaps


def test_hosts_that_cool_go_on_cooling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crawl(tmp_path / "old")
    row = encode_cooldown(Cooldown(NOW + 900, 4, NOW, "HTTP 503"))
    change(tmp_path / "old", {cooldown_key("h1.example"): row})
    Frontiers(tmp_path / "old", capsys)("export", tmp_path / "x.gz")
    Frontiers(tmp_path / "new", capsys)("import", tmp_path / "x.gz")
    assert rows(tmp_path / "new")[cooldown_key("h1.example")] == row


def test_a_request_that_cannot_be_rebuilt_is_kept(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = read(exported)
    lines[-2:-2] = [{"something": "new"}]
    lines[5]["request"] = {"class": "nowhere.Request"}
    lines[-1]["end"] += 1
    write(exported, lines)
    done = Frontiers(tmp_path / "new", capsys)("import", exported, "--json").json
    assert (done["pages"], done["not_rebuilt"], done["unknown"]) == (2001, 1, 1)


def test_a_page_that_is_tried_again_by_a_changed_request_stays_the_page_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A middleware has renewed the token in its body, and the next run yields it with the old one."""
    old, new = tmp_path / "old", tmp_path / "new"
    codec, frontier = Codec(Spider("any")), start(old)
    tried = [Request("http://a.example/", method="POST", body=f"token={number}") for number in (1, 2)]
    before, now = map(codec.encode, tried)
    its = RequestFingerprinter().fingerprint(tried[0])
    frontier.discover([link("http://a.example/")._replace(fingerprint=its, payload=before)], NOW)
    fetch(frontier, Outcome(Event.RETRIED, payload=with_own(now, before)))
    frontier.close()
    index = {keys.INDEX + its: keys.index_value(0)}

    assert Frontiers(old, capsys)("export", tmp_path / "x.gz").code == 0
    assert Frontiers(new, capsys)("import", tmp_path / "x.gz").code == 0
    change(old, delete=(*index,))
    assert Frontiers(old, capsys)("check", "--repair").code == 0
    for directory in (old, new):
        assert {key: value for key, value in rows(directory).items() if key[:1] == keys.INDEX} == index


def test_pages_whose_requests_were_in_memory_travel_and_are_repaired_as_what_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A form and the page that shows it have one URL, and only the page's can be told from that."""
    url, form = "http://a.example/", b"form".rjust(20, b".")
    old, new = tmp_path / "old", tmp_path / "new"
    frontier = start(old)
    kept = memory_payload(Request(url, method="POST"), form)
    frontier.discover([link(url), link(url)._replace(fingerprint=form, payload=kept)], NOW)
    frontier.close()
    index = {key: value for key, value in rows(old).items() if key.startswith(keys.INDEX)}
    assert index[keys.INDEX + form] == keys.index_value(1, is_seen=True)

    assert Frontiers(old, capsys)("export", tmp_path / "x.gz").code == 0
    assert Frontiers(new, capsys)("import", tmp_path / "x.gz").code == 0
    change(old, delete=(keys.INDEX + form,))
    assert Frontiers(old, capsys)("check", "--repair").code == 0
    for directory in (old, new):
        assert index.items() <= rows(directory).items()
        assert check(directory) == []


def cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-2000])


def without_end(file: Path) -> None:
    write(file, read(file)[:-1])


def without_a_line(file: Path) -> None:
    write(file, read(file)[:7] + read(file)[8:])


def no_gzip(file: Path) -> None:
    file.write_text("hello")


def some_gzip(file: Path) -> None:
    write(file, [{"hello": 1}])


def future_version(file: Path) -> None:
    lines = read(file)
    write(file, [{**lines[0], "frontier": 9}, *lines[1:]])


def nonsense(file: Path) -> None:
    lines = read(file)
    write(file, [lines[0], {"page": "seven", "url": 4}, *lines[1:]])


def queue_that_does_not_fit(file: Path) -> None:
    lines = [line for line in read(file) if line.get("queued") != 1999]
    write(file, [*lines[:-1], {"end": len(lines) - 1}])


def two_appended(file: Path) -> None:
    """``export /dev/stdout >> FILE`` on two days: which of them is meant?"""
    file.write_bytes(file.read_bytes() * 2)


@pytest.mark.parametrize(
    "damage",
    [
        cut_off,
        without_end,
        without_a_line,
        no_gzip,
        some_gzip,
        future_version,
        nonsense,
        queue_that_does_not_fit,
        two_appended,
    ],
)
def test_a_damaged_file_leaves_nothing_behind(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str], damage: Any
) -> None:
    damage(exported)
    said = Frontiers(tmp_path / "new", capsys)("import", exported)
    assert said.code == 1
    assert said.err.startswith("scrapy frontier: ")
    assert not (tmp_path / "new").exists()
    assert not list(tmp_path.glob("*.importing"))


@pytest.mark.parametrize("lacks", ["lock", "rows"])
def test_a_full_disk_is_told_of_the_directory_that_was_named(
    tmp_path: Path,
    exported: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    lacks: str,
) -> None:
    """Not of the one that is filled first and is gone by then."""

    def full(path: str, **_: Any) -> None:
        raise plyvel.IOError(f"IO error: {tmp_path}/new.importing/000003.log: {os.strerror(ENOSPC)}".encode())

    def no_room(path: Path, *_: Any) -> int:
        raise OSError(ENOSPC, os.strerror(ENOSPC), str(path))

    if lacks == "lock":
        monkeypatch.setattr(leveldb.os, "open", no_room)
    else:
        monkeypatch.setattr(plyvel, "DB", full)
    said = Frontiers(tmp_path / "new", capsys)("import", exported)
    monkeypatch.undo()
    assert said.code == 1
    told = f"cannot import into {tmp_path}/new ({os.strerror(ENOSPC)}): nothing was left there; free some"
    assert told in said.err
    assert "give the same command again" in said.err
    assert not (tmp_path / "new").exists()


def test_nothing_is_imported_over_a_frontier(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = rows(tmp_path / "old")
    said = Frontiers(tmp_path / "old", capsys)("import", exported)
    assert said.code == 1
    assert "holds a frontier already" in said.err
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


class WithoutQuery:
    """As a project that no longer tells pages by their queries."""

    def fingerprint(self, request: Request) -> bytes:
        return sha1(request.url.partition("?")[0].encode()).digest()


def imported_without_queries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Frontiers:
    """The frontier in ``old``, exported and imported into ``new`` under a fingerprinter that leaves out
    queries."""
    assert Frontiers(tmp_path / "old", capsys)("export", tmp_path / "export.gz").code == 0
    new = Frontiers(tmp_path / "new", capsys, REQUEST_FINGERPRINTER_CLASS=WithoutQuery)
    assert new("import", tmp_path / "export.gz").code == 0
    return new


def test_a_page_that_was_only_seen_gives_way_to_the_same_page_that_is_to_be_fetched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a link to it leads there."""
    old = start(tmp_path / "old")
    old.discover([link("http://a.example/")], NOW)
    lease = old.lease(NOW)
    assert lease is not None
    old.discover([link("http://a.example/x?from=1", only_seen="nofollow")], NOW, lease)
    old.release(lease, FETCHED._replace(has_links=True), NOW)
    old.discover([link("http://a.example/x?from=2", only_seen="nofollow")], NOW)
    old.discover([link("http://a.example/x"), link("http://a.example/x?from=3")], NOW)
    old.close()
    new = imported_without_queries(tmp_path, capsys)
    assert new("check").code == 0
    found = [(page.url, page.state) for page in pages(tmp_path / "new").values()]
    assert found == [("http://a.example/", State.DONE), ("http://a.example/x", State.QUEUED)]
    assert [line["url"] for line in new("links", "http://a.example/", "--json").lines] == [
        "http://a.example/x"
    ]


def test_a_page_that_was_only_seen_gives_way_to_the_same_page_that_was_fetched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not fetched once more when a link leads to it."""
    old = start(tmp_path / "old")
    old.discover([link("http://a.example/x?from=1", only_seen="nofollow"), link("http://a.example/x")], NOW)
    fetch(old)
    old.close()
    new = imported_without_queries(tmp_path, capsys)
    assert new("check").code == 0
    assert [page.state for page in pages(tmp_path / "new").values()] == [State.DONE]


def test_redirects_and_parents_lead_to_the_page_that_is_kept_of_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever of the two that is."""
    home, seen, fetched, again, child = (
        f"http://a.example/{name}" for name in ("", "x?seen", "x", "x?again", "child")
    )
    old = start(tmp_path / "old")
    old.discover([link(home, priority=1), link(seen, only_seen="nofollow"), link(fetched), link(again)], NOW)
    fetch(old, Outcome(Event.REDIRECTED, 301, target=1))
    old.discover([link(child, parent=3)], NOW)
    old.close()
    assert Frontiers(tmp_path / "old", capsys)("export", tmp_path / "export.gz").code == 0
    new = Frontiers(tmp_path / "new", capsys, REQUEST_FINGERPRINTER_CLASS=WithoutQuery)
    assert new("import", tmp_path / "export.gz", "--json").json["merged"] == 2
    found = {page_id: (page.parent, page.target) for page_id, page in pages(tmp_path / "new").items()}
    assert found == {0: (None, 2), 2: (None, None), 4: (2, None)}
    assert new("check").code == 0


@pytest.mark.parametrize("way", [["?cookie=1"], ["?cookie=1", "?cookie=2"], ["/ask", "?cookie=1"]], ids=len)
@pytest.mark.parametrize("is_fetched", [False, True])
def test_a_redirect_to_what_is_the_same_page_now_gives_way_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], way: list[str], is_fetched: bool
) -> None:
    """By way of another page, too; and that comes back itself, so that it has a place, which goes."""
    old = start(tmp_path / "old", revisits=RevisitRule(shelf_life=100.0, horizon=1e6))
    old.discover([link("http://a.example/x")], NOW)
    for number, on in enumerate(way):
        lease = old.lease(NOW)
        assert lease is not None
        old.discover([link(f"http://a.example/x{on}", parent=number)], NOW, lease)
        old.release(lease, Outcome(Event.REDIRECTED, 302, target=number + 1, has_links=True), NOW)
    if is_fetched:
        fetch(old)
    old.close()
    new = imported_without_queries(tmp_path, capsys)
    assert new("check").code == 0
    found = pages(tmp_path / "new")
    kept = found.pop(len(way))
    assert (kept.state, kept.parent) == (State.DONE if is_fetched else State.QUEUED, None)
    between = [(page.state, page.parent, page.target) for page in found.values()]
    assert between == [(State.REDIRECTED, len(way), len(way))] * (way[0] == "/ask")


def test_a_page_is_not_first_linked_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = start(tmp_path / "old")
    old.discover([link("http://a.example/x?from=1", only_seen="nofollow")], NOW)
    old.discover([link("http://a.example/x?from=2", parent=0)], NOW)
    old.close()
    imported_without_queries(tmp_path, capsys)
    assert [page.parent for page in pages(tmp_path / "new").values()] == [None]


def test_a_killed_crawl_stays_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its hosts may have been visited later than their rows say."""
    crawl(tmp_path / "old")
    change(tmp_path / "old", delete=(keys.CLEAN,))
    Frontiers(tmp_path / "old", capsys)("export", tmp_path / "x.gz")
    Frontiers(tmp_path / "new", capsys)("import", tmp_path / "x.gz")
    assert keys.CLEAN not in rows(tmp_path / "new")
    store = Store(tmp_path / "new")
    assert store.get(keys.SCHEME)
    store.close()
