"""A whole frontier as a stream of lines; `importer` reads them back.

The lines carry requests, not fingerprints, and sort keys as numbers, so that another version, or a project
with another fingerprinter, can read them; ``docs/internals/export.md`` describes them. Memory does not grow
with the number of pages.
"""

from __future__ import annotations

import contextlib
import json
from base64 import b64encode
from typing import TYPE_CHECKING

from ..errors import lenient
from ..store import due_rows, host_rows, keys, meta_rows, page_rows, queue_keys, site_rows
from . import facts
from .check_notes import salvage
from .export_graph import graph_lines
from .page_visits import exported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..store.keys import PageId
    from ..store.leveldb import Store
    from .export_line import Line

EXPORT_VERSION = 1


def export_lines(store: Store, now: float) -> Iterator[Line]:
    """Every line of an export, at *now* (POSIX seconds): the header first and the number of lines
    last.

    One pass over all rows, in order of kinds, which `Importer` needs; what cannot be read is given as bytes,
    or left out. Raises `UnreadableRow` where the counts cannot be read.
    """
    count = 0
    parts = _header(store, now), _pages(store, now), _queues(store), _hosts(store), _aside(store)
    for part in (*parts, _sites(store), _learnt(store), _bodies(store), graph_lines(store)):
        for line in part:
            count += 1
            yield line
    yield {"end": count}


def _header(store: Store, now: float) -> Iterator[Line]:
    counts = meta_rows.read_counts(store)
    yield {
        "frontier": EXPORT_VERSION,
        "format": keys.FORMAT_VERSION,
        "scheme": (store.get(keys.SCHEME) or b"").decode(errors="replace"),
        "exported": now,
        "is_clean": store.get(keys.CLEAN) is not None,
        "next_page": counts.next_page,
        "next_visit": counts.next_visit,
        "attempts": counts.attempts,
        "pages": sum(counts.totals().states.values()),
        "revisit": (store.get(keys.REVISIT) or b"").hex(),
    }


def _pages(store: Store, now: float) -> Iterator[Line]:
    for key, value in store.scan(keys.PAGE):
        page_id = keys.key_id(key)
        page = lenient(page_rows.decode_page, value)
        if page is None:
            if store.get(keys.aside_key(page_id)) is None:
                yield {"aside": page_id, "bytes": b64encode(value).decode()}
            if page_id >= keys.FIRST_VISIT:
                continue
            page = salvage(value, "", now)
        yield _page_line(page_id, page)


def _page_line(page_id: PageId, page: page_rows.Page) -> Line:
    line: Line = {"page": page_id, "url": page.url, "state": page.state.name.lower()}
    plain = page_rows.Page(page.url, page.state, payload=page.payload, visits=page.visits)
    for name, value, default in zip(page._fields, page, plain, strict=True):
        if value != default:
            line[name] = value
    if page.visits is not None:
        line["visits"] = exported(page.visits)
    if page.payload:
        line.update(_request(page.payload))
    return line


def _request(payload: bytes) -> Line:
    """The frozen request as the JSON object it is, or as bytes where it is none."""
    with contextlib.suppress(ValueError):
        request = json.loads(payload.decode("utf-8", "surrogatepass"))
        if isinstance(request, dict):
            return {"request": request}
    return {"payload": b64encode(payload).decode()}


def _queues(store: Store) -> Iterator[Line]:
    for key, value in store.scan(keys.QUEUE):
        if place := queue_keys.split_queue_row(key, value):
            yield {"queued": queue_keys.sort_key_id(place.sort_key), **_place(place)}
    for place in queue_keys.waiting_places(store):
        page_id = queue_keys.sort_key_id(place.sort_key)
        yield {"waiting": page_id, "waits_until": place.waits_until, **_place(place)}
    for key, value in store.scan(keys.DUE):
        if due_rows.is_due_key(key):
            _, page_id, *rest = due = due_rows.decode_due(key, value)
            given = {name: value for name, value in zip(due._fields[2:], rest, strict=True) if value}
            yield {"comes_back": page_id, "when": due.when, **given}
    for key, value in store.scan(keys.DEFERRED):
        deferred = keys.split_deferred_key(key)
        if deferred is not None:
            depth, bucket = page_rows.decode_deferred(value)
            given = {name: value for name, value in (("depth", depth), ("bucket", bucket)) if value}
            yield {"deferred": deferred[1], "unit": deferred[0], **given}


def _place(place: queue_keys.QueuePlace) -> Line:
    """In which queue a page stands, and where; as bytes for one that comes back."""
    if due_rows.is_sort_key_of_due(place.sort_key):
        return {"host": place.host, "sort_key": place.sort_key.hex()}
    return {"host": place.host, **queue_keys.read_sort_key(place.sort_key)._asdict()}


def _hosts(store: Store) -> Iterator[Line]:
    for key, value in store.scan(keys.HOST):
        row = facts.host_row(value)
        name = key[1:].decode(errors="replace")
        yield {"host": name, "visited": row.visited, "response_time": row.response_time}
    for host, orders in host_rows.all_orders(store):
        yield {"orders": host, "delay": orders.delay, "blocked": orders.blocked}
    for key, value in store.scan(keys.COOLDOWN):
        if cooldown := lenient(host_rows.decode_cooldown, value):
            yield {"cooldown": key[1:].decode(errors="replace"), **cooldown._asdict()}


def _sites(store: Store) -> Iterator[Line]:
    """Rows that cannot be read are left out: both are asked for again."""
    for key, value in store.scan(keys.ROBOTS):
        if copy := lenient(site_rows.decode_copy, value):
            kept = copy._asdict()
            file, verdict = b64encode(kept.pop("body")).decode(), kept.pop("verdict").name.lower()
            origin = key[1:].decode(errors="replace")
            more = {} if store.get(keys.changed_key(origin)) is None else {"has_changed": True}
            yield {"robots": origin, "verdict": verdict, **kept, "file": file, **more}
    for key, value in store.scan(keys.SITEMAPS):
        if sitemaps := lenient(site_rows.decode_sitemaps, value):
            yield {"sitemaps": key[1:].decode(errors="replace"), **sitemaps._asdict()}


def _learnt(store: Store) -> Iterator[Line]:
    """What the visits of pages taught of how often pages change, row by row."""
    for prefix in (keys.RATES, keys.RATES_OF_ALL, keys.OPENED):
        for key, value in store.scan(prefix):
            yield {"learnt": key.decode(errors="replace"), "row": value.hex()}


def _bodies(store: Store) -> Iterator[Line]:
    for key, value in store.scan(keys.BODY):
        host, _, digest = key[1:].partition(b"\0")
        page_id = keys.id_in(value)
        yield {"body": page_id, "host": host.decode(errors="replace"), "digest": digest.hex()}


def _aside(store: Store) -> Iterator[Line]:
    for key, value in store.scan(keys.ASIDE):
        if len(key) == len(keys.aside_key(0)):  # else of the link graph, and travels with it
            yield {"aside": keys.key_id(key), "bytes": b64encode(value).decode()}
