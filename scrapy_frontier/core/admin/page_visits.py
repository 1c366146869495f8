"""What the visits of a page showed, as named values and in words; and as an export has them, and back.

A line of an export, and its fields: whatever is not of its kind raises `KeyError` or `TypeError`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, TypeVar

from ..errors import moment, span
from ..revisits.change_rates import History, by_counts, likeliest_rate
from ..revisits.policy import had_false_304, may_send
from ..store.keys import State
from ..store.records import NO_HISTORY, QUEUED_AGAIN, BadVisits, Validators, Visits, decode_history

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..store.records import Page

_TRUST = 0x0F  # the bits of it that do not depend on how many visits ended with a 304


def named(visits: Visits | None) -> dict[str, object]:
    """The visits as `dump`, `find` and `page` give them; what is not known is None."""
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
    """The mean seconds from change to change, as the visits of this page alone say; None where they saw none,
    or there was one alone."""
    if not visits.changes or visits.visits < 2:
        return None
    history = History(*decode_history(visits.history))
    if visits.history == NO_HISTORY or not history.changes:
        history = by_counts(visits.visits, visits.changes, visits.last - visits.first)
    return 1.0 / max(likeliest_rate(history), 1e-12)


# -- in words ------------------------------------------------------------------------------------------------


def how_often(visits: Visits) -> str:
    """How often a page changes, in words: ``changes about every 9 days, seen 4 of 31 visits``."""
    found = interval(visits)
    if found is None:
        return "no change seen yet" if visits.visits < 2 else f"no change seen in {visits.visits:,} visits"
    return f"changes about every {span(found)}, seen {visits.changes:,} of {visits.visits:,} visits"


def what_works(visits: Visits) -> str:
    """Which validators are sent with the next visit, and why others are not; in words."""
    kept = visits.validators
    if not any(kept):
        return "none was given"
    if had_false_304(visits.trust):
        return 'none is sent, because the server said "not modified" of a page that had changed'
    sent = may_send(visits.trust & _TRUST, 0, *kept)
    names = [name for name, value in zip(("ETag", "Last-Modified"), sent, strict=True) if value]
    noise = "its ETag changes although the page does not" if kept.etag and not sent[0] else ""
    return "; ".join(filter(None, [", ".join(names) or "none is sent", noise]))


def when_due(visits: Visits | None, now: float) -> str:
    """A sentence on when a page comes back, as seen from *now* (POSIX seconds); empty where it does not."""
    if visits is None or not visits.due:
        return ""
    if visits.due <= QUEUED_AGAIN:
        return "It is due, and queued again."
    if visits.due <= now:
        return f"It is due since {moment(visits.due)}: the next crawl that comes back fetches it."
    return f"It comes back on {moment(visits.due)} (in {span(visits.due - now)})."


# -- in an export --------------------------------------------------------------------------------------------


def exported(visits: Visits) -> Line:
    """The visits as an export has them: without what is as for a page that was visited once. `imported` reads
    it."""
    line: Line = {"first": visits.first, "last": visits.last}
    coded = {
        "history": visits.history.hex(),
        "digest": visits.digest.hex(),
        "bad": list(visits.bad),
        "validators": [b64encode(value).decode() for value in visits.validators],
    }
    for name, value, plain in zip(visits._fields, visits, Visits(visits.first, visits.last), strict=True):
        if value != plain:
            line[name] = coded.get(name, value)
    return line


# What is neither number nor text.
_DECODED: dict[str, Callable[[Line], object]] = {
    "history": lambda line: bytes.fromhex(text(line, "history")),
    "digest": lambda line: bytes.fromhex(text(line, "digest")),
    "bad": lambda line: BadVisits(*map(int, several(line, "bad", int))),
    "validators": lambda line: Validators(
        *(b64decode(value, validate=True) for value in several(line, "validators", str))
    ),
}


def imported(line: Line) -> Visits:
    """The visits that `exported` made this of. Raises what nonsense there raises: `KeyError`,
    `TypeError`, `ValueError` and the like."""
    given = {name: line[name] for name in Visits._fields if name in line}
    decoded = {name: decode(line) for name, decode in _DECODED.items() if name in line}
    plain = Visits(number(line, "first"), number(line, "last"))
    visits = Visits._make((plain._asdict() | given | decoded).values())
    if any(type(value) is not type(default) for value, default in zip(visits, plain, strict=True)):
        raise TypeError("what an export says of visits holds what is no number or no text")
    return visits


Kind = TypeVar("Kind")
Line = dict[str, object]  # as JSON has it


def number(line: Line, name: str) -> int:
    """The whole number *name* of a line; true and false are 1 and 0. Raises `KeyError` where there is none,
    `TypeError` for anything else."""
    return _field(line, name, "whole number", int)


def real(line: Line, name: str) -> float:
    """The number *name* of a line, whole ones too; raises as `number`."""
    return float(_field(line, name, "number", int, float))


def text(line: Line, name: str) -> str:
    """The text *name* of a line. Raises as `number` does."""
    return _field(line, name, "text", str)


def several(line: Line, name: str, kind: type[Kind]) -> Sequence[Kind]:
    """The list *name* of a line; raises as `number`.

    Whoever takes them raises on what is not of this *kind*; it is not looked at here.
    """
    return _field(line, name, "list", list, tuple)


def fields(line: Line, name: str) -> Line:
    """The object *name* of a line; raises as `number`."""
    return _field(line, name, "object", dict)


def _field(line: Line, name: str, what: str, *kinds: type[Kind]) -> Kind:
    value = line[name]
    if not isinstance(value, kinds):
        raise TypeError(f"{name} is no {what}")
    return value
