"""The requests of queued pages: as payloads on disk, or as objects in memory."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrapy import Request

from ..core.frontier import Discovered, LinkVerdict, PageId
from .codec import FIXED, Unreadable, Unstorable, is_mutable, memory_payload, own_attributes
from .meta_keys import NOT_STORED

if TYPE_CHECKING:
    from ..core.store.records import Page
    from .codec import Codec
    from .fingerprints import Identities
    from .log import Reporter

# Lists and dicts that Scrapy or we put into requests: no callback shares them with another.
_NOT_SHARED = NOT_STORED.union(
    ("redirect_urls", "redirect_reasons", "handle_httpstatus_list", "_dumps_kwargs")
)


@dataclass(eq=False, repr=False)
class QueuedRequests:
    """Keeps the requests of queued pages: by ``codec`` on disk, and ``in_memory``, by the ids of their pages,
    those without a payload until their pages have ended. Memory grows with these.

    While a command like ``scrapy shell`` *is_inspecting* all stay in memory: it sets callbacks of its own
    once the request is queued.
    """

    codec: Codec
    identities: Identities
    reporter: Reporter
    _is_temporary: bool
    is_inspecting: bool
    in_memory: dict[PageId, Request] = field(default_factory=dict, init=False)

    def keep_in_memory(self, page_id: PageId, request: Request) -> None:
        """Keeps *request* for that page ``in_memory``: it has no payload."""
        self.in_memory[page_id] = request

    def ended(self, page_id: PageId) -> None:
        """Lets go of the request ``in_memory`` of a page that has ended."""
        self.in_memory.pop(page_id, None)

    def payload_of(self, request: Request) -> tuple[bytes, bool]:
        """Returns the payload of *request*, and whether it stands for the request after a restart. If not, it
        is only a note that this process has the request; counts and logs that, unless the frontier is
        temporary.

        In a temporary frontier a request that hands on something mutable stays in memory: callbacks may share
        it, as with Scrapy's own queue in memory.
        """
        if not (self.is_inspecting or (self._is_temporary and has_shared(request))):
            try:
                return self.codec.encode(request), True
            except Unstorable as reason:
                self._report_unstorable(request, reason)
        return memory_payload(self.identities.of(request)), False

    def _report_unstorable(self, request: Request, reason: Unstorable) -> None:
        if not self._is_temporary:
            self.reporter.tally["scheduler/unserializable"] += 1
            words = (
                "Unable to serialize request: %s - reason: %s; it does not survive a restart: give it "
                "methods of the spider as callbacks, and plain data or items (said once)"
            )
            self.reporter.log_once("unstorable", logging.WARNING, words, request, reason)

    def queued(self, page_id: PageId, request: Request, is_stored: bool) -> None:
        """Counts *request*, queued as that page, and keeps it ``in_memory`` unless it *is_stored*."""
        self.reporter.tally["scheduler/enqueued/disk" if is_stored else "scheduler/enqueued/memory"] += 1
        if not is_stored:
            self.keep_in_memory(page_id, request)

    def fingerprint_of(self, page: Page, request: Request) -> bytes:
        """Returns the fingerprint of *page*, which is fetched by *request*: that of its own request if this
        visit is made by another."""
        if page.visit_payload:
            with suppress(Unreadable):
                request = self.codec.decode(page.url, page.priority, page.payload, with_callbacks=False)
        return self.identities.of(request)

    def is_missing(self, answer: Discovered) -> bool:
        """Whether a known page waits with a request that an earlier process had, and this one has not."""
        return answer.verdict is LinkVerdict.ABSENT and answer.page_id not in self.in_memory

    def replace(self, page_id: PageId, follow_up: Request) -> bytes | None:
        """Puts *follow_up* in the place of the request of its page and returns its payload; None if it has
        none: then the old request stands for the page after a restart."""
        payload, is_stored = self.payload_of(follow_up)
        if is_stored:
            self.ended(page_id)
            return payload
        self.keep_in_memory(page_id, follow_up)
        return None


def has_shared(request: Request) -> bool:
    """Whether *request* holds something mutable for its callback, as an item in its ``cb_kwargs``."""
    own = own_attributes(request) if type(request) is not Request else None
    return any(
        type(value) not in FIXED and key not in _NOT_SHARED and is_mutable(value)
        for values in (request.cb_kwargs, request.meta, own or {})
        for key, value in values.items()
    )
