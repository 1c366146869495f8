"""What the operator ordered for a host: a delay of its own, or not to visit it at all.

One small row a host, kept apart from the host row: the crawl rewrites that with every lease, and a crawl
that starts over must not forget who asked to be left alone. ``docs/format.md`` describes the value.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from .errors import UnreadableRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .store import Store

ORDERS = b"o"


class Orders(NamedTuple):
    """``delay`` in seconds replaces what the settings say; ``blocked`` is since when (POSIX seconds)."""

    delay: float | None = None
    blocked: int | None = None


# What stands for a row nobody can read: it may have been a block, so the host is left alone.
UNREADABLE = Orders(blocked=0)


def orders_key(host: str) -> bytes:
    return ORDERS + host.encode()


def encode_orders(orders: Orders) -> bytes:
    given = {name: value for name, value in orders._asdict().items() if value is not None}
    return json.dumps(given, separators=(",", ":")).encode()


def decode_orders(data: bytes) -> Orders:
    """Raises `UnreadableRecord` on anything but a JSON object with a sane delay and time."""
    try:
        found = json.loads(data)
        delay, blocked = found.get("delay"), found.get("blocked")
        if delay is not None and not 0 <= float(delay) < float("inf"):
            raise ValueError(f"a delay of {delay}")
        return Orders(None if delay is None else float(delay), None if blocked is None else int(blocked))
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise UnreadableRecord(f"orders row of {len(data)} bytes: {error}") from error


def read_orders(store: Store, host: str) -> Orders:
    """The orders for *host*; `UNREADABLE` where the row cannot be read."""
    stored = store.get(orders_key(host))
    return Orders() if stored is None else _lenient(stored)


def all_orders(store: Store) -> Iterator[tuple[str, Orders]]:
    for key, value in store.scan(ORDERS):
        yield key[1:].decode(errors="replace"), _lenient(value)


def _lenient(stored: bytes) -> Orders:
    try:
        return decode_orders(stored)
    except UnreadableRecord:
        return UNREADABLE
