"""Commands that look at pages: queue, find, dump, page, why."""

from __future__ import annotations

import contextlib
import csv
import re
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scrapy.exceptions import UsageError

from ..core.admin import explain, facts, upcoming
from ..core.errors import UnreadableRecord
from ..core.pages.traps import trap
from ..core.parse.urls import without_session
from ..core.store import keys, meta_rows, queue_rows
from ..core.store.page_rows import Page
from ..core.store.queue_rows import queued_places, standing, waiting_places
from ..core.times import moment, span
from ..crawl.meta_keys import SITEMAP
from ..crawl.politeness_key import registered_domain
from .output import Column, progress
from .project import host_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..core.admin.upcoming import Turn
    from ..core.store.leveldb import Store
    from .call import Call
    from .project import Project

LINES = 20
_MOST_LINKS = 2_000_000  # in all, to count those to a page: some tenths of a second
_MISSING = 1  # exit code for a page that is not known

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
    host = None if call.options.host is None else host_name(call.options.host)
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
            page_id = queue_rows.rank_id(place.rank)
            try:
                page = facts.read_page(store, page_id)
            except UnreadableRecord:
                page = None
            url = page.url if page is not None else None
            rank = standing(place.rank)._asdict()
            yield {"id": page_id, "url": url, "host": place.host, **rank, "due": place.due}


_DUMPS: dict[str, tuple[tuple[str, ...], Callable[[Store], Iterator[dict[str, object]]]]] = {
    "pages": (_PAGE_NAMES, _described),
    "queue": (_PLACE_NAMES, _queued),
    "links": (("source", "target", "flags", "weight"), _linked),
}


_COUNTED = {"pages": "pages", "queue": "queued pages", "links": "links"}


# -- one page ----------------------------------------------------------------------------------------------


def page(call: Call) -> int:
    project, output = call.project, call.output
    with project.open(identified=True) as store:
        known = find_or_say(call, store)
        if known is None:
            return _MISSING
        page_id, found = known
        path = facts.path_to(store, found)
        redirects = facts.redirects_of(store, found)
        gathered = _facts(project, store, page_id, found)
        answer = {**facts.describe(page_id, found), **_weight(store, page_id)}
    answer["request"] = found.payload.decode(errors="backslashreplace") or None
    answer["path"] = [step.page.url if step.page else None for step in path]
    answer["redirects"] = [step.page.url if step.page else None for step in redirects]
    if (place := gathered.place) is not None:
        bucket = None if place.is_far else standing(place.rank).bucket
        answer["queue"] = {
            "ahead": place.ahead,
            "is_far": place.is_far,
            "due": place.due,
            "bucket": bucket,
        }
    answer["why"] = _why(gathered, path[-1].page if path else None)
    if output.as_json:
        output.document(answer)
    else:
        output.record(_page_lines(answer, found))
    return 0


def find_or_say(call: Call, store: Store) -> tuple[int, Page] | None:
    """The page that the first argument names; None after having said that it is not known."""
    request = call.project.request(call.arguments[0])
    page_id = facts.find_page(store, call.project.fingerprint(request))
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
    yield "changed", moment(page.changed) if page.changed else None
    place = answer.get("queue")
    if isinstance(place, dict) and place["bucket"] is not None:
        yield "score bucket", f"{place['bucket']} of 65535"
    yield "request", answer["request"]
    path = answer["path"]
    assert isinstance(path, list)
    yield (
        "linked by",
        (path[-1] or "a page that was forgotten") if path else "nobody: a seed, or added by hand",
    )
    if len(path) > 1:
        for number, url in enumerate(path):
            yield ("path" if not number else ""), f"{number}: {url or 'a page that was forgotten'}"


def _weight(store: Store, page_id: int) -> dict[str, object]:
    """The score that is kept of a page, and how many links are on it and to it: None where these cannot be
    read, or there are too many links in all to look at each."""
    from ..core.admin.links import count_links_to, links_out
    from ..core.admin.scores import kept_score  # loads NumPy and SciPy

    links: int | None = None
    links_in: int | None = None
    with contextlib.suppress(UnreadableRecord):
        links = len(links_out(store, page_id))
        links_in = count_links_to(store, page_id, _MOST_LINKS)
    return {"score": kept_score(store, page_id), "links": links, "links_in": links_in}


def _parent(store: Store, page: Page) -> Page | None:
    try:
        return facts.read_page(store, page.parent) if page.parent is not None else None
    except UnreadableRecord:
        return None


def _why(gathered: explain.Facts, parent: Page | None) -> str:
    sentence = explain.why(gathered)
    if parent is not None and SITEMAP.encode() in parent.payload:
        return f"{sentence} {explain.why_listed(parent.url)}"
    return sentence


def why(call: Call) -> int:
    project = call.project
    request = project.request(call.arguments[0])
    with project.open(identified=True) as store:
        page_id = facts.find_page(store, project.fingerprint(request))
        about = ""
        clean = without_session(request.url)
        if page_id is None and clean != request.url:
            page_id = facts.find_page(store, project.fingerprint(project.request(clean)))
            about = f"Without its session identifier it is {clean}. "
        if page_id is None:
            return _unknown(call, store, request.url)
        state = "unreadable"
        try:
            found = facts.read_page(store, page_id)
            if found is None:
                return _unknown(call, store, request.url)
            state = found.state.name.lower()
            sentence = _why(_facts(project, store, page_id, found), _parent(store, found))
        except UnreadableRecord:
            is_aside = store.get(keys.aside_key(page_id)) is not None
            sentence = explain.why_unreadable(page_id, is_aside)
    _say_why(call, request.url, state, about + sentence)
    return 0


def _facts(project: Project, store: Store, page_id: int, found: Page) -> explain.Facts:
    attempts, delays = project.frontier_settings.max_attempts, project.delays(store)
    return explain.gather(store, page_id, found, delays, attempts, project.now, project.agent)


def _say_why(call: Call, url: str, state: str | None, sentence: str) -> None:
    if call.output.as_json:
        call.output.document({"url": url, "state": state, "why": sentence})
    else:
        call.output.text(sentence)


def _unknown(call: Call, store: Store, url: str) -> int:
    limits = call.project.frontier_settings.traps
    kind = trap(url, limits)
    if kind is not None:
        _say_why(call, url, None, explain.why_trap(kind, limits))
        return _MISSING
    others = (other for other in _similar(url) if other != url)
    similar = next((other for other in others if _is_known(call.project, store, other)), "")
    _say_why(call, url, None, explain.why_unknown(similar))
    return _MISSING


def _is_known(project: Project, store: Store, url: str) -> bool:
    return facts.find_page(store, project.fingerprint(project.request(url))) is not None


def _similar(url: str) -> Iterator[str]:
    """URLs that people take for the same: the other scheme, with or without slash at the end, ``www.`` and
    the port that goes without saying."""
    parts = urlsplit(url)
    schemes = {"http": "https", "https": "http"}
    slash = parts.path[:-1] if parts.path.endswith("/") else f"{parts.path}/"
    www = parts.netloc.removeprefix("www.") if parts.netloc.startswith("www.") else f"www.{parts.netloc}"
    other = schemes.get(parts.scheme, parts.scheme)
    for scheme in (parts.scheme, other):
        for netloc in (parts.netloc, www, parts.netloc.removesuffix(":80").removesuffix(":443")):
            for path in (parts.path, slash):
                yield parts._replace(scheme=scheme, netloc=netloc, path=path, fragment="").geturl()
    if parts.query:
        yield parts._replace(query="", fragment="").geturl()
