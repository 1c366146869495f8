"""Keys: byte order is the wanted order."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_frontier.core.parse import urls
from scrapy_frontier.core.store import keys, queue_keys, records

PRIORITIES = st.integers(-queue_keys.MAX_PRIORITY, queue_keys.MAX_PRIORITY)
BUCKETS = st.integers(0, 0xFFFF)
PAGE_IDS = st.integers(0, keys.FIRST_VISIT - 1)
VISIT_IDS = st.integers(keys.FIRST_VISIT, keys.MAX_ID)


class Queued(NamedTuple):
    priority: int
    bucket: int
    arrival: int
    page_id: int

    @property
    def sort_key(self) -> bytes:
        return queue_keys.sort_key(*self)

    @property
    def wanted(self) -> tuple[int, int, int, bool, int]:
        """What the order should be: a new page comes before what else has the same arrival."""
        return -self.priority, -self.bucket, self.arrival, self.arrival != self.page_id, self.page_id


def queued(page_ids: st.SearchStrategy[int]) -> st.SearchStrategy[Queued]:
    close = st.builds(Queued, st.integers(-2, 2), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2))
    return close | st.builds(Queued, PRIORITIES, BUCKETS, PAGE_IDS, page_ids)


@given(queued(PAGE_IDS | VISIT_IDS), queued(PAGE_IDS | VISIT_IDS))
def test_sort_keys_order_by_priority_then_score_then_arrival(one: Queued, other: Queued) -> None:
    assert (one.sort_key < other.sort_key) == (one.wanted < other.wanted)
    assert (one.sort_key == other.sort_key) == (one == other)


@given(queued(PAGE_IDS | VISIT_IDS))
def test_a_sort_key_tells_its_page(entry: Queued) -> None:
    assert queue_keys.sort_key_id(entry.sort_key) == entry.page_id


@given(PRIORITIES, BUCKETS, PAGE_IDS, VISIT_IDS)
def test_a_further_visit_comes_right_behind_the_newest_page(
    priority: int, bucket: int, arrival: int, visit: int
) -> None:
    page, next_page = (
        queue_keys.sort_key(priority, bucket, arrival, arrival),
        queue_keys.sort_key(priority, bucket, arrival + 1, arrival + 1),
    )
    assert page < queue_keys.sort_key(priority, bucket, arrival, visit) < next_page


@given(st.integers())
def test_a_priority_out_of_range_counts_as_the_nearest_in_range(priority: int) -> None:
    clamped = min(max(priority, -queue_keys.MAX_PRIORITY), queue_keys.MAX_PRIORITY)
    assert queue_keys.sort_key(priority, 0, 0, 0) == queue_keys.sort_key(clamped, 0, 0, 0)


@given(st.floats(0, 1e11), st.floats(0, 1e11), PAGE_IDS, PAGE_IDS)
def test_waiting_rows_are_ordered_by_time(sooner: float, later: float, one: int, other: int) -> None:
    sooner, later = sorted((sooner, later))
    first, second = queue_keys.waiting_key(sooner, one), queue_keys.waiting_key(later, other)
    assert first <= second or int(sooner * 1e6) == int(later * 1e6)
    assert queue_keys.waiting_time(first) == pytest.approx(sooner, abs=1e-4)
    assert queue_keys.sort_key_id(first) == one


def test_a_time_before_1970_waits_for_nothing() -> None:
    assert queue_keys.waiting_time(queue_keys.waiting_key(-1.0, 7)) == 0.0


@given(st.text())
@example("a\0b")
@example("\ud800.example")
@example("bücher.example")
def test_a_clean_host_can_stand_in_a_key(name: str) -> None:
    host = urls.clean_host(name)
    assert b"\0" not in host.encode()
    assert urls.clean_host(host) == host
    assert keys.host_key(host)[1:].decode() == host


@given(st.from_regex(r"[a-z0-9.-]*", fullmatch=True))
def test_an_ordinary_host_is_clean_already(name: str) -> None:
    assert urls.clean_host(name) == name


@given(st.from_regex(r"[a-z0-9.@*-]*", fullmatch=True), PAGE_IDS)
def test_a_deferred_row_tells_its_host_and_its_page(host: str, page_id: int) -> None:
    assert keys.split_deferred_key(keys.deferred_key(host, page_id)) == (host, page_id)


def test_the_rows_of_a_host_lie_apart_from_those_of_a_longer_name() -> None:
    row = queue_keys.queue_prefix("a.example.org") + queue_keys.sort_key(0, 0, 1, 1)
    assert not row.startswith(queue_keys.queue_prefix("a.example"))


@given(queued(PAGE_IDS | VISIT_IDS), st.text().map(urls.clean_host))
def test_a_waiting_row_holds_sort_key_and_host(entry: Queued, host: str) -> None:
    assert queue_keys.unpack_sort_key(queue_keys.pack_sort_key(entry.sort_key, host)) == (
        entry.sort_key,
        host,
    )


# One of each kind of row, by what stands in the table of docs/internals/format.md.
GOLDEN_KEYS = {
    "format": (keys.FORMAT, b"mformat".hex()),
    "key scheme": (keys.SCHEME, b"mscheme".hex()),
    "counts": (keys.COUNTS, b"mcounts".hex()),
    "spider": (keys.SPIDER, b"mspider".hex()),
    "clean mark": (keys.CLEAN, b"mclean".hex()),
    "last ranking": (keys.RANKING, b"mranking".hex()),
    "rates of all": (keys.RATES_OF_ALL, b"mrates".hex()),
    "revisits": (keys.REVISIT, b"mrevisit".hex()),
    "index": (keys.INDEX + b"\1\2", "66 0102"),
    "links": (keys.link_key(258), "67 0000000102"),
    "segment": (keys.segment_key(8191), "73 0000001000"),
    "column": (records.column_key("rank", 4096), "76 72616e6b 00 0000001000"),
    "content": (keys.content_key(258), "63 0000000102"),
    "page": (keys.page_key(258), "70 0000000102"),
    "queue": (queue_keys.queue_prefix("a.example"), "71 612e6578616d706c65 00"),
    "rates": (keys.rates_key("a.example"), "75 612e6578616d706c65"),
    "due": (records.due_key(1_700_000_000, 258), "6e 6553f100 0000000102"),
    "waiting": (queue_keys.waiting_key(1_700_000_000.25, 9), "77 00060a2418221090 0000000009"),
    "host": (keys.host_key("a.example"), "68 612e6578616d706c65"),
    "aside": (keys.aside_key(258), "78 0000000102"),
    "deferred": (keys.deferred_key("a.example", 258), "64 612e6578616d706c65 00 0000000102"),
    "robots": (keys.robots_key("http://h:81"), "72 687474703a2f2f683a3831"),
    "due queue": (queue_keys.due_prefix("a"), "61 61 00"),
    "sitemaps": (keys.sitemaps_key("http://h:81"), "6c 687474703a2f2f683a3831"),
    "orders": (keys.orders_key("a.example"), "6f 612e6578616d706c65"),
    "cooldown": (keys.cooldown_key("a.example"), "74 612e6578616d706c65"),
    "focus": (keys.FOCUS, "6d666f637573"),
    "outbox": (keys.outbox_key(258), "7a 0000000000000102"),
    "last batch": (keys.LAST_BATCH, "6d6261746368"),
}
GOLDEN_PARTS = {
    "index value": (keys.index_value(258), "0000000102"),
    "index value of a page only seen": (keys.index_value(258, is_marked=True), "0000000102 00"),
    "sort key": (queue_keys.sort_key(0, 0x8000, 7, 7), "7fffffff 7fff 0000000007"),
    "better sort key": (queue_keys.sort_key(100, 0xFFFF, 7, 7), "7fffff9b 0000 0000000007"),
    "sort key of a visit": (
        queue_keys.sort_key(-1, 0, 7, keys.FIRST_VISIT + 1),
        "80000000 ffff 0000000007 8000000001",
    ),
    "due key": (
        queue_keys.due_sort_key(0x0203, 3600 * 7, 258),
        "fdfc 000007 0000000102",
    ),
    "waiting value": (
        queue_keys.pack_sort_key(queue_keys.sort_key(0, 0, 0, 0), "h"),
        "0b 7fffffff ffff 0000000000 68",
    ),
}
PREFIXES = [value for name, value in vars(keys).items() if name.isupper() and isinstance(value, bytes)]


@pytest.mark.parametrize(
    ("key", "golden"), [*GOLDEN_KEYS.values(), *GOLDEN_PARTS.values()], ids=[*GOLDEN_KEYS, *GOLDEN_PARTS]
)
def test_golden_bytes(key: bytes, golden: str) -> None:
    assert key.hex() == golden.replace(" ", "")


def test_every_kind_of_row_has_a_key_of_golden_bytes() -> None:
    pinned = [key for key, _ in GOLDEN_KEYS.values()]
    assert [prefix for prefix in PREFIXES if not any(key.startswith(prefix) for key in pinned)] == []
    assert len(PREFIXES) > 25


def test_the_format_names_the_rows_as_their_golden_bytes_do() -> None:
    text = (Path(__file__).parents[2] / "docs/internals/format.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| ([a-z ]+) \| `(\w+)`", text, re.MULTILINE)
    assert [name for name, begin in table if not GOLDEN_KEYS[name][0].startswith(begin.encode())] == []
    assert {name for name in GOLDEN_KEYS if "deferred by" not in name} == {name for name, _ in table}


def test_rows_of_different_kinds_never_mix() -> None:
    assert len(set(PREFIXES)) == len(PREFIXES)
    assert {prefix[:1] for prefix in PREFIXES if len(prefix) > 1} == {b"m"}
    assert b"m" not in PREFIXES
