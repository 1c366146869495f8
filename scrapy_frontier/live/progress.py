"""Shows on a terminal how a crawl goes on: a line that stays below the log, and a table at the end.

With ``rich`` both are in colour; without it they are plain text.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from scrapy import signals

from ..core.errors import span
from ..crawl import scrapy_internals
from ..crawl.assembly import closing
from .snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.crawler import Crawler

    from ..crawl.assembly import Crawl

INTERVAL = 0.5  # seconds between two lines
RECENT = 10.0  # seconds for which the rate is told
SAMPLES = 600  # by which it is told how long the queue lasts: the last five minutes
ERASE = "\r\x1b[K"  # the line of the cursor
_FIRST_ESTIMATE = 5.0  # seconds


class Progress:
    """Shows *crawl* on standard error until its frontier is closed, and a table when the engine stops."""

    def __init__(self, crawler: Crawler, crawl: Crawl) -> None:
        self._crawler = crawler
        self._crawl = crawl
        self._snapshot = Snapshot(crawler, crawl)
        self._began = time.monotonic()
        self._samples: deque[tuple[float, int, int]] = deque(maxlen=SAMPLES)  # time, pages, queued
        self._screen = Screen(sys.stderr)
        self._table: list[tuple[str, str]] = []
        self._loop = scrapy_internals.create_looping_call(self._show)
        self._loop.start(INTERVAL, now=True)
        crawler.signals.connect(self._stop, closing)
        crawler.signals.connect(self._show_table, signals.engine_stopped)

    @classmethod
    def on_terminal(cls, crawler: Crawler, crawl: Crawl) -> Progress | None:
        """Shows *crawl* on standard error, which is a terminal, if progress is wanted
        (``LOGSTATS_INTERVAL``), and the terminal can erase a line, and shows no other crawl of this
        process."""
        is_inspecting = scrapy_internals.is_inspecting(crawler)
        is_wanted = bool(crawler.settings.getfloat("LOGSTATS_INTERVAL")) and not is_inspecting
        is_free = not isinstance(sys.stderr, Above) and os.environ.get("TERM", "dumb") != "dumb"
        return cls(crawler, crawl) if is_wanted and is_free else None

    def _show(self) -> None:
        with suppress(OSError):  # the terminal may have been closed
            self._screen.show(self._figures())

    def _figures(self) -> list[tuple[str, str]]:
        """Returns what the line tells, each by its name."""
        stats, now = self._crawler.stats, time.monotonic()
        pages = int(stats.get_value("response_received_count", 0))
        states = self._crawl.frontier.totals().states
        queued = states["queued"]
        self._samples.append((now, pages, queued))
        hosts = self._snapshot.figures()
        resting = int(hosts["hosts/resting"] + hosts["hosts/held"])
        ready = int(hosts["hosts/ready"] + hosts["hosts/busy"] + hosts["hosts/delayed"])
        return [
            ("pages", f"{pages:,} ({self._rate():.1f}/s)"),
            ("known", f"{sum(states.values()):,}"),
            ("queued", f"{queued:,}"),
            ("hosts", f"{ready:,}"),
            ("resting", f"{resting:,}"),
            ("errors", f"{states['failed'] + states['gone']:,}"),
            *self._time_left(),
        ]

    def _rate(self) -> float:
        """Returns pages a second, of late."""
        until, pages, _ = self._samples[-1]
        for then, before, _ in self._samples:
            if until - then <= RECENT:
                return (pages - before) / (until - then) if until > then else 0.0
        return 0.0

    def _time_left(self) -> list[tuple[str, str]]:
        """Returns how long the queue lasts if it goes on shrinking, with pages being found and fetched as of
        late; nothing in the first seconds."""
        (then, _, before), (now, _, queued) = self._samples[0], self._samples[-1]
        if now - then < _FIRST_ESTIMATE:
            return []
        shrunk = (before - queued) / (now - then)
        return [("left", span(queued / shrunk)) if shrunk > 0 else ("queue", "growing")]

    def _stop(self) -> None:
        if self._loop.running:
            self._loop.stop()
        figures = dict(self._figures())
        seconds = time.monotonic() - self._began
        states = self._crawl.frontier.totals().states
        pages = int(self._crawler.stats.get_value("response_received_count", 0))
        ended = [(state, f"{count:,}") for state, count in states.items() if count and state != "queued"]
        self._table = [
            ("time", span(seconds)),
            ("pages", f"{pages:,} ({pages / seconds:.1f} a second)"),
            ("items", f"{self._crawler.stats.get_value('item_scraped_count', 0):,}"),
            *((name, figures[name]) for name in ("known", "queued")),
            *ended,
        ]
        self._screen.close()

    def _show_table(self) -> None:
        self._screen.print_table(self._table)


class Screen:
    """The last line of the terminal *stream*, below what logs and prints write.

    While it is shown, `sys.stdout` and `sys.stderr` and the handlers of the log write through it.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._line = ""
        self._is_written_into = False  # what stands there has not ended
        self._console = _console(stream)
        self._replaced = {name: getattr(sys, name) for name in ("stderr", "stdout")}
        for name, each in self._replaced.items():
            if scrapy_internals.is_terminal(each):
                setattr(sys, name, Above(self, each))
        handlers = (each for each in logging.root.handlers if isinstance(each, logging.StreamHandler))
        self._handlers = [each for each in handlers if each.stream is stream]
        for handler in self._handlers:
            handler.setStream(sys.stderr)

    def close(self) -> None:
        """Erases the line, and gives back what was taken."""
        self.show(())
        for handler in self._handlers:
            handler.setStream(self.stream)
        for name, each in self._replaced.items():
            setattr(sys, name, each)

    def show(self, figures: Iterable[tuple[str, str]]) -> None:
        """Shows *figures*, names and values, in place of the line, as far as there is room."""
        room = shutil.get_terminal_size().columns - 1
        parts: list[str] = []
        for name, value in figures:
            room -= len(name) + len(value) + 3
            if room < 0:
                break
            parts.append(f"{self._styled(name, 'dim')} {self._styled(value, 'bold')}")
        self._line = "  ".join(parts)
        self.draw()

    def draw(self, above: str = "") -> None:
        """Writes *above* in the place of the line; the line comes back below it when it has ended."""
        if above or not self._is_written_into:
            erase = "" if self._is_written_into else ERASE
            self._is_written_into = bool(above) and not above.endswith("\n")
            self.stream.write(f"{erase}{above}{'' if self._is_written_into else self._line}")
            self.stream.flush()

    def print_table(self, rows: list[tuple[str, str]]) -> None:
        """Prints *rows*, names and values."""
        if self._console is None:
            width = max(len(name) for name, _ in rows)
            self.stream.write("".join(f"  {name:<{width}}  {value}\n" for name, value in rows))
            return
        from rich.table import Table

        table = Table(show_header=False)
        for row in rows:
            table.add_row(*row)
        self._console.print(table)

    def _styled(self, text: str, style: str) -> str:
        if self._console is None:
            return text
        with self._console.capture() as captured:
            self._console.print(text, style=style, end="", highlight=False, markup=False)
        return str(captured.get())


class Above:
    """In place of a *stream* of the terminal: what is written comes above the line of the *screen*."""

    def __init__(self, screen: Screen, stream: TextIO) -> None:
        self._screen = screen
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes *text*."""
        self._screen.draw(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _console(stream: TextIO) -> Any:
    """Returns rich's console; None without that package."""
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=stream)
