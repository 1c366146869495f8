"""A whole frontier from the records of an export.

It streams: memory does not grow with the number of pages (about 300 bytes a host).
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from base64 import b64decode
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import FrontierError
from ..pages.forbidden_pages import is_forbidden
from ..parse.urls import clean_host, origin
from ..store import due_rows, host_rows, keys, meta_rows, page_rows, queue_keys, site_rows
from ..store.directory import DATABASE
from ..store.page_rows import Page
from ..store.states import State
from . import facts
from .check_notes import HostTally
from .check_work import AT_A_TIME, write_rows
from .export import EXPORT_VERSION
from .export_graph import GRAPH_KINDS, GraphImporter
from .visit_record import imported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from ..pages.edits import FingerprintOf
    from ..store.leveldb import Store
    from .export import Record

_PLACES = ("queued", "waiting", "deferred", "returns")  # of pages that came before, if not merged into others
_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class BadExport(FrontierError):
    """What should be an export is none, or is damaged."""

    reason = "frontier_export"


# -- in ------------------------------------------------------------------------------------------------------


class Imported(NamedTuple):
    """How an import ended: pages and hosts now there, pages that turned out to be one with another under
    this project's fingerprinter, pages whose request could not be rebuilt, records of unknown kinds."""

    pages: int
    hosts: int
    merged: int
    not_rebuilt: int
    unknown: int


class Importer:
    """Fills an empty *store* with records; `run` it once.

    The caller throws the store away if that raises `BadExport`: half a frontier is none.
    """

    def __init__(self, store: Store, fingerprint_of: FingerprintOf) -> None:
        self._store = store
        self._fingerprint_of = fingerprint_of
        self._rows: dict[bytes, bytes | None] = {}  # to be written
        self._tally = HostTally()
        self._merged: dict[int, int] = {}  # pages, and the page each turned out to be
        self._graph = GraphImporter(self._put, self._merged)
        self._not_rebuilt = 0
        self._unknown = 0
        self._to_place = 0  # queued and deferred pages less the rows that lead to them

    def run(self, lines: Iterable[Record]) -> Imported:
        read = 0
        header: Record = {}
        for number, record in enumerate(lines):
            try:
                if not number:
                    header = self._header(record)
                elif "end" in record:
                    break
                else:
                    self._take(record)
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError, struct.error) as error:
                raise BadExport(
                    f"record {number + 1} makes no sense ({error!r}): {str(record)[:80]}"
                ) from error
            read += 1
        else:
            raise BadExport(f"it ends after {read} records without an end: the file is cut off")
        if record["end"] != read:
            raise BadExport(f"it holds {read} records and says it has {record['end']}: some are missing")
        if self._to_place:
            raise BadExport(f"the queues do not fit the pages ({self._to_place}): `check` the frontier first")
        return self._finish(header)

    def _header(self, record: Record) -> Record:
        version = record.get("frontier")
        if version is None:
            raise BadExport("this is no export of a frontier")
        if version != EXPORT_VERSION:
            raise BadExport(
                f"this is an export of version {version}, and only {EXPORT_VERSION} can be read here"
            )
        counts, names = self._tally.counts, ("next_page", "next_visit", "attempts")
        counts.next_page, counts.next_visit, counts.attempts = (_number(record, name) for name in names)
        if revisit := str(record.get("revisit", "")):
            self._put(keys.REVISIT, bytes.fromhex(revisit))
        return record

    def _take(self, record: Record) -> None:
        for kind, take in self._KINDS.items():
            if kind in record:
                if kind not in _PLACES:
                    take(self, record)
                elif record[kind] not in self._merged:
                    take(self, record)
                    self._to_place -= 1
                return
        self._unknown += 1

    def _put(self, key: bytes, value: bytes) -> None:
        self._rows[key] = value
        if len(self._rows) >= AT_A_TIME:
            write_rows(self._store, self._rows)

    def _page(self, record: Record) -> None:
        page_id, page = _number(record, "page"), _page_of(record)
        if page_id < keys.FIRST_VISIT and not self._enter(page_id, page):
            return
        self._put(keys.page_key(page_id), page_rows.encode_page(page))
        if is_forbidden(page):
            self._put(keys.forbidden_prefix(origin(page.url) or "") + keys.id_bytes(page_id), b"")
        is_back = bool(self._tally.enter(facts.host_of_page(page), page))
        self._to_place += page.state is State.QUEUED or page.is_deferred or is_back

    def _enter(self, page_id: int, page: Page) -> bool:
        """Write the index row of a page; false if the same page is there already."""
        fingerprint = self._fingerprint_of(page)
        if fingerprint is None:
            self._not_rebuilt += 1
            text = page.url.encode("utf-8", "surrogatepass") + page.payload + keys.id_bytes(page_id)
            fingerprint = hashlib.sha256(text).digest()[:20]  # nobody asks for it again, but it is kept
        key = keys.INDEX + fingerprint
        if (twin := self._rows.get(key) or self._store.get(key)) is not None:
            self._merged[page_id] = keys.index_id(twin)
            return False
        self._put(key, keys.index_value(page_id, meta_rows.may_be_only_seen(page)))
        return True

    def _queued(self, record: Record) -> None:
        sort_key = _sort_key(record, _number(record, "queued"))
        self._put(queue_keys.queue_prefix(_text(record, "host")) + sort_key, b"")

    def _waiting(self, record: Record) -> None:
        page_id = _number(record, "waiting")
        # A quarter of a microsecond more, or the float just below a whole one would lose it.
        key = queue_keys.waiting_key(float(record["due"]) + 2.5e-7, page_id)
        self._put(key, queue_keys.pack_sort_key(_sort_key(record, page_id), _text(record, "host")))

    def _due(self, record: Record) -> None:
        weight, rate = (_number(record, name) if name in record else 0 for name in ("weight", "rate"))
        when, page_id = _number(record, "when"), _number(record, "returns")
        due = due_rows.Due(when, page_id, record.get("is_hub") is True, weight, rate)
        self._put(due_rows.due_key(when, page_id), due_rows.encode_due(due))

    def _deferred(self, record: Record) -> None:
        depth, bucket = (_number(record, name) if name in record else 0 for name in ("depth", "bucket"))
        key = keys.deferred_key(_text(record, "unit"), _number(record, "deferred"))
        self._put(key, page_rows.encode_deferred(depth, bucket))

    def _body(self, record: Record) -> None:
        key = keys.body_key(clean_host(_text(record, "host")), bytes.fromhex(_text(record, "digest")))
        self._put(key, keys.id_bytes(_number(record, "body")))

    def _host(self, record: Record) -> None:
        row = self._tally.of(_text(record, "host"))
        row.visited, row.response_time = (float(record.get(name, 0)) for name in ("visited", "response_time"))

    def _orders(self, record: Record) -> None:
        delay, blocked = record["delay"], record["blocked"]
        given = None if delay is None else float(delay), None if blocked is None else int(blocked)
        self._put(keys.orders_key(_text(record, "orders")), host_rows.encode_orders(host_rows.Orders(*given)))

    def _cooldown(self, record: Record) -> None:
        rest = float(record["until"]), _number(record, "strikes"), float(record["since"])
        is_answering = record.get("is_answering") is True
        cooldown = host_rows.Cooldown(*rest, _text(record, "reason"), is_answering)
        self._put(keys.cooldown_key(_text(record, "cooldown")), host_rows.encode_cooldown(cooldown))

    def _robots(self, record: Record) -> None:
        given: dict[str, Any] = {name: float(record[name]) for name in ("fetched", "ask_at", "failing_since")}
        given |= {name: int(record[name]) for name in ("status", "failures")}
        given |= {name: str(record.get(name, "")) for name in ("etag", "modified")}
        verdict, body = site_rows.Verdict[record["verdict"].upper()], b64decode(record["file"], validate=True)
        copy = site_rows.RobotsCopy(verdict, body=body, **given)
        self._put(keys.robots_key(str(record["robots"])), site_rows.encode_copy(copy))

    def _listing(self, record: Record) -> None:
        listed, refused = (tuple(map(str, record[name])) for name in ("listed", "refused"))
        signals = tuple(map(float, record.get("signals", ())))
        if len(signals) not in (0, 4):
            raise ValueError("signals are four numbers")
        listing = site_rows.Listing(listed, bool(record["is_contacted"]), refused, signals)
        self._put(keys.listing_key(str(record["listing"])), site_rows.encode_listing(listing))

    def _aside(self, record: Record) -> None:
        self._put(keys.aside_key(_number(record, "aside")), b64decode(_text(record, "bytes"), validate=True))

    _KINDS: dict[str, Callable[[Importer, Record], None]] = {
        "page": _page,
        "queued": _queued,
        "waiting": _waiting,
        "deferred": _deferred,
        "returns": _due,
        "orders": _orders,
        "cooldown": _cooldown,
        "robots": _robots,
        "listing": _listing,
        "aside": _aside,
        "body": _body,
        **dict.fromkeys(GRAPH_KINDS, lambda self, record: self._graph.take(record)),
        "host": _host,
    }

    def _finish(self, header: Record) -> Imported:
        self._graph.finish()
        counts, hosts = self._tally.counts, self._tally.hosts
        for name, row in hosts.items():
            self._put(keys.host_key(name), host_rows.encode_host(row))
        counts.hosts = len(hosts)
        self._put(keys.COUNTS, meta_rows.encode_counts(counts))
        if header.get("is_clean"):
            self._put(keys.CLEAN, b"")
        write_rows(self._store, self._rows)
        pages = sum(counts.states)
        return Imported(pages, counts.hosts, len(self._merged), self._not_rebuilt, self._unknown)


@contextmanager
def filling(directory: Path) -> Iterator[Path]:
    """A directory beside *directory* whose database moves there once the block has ended well."""
    beside = directory.with_name(f"{directory.name}.importing")
    if beside.exists():
        shutil.rmtree(beside)
    try:
        yield beside
        directory.mkdir(parents=True, exist_ok=True)
        (beside / DATABASE).rename(directory / DATABASE)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _number(record: Record, name: str) -> int:
    value = record[name]
    if not isinstance(value, int):
        raise TypeError(f"{name} is no whole number")
    return value


def _text(record: Record, name: str) -> str:
    value = record[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is no text")
    return value


def _sort_key(record: Record, page_id: int) -> bytes:
    """The sort key in a record of a queue."""
    if "sort_key" in record:
        return bytes.fromhex(_text(record, "sort_key"))
    priority, bucket, turn = (_number(record, name) for name in ("priority", "bucket", "turn"))
    return queue_keys.sort_key(priority, bucket, turn, page_id)


def _page_of(record: Record) -> Page:
    payload = b""
    if "request" in record:
        payload = _dumps(record["request"]).encode("utf-8", "surrogatepass")
    elif "payload" in record:
        payload = b64decode(_text(record, "payload"), validate=True)
    given = {
        name: _number(record, name)
        for name in ("attempts", "priority", "discovered", "parent", "status", "changed", "target")
        if name in record
    }
    is_deferred = record.get("is_deferred") is True
    texts = {name: _text(record, name) for name in ("host", "reason") if name in record}
    state = State[_text(record, "state").upper()]
    visits = imported(record["visits"]) if "visits" in record else None
    page = Page(_text(record, "url"), state, payload=payload, is_deferred=is_deferred, visits=visits)
    return page._replace(**given, **texts)  # type: ignore[arg-type]
