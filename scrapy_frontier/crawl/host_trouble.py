"""Reads from a response or an error of the downloader what trouble its host has, and how a page ends by
it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest
from scrapy.http import Request, Response
from scrapy.spidermiddlewares.httperror import HttpError

from ..core import reasons
from ..core.errors import span
from ..core.hosts.host import Trouble
from ..core.hosts.trouble import asked_pause, trouble_at

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from ..core.frontier import Frontier
    from ..core.hosts.trouble import Cooled

logger = logging.getLogger(__name__)


def record_cooldown(crawler: Crawler, frontier: Frontier, host: str, trouble: Trouble, now: float) -> Cooled:
    """Calls `Frontier.record_cooldown`, and counts and logs a new strike. Raises `FrontierUnwritable`."""
    rest = frontier.record_cooldown(host, trouble, now)
    if rest.is_new and rest.cooldown is not None:
        crawler.stats.inc_value("frontier/cooldown/strikes")
        pause, extra = span(rest.cooldown.until - now), {"spider": crawler.spider}
        words = "%s rests for %s after strike %d: %s"
        logger.info(words, host, pause, rest.cooldown.strikes, trouble.reason, extra=extra)
    return rest


REASON = "frontier_reason"  # attribute of an IgnoreRequest: what to keep instead of its text
CACHED = "cached"  # flag of a response from Scrapy's HTTP cache

# By the names of the classes: Scrapy's own, and those of Twisted that other handlers let through.
_NAMES = {
    Trouble(reasons.CONNECTION_REFUSED()): "ConnectionRefusedError DownloadConnectionRefusedError",
    Trouble(reasons.NO_SUCH_NAME()): "DNSLookupError CannotResolveHostError",
    Trouble(reasons.TIMED_OUT(), may_be_page=True): "TimeoutError TCPTimedOutError DownloadTimeoutError",
    Trouble(reasons.CONNECTION_LOST(), may_be_page=True): (
        "ConnectionClosed ConnectError ConnectionError ResponseFailed DownloadFailedError"
    ),
}
_TROUBLES = {name: trouble for trouble, names in _NAMES.items() for name in names.split()}


def pause_in(response: Response, now: float) -> float:
    """Returns the seconds for which *response* asks to be left alone; 0 if it does not say."""
    return asked_pause(first_line(response, "Retry-After"), now)


def trouble_in(response: Response, now: float) -> Trouble | None:
    """Returns the trouble that *response* shows (`trouble_at`), None if it shows none."""
    status, line = response.status, first_line(response, "Retry-After")
    trouble = trouble_at(status, line, now)
    if trouble is None:
        return None
    failure = Response(response.url, status, {"Retry-After": line} if line else None)
    return trouble._replace(failure=failure)


def lines_of(response: Response, name: str) -> list[str]:
    """Returns the header lines of *response* called *name*."""
    return [line.decode("latin-1") for line in response.headers.getlist(name)]


def first_line(response: Response, name: str) -> str:
    """Returns the first of `lines_of`, "" if there is none."""
    return next(iter(lines_of(response, name)), "")


def error_of(trouble: Trouble, request: Request) -> Exception:
    """Returns what to raise for *request*, which is given up because of *trouble*: the error that another
    page of its site met, else an `IgnoreRequest`."""
    failure = trouble.failure
    if isinstance(failure, Response):
        return HttpError(failure.replace(url=request.url, request=request), "Ignoring non-200 response")
    return failure.with_traceback(None) if isinstance(failure, Exception) else IgnoreRequest(trouble.reason)


def _is_answer(error: BaseException | None) -> bool:
    """Returns whether *error*, of Twisted or aiohttp, is about an answer, not about the connection."""
    if error is None or type(error).__name__ == "ClientResponseError":
        return error is not None
    for reason in getattr(error, "reasons", ()):
        kind = type(getattr(reason, "value", reason))
        if _TROUBLES.keys().isdisjoint(each.__name__ for each in kind.__mro__):
            return True
        if kind.__name__ == "ConnectionDone" and type(error).__name__ == "ResponseFailed":
            return True  # it began to answer, and closed the connection as if that were all
    return False


def forget_frames(error: BaseException | None) -> None:
    """Drops the tracebacks of *error*, which is kept while its host does not answer."""
    while error is not None and error.__traceback__ is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def trouble_of(error: BaseException) -> Trouble | None:
    """Returns the trouble that an error of the downloader shows, None if it shows none.

    Broken headers, a body cut short and a wrong TLS certificate are none: the host answered, and a rest does
    not help.
    """
    for each in (error, error.__cause__):
        if type(each).__name__ == "ConnectBindError":  # no file descriptor, or no such address, is left
            return Trouble(reasons.NOT_SENT(cause=str(each)))
    if _is_answer(error if hasattr(error, "reasons") else error.__cause__):
        return None
    found = (_TROUBLES.get(kind.__name__) for kind in type(error).__mro__)
    trouble = next((trouble for trouble in found if trouble is not None), None)
    # Closed before it answered: the connection may have been kept open for too long.
    may_be_connection = "ResponseNeverReceived" in (type(error).__name__, type(error.__cause__).__name__)
    return trouble._replace(may_be_connection=True) if trouble and may_be_connection else trouble
