"""When a domain has to have its turn, whatever others offer: virtual time, as in fair queueing.

A *round* is as many hand-outs as there are domains that may be asked (Demers, Keshav and Shenker, "Analysis
and simulation of a fair queueing algorithm", 1989). A domain that had its turn, or may be asked from now on,
is due after `FIRST` rounds for each page it was asked for so far, `MOST` rounds at the most. Whoever is due
comes next, the longest overdue first. So a domain that may be asked waits no longer than `MOST` + 1 rounds,
its first pages far less, and what an endless one has to offer is worth no more than that.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST = 2  # rounds until a domain is due, for each page it was asked for
MOST = 32  # rounds until a domain is due, however many these were


class Party(Protocol):
    """What is asked of a domain."""

    name: str
    handed: int  # pages it was asked for so far
    due: float  # the round in which it comes next, whatever others offer
    is_listed: bool  # among those that will be due

    @property
    def is_waiting(self) -> bool: ...


DomainT = TypeVar("DomainT", bound=Party)


class Rounds(Generic[DomainT]):
    """Owns the virtual time, and who of *domains* (by name) is due when."""

    def __init__(self, domains: Mapping[str, DomainT]) -> None:
        self.now = 0.0  # in rounds
        self._domains = domains
        # No later than when the domain is due; an entry that is too early is put right when it surfaces.
        self._due: list[tuple[float, str]] = []

    def start(self, domain: DomainT) -> None:
        """A domain may be asked from now on; O(log domains)."""
        domain.due = self.now + _patience(domain)
        if not domain.is_listed:
            self.enlist(domain)

    def pass_turn(self, domain: DomainT, active: int) -> None:
        """A domain had a turn, one of *active* that might be asked."""
        self.now += 1 / max(active, 1)
        domain.handed += 1
        domain.due = self.now + _patience(domain)

    def enlist(self, domain: DomainT) -> None:
        """Have a domain among those that will be due; again where its name or its time changed."""
        domain.is_listed = True
        heapq.heappush(self._due, (domain.due, domain.name))
        if len(self._due) > 64 + 4 * len(self._domains):
            self._due = [(each.due, each.name) for each in self._domains.values() if each.is_listed]
            heapq.heapify(self._due)

    def overdue(self) -> DomainT | None:
        """The domain that is due for the longest time; O(1) where there is none."""
        due = self._due
        while due and due[0][0] <= self.now:
            domain = self._domains.get(due[0][1])
            if domain is None or not domain.is_waiting:
                heapq.heappop(due)
                if domain is not None:
                    domain.is_listed = False
            elif domain.due > self.now:  # it had turns since
                heapq.heapreplace(due, (domain.due, domain.name))
            else:
                return domain
        return None


def _patience(domain: Party) -> int:
    return min(FIRST * (1 + domain.handed), MOST)
