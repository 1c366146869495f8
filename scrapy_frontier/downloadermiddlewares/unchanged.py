"""Pages that came back with the content they had: their callback is spared, or told of it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..crawl.assembly import Component
from ..crawl.flights.in_flight import fetched_of
from ..crawl.meta_keys import CHANGED
from ..crawl.responses.digests import LONG, digest_by, of_head
from ..crawl.revisits import calls_unchanged, end_unchanged
from ..crawl.scrapy_internals import compat

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response

    from ..crawl.stats import Reporter


class UnchangedMiddleware(Component):
    """Where bodies are decoded, and directives read: a page that says something new to crawlers has changed.

    The digest is made of every page, that of the first visit too, unless its body broke off. That of a long
    page is made in a thread where its text is wanted.
    """

    def is_wanted(self) -> bool:
        """Where pages come back (``FRONTIER_REVISIT``)."""
        return self.settings.comes_back

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._digest = digest_by(self.settings.digest)

    async def process_response(self, request: Request, response: Response) -> Response:
        """*response*, with the digest of its content noted; raises `Consumed` for a page that came back as it
        was, unless the spider wants to see it."""
        crawl, flight = self.crawl, self.flights.get(id(request))
        fetched = fetched_of(response) if flight is not None else None
        if crawl is None or flight is None or fetched is None or not fetched.is_body_whole:
            return response
        if request.method == "HEAD":
            length = response.headers.get("Content-Length") or b""
            flight.digest = of_head(fetched.etag, fetched.last_modified, length)
        else:
            flight.digest = await self._digest_of(response, crawl.reporter)
        is_called = calls_unchanged(request, self.settings)  # a wrong value is told at the first visit
        is_changed = flight.lease.has_changed(flight.digest)
        if is_changed is None:
            return response
        request.meta[CHANGED] = is_changed
        if not is_called and flight.outcome is None:  # else it leads elsewhere
            end_unchanged(flight, response.status, fetched, flight.notes)
        return response

    async def _digest_of(self, response: Response, reporter: Reporter) -> bytes:
        """b"" where it cannot be made: the function may be the user's."""
        try:
            if self.settings.digest != "body" and len(response.body) > LONG:
                return await compat.in_thread(self._digest, response)
            return self._digest(response)
        except Exception:
            words = "FRONTIER_DIGEST fails for %s: mend it, or set another (said once)"
            reporter.log_once("digest", logging.ERROR, words, response, exc_info=True)
            return b""
