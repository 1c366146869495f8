"""Logs what a crawl leaves out that Scrapy's own scheduler and middlewares would have kept.

`KINDS` lists every kind of item, link and request that may be left out. The code that refuses one calls
`LeftOut.add`, which counts all, and logs the first of each kind with its URL and the setting that would keep
it; one line at the end of the crawl sums them up.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary, proxy

from scrapy import signals

from ..core.reasons import LONGEST_URL

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from ..core.parse.directives import ChainRefusal

logger = logging.getLogger(__name__)

_NO_SETTING = "no setting"
_NOFOLLOW = "FRONTIER_NOFOLLOW = []"
_NO_TRAPS = "FRONTIER_TRAPS = False"
_NEXT_RUN = "JOBDIR, with which they wait for the next run, or FRONTIER_END_WAIT"


class LeftOutKind(NamedTuple):
    """A kind of thing that is left out: its *name* in the singular, and what *changes* that."""

    name: str
    changes: str


# By the stat that counts it.
KINDS = {
    "frontier/noindex/items": LeftOutKind("noindex item", 'FRONTIER_NOINDEX = "ignore"'),
    "frontier/left_out/noindex_pages": LeftOutKind(
        "noindex page", 'FRONTIER_NOINDEX = "drop-items" or "ignore"'
    ),
    "frontier/nofollow/links": LeftOutKind("nofollow link", _NOFOLLOW),
    "frontier/nofollow/rel": LeftOutKind("nofollow link", _NOFOLLOW),
    "frontier/pattern/links": LeftOutKind(
        "off-pattern link", "frontier_pattern in the meta of the request for its page"
    ),
    "frontier/redirects/refused/hosts": LeftOutKind("refused redirect", _NO_SETTING),
    "frontier/redirects/refused/loop": LeftOutKind("refused redirect", _NO_SETTING),
    "frontier/redirects/refused/private": LeftOutKind("refused redirect", "FRONTIER_ALLOW_PRIVATE = True"),
    "frontier/left_out/known": LeftOutKind(
        "known page",
        "frontier_every_run in the meta of a seed, FRONTIER_REVISIT or `scrapy frontier requeue`",
    ),
    "frontier/left_out/unchanged": LeftOutKind("unchanged page", 'FRONTIER_UNCHANGED = "call"'),
    "frontier/deferred": LeftOutKind("over-budget page", "FRONTIER_HOST_PAGES"),
    "frontier/over_budget": LeftOutKind("over-budget page", "FRONTIER_HOST_PAGES"),
    "frontier/traps/length": LeftOutKind("trap-like link", "URLLENGTH_LIMIT"),
    "frontier/traps/depth": LeftOutKind("trap-like link", _NO_TRAPS),
    "frontier/traps/repeated_segments": LeftOutKind("trap-like link", _NO_TRAPS),
    "frontier/traps/session": LeftOutKind("session id", 'FRONTIER_SESSION_IDS = "keep"'),
    "frontier/foreign": LeftOutKind("cross-shard link", "a callback that is a method of the spider"),
    "frontier/left_out/downloads": LeftOutKind("forbidden download", "ROBOTSTXT_OBEY = False"),
    "frontier/left_out/given_up": LeftOutKind("given-up page", _NEXT_RUN),
    "frontier/left_out/blocked": LeftOutKind("blocked page", "`scrapy frontier unblock`"),
    "frontier/left_out/next_run": LeftOutKind("postponed page", "FRONTIER_END_WAIT"),
    "frontier/left_out/attempts_used_up": LeftOutKind("failed attempt", "FRONTIER_MAX_ATTEMPTS"),
}


class LeftOut:
    """What one crawl leaves out; see `left_out_of`."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = proxy(crawler)  # which is the key of this object
        self._counts: Counter[str] = Counter()
        crawler.signals.connect(self._sum_up, signals.spider_closed)

    def add(self, name: str, what: object, why: str) -> None:
        """Count what is left out, by the *name* of its kind in `KINDS`; tell the first, *what* it is and
        *why*. 2 us."""
        if name not in self._counts:
            words = "Left out %s: %s; %s changes that (said once, and counted in %s)"
            self._log(words, str(what)[:LONGEST_URL], why, KINDS[name].changes, name)
        self.count(name, 1)

    def count(self, name: str, number: int) -> None:
        """Count so many things of a kind, of which the log tells elsewhere."""
        if number:
            self._counts[name] += number
            self._crawler.stats.inc_value(name, number)

    def _sum_up(self) -> None:
        """Log how much there is of each kind, under its name."""
        sums: Counter[str] = Counter()
        for name, kind in KINDS.items():
            sums[kind.name] += self._counts[name]
        told = [f"{count:,} {name}{'s' if count > 1 else ''}" for name, count in sums.items() if count]
        if told:
            self._log("Less than Scrapy would have fetched: %s", ", ".join(told))

    def _log(self, words: str, *values: object) -> None:
        logger.info(words, *values, extra={"spider": self._crawler.spider})


_by_crawler: WeakKeyDictionary[Crawler, LeftOut] = WeakKeyDictionary()


def left_out_of(crawler: Crawler) -> LeftOut:
    """Return what the crawl of *crawler* leaves out, with any scheduler."""
    found = _by_crawler.get(crawler)
    if found is None:
        found = _by_crawler[crawler] = LeftOut(crawler)
    return found


def refuse_redirect(crawler: Crawler, refusing: ChainRefusal, target: object) -> None:
    """Count a redirect to *target* that is refused. Chains that are too long, or lead to another scheme than
    http, Scrapy does not follow either."""
    crawler.stats.inc_value("frontier/redirects/refused")
    name = f"frontier/redirects/refused/{refusing.name}"
    if name in KINDS:
        left_out_of(crawler).add(name, target, refusing.reason)
    else:
        crawler.stats.inc_value(name)
