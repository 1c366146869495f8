"""The frontier of a project: where it lies, how the project identifies its pages, which delays it sets."""

from __future__ import annotations

import contextlib
import sys
import time
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import UsageError
from scrapy.spiderloader import get_spider_loader
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.misc import build_from_crawler, load_object

from .. import addon
from ..core.admin import facts
from ..core.errors import FrontierError
from ..core.frontier import Frontier, FrontierOptions
from ..core.parse.urls import escaped_fragment, host_of
from ..crawl import codec as request_codec
from ..crawl import directory as jobdirs
from ..crawl.choose_scorer import load_scorer
from ..crawl.directory import has_database, open_store
from ..crawl.fingerprints import Identities, plain_fingerprint
from ..crawl.politeness_key import PolitenessKeys, registered_domain
from ..settings import (
    DOMAIN,
    SCORERS,
    FrontierSetting,
    FrontierSettings,
    default_politeness,
    function,
    slot_politeness,
    switch,
    time_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.settings import Settings

    from ..core.frontier import PageId
    from ..core.hosts.host import Politeness
    from ..core.ranking.scorer import Scorer
    from ..core.store.leveldb import Store
    from ..core.store.records import Page

_ADDONS = {addon.Addon, "scrapy_frontier.Addon", "scrapy_frontier.addon.Addon"}
_CODEC = request_codec.Codec(Spider("frontier"))  # it only asks who pages are


_NOTE = (
    "Note: REQUEST_FINGERPRINTER_CLASS ({}) identifies no plain URL outside a crawl, so Scrapy's fingerprint "
    "stands in: look for a page that is not found with `scrapy frontier find`"
)
_ONLY_IN_A_CRAWL = (
    "REQUEST_FINGERPRINTER_CLASS ({}) identifies no plain URL outside a crawl, and by another a page would "
    "be fetched twice: nothing was changed; {}"
)
_INSTEAD = {  # by command
    "add": "have the spider yield the URL",
    "forget": "to fetch a page again have the spider yield it with `frontier_force` in its meta, or to begin "
    "anew use `scrapy frontier reset`",
    "import": "copy the directory of the stopped crawl, or set a fingerprinter that needs no crawl",
}
_ADDON_FAILS = (
    "Note: an add-on raises {}: {}; if one sets REQUEST_FINGERPRINTER_CLASS, set it in your settings"
)


class NoFrontier(FrontierError):
    """There is no frontier where one is looked for; nothing is made there."""

    reason = "frontier_missing"


class Project:
    """What the settings (of the project, the command line and *spider*) say of the frontier; *user* says in
    words who uses it. ``now`` is one time for all of the command (POSIX seconds).

    Raises `UsageError` for a spider there is not, or where no directory is named, and `FrontierSetting`.
    """

    def __init__(
        self, settings: Settings, directory: str | None, spider: str | None, user: str = "a command"
    ) -> None:
        self.user = user
        self.settings = settings.copy()
        self.spider: type[Spider] = Spider
        self._has_imported_spiders = spider is not None
        self._home: tuple[Path, str] | None = None  # a JOBDIR, and the spider whose frontier in it is meant
        if spider is not None:
            loader = _spider_loader(settings)
            try:
                self.spider = loader.load(spider)
            except KeyError:
                jobdir = directory or settings["FRONTIER_DIR"] or settings["JOBDIR"]
                raise UsageError(_no_spider(spider, jobdir)) from None
            self.spider.update_settings(self.settings)
        self.frontier_settings = FrontierSettings(self.settings)
        self.directory = self._find(directory or self.frontier_settings.directory, spider)
        self.now = time_of(self.frontier_settings.clock or time.time)

    # -- the store -------------------------------------------------------------------------------------

    def _find(self, directory: str | None, spider: str | None) -> Path:
        """*directory*; where that is a JOBDIR, or the one of the settings is meant, the frontier in it, of
        *spider* if there are several."""
        found = directory or self.frontier_settings.jobdir
        if not found:
            raise UsageError("where is the frontier? Write --dir DIR, or set FRONTIER_DIR or JOBDIR")
        path = Path(found)
        homes = [] if has_database(path) else jobdirs.homes(path)
        if directory and not homes:
            return path
        if spider is not None:
            self._home = path, spider
            return jobdirs.find(path, spider)
        if len(homes) > 1:
            names = ", ".join(f"{home.spider or 'one'} in {home.directory}" for home in homes)
            raise UsageError(
                f"{path} holds the frontiers of several spiders ({names}): write --spider NAME in their "
                "project, or --dir with one of these"
            )
        return homes[0].directory if homes else path / "frontier"

    def claim(self) -> None:
        """Have a frontier that was made in a JOBDIR belong to the spider that was named, if one was. To be
        called once it is closed; raises what `jobdirs.claim` does."""
        if self._home is not None:
            jobdirs.claim(*self._home)

    @property
    def exists(self) -> bool:
        """Whether a frontier is there, or was and has lost its database."""
        return has_database(self.directory)

    @contextmanager
    def open(self, identified: bool = False, create: bool = False, restore: bool = False) -> Iterator[Store]:
        """The store, ours until the block ends. *identified*: the project must identify pages as the
        store does. A new one is made only on *create*; *restore* writes anew what says that it is one.

        Raises `NoFrontier`, `FrontierLocked` and what else `Store` raises.
        """
        if not create and not self.exists:
            raise NoFrontier(
                f"there is no frontier in {self.directory}: write --dir DIR, or set FRONTIER_DIR or JOBDIR"
            )
        scheme = self.own_scheme("add") if create else self.identities.named_scheme if identified else ""
        if identified and scheme != self.identities.scheme:
            print(_NOTE.format(scheme), file=sys.stderr)
        anew = self.identities.named_scheme if restore else ""
        with closing(open_store(self.directory, scheme, anew, self.user)) as store:
            yield store

    # -- identity --------------------------------------------------------------------------------------

    @contextmanager
    def frontier(self, store: Store, scorer: Scorer | None = None) -> Iterator[Frontier]:
        """The frontier in *store*, committed when the block ends, and closed where it was stopped cleanly.
        One that was not stays so: the crawl that comes next must still take every host for visited just
        now."""
        frontier = Frontier(store, self.now, FrontierOptions(scorer=scorer))
        try:
            yield frontier
        finally:
            if frontier.was_clean:
                frontier.close()
            else:
                frontier.commit()

    @cached_property
    def identities(self) -> Identities:
        """How the project identifies requests; makes its fingerprinter, which an add-on may name, when it is
        asked for first. Where that wants a crawl, Scrapy's fingerprint stands in."""
        crawler = Crawler(self.spider, self.settings)
        _run_addons(crawler)
        crawler.stats = MemoryStatsCollector(crawler)  # in which a fingerprinter may count
        name = "REQUEST_FINGERPRINTER_CLASS"
        cls = function(name, crawler.settings[name], "the path of a class")
        return Identities(build_from_crawler(cls, crawler))

    def own_scheme(self, command: str) -> str:
        """The key scheme of what a *command* writes by who pages are. Raises `UsageError` where the project's
        fingerprinter tells that only in a crawl: by another fingerprint a page would be fetched twice."""
        if self.identities.named_scheme != self.identities.scheme:
            raise UsageError(_ONLY_IN_A_CRAWL.format(self.identities.named_scheme, _INSTEAD[command]))
        return self.identities.scheme

    def find(self, store: Store, url: str) -> PageId | None:
        """The id of the page with *url*, or None; one lookup. Raises `UsageError` for what is no URL."""
        return facts.find_page(store, self.identities.of(self.request(url)))

    def fingerprint_of(self, page: Page) -> bytes | None:
        """The fingerprint of the request that *page* stands for, as it was before any try changed it; None
        where it cannot be rebuilt."""
        # Rebuilding a request to fingerprint it takes 40 us, its URL alone 2 us.
        if self.identities.is_default and request_codec.is_plain_get(page.payload):
            plain = plain_fingerprint(page.url)
            if plain is not None:
                return plain
        if b'"class"' in page.payload:
            self._import_spiders()  # a payload names only classes that are there
        try:
            return request_codec.fingerprint_in(page.payload) or self.identities.of(request_of(page))
        except Exception:  # a Request class of the project may raise anything
            return None

    def _import_spiders(self) -> None:
        if not self._has_imported_spiders:
            self._has_imported_spiders = True
            with contextlib.suppress(Exception):  # of the project
                get_spider_loader(self.settings)

    # -- what users write ------------------------------------------------------------------------------

    def request(self, url: str, priority: int = 0) -> Request:
        """A plain request for a URL that a user wrote, in the form in which servers see it; raises
        `UsageError` for what is none. It need not name a host: pages of ``file:`` have none."""
        try:
            request = Request(url.strip(), priority=priority)
            if self.frontier_settings.ajax and (seen := escaped_fragment(request.url)) is not None:
                request = Request(seen, priority=priority)
        except ValueError:
            raise UsageError(f"{url!r} is no URL; write it with its scheme: https://example.com/") from None
        return request

    @cached_property
    def politeness_key_of(self) -> Callable[[str], str]:
        """The politeness key of a URL; with ``ip`` its host, until a crawl has resolved it."""
        return PolitenessKeys(self.frontier_settings.politeness_key).of

    def queue_of(self, host: str) -> str:
        """The politeness key of all pages of *host*; itself where only each page tells, as by its address,
        or where it is no host, but a name that pages were given."""
        is_in_domain = self.frontier_settings.politeness_key == DOMAIN and host == host_of(f"http://{host}/")
        return registered_domain(host) if is_in_domain else host

    def delay_of(self, host: str) -> tuple[float, str]:
        """The delay of a host by the settings, in seconds, and the setting it comes from."""
        default, slots = self._politeness
        return (slots[host].delay, "DOWNLOAD_SLOTS") if host in slots else (default.delay, "DOWNLOAD_DELAY")

    @cached_property
    def _politeness(self) -> tuple[Politeness, dict[str, Politeness]]:
        """By default, and of the hosts with settings of their own."""
        default = default_politeness(self.settings, self.spider)
        return default, slot_politeness(self.settings, default)

    @property
    def agent(self) -> str:
        """By which name the crawl obeys robots.txt; empty where it does not (``ROBOTSTXT_OBEY``). Raises
        `FrontierSetting` where that cannot be told."""
        settings = self.settings
        if not switch(settings, "ROBOTSTXT_OBEY", False):
            return ""
        return str(settings["ROBOTSTXT_USER_AGENT"] or settings["USER_AGENT"] or "")

    def scorer(self, name: str | None, kept: str) -> Scorer:
        """A new scorer: *name*, or that of the settings, or the one of the last ranking, *kept*.

        Raises `UsageError` for a *name* that is none, and `FrontierSetting` for one of the settings.
        """
        if name and name not in SCORERS:
            try:
                return load_scorer(name, Crawler(self.spider, self.settings))
            except FrontierSetting as error:
                written = str(error).replace("FRONTIER_SCORER =", "--scorer", 1)
                raise UsageError(f"{written}, or write one of {', '.join(SCORERS)}") from None
        if not name and self.settings.get("FRONTIER_SCORER"):
            name = self.frontier_settings.scorer
        elif not name and _ADDONS & set(self.settings.getdict("ADDONS")):
            name = addon.SETTINGS["FRONTIER_SCORER"]  # it is not run for a command
        name = name or (kept if kept in SCORERS else "fifo")
        return load_scorer(name, Crawler(self.spider, self.settings))

    def delays(self, store: Store) -> facts.DelayOf:
        """A function that tells the delay of a host in seconds, by the settings or by its robots.txt in
        *store*, and who asks for it. Two short scans a host where robots.txt is obeyed."""
        if not self.agent:
            return self.delay_of
        return facts.with_robots(store, self.delay_of, self.agent, self.now)


def _run_addons(crawler: Crawler) -> None:
    """Have the project's add-ons change the settings of *crawler*; but for ours, which sets no fingerprinter
    and may make a directory."""
    settings = crawler.settings
    try:
        addons = {each: order for each, order in settings.getdict("ADDONS").items() if not _is_ours(each)}
        settings.set("ADDONS", addons, "cmdline")
        crawler.addons.load_settings(settings)
    except Exception as error:  # it may want a crawl
        print(_ADDON_FAILS.format(type(error).__name__, error), file=sys.stderr)


def _spider_loader(settings: Settings) -> Any:
    """Scrapy's, which imports all of the project's modules with spiders: they may raise anything."""
    try:
        return get_spider_loader(settings)
    except Exception as error:
        last = extract_tb(error.__traceback__)[-1]
        where = "" if isinstance(error, SyntaxError) else f", raised in {last.filename}, line {last.lineno}"
        raise UsageError(
            f"the spiders of this project cannot be imported ({type(error).__name__}: {error}{where}): mend "
            "that, or write --dir DIR without --spider"
        ) from error


def _no_spider(spider: str, jobdir: str | None) -> str:
    words = f"this project has no spider {spider!r}; see `scrapy list`"
    for home in jobdirs.homes(Path(jobdir)) if jobdir else ():
        if home.spider == spider:
            words += f", or write --dir {home.directory} without --spider for its frontier"
    return words


def _is_ours(name: object) -> bool:
    found = load_object(name) if isinstance(name, str) else name
    return isinstance(found, addon.Addon) or (isinstance(found, type) and issubclass(found, addon.Addon))


def request_of(page: Page) -> Request:
    """The request that *page* stands for, without its callbacks: these name methods of the spider, and no
    fingerprint depends on them. Raises `codec.Unreadable`."""
    return _CODEC.decode(page.url, page.priority, page.payload, with_callbacks=False)
