"""The links of one page, and the bytes they are kept in.

A row is a sequence of varints: for each set of flags in use a section of flags, count, first target
(zigzag, relative to the source), gaps minus one and, if the links have weights, a code a link. Links with
different flags lie in different sections, so that a reader can leave some out without decoding them.
Plain Python: for a single page it is faster than NumPy, which reads many (`link_segments`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from . import varint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NOFOLLOW, INTERNAL, REDIRECT, CANONICAL = 1, 2, 4, 8
FLAGS = NOFOLLOW | INTERNAL | REDIRECT | CANONICAL
_LAST_TARGET = (1 << 63) - 1
WEIGHTED = 16  # of a section, not of a link: weight codes follow the targets


class Edge(NamedTuple):
    """A link to the page *target*: a sum of `NOFOLLOW`, `INTERNAL` (same host), `REDIRECT`, `CANONICAL`.

    *weight* is the link score. It is stored with a relative error of at most 4.5 % between 2**-7.875 and
    2**7.875, clamped outside; 1 and 0 exactly.
    """

    target: int
    flags: int = 0
    weight: float = 1.0


# The three fields alone: there is one for every link of every page.
PlainEdge = tuple[int, int, float]


def collapse(edges: Iterable[PlainEdge]) -> list[PlainEdge]:
    """One edge a target, ascending: parallel links count once.

    A target linked with and without nofollow is followed; of several weights the largest stays.
    """
    merged: dict[int, PlainEdge] = {}
    for edge in edges:
        target = edge[0]
        known = merged.get(target)
        if known is not None and known != edge:
            flags = (known[1] | edge[1]) & ~NOFOLLOW | known[1] & edge[1] & NOFOLLOW
            edge = target, flags, max(known[2], edge[2])
        merged[target] = edge
    return [merged[target] for target in sorted(merged)]


def encode_row(source: int, edges: Iterable[PlainEdge]) -> bytes:
    """The row of *source*, parallel links collapsed; empty for a page without links.

    About 0.5 us a link. Raises `ValueError` for flags it does not know and targets outside 0..2**63 - 1.
    """
    return encode_links(source, edges)[1]


def encode_links(source: int, links: Iterable[PlainEdge]) -> tuple[list[PlainEdge], bytes]:
    """*links* `collapse`d, and the row of *source* that holds them; raises as `encode_row`."""
    edges = collapse(links)
    sections: dict[int, list[PlainEdge]] = {}
    for edge in edges:
        target, flags, weight = edge
        if flags & ~FLAGS or not 0 <= target <= _LAST_TARGET:
            raise ValueError(f"no edge of the graph: {edge}")
        if weight != 1:
            flags |= WEIGHTED
        section = sections.get(flags)
        if section is None:
            sections[flags] = [edge]
        else:
            section.append(edge)
    out = bytearray()
    for flags, members in sorted(sections.items()):
        out.append(flags)
        last = members[0][0]
        first = last - source
        numbers = [len(members), (first << 1) ^ (first >> 63)]
        for target, _, _ in members[1:]:
            numbers.append(target - last - 1)
            last = target
        for number in numbers:  # as `varint.encode`, which a call for each would make slow
            while number > 0x7F:
                out.append(number & 0x7F | 0x80)
                number >>= 7
            out.append(number)
        if flags & WEIGHTED:
            out += bytes(weight_code(weight) for _, _, weight in members)
    return edges, bytes(out)


def decode_row(source: int, row: bytes) -> list[Edge]:
    """The edges in a row, ascending; raises `ValueError` on bytes that are no row."""
    edges = []
    offset = 0
    while offset < len(row):
        flags, offset = varint.decode(row, offset)
        count, offset = varint.decode(row, offset)
        if flags & ~(FLAGS | WEIGHTED) or not 0 < count <= len(row) - offset:
            raise ValueError(f"row of page {source}: section of {count} links with flags {flags}")
        value, offset = varint.decode(row, offset)
        target = source + ((value >> 1) ^ -(value & 1))
        targets = [target]
        for _ in range(count - 1):
            value, offset = varint.decode(row, offset)
            target += value + 1
            targets.append(target)
        weights = [1.0] * count
        if flags & WEIGHTED:
            codes = row[offset : offset + count]
            if len(codes) < count or max(codes) > 0x7F:
                raise ValueError(f"row of page {source}: the weights end early")
            weights = [WEIGHTS[code] for code in codes]
            offset += count
        edges += [Edge(t, flags & FLAGS, w) for t, w in zip(targets, weights, strict=True)]
    edges.sort()
    return edges


def difference(old: Sequence[PlainEdge], new: Sequence[PlainEdge]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Which pages are linked now, and which no more, ascending; both as `decode_row` gives them. O(links)."""
    before, after = ({edge[0] for edge in edges} for edges in (old, new))
    return tuple(sorted(after - before)), tuple(sorted(before - after))


def weight_code(weight: float) -> int:
    """A link score in seven bits, to within 5 %; 0 for none. Raises `ValueError` for one below 0."""
    if not weight >= 0:
        raise ValueError(f"a link score is a number of at least 0, not {weight}")
    return min(max(round(8 * math.log2(min(weight, 256.0))) + 64, 1), 127) if weight else 0


WEIGHTS = (0.0, *(2.0 ** ((code - 64) / 8) for code in range(1, 128)))  # link score by code
