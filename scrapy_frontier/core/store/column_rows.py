"""What a scorer keeps of all pages, in pieces: a row holds 16 bits for each of some thousand pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CODE = ">u2"


def column_prefix(name: str) -> bytes:
    """Where the rows of a scorer's column *name* begin."""
    return keys.COLUMN + name.encode() + b"\0"


def column_key(name: str, first: int) -> bytes:
    """Key of the piece of a scorer's column *name* that begins with page *first*."""
    return column_prefix(name) + keys.id_bytes(first)


def split_column_key(key: bytes) -> tuple[str, int] | None:
    """Name and first page of a piece; None for a key that none has."""
    name, _, first = key[1:].partition(b"\0")
    is_one = name and len(first) == keys.ID_BYTES
    return (name.decode(errors="replace"), keys.id_in(first)) if is_one else None


def encode_codes(codes: NDArray[np.uint16]) -> bytes:
    """The value of a piece: two bytes a page."""
    return codes.astype(_CODE).tobytes()


def decode_codes(value: bytes) -> NDArray[np.uint16]:
    """The numbers of a piece, as many as are whole."""
    return np.frombuffer(value[: len(value) // 2 * 2], _CODE).astype(np.uint16)
