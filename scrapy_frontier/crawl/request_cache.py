"""Requests met lately: the objects of those queued last or in memory only, and pages by the texts of URLs.

Both spare work that was done a moment ago; neither has to know anything.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy import Request

from . import compat
from .codec import BASE_ATTRIBUTES, OURS
from .meta_keys import SITEMAP
from .plain_data import FIXED, Unstorable, is_mutable

if TYPE_CHECKING:
    from .stats import Notes

# Lists and dicts that Scrapy or we put into requests, or take from them: no callback hands them on.
_NOBODYS = OURS.union(
    ("redirect_urls", "redirect_reasons", "handle_httpstatus_list", "dumps_kwargs", SITEMAP)
)
LIVE = 25  # stored requests kept in each of two generations; more would busy the garbage collector


class Objects:
    """Request objects by the ids of their pages.

    The last that were stored are kept for a while: ``scrapy shell`` goes on changing its own after it was
    queued, and a page that is handed out soon need not be made anew from its record. One that no record
    stands for is held until its page has ended: memory grows with those queued, waiting, or over a budget.
    """

    def __init__(self) -> None:
        self._live: dict[int, Request] = {}
        self._live_before: dict[int, Request] = {}
        self._held: dict[int, Request] = {}

    def keep(self, page_id: int, request: Request) -> None:
        """*request* is queued as the page of that id, and stored."""
        live = self._live
        live[page_id] = request
        if len(live) >= LIVE:
            self._live, self._live_before = {}, live

    def hold(self, page_id: int, request: Request) -> None:
        """*request* is the one of that page, until `drop`; no record holds it."""
        self._held[page_id] = request

    def held(self) -> list[int]:
        """The ids of the pages whose requests no record stands for."""
        return list(self._held)

    def holds(self, page_id: int) -> bool:
        return page_id in self._held

    def drop(self, page_id: int) -> None:
        """The page has ended, or there is a record of its request now."""
        if self._held:
            self._held.pop(page_id, None)

    def recall(self, page_id: int) -> Request | None:
        """The request of a page as the object it was, if it is still there; kept no longer unless held."""
        request = self._held.get(page_id) if self._held else None
        return request or self._live.pop(page_id, None) or self._live_before.pop(page_id, None)


def mutable_in(request: Request) -> str:
    """Where *request* has something for its callback that can be changed: ``cb_kwargs['item']``, or empty."""
    arguments, meta = compat.handed_on(request)
    own = None if type(request) is Request else _own_attributes(request)
    for name, values in (("cb_kwargs", arguments), ("meta", meta), ("attribute", own)):
        for key, value in values.items() if values else ():
            if type(value) not in FIXED and key not in _NOBODYS and is_mutable(value):
                return f"{name}[{key!r}]"
    return ""


def _own_attributes(request: Request) -> dict[str, Any]:
    return {name: getattr(request, name) for name in type(request).attributes if name not in BASE_ATTRIBUTES}


class Shared(Unstorable):
    """What a request holds would be another thing as a copy."""


class Sharing:
    """Sees to what requests hand on that can be changed: itself where nothing outlives the crawl, else a
    copy."""

    def __init__(self, is_temporary: bool, notes: Notes) -> None:
        self._is_temporary = is_temporary
        self._notes = notes
        self._is_said = False

    def look(self, request: Request) -> None:
        """Raises `Shared` where only *request* itself holds what it hands on; says so once of copies."""
        if self._is_said:
            return
        found = mutable_in(request)
        if found and self._is_temporary:
            raise Shared(found)
        if found:
            self._is_said = True
            self._notes.log(
                logging.INFO,
                "%s hands on a copy of %s, because requests are kept on disk: what one callback changes in "
                "it, others do not see. Pass it from request to request in a chain, or run without JOBDIR "
                "and FRONTIER_DIR (said once)",
                request,
                found,
            )
