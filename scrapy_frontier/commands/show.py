"""Commands that list: queue, find, dump."""

from __future__ import annotations

import csv
import re
import sys
from itertools import islice
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from ..core.admin import facts, upcoming
from ..core.admin.dump import DUMPS
from ..core.time_format import span
from ..crawl.hosts.politeness_key import registered_domain
from .output import Column, progress
from .page import MISSING

if TYPE_CHECKING:
    from ..core.frontier import PageId
    from ..core.store.due_rows import Due
    from ..core.store.page_rows import Page
    from .call import Call

LINES = 20
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}

_QUEUE_COLUMNS = [Column("WHEN", 12), Column("PRIORITY", 8, True), Column("URL", 0)]
_DUE_COLUMNS = [Column("WHEN", 12), Column("HUB", 3), Column("URL", 0)]
_FIND_COLUMNS = [Column("STATE", 10), Column("HTTP", 4, True), Column("URL", 0)]


def limit_of(call: Call, default: int) -> int | None:
    """``--limit``, *default* where it is not given; None for 0: all. Raises `UsageError` for less."""
    limit: int | None = call.options.limit
    if limit is not None and limit < 0:
        raise UsageError("write --limit with a number of lines, or 0 for all")
    return min(default if limit is None else limit, sys.maxsize) or None


def pattern_of(text: str | None) -> re.Pattern[str] | None:
    """*text* as a regular expression, None for None. Raises `UsageError` for what is none."""
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        problem = f"{text!r} is no regular expression ({error})"
        raise UsageError(f"{problem}; put \\ before what is meant as it stands") from None


def since_of(call: Call) -> float | None:
    """``--changed-since`` as POSIX seconds: a number and s, m, h, d or w before now; None where it is not
    given. Raises `UsageError`."""
    text = call.options.changed_since
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    if found is None:
        raise UsageError(f"{text!r} is no length of time; write --changed-since 90m, 24h or 7d")
    return call.project.now - float(found[1]) * _UNITS[found[2]]


# -- lists of pages ----------------------------------------------------------------------------------------


def queue(call: Call) -> None:
    """Tell of the next ``--limit`` pages and when each comes at the earliest, or with ``--due`` of those that
    come back. Changes nothing."""
    limit, project = limit_of(call, LINES), call.project
    now = project.now
    if call.options.due:
        _due(call, limit)
        return

    def document(turn: upcoming.Turn) -> dict[str, object]:
        return {"at": turn.when, "in": turn.when - now, **facts.describe(turn.page_id, turn.page)}

    def row(turn: upcoming.Turn) -> tuple[object, ...]:
        return _until(turn.when, now), turn.page.priority, turn.page.url

    with project.open() as store:
        host, delays = call.host(store), project.delays(store)
        turns = upcoming.Preview(store, now, delays, host, registered_domain).turns()
        call.output.listing(islice(turns, limit), document, _QUEUE_COLUMNS, row)


def _due(call: Call, limit: int | None) -> None:
    now = call.project.now

    def document(found: tuple[Due, Page]) -> dict[str, object]:
        due, page = found
        return {"is_hub": due.is_hub, **facts.describe(due.page_id, page)}

    def row(found: tuple[Due, Page]) -> tuple[object, ...]:
        due, page = found
        return _until(due.when, now), due.is_hub * "hub", page.url

    with call.project.open() as store:
        found = islice(facts.coming_back(store, call.host(store)), limit)
        call.output.listing(found, document, _DUE_COLUMNS, row)


def _until(when: float, now: float) -> str:
    return "now" if when <= now else f"in {span(when - now)}"


def find(call: Call) -> int:
    """Tell of pages whose URL matches, or that changed; one pass over all pages. Exit code 1 where nothing
    was found, like grep."""
    since = since_of(call)
    if not call.arguments and since is None:
        raise UsageError("write a REGEXP, or --changed-since SPAN")
    pattern = pattern_of(call.arguments[0] if call.arguments else None)
    limit = limit_of(call, 0)
    with call.project.open() as store:
        pages = progress(facts.pages(store), "pages searched", facts.known(store))
        found = islice(facts.matching(pages, pattern, changed_since=since), limit)
        count = call.output.listing(found, lambda each: facts.describe(*each), _FIND_COLUMNS, _find_row)
    return 0 if count else MISSING


def _find_row(found: tuple[PageId, Page]) -> tuple[object, ...]:
    _, page = found
    return page.state.name.lower(), page.status or "", page.url


def dump(call: Call) -> None:
    """Tell all pages, queue rows or links as JSON Lines or CSV, as they are read."""
    what = call.options.what or "pages"
    as_csv = call.options.format == "csv" and not call.output.as_json
    with call.project.open() as store:
        total = facts.known(store) if what == "pages" else None
        kind = DUMPS[what]
        lines = progress(kind.read(store), f"{kind.title} dumped", total)
        if as_csv:
            writer = csv.DictWriter(call.output.file, kind.names, lineterminator="\n")
            writer.writeheader()
            writer.writerows({name: _cell(value) for name, value in line.items()} for line in lines)
        else:
            for line in lines:
                call.output.json_line(line)


def _cell(value: object) -> object:
    """*value* as it can be written in any encoding."""
    if isinstance(value, list):
        return " ".join(value)
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value
