"""What the scheduler tells: counts for the stats, and log lines that are said once."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ..core.pages.traps import TRAPS

if TYPE_CHECKING:
    import logging
    from collections.abc import Mapping

    from scrapy import Spider
    from scrapy.statscollectors import StatsCollector

    from ..core.frontier import Frontier


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
