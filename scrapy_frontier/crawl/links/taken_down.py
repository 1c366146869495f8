"""What a callback yields, taken down until it ends, and then what its page links, which is there however the
callback ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..scrapy_internals import compat
from .follow_in_bulk import PageFollowing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from scrapy.http import Response

    from .outlinks import LinkCollector

LARGE_PAGE = 500_000  # bytes of a page that is parsed in a thread: 10 ms


def taken(response: Response, result: Iterable[Any], taker: PageFollowing | LinkCollector) -> Iterator[Any]:
    """What goes on of the *result* of the callback of *response*, which may raise."""
    try:
        for each in result:
            if taker.take(each):
                yield each
    except Exception:
        for _ in taker.end(response):
            pass
        raise
    for _ in taker.end(response):
        pass


def with_more(result: Iterable[Any], more: Iterable[Any]) -> Iterator[Any]:
    """The *result* of a callback, which may raise; behind it, however it ends, *more*."""
    try:
        yield from result
    except Exception:
        yield from more
        raise
    yield from more


async def with_more_async(result: AsyncIterator[Any], more: Iterable[Any]) -> AsyncIterator[Any]:
    """As `with_more`."""
    try:
        async for each in result:
            yield each
    except Exception:
        for each in more:
            yield each
        raise
    for each in more:
        yield each


async def end(taker: PageFollowing | LinkCollector | None, response: Any, place: PlaceInLine) -> None:
    """The callback of *response* has ended: its page gives way to others by its *place* meanwhile. A very
    large one is parsed in a thread, beside the event loop, which would stand still."""
    if isinstance(taker, PageFollowing) and len(response.body) > LARGE_PAGE:
        await compat.in_thread(lambda: response.selector)
    if taker is not None:
        for _ in taker.end(response):
            await place.give_way()


def raising(error: Exception) -> Iterator[Any]:
    """The result of a callback that raises *error* at once."""
    raise error
    yield


class PlaceInLine:
    """A page's place in *line*, those with very many links, from when it gives way first until `leave`.

    The first in the line gives way for one turn of the event loop at a time, so that it is done in bounded
    time whatever others do: a kill before that has it fetched again.
    """

    def __init__(self, line: list[PlaceInLine]) -> None:
        self._line = line

    async def give_way(self) -> None:
        """Let others have their turn."""
        if self not in self._line:
            self._line.append(self)
        await compat.give_way(1 if self._line[0] is self else compat.TURNS)

    def leave(self) -> None:
        """The page is through."""
        if self in self._line:
            self._line.remove(self)
