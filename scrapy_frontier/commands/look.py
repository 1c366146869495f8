"""Commands that look inside a stopped frontier: stats, hosts, queue, find, why."""

from __future__ import annotations

import contextlib
import heapq
import re
import sys
from collections import Counter
from itertools import chain, islice
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from ..core.admin import explain, facts, page_visits, scores
from ..core.errors import UnreadableRow, moment, size, span
from ..core.parse.urls import without_session
from ..crawl.codec import meta_in
from ..crawl.control import compiled
from .output import Column, progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ..core.frontier import PageId
    from ..core.store.leveldb import Store
    from ..core.store.records import Due, LastRanking, Page
    from .call import Call
    from .project import Part, Project

LINES = 20
MISSING = 1  # exit code for a page that is not known
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_MOST_LINKS = 2_000_000  # in all, to count those to a page: some tenths of a second

_COUNTS = ("queued", "deferred", "ok", "errors", "excluded")
_HOST_COLUMNS = [
    Column("HOST", 17),
    Column("QUEUED", 7, True),
    Column("OK", 6, True),
    Column("ERRORS", 6, True),
    Column("EXCLUDED", 8, True),
    Column("VISIT", 7),
    Column("STRIKES", 7, True),
    Column("TROUBLE", 0),
]
_QUEUE_COLUMNS = [Column("WHEN", 12), Column("PRIORITY", 8, True), Column("URL", 0)]
_DUE_COLUMNS = [Column("WHEN", 12), Column("HUB", 3), Column("URL", 0)]
_FIND_COLUMNS = [Column("STATE", 10), Column("HTTP", 4, True), Column("URL", 0)]


# -- counts ------------------------------------------------------------------------------------------------


def stats(call: Call) -> None:
    """Prints what the frontier holds, by kept counters: some lookups, however large it is."""
    with call.project.parts() as parts:
        found = facts.sum_of([facts.summary(part.store) for part in parts])
    links = "not counted: nothing was ranked"
    call.output.document({"directory": str(call.project.directory), **found._asdict()})
    call.output.fields(
        [
            ("directory", call.project.directory),
            *_states(found),
            ("coming back", _coming_back(found)),
            ("known pages", f"{found.known:,}"),
            ("hosts", f"{found.hosts:,}"),
            ("links", f"{found.links:,} at the last ranking" if isinstance(found.links, int) else links),
            ("attempts", f"{found.attempts:,}"),
            ("on disk", size(found.bytes)),
            ("last stop", _last_stop(call.project, found)),
            ("last ranking", _ranking(found.ranking)),
        ]
    )


def _last_stop(project: Project, found: facts.Summary) -> str:
    if project.shared is not None:
        return project.shared.state()
    if project.running is not None:
        return f"none: it is running, in process {project.running.process}"
    return "clean" if found.is_clean else "killed, or never run"


def _states(found: facts.Summary) -> Iterator[tuple[str, str]]:
    states = found.states
    for name in ("queued", "seen", "excluded"):
        yield name, f"{states[name]:,}"
    for name, count, group in (("ok", found.ok, facts.OK), ("errors", found.errors, facts.ERRORS)):
        parts = (f"{states[state.name.lower()]:,} {state.name.lower()}" for state in group)
        yield name, f"{count:,} ({', '.join(parts)})"


def _coming_back(found: facts.Summary) -> str | None:
    due = [f"{found.due:,}, the first on {moment(found.first_due)}"] if found.first_due else []
    queued = [f"{found.queued_again:,} queued again"] if found.queued_again else []
    return "; ".join(due + queued) or None


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
    """Prints the ``--limit`` hosts with most queued pages (0: all), and the sums of all hosts; some lookups
    each."""
    limit, out, now = limit_of(call, LINES), call.output, call.project.now
    totals: Counter[str] = Counter()
    with call.project.parts() as parts:
        views = chain.from_iterable(facts.hosts(store, call.project.pauses(store), now) for _, store in parts)
        found: Iterable[facts.HostView] = _summed(views, totals)
        if limit is not None:
            found = heapq.nlargest(limit, found, key=lambda view: (view.queued, view.ok))
        if out.as_json:
            for view in found:
                out.document(view._asdict())
        else:
            out.table(_HOST_COLUMNS, _host_rows(found, totals, now))


def _summed(views: Iterable[facts.HostView], totals: Counter[str]) -> Iterator[facts.HostView]:
    """Passes *views* on, and adds them up in *totals*."""
    for view in progress(views, "hosts read"):
        totals["hosts"] += 1
        for name in _COUNTS:
            totals[name] += getattr(view, name)
        yield view


def _host_rows(
    views: Iterable[facts.HostView], totals: Counter[str], now: float
) -> Iterator[tuple[object, ...]]:
    for view in views:
        trouble = (view.strikes, view.trouble) if view.is_in_trouble(now) else ("", "")
        yield view.host, *_counts_of(view._asdict()), _visit(view, now), *trouble
    yield f"all {totals['hosts']:,} hosts", *_counts_of(totals), "", "", ""


def _counts_of(counts: Mapping[str, int]) -> Iterator[str]:
    queued, deferred, *ended = (counts[name] for name in _COUNTS)
    yield _short(queued) + (f"+{_short(deferred)}" if deferred else "")
    yield from map(_short, ended)


def _short(count: int) -> str:
    """Writes a number in at most six characters."""
    return str(count) if count < 1_000_000 else f"{count / 1e6:.4g}M"


def _visit(view: facts.HostView, now: float) -> str:
    if view.blocked is not None:
        return "blocked"
    if view.ready_at > now:
        return span(view.ready_at - now)
    return "now" if view.queued or view.queued_again else "-"


# -- lists of pages ----------------------------------------------------------------------------------------


def limit_of(call: Call, default: int) -> int | None:
    """Returns ``--limit``, or *default*; None for 0: all. Raises `UsageError` for less."""
    limit: int | None = call.options.limit
    if limit is not None and limit < 0:
        raise UsageError("write --limit with a number of lines, or 0 for all")
    return min(default if limit is None else limit, sys.maxsize) or None


def _since(call: Call) -> float | None:
    """Returns ``--changed-since`` as POSIX seconds (a number and s, m, h, d or w before now), or None."""
    text = call.options.changed_since
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,12})?)([smhdw])", text)
    if found is None:
        raise UsageError(f"{text!r} is no length of time; write --changed-since 90m, 24h or 7d")
    return call.project.now - float(found[1]) * _UNITS[found[2]]


def queue(call: Call) -> None:
    """Prints the next ``--limit`` pages and when each comes at the earliest, or with ``--due`` those that
    come back."""
    limit, project = limit_of(call, LINES), call.project
    now = project.now
    if call.options.due:
        _due(call, limit)
        return

    def document(turn: scores.Turn) -> dict[str, object]:
        return {"at": turn.when, "in": turn.when - now, **facts.describe(turn.page_id, turn.page)}

    def row(turn: scores.Turn) -> tuple[object, ...]:
        return _until(turn.when, now), turn.page.priority, turn.page.url

    def turns(part: Part) -> Iterator[scores.Turn]:
        store = part.store
        for when, page_id, page in scores.upcoming(store, now, project.pauses(store), call.host(store)):
            if project.leased_at(page_id) is None:
                yield scores.Turn(when, *part.public(page_id, page))

    with project.parts(call.options.host) as parts:
        merged = heapq.merge(*map(turns, parts), key=lambda turn: (turn.when, -turn.page.priority))
        call.output.listing(islice(merged, limit), document, _QUEUE_COLUMNS, row)


def _due(call: Call, limit: int | None) -> None:
    def document(found: tuple[Due, Page]) -> dict[str, object]:
        due, page = found
        return {"is_hub": due.is_hub, **facts.describe(due.page_id, page)}

    def row(found: tuple[Due, Page]) -> tuple[object, ...]:
        due, page = found
        return _until(due.when, call.project.now), due.is_hub * "hub", page.url

    def coming_back(part: Part) -> Iterator[tuple[Due, Page]]:
        for due, page in facts.coming_back(part.store, call.host(part.store)):
            page_id, page = part.public(due.page_id, page)
            yield due._replace(page_id=page_id), page

    with call.project.parts(call.options.host) as parts:
        merged = heapq.merge(*map(coming_back, parts), key=lambda found: found[0].when)
        call.output.listing(islice(merged, limit), document, _DUE_COLUMNS, row)


def _until(when: float, now: float) -> str:
    return "now" if when <= now else f"in {span(when - now)}"


def find(call: Call) -> int:
    """Prints the pages whose URL matches, or that changed; reads all pages. Exit code 1 if there is none,
    like grep."""
    since = _since(call)
    if not call.arguments and since is None:
        raise UsageError("write a REGEXP, or --changed-since SPAN")
    pattern = compiled(call.arguments[0] if call.arguments else None)
    limit = limit_of(call, 0)
    with call.project.parts() as parts:
        every = (part.public(*each) for part in parts for each in facts.pages(part.store))
        pages = progress(every, "pages searched", sum(facts.known(store) for _, store in parts))
        found = islice(facts.matching(pages, pattern, changed_since=since), limit)
        count = call.output.listing(found, lambda each: facts.describe(*each), _FIND_COLUMNS, _find_row)
    return 0 if count else MISSING


def _find_row(found: tuple[PageId, Page]) -> tuple[object, ...]:
    _, page = found
    return page.state.name.lower(), page.status or "", page.url


# -- one page ----------------------------------------------------------------------------------------------


def why(call: Call) -> int:
    """Prints why a page is in its state, in a sentence, and with ``--record`` all that is known of it.

    Walks the queue of its host, and counts the links to it if there are no more than two million in all. Exit
    code 1 if the page is not known.
    """
    with call.project.parts(call.arguments[0], identified=True) as [part]:
        store = part.store
        known = find_or_fail(call, store, is_lenient=True)
        if known is None:
            return MISSING
        url, page_id, about = known
        try:
            found = facts.read_page(store, page_id)
        except UnreadableRow:
            found = None
        if found is None:
            sentence = about + explain.why_unreadable(store, page_id)
            call.output.answer({"url": url, "state": "unreadable", "why": sentence}, sentence)
            return 0
        answer = {"why": "", **facts.describe(*part.public(page_id, found)), **_weight(store, page_id)}
        answer |= _surroundings(call, store, page_id, found)
    answer["why"] = about + str(answer["why"])
    call.output.answer(answer, str(answer["why"]))
    if call.options.record:
        call.output.line()
        call.output.fields(_page_lines(answer, found))
    return 0


def find_or_fail(call: Call, store: Store, is_lenient: bool = False) -> tuple[str, PageId, str] | None:
    """Returns URL and id of the page that the first argument names; None after printing that it is not known.

    *is_lenient*: a page that is known without its session identifier is meant, as the last value says. Raises
    `UsageError`.
    """
    url = call.project.request(call.arguments[0]).url
    page_id = call.project.find(store, url)
    about = ""
    if page_id is None and is_lenient and (clean := without_session(url)) != url:
        page_id = call.project.find(store, clean)
        about = f"Without its session identifier it is {clean}. "
    if page_id is not None and facts.has_row(store, page_id):
        return url, page_id, about
    sentence = explain.why_unknown(url, call.project.frontier_settings.traps)
    call.output.answer({"url": url, "state": None, "why": sentence}, sentence)
    return None


def _weight(store: Store, page_id: PageId) -> dict[str, object]:
    """Returns the kept score of a page, how many links are on it (by kind, too) and to it; None if not
    known."""
    links: int | None = None
    links_in: int | None = None
    kinds: dict[str, int] = {}
    with contextlib.suppress(UnreadableRow):
        edges = facts.links_out(store, page_id)
        links, kinds = len(edges), facts.count_kinds(edges)
        links_in = facts.count_links_to(store, page_id, _MOST_LINKS)
    found = {"links": links, "kinds": kinds, "links_in": links_in}
    return {"score": scores.kept_score(store, page_id), **found}


def _surroundings(call: Call, store: Store, page_id: PageId, page: Page) -> dict[str, object]:
    """Returns the request of a page, the path to it, its redirects, its place in a queue, and why."""
    project, path = call.project, facts.path_to(store, page)
    attempts = project.frontier_settings.attempts_for(meta_in(page.payload))
    gathered = explain.gather(
        store, page_id, page, project.pauses(store), attempts, project.now, project.agent, explain.FAR
    )._replace(leased_at=project.leased_at(page_id))
    sentence, place, parent = explain.why(gathered), gathered.place, path[-1] if path else None
    if parent is not None and parent.target != page_id and parent.facts.is_sitemap:
        sentence += f" It was first listed in the sitemap {parent.url}."
    answer: dict[str, object] = {
        "why": sentence,
        "request": page.payload.decode(errors="backslashreplace") or None,
        "path": [step.url if step else None for step in path],
        "redirects": [step.url if step else None for step in gathered.redirects],
    }
    if place is not None:
        bucket = None if place.is_far else place.bucket
        queue = {"ahead": place.ahead, "is_far": place.is_far, "waits_until": place.waits_until}
        answer["queue"] = {**queue, "bucket": bucket}
    return answer


def _page_lines(answer: dict[str, object], page: Page) -> Iterator[tuple[str, object]]:
    for name in ("url", "state", "id", "host", "priority", "attempts"):
        yield name, answer[name]
    score, links, links_in = answer["score"], answer["links"], answer["links_in"]
    yield "score", None if score is None else f"{score:.4g} at the last ranking or clean stop"
    if links is None or links or page.status:
        yield "links on it", "unreadable" if links is None else f"{links:,}"
    yield "links to it", "not counted here: `links URL --in` does" if links_in is None else f"{links_in:,}"
    yield "HTTP", page.status or None
    yield "reason", page.reason or None
    yield "discovered", moment(page.discovered)
    yield "ended", moment(page.changed) if page.changed else None
    if (visits := page.visits) is not None:
        yield "visited", f"{visits.visits:,} times since {moment(visits.first)}, last {moment(visits.last)}"
        yield "changes", page_visits.how_often(visits)
        yield "asked with", page_visits.what_works(visits)
        yield "content", f"{visits.content_type or 'of no known type'}, {visits.length:,} bytes"
    place = answer.get("queue")
    if isinstance(place, dict) and place["bucket"] is not None:
        yield "score bucket", f"{place['bucket']} of 65535"
    yield "request", answer["request"]
    path = answer["path"]
    assert isinstance(path, list)
    steps = [url or "a page that was forgotten" for url in path]
    yield "linked by", steps[-1] if steps else "no page: a seed, or added by hand"
    for number, step in enumerate(steps if len(steps) > 1 else ()):
        yield ("" if number else "path"), f"{number}: {step}"
