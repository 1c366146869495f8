"""The one open frontier of a crawler: where it lies, its clock, its upkeep; opened once, closed once."""

from __future__ import annotations

import gc
import logging
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy.utils.request import RequestFingerprinter

from ..core.frontier import Frontier
from ..core.hosts.domain_rates import Rates
from ..core.parse.urls import host_of
from ..core.store.leveldb import Store
from ..settings import ADDRESS, NEED_LINKS, FrontierSettings, default_politeness, load_scorer, slot_politeness
from . import compat, identity, jobdirs
from .clock import never_back, steady_clock
from .politeness_key import Addresses, read_suffixes, registered_domain, unit_function
from .upkeep import Upkeep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler

    from ..core.pages.leases import Lease
    from ..core.ranking.scorer import Scorer
    from .enqueue import Intake
    from .in_flight import Flight, Flights
    from .outlinks import Outlinks
    from .robots_gate import Gate

logger = logging.getLogger(__name__)

RECORDER = "FrontierSpiderMiddleware"  # records the links of pages

_runtimes: WeakKeyDictionary[Crawler, Runtime] = WeakKeyDictionary()


def runtime_of(crawler: Crawler) -> Runtime | None:
    """The open frontier of *crawler*; None before and after, and with another scheduler."""
    return _runtimes.get(crawler)


def flight_of(crawler: Crawler, request: Request | None) -> Flight | None:
    """The flight of a request that the scheduler of *crawler* handed out.

    None for one that is downloaded beside it (``engine.download``: robots.txt, media, inline requests), and
    with another scheduler.
    """
    runtime = _runtimes.get(crawler)
    return runtime.flights.find(request) if runtime is not None and runtime.flights is not None else None


def may_be_called_again(crawler: Crawler, flight: Flight) -> bool:
    """Whether another request may be given the callback of *flight*.

    Of what is no method of the spider nobody can tell: the shell waits for one call, and a second one fails.
    """
    runtime, callback = runtime_of(crawler), flight.request.callback
    if runtime is None or runtime.intake is None:
        return False
    return runtime.intake.codec.callbacks.may_be_called_again(callback)


def _scorer(crawler: Crawler, name: str, has_links: bool) -> Scorer | None:
    """The scorer of `FRONTIER_SCORER`; None for first in, first out, and where it would see no link."""
    if name == "fifo" or (name in NEED_LINKS and not has_links):
        if name != "fifo":
            logger.info("FRONTIER_SCORER = %r needs links, and none are recorded: first in, first out", name)
        return None
    from ..core.ranking.scorers_by_name import SCORERS  # loads NumPy and SciPy

    if name in SCORERS:
        return SCORERS[name]()
    return load_scorer(name, crawler)


def _directory(crawler: Crawler, settings: FrontierSettings, spider: Spider) -> str | None:
    """Where the frontier lies; None for a temporary one."""
    if compat.is_inspecting(crawler):
        return None
    if settings.directory is None and settings.jobdir is not None:
        return str(jobdirs.claim(Path(settings.jobdir), spider.name))
    return settings.directory


def _rates(settings: FrontierSettings) -> Rates | None:
    if not settings.domain_rate and not settings.domain_rate_max:
        return None
    return Rates(settings.domain_rate, settings.domain_rate_max)


class Runtime:
    """A crawler's frontier, open from construction until `close`.

    Raises `FrontierError` where the frontier cannot be opened.
    """

    def __init__(self, crawler: Crawler, spider: Spider) -> None:
        settings = self.settings = FrontierSettings.from_settings(crawler.settings)
        self.clock = steady_clock() if settings.clock is None else never_back(settings.clock)
        self.flights: Flights | None = None  # set by the scheduler
        fingerprinter = crawler.request_fingerprinter
        assert fingerprinter is not None
        self.fingerprint: Callable[[Request], bytes] = fingerprinter.fingerprint
        self.is_default_fingerprinter = type(
            fingerprinter
        ) is RequestFingerprinter and identity.plain_fingerprints_agree(self.fingerprint)
        directory = _directory(crawler, settings, spider)
        self.is_temporary = directory is None
        self.directory = directory or tempfile.mkdtemp(prefix="frontier-")
        name = f"{type(fingerprinter).__module__}.{type(fingerprinter).__qualname__}"
        self.records_links = settings.links != "none" and compat.has_spider_middleware(crawler, RECORDER)
        self.links: Outlinks | None = None
        self.before_close: list[Callable[[], None]] = []  # of those who read the store beside the crawl
        politeness = default_politeness(crawler.settings, spider)
        try:
            self._store = Store(self.directory, identity.key_scheme(self.fingerprint, name))
            self.frontier = Frontier(
                self._store,
                self.clock(),
                default_politeness=politeness,
                politeness=slot_politeness(crawler.settings, politeness),
                max_attempts=settings.max_attempts,
                lease_timeout=settings.lease_timeout,
                cooldown=settings.cooldown,
                pace=settings.pace,
                rates=_rates(settings),
                scorer=_scorer(crawler, settings.scorer, self.records_links),
                traps=settings.traps,
                limits=settings.limits,
                domain_of=registered_domain,
                haste=settings.haste if self.is_temporary else None,
            )
        except BaseException:
            self._remove_temporary()
            raise
        # A full garbage collection walks all that was imported, 80,000 objects in 40 ms, and the event loop
        # stands still: spare it what is there for good.
        gc.freeze()
        read_suffixes(after=1.0)
        self.intake: Intake | None = None  # set by the scheduler: takes in many URLs at once
        self.on_sitemaps_listed: Callable[[str, tuple[str, ...]], None] | None = None
        self.addresses = Addresses()
        self.unit_of = unit_function(settings.politeness_key, self.addresses)
        self._upkeep = Upkeep(self._store, 0.0 if self.is_temporary else settings.sync_interval)
        _runtimes[crawler] = self
        self._crawler = crawler
        self.gate: Gate | None = None  # the middleware for robots.txt puts it here

    def lease_of(self, request: Request) -> Lease | None:
        """The lease of a request under way; None for one that the scheduler did not hand out."""
        return self.flights.lease_of(request) if self.flights is not None else None

    async def looked_up_unit_of(self, url: str) -> str:
        """``unit_of``; where addresses are the units, that of *url* is looked up first."""
        host = host_of(url)
        if self.settings.politeness_key == ADDRESS and self.addresses.get(host) is None:
            address = await compat.first_address(host)
            if address is not None:
                self.addresses.learn(host, address)
        return self.unit_of(url)

    def sitemaps_listed(self, authority: str, urls: Iterable[str]) -> None:
        """To be called whenever the robots.txt of *authority* (`urls.origin`) comes into memory, with the
        sitemaps it names, maybe none, before the page that asked for it goes on.

        One lookup in the store; nothing while ``FRONTIER_SITEMAPS`` is off.
        """
        if self.on_sitemaps_listed is not None:
            self.on_sitemaps_listed(authority, tuple(urls))

    def close(self) -> None:
        """Close the frontier; a temporary one is removed. Raises `FrontierError` if the end was not clean."""
        for let_go in self.before_close:
            let_go()
        if self.gate is not None:
            self.gate.close()
        _runtimes.pop(self._crawler, None)
        if not _runtimes:  # else another crawl of this process would pay for it
            gc.unfreeze()
        self._upkeep.stop()
        try:
            self.frontier.close()
        finally:
            self._remove_temporary()

    def _remove_temporary(self) -> None:
        if self.is_temporary:
            shutil.rmtree(self.directory, ignore_errors=True)
