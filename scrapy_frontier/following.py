"""Where a request comes from, and what one that follows from another says of that other's page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core.leases import Outcome
from .core.lifecycle import Event
from .requests import MOVED, POSTPONED, POSTPONED_FOR, START

if TYPE_CHECKING:
    from scrapy import Request

    from .flights import Flight


def is_seed(request: Request) -> bool:
    """Whether *request* comes from ``start()``, or by redirects from there.

    What a callback makes of a seed inherits its meta, but has a depth.
    """
    return START in request.meta and "depth" not in request.meta


def is_retry(child: Request, flight: Flight) -> bool:
    """Whether *child* asks once more for the page of the *flight* it follows from."""
    return times(child, "retry_times") > times(flight.request, "retry_times")


def is_answer(child: Request, flight: Flight) -> bool:
    """Whether *child* fetches what a form was answered with: its page may be known, the answer is not.

    A login leads to the page one came from, as a rule, which shows another face then.
    """
    return (
        flight.request.method not in ("GET", "HEAD")
        and child.method == "GET"
        and times(child, "redirect_times") > times(flight.request, "redirect_times")
    )


def times(request: Request, counter: str) -> int:
    value = request.meta.get(counter, 0)
    return value if isinstance(value, int) else 0


def retried(flight: Flight, child: Request, payload: bytes | None, delay: float) -> Outcome:
    """The page is asked for again, by *child*, after *delay* seconds."""
    reason = f"HTTP {flight.status}" if flight.status else "to be retried"
    return Outcome(
        Event.RETRIED, flight.status, reason, payload=payload, priority=child.priority, delay=delay
    )


def postponed(flight: Flight, child: Request) -> Outcome:
    """The page goes back where it was: nothing was fetched, so nothing counts."""
    meta = child.meta
    reason, host = str(meta.pop(POSTPONED)), str(meta.pop(MOVED, ""))
    delay = float(meta.pop(POSTPONED_FOR, 0.0))
    return Outcome(Event.RETURNED, flight.status, reason, delay=delay, host=host)


def redirected(child: Request, target: int | None) -> Outcome:
    """The page led to *child*; *target* is its page, if that is known."""
    return Outcome(Event.REDIRECTED, reason=f"led to {child.url[:200]}", target=target)


def redirected_to_itself(payload: bytes | None) -> Outcome:
    """The page led to the same page once more: with a cookie, say."""
    return Outcome(Event.RETRIED, reason="redirected to itself", payload=payload)
