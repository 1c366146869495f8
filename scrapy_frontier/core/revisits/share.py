"""How the visits are shared between what is new and what comes back, while both wait."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from ..hosts.domain import OVER_HARD, HostState
from ..store.due_rows import COMES_BACK
from ..store.states import State

if TYPE_CHECKING:
    from ..hosts.host import Host
    from ..hosts.ready_hosts import Hosts
    from ..store.batch import Batch

_AHEAD = 8.0  # hubs that may come before all others at once
_MOST = 4.0  # visits that one of the two may be behind
_LOOKED_AT = 16  # hosts for one turn
_FIND_AGAIN = 256  # turns until the hosts in memory are looked through once more


class HubShare:
    """Lets hubs come before all others that are due, whatever they are worth, no more of these than their
    *share*: the others have the place that their worth gives them."""

    def __init__(self, share: float) -> None:
        self._gain = share / (1.0 - share) if share < 1.0 else inf
        self._ahead = _AHEAD if share else 0.0

    def let_in(self, is_hub: bool) -> bool:
        """Whether the next page that is due comes first: only a hub does, while its kind has a place saved.
        Every other page saves it share / (1 - share) of one, 8 at most; they begin with 8, without a
        share with none. Counts the page."""
        if not is_hub:
            self._ahead = min(self._ahead + self._gain, _AHEAD)
            return False
        is_let_in = self._ahead >= 1.0
        self._ahead -= is_let_in
        return is_let_in


class RevisitShare:
    """Gives pages that come back their *share* of the visits, over all and on each host that has both: they
    stand in the queues behind all that is new, and are taken out of turn.

    ``credit`` counts the visits they are behind.
    """

    def __init__(self, batch: Batch, hosts: Hosts, share: float) -> None:
        self._batch = batch
        self._hosts = hosts
        self._share = share
        self.credit = 0.0
        self._own: dict[str, float] = {}  # of hosts that have both
        self._before: tuple[float, str, float | None] = 0.0, "", None  # the last hand-out
        self._line: dict[str, None] = {}  # hosts with such pages, whose turn comes next first
        self._unasked = 0  # turns until the line is made anew

    def joins(self, host: Host) -> None:
        """A page of *host* that came back is queued: the host has its turn behind the others that have such
        pages."""
        self._line.setdefault(host.name)

    def handed_out(self, host: Host, sort_key: bytes) -> None:
        """A page is handed out, of whichever kind: count it, while both kinds wait, against the share of its
        own."""
        counts = self._batch.counts
        gain = self._share - sort_key.startswith(COMES_BACK)
        self._before = self.credit, host.name, self._own.get(host.name)
        if 0 < counts.queued_again < counts.states[State.QUEUED]:
            self.credit = min(max(self.credit + gain, -_MOST), _MOST)
        if 0 < host.queued_again < host.queued:
            own = self._own.get(host.name, 0.0)
            self._own[host.name] = min(max(own + gain, -_MOST), _MOST)
        elif self._own:
            self._own.pop(host.name, None)

    def taken_back(self) -> None:
        """The page handed out last was none after all: what was counted for it goes back."""
        self.credit, name, own = self._before
        if own is not None:
            self._own[name] = own
        else:
            self._own.pop(name, None)

    def turn(self, otherwise: Host) -> tuple[Host, bytes | None]:
        """If it is their turn, a host that may be asked for a page that came back and the sort key of its
        best; else *otherwise*, for its best of all. Some 16 hosts are looked at, one seek each."""
        if self.credit < 1.0:
            return otherwise, None
        if not self._line:
            self._find()
        for _ in range(min(_LOOKED_AT, len(self._line))):
            name = next(iter(self._line))
            del self._line[name]
            host = self._hosts.find(name)
            if host is None or not host.queued_again:
                self._own.pop(name, None)
                continue
            self._line[name] = None
            if host.state is not HostState.READY or not host.heads:
                continue
            if host.domain is not None and host.domain.level == OVER_HARD:
                continue
            if not host.heads[0].startswith(COMES_BACK) and self._own.get(name, 0.0) < 1.0:
                continue
            sort_key = self._best_of(host)
            if sort_key is not None:
                return host, sort_key
        return otherwise, None

    def _find(self) -> None:
        """Those that earlier runs left."""
        self._unasked -= 1
        if self._unasked < 0 and self._batch.counts.queued_again:
            self._unasked = _FIND_AGAIN
            self._line = {name: None for name, host in self._hosts.by_name.items() if host.queued_again}

    def _best_of(self, host: Host) -> bytes | None:
        batch = self._batch
        for sort_key in self._batch.store.keys_of(host.prefix, COMES_BACK, 1 + len(host.leased) + batch.ends):
            # Its end may not be written yet.
            is_there = batch.rows.get(host.prefix + sort_key, b"") is not None
            if is_there and sort_key not in host.leased:
                return sort_key
        return None
