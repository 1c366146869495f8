"""The tables of a shared crawl in PostgreSQL, and every statement that reads or changes them.

PostgreSQL serves as a log: the batches of a shard are appended as its LevelDB copy wrote them, and read back
into a new copy. No row of a frontier is translated. A crawl has a fixed number of shards; each has one owner,
a process, and one *copy*, a LevelDB database with a UUID of its own. ``frontier_shard`` names the copy that
may write and the number of the last batch that it sent: the fence that every write is joined to.

All statements use primary keys; only `create`, `join` and `compact` leave a transaction open between two
messages. They keep no state in the session, so that PgBouncer may share connections between transactions.
Every method may raise `psycopg.OperationalError` while the database is away; the next call connects again.
"""

# ruff: noqa: S608 - statements are made of constants, and values are parameters
from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID, uuid4

import psycopg
from psycopg import errors

from ..core.errors import FrontierError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

FORMAT = 1  # of the tables and of the packed batches
# The database is away: to be tried again. A standby that is about to be promoted only reads.
AWAY = psycopg.OperationalError, psycopg.InterfaceError, errors.ReadOnlySqlTransaction

SCHEMA = """
create table frontier_crawl (
  crawl text primary key, about text not null, run int not null default 0,
  seeded bool not null default false, ended bool not null default true);
create table frontier_process (
  id uuid primary key, crawl text not null, beat bigint not null default 0, about text not null);
create table frontier_shard (
  crawl text, n int, owner uuid references frontier_process on delete set null, copy uuid,
  sent bigint not null default 0, idle bool not null default true, totals text not null default '{}',
  primary key (crawl, n)) with (fillfactor = 50);
create table frontier_journal (
  crawl text, n int, upto bigint, part int, rows bytea not null, primary key (crawl, n, upto, part));
alter table frontier_journal alter column rows set storage external;
create table frontier_mail (
  crawl text, to_shard int, id bigint generated always as identity, from_shard int, rows bytea not null,
  unreadable bool not null default false, primary key (crawl, to_shard, id));
"""

FLUSH = """
with sent as (
  select * from unnest(%(n)b::int[], %(copy)b::uuid[], %(since)b::bigint[], %(upto)b::bigint[],
    %(idle)b::bool[], %(totals)b::text[], %(rows)b::bytea[])
  as sent (n, copy, since, upto, idle, totals, rows)),
fenced as (
  update frontier_shard shard set sent = sent.upto, idle = sent.idle, totals = sent.totals from sent
  where shard.crawl = %(crawl)b and shard.n = sent.n and shard.copy = sent.copy and shard.sent = sent.since
  returning shard.n, sent.since, sent.upto, sent.rows),
logged as (
  insert into frontier_journal (crawl, n, upto, part, rows)
  select %(crawl)b, n, upto, 0, rows from fenced where upto > since),
posted as (
  insert into frontier_mail (crawl, to_shard, from_shard, rows)
  select %(crawl)b, mail.to_shard, fenced.n, mail.rows
  from unnest(%(from_shard)b::int[], %(to_shard)b::int[], %(mail)b::bytea[])
  as mail (from_shard, to_shard, rows)
  join fenced on fenced.n = mail.from_shard),
taken as (
  delete from frontier_mail mail using fenced, unnest(%(by)b::int[], %(taken)b::bigint[]) as taken (n, id)
  where mail.crawl = %(crawl)b and mail.to_shard = taken.n and mail.id = taken.id and fenced.n = taken.n)
select n from fenced
"""

OF_CRAWL = "where crawl = %(crawl)b"
OF_SHARD = f"{OF_CRAWL} and n = %(n)b"
SHARDS = f"select n, owner, copy, sent, idle, totals from frontier_shard {OF_CRAWL}"

LOOK = f"""
with alive as (update frontier_process set beat = beat + 1 where id = %(id)b returning crawl),
processes as (select array_agg(id), array_agg(beat) from frontier_process {OF_CRAWL}),
shards as (
  select array_agg(n), array_agg(owner), array_agg(copy), array_agg(sent), array_agg(idle), array_agg(totals)
  from ({SHARDS} order by n) shard)
select run, seeded, ended, processes.*, shards.*
from frontier_crawl join alive using (crawl), processes, shards
"""

END = """
update frontier_crawl crawl set ended = true
where crawl = %(crawl)b and run = %(run)b and seeded and not ended
  and not exists (select from frontier_mail mail where mail.crawl = crawl.crawl and not unreadable)
  and not exists (select from frontier_shard shard where shard.crawl = crawl.crawl and not idle)
"""


class SharedCrawlError(FrontierError):
    """The process cannot take part in the shared crawl; the message says what differs and what to do."""

    reason = "frontier_shared"


class Shard(NamedTuple):
    """The row of a shard: its *owner* (a process), its *copy* and the number of the last batch *sent*.

    *idle*: with the batches sent, nothing is left to fetch in this run. *totals*: counts as JSON.
    """

    n: int
    owner: UUID | None
    copy: UUID | None
    sent: int
    idle: bool
    totals: str


class Look(NamedTuple):
    """The crawl as one look found it: run, seeds, end, the beat of each process, and all shards."""

    run: int
    seeded: bool
    ended: bool
    beats: dict[UUID, int]
    shards: list[Shard]


class Flush(NamedTuple):
    """Batches of one shard, after number *since* up to *upto*, packed into *rows*.

    *mail* is what they send, as shard and bytes; *taken* are the ids of mail that they took in.
    """

    n: int
    copy: UUID
    since: int
    upto: int
    idle: bool
    totals: str
    rows: bytes
    mail: Sequence[tuple[int, bytes]] = ()
    taken: Sequence[int] = ()


COLUMNS = "n", "copy", "since", "upto", "idle", "totals", "rows"  # of `Flush` in `FLUSH`


class Mail(NamedTuple):
    """A letter to a shard."""

    id: int
    to_shard: int
    rows: bytes


class Database:
    """The crawl named *crawl* in the database *dsn*, a libpq URL. For one thread; connects when first used.

    *wait*: seconds after which a connection that no longer answers is given up.
    """

    def __init__(self, dsn: str, crawl: str, wait: int = 10) -> None:
        self.dsn, self.crawl, self._wait = dsn, crawl, wait
        self._connection: psycopg.Connection | None = None

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def asking(self) -> Iterator[Database]:
        """Yield this; the connection is closed when the block ends. Raises `SharedCrawlError` for errors of
        the database in it."""
        try:
            yield self
        except psycopg.Error as error:
            raise SharedCrawlError(
                f"cannot ask the database of the shared crawl ({str(error).strip()}): check FRONTIER_SHARED, "
                "and that the server answers"
            ) from error
        finally:
            self.close()

    def _connect(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self.dsn,
                autocommit=True,
                prepare_threshold=None,
                connect_timeout=self._wait,
                tcp_user_timeout=1000 * self._wait,
                keepalives_idle=self._wait,
                keepalives_interval=self._wait,
                keepalives_count=2,
                client_encoding="utf-8",
            )
        return self._connection

    def _run(self, statement: str, **values: object) -> psycopg.Cursor:
        return self._connect().execute(statement.encode(), {"crawl": self.crawl, **values})

    # -- processes and runs ----------------------------------------------------------------------------

    def create(self, about: Mapping[str, object]) -> None:
        """Make the tables and the crawl, unless they are there. *about*: what all processes agree on, with
        the number of ``shards``.

        Raises `SharedCrawlError` if the crawl was made with another *about*.
        """
        if self._run("select to_regclass('frontier_mail')").fetchone() == (None,):  # the last of them
            # Another process may make them meanwhile.
            with suppress(errors.UniqueViolation, errors.DuplicateTable):
                self._connect().execute(SCHEMA)
        wanted = {"format": FORMAT, **about}
        with self._connect().transaction():
            crawl = "insert into frontier_crawl (crawl, about) values (%(crawl)b, %(about)b) "
            self._run(crawl + "on conflict do nothing", about=json.dumps(wanted))
            shards = "insert into frontier_shard select %(crawl)b, generate_series(0, %(shards)b - 1) "
            self._run(shards + "on conflict do nothing", shards=about["shards"])
            there = self.about()
            differing = sorted(name for name in wanted | there if wanted.get(name) != there.get(name))
            if differing:
                was = ", ".join(f"{name} {there.get(name)!r}, not {wanted.get(name)!r}" for name in differing)
                raise SharedCrawlError(
                    f"the shared crawl {self.crawl!r} was made with {was}: set the same here, or name "
                    "another crawl by FRONTIER_CRAWL"
                )

    def about(self) -> dict[str, object]:
        """What all processes of the crawl agree on; empty if there is no such crawl."""
        with suppress(errors.UndefinedTable):
            row = self._run(f"select about from frontier_crawl {OF_CRAWL}").fetchone()
            return json.loads(row[0]) if row else {}
        return {}

    def join(self, about: Mapping[str, object], again: int | None = None) -> UUID | None:
        """Join the crawl as a new process; returns its id.

        A new run begins if no other process is in the crawl, or its last run has ended; of several that join
        at once the first begins it, and the others wait for that. No shard is idle in it until an owner says
        so: pages may have become due. A process that was in run *again* begins none: it gets None if that is
        over.
        """
        process = uuid4()
        with self._connect().transaction():
            self._run("set local idle_in_transaction_session_timeout = '10s'")
            run, _, ended = self.run_of("for update")
            if again is not None and (ended or run != again):
                return None
            others = self._run(f"select from frontier_process {OF_CRAWL} limit 1")
            if again is None and (ended or not others.rowcount):
                begin = "update frontier_crawl set run = run + 1, seeded = false, ended = false"
                self._run(f"{begin} {OF_CRAWL}")
                self._run(f"update frontier_shard set idle = false {OF_CRAWL}")
            insert = "insert into frontier_process (id, crawl, about) values (%(id)b, %(crawl)b, %(about)b)"
            self._run(insert, id=process, about=json.dumps(dict(about)))
        return process

    def look(self, process: UUID) -> Look | None:
        """Count the beat of *process* up, and read the crawl; None if *process* was declared dead."""
        row = self._run(LOOK, id=process).fetchone()
        if row is None:
            return None
        run, seeded, ended, processes, beats, *columns = row
        shards = [Shard(*values) for values in zip(*columns, strict=True)]
        return Look(run, seeded, ended, dict(zip(processes, beats, strict=True)), shards)

    def processes(self) -> dict[UUID, dict[str, object]]:
        """What each process of the crawl told of itself when it joined."""
        rows = self._run(f"select id, about from frontier_process {OF_CRAWL}")
        return {process: json.loads(about) for process, about in rows}

    def run_of(self, lock: str = "") -> tuple[int, bool, bool]:
        """The number of the crawl's run, whether it is seeded, and whether it has ended."""
        row = self._run(f"select run, seeded, ended from frontier_crawl {OF_CRAWL} {lock}").fetchone()
        if row is None:
            raise SharedCrawlError(f"there is no shared crawl {self.crawl!r}")
        return row[0], row[1], row[2]

    def all_shards(self) -> list[Shard]:
        """The rows of all shards."""
        return [Shard(*row) for row in self._run(f"{SHARDS} order by n")]

    def shard(self, n: int) -> Shard:
        """The row of shard *n*, as it is now."""
        row = self._run(f"{SHARDS} and n = %(n)b", n=n).fetchone()
        assert row is not None
        return Shard(*row)

    def letters_waiting(self) -> dict[int, int]:
        """How many letters wait for each shard that has any."""
        rows = self._run(f"select to_shard, count(*) from frontier_mail {OF_CRAWL} group by to_shard")
        return dict(rows.fetchall())

    def remove(self, process: UUID, beat: int | None = None) -> bool:
        """Remove *process*, which leaves, or whose beat stayed *beat* for a whole lease: its shards are free.
        False if its beat went on."""
        delete = "delete from frontier_process where id = %(id)b and beat = coalesce(%(beat)b::bigint, beat)"
        return bool(self._run(delete, id=process, beat=beat).rowcount)

    def mark_seeded(self, run: int) -> None:
        """Say that all seeds of *run* are in the journal."""
        self._run(f"update frontier_crawl set seeded = true {OF_CRAWL} and run = %(run)b", run=run)

    def end(self, run: int) -> bool:
        """End *run* if it is seeded, no mail waits and every shard is idle; true if it has ended now.

        One statement suffices: a shard stops being idle in the statement that deletes its mail.
        """
        return bool(self._run(END, run=run).rowcount)

    # -- shards ----------------------------------------------------------------------------------------

    def take(self, shard: Shard, process: UUID, copy: UUID) -> bool:
        """Make *process* the owner of a *shard* and *copy* its copy, if its row still is as it was seen.

        From then on no other copy can write; *copy* is loaded only after that.
        """
        take = f"""
            update frontier_shard set owner = %(process)b, copy = %(new)b {OF_SHARD}
            and owner is not distinct from %(owner)b::uuid and copy is not distinct from %(copy)b::uuid
        """
        try:
            return bool(self._run(take, process=process, new=copy, **shard._asdict()).rowcount)
        except errors.ForeignKeyViolation:  # *process* was declared dead meanwhile
            return False

    def hand_over(self, n: int, process: UUID) -> None:
        """Free a shard of *process*, whose batches have all been sent; its copy stays the one that may
        write."""
        free = f"update frontier_shard set owner = null {OF_SHARD} and owner = %(owner)b"
        self._run(free, n=n, owner=process)

    def flush(self, flushes: Sequence[Flush]) -> set[int]:
        """Append batches of several shards to the journal, with their mail: one statement, all or nothing
        for each shard.

        Returns the shards for which it was done. For any other shard, the copy may no longer write, or the
        batches were sent before: the row of the shard tells which. Ask it after an error, too: a statement
        that still runs holds the rows, and the next call waits for it.
        """
        posted = [(flush.n, *letter) for flush in flushes for letter in flush.mail]
        taken = [(flush.n, letter) for flush in flushes for letter in flush.taken]
        rows = self._run(
            FLUSH,
            **{name: [getattr(flush, name) for flush in flushes] for name in COLUMNS},
            from_shard=[n for n, _, _ in posted],
            to_shard=[to_shard for _, to_shard, _ in posted],
            mail=[rows for _, _, rows in posted],
            by=[n for n, _ in taken],
            taken=[letter for _, letter in taken],
        )
        return {n for (n,) in rows}

    def journal(self, n: int, since: int = -1) -> Iterator[tuple[int, int, bytes]]:
        """Yield what shard *n* logged after batch *since*, in order, as of one moment: the number of its last
        batch, which part it is of a journal that was compacted (0: of none), and the rows."""
        cursor = self._connect().cursor()
        yield from cursor.stream(
            b"select upto, part, rows from frontier_journal where crawl = %b and n = %b and upto > %b "
            b"order by upto, part",
            (self.crawl, n, since),
            binary=True,
        )

    def journal_size(self, n: int) -> tuple[int, int]:
        """Bytes of the journal of shard *n*: what it was compacted to, and what came since."""
        sizes = f"select part > 0, sum(length(rows)) from frontier_journal {OF_SHARD} group by part > 0"
        size_of: dict[bool, int] = dict(self._run(sizes, n=n).fetchall())
        return size_of.get(True, 0), size_of.get(False, 0)

    def compact(self, n: int, copy: UUID, upto: int, chunks: Iterable[bytes]) -> bool:
        """Put *chunks*, the rows of *copy* as of batch *upto*, in place of the journal up to that batch.

        One transaction, whose last statement asks the fence; others see the journal before or after it.
        False, and nothing changed, if *copy* may no longer write or has not sent batch *upto*.
        """
        with self._connect().transaction() as transaction:
            self._run("set local idle_in_transaction_session_timeout = '60s'")
            self._run(f"delete from frontier_journal {OF_SHARD} and upto <= %(upto)b", n=n, upto=upto)
            copying = "copy frontier_journal (crawl, n, upto, part, rows) from stdin (format binary)"
            with self._connect().cursor() as cursor, cursor.copy(copying) as lines:
                lines.set_types(["text", "int4", "int8", "int4", "bytea"])
                for part, chunk in enumerate(chunks, 1):
                    lines.write_row((self.crawl, n, upto, part, chunk))
            ask = f"update frontier_shard set idle = idle {OF_SHARD} and copy = %(copy)b and sent >= %(upto)b"
            fence = self._run(ask, n=n, copy=copy, upto=upto)
            if not fence.rowcount:
                raise psycopg.Rollback(transaction)
        return bool(fence.rowcount)

    # -- mail ------------------------------------------------------------------------------------------

    def mail(self, shards: Sequence[int], limit: int = 1000) -> list[Mail]:
        """The oldest letters to *shards*, up to *limit*, in the order in which they were posted."""
        oldest = f"""
            select id, to_shard, rows from frontier_mail {OF_CRAWL} and to_shard = any(%(shards)b::int[])
            and not unreadable order by id limit %(limit)b
        """
        return [Mail(*row) for row in self._run(oldest, shards=list(shards), limit=limit)]

    def post(self, letters: Iterable[tuple[int, bytes]]) -> None:
        """Post letters of a command, as shard and bytes; all or none."""
        posted = list(letters)
        shards, rows = [to_shard for to_shard, _ in posted], [rows for _, rows in posted]
        post = "insert into frontier_mail (crawl, to_shard, rows) select %(crawl)b, * "
        self._run(post + "from unnest(%(shards)b::int[], %(rows)b::bytea[])", shards=shards, rows=rows)

    def set_aside(self, letter: Mail) -> None:
        """Mark a letter that cannot be read: it stays, and no run waits for it."""
        mark = f"update frontier_mail set unreadable = true {OF_CRAWL} and to_shard = %(n)b and id = %(id)b"
        self._run(mark, n=letter.to_shard, id=letter.id)
