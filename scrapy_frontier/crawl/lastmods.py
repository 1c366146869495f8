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
    from collections.abc import Callable, Iterable

    from ..core.frontier import Frontier, PageId
    from ..core.pages.leases import Lease
    from ..core.pages.visits import VisitEnd
    from .enqueue import Listed

_KEPT = re.compile(rb'"%s":(-?[0-9]+)' % LASTMOD.encode()).search
_MOST = 100_000  # signalled pages whose visits are waited for; of others nothing is learnt


class Lastmods:
    """What sitemaps say of pages that *frontier* knows, and how often it was true."""

    def __init__(self, frontier: Frontier, clock: Callable[[], float]) -> None:
        self._frontier = frontier
        self._clock = clock
        self._signalled: set[PageId] = set()

    def compare(self, known: Iterable[tuple[PageId, Listed]]) -> int:
        """Keep what is told of pages now; how many are due for that. 20 us a page, 60 where it is new."""
        count = 0
        for page_id, listed in known:
            if LASTMOD in listed.meta:
                count += self._take(page_id, listed.meta[LASTMOD])
        return count

    def _take(self, page_id: PageId, lastmod: int) -> bool:
        frontier = self._frontier
        try:
            page = frontier.page(page_id)
        except UnreadableRecord:
            return False
        if page is None:
            return False
        found = _KEPT(page.payload)
        kept = None if found is None else int(found[1])
        payload = with_meta(page.payload, {LASTMOD: lastmod}) if kept != lastmod else None
        if payload is None:
            return False
        frontier.renew(page_id, payload)
        if page.visits is None or (kept is None and lastmod <= page.visits.last):
            return False
        if len(self._signalled) < _MOST:
            self._signalled.add(page_id)
        is_believed = sitemap_sites.is_believed(frontier.listing(origin(page.url) or ""))
        return is_believed and frontier.hasten(page_id, self._clock())

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
