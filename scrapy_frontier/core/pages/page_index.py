"""Which pages there are: by their fingerprints, by the texts of their URLs, and by what they contain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..parse.urls import clean_host
from ..revisits.visits import differ
from ..store import keys, page_rows
from ..store.bloom import MASK, PAIRS
from ..store.meta_rows import IN_MEMORY
from ..store.states import State
from .links import Fate
from .url_cache import UrlCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.page_rows import Page
    from .leases import Lease


class PageIndex:
    """The pages of the store, by their fingerprints, and those of a host by their content. Ids are ``~id``
    where a page may be only seen."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._seen = batch.seen
        self._first_of_run = batch.counts.next_page
        self.url_cache = UrlCache()
        self._only_seen = UrlCache()  # of pages that were only seen
        # Whether `recognize` would surely say so; False says nothing. No call of ours: asked for each link.
        self.is_recent: Callable[[str], bool] = self.url_cache.latest.__contains__

    def recognize(
        self,
        url: str,
        source: Lease | None = None,
        flags: int = 0,
        weight: float = 1.0,
        only_seen: bool = False,
    ) -> bool:
        """Whether the text of *url* tells that its page needs no `discover`.

        So it is with nine links in ten, in .2 us; no store read. With a *source* the edge from there is
        noted. A page that was only seen so far is enough for a link that is *only_seen* itself.
        """
        page_id = self.url_cache.latest.get(url)
        if page_id is None:
            page_id = self.url_cache.find(url)
            if page_id is None:
                page_id = self._only_seen.find(url) if only_seen else None
                if page_id is None:
                    return False
        if source is not None:
            source.edges.append((page_id, flags, weight))
        return True

    def cache_url(self, url: str, page_id: PageId, is_seen: bool) -> None:
        """Know page *page_id*, which was only seen if *is_seen*, by the text of *url* from now on."""
        (self._only_seen if is_seen else self.url_cache).put(url, page_id)

    def forget_urls(self) -> None:
        """Some page is known no more: no page is known by the text of its URL until it is met again."""
        self.url_cache.clear()
        self._only_seen.clear()

    def look_up(self, fingerprint: bytes) -> int | None:
        """The id of the page with *fingerprint*, ``~id`` where that may be only seen, or None; a lookup, or 1
        us for most that are new. Pages of the open batch are found too. Raises `FrontierUnreadable`."""
        key = keys.INDEX + fingerprint
        stored = self._batch.rows.get(key)
        if stored is None:
            seen, number = self._seen, hash(fingerprint)  # `BloomFilter.is_new`, without the call
            pair = PAIRS[number >> 23 & 0xFF]
            if seen.bits[number & MASK] & pair != pair and seen.is_complete:
                return None
            stored = self._batch.get(key)  # a row that the open batch deletes is None there too
            if stored is None:
                return None
        page_id = keys.id_in(stored)
        return page_id if len(stored) == keys.ID_BYTES else ~page_id

    def find(self, fingerprint: bytes) -> PageId | None:
        """The page with *fingerprint*, or None; a lookup, or 1 us for most that are new. Pages of the open
        batch are found too. Raises `FrontierUnreadable`."""
        found = self.look_up(fingerprint)
        return ~found if found is not None and found < 0 else found

    def page(self, page_id: PageId) -> Page | None:
        """What is known of a page; None for an id nobody has. Commits what is open, then one lookup.

        Raises `UnreadableRow` where its row does not decode, and `FrontierUnwritable`.
        """
        self._batch.commit()
        stored = self._batch.store.get(keys.page_key(page_id))
        return page_rows.decode_page(stored) if stored is not None else None

    def same_content(self, page_id: PageId, host: str, digest: bytes, kept: bytes = b"") -> Page | None:
        """The page of *host* whose content had the same *digest*; if there is none, this one has from now on.

        A page that failed does not count: nobody followed its links; nor one that has changed, as its record
        says where such content would have another digest *kept*, if both are of a kind. Commits what is open;
        one lookup, two for a duplicate.
        """
        self._batch.commit()
        key = keys.body_key(clean_host(host), digest)
        stored = self._batch.get(key)
        first = page_id if stored is None else keys.id_in(stored)
        page = self._batch.read_page(first) if first != page_id else None
        if page is not None and page.state in (State.DONE, State.QUEUED):
            now_has = b"" if page.visits is None else page.visits.digest
            if not differ(kept, now_has):
                return page
        if stored is None or first != page_id:
            self._batch.rows[key] = keys.id_bytes(page_id)
        return None

    def is_of_this_run(self, page_id: PageId) -> bool:
        """Whether a page was discovered since the frontier was opened; a further visit always was. No store
        read."""
        return page_id >= self._first_of_run

    def fate_of(self, page_id: PageId) -> Fate:
        """Whether a page of which `look_up` says that it may be only seen is so: then ``SEEN``; ``ABSENT``
        where it waits and another process has its request; else ``KNOWN``, a row that cannot be read too. A
        lookup."""
        page = self._batch.read_page(page_id)
        if page is None:
            return Fate.KNOWN
        if page.is_only_seen:
            return Fate.SEEN
        is_waiting = page.state is State.QUEUED or page.is_deferred
        return Fate.ABSENT if is_waiting and page.payload.startswith(IN_MEMORY) else Fate.KNOWN
