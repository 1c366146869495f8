"""The scorer of a shard: its rankings count what pages of other shards pay, too.

A ranking sees the links of one shard. It also finds what these pay a page of another shard, which is only
seen here, and tells the owner of that shard by how much this has changed. The owner adds up the changes that
all other shards tell, and counts the sum as a preference for the page in its own rankings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core.ranking.default_scorer import Mixed
from ..core.ranking.other_scorers import room

if TYPE_CHECKING:
    import random

    from numpy.typing import NDArray

    from ..core.ranking.pagerank import Ranking
    from ..core.ranking.scorer import Change

LEAST_RANK = 1.0  # of a page that another shard is told of: the mean
LEAST_CHANGE = 0.19  # of what it was told before


class ShardScorer(Mixed):
    """`Mixed`, with 8 bytes more a page: what other shards pay it, and what another shard was told of it.

    The first is kept as a column; a kill forgets what came since the last ranking. The second is not kept:
    after a restart the ranks of the next ranking count as told, so that no change is paid twice.
    """

    columns = (*Mixed.columns, "inflow")
    of_other_shards = 3.0  # what a rank in another shard counts, of the mean preference

    def __init__(self, rng: random.Random | None = None) -> None:
        super().__init__(rng)
        self._inflow = room(np.float32)
        self._told = room(np.float32)  # 0: not known

    def posted(self, node: int, host: str, paid: float) -> float:
        """As `Mixed.posted`; what is paid counts in rankings."""
        score = super().posted(node, host, paid)
        self._inflow[node] = paid
        return score

    def paid_more(self, node: int, change: float) -> None:
        """Add *change* to what the pages of other shards pay; it counts in rankings."""
        self._grow_to(node + 1)
        self._inflow[node] = max(self._inflow[node] + change, 0)

    def owed(self, node: int) -> float:
        """As `Cash.owed`, of which the other shard is told."""
        owed = super().owed(node)
        if not self._told[node]:
            self._told[node] = owed
        return owed

    def owed_more(self, ranking: Ranking) -> list[Change]:
        """Return changes of rank, of all pages that are not queued here. 10 ms for a million pages."""
        pages = len(ranking.scores)
        rank, told = (ranking.scores * pages).astype(np.float32), self._told[:pages]
        told[:] = np.where(told > 0, told, rank)
        is_changed = (rank >= LEAST_RANK) & (abs(rank - told) > LEAST_CHANGE * told)
        nodes = np.flatnonzero(is_changed & self._shut[:pages] & ~self._parsed[:pages])
        changes = (rank - told)[nodes]
        told[nodes] = rank[nodes]
        return list(zip(nodes.tolist(), changes.tolist(), strict=True))

    def _preference(self, pages: int) -> NDArray[np.float64]:
        preference = super()._preference(pages)
        inflow = self._inflow[: min(pages, self.known)]
        preference[: len(inflow)] += self.of_other_shards * preference.mean() * inflow
        return preference
