"""A whole frontier from the lines of an export.

It streams: memory does not grow with the number of pages (about 300 bytes a host).
"""

from __future__ import annotations

import hashlib
import json
import struct
from base64 import b64decode
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ..errors import FrontierError
from ..hosts.host import host_of_page
from ..pages.forbidden_pages import is_forbidden
from ..parse.urls import clean_host, origin_of
from ..store import due_rows, host_rows, keys, meta_rows, page_rows, queue_keys, site_rows
from ..store.page_rows import Page
from ..store.states import State
from .check_notes import HostTally
from .check_twins import gives_way, in_place_of, pages_led_on, settle
from .check_work import ROWS_AT_A_TIME
from .export import EXPORT_VERSION
from .export_graph import GRAPH_KINDS, GraphImporter
from .export_line import fields, number, real, several, text
from .page_visits import imported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..pages.edits import FingerprintOf
    from ..store.keys import PageId
    from ..store.leveldb import Store
    from .export_line import Line

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
        self._put(keys.page_key(page_id), page_rows.encode_page(page))
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
            older = page_rows.decode_page(self._row(keys.page_key(twin_id)) or b"")
            if not gives_way(twin_id, older, page_id, page):
                self._merged[page_id] = twin_id
                return None
            self._remove(twin_id, older, page_id)
            page = in_place_of(older, page)
        self._put(key, keys.index_value(page_id, meta_rows.may_be_only_seen(page)))
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
        due = due_rows.Due(when, page_id, line.get("is_hub") is True, weight, rate)
        self._put(due_rows.due_key(when, page_id), due_rows.encode_due(due))

    def _deferred(self, line: Line) -> None:
        depth, bucket = (number(line, name) if name in line else 0 for name in ("depth", "bucket"))
        key = keys.deferred_key(text(line, "unit"), number(line, "deferred"))
        self._put(key, page_rows.encode_deferred(depth, bucket))

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
        orders = host_rows.encode_orders(host_rows.Orders(delay, blocked))
        self._put(keys.orders_key(text(line, "orders")), orders)

    def _cooldown(self, line: Line) -> None:
        rest = real(line, "until"), number(line, "strikes"), real(line, "since")
        is_answering = line.get("is_answering") is True
        cooldown = host_rows.Cooldown(*rest, text(line, "reason"), is_answering)
        self._put(keys.cooldown_key(text(line, "cooldown")), host_rows.encode_cooldown(cooldown))

    def _robots(self, line: Line) -> None:
        fetched, ask_at, failing_since = (real(line, name) for name in ("fetched", "ask_at", "failing_since"))
        status, failures = (number(line, name) for name in ("status", "failures"))
        etag, modified = (str(line.get(name, "")) for name in ("etag", "modified"))
        verdict = site_rows.Verdict[text(line, "verdict").upper()]
        body = b64decode(text(line, "file"), validate=True)
        asked = fetched, ask_at, failing_since, failures
        copy = site_rows.RobotsCopy(verdict, status, *asked, body, etag, modified)
        self._put(keys.robots_key(text(line, "robots")), site_rows.encode_copy(copy))
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
        sitemaps = site_rows.SiteSitemaps(listed, bool(line["is_contacted"]), refused, hints)
        self._put(keys.sitemaps_key(text(line, "sitemaps")), site_rows.encode_sitemaps(sitemaps))

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
            self._put(keys.host_key(name), host_rows.encode_host(row))
        counts.hosts = len(hosts)
        self._put(keys.COUNTS, meta_rows.encode_counts(counts))
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


def _page_of(line: Line) -> Page:
    payload = b""
    if "request" in line:
        payload = _dumps(line["request"]).encode("utf-8", "surrogatepass")
    elif "payload" in line:
        payload = b64decode(text(line, "payload"), validate=True)
    numbers = ("attempts", "priority", "discovered", "parent", "status", "changed", "target")
    given: Line = {name: number(line, name) for name in numbers if name in line}
    given |= {name: text(line, name) for name in ("host", "reason") if name in line}
    is_deferred = line.get("is_deferred") is True
    state = State[text(line, "state").upper()]
    visits = imported(fields(line, "visits")) if "visits" in line else None
    page = Page(text(line, "url"), state, payload=payload, is_deferred=is_deferred, visits=visits)
    return Page._make((page._asdict() | given).values())
