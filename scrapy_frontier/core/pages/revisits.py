"""Revisits: the parts that bring finished pages back, and end their visits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..revisits.budget import RevisitBudget, RevisitShare
from ..revisits.plans import LearntChangeRates, Plans, RevisitRule
from .revisit_endings import False304s, RevisitEndings
from .revisit_queue import ForbiddenPages, RecomputeDue, RevisitQueue

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
        now = batch.opened_at
        self.revisits_pages = rule is not None
        rule = rule or RevisitRule()
        forbidden = ForbiddenPages(batch, sites)
        learnt = LearntChangeRates(batch, sites, rule)
        plans = Plans(rule, batch.read_page)
        budget = RevisitBudget(batch, scores.score_of, rule, plans, learnt, now)
        self.share = RevisitShare(batch, hosts, rule.share) if self.revisits_pages else None
        self.queue = RevisitQueue(
            batch,
            hosts,
            forbidden,
            learnt,
            budget,
            self.share,
            scores.score_of,
            rule,
            self.revisits_pages,
            now,
        )
        self.recompute = RecomputeDue(batch, self.queue, forbidden)
        self.false_304s = False304s()
        self._endings = RevisitEndings(
            batch, hosts, waiting, scores, self.queue, learnt, budget, forbidden, self.false_304s
        )

    @property
    def notes_ends(self) -> bool:
        """Whether `first_ended` has to be called when a page ends."""
        return self.queue.notes_ends

    def wake(self, now: float) -> None:
        """Queue the pages that are due, a handful at a time."""
        if self.revisits_pages:
            self.queue.wake(now)

    def put_off(self, host: Host, sort_key: bytes, page: Page, now: float) -> None:
        """See `RevisitQueue.put_off`."""
        self.queue.put_off(host, sort_key, page, now)

    def first_ended(self, lease: Lease, page: Page, now: float) -> Page:
        """See `RevisitQueue.first_ended`."""
        return self.queue.first_ended(lease, page, now)

    def release(self, lease: Lease, outcome: Outcome, host: Host, queue: Host, now: float) -> Released:
        """See `RevisitEndings.release`."""
        return self._endings.release(lease, outcome, host, queue, now)

    def release_beside(self, lease: Lease, outcome: Outcome, now: float) -> Released | None:
        """See `RevisitEndings.release_beside`."""
        return self._endings.release_beside(lease, outcome, now)
