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

from scrapy import Request, signals
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import DeferredLock

from ..core.errors import FrontierUnwritable
from ..core.hosts import sitemap_sites
from ..core.hosts.sitemap_sites import Contact, SitemapScope, SitemapTask
from ..core.pages.leases import Outcome
from ..core.pages.lifecycle import Event
from ..core.parse.sitemaps import MAX_BYTES, Kind, Slice, read
from ..core.parse.urls import absolute, host_of, origin
from ..crawl import compat
from ..crawl.enqueue import Listed
from ..crawl.in_flight import Consumed, describe
from ..crawl.meta_keys import LASTMOD, SITEMAP
from ..crawl.runtime import runtime_of
from ..settings import FrontierSetting, FrontierSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

    from ..core.parse.sitemap_entries import Entry
    from ..crawl.enqueue import Intake
    from ..crawl.runtime import Runtime

logger = logging.getLogger(__name__)

AT_A_TIME = 100  # entries queued before the event loop gets its turn: 3 ms
MET = 20_000  # sites remembered as contacted; any other costs one lookup
_GONE = (404, 410)


class SitemapsMiddleware:
    """Enabled by ``FRONTIER_SITEMAPS``; does nothing with another scheduler."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self._met: set[tuple[str, str]] = set()
        self._lock = DeferredLock()  # one file at a time, or the event loop would wait for all of them

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        try:
            is_wanted = FrontierSettings.from_settings(crawler.settings).sitemaps
        except FrontierSetting:  # the scheduler says so, and closes the spider
            is_wanted = False
        if not is_wanted:
            raise NotConfigured
        middleware = cls(crawler)
        crawler.signals.connect(middleware.spider_opened, signals.spider_opened)
        return middleware

    def spider_opened(self, spider: Spider) -> None:
        if (runtime := runtime_of(self.crawler)) is not None:
            runtime.on_sitemaps_listed = self._listed

    # -- first contact ---------------------------------------------------------------------------------

    def process_request(self, request: Request) -> None:
        if SITEMAP in request.meta:
            least = min(self.crawler.settings.getint("DOWNLOAD_MAXSIZE") or MAX_BYTES, MAX_BYTES)
            request.meta.setdefault("download_maxsize", least)
        elif request.callback is not NO_CALLBACK:  # robots.txt, media
            parts = urlparse_cached(request)
            site = parts.scheme, parts.netloc
            if site not in self._met:
                with _told_by_scheduler():
                    self._contact(request.url)
                if len(self._met) >= MET:
                    self._met.clear()
                self._met.add(site)

    def _contact(self, url: str) -> None:
        runtime, authority = runtime_of(self.crawler), origin(url)
        if runtime is not None and authority is not None:
            listing = runtime.frontier.listing(authority)
            if not listing.is_contacted:
                self._follow(runtime, authority, sitemap_sites.contact(listing, authority))

    def _listed(self, authority: str, urls: tuple[str, ...]) -> None:
        """The robots.txt of *authority* came into memory."""
        runtime = runtime_of(self.crawler)
        if runtime is not None:
            listing = runtime.frontier.listing(authority)
            found = sitemap_sites.heard(listing, urls)
            if found.listing != listing:
                self._follow(runtime, authority, found)

    def _follow(self, runtime: Runtime, authority: str, found: Contact) -> None:
        task = SitemapTask(authority, guess=0 if found.is_guess else None)
        self._queue_sitemaps(runtime, ((url, task) for url in found.queue), None)
        for url in found.read_again:
            self._read_again(runtime, url)
        runtime.frontier.note_listing(authority, found.listing)  # last: known sitemaps are not queued twice

    def _queue_sitemaps(
        self, runtime: Runtime, wanted: Iterable[tuple[str, SitemapTask]], parent: int | None
    ) -> None:
        scope = Scope(self.crawler)
        files = (
            Listed(url, {SITEMAP: task.to_meta()}, sitemap_sites.FILE_BUCKET)
            for url, task in wanted
            if absolute(url) is not None and scope.holds(url)  # a row may hold anything
        )
        _intake(runtime).enqueue_listed(files, parent)
        scope.report()

    def _read_again(self, runtime: Runtime, url: str) -> None:
        frontier = runtime.frontier
        page_id = frontier.find(runtime.fingerprint(Request(url)))
        page = frontier.page(page_id) if page_id is not None else None
        if page_id is not None and page is not None and SITEMAP.encode() in page.payload:
            frontier.requeue(page_id, runtime.clock(), page.payload, page.priority)

    # -- a sitemap arrives -----------------------------------------------------------------------------

    async def process_response(self, request: Request, response: Response) -> Response:
        runtime = runtime_of(self.crawler)
        if SITEMAP not in request.meta or runtime is None:
            return response
        with _told_by_scheduler():
            return await self._arrived(runtime, request, response)

    async def _arrived(self, runtime: Runtime, request: Request, response: Response) -> Response:
        """Read a sitemap. Raises `Consumed` but for a page that is none and that a redirect led to; and
        `FrontierUnwritable`."""
        task = SitemapTask.from_meta(request.meta[SITEMAP], request.url)
        if not 200 <= response.status < 300:
            self._try_next_guess(runtime, task)
            event = Event.GONE if response.status in _GONE else Event.FAILED
            raise Consumed(Outcome(event, response.status, f"HTTP {response.status}"))
        await maybe_deferred_to_future(self._lock.acquire())
        try:
            reading = Reading(self.crawler, runtime, request, response, task)
            await reading.run()
        finally:
            self._lock.release()
        if reading.kind is Kind.UNKNOWN:
            self._try_next_guess(runtime, task)
            if request.meta.get("redirect_urls"):  # to the front page, say: that is the spider's
                del request.meta[SITEMAP]
                return response
        raise Consumed(reading.outcome())

    def process_exception(self, request: Request, exception: Exception) -> None:
        if SITEMAP in request.meta and not isinstance(exception, IgnoreRequest):
            if compat.is_closing(self.crawler) or runtime_of(self.crawler) is None:
                return
            raise Consumed(Outcome(Event.FAILED, reason=describe(exception))) from exception

    def _try_next_guess(self, runtime: Runtime, task: SitemapTask) -> None:
        following = task.next_guess()
        if following is not None:
            self._queue_sitemaps(runtime, [following], None)


class Reading:
    """One sitemap, from its first slice to its `outcome`."""

    def __init__(
        self, crawler: Crawler, runtime: Runtime, request: Request, response: Response, task: SitemapTask
    ) -> None:
        assert crawler.stats is not None
        self._crawler = crawler
        self._stats = crawler.stats
        self._runtime = runtime
        self._response = response
        self._task = task
        self._parent = runtime.frontier.find(runtime.fingerprint(request))
        names = (response.url, *request.meta.get("redirect_urls", ()))
        frontier = runtime.frontier
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
        new = _intake(self._runtime).enqueue_listed(wanted, self._parent)
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
        frontier = self._runtime.frontier
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


class Scope:
    """What Scrapy's offsite middleware lets pass, asked once a host.

    It would drop the rest at the download; a sitemap of another domain's pages need not be queued for that.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._offsite = crawler.get_downloader_middleware(OffsiteMiddleware)
        self._verdicts: dict[str, bool] = {}
        self._dropped = 0

    def holds(self, url: str) -> bool:
        if self._offsite is None:
            return True
        host = host_of(url)
        verdict = self._verdicts.get(host)
        if verdict is None:
            assert self._crawler.spider is not None
            verdict = bool(self._offsite.should_follow(Request(url), self._crawler.spider))
            if len(self._verdicts) < sitemap_sites.MAX_CHILDREN:
                self._verdicts[host] = verdict
        self._dropped += not verdict
        return verdict

    def report(self) -> None:
        if self._dropped and self._crawler.stats is not None:
            self._crawler.stats.inc_value("offsite/filtered", self._dropped)


@contextmanager
def _told_by_scheduler() -> Iterator[None]:
    """Ignore the request where the frontier cannot be written: the scheduler meets it too, says so and closes
    the spider."""
    try:
        yield
    except FrontierUnwritable as error:
        raise IgnoreRequest(str(error)) from error


def _intake(runtime: Runtime) -> Intake:
    assert runtime.intake is not None
    return runtime.intake
