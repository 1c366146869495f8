"""Sitemaps: asked for on first contact with a site, read for the frontier, never shown to the spider.

A sitemap is an ordinary page of the frontier whose request carries an `SitemapTask` in its meta. So it waits
for its host, is retried, and is still there after a kill. What it lists is queued in small batches, each
durable before the sitemap itself is done.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import DeferredLock

from ..core.errors import FrontierUnwritable
from ..core.hosts import sitemap_sites
from ..core.hosts.sitemap_sites import SitemapScope, SitemapTask
from ..core.pages.leases import Outcome
from ..core.pages.lifecycle import Event
from ..core.parse.sitemaps import MAX_BYTES, Kind, Slice, read
from ..crawl import compat
from ..crawl.assembly import Component
from ..crawl.enqueue import Listed
from ..crawl.in_flight import Consumed, describe
from ..crawl.meta_keys import LASTMOD, SITEMAP
from ..crawl.sitemap_contact import Scope
from ..settings import FrontierSetting, FrontierSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from ..core.parse.sitemap_entries import Entry
    from ..crawl.assembly import Crawl
    from ..crawl.sitemap_contact import SitemapContacts

logger = logging.getLogger(__name__)

AT_A_TIME = 100  # entries queued before the event loop gets its turn: 3 ms
_GONE = (404, 410)


class SitemapsMiddleware(Component):
    """Enabled by ``FRONTIER_SITEMAPS``; does nothing with another scheduler."""

    def __init__(self, crawler: Crawler) -> None:
        try:
            is_wanted = FrontierSettings.from_settings(crawler.settings).sitemaps
        except FrontierSetting:  # the scheduler says so, and closes the spider
            is_wanted = False
        if not is_wanted:
            raise NotConfigured
        super().__init__(crawler)
        self._lock = DeferredLock()  # one file at a time, or the event loop would wait for all of them

    def process_request(self, request: Request) -> None:
        if SITEMAP in request.meta:
            least = min(self.crawler.settings.getint("DOWNLOAD_MAXSIZE") or MAX_BYTES, MAX_BYTES)
            request.meta.setdefault("download_maxsize", least)
        elif request.callback is not NO_CALLBACK and self._contacts is not None:  # robots.txt, media
            with _told_by_scheduler():
                self._contacts.meet(request)

    @property
    def _contacts(self) -> SitemapContacts | None:
        return self.crawl.sitemaps if self.crawl is not None else None

    # -- a sitemap arrives -----------------------------------------------------------------------------

    async def process_response(self, request: Request, response: Response) -> Response:
        crawl = self.crawl
        if SITEMAP not in request.meta or crawl is None:
            return response
        with _told_by_scheduler():
            return await self._arrived(crawl, request, response)

    async def _arrived(self, crawl: Crawl, request: Request, response: Response) -> Response:
        """Read a sitemap. Raises `Consumed` but for a page that is none and that a redirect led to; and
        `FrontierUnwritable`."""
        task = SitemapTask.from_meta(request.meta[SITEMAP], request.url)
        if not 200 <= response.status < 300:
            self._try_next_guess(task)
            event = Event.GONE if response.status in _GONE else Event.FAILED
            raise Consumed(Outcome(event, response.status, f"HTTP {response.status}"))
        await maybe_deferred_to_future(self._lock.acquire())
        try:
            reading = Reading(crawl, self.crawler, request, response, task)
            await reading.run()
        finally:
            self._lock.release()
        if reading.kind is Kind.UNKNOWN:
            self._try_next_guess(task)
            if request.meta.get("redirect_urls"):  # to the front page, say: that is the spider's
                del request.meta[SITEMAP]
                return response
        raise Consumed(reading.outcome())

    def process_exception(self, request: Request, exception: Exception) -> None:
        if SITEMAP in request.meta and not isinstance(exception, IgnoreRequest):
            if compat.is_closing(self.crawler) or self.crawl is None:
                return
            raise Consumed(Outcome(Event.FAILED, reason=describe(exception))) from exception

    def _try_next_guess(self, task: SitemapTask) -> None:
        following = task.next_guess()
        if following is not None and self._contacts is not None:
            self._contacts.queue([following])


class Reading:
    """One sitemap, from its first slice to its `outcome`."""

    def __init__(
        self, crawl: Crawl, crawler: Crawler, request: Request, response: Response, task: SitemapTask
    ) -> None:
        assert crawler.stats is not None
        self._crawler = crawler
        self._stats = crawler.stats
        self._frontier = frontier = crawl.frontier
        self._intake = crawl.intake
        self._response = response
        self._task = task
        self._parent = frontier.find(crawl.identities.of(request))
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
            return Outcome(Event.FETCHED, status, f"sitemap broken after {entries}: {self._problem}")
        return Outcome(Event.FETCHED, status, f"sitemap of {entries}")


@contextmanager
def _told_by_scheduler() -> Iterator[None]:
    """Ignore the request where the frontier cannot be written: the scheduler meets it too, says so and closes
    the spider."""
    try:
        yield
    except FrontierUnwritable as error:
        raise IgnoreRequest(str(error)) from error
