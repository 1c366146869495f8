"""Packs the batches of a shard, for its outbox and for the journal.

Each batch adds one row to the outbox, written atomically with the batch's own rows, so that a crash keeps
both or neither. A packed batch holds its rows, the letters that it sends to other shards, and the ids of the
letters that it took in. The journal, the log of a shard in PostgreSQL, holds rows alone, those of many
batches together, compressed.
"""

from __future__ import annotations

import struct
import zlib
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from ..core.errors import FrontierUnreadable
from ..core.store.keys import LAST_BATCH, OUTBOX, outbox_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ..core.store.leveldb import Store

FORMAT = b"\1"
CUT = "a batch of a shared crawl ends in the middle of a row"
LEVEL = 1  # of zlib: higher ones cost three times as much for a tenth less
DROPPED = 1000  # batches that are removed in one write


class Packed(NamedTuple):
    """A batch as it stands in the outbox: *rows* for the journal, *mail* as shard and letter, ids *taken*."""

    rows: bytes
    mail: list[tuple[int, bytes]]
    taken: list[int]


def pack_parts(parts: Sequence[bytes]) -> bytes:
    """Pack *parts*: how many, the length of each, all in their order."""
    return struct.pack(f"<{1 + len(parts)}I", len(parts), *map(len, parts)) + b"".join(parts)


def unpack_parts(packed: bytes, at: int = 0) -> tuple[list[bytes], int]:
    """Return the parts that were packed from *at* on, and where they end. Raises `FrontierUnreadable`."""
    try:
        (count,) = struct.unpack_from("<I", packed, at)
        lengths = struct.unpack_from(f"<{count}I", packed, at + 4)
    except struct.error as error:
        raise FrontierUnreadable(CUT) from error
    ends = list(accumulate(lengths, initial=at + 4 + 4 * count))
    if ends[-1] > len(packed):
        raise FrontierUnreadable(CUT)
    return [packed[start:end] for start, end in pairwise(ends)], ends[-1]


def pack_rows(rows: Mapping[bytes, bytes | None]) -> bytes:
    """Pack *rows*, None for one that is deleted; many such texts, one behind the other, are one text of all.
    10 us for the rows of a page with seven new links."""
    kept = {key: value for key, value in rows.items() if value is not None}
    return pack_parts([*kept, *kept.values()]) + pack_parts([key for key in rows if key not in kept])


def unpack_rows(packed: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the rows that `pack_rows` packed. Raises `FrontierUnreadable`."""
    at = 0
    while at < len(packed):
        kept, at = unpack_parts(packed, at)
        deleted, at = unpack_parts(packed, at)
        half = len(kept) // 2
        yield from zip(kept[:half], kept[half:], strict=True)
        yield from dict.fromkeys(deleted).items()


def pack(
    rows: Mapping[bytes, bytes | None],
    mail: Iterable[tuple[int, bytes]] = (),
    taken: Sequence[int] = (),
) -> bytes:
    """Pack a batch for the outbox."""
    letters = [shard.to_bytes(4, "big") + letter for shard, letter in mail]
    ids = struct.pack(f"<{len(taken)}Q", *taken)
    return FORMAT + pack_parts([pack_rows(rows), ids, *letters])


def unpack(packed: bytes) -> Packed:
    """Return the batch that `pack` packed. Raises `FrontierUnreadable`."""
    if not packed.startswith(FORMAT):
        raise FrontierUnreadable("a row of the outbox of a shared crawl is missing, or of another format")
    rows, ids, *letters = unpack_parts(packed, len(FORMAT))[0]
    mail = [(int.from_bytes(letter[:4], "big"), letter[4:]) for letter in letters]
    return Packed(rows, mail, [number for (number,) in struct.iter_unpack("<Q", ids)])


def compress(packed: Iterable[bytes]) -> bytes:
    """Return packed rows, in their order, as the journal holds them."""
    compressor = zlib.compressobj(LEVEL)
    return FORMAT + b"".join([compressor.compress(rows) for rows in packed]) + compressor.flush()


def decompress(logged: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the rows of an entry of the journal. Raises `FrontierUnreadable`."""
    if not logged.startswith(FORMAT):
        raise FrontierUnreadable("an entry of the journal of a shared crawl is of another format")
    try:
        packed = zlib.decompress(logged[1:])
    except zlib.error as error:
        raise FrontierUnreadable(f"an entry of the journal of a shared crawl is damaged ({error})") from error
    yield from unpack_rows(packed)


class Outbox:
    """Numbers the batches of a copy, and keeps each in the *store* until the database has it.

    `add_to` is the ``before_commit`` of the frontier of the copy. ``last`` is the number of its last batch;
    it may be read in another thread, and is no larger than what the store has.

    The crawl and the thread that sends the batches tell each other here. The thread: ``was_of_another``, the
    hosts of the shard may have been asked until just now; ``is_lost``, another process may have the shard.
    The crawl: ``is_open`` and ``is_finished``, it works on the shard, and writes it no more; ``totals``, what
    it holds, as JSON; ``idle_as_of``, the last batch if nothing is left to fetch after that, else -1.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.was_of_another = self.is_lost = self.is_open = self.is_finished = False
        self.totals, self.idle_as_of = "{}", -1
        self.last = int.from_bytes(store.get(LAST_BATCH) or b"", "big")
        oldest = next(iter(store.keys_of(OUTBOX, b"", 1)), None)
        self._first = self.last + 1 if oldest is None else int.from_bytes(oldest, "big")
        self._mail: list[tuple[int, Callable[[], bytes]]] = []
        self._taken: list[int] = []

    @property
    def may_be_closed(self) -> bool:
        """Whether nothing reads or writes the store any more but the thread that sends. In any thread."""
        return self.is_finished and not self.store.rankings

    def post(self, shard: int, letter: Callable[[], bytes]) -> None:
        """Send what *letter* returns when the open batch is written, to *shard*."""
        self._mail.append((shard, letter))

    def took(self, letter_id: int) -> None:
        """Note that the open batch took in the letter with this id."""
        self._taken.append(letter_id)

    def add_to(self, rows: dict[bytes, bytes | None]) -> None:
        """Add to a batch of *rows* its row of the outbox."""
        number = self.last + 1
        packed = pack(rows, [(shard, letter()) for shard, letter in self._mail], self._taken)
        rows[outbox_key(number)] = packed
        rows[LAST_BATCH] = number.to_bytes(8, "big")

    def was_written(self, _rows: object = None) -> None:
        """Note that the batch that `add_to` saw is in the store: the ``on_commit`` of the frontier."""
        self.last += 1
        self._mail.clear()
        self._taken.clear()

    def follows(self, sent: int) -> bool:
        """Whether the outbox goes on without a gap behind the batch that was *sent* last. In any thread."""
        last = self.last  # which may grow meanwhile
        numbers = [int.from_bytes(key, "big") for key in self.store.keys_of(OUTBOX, b"", 1 << 30)]
        waiting = [number for number in numbers if sent < number <= last]
        return last >= sent and waiting == list(range(sent + 1, last + 1))

    def batches(self, since: int, most: int, size: int) -> list[tuple[int, Packed]]:
        """Return the batches after number *since*, at most so many, and no more once they have *size*
        bytes. May be called in another thread."""
        found, total = [], 0
        first = max(since + 1, self._first)
        for number in range(first, min(first + most, self.last + 1)):
            packed = self.store.get(outbox_key(number)) or b""
            found.append((number, unpack(packed)))
            total += len(packed)
            if total >= size:
                break
        return found

    def drop(self, upto: int) -> None:
        """Remove the batches up to that number, which the database has had for long. In any thread."""
        while self._first <= upto:
            after = min(self._first + DROPPED, upto + 1)
            self.store.write(dict.fromkeys(outbox_key(number) for number in range(self._first, after)))
            self._first = after
