"""Commands that count: stats, hosts."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TYPE_CHECKING

from ..core.admin import facts
from ..core.size_format import size
from ..core.time_format import moment, span
from .output import Column, progress
from .show import LINES, limit_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ..core.store.meta_rows import LastRanking
    from .call import Call

_WIDE = 110  # columns of a terminal that has room for the delays, too
_COUNTS = ("queued", "deferred", "ok", "errors", "excluded")
_HOST_COLUMNS = [
    Column("HOST", 17),
    Column("QUEUED", 7, True),
    Column("OK", 6, True),
    Column("ERRORS", 6, True),
    Column("EXCLUDED", 8, True),
]
_DELAY_COLUMNS = [Column("DELAY", 6, True), Column("FROM", 10)]
_CLOCK_COLUMNS = [Column("VISIT", 7), Column("STRIKES", 7, True), Column("TROUBLE", 0)]


def stats(call: Call) -> None:
    """Tell what the frontier holds, by kept counters: some lookups, however large it is."""
    with call.project.open() as store:
        found = facts.summary(store)
    call.output.document({"directory": str(call.project.directory), **found._asdict()})
    call.output.fields(
        [
            ("directory", call.project.directory),
            *_states(found),
            ("coming back", _coming_back(found)),
            ("known pages", f"{found.known:,}"),
            ("hosts", f"{found.hosts:,}"),
            ("links", _links(found.links)),
            ("attempts", f"{found.attempts:,}"),
            ("on disk", size(found.bytes)),
            ("last stop", "clean" if found.is_clean else "killed, or never run"),
            ("last ranking", _ranking(found.ranking)),
        ]
    )


def _states(found: facts.Summary) -> Iterator[tuple[str, str]]:
    """How many pages there are, as `hosts` counts them, and of what states these are."""
    states = found.states
    for name in ("queued", "seen", "excluded"):
        yield name, f"{states[name]:,}"
    for name, count, group in (("ok", found.ok, facts.OK), ("errors", found.errors, facts.ERRORS)):
        parts = (f"{states[state.name.lower()]:,} {state.name.lower()}" for state in group)
        yield name, f"{count:,} ({', '.join(parts)})"


def _coming_back(found: facts.Summary) -> str | None:
    """Which of the ended pages; None where none does."""
    due = [f"{found.due:,}, the first on {moment(found.first_due)}"] if found.first_due else []
    queued = [f"{found.queued_again:,} queued again"] if found.queued_again else []
    return "; ".join(due + queued) or None


def _links(found: object) -> str:
    return f"{found:,} at the last ranking" if isinstance(found, int) else "not counted: nothing was ranked"


def _ranking(found: LastRanking | None) -> str:
    if found is None:
        return "none"
    try:
        scorer = str(found.get("scorer", "")).lower()
        about = f"{moment(found['at'])}, {found['pages']:,} pages, {found['links']:,} links, {scorer}"
        return about.rstrip(", ")
    except (KeyError, TypeError, ValueError):
        return "unreadable"


def hosts(call: Call) -> None:
    """Tell of the ``--limit`` hosts with most queued pages, all with 0, and of all hosts together. One pass
    over the host rows; some lookups each."""
    limit, out, now = limit_of(call, LINES), call.output, call.project.now
    totals: Counter[str] = Counter()
    with call.project.open() as store:
        views = facts.hosts(store, call.project.delays(store), now)
        found: Iterable[facts.HostView] = _summed(views, totals)
        if limit is not None:
            found = heapq.nlargest(limit, found, key=lambda view: (view.queued, view.ok))
        if out.as_json:
            for view in found:
                out.document(view._asdict())
            return
        is_wide = out.terminal >= _WIDE
        columns = [*_HOST_COLUMNS, *(_DELAY_COLUMNS if is_wide else ()), *_CLOCK_COLUMNS]
        out.table(columns, _host_rows(found, totals, now, is_wide), out.terminal if is_wide else None)


def _summed(views: Iterable[facts.HostView], totals: Counter[str]) -> Iterator[facts.HostView]:
    """*views*, which are added up in *totals* as they pass."""
    for view in progress(views, "hosts read"):
        totals["hosts"] += 1
        for name in _COUNTS:
            totals[name] += getattr(view, name)
        yield view


def _host_rows(
    views: Iterable[facts.HostView], totals: Counter[str], now: float, is_wide: bool
) -> Iterator[tuple[object, ...]]:
    """A line a host, and one for all there are, also those that are not shown."""
    for view in views:
        source = view.delay_from.removeprefix("DOWNLOAD_").lower()
        delay = (f"{view.delay:.4g}s", source) if is_wide else ()
        trouble = (view.strikes, view.trouble) if view.is_in_trouble(now) else ("", "")
        yield view.host, *_counts_of(view._asdict()), *delay, _visit(view, now), *trouble
    rest = ("",) * (len(_CLOCK_COLUMNS) + is_wide * len(_DELAY_COLUMNS))
    yield f"all {totals['hosts']:,} hosts", *_counts_of(totals), *rest


def _counts_of(counts: Mapping[str, int]) -> Iterator[str]:
    queued, deferred, *ended = (counts[name] for name in _COUNTS)
    yield _short(queued) + (f"+{_short(deferred)}" if deferred else "")
    yield from map(_short, ended)


def _short(count: int) -> str:
    """*count* in at most six characters."""
    if count < 1_000_000:
        return str(count)
    return f"{count / 1e6:.4g}M"


def _visit(view: facts.HostView, now: float) -> str:
    if view.blocked is not None:
        return "blocked"
    if view.ready_at > now:
        return span(view.ready_at - now)
    return "now" if view.queued or view.queued_again else "-"
