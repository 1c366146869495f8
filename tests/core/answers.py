"""Short ways to ask a frontier, for tests that care about pages and not about all it answers."""

from collections.abc import Iterable
from dataclasses import replace

from scrapy_frontier.core.frontier import Discovered, Frontier, Lease, Link, Outcome, PageId
from scrapy_frontier.core.store.keys import State
from scrapy_frontier.core.store.link_rows import Edge


def ids(found: Iterable[Discovered]) -> list[PageId | None]:
    """The pages that `discover` queued or keeps for later; None for each link that changed nothing."""
    return [each.page_id if each.is_taken else None for each in found]


def see(frontier: Frontier, links: Iterable[Link], now: float) -> list[PageId | None]:
    """Make pages known and no more: their ids, also of those known before; None for a trap."""
    found = [replace(link, only_seen="out of scope") for link in links]
    return [each.page_id for each in frontier.discover(found, now)]


def release(
    frontier: Frontier, lease: Lease, outcome: Outcome, now: float, links: Iterable[Edge] | None = None
) -> State | None:
    """End a lease whose page has these links, as if they had gathered on it; the state of the page."""
    if links is not None:
        lease.edges.extend(links)
        outcome = outcome._replace(has_links=True)
    return frontier.release(lease, outcome, now).state
