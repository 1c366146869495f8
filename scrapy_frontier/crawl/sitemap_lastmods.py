"""``lastmod`` in sitemaps, as a signal: a page of which another one is told than before is due at once.

A site is believed for as long as at least every second page that it told of had changed: many generators
stamp now on everything. That a page is listed no more is no sign.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..core.errors import UnreadableRecord
from ..core.hosts import sitemap_sites
from ..core.parse.urls import origin
from .codec import with_meta
from .meta_keys import LASTMOD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..core.frontier import Frontier, PageId
    from ..core.pages.leases import Lease
    from ..core.pages.visits import VisitEnd
    from ..core.store.page_rows import Page
    from .enqueue_requests import Listed

_KEPT = re.compile(rb'"%s":(-?[0-9]+)' % LASTMOD.encode()).search
_MOST = 100_000  # signalled pages whose visits are waited for; of others nothing is learnt


class Lastmods:
    """What sitemaps say of pages that *frontier* knows, and how often it was true."""

    def __init__(self, frontier: Frontier, clock: Callable[[], float]) -> None:
        self._frontier = frontier
        self._clock = clock
        self._signalled: set[PageId] = set()

    def compare(self, known: Iterable[tuple[PageId, Listed]]) -> int:
        """Keep what is told of pages now, in one batch; how many are due for that. 10 us a page, 50 where it
        is new."""
        frontier, now, count = self._frontier, self._clock(), 0
        news = list(self._news(known))
        signalled = {page_id for page_id, _, _, is_signal in news if is_signal}
        if len(self._signalled) < _MOST:
            self._signalled |= signalled
        sites = {origin(page.url) or "" for page_id, page, *_ in news if page_id in signalled}
        believed = {site for site in sites if sitemap_sites.is_believed(frontier.listing(site))}
        for page_id, page, payload, is_signal in news:
            if is_signal and origin(page.url) in believed:
                count += frontier.hasten(page_id, now, payload)
            else:
                frontier.renew(page_id, payload)
        frontier.commit()
        return count

    def _news(self, known: Iterable[tuple[PageId, Listed]]) -> Iterator[tuple[PageId, Page, bytes, bool]]:
        """Pages of which something else is told than before, the records of their requests, and whether that
        is a signal: all but the first word on a page, where that is older than its last visit."""
        for page_id, listed in known:
            lastmod = listed.meta.get(LASTMOD)
            page = self._page(page_id) if lastmod is not None else None
            if page is None or lastmod is None:
                continue
            found = _KEPT(page.payload)
            kept = None if found is None else int(found[1])
            payload = with_meta(page.payload, {LASTMOD: lastmod}) if kept != lastmod else None
            if payload is not None:
                last = page.visits.last if page.visits is not None else None
                yield page_id, page, payload, last is not None and (kept is not None or lastmod > last)

    def _page(self, page_id: PageId) -> Page | None:
        try:
            return self._frontier.page(page_id)
        except UnreadableRecord:
            return None

    def visited(self, lease: Lease, end: VisitEnd) -> None:
        """A page that came back was visited."""
        visits, authority = lease.page.visits, origin(lease.page.url)
        is_signalled = lease.page_id in self._signalled
        self._signalled.discard(lease.page_id)
        if end.fate is None or visits is None or authority is None or not _KEPT(lease.page.payload):
            return
        frontier = self._frontier
        listing = frontier.listing(authority)
        has_changed = end.fate == "changed"
        judged = sitemap_sites.judge(listing, visits, is_signalled, has_changed, self._clock())
        if judged != listing:
            frontier.note_listing(authority, judged)
