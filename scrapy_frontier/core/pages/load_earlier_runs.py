"""What earlier runs left, brought back in slices beside the crawl: hosts, scores, fingerprints, due times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..store import keys

if TYPE_CHECKING:
    from ..hosts.load_hosts import HostTable
    from ..store.batch import Batch
    from .deferred import Deferral
    from .queue import Queue
    from .recompute_due import RecomputeDue
    from .rescoring import Rescoring

_LEARN_LIMIT = 400  # fingerprints at a time, 0.3 ms


@dataclass(eq=False, repr=False)
class EarlierRuns:
    """Loads what earlier runs left, part by part; ``is_loaded`` once all is there that queued pages need."""

    _batch: Batch
    _table: HostTable
    _deferred: Deferral
    _queue: Queue
    _scores: Rescoring | None
    _recompute_due: RecomputeDue
    _learned = b""
    is_loaded = False

    @property
    def is_filling(self) -> bool:
        """Whether queues may be about to fill by what is not there yet, due rows by another rule too. No
        store read."""
        return not (self.is_loaded and self._recompute_due.is_done)

    def load(self, now: float, limit: int = 100) -> bool:
        """Bring up to *limit* more hosts of earlier runs into memory; true once all that they left is there.

        20 to 80 us a host with queued pages, 1 us another one. Pages of hosts not yet loaded wait their turn.
        Then what the scorer knew comes back, in as many calls again, 1 us a queued page; links of pages that
        end meanwhile count when it is there. With that the frontier ``is_loaded``. At last the fingerprints
        of all pages, a lookup less for each new link, 0.3 ms a call; and where pages come back by another
        rule than before, when, 10 to 30 us a page.
        """
        table, deferred, scores = self._table, self._deferred, self._scores
        if not table.is_loaded:
            table.load(now, limit)
        if table.is_loaded and not deferred.is_loaded:
            deferred.load(limit)
        elif table.is_loaded and scores is not None and not scores.is_loaded:
            scores.load(20 * limit)
            self._batch.commit()
            self._queue.place_moved(now)
        is_scored = scores is None or scores.is_loaded
        self.is_loaded = table.is_loaded and deferred.is_loaded and is_scored
        if self.is_loaded and not self._batch.seen.is_complete:
            self._learn()
        if self.is_loaded and not self._recompute_due.is_done:
            self._recompute_due.step(4 * limit)
        return self.is_loaded and self._batch.seen.is_complete and self._recompute_due.is_done

    def _learn(self) -> None:
        """Look up some more of the fingerprints."""
        found = self._batch.store.keys_of(keys.INDEX, self._learned, _LEARN_LIMIT)
        self._batch.seen.update(found)
        self._learned = found[-1] if found else b""
        if len(found) < _LEARN_LIMIT:
            self._batch.seen.complete()
