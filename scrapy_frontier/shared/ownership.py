"""Decides which process owns which shard of a shared crawl, from what the database shows once a second.

No process believes the clock of another. Each counts its ``beat`` up every second; a process that has seen
the same beat of another for a whole lease, by its own clock and without a gap between its looks, may declare
that process dead. A lease is longer than the time for which a process hands out requests after its last
answered beat (the patience) and the longest request together, so that nothing of a dead process is on the
wire when another takes its shards.

Times are seconds of a clock that goes on during a suspend (CLOCK_BOOTTIME).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID

    from .database import Look, Shard

GAP = 5.0  # a longer pause between two looks says nothing of what others did meanwhile
QUIET = 5.0  # a process that has not been heard of for so long gets no part of the shards
SETTLING = 2.0  # after joining: those that join together see each other before they take shards
STRANGE = 10.0  # a free shard with its copy elsewhere: its last owner may come back for it


class Decisions(NamedTuple):
    """What to do after a look: dead processes to *bury*, each with the beat at which it stopped; shards to
    *take*, to *hand_over* once nothing of them is under way, and those that were *lost* to others."""

    bury: list[tuple[UUID, int]]
    take: list[Shard]
    hand_over: list[int]
    lost: set[int]


class Ownership:
    """Decides for *process*, by what it saw of the others. *lease* and *patience* are seconds."""

    def __init__(self, process: UUID, now: float, lease: float, patience: float) -> None:
        self._process = process
        self._joined = self._looked = now
        self._lease, self._patience = lease, patience
        self._beats: dict[tuple[UUID, int], float] = {}  # of other processes, and when they were seen first
        self._free: dict[int, float] = {}  # free shards, and when they were seen first
        self.deadline = now + patience  # until then requests may be handed out

    def decide(
        self, look: Look, asked_at: float, mine: Collection[int], at_hand: Collection[UUID]
    ) -> Decisions:
        """Decide what follows from a *look* that was asked for at *asked_at*.

        *mine*: shards that this process works on. *at_hand*: copies on this machine that no process has
        open. Their shards are taken at once, even from an owner that is still listed, because nothing writes
        a copy that is not open.
        """
        if asked_at - self._looked > GAP:
            self._beats.clear()
            self._free.clear()
        self._looked = asked_at
        self.deadline = asked_at + self._patience
        held = [shard for shard in look.shards if shard.owner == self._process]
        # Shards of this process that it does not work on: a load failed, or a copy was of no use.
        left = [shard for shard in held if shard.n not in mine]
        dead = self._dead(look, asked_at)
        part = self._part(look, asked_at, at_hand)
        return Decisions(
            bury=dead,
            take=left + self._wanted(look, asked_at, at_hand)[: max(part - len(held), 0)],
            hand_over=[shard.n for shard in held[part:]],
            lost=set(mine) - {shard.n for shard in held},
        )

    def _dead(self, look: Look, now: float) -> list[tuple[UUID, int]]:
        others = [each for each in look.beats.items() if each[0] != self._process]
        self._beats = {each: self._beats.get(each, now) for each in others}
        return [each for each, since in self._beats.items() if now - since >= self._lease]

    def _part(self, look: Look, now: float, at_hand: Collection[UUID]) -> int:
        """How many shards fall to this process. What does not divide evenly falls to those that have more
        already, so that few shards move."""
        held = Counter(shard.owner for shard in look.shards)
        # A process that has none of the copies of its shards open was killed on this machine.
        at_work = {shard.owner for shard in look.shards if shard.copy not in at_hand}
        live = [
            process
            for (process, _), since in self._beats.items()
            if now - since < QUIET and (process in at_work or not held[process])
        ]
        order = sorted([self._process, *live], key=lambda process: (-held[process], process))
        least, over = divmod(len(look.shards), len(order))
        return least + (order.index(self._process) < over)

    def _wanted(self, look: Look, now: float, at_hand: Collection[UUID]) -> list[Shard]:
        """The shards that may be taken now, those first whose copy is at hand."""
        here = [s for s in look.shards if s.copy in at_hand and s.owner != self._process]
        if now - self._joined < SETTLING:
            return []
        free = [shard for shard in look.shards if shard.owner is None]
        self._free = {shard.n: self._free.get(shard.n, now) for shard in free}
        # A shard that was never owned has no copy that could come back.
        ripe = [s for s in free if s.copy is None or now - self._free[s.n] >= STRANGE]
        return here + [s for s in ripe if s not in here]
