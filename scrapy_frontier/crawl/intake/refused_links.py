"""Links that are not queued: counted by kind, and told."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from scrapy import Request

from ..flights.redirect_links_and_retries import is_seed
from ..stats import Reporter, refusal_stat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...core.frontier import Discovered, Link

_MOST_LOGGED = 100  # hosts whose traps are told one by one
_FROM_SEED = (
    "it comes from a seed; if it is to be fetched, set URLLENGTH_LIMIT, FRONTIER_PATH_DEPTH, "
    "FRONTIER_REPEATED_SEGMENTS or the budget higher, whichever it is over"
)
_WORDS = {
    "deferred": "Keeping %s for later: %s",
    "over_budget": "Counted but not kept: %s: %s, and enough is kept for later",
}


class Refusals:
    """Tells of each kind once for a host, of a hundred at most, and of every seed; counts all."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._logged: set[str] = set()

    def report(self, answer: Discovered, link: Link, what: Request | str) -> None:
        """*link*, made of *what*, was not queued, as *answer* says: count it, and log it where that is
        due."""
        self._reporter.tally[refusal_stat(answer.kind)] += 1
        words = _WORDS.get(answer.kind, "Refused %s, which looks like a trap (%s)")
        if answer.page_id is None and isinstance(what, Request) and is_seed(what):
            self._reporter.log(logging.WARNING, f"{words}; {_FROM_SEED}", what, answer.reason)
            return
        key = f"{answer.kind} {link.host}"
        if key not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(key)
            rest = f"said once for {link.host}; see the stats frontier/traps and frontier/deferred"
            self._reporter.log(logging.INFO, f"{words}; {rest}", what, answer.reason)


class Refusing(Protocol):
    """Says which links of one page are not followed: `find_refused` first, then the others."""

    def find_refused(self) -> Iterator[None]:
        """Look for them, once; yields whenever others should have a turn of the event loop."""

    @property
    def refuses_none(self) -> bool:
        """Whether `refusal` says nothing of any link."""

    def refusal(self, url: str) -> str:
        """Why a link to *url* is not followed, which is counted; empty where it is."""
