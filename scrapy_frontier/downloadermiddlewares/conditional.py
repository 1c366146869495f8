"""Pages that come back are asked for conditionally, and a 304 that answers us ends their visit (RFC 9110 13).

Neither callback nor errback is called: nothing has changed, and nothing went wrong.

With the same content the callback is skipped, or finds ``frontier_changed`` False.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..core.frontier import Event
from ..core.pages.revisits import judge_304
from ..core.parse.headers import if_none_match, kept
from ..core.store.records import Validators
from ..crawl import scrapy_internals
from ..crawl.assembly import Component
from ..crawl.host_trouble import CACHED
from ..crawl.in_flight import CONDITIONAL, ActiveRequest, fetched_of, is_whole
from ..crawl.link_extractor import LARGE_PAGE, digest_by, is_digested_by_body
from ..crawl.meta_keys import CHANGED
from ..crawl.revisits import calls_unchanged, end_unchanged

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response

    from ..crawl.log import Reporter

logger = logging.getLogger(__name__)

_TAG, _DATE = CONDITIONAL
# A request that sets one of these handles the answer itself.
_CONDITIONS = (_TAG, _DATE, b"If-Match", b"If-Unmodified-Since", b"If-Range", b"Range")


class ConditionalMiddleware(Component):
    """Below redirects and retries (550 to 600), which would hand our validators on to other pages. Cookies
    and stats (700, 850) have seen every 304 by then.

    A 304 that the request's own headers asked for goes to the spider. With Scrapy's HTTP cache no request is
    conditional: the cache would take our 304 for its own.
    """

    def is_wanted(self) -> bool:
        """Return whether pages come back (``FRONTIER_REVISIT``)."""
        return self.settings.comes_back

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        if self.settings.has_cache:
            logger.warning(
                "HTTPCACHE_ENABLED: pages that come back are asked for unconditionally, and what the cache "
                "has is no visit. Turn it off with FRONTIER_REVISIT"
            )

    def process_request(self, request: Request) -> None:
        """Ask for a page that comes back with the validators that are kept of it."""
        crawl, active = self.crawl, self.active_requests.get(request)
        if crawl is None or active is None or not active.lease.comes_back or not self._may_ask(active):
            return
        etag, last_modified = active.asked_with = active.lease.may_send
        if etag:
            request.headers[_TAG] = if_none_match(etag)
        if last_modified:
            request.headers[_DATE] = last_modified

    def _may_ask(self, active: ActiveRequest) -> bool:
        request = active.request
        return (
            not self.settings.has_cache
            and request.method in ("GET", "HEAD")
            and not request.body
            and not active.is_forced
            and not calls_unchanged(request, self.settings)
            and not _is_conditional(request)
        )

    def process_response(self, request: Request, response: Response) -> Request | Response:
        """Raise `HandledResponse` for a 304 that answers us, which ends the visit. The validators are taken
        off the request."""
        crawl, active = self.crawl, self.active_requests.get(request)
        if crawl is None or active is None:
            return response
        active.takes_validators_off(request)
        if response.status != 304 or CACHED in response.flags or _is_conditional(request):
            return response
        received = kept(response.headers.getlist(b"ETag"), response.headers.getlist(b"Last-Modified"))
        outcome = judge_304(active.lease, any(active.asked_with), Validators(*received))
        if outcome.event is Event.FETCHED:
            logger.debug("Not modified: %s", request, extra={"spider": self.crawler.spider})
            raise active.ends_silently(outcome)
        active.outcome = outcome
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Take the validators off the request: what follows from it has none."""
        active = self.active_requests.get(request)
        if active is not None:
            active.takes_validators_off(request)


def _is_conditional(request: Request) -> bool:
    headers = request.headers
    return any(name in headers for name in _CONDITIONS)


class UnchangedMiddleware(Component):
    """Stands where bodies are decoded, and directives read: a page that says something new to crawlers has
    changed.

    Makes the digest of every page, at its first visit too, unless its body broke off; in a thread if the page
    is long and its text counts.
    """

    def is_wanted(self) -> bool:
        """Return whether pages come back (``FRONTIER_REVISIT``)."""
        return self.settings.comes_back

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._digest = digest_by(self.settings.digest)

    async def process_response(self, request: Request, response: Response) -> Response:
        """Note the digest of *response*, and return it; raise `HandledResponse` for a page that came back as
        it was, unless the spider wants to see it."""
        crawl, active = self.crawl, self.active_requests.get(request)
        fetched = fetched_of(response) if active is not None else None
        if crawl is None or active is None or fetched is None or not is_whole(response):
            return response
        if request.method != "HEAD":
            active.digest = await self._digest_of(response, crawl.reporter)
        is_called = calls_unchanged(request, self.settings)
        is_changed = active.lease.has_changed(active.digest)
        if is_changed is None:
            return response
        request.meta[CHANGED] = is_changed
        if not is_called:
            end_unchanged(active, response.status, fetched, active.notes)
        return response

    async def _digest_of(self, response: Response, reporter: Reporter) -> bytes:
        """Return the digest of *response*; b"" if making it raises: the function may be the user's."""
        try:
            is_parsed = self.settings.digest in ("text", "links")
            if is_parsed and is_digested_by_body(response):
                words = "%s is too large for FRONTIER_DIGEST, and is digested by its body (said once)"
                reporter.log_once("digest of a large page", logging.WARNING, words, response)
            elif self.settings.digest != "body" and len(response.body) > LARGE_PAGE:
                return await scrapy_internals.in_thread(self._digest, response)
            return self._digest(response)
        except Exception:
            words = "FRONTIER_DIGEST fails for %s: mend it, or set another (said once)"
            reporter.log_once("digest", logging.ERROR, words, response, exc_info=True)
            return b""
