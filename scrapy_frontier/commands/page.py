"""Commands on one page: page, why.

Commands that count: stats, hosts.

Commands that list: queue, find, dump.
"""

from __future__ import annotations

import contextlib
import csv
import heapq
import re
import sys
from collections import Counter
from itertools import islice, product
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scrapy.exceptions import UsageError

from ..core.admin import explain, facts, page_visits, scores
from ..core.admin.dump import DUMPS
from ..core.errors import UnreadableRow, moment, size, span
from ..core.parse.urls import without_session
from ..crawl.codec import meta_in
from ..crawl.politeness_key import registered_domain
from .output import Column, progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ..core.frontier import PageId
    from ..core.store.leveldb import Store
    from ..core.store.records import Due, LastRanking, Page
    from .call import Call
    from .project import Project

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

    def document(turn: scores.Turn) -> dict[str, object]:
        return {"at": turn.when, "in": turn.when - now, **facts.describe(turn.page_id, turn.page)}

    def row(turn: scores.Turn) -> tuple[object, ...]:
        return _until(turn.when, now), turn.page.priority, turn.page.url

    with project.open() as store:
        host, delays = call.host(store), project.delays(store)
        turns = scores.Preview(store, now, delays, host, registered_domain).turns()
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


_MOST_LINKS = 2_000_000  # in all, to count those to a page: some tenths of a second
MISSING = 1  # exit code for a page that is not known


def page(call: Call) -> int:
    """Tell all that is known of a page: its record, place, score, links and the path to it. Walks the queue
    of its host, and all links if there are no more than two million. Exit code 1 where it is not known."""
    project, output = call.project, call.output
    with project.open(identified=True) as store:
        known = find_or_fail(call, store)
        if known is None:
            return MISSING
        page_id, found = known
        path = facts.path_to(store, found)
        redirects = facts.redirects_of(store, found)
        gathered = _facts(project, store, page_id, found)
        answer = {**facts.describe(page_id, found), **_weight(store, page_id)}
    answer["request"] = found.payload.decode(errors="backslashreplace") or None
    answer["path"] = [step.url if step else None for step in path]
    answer["redirects"] = [step.url if step else None for step in redirects]
    if (place := gathered.place) is not None:
        bucket = None if place.is_far else place.bucket
        queue = {"ahead": place.ahead, "is_far": place.is_far, "waits_until": place.waits_until}
        answer["queue"] = {**queue, "bucket": bucket}
    answer["why"] = _why(gathered, page_id, path[-1] if path else None)
    output.document(answer)
    output.fields(_page_lines(answer, found))
    return 0


def find_or_fail(call: Call, store: Store) -> tuple[PageId, Page] | None:
    """The page that the first argument names; None after having said that it is not known. Raises
    `UsageError` for what is no URL, `UnreadableRow`."""
    request = call.project.request(call.arguments[0])
    page_id = call.project.find(store, request.url)
    found = None if page_id is None else facts.read_page(store, page_id)
    if page_id is None or found is None:
        _unknown(call, store, request.url)
        return None
    return page_id, found


def _page_lines(answer: dict[str, object], page: Page) -> Iterator[tuple[str, object]]:
    for name in ("url", "state", "why", "id", "host", "priority", "attempts"):
        yield name, answer[name]
    score, links = answer["score"], answer["links"]
    yield "score", None if score is None else f"{score:.4g} at the last ranking or clean stop"
    if links is None or links or page.status:
        yield "links on it", "unreadable" if links is None else f"{links:,}"
    links_in = answer["links_in"]
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
    by = (path[-1] or "a page that was forgotten") if path else "nobody: a seed, or added by hand"
    yield "linked by", by
    if len(path) > 1:
        for number, url in enumerate(path):
            yield ("path" if not number else ""), f"{number}: {url or 'a page that was forgotten'}"


def _weight(store: Store, page_id: PageId) -> dict[str, object]:
    """The score that is kept of a page, and how many links are on it and to it: None where these cannot be
    read, or there are too many links in all to look at each."""
    from ..core.admin.facts import count_links_to, links_out
    from ..core.admin.scores import kept_score  # loads NumPy and SciPy

    links: int | None = None
    links_in: int | None = None
    with contextlib.suppress(UnreadableRow):
        links = len(links_out(store, page_id))
        links_in = count_links_to(store, page_id, _MOST_LINKS)
    return {"score": kept_score(store, page_id), "links": links, "links_in": links_in}


def _why(gathered: explain.Facts, page_id: PageId, parent: Page | None) -> str:
    sentence = explain.why(gathered)
    is_listed = parent is not None and parent.target != page_id  # else it was redirected there
    if parent is not None and is_listed and parent.facts.is_sitemap:
        return f"{sentence} It was first listed in the sitemap {parent.url}."
    return sentence


def why(call: Call) -> int:
    """Tell in a sentence why a page is where it is, an unreadable or unknown one too. Exit code 1 where it is
    not known."""
    project = call.project
    request = project.request(call.arguments[0])
    with project.open(identified=True) as store:
        page_id = project.find(store, request.url)
        about = ""
        clean = without_session(request.url)
        if page_id is None and clean != request.url:
            page_id = project.find(store, clean)
            about = f"Without its session identifier it is {clean}. "
        if page_id is None:
            return _unknown(call, store, request.url)
        state = "unreadable"
        try:
            found = facts.read_page(store, page_id)
            if found is None:
                return _unknown(call, store, request.url)
            state = found.state.name.lower()
            parent = None if found.parent is None else facts.legible_page(store, found.parent)
            sentence = _why(_facts(project, store, page_id, found), page_id, parent)
        except UnreadableRow:
            sentence = explain.why_unreadable(store, page_id)
    sentence = about + sentence
    call.output.answer({"url": request.url, "state": state, "why": sentence}, sentence)
    return 0


def _facts(project: Project, store: Store, page_id: PageId, found: Page) -> explain.Facts:
    attempts = project.frontier_settings.attempts_for(meta_in(found.payload))
    delays = project.delays(store)
    return explain.gather(store, page_id, found, delays, attempts, project.now, project.agent)


def _unknown(call: Call, store: Store, url: str) -> int:
    def similar() -> str:
        for other in _similar(url):
            with contextlib.suppress(UsageError):  # made up here, it may be none: `www.` before an address
                if other != url and call.project.find(store, other) is not None:
                    return other
        return ""

    sentence = explain.why_unknown(url, call.project.frontier_settings.traps, similar)
    call.output.answer({"url": url, "state": None, "why": sentence}, sentence)
    return MISSING


def _similar(url: str) -> Iterator[str]:
    """URLs that people take for the same: the other scheme, with or without slash at the end, ``www.`` and
    the port that goes without saying."""
    parts = urlsplit(url)
    schemes = {"http": "https", "https": "http"}
    slash = parts.path[:-1] if parts.path.endswith("/") else f"{parts.path}/"
    user, at, host = parts.netloc.rpartition("@")
    www = f"{user}{at}{host.removeprefix('www.') if host.startswith('www.') else f'www.{host}'}"
    other = schemes.get(parts.scheme, parts.scheme)
    without_port = parts.netloc.removesuffix(":80").removesuffix(":443")
    netlocs = parts.netloc, www, without_port
    for scheme, netloc, path in product((parts.scheme, other), netlocs, (parts.path, slash)):
        yield parts._replace(scheme=scheme, netloc=netloc, path=path, fragment="").geturl()
    if parts.query:
        yield parts._replace(query="", fragment="").geturl()
