"""What goes wrong around a shared crawl: processes that stand still, a database that is set back, connections
that break, kills in the middle of loading and compacting, and settings that do not go together with it."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from postgres import Server
from server import PATIENCE, Web
from test_shared_crawl import PAGES, Processes, all_pages, fetched, web

from scrapy_frontier.crawl.shared import is_on_network

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["web"]  # a fixture


def wait_until(is_so: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


# -- a process that stands still -----------------------------------------------------------------------------


@pytest.fixture
def slow_web() -> Iterator[Web]:
    """A page to stop at, and a long chain of others that keeps the run going."""
    web = Web(3)
    chain = [web.url(f"/{number}", 1) for number in range(1, 81)]
    web.link("/0", chain[0], web.url("/stop", 2))
    for number, after in enumerate(chain[1:], 1):
        web.link(f"/{number}", after, host=1, delay=0.3)
    yield web
    web.close()


@pytest.mark.parametrize("where", ["before-its-handler", "before-its-connection"])
def test_a_process_that_wakes_after_its_lease_sends_nothing_of_before(
    dsn: str, slow_web: Web, tmp_path: Path, where: str
) -> None:
    """It is stopped when a request was handed out, or given to its handler, and wakes when another process
    has its shards. It joins again before it goes on with that request: which does not leave."""
    crawl = Processes(dsn, slow_web, tmp_path, DOWNLOAD_TIMEOUT=3, FRONTIER_PATIENCE=2)
    stops = (
        {"DOWNLOADER_MIDDLEWARES": {"__main__.StopsBeforeHandler": 990}}
        if where == "before-its-handler"
        else {"DOWNLOAD_HANDLERS": {"http": "__main__.StopsInHandler"}}
    )
    with crawl:
        crawl.start(USER_AGENT="stopped", FRONTIER_DIR=str(tmp_path / "a"), **stops)
        status = Path(f"/proc/{crawl.running[0].pid}/stat")
        wait_until(lambda: status.read_text().rpartition(")")[2].split()[0] == "T")
        crawl.start(USER_AGENT="other", FRONTIER_DIR=str(tmp_path / "b"))
        wait_until(lambda: "/stop" in slow_web.paths())
        woken_at, before = time.monotonic(), set(slow_web.paths())
        crawl.running[0].send_signal(signal.SIGCONT)
        crawl.wait()
    assert "it joins again" in crawl.logs()
    sent = [visit for visit in slow_web.visits if visit.headers["user-agent"] == "stopped"]
    assert before.isdisjoint(visit.path for visit in sent if visit.begin > woken_at), crawl.logs()
    assert Counter(slow_web.paths())["/stop"] == 1
    assert len(set(slow_web.paths())) == 82
    assert "Traceback" not in crawl.logs()
    assert max(visit.under_way for visit in slow_web.visits) == 1


def test_no_request_lasts_longer_than_a_lease_takes_into_account(
    dsn: str, slow_web: Web, tmp_path: Path
) -> None:
    slow_web.link("/0", slow_web.url("/stop", 2), delay=300)
    for number, asked in enumerate((100, 0)):
        directory = tmp_path / str(number)
        directory.mkdir()
        settings = {"DOWNLOAD_TIMEOUT": 1, "RETRY_ENABLED": False, "FRONTIER_CRAWL": str(number)}
        crawl = Processes(dsn, slow_web, directory, META={"download_timeout": asked}, **settings)
        with crawl:
            crawl.start()
            crawl.wait(100)
        assert "DownloadTimeoutError" in crawl.logs()


# -- a database that is set back, and connections that break -------------------------------------------------


@pytest.mark.parametrize("kept", [60, 0], ids=["less-than-a-minute", "more-than-outboxes-keep"])
def test_the_database_is_set_back_under_live_processes(web: Web, tmp_path: Path, kept: int) -> None:
    """What is missing is sent again while outboxes have it: each page is fetched once. Else copies are loaded
    anew, and what ended since is fetched again."""
    server = Server()
    try:
        crawl = Processes(server.new_database("web"), web, tmp_path, CONSTANTS={"KEPT": kept})
        data, older = server.directory / "data", server.directory / "older"
        with crawl:
            crawl.start(2)
            web.wait(60)
            server.kill()
            subprocess.run(["cp", "-a", data, older], check=True)
            server.start()
            web.limit = 150
            web.wait(151)
            time.sleep(3)  # what was fetched is sent, and dropped
            server.kill()
            shutil.rmtree(data)
            older.rename(data)
            server.start()
            web.limit = float("inf")
            crawl.wait()
    finally:
        server.stop()
    pages = fetched(web)
    assert set(pages) == all_pages(), crawl.logs()
    assert "was set back" in crawl.logs() or not kept
    assert (set(pages.values()) == {1}) == bool(kept), crawl.logs()
    assert max(pages.values()) <= 2
    assert "Traceback" not in crawl.logs()


class Proxy:
    """Between processes and their database. Once it ``is_bad`` it delays one answer of five, and swallows one
    of twenty: then it closes the connection."""

    def __init__(self, port: int) -> None:
        self.is_bad, self.swallowed = False, 0
        self._port, self._rng = port, random.Random(1)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        listening = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(PATIENCE)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_connection("127.0.0.1", self._port)
        asking = asyncio.create_task(self._pass_on(reader, to_there, is_answer=False))
        await self._pass_on(there, writer, is_answer=True)
        await asking

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_answer: bool
    ) -> None:
        while data := await reader.read(1 << 16):
            luck = self._rng.random() if self.is_bad and is_answer else 1.0
            if luck < 0.05:
                self.swallowed += 1
                break
            if luck < 0.25:
                await asyncio.sleep(self._rng.random())
            writer.write(data)
        writer.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)


def test_answers_of_the_database_are_swallowed(server: Server, dsn: str, web: Web, tmp_path: Path) -> None:
    """Whether what was asked for was done is found out each time: every page is fetched once."""
    proxy = Proxy(server.port)
    crawl = Processes(dsn.replace(str(server.port), str(proxy.port)), web, tmp_path, DOWNLOAD_DELAY=0.5)
    with crawl:
        crawl.start(3)
        web.wait(20)
        proxy.is_bad = True
        web.wait(PAGES - 20)
        wait_until(lambda: proxy.swallowed > 10)
        proxy.is_bad = False
        crawl.wait()
    proxy.close()
    pages = fetched(web)
    assert set(pages) == all_pages(), crawl.logs()
    assert set(pages.values()) == {1}, crawl.logs()
    assert "Traceback" not in crawl.logs()


# -- kills ---------------------------------------------------------------------------------------------------


def test_killed_while_loading(dsn: str, web: Web, tmp_path: Path) -> None:
    """One is killed as soon as it loads a shard, then its loading too; the next one in its directory loads
    anew."""
    crawl = Processes(dsn, web, tmp_path, DOWNLOAD_TIMEOUT=3, FRONTIER_PATIENCE=2)
    second = tmp_path / "second"
    with crawl:
        crawl.start(FRONTIER_DIR=str(tmp_path / "first"))
        web.wait(80)
        crawl.kill(0)
        shutil.rmtree(tmp_path / "first")
        crawl.start(FRONTIER_DIR=str(second))
        wait_until(lambda: list(second.glob("shards/*.new")))
        crawl.kill(0)
        crawl.start(FRONTIER_DIR=str(second))
        crawl.wait()
    pages = fetched(web)
    assert set(pages) == all_pages(), crawl.logs()
    assert sum(pages.values()) - PAGES <= 80
    assert not list(second.glob("shards/*.new"))
    assert "Traceback" not in crawl.logs()


def test_killed_while_compacting(dsn: str, web: Web, tmp_path: Path) -> None:
    """Journals are compacted all the time; one process after the other is killed, its directory removed."""
    constants = {"LEAST_JOURNAL": 1}
    settings = {"DOWNLOAD_TIMEOUT": 3, "FRONTIER_PATIENCE": 2, "CONSTANTS": constants}
    crawl = Processes(dsn, web, tmp_path, **settings)
    with crawl:
        for number in range(5):
            crawl.start(FRONTIER_DIR=str(tmp_path / str(number)))
            if number > 1:
                web.wait(40 * number)
                crawl.kill(0)
                shutil.rmtree(tmp_path / str(number - 2))
        crawl.wait()
    pages = fetched(web)
    assert set(pages) == all_pages(), crawl.logs()
    assert "Traceback" not in crawl.logs()


# -- what does not go together -------------------------------------------------------------------------------

REFUSED = [
    ({"FRONTIER_POLITENESS_KEY": "ip"}, "FRONTIER_POLITENESS_KEY = 'ip'"),
    ({"FRONTIER_POLITENESS_KEY": "posixpath.basename"}, ": set 'host' or 'domain', or unset FRONTIER_SHARED"),
    ({"FRONTIER_CLOCK": "time.time"}, "FRONTIER_CLOCK is for simulations: unset it"),
    ({"DUPEFILTER_CLASS": "__main__.OwnFilter"}, "knows only the requests of its own process: unset it"),
    ({"ADDONS": {}, "SCHEDULER": "scrapy_frontier.FrontierScheduler"}, "A shared crawl needs the add-on"),
    ({"FRONTIER_DIR": None}, "FRONTIER_SHARED needs a directory"),
]


def test_what_does_not_go_together_is_refused_in_a_line(dsn: str, web: Web, tmp_path: Path) -> None:
    crawl = Processes(dsn, web, tmp_path)
    with crawl:
        for settings, _ in REFUSED:
            crawl.start(**settings)
        crawl.wait()
    logs = [log.read_text() for log in tmp_path.glob("*.log")]
    for _, words in REFUSED:
        assert sum("ERROR" in line and words in line for log in logs for line in log.splitlines()) >= 1, words
    assert not web.visits
    assert "Traceback" not in crawl.logs()


@pytest.mark.parametrize(("kind", "is_refused"), [("nfs4", True), ("cifs", True), ("ext4", False)])
def test_a_directory_on_a_network_is_known_by_its_mount(tmp_path: Path, kind: str, is_refused: bool) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"/dev/sda / ext4 rw 0 0\nserver:/x {tmp_path} {kind} rw 0 0\nother:/y /mnt nfs rw 0 0\n"
    )
    assert is_on_network(tmp_path / "not there yet" / "crawl", mounts) == is_refused
    assert not is_on_network(Path("/etc"), mounts)
    assert not is_on_network(tmp_path, tmp_path / "no such list")
