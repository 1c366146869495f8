"""The frontier of a project: its directory, how the project identifies its pages, which delays it sets."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import UsageError
from scrapy.spiderloader import get_spider_loader
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.misc import build_from_crawler
from scrapy.utils.project import inside_project
from w3lib.url import safe_url_string

from ..core.admin import database_files, facts
from ..core.admin.export import import_lines, joined_lines
from ..core.errors import FrontierError, FrontierLocked
from ..core.frontier import Frontier
from ..core.parse.urls import host_of
from ..core.store import keys
from ..crawl import control
from ..crawl import directory as jobdirs
from ..crawl.codec import Codec
from ..crawl.control import FrontierEdits
from ..crawl.directory import has_database, open_store
from ..crawl.fingerprints import Identities
from ..crawl.log import queue_of_scrapy
from ..crawl.politeness_key import PolitenessKeys
from ..live.client import NoAnswer, RemoteEdits, RunningCrawl
from ..settings import FrontierSettings, function, time_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request
    from scrapy.settings import Settings

    from ..core.frontier import PageId
    from ..core.store.leveldb import Store
    from ..core.store.records import Page
    from .shared_frontier import SharedFrontier

_CODEC = Codec(Spider("frontier"))  # only used to rebuild requests for their fingerprints


_NOTE = (
    "Note: REQUEST_FINGERPRINTER_CLASS ({}) identifies no plain URL outside a crawl, so Scrapy's fingerprint "
    "stands in: look for a page that is not found with `scrapy frontier find`"
)
_ONLY_IN_A_CRAWL = (
    "REQUEST_FINGERPRINTER_CLASS ({}) identifies no plain URL outside a crawl, and by another a page would "
    "be fetched twice: nothing was changed; have the spider yield the URL (with `frontier_force` in its "
    "meta, to fetch it again), and to move a crawl copy the directory"
)
_ADDON_FAILS = (
    "Note: an add-on raises {}: {}; if one sets REQUEST_FINGERPRINTER_CLASS, set it in your settings"
)


class NoFrontier(FrontierError):
    """There is no frontier in the directory; none was made there."""

    reason = "frontier_missing"


class NoCrawl(FrontierError):
    """An order is for a running crawl, and none is running."""

    reason = "frontier_no_crawl"


class ShardStore(NamedTuple):
    """A shard of a shared crawl, or shard 0: all of a frontier that is not shared."""

    n: int
    store: Store

    @property
    def first(self) -> PageId:
        """The bits in an id that name the shard."""
        return self.n << keys.ID_BITS

    def public(self, page_id: PageId, page: Page) -> tuple[PageId, Page]:
        """Returns a page with ids that name the shard."""
        parent, target = (None if each is None else self.first | each for each in (page.parent, page.target))
        return self.first | page_id, page._replace(parent=parent, target=target)


class Project:
    """The frontier that the settings of the project, the command line and *spider* name; *user* is what uses
    it, in words. ``now`` is the time of the whole command (POSIX seconds).

    ``running`` is the crawl that has the frontier open, once that was met. Raises `UsageError` for an unknown
    spider, or if no directory is named, and `FrontierSetting`.
    """

    def __init__(
        self, settings: Settings, directory: str | None, spider: str | None, user: str = "a command"
    ) -> None:
        self.user = user
        self.running: RunningCrawl | None = None
        self._is_named = directory is not None
        self.settings = settings.copy()
        self.spider: type[Spider] = Spider
        self._has_imported_spiders = spider is not None
        if spider is not None:
            loader = _spider_loader(settings)
            try:
                self.spider = loader.load(spider)
            except KeyError:
                raise UsageError(f"this project has no spider {spider!r}; see `scrapy list`") from None
            self.spider.update_settings(self.settings)
        self.frontier_settings = FrontierSettings(self.settings)
        self.directory = self._find(directory or self.frontier_settings.directory, spider)
        self.now = time_of(self.frontier_settings.clock or time.time)

    @cached_property
    def shared(self) -> SharedFrontier | None:
        """The shared crawl of the project, which --dir leaves aside. Raises `SharedCrawlError`."""
        if self.frontier_settings.shared is None or self._is_named:
            return None
        from .shared_frontier import SharedFrontier  # loads psycopg

        settings, only = self.frontier_settings, None if self.frontier_settings.crawl else self.only_spider()
        name = settings.crawl or (only.name if only else "")
        return SharedFrontier(settings, name, self.directory, self.politeness_key_of, self.user)

    # -- the store -------------------------------------------------------------------------------------

    def _find(self, directory: str | None, spider: str | None) -> Path:
        """Returns *directory*, or the frontier in it if it is a JOBDIR: that of *spider* if there are
        several."""
        found = directory or self.frontier_settings.jobdir
        if not found:
            words = "where is the frontier? Write --dir DIR, or set FRONTIER_DIR or JOBDIR"
            raise UsageError(words + self._what_crawls_use())
        path = Path(found)
        homes = {} if has_database(path) else jobdirs.homes_in(path)
        if directory and not homes:
            return path
        if spider is None and len(homes) > 1:
            names = ", ".join(f"{name} in {home}" for name, home in homes.items())
            raise UsageError(
                f"{path} holds the frontiers of several spiders ({names}): write --spider NAME in their "
                "project, or --dir with one of these"
            )
        if spider is None and not homes:
            only = self.only_spider()
            if only is None:
                raise UsageError(
                    f"{path} holds no frontier yet: write --spider NAME" + self._what_crawls_use()
                )
            spider = only.name
        return jobdirs.home(path, spider) if spider is not None else next(iter(homes.values()))

    @property
    def exists(self) -> bool:
        """Whether a frontier is there."""
        return has_database(self.directory)

    @contextmanager
    def parts(
        self, of: str | None = None, identified: bool = False, restore: bool = False
    ) -> Iterator[list[ShardStore]]:
        """Yields the shards of a shared crawl, copied as they are now, or that one alone that has the host
        *of*, a host or a URL; any other frontier is one part. Raises what `open` does."""
        if self.shared is None or restore:
            with self.open(identified, restore=restore) as store:
                yield [ShardStore(0, store)]
            return
        scheme = self._scheme(identified)
        which = range(self.shared.shards) if of is None else [self.shared.shard_of(host_in(of))]
        with contextlib.ExitStack() as stack:
            yield [ShardStore(n, stack.enter_context(self.shared.open(n, scheme))) for n in which]

    @contextmanager
    def joined(self, identified: bool = False) -> Iterator[list[ShardStore]]:
        """Yields the frontier as one part, for what needs all links; of a shared crawl a new one that its
        shards are imported into, which takes some 0.2 ms a page. Raises what `open` does."""
        if self.shared is None:
            with self.parts(identified=identified) as parts:
                yield parts
            return
        with self.parts() as parts, tempfile.TemporaryDirectory() as directory:
            lines = joined_lines([part.store for part in parts], self.shared.shard_of, self.now)
            with closing(open_store(Path(directory), self.own_scheme(), user=self.user)) as store:
                import_lines(store, lines, self.fingerprint_of, self.now)
                yield [ShardStore(0, store)]

    def refuse_shared(self) -> None:
        """Raises `UsageError` in a shared crawl."""
        if self.shared is not None:
            raise UsageError(f"{self.user} is not for a crawl of several processes (FRONTIER_SHARED)")

    def _scheme(self, identified: bool) -> str:
        """Returns the key scheme that a store must have; empty for any."""
        scheme = self.identities.named_scheme if identified else ""
        if identified and scheme != self.identities.scheme:
            print(_NOTE.format(scheme), file=sys.stderr)
        return scheme

    @contextmanager
    def open(self, identified: bool = False, create: bool = False, restore: bool = False) -> Iterator[Store]:
        """Yields the store, which is closed when the block ends; a copy if a ``running`` crawl has it.

        *identified*: the project must identify pages as the store does. *create* makes a new store if there
        is none. *restore*: the store is to be changed itself, so that a running crawl's raises
        `FrontierLocked`. Raises `NoFrontier` and what `Store` raises, and `UsageError` in a shared crawl,
        which has no one store.
        """
        self.refuse_shared()
        if not create and not self.exists:
            raise NoFrontier(
                f"there is no frontier in {self.directory}: write --dir DIR, or set FRONTIER_DIR or JOBDIR"
                + self._what_crawls_use()
            )
        scheme = self.own_scheme() if create else self._scheme(identified)
        try:
            store = open_store(self.directory, scheme, self.user)
        except FrontierLocked as error:
            if restore:
                raise
            self._ask(error)
        else:
            with closing(store):
                yield store
            return
        assert self.running is not None
        copy = self.directory / self.running.copy()
        try:
            with closing(open_store(copy, scheme, user=self.user)) as store:
                yield store
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    def _ask(self, error: FrontierLocked) -> None:
        """Sets ``running`` to the crawl that has the frontier open. Raises `FrontierLocked`, with the
        reason, if that cannot be asked."""
        try:
            self.running = RunningCrawl(self.directory)
            self.running.call("counts")
        except NoAnswer as no_answer:
            raise FrontierLocked(f"{error}; it cannot be asked either: {no_answer}") from error

    def running_crawl(self) -> RunningCrawl:
        """Returns the crawl that has the frontier open. Raises `NoCrawl` if none has, `FrontierLocked` if it
        cannot be asked, and `UsageError` in a shared crawl."""
        self.refuse_shared()
        if self.exists:
            try:
                database_files.refuse_held(self.directory, self.user)
            except FrontierLocked as error:
                self._ask(error)
        if self.running is None:
            raise NoCrawl(f"no crawl is running in {self.directory}: write --dir DIR, or set JOBDIR")
        return self.running

    def _what_crawls_use(self) -> str:
        """Returns sentences about the settings by which crawls of this project use a frontier, or do not, and
        about what Scrapy's own scheduler has left."""
        settings = self.settings
        queue = ""
        if left := queue_of_scrapy(settings["JOBDIR"]):
            command = f"`scrapy frontier import --jobdir {left.parent}`"
            queue = f". {left} holds the queue of Scrapy's own scheduler: {command} takes it along"
        if not inside_project():
            return ". This is no directory of a Scrapy project: there is no scrapy.cfg in it or above" + queue
        return (
            f"{queue}. The settings of this project have SCHEDULER = {settings['SCHEDULER']!r} and ADDONS = "
            f"{dict(settings['ADDONS'])!r}: its crawls use a frontier only if the last line of settings.py "
            'that sets ADDONS has "scrapy_frontier.Addon": 500, or SCHEDULER is '
            '"scrapy_frontier.FrontierScheduler"'
        )

    def only_spider(self) -> type[Spider] | None:
        """Returns the class of the spider that was named, or else of the only one there is; None if there are
        several."""
        if self.spider is not Spider:
            return self.spider
        loader = _spider_loader(self.settings)
        names = loader.list()
        return loader.load(names[0]) if len(names) == 1 else None

    @contextmanager
    def edits(self, store: Store) -> Iterator[FrontierEdits | RemoteEdits]:
        """Yields what changes the frontier: letters to a shared crawl, the crawl that is running, or the
        `frontier` in *store*."""
        if (orders := self.shared or self.running) is not None:
            yield orders
            return
        settings, key_of = self.frontier_settings, self.politeness_key_of
        with self.frontier(store) as frontier:
            yield FrontierEdits(
                frontier, settings, self.identities, key_of, self.fingerprint_of, lambda: self.now
            )

    @contextmanager
    def frontier(self, store: Store) -> Iterator[Frontier]:
        """Yields the frontier in *store*; commits when the block ends, and closes it if it was stopped
        cleanly.

        After a kill it stays unclean: the next crawl must still take every host for visited just now. Raises
        `FrontierLocked` if the store is a copy of a ``running`` crawl's.
        """
        if self.running is not None:
            raise FrontierLocked(f"{self.directory} is open in a running crawl: stop that first")
        frontier = Frontier(store, self.now)
        try:
            yield frontier
        finally:
            if frontier.was_clean:
                frontier.close()
            else:
                frontier.commit()

    # -- identity --------------------------------------------------------------------------------------

    @cached_property
    def identities(self) -> Identities:
        """How the project identifies requests. An add-on may name the fingerprinter; if it needs a crawl,
        Scrapy's fingerprint stands in."""
        crawler = Crawler(self.spider, self.settings)
        _run_addons(crawler)
        crawler.stats = MemoryStatsCollector(crawler)  # in which a fingerprinter may count
        name = "REQUEST_FINGERPRINTER_CLASS"
        cls = function(name, crawler.settings[name], "the path of a class")
        return Identities(build_from_crawler(cls, crawler))

    def own_scheme(self) -> str:
        """Returns the key scheme for a command that writes by fingerprints.

        Raises `UsageError` if the project's fingerprinter needs a crawl: by another a page would be fetched
        twice.
        """
        if self.identities.named_scheme != self.identities.scheme:
            raise UsageError(_ONLY_IN_A_CRAWL.format(self.identities.named_scheme))
        return self.identities.scheme

    def find(self, store: Store, url: str) -> PageId | None:
        """Returns the id of the page with *url*, or None. Raises `UsageError` for what is no URL."""
        return facts.find_page(store, self.identities.of(self.request(url)))

    def fingerprint_of(self, page: Page) -> bytes | None:
        """Returns the fingerprint of the request of *page*, as it was before any retry changed it; None if it
        cannot be rebuilt."""
        if b'"class"' in page.payload and not self._has_imported_spiders:
            self._has_imported_spiders = True  # a payload names only classes that are there
            with contextlib.suppress(Exception):  # of the project
                get_spider_loader(self.settings)
        return control.fingerprint_of(page, self.identities, _CODEC)

    # -- what users write ------------------------------------------------------------------------------

    def request(self, url: str) -> Request:
        """Returns `control.request_for` a URL that a user wrote. Raises `UsageError` for what is none."""
        return control.request_for(url, self.frontier_settings)

    @cached_property
    def politeness_key_of(self) -> Callable[[str], str]:
        """A function from URL to politeness key; with ``ip`` the host, until a crawl has resolved it."""
        return PolitenessKeys(self.frontier_settings.politeness_key).of

    @cached_property
    def delay_of(self) -> facts.DelayOf:
        """A function from a host to its delay by the settings, and the setting. Raises `FrontierSetting`."""
        return control.delays_by_settings(self.settings, self.spider)

    @property
    def agent(self) -> str:
        """The user agent by which the crawl obeys robots.txt; empty if it does not."""
        return control.robots_agent(self.settings)

    def pauses(self, store: Store) -> facts.PauseOf:
        """Returns a function that gives the pause of a host by the settings, its robots.txt in *store*, and
        its clock in a crawl that is ``running``."""
        clock_of = self.running.clocks.get if self.running is not None else None
        return facts.pauses(store, self.delay_of, self.agent, self.now, clock_of)

    def leased_at(self, page_id: PageId) -> float | None:
        """Returns since when a ``running`` crawl fetches a page (POSIX seconds); None: it does not."""
        return None if self.running is None else self.running.under_way.get(page_id)


def host_in(text: str) -> str:
    """Returns the host of a URL or a host name that a user wrote; empty if there is none."""
    try:
        # which writes bücher.example as xn--bcher-kva.example
        return host_of(safe_url_string(text if "://" in text else f"http://{text.strip()}/"))
    except ValueError:
        return ""


def _run_addons(crawler: Crawler) -> None:
    """Lets the project's add-ons change the settings of *crawler*."""
    try:
        crawler.addons.load_settings(crawler.settings)
    except Exception as error:  # it may want a crawl
        print(_ADDON_FAILS.format(type(error).__name__, error), file=sys.stderr)


def _spider_loader(settings: Settings) -> Any:
    """Returns Scrapy's spider loader, which imports the project's spiders: these may raise anything."""
    try:
        return get_spider_loader(settings)
    except Exception as error:
        last = extract_tb(error.__traceback__)[-1]
        where = "" if isinstance(error, SyntaxError) else f", raised in {last.filename}, line {last.lineno}"
        raise UsageError(
            f"the spiders of this project cannot be imported ({type(error).__name__}: {error}{where}): mend "
            "that, or write --dir DIR without --spider"
        ) from error
