"""All scorers by the names that settings and commands use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .mixed import Mixed
from .scorers import Cash, Fifo, Hits, Lifo, LinkScore, PageRank

if TYPE_CHECKING:
    from .scorer import Scorer

SCORERS: dict[str, type[Scorer]] = {
    "mixed": Mixed,
    "pagerank": PageRank,
    "hits": Hits,
    "cash": Cash,
    "link": LinkScore,
    "fifo": Fifo,
    "lifo": Lifo,
}


def make(name: str) -> Scorer:
    """A new scorer; raises `ValueError` for a name that is none."""
    try:
        return SCORERS[name]()
    except KeyError:
        raise ValueError(
            f"no scorer {name!r}: use one of {', '.join(SCORERS)}, or the path of a class"
        ) from None
