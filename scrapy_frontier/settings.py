"""Reads and checks every ``FRONTIER_*`` setting, and the settings of Scrapy that the frontier obeys.

`FrontierSettings` holds them as named fields, times in seconds. A value that makes no sense raises
`FrontierSetting`, whose message says what to set.
"""

from __future__ import annotations

import json
import re
import sys
from difflib import get_close_matches
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeVar

from scrapy.exceptions import NotConfigured
from scrapy.settings import Settings
from scrapy.utils.misc import load_object

from .core.errors import FrontierError
from .core.hosts.host import Politeness
from .core.hosts.host_order import DomainRates
from .core.hosts.trouble import FIRST_REST, GiveUpRule
from .core.pages.queue import backoff
from .core.pages.traps import TrapLimits
from .core.parse.directives import Obeyed
from .core.revisits.plans import DEFAULT_SHELF_LIFE, HUB_SPAN, SEEDS, RevisitRule, is_url
from .core.revisits.policy import Bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy.settings import BaseSettings

PREFIX = "FRONTIER_"
LATEST = 0xFFFFFFFF  # the last POSIX second that a row can hold, in 2106
LEAST_ATTEMPTS = 10  # the default of FRONTIER_MAX_ATTEMPTS, unless RETRY_TIMES asks for more
ROBOTS_TIMEOUT = 30.0  # seconds for a robots.txt, which all pages of a host wait for
NEED_LINKS = ("mixed", "pagerank", "hits", "cash")
SCORERS = {
    "mixed": "scrapy_frontier.Mixed",
    "pagerank": "scrapy_frontier.PageRank",
    "hits": "scrapy_frontier.Hits",
    "cash": "scrapy_frontier.Cash",
    "fifo": "scrapy_frontier.Fifo",
}
POLITENESS_KEYS = HOST, DOMAIN, ADDRESS = "host", "domain", "ip"
POLICIES = ("never", "interval", "adaptive")
NOINDEX_CHOICES = ("drop-items", "skip", "ignore")
DIGESTS = ("body", "text", "links")
UNCHANGED_CHOICES = ("skip", "call")

_CONCURRENCY = "a whole number of at least 1: with less Scrapy sends no request"
_FINITE = sys.float_info.max
_Number = TypeVar("_Number", int, float)
_is_word = re.compile(r"[^\s,\[\]{}()'\"]+").fullmatch  # no part of a list that could not be parsed


class FrontierSetting(FrontierError):
    """A setting has a value that makes no sense: the crawl does not begin. The message says what to set."""

    reason = "frontier_setting"


class FrontierSettings:
    """All settings of a crawl, read and checked once, times in seconds. Raises `FrontierSetting`. 0.1 ms."""

    def __init__(self, settings: BaseSettings) -> None:
        read = _Reader(settings)
        # Where the frontier is, and how often a page is tried
        self.directory: Final = read.path("FRONTIER_DIR")
        self.jobdir: Final = read.path("JOBDIR")  # holds a frontier for each spider
        retry_times = read.of_scrapy("RETRY_TIMES", int)
        self.retry_times: Final = retry_times if read.switch("RETRY_ENABLED", False) else 0
        default_attempts = max(LEAST_ATTEMPTS, retry_times + 1)
        self.max_attempts: Final = read.number("FRONTIER_MAX_ATTEMPTS", default_attempts, least=1)
        self._grants_more_attempts: Final = self.max_attempts == default_attempts
        # A crawl of several processes: where its database is, and what it is called there
        self.shared: Final = read.path("FRONTIER_SHARED")
        self.crawl: Final = read.path("FRONTIER_CRAWL")
        self.shards: Final = read.number("FRONTIER_SHARDS", 16, least=1)
        self.patience: Final = read.number("FRONTIER_PATIENCE", 60.0, least=1)
        clock, wanted = read.get("FRONTIER_CLOCK"), "a function that returns seconds"
        self.clock: Final = None if clock is None else function("FRONTIER_CLOCK", clock, wanted)
        self.dashboard: Final = read.port("FRONTIER_DASHBOARD")  # None: no server; 0: a free port

        # How hosts are visited
        timeout = read.of_scrapy("DOWNLOAD_TIMEOUT", float)
        self.robots_timeout: Final = min(timeout, ROBOTS_TIMEOUT)
        self.has_cache: Final = read.switch("HTTPCACHE_ENABLED", False)
        # Scrapy's HTTP cache stands for the web: a page it does not have is not asked for.
        self.replays: Final = self.has_cache and read.switch("HTTPCACHE_IGNORE_MISSING", False)
        self.cooldown: Final = read.number("FRONTIER_COOLDOWN", FIRST_REST)  # the first rest; 0: none
        # How long a crawl waits when only hosts are left that do not answer.
        self.end_wait: Final = read.number("FRONTIER_END_WAIT", 300.0)
        self.domain_rates: Final = _domain_rates(read)
        self.politeness_key: Final = read.choice_or_function(
            "FRONTIER_POLITENESS_KEY", POLITENESS_KEYS, "from a URL to a name"
        )

        # What comes into the queue, and in which order it leaves
        self.scorer: Final = _scorer(read)
        self.counts_items: Final = read.choice("FRONTIER_REWARD", ("score", "items")) == "items"
        self.links: Final = read.choice("FRONTIER_LINKS", ("spider", "all", "none"))
        self.follows: Final = read.switch("FRONTIER_FOLLOW", False)
        self.sitemaps: Final = read.switch("FRONTIER_SITEMAPS", False)
        self.host_pages: Final = read.number("FRONTIER_HOST_PAGES", 0)
        longest = read.of_scrapy("URLLENGTH_LIMIT", int)
        # As Scrapy alone: nothing is left out that the user did not ask to leave out.
        is_stock = read.choice("FRONTIER_PROFILE", ("full", "stock")) == "stock"
        refuses_traps = read.switch("FRONTIER_TRAPS", not is_stock)
        self.traps: Final = TrapLimits(length=longest) if refuses_traps else TrapLimits(0, 0, longest)
        self.strips_sessions: Final = read.choice("FRONTIER_SESSION_IDS", ("keep", "strip")) == "strip"

        # What pages ask for
        self.nofollow_rels: Final = read.words("FRONTIER_NOFOLLOW", () if is_stock else ("nofollow",))
        noindex = read.choice("FRONTIER_NOINDEX", NOINDEX_CHOICES[::-1] if is_stock else NOINDEX_CHOICES)
        self.obeyed: Final = Obeyed(noindex, "nofollow" in self.nofollow_rels, canonical=not is_stock)
        self.allows_private: Final = read.switch("FRONTIER_ALLOW_PRIVATE", False)
        self.ajax: Final = read.switch("FRONTIER_AJAX", False)

        # When pages come back
        self.revisits: Final = _revisit_rule(read)  # None: pages are visited once
        self.digest: Final = read.choice_or_function("FRONTIER_DIGEST", DIGESTS, "of a response")
        self.unchanged: Final = read.choice("FRONTIER_UNCHANGED", UNCHANGED_CHOICES)
        self.names: Final = read.names

    @classmethod
    def of_component(cls, settings: BaseSettings) -> FrontierSettings:
        """Reads the settings for a middleware or extension. Raises `NotConfigured` for a wrong value, with a
        message if our scheduler is not there to report it."""
        try:
            return cls(settings)
        except FrontierSetting as error:
            if has_our_scheduler(settings):
                raise NotConfigured from error
            raise NotConfigured(str(error)) from error

    @property
    def comes_back(self) -> bool:
        """Whether pages are visited again by themselves (``FRONTIER_REVISIT``)."""
        return self.revisits is not None

    @property
    def give_up_rule(self) -> GiveUpRule:
        """How often, and with which pauses, a temporary frontier tries a host that does not answer: as a page
        is retried."""
        return GiveUpRule(self.retry_times + 1, backoff)

    def attempts_for(self, meta: Mapping[str, Any]) -> int:
        """The most leases of a page whose request has this *meta*: ``max_attempts``, or what its
        ``max_retry_times`` asks for if that is more and the user left the default."""
        retries = meta.get("max_retry_times")
        if not isinstance(retries, int) or not self._grants_more_attempts:
            return self.max_attempts
        return max(self.max_attempts, retries + 1)


class _Reader:
    """Reads single settings from *settings*; ``names`` are those that were read. All methods raise
    `FrontierSetting`."""

    def __init__(self, settings: BaseSettings) -> None:
        self._settings = settings
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        """The value as it is; *default* if nothing is set."""
        self.names.add(name)
        value = self._settings.get(name)
        return default if value is None else value

    def plain(self, name: str) -> Any:
        """The value; a list or dict that is given in JSON, as on a command line, is parsed."""
        value = self.get(name)
        if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
            try:
                return json.loads(value)
            except ValueError:
                return value
        return value

    def number(self, name: str, default: _Number, least: float = 0) -> _Number:
        """A finite number of at least *least*, of the type of its *default*."""
        kind = type(default)
        wanted = f"a {'whole ' if kind is int else ''}number of at least {least:g}"
        return within(name, self.get(name, default), kind, least, _FINITE, wanted)

    def of_scrapy(self, name: str, kind: type[_Number]) -> _Number:
        """A number that is a setting of Scrapy's."""
        wanted = "a whole number" if kind is int else "a number"
        return within(name, self.get(name, 0), kind, -_FINITE, _FINITE, wanted)

    def switch(self, name: str, default: bool) -> bool:
        """True or False, as Scrapy reads such settings."""
        if self.get(name) is None:
            return default
        try:
            return self._settings.getbool(name)
        except (TypeError, ValueError, OverflowError) as error:
            raise FrontierSetting(f"{name} = {self.get(name)!r}: set True or False") from error

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of *choices*; the first is the default."""
        value = self.get(name, choices[0])
        if value not in choices:
            raise FrontierSetting(f"{name} = {value!r}: set one of {', '.join(map(repr, choices))}")
        return str(value)

    def words(self, name: str, default: tuple[str, ...]) -> frozenset[str]:
        """Words in lower case, from a list, a list in JSON, or text with commas."""
        words = self.plain(name)
        if words is None:
            words = default
        if isinstance(words, str):
            words = words.replace(",", " ").split()
        is_list = isinstance(words, list | tuple | set | frozenset)
        if not is_list or not all(type(word) is str and _is_word(word) for word in words):
            raise FrontierSetting(
                f"{name} = {self.get(name)!r}: set a list of words, as {json.dumps(default)}"
            )
        return frozenset(word.lower() for word in words)

    def port(self, name: str) -> int | None:
        """A TCP port, 0 by default; None for False, None or what says so on a command line."""
        value = self.get(name, None if name in self._settings else 0)
        if value is None or value is False or str(value).lower() in ("none", "false"):
            return None
        return within(name, value, int, 0, 65535, "a port, 0 for a free one, or False for no server")

    def path(self, name: str) -> str | None:
        """A path, which need not exist."""
        value = self.get(name)
        return str(value) if value else None

    def choice_or_function(self, name: str, choices: tuple[str, ...], about: str) -> str | Callable[..., Any]:
        """One of *choices*, the first by default, or a function *about* something."""
        value = self.get(name) or choices[0]
        if value in choices:
            return str(value)
        return function(name, value, f"one of {', '.join(map(repr, choices))} or a function {about}")


def within(name: str, value: Any, kind: type[_Number], least: float, most: float, wanted: str) -> _Number:
    """*value* as a number of a *kind*, from *least* to *most*. Raises `FrontierSetting` with *wanted*."""
    try:
        number = kind(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    is_cut = kind is int and isinstance(value, float) and number != value
    if number is None or is_cut or not least <= number <= most:
        raise FrontierSetting(f"{name} = {value!r}: set {wanted}")
    return number


def function(name: str, value: Any, wanted: str) -> Callable[..., Any]:
    """The function that a setting is or names, imported. Raises `FrontierSetting` with *wanted*."""
    try:
        found = load_object(value) if isinstance(value, str) else value
    except (ImportError, NameError, ValueError) as error:
        raise FrontierSetting(f"{name} = {value!r} cannot be imported ({error}): set {wanted}") from error
    if not callable(found):
        raise FrontierSetting(f"{name} = {value!r}: set {wanted}")
    imported: Callable[..., Any] = found
    return imported


def unknown_names(settings: BaseSettings) -> list[tuple[str, str]]:
    """Names in *settings* that begin like ours and are none, each with the one likely meant, or ""."""
    known = {name for name in FrontierSettings(Settings()).names if name.startswith(PREFIX)}
    unknown = sorted(name for name in settings if str(name).startswith(PREFIX) and name not in known)
    return [(name, "".join(get_close_matches(name, known, 1))) for name in unknown]


def has_our_scheduler(settings: BaseSettings) -> bool:
    """Whether ``SCHEDULER`` is ours, or a subclass of it."""
    scheduler, ours = load_object(settings["SCHEDULER"]), load_object("scrapy_frontier.FrontierScheduler")
    return ours in getattr(scheduler, "__mro__", ())  # `issubclass` accepts any class with the same methods


def time_of(clock: Callable[[], float]) -> float:
    """The time by *clock*, that of ``FRONTIER_CLOCK``. Raises `FrontierSetting` for what no row can hold."""
    now = clock()
    if not isinstance(now, float | int) or not 0 <= now <= LATEST:
        raise FrontierSetting(
            f"FRONTIER_CLOCK says that it is {now!r}: let it return POSIX seconds, from 0 to {LATEST:,}"
        )
    return now


def _domain_rates(read: _Reader) -> DomainRates:
    """The soft and the hard rate, from a number (the soft one) or a pair."""
    name = "FRONTIER_DOMAIN_RATE"
    value = read.get(name, 0.0)
    rates = value.split(",") if isinstance(value, str) else value
    rates = list(rates) if isinstance(rates, list | tuple) else [rates]
    if not 1 <= len(rates) <= 2:
        raise FrontierSetting(f"{name} = {value!r}: set one number of pages a second, or two: soft,hard")
    wanted = "pages a second of a domain, as a number or as soft,hard; 0 for no limit"
    return DomainRates(*(within(name, rate, float, 0.0, inf, wanted) for rate in rates))


def _scorer(read: _Reader) -> str:
    value = read.get("FRONTIER_SCORER", "fifo")
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if not isinstance(value, str) or (value not in SCORERS and "." not in value):
        raise FrontierSetting(
            f"FRONTIER_SCORER = {value!r}: set one of {', '.join(map(repr, SCORERS))}, or the path of a class"
        )
    return value


# -- revisits ------------------------------------------------------------------------------------------------


def _revisit_rule(read: _Reader) -> RevisitRule | None:
    """What the settings ask of revisits; None if pages never come back. All are checked even then."""
    policy = read.choice("FRONTIER_REVISIT", POLICIES)
    shelf_life, shelf_lives = _shelf_lives(read)
    share = read.get("FRONTIER_REVISIT_SHARE", 0.5)
    rule = RevisitRule(
        policy,
        shelf_life,
        shelf_lives,
        _bounds(read, [shelf_life, *(span for _, span in shelf_lives)]),
        _seconds("FRONTIER_REVISIT_HORIZON", read.get("FRONTIER_REVISIT_HORIZON") or 0.0, least=0.0),
        within("FRONTIER_REVISIT_SHARE", share, float, 0.0, 1.0, "a share, 0 to 1"),
        _hubs(read),
    )
    return None if policy == POLICIES[0] else rule


def _seconds(name: str, value: Any, least: float = 1.0) -> float:
    return within(name, value, float, least, inf, f"seconds, at least {least:g}, or inf")


def _shelf_lives(read: _Reader) -> tuple[float, tuple[tuple[str, float], ...]]:
    """Seconds for all pages, and by pattern; an empty pattern stands for all pages."""
    name = "FRONTIER_SHELF_LIFE"
    value = read.plain(name)
    if value is None:
        return DEFAULT_SHELF_LIFE, ()
    if not isinstance(value, dict):
        return _seconds(name, value), ()
    given = _by_pattern(name, value)
    return given.pop("", DEFAULT_SHELF_LIFE), tuple(given.items())


def _hubs(read: _Reader) -> tuple[tuple[str, float], ...]:
    """Seconds by URL, by pattern, or of the seeds; a day for those of a list."""
    name = "FRONTIER_HUBS"
    value = read.plain(name)
    if not value:
        return ()
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list | tuple | set | frozenset):
        value = dict.fromkeys(value, HUB_SPAN)
    if not isinstance(value, dict):
        raise FrontierSetting(f"{name} = {value!r}: set {SEEDS!r}, URLs or patterns, or seconds by these")
    return tuple(_by_pattern(name, value).items())


def _by_pattern(name: str, value: Mapping[Any, Any]) -> dict[str, float]:
    found = {}
    for pattern, seconds in value.items():
        try:
            if not (isinstance(pattern, str) and is_url(pattern)):
                re.compile(pattern)
        except (re.error, TypeError) as error:
            problem = f"{pattern!r} is no regular expression ({error})"
            raise FrontierSetting(f"{name}: {problem}: set URLs, or patterns for re") from error
        found[pattern] = _seconds(name, seconds)
    return found


def _bounds(read: _Reader, spans: list[float]) -> Bounds:
    """The least and the most seconds between two visits; by default all shelf lives *spans* lie within."""
    name = "FRONTIER_REVISIT_BOUNDS"
    value = read.plain(name)
    if value is None:
        longest = max((span for span in spans if span < inf), default=0.0)
        return Bounds(min(Bounds().shortest, *spans), max(Bounds().longest, longest))
    if isinstance(value, str):
        value = value.split(",")
    try:
        shortest, longest = (_seconds(name, each) for each in value)
    except (TypeError, ValueError):
        shortest, longest = 1.0, 0.0
    if not shortest <= longest < inf:
        raise FrontierSetting(f"{name} = {value!r}: set the least and the most seconds between two visits")
    return Bounds(shortest, longest)


# -- what Scrapy's own settings say of hosts -----------------------------------------------------------------


def default_politeness(settings: BaseSettings, spider: Any = None) -> Politeness:
    """Delay, concurrency and jitter of hosts without their own. Raises `FrontierSetting` if no host could be
    visited. Jitter counts only if the project sets it, and only lengthens a pause: the delay is a minimum."""
    read = _Reader(settings)
    delay = float(getattr(spider, "download_delay", read.of_scrapy("DOWNLOAD_DELAY", float)))
    if read.switch("AUTOTHROTTLE_ENABLED", False):
        delay = max(delay, read.of_scrapy("AUTOTHROTTLE_START_DELAY", float))
    name = "CONCURRENT_REQUESTS_PER_IP"
    if not within(name, settings[name] or 0, int, 0, sys.maxsize, "a whole number"):
        name = "CONCURRENT_REQUESTS_PER_DOMAIN"
    concurrency = within(name, settings[name], int, 1, sys.maxsize, _CONCURRENCY)
    return Politeness(max(delay, 0.0), concurrency, _jitter(settings))


def slot_politeness(settings: BaseSettings, default: Politeness) -> dict[str, Politeness]:
    """The same of the hosts in `DOWNLOAD_SLOTS`; what a slot does not say is as in *default*. Raises
    `FrontierSetting`."""
    try:
        slots = settings.getdict("DOWNLOAD_SLOTS")
    except (TypeError, ValueError) as error:
        wanted = "a dict of hosts, each with a dict of its delay, concurrency and jitter"
        raise FrontierSetting(f"DOWNLOAD_SLOTS = {settings['DOWNLOAD_SLOTS']!r}: set {wanted}") from error
    return {host: _of_slot(host, slot, default) for host, slot in slots.items()}


def _of_slot(host: str, slot: Any, default: Politeness) -> Politeness:
    try:
        return Politeness(
            max(float(slot.get("delay", default.delay)), 0.0),
            within("concurrency", slot.get("concurrency", default.concurrency), int, 1, sys.maxsize, ""),
            float(slot.get("jitter", 0.5 if slot.get("randomize_delay") else default.jitter)),
        )
    except (AttributeError, TypeError, ValueError, FrontierSetting) as error:
        wanted = "a dict, with numbers for its delay, concurrency (at least 1) and jitter"
        raise FrontierSetting(f"DOWNLOAD_SLOTS[{host!r}] = {slot!r}: set {wanted}") from error


def _jitter(settings: BaseSettings) -> float:
    """The jitter that the project set; Scrapy's default of 0.5 would send half of all requests too early."""
    read = _Reader(settings)
    old, new = (
        settings.getpriority(name) or 0 for name in ("RANDOMIZE_DOWNLOAD_DELAY", "DOWNLOAD_DELAY_JITTER")
    )
    if new > 0 and new >= old:
        return max(read.of_scrapy("DOWNLOAD_DELAY_JITTER", float), 0.0)
    return 0.5 if old > 0 and read.switch("RANDOMIZE_DOWNLOAD_DELAY", False) else 0.0
