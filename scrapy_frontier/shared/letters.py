"""Letters to the shards of a crawl: links and ranks from another shard, and orders of a command."""

from __future__ import annotations

import json
import math
import struct
from typing import Any, NamedTuple

from ..core.errors import FrontierUnreadable, UnreadableRow
from ..core.pages.leases import Link, page_of_link
from ..core.store import records
from .outbox import pack_rows, unpack_rows

_LINK, _RANKS, _ORDER = b"l", b"r", b"o"
_NUMBERS = struct.Struct("<BHId")  # flags, bucket, flags of the edge, what is paid
_LONGEST_ANCHOR = 1000  # bytes
_AGAIN, _NAMED = 1, 2


class Order(NamedTuple):
    """What a command has the owner of a shard do: a *name* of `crawl.orders`, and its *arguments*."""

    name: str
    arguments: dict[str, Any]


class Ranks(NamedTuple):
    """By how much the ranks of pages have *changed* in another shard, by fingerprint."""

    changed: dict[bytes, float]


def pack_ranks(ranks: Ranks) -> bytes:
    """Pack *ranks*, to three digits."""
    return _RANKS + json.dumps({name.hex(): round(by, 3) for name, by in ranks.changed.items()}).encode()


def pack_order(order: Order) -> bytes:
    """Pack *order*, whose arguments are what JSON has."""
    return _ORDER + json.dumps(order).encode()


def pack_link(link: Link, paid: float, now: float) -> bytes:
    """Pack *link*, whose page is *paid* so much by the page it is on."""
    flags = _AGAIN * link.again | _NAMED * link.is_named
    numbers = _NUMBERS.pack(flags, link.bucket or 0, link.flags, paid)
    anchor = link.anchor.encode(errors="replace")[:_LONGEST_ANCHOR]
    page = records.encode_page(page_of_link(link, None, now))
    parts = numbers, link.fingerprint, link.host.encode(), anchor, page
    return _LINK + pack_rows((part, None) for part in parts)


def unpack(letter: bytes) -> Link | Ranks | Order:
    """Return what was packed. Raises `FrontierUnreadable`."""
    try:
        if letter[:1] == _ORDER:
            return Order(*json.loads(letter[1:]))
        if letter[:1] == _RANKS:
            changed = dict(json.loads(letter[1:]))
            return Ranks({bytes.fromhex(name): float(by) for name, by in changed.items()})
        if letter[:1] != _LINK:
            raise ValueError("it is of another kind")
        return _unpack_link(letter)
    except (ValueError, TypeError, struct.error, UnreadableRow) as error:
        raise FrontierUnreadable(f"a letter between shards cannot be read ({error})") from error


def _unpack_link(letter: bytes) -> Link:
    numbers, fingerprint, host, anchor, row = (part for part, _ in unpack_rows(letter[1:]))
    flags, bucket, edge, paid = _NUMBERS.unpack(numbers)
    page = records.decode_page(row)
    return Link(
        fingerprint=fingerprint,
        url=page.url,
        host=host.decode(),
        priority=page.priority,
        payload=page.payload,
        flags=edge,
        anchor=anchor.decode(errors="replace"),
        again=bool(flags & _AGAIN),
        is_named=bool(flags & _NAMED),
        bucket=bucket or None,
        facts=page.facts,
        lastmod=page.lastmod,
        visit_payload=page.visit_payload,
        paid=None if math.isnan(paid) else paid,
    )
