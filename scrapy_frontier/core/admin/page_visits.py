"""What the visits of a page showed, as named values and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import moment, span
from ..revisits.change_rates import likeliest_rate
from ..store.keys import State
from ..store.records import Visits

if TYPE_CHECKING:
    from ..store.records import Page


def named(visits: Visits | None) -> dict[str, object]:
    """Returns the visits as the commands give them; None stands for what is not known."""
    kept = Visits(0, 0, visits=0) if visits is None else visits
    etag, last_modified = (each.decode("latin-1") or None for each in kept.validators)
    return {
        "first_visit": kept.first or None,
        "last_visit": kept.last or None,
        "last_change": kept.changed or None,
        "visits": kept.visits,
        "changes": kept.changes,
        "due": kept.due if kept.is_scheduled else None,
        "content_type": kept.content_type or None,
        "length": kept.length or None,
        "etag": etag,
        "last_modified": last_modified,
    }


def changed_at(page: Page) -> int:
    """Returns when a page was new or had changed (POSIX seconds); 0 for one that has not ended yet."""
    if page.state is State.DONE and page.visits is not None:
        return page.visits.changed or page.visits.first
    return page.changed if page.state is not State.SEEN else 0


def interval(visits: Visits) -> float | None:
    """Returns the mean seconds between changes by the visits of this page alone; None if they saw none."""
    if not visits.history.changes:
        return None
    return 1.0 / max(likeliest_rate(visits.history), 1e-12)


# -- in words ------------------------------------------------------------------------------------------------


def how_often(visits: Visits) -> str:
    """Says how often a page changes: ``changes about every 9 days, seen 4 of 31 visits``."""
    found = interval(visits)
    if found is None:
        return "no change seen yet" if visits.visits < 2 else f"no change seen in {visits.visits:,} visits"
    return f"changes about every {span(found)}, seen {visits.changes:,} of {visits.visits:,} visits"


def what_works(visits: Visits) -> str:
    """Says which validators are kept, to be sent with the next visit."""
    kept = visits.validators
    if not any(kept):
        return "none was given"
    return ", ".join(name for name, value in zip(("ETag", "Last-Modified"), kept, strict=True) if value)


def when_due(visits: Visits | None, now: float) -> str:
    """Says in a sentence when a page comes back, seen from *now* (POSIX seconds); empty if it does not."""
    if visits is None or not visits.due:
        return ""
    if visits.is_queued:
        return "It is due, and queued again."
    if visits.due <= now:
        return f"It is due since {moment(visits.due)}: the next crawl that comes back fetches it."
    return f"It comes back on {moment(visits.due)} (in {span(visits.due - now)})."
