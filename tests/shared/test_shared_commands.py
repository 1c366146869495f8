"""Commands in a shared crawl: they look at copies of its shards while it runs, and steer it by mail."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import test_shared_crawl
from scrapy.exceptions import UsageError
from stores import Frontiers
from test_shared_crawl import HOSTS, PAGES, Processes, all_pages, fetched

from scrapy_frontier.core.store import keys
from scrapy_frontier.core.store.leveldb import Store
from scrapy_frontier.shared.outbox import Outbox, unpack_rows

if TYPE_CHECKING:
    from pathlib import Path

    from server import Web

    from scrapy_frontier.shared.outbox import Packed

web = test_shared_crawl.web  # the fixture


@pytest.fixture
def command(dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Frontiers:
    """``scrapy frontier`` on another machine: in a directory of its own."""
    settings = {"FRONTIER_SHARED": dsn, "FRONTIER_CRAWL": "web", "FRONTIER_DIR": str(tmp_path / "desk")}
    return Frontiers(None, capsys, FRONTIER_CLOCK=None, **settings)


def lines(command: Frontiers, *words: str) -> list[Any]:
    return command(*words, "--json").lines


def host_of(web: Web, number: int) -> str:
    return web.url("/", number).split("/")[2].partition(":")[0]


def hosts_of(web: Web) -> set[str]:
    return {host_of(web, number) for number in range(HOSTS)}


def wait_until_mail_is_taken(dsn: str, seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    with psycopg.connect(dsn, autocommit=True) as database:
        while database.execute("select exists (select from frontier_mail)").fetchone() == (True,):
            assert time.monotonic() < until
            time.sleep(0.2)


def letters_waiting(dsn: str) -> list[int]:
    """Those of commands; ranks that were posted at the end of a run wait for the next."""
    query = "select id from frontier_mail where from_shard is null"
    with psycopg.connect(dsn) as database:
        return [letter for (letter,) in database.execute(query)]


def batches_of(copy: Path) -> list[Packed]:
    store = Store(copy)
    batches = [batch for _, batch in Outbox(store).batches(0, 1 << 30, 1 << 30)]
    store.close()
    return batches


def test_a_running_crawl_is_looked_at_and_steered_from_another_directory(
    dsn: str, web: Web, tmp_path: Path, command: Frontiers
) -> None:
    """`why` knows pages of both processes; a host that is blocked is visited no more, until it is unblocked
    for the next run."""
    crawl = Processes(dsn, web, tmp_path)
    web.limit = 60
    with crawl:
        crawl.start(2)
        web.wait(60)
        owners = {line["owner"] for line in lines(command, "shards")}
        assert len(owners - {None}) == 2, owners
        until = time.monotonic() + 30
        for visit in web.visits[:HOSTS]:  # sent within a second
            while lines(command, "why", web.url(visit.path, visit.host))[0]["state"] != "done":
                assert time.monotonic() < until
        assert "goes on, 2 processes in it" in command("stats").out
        assert {line["host"] for line in lines(command, "queue", "--limit", "5")} <= hosts_of(web)
        assert "Posted: visit" in command("block", host_of(web, 5)).out
        wait_until_mail_is_taken(dsn)
        visits = sum(visit.host == 5 for visit in web.visits)
        web.limit = math.inf
        crawl.wait()
        assert sum(visit.host == 5 for visit in web.visits) == visits
        assert len(fetched(web)) < PAGES
        blocked = [line for line in lines(command, "hosts", "--limit", "0") if line["blocked"]]
        assert [line["host"] for line in blocked] == [host_of(web, 5)]
        command("unblock", host_of(web, 5))
        crawl.start(2)
        crawl.wait()
    assert set(fetched(web)) == all_pages(), crawl.logs()
    assert set(fetched(web).values()) == {1}


def test_commands_cover_all_shards_of_a_crawl_that_ended(
    dsn: str, web: Web, tmp_path: Path, command: Frontiers
) -> None:
    crawl = Processes(dsn, web, tmp_path)
    with crawl:
        crawl.start(2)
        crawl.wait()
    every = {web.url(f"/{number}", number % HOSTS) for number in range(PAGES)}
    assert lines(command, "stats")[0]["states"]["done"] == PAGES
    assert sum(line["ok"] for line in lines(command, "hosts", "--limit", "0")) == PAGES
    found = lines(command, "find", ".")
    assert Counter(line["url"] for line in found) == dict.fromkeys(every, 1)
    assert len({line["id"] for line in found}) == PAGES
    assert lines(command, "top", "--limit", "3")
    assert "Nothing is wrong" in command("check").out
    told = sum(line["totals"].get("states", {}).get("done", 0) for line in lines(command, "shards"))
    assert told == PAGES
    best = lines(command, "top", "--by", "pagerank", "--limit", "0")
    assert {line["url"] for line in best} == every
    linked = lines(command, "links", web.url("/7", 7))
    assert {line["url"] for line in linked if line["direction"] == "out"} >= {
        web.url("/15", 3),
        web.url("/3", 3),
    }
    assert {line["url"] for line in linked if line["direction"] == "in"} >= {web.url("/3", 3)}
    for words in (["report", tmp_path / "report.html"], ["links", "--graph", tmp_path / "graph.graphml"]):
        assert f" {PAGES} pages" in f" {command(*words).out}"
    assert json.loads(command("export", tmp_path / "all.gz", "--json").out)["pages"] == PAGES
    assert command("import", tmp_path / "all.gz", "--dir", tmp_path / "copy").code == 0
    assert "Nothing is wrong" in command("check", "--dir", tmp_path / "copy").out
    for refused in (["check", "--repair"], ["import", tmp_path / "all.gz"], ["stop"]):
        with pytest.raises(UsageError, match="several processes"):
            command(*refused)


def test_orders_that_were_posted_to_no_process_are_obeyed_by_the_next_run(
    dsn: str, web: Web, tmp_path: Path, command: Frontiers
) -> None:
    crawl = Processes(dsn, web, tmp_path, CONSTANTS={"KEPT": 600})  # outboxes are read below
    with crawl:
        crawl.start(2)
        crawl.wait()
        assert "Posted: add 1 page" in command("add", web.url("/new", 3)).out
        requeue = command("requeue", "--state", "done", "--host", host_of(web, 4))
        assert "Posted: queue 20 pages again" in requeue.out
        changing = dict.fromkeys(letters_waiting(dsn), True)
        assert len(changing) == 2
        assert "Posted: forget" in command("forget", web.url("/7", 7)).out
        with psycopg.connect(dsn, autocommit=True) as database:
            letter = "insert into frontier_mail (crawl, to_shard, rows) values ('web', 2, %s)"
            database.execute(letter, [b'["Order", "sing", {}]'])
        crawl.start(2)
        crawl.wait()
        assert command("why", web.url("/7", 7)).code == 1
    batches = [batch for path in tmp_path.glob("frontier/shards/*") for batch in batches_of(path)]
    with_page = {
        letter: any(key[:1] == keys.PAGE for key, _ in unpack_rows(batch.rows))
        for batch in batches
        for letter in batch.taken
    }
    assert {letter: with_page[letter] for letter in changing} == changing
    assert "is set aside: KeyError('sing')" in crawl.logs()
    again = {f"4 /{number}" for number in range(4, PAGES, HOSTS)}
    expected = {page: 1 + (page in again) for page in {*all_pages(), "3 /new"}}
    assert fetched(web) == expected, crawl.logs()
