"""What a crawl reports: counts for Scrapy's stats, and lines in its log."""

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
from ..settings import unknown_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy import Spider
    from scrapy.settings import BaseSettings
    from scrapy.statscollectors import StatsCollector

    from ..core.frontier import Frontier
    from ..core.hosts.trouble import Left
    from .left_out import LeftOut


def refusal_stat(kind: str) -> str:
    """Returns the stat that counts refusals of a *kind* (`Discovered.kind`)."""
    return f"frontier/traps/{kind}" if kind in TRAPS else f"frontier/{kind}"


def inventory(states: Mapping[str, int]) -> str:
    """Describes a frontier by its number of pages in each state: ``60 pages known, 4 queued: 55 done``."""
    rest = f": {others(states)}" if others(states) else ""
    return f"{sum(states.values())} pages known, {states['queued']} queued{rest}"


def others(states: Mapping[str, int]) -> str:
    """Describes the pages that are not queued: ``55 done, 1 failed``."""
    return ", ".join(f"{count} {state}" for state, count in states.items() if count and state != "queued")


class Reporter:
    """Counts in ``tally`` what happens in this run, brings stats up to date with it, and logs for the spider.

    Calling the stats collector for every link would cost more than the link does.
    """

    def __init__(self, logger: logging.Logger, left_out: LeftOut) -> None:
        self.left_out = left_out
        self.spider: Spider | None = None
        self.tally: defaultdict[str, int] = defaultdict(int)
        self._reported: dict[str, int] = {}  # of the tally
        self._logger = logger
        self._logged: set[str] = set()

    def log(self, level: int, message: str, *values: Any, exc_info: bool = False) -> None:
        """Logs *message* % *values* at *level*, with the traceback if *exc_info*."""
        self._logger.log(level, message, *values, exc_info=exc_info, extra={"spider": self.spider})

    def log_once(self, key: str, level: int, message: str, *values: Any, exc_info: bool = False) -> None:
        """Logs only the first time in a crawl for each *key*."""
        if key not in self._logged:
            self._logged.add(key)
            self.log(level, message, *values, exc_info=exc_info)

    def _count(self, stats: StatsCollector, name: str, number: int) -> None:
        """Raises the stat *name* to *number* by ``inc_value``: collectors of metrics tell counters from
        gauges by the call."""
        reported = self._reported.get(name)
        if number != reported:
            self._reported[name] = number
            stats.inc_value(name, number - (reported or 0))

    def report(self, stats: StatsCollector, frontier: Frontier) -> None:
        """Brings *stats* up to date with the ``tally`` and *frontier*. Every few seconds, and at the end; no
        store read."""
        for name, value in self.tally.items():
            if value:
                self._count(stats, name, value)
        for name in ("scheduler/enqueued", "scheduler/dequeued"):
            self._count(stats, name, self.tally[f"{name}/disk"] + self.tally[f"{name}/memory"])
        stats.set_value("frontier/pending", frontier.pending)
        stats.set_value("frontier/hosts", frontier.hosts)
        totals = frontier.totals()
        stats.set_value("frontier/attempts", totals.attempts)
        if (focus := frontier.focus) is not None:
            stats.set_value("frontier/focus/good", round(focus.good_of_all, 4))
            stats.set_value("frontier/focus/good_lately", round(focus.good_lately, 4))
        for state, value in totals.states.items():
            stats.set_value(f"frontier/pages/{state}", value)


_ENOUGH = 200  # pages with equal scores


@dataclass(eq=False, repr=False)
class CrawlLog:
    """Logs by *reporter* how a crawl of *frontier* begins, goes on and ends."""

    _frontier: Frontier
    _clock: Callable[[], float]
    _reporter: Reporter
    _is_temporary: bool
    _logged_until = 0.0  # when hosts that the crawl waits for are logged again
    _interval = _progress_at = 0.0  # seconds between two lines of progress; when the next is due
    _place = "JOBDIR"  # the setting that says where the frontier is

    def log_start(self, spider: Spider, settings: BaseSettings) -> None:
        """Logs what the frontier holds, whose it was, and unknown settings. Notes the spider in the store."""
        frontier, log = self._frontier, self._reporter.log
        other = frontier.used_by(spider.name)
        states = frontier.totals().states
        if frontier.pending:
            words = "Resuming crawl (%d requests scheduled): %s"
            log(logging.INFO, words, frontier.pending, inventory(states))
            if other is not None:
                words = (
                    "These are requests of spider %r. Unless it was renamed to %r, or both have the same "
                    "callbacks, stop and give each spider a directory of its own: pages whose callback is "
                    "missing here end as failed, until `scrapy frontier requeue`"
                )
                log(logging.WARNING, words, other, spider.name)
        elif any(states.values()):
            log(logging.INFO, "%s", inventory(states))
        elif left := queue_of_scrapy(settings["JOBDIR"]):
            words = (
                "%s holds the queue of Scrapy's own scheduler, which is not read: this crawl starts anew. To "
                "take it along, run `scrapy frontier import --jobdir %s`; else remove the directory"
            )
            log(logging.WARNING, words, left, left.parent)
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
        """Logs what the frontier holds, at most once in ``LOGSTATS_INTERVAL`` seconds; never if that is 0. No
        store read."""
        if not self._interval or now < self._progress_at:
            return
        self._progress_at = now + self._interval
        frontier = self._frontier
        counts = frontier.pending, frontier.leased, frontier.hosts
        ended = others(frontier.totals().states) or "none"
        words = "Frontier: waiting %d, under way %d, hosts in memory %d; of all runs: %s%s"
        self._reporter.log(logging.INFO, words, *counts, ended, self._good())

    def _good(self) -> str:
        """Returns how many of the pages with content scores were good; empty without any."""
        focus = self._frontier.focus
        if focus is None or not focus.has_learned:
            return ""
        shares = focus.good_lately, focus.latest, focus.good_of_all
        return "; good: {:.1%} of the last {:,} pages, {:.1%} of all".format(*shares)

    def log_events(self) -> None:
        """Logs and counts new rows that cannot be read, and logs each host or origin that was given up."""
        set_aside, given_up = self._frontier.drain_events()
        if set_aside:
            self._reporter.tally["frontier/unreadable"] += len(set_aside)
            words = "Set aside %d rows that cannot be read: pages %s; run `scrapy frontier check`"
            pages = ", ".join(map(str, set_aside[:20]))
            self._reporter.log(logging.ERROR, words, len(set_aside), pages)
        focus = self._frontier.focus
        if focus is not None and focus.scored >= _ENOUGH and not focus.has_learned:
            words = (
                "All %d pages scored so far have the score %g: there is nothing to learn from it which "
                "pages to fetch first; score the pages you want higher than others"
            )
            self._reporter.log_once("focus", logging.INFO, words, focus.scored, focus.lowest)
        words = "Gave up %s: %s; its pages end with that (%d are queued for this host)"
        for host, origin, reason, queued in given_up:
            self._reporter.log(logging.INFO, words, origin or host, reason, queued)

    def log_waited_for(self, now: float, end: float, end_wait: float) -> None:
        """Logs which hosts the crawl waits for, and until when (*now* and *end* in POSIX seconds); once in
        *end_wait* seconds."""
        if now < self._logged_until:
            return
        self._logged_until = now + end_wait
        left = self._frontier.left_over(now)
        words = "Waiting: %s; the crawl goes on at %s, or ends at %s if no page comes until then"
        self._reporter.log(logging.INFO, words, _left(left), moment(left.first), moment(end))

    def log_left_over(self) -> None:
        """Logs the pages that are left when the crawl is finished, and what to do."""
        frontier = self._frontier
        if frontier.withheld:
            words = "%s queued, of hosts that are blocked; `scrapy frontier unblock HOST` and run again"
            self._reporter.log(logging.WARNING, words, _pages(frontier.withheld, "stays", "stay"))
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
        """Logs why a run fetched nothing: *count* seeds are known, *first* is one; or pages are not due
        yet."""
        tally = self._reporter.tally
        has_fetched = tally["scheduler/dequeued/disk"] or tally["scheduler/dequeued/memory"]
        if not has_fetched and self._log_first_due():
            return
        if not count or has_fetched:
            return
        seeds = "1 seed is" if count == 1 else f"{count} seeds are"
        known = f"{seeds} known from an earlier run ({first}{' ...' if count > 1 else ''})"
        words = (
            "Nothing was fetched: %s, and pages are fetched once. To fetch them again: scrapy frontier "
            "requeue --state %s; or another %s; or frontier_every_run in the meta of a seed"
        )
        finished = ",".join(self._frontier.totals().finished)
        self._reporter.log(logging.WARNING, words, known, finished, self._place)

    def _log_first_due(self) -> bool:
        """Logs when the first page comes back; False if none does."""
        due = None
        with suppress(FrontierError):  # this line is not worth ending the crawl otherwise
            due = self._frontier.next_due()
        if due is None:
            return False
        words = "Nothing is due: the first of %s due %s. New seeds are fetched; `scrapy frontier requeue` too"
        waiting = _pages(self._frontier.totals().due, "is", "is")
        self._reporter.log(logging.WARNING, words, waiting, moment(due))
        return True


def queue_of_scrapy(jobdir: str | None) -> Path | None:
    """Returns the directory of the queue of Scrapy's own scheduler in *jobdir*, if there is one."""
    directory = Path(jobdir or "", "requests.queue")
    return directory if jobdir and directory.is_dir() and any(directory.iterdir()) else None


def _pages(count: int, singular: str, plural: str) -> str:
    return f"1 page {singular}" if count == 1 else f"{count:,} pages {plural}"


def _left(left: Left) -> str:
    names = ", ".join(left.names) + (" ..." if left.hosts > len(left.names) else "")
    hosts = "1 host" if left.hosts == 1 else f"{left.hosts} hosts"
    return f"{_pages(left.pages, 'is', 'are')} left, of {hosts}: {names}"
