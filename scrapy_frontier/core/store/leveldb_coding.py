"""How LevelDB makes sure of its bytes, and how it packs them: CRC-32C, and Snappy."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from . import varint

if TYPE_CHECKING:
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
