"""Commands that steer: add, requeue, forget, delay, block, unblock, pause, resume, stop, reset."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from ..core.admin import explain, facts
from ..core.admin.database_files import remove
from ..core.errors import FrontierUnreadable, FrontierVersion, NoFrontierInside, UnreadableRow
from ..crawl.control import compiled, request_of_host
from .call import host_argument
from .output import progress
from .project import NoFrontier

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..core.store.keys import State
    from ..core.store.leveldb import Store
    from ..crawl.control import FrontierEdits
    from ..live.client import RemoteEdits
    from .call import Call
    from .project import Project, ShardStore

_AT_A_TIME = 500  # pages of one call


def _answer(call: Call, document: dict[str, object], text: str, order: str) -> None:
    """Prints the answer of an order: *text* if it is done, and *order* if it was posted."""
    if call.project.shared is not None:
        document = {**document, "posted": True}
        text = f"Posted: {order}. The processes of the crawl take it in, now or in the next run."
    call.output.answer(document, text)


def _pages(count: int) -> str:
    return f"{count:,} page{'' if count == 1 else 's'}"


# -- pages -------------------------------------------------------------------------------------------------


def add(call: Call) -> int:
    """Queues pages by their URLs, from the arguments and a file; makes the frontier if there is none.

    Exit code 1 if a line of the file was no URL; all others are added. Raises `UsageError`, with nothing
    added, if an argument is none.
    """
    urls, options, project = list(call.arguments), call.options, call.project
    if not urls and options.file is None:
        raise UsageError("write URLs, or --file FILE")
    for url in urls:
        request_of_host(url, project.frontier_settings)
    compiled(options.pattern)
    priority, force = options.priority or 0, bool(options.force)
    new, known, refused = 0, 0, list[str]()
    # Bytes that are no UTF-8 make a line that is refused, not another URL.
    with (
        open(options.file or os.devnull, encoding="utf-8-sig", errors="surrogateescape") as lines,
        _adding(project) as edits,
    ):
        rest = chain(urls, _urls_in(lines))
        while some := list(islice(rest, _AT_A_TIME)):
            added = edits.add(some, priority, options.pattern, force)
            new, known, refused = new + added.new, known + added.known, refused + added.refused
    answer: dict[str, object] = {"added": new, "known": known, "refused": len(refused)}
    text = f"Added {new:,}; {known:,} known already; {len(refused):,} refused."
    order = f"add {_pages(new)} ({len(refused):,} refused)"
    _answer(call, {**answer, "refused_lines": refused[:100]}, text, order)
    for line in refused[:10]:
        print(f"scrapy frontier: no URL: {line[:60]!r}", file=sys.stderr)
    return 1 if refused else 0


@contextmanager
def _adding(project: Project) -> Iterator[FrontierEdits | RemoteEdits]:
    """Yields what pages are added to, a new frontier if there is none."""
    if project.shared is not None:
        yield project.shared
        return
    with project.open(create=True) as store, project.edits(store) as edits:
        yield edits


def _urls_in(lines: Iterable[str]) -> Iterator[str]:
    texts = (line.strip() for line in progress(lines, "lines read"))
    return (text for text in texts if text and not text.startswith("#"))


def requeue(call: Call) -> None:
    """Queues finished pages again, without their attempts: those in ``--state``, of ``--host``, that
    ``--match``. Reads all pages."""
    project, options, count = call.project, call.options, 0
    states, pattern, force = _states(options.state or "failed"), compiled(options.match), bool(options.force)
    with project.parts(options.host) as parts:
        for part in parts:
            pages = facts.matching(facts.pages(part.store), pattern, call.host(part.store), states)
            found = (part.public(*each)[0] for each in progress(pages, "pages that match"))
            with project.edits(part.store) as edits:
                while some := list(islice(found, _AT_A_TIME)):
                    count += edits.requeue(some, force)
    _answer(call, {"requeued": count}, f"Queued {count:,} pages again.", f"queue {_pages(count)} again")


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
    project.own_scheme()
    with project.parts(identified=True) as parts:  # shards that only lead to a page forget it, too
        host = call.host(parts[0].store)
        for part in parts if host is None else parts[:1]:
            with project.edits(part.store) as edits:
                count += _forget(call, part, edits, host)
    is_unknown = not count and host is None
    text = f"Forgot {_pages(count)}."
    if is_unknown:
        text += f" No plain GET of the URL is known. {explain.BY_FIND}"
        call.output.answer({"forgotten": count}, text)
        return 1
    _answer(call, {"forgotten": count}, text, f"forget {call.arguments[0] if host is None else host}")
    return 0


def _forget(call: Call, part: ShardStore, edits: FrontierEdits | RemoteEdits, host: str | None) -> int:
    """Forgets a *host*, or the page that the first argument names; returns how many pages are gone."""
    if host is None:
        page_id, count = call.project.find(part.store, call.arguments[0]), 0
        if page_id is not None:
            count = edits.forget(part.first | page_id, facts.queue_place(part.store, page_id))
        return count
    return max(edits.forget_host(host), default=0)


# -- hosts -------------------------------------------------------------------------------------------------


@contextmanager
def _ordering(call: Call) -> Iterator[tuple[str, Store, FrontierEdits | RemoteEdits]]:
    """Yields the queue that the first argument names, for an order, with its store and what takes the order.
    An order of a host that is not known yet waits for its first page."""
    with call.project.parts(call.arguments[0]) as [(_, store)]:
        name = host_argument(store, call.arguments[0])
        if not facts.has_queue(store, name):
            print(f"Note: no page of {name} is known; the order waits for the first.", file=sys.stderr)
        with call.project.edits(store) as edits:
            yield name, store, edits


def delay(call: Call) -> None:
    """Orders the seconds between two visits of a host, whatever others ask for; ``default`` takes the order
    back. Raises `UsageError` for what is no number of at least 0."""
    text = call.arguments[1]
    seconds: float | None = None
    if text != "default":
        try:
            seconds = float(text)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < float("inf"):
            raise UsageError(f"{text!r} is no delay; write a number of seconds, or the word default")
    with _ordering(call) as (name, _, edits):
        edits.delay(name, seconds)
    source = "set by the operator"
    if seconds is None:
        seconds, setting = call.project.delay_of(name)
        source = f"by {setting}"
    order = f"leave {seconds:g} s between visits of {name}, {source}"
    _answer(call, {"host": name, "delay": seconds}, f"{name}: {seconds:g} s, {source}.", order)


def block(call: Call) -> None:
    """Orders that a host is visited no more, in the crawls to come; its pages stay queued."""
    with _ordering(call) as (name, store, edits):
        queued = facts.host_row(store, name).queued
        edits.block(name)
    text = f"{name} is blocked; {queued:,} pages of it stay queued."
    document = {"host": name, "blocked": int(call.project.now), "queued": queued}
    _answer(call, document, text, f"visit {name} no more; {_pages(queued)} of it stay queued")


def unblock(call: Call) -> None:
    """Orders that a blocked host is visited again, and ends its rest after trouble."""
    with _ordering(call) as (name, _, edits):
        was_shut = edits.unblock(name)
    text = f"{name} may be visited." if was_shut else f"{name} was not blocked."
    _answer(call, {"host": name, "blocked": None}, text, f"visit {name} again")


# -- a running crawl ---------------------------------------------------------------------------------------


def pause(call: Call) -> None:
    """Has a running crawl hand out no more requests; it stays open. Raises `NoCrawl`."""
    under_way = call.project.running_crawl().call("pause")
    text = f"Paused: nothing more is handed out until resume; {under_way:,} requests under way end."
    call.output.answer({"paused": True, "under_way": under_way}, text)


def resume(call: Call) -> None:
    """Has a running crawl go on. Raises `NoCrawl`."""
    was_paused = call.project.running_crawl().call("resume")
    text = "The crawl goes on." if was_paused else "The crawl was not paused."
    call.output.answer({"paused": False, "was_paused": was_paused}, text)


def stop(call: Call) -> None:
    """Has a running crawl end, as by Ctrl-C. Raises `NoCrawl`."""
    under_way = call.project.running_crawl().call("stop")
    text = f"The crawl ends, after {under_way:,} requests under way; what is queued stays queued."
    call.output.answer({"stopped": True, "under_way": under_way}, text)


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
