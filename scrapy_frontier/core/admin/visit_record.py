"""What the visits of a page showed, as named values and in words; and its record in an export, and back."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

from ..hosts.change_rates import History, by_counts, likeliest_rate
from ..pages.signal_trust import is_lied_to, may_send
from ..store.due_rows import QUEUED_AGAIN
from ..store.rate_rows import decode_history
from ..store.states import State
from ..store.visit_rows import NO_HISTORY, Bad, Validators, Visits
from ..time_format import moment, span

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.page_rows import Page

_TRUST = 0x0F  # the bits of it that do not depend on how many visits ended with a 304


def named(visits: Visits | None) -> dict[str, object]:
    """The record as `dump`, `find` and `page` give it; what is not known is None."""
    kept = Visits(0, 0, visits=0) if visits is None else visits
    etag, last_modified = (each.decode("latin-1") or None for each in kept.validators)
    return {
        "first_visit": kept.first or None,
        "last_visit": kept.last or None,
        "last_change": kept.changed or None,
        "visits": kept.visits,
        "changes": kept.changes,
        "due": kept.due if kept.due > QUEUED_AGAIN else None,
        "content_type": kept.content_type or None,
        "length": kept.length or None,
        "etag": etag,
        "last_modified": last_modified,
    }


def changed_at(page: Page) -> int:
    """When a page was new, or other than before (POSIX seconds); 0 for one that came to no end yet."""
    if page.state is State.DONE and page.visits is not None:
        return page.visits.changed or page.visits.first
    return page.changed if page.state is not State.SEEN else 0


def interval(visits: Visits) -> float | None:
    """The mean seconds from change to change, as the visits of this page alone say; None where they saw
    none."""
    if not visits.changes or visits.visits < 2:
        return None
    history = History(*decode_history(visits.history))
    if visits.history == NO_HISTORY or not history.changes:
        history = by_counts(visits.visits, visits.changes, visits.last - visits.first)
    return 1.0 / max(likeliest_rate(history), 1e-12)


# -- in words ------------------------------------------------------------------------------------------------


def how_often(visits: Visits) -> str:
    """``changes about every 9 days, seen 4 of 31 visits``."""
    found = interval(visits)
    if found is None:
        return "no change seen yet" if visits.visits < 2 else f"no change seen in {visits.visits:,} visits"
    return f"changes about every {span(found)}, seen {visits.changes:,} of {visits.visits:,} visits"


def what_works(visits: Visits) -> str:
    """Which validators are sent, and why others are not."""
    kept = visits.validators
    if not any(kept):
        return "none was given"
    if is_lied_to(visits.trust):
        return 'none is sent, because the server said "not modified" of a page that had changed'
    sent = may_send(visits.trust & _TRUST, 0, *kept)
    names = [name for name, value in zip(("ETag", "Last-Modified"), sent, strict=True) if value]
    noise = "its ETag changes although the page does not" if kept.etag and not sent[0] else ""
    return "; ".join(filter(None, [", ".join(names) or "none is sent", noise]))


def when_due(visits: Visits | None, now: float) -> str:
    """A sentence on when a page comes back; empty where it does not."""
    if visits is None or not visits.due:
        return ""
    if visits.due <= QUEUED_AGAIN:
        return "It is due, and queued again."
    if visits.due <= now:
        return f"It is due since {moment(visits.due)}: the next crawl that comes back fetches it."
    return f"It comes back on {moment(visits.due)} (in {span(visits.due - now)})."


# -- in an export --------------------------------------------------------------------------------------------


# How what is neither number nor text is written, and read back.
_CODED: dict[str, tuple[Callable[[Any], object], Callable[[Any], object]]] = {
    "history": (bytes.hex, bytes.fromhex),
    "digest": (bytes.hex, bytes.fromhex),
    "bad": (list, lambda numbers: Bad(*map(int, numbers))),
    "validators": (
        lambda each: [b64encode(value).decode() for value in each],
        lambda each: Validators(*(b64decode(value, validate=True) for value in each)),
    ),
}


def exported(visits: Visits) -> dict[str, object]:
    """What is not as in the record of a page that was visited once, at one time."""
    record: dict[str, object] = {"first": visits.first, "last": visits.last}
    for name, value, plain in zip(visits._fields, visits, Visits(visits.first, visits.last), strict=True):
        if value != plain:
            record[name] = _CODED[name][0](value) if name in _CODED else value
    return record


def imported(record: dict[str, Any]) -> Visits:
    """Raises what nonsense in a record raises: `KeyError`, `TypeError`, `ValueError` and the like."""
    given = {name: record[name] for name in Visits._fields if name in record}
    coded = {name: _CODED[name][1](value) for name, value in given.items() if name in _CODED}
    visits = Visits(**(given | coded))
    if any(type(value) is not type(plain) for value, plain in zip(visits, Visits(0, 0), strict=True)):
        raise TypeError("a record of visits holds what is no number or no text")
    return visits
