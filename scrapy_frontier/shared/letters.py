"""Letters to the shards of a crawl: links and ranks from another shard, and orders of a command."""

from __future__ import annotations

import json
import math
import struct
from typing import Any, NamedTuple

from ..core.errors import FrontierUnreadable, UnreadableRow
from ..core.pages.leases import Link, page_of_link
from ..core.store import records

_LINK, _RANKS, _ORDER = b"l", b"r", b"o"
# Flags; lengths of fingerprint, host and anchor; bucket; flags of the edge; what is paid
_HEAD = struct.Struct("<BBHHHId")
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
    host, anchor = link.host.encode(), link.anchor.encode(errors="replace")[:_LONGEST_ANCHOR]
    sizes = len(link.fingerprint), len(host), len(anchor)
    head = _HEAD.pack(flags, *sizes, link.bucket or 0, link.flags, paid)
    page = records.encode_page(page_of_link(link, None, now))
    return b"".join((_LINK, head, link.fingerprint, host, anchor, page))


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
    flags, name_size, host_size, anchor_size, bucket, edge, paid = _HEAD.unpack_from(letter, 1)
    at = 1 + _HEAD.size
    fingerprint, at = letter[at : at + name_size], at + name_size
    host, at = letter[at : at + host_size].decode(), at + host_size
    anchor, at = letter[at : at + anchor_size].decode(errors="replace"), at + anchor_size
    page = records.decode_page(letter[at:])
    return Link(
        fingerprint=fingerprint,
        url=page.url,
        host=host,
        priority=page.priority,
        payload=page.payload,
        flags=edge,
        anchor=anchor,
        again=bool(flags & _AGAIN),
        is_named=bool(flags & _NAMED),
        bucket=bucket or None,
        facts=page.facts,
        lastmod=page.lastmod,
        visit_payload=page.visit_payload,
        paid=None if math.isnan(paid) else paid,
    )
