"""Pages of one host that have the same content: the first of them stands for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..parse.urls import clean_host
from ..revisits.visits import differ
from ..store import keys
from ..store.states import State

if TYPE_CHECKING:
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.page_rows import Page


@dataclass(eq=False, repr=False)
class Contents:
    """Tells pages of a host with the same content; owns the rows that lead from a digest to the first page
    with it."""

    _batch: Batch

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
