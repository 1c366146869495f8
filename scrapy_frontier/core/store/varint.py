"""Unsigned integers as bytes, seven bits each, least significant first (LEB128)."""

from __future__ import annotations

_SMALL = [bytes((value,)) for value in range(128)]
_MAX_BYTES = 10  # 64 bits in groups of seven


def encode(value: int) -> bytes:
    """Encode ``0 <= value < 2**64`` in one to ten bytes; raise `ValueError` outside that range."""
    if 0 <= value < 128:
        return _SMALL[value]
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{value} does not fit an unsigned 64-bit varint")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode(encoded: bytes, offset: int = 0) -> tuple[int, int]:
    """Decode the varint at *offset*: its value and the offset behind it.

    Raises `ValueError` when the bytes end early or describe more than 64 bits.
    """
    value = 0
    for index in range(_MAX_BYTES):
        if offset + index >= len(encoded):
            raise ValueError("varint ends early")
        byte = encoded[offset + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value >= 1 << 64:
                break
            return value, offset + index + 1
    raise ValueError("varint longer than 64 bits")
