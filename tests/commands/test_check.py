"""`check` finds each kind of damage to rows, `--repair` mends it, and no page is lost."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pytest
from stores import (
    FETCHED,
    NOW,
    Frontiers,
    change,
    check,
    crawl,
    crawl_web,
    fetch,
    fingerprint,
    first,
    link,
    order,
    pages,
    rows,
    start,
)

from scrapy_frontier.core import reasons
from scrapy_frontier.core.admin.check import KINDS, Check
from scrapy_frontier.core.errors import FrontierUnreadable
from scrapy_frontier.core.frontier import Frontier, Outcome
from scrapy_frontier.core.ranking.graph import find_row
from scrapy_frontier.core.revisits.plans import RevisitRule
from scrapy_frontier.core.store import keys, link_rows, queue_keys, records
from scrapy_frontier.core.store.keys import State, cooldown_key, orders_key, robots_key, sitemaps_key
from scrapy_frontier.core.store.leveldb import Store, plyvel
from scrapy_frontier.core.store.link_rows import INTERNAL, Edge, encode_row
from scrapy_frontier.core.store.queue_keys import queue_prefix, sort_key
from scrapy_frontier.core.transitions import Event

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOST = "h1.example"


class Stored(NamedTuple):
    """The rows of a crawled store, from which a damage takes what it changes; None deletes a row."""

    rows: dict[bytes, bytes]
    pages: dict[int, records.Page]

    def keys_of(self, prefix: bytes) -> list[bytes]:
        return [key for key in self.rows if key[:1] == prefix]

    def first(self, state: State) -> int:
        return next(page_id for page_id, page in self.pages.items() if page.state is state)

    def index_key(self, page_id: int) -> bytes:
        return keys.INDEX + fingerprint(self.pages[page_id].url)

    def with_page(self, of: State, **changed: object) -> dict[bytes, bytes | None]:
        page_id = self.first(of)
        page = self.pages[page_id]._replace(**changed)  # type: ignore[arg-type]
        return {keys.page_key(page_id): records.encode_page(page)}

    def with_counts(self, **changed: int) -> dict[bytes, bytes | None]:
        counts = replace(records.COUNTS.decode(self.rows[keys.COUNTS]), **changed)
        return {keys.COUNTS: records.COUNTS.encode(counts)}

    def with_host(self, **changed: int) -> dict[bytes, bytes | None]:
        row = records.HOST.decode(self.rows[keys.host_key(HOST)])
        return {keys.host_key(HOST): records.HOST.encode(replace(row, **changed))}

    def moved(self) -> dict[bytes, bytes | None]:
        key = next(key for key in self.keys_of(keys.QUEUE) if key.startswith(b"q" + HOST.encode()))
        return {key: None, queue_prefix("h2.example") + key.partition(b"\0")[2]: b""}

    def twice(self) -> dict[bytes, bytes | None]:
        """The oldest queued page under a second id, in the queue, but not in the index."""
        page = self.pages[self.first(State.QUEUED)]
        place = queue_prefix(page.url.split("/")[2]) + sort_key(0, 7, 60, 60)
        return {keys.page_key(60): records.encode_page(page), place: b""}


Change = dict[bytes, bytes | None]
PACKED = link_rows.pack(0, b"", [(page_id, encode_row(page_id, [Edge(7)])) for page_id in range(9)])
COOLDOWN = records.COOLDOWN.encode(records.Cooldown(NOW + 900, 4, NOW, "HTTP 503"))
ROBOTS = records.ROBOTS.encode(records.RobotsCopy(body=b"User-agent: *"))
LINKS = encode_row(3, [Edge(7), Edge(5, INTERNAL)])
LONG_ID = bytes.fromhex("ceff60a0d378ee7f")

# What is done to the rows, and the kinds of what a check must find.
DAMAGES: dict[str, tuple[Callable[[Stored], Change], list[str]]] = {
    "no queue row": (lambda kept: {kept.keys_of(keys.QUEUE)[0]: None}, ["missing row"]),
    "no waiting row": (lambda kept: {kept.keys_of(keys.WAITING)[0]: None}, ["missing row"]),
    "queue row of no page": (
        lambda kept: {queue_prefix(HOST) + sort_key(0, 7, 900, 900): b""},
        ["stray row"],
    ),
    "waiting row of no page": (
        lambda kept: {
            queue_keys.waiting_key(5.0, 900): queue_keys.pack_sort_key(sort_key(0, 7, 900, 900), HOST)
        },
        ["stray row"],
    ),
    "queue row of a finished page": (
        lambda kept: {queue_prefix("h0.example") + sort_key(0, 7, *(kept.first(State.DONE),) * 2): b""},
        ["stray row"],
    ),
    "second queue row": (
        lambda kept: {
            kept.keys_of(keys.QUEUE)[0].partition(b"\0")[0]
            + b"\0"
            + sort_key(-5, 7, 900, queue_keys.sort_key_id(kept.keys_of(keys.QUEUE)[0])): b""
        },
        ["stray row"],
    ),
    "in the queue of another host": (Stored.moved, ["missing row", "stray row"]),
    "nonsense in queues": (
        lambda kept: {queue_prefix(HOST) + b"abc": b"", keys.WAITING + b"abc": b"x", keys.DUE + b"?": b""},
        ["stray row"] * 3,
    ),
    "deferred row of a queued page": (
        lambda kept: {keys.deferred_key(HOST, kept.first(State.QUEUED)): b"", keys.DEFERRED + b"?": b""},
        ["stray row"] * 2,
    ),
    "wrong counts": (
        lambda kept: kept.with_counts(hosts=1, next_page=4, due=7, queued_again=9),
        ["wrong row"],
    ),
    "no counts": (lambda kept: {keys.COUNTS: None}, ["wrong row"]),
    "unreadable counts": (lambda kept: {keys.COUNTS: b"?"}, ["wrong row"]),
    "wrong host row": (lambda kept: kept.with_host(queued=90, failed=0), ["wrong row"]),
    "no host row": (lambda kept: {keys.host_key(HOST): None}, ["missing row"]),
    "unreadable host row": (lambda kept: {keys.host_key(HOST): b"?"}, ["unreadable row"]),
    "host that is no text": (lambda kept: {keys.HOST + b"\xa0\x91": bytes(50)}, ["unreadable row"]),
    "index rows to nowhere": (
        lambda kept: {keys.INDEX + b"n" * 20: keys.id_bytes(900), keys.INDEX + b"m" * 20: b"odd"},
        ["stray row"] * 2,
    ),
    "second index row": (lambda kept: {keys.INDEX + b"\xff" * 20: keys.id_bytes(3)}, ["stray row"]),
    "no index row": (lambda kept: {kept.index_key(3): None}, ["missing row"]),
    "page twice": (Stored.twice, ["page twice", "wrong row", "wrong row"]),
    "leased page": (lambda kept: kept.with_page(State.QUEUED, state=State.LEASED), ["impossible page"]),
    "deferred though finished": (
        lambda kept: kept.with_page(State.DONE, is_deferred=True),
        ["impossible page"],
    ),
    "visit of nothing": (
        lambda kept: {keys.page_key(keys.FIRST_VISIT): b""},
        ["unreadable row", "wrong row", "wrong row", "stray row"],
    ),
    "page with a long key": (lambda kept: {keys.PAGE + LONG_ID: b"\0\1\2"}, ["unreadable row"]),
    "orders": (lambda kept: {orders_key(HOST): b"?"}, ["unreadable row"]),
    "torn links": (lambda kept: {keys.link_key(3): LINKS[:-1]}, ["unreadable row"]),
    "links to nowhere": (lambda kept: {keys.link_key(3): encode_row(3, [Edge(700)])}, ["unreadable row"]),
    "links with a long key": (lambda kept: {keys.LINK_ROW + LONG_ID: b"\0\1\2"}, ["unreadable row"]),
    "torn segment": (lambda kept: {keys.segment_key(0): PACKED[:-2]}, ["unreadable row"]),
    "scores": (
        lambda kept: {records.column_key("score", 0): b"123", keys.content_key(2): b"\x7f\xc0\0\0"},
        ["unreadable row"] * 2,
    ),
    "robots.txt": (lambda kept: {robots_key("http://h1.example"): ROBOTS[:-4]}, ["unreadable row"]),
    "sitemaps": (lambda kept: {sitemaps_key("http://h1.example"): b"[]"}, ["unreadable row"]),
    "cooldown": (lambda kept: {cooldown_key(HOST): COOLDOWN[:13]}, ["unreadable row"]),
    "rates": (lambda kept: {keys.rates_key(HOST): b"\x7f\xc0\0\0" * 5}, ["unreadable row"]),
}


def damaged(directory: Path, *names: str) -> list[str]:
    sound, changed, found = Stored(rows(directory), pages(directory)), Change(), []
    for name in names:
        do, kinds = DAMAGES[name]
        changed |= do(sound)
        found += kinds
    put = {key: value for key, value in changed.items() if value is not None}
    change(directory, put, tuple(key for key, value in changed.items() if value is None))
    return found


def kinds_of(directory: Path, repair: bool = False) -> list[str]:
    return sorted(finding.kind for finding in check(directory, repair))


def test_a_sound_store_has_nothing_to_find(tmp_path: Path) -> None:
    start(tmp_path / "empty").close()
    crawl(tmp_path)
    for directory in (tmp_path / "empty", tmp_path):
        before = rows(directory)
        assert check(directory) == check(directory, repair=True) == []
        assert rows(directory) == before


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_found_and_mended_and_no_page_is_lost(tmp_path: Path, name: str) -> None:
    crawl(tmp_path)
    urls = {page.url for page in pages(tmp_path).values()}
    kinds = damaged(tmp_path, name)
    hurt = rows(tmp_path)
    assert kinds_of(tmp_path) == sorted(kinds)
    assert rows(tmp_path) == hurt, "looking changes nothing"

    assert all(finding.is_mended for finding in check(tmp_path, repair=True))
    assert check(tmp_path) == []
    found = pages(tmp_path).values()
    assert {page.url for page in found} == urls
    queued = {page.url for page in found if page.state is State.QUEUED}
    if name.startswith("orders"):  # it may have been a block, so the host is left alone
        queued = {url for url in queued if f"//{HOST}" not in url}
    assert set(order(tmp_path, 100)) == queued, "every queued page can be leased"


def test_every_kind_is_shown_by_a_damage() -> None:
    assert {kind for _, kinds in DAMAGES.values() for kind in kinds} == set(KINDS)


@pytest.mark.parametrize("seed", range(4))
def test_many_damages_at_once_are_mended(tmp_path: Path, seed: int) -> None:
    crawl(tmp_path)
    dice = random.Random(seed)
    damaged(tmp_path, *dice.sample(sorted(DAMAGES), 12))
    kept = rows(tmp_path)
    for key in dice.sample(sorted(kept), 20):
        value = bytearray(kept[key] or b"?")
        value[dice.randrange(len(value))] ^= 1 << dice.randrange(8)
        if not key.startswith((b"mformat", b"mscheme")):
            change(tmp_path, {key: bytes(value)})
    check(tmp_path, repair=True)
    left = [finding for finding in check(tmp_path) if "cannot be rebuilt" not in finding.detail]
    assert left == []


@pytest.mark.parametrize(("state", "cut"), [(State.GONE, 3), (State.QUEUED, 0)])
def test_a_damaged_page_keeps_its_bytes_and_what_can_be_read(tmp_path: Path, state: State, cut: int) -> None:
    crawl(tmp_path)
    page_id = first(tmp_path, state)
    was = pages(tmp_path)[page_id]
    hurt = rows(tmp_path)[keys.page_key(page_id)][:-cut] if cut else b"\x01\x02"
    change(tmp_path, {keys.page_key(page_id): hurt})
    assert "unreadable row" in kinds_of(tmp_path, repair=True)
    assert check(tmp_path) == []
    page = pages(tmp_path)[page_id]
    expected = (was.url, State.GONE) if cut else ("", State.FAILED)
    assert (page.url, page.state, page.reason) == (*expected, reasons.DAMAGED())
    assert rows(tmp_path)[keys.aside_key(page_id)] == hurt


def test_what_the_crawl_has_set_aside_is_mended(tmp_path: Path) -> None:
    crawl(tmp_path)
    change(tmp_path, {keys.page_key(first(tmp_path, State.QUEUED)): b"\x01\x02"})
    frontier = start(tmp_path)
    while frontier.lease(NOW) is not None:
        pass
    assert len(frontier.drain_events().set_aside) == 1
    frontier.close()
    assert "unreadable row" in kinds_of(tmp_path, repair=True)
    assert check(tmp_path) == []


def test_a_repaired_queue_keeps_the_scores(tmp_path: Path) -> None:
    crawl_web(tmp_path)
    before = queued_buckets(tmp_path)
    change(tmp_path, delete=tuple(key for key in rows(tmp_path) if key[:1] == keys.QUEUE))
    check(tmp_path, repair=True)
    after = queued_buckets(tmp_path)
    assert after.keys() == before.keys()
    near = sum(abs(after[page_id] - bucket) < 300 for page_id, bucket in before.items())
    assert near > 0.8 * len(before), "the crawl moves a row only if its score has changed by much"


def queued_buckets(directory: Path) -> dict[int, int]:
    queued = [key for key in rows(directory) if key[:1] == keys.QUEUE]
    return {
        queue_keys.sort_key_id(key): queue_keys.sort_key_bucket(key.partition(b"\0")[2]) for key in queued
    }


# -- one page twice ----------------------------------------------------------------------------------------

URL = "http://a.example/x"
PAUSED, TRIED = Outcome(Event.POSTPONED), Outcome(Event.RETRIED, delay=60.0)
FORBIDDEN = Outcome(Event.EXCLUDED, reason=reasons.FORBIDDEN(origin="http://a.example", rule="Disallow: /"))


@pytest.mark.parametrize(
    "outcomes",
    [[], [TRIED], [FETCHED], [FETCHED, PAUSED], [FETCHED, TRIED], [FORBIDDEN], [FORBIDDEN, PAUSED]],
)
def test_nothing_is_left_of_the_page_that_goes(tmp_path: Path, outcomes: list[Outcome]) -> None:
    """It waits, was read and comes back, or stands in a queue for that; then it lost its index row."""
    for day, outcome in enumerate([PAUSED, *outcomes]):
        now = NOW + 8 * 86400 * day
        frontier = start(tmp_path, now, revisits=RevisitRule())
        frontier.discover([link(URL)], now)
        fetch(frontier, outcome, now)
        frontier.close()
    change(tmp_path, delete=(keys.INDEX + fingerprint(URL),))
    frontier = start(tmp_path, now)
    frontier.discover([link(URL)], now)
    frontier.close()
    assert "page twice" in kinds_of(tmp_path, repair=True)
    assert check(tmp_path) == []
    assert list(pages(tmp_path)) == [1]


@pytest.mark.parametrize(
    ("older", "newer", "kept"),
    [
        ({"state": State.QUEUED}, {"state": State.SEEN}, 0),
        ({"state": State.DONE}, {"state": State.SEEN}, 0),
        ({"state": State.SEEN}, {"state": State.SEEN}, 0),
        ({"state": State.SEEN}, {"state": State.DONE}, 1),
        ({"state": State.REDIRECTED, "target": 9}, {"state": State.QUEUED}, 1),
        ({"state": State.DONE}, {"state": State.REDIRECTED, "target": 9}, 0),
        ({"state": State.SEEN}, {"state": State.REDIRECTED, "target": 0}, 0),
        ({"state": State.DONE}, {"state": State.QUEUED}, 1),
    ],
)
def test_the_page_that_is_worth_more_stays(
    tmp_path: Path, older: dict[str, object], newer: dict[str, object], kept: int
) -> None:
    """The newer one is in the index."""
    start(tmp_path).close()
    for page_id, about in enumerate((older, newer)):
        page = records.Page(URL, discovered=1, changed=1)._replace(**about)  # type: ignore[arg-type]
        change(tmp_path, {keys.page_key(page_id): records.encode_page(page)})
    change(tmp_path, {keys.INDEX + fingerprint(URL): keys.index_value(1)})
    check(tmp_path, repair=True)
    assert check(tmp_path) == []
    assert list(pages(tmp_path)) == [kept]
    assert keys.id_in(rows(tmp_path)[keys.INDEX + fingerprint(URL)]) == kept


@pytest.mark.parametrize("is_packed", [False, True])
def test_the_links_of_the_page_that_goes_go(tmp_path: Path, is_packed: bool) -> None:
    start(tmp_path).close()
    links = [(page_id, encode_row(page_id, [Edge(0)])) for page_id in (0, 1)]
    put = {keys.page_key(page_id): records.encode_page(records.Page(URL)) for page_id in (0, 1)}
    put |= {keys.link_key(page_id): row for page_id, row in links}
    if is_packed:
        put = {key: value for key, value in put.items() if key[:1] == keys.PAGE}
        put[keys.segment_key(0)] = link_rows.pack(0, b"", links)
    change(tmp_path, {**put, keys.INDEX + fingerprint(URL): keys.index_value(0)})
    check(tmp_path, repair=True)
    store = Store(tmp_path)
    assert [find_row(page_id, store.get) for page_id in (0, 1)] == [[Edge(0)], []]
    store.close()


# -- the command -------------------------------------------------------------------------------------------


def test_a_store_of_another_project_is_checked_but_its_index_is_not_guessed(tmp_path: Path) -> None:
    crawl(tmp_path)
    damaged(tmp_path, "no index row")
    store = Store(tmp_path)
    found = list(Check(store, None, 0.0, repair=True).run())
    store.close()
    assert [(finding.kind, finding.is_mended) for finding in found] == [("missing row", False)]


def test_the_command_says_what_it_found_and_mended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl(tmp_path)
    frontier = Frontiers(tmp_path, capsys)
    assert frontier("check").code == 0
    damaged(tmp_path, "queue row of no page")
    damaged(tmp_path, "no index row")
    said = frontier("check")
    assert said.code == 1
    assert "stray row: 1" in said.out
    assert "2 of them not mended; `scrapy frontier check --repair`" in " ".join(said.out.split())
    assert frontier("check", "--json").json["kinds"] == {"stray row": 1, "missing row": 1}
    assert frontier("check", "--repair").code == 0
    assert frontier("check", "--json").json["found"] == 0


def test_a_future_format_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crawl(tmp_path)
    change(tmp_path, {keys.FORMAT: b"99"})
    said = Frontiers(tmp_path, capsys)("check", "--repair")
    assert (said.code, "format 99" in said.err) == (1, True)


def test_what_a_repair_of_files_lost_of_the_format_is_written_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`plyvel.repair_db` keeps the rows of the tables it can read, and these may be in another."""
    crawl(tmp_path)
    before = sorted(order(tmp_path, 100))
    change(tmp_path, delete=(keys.FORMAT, keys.SCHEME, keys.COUNTS))
    frontier = Frontiers(tmp_path, capsys)
    assert frontier("check", "--repair").code == 0
    assert frontier("check").code == 0
    assert sorted(order(tmp_path, 100)) == before


def test_counts_that_are_gone_stop_a_crawl(tmp_path: Path) -> None:
    crawl(tmp_path)
    change(tmp_path, delete=(keys.COUNTS,))
    store = Store(tmp_path)
    with pytest.raises(FrontierUnreadable, match="check --repair"):
        Frontier(store, NOW)
    store.close()


def test_another_database_is_no_frontier_to_repair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with plyvel.DB(str(tmp_path / "leveldb"), create_if_missing=True) as database:
        database.put(b"page", b"of another program")
    said = Frontiers(tmp_path, capsys)("check", "--repair")
    assert (said.code, "not a frontier" in said.err) == (1, True)
    with plyvel.DB(str(tmp_path / "leveldb")) as database:
        assert list(database) == [(b"page", b"of another program")]
