"""A process whose connection breaks at a statement that was done, with a real server: nothing is lost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from scrapy_frontier.core.pages.scores import RankRun
from scrapy_frontier.shared.copies import Copies
from scrapy_frontier.shared.database import Database
from scrapy_frontier.shared.process import Process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scrapy_frontier.shared.outbox import Outbox

SHARDS = 2


class Breaking(Database):
    """Breaks its connection once, after a statement that has the text ``breaks_at`` was done."""

    breaks_at = ""
    then: Callable[[], None] = staticmethod(lambda: None)

    def _run(self, statement: str, **values: object) -> Any:
        done = super()._run(statement, **values)
        if self.breaks_at and self.breaks_at in statement:
            self.breaks_at = ""
            self.close()
            self.then()
            raise psycopg.OperationalError("the connection broke")
        return done


class Machine:
    """A process with its directory, and what its crawl would hold."""

    def __init__(self, dsn: str, directory: Path) -> None:
        self.database = Breaking(dsn, "web")
        copies = Copies(directory / "shards", "scheme", SHARDS)
        self.process = Process(self.database, copies, time.monotonic, lease=60.0, patience=30.0)
        self.outboxes: dict[int, Outbox] = {}

    def join(self) -> None:
        self.process.join_crawl({"shards": SHARDS})

    def gain(self) -> None:
        """Work on all shards, as the crawl would."""
        while len(self.outboxes) < SHARDS:
            n, outbox = self.process.gained.get(timeout=15)
            self.outboxes[n] = outbox
            outbox.is_open = True

    def write(self, n: int, value: bytes) -> None:
        """Write a batch of shard *n*."""
        outbox, rows = self.outboxes[n], {b"p" + value: value}
        outbox.add_to(rows)  # type: ignore[arg-type]
        outbox.store.write(rows)  # type: ignore[arg-type]
        outbox.was_written()

    def wait_until_sent(self) -> None:
        until = time.monotonic() + 15
        held = self.process.held
        while any(n not in held or held[n].sent < box.last for n, box in self.outboxes.items()):
            assert self.process.error is None
            assert time.monotonic() < until
            time.sleep(0.05)

    def leave(self) -> None:
        for outbox in self.outboxes.values():
            outbox.is_finished = True
        assert self.process.leave()


@pytest.fixture
def machine(dsn: str, tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(dsn, tmp_path)
    yield machine
    if machine.process.is_alive():
        machine.leave()


@pytest.mark.parametrize("is_first", [True, False], ids=["first-run", "second-run"])
@pytest.mark.parametrize(
    "statement",
    ["set owner = %(process)b, copy", "from frontier_shard where crawl = %(crawl)b and n"],
    ids=["at-its-taking", "behind-it"],
)
def test_a_shard_that_was_taken_without_an_answer_is_worked_on(
    dsn: str, tmp_path: Path, machine: Machine, is_first: bool, statement: str
) -> None:
    if not is_first:
        before = Machine(dsn, tmp_path)
        before.join()
        before.gain()
        before.write(0, b"1")
        before.leave()
    machine.database.breaks_at = statement
    machine.join()
    machine.gain()
    assert machine.database.breaks_at == ""


def test_batches_that_went_out_without_an_answer_are_not_sent_again(machine: Machine) -> None:
    """More may have been written until the next statement."""
    machine.join()
    machine.gain()
    outbox = machine.outboxes[0]
    for number in range(3):
        machine.write(0, b"%d" % number)
    machine.wait_until_sent()
    machine.database.then = lambda: machine.write(0, b"more")
    machine.database.breaks_at = "insert into frontier_journal"
    machine.write(0, b"last")
    machine.wait_until_sent()
    assert machine.database.breaks_at == ""
    assert not outbox.is_lost
    assert outbox.last == 5


def test_a_shard_that_is_lost_before_it_could_be_handed_over_is_closed(dsn: str, machine: Machine) -> None:
    """Else no process on this machine could use its copy."""
    machine.join()
    machine.gain()
    with psycopg.connect(dsn, autocommit=True) as database:
        database.execute("update frontier_shard set copy = gen_random_uuid() where n = 0")
    outbox = machine.outboxes[0]
    machine.write(0, b"1")
    outbox.is_finished = True
    wait_until(lambda: not outbox.store.directory.exists())  # it is removed once it is closed


def test_a_shard_that_is_being_ranked_is_closed_afterwards(machine: Machine) -> None:
    """LevelDB crashes if a database is closed while another thread reads it."""
    machine.join()
    machine.gain()
    ranked, other = machine.outboxes[0], machine.outboxes[1]
    run = RankRun(ranked.store, 0, None)
    for outbox in (ranked, other):
        outbox.is_finished = True
    wait_until(lambda: "closed" in repr(other.store))
    assert list(run.repack(bool)) == []
    run.close()
    wait_until(lambda: "closed" in repr(ranked.store))


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)
