"""The link graph: bytes of rows and segments, packing, and reading all of it back as arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_frontier.core.ranking.graph import find_row, ranking_weights, read_graph, repack
from scrapy_frontier.core.store import link_rows
from scrapy_frontier.core.store.keys import link_key
from scrapy_frontier.core.store.link_rows import (
    INTERNAL,
    KINDS,
    NOFOLLOW,
    REDIRECT,
    WEIGHTS,
    Edge,
    collapse,
    decode_row,
    difference,
    encode_row,
)

FLAGS = st.builds(int.__or__, st.integers(0, 7), st.sampled_from((0, *KINDS.values())))

edges = st.lists(
    st.builds(
        Edge,
        st.one_of(st.integers(0, 300), st.integers(0, (1 << 40) - 1)),
        FLAGS,
        st.sampled_from([1.0, 0.0, 0.5, 2.0]),
    ),
    max_size=30,
)
near_edges = st.lists(
    st.builds(Edge, st.integers(0, 9000), FLAGS, st.sampled_from([1.0, 0.0, 0.5])),
    max_size=20,
)
pages = st.one_of(st.integers(0, 20), st.integers(4090, 4100), st.integers(0, 9000))


class Rows(dict):
    """A database of adjacency rows: bytes by key, scanned in order."""

    def scan(self, prefix):
        return [(key, self[key]) for key in sorted(self) if key.startswith(prefix)]

    def write_links(self, links):
        for page, row in links.items():
            self[link_key(page)] = encode_row(page, row)

    def repack(self, everything=True):
        for done in list(repack(self.scan(b"g"), self.get, everything)):
            if done.value:
                self[done.key] = done.value
            else:
                self.pop(done.key, None)
            for key, value in done.rows:
                assert self.pop(key) == value

    def read(self, **options):
        return read_graph(self.scan(b"g"), self.scan(b"s"), **options)


def as_edges(graph, page):
    here = slice(graph.indptr[page], graph.indptr[page + 1])
    count = graph.indptr[page + 1] - graph.indptr[page]
    weights = np.ones(count) if graph.weights is None else graph.weights[here]
    columns = graph.indices[here].tolist(), graph.flags[here].tolist(), weights.tolist()
    return sorted(map(Edge, *columns))


# -- bytes -------------------------------------------------------------------------------------------


def test_a_row_has_these_bytes():
    links = [Edge(8), Edge(11), Edge(400), Edge(12, NOFOLLOW | INTERNAL), Edge(13, 0, 0.5)]
    assert encode_row(10, links) == bytes.fromhex(
        "00 03 03 02 8403"  # no flags, 3 links: -2 as zigzag 3, gap 3 - 1, gap 389 - 1 = 388
        "03 01 04"  # nofollow and internal, 1 link: +2
        "10 01 06 38"  # weighted, 1 link: +3, weight code 64 + 8 log2(0.5) = 56
    )
    typed = [Edge(8, KINDS["a"]), Edge(9, KINDS["script"] | INTERNAL)]
    assert encode_row(10, typed) == bytes.fromhex("20 01 03e201 01 01")


def test_a_segment_has_these_bytes():
    rows = [
        (4096, encode_row(4096, [Edge(5), Edge(7)])),
        (4099, encode_row(4099, [Edge(4), Edge(2, INTERNAL)])),
    ]
    data = link_rows.pack(4096, b"", rows)
    assert data[:4] == bytes([1, 2, 0, data[3]])  # version 1, two pages with links, the section without flags
    import zlib

    end = 4 + data[3]
    # four pages with 2, 0, 0, 1 links; 5 - 4096 as zigzag, gap 1; 4 - 5 as zigzag
    assert zlib.decompress(data[4:end], -15) == bytes.fromhex("04 02 00 00 01 f53f 01 01")
    assert data[end] == INTERNAL
    assert zlib.decompress(data[end + 2 :], -15) == bytes.fromhex("04 00 00 00 01 fb3f")


@given(st.integers(0, (1 << 40) - 1), edges)
def test_a_row_comes_back(source, links):
    assert decode_row(source, encode_row(source, links)) == collapse(links)


@pytest.mark.parametrize(
    "row", [b"\x00", b"\x00\x01", b"\x00\x00\x01", b"\x80\x02\x01\x02", b"\x10\x01\x02", b"\x00\x02\x02"]
)
def test_damaged_rows_are_refused_by_both_readers(row):
    with pytest.raises(ValueError, match=r"row|varint"):
        decode_row(1, row)
    with pytest.raises(ValueError, match=r"row|varint"):
        list(link_rows.decode_rows([(1, row)]))


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-3], lambda data: b"\x02" + data[1:], lambda data: data[:4] + b"\xff" * 9]
)
def test_a_damaged_segment_is_refused(damage):
    data = link_rows.pack(0, b"", [(page, encode_row(page, [Edge(page * 7), Edge(3)])) for page in range(50)])
    with pytest.raises(ValueError, match=r"segment|varint"):
        list(link_rows.unpack(0, damage(data)))


def test_what_is_no_link_is_refused():
    for edge in (Edge(-1), Edge(1 << 63), Edge(1, 256)):
        with pytest.raises(ValueError, match="no edge"):
            encode_row(0, [edge])


@pytest.mark.parametrize(("weight", "kept"), [(-1.0, 0.0), (math.nan, 1.0), (10**400, WEIGHTS[-1])])
def test_a_weight_that_is_none_is_clamped(weight, kept):
    assert decode_row(0, encode_row(0, [Edge(1, 0, weight)])) == [Edge(1, 0, kept)]


@given(st.floats(2**-7.875, 2**7.875))
def test_a_weight_comes_back_within_its_promised_error(weight):
    (edge,) = decode_row(0, encode_row(0, [Edge(1, 0, weight)]))
    assert edge.weight == pytest.approx(weight, rel=0.045)


@given(st.lists(st.integers(0, (1 << 64) - 1)))
def test_bulk_varints_equal_those_of_one_value(values):
    data = link_rows.encode_varints(np.array(values, np.uint64))
    assert data == b"".join(link_rows.encode_varints(np.array([value], np.uint64)) for value in values)
    assert link_rows.decode_varints(data).astype(np.uint64).tolist() == values


# -- meaning -----------------------------------------------------------------------------------------


def test_a_target_linked_with_and_without_nofollow_is_followed():
    links = [Edge(3, NOFOLLOW, 0.5), Edge(3, 0, 0.2), Edge(4, NOFOLLOW), Edge(4, NOFOLLOW | INTERNAL)]
    assert collapse(links) == [Edge(3, 0, 0.5), Edge(4, NOFOLLOW | INTERNAL)]


@given(edges, edges)
def test_the_difference_turns_the_old_links_into_the_new(before, after):
    old, new = collapse(before), collapse(after)
    added, removed = difference(old, new)
    was, targets = ({edge[0] for edge in links} for links in (old, new))
    assert was - {*removed} | {*added} == targets
    assert (was.issuperset(removed), was.isdisjoint(added)) == (True, True)
    assert [list(added), list(removed)] == [sorted(added), sorted(removed)]


# -- packing and reading -----------------------------------------------------------------------------


@given(st.lists(st.tuples(st.dictionaries(pages, near_edges, max_size=8), st.booleans()), max_size=4))
def test_the_arrays_hold_the_last_word_on_every_page(rounds):
    """Rows written, packed and written over in any mixture; one page or all of them read."""
    rows, truth = Rows(), {}
    for links, packing in rounds:
        rows.write_links(links)
        truth |= {page: collapse(row) for page, row in links.items()}
        if packing:
            rows.repack()
            assert not rows.scan(b"g")
    graph = rows.read(pages=9001)
    assert graph.pages == 9001
    assert len(graph.indices) == sum(map(len, truth.values()))
    for page, expected in truth.items():
        assert as_edges(graph, page) == expected
        assert find_row(page, rows.get) == expected


def test_far_ids_need_wide_indices():
    rows = Rows()
    rows.write_links({0: [Edge(1)]})
    assert rows.read().indices.dtype == np.int32
    part = next(link_rows.decode_rows([(0, encode_row(0, [Edge(5 << 31), Edge((1 << 40) - 1)]))]))
    assert part.targets.tolist() == [5 << 31, (1 << 40) - 1]


def test_few_loose_rows_wait_until_they_are_a_quarter_of_their_segment():
    rows = Rows()
    rows.write_links({page: [Edge(page + 1)] for page in range(63)})
    rows.repack(everything=False)
    assert len(rows.scan(b"g")) == 63
    rows.write_links({page: [Edge(page + 1)] for page in range(400)})
    rows.repack(everything=False)
    assert not rows.scan(b"g")
    rows.write_links({page: [Edge(page + 2)] for page in range(99)})
    rows.repack(everything=False)
    assert len(rows.scan(b"g")) == 99
    rows.write_links({99: [Edge(5)]})
    rows.repack(everything=False)
    assert not rows.scan(b"g")


def test_nofollow_carries_no_weight_and_a_link_score_is_one():
    rows = Rows()
    rows.write_links({0: [Edge(1, NOFOLLOW), Edge(2, INTERNAL, 0.5), Edge(3), Edge(4, REDIRECT)]})
    graph = rows.read()
    weights = dict(zip(graph.indices.tolist(), ranking_weights(graph).tolist(), strict=True))
    assert weights == {1: 0.0, 2: 0.5, 3: 1.0, 4: 1.0}
