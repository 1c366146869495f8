"""Crawls of several processes on a real PostgreSQL: what a loopback web saw of them."""

from __future__ import annotations

import json
import os
import pty
import random
import shutil
import signal
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from nursery import nursery
from server import Answer, Web, links

from scrapy_frontier.shared.database import Database, Flush
from scrapy_frontier.shared.letters import PostedLink, pack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nursery import Child
    from postgres import Server

HOSTS, PAGES = 12, 240
SPIDER = Path(__file__).with_name("spider.py")


@pytest.fixture
def web() -> Iterator[Web]:
    """Pages that link one another, over all hosts; all can be reached from the first."""
    web = Web(HOSTS)
    urls = [web.url(f"/{number}", number % HOSTS) for number in range(PAGES)]
    for number in range(PAGES):
        near = urls[2 * number + 1 : 2 * number + 3]
        linked = [*near, urls[number // 2], urls[(7 * number) % PAGES]]
        web.on(f"/{number}", Answer(body=links(*linked)), host=number % HOSTS)
    yield web
    web.close()


class Processes:
    """Processes of one crawl, which share *directory* unless told otherwise."""

    def __init__(self, dsn: str, web: Web, directory: Path, **settings: object) -> None:
        self.web, self.directory = web, directory
        self.settings = {
            "FRONTIER_SHARED": dsn,
            "FRONTIER_SHARDS": 8,
            "FRONTIER_DIR": str(directory / "frontier"),
            "ADDONS": {"scrapy_frontier.Addon": 500},
            "DOWNLOAD_DELAY": 0.05,
            "ROBOTSTXT_OBEY": False,
            "FRONTIER_ALLOW_PRIVATE": True,
            "TELNETCONSOLE_ENABLED": False,
            "FRONTIER_END_WAIT": 0,
            **settings,
        }
        self.running: list[Child] = []

    def start(self, count: int = 1, terminal: int | None = None, **settings: object) -> None:
        for _ in range(count):
            number = len(list(self.directory.glob("*.stats"))) + len(self.running)
            log = self.directory / f"{number}-{time.monotonic_ns()}.log"
            arguments = [
                str(SPIDER),
                json.dumps({**self.settings, **settings}),
                json.dumps([self.web.url("/0")]),
                str(log.with_suffix(".stats")),
            ]
            with open(log, "wb") as file:
                stderr = file.fileno() if terminal is None else terminal
                child = nursery.start(
                    arguments, {**os.environ, "TERM": "xterm"}, self.directory, stderr=stderr
                )
            self.running.append(child)

    def kill(self, index: int) -> None:
        process = self.running.pop(index)
        process.kill()
        process.wait()

    def wait(self, seconds: float = 120.0) -> None:
        until = time.monotonic() + seconds
        for process in self.running:
            assert process.wait(max(until - time.monotonic(), 1)) == 0, self.logs()
        self.running.clear()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        for process in self.running:
            process.kill()
            process.wait()

    def logs(self) -> str:
        return "\n".join(f"--- {log}\n{log.read_text()}" for log in sorted(self.directory.glob("*.log")))


def fetched(web: Web) -> Counter[str]:
    return Counter(f"{visit.host} {visit.path}" for visit in web.visits)


def all_pages() -> set[str]:
    return {f"{number % HOSTS} /{number}" for number in range(PAGES)}


@pytest.mark.parametrize("count", [1, 3])
def test_processes_fetch_every_page_once(dsn: str, web: Web, tmp_path: Path, count: int) -> None:
    """On a terminal, which shows how the crawl goes on; without a time limit for requests."""
    crawl = Processes(dsn, web, tmp_path, LOG_FILE=str(tmp_path / "all.log"), DOWNLOAD_TIMEOUT=0)
    ours, terminal = pty.openpty()
    with crawl:
        crawl.start(count, terminal)
        crawl.wait()
    assert b"queued" in os.read(ours, 1 << 16)
    os.close(ours)
    os.close(terminal)
    pages = fetched(web)
    assert set(pages) == all_pages(), crawl.logs()
    assert set(pages.values()) == {1}
    shares = [
        json.loads(file.read_text()).get("response_received_count", 0) for file in tmp_path.glob("*.stats")
    ]
    assert sum(shares) == PAGES
    assert "ERROR" not in crawl.logs()


def test_killed_processes_lose_nothing(dsn: str, web: Web, tmp_path: Path) -> None:
    """Processes are killed at random and others started, in one directory. Only what was under way is fetched
    again."""
    rng = random.Random(1)
    crawl = Processes(dsn, web, tmp_path)
    at_risk = 0
    with crawl:
        crawl.start(3)
        for kill in range(6):
            web.wait(25 * (kill + 1))
            crawl.kill(rng.randrange(len(crawl.running)))
            at_risk += 16
            crawl.start()
        crawl.wait()
    pages = fetched(web)
    assert set(pages) == all_pages(), crawl.logs()
    assert sum(pages.values()) - PAGES <= at_risk
    assert max(web.visits, key=lambda visit: visit.under_way).under_way <= 8


def test_lost_machines_lose_a_second(dsn: str, web: Web, tmp_path: Path) -> None:
    """Each process has a directory of its own, which is removed when it is killed: others take its shards
    after the lease, from the journal."""
    crawl = Processes(dsn, web, tmp_path, DOWNLOAD_TIMEOUT=5, FRONTIER_PATIENCE=4)
    with crawl:
        for number in range(3):
            crawl.start(FRONTIER_DIR=str(tmp_path / f"machine{number}"))
        for number in range(2):
            web.wait(60 * (number + 1))
            crawl.kill(0)
            shutil.rmtree(tmp_path / f"machine{number}", ignore_errors=True)  # a load may still write there
            crawl.start(FRONTIER_DIR=str(tmp_path / f"machine{number + 3}"))
        crawl.wait()
    pages = fetched(web)
    assert set(pages) == all_pages(), crawl.logs()
    again = sum(pages.values()) - PAGES
    assert again <= 2 * (16 + 8 * 20 * 2)  # under way, and at most 20 a second of each host meanwhile
    assert "is dead" in crawl.logs()


def test_the_database_may_be_killed(server: Server, dsn: str, web: Web, tmp_path: Path) -> None:
    """Pages go on while it is away; when it is back all that was fetched is in it."""
    crawl = Processes(dsn, web, tmp_path)
    with crawl:
        crawl.start(2)
        web.wait(60)
        server.kill()
        web.wait(70)
        server.start()
        crawl.wait()
    pages = fetched(web)
    assert set(pages) == all_pages(), crawl.logs()
    assert set(pages.values()) == {1}
    assert "away" in crawl.logs()


def test_a_second_run_fetches_nothing_and_a_process_that_differs_is_refused(
    dsn: str, web: Web, tmp_path: Path
) -> None:
    crawl = Processes(dsn, web, tmp_path)
    with crawl:
        crawl.start()
        crawl.wait()
        visits = len(web.visits)
        link = PostedLink("http://a.example", 0, '{"callback":"gone"}', "", 1.0, None, False, False)
        with Database(dsn, "web").asking() as database:
            database.post([(3, b"x"), (4, pack(link))])  # letters that cannot be read
        crawl.start(2)
        crawl.wait()
        assert len(web.visits) == visits, crawl.logs()
        crawl.start(FRONTIER_SHARDS=4)
        crawl.wait()
    assert "was made with shards 8, not 4" in crawl.logs()
    assert "to shard 3 cannot be read" in crawl.logs()
    assert "to shard 4 cannot be read, and is set aside: Unreadable" in crawl.logs()
    assert len(web.visits) == visits


def test_a_role_that_may_create_no_tables_takes_part_once_they_are_there(dsn: str) -> None:
    made = Database(dsn, "web")
    made.create({"shards": 2})
    made.close()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("drop role if exists worker")
        connection.execute("create role worker login")
        connection.execute("grant select, insert, update, delete on all tables in schema public to worker")
    database = Database(dsn.replace("crawler@", "worker@"), "web")
    database.create({"shards": 2})
    process, copy = database.join({}), uuid4()
    assert database.take(database.all_shards()[0], process, copy)
    sent = Flush(0, copy, 0, 1, True, "{}", b"rows", mail=[(1, b"letter")])
    assert database.flush([sent]) == {0}
    database.remove(process)
    database.close()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("drop owned by worker; drop role worker")


def test_no_shard_is_idle_in_a_run_that_begins(dsn: str) -> None:
    """Pages may have become due: the run does not end before an owner of each shard has looked."""
    database = Database(dsn, "web")
    database.create({"shards": 2})
    for run in (1, 2):
        process = database.join({})
        database.mark_seeded(run)
        assert not database.end(run)
        for shard in database.all_shards():
            copy = shard.copy or uuid4()
            assert database.take(shard, process, copy)
            assert database.flush([Flush(shard.n, copy, 0, 0, True, "{}", b"")]) == {shard.n}
        assert database.end(run)
        database.remove(process)
    database.close()


def test_a_process_that_missed_the_end_of_its_run_ends(dsn: str, web: Web, tmp_path: Path) -> None:
    """It stood still until others had begun the next run."""
    crawl = Processes(dsn, web, tmp_path)
    with crawl:
        crawl.start(2)
        web.wait(PAGES)
        stopped = crawl.running.pop()
        stopped.send_signal(signal.SIGSTOP)
        with psycopg.connect(dsn, autocommit=True) as database:
            database.execute("update frontier_crawl set ended = true")
        crawl.wait()
        crawl.start()
        time.sleep(3)  # it has joined
        crawl.running.append(stopped)
        stopped.send_signal(signal.SIGCONT)
        crawl.wait(40)
    assert Counter(fetched(web).values()) == {1: PAGES}, crawl.logs()


def test_the_command_shows_shards_and_a_copy_of_a_stopped_process(dsn: str, web: Web, tmp_path: Path) -> None:
    crawl = Processes(dsn, web, tmp_path)
    with crawl:
        crawl.start()
        crawl.wait()
    settings = ["-s", f"FRONTIER_SHARED={dsn}", "-s", "FRONTIER_CRAWL=web"]
    settings += ["-s", f"FRONTIER_DIR={tmp_path / 'frontier'}"]

    def said(*words: str) -> list[Any]:
        command = ["-m", "scrapy", "frontier", *settings, *words, "--json"]
        done = nursery.run(command, dict(os.environ), tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    shards = said("shards")
    assert [shard["shard"] for shard in shards] == list(range(8))
    assert all(shard["owner"] is None and not shard["mail"] for shard in shards)
    total = 0
    for shard in shards:
        copy = tmp_path / "frontier/shards" / f"{shard['shard']}-{shard['copy']}"
        said("check", "--dir", str(copy))
        total += said("stats", "--dir", str(copy))[0]["states"]["done"]
    assert total == PAGES
    assert said("stats")[0]["states"]["done"] == PAGES
