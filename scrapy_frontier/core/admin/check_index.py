"""The second part of a check: that every page is found by its request, and by one row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..store import keys, meta_rows
from . import check_twins, facts
from .check_notes import IS_INDEXED, IS_KNOWN, IS_UNREADABLE
from .check_work import subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..store.page_rows import Page
    from .check_notes import Finding
    from .check_work import Work


def index(work: Work) -> Iterator[Finding]:
    """Index rows against the pages that were noted; each page has one from here on. Removes those that lead
    nowhere, and of several of a page all but the one its request has."""
    doubled: set[int] = set()
    for key, value in work.scan(keys.INDEX):
        page_id = keys.id_in(value)
        values = keys.index_value(page_id), keys.index_value(page_id, is_seen=True)
        flags = work.ledger[page_id] if value in values else 0
        if not flags & IS_KNOWN or page_id >= keys.FIRST_VISIT:
            yield work.removed(key, "index row that leads nowhere", key[1:].hex(), f"to page {page_id}")
        elif flags & IS_INDEXED:
            doubled.add(page_id)
        else:
            work.ledger.add(page_id, IS_INDEXED)
    if doubled:
        yield from _doubled(work, doubled)


def _doubled(work: Work, doubled: set[int]) -> Iterator[Finding]:
    """Of the index rows of a page keep the one its request has; touch nothing if none fits."""
    rows: dict[int, list[bytes]] = {page_id: [] for page_id in doubled}
    for key, value in work.store.scan(keys.INDEX):
        page_id = keys.id_in(value)
        if page_id in rows:
            rows[page_id].append(key)
    for page_id, found in rows.items():
        page = facts.legible_page(work.store, page_id)
        fingerprint = None if page is None else _fingerprint(work, page)
        own = keys.INDEX + fingerprint if fingerprint is not None else b""
        for key in found:
            if key != own and own in found:
                work.delete(key)
        detail = "" if own in found else "none of them fits"
        yield work.found("second index row of a page", f"page {page_id}", detail, own in found)


def not_indexed(work: Work) -> Iterator[Finding]:
    """Pages that no index row leads to, after `index`: each gets one, by the request in its row, or goes
    where that leads to another page. Further visits need none."""
    kind = "page without an index row"
    for page_id, page in work.pages_having(IS_KNOWN, IS_INDEXED | IS_UNREADABLE):
        if page_id >= keys.FIRST_VISIT:
            return
        fingerprint = _fingerprint(work, page)
        if fingerprint is None:
            detail = "its request cannot be rebuilt, or this project identifies pages in another way"
            yield work.found(kind, subject(page_id, page), detail, can_mend=False)
            continue
        work.flush()  # so that a page mended a moment ago is found
        twin = facts.find_page(work.store, fingerprint)
        detail = "" if twin is None else f"the same page as {twin}"
        if twin is None or (work.repair and check_twins.merge(work, page_id, page, twin)):
            value = keys.index_value(page_id, meta_rows.may_be_only_seen(page))
            work.put(keys.INDEX + fingerprint, value)
        yield work.found(kind, subject(page_id, page), detail)


def _fingerprint(work: Work, page: Page) -> bytes | None:
    return None if work.fingerprint_of is None else work.fingerprint_of(page)
