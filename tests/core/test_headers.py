"""Headers, dates and validators, as browsers and the RFCs read them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from vectors import NOW, cases, clock

from scrapy_frontier.core.parse.headers import (
    LONGEST_DATE,
    LONGEST_TAG,
    LONGEST_VALUE,
    MOST_SECONDS,
    if_none_match,
    kept,
    location,
    retry_after,
    timestamp,
)

# --- dates ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("sitemaps", "lastmod_w3c") + cases("sitemaps", "rss_dates"))
def test_date_vectors(case: dict[str, Any]) -> None:
    assert timestamp(case["input"]) == (timestamp(case["expected"]) if case["expected"] else None)


HTTP_DATES = [each for each in cases("retry_after", "http_dates") if each.values[0]["expected"]]


@pytest.mark.parametrize("case", HTTP_DATES)
def test_http_date_vectors(case: dict[str, Any]) -> None:
    assert timestamp(case["input"]) == timestamp(case["expected"])


@given(st.integers(0, 4 * 10**9), st.integers(0, 999_999), st.sampled_from([0, 90, -330]))
def test_a_date_is_what_it_was_before_it_was_written(second: int, micro: int, zone: int) -> None:
    date = datetime.fromtimestamp(second, timezone(timedelta(minutes=zone))).replace(microsecond=micro)
    assert timestamp(date.isoformat()) == pytest.approx(second + micro / 1e6, abs=1e-6)
    assert timestamp(date.strftime("%a, %d %b %Y %H:%M:%S %z")) == second


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2024-05-06+02:00", "2024-05-05T22:00"),  # a date of the sitemap schema (xsd:date) may have a zone
        ("2024-05-06T24:00:00Z", "2024-05-07T00:00"),  # the end of a day (xsd:dateTime)
        ("Mon, 06 May 2024 07:08:00 +02:00", "2024-05-06T05:08"),
        ("Mon May 06 2024 07:08:00 GMT+0200 (Central European Summer Time)", "2024-05-06T05:08"),
        ("Mon May  6 07:08:00 +0200 2024", "2024-05-06T05:08"),
        ("Mon, 06 May 2024 07:08:00 PDT", "2024-05-06T14:08"),
        ("Mon, 06 May 2024 07:08:00 CEST", "2024-05-06T07:08"),  # no zone of RFC 822
        ("May 6, 2024 7:08:00 PM", "2024-05-06T19:08"),
        ("6 May 2024 12:08 a.m. GMT", "2024-05-06T00:08"),
        ("Mon, 06 May 2024", "2024-05-06T00:00"),
    ],
)
def test_dates_are_read_as_they_are_written_in_the_wild(text: str, iso: str) -> None:
    assert timestamp(text) == datetime.fromisoformat(iso + "+00:00").timestamp()


@pytest.mark.parametrize(
    "text",
    [
        *("2024-01-01T24:00:01Z", "2024-01-01T00:00+25:00", "Mon, 01 Jan 2024 00:00:00 +9999"),
        *("2024-01-01T24:30", "12:30", "May", "Mon, 06 May", "1714979280", "06/05/2024", "20240101"),
        *("", "0", "2024-13", "2024-02-30", "1994-11-06T08:49:61Z", "Sun, 06 Nov 1994 08:49:61 GMT"),
        *("2024-01-01T00:00:00." + "1" * 100_000, " " * 100 + "2024-01-01"),
    ],
)
def test_no_date_is_no_date(text: str) -> None:
    assert timestamp(text) is None


WORDS = st.sampled_from(["Mon", ",", " ", "31", "Feb", "2024", "24:00:60", "+9999", "-0", "PM", "GMT", ":"])


@given(
    st.one_of(st.text(max_size=40), st.lists(WORDS, max_size=8).map("".join)),
    st.floats(0, 4e9),
)
def test_no_text_breaks_the_readers(text: str, now: float) -> None:
    assert isinstance(timestamp(text), float | None)
    seconds = retry_after(text, now)
    assert seconds is None or 0.0 <= seconds <= MOST_SECONDS


# --- Retry-After, Location -----------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("retry_after", "cases"))
def test_retry_after_vectors(case: dict[str, Any]) -> None:
    assert retry_after(case["values"][0], clock(case)) == case["delay"]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("\t007 ", 7.0),
        ("9" * 6_000, float(MOST_SECONDS)),
        ("Tuesday, 14-Nov-23 22:14:20 GMT", 60.0),
        ("Tue, 14 Nov 2023 23:14:20 +0100", 60.0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", float(MOST_SECONDS)),
        *((value, None) for value in ("-5", "+5", "1.5", "5 seconds", "0x10", "\u0665", "", "tomorrow")),
        *((value, None) for value in ("Tue, 31 Feb 2023 00:00:00 GMT", "2023-11-14")),
    ],
)
def test_retry_after_is_a_number_a_date_or_nothing(value: str, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds


@pytest.mark.parametrize("case", cases("redirects", "location"))
def test_location_vectors(case: dict[str, Any]) -> None:
    assert location(case["location"], case["base"]) == case["expected"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("/b", "https://h/b#here"),
        ("/b#", "https://h/b#"),
        ("  /\u00fc ", "https://h/%C3%BC#here"),
        ("ftp://h/x", None),
        ("http://", None),
        ("/" + "a" * LONGEST_VALUE, None),
    ],
)
def test_a_location_inherits_the_fragment_of_its_request(value: str, expected: str | None) -> None:
    assert location(value, "https://h/dir/a?x#here") == expected


# --- validators -------------------------------------------------------------------------------------------

INSIDE = st.binary(max_size=40).map(lambda data: bytes(b for b in data if b == 0x21 or 0x23 <= b != 0x7F))
TAGS = st.builds(lambda weak, inside: weak + b'"' + inside + b'"', st.sampled_from((b"", b"W/")), INSIDE)
SUFFIXES = (b"-gzip", b";gzip", b"--gzip", b"-br", b";br", b"-zstd", b"-deflate")


@given(TAGS)
@example(b'""')
@example(b'W/"with blanks, and commas"')
@example(b"5d8c72a5edda8d6a:0")
@example(b"a*b")
def test_a_tag_goes_back_as_it_came(tag: bytes) -> None:
    assert kept([tag], ())[0] == tag
    assert if_none_match(tag).startswith(tag)


@pytest.mark.parametrize(
    ("tags", "dates"),
    [
        *(([line], []) for line in (b"", b"*", b"W/", b"W/abc", b"a b", b'"a', b'"a\r\nX: y"', b'"a", "b"')),
        ([b'"' + b"x" * LONGEST_TAG + b'"'], []),
        ([b'"a"', b'"b"'], []),
        *(([], [line]) for line in (b"", b"a\r\nX: y", b"\xff", b"x" * (LONGEST_DATE + 1))),
    ],
)
def test_what_cannot_be_sent_is_not_kept(tags: list[bytes], dates: list[bytes]) -> None:
    assert kept(tags, dates) == (b"", b"")


@pytest.mark.parametrize("line", [b"Sat, 29-Oct-94 19:43:31 +0200", b"1700000000"])
def test_a_date_goes_back_byte_for_byte_whatever_its_form(line: bytes) -> None:
    assert kept([b'"a"', b'"a"'], [line]) == (b'"a"', line)


@given(
    INSIDE.filter(lambda inside: inside[-1:] != b"-" and if_none_match(b'"%b"' % inside).count(b'"') == 2),
    st.sampled_from(SUFFIXES),
)
@example(b"2d-5a", b"-gzip")
def test_the_suffix_of_a_compressor_is_sent_with_and_without(inside: bytes, suffix: bytes) -> None:
    tag, plain = b'"' + inside + suffix + b'"', b'"' + inside + b'"'
    assert if_none_match(tag) == tag + b", " + plain
    assert if_none_match(b"W/" + tag) == b"W/" + tag + b", W/" + plain


def test_what_is_no_suffix_stays() -> None:
    for tag in (b'"gzip-1"', b'"gzip"', b'"a-gzip-2"', b'"agzip"'):
        assert if_none_match(tag) == tag
