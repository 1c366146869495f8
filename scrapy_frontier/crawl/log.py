"""What a crawl tells of itself: how it begins and goes on, whom it waits for and gives up, what is left.

What the scheduler tells: counts for the stats, and log lines that are said once.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import FrontierError, moment
from ..core.hosts.host import FOREVER
from ..core.pages.traps import TRAPS
from ..settings import PREFIX, unknown_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy import Spider
    from scrapy.settings import BaseSettings
    from scrapy.statscollectors import StatsCollector

    from ..core.frontier import Frontier
    from ..core.hosts.budgets import Limits
    from ..core.hosts.trouble import Left


def refusal_stat(kind: str) -> str:
    """The stat that counts the refusals of a *kind*, as `Discovered.kind` names it."""
    return f"frontier/traps/{kind}" if kind in TRAPS else f"frontier/{kind}"


def inventory(states: Mapping[str, int]) -> str:
    """What a frontier holds, in words, from the number of pages in each state by its name."""
    rest = f": {others(states)}" if others(states) else ""
    return f"{sum(states.values())} pages known, {states['queued']} queued{rest}"


def others(states: Mapping[str, int]) -> str:
    """How many pages are in which state, those aside that are queued: ``55 done, 1 failed``."""
    return ", ".join(f"{count} {state}" for state, count in states.items() if count and state != "queued")


class Reporter:
    """``tally`` counts this run; `report` brings the stats up to date.

    A call of the stats collector for every link would cost more than the link does.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self.spider: Spider | None = None
        self.tally: defaultdict[str, int] = defaultdict(int)
        self._reported: dict[str, int] = {}  # of the tally
        self._logger = logger
        self._logged: set[str] = set()

    def log(self, level: int, message: str, *values: Any, exc_info: bool = False) -> None:
        """Log *message* % *values* at *level*, as a line of the spider's; with the traceback if
        *exc_info*."""
        self._logger.log(level, message, *values, exc_info=exc_info, extra={"spider": self.spider})

    def log_once(self, key: str, level: int, message: str, *values: Any, exc_info: bool = False) -> None:
        """`log`, but only the first time in a crawl for each *key*."""
        if key not in self._logged:
            self._logged.add(key)
            self.log(level, message, *values, exc_info=exc_info)

    def report_requests(self, stats: StatsCollector) -> None:
        """Bring up to date in *stats* how many requests came in and went out, which callbacks compare with a
        limit of theirs. 5 us: each stat is counted through two calls of Scrapy's."""
        for name in ("scheduler/enqueued", "scheduler/dequeued"):
            self._count(stats, name, self.tally[f"{name}/disk"] + self.tally[f"{name}/memory"])

    def _count(self, stats: StatsCollector, name: str, number: int) -> None:
        """Have *stats* count *number* of these, by those that it was not told yet: collectors of metrics have
        counters and gauges, and know by the call which one a stat is."""
        reported = self._reported.get(name)
        if number != reported:
            self._reported[name] = number
            stats.inc_value(name, number - (reported or 0))

    def report(self, stats: StatsCollector, frontier: Frontier) -> None:
        """Bring *stats* up to date with the ``tally`` and with what *frontier* holds. Every few seconds, and
        at the end; no store read."""
        for name, value in self.tally.items():
            if value:
                self._count(stats, name, value)
        self.report_requests(stats)
        stats.set_value("frontier/pending", frontier.pending)
        stats.set_value("frontier/hosts", frontier.hosts)
        totals = frontier.totals()
        stats.set_value("frontier/attempts", totals.attempts)
        for state, value in totals.states.items():
            stats.set_value(f"frontier/pages/{state}", value)


_MOST_COUNTED = 10_000  # pages that wait for room: 4 ms


@dataclass(eq=False, repr=False)
class CrawlLog:
    """Tells of *frontier*, by *reporter*, in the log of the crawl; changes nothing but what was said,
    and, as it starts, who uses the frontier."""

    _frontier: Frontier
    _clock: Callable[[], float]
    _reporter: Reporter
    _is_temporary: bool
    _limits: Limits
    _logged_until = 0.0  # for whom the crawl waits
    _interval = _progress_at = 0.0  # seconds between two lines of progress; when the next is due
    _place = "JOBDIR"  # the setting that says where the frontier lies

    def log_start(self, spider: Spider, settings: BaseSettings) -> None:
        """Say once, with the frontier open, what it holds, whose it was, and which settings there are not.
        Notes the spider as the one that uses it."""
        frontier, left, log = self._frontier, _left_by_scrapy(settings), self._reporter.log
        other = frontier.used_by(spider.name)
        states = frontier.totals().states
        what = inventory(states)
        if frontier.pending:
            log(logging.INFO, "Resuming crawl (%d requests scheduled): %s", frontier.pending, what)
            if other is not None:
                words = (
                    "These are requests of spider %r. Unless it was renamed to %r, or both have the same "
                    "callbacks, stop and give each spider a directory of its own: pages whose callback is "
                    "missing here end as failed, until `scrapy frontier requeue`"
                )
                log(logging.WARNING, words, other, spider.name)
        elif any(states.values()):
            log(logging.INFO, "%s", what)
        elif left:
            words = (
                "%s holds the queue of Scrapy's own scheduler, which is not read: this crawl begins anew. To "
                "go on with that one, unset SCHEDULER and the add-on; else remove the directory"
            )
            log(logging.WARNING, words, left)
        for name, likely in unknown_names(settings):
            meant = f"is {likely} meant?" if likely else "remove it"
            log(logging.WARNING, "There is no setting %s: %s", name, meant)
        if self._is_temporary:
            log(logging.INFO, "The frontier is temporary: set JOBDIR or FRONTIER_DIR to keep it")
        if settings["FRONTIER_DIR"]:
            self._place = "FRONTIER_DIR"
        self._interval = settings.getfloat("LOGSTATS_INTERVAL")
        self._progress_at = self._clock() + self._interval

    def log_progress(self, now: float) -> None:
        """Say what the frontier holds if the last time, or the start, is ``LOGSTATS_INTERVAL`` seconds ago
        at *now*; never where that is 0. Scrapy's own line says how fast pages come. No store read."""
        if not self._interval or now < self._progress_at:
            return
        self._progress_at = now + self._interval
        frontier = self._frontier
        ended = others(frontier.totals().states)
        words = "Frontier: waiting %d, under way %d, hosts in memory %d; of all runs: %s"
        self._reporter.log(
            logging.INFO, words, frontier.pending, frontier.leased, frontier.hosts, ended or "none"
        )

    def log_news(self) -> None:
        """What nobody was told yet: rows that cannot be read, which are counted, and a line for each host, or
        origin of one, that was given up."""
        set_aside, given_up = self._frontier.news()
        if set_aside:
            self._reporter.tally["frontier/unreadable"] += len(set_aside)
            words = "Set aside %d rows that cannot be read: pages %s; run `scrapy frontier check`"
            pages = ", ".join(map(str, set_aside[:20]))
            self._reporter.log(logging.ERROR, words, len(set_aside), pages)
        words = "Gave up %s: %s; its pages end with that (%d are queued for this host)"
        for host, origin, reason, queued in given_up:
            self._reporter.log(logging.INFO, words, origin or host, reason, queued)

    def log_waited_for(self, now: float, end: float, end_wait: float) -> None:
        """Say who the crawl waits for, and until when (*now* and *end* in POSIX seconds); once in *end_wait*
        seconds."""
        if now < self._logged_until:
            return
        self._logged_until = now + end_wait
        left = self._frontier.left_over(now)
        words = "Waiting: %s; the crawl goes on at %s, or ends at %s if no page comes until then"
        self._reporter.log(logging.INFO, words, _left(left), moment(left.first), moment(end))

    def log_left_over(self, reason: str) -> None:
        """Where a crawl ended although pages are left, say of whom, and when to come back; nothing but for
        the *reason* "finished"."""
        frontier = self._frontier
        if reason != "finished":
            return
        if frontier.withheld:
            pages = "1 page stays" if frontier.withheld == 1 else f"{frontier.withheld} pages stay"
            unblock = "`scrapy frontier unblock HOST` and run the crawl again to fetch them"
            self._reporter.log(logging.WARNING, "%s queued, of hosts that are blocked; %s", pages, unblock)
        if not frontier.pending:
            return
        left = frontier.left_over(self._clock())
        remedy = "they are lost: set JOBDIR or FRONTIER_DIR to keep them"
        if not self._is_temporary:
            remedy = "they stay queued: run the crawl again"
            if left.first < FOREVER:
                remedy += f", the first may be visited at {moment(left.first)}, or raise FRONTIER_END_WAIT"
        self._reporter.log(logging.WARNING, "%s; %s", _left(left), remedy)

    def log_known_seeds(self, count: int, first: str) -> None:
        """Who runs a crawl a second time must see why the feed has nothing in it: of *count* seeds, *first*
        is one. Pages that wait for room in a budget are told then, too."""
        tally = self._reporter.tally
        has_fetched = tally["scheduler/dequeued/disk"] or tally["scheduler/dequeued/memory"]
        if not has_fetched:
            self._log_over_budget()
            if self._log_first_due():
                return
        if not count:
            return
        seeds = "1 seed is" if count == 1 else f"{count} seeds are"
        known = f"{seeds} known from an earlier run ({first}{' ...' if count > 1 else ''})"
        if has_fetched:
            self._reporter.log(logging.INFO, "%s, and not fetched again", known)
            return
        self._reporter.log(
            logging.WARNING,
            "Nothing was fetched: %s, and pages are fetched once. To fetch them again: scrapy frontier "
            "requeue --state %s; or another %s; or frontier_every_run in the meta of a seed",
            known,
            ",".join(self._frontier.totals().finished),
            self._place,
        )

    def _log_first_due(self) -> bool:
        """When the first page comes back, if one does; whether that was said."""
        due = None
        with suppress(FrontierError):  # as below
            due = self._frontier.next_due()
        if due is None:
            return False
        waiting = self._frontier.totals().due
        pages = "1 page" if waiting == 1 else f"{waiting:,} pages"
        words = (
            "Nothing is due: the first of %s is due %s. New seeds are fetched; `scrapy frontier requeue` "
            "fetches again"
        )
        self._reporter.log(logging.WARNING, words, pages, moment(due))
        return True

    def _log_over_budget(self) -> None:
        """How many pages wait for room in a budget, and which budgets there are: each page has its own."""
        limits = self._limits._asdict().items()
        budgets = [f"{PREFIX}{name.upper()} = {most}" for name, most in limits if most]
        if not budgets:
            return
        with suppress(FrontierError):  # no crawl ends otherwise for want of this line
            count = self._frontier.waiting_for_room(_MOST_COUNTED)
            if count:
                pages = "1 page waits" if count == 1 else f"{count:,} pages wait"
                more = " or more" if count == _MOST_COUNTED else ""
                words = (
                    "%s%s for room in a budget (%s): `scrapy frontier why URL` says in which; raise that "
                    "to fetch them"
                )
                self._reporter.log(logging.WARNING, words, pages, more, ", ".join(budgets))


def _left_by_scrapy(settings: BaseSettings) -> str | None:
    """The directory of requests that Scrapy's own scheduler has left in the job directory."""
    directory = Path(settings["JOBDIR"] or "", "requests.queue")
    is_there = settings["JOBDIR"] and directory.is_dir() and any(directory.iterdir())
    return str(directory) if is_there else None


def _left(left: Left) -> str:
    names = ", ".join(left.names) + (" ..." if left.hosts > len(left.names) else "")
    pages = "1 page is" if left.pages == 1 else f"{left.pages} pages are"
    hosts = "1 host" if left.hosts == 1 else f"{left.hosts} hosts"
    doing = f": {' or '.join(left.doing)}" if left.doing else ""
    return f"{pages} left, of {hosts} ({names}){doing}"
