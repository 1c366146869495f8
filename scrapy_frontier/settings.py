"""Every ``FRONTIER_*`` setting: name, unit, default, check; read together, frozen. Those of revisits are in
`setting_revisits`.

What a setting of Scrapy already says (`DOWNLOAD_DELAY`, `DOWNLOAD_SLOTS`, `JOBDIR` ...) is read from there.

What a setting of ours may be: read it, or say what to set.

The settings of revisits: how often, as what, and how much of the visits.
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
from .core.hosts.budgets import Limits
from .core.hosts.host import Politeness
from .core.hosts.trouble import FIRST_REST, GiveUpRule
from .core.hosts.turns import DomainRates
from .core.pages.queue import backoff
from .core.pages.traps import TrapLimits
from .core.parse.directives import ChainLimits, Obeyed
from .core.revisits.plans import DEFAULT_SHELF_LIFE, HUB_SPAN, SEEDS, RevisitRule, is_url
from .core.revisits.policy import Bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy.settings import BaseSettings

_Number = TypeVar("_Number", int, float)
_MOST = sys.float_info.max  # all but infinity
_is_word = re.compile(r"[^\s,\[\]{}()'\"]+").fullmatch  # no list that could not be read, either


class FrontierSetting(FrontierError):
    """A setting has a value that makes no sense: the crawl does not begin. The message says what to set."""

    reason = "frontier_setting"


def number(settings: BaseSettings, name: str, default: _Number, least: float = 0) -> _Number:
    """A number of the kind of its *default*, which stands where nothing is set. Raises `FrontierSetting` for
    what is none, is infinite, or less than *least*."""
    value, kind = settings.get(name), type(default)
    wanted = f"a {'whole ' if kind is int else ''}number of at least {least:g}"
    return default if value is None else within(name, value, kind, least, _MOST, wanted)


def within(name: str, value: Any, kind: type[_Number], least: float, most: float, wanted: str) -> _Number:
    """*value* as a number of a *kind* that is no less than *least* and no more than *most*. Raises
    `FrontierSetting`, with *wanted* for what to set."""
    try:
        number = kind(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    is_cut = kind is int and isinstance(value, float) and number != value
    if number is None or is_cut or not least <= number <= most:
        raise FrontierSetting(f"{name} = {value!r}: set {wanted}")
    return number


def switch(settings: BaseSettings, name: str, default: bool) -> bool:
    """True or False, as Scrapy reads such settings; *default* where nothing is set. Raises
    `FrontierSetting`."""
    value = settings.get(name)
    if value is None:
        return default
    try:
        return settings.getbool(name)
    except (TypeError, ValueError, OverflowError) as error:
        raise FrontierSetting(f"{name} = {value!r}: set True or False") from error


def of_scrapy(settings: BaseSettings, name: str, kind: type[_Number]) -> _Number:
    """A number that is a setting of Scrapy's, as Scrapy reads it. Raises `FrontierSetting` for what is
    none."""
    value = settings.get(name, 0)
    try:
        return kind(value)
    except (TypeError, ValueError, OverflowError) as error:
        wanted = "a whole number" if kind is int else "a number"
        raise FrontierSetting(f"{name} = {value!r}: set {wanted}") from error


def choice(settings: BaseSettings, name: str, choices: tuple[str, ...]) -> str:
    """One of *choices*, the first where nothing is set. Raises `FrontierSetting` for any other."""
    value = settings.get(name)
    if value is None:
        return choices[0]
    if value not in choices:
        raise FrontierSetting(f"{name} = {value!r}: set one of {', '.join(map(repr, choices))}")
    return str(value)


def words(settings: BaseSettings, name: str, default: tuple[str, ...]) -> frozenset[str]:
    """A set of words in lower case, from a list, also in JSON, or from text with commas. Raises
    `FrontierSetting`."""
    value = settings.get(name, default)
    words = plain(value)
    if isinstance(words, str):
        words = words.replace(",", " ").split()
    is_list = isinstance(words, (list, tuple, set, frozenset))
    if not is_list or not all(type(word) is str and _is_word(word) for word in words):
        raise FrontierSetting(f"{name} = {value!r}: set a list of words, as {json.dumps(default)}")
    return frozenset(word.lower() for word in words)


def plain(value: Any) -> Any:
    """The list or dict that *value* is in JSON, as on a command line; any other as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def path(settings: BaseSettings, name: str) -> str | None:
    """A path as text; None where nothing is set. It need not exist."""
    return str(settings[name]) if settings[name] else None


def function(name: str, value: Any, wanted: str) -> Callable[..., Any]:
    """The function that a setting is or names, imported. Raises `FrontierSetting`, with *wanted* for what to
    set."""
    try:
        function = load_object(value) if isinstance(value, str) else value
    except (ImportError, NameError, ValueError) as error:
        raise FrontierSetting(f"{name} = {value!r} cannot be imported ({error}): set {wanted}") from error
    if not callable(function):
        raise FrontierSetting(f"{name} = {value!r}: set {wanted}")
    found: Callable[..., Any] = function
    return found


def choice_or_function(
    settings: BaseSettings, name: str, choices: tuple[str, ...], about: str
) -> str | Callable[..., Any]:
    """One of *choices*, the first where nothing is set, or a function *about* something. Raises
    `FrontierSetting`."""
    value = settings.get(name) or choices[0]
    if value in choices:
        return str(value)
    return function(name, value, f"one of {', '.join(map(repr, choices))} or a function {about}")


POLICIES = ("never", "interval", "adaptive")
_BOUNDS = Bounds()


def revisit_rule(settings: BaseSettings) -> RevisitRule | None:
    """What the settings ask of revisits, times in seconds; None: pages never come back. All are read and
    judged even then. Raises `FrontierSetting`."""
    policy = choice(settings, "FRONTIER_REVISIT", POLICIES)
    shelf_life, shelf_lives = _shelf_lives(settings, "FRONTIER_SHELF_LIFE")
    rule = RevisitRule(
        policy,
        shelf_life,
        shelf_lives,
        _bounds(settings, "FRONTIER_REVISIT_BOUNDS", shelf_life, shelf_lives),
        _seconds("FRONTIER_REVISIT_HORIZON", settings.get("FRONTIER_REVISIT_HORIZON") or 0.0, least=0.0),
        _share(settings, "FRONTIER_REVISIT_SHARE"),
        _hubs(settings, "FRONTIER_HUBS"),
        _share(settings, "FRONTIER_HUB_SHARE"),
    )
    return None if policy == POLICIES[0] else rule


def _seconds(name: str, value: Any, least: float = 1.0) -> float:
    """At least so many; "inf" is a number too."""
    return within(name, value, float, least, inf, f"seconds, at least {least:g}, or inf")


def _share(settings: BaseSettings, name: str) -> float:
    return within(name, settings.get(name, 0.5), float, 0.0, 1.0, "a share, 0 to 1")


def _shelf_lives(settings: BaseSettings, name: str) -> tuple[float, tuple[tuple[str, float], ...]]:
    """Seconds for all pages, and by pattern; an empty pattern stands for all pages."""
    value = plain(settings.get(name))
    if value is None:
        return DEFAULT_SHELF_LIFE, ()
    if not isinstance(value, dict):
        return _seconds(name, value), ()
    given = _by_pattern(name, value)
    return given.pop("", DEFAULT_SHELF_LIFE), tuple(given.items())


def _hubs(settings: BaseSettings, name: str) -> tuple[tuple[str, float], ...]:
    """Spans by URL, by pattern, or of the seeds; a day for those of a list."""
    value = plain(settings.get(name))
    if not value:
        return ()
    if isinstance(value, str):
        value = [value]
    if isinstance(value, (list, tuple, set, frozenset)):
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


def _bounds(
    settings: BaseSettings, name: str, shelf_life: float, shelf_lives: tuple[tuple[str, float], ...]
) -> Bounds:
    """Two numbers of seconds. Where nothing is set, what else the settings ask for lies within them."""
    value = plain(settings.get(name))
    if value is None:
        spans = [shelf_life, *(span for _, span in shelf_lives)]
        longest = max((span for span in spans if span < inf), default=0.0)
        return Bounds(min(_BOUNDS.shortest, *spans), max(_BOUNDS.longest, longest))
    if isinstance(value, str):
        value = value.split(",")
    try:
        shortest, longest = (_seconds(name, each) for each in value)
    except (TypeError, ValueError):
        shortest, longest = 1.0, 0.0
    if not shortest <= longest < inf:
        raise FrontierSetting(f"{name} = {value!r}: set the least and the most seconds between two visits")
    return Bounds(shortest, longest)


PREFIX = "FRONTIER_"
LATEST = 0xFFFFFFFF  # the last second that rows can hold, in 2106
NOINDEX_CHOICES = ("drop-items", "skip", "ignore")
NEED_LINKS = ("mixed", "pagerank", "hits", "cash")
SCORERS = {
    "mixed": "scrapy_frontier.Mixed",
    "pagerank": "scrapy_frontier.PageRank",
    "hits": "scrapy_frontier.Hits",
    "cash": "scrapy_frontier.Cash",
    "link": "scrapy_frontier.LinkScore",
    "fifo": "scrapy_frontier.Fifo",
    "lifo": "scrapy_frontier.Lifo",
}
LINKS = ("spider", "all", "none")
POLITENESS_KEYS = HOST, DOMAIN, ADDRESS = "host", "domain", "ip"
DIGESTS = ("body", "text", "links")
UNCHANGED_CHOICES = ("skip", "call")
# Seconds at most for a robots.txt, for which all pages of a host wait; DOWNLOAD_TIMEOUT if less.
ROBOTS_TIMEOUT = 30.0
_CONCURRENCY = "a whole number of at least 1: with less Scrapy sends no request"
LEAST_ATTEMPTS = 10  # the default of FRONTIER_MAX_ATTEMPTS where RETRY_TIMES does not ask for more


class _OfStore:
    """Where the frontier lies, what reaches the disk when, and how often a page is tried."""

    def __init__(self, settings: BaseSettings) -> None:
        retry_times = of_scrapy(settings, "RETRY_TIMES", int)
        default_attempts = max(LEAST_ATTEMPTS, retry_times + 1)
        self.directory: Final = path(settings, "FRONTIER_DIR")
        # Holds a frontier for each spider, where there is no `directory`.
        self.jobdir: Final = path(settings, "JOBDIR")
        self.max_attempts: Final = number(settings, "FRONTIER_MAX_ATTEMPTS", default_attempts, least=1)
        self._grants_more_attempts: Final = self.max_attempts == default_attempts
        self.lease_timeout: Final = number(settings, "FRONTIER_LEASE_TIMEOUT", 3600.0, least=1)  # seconds
        retries = switch(settings, "RETRY_ENABLED", False)
        self.retry_times: Final = retry_times if retries else 0
        # Seconds between two syncs to the disk; 0: never.
        self.sync_interval: Final = number(settings, "FRONTIER_SYNC_INTERVAL", 5.0)

    def attempts_for(self, meta: Mapping[str, Any]) -> int:
        """Leases of a page whose request has this *meta*: ``max_attempts``, or as many as its
        ``max_retry_times`` ask for, where these are more and the user has left the default."""
        retries = meta.get("max_retry_times")
        if not isinstance(retries, int) or not self._grants_more_attempts:
            return self.max_attempts
        return max(self.max_attempts, retries + 1)


class _OfHosts:
    """How hosts are asked, and what waits for one that does not answer."""

    def __init__(self, settings: BaseSettings) -> None:
        timeout = of_scrapy(settings, "DOWNLOAD_TIMEOUT", float)
        self.robots_timeout: Final = min(timeout, ROBOTS_TIMEOUT)  # seconds
        self.has_cache: Final = switch(settings, "HTTPCACHE_ENABLED", False)  # that of Scrapy
        # It stands for the web: what it does not have is not asked for.
        self.replays: Final = self.has_cache and switch(settings, "HTTPCACHE_IGNORE_MISSING", False)
        # Look for the sitemaps of every host, and queue what they list.
        self.sitemaps: Final = switch(settings, "FRONTIER_SITEMAPS", False)
        # Seconds a host rests after its first trouble; 0: it does not.
        self.cooldown: Final = number(settings, "FRONTIER_COOLDOWN", FIRST_REST)
        # Seconds a crawl waits where only hosts are left that do not answer.
        self.end_wait: Final = number(settings, "FRONTIER_END_WAIT", 300.0)
        self.domain_rates: Final = _domain_rates(settings, "FRONTIER_DOMAIN_RATE")
        self.politeness_key: Final = choice_or_function(
            settings, "FRONTIER_POLITENESS_KEY", POLITENESS_KEYS, "from a URL to a name"
        )


class _OfQueue:
    """What comes into the queue, in which order, and by which clock it is handed out."""

    def __init__(self, settings: BaseSettings) -> None:
        self.scorer: Final = _scorer(settings)
        self.links: Final = choice(settings, "FRONTIER_LINKS", LINKS)
        # Whether what pages link is followed without the spider's doing.
        self.follows: Final = switch(settings, "FRONTIER_FOLLOW", False)
        # Seconds between two rankings at most; 0: never by time.
        self.clock: Final = _clock(settings)
        self.traps: Final = TrapLimits(
            depth=number(settings, "FRONTIER_PATH_DEPTH", TrapLimits.depth),
            repeats=number(settings, "FRONTIER_REPEATED_SEGMENTS", TrapLimits.repeats),
            length=of_scrapy(settings, "URLLENGTH_LIMIT", int),
        )
        self.strips_sessions: Final = choice(settings, "FRONTIER_SESSION_IDS", ("keep", "strip")) == "strip"
        self.limits: Final = Limits(
            host_pages=number(settings, "FRONTIER_HOST_PAGES", 0),
            host_pending=number(settings, "FRONTIER_HOST_PENDING", 0),
            depth=number(settings, "FRONTIER_DEPTH", 0),
        )


class _OfPages:
    """What is made of what a page says and shows, where it leads, and when it comes back."""

    def __init__(self, settings: BaseSettings) -> None:
        self.stops_duplicates: Final = choice(settings, "FRONTIER_DUPLICATES", ("off", "stop")) == "stop"
        # Link types that are not followed, in lower case.
        self.nofollow_rels: Final = words(settings, "FRONTIER_NOFOLLOW", ("nofollow",))
        self.obeyed: Final = Obeyed(
            choice(settings, "FRONTIER_NOINDEX", NOINDEX_CHOICES),
            "nofollow" in self.nofollow_rels,
            switch(settings, "FRONTIER_CANONICAL", True),
        )
        self.redirects: Final = ChainLimits(
            number(settings, "FRONTIER_REDIRECT_MAX_HOSTS", ChainLimits().most_hosts),
            switch(settings, "FRONTIER_ALLOW_PRIVATE", False),
        )
        self.ajax: Final = switch(settings, "FRONTIER_AJAX", False)
        self.revisits: Final = revisit_rule(settings)  # None: pages are visited once
        self.digest: Final = choice_or_function(settings, "FRONTIER_DIGEST", DIGESTS, "of a response")
        # Whether the callback sees a page that came back as it was.
        self.unchanged: Final = choice(settings, "FRONTIER_UNCHANGED", UNCHANGED_CHOICES)


class FrontierSettings(_OfStore, _OfHosts, _OfQueue, _OfPages):
    """The settings as they are now, all read and checked when it is made and never changed; times in seconds.
    Raises `FrontierSetting`. 0.1 ms: each component of a crawl makes its own, by the same settings."""

    def __init__(self, settings: BaseSettings) -> None:
        _OfStore.__init__(self, settings)
        _OfHosts.__init__(self, settings)
        _OfQueue.__init__(self, settings)
        _OfPages.__init__(self, settings)

    @classmethod
    def of_component(cls, settings: BaseSettings) -> FrontierSettings:
        """The settings for a middleware: it is left out where a setting makes no sense. Our scheduler says
        so and closes the spider; with another one the middleware says it."""
        try:
            return cls(settings)
        except FrontierSetting as error:
            words = () if has_our_scheduler(settings) else (str(error),)
            raise NotConfigured(*words) from error

    @property
    def comes_back(self) -> bool:
        """Whether pages are visited again by themselves (``FRONTIER_REVISIT``)."""
        return self.revisits is not None

    @property
    def give_up_rule(self) -> GiveUpRule:
        """How a frontier that nobody comes back to asks a host that gives no answer: as often, and with as
        long pauses, as a page is retried."""
        return GiveUpRule(self.retry_times + 1, self.backoff)

    def backoff(self, attempts: int) -> float:
        """Seconds to wait before the page is fetched again after *attempts* leases (`backoffs.backoff`)."""
        return backoff(attempts)


class _Asked(Settings):
    """Settings that remember which of them somebody asked for."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        super().__init__()

    def __getitem__(self, name: Any) -> Any:
        self.names.add(name)
        return super().__getitem__(name)


def unknown_names(settings: BaseSettings) -> list[tuple[str, str]]:
    """Names in *settings* that look like ours and are not, each with the one likely meant, or nothing.

    A millisecond, where there is any that looks like ours.
    """
    given = sorted(name for name in settings if str(name).startswith(PREFIX))
    if not given:
        return []
    asked = _Asked()
    FrontierSettings(asked)
    known = [name.removeprefix(PREFIX) for name in asked.names if name.startswith(PREFIX)]
    found = []
    for name in given:
        if name not in asked.names:
            likely = get_close_matches(name.removeprefix(PREFIX), known, 1)
            found.append((name, PREFIX + likely[0] if likely else ""))
    return found


def has_our_scheduler(settings: BaseSettings) -> bool:
    """Whether ``SCHEDULER`` is ours, or one made of it."""
    scheduler, ours = load_object(settings["SCHEDULER"]), load_object("scrapy_frontier.FrontierScheduler")
    return ours in getattr(scheduler, "__mro__", ())  # to `issubclass` whatever has its methods is one


def _domain_rates(settings: BaseSettings, name: str) -> DomainRates:
    """The soft and the hard rate, of a number (the soft one) or a pair."""
    value = settings.get(name, 0.0)
    rates = (
        value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
    )
    if not 1 <= len(rates) <= 2:
        raise FrontierSetting(f"{name} = {value!r}: set one number of pages a second, or two: soft,hard")
    expected = "pages a second of a domain, as a number or as soft,hard; 0 for no limit"
    return DomainRates(*(within(name, rate, float, 0.0, inf, expected) for rate in rates))


def _scorer(settings: BaseSettings) -> str:
    value = settings.get("FRONTIER_SCORER", "fifo")
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if not isinstance(value, str) or (value not in SCORERS and "." not in value):
        raise FrontierSetting(
            f"FRONTIER_SCORER = {value!r}: set one of {', '.join(map(repr, SCORERS))}, or the path of a class"
        )
    return value


def _clock(settings: BaseSettings) -> Callable[[], float] | None:
    clock = settings.get("FRONTIER_CLOCK")
    return None if clock is None else function("FRONTIER_CLOCK", clock, "a function that returns seconds")


def time_of(clock: Callable[[], float]) -> float:
    """What *clock*, that of the settings, says now. Raises `FrontierSetting` where that is no time that a
    frontier can hold."""
    now = clock()
    if not isinstance(now, float | int) or not 0 <= now <= LATEST:
        raise FrontierSetting(
            f"FRONTIER_CLOCK says that it is {now!r}: let it return POSIX seconds, from 0 to {LATEST:,}"
        )
    return now


def default_politeness(settings: BaseSettings, spider: Any = None) -> Politeness:
    """Scrapy's own settings for a host that has none of its own. Raises `FrontierSetting` where no host may
    ever be asked.

    The delay is a floor: jitter is obeyed where somebody set it, and then only lengthens a pause.
    """
    delay = float(getattr(spider, "download_delay", of_scrapy(settings, "DOWNLOAD_DELAY", float)))
    if switch(settings, "AUTOTHROTTLE_ENABLED", False):
        delay = max(delay, of_scrapy(settings, "AUTOTHROTTLE_START_DELAY", float))
    name = "CONCURRENT_REQUESTS_PER_IP"
    if not within(name, settings[name] or 0, int, 0, sys.maxsize, "a whole number"):
        name = "CONCURRENT_REQUESTS_PER_DOMAIN"
    concurrency = within(name, settings[name], int, 1, sys.maxsize, _CONCURRENCY)
    return Politeness(max(delay, 0.0), concurrency, _jitter(settings))


def slot_politeness(settings: BaseSettings, default: Politeness) -> dict[str, Politeness]:
    """Hosts with a delay, concurrency or jitter of their own, by `DOWNLOAD_SLOTS`; what a slot does not say
    is as *default* has it. Raises `FrontierSetting`."""
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
    """The jitter somebody set; Scrapy's default of 0.5 would send requests before their time."""
    old, new = (
        settings.getpriority(name) or 0 for name in ("RANDOMIZE_DOWNLOAD_DELAY", "DOWNLOAD_DELAY_JITTER")
    )
    if new > 0 and new >= old:
        return max(of_scrapy(settings, "DOWNLOAD_DELAY_JITTER", float), 0.0)
    return 0.5 if old > 0 and switch(settings, "RANDOMIZE_DOWNLOAD_DELAY", False) else 0.0
