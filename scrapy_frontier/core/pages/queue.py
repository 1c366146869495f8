"""Pages in the queues of their hosts: put there and taken away, with all that has to know of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..store import due_rows, keys, queue_keys
from ..store.due_rows import COMES_BACK
from ..store.score_codes import NEUTRAL
from ..store.states import State

if TYPE_CHECKING:
    from ..hosts.budgets import Budgets
    from ..hosts.host import Host
    from ..hosts.load_hosts import HostTable
    from ..hosts.ready_hosts import Hosts
    from ..store.batch import Batch
    from ..store.keys import PageId
    from .rescoring import Rescoring


@dataclass(eq=False, repr=False)
class Queue:
    """The queue rows of all hosts, in the open batch, in memory and in the columns of *scores*; all three
    agree."""

    _batch: Batch
    _hosts: Hosts
    _table: HostTable
    _budgets: Budgets
    _scores: Rescoring | None
    # Ids of pages set aside since somebody last looked.
    _unreadable: list[int] = field(default_factory=list, init=False)
    came_again: set[PageId] = field(default_factory=set, init=False)  # by `put_behind`, within a visit
    _turn = 0
    _due_turn = 0  # of pages that come back: their sort keys have room for few

    def put(self, host: Host, sort_key: bytes, now: float) -> None:
        """Queue a page of *host* with that sort key, in the open batch, and give the host its place. O(log
        hosts)."""
        self._batch.queue(host, sort_key)
        if self._scores is not None:
            self._scores.queued(host.name, sort_key)
        host.add(sort_key)
        self._hosts.put(host, now)
        self._budgets.note(host)

    def put_back(self, host: Host, sort_key: bytes, now: float) -> None:
        """`put` for a page that was handed out before: one in `WAITED_TURN` turns of its host goes to
        these."""
        self.put(host, sort_key, now)
        host.note_waited(sort_key)

    def put_behind(self, host: Host, sort_key: bytes, priority: int, now: float) -> None:
        """`put_back` for a page that might be the next one for ever: from the second time on, before it is
        `visited`, it comes behind all of its *priority*, what is found later too, and behind others that do.
        O(log hosts); its id stays in memory until then."""
        page_id = queue_keys.sort_key_id(sort_key)
        if page_id not in self.came_again:
            self.came_again.add(page_id)
            self.put_back(host, sort_key, now)
        elif due_rows.is_sort_key_of_due(sort_key):
            self._due_turn = max(self._due_turn, due_rows.turn_in(sort_key)) + 1
            self.put(host, due_rows.last_sort_key_of_due(sort_key, self._due_turn), now)
        else:  # as one of the next lower priority; those that an earlier run put there are behind, too
            before = queue_keys.read_sort_key(sort_key).arrival
            self._turn = max(self._turn, before, self._batch.arrival) + 1
            self.put(host, queue_keys.sort_key(priority - 1, NEUTRAL, self._turn, page_id), now)

    def visited(self, page_id: PageId) -> None:
        """The visit of a page is over: the next one is put back at once again. To be called where it is one
        of ``came_again``, and harmless elsewhere."""
        self.came_again.discard(page_id)

    def remove(self, host: Host, sort_key: bytes) -> None:
        """Have the queue row of a page that was handed out go, in the open batch; *host* counts one less."""
        self._batch.unqueue(host, sort_key)
        host.drop_sort_key(sort_key)

    def sort_key_again(self, page_id: PageId, priority: int) -> bytes:
        """The sort key of a page that is queued later than it was discovered: behind its equals that wait by
        now. Its bucket is what the scorer thinks of it."""
        bucket = NEUTRAL if self._scores is None else self._scores.opened(page_id)
        return queue_keys.sort_key(priority, bucket, self._batch.arrival, page_id)

    def set_aside(self, host: Host, sort_key: bytes) -> None:
        """The page with that row cannot be read: keep its bytes where they block nothing; it fails.

        In the open batch; its id is told by `Frontier.news`. One lookup.
        """
        page_id = queue_keys.sort_key_id(sort_key)
        self._batch.rows[keys.aside_key(page_id)] = self._batch.get(keys.page_key(page_id)) or b""
        self.remove(host, sort_key)
        if page_id < keys.FIRST_VISIT:
            if sort_key.startswith(COMES_BACK):  # as what it counts until now its row alone knew
                self._batch.count_queued_again(host, -1)
                self._batch.count_ended(host, State.DONE, -1)
            self._batch.count_ended(host, State.FAILED)
            if self._scores is not None:
                self._scores.closed(page_id)
        self._unreadable.append(page_id)

    def take_unreadable(self) -> tuple[int, ...]:
        """Ids of the pages that were set aside since this was asked last."""
        found = tuple(self._unreadable)
        self._unreadable.clear()
        return found

    def place_moved(self, now: float) -> None:
        """Give hosts whose queue rows were moved, and written, the heads and the place they deserve. To be
        called only where there is a scorer, after a commit. Some reads for a host whose heads are not
        known."""
        assert self._scores is not None
        moved = self._scores.take_moved()
        for host in moved:
            if host.more and (not host.heads or host.heads[0] > host.cursor):
                self._table.fill(host)
        by_name = self._hosts.by_name
        moved = [host for host in moved if by_name.get(host.name) is host]  # and not asleep
        for host in moved:  # only now: giving one a place may look at the heads of all
            self._hosts.put(host, now)
