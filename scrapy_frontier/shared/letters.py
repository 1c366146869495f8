"""Letters to the shards of a crawl, as JSON: links and ranks from another shard, and orders of a command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ..core.pages.leases import Link

_LONGEST_ANCHOR = 1000  # characters


class PostedLink(NamedTuple):
    """A link on a page of another shard: the request, and what the frontier knows besides, as in `Link`.

    *paid*: the score that the page with the link pays.
    """

    url: str
    priority: int
    payload: str
    anchor: str
    paid: float
    lastmod: int | None
    is_named: bool
    from_public: bool


class Ranks(NamedTuple):
    """By how much the ranks of pages have *changed* in another shard, by fingerprint in hexadecimal."""

    changed: dict[str, float]


class Order(NamedTuple):
    """What a command has the owner of a shard do: a *name* of `crawl.orders`, and its *arguments*."""

    name: str
    arguments: dict[str, Any]


_KINDS = {kind.__name__: kind for kind in (PostedLink, Ranks, Order)}


def posted_link(link: Link, paid: float) -> PostedLink:
    """Return what is posted of *link*, whose page is *paid* so much by the page it is on."""
    payload = (link.visit_payload or link.payload).decode("utf-8", "surrogatepass")
    anchor, facts = link.anchor[:_LONGEST_ANCHOR], link.facts
    about = link.lastmod, link.is_named, facts.from_public
    return PostedLink(link.url, link.priority, payload, anchor, paid, *about)


def pack(letter: PostedLink | Ranks | Order) -> bytes:
    """Pack *letter*; some 5 us for a link."""
    return json.dumps([type(letter).__name__, *letter]).encode()


def unpack(packed: bytes) -> PostedLink | Ranks | Order:
    """Return what was packed. Raises `KeyError`, `TypeError` or `ValueError` if it is no letter."""
    kind, *fields = json.loads(packed)
    return _KINDS[kind](*fields)
