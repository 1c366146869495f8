"""Pages in: links discovered, seen, refused, deferred, and queued again."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from ..hosts.host import Host, Place
from ..parse.urls import host_of
from ..store import keys, page_rows, queue_rows
from ..store.page_rows import Page
from ..store.states import State
from .lifecycle import TABLE, Event
from .links import NEUTRAL, Link, Refusal, encode_link, page_of_link
from .traps import trap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..hosts.budgets import Budgets, OverBudget
    from ..hosts.hosts import Hosts
    from ..hosts.table import HostTable
    from ..store.batch import Batch
    from .deferred import Deferral
    from .known import Known
    from .queue import Queue
    from .rescoring import Rescoring
    from .traps import TrapLimits

_MOST_FRESH = 100  # new pages in one batch: a seed list must not pile up in memory
_MOST_REFUSALS = 100


class Discovery:
    """Makes pages known. Links that are *traps* leave no trace; ``refusals`` are what was not queued."""

    def __init__(
        self,
        batch: Batch,
        known: Known,
        hosts: Hosts,
        table: HostTable,
        budgets: Budgets,
        queue: Queue,
        deferred: Deferral,
        scores: Rescoring | None,
        traps: TrapLimits | None,
    ) -> None:
        self._batch = batch
        self._known = known
        self._hosts = hosts
        self._table = table
        self._budgets = budgets
        self._queue = queue
        self._deferred = deferred
        self._scores = scores
        self._traps = traps
        self.refusals: deque[Refusal] = deque(maxlen=_MOST_REFUSALS)  # since somebody last looked
        self.refused: Counter[str] = Counter()  # links in this run, by kind
        self.is_head = False  # the page that was discovered last is the first of its host

    def discover(self, links: Iterable[Link], now: float) -> list[int | None]:
        """Queue every link that is new or wanted again: its id, or None for what is known already.

        Durable after the next `commit`, which `lease` and `release` bring about, and a hundred new pages.
        O(log hosts) a link.
        """
        self._make_room()
        return [self._discover(link, now) for link in links]

    def discover_one(self, link: Link, now: float) -> int | None:
        """`discover` for a link that comes alone."""
        self._make_room()
        return self._discover(link, now)

    def discover_new(
        self,
        fingerprint: bytes,
        url: str,
        host_name: str,
        priority: int,
        payload: bytes,
        parent: int | None,
        link_score: float,
        depth: int,
        now: float,
    ) -> int | None:
        """`discover_one` for an ordinary link on its URL's own host, to a page that `look_up` does not know:
        the same in fewer steps, without a `Link`.

        O(log hosts). Raises `FrontierUnwritable` as `commit` does.
        """
        batch = self._batch
        if len(batch.fresh) >= _MOST_FRESH or batch.failure is not None:
            self._make_room()
        if self._budgets.is_limited or (self._traps is not None and trap(url, self._traps) is not None):
            link = Link(
                fingerprint, url, host_name, priority, payload, parent, link_score=link_score, depth=depth
            )
            return self._discover(link, now)
        host = self._hosts.by_name.get(host_name) or self._table.get(host_name)
        record = page_rows.encode_new_page(url, priority, int(now), parent, payload)
        return self._queue_page(host, fingerprint, record, priority, parent, link_score, now)

    def _make_room(self) -> None:
        self._batch.check()
        if len(self._batch.fresh) >= _MOST_FRESH:
            self._batch.commit()

    def _discover(self, link: Link, now: float) -> int | None:
        known = self._known.look_up(link.fingerprint)
        if known is not None and known < 0:
            if self._known.is_only_seen(link.fingerprint, ~known):
                return self._admit(~known, link, now)
            known = ~known
        if known is not None and not link.again:
            return None
        if known is None and self._traps is not None and (kind := self._trap(link)) is not None:
            return self._refuse(link, kind, kind)
        host = self._hosts.by_name.get(link.host) or self._table.get(link.host)
        if known is not None:
            return self._queue_visit(link, host, known, now)
        if self._budgets.is_limited:
            over = self._budgets.over(host, link.depth)
            if over is not None:
                return self._defer_link(link, host, over, now)
        return self._queue_page(
            host,
            link.fingerprint,
            encode_link(link, now),
            link.priority,
            link.parent,
            link.link_score,
            now,
            link.bucket,
            link.is_placed,
            link.is_in_memory,
        )

    def _queue_page(
        self,
        host: Host,
        fingerprint: bytes,
        record: bytes,
        priority: int,
        parent: int | None,
        link_score: float,
        now: float,
        bucket: int = NEUTRAL,
        is_placed: bool = False,
        is_marked: bool = False,
    ) -> int:
        """Queue a new page."""
        batch, scores = self._batch, self._scores
        page_id = self._known.add(fingerprint, is_marked)
        batch.put(keys.page_key(page_id), record)
        if scores is not None:
            place = scores.discovered(page_id, parent, host.name, priority, link_score)
            bucket = bucket if is_placed else place
        sort_key = queue_rows.sort_key(priority, bucket, page_id, page_id)
        if scores is not None and is_placed:
            scores.queued(host.name, sort_key)
        batch.queue(host, sort_key)
        if host.tally is not None:
            self._budgets.note(host)
        self.is_head = is_head = host.add(sort_key)
        if (is_head and host.place is not Place.COOLING) or host.place is Place.IDLE:
            self._hosts.put(host, now)
        return page_id

    def _queue_visit(self, link: Link, host: Host, known: int, now: float) -> int:
        """Queue one more visit of the *known* page."""
        batch = self._batch
        turn, page_id = batch.turn, batch.new_visit()
        place = link.bucket if self._scores is None else self._scores.standing(known)
        sort_key = queue_rows.sort_key(link.priority, place, turn, page_id)
        batch.put(keys.page_key(page_id), encode_link(link, now))
        self._queue.put(host, sort_key, now)
        return page_id

    def _trap(self, link: Link) -> str | None:
        """Which kind of trap a link looks like."""
        return None if self._traps is None or link.is_named else trap(link.url, self._traps)

    def _admit(self, page_id: int, link: Link, now: float) -> int | None:
        """Queue a page that was only seen so far, unless it is refused like a new one: then it stays seen,
        or waits for a budget."""
        kind = self._trap(link)
        if kind is not None:
            return self._refuse(link, kind, kind)
        host = self._table.get(link.host)
        over = self._budgets.over(host, link.depth) if self._budgets.is_limited else None
        if over is not None:
            return self._defer_link(link, host, over, now, page_id)
        self._known.admit(link.fingerprint, page_id, link.is_in_memory)
        self._batch.put(keys.page_key(page_id), encode_link(link, now))
        self._queue.put(host, self._queue.sort_key_again(page_id, link.priority), now)
        return page_id

    def note_seen(self, links: Iterable[Link], now: float, reason: str) -> list[int | None]:
        """Make pages known without queueing them, for *reason*: their ids, also of those known before; None
        for a trap, which leaves no trace.

        A link that is discovered later queues them. Durable with the next batch.
        """
        self._batch.check()
        return [self._see(link, now, reason) for link in links]

    def _see(self, link: Link, now: float, reason: str) -> int | None:
        known = self._known.find(link.fingerprint)
        if known is not None or self._trap(link) is not None:
            return known
        page_id = self._known.add_seen(link.fingerprint)
        page = page_of_link(link, now)._replace(
            state=State.SEEN, payload=b"", changed=int(now), reason=reason
        )
        self._batch.put(keys.page_key(page_id), page_rows.encode_page(page))
        if self._scores is not None:
            self._scores.closed(page_id)
        return page_id

    def requeue(self, page_id: int, now: float, payload: bytes, priority: int) -> bool:
        """Queue a finished page again, its attempts forgotten; false for one that is not finished."""
        self._batch.check()
        page = self._known.page(page_id)
        if page is None or (page.state, Event.REQUEUED) not in TABLE:
            return False
        host = self._table.get(page.host or host_of(page.url))
        was_seen = page.state is State.SEEN and not page.is_deferred
        if page.is_deferred:
            self._deferred.remove(page_id, host)
        else:
            self._batch.count_ended(host, page.state, -1, page.status)
        page = Page(page.url, State.QUEUED, 0, priority, page.discovered, page.parent, page.host, payload)
        self._batch.put(keys.page_key(page_id), page_rows.encode_page(page))
        self._queue.put(host, self._queue.sort_key_again(page_id, priority), now)
        if was_seen:  # its index row says so for ever, and only the page's own row that it is no more
            self._batch.commit()
        return True

    # -- budgets ---------------------------------------------------------------------------------------

    def _refuse(self, link: Link, kind: str, reason: str, page_id: int | None = None) -> int | None:
        self.refused[kind] += 1
        self.refusals.append(Refusal(link.url, link.host, kind, reason, page_id))
        return page_id

    def _defer_link(
        self, link: Link, host: Host, over: OverBudget, now: float, seen_id: int | None = None
    ) -> int | None:
        """Keep the page of a link, new or only seen so far, for later, or only count it where enough are
        kept."""
        if not over.is_kept and not link.is_named:
            self._table.forget_if_idle(host, now)
            return self._refuse(link, "over-budget", over.reason)
        bucket = link.bucket if link.is_placed else 0
        if seen_id is None:
            page_id = self._known.add(link.fingerprint, link.is_in_memory)
            if self._scores is not None:
                place = self._scores.discovered(
                    page_id, link.parent, link.host, link.priority, link.link_score
                )
                self._scores.closed(page_id)
                if link.link_score != 1.0:  # of which some scorers keep nothing themselves
                    bucket = bucket or place
        else:
            page_id = seen_id
            self._known.admit(link.fingerprint, page_id, link.is_in_memory)
        self._deferred.put(page_id, page_of_link(link, now), host, over, now, link.depth, bucket)
        self._table.forget_if_idle(host, now)
        return self._refuse(link, "deferred", over.reason, page_id)
