"""Commands that steer: add, requeue, forget, delay, block, unblock, reset."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from io import TextIOWrapper
from itertools import chain, islice
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from ..core.admin import explain, facts
from ..core.admin.database_files import remove
from ..core.errors import FrontierError, FrontierUnreadable, FrontierVersion, NoFrontierInside, UnreadableRow
from ..core.frontier import Fate, Link
from ..core.parse.urls import host_of
from ..core.store.records import RequestFacts
from ..crawl.codec import meta_payload
from ..crawl.meta_keys import FORCE, PATTERN
from ..crawl.meta_values import is_forced, meta_to_force
from .call import host_argument
from .look import pattern_of
from .output import progress
from .project import NoFrontier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy import Request

    from ..core.frontier import Frontier
    from ..core.store.keys import State
    from ..core.store.leveldb import Store
    from .call import Call
    from .project import Project

_AT_A_TIME = 100  # pages that one call discovers
# How a file of URLs is read: bytes that are no UTF-8 make a line that is refused, not another URL.
_UTF_8, _KEPT = "utf-8-sig", "surrogateescape"


class UnknownHost(FrontierError):
    """An order names a host of which no page is known, or whose pages are in other queues; nothing was
    ordered."""

    reason = "frontier_unknown_host"


# -- pages -------------------------------------------------------------------------------------------------


def add(call: Call) -> int:
    """Queues pages by their URLs, from the arguments and a file; makes the frontier if there is none.

    Exit code 1 if a line of the file was no URL; all others are added. Raises `UsageError`, with nothing
    added, if an argument is none.
    """
    urls = list(call.arguments)
    if not urls and call.options.file is None:
        raise UsageError("write URLs, or --file FILE")
    project, priority, pattern = call.project, call.options.priority or 0, call.options.pattern
    for url in urls:
        _request(project, url)
    pattern_of(pattern)
    meta = {} if pattern is None else {PATTERN: pattern}
    meta |= meta_to_force(project.now) if call.options.force else {}
    refused: list[str] = []
    new = known = 0
    with _open_lines(call.options.file) as lines, project.open(create=True) as store:
        link = partial(_link, project, priority, meta_payload(meta), pattern is not None)
        links = chain(map(link, urls), _links(lines, link, refused))
        with project.frontier(store) as frontier:
            while handful := list(islice(links, _AT_A_TIME)):
                added = sum(_add(frontier, handful, meta, project.now))
                new += added
                known += len(handful) - added
        if call.options.force:
            _end_second(project.now)
    project.claim()
    answer: dict[str, object] = {"added": new, "known": known, "refused": len(refused)}
    text = f"Added {new:,}; {known:,} known already; {len(refused):,} refused."
    call.output.answer({**answer, "refused_lines": refused[:_AT_A_TIME]}, text)
    for line in refused[:10]:
        print(f"scrapy frontier: no URL: {line[:60]!r}", file=sys.stderr)
    return 1 if refused else 0


def _add(frontier: Frontier, links: list[Link], meta: dict[str, object], now: float) -> Iterator[bool]:
    """Yields for each of *links* whether its page was queued.

    With *meta* a known page gets the new request, too; so does one whose request was in the memory of a
    crawl.
    """
    for link, answer in zip(links, frontier.discover(links, now), strict=True):
        if answer.fate is Fate.ABSENT and answer.page_id is not None:
            yield frontier.renew(answer.page_id, link.payload, link.facts, is_lost=True)
            continue
        known = frontier.page(answer.page_id) if meta and answer.page_id is not None else None
        if known is None or answer.page_id is None or answer.is_taken:
            yield answer.is_taken
        elif is_forced(meta, known) and frontier.requeue(
            answer.page_id, now, link.payload, link.priority, facts=link.facts
        ):
            yield True
        else:
            frontier.renew(answer.page_id, link.payload, link.facts)
            yield False


def _end_second(now: float) -> None:
    """Keeps the frontier open until the second of *now* ends, by which pages are forced: what a crawl visited
    in the rest of it would be forced once more by each link."""
    time.sleep(int(now) + 1 - now)


def _open_lines(name: str | None) -> AbstractContextManager[Iterable[str]]:
    if name is None:
        return nullcontext(())
    if name != "-":
        return open(name, encoding=_UTF_8, errors=_KEPT)
    if sys.stdin is None:
        raise UsageError("standard input is closed: write --file FILE, or give it some")
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(encoding=_UTF_8, errors=_KEPT)
    return nullcontext(sys.stdin)


def _links(lines: Iterable[str], link: Callable[[str], Link], refused: list[str]) -> Iterator[Link]:
    for line in progress(lines, "lines read"):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            text.encode()
            yield link(text)
        except (UsageError, UnicodeEncodeError):  # bytes that are no UTF-8
            refused.append(text)


def _request(project: Project, url: str, priority: int = 0) -> Request:
    request = project.request(url, priority)
    if not host_of(request.url):  # nor may a crawl fetch a `file:` URL that its spider did not ask for
        raise UsageError(f"{url!r} names no host; write it with one: https://example.com/")
    return request


def _link(project: Project, priority: int, payload: bytes, has_pattern: bool, url: str) -> Link:
    request = _request(project, url, priority)
    host = project.politeness_key_of(request.url)
    kept = "" if host == host_of(request.url) else host
    facts = RequestFacts(has_pattern=has_pattern, is_added=True)
    fingerprint = project.identities.of(request)
    return Link(fingerprint, request.url, host, priority, payload, kept_host=kept, facts=facts)


def requeue(call: Call) -> None:
    """Queues finished pages again, without their attempts: those in ``--state``, of ``--host``, that
    ``--match``. Reads all pages."""
    states = _states(call.options.state or "failed")
    pattern = pattern_of(call.options.match)
    count = 0
    with call.project.open() as store, call.project.frontier(store) as frontier:
        now = call.project.now
        force = meta_to_force(now)[FORCE] if call.options.force else None
        found = facts.matching(facts.pages(store), pattern, call.host(store), states)
        for page_id, page in progress(found, "pages that match"):
            asked = page.facts if force is None else page.facts._replace(force=force)
            count += frontier.requeue(page_id, now, facts=asked)
        if force is not None:
            _end_second(now)
    call.output.answer({"requeued": count}, f"Queued {count:,} pages again.")


def _states(text: str) -> frozenset[State]:
    names = text.lower().split(",")
    if unknown := [name for name in names if name not in facts.REQUEUED]:
        there_are = ", ".join(sorted(facts.REQUEUED))
        raise UsageError(f"no state to queue pages from: {unknown[0]!r}; write some of: {there_are}")
    return frozenset(facts.REQUEUED[name] for name in names)


def forget(call: Call) -> int:
    """Removes all that is known of a page, or of all pages of ``--host``. Exit code 1 if the page is not
    known."""
    if bool(call.arguments) == (call.options.host is not None):
        raise UsageError("write the URL of a page, or --host HOST")
    project, count = call.project, 0
    project.own_scheme("forget")
    with project.open(identified=True) as store, project.frontier(store) as frontier:
        host = call.host(store)
        page_id = project.find(store, call.arguments[0]) if host is None else None
        if host is None:
            count = page_id is not None and frontier.forget(page_id, project.fingerprint_of, project.now)
        else:
            forgotten = frontier.forget_host(host, project.fingerprint_of, project.now)
            for count in progress(forgotten, "pages forgotten", reached=int):  # noqa: B007
                pass
    is_unknown = not count and host is None
    text = f"Forgot {count:,} page{'' if count == 1 else 's'}."
    if is_unknown:
        text += f" No plain GET of the URL is known. {explain.BY_FIND}"
    call.output.answer({"forgotten": count}, text)
    return 1 if is_unknown else 0


# -- hosts -------------------------------------------------------------------------------------------------


@contextmanager
def _ordering(call: Call) -> Iterator[tuple[str, Store, Frontier]]:
    """Yields the queue that the first argument names, for an order, with its store and frontier.

    Raises `UnknownHost` for a name that no queue has, unless ``--yes`` says that it is meant: most are
    misspelt, or their pages are in the queue of another politeness key.
    """
    project = call.project
    with project.open() as store:
        name = host_argument(project, store, call.arguments[0])
        if not facts.has_queue(store, name):
            queues = facts.queues_of(store, name)
            if (key := project.queue_of(name)) != name:
                queues.add(key)  # new pages come there
            if (queues and name not in queues) or not (queues or call.options.yes):
                raise UnknownHost(_advice(store, name, sorted(queues)))
        with project.frontier(store) as frontier:
            yield name, store, frontier


def _advice(store: Store, name: str, queues: list[str]) -> str:
    if queues:
        listed = ", ".join(queues[:20]) + (f" and {len(queues) - 20:,} more" if len(queues) > 20 else "")
        return (
            f"{name} has no queue of its own, and nothing was ordered: its pages belong to {listed}. Write "
            "that instead, for all the pages in there"
        )
    likely = facts.similar_hosts(store, name)
    meant = f"did you mean {' or '.join(likely)}? " if likely else ""
    return (
        f"no page of {name} is known, and nothing was ordered: {meant}Write --yes to have the order wait for "
        f"its pages"
    )


def delay(call: Call) -> None:
    """Orders the seconds between two visits of a host, whatever others ask for; ``default`` takes the order
    back.

    Raises `UnknownHost`, and `UsageError` for what is no number of at least 0.
    """
    text = call.arguments[1]
    seconds: float | None = None
    if text != "default":
        try:
            seconds = float(text)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < float("inf"):
            raise UsageError(f"{text!r} is no delay; write a number of seconds, or the word default")
    with _ordering(call) as (name, _, frontier):
        frontier.order_delay(name, seconds, call.project.now)
    source = "set by the operator"
    if seconds is None:
        seconds, setting = call.project.delay_of(name)
        source = f"by {setting}"
    call.output.answer({"host": name, "delay": seconds}, f"{name}: {seconds:g} s, {source}.")


def block(call: Call) -> None:
    """Orders that a host is visited no more, in the crawls to come; its pages stay queued. Raises
    `UnknownHost`."""
    now = call.project.now
    with _ordering(call) as (name, store, frontier):
        queued = facts.host_row(store, name).pending
        frontier.block(name, now)
    text = f"{name} is blocked; {queued:,} pages of it stay queued."
    call.output.answer({"host": name, "blocked": int(now), "queued": queued}, text)


def unblock(call: Call) -> None:
    """Orders that a blocked host is visited again, and ends its rest after trouble. Raises `UnknownHost`."""
    with _ordering(call) as (name, _, frontier):
        was_shut = frontier.unblock(name, call.project.now)
    text = f"{name} may be visited." if was_shut else f"{name} was not blocked."
    call.output.answer({"host": name, "blocked": None}, text)


# -- everything --------------------------------------------------------------------------------------------


def reset(call: Call) -> int:
    """Removes the whole frontier for good, if the answer is yes; else the exit code is 1.

    Raises `NoFrontier` if there is none, and `NoFrontierInside` for the database of another program.
    """
    project = call.project
    if not project.exists:
        raise NoFrontier(f"there is no frontier in {project.directory} to remove: write --dir DIR")
    contents = _contents(project)
    if not call.options.yes:
        question = f"This removes {contents} in {project.directory}, for good. Write yes: "
        if not _agrees(question):
            print("Nothing was removed.", file=sys.stderr)
            return 1
    remove(project.directory, project.user)
    text = f"Removed the frontier in {project.directory}."
    call.output.answer({"removed": str(project.directory)}, text)
    return 0


def _contents(project: Project) -> str:
    try:
        with project.open() as store:
            return f"{facts.known(store):,} pages"
    except NoFrontierInside:
        raise
    except (FrontierVersion, FrontierUnreadable, UnreadableRow) as error:
        return f"a frontier that cannot be read ({error})"


def _agrees(question: str) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        print(f"{question}(no terminal to ask: use --yes)", file=sys.stderr)
        return False
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() == "yes"
