"""Pages in: links discovered, seen, refused, deferred, and queued again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import UnreadableRecord
from ..hosts.host import Host, Place
from ..parse.urls import host_of
from ..store import keys, page_rows, queue_rows, site_rows
from ..store.page_rows import Page
from ..store.site_rows import Listing
from ..store.states import State
from .known import Known
from .lifecycle import TABLE, Event
from .links import NEUTRAL, Link, Refusal, encode_link, page_of_link
from .traps import trap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .budgets import OverBudget

_MOST_FRESH = 100  # new pages in one batch: a seed list must not pile up in memory


class Discovery(Known):
    """The verbs that make pages known."""

    # -- pages in --------------------------------------------------------------------------------------

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
        journal = self._journal
        if len(journal.fresh) >= _MOST_FRESH or journal.failure is not None:
            self._make_room()
        if self._budgets.is_limited or (self._traps is not None and trap(url, self._traps) is not None):
            link = Link(
                fingerprint, url, host_name, priority, payload, parent, link_score=link_score, depth=depth
            )
            return self._discover(link, now)
        host = self._hosts.by_name.get(host_name) or self._host(host_name)
        record = page_rows.encode_new_page(url, priority, int(now), parent, payload)
        return self._queue_page(host, fingerprint, record, priority, parent, link_score, now)

    def _make_room(self) -> None:
        self._journal.check()
        if len(self._journal.fresh) >= _MOST_FRESH:
            self.commit()

    def _discover(self, link: Link, now: float) -> int | None:
        known = self.look_up(link.fingerprint)
        if known is not None and known < 0:
            if link.fingerprint in self._journal.fresh or self._is_only_seen(~known):
                return self._admit(~known, link, now)
            known = ~known
        if known is not None and not link.again:
            return None
        if known is None and self._traps is not None and (kind := self._trap(link)) is not None:
            return self._refuse(link, kind, kind)
        host = self._hosts.by_name.get(link.host) or self._host(link.host)
        if known is not None:
            return self._queue_visit(link, host, known, now)
        if self._budgets.is_limited:
            over = self._budgets.over(host, link.depth)
            if over is not None:
                return self._defer_link(link, host, over, now)
        page_id = self._queue_page(
            host,
            link.fingerprint,
            encode_link(link, now),
            link.priority,
            link.parent,
            link.link_score,
            now,
            link.bucket,
            link.is_placed,
        )
        if link.is_in_memory:
            self._journal.mark(link.fingerprint, page_id)
        return page_id

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
    ) -> int:
        """Queue a new page."""
        journal, rescoring = self._journal, self.rescoring
        page_id = journal.counts.next_page
        if rescoring is not None:
            place = rescoring.discovered(page_id, parent, host.name, priority, link_score)
            bucket = bucket if is_placed else place
        sort_key = queue_rows.sort_key(priority, bucket, page_id, page_id)
        if rescoring is not None and is_placed:
            rescoring.queued(host.name, sort_key)
        journal.queue_page(page_id, fingerprint, record, host, sort_key)
        if host.tally is not None:
            self._budgets.note(host)
        self.is_head = is_head = host.add(sort_key)
        if (is_head and host.place is not Place.COOLING) or host.place is Place.IDLE:
            self._hosts.put(host, now)
        return page_id

    def _queue_visit(self, link: Link, host: Host, known: int, now: float) -> int:
        """Queue one more visit of the *known* page."""
        journal = self._journal
        turn, page_id = journal.turn, journal.new_visit()
        place = link.bucket if self.rescoring is None else self.rescoring.standing(known)
        sort_key = queue_rows.sort_key(link.priority, place, turn, page_id)
        journal.put(keys.page_key(page_id), encode_link(link, now))
        journal.queue(host, sort_key)
        if host.tally is not None:
            self._budgets.note(host)
        is_head = host.add(sort_key)
        if host.place is Place.IDLE or (is_head and host.place is not Place.COOLING):
            self._hosts.put(host, now)
        return page_id

    def _is_only_seen(self, page_id: int) -> bool:
        try:
            page = page_rows.decode_page(self._store.get(keys.page_key(page_id)) or b"")
        except UnreadableRecord:
            return False
        return page.state is State.SEEN and not page.is_deferred

    def _trap(self, link: Link) -> str | None:
        """Which kind of trap a link looks like."""
        return None if self._traps is None or link.is_named else trap(link.url, self._traps)

    def _admit(self, page_id: int, link: Link, now: float) -> int | None:
        """Queue a page that was only seen so far, unless it is refused like a new one: then it stays seen,
        or waits for a budget."""
        kind = self._trap(link)
        if kind is not None:
            return self._refuse(link, kind, kind)
        host = self._host(link.host)
        over = self._budgets.over(host, link.depth) if self._budgets.is_limited else None
        if over is not None:
            return self._defer_link(link, host, over, now, page_id)
        self._journal.admit(link.fingerprint, page_id, link.is_in_memory)
        self._journal.put(keys.page_key(page_id), encode_link(link, now))
        self._queue(host, self._again(page_id, link.priority), now)
        return page_id

    def _again(self, page_id: int, priority: int) -> bytes:
        """The sort key of a page that is queued later than it was discovered."""
        place = NEUTRAL if self.rescoring is None else self.rescoring.opened(page_id)
        return queue_rows.sort_key(priority, place, self._journal.turn, page_id)

    def note_seen(self, links: Iterable[Link], now: float, reason: str) -> list[int | None]:
        """Make pages known without queueing them, for *reason*: their ids, also of those known before; None
        for a trap, which leaves no trace.

        A link that is discovered later queues them. Durable with the next batch.
        """
        self._journal.check()
        return [self._see(link, now, reason) for link in links]

    def _see(self, link: Link, now: float, reason: str) -> int | None:
        known = self.find(link.fingerprint)
        if known is not None or self._trap(link) is not None:
            return known
        page_id = self._journal.new_seen_page(link.fingerprint)
        page = page_of_link(link, now)._replace(
            state=State.SEEN, payload=b"", changed=int(now), reason=reason
        )
        self._journal.put(keys.page_key(page_id), page_rows.encode_page(page))
        if self.rescoring is not None:
            self.rescoring.closed(page_id)
        return page_id

    def requeue(self, page_id: int, now: float, payload: bytes, priority: int) -> bool:
        """Queue a finished page again, its attempts forgotten; false for one that is not finished."""
        self._journal.check()
        page = self.page(page_id)
        if page is None or (page.state, Event.REQUEUED) not in TABLE:
            return False
        host = self._host(page.host or host_of(page.url))
        was_seen = page.state is State.SEEN and not page.is_deferred
        if page.is_deferred:
            self._deferral.remove(page_id, host)
        else:
            self._journal.count_ended(host, page.state, -1, page.status)
        page = Page(page.url, State.QUEUED, 0, priority, page.discovered, page.parent, page.host, payload)
        self._journal.put(keys.page_key(page_id), page_rows.encode_page(page))
        self._queue(host, self._again(page_id, priority), now)
        if was_seen:  # its index row says so for ever, and only the page's own row that it is no more
            self.commit()
        return True

    def listing(self, authority: str) -> Listing:
        """What is known of the sitemaps of *authority*; one lookup."""
        self.commit()
        stored = self._store.get(keys.listing_key(authority))
        try:
            return site_rows.decode_listing(stored) if stored is not None else Listing()
        except UnreadableRecord:  # then it is contacted again, and finds its sitemaps known
            return Listing()

    def note_listing(self, authority: str, listing: Listing) -> None:
        """Remember *listing*: in one batch with what was discovered before, or a later one."""
        self._journal.check()
        self._journal.put(keys.listing_key(authority), site_rows.encode_listing(listing))
        self._journal.is_open = True

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
            self._forget_if_idle(host, now)
            return self._refuse(link, "over-budget", over.reason)
        bucket = link.bucket if link.is_placed else 0
        if seen_id is None:
            page_id = self._journal.new_page(link.fingerprint, link.is_in_memory)
            if self.rescoring is not None:
                place = self.rescoring.discovered(
                    page_id, link.parent, link.host, link.priority, link.link_score
                )
                self.rescoring.closed(page_id)
                if link.link_score != 1.0:  # of which some scorers keep nothing themselves
                    bucket = bucket or place
        else:
            page_id = seen_id
            self._journal.admit(link.fingerprint, page_id, link.is_in_memory)
        self._deferral.put(page_id, page_of_link(link, now), host, over, now, link.depth, bucket)
        self._forget_if_idle(host, now)
        return self._refuse(link, "deferred", over.reason, page_id)

    def _spill(self, host: Host, now: float) -> bool:
        """Defer the head of a host whose budget of pages is used up; false where it may be fetched."""
        over = self._budgets.spent(host)
        sort_key = host.heads[0]
        page_id = queue_rows.sort_key_id(sort_key)
        if over is None or page_id >= keys.FIRST_VISIT:
            return False
        del host.heads[0]
        page = self._read(host, sort_key, page_id)
        if page is not None:
            self._journal.unqueue(host, sort_key)
            if self.rescoring is not None:
                self.rescoring.closed(page_id)
            self._deferral.put(page_id, page, host, over, now, bucket=queue_rows.sort_key_bucket(sort_key))
        else:
            self._budgets.freed(host)
        if host.more and host.needs_sort_keys():
            self._fill(host)
        self._hosts.put(host, now)
        self._forget_if_idle(host, now)
        return True

    def _read(self, host: Host, sort_key: bytes, page_id: int) -> Page | None:
        stored = self._store.get(keys.page_key(page_id)) or b""
        try:
            return page_rows.decode_page(stored)
        except UnreadableRecord:  # keep the bytes where they block nothing
            self._journal.put(keys.aside_key(page_id), stored)
            self._journal.unqueue(host, sort_key)
            if page_id < keys.FIRST_VISIT:
                self._journal.count_ended(host, State.FAILED)
                if self.rescoring is not None:
                    self.rescoring.closed(page_id)
            self.unreadable.append(page_id)
            return None
