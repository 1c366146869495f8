"""Exports and imports a frontier, or its part for one host, as lines of JSON.

A line has a row twice: in fields, for people, and as bytes, for an import. Only rows that do not follow from
others are exported: `Check` makes index, queue and due rows of an imported frontier. An export has no
fingerprints: the importing project makes its own from the requests. Memory does not grow with the number of
pages, apart from the ids of one host's pages (`export_lines` with *host*) and four bytes a page of an import.
``docs/internals/export.md`` describes the lines.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from contextlib import suppress
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import FrontierError, UnreadableRow
from ..hosts.host import host_of_page, is_of_host
from ..parse.urls import host_of
from ..store import keys, records
from ..store.link_rows import Edge, encode_row
from . import facts
from .check import READERS, Check, read_page, unreadable, unreadable_links

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from ..pages.edits import FingerprintOf
    from ..store.leveldb import Store
    from .check import Readers

    Line = dict[str, Any]  # as JSON has it
    Numbers = NDArray[np.int64]  # by page id

EXPORT_VERSION = 3
_ROWS_AT_A_TIME = 1000
_ANEW = "export it again, or copy it again"
NO_EXPORT = "this is no export of a frontier: name a file that `scrapy frontier export` wrote"
# Rows that are exported, by the prefix of their keys: their name in a line, and their decoder.
_ROWS = {keys.PAGE: ("page", read_page), keys.HOST: ("host", records.HOST.decode), **READERS}
_NUMBERED = {keys.PAGE, keys.COLUMN, keys.CONTENT}  # by page ids
_OF_ALL = {*_NUMBERED, keys.RATES_OF_ALL}  # those, and the row that a frontier has once
_OF_HOSTS = {keys.HOST, keys.ORDERS, keys.COOLDOWN, keys.ROBOTS, keys.SITEMAPS, keys.RATES}


class BadExport(FrontierError):
    """A file is no export of a frontier, or it is damaged or was changed; the message names the line."""

    reason = "frontier_export"


class Header(NamedTuple):
    """The first line of an export: its version (``frontier``), the format and key scheme of the store, when
    it was ``exported`` (POSIX seconds), its only ``host`` (empty: all hosts), and what follows from no
    page."""

    frontier: int
    format: int
    scheme: str
    exported: float
    host: str
    is_clean: bool
    next_page: int
    next_visit: int
    attempts: int


# -- export ------------------------------------------------------------------------------------------------


def export_lines(store: Store, now: float, host: str | None = None) -> Iterator[Line]:
    """Return the lines of an export at *now* (POSIX seconds): a header, the rows, and the number of lines.

    With *host* only pages in its queue or with that host in their URL, and its own rows; links keep targets
    that are not exported. Raises `UnreadableRow`: then repair the store first.
    """
    pages = set[int]()
    header = _header([store], now, facts.known(store), host)
    return _with_end(header, _rows(store, host, pages), _links(store, host, pages))


def _header(shards: Sequence[Store], now: float, pages: int, host: str | None = None) -> Header:
    every = [records.read_counts(store) for store in shards]
    return Header(
        frontier=EXPORT_VERSION,
        format=keys.FORMAT_VERSION,
        scheme=(shards[0].get(keys.SCHEME) or b"").decode(errors="replace"),
        exported=now,
        host=host or "",
        is_clean=all(store.get(keys.CLEAN) is not None for store in shards),
        next_page=pages,
        next_visit=sum(counts.next_visit for counts in every),
        attempts=sum(counts.attempts for counts in every) if host is None else 0,  # counted from the pages
    )


def _with_end(header: Header, *lines: Iterable[Line]) -> Iterator[Line]:
    count = 0
    for line in chain([header._asdict()], *lines):
        count += 1
        yield line
    yield {"end": count}


def _rows(store: Store, host: str | None, pages: set[int], kinds: Readers = _ROWS) -> Iterator[Line]:
    """Yield rows of *kinds*. With *host* adds the ids of exported pages to *pages*."""
    for prefix, (kind, read) in kinds.items():
        for key, value in store.scan(prefix):
            if why := unreadable(key, value, _ROWS):
                raise UnreadableRow(why)
            record: Any = read(value)
            if prefix == keys.PAGE:
                page_id = keys.key_id(key)
                if host is not None:
                    if not is_of_host(record, host):
                        continue
                    pages.add(page_id)
                yield {kind: page_id, **_page_fields(page_id, record), **_as_bytes(key, value)}
                continue
            name = key[len(prefix) :].decode(errors="replace").partition("\0")[0]
            if host is None or prefix not in _OF_HOSTS or host in (name, host_of(name)):
                yield {kind: name, **_fields(record), **_as_bytes(key, value)}


def _page_fields(page_id: int, page: records.Page) -> Line:
    fields: Line = {name: value for name, value in facts.describe(page_id, page).items() if value is not None}
    with suppress(ValueError, RecursionError):
        fields["request"] = json.loads(page.payload.decode("utf-8", "surrogatepass"))
    return fields


def _fields(record: Any) -> Line:
    if isinstance(record, records.HostRow):
        return {name: getattr(record, name) for name in ("visited", *records.HOST_COUNTS)}
    fields = record._asdict() if hasattr(record, "_asdict") else {}
    return {
        name: value.decode(errors="replace") if isinstance(value, bytes) else value
        for name, value in fields.items()
    }


def _as_bytes(key: bytes, value: bytes) -> Line:
    return {"key": key.hex(), "value": b64encode(value).decode()}


def _links(store: Store, host: str | None, pages: set[int], numbers: Numbers | None = None) -> Iterator[Line]:
    for links in facts.every_link(store):
        rows = zip(*(part.tolist() for part in links), strict=True)
        for source, group in groupby(rows, itemgetter(0)):
            if source in pages if host is not None else numbers is None or numbers[source] >= 0:
                edges = [Edge(*more) for _, *more in group]
                if numbers is not None:
                    renamed = (edge._replace(target=int(numbers[edge.target])) for edge in edges)
                    source, edges = int(numbers[source]), sorted(each for each in renamed if each.target >= 0)
                row = _as_bytes(keys.link_key(source), encode_row(source, edges))
                yield {"links": source, "to": [edge.target for edge in edges], **row}


# -- export of shards --------------------------------------------------------------------------------------


def joined_lines(shards: Sequence[Store], shard_of: Callable[[str], int], now: float) -> Iterator[Line]:
    """Return the lines of an export at *now* of all *shards* of a crawl, as one frontier; *shard_of* returns
    the shard of a host. Raises `UnreadableRow`.

    Pages get new ids, so the columns of scorers are not exported. A page that other shards link is exported
    from its own shard. Memory: eight bytes a page.
    """
    numbers, own, pages = _numbered(shards, shard_of)
    lines: list[Iterator[Line]] = []
    visits = 0
    for n, store in enumerate(shards):
        left_out = _OF_ALL if n else _NUMBERED
        kinds = {prefix: kind for prefix, kind in _ROWS.items() if prefix not in left_out}
        lines += (
            _renumbered(store, numbers[n], own, visits),
            _rows(store, None, set(), kinds),
            _links(store, None, set(), numbers[n]),
        )
        visits += records.read_counts(store).next_visit
    return _with_end(_header(shards, now, pages), *lines)


def _numbered(shards: Sequence[Store], shard_of: Callable[[str], int]) -> tuple[list[Numbers], int, int]:
    """Return the new id of each page of each shard, -1 for none; the number of pages that have a row in their
    own shard, which come first; and the number of all pages."""
    numbers, count = [np.full(facts.known(store), -1, np.int64) for store in shards], 0
    for store, of_shard in zip(shards, numbers, strict=True):
        for page_id, page in facts.pages(store, with_visits=False):
            if not facts.is_elsewhere(page):
                of_shard[page_id], count = count, count + 1
    own = count
    for store, of_shard in zip(shards, numbers, strict=True):
        for key, value in store.scan(keys.INDEX):
            page_id = keys.id_in(value)
            seen = facts.legible_page(store, page_id) if of_shard[page_id] < 0 else None
            if seen is None:
                continue
            there = shard_of(host_of_page(seen))
            found = facts.find_page(shards[there], key[1:])
            of_shard[page_id] = -1 if found is None else numbers[there][found]
            if of_shard[page_id] < 0:  # its letter has not arrived, or was refused
                of_shard[page_id], count = count, count + 1
    return numbers, own, count


def _renumbered(store: Store, numbers: Numbers, own: int, visits: int) -> Iterator[Line]:
    """Yield the pages of a shard, apart from those that another shard has, and their content scores."""

    def number_of(page_id: int | None) -> int | None:
        is_known = page_id is not None and page_id < len(numbers) and numbers[page_id] >= 0
        return int(numbers[page_id]) if is_known else None

    for key, value in store.scan(keys.PAGE):
        page_id, page = keys.key_id(key), read_page(value)
        number = page_id + visits if page_id >= keys.FIRST_VISIT else number_of(page_id)
        if number is None or (facts.is_elsewhere(page) and number < own):
            continue
        page = page._replace(parent=number_of(page.parent), target=number_of(page.target))
        row = _as_bytes(keys.page_key(number), records.encode_page(page))
        yield {"page": number, **_page_fields(number, page), **row}
    for key, value in store.scan(keys.CONTENT):
        if (number := number_of(keys.key_id(key))) is not None:
            yield {"content score": number, **_as_bytes(keys.content_key(number), value)}


# -- import ------------------------------------------------------------------------------------------------


class Imported(NamedTuple):
    """The result of an import: numbers of pages and hosts; of pages ``merged`` with others, because the
    fingerprinter of this project does not distinguish them; and of pages ``not_rebuilt``, whose request this
    project cannot rebuild, so that they have no index row."""

    pages: int
    hosts: int
    merged: int
    not_rebuilt: int


def import_lines(store: Store, lines: Iterable[Line], fingerprint_of: FingerprintOf, now: float) -> Imported:
    """Fill an empty *store* with the *lines* of an export; a thousand rows in a batch.

    *fingerprint_of* returns the fingerprint of a page in this project, None if it cannot be made. Raises
    `BadExport` for a line that no export writes, and `FrontierUnwritable`; then *store* is incomplete.
    """
    lines = iter(lines)
    header = _read_header(next(lines, {}))
    rows: dict[bytes, bytes | None] = {}
    number, line = 1, dict[str, Any]()
    for number, line in enumerate(lines, 2):
        if "end" in line:
            break
        try:
            key, value = bytes.fromhex(line["key"]), b64decode(line["value"], validate=True)
            why = _refusal(key, value, header)
        except (TypeError, ValueError, KeyError) as error:
            why = f"{type(error).__name__}: {error}"
        if why:
            raise BadExport(f"line {number} makes no sense ({why}): {str(line)[:60]}; {_ANEW}")
        rows[key] = value
        if len(rows) >= _ROWS_AT_A_TIME:
            store.write(rows)
            rows.clear()
    if line.get("end") != number - 1 or next(lines, None) is not None:
        raise BadExport(
            f"its line {number} is not the end of {number - 1} lines: it is cut off, lines are missing, or "
            f"another export follows; {_ANEW}"
        )
    counts = records.Counts.none()
    counts.next_page, counts.next_visit = header.next_page, header.next_visit
    counts.attempts = header.attempts
    store.write({**rows, keys.COUNTS: records.COUNTS.encode(counts)})
    return _generate(store, fingerprint_of, now, header)


def _generate(store: Store, fingerprint_of: FingerprintOf, now: float, header: Header) -> Imported:
    """Make the rows that follow from the pages, by a repair."""
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
    if version != EXPORT_VERSION or line.get("format") != keys.FORMAT_VERSION:
        raise BadExport(
            f"this is an export of version {version} and format {line.get('format')}, and only "
            f"{EXPORT_VERSION} and {keys.FORMAT_VERSION} can be read here: import it with the version of "
            "scrapy-frontier that wrote it"
        )
    try:
        header = Header(**line)
        numbers = header.next_page, header.next_visit, header.attempts
        if not all(type(each) is int and 0 <= each < keys.FIRST_VISIT for each in numbers):
            raise ValueError("no frontier has so many pages")
    except (TypeError, ValueError) as error:
        raise BadExport(f"line 1 makes no sense ({error}); {_ANEW}") from error
    return header


def _refusal(key: bytes, value: bytes, header: Header) -> str:
    """Return why no export has a row with this *key* and *value*; empty if it may."""
    page_id = keys.key_id(key) if key[:1] in (keys.PAGE, keys.LINK_ROW) else 0
    is_visit = key[:1] == keys.PAGE and 0 <= page_id - keys.FIRST_VISIT < header.next_visit
    if not (page_id < header.next_page or is_visit):
        return f"there was no page {page_id}"
    if key[:1] == keys.LINK_ROW:
        return unreadable_links(key, value, header.next_page)
    return unreadable(key, value, _ROWS)
