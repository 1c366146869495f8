"""Pages in: what becomes of a link, and pages that are queued again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..hosts.domain import Place
from ..store import keys, page_rows, queue_rows
from ..store.link_rows import new_edge
from ..store.meta_rows import IN_MEMORY
from ..store.states import State
from .links import Discovered, Fate, Link, page_of_link
from .traps import trap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..hosts.budgets import Budgets, OverBudget
    from ..hosts.host import Host
    from ..hosts.hosts import Hosts
    from ..hosts.table import HostTable
    from ..store.batch import Batch
    from ..store.link_rows import Edge
    from .deferred import Deferral
    from .known import Known
    from .leases import Lease
    from .links import PageId
    from .queue import Queue
    from .rescoring import Rescoring
    from .traps import TrapLimits

_MOST_FRESH = 100  # new pages in one batch: a seed list must not pile up in memory


class Discovery:
    """Makes pages known. Links that are *traps* leave no trace."""

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
        self._texts = known.texts

    def discover(self, links: Iterable[Link], now: float, source: Lease | None = None) -> list[Discovered]:
        """See `Frontier.discover`."""
        batch = self._batch
        if len(batch.fresh) >= _MOST_FRESH or batch.failure is not None:
            batch.check()
            batch.commit()
        if len(self._hosts.by_name) > self._hosts.most_awake:
            self._hosts.doze(batch)
        if source is None:
            return [self._take_in(link, link.parent, None, now) for link in links]
        return [self._take_in(link, source.node, source.edges, now) for link in links]

    def _take_in(self, link: Link, parent: PageId | None, edges: list[Edge] | None, now: float) -> Discovered:
        fingerprint, known = link.fingerprint, None
        if fingerprint is not self._known.unknown:
            known = self._known.look_up(fingerprint)
        if known is None:
            answer = self._new(link, parent, now)
            page_id = answer.page
        else:
            page_id = known if known >= 0 else ~known
            answer = self._again(link, known, page_id, parent, now)
        if page_id is not None:
            if edges is not None:
                edges.append(new_edge((page_id, link.flags, link.weight)))
            if link.text:
                is_seen = answer.fate is Fate.SEEN or answer.fate is Fate.REFUSED
                self._texts.put(link.text, ~page_id if is_seen else page_id)
        return answer

    def _new(self, link: Link, parent: PageId | None, now: float) -> Discovered:
        """A link to a page that is not known."""
        if self._traps is not None and not link.is_named and (kind := trap(link.url, self._traps)):
            return Discovered(Fate.REFUSED, kind=kind, reason=kind)
        if link.only_seen:
            return self._see(link, parent, now)
        host = self._hosts.by_name.get(link.host) or self._table.get(link.host)
        if self._budgets.is_limited:
            over = self._budgets.over(host, link.depth)
            if over is not None:
                return self._put_off(link, host, over, parent, now)
        return self._queue_page(link, host, parent, now)

    def _again(
        self, link: Link, known: int, page_id: PageId, parent: PageId | None, now: float
    ) -> Discovered:
        """A link to a page that is known."""
        if link.only_seen:
            return Discovered(Fate.KNOWN if known >= 0 else Fate.SEEN, page_id)
        fate = Fate.KNOWN if known >= 0 else self._known.standing(link.fingerprint, page_id)
        if fate is Fate.SEEN:
            return self._admit(link, page_id, parent, now)
        if link.again:
            return self._queue_visit(link, page_id, parent, now)
        return Discovered(fate, page_id)

    def _queue_page(self, link: Link, host: Host, parent: PageId | None, now: float) -> Discovered:
        batch, scores, bucket = self._batch, self._scores, link.bucket
        if link.kept_host:
            record = page_rows.encode_page(page_of_link(link, parent, now))
        else:
            record = page_rows.encode_new_page(link.url, link.priority, int(now), parent, link.payload)
        page_id = self._known.add_queued(link.fingerprint, record, link.payload.startswith(IN_MEMORY))
        if scores is not None:
            place = scores.discovered(page_id, parent, host.name, link.priority, link.weight)
            bucket = bucket if link.is_placed else place
        sort_key = queue_rows.sort_key(link.priority, bucket, page_id, page_id)
        if scores is not None and link.is_placed:
            scores.queued(host.name, sort_key)
        batch.queue(host, sort_key)
        if host.tally is not None:
            self._budgets.note(host)
        is_head = host.add(sort_key)
        if (is_head and host.place is not Place.COOLING) or host.place is Place.IDLE:
            self._hosts.put(host, now)
        return Discovered(Fate.NEW, page_id, is_head)

    def _queue_visit(self, link: Link, known: PageId, parent: PageId | None, now: float) -> Discovered:
        """Queue one more visit of the *known* page."""
        batch, host = self._batch, self._table.get(link.host)
        turn, page_id = batch.turn, batch.new_visit()
        place = link.bucket if self._scores is None else self._scores.standing(known)
        sort_key = queue_rows.sort_key(link.priority, place, turn, page_id)
        batch.put(keys.page_key(page_id), page_rows.encode_page(page_of_link(link, parent, now)))
        self._queue.put(host, sort_key, now)
        return Discovered(Fate.VISIT, page_id)

    def _admit(self, link: Link, page_id: PageId, parent: PageId | None, now: float) -> Discovered:
        """Queue a page that was only seen so far, unless it is refused like a new one: then it stays seen,
        or waits for a budget."""
        if self._traps is not None and not link.is_named and (kind := trap(link.url, self._traps)):
            return Discovered(Fate.REFUSED, kind=kind, reason=kind)
        host = self._table.get(link.host)
        over = self._budgets.over(host, link.depth) if self._budgets.is_limited else None
        if over is not None:
            return self._put_off(link, host, over, parent, now, page_id)
        self._known.admit(link.fingerprint, page_id, link.is_in_memory)
        self._batch.put(keys.page_key(page_id), page_rows.encode_page(page_of_link(link, parent, now)))
        self._queue.put(host, self._queue.sort_key_again(page_id, link.priority), now)
        return Discovered(Fate.NEW, page_id)

    def _see(self, link: Link, parent: PageId | None, now: float) -> Discovered:
        """Make a page known without queueing it."""
        page_id = self._known.add_seen(link.fingerprint)
        page = page_of_link(link, parent, now)._replace(
            state=State.SEEN, payload=b"", changed=int(now), reason=link.only_seen
        )
        self._batch.put(keys.page_key(page_id), page_rows.encode_page(page))
        if self._scores is not None:
            self._scores.closed(page_id)
        return Discovered(Fate.SEEN, page_id)

    def _put_off(
        self,
        link: Link,
        host: Host,
        over: OverBudget,
        parent: PageId | None,
        now: float,
        seen_id: PageId | None = None,
    ) -> Discovered:
        """Keep the page of a link, new or only seen so far, for later, or only count it where enough are
        kept."""
        if not over.is_kept and not link.is_named:
            self._table.forget_if_idle(host, now)
            return Discovered(Fate.REFUSED, kind="over-budget", reason=over.reason)
        bucket = link.bucket if link.is_placed else 0
        if seen_id is None:
            page_id = self._known.add(link.fingerprint, link.is_in_memory)
            if self._scores is not None:
                place = self._scores.discovered(page_id, parent, link.host, link.priority, link.weight)
                self._scores.closed(page_id)
                if link.weight != 1.0:  # of which some scorers keep nothing themselves
                    bucket = bucket or place
        else:
            page_id = seen_id
            self._known.admit(link.fingerprint, page_id, link.is_in_memory)
        self._deferred.put(page_id, page_of_link(link, parent, now), host, over, now, link.depth, bucket)
        self._table.forget_if_idle(host, now)
        return Discovered(Fate.DEFERRED, page_id, kind="deferred", reason=over.reason)
