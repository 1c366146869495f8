"""First contact with a site: which of its sitemaps are queued, and when they are read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.utils.httpobj import urlparse_cached

from ..core.hosts import sitemap_sites
from ..core.hosts.sitemap_sites import SitemapTask
from ..core.parse.urls import absolute, host_of, origin
from .enqueue import Listed
from .meta_keys import SITEMAP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy.crawler import Crawler

    from ..core.frontier import Frontier
    from ..core.hosts.sitemap_sites import Contact
    from .enqueue import Intake
    from .identity import Identities

MET = 20_000  # sites remembered as contacted; any other costs one lookup


class SitemapContacts:
    """Queues the sitemaps of the sites that a crawl meets."""

    def __init__(
        self,
        crawler: Crawler,
        frontier: Frontier,
        clock: Callable[[], float],
        identities: Identities,
        intake: Intake,
    ) -> None:
        self._crawler = crawler
        self._frontier = frontier
        self._clock = clock
        self._identities = identities
        self._intake = intake
        self._met: set[tuple[str, str]] = set()

    def meet(self, request: Request) -> None:
        """A page of a site is about to be fetched."""
        parts = urlparse_cached(request)
        site = parts.scheme, parts.netloc
        if site in self._met:
            return
        authority = origin(request.url)
        if authority is not None:
            listing = self._frontier.listing(authority)
            if not listing.is_contacted:
                self._follow(authority, sitemap_sites.contact(listing, authority))
        if len(self._met) >= MET:
            self._met.clear()
        self._met.add(site)

    def heard(self, authority: str, urls: tuple[str, ...]) -> None:
        """The robots.txt of *authority* (`urls.origin`) came into memory, and names sitemaps, maybe none.

        To be called before the page that asked for it goes on. One lookup.
        """
        listing = self._frontier.listing(authority)
        found = sitemap_sites.heard(listing, urls)
        if found.listing != listing:
            self._follow(authority, found)

    def queue(self, wanted: Iterable[tuple[str, SitemapTask]]) -> None:
        scope = Scope(self._crawler)
        files = (
            Listed(url, {SITEMAP: task.to_meta()}, sitemap_sites.FILE_BUCKET)
            for url, task in wanted
            if absolute(url) is not None and scope.holds(url)  # a row may hold anything
        )
        self._intake.enqueue_listed(files, None)
        scope.report()

    def _follow(self, authority: str, found: Contact) -> None:
        task = SitemapTask(authority, guess=0 if found.is_guess else None)
        self.queue((url, task) for url in found.queue)
        for url in found.read_again:
            self._read_again(url)
        self._frontier.note_listing(authority, found.listing)  # last: known sitemaps are not queued twice

    def _read_again(self, url: str) -> None:
        frontier = self._frontier
        page_id = frontier.find(self._identities.of(Request(url)))
        page = frontier.page(page_id) if page_id is not None else None
        if page_id is not None and page is not None and SITEMAP.encode() in page.payload:
            frontier.requeue(page_id, self._clock(), page.payload, page.priority)


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
