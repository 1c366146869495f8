"""Which requests are queued although their pages are known.

What Scrapy is asked for with ``dont_filter`` its dupe filter does not remember: the first link to such a page
is fetched once more. Here it is if that is for another callback, which would never see the page; a
`CrawlSpider` whose rule wants its start page is the common case. Another run knows nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...core.frontier import Fate
from ..flights.redirect_links_and_retries import is_answer, is_seed
from ..meta_keys import EVERY_RUN, UNSET

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from ...core.frontier import Discovered, PageId
    from ..flights.in_flight import Flight
    from ..requests.callback_names import Callbacks
    from .dupefilters import DupeFilter
    from .seeds import Seeds

MOST = 10_000  # pages that are remembered, 400 bytes each; of others the first link is to a known page


@dataclass(eq=False, repr=False)
class WantedAgain:
    """``unfiltered`` are the pages that in this run were asked for with ``dont_filter`` alone so far, by
    fingerprint: for which callbacks; None is for what is no method. No text of a URL tells them known."""

    _callbacks: Callbacks
    _dupefilter: DupeFilter
    _seeds: Seeds
    unfiltered: dict[bytes, set[Any]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._reached_by = self._callbacks.reached_by

    def is_wanted(
        self, request: Request, fingerprint: bytes, known: PageId | None, flight: Flight | None
    ) -> bool:
        """Whether *request*, to which *flight* led, is to be queued even if its page is *known*."""
        again = request.dont_filter or not self._dupefilter.is_on
        if fingerprint in self.unfiltered:
            if request.dont_filter:
                self.unfiltered[fingerprint].add(self._reached_by(request.callback, request.meta.get("rule")))
            else:
                again = self.is_for_other(fingerprint, request.callback, request.meta.get("rule")) or again
        if request.dont_filter and self._dupefilter.is_on and is_seed(request):
            again = self._seeds.is_wanted_again(request, known, flight)
        again = again or (request.meta.get(EVERY_RUN) not in UNSET and is_seed(request))
        return again or (flight is not None and is_answer(request, flight))

    def is_for_other(self, fingerprint: bytes, callback: Callable[..., Any] | None, rule: Any) -> bool:
        """Whether a link to an ``unfiltered`` page, the first one, is for none of the callbacks that get it
        anyway. From now on the page is known as others are."""
        reached, asked = self._reached_by(callback, rule), self.unfiltered.pop(fingerprint)
        return reached is None or reached not in asked

    def hides(self, fingerprint: bytes, is_unfiltered: bool) -> bool:
        """Whether a page must not be known by the text of its URL yet."""
        return fingerprint in self.unfiltered or (is_unfiltered and len(self.unfiltered) < MOST)

    def note(self, request: Request, fingerprint: bytes, answer: Discovered) -> None:
        """*request* was handed over, with that *answer*: remember one that is the first for its page."""
        if request.dont_filter and answer.fate is Fate.NEW and len(self.unfiltered) < MOST:
            self.unfiltered[fingerprint] = {self._reached_by(request.callback, request.meta.get("rule"))}
