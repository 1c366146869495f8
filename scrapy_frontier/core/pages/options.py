"""The options of a frontier: politeness, budgets, order, revisits, with the defaults of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..hosts.host import Politeness
from ..hosts.host_order import itself
from ..hosts.trouble import FIRST_REST

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from ..hosts.host_order import DomainRates
    from ..hosts.trouble import GiveUpRule
    from ..ranking.scorer import Scorer
    from ..revisits.plans import RevisitRule
    from ..store.batch import BeforeCommit, OnCommit
    from .traps import TrapLimits

UNLIMITED = Politeness(0.0, 8)


@dataclass(frozen=True, kw_only=True)
class FrontierOptions:
    """The options of a `Frontier`.

    - ``default_politeness``: the limits of a host; ``politeness`` has the exceptions by host name.
    - ``max_attempts``: attempts after which a page has failed; ``lease_timeout``: seconds until a lease
      expires.
    - ``cooldown``: seconds that a host rests after its first trouble.
    - ``rates``: pages a second of a registered domain, which ``domain_of`` returns for a host.
    - ``give_up_rule``: when to give up silent hosts, in a frontier that is removed with its crawl.
    - ``rng``: draws the jitter of pauses; None draws the same in every run.
    - ``host_pages``: how many pages of a host are fetched (0: all); more are deferred. ``traps``: limits of
      URLs that are not refused.
    - ``scorer``: orders the pages of one priority; None: in order of discovery.
    - ``revisits``: when finished pages come back; None: never.
    - ``on_commit``: called with the rows of each batch that was written; the value None is a deletion.
      ``before_commit``: called with the rows of a batch before it is written; may add some.
    - ``part``: the number of frontiers in the process, which share the memory for one.
    - ``was_of_another``: another process had the frontier, and may have asked any host until just now.
    - ``max_uncommitted_pages``: how many pages a kill may repeat. While fewer are leased, ends of pages are
      written together, by `Frontier.commit` at the latest; 0 writes each at once.
    """

    default_politeness: Politeness = UNLIMITED
    politeness: Mapping[str, Politeness] = field(default_factory=dict)
    max_attempts: int = 10
    lease_timeout: float = 3600.0
    cooldown: float = FIRST_REST
    rates: DomainRates | None = None
    domain_of: Callable[[str], str] = itself
    give_up_rule: GiveUpRule | None = None
    rng: random.Random | None = None
    host_pages: int = 0
    traps: TrapLimits | None = None
    scorer: Scorer | None = None
    revisits: RevisitRule | None = None
    on_commit: OnCommit | None = None
    before_commit: BeforeCommit | None = None
    part: int = 1
    was_of_another: bool = False
    max_uncommitted_pages: int = 0

    def politeness_of(self, host: str) -> Politeness:
        """Return the limits of *host*."""
        return self.politeness.get(host, self.default_politeness)
