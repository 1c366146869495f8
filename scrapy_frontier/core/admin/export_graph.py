"""The link graph, and what the scorer keeps, as plain records of an export, and back.

Out: damaged rows travel as bytes set aside, as a repair would leave them. In: links are packed as they come,
4096 pages at a time.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from itertools import groupby, repeat
from typing import TYPE_CHECKING

from ..ranking import graph
from ..store import keys, link_rows, link_segments, meta_rows, rate_rows
from .links_in_chunks import stretches
from .record import fields, number, real, several, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..store.leveldb import Store
    from .record import Record

GRAPH_KINDS = ("links", "scores", "content", "ranking", "aside_links")


# -- out ---------------------------------------------------------------------------------------------------


def graph_records(store: Store) -> Iterator[Record]:
    """Links page by page, what the scorer keeps, the last ranking, links set aside; 4096 pages in memory at a
    time. Raises `UnreadableRecord` where the counts cannot be read."""
    pages = meta_rows.read_counts(store).next_page
    for stretch in stretches(store):
        try:
            links = graph.links_in(stretch, pages)
        except (ValueError, IndexError):
            stretch, damaged = _salvage(stretch, pages)
            links = graph.links_in(stretch, pages)
            yield from (_aside(key, value) for key, value in damaged)
        yield from _link_records(links)
    for key, value in store.scan(keys.COLUMN):
        name, _, first = key[1:].partition(b"\0")
        if name and len(first) == keys.ID_BYTES and value and not len(value) % 2:
            piece = {"scores": name.decode(errors="replace"), "first": int.from_bytes(first, "big")}
            yield piece | _bytes(value)
    for key, value in store.scan(keys.CONTENT):
        score = rate_rows.decode_content(value)
        if len(key) == 1 + keys.ID_BYTES and score is not None:
            yield {"content": int.from_bytes(key[1:], "big"), "score": score}
    ranking = meta_rows.last_ranking(store)
    if ranking is not None:
        yield {"ranking": ranking}
    for key, value in store.scan(keys.ASIDE):
        if len(key) != len(keys.aside_key(0)):
            yield _aside(key[1:], value)


def _link_records(links: graph.Links) -> Iterator[Record]:
    rows = zip(*(part.tolist() for part in links), strict=True)
    for source, group in groupby(rows, lambda row: row[0]):
        _, targets, flags, weights = zip(*group, strict=True)
        record: Record = {"links": source, "to": targets}
        if any(flags):
            record["flags"] = flags
        if any(weight != 1 for weight in weights):
            record["weights"] = weights
        yield record


def _salvage(stretch: graph.Stretch, pages: int) -> tuple[graph.Stretch, list[tuple[bytes, bytes]]]:
    """What can be read of a stretch, and the keys and bytes of what cannot."""
    keyed = [(keys.link_key(page_id), row) for page_id, row in stretch.rows]
    damaged = [(key, row) for key, row in keyed if not _is_sound(key, row, pages)]
    lost = {keys.key_id(key) for key, _ in damaged}
    good = [(page_id, row) for page_id, row in stretch.rows if page_id not in lost]
    segment, key = stretch.segment, keys.segment_key(stretch.first)
    if segment and not _is_sound(key, segment, pages):
        damaged.append((key, segment))
        segment = b""
    return stretch._replace(rows=good, segment=segment), damaged


def _is_sound(key: bytes, value: bytes, pages: int) -> bool:
    try:
        return graph.highest_id(key, value) < pages
    except (ValueError, IndexError):
        return False


def _aside(key: bytes, value: bytes) -> Record:
    return {"aside_links": b64encode(key).decode(), **_bytes(value)}


def _bytes(value: bytes) -> Record:
    return {"bytes": b64encode(value).decode()}


# -- in ----------------------------------------------------------------------------------------------------


class GraphImporter:
    """Puts the rows of records by *put*; `finish` it after the last.

    *merged* are pages that turned out to be one with another: links to them lead there, their own go.
    """

    def __init__(self, put: Callable[[bytes, bytes], None], merged: dict[int, int]) -> None:
        self._put = put
        self._merged = merged
        self._first = -1
        self._rows: list[tuple[int, bytes]] = []

    def take(self, record: Record) -> None:
        """Put the rows of a *record* of one of `GRAPH_KINDS`; those with links in order of the pages.

        Raises what nonsense in a record raises: `KeyError`, `TypeError`, `ValueError` and the like.
        """
        if "links" in record:
            self._links(record)
        elif "scores" in record:
            value = b64decode(text(record, "bytes"), validate=True)
            self._put(keys.column_key(text(record, "scores"), number(record, "first")), value)
        elif "content" in record:
            score = rate_rows.encode_content(real(record, "score"))
            self._put(keys.content_key(number(record, "content")), score)
        elif "ranking" in record:
            self._put(keys.RANKING, json.dumps(fields(record, "ranking")).encode())
        else:
            key, value = (b64decode(text(record, name), validate=True) for name in ("aside_links", "bytes"))
            self._put(keys.ASIDE + key, value)

    def _links(self, record: Record) -> None:
        source = number(record, "links")
        if source in self._merged:
            return
        targets = [self._merged.get(target, target) for target in several(record, "to", int)]
        flags: Iterable[int] = several(record, "flags", int) if record.get("flags") else repeat(0)
        weights: Iterable[float] = several(record, "weights", float) if record.get("weights") else repeat(1.0)
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
