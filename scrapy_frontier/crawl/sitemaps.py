"""Queues the sitemaps of a site on first contact, reads them, and queues their entries in batches, each
durable before the sitemap itself is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import DeferredLock

from ..core import reasons
from ..core.errors import decode_or_none
from ..core.frontier import Event, Frontier, Link, Outcome, PageId
from ..core.hosts import sites
from ..core.hosts.sites import MAX_LEVELS, MAX_SITEMAPS, SitemapScope, is_hint_of_change
from ..core.parse.sitemaps import Kind, read
from ..core.parse.urls import absolute, escaped_fragment, host_of, is_private_url, origin_of
from ..core.store.keys import State
from ..core.store.records import NO_FACTS, RequestFacts
from . import revisits, scrapy_internals
from .callback_requests import Offsite
from .codec import meta_in, meta_payload
from .enqueue import Listed, RequestEnqueuer
from .in_flight import ActiveRequest, HandledResponse, ended_with, fetched_of
from .link_extractor import digest_of
from .meta_keys import PATTERN, SITEMAP
from .meta_values import pattern_and_force_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from ..core.parse.sitemaps import Entry
    from ..settings import FrontierSettings

CONTACTED = 20_000  # sites remembered as contacted; any other costs one lookup
_LONGEST_WAY = 30  # pages by which a sitemap was found: indexes and redirects
ENTRIES_AT_A_TIME = 100  # entries queued before the event loop gets its turn: 3 ms
FILES_AT_A_TIME = 25  # sitemaps of a site, on first contact; many sites may be met in one turn


@dataclass(eq=False, repr=False)
class Sitemaps:
    """Queues the sitemaps of the sites that a crawl meets, and their entries; reads one file at a time."""

    settings: FrontierSettings
    crawler: Crawler
    frontier: Frontier
    _clock: Callable[[], float]
    enqueuer: RequestEnqueuer
    _contacted: set[tuple[str, str]] = field(default_factory=set, init=False)
    _lock: DeferredLock = field(default_factory=DeferredLock, init=False)

    async def contact(self, request: Request, active: ActiveRequest | None) -> None:
        """Queue the sitemaps of a site, or the first guess, before its first page is fetched; they use the
        proxy of that page. One lookup for a site not met lately."""
        parts = urlparse_cached(request)
        site = parts.scheme, parts.netloc
        if site in self._contacted:
            return
        if len(self._contacted) >= CONTACTED:
            self._contacted.clear()
        self._contacted.add(site)
        origin = origin_of(request.url)
        sitemaps = None if origin is None else self.frontier.sitemaps_of(origin)
        if origin is None or sitemaps is None or sitemaps.is_contacted:
            return
        queue, sitemaps = sites.contact(sitemaps, origin)
        for first in range(0, len(queue), FILES_AT_A_TIME):
            if first:
                await scrapy_internals.sleep(0)
            self._queue(origin, queue[first : first + FILES_AT_A_TIME], _proxy_of(active))
        self.frontier.keep_sitemaps(origin, sitemaps)  # last: known sitemaps are not queued twice

    def named_by_robots(self, origin: str, urls: tuple[str, ...]) -> None:
        """Note the sitemaps, maybe none, that the robots.txt of *origin* (`urls.origin_of`) names, before the
        page that waits for it goes on. One lookup."""
        sitemaps = self.frontier.sitemaps_of(origin)
        found = sites.named_by_robots(sitemaps, urls)
        if found.sitemaps != sitemaps:
            self._queue(origin, found.queue, {})
            self.frontier.keep_sitemaps(origin, found.sitemaps)

    def offsite(self) -> Offsite:
        """Return Scrapy's offsite check: it would drop the requests at the download."""
        middleware = self.crawler.get_downloader_middleware(OffsiteMiddleware)
        return Offsite(self.crawler.spider, [] if middleware is None else [middleware.request_scheduled])

    def _queue(self, origin: str, urls: tuple[str, ...], meta: dict[str, Any]) -> None:
        """Queue the sitemaps of *origin* with this *meta*, without those that are offsite, known, or no
        URL."""
        offsite = self.offsite()
        files = (
            _file(url, origin, meta)
            for url in urls
            if absolute(url) is not None and offsite.passes(url)  # a row may hold anything
        )
        self.enqueuer.enqueue_listed(files, None)
        offsite.count_refused(self.crawler.stats)

    async def read(self, request: Request, response: Response, active: ActiveRequest | None) -> Response:
        """Read a sitemap unless it is unchanged, and raise `HandledResponse`; a page behind a redirect that
        is no sitemap is returned for the spider. Raises `FrontierUnwritable`."""
        proxy = _proxy_of(active)
        if not 200 <= response.status < 300:
            raise HandledResponse(ended_with(response.status))
        if active is not None and self.settings.comes_back:
            active.digest = digest_of(response.body)
            fetched = fetched_of(response)
            if fetched is not None:
                revisits.end_unchanged(active, response.status, fetched, notes=None)
        await maybe_deferred_to_future(self._lock.acquire())
        try:
            reading = SitemapReading(self, request, response, proxy)
            await reading.run()
        finally:
            self._lock.release()
        if reading.kind is Kind.UNKNOWN and request.meta.get("redirect_urls"):
            del request.meta[SITEMAP]
            if active is not None:
                active.page_request = meta_payload(proxy), NO_FACTS
            return response
        raise HandledResponse(reading.outcome())

    def take(self, parent: PageId | None, wanted: Iterable[Listed]) -> tuple[int, int]:
        """Queue entries of the sitemap *parent*; returns how many are new, and how many known pages are due
        by their ``lastmod``."""
        known: list[tuple[PageId, Link]] = []
        new = self.enqueuer.enqueue_listed(wanted, parent, known)
        return new, self._apply_lastmods(known) if self.settings.comes_back else 0

    def _apply_lastmods(self, known: Iterable[tuple[PageId, Link]]) -> int:
        """Keep each ``lastmod`` in one batch; returns how many pages are due for that. 10 us a page, 50 for
        one that is new.

        A page whose ``lastmod`` differs from the one kept is due at once, as long as the site is believed
        (`change_rates.HintAccuracy`): many generators write the current time everywhere.
        """
        frontier, now, due = self.frontier, self._clock(), 0
        for page_id, link in known:
            lastmod = link.lastmod
            page = None if lastmod is None else decode_or_none(frontier.page, page_id)
            if page is None or lastmod is None or page.lastmod == lastmod:
                continue
            frontier.note_lastmod(page_id, lastmod)
            if is_hint_of_change(page.lastmod, lastmod, None if page.visits is None else page.visits.last):
                due += frontier.make_due(page_id, now)
        frontier.commit()
        return due


@dataclass(eq=False, repr=False)
class SitemapReading:
    """One sitemap, from its first slice to its `outcome`. Its entries use the same *proxy*."""

    _sitemaps: Sitemaps
    _request: Request
    _response: Response
    _proxy: dict[str, str]

    def __post_init__(self) -> None:
        request, frontier = self._request, self._sitemaps.frontier
        names = (self._response.url, *request.meta.get("redirect_urls", ()))
        site = request.meta[SITEMAP]  # True: its own
        self._speaks_for = origin_of(site if isinstance(site, str) else request.url) or ""
        self._judge = SitemapScope(names, self._speaks_for, lambda of: frontier.sitemaps_of(of).listed)
        self._pattern_and_force = given = pattern_and_force_of(request)
        self._inherited = self._proxy if given is None else given.inherited | self._proxy
        self._offsite = self._sitemaps.offsite()
        self._page_id = self._sitemaps.enqueuer.find(request)
        self._level = self._find_level()
        self._entries = 0
        self._taken = 0  # sitemaps of an index
        self._problem = ""
        self.kind = Kind.UNKNOWN

    async def run(self) -> None:
        """Queue the entries of the file, giving way to the event loop between batches; to be awaited once.
        Raises `FrontierUnwritable`."""
        for piece in read(self._response.body, self._response.url):
            self.kind = piece.kind
            self._problem = piece.problem
            await scrapy_internals.sleep(0)
            entries = iter(piece.entries)
            while handful := list(islice(entries, ENTRIES_AT_A_TIME)):
                self._take(handful)
                await scrapy_internals.sleep(0)
            if piece.kind is Kind.INDEX and (limit := self._limit_reached()):
                self._problem = limit
                break
        self._report()

    def _take(self, handful: list[Entry]) -> None:
        self._entries += len(handful)
        if self._sitemaps.settings.ajax:
            handful = [entry._replace(url=escaped_fragment(entry.url) or entry.url) for entry in handful]
        good = [
            entry for entry in handful if self._judge.accepts(entry.url) and self._offsite.passes(entry.url)
        ]
        if self._pattern_and_force is not None and self.kind is not Kind.INDEX:
            good = [entry for entry in good if self._pattern_and_force.admits(entry.url)]
        wanted = self._files(good) if self.kind is Kind.INDEX else self._pages(good)
        new, due = self._sitemaps.take(self._page_id, wanted)
        for name, number in (("due", due), ("new", new)):
            if number:
                self._sitemaps.crawler.stats.inc_value(f"frontier/sitemaps/{name}", number)
                scrapy_internals.wake(self._sitemaps.crawler)

    def _pages(self, entries: list[Entry]) -> Iterator[Listed]:
        for entry in entries:
            facts = RequestFacts(has_pattern=True) if PATTERN in self._inherited else NO_FACTS
            yield Listed(entry.url, self._inherited, facts, lastmod=entry.lastmod)

    def _files(self, entries: list[Entry]) -> Iterator[Listed]:
        for entry in entries[: MAX_SITEMAPS - self._taken] if self._level < MAX_LEVELS else ():
            self._taken += 1
            yield _file(entry.url, self._speaks_for, self._inherited)._replace(lastmod=entry.lastmod)

    def _limit_reached(self) -> str:
        """Return why this index is read no further; empty: it is."""
        if self._level >= MAX_LEVELS:
            return f"nested more than {MAX_LEVELS} levels deep"
        return f"more than {MAX_SITEMAPS} sitemaps" if self._taken >= MAX_SITEMAPS else ""

    def _find_level(self) -> int:
        """Return 1 for a sitemap that no index listed, and one more for each index above it."""
        level, page_id = 0, self._page_id
        for _ in range(_LONGEST_WAY):
            page = None if page_id is None else decode_or_none(self._sitemaps.frontier.page, page_id)
            if page is None or not page.facts.is_sitemap:
                break
            level += page.state is not State.REDIRECTED
            page_id = page.parent
        return level

    def _report(self) -> None:
        stats = self._sitemaps.crawler.stats
        stats.inc_value("frontier/sitemaps/files", int(self.kind is not Kind.UNKNOWN))
        stats.inc_value("frontier/sitemaps/entries", self._entries)
        stats.inc_value("frontier/sitemaps/foreign", self._judge.foreign)
        if self._problem and self.kind is not Kind.UNKNOWN:
            stats.inc_value("frontier/sitemaps/broken")
        self._offsite.count_refused(stats)

    def outcome(self) -> Outcome:
        """Return how the sitemap's own page ends, after `run`: as fetched, with its entries and its
        problem."""
        status, number = self._response.status, self._entries
        entries = f"{number} entr{'y' if number == 1 else 'ies'}"
        reason = reasons.SITEMAP(entries=entries)
        if self._problem:
            reason = reasons.BROKEN_SITEMAP(entries=entries, problem=self._problem)
        return Outcome(Event.FETCHED, status, reason, fetched=fetched_of(self._response))


def _proxy_of(active: ActiveRequest | None) -> dict[str, str]:
    """Return the meta that gives a request the proxy that a page was yielded with; a middleware chooses its
    own again."""
    proxy = None if active is None else meta_in(active.lease.page.payload).get("proxy")
    return {"proxy": proxy} if isinstance(proxy, str) else {}


def _file(url: str, speaks_for: str, meta: dict[str, Any]) -> Listed:
    """Return the sitemap at *url*, which lists pages of the site that it *speaks_for*."""
    is_foreign = host_of(url) != host_of(speaks_for) and not is_private_url(speaks_for)
    facts = RequestFacts(is_sitemap=True, has_pattern=PATTERN in meta, from_public=is_foreign)
    return Listed(url, {SITEMAP: speaks_for, **meta}, facts, sites.FILE_BUCKET)
