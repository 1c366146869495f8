"""One page that is there twice: one of the two goes, with every row that leads to it, and links to it,
redirects and parents lead to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..hosts.host import host_of_page
from ..pages.forbidden_pages import is_forbidden
from ..parse.urls import origin_of
from ..ranking import graph
from ..store import due_rows, keys, page_rows, queue_keys
from ..store.due_rows import QUEUED_AGAIN
from ..store.link_rows import encode_row
from ..store.states import State
from . import facts
from .links_in_chunks import every_link

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..store.keys import PageId
    from ..store.leveldb import Store
    from ..store.page_rows import Page
    from .check_work import Work


def gives_way(page_id: PageId, page: Page, other_id: PageId, other: Page) -> bool:
    """Whether *page* is to go, which is the same as *other*: it led there, or it was only seen, or
    redirected, and the other is more than that. Where it led may be the other by way of further pages: what
    leads to itself would never be fetched."""
    if _led(page, other_id) or _led(other, page_id):
        return _led(page, other_id)
    return _worth(page) < _worth(other)


def _led(page: Page, other_id: PageId) -> bool:
    return page.state is State.REDIRECTED and page.target == other_id


def _worth(page: Page) -> int:
    return 0 if page.is_only_seen else 1 if page.state is State.REDIRECTED else 2


def in_place_of(older: Page, page: Page) -> Page:
    """The record of a *page* that stays, for an *older* one that goes, which leaves it its parent if it was
    more than seen: what *page* was linked first by may have been found by way of the older one, and the path
    would go round."""
    return page if older.is_only_seen else page._replace(parent=older.parent)


def merge(work: Work, page_id: PageId, page: Page, twin: PageId) -> bool:
    """Have one of two pages go that are the same; whether *page* stays. To be called only to repair; a pass
    over the queue of the host of one that was queued."""
    other = facts.legible_page(work.store, twin)
    if other is not None and gives_way(twin, other, page_id, page):
        _remove(work, twin, other, page_id)
        return True
    _remove(work, page_id, page, twin)
    return False


def _remove(work: Work, page_id: PageId, page: Page, kept: PageId) -> None:
    """Have a page go that is the same as *kept*, and its place in a queue, among deferred pages or those that
    come back; *kept* is `in_place_of` an older one."""
    host = host_of_page(page)
    due = work.tally.enter(host, page, -1)
    if page.state is State.QUEUED or due == QUEUED_AGAIN:
        if place := queue_keys.find_place(work.store, page_id, host):
            work.delete(place.key)
    elif due:
        work.delete(due_rows.due_key(due, page_id))
    if page.is_deferred:
        for unit in keys.deferred_units(host):
            work.delete(keys.deferred_key(unit, page_id))
    if is_forbidden(page):
        work.delete(keys.forbidden_prefix(origin_of(page.url) or "") + keys.id_bytes(page_id))
    for key in (keys.page_key(page_id), keys.content_key(page_id)):
        work.delete(key)
    stays = facts.legible_page(work.store, kept)
    if stays is not None and page_id < kept:
        work.put(keys.page_key(kept), page_rows.encode_page(in_place_of(page, stays)))
    work.ledger.strike(page_id)
    work.twins[page_id] = kept


def lead_on(work: Work) -> None:
    """Have links, redirects and parents that were pages that went lead to those that stayed; their own links
    go. Nothing where none went; else one pass over all links, none of which is damaged any more, and one over
    all pages. An interruption leaves links to a page that is known no more."""
    if not work.twins:
        return
    twins = work.twins
    settle(twins)
    gone = np.fromiter(twins, np.int64)
    for links in every_link(work.store):
        for source in np.unique(links.sources[np.isin(links.targets, gone)]).tolist():
            edges = graph.find_row(source, work.store.get)
            led = (edge._replace(target=twins.get(edge.target, edge.target)) for edge in edges)
            work.put(keys.link_key(source), encode_row(source, led))
    for page_id in twins:
        is_packed = work.store.get(keys.segment_key(page_id)) is not None
        work.put(keys.link_key(page_id), b"" if is_packed else None)  # it counts before a segment
    for key, value in pages_led_on(work.store, twins):
        work.put(key, value)


def settle(twins: dict[PageId, PageId]) -> None:
    """Of pages that went, in the order in which they did, and the one that stayed of each, make it the one
    that did in the end: of three the one that stayed first may have gone. O(n)."""
    for page_id, kept in reversed(twins.items()):
        twins[page_id] = twins.get(kept, kept)


def pages_led_on(store: Store, twins: Mapping[PageId, PageId]) -> Iterator[tuple[bytes, bytes]]:
    """The rows of pages that led to one of *twins*, which went, or were first linked by it, as they are to
    be: with the page that stayed in its place, or with none where that is the page itself. Nothing where none
    went; else one pass over all pages."""
    if not twins:
        return
    for page_id, page in facts.pages(store):
        if page.target in twins or page.parent in twins:
            target, parent = (_other(page_id, old, twins) for old in (page.target, page.parent))
            row = page_rows.encode_page(page._replace(target=target, parent=parent))
            yield keys.page_key(page_id), row


def _other(page_id: PageId, old: PageId | None, twins: Mapping[PageId, PageId]) -> PageId | None:
    """What is *old* to a page by now; None where it is the page itself."""
    if old is None or old not in twins:
        return old
    return None if twins[old] == page_id else twins[old]
