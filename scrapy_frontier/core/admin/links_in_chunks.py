"""The link graph of a stopped frontier, some thousand pages at a time: memory does not grow with the links.

Who needs all links at once reads `whole_graph`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from ..errors import UnreadableRow
from ..ranking import graph
from ..store import keys, meta_rows
from ..store.link_rows import CANONICAL, INTERNAL, NOFOLLOW, REDIRECT, Edge

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """What a link's flags say, in words: ``nofollow``, ``internal``, ``redirect``, ``canonical``."""
    return [name for flag, name in _NAMES.items() if flags & flag]


def chunks(store: Store) -> Iterator[graph.Chunk]:
    """All that is stored of links, in order of the pages they are on, undecoded; one pass over the rows."""
    return graph.chunks(store.scan(keys.LINK_ROW), store.scan(keys.SEGMENT_ROW))


def every_link(store: Store) -> Iterator[graph.Links]:
    """All links, those of up to 4096 pages at a time, ascending; 5 to 10 million a second.

    Raises `UnreadableRow` for rows that cannot be read, and for a link to a page that never was.
    """
    pages = meta_rows.read_counts(store).next_page
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
        return graph.read_graph(loose, packed, meta_rows.read_counts(store).next_page)
