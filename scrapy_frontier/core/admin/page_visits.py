"""What the visits of a page showed, as named values and in words."""

from __future__ import annotations

from ..errors import moment, span
from ..revisits.change_rates import likeliest_rate
from ..store.records import Visits


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


# -- in words ------------------------------------------------------------------------------------------------


def how_often(visits: Visits) -> str:
    """Says how often a page changes: ``changes about every 9 days, seen 4 of 31 visits``."""
    if not visits.history.changes:
        return "no change seen yet" if visits.visits < 2 else f"no change seen in {visits.visits:,} visits"
    interval = 1.0 / max(likeliest_rate(visits.history), 1e-12)
    return f"changes about every {span(interval)}, seen {visits.changes:,} of {visits.visits:,} visits"


def when_due(visits: Visits | None, now: float) -> str:
    """Says in a sentence when a page comes back, seen from *now* (POSIX seconds); empty if it does not."""
    if visits is None or not visits.due:
        return ""
    if visits.is_queued:
        return "It is due, and queued again."
    if visits.due <= now:
        return f"It is due since {moment(visits.due)}: the next crawl that comes back fetches it."
    return f"It comes back on {moment(visits.due)} (in {span(visits.due - now)})."
