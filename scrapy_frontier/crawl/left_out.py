"""Tells what a crawl leaves out that Scrapy's own scheduler and middlewares would have kept.

`KINDS` is the one list of what is left out: items, links and requests. The places that refuse something call
`LeftOut.add`, which tells the first of each kind, with its URL and the setting that changes it, and counts
all; one line at the end sums them up.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary, proxy

from scrapy import signals

from ..core import reasons
from ..core.reasons import LONGEST_URL

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from ..core.parse.directives import ChainRefusal
    from ..core.reasons import Reason

logger = logging.getLogger(__name__)

_NO_SETTING = "no setting"
_NOFOLLOW = "FRONTIER_NOFOLLOW = []"
_NEXT_RUN = "JOBDIR, with which they wait for the next run, or FRONTIER_END_WAIT"


class LeftOutKind(NamedTuple):
    """A kind of thing that is left out: its name for *one* and for *many*, what *changes* that, and the
    reasons that records of pages and logs give for it."""

    one: str
    many: str
    changes: str
    reasons: tuple[Reason, ...] = ()


# By the stat that counts it.
KINDS = {
    "frontier/noindex/items": LeftOutKind(
        "noindex item", "noindex items", 'FRONTIER_NOINDEX = "ignore"', (reasons.NOINDEX,)
    ),
    "frontier/left_out/noindex_pages": LeftOutKind(
        "noindex page", "noindex pages", 'FRONTIER_NOINDEX = "drop-items" or "ignore"', (reasons.SKIPPED,)
    ),
    "frontier/nofollow/links": LeftOutKind(
        "nofollow link", "nofollow links", _NOFOLLOW, (reasons.NOFOLLOW, reasons.NOFOLLOW_PAGE)
    ),
    "frontier/nofollow/rel": LeftOutKind(
        "nofollow link", "nofollow links", _NOFOLLOW, (reasons.NOFOLLOW_LINK,)
    ),
    "frontier/pattern/links": LeftOutKind(
        "link outside a pattern",
        "links outside a pattern",
        "frontier_pattern in the meta of the request for its page",
        (reasons.OUTSIDE,),
    ),
    "frontier/redirects/refused/hosts": LeftOutKind("refused redirect", "refused redirects", _NO_SETTING),
    "frontier/redirects/refused/loop": LeftOutKind("refused redirect", "refused redirects", _NO_SETTING),
    "frontier/redirects/refused/growing": LeftOutKind("refused redirect", "refused redirects", _NO_SETTING),
    "frontier/redirects/refused/private": LeftOutKind(
        "refused redirect",
        "refused redirects",
        "FRONTIER_ALLOW_PRIVATE = True",
        (reasons.PRIVATE, reasons.NOT_FOLLOWED),
    ),
    "frontier/left_out/known": LeftOutKind(
        "page known from an earlier run",
        "pages known from an earlier run",
        "frontier_every_run in the meta of a seed, FRONTIER_REVISIT or `scrapy frontier requeue`",
    ),
    "frontier/left_out/unchanged": LeftOutKind(
        "callback of an unchanged page", "callbacks of unchanged pages", 'FRONTIER_UNCHANGED = "call"'
    ),
    "frontier/deferred": LeftOutKind(
        "page over a budget",
        "pages over a budget",
        "FRONTIER_HOST_PAGES or FRONTIER_HOST_PENDING",
        (reasons.BUDGET, reasons.BEHIND),
    ),
    "frontier/over_budget": LeftOutKind("page over a budget", "pages over a budget", "FRONTIER_HOST_PAGES"),
    "frontier/traps/length": LeftOutKind("link like a trap", "links like traps", "URLLENGTH_LIMIT"),
    "frontier/traps/depth": LeftOutKind("link like a trap", "links like traps", "FRONTIER_TRAPS = False"),
    "frontier/traps/repeated_segments": LeftOutKind(
        "link like a trap", "links like traps", "FRONTIER_TRAPS = False"
    ),
    "frontier/traps/session": LeftOutKind(
        "session id in a link", "session ids in links", 'FRONTIER_SESSION_IDS = "keep"'
    ),
    "frontier/left_out/downloads": LeftOutKind(
        "download from a site with an unreadable robots.txt",
        "downloads from sites with an unreadable robots.txt",
        "ROBOTSTXT_OBEY = False",
        (reasons.ROBOTS_UNREADABLE, reasons.ROBOTS_UNKNOWN, reasons.ROBOTS_HOURS),
    ),
    "frontier/left_out/given_up": LeftOutKind(
        "page of a host that does not answer",
        "pages of hosts that do not answer",
        _NEXT_RUN,
        (
            *(reasons.CONNECTION_REFUSED, reasons.NO_SUCH_NAME, reasons.TIMED_OUT, reasons.CONNECTION_LOST),
            *(reasons.NOT_SENT, reasons.ROBOTS_STATUS, reasons.PAUSE_TOO_LONG, reasons.DELAY),
            *(reasons.RESTS_AFTER, reasons.RESTS, reasons.COOLDOWN_UNREADABLE),
        ),
    ),
    "frontier/left_out/blocked": LeftOutKind(
        "page of a blocked host", "pages of blocked hosts", "`scrapy frontier unblock`", (reasons.BLOCKED,)
    ),
    "frontier/left_out/next_run": LeftOutKind(
        "page left to the next run", "pages left to the next run", "FRONTIER_END_WAIT"
    ),
    "frontier/left_out/attempts_used_up": LeftOutKind(
        "retry too many", "retries too many", "FRONTIER_MAX_ATTEMPTS", (reasons.ATTEMPTS_USED_UP,)
    ),
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
        sums: dict[tuple[str, str], int] = {}
        for name, kind in KINDS.items():
            if count := self._counts[name]:
                words = kind.one, kind.many
                sums[words] = sums.get(words, 0) + count
        told = [f"{count:,} {one if count == 1 else many}" for (one, many), count in sums.items()]
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
