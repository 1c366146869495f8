"""The second part of a check: that every page is found by its request, and by one row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..store import keys, meta_rows
from ..store.page_rows import Page
from ..store.queue_keys import find_place
from ..store.states import State
from . import facts
from .check_notes import INDEXED, KNOWN, UNREADABLE
from .check_work import subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..pages.edits import FingerprintOf
    from .check_notes import Finding
    from .check_work import Work


class IndexCheck:
    """*fingerprint_of* finds index rows that are missing."""

    def __init__(self, work: Work, fingerprint_of: FingerprintOf | None) -> None:
        self._work = work
        self._fingerprint_of = fingerprint_of

    def index(self) -> Iterator[Finding]:
        doubled: set[int] = set()
        for key, value in self._work.scan(keys.INDEX):
            page_id = keys.index_id(value)
            flags = self._work.ledger[page_id] if value in _index_values(page_id) else 0
            if not flags & KNOWN or page_id >= keys.FIRST_VISIT:
                self._work.delete(key)
                yield self._work.found("index row that leads nowhere", key[1:].hex(), f"to page {page_id}")
            elif flags & INDEXED:
                doubled.add(page_id)
            else:
                self._work.ledger.add(page_id, INDEXED)
        if doubled:
            yield from self._doubled(doubled)

    def _doubled(self, doubled: set[int]) -> Iterator[Finding]:
        """Of the index rows of a page keep the one its request has; touch nothing if none fits."""
        rows: dict[int, list[bytes]] = {page_id: [] for page_id in doubled}
        for key, value in self._work.store.scan(keys.INDEX):
            page_id = keys.index_id(value)
            if page_id in rows:
                rows[page_id].append(key)
        for page_id, found in rows.items():
            fingerprint = self._fingerprint(page_id)
            own = keys.INDEX + fingerprint if fingerprint is not None else b""
            for key in found:
                if key != own and own in found:
                    self._work.delete(key)
            detail = "" if own in found else "none of them fits"
            yield self._work.found("second index row of a page", f"page {page_id}", detail, own in found)

    def not_indexed(self) -> Iterator[Finding]:
        for page_id in self._work.ledger.having(KNOWN, INDEXED):
            if page_id >= keys.FIRST_VISIT or (self._work.ledger[page_id] & UNREADABLE):
                continue
            fingerprint = self._fingerprint(page_id)
            page = facts.read_page(self._work.store, page_id) or Page("")
            if fingerprint is None:
                detail = "its request cannot be rebuilt, or this project identifies pages in another way"
                yield self._work.found(
                    "page without an index row", subject(page_id, page), detail, can_mend=False
                )
                continue
            self._work.flush()  # so that a page mended a moment ago is found
            twin = facts.find_page(self._work.store, fingerprint)
            detail = "" if twin is None else f"the same page as {twin}"
            if twin is None:
                value = keys.index_value(page_id, meta_rows.may_be_only_seen(page))
                self._work.put(keys.INDEX + fingerprint, value)
            elif self._work.is_mending:
                self._remove_twin(page_id, page)
            yield self._work.found("page without an index row", subject(page_id, page), detail)

    def _fingerprint(self, page_id: int) -> bytes | None:
        page = facts.read_page(self._work.store, page_id)
        return self._fingerprint_of(page) if self._fingerprint_of is not None and page is not None else None

    def _remove_twin(self, page_id: int, page: Page) -> None:
        host = facts.host_of_page(page)
        place = find_place(self._work.store, page_id, host) if page.state is State.QUEUED else None
        if place is not None:
            self._work.delete(place.key)
        self._work.delete(keys.page_key(page_id))
        self._work.tally.count(host, page.state, -1, page.status)
        if page.is_deferred:
            self._work.tally.count_deferred(host, -1)
            for unit in keys.deferred_units(host):
                self._work.delete(keys.deferred_key(unit, page_id))
        self._work.ledger.strike(page_id)


def _index_values(page_id: int) -> tuple[bytes, bytes]:
    return keys.index_value(page_id), keys.index_value(page_id, is_seen=True)
