"""What a stopped frontier holds, as plain data: nothing is printed here, and nothing written.

Everything that lists is an iterator over a scan; memory does not grow with the number of pages.

The link graph of a stopped frontier, some thousand pages at a time: memory does not grow with the links.

Who needs all links at once reads `whole_graph`.
"""

from __future__ import annotations

from contextlib import contextmanager
from difflib import get_close_matches
from heapq import merge
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..errors import UnreadableRow, lenient
from ..hosts.host import OPERATOR, ROBOTS_TXT, deciding, host_of_page, is_of_host
from ..hosts.robots_policy import robots_status
from ..parse.urls import host_of, origin_of
from ..ranking import graph
from ..store import keys, queue_keys, records
from ..store.keys import State
from ..store.link_rows import CANONICAL, INTERNAL, KIND, KINDS, NOFOLLOW, REDIRECT, Edge
from ..transitions import TABLE, Event
from . import page_visits

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator

    from ..store.keys import PageId
    from ..store.leveldb import Store

_NAMES = {NOFOLLOW: "nofollow", INTERNAL: "internal", REDIRECT: "redirect", CANONICAL: "canonical"}


@contextmanager
def readable() -> Iterator[None]:
    """A block in which links are decoded: what that raises for bytes that are none becomes
    `UnreadableRow`."""
    try:
        yield
    except (ValueError, IndexError) as error:
        raise UnreadableRow(f"the link graph cannot be read ({error})") from error


def flag_names(flags: int) -> list[str]:
    """Return the flags of a link in words: its kind, if it is known (``a``, ``css``, ``img`` ...), then
    ``nofollow``, ``internal``, ``redirect``, ``canonical``."""
    kind = [name for name, bits in KINDS.items() if flags & KIND == bits]
    return kind + [name for flag, name in _NAMES.items() if flags & flag]


def chunks(store: Store) -> Iterator[graph.Chunk]:
    """All that is stored of links, in order of the pages they are on, undecoded; one pass over the rows."""
    return graph.chunks(store.scan(keys.LINK_ROW), store.scan(keys.SEGMENT_ROW))


def every_link(store: Store) -> Iterator[graph.Links]:
    """All links, those of up to 4096 pages at a time, ascending; 5 to 10 million a second.

    Raises `UnreadableRow` for rows that cannot be read, and for a link to a page that never was.
    """
    pages = records.read_counts(store).next_page
    for chunk in chunks(store):
        with readable():
            links = graph.links_in(chunk, pages)
        yield links


def links_out(store: Store, page_id: PageId) -> list[Edge]:
    """The links of a page, ascending, none for one nobody has read; one or two lookups, 1 ms. Raises
    `UnreadableRow`."""
    with readable():
        return graph.find_row(page_id, store.get)


def links_to(store: Store, page_id: PageId) -> Iterator[Edge]:
    """The links to a page, their ``target`` being the page they are on; one pass over all links. Raises
    `UnreadableRow`."""
    for links in every_link(store):
        for place in np.flatnonzero(links.targets == page_id).tolist():
            source, flags, weight = (part[place].item() for part in (links.sources, *links[2:]))
            yield Edge(source, flags, weight)


def count_links_to(store: Store, page_id: PageId, most: int) -> int | None:
    """How many pages link to a page; None in a graph of more than *most* links. One pass over the links.
    Raises `UnreadableRow`."""
    count = walked = 0
    for links in every_link(store):
        walked += len(links.targets)
        if walked > most:
            return None
        count += int(np.count_nonzero(links.targets == page_id))
    return count


def whole_graph(store: Store) -> graph.Graph:
    """All links as arrays, at most 13 bytes a link and 8 a page. Raises `UnreadableRow`."""
    loose, packed = store.scan(keys.LINK_ROW), store.scan(keys.SEGMENT_ROW)
    with readable():
        return graph.read_graph(loose, packed, records.read_counts(store).next_page)


if TYPE_CHECKING:
    # The delay of a host by the settings, in seconds, and the name of the setting it comes from.
    DelayOf = Callable[[str], tuple[float, str]]
    Trail = list[records.Page | None]  # None for one whose row is not there

LONGEST_TRAIL = 1000  # pages: a path or a redirect chain longer than that is told as far as this

_MOST_NAMES = 20_000  # hosts that a misspelt one is compared with: half a second

# States that the row of a host counts together; `Summary` does so besides.
OK = (State.DONE, State.REDIRECTED)
ERRORS = (State.GONE, State.FAILED)
# States, by name, from which a page can be queued again.
REQUEUED = {state.name.lower(): state for state in State if (state, Event.REQUEUED) in TABLE}


class Summary(NamedTuple):
    """The kept counters, and the last ranking: pages by state, and those that ended ``ok`` (done, redirected)
    and in ``errors`` (gone, failed). ``known`` counts every page that was ever given an id. Of those that
    ended ``due`` ones come back, the first at ``first_due`` (POSIX seconds), and ``queued_again`` ones are
    queued again."""

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
    due: int = 0
    queued_again: int = 0
    first_due: int | None = None


class HostView(NamedTuple):
    """A host: pages queued, ended ``ok`` (done, redirected), in ``errors`` (gone, failed) or ``excluded``,
    and its clock. These four, added up over all hosts, are those of `Summary`.

    ``delay`` in seconds and who set it; ``visited`` and ``ready_at`` (POSIX seconds) are the last lease and
    when a crawl that starts now may make the next, 0 for a host that was never visited. ``blocked`` is since
    when, or None. After trouble the host rests until ``cooling_until`` (0: no trouble), for its last
    ``trouble`` in words and as many ``strikes``. ``deferred`` pages wait for room in a budget; those
    ``fetched`` count against one. ``queued_again`` pages were due and are queued again, besides: they are
    counted as what they are.
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
    cooling_until: float = 0.0
    strikes: int = 0
    trouble: str = ""
    deferred: int = 0
    fetched: int = 0
    queued_again: int = 0

    def is_in_trouble(self, now: float) -> bool:
        """Whether its last trouble is not forgiven yet at *now*: it rests, or has since less than `FORGIVEN`
        seconds."""
        return now < self.cooling_until + records.FORGIVEN


def known(store: Store) -> int:
    """How many pages were ever given an id, forgotten ones too. One lookup. Raises `UnreadableRow`."""
    return records.read_counts(store).next_page


def summary(store: Store) -> Summary:
    """All from kept counters: some lookups and a stat for each file; ``links`` are those of the last ranking,
    None where there was none. Raises `UnreadableRow`."""
    counts = records.read_counts(store)
    totals = counts.totals()
    is_clean = store.get(keys.CLEAN) is not None
    ranking = records.last_ranking(store)
    links = ranking.get("links") if ranking is not None else None
    ok, errors = (sum(counts.states[state] for state in group) for group in (OK, ERRORS))
    first_due = next((records.due_time(key) for key, _ in store.scan(keys.DUE, limit=1)), None)
    known, about = totals.known, (totals.attempts, totals.hosts, links, store.size(), is_clean, ranking)
    return Summary(totals.states, ok, errors, known, *about, totals.due, totals.queued_again, first_due)


def find_host(store: Store, name: str, delay_of: DelayOf, now: float) -> HostView:
    """What is kept of a host, its delay by *delay_of* or by the operator, and its clock for a crawl that
    starts at *now*; zeros where nothing is. Three lookups; a row that cannot be read counts as none, of
    orders as a block."""
    row = host_row(store.get(keys.host_key(name)))
    orders = records.read_orders(store, name)
    rest = (records.read_cooldown(store, name) or records.Cooldown(0.0, 0, 0.0, "")).seen_at(now)
    seconds, source = delay_of(name)
    asked = {source: seconds}
    if orders.delay is not None:
        asked[OPERATOR] = orders.delay
    delay, by = deciding(asked)
    # A clock that was set back must not silence a host for longer than its delay.
    ready_at = max(min(row.visited, now) + delay if row.visited else 0.0, rest.until)
    pages = row.pending, row.done - row.excluded, row.failed, row.excluded
    clock = row.visited, delay, by, ready_at
    besides = row.deferred, row.fetched, row.queued_again
    return HostView(name, *pages, *clock, orders.blocked, rest.until, rest.strikes, rest.reason, *besides)


def host_row(stored: bytes | None) -> records.HostRow:
    """A host row of its bytes; zeros where there are none, or none that can be read."""
    return lenient(records.decode_host, stored) or records.HostRow()


def is_host_known(store: Store, name: str) -> bool:
    """Whether there is an order for a host, or a row that tells something: where pages move to the queues of
    their addresses, empty ones are left. Two lookups."""
    stored = store.get(keys.host_key(name))
    is_told = stored is not None and lenient(records.decode_host, stored) != records.HostRow()
    return is_told or store.get(keys.orders_key(name)) is not None


def is_there(store: Store, name: str) -> bool:
    """Whether a host, an order or a queue has exactly that *name*, or pages that were only seen have, which
    leave no such row. Three lookups, and where these find nothing one pass over all pages."""
    rows = keys.host_key(name), keys.orders_key(name)
    if any(store.get(key) is not None for key in rows):
        return True
    if any(True for _ in store.scan(queue_keys.queue_prefix(name), limit=1)):
        return True
    return any(is_of_host(page, name) for _, page in pages(store))


def has_queue(store: Store, name: str) -> bool:
    """Whether pages belong to the queue of *name*, waiting or finished, or there is an order for it. Two
    lookups."""
    row = host_row(store.get(keys.host_key(name)))
    pages = row.queued, row.done, row.failed, row.deferred
    return any(pages) or store.get(keys.orders_key(name)) is not None


class HostQueues(NamedTuple):
    """Which ``others`` than its own are the queues of pages whose URL has a host; in which of these, the
    ``busy`` ones, pages of it wait for a visit, also for the next; whether any page ``is_known`` of it."""

    others: set[str]
    busy: set[str]
    is_known: bool


def host_queues(pages: Iterable[tuple[PageId, records.Page]], name: str) -> HostQueues:
    """Where those *pages* are that belong to the host *name*. Reads no more than *pages* does."""
    queues: set[str] = set()
    busy: set[str] = set()
    for _, page in pages:
        if is_of_host(page, name):
            queues.add(queue := host_of_page(page))
            if page.state is State.QUEUED or page.is_deferred or page.due:
                busy.add(queue)
    return HostQueues(queues - {name}, busy - {name}, bool(queues))


def similar_hosts(store: Store, name: str) -> list[str]:
    """Other known hosts that are written like *name*, three at most; where there are very many, not all are
    compared. Half a second at the most."""
    other = name.removeprefix("www.") if name.startswith("www.") else f"www.{name}"
    if store.get(keys.host_key(other)) is not None:
        return [other]
    names = (key[1:].decode(errors="replace") for key, _ in store.scan(keys.HOST, limit=_MOST_NAMES))
    return get_close_matches(name, [each for each in names if each != name])


def hosts(store: Store, delay_of: DelayOf, now: float) -> Iterator[HostView]:
    """`find_host` of each one in order of its name, also one that is known by the operator's orders alone."""
    names = merge(*((key[1:] for key, _ in store.scan(prefix)) for prefix in (keys.HOST, keys.ORDERS)))
    for name, _ in groupby(names):
        yield find_host(store, name.decode(errors="replace"), delay_of, now)


def with_robots(store: Store, delay_of: DelayOf, agent: str, now: float) -> DelayOf:
    """*delay_of*, or what the kept robots.txt of a host asks of *agent*, if that is more.

    Two short scans a host, and 30 us for each file that is kept.
    """

    def larger(host: str) -> tuple[float, str]:
        delay, source = delay_of(host)
        for copy, origin in _copies_of(store, host):
            asked = robots_status(copy, now, agent, origin).delay(now)
            if asked > delay:
                delay, source = asked, ROBOTS_TXT
        return delay, source

    return larger


def _copies_of(store: Store, host: str) -> Iterator[tuple[records.RobotsCopy, str]]:
    for scheme in ("http", "https"):
        for key, value in store.scan(keys.robots_key(f"{scheme}://{host}")):
            origin = key[1:].decode(errors="replace")
            if host_of(origin) == host and (copy := lenient(records.decode_copy, value)):
                yield copy, origin


def robots_copy(store: Store, url: str) -> records.RobotsCopy | None:
    """What is kept of the robots.txt for *url*; None where nothing is, or nothing that can be read. One
    lookup."""
    return lenient(records.decode_copy, store.get(keys.robots_key(origin_of(url) or "")))


# -- pages -------------------------------------------------------------------------------------------------


def read_page(store: Store, page_id: PageId) -> records.Page | None:
    """What is kept of a page; None where there is no row. One lookup. Raises `UnreadableRow`."""
    stored = store.get(keys.page_key(page_id))
    return None if stored is None else records.decode_page(stored)


def legible_page(store: Store, page_id: PageId) -> records.Page | None:
    """What is kept of a page; None where there is no row, or none that can be read. One lookup."""
    return lenient(records.decode_page, store.get(keys.page_key(page_id)))


def find_page(store: Store, fingerprint: bytes) -> PageId | None:
    """The id of the page with *fingerprint*, or None; one lookup."""
    stored = store.get(keys.INDEX + fingerprint)
    return None if stored is None else keys.id_in(stored)


def pages(store: Store, with_visits: bool = True) -> Iterator[tuple[PageId, records.Page]]:
    """Every page that can be read, oldest first; further visits of known ones come last, or not at all."""
    for key, value in store.scan(keys.PAGE):
        page_id = keys.key_id(key)
        if page_id >= keys.FIRST_VISIT and not with_visits:
            return
        if page := lenient(records.decode_page, value):
            yield page_id, page


def matching(
    pages: Iterable[tuple[PageId, records.Page]],
    pattern: re.Pattern[str] | None = None,
    host: str | None = None,
    states: frozenset[State] | None = None,
    changed_since: float | None = None,
) -> Iterator[tuple[PageId, records.Page]]:
    """Those *pages* whose URL *pattern* is found in, of *host*, in one of *states*, new or changed since
    *changed_since* (POSIX seconds); None stands for all. Reads no more than *pages* does."""
    for page_id, page in pages:
        if states is not None and page.state not in states:
            continue
        if host is not None and not is_of_host(page, host):
            continue
        if changed_since is not None and page_visits.changed_at(page) < changed_since:
            continue
        if pattern is None or pattern.search(page.url):
            yield page_id, page


def coming_back(store: Store, host: str | None = None) -> Iterator[tuple[records.Due, records.Page]]:
    """Pages of *host*, or all, that come back and when, soonest first, a lookup each; not those that were due
    and are queued already."""
    for key, value in store.scan(keys.DUE):
        due = records.decode_due(key, value)
        page = legible_page(store, due.page_id)
        if page is not None and (host is None or is_of_host(page, host)):
            yield due, page


def path_to(store: Store, page: records.Page) -> Trail:
    """The pages that lead from a seed to *page*, seed first: each was linked first by the one before. None
    for one that is not there. A lookup each, `LONGEST_TRAIL` at most."""
    return _trail(store, page, attrgetter("parent"))[::-1]


def redirects_of(store: Store, page: records.Page) -> Trail:
    """Where *page* led, in order; ends at a page that led nowhere, is not there (None), or was met before. A
    lookup each, `LONGEST_TRAIL` at most."""
    return _trail(store, page, attrgetter("target"))


def _trail(store: Store, page: records.Page, onward: Callable[[records.Page], int | None]) -> Trail:
    trail: dict[int, records.Page | None] = {}
    page_id = onward(page)
    while page_id is not None and page_id not in trail and len(trail) < LONGEST_TRAIL:
        found = trail[page_id] = legible_page(store, page_id)
        page_id = onward(found) if found is not None else None
    return list(trail.values())


def describe(page_id: PageId, page: records.Page) -> dict[str, object]:
    """A page as named values, times in POSIX seconds; the same names in `dump`, `find` and `page`."""
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
        "is_further_visit": page_id >= keys.FIRST_VISIT,
        **page_visits.named(page.visits),
    }
