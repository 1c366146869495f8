"""The one layer between spider and engine: directives obeyed, links recorded, seeds that give way."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from .consequences import Consequences
from .crawl import compat
from .crawl.runtime import runtime_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

    from .crawl.outlinks import Links, Recorder

SEEDS_AT_A_TIME = 25
SPELL = 0.003  # seconds for the links of a page, then others get their turn


class Place:
    """A page's place in *line*, those with very many links, from when it gives way first until `leave`.

    The first in the line gives way for one turn of the event loop at a time, so that it is done in bounded
    time whatever others do: a kill before that has it fetched again.
    """

    def __init__(self, line: list[Place]) -> None:
        self._line = line

    async def give_way(self) -> None:
        if self not in self._line:
            self._line.append(self)
        await compat.give_way(1 if self._line[0] is self else compat.TURNS)

    def leave(self) -> None:
        if self in self._line:
            self._line.remove(self)


class FrontierSpiderMiddleware:
    """Does to a page's items and links what the page asks for, records its links for the link graph, and
    gives way after every 25 seeds and in a page with very many links.

    Links are what callbacks yield, taken down before any filter of Scrapy's sees them, or with
    ``FRONTIER_LINKS = "all"`` all anchors of the page as well.

    With the downloader full the engine takes seeds without ever returning to the event loop: 100,000 of
    them froze it for 3.7 s, and every connection with it; giving way brings that to 0.07 s. Of a page's links
    it takes 200 at a time, so beside a page with 100,000 links everybody waited 80 ms for every turn of the
    event loop, and other hosts' pages came 6.5 times as late as alone. Here such a page works only while
    nobody else has anything to do, or after ten turns; the oldest of them after one, so that it comes to its
    end. A page of 30 links does not give way at all.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._line: list[Place] = []
        self._consequences = Consequences(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def _links(self) -> Links | None:
        runtime = runtime_of(self._crawler)
        return runtime.links if runtime is not None else None

    def process_spider_input(self, response: Response) -> None:
        links = self._links()
        if links is not None:
            links.begin(response)

    def process_spider_output(self, response: Response, result: Iterable[Any]) -> Iterable[Any]:
        rules = self._consequences.of(response)
        if rules is not None:
            result = rules.filter(result)
        links = self._links()
        recorder = links.recorder(response) if links is not None else None
        return result if recorder is None else _recorded(response, result, recorder)

    async def process_spider_output_async(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        rules, place = self._consequences.of(response), Place(self._line)
        if rules is not None:
            result = rules.filter_async(result, place.give_way)
        links = self._links()
        recorder = links.recorder(response) if links is not None else None
        until = perf_counter() + SPELL
        try:
            async for each in result:
                if recorder is not None:
                    recorder.take(each)
                yield each
                if perf_counter() >= until:
                    await place.give_way()
                    until = perf_counter() + SPELL
            if recorder is not None:
                for _ in recorder.end(response):
                    await place.give_way()
        finally:
            place.leave()

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        count = 0
        async for seed in start:
            yield self._consequences.with_ajax_form(seed)
            count += 1
            if count % SEEDS_AT_A_TIME == 0:
                await compat.sleep(0)


def _recorded(response: Response, result: Iterable[Any], recorder: Recorder) -> Iterator[Any]:
    for each in result:
        recorder.take(each)
        yield each
    for _ in recorder.end(response):
        pass
