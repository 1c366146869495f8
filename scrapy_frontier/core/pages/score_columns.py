"""What a scorer remembers beyond a restart: its columns, written and read back a piece at a time.

A content score has a row of its own until the column it belongs to is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..store import column_rows, keys, rate_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..ranking.scorer import Scorer
    from ..store.batch import Batch
    from ..store.keys import PageId

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
        self._batch.rows[keys.content_key(page_id)] = rate_rows.encode_content(content_score)
        self._judged.add(page_id)
        self._scorer.judged(page_id, content_score)

    def load(self, after: bytes, limit: int) -> bytes | None:
        """Take back one piece for every forty of *limit*, behind *after*; where to go on, None when all are
        read."""
        rows = list(self._batch.store.scan(keys.COLUMN, after, max(limit // 40, 1)))
        for key, value in rows:
            name, first = column_rows.split_column_key(key) or ("", self._pages)
            codes = column_rows.decode_codes(value)[: max(self._pages - first, 0)]
            if len(codes):
                self._scorer.restore(name, first, codes)
        return rows[-1][0][1:] if rows else None

    def load_content(self, after: bytes, limit: int) -> bytes | None:
        """Take back *limit* content scores that stand in no column yet, behind *after*; where to go on."""
        rows = list(self._batch.store.scan(keys.CONTENT, after, limit))
        for key, value in rows:
            page_id, score = keys.key_id(key), rate_rows.decode_content(value)
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
                self._batch.rows[column_rows.column_key(name, first)] = column_rows.encode_codes(codes)
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
