"""What can be ordered of a running crawl, by its server or by mail.

An order is a name and arguments as JSON has them. It is carried out in steps of some milliseconds, each of
which yields how far it came; the last one is the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.store.queue_keys import QueuePlace
from ..shared.letters import Order, Ranks, unpack
from .control import Added, FrontierEdits, OrderedShard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..shared.shards import Shards
    from .assembly import Crawl

PAGES_AT_ONCE = 20  # of a step, which is one batch


def _add(edits: FrontierEdits, urls: list[str], **how: Any) -> Iterator[Added]:
    new, known, refused = 0, 0, list[str]()
    for start in range(0, len(urls) or 1, PAGES_AT_ONCE):
        added = edits.add(urls[start : start + PAGES_AT_ONCE], **how)
        new, known, refused = new + added.new, known + added.known, refused + added.refused
        yield Added(new, known, refused)


def _requeue(edits: FrontierEdits, pages: list[int], force: bool = False) -> Iterator[int]:
    count = 0
    for start in range(0, len(pages) or 1, PAGES_AT_ONCE):
        count += edits.requeue(pages[start : start + PAGES_AT_ONCE], force)
        yield count


def _forget(edits: FrontierEdits, page: int, place: tuple[str, str, str] | None = None) -> Iterator[bool]:
    known = None
    if place is not None:
        key, sort_key, host = place
        known = QueuePlace(bytes.fromhex(key), bytes.fromhex(sort_key), host)
    yield edits.forget(page, known)


def _in_one_step(method: Callable[..., object]) -> Callable[..., Iterator[object]]:
    """Returns an order that calls *method*."""

    def carry_out(edits: FrontierEdits, **arguments: Any) -> Iterator[object]:
        yield method(edits, **arguments)

    return carry_out


ORDERS: dict[str, Callable[..., Iterator[object]]] = {
    "add": _add,
    "requeue": _requeue,
    "forget": _forget,
    "forget_host": FrontierEdits.forget_host,
    "block": _in_one_step(FrontierEdits.block),
    "unblock": _in_one_step(FrontierEdits.unblock),
    "delay": _in_one_step(FrontierEdits.delay),
}


def take_in(crawl: Crawl, shards: Shards, n: int, letter: bytes) -> Iterator[object]:
    """Takes in a *letter* to shard *n* of *crawl*: a link or ranks in one step, an order in several. Raises
    `UsageError`, `KeyError`, `TypeError` or `ValueError` if it cannot be read."""
    content = unpack(letter)
    if isinstance(content, Order):
        shard = OrderedShard(crawl, shards.open[n].frontier)
        yield from ORDERS[content.name](shard, **content.arguments)
        return
    if isinstance(content, Ranks):
        shards.take_ranks(n, content)
    else:
        crawl.enqueuer.enqueue_posted(content)
    yield content
