"""Export and import: a frontier, or the part of it that belongs to one host, as lines of JSON.

Only what does not follow from other rows travels: `Check` makes index, queue, due and host rows of an
imported frontier. There are no fingerprints in an export: the importing project makes its own from the
requests. ``docs/internals/export.md`` describes the lines. Memory does not grow with the number of pages, but
for the ids of one host's pages (`export_lines` with *host*) and four bytes a page of an import.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from contextlib import suppress
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import FrontierError, UnreadableRow
from ..hosts.host import is_of_host
from ..parse.urls import host_of
from ..store import keys, records
from ..store.link_rows import Edge, decode_row, encode_row
from ..store.records import from_json, shortened, to_json, typed_value
from . import facts
from .check import READERS, Check, read_page, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..pages.edits import FingerprintOf
    from ..store.leveldb import Store

    Line = dict[str, object]  # as JSON has it

EXPORT_VERSION = 2
_ROWS_AT_A_TIME = 1000
_ANEW = "export it again, or copy it again"
NO_EXPORT = "this is no export of a frontier: name a file that `scrapy frontier export` wrote"

_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class BadExport(FrontierError):
    """A file is no export of a frontier, or it is damaged or was changed; the message names the line."""

    reason = "frontier_export"


class Header(NamedTuple):
    """The first line of an export: its version (``frontier``), the format and key scheme of the store, when
    it was ``exported`` (POSIX seconds), which ``host`` alone (empty: all), and what no page says."""

    frontier: int
    format: int
    scheme: str
    exported: float
    host: str
    is_clean: bool
    next_page: int
    next_visit: int
    attempts: int


class HostClock(NamedTuple):
    """What a host row knows besides its counts, which follow from the pages."""

    visited: float = 0.0


class Kind(NamedTuple):
    """A kind of row that an export spells out: its name in a line, and its record as bytes and back."""

    name: str
    prefix: bytes
    record: type
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def _encode_clock(clock: HostClock) -> bytes:
    return records.HOST.encode(records.HostRow(visited=clock.visited))


def _decode_clock(stored: bytes) -> HostClock:
    return HostClock(records.HOST.decode(stored).visited)


KINDS = (
    Kind("page", keys.PAGE, records.Page, records.encode_page, read_page),
    Kind("host", keys.HOST, HostClock, _encode_clock, _decode_clock),
    Kind("orders", keys.ORDERS, records.Orders, records.ORDERS.encode, records.ORDERS.decode),
    Kind("cooldown", keys.COOLDOWN, records.Cooldown, records.COOLDOWN.encode, records.COOLDOWN.decode),
    Kind("robots", keys.ROBOTS, records.RobotsCopy, records.ROBOTS.encode, records.ROBOTS.decode),
    Kind("sitemaps", keys.SITEMAPS, records.SiteSitemaps, records.SITEMAPS.encode, records.SITEMAPS.decode),
)
_BY_NAME = {kind.name: kind for kind in KINDS}
_NUMBERS = (keys.RATES, keys.RATES_OF_ALL, keys.STARTS, keys.CONTENT, keys.COLUMN)
# Rows of numbers, which travel as bytes under the name that `READERS` has for them.
_PLAIN = {READERS[prefix][0]: prefix for prefix in _NUMBERS}


# -- out ---------------------------------------------------------------------------------------------------


def export_lines(store: Store, now: float, host: str | None = None) -> Iterator[Line]:
    """Yields the lines of an export at *now* (POSIX seconds): a header, the rows, and the number of lines.

    With *host* only pages in its queue or with that host in their URL, and what is kept of it; links keep
    targets that are not exported. Raises `UnreadableRow` for a row that cannot be read: a repair comes first.
    """
    count, pages = 0, set[int]()
    for line in chain(
        [_header(store, now, host)], _spelled_out(store, host, pages), _plain_rows(store, host)
    ):
        count += 1
        yield line
    for line in _links(store):
        if host is None or line["links"] in pages:
            count += 1
            yield line
    yield {"end": count}


def _header(store: Store, now: float, host: str | None) -> Line:
    counts, scheme = records.read_counts(store), store.get(keys.SCHEME) or b""
    header = Header(
        frontier=EXPORT_VERSION,
        format=keys.FORMAT_VERSION,
        scheme=scheme.decode(errors="replace"),
        exported=now,
        host=host or "",
        is_clean=store.get(keys.CLEAN) is not None,
        next_page=counts.next_page,
        next_visit=counts.next_visit,
        attempts=counts.attempts if host is None else 0,  # then counted from the pages
    )
    return header._asdict()


def _spelled_out(store: Store, host: str | None, pages: set[int]) -> Iterator[Line]:
    """Yields rows of `KINDS`; adds the ids of exported pages to *pages* if only those of a *host* are."""
    for kind in KINDS:
        for key, value in store.scan(kind.prefix):
            record, name = kind.decode(value), _name_in(key)
            if kind.prefix == keys.PAGE:
                if host is not None and not is_of_host(record, host):
                    continue
                if host is not None:
                    pages.add(name)
            elif host is not None and host not in (name, host_of(name)):
                continue
            line: Line = {kind.name: name, **to_json(record)}
            if kind.prefix == keys.PAGE:
                _spell_out_request(line, record.payload)
            yield line


def _name_in(key: bytes) -> Any:
    """Returns what a key names: a page id, or a host or an origin. Raises `UnreadableRow`."""
    if key[:1] == keys.PAGE:
        if len(key) != 1 + keys.ID_BYTES:
            raise UnreadableRow(f"a page row has a key of {len(key)} bytes")
        return keys.key_id(key)
    try:
        return key[1:].decode()
    except UnicodeDecodeError as error:
        raise UnreadableRow(f"a key is no text: {key!r}") from error


def _spell_out_request(line: Line, payload: bytes) -> None:
    """Puts the request in place of its bytes where these are just that JSON object."""
    with suppress(ValueError, RecursionError):
        request = json.loads(payload.decode("utf-8", "surrogatepass"))
        if isinstance(request, dict) and _payload_of(request) == payload:
            del line["payload"]
            line["request"] = request


def _payload_of(request: object) -> bytes:
    return _dumps(request).encode("utf-8", "surrogatepass")


def _plain_rows(store: Store, host: str | None) -> Iterator[Line]:
    for name, prefix in _PLAIN.items():
        for key, value in store.scan(prefix):
            if why := unreadable(key, value):
                raise UnreadableRow(why)
            if host is None or prefix != keys.RATES or key[1:].partition(b"\0")[0] == host.encode():
                yield {"row": name, "key": key[len(prefix) :].hex(), "value": b64encode(value).decode()}


def _links(store: Store) -> Iterator[Line]:
    for links in facts.every_link(store):
        rows = zip(*(part.tolist() for part in links), strict=True)
        for source, group in groupby(rows, itemgetter(0)):
            targets, *others = list(zip(*group, strict=True))[1:]
            line: Line = {"links": source, "to": targets}
            for name, values in zip(Edge._fields[1:], others, strict=True):
                if any(value != Edge._field_defaults[name] for value in values):
                    line[name] = values
            yield line


# -- in ----------------------------------------------------------------------------------------------------


class Imported(NamedTuple):
    """How an import ended: pages and hosts that are there now, pages that were another one under this
    project's fingerprinter, and pages whose request this project cannot rebuild, which have no index row."""

    pages: int
    hosts: int
    merged: int
    not_rebuilt: int


def import_lines(store: Store, lines: Iterable[Line], fingerprint_of: FingerprintOf, now: float) -> Imported:
    """Fills an empty *store* with the *lines* of an export; a thousand rows in a batch.

    *fingerprint_of* says how this project identifies the request of a page, None where it cannot. Raises
    `BadExport` for a line that is not what an export writes, and `FrontierUnwritable`; then *store* is half
    full.
    """
    lines = iter(lines)
    header = _read_header(next(lines, {}))
    rows: dict[bytes, bytes | None] = {}
    number = 1
    for number, line in enumerate(lines, 2):
        if "end" in line:
            break
        try:
            key, value = _row_of(line, header)
        except (TypeError, ValueError, OverflowError, RecursionError, KeyError, struct.error) as error:
            raise BadExport(f"line {number} makes no sense ({error}): {shortened(line)}; {_ANEW}") from error
        rows[key] = value
        if len(rows) >= _ROWS_AT_A_TIME:
            store.write(rows)
            rows.clear()
    else:
        raise BadExport(f"it ends after {number} lines without an end: the file is cut off; {_ANEW}")
    if line["end"] != number - 1:
        raise BadExport(
            f"it has {number - 1} lines, and its end counts {line['end']}: some are missing; {_ANEW}"
        )
    if next(lines, None) is not None:
        raise BadExport(f"more follows its end, line {number}: another export, perhaps; import one alone")
    counts = records.Counts.none()
    counts.next_page, counts.next_visit, counts.attempts = (
        header.next_page,
        header.next_visit,
        header.attempts,
    )
    store.write({**rows, keys.COUNTS: records.COUNTS.encode(counts)})
    return _generate(store, fingerprint_of, now, header)


def _generate(store: Store, fingerprint_of: FingerprintOf, now: float, header: Header) -> Imported:
    """Makes the rows that follow from the pages, as a repair does."""
    merged = not_rebuilt = 0
    for finding in Check(store, fingerprint_of, now, repair=True).run():
        if finding.kind == "unreadable row":
            raise BadExport(f"{finding.subject} makes no sense ({finding.detail}); {_ANEW}")
        merged += finding.kind == "page twice"
        not_rebuilt += not finding.is_mended
    if header.is_clean:
        store.write({keys.CLEAN: b""})
    counts = records.read_counts(store)
    return Imported(sum(counts.totals().states.values()), counts.hosts, merged, not_rebuilt)


def _read_header(line: Line) -> Header:
    version = line.get("frontier")
    if version is None:
        raise BadExport(NO_EXPORT)
    if version != EXPORT_VERSION:
        raise BadExport(
            f"this is an export of version {version}, and only {EXPORT_VERSION} can be read here: import it "
            "with the version of scrapy-frontier that wrote it"
        )
    try:
        header: Header = from_json(Header, line)
        if not (0 <= header.next_page < keys.FIRST_VISIT and 0 <= header.next_visit < keys.FIRST_VISIT):
            raise ValueError("no frontier has so many pages")
        if not 0 <= header.attempts < 1 << 63:
            raise ValueError("no frontier has so many attempts")
    except (TypeError, ValueError) as error:
        raise BadExport(f"line 1 makes no sense ({error}); {_ANEW}") from error
    return header


def _row_of(line: Line, header: Header) -> tuple[bytes, bytes]:
    """Returns key and value of the row in a line; raises what bent values raise, in words that name them."""
    if "links" in line:
        return _link_row(line, header)
    if "row" in line:
        return _plain_row(line)
    kind = _BY_NAME.get(next(iter(line), ""))
    if kind is None:
        raise ValueError("no kind of line that an export has")
    fields = dict(line)
    name: Any = fields.pop(kind.name)
    if kind.prefix == keys.PAGE:
        key = keys.page_key(_page_id(name, header))
        if "request" in fields:
            fields["payload"] = b64encode(_payload_of(fields.pop("request"))).decode()
    else:
        key = kind.prefix + typed_value(str, name, kind.name).encode()
        if b"\0" in key:
            raise ValueError(f"{kind.name} is {shortened(name)}")
    record = from_json(kind.record, fields)
    stored = kind.encode(record)
    if kind.decode(stored) != record:  # it was clamped, cut off or rounded
        raise ValueError(f"{kind.name} {name} holds a value beyond what is kept")
    return key, stored


def _page_id(name: object, header: Header) -> int:
    page_id: int = typed_value(int, name, "page")
    is_visit = 0 <= page_id - keys.FIRST_VISIT < header.next_visit
    if not (0 <= page_id < header.next_page or is_visit):
        raise ValueError(f"there was no page {page_id}")
    return page_id


def _list(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{name} is {shortened(value)}")
    return value


def _link_row(line: Line, header: Header) -> tuple[bytes, bytes]:
    fields = {name: value for name, value in line.items() if name not in ("links", "to")}
    source, targets = _page_id(line["links"], header), _list(line["to"], "to")
    columns, kinds = [], {"flags": int, "weight": float}
    for name in Edge._fields[1:]:
        column = [Edge._field_defaults[name]] * len(targets)
        if name in fields:
            column = [typed_value(kinds[name], each, name) for each in _list(fields.pop(name), name)]
        columns.append(column)
    edges = [Edge(_page_id(target, header), *more) for target, *more in zip(targets, *columns, strict=True)]
    if fields:
        raise ValueError(f"there is no field {min(fields)!r}")
    stored = encode_row(source, edges)
    if decode_row(source, stored) != edges:
        raise ValueError("the links are in disorder, or weigh what no link can")
    return keys.link_key(source), stored


def _plain_row(line: Line) -> tuple[bytes, bytes]:
    prefix = _PLAIN.get(str(line["row"]))
    if prefix is None or line.keys() != {"row", "key", "value"}:
        raise ValueError("no row of numbers that an export has")
    key = prefix + bytes.fromhex(typed_value(str, line["key"], "key"))
    stored: bytes = typed_value(bytes, line["value"], "value")
    if why := unreadable(key, stored):
        raise ValueError(why)
    return key, stored
