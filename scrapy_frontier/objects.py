"""Requests as the objects they were: some live in memory only, others are known again while they live."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

if TYPE_CHECKING:
    from scrapy import Request

LIVE = 100  # requests whose objects are known again in each of two generations


class Objects:
    """Request objects by the ids of their pages.

    One that is stored is not held, or the garbage collector would walk thousands; but who queued it may hold
    it, and go on changing it, as ``scrapy shell`` does. One that cannot be stored is held.
    """

    def __init__(self) -> None:
        self._live: dict[int, ref[Request]] = {}
        self._live_before: dict[int, ref[Request]] = {}
        self._held: dict[int, Request] = {}

    def keep(self, page_id: int, request: Request, stored: bool) -> None:
        """*request* is queued as the page of that id."""
        if not stored:
            self._held[page_id] = request
            return
        live = self._live
        live[page_id] = ref(request)
        if len(live) >= LIVE:
            self._live, self._live_before = {}, live

    def recall(self, page_id: int) -> Request | None:
        """The request of a page as the object it was, if it is still there; it is not held any longer."""
        found = self._live.pop(page_id, None) or self._live_before.pop(page_id, None)
        request = found() if found is not None else None
        if request is None and self._held:
            request = self._held.pop(page_id, None)
        return request
