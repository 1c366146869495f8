"""The last part of a check: hosts, counts, links, scores, and rows that stand for themselves."""

from __future__ import annotations

import contextlib
from itertools import chain
from typing import TYPE_CHECKING

from ..errors import UnreadableRecord
from ..hosts.cooldown import CooldownRule, at_start
from ..pages.rates import SIZES
from ..pages.score_columns import CONTENT
from ..ranking import graph
from ..store import host_rows, keys, meta_rows
from ..store.host_rows import UNREADABLE as LEFT_ALONE
from ..store.host_rows import HostRow, decode_cooldown, decode_orders, encode_cooldown, encode_orders
from ..store.keys import COOLDOWN, LISTING, ORDERS, ROBOTS
from ..store.meta_rows import Counts
from ..store.site_rows import decode_copy, decode_listing
from ..store.states import State
from .check_notes import HOST_COUNTS, differences, host_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .check_notes import Finding
    from .check_work import Work

    _Counted = tuple[int, ...]  # queued, done, failed, deferred, excluded, answered, returning


class RowCheck:
    def __init__(self, work: Work) -> None:
        self._work = work
        self._host_rows = 0

    def small_rows(self) -> Iterator[Finding]:
        """Rows of hosts and sites that stand for themselves: one that cannot be read goes, or the careful
        value takes its place."""
        rests = encode_cooldown(at_start(b"", self._work.now, CooldownRule()))
        for prefix, decode, kind, instead in (
            (ORDERS, decode_orders, "unreadable orders", encode_orders(LEFT_ALONE)),
            (ROBOTS, decode_copy, "unreadable robots row", None),
            (LISTING, decode_listing, "unreadable listing", None),
            (COOLDOWN, decode_cooldown, "unreadable cooldown", rests),
            (keys.BODY, _decode_body, "unreadable body row", None),
            (keys.RATES, _decode_rates, "unreadable rates", None),
        ):
            for key, value in self._work.scan(prefix):
                try:
                    decode(value)
                except UnreadableRecord:  # noqa: PERF203 - one row at a time may be damaged
                    if instead is None:
                        self._work.delete(key)
                    else:
                        self._work.put(key, instead)
                    yield self._work.found(kind, key[1:].decode(errors="replace"))

    def links(self) -> Iterator[Finding]:
        """Links of forgotten pages, and to them, are nothing unusual; to ids never given out, damage."""
        known = self._work.highest[0]
        with contextlib.suppress(UnreadableRecord):
            known = max(known, meta_rows.read_counts(self._work.store).next_page - 1)
        loose, packed = (self._work.store.scan(prefix) for prefix in (keys.LINK_ROW, keys.SEGMENT_ROW))
        for key, value in chain(loose, packed):
            self._work.rows += 1
            name = ("page" if key[:1] == keys.LINK_ROW else "pages from") + f" {keys.key_id(key)}"
            try:
                highest = graph.highest_id(key, value)
                if highest > known:
                    raise ValueError(f"a link to page {highest}, which was never found")
            except (ValueError, IndexError) as error:
                self._work.put(keys.ASIDE + key, value)
                self._work.delete(key)
                yield self._work.found("unreadable links", name, str(error))

    def scores(self) -> Iterator[Finding]:
        for key, value in self._work.scan(keys.COLUMN):
            name, _, first = key[1:].partition(b"\0")
            if not name or len(first) != keys.ID_BYTES or not value or len(value) % 2:
                self._work.delete(key)
                yield self._work.found("unreadable scores", key.hex(), f"{len(value)} bytes")
        for key, value in self._work.scan(keys.CONTENT):
            if len(key) != 1 + keys.ID_BYTES or len(value) != CONTENT.size:
                self._work.delete(key)
                yield self._work.found("unreadable scores", key.hex(), f"{len(value)} bytes")

    def hosts(self) -> Iterator[Finding]:
        for key, value in self._work.scan(keys.HOST):
            self._host_rows += 1
            name = key[1:].decode(errors="replace")
            expected = self._expected(name)
            try:
                row = host_rows.decode_host(value)
            except UnreadableRecord:
                yield self._work.found("unreadable host row", name)
                self._write_host(name, expected, HostRow(visited=self._work.now))  # for all we know
                continue
            counted = _counted(row)
            if counted != expected and not self._is_explained(counted, expected):
                yield self._work.found("wrong host row", name, differences(counted, expected))
            if counted != expected:
                self._write_host(name, expected, row)
        for name in list(self._work.tally.hosts):
            expected = self._expected(name)
            if any(expected):
                self._host_rows += 1
                yield self._work.found("missing host row", name, differences((0,) * HOST_COUNTS, expected))
                was_visited = expected[1] or expected[2]
                self._write_host(name, expected, HostRow(visited=self._work.now if was_visited else 0.0))

    def _expected(self, name: str) -> _Counted:
        return tuple(self._work.tally.hosts.pop(name, (0,) * HOST_COUNTS))

    def _is_explained(self, counted: _Counted, expected: _Counted) -> bool:
        """Whether a host has more failed pages because the crawl has set some aside: theirs is not known."""
        more = counted[2] - expected[2]
        same = all(counted[each] == expected[each] for each in (0, 1, 3, 4, 5, 6))
        if same and 0 < more <= self._work.set_aside:
            self._work.set_aside -= more
            return True
        return False

    def _write_host(self, name: str, expected: _Counted, row: HostRow) -> None:
        row = host_row(expected, row.visited, row.response_time)
        self._work.put(keys.host_key(name), host_rows.encode_host(row))

    def counts(self) -> Iterator[Finding]:
        try:
            counts = meta_rows.read_counts(self._work.store)
        except UnreadableRecord:
            counts = Counts.none()
        wrong = [
            f"{state.name.lower()} {counts.states[state]}, in truth {self._work.tally.states[state]}"
            for state in State
            if counts.states[state] != self._work.tally.states[state]
        ]
        next_page, next_visit = self._work.highest[0] + 1, self._work.highest[1] + 1 - keys.FIRST_VISIT
        if counts.next_page < next_page:
            wrong.append(f"next page {counts.next_page}, but page {next_page - 1} is there")
        if counts.next_visit < next_visit:
            wrong.append(f"next visit {counts.next_visit}, but visit {next_visit - 1} is there")
        tally = self._work.tally
        wrong += [
            f"{name} {was}, in truth {is_now}"
            for name, was, is_now in (
                ("due", counts.due, tally.due),
                ("returning", counts.returning, tally.returning),
            )
            if was != is_now
        ]
        if counts.hosts != self._host_rows:
            wrong.append(f"hosts {counts.hosts}, in truth {self._host_rows}")
        if not wrong:
            return
        counts.states[:] = self._work.tally.states
        counts.hosts = self._host_rows
        counts.due, counts.returning = tally.due, tally.returning
        counts.next_page = max(counts.next_page, next_page)
        counts.next_visit = max(counts.next_visit, next_visit)
        counts.attempts = counts.attempts or self._work.attempts
        self._work.put(keys.COUNTS, meta_rows.encode_counts(counts))
        yield self._work.found("wrong counts", "the counts", "; ".join(wrong))


def _decode_body(value: bytes) -> None:
    """Raises `UnreadableRecord` for what is no page id; that of a forgotten page is."""
    if len(value) != keys.ID_BYTES:
        raise UnreadableRecord(f"body row of {len(value)} bytes")


def _decode_rates(value: bytes) -> None:
    if len(value) not in SIZES:
        raise UnreadableRecord(f"rates row of {len(value)} bytes")


def _counted(row: HostRow) -> _Counted:
    return row.queued, row.done, row.failed, row.deferred, row.excluded, row.answered, row.returning
