"""The link graph, and what the scorer keeps, as plain lines of an export, and back.

Out: damaged rows travel as bytes set aside, as a repair would leave them. In: links are packed as they come,
4096 pages at a time.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from itertools import groupby, repeat
from typing import TYPE_CHECKING

from ..ranking import graph
from ..store import column_rows, keys, link_rows, link_segments, meta_rows, rate_rows
from .export_line import fields, number, real, several, text
from .links_in_chunks import chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..store.leveldb import Store
    from .export_line import Line

GRAPH_KINDS = ("links", "scores", "content", "ranking", "aside_links")


# -- out ---------------------------------------------------------------------------------------------------


def graph_lines(store: Store) -> Iterator[Line]:
    """Links page by page, what the scorer keeps, the last ranking, links set aside; 4096 pages in memory at a
    time. Raises `UnreadableRow` where the counts cannot be read."""
    pages = meta_rows.read_counts(store).next_page
    for chunk in chunks(store):
        try:
            links = graph.links_in(chunk, pages)
        except (ValueError, IndexError):
            chunk, damaged = _salvage(chunk, pages)
            links = graph.links_in(chunk, pages)
            yield from (_aside(key, value) for key, value in damaged)
        yield from _link_lines(links)
    for key, value in store.scan(keys.COLUMN):
        place = column_rows.split_column_key(key)
        if place is not None and value and not len(value) % 2:
            yield {"scores": place[0], "first": place[1]} | _bytes(value)
    for key, value in store.scan(keys.CONTENT):
        score = rate_rows.decode_content(value)
        if len(key) == 1 + keys.ID_BYTES and score is not None:
            yield {"content": keys.key_id(key), "score": score}
    ranking = meta_rows.last_ranking(store)
    if ranking is not None:
        yield {"ranking": ranking}
    for key, value in store.scan(keys.ASIDE):
        if len(key) != len(keys.aside_key(0)):
            yield _aside(key[1:], value)


def _link_lines(links: graph.Links) -> Iterator[Line]:
    rows = zip(*(part.tolist() for part in links), strict=True)
    for source, group in groupby(rows, lambda row: row[0]):
        _, targets, flags, weights = zip(*group, strict=True)
        line: Line = {"links": source, "to": targets}
        if any(flags):
            line["flags"] = flags
        if any(weight != 1 for weight in weights):
            line["weights"] = weights
        yield line


def _salvage(chunk: graph.Chunk, pages: int) -> tuple[graph.Chunk, list[tuple[bytes, bytes]]]:
    """What can be read of a chunk, and the keys and bytes of what cannot."""
    keyed = [(keys.link_key(page_id), row) for page_id, row in chunk.rows]
    damaged = [(key, row) for key, row in keyed if not _is_sound(key, row, pages)]
    lost = {keys.key_id(key) for key, _ in damaged}
    good = [(page_id, row) for page_id, row in chunk.rows if page_id not in lost]
    segment, key = chunk.segment, keys.segment_key(chunk.first)
    if segment and not _is_sound(key, segment, pages):
        damaged.append((key, segment))
        segment = b""
    return chunk._replace(rows=good, segment=segment), damaged


def _is_sound(key: bytes, value: bytes, pages: int) -> bool:
    try:
        return graph.highest_id(key, value) < pages
    except (ValueError, IndexError):
        return False


def _aside(key: bytes, value: bytes) -> Line:
    return {"aside_links": b64encode(key).decode(), **_bytes(value)}


def _bytes(value: bytes) -> Line:
    return {"bytes": b64encode(value).decode()}


# -- in ----------------------------------------------------------------------------------------------------


class GraphImporter:
    """Puts the rows of lines by *put*; `finish` it after the last.

    *merged* are pages that turned out to be one with another: links to them lead there, their own go.
    """

    def __init__(self, put: Callable[[bytes, bytes], None], merged: dict[int, int]) -> None:
        self._put = put
        self._merged = merged
        self._first = -1
        self._rows: list[tuple[int, bytes]] = []

    def take(self, line: Line) -> None:
        """Put the rows of a *line* of one of `GRAPH_KINDS`; those with links in order of the pages.

        Raises what nonsense in a line raises: `KeyError`, `TypeError`, `ValueError` and the like.
        """
        if "links" in line:
            self._links(line)
        elif "scores" in line:
            value = b64decode(text(line, "bytes"), validate=True)
            self._put(column_rows.column_key(text(line, "scores"), number(line, "first")), value)
        elif "content" in line:
            score = rate_rows.encode_content(real(line, "score"))
            self._put(keys.content_key(number(line, "content")), score)
        elif "ranking" in line:
            self._put(keys.RANKING, meta_rows.encode_ranking(fields(line, "ranking")))
        else:
            key, value = (b64decode(text(line, name), validate=True) for name in ("aside_links", "bytes"))
            self._put(keys.ASIDE + key, value)

    def _links(self, line: Line) -> None:
        source = number(line, "links")
        if source in self._merged:
            return
        targets = [self._merged.get(target, target) for target in several(line, "to", int)]
        flags: Iterable[int] = several(line, "flags", int) if line.get("flags") else repeat(0)
        weights: Iterable[float] = several(line, "weights", float) if line.get("weights") else repeat(1.0)
        edges = zip(targets, flags, weights, strict=False)
        first = source // keys.SEGMENT * keys.SEGMENT
        if first != self._first:
            self.finish()
            self._first = first
        self._rows.append((source, link_rows.encode_row(source, edges)))

    def finish(self) -> None:
        """Pack the links that are not yet, of 4096 pages at most. Nothing the second time."""
        if self._rows:
            self._put(keys.segment_key(self._first), link_segments.pack(self._first, b"", self._rows))
            self._rows = []
