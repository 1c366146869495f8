"""Sitemaps that arrive: what they list is queued in small batches, all durable before the sitemap is done."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import DeferredLock

from ..core import reasons
from ..core.hosts import sitemap_sites
from ..core.hosts.sitemap_sites import SitemapScope, SitemapTask
from ..core.pages.leases import Outcome
from ..core.pages.lifecycle import Event
from ..core.parse.sitemaps import Kind, Slice, read
from . import compat
from .enqueue import Listed
from .in_flight import Consumed, ended_with
from .meta_keys import LASTMOD, SITEMAP
from .sitemap_contact import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from ..core.frontier import Frontier
    from ..core.parse.sitemap_entries import Entry
    from .enqueue import Intake
    from .identity import Identities
    from .sitemap_contact import SitemapContacts

AT_A_TIME = 100  # entries queued before the event loop gets its turn: 3 ms


class SitemapReader:
    """Reads sitemaps, one at a time: the event loop would wait for all of them."""

    def __init__(
        self,
        crawler: Crawler,
        frontier: Frontier,
        identities: Identities,
        intake: Intake,
        contacts: SitemapContacts,
    ) -> None:
        self._crawler = crawler
        self._frontier = frontier
        self._identities = identities
        self._intake = intake
        self._contacts = contacts
        self._lock = DeferredLock()

    async def read(self, request: Request, response: Response) -> Response:
        """Read a sitemap. Raises `Consumed` but for a page that is none and that a redirect led to; and
        `FrontierUnwritable`."""
        task = SitemapTask.from_meta(request.meta[SITEMAP], request.url)
        if not 200 <= response.status < 300:
            self._try_next_guess(task)
            raise Consumed(ended_with(response.status))
        await maybe_deferred_to_future(self._lock.acquire())
        try:
            page_id = self._frontier.find(self._identities.of(request))
            reading = SitemapReading(
                self._crawler, self._frontier, self._intake, page_id, request, response, task
            )
            await reading.run()
        finally:
            self._lock.release()
        if reading.kind is Kind.UNKNOWN:
            self._try_next_guess(task)
            if request.meta.get("redirect_urls"):  # to the front page, say: that is the spider's
                del request.meta[SITEMAP]
                return response
        raise Consumed(reading.outcome())

    def _try_next_guess(self, task: SitemapTask) -> None:
        following = task.next_guess()
        if following is not None:
            self._contacts.queue([following])


class SitemapReading:
    """One sitemap, from its first slice to its `outcome`."""

    def __init__(
        self,
        crawler: Crawler,
        frontier: Frontier,
        intake: Intake,
        page_id: int | None,
        request: Request,
        response: Response,
        task: SitemapTask,
    ) -> None:
        assert crawler.stats is not None
        self._crawler = crawler
        self._stats = crawler.stats
        self._frontier = frontier
        self._intake = intake
        self._response = response
        self._task = task
        self._parent = page_id
        names = (response.url, *request.meta.get("redirect_urls", ()))
        self._judge = SitemapScope(names, task.speaks_for, lambda site: frontier.listing(site).listed)
        self._scope = Scope(crawler)
        self._highest = 0.0  # priority so far
        self._entries = 0
        self._children = 0
        self._problem = ""
        self.kind = Kind.UNKNOWN

    async def run(self) -> None:
        """Queue what the file lists, giving way to the event loop between handfuls."""
        for piece in read(self._response.body, self._response.url):
            self.kind = piece.kind
            self._problem = piece.problem
            await compat.sleep(0)
            entries = iter(piece.entries)
            while batch := list(islice(entries, AT_A_TIME)):
                self._take(batch)
                await compat.sleep(0)
            if self._is_full(piece):
                break
        self._report()

    def _is_full(self, piece: Slice) -> bool:
        if piece.kind is Kind.INDEX and self._task.child() is None:
            self._problem = f"nested more than {sitemap_sites.MAX_LEVELS} levels deep"
        elif self._children >= sitemap_sites.MAX_CHILDREN:
            self._problem = f"more than {sitemap_sites.MAX_CHILDREN} sitemaps"
        else:
            return False
        return True

    def _take(self, batch: list[Entry]) -> None:
        self._entries += len(batch)
        self._highest = max([self._highest, *(entry.priority or 0.0 for entry in batch)])
        good = [entry for entry in batch if self._judge.accepts(entry.url) and self._scope.holds(entry.url)]
        wanted = self._sitemaps(good) if self.kind is Kind.INDEX else self._pages(good)
        new = self._intake.enqueue_listed(wanted, self._parent)
        if new:
            self._stats.inc_value("frontier/sitemaps/new", new)
            compat.wake(self._crawler)

    def _pages(self, entries: list[Entry]) -> Iterator[Listed]:
        for entry in entries:
            meta = {} if entry.lastmod is None else {LASTMOD: int(entry.lastmod)}
            yield Listed(entry.url, meta, sitemap_sites.bucket_of(entry.priority, self._highest))

    def _sitemaps(self, entries: list[Entry]) -> Iterator[Listed]:
        task = self._task.child()
        if task is not None:
            meta = {SITEMAP: task.to_meta()}
            for entry in entries[: sitemap_sites.MAX_CHILDREN - self._children]:
                self._children += 1
                yield Listed(entry.url, meta, sitemap_sites.FILE_BUCKET)

    def _report(self) -> None:
        self._stats.inc_value("frontier/sitemaps/files", int(self.kind is not Kind.UNKNOWN))
        self._stats.inc_value("frontier/sitemaps/entries", self._entries)
        self._stats.inc_value("frontier/sitemaps/foreign", self._judge.foreign)
        if self._problem and (self.kind is not Kind.UNKNOWN or self._task.guess is None):
            self._stats.inc_value("frontier/sitemaps/broken")
        self._scope.report()
        frontier = self._frontier
        for authority in self._judge.refused:
            listing = frontier.listing(authority)
            noted = sitemap_sites.refuse(listing, self._response.url)
            if noted != listing and self._scope.holds(authority):
                frontier.note_listing(authority, noted)

    def outcome(self) -> Outcome:
        """What becomes of the sitemap's own page."""
        status, count = self._response.status, self._entries
        entries = f"{count} entr{'y' if count == 1 else 'ies'}"
        if self._problem:
            return Outcome(
                Event.FETCHED, status, reasons.BROKEN_SITEMAP(entries=entries, problem=self._problem)
            )
        return Outcome(Event.FETCHED, status, reasons.SITEMAP(entries=entries))
