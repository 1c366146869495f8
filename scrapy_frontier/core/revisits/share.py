"""How visits are shared: between new pages and those that come back, and among these with hubs."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from ..hosts.host import READY
from ..store.keys import State

if TYPE_CHECKING:
    from ..hosts.host import DueQueue, Host
    from ..hosts.hosts import Hosts
    from ..store.batch import Batch

_AHEAD = 8.0  # hubs that may come before all others at once
_MOST = 4.0  # visits that one kind of pages may be behind the other
_LOOKED_AT = 16  # hosts for one turn


class HubShare:
    """Lets hubs come before all other due pages, whatever their value, up to their *share* of these; further
    hubs have the place that their value gives them."""

    def __init__(self, share: float) -> None:
        self._gain = share / (1.0 - share) if share < 1.0 else inf
        self._ahead = _AHEAD if share else 0.0

    def let_in(self, is_hub: bool) -> bool:
        """Return whether the next due page comes first, and count it. Every page that is no hub makes room
        for share / (1 - share) hubs, up to 8."""
        if not is_hub:
            self._ahead = min(self._ahead + self._gain, _AHEAD)
            return False
        is_let_in = self._ahead >= 1.0
        self._ahead -= is_let_in
        return is_let_in


class RevisitShare:
    """Gives due pages their *share* of the visits while new pages wait too: over all hosts, and on each host
    that has both.

    ``credit`` counts the visits that due pages are behind over all; `DueQueue.credit` those of a host.
    """

    def __init__(self, batch: Batch, hosts: Hosts, share: float) -> None:
        self._counts = batch.counts
        self._hosts = hosts
        self._share = share
        self.credit = 0.0
        self._before: tuple[float, DueQueue | None, float] = 0.0, None, 0.0  # the last hand-out

    def handed_out(self, host: Host, is_due: bool) -> None:
        """Count a page that is handed out: for the other kind, where both kinds wait."""
        due, counts = host.due, self._counts
        gain = self._share - is_due
        self._before = self.credit, due, 0.0 if due is None else due.credit
        if counts.queued_again and counts.states[State.QUEUED]:
            self.credit = _within(self.credit + gain)
        if due is not None:
            due.credit = _within(due.credit + gain) if host.queued and host.queued_again else 0.0

    def taken_back(self) -> None:
        """Undo `handed_out` of the last page."""
        self.credit, due, credit = self._before
        if due is not None:
            due.credit = credit

    def turn(self, otherwise: Host) -> tuple[Host, bool]:
        """Return the host that is asked next, and whether for a due page: the next ready one with due pages
        if it is their turn, else the host *otherwise*. Looks at 16 hosts at most."""
        line = self._hosts.with_due
        if self.credit >= 1.0:
            for name in list(line)[:_LOOKED_AT]:
                host = self._hosts.find(name)
                del line[name]
                if host is None or host.due is None or not host.queued_again:
                    continue
                line[name] = None
                if self._may_be_asked(host):
                    return host, True
        return otherwise, not otherwise.heads

    def _may_be_asked(self, host: Host) -> bool:
        if host.state is not READY or host.due is None or not host.due.heads:
            return False
        if self._hosts.is_over_rate(host):
            return False
        return not host.heads or host.due.credit >= 1.0


def _within(credit: float) -> float:
    return min(max(credit, -_MOST), _MOST)
