"""A web that changes while the crawl's clock runs, and a clock that jumps when the crawl has nothing to do.

The clock is a file that crawl and servers read: real seconds, and those that were jumped.
"""

from __future__ import annotations

import gzip
import os
import struct
import time
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

from scrapy import signals
from server import Answer, Visit, Web, links

from scrapy_frontier.crawl import scrapy_internals
from scrapy_frontier.crawl.assembly import crawl_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scrapy.crawler import Crawler

DAY = 86400.0
BEGIN = 1_767_225_600.0  # the clock at the start, POSIX seconds: 2026-01-01
CLOCK = "FRONTIER_TEST_CLOCK"  # environment: where the file of the clock is


class JumpingClock:
    """POSIX seconds from `BEGIN`, in *file* for all processes that ask."""

    def __init__(self, file: str | Path) -> None:
        self._file = os.open(file, os.O_RDWR | os.O_CREAT)
        if not os.fstat(self._file).st_size:
            self._write(BEGIN - time.time())

    def __call__(self) -> float:
        return float(struct.unpack("d", os.pread(self._file, 8, 0))[0]) + time.time()

    def _write(self, offset: float) -> None:
        os.pwrite(self._file, struct.pack("d", offset), 0)

    def jump(self, when: float) -> None:
        """Be *when*, if that is to come."""
        now = self()
        if when > now:
            self._write(when - time.time())

    @property
    def day(self) -> float:
        return (self() - BEGIN) / DAY


_clocks: dict[str, JumpingClock] = {}


def clock() -> float:
    """The clock of this process's crawl: ``FRONTIER_CLOCK = "changing.clock"``."""
    file = os.environ[CLOCK]
    if file not in _clocks:
        _clocks[file] = JumpingClock(file)
    return _clocks[file]()


def jump(when: float) -> None:
    clock()
    _clocks[os.environ[CLOCK]].jump(when)


def never(day: float) -> int:
    return 0


def daily(day: float) -> int:
    return int(day)


def every(days: float) -> Callable[[float], int]:
    return lambda day: int(day / days)


def once(when: float) -> Callable[[float], int]:
    """Changes once, at noon of that day, say."""
    return lambda day: int(day >= when)


@dataclass
class Document:
    """A page and how it changes.

    ``version`` by the day since `BEGIN`; one with ``visits`` changes at every so many. ``tag``: "strong",
    "weak", "none", "noise" (another at every answer), "fixed" (the same for ever); ``suffix`` is what is put
    to it where the body is compressed, and is not known again. ``answers`` by day, from the
    last to the first, say what it is instead of a page.
    """

    version: Callable[[float], int] = never
    visits: int = 0
    tag: str = "strong"
    suffix: str = ""
    has_date: bool = True
    links: Callable[[int], list[str]] = lambda version: []
    answers: list[tuple[float, Answer]] = field(default_factory=list)
    headers: Callable[[float], dict[str, str]] = lambda day: {}
    head: Callable[[float], str] = lambda day: ""
    asked: int = 0

    def now(self, day: float) -> int:
        return self.asked // self.visits if self.visits else self.version(day)

    def from_day(self, day: float, **answer: Any) -> Document:
        """The same, which from that day on answers this."""
        return replace(self, answers=[(day, Answer(**answer)), *self.answers])

    def until_day(self, day: float) -> Document:
        """The same, which from that day on is a page again."""
        return replace(self, answers=[(day, Answer(status=0)), *self.answers])


@dataclass
class Seen:
    """One answer: when (days), what it was, and with what the page was asked for."""

    path: str
    day: float
    status: int
    version: int
    asked: str = ""  # If-None-Match
    since: str = ""  # If-Modified-Since
    size: int = 0


class ChangingWeb(Web):
    """`Web` whose paths with a `Document` change by *clock*; what it answered is in ``seen``."""

    def __init__(self, clock: JumpingClock, hosts: int = 1) -> None:
        self.clock = clock
        self.seen: list[Seen] = []
        self.documents: dict[tuple[int, str], Document] = {}
        super().__init__(hosts)

    def document(self, path: str, document: Document | None = None, host: int = 0, **kinds: Any) -> str:
        """Serve a `Document`; its URL."""
        self.documents[host, path] = document or Document(**kinds)
        return self.url(path, host)

    def of(self, path: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.path == path]

    def statuses(self, path: str) -> list[int]:
        return [seen.status for seen in self.of(path)]

    def _reply(self, visit: Visit) -> Answer:
        document = self.documents.get((visit.host, visit.path))
        day = self.clock.day
        if document is None:
            answer, version = super()._reply(visit), 0
        else:
            version = document.now(day)
            answer = self._answer_of(document, visit, day, version)
            document.asked += 1
        asked, since = (visit.lines.get(name, "") for name in ("if-none-match", "if-modified-since"))
        self.seen.append(Seen(visit.path, day, answer.status, version, asked, since, len(answer.body)))
        return answer

    def _answer_of(self, document: Document, visit: Visit, day: float, version: int) -> Answer:
        for first, answer in document.answers:
            if day >= first:
                if answer.status:
                    return answer
                break
        tag, sent_tag, date = _validators(document, version)
        headers = {**({"ETag": sent_tag} if sent_tag else {}), **({"Last-Modified": date} if date else {})}
        headers |= document.headers(day)
        if _is_unmodified(document, visit, tag, date):
            return Answer(304, headers=headers)
        body = f"<html><head>{document.head(day)}<title>{visit.path}</title></head><body>version {version}"
        body += "<!-- filler -->" * 20 + links(*document.links(version)) + "</body></html>"
        if not document.suffix:
            return Answer(body=body, headers=headers)
        return Answer(body=gzip.compress(body.encode()), headers={**headers, "Content-Encoding": "gzip"})


def _validators(document: Document, version: int) -> tuple[str, str, str]:
    """The tag as the server knows it, as it sends it, and the date, each "" where there is none."""
    names = {"noise": f"n{document.asked}", "fixed": "f"}
    plain = names.get(document.tag, f"V{version}")
    weak = "W/" if document.tag == "weak" else ""
    tag, sent = f'{weak}"{plain}"', f'{weak}"{plain}{document.suffix}"'
    date = formatdate(BEGIN - DAY + version, usegmt=True) if document.has_date else ""
    return ("", "", date) if document.tag == "none" else (tag, sent, date)


def _is_unmodified(document: Document, visit: Visit, tag: str, date: str) -> bool:
    asked, since = visit.lines.get("if-none-match"), visit.lines.get("if-modified-since")
    if asked is not None:
        wanted = [each.strip().removeprefix("W/") for each in asked.split(",")]
        return bool(tag) and tag.removeprefix("W/") in wanted
    return bool(date) and since == date


class Jumps:
    """Extension of a crawl: whenever it has nothing to do, its clock jumps to when it has. Ends it on
    ``LAST_DAY``, with all that is due then: a page that waits a moment for its host's turn too."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._last = crawler.settings.getfloat("LAST_DAY")
        self._loop = scrapy_internals.create_looping_call(self._look)
        crawler.signals.connect(self._begin, signals.spider_opened)
        crawler.signals.connect(self._loop.stop, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Jumps:
        return cls(crawler)

    def _begin(self) -> None:
        self._loop.start(0.01, now=False)

    def _look(self) -> None:
        crawl = crawl_of(self._crawler)
        if crawl is None or scrapy_internals.slot_of(self._crawler).inprogress or crawl.frontier.is_refilling:
            return
        frontier, now = crawl.frontier, clock()
        when = frontier.wake_at() if frontier.pending else frontier.next_due()
        has_nothing_now = not frontier.pending if when is None else when > now
        is_idle_for_a_minute = has_nothing_now and (when is None or when > now + 60)
        if is_idle_for_a_minute and self._last and now >= BEGIN + self._last * DAY:
            scrapy_internals.close_spider(self._crawler, "finished")
            return
        if has_nothing_now and when is not None:
            jump(when)
        scrapy_internals.wake(self._crawler)
