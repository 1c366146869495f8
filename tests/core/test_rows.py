"""Rows: the bytes on disk, pinned; everything comes back; garbage is refused in one way only."""

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

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
    Counts,
    HostRow,
    Orders,
    Page,
    RequestFacts,
    Validators,
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


@st.composite
def visits_of(draw: st.DrawFn, discovered: int) -> Visits:
    """What a row can hold: the first visit, the last change and doubts are kept to the minute."""
    last = draw(st.integers(discovered, (1 << 32) - 1))
    return Visits(
        discovered + 60 * draw(st.integers(0, 1 << 20)),
        last,
        last - 60 * draw(st.integers(0, (last - discovered) // 60 if last - discovered < 1 << 28 else 9)),
        draw(U32),
        draw(st.integers(0, 0xFFFF)),
        draw(st.integers(0, 0xFFFF)),
        draw(st.binary(min_size=8, max_size=8)),
        draw(st.just(b"") | st.binary(min_size=5, max_size=5).filter(any)),
        draw(st.sampled_from(["", "text/html", "application/pdf"])),
        draw(st.integers(0, (1 << 24) - 1)),
        draw(st.builds(BadVisits, st.integers(1, 15), st.integers(0, 10), st.just(last + 120))),
        draw(VALIDATORS),
        draw(st.integers(0, 255)),
        draw(st.booleans()),
    )


@st.composite
def pages_with_visits(draw: st.DrawFn) -> Page:
    page = draw(PAGES)
    return page._replace(visits=draw(visits_of(page.discovered)))


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
    visits=st.none(),
    facts=FACTS,
    lastmod=st.none() | st.integers(-(1 << 50), 1 << 50),
    visit_payload=st.binary(),
)


VISITED = Page("u", State.DONE, 1, 0, 7, status=200, changed=300)
OFTEN = Visits(120, 6000, 5940, 9000, 4, 2, b"history!", b"diges", "text/css", 5, BadVisits(3, 4, 6300))
OFTEN = OFTEN._replace(validators=Validators(b"e"), trust=0x21)


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
            "09 00 00000000 00000000 0000000000000000 00000001 75 04 736c6f74 21",
            id="host of its own",
        ),
        pytest.param(
            Page("u", State.DONE, 1, 10, 7, None, "", b"!", 200, 300),
            # the ending: status 200, changed at 300, no target, no reason
            "13 01 0000000a 00000007 0000000000000000 00000001 75 c801 ac02 00 00 21",
            id="done",
        ),
        pytest.param(
            Page("u", State.REDIRECTED, 1, 0, 7, 0, "s", b"", 301, 300, 6, "moved"),
            "1c 01 00000000 00000007 0000000000000001 00000001 75 01 73 ad02 ac02 07 05 6d6f766564",
            id="redirected to page 6",
        ),
        pytest.param(
            Page(
                "u",
                payload=b"!",
                facts=RequestFacts(
                    is_seed=True, insists=True, shelf_life=2.0, refresh=1.0, force=0.5, not_before=0.25
                ),
                lastmod=3,
                visit_payload=b"again",
            ),
            # facts: switches 1 and 2, five numbers, a payload of the next visit; then these
            "81 00 00000000 00000000 0000000000000000 00000001 75 837e 4000000000000000 3ff0000000000000"
            "3fe0000000000000 3fd0000000000000 4008000000000000 05 616761696e 21",
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
            "81 00 00000000 00000000 0000000000000000 00000001 75 fc01",
            id="all other switches",
        ),
        pytest.param(
            Page("u", State.SEEN, 0, 0, 7, changed=300, reason="full", is_deferred=True),
            "30 00 00000000 00000007 0000000000000000 00000001 75 00 ac02 00 04 66756c6c",
            id="waiting for a budget",
        ),
        pytest.param(
            VISITED._replace(
                payload=b"!", visits=Visits(300, 300, content_type="text/html", length=0x123456)
            ),
            # the ending, no flags, the first content type, the length
            "53 01 00000000 00000007 0000000000000000 00000001 75 c801 ac02 00 00 00 01 123456 21",
            id="visited once",
        ),
        pytest.param(
            VISITED._replace(discovered=0, visits=Visits(300, 300, validators=Validators(b'"a"', b"Mon"))),
            "53 01 00000000 00000000 0000000000000000 00000001 75 c801 ac02 00 00"
            "06 00 000000 03 226122 03 4d6f6e",
            id="visited once, with validators",
        ),
        pytest.param(
            VISITED._replace(visits=Visits(300, 300, is_hinted=True)),
            "53 01 00000000 00000007 0000000000000000 00000001 75 c801 ac02 00 00 08 00 000000",
            id="visited once, and said to have changed since",
        ),
        pytest.param(
            VISITED._replace(discovered=60, visits=OFTEN),
            "53 01 00000000 0000003c 0000000000000000 00000001 75 c801 ac02 00 00"
            # flags, last visit, first one minute after the discovery, changed one minute before the last
            "03 00001770 000001 000002 00002328 0004 0002 686973746f727921 6469676573 21 43 0005"
            "0b 000005 01 65",
            id="visited often",
        ),
        pytest.param(
            Page("\ud800ü", State.FAILED, 255, 2**31 - 1, 2**32 - 1, 2**40 - 1, changed=1, reason="ü"),
            "16 ff 7fffffff ffffffff 0000010000000000 00000005 eda080c3bc 00 01 00 02 c3bc",
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
            records.encode_history(3.5, 1.25, 86_400.0, 3600.0),
            b"diges",
            "text/html",
            70_000,
            BadVisits(1, Result.ERROR, 1_700_090_720),
            Validators(b'"1"'),
            0x21,
        ),
    )
    assert records.encode_page(page) == row
    assert records.decode_page(row) == page
    lengths = [len(part) // 2 for _, part in parts]
    assert [int(offset) for offset, _ in parts] == list(accumulate([0, *lengths[:-1]]))
    assert f"; {len(row)} bytes:" in text


def test_golden_bytes_of_hosts() -> None:
    row = HostRow(3, 2, 1, 1_700_000_000.25, 7, 2, 1, 2)
    golden = "00000003 00000002 00000001 41d954fc40100000 00000007 00000002 00000001 00000002"
    assert records.encode_host(row).hex() == golden.replace(" ", "")
    assert records.decode_host(bytes.fromhex(golden)) == row


def test_golden_bytes_of_counts() -> None:
    counts = Counts(7, 8, 9, [0, 1, 2, 3, 4, 5, 6, 255], 12, 1, 5)
    golden = "".join(f"{number:016x}" for number in (7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 255, 12, 1, 5))
    assert records.encode_counts(counts).hex() == golden
    found = records.decode_counts(bytes.fromhex(golden))
    assert (found.next_page, found.next_visit, found.attempts) == (7, 8, 9)
    assert (found.states, found.hosts, found.queued_again, found.due) == (counts.states, 12, 1, 5)


def test_golden_bytes_of_rates() -> None:
    host = "3f800000 40000000 bf000000 3e800000 40800000".replace(" ", "")
    assert records.encode_host_rates((1.0, 2.0, -0.5), (0.25, 4.0)).hex() == host
    assert records.decode_host_rates(bytes.fromhex(host)) == (1.0, 2.0, -0.5, 0.25, 4.0)
    every = "".join(f"{each:0<16}" for each in ("3ff", "4", "bfe", "3fd", "401"))
    assert records.encode_all_rates((1.0, 2.0, -0.5), 0.25, 4.0).hex() == every
    assert records.decode_all_rates(bytes.fromhex(every)) == (1.0, 2.0, -0.5, 0.25, 4.0)
    starts = "3ff0000000000000 4000000000000000 41d954fc40100000".replace(" ", "")
    assert records.encode_starts(1.0, 2.0, 1_700_000_000.25).hex() == starts
    assert records.decode_starts(bytes.fromhex(starts)) == (1.0, 2.0, 1_700_000_000.25)
    for garbage in (None, b"garbage", bytes.fromhex("7fc00000") * 5, b"\x7f\xf8" + bytes(38)):
        assert records.decode_host_rates(garbage) == records.decode_all_rates(garbage) == (0.0,) * 5


def test_golden_bytes_of_content_scores_and_histories() -> None:
    assert records.encode_content(0.5).hex() == "3f000000"
    assert (records.decode_content(b"\x3f\0\0\0"), records.decode_content(b"?")) == (0.5, None)
    assert records.encode_history(2.0, 1.0, 1.0, 3.0).hex() == "04b0 0258 0640 0c80".replace(" ", "")
    assert records.decode_history(bytes.fromhex("04b0025806400c80")) == (2.0, 1.0, 1.0, 3.0)


def test_golden_bytes_of_due_rows() -> None:
    due = records.Due(1_700_000_000, 7, is_hub=True, weight=2)
    assert records.due_key(due.when, due.page_id).hex() == "6e 6553f100 0000000007".replace(" ", "")
    assert records.encode_due(due).hex() == "010002"
    assert records.decode_due(records.due_key(due.when, 7), records.encode_due(due)) == due
    key = queue_keys.due_key(0xFFF0, 0x0203, 1_700_000_000, 7)
    assert key.hex() == "000f 07349e 0203 0000000007".replace(" ", "")
    assert (queue_keys.is_due_key(key), queue_keys.weight_in(key)) == (True, 0x0203)
    assert queue_keys.last_due_key(key, 1).hex() == "ffff 000001 0203 0000000007".replace(" ", "")


@pytest.mark.parametrize(
    ("orders", "golden"),
    [
        (Orders(), b"{}"),
        (Orders(delay=2.5), b'{"delay":2.5}'),
        (Orders(blocked=1_700_000_000), b'{"blocked":1700000000}'),
        (Orders(0.0, 0), b'{"delay":0.0,"blocked":0}'),
    ],
)
def test_golden_bytes_of_orders(orders: Orders, golden: bytes) -> None:
    assert records.encode_orders(orders) == golden
    assert records.decode_orders(golden) == orders


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


@given(PAGES | pages_with_visits())
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


@given(st.builds(HostRow, U32, U32, U32, st.floats(-1e11, 1e11), U32, U32, U32, U32))
def test_a_host_row_comes_back_whole(row: HostRow) -> None:
    assert records.decode_host(records.encode_host(row)) == row


@given(IDS, IDS, U64, st.lists(U64, min_size=8, max_size=8), U64)
def test_counts_come_back_whole(
    next_page: int, next_visit: int, attempts: int, states: list[int], hosts: int
) -> None:
    counts = Counts(next_page, next_visit, attempts, states, hosts)
    found = records.decode_counts(records.encode_counts(counts))
    assert (found.next_page, found.next_visit, found.attempts) == (next_page, next_visit, attempts)
    assert (found.states, found.hosts) == (states, hosts)


@pytest.mark.parametrize("visited", [float("nan"), float("inf"), -1e300])
def test_a_visit_that_is_no_time_is_unreadable(visited: float) -> None:
    """It would silence the host for good, and stop an export."""
    with pytest.raises(UnreadableRow, match="visit at second"):
        records.decode_host(records.encode_host(HostRow(visited=visited)))


@pytest.mark.parametrize("counts", [Counts(1 << 39, 0, 0, [0] * 8), Counts(0, 1 << 63, 0, [0] * 8)])
def test_counts_of_more_pages_than_there_are_ids_are_unreadable(counts: Counts) -> None:
    """Who wants an array over all pages would ask for that much memory."""
    with pytest.raises(UnreadableRow, match="to come"):
        records.decode_counts(records.encode_counts(counts))


@given(st.binary(max_size=120))
@example(b"")
@example(b"\xff" * 22)
@example(b"\x18" + bytes(17) + bytes(4) + b"\xff" * 12)
def test_garbage_is_unreadable_and_nothing_worse(data: bytes) -> None:
    for decode in (records.decode_page, records.decode_host, records.decode_counts):
        with suppress(UnreadableRow):
            decode(data)


@given(PAGES, st.data())
def test_a_damaged_page_row_is_unreadable_or_a_page(page: Page, data: st.DataObject) -> None:
    row = bytearray(records.encode_page(page))
    row[data.draw(st.integers(0, len(row) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(UnreadableRow):
        assert isinstance(records.decode_page(bytes(row)), Page)


@given(PAGES)
def test_a_page_row_that_ends_within_its_url_is_unreadable(page: Page) -> None:
    row = records.encode_page(page)
    for length in {0, 1, 21, 21 + len(page.url.encode("utf-8", "surrogatepass"))}:
        with pytest.raises(UnreadableRow, match=f"page row of {length} bytes"):
            records.decode_page(row[:length])


@pytest.mark.parametrize(
    "row",
    [
        pytest.param("09 00 00000000 00000000 0000000000000000 00000001 75 04 736c", id="host"),
        pytest.param("13 01 00000000 00000007 0000000000000000 00000001 75 c801 ac02 00 05 6d", id="why"),
    ],
)
def test_a_page_row_that_ends_within_its_host_or_reason_is_unreadable(row: str) -> None:
    with pytest.raises(UnreadableRow):
        records.decode_page(bytes.fromhex(row))


def test_visits_take_at_most_40_bytes_beside_its_validators() -> None:
    page = Page("u", State.DONE, changed=300)
    visits = Visits(1, 2, 2, 3, 0xFFFF, 0xFFFF, b"h" * 8, b"d" * 5, "text/html", 1 << 30)
    visits = visits._replace(bad=BadVisits(99, 9, 1 << 31))
    row = records.encode_page(page._replace(visits=visits))
    assert len(row) - len(records.encode_page(page)) == 40
    kept = records.decode_page(row).visits
    assert kept is not None
    assert (kept.length, kept.bad.visits) == (0xFFFFFF, 15), "as much as there is room for"


@pytest.mark.parametrize("size", [255, 256])
def test_a_validator_of_more_than_255_bytes_is_not_kept(size: int) -> None:
    text = b"e" * size
    page = Page("u", State.DONE, changed=300, visits=Visits(300, 300, validators=Validators(text, text)))
    kept = records.decode_page(records.encode_page(page)).visits
    assert kept is not None
    assert kept.validators == (Validators(text, text) if size < 256 else Validators())


def test_a_content_type_that_has_no_number_is_not_kept() -> None:
    page = Page("u", State.DONE, changed=300, visits=Visits(300, 300, content_type="x/y"))
    kept = records.decode_page(records.encode_page(page)).visits
    assert kept is not None
    assert kept.content_type == ""


def test_golden_bytes_of_the_last_ranking(tmp_path: Path) -> None:
    about: records.LastRanking = {"at": 1_700_000_000.5, "pages": 3, "error_bound": None, "converged": True}
    row = b'{"at": 1700000000.5, "pages": 3, "error_bound": null, "converged": true}'
    assert records.encode_ranking(about) == row
    with_row = Store(tmp_path / "store")
    with_row.write({keys.RANKING: row})
    assert records.last_ranking(with_row) == about
    with_row.close()


def test_golden_bytes_of_the_rule_of_revisits() -> None:
    rule = b"0123456789abcdef"
    for after, row in ((None, rule), (b"", rule + b" " + bytes(5)), (b"\0\0\0\1\2", rule + b" \0\0\0\1\2")):
        assert records.encode_rule(rule, after) == row
        assert records.decode_rule(row) == (rule, after)


def test_golden_bytes_of_columns() -> None:
    codes = np.array([1, 0xA000], np.uint16)
    assert records.encode_codes(codes) == b"\x00\x01\xa0\x00"
    assert records.decode_codes(b"\x00\x01\xa0\x00\xff").tolist() == [1, 0xA000]
    assert records.split_column_key(records.column_key("cash", 4096)) == ("cash", 4096)
    assert records.split_column_key(keys.COLUMN + b"cash") is None
