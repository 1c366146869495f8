"""Encodes the links of pages: a row for one page, a segment for many.

A row is a sequence of varints: for each combination of flags a section of flags, count, first target (zigzag,
relative to the source), gaps minus one and, if the links have weights, a code for each. Links with different
flags are in different sections, so that a reader can skip some without decoding them. Rows are decoded by
plain Python, which is faster than NumPy for a single page; segments by NumPy.

A *segment* holds the links of `SEGMENT` consecutive page ids: a version, the number of pages with links, and
for each combination of flags a section: flags, length, and that many bytes of raw deflate, which contain
varints: number of pages, outdegrees, targets, weight codes. Targets are gaps minus one; the first of a page
is zigzag, relative to the *first of the page before*. So pages of one template give equal bytes to the
compressor: 2.6 bits a link on cnr-2000, where relative to the source takes 3.5.
"""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .keys import SEGMENT, clamped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

NOFOLLOW, INTERNAL, REDIRECT = 1, 2, 4
# The tag of a link, 0 if it is not known: a request that a callback made, or a row of an older crawl.
KINDS = {
    name: number << 5
    for number, name in enumerate(("a", "css", "img", "video", "audio", "object", "script"), 1)
}
KIND = 7 << 5  # the bits of a kind
FLAGS = NOFOLLOW | INTERNAL | REDIRECT | KIND
_LAST_TARGET = (1 << 63) - 1
WEIGHTED = 16  # of a section, not of a link: weight codes follow the targets


class Edge(NamedTuple):
    """A link to the page *target*. *flags* are a sum of `NOFOLLOW`, `INTERNAL` (same host), `REDIRECT` and
    one of `KINDS`.

    *weight* is the link score. It is stored with a relative error of at most 4.5 % between 2**-7.875 and
    2**7.875, and clamped outside; 0 and 1 are exact.
    """

    target: int
    flags: int = 0
    weight: float = 1.0


# The fields of an `Edge` as a plain tuple, because there is one for every link of every page.
PlainEdge = tuple[int, int, float]


def collapse(edges: Iterable[PlainEdge]) -> list[PlainEdge]:
    """Return one edge for each target, ascending: parallel links count once.

    A target that is linked with and without nofollow is followed. The largest of several weights counts, and
    the first of several kinds.
    """
    merged: dict[int, PlainEdge] = {}
    for edge in edges:
        target = edge[0]
        known = merged.get(target)
        if known is not None and known != edge:
            flags = (known[1] | edge[1]) & ~(NOFOLLOW | KIND) | known[1] & edge[1] & NOFOLLOW
            flags |= known[1] & KIND or edge[1] & KIND
            edge = target, flags, max(known[2], edge[2])
        merged[target] = edge
    return [merged[target] for target in sorted(merged)]


def encode_row(source: int, edges: Iterable[PlainEdge]) -> bytes:
    """Return the row of *source*, parallel links collapsed; empty for a page without links.

    0.5 us a link. Raises `ValueError` for unknown flags and for targets outside 0..2**63 - 1.
    """
    return encode_links(source, edges)[1]


def encode_links(source: int, links: Iterable[PlainEdge]) -> tuple[list[PlainEdge], bytes]:
    """Return *links* after `collapse`, and the row of *source* that holds them; raises like `encode_row`."""
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
        last = members[0][0]
        first = last - source
        numbers = [flags, len(members), (first << 1) ^ (first >> 63)]
        for target, _, _ in members[1:]:
            numbers.append(target - last - 1)
            last = target
        for number in numbers:
            while number > 0x7F:
                out.append(number & 0x7F | 0x80)
                number >>= 7
            out.append(number)
        if flags & WEIGHTED:
            out += bytes(weight_code(weight) for _, _, weight in members)
    return edges, bytes(out)


def decode_varint(encoded: bytes, offset: int = 0) -> tuple[int, int]:
    """Return the unsigned integer at *offset* (LEB128), and the offset after it. Raises `ValueError` if the
    bytes end early or hold more than 64 bits."""
    value = 0
    for index, byte in enumerate(encoded[offset : offset + 10]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80 and value < 1 << 64:
            return value, offset + index + 1
    raise ValueError("a varint ends early, or is longer than 64 bits")


def decode_row(source: int, row: bytes) -> list[Edge]:
    """Return the edges in a row, ascending. Raises `ValueError` for bytes that are no row."""
    edges = []
    offset = 0
    while offset < len(row):
        flags, offset = decode_varint(row, offset)
        count, offset = decode_varint(row, offset)
        if flags & ~(FLAGS | WEIGHTED) or not 0 < count <= len(row) - offset:
            raise ValueError(f"row of page {source}: section of {count} links with flags {flags}")
        value, offset = decode_varint(row, offset)
        target = source + ((value >> 1) ^ -(value & 1))
        targets = [target]
        for _ in range(count - 1):
            value, offset = decode_varint(row, offset)
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
    """Return the targets that are only in *new*, and those that are only in *old*, ascending. O(links)."""
    before, after = ({edge[0] for edge in edges} for edges in (old, new))
    return tuple(sorted(after - before)), tuple(sorted(before - after))


ONE = 64  # the code of a link score of 1


def weight_code(weight: float) -> int:
    """Return a link score in seven bits, to within 5 % up to at most 256; 0 for 0."""
    score = clamped(weight)
    return min(max(round(8 * math.log2(score)) + ONE, 1), 127) if score else 0


WEIGHTS = (0.0, *(2.0 ** ((code - ONE) / 8) for code in range(1, 128)))  # link score by code

if TYPE_CHECKING:
    Ints = NDArray[np.int64]

VERSION = 1
_LEVEL = 6  # of zlib: 9 saves 1 % at a third of the speed, 1 takes 8 % more bytes


class Part(NamedTuple):
    """Links with the same flags: *degrees[k]* links of page *sources[k]*, one page after the other; *codes*
    are their weight codes, None if all weights are 1."""

    flags: int
    sources: Ints
    degrees: Ints
    targets: Ints
    codes: NDArray[np.uint8] | None


def encode_varints(values: NDArray[np.integer]) -> bytes:
    """Encode non-negative integers below 2**64 as varints; 30 to 50 million a second."""
    rest = values.astype(np.uint64)
    lengths = np.ones(len(rest), np.int64)
    longer = rest >> np.uint64(7)
    while longer.any():
        lengths += longer > 0
        longer >>= np.uint64(7)
    ends = np.cumsum(lengths)
    out = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    at = ends - lengths
    while len(at):
        more = rest > np.uint64(0x7F)
        out[at] = (rest & np.uint64(0x7F)).astype(np.uint8) | (more.astype(np.uint8) << 7)
        at, rest = at[more] + 1, rest[more] >> np.uint64(7)
    return out.tobytes()


def decode_varints(encoded: bytes) -> Ints:
    """Return all varints in *encoded* as int64 (values from 2**63 on wrap). Raises `ValueError` if the last
    one ends early."""
    raw = np.frombuffer(encoded, np.uint8)
    ends = np.flatnonzero(raw < 0x80)
    if len(ends) == len(raw):
        return raw.astype(np.int64)
    if not len(ends) or ends[-1] != len(raw) - 1:
        raise ValueError("varint ends early")
    left = ends.copy()
    left[1:] -= ends[:-1] + 1
    if left.max() > 9:
        raise ValueError("varint longer than 64 bits")
    values = raw[ends].astype(np.int64)
    which = np.flatnonzero(left > 0)  # twice as fast with booleans
    at, left = ends[which], left[which]
    while len(which):
        at -= 1
        values[which] = (values[which] << 7) | (raw[at] & 0x7F)
        left -= 1
        if len(more := np.flatnonzero(left > 0)) < len(left):
            which, at, left = which[more], at[more], left[more]
    return values


def spread(starts: Ints, degrees: Ints) -> Ints:
    """Return the positions ``starts[k], starts[k] + 1, ..`` of all rows, *degrees[k]* of each."""
    before = np.cumsum(degrees) - degrees
    positions: Ints = np.arange(int(degrees.sum())) + np.repeat(starts - before, degrees)
    return positions


def _rows_of(degrees: Ints) -> Ints:
    """Return where each row begins; no row may be empty."""
    return np.cumsum(degrees) - degrees


def _targets(firsts: Ints, gaps: Ints, degrees: Ints) -> Ints:
    """Return the targets from *gaps*, one value a link, and *firsts*, the first target of each row, whose gap
    does not count."""
    begin = _rows_of(degrees)
    steps = gaps + 1
    steps[begin] = 0
    lift = firsts - np.cumsum(steps)[begin]  # what the step to the first target of a row has to add
    lift[1:] -= lift[:-1].copy()
    steps[begin] = lift
    return np.cumsum(steps, out=steps)


def _unzigzag(values: Ints) -> Ints:
    return ((values >> 1) & 0x7FFF_FFFF_FFFF_FFFF) ^ -(values & 1)


def only(part: Part, keep: NDArray[np.bool_]) -> Part:
    """Return the links of those pages of *part* for which *keep* is true."""
    links = np.repeat(keep, part.degrees)
    codes = None if part.codes is None else part.codes[links]
    return Part(part.flags, part.sources[keep], part.degrees[keep], part.targets[links], codes)


def decode_rows(rows: Sequence[tuple[int, bytes]]) -> Iterator[Part]:
    """Yield the links of many *rows* (page, row) in parts, the first section of every page first. Raises
    `ValueError` for bytes that are no rows."""
    lengths = np.array([len(row) for _, row in rows], np.int64)
    sources = np.array([source for source, _ in rows], np.int64)[lengths > 0]
    encoded = b"".join([row for _, row in rows])
    values = decode_varints(encoded)
    ends_in_bytes = np.cumsum(lengths[lengths > 0])
    count_before = np.cumsum(np.frombuffer(encoded, np.uint8) < 0x80)
    ends = count_before[ends_in_bytes - 1] if len(sources) else ends_in_bytes
    at = np.concatenate(([0], ends[:-1])) if len(sources) else ends
    while len(sources):
        if (ends - at < 3).any():
            raise ValueError("an adjacency row ends early")
        flags, degrees = values[at], values[at + 1]
        sizes = degrees * (1 + (flags & WEIGHTED > 0))
        if (degrees < 1).any() or (at + 2 + sizes > ends).any() or (flags & ~(FLAGS | WEIGHTED)).any():
            raise ValueError("an adjacency row is damaged")
        for flag in np.unique(flags).tolist():
            those = flags == flag
            degree, begin, source = degrees[those], at[those] + 2, sources[those]
            gaps = values[spread(begin, degree)]
            targets = _targets(source + _unzigzag(values[begin]), gaps, degree)
            codes = values[spread(begin + degree, degree)].astype(np.uint8) if flag & WEIGHTED else None
            yield Part(flag, source, degree, targets, codes)
        at = at + 2 + sizes
        more = at < ends
        at, ends, sources = at[more], ends[more], sources[more]


def unpack(first: int, segment: bytes) -> Iterator[Part]:
    """Yield the parts of the *segment* of the pages from *first* on. Raises `ValueError` for bytes that are
    no segment of this version."""
    if not segment:
        return
    version, offset = decode_varint(segment)
    if version != VERSION:
        raise ValueError(f"segment of pages from {first} on has version {version}, not {VERSION}")
    _, offset = decode_varint(segment, offset)
    while offset < len(segment):
        flags, offset = decode_varint(segment, offset)
        size, offset = decode_varint(segment, offset)
        yield _unpack_section(first, flags, segment[offset : offset + size])
        offset += size


def newest(first: int, segment: bytes, rows: Sequence[tuple[int, bytes]]) -> list[Part]:
    """Return the parts of a segment, with *rows* (page, row) in place of the links of these pages; no part is
    empty."""
    parts = [*unpack(first, segment)]
    if rows:
        replaced = np.array([source for source, _ in rows], np.int64)
        parts = [only(part, ~np.isin(part.sources, replaced)) for part in parts]
        parts += decode_rows(rows)
    return [part for part in parts if len(part.targets)]


def pages_with_links(segment: bytes) -> int:
    """Return how many pages have links in *segment*, from its head alone; 0 for an empty one."""
    return decode_varint(segment, decode_varint(segment)[1])[0] if segment else 0


def _unpack_section(first: int, flags: int, packed: bytes) -> Part:
    try:
        values = decode_varints(zlib.decompress(packed, -15))
        pages = int(values[0])
        degrees = values[1 : 1 + pages]
        links = int(degrees.sum())
        numbers = 1 + pages + links * (2 if flags & WEIGHTED else 1)
        if len(values) != numbers or (degrees < 0).any():
            raise ValueError(f"{len(values)} numbers for {links} links")
    except (zlib.error, ValueError, IndexError) as error:
        raise ValueError(f"segment of pages from {first} on is damaged: {error}") from error
    sources = np.flatnonzero(degrees > 0)
    degrees = degrees[sources]
    gaps = values[1 + pages : 1 + pages + links]
    firsts = first + np.cumsum(_unzigzag(gaps[_rows_of(degrees)]))
    codes = values[1 + pages + links :].astype(np.uint8) if flags & WEIGHTED else None
    return Part(flags, first + sources, degrees, _targets(firsts, gaps, degrees), codes)


def _pack_section(first: int, part: Part) -> bytes:
    degrees = np.zeros(int(part.sources[-1]) - first + 1, np.int64)
    degrees[part.sources - first] = part.degrees
    begin = _rows_of(part.degrees)
    gaps = np.diff(part.targets, prepend=0) - 1
    step = np.diff(part.targets[begin], prepend=first)
    gaps[begin] = (step << 1) ^ (step >> 63)
    columns = [np.array([len(degrees)]), degrees, gaps]
    if part.codes is not None:
        columns.append(part.codes.astype(np.int64))
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -15)
    packed = deflate.compress(encode_varints(np.concatenate(columns))) + deflate.flush()
    return encode_varints(np.array([part.flags, len(packed)])) + packed


def pack(first: int, segment: bytes, rows: Sequence[tuple[int, bytes]]) -> bytes:
    """Return *segment*, of the pages from *first* on, with *rows* (page, row) in place of the links of these
    pages.

    Both *segment* and the result may be empty. About 5 million links a second.
    """
    parts = newest(first, segment, rows)
    sections = []
    with_links = np.zeros(SEGMENT, np.bool_)
    for flags in sorted({part.flags for part in parts}):
        merged = _merge([part for part in parts if part.flags == flags])
        with_links[merged.sources - first] = True
        sections.append(_pack_section(first, merged))
    if not sections:
        return b""
    return encode_varints(np.array([VERSION, with_links.sum()])) + b"".join(sections)


def _merge(parts: list[Part]) -> Part:
    """Return the parts of different pages as one, ascending by page."""
    sources = np.concatenate([part.sources for part in parts])
    degrees = np.concatenate([part.degrees for part in parts])
    begin = _rows_of(degrees)
    order = np.argsort(sources)
    links = spread(begin[order], degrees[order])
    codes = [part.codes for part in parts if part.codes is not None]
    return Part(
        parts[0].flags,
        sources[order],
        degrees[order],
        np.concatenate([part.targets for part in parts])[links],
        np.concatenate(codes)[links] if codes else None,
    )
