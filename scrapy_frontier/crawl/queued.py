"""The requests of queued pages: payloads on disk, and as objects the last and those without a payload."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..core.frontier import Discovered, Fate, PageId
from ..core.store.records import IN_MEMORY
from . import scrapy_internals
from .codec import FIXED, Codec, Unreadable, Unstorable, dumps, is_mutable, is_scrapys, own_attributes
from .meta_keys import NOT_STORED, SITEMAP, START
from .payloads import own_of, without_callbacks

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request, Spider

    from ..core.store.records import Page
    from .fingerprints import Identities
    from .log import Reporter

# Lists and dicts that Scrapy or we put into requests, or take from them: no callback hands them on.
_NOBODYS = NOT_STORED.union(
    ("redirect_urls", "redirect_reasons", "handle_httpstatus_list", "dumps_kwargs", "_dumps_kwargs", SITEMAP)
)
LIVE = 40  # stored requests that are kept as objects; more would busy the garbage collector


class QueuedRequests:
    """What is kept of requests: by ``codec`` on disk, and as objects by the ids of their pages.

    The last that were stored are ``live`` for a while: ``scrapy shell`` goes on changing its own after it was
    queued, and a page that is handed out soon need not be made anew from its payload. One that no payload
    stands for is ``in_memory`` until its page has ended: memory grows with those queued, waiting, or over a
    budget. Others may look into both.
    """

    def __init__(
        self,
        spider: Spider,
        identities: Identities,
        reporter: Reporter,
        is_temporary: bool,
        opened: frozenset[str] = frozenset(),
        on_open: Callable[[str], None] | None = None,
    ) -> None:
        self.codec = Codec(spider, opened, self._look, on_open)
        self._identities = identities
        self._reporter = reporter
        self._is_temporary = is_temporary
        self._is_copy_logged = False
        self.live: dict[PageId, Request] = {}
        self.in_memory: dict[PageId, Request] = {}

    def keep(self, page_id: PageId, request: Request) -> None:
        """*request* is queued as that page, and stored: keep the object among the last `LIVE`."""
        live = self.live
        if len(live) >= LIVE:
            del live[next(iter(live))]
        live[page_id] = request

    def take(self, page_id: PageId) -> Request | None:
        """That of a page that is handed out, if it is ``live``: no longer so."""
        return self.live.pop(page_id, None)

    def keep_in_memory(self, page_id: PageId, request: Request) -> None:
        """Only this process has *request*, for that page: keep it ``in_memory``."""
        self.in_memory[page_id] = request

    def ended(self, page_id: PageId) -> None:
        """The page has ended: nothing of it is ``in_memory`` any longer."""
        self.in_memory.pop(page_id, None)

    def payload_of(self, request: Request) -> tuple[bytes, bool]:
        """The payload of *request*, and whether it is more than a note that this process has it: then it
        survives a restart. One that does not is counted, and told once, where anything does."""
        try:
            return self.codec.encode(request), True
        except Unstorable as reason:
            payload = memory_payload(request, self._identities.of(request))
            if not self._is_temporary:  # else nothing survives a restart
                self._reporter.tally["scheduler/unserializable"] += 1
                words = (
                    "Unable to serialize request: %s - reason: %s; it would not survive a restart: give it "
                    "methods of the spider and plain data (said once)"
                )
                self._reporter.log_once("unstorable", logging.WARNING, words, request, reason)
            return payload, False

    def queued(self, page_id: PageId, request: Request, is_stored: bool) -> None:
        """*request* is queued as that page: count it, and keep the object, until the page has ended unless it
        *is_stored*."""
        self._reporter.tally["scheduler/enqueued/disk" if is_stored else "scheduler/enqueued/memory"] += 1
        if is_stored:
            self.keep(page_id, request)
        else:
            self.keep_in_memory(page_id, request)

    def fingerprint_of(self, page: Page, request: Request) -> bytes:
        """The fingerprint of *page*, which is asked for by *request*: as it was before its tries changed
        that. A request is made only where they did."""
        own = own_of(page.payload)
        if own is not page.payload:
            with suppress(Unreadable):
                request = self.codec.decode(page.url, page.priority, without_callbacks(own))
        return self._identities.of(request)

    def is_missing(self, answer: Discovered) -> bool:
        """Whether a known page waits with a request that an earlier process had, and this one has not."""
        return answer.fate is Fate.ABSENT and answer.page_id not in self.in_memory

    def replace(self, page_id: PageId, follow_up: Request) -> bytes | None:
        """The payload of *follow_up*, which takes the place of the request of its page; None where there is
        none: then the old one stands for the page after a restart."""
        payload, is_stored = self.payload_of(follow_up)
        if is_stored:
            self.ended(page_id)
            return payload
        self.keep_in_memory(page_id, follow_up)
        return None

    def _look(self, request: Request) -> None:
        """See to what *request* hands on that can be changed: itself where nothing outlives the crawl, so
        raises `Unstorable`, also for one of a class of somebody's own; else a copy, which is said once."""
        if self._is_copy_logged:
            return
        found = mutable_in(request)
        if self._is_temporary and (found or not is_scrapys(type(request))):
            raise Unstorable(found)
        if found:
            self._is_copy_logged = True
            words = (
                "%s hands on a copy of %s, because requests are kept on disk: what one callback changes in "
                "it, others do not see. Pass it from request to request in a chain, or run without JOBDIR "
                "and FRONTIER_DIR (said once)"
            )
            self._reporter.log(logging.INFO, words, request, found)


def mutable_in(request: Request) -> str:
    """Where *request* has something for its callback that can be changed: ``cb_kwargs['item']``, or empty.
    Looks no further than the first."""
    *_, meta, _, arguments, _ = scrapy_internals.attributes(request)
    own = own_attributes(request)
    for name, values in (("cb_kwargs", arguments), ("meta", meta), ("attribute", own)):
        for key, value in values.items() if values else ():
            if type(value) not in FIXED and key not in _NOBODYS and is_mutable(value):
                return f"{name}[{key!r}]"
    return ""


def memory_payload(request: Request, fingerprint: bytes) -> bytes:
    """The payload of a request that only this process has: who it is, whether it is a seed, and insists."""
    fields: dict[str, Any] = {"fingerprint": fingerprint.hex()}
    if request.dont_filter:
        fields["dont_filter"] = True
    if START in request.meta:
        fields["meta"] = {START: True}
    return IN_MEMORY + b"," + dumps(fields).encode()[1:]
