"""Revisits: the parts that bring finished pages back, and end their visits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..revisits.learnt import LearntRates
from ..revisits.plans import Plans, RevisitRule
from ..revisits.share import RevisitShare
from .revisit_endings import RevisitEndings
from .revisit_queue import RecomputeDue, RevisitQueue

if TYPE_CHECKING:
    from ..hosts.host import Host
    from ..hosts.hosts import Hosts
    from ..hosts.sites import RobotsAndSitemaps
    from ..store.batch import Batch
    from ..store.records import Page
    from .leases import Lease, Outcome, Released
    from .queue import Waiting
    from .scores import Scores


class Revisits:
    """When finished pages come back, by *rule* (None: never), and what their visits change."""

    def __init__(
        self,
        batch: Batch,
        hosts: Hosts,
        waiting: Waiting,
        scores: Scores,
        sites: RobotsAndSitemaps,
        rule: RevisitRule | None,
    ) -> None:
        self.revisits_pages = rule is not None
        rule = rule or RevisitRule()
        rates = LearntRates(batch, sites, rule, batch.opened_at)
        self.share = RevisitShare(batch, hosts, rule.share) if self.revisits_pages else None
        self.queue = RevisitQueue(
            batch,
            hosts,
            waiting,
            rates,
            Plans(rule, batch.read_page),
            scores.score_of,
            self.revisits_pages,
            batch.opened_at,
        )
        self.recompute = RecomputeDue(batch, self.queue)
        self._endings = RevisitEndings(batch, hosts, waiting, scores, self.queue, rates)

    @property
    def notes_ends(self) -> bool:
        """Whether `first_ended` has to be called when a page ends."""
        return self.queue.notes_ends

    def wake(self, now: float) -> None:
        """Queue the pages that are due, a handful at a time."""
        if self.revisits_pages:
            self.queue.wake(now)

    def first_ended(self, lease: Lease, page: Page, now: float) -> Page:
        """See `RevisitQueue.first_ended`."""
        return self.queue.first_ended(lease, page, now)

    def release(self, lease: Lease, outcome: Outcome, host: Host, queue: Host, now: float) -> Released:
        """See `RevisitEndings.release`."""
        return self._endings.release(lease, outcome, host, queue, now)

    def release_beside(self, lease: Lease, outcome: Outcome, now: float) -> Released | None:
        """See `RevisitEndings.release_beside`."""
        return self._endings.release_beside(lease, outcome, now)
