"""The first part of a check: every page, and the queue it stands in or the budget it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import UnreadableRecord
from ..pages.links import NEUTRAL
from ..store import keys, page_rows, queue_keys
from ..store.due_rows import return_key
from ..store.queue_keys import split_queue_key, split_waiting_row
from ..store.states import State
from . import facts
from .check_notes import DEFERRED, KNOWN, MISPLACED, PLACED, QUEUED, UNREADABLE, salvage
from .check_work import subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .check_notes import Finding
    from .check_work import Work


class PageCheck:
    def __init__(self, work: Work) -> None:
        self._work = work
        self._damaged: dict[int, str] = {}  # unreadable pages, and the host whose queue they stand in

    def pages(self) -> Iterator[Finding]:
        for key, value in self._work.scan(keys.PAGE):
            page_id = int.from_bytes(key[1:], "big")
            is_visit = page_id >= keys.FIRST_VISIT
            self._work.highest[is_visit] = max(self._work.highest[is_visit], page_id)
            try:
                page = page_rows.decode_page(value)
            except UnreadableRecord:
                self._work.ledger.enter(page_id, KNOWN | UNREADABLE, "")
                self._damaged[page_id] = ""
                continue
            if page.state is State.LEASED:
                page = page._replace(state=State.QUEUED)
                self._work.put(key, page_rows.encode_page(page))
                yield self._work.found("page kept as leased", subject(page_id, page))
            self._work.enter(page_id, page)

    def queue(self) -> Iterator[Finding]:
        for key, _ in self._work.scan(keys.QUEUE):
            found = split_queue_key(key)
            if found is None:
                self._work.delete(key)
                yield self._work.found("unreadable queue row", key.hex())
                continue
            host, sort_key = found
            yield from self._place(key, queue_keys.sort_key_id(sort_key), host)

    def waiting(self) -> Iterator[Finding]:
        for key, value in self._work.scan(keys.WAITING):
            place = split_waiting_row(key, value)
            if place is None:
                self._work.delete(key)
                yield self._work.found("unreadable queue row", key.hex())
                continue
            yield from self._place(key, queue_keys.sort_key_id(place.sort_key), place.host)

    def _place(self, key: bytes, page_id: int, host: str) -> Iterator[Finding]:
        """Note that the row *key* in the queue of *host* leads to a page; or what is wrong with it."""
        flags = self._work.ledger[page_id]
        where = f"page {page_id} of {host}"
        if flags & UNREADABLE:
            self._damaged[page_id] = host
            self._work.ledger.add(page_id, PLACED)
            self._work.delete(key)
            return
        if flags & QUEUED and not flags & PLACED and self._work.ledger.is_of(page_id, host):
            self._work.ledger.add(page_id, PLACED)
            return
        self._work.delete(key)
        if not flags & KNOWN:
            yield self._work.found("queue row that leads nowhere", where)
        elif not flags & QUEUED:
            yield self._work.found("queue row of a page that is not queued", where)
        elif flags & PLACED and self._work.ledger.is_of(page_id, host):
            yield self._work.found("second queue row of a page", where)
        else:
            self._work.ledger.add(page_id, MISPLACED)
            yield self._work.found("queue row in another host's queue", where)

    def deferred(self) -> Iterator[Finding]:
        for key, _ in self._work.scan(keys.DEFERRED):
            found = keys.split_deferred_key(key)
            unit, page_id = found or ("", 0)
            flags = self._work.ledger[page_id] if found is not None else 0
            if flags & DEFERRED and not flags & PLACED and self._is_unit_of(unit, page_id):
                self._work.ledger.add(page_id, PLACED)
            else:
                self._work.delete(key)
                yield self._work.found("deferred row that leads nowhere", key[1:].hex())

    def _is_unit_of(self, unit: str, page_id: int) -> bool:
        if self._work.ledger.is_of(page_id, unit):
            return True
        page = facts.read_page(self._work.store, page_id)
        return page is not None and unit in keys.deferred_units(facts.host_of_page(page))

    def damaged(self) -> Iterator[Finding]:
        for page_id, host in self._damaged.items():
            key = keys.page_key(page_id)
            stored = self._work.store.get(key) or b""
            was_aside = self._work.store.get(keys.aside_key(page_id)) is not None
            page = salvage(stored, host, self._work.now)
            yield self._work.found("unreadable page", subject(page_id, page), f"{len(stored)} bytes")
            if not self._work.is_mending:
                self._work.set_aside += was_aside
                if was_aside or self._work.ledger[page_id] & PLACED:
                    self._count_damaged(host, was_aside)
                continue
            self._work.put(keys.aside_key(page_id), stored)
            if page_id >= keys.FIRST_VISIT:  # the page it would have visited again is known all the same
                self._work.delete(key)
                self._work.ledger.strike(page_id)
            else:
                self._work.put(key, page_rows.encode_page(page))
                self._work.enter(page_id, page)

    def _count_damaged(self, host: str, was_aside: bool) -> None:
        """Count as the crawl does: as queued until it is set aside, and as failed of a host from then on."""
        if was_aside:
            self._work.tally.states[State.FAILED] += 1
        else:
            self._work.tally.count(host, State.QUEUED)

    def not_placed(self) -> Iterator[Finding]:
        for page_id in self._work.ledger.having(KNOWN | QUEUED, PLACED):
            page = facts.read_page(self._work.store, page_id)
            if page is None:
                continue
            host = facts.host_of_page(page)
            sort_key = queue_keys.sort_key(page.priority, NEUTRAL, min(page_id, keys.MAX_ID), page_id)
            if page.state is not State.QUEUED and page.visits is not None:
                sort_key = return_key(NEUTRAL, NEUTRAL, page.visits.last, page_id)
            self._work.put(queue_keys.queue_prefix(host) + sort_key, b"")
            if not self._work.ledger[page_id] & MISPLACED:
                yield self._work.found("queued page without a row", subject(page_id, page))
        for page_id in self._work.ledger.having(KNOWN | DEFERRED, PLACED):
            page = facts.read_page(self._work.store, page_id)
            if page is not None:
                self._work.put(keys.deferred_key(facts.host_of_page(page), page_id), b"")
                yield self._work.found("deferred page without a row", subject(page_id, page))
