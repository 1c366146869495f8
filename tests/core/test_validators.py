"""Conditional requests: the server's own words go back, and come back."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_frontier.core.parse.headers import (
    LONGEST_DATE,
    LONGEST_TAG,
    answers,
    if_none_match,
    is_same_tag,
    kept,
)


def kept_tag(lines: list[bytes]) -> bytes:
    return kept(lines, ())[0]


def kept_date(lines: list[bytes]) -> bytes:
    return kept((), lines)[1]


INSIDE = st.binary(max_size=40).map(lambda data: bytes(b for b in data if b == 0x21 or 0x23 <= b != 0x7F))
TAGS = st.builds(lambda weak, inside: weak + b'"' + inside + b'"', st.sampled_from((b"", b"W/")), INSIDE)
SUFFIXES = (b"-gzip", b";gzip", b"--gzip", b"-br", b";br", b"-zstd", b"-deflate")


@given(TAGS)
@example(b'""')
@example(b'W/"with blanks, and commas"')
def test_a_tag_goes_back_as_it_came(tag: bytes) -> None:
    assert kept_tag([tag]) == tag
    assert if_none_match(tag).startswith(tag)
    assert answers(tag, tag)


@pytest.mark.parametrize("tag", [b"abc", b"5d8c72a5edda8d6a:0", b"W-1", b"a*b"])
def test_a_tag_without_quotes_is_kept_for_the_server_that_wrote_it(tag: bytes) -> None:
    assert kept_tag([tag]) == tag


@pytest.mark.parametrize(
    "line", [b"", b"*", b"W/", b"W/abc", b"a b", b'"a', b'"a\r\nX: y"', b'"a", "b"', b'"a"b"']
)
def test_what_is_no_tag_is_not_kept(line: bytes) -> None:
    assert kept_tag([line]) == b""


@given(st.integers(LONGEST_TAG - 4, LONGEST_TAG + 4))
def test_a_tag_is_kept_up_to_its_longest(size: int) -> None:
    tag = b'"' + b"x" * (size - 2) + b'"'
    assert kept_tag([tag]) == (tag if size <= LONGEST_TAG else b"")


def test_lines_that_contradict_each_other_say_nothing() -> None:
    assert kept_tag([b'"a"', b'"a"']) == b'"a"'
    assert kept_tag([b'"a"', b'"b"']) == b""
    assert kept_tag([]) == b""


@pytest.mark.parametrize(
    "line", [b"Sat, 29 Oct 1994 19:43:31 GMT", b"Sat, 29-Oct-94 19:43:31 +0200", b"1700000000"]
)
def test_a_date_goes_back_byte_for_byte_whatever_its_form(line: bytes) -> None:
    assert kept_date([line]) == line


@pytest.mark.parametrize("line", [b"", b"a\r\nX: y", b"\xff", b"x" * (LONGEST_DATE + 1)])
def test_what_cannot_be_sent_is_no_date(line: bytes) -> None:
    assert kept_date([line]) == b""


@given(
    INSIDE.filter(lambda inside: inside[-1:] != b"-" and if_none_match(b'"%b"' % inside).count(b'"') == 2),
    st.sampled_from(SUFFIXES),
)
@example(b"2d-5a", b"-gzip")
def test_the_suffix_of_a_compressor_is_sent_with_and_without(inside: bytes, suffix: bytes) -> None:
    tag, plain = b'"' + inside + suffix + b'"', b'"' + inside + b'"'
    assert if_none_match(tag) == tag + b", " + plain
    assert if_none_match(b"W/" + tag) == b"W/" + tag + b", W/" + plain
    assert is_same_tag(tag, plain)
    assert answers(tag, plain)


@pytest.mark.parametrize("tag", [b'"gzip-1"', b'"gzip"', b'"a-gzip-2"', b'"agzip"'])
def test_what_is_no_suffix_stays(tag: bytes) -> None:
    assert if_none_match(tag) == tag


@given(TAGS, TAGS)
def test_tags_are_compared_weakly(one: bytes, other: bytes) -> None:
    assert is_same_tag(b"W/" + one.removeprefix(b"W/"), one.removeprefix(b"W/"))
    assert is_same_tag(one, other) == is_same_tag(other, one)


def test_a_304_about_other_content_answers_nothing() -> None:
    assert not answers(b'"a"', b'"b"')
    assert answers(b'"a"', b'W/"a"')
    assert answers(b'"a"', b"")
    assert answers(b"", b'"b"')  # asked by date alone
