"""Puts the parts of a crawl together: each is made once, with what it needs.

Middlewares and extensions, which Scrapy makes, are a `Component`, and find the crawl by `crawl_of` when the
spider is opened.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary, finalize

from scrapy import Spider, signals
from scrapy.exceptions import NotConfigured

from ..core.errors import FrontierError
from ..core.frontier import Frontier, FrontierOptions
from ..core.hosts.host import FOREVER
from ..settings import FrontierSetting, FrontierSettings, default_politeness, slot_politeness, time_of
from . import directory as jobdirs
from . import scrapy_internals
from .callback_requests import CallbackOutput, RequestPath
from .choose_scorer import make_scorer
from .clock import steady_clock
from .codec import Codec
from .directory import SYNC_INTERVAL, Upkeep, open_store
from .dupefilters import DupeFilter
from .enqueue import RequestEnqueuer
from .fingerprints import Identities
from .in_flight import ActiveRequests, FollowUps
from .log import CrawlLog
from .politeness_key import registered_domain
from .queued import QueuedRequests
from .revisits import VisitReporter
from .timers import CommitTimer, EngineTimer, Recovery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from ..shared.outbox import Outbox
    from .bulk_follow import Follow
    from .log import Reporter
    from .outlinks import Outlinks
    from .robots import Gate
    from .shared import SharedCrawl
    from .sitemaps import Sitemaps

# Parts that need a component are made only if it is enabled.
SPIDER_MIDDLEWARE = "FrontierSpiderMiddleware"
ROBOTS = "FrontierRobotsTxtMiddleware"
SITEMAPS = "SitemapsMiddleware"

LEASE_TIMEOUT = 3600.0  # seconds after which a page that was handed out is taken back; a set clock may jump
closing = object()  # a signal of ours: the frontier is about to be closed

_crawls: WeakKeyDictionary[Crawler, Crawl] = WeakKeyDictionary()


def crawl_of(crawler: Crawler) -> Crawl | None:
    """The parts of the crawl of *crawler*; None while its frontier is not open."""
    return _crawls.get(crawler)


class Component:
    """Base class of our middlewares and extensions.

    ``crawl`` is there from `spider_opened` until the frontier is closed, unless it could not be opened;
    ``active_requests`` are its requests under way, none without it.
    """

    crawl: Crawl | None = None
    active_requests: ActiveRequests = ActiveRequests()

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.settings = FrontierSettings.of_component(crawler.settings)
        if not self.is_wanted():
            raise NotConfigured
        crawler.signals.connect(self._find_crawl, signals.spider_opened)
        crawler.signals.connect(self._let_go_of_crawl, closing)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Makes the component. Raises `NotConfigured` if the settings do not ask for it."""
        return cls(crawler)

    def is_wanted(self) -> bool:
        """Whether the settings ask for this component."""
        return True

    @contextmanager
    def left_to_scheduler(self) -> Iterator[None]:
        """Suppresses a `FrontierError`: the scheduler, which is woken, meets the same error, logs it and
        closes the spider."""
        try:
            yield
        except FrontierError:
            scrapy_internals.wake(self.crawler)

    def _find_crawl(self) -> None:
        self.crawl = crawl_of(self.crawler)
        if self.crawl is not None:
            self.active_requests = self.crawl.active_requests

    def _let_go_of_crawl(self) -> None:
        self.crawl, self.active_requests = None, Component.active_requests


class Crawl:
    """The parts of a crawl, made from construction until `close`; a part that is not wanted is None.

    Errors in timers go to *failed*. Raises `FrontierError` if the frontier cannot be opened.
    """

    def __init__(
        self, crawler: Crawler, spider: Spider, reporter: Reporter, failed: Callable[[Exception], None]
    ) -> None:
        self.crawler = crawler
        self.spider = spider
        self.reporter = reporter
        self.is_paused = False  # by the operator: nothing is handed out
        settings = self.settings = FrontierSettings(crawler.settings)
        self.clock = settings.clock or steady_clock()
        time_of(self.clock)
        self.identities = Identities(crawler.request_fingerprinter)
        self.keeps_links = settings.links != "none" and scrapy_internals.has_middleware(
            crawler, SPIDER_MIDDLEWARE
        )
        directory = _directory(crawler, settings, spider)
        self.is_temporary = directory is None
        with ExitStack() as undo:
            if directory is None:
                directory = tempfile.mkdtemp(prefix="frontier-")
                # At the latest when the interpreter ends: after a second Ctrl-C nothing is closed.
                undo.callback(finalize(self, _remove, directory, os.getpid()))
            self.frontier = self._open_frontier(directory, spider, undo)
            self._make_parts(spider, failed)
            self._let_go = undo.pop_all().close
        _crawls[crawler] = self

    def _open_frontier(self, directory: str, spider: Spider, undo: ExitStack) -> Frontier:
        """Opens the frontier in *directory*, or the shards of a shared crawl there; *undo* closes it."""
        self._dupefilter = DupeFilter(self.crawler, self.reporter)
        registered_domain("www.example.com")  # reads its list now: later that would hold up the event loop
        self.shared: SharedCrawl | None = None
        if self.settings.shared is not None and not self.is_temporary:
            return self._join_shared_crawl(directory, spider, undo)
        store = self.store = open_store(directory, self.identities.scheme)
        undo.callback(store.close)
        frontier = Frontier(store, self.clock(), self._options(spider))
        undo.callback(frontier.close)
        undo.callback(Upkeep(store, 0.0 if self.is_temporary else SYNC_INTERVAL).stop)
        return frontier

    def _join_shared_crawl(self, directory: str, spider: Spider, undo: ExitStack) -> Frontier:
        from .shared import SharedCrawl  # loads psycopg

        shards = self.settings.shards

        def open_frontier(outbox: Outbox) -> Frontier:
            options = self._options(spider)
            if self.settings.scorer == "mixed" and options.scorer is not None:
                from ..shared.scorer import ShardScorer  # loads NumPy and SciPy

                options = replace(options, scorer=ShardScorer())
            options = replace(
                options,
                before_commit=outbox.add_to,
                on_commit=outbox.was_written,
                part=shards,
                was_of_another=outbox.was_of_another,
                max_uncommitted_pages=max(self.crawler.settings.getint("CONCURRENT_REQUESTS") // shards, 1),
            )
            return Frontier(outbox.store, self.clock(), options)

        self._options(spider)  # tells of wrong settings, and loads numpy, before the event loop runs
        scheme, home = self.identities.scheme, Path(directory)
        self.shared = SharedCrawl(self.crawler, self.settings, home, scheme, self.clock, open_frontier)
        undo.callback(self.shared.close)
        return cast("Frontier", self.shared.shards)  # it has all the verbs that a crawl calls

    def _options(self, spider: Spider) -> FrontierOptions:
        crawler, settings = self.crawler, self.settings
        politeness = default_politeness(crawler.settings, spider)
        return FrontierOptions(
            default_politeness=politeness,
            politeness=slot_politeness(crawler.settings, politeness),
            max_attempts=settings.max_attempts,
            lease_timeout=LEASE_TIMEOUT if settings.clock is None else FOREVER,
            cooldown=settings.cooldown,
            rates=settings.domain_rates,
            rng=Random(),  # noqa: S311 - draws pauses, guards nothing
            scorer=make_scorer(settings.scorer, crawler, self.keeps_links),
            traps=settings.traps,
            host_pages=settings.host_pages,
            domain_of=registered_domain,
            give_up_rule=settings.give_up_rule if self.is_temporary else None,
            revisits=settings.revisits,
            max_uncommitted_pages=sys.maxsize
            if self.is_temporary
            else crawler.settings.getint("CONCURRENT_REQUESTS"),
        )

    def _make_parts(self, spider: Spider, failed: Callable[[Exception], None]) -> None:
        crawler, settings, frontier, clock = self.crawler, self.settings, self.frontier, self.clock
        identities, reporter, self.active_requests = self.identities, self.reporter, ActiveRequests()
        requests = self.requests = QueuedRequests(
            Codec(spider), identities, reporter, self.is_temporary, scrapy_internals.is_inspecting(crawler)
        )
        self.follow_ups = follow_ups = FollowUps(crawler, self.active_requests, requests)
        self.enqueuer = RequestEnqueuer(settings, frontier, clock, requests, self._dupefilter, follow_ups)
        self.politeness_keys = self.enqueuer.politeness_keys
        self.df = self._dupefilter.for_spiders
        self._make_parts_for_links()
        self._make_parts_for_sites()
        self.revisits = VisitReporter(crawler, frontier, reporter)
        self.engine_timer = EngineTimer(crawler)
        self.commit_timer = CommitTimer(frontier, failed)
        self.recovery = Recovery(crawler, frontier, clock, lambda: not self.active_requests, failed)
        self.output = CallbackOutput(self.path, reporter, self.commit_timer.start)
        self.log = CrawlLog(frontier, clock, reporter, self.is_temporary)

    def _make_parts_for_links(self) -> None:
        """Makes what collects and follows the links of pages."""
        crawler, settings = self.crawler, self.settings
        self.path = RequestPath(crawler, SPIDER_MIDDLEWARE)
        self.links: Outlinks | None = None
        if self.keeps_links:
            from .outlinks import Outlinks

            self.links = Outlinks(settings, self.frontier, self.enqueuer, self.active_requests, self.reporter)
        self.follow: Follow | None = None
        if scrapy_internals.has_middleware(crawler, SPIDER_MIDDLEWARE):
            from .bulk_follow import Follow

            self.follow = Follow(
                self.path, settings, self.requests, self._dupefilter, self.enqueuer, self.links
            )

    def _make_parts_for_sites(self) -> None:
        """Makes what fetches sitemaps and robots.txt."""
        crawler, settings, frontier, clock = self.crawler, self.settings, self.frontier, self.clock
        self.sitemaps: Sitemaps | None = None
        if scrapy_internals.has_middleware(crawler, SITEMAPS):
            from .sitemaps import Sitemaps

            self.sitemaps = Sitemaps(settings, crawler, frontier, clock, self.enqueuer)
        self.gate: Gate | None = None
        if scrapy_internals.has_middleware(crawler, ROBOTS):
            from .robots import Gate

            self.gate = Gate(crawler, settings, clock, frontier, self.politeness_keys, self.reporter)
            if self.sitemaps is not None:
                self.gate.sites.listed = self.sitemaps.named_by_robots

    def check_sending(self, request: Request) -> None:
        """Raises what *request* ends with if it may not be sent now, see `SharedCrawl.check_sending`."""
        if self.shared is not None:
            self.shared.check_sending(request, self.active_requests)

    def close(self, reason: str) -> None:
        """Closes the frontier, and removes a temporary one. To be called once. Raises `FrontierError` if that
        fails; all is let go of even then."""
        self.crawler.signals.send_catch_log(closing)
        for timer in (self.engine_timer, self.commit_timer, self.recovery):
            timer.cancel()
        if self.gate is not None:
            self.gate.close()
        _crawls.pop(self.crawler, None)
        try:
            self._let_go()
        finally:
            self._dupefilter.close(reason)


def _remove(directory: str, process: int) -> None:
    if os.getpid() == process:  # not in a worker that was forked meanwhile
        shutil.rmtree(directory, ignore_errors=True)


def _directory(crawler: Crawler, settings: FrontierSettings, spider: Spider) -> str | None:
    """The directory of the frontier; None for a temporary one."""
    if scrapy_internals.is_inspecting(crawler):
        return None
    if settings.directory is None and settings.jobdir is not None:
        return str(jobdirs.home(Path(settings.jobdir), spider.name))
    if settings.directory is None and settings.shared is not None:
        raise FrontierSetting("FRONTIER_SHARED needs a directory for this machine's part: set FRONTIER_DIR")
    return settings.directory
