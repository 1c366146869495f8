"""Scores in the queues: which bucket each queue row has, and moving rows when the scorer changes its mind.

A sort key holds the score bucket a page was queued with. When a scorer tells of another score, the row is
deleted and put anew in one batch (`parsed`); when a ranking has changed them all, a *walk* over the queue
moves the rows that are too far off, a slice at a time (`step`). To find a row from a page's id alone, host,
priority and bucket of each queued page are kept in memory, 10 bytes a page: a look into the database for each
of 50 links would take a page's end 0.6 ms, and 25 ms while a thread ranks, which wants the interpreter too.

After a restart what a scorer remembers comes back in slices as well (`load`): its columns first, then what
the queue rows say, which a kill cannot make untrue.

What a scorer remembers beyond a restart: its columns, written and read back a piece at a time.

A content score has a row of its own until the column it belongs to is written.

Which queue rows are too far from where their pages should be by the scores of now.
"""

from __future__ import annotations

from array import array
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from ..ranking.scorer import buckets, buckets_of, scores_of
from ..store import keys, queue_keys, records
from ..store.keys import State, bucket
from ..store.link_rows import NOFOLLOW
from ..store.queue_keys import MAX_PRIORITY, OWN_ARRIVAL, priority_code, sort_key_bucket
from ..store.records import COMES_BACK, encode_ranking, last_ranking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from ..hosts.host import Host
    from ..hosts.hosts import Hosts
    from ..ranking.scorer import Ints, Scorer
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.link_rows import PlainEdge
    from ..store.records import LastRanking

BLOCK = 4096  # pages in a piece of a column


class ScoreColumns:
    """The columns and the content scores of *scorer* in the store, which has *pages* at the start. A cursor
    is where to go on: b"" at first, None when there is no more."""

    def __init__(self, scorer: Scorer, batch: Batch, pages: int) -> None:
        self._scorer = scorer
        self._batch = batch
        self._pages = pages
        self._judged: set[int] = set()  # content scores with rows of their own

    def judged(self, page_id: PageId, content_score: float) -> None:
        """Keep the content score of a page; it counts from the next ranking or parsed page on."""
        self._batch.rows[keys.content_key(page_id)] = records.encode_content(content_score)
        self._judged.add(page_id)
        self._scorer.judged(page_id, content_score)

    def load(self, after: bytes, limit: int) -> bytes | None:
        """Take back one piece for every forty of *limit*, behind *after*; where to go on, None when all are
        read."""
        rows = list(self._batch.store.scan(keys.COLUMN, after, max(limit // 40, 1)))
        for key, value in rows:
            name, first = records.split_column_key(key) or ("", self._pages)
            codes = records.decode_codes(value)[: max(self._pages - first, 0)]
            if len(codes):
                self._scorer.restore(name, first, codes)
        return rows[-1][0][1:] if rows else None

    def load_content(self, after: bytes, limit: int) -> bytes | None:
        """Take back *limit* content scores that stand in no column yet, behind *after*; where to go on."""
        rows = list(self._batch.store.scan(keys.CONTENT, after, limit))
        for key, value in rows:
            page_id, score = keys.key_id(key), records.decode_content(value)
            if score is not None and page_id < self._batch.counts.next_page:
                self._judged.add(page_id)
                self._scorer.judged(page_id, score)
        return rows[-1][0][1:] if len(rows) == limit else None

    def save(self, after: bytes, limit: int, pages: int) -> bytes | None:
        """Put one piece of each column, of *pages* in all, into the open batch for every thousand of *limit*;
        content rows go into theirs. Where to go on, None when all are there."""
        first = keys.id_in(after)
        if not self._scorer.columns:
            return None
        for _ in range(max(limit // 1000, 1)):
            if first >= pages:
                return None
            stop = min(first + BLOCK, pages)
            for name in self._scorer.columns:
                codes = self._scorer.column(name, first, stop)
                self._batch.rows[records.column_key(name, first)] = records.encode_codes(codes)
            for page_id in [each for each in self._judged if first <= each < stop]:
                self._judged.remove(page_id)
                self._batch.rows[keys.content_key(page_id)] = None
            first = stop
        return keys.id_bytes(first)


class Steps:
    """Tasks one after the other, a slice at a time.

    Each is called with a cursor and a limit, and returns the next cursor, None when it is done.
    """

    def __init__(self, tasks: Sequence[Callable[[bytes, int], bytes | None]]) -> None:
        self._tasks = list(tasks)
        self._cursor = b""

    def step(self, limit: int) -> bool:
        """Have the first task that is left take its next slice of *limit*; true when all are done, not to be
        called after that."""
        cursor = self._tasks[0](self._cursor, limit)
        self._cursor = cursor or b""
        if cursor is None:
            del self._tasks[0]
        return not self._tasks


LEAST_BUCKET = 2  # of a row: what stands for none, or for another place, is below


def misplaced(scorer: Scorer, pages: Ints, kept: Ints) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of *pages*, by index, have rows too far off, and the buckets these belong in; *kept* are the ones
    they are in. None of a *scorer* that remembers nothing. 20 ns a page."""
    scores = scorer.current_scores(pages) if len(pages) else None
    if scores is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    wanted = np.maximum(buckets(scores).astype(np.int64), LEAST_BUCKET)
    far = np.flatnonzero(abs(np.maximum(kept, LEAST_BUCKET) - wanted) > scorer.worth_moving)
    return far, wanted[far]


def misplaced_keys(scorer: Scorer, sort_keys: list[bytes], pages: int) -> list[tuple[int, bytes]]:
    """Index and right sort key of those of *sort_keys* that are too far off, of pages below *pages*. 1 us
    each."""
    ids = np.array([queue_keys.sort_key_id(sort_key) for sort_key in sort_keys], np.int64)
    known = np.flatnonzero(ids < pages)
    coming_back = [index for index, each in enumerate(sort_keys) if each.startswith(COMES_BACK)]
    if coming_back:  # their places are not scores
        known = np.setdiff1d(known, coming_back)
    kept = np.array([queue_keys.sort_key_bucket(sort_key) for sort_key in sort_keys], np.int64)
    far, wanted = misplaced(scorer, ids[known], kept[known])
    return [
        (index, queue_keys.with_bucket(sort_keys[index], new))
        for index, new in zip(known[far].tolist(), wanted.tolist(), strict=True)
    ]


def arrived_later(sort_key: bytes) -> bool:
    """Whether a row of the queue is one of a page that was queued later than it was discovered."""
    is_own = len(sort_key) == queue_keys.OWN_ARRIVAL.size
    is_revisit = sort_key.startswith(COMES_BACK) or queue_keys.sort_key_id(sort_key) >= keys.FIRST_VISIT
    return not (is_own or is_revisit)


_NOWHERE = 0  # no queue row, or none that was met yet after a restart
_ELSEWHERE = 1  # a row that only the disk knows: of a page that arrived later, or waiting for a backoff
AVERAGE = bucket(1.0)
_FIRST_RANKING = 30  # pages known or read
_NO_PAGES = np.zeros(0, np.int64)
_IDS_A_ROW = 50  # looked at in memory in the time of one row on the disk


class Rescoring:
    """The *scorer* of a crawl and the queue rows; every part that changes what a page is tells it.

    ``moved`` are hosts in memory whose heads may have changed, for `Queue.place_moved` with each commit.
    """

    def __init__(self, scorer: Scorer, batch: Batch, hosts: Hosts) -> None:
        self.scorer = scorer
        self._batch = batch
        self._hosts = hosts
        self.moved: set[Host] = set()
        pages = batch.counts.next_page
        self._buckets = array("H", bytes(2 * pages))
        self._priorities = array("I", bytes(4 * pages))  # as in a sort key; these two where there is a bucket
        self._hosts_of = array("I", bytes(4 * pages))  # numbers
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._columns = columns = ScoreColumns(scorer, batch, pages)
        self.judged = columns.judged
        self._pages_at_start = pages
        self._late: list[tuple[int, list[int], list[float] | None]] = []
        tasks = [columns.load, columns.load_content, self._load_queue, self._load_waiting]
        self._loading: Steps | None = Steps(tasks) if pages else None
        self._walk: Steps | None = None
        self.rows_moved = 0  # by the last walk
        self._any_arrived_later = False  # rows of the queue that only the disk knows
        self.last_ranking = last_ranking(batch.store) or {}
        self._ranked_at: float | None = None  # or when we were first asked

    def take_moved(self) -> list[Host]:
        """The hosts that ``moved`` since this was asked last."""
        found, self.moved = list(self.moved), set()
        return found

    # -- a page at a time ------------------------------------------------------------------------------

    def discovered(
        self, page_id: PageId, parent: PageId | None, host: str, priority: int, link_score: float
    ) -> int:
        """The bucket, 2 to 65535, of a page about to be queued as a new one; the scorer learns of it."""
        score = self.scorer.discovered(page_id, parent, host, link_score)
        its_bucket = max(bucket(score), LEAST_BUCKET) if score > 0 else LEAST_BUCKET
        if not -MAX_PRIORITY <= priority <= MAX_PRIORITY:
            priority = min(max(priority, -MAX_PRIORITY), MAX_PRIORITY)
        self._set(page_id, its_bucket)
        self._priorities[page_id] = MAX_PRIORITY - priority
        self._hosts_of[page_id] = self._number(host)
        return its_bucket

    def opened(self, page_id: PageId, kept: int = 0) -> int:
        """The bucket of a page about to be queued again, or for the first time after it was only seen.

        The one it had before holds unless the scorer thinks more of the page by now.
        """
        its_bucket = max(bucket(self.scorer.opened(page_id)), LEAST_BUCKET)
        if kept and self.scorer.current_scores(_NO_PAGES) is None:  # it remembers nothing
            return max(kept, LEAST_BUCKET)
        return max(kept, its_bucket)

    def bucket_of(self, page_id: PageId) -> int:
        """The bucket for one more visit of a page: as it is queued, or that of an average page."""
        kept = self._buckets[page_id] if page_id < len(self._buckets) else 0
        return kept if kept >= LEAST_BUCKET else AVERAGE

    def queued(self, host: str, sort_key: bytes) -> None:
        """A row with *sort_key* was put into the queue of *host*: remember where. Not of further visits, nor
        of pages that come back. No store read."""
        page_id = queue_keys.sort_key_id(sort_key)
        if page_id < keys.FIRST_VISIT and not sort_key.startswith(COMES_BACK):
            self._put(page_id, self._number(host), sort_key)

    def score_of(self, page_id: PageId) -> float | None:
        """What the scorer thinks of a page now; None where it remembers nothing, or not yet."""
        if self._loading is not None or page_id >= len(self._buckets):
            return None
        found = self.scorer.current_scores(np.array((page_id,)))
        return None if found is None else float(found[0])

    def waits(self, page_id: PageId) -> None:
        """A page waits for the end of a backoff: it has no row to move until it is `queued` again."""
        if page_id < keys.FIRST_VISIT:
            self._set(page_id, _ELSEWHERE)

    def closed(self, page_id: PageId) -> None:
        """A page is not queued any more, or was never, and its links are not known."""
        self._set(page_id, _NOWHERE)
        self.scorer.closed(page_id)

    def parsed(self, page_id: PageId, edges: Sequence[PlainEdge], is_beside: bool = False) -> None:
        """The links of a page are known: pay its targets, and move those whose score that changes enough.
        Where a visit *is_beside* it the page goes on waiting, if it waits."""
        if not is_beside:
            self._set(page_id, _NOWHERE)
        # A link with nofollow carries nothing, nor one that weighs nothing.
        kept = [(target, weight) for target, flags, weight in edges if weight and not flags & NOFOLLOW]
        targets, scores = [target for target, _ in kept], [weight for _, weight in kept]
        payment = page_id, targets, None if scores.count(1.0) == len(scores) else scores
        if self._loading is not None:
            self._late.append(payment)
        else:
            self._pay(*payment)

    def _pay(self, page_id: PageId, targets: list[int], weights: list[float] | None) -> None:
        if changes := self.scorer.parsed(page_id, targets, weights):
            self._rebucket(zip(map(itemgetter(0), changes), buckets_of(changes), strict=True))
        if self._buckets[page_id] != _NOWHERE:  # it waits
            self.scorer.opened(page_id)

    def _set(self, page_id: PageId, bucket: int) -> None:
        more = page_id + 1 - len(self._buckets)
        if more > 0:
            for column in (self._buckets, self._priorities, self._hosts_of):
                column.extend([0] * more)
        self._buckets[page_id] = bucket

    def _put(self, page_id: PageId, host: int, sort_key: bytes) -> None:
        is_own = len(sort_key) == OWN_ARRIVAL.size
        self._any_arrived_later |= not is_own
        self._set(page_id, max(sort_key_bucket(sort_key), LEAST_BUCKET) if is_own else _ELSEWHERE)
        self._priorities[page_id] = priority_code(sort_key)
        self._hosts_of[page_id] = host

    def _number(self, host: str) -> int:
        number = self._numbers.setdefault(host, len(self._names))
        if number == len(self._names):
            self._names.append(host)
        return number

    # -- moving rows -----------------------------------------------------------------------------------

    def _rebucket(self, places: Iterable[tuple[int, int]]) -> int:
        """Put the rows of pages, if there are such, into the buckets they belong in, in the open batch. How
        many moved: what is leased keeps its row. 2 us each."""
        kept, priorities, hosts_of = self._buckets, self._priorities, self._hosts_of
        moved: dict[int, list[tuple[bytes, bytes]]] = {}
        for page_id, wanted in places:
            old, new = kept[page_id] if -1 < page_id < len(kept) else _NOWHERE, max(wanted, LEAST_BUCKET)
            if old < LEAST_BUCKET or old == new:
                continue
            priority, high, low = priorities[page_id], page_id >> 32, page_id & 0xFFFFFFFF
            before = OWN_ARRIVAL.pack(priority, 0xFFFF - old, high, low)
            after = OWN_ARRIVAL.pack(priority, 0xFFFF - new, high, low)
            moved.setdefault(hosts_of[page_id], []).append((before, after))
        return sum(self._move(self._names[number], pairs) for number, pairs in moved.items())

    def _move(self, name: str, pairs: list[tuple[bytes, bytes]]) -> int:
        """Move rows of one host from one sort key to another; how many were not leased."""
        host, rows = self._hosts.to_rekey(name, pairs), self._batch.rows
        if host is None:
            prefix = queue_keys.queue_prefix(name)
        else:
            prefix = host.prefix
            if host.leased:
                pairs = [pair for pair in pairs if pair[0] not in host.leased]
            if host.rekey(pairs):
                self.moved.add(host)
        for before, after in pairs:
            rows[prefix + before] = None
            rows[prefix + after] = b""
            if len(after) == OWN_ARRIVAL.size:
                _, below_best, high, low = OWN_ARRIVAL.unpack(after)
                self._buckets[high << 32 | low] = max(0xFFFF - below_best, LEAST_BUCKET)
        return len(pairs)

    # -- all rows at once ------------------------------------------------------------------------------

    @property
    def is_loaded(self) -> bool:
        """Whether all that a scorer knew of earlier runs is back; until then nothing is ranked."""
        return self._loading is None

    def begin_walk(self, about: LastRanking) -> None:
        """Have the following steps bring all queue rows to the scores of now, then keep the columns and
        *about*, the ranking they come from."""
        self.rows_moved = 0
        self._walk = Steps([self._walk_columns, self._walk_queue, self._walk_waiting, self._save_columns])
        self._about: LastRanking = {**about, "moved": 0, "read": self._batch.counts.states[State.DONE]}

    def step(self, limit: int) -> bool:
        """Look at *limit* more rows, 1 us each and 4 us for one that is moved; true when all are done."""
        if self._walk is not None and self._walk.step(limit):
            self._walk = None
            self.keep_ranking({**self._about, "moved": self.rows_moved})
        return self._walk is None

    def load(self, limit: int) -> None:
        """Take back *limit* more rows of what earlier runs left, 1 us each; at the end the links of pages
        that were parsed meanwhile are paid. Commits first."""
        self._batch.commit()  # the rows that are read must be those of now
        if self._loading is not None and self._loading.step(limit):
            self._loaded()

    def _loaded(self) -> None:
        self._loading = None
        known = np.frombuffer(self._buckets, np.uint16)[: self._pages_at_start]
        is_queued = known != _NOWHERE
        del known  # else the array could not grow
        self.scorer.reopened(is_queued)
        for payment in self._late:
            self._pay(*payment)
        self._late.clear()

    def _walk_columns(self, after: bytes, limit: int) -> bytes | None:
        """Rows of pages that were queued as new ones: found in memory, fifty times as fast as on the disk."""
        first, pages = keys.id_in(after), len(self._buckets)
        stop = min(first + _IDS_A_ROW * limit, pages)
        kept = np.array(self._buckets[first:stop], np.int64)
        offsets = np.flatnonzero(kept >= LEAST_BUCKET)
        far, wanted = misplaced(self.scorer, offsets + first, kept[offsets])
        moved = (offsets[far[:limit]] + first).tolist()
        if len(far) > limit:
            stop = moved[-1] + 1
        self.rows_moved += self._rebucket(zip(moved, wanted.tolist(), strict=False))
        return keys.id_bytes(stop) if stop < pages else None

    def _walk_queue(self, after: bytes, limit: int) -> bytes | None:
        """Rows of pages that arrived later, of which there are none most of the time, are on the disk."""
        if not after and not self._any_arrived_later:
            return None
        self._any_arrived_later &= bool(after)  # until one is met
        rows = self._batch.store.keys_of(keys.QUEUE, after, limit)
        split = [row.partition(b"\0") for row in rows]
        sort_keys = [sort_key for _, _, sort_key in split]
        self._any_arrived_later |= any(map(arrived_later, sort_keys))
        moved: dict[bytes, list[tuple[bytes, bytes]]] = {}
        for index, sort_key in misplaced_keys(self.scorer, sort_keys, len(self._buckets)):
            moved.setdefault(split[index][0], []).append((split[index][2], sort_key))
        for name, pairs in moved.items():
            self.rows_moved += self._move(name.decode(), pairs)
        return rows[-1] if len(rows) == limit else None

    def _walk_waiting(self, after: bytes, limit: int) -> bytes | None:
        rows = list(self._batch.store.scan(keys.WAITING, after, limit))
        kept = queue_keys.waiting_rows(rows)
        sort_keys = [sort_key for _, sort_key, _ in kept]
        for index, sort_key in misplaced_keys(self.scorer, sort_keys, len(self._buckets)):
            self._batch.rows[kept[index][0]] = queue_keys.pack_sort_key(sort_key, kept[index][2])
            self.rows_moved += 1
        return rows[-1][0][1:] if len(rows) == limit else None

    # -- what comes back, and what is kept -------------------------------------------------------------

    def _load_queue(self, after: bytes, limit: int) -> bytes | None:
        rows = self._batch.store.keys_of(keys.QUEUE, after, limit)
        split = [row.partition(b"\0") for row in rows]
        self._take_rows([(sort_key, name.decode()) for name, _, sort_key in split], waits=False)
        return rows[-1] if len(rows) == limit else None

    def _load_waiting(self, after: bytes, limit: int) -> bytes | None:
        rows = list(self._batch.store.scan(keys.WAITING, after, limit))
        self._take_rows(((sort_key, name) for _, sort_key, name in queue_keys.waiting_rows(rows)), waits=True)
        return rows[-1][0][1:] if len(rows) == limit else None

    def _take_rows(self, sort_keys: Iterable[tuple[bytes, str]], waits: bool) -> None:
        nodes, kept = [], []
        for sort_key, name in sort_keys:
            page_id = queue_keys.sort_key_id(sort_key)
            if page_id >= self._pages_at_start or sort_key.startswith(COMES_BACK):
                continue
            self._put(page_id, self._number(name), sort_key)
            if waits:
                self._buckets[page_id] = _ELSEWHERE
            nodes.append(page_id)
            kept.append(max(sort_key_bucket(sort_key), LEAST_BUCKET))
        self.scorer.requeued(np.array(nodes, np.int64), scores_of(np.array(kept, np.uint16)))

    def save(self) -> None:
        """Keep the columns, all at once: for the end of a run; about 30 ms a million pages."""
        if self.is_loaded:
            steps = Steps([self._save_columns])
            while not steps.step(1 << 20):
                self._batch.commit()

    def _save_columns(self, after: bytes, limit: int) -> bytes | None:
        return self._columns.save(after, limit, len(self._buckets))

    # -- rankings --------------------------------------------------------------------------------------

    def is_due(self, now: float, interval: float) -> bool:
        """Whether the crawl has grown by the scorer's ``growth`` since the last ranking, or *interval*
        seconds have passed (0: does not count). False while one is taken over, and until all is loaded."""
        pages, read = self._batch.counts.next_page, self._batch.counts.states[State.DONE]
        if self._loading is not None or self._walk is not None or not self.scorer.needs_ranking:
            return False
        if self._ranked_at is None:
            self._ranked_at = min(self.last_ranking.get("at", now), now)
        grown = self.scorer.growth
        has_read = read >= max(_FIRST_RANKING, self.last_ranking.get("read", 0) * grown)
        has_grown = has_read or pages >= max(_FIRST_RANKING, self.last_ranking.get("pages", 0) * grown)
        return has_grown or (bool(interval) and pages > 0 and now - self._ranked_at >= interval)

    def keep_ranking(self, about: LastRanking) -> None:
        """Note in the open batch what the last ranking was: *about* it, as `about_ranking` makes it."""
        self.last_ranking = about
        self._ranked_at = about.get("at")
        self._batch.rows[keys.RANKING] = encode_ranking(about)
