"""Is everything true that must always be true of a frontier? And mending what is not.

`Check.run` reads every row once, page rows first, and yields a `Finding` for each thing that is wrong; with
*repair* it mends what it finds. Mending loses no page: rows are removed only where they lead nowhere or
where the same page has another; a record nobody can read is set aside, bytes and all. It may be
interrupted and run again. Memory: five bytes a page, about 300 a host.
"""

from __future__ import annotations

import contextlib
from itertools import chain
from typing import TYPE_CHECKING

from ..errors import UnreadableRecord
from ..hosts.cooldown import CooldownRule, at_start
from ..pages.links import NEUTRAL
from ..ranking import graph
from ..store import host_rows, keys, meta_rows, page_rows, queue_rows
from ..store.host_rows import UNREADABLE as LEFT_ALONE
from ..store.host_rows import HostRow, decode_cooldown, decode_orders, encode_cooldown, encode_orders
from ..store.keys import COOLDOWN, LISTING, ORDERS, ROBOTS
from ..store.meta_rows import Counts
from ..store.page_rows import Page
from ..store.queue_rows import find_place, split_queue_key, split_waiting_row
from ..store.site_rows import decode_copy, decode_listing
from ..store.states import State
from . import facts
from .check_notes import (
    DEFERRED,
    INDEXED,
    KNOWN,
    MISPLACED,
    PLACED,
    QUEUED,
    UNREADABLE,
    Finding,
    HostTally,
    Ledger,
    differences,
    salvage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..pages.edits import FingerprintOf
    from ..store.leveldb import Store

    _Counted = tuple[int, ...]  # queued, done, failed, deferred, excluded, answered

_AT_A_TIME = 1000  # rows in one batch
CONTENT_BYTES = 4


class Check:
    """One check of *store*; `run` it once. *fingerprint_of* finds index rows that are missing."""

    def __init__(
        self, store: Store, fingerprint_of: FingerprintOf | None, now: float, repair: bool = False
    ) -> None:
        self._store = store
        self._fingerprint_of = fingerprint_of
        self._now = now
        self._repair = repair
        self._batch = store.batch()
        self._open = 0
        self._ledger = Ledger()
        self._tally = HostTally()
        self._damaged: dict[int, str] = {}  # unreadable pages, and the host whose queue they stand in
        self._set_aside = 0  # of these, how many the crawl has counted as failed already
        self._highest = [-1, keys.FIRST_VISIT - 1]  # page id, id of a further visit
        self._attempts = 0
        self._host_rows = 0
        self.rows = 0  # read so far

    def run(self) -> Iterator[Finding]:
        if self._store.is_restored:
            yield Finding("lost format", "the frontier", "format or key scheme", is_mended=True)
        for check in (
            self._pages,
            self._queue,
            self._waiting,
            self._deferred,
            self._damaged_pages,
            self._index,
            self._not_indexed,
            self._not_placed,
            self._small_rows,
            self._hosts,
            self._counts,
            self._links,
            self._scores,
        ):
            yield from check()
            self._flush()
        for prefix in (keys.ASIDE, keys.FORMAT[:1]):  # so that no row of any kind is left unread
            for _ in self._store.scan(prefix):
                pass

    # -- writing ---------------------------------------------------------------------------------------

    def _found(self, kind: str, subject: str, detail: str = "", can_mend: bool = True) -> Finding:
        return Finding(kind, subject, detail, self._repair and can_mend)

    def _put(self, key: bytes, value: bytes) -> None:
        if self._repair:
            self._batch.put(key, value)
            self._wrote()

    def _delete(self, key: bytes) -> None:
        if self._repair:
            self._batch.delete(key)
            self._wrote()

    def _wrote(self) -> None:
        self._open += 1
        if self._open >= _AT_A_TIME:
            self._flush()

    def _flush(self) -> None:
        if self._open:
            self._store.write(self._batch)
            self._batch.clear()
            self._open = 0

    def _scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        for row in self._store.scan(prefix):
            self.rows += 1
            yield row

    # -- pages and their places ------------------------------------------------------------------------

    def _pages(self) -> Iterator[Finding]:
        for key, value in self._scan(keys.PAGE):
            page_id = int.from_bytes(key[1:], "big")
            is_visit = page_id >= keys.FIRST_VISIT
            self._highest[is_visit] = max(self._highest[is_visit], page_id)
            try:
                page = page_rows.decode_page(value)
            except UnreadableRecord:
                self._ledger.enter(page_id, KNOWN | UNREADABLE, "")
                self._damaged[page_id] = ""
                continue
            if page.state is State.LEASED:
                page = page._replace(state=State.QUEUED)
                self._put(key, page_rows.encode_page(page))
                yield self._found("page kept as leased", _page(page_id, page))
            self._enter(page_id, page)

    def _enter(self, page_id: int, page: Page) -> None:
        host = facts.host_of_page(page)
        self._attempts += page.attempts
        flags = KNOWN | (QUEUED if page.state is State.QUEUED else DEFERRED if page.is_deferred else 0)
        self._ledger.enter(page_id, flags, host)
        self._tally.count(host, page.state, status=page.status)
        if page.is_deferred:
            self._tally.count_deferred(host)

    def _queue(self) -> Iterator[Finding]:
        for key, _ in self._scan(keys.QUEUE):
            found = split_queue_key(key)
            if found is None:
                self._delete(key)
                yield self._found("unreadable queue row", key.hex())
                continue
            host, sort_key = found
            yield from self._place(key, queue_rows.sort_key_id(sort_key), host)

    def _waiting(self) -> Iterator[Finding]:
        for key, value in self._scan(keys.WAITING):
            place = split_waiting_row(key, value)
            if place is None:
                self._delete(key)
                yield self._found("unreadable queue row", key.hex())
                continue
            yield from self._place(key, queue_rows.sort_key_id(place.sort_key), place.host)

    def _place(self, key: bytes, page_id: int, host: str) -> Iterator[Finding]:
        """Note that the row *key* in the queue of *host* leads to a page; or what is wrong with it."""
        flags = self._ledger[page_id]
        subject = f"page {page_id} of {host}"
        if flags & UNREADABLE:
            self._damaged[page_id] = host
            self._ledger.add(page_id, PLACED)
            self._delete(key)
            return
        if flags & QUEUED and not flags & PLACED and self._ledger.is_of(page_id, host):
            self._ledger.add(page_id, PLACED)
            return
        self._delete(key)
        if not flags & KNOWN:
            yield self._found("queue row that leads nowhere", subject)
        elif not flags & QUEUED:
            yield self._found("queue row of a page that is not queued", subject)
        elif flags & PLACED and self._ledger.is_of(page_id, host):
            yield self._found("second queue row of a page", subject)
        else:
            self._ledger.add(page_id, MISPLACED)
            yield self._found("queue row in another host's queue", subject)

    def _deferred(self) -> Iterator[Finding]:
        for key, _ in self._scan(keys.DEFERRED):
            found = keys.split_deferred_key(key)
            unit, page_id = found or ("", 0)
            flags = self._ledger[page_id] if found is not None else 0
            if flags & DEFERRED and not flags & PLACED and self._is_unit_of(unit, page_id):
                self._ledger.add(page_id, PLACED)
            else:
                self._delete(key)
                yield self._found("deferred row that leads nowhere", key[1:].hex())

    def _is_unit_of(self, unit: str, page_id: int) -> bool:
        if self._ledger.is_of(page_id, unit):
            return True
        page = facts.read_page(self._store, page_id)
        return page is not None and unit in keys.deferred_units(facts.host_of_page(page))

    def _damaged_pages(self) -> Iterator[Finding]:
        for page_id, host in self._damaged.items():
            key = keys.page_key(page_id)
            stored = self._store.get(key) or b""
            was_aside = self._store.get(keys.aside_key(page_id)) is not None
            page = salvage(stored, host, self._now)
            yield self._found("unreadable page", _page(page_id, page), f"{len(stored)} bytes")
            if not self._repair:
                self._set_aside += was_aside
                if was_aside or self._ledger[page_id] & PLACED:
                    self._count_damaged(host, was_aside)
                continue
            self._put(keys.aside_key(page_id), stored)
            if page_id >= keys.FIRST_VISIT:  # the page it would have visited again is known all the same
                self._delete(key)
                self._ledger.strike(page_id)
            else:
                self._put(key, page_rows.encode_page(page))
                self._enter(page_id, page)

    def _count_damaged(self, host: str, was_aside: bool) -> None:
        """Count as the crawl does: as queued until it is set aside, and as failed of a host from then on."""
        if was_aside:
            self._tally.states[State.FAILED] += 1
        else:
            self._tally.count(host, State.QUEUED)

    def _not_placed(self) -> Iterator[Finding]:
        for page_id in self._ledger.having(KNOWN | QUEUED, PLACED):
            page = facts.read_page(self._store, page_id)
            if page is None:
                continue
            host = facts.host_of_page(page)
            sort_key = queue_rows.sort_key(page.priority, NEUTRAL, min(page_id, keys.MAX_ID), page_id)
            self._put(queue_rows.queue_prefix(host) + sort_key, b"")
            if not self._ledger[page_id] & MISPLACED:
                yield self._found("queued page without a row", _page(page_id, page))
        for page_id in self._ledger.having(KNOWN | DEFERRED, PLACED):
            page = facts.read_page(self._store, page_id)
            if page is not None:
                self._put(keys.deferred_key(facts.host_of_page(page), page_id), b"")
                yield self._found("deferred page without a row", _page(page_id, page))

    # -- the index -------------------------------------------------------------------------------------

    def _index(self) -> Iterator[Finding]:
        doubled: set[int] = set()
        for key, value in self._scan(keys.INDEX):
            page_id = keys.index_id(value)
            flags = self._ledger[page_id] if value in _index_values(page_id) else 0
            if not flags & KNOWN or page_id >= keys.FIRST_VISIT:
                self._delete(key)
                yield self._found("index row that leads nowhere", key[1:].hex(), f"to page {page_id}")
            elif flags & INDEXED:
                doubled.add(page_id)
            else:
                self._ledger.add(page_id, INDEXED)
        if doubled:
            yield from self._doubled(doubled)

    def _doubled(self, doubled: set[int]) -> Iterator[Finding]:
        """Of the index rows of a page keep the one its request has; touch nothing if none fits."""
        rows: dict[int, list[bytes]] = {page_id: [] for page_id in doubled}
        for key, value in self._store.scan(keys.INDEX):
            page_id = keys.index_id(value)
            if page_id in rows:
                rows[page_id].append(key)
        for page_id, found in rows.items():
            fingerprint = self._fingerprint(page_id)
            own = keys.INDEX + fingerprint if fingerprint is not None else b""
            for key in found:
                if key != own and own in found:
                    self._delete(key)
            detail = "" if own in found else "none of them fits"
            yield self._found("second index row of a page", f"page {page_id}", detail, own in found)

    def _not_indexed(self) -> Iterator[Finding]:
        for page_id in self._ledger.having(KNOWN, INDEXED):
            if page_id >= keys.FIRST_VISIT or (self._ledger[page_id] & UNREADABLE):
                continue
            fingerprint = self._fingerprint(page_id)
            page = facts.read_page(self._store, page_id) or Page("")
            if fingerprint is None:
                detail = "its request cannot be rebuilt, or this project identifies pages in another way"
                yield self._found("page without an index row", _page(page_id, page), detail, can_mend=False)
                continue
            self._flush()  # so that a page mended a moment ago is found
            twin = facts.find_page(self._store, fingerprint)
            detail = "" if twin is None else f"the same page as {twin}"
            if twin is None:
                value = keys.index_value(page_id, meta_rows.may_be_only_seen(page))
                self._put(keys.INDEX + fingerprint, value)
            elif self._repair:
                self._remove_twin(page_id, page)
            yield self._found("page without an index row", _page(page_id, page), detail)

    def _fingerprint(self, page_id: int) -> bytes | None:
        page = facts.read_page(self._store, page_id)
        return self._fingerprint_of(page) if self._fingerprint_of is not None and page is not None else None

    def _remove_twin(self, page_id: int, page: Page) -> None:
        host = facts.host_of_page(page)
        place = find_place(self._store, page_id, host) if page.state is State.QUEUED else None
        if place is not None:
            self._delete(place.key)
        self._delete(keys.page_key(page_id))
        self._tally.count(host, page.state, -1, page.status)
        if page.is_deferred:
            self._tally.count_deferred(host, -1)
            for unit in keys.deferred_units(host):
                self._delete(keys.deferred_key(unit, page_id))
        self._ledger.strike(page_id)

    # -- the link graph, and what the scorer keeps -----------------------------------------------------

    def _links(self) -> Iterator[Finding]:
        """Links of forgotten pages, and to them, are nothing unusual; to ids never given out, damage."""
        known = self._highest[0]
        with contextlib.suppress(UnreadableRecord):
            known = max(known, meta_rows.read_counts(self._store).next_page - 1)
        loose, packed = (self._store.scan(prefix) for prefix in (keys.LINK_ROW, keys.SEGMENT_ROW))
        for key, value in chain(loose, packed):
            self.rows += 1
            name = ("page" if key[:1] == keys.LINK_ROW else "pages from") + f" {keys.key_id(key)}"
            try:
                highest = graph.highest_id(key, value)
                if highest > known:
                    raise ValueError(f"a link to page {highest}, which was never found")
            except (ValueError, IndexError) as error:
                self._put(keys.ASIDE + key, value)
                self._delete(key)
                yield self._found("unreadable links", name, str(error))

    def _scores(self) -> Iterator[Finding]:
        for key, value in self._scan(keys.COLUMN):
            name, _, first = key[1:].partition(b"\0")
            if not name or len(first) != keys.ID_BYTES or not value or len(value) % 2:
                self._delete(key)
                yield self._found("unreadable scores", key.hex(), f"{len(value)} bytes")
        for key, value in self._scan(keys.CONTENT):
            if len(key) != 1 + keys.ID_BYTES or len(value) != CONTENT_BYTES:
                self._delete(key)
                yield self._found("unreadable scores", key.hex(), f"{len(value)} bytes")

    # -- hosts, counts, orders -------------------------------------------------------------------------

    def _small_rows(self) -> Iterator[Finding]:
        """Rows of hosts and sites that stand for themselves: one that cannot be read goes, or the careful
        value takes its place."""
        rests = encode_cooldown(at_start(b"", self._now, CooldownRule()))
        for prefix, decode, kind, instead in (
            (ORDERS, decode_orders, "unreadable orders", encode_orders(LEFT_ALONE)),
            (ROBOTS, decode_copy, "unreadable robots row", None),
            (LISTING, decode_listing, "unreadable listing", None),
            (COOLDOWN, decode_cooldown, "unreadable cooldown", rests),
            (keys.BODY, _decode_body, "unreadable body row", None),
        ):
            for key, value in self._scan(prefix):
                try:
                    decode(value)
                except UnreadableRecord:  # noqa: PERF203 - one row at a time may be damaged
                    if instead is None:
                        self._delete(key)
                    else:
                        self._put(key, instead)
                    yield self._found(kind, key[1:].decode(errors="replace"))

    def _hosts(self) -> Iterator[Finding]:
        for key, value in self._scan(keys.HOST):
            self._host_rows += 1
            name = key[1:].decode(errors="replace")
            expected = self._expected(name)
            try:
                row = host_rows.decode_host(value)
            except UnreadableRecord:
                yield self._found("unreadable host row", name)
                self._write_host(name, expected, HostRow(visited=self._now))  # for all we know
                continue
            counted = _counted(row)
            if counted != expected and not self._is_explained(counted, expected):
                yield self._found("wrong host row", name, differences(counted, expected))
            if counted != expected:
                self._write_host(name, expected, row)
        for name in list(self._tally.hosts):
            expected = self._expected(name)
            if any(expected):
                self._host_rows += 1
                yield self._found("missing host row", name, differences((0,) * 6, expected))
                was_visited = expected[1] or expected[2]
                self._write_host(name, expected, HostRow(visited=self._now if was_visited else 0.0))

    def _expected(self, name: str) -> _Counted:
        return tuple(self._tally.hosts.pop(name, (0,) * 6))

    def _is_explained(self, counted: _Counted, expected: _Counted) -> bool:
        """Whether a host has more failed pages because the crawl has set some aside: theirs is not known."""
        more = counted[2] - expected[2]
        same = all(counted[each] == expected[each] for each in (0, 1, 3, 4, 5))
        if same and 0 < more <= self._set_aside:
            self._set_aside -= more
            return True
        return False

    def _write_host(self, name: str, expected: _Counted, row: HostRow) -> None:
        queued, done, failed, deferred, excluded, answered = expected
        row = HostRow(queued, done, failed, row.visited, deferred, excluded, row.response_time, answered)
        self._put(keys.host_key(name), host_rows.encode_host(row))

    def _counts(self) -> Iterator[Finding]:
        try:
            counts = meta_rows.read_counts(self._store)
        except UnreadableRecord:
            counts = Counts.none()
        wrong = [
            f"{state.name.lower()} {counts.states[state]}, in truth {self._tally.states[state]}"
            for state in State
            if counts.states[state] != self._tally.states[state]
        ]
        next_page, next_visit = self._highest[0] + 1, self._highest[1] + 1 - keys.FIRST_VISIT
        if counts.next_page < next_page:
            wrong.append(f"next page {counts.next_page}, but page {next_page - 1} is there")
        if counts.next_visit < next_visit:
            wrong.append(f"next visit {counts.next_visit}, but visit {next_visit - 1} is there")
        if counts.hosts != self._host_rows:
            wrong.append(f"hosts {counts.hosts}, in truth {self._host_rows}")
        if not wrong:
            return
        counts.states[:] = self._tally.states
        counts.hosts = self._host_rows
        counts.next_page = max(counts.next_page, next_page)
        counts.next_visit = max(counts.next_visit, next_visit)
        counts.attempts = counts.attempts or self._attempts
        self._put(keys.COUNTS, meta_rows.encode_counts(counts))
        yield self._found("wrong counts", "the counts", "; ".join(wrong))


def _decode_body(value: bytes) -> None:
    """Raises `UnreadableRecord` for what is no page id; that of a forgotten page is."""
    if len(value) != keys.ID_BYTES:
        raise UnreadableRecord(f"body row of {len(value)} bytes")


def _counted(row: HostRow) -> _Counted:
    return row.queued, row.done, row.failed, row.deferred, row.excluded, row.answered


def _index_values(page_id: int) -> tuple[bytes, bytes]:
    return keys.index_value(page_id), keys.index_value(page_id, is_seen=True)


def _page(page_id: int, page: Page) -> str:
    return f"page {page_id} {page.url}".rstrip()
