"""Shares visits between new pages and pages that come back.

While pages of both kinds are queued, each hand-out adds the share of due pages to a credit, and each due page
takes one off: due pages have their turn while the credit is positive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..hosts.host import READY
from ..store.keys import State

if TYPE_CHECKING:
    from ..hosts.host import Host
    from ..hosts.hosts import Hosts
    from ..store.batch import Batch

_MOST = 4.0  # visits that one kind of pages may be behind
_LOOKED_AT = 16  # hosts that one turn looks at


class RevisitShare:
    """Gives due pages their *share* of the visits while new pages are queued, too; ``credit`` is the number
    of visits that due pages are owed."""

    def __init__(self, batch: Batch, hosts: Hosts, share: float) -> None:
        self._counts = batch.counts
        self._hosts = hosts
        self._share = share
        self.credit = self._before = 0.0  # now, and before the last hand-out

    def handed_out(self, is_due: bool) -> None:
        """Update the credit for a page that is handed out, if pages of both kinds are queued."""
        counts, self._before = self._counts, self.credit
        if counts.queued_again and counts.states[State.QUEUED]:
            self.credit = min(max(self.credit + self._share - is_due, -_MOST), _MOST)

    def taken_back(self) -> None:
        """Undo `handed_out` of the last page."""
        self.credit = self._before

    def turn(self, otherwise: Host) -> tuple[Host, bool]:
        """Return the host to lease from, and whether a due page: the next ready host with due pages if it is
        their turn, else the host *otherwise*."""
        line = self._hosts.with_due
        if self.credit >= 1.0:
            for name in list(line)[:_LOOKED_AT]:
                host = self._hosts.find(name)
                del line[name]
                if host is None or host.due is None or not host.queued_again:
                    continue
                line[name] = None
                if host.state is READY and host.due.heads and not self._hosts.is_over_rate(host):
                    return host, True
        return otherwise, not otherwise.heads
