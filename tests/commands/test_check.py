"""`check` finds each kind of damage, `--repair` heals it, and no page is lost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import plyvel
import pytest
from stores import (
    FETCHED,
    NOW,
    Frontiers,
    change,
    check,
    crawl,
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
from scrapy_frontier.core.admin.check import IS_KNOWN, IS_QUEUED, KINDS, Check, Ledger, gives_way, settle
from scrapy_frontier.core.errors import FrontierUnreadable
from scrapy_frontier.core.frontier import Frontier, Outcome
from scrapy_frontier.core.ranking.graph import find_row
from scrapy_frontier.core.reasons import DAMAGED
from scrapy_frontier.core.revisits.plans import RevisitRule
from scrapy_frontier.core.store import keys, link_rows, queue_keys, records
from scrapy_frontier.core.store.keys import State, cooldown_key, orders_key, robots_key, sitemaps_key
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.link_rows import INTERNAL, Edge, encode_row
from scrapy_frontier.core.store.queue_keys import find_place
from scrapy_frontier.core.store.records import Cooldown, Page, RobotsCopy, encode_cooldown, encode_copy
from scrapy_frontier.core.transitions import Event

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass
class Damage:
    """What to do to the rows of a store, and the kinds of findings that must come of it."""

    do: Callable[[Path], None]
    kinds: list[str]
    urls_lost: int = 0  # whose bytes say nothing any more


def queued_keys(directory: Path) -> list[bytes]:
    return [key for key in rows(directory) if key[:1] == keys.QUEUE]


def waiting_keys(directory: Path) -> list[bytes]:
    return [key for key in rows(directory) if key[:1] == keys.WAITING]


def index_key(directory: Path, page_id: int) -> bytes:
    return keys.INDEX + fingerprint(pages(directory)[page_id].url)


def torn_robots_row(directory: Path) -> None:
    change(directory, {robots_key("http://h1.example"): encode_copy(RobotsCopy(body=b"User-agent: *"))[:-4]})


def missing_queue_row(directory: Path) -> None:
    change(directory, delete=(queued_keys(directory)[0],))


def missing_waiting_row(directory: Path) -> None:
    change(directory, delete=(waiting_keys(directory)[0],))


def orphan_queue_row(directory: Path) -> None:
    change(directory, {queue_keys.queue_prefix("h1.example") + queue_keys.sort_key(0, 7, 900, 900): b""})


def orphan_waiting_row(directory: Path) -> None:
    sort_key = queue_keys.sort_key(0, 7, 900, 900)
    change(directory, {queue_keys.waiting_key(5.0, 900): queue_keys.pack_sort_key(sort_key, "h1.example")})


def row_of_a_finished_page(directory: Path) -> None:
    done = first(directory, State.DONE)
    change(directory, {queue_keys.queue_prefix("h0.example") + queue_keys.sort_key(0, 7, done, done): b""})


def second_queue_row(directory: Path) -> None:
    key = next(key for key in queued_keys(directory) if b"\0" in key)
    host, _, sort_key = key[1:].partition(b"\0")
    page_id = queue_keys.sort_key_id(sort_key)
    again = queue_keys.sort_key(-5, 7, 900, page_id)
    change(directory, {queue_keys.queue_prefix(host.decode()) + again: b""})


def waiting_and_queued(directory: Path) -> None:
    key = waiting_keys(directory)[0]
    page_id = int.from_bytes(key[9:], "big")
    host = pages(directory)[page_id].url.split("/")[2]
    change(directory, {queue_keys.queue_prefix(host) + queue_keys.sort_key(0, 7, page_id, page_id): b""})


def row_of_another_host(directory: Path) -> None:
    key = next(key for key in queued_keys(directory) if key.startswith(b"qh1.example"))
    change(directory, {b"qh2.example" + key[11:]: b""}, delete=(key,))


def bad_queue_row(directory: Path) -> None:
    change(directory, {queue_keys.queue_prefix("h1.example") + b"abc": b"", keys.WAITING + b"abc": b"x"})


def wrong_counts(directory: Path) -> None:
    counts = records.decode_counts(rows(directory)[keys.COUNTS])
    counts.states[State.DONE] += 3
    counts.next_page = 4
    change(directory, {keys.COUNTS: records.encode_counts(counts)})


def wrong_number_of_hosts(directory: Path) -> None:
    counts = records.decode_counts(rows(directory)[keys.COUNTS])
    counts.hosts -= 2
    change(directory, {keys.COUNTS: records.encode_counts(counts)})


def no_counts(directory: Path) -> None:
    change(directory, delete=(keys.COUNTS,))


def unreadable_counts(directory: Path) -> None:
    change(directory, {keys.COUNTS: b"?"})


def wrong_host_row(directory: Path) -> None:
    row = records.decode_host(rows(directory)[keys.host_key("h1.example")])
    row = replace(row, queued=row.queued + 2, failed=0)
    change(directory, {keys.host_key("h1.example"): records.encode_host(row)})


def no_host_row(directory: Path) -> None:
    change(directory, delete=(keys.host_key("h1.example"),))


def unreadable_host_row(directory: Path) -> None:
    change(directory, {keys.host_key("h1.example"): b"?"})


def index_to_nowhere(directory: Path) -> None:
    change(directory, {keys.INDEX + b"n" * 20: keys.id_bytes(900), keys.INDEX + b"m" * 20: b"odd"})


def second_index_row(directory: Path) -> None:
    change(directory, {keys.INDEX + b"\0" * 20: keys.id_bytes(3)})


def page_without_index(directory: Path) -> None:
    change(directory, delete=(index_key(directory, 3),))


def page_twice(directory: Path) -> None:
    """The same page under a second id, without a row of its own in the index."""
    first_queued = first(directory, State.QUEUED)
    page = pages(directory)[first_queued]
    host = page.url.split("/")[2]
    sort_key = queue_keys.sort_key(0, 7, 60, 60)
    change(
        directory,
        {keys.page_key(60): records.encode_page(page), queue_keys.queue_prefix(host) + sort_key: b""},
    )
    row = records.decode_host(rows(directory)[keys.host_key(host)])
    counts = records.decode_counts(rows(directory)[keys.COUNTS])
    counts.states[State.QUEUED] += 1
    counts.next_page = 61
    host_row = records.encode_host(replace(row, queued=row.queued + 1))
    change(directory, {keys.host_key(host): host_row, keys.COUNTS: records.encode_counts(counts)})


def damaged_tail(directory: Path) -> None:
    """A finished page whose reason is cut off: its URL is legible."""
    key = keys.page_key(first(directory, State.GONE))
    change(directory, {key: rows(directory)[key][:-3]})


def damaged_page_in_two_index_rows(directory: Path) -> None:
    page_id = first(directory, State.GONE)
    damaged_tail(directory)
    change(directory, {keys.INDEX + b"\0" * 20: keys.id_bytes(page_id)})


def damaged_queued_page(directory: Path) -> None:
    key = queued_keys(directory)[0]
    change(directory, {keys.page_key(queue_keys.sort_key_id(key)): b"\x01\x02"})


def damaged_visit(directory: Path) -> None:
    change(directory, {keys.page_key(keys.FIRST_VISIT): b""})


def forbidden_row_of_nobody(directory: Path) -> None:
    change(directory, {keys.forbidden_prefix("http://h1.example") + keys.id_bytes(900): b""})


def unmarked_index_row(directory: Path) -> None:
    page_id = first(directory, State.QUEUED)
    page = pages(directory)[page_id]._replace(facts=records.IN_MEMORY)
    change(directory, {keys.page_key(page_id): records.encode_page(page)})


def leased_page(directory: Path) -> None:
    page_id = first(directory, State.QUEUED)
    page = pages(directory)[page_id]._replace(state=State.LEASED)
    change(directory, {keys.page_key(page_id): records.encode_page(page)})


def put_aside_though_finished(directory: Path) -> None:
    page_id = first(directory, State.DONE)
    page = pages(directory)[page_id]._replace(is_deferred=True)
    change(directory, {keys.page_key(page_id): records.encode_page(page)})


def bad_orders(directory: Path) -> None:
    change(directory, {orders_key("h1.example"): b'{"delay": -4}'})


def torn_links(directory: Path) -> None:
    change(directory, {keys.link_key(3): encode_row(3, [Edge(7), Edge(5, INTERNAL)])[:-1]})


def links_to_nowhere(directory: Path) -> None:
    change(directory, {keys.link_key(3): encode_row(3, [Edge(700)])})


def torn_segment(directory: Path) -> None:
    packed = link_rows.pack(0, b"", [(page_id, encode_row(page_id, [Edge(7)])) for page_id in range(9)])
    change(directory, {keys.segment_key(0): packed[:-2]})


def torn_scores(directory: Path) -> None:
    change(directory, {records.column_key("score", 0): b"123", keys.content_key(2): b"?"})


def bad_sitemaps(directory: Path) -> None:
    change(directory, {sitemaps_key("http://h1.example"): b"[]"})


def torn_cooldown(directory: Path) -> None:
    row = encode_cooldown(Cooldown(NOW + 900, 4, NOW, "HTTP 503"))
    change(directory, {cooldown_key("h1.example"): row[:13]})


def torn_body_row(directory: Path) -> None:
    change(directory, {keys.body_key("h1.example", bytes(16)): b"\xff" * 9})


DAMAGES = [
    Damage(missing_queue_row, ["queued page without a row"]),
    Damage(missing_waiting_row, ["queued page without a row"]),
    Damage(orphan_queue_row, ["queue row that leads nowhere"]),
    Damage(orphan_waiting_row, ["queue row that leads nowhere"]),
    Damage(row_of_a_finished_page, ["queue row of a page that is not queued"]),
    Damage(second_queue_row, ["second queue row of a page"]),
    Damage(waiting_and_queued, ["second queue row of a page"]),
    Damage(row_of_another_host, ["queue row in another host's queue"]),
    Damage(bad_queue_row, ["unreadable queue row", "unreadable queue row"]),
    Damage(wrong_counts, ["wrong counts"]),
    Damage(wrong_number_of_hosts, ["wrong counts"]),
    Damage(no_counts, ["wrong counts"]),
    Damage(unreadable_counts, ["wrong counts"]),
    Damage(wrong_host_row, ["wrong host row"]),
    Damage(no_host_row, ["missing host row"]),
    Damage(unreadable_host_row, ["unreadable host row"]),
    Damage(index_to_nowhere, ["index row that leads nowhere", "index row that leads nowhere"]),
    Damage(second_index_row, ["second index row of a page"]),
    Damage(page_without_index, ["page without an index row"]),
    Damage(unmarked_index_row, ["index row that hides a lost request"]),
    Damage(page_twice, ["page without an index row"]),
    Damage(damaged_tail, ["unreadable page", "wrong counts", "wrong host row"]),
    Damage(
        damaged_page_in_two_index_rows,
        ["unreadable page", "wrong counts", "wrong host row", "second index row of a page"],
    ),
    Damage(damaged_queued_page, ["unreadable page"], urls_lost=1),
    Damage(damaged_visit, ["unreadable page"]),
    Damage(forbidden_row_of_nobody, ["forbidden row that leads nowhere"]),
    Damage(leased_page, ["page kept as leased"]),
    Damage(put_aside_though_finished, ["page put aside that is not only seen"]),
    Damage(bad_orders, ["unreadable orders"]),
    Damage(torn_links, ["unreadable links"]),
    Damage(links_to_nowhere, ["unreadable links"]),
    Damage(torn_segment, ["unreadable links"]),
    Damage(torn_scores, ["unreadable scores", "unreadable scores"]),
    Damage(torn_robots_row, ["unreadable robots row"]),
    Damage(bad_sitemaps, ["unreadable list of sitemaps"]),
    Damage(torn_cooldown, ["unreadable cooldown"]),
    Damage(torn_body_row, ["unreadable body row"]),
]


def test_a_sound_store_has_nothing_to_find(tmp_path: Path) -> None:
    crawl(tmp_path)
    before = rows(tmp_path)
    assert check(tmp_path) == check(tmp_path, repair=True) == []
    assert rows(tmp_path) == before


def test_an_empty_store_has_nothing_to_find(tmp_path: Path) -> None:
    start(tmp_path).close()
    assert check(tmp_path) == []


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.do.__name__)
def test_damage_is_found_and_healed_and_no_page_is_lost(tmp_path: Path, damage: Damage) -> None:
    crawl(tmp_path)
    urls = {page.url for page in pages(tmp_path).values()}
    damage.do(tmp_path)
    hurt = rows(tmp_path)

    assert sorted(finding.kind for finding in check(tmp_path)) == sorted(damage.kinds)
    assert rows(tmp_path) == hurt, "looking changes nothing"

    mended = check(tmp_path, repair=True)
    assert mended
    assert all(finding.is_mended for finding in mended)
    assert check(tmp_path) == []
    assert len(urls - {page.url for page in pages(tmp_path).values()}) == damage.urls_lost
    queued = {page.url for page in pages(tmp_path).values() if page.state is State.QUEUED}
    if damage.do is bad_orders:  # it may have been a block, so the host is left alone
        queued = {url for url in queued if "//h1.example" not in url}
    assert set(order(tmp_path, 100)) == queued, "every queued page can be leased"


def test_every_kind_of_finding_is_one_that_a_damage_shows() -> None:
    shown = {kind for damage in DAMAGES for kind in damage.kinds}
    deferred = {kind for kind in KINDS if kind.startswith("deferred")}  # test_deferred.py shows these
    due = {kind for kind in KINDS if "due row" in kind or "rates" in kind}  # and test_revisits.py these
    assert shown | deferred | due | {"lost format"} == set(KINDS)  # the last one a test of its own


def test_the_page_that_is_kept_of_two_is_in_the_index(tmp_path: Path) -> None:
    crawl(tmp_path)
    page_twice(tmp_path)
    check(tmp_path, repair=True)
    kept = pages(tmp_path)
    assert 60 not in kept
    assert rows(tmp_path)[index_key(tmp_path, first(tmp_path, State.QUEUED))]


def test_a_damaged_page_keeps_its_bytes_and_what_is_legible(tmp_path: Path) -> None:
    crawl(tmp_path)
    page_id = first(tmp_path, State.GONE)
    was = pages(tmp_path)[page_id]
    damaged_tail(tmp_path)
    hurt = rows(tmp_path)[keys.page_key(page_id)]
    check(tmp_path, repair=True)
    page = pages(tmp_path)[page_id]
    assert (page.url, page.state, page.reason) == (was.url, State.GONE, DAMAGED())
    assert rows(tmp_path)[keys.aside_key(page_id)] == hurt


def test_what_the_crawl_has_set_aside_is_one_finding_and_heals(tmp_path: Path) -> None:
    crawl(tmp_path)
    damaged_queued_page(tmp_path)
    frontier = start(tmp_path)
    while frontier.lease(1_700_000_000.0) is not None:
        pass
    assert len(frontier.news().set_aside) == 1
    frontier.close()
    assert [finding.kind for finding in check(tmp_path)] == ["unreadable page"]
    assert all(finding.is_mended for finding in check(tmp_path, repair=True))
    assert check(tmp_path) == []


def test_a_waiting_row_that_cannot_be_read_keeps_nobody_waiting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl(tmp_path)
    queued = {page.url for page in pages(tmp_path).values() if page.state is State.QUEUED}
    key, value = next((key, value) for key, value in rows(tmp_path).items() if key[:1] == keys.WAITING)
    change(tmp_path, {key: value + b"\xff"})
    assert len(queued - set(order(tmp_path, 1000))) == 1
    assert Frontiers(tmp_path, capsys)("rank", "--scorer", "pagerank").code == 0
    check(tmp_path, repair=True)
    assert queued <= set(order(tmp_path, 1000))


def test_all_damage_at_once_heals(tmp_path: Path) -> None:
    crawl(tmp_path)
    alone = (waiting_and_queued, page_twice, leased_page, put_aside_though_finished, damaged_queued_page)
    alone += (damaged_page_in_two_index_rows,)
    for damage in DAMAGES:
        if damage.do not in alone:
            damage.do(tmp_path)
    check(tmp_path, repair=True)
    assert check(tmp_path) == []


@pytest.mark.parametrize("outcome", [Outcome(Event.POSTPONED), FETCHED, Outcome(Event.GONE, 404)])
def test_of_a_page_that_is_there_twice_the_one_to_be_fetched_or_that_was_stays(
    tmp_path: Path, outcome: Outcome
) -> None:
    """It lost its index row, and a link that is not to be followed led to it; later one that is."""
    frontier = start(tmp_path)
    frontier.discover([link("http://a.example/x")], NOW)
    fetch(frontier, outcome)
    frontier.close()
    change(tmp_path, delete=(keys.INDEX + fingerprint("http://a.example/x"),))
    frontier = start(tmp_path)
    frontier.discover([link("http://a.example/x", only_seen="nofollow")], NOW)
    frontier.close()
    found = [finding.kind for finding in check(tmp_path, repair=True)]
    assert found == ["page without an index row", "wrong counts"]
    assert check(tmp_path) == []
    frontier = start(tmp_path)
    frontier.discover([link("http://a.example/x")], NOW)
    frontier.close()
    assert order(tmp_path, 5) == ([] if outcome.status else ["http://a.example/x"])


PAUSED, TRIED = Outcome(Event.POSTPONED), Outcome(Event.RETRIED, delay=60.0)
FORBIDDEN = Outcome(Event.EXCLUDED, reason=reasons.FORBIDDEN(origin="http://a.example", rule="Disallow: /"))


@pytest.mark.parametrize(
    "outcomes",
    [[], [TRIED], [FETCHED], [FETCHED, PAUSED], [FETCHED, TRIED], [FORBIDDEN], [FORBIDDEN, PAUSED]],
)
def test_nothing_is_left_of_a_page_that_goes_because_it_is_there_twice(
    tmp_path: Path, outcomes: list[Outcome]
) -> None:
    """It waits, was read and comes back, or stands in a queue for that."""
    url = "http://a.example/x"
    for day, outcome in enumerate([PAUSED, *outcomes]):
        now = NOW + 8 * 86400 * day
        frontier = start(tmp_path, now, revisits=RevisitRule())
        frontier.discover([link(url)], now)
        fetch(frontier, outcome, now)
        frontier.close()
    change(tmp_path, delete=(keys.INDEX + fingerprint(url),))
    frontier = start(tmp_path, now)
    frontier.discover([link(url)], now)
    frontier.close()
    assert "page without an index row" in [finding.kind for finding in check(tmp_path, repair=True)]
    assert check(tmp_path) == []
    assert list(pages(tmp_path)) == [1]


@pytest.mark.parametrize("is_packed", [False, True])
def test_links_to_a_page_that_is_there_twice_lead_to_the_one_that_stays(
    tmp_path: Path, is_packed: bool
) -> None:
    """Of four the first goes, the second gives way to the third, and the links of the fourth go with it."""
    home, *urls = ("http://a.example/", *(f"http://a.example/{name}" for name in "abcd"))
    frontier = start(tmp_path)
    frontier.discover([link(home)], NOW)
    lease = frontier.lease(NOW)
    assert lease is not None
    frontier.discover([link(url, only_seen="nofollow") for url in urls[:2]], NOW, lease)
    frontier.discover([link(url) for url in urls[2:]], NOW, lease)
    frontier.release(lease, FETCHED._replace(has_links=True), NOW)
    lease = frontier.lease(NOW)
    while lease is not None and lease.page.url != urls[3]:
        lease = frontier.lease(NOW)
    assert lease is not None
    frontier.discover([link(home)], NOW, lease)
    frontier.release(lease, FETCHED._replace(has_links=True), NOW)
    frontier.close()
    if is_packed:
        links = [(source, rows(tmp_path)[keys.link_key(source)]) for source in (0, 4)]
        packed = {keys.segment_key(0): link_rows.pack(0, b"", links)}
        change(tmp_path, packed, tuple(keys.link_key(source) for source, _ in links))
    change(tmp_path, delete=tuple(keys.INDEX + fingerprint(urls[number]) for number in (0, 2, 3)))
    store = Store(tmp_path)
    its = {home: fingerprint(home)}
    found = list(Check(store, lambda page: its.get(page.url, fingerprint(urls[1])), NOW, repair=True).run())
    assert [finding.detail for finding in found][:3] == [f"the same page as {number}" for number in (2, 2, 3)]
    edges = [find_row(page_id, store.get) for page_id in range(5)]
    store.close()
    assert edges == [[Edge(3)], [], [], [], []]
    assert list(pages(tmp_path)) == [0, 3]


def test_redirects_and_parents_lead_to_the_page_that_stays(tmp_path: Path) -> None:
    """The first goes as it lost its index row, and came again by the page it led to; the one that this led to
    gives way."""
    home, on, last = (f"http://a.example/{name}" for name in ("", "on", "last"))
    frontier = start(tmp_path)
    frontier.discover([link(home)], NOW)
    fetch(frontier, Outcome(Event.POSTPONED))
    frontier.discover([link(on, parent=0), link(last, only_seen="nofollow", parent=0)], NOW)
    fetch(frontier)
    fetch(frontier, Outcome(Event.REDIRECTED, 301, target=2))
    frontier.close()
    for url in (home, last):
        change(tmp_path, delete=(keys.INDEX + fingerprint(url),))
        frontier = start(tmp_path)
        frontier.discover([link(url, parent=1)], NOW)
        frontier.close()
    assert [finding.detail for finding in check(tmp_path, repair=True)][:2] == [
        "the same page as 3",
        "the same page as 4",
    ]
    found = {page_id: (page.parent, page.target) for page_id, page in pages(tmp_path).items()}
    assert found == {1: (3, 4), 3: (None, None), 4: (1, None)}
    assert check(tmp_path) == []


def test_a_page_that_was_redirected_gives_way_to_the_same_page_that_is_to_be_fetched(tmp_path: Path) -> None:
    """Here the rows of the index are those of an earlier day, and the page was sent away and back since."""
    home = "http://a.example/"
    frontier = start(tmp_path)
    frontier.discover([link(home)], NOW)
    frontier.discover([link(f"{home}ask", parent=0)], NOW)
    fetch(frontier, Outcome(Event.REDIRECTED, 302, target=1))
    fetch(frontier, Outcome(Event.REDIRECTED, 302, target=2))
    frontier.close()
    before = keys.INDEX + fingerprint(home)
    value = rows(tmp_path)[before]
    change(tmp_path, delete=(before,))
    frontier = start(tmp_path)
    frontier.discover([link(home, parent=1)], NOW)
    frontier.close()
    change(tmp_path, {before: value})
    assert [finding.detail for finding in check(tmp_path, repair=True)][:1] == ["the same page as 0"]
    found = {page_id: (page.state, page.parent, page.target) for page_id, page in pages(tmp_path).items()}
    assert found == {1: (State.REDIRECTED, 2, 2), 2: (State.QUEUED, None, None)}
    assert check(tmp_path) == []


@pytest.mark.parametrize(
    ("page", "other", "goes"),
    [
        (Page("", State.SEEN), Page("", State.SEEN), False),
        (Page("", State.SEEN), Page("", State.REDIRECTED, target=9), True),
        (Page("", State.SEEN), Page("", State.REDIRECTED, target=1), False),
        (Page("", State.SEEN, is_deferred=True), Page("", State.REDIRECTED, target=9), False),
        (Page("", State.REDIRECTED, target=2), Page("", State.SEEN), True),
        (Page("", State.REDIRECTED, target=9), Page("", State.SEEN), False),
        (Page("", State.REDIRECTED, target=9), Page("", State.SEEN, is_deferred=True), True),
        (Page("", State.REDIRECTED, target=2), Page("", State.REDIRECTED, target=9), True),
        (Page("", State.REDIRECTED, target=9), Page("", State.REDIRECTED, target=1), False),
        (Page("", State.REDIRECTED, target=9), Page("", State.FAILED), True),
        (Page("", State.DONE), Page("", State.QUEUED), False),
    ],
)
def test_what_leads_to_the_same_page_or_is_less_than_that_is_to_go(
    page: Page, other: Page, goes: bool
) -> None:
    assert gives_way(1, page, 2, other) == goes


def test_of_many_that_went_one_by_one_the_last_stays() -> None:
    twins = {10: 0, **{number: number + 1 for number in range(9)}, 11: 9}
    settle(twins)
    assert set(twins.values()) == {9}


def test_a_store_of_another_project_is_checked_but_its_index_is_not_guessed(tmp_path: Path) -> None:
    crawl(tmp_path)
    page_without_index(tmp_path)
    store = Store(tmp_path)
    found = list(Check(store, None, 0.0, repair=True).run())
    store.close()
    assert [(finding.kind, finding.is_mended) for finding in found] == [("page without an index row", False)]


def test_the_command_tells_what_it_found_and_mended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl(tmp_path)
    frontier = Frontiers(tmp_path, capsys)
    assert frontier("check").code == 0
    orphan_queue_row(tmp_path)
    page_without_index(tmp_path)

    said = frontier("check")
    assert said.code == 1
    assert "queue row that leads nowhere: 1" in said.out
    assert "2 of them not mended; `scrapy frontier check --repair`" in " ".join(said.out.split())
    assert frontier("check", "--json").json["kinds"] == {
        "queue row that leads nowhere": 1,
        "page without an index row": 1,
    }
    assert frontier("check", "--repair").code == 0
    assert "All is as it must be" in frontier("check").out


def test_a_future_format_is_refused_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl(tmp_path)
    change(tmp_path, {keys.FORMAT: b"99"})
    for command in (("check",), ("check", "--repair"), ("stats",)):
        said = Frontiers(tmp_path, capsys)(*command)
        assert said.code == 1
        assert "format 99" in said.err


def test_what_a_salvage_lost_of_the_format_is_written_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`plyvel.repair_db` keeps the rows of the tables it can read, and these may be in another."""
    crawl(tmp_path)
    before = sorted(order(tmp_path, 100))
    change(tmp_path, delete=(keys.FORMAT, keys.SCHEME, keys.COUNTS))
    frontier = Frontiers(tmp_path, capsys)
    said = frontier("stats")
    assert said.code == 1
    assert "check --repair" in said.err
    said = frontier("check", "--repair")
    assert (said.code, "lost format: 1" in said.out, "wrong counts: 1" in said.out) == (0, True, True)
    assert frontier("check").code == 0
    assert sorted(order(tmp_path, 100)) == before


def test_counts_that_cannot_be_read_are_mended_where_there_is_nothing_to_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start(tmp_path).close()
    change(tmp_path, {keys.COUNTS: b"?"})
    frontier = Frontiers(tmp_path, capsys)
    assert "check --repair" in frontier("add", "http://a.example/").err
    assert [finding.detail for finding in check(tmp_path)] == ["they cannot be read"]
    assert frontier("check", "--repair").code == 0
    assert frontier("add", "http://a.example/").code == 0
    assert frontier("check").code == 0


def test_pages_without_counts_are_not_written_over(tmp_path: Path) -> None:
    crawl(tmp_path)
    change(tmp_path, delete=(keys.COUNTS,))
    store = Store(tmp_path)
    with pytest.raises(FrontierUnreadable, match="check --repair"):
        Frontier(store, NOW)
    store.close()
    assert [finding.kind for finding in check(tmp_path, repair=True)] == ["wrong counts"]
    start(tmp_path).close()


def test_another_database_is_no_frontier_to_repair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with plyvel.DB(str(tmp_path / "leveldb"), create_if_missing=True) as database:
        database.put(b"page", b"of somebody else")
    said = Frontiers(tmp_path, capsys)("check", "--repair")
    assert (said.code, "not a frontier" in said.err) == (1, True)
    with plyvel.DB(str(tmp_path / "leveldb")) as database:
        assert list(database) == [(b"page", b"of somebody else")]


def test_a_page_is_found_in_its_place(tmp_path: Path) -> None:
    frontier = start(tmp_path)
    frontier.discover([link(f"http://a.example/{number}") for number in range(5)], 0.0)
    fetch(frontier)
    frontier.close()
    store = Store(tmp_path)
    place = find_place(store, 3, "a.example")
    assert place is not None
    assert (place.ahead, place.waits_until, queue_keys.sort_key_id(place.sort_key)) == (2, None, 3)
    assert find_place(store, 0, "a.example") is None
    store.close()


def test_the_ledger_holds_ids_that_are_far_apart() -> None:
    ledger = Ledger()
    for page_id in (0, 4095, 4096, keys.FIRST_VISIT + 7):
        ledger.enter(page_id, IS_KNOWN | IS_QUEUED, "a.example")
    ledger.enter(9, IS_KNOWN, "b.example")
    assert list(ledger.having(IS_KNOWN | IS_QUEUED)) == [0, 4095, 4096, keys.FIRST_VISIT + 7]
    assert list(ledger.having(IS_KNOWN, IS_QUEUED)) == [9]
    assert ledger[1] == ledger[1 << 39] == 0
    assert ledger.is_of(9, "b.example")
    assert not ledger.is_of(9, "a.example")
