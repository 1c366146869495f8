"""The first part of a check: every page, and the row by which it waits: in a queue, for a budget or a day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import lenient
from ..hosts.host import host_of_page
from ..pages.forbidden_pages import is_forbidden
from ..store import due_rows, keys, page_rows, queue_keys
from ..store.meta_rows import IN_MEMORY
from ..store.score_codes import NEUTRAL
from ..store.states import State
from . import facts
from .check_notes import (
    IS_DEFERRED,
    IS_DUE,
    IS_KNOWN,
    IS_MISPLACED,
    IS_PLACED,
    IS_QUEUED,
    IS_UNREADABLE,
    salvage,
)
from .check_work import subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..store.keys import PageId
    from ..store.page_rows import Page
    from .check_notes import Finding
    from .check_work import Work


def pages(work: Work) -> Iterator[Finding]:
    """Every page row: notes what it says, and which cannot be read. One kept as leased, which is never
    stored, is queued again; one put aside in a state that never is stays what it is; one whose request is in
    memory is looked up. The other parts build on these notes."""
    for key, value in work.scan(keys.PAGE):
        page_id = keys.key_id(key)
        is_visit = page_id >= keys.FIRST_VISIT
        work.highest[is_visit] = max(work.highest[is_visit], page_id)
        page = lenient(page_rows.decode_page, value)
        if page is None:
            work.ledger.enter(page_id, IS_KNOWN | IS_UNREADABLE, "")
            work.damaged[page_id] = ""
            continue
        if page.state is State.LEASED:
            page = page._replace(state=State.QUEUED)
            work.put(key, page_rows.encode_page(page))
            yield work.found("page kept as leased", subject(page_id, page))
        if page.is_deferred and page.state is not State.SEEN:
            page = page._replace(is_deferred=False)
            work.put(key, page_rows.encode_page(page))
            yield work.found("page put aside that is not only seen", subject(page_id, page))
        work.enter(page_id, page)
        if page.payload.startswith(IN_MEMORY) and not is_visit:
            yield from _in_memory(work, page_id, page)


def _in_memory(work: Work, page_id: PageId, page: Page) -> Iterator[Finding]:
    """The index row of a page whose request only a process has, or had: it says so, or no link would look
    whether that was lost. A lookup."""
    fingerprint = None if work.fingerprint_of is None else work.fingerprint_of(page)
    if fingerprint is None:
        return
    key = keys.INDEX + fingerprint
    if work.store.get(key) == keys.index_value(page_id):
        work.put(key, keys.index_value(page_id, is_seen=True))
        yield work.found("index row that hides a lost request", subject(page_id, page))


def queue(work: Work) -> Iterator[Finding]:
    """The rows of pages that wait for their turn, and of those that wait for the end of a backoff: one for
    each page that is queued, in the queue of its own host. Other rows of these kinds are
    deleted."""
    rows = (keys.QUEUE, queue_keys.split_queue_row), (keys.WAITING, queue_keys.split_waiting_row)
    for prefix, split in rows:
        for key, value in work.scan(prefix):
            place = split(key, value)
            if place is None:
                yield work.removed(key, "unreadable queue row", key.hex())
            else:
                yield from _place(work, place)


def _place(work: Work, place: queue_keys.QueuePlace) -> Iterator[Finding]:
    """Note that a page has its place; or what is wrong with it."""
    key, host, page_id = place.key, place.host, queue_keys.sort_key_id(place.sort_key)
    flags = work.ledger[page_id]
    where = f"page {page_id} of {host}"
    if flags & IS_UNREADABLE:
        work.damaged[page_id] = host
        work.ledger.add(page_id, IS_PLACED)
        work.delete(key)
        return
    if flags & IS_QUEUED and not flags & IS_PLACED and work.ledger.is_of(page_id, host):
        work.ledger.add(page_id, IS_PLACED)
        return
    if not flags & IS_KNOWN:
        kind = "queue row that leads nowhere"
    elif not flags & IS_QUEUED:
        kind = "queue row of a page that is not queued"
    elif flags & IS_PLACED and work.ledger.is_of(page_id, host):
        kind = "second queue row of a page"
    else:
        work.ledger.add(page_id, IS_MISPLACED)
        kind = "queue row in another host's queue"
    yield work.removed(key, kind, where)


def deferred(work: Work) -> Iterator[Finding]:
    """Deferred rows: one for each page that waits for a budget, under a unit of its host. All others go."""
    for key, _ in work.scan(keys.DEFERRED):
        unit, page_id = keys.split_deferred_key(key) or ("", -1)
        flags = work.ledger[page_id]
        if flags & IS_DEFERRED and not flags & IS_PLACED and _is_unit_of(work, unit, page_id):
            work.ledger.add(page_id, IS_PLACED)
        else:
            yield work.removed(key, "deferred row that leads nowhere", key[1:].hex())


def _is_unit_of(work: Work, unit: str, page_id: PageId) -> bool:
    if work.ledger.is_of(page_id, unit):
        return True
    page = facts.legible_page(work.store, page_id)
    return page is not None and unit in keys.deferred_units(host_of_page(page))


def due(work: Work) -> Iterator[Finding]:
    """Due rows: one for each page that comes back, at the second its record names. Others are deleted."""
    for key, value in work.scan(keys.DUE):
        due = due_rows.decode_due(key, value)
        flags = work.ledger[due.page_id] if due_rows.is_due_key(key) else 0
        page = facts.legible_page(work.store, due.page_id) if flags & IS_DUE else None
        if page is not None and page.due == due.when and not flags & IS_PLACED:
            work.ledger.add(due.page_id, IS_PLACED)
        else:
            yield work.removed(key, "due row that leads nowhere", key[1:].hex())


def forbidden(work: Work) -> Iterator[Finding]:
    """Forbidden rows: those of pages that no robots.txt excludes go; that one is missing is not found."""
    for key, _ in work.scan(keys.FORBIDDEN):
        if key.startswith(keys.ROBOTS_CHANGED):
            continue
        page_id = keys.id_in(key[-keys.ID_BYTES :])
        page = facts.legible_page(work.store, page_id) if work.ledger[page_id] & IS_KNOWN else None
        if page is None or not is_forbidden(page):
            yield work.removed(key, "forbidden row that leads nowhere", key[1:].hex())


def damaged(work: Work) -> Iterator[Finding]:
    """The page rows that cannot be read: their bytes are set aside, and what is legible takes their place."""
    for page_id, host in work.damaged.items():
        key = keys.page_key(page_id)
        stored = work.store.get(key) or b""
        page = salvage(stored, host, work.now)
        yield work.found("unreadable page", subject(page_id, page), f"{len(stored)} bytes")
        if not work.repair:
            # As the crawl counts it: as queued until it is set aside, and as failed of a host from then on.
            if work.store.get(keys.aside_key(page_id)) is not None:
                work.set_aside += 1
                work.tally.counts.states[State.FAILED] += 1
            elif work.ledger[page_id] & IS_PLACED:
                work.tally.count(host, State.QUEUED)
            continue
        work.put(keys.aside_key(page_id), stored)
        if page_id >= keys.FIRST_VISIT:  # the page it would have visited again is known all the same
            work.delete(key)
            work.ledger.strike(page_id)
        else:
            work.put(key, page_rows.encode_page(page))
            work.enter(page_id, page)


def not_placed(work: Work) -> Iterator[Finding]:
    """Pages that nothing leads to, after `queue`, `deferred` and `due`: each gets the row it is missing."""
    for page_id, page in work.pages_having(IS_QUEUED, IS_PLACED):
        host = host_of_page(page)
        sort_key = queue_keys.sort_key(page.priority, NEUTRAL, min(page_id, keys.MAX_ID), page_id)
        if page.state is not State.QUEUED and page.visits is not None:
            sort_key = due_rows.sort_key_of_due(NEUTRAL, NEUTRAL, page.visits.last, page_id)
        work.put(queue_keys.queue_prefix(host) + sort_key, b"")
        if not work.ledger[page_id] & IS_MISPLACED:
            yield work.found("queued page without a row", subject(page_id, page))
    for page_id, page in work.pages_having(IS_DEFERRED, IS_PLACED):
        work.put(keys.deferred_key(host_of_page(page), page_id), b"")
        yield work.found("deferred page without a row", subject(page_id, page))
    for page_id, page in work.pages_having(IS_DUE, IS_PLACED):
        due = due_rows.Due(page.due, page_id)
        work.put(due_rows.due_key(due.when, page_id), due_rows.encode_due(due))
        yield work.found("page without its due row", subject(page_id, page))
