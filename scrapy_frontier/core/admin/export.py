"""A whole frontier as a stream of lines; `importer` reads them back.

The lines carry requests, not fingerprints, and sort keys as numbers, so that another version, or a project
with another fingerprinter, can read them; ``docs/internals/export.md`` describes them. Memory does not grow
with the number of pages.

The link graph, and what the scorer keeps, as plain lines of an export, and back.

Out: damaged rows travel as bytes set aside, as a repair would leave them. In: links are packed as they come,
4096 pages at a time.

A whole frontier from the lines of an export.

It streams: memory does not grow with the number of pages (about 300 bytes a host).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
from base64 import b64decode, b64encode
from functools import cached_property
from itertools import groupby, repeat
from typing import TYPE_CHECKING, NamedTuple

from ..errors import FrontierError, lenient
from ..hosts.host import host_of_page
from ..pages.revisit_queue import is_forbidden
from ..parse.urls import clean_host, origin_of
from ..ranking import graph
from ..store import keys, link_rows, queue_keys, records
from ..store.keys import State
from ..store.records import Page
from . import facts
from .check import ROWS_AT_A_TIME, HostTally, gives_way, in_place_of, pages_led_on, salvage, settle
from .facts import chunks
from .page_visits import exported, fields, imported, number, real, several, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..pages.edits import FingerprintOf
    from ..store.keys import PageId
    from ..store.leveldb import Store
    from .page_visits import Line

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
    counts = records.read_counts(store)
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
        page = lenient(records.decode_page, value)
        if page is None:
            if store.get(keys.aside_key(page_id)) is None:
                yield {"aside": page_id, "bytes": b64encode(value).decode()}
            if page_id >= keys.FIRST_VISIT:
                continue
            page = salvage(value, "", now)
        yield _page_line(page_id, page)


def _page_line(page_id: PageId, page: records.Page) -> Line:
    line: Line = {"page": page_id, "url": page.url, "state": page.state.name.lower()}
    plain = records.Page(page.url, page.state, payload=page.payload, visits=page.visits)
    for name, value, default in zip(page._fields, page, plain, strict=True):
        if value != default:
            line[name] = value
    if page.facts != records.NO_FACTS:
        line["facts"] = {name: value for name, value in page.facts._asdict().items() if value}
    if page.visit_payload:
        line["visit_payload"] = b64encode(page.visit_payload).decode()
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
        if records.is_due_key(key):
            _, page_id, *rest = due = records.decode_due(key, value)
            given = {name: value for name, value in zip(due._fields[2:], rest, strict=True) if value}
            yield {"comes_back": page_id, "when": due.when, **given}
    for key, value in store.scan(keys.DEFERRED):
        deferred = keys.split_deferred_key(key)
        if deferred is not None:
            depth, bucket = records.decode_deferred(value)
            given = {name: value for name, value in (("depth", depth), ("bucket", bucket)) if value}
            yield {"deferred": deferred[1], "unit": deferred[0], **given}


def _place(place: queue_keys.QueuePlace) -> Line:
    """In which queue a page stands, and where; as bytes for one that comes back."""
    if records.is_sort_key_of_due(place.sort_key):
        return {"host": place.host, "sort_key": place.sort_key.hex()}
    return {"host": place.host, **queue_keys.read_sort_key(place.sort_key)._asdict()}


def _hosts(store: Store) -> Iterator[Line]:
    for key, value in store.scan(keys.HOST):
        row = facts.host_row(value)
        name = key[1:].decode(errors="replace")
        yield {"host": name, "visited": row.visited, "response_time": row.response_time}
    for host, orders in records.all_orders(store):
        yield {"orders": host, "delay": orders.delay, "blocked": orders.blocked}
    for key, value in store.scan(keys.COOLDOWN):
        if cooldown := lenient(records.decode_cooldown, value):
            yield {"cooldown": key[1:].decode(errors="replace"), **cooldown._asdict()}


def _sites(store: Store) -> Iterator[Line]:
    """Rows that cannot be read are left out: both are asked for again."""
    for key, value in store.scan(keys.ROBOTS):
        if copy := lenient(records.decode_copy, value):
            kept = copy._asdict()
            file, verdict = b64encode(kept.pop("body")).decode(), kept.pop("verdict").name.lower()
            origin = key[1:].decode(errors="replace")
            more = {} if store.get(keys.changed_key(origin)) is None else {"has_changed": True}
            yield {"robots": origin, "verdict": verdict, **kept, "file": file, **more}
    for key, value in store.scan(keys.SITEMAPS):
        if sitemaps := lenient(records.decode_sitemaps, value):
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


GRAPH_KINDS = ("links", "scores", "content", "ranking", "aside_links")


# -- out ---------------------------------------------------------------------------------------------------


def graph_lines(store: Store) -> Iterator[Line]:
    """Links page by page, what the scorer keeps, the last ranking, links set aside; 4096 pages in memory at a
    time. Raises `UnreadableRow` where the counts cannot be read."""
    pages = records.read_counts(store).next_page
    for chunk in chunks(store):
        try:
            links = graph.links_in(chunk, pages)
        except (ValueError, IndexError):
            chunk, damaged = _salvage(chunk, pages)
            links = graph.links_in(chunk, pages)
            yield from (_urls_beside(key, value) for key, value in damaged)
        yield from _link_lines(links)
    for key, value in store.scan(keys.COLUMN):
        place = records.split_column_key(key)
        if place is not None and value and not len(value) % 2:
            yield {"scores": place[0], "first": place[1]} | _bytes(value)
    for key, value in store.scan(keys.CONTENT):
        score = records.decode_content(value)
        if len(key) == 1 + keys.ID_BYTES and score is not None:
            yield {"content": keys.key_id(key), "score": score}
    ranking = records.last_ranking(store)
    if ranking is not None:
        yield {"ranking": ranking}
    for key, value in store.scan(keys.ASIDE):
        if len(key) != len(keys.aside_key(0)):
            yield _urls_beside(key[1:], value)


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


def _urls_beside(key: bytes, value: bytes) -> Line:
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
            self._put(records.column_key(text(line, "scores"), number(line, "first")), value)
        elif "content" in line:
            score = records.encode_content(real(line, "score"))
            self._put(keys.content_key(number(line, "content")), score)
        elif "ranking" in line:
            self._put(keys.RANKING, records.encode_ranking(fields(line, "ranking")))
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
            self._put(keys.segment_key(self._first), link_rows.pack(self._first, b"", self._rows))
            self._rows = []


_PLACES = ("queued", "waiting", "deferred", "comes_back")  # of pages that came before, if not merged
_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

NO_EXPORT = "this is no export of a frontier: name a file that `scrapy frontier export` wrote"
_ANEW = "export it anew, or copy it again"


class BadExport(FrontierError):
    """What should be an export is none, or is damaged; the message names the line."""

    reason = "frontier_export"


# -- in ------------------------------------------------------------------------------------------------------


class Imported(NamedTuple):
    """How an import ended: pages and hosts now there, pages that turned out to be one with another under
    this project's fingerprinter, pages whose request could not be rebuilt, lines of unknown kinds."""

    pages: int
    hosts: int
    merged: int
    not_rebuilt: int
    unknown: int


class Importer:
    """Fills an empty *store* with the lines of an export; `run` it once. *fingerprint_of* tells how this
    project identifies the request of a page, None where it cannot.

    The caller throws the store away if that raises `BadExport`: half a frontier is none.
    """

    def __init__(self, store: Store, fingerprint_of: FingerprintOf) -> None:
        self._store = store
        self._fingerprint_of = fingerprint_of
        self._rows: dict[bytes, bytes | None] = {}  # to be written
        self._tally = HostTally()
        self._merged: dict[int, int] = {}  # pages, and the page each turned out to be
        self._not_rebuilt = 0
        self._unknown = 0
        self._to_place = 0  # queued and deferred pages less the rows that lead to them

    def run(self, lines: Iterable[Line]) -> Imported:
        """Take in the *lines*, in the order in which `export_lines` gave them, and tell what came
        of it.

        All rows are on their way to the disk when this returns, a thousand in a batch; a page that is there
        already under this project's fingerprints is merged with it, and links, redirects and parents lead on.
        Lines of kinds nobody knows are counted and passed over. Raises `BadExport` where a line makes no
        sense, the end is missing or anything follows it, and `FrontierUnwritable`.
        """
        place = 0
        header: Line = {}
        lines = iter(lines)
        for place, line in enumerate(lines, 1):
            try:
                if place == 1:
                    header = self._header(line)
                elif "end" in line:
                    break
                else:
                    self._take(line)
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError, struct.error) as error:
                raise BadExport(
                    f"line {place} makes no sense ({error!r}): {str(line)[:80]}; {_ANEW}"
                ) from error
        else:
            raise BadExport(f"it ends after {place} lines without an end: the file is cut off; {_ANEW}")
        if line["end"] != place - 1:
            raise BadExport(
                f"it holds {place - 1} lines and says it has {line['end']}: some are missing; {_ANEW}"
            )
        if next(lines, None) is not None:
            raise BadExport(f"more follows its end, line {place}: another export, perhaps; import one alone")
        if self._to_place:
            raise BadExport(
                f"the queues do not fit the pages ({self._to_place}): run `scrapy frontier check --repair` "
                f"where it came from, and {_ANEW}"
            )
        return self._finish(header)

    def _header(self, line: Line) -> Line:
        version = line.get("frontier")
        if version is None:
            raise BadExport(NO_EXPORT)
        if version != EXPORT_VERSION:
            raise BadExport(
                f"this is an export of version {version}, and only {EXPORT_VERSION} can be read here: import "
                "it with the version of scrapy-frontier that wrote it"
            )
        counts, names = self._tally.counts, ("next_page", "next_visit", "attempts")
        counts.next_page, counts.next_visit, counts.attempts = (number(line, name) for name in names)
        if revisit := str(line.get("revisit", "")):
            self._put(keys.REVISIT, bytes.fromhex(revisit))
        return line

    def _take(self, line: Line) -> None:
        kind = next((kind for kind in self._KINDS if kind in line), "")
        if not kind:
            self._unknown += 1
        elif kind not in _PLACES or line[kind] not in self._merged:
            self._KINDS[kind](self, line)
            self._to_place -= kind in _PLACES

    def _put(self, key: bytes, value: bytes) -> None:
        self._rows[key] = value
        if len(self._rows) >= ROWS_AT_A_TIME:
            self._flush()

    def _flush(self) -> None:
        self._store.write(self._rows)
        self._rows.clear()

    def _page(self, line: Line) -> None:
        page_id, page = number(line, "page"), _page_of(line)
        if page_id < keys.FIRST_VISIT:
            entered = self._enter(page_id, page)
            if entered is None:
                return
            page = entered
        self._put(keys.page_key(page_id), records.encode_page(page))
        if is_forbidden(page):
            self._put(keys.forbidden_prefix(origin_of(page.url) or "") + keys.id_bytes(page_id), b"")
        is_back = bool(self._tally.enter(host_of_page(page), page))
        self._to_place += page.state is State.QUEUED or page.is_deferred or is_back

    def _enter(self, page_id: PageId, page: Page) -> Page | None:
        """Write the index row of a page, and tell its record; None if the same page is there already, and
        does not give way."""
        fingerprint = self._fingerprint_of(page)
        if fingerprint is None:
            self._not_rebuilt += 1
            known = page.url.encode("utf-8", "surrogatepass") + page.payload + keys.id_bytes(page_id)
            fingerprint = hashlib.sha256(known).digest()[:20]  # nobody asks for it again, but it is kept
        key = keys.INDEX + fingerprint
        twin = self._row(key)
        if twin is not None:
            twin_id = keys.id_in(twin)
            older = records.decode_page(self._row(keys.page_key(twin_id)) or b"")
            if not gives_way(twin_id, older, page_id, page):
                self._merged[page_id] = twin_id
                return None
            self._remove(twin_id, older, page_id)
            page = in_place_of(older, page)
        self._put(key, keys.index_value(page_id, records.may_be_only_seen(page)))
        return page

    def _row(self, key: bytes) -> bytes | None:
        return self._rows.get(key) or self._store.get(key)

    def _remove(self, page_id: PageId, page: Page, kept: PageId) -> None:
        self._rows[keys.page_key(page_id)] = None
        comes_back = bool(self._tally.enter(host_of_page(page), page, -1))
        self._to_place -= comes_back  # whose row is passed over when it comes
        self._merged[page_id] = kept

    @cached_property
    def _graph(self) -> GraphImporter:
        """Made when all pages are there: only then it is known which stayed of those that are one."""
        settle(self._merged)
        return GraphImporter(self._put, self._merged)

    def _queued(self, line: Line) -> None:
        sort_key = _sort_key(line, number(line, "queued"))
        self._put(queue_keys.queue_prefix(text(line, "host")) + sort_key, b"")

    def _waiting(self, line: Line) -> None:
        page_id = number(line, "waiting")
        # A quarter of a microsecond more, or the float just below a whole one would lose it.
        key = queue_keys.waiting_key(real(line, "waits_until") + 2.5e-7, page_id)
        self._put(key, queue_keys.pack_sort_key(_sort_key(line, page_id), text(line, "host")))

    def _due(self, line: Line) -> None:
        weight, rate = (number(line, name) if name in line else 0 for name in ("weight", "rate"))
        when, page_id = number(line, "when"), number(line, "comes_back")
        due = records.Due(when, page_id, line.get("is_hub") is True, weight, rate)
        self._put(records.due_key(when, page_id), records.encode_due(due))

    def _deferred(self, line: Line) -> None:
        depth, bucket = (number(line, name) if name in line else 0 for name in ("depth", "bucket"))
        key = keys.deferred_key(text(line, "unit"), number(line, "deferred"))
        self._put(key, records.encode_deferred(depth, bucket))

    def _body(self, line: Line) -> None:
        key = keys.body_key(clean_host(text(line, "host")), bytes.fromhex(text(line, "digest")))
        self._put(key, keys.id_bytes(number(line, "body")))

    def _host(self, line: Line) -> None:
        row = self._tally.of(text(line, "host"))
        times = (real(line, name) if name in line else 0.0 for name in ("visited", "response_time"))
        row.visited, row.response_time = times

    def _orders(self, line: Line) -> None:
        delay = None if line["delay"] is None else real(line, "delay")
        blocked = None if line["blocked"] is None else number(line, "blocked")
        orders = records.encode_orders(records.Orders(delay, blocked))
        self._put(keys.orders_key(text(line, "orders")), orders)

    def _cooldown(self, line: Line) -> None:
        rest = real(line, "until"), number(line, "strikes"), real(line, "since")
        is_answering = line.get("is_answering") is True
        cooldown = records.Cooldown(*rest, text(line, "reason"), is_answering)
        self._put(keys.cooldown_key(text(line, "cooldown")), records.encode_cooldown(cooldown))

    def _robots(self, line: Line) -> None:
        fetched, ask_at, failing_since = (real(line, name) for name in ("fetched", "ask_at", "failing_since"))
        status, failures = (number(line, name) for name in ("status", "failures"))
        etag, modified = (str(line.get(name, "")) for name in ("etag", "modified"))
        verdict = records.Verdict[text(line, "verdict").upper()]
        body = b64decode(text(line, "file"), validate=True)
        asked = fetched, ask_at, failing_since, failures
        copy = records.RobotsCopy(verdict, status, *asked, body, etag, modified)
        self._put(keys.robots_key(text(line, "robots")), records.encode_copy(copy))
        if line.get("has_changed"):
            self._put(keys.changed_key(text(line, "robots")), b"")

    def _learnt(self, line: Line) -> None:
        key = text(line, "learnt").encode()
        if not (key.startswith(keys.RATES) or key in (keys.RATES_OF_ALL, keys.OPENED)):
            raise ValueError("no row of what was learnt")
        self._put(key, bytes.fromhex(text(line, "row")))

    def _sitemaps(self, line: Line) -> None:
        listed, refused = (tuple(several(line, name, str)) for name in ("listed", "refused"))
        hints = tuple(several(line, "hints", float)) if "hints" in line else ()
        if len(hints) not in (0, 4):
            raise ValueError("hints are four numbers")
        sitemaps = records.SiteSitemaps(listed, bool(line["is_contacted"]), refused, hints)
        self._put(keys.sitemaps_key(text(line, "sitemaps")), records.encode_sitemaps(sitemaps))

    def _aside(self, line: Line) -> None:
        self._put(keys.aside_key(number(line, "aside")), b64decode(text(line, "bytes"), validate=True))

    _KINDS: dict[str, Callable[[Importer, Line], None]] = {
        "page": _page,
        "queued": _queued,
        "waiting": _waiting,
        "deferred": _deferred,
        "comes_back": _due,
        "orders": _orders,
        "cooldown": _cooldown,
        "robots": _robots,
        "sitemaps": _sitemaps,
        "learnt": _learnt,
        "aside": _aside,
        "body": _body,
        **dict.fromkeys(GRAPH_KINDS, lambda self, line: self._graph.take(line)),
        "host": _host,
    }

    def _finish(self, header: Line) -> Imported:
        self._graph.finish()
        self._flush()
        for key, value in pages_led_on(self._store, self._merged):
            self._put(key, value)
        counts, hosts = self._tally.counts, self._tally.hosts
        for name, row in hosts.items():
            self._put(keys.host_key(name), records.encode_host(row))
        counts.hosts = len(hosts)
        self._put(keys.COUNTS, records.encode_counts(counts))
        if header.get("is_clean"):
            self._put(keys.CLEAN, b"")
        self._flush()
        pages = sum(counts.totals().states.values())
        return Imported(pages, counts.hosts, len(self._merged), self._not_rebuilt, self._unknown)


def _sort_key(line: Line, page_id: PageId) -> bytes:
    """The sort key in a line of a queue."""
    if "sort_key" in line:
        return bytes.fromhex(text(line, "sort_key"))
    priority, bucket, arrival = (number(line, name) for name in ("priority", "bucket", "arrival"))
    return queue_keys.sort_key(priority, bucket, arrival, page_id)


def _facts_of(line: Line) -> records.RequestFacts:
    def optional(name: str) -> float | None:
        return real(line, name) if name in line else None

    numbers = ("shelf_life", "refresh", "force")
    switches = {name: line.get(name) is True for name in records.NO_FACTS._fields if name not in numbers}
    facts = records.RequestFacts(**switches)
    return facts._replace(
        shelf_life=optional("shelf_life"), refresh=optional("refresh"), force=optional("force")
    )


def _page_of(line: Line) -> Page:
    payload = b""
    if "request" in line:
        payload = _dumps(line["request"]).encode("utf-8", "surrogatepass")
    elif "payload" in line:
        payload = b64decode(text(line, "payload"), validate=True)
    numbers = ("attempts", "priority", "discovered", "parent", "status", "changed", "target", "lastmod")
    given: Line = {name: number(line, name) for name in numbers if name in line}
    given |= {name: text(line, name) for name in ("host", "reason") if name in line}
    is_deferred = line.get("is_deferred") is True
    state = State[text(line, "state").upper()]
    visits = imported(fields(line, "visits")) if "visits" in line else None
    page = Page(
        text(line, "url"),
        state,
        payload=payload,
        is_deferred=is_deferred,
        visits=visits,
        facts=_facts_of(fields(line, "facts")) if "facts" in line else records.NO_FACTS,
        visit_payload=b64decode(text(line, "visit_payload"), validate=True)
        if "visit_payload" in line
        else b"",
    )
    return Page._make((page._asdict() | given).values())
