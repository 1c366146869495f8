"""Records: the bytes on disk, pinned; everything comes back; garbage is refused in one way only."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from scrapy_frontier.core.errors import UnreadableRecord
from scrapy_frontier.core.store import host_rows, keys, meta_rows, page_rows
from scrapy_frontier.core.store.host_rows import HostRow
from scrapy_frontier.core.store.meta_rows import Counts
from scrapy_frontier.core.store.page_rows import Page
from scrapy_frontier.core.store.states import State

U32 = st.integers(0, (1 << 32) - 1)
U64 = st.integers(0, (1 << 64) - 1)
IDS = st.integers(0, (1 << 39) - 1)
PAGE_IDS = st.none() | st.integers(0, (1 << 40) - 1)
SURROGATES = st.text(st.characters())  # lone surrogates included
HOSTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))

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
)


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
            Page("u", State.SEEN, 0, 0, 7, changed=300, reason="full", is_deferred=True),
            "30 00 00000000 00000007 0000000000000000 00000001 75 00 ac02 00 04 66756c6c",
            id="waiting for a budget",
        ),
        pytest.param(
            Page("\ud800ü", State.FAILED, 255, 2**31 - 1, 2**32 - 1, 2**40 - 1, changed=1, reason="ü"),
            "16 ff 7fffffff ffffffff 0000010000000000 00000005 eda080c3bc 00 01 00 02 c3bc",
            id="extremes",
        ),
    ],
)
def test_golden_bytes_of_pages(page: Page, golden: str) -> None:
    assert page_rows.encode_page(page).hex() == golden.replace(" ", "")
    assert page_rows.decode_page(bytes.fromhex(golden)) == page


def test_golden_bytes_of_hosts() -> None:
    row = HostRow(3, 2, 1, 1_700_000_000.25, 7, 2, 0.5, 1)
    golden = "00000003 00000002 00000001 41d954fc40100000 00000007 00000002 3f000000 00000001"
    assert host_rows.encode_host(row).hex() == golden.replace(" ", "")
    assert host_rows.decode_host(bytes.fromhex(golden)) == row
    assert host_rows.decode_host(bytes.fromhex(golden)[:-4]) == replace(row, answered=0), "as it was before"


def test_golden_bytes_of_counts() -> None:
    counts = Counts(7, 8, 9, [0, 1, 2, 3, 4, 5, 6, 255], 12)
    golden = "".join(f"{number:016x}" for number in (7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 255, 12))
    assert meta_rows.encode_counts(counts).hex() == golden
    found = meta_rows.decode_counts(bytes.fromhex(golden))
    assert (found.next_page, found.next_visit, found.attempts) == (7, 8, 9)
    assert (found.states, found.hosts) == (counts.states, 12)
    assert found.queued == 1


def test_a_new_format_needs_a_new_number() -> None:
    """Whoever changes golden bytes raises the number, and the stores of before are refused by name."""
    assert keys.FORMAT_VERSION == 1


def test_what_stands_in_a_page_row_besides_url_and_payload_is_22_bytes() -> None:
    assert len(page_rows.encode_page(Page("http://a.example/", payload=b"x" * 10))) == 22 + 17 + 10


@given(SURROGATES, st.integers(-(10**12), 10**12), U32, PAGE_IDS, st.binary())
def test_the_short_way_to_a_new_row_gives_the_same_bytes(
    url: str, priority: int, discovered: int, parent: int | None, payload: bytes
) -> None:
    page = Page(url, State.QUEUED, 0, priority, discovered, parent, payload=payload)
    short = page_rows.encode_new_page(url, priority, discovered, parent, payload)
    assert short == page_rows.encode_page(page)


@given(PAGES)
@example(Page("", host="a", payload=b"b", changed=1, reason="c"))
@example(Page("\udfff" * 3))
@example(Page("http://a.example/" + "x" * 1_000_000))
def test_a_page_comes_back_whole(page: Page) -> None:
    if not page.changed:
        assume(page == page._replace(status=0, target=None, reason=""))
    assert page_rows.decode_page(page_rows.encode_page(page)) == page


@given(PAGES)
def test_without_a_time_of_ending_there_is_no_ending(page: Page) -> None:
    kept = page_rows.decode_page(page_rows.encode_page(page._replace(changed=0)))
    assert kept == page._replace(changed=0, status=0, target=None, reason="")


@given(st.integers())
def test_a_huge_priority_counts_as_the_highest(priority: int) -> None:
    kept = page_rows.decode_page(page_rows.encode_page(Page("u", priority=priority))).priority
    assert kept == min(max(priority, -(2**31) + 1), 2**31 - 1)


@given(st.integers(0, 100_000))
def test_attempts_stop_counting_at_255(attempts: int) -> None:
    kept = page_rows.decode_page(page_rows.encode_page(Page("u", attempts=attempts)))
    assert kept.attempts == min(attempts, 255)


def test_a_reason_with_half_a_character_is_kept_without_it() -> None:
    page = Page("u", State.FAILED, changed=1, reason="bad \ud800 byte")
    assert page_rows.decode_page(page_rows.encode_page(page)).reason == "bad ? byte"


@given(st.builds(HostRow, U32, U32, U32, st.floats(-1e11, 1e11), U32, U32, st.floats(0, 1e6, width=32), U32))
def test_a_host_row_comes_back_whole(row: HostRow) -> None:
    assert host_rows.decode_host(host_rows.encode_host(row)) == row


@given(IDS, IDS, U64, st.lists(U64, min_size=8, max_size=8), U64)
def test_counts_come_back_whole(
    next_page: int, next_visit: int, attempts: int, states: list[int], hosts: int
) -> None:
    counts = Counts(next_page, next_visit, attempts, states, hosts)
    found = meta_rows.decode_counts(meta_rows.encode_counts(counts))
    assert (found.next_page, found.next_visit, found.attempts) == (next_page, next_visit, attempts)
    assert (found.states, found.hosts) == (states, hosts)


@pytest.mark.parametrize("visited", [float("nan"), float("inf"), -1e300])
def test_a_visit_that_is_no_time_is_unreadable(visited: float) -> None:
    """It would silence the host for good, and stop an export."""
    with pytest.raises(UnreadableRecord, match="visit at second"):
        host_rows.decode_host(host_rows.encode_host(HostRow(visited=visited)))


@pytest.mark.parametrize("counts", [Counts(1 << 39, 0, 0, [0] * 8), Counts(0, 1 << 63, 0, [0] * 8)])
def test_counts_of_more_pages_than_there_are_ids_are_unreadable(counts: Counts) -> None:
    """Who wants an array over all pages would ask for that much memory."""
    with pytest.raises(UnreadableRecord, match="to come"):
        meta_rows.decode_counts(meta_rows.encode_counts(counts))


def test_nothing_counted_is_all_zero() -> None:
    none = Counts.none()
    assert (none.next_page, none.next_visit, none.attempts, none.hosts, none.states) == (0, 0, 0, 0, [0] * 8)


@given(st.binary(max_size=120))
@example(b"")
@example(b"\xff" * 22)
@example(b"\x18" + bytes(17) + bytes(4) + b"\xff" * 12)
def test_garbage_is_unreadable_and_nothing_worse(data: bytes) -> None:
    for decode in (page_rows.decode_page, host_rows.decode_host, meta_rows.decode_counts):
        with suppress(UnreadableRecord):
            decode(data)


@given(PAGES, st.data())
def test_a_damaged_page_row_is_unreadable_or_a_page(page: Page, data: st.DataObject) -> None:
    row = bytearray(page_rows.encode_page(page))
    row[data.draw(st.integers(0, len(row) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(UnreadableRecord):
        assert isinstance(page_rows.decode_page(bytes(row)), Page)


@given(PAGES)
def test_a_page_row_that_ends_within_its_url_is_unreadable(page: Page) -> None:
    row = page_rows.encode_page(page)
    for length in {0, 1, 21, 21 + len(page.url.encode("utf-8", "surrogatepass"))}:
        with pytest.raises(UnreadableRecord, match=f"page row of {length} bytes"):
            page_rows.decode_page(row[:length])


@pytest.mark.parametrize(
    "row",
    [
        pytest.param("09 00 00000000 00000000 0000000000000000 00000001 75 04 736c", id="host"),
        pytest.param("13 01 00000000 00000007 0000000000000000 00000001 75 c801 ac02 00 05 6d", id="why"),
    ],
)
def test_a_page_row_that_ends_within_its_host_or_reason_is_unreadable(row: str) -> None:
    with pytest.raises(UnreadableRecord):
        page_rows.decode_page(bytes.fromhex(row))
