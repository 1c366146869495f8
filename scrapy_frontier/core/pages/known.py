"""Which pages there are: by fingerprint, and by id.

Asked in one order: the open batch, the filter of what is surely new, the store. Owns the index rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import UnreadableRecord
from ..store import keys, page_rows
from ..store.states import State

if TYPE_CHECKING:
    from ..store.batch import Batch
    from ..store.bloom import Seen
    from ..store.leveldb import Store
    from ..store.page_rows import Page

_LEARN_LIMIT = 400  # fingerprints of earlier runs that one lease looks up, 0.3 ms


class Known:
    """The pages of *store*; *seen* is filled with the fingerprints that earlier runs left."""

    def __init__(self, store: Store, batch: Batch, seen: Seen) -> None:
        self._store = store
        self._batch = batch
        self._seen = seen
        self._learned = b""

    # -- what there is ---------------------------------------------------------------------------------

    def find(self, fingerprint: bytes) -> int | None:
        """The id of the page with *fingerprint*, or None; a lookup, or 1 us for most that are new."""
        found = self.look_up(fingerprint)
        return ~found if found is not None and found < 0 else found

    def look_up(self, fingerprint: bytes) -> int | None:
        """`find`, but ``~id`` for a page that may be only seen."""
        found = self._batch.fresh.get(fingerprint)
        if found is None and not self._seen.is_new(fingerprint):
            stored = self._store.get(keys.INDEX + fingerprint)
            if stored is not None:
                page_id = int.from_bytes(stored[: keys.ID_BYTES], "big")
                return page_id if len(stored) == keys.ID_BYTES else ~page_id
        return found

    def page(self, page_id: int) -> Page | None:
        """What is known of a page; None for an id nobody has. Commits; raises `UnreadableRecord`."""
        self._batch.commit()
        stored = self._store.get(keys.page_key(page_id))
        return page_rows.decode_page(stored) if stored is not None else None

    def is_only_seen(self, fingerprint: bytes, page_id: int) -> bool:
        """Whether a page of which `look_up` says so is indeed not queued."""
        if fingerprint in self._batch.fresh:
            return True
        try:
            page = page_rows.decode_page(self._store.get(keys.page_key(page_id)) or b"")
        except UnreadableRecord:
            return False
        return page.state is State.SEEN and not page.is_deferred

    @property
    def is_complete(self) -> bool:
        """Whether the filter knows all that earlier runs left."""
        return self._seen.is_complete

    def learn(self) -> None:
        """Look up some more of the fingerprints that earlier runs left."""
        found = self._store.keys_of(keys.INDEX, self._learned, _LEARN_LIMIT)
        for fingerprint in found:
            self._seen.add(fingerprint)
        self._learned = found[-1] if found else b""
        self._seen.is_complete = len(found) < _LEARN_LIMIT

    # -- pages become known ----------------------------------------------------------------------------

    def add(self, fingerprint: bytes, is_marked: bool = False) -> int:
        """A new page id, and the index row that leads from *fingerprint* to it; *is_marked* as
        `meta_rows.may_be_only_seen` says."""
        batch = self._batch
        page_id = batch.counts.next_page
        batch.counts.next_page = page_id + 1
        batch.fresh[fingerprint] = page_id
        self._seen.add(fingerprint)
        batch.put(keys.INDEX + fingerprint, keys.index_value(page_id, is_marked))
        return page_id

    def add_seen(self, fingerprint: bytes) -> int:
        """`add` for a page that is not queued; until the next batch it is ``~id``."""
        page_id = self.add(fingerprint, is_marked=True)
        self._batch.fresh[fingerprint] = ~page_id
        self._batch.counts.states[State.SEEN] += 1
        self._batch.is_open = True
        return page_id

    def admit(self, fingerprint: bytes, page_id: int, is_marked: bool) -> None:
        """A page that was only seen is about to be queued, or to wait for room in a budget."""
        batch = self._batch
        batch.fresh[fingerprint] = page_id
        batch.put(keys.INDEX + fingerprint, keys.index_value(page_id, is_marked))
        batch.counts.states[State.SEEN] -= 1
        batch.is_open = True
