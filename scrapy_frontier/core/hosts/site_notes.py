"""What is kept of sites: their robots.txt, and where their sitemaps are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import UnreadableRecord
from ..store import keys, site_rows
from ..store.site_rows import Listing

if TYPE_CHECKING:
    from ..store.batch import Batch
    from ..store.leveldb import Store
    from ..store.site_rows import RobotsCopy


class SiteNotes:
    """The rows of sites in *store*, by authority (scheme://host:port)."""

    def __init__(self, store: Store, batch: Batch) -> None:
        self._store = store
        self._batch = batch

    def robots_copy(self, authority: str) -> RobotsCopy | None:
        """See `Frontier.robots_copy`."""
        stored = self._store.get(keys.robots_key(authority))
        try:
            return site_rows.decode_copy(stored) if stored is not None else None
        except UnreadableRecord:
            return None

    def keep_robots_copy(self, authority: str, copy: RobotsCopy) -> None:
        """See `Frontier.keep_robots_copy`."""
        self._batch.check()
        self._batch.rows[keys.robots_key(authority)] = site_rows.encode_copy(copy)
        self._batch.commit()

    def listing(self, authority: str) -> Listing:
        """See `Frontier.listing`."""
        self._batch.commit()
        stored = self._store.get(keys.listing_key(authority))
        try:
            return site_rows.decode_listing(stored) if stored is not None else Listing()
        except UnreadableRecord:  # then it is contacted again, and finds its sitemaps known
            return Listing()

    def note_listing(self, authority: str, listing: Listing) -> None:
        """See `Frontier.note_listing`."""
        self._batch.check()
        self._batch.rows[keys.listing_key(authority)] = site_rows.encode_listing(listing)
