"""The extension that prints a line of progress while a crawl runs, and a summary at its end."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any, TextIO

from scrapy import signals
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.asyncio import create_looping_call

from demo_project.figures import Figures, host_of, what_next
from demo_project.serve import DemoWeb

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

WIDTH = 79  # columns


class Progress:
    """Watches a crawl. Pages are answers of status 200 to 299 that went to the spider."""

    def __init__(self, crawler: Crawler, stream: TextIO) -> None:
        self._crawler = crawler
        self._stream = stream
        self._in_place = stream.isatty()
        self._figures = Figures(time.monotonic())
        self._loop = create_looping_call(self._show)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        # With "-O -:jsonl" the items go to stdout, and nothing else may.
        taken = any(str(uri).startswith(("-", "stdout:")) for uri in crawler.settings.getdict("FEEDS"))
        extension = cls(crawler, sys.stderr if taken else sys.stdout)
        connect = crawler.signals.connect
        connect(extension.spider_opened, signals.spider_opened)
        connect(extension.response_received, signals.response_received)
        connect(extension.item_scraped, signals.item_scraped)
        connect(extension.spider_closed, signals.spider_closed)
        return extension

    def spider_opened(self) -> None:
        self._figures.began = time.monotonic()
        self._loop.start(0.25 if self._in_place else 2.0, now=False)

    def response_received(self, response: Response, request: Request) -> None:
        if 200 <= response.status < 300 and request.callback is not NO_CALLBACK:
            self._figures.pages[host_of(response.url)] += 1

    def item_scraped(self, item: Any) -> None:
        self._figures.item(item)

    def spider_closed(self, spider: Spider, reason: str) -> None:
        if self._loop.running:
            self._loop.stop()
        is_unusable = reason.startswith("frontier_")
        if reason == "refused" or (is_unusable and not self._figures.pages):
            return  # the spider or the frontier has said why
        stats = self._crawler.stats.get_stats() if self._crawler.stats is not None else {}
        titles = getattr(getattr(spider, "web", None), "titles", {})
        served = self._crawler.get_extension(DemoWeb)
        gaps = served.server.gaps if served is not None and served.server is not None else {}
        for line in self._figures.summary(time.monotonic(), reason, stats, titles, gaps):
            self._print(line, "\n")
        for line in () if is_unusable else ("", *what_next(self._crawler.settings, reason)):
            self._print(line, "\n")

    def _show(self) -> None:
        self._print(self._figures.line(time.monotonic(), self._pending()), "" if self._in_place else "\n")

    def _pending(self) -> int:
        """How many requests wait in the scheduler. Its stats may be seconds old, its length is not."""
        engine = self._crawler.engine
        scheduler: Any = getattr(engine, "scheduler", None)  # from Scrapy 2.19 on
        if scheduler is None:
            scheduler = getattr(getattr(engine, "_slot", None), "scheduler", None)
        return len(scheduler) if hasattr(scheduler, "__len__") else 0

    def _print(self, line: str, end: str) -> None:
        """Print what fits: a page's title may hold anything, and the terminal may know ASCII only."""
        text = "".join(character if character.isprintable() else " " for character in line)
        if len(text) > WIDTH:
            text = f"{text[: WIDTH - 3]}..."
        encoding = self._stream.encoding or "ascii"
        text = text.encode(encoding, "replace").decode(encoding)
        with contextlib.suppress(BrokenPipeError):
            self._stream.write(("\r\x1b[K" if self._in_place else "") + text + end)
            self._stream.flush()
