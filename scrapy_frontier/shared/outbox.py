"""Packs the batches of a shard, for its outbox and for the journal.

Each batch adds one row to the outbox, written atomically with the batch's own rows, so that a crash keeps
both or neither. A packed batch holds its rows, the letters that it sends to other shards, and the ids of the
letters that it took in. The journal, the log of a shard in PostgreSQL, holds rows alone, those of many
batches together, compressed.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

from ..core.errors import FrontierUnreadable
from ..core.store.keys import LAST_BATCH, OUTBOX, outbox_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ..core.store.leveldb import Store

FORMAT = b"\1"
DELETED = 0xFFFFFFFF  # the length of a value that there is not
_LENGTHS = struct.Struct("<II")
LEVEL = 1  # of zlib: higher ones cost three times as much for a tenth less


class Packed(NamedTuple):
    """A batch as it stands in the outbox: *rows* for the journal, *mail* as shard and letter, ids *taken*."""

    rows: bytes
    mail: list[tuple[int, bytes]]
    taken: list[int]


def pack_rows(rows: Iterable[tuple[bytes, bytes | None]]) -> bytes:
    """Pack *rows* in their order, None for one that is deleted; many such texts, one behind the other, are
    one text of all."""
    parts: list[bytes] = []
    for key, value in rows:
        parts += (_LENGTHS.pack(len(key), DELETED if value is None else len(value)), key, value or b"")
    return b"".join(parts)


def unpack_rows(packed: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the rows that `pack_rows` packed. Raises `FrontierUnreadable`."""
    at, end = 0, len(packed)
    while at < end:
        try:
            key_size, value_size = _LENGTHS.unpack_from(packed, at)
        except struct.error as error:
            raise FrontierUnreadable("a batch of a shared crawl ends in the middle of a row") from error
        start = at + _LENGTHS.size
        middle = start + key_size
        at = middle + (0 if value_size == DELETED else value_size)
        if at > end:
            raise FrontierUnreadable("a batch of a shared crawl ends in the middle of a row")
        yield packed[start:middle], None if value_size == DELETED else packed[middle:at]


def pack(
    rows: Mapping[bytes, bytes | None],
    mail: Iterable[tuple[int, bytes]] = (),
    taken: Iterable[int] = (),
) -> bytes:
    """Pack a batch for the outbox, as rows; about 2 us a row."""
    letters = [(shard.to_bytes(4, "big"), letter) for shard, letter in mail]
    ids = [(letter_id.to_bytes(8, "big"), None) for letter_id in taken]
    return FORMAT + pack_rows([(b"", pack_rows(rows.items())), *letters, *ids])


def unpack(packed: bytes) -> Packed:
    """Return the batch that `pack` packed. Raises `FrontierUnreadable`."""
    if not packed.startswith(FORMAT):
        raise FrontierUnreadable("a row of the outbox of a shared crawl is of another format")
    (_, rows), *rest = unpack_rows(packed[1:])
    mail = [(int.from_bytes(shard, "big"), letter) for shard, letter in rest if letter is not None]
    taken = [int.from_bytes(letter_id, "big") for letter_id, letter in rest if letter is None]
    return Packed(rows or b"", mail, taken)


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

    The crawl and the thread that sends the batches tell each other here: ``is_lost`` (by the thread), another
    process may have the shard; ``is_open`` and ``is_finished`` (by the crawl), it works on the shard, and
    writes it no more; ``totals``, what it holds, as JSON; ``idle_as_of``, the last batch if nothing is left
    to fetch after that, else -1.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.is_lost = self.is_open = self.is_finished = False
        self.totals, self.idle_as_of = "{}", -1
        self.last = int.from_bytes(store.get(LAST_BATCH) or b"", "big")
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
        for key, packed in self.store.scan(OUTBOX, after=since.to_bytes(8, "big"), limit=most):
            number = int.from_bytes(key[1:], "big")
            if number > self.last or total >= size:
                break
            found.append((number, unpack(packed)))
            total += len(packed)
        return found

    def drop(self, upto: int) -> None:
        """Remove the batches up to that number, which the database has had for long. In any thread."""
        last = upto.to_bytes(8, "big")
        while old := [OUTBOX + key for key in self.store.keys_of(OUTBOX, b"", 1000) if key <= last]:
            self.store.write(dict.fromkeys(old))
