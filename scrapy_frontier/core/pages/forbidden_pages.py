"""Pages that a robots.txt forbids: they come back when that changes, and no page else is looked at for it.

Owns a row for each, under the site whose file it is. Somebody has to ask for the file: the first of a site's
pages comes back by itself too, to be judged, after its span.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import reasons
from ..parse.urls import origin_of
from ..store import keys
from ..store.states import State

if TYPE_CHECKING:
    from ..hosts.robots_and_sitemaps import RobotsAndSitemaps
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.page_rows import Page


def is_forbidden(page: Page) -> bool:
    """Whether the page is excluded, and by a robots.txt, as its reason says (`reasons.FORBIDDEN`)."""
    return page.state is State.EXCLUDED and reasons.FORBIDDEN.read(page.reason) is not None


class ForbiddenPages:
    """The rows of forbidden pages in the store, by site (scheme://host:port); *sites* say whose robots.txt
    has changed. A page has such a row as long as `is_forbidden` says so, unless they are not ``complete``:
    being made, for the first time or anew."""

    def __init__(self, batch: Batch, sites: RobotsAndSitemaps) -> None:
        self._batch = batch
        self._sites = sites
        self._are_complete = True

    def complete(self, are_complete: bool) -> None:
        """Say whether all forbidden pages have their row. Until then none is judged again: its site is not
        looked at twice."""
        self._are_complete = are_complete

    def note(self, page_id: PageId, page: Page) -> bool:
        """Have a forbidden page come back with its robots.txt, in the open batch. Whether it has to come by
        itself too, as the first of its site. One seek."""
        prefix = keys.forbidden_prefix(origin_of(page.url) or "")
        self._batch.rows[prefix + keys.id_bytes(page_id)] = b""
        found = self._batch.store.keys_of(prefix, b"", 1)
        return not found or keys.id_bytes(page_id) <= found[0]

    def remove(self, page_id: PageId, page: Page) -> None:
        """Have a page come back with its robots.txt no more, in the open batch. *page* is as it was: where
        that was not forbidden nothing is done."""
        if is_forbidden(page):
            prefix = keys.forbidden_prefix(origin_of(page.url) or "")
            self._batch.rows[prefix + keys.id_bytes(page_id)] = None

    def allow(self, page_id: PageId, page: Page) -> None:
        """`remove` a page that its robots.txt forbids no longer. If that is the same as before, it is another
        agent that asks: all others of its site are judged again, too. A lookup for one that was forbidden."""
        if is_forbidden(page):
            origin = origin_of(page.url) or ""
            if self._batch.get(keys.forbidden_prefix(origin) + keys.id_bytes(page_id)) is not None:
                self._sites.judge_again(origin)  # it came by itself: with the others its row went
        self.remove(page_id, page)

    def next_of_site(self, page_id: PageId, page: Page) -> PageId | None:
        """The page behind that one which the same robots.txt forbids; None where there is none. One seek for
        most."""
        prefix, after = keys.forbidden_prefix(origin_of(page.url) or ""), keys.id_bytes(page_id)
        while found := self._batch.store.keys_of(prefix, after, 1):
            after = found[0]
            if self._batch.rows.get(prefix + after, b"") is not None:
                return keys.id_in(after)
        return None

    @property
    def are_to_judge(self) -> bool:
        """Whether a robots.txt has changed whose pages were not all taken yet; no store read."""
        return self._are_complete and self._sites.has_changed

    def take(self, limit: int) -> list[int]:
        """Up to so many pages of a site whose robots.txt has changed; their rows go, in the next batch. To be
        called with nothing open."""
        site = self._sites.changed()
        if site is None:
            return []
        origin, after = site
        prefix = keys.forbidden_prefix(origin)
        found = self._batch.store.keys_of(prefix, after, limit)
        self._batch.rows.update(dict.fromkeys((prefix + name for name in found), None))
        self._sites.judged(origin, found[-1] if len(found) == limit else None)
        return [keys.id_in(name) for name in found]
