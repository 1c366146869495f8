"""What is handed over to the frontier of a link, and what it answers."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..store import meta_rows
from ..store.page_rows import Page
from ..store.score_codes import NEUTRAL
from ..store.states import State
from . import traps

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.keys import PageId

    LinkFields = tuple[
        bytes, str, str, int, bytes, int, float, int, str, bool, str, bool, str, int | None, int, bool
    ]


class Link(NamedTuple):
    """One link, from the callback to its row.

    ``host`` is the politeness key, repeated in ``kept_host`` where it is not the URL's own. ``payload``
    is the frozen request, opaque here, or `IN_MEMORY` where only the caller's process has it. ``flags`` and
    ``weight`` are those of the edge from the page it was found on; ``depth`` counts links from a seed.
    ``text`` is what `recognize` shall know it by: the URL as it was met, where that alone says who it is.

    ``again`` asks for a visit even of a known page (``dont_filter``). What ``is_named`` by the user is no
    trap, whatever it looks like, and is always kept. ``only_seen``, if not empty, is the reason for which the
    page is made known and not queued. ``parent`` stands for the source where there is none to gather edges.
    ``bucket`` is its place among equals where no scorer gives one; if it ``is_placed``, until the scorer has
    learnt more than who the parent is.
    """

    fingerprint: bytes
    url: str
    host: str
    priority: int = 0
    payload: bytes = b""
    flags: int = 0
    weight: float = 1.0
    depth: int = 0
    text: str = ""
    again: bool = False
    kept_host: str = ""
    is_named: bool = False
    only_seen: str = ""
    parent: PageId | None = None
    bucket: int = NEUTRAL
    is_placed: bool = False

    @property
    def is_in_memory(self) -> bool:
        """Whether its request is in the memory of the caller's process alone: another run finds the page, not
        that."""
        return self.payload.startswith(meta_rows.IN_MEMORY)


# `Link` of a tuple of all fields, in a third of the time: there is one for every new link of every page.
new_link: Callable[[LinkFields], Link] = partial(tuple.__new__, Link)


class Fate(Enum):
    """What became of a link, as `Discovered` says; only ``NEW`` and ``VISIT`` queue a page."""

    NEW = "new"  # its page is queued, for the first time or after it was only seen
    VISIT = "visit"  # the page is known and queued once more
    KNOWN = "known"  # nothing had to be done
    ABSENT = "absent"  # known and yet to be fetched, but the request is in the memory of one process alone
    SEEN = "seen"  # its page is known, and not queued
    DEFERRED = "deferred"  # kept for later, until a budget has room
    REFUSED = "refused"  # a trap, or beyond what is kept for later


class Discovered(NamedTuple):
    """The answer to a link: its ``page_id`` (that of a further visit; None where there is none), whether that
    ``is_head`` of its host's queue, and for one that is deferred or refused of what ``kind`` that is and why:
    ``over_budget``, or the kind of a trap."""

    fate: Fate
    page_id: PageId | None = None
    is_head: bool = False
    kind: str = ""
    reason: str = ""

    @property
    def is_taken(self) -> bool:
        """Whether the call queued it, or keeps it for later: ``NEW``, ``VISIT`` or ``DEFERRED``."""
        return self.fate in _TAKEN

    @property
    def why_refused(self) -> str:
        """For a link that is refused: why, in words for the record of the page that led to it."""
        return traps.WORDS.get(self.kind, self.reason)


# `Discovered` of a tuple of all fields.
new_answer: Callable[[tuple[Fate, PageId | None, bool, str, str]], Discovered]
new_answer = partial(tuple.__new__, Discovered)
_TAKEN = (Fate.NEW, Fate.VISIT, Fate.DEFERRED)


def page_of_link(link: Link, parent: PageId | None, now: float) -> Page:
    """The record of a new page, queued at *now* (POSIX seconds), that *link* from *parent* leads to."""
    return Page(link.url, State.QUEUED, 0, link.priority, int(now), parent, link.kept_host, link.payload)
