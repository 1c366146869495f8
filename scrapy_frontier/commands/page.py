"""Commands on one page: page, why."""

from __future__ import annotations

import contextlib
from itertools import product
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scrapy.exceptions import UsageError

from ..core.admin import explain, facts, page_visits
from ..core.errors import UnreadableRow
from ..core.parse.urls import without_session
from ..core.time_format import moment
from ..crawl.requests import payload_facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..core.frontier import PageId
    from ..core.store.leveldb import Store
    from ..core.store.page_rows import Page
    from .call import Call
    from .project import Project

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
    from ..core.admin.links_in_chunks import count_links_to, links_out
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
    if parent is not None and is_listed and payload_facts.is_sitemap(parent.payload):
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
    attempts = project.frontier_settings.attempts_for(payload_facts.meta_of(found.payload))
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
