"""Commands that steer: add, requeue, forget, delay, block, unblock, reset."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from io import TextIOWrapper
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

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
from .output import progress
from .page import pattern_of
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
    """An order for a host that no page is known of, or whose pages are in the queue of another; nothing was
    ordered."""

    reason = "frontier_unknown_host"


# -- pages -------------------------------------------------------------------------------------------------


def add(call: Call) -> int:
    """Queue pages by their URLs, from the arguments and a file; makes the frontier if need be. Exit code 1
    where a line of the file was no URL; all others are added. Raises `UsageError`, with nothing added, where
    an argument is none."""
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
    """Whether each of *links* was queued; with *meta* a known page gets the new request, too. So does one
    whose own went with its crawl, of which none is running."""
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
    """Have the frontier, which is still open here, to ourselves until the time to force by, a second after
    *now* at the most: what a crawl visited before it would be forced once more by each link."""
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
    """Queue finished pages again, their attempts forgotten: those in ``--state``, of ``--host``, that
    ``--match``. One pass over all pages; committed."""
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
    """Remove all that is known of a page, or of all pages of ``--host``. Exit code 1 where the page is not
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


class _Ordering(NamedTuple):
    """An order about to be given: for which host, and which ``others`` have pages of it in their queue."""

    name: str
    others: list[str]
    store: Store
    frontier: Frontier

    def answer(self, call: Call, document: dict[str, object], text: str) -> None:
        """Tell what was ordered, and for which pages it is not."""
        if self.others:
            text += f" Pages of it in the queue of {_listed(self.others)} are not meant."
        call.output.answer({"host": self.name, **document, "not_meant": self.others}, text)


@contextmanager
def _ordering(call: Call) -> Iterator[_Ordering]:
    """What it takes to give an order for the host that the first argument names; one pass over all pages.

    Raises `UnknownHost` for a host whose pages are in the queues of others, which would go on being visited,
    and for one without a page or orders, unless the operator means it: most of them are misspelt.
    """
    with call.project.open() as store:
        name = host_argument(call.project, store, call.arguments[0])
        key = call.project.queue_of(name)
        pages = progress(facts.pages(store), "pages searched", facts.known(store))
        found = facts.host_queues(pages, name)
        others = sorted((found.others | {key}) - {name})
        is_meant = call.options.yes and key == name
        if others and not (is_meant or facts.has_queue(store, name)):
            raise UnknownHost(_instead(store, name, key, found))
        if not (call.options.yes or found.is_known or facts.is_host_known(store, name)):
            likely = facts.similar_hosts(store, name)
            advice = f"did you mean {' or '.join(likely)}? " if likely else ""
            raise UnknownHost(
                f"no page of {name} is known, and nothing was ordered: {advice}Write --yes to have the order "
                "wait for its pages"
            )
        with call.project.frontier(store) as frontier:
            yield _Ordering(name, others, store, frontier)


def _instead(store: Store, name: str, key: str, found: facts.HostQueues) -> str:
    """Why no order for *name* is taken, and which to give for the pages of it that would be visited: those
    *found* in the queues of others, and new ones, which come to that of *key*."""
    others, advised, more = sorted(found.others), sorted(found.busy - {key}), ""
    where = [f"its pages are in that of {_listed(others)}"] if others else []
    if key == name:
        advised = advised or others
        more = f", or {name} --yes for pages that come to a queue of its own"
    else:
        where += [] if key in others else [f"new pages come to that of {key}"]
        advised.insert(0, key if facts.has_queue(store, key) else f"{key} --yes")
    each = "each of " if len(advised) > 1 else ""
    return (
        f"{name} has no queue of its own: {', '.join(where)}, and nothing was ordered. Write {each}"
        f"{_listed(advised, 20)} instead, for all the pages in there{more}"
    )


def _listed(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def delay(call: Call) -> None:
    """Order the seconds between two visits of a host, whatever others ask for; ``default`` takes it back.
    Raises `UnknownHost`, and `UsageError` for what is no number of at least 0."""
    text = call.arguments[1]
    seconds: float | None = None
    if text != "default":
        try:
            seconds = float(text)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < float("inf"):
            raise UsageError(f"{text!r} is no delay; write a number of seconds, or the word default")
    with _ordering(call) as order:
        order.frontier.order_delay(order.name, seconds, call.project.now)
    source = "set by the operator"
    if seconds is None:
        seconds, setting = call.project.delay_of(order.name)
        source = f"by {setting}"
    order.answer(call, {"delay": seconds}, f"{order.name}: {seconds:g} s, {source}.")


def block(call: Call) -> None:
    """Have a host visited no more, in the crawls to come; its pages stay queued. Raises `UnknownHost`."""
    with _ordering(call) as order:
        now = call.project.now
        queued = facts.find_host(order.store, order.name, call.project.delay_of, now).queued
        order.frontier.block(order.name, now)
    text = f"{order.name} is blocked; {queued:,} pages of it stay queued."
    order.answer(call, {"blocked": int(now), "queued": queued}, text)


def unblock(call: Call) -> None:
    """Have a blocked host visited again; also ends the rest of one that met trouble. Raises `UnknownHost`."""
    with _ordering(call) as order:
        was_shut = order.frontier.unblock(order.name, call.project.now)
    text = f"{order.name} may be visited." if was_shut else f"{order.name} was not blocked."
    order.answer(call, {"blocked": None}, text)


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
