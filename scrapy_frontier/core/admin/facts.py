"""What a stopped frontier holds, as plain data: nothing is printed here, and nothing written.

Everything that lists is an iterator over a scan; memory does not grow with the number of pages.
"""

from __future__ import annotations

from difflib import get_close_matches
from heapq import merge
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from ..errors import lenient
from ..hosts.delay_sources import OPERATOR, ROBOTS_TXT, deciding
from ..hosts.host import host_of_page, is_of_host
from ..hosts.robots_expiry import robots_status
from ..parse.urls import host_of, origin_of
from ..store import due_rows, host_rows, keys, meta_rows, page_rows, queue_keys, site_rows
from ..store.states import State
from ..transitions import TABLE, Event
from . import page_visits

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator

    from ..store.keys import PageId
    from ..store.leveldb import Store

    # The delay of a host by the settings, in seconds, and the name of the setting it comes from.
    DelayOf = Callable[[str], tuple[float, str]]
    Trail = list[page_rows.Page | None]  # None for one whose row is not there

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
    ranking: meta_rows.LastRanking | None
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
        return now < self.cooling_until + host_rows.FORGIVEN


def known(store: Store) -> int:
    """How many pages were ever given an id, forgotten ones too. One lookup. Raises `UnreadableRow`."""
    return meta_rows.read_counts(store).next_page


def summary(store: Store) -> Summary:
    """All from kept counters: some lookups and a stat for each file; ``links`` are those of the last ranking,
    None where there was none. Raises `UnreadableRow`."""
    counts = meta_rows.read_counts(store)
    totals = counts.totals()
    is_clean = store.get(keys.CLEAN) is not None
    ranking = meta_rows.last_ranking(store)
    links = ranking.get("links") if ranking is not None else None
    ok, errors = (sum(counts.states[state] for state in group) for group in (OK, ERRORS))
    first_due = next((due_rows.due_time(key) for key, _ in store.scan(keys.DUE, limit=1)), None)
    known, about = totals.known, (totals.attempts, totals.hosts, links, store.size(), is_clean, ranking)
    return Summary(totals.states, ok, errors, known, *about, totals.due, totals.queued_again, first_due)


def find_host(store: Store, name: str, delay_of: DelayOf, now: float) -> HostView:
    """What is kept of a host, its delay by *delay_of* or by the operator, and its clock for a crawl that
    starts at *now*; zeros where nothing is. Three lookups; a row that cannot be read counts as none, of
    orders as a block."""
    row = host_row(store.get(keys.host_key(name)))
    orders = host_rows.read_orders(store, name)
    rest = (host_rows.read_cooldown(store, name) or host_rows.Cooldown(0.0, 0, 0.0, "")).seen_at(now)
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


def host_row(stored: bytes | None) -> host_rows.HostRow:
    """A host row of its bytes; zeros where there are none, or none that can be read."""
    return lenient(host_rows.decode_host, stored) or host_rows.HostRow()


def is_host_known(store: Store, name: str) -> bool:
    """Whether there is an order for a host, or a row that tells something: where pages move to the queues of
    their addresses, empty ones are left. Two lookups."""
    stored = store.get(keys.host_key(name))
    is_told = stored is not None and lenient(host_rows.decode_host, stored) != host_rows.HostRow()
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


def host_queues(pages: Iterable[tuple[PageId, page_rows.Page]], name: str) -> HostQueues:
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


def with_robots(store: Store, delay_of: DelayOf, agent: str, most: float, now: float) -> DelayOf:
    """*delay_of*, or what the kept robots.txt of a host asks of *agent*, up to *most*, where that is more.

    Two short scans a host, and 30 us for each file that is kept.
    """

    def larger(host: str) -> tuple[float, str]:
        delay, source = delay_of(host)
        for copy, origin in _copies_of(store, host):
            asked = robots_status(copy, now, agent, origin).delay(now, most)
            if asked > delay:
                delay, source = asked, ROBOTS_TXT
        return delay, source

    return larger


def _copies_of(store: Store, host: str) -> Iterator[tuple[site_rows.RobotsCopy, str]]:
    for scheme in ("http", "https"):
        for key, value in store.scan(keys.robots_key(f"{scheme}://{host}")):
            origin = key[1:].decode(errors="replace")
            if host_of(origin) == host and (copy := lenient(site_rows.decode_copy, value)):
                yield copy, origin


def robots_copy(store: Store, url: str) -> site_rows.RobotsCopy | None:
    """What is kept of the robots.txt for *url*; None where nothing is, or nothing that can be read. One
    lookup."""
    return lenient(site_rows.decode_copy, store.get(keys.robots_key(origin_of(url) or "")))


# -- pages -------------------------------------------------------------------------------------------------


def read_page(store: Store, page_id: PageId) -> page_rows.Page | None:
    """What is kept of a page; None where there is no row. One lookup. Raises `UnreadableRow`."""
    stored = store.get(keys.page_key(page_id))
    return None if stored is None else page_rows.decode_page(stored)


def legible_page(store: Store, page_id: PageId) -> page_rows.Page | None:
    """What is kept of a page; None where there is no row, or none that can be read. One lookup."""
    return lenient(page_rows.decode_page, store.get(keys.page_key(page_id)))


def find_page(store: Store, fingerprint: bytes) -> PageId | None:
    """The id of the page with *fingerprint*, or None; one lookup."""
    stored = store.get(keys.INDEX + fingerprint)
    return None if stored is None else keys.id_in(stored)


def pages(store: Store, with_visits: bool = True) -> Iterator[tuple[PageId, page_rows.Page]]:
    """Every page that can be read, oldest first; further visits of known ones come last, or not at all."""
    for key, value in store.scan(keys.PAGE):
        page_id = keys.key_id(key)
        if page_id >= keys.FIRST_VISIT and not with_visits:
            return
        if page := lenient(page_rows.decode_page, value):
            yield page_id, page


def matching(
    pages: Iterable[tuple[PageId, page_rows.Page]],
    pattern: re.Pattern[str] | None = None,
    host: str | None = None,
    states: frozenset[State] | None = None,
    changed_since: float | None = None,
) -> Iterator[tuple[PageId, page_rows.Page]]:
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


def coming_back(store: Store, host: str | None = None) -> Iterator[tuple[due_rows.Due, page_rows.Page]]:
    """Pages of *host*, or all, that come back and when, soonest first, a lookup each; not those that were due
    and are queued already."""
    for key, value in store.scan(keys.DUE):
        due = due_rows.decode_due(key, value)
        page = legible_page(store, due.page_id)
        if page is not None and (host is None or is_of_host(page, host)):
            yield due, page


def path_to(store: Store, page: page_rows.Page) -> Trail:
    """The pages that lead from a seed to *page*, seed first: each was linked first by the one before. None
    for one that is not there. A lookup each, `LONGEST_TRAIL` at most."""
    return _trail(store, page, attrgetter("parent"))[::-1]


def redirects_of(store: Store, page: page_rows.Page) -> Trail:
    """Where *page* led, in order; ends at a page that led nowhere, is not there (None), or was met before. A
    lookup each, `LONGEST_TRAIL` at most."""
    return _trail(store, page, attrgetter("target"))


def _trail(store: Store, page: page_rows.Page, onward: Callable[[page_rows.Page], int | None]) -> Trail:
    trail: dict[int, page_rows.Page | None] = {}
    page_id = onward(page)
    while page_id is not None and page_id not in trail and len(trail) < LONGEST_TRAIL:
        found = trail[page_id] = legible_page(store, page_id)
        page_id = onward(found) if found is not None else None
    return list(trail.values())


def describe(page_id: PageId, page: page_rows.Page) -> dict[str, object]:
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
