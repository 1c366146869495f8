"""Looks into a frontier and changes it, by hand: for commands, extensions, notebooks and the dashboard.

`FrontierEdits` is for any open frontier, that of a stopped crawl or of one that is running. `RunningFrontier`
is ``crawler.engine.scheduler.frontier``.
"""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import Request
from scrapy.exceptions import UsageError

from ..core.admin import database_files, explain, facts
from ..core.errors import UnreadableRow
from ..core.frontier import Link, LinkVerdict
from ..core.parse.urls import escaped_fragment, host_of
from ..core.store.records import RequestFacts
from ..settings import default_politeness, slot_politeness
from . import scrapy_internals
from .codec import fingerprint_in, is_plain_get, meta_in, meta_payload
from .fingerprints import plain_fingerprint
from .meta_keys import FORCE, PATTERN
from .meta_values import is_forced, meta_to_force

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from scrapy.settings import BaseSettings

    from ..core.frontier import Frontier, PageId
    from ..core.hosts.host import HostClock
    from ..core.store.queue_keys import QueuePlace
    from ..core.store.records import Page, Totals
    from ..settings import FrontierSettings
    from .assembly import Crawl
    from .codec import Codec
    from .fingerprints import Identities

_NEAR = 1000  # pages in a queue that `why` walks: 3 ms
STOPPED = "stopped"  # the reason with which `stop` closes the spider


class Added(NamedTuple):
    """How many pages `add` queued, how many were known and stay as they are, and what was no URL."""

    new: int
    known: int
    refused: list[str]


def compiled(pattern: str | None) -> re.Pattern[str] | None:
    """Returns a regular expression that a user wrote; None for None. Raises `UsageError`."""
    try:
        return None if pattern is None else re.compile(pattern)
    except re.error as error:
        problem = f"{pattern!r} is no regular expression ({error})"
        raise UsageError(f"{problem}; put \\ before what is meant as it stands") from None


def request_for(url: str, settings: FrontierSettings, priority: int = 0) -> Request:
    """Returns a plain request for a URL that a user wrote, in the form in which servers see it.

    Raises `UsageError` for what is no URL. It need not name a host: pages of ``file:`` have none.
    """
    try:
        request = Request(url.strip(), priority=priority)
        if settings.ajax and (seen := escaped_fragment(request.url)) is not None:
            request = Request(seen, priority=priority)
    except ValueError:
        raise UsageError(f"{url!r} is no URL; write it with its scheme: https://example.com/") from None
    return request


def request_of_host(url: str, settings: FrontierSettings, priority: int = 0) -> Request:
    """Returns `request_for` a URL. Raises `UsageError` if it names no host: no crawl may fetch a ``file:``
    URL that its spider did not ask for."""
    request = request_for(url, settings, priority)
    if not host_of(request.url):
        raise UsageError(f"{url!r} names no host; write it with one: https://example.com/")
    return request


def requests_of_hosts(
    urls: Iterable[str], settings: FrontierSettings, priority: int = 0
) -> tuple[list[Request], list[str]]:
    """Returns `request_of_host` for each of *urls*, and those that are no URL of a host."""
    requests, refused = list[Request](), list[str]()
    for url in urls:
        try:
            url.encode()  # bytes that are no UTF-8
            requests.append(request_of_host(url, settings, priority))
        except (UsageError, UnicodeEncodeError):  # noqa: PERF203 - a line of a file each
            refused.append(url)
    return requests, refused


def fingerprint_of(page: Page, identities: Identities, codec: Codec) -> bytes | None:
    """Returns the fingerprint of the request of *page*, as it was before any retry changed it; None if it
    cannot be rebuilt. 2 us for a plain GET, else 40."""
    if identities.is_default and is_plain_get(page.payload):
        plain = plain_fingerprint(page.url)
        if plain is not None:
            return plain
    try:
        # Callbacks name methods of the spider, and no fingerprint depends on them.
        return fingerprint_in(page.payload) or identities.of(
            codec.decode(page.url, page.priority, page.payload, with_callbacks=False)
        )
    except Exception:  # a Request class of the project may raise anything
        return None


def delays_by_settings(settings: BaseSettings, spider: object) -> facts.DelayOf:
    """Returns a function that gives the delay of a host by the *settings*, in seconds, and the setting it
    comes from. Raises `FrontierSetting`."""
    default = default_politeness(settings, spider)
    slots = slot_politeness(settings, default)

    def delay_of(host: str) -> tuple[float, str]:
        return (slots[host].delay, "DOWNLOAD_SLOTS") if host in slots else (default.delay, "DOWNLOAD_DELAY")

    return delay_of


def robots_agent(settings: BaseSettings) -> str:
    """Returns the user agent by which a crawl obeys robots.txt; empty if it does not (``ROBOTSTXT_OBEY``)."""
    if not settings.getbool("ROBOTSTXT_OBEY"):
        return ""
    return str(settings["ROBOTSTXT_USER_AGENT"] or settings["USER_AGENT"] or "")


@dataclass(eq=False, repr=False)
class FrontierEdits:
    """Changes *frontier* as an operator asks: each method commits what it changed.

    *politeness_key_of* returns the name of the queue of a URL, *fingerprint_of* the fingerprint of a page's
    request, *clock* POSIX seconds. All raise `FrontierUnwritable`.
    """

    _frontier: Frontier
    _settings: FrontierSettings
    _identities: Identities
    _politeness_key_of: Callable[[str], str]
    _fingerprint_of: Callable[[Page], bytes | None]
    _clock: Callable[[], float]

    def add(
        self, urls: Iterable[str], priority: int = 0, pattern: str | None = None, force: bool = False
    ) -> Added:
        """Queues the pages of *urls*. From there on only links that match *pattern* are followed; with
        *force* a known page is fetched again."""
        compiled(pattern)
        now, links = self._clock(), list[Link]()
        meta: dict[str, Any] = {} if pattern is None else {PATTERN: pattern}
        meta |= meta_to_force(now) if force else {}
        payload, facts = meta_payload(meta), RequestFacts(has_pattern=pattern is not None, is_added=True)
        requests, refused = requests_of_hosts(urls, self._settings, priority)
        for request in requests:
            host, fingerprint = self._politeness_key_of(request.url), self._identities.of(request)
            links.append(Link(fingerprint, request.url, host, priority, payload, facts=facts))
        queued = sum(self._queue(links, meta, now))
        self._commit()
        return Added(queued, len(links) - queued, refused)

    def _queue(self, links: list[Link], meta: dict[str, Any], now: float) -> Iterator[bool]:
        """Yields for each of *links* whether its page was queued.

        With *meta* a known page gets the new request, too; so does one whose request was in the memory of a
        crawl that has ended.
        """
        frontier = self._frontier
        for link, answer in zip(links, frontier.discover(links, now), strict=True):
            page_id = answer.page_id
            if (
                answer.verdict is LinkVerdict.ABSENT
                and page_id is not None
                and not self._has_in_memory(page_id)
            ):
                yield frontier.replace_request(page_id, link, is_lost=True)
                continue
            known = frontier.page(page_id) if meta and page_id is not None else None
            if known is None or page_id is None or answer.is_taken:
                yield answer.is_taken
            elif is_forced(meta, known) and frontier.requeue(page_id, now, link):
                yield True
            else:
                frontier.replace_request(page_id, link)
                yield False

    def _has_in_memory(self, page_id: PageId) -> bool:
        """Whether this process has the request of a page whose row says that only a process has it."""
        return False

    def requeue(self, page_ids: Iterable[PageId], force: bool = False) -> int:
        """Queues finished pages again, without their attempts; returns how many. With *force* they are
        fetched though they have not changed. Some 0.1 ms each."""
        frontier, now, count = self._frontier, self._clock(), 0
        asked = meta_to_force(now)[FORCE] if force else None
        for page_id in page_ids:
            page = frontier.page(page_id)
            if page is not None:
                about = page.facts if asked is None else page.facts._replace(force=asked)
                count += frontier.requeue(page_id, now, facts=about)
        self._commit()
        return count

    def _commit(self) -> None:
        self._frontier.commit()

    def forget(self, page_id: PageId, place: QueuePlace | None = None) -> bool:
        """Removes all that is known of a page; false if it is being fetched, or unknown. Takes time with the
        queue of its host, unless its *place* in there is given."""
        return self._frontier.forget(page_id, self._fingerprint_of, self._clock(), place)

    def forget_host(self, host: str) -> Iterator[int]:
        """Removes all pages of a host, in steps of some milliseconds that yield how many are gone."""
        return self._frontier.forget_host(host, self._fingerprint_of, self._clock())

    def block(self, host: str) -> None:
        """Has no more pages of a host handed out; they stay queued."""
        self._frontier.block(host, self._clock())

    def unblock(self, host: str) -> bool:
        """Ends a block, or a rest after trouble; false if there was none."""
        return self._frontier.unblock(host, self._clock())

    def delay(self, host: str, seconds: float | None = None) -> None:
        """Has so many seconds kept between two requests to a host, whatever others ask for; None ends that.
        Raises `ValueError` for what is no length of time."""
        if seconds is not None and not 0 <= seconds < float("inf"):
            raise ValueError(f"{seconds!r} is no delay: write seconds, 0 or more")
        self._frontier.order_delay(host, seconds, self._clock())


class RunningFrontier(FrontierEdits):
    """The frontier of a running crawl: ``crawler.engine.scheduler.frontier``. For the thread of the event
    loop.

    A host is named by its queue, as `hosts` does. Nothing takes more than some milliseconds, but for long
    arguments of `add` and `requeue`: hand these over in parts.
    """

    def __init__(self, crawl: Crawl) -> None:
        identities, codec = crawl.identities, crawl.requests.codec
        super().__init__(
            crawl.frontier,
            crawl.settings,
            identities,
            crawl.politeness_keys.of,
            lambda page: fingerprint_of(page, identities, codec),
            crawl.clock,
        )
        self._crawl = crawl
        self._agent = robots_agent(crawl.crawler.settings)

    # -- looking ---------------------------------------------------------------------------------------

    def counts(self) -> Totals:
        """Returns the pages by state, attempts, hosts and so on of all runs; by kept counters."""
        return self._frontier.totals()

    def hosts(self, most: int = 20) -> list[facts.HostView]:
        """Returns the hosts with most queued pages, of those in memory, with their clocks; 50 us each."""
        now = self._clock()
        self._frontier.commit()
        pause_of = self._pauses(now)
        largest = heapq.nlargest(most, self._frontier.awake_hosts(), key=attrgetter("queued"))
        return [facts.find_host(self._crawl.store, host.name, pause_of, now) for host in largest]

    def why(self, url: str) -> str:
        """Returns a sentence on why the page of *url* is in its state. Raises `UsageError` for what is no
        URL."""
        crawl, now = self._crawl, self._clock()
        request = request_for(url, self._settings)
        page_id = self._frontier.find(self._identities.of(request))
        try:
            page = None if page_id is None else self._frontier.page(page_id)
        except UnreadableRow:
            return explain.why_unreadable(page_id or 0)
        if page is None or page_id is None:
            return explain.why_unknown(request.url, self._settings.traps)
        attempts = self._settings.attempts_for(meta_in(page.payload))
        found = explain.gather(
            crawl.store, page_id, page, self._pauses(now), attempts, now, self._agent, _NEAR
        )
        return explain.why(found._replace(leased_at=self.under_way().get(page_id)))

    def _pauses(self, now: float) -> facts.PauseOf:
        crawl = self._crawl
        delay_of, agent = delays_by_settings(crawl.crawler.settings, crawl.spider), self._agent
        return facts.pauses(crawl.store, delay_of, agent, now, lambda host: self._frontier.clock(host, now))

    def _has_in_memory(self, page_id: PageId) -> bool:
        return page_id in self._crawl.requests.in_memory

    def under_way(self) -> dict[PageId, float]:
        """Returns the pages that are being fetched, and since when each is (POSIX seconds)."""
        return {lease.page_id: lease.leased_at for lease in self._frontier.leases()}

    def clocks(self) -> Iterator[tuple[str, HostClock | None]]:
        """Yields the clocks of the hosts in memory, 1 us each; None for one whose rows tell it."""
        now = self._clock()
        for host in list(self._frontier.awake_hosts()):
            yield host.name, self._frontier.clock(host.name, now)

    async def copy(self) -> Path:
        """Returns a new directory with the database as it is now, made in a thread; the caller removes it."""
        self._frontier.commit()
        return await scrapy_internals.in_thread(database_files.copy, self._crawl.store.directory)

    # -- steering --------------------------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        """Whether `pause` was called, and no `resume` since."""
        return self._crawl.is_paused

    def pause(self) -> None:
        """Hands out no more requests until `resume`: those under way end, and the spider stays open."""
        self._crawl.is_paused = True

    def resume(self) -> None:
        """Goes on after `pause`."""
        self._crawl.is_paused = False
        scrapy_internals.wake(self._crawl.crawler)

    def stop(self) -> None:
        """Closes the spider, as Ctrl-C does, with the reason "stopped"; what is queued stays queued."""
        scrapy_internals.close_spider(self._crawl.crawler, STOPPED)


class OrderedShard(RunningFrontier):
    """A shard of a shared crawl, for the orders of a letter: what `add` and `requeue` change is committed by
    the reader of the letter, together with its end."""

    def __init__(self, crawl: Crawl, shard: Frontier) -> None:
        super().__init__(crawl)
        self._frontier = shard

    def _commit(self) -> None:
        pass
