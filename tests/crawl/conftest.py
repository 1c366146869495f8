"""Crawls of a small web over real loopback HTTP, each in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from changing import CLOCK, ChangingWeb, JumpingClock
from nursery import nursery
from server import PATIENCE, Web

import scrapy_frontier
from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.core.store.records import Page, decode_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nursery import Child
    from scrapy import Spider

HERE = Path(__file__).parent
SETTINGS = {
    "SCHEDULER": "scrapy_frontier.FrontierScheduler",
    "FIRST_BACKOFF": 0.05,
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "DOWNLOAD_TIMEOUT": 120,  # a busy machine is no host that does not answer
    "LOGSTATS_INTERVAL": 0.2,
}


def environment() -> dict[str, str]:
    """Where the tests' own modules and the package under test are found, installed or not."""
    package = str(Path(scrapy_frontier.__file__).parent.parent)
    paths = [str(HERE), str(HERE.parent), package, os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


class Crawl:
    """A crawl that is running or has ended."""

    def __init__(self, spider: type[Spider], directory: Path, settings: dict[str, Any], **arguments: Any):
        wrap = arguments.pop("wrap", None)  # what is to be done to the command, which imports all anew
        number = len(list(directory.glob("crawl*.log"))) + 1
        self._log = directory / f"crawl{number}.log"
        self._stats = directory / f"stats{number}.json"
        path = f"{spider.__module__}.{spider.__qualname__}"
        command = [str(HERE / "run_crawl.py"), path, str(self._stats)]
        command += [json.dumps(settings), json.dumps(arguments)]
        with open(self._log, "wb") as log:
            self.process: subprocess.Popen[bytes] | Child
            if wrap is None:
                self.process = nursery.start(command, environment(), directory, stderr=log.fileno())
            else:
                command = wrap([sys.executable, *command])
                self.process = subprocess.Popen(command, stderr=log, env=environment(), cwd=directory)

    def wait(self) -> Crawl:
        """The same, when it has ended by itself."""
        self.process.wait(PATIENCE)
        return self

    def wait_for(self, *words: str, times: int = 1) -> Crawl:
        """The same, when its log has each of *words* so many *times*."""
        wait_until(lambda: self.has_logged(*words, times=times) or self.process.poll() is not None)
        assert self.has_logged(*words, times=times), self.log
        return self

    def go_on(self) -> Crawl:
        """The same, when its event loop came round some times more, however slow the machine is."""
        beat = " pages/min)"  # LOGSTATS_INTERVAL
        return self.wait_for(beat, times=self.log.count(beat) + 3)

    def has_logged(self, *words: str, times: int = 1) -> bool:
        log = self.log
        return all(log.count(word) >= times for word in words)

    def kill(self, *signals: signal.Signals) -> Crawl:
        """The same, after *signals* (default: SIGKILL) and its end."""
        for before, number in enumerate(signals or (signal.SIGKILL,)):
            if before:  # two signals that nobody has heard are one
                self.wait_for("Received SIG", times=before)
            self.process.send_signal(number)
        return self.wait()

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def stats(self) -> dict[str, Any]:
        stats: dict[str, Any] = json.loads(self._stats.read_text(encoding="utf-8"))
        return stats

    @property
    def reason(self) -> str:
        return str(self.stats.get("finish_reason"))


def assert_closed(crawl: Crawl, reason: str, *words: str) -> None:
    """*crawl* ended for *reason*, with one error line that holds *words*, and no traceback."""
    assert crawl.reason == reason
    assert "Traceback" not in crawl.log
    errors = [line for line in crawl.log.splitlines() if "] ERROR: " in line]
    assert len(errors) == 1, crawl.log
    for word in words:
        assert word in errors[0]


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web(hosts=6)
    yield web
    web.close()


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JumpingClock:
    """That of crawls with ``FRONTIER_CLOCK = "changing.clock"``."""
    monkeypatch.setenv(CLOCK, str(tmp_path / "clock"))
    return JumpingClock(tmp_path / "clock")


@pytest.fixture
def changing(clock: JumpingClock) -> Iterator[ChangingWeb]:
    web = ChangingWeb(clock)
    yield web
    web.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Crawl]]:
    """Start a crawl: ``start(Spider, {"SETTING": ...}, argument=...)``; None takes a setting back."""
    crawls: list[Crawl] = []

    def start(spider: type[Spider], settings: dict[str, Any] | None = None, **arguments: Any) -> Crawl:
        merged = {**SETTINGS, "FRONTIER_DIR": str(tmp_path / "frontier"), **(settings or {})}
        chosen = {name: value for name, value in merged.items() if value is not None}
        crawls.append(Crawl(spider, tmp_path, chosen, **arguments))
        return crawls[-1]

    yield start
    for crawl in crawls:
        if crawl.process.poll() is None:
            crawl.process.kill()
            crawl.process.wait()


@pytest.fixture
def run(start: Callable[..., Crawl]) -> Callable[..., Crawl]:
    """Run a crawl to its end."""
    return lambda *given, **arguments: start(*given, **arguments).wait()


@pytest.fixture
def items(start: Callable[..., Crawl], tmp_path: Path) -> Callable[..., list[list[Any]]]:
    """The items of one spider with each of several settings, the crawls all at once:
    ``items(Spider, [settings, ...], argument=...)``; in an order of their own."""

    def items(spider: type[Spider], ways: Sequence[dict[str, Any]], **arguments: Any) -> list[list[Any]]:
        first = len(list(tmp_path.glob("crawl*.log")))
        feeds = [tmp_path / f"items{first + number}.jsonl" for number in range(len(ways))]
        crawls = [
            start(spider, {**way, "FEEDS": {str(feed): {"format": "jsonlines"}}}, **arguments)
            for way, feed in zip(ways, feeds, strict=True)
        ]
        for crawl in crawls:
            assert crawl.wait().reason == "finished", crawl.log
        return [[json.loads(line) for line in sorted(feed.read_text().splitlines())] for feed in feeds]

    return items


@pytest.fixture
def pages(tmp_path: Path) -> Callable[[], dict[str, Page]]:
    """Read the pages of the frontier, by URL."""
    return lambda: read_pages(tmp_path / "frontier")


def read_pages(directory: Path) -> dict[str, Page]:
    store = Store(directory)
    try:
        pages = [decode_page(value) for _, value in store.scan(keys.PAGE)]
    finally:
        store.close()
    return {page.url: page for page in pages}
