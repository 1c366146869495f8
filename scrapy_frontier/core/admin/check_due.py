"""A part of a check: pages that come back, and the rows that say when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..pages.forbidden_pages import is_forbidden
from ..store import due_rows, keys
from ..store.due_rows import Due
from . import facts
from .check_notes import DUE, KNOWN, PLACED
from .check_work import subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .check_notes import Finding
    from .check_work import Work


class DueCheck:
    def __init__(self, work: Work) -> None:
        self._work = work

    def due(self) -> Iterator[Finding]:
        work = self._work
        for key, value in work.scan(keys.DUE):
            due = due_rows.decode_due(key, value)
            flags = work.ledger[due.page_id] if due_rows.is_due_key(key) else 0
            if flags & DUE and not flags & PLACED and self._time_of(due.page_id) == due.when:
                work.ledger.add(due.page_id, PLACED)
            else:
                work.delete(key)
                yield work.found("due row that leads nowhere", key[1:].hex())

    def _time_of(self, page_id: int) -> int:
        page = facts.read_page(self._work.store, page_id)
        return 0 if page is None or page.visits is None else page.visits.due

    def forbidden(self) -> Iterator[Finding]:
        work = self._work
        for key, _ in work.scan(keys.FORBIDDEN):
            if key.startswith(keys.ROBOTS_CHANGED):
                continue
            page_id = int.from_bytes(key[-keys.ID_BYTES :], "big")
            page = facts.read_page(work.store, page_id) if work.ledger[page_id] & KNOWN else None
            if page is None or not is_forbidden(page):
                work.delete(key)
                yield work.found("forbidden row that leads nowhere", key[1:].hex())

    def not_due(self) -> Iterator[Finding]:
        work = self._work
        for page_id in work.ledger.having(KNOWN | DUE, PLACED):
            page = facts.read_page(work.store, page_id)
            if page is not None and page.visits is not None:
                when = page.visits.due
                work.put(due_rows.due_key(when, page_id), due_rows.encode_due(Due(when, page_id)))
                yield work.found("page without its due row", subject(page_id, page))
