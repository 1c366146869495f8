"""What a check notes: of each page flags and a checksum of its host, five bytes; of each host its pages.

Kept in pieces of 4096 ids, so that ids that are far apart (further visits of pages, damaged keys) cost no
more than a piece each: 10,000,000 pages take 50 MB.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING
from zlib import crc32

from .store.states import State

if TYPE_CHECKING:
    from collections.abc import Iterator

KNOWN = 1  # has a page row
QUEUED = 2  # its row says so
PLACED = 4  # a queue row or waiting row leads to it
INDEXED = 8  # an index row leads to it
UNREADABLE = 16  # its row does not decode
MISPLACED = 32  # a queue row of another host leads to it
DEFERRED = 64  # its row says it waits for room in a budget

_PIECE = 4096


class Ledger:
    def __init__(self) -> None:
        self._flags: dict[int, bytearray] = {}
        self._hosts: dict[int, array[int]] = {}

    def __getitem__(self, page_id: int) -> int:
        """The flags of a page, 0 for one nothing is known about."""
        piece = self._flags.get(page_id // _PIECE)
        return piece[page_id % _PIECE] if piece is not None else 0

    def enter(self, page_id: int, flags: int, host: str) -> None:
        number, offset = divmod(page_id, _PIECE)
        if number not in self._flags:
            self._flags[number] = bytearray(_PIECE)
            self._hosts[number] = array("I", bytes(4 * _PIECE))
        self._flags[number][offset] = flags
        self._hosts[number][offset] = crc32(host.encode())

    def add(self, page_id: int, flag: int) -> None:
        """Add a flag to a page that was entered."""
        self._flags[page_id // _PIECE][page_id % _PIECE] |= flag

    def strike(self, page_id: int) -> None:
        """Take a page out that was entered."""
        self._flags[page_id // _PIECE][page_id % _PIECE] = 0

    def is_of(self, page_id: int, host: str) -> bool:
        """Whether a page that was entered belongs to *host*, as far as a checksum can tell."""
        return self._hosts[page_id // _PIECE][page_id % _PIECE] == crc32(host.encode())

    def having(self, flags: int, but_not: int = 0) -> Iterator[int]:
        """Ids of the pages that have all of *flags* and none of *but_not*, in order."""
        for number in sorted(self._flags):
            for offset, found in enumerate(self._flags[number]):
                if found & flags == flags and not found & but_not:
                    yield number * _PIECE + offset


_COLUMNS = {State.QUEUED: 0, State.FAILED: 2, State.GONE: 2}  # all others are done


class Tally:
    """Pages counted anew: per state, and per host as [queued, done, failed, deferred, excluded, answered]."""

    def __init__(self) -> None:
        self.states = [0] * len(State)
        self.hosts: dict[str, list[int]] = {}

    def count(self, host: str, state: State, change: int = 1, status: int = 0) -> None:
        """The rule of `Journal.count_ended`, and of `count_queued`."""
        self.states[state] += change
        if state is State.SEEN:
            return
        of_host = self.hosts.setdefault(host, [0] * 6)
        of_host[_COLUMNS.get(state, 1)] += change
        if state is State.EXCLUDED:
            of_host[4] += change
            if status:
                of_host[5] += change

    def count_deferred(self, host: str, change: int = 1) -> None:
        """Besides, for a page that waits for a budget."""
        self.hosts.setdefault(host, [0] * 6)[3] += change
