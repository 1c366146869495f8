"""Pages that come back are asked for conditionally, and a 304 that answers us ends their visit (RFC 9110 13).

Neither callback nor errback hears of it: nothing has changed, and nothing went wrong.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..core import reasons
from ..core.parse.validators import UNREAD, answers, if_none_match, is_settled
from ..crawl import revisits
from ..crawl.assembly import Component
from ..crawl.in_flight import CACHED, NOTHING, Flight, ended_with
from ..crawl.meta_keys import UNCHANGED
from ..crawl.redirect_links_and_retries import sent_back
from ..crawl.stats import count
from .directives import DirectivesMiddleware

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response


logger = logging.getLogger(__name__)

_TAG, _DATE = b"If-None-Match", b"If-Modified-Since"
# Who sets one of these knows what the answer means.
_CONDITIONS = (_TAG, _DATE, b"If-Match", b"If-Unmodified-Since", b"If-Range", b"Range")


class ConditionalMiddleware(Component):
    """Below redirects and retries (550 to 600), which would hand our validators on to other pages. Cookies
    and stats (700, 850) have seen every 304 by then.

    A 304 that nobody asked for, about other content than is kept, or that says something new of the links of
    the page (nofollow, another canonical), is asked once more without validators;
    one that the request's own headers asked for is the spider's. With Scrapy's HTTP cache nothing is asked
    conditionally: it would take our 304 for its own.
    """

    def is_wanted(self) -> bool:
        """Where pages come back (``FRONTIER_REVISIT``)."""
        return self.settings.comes_back

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._has_cache = crawler.settings.getbool("HTTPCACHE_ENABLED")
        self._contradicted: set[int] = set()  # pages of which a 304 was no answer: once more, without
        if self._has_cache:
            logger.warning(
                "HTTPCACHE_ENABLED: pages that come back are asked for unconditionally, and what the cache "
                "has is no visit. Turn it off where FRONTIER_REVISIT is on"
            )

    def process_request(self, request: Request) -> None:
        """Ask for a page that comes back with the validators that are kept of it."""
        crawl, flight = self.crawl, self.flights.get(id(request))
        if crawl is None or flight is None or not flight.lease.is_revisit:
            return
        if not self._may_ask(request, flight):
            return
        flight.asked_with = etag, last_modified = crawl.frontier.validators(flight.lease)
        if etag:
            request.headers[_TAG] = if_none_match(etag)
        if last_modified:
            request.headers[_DATE] = last_modified

    def _may_ask(self, request: Request, flight: Flight) -> bool:
        return (
            not self._has_cache
            and request.method in ("GET", "HEAD")
            and not request.body
            and flight.lease.page_id not in self._contradicted
            and request.meta.get(UNCHANGED, self.settings.unchanged) != "call"
            and not _is_conditional(request)
        )

    def process_response(self, request: Request, response: Response) -> Request | Response:
        """Raise `Consumed` for a 304 that answers us, which ends the visit; send the page back for another
        one, once. The validators are taken off the request."""
        flight = self.flights.get(id(request))
        if flight is None:
            return response
        _take_back(request, flight)
        page_id = flight.lease.page_id
        if response.status != 304 or CACHED in response.flags or _is_conditional(request):
            self._contradicted.discard(page_id)
            return response
        if flight.asked_with != NOTHING and answers(flight.asked_with[0], response.headers.getlist("ETag")):
            news = self._news(request, response, flight)
            if is_settled(news, flight.lease.is_last):
                logger.debug("Not modified: %s", request, extra={"spider": self.crawler.spider})
                if noindex := [note for note in news if note in UNREAD]:
                    count(self.crawler, "frontier/noindex/pages")
                raise revisits.not_modified(flight, response, *noindex)
        if page_id in self._contradicted or flight.lease.is_last:
            self._contradicted.discard(page_id)
            flight.ends_as(ended_with(304))  # as it answers whoever asks: nobody sees the page
            return response
        self._contradicted.add(page_id)
        return sent_back(request, reasons.NOT_ASKED())

    def _news(self, request: Request, response: Response, flight: Flight) -> tuple[str, ...]:
        """What a 304 says to crawlers that is not known of the page."""
        if b"X-Robots-Tag" not in response.headers and b"Link" not in response.headers:
            return ()
        directives = self.crawler.get_downloader_middleware(DirectivesMiddleware)
        return () if directives is None else directives.news_of(request, response, flight.lease.page.reason)

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Take the validators off the request: what follows from it has none."""
        flight = self.flights.get(id(request))
        if flight is not None:
            _take_back(request, flight)


def _is_conditional(request: Request) -> bool:
    headers = request.headers
    return any(name in headers for name in _CONDITIONS)


def _take_back(request: Request, flight: Flight) -> None:
    """Take our validators off *request*: what follows from it has none, nor has its payload."""
    for name, value in zip((_TAG, _DATE), flight.asked_with, strict=True):
        if value:
            request.headers.pop(name, None)
