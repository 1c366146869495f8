"""A process of a shared crawl: the thread that speaks with the database, and decides which shards it owns.

Every second the thread reads the state of the crawl, takes or hands over shards, sends what their outboxes
have, and fetches mail. The crawl's own thread has the frontiers, and asks `Process` what has changed. Only
the thread here closes a store, because it may be reading it.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import psycopg

from ..core.errors import FrontierError, FrontierLocked, FrontierUnreadable
from ..core.hosts.host import FOREVER
from ..core.store.keys import LAST_BATCH, OUTBOX
from .copies import AGAIN
from .database import AWAY, Database, Flush, Look, Mail, Shard
from .outbox import Outbox, compress, pack_rows
from .ownership import Ownership

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from ..core.store.leveldb import Store
    from .copies import Copies

logger = logging.getLogger(__name__)

EVERY = 1.0  # seconds between two looks
STEP = 0.2  # seconds between two looks at how many batches wait
BATCHES, BYTES = 400, 8 << 20  # most of one statement
PAGES = 100  # batches that wait, until they are sent before the second is over
KEPT = 60.0  # seconds that acknowledged batches stay in the outbox at least: a replica may be behind
LEAST_JOURNAL = 32 << 20  # bytes that came since a journal was compacted, until it is compacted again
CHUNK = 1 << 18  # bytes of rows in one entry of a compacted journal
LAST_FLUSH = 10.0  # seconds that a crawl that ends waits for the database


@dataclass
class Held:
    """A shard of this process: its copy, and how far the database has it."""

    copy: UUID
    outbox: Outbox
    sent: int
    compacted: int  # bytes of its journal: what that was compacted to,
    since: int  # and what came since
    given: set[int] = field(default_factory=set)  # letters that the crawl has
    repeats: int = 0  # batches up to this one may name letters of before the database was set back
    droppable: int = 0  # batches up to this one were sent when batches were dropped last


class Process(threading.Thread):
    """Takes part in the crawl of *database*; *boot_time* reads seconds that go on during a suspend.

    *lease* and *patience* are seconds. ``gained`` has shards for the crawl, ``letters`` mail that came; the
    crawl puts those that it cannot read into ``unreadable``. ``handing_over`` are shards that others are to
    have. ``seeds_in``, set by the crawl: as of these batches, by shard, all seeds are known, or posted. The
    rest the two threads tell each other on the `Outbox` of a shard. ``error`` is what ended the thread.
    """

    def __init__(
        self,
        database: Database,
        copies: Copies,
        boot_time: Callable[[], float],
        lease: float,
        patience: float,
    ) -> None:
        super().__init__(name="frontier-shared", daemon=True)
        self._database, self._copies = database, copies
        self._boot_time, self._lease, self._patience = boot_time, lease, patience
        self.gained: SimpleQueue[tuple[int, Outbox]] = SimpleQueue()
        self.letters: SimpleQueue[Mail] = SimpleQueue()
        self.unreadable: SimpleQueue[Mail] = SimpleQueue()
        self.handing_over: set[int] = set()
        self.held: dict[int, Held] = {}
        self.look: Look  # the last one, from when the crawl was joined
        self.error: Exception | None = None
        self._is_away = False  # the database does not answer
        self._loading: dict[int, tuple[subprocess.Popen[bytes], UUID]] = {}
        self._lost: list[Outbox] = []  # the crawl may still write them
        self._closed: set[Path] = set()  # copies of lost shards, until the database names others
        self.seeds_in: dict[int, int] | None = None
        self._dropped_at = time.monotonic()
        self._leave_by, self._is_leaving = FOREVER, False

    # -- for the crawl's thread ------------------------------------------------------------------------

    def is_in_time(self) -> bool:
        """Whether the database was heard of lately, so that requests may be handed out."""
        return self._boot_time() <= self._ownership.deadline

    def join_crawl(self, about: Mapping[str, object]) -> None:
        """Join the crawl, made with *about* if it is new, and start the thread. Raises `SharedCrawlError`."""
        with self._database.asking() as database:
            database.create(about)
            others = database.processes().values()
            self._join()
            look = database.look(self.id)
        assert look is not None  # it has just joined
        self.look = look
        self._copies.remove_others(look.shards)
        where = ", ".join(f"{each.get('pid')} on {each.get('machine')}" for each in others)
        words = "Joined the shared crawl %r, run %d, of %d shards; other processes: %s"
        logger.info(words, self._database.crawl, look.run, len(look.shards), where or "none")
        self.start()

    def leave(self) -> bool:
        """Send what waits, hand over all shards, and end the thread; returns whether all was sent in time.
        Call it when the crawl writes no shard any more."""
        self._leave_by, self._is_leaving = time.monotonic() + LAST_FLUSH, True
        self.join(2 * LAST_FLUSH)
        if self.is_alive():  # it waits for an answer: the copies are closed with the process
            return False
        for outbox in [*self._lost, *(held.outbox for held in self.held.values())]:
            outbox.store.close()
        return not self.held

    # -- the thread ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Look and send once a second, and send when many batches wait; at the end, until all is sent."""
        looked_at = 0.0
        while time.monotonic() < self._leave_by and (self.held or not self._is_leaving):
            try:
                self._send()  # before the look: it may find that the crawl ends with this
                if time.monotonic() - looked_at >= EVERY:
                    looked_at = time.monotonic()
                    self._look()
                if self._is_away:
                    logger.info("The database of the shared crawl answers again")
                self._is_away = False
            except AWAY as error:
                self._database.close()
                if not self._is_away:
                    words = "The database of the shared crawl is away (%s): pages go on for %d s"
                    logger.error(words, str(error).strip(), self._patience)
                self._is_away = True
                looked_at = time.monotonic()
            except Exception as error:  # a thread that died without a word would leave the crawl hanging
                self.error = error
                return
            self._close_lost()
            self._wait(looked_at + EVERY)
        self._end()

    def _close_lost(self) -> None:
        for outbox in [outbox for outbox in self._lost if outbox.may_be_closed]:
            outbox.store.close()
            self._lost.remove(outbox)
            self._closed.add(outbox.store.directory)

    def _wait(self, until: float) -> None:
        """Wait until the next look, or until enough batches wait, or all that do are to be sent."""
        while time.monotonic() < until:
            time.sleep(STEP)
            waiting = [held.outbox.last - held.sent for held in self.held.values()]
            if not self._is_away and (self._is_leaving or max(waiting, default=0) >= PAGES):
                return

    def _join(self, again: int | None = None) -> None:
        joined_at = self._boot_time()
        process = self._database.join({"machine": socket.gethostname(), "pid": os.getpid()}, again)
        if process is None:
            self.look = self.look._replace(ended=True)
            return
        self.id = process
        self._ownership = Ownership(process, joined_at, self._lease, self._patience)

    def _look(self) -> None:
        asked_at = self._boot_time()
        look = self._database.look(self.id)
        if look is None:
            self._was_declared_dead()
            return
        self.look = look
        self._fetch_mail()  # before shards are taken: the database has to know first which letters they have
        self._own(look, asked_at)
        if self.seeds_in is not None and not look.seeded and self._are_sent(self.seeds_in):
            self._database.mark_seeded(look.run)
        if look.seeded and not look.ended and all(shard.idle for shard in look.shards):
            has_ended = self._database.end(look.run)
            self.look = look._replace(ended=has_ended)
        self._maintain()

    def _are_sent(self, batches: dict[int, int]) -> bool:
        """Whether the database has the shards up to these batches; what was handed over was sent before."""
        return all(n not in self.held or self.held[n].sent >= upto for n, upto in batches.items())

    def _was_declared_dead(self) -> None:
        for n in [*self.held, *self._loading]:
            self._lose(n)
        if not self.look.ended:
            words = "Other processes took this one for dead, and may have its hosts: it joins again"
            logger.warning(words)
            self._join(self.look.run)

    # -- shards that come and go

    def _own(self, look: Look, asked_at: float) -> None:
        """Do what follows from a *look* that was asked for at *asked_at*: remove dead processes, let lost
        shards go, hand over and take others."""
        named = {self._copies.path(shard.n, shard.copy) for shard in look.shards if shard.copy is not None}
        for path in self._closed - named:
            shutil.rmtree(path, ignore_errors=True)
            self._closed.discard(path)
        mine = {*self.held, *self._loading}
        others = [(shard.n, shard.copy) for shard in look.shards if shard.copy and shard.n not in mine]
        at_hand = {copy for n, copy in others if self._copies.is_free(n, copy)}
        decisions = self._ownership.decide(look, asked_at, mine, at_hand)
        for process, beat in decisions.bury:
            if self._database.remove(process, beat):
                logger.info("Process %s of the shared crawl is dead: its hosts are free", process)
        for n in decisions.lost:
            self._lose(n)
        for n, held in list(self.held.items()):
            if look.shards[n].sent < held.sent:
                self._agree(look.shards[n], held)
        self.handing_over = set(decisions.hand_over)
        self._finish_loads()
        for shard in decisions.take:
            if not self._is_leaving and shard.n not in self._loading and shard.n not in self.held:
                self._take(shard)

    def _take(self, shard: Shard) -> None:
        """Take a shard, with its copy if that is here and has all that the database has; else load it."""
        n, copy, new = shard.n, shard.copy, uuid4()
        if copy is not None and self._copies.path(n, copy).is_dir() and self._gain(n, copy):
            return
        if not self._database.take(shard, self.id, new):
            return
        if copy is None:  # there is no journal yet
            self._gain(n, new)
        else:
            self._loading[n] = self._copies.load(self._database, n, new), new

    def _gain(self, n: int, copy: UUID, was_of_another: bool = False) -> bool:
        """Open a copy that is here, and work on shard *n* if the database still names that copy. False if the
        copy is of no use: it was removed, and the shard has to be loaded."""
        with ExitStack() as undo:
            try:
                store = self._copies.open(n, copy)
                undo.callback(store.close)  # else this process itself would keep it from being taken again
                outbox, row = Outbox(store), self._database.shard(n)
                if not outbox.follows(row.sent):
                    raise FrontierUnreadable("its outbox does not go on where the database ends")
            except FrontierLocked:  # another process was faster
                return True
            except FrontierError as error:
                logger.warning("Cannot use a copy of shard %d (%s): it is loaded anew", n, error)
                self._copies.remove(n, copy)
                return False
            if row.copy != copy or not self._database.take(row, self.id, copy):
                return True
            held = Held(copy, outbox, row.sent, *self._database.journal_size(n))
            undo.pop_all()
        if store.directory in self._closed:  # this process lost it: perhaps the database was set back
            self._closed.discard(store.directory)
            held.repeats = outbox.last
        outbox.totals, outbox.was_of_another = row.totals, was_of_another
        self.held[n] = held
        self.gained.put((n, outbox))
        return True

    def _finish_loads(self) -> None:
        for n, (process, copy) in list(self._loading.items()):
            code = process.poll()
            if code is None:
                continue
            del self._loading[n]
            with process:
                said = process.stderr.read().decode(errors="replace").strip() if process.stderr else ""
            if not code:
                self._gain(n, copy, was_of_another=True)
            elif code != AGAIN and self._database.shard(n).copy == copy:
                raise FrontierUnreadable(f"shard {n} of the shared crawl cannot be loaded: {said}")

    def _lose(self, n: int) -> None:
        """Let go of shard *n*, which another process has; what was not sent of it is dropped."""
        if n in self._loading:
            with self._loading.pop(n)[0] as process:
                process.kill()
            return
        outbox = self.held.pop(n).outbox
        logger.warning("Another process has shard %d now: what was not sent of it is fetched again", n)
        outbox.is_lost = True
        self._lost.append(outbox)

    # -- batches out, mail in

    def _send(self) -> None:
        """Send what the outboxes have now, in statements of a limited size; hand over what is finished."""
        last = {n: held.outbox.last for n, held in self.held.items()}
        while flushes := list(self._flushes()):
            passed = self._database.flush(flushes)
            for flush in flushes:
                held = self.held[flush.n]
                if flush.n in passed:
                    held.sent = flush.upto
                    held.since += len(flush.rows)
                    held.given.difference_update(flush.taken)
                else:
                    self._agree(self._database.shard(flush.n), held)
            is_done = all(held.sent >= last[n] for n, held in self.held.items())
            if is_done or time.monotonic() > self._leave_by:
                break
        for n, held in list(self.held.items()):
            outbox = held.outbox
            may_be_closed = outbox.may_be_closed or (self._is_leaving and not outbox.is_open)
            if may_be_closed and held.sent >= outbox.last:
                del self.held[n]
                outbox.store.close()
                self._database.hand_over(n, self.id)

    def _agree(self, row: Shard, held: Held) -> None:
        """Go on from the batch where the database is: an answer of its did not come, or it was set back to an
        older state. The shard is lost if the outbox does not go on from there."""
        if row.copy != held.copy or not held.outbox.follows(row.sent):
            self._lose(row.n)
            return
        if row.sent < held.sent:
            logger.warning("The database was set back: shard %d is sent again from batch %d", row.n, row.sent)
            # Letters may have got the numbers of others, which these batches took in.
            held.repeats = held.outbox.last
            held.given.clear()
            held.droppable = 0
        held.sent = row.sent

    def _flushes(self) -> Iterator[Flush]:
        most, size = max(BATCHES // max(len(self.held), 1), 1), BYTES // max(len(self.held), 1)
        for n, held in self.held.items():
            batches = held.outbox.batches(held.sent, most, size)
            upto = batches[-1][0] if batches else held.sent
            is_idle = held.outbox.idle_as_of == upto
            if not batches and is_idle == self.look.shards[n].idle:
                continue
            packed = [each for _, each in batches]
            yield Flush(
                n,
                held.copy,
                held.sent,
                upto,
                is_idle,
                held.outbox.totals,
                compress(each.rows for each in packed) if packed else b"",
                [letter for each in packed for letter in each.mail],
                [letter for number, each in batches if number > held.repeats for letter in each.taken],
            )

    def _fetch_mail(self) -> None:
        while not self.unreadable.empty():
            self._database.set_aside(self.unreadable.get())
        working = [n for n, held in self.held.items() if held.outbox.is_open and not held.outbox.is_finished]
        for letter in self._database.mail(working) if working else ():
            given = self.held[letter.to_shard].given
            if letter.id not in given:
                given.add(letter.id)
                self.letters.put(letter)

    # -- upkeep

    def _maintain(self) -> None:
        if time.monotonic() - self._dropped_at >= KEPT:
            self._dropped_at = time.monotonic()
            for held in self.held.values():
                held.outbox.drop(held.droppable)
                held.droppable = held.sent
        for n, held in self.held.items():
            if held.since >= max(LEAST_JOURNAL, 2 * held.compacted):
                self._compact(n, held)

    def _compact(self, n: int, held: Held) -> None:
        """Put the rows of shard *n* as they are in place of its journal, if the database has them all."""
        store = held.outbox.store
        snapshot = store.snapshot()
        try:
            upto = int.from_bytes(snapshot.get(LAST_BATCH) or b"", "big")
            if held.sent >= upto:
                self._database.compact(n, held.copy, upto, packed_rows(store, snapshot))
                held.compacted, held.since = self._database.journal_size(n)
        finally:
            snapshot.close()

    def _end(self) -> None:
        for process, _ in self._loading.values():
            with process:
                process.kill()
        try:
            if not self.held:
                self._database.remove(self.id)
        except psycopg.OperationalError as error:
            logger.warning("Could not leave the shared crawl (%s): others wait for the lease", error)
        self._database.close()


def packed_rows(store: Store, snapshot: object) -> Iterator[bytes]:
    """Yield the rows of a *snapshot* of a copy, but those of its outbox, packed in pieces."""
    rows: dict[bytes, bytes | None] = {}
    size = 0
    for key, value in store.scan(b"", snapshot=snapshot):  # type: ignore[arg-type]
        if key >= OUTBOX:  # the last rows of a store
            break
        if key != LAST_BATCH:
            rows[key] = value
        size += len(key) + len(value)
        if size >= CHUNK:
            yield compress([pack_rows(rows)])
            rows, size = {}, 0
    yield compress([pack_rows(rows)])
