"""How a request ended, read from what was seen of it: the verdict at its release."""

from __future__ import annotations

from typing import Any

from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from .core.frontier import Lease, Outcome
from .core.lifecycle import Event

_LONGEST_REASON = 200  # characters
_FINAL_EVENTS = {404: Event.GONE, 410: Event.GONE}


class Flight:
    """A request on its way, from hand-out to release, and what was seen of it so far."""

    __slots__ = ("child", "child_outcome", "error", "lease", "request", "spider_error", "status")

    def __init__(self, request: Request, lease: Lease) -> None:
        self.request = request
        self.lease = lease
        self.status = 0
        self.error: BaseException | None = None
        self.spider_error: BaseException | None = None
        self.child: Request | None = None
        self.child_outcome: Outcome | None = None

    def fetched(self, result: Any) -> None:
        """The downloader and its middlewares came to *result*: a response, a request, or a failure."""
        if isinstance(result, Response):
            self.status = result.status
        elif isinstance(result, Request):
            self.child = result
        else:
            self.error = getattr(result, "value", result)


def verdict(flight: Flight, closing: bool = False) -> Outcome:
    """What becomes of the page.

    A request that a middleware put in its place (redirect, retry) decides first, then what the network or a
    middleware raised, then the callback, then the status. What is cancelled while the crawl is *closing*
    counts for nothing.
    """
    if flight.child_outcome is not None:
        return flight.child_outcome
    if flight.child is not None:
        return Outcome(Event.REDIRECTED, reason="led to a request that was dropped")
    if flight.error is not None:
        return _after_error(flight.error, closing)
    if flight.spider_error is not None:
        return Outcome(Event.FAILED, flight.status, f"callback raised {describe(flight.spider_error)}")
    if not flight.status:
        return Outcome(Event.FAILED, reason="ended without a response")
    if flight.status in _FINAL_EVENTS:
        return Outcome(_FINAL_EVENTS[flight.status], flight.status, f"HTTP {flight.status}")
    if flight.status >= 400:
        return Outcome(Event.FAILED, flight.status, f"HTTP {flight.status}")
    return Outcome(Event.FETCHED, flight.status)


def _after_error(error: BaseException, closing: bool) -> Outcome:
    if isinstance(error, IgnoreRequest):
        return Outcome(Event.EXCLUDED, reason=str(error)[:_LONGEST_REASON] or type(error).__name__)
    if closing and type(error).__name__ == "CancelledError":
        return Outcome(Event.RETURNED, reason="cancelled")
    return Outcome(Event.FAILED, reason=describe(error))


def describe(error: BaseException) -> str:
    """Class and message of *error* in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:_LONGEST_REASON] if text else type(error).__name__
