"""Rows: the bytes on disk, pinned; everything comes back; garbage is refused in one way only."""

import re
import zlib
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from scrapy_frontier.core.errors import UnreadableRow
from scrapy_frontier.core.hosts.host import Host, Politeness
from scrapy_frontier.core.revisits.policy import Result
from scrapy_frontier.core.store import keys, queue_keys, records
from scrapy_frontier.core.store.batch import Batch, BloomFilter
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import (
    BadVisits,
    Cooldown,
    Counts,
    History,
    HostRow,
    Orders,
    Page,
    RequestFacts,
    RobotsCopy,
    Row,
    SiteSitemaps,
    Validators,
    Verdict,
    Visits,
)

U32 = st.integers(0, (1 << 32) - 1)
BUCKETS = st.integers(0, 0xFFFF)
U64 = st.integers(0, (1 << 64) - 1)
IDS = st.integers(0, (1 << 39) - 1)
PAGE_IDS = st.none() | st.integers(0, (1 << 40) - 1)
SURROGATES = st.text(st.characters())  # lone surrogates included
HOSTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))

VALIDATORS = st.builds(Validators, st.binary(max_size=255), st.binary(max_size=255))


SINGLE = st.floats(0, 1e9, width=32)
VISITS = st.builds(
    Visits,
    *[U32] * 6,
    history=st.builds(History, *[SINGLE] * 4),
    digest=st.binary(max_size=5),
    content_type=st.sampled_from(["", "text/html", "application/x-\u00fc"]),
    length=U32,
    bad=st.builds(BadVisits, st.integers(0, 0xFFFF), st.integers(0, 10), U32),
    validators=VALIDATORS,
    unmodified=st.integers(0, 255),
    is_hinted=st.booleans(),
    is_queued=st.booleans(),
)
SPANS = st.none() | st.floats(allow_nan=False)
FACTS = st.builds(
    RequestFacts,
    *[st.booleans()] * 7,
    shelf_life=SPANS,
    refresh=SPANS,
    force=SPANS,
)
PAGES = st.builds(
    Page,
    url=SURROGATES,
    state=st.sampled_from(State),
    attempts=st.integers(0, 255),
    priority=st.integers(-(1 << 31) + 1, (1 << 31) - 1),
    discovered=U32,
    parent=PAGE_IDS,
    host=HOSTS,
    payload=st.binary(),
    status=st.integers(0, 999),
    changed=st.integers(1, (1 << 32) - 1),
    target=PAGE_IDS,
    reason=st.text(st.characters(exclude_categories=["Cs"])),
    is_deferred=st.booleans(),
    visits=st.none() | VISITS,
    facts=FACTS,
    lastmod=st.none() | st.integers(-(1 << 50), 1 << 50),
    visit_payload=st.binary(),
)


VISITED = Page("u", State.DONE, 1, 0, 7, status=200, changed=300)
OFTEN = Visits(
    120, 6000, 5940, 9000, 4, 2, History(3.5, 1.25, 8.0, 4.0), b"diges", "text/css", 5, BadVisits(3, 4, 6300)
)
OFTEN = OFTEN._replace(validators=Validators(b"e"), unmodified=0x21)


@pytest.mark.parametrize(
    ("page", "golden"),
    [
        pytest.param(
            Page("http://a.example/", discovered=1_700_000_000),
            # queued, 0 attempts, priority 0, discovered, no parent, 17 bytes of URL
            "01 00 00000000 6553f100 0000000000000000 00000011 687474703a2f2f612e6578616d706c652f",
            id="new",
        ),
        pytest.param(Page("", discovered=1), "01 00 00000000 00000001 0000000000000000 00000000", id="empty"),
        pytest.param(
            Page("u", State.QUEUED, 2, -1, 1_700_000_000, 4, payload=b"\xff\0"),
            "01 02 ffffffff 6553f100 0000000000000005 00000001 75 ff00",
            id="linked from page 4, retried, with a payload",
        ),
        pytest.param(
            Page("u", host="slot", payload=b"!"),
            "09 00 00000000 00000000 0000000000000000 00000001 75 00000004 736c6f74 21",
            id="host of its own",
        ),
        pytest.param(
            Page("u", State.DONE, 1, 10, 7, None, "", b"!", 200, 300),
            # the ending: status 200, changed at 300, no target, no reason
            "13 01 0000000a 00000007 0000000000000000 00000001 75 00c8 0000012c 0000000000000000 00000000 21",
            id="done",
        ),
        pytest.param(
            Page("u", State.REDIRECTED, 1, 0, 7, 0, "s", b"", 301, 300, 6, "moved"),
            "1c 01 00000000 00000007 0000000000000001 00000001 75 00000001 73"
            "012d 0000012c 0000000000000007 00000005 6d6f766564",
            id="redirected to page 6",
        ),
        pytest.param(
            Page(
                "u",
                payload=b"!",
                facts=RequestFacts(is_seed=True, insists=True, shelf_life=2.0, refresh=1.0, force=0.5),
                lastmod=3,
                visit_payload=b"again",
            ),
            # facts: switches 1 and 2, four numbers, a payload of the next attempt
            "81 00 00000000 00000000 0000000000000000 00000001 75 0f03"
            "4000000000000000 3ff0000000000000 3fe0000000000000 4008000000000000"
            "00000005 616761696e 21",
            id="facts of its request",
        ),
        pytest.param(
            Page(
                "u",
                facts=RequestFacts(
                    is_sitemap=True,
                    has_pattern=True,
                    is_unsafe=True,
                    is_in_memory=True,
                    is_added=True,
                    from_public=True,
                ),
            ),
            "81 00 00000000 00000000 0000000000000000 00000001 75 00fc" + 36 * "00",
            id="all other switches",
        ),
        pytest.param(
            Page("u", State.SEEN, 0, 0, 7, changed=300, reason="full", is_deferred=True),
            "30 00 00000000 00000007 0000000000000000 00000001 75 0000 0000012c 0000000000000000"
            "00000004 66756c6c",
            id="waiting for a budget",
        ),
        pytest.param(
            VISITED._replace(
                payload=b"!", visits=Visits(300, 300, content_type="text/html", length=0x123456)
            ),
            "53 01 00000000 00000007 0000000000000000 00000001 75 00c8 0000012c 0000000000000000 00000000"
            # its form; visited, due, digest, content type, length, validators; then the text
            "01 0000012c 00000000 00000000 00000009 00123456 00000000 00000000 746578742f68746d6c 21",
            id="visited once",
        ),
        pytest.param(
            VISITED._replace(discovered=60, visits=OFTEN),
            "53 01 00000000 0000003c 0000000000000000 00000001 75 00c8 0000012c 0000000000000000 00000000"
            # their form; first and last visit, last change, due, visits, changes, history
            "00 00000078 00001770 00001734 00002328 00000004 00000002 40600000 3fa00000 41000000 40800000"
            # digest, content type, length, bad visits, validators, 304s; then the texts
            "00000005 00000008 00000005 0003 04 0000189c 00000001 00000000 21 00 00"
            "6469676573 746578742f637373 65",
            id="visited often",
        ),
        pytest.param(
            Page("\ud800ü", State.FAILED, 255, 2**31 - 1, 2**32 - 1, 2**40 - 1, changed=1, reason="ü"),
            "16 ff 7fffffff ffffffff 0000010000000000 00000005 eda080c3bc"
            "0000 00000001 0000000000000000 00000002 c3bc",
            id="extremes",
        ),
    ],
)
def test_golden_bytes_of_pages(page: Page, golden: str) -> None:
    assert records.encode_page(page).hex() == golden.replace(" ", "")
    assert records.decode_page(bytes.fromhex(golden)) == page


def test_the_page_row_that_the_format_takes_apart_is_one() -> None:
    text = (Path(__file__).parents[2] / "docs/internals/format.md").read_text(encoding="utf-8")
    parts = re.findall(r"^\| (\d+) \| `([0-9a-f]+)` \| ", text, re.MULTILINE)
    row = bytes.fromhex("".join(part for _, part in parts))
    page = Page(
        "http://a.example/",
        State.DONE,
        1,
        10,
        1_700_000_000,
        6,
        payload=b'{"meta":{"depth":1}}',
        status=200,
        changed=1_700_090_120,
        visits=Visits(
            1_700_000_120,
            1_700_090_120,
            1_700_086_520,
            1_700_176_520,
            4,
            2,
            History(3.5, 1.25, 86_400.0, 3600.0),
            b"diges",
            "text/html",
            70_000,
            BadVisits(1, Result.ERROR, 1_700_090_720),
            Validators(b'"1"'),
            2,
        ),
    )
    assert records.encode_page(page) == row
    assert records.decode_page(row) == page
    lengths = [len(part) // 2 for _, part in parts]
    assert [int(offset) for offset, _ in parts] == list(accumulate([0, *lengths[:-1]]))
    assert f"; {len(row)} bytes:" in text


COUNTS = Counts(7, 8, 9, [0, 1, 2, 3, 4, 5, 6, 255], 12, 1, 5)
FAILING = RobotsCopy(Verdict.POSTPONE, 503, 1.0, 1_700_000_000.0, 2.5, 3)
RESTS = Cooldown(1_700_000_060.5, 3, 1_700_000_000.0, "HTTP 429", is_answering=True)
HONEST = SiteSitemaps(("http://a.example/s.xml",), True, (1.5, 0.25, 3.0, 1.0))


@pytest.mark.parametrize(
    ("row", "value", "golden"),
    [
        (
            records.HOST,
            HostRow(3, 2, 1, 1_700_000_000.25, 7, 2, 2),
            "00000003 00000002 00000001 41d954fc40100000 00000007 00000002 00000002",
        ),
        (
            records.COUNTS,
            COUNTS,
            "".join(f"{number:016x}" for number in (7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 255, 12, 1, 5)),
        ),
        (records.RATES, (1.0, 2.0, -0.5), "3f800000 40000000 bf000000"),
        (
            records.RATES_OF_ALL,
            (1.0, 2.0, -0.5, 0.25, 4.0),
            "".join(f"{each:0<16}" for each in ("3ff", "4", "bfe", "3fd", "401")),
        ),
        (records.CONTENT, 0.5, "3f000000"),
        (
            records.COOLDOWN,
            RESTS,
            "41d954fc4f200000 00000003 41d954fc40000000 00000008 01 " + b"HTTP 429".hex(),
        ),
        (
            records.ROBOTS,
            FAILING,
            "02 01f7 3ff0000000000000 41d954fc40000000 4004000000000000 0000000300000000",
        ),
        (
            records.ROBOTS,
            RobotsCopy(Verdict.PARSE, body=b"x"),
            "01" + "00" * 30 + "00000009" + zlib.compress(b"x").hex(),
        ),
        (records.ORDERS, Orders(), "00" * 14),
        (records.ORDERS, Orders(2.5, 1_700_000_000), "01 4004000000000000 01 6553f100"),
        (
            records.SITEMAPS,
            HONEST,
            "00000016 01 3ff8000000000000 3fd0000000000000 4008000000000000 3ff0000000000000"
            + b"http://a.example/s.xml".hex(),
        ),
    ],
)
def test_golden_bytes(row: Row[Any], value: Any, golden: str) -> None:
    assert row.encode(value).hex() == golden.replace(" ", "")
    assert plain(row.decode(bytes.fromhex(golden))) == plain(value)


def plain(value: Any) -> Any:
    return value.totals() if isinstance(value, Counts) else value


# Of each kind of row: values, and changed ones that are refused.
SECONDS = st.floats(0, 1e11)
URLS = st.lists(st.text(st.characters(categories=["L", "P"]), min_size=1), max_size=3).map(tuple)
KINDS = {
    "host": (records.HOST, st.builds(HostRow, U32, U32, U32, st.floats(-1e11, 1e11), U32, U32, U32)),
    "counts": (
        records.COUNTS,
        st.builds(Counts, IDS, IDS, U64, st.lists(U64, min_size=8, max_size=8), U64, U64, U64),
    ),
    "rates": (records.RATES, st.tuples(*[SINGLE] * 3)),
    "rates of all": (records.RATES_OF_ALL, st.tuples(*[SECONDS] * 5)),
    "content score": (records.CONTENT, SINGLE),
    "cooldown": (
        records.COOLDOWN,
        st.builds(
            lambda since, rest, strikes, reason, is_answering: Cooldown(
                since + rest, strikes, since, reason, is_answering
            ),
            SECONDS,
            st.integers(0, 86_400),
            st.integers(1, 1 << 31),
            st.text(st.characters(exclude_categories=["Cs"])),
            st.booleans(),
        ),
    ),
    "robots": (
        records.ROBOTS,
        st.builds(
            RobotsCopy,
            *(st.sampled_from(Verdict), st.integers(0, 999), SECONDS, SECONDS, SECONDS, U32, st.binary()),
        ),
    ),
    "orders": (records.ORDERS, st.builds(Orders, st.none() | SECONDS, st.none() | U32)),
    "sitemaps": (
        records.SITEMAPS,
        st.builds(SiteSitemaps, URLS, st.booleans(), st.tuples(*[SINGLE] * 4)),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), garbage=st.binary(max_size=150))
def test_a_row_comes_back_whole_and_other_bytes_are_refused_by_name(
    kind: str, data: st.DataObject, garbage: bytes
) -> None:
    row, values = KINDS[kind]
    value = data.draw(values)
    stored = row.encode(value)
    assert plain(row.decode(stored)) == plain(value)
    cut = stored[: data.draw(st.integers(0, len(stored) - 1))]
    with pytest.raises(UnreadableRow, match=f"^{kind} row of {len(cut)} bytes"):
        row.decode(cut)
    assert row.read(cut) is None
    with suppress(UnreadableRow):
        row.decode(garbage)
    bent = bytearray(stored)
    bent[data.draw(st.integers(0, len(stored) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(UnreadableRow):
        row.decode(bytes(bent))


@pytest.mark.parametrize(
    ("row", "stored", "why"),
    [
        (records.HOST, records.HOST.encode(HostRow(visited=float("nan"))), "a number is nan"),
        (records.HOST, records.HOST.encode(HostRow(visited=-1e300)), "its last visit"),
        (records.COUNTS, records.COUNTS.encode(Counts(1 << 39, 0, 0, [0] * 8)), "the next page"),
        (records.COUNTS, records.COUNTS.encode(Counts(0, 1 << 63, 0, [0] * 8)), "the next visit"),
        (records.RATES, bytes.fromhex("7fc00000") * 3, "a number is nan"),
        (records.CONTENT, bytes.fromhex("bf800000"), "the score"),
        (records.COOLDOWN, records.COOLDOWN.encode(RESTS._replace(until=1e300)), "the end of the rest"),
        (records.ROBOTS, records.ROBOTS.encode(RobotsCopy(body=bytes(50_000_000))), "the file ends early"),
        (records.ROBOTS, b"\x07" + records.ROBOTS.encode(RobotsCopy())[1:], "7 is not a valid Verdict"),
        (records.ORDERS, records.ORDERS.encode(Orders(-1.0)), "the delay"),
        (records.ORDERS, records.ORDERS.encode(Orders(float("inf"))), "a number is inf"),
    ],
)
def test_what_no_crawl_writes_is_refused(row: Row[Any], stored: bytes, why: str) -> None:
    with pytest.raises(UnreadableRow, match=f"(?i)^{row.name} row of .*{why}"):
        row.decode(stored)


@pytest.mark.parametrize(("next_page", "is_read"), [(1 << 38, False), (1 << 25, False), (1 << 24, True)])
def test_more_pages_than_files_have_bytes_are_refused(tmp_path: Path, next_page: int, is_read: bool) -> None:
    """Arrays over all pages would ask for that much memory."""
    store = Store(tmp_path)
    counts = records.COUNTS.encode(Counts(next_page, 0, 0, [0] * 8))
    store.write({keys.COUNTS: counts, keys.page_key(next_page - 1): b""})
    with nullcontext() if is_read else pytest.raises(UnreadableRow, match="no room for"):
        assert records.read_counts(store).next_page == next_page
    store.close()


def test_golden_bytes_of_due_rows() -> None:
    key = records.due_key(1_700_000_000, 7)
    assert key.hex() == "6e 6553f100 0000000007".replace(" ", "")
    assert (records.due_time(key), records.due_page(key)) == (1_700_000_000, 7)
    key = queue_keys.due_sort_key(0xFFF0, 1_700_000_000, 7)
    assert key.hex() == "000f 07349e 0000000007".replace(" ", "")
    assert queue_keys.is_due_sort_key(key)


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Batch]:
    store = Store(tmp_path_factory.mktemp("store"))
    yield Batch(store, BloomFilter())
    store.close()


@given(st.binary(), SURROGATES, st.integers(-(10**12), 10**12), U32, PAGE_IDS, st.binary(), BUCKETS, IDS)
def test_the_short_way_to_the_rows_of_a_new_page_gives_the_same_bytes(
    batch: Batch,
    fingerprint: bytes,
    url: str,
    priority: int,
    discovered: int,
    parent: int | None,
    payload: bytes,
    bucket: int,
    page_id: int,
) -> None:
    host = Host("a.example", HostRow(), Politeness(0.0, 1))
    batch.rows.clear()
    batch.counts.next_page = page_id
    page = Page(url, State.QUEUED, 0, priority, discovered, parent, payload=payload)
    sort_key = batch.queue_new(host, fingerprint, url, priority, discovered + 0.5, parent, payload, bucket)
    assert sort_key == queue_keys.sort_key(priority, bucket, page_id, page_id)
    assert batch.rows == {
        keys.page_key(page_id): records.encode_page(page),
        keys.INDEX + fingerprint: keys.index_value(page_id),
        queue_keys.queue_prefix("a.example") + sort_key: b"",
    }
    assert (batch.counts.next_page, host.queued) == (page_id + 1, 1)


@given(PAGES)
@example(Page("", host="a", payload=b"b", changed=1, reason="c"))
@example(Page("\udfff" * 3))
@example(Page("http://a.example/" + "x" * 1_000_000))
def test_a_page_comes_back_whole(page: Page) -> None:
    if not page.changed:
        assume(page == page._replace(status=0, target=None, reason=""))
    assert records.decode_page(records.encode_page(page)) == page


@given(PAGES)
def test_without_a_time_of_ending_there_is_no_ending(page: Page) -> None:
    kept = records.decode_page(records.encode_page(page._replace(changed=0)))
    assert kept == page._replace(changed=0, status=0, target=None, reason="")


@pytest.mark.parametrize(
    ("given_page", "kept"),
    [
        (Page("u", priority=10**12), Page("u", priority=2**31 - 1)),
        (Page("u", priority=-(10**12)), Page("u", priority=-(2**31) + 1)),
        (Page("u", attempts=256), Page("u", attempts=255)),
        (Page("u", changed=1, reason="bad \ud800 byte"), Page("u", changed=1, reason="bad ? byte")),
    ],
)
def test_what_a_page_row_has_no_room_for_is_clamped(given_page: Page, kept: Page) -> None:
    assert records.decode_page(records.encode_page(given_page)) == kept


@given(st.binary(max_size=120))
@example(b"")
@example(b"\xff" * 22)
@example(b"\x18" + bytes(17) + bytes(4) + b"\xff" * 12)
def test_garbage_is_unreadable_and_nothing_worse(data: bytes) -> None:
    with suppress(UnreadableRow):
        records.decode_page(data)


@given(PAGES, st.data())
def test_a_damaged_page_row_is_unreadable_or_a_page(page: Page, data: st.DataObject) -> None:
    row = bytearray(records.encode_page(page))
    row[data.draw(st.integers(0, len(row) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(UnreadableRow):
        assert isinstance(records.decode_page(bytes(row)), Page)


@given(PAGES)
def test_a_page_row_that_ends_before_its_payload_is_unreadable(page: Page) -> None:
    row = records.encode_page(page)
    for length in {0, 1, 21, len(row) - len(page.payload) - 1}:
        with pytest.raises(UnreadableRow, match=f"page row of {length} bytes"):
            records.decode_page(row[:length])


def test_golden_bytes_of_the_last_ranking(tmp_path: Path) -> None:
    about: records.LastRanking = {"at": 1_700_000_000.5, "pages": 3, "error_bound": None, "converged": True}
    row = b'{"at": 1700000000.5, "pages": 3, "error_bound": null, "converged": true}'
    assert records.encode_ranking(about) == row
    with_row = Store(tmp_path / "store")
    with_row.write({keys.RANKING: row})
    assert records.last_ranking(with_row) == about
    with_row.close()


def test_golden_bytes_of_columns() -> None:
    codes = np.array([1, 0xA000], np.uint16)
    assert records.encode_codes(codes) == b"\x00\x01\xa0\x00"
    assert records.decode_codes(b"\x00\x01\xa0\x00\xff").tolist() == [1, 0xA000]
    assert records.split_column_key(records.column_key("cash", 4096)) == ("cash", 4096)
    assert records.split_column_key(keys.COLUMN + b"cash") is None
