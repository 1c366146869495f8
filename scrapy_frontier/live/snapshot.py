"""The state of a running crawl, as the dashboard asks for it each second: from stats and memory, no scan.

A short history is sampled beside the crawl, so that a page that is opened late shows how the crawl began.
"""

from __future__ import annotations

import heapq
import os
import resource
import sys
import time
from collections import Counter
from contextlib import suppress
from itertools import islice
from math import isfinite
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.hosts.host import FOREVER, FROM_SETTINGS, HostState, deciding
from ..core.store.keys import FINISHED
from ..crawl import scrapy_internals

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from ..core.hosts.host import Host
    from ..crawl.assembly import Crawl

SAMPLES = 600  # kept; when there are more, every second one goes
HOSTS = 100  # told of, those first that have something to tell
PAGES = 8  # under way, and next
_SHARE = 0.01  # of the time, at most, goes into looking at all hosts
_MOST_DEFERRED = 1000  # pages that wait for room in a budget are counted so far
_PAGES_OF_STATES = [state.name.lower() for state in FINISHED]
_ENDS = "PAGECOUNT", "ITEMCOUNT", "ERRORCOUNT", "TIMEOUT"  # of Scrapy: CLOSESPIDER_...


class Snapshot:
    """What there is to see of *crawl*, from construction until `stop`."""

    def __init__(self, crawler: Crawler, crawl: Crawl) -> None:
        self._crawler = crawler
        self._crawl = crawl
        self._began = time.time()
        self._samples: list[tuple[float, ...]] = []
        self._sampler = scrapy_internals.create_looping_call(self._sample)
        self._interval = 1.0  # seconds between two samples that are kept
        self._hosts: dict[str, Any] = {}
        self._coming: list[Host] = []
        self._hosts_until = 0.0
        settings = crawler.settings
        self._limits = {name: settings.getfloat(f"CLOSESPIDER_{name}") for name in _ENDS}
        self._limits["MEMORY"] = settings.getint("MEMUSAGE_LIMIT_MB") << 20
        self._limits["host_pages"] = crawl.settings.host_pages
        self._sampler.start(1.0, now=True)

    def stop(self) -> None:
        """Ends sampling."""
        if self._sampler.running:
            self._sampler.stop()

    def _sample(self) -> None:
        now, stats = time.time(), self._crawler.stats
        assert stats is not None
        if self._samples and now < self._samples[-1][0] + self._interval * 0.9:
            return
        states = self._crawl.frontier.totals().states
        finished = sum(states[name] for name in _PAGES_OF_STATES)
        pages = stats.get_value("response_received_count", 0)
        received = stats.get_value("downloader/response_bytes", 0)
        counts = pages, received, sum(states.values()), states["queued"], finished
        self._samples.append((round(now, 2), *counts))
        if len(self._samples) > SAMPLES:
            del self._samples[1:-1:2]
            self._interval *= 2

    def state(self, since: float = 0.0) -> dict[str, Any]:
        """Returns the state as a JSON document, with the samples that are newer than *since* (POSIX
        seconds)."""
        crawler, crawl, frontier, now = self._crawler, self._crawl, self._crawl.frontier, self._crawl.clock()
        stats = crawler.stats.get_stats() if crawler.stats is not None else {}
        self._look_at_hosts(now)
        leases = sorted(frontier.leases(), key=lambda lease: lease.leased_at)
        coming = [(host, frontier.next_page(host)) for host in self._coming]
        return {
            "spider": crawler.spider.name if crawler.spider is not None else "",
            "now": now,
            "began": self._began,  # by the clock of the machine, as the samples; all else by the crawl's
            "elapsed": time.time() - self._began,
            "state": self._doing(),
            "states": frontier.totals().states,
            "leased": frontier.leased,
            "interval": self._interval,
            "samples": [sample for sample in self._samples if sample[0] > since],
            **self._hosts,
            "next": [{"url": page.url, "at": _opens_at(host)} for host, page in coming if page is not None],
            "under_way": [{"url": lease.page.url, "since": lease.leased_at} for lease in leases[:PAGES]],
            "stats": {name: value for name, value in stats.items() if _is_number(value)},
            "limits": {name: most for name, most in self._limits.items() if most},
            "over_limits": frontier.waiting_for_room(_MOST_DEFERRED) if crawl.settings.host_pages else 0,
            "memory": memory(),
        }

    def _doing(self) -> str:
        crawler, frontier = self._crawler, self._crawl.frontier
        if scrapy_internals.is_closing(crawler):
            return "closing"
        if self._crawl.is_paused or (crawler.engine is not None and crawler.engine.paused):
            return "paused"
        may_go_on = any(self._hosts["kinds"][kind] for kind in ("ready", "busy", "delayed"))
        return "running" if may_go_on or frontier.leased or not frontier.pending else "waiting"

    def figures(self) -> dict[str, float]:
        """Returns what metrics tell and stats do not: hosts of each kind, requests under way, memory."""
        self._look_at_hosts(self._crawl.clock())
        kinds = {f"hosts/{kind}": count for kind, count in self._hosts["kinds"].items()}
        return {**kinds, "under_way": self._crawl.frontier.leased, "memory_bytes": memory()}

    def _look_at_hosts(self, now: float) -> None:
        """Finds out how many hosts there are of each kind, the hosts with most to tell, and those that come
        next. O(hosts in memory), 1 us each; so seldom that it takes a hundredth of the time."""
        if time.monotonic() < self._hosts_until:
            return
        began = time.perf_counter()
        frontier = self._crawl.frontier
        hosts = list(frontier.awake_hosts())
        resting = [host for host in hosts if _rests(host, now)]
        counts = Counter(host.state for host in hosts)
        counts.subtract(host.state for host in resting)
        kinds = {state.value: counts[state] for state in HostState} | {"resting": len(resting)}
        kinds["ready"] += frontier.hosts - len(hosts)  # those that are kept compact
        shut = [host for host in hosts if host.is_blocked or (host.held_for and host.held_until > now)]
        largest = heapq.nlargest(HOSTS, hosts, key=attrgetter("queued"))
        chosen = {host.name: host for host in (*resting[:HOSTS], *shut[:HOSTS], *largest)}
        offers = [host for host in hosts if host.head is not None and not host.is_blocked]
        ready = [host for host in offers if host.state is HostState.READY]
        coming = heapq.nsmallest(PAGES, ready, key=attrgetter("head"))
        if len(coming) < PAGES:
            others = (host for host in offers if host.state is not HostState.READY)
            coming += heapq.nsmallest(PAGES - len(coming), others, key=_opens_at)
        self._coming = [host for host in coming if _opens_at(host) < FOREVER]
        self._hosts = {
            "kinds": kinds,
            "hosts_in_memory": frontier.hosts,
            "hosts": [_told(host, now) for host in islice(chosen.values(), HOSTS)],
        }
        self._hosts_until = time.monotonic() + (time.perf_counter() - began) / _SHARE


def _rests(host: Host, now: float) -> bool:
    """Tells whether a host is left alone after trouble."""
    is_cooling = host.cooldown is not None and host.cooldown.until > now
    return (is_cooling or bool(host.given_up)) and not host.is_blocked


def _opens_at(host: Host) -> float:
    """Returns when a host may be asked for a page (POSIX seconds), as far as that is known."""
    return max(host.ready_at, host.held_until)


def _why(host: Host, kind: str) -> str:
    """Says what keeps a host from being asked, in words; empty if nothing does."""
    if kind == "blocked":
        return "blocked by you"
    if kind == "resting":
        given_up = next(iter(host.given_up.values()), None)
        if given_up is not None:
            return f"given up: {given_up.trouble.reason}"
        rest = host.cooldown
        return "" if rest is None else f"{rest.reason}, {rest.strikes} in a row"
    if kind == "held":
        return host.held_for.reason if host.held_for is not None else "reading its robots.txt"
    return ""


def _told(host: Host, now: float) -> dict[str, Any]:
    kind = "resting" if _rests(host, now) else host.state.value
    delay, until = deciding(host.asked), _opens_at(host)
    return {
        "host": host.name,
        "kind": kind,
        "why": _why(host, kind),
        "until": until if now < until < FOREVER else None,
        "queued": host.pages,
        "under_way": host.in_flight,
        "ok": host.done - host.excluded,
        "errors": host.failed,
        "excluded": host.excluded,
        "deferred": host.deferred,
        "delay": host.delay,
        "delay_from": "settings" if delay.source == FROM_SETTINGS else delay.source,
    }


def _is_number(value: object) -> bool:
    """Tells whether a stat is a number that JSON knows."""
    return isinstance(value, int | float) and isfinite(value)


def memory() -> int:
    """Returns the bytes of memory that this process has now; on systems without ``/proc`` the most it had."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
