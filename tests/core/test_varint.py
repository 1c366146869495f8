"""Varints: small numbers take little room, any 64-bit number fits, and nothing else is accepted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_frontier.core.store.link_rows import decode_varint, encode_varints

NUMBERS = st.integers(0, (1 << 64) - 1)


def encoded_alone(value: int) -> bytes:
    return encode_varints(np.array([value], np.uint64))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16_383, "ff7f"),
        (16_384, "808001"),
        ((1 << 64) - 1, "ffffffffffffffffff01"),
    ],
)
def test_golden_bytes(value: int, encoded: str) -> None:
    assert encoded_alone(value).hex() == encoded
    assert decode_varint(bytes.fromhex(encoded)) == (value, len(encoded) // 2)


@given(NUMBERS, st.binary(max_size=4), st.binary(max_size=4))
def test_a_number_comes_back_from_the_midst_of_other_bytes(value: int, before: bytes, behind: bytes) -> None:
    encoded = encoded_alone(value)
    assert decode_varint(before + encoded + behind, len(before)) == (value, len(before) + len(encoded))


@given(NUMBERS)
def test_a_number_takes_a_byte_for_each_seven_bits(value: int) -> None:
    assert len(encoded_alone(value)) == max(1, -(-value.bit_length() // 7))


@given(NUMBERS)
def test_an_encoding_cut_short_is_refused(value: int) -> None:
    encoded = encoded_alone(value)
    for length in range(len(encoded)):
        with pytest.raises(ValueError, match="ends early"):
            decode_varint(encoded[:length])


@pytest.mark.parametrize("encoded", ["ffffffffffffffffff02", "8080808080808080808001", "ff" * 10])
def test_more_than_64_bits_are_refused(encoded: str) -> None:
    with pytest.raises(ValueError, match="longer than 64 bits"):
        decode_varint(bytes.fromhex(encoded))


@given(st.binary(max_size=12), st.integers(0, 14))
def test_any_bytes_decode_or_are_refused(data: bytes, offset: int) -> None:
    try:
        value, end = decode_varint(data, offset)
    except ValueError:
        return
    assert 0 <= value < 1 << 64
    assert offset < end <= len(data)
