"""Reads a stopped frontier as plain data: counts, hosts, pages and links. Prints and writes nothing.

Lists are iterators over scans, so memory does not grow with the number of pages, apart from `whole_graph`.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from heapq import merge
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .. import reasons
from ..errors import UnreadableRow, decode_or_none
from ..hosts.host import FROM_SETTINGS, OPERATOR, ROBOTS_TXT, HostClock, deciding, host_of_page, is_of_host
from ..hosts.robots_policy import robots_status
from ..parse.urls import host_of, origin_of
from ..ranking import graph
from ..store import keys, records
from ..store.keys import State
from ..store.link_rows import INTERNAL, KIND, KINDS, NOFOLLOW, REDIRECT, Edge
from ..store.queue_keys import find_place
from ..transitions import TABLE, Event

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..store.keys import PageId
    from ..store.leveldb import Store
    from ..store.queue_keys import QueuePlace

    Trail = list[records.Page | None]  # None for a page whose row is not there

LONGEST_TRAIL = 1000  # pages; longer paths and chains of redirects are cut off

# States that the row of a host counts together.
OK = (State.DONE, State.REDIRECTED)
ERRORS = (State.GONE, State.FAILED)
# States, by name, from which a page can be queued again.
REQUEUED = {state.name.lower(): state for state in State if (state, Event.REQUEUED) in TABLE}


# -- counts ------------------------------------------------------------------------------------------------


class Summary(NamedTuple):
    """The stored counters: pages by state, those that ended ``ok`` (done, redirected) and in ``errors``
    (gone, failed); ``known`` counts all pages that ever got an id. ``due`` pages come back, the first at
    ``first_due`` (POSIX seconds); ``queued_again`` ones are in due queues. ``links`` counts those of the last
    ``ranking``."""

    states: dict[str, int]
    ok: int
    errors: int
    known: int
    attempts: int
    hosts: int
    links: int | None
    bytes: int
    is_clean: bool
    ranking: records.LastRanking | None
    due: int
    queued_again: int
    first_due: int | None


def known(store: Store) -> int:
    """Return how many pages ever got an id, including forgotten ones. Raises `UnreadableRow`."""
    return records.read_counts(store).next_page


def summary(stores: Sequence[Store]) -> Summary:
    """Return the kept counters of a frontier, or of all shards together: some lookups, and a stat for each
    file. Raises `UnreadableRow`."""
    totals = records.sum_of(records.read_counts(store).totals() for store in stores)
    rankings = [found for found in map(records.last_ranking, stores) if found is not None]
    links = [ranking["links"] for ranking in rankings if "links" in ranking]
    due = (records.due_time(key) for store in stores for key, _ in store.scan(keys.DUE, limit=1))
    return Summary(
        states=totals.states,
        ok=sum(totals.states[state.name.lower()] for state in OK),
        errors=sum(totals.states[state.name.lower()] for state in ERRORS),
        known=totals.known,
        attempts=totals.attempts,
        hosts=totals.hosts,
        links=sum(links) if links else None,
        bytes=sum(store.size() for store in stores),
        is_clean=all(store.get(keys.CLEAN) is not None for store in stores),
        ranking=max(rankings, key=lambda ranking: ranking.get("at", 0), default=None),
        due=totals.due,
        queued_again=totals.queued_again,
        first_due=min(due, default=None),
    )


# -- hosts -------------------------------------------------------------------------------------------------


if TYPE_CHECKING:
    DelayOf = Callable[[str], tuple[float, str]]  # of a host by the settings: seconds, and which setting
    PauseOf = Callable[[str], HostClock]  # what settings and robots.txt ask of a host
    ClockOf = Callable[[str], HostClock | None]  # None: its rows tell it


class HostView(NamedTuple):
    """A host: its pages that are queued, or ended ``ok`` (done, redirected), in ``errors`` (gone, failed) or
    ``excluded``, and its clock (POSIX seconds).

    ``ready_at`` is the earliest time at which a crawl that starts now may visit it, 0 if it was never
    visited. ``blocked`` is since when it is, or None. After trouble it rests until ``cooling_until`` (0: no
    trouble). ``deferred`` pages wait for room in a budget, ``fetched`` ones count against it.
    ``queued_again`` pages are in the due queue, and count by their state, too.
    """

    host: str
    queued: int
    ok: int
    errors: int
    excluded: int
    visited: float
    delay: float
    delay_from: str
    ready_at: float
    blocked: int | None
    cooling_until: float
    strikes: int
    trouble: str
    deferred: int
    fetched: int
    queued_again: int

    def is_in_trouble(self, now: float) -> bool:
        """Return whether its last trouble is not forgiven yet at *now*."""
        return now < self.cooling_until + records.FORGIVEN


def find_host(store: Store, name: str, pause_of: PauseOf, now: float) -> HostView:
    """Return what is stored of a host, zeros if it has no row, for a crawl that starts at *now*. Three
    lookups.

    All answers to when a host may be visited come from here: those of `hosts`, the preview of the queue and
    `why`. A row that cannot be read counts as none, unreadable orders as a block.
    """
    row = host_row(store, name)
    orders = records.read_orders(store, name)
    rest = (records.read_cooldown(store, name) or records.Cooldown(0.0, 0, 0.0, "")).seen_at(now)
    pause = pause_of(name)
    asked = {pause.source: pause.delay}
    if orders.delay is not None:
        asked[OPERATOR] = orders.delay
    delay, delay_from = deciding(asked)
    # A clock that was set back must not silence a host for longer than its delay.
    next_visit = min(row.visited, now) + delay if row.visited else 0.0
    return HostView(
        host=name,
        queued=row.queued,
        ok=row.done - row.excluded,
        errors=row.failed,
        excluded=row.excluded,
        visited=row.visited,
        delay=delay,
        delay_from=delay_from,
        ready_at=max(next_visit, rest.until, pause.until),
        blocked=orders.blocked,
        cooling_until=rest.until,
        strikes=rest.strikes,
        trouble=rest.reason,
        deferred=row.deferred,
        fetched=row.fetched,
        queued_again=row.queued_again,
    )


def hosts(store: Store, pause_of: PauseOf, now: float) -> Iterator[HostView]:
    """Yield `find_host` of every host with a row or orders, by name."""
    names = merge(*((key[1:] for key, _ in store.scan(prefix)) for prefix in (keys.HOST, keys.ORDERS)))
    for name, _ in groupby(names):
        yield find_host(store, name.decode(errors="replace"), pause_of, now)


def pauses(
    store: Store, delay_of: DelayOf, agent: str, now: float, clock_of: ClockOf | None = None
) -> PauseOf:
    """Return a function that gives the pause of a host: by the settings (*delay_of*), by what its kept
    robots.txt asks of *agent* (empty: it is not obeyed), and by its clock in a running crawl (*clock_of*).

    A host is held while every stored robots.txt of it, one for each scheme and port, holds its pages: it
    cannot be reached, or asks for other hours. Two short scans a host, and 30 us for each file.
    """

    def pause_of(host: str) -> HostClock:
        delay, source = delay_of(host)
        held = []
        for copy, origin in _copies_of(store, host) if agent else ():
            status = robots_status(copy, now, agent, origin)
            held.append(status.held_until(now))
            if (asked := status.delay(now)) > delay:
                delay, source = asked, ROBOTS_TXT
        clock = None if clock_of is None else clock_of(host)
        if clock is not None:
            if clock.source != FROM_SETTINGS:  # it is an origin
                source = ROBOTS_TXT
            return HostClock(clock.delay, source, max(clock.until, min(held, default=0.0)))
        return HostClock(delay, source, min(held, default=0.0))

    return pause_of


def _copies_of(store: Store, host: str) -> Iterator[tuple[records.RobotsCopy, str]]:
    for scheme in ("http", "https"):
        for key, value in store.scan(keys.robots_key(f"{scheme}://{host}")):
            origin = key[1:].decode(errors="replace")
            if host_of(origin) == host and (copy := records.ROBOTS.read(value)):
                yield copy, origin


def robots_copy(store: Store, url: str) -> records.RobotsCopy | None:
    """Return the stored robots.txt for *url*; None if there is none, or it cannot be read. One lookup."""
    return records.ROBOTS.read(store.get(keys.robots_key(origin_of(url) or "")))


def host_row(store: Store, name: str) -> records.HostRow:
    """Return the row of a host; zeros if there is none, or it cannot be read. One lookup."""
    return records.HOST.read(store.get(keys.host_key(name))) or records.HostRow()


def has_queue(store: Store, name: str) -> bool:
    """Return whether a queue of that *name* has or had pages, or there are orders for it. Two lookups."""
    row = host_row(store, name)
    pages = row.queued, row.done, row.failed, row.deferred
    return any(pages) or store.get(keys.orders_key(name)) is not None


# -- pages -------------------------------------------------------------------------------------------------


def has_row(store: Store, page_id: PageId) -> bool:
    """Return whether a page has a row; a damaged store may have only its index row. One lookup."""
    return store.get(keys.page_key(page_id)) is not None


def read_page(store: Store, page_id: PageId) -> records.Page | None:
    """Return the record of a page; None if there is none. One lookup. Raises `UnreadableRow`."""
    stored = store.get(keys.page_key(page_id))
    return None if stored is None else records.decode_page(stored)


def legible_page(store: Store, page_id: PageId) -> records.Page | None:
    """Return the record of a page; None if there is none, or it cannot be read. One lookup."""
    return decode_or_none(records.decode_page, store.get(keys.page_key(page_id)))


def find_page(store: Store, fingerprint: bytes) -> PageId | None:
    """Return the id of the page with *fingerprint*, or None; one lookup."""
    stored = store.get(keys.INDEX + fingerprint)
    return None if stored is None else keys.id_in(stored)


def queue_place(store: Store, page_id: PageId) -> QueuePlace | None:
    """Return the place of a page in a queue, or None; takes time with the queue of its host."""
    page = legible_page(store, page_id)
    if page is None or not (page.state is State.QUEUED or page.is_due):
        return None
    return find_place(store, page_id, host_of_page(page))


def pages(store: Store, with_visits: bool = True) -> Iterator[tuple[PageId, records.Page]]:
    """Yield every page that can be read, oldest first; further visits come last, or not at all."""
    for key, value in store.scan(keys.PAGE):
        page_id = keys.key_id(key)
        if page_id >= keys.FIRST_VISIT and not with_visits:
            return
        if page := decode_or_none(records.decode_page, value):
            yield page_id, page


def is_elsewhere(page: records.Page) -> bool:
    """Return whether a page belongs to another shard, and this one only has links to it."""
    return page.reason == reasons.FOREIGN()


def matching(
    pages: Iterable[tuple[PageId, records.Page]],
    pattern: re.Pattern[str] | None = None,
    host: str | None = None,
    states: frozenset[State] | None = None,
) -> Iterator[tuple[PageId, records.Page]]:
    """Yield those *pages* whose URL contains *pattern*, that are of *host* and in one of *states*; None
    matches all. Pages of other shards never match."""
    for page_id, page in pages:
        if is_elsewhere(page):
            continue
        if states is not None and page.state not in states:
            continue
        if host is not None and not is_of_host(page, host):
            continue
        if pattern is None or pattern.search(page.url):
            yield page_id, page


def path_to(store: Store, page: records.Page) -> Trail:
    """Return the pages that lead from a seed to *page*, seed first: each is the first that linked the next
    one."""
    return _trail(store, page, attrgetter("parent"))[::-1]


def redirects_of(store: Store, page: records.Page) -> Trail:
    """Return the chain of redirects from *page*, without it; ends before a page that comes a second time."""
    return _trail(store, page, attrgetter("target"))


def _trail(store: Store, page: records.Page, onward: Callable[[records.Page], int | None]) -> Trail:
    trail: dict[int, records.Page | None] = {}
    page_id = onward(page)
    while page_id is not None and page_id not in trail and len(trail) < LONGEST_TRAIL:
        found = trail[page_id] = legible_page(store, page_id)
        page_id = onward(found) if found is not None else None
    return list(trail.values())


def describe(page_id: PageId, page: records.Page) -> dict[str, object]:
    """Return a page as named values, the same names for every command; times are POSIX seconds, None is
    unknown."""
    visits = page.visits or records.NO_VISITS
    etag, last_modified = (each.decode("latin-1") or None for each in visits.validators)
    return {
        "id": page_id,
        "url": page.url,
        "state": page.state.name.lower(),
        "host": host_of_page(page),
        "priority": page.priority,
        "attempts": page.attempts,
        "discovered": page.discovered,
        "parent": page.parent,
        "status": page.status or None,
        "changed": page.changed or None,
        "target": page.target,
        "reason": page.reason or None,
        "is_further_visit": page_id & keys.MAX_ID >= keys.FIRST_VISIT,
        "first_visit": visits.first or None,
        "last_visit": visits.last or None,
        "last_change": visits.changed or None,
        "visits": visits.visits,
        "changes": visits.changes,
        "due": visits.due if visits.is_scheduled else None,
        "content_type": visits.content_type or None,
        "length": visits.length or None,
        "etag": etag,
        "last_modified": last_modified,
    }


# -- links -------------------------------------------------------------------------------------------------

_FLAG_NAMES = {NOFOLLOW: "nofollow", INTERNAL: "internal", REDIRECT: "redirect"}


@contextmanager
def _decoding() -> Iterator[None]:
    """Raise `UnreadableRow` for an error of decoding links in the block."""
    try:
        yield
    except (ValueError, IndexError, OverflowError) as error:
        raise UnreadableRow(f"the link graph cannot be read ({error})") from error


def flag_names(flags: int) -> list[str]:
    """Return the flags of a link in words: its kind, if it is known (``a``, ``css``, ``img`` ...), then
    ``nofollow``, ``internal``, ``redirect``."""
    kind = [name for name, bits in KINDS.items() if flags & KIND == bits]
    return kind + [name for flag, name in _FLAG_NAMES.items() if flags & flag]


def count_kinds(edges: Iterable[Edge]) -> dict[str, int]:
    """Return how many links there are of each kind (``a``, ``css``, ``img`` ...); others are left out."""
    counts = Counter(edge.flags & KIND for edge in edges)
    return {name: counts[bits] for name, bits in KINDS.items() if counts[bits]}


def every_link(store: Store) -> Iterator[graph.Links]:
    """Yield all links, those of up to 4096 pages at a time, ascending; 5 to 10 million a second. Raises
    `UnreadableRow`, also for a link to a page that never existed."""
    pages = known(store)
    for chunk in graph.chunks(store.scan(keys.LINK_ROW), store.scan(keys.SEGMENT_ROW)):
        with _decoding():
            links = graph.links_in(chunk, pages)
        yield links


def links_out(store: Store, page_id: PageId) -> list[Edge]:
    """Return the links on a page, ascending; one or two lookups, 1 ms. Raises `UnreadableRow`."""
    with _decoding():
        return graph.find_row(page_id, store.get)


def links_to(store: Store, page_id: PageId) -> Iterator[Edge]:
    """Yield the links to a page, with the page they are on as ``target``; reads all links. Raises
    `UnreadableRow`."""
    for links in every_link(store):
        for place in np.flatnonzero(links.targets == page_id).tolist():
            source, flags, weight = (part[place].item() for part in (links.sources, *links[2:]))
            yield Edge(source, flags, weight)


def count_links_to(store: Store, page_id: PageId, most: int) -> int | None:
    """Return how many pages link to a page; None in a graph of more than *most* links. Raises
    `UnreadableRow`."""
    count = walked = 0
    for links in every_link(store):
        walked += len(links.targets)
        if walked > most:
            return None
        count += int(np.count_nonzero(links.targets == page_id))
    return count


def whole_graph(store: Store) -> graph.Graph:
    """Return all links as arrays, at most 13 bytes a link and 8 a page. Raises `UnreadableRow`."""
    loose, packed = store.scan(keys.LINK_ROW), store.scan(keys.SEGMENT_ROW)
    with _decoding():
        return graph.read_graph(loose, packed, known(store))
