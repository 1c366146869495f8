"""LevelDB's tables and logs byte by byte: what is sound in a damaged one, in a form its own repair can use.

LevelDB's repair (1.22) gives up a table whose end is damaged, with all that stands before it, and believes
the log records whatever their checksums say. `mended_table` and `mended_log` are for these two. After
LevelDB's ``table_format.md`` and ``log_format.md``; nothing here opens a file. 10 MB/s, for all is checked.

How LevelDB makes sure of its bytes, and how it packs them: CRC-32C, and Snappy.
"""

from __future__ import annotations

import struct
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from . import varint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from mmap import mmap

    import numpy as np
    from numpy.typing import NDArray

_STEP = 4096  # bytes that one checksum step takes in


@cache
def crc_tables() -> NDArray[np.uint32]:
    """What each byte adds to a CRC-32C by how many bytes follow it, up to `_STEP`; 4 MB, 30 ms."""
    import numpy as np  # opening a store, which needs no checksums, does not load it

    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = first >> 1 ^ np.where(first & 1, np.uint32(0x82F63B78), np.uint32(0))
    tables = np.empty((_STEP, 256), np.uint32)
    tables[0] = first
    for number in range(1, _STEP):
        tables[number] = first[tables[number - 1] & 255] ^ tables[number - 1] >> 8
    return tables


def checksum(raw: bytes) -> int:
    """CRC-32C of *raw*, masked as LevelDB stores it (``log_format.md``): 32 bits."""
    import numpy as np

    crc, tables = 0xFFFFFFFF, crc_tables()
    for start in range(0, len(raw), _STEP):
        some = np.frombuffer(raw, np.uint8, min(_STEP, len(raw) - start), start).copy()
        head = min(4, len(some))
        some[:head] ^= np.frombuffer(crc.to_bytes(4, "little"), np.uint8, head)
        added = tables[np.arange(len(some))[::-1], some]
        crc = int(np.bitwise_xor.reduce(added)) ^ crc >> 8 * head
    return masked(crc ^ 0xFFFFFFFF)


def masked(crc: int) -> int:
    """A checksum as LevelDB stores it: of data that hold checksums themselves (``log_format.md``)."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def unsnap(raw: bytes) -> bytes:
    """The bytes in a Snappy block. Raises `ValueError` or `IndexError` on what is none."""
    size, at = varint.decode(raw)
    out = bytearray()
    while at < len(raw):
        tag = raw[at]
        at += 1
        kind, length = tag & 3, (tag >> 2) + 1
        if kind == 0:
            if length > 60:
                width = length - 60
                length = int.from_bytes(raw[at : at + width], "little") + 1
                at += width
            out += raw[at : at + length]
            at += length
            continue
        if kind == 1:
            length, back = (tag >> 2 & 7) + 4, tag >> 5 << 8 | raw[at]
            at += 1
        else:
            width = 2 * kind - 2
            back = int.from_bytes(raw[at : at + width], "little")
            at += width
        for _ in range(length):
            out.append(out[-back])
    if len(out) != size:
        raise ValueError(f"{len(out)} bytes where {size} were announced")
    return bytes(out)


if TYPE_CHECKING:
    Table = bytes | mmap

_MAGIC = bytes.fromhex("57fb808b247547db")
_FOOTER = 48
_TRAILER = 5  # a block's kind, and its checksum
_PLAIN, _SNAPPY = 0, 1
_NUMBER = struct.Struct("<I")
_NO_META = _NUMBER.pack(0) + _NUMBER.pack(1)  # a block without an entry, as stands where there is no filter
_FILTER_MARK = 11  # the last byte of a filter block; that of a data block stored plain is 0
_INNER = 8  # bytes behind a key: when it was written, and whether to be or to be deleted

_LOG_BLOCK = 32768
_LOG_HEAD = struct.Struct("<IHB")  # checksum, length, kind
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4

_COMPARATOR, _LOG, _COMPACTED, _DELETED, _ADDED = 1, 2, 5, 6, 7  # what a list of files tells
# In which numbers and texts; a log, the next file and how many rows there ever were are a number each.
_FIELDS = {_COMPARATOR: "t", _COMPACTED: "nt", _DELETED: "nn", _ADDED: "nnntt"}


class Block(NamedTuple):
    """Where a block of a table lies in bytes, without its trailer, and a key that none of its own is
    above."""

    offset: int
    size: int
    last: bytes = b""


class Loss(NamedTuple):
    """What a file lost: how many of its bytes, and between which keys (``upto`` None: the greatest). Of a log
    that goes on behind it ``is_end`` is false: rows that every batch writes anew are there."""

    file: str
    lost: int
    of: int
    above: bytes = b""
    upto: bytes | None = None
    is_end: bool = True

    def has(self, key: bytes) -> bool:
        """Whether the newest row of *key* may be lost."""
        return self.is_end and self.above < key and (self.upto is None or key <= self.upto)


class ListedTable(NamedTuple):
    """A table that should be there: its size in bytes, its least and its greatest key."""

    size: int
    first: bytes
    last: bytes


# -- tables ------------------------------------------------------------------------------------------------


def read_index(table: Table) -> list[Block] | None:
    """The blocks of a table with rows, by its index; None where footer or index are damaged."""
    try:
        footer = table[-_FOOTER:]
        if footer[-len(_MAGIC) :] != _MAGIC:
            return None
        _, at = _handle(footer, 0)  # of the meta block
        place, _ = _handle(footer, at)
        if not _is_sound(table, place):
            return None
        entries = _entries(_contents(table, place))
        return [_handle(value, 0)[0]._replace(last=key[:-_INNER]) for key, value in entries]
    except (ValueError, IndexError, struct.error):
        return None


def losses(name: str, table: bytes, blocks: list[Block]) -> list[Loss]:
    """What the damaged blocks of a table held, as far as their neighbours tell; nothing where all are sound.

    *name* is that of the file, *blocks* what `read_index` found in *table*. Checks every block.
    """
    return [
        Loss(name, block.size, len(table), before.last, block.last)
        for before, block in pairwise([Block(0, 0), *blocks])
        if not _is_sound(table, block)
    ]


def mended_table(name: str, table: bytes, listed: ListedTable | None) -> tuple[bytes, Loss | None]:
    """The sound blocks at the beginning of a *table* that has lost its index, with another index.

    Its keys are none, and its last block is damaged, so that LevelDB's repair finds the rows, and writes them
    into a table of its own. What stands behind a damaged block cannot be found. *listed* is what the list of
    files says of the table.
    """
    blocks, is_end = _walk(table)
    end = blocks[-1].offset + blocks[-1].size + _TRAILER if blocks else 0
    last = b""
    for key, _ in _entries(_contents(table, blocks[-1])) if blocks else ():
        last = key[:-_INNER]
    loss: Loss | None = None
    if not is_end and (listed is None or last < listed.last):
        size = max(len(table), listed.size if listed is not None else 0)
        loss = Loss(name, size - end, size, last, listed.last if listed is not None else None)
    return _with_index(table[:end], blocks), loss


def _with_index(rows: bytes, blocks: list[Block]) -> bytes:
    out = bytearray(rows)
    bad = Block(len(out), len(_NO_META))
    out += _NO_META + bytes(_TRAILER)
    meta = _append(out, _NO_META)
    index = bytearray()
    restarts = []
    for number, block in enumerate([*blocks, bad]):
        restarts.append(len(index))
        key, value = number.to_bytes(2 * _INNER, "big"), _encoded(block)
        index += varint.encode(0) + varint.encode(len(key)) + varint.encode(len(value)) + key + value
    index += b"".join(map(_NUMBER.pack, [*restarts, len(restarts)]))
    footer = _encoded(meta) + _encoded(_append(out, bytes(index)))
    out += footer.ljust(_FOOTER - len(_MAGIC), b"\0") + _MAGIC
    return bytes(out)


def _walk(table: bytes) -> tuple[list[Block], bool]:
    """The blocks with rows up to the first that is damaged, each of which ends where a checksum fits; and
    whether these are all there were."""
    blocks: list[Block] = []
    start = 0
    while (end := _end_of_block(table, start)) is not None:
        contents = table[start:end]
        if table[end] == _PLAIN and (contents == _NO_META or contents[-1] == _FILTER_MARK):
            return blocks, True
        blocks.append(Block(start, end - start))
        start = end + _TRAILER
    return blocks, False


def _end_of_block(table: Table, start: int) -> int | None:
    crc, crcs = 0xFFFFFFFF, crc_tables()[0].tolist()
    for at in range(start, len(table) - 4):
        byte = table[at]
        crc = crcs[(crc ^ byte) & 255] ^ crc >> 8
        # The kind of a block stands behind it, and has its share in the checksum.
        if (
            byte <= _SNAPPY
            and at > start
            and table[at + 1 : at + 5] == _NUMBER.pack(masked(crc ^ 0xFFFFFFFF))
        ):
            return at
    return None


def _is_sound(table: Table, block: Block) -> bool:
    end = block.offset + block.size + 1
    stored = table[end : end + 4]
    return len(stored) == 4 and checksum(table[block.offset : end]) == _NUMBER.unpack(stored)[0]


def _contents(table: Table, block: Block) -> bytes:
    stored = table[block.offset : block.offset + block.size]
    return unsnap(stored) if table[block.offset + block.size] == _SNAPPY else stored


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys of a block, each with what LevelDB writes behind it, and their values."""
    end = len(block) - 4 - 4 * _NUMBER.unpack_from(block, len(block) - 4)[0]
    at, key = 0, b""
    while at < end:
        shared, at = varint.decode(block, at)
        own, at = varint.decode(block, at)
        size, at = varint.decode(block, at)
        key = key[:shared] + block[at : at + own]
        yield key, block[at + own : at + own + size]
        at += own + size


def _handle(data: bytes, at: int) -> tuple[Block, int]:
    offset, at = varint.decode(data, at)
    size, at = varint.decode(data, at)
    return Block(offset, size), at


def _encoded(block: Block) -> bytes:
    return varint.encode(block.offset) + varint.encode(block.size)


def _append(out: bytearray, contents: bytes) -> Block:
    block = Block(len(out), len(contents))
    kind = bytes((_PLAIN,))
    out += contents + kind + _NUMBER.pack(checksum(contents + kind))
    return block


def table_name(number: int) -> str:
    """The file of the table of that number, as LevelDB names it."""
    return f"{number:06}.ldb"


def log_name(number: int) -> str:
    """The file of the log of that number, as LevelDB names it."""
    return f"{number:06}.log"


class Catalogue(NamedTuple):
    """The files of a database as far as its list of them is legible: tables by number, and the number of the
    log that is written (0: none)."""

    tables: dict[int, ListedTable]
    log: int


def read_catalogue(manifest: bytes, is_checked: bool = True) -> Catalogue | None:
    """None where anything of it is damaged: it would name files that are gone for good.

    Who has LevelDB read it afterwards need not have the checksums checked; that takes 5 us an entry.
    """
    tables: dict[int, ListedTable] = {}
    log = 0
    try:
        for edit in _log_records(manifest, is_checked):
            if isinstance(edit, int):
                return None
            log = _apply(edit, tables, log)
    except (ValueError, IndexError):
        return None
    return Catalogue(tables, log)


def _apply(edit: bytes, tables: dict[int, ListedTable], log: int) -> int:
    """Change *tables* as an entry of the list says; the number of the log by now."""
    at = 0

    def number() -> int:
        nonlocal at
        value, at = varint.decode(edit, at)
        return value

    def text() -> bytes:
        nonlocal at
        size = number()
        at += size
        return edit[at - size : at]

    while at < len(edit):
        tag, numbers, texts = number(), [], []
        for kind in _FIELDS.get(tag, "n"):
            if kind == "n":
                numbers.append(number())
            else:
                texts.append(text())
        if tag == _LOG:
            log = numbers[0]
        elif tag == _DELETED:
            tables.pop(numbers[1], None)
        elif tag == _ADDED:
            (_, name, size), (first, last) = numbers, texts
            tables[name] = ListedTable(size, first[:-_INNER], last[:-_INNER])
    return log


# -- logs --------------------------------------------------------------------------------------------------


def mended_log(name: str, log: bytes) -> tuple[bytes, Loss | None]:
    """*log* without the log records that are damaged, and what these were; half of one at its end, as a kill
    leaves it, is none."""
    out = bytearray()
    lost = 0
    is_end = False
    for record in _log_records(log):
        is_end = isinstance(record, int)
        if isinstance(record, int):
            lost += record
        else:
            _write_log_record(out, record)
    return bytes(out), Loss(name, lost, len(log), is_end=is_end) if lost else None


def _log_records(log: bytes, is_checked: bool = True) -> Iterator[bytes | int]:
    """Every log record that is whole, and in between how many bytes belong to none."""
    record: bytearray | None = None
    for kind, data in _pieces(log, is_checked):
        if record and kind in (_WHOLE, _FIRST):
            yield len(record)
        if kind in (_WHOLE, _FIRST):
            record = bytearray(data)
        elif kind in (_MIDDLE, _LAST) and record is not None:
            record += data
        else:
            yield _LOG_HEAD.size + len(data) + len(record or b"")
            record = None
        if record is not None and kind in (_WHOLE, _LAST):
            yield bytes(record)
            record = None


def _pieces(log: bytes, is_checked: bool = True) -> Iterator[tuple[int, bytes]]:
    """The parts of log records in order, with their kind: 0 for bytes that are none."""
    for start in range(0, len(log), _LOG_BLOCK):
        at, end = start, min(start + _LOG_BLOCK, len(log))
        while at + _LOG_HEAD.size <= end:
            stored, length, kind = _LOG_HEAD.unpack_from(log, at)
            data = log[at + _LOG_HEAD.size : at + _LOG_HEAD.size + length]
            at += _LOG_HEAD.size + length
            if at > end:
                if end < len(log):
                    yield 0, log[at - length : end]
                break
            is_sound = not is_checked or checksum(bytes((kind,)) + data) == stored
            yield kind if is_sound and _WHOLE <= kind <= _LAST else 0, data


def _write_log_record(out: bytearray, record: bytes) -> None:
    at = 0
    while True:
        room = _LOG_BLOCK - len(out) % _LOG_BLOCK
        if room < _LOG_HEAD.size:
            out += bytes(room)
            continue
        piece = record[at : at + room - _LOG_HEAD.size]
        is_first, is_last = at == 0, at + len(piece) == len(record)
        kind = (_WHOLE if is_last else _FIRST) if is_first else (_LAST if is_last else _MIDDLE)
        out += _LOG_HEAD.pack(checksum(bytes((kind,)) + piece), len(piece), kind) + piece
        at += len(piece)
        if is_last:
            return
