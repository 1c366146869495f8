"""A crawl is put together here: every part is made once, with what it needs, and nothing is filled in later.

What Scrapy itself makes (middlewares, extensions) is a `Component`, and finds the crawl by `crawl_of` when
the spider is opened.

What earlier runs left comes into memory beside the crawl, in slices of the event loop's time.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, finalize

from scrapy import Spider, signals
from scrapy.exceptions import NotConfigured

from ..core.errors import FrontierError
from ..core.frontier import Frontier, FrontierOptions
from ..core.hosts.turns import DomainRates
from ..settings import FrontierSettings, default_politeness, slot_politeness, time_of
from . import directory as jobdirs
from . import scrapy_internals
from .callback_requests import CallbackOutput
from .choose_scorer import make_scorer
from .clock import Standstill, boot_time, never_back, steady_clock
from .directory import OwnFiles, Upkeep, filter_directory, open_store
from .dupefilters import DupeFilter
from .engine_watch import Alarm, Watch
from .enqueue import Intake, Refusals, RefusedFollowUps, Seeds, WantedAgain
from .fingerprints import Identities
from .in_flight import Flights, FollowUps
from .log import CrawlLog
from .politeness_key import PolitenessKeys, read_suffixes, registered_domain
from .queued import QueuedRequests
from .revisits import Revisits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from .bulk_follow import Follow
    from .log import Reporter
    from .outlinks import Outlinks
    from .robots_fetch import Gate
    from .sitemaps import Sitemaps

LOADING_AT_ONCE = 5  # hosts, 0.1 to 0.4 ms
LOADING_FIRST = 0.005  # seconds the first requests may wait
LOADING_SLICE = 0.001  # seconds the loop is held up at a time; a slice may take one step longer
LOADING_BREATH = 0.002  # seconds between two slices, for all else the loop has to do
LOADING_AFTER_FAILURE = 1.0  # seconds


@dataclass(eq=False, repr=False)
class Loading:
    """Loads *frontier*; *failed* is called with what goes wrong. While nothing is under way nobody else needs
    the loop. It ``is_by_hand`` while something is left and the engine is a stand-in, which need not have a
    loop: then whoever asks for a request calls `step`."""

    _crawler: Crawler
    _frontier: Frontier
    _clock: Callable[[], float]
    _flights: Flights
    _failed: Callable[[Exception], None]
    _timer: Any = field(default=None, init=False)
    is_by_hand = False

    def begin(self) -> None:
        """Load for `LOADING_FIRST` seconds, and go on beside the crawl if that was not all. Raises
        `FrontierError`."""
        if self._load(LOADING_FIRST):
            return
        if scrapy_internals.in_progress(self._crawler) is None:
            self.is_by_hand = True
        else:
            self._timer = scrapy_internals.call_later(0, self._slice)

    def step(self) -> None:
        """Load for `LOADING_SLICE` seconds more, where it ``is_by_hand``, which is false once all is loaded.
        Raises `FrontierError`."""
        self.is_by_hand = not self._load(LOADING_SLICE)

    def stop(self) -> None:
        """Load no more; to be called before the frontier is closed."""
        if self._timer is not None:
            self._timer.cancel()

    def _load(self, seconds: float) -> bool:
        begin = time.perf_counter()
        while not self._frontier.load(self._clock(), LOADING_AT_ONCE):
            if time.perf_counter() - begin >= seconds:
                return False
        return True

    def _slice(self) -> None:
        try:
            if not self._load(LOADING_SLICE):
                self._timer = scrapy_internals.call_later(
                    LOADING_BREATH if len(self._flights) else 0, self._slice
                )
        except Exception as error:
            self._timer = scrapy_internals.call_later(LOADING_AFTER_FAILURE, self._slice)
            self._failed(error)
        scrapy_internals.wake(self._crawler)


# What is not made where the component that needs it is not at work.
SPIDER_MIDDLEWARE = "FrontierSpiderMiddleware"
ROBOTS = "FrontierRobotsTxtMiddleware"
SITEMAPS = "SitemapsMiddleware"

closing = object()  # Scrapy sends it: the frontier is about to be closed, and to be let go of

_crawls: WeakKeyDictionary[Crawler, Crawl] = WeakKeyDictionary()


def crawl_of(crawler: Crawler) -> Crawl | None:
    """The parts of the crawl of *crawler*; None before the frontier is open, after it is closed, and with
    another scheduler."""
    return _crawls.get(crawler)


def _close_left() -> None:
    """Close the frontiers of crawls that were left in their middle, as by Ctrl-C in a notebook: what ran them
    has ended, and they would be locked until the process ends. Their pages under way stay queued."""
    for crawl in [crawl for crawl in _crawls.values() if crawl.loop.has_ended()]:
        words = "The crawl before was left in its middle: its frontier is closed, pages under way stay queued"
        crawl.reporter.log(logging.INFO, words)
        crawl.end("shutdown")


class Component:
    """What Scrapy makes for a crawl: middlewares and extensions.

    ``crawl`` is there from when the spider is opened until the frontier is closed; None with another
    scheduler. ``flights`` are its own, none without it.
    """

    crawl: Crawl | None = None
    flights: Flights = Flights()

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.settings = FrontierSettings.of_component(crawler.settings)
        if not self.is_wanted():
            raise NotConfigured
        self.await_crawl(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """As Scrapy makes it. Raises `NotConfigured` where the settings do not ask for it."""
        return cls(crawler)

    def is_wanted(self) -> bool:
        """Whether the settings ask for it; else it is left out, in silence: that is the usual case."""
        return True

    def await_crawl(self, crawler: Crawler) -> None:
        """Have ``crawl`` and ``flights`` set when the spider is opened, and taken back when the frontier is
        closed."""
        crawler.signals.connect(self._find_crawl, signals.spider_opened)
        crawler.signals.connect(self._let_go_of_crawl, closing)

    @contextmanager
    def left_to_scheduler(self) -> Iterator[None]:
        """Ends in silence where the frontier cannot be read or written: the scheduler, which is woken, meets
        the same error, logs it and closes the spider."""
        try:
            yield
        except FrontierError:
            scrapy_internals.wake(self.crawler)

    def _find_crawl(self) -> None:
        self.crawl = crawl_of(self.crawler)
        if self.crawl is not None:
            self.flights = self.crawl.flights

    def _let_go_of_crawl(self) -> None:
        self.crawl, self.flights = None, Component.flights


class Crawl:
    """The parts of a crawl, open from construction until `close`; what is not wanted is None.

    *failed* is called with what may not be raised into the engine; ``end``, which raises nothing, with the
    reason where nobody else ends the crawl. Raises `FrontierError` where the frontier cannot be opened.
    """

    def __init__(
        self,
        crawler: Crawler,
        spider: Spider,
        reporter: Reporter,
        failed: Callable[[Exception], None],
        end: Callable[[str], None],
    ) -> None:
        _close_left()
        self._crawler = crawler
        self.loop = scrapy_internals.Loop(crawler)
        self.end = end
        self.reporter = reporter
        settings = self.settings = FrontierSettings(crawler.settings)
        clock = settings.clock
        self.clock = steady_clock() if clock is None else never_back(clock, time_of(clock))
        self.identities = Identities(crawler.request_fingerprinter)
        self.politeness_keys = PolitenessKeys(settings.politeness_key)
        self.keeps_links = settings.links != "none" and scrapy_internals.has_middleware(
            crawler, SPIDER_MIDDLEWARE
        )
        directory = _directory(crawler, settings, spider)
        self.is_temporary = directory is None
        with ExitStack() as undo:
            if directory is None:
                directory = tempfile.mkdtemp(prefix="frontier-")
                # at the latest when the interpreter ends: after a second Ctrl-C nobody closes anything
                undo.callback(finalize(self, _remove, directory, os.getpid()))
            self.frontier = self._open_frontier(directory, spider, undo)
            self._make_parts(spider, failed)
            self._let_go = undo.pop_all().close
        # A full garbage collection walks all that was imported, 80,000 objects in 40 ms, and the event loop
        # stands still: spare it what is there for good. Beside other crawls what these leave would stay, too.
        if not _crawls:
            gc.freeze()
        read_suffixes(after=1.0)
        _crawls[crawler] = self

    def _open_frontier(self, directory: str, spider: Spider, undo: ExitStack) -> Frontier:
        """The frontier in *directory*, whose files *undo* lets go of."""
        crawler, settings = self._crawler, self.settings
        store = open_store(directory, self.identities.scheme)
        undo.callback(store.close)
        self._dupefilter = DupeFilter(crawler, self.reporter, filter_directory(store.directory))
        self._own_files = OwnFiles(store.directory)
        politeness = default_politeness(crawler.settings, spider)
        rates = (settings.domain_rate, settings.domain_rate_max)
        frontier = Frontier(
            store,
            self.clock(),
            FrontierOptions(
                default_politeness=politeness,
                politeness=slot_politeness(crawler.settings, politeness),
                max_attempts=settings.max_attempts,
                lease_timeout=settings.lease_timeout,
                cooldown=settings.cooldown,
                response_delay=settings.response_delay,
                rates=DomainRates(*rates) if any(rates) else None,
                rng=Random(),  # noqa: S311 - draws pauses, guards nothing
                scorer=make_scorer(settings.scorer, crawler, self.keeps_links),
                traps=settings.traps,
                limits=settings.limits,
                domain_of=registered_domain,
                give_up_rule=settings.give_up_rule if self.is_temporary else None,
                revisits=settings.revisits,
                on_commit=self._dupefilter.written if self._dupefilter.is_own else None,
                max_uncommitted_pages=sys.maxsize
                if self.is_temporary
                else crawler.settings.getint("CONCURRENT_REQUESTS"),
            ),
        )
        undo.callback(frontier.close)
        undo.callback(Upkeep(store, 0.0 if self.is_temporary else settings.sync_interval).stop)
        return frontier

    def _make_parts(self, spider: Spider, failed: Callable[[Exception], None]) -> None:
        crawler, settings, frontier, clock = self._crawler, self.settings, self.frontier, self.clock
        identities, reporter, self.flights = self.identities, self.reporter, Flights()
        files = self._own_files
        about = spider, identities, reporter, self.is_temporary
        requests = self.requests = QueuedRequests(*about, files.schemes, files.note)
        self.may_be_called_again = requests.codec.callbacks.may_be_called_again
        refusals = Refusals(reporter)
        have_fail = partial(scrapy_internals.have_fail, crawler)
        self.follow_ups = follow_ups = FollowUps(crawler, have_fail, settings.backoff, requests, reporter)
        is_inspecting = scrapy_internals.is_inspecting(crawler)
        self.seeds = Seeds(frontier, clock, requests, follow_ups, settings.comes_back, is_inspecting)
        self.intake = Intake(
            settings,
            frontier,
            clock,
            identities,
            self.politeness_keys,
            self._dupefilter,
            requests,
            self.flights,
            follow_ups,
            self.seeds,
            WantedAgain(requests.codec.callbacks, self._dupefilter, self.seeds),
            refusals,
            reporter,
        )
        self.refused = RefusedFollowUps(frontier, clock, self.intake, follow_ups, refusals)
        self.df = self._dupefilter.for_spiders(identities, frontier, self.intake.without_session)
        timeout = crawler.settings.getfloat("DOWNLOAD_TIMEOUT")
        self.standstill = Standstill(frontier, clock, boot_time, timeout)
        self._make_parts_for_links()
        self._make_parts_for_sites()
        self.revisits = Revisits(crawler, frontier, reporter)
        self.alarm = Alarm(crawler)
        self.loading = Loading(crawler, frontier, clock, self.flights, failed)
        self.watch = self._make_watch(failed)
        self.output = CallbackOutput(crawler, self.watch.write_soon)
        self.log = CrawlLog(frontier, clock, reporter, self.is_temporary, settings.limits)

    def _make_watch(self, failed: Callable[[Exception], None]) -> Watch:
        return Watch(
            self._crawler,
            self.frontier,
            self.clock,
            self.flights,
            self.intake,
            self.requests,
            self.seeds,
            self.refused,
            self.links,
            self.revisits,
            self.alarm,
            self.reporter,
            failed,
            self.settings.replays,
            self.sitemaps is not None,
        )

    def _make_parts_for_links(self) -> None:
        """What takes down and follows the links of pages, for the middleware that is at work."""
        crawler, settings, reporter = self._crawler, self.settings, self.reporter
        self.links: Outlinks | None = None
        if self.keeps_links:
            from .outlinks import Outlinks

            self.links = Outlinks(settings, self.frontier, self.intake, self.flights, reporter)
        self.follow: Follow | None = None
        if scrapy_internals.has_middleware(crawler, SPIDER_MIDDLEWARE):
            from .bulk_follow import Follow

            self.follow = Follow(
                crawler,
                settings,
                self.requests.codec,
                self._dupefilter,
                self.flights,
                self.intake,
                self.links,
                reporter,
            )

    def _make_parts_for_sites(self) -> None:
        """What asks for sitemaps and robots.txt, for the middlewares that are at work."""
        crawler, settings, frontier, clock = self._crawler, self.settings, self.frontier, self.clock
        self.sitemaps: Sitemaps | None = None
        if scrapy_internals.has_middleware(crawler, SITEMAPS):
            from .sitemaps import Sitemaps

            self.sitemaps = Sitemaps(settings, crawler, frontier, clock, self.intake)
        self.gate: Gate | None = None
        if scrapy_internals.has_middleware(crawler, ROBOTS):
            from .robots_fetch import Gate
            from .robots_sites import RobotsServices

            listed = None if self.sitemaps is None else self.sitemaps.named_by_robots
            about = settings, clock, frontier, self.politeness_keys, self.standstill, listed
            self.gate = Gate(RobotsServices(crawler, *about))

    def close(self, reason: str) -> None:
        """Close the frontier; a temporary one is removed. To be called once. Raises `FrontierError` if the
        end was not clean; all is let go of even then."""
        self._crawler.signals.send_catch_log(closing)
        self.alarm.cancel()
        self.loading.stop()
        self.watch.close()
        if self.gate is not None:
            self.gate.close()
        _crawls.pop(self._crawler, None)
        if not _crawls:  # else another crawl of this process would pay for it
            gc.unfreeze()
        try:
            self._let_go()
        finally:
            self._dupefilter.close(reason)


def _remove(directory: str, process: int) -> None:
    if os.getpid() == process:  # and no worker that was forked meanwhile
        shutil.rmtree(directory, ignore_errors=True)


def _directory(crawler: Crawler, settings: FrontierSettings, spider: Spider) -> str | None:
    """Where the frontier lies; None for a temporary one."""
    if scrapy_internals.is_inspecting(crawler):
        return None
    if settings.directory is None and settings.jobdir is not None:
        return str(jobdirs.claim(Path(settings.jobdir), spider.name))
    return settings.directory
