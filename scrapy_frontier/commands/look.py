"""Commands that look inside a frontier: stats, shards, hosts, queue, find, why."""

from __future__ import annotations

import contextlib
import heapq
import json
import sys
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from ..core.admin import explain, facts, scores
from ..core.errors import UnreadableRow, moment, size, span
from ..core.hosts.host import is_of_host
from ..crawl.codec import meta_in
from ..crawl.control import compiled
from .output import Column, progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..core.frontier import PageId
    from ..core.store.leveldb import Store
    from ..core.store.records import LastRanking, Page
    from ..shared.database import Database
    from .call import Call
    from .project import Project, ShardStore

LINES = 20
MISSING = 1  # exit code for a page that is not known
_MOST_LINKS = 2_000_000  # in all, to count those to a page: some tenths of a second

_SHARD_COLUMNS = [
    Column("shard", 5, is_number=True),
    Column("queued", 9, is_number=True),
    Column("done", 9, is_number=True),
    Column("batches", 9, is_number=True),
    Column("bytes", 12, is_number=True),
    Column("mail", 6, is_number=True),
    Column("idle", 4),
    Column("owner", 0),
]
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
_FIND_COLUMNS = [Column("STATE", 10), Column("HTTP", 4, True), Column("URL", 0)]


# -- counts ------------------------------------------------------------------------------------------------


def stats(call: Call) -> None:
    """Prints what the frontier holds, by kept counters: some lookups, however large it is."""
    with call.project.parts() as parts:
        found = facts.summary([part.store for part in parts])
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


# -- shards --------------------------------------------------------------------------------------------------


def shards(call: Call) -> None:
    """Prints which process has which shard, what it held lately, and how far the database has it."""
    shared = call.project.shared
    if shared is None:
        raise UsageError("shards is for a crawl of several processes: set FRONTIER_SHARED")
    with shared.database.asking() as database:
        documents = _shards(database)
    call.output.line(f"{database.crawl}: {shared.state()}")
    call.output.listing(documents, dict, _SHARD_COLUMNS, _shard_row)


def _shards(database: Database) -> list[dict[str, Any]]:
    owners, letters = database.processes(), database.letters_waiting()
    words = {process: f"{about.get('pid')} on {about.get('machine')}" for process, about in owners.items()}
    return [
        {
            "shard": shard.n,
            "batches": shard.sent,
            "bytes": sum(database.journal_size(shard.n)),
            "mail": letters.get(shard.n, 0),
            "idle": shard.idle,
            "owner": None if shard.owner is None else words.get(shard.owner),
            "copy": None if shard.copy is None else str(shard.copy),
            "totals": json.loads(shard.totals),
        }
        for shard in database.all_shards()
    ]


def _shard_row(shard: dict[str, Any]) -> tuple[object, ...]:
    states = shard["totals"].get("states", {})
    counts = states.get("queued", 0), states.get("done", 0), shard["batches"], shard["bytes"], shard["mail"]
    owner = shard["owner"] or ("none" if shard["copy"] is None else "none now")
    return shard["shard"], *counts, "yes" if shard["idle"] else "", owner


def hosts(call: Call) -> None:
    """Prints the ``--limit`` hosts with most queued pages (0: all); some lookups for each host there is."""
    limit, now = limit_of(call, LINES), call.project.now

    def row(view: facts.HostView) -> tuple[object, ...]:
        queued = f"{view.queued}+{view.deferred}" if view.deferred else view.queued
        trouble = (view.strikes, view.trouble) if view.is_in_trouble(now) else ("", "")
        return view.host, queued, view.ok, view.errors, view.excluded, _visit(view, now), *trouble

    with call.project.parts() as parts:
        every = chain.from_iterable(facts.hosts(store, call.project.pauses(store), now) for _, store in parts)
        views: Iterable[facts.HostView] = progress(every, "hosts read")
        if limit is not None:
            views = heapq.nlargest(limit, views, key=attrgetter("queued", "ok"))
        call.output.listing(views, facts.HostView._asdict, _HOST_COLUMNS, row)


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


def queue(call: Call) -> None:
    """Prints the next ``--limit`` pages and when each comes at the earliest."""
    limit, project = limit_of(call, LINES), call.project
    now = project.now

    def document(turn: scores.Turn) -> dict[str, object]:
        return {"at": turn.when, "in": turn.when - now, **facts.describe(turn.page_id, turn.page)}

    def row(turn: scores.Turn) -> tuple[object, ...]:
        return _until(turn.when, now), turn.page.priority, turn.page.url

    def turns(part: ShardStore) -> Iterator[scores.Turn]:
        host = call.host(part.store)
        for when, page_id, page in scores.upcoming(part.store, now, project.pauses(part.store)):
            if project.leased_at(page_id) is None and (host is None or is_of_host(page, host)):
                yield scores.Turn(when, *part.public(page_id, page))

    with project.parts(call.options.host) as parts:
        merged = heapq.merge(*map(turns, parts), key=lambda turn: (turn.when, -turn.page.priority))
        call.output.listing(islice(merged, limit), document, _QUEUE_COLUMNS, row)


def _until(when: float, now: float) -> str:
    return "now" if when <= now else f"in {span(when - now)}"


def find(call: Call) -> int:
    """Prints the pages whose URL matches; reads all pages. Exit code 1 if there is none, like grep."""
    pattern, limit = compiled(call.arguments[0]), limit_of(call, 0)
    with call.project.parts() as parts:
        every = (part.public(*each) for part in parts for each in facts.pages(part.store))
        pages = progress(every, "pages searched", sum(facts.known(store) for _, store in parts))
        found = islice(facts.matching(pages, pattern), limit)
        count = call.output.listing(found, lambda each: facts.describe(*each), _FIND_COLUMNS, _find_row)
    return 0 if count else MISSING


def _find_row(found: tuple[PageId, Page]) -> tuple[object, ...]:
    _, page = found
    return page.state.name.lower(), page.status or "", page.url


# -- one page ----------------------------------------------------------------------------------------------


def why(call: Call) -> int:
    """Prints why a page is in its state, in a sentence; as JSON all that is known of it.

    Walks the queue of its host, and counts the links to it if there are no more than two million in all. Exit
    code 1 if the page is not known.
    """
    with call.project.parts(call.arguments[0], identified=True) as [part]:
        store = part.store
        known = find_or_fail(call, store)
        if known is None:
            return MISSING
        url, page_id = known
        try:
            found = facts.read_page(store, page_id)
        except UnreadableRow:
            found = None
        if found is None:
            sentence = explain.why_unreadable(page_id)
            call.output.answer({"url": url, "state": "unreadable", "why": sentence}, sentence)
            return 0
        answer = {"why": "", **facts.describe(*part.public(page_id, found)), **_weight(store, page_id)}
        answer |= _surroundings(call, store, page_id, found)
    call.output.answer(answer, str(answer["why"]))
    return 0


def find_or_fail(call: Call, store: Store) -> tuple[str, PageId] | None:
    """Returns URL and id of the page that the first argument names; None after printing that it is not known.
    Raises `UsageError`."""
    url = call.project.request(call.arguments[0]).url
    page_id = call.project.find(store, url)
    if page_id is not None and facts.has_row(store, page_id):
        return url, page_id
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
