"""Commands that list: queue, find, dump."""

from __future__ import annotations

import csv
import re
from itertools import islice
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from ..core.admin import facts, upcoming
from ..core.errors import UnreadableRecord
from ..core.store import keys, meta_rows, queue_rows
from ..core.store.page_rows import Page
from ..core.store.queue_rows import queued_places, read_sort_key, waiting_places
from ..core.times import span
from ..crawl.politeness_key import registered_domain
from .output import Column, progress
from .page import _MISSING
from .project import host_argument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..core.admin.upcoming import Turn
    from ..core.store.leveldb import Store
    from .call import Call

LINES = 20

_QUEUE_COLUMNS = [Column("WHEN", 9), Column("PRIORITY", 8, True), Column("URL", 0)]
_FIND_COLUMNS = [Column("STATE", 10), Column("HTTP", 4, True), Column("URL", 0)]
_PAGE_NAMES = tuple(facts.describe(0, Page("")))
_PLACE_NAMES = ("id", "url", "host", "priority", "bucket", "turn", "due")


def limit_of(call: Call, default: int) -> int | None:
    """``--limit``; None where there is none."""
    limit: int | None = call.options.limit
    if limit is not None and limit < 0:
        raise UsageError("--limit takes a number of lines, or 0 for all")
    return (default if limit is None else limit) or None


def pattern_of(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise UsageError(f"{text!r} is no regular expression: {error}") from None


def size(count: float) -> str:
    """A number of bytes as people read it."""
    units = ["bytes", "KB", "MB", "GB", "TB"]
    while count >= 1000 and len(units) > 1:
        count /= 1000
        del units[0]
    return f"{count:.3g} {units[0]}"


# -- lists of pages ----------------------------------------------------------------------------------------


def queue(call: Call) -> int:
    limit, project = limit_of(call, LINES), call.project
    host = None if call.options.host is None else host_argument(call.options.host)
    with project.open() as store:
        delays = project.delays(store)
        turns = islice(upcoming.upcoming(store, project.now, delays, host, registered_domain), limit)
        if call.output.as_json:
            for turn in turns:
                place = {"at": turn.when, "in": turn.when - project.now}
                call.output.document({**place, **facts.describe(turn.page_id, turn.page), "host": turn.host})
        else:
            call.output.table(_QUEUE_COLUMNS, (_queue_row(turn, project.now) for turn in turns))
    return 0


def _queue_row(turn: Turn, now: float) -> tuple[object, ...]:
    wait = turn.when - now
    return "now" if wait <= 0 else f"in {span(wait)}", turn.page.priority, turn.page.url


def find(call: Call) -> int:
    """Exit code 1 where nothing was found, like grep."""
    pattern = pattern_of(call.arguments[0])
    limit = limit_of(call, 0)
    with call.project.open() as store:
        found = islice(_matches(store, pattern), limit)
        if call.output.as_json:
            count = 0
            for count, (page_id, page) in enumerate(found, 1):  # noqa: B007 - the last one is their number
                call.output.document(facts.describe(page_id, page))
        else:
            rows = ((page.state.name.lower(), page.status or "", page.url) for _, page in found)
            count = call.output.table(_FIND_COLUMNS, rows)
    return 0 if count else _MISSING


def _matches(store: Store, pattern: re.Pattern[str] | None) -> Iterator[tuple[int, Page]]:
    total = meta_rows.read_counts(store).next_page
    for page_id, page in progress(facts.pages(store), "pages searched", total):
        if pattern is None or pattern.search(page.url):
            yield page_id, page


def dump(call: Call) -> int:
    what = call.options.what or "pages"
    as_csv = call.options.format == "csv" and not call.output.as_json
    with call.project.open() as store:
        total = meta_rows.read_counts(store).next_page if what == "pages" else None
        names, rows = _DUMPS[what]
        records = progress(rows(store), f"{_COUNTED[what]} dumped", total)
        if as_csv:
            writer = csv.DictWriter(call.output.raw(), names, lineterminator="\n")
            writer.writeheader()
            writer.writerows({name: _cell(value) for name, value in record.items()} for record in records)
        else:
            for record in records:
                call.output.document(record)
    return 0


def _described(store: Store) -> Iterator[dict[str, object]]:
    for page_id, page in facts.pages(store):
        yield facts.describe(page_id, page)


def _linked(store: Store) -> Iterator[dict[str, object]]:
    """Every link, pages as ids; 3 us each."""
    from ..core.admin.links import every_link, flag_names  # loads NumPy and SciPy

    for links in every_link(store):
        for source, target, flags, weight in zip(*(part.tolist() for part in links), strict=True):
            yield {"source": source, "target": target, "flags": flag_names(flags), "weight": weight}


def _cell(value: object) -> object:
    """*value* as it can be written in any encoding."""
    if isinstance(value, list):
        return " ".join(value)
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value


def _queued(store: Store) -> Iterator[dict[str, object]]:
    """The rows of all queues, host by host, best first; then the pages that wait, soonest first."""
    hosts = (key[1:].decode(errors="replace") for key, _ in store.scan(keys.HOST))
    queued = (place for host in hosts for place in queued_places(store, host))
    for places in (queued, waiting_places(store)):
        for place in places:
            page_id = queue_rows.sort_key_id(place.sort_key)
            try:
                page = facts.read_page(store, page_id)
            except UnreadableRecord:
                page = None
            url = page.url if page is not None else None
            sort_key = read_sort_key(place.sort_key)._asdict()
            yield {"id": page_id, "url": url, "host": place.host, **sort_key, "due": place.due}


_DUMPS: dict[str, tuple[tuple[str, ...], Callable[[Store], Iterator[dict[str, object]]]]] = {
    "pages": (_PAGE_NAMES, _described),
    "queue": (_PLACE_NAMES, _queued),
    "links": (("source", "target", "flags", "weight"), _linked),
}

_COUNTED = {"pages": "pages", "queue": "queued pages", "links": "links"}
