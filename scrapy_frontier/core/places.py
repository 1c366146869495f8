"""Where a queued page stands: its row in the queue of its host, or among those that wait for a backoff.

A page row does not say it, so finding one page's place walks the queue of its host: some us a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from . import keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .store import Store

_HEAD = 11  # priority, score bucket and turn


class Place(NamedTuple):
    """The row of a queued page: its ``key``, its ``rank`` in the queue of ``host``, the pages ``ahead``
    of it there, and when it is ``due`` (POSIX seconds) if it waits for the end of a backoff.

    ``is_far``: more than ``ahead`` pages are, so many that its row was not looked for any more.
    """

    key: bytes
    rank: bytes
    host: str
    ahead: int = 0
    due: float | None = None
    is_far: bool = False


class Standing(NamedTuple):
    """What a rank says: see `keys.rank`."""

    priority: int
    bucket: int
    turn: int


def standing(rank: bytes) -> Standing:
    return Standing(
        keys.MAX_PRIORITY - int.from_bytes(rank[:4], "big"),
        0xFFFF - int.from_bytes(rank[4:6], "big"),
        int.from_bytes(rank[6:_HEAD], "big"),
    )


def is_rank(rank: bytes) -> bool:
    return len(rank) in (_HEAD, _HEAD + keys.ID_BYTES)


def split_queue_key(key: bytes) -> tuple[str, bytes] | None:
    """Host and rank in the key of a queue row; None for a key that is none."""
    name, _, rank = key[1:].partition(b"\0")
    try:
        return (name.decode(), rank) if is_rank(rank) else None
    except UnicodeDecodeError:
        return None


def split_waiting_row(key: bytes, value: bytes) -> Place | None:
    """The place that a waiting row gives; None for a row that is none."""
    if len(key) != 1 + 8 + keys.ID_BYTES or not value:
        return None
    try:
        rank, host = keys.unpack_rank(value)
    except UnicodeDecodeError:
        return None
    if not is_rank(rank) or keys.rank_id(rank) != int.from_bytes(key[9:], "big"):
        return None
    return Place(key, rank, host, due=keys.waiting_time(key))


def queued_places(store: Store, host: str) -> Iterator[Place]:
    """The queue of *host*, best page first."""
    prefix = keys.queue_prefix(host)
    for ahead, (key, _) in enumerate(store.scan(prefix)):
        if is_rank(key[len(prefix) :]):
            yield Place(key, key[len(prefix) :], host, ahead)


def waiting_places(store: Store) -> Iterator[Place]:
    """All pages that wait for the end of a backoff, soonest first."""
    for key, value in store.scan(keys.WAITING):
        place = split_waiting_row(key, value)
        if place is not None:
            yield place


def find_place(store: Store, page_id: int, host: str, most: int | None = None) -> Place | None:
    """The place of a page; None if no row leads to it. O(queue of the host + waiting pages).

    With *most* no more than so many rows of the queue are looked at, and behind them the place ``is_far``.
    """
    far: Place | None = None
    for place in queued_places(store, host):
        if keys.rank_id(place.rank) == page_id:
            return place
        if place.ahead + 1 == most:
            far = Place(b"", b"", host, most, is_far=True)
            break
    for place in waiting_places(store):
        if keys.rank_id(place.rank) == page_id:
            return place
    return far
