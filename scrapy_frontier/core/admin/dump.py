"""Pages, queues and links as named values for other programs: each is a stream, and memory stays flat."""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, NamedTuple

from ..store import keys, queue_keys, records
from . import facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..store.leveldb import Store


class Dump(NamedTuple):
    """What can be dumped: in words, the names of its values, and the function that reads it."""

    title: str
    names: tuple[str, ...]
    read: Callable[[Store], Iterator[dict[str, object]]]


def _pages(store: Store) -> Iterator[dict[str, object]]:
    return starmap(facts.describe, facts.pages(store))


def _links(store: Store) -> Iterator[dict[str, object]]:
    """Every link, pages as ids; 3 us each."""
    from .facts import (
        every_link,
        flag_names,  # loads NumPy and SciPy
    )

    for links in every_link(store):
        for source, target, flags, weight in zip(*(part.tolist() for part in links), strict=True):
            yield {"source": source, "target": target, "flags": flag_names(flags), "weight": weight}


def _queue(store: Store) -> Iterator[dict[str, object]]:
    """The rows of all queues, host by host, best first; then the pages that wait, soonest first."""
    hosts = (key[1:].decode(errors="replace") for key, _ in store.scan(keys.HOST))
    queued = (place for host in hosts for place in queue_keys.queued_places(store, host))
    for places in (queued, queue_keys.waiting_places(store)):
        for place in places:
            page_id = queue_keys.sort_key_id(place.sort_key)
            page = facts.legible_page(store, page_id)
            url = page.url if page is not None else None
            comes_back = records.is_sort_key_of_due(place.sort_key)
            found = _NOWHERE if comes_back else queue_keys.read_sort_key(place.sort_key)._asdict()
            about = {"host": place.host, **found, "waits_until": place.waits_until, "comes_back": comes_back}
            yield {"id": page_id, "url": url, **about}


_PLACE = ("priority", "bucket", "arrival")
_NOWHERE = dict.fromkeys(_PLACE)
DUMPS = {
    "pages": Dump("pages", tuple(facts.describe(0, records.Page(""))), _pages),
    "queue": Dump("queued pages", ("id", "url", "host", *_PLACE, "waits_until", "comes_back"), _queue),
    "links": Dump("links", ("source", "target", "flags", "weight"), _links),
}
