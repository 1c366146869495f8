"""The last part of a check: hosts, counts, links, scores, and rows that stand for themselves."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from ..errors import lenient
from ..hosts.cooldown import CooldownRule, at_start
from ..ranking import graph
from ..store import column_rows, host_rows, keys, meta_rows, rate_rows, site_rows
from ..store.states import State
from . import check_twins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .check_notes import Finding
    from .check_work import Work


def small_rows(work: Work) -> Iterator[Finding]:
    """Rows of hosts and sites that stand for themselves: one that cannot be read goes, or the careful
    value takes its place."""
    left_alone = host_rows.encode_orders(host_rows.UNREADABLE_ORDERS)
    cooldown = host_rows.encode_cooldown(at_start(b"", work.now, CooldownRule()))
    for prefix, decode, kind, instead in (
        (keys.ORDERS, host_rows.decode_orders, "unreadable orders", left_alone),
        (keys.ROBOTS, site_rows.decode_copy, "unreadable robots row", None),
        (keys.SITEMAPS, site_rows.decode_sitemaps, "unreadable list of sitemaps", None),
        (keys.COOLDOWN, host_rows.decode_cooldown, "unreadable cooldown", cooldown),
        (keys.BODY, _of_size(keys.ID_BYTES), "unreadable body row", None),
        (keys.RATES, _of_size(*rate_rows.HOST_SIZES), "unreadable rates", None),
    ):
        for key, value in work.scan(prefix):
            if lenient(decode, value) is None:
                work.put(key, instead)
                yield work.found(kind, key[1:].decode(errors="replace"))


def links(work: Work) -> Iterator[Finding]:
    """Rows and segments of links, which are set aside where they cannot be read.

    Links of forgotten pages, and to them, are nothing unusual; to ids never given out, damage. Those to a
    page that went, because it was there twice, lead to the one that stayed.
    """
    counts = lenient(meta_rows.read_counts, work.store) or meta_rows.Counts.none()
    known = max(work.highest[0], counts.next_page - 1)
    for key, value in chain(work.scan(keys.LINK_ROW), work.scan(keys.SEGMENT_ROW)):
        name = ("page" if key[:1] == keys.LINK_ROW else "pages from") + f" {keys.key_id(key)}"
        try:
            highest = graph.highest_id(key, value)
            if highest > known:
                raise ValueError(f"a link to page {highest}, which was never found")
        except (ValueError, IndexError) as error:
            work.put(keys.ASIDE + key, value)
            yield work.removed(key, "unreadable links", name, str(error))
    work.flush()
    check_twins.lead_on(work)


def scores(work: Work) -> Iterator[Finding]:
    """What the scorer keeps, against its format: rows of columns and content scores that cannot be read go,
    and what they said is lost. One pass over these rows."""
    for key, value in work.scan(keys.COLUMN):
        if column_rows.split_column_key(key) is None or not value or len(value) % 2:
            yield work.removed(key, "unreadable scores", key.hex(), f"{len(value)} bytes")
    for key, value in work.scan(keys.CONTENT):
        if len(key) != 1 + keys.ID_BYTES or rate_rows.decode_content(value) is None:
            yield work.removed(key, "unreadable scores", key.hex(), f"{len(value)} bytes")


def hosts(work: Work) -> Iterator[Finding]:
    """Host rows against the pages that were counted, after these; each is counted anew where it is wrong.
    What only the row knows, its last visit and response time, stays; one that cannot be read was visited
    now."""
    for key, value in work.scan(keys.HOST):
        work.tally.counts.hosts += 1
        name = key[1:].decode(errors="replace")
        expected = work.tally.hosts.pop(name, host_rows.HostRow())
        row = lenient(host_rows.decode_host, value)
        if row is None:
            yield work.found("unreadable host row", name)
            expected.visited = work.now  # for all we know
            work.put(key, host_rows.encode_host(expected))
            continue
        expected.visited, expected.response_time = row.visited, row.response_time
        if wrong := _differences(row, expected):
            if not _is_explained(work, row, expected):
                yield work.found("wrong host row", name, wrong)
            work.put(key, host_rows.encode_host(expected))
    for name, expected in work.tally.hosts.items():
        if wrong := _differences(host_rows.HostRow(), expected):
            work.tally.counts.hosts += 1
            yield work.found("missing host row", name, wrong)
            expected.visited = work.now if expected.done or expected.failed else 0.0
            work.put(keys.host_key(name), host_rows.encode_host(expected))


def _differences(row: host_rows.HostRow, expected: host_rows.HostRow) -> str:
    """What a host row says of its pages where that is not so."""
    counts = ((name, getattr(row, name), getattr(expected, name)) for name in host_rows.COUNTS)
    return "; ".join(_wrong(counts))


def _wrong(numbers: Iterable[tuple[str, int, int]]) -> list[str]:
    """Those of *numbers* that are not what they should be: each with its name, as it is and in truth."""
    return [f"{name} {was}, in truth {is_now}" for name, was, is_now in numbers if was != is_now]


def _is_explained(work: Work, row: host_rows.HostRow, expected: host_rows.HostRow) -> bool:
    """Whether a host has more failed pages because the crawl has set some aside: theirs is not known."""
    more = row.failed - expected.failed
    if replace(expected, failed=row.failed) == row and 0 < more <= work.set_aside:
        work.set_aside -= more
        return True
    return False


def counts(work: Work) -> Iterator[Finding]:
    """The kept counters against what was counted, after `hosts`. The next ids never become less."""
    read, expected = lenient(meta_rows.read_counts, work.store), work.tally.counts
    counts = read or meta_rows.Counts.none()
    last_page, last_visit = work.highest[0], work.highest[1] - keys.FIRST_VISIT
    expected.next_page = max(counts.next_page, last_page + 1)
    expected.next_visit = max(counts.next_visit, last_visit + 1)
    expected.attempts = counts.attempts or expected.attempts
    wrong = [] if read is not None else ["they cannot be read"]
    wrong += _wrong((state.name.lower(), counts.states[state], expected.states[state]) for state in State)
    if counts.next_page <= last_page:
        wrong.append(f"next page {counts.next_page}, but page {last_page} is there")
    if counts.next_visit <= last_visit:
        wrong.append(f"next visit {counts.next_visit}, but visit {last_visit} is there")
    names = ("due", "queued_again", "hosts")
    wrong += _wrong((name, getattr(counts, name), getattr(expected, name)) for name in names)
    if wrong:
        work.put(keys.COUNTS, meta_rows.encode_counts(expected))
        yield work.found("wrong counts", "the counts", "; ".join(wrong))


def _of_size(*sizes: int) -> Callable[[bytes], bytes | None]:
    """What takes any row of these *sizes* for one that can be read: the page in it may be forgotten."""
    return lambda value: value if len(value) in sizes else None
