"""One shard of a shared crawl, up to four processes and a real PostgreSQL: a crash at every statement.

A copy is a list of numbered batches, as LevelDB keeps them, with its outbox. The model keeps what the
database accepted. Whatever happens: each accepted batch is in the journal once, in order; a copy that lost
the shard writes nothing any more; and each letter arrives once.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from scrapy_frontier.shared.database import Database, Flush
from scrapy_frontier.shared.outbox import compress, decompress, pack_rows

if TYPE_CHECKING:
    from postgres import Server

SHARD, OTHER = 0, 1
names = itertools.count()


@dataclass
class Copy:
    """A LevelDB copy of the shard: its rows, and the number of its last batch. Survives crashes."""

    id: UUID
    rows: dict[bytes, bytes]
    last: int
    outbox: dict[int, Flush] = field(default_factory=dict)

    def write(self, key: bytes, taken: list[int], since: int) -> None:
        self.last += 1
        value = str(self.last).encode()
        self.rows[key] = value
        mail = [(OTHER, value)]
        row = pack_rows({key: value})
        self.outbox[self.last] = Flush(SHARD, self.id, since, self.last, False, "{}", row, mail, taken)


class Answerless(Exception):
    """The process died, or its connection did, after the statement was sent."""


class SharedShard(RuleBasedStateMachine):
    dsn = ""
    copies = Bundle("copies")

    @initialize()
    def create(self) -> None:
        self.crawl = f"crawl {next(names)}"
        self.databases = [Database(self.dsn, self.crawl) for _ in range(4)]
        for database in self.databases:
            database.create({"shards": 2})
        self.processes = [database.join({}) for database in self.databases]
        self.accepted: dict[bytes, bytes] = {}  # the rows that were accepted
        self.sent = 0
        self.current: UUID | None = None  # the copy that may write
        self.letters: set[int] = set()  # posted to the shard, and not taken yet

    def teardown(self) -> None:
        for database in self.databases:
            database.close()

    @rule(target=copies, who=st.integers(0, 3))
    def take_and_load(self, who: int) -> Copy:
        """The fence turns, then the journal is read."""
        database, copy = self.databases[who], uuid4()
        assert database.take(database.shard(SHARD), self.processes[who], copy)
        self.current = copy
        rows: dict[bytes, bytes] = {}
        for _, _, logged in database.journal(SHARD):
            rows.update((key, value) for key, value in decompress(logged) if value is not None)
        assert rows == self.accepted
        return Copy(copy, rows, database.shard(SHARD).sent)

    @rule(copy=copies, key=st.sampled_from([b"a", b"b", b"c"]), takes=st.booleans(), who=st.integers(0, 3))
    def write_batch(self, copy: Copy, key: bytes, takes: bool, who: int) -> None:
        """A batch, which may take in a letter; a copy that lost the shard does not know of it."""
        letters = self.databases[who].mail([SHARD])
        known = {letter for flush in copy.outbox.values() for letter in flush.taken}
        taken = [letter.id for letter in letters if letter.id not in known][:1] if takes else []
        copy.write(key, taken, copy.last)

    @rule(copy=copies, who=st.integers(0, 3), most=st.integers(1, 3), is_answered=st.booleans())
    def flush(self, copy: Copy, who: int, most: int, is_answered: bool) -> None:
        """The oldest batches that were not acknowledged go out; the answer may not come."""
        waiting = [copy.outbox[number] for number in sorted(copy.outbox)][:most]
        if not waiting:
            return
        together = Flush(
            SHARD,
            copy.id,
            waiting[0].since,
            waiting[-1].upto,
            False,
            "{}",
            compress(flush.rows for flush in waiting),
            [letter for flush in waiting for letter in flush.mail],
            [letter for flush in waiting for letter in flush.taken],
        )
        passed = self.databases[who].flush([together]) == {SHARD}
        assert passed == (copy.id == self.current and self.sent == together.since)
        if passed:
            self.sent = together.upto
            for flush in waiting:
                self.accepted.update((k, v) for k, v in decompress(compress([flush.rows])) if v is not None)
                self.letters.difference_update(flush.taken)
        if is_answered:
            self.settle(copy, who)

    def settle(self, copy: Copy, who: int) -> None:
        """What is done when no answer came, too: the row says what was accepted."""
        row = self.databases[who].shard(SHARD)
        if row.copy == copy.id:
            for number in [number for number in copy.outbox if number <= row.sent]:
                del copy.outbox[number]

    @rule(copy=copies, who=st.integers(0, 3))
    def reopen(self, copy: Copy, who: int) -> None:
        """After a crash a copy is used again only if its outbox goes on where the database ends."""
        row = self.databases[who].shard(SHARD)
        numbers = [number for number in sorted(copy.outbox) if number > row.sent]
        goes_on = numbers == list(range(row.sent + 1, copy.last + 1))
        assert (row.copy == copy.id and goes_on) == (copy.id == self.current)
        self.settle(copy, who)

    @rule(copy=copies, who=st.integers(0, 3))
    def compact(self, copy: Copy, who: int) -> None:
        rows = compress([pack_rows(copy.rows)])
        done = self.databases[who].compact(SHARD, copy.id, copy.last, [rows])
        assert done == (copy.id == self.current and self.sent >= copy.last)

    @rule(who=st.integers(0, 3))
    def post(self, who: int) -> None:
        database = self.databases[who]
        database.post([(SHARD, b"add")])
        self.letters = {letter.id for letter in database.mail([SHARD])}

    @rule(copy=consumes(copies))
    def lose_directory(self, copy: Copy) -> None:
        """Nothing is left of it; whatever it had sent stays."""

    @rule(who=st.integers(0, 3))
    def lose_connection(self, who: int) -> None:
        self.databases[who].close()

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "databases"):
            return
        database = self.databases[0]
        logged: dict[bytes, bytes] = {}
        numbers = []
        for number, _, entry in database.journal(SHARD):
            numbers.append(number)
            logged.update((key, value) for key, value in decompress(entry) if value is not None)
        assert logged == self.accepted
        assert numbers == sorted(numbers)
        assert database.shard(SHARD).sent == self.sent
        assert {letter.id for letter in database.mail([SHARD])} == self.letters
        assert len(database.mail([OTHER])) == self.sent


@pytest.mark.parametrize("examples", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_no_accepted_batch_is_lost_and_none_comes_after_the_fence(
    any_server: Server, request: pytest.FixtureRequest, examples: int
) -> None:
    SharedShard.dsn = any_server.new_database(request.node.name)
    machine = SharedShard.TestCase
    machine.settings = settings(max_examples=examples, stateful_step_count=25)
    machine("runTest").runTest()
