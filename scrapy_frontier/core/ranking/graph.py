"""Packs the link graph in the database into segments, and reads it as arrays.

The nodes are page ids. The links of a page are first a *row* of their own (`link_rows`), written in one batch
with the end of the page. Later `repack` moves the rows of 4096 consecutive ids into one *segment*, in which a
link takes a third of the bytes. If a page has both, the row is newer, and counts.

Nothing here does I/O: rows are (key, value) pairs in the order of their keys, as from a scan of a snapshot.
"""

from __future__ import annotations

from heapq import merge
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..store import link_rows
from ..store.keys import ID_BYTES, LINK_ROW, SEGMENT, SEGMENT_ROW, key_id, link_key, segment_key
from ..store.link_rows import FLAGS, NOFOLLOW, ONE, WEIGHTS, Edge, decode_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from ..store.link_rows import Part

if TYPE_CHECKING:
    Row = tuple[bytes, bytes]

_LEAST_LOOSE = 64
_LOOSE_SHARE = 4  # a segment is packed anew when its loose rows are a quarter of the pages in it
_WEIGHTS = np.array(WEIGHTS, np.float32)


class Graph(NamedTuple):
    """A graph as CSR arrays: page i links to ``indices[indptr[i]:indptr[i + 1]]``, each target once.

    ``indptr`` has the shape n + 1; ``indices`` (int32 if ids allow), ``flags`` (uint8) and ``weights``
    (float32, None if all are 1) have the shape m. The links of a page come in groups of equal flags,
    ascending.
    """

    indptr: NDArray[np.signedinteger]
    indices: NDArray[np.signedinteger]
    flags: NDArray[np.uint8]
    weights: NDArray[np.float32] | None

    @property
    def pages(self) -> int:
        """How many pages the graph has, including those without links."""
        return len(self.indptr) - 1


class Repacked(NamedTuple):
    """A segment to write: put ``value`` under ``key`` (delete the key if it is empty), and delete the
    ``rows`` that it holds now, as (key, value). A row whose value has changed since has to stay."""

    key: bytes
    value: bytes
    rows: list[Row]


class Links(NamedTuple):
    """Some links, ascending by source, then target: four arrays of one length (int64, uint8, float32)."""

    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    flags: NDArray[np.uint8]
    weights: NDArray[np.float32]


class Chunk(NamedTuple):
    """The stored links of `SEGMENT` pages from ``first`` on: a segment, and rows by page."""

    first: int
    segment: bytes
    rows: list[tuple[int, bytes]]


def find_row(source: int, get: Callable[[bytes], bytes | None]) -> list[Edge]:
    """Return the stored edges of one page, ascending; about 1 ms if they are in a segment. *get* returns the
    value of a key or None. Raises `ValueError` for damaged bytes."""
    row = get(link_key(source))
    if row is not None:
        return decode_row(source, row)
    segment = get(segment_key(source)) or b""
    edges = []
    for part in link_rows.unpack(source // SEGMENT * SEGMENT, segment):
        kept = link_rows.only(part, part.sources == source)
        codes = [ONE] * len(kept.targets) if kept.codes is None else kept.codes.tolist()
        for target, code in zip(kept.targets.tolist(), codes, strict=True):
            edges.append(Edge(target, kept.flags & FLAGS, WEIGHTS[code]))
    edges.sort()
    return edges


def highest_id(key: bytes, value: bytes) -> int:
    """Return the highest page id in a row or a segment. Raises `ValueError` for bytes that are neither, and
    for targets that are negative or too large for a key."""
    first = key_id(key)
    if len(key) != 1 + ID_BYTES or (key[:1] == SEGMENT_ROW and first % SEGMENT):
        raise ValueError(f"a key of {len(key)} bytes")
    targets = [first]
    if key[:1] == LINK_ROW:
        targets += [edge.target for edge in decode_row(first, value)]
    else:
        for part in link_rows.unpack(first, value):
            targets += [int(part.sources.max()), int(part.targets.min()), int(part.targets.max())]
    if min(targets) < 0 or max(targets) >= 1 << 8 * ID_BYTES:
        raise ValueError(f"links from page {min(targets)} to page {max(targets)}")
    return max(targets[1:], default=0)


def repack(
    loose: Iterable[Row], get: Callable[[bytes], bytes | None], everything: bool = False
) -> Iterator[Repacked]:
    """Yield the segments whose loose rows are a quarter or more of their pages, or with *everything* all that
    have loose rows. So a link is packed about five times in its life. About 5 million links a second, 10 ms a
    segment."""
    for first, group in groupby(loose, _segment_of):
        rows = list(group)
        key = segment_key(first)
        segment = get(key) or b""
        packed = link_rows.pages_with_links(segment)
        if everything or len(rows) >= max(_LEAST_LOOSE, packed / _LOOSE_SHARE):
            value = link_rows.pack(first, segment, [(key_id(key), value) for key, value in rows])
            yield Repacked(key, value, rows)


def read_graph(loose: Iterable[Row], packed: Iterable[Row], pages: int = 0) -> Graph:
    """Read the graph from the rows *loose* and the segments *packed* of one snapshot, with *pages* nodes (0:
    as many as its ids need). 25 to 40 million links a second from segments. Raises `ValueError` for damaged
    bytes, and for a link to an unknown page."""
    found = (link_rows.newest(*chunk) for chunk in chunks(loose, packed))
    return _assemble([part for parts in found for part in parts], pages)


def _assemble(parts: list[Part], pages: int) -> Graph:
    least = min((int(part.targets.min()) for part in parts), default=0)
    highest = max((max(int(part.sources[-1]), int(part.targets.max())) for part in parts), default=-1)
    if least < 0 or 0 < pages <= highest:
        raise ValueError(f"links lead from page {least} to page {highest}, which was never found")
    pages = pages or highest + 1
    degrees = np.zeros(pages, np.int64)
    for part in parts:
        degrees[part.sources] += part.degrees
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(degrees)))
    links = int(indptr[-1])
    small = max(pages, links) < 1 << 31
    indices = np.empty(links, np.int32 if small else np.int64)
    flags = np.empty(links, np.uint8)
    weights = np.ones(links, np.float32) if any(part.codes is not None for part in parts) else None
    free = indptr[:-1].copy()
    for part in parts:
        begin = free[part.sources]
        start, stop = int(begin[0]), int(begin[-1] + part.degrees[-1])
        where: slice | NDArray[np.int64] = slice(start, stop)
        if stop - start != len(part.targets):  # other parts have links between these
            where = link_rows.spread(begin, part.degrees)
        indices[where] = part.targets
        flags[where] = part.flags & FLAGS
        if weights is not None and part.codes is not None:
            weights[where] = _WEIGHTS[part.codes]
        free[part.sources] += part.degrees
    return Graph(indptr.astype(indices.dtype), indices, flags, weights)


def chunks(loose: Iterable[Row], packed: Iterable[Row]) -> Iterator[Chunk]:
    """Yield the stored links in chunks, in the order of pages."""
    groups = groupby(loose, _segment_of)
    rows = (Chunk(first, b"", [(key_id(key), row) for key, row in group]) for first, group in groups)
    segments = (Chunk(key_id(key), segment, []) for key, segment in packed)
    for first, halves in groupby(merge(rows, segments), attrgetter("first")):
        both = list(halves)  # or one of them
        yield Chunk(first, both[-1].segment, both[0].rows)


def _segment_of(row: Row) -> int:
    """Return the first page of the segment that a row belongs to."""
    return key_id(row[0]) // SEGMENT * SEGMENT


def links_in(chunk: Chunk, pages: int = 1 << 8 * ID_BYTES) -> Links:
    """Return the links of a chunk; 5 to 10 million a second. Raises `ValueError` for damaged bytes, and for a
    link to a page from *pages* on."""
    first, parts = chunk.first, link_rows.newest(*chunk)
    if not parts:
        nothing = np.zeros(0, np.int64)
        return Links(nothing, nothing, nothing.astype(np.uint8), nothing.astype(np.float32))
    sources = np.concatenate([np.repeat(part.sources, part.degrees) for part in parts])
    targets = np.concatenate([part.targets for part in parts])
    if targets.min() < 0 or targets.max() >= pages:
        raise ValueError(f"links from pages {first} on lead to page {targets.max()}, which was never found")
    flags = np.concatenate([np.full(len(part.targets), part.flags & FLAGS, np.uint8) for part in parts])
    codes = [
        np.full(len(part.targets), ONE, np.uint8) if part.codes is None else part.codes for part in parts
    ]
    weights = _WEIGHTS[np.concatenate(codes)]
    order = np.lexsort((targets, sources))
    return Links(sources[order], targets[order], flags[order], weights[order])


def ranking_weights(graph: Graph) -> NDArray[np.float32] | None:
    """Return the weight of each link in a ranking: its link score, 0 for nofollow; None if all are 1."""
    are_cut = graph.flags & NOFOLLOW > 0
    if graph.weights is None and not are_cut.any():
        return None
    weights = np.ones(len(graph.indices), np.float32) if graph.weights is None else graph.weights.copy()
    weights[are_cut] = 0
    return weights
