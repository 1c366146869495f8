"""Pages that came back with the content they had: their callback is spared, or told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured

from ..core import reasons
from ..crawl import compat, returns
from ..crawl.assembly import Component
from ..crawl.digests import LONG, digest_by
from ..crawl.fetched import fetched_of
from ..crawl.in_flight import NOTHING
from ..crawl.meta_keys import CHANGED, UNCHANGED
from ..settings import FrontierSettings

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from ..crawl.in_flight import Flight


class UnchangedMiddleware(Component):
    """Where bodies are decoded, and directives read: a page that says something new to crawlers has changed.

    The digest is made of every page, that of the first visit too, unless its body broke off. That of a long
    page is made in a thread where its text is wanted.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = FrontierSettings.of_component(crawler.settings)
        if not settings.comes_back:
            raise NotConfigured  # in silence: that is the usual case
        super().__init__(crawler)
        self._default = settings.unchanged
        self._is_slow = settings.digest != "body"
        self._digest = digest_by(settings.digest)

    async def process_response(self, request: Request, response: Response) -> Response:
        flight = self.flights.get(id(request))
        fetched = fetched_of(response) if flight is not None else None
        if flight is None or fetched is None or not fetched.is_body_whole:
            return response
        if self._is_slow and len(response.body) > LONG:
            flight.digest = await compat.in_thread(self._digest, response)
        else:
            flight.digest = self._digest(response)
        visits = flight.lease.page.visits
        if flight.lease.is_return and visits is not None and visits.digest and flight.digest:
            request.meta[CHANGED] = flight.digest != visits.digest
            if not request.meta[CHANGED] and self._may_skip(request, flight):
                was_asked = flight.asked_with != NOTHING
                raise returns.same(
                    flight, response, fetched._replace(digest=flight.digest, was_asked=was_asked)
                )
        return response

    def _may_skip(self, request: Request, flight: Flight) -> bool:
        return (
            request.meta.get(UNCHANGED, self._default) != "call"
            and not flight.lease.is_forced
            and flight.outcome is None  # it leads elsewhere
            and reasons.BETWEEN.join(flight.notes) == reasons.notes_in(flight.lease.page.reason)[0]
        )
