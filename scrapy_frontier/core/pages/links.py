"""What is handed over to the frontier, and what it hands back of what it did not queue."""

from __future__ import annotations

from typing import NamedTuple

from ..store import meta_rows, page_rows
from ..store.page_rows import Page
from ..store.states import State

NEUTRAL = 0x8000  # the score bucket of a page nothing is known about


class Link(NamedTuple):
    """A page to discover.

    ``host`` is the unit of politeness, repeated in ``kept_host`` where it is not the URL's own.
    ``again`` asks for a visit even of a known page (``dont_filter``). ``payload`` is the frozen request, or
    `meta_rows.IN_MEMORY` where only this process has it. ``bucket`` is its place among equals where no scorer
    gives one. ``depth`` counts links from a seed. What the user ``named`` is no trap,
    whatever it looks like, and is always kept.
    """

    fingerprint: bytes
    url: str
    host: str
    priority: int = 0
    payload: bytes = b""
    parent: int | None = None
    bucket: int = NEUTRAL
    again: bool = False
    kept_host: str = ""
    link_score: float = 1.0
    depth: int = 0
    is_named: bool = False
    is_placed: bool = False  # ``bucket`` holds until the scorer has learnt more than who the parent is

    @property
    def is_in_memory(self) -> bool:
        return self.payload.startswith(meta_rows.IN_MEMORY)


class Refusal(NamedTuple):
    """A link that was not queued: a trap (its ``kind``), ``deferred`` until a budget has room, or beyond
    what is kept for later (``over-budget``). Only of a deferred one is the id told."""

    url: str
    host: str
    kind: str
    reason: str
    page_id: int | None = None


def page_of_link(link: Link, now: float) -> Page:
    return Page(link.url, State.QUEUED, 0, link.priority, int(now), link.parent, link.kept_host, link.payload)


def encode_link(link: Link, now: float) -> bytes:
    if link.kept_host:
        return page_rows.encode_page(page_of_link(link, now))
    return page_rows.encode_new_page(link.url, link.priority, int(now), link.parent, link.payload)
