"""Which pages there are: by the text of a URL, by fingerprint, and by id.

Asked in one order: the texts met lately, the open batch, the filter of what is surely new, the store. Owns
the index rows. Ids here are ``~id`` for a page that may be only seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import UnreadableRecord
from ..store import keys, page_rows
from ..store.link_rows import new_edge
from ..store.meta_rows import IN_MEMORY
from ..store.states import State
from .links import Fate
from .texts import Texts

if TYPE_CHECKING:
    from ..store.batch import Batch
    from ..store.bloom import Seen
    from ..store.leveldb import Store
    from ..store.page_rows import Page
    from .leases import Lease

_LEARN_LIMIT = 400  # fingerprints of earlier runs at a time, 0.3 ms


class Known:
    """The pages of *store*; *seen* is filled with the fingerprints that earlier runs left."""

    def __init__(self, store: Store, batch: Batch, seen: Seen) -> None:
        self._store = store
        self._batch = batch
        self._seen = seen
        self._learned = b""
        self.texts = Texts()
        self.unknown: bytes | None = None  # the fingerprint asked for last, if no page has it

    # -- what there is ---------------------------------------------------------------------------------

    def recognize(
        self,
        url: str,
        source: Lease | None = None,
        flags: int = 0,
        weight: float = 1.0,
        fingerprint: bytes = b"",
        only_seen: bool = False,
    ) -> bool:
        """See `Frontier.recognize`."""
        page_id = self.texts.latest.get(url)
        if page_id is None:
            page_id = self.texts.find(url)
            if page_id is None and fingerprint:
                page_id = self._met(url, fingerprint)
            if page_id is None:
                return False
        if page_id < 0:
            if not only_seen:
                return False
            page_id = ~page_id
        if source is not None:
            source.edges.append(new_edge((page_id, flags, weight)))
        return True

    def _met(self, url: str, fingerprint: bytes) -> int | None:
        page_id = self.look_up(fingerprint)
        if page_id is None:
            self.unknown = fingerprint
        elif page_id >= 0:
            self.texts.put(url, page_id)
        return page_id

    def look_up(self, fingerprint: bytes) -> int | None:
        """The page with *fingerprint*, or None; a lookup, or 1 us for most that are new."""
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

    def standing(self, fingerprint: bytes, page_id: int) -> Fate:
        """What a page is of which `look_up` says that it may be only seen."""
        if fingerprint in self._batch.fresh:
            return Fate.SEEN
        try:
            page = page_rows.decode_page(self._store.get(keys.page_key(page_id)) or b"")
        except UnreadableRecord:
            return Fate.KNOWN
        if page.state is State.SEEN and not page.is_deferred:
            return Fate.SEEN
        is_waiting = page.state is State.QUEUED or page.is_deferred
        return Fate.ABSENT if is_waiting and page.payload.startswith(IN_MEMORY) else Fate.KNOWN

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

    def add_queued(self, fingerprint: bytes, record: bytes, is_marked: bool) -> int:
        """`add`, and the page's row."""
        batch, self.unknown = self._batch, None
        counts, put = batch.counts, batch.put
        page_id = counts.next_page
        counts.next_page = page_id + 1
        batch.fresh[fingerprint] = page_id
        self._seen.add(fingerprint)
        name = page_id.to_bytes(keys.ID_BYTES, "big")
        put(keys.INDEX + fingerprint, keys.index_value(page_id, True) if is_marked else name)
        put(keys.PAGE + name, record)
        return page_id

    def add(self, fingerprint: bytes, is_marked: bool = False) -> int:
        """A new page id, and the index row that leads from *fingerprint* to it; *is_marked* as
        `meta_rows.may_be_only_seen` says."""
        batch, self.unknown = self._batch, None
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
