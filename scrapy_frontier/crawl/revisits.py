"""Ends revisits: counts how each visit ended and sends the signals about changed pages."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import signals
from ..core import reasons
from ..core.errors import size
from ..core.pages.revisits import judge_same
from ..core.revisits.policy import Conclusion, Result, result_by
from . import scrapy_internals
from .host_trouble import REASON
from .left_out import left_out_of
from .meta_keys import EVERY_RUN, UNSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.crawler import Crawler
    from scrapy.http import Request

    from ..core.frontier import Frontier, Outcome
    from ..core.revisits.policy import Fetched, VisitEnd
    from ..settings import FrontierSettings
    from .in_flight import ActiveRequest
    from .log import Reporter

_CHANGED, _UNCHANGED, _GONE = Conclusion.CHANGED, Conclusion.UNCHANGED, Conclusion.GONE
_HOW_GONE = {
    Result.MISSING: "404",
    Result.GONE: "410",
    Result.MOVED: "redirected",
    Result.ELSEWHERE: "redirected",
    Result.FORBIDDEN: "robots",
    Result.NOINDEX: "noindex",
}


def calls_unchanged(request: Request, settings: FrontierSettings) -> bool:
    """Whether the callback of *request* gets its page also if that is unchanged: by the setting, and for a
    seed that is fetched in every run."""
    return settings.unchanged == "call" or request.meta.get(EVERY_RUN) not in UNSET


def end_unchanged(active: ActiveRequest, status: int, fetched: Fetched, notes: Sequence[str] | None) -> None:
    """Raise `HandledResponse` for a page that came back as it was (`judge_same`): no callback is called,
    unless the visit is forced."""
    if active.is_forced:
        return
    fetched = fetched._replace(digest=active.digest)
    outcome = judge_same(active.lease, status, fetched, notes)
    if outcome is not None:
        raise active.ends_silently(outcome)


def with_result(active: ActiveRequest, outcome: Outcome) -> Outcome:
    """Return *outcome* with what a crawl that comes back has to know of it: the digest of the content, and
    what a revisit showed."""
    fetched, result, page = outcome.fetched, outcome.result, active.lease.page
    if fetched is not None and active.digest and not fetched.digest:
        fetched = fetched._replace(digest=active.digest)
    if not (active.lease.comes_back or active.lease.node != active.lease.page_id):
        result = None
    elif result is None:
        notes = reasons.BETWEEN.join((*active.notes, outcome.reason))
        by_spider, by_robots = active.spider_error is not None, hasattr(active.error, REASON)
        result = result_by(outcome.event, active.status, notes, page.status, by_spider, by_robots)
    return outcome._replace(fetched=fetched, result=result)


@dataclass(eq=False, repr=False)
class VisitReporter:
    """Tells of revisits that ended, by signals and by *reporter*. What a page was is told once, gone ones
    too."""

    _crawler: Crawler
    _frontier: Frontier
    _reporter: Reporter

    def report(self, outcome: Outcome, end: VisitEnd) -> None:
        """Count what a revisit came to, and send its signal, `page_changed`, `page_unchanged` or `page_gone`;
        none for a sitemap, or a page that is new. Reads the pages of links that changed if a
        receiver is connected."""
        page, result = end.was, end.result
        if result is Result.READ and outcome.fetched is None:
            return  # answered by Scrapy's HTTP cache, so no visit
        if result is Result.UNCHANGED and outcome.status == 304:
            self._reporter.tally["frontier/visits/not_modified"] += 1
            if page.visits is not None:
                self._reporter.tally["frontier/visits/spared_bytes"] += page.visits.length
        else:
            self._reporter.tally[_STATS[end.conclusion]] += 1
        if page.facts.is_sitemap:  # no document of the spider
            return
        if result is Result.UNCHANGED:  # no callback was called
            left_out_of(self._crawler).add("frontier/left_out/unchanged", page.url, "it has not changed")
        if end.conclusion is _CHANGED:
            digests = {"digest_before": end.before, "digest": end.digest}
            links = {"links_added": end.added, "links_removed": end.removed}
            self._send(signals.page_changed, url=page.url, **digests, **links)
        elif end.conclusion is _UNCHANGED:
            self._send(signals.page_unchanged, url=page.url)
        elif end.conclusion is _GONE:
            self._send(signals.page_gone, url=page.url, reason=_HOW_GONE.get(result, str(outcome.status)))

    def _send(self, signal: object, **arguments: Any) -> None:
        crawler = self._crawler
        if not scrapy_internals.listeners(crawler, signal):
            return
        for name in ("links_added", "links_removed"):
            if name in arguments:
                pages = map(self._frontier.page, arguments[name])
                arguments[name] = [page.url for page in pages if page is not None]
        crawler.signals.send_catch_log(signal, spider=crawler.spider, **arguments)

    def log_summary(self) -> None:
        """Log a line at the end of a crawl that came back to pages."""
        counts = {words: self._reporter.tally[name] for name, words in _WORDS.items()}
        came = sum(counts.values())
        if not came:
            return
        parts = [f"{count:,} {words}" for words, count in counts.items() if count]
        spared = self._reporter.tally["frontier/visits/spared_bytes"]
        saved = f"; about {size(spared)} not downloaded" if spared else ""
        self._reporter.log(logging.INFO, "%s came back: %s%s.", f"{came:,}", ", ".join(parts), saved)


_STATS = {
    _UNCHANGED: "frontier/visits/unchanged",
    _CHANGED: "frontier/visits/changed",
    _GONE: "frontier/visits/gone",
    Conclusion.NEW: "frontier/visits/changed",
    Conclusion.STILL_GONE: "frontier/visits/unchanged",
    Conclusion.UNDECIDED: "frontier/visits/undecided",
}
_WORDS = {
    "frontier/visits/not_modified": "not modified",
    "frontier/visits/unchanged": "the same",
    "frontier/visits/changed": "changed",
    "frontier/visits/gone": "gone",
    "frontier/visits/undecided": "to be asked again",
}
