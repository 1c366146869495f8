"""Requests that follow from others, redirects as a rule, and that nobody asks for.

It is told before they are on their way to the scheduler: the others can end in their errbacks then, and their
seeds are tried again by the next run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...core.frontier import Event, Link, Outcome
from ..flights.redirect_links_and_retries import is_once_more, not_followed, times
from ..requests.request_classes import copied

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from ...core.frontier import Frontier
    from ..flights.in_flight import Flight
    from ..flights.redirect_links_and_retries import FollowUps
    from .enqueue_requests import Intake
    from .refused_links import Refusals


@dataclass(eq=False, repr=False)
class RefusedFollowUps:
    """Asked for each request that follows from another, once."""

    _frontier: Frontier
    _clock: Callable[[], float]
    _intake: Intake
    _follow_ups: FollowUps
    _refusals: Refusals

    def reason(self, flight: Flight, follow_up: Request) -> str:
        """Why *follow_up* is not asked for, so that *flight* ends with an error; empty where it is, or where
        its page is known. 20 us."""
        if is_once_more(follow_up, flight):
            return ""
        if self._intake.find(follow_up) == flight.lease.page_id:
            return self._follow_ups.end_for_nothing(flight, follow_up)
        reason = self._reason(follow_up, flight)
        if reason:  # it leads away all the same, as a page that comes back has to be told
            flight.outcome = Outcome(Event.REDIRECTED, flight.status, reason)
        return reason

    def reason_of_refresh(self, target: Request) -> str:
        """Why *target*, to which a page that is read leads by a refresh, would be refused as a link: for the
        record of that page. Empty where it would not be, or is known."""
        url = self._intake.without_session(target.url)
        return self._reason(target if url == target.url else copied(target, url), None)

    def _reason(self, target: Request, flight: Flight | None) -> str:
        """Why *target*, to which *flight* leads if there is one, would be refused; that is counted, and
        logged."""
        intake = self._intake
        host, _ = intake.host_key(copied(target), flight)  # its slot may be taken off
        depth = times(target, "depth") if intake.has_depth else 0
        link = Link(intake.identities.of(target), target.url, host, depth=depth)
        answer = self._frontier.refusal(link, self._clock())
        if answer is None:
            return ""
        self._refusals.report(answer, link, target)
        return not_followed(target.url, answer.why_refused)
