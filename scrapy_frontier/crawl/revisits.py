"""Pages that come back: what a visit met, and who is told of it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import signals
from ..core import reasons
from ..core.frontier import Event, Frontier, Outcome
from ..core.pages.revisit_policy import Met, met_by
from ..core.pages.visits import Fetched, VisitEnd, are_alike, as_given
from ..core.parse.validators import kept
from ..core.store.states import State
from .callback_requests import listeners
from .in_flight import NOTHING, REASON, Consumed, Flight
from .meta_keys import SITEMAP

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from ..core.store.page_rows import Page
    from .stats import Notes

_ENDS = (Event.REDIRECTED, Event.GONE, Event.FAILED, Event.EXCLUDED)  # of visits that showed no page
_GONE = {
    Met.MISSING: "404",
    Met.GONE: "410",
    Met.MOVED: "redirected",
    Met.ELSEWHERE: "redirected",
    Met.FORBIDDEN: "robots",
    Met.NOINDEX: "noindex",
}


def not_modified(flight: Flight, response: Response, noindex: str = "") -> Consumed:
    """What to raise for a 304 that answers us; it may say *noindex*, which the page did not say before."""
    page, met = flight.lease.page, Met.NOINDEX if noindex else Met.UNCHANGED
    reason = reasons.BETWEEN.join(filter(None, (noindex, page.reason)))
    headers = response.headers
    renewed = Fetched(*kept(headers.getlist(b"ETag"), headers.getlist(b"Last-Modified")))
    outcome = Outcome(Event.FETCHED, 304, reason, page.target, met=met, fetched=renewed)
    return flight.unheard(outcome)


def same(flight: Flight, response: Response, fetched: Fetched) -> Consumed:
    """What to raise for a page whose content is as it was."""
    page, status = flight.lease.page, response.status
    fetched = fetched._replace(digest=flight.digest, was_asked=flight.asked_with != NOTHING)
    return flight.unheard(
        Outcome(Event.FETCHED, status, page.reason, page.target, met=Met.UNCHANGED, fetched=fetched)
    )


def has_changed(flight: Flight) -> bool | None:
    """Whether the body of a page that came back is another; None where nobody can tell."""
    visits, digest = flight.lease.page.visits, flight.digest
    is_known = flight.lease.is_return and visits is not None and are_alike(visits.digest, digest)
    return visits.digest != digest if is_known and visits is not None else None


def told(flight: Flight, outcome: Outcome) -> Outcome:
    """*outcome*, with what a crawl that comes back has to know of it."""
    fetched, digest = outcome.fetched, as_given(flight.content) or flight.digest
    if fetched is not None and digest and not fetched.digest:
        fetched = fetched._replace(digest=digest, was_asked=flight.asked_with != NOTHING)
    is_further = flight.lease.is_return or flight.lease.node != flight.lease.page_id
    return outcome._replace(fetched=fetched, met=met_of(flight, outcome) if is_further else None)


def met_of(flight: Flight, outcome: Outcome) -> Met | None:
    """What a further visit of a page met; None where it has not ended, or showed nothing else."""
    if outcome.met is not None:
        return outcome.met
    event, status = outcome.event, outcome.status
    if event is Event.FETCHED:
        return Met.ERROR if _leads_nowhere(flight) else _met_on(flight)
    if event is Event.FAILED and flight.spider_error is not None:
        return Met.CALLBACK_FAILED
    if event is Event.EXCLUDED and outcome.reason == reasons.SKIPPED():
        return Met.NOINDEX
    if event is Event.EXCLUDED and not hasattr(flight.error, REASON):  # not by robots.txt
        return Met.ERROR
    is_led = event is Event.REDIRECTED
    return met_by(event, flight.status if is_led else status) if event in _ENDS else None


def _leads_nowhere(flight: Flight) -> bool:
    """Whether a redirect that names no place came where a page was."""
    return 300 <= flight.status < 400 and flight.status != 304 and 200 <= flight.lease.page.status < 300


def _met_on(flight: Flight) -> Met | None:
    """What a page that was read says of itself."""
    if reasons.NOINDEX() in flight.notes:
        return Met.NOINDEX
    return Met.ALIAS if any(reasons.ALIAS.read(note) for note in flight.notes) else None


def _was_lost(page: Page, outcome: Outcome) -> bool:
    """Whether a page that is lost was so before its visit."""
    if outcome.met is Met.NOINDEX:
        return _says_noindex(page)
    return page.state in (State.GONE, State.REDIRECTED, State.EXCLUDED)


def _says_noindex(page: Page) -> bool:
    return reasons.NOINDEX() in page.reason or reasons.SKIPPED() in page.reason


@dataclass(eq=False, repr=False)
class Revisits:
    """Tells of further visits that ended, by signals and by *notes*."""

    _crawler: Crawler
    _frontier: Frontier
    _notes: Notes

    def __post_init__(self) -> None:
        self._tally = self._notes.tally

    def tell(self, outcome: Outcome, end: VisitEnd) -> None:
        """Count and tell what a further visit came to."""
        page = end.was
        if outcome.event is Event.FETCHED and outcome.met is None and outcome.fetched is None:
            return  # from Scrapy's HTTP cache: nobody was visited
        if end.blamed:
            self._notes.say_once(f"blamed {end.blamed}", logging.WARNING, _BLAMED, end.blamed)
        if outcome.met in _GONE and _was_lost(page, outcome):  # it was told then
            self._tally["frontier/visits/unchanged"] += 1
            return
        if outcome.met is None and end.fate == "unchanged" and _says_noindex(page):
            end = end._replace(fate="changed")  # it was told as gone, and is there again
        if outcome.met is Met.UNCHANGED and outcome.status == 304:
            self._tally["frontier/visits/not_modified"] += 1
            if page.visits is not None:
                self._tally["frontier/visits/spared_bytes"] += page.visits.length
        else:
            self._tally[_STATS[end.fate]] += 1
        if SITEMAP.encode() in page.payload:  # nobody's document
            return
        if end.fate == "changed":
            digests = {"digest_before": end.before, "digest": end.digest}
            links = {"links_added": end.added, "links_removed": end.removed}
            self._send(signals.page_changed, url=page.url, **digests, **links)
        elif end.fate == "unchanged":
            self._send(signals.page_unchanged, url=page.url)
        elif end.fate == "gone" and outcome.met is not None:
            self._send(signals.page_gone, url=page.url, reason=_GONE.get(outcome.met, str(outcome.status)))

    def _send(self, signal: object, **told: Any) -> None:
        crawler = self._crawler
        if not listeners(crawler, signal):
            return
        for name in ("links_added", "links_removed"):
            if name in told:
                pages = map(self._frontier.page, told[name])
                told[name] = [page.url for page in pages if page is not None]
        crawler.signals.send_catch_log(signal, spider=crawler.spider, **told)

    def say_what_came_back(self) -> None:
        """One line at the end of a crawl that came back to pages."""
        counts = {words: self._tally[name] for name, words in _WORDS.items()}
        came = sum(counts.values())
        if not came:
            return
        parts = [f"{count:,} {words}" for words, count in counts.items() if count]
        spared = self._tally["frontier/visits/spared_bytes"]
        saved = f"; about {_size(spared)} not downloaded" if spared else ""
        self._notes.log(logging.INFO, "%s came back: %s%s.", f"{came:,}", ", ".join(parts), saved)


_BLAMED = (
    "%s: more than half of the pages that came back within an hour were gone, or redirected. None of them is "
    "given up for that: the host is to blame (said once)"
)
_STATS = {
    "unchanged": "frontier/visits/unchanged",
    "changed": "frontier/visits/changed",
    "gone": "frontier/visits/gone",
    None: "frontier/visits/undecided",
}
_WORDS = {
    "frontier/visits/not_modified": "not modified",
    "frontier/visits/unchanged": "the same",
    "frontier/visits/changed": "changed",
    "frontier/visits/gone": "gone",
    "frontier/visits/undecided": "to be asked again",
}


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
