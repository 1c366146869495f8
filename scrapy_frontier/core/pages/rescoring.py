"""Keeps each queue row in the bucket of its page's score.

A sort key holds the score bucket that a page was queued with. When the links of a page raise the scores of
others (`Rescoring.parsed`), their queue rows move in the same batch, or, if they are very many, in the next
ones. When a ranking has changed all scores, a walk over the queued pages moves the rows that are too far off,
a slice at a time. To find the row of a page by its id alone, host, priority and bucket of each queued page
are kept in memory, 10 bytes a page.

After a restart the scorer gets back its columns, the content scores, and the buckets of the queue rows, in
slices.
"""

from __future__ import annotations

from array import array
from collections import deque
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from ..errors import decode_or_none
from ..ranking.focus import WORDS, Focus, codes_of, words_of
from ..ranking.scorer import buckets, scores_of
from ..store import keys, queue_keys, records
from ..store.keys import State, bucket, clamped
from ..store.link_rows import NOFOLLOW
from ..store.queue_keys import MAX_PRIORITY, OWN_ARRIVAL
from ..store.records import last_ranking
from .scores import Scores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..hosts.hosts import Hosts
    from ..ranking.scorer import Scorer
    from ..store.batch import Batch
    from ..store.keys import PageId
    from ..store.link_rows import PlainEdge
    from ..store.queue_keys import QueuePlace
    from ..store.records import LastRanking
    from .leases import Link
    from .scores import RankRun

BLOCK = 4096  # pages in a row of a column
LEAST_BUCKET = 2  # of a queue row; below are:
_NOWHERE = 0  # not queued, or not found yet after a restart
_ELSEWHERE = 1  # queued by a row that does not move: of a page queued later than discovered, or in a backoff
AVERAGE = bucket(1.0)
_FIRST_RANKING = 30  # pages known or read
_IDS_A_ROW = 50  # looked at in the time of one row
_MOVED_AT_ONCE = 200  # rows at the end of a page: 2 ms, 6 if each is of another host
_MOST_TO_MOVE = 100_000  # rows that may wait for that; beyond, those noted first wait for a ranking


class Rescoring(Scores):
    """Asks *scorer* what pages are worth, and keeps queue rows in the buckets of their scores.

    A page that is queued later than it was discovered keeps the bucket it is queued with.
    """

    def __init__(self, scorer: Scorer, batch: Batch, hosts: Hosts) -> None:
        super().__init__(batch)
        self.scorer: Scorer = scorer
        self._hosts = hosts
        pages = self._pages_at_start = batch.counts.next_page
        self._buckets = array("H", bytes(2 * pages))
        self._priorities = array("I", bytes(4 * pages))  # as in a sort key; 0 if not queued
        self._hosts_of = array("I", bytes(4 * pages))  # numbers
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._rows = 1  # of a slice
        self._loading: Iterator[None] | None = self._load() if pages else None
        self._to_move: deque[tuple[int, int]] = deque(maxlen=_MOST_TO_MOVE)  # pages and their new buckets
        self._late: list[tuple[int, list[int], list[float] | None]] = []  # payments until all is loaded
        self._is_walking = False
        self._is_stale = False  # pages are to be ranked soon, for more is known of their content
        self._rows_moved = 0  # by the last walk
        self.last_ranking: LastRanking = last_ranking(batch.store) or {}

    # -- pages -----------------------------------------------------------------------------------------

    def discovered(self, page_id: PageId, link: Link, parent: PageId | None, host: str) -> int:
        """Ask the scorer for the score of a new page."""
        if self.scorer.focus is not None:
            self.codes = codes_of(words_of(link.url, link.anchor))
            self.scorer.linked(page_id, self.codes)
        if link.paid is None:
            score = self.scorer.discovered(page_id, parent, host, clamped(link.weight))
        else:
            score = self.scorer.posted(page_id, host, clamped(link.paid))
        its_bucket = max(bucket(score) if link.bucket is None else link.bucket, LEAST_BUCKET)
        self._set(page_id, its_bucket)
        self._priorities[page_id] = MAX_PRIORITY - min(max(link.priority, -MAX_PRIORITY), MAX_PRIORITY)
        self._hosts_of[page_id] = self._number(host)
        return its_bucket

    def opened(self, page_id: PageId) -> int:
        """Ask the scorer again."""
        return max(bucket(self.scorer.opened(page_id)), LEAST_BUCKET)

    def bucket_of(self, page_id: PageId) -> int:
        """Return the bucket of the queue row."""
        kept = self._buckets[page_id] if page_id < len(self._buckets) else 0
        return kept if kept >= LEAST_BUCKET else AVERAGE

    def score_of(self, page_id: PageId) -> float | None:
        """Ask the scorer; None until all is loaded."""
        if self._loading is not None or page_id >= len(self._buckets):
            return None
        found = self.scorer.current_scores(np.array((page_id,)))
        return None if found is None else float(found[0])

    def queued(self, host: str, sort_key: bytes) -> None:
        """Remember where the row is, unless it is of a further visit or of a page that comes back."""
        page_id = queue_keys.sort_key_id(sort_key)
        if page_id >= keys.FIRST_VISIT:
            return
        is_own = len(sort_key) == OWN_ARRIVAL.size
        self._set(page_id, max(queue_keys.sort_key_bucket(sort_key), LEAST_BUCKET) if is_own else _ELSEWHERE)
        self._priorities[page_id] = queue_keys.priority_code(sort_key)
        self._hosts_of[page_id] = self._number(host)
        if self.scorer.focus is not None and (codes := self.scorer.codes(page_id)):
            self._batch.rows[queue_keys.queue_prefix(host) + sort_key] = codes

    def waits(self, page_id: PageId) -> None:
        """Leave the page alone until it is `queued` again."""
        if page_id < keys.FIRST_VISIT:
            self._set(page_id, _ELSEWHERE)

    def owed(self, page_id: PageId) -> float:
        """Ask the scorer."""
        return self.scorer.owed(page_id)

    def closed(self, page_id: PageId) -> None:
        """Tell the scorer."""
        self._set(page_id, _NOWHERE)
        self.scorer.closed(page_id)

    def content_scored(self, page_id: PageId, content_score: float) -> None:
        """Keep the score, clamped to what a bucket can hold, and tell the scorer."""
        score = clamped(content_score)
        if self.scorer.focus is None:
            self.scorer.begin_focus()
        self.scorer.content_scored(page_id, score)
        self._batch.rows[keys.content_key(page_id)] = records.CONTENT.encode(score)

    def rewarded(self, page_id: PageId, content_score: float | None, is_gone: bool) -> None:
        """Tell the scorer; a page without a score is worth 1, and one that *is_gone* as little as the worst
        so far."""
        focus = self.scorer.focus
        if focus is not None:
            had_learned = focus.has_learned
            worth = 1.0 if content_score is None else clamped(content_score)
            self.scorer.rewarded(page_id, focus.lowest if is_gone else worth)
            self._is_stale |= focus.has_learned and not had_learned

    def parsed(self, page_id: PageId, edges: Sequence[PlainEdge], is_further_visit: bool = False) -> None:
        """Tell the scorer of all links that pay: not those with nofollow, nor those of weight 0. Beyond
        `_MOVED_AT_ONCE` rows move with the ends of the next pages."""
        paying = [(target, weight) for target, flags, weight in edges if weight and not flags & NOFOLLOW]
        targets, weights = [target for target, _ in paying], [weight for _, weight in paying]
        are_equal = weights.count(1.0) == len(weights)
        payment = page_id, targets, None if are_equal else list(map(clamped, weights))
        if self._loading is not None:
            self._late.append(payment)
            changes = []
        else:
            changes = self.scorer.parsed(*payment)
        if not is_further_visit:
            self._set(page_id, _NOWHERE)
        self._take(page_id, changes)
        self._move_noted()

    def _take(self, page_id: PageId, changes: list[tuple[int, float]]) -> None:
        """Note that rows are to move of the pages whose scores were changed by the links of a page."""
        if self._buckets[page_id] != _NOWHERE:  # it stays queued
            self.scorer.opened(page_id)
        self._to_move.extend((target, bucket(score)) for target, score in changes)

    def _move_noted(self) -> None:
        to_move = self._to_move
        self._rebucket([to_move.popleft() for _ in range(min(_MOVED_AT_ONCE, len(to_move)))])

    def _set(self, page_id: PageId, its_bucket: int) -> None:
        more = page_id + 1 - len(self._buckets)
        if more > 0:
            for column in (self._buckets, self._priorities, self._hosts_of):
                column.extend([0] * more)
        self._buckets[page_id] = its_bucket

    def _number(self, host: str) -> int:
        number = self._numbers.setdefault(host, len(self._names))
        if number == len(self._names):
            self._names.append(host)
        return number

    # -- moving rows -----------------------------------------------------------------------------------

    def _rebucket(self, places: Iterable[tuple[int, int]]) -> int:
        """Move the rows of queued pages to new buckets, in the open batch; returns how many. 2 us each."""
        moved: dict[int, list[tuple[bytes, bytes]]] = {}
        for page_id, wanted in dict(places).items():  # a page that two others pay moves once
            old = self._buckets[page_id] if -1 < page_id < len(self._buckets) else _NOWHERE
            new = max(wanted, LEAST_BUCKET)
            if old < LEAST_BUCKET or old == new:
                continue
            priority, high, low = self._priorities[page_id], page_id >> 32, page_id & 0xFFFFFFFF
            before = OWN_ARRIVAL.pack(priority, 0xFFFF - old, high, low)
            after = OWN_ARRIVAL.pack(priority, 0xFFFF - new, high, low)
            moved.setdefault(self._hosts_of[page_id], []).append((before, after))
        return sum(self._move(self._names[number], pairs) for number, pairs in moved.items())

    def _move(self, name: str, pairs: list[tuple[bytes, bytes]]) -> int:
        """Move rows of one host from one sort key to another; leased pages keep their row."""
        host, rows = self._hosts.to_rekey(name, pairs), self._batch.rows
        has_codes = self.scorer.focus is not None
        prefix = queue_keys.queue_prefix(name)
        if host is not None:
            if host.leased:
                pairs = [pair for pair in pairs if pair[0] not in host.leased]
            if host.rekey(pairs):
                self.moved.add(host)
        for before, after in pairs:
            rows[prefix + before] = None
            rows[prefix + after] = self.scorer.codes(queue_keys.sort_key_id(after)) if has_codes else b""
            self._buckets[queue_keys.sort_key_id(after)] = queue_keys.sort_key_bucket(after)
        return len(pairs)

    def place_moved(self, now: float) -> None:
        """Update heads and places of the hosts whose rows moved."""
        moved, self.moved = self.moved, set()
        for host in moved:
            if host.more and (not host.heads or host.heads[0] > host.cursor):
                self._hosts.fill(host)
        for host in moved:  # only now: giving one its place may look at the heads of all
            if self._hosts.by_name.get(host.name) is host:
                self._hosts.update(host, now)

    # -- rankings --------------------------------------------------------------------------------------

    def is_due(self) -> bool:
        """Return whether the crawl has grown by the scorer's ``growth`` since the last ranking.

        False while a ranking is taken over, and until all is loaded.
        """
        if self._loading is not None or self._is_walking or not self.scorer.needs_ranking:
            return False
        counts, last, growth = self._batch.counts, self.last_ranking, self.scorer.growth
        read, pages = counts.states[State.DONE], counts.next_page
        if self._is_stale and pages >= _FIRST_RANKING:
            return True
        return read >= max(_FIRST_RANKING, last.get("read", 0) * growth) or pages >= max(
            _FIRST_RANKING, last.get("pages", 0) * growth
        )

    def rank_now(self) -> RankRun:
        """As `Scores.rank_now`; also has the words read of queued pages whose links are not kept."""
        run, self._is_stale = super().rank_now(), False
        queued = np.flatnonzero(np.frombuffer(self._buckets[:], np.uint16) >= LEAST_BUCKET)
        run.without_codes = self.scorer.without_codes(queued).tolist()
        return run

    def adopt(self, run: RankRun, clock: Callable[[], float], rows: int) -> Iterator[float]:
        """Take over the ranking, move the queue rows that are too far off, keep the columns."""
        if run.ranking is None:
            return
        self.scorer.adopt(run.prepared)
        self._to_move.clear()
        self._rows, self._rows_moved, self._is_walking = rows, 0, True
        read = self._batch.counts.states[State.DONE]
        yield 0.0
        for slices in (self._keep_codes(run.codes), self._walk(), self._save()):
            for _ in slices:
                self._batch.commit()
                self.place_moved(clock())
                run.moved = self._rows_moved
                yield self._pause()
        self._is_walking = False
        bound = run.ranking.error_bound
        self.keep_ranking(
            {
                "at": clock(),
                "scorer": self.scorer.name,
                "pages": run.pages,
                "read": read,
                "links": run.links,
                "iterations": run.ranking.iterations,
                "error_bound": bound if isfinite(bound) else None,
                "seconds": round(run.seconds, 3),
                "converged": run.ranking.converged,
                "moved": self._rows_moved,
            }
        )
        self._batch.commit()
        run.is_adopted = True

    def _keep_codes(self, codes: dict[int, bytes]) -> Iterator[None]:
        """Keep what was read beside the ranking, for the next one, which is due at once."""
        for number, (page_id, found) in enumerate(codes.items()):
            if self._buckets[page_id] >= LEAST_BUCKET:
                self.scorer.linked(page_id, found)
                self._is_stale = True
            if number % self._rows == 0:
                yield

    def keep_ranking(self, about: LastRanking) -> None:
        """Note in the open batch what the last ranking was."""
        self.last_ranking = about
        self._batch.rows[keys.RANKING] = records.encode_ranking(about)
        self._keep_model()

    def _keep_model(self) -> None:
        if self.scorer.focus is not None:
            self._batch.rows[keys.FOCUS] = self.scorer.focus.encode()

    def _walk(self) -> Iterator[None]:
        """Move the rows that are more than ``min_bucket_move`` buckets off, so many ``_rows`` a slice."""
        first = 0
        while first < len(self._buckets):
            stop = min(first + _IDS_A_ROW * self._rows, len(self._buckets))
            kept = np.frombuffer(self._buckets[first:stop], np.uint16).astype(np.int64)
            offsets = np.flatnonzero(kept >= LEAST_BUCKET)
            scores = self.scorer.current_scores(offsets + first)
            if scores is None:
                return
            wanted = np.maximum(buckets(scores).astype(np.int64), LEAST_BUCKET)
            far = np.flatnonzero(abs(kept[offsets] - wanted) > self.scorer.min_bucket_move)
            if len(far) > self._rows:
                far = far[: self._rows]
                stop = int(first + offsets[far[-1]] + 1)
            moved = (offsets[far] + first).tolist()
            self._rows_moved += self._rebucket(zip(moved, wanted[far].tolist(), strict=True))
            first = stop
            yield

    # -- restarts --------------------------------------------------------------------------------------

    @property
    def is_loaded(self) -> bool:  # type: ignore[override]
        """Whether all that the scorer knew of earlier runs is back; until then nothing is ranked."""
        return self._loading is None

    def load(self, rows: int, now: float) -> None:
        """Load so many *rows* more, 1 us each. At the end the links of pages parsed meanwhile are paid."""
        self._batch.commit()  # the rows that are read must be those of now
        self._rows = rows
        if self._loading is not None and next(self._loading, self) is self:
            self._loading = None
            # Of a copy: the array cannot grow while NumPy looks at it.
            self.scorer.reopened(np.frombuffer(self._buckets[: self._pages_at_start], np.uint16) != _NOWHERE)
            for payment in self._late:
                self._take(payment[0], self.scorer.parsed(*payment))
            self._late.clear()
            self._move_noted()
            self._batch.commit()
            self.place_moved(now)

    def _load(self) -> Iterator[None]:
        pages = self._pages_at_start
        model = decode_or_none(Focus.decode, self._batch.store.get(keys.FOCUS))
        if model is not None:
            self.scorer.begin_focus(model)
        for rows in self._slices(keys.COLUMN, 40):
            for key, value in rows:
                name, first = records.split_column_key(key) or ("", pages)
                codes = records.decode_codes(value)[: max(pages - first, 0)]
                if len(codes):
                    self.scorer.restore(name, first, codes)
            yield
        for rows in self._slices(keys.CONTENT):
            self.scorer.begin_focus()
            for key, value in rows:
                page_id, score = keys.key_id(key), records.CONTENT.read(value)
                if score is not None and page_id < self._batch.counts.next_page:
                    self.scorer.content_scored(page_id, score)
            yield
        for rows in self._slices(keys.QUEUE):
            self._found(queue_keys.split_queue_row(key, value) for key, value in rows)
            for key, value in rows:
                page_id = queue_keys.sort_key_id(key)
                if len(value) == 2 * WORDS and page_id < self._pages_at_start:
                    self.scorer.linked(page_id, value)
            yield
        for rows in self._slices(keys.WAITING):
            self._found(queue_keys.split_waiting_row(key, value) for key, value in rows)
            yield

    def _slices(self, prefix: bytes, cost: int = 1) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield the rows with that *prefix* as they are by then, each as expensive as *cost* others."""
        after = b""
        while rows := list(self._batch.store.scan(prefix, after, max(self._rows // cost, 1))):
            yield rows
            after = rows[-1][0][1:]

    def _found(self, places: Iterable[QueuePlace | None]) -> None:
        nodes, kept = [], []
        for place in places:
            page_id = self._pages_at_start if place is None else queue_keys.sort_key_id(place.sort_key)
            if place is None or page_id >= self._pages_at_start or queue_keys.is_due_sort_key(place.sort_key):
                continue
            if place.waits_until is None:
                self.queued(place.host, place.sort_key)
            else:
                self.waits(page_id)
            nodes.append(page_id)
            kept.append(max(place.bucket, LEAST_BUCKET))
        self.scorer.requeued(np.array(nodes, np.int64), scores_of(np.array(kept, np.uint16)))

    def save(self) -> None:
        """Write the columns; about 30 ms a million pages."""
        if self.is_loaded:
            self._keep_model()
            for _ in self._save():
                self._batch.commit()

    def free(self) -> None:
        """Free the columns, and those of the scorer."""
        self.scorer.free()
        self._buckets = self._priorities = self._hosts_of = array("H")

    def _save(self) -> Iterator[None]:
        """Put a row of each column into the open batch, `BLOCK` pages a slice."""
        for first in range(0, len(self._buckets), BLOCK):
            stop = min(first + BLOCK, len(self._buckets))
            for name in self.scorer.columns:
                codes = self.scorer.column(name, first, stop)
                self._batch.rows[records.column_key(name, first)] = records.encode_codes(codes)
            yield
