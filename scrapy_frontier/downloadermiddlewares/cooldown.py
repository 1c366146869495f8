"""Hosts in trouble are left alone: 429, 503, and connections that fail.

Sees responses and errors before Scrapy's retry, redirect and meta refresh middlewares do, tells the frontier,
and sends the page back: it keeps its attempts and comes again when its host has rested. Where the frontier
says that the page must count an attempt, everything goes on as without this middleware.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http import Response
from scrapy.spidermiddlewares.httperror import HttpError

from ..core.errors import FrontierError
from ..core.hosts.troubles import Trouble
from ..core.parse.headers import TOO_BUSY, retry_after
from ..core.parse.urls import origin
from ..core.store.host_rows import LONGEST_ASKED
from ..core.times import span
from ..crawl.meta_keys import ERRAND, NOT_BEFORE, POSTPONED, POSTPONED_FOR
from ..crawl.runtime import runtime_of
from ..settings import FrontierSettings

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from ..crawl.runtime import Runtime

logger = logging.getLogger(__name__)
# With Retry-After others say the same (RFC 9110 15.5.14, 15.6; GitHub's 403), not with a page that is gone.
MAY_ASK = frozenset((403, 413, *range(500, 600)))

# By the names of the classes: Scrapy 2.14 lets Twisted's exceptions through, 2.19 has its own.
_ERRORS = {
    "refused": ("connection refused", False),
    "dns": ("its name does not resolve", False),
    "timeout": ("timed out", True),
    "lost": ("connection lost", True),
}
_NAMES = {
    "ConnectionRefusedError": "refused",
    "DownloadConnectionRefusedError": "refused",
    "DNSLookupError": "dns",
    "CannotResolveHostError": "dns",
    "TimeoutError": "timeout",
    "TCPTimedOutError": "timeout",
    "DownloadTimeoutError": "timeout",
    "ConnectionClosed": "lost",
    "ConnectError": "lost",
    "ConnectionError": "lost",
    "ResponseFailed": "lost",
    "DownloadFailedError": "lost",
}


class CooldownMiddleware:
    """Below Redirect (600) and Retry (550): what comes from the network passes here first.

    An error with Retry-After is trouble whatever its status, but for those that say it will stay.

    Not what errands meet: who sent them (robots.txt) knows what that means.
    """

    def __init__(self, crawler: Crawler) -> None:
        if not FrontierSettings.of_component(crawler.settings).cooldown.first:
            raise NotConfigured  # in silence: somebody wants it so
        self.crawler = crawler
        self._wants_all = crawler.settings.getbool("HTTPERROR_ALLOW_ALL")
        self._wanted = {int(code) for code in crawler.settings.getlist("HTTPERROR_ALLOWED_CODES")}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_request(self, request: Request) -> Request | None:
        """Send back what was handed out before its host began to rest: it may have waited for robots.txt. And
        what a redirect led to, until the redirect's Retry-After has passed.

        A page that the frontier gave up ends here, as if it had met the trouble itself.
        """
        runtime = runtime_of(self.crawler)
        lease = runtime.lease_of(request) if runtime is not None else None
        if runtime is None or lease is None:
            return None
        if lease.given_up is not None and not request.meta.get("proxy"):
            raise error_of(lease.given_up, request)
        now = runtime.clock()
        when = request.meta.get(NOT_BEFORE)
        if isinstance(when, (int, float)) and when > now:
            sent_back = self._sent_back(request, "the redirect that led to it asks to wait")
            sent_back.meta[POSTPONED_FOR] = min(when - now, LONGEST_ASKED)
            return sent_back
        return (
            self._sent_back(request, f"{lease.host} rests")
            if runtime.frontier.rests(lease.host, now)
            else None
        )

    def process_response(self, request: Request, response: Response) -> Request | Response:
        status = response.status
        if status not in TOO_BUSY and not (status in MAY_ASK and b"Retry-After" in response.headers):
            return response
        if "cached" in response.flags or ERRAND in request.meta:
            return response
        runtime = runtime_of(self.crawler)
        if runtime is None:
            return response
        headers = response.headers.getlist(b"Retry-After")
        seconds = retry_after(headers[0].decode("latin-1"), runtime.clock()) if headers else None
        if status not in TOO_BUSY and not seconds:
            return response
        bare = status == 503 and not seconds
        failure = Response(response.url, status, {"Retry-After": headers} if headers else None)
        trouble = Trouble(f"HTTP {status}", seconds, bare, failure=failure)
        sent_back = self._cool(runtime, request, trouble)
        if sent_back is None or request.meta.get("dont_retry") or self._wants(request, status):
            return response
        return sent_back

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        runtime = runtime_of(self.crawler)
        lease = runtime.lease_of(request) if runtime is not None else None
        if lease is not None and lease.given_up is not None:
            return None
        is_elsewhere = request.meta.get("proxy") or ERRAND in request.meta
        trouble = trouble_of(exception) if runtime is not None and not is_elsewhere else None
        if runtime is None or trouble is None:
            return None
        trouble = trouble._replace(is_silent=True, failure=exception)
        sent_back = self._cool(runtime, request, trouble)
        if sent_back is None or request.meta.get("dont_retry"):
            return None
        _forget_frames(exception)
        return sent_back

    def _wants(self, request: Request, status: int) -> bool:
        """Whether the spider asked to see such responses, in any of the ways Scrapy has for it."""
        if self._wants_all or request.meta.get("handle_httpstatus_all"):
            return True
        by_spider = getattr(self.crawler.spider, "handle_httpstatus_list", self._wanted)
        return status in request.meta.get("handle_httpstatus_list", by_spider)

    def _cool(self, runtime: Runtime, request: Request, trouble: Trouble) -> Request | None:
        """Have the host rest; the request to send back, or None where it must take its usual way.

        A request that the frontier did not hand out (a pipeline's, say) cannot be sent back.
        """
        lease = runtime.lease_of(request)
        if lease is not None:
            page = lease.page
            trouble = trouble._replace(sent=lease.leased_at, page_id=lease.page_id, attempts=page.attempts)
        trouble = trouble._replace(origin=origin(request.url) or "")
        host = lease.host if lease is not None else runtime.unit_of(request.url)
        now = runtime.clock()
        try:
            rest = runtime.frontier.cool(host, trouble, now)
        except FrontierError:  # the scheduler meets the same one, and closes the spider for it
            return None
        stats = self.crawler.stats
        assert stats is not None
        if rest.is_new:
            stats.inc_value("frontier/cooldown/strikes")
            logger.info(
                "%s rests for %s after strike %d: %s",
                host,
                span(rest.cooldown.until - now),
                rest.cooldown.strikes,
                trouble.reason,
                extra={"spider": self.crawler.spider},
            )
        if lease is None or not rest.keeps_attempts or lease.is_last:
            return None
        return self._sent_back(request, f"{host} rests: {trouble.reason}")

    def _sent_back(self, request: Request, reason: str) -> Request:
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value("frontier/cooldown/postponed")
        sent_back = request.replace(dont_filter=True)
        sent_back.meta[POSTPONED] = reason
        return sent_back


def error_of(trouble: Trouble, request: Request) -> Exception:
    """What ends a page that is given up because of *trouble*: the error that another page of its site met."""
    failure = trouble.failure
    if isinstance(failure, Response):
        return HttpError(failure.replace(url=request.url, request=request), "Ignoring non-200 response")
    return failure.with_traceback(None) if isinstance(failure, Exception) else IgnoreRequest(trouble.reason)


def _is_answer(error: BaseException | None) -> bool:
    """Whether *error*, of Twisted or aiohttp, is about what the host answered, not about the connection."""
    if error is None or type(error).__name__ == "ClientResponseError":
        return error is not None
    for reason in getattr(error, "reasons", ()):
        kind = type(getattr(reason, "value", reason))
        if _NAMES.keys().isdisjoint(each.__name__ for each in kind.__mro__):
            return True
        if kind.__name__ == "ConnectionDone" and type(error).__name__ == "ResponseFailed":
            return True  # it began to answer, and closed the connection as if that were all
    return False


def _forget_frames(error: BaseException | None) -> None:
    """Let go of what *error*, which is kept while its host does not answer, holds by its tracebacks."""
    while error is not None and error.__traceback__ is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def trouble_of(error: BaseException) -> Trouble | None:
    """What an error of the downloader says of the host; None where it says nothing.

    Broken headers, a body cut short and a TLS certificate that does not fit are no better after a rest, and
    the host answered.
    """
    if _is_answer(error if hasattr(error, "reasons") else error.__cause__):
        return None
    for kind in type(error).__mro__:
        name = _NAMES.get(kind.__name__)
        if name is not None:
            reason, may_be_page = _ERRORS[name]
            return Trouble(reason, may_be_page=may_be_page)
    return None
