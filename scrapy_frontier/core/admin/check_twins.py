"""One page that is there twice: one of the two goes, with every row that leads to it, and links to it lead to
the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..hosts.host import host_of_page
from ..pages.forbidden_pages import is_forbidden
from ..parse.urls import origin_of
from ..ranking import graph
from ..store import due_rows, keys, queue_keys
from ..store.due_rows import QUEUED_AGAIN
from ..store.link_rows import encode_row
from ..store.states import State
from .links_in_chunks import every_link

if TYPE_CHECKING:
    from ..store.keys import PageId
    from ..store.page_rows import Page
    from .check_work import Work


def remove(work: Work, page_id: PageId, page: Page, kept: PageId) -> None:
    """Have a page go that is the same as *kept*, and its place in a queue, among deferred pages or those that
    come back. To be called only to repair; a pass over the queue of its host where it is queued."""
    host = host_of_page(page)
    due = work.tally.enter(host, page, -1)
    if page.state is State.QUEUED or due == QUEUED_AGAIN:
        place = queue_keys.find_place(work.store, page_id, host)
        if place is not None:
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
    work.ledger.strike(page_id)
    work.twins[page_id] = kept


def lead_on(work: Work) -> None:
    """Have links to pages that went lead to those that stayed; their own go. Nothing where none went; else
    one pass over all links, none of which is damaged any more. An interruption leaves links to a page that is
    known no more."""
    if not work.twins:
        return
    gone = np.fromiter(work.twins, np.int64)
    for links in every_link(work.store):
        for source in np.unique(links.sources[np.isin(links.targets, gone)]).tolist():
            edges = graph.find_row(source, work.store.get)
            led = (edge._replace(target=_stays(work, edge.target)) for edge in edges)
            work.put(keys.link_key(source), encode_row(source, led))
    for page_id in work.twins:
        is_packed = work.store.get(keys.segment_key(page_id)) is not None
        work.put(keys.link_key(page_id), b"" if is_packed else None)  # it counts before a segment


def _stays(work: Work, page_id: PageId) -> PageId:
    while page_id in work.twins:  # of three the one that stayed first may have gone
        page_id = work.twins[page_id]
    return page_id
